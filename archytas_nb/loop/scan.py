"""A reply's text → the places in it that may be calls, and the text that is left.

Thoughts in ``<think>`` blocks, and whatever follows an observation that the model made up, are no part of it. But
only outside of values: inside a string every mark is just text.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field, replace

from archytas_nb.loop.calls import Meant, Schemas, meant_by, opened, resolved
from archytas_nb.loop.code import from_code, parsed_calls
from archytas_nb.loop.events import Json
from archytas_nb.loop.exact import TOO_MUCH, UnreadableError, Work, whole
from archytas_nb.loop.lenient import Reading, read_value
from archytas_nb.loop.tags import from_tags

_THINK_MARK = re.compile(
    r"</?think(?:ing)?>|\[/?THINK\]|<\|channel\|>analysis<\|message\|>|<\|end\|>(?:<\|start\|>assistant)?"
)
_THOUGHT_ENDS = re.compile(
    r"</think(?:ing)?>|\[/THINK\]|<\|end\|>(?:<\|start\|>assistant)?|(?=<\|channel\|>)"
)
_DEBRIS = re.compile(r"""["'“”‘’]\s*\}|,\s*["'“”‘’][^"'“”‘’\n]*["'“”‘’]\s*:""")
_OBJECT = re.compile(r"""\{\s*(?:["'“”‘’}]|//|/\*|\#|[A-Za-z_][\w-]*\s*:)""")
_SPACE = re.compile(r"\s*")
_CLOSING = re.compile(r"\s*\)")
_ARRAY = re.compile(r"\[\s*\{")
_IS_MEMBER = re.compile(r"""["'“”‘’]\s*:\s*\Z""")
_ESCAPED = re.compile(r"\{\s*(?:\\n)*\s*\\\"")
_SEGMENT = re.compile(r"(?:[^\"\\]|\\.)*", re.DOTALL)
_LOOKS_LIKE_CALL = re.compile(
    r"""["'“‘]?\b(?:tool|tool_input|arguments|action|function|name|final_answer|fail_task)["'”’]?\s*:"""
)
_BEFORE = re.compile(r"[\s\"'`>(]*(?:```\w*|<[^<>]*>|\[[A-Z_]+\]|\w+(?: \w+)?:)*[\s\"'`]*")
_AFTER = re.compile(r"[\s\"'`\])};,.]*(?:<[^<>]*>\s*)*")
_INPUT_ENDS = re.compile(
    r"\n\s*(?:Observation|Outcome|Thought|Action|Final Answer)\b|\n\s*\n|```|\Z"
)


_OPENS = (
    r"<function=|\[TOOL_CALLS\]\s*|<\|tool_call_begin\|>\s*(?:functions\.)?|\bto=(?:functions\.)?"
    r"|<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?"
)
"""What Llama, Mistral, Kimi, gpt-oss and DeepSeek write before the name of a tool."""
_ON = (
    r">|\[CALL_ID\]\w+|\[ARGS\]|:\d+|<\|tool_call_argument_begin\|>|<\|(?:channel|constrain)\|>\s*\w+|<\|message\|>"
    r"|<｜tool▁sep｜>|```json|json\b|\s"
)
"""What may stand between the name and the input."""


@dataclass(frozen=True, slots=True)
class Found:
    """A place that may be a call.

    Attributes:
        start: Where it begins in the text.
        end: Where it ends.
        calls: What it means; empty for something broken that looks like a call.
        why: Why it cannot be read, or an empty string.
        alone: Whether it stands by itself, as a call does, and not within a sentence.
    """

    start: int
    end: int
    calls: tuple[Meant, ...] = ()
    why: str = ""
    alone: bool = True


@dataclass(slots=True)
class Scan:
    """What a text holds.

    Attributes:
        text: The text with thoughts blanked out, cut where the model made up an observation; places still fit.
        found: What may be a call, in order.
        cut: Whether it was cut.
        thoughts: What stood in ``<think>`` blocks.
    """

    text: str
    found: list[Found] = field(default_factory=list)
    cut: bool = False
    thoughts: str = ""

    @property
    def prose(self) -> str:
        """The text for a person to read."""
        return self.text.strip()


