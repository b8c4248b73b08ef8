"""Read a docstring in Google, NumPy, Sphinx or Epydoc style, and run its examples as a model would.

Arguments and result are read by docstring_parser; the prose, notes, raises and examples are kept as
they are written. The types that a docstring claims are only compared with the signature.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import re
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from textwrap import indent
from typing import TYPE_CHECKING, Any

from docstring_parser import numpydoc, rest
from docstring_parser.common import (
    DocstringMeta,
    DocstringParam,
    DocstringRaises,
    DocstringReturns,
    ParseError,
)

from archytas_nb.tools.names import VAR
from archytas_nb.tools.render import safe_repr

if TYPE_CHECKING:
    from archytas_nb.loop.events import CallOutcome
    from archytas_nb.tools.tool import Tool

_ARGS = r"(?:keyword |other )?(?:arg(?:ument)?s?|param(?:eter)?s?)|kwargs"
_NOTES = (
    r"notes?|raises?|exceptions?|except|examples?|warnings?|warns?|see also|references?|todo"
    r"|attributes?|tips?|important|usage|receives?"
)
_ANY = rf"(?P<args>{_ARGS})|(?P<returns>returns?|yields?)|(?P<notes>{_NOTES})"
_TITLE = re.compile(_ANY, re.IGNORECASE)
_UNDERLINE = re.compile(r"[-=]{3,}")
_HAS_UNDERLINES = re.compile(rf"^(?:{_ANY}) *\n[-=]{{3,}}$", re.IGNORECASE | re.MULTILINE)
_HAS_TITLES = re.compile(rf"^(?:{_ARGS}|returns?|yields?) *:$", re.IGNORECASE | re.MULTILINE)
_FIELD = re.compile(
    r"^[:@](param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?)\b(?=.*:)",
    re.MULTILINE,
)
_WORDY = re.compile(r"^:(param|arg)\w* +[^:\s]+ +[^:\n]+ ([*\w]+) *:", re.MULTILINE)
_ENTRY = re.compile(
    r"(?:[-*•]\s+)?`{0,2}(?P<names>\*{0,2}[^\W\d]\w*(?:`{0,2}\s*,\s*[`*]{0,2}[^\W\d]\w*)*)`{0,2}\s*"
    r"(?:[(\[](?P<type>.*?)[)\]]\s*(?=:|[-–—]\s|$))?(?::|[-–—]\s|$)\s*(?P<text>.*)"
)
_TYPED = re.compile(r"([\w.]+(?:\[.*?\])?(?:\s*\|\s*[\w.]+(?:\[.*?\])?)*)\s*:(?:\s|$)")
_OPTIONAL = re.compile(r"\s*,?\s*\(?\boptional\b\)?(?!\[)", re.IGNORECASE)
_TYPE_DEFAULT = re.compile(r"\s*,\s*defaults?\b.*$", re.IGNORECASE | re.DOTALL)
_DEFAULT = re.compile(r"\bdefaults?\b(?!\s*dict)", re.IGNORECASE)
_NUMPYDOC = numpydoc.NumpydocParser(
    [numpydoc.ParamSection("Parameters", "param"), numpydoc.ReturnsSection("Returns", "returns")]  # type: ignore[arg-type]
)


@dataclass(frozen=True, slots=True)
class Described:
    """What a docstring says about one argument or about the result."""

    text: str
    type: str = ""  # as written
    optional: bool = False  # whether the words call it optional or give a default


@dataclass(slots=True)
class Docstring:
    """A parsed docstring."""

    short: str = ""  # the first paragraph on one line
    long: str = ""  # the other prose, notes, raises and examples included
    params: dict[str, Described] = field(default_factory=dict)  # in the docstring's order
    returns: Described | None = None
    examples: str = ""


def parse(text: str | None, names: Collection[str] = ()) -> Docstring:
    """Parse a raw docstring; where its style is unclear, the signature's names decide."""
    if not text or not text.strip():
        return Docstring()
    text = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    clean = "\n".join(line.rstrip() for line in inspect.cleandoc(text).split("\n"))
    readings: list[Docstring] = []
    if first := _FIELD.search(clean):
        readings.append(_fields(clean[: first.start()], clean[first.start() :]))
    if _HAS_UNDERLINES.search(clean):
        readings.append(_sections(clean, underlined=True))
    if not readings or _HAS_TITLES.search(clean):
        readings.append(_sections(clean, underlined=False))
    return max(readings, key=lambda reading: sum(name in reading.params for name in names))


