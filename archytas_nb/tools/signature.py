"""Read a callable's signature, compare it with the docstring, and write what the model reads of it.

The signature decides what is required, optional and of which type; the docstring gives the words.
"""

from __future__ import annotations

import collections.abc
import copy
import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NewType, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from archytas_nb.errors import ToolError
from archytas_nb.tools import docstring
from archytas_nb.tools.annotation import Unusable, is_simple, type_text
from archytas_nb.tools.docstring import Described, Docstring
from archytas_nb.tools.names import legal_name, nearest
from archytas_nb.tools.schema import ArgumentType, argument_type

MISSING: Any = inspect.Parameter.empty
"""Stands for "no annotation" and "no default"."""

Namespace = NewType("Namespace", MutableMapping[str, Any])
"""The annotation of a parameter that gets the live namespace; the model does not see it."""

_OURS = str(Path(__file__).parent.parent)
_MUTABLE = (list, dict, set, bytearray)
_YIELDING = (
    collections.abc.Generator, collections.abc.Iterator, collections.abc.Iterable,
    collections.abc.AsyncGenerator, collections.abc.AsyncIterator, collections.abc.AsyncIterable,
)  # fmt: skip
_GENERATES = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
_AWAITS = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str  # in the signature and on the wire
    text: str  # its description
    type: ArgumentType
    default: Any  # `MISSING` for a required one
    positional: bool  # whether it can only be passed by position
    explicit: bool  # whether the default must be passed: it is in a ``Field(…)`` or mutable
    simple: bool  # whether, alone, it is sent as the bare value
    injected: bool = False  # whether it is the namespace, which the model does not see

    @property
    def optional(self) -> bool:
        """Whether it may be left out."""
        return self.default is not MISSING

    def fresh_default(self) -> Any:
        """The default; a mutable one is copied, so that calls do not share it."""
        return copy.deepcopy(self.default) if isinstance(self.default, _MUTABLE) else self.default

    def line(self, indent: str) -> str:
        """Its line in the text protocol."""
        text = "\n".join([self.text, *self.type.details] if self.text else self.type.details)
        return _line(f"{self.type.text}{', optional' if self.optional else ''}", text, indent)


@dataclass(slots=True)
class Signature:
    """What is known of a callable."""

    name: str
    is_async: bool  # whether a call gives an awaitable
    bound: set[str]  # names that the signature once had and that ``partial`` has bound
    doc: Docstring = field(default_factory=Docstring)
    parameters: list[inspect.Parameter] = field(default_factory=list)  # annotations resolved
    returns: Any = MISSING  # the resolved annotation
    faults: list[str] = field(default_factory=list)  # why it cannot be a tool
    issues: list[str] = field(default_factory=list)  # what is missing without harm


def define(f: Callable[..., Any], name: str | None) -> dict[str, Any]:
    """What a tool is made of, as fields of `Tool`; raises ToolError with every fault."""
    if isinstance(f, type):
        why = f"Toolbox({f.__name__}) makes tools of its methods"
        raise ToolError(f"{f.__name__!r} is a class: {why}")
    if not callable(f):
        why = "expected a function (Toolbox(obj) makes tools of an object's methods)"
        raise ToolError(f"{f!r} cannot be called; {why}")
    sig = read(f)
    source_name = sig.name if name is None else name
    try:
        wire_name, faults = legal_name(source_name), []
    except ToolError as error:
        wire_name, faults = "", [str(error)]
    parameters, more_faults, issues = _parameters(sig)
    if faults := [*faults, *more_faults]:
        code = getattr(inspect.unwrap(_unbound(f)[0]), "__code__", None)
        where = f" (defined at line {code.co_firstlineno})" if code is not None else ""
        raise ToolError(f"{source_name!r} cannot be a tool{where}:", faults)
    kind, text, more_issues = _result(sig, is_generator=_is_any(_GENERATES, f))
    prose = [part for part in (sig.doc.short, sig.doc.long) if part]
    sent = [each for each in parameters if not each.injected]
    described = [*prose, *([f"Returns: {_line(kind, text, '')}"] if kind else [])]
    output = _line(kind, text, "    ") if kind else "None"
    return {
        "name": wire_name,
        "source_name": source_name,
        "text": _protocol_text(wire_name, prose, sent, output),
        "description": "\n\n".join(described),
        "issues": (*issues, *more_issues),
        "is_async": sig.is_async,
        "parameters": tuple(parameters),
        "function": f,
    }


