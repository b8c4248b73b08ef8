"""A value that was read → the call that it means, held against the tools that there are.

It knows the keys that models use and the schemas of the tools; it never looks at the text around.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.loop.events import Json
from archytas_nb.loop.exact import UnreadableError
from archytas_nb.loop.lenient import Reading, read_value

Schemas = Mapping[str, Json]
"""The known tools: name → JSON schema of ``tool_input``, or None where it is not known."""

_NAME = ("tool", "toolname", "name", "functionname", "function", "action")
_INPUT = (
    "toolinput",
    "arguments",
    "parameters",
    "args",
    "input",
    "actioninput",
    "toolarguments",
    "params",
    "kwargs",
)
_THOUGHT = ("thought", "thoughts", "reasoning", "rationale")
_BESIDE = {*_NAME, *_INPUT, *_THOUGHT, "type", "id", "index", "toolcalls"}


@dataclass(frozen=True, slots=True)
class Meant:
    """One call that a reply may mean.

    Attributes:
        name: The tool's name; a known one wherever the model's spelling allows it.
        input: The tool's input.
        thought: What was said with it.
        known: Whether there is such a tool.
        mended: What had to be mended, in words.
        fault: Why it cannot be run, or an empty string.
    """

    name: str
    input: Json = None
    thought: str = ""
    known: bool = True
    mended: tuple[str, ...] = ()
    fault: str = ""

    @property
    def key(self) -> str:
        """Equal for two calls that are the same."""
        return f"{self.name}:{json.dumps(self.input, sort_keys=True)}"


def meant_by(reading: Reading, tools: Schemas) -> list[Meant]:
    """The calls that a value means; none where it is only data."""
    found = _meant(reading.value, tools)
    checked = [_checked(each, reading, tools) for each in found]
    return [replace(each, mended=(*reading.mended, *each.mended)) for each in checked]


def opened(given: Json, schema: Json) -> tuple[Json, tuple[str, ...], str]:
    """Decode an input that was sent as JSON inside a string, where the tool takes an object.

    Returns:
        The input, what was mended, and the fault, empty where there is none.
    """
    takes_object = isinstance(schema, Mapping) and schema.get("type") == "object"
    if not (takes_object and isinstance(given, str) and given.lstrip()[:1] == "{"):
        return given, (), ""
    try:
        inner = read_value(given, len(given) - len(given.lstrip()))
    except UnreadableError as error:
        return given, (), f"the input is JSON inside a string, and cannot be read: {error.why}"
    if given[inner.end :].strip():
        return given, (), "the input is a string with an object and something after it"
    return inner.value, ("JSON inside a string", *inner.mended), ""


def resolved(name: str, tools: Schemas) -> str:
    """The known tool that a spelling names, or the spelling itself."""
    name = name.strip().removesuffix("()")
    short = name.removeprefix("functions.").removeprefix("tools.")
    for spelling in (
        name,
        short,
        name.replace(".", "_"),
        short.replace(".", "_"),
        short.removesuffix(".call"),
    ):
        if spelling in tools:
            return spelling
    return name


def _meant(value: Json, tools: Schemas) -> list[Meant]:
    if isinstance(value, list):
        return [each for item in value for each in _meant(item, tools)]
    if not isinstance(value, dict):
        return []
    folded = {
        key.casefold().replace("_", "").replace("-", "").replace(" ", ""): key for key in value
    }
    if isinstance(value.get("tool_calls"), list):
        return _meant(value["tool_calls"], tools)
    thought = next(
        (value[folded[key]] for key in _THOUGHT if isinstance(value.get(folded.get(key)), str)), ""
    )
    for key in _NAME:
        inner = value.get(folded.get(key, ""))
        if isinstance(inner, dict):
            beside = {folded[each]: value[folded[each]] for each in _INPUT if each in folded}
            meant = _meant({**beside, **inner}, tools)
            return [replace(each, thought=each.thought or thought) for each in meant]
    names = {
        key: resolved(value[folded[key]], tools)
        for key in _NAME
        if key in folded and isinstance(value[folded[key]], str) and value[folded[key]].strip()
    }
    known = list(dict.fromkeys(name for name in names.values() if name in tools))
    if len(known) > 1:
        return [
            Meant(known[0], thought=thought, fault=f"it names both {known[0]!r} and {known[1]!r}")
        ]
    if known:
        return [_with_input(Meant(known[0], thought=thought), value, folded, tools)]
    if names and ("tool" in names or "action" in names or any(key in folded for key in _INPUT)):
        name = next(iter(names.values()))
        return [_with_input(Meant(name, thought=thought, known=False), value, folded, tools)]
    heads = [key for key in value if key in tools]
    if len(heads) == 1 and all(
        folded_key in _THOUGHT for folded_key, key in folded.items() if key != heads[0]
    ):
        return [
            Meant(heads[0], value[heads[0]], thought, mended=("the tool's name in place of a key",))
        ]
    return []


def _with_input(
    meant: Meant, value: dict[str, Json], folded: dict[str, str], tools: Schemas
) -> Meant:
    """Find the input under one of its keys, or beside the tool's name."""
    given = [value[folded[key]] for key in _INPUT if key in folded]
    beside = {key: value[key] for short, key in folded.items() if short not in _BESIDE}
    schema = tools.get(meant.name)
    fields = _fields(schema)
    if not given:
        return _with_beside(meant, beside, schema)
    some = [each for each in given if each not in (None, {}, "")] or given[:1]
    if any(
        json.dumps(each, sort_keys=True) != json.dumps(some[0], sort_keys=True) for each in some[1:]
    ):
        return replace(meant, fault="it gives two different inputs")
    astray = [
        key for key in beside if key in fields and isinstance(some[0], dict) and key not in some[0]
    ]
    if astray:
        return replace(meant, fault=f"{astray[0]!r} stands beside the tool_input, not in it")
    return replace(meant, input=some[0])


