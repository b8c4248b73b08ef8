"""A tool call that is written as Python code, ``name(a=1)`` → the call. Nothing of the code is ever run."""

from __future__ import annotations

import ast
import json
import warnings
from typing import Any

from archytas_nb.loop.calls import Meant, Schemas, resolved
from archytas_nb.loop.events import Json
from archytas_nb.loop.exact import UnreadableError, Work, whole


def parsed_calls(text: str, start: int, closing: str, work: Work) -> tuple[list[ast.Call], int]:
    """Parse a call, or a list of calls, that begins at a place.

    Args:
        text: Any text.
        start: Where it begins.
        closing: What it ends with, ``")"`` or ``"]"``.
        work: How much work may be done.

    Returns:
        The calls, and where they end.

    Raises:
        UnreadableError: There is no call here.
    """
    place = text.find(closing, start)
    for _ in range(50):
        if place == -1:
            break
        work.spend(place - start)
        body = _expression(text[start : place + 1])
        calls = body.elts if isinstance(body, ast.List) else [body]
        found = [each for each in calls if isinstance(each, ast.Call)]
        if found and len(found) == len(calls):
            return found, place + 1
        place = text.find(closing, place + 1)
    raise UnreadableError(start, "a call written as code cannot be read")


def _expression(code: str) -> ast.expr | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in a string
            return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def from_code(call: ast.Call, tools: Schemas, at: int) -> Meant:
    """The call that a piece of code means; values without names get them from the tool's schema.

    Raises:
        UnreadableError: A value is not a literal, or has no name.
    """
    name = resolved(ast.unparse(call.func), tools)
    schema = tools.get(name)
    given = [_literal(each, at) for each in call.args]
    named = {each.arg: _literal(each.value, at) for each in call.keywords if each.arg is not None}
    if len(named) != len(call.keywords):
        raise UnreadableError(at, "a call with ** cannot be read")
    if not given:
        return Meant(name, named or None, known=name in tools)
    fields = list(schema.get("properties", ())) if isinstance(schema, dict) else []
    if len(given) == 1 and not named and (len(fields) < 2 or isinstance(given[0], dict)):
        return Meant(name, given[0], known=name in tools)
    if len(given) > len(fields) or set(fields[: len(given)]) & set(named):
        raise UnreadableError(at, "a call with values that have no names cannot be read")
    return Meant(name, {**dict(zip(fields, given, strict=False)), **named}, known=name in tools)


class _Constants(ast.NodeTransformer):
    """JSON's words are names in Python."""

    def visit_Name(self, node: ast.Name) -> Any:
        words = {"true": True, "false": False, "null": None}
        return ast.Constant(words[node.id]) if node.id in words else node


def _literal(node: ast.expr, at: int) -> Json:
    try:
        value = ast.literal_eval(_Constants().visit(node))
        return whole(json.loads(json.dumps(value, allow_nan=False)))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise UnreadableError(at, "a call's values must be literals") from None
