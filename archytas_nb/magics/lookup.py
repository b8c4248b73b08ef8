"""A look at a variable: a name, its attributes, items and slices, with operators, and nothing that calls.

What a question or an option may say of the notebook's variables. A question may have been pasted, so it can do no
more than look: no calls, no assignments, no builtins, nothing private, no modules and nothing that is reached
through one; and nothing that takes all time or memory.
"""

from __future__ import annotations

import ast
import math
import operator
import os
import warnings
from collections.abc import Callable, Mapping
from itertools import zip_longest
from types import CodeType, FrameType, ModuleType
from typing import Any

from archytas_nb.tools.names import did_you_mean
from archytas_nb.tools.reference import is_hidden, visible

_LONGEST = 2000
_MOST_ITEMS = 10**6
_MOST_CELLS = 10**7
_CLOSED = (ModuleType, FrameType, CodeType, type(os.environ))
"""What leads to the rest of the process, or to its keys."""

_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_,
}  # fmt: skip
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
"""No powers, shifts to the left and products of matrices: a few letters of these can take hours."""

_COMPARISONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_ALLOWED = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.Load),
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.And, ast.Or),
    *(*_UNARY, *_BINARY, *_COMPARISONS),
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
    try:
        return _value(tree, namespace)
    except _Refused as refusal:
        raise LookupFault(
            f"{source.strip()!r} is not looked up: {refusal}; compute it in a cell, give it a name and write that"
        ) from None
    except Exception as error:  # the objects are the user's and may raise anything
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise LookupFault(f"{source.strip()!r} cannot be looked up: {said[:300]}") from error


class _Refused(Exception):
    """A look at what is not shown, or that would take too much; the message is the reason."""


def _value(node: ast.AST, namespace: Mapping[str, Any]) -> Any:
    """Evaluate step by step, so that each value on the way is judged."""
    match node:
        case ast.Name(id=name):
            if is_hidden(name) and name.strip("_"):  # _ and __ are the last results
                raise _Refused(f"{name!r} is private, or belongs to IPython")
            found = namespace[name]
        case ast.Attribute(value=owner, attr=name):
            if name.startswith("_"):
                raise _Refused(f"the attribute {name!r} is private")
            found = getattr(_value(owner, namespace), name)
        case ast.Subscript(value=owner, slice=key):
            found = _value(owner, namespace)[_value(key, namespace)]
        case _:
            return _combined(node, namespace)
    if issubclass(type(found), _CLOSED):
        raise _Refused(f"it leads through a {type(found).__name__.lstrip('_')}")
    return found


def _combined(node: ast.AST, namespace: Mapping[str, Any]) -> Any:
    match node:
        case ast.UnaryOp(op=sign, operand=operand):
            return _UNARY[type(sign)](_value(operand, namespace))
        case ast.BinOp(left=left, op=operation, right=right):
            a, b = _value(left, namespace), _value(right, namespace)
            _check_size(operation, a, b)
            return _BINARY[type(operation)](a, b)
        case ast.BoolOp(op=word, values=parts):
            for each in parts:
                found = _value(each, namespace)
                if bool(found) is isinstance(word, ast.Or):
                    break
            return found
        case ast.Compare():
            return _compared(node, namespace)
        case _:
            return _literal(node, namespace)


def _compared(node: ast.Compare, namespace: Mapping[str, Any]) -> Any:
    a, found = _value(node.left, namespace), None
    for place, (comparison, other) in enumerate(zip(node.ops, node.comparators, strict=True)):
        if place and not found:
            break
        b = _value(other, namespace)
        _check_size(comparison, a, b)
        found, a = _COMPARISONS[type(comparison)](a, b), b
    return found


def _literal(node: ast.AST, namespace: Mapping[str, Any]) -> Any:
    match node:
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(each and _value(each, namespace) for each in (lower, upper, step)))
        case ast.List(elts=items):
            return [_value(each, namespace) for each in items]
        case ast.Tuple(elts=items):
            return tuple(_value(each, namespace) for each in items)
        case ast.Constant(value=constant):
            return constant
    raise _Refused(f"{type(node).__name__} is more than a look")


def _check_size(op: ast.AST, a: Any, b: Any) -> None:
    """Refuse an operation whose result may be far larger than what it is made of."""
    if isinstance(op, ast.Mod) and isinstance(a, (str, bytes, bytearray)):
        raise _Refused("the width of a format has no bound")
    shapes = [_shape(a), _shape(b)]
    if hasattr(a, "shape") or hasattr(b, "shape"):
        cells = math.prod(max(pair) for pair in zip_longest(*map(reversed, shapes), fillvalue=1))
        if cells > max(_MOST_CELLS, *map(math.prod, shapes)):
            raise _Refused(f"the result would have {cells:,} cells")
    if isinstance(op, ast.Mult):
        for items, times in ((a, b), (b, a)):
            is_numeric = getattr(getattr(items, "dtype", None), "kind", "O") in "biufcmM"
            is_count = hasattr(type(times), "__index__") and not getattr(times, "shape", ())
            if hasattr(type(items), "__len__") and is_count and not is_numeric:
                most = 1000 if hasattr(items, "shape") else _MOST_ITEMS // max(len(items), 1)
                if operator.index(times) > most:
                    raise _Refused("it repeats too much")


def _shape(value: Any) -> tuple[int, ...]:
    shape = getattr(value, "shape", (len(value),) if isinstance(value, (list, tuple)) else ())
    return (
        shape if isinstance(shape, tuple) and all(isinstance(each, int) for each in shape) else ()
    )
