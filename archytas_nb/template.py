r"""``{expr}`` in a question is replaced with its value, formatted like the result of a tool.

    {name}  {name.attr}  {df[:3]}  {df[df.year > 2008]}  {price:.2f}  {name!r}     replaced
    {@name}                                                                        described
    {{  }}                                                                         one brace
    {"a": 1}  {a: 1}  {1, 2}  {see below}  { return x; }                           unchanged
    \frac{n}{2}  e^{n}  x_{i}  $\mu_{t}$                                           unchanged

Braces that contain a dict, a set of constants or of several items, TeX, or anything that is not a
Python expression are left unchanged, so JSON, code and formulas can be pasted. Everything else is a
lookup. A lookup that fails, for example because of a misspelled name, is an error, and nothing is
sent to the model. Lookups cannot call functions or access private names (``_name``, ``In``),
modules or the environment, so a pasted question cannot run code; compute values in a cell first.
``{MY_PASSWORD}`` is still your variable: put ``--raw`` before text that you do not trust.
"""

from __future__ import annotations

import ast
import datetime as dt
import json
import math
import operator
import os
import re
import string
import warnings
from collections import ChainMap, UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence
from decimal import Decimal
from itertools import zip_longest
from types import CodeType, FrameType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

from archytas_nb.tools.names import is_secret
from archytas_nb.tools.render import MAX_RESULT_CHARS, is_lazy, render
from archytas_nb.tools.texts import MISSING, cell_text, is_array, is_missing, safe_repr
from archytas_nb.tools.variables import is_hidden, user_names
from archytas_nb.words import collapse_whitespace, did_you_mean, truncate_middle

MAX_SECONDS = 10.0
"""Maximum time for reading the values in a question."""

_MAX_SOURCE = 2000
_MAX_CELLS = 10**7
_MAX_TEXT = 10**7
_ADVICE = "compute it in a cell, assign it to a variable and use that"

# ── looking up one expression ─────────────────────────────────────────────────────────────────────

_CLOSED = (ModuleType, FrameType, CodeType, type(os.environ))
"""Types that lead to the rest of the process, or to its keys."""
_WRAPPERS = (MappingProxyType, ChainMap, UserDict, MappingView)
"""Mappings whose items are those of another one."""

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.USub: operator.neg, ast.Invert: operator.invert, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
"""The parts of an expression that select rows: comparisons and masks."""
_ALLOWED = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Constant, ast.Load, ast.List),
    *(ast.Tuple, ast.UnaryOp, ast.BinOp, ast.Compare, *_OPERATORS),
)


class LookupFault(ValueError):
    """A lookup that fails; the message is one sentence for a person."""


def look(source: str | ast.expr, namespace: Mapping[str, Any]) -> Any:
    """Look up a variable, with attributes, items, slices and masks; raises LookupFault."""
    tree: ast.expr | None
    if isinstance(source, str):
        tree = _parsed(source)
        shown = repr(source.strip())
    else:
        tree = source
        shown = repr(ast.unparse(source))
    if tree is None or not _is_lookup(tree):
        raise LookupFault(f"{shown} is more than a variable with attributes and items: {_ADVICE}")
    missing = [name for name in _names(tree) if name not in namespace]
    if missing:
        guesses = ", ".join(
            f"{name!r}{did_you_mean(name, user_names(namespace))}" for name in missing
        )
        raise LookupFault(f"no variable is named {guesses}")
    try:
        return _value(tree, namespace)
    except LookupFault as refusal:
        raise LookupFault(f"{shown} is not looked up: {refusal}; {_ADVICE}") from None
    except Exception as error:  # the objects are the user's and may raise anything
        raise LookupFault(f"{shown} cannot be looked up: {error_line(error)}") from error


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


