"""Explains why a request was not recorded: what differs from the most similar recorded request."""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from archytas_nb.cassettes.file import RecordedReply
from archytas_nb.cassettes.match import Request, RequestPart
from archytas_nb.cassettes.tape import Tape
from archytas_nb.errors import CassetteMiss, MissCause
from archytas_nb.loop.events import ANSWER, FAIL, Json
from archytas_nb.words import truncate_line

_OUTCOME = re.compile(r"^Outcome of (\S+) \(\w+\):", re.MULTILINE)
_LIMIT = re.compile(r"^The run must end now: its (limit \S+)", re.MULTILINE)
_LINES = 4  # of a diff, removed and added ones each
_WIDTH = 96  # characters of such a line


class RequestDifference(NamedTuple):
    """The difference of two requests: an unfinished sentence, the tool, a diff."""

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
    found = first_difference(request, nearest.request)
    end = truncate_line(_last_text(request), 100)
    lines = [f"{begin} (step {request.step}, ending with {end!r}): {found.text}."]
    if found.diff:
        lines.append(found.diff)
    lines.append(again)
    return CassetteMiss("\n".join(lines), cause=found.cause, tool=found.tool)


def nearest_reply(request: Request, tape: Tape) -> RecordedReply | None:
    """The recorded exchange that a request most probably was before something changed."""
    refs = [part.ref for part in request.messages]
    tools = {part.ref for part in request.tools}

    def likeness(place: int) -> tuple[int, ...]:
        slot = tape.slots[place]
        assert isinstance(slot.entry, RecordedReply)  # noqa: S101
        other = slot.entry.request
        theirs = [part.ref for part in other.messages]
        is_unused = slot.user is None
        is_same_step = request.step == other.step
        same = sum(map(str.__eq__, refs, theirs)) - abs(len(refs) - len(theirs))
        # Where an earlier question failed, the conversation is shorter, but its end is the same, or
        # at least the question: other variables may be described below it.
        last = 0
        if is_same_step:
            last = (refs[-1:] == theirs[-1:]) + (_end(request) == _end(other))
        offered = len(tools & {part.ref for part in other.tools})
        is_ahead = place >= tape.at
        distance = abs(place - tape.at)
        return is_unused, last, same, is_same_step, offered, is_ahead, -distance

    places = [n for n, slot in enumerate(tape.slots) if isinstance(slot.entry, RecordedReply)]
    if not places:
        return None
    found = tape.slots[max(places, key=likeness)].entry
    assert isinstance(found, RecordedReply)  # noqa: S101
    return found


def first_difference(now: Request, recorded: Request) -> RequestDifference:
    """The first difference between two requests, in an order in which one explains the next."""
    return (
        _limit_difference(now, recorded)
        or _tools_difference(now, recorded)
        or _part_difference(now, recorded)
        or _settings_difference(now, recorded)
    )


def _limit_difference(now: Request, recorded: Request) -> RequestDifference | None:
    """Another limit at which the run must end."""
    limit = _limit(now)
    old_limit = _limit(recorded)
    if limit == old_limit:
        return None
    text = f"the run ends at a different limit ({limit} now, {old_limit} in the recording)"
    return RequestDifference("settings", text)


def _limit(request: Request) -> str:
    found = _LIMIT.search(_last_text(request))
    return found[1] if found else "none"


def _tools_difference(now: Request, recorded: Request) -> RequestDifference | None:
    """A tool that is offered in one of the requests only, or another order of the tools."""
    names = _names(now)
    old_names = _names(recorded)
    for name in names:
        if name not in old_names:
            text = f"the tool {name!r} is offered now, but was not in the recording"
            return RequestDifference("tools", text, name)
    for name in old_names:
        if name not in names:
            return RequestDifference("tools", f"the tool {name!r} is no longer offered", name)
    if names != old_names:
        return RequestDifference("tools", f"the tools are offered in a different order: {names}")
    return None


def _part_difference(now: Request, recorded: Request) -> RequestDifference | None:
    """The first part that differs, or that only one of the requests has."""
    here = _places(now)
    there = _places(recorded)
    more = len(now.messages) - len(recorded.messages)
    is_same_end = _end(now) == _end(recorded)
    for place in dict.fromkeys([*here, *there]):
        mine = here.get(place)
        theirs = there.get(place)
        part = mine or theirs
        if mine == theirs or part is None:
            continue
        line, where, diff = text_difference(_text(theirs), _text(mine))
        diff = f"  {place}{where}\n{diff}".rstrip()
        is_only_in_one = mine is None or theirs is None
        if more and part.kind == "message" and (is_same_end or is_only_in_one):
            return RequestDifference("conversation", _longer_or_shorter(more), diff=diff)
        cause, tool = _meaning(part, now, line)
        return RequestDifference(cause, _changed(cause, tool, place), tool, diff)
    return None


def _longer_or_shorter(more: int) -> str:
    if more > 0:
        return f"the conversation is {more} messages longer than the recorded one"
    return (
        f"the conversation is {-more} messages shorter than the recorded one, probably as an "
        "earlier question failed or was not asked"
    )


