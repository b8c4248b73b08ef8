"""Read a docstring in Google, NumPy or Sphinx style, and run its examples as a model would.

The words are never evaluated; the types that they claim are only compared with the signature. Of
the examples, which a model copies, only calls of the tool itself are run: as JSON, with literals or
names of variables.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from archytas_nb.tools.names import VAR
from archytas_nb.tools.render import safe_repr

if TYPE_CHECKING:
    from archytas_nb.loop.events import CallOutcome
    from archytas_nb.tools.tool import Tool

_ARGS = (
    r"args?|arguments?|params?|parameters?|keyword arg(?:ument)?s?|keyword param(?:eter)?s?|kwargs"
    r"|other (?:arg(?:ument)?s?|param(?:eter)?s?)"
)
_RETURNS = r"returns?|yields?"
_NOTES = (
    r"notes?|raises?|exceptions?|except|examples?|warnings?|warns?|see also|references?|todo"
    r"|attributes?|tips?|important|usage|receives?"
)
_TITLE = re.compile(
    rf"(?P<args>{_ARGS})|(?P<returns>{_RETURNS})|(?P<notes>{_NOTES})", re.IGNORECASE
)
_FIELD = re.compile(
    r":(?P<key>[a-z]+)(?P<head>(?:[ \t][^\n]*?)?)[ \t]*:(?:[ \t]+(?P<text>.*))?$", re.IGNORECASE
)
_HAS_FIELDS = re.compile(
    r"^:(?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?)\b[^\n]*:",
    re.MULTILINE,
)
_HAS_UNDERLINES = re.compile(
    rf"^(?:{_ARGS}|{_RETURNS}|{_NOTES})[ ]*\n[-=]{{3,}}$", re.IGNORECASE | re.MULTILINE
)
_HAS_TITLES = re.compile(rf"^(?:{_ARGS}|{_RETURNS})[ ]*:$", re.IGNORECASE | re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_UNDERLINE = re.compile(r"[-=]{3,}")
_ITEM = re.compile(
    r"(?:[-*•]\s+)?(?P<names>`{0,2}\*{0,2}[^\W\d]\w*`{0,2}(?:\s*,\s*\*{0,2}[^\W\d]\w*)*)\s*"
    r"(?=[(:\[]|$|\s[-–—]\s)"
)
_FLAT_ITEM = re.compile(r"\*{0,2}\w+\s*(\(.*\))?\s*:\s")
_TYPED = re.compile(r"([\w.]+(?:\[.*?\])?(?:\s*\|\s*[\w.]+(?:\[.*?\])?)*)\s*:(?:\s|$)")
_OPTIONAL = re.compile(r"\s*,?\s*\(?\boptional\b\)?(?!\[)", re.IGNORECASE)
_TYPE_DEFAULT = re.compile(r"\s*,\s*defaults?\b.*$", re.IGNORECASE | re.DOTALL)
_DEFAULT = re.compile(r"\bdefaults?\b(?!\s*dict)", re.IGNORECASE)
_ARG_KEYS = {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "kwparam"}
_RETURN_KEYS = {"return", "returns", "yield", "yields", "rtype", "returntype"}
_RAISE_KEYS = {"raise", "raises", "except", "exception", "throws"}


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


_Section = tuple[re.Match[str], str, list[str]]
"""The title, the heading as the model reads it, and the lines below."""


def parse(text: str | None, names: Collection[str] = ()) -> Docstring:
    """Parse a raw docstring; where its style is unclear, the signature's names decide."""
    if not text or not text.strip():
        return Docstring()
    text = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    lines = [line.rstrip() for line in inspect.cleandoc(text).split("\n")]
    clean = "\n".join(lines)
    readers: list[Callable[[list[str]], Docstring]] = []
    if _HAS_FIELDS.search(clean):
        readers.append(_fields)
    if _HAS_UNDERLINES.search(clean):
        readers.append(_numpy)
    if not readers or _HAS_TITLES.search(clean):
        readers.append(_google)
    readings = [reader(lines) for reader in readers]
    return max(readings, key=lambda reading: sum(name in reading.params for name in names))


