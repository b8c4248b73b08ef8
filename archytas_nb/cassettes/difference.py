"""Explains why a request was not recorded: what differs from the most similar recorded request."""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from archytas_nb.cassettes.file import RecordedReply
from archytas_nb.cassettes.match import Part, Request
from archytas_nb.errors import CassetteMiss, MissCause
from archytas_nb.loop.events import Json

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Tape

_OUTCOME = re.compile(r"^Outcome of (\S+) \(\w+\):", re.MULTILINE)
_LIMIT = re.compile(r"^The run must end now: its limit \S+", re.MULTILINE)
_ENDS = ("final_answer", "fail_task")
_COMPARED = 2000  # characters of a message that are compared to find the most similar one
_MAX_LINES = 4  # of each side of a diff
_WIDTH = 96  # characters of a line of a diff


class Difference(NamedTuple):
    """What differs between two requests: an unfinished sentence, the place, a diff, the tool."""

    cause: MissCause
    text: str
    where: str = ""
    diff: str = ""
    tool: str = ""


def explain(request: Request, tape: Tape, path: str, rerun: str, earlier: int) -> CassetteMiss:
    """The error for a request that is not on a tape, after `earlier` others."""
    begin = f"the cassette {path!r} holds no reply to this request"
    again = f"Record what is missing, with a model at hand: {rerun}"
    nearest = nearest_reply(request, tape)
    if nearest is None:
        message = f"{begin}: no exchange with a model is recorded in it. {again}"
        return CassetteMiss(message, cause="empty")
    same = [entry for entry in tape.entries if entry.key == request.key]
    times = sum(entry.fits(request.max_tokens) for entry in same)
    if nearest.key == request.key and times:
        restart = f"%agent_cassette {shlex.quote(path)}"
        return CassetteMiss(
            f"{begin}: it was recorded {times} time{'s' if times > 1 else ''}, and is asked once "
            f"more. Where the cell was only run again, {restart} or a new kernel begins from the "
            f"start. {again}",
            cause="asked_again",
        )
    cause, text, where, diff, tool = first_difference(request, nearest.request)
    end = _text(request.messages[-1]) if request.messages else ""
    end = end if len(end) <= 100 else f"{end[:99]}…"
    lines = [f"{begin} (step {request.step}, ending with {end!r}): {text}."]
    lines += [f"  {where}" if where else "", diff]
    if earlier:
        lines.append(f"  (This is miss {earlier + 1}: the first one may have caused it.)")
    return CassetteMiss("\n".join(filter(None, [*lines, again])), cause=cause, tool=tool)


def nearest_reply(request: Request, tape: Tape) -> RecordedReply | None:
    """The recorded exchange that a request most probably was before something changed."""
    scored = []
    for place, slot in enumerate(tape.slots):
        if isinstance(slot.entry, RecordedReply):
            score = (slot.user is None, *_likeness(request, slot.entry.request))
            scored.append((score, place >= tape.at, -abs(place - tape.at), slot.entry))
    if not scored:
        return None
    scored.sort(key=lambda each: each[:3], reverse=True)
    tied = [entry for score, *_, entry in scored if score == scored[0][0]]
    return max(tied[:8], key=lambda entry: _text_likeness(request, entry.request))


def _likeness(one: Request, other: Request) -> tuple[int, ...]:
    """How similar two requests are: the last message, equal messages, the step, the tools."""
    refs = [[part.ref for part in each.messages] for each in (one, other)]
    same = sum(a == b for a, b in zip(*refs, strict=False))
    step = one.step == other.step
    # Where an earlier question failed, the conversation is shorter, but its end is the same.
    last = step and refs[0][-1:] == refs[1][-1:]
    tools = len({p.ref for p in one.tools} & {p.ref for p in other.tools})
    fewer = abs(len(one.tools) - len(other.tools))
    return last, same - abs(len(refs[0]) - len(refs[1])), step, tools - fewer


def _text_likeness(one: Request, other: Request) -> float:
    """How similar the first messages that differ are, and the last ones."""
    pairs = list(zip(one.messages, other.messages, strict=False))
    compared = [pair for pair in pairs if pair[0].ref != pair[1].ref][:1]
    compared += [(one.messages[-1], other.messages[-1])] if pairs else []
    texts = [[_text(part)[:_COMPARED] for part in pair] for pair in compared]
    return sum(difflib.SequenceMatcher(None, a, b, autojunk=False).quick_ratio() for a, b in texts)


