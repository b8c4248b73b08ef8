"""A docstring's words. The only importer of docstring_parser.

docstring_parser is given nothing but clean fields: a docstring is first cut into prose and fields, because on
raw docstrings the parser loses repeated sections, stops at types with a colon, and takes ``Args:`` for a
summary. The words are never evaluated, and what they claim about types is only ever compared.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from docstring_parser import common, google, numpydoc, rest

from archytas_nb.tools import docfields


@dataclass(frozen=True, slots=True)
class Described:
    """What a docstring says about one argument or about the result.

    Attributes:
        text: The description; may have several lines.
        type: The type as written, or an empty string.
        optional: Whether the words call it optional or give a default.
    """

    text: str
    type: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Docstring:
    """A parsed docstring.

    Attributes:
        short: The first paragraph on one line; empty where there is none.
        long: The other prose, notes, raises and examples included.
        params: Argument name to description, in the docstring's order.
        returns: The result, or None where the docstring is silent.
        examples: The text of the examples, for checking them.
    """

    short: str = ""
    long: str = ""
    params: dict[str, Described] = field(default_factory=dict)
    returns: Described | None = None
    examples: str = ""


_OPTIONAL = re.compile(r"\s*,?\s*\(?\boptional\b\)?(?!\[)", re.IGNORECASE)
_TYPE_DEFAULT = re.compile(r"\s*,\s*defaults?\b.*$", re.IGNORECASE | re.DOTALL)
_DEFAULT = re.compile(r"\bdefaults?\b(?!\s*dict)", re.IGNORECASE)
_PARSERS: dict[str, Callable[[str], common.Docstring]] = {
    "google": google.GoogleParser().parse,
    "numpy": numpydoc.NumpydocParser().parse,
    "fields": rest.parse,
}


def parse(text: str | None, names: Collection[str] = ()) -> Docstring:
    """Parse a docstring of any of the four common styles.

    Args:
        text: The raw docstring: Google, NumPy, Sphinx or Epydoc.
        names: The signature's argument names; they decide where the style is unclear.

    Returns:
        The words; empty where there are none.
    """
    if not text or not text.strip():
        return Docstring()
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    clean = "\n".join([line.rstrip() for line in inspect.cleandoc(text.expandtabs(4)).split("\n")])
    readings = [_read(style, clean) for style in docfields.styles(clean)]
    return (
        readings[0]
        if len(readings) == 1
        else max(readings, key=lambda reading: sum(name in reading.params for name in names))
    )


def _read(style: str, clean: str) -> Docstring:
    cut = docfields.cut(style, clean)
    params: dict[str, Described] = {}
    returns: Described | None = None
    try:
        parsed = _PARSERS[style]("\n" + cut.fields).meta if cut.fields else []
    except common.ParseError:  # the fields are not of this style; another reading may know better
        parsed = []
    for meta in parsed:
        if isinstance(meta, common.DocstringParam):
            for name in docfields.split_names(meta.arg_name):
                params.setdefault(name, _described(meta))
        elif isinstance(meta, common.DocstringReturns) and returns is None:
            returns = _returned(meta)
    short, _, rest_of_prose = cut.prose.partition("\n\n")
    long = "\n\n".join(part for part in (rest_of_prose.strip("\n"), *cut.notes) if part)
    return Docstring(" ".join(short.split()), long, params, returns, cut.examples)


def _described(meta: common.DocstringParam) -> Described:
    kind = docfields.unmask(meta.type_name or "").strip()
    optional = bool(meta.is_optional) or meta.default is not None
    lower = kind.lower()
    if "optional" in lower:  # "int, optional" speaks of the argument, Optional[int] of the type
        optional = optional or bool(_OPTIONAL.search(kind))
        kind = _OPTIONAL.sub("", kind).strip(" ,")
    if "default" in lower:
        optional, kind = True, _TYPE_DEFAULT.sub("", kind)
    text = docfields.unmask(meta.description or "").strip()
    return Described(text, kind, optional or bool(_DEFAULT.search(text)))


def _returned(meta: common.DocstringReturns) -> Described:
    kind = docfields.unmask(meta.type_name or "").strip()
    text = docfields.unmask(meta.description or "").strip()
    return Described(text, kind)
