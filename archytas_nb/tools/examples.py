"""Run the examples of a docstring as a model would: as JSON, through validation.

A model copies the examples that it sees. Only calls of the tool itself with literal arguments, or
with names of variables, are run; nothing is evaluated.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import json
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from archytas_nb.loop.events import CallOutcome
from archytas_nb.tools import signature
from archytas_nb.tools.names import VAR
from archytas_nb.tools.render import safe_repr
from archytas_nb.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class Example:
    """What became of one example."""

    source: str  # the call as the docstring shows it
    tool_input: Any = None  # what a model would send for it
    outcome: CallOutcome | None = None  # None where it was not run
    problem: str = ""  # what a model would get wrong; empty where nothing


def check_examples(
    tool: Tool, namespace: MutableMapping[str, Any] | None = None
) -> tuple[Example, ...]:
    """Run the examples of a tool's docstring that call the tool, in order.

    Args:
        tool: The tool.
        namespace: The live variables that examples may name.
    """
    sig = signature.read(tool.function)
    text = sig.doc.examples
    try:
        found = doctest.DocTestParser().get_examples(inspect.cleandoc("\n" + text))
    except ValueError as error:  # the prompt is malformed; the parser says where
        return (Example(text.strip(), problem=f"the examples cannot be read: {error}"),)
    names = {sig.name, tool.name, tool.source_name.rpartition(".")[2]}
    calls = [(each, _call(each.source, names)) for each in found]
    return tuple(_check(tool, each, call, namespace) for each, call in calls if call is not None)


def _call(source: str, names: set[str]) -> ast.Call | None:
    """The call of the tool in a line such as ``f(1)`` or ``x = obj.f(1)``."""
    try:
        value = getattr(ast.parse(source).body[0], "value", None)
    except (SyntaxError, IndexError):
        return None
    if not isinstance(value, ast.Call):
        return None
    called = getattr(value.func, "attr", None) or getattr(value.func, "id", None)
    return value if called in names else None


def _check(
    tool: Tool, example: doctest.Example, call: ast.Call, namespace: MutableMapping[str, Any] | None
) -> Example:
    source = example.source.strip()
    parameters = [each for each in tool.parameters if not each.injected]
    unpacks = any(isinstance(each, ast.Starred) for each in call.args)
    if unpacks or any(word.arg is None for word in call.keywords):
        why = "the example unpacks its arguments; a model names each of them"
        return Example(source, problem=why)
    if len(call.args) > len(parameters):
        why = f"the example gives {len(call.args)} arguments, the tool has {len(parameters)}"
        return Example(source, problem=why)
    given = dict(zip((each.name for each in parameters), call.args, strict=False))
    given |= {str(word.arg): word.value for word in call.keywords}
    named = {each.name for each in parameters if each.type.by_reference}
    try:
        sent = {
            name: _json(node, {} if name in named else namespace) for name, node in given.items()
        }
        sent = json.loads(json.dumps(sent, allow_nan=False))
    except (ValueError, TypeError) as error:
        return Example(source, problem=f"a model cannot send these arguments as JSON: {error}")
    outcome = tool.call(sent, namespace)
    return Example(source, sent, outcome, _problem(example, outcome))


def _json(node: ast.expr, values: Mapping[str, Any] | None) -> Any:
    """A literal; the name of a variable stands for its value, or becomes a reference to it."""
    if isinstance(node, ast.Name):
        return values[node.id] if values and node.id in values else {VAR: node.id}
    try:
        return ast.literal_eval(node)
    except ValueError:
        why = "is neither a literal nor the name of a variable"
        raise ValueError(f"{ast.unparse(node)!r} {why}") from None


def _problem(example: doctest.Example, outcome: CallOutcome) -> str:
    if outcome.status != "done":
        expected = example.exc_msg and type(outcome.error).__name__ in example.exc_msg
        return "" if expected else outcome.text
    if example.exc_msg:
        return f"the example expects an exception, {example.exc_msg.strip()!r}, and none came"
    got = "" if outcome.value is None else safe_repr(outcome.value) + "\n"
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    if not example.want or doctest.OutputChecker().check_output(example.want, got, flags):
        return ""
    return f"the example shows {example.want.strip()!r}, the call gave {got.strip()!r}"