# ── the text protocol ─────────────────────────────────────────────────────────────────────────────


def _protocol_text(name: str, prose: list[str], sent: list[Parameter], output: str) -> str:
    """The description of a tool, byte for byte."""
    lines = [f"{name}:"]
    for part in prose:
        lines += [*(f"    {each}".rstrip() for each in part.split("\n")), ""]
    if not sent:
        lines.append("    _input_: None")
    elif len(sent) == 1 and sent[0].simple:
        lines.append(f"    _input_: {sent[0].line('    ')}")
    else:
        lines += ["    _input_: a json object with the following fields:", "    {"]
        lines += [f'        "{each.name}": # {each.line("        ")}' for each in sent]
        lines.append("    }")
    return "\n".join([*lines, f"    _output_: {output}"])


def _line(kind: str, text: str, indent: str) -> str:
    """``(TYPE, optional) DESC``; the description's further lines go below the indent."""
    first, *more = text.split("\n")
    below = [f"{indent}    {each}".rstrip() for each in more]
    return "\n".join([f"({kind}) {first}".rstrip(), *below])


# ── the signature ─────────────────────────────────────────────────────────────────────────────────


def read(f: Callable[..., Any]) -> Signature:
    """Read a function of any kind, a bound method, a partial, an object with ``__call__``."""
    base, bound = _unbound(f)
    sig = Signature(_name(f, base), _is_any(_AWAITS, base), bound)
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError) as error:
        why = f"its signature cannot be read ({error}): wrap it in a function with annotations"
        sig.faults.append(why)
        return sig
    sig.doc = docstring.parse(_doc(f, base), list(parameters))
    hints: dict[str, Any] = {}
    try:
        hints = _hints(base)
    except NameError as error:
        name = getattr(error, "name", None) or str(error)
        why = f"the annotation {name!r} is not defined: define or import it before the function"
        sig.faults.append(why)
    except Exception as error:  # noqa: BLE001  (annotations are user code when they are strings)
        sig.faults.append(f"its annotations cannot be evaluated: {type(error).__name__}: {error}")
    is_unread = bool(sig.faults)
    sig.returns = hints.get("return", MISSING)
    # functools.singledispatch looks at the first argument by position, and refuses it by name
    dispatches = hasattr(base, "registry") and hasattr(base, "dispatch")
    for each in parameters.values():
        if each.name in bound:
            continue
        if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD}:
            star = "*" if each.kind is each.VAR_POSITIONAL else "**"
            sig.faults.append(
                f"{star}{each.name} cannot be described to a model: name each argument"
                " (a wrapper keeps its function's signature with functools.wraps)"
            )
            continue
        annotation = hints.get(each.name, MISSING if is_unread else each.annotation)
        if annotation is MISSING and inspect.isbuiltin(base):  # nobody can annotate it
            annotation = Any
            sig.issues.append(
                f"the argument {each.name!r} has no annotation: the model reads (Any)"
            )
        by_place = dispatches and not sig.parameters and each.kind is each.POSITIONAL_OR_KEYWORD
        kind = each.POSITIONAL_ONLY if by_place else each.kind
        sig.parameters.append(each.replace(annotation=annotation, kind=kind))
    first = sig.parameters[0] if sig.parameters else None
    is_method = first and first.name in {"self", "cls"} and first.annotation is MISSING
    if is_method and not inspect.ismethod(base) and is_in_class(base):
        why = "add the object's method, or decorate the class too"
        sig.faults[:] = [f"it is a method without its object: {why}"]
    return sig


def is_in_class(f: Any) -> bool:
    """Whether a function was defined in the body of a class."""
    outer = getattr(f, "__qualname__", "").rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def _is_any(checks: Iterable[Callable[[Any], bool]], f: Any) -> bool:
    return any(check(each) for check in checks for each in (f, inspect.unwrap(f)))


