"""A tool as Python: what a model reads of it, and what the type checker of programs reads.

Both are made when they are first needed. Names, texts and values of a tool come from anywhere, so
each part is checked or quoted, and neither text can be left by any of them.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import datetime as dt
import enum
import keyword
import math
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin
from weakref import WeakKeyDictionary

import typing_extensions

from archytas_nb.errors import ConfigurationError
from archytas_nb.syntax.parse import parsed
from archytas_nb.syntax.program import PROGRAM_ENDINGS
from archytas_nb.tools import signature
from archytas_nb.tools.annotation import enum_choices, type_text
from archytas_nb.tools.meaning import inner_type, is_union, raw_annotations
from archytas_nb.tools.parameter import MISSING, Parameter
from archytas_nb.tools.render import Rendered
from archytas_nb.tools.tool import Tool
from archytas_nb.words import visible

_MAX_DEFAULT = 100  # characters of a default that the model reads
_TAKEN = frozenset({*PROGRAM_ENDINGS, *dir(builtins)})

PRIVATE = "_sandbox_"
"""The beginning of the names that the sandbox has for itself."""


def by_python_name(tools: Iterable[Tool]) -> dict[str, Tool]:
    """The tools by their names as functions.

    Raises:
        ConfigurationError: Two of them have one name.
    """
    found: dict[str, Tool] = {}
    for tool in tools:
        name = python_name(tool)
        if name in found:
            both = f"the tools {found[name].name!r} and {tool.name!r}"
            raise ConfigurationError(
                f"{both} have the same name in a program, {name!r}: rename one of them with "
                "@tool(name=…), leave one out with tools=, or use protocol='react' or "
                "protocol='native'"
            )
        found[name] = tool
    return found


def python_name(tool: Tool) -> str:
    """The name of a tool as a function: one that Python accepts, and that nothing else has."""
    name = tool.name.replace("-", "_")
    if name.startswith(PRIVATE):
        name = name.removeprefix("_")
    if name[:1].isdigit():
        name = f"_{name}"
    if keyword.iskeyword(name) or name in _TAKEN:
        name = f"{name}_"
    return name


# ── for the model ─────────────────────────────────────────────────────────────────────────────────

_declarations: WeakKeyDictionary[Tool, str] = WeakKeyDictionary()


def declaration(tool: Tool) -> str:
    """The signature and the docstring of a tool, as the model reads them."""
    if tool not in _declarations:
        _declarations[tool] = _declaration(tool)
    return _declarations[tool]


def _declaration(tool: Tool) -> str:
    sent = [each for each in tool.parameters if not each.injected]
    texts = [f"{_named(each)}: {_expression(each.type.text)}{_default(each)}" for each in sent]
    returned = signature.returned(tool.function)
    arrow = ""
    if returned is not MISSING:
        arrow = f" -> {_expression(_result_text(returned))}"
    head = f"def {python_name(tool)}({_listed(sent, texts)}){arrow}:"
    return "\n".join([head, *_docstring(_description(tool, sent, returned))])


def _result_text(annotation: Any) -> str:
    """The type of a result; what is written for the model is a text in a program."""
    inner = inner_type(annotation)
    parts = get_args(inner) if is_union(inner) else (annotation,)
    if Rendered not in parts:
        return type_text(annotation)
    return " | ".join(dict.fromkeys(type_text(str if each is Rendered else each) for each in parts))


def _listed(parameters: Sequence[Parameter], texts: Iterable[str]) -> str:
    """The parameters; a required one after an optional one can only be passed by its name."""
    listed: list[str] = []
    was_optional = False
    for each, text in zip(parameters, texts, strict=True):
        if was_optional and not each.optional and "*" not in listed:
            listed.append("*")
        was_optional = was_optional or each.optional
        listed.append(text)
    return ", ".join(listed)


def _named(parameter: Parameter) -> str:
    return f"**{parameter.name}" if parameter.is_rest else parameter.name


def _expression(text: str) -> str:
    """The name of a type, if it is nothing but that."""
    try:
        tree = parsed(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "Any"
    if "\n" in text or not all(isinstance(node, _IN_TYPES) for node in ast.walk(tree)):
        return "Any"
    return text


_IN_TYPES = (
    ast.Expression, ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr,
    ast.Constant, ast.UnaryOp, ast.USub, ast.Load,
)  # fmt: skip


def _default(parameter: Parameter) -> str:
    if not parameter.optional or parameter.is_rest:
        return ""
    value = parameter.default
    if isinstance(value, enum.Enum):
        choices = enum_choices(type(value))
        value = value.value if value.value in choices else value.name
    is_plain = value is None or type(value) in (bool, int, str, dt.date, dt.datetime, dt.time)
    is_number = type(value) is float and math.isfinite(value)
    is_empty = type(value) in (list, tuple, dict) and not value
    text = repr(value) if is_plain or is_number or is_empty else "..."
    if len(text) > _MAX_DEFAULT:
        text = "..."
    return f" = {text}"


def _description(tool: Tool, sent: Sequence[Parameter], returned: Any) -> str:
    """The docstring with the descriptions of the arguments and the result, without their types."""
    doc = signature.documented(tool.function)
    arguments = []
    for each in sent:
        lines = [line for line in (each.text, *_details(each)) if line]
        if lines:
            first, *more = "\n".join(lines).split("\n")
            arguments += [f"{each.name}: {first}", *(f"    {line}".rstrip() for line in more)]
    result = []
    if doc.returns is not None and doc.returns.text and returned not in (None, type(None)):
        result = [f"Returns: {doc.returns.text}"]
    fields = _Types().fields_text(returned)
    if fields:
        result.append(fields)
    parts = [doc.short, doc.long, "\n".join(arguments), "\n".join(result)]
    return "\n\n".join(part for part in parts if part)


def _details(parameter: Parameter) -> tuple[str, ...]:
    """Details that the name of a type lacks; none of an object, which is passed as it is."""
    if parameter.type.by_reference:
        return ()
    return parameter.type.details


def _docstring(text: str) -> list[str]:
    """The lines of a text as a docstring, which ends where the text ends."""
    if not text:
        return ["    ..."]
    quoted = visible(text.replace("\\", "\\\\")).replace('"""', '\\"\\"\\"')
    first, *more = quoted.split("\n")
    if not more and not first.endswith('"'):
        return [f'    """{first}"""']
    return [f'    """{first}', *(f"    {line}".rstrip() for line in more), '    """']