def _value(node: ast.AST | None, names: Mapping[str, Any]) -> Any:  # noqa: C901, PLR0912 - one branch a node
    """Evaluate step by step, so that each value on the way is checked."""
    match node:
        case ast.Name(id=name):
            if is_hidden(name) and name.strip("_"):  # _ and __ are the last results
                raise LookupFault(f"{name!r} is private or belongs to IPython")
            found = names[name]
        case ast.Attribute(value=owner, attr=name):
            if name.startswith("_"):
                raise LookupFault(f"the attribute {name!r} is private")
            found = getattr(_value(owner, names), name)
        case ast.Subscript(value=owner, slice=key):
            from archytas_nb.kernel.visible import holds_environment

            container = _value(owner, names)
            if isinstance(container, _WRAPPERS) and holds_environment(container):
                raise LookupFault("it leads through the environment")
            found = container[_value(key, names)]
        case ast.UnaryOp(op=op, operand=operand):
            return _OPERATORS[type(op)](_value(operand, names))
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ):
            return _combined(_OPERATORS[type(op)], _value(left, names), _value(right, names))
        case ast.Slice(lower=lower, upper=upper, step=step):
            return slice(*(_value(each, names) for each in (lower, upper, step)))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            values = [_value(each, names) for each in items]
            return values if isinstance(node, ast.List) else tuple(values)
        case ast.Constant(value=constant):
            return constant
        case None:
            return None
        case _:
            raise LookupFault("it combines several comparisons")
    if issubclass(type(found), _CLOSED):
        raise LookupFault(f"it goes through a {type(found).__name__.lstrip('_')}")
    return found