def _unbound(f: Any) -> tuple[Any, set[str]]:
    """The function with name, hints and docstring, and the names that ``partial`` has bound."""
    bound: set[str] = set()
    while isinstance(f, functools.partial):
        try:
            names = list(inspect.signature(f.func).parameters)
        except (TypeError, ValueError):
            names = []
        bound |= {*names[: len(f.args)], *f.keywords}
        f = f.func
    if isinstance(f, (staticmethod, classmethod)):
        f = f.__func__
    if not inspect.isroutine(f) and not isinstance(f, type) and not hasattr(f, "__wrapped__"):
        f = f.__call__ if callable(f) else f
    return f, bound


def _name(f: Any, base: Any) -> str:
    for each in (f, base):
        name = getattr(each, "__name__", None)
        if isinstance(name, str) and name != "__call__":
            return name
    return type(f).__name__


def _doc(f: Any, base: Any) -> str:
    is_partial = isinstance(f, functools.partial)
    if is_partial and f.__doc__ != functools.partial.__doc__ and (own := inspect.getdoc(f)):
        return own
    own = getattr(base, "__doc__", None)
    if isinstance(own, str) and own.strip():
        return own
    inherited = inspect.getdoc(base) if inspect.isroutine(base) else None
    of_object = type(f).__doc__ if not inspect.isroutine(f) and not is_partial else None
    return inherited or of_object or ""


def _hints(base: Any) -> dict[str, Any]:
    """The annotations, resolved against globals, closure and the defining scopes."""
    raw = getattr(base, "__annotations__", None) or {}
    if not any(isinstance(each, str) or "'" in repr(each) for each in raw.values()):
        return dict(typing.get_type_hints(base, include_extras=True)) if raw else {}
    function = inspect.unwrap(base)
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    local = {each.__name__: each for each in getattr(function, "__type_params__", ())}
    for name, cell in zip(code.co_freevars if code else (), cells or (), strict=False):
        try:
            local[name] = cell.cell_contents
        except ValueError:  # the cell is not filled yet: the variable is assigned later
            continue
    while True:
        try:
            return dict(typing.get_type_hints(base, localns=local or None, include_extras=True))
        except NameError as error:
            name = getattr(error, "name", None) or ""
            found = _in_callers(name)
            if not name or name in local or found is MISSING:
                raise
            local[name] = found


def _in_callers(name: str) -> Any:
    """A type that is local to the function in which the tool is being defined."""
    frame = sys._getframe(1)  # noqa: SLF001  (nothing has closed over that scope)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OURS) and name in frame.f_locals:
            return frame.f_locals[name]
        frame = frame.f_back  # type: ignore[assignment]
    return MISSING


# ── signature and docstring ───────────────────────────────────────────────────────────────────────


def _parameters(sig: Signature) -> tuple[list[Parameter], list[str], list[str]]:
    """The parameters, the faults, and what differs between signature and docstring without harm."""
    faults, issues = list(sig.faults), list(sig.issues)
    made: list[Parameter] = []
    undescribed = []
    for each in sig.parameters:
        words = sig.doc.params.get(each.name)
        if each.annotation is MISSING:
            if not any("annotation" in fault for fault in sig.faults):
                is_type = words and re.fullmatch(r"[\w\[\], |.]+", words.type)
                guess = f"{each.name}: {words.type if words and is_type else '<its type>'}"
                faults.append(f"the argument {each.name!r} has no annotation: write {guess}")
            continue
        try:
            made.append(_parameter(each, words))
        except Unusable as error:
            faults.append(f"the annotation of {each.name!r} cannot be used: {error}")
            continue
        if words:
            issues += _differences(made[-1], words)
        elif not made[-1].text and not made[-1].injected:
            undescribed.append(each.name)
    signed = [each.name for each in sig.parameters if each.annotation is not Namespace]
    known = {*sig.bound, *(each.name for each in sig.parameters)}
    unknown = [name for name in sig.doc.params if name not in known]
    if unknown:  # an argument under a wrong name would mislead the model
        faults += _misnamed(undescribed, unknown, signed, list(sig.doc.params))
    elif sig.doc == Docstring():
        issues.append('it has no docstring: add one that says what it does, """Like this."""')
    elif undescribed:
        names = ", ".join(map(repr, undescribed))
        issues.append(f"the docstring does not describe {names}: say in Args what is expected")
    return made, faults, issues