# ── the first difference ──────────────────────────────────────────────────────────────────────────


class Section(NamedTuple):
    """A piece of a request: what a change of it means, its text, and its tool, call or message."""

    cause: MissCause
    text: str
    tool: str = ""
    call: str = ""
    ref: str = ""


def first_difference(now: Request, recorded: Request) -> Difference:
    """The first difference between two requests, in an order in which one explains the next."""
    limit, recorded_limit = _limit(now), _limit(recorded)
    if limit != recorded_limit:
        diff = f"    - {recorded_limit}\n    + {limit}"
        return Difference("settings", "a limit of the run is reached elsewhere", "", diff)
    names, recorded_names = _names(now), _names(recorded)
    for name in (*names, *recorded_names):
        if name not in recorded_names:
            text = f"the tool {name!r} is offered, and was not in the recording"
            return Difference("tools", text, tool=name)
        if name not in names:
            return Difference("tools", f"the tool {name!r} is not offered any more", tool=name)
    if names != recorded_names:
        return Difference("tools", f"the tools are offered in another order: {names}")
    here, there = _sections(now), _sections(recorded)
    is_other_length = len(now.messages) != len(recorded.messages)
    has_same_end = now.messages[-1:] == recorded.messages[-1:]
    for place in dict.fromkeys([*here, *there]):
        mine, theirs = here.get(place), there.get(place)
        if mine == theirs:
            continue
        is_cut = mine is None or theirs is None or has_same_end
        if place.startswith("message") and is_other_length and is_cut:
            return _other_length(now, recorded)
        return _changed(place, mine or Section("settings", ""), theirs)
    if now.model != recorded.model:
        text = f"the model {now.model!r} is asked, and the recording is of {recorded.model!r}"
        return Difference("settings", text)
    text = f"the recorded reply was cut at max_reply_tokens={recorded.max_tokens}"
    return Difference("settings", f"{text}, and it is {now.max_tokens} now")


def _limit(request: Request) -> str:
    """The limit that ends the run; the last turn has neither tools nor the usual end."""
    found = _LIMIT.findall(_text(request.messages[-1])) if request.messages else []
    return found[0] if found else "no limit is reached"


def _changed(place: str, section: Section, old: Section | None) -> Difference:
    where, diff = text_difference(old.text if old else "", section.text)
    cause, tool = section.cause, section.tool
    if place.startswith("message") and old and old.cause != cause:
        cause, tool = "conversation", ""
    text = {
        "tool": f"the text or schema of the tool {tool!r} has changed",
        "outcome": f"the outcome of the tool {tool!r} is another than in the recording (the call "
        f"{section.call})",
        "instructions": "the system prompt or the instructions have changed",
        "question": "the question has changed",
        "conversation": "an earlier message of the conversation has changed",
    }.get(cause, f"{place} has changed")
    return Difference(cause, text, ", ".join(filter(None, [place, where])), diff, tool)


def _other_length(now: Request, recorded: Request) -> Difference:
    refs = [[part.ref for part in each.messages] for each in (now, recorded)]
    more = len(refs[0]) - len(refs[1])
    longer, which = (now, "now") if more > 0 else (recorded, "recorded")
    return Difference(
        "conversation",
        f"the conversation is {'longer' if more > 0 else 'shorter'} than the recorded one",
        f"{abs(more)} messages {'more' if more > 0 else 'less'}; the first of them:",
        f"    {which}: {_short(_text(longer.messages[_common(*refs)]), 200)}",
    )


