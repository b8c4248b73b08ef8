"""Finds the tool calls in the text of a reply: JSON, tags of the model, or Python code.

Thoughts before them are removed, and so is everything from an outcome that the model invented.
Tags inside a value are just text. The search takes linear time.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from archytas_nb.loop.events import Json
from archytas_nb.loop.reading.lenient import (
    Reading,
    UnreadableError,
    canonical,
    read_json,
)
from archytas_nb.loop.reading.tags import TAG_FORMS, TagForm, head_pattern, read_tags
from archytas_nb.loop.reading.thoughts import HAS_NONE, split_thoughts

Schemas = Mapping[str, Json]
"""The known tools: name → JSON schema of the input, or None if it is not known."""

_NAME = ("tool", "toolname", "name", "functionname", "function", "action")
_INPUT = ("toolinput", "arguments", "parameters", "args", "input", "actioninput", "toolarguments",
          "params", "kwargs")  # fmt: skip
_THOUGHT = ("thought", "thoughts", "reasoning", "rationale")
_OTHER_KEYS = {*_NAME, *_INPUT, *_THOUGHT, "type", "id", "index", "toolcalls"}
_INPUT_BESIDE_NAME = "arguments next to the tool's name"

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


def find_calls(text: str, tools: Schemas) -> FoundCalls:
    """Find everything in a text that may be a call."""
    found = _without_thoughts(text)
    if not _may_have_calls(found.text, tools):
        return found
    text = found.text
    at = 0
    only_data = False  # whether no value from here on looks like a call
    starts = _start_pattern(tuple(sorted(tools, key=len, reverse=True)))
    while match := starts.search(text, at):
        start, at = match.span()
        if match["over"]:
            if found.spans:
                found.text = text[:start]
                found.had_invented_outcome = True
                break
            continue
        if match["value"] and only_data:
            continue
        try:
            span = _call_at(text, match, tools)
        except UnreadableError as error:
            if match["value"] and not _LOOKS_LIKE_CALL.search(text, start):
                only_data = True
                continue
            found.spans.append(_unreadable_span(text, match, error, tools))
            break
        if span is not None:
            at = max(at, span.end)
            if span.calls:
                found.spans.append(span)
    return found


def _without_thoughts(text: str) -> FoundCalls:
    """A text apart from the thoughts before it; most replies begin with a brace and have none."""
    reply = text.strip()
    return FoundCalls(reply, "") if HAS_NONE.match(reply) else FoundCalls(*split_thoughts(text))


def _may_have_calls(text: str, tools: Schemas) -> bool:
    """Whether a text has what every call has: a bracket, or the name of a tool."""
    if "{" in text or "[" in text:
        return True
    dotless = text.replace(".", "_")
    return any(name in dotless for name in tools)


def _unreadable_span(
    text: str, match: re.Match[str], error: UnreadableError, tools: Schemas
) -> CallSpan:
    """The part of a text from a call that cannot be read; what follows may belong to it."""
    start = match.start()
    why = error.why
    if error.at > start:
        near = text[max(start, error.at - 20) : error.at + 20]
        why = f"{why}, at {near!r}"
    known = any(name in text[start:] for name in tools)
    is_cut_off = not text[error.at :].strip()
    standalone = not match["value"] or is_cut_off or _begins_line(text, start)
    return CallSpan(start, len(text), (), why, known, standalone)


def _call_at(text: str, match: re.Match[str], tools: Schemas) -> CallSpan | None:
    """The call at a match; None if it is just text."""
    for form in TAG_FORMS:
        if match[form.name]:
            return _tagged_call(text, match, form, tools)
    if match["head"]:
        return _call_after_head(text, match, tools)
    if match["code"]:
        return _call_as_code(text, match, tools)
    return _calls_in_value(text, match.start(), tools)


def _tagged_call(text: str, match: re.Match[str], form: TagForm, tools: Schemas) -> CallSpan:
    """A call whose arguments are in tags."""
    name = resolve_name(match[form.name], tools)
    reading = read_tags(text, match.end(), form, tools.get(name))
    call = Call(name, reading.value, repairs=reading.repairs)
    return CallSpan(match.start(), reading.end, (call,), known=True)


def _call_after_head(text: str, match: re.Match[str], tools: Schemas) -> CallSpan:
    """A call whose name is in a tag or a label, and whose arguments are JSON after it."""
    name = resolve_name(match["head"], tools)
    reading = read_json(text, match.end())
    tool_input, repairs = decode_input(reading.value, tools.get(name))
    call = Call(name, tool_input, repairs=(*reading.repairs, *repairs))
    return CallSpan(match.start(), reading.end, (call,), known=True)


def _call_as_code(text: str, match: re.Match[str], tools: Schemas) -> CallSpan | None:
    """A call written as Python code; None if it is part of a sentence."""
    name = resolve_name(match["code"], tools)
    at = match.end()
    line_end = text.find("\n", at)
    if line_end == -1:
        line_end = len(text)
    last = text.rfind(")", at, line_end)
    if last != -1 and not _LINE_AFTER.match(text, last + 1):
        return None

    reading = read_json(text, at)
    arguments = _named_arguments(reading.value, tools.get(name))
    tool_input, repairs = decode_input(arguments, tools.get(name))
    call = Call(name, tool_input, repairs=("a call written as code", *reading.repairs, *repairs))
    return CallSpan(match.start(), reading.end, (call,), known=True)


def _calls_in_value(text: str, start: int, tools: Schemas) -> CallSpan | None:
    """The calls in the JSON value at an index; None if there is no value."""
    if not _VALUE.match(text, start):
        return None
    if _KEY_BEFORE.search(text, max(0, start - 80), start):
        raise UnreadableError(start, "a name or a brace is missing before it")
    reading = read_json(text, start, allow_unclosed=True)
    following = text.find("{", reading.end)
    if following == -1:
        following = len(text)
    if _DEBRIS.search(text, reading.end, following):
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
    """The known tool that a name refers to, or the name itself.

    Servers and models put something before or after it: then it is the only tool that is part of
    it, as in ``functions.add:0`` or ``default_api.add``.
    """
    name = name.strip()
    for spelling in (name, name.replace(".", "_")):
        if spelling in tools:
            return spelling
    if any(map(str.isspace, name)):
        return name
    spellings = f"{name} {name.partition('.')[2].replace('.', '_')}"
    parts = {part for part in re.split(r"[^\w-]+", spellings) if part in tools}
    return parts.pop() if len(parts) == 1 else name


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
        calls = []
        for item in value:
            calls += _calls_in(item, tools)
        return calls
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("tool_calls"), list):
        return _calls_in(value["tool_calls"], tools)

    parts = {_normalized(key): each for key, each in value.items()}
    thought = next((parts[key] for key in _THOUGHT if isinstance(parts.get(key), str)), "")
    inputs = {key: parts[key] for key in _INPUT if key in parts}
    # {"function": {"name": …, "arguments": …}}, as in function calling, but written as text.
    for key in _NAME:
        if isinstance(parts.get(key), dict):
            inner = _calls_in({**inputs, **parts[key]}, tools)
            return [replace(each, thought=each.thought or thought) for each in inner]

    name = _name_in(parts, tools, has_input=bool(inputs))
    if name:
        tool_input, repairs = _input_of(value, tools.get(name), is_known=name in tools)
        return [Call(name, tool_input, thought, repairs)]
    only_key = _only_tool_key(value, tools)
    if only_key is None:
        return []
    return [Call(only_key, value[only_key], thought, repairs=("the tool's name as a key",))]


def _name_in(parts: Mapping[str, Json], tools: Schemas, *, has_input: bool) -> str:
    """The name of the tool that an object calls; empty if it is not a call."""
    names: dict[str, str] = {}
    for key in _NAME:
        written = parts.get(key)
        if isinstance(written, str) and written.strip():
            names[key] = resolve_name(written, tools)
    known = list(dict.fromkeys(name for name in names.values() if name in tools))
    if len(known) > 1:
        raise UnreadableError(0, f"it names both {known[0]!r} and {known[1]!r}")
    if known:
        return known[0]
    if names and (has_input or {"tool", "action"} & names.keys()):
        return next(iter(names.values()))
    return ""


def _only_tool_key(value: Mapping[str, Json], tools: Schemas) -> str | None:
    """The key that is a tool's name, if all other keys are thoughts."""
    tool_keys = [key for key in value if key in tools]
    if len(tool_keys) != 1:
        return None
    others = [key for key in value if key != tool_keys[0]]
    if all(_normalized(key) in _THOUGHT for key in others):
        return tool_keys[0]
    return None


