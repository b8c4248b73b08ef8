"""Read a callable's signature and docstring, compare them, and write the tool's text for the model.

The signature determines types and which arguments are required; the docstring describes them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import keyword
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from archytas_nb.errors import ToolError
from archytas_nb.tools import docstring
from archytas_nb.tools.annotation import Unusable, is_simple, type_text
from archytas_nb.tools.arguments import read_value
from archytas_nb.tools.current import CurrentRun
from archytas_nb.tools.docstring import Description, Docstring
from archytas_nb.tools.meaning import (
    Rest,
    Unevaluated,
    evaluated,
    extra_items,
    layers,
    metadata,
    raw_annotations,
    signature_of,
    typed_dict_fields,
    unpacked,
)
from archytas_nb.tools.names import legal_name
from archytas_nb.tools.outdated import outdated
from archytas_nb.tools.parameter import MISSING, OMITTED, Parameter, type_line
from archytas_nb.tools.schema import ArgumentType, argument_type
from archytas_nb.tools.variables import LiveNamespace
from archytas_nb.words import nearest, truncate_line


class _Draft:
    """A tool definition in progress."""

    def __init__(self, f: Callable[..., Any], name: str | None) -> None:
        self.f = f
        self.base, self.bound = _unwrapped(f)
        if name is None:
            name = _name(f, self.base)
        self.source_name = name
        self.gathered: list[str] = []  # what is described by a TypedDict, such as **keywords
        self.parameters: list[Parameter] = []
        self.faults: list[str] = []  # reasons why it cannot be a tool
        self.issues: list[str] = []  # warnings about missing or inconsistent descriptions


_SAYS_NOTHING = ("Any", "str")
"""Types of a result of which function calling says nothing: the model reads a text anyway."""


def define(f: Callable[..., Any], name: str | None, note: str = "") -> dict[str, Any]:
    """The fields of a `Tool` for a callable; raises ToolError with all faults.

    Args:
        f: The callable.
        name: The tool's name; None for that of the callable.
        note: The note for the model below the description in function calling.
    """
    if isinstance(f, type) or not callable(f):
        why = "expected a function (Toolbox(…) turns the methods of a class or object into tools)"
        raise ToolError(f"{truncate_line(repr(f), 60)} cannot be a tool; {why}")
    draft = _Draft(f, name)
    wire_name = ""
    doc = Docstring()
    returns = MISSING
    # Faults are gathered, so that one message tells the author all of them.
    try:
        wire_name = legal_name(draft.source_name)
    except ToolError as error:
        draft.faults.append(str(error))
    try:
        signature, returns = _read(f, draft.base)
        draft.gathered += [
            each.name
            for each in signature_of(f).parameters.values()
            if each.kind is each.VAR_KEYWORD
        ]
        doc = docstring.parse(_doc(f, draft.base), list(signature))
        for each in signature.values():
            if each.name not in draft.bound:
                _add_parameter(draft, each, doc.params.get(each.name))
        _compare_names(draft, doc, [each for each in signature if each not in draft.bound])
    except Unusable as error:
        draft.faults.append(str(error))
    if draft.faults:
        code = getattr(inspect.unwrap(draft.base), "__code__", None)
        where = ""
        if code is not None:
            where = f" (defined at line {code.co_firstlineno})"
        if code is not None and "site-packages" in code.co_filename:
            where = (
                f" (it belongs to {draft.base.__module__}: call it in a function that you write)"
            )
        raise ToolError(f"{draft.source_name!r} cannot be a tool{where}:", draft.faults)
    kind, text = _describe_result(draft, returns, doc.returns or Description(""))
    prose = [part for part in (doc.short, doc.long) if part]
    sent = [each for each in draft.parameters if not each.injected]
    described = list(prose)
    if kind and (text or kind not in _SAYS_NOTHING):
        described.append(f"Returns: {type_line(kind, text, '')}")
    output = type_line(kind, text, "    ") if kind else "None"
    old = outdated(inspect.unwrap(draft.base))
    described += [*old, *([note] if note else [])]
    return {
        "name": wire_name,
        "source_name": draft.source_name,
        "text": _protocol_text(wire_name, [*prose, *old], sent, output),
        "outdated": old,
        "description": "\n\n".join(described),
        "issues": tuple(draft.issues),
        "is_async": _is_any(draft.base, inspect.iscoroutinefunction, inspect.isasyncgenfunction),
        "parameters": tuple(draft.parameters),
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
        lines += [f"        {each.key}: # {each.line('        ')}" for each in sent]
        lines.append("    }")
    return "\n".join([*lines, f"    _output_: {output}"])


# ── the callable ──────────────────────────────────────────────────────────────────────────────────


def is_in_class(f: Any) -> bool:
    """Whether a function was defined in the body of a class."""
    outer = getattr(f, "__qualname__", "").rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def _is_any(f: Any, *checks: Callable[[Any], bool]) -> bool:
    inner = inspect.unwrap(f)
    functions = (f,) if inner is f else (f, inner)
    return any(check(each) for check in checks for each in functions)


def _unwrapped(f: Any) -> tuple[Any, set[str]]:
    """The function with the name, type hints and docstring, and the names bound by ``partial``."""
    bound: set[str] = set()
    while isinstance(f, functools.partial):
        bound |= {*list(signature_of(f.func).parameters)[: len(f.args)], *f.keywords}
        f = f.func
    if isinstance(f, (staticmethod, classmethod)):
        f = f.__func__
    if not inspect.isroutine(f) and not hasattr(f, "__wrapped__"):
        f = f.__call__
    return f, bound


def _name(f: Any, base: Any) -> str:
    names = [getattr(each, "__name__", None) for each in (f, base)]
    found = [name for name in names if isinstance(name, str) and name != "__call__"]
    if found:
        return found[0]
    return type(f).__name__


def _doc(f: Any, base: Any) -> str:
    is_partial = isinstance(f, functools.partial)
    own = None
    if is_partial and f.__doc__ != functools.partial.__doc__:
        own = f.__doc__
    of_object = None
    if not is_partial and not inspect.isroutine(f):
        of_object = type(f).__doc__
    return own or getattr(base, "__doc__", None) or inspect.getdoc(base) or of_object or ""


def _read(f: Any, base: Any) -> tuple[dict[str, inspect.Parameter], Any]:
    """The parameters with resolved annotations, and the return annotation; raises Unusable.

    An annotation that cannot be evaluated is `Unevaluated`. ``**keywords: Unpack[…]`` are the
    parameters that the TypedDict names.
    """
    try:
        found = signature_of(f)
    except (TypeError, ValueError) as error:
        raise Unusable(
            f"Python cannot read its signature ({error}): wrap it in a function with annotations"
        ) from error
    except Exception as error:  # evaluating annotations runs the user's code
        what = f"{type(error).__name__}: {error}"
        raise Unusable(f"its annotations cannot be evaluated: {what}") from error
    first = next(iter(found.parameters.values()), None)
    is_method = first and first.name in {"self", "cls"} and first.annotation is MISSING
    if is_method and not inspect.ismethod(base) and is_in_class(base):
        raise Unusable(
            "it is an unbound method: add the method of an object, or decorate the class too"
        )
    written = {name: each.annotation for name, each in found.parameters.items()}
    written["return"] = found.return_annotation
    owner = _signed(f, base)
    if owner is None:
        written |= raw_annotations(base)
    hints = evaluated(written, base if owner is None else owner, base)
    # A decorator of `contextlib` made it.
    if getattr(base, "__globals__", None) is vars(contextlib):
        raise Unusable(
            "it makes a context manager, which no model can enter: use it inside a function"
        )
    parameters: dict[str, inspect.Parameter] = {}
    for name, each in found.parameters.items():
        of_keywords = unpacked(hints[name])
        if each.kind is each.VAR_KEYWORD and of_keywords is not None:
            parameters |= _keywords(of_keywords, name, parameters)
        else:
            parameters[name] = each.replace(annotation=hints[name])
    return parameters, hints["return"]


def _signed(f: Any, base: Any) -> Any:
    """The callable whose own ``__signature__`` is the signature; None if no one has any."""
    for each in (f, base):
        try:
            inner = inspect.unwrap(each, stop=lambda g: hasattr(g, "__signature__"))
        except ValueError:  # wrappers in a circle
            continue
        if getattr(inner, "__signature__", None) is not None:
            return inner
    return None


def _keywords(
    kind: Any, name: str, taken: Mapping[str, inspect.Parameter]
) -> dict[str, inspect.Parameter]:
    """The parameters of ``**keywords`` that a TypedDict describes; raises Unusable."""
    try:
        fields = typed_dict_fields(kind)
    except NameError as error:
        reason = f"{error.name!r} is not defined: define or import it before the function"
        raise Unusable(f"the annotation of {name!r} cannot be used: {reason}") from error
    parameters = {}
    for key, each in fields.items():
        if key in taken or not key.isidentifier() or keyword.iskeyword(key):
            expected = "expected a name that no other parameter has"
            raise Unusable(f"{key!r} in the annotation of {name!r} is not a parameter: {expected}")
        parameters[key] = inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=each.annotation,
            default=MISSING if each.required else OMITTED,
        )
    other = extra_items(get_origin(kind) or kind)
    if other is not None:
        of_others = inspect.Parameter.VAR_KEYWORD
        parameters[name] = inspect.Parameter(name, of_others, annotation=Rest(other))
    return parameters


def argument_types(f: Any) -> dict[str, Any]:
    """The annotations of the parameters of a tool's function, by their names."""
    try:
        found, _ = _read(f, _unwrapped(f)[0])
    except Unusable:  # what it refers to has changed since it became a tool
        return {}
    hints = {
        name: each.annotation.annotation if isinstance(each.annotation, Rest) else each.annotation
        for name, each in found.items()
    }
    return {name: each for name, each in hints.items() if not _is_unknown(each)}