def scan(text: str, tools: Schemas) -> Scan:
    """Find what may be a call.

    Args:
        text: The reply's text.
        tools: The known tools.

    Returns:
        The scan.
    """
    result = Scan(str(whole(text)))
    work = Work(len(text))
    marks, at = _marks(tuple(sorted(tools, key=len, reverse=True))), 0
    while mark := marks.search(result.text, at):
        kind = mark.lastgroup
        if work.left < 0:
            if _LOOKS_LIKE_CALL.search(result.text, mark.start()):
                result.found.append(Found(mark.start(), len(result.text), why=TOO_MUCH))
            break
        if kind in ("think", "unthink", "mark"):
            work.left -= len(result.text) // 10  # all of the text is copied
            at = _unsaid(result, mark)
        elif kind == "over":
            at = mark.end()
            if result.found:
                result.text, result.cut = result.text[: mark.start()], True
        else:
            found = _read(result.text, mark, tools, work)
            if found is not None and (found.calls or found.why):
                result.found.append(found)
            at = found.end if found is not None else mark.end()
    return result


def _unsaid(result: Scan, mark: re.Match[str]) -> int:
    """Blank out a thought, or a mark of the model's template; return where the text goes on."""
    end = mark.end()
    if mark.lastgroup == "think":
        ends = _THOUGHT_ENDS.search(result.text, end)
        end = ends.end() if ends else len(result.text)
        _blank(result, mark.start(), end)
    elif mark.lastgroup == "unthink":  # some servers swallow the opening mark
        _blank(result, 0, end)
        result.found.clear()
    else:
        result.text = result.text[: mark.start()] + " " * (end - mark.start()) + result.text[end:]
    return end


def _blank(result: Scan, start: int, end: int) -> None:
    thought = _THINK_MARK.sub("", result.text[start:end]).strip()
    result.thoughts = "\n".join(part for part in (result.thoughts, thought) if part)
    result.text = result.text[:start] + " " * (end - start) + result.text[end:]


@functools.lru_cache(maxsize=64)
def _marks(names: tuple[str, ...]) -> re.Pattern[str]:
    known = "|".join(re.escape(name).replace("_", "[._]") for name in names) or r"(?!)"
    head = r"^[ \t`>*]*(?:(?:Action|Call|Tool|Tool call|Function call)\s*:\s*)?(?:print\()?"
    return re.compile(
        r"(?P<think><think(?:ing)?>|\[THINK\]|<\|channel\|>analysis<\|message\|>)"
        r"|(?P<unthink></think(?:ing)?>|\[/THINK\])|(?P<mark><\|channel\|>final<\|message\|>|<\|return\|>)"
        r"|(?P<over>^[ \t]*(?:Observation\b|Outcome of \w+|<\|im_start\|>|<\|eot_id\|>|(?:User|Human)\s*:))"
        rf"|(?:{head}|(?<=<tool_call>)|(?<=\|>))\[?(?P<call>(?:functions\.|tools\.)?(?:{known}))(?:\.call)?\s*\("
        rf"|^[ \t]*(?:Action|Tool)\s*:\s*`?(?P<headed>{known})`?[ \t]*\n\s*(?:Action|Tool)[ _]Input\s*:[ \t]*"
        rf"|(?:{_OPENS})(?P<tagged>{known})(?:{_ON})*(?=\{{)"
        rf"|(?:<function=|<invoke name=[\"']|<tool_call>\s*)(?P<fields>{known})[\"']?>?\s*"
        r"(?=<(?:parameter|arg_key|/))"
        r"|(?P<value>[{\[])",
        re.MULTILINE,
    )


def _read(text: str, mark: re.Match[str], tools: Schemas, work: Work) -> Found | None:
    kind, start = mark.lastgroup, mark.start()
    if kind == "value":
        return _value(text, start, tools, work)
    if kind == "call":
        return _code(text, mark.start("call"), mark.end(), tools, work)
    name = resolved(mark[str(kind)], tools)
    mended: tuple[str, ...] = ()
    try:
        if kind == "fields":
            given, end = from_tags(text, mark.end(), tools.get(name))
        else:
            given, end, mended = _headed(text, mark.end(), work)
    except UnreadableError as error:
        work.left -= len(text) - start
        return Found(start, _extent(text, mark.end(), work), why=error.why)
    given, more, fault = opened(given, tools.get(name))
    meant = Meant(name, given, mended=(*mended, *more), fault=fault)
    return Found(start, end, (meant,), alone=kind != "headed" or _alone(text, start, end, work))