# ── for the type checker ──────────────────────────────────────────────────────────────────────────

_HEADER = """\
import collections.abc as _abc
import datetime as _datetime
import decimal as _decimal
import typing as _typing

def answer(value: _typing.Any = ...) -> None: ...
def give_up(reason: _typing.Any = ...) -> None: ...
def show(*values: _typing.Any) -> None: ...
def print(*values: _typing.Any, sep: _typing.Any = ..., end: _typing.Any = ...) -> None: ...
def map(function: _typing.Any, *items: _typing.Any) -> _typing.Any: ...
def filter(function: _typing.Any, items: _typing.Any) -> _typing.Any: ...
def getattr(value: _typing.Any, name: str, default: _typing.Any = ...) -> _typing.Any: ...
def hasattr(value: _typing.Any, name: str) -> bool: ...
def format(value: _typing.Any, spec: str = ...) -> str: ...
"""
"""What every program has; the type checker does not know all builtins of the sandbox."""

_NOTHING_TYPED: Mapping[str, Any] = MappingProxyType({})


def stubs(
    tools: Iterable[Tool], variables: Iterable[str] = (), typed: Mapping[str, Any] = _NOTHING_TYPED
) -> str:
    """The declarations before a program, for the type checker: tools, endings, and other names.

    Args:
        tools: The tools.
        variables: Names of values of any type.
        typed: The types of other variables, by their names.
    """
    known = [f"{name}: _typing.Any" for name in variables if _is_free(name)]
    types = _Types()
    known += [f"{name}: {types.returned(kind)!r}" for name, kind in typed.items()]
    functions = [_stub(tool, types) for tool in tools]
    return "\n".join([_HEADER, *known, *types.classes(), *functions, ""])


@dataclasses.dataclass(frozen=True, slots=True)
class RecordType:
    """A type of objects whose fields a program can read."""

    fields: tuple[str, ...]  # none if nothing can be read
    is_dict: bool  # whether they are read by key, not as attributes
    is_outside: bool = False  # whether these are facts of data that stays outside


def records(
    tools: Iterable[Tool], typed: Mapping[str, Any] = _NOTHING_TYPED
) -> dict[str, RecordType]:
    """The records in what the type checker reads of these, by the names that it uses."""
    types = _Types()
    for kind in typed.values():
        types.returned(kind)
    for tool in tools:
        _stub(tool, types)
    return types.records()


def type_for_programs(annotation: Any) -> str:
    """A type as the type checker of programs knows it; ``Any`` if it is not certain."""
    text = _Types().returned(annotation)
    return re.sub(r"\b_(typing|datetime|decimal|abc)\.", "", text)