def returned(f: Any) -> Any:
    """The annotation of what a call of a tool's function results in; `MISSING` if it has none."""
    base, _ = _unwrapped(f)
    try:
        _, found = _read(f, base)
    except Unusable:
        return MISSING
    if _is_unknown(found):
        return MISSING
    if _is_generator(f):
        args = get_args(found)
        return list[args[0]] if args else list  # type: ignore[valid-type]
    return found


def _is_unknown(annotation: Any) -> bool:
    return annotation is MISSING or isinstance(annotation, Unevaluated)


def documented(f: Any) -> Docstring:
    """The docstring of a tool's function."""
    base, _ = _unwrapped(f)
    try:
        names = list(_read(f, base)[0])
    except Unusable:
        names = []
    return docstring.parse(_doc(f, base), names)


def _is_generator(f: Any) -> bool:
    """Whether a call results in a generator, of which all items are read."""
    return _is_any(f, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


def type_hints(base: Any) -> dict[str, Any]:
    """The annotations that can be evaluated, with strings evaluated in the function's module."""
    hints = evaluated(raw_annotations(base), base)
    return {name: each for name, each in hints.items() if not isinstance(each, Unevaluated)}


# ── signature and docstring ───────────────────────────────────────────────────────────────────────


def _add_parameter(draft: _Draft, param: inspect.Parameter, described: Description | None) -> None:
    """Add a parameter, or the reason why it cannot be used to the faults."""
    annotation = param.annotation
    is_rest = isinstance(annotation, Rest)
    if is_rest:
        annotation = annotation.annotation
    elif param.kind in {param.VAR_POSITIONAL, param.VAR_KEYWORD}:
        star = "*" if param.kind is param.VAR_POSITIONAL else "**"
        draft.faults.append(
            f"{star}{param.name} cannot be described to a model: list the arguments by name"
            " (functools.wraps keeps the signature of a decorated function)"
        )
        return
    if annotation is MISSING and inspect.isbuiltin(draft.base):  # nobody can annotate it
        annotation = Any
        draft.issues.append(f"the argument {param.name!r} has no annotation: the model sees (Any)")
    if annotation is MISSING:
        draft.faults.append(
            f"the argument {param.name!r} has no annotation: write {param.name}: "
            f"{_guessed_type(described)}"
        )
        return
    if isinstance(annotation, Unevaluated):
        reason = annotation.reason
        draft.faults.append(f"the annotation of {param.name!r} cannot be used: {reason}")
        return
    # functools.singledispatch requires that its first argument is passed by position.
    dispatches = hasattr(draft.base, "registry") and hasattr(draft.base, "dispatch")
    positional = param.kind is param.POSITIONAL_ONLY or (dispatches and not draft.parameters)
    injected = _injected(annotation)
    if injected:
        kind = argument_type(Any)
        draft.parameters.append(
            Parameter(param.name, "", kind, param.default, positional, injected=injected)
        )
        return
    info = None
    if isinstance(param.default, FieldInfo):
        info = param.default
    try:
        default, factory = _default(param)
        kind = argument_type(annotation, info)
    except Unusable as error:
        draft.faults.append(f"the annotation of {param.name!r} cannot be used: {error}")
        return
    default = _fitting(draft, param.name, default, kind)
    if described is None:
        text = _annotated_text(annotation, info)
    else:
        text = described.text
        draft.issues += _differences(param.name, kind.text, described, required=default is MISSING)
    simple = is_simple(annotation) and not is_rest
    draft.parameters.append(
        Parameter(
            param.name, text, kind, default, positional, simple, factory=factory, is_rest=is_rest
        )
    )


def _default(param: inspect.Parameter) -> tuple[Any, Callable[[], Any] | None]:
    """The default of a parameter, and what makes it for each call, if something does.

    The default in the signature wins over those inside ``Annotated``, of which the outermost wins.

    Raises:
        Unusable: It cannot be made.
    """
    inside = [each for each in metadata(param.annotation) if isinstance(each, FieldInfo)]
    if not isinstance(param.default, FieldInfo) and param.default is not MISSING:
        return param.default, None
    infos = [param.default, *reversed(inside)] if param.default is not MISSING else inside[::-1]
    info = next((each for each in infos if not each.is_required()), None)
    if info is None:
        return (OMITTED if isinstance(param.annotation, Rest) else MISSING), None
    if info.default_factory is None:
        return info.default, None

    def make() -> Any:
        return info.get_default(call_default_factory=True)

    try:
        return make(), make
    except Exception as error:
        raise Unusable(
            f"its default_factory cannot be called without other arguments ({error}): give it "
            "a function that needs none"
        ) from error


def _fitting(draft: _Draft, name: str, default: Any, kind: ArgumentType) -> Any:
    """The default, unless it is text or a number and no value of the type.

    A wrapper may keep a mark of its own in the place of a default that is missing.
    """
    if default is ... or type(default) not in (str, int, float) or kind.by_reference:
        return MISSING if default is ... else default
    _, faults = read_value(kind, default)
    if not faults:
        return default
    draft.issues.append(
        f"the default of {name!r} is {truncate_line(repr(default), 60)}, which is not of the type "
        f"{kind.text!r}: the argument is required"
    )
    return MISSING


def _injected(annotation: Any) -> Literal["", "namespace", "run"]:
    """The hidden object that a parameter gets; empty for a parameter that the model fills."""
    for each in layers(annotation):
        if each is LiveNamespace:
            return "namespace"
        if each is CurrentRun:
            return "run"
    return ""


def _guessed_type(described: Description | None) -> str:
    """The type that the docstring gives an argument, if it can be written in the signature."""
    if described is not None and re.fullmatch(r"[\w\[\], |.]+", described.type):
        return described.type
    return "<its type>"


def _annotated_text(annotation: Any, info: FieldInfo | None) -> str:
    """The description in ``Annotated``: a text, ``Field(description=…)`` or ``Doc(…)``."""
    for each in reversed(metadata(annotation)):  # the outermost first
        described = [getattr(each, name, None) for name in ("description", "documentation")]
        for text in (each, *described):
            if isinstance(text, str) and text:
                return text
    if info is None:
        return ""
    return info.description or ""


def _differences(name: str, kind: str, described: Description, *, required: bool) -> list[str]:
    issues = []
    if described.optional and required:
        issues.append(
            f"the docstring calls {name!r} optional, but it has no default, so it is required"
        )
    if not _types_agree(described.type, kind):
        issues.append(
            f"the docstring gives {name!r} the type {described.type!r}, but its annotation is"
            f" {kind!r}: the model sees {kind!r}"
        )
    return issues


def _compare_names(draft: _Draft, doc: Docstring, argument_names: list[str]) -> None:
    sent = [each for each in draft.parameters if not each.injected]
    undescribed = [each.name for each in sent if not each.text and each.name not in doc.params]
    known = {*draft.bound, *argument_names, *draft.gathered}
    unknown = [name for name in doc.params if name not in known]
    both = f"(arguments: {', '.join(argument_names) or 'none'}; described: {', '.join(doc.params)})"
    for name in unknown:  # a misnamed argument would mislead the model
        near = nearest(name, undescribed or argument_names)
        guess = "remove it, or add it to the signature"
        if near:
            guess = f"did you mean {near!r}?"
        draft.faults.append(
            f"the docstring describes {name!r}, which is not an argument: {guess} {both}"
        )
    if doc == Docstring():
        draft.issues.append("it has no docstring: add one that says what the function does")
    elif undescribed and not unknown:
        names = ", ".join(map(repr, undescribed))
        draft.issues.append(f"the docstring does not describe {names}: add a line for each to Args")


def _describe_result(draft: _Draft, returns: Any, described: Description) -> tuple[str, str]:
    """The name of the result's type, empty for None, and its description."""
    if returns is None or returns is type(None):
        return "", ""
    if isinstance(returns, Unevaluated):
        reason = returns.reason
        draft.issues.append(f"its return annotation is not known, the model sees (Any): {reason}")
        return "Any", described.text
    if returns is MISSING:
        draft.issues.append("it has no return annotation: the model sees (Any)")
        return "Any", described.text
    kind = type_text(returns)
    args = get_args(returns)
    if _is_generator(draft.f):
        kind = "list"
        if args:
            kind = f"list[{type_text(args[0])}]"
    if not _types_agree(described.type, kind):
        draft.issues.append(
            f"the docstring gives the result the type {described.type!r}, but its annotation is"
            f" {kind!r}: the model sees {kind!r}"
        )
    return kind, described.text


_SYNONYMS = {
    "string": "str", "text": "str", "integer": "int", "boolean": "bool", "dictionary": "dict",
    "array": "list", "double": "float", "nonetype": "none", "object": "any", "mapping": "dict",
    "sequence": "list", "iterable": "list", "function": "callable", "enum": "literal",
    "number": "any",
}  # fmt: skip


@lru_cache(maxsize=4096)
def _types_agree(claimed: str, text: str) -> bool:
    """Whether two type names may mean the same type; only the outermost names are compared."""
    a = _outer(claimed)
    b = _outer(text)
    return not a or bool(a & b) or "any" in a | b or "literal" in b


def _outer(text: str) -> set[str]:
    inner = re.sub(r"^(?:Optional|Union)\[(.*)\]$", r"\1", text.strip())
    outer = re.sub(r"\[.*\]|\{.*\}|\(.*\)|\bof\b.*", "", inner)
    return {_SYNONYMS.get(each, each) for each in re.findall(r"\w+", outer.lower())} - {"none"}
