"""Forms of a tool's specification that demand less of an endpoint, and the way back from them.

A *shape* is one of these forms:

    plain   its schema without formats, patterns, bounds, and values that are not texts
    typed   its schema with types and names only
    short   its descriptions cut
    ascii   names of the tool and its parameters that every endpoint takes

The arguments of calls are validated here in any case, so a shape only means that the model knows
less of what they must be.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace

from archytas_nb.loop.events import AskModel, Json, ModelReply, WireCall
from archytas_nb.loop.function_calling import keywords, legal_name

MAX_DESCRIPTION = 1000
"""Characters of a description in the shape ``short``; OpenAI takes 1,024."""
_PLAIN = frozenset({"type", "required", "description", "additionalProperties", "enum", "$ref"})
_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_DEPTH = 12

Shapes = frozenset[tuple[str, str]]
"""Pairs of the digest of a specification and the name of a shape."""


def digest(spec: Json) -> str:
    """Identifies a tool's specification."""
    text = json.dumps(spec, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shaped(ask: AskModel, shapes: Shapes) -> AskModel:
    """The request with the tools in these shapes; the same one if none of them is about it."""
    if not shapes or not ask.tools:
        return ask
    tools = tuple(_shaped_tool(spec, shapes) for spec in ask.tools)
    names = renamed(ask.tools, shapes)
    messages = ask.messages
    if names:
        messages = tuple(_renamed_message(each, names) for each in messages)
    return replace(ask, tools=tools, messages=messages)


def unshaped(reply: ModelReply, ask: AskModel, shapes: Shapes) -> ModelReply:
    """The reply with the original names in its calls."""
    if not shapes or not reply.calls:
        return reply
    names = renamed(ask.tools, shapes)
    if not names:
        return reply
    back = {new: (old, _inverted(keys)) for old, (new, keys) in names.items()}
    calls = []
    for call in reply.calls:
        old, keys = back.get(call.name, (call.name, {}))
        calls.append(replace(call, name=old, arguments=_renamed_arguments(call, keys)))
    return replace(reply, calls=tuple(calls))


def _inverted(names: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


def _renamed_arguments(call: WireCall, keys: Mapping[str, str]) -> str:
    try:
        return json.dumps(_with_keys(json.loads(call.arguments), keys), ensure_ascii=False)
    except (ValueError, RecursionError):  # they are reported as the model wrote them
        return call.arguments


# ── schemas ───────────────────────────────────────────────────────────────────────────────────────


def _shaped_tool(spec: Json, shapes: Shapes) -> Json:
    key = digest(spec)
    function = dict(spec["function"])
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    if (key, "typed") in shapes:
        function["parameters"] = typed(schema)
    elif (key, "plain") in shapes:
        function["parameters"] = plain(schema)
    if (key, "short") in shapes:
        function = shortened(function)
    if (key, "ascii") in shapes:
        new, keys = _names_of(spec)
        function["name"] = new
        if "parameters" in function:
            function["parameters"] = _with_names(function["parameters"], keys)
    return {**spec, "function": function}


def plain(schema: Json) -> Json:
    """A schema without the keywords that endpoints often refuse."""
    return _plain(schema, _DEPTH)


def _plain(schema: Json, depth: int) -> Json:
    if not isinstance(schema, dict) or not depth:
        return {}
    found: dict[str, Json] = {}
    for name, value in schema.items():
        match name, value:
            case ("properties" | "$defs" | "definitions", dict()):
                found[name] = {key: _plain(each, depth - 1) for key, each in value.items()}
            case ("items", _):
                found[name] = _plain(value, depth - 1)
            case ("anyOf", list()):
                found[name] = [_plain(each, depth - 1) for each in value]
            case ("enum", list()) if not all(isinstance(each, str) for each in value):
                pass
            case ("additionalProperties", dict()):
                pass
            case ("const", str()):
                found["enum"] = [value]
            case _ if name in _PLAIN:
                found[name] = value
    return found


def typed(schema: Json) -> Json:
    """A schema with one type for each name, and nothing else."""
    return _typed(schema, schema, _DEPTH)


def _typed(schema: Json, root: Json, depth: int) -> Json:
    # A schema may refer to itself: below the depth, everything is text.
    if not isinstance(schema, dict) or not depth:
        return {"type": "string"}
    schema = _resolved(schema, root)
    branches = schema.get("anyOf") or schema.get("oneOf")
    if "type" not in schema and isinstance(branches, list):
        known = [_resolved(each, root) for each in branches if isinstance(each, dict)]
        # One type has to do for all alternatives: the first that is more than null.
        known = [each for each in known if each.get("type") != "null"] or known
        return _typed(known[0], root, depth - 1) if known else {"type": "string"}
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "string")
    if kind is None:
        kind = "object" if "properties" in schema else "string"
    found: dict[str, Json] = {"type": kind}
    if kind == "object":
        properties = schema.get("properties") or {}
        found["properties"] = {
            name: _typed(each, root, depth - 1) for name, each in properties.items()
        }
        if required := [name for name in schema.get("required", ()) if name in properties]:
            found["required"] = required
    if kind == "array":
        found["items"] = _typed(schema.get("items") or {}, root, depth - 1)
    return found


def _resolved(schema: Json, root: Json) -> Json:
    """The schema that a reference inside the same document names."""
    for _ in range(_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target = root
        for part in reference[2:].split("/"):
            target = target.get(part, {}) if isinstance(target, dict) else {}
        if not isinstance(target, dict):
            break
        schema = target
    return schema


def lost(before: Json, after: Json) -> dict[str, list[str]]:
    """The keywords that a schema loses, by the parameters that have them ("" for the whole)."""
    found: dict[str, list[str]] = {}
    properties = before.get("properties") if isinstance(before, dict) else None
    if not isinstance(properties, dict):
        return found
    left = after.get("properties") or {}
    for name, schema in properties.items():
        gone = sorted(set(keywords(schema)) - set(keywords(left.get(name, {}))))
        if gone:
            found[name] = gone
    if rest := sorted(set(before) - set(after) - {"$defs", "definitions"}):
        found[""] = rest
    return found


def shortened(function: Json) -> Json:
    """A function with its descriptions, and those of its parameters, cut."""

    def cut(value: Json, depth: int = _DEPTH) -> Json:
        if isinstance(value, dict) and depth:
            return {
                key: _cut(each)
                if key == "description" and isinstance(each, str)
                else cut(each, depth - 1)
                for key, each in value.items()
            }
        if isinstance(value, list) and depth:
            return [cut(each, depth - 1) for each in value]
        return value

    result: Json = cut(function)
    return result


def _cut(text: str) -> str:
    if len(text) <= MAX_DESCRIPTION:
        return text
    return f"{text[: MAX_DESCRIPTION - 2].rstrip()} …"


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def renamed(tools: Iterable[Json], shapes: Shapes) -> dict[str, tuple[str, dict[str, str]]]:
    """The new name of each renamed tool, and those of its parameters."""
    names = {}
    for spec in tools:
        if (digest(spec), "ascii") in shapes:
            names[spec["function"]["name"]] = _names_of(spec)
    return names


def has_odd_names(function: Json) -> bool:
    """Whether the name of a function or of a parameter is one that not every endpoint takes."""
    names = [function["name"], *_property_names(function.get("parameters"))]
    return any(not _LEGAL.fullmatch(name) for name in names)


def _names_of(spec: Json) -> tuple[str, dict[str, str]]:
    function = spec["function"]
    taken: set[str] = set()
    keys = {name: _legal(name, taken) for name in _property_names(function.get("parameters"))}
    name = function["name"]
    if not _LEGAL.fullmatch(name):
        name = f"{_legal(name, set())[:54]}_{digest(spec)[:8]}"
    return name, {old: new for old, new in keys.items() if old != new}


def _legal(name: str, taken: set[str]) -> str:
    """A name of ASCII letters that is like the given one and not taken yet."""
    base = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    base = re.sub(r"[^A-Za-z0-9_]", "_", base)[:60].lstrip("_0123456789") or "p"
    found = base
    number = 1
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    taken.add(found)
    return found


def _property_names(schema: Json, depth: int = _DEPTH) -> dict[str, None]:
    """The names of all properties in a schema; those that are legal already come first."""
    found: dict[str, None] = {}
    if isinstance(schema, dict) and depth:
        for name, value in schema.items():
            if name in ("properties", "$defs", "definitions") and isinstance(value, dict):
                if name == "properties":
                    found |= dict.fromkeys(value)
                for each in value.values():
                    found |= _property_names(each, depth - 1)
            else:
                found |= _property_names(value, depth - 1)
    elif isinstance(schema, list) and depth:
        for each in schema:
            found |= _property_names(each, depth - 1)
    return dict.fromkeys(sorted(found, key=lambda name: not _LEGAL.fullmatch(name)))


def _with_names(schema: Json, keys: Mapping[str, str]) -> Json:
    """A schema with its properties renamed."""
    if isinstance(schema, list):
        return [_with_names(each, keys) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Json] = {}
    for name, value in schema.items():
        if name == "properties" and isinstance(value, dict):
            found[name] = {keys.get(k, k): _with_names(each, keys) for k, each in value.items()}
        elif name == "required" and isinstance(value, list):
            found[name] = [keys.get(each, each) for each in value]
        else:
            found[name] = _with_names(value, keys)
    return found


def _with_keys(value: Json, keys: Mapping[str, str]) -> Json:
    """Arguments with their keys renamed."""
    if isinstance(value, dict):
        return {keys.get(name, name): _with_keys(each, keys) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_keys(each, keys) for each in value]
    return value


def _renamed_message(message: Json, names: Mapping[str, tuple[str, dict[str, str]]]) -> Json:
    """A message with the new names in its calls."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    sent = _by_sent_name(names)
    found = []
    for call in calls:
        function = call["function"]
        if function["name"] in sent:
            new, keys = sent[function["name"]]
            given = _with_keys(json.loads(function["arguments"]), keys)
            arguments = json.dumps(given, ensure_ascii=False)
            call = {**call, "function": {"name": new, "arguments": arguments}}  # noqa: PLW2901 - a copy
        found.append(call)
    return {**message, "tool_calls": found}


def _by_sent_name(
    names: Mapping[str, tuple[str, dict[str, str]]],
) -> dict[str, tuple[str, dict[str, str]]]:
    """The new names by those in a conversation, where odd characters are replaced already."""
    return {**{legal_name(name): new for name, new in names.items()}, **names}