def _parameter(one: inspect.Parameter, words: Described | None) -> Parameter:
    positional = one.kind is one.POSITIONAL_ONLY
    if one.annotation is Namespace:
        return Parameter(
            one.name, "", argument_type(Any), None, positional,
            explicit=True, simple=False, injected=True,
        )  # fmt: skip
    info = one.default if isinstance(one.default, FieldInfo) else None
    text = words.text if words else _annotated_text(one.annotation)
    if not words and not text and info:
        text = info.description or ""
    default = one.default if info is None else _field_default(info)
    explicit = info is not None or isinstance(default, _MUTABLE)
    kind, simple = argument_type(one.annotation, info), is_simple(one.annotation)
    return Parameter(one.name, text, kind, default, positional, explicit, simple)


def _field_default(info: FieldInfo) -> Any:
    factory: Any = info.default_factory
    value = factory() if factory is not None else info.default
    return MISSING if value is PydanticUndefined or value is ... else value


def _annotated_text(annotation: Any) -> str:
    """The description in ``Annotated``: a text, ``Field(description=…)`` or ``Doc(…)``."""
    if get_origin(annotation) is Annotated:
        for each in get_args(annotation)[1:]:
            described = [getattr(each, name, None) for name in ("description", "documentation")]
            for text in (each, *described):
                if isinstance(text, str) and text:
                    return text
    return ""


def _misnamed(
    undescribed: list[str], unknown: list[str], signed: list[str], described: list[str]
) -> list[str]:
    one, other = (", ".join(map(repr, names)) for names in (signed, described))
    both = f" (the signature has {{{one}}}, the docstring describes {{{other}}})"
    faults = []
    for name in unknown:
        near = nearest(name, undescribed or signed)
        guess = f"did you mean {near!r}?" if near else "remove it, or add it to the signature"
        faults.append(f"the docstring describes {name!r}, which is not an argument: {guess}{both}")
    return faults


def _differences(one: Parameter, words: Described) -> list[str]:
    issues = []
    if words.optional and not one.optional:
        why = "but it has no default in the signature: it is required"
        issues.append(f"the docstring calls {one.name!r} optional, {why}")
    if words.type and not _agree(words.type, one.type.text):
        issues.append(
            f"the docstring gives {one.name!r} the type {words.type!r}, the signature"
            f" {one.type.text!r}: the signature counts"
        )
    return issues


def _result(sig: Signature, *, is_generator: bool) -> tuple[str, str, list[str]]:
    """The result's type in words, empty for none; its description; and the issues."""
    words = sig.doc.returns or Described("")
    if sig.returns is None or sig.returns is type(None):
        return "", "", []
    if sig.returns is MISSING:
        return "Any", words.text, ["the return annotation is missing: the model reads (Any)"]
    kind = type_text(sig.returns)
    if is_generator and (get_origin(sig.returns) or sig.returns) in _YIELDING:
        args = get_args(sig.returns)  # what it yields is read to the end
        kind = f"list[{type_text(args[0])}]" if args else "list"
    if not words.type or _agree(words.type, kind):
        return kind, words.text, []
    issue = f"the docstring says that it returns {words.type!r}, the signature {kind!r}"
    return kind, words.text, [f"{issue}: the signature counts"]


_SYNONYMS = {
    "string": "str", "text": "str", "integer": "int", "boolean": "bool", "dictionary": "dict",
    "array": "list", "double": "float", "nonetype": "none", "object": "any", "mapping": "dict",
    "sequence": "list", "iterable": "list", "function": "callable", "enum": "literal",
}  # fmt: skip


@lru_cache(maxsize=4096)
def _agree(claimed: str, text: str) -> bool:
    """Whether two spellings of a type may mean the same; only the outermost names are compared."""
    a, b = _outer(claimed), _outer(text)
    is_number = "number" in a and bool(b & {"int", "float", "decimal"})
    return not a or bool(a & b) or "any" in a | b or "literal" in b or is_number


def _outer(text: str) -> set[str]:
    inner = re.sub(r"^(?:Optional|Union)\[(.*)\]$", r"\1", text.strip())
    plain = re.sub(r"\[.*\]|\{.*\}|\(.*\)", "", inner)
    names = re.split(r"\s*(?:\||,|\bor\b|\bof\b.*)\s*", plain)
    outer = {each.rsplit(".", 1)[-1].strip("`' ").lower() for each in names if each.strip()}
    return {_SYNONYMS.get(each, each) for each in outer} - {"none"}
