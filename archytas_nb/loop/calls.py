"""Finds the tool calls in the text of a reply: JSON, tags of the model, or Python code.

Thoughts before them are removed, and so is everything from an outcome that the model invented.
Tags inside a value are just text. The search takes linear time.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from archytas_nb.loop.events import Json
from archytas_nb.loop.lenient import (
    Reading,
    UnreadableError,
    canonical,
    read_json,
    replace_surrogates,
)
from archytas_nb.loop.tags import TAG_FORMS, head_pattern, read_tags

Schemas = Mapping[str, Json]
"""The known tools: name → JSON schema of the input, or None if it is not known."""

_NAME = ("tool", "toolname", "name", "functionname", "function", "action")
_INPUT = ("toolinput", "arguments", "parameters", "args", "input", "actioninput", "toolarguments",
          "params", "kwargs")  # fmt: skip
_THOUGHT = ("thought", "thoughts", "reasoning", "rationale")
_OTHER_KEYS = {*_NAME, *_INPUT, *_THOUGHT, "type", "id", "index", "toolcalls"}
_INPUT_BESIDE_NAME = "arguments next to the tool's name"

_THOUGHT_END = r"</think(?:ing)?>|\[/THINK\]"
_THOUGHTS = re.compile(
    r"\s*(?:<think(?:ing)?>|\[THINK\]|<\|channel\|>analysis<\|message\|>)"
    rf"(.*?)(?:{_THOUGHT_END}|<\|end\|>(?:<\|start\|>assistant)?|(?=<\|channel\|>)|\Z)",
    re.DOTALL,
)
_ENDS_THOUGHT = re.compile(_THOUGHT_END)
_FINAL = re.compile(r"\A\s*<\|channel\|>final<\|message\|>|<\|return\|>\s*\Z")
_QUOTE = re.compile(r'(?<!\\)"')
_VALUE = re.compile(r"""(?:\[\s*)?\{\s*(?:["'“”‘’}]|//|/\*|\#|[A-Za-z_][\w-]*\s*:)""")
_KEY_BEFORE = re.compile(r"""["'“”‘’]\s*:\s*\Z""")
_DEBRIS = re.compile(r"""["'“”‘’]\s*\}|,\s*["'“”‘’][^"'“”‘’\n]*["'“”‘’]\s*:""")
_LOOKS_LIKE_CALL = re.compile(
    r"""\b(?:thought|tool|tool_input|arguments|action|function|name|final_answer|fail_task)["'”’]?\s*:"""
)
_LINE_BEFORE = re.compile(r"[\s\"'`>(]*(?:```\w*|<[^<>]*>|\[[A-Z_]+\]|\w+(?: \w+)?:)*[\s\"'`]*\Z")
_LINE_AFTER = re.compile(r"(?:[ \t\r\"'`\])};,.]|<[^<>\n]*>)*+(?=\n|\Z)")
_NOTHING_AFTER = re.compile(r"[\s\"'`\])};,.]*\Z")


@functools.lru_cache(maxsize=64)
def _start_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Matches the beginning of an invented outcome, a call or a value; the group tells which."""
    known = "|".join(re.escape(name).replace("_", "[._]") for name in names) or r"(?!)"
    over = r"Observation\b|Outcome of \w+|<\|im_start\|>|<\|eot_id\|>|(?:User|Human)\s*:"
    head = r"<function=|\[TOOL_CALLS\]\s*|\bto=|^[ \t]*(?:Action|Tool)\s*:\s*`?"
    after = (
        r"[>\s`]|\[CALL_ID\]\w+|\[ARGS\]|<\|[^<>|\n]*\|>|(?:commentary|json)\b"
        r"|(?:Action|Tool)[ _]Input\s*:"
    )
    label = r"(?:Action|(?:Tool |Function )?Call|Tool)\s*:\s*"
    line = rf"^(?:[ \t`>*\[]|<[^<>\n]*>)*+(?:{label})?(?:print\()?"
    return re.compile(
        r"(?:^|(?=[<\[{t]))(?:"  # most characters cannot begin a match
        rf"(?P<over>^[ \t]*(?:{over}))"
        rf"|{head_pattern(known)}"
        rf"|(?:{head})(?:functions\.)?(?P<head>{known})(?:{after})*+"
        r"(?:(?=\{)|(?<=Input:)|(?<=Input: ))"
        rf"|{line}(?:functions\.|tools\.)?(?P<code>{known})(?:\.call)?(?=\()"
        r"|(?P<value>[{\[]))",
        re.MULTILINE,
    )


@dataclass(frozen=True, slots=True)
class Call:
    """A call in a reply."""

    name: str
    input: Json = None
    thought: str = ""
    repairs: tuple[str, ...] = ()  # descriptions

    @property
    def key(self) -> str:
        """A text that identical calls share."""
        return f"{self.name}:{canonical(self.input)}"


@dataclass(frozen=True, slots=True)
class CallSpan:
    """A part of the text with calls; or with none, and `why` tells why it cannot be read."""

    start: int
    end: int
    calls: tuple[Call, ...] = ()
    why: str = ""
    known: bool = False  # whether it has a call of a known tool
    standalone: bool = True  # tagged as a call or on its own line, so not part of a sentence


@dataclass(slots=True)
class FoundCalls:
    """The calls and the thoughts in a text."""

    text: str  # without thoughts, up to an invented outcome
    thoughts: str
    spans: list[CallSpan] = field(default_factory=list)  # in order
    had_invented_outcome: bool = False  # whether one was removed


def split_thoughts(text: str) -> tuple[str, str]:
    """Split a text into its content and the thoughts before it."""
    text, at = text if text.isascii() else replace_surrogates(text), 0
    thoughts = []
    while thought := _THOUGHTS.match(text, at):
        thoughts.append(thought[1])
        at = thought.end()
    # Some servers omit the opening tag. In a string, the closing tag is just text.
    ends = _ENDS_THOUGHT.finditer(text, at) if "</think" in text or "[/THINK]" in text else ()
    for end in ends:
        before = text[at : end.start()]
        if len(thoughts) > 100 or len(_QUOTE.findall(before)) % 2:
            break
        thoughts.append(before)
        at = end.end()
    body = _FINAL.sub("", text[at:]) if "<|" in text else text[at:]
    return body.strip(), "\n".join(filter(None, map(str.strip, thoughts)))


def find_calls(text: str, tools: Schemas) -> FoundCalls:
    """Find everything in a text that may be a call."""
    found = FoundCalls(*split_thoughts(text))
    text, at = found.text, 0
    only_data = False  # whether no value from here on looks like a call
    dotless = text.replace(".", "_")
    if not ("{" in text or "[" in text or any(name in dotless for name in tools)):
        return found
    starts = _start_pattern(tuple(sorted(tools, key=len, reverse=True)))
    while match := starts.search(text, at):
        start, at = match.span()
        if match["over"] and found.spans:
            found.text, found.had_invented_outcome = text[:start], True
            break
        if match["over"] or (match["value"] and only_data):
            continue
        try:
            span = _call_at(text, match, tools)
        except UnreadableError as error:
            if match["value"] and not _LOOKS_LIKE_CALL.search(text, start):
                only_data = True
                continue
            near = repr(text[max(start, error.at - 20) : error.at + 20])
            why = f"{error.why}, at {near}" if error.at > start else error.why
            known = any(name in text[start:] for name in tools)
            is_cut_off = not text[error.at :].strip()
            standalone = not match["value"] or is_cut_off or _begins_line(text, start)
            found.spans.append(CallSpan(start, len(text), (), why, known, standalone))
            break
        if span is not None:
            at = max(at, span.end)
            found.spans += [span] if span.calls else []
    return found


def _call_at(text: str, match: re.Match[str], tools: Schemas) -> CallSpan | None:
    """The call at a match; None if it is just text."""
    start, at = match.start(), match.end()
    tags = next((form for form in TAG_FORMS if match[form.name]), None)
    if tags is not None:
        name = resolve_name(match[tags.name], tools)
        reading = read_tags(text, at, tags, tools.get(name))
        call = Call(name, reading.value, repairs=reading.repairs)
        return CallSpan(start, reading.end, (call,), known=True)
    if not match["value"]:
        name = resolve_name(match["head"] or match["code"], tools)
        line_end = text.find("\n", at)
        last = text.rfind(")", at, None if line_end == -1 else line_end)
        if match["code"] and last != -1 and not _LINE_AFTER.match(text, last + 1):
            return None  # a sentence that mentions a call, not a call
        reading = read_json(text, at)
        tool_input = reading.value
        if match["code"]:
            tool_input = _named_arguments(tool_input, tools.get(name))
        tool_input, repairs = decode_input(tool_input, tools.get(name))
        form = ("a call written as code",) if match["code"] else ()
        call = Call(name, tool_input, repairs=(*form, *reading.repairs, *repairs))
        return CallSpan(start, reading.end, (call,), known=True)
    if not _VALUE.match(text, start):
        return None
    if _KEY_BEFORE.search(text, max(0, start - 80), start):
        raise UnreadableError(start, "a name or a brace is missing before it")
    reading = read_json(text, start, allow_unclosed=True)
    following = text.find("{", reading.end)
    if _DEBRIS.search(text, reading.end, len(text) if following == -1 else following):
        raise UnreadableError(reading.end, "a brace closes it before its end")
    calls = tuple(_validated(each, reading, tools) for each in _calls_in(reading.value, tools))
    known = any(call.name in tools for call in calls)
    return CallSpan(start, reading.end, calls, "", known, _is_standalone(text, start, reading.end))


def _is_standalone(text: str, start: int, end: int) -> bool:
    """Whether a part of a text fills its line, or extends to the end of the text."""
    if not _LINE_AFTER.match(text, end):
        return False
    return _begins_line(text, start) or _NOTHING_AFTER.match(text, end) is not None


def _begins_line(text: str, start: int) -> bool:
    line = max(text.rfind("\n", max(0, start - 200), start) + 1, start - 200)
    return _LINE_BEFORE.match(text[line:start]) is not None


def resolve_name(name: str, tools: Schemas) -> str:
    """The known tool that a name refers to, or the name itself."""
    name = name.strip()
    short = re.sub(r"\A(?:functions|tools)\.|\(\)\Z|\.call\Z", "", name)
    spellings = (name, short, name.replace(".", "_"), short.replace(".", "_"))
    return next((each for each in spellings if each in tools), name)


def decode_input(tool_input: Json, schema: Json) -> tuple[Json, tuple[str, ...]]:
    """Decode an input that was sent as JSON inside a string; return it and the repairs."""
    takes_object = isinstance(schema, Mapping) and schema.get("type") == "object"
    if not (takes_object and isinstance(tool_input, str) and tool_input.lstrip()[:1] == "{"):
        return tool_input, ()
    try:
        inner = read_json(tool_input, len(tool_input) - len(tool_input.lstrip()))
    except UnreadableError as error:
        why = f"the input is JSON inside a string, and cannot be read: {error.why}"
        raise UnreadableError(0, why) from None
    if tool_input[inner.end :].strip():
        raise UnreadableError(0, "the input is a string with an object and something after it")
    return inner.value, ("JSON inside a string", *inner.repairs)


def _named_arguments(tool_input: Json, schema: Json) -> Json:
    """The arguments of a Python call; positional ones get their names from the tool's schema."""
    fields = list(_fields(schema))
    if isinstance(tool_input, dict) or not tool_input:
        return tool_input or None
    if len(tool_input) == 1 and (len(fields) < 2 or isinstance(tool_input[0], dict)):
        return tool_input[0]
    if len(tool_input) > len(fields):
        raise UnreadableError(0, "it has values without names")
    return dict(zip(fields, tool_input, strict=False))


# ── a value → its calls ───────────────────────────────────────────────────────────────────────────


def _calls_in(value: Json, tools: Schemas) -> list[Call]:
    """The calls in a value; none if it is only data."""
    if isinstance(value, list):
        return [each for item in value for each in _calls_in(item, tools)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("tool_calls"), list):
        return _calls_in(value["tool_calls"], tools)
    parts = {_normalized(key): each for key, each in value.items()}
    thought = next((parts[key] for key in _THOUGHT if isinstance(parts.get(key), str)), "")
    inputs = {key: parts[key] for key in _INPUT if key in parts}
    for key in _NAME:
        if isinstance(parts.get(key), dict):
            inner = _calls_in({**inputs, **parts[key]}, tools)
            return [replace(each, thought=each.thought or thought) for each in inner]
    names = {
        key: resolve_name(parts[key], tools)
        for key in _NAME
        if isinstance(parts.get(key), str) and parts[key].strip()
    }
    known = list(dict.fromkeys(name for name in names.values() if name in tools))
    if len(known) > 1:
        raise UnreadableError(0, f"it names both {known[0]!r} and {known[1]!r}")
    if known or (names and (inputs or {"tool", "action"} & {*names})):
        name = known[0] if known else next(iter(names.values()))
        tool_input, repairs = _input_of(value, tools.get(name), is_known=bool(known))
        return [Call(name, tool_input, thought, repairs)]
    tool_keys = [key for key in value if key in tools]
    if len(tool_keys) == 1 and all(
        _normalized(key) in _THOUGHT for key in value if key != tool_keys[0]
    ):
        repairs = ("the tool's name as a key",)
        return [Call(tool_keys[0], value[tool_keys[0]], thought, repairs=repairs)]
    return []


def _normalized(key: str) -> str:
    return re.sub("[-_ ]", "", key.casefold())


def _input_of(
    value: dict[str, Json], schema: Json, *, is_known: bool
) -> tuple[Json, tuple[str, ...]]:
    """The input of a call, under its own key or next to the tool's name, and the repairs."""
    fields, kind = _fields(schema), schema.get("type") if isinstance(schema, Mapping) else None
    tool_input = [each for key, each in value.items() if _normalized(key) in _INPUT]
    other_fields = {key: each for key, each in value.items() if _normalized(key) not in _OTHER_KEYS}
    some = [each for each in tool_input if each not in (None, {}, "")] or tool_input[:1]
    if not is_known:
        return next(iter(some), other_fields or None), ()
    if some:
        if len(some) > 1 and len(set(map(canonical, some))) > 1:
            raise UnreadableError(0, "it gives two different inputs")
        for key in other_fields if isinstance(some[0], dict) else ():
            if key in fields and key not in some[0]:
                raise UnreadableError(0, f"{key!r} stands beside the tool_input, not in it")
        return some[0], ()
    if not other_fields or kind == "null":
        return None, ()
    if kind == "string" and len(other_fields) == 1:
        return next(iter(other_fields.values())), ("an input under an unexpected key",)
    if fields and set(schema.get("required", ())) <= set(other_fields) <= set(fields):
        return other_fields, (_INPUT_BESIDE_NAME,)
    raise UnreadableError(0, "it has no tool_input")


def _validated(call: Call, reading: Reading, tools: Schemas) -> Call:
    """Decode the input of a call; if it was repaired, it must match the tool's schema."""
    if call.name not in tools:
        return replace(call, repairs=(*reading.repairs, *call.repairs))
    schema = tools[call.name]
    tool_input, repairs = decode_input(call.input, schema)
    repairs = (*reading.repairs, *call.repairs, *repairs)
    if not repairs:
        return call
    if reading.unclosed and (tool_input is None or _INPUT_BESIDE_NAME in repairs):
        raise UnreadableError(0, "it is cut off")
    fields = _fields(schema)
    for key in tool_input if isinstance(tool_input, dict) else ():
        if key not in fields and (fields or key in ("thought", "tool", "tool_input")):
            raise UnreadableError(0, f"{key!r} is no argument of {call.name!r}")
    last = (
        next(reversed(tool_input.values()), None)
        if isinstance(tool_input, dict) and tool_input
        else None
    )
    if reading.unclosed and last and isinstance(last, dict):
        raise UnreadableError(0, "a brace is missing, and there is more than one place for it")
    return replace(call, input=tool_input, repairs=repairs)


def _fields(schema: Json) -> Mapping[str, Json]:
    return schema.get("properties", {}) if isinstance(schema, Mapping) else {}