def _value(text: str, start: int, tools: Schemas, work: Work) -> Found | None:
    if text[start] == "[" and not _ARRAY.match(text, start):
        return None
    if _ESCAPED.match(text, start):
        return _escaped(text, start, tools, work)
    if text[start] == "{" and not _OBJECT.match(text, start):
        return None
    if _IS_MEMBER.search(text, max(0, start - 80), start):
        return Found(start, _extent(text, start, work), why="a brace is missing before it")
    try:
        reading = read_value(text, start, may_be_open=True, work=work)
        next_object = text.find("{", reading.end)
        if _DEBRIS.search(text, reading.end, len(text) if next_object == -1 else next_object):
            raise UnreadableError(reading.end, "a brace closes it before its end")
    except UnreadableError as error:
        end = _extent(text, start, work)
        why = error.why if _LOOKS_LIKE_CALL.search(text, start, end) else ""
        why = f"{why}, at {_near(text, error.at)}" if why else ""
        return Found(start, end, why=why, alone=_alone(text, start, end, work))
    calls = tuple(meant_by(reading, tools))
    return Found(start, reading.end, calls, alone=_alone(text, start, reading.end, work))


def _escaped(text: str, start: int, tools: Schemas, work: Work) -> Found | None:
    r"""An object whose quotes are all escaped, as in ``{\"tool\": …}``: it was written inside a string."""
    segment = _SEGMENT.match(text, start)
    end = segment.end() if segment else start
    try:
        inner = json.loads(f'"{text[start:end].rstrip()}"', strict=False)
        reading = read_value(inner, work=work)
        if inner[reading.end :].strip():
            raise UnreadableError(end, "an escaped object with text after it")
    except ValueError as error:
        return Found(start, end, why=str(error))
    reading = Reading(reading.value, end, ("JSON inside a string", *reading.mended))
    return Found(start, end, tuple(meant_by(reading, tools)), alone=_alone(text, start, end, work))


def _headed(text: str, at: int, work: Work) -> tuple[Json, int, tuple[str, ...]]:
    """The input after ``Action Input:`` or ``<function=name>``: a value, or the bare text."""
    if text[at : at + 1] in tuple("{[\"'"):
        reading = read_value(text, at, work=work)
        return reading.value, reading.end, reading.mended
    ends = _INPUT_ENDS.search(text, at)
    bare = text[at : ends.start() if ends else len(text)].strip()
    try:
        reading = read_value(bare, work=work)
        return reading.value if reading.end == len(bare) else bare, at + len(bare), ()
    except UnreadableError:
        return bare or None, at + len(bare), ()


def _code(text: str, start: int, at: int, tools: Schemas, work: Work) -> Found | None:
    """Calls written as code, ``name({…})``, ``name(a=1)`` or a list of them; `at` is inside the parenthesis."""
    name = resolved(text[start : at - 1], tools)
    space = _SPACE.match(text, at)
    first = space.end() if space else at
    calls: list[Meant] = []
    end, why = _extent(text, at - 1, work), "a call written as code cannot be read"
    try:
        if text[first : first + 1] == "{":
            reading = read_value(text, first, work=work)
            if closing := _CLOSING.match(text, reading.end):
                calls, end = [Meant(name, reading.value, mended=reading.mended)], closing.end()
        if not calls:
            in_list = text[start - 1 : start] == "["
            start -= in_list
            parsed, end = parsed_calls(text, start, "]" if in_list else ")", work)
            calls = [from_code(each, tools, start) for each in parsed]
    except UnreadableError as error:
        why = error.why
    if not _alone(text, start, end, work):
        return None  # a sentence that mentions a call
    if not calls:
        return Found(start, end, why=why)
    return Found(
        start,
        end,
        tuple(replace(each, mended=(*each.mended, "a call written as code")) for each in calls),
    )


def _extent(text: str, start: int, work: Work) -> int:
    """Where something broken ends: at the brace that balances it, else at the end of the text."""
    depth = 0
    for n in range(start, len(text)):
        depth += (text[n] in "{[(") - (text[n] in "}])")
        if depth <= 0 and text[n] in "}])":
            work.left -= n + 1 - start
            return n + 1
    work.left -= len(text) - start
    return len(text)


def _alone(text: str, start: int, end: int, work: Work) -> bool:
    """Whether a place begins and ends its line, or is at least the last thing that is said."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    stop = text.find("\n", end)
    after = text[end : len(text) if stop == -1 else stop]
    work.left -= (len(before) + len(after)) // 10
    if not _AFTER.fullmatch(after):
        return False
    return bool(_BEFORE.fullmatch(before)) or not text[end:].strip("\"'`])};,. \n")


def _near(text: str, at: int) -> str:
    return repr(text[max(0, at - 20) : at + 20]) if at < len(text) else "its end"