def _fields(prose: str, fields: str) -> Docstring:
    """Sphinx and Epydoc."""
    blocks, is_prose = [], False
    for block in re.sub(r"\n{3,}", "\n\n", fields).split("\n\n"):
        if block[:1] not in ("", " "):
            is_prose = not _FIELD.match(block)
        if is_prose:
            prose += f"\n\n{block}"
        else:
            blocks.append(block)
    fields = re.sub(r"^@", ":", "\n\n".join(blocks), flags=re.MULTILINE)
    # A type of several words is one word too many for the library.
    fields = _WORDY.sub(r":\1 \2:", fields)
    try:
        found = rest.parse(fields).meta
    except ParseError:
        return _docstring(f"{prose}\n{fields}", [], [])
    raised = [each for each in found if isinstance(each, DocstringRaises)]
    lines = "\n".join(f"{each.type_name or ''}: {each.description or ''}" for each in raised)
    return _docstring(prose, [f"Raises:\n{indent(lines, '    ')}"] if lines else [], found)


def _sections(clean: str, *, underlined: bool) -> Docstring:
    """NumPy's sections, whose titles are underlined, or Google's, which are indented."""
    lines = clean.split("\n")
    prose: list[str] = []
    found: list[tuple[re.Match[str], str, list[str]]] = []
    target = prose
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        is_title = _UNDERLINE.fullmatch(below) if underlined else line.endswith(":")
        title = _TITLE.fullmatch(line.rstrip(": ")) if is_title else None
        if title:
            target = []
            found.append((title, f"{title[0]}:" if underlined else line, target))
        elif target is prose:
            prose.append(line)
        elif underlined and not target and (not line or _UNDERLINE.fullmatch(line)):
            continue
        elif not underlined and line and line[0] != " " and not _is_flat(found[-1], line):
            target = prose
            prose += ["", line]
        else:
            target.append(line)
    args = [line for title, _, body in found if title["args"] for line in body]
    returns = next((body for title, _, body in found if title["returns"]), [])
    if not underlined:
        args, returns = _numpydoc_args(args), _numpydoc_result(returns)
    text = ["Parameters", "----------", *args, "", "Returns", "-------", *returns]
    notes, examples = [], ""
    for title, head, body in found:
        if title["notes"]:
            written = "\n".join(body).rstrip()
            notes.append(f"{head}\n{indent(written, '    ' * underlined)}".rstrip())
            if title["notes"].lower().startswith(("example", "usage")):
                examples += f"{written}\n"
    result = _docstring("\n".join(prose), notes, _NUMPYDOC.parse("\n".join(text)).meta)
    result.examples = examples
    return result


def _is_flat(section: tuple[re.Match[str], str, list[str]], line: str) -> bool:
    """Whether the line is an argument in a section that is not indented."""
    title, _, body = section
    is_flat = title["args"] and all(each and each[0] != " " for each in body)
    return bool(is_flat and ":" in line and _ENTRY.fullmatch(line))


def _numpydoc_args(lines: list[str]) -> list[str]:
    """Google's ``name (type): text`` as NumPy's ``name : type`` with the text below."""
    base = min((_indent(line) for line in lines if line), default=0)
    entries: list[tuple[re.Match[str], list[str]]] = []
    for line in lines:
        entry = _ENTRY.fullmatch(line.strip()) if line and _indent(line) == base else None
        if entry and entry["names"] != "None":  # "Args: None" says that there are none
            entries.append((entry, []))
        elif entries:  # what is deeper than a continuation keeps its indentation
            deeper = " " * max(_indent(line) - base - 4, 0)
            entries[-1][1].append(f"{deeper}{line.strip()}")
    found = []
    for entry, body in entries:
        found.append(f"{entry['names']} : {entry['type'] or ''}")
        found.append(indent(_text(entry["text"], body), "    "))
    return found


def _numpydoc_result(lines: list[str]) -> list[str]:
    """Google's ``type: text``; several named values are words, not a type."""
    if not any(lines):
        return []
    base = min(_indent(line) for line in lines if line)
    first, *more = [line[base:] for line in lines]
    typed = None if any(map(_TYPED.match, more)) else _TYPED.match(first)
    kind = typed[1].replace(" ", "") if typed else ""
    text = _text(first[typed.end() :].strip(), more) if typed else _text("", [first, *more])
    return [f": {kind}", indent(text, "    ")]


def _docstring(prose: str, notes: list[str], found: Iterable[DocstringMeta]) -> Docstring:
    short, _, more = re.sub(r"\n{3,}", "\n\n", prose).strip("\n").partition("\n\n")
    long = "\n\n".join(part for part in (more.strip("\n"), *notes) if part)
    result = Docstring(" ".join(short.split()), long)
    for each in found:
        if isinstance(each, DocstringParam):
            for name in each.arg_name.split(","):  # one entry may describe several
                if name := name.strip("`*\\ "):
                    result.params.setdefault(name, _described(each))
        elif isinstance(each, DocstringReturns) and result.returns is None:
            result.returns = Described((each.description or "").strip(), each.type_name or "")
    return result