def _google(lines: list[str]) -> Docstring:
    prose: list[str] = []
    sections: list[_Section] = []
    body: list[str] | None = None
    for line in lines:
        is_flat = bool(line) and line[0] != " "
        title = _TITLE.fullmatch(line.rstrip(": ")) if is_flat and line[-1] == ":" else None
        if title:
            body = []
            sections.append((title, line, body))
        elif body is None or (is_flat and not _continues(sections[-1], line)):
            prose += [line] if body is None else ["", line]
            body = None
        else:
            body.append(line)
    result, args, returns = _sorted(_BLANK_LINES.sub("\n\n", "\n".join(prose)), sections)
    for head, body in _items(args):
        _add(result, *_item(head), body)
    if any(returns):
        base = min(_indent(line) for line in returns if line)
        first, *rest = [line[base:] for line in returns]
        typed = _TYPED.match(first)
        if typed and not any(_TYPED.match(line) for line in rest):
            text = _text(first[typed.end() :].strip(), rest)
            result.returns = Described(text, typed.group(1).replace(" ", ""))
        else:  # several named values are words, not a type
            result.returns = Described(_text("", [first, *rest]))
    return result


def _numpy(lines: list[str]) -> Docstring:
    prose: list[str] = []
    sections: list[_Section] = []
    target, indent, skip = prose, "", False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        heading = line.strip().rstrip(":")
        title = _TITLE.fullmatch(heading) if _UNDERLINE.fullmatch(below) else None
        if title:
            target, indent, skip = [], "    " * bool(title["notes"]), True
            sections.append((title, f"{heading}:", target))
        elif skip:
            skip = False
        elif line or target:
            target.append(f"{indent}{line}".rstrip())
    result, args, returns = _sorted("\n".join(prose), sections)
    for head, body in _entries(args, lambda line: line[:1] not in {"", " "}):
        names, _, kind = head.partition(":")
        _add(result, names, kind.strip(), "", body)
    for head, body in _entries(returns, lambda line: line[:1] not in {"", " "})[:1]:
        name, colon, kind = head.partition(":")
        result.returns = Described(_text("", body), (kind if colon else name).strip())
    return result


def _fields(lines: list[str]) -> Docstring:
    prose: list[str] = []
    entries: list[tuple[re.Match[str], list[str]]] = []
    target, after_blank = prose, False
    for line in lines:
        entry = _FIELD.match(line)
        if entry:
            target = []
            entries.append((entry, target))
        else:
            if line and line[0] != " " and after_blank and target is not prose:
                prose.append("")
                target = prose
            target.append(line)
        after_blank = not line
    result, _, _ = _sorted(_BLANK_LINES.sub("\n\n", "\n".join(prose)), [])
    types: dict[str, str] = {}
    raised: list[str] = []
    for match, body in entries:
        _add_field(result, types, raised, match, body)
    if raised:
        result.long = "\n".join([*([result.long, ""] if result.long else []), "Raises:", *raised])
    for name, each in result.params.items():
        if not each.type and name in types:
            result.params[name] = _described(types[name], each.text)
    return result


def _add_field(
    result: Docstring,
    types: dict[str, str],
    raised: list[str],
    match: re.Match[str],
    body: list[str],
) -> None:
    key, head = match["key"].lower(), match["head"].strip()
    written = "\n".join([match["text"] or "", *body])
    first, *rest = written.strip().split("\n")
    text, known = _text(first, rest), result.returns or Described("")
    if key in _RAISE_KEYS:
        raised.append(f"    {head}: {written.rstrip()}".rstrip())
    elif key in _ARG_KEYS and head:
        *kind, name = head.split()
        _add(result, name, " ".join(kind), first, rest)
    elif key == "type" and head:
        types[head.lstrip("*")] = text
    elif key in {"rtype", "returntype"}:
        result.returns = Described(known.text, known.type or text)
    elif key in _RETURN_KEYS:
        result.returns = Described(known.text or text, known.type or head)