def _with_beside(meant: Meant, beside: dict[str, Json], schema: Json) -> Meant:
    fields = _fields(schema)
    if not beside or (isinstance(schema, Mapping) and schema.get("type") == "null"):
        return meant
    if (
        isinstance(schema, Mapping)
        and not fields
        and len(beside) == 1
        and schema.get("type") == "string"
    ):
        return replace(
            meant, input=next(iter(beside.values())), mended=("an input under a key of its own",)
        )
    if fields and set(schema.get("required", ())) <= set(beside) <= fields:
        return replace(meant, input=beside, mended=("arguments beside the tool's name",))
    return replace(meant, fault="it has no tool_input")


def _checked(meant: Meant, reading: Reading, tools: Schemas) -> Meant:
    """Hold a call against its schema: where something was mended, the mending must make sense."""
    schema = tools.get(meant.name)
    given, mended, fault = opened(meant.input, schema)
    meant = replace(meant, input=given, mended=(*meant.mended, *mended), fault=meant.fault or fault)
    if meant.fault or not (reading.mended or meant.mended):
        return meant
    if not meant.known:
        return replace(meant, fault=f"there is no tool named {meant.name!r}")
    fields = _fields(schema)
    if reading.open and (given is None or "arguments beside the tool's name" in meant.mended):
        return replace(meant, fault="it is cut off")
    if isinstance(given, dict):
        strange = [
            key
            for key in given
            if key in ("thought", "tool", "tool_input") or (fields and key not in fields)
        ]
        if strange and not (fields and strange[0] in fields):
            return replace(meant, fault=f"{strange[0]!r} is no argument of {meant.name!r}")
        if reading.open and _may_close_earlier(given, fields):
            return replace(
                meant, fault="a brace is missing, and there is more than one place for it"
            )
    return meant


def _fields(schema: Json) -> set[str]:
    return set(schema.get("properties", ())) if isinstance(schema, Mapping) else set()


def _may_close_earlier(given: dict[str, Any], fields: set[str]) -> bool:
    """Whether the missing brace may as well have closed the last object inside, before its end."""
    last = next(reversed(given.values()), None)
    if not isinstance(last, dict) or len(last) < 2:
        return isinstance(last, dict) and _may_close_earlier(last, set())
    return (
        not fields
        or any(key in fields for key in list(last)[1:])
        or _may_close_earlier(last, set())
    )
