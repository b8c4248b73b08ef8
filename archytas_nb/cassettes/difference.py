"""Why a request is not the recorded one: the first difference between two requests, and what kind of cause it is.

Pure. It knows the form of messages and of both protocols; it knows no file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from archytas_nb.cassettes.text import first_line, text_difference
from archytas_nb.cassettes.values import Part, Request
from archytas_nb.errors import MissCause
from archytas_nb.loop.events import Json

_OUTCOME = re.compile(r"^Outcome of (\S+) \((\w+)\):", re.MULTILINE)
_LIMIT = re.compile(r"^The run must end now: its limit \S+", re.MULTILINE)
_ENDS = ("final_answer", "fail_task")


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a request and a recorded one.

    Attributes:
        cause: What kind of cause it is.
        said: The cause in a sentence without its end, naming what has changed.
        where: Which part it stands in, for a person.
        lines: A short text diff; may be empty.
        tool: The tool that the cause is about; empty for none.
    """

    cause: MissCause
    said: str
    where: str = ""
    lines: str = ""
    tool: str = ""


def first_difference(now: Request, recorded: Request) -> Difference:
    """Find the first difference that explains the others.

    Args:
        now: What is asked.
        recorded: What was asked when it was recorded; another request, by its fingerprint.
    """
    return (
        _limit(now, recorded)
        or _tools(now, recorded)
        or _system(now, recorded)
        or _schema(now, recorded)
        or _messages(now, recorded)
        or _settings(now, recorded)
    )


def _limit(now: Request, recorded: Request) -> Difference | None:
    """A limit that is reached at another place: the last turn has neither tools nor the usual end."""
    mine, theirs = (
        _LIMIT.findall(content_text(each.messages[-1])) if each.messages else []
        for each in (now, recorded)
    )
    if mine == theirs:
        return None
    here, there = (each[0] if each else "no limit is reached" for each in (mine, theirs))
    return Difference(
        "settings", "a limit of the run is reached elsewhere", "", f"    - {there}\n    + {here}"
    )


def _tools(now: Request, recorded: Request) -> Difference | None:
    """Tools that came, went or, in function calling, read otherwise."""
    here, there = _names(now), _names(recorded)
    for name in here:
        if name not in there:
            return Difference(
                "tools", f"the tool {name!r} is offered, and was not in the recording", tool=name
            )
    for name in there:
        if name not in here:
            return Difference("tools", f"the tool {name!r} is not offered any more", tool=name)
    specs = {_name(part): part for part in recorded.tools}
    for part in now.tools:
        name = _name(part)
        if part.ref != specs[name].ref:
            where, lines = text_difference(_pretty(specs[name].content), _pretty(part.content))
            said = f"the text or schema of the tool {name!r} has changed"
            return Difference("tool", said, f"the specification of {name!r}, {where}", lines, name)
    if here != there:
        return Difference("tools", f"the tools are offered in another order: {', '.join(here)}")
    return None


def _system(now: Request, recorded: Request) -> Difference | None:
    """The system prompt; in the text protocol the texts of the tools stand in it."""
    if not now.messages or not recorded.messages:
        return None
    mine, theirs = now.messages[0], recorded.messages[0]
    if mine.ref == theirs.ref or mine.content.get("role") != "system":
        return None
    before, after = content_text(theirs), content_text(mine)
    where, lines = text_difference(before, after)
    tool = _tool_at(first_line(before, after), (before, _names(recorded)), (after, _names(now)))
    if tool:
        said = f"the text of the tool {tool!r} has changed"
        return Difference("tool", said, f"the system prompt, {where}", lines, tool)
    return Difference(
        "instructions", "the system prompt or the instructions have changed", where, lines
    )


def _schema(now: Request, recorded: Request) -> Difference | None:
    """What the reply must look like."""
    mine = None if now.schema is None else now.schema.content
    theirs = None if recorded.schema is None else recorded.schema.content
    if mine == theirs:
        return None
    here, there = _branches(mine), _branches(theirs)
    for name in here:
        if name in there and here[name] != there[name]:
            where, lines = text_difference(_pretty(there[name]), _pretty(here[name]))
            if name in _ENDS:
                said = f"what {name} takes has changed: another type of answer is asked for"
                return Difference("settings", said, f"the schema of {name}, {where}", lines)
            said = f"the schema of the tool {name!r} has changed"
            return Difference("tool", said, f"the schema of {name!r}, {where}", lines, name)
    where, lines = text_difference(_pretty(theirs), _pretty(mine))
    return Difference(
        "settings", "the schema of the reply has changed", f"the schema, {where}", lines
    )


