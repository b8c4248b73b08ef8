r"""``{expr}`` in a question becomes the value, as the model would read it from a tool.

    {name}  {name.attr}  {df[:3]}  {df[df.year > 2008]}  {price:.2f}  {name!r}     replaced
    {{  }}                                                                         one brace
    {"a": 1}  {a: 1}  {1, 2}  {see below}  { return x; }  \frac{n}{2}  e^{n}        left alone

What Python reads as a dict, as a set of several things or of constants, or not at all, is text, and
so are the groups of TeX: JSON, code and formulas can be pasted. Everything else is a lookup, and
one that fails is an error before anything is asked: a misspelled name is never sent to a model
silently. A lookup calls nothing and reads nothing private (``_name``, ``In``) and no module, so
that a pasted question runs nothing; anything to be computed belongs in a cell. ``{MY_PASSWORD}`` is
still your variable: put ``--raw`` before a text that you do not know.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

from IPython.core.error import UsageError

from archytas_nb.tools.names import did_you_mean, is_hidden, visible

_MAX_SOURCE = 2000
_MAX_CELLS = 10**7

# ── looking up one expression ─────────────────────────────────────────────────────────────────────

_CLOSED = (ModuleType, FrameType, CodeType, type(os.environ))
"""Types that lead to the rest of the process, or to its keys."""

_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
}
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
"""What selects rows: comparisons and masks."""

_ALLOWED = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.Load, ast.List),
    *(ast.Tuple, ast.UnaryOp, ast.BinOp, ast.Compare, *_UNARY, *_BINARY),
)


class LookupFault(ValueError):
    """A lookup that fails; the message is one sentence for a person."""


def look(source: str, namespace: Mapping[str, Any]) -> Any:
    """Look up a variable, with attributes, items, slices and masks of rows.

    Args:
        source: The lookup, such as ``df.shape[0]``.
        namespace: The notebook's variables.

    Returns:
        The object itself.

    Raises:
        LookupFault: It is no lookup, a variable does not exist, or looking raised.
    """
    source = source.strip()
    tree = _parsed(source)
    if tree is None or not _is_lookup(tree):
        raise LookupFault(
            f"{source!r} is more than a variable with its attributes and items: compute it in a "
            "cell, give it a name and write that"
        )
    missing = [name for name in _names(tree) if name not in namespace]
    if missing:
        guesses = ", ".join(f"{name!r}{did_you_mean(name, visible(namespace))}" for name in missing)
        raise LookupFault(f"no variable is named {guesses}")
    try:
        return _value(tree, namespace)
    except PermissionError as refusal:
        raise LookupFault(
            f"{source!r} is not looked up: {refusal}; compute it in a cell, give it a name and "
            "write that"
        ) from None
    except Exception as error:  # the objects are the user's and may raise anything
        raise LookupFault(f"{source!r} cannot be looked up: {_one_line(error)}") from error


def _parsed(source: str) -> ast.expr | None:
    if len(source) > _MAX_SOURCE:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stray backslash in prose deserves no SyntaxWarning
        try:
            return ast.parse(source.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _names(tree: ast.AST) -> list[str]:
    return list(dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)))


def _is_lookup(tree: ast.expr) -> bool:
    if isinstance(tree, (ast.List, ast.Tuple)) or not _names(tree):
        return False
    return all(isinstance(node, _ALLOWED) for node in ast.walk(tree))


def _value(node: ast.AST | None, names: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0912 - one branch per node
    """Evaluate step by step, so that each value on the way is checked."""
    match node:
        case ast.Name(id=name):
            if is_hidden(name) and name.strip("_"):  # _ and __ are the last results
                raise PermissionError(f"{name!r} is private, or belongs to IPython")
            found = names[name]
        case ast.Attribute(value=owner, attr=name):
            if name.startswith("_"):
                raise PermissionError(f"the attribute {name!r} is private")
            found = getattr(_value(owner, names), name)
        case ast.Subscript(value=owner, slice=key):
            found = _value(owner, names)[_value(key, names)]
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_value(operand, names))
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ):
            return _combined(_BINARY[type(op)], _value(left, names), _value(right, names))
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(_value(each, names) for each in (lower, upper, step)))
        case ast.List(elts=items):
            return [_value(each, names) for each in items]
        case ast.Tuple(elts=items):
            return tuple(_value(each, names) for each in items)
        case ast.Constant(value=constant):
            return constant
        case None:
            return None
        case _:
            raise PermissionError("it is more than one comparison")
    if issubclass(type(found), _CLOSED):
        raise PermissionError(f"it leads through a {type(found).__name__.lstrip('_')}")
    return found


def _combined(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Combine two values, unless arrays would be broadcast to something far larger."""
    shapes = [tuple(getattr(each, "shape", ())) for each in (a, b)]
    cells = math.prod(max(pair) for pair in zip_longest(*map(reversed, shapes), fillvalue=1))
    if cells > max(_MAX_CELLS, *map(math.prod, shapes)):
        raise PermissionError(f"the result would have {cells:,} cells")
    return operation(a, b)


