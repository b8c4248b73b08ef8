"""Read a docstring in Google, NumPy, Sphinx or Epydoc style with docstring_parser.

Only the descriptions of the arguments and the result are extracted. The rest, including notes and
examples, is kept as written. The types in a docstring are only compared with the signature.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from docstring_parser import google, numpydoc, rest
from docstring_parser.common import DocstringMeta, DocstringParam, DocstringReturns, ParseError

_TITLE = re.compile(
    r"(?P<args>(?:keyword |other )?(?:arg(?:ument)?s?|param(?:eter)?s?)|kwargs)"
    r"|(?P<returns>returns?|yields?)",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r"[-=]{3,}")
_FIELD = re.compile(r"[:@](?:param|parameter|arg|argument|key|keyword|type|returns?|rtype)\b.*:")
_TYPED_FIELD = re.compile(
    r"^:(?P<field>param|parameter|arg|argument|key|keyword) +"
    r"(?P<type>[^:\n]+ [^:\n]+) +(?P<name>\w+) *:",
    re.MULTILINE,
)  # one whose type contains spaces, which the parser would take for words of their own
_TYPE = re.compile(r"(?<=\().*?(?=\)\s*:)")  # Google's, in brackets before a colon
_UNION = re.compile(r"([\w.\[\], ]+\|[\w.\[\], |]+):\s*(.*)", re.DOTALL)
_OPTIONAL = re.compile(r"\boptional\b(?!\[)|\bdefaults?\b", re.IGNORECASE)
_DEFAULT = re.compile(r"\bdefaults?\b(?!\s*dict)", re.IGNORECASE)
_GOOGLE = google.GoogleParser()
_MASK = (
    "\0"  # in place of a colon in a type, which the parser would mistake for the end of the type
)


@dataclass(frozen=True, slots=True)
class Description:
    """The docstring's description of an argument or of the result."""

    text: str
    type: str = ""  # as written
    optional: bool = False  # whether the text calls it optional or mentions a default


@dataclass(slots=True)
class Docstring:
    """A parsed docstring."""

    short: str = ""  # the first paragraph on one line
    long: str = ""  # the rest, without the descriptions of arguments and result
    params: dict[str, Description] = field(default_factory=dict)  # in the docstring's order
    returns: Description | None = None


def parse(text: str | None, names: Collection[str] = ()) -> Docstring:
    """Parse a raw docstring; if it mixes styles, use the one that describes most of `names`."""
    if not text or not text.strip():
        return Docstring()
    text = inspect.cleandoc(text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4))
    lines = [line.rstrip() for line in text.split("\n")]
    if text.startswith("Args:\n") and text[6] != " ":  # cleandoc removes the only indentation
        lines[1:] = [f"    {line}".rstrip() for line in lines[1:]]
    prose, sections = _sections(lines)
    try:
        found = [_parse_sections(style, parts) for style, parts in sections.items()]
    except ParseError:  # the model then reads these sections as written
        return _docstring(lines, [])
    readings = [_docstring(prose, metas) for metas in found] or [_docstring(prose, [])]
    if not all(name.isidentifier() for each in readings for name in each.params):
        return _docstring(lines, [])
    return max(readings, key=lambda reading: sum(name in reading.params for name in names))


def _sections(lines: list[str]) -> tuple[list[str], dict[str, dict[str, list[str]]]]:
    """The prose, and per style the lines on arguments and result (both, in field lists)."""
    prose: list[str] = []
    found: dict[str, dict[str, list[str]]] = {}
    style = ""
    target = prose
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        underlined = bool(line) and _UNDERLINE.fullmatch(below) is not None
        is_title = underlined or line.endswith(":")
        title = None
        if is_title:
            title = _TITLE.fullmatch(line.rstrip(": "))
        if title:
            style = "numpy" if underlined else "google"
            target = found.setdefault(style, {}).setdefault(str(title.lastgroup), [])
            continue
        if _FIELD.match(line):
            style = "fields"
            target = found.setdefault("fields", {}).setdefault("all", [])
        elif target is not prose and (underlined or (style != "numpy" and line[:1].strip())):
            style = ""
            target = prose
            prose.append("")
        if target is prose or not _UNDERLINE.fullmatch(line):
            target.append(line)
    return prose, found


def _type_apart(field: re.Match[str]) -> str:
    """``:param dict[str, int] a:`` with the type as a field of its own: it may contain spaces."""
    kind, name = field["type"].strip(), field["name"]
    return f":type {name}: {kind}\n:{field['field']} {name}:"


def _parse_sections(style: str, parts: dict[str, list[str]]) -> list[DocstringMeta]:
    args = parts.get("args", [])
    returns = parts.get("returns", [])
    if style == "fields":
        fields = re.sub(r"^@", ":", "\n".join(parts["all"]), flags=re.MULTILINE)
        return rest.parse(_TYPED_FIELD.sub(_type_apart, fields)).meta
    if style == "numpy":
        text = ["Parameters", "----------", *args, "", "Returns", "-------", *returns]
        return numpydoc.parse("\n".join(text)).meta
    text = [""]
    if args:
        text += ["Args:", *args]
    if returns:
        text += ["Returns:", *returns]
    masked = _TYPE.sub(lambda kind: kind[0].replace(":", _MASK), "\n".join(text))
    return _GOOGLE.parse(masked).meta


def _docstring(prose: list[str], found: Iterable[DocstringMeta]) -> Docstring:
    paragraphs = re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip("\n")
    short, _, long = paragraphs.partition("\n\n")
    result = Docstring(" ".join(short.split()), long.strip("\n"))
    for each in found:
        text = (each.description or "").strip().replace(_MASK, ":")
        if isinstance(each, DocstringParam):
            kind = (each.type_name or "").replace(_MASK, ":")
            is_optional = bool(each.is_optional or _OPTIONAL.search(kind) or _DEFAULT.search(text))
            for name in each.arg_name.split(","):  # one entry may describe several
                described = Description(text, kind, is_optional)
                result.params.setdefault(name.strip("-*•`\\ "), described)
        elif isinstance(each, DocstringReturns) and result.returns is None:
            result.returns = _result(text, each.type_name or "")
    return result


def _result(text: str, kind: str) -> Description:
    union = _UNION.fullmatch(text)
    if not kind and union:
        return Description(union[2], union[1])
    if kind and re.search(r"^\w+:", text, re.MULTILINE):  # several named values, not a type
        return Description(f"{kind}: {text}")
    return Description(text, kind)
