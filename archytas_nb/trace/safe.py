"""Makes text from models and tools safe to show; no other module of the trace writes HTML.

In a live notebook, which is trusted, a script in an output runs, and a remote image tells its
server that the notebook was opened. So such text becomes escaped text, Markdown without raw HTML
and images, cells of a table, or an image that is embedded in the page.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape
from itertools import groupby, islice
from typing import Any, TypeAlias
from urllib.parse import quote

from archytas_nb.tools.render import IMAGES
from archytas_nb.tools.texts import type_name
from archytas_nb.trace.footnotes import read_footnotes
from archytas_nb.words import KEEP, collapse_whitespace, count, tidy

CLASS = "anb-trace"
"""The class of a trace."""
TABLE = "anb-table"
"""The class of a table that is made of a value."""
ANSWER = "anb-answer"
"""The class of an answer."""
PYTHON = "anb-python"
"""The class of a block of an answer that a cell can run."""
ACTIONS = "anb-actions"
"""The class of the buttons below a trace."""
NUMBER = "anb-number"
"""The class of a cell of an answer's table that is a number."""
LINE = "1px solid rgba(128,128,128,.28)"
Rules: TypeAlias = Mapping[str, str]
"""Rules of a style sheet, by a text that is in the pages that need them; "" is in all."""
TABLE_RULES: Rules = {
    TABLE: (
        # Pages have rules for cells of their own; where there is no style sheet, these count.
        f".{CLASS} .{TABLE} th,.{CLASS} .{TABLE} td{{padding:.22em .75em;border:0;"
        f"border-bottom:{LINE};text-align:left;vertical-align:top;white-space:inherit}}"
        f".{CLASS} .{TABLE} th{{font-weight:600}}"
        f".{CLASS} .{TABLE} [align=right]{{text-align:right}}"
    ),
    "<t": (
        # The direction of a cell is that of its text.
        f".{CLASS} th,.{CLASS} td{{unicode-bidi:plaintext}}"
        # A number that is broken over two lines can be read as another one.
        f".{CLASS} th,.{CLASS} [align=right],.{CLASS} .{NUMBER}"
        "{white-space:nowrap;font-variant-numeric:tabular-nums}"
    ),
}
"""The style of its cells."""
MAX_ROWS = 60
"""Of a frame with more rows, the first and the last ones are shown."""
SHOWN_ROWS = 10
MAX_COLUMNS = 20
"""Of a frame with more columns, the first and the last ones are shown."""
MAX_CELL = 50
MAX_PICTURE = 4_000_000
"""Maximum number of base64 characters of an image."""
MONO = (
    "font-family:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace);font-size:.93em"
)
_NUMBER = re.compile(r"[-+−]?[\d,._]*\d(?:\.\d*)?(?:[eE][-+]?\d+)?\s?%?")
# In an answer it may have a sign or a currency before it, and a unit or two after it.
_MEASURED = re.compile(r"[^\w\n]{0,6}[A-Z]{0,3}[^\w\n]{0,3}\d[^\n]{0,24}")
_BLANK = {"", "…", "nan", "NaT", "None", "<NA>", "inf", "-inf"}
_TAGS = {"code", "details", "div", "em", "img", "p", "pre", "span", "strong", "summary", "sup"}
_TAGS |= {"table", "tbody", "td", "th", "thead", "tr"}
_ATTRIBUTES = {"style", "class", "open", "src", "alt", "role", "aria-level", "tabindex", "title"}
_ATTRIBUTES |= {"align", "dir"}
SCROLLED = "overflow:auto;max-height:28em"
"""The style of a box in which a table is scrolled."""
_LINKS = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f]+", re.IGNORECASE)
_CODE = (
    f"{MONO};white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;padding:.6em .8em;"
    "border-radius:6px;margin:.5em 0 .8em;background:rgba(128,128,128,.1);color:inherit"
)