def _combined(operation: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Combine two values, unless arrays would be broadcast to something far larger."""
    shapes = [tuple(getattr(each, "shape", ())) for each in (a, b)]
    cells = math.prod(max(pair) for pair in zip_longest(*map(reversed, shapes), fillvalue=1))
    if cells > max(_MAX_CELLS, *map(math.prod, shapes)):
        raise LookupFault(f"the result would have {cells:,} cells")
    return operation(a, b)


# ── a text with braces ────────────────────────────────────────────────────────────────────────────

_BRACE = re.compile("[{}]")
_NEVER = re.compile("(?!)")
_GROUP = re.compile(r"\{([^{}\n]{,2000})\}")
_DESCRIBED = re.compile(r"@\s*([^\W\d]\w*)\s*")
_TEX = re.compile(r"(?:\\[A-Za-z]{2,}\*?(?:\[[^][{}]*\])?[_^]?|\^|(?<![^\W_])[^\W\d_]_|[])}']_)\Z")
"""Precedes a group of TeX: a command (longer than the escape ``\\n``), the sign of an exponent, or
that of the index of one letter: ``x_{i}``, but not ``file_{i}``."""
_FORMULA = re.compile(r"(?<![\\$])\$(?![\s$])[^$\n]{0,1000}(?<![\s\\])\$(?!\d)")
_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?0?\d*[_,]?(?:\.\d+)?[bcdeEfFgGnosxX%]?|.*%[A-Za-z].*")
_CONVERSIONS: dict[int, Callable[[Any], Any]] = {114: repr, 115: str, 97: ascii}
_JSON = json.JSONDecoder()
_FIRST_PART = 256  # characters
_LONGEST_WORD = len("\\ud83d\\ude00")  # that a cut can make unreadable, also "-Infinity"
_MAX_DEPTH = 100  # of an object of JSON in a question


class Group(NamedTuple):
    """A group in braces that may be a field: without JSON, formulas and doubled braces."""

    body: str

    @property
    def source(self) -> str:
        """The group with its braces."""
        return f"{{{self.body}}}"


def parts_of(text: str, names: Iterable[str] = ()) -> Iterator[str | Group]:
    """The text between the groups of a template, and the groups, in order.

    Args:
        text: The template.
        names: The names of fields, which may have several lines, or consist of white space.
    """
    odd = _fields_named(names)
    at = 0
    open_braces = 0  # how many braces that are text have not been closed
    tex = len(text)  # where a group of TeX has ended
    formulas = (each.span() for each in _FORMULA.finditer(text))
    formula = (0, 0)  # the first that ends after what was looked at
    while (found := _BRACE.search(text, at)) is not None:
        start = found.start()
        yield text[at:start]
        if found[0] == "}":
            at = start + 1
            if open_braces:
                open_braces -= 1
            elif text.startswith("}}", start):
                at = start + 2
            yield "}"
            continue
        named = odd.match(text, start)
        if named is not None:
            yield Group(named[1])
            at = named.end()
            continue
        literal, end = _literal(text, start)
        if literal:
            yield literal
            at = end
            continue
        group = _GROUP.match(text, start)
        if group is None:  # it holds other braces, or several lines
            open_braces += 1
            yield "{"
            at = start + 1
            continue
        at = group.end()
        while formula[1] <= start:
            formula = next(formulas, (len(text), len(text) + 1))
        is_index = formula[0] < start and text[start - 1] in "_^"
        if is_index or _is_tex(text, start, tex):
            tex = at
            yield group[0]
            continue
        yield Group(group[1])
    yield text[at:]


def _fields_named(names: Iterable[str]) -> re.Pattern[str]:
    """Matches fields with names that no group has: of several lines, or of white space."""
    odd = [each for each in names if "\n" in each or (each and not each.strip())]
    if not odd:
        return _NEVER
    longest_first = sorted(map(re.escape, odd), key=len, reverse=True)
    return re.compile(rf"\{{((?:{'|'.join(longest_first)})(?:[:!.\[][^{{}}\n]*)?)\}}")


def _literal(text: str, start: int) -> tuple[str, int]:
    """A doubled brace or an object of JSON as it is sent, and where it ends; empty for neither."""
    if text.startswith("{{", start):
        return "{", start + 2
    end = _json_end(text, start)
    return text[start : max(end, start)], end


def _is_tex(text: str, start: int, last: int) -> bool:
    """Whether a group in braces is TeX, of which the last group has ended at ``last``."""
    if start == last or (start == last + 1 and text[last] in "_^"):
        return True
    return _TEX.search(text, max(0, start - 80), start) is not None


# ── a question ────────────────────────────────────────────────────────────────────────────────────


class Expanded(NamedTuple):
    """A question as it is sent, and the pictures among its values (PNG in base64)."""

    text: str
    images: tuple[str, ...] = ()


def expand(text: str, namespace: Mapping[str, Any]) -> Expanded:
    """Replace each lookup in a question by its value, which is cut like the result of a tool.

    Raises:
        LookupFault: A lookup fails.
    """
    out: list[str] = []
    images: list[str] = []
    # the text of each group: a group that occurs twice is looked up once
    written: dict[str, str] = {}
    for part in parts_of(text):
        if isinstance(part, str):
            out.append(part)
            continue
        if part.body not in written:
            written[part.body] = _replacement(part, namespace, images)
        out.append(written[part.body])
    return Expanded("".join(out), tuple(images))


def _replacement(group: Group, namespace: Mapping[str, Any], images: list[str]) -> str:
    """The replacement of a group in braces: a description, a value or the group; LookupFault."""
    named = _DESCRIBED.fullmatch(group.body)
    if named is not None:
        return _described(named[1], namespace)
    lookup = _lookup_in(group.body, namespace)
    if lookup is None:
        return group.source
    return _written(lookup, namespace, images, group.source)


def _described(name: str, namespace: Mapping[str, Any]) -> str:
    """A variable with its type, shape and columns; raises LookupFault."""
    from archytas_nb.kernel.cards import card
    from archytas_nb.loop.record import CardForm

    why = ""
    if name not in namespace:
        guess = did_you_mean(name, user_names(namespace))
        why = f"no variable is named {name!r}{guess}"
    elif is_hidden(name) or is_secret(name):
        why = f"{name!r} is private, belongs to IPython or is named like a secret"
    if why:
        raise LookupFault(f"{why} ({{@{name}}}). In a question {{@name}} describes a variable.")
    form = CardForm(has_values=False)
    line = card(name, namespace[name], form=form).removeprefix(f"{name}: ").replace("\n ", ";")
    return f"{name} ({line})"


def _json_end(text: str, start: int) -> int:
    """The end of a JSON object; -1 where none begins here.

    It is decoded in a part of the text that grows only while more text could complete the object:
    an error of the decoder takes time for all of the text that it is given.
    """
    size = _FIRST_PART
    while True:
        part = text[start : start + size]
        try:
            return start + _JSON.raw_decode(part)[1]
        except json.JSONDecodeError as error:
            is_cut = error.pos > len(part) - _LONGEST_WORD or error.msg.startswith("Unterminated")
        except (ValueError, RecursionError):
            return -1
        depth = sum(map(part.count, "{[")) - sum(map(part.count, "}]"))
        if not is_cut or len(part) < size or depth > _MAX_DEPTH:
            return -1
        size *= 4


def _lookup_in(body: str, namespace: Mapping[str, Any]) -> ast.FormattedValue | None:
    """The lookup between two braces; None where they are text."""
    match _parsed("{" + body + "}"):
        case ast.Dict():
            return None
        case ast.Set(elts=[first, *more]):
            if more or isinstance(first, ast.Starred) or not _names(first):
                return None
    match _parsed(f'f"""{{{body}}}"""'):
        case ast.JoinedStr(values=[ast.FormattedValue() as lookup]):
            return lookup if _is_meant(lookup, namespace) else None
    return None


def _is_meant(lookup: ast.FormattedValue, namespace: Mapping[str, Any]) -> bool:
    """Whether a field of an f-string is a lookup, and not text such as ``{color:red;}``."""
    names = _names(lookup.value)
    spec = _spec(lookup)
    if not names or spec.startswith(" "):
        return False
    if _SPEC.fullmatch(spec):
        return True
    return _is_lookup(lookup.value) and all(name in namespace for name in names)


def _spec(lookup: ast.FormattedValue) -> str:
    parts = getattr(lookup.format_spec, "values", ())
    return "".join(str(getattr(each, "value", "")) for each in parts)


def _written(
    lookup: ast.FormattedValue, namespace: Mapping[str, Any], images: list[str], source: str
) -> str:
    """A lookup's value as the model reads it; raises LookupFault."""
    try:
        return truncate_middle(_text_of(lookup, namespace, images), MAX_RESULT_CHARS)
    except LookupFault as fault:
        written = collapse_whitespace(source, 80)
        raise LookupFault(
            f"{fault} ({written}). In a question {{name}} is replaced with the value "
            "of a variable; write {{name}} for literal braces, or put --raw before the question "
            "to send it as written."
        ) from None


def _text_of(lookup: ast.FormattedValue, namespace: Mapping[str, Any], images: list[str]) -> str:
    from archytas_nb.kernel.visible import holds_environment

    value = look(lookup.value, namespace)
    spec = _spec(lookup)
    shown = ast.unparse(lookup.value)
    environment = LookupFault(f"{shown!r} contains the environment, which is never sent")
    if is_lazy(value):
        kind = type(value).__name__
        raise LookupFault(
            f"{shown!r} is a {kind}, which can be read only once: convert it to a list"
        )
    if holds_environment(value):
        raise environment
    if re.search(r"\d{5}", spec):
        raise LookupFault(
            f"{shown!r} cannot be formatted with {spec!r}; expected a width below 10,000"
        )
    convert = _CONVERSIONS.get(lookup.conversion)
    is_empty = value is None or (type(value) is str and not value)
    if convert is not None or spec or is_empty:
        try:
            if convert is not None:
                text = format(convert(value), spec)
            else:
                text = format(value, spec)
        except Exception as error:  # the value is the user's and may raise anything
            fault = f"{shown!r} cannot be formatted: {error_line(error)}"
            raise LookupFault(fault) from error
    else:
        rendered = render(value, _MAX_TEXT)  # a cut could remove the mark that is looked for
        images.extend(rendered.images)
        text = rendered.text
    if "environ({" in text and not isinstance(value, str):  # as some repr wrote it
        raise environment
    return text


def error_line(error: BaseException) -> str:
    """The type and the message of an exception, on one line."""
    return collapse_whitespace(f"{type(error).__name__}: {error}")


# ── a prompt for many rows ────────────────────────────────────────────────────────────────────────

ROW = "row"
"""The name of the row in a field, unless a column has it: ``{row[name]}``."""
_FIRST_NAME = re.compile(r"[^.\[]*")
_PATH = re.compile(r"\.([^.\[]+)|\[([^\]]+)\]")
_MAX_CHARS = 20_000  # of a value that is not text; text is sent whole


class _Field(NamedTuple):
    """A field of a prompt: a column, and what is written of its value."""

    source: str
    column: str | None  # None for the row itself
    path: tuple[str | int, ...] = ()  # attributes as ``.name``, and items
    conversion: str | None = None
    spec: str = ""


class Template:
    """A prompt in which ``{column}`` stands for a value of each row.

    A field has the grammar of `str.format`: ``{price:.2f}``, ``{name!r}``, ``{tags[0]}``; and
    ``{row[name]}``. A column whose whole name is between the braces is always meant.

    Args:
        text: The prompt.
        columns: The names of the columns; none if the rows have no columns.

    Raises:
        LookupFault: A group in braces is neither text nor a column.
    """

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        self._columns = columns
        self._parts: list[str | _Field] = []
        for part in parts_of(text, columns):
            if isinstance(part, str):
                self._parts.append(part)
            else:
                self._parts.append(self._field(part) or part.source)

    @property
    def fields(self) -> dict[str, str]:
        """The fields as they were written, with the column of each; the row itself has none."""
        fields = [each for each in self._parts if isinstance(each, _Field)]
        return {each.source: each.column for each in fields if each.column is not None}

    @property
    def has_fields(self) -> bool:
        """Whether the prompt has a field."""
        return any(isinstance(each, _Field) for each in self._parts)

    def filled(self, row: Mapping[str, Any]) -> str:
        """The prompt with the values of a row, which has the names of the columns as keys.

        Raises:
            LookupFault: A value has no such part, or cannot be formatted in this way.
        """
        return "".join(
            each if isinstance(each, str) else _filled(each, row) for each in self._parts
        )

    def _field(self, group: Group) -> _Field | None:
        """The field that a group is; None if it is text."""
        for body in dict.fromkeys((group.body, group.body.strip())):
            field = _parsed_field(body)
            column = self._column(field.column) if field is not None else None
            if field is not None and column is not None:
                return field._replace(source=group.source, column=column)
            if body in self._columns:
                return _Field(group.source, body)
        if field is not None and str(field.column).strip() == ROW and self._columns:
            first, *rest = field.path or (None,)
            name = str(first).removeprefix(".")
            if first is None:
                return field._replace(source=group.source, column=None)
            if name in self._columns:
                return field._replace(source=group.source, column=name, path=tuple(rest))
            raise self._fault(group, name)
        if _lookup_in(body, {}) is None:
            return None
        raise self._fault(group, body)

    def _column(self, name: str | None) -> str | None:
        """The column that a name means, which may have white space around it; None for none."""
        both = (name, str(name).strip())
        return next((each for each in both if each in self._columns), None)

    def _fault(self, group: Group, name: str) -> LookupFault:
        known = ", ".join(map(repr, self._columns[:40]))
        hint = did_you_mean(_FIRST_NAME.match(name.partition(":")[0])[0].strip(), self._columns)  # type: ignore[index]
        columns = f"Put one of the columns between the braces: {known}"
        if not self._columns:
            columns = "The rows have no columns: leave it out, and each row is below the prompt"
        return LookupFault(
            f"the prompt names {group.source!r}, which is not a column{hint or '.'} {columns}; or "
            "double the braces to send them as text."
        )


def _parsed_field(body: str) -> _Field | None:
    """A group in the grammar of `str.format`; None if it has another."""
    try:
        [(_, name, spec, conversion)] = string.Formatter().parse(f"{{{body}}}")
    except ValueError:
        return None
    if name is None:
        return None
    first = _FIRST_NAME.match(name)[0]  # type: ignore[index]
    path: list[str | int] = []
    at = len(first)
    while at < len(name):
        step = _PATH.match(name, at)
        if step is None:
            return None
        item = step[2]
        if item is None:
            path.append(f".{step[1]}")
        else:
            path.append(int(item) if item.isascii() and item.isdigit() else item)
        at = step.end()
    return _Field(body, first, tuple(path), conversion, spec or "")


def _filled(field: _Field, row: Mapping[str, Any]) -> str:
    value: Any = row
    if field.column is not None:
        value = row.get(field.column)
    if is_missing(value) and field.conversion is None:
        return MISSING
    try:
        for step in field.path:
            value = _part_of(value, step)
        if field.conversion is not None:
            value = _CONVERSIONS[ord(field.conversion)](value)
        if field.spec:
            return format(value, field.spec)
    except LookupFault as fault:
        raise LookupFault(f"{field.source} is not looked up: {fault}") from None
    except Exception as error:  # the value is the user's and may raise anything
        shown = collapse_whitespace(safe_repr(value), 80)
        raise LookupFault(
            f"{field.source} cannot be written of {shown}: {error_line(error)}. Correct the field, "
            "or leave out such rows"
        ) from error
    return value_text(value)


def _part_of(value: Any, step: str | int) -> Any:
    """An attribute or an item of a value; no private one, and none of a module."""
    if isinstance(step, str) and step.startswith("."):
        if step.startswith("._"):
            raise LookupFault(f"the attribute {step[1:]!r} is private")
        found = getattr(value, step[1:])
    else:
        found = value[step]
    if issubclass(type(found), _CLOSED):
        raise LookupFault(f"it goes through a {type(found).__name__.lstrip('_')}")
    return found


def value_text(value: Any) -> str:
    """A value of a row as the model reads it: a text whole, anything else in bounds."""
    if isinstance(value, str):
        return str.__str__(value)
    if is_missing(value):
        return MISSING
    if isinstance(value, (int, float, complex, Decimal, dt.date, dt.time, dt.timedelta)):
        return str(value)
    if is_array(value):
        return truncate_middle(cell_text(value, _MAX_CHARS), _MAX_CHARS)
    return render(value, _MAX_CHARS).text