def _changed(cause: MissCause, tool: str, place: str) -> str:
    """The meaning of a changed part, as an unfinished sentence."""
    texts = {
        "tool": f"the text or schema of the tool {tool!r} has changed",
        "outcome": f"the result of the tool {tool!r} differs from the recording",
        "instructions": "the system prompt or the instructions have changed",
        "question": "the question has changed",
        "settings": f"{place} has changed",
    }
    return texts.get(cause, "an earlier message of the conversation has changed")


def _settings_difference(now: Request, recorded: Request) -> RequestDifference:
    """Another model; or another limit of the reply, the only difference that is left then."""
    if now.model != recorded.model:
        text = f"the model is {now.model!r} now, but {recorded.model!r} in the recording"
        return RequestDifference("settings", text)
    text = f"the recorded reply was cut off at max_reply_tokens={recorded.max_tokens}"
    return RequestDifference("settings", f"{text}, but the limit is {now.max_tokens} now")


def _places(request: Request) -> dict[str, RequestPart]:
    """The parts of a request by their places, in the order in which they are compared."""
    tools = zip(_names(request), request.tools, strict=False)
    places = {f"the specification of {name!r}": part for name, part in tools}
    places |= {f"message {n}": part for n, part in enumerate(request.messages, start=1)}
    if request.schema is not None:
        places["the schema of the reply"] = request.schema
    return places


def _meaning(part: RequestPart, request: Request, line: int) -> tuple[MissCause, str]:
    """The meaning of a change in a line of a part, and its tool."""
    if part.kind == "tool":
        return "tool", str(_specification(part).get("name"))
    if part.kind == "schema":
        return "settings", ""
    role = part.content.get("role")
    lines = _text(part).split("\n")
    if role == "system":
        # In the text protocol it contains the texts of the tools.
        heads = [each for each in lines[:line] if each and not each.startswith(" ")]
        tool = heads[-1].removesuffix(":") if heads else ""
        if tool in _names(request):
            return "tool", tool
        return "instructions", ""
    if role == "tool":
        return "outcome", _called(request, part.content.get("tool_call_id"))
    if role == "user":
        tools = _OUTCOME.findall("\n".join(lines[: line + 1]))
        if tools:
            return "outcome", tools[-1]
        return "question", ""
    return "conversation", ""


def _called(request: Request, call_id: Json) -> str:
    """The tool of a call; empty where no message has the call."""
    name = ""
    for message in request.messages:
        for call in message.content.get("tool_calls") or ():
            if call["id"] == call_id:
                name = call["function"]["name"]
    return name


def _specification(part: RequestPart) -> dict[str, Json]:
    """The specification of a tool, also if it is in a field of its own."""
    found: dict[str, Json] = part.content.get("function", part.content)
    return found


def _names(request: Request) -> list[str]:
    """The names of the offered tools in their order, in both protocols."""
    if request.tools:
        return [str(_specification(part).get("name", "")) for part in request.tools]
    if request.schema is None or not isinstance(request.schema.content, dict):
        return []
    schema = request.schema.content
    branches = schema.get("oneOf", [schema])
    names = [each.get("properties", {}).get("tool", {}).get("const") for each in branches]
    return [str(name) for name in names if name not in (None, ANSWER, FAIL)]


def _text(part: RequestPart | None) -> str:
    """A part as text: a message with its calls, or JSON; empty where there is none."""
    if part is None:
        return ""
    if part.kind != "message":
        return json.dumps(part.content, ensure_ascii=False, indent=1)
    content = part.content.get("content")
    if isinstance(content, list):
        content = "\n".join(str(each.get("text") or json.dumps(each)) for each in content)
    lines = []
    if content:
        lines.append(str(content))
    for call in part.content.get("tool_calls") or ():
        function = call["function"]
        lines.append(f"{function['name']}({function['arguments']})")
    return "\n".join(lines)


def _last_text(request: Request) -> str:
    """The text of the last message; empty where there is none."""
    return _text(request.messages[-1]) if request.messages else ""


def _end(request: Request) -> str:
    """How the last message begins: a question without the variables that are described below it."""
    return _last_text(request).partition("\n")[0]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the common beginning of two texts or lists."""
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return place
    return min(len(one), len(other))


def text_difference(before: str, after: str) -> tuple[int, str, str]:
    """The first differing line of two texts, its place as text, and a diff of a few cut lines."""
    if before == after:
        return 0, "", ""
    old = before.split("\n")
    new = after.split("\n")
    line = _common(old, new)
    at = _common("".join(old[line : line + 1]), "".join(new[line : line + 1]))
    hunk = _first_hunk(old, new)
    lines = []
    for sign in "-+":
        kept = [each[1:] for each in hunk if each[0] == sign][:_LINES]
        lines += [f"    {sign} {_cut(text, at)}" for text in kept]
    return line, f", line {line + 1}, character {at + 1}", "\n".join(lines)


def _first_hunk(old: list[str], new: list[str]) -> list[str]:
    """The lines that the first difference removes and adds, with their signs."""
    diff = difflib.unified_diff(old, new, n=0, lineterm="")
    below_heads = itertools.islice(diff, 3, None)
    return list(itertools.takewhile(lambda each: each[0] != "@", below_heads))


def _cut(text: str, at: int) -> str:
    """The part of a line around a place."""
    begin = max(0, min(at - _WIDTH // 3, len(text) - _WIDTH))
    end = begin + _WIDTH
    before = "…" if begin else ""
    after = "…" if end < len(text) else ""
    return f"{before}{text[begin:end]}{after}"