def _described(param: DocstringParam) -> Described:
    kind, text = param.type_name or "", (param.description or "").strip()
    optional = bool(param.is_optional or param.default is not None or _DEFAULT.search(text))
    if _OPTIONAL.search(kind):  # "int, optional" speaks of the argument, Optional[int] of the type
        optional, kind = True, _OPTIONAL.sub("", kind).strip(" ,")
    if "default" in kind.lower():
        optional, kind = True, _TYPE_DEFAULT.sub("", kind)
    return Described(text, kind.removesuffix("?"), optional or kind.endswith("?"))


def _text(first: str, more: list[str]) -> str:
    body = "\n".join(more)
    return f"{first}\n{inspect.cleandoc(body if first else f'{chr(10)}{body}')}".strip()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# ── examples ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Example:
    """What became of one example."""

    source: str  # the call as the docstring shows it
    tool_input: Any = None  # what a model would send for it
    outcome: CallOutcome | None = None  # None where it was not run
    problem: str = ""  # what a model would get wrong; empty where nothing


def check_examples(
    tool: Tool, namespace: MutableMapping[str, Any] | None = None
) -> tuple[Example, ...]:
    """Run the examples of a tool's docstring that call the tool, in order.

    Args:
        tool: The tool.
        namespace: The live variables that examples may name.
    """
    try:
        found = doctest.DocTestParser().get_examples(inspect.cleandoc("\n" + tool.examples))
    except ValueError as error:  # the prompt is malformed; the parser says where
        return (Example(tool.examples.strip(), problem=f"the examples cannot be read: {error}"),)
    own = getattr(tool.function, "__name__", "")
    names = {own, tool.name, tool.source_name.rpartition(".")[2]}
    calls = [(each, _call(each.source, names)) for each in found]
    return tuple(_check(tool, each, call, namespace) for each, call in calls if call is not None)


def _call(source: str, names: set[str]) -> ast.Call | None:
    """The call of the tool in a line such as ``f(1)`` or ``x = obj.f(1)``."""
    try:
        value = getattr(ast.parse(source).body[0], "value", None)
    except (SyntaxError, IndexError):
        return None
    called = isinstance(value, ast.Call) and (
        getattr(value.func, "attr", None) or getattr(value.func, "id", None)
    )
    return value if isinstance(value, ast.Call) and called in names else None


def _check(
    tool: Tool, example: doctest.Example, call: ast.Call, namespace: MutableMapping[str, Any] | None
) -> Example:
    source = example.source.strip()
    kinds = {each.name: each.type for each in tool.parameters if not each.injected}
    try:
        if len(call.args) > len(kinds):
            has = f"the tool has {len(kinds)}"
            raise ValueError(f"the example gives {len(call.args)} arguments, {has}")
        given = dict(zip(kinds, call.args, strict=False))
        given |= {str(word.arg): word.value for word in call.keywords}
        named = {name for name, kind in kinds.items() if kind.by_reference}
        sent = {
            name: _json(each, {} if name in named else namespace) for name, each in given.items()
        }
        sent = json.loads(json.dumps(sent, allow_nan=False))
    except (ValueError, TypeError) as error:
        return Example(source, problem=f"a model cannot send these arguments as JSON: {error}")
    outcome = tool.call(sent, namespace)
    return Example(source, sent, outcome, _problem(example, outcome))


def _json(node: ast.expr, values: Mapping[str, Any] | None) -> Any:
    """A literal; the name of a variable stands for its value, or becomes a reference to it."""
    if isinstance(node, ast.Name):
        return values[node.id] if values and node.id in values else {VAR: node.id}
    try:
        return ast.literal_eval(node)
    except ValueError:
        why = "is neither a literal nor the name of a variable"
        raise ValueError(f"{ast.unparse(node)!r} {why}") from None


def _problem(example: doctest.Example, outcome: CallOutcome) -> str:
    if outcome.status != "done":
        expected = example.exc_msg and type(outcome.error).__name__ in example.exc_msg
        return "" if expected else outcome.text
    if example.exc_msg:
        return f"the example expects an exception, {example.exc_msg.strip()!r}, and none came"
    got = "" if outcome.value is None else safe_repr(outcome.value) + "\n"
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    if not example.want or doctest.OutputChecker().check_output(example.want, got, flags):
        return ""
    return f"the example shows {example.want.strip()!r}, the call gave {got.strip()!r}"
