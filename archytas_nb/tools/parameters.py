"""Signature and docstring held against each other: the arguments of a tool, or every fault at once.

The signature decides what is required, optional and of which type; the docstring gives the words.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin

from archytas_nb.tools import docstring, portable, schema, signature
from archytas_nb.tools.describe import Line
from archytas_nb.tools.names import nearest
from archytas_nb.tools.signature import MISSING, Namespace
from archytas_nb.tools.typetext import is_simple

_MUTABLE = (list, dict, set, bytearray)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool.

    Attributes:
        name: Its name, in the signature and on the wire.
        text: Its description.
        carrier: How its values travel.
        default: What the function gets where it is left out, or `MISSING` for a required one.
        positional: Whether it can only be passed by position.
        explicit: Whether the default must be passed: the signature holds ``Field(…)`` or a mutable object.
        simple: Whether, alone, it is sent as the bare value.
        injected: Whether it is given by us and not seen by the model.
    """

    name: str
    text: str
    carrier: schema.Carrier
    default: Any
    positional: bool
    explicit: bool
    simple: bool
    injected: bool = False

    @property
    def optional(self) -> bool:
        """Whether it may be left out."""
        return self.default is not MISSING

    @property
    def takes_null(self) -> bool:
        """Whether null is a value here, and not just a way to leave the argument out."""
        return self.carrier.admits_none

    def fresh_default(self) -> Any:
        """Return the default; a mutable one is copied, so that calls do not share it."""
        return copy.deepcopy(self.default) if isinstance(self.default, _MUTABLE) else self.default

    def line(self) -> Line:
        """Return its line in the text protocol."""
        extra = self.carrier.details
        text = "\n".join([self.text, *extra] if self.text else extra)
        return Line(self.name, self.carrier.text, text, self.optional, self.simple)


def combine(
    sig: signature.Signature, doc: docstring.Docstring
) -> tuple[list[Parameter], list[str], list[str]]:
    """Hold the signature against the docstring.

    Returns:
        The parameters, the faults (none of the parameters count where there is one), and the issues: what differs
        without harm.
    """
    faults, issues = list(sig.faults), list(sig.issues)
    seen = [each for each in sig.parameters if each.annotation is not Namespace]
    undescribed = []
    made = []
    for each in sig.parameters:
        if each.annotation is Namespace:
            made.append(_injected(each))
            continue
        words = doc.params.get(each.name)
        if each.annotation is MISSING:
            if not any("annotation" in fault for fault in sig.faults):
                faults.append(
                    f"the argument {each.name!r} has no annotation: write {each.name}: {_guess(words)}"
                )
            continue
        field = schema.field_of(each.default)
        text = (
            words.text
            if words
            else _annotated_text(each.annotation) or (field.description if field else "")
        )
        if words is None and not text:
            undescribed.append(each.name)
        try:
            carrier = schema.carrier(each.annotation, field)
        except portable.Unusable as error:
            faults.append(f"the annotation of {each.name!r} cannot be used: {error}")
            continue
        default = schema.field_default(field, MISSING) if field else each.default
        explicit = field is not None or isinstance(default, _MUTABLE)
        positional = each.kind is each.POSITIONAL_ONLY
        made.append(
            Parameter(
                each.name,
                text or "",
                carrier,
                default,
                positional,
                explicit,
                is_simple(each.annotation),
            )
        )
        if words:
            issues += _differences(each.name, words, carrier.text, optional=default is not MISSING)
    allowed = {*sig.bound, *(each.name for each in sig.parameters)}
    unknown = [name for name in doc.params if name not in allowed]
    if unknown:  # an argument under a wrong name would mislead the model
        faults += _naming(undescribed, unknown, [each.name for each in seen], list(doc.params))
    else:
        issues += _silence(sig.doc, undescribed)
    return made, faults, issues


def _injected(each: inspect.Parameter) -> Parameter:
    positional = each.kind is each.POSITIONAL_ONLY
    return Parameter(
        each.name,
        "",
        schema.carrier(Any),
        None,
        positional,
        explicit=True,
        simple=False,
        injected=True,
    )


def _guess(words: docstring.Described | None) -> str:
    return words.type if words and re.fullmatch(r"[\w\[\], |.]+", words.type) else "<its type>"


def _annotated_text(annotation: Any) -> str:
    """Return the description in ``Annotated[int, "text"]``, with ``Field(description=…)`` or ``Doc(…)``."""
    if get_origin(annotation) is not Annotated:
        return ""
    for each in get_args(annotation)[1:]:
        for text in (
            each,
            getattr(each, "description", None),
            getattr(each, "documentation", None),
        ):
            if isinstance(text, str) and text:
                return text
    return ""


def _naming(
    undescribed: list[str], unknown: list[str], signed: list[str], described: list[str]
) -> list[str]:
    faults = []
    both = f" (the signature has {_set(signed)}, the docstring describes {_set(described)})"
    for name in unknown:
        near = nearest(name, undescribed or signed)
        guess = f": did you mean {near!r}?" if near else ": remove it, or add it to the signature"
        faults.append(f"the docstring describes {name!r}, which is not an argument{guess}{both}")
    guessed = {nearest(each, undescribed) for each in unknown}
    faults += [
        f"the docstring does not describe {name!r}: add the line '{name}: <what it is>' to Args{both}"
        for name in undescribed
        if name not in guessed
    ]
    return faults


def _silence(doc: str, undescribed: list[str]) -> list[str]:
    if not doc.strip():
        return ['it has no docstring: add one that says what it does, """Like this."""']
    names = ", ".join(map(repr, undescribed))
    return (
        [f"the docstring does not describe {names}: say in Args what is expected"] if names else []
    )


def _set(names: Iterable[str]) -> str:
    return f"{{{', '.join(repr(name) for name in names)}}}"


_SYNONYMS = {
    "string": "str", "text": "str", "integer": "int", "boolean": "bool", "dictionary": "dict", "array": "list",
    "double": "float", "nonetype": "none", "object": "any", "mapping": "dict", "sequence": "list",
    "iterable": "list",    "callable": "callable", "function": "callable", "enum": "literal",
}  # fmt: skip


def _differences(name: str, words: docstring.Described, text: str, *, optional: bool) -> list[str]:
    issues = []
    if words.optional and not optional:
        issues.append(
            f"the docstring calls {name!r} optional, but it has no default in the signature: it is required"
        )
    if words.type and not agree(words.type, text):
        issues.append(
            f"the docstring gives {name!r} the type {words.type!r}, the signature {text!r}: the signature counts"
        )
    return issues


@lru_cache(maxsize=4096)
def agree(claimed: str, text: str) -> bool:
    """Say whether two spellings of a type may mean the same; only the outermost names are compared."""
    a, b = _outer(claimed), _outer(text)
    loose = (
        "any" in a | b
        or "literal" in b
        or ("number" in a and bool(b & {"int", "float", "decimal"}))
    )
    return bool(a & b) or not a or loose


def _outer(text: str) -> set[str]:
    plain = re.sub(
        r"\[.*\]|\{.*\}|\(.*\)",
        "",
        re.sub(r"^Optional\[(.*)\]$|^Union\[(.*)\]$", r"\1\2", text.strip()),
    )
    names = re.split(r"\s*(?:\||,|\bor\b|\bof\b.*)\s*", plain)
    outer = {each.rsplit(".", 1)[-1].strip("`' ").lower() for each in names if each.strip()}
    return {_SYNONYMS.get(each, each) for each in outer} - {"none"}