# ── replacing lookups in a question ───────────────────────────────────────────────────────────────

_BRACE = re.compile(r"[{}]")
_TEX = re.compile(r"(?:\\[A-Za-z]{2,}\*?(?:\[[^][{}]*\])?[_^]?|\^)\Z")
"""Precedes a group of TeX: a command (longer than the escape ``\\n``), or an exponent's sign."""
_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?0?\d*[_,]?(?:\.\d+)?[bcdeEfFgGnosxX%]?")
_WIDE = re.compile(r"\d{5}")
_STRFTIME = re.compile(r".*%[A-Za-z]")
_CONVERSION: dict[str, Callable[[Any], str]] = {"!r": repr, "!s": str, "!a": ascii}
_JSON = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Expanded:
    """A question as it is sent.

    Attributes:
        text: The question with its values.
        images: The pictures among the values, PNG in base64; the text names each in its place.
    """

    text: str
    images: tuple[str, ...] = ()


class _Lookup(NamedTuple):
    source: str
    conversion: str = ""
    spec: str = ""


def expand(text: str, namespace: Mapping[str, Any], max_chars: int = 8000) -> Expanded:
    """Replace each lookup in a question by its value.

    Args:
        text: The question as it was typed.
        namespace: The notebook's variables.
        max_chars: Maximum number of characters of one value.

    Returns:
        The question as it is sent.

    Raises:
        UsageError: Lookups fail; all of them are named.
    """
    partner = _pairs(text)
    out: list[str] = []
    images: list[str] = []
    faults: list[str] = []
    closers: set[int] = set()  # closing braces that are text: never half of an escape
    tex: set[int] = set()  # those among them that close a group of TeX
    at = 0
    while (found := _BRACE.search(text, at)) is not None:
        start = found.start()
        out.append(text[at:start])
        at = start + 1
        if text[start] == "}":
            out.append("}")
            at += start not in closers and text[at : at + 1] == "}"
        elif text[at : at + 1] == "{":
            out.append("{")
            at += 1
        elif start in partner and _is_tex(text, start, tex):
            out.append("{")
            closers.add(partner[start])
            tex.add(partner[start])
        else:
            end, lookup = _group(text, start, partner, namespace)
            if lookup is not None:
                try:
                    out.append(_written(lookup, namespace, max_chars, images))
                except LookupFault as fault:
                    faults.append(f"{fault} ({_one_line(text[start : end + 1], 80)})")
                at = end + 1
            elif end >= 0:
                out.append(text[start : end + 1])
                at = end + 1
            else:
                out.append("{")
                closers.add(partner.get(start, -1))
    out.append(text[at:])
    if faults:
        raise UsageError(
            f"{'; '.join(dict.fromkeys(faults))}. In a question {{name}} stands for the value of a "
            "variable; write {{name}} for the braces themselves, or --raw before a question that "
            "is to be sent as it is."
        )
    return Expanded("".join(out), tuple(images))