def _messages(now: Request, recorded: Request) -> Difference | None:
    """The conversation behind the system prompt."""
    here, there = len(now.messages), len(recorded.messages)
    pairs = enumerate(zip(now.messages, recorded.messages, strict=False))
    place = next((n for n, (mine, theirs) in pairs if mine.ref != theirs.ref), min(here, there))
    both_end_alike = here != there and now.messages[-1:] == recorded.messages[-1:]
    if place < min(here, there) and not both_end_alike:
        return _message(now, place, recorded.messages[place])
    if here == there:
        return None
    longer, word = (now, "more") if here > there else (recorded, "less")
    said = f"the conversation is {'longer' if here > there else 'shorter'} than the recorded one"
    extra = content_text(longer.messages[place])
    lines = f"    {'now' if here > there else 'recorded'}: {_short(extra)}"
    where = f"{abs(here - there)} messages {word}; the first of them:"
    return Difference("conversation", said, where, lines)


def _message(now: Request, place: int, theirs: Part) -> Difference:
    mine = now.messages[place]
    before, after = content_text(theirs), content_text(mine)
    where, lines = text_difference(before, after)
    where = f"message {place + 1} of {len(now.messages)}, {where}"
    role = mine.content.get("role")
    if role != theirs.content.get("role"):
        said = f"the recording has a message of the {theirs.content.get('role')} where one of the {role} is sent"
        return Difference("conversation", said, where, lines)
    tool, call = _called(now, place, before, after)
    if tool:
        said = f"the outcome of the tool {tool!r} is another than in the recording"
        return Difference("outcome", f"{said} (the call {call})", where, lines, tool)
    if role == "user":
        earlier = (
            "" if place >= len(now.messages) - 1 else "an earlier question of this conversation, "
        )
        return Difference("question", "the question has changed", f"{earlier}{where}", lines)
    return Difference("conversation", "the model said something else earlier", where, lines)


def _settings(now: Request, recorded: Request) -> Difference:
    if now.model != recorded.model:
        return Difference(
            "settings",
            f"the model {now.model!r} is asked, and the recording is of {recorded.model!r}",
        )
    return Difference(
        "settings",
        f"the recorded reply was cut at max_reply_tokens={recorded.max_tokens}, and it is {now.max_tokens} now",
    )


def _called(now: Request, place: int, before: str, after: str) -> tuple[str, str]:
    """Which tool's outcome a message tells where it first differs, and its call; empty where it tells none."""
    message, said = now.messages[place].content, now.messages[place - 1].content if place else {}
    if message.get("role") == "tool":
        for earlier in reversed(now.messages[:place]):
            for call in earlier.content.get("tool_calls") or ():
                if call["id"] == message.get("tool_call_id"):
                    function = call["function"]
                    return function[
                        "name"
                    ], f"{function['name']}({_short(function['arguments'], 120)})"
        return "", ""
    headings = list(_OUTCOME.finditer(after))
    if message.get("role") != "user" or said.get("role") != "assistant" or not headings:
        return "", ""
    at = next(
        (n for n, (a, b) in enumerate(zip(after, before, strict=False)) if a != b), len(after)
    )
    number = max(sum(heading.start() <= at for heading in headings) - 1, 0)
    name = headings[number][1]
    calls = [
        line for line in content_text(now.messages[place - 1]).split("\n") if line.startswith("{")
    ]
    given = ""
    if number < len(calls):
        given = _short(calls[number].partition('"tool_input": ')[2].removesuffix("}"), 120)
    return name, f"{name}({given})"


def _names(request: Request) -> list[str]:
    """The tools that are offered, in their order, whatever the protocol."""
    if request.tools:
        return [_name(part) for part in request.tools]
    return [
        name
        for name in _branches(request.schema.content if request.schema else None)
        if name not in _ENDS
    ]


def _name(part: Part) -> str:
    return str(part.content.get("function", part.content).get("name", ""))


def _branches(schema: Json) -> dict[str, Json]:
    """The branches of the text protocol's schema, by tool."""
    if not isinstance(schema, dict):
        return {}
    branches = schema.get("oneOf", [schema])
    named = {}
    for branch in branches:
        name = branch.get("properties", {}).get("tool", {}).get("const")
        if name is not None:
            named[str(name)] = branch
    return named


def _tool_at(line: int, *texts: tuple[str, list[str]]) -> str:
    """In which tool's text a line stands; each text comes with the names of its tools.

    A line that was taken away from the end of a tool's text is in the next one already, so the earlier counts.
    """
    found = []
    for text, names in texts:
        within, since = "", -1
        for number, each in enumerate(text.split("\n")[: line + 1]):
            if each and not each.startswith(" "):
                name = each.removesuffix(":")
                within, since = (name if name in names else ""), number
        found.append((since, within))
    return min(found)[1]


def content_text(part: Part) -> str:
    """A message as text: what is said, and the calls."""
    message = part.content
    content = message.get("content")
    if isinstance(content, list):
        pieces = [piece.get("text") or _pretty(piece) for piece in content]
        content = "\n".join(str(piece) for piece in pieces)
    calls = [
        f"{c['function']['name']}({c['function']['arguments']})"
        for c in message.get("tool_calls") or ()
    ]
    return "\n".join([*([str(content)] if content else []), *calls])


def _pretty(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _short(text: str, most: int = 200) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= most else f"{one_line[: most - 1]}…"