def _sorted(prose: str, sections: list[_Section]) -> tuple[Docstring, list[str], list[str]]:
    """The prose with its notes, the lines about arguments and those about the result."""
    args: list[str] = []
    returns: list[str] = []
    notes: list[str] = []
    examples = ""
    for title, head, body in sections:
        while body and not body[-1]:
            body.pop()
        if title["args"]:
            args += body
        elif title["returns"]:
            returns = returns or body
        else:
            notes.append("\n".join([head, *body]))
            if title["notes"].lower().startswith(("example", "usage")):
                examples += "\n".join(body) + "\n"
    short, _, rest = prose.strip("\n").partition("\n\n")
    long = "\n\n".join(part for part in (rest.strip("\n"), *notes) if part)
    return Docstring(" ".join(short.split()), long, examples=examples), args, returns


def _continues(section: _Section, line: str) -> bool:
    """Whether an unindented line still belongs to the section: arguments that were not indented."""
    title, _, body = section
    flat = not body or (bool(body[-1]) and _indent(body[0]) == 0)
    return bool(title["args"]) and flat and bool(_FLAT_ITEM.match(line))


def _entries(lines: Iterable[str], begins: Callable[[str], object]) -> list[tuple[str, list[str]]]:
    """Each line that begins an entry, with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if begins(line):
            found.append((line.strip(), []))
        elif found:
            found[-1][1].append(line)
    return found


def _items(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Google's entries; "Args: None" says that there are none."""
    base = min((_indent(line) for line in lines if line), default=0)
    found = _entries(
        lines, lambda line: line and _indent(line) == base and _ITEM.match(line.strip())
    )
    while found and found[0][0].lower().strip(".") in {"none", "n/a"}:
        found.pop(0)
    deep = base + 4  # where a continuation begins; what is deeper keeps its indentation
    return [
        (head, [" " * max(_indent(each) - deep, 0) + each.strip() for each in body])
        for head, body in found
    ]


def _item(head: str) -> tuple[str, str, str]:
    """The names, the type and the first line of ``name (type): text``."""
    match = _ITEM.match(head)
    assert match is not None  # noqa: S101  (it began the entry)
    rest, kind = head[match.end() :], ""
    if rest[:1] in {"(", "["}:
        depth, end = 1, 1
        while depth and end < len(rest):
            depth += (rest[end] in "([{") - (rest[end] in ")]}")
            end += 1
        kind, rest = rest[1 : end - 1].strip(), rest[end:].lstrip()
    return match["names"], kind, re.sub(r"^(?::|\s?[-–—]\s)\s*", "", rest)


def _add(result: Docstring, names: str, kind: str, first: str, body: list[str]) -> None:
    for each in names.split(","):  # one entry may describe several
        if name := each.strip().strip("`").lstrip("*\\ "):
            result.params.setdefault(name, _described(kind, _text(first, body)))


def _described(kind: str, text: str) -> Described:
    optional = kind.endswith("?") or bool(_DEFAULT.search(text))
    kind = kind.removesuffix("?")
    if _OPTIONAL.search(kind):  # "int, optional" speaks of the argument, Optional[int] of the type
        optional, kind = True, _OPTIONAL.sub("", kind).strip(" ,")
    if "default" in kind.lower():
        optional, kind = True, _TYPE_DEFAULT.sub("", kind)
    return Described(text, kind, optional)


def _text(first: str, rest: list[str]) -> str:
    more = "\n".join(rest)
    return f"{first}\n{inspect.cleandoc(more if first else f'{chr(10)}{more}')}".strip()


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
    if not isinstance(value, ast.Call):
        return None
    called = getattr(value.func, "attr", None) or getattr(value.func, "id", None)
    return value if called in names else None


def _check(
    tool: Tool, example: doctest.Example, call: ast.Call, namespace: MutableMapping[str, Any] | None
) -> Example:
    source = example.source.strip()
    parameters = [each for each in tool.parameters if not each.injected]
    why = ""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(
        word.arg is None for word in call.keywords
    ):
        why = "the example unpacks its arguments; a model names each of them"
    elif len(call.args) > len(parameters):
        why = f"the example gives {len(call.args)} arguments, the tool has {len(parameters)}"
    if why:
        return Example(source, problem=why)
    given = dict(zip((each.name for each in parameters), call.args, strict=False))
    given |= {str(word.arg): word.value for word in call.keywords}
    named = {each.name for each in parameters if each.type.by_reference}
    try:
        sent = {
            name: _json(node, {} if name in named else namespace) for name, node in given.items()
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