def _is_tex(text: str, start: int, closed: set[int]) -> bool:
    """Whether a brace opens a group of TeX: after a command, an exponent's sign or a group."""
    before = start - 2 if text[start - 1 : start] in ("_", "^") else start - 1
    return before in closed or _TEX.search(text, max(0, start - 80), start) is not None


def _pairs(text: str) -> dict[int, int]:
    """Where each opening brace is closed, counting braces alone."""
    pairs, open_ = {}, []
    for found in _BRACE.finditer(text):
        if found[0] == "{":
            open_.append(found.start())
        elif open_:
            pairs[open_.pop()] = found.start()
    return pairs


def _group(
    text: str, start: int, partner: Mapping[int, int], namespace: Mapping[str, Any]
) -> tuple[int, _Lookup | None]:
    """The end of what begins with this brace, -1 where the brace is text; and the lookup if any."""
    if text[start + 1 :].lstrip()[:1] in ('"', "}"):
        try:
            return _JSON.raw_decode(text, start)[1] - 1, None
        except (ValueError, RecursionError):
            pass
    end = partner.get(start, -1)
    body = text[start + 1 : end]
    if end < 0 or not body.strip():
        return end, None
    tree = _parsed("{" + body + "}")
    if isinstance(tree, ast.Dict):
        return end, None
    if isinstance(tree, ast.Set):
        [first, *more] = tree.elts
        if more or isinstance(first, ast.Starred) or not _names(first):
            return end, None
    if "\n" in body:  # a block of code: a lookup stands on one line
        return -1, None
    lookup = _formatted(body, namespace) if tree is None else _Lookup(body.strip())
    return (end, lookup) if lookup else (-1, None)


def _formatted(body: str, namespace: Mapping[str, Any]) -> _Lookup | None:
    """Read a lookup with a conversion or a format, as in an f-string.

    ``{color:red;}`` is text unless there is a variable of that name: then it is a bad format.
    """
    colons = (found.start() for found in re.finditer(":", body[:_MAX_SOURCE]))
    for end in [*colons, len(body)]:
        source, spec = body[:end], body[end + 1 :]
        conversion = source[-2:] if source[-2:] in _CONVERSION else ""
        source = source.removesuffix(conversion)
        tree = _parsed(source) if conversion or end < len(body) else None
        if tree is None or not _names(tree):
            continue
        lookup = _Lookup(source.strip(), conversion, spec)
        simple = bool(_SPEC.fullmatch(spec))
        if not _is_lookup(tree):
            if simple and (spec or conversion):  # which the lookup will refuse
                return lookup
            continue
        known = all(name in namespace for name in _names(tree))
        is_format = not spec.startswith(" ") and (simple or _STRFTIME.match(spec) or known)
        if end == len(body) or is_format:
            return lookup
    return None


def _written(
    lookup: _Lookup, namespace: Mapping[str, Any], max_chars: int, images: list[str]
) -> str:
    """A lookup's value as the model reads it; raises LookupFault."""
    from archytas_nb.tools.render import clip, is_lazy, render

    value = look(lookup.source, namespace)
    if lookup.conversion or lookup.spec:
        fault = f"{lookup.source!r} cannot be written so"
        if _WIDE.search(lookup.spec):
            raise LookupFault(f"{fault}: the format {lookup.spec!r} is too wide")
        try:
            shown = _CONVERSION[lookup.conversion](value) if lookup.conversion else value
            return clip(format(shown, lookup.spec), max_chars)
        except Exception as error:  # the value is the user's and may raise anything
            raise LookupFault(f"{fault}: {_one_line(error)}") from error
    if is_lazy(value):
        raise LookupFault(
            f"{lookup.source!r} is a {type(value).__name__}, which reading would use up: make it "
            "a list"
        )
    if value is None or (isinstance(value, str) and not value):
        return str(value)
    rendered = render(value, max_chars)
    images.extend(rendered.images)
    return rendered.text


def _one_line(what: BaseException | str, limit: int = 300) -> str:
    text = what if isinstance(what, str) else f"{type(what).__name__}: {what}"
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