def _normalized(key: str) -> str:
    return re.sub("[-_ ]", "", key.casefold())


def _input_of(
    value: dict[str, Json], schema: Json, *, is_known: bool
) -> tuple[Json, tuple[str, ...]]:
    """The input of a call, under its own key or next to the tool's name, and the repairs."""
    given = [each for key, each in value.items() if _normalized(key) in _INPUT]
    beside = {key: each for key, each in value.items() if _normalized(key) not in _OTHER_KEYS}
    inputs = [each for each in given if each not in (None, {}, "")] or given[:1]
    # Nothing is known of the arguments of an unknown tool: the error about its name comes later.
    if inputs and not is_known:
        return inputs[0], ()
    if not is_known:
        return beside or None, ()
    if inputs:
        _check_input(inputs, beside, schema)
        return inputs[0], ()

    if not beside or _type_of(schema) == "null":
        return None, ()
    if _type_of(schema) == "string" and len(beside) == 1:
        return next(iter(beside.values())), ("an input under an unexpected key",)
    fields = _fields(schema)
    if fields and set(schema.get("required", ())) <= set(beside) <= set(fields):
        return beside, (_INPUT_BESIDE_NAME,)
    raise UnreadableError(0, "it has no tool_input")


def _check_input(inputs: Sequence[Json], beside: Mapping[str, Json], schema: Json) -> None:
    """Raise UnreadableError if a call gives two inputs, or an argument next to its input."""
    if len(inputs) > 1 and len(set(map(canonical, inputs))) > 1:
        raise UnreadableError(0, "it gives two different inputs")
    if not isinstance(inputs[0], dict):
        return
    fields = _fields(schema)
    for key in beside:
        if key in fields and key not in inputs[0]:
            raise UnreadableError(0, f"{key!r} stands beside the tool_input, not in it")


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
    if isinstance(tool_input, dict):
        _check_keys(tool_input, call.name, schema)
        values = list(tool_input.values())
        ends_with_object = bool(values) and isinstance(values[-1], dict) and bool(values[-1])
        if reading.unclosed and ends_with_object:
            raise UnreadableError(0, "a brace is missing, and there is more than one place for it")
    return replace(call, input=tool_input, repairs=repairs)


def _check_keys(arguments: Mapping[str, Json], name: str, schema: Json) -> None:
    """Raise UnreadableError for an argument that the tool does not have."""
    fields = _fields(schema)
    for key in arguments:
        is_of_the_call = key in ("thought", "tool", "tool_input")
        if key not in fields and (fields or is_of_the_call):
            raise UnreadableError(0, f"{key!r} is no argument of {name!r}")


def _fields(schema: Json) -> Mapping[str, Json]:
    """The properties of a schema."""
    if isinstance(schema, Mapping):
        fields: Mapping[str, Json] = schema.get("properties", {})
        return fields
    return {}


def _type_of(schema: Json) -> Json:
    """The type that a schema names, or None."""
    if isinstance(schema, Mapping):
        return schema.get("type")
    return None
