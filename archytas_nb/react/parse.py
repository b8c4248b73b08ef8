"""The text of a reply → the action that it means.

What is exact is taken as it is. What is broken is repaired once and must then name a known tool; where nothing
does, nothing is run and the model is told what was wrong. Nothing here guesses a tool or an argument.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from archytas_nb.react.events import Json
from archytas_nb.react.wire import ANSWER, FAIL, Action

_THINK = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_OBSERVATION = re.compile(r"^\s*(?:Observation|Outcome)\b.*", re.DOTALL | re.MULTILINE)
_NAME_KEYS = ("tool", "name", "function", "action")
_INPUT_KEYS = ("tool_input", "arguments", "parameters", "args", "input", "action_input")
_FORM = '{"thought": "…", "tool": "…", "tool_input": …}'


def without_think(text: str) -> str:
    """The text outside ``<think>`` blocks; an unclosed block reaches to the end."""
    return _THINK.sub("", text)


def read_action(text: str, tools: Collection[str], *, prose_is_answer: bool, strict: bool = False) -> Action:
    """Read the action that a text means.

    Args:
        text: The reply's text.
        tools: Names of the known tools.
        prose_is_answer: Whether text without any object is the answer.
        strict: Only an object that names a known tool counts; any other text is prose. (In a reply of
            function calling JSON may well be the answer itself.)

    Returns:
        The action; with `fault` set where the text means none.
    """
    said = without_think(text)
    known = {*tools, ANSWER, FAIL}
    cut = _OBSERVATION.split(said, maxsplit=1)[0] if _OBSERVATION.search(said) and "{" in said else said
    unknown: Action | None = None
    for data, how in _objects(cut):
        name = _name(data)
        if name is None:
            continue
        action = _action(data, name, how)
        if name in known:
            return action
        unknown = unknown or action
    if unknown is not None and not strict:
        return unknown  # the executor says that there is no such tool, and which there are
    prose = cut.strip()
    if prose and prose_is_answer:
        return Action(answer=prose)
    if not prose:
        return Action(fault=f"Your reply was empty. Reply with one JSON object: {_FORM}")
    if "{" in prose:
        fault = (
            f"Your reply could not be read as an action. Reply with one JSON object, and nothing else: {_FORM}"
        )
    else:
        fault = (
            f"Your reply was plain text. Reply with one JSON object: {_FORM} Use {ANSWER} to give your answer."
        )
    return Action(thought=prose[:500], fault=fault)


def loads_repaired(text: str) -> tuple[Json, str]:
    """Decode JSON, mending it where that is needed.

    Returns:
        The value, and what had to be mended in words (empty for exact JSON). Text that holds no JSON at all
        comes back as the text itself.
    """
    if not text.strip():
        return None, ""
    try:
        return json.loads(text), ""
    except json.JSONDecodeError as error:
        from json_repair import repair_json

        value: Any = repair_json(text, return_objects=True)
        if value in ("", [], {}) and text.strip() not in ("{}", "[]", '""'):
            return text, f"not JSON ({error.msg})"
        return value, f"JSON was mended ({error.msg} at character {error.pos})"


def _objects(text: str) -> Iterator[tuple[dict[str, Json], str]]:
    """Each outermost object of the text, with what had to be mended in it."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at != -1:
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            value, how = loads_repaired(text[at:])
            items = value if isinstance(value, list) else [value]
            yield from ((item, how or "JSON was mended") for item in items if isinstance(item, dict))
            return
        if isinstance(value, dict):
            yield value, ""
        at = text.find("{", end)


def _name(data: dict[str, Json]) -> str | None:
    for key in _NAME_KEYS:
        value = data.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, dict):  # {"function": {"name": …, "arguments": …}}
            return _name(value)
    return None


def _input(data: dict[str, Json]) -> Json:
    for key in _INPUT_KEYS:
        if key in data:
            return data[key]
    inner = data.get("function")
    return _input(inner) if isinstance(inner, dict) else None


def _action(data: dict[str, Json], name: str, how: str) -> Action:
    thought, given = str(data.get("thought") or ""), _input(data)
    if name == ANSWER:
        answer = _only_text(given)
        if answer in (None, "", {}):
            return Action(thought=thought, fault=f"{ANSWER} needs the answer as its tool_input.")
        return Action(thought, answer=answer, repaired=how)
    if name == FAIL:
        return Action(thought, failure=str(_only_text(given) or "no reason given"), repaired=how)
    return Action(thought, calls=((name, given),), repaired=how)


def _only_text(given: Json) -> Json:
    """The value of an object with one field: models wrap a bare answer as ``{"answer": …}``."""
    return next(iter(given.values())) if isinstance(given, dict) and len(given) == 1 else given