def _sections(request: Request) -> dict[str, Section]:
    """The pieces of a request by their places, in the order in which they are compared."""
    sections, names = {}, _names(request)
    for name, part in zip(names, request.tools, strict=False):
        place = f"the specification of {name!r}"
        sections[place] = Section("tool", _pretty(part.content), name)
    is_system = any(part.content.get("role") == "system" for part in request.messages[:1])
    if is_system:  # in the text protocol it contains the texts of the tools
        tool, blocks = "", dict[str, list[str]]()
        for line in _text(request.messages[0]).split("\n"):
            if line and not line.startswith(" "):
                tool = line.removesuffix(":") if line.removesuffix(":") in names else ""
            blocks.setdefault(tool, []).append(line)
        rest = "\n".join(blocks.pop("", []))
        for tool, lines in blocks.items():
            place = f"the text of {tool!r} in the system prompt"
            sections[place] = Section("tool", "\n".join(lines), tool)
        sections["the system prompt"] = Section("instructions", rest)
    schema = request.schema.content if request.schema else None
    for name, branch in _branches(schema).items():
        is_end = name in _ENDS
        section = Section("settings" if is_end else "tool", _pretty(branch), "" if is_end else name)
        sections[f"the schema of {name!r}"] = section
    sections["the schema of the reply"] = Section("settings", _pretty(schema))
    for number, part in enumerate(request.messages):
        if number or not is_system:
            cause: MissCause = "question" if part.content.get("role") == "user" else "conversation"
            pieces = _outcomes(request.messages, number) or [
                Section(cause, _text(part), ref=part.ref)
            ]
            for n, section in enumerate(pieces):
                sections[f"message {number + 1}{f', outcome {n + 1}' if n else ''}"] = section
    return sections


def _outcomes(messages: Sequence[Part], number: int) -> list[Section]:
    """The outcomes of tool calls in a message."""
    message, text = messages[number].content, _text(messages[number])
    if message.get("role") == "tool":
        calls = [c for part in messages[:number] for c in part.content.get("tool_calls") or ()]
        same = [c["function"] for c in calls if c["id"] == message.get("tool_call_id")]
        return [_outcome(same[-1]["name"], same[-1]["arguments"], text)] if same else []
    previous = messages[number - 1] if number else messages[number]
    if message.get("role") != "user" or previous.content.get("role") != "assistant":
        return []
    found = list(_OUTCOME.finditer(text))
    begins = [0, *(each.start() for each in found[1:]), len(text)]
    calls = [line for line in _text(previous).split("\n") if line.startswith("{")]
    given = [line.partition('"tool_input": ')[2].removesuffix("}") for line in calls]
    given += [""] * len(found)
    return [
        _outcome(each[1], given[n], text[begins[n] : begins[n + 1]]) for n, each in enumerate(found)
    ]


def _outcome(tool: str, arguments: str, text: str) -> Section:
    return Section("outcome", text, tool, f"{tool}({_short(arguments, 120)})")


def _names(request: Request) -> list[str]:
    """The names of the offered tools in their order, in both protocols."""
    if request.tools:
        specs = [part.content.get("function", part.content) for part in request.tools]
        return [str(spec.get("name", "")) for spec in specs]
    branches = _branches(request.schema.content if request.schema else None)
    return [name for name in branches if name not in _ENDS]


def _branches(schema: Json) -> dict[str, Json]:
    """The branches of the text protocol's schema, by tool."""
    branches = schema.get("oneOf", [schema]) if isinstance(schema, dict) else []
    names = [each.get("properties", {}).get("tool", {}).get("const") for each in branches]
    return {str(n): each for n, each in zip(names, branches, strict=True) if n is not None}


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────


def _text(part: Part) -> str:
    """A message as text, with its calls."""
    content = part.content.get("content")
    if isinstance(content, list):
        content = "\n".join(str(piece.get("text") or _pretty(piece)) for piece in content)
    calls = [call["function"] for call in part.content.get("tool_calls") or ()]
    lines = [f"{call['name']}({call['arguments']})" for call in calls]
    return "\n".join([*([str(content)] if content else []), *lines])


def _pretty(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _short(text: str, length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def text_difference(before: str, after: str) -> tuple[str, str]:
    """The place of the first difference of two texts (``"line 3, character 7"``), and a diff.

    The diff has a few lines, ``-`` for before and ``+`` for after; long lines are cut.
    """
    old, new = before.split("\n"), after.split("\n")
    line = _common(old, new)
    old, new = old[line:], new[line:]
    at = _common("".join(old[:1]), "".join(new[:1]))
    for tag, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            shown = [*_shown("-", old[i:j], at), *_shown("+", new[k:m], at)]
            return f"line {line + 1}, character {at + 1}", "\n".join(shown)
    return "", ""


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the common beginning of two texts or lists."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _shown(sign: str, lines: list[str], at: int) -> list[str]:
    """The first lines, each cut to its piece around a character of the first one."""
    shown = []
    for line in lines[:_MAX_LINES]:
        begin = max(0, min(at - _WIDTH // 3, len(line) - _WIDTH))
        end = begin + _WIDTH
        cut = f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"
        shown.append(f"    {sign} {cut}")
        at = 0
    return shown
