"""The assembly of a tool: name, signature, docstring and schema brought together, or every fault at once."""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from archytas_nb.errors import ToolError
from archytas_nb.tools import describe, docstring, parameters, signature
from archytas_nb.tools.names import legal_name
from archytas_nb.tools.typetext import type_text

_YIELDING = (
    collections.abc.Generator, collections.abc.Iterator, collections.abc.Iterable,
    collections.abc.AsyncGenerator, collections.abc.AsyncIterator, collections.abc.AsyncIterable,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Built:
    """What `Tool` is made of."""

    name: str
    source_name: str
    text: str
    description: str
    issues: tuple[str, ...]
    is_async: bool
    parameters: tuple[parameters.Parameter, ...]


def build(f: Callable[..., Any], name: str | None) -> Built:
    """Assemble a tool from a callable.

    Raises:
        ToolError: With every fault that the function has.
    """
    if isinstance(f, type):
        raise ToolError(
            f"{f.__name__!r} is a class: Toolbox({f.__name__}) makes tools of its methods"
        )
    if not callable(f):
        raise ToolError(
            f"{f!r} cannot be called; expected a function (Toolbox(obj) makes tools of an object's methods)"
        )
    sig = signature.read(f)
    source_name = sig.name if name is None else name
    faults: list[str] = []
    try:
        wire_name = legal_name(source_name)
    except ToolError as error:
        wire_name, faults = str(source_name), [str(error)]
    doc = docstring.parse(sig.doc, [each.name for each in sig.parameters])
    made, found, issues = parameters.combine(sig, doc)
    faults += found
    if faults:
        raise ToolError(f"{source_name!r} cannot be a tool{signature.defined_at(f)}:", faults)
    inputs = [each.line() for each in made if not each.injected]
    output, more = _output(sig, doc, is_generator=_is_generator(f))
    text = describe.seed_text(wire_name, doc.short, doc.long, inputs, output)
    prose = [
        part
        for part in (doc.short, doc.long, f"Returns: {output.worded('')}" if output else "")
        if part
    ]
    return Built(
        wire_name,
        source_name,
        text,
        "\n\n".join(prose),
        (*issues, *more),
        sig.is_async,
        tuple(made),
    )


def _is_generator(f: Any) -> bool:
    function = inspect.unwrap(f) if not isinstance(f, type) else f
    return any(
        check(each)
        for each in (f, function)
        for check in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    )


def _output(
    sig: signature.Signature, doc: docstring.Docstring, *, is_generator: bool
) -> tuple[describe.Line | None, list[str]]:
    words = doc.returns
    if sig.returns is None or sig.returns is type(None):
        return None, []
    if sig.returns is signature.MISSING:
        if words is None:
            return describe.Line("", "Any", ""), [
                "the return annotation is missing: the model reads (Any)"
            ]
        return describe.Line("", "Any", words.text), [
            "the return annotation is missing: the model reads (Any)"
        ]
    kind = type_text(sig.returns)
    if is_generator and (get_origin(sig.returns) or sig.returns) in _YIELDING:
        args = get_args(sig.returns)
        kind = (
            f"list[{type_text(args[0])}]" if args else "list"
        )  # what it yields is read to the end
    issues = []
    if words and words.type and not parameters.agree(words.type, kind):
        issues.append(
            f"the docstring says that it returns {words.type!r}, the signature {kind!r}: the signature counts"
        )
    return describe.Line("", kind, words.text if words else ""), issues