class Html(str):
    """HTML that this module made; any other text in a page is escaped."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A table of plain text, and how many of its rows were left out.

    The rows `above` the head name groups of columns, each where the group begins. Where rows or
    columns are left out, there is one of ellipses.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0
    above: tuple[tuple[str, ...], ...] = ()

    @property
    def size(self) -> str:
        """How many of its rows are shown; empty if all are."""
        if not self.left_out:
            return ""
        shown = len(self.rows) - 1
        return f"{shown:,} of {count(shown + self.left_out, 'row')}"

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers, which are aligned to the right."""
        cells = [row[column] for row in self.rows if column < len(row)]
        return all(cell in _BLANK or _NUMBER.fullmatch(cell) for cell in cells)


def table_of(value: Any, most: int = SHOWN_ROWS) -> Table | None:
    """The ends of a data frame or series of pandas or polars; None for other values.

    Args:
        value: Any value.
        most: The number of rows up to which all are shown; of more, the first and last five.
    """
    try:
        frame, cells = _as_frame(value)
        if cells is None:
            return None
        count_of_rows = len(frame)
        if count_of_rows <= most:
            names, rows = cells(frame, slice(None))
        else:
            names, rows = cells(frame, slice(SHOWN_ROWS // 2))
            last = cells(frame, slice(count_of_rows - SHOWN_ROWS // 2, None))[1]
            rows = [*rows, ("…",) * len(names), *last]
        left_out = max(0, count_of_rows - SHOWN_ROWS) if count_of_rows > most else 0
        *above, head = _levels(names)
        return Table(_cells(head), tuple(map(_cells, rows)), left_out, tuple(map(_cells, above)))
    except Exception:  # noqa: BLE001 (a library may fail to cut its own frames)
        return None


_Cells = Callable[[Any, slice], tuple[list[Any], list[Any]]]


def _as_frame(value: Any) -> tuple[Any, _Cells | None]:
    """A frame or a series as a frame, and how its cells are read; None for other values."""
    for library, cells in (("pandas", _pandas_cells), ("polars", _polars_cells)):
        module = sys.modules.get(library)
        if type(value) is getattr(module, "DataFrame", None):
            return value, cells
        if type(value) is getattr(module, "Series", None):
            return value.to_frame(), cells
    return value, None


def _ends(number: int) -> list[int]:
    """The places of the columns that are shown, in order."""
    if number <= MAX_COLUMNS:
        return list(range(number))
    first = MAX_COLUMNS // 2
    return [*range(first), *range(number - (MAX_COLUMNS - first - 1), number)]


def _polars_cells(frame: Any, rows: slice) -> tuple[list[Any], list[Any]]:
    """The names of the columns that are shown, and some rows."""
    part = frame[rows, _ends(frame.width)]
    return _with_gap(part.columns, frame.width), [
        _with_gap(row, frame.width) for row in part.rows()
    ]


def _pandas_cells(frame: Any, rows: slice) -> tuple[list[Any], list[Any]]:
    """The names of the index and of the columns that are shown, and some rows with their index."""
    width = frame.shape[1]
    part = frame.iloc[rows, _ends(width)]
    names = ["" if name is None else name for name in part.index.names]
    found = []
    for index, *row in part.itertuples(name=None):
        begins = index if part.index.nlevels > 1 else (index,)
        found.append((*begins, *_with_gap(row, width)))
    return [*names, *_with_gap(part.columns, width)], found


def _with_gap(cells: Iterable[Any], width: int) -> list[Any]:
    """The cells of the columns that are shown, with an ellipsis where others are left out."""
    found = list(cells)
    if width > MAX_COLUMNS:
        found.insert(MAX_COLUMNS // 2, "…")
    return found


def _levels(names: list[Any]) -> Iterator[list[Any]]:
    """The rows of a head; in those above the last one, a name that is repeated is left out."""
    groups = [name for name in names if type(name) is tuple]
    depth = max(map(len, groups), default=1)
    for level in range(depth - 1):
        row: list[Any] = []
        last: Any = None
        for name in names:
            group = name[: level + 1] if type(name) is tuple else None
            row.append("" if group is None or group == last else group[-1])
            last = group
        yield row
    yield [name[-1] if type(name) is tuple and name else name for name in names]


def _cells(row: Sequence[Any]) -> tuple[str, ...]:
    return tuple(collapse_whitespace(tidy(_cell_text(each)), MAX_CELL) for each in row)


_AS_TEXT = {"datetime", "decimal", "fractions", "numpy", "pandas", "pathlib", "uuid", "zoneinfo"}
_DEPTH = 3  # levels of a list in a cell
_PARTS = 6  # items of each
_BRACKETS: dict[type[Any], tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
    dict: ("{", "}"),
}


def _cell_text(value: Any, depth: int = _DEPTH) -> str:
    """A cell as text, without running the user's code: a trace is drawn without a time limit."""
    kind = type(value)
    if kind is float and len(str(value)) > 10:
        return f"{value:.8g}"
    if kind is str and depth == _DEPTH:  # the whole cell
        return str(value)
    if kind in (str, bytes):
        return repr(value[:MAX_CELL])
    if kind in (int, float, bool, complex, type(None)):
        return str(value)
    if kind in _BRACKETS and depth:
        return _container_text(value, depth - 1)
    is_known = type(kind) is type and str(kind.__module__).partition(".")[0] in _AS_TEXT
    shape: Any = getattr(value, "shape", ())
    if not is_known or shape:
        return f"<{type_name(value)[:MAX_CELL]}>"
    return str(value)


def _container_text(value: Any, depth: int) -> str:
    """The first items of a list, a tuple, a set or a dict."""
    kind = type(value)
    if kind is dict:
        pairs = islice(value.items(), _PARTS)
        parts = [f"{_cell_text(key, depth)}: {_cell_text(item, depth)}" for key, item in pairs]
    else:
        parts = [_cell_text(each, depth) for each in islice(value, _PARTS)]
    if len(value) > _PARTS:
        parts.append("...")
    opening, closing = _BRACKETS[kind]
    return f"{opening}{', '.join(parts)}{closing}"


# ── HTML ──────────────────────────────────────────────────────────────────────────────────────────


def text(value: str) -> Html:
    """Escape a text for any place between tags."""
    is_clean = value.isprintable() and len(value) < KEEP
    if not is_clean:
        value = tidy(value, 1_000_000)
    return Html(escape(value))


def element(tag: str, *children: str | None, **attributes: str | bool) -> Html:
    """Build an element; children that are not HTML are escaped, and None is left out.

    ``class_`` stands for ``class``; an attribute that is False is left out.

    Raises:
        ValueError: A tag, an attribute or an image address that a trace does not need.
    """
    written = ""
    for keyword, value in attributes.items():
        name = keyword.rstrip("_").replace("_", "-")
        is_remote = name == "src" and not str(value).startswith("data:image/")
        if name not in _ATTRIBUTES or is_remote:
            raise ValueError(f"not allowed in a trace: {name}={value!r}")
        if value is True:
            written += f" {name}"
        elif value is not False:
            # A title may be foreign, unlike the others.
            shown = tidy(value) if name == "title" else value
            written += f' {name}="{_attribute(shown)}"'
    if tag not in _TAGS:
        raise ValueError(f"not allowed in a trace: <{tag}>")
    if tag == "img":
        return Html(f"<img{written}>")
    return Html(f"<{tag}{written}>{join(*children)}</{tag}>")


_attribute = lru_cache(escape)  # styles are few, and each is used often


def join(*parts: str | None) -> Html:
    """Concatenate HTML and texts, which are escaped."""
    written = ""
    for part in parts:
        if type(part) is Html:
            written += part
        elif part:
            written += text(part)
    return Html(written)


_IN_ADDRESS = "!()*+,/:;=@[]{}>"  # of these, every character would else be three


def rules_for(page: str | None, rules: Rules) -> str:
    """The rules that a page needs; all of them for None, a page that changes."""
    return "".join(rule for part, rule in rules.items() if page is None or part in page)


def stylesheet(css: str, *, linked: bool = False, onload: str = "") -> Html:
    """A style sheet; nothing in it may come from a run.

    ``onload`` is a script that a live page runs when the sheet is there.

    What is saved has a link to it: where a page may have no style sheet (on GitHub), the link is
    removed as a whole, but of a ``<style>`` the rules would be left as text.
    """
    if linked:
        return Html(f'<link rel="stylesheet" href="data:text/css,{quote(css, _IN_ADDRESS)}">')
    if onload:
        return Html(f'<style onload="{_attribute(onload)}">{css}</style>')
    return Html(f"<style>{css}</style>")


def embedded(page: str) -> str:
    """HTML that can be placed in a Markdown file, where an empty line would end it."""
    return re.sub(r"\n(?=[ \t]*\n)", "&#10;", page)


def picture(media_type: str, data: str, style: str, alt: str) -> Html | None:
    """An image that the page carries; None for an unknown type, broken base64, or a large one.

    As an image, SVG runs no script and loads nothing.
    """
    if media_type not in IMAGES or len(data) > MAX_PICTURE:
        return None
    try:
        if media_type == "image/svg+xml":
            raw = data.encode("utf-8", "replace")
        else:
            raw = base64.b64decode("".join(data.split()), validate=True)
    except ValueError:
        return None
    source = f"data:{media_type};base64,{base64.b64encode(raw).decode('ascii')}"
    return element("img", src=source, alt=alt, style=style)


def table(value: Table, style: str) -> Html:
    """A table with its inline CSS; that of its cells, of which there are many, is in the sheet."""
    columns = max(map(len, (value.head, *value.rows)), default=0)
    numeric = [value.numeric(at) for at in range(columns)]

    def row(cells: tuple[str, ...], tag: str) -> Html:
        pairs = zip(cells, numeric, strict=False)
        return element(
            "tr", *(element(tag, one, align=is_right and "right") for one, is_right in pairs)
        )

    above = None
    if value.head:
        above = element("thead", *(row(each, "th") for each in (*value.above, value.head)))
    body = element("tbody", *(row(cells, "td") for cells in value.rows))
    return element("table", above, body, class_=TABLE, style=style)


MAX_MARKDOWN = 20_000
MAX_CODE = 100_000
"""Of an answer that is longer no block of code is read."""
_PYTHON = ("", "python", "py", "python3", "ipython")
MAX_BRACKETS = 2_000
"""Above this many characters, or opening brackets, Markdown takes too long: it is shown as text."""


def markdown(value: str, marks: Sequence[tuple[str, str, str]] = ()) -> Html:
    """Render Markdown with tables and formulas; raw HTML becomes text, an image its link text.

    Args:
        value: The text.
        marks: Parts of its prose, in their order, each with its title and its style.
    """
    value = tidy(value, 100_000)
    if _takes_too_long(value):
        return element("pre", value, style=_CODE)
    rendered: str = _parser().render(value, {"marks": marks})
    return Html(rendered.strip())


def markdown_tokens(value: str) -> list[Any]:
    """The tokens of a Markdown text, for a terminal: what only a page can draw is text."""
    value = tidy(value, 100_000)
    if _takes_too_long(value):
        return [_blocks_token(value)]
    label = ""
    tokens = []
    for token in _parser().parse(value):
        if label and token.children:
            first = token.children[0]
            first.content = f"{label} {first.content}" if first.type == "text" else first.content
        label = f"[{token.content}]" if token.type == "footnote_open" else ""
        tokens.append(_as_text(token))
    return tokens


def _blocks_token(value: str) -> Any:
    """A text that is not read, as a block of code."""
    token = _blocks().parse("~~~\n~~~")[0]
    token.content = value
    return token


def _as_text(token: Any) -> Any:
    """A token in which formulas and footnotes are the text that was written."""
    if token.children:
        token.children = [_as_text(each) for each in token.children]
    if token.type in ("formula", "footnote"):
        if token.type == "footnote":
            token.content = f"[{token.content}]"
        token.type = "text"
    elif token.type in ("footnote_open", "footnote_close"):
        token.type = token.type.replace("footnote", "paragraph")
    return token


def _takes_too_long(value: str) -> bool:
    return len(value) > MAX_MARKDOWN or value.count("[") > MAX_BRACKETS


def words_of(value: str) -> str:
    """A Markdown text without its marks; words take the places of tables and blocks of code."""
    value = outline(value)
    if _takes_too_long(value):
        return value
    parts = [
        "".join(" " if each.type == "softbreak" else each.content for each in token.children)
        for token in _parser().parse(value)
        if token.type == "inline"
    ]
    return "\n".join(parts)


def outline(value: str) -> str:
    """A Markdown text in which words take the places of tables and blocks of code."""
    if _takes_too_long(value):
        return value
    tokens = _parser().parse(value)
    if not any(each.type in ("table_open", "fence") for each in tokens):
        return value
    parts: list[str] = []
    head: list[str] = []
    rows = -1  # of the table that is read, without its head
    in_table = False
    for token in tokens:
        match token.type:
            case "table_open":
                in_table = True
                rows = -1
                head = []
            case "table_close":
                in_table = False
                parts.append(f"[table of {count(rows, 'row')}: {', '.join(head)}]")
            case "tr_open":
                rows += 1
            case "fence":
                parts.append("[code]")
            case "inline" if not in_table:
                parts.append(token.content)
            case "inline" if not rows:
                head.append(token.content)
    return "\n".join(parts)


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 30})
    parser.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
    parser.validateLink = lambda url: bool(_LINKS.fullmatch(url))  # type: ignore[method-assign]
    parser.inline.ruler.before("escape", "formula", _formula)
    read_footnotes(parser)
    parser.core.ruler.push("bare links", _link_addresses)
    parser.core.ruler.push("tasks", _mark_tasks)
    parser.core.ruler.push("marks", _mark_parts)
    rules: dict[str, Callable[..., str]] = {
        "link_open": _link,
        "heading_open": _heading,
        "heading_close": lambda *_: "</strong></p>\n",
        "fence": _code_block,
        "code_block": _code_block,
        "formula": _formula_html,
        "marked": _marked,
        "footnote": _footnote_mark,
        "footnote_open": _footnote,
        "footnote_close": lambda *_: "</p>\n",
        "th_open": _aligned_cell,
        "td_open": _aligned_cell,
        "table_open": lambda *_: f'<div style="{SCROLLED}" tabindex="0"><table>\n',
        "table_close": lambda *_: "</table></div>\n",
    }
    rules |= {f"{name}_open": _block_of_text for name in _BLOCKS_OF_TEXT}
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    return parser


def last_python_block(value: str) -> str:
    """The code of the last fenced block of Python in Markdown; empty if there is none."""
    if len(value) > MAX_CODE:
        return ""
    found = ""
    for token in _blocks().parse(value):
        words = (token.info or "").split()
        language = words[0].lower() if words else ""
        if token.type == "fence" and language in _PYTHON:
            found = token.content.strip("\n")
    return found


@cache
def _blocks() -> Any:
    """A parser of Markdown that does not look into the texts of the blocks."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": 30}).disable("inline")


_HEADING_SIZES = {"h1": 1.3, "h2": 1.18, "h3": 1.08}


def _heading(_: Any, tokens: Any, index: int, *__: Any) -> str:
    # No <h1>: it would be a section of the notebook, in its table of contents.
    tag = tokens[index].tag
    level = min(int(tag[1]) + 2, 6)
    style = f"margin:1em 0 .4em;font-size:{_HEADING_SIZES.get(tag, 1)}em"
    return f'<p dir="auto" role="heading" aria-level="{level}" style="{style}"><strong>'


def _link(_: Any, tokens: Any, index: int, *__: Any) -> str:
    # noopener, noreferrer: the linked page learns nothing about the notebook.
    address = escape(str(tokens[index].attrGet("href") or ""), quote=True)
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer">'


def _footnote_mark(_: Any, tokens: Any, index: int, *__: Any) -> str:
    return element("sup", tokens[index].content)


def _footnote(_: Any, tokens: Any, index: int, *__: Any) -> str:
    # No link between the two: an id would be one of the whole notebook.
    return f'<p style="margin:.3em 0;font-size:.88em">{element("sup", tokens[index].content)} '


_ADDRESS = re.compile(
    r"(?:https?://|(?<![\w./@-])www\.(?=\w))[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}*_]", re.IGNORECASE
)


def _link_addresses(state: Any) -> None:
    """Make links of the addresses in a text, which are in no link yet."""
    for block in state.tokens:
        may_have_one = "://" in block.content or "www." in block.content.lower()
        if block.type != "inline" or not may_have_one:
            continue
        linked: list[Any] = []
        depth = 0
        for token in block.children:
            depth += (token.type == "link_open") - (token.type == "link_close")
            if token.type == "text" and not depth:
                linked += _with_links(token)
            else:
                linked.append(token)
        block.children = linked


def _with_links(token: Any) -> Iterator[Any]:
    """A token of text as tokens of text and of links."""
    kind = type(token)
    at = 0
    for found in _ADDRESS.finditer(token.content):
        yield token.copy(content=token.content[at : found.start()])
        href = found[0] if "://" in found[0] else f"https://{found[0]}"
        yield kind("link_open", "a", 1, attrs={"href": href}, level=token.level)
        yield token.copy(content=found[0])
        yield kind("link_close", "a", -1, level=token.level)
        at = found.end()
    yield token.copy(content=token.content[at:])


def _mark_parts(state: Any) -> None:
    """Mark parts of the prose, each after the one before; a missing part is left out."""
    marks = state.env.get("marks") or ()
    blocks = [each for each in state.tokens if marks and each.type == "inline"]
    texts = [(block, token) for block in blocks for token in block.children if token.type == "text"]
    found: dict[int, list[tuple[int, int, str, str]]] = {}
    place, at = 0, 0
    for part, title, style in marks:
        # 12 is not a part of 112. Each search begins after the last match: marks are in order.
        pattern = re.compile(rf"(?<!\d){re.escape(part)}(?!\d)")
        for number in range(place, len(texts)):
            match = pattern.search(texts[number][1].content, at if number == place else 0)
            if match:
                place, at = number, match.end()
                key = id(texts[number][1])
                found.setdefault(key, []).append((match.start(), at, title, style))
                break
    for block in blocks:
        parts = [_parts_of(token, found.get(id(token), ())) for token in block.children]
        block.children = [each for part in parts for each in part]


def _parts_of(token: Any, marks: Sequence[tuple[int, int, str, str]]) -> Iterator[Any]:
    """A token of text as tokens of text and of marked parts."""
    if not marks:
        yield token
        return
    at = 0
    for start, end, title, style in marks:
        yield token.copy(content=token.content[at:start])
        meta = {"title": title, "style": style}
        yield token.copy(type="marked", content=token.content[start:end], meta=meta)
        at = end
    yield token.copy(content=token.content[at:])


def _marked(_: Any, tokens: Any, index: int, *__: Any) -> str:
    token = tokens[index]
    style = token.meta["style"] or False
    return element("span", token.content, title=token.meta["title"], style=style)


_BLOCKS_OF_TEXT = ("paragraph", "bullet_list", "ordered_list", "list_item", "blockquote")


def _block_of_text(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    # Each is written in the direction of its own text.
    tokens[index].attrSet("dir", "auto")
    return str(renderer.renderToken(tokens, index, options, env))


_TASK = re.compile(r"\[([ xX])\](?=\s)")


def _mark_tasks(state: Any) -> None:
    """Write the box of a task, ``[x]`` at the beginning of an item, in place of its bullet."""
    for item, paragraph, text in zip(
        state.tokens, state.tokens[1:], state.tokens[2:], strict=False
    ):
        kinds = (item.type, paragraph.type, text.type)
        if kinds == ("list_item_open", "paragraph_open", "inline") and text.children:
            first = text.children[0]
            found = _TASK.match(first.content)
            if found is not None:
                box = "☐" if found[1] == " " else "☑"
                first.content = box + first.content[found.end() :]
                item.attrSet("style", "list-style-type:none")


def _aligned_cell(_: Any, tokens: Any, index: int, *__: Any) -> str:
    # Every cell is aligned: a page's own style may right-align the others, as JupyterLab's does.
    style = str(tokens[index].attrGet("style") or "")
    aligned = re.fullmatch(r"text-align:(left|center|right)", style)
    side = aligned[1] if aligned else "left"
    kind = ""
    if _MEASURED.fullmatch(tokens[index + 1].content):
        kind = f' class="{NUMBER}"'
    return f'<{tokens[index].tag}{kind} style="text-align:{side}">'


def _code_block(_: Any, tokens: Any, index: int, *__: Any) -> str:
    language = (tokens[index].info or "").split(" ")[0]
    name = PYTHON if language.lower() in _PYTHON else False
    coloured = code(tokens[index].content, language)
    return element("pre", coloured, class_=name, style=_CODE) + "\n"


def _formula_html(_: Any, tokens: Any, index: int, *__: Any) -> str:
    # A trace keeps MathJax away from everything else.
    return element("span", tokens[index].content, class_="tex2jax_process mathjax_process")


# ── code ──────────────────────────────────────────────────────────────────────────────────────────

# The lexers of other languages take seconds for some texts.
_LONGEST_CODE = 10_000
_LANGUAGES = {name: name for name in ("python", "sql", "json", "bash")}
_LANGUAGES |= {"py": "python", "python3": "python", "ipython": "python", "sh": "bash"}
_COLOURS = {"k": "#a35ccf", "c": "#808080", "s": "#2b8a50", "n": "#b06a1c", "f": "#2f78c8"}
"""The colours of code, by the last letter of their class."""
_CLASS_OF = {"Keyword": "k", "Operator.Word": "k", "Comment": "c"}
_CLASS_OF |= {"Literal.String": "s", "Literal.Number": "n"}
_CLASS_OF |= {f"Name.{kind}": "f" for kind in ("Builtin", "Function", "Class", "Decorator", "Tag")}
_CODE_CLASS = "anb-"


def readable(colour: str) -> str:
    """A colour, mixed with that of the text: no colour is readable on black and on white."""
    return f"color-mix(in srgb,{colour} 55%,currentColor)"


CODE_RULES: Rules = {
    f'"{_CODE_CLASS}{letter}"': f".{CLASS} .{_CODE_CLASS}{letter}{{color:{readable(colour)}}}"
    for letter, colour in _COLOURS.items()
}
"""The colours of code. Where a page may have none, code has the colour of text."""


@lru_cache(maxsize=256)
def code(value: str, language: str) -> Html:
    """Code, coloured if its language is known; the text stays the same."""
    name = _LANGUAGES.get(language.lower())
    value = tidy(value, 1_000_000)
    if name is None or len(value) > _LONGEST_CODE:
        return text(value)
    try:
        from pygments import lexers  # type: ignore[import-untyped]
    except ImportError:  # IPython brings it
        return text(value)
    lexer = lexers.get_lexer_by_name(name, stripnl=False, ensurenl=False)
    return _coloured(lexer.get_tokens(value))


def _coloured(tokens: Iterable[tuple[Any, str]]) -> Html:
    """Tokens of tidy code as HTML; no element spans lines."""
    written = ""
    for letter, group in groupby(tokens, lambda token: _letter_of(token[0])):
        joined = "".join(part for _, part in group)
        lines = []
        for line in joined.split("\n"):
            shown = Html(escape(line, quote=False))
            if letter and line.strip():
                shown = element("span", shown, class_=f"{_CODE_CLASS}{letter}")
            lines.append(shown)
        written += "\n".join(lines)
    return Html(written)


@cache
def _letter_of(kind: Any) -> str:
    """The letter of the colour of a kind of token; empty if it has the colour of text."""
    while kind is not None:
        letter = _CLASS_OF.get(str(kind).removeprefix("Token."))
        if letter:
            return letter
        kind = kind.parent
    return ""


def code_lines(value: str, language: str) -> list[Html]:
    """The lines of code, coloured as a whole: a text of several lines has one colour."""
    lines = [Html(line) for line in code(value, language).split("\n")]  # no span spans lines
    blank = value.count("\n") + 1 - len(lines)  # at the end
    return lines + [Html()] * blank


# ── formulas ──────────────────────────────────────────────────────────────────────────────────────
# MathJax reads TeX that can make links, styles and classes. It gets a formula only if all of its
# commands are known to draw and do nothing else; any other is shown as code.

_COMMAND = re.compile(r"\\(?:begin|end)\s*\{([^{}]*)\}|\\([A-Za-z]+\*?|.)", re.DOTALL)
_PAIRS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
# Single dollar signs are the ends of a formula where they are placed like brackets, unlike "$5". No
# formula begins with what closes or separates, or ends with what opens, as between "($) … ($)".
_DOLLARS = re.compile(
    r"""(?<![\w$])\$(?=[^$]*[A-Za-z\\^_=<>])(?![\s)\]}'"’”»,;:?*/])"""
    r"""([^$]{1,2000})(?<![\s(\[{"“„«])\$(?![\w$])"""
)
_COMMANDS = """
alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau
upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell hbar Re Im
nabla partial infty emptyset le leq ge geq ne neq approx sim simeq cong equiv propto ll gg perp
parallel mid in notin ni subset subseteq supset supseteq cup cap setminus land lor lnot neg forall
exists pm mp times div cdot ast star circ bullet oplus otimes bmod pmod mod to gets mapsto leftarrow
rightarrow leftrightarrow Leftarrow Rightarrow Leftrightarrow implies iff uparrow downarrow
therefore because sum prod int iint oint bigcup bigcap lim limsup liminf sup inf max min arg det dim
limits exp ln log sin cos tan cot sinh cosh tanh arcsin arccos arctan gcd deg ker Pr frac dfrac
tfrac cfrac binom sqrt bar overline underline hat widehat tilde widetilde vec dot ddot overbrace
underbrace overset underset stackrel prime left right big Big bigg Bigg bigl bigr Bigl Bigr langle
rangle lfloor rfloor lceil rceil lvert rvert lVert rVert vert Vert lbrace rbrace mathbb mathbf
mathcal mathfrak mathit mathrm mathsf mathtt boldsymbol text textbf textit textrm textsf texttt
operatorname operatorname* displaystyle textstyle scriptstyle quad qquad dots ldots cdots vdots
ddots colon hline begin end boxed
"""
_PLACES = "matrix pmatrix bmatrix vmatrix cases array aligned align align* split"
_DRAWING = {("", name) for name in [*_COMMANDS.split(), *"\\{}|,;:!%_#& "]}
_DRAWING = (_DRAWING - {("", "begin"), ("", "end")}) | {(name, "") for name in _PLACES.split()}


def _formula(state: Any, silent: bool) -> bool:  # noqa: FBT001 (markdown-it calls a rule so)
    """Parse a formula; its token is ``"code_inline"`` if MathJax must not typeset it."""
    source = state.src
    at = state.pos
    past, draws = _formula_at(source, at, state.posMax)
    if past < 0:
        return False
    if not silent:
        if draws:
            token = state.push("formula", "", 0)
        else:
            token = state.push("code_inline", "code", 0)
        token.content = source[at:past]
    state.pos = past
    return True


def _formula_at(source: str, at: int, most: int) -> tuple[int, bool]:
    """The end of the formula that begins at a place, -1 for none; and whether it only draws."""
    closing = _PAIRS.get(source[at : at + 2])
    if closing is None:
        found = _DOLLARS.match(source, at, most)
        if found is not None and _only_draws(found[1]):
            return found.end(), True
        return -1, False
    # Many may begin and none end, so the search is bounded.
    end = source.find(closing, at + 2, min(most, at + 8_000))
    tex = source[at + 2 : end]
    if end < 0 or not tex.strip():
        return -1, False
    return end + 2, _only_draws(tex)


def _only_draws(tex: str) -> bool:
    is_whole = len(tex) <= 2_000 and "$" not in tex and not tex.endswith("\\")
    return is_whole and _DRAWING.issuperset(_COMMAND.findall(tex))
