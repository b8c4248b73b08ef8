"""A look at a variable: a name, its attributes, items and slices, with operators, and nothing that calls.

What a question or an option may say of the notebook's variables. It is read before it is evaluated, so that a
question that was pasted can do no more than look: no calls, no assignments, no builtins.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any

from archytas_nb.tools.names import did_you_mean
from archytas_nb.tools.reference import visible

_LONGEST = 2000
_ALLOWED = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.Load),
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare),
    *(ast.unaryop, ast.operator, ast.boolop, ast.cmpop),
)


class LookupFault(ValueError):
    """A variable that cannot be looked at; the message is one sentence for a person."""


def parsed(source: str) -> ast.expr | None:
    """Read text as one Python expression.

    Args:
        source: Any text.

    Returns:
        The expression, or None where the text is none or is too long to be one that a person wrote.
    """
    if len(source) > _LONGEST:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stray backslash in prose is not worth a SyntaxWarning
        try:
            return ast.parse(source.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def names_in(tree: ast.AST) -> list[str]:
    """The variables that an expression reads, in order, each once."""
    return list(dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)))


def is_lookup(tree: ast.expr) -> bool:
    """Whether an expression only looks at variables: it calls nothing and makes nothing."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.List, ast.Tuple)):  # df[["a", "b"]], array[1, 2]
            continue
        if not isinstance(node, _ALLOWED):
            return False
    return not isinstance(tree, (ast.List, ast.Tuple)) and bool(names_in(tree))


def look(source: str, namespace: Mapping[str, Any]) -> Any:
    """Look a value up.

    Args:
        source: The lookup, such as ``df.shape[0]``.
        namespace: The notebook's variables.

    Returns:
        The object itself.

    Raises:
        LookupFault: It is no lookup, a variable does not exist, or looking raised.
    """
    tree = parsed(source)
    if tree is None or not is_lookup(tree):
        raise LookupFault(
            f"{source.strip()!r} is more than a variable with its attributes and items: compute it in a cell, "
            "give it a name and write that"
        )
    missing = [name for name in names_in(tree) if name not in namespace]
    if missing:
        guesses = ", ".join(f"{name!r}{did_you_mean(name, visible(namespace))}" for name in missing)
        raise LookupFault(f"no variable is named {guesses}")
    code = compile(ast.Expression(tree), "<lookup>", "eval", dont_inherit=True)
    try:
        return eval(code, {"__builtins__": {}}, namespace)  # noqa: S307 - it was read: it only looks
    except Exception as error:  # the objects are the user's and may raise anything
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise LookupFault(f"{source.strip()!r} cannot be looked up: {said[:300]}") from error
