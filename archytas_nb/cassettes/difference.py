"""Explains why a request was not recorded: what differs from the most similar recorded request."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from archytas_nb.cassettes.file import RecordedReply
from archytas_nb.cassettes.match import Part, Request
from archytas_nb.cassettes.tape import Tape
from archytas_nb.errors import CassetteMiss, MissCause
from archytas_nb.loop.events import ANSWER, FAIL
from archytas_nb.words import shorten

_OUTCOME = re.compile(r"^Outcome of (\S+) \(\w+\):", re.MULTILINE)
_LIMIT = re.compile(r"^The run must end now: its (limit \S+)", re.MULTILINE)
_WIDTH = 96  # characters of a line of a diff


class Difference(NamedTuple):
    """What differs between two requests: an unfinished sentence, the tool, a diff."""

    cause: MissCause
    text: str
    tool: str = ""
    diff: str = ""


def explain(request: Request, tape: Tape, path: str, rerun: str) -> CassetteMiss:
    """The error for a request that is not on a tape."""
    begin = f"the cassette {path!r} has no reply to this request"
    again = f"To record what is missing, make sure that a model is available and run: {rerun}"
    nearest = nearest_reply(request, tape)
    if nearest is None:
        message = f"{begin}: it contains no recorded replies. {again}"
        return CassetteMiss(message, cause="empty")
    if nearest.key == request.key and nearest.fits(request.max_tokens):
        message = (
            f"{begin}: every recorded reply to it has been used. To start from the beginning, "
            f"restart the kernel or run %agent_cassette with the file's name. {again}"
        )
        return CassetteMiss(message, cause="asked_again")
    cause, text, tool, diff = first_difference(request, nearest.request)
    end = shorten(_text(request.messages[-1]), 100) if request.messages else ""
    lines = [f"{begin} (step {request.step}, ending with {end!r}): {text}.", diff, again]
    return CassetteMiss("\n".join(filter(None, lines)), cause=cause, tool=tool)


def nearest_reply(request: Request, tape: Tape) -> RecordedReply | None:
    """The recorded exchange that a request most probably was before something changed."""
    refs, tools = ([part.ref for part in parts] for parts in (request.messages, request.tools))

    def likeness(place: int) -> tuple[int, ...]:
        slot = tape.slots[place]
        assert isinstance(slot.entry, RecordedReply)  # noqa: S101
        other = slot.entry.request
        theirs = [part.ref for part in other.messages]
        step = request.step == other.step
        same = sum(map(str.__eq__, refs, theirs)) - abs(len(refs) - len(theirs))
        # Where an earlier question failed, the conversation is shorter, but its end is the same, or
        # at least the question: other variables may be described below it.
        last = step and (refs[-1:] == theirs[-1:]) + (_end(request) == _end(other))
        offered = len(set(tools) & {part.ref for part in other.tools})
        return slot.user is None, last, same, step, offered, place >= tape.at, -abs(place - tape.at)

    places = [n for n, slot in enumerate(tape.slots) if isinstance(slot.entry, RecordedReply)]
    found = tape.slots[max(places, key=likeness)].entry if places else None
    return found if isinstance(found, RecordedReply) else None


def first_difference(now: Request, recorded: Request) -> Difference:
    """The first difference between two requests, in an order in which one explains the next."""
    ends = (_text(each.messages[-1]) if each.messages else "" for each in (now, recorded))
    limit, old_limit = ("".join(_LIMIT.findall(end)[:1]) or "none" for end in ends)
    if limit != old_limit:
        text = f"the run ends at a different limit ({limit} now, {old_limit} in the recording)"
        return Difference("settings", text)
    names, old_names = _names(now), _names(recorded)
    for name in [n for n in (*names, *old_names) if (n in names) != (n in old_names)]:
        new = "is offered now, but was not in the recording"
        what = new if name in names else "is no longer offered"
        return Difference("tools", f"the tool {name!r} {what}", name)
    if names != old_names:
        return Difference("tools", f"the tools are offered in a different order: {names}")
    here, there = _places(now), _places(recorded)
    more = len(now.messages) - len(recorded.messages)
    is_same_end = _end(now) == _end(recorded)
    for place in dict.fromkeys([*here, *there]):
        mine, theirs = here.get(place), there.get(place)
        part = mine or theirs
        if mine == theirs or part is None:
            continue
        new, old = (_text(each) if each else "" for each in (mine, theirs))
        line, where, diff = text_difference(old, new)
        diff = f"  {place}{where}\n{diff}".rstrip()
        if more and part.kind == "message" and (is_same_end or not (mine and theirs)):
            which = f"{abs(more)} messages {'longer' if more > 0 else 'shorter'}"
            text = f"the conversation is {which} than the recorded one"
            text += ", probably as an earlier question failed or was not asked" * (more < 0)
            return Difference("conversation", text, diff=diff)
        cause, tool = _meaning(part, now, line)
        text = {
            "tool": f"the text or schema of the tool {tool!r} has changed",
            "outcome": f"the result of the tool {tool!r} differs from the recording",
            "instructions": "the system prompt or the instructions have changed",
            "question": "the question has changed",
            "settings": f"{place} has changed",
        }.get(cause, "an earlier message of the conversation has changed")
        return Difference(cause, text, tool, diff)
    if now.model != recorded.model:
        text = f"the model is {now.model!r} now, but {recorded.model!r} in the recording"
        return Difference("settings", text)
    text = f"the recorded reply was cut off at max_reply_tokens={recorded.max_tokens}"
    return Difference("settings", f"{text}, but the limit is {now.max_tokens} now")


def _places(request: Request) -> dict[str, Part]:
    """The parts of a request by their places, in the order in which they are compared."""
    tools = zip(_names(request), request.tools, strict=False)
    places = {f"the specification of {name!r}": part for name, part in tools}
    places |= {f"message {n}": part for n, part in enumerate(request.messages, start=1)}
    return places | ({"the schema of the reply": request.schema} if request.schema else {})


def _meaning(part: Part, request: Request, line: int) -> tuple[MissCause, str]:
    """What a change in a line of a part means, and the tool that it is about."""
    if part.kind == "tool":
        return "tool", str(part.content.get("function", part.content).get("name"))
    role = part.content.get("role") if part.kind == "message" else "schema"
    lines = _text(part).split("\n")
    if role == "system":  # in the text protocol it contains the texts of the tools
        heads = [each for each in lines[:line] if each and not each.startswith(" ")]
        tool = heads[-1].removesuffix(":") if heads else ""
        return ("tool", tool) if tool in _names(request) else ("instructions", "")
    if role == "tool":
        calls = [c for each in request.messages for c in each.content.get("tool_calls") or ()]
        made = [c["function"]["name"] for c in calls if c["id"] == part.content.get("tool_call_id")]
        return "outcome", made[-1] if made else ""
    if role != "user":
        return ("settings" if role == "schema" else "conversation"), ""
    tools = _OUTCOME.findall("\n".join(lines[: line + 1]))
    return ("outcome", tools[-1]) if tools else ("question", "")


def _names(request: Request) -> list[str]:
    """The names of the offered tools in their order, in both protocols."""
    if request.tools:
        specs = [part.content.get("function", part.content) for part in request.tools]
        return [str(spec.get("name", "")) for spec in specs]
    schema = request.schema.content if request.schema else None
    branches = schema.get("oneOf", [schema]) if isinstance(schema, dict) else []
    names = [each.get("properties", {}).get("tool", {}).get("const") for each in branches]
    return [str(name) for name in names if name not in (None, ANSWER, FAIL)]


def _text(part: Part) -> str:
    """A part as text: a message with its calls, or JSON."""
    if part.kind != "message":
        return json.dumps(part.content, ensure_ascii=False, indent=1)
    content = part.content.get("content")
    if isinstance(content, list):
        content = "\n".join(str(each.get("text") or json.dumps(each)) for each in content)
    calls = [call["function"] for call in part.content.get("tool_calls") or ()]
    lines = [f"{call['name']}({call['arguments']})" for call in calls]
    return "\n".join([*([str(content)] if content else []), *lines])


def _end(request: Request) -> str:
    """How the last message begins: a question without the variables that are described below it."""
    return _text(request.messages[-1]).partition("\n")[0] if request.messages else ""


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the common beginning of two texts or lists."""
    differ = (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


def text_difference(before: str, after: str) -> tuple[int, str, str]:
    """The first differing line of two texts, its place as text, and a diff of a few cut lines."""
    if before == after:
        return 0, "", ""
    old, new = before.split("\n"), after.split("\n")
    line = _common(old, new)
    at = _common("".join(old[line : line + 1]), "".join(new[line : line + 1]))
    diff = difflib.unified_diff(old, new, n=0, lineterm="")
    hunk = list(itertools.takewhile(lambda each: each[0] != "@", itertools.islice(diff, 3, None)))
    kept = [each for sign in "-+" for each in [line for line in hunk if line[0] == sign][:4]]
    lines = []
    for sign, text in ((each[0], each[1:]) for each in kept):
        begin = max(0, min(at - _WIDTH // 3, len(text) - _WIDTH))
        cut = text[begin : begin + _WIDTH]
        lines.append(f"    {sign} {'…' if begin else ''}{cut}{'…' if text[begin:] != cut else ''}")
    return line, f", line {line + 1}, character {at + 1}", "\n".join(lines)