def _is_free(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name not in _TAKEN


def _stub(tool: Tool, types: _Types) -> str:
    hints = signature.argument_types(tool.function)
    sent = [each for each in tool.parameters if not each.injected]
    texts = []
    for each in sent:
        kind = types.accepted(hints.get(each.name, Any))
        if each.is_rest:
            texts.append(f"**{each.name}: {kind}")
        elif each.optional:
            texts.append(f"{each.name}: {_union([kind, 'None'])} = ...")
        else:
            texts.append(f"{each.name}: {kind}")
    returned = types.returned(signature.returned(tool.function))
    return f"def {python_name(tool)}({_listed(sent, texts)}) -> {returned}: ..."


_ANY = "_typing.Any"
_NUMBERS = (bool, int, float)
_EXACT: dict[Any, str] = {
    type(None): "None", None: "None", bool: "bool", int: "int", float: "float", str: "str",
    bytes: "bytes", complex: _ANY, Decimal: "_decimal.Decimal", dt.date: "_datetime.date",
    dt.datetime: "_datetime.datetime", dt.time: "_datetime.time",
    dt.timedelta: "_datetime.timedelta",
}  # fmt: skip
"""Types whose values the sandbox has."""

_OTHER_FORMS: dict[Any, str] = {
    bytes: "str", Decimal: "str | float", dt.date: "str", dt.datetime: "str | _datetime.date",
    dt.time: "str", dt.timedelta: "str | float",
}  # fmt: skip
"""What an argument of a type may be given as too."""

_OPAQUE = frozenset({"DataFrame", "LazyFrame", "Series", "Index", "ndarray"})
_FACTS: dict[str, Any] = {"shape": tuple[int, ...], "columns": list[str]}
"""What a program can read of data that stays outside, and their types."""


class _Types:
    """Types as the type checker reads them, and the classes of the records in them."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}  # of records, by their class
        self._classes: dict[str, str] = {}

    def classes(self) -> list[str]:
        """The definitions of the records."""
        return list(self._classes.values())

    def records(self) -> dict[str, RecordType]:
        """The readable parts of the records."""
        return {
            name: RecordType(
                tuple(fields_of(cls)),
                bool(typing_extensions.is_typeddict(cls)),
                _is_opaque(cls),
            )
            for cls, name in self._names.items()
        }

    # ── of an argument: everything that the tool might accept ─────────────────────────────────────

    def accepted(self, annotation: Any) -> str:
        """The type of an argument: nothing that the tool accepts is outside of it."""
        inner = inner_type(annotation)
        origin = get_origin(inner) or inner
        args = get_args(inner)
        if is_union(inner):
            return _union(self.accepted(each) for each in args)
        if origin is Literal or _is_enum(origin):
            return _literal(_choices(inner))
        if origin in _EXACT:
            return _union([_EXACT[origin], _OTHER_FORMS.get(origin, "")])
        if _is_record(origin):
            return _union([self._record(origin), f"_abc.Mapping[str, {_ANY}]"])
        if not isinstance(origin, type) or not issubclass(origin, (Iterable, Mapping)):
            return _ANY
        if not origin.__module__.startswith(("builtins", "collections")):
            return _ANY
        if issubclass(origin, Mapping):
            return f"_abc.Mapping[{_ANY}, {self._widened(args[1:2])}]"
        is_uniform = len(args) == 1 or (len(args) == 2 and args[1] is ...)
        return f"_abc.Iterable[{self._widened(args[:1]) if is_uniform else _ANY}]"

    def _widened(self, args: Sequence[Any]) -> str:
        """The type of the items of a container, in which the checker does not see literals."""
        text = self.accepted(args[0]) if args else _ANY
        return _ANY if "Literal[" in text else text

    # ── of a result: as exact as it is known ──────────────────────────────────────────────────────

    def returned(self, annotation: Any) -> str:
        """The type of a result as the sandbox has it; Any if it is not certain."""
        if annotation is MISSING:
            return _ANY
        inner = inner_type(annotation)
        origin = get_origin(inner) or inner
        args = get_args(inner)
        if origin is Rendered:
            return "str"
        if is_union(inner):
            return _union(self.returned(each) for each in args)
        if origin is Literal or _is_enum(origin):
            return _literal(_choices(inner))
        if origin in _EXACT:
            return _EXACT[origin]
        if _is_record(origin):
            return self._record(origin)
        if origin in (list, set, frozenset, dict, tuple):
            return self._container(origin, args)
        if origin in _CONCRETE and args:
            return self._container(_CONCRETE[origin], args)
        if isinstance(origin, type) and _is_opaque(origin):
            return self._record(origin)
        return _ANY

    def _container(self, origin: type, args: Sequence[Any]) -> str:
        if not args:
            return origin.__name__
        inside = ", ".join("..." if each is ... else self.returned(each) for each in args)
        return f"{origin.__name__}[{inside}]"

    def _record(self, cls: Any) -> str:
        if cls in self._names:
            return self._names[cls]
        name = self._name(cls)
        self._names[cls] = name
        self._classes[name] = ""  # before its fields: they may contain it
        fields = {key: self.returned(kind) for key, kind in fields_of(cls).items()}
        if not typing_extensions.is_typeddict(cls) and not issubclass(cls, tuple):
            fields = {key: _read_only(kind) for key, kind in fields.items()}
        if typing_extensions.is_typeddict(cls):
            lines = [f"class {name}(_typing.TypedDict, total=False):"]
            lines += [f"    {key}: {kind}" for key, kind in fields.items()]
        elif issubclass(cls, tuple):
            lines = [f"class {name}(_typing.NamedTuple):"]
            lines += [f"    {key}: {kind}" for key, kind in fields.items()]
        else:
            lines = [f"class {name}:"]
            for key, kind in fields.items():
                lines += ["    @property", f"    def {key}(self) -> {kind}: ..."]
            if _is_opaque(cls):
                lines.append("    def __len__(self) -> int: ...")
        if not fields:
            lines.append("    ...")
        self._classes[name] = "\n".join(lines)
        return name

    def _name(self, cls: Any) -> str:
        """A name for a class that nothing else has."""
        stem = re.sub(r"\W", "_", str(cls.__name__), flags=re.ASCII)
        if not _is_free(stem) or stem.startswith("_"):
            stem = f"Record_{stem}"
        name = stem
        number = 1
        while name in self._classes:
            number += 1
            name = f"{stem}_{number}"
        return name

    def fields_text(self, annotation: Any) -> str:
        """A line for each record in a result, which says how its fields are read."""
        if annotation is MISSING:
            return ""
        self.returned(annotation)
        lines = []
        for cls, name in self._names.items():
            fields = [f"{key}: {_expression(_text(kind))}" for key, kind in fields_of(cls).items()]
            if typing_extensions.is_typeddict(cls):
                lines.append(f"{name} is a dict with {', '.join(fields)}.")
            elif fields and not _is_opaque(cls):
                lines.append(f"{name} has the attributes {', '.join(fields)}.")
        return "\n".join(lines)


_CONCRETE: dict[Any, type] = {Sequence: list, Mapping: dict, AbstractSet: set}

_READ_ONLY = {"list": "Sequence", "set": "Set", "dict": "Mapping"}
"""The types of what a record contains: a change of it would not reach the object outside."""


def _read_only(kind: str) -> str:
    """A type whose values must not be changed, for types that the type checker knows."""
    return re.sub(
        r"(?<![\w.])(list|set|dict)\b", lambda found: f"_abc.{_READ_ONLY[found[1]]}", kind
    )


def _text(annotation: Any) -> str:
    return "Any" if annotation is MISSING else type_text(annotation)


def _union(kinds: Iterable[str]) -> str:
    """The types joined; Any if one of them is."""
    found = list(dict.fromkeys(part for kind in kinds for part in kind.split(" | ") if part))
    if _ANY in found or not found:
        return _ANY
    return " | ".join(found)


def _is_enum(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, enum.Enum) and len(cls) > 0


def _choices(annotation: Any) -> list[Any]:
    if _is_enum(annotation):
        return enum_choices(annotation)
    return [each.value if isinstance(each, enum.Enum) else each for each in get_args(annotation)]


def _literal(choices: Sequence[Any]) -> str:
    if any(each is not None and type(each) not in (str, int, bool) for each in choices):
        return _ANY
    return f"_typing.Literal[{', '.join(map(ascii, choices))}]"


def _is_opaque(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("numpy", "pandas", "polars") and (
        cls.__name__ in _OPAQUE
    )


def _is_record(cls: Any) -> bool:
    if not isinstance(cls, type):
        return False
    if typing_extensions.is_typeddict(cls) or dataclasses.is_dataclass(cls):
        return True
    is_model = isinstance(getattr(cls, "__pydantic_fields__", None), dict)
    is_attrs = isinstance(getattr(cls, "__attrs_attrs__", None), tuple)
    return is_model or is_attrs or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def fields_of(cls: Any) -> dict[str, Any]:
    """The public fields of a record with their annotations; `MISSING` for one without."""
    names: list[str] = []
    if _is_opaque(cls):
        return dict(_FACTS if hasattr(cls, "columns") else [("shape", _FACTS["shape"])])
    if typing_extensions.is_typeddict(cls):
        names = list(raw_annotations(cls))
    elif dataclasses.is_dataclass(cls):
        names = [each.name for each in dataclasses.fields(cls)]
    elif isinstance(getattr(cls, "__pydantic_fields__", None), dict):
        names = list(cls.__pydantic_fields__)
    elif isinstance(getattr(cls, "__attrs_attrs__", None), tuple):
        names = [each.name for each in cls.__attrs_attrs__]
    elif hasattr(cls, "_fields"):
        names = list(cls._fields)
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001  (evaluating annotations that are strings runs user code)
        hints = {}
    return {
        name: hints.get(name, MISSING)
        for name in names
        if name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
    }
