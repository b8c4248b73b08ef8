"""The one door to HTML: whatever becomes HTML in a trace was made by this file.

A live notebook is a trusted page: a script in an output runs, an image from elsewhere tells its server that
the notebook was opened. Text from models and tools is therefore never HTML here. It is escaped; or it is
Markdown, rendered without raw HTML, without images, with links to the web and to mail only; or it is a table
rebuilt from the text of its cells; or an image that the page carries with it.

`element` builds everything: names of tags and attributes are checked against short lists, values are escaped.
This file knows strings, the style sheet and markdown-it, nothing of runs; which formulas a page may typeset
`formula` says.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any, NewType

from archytas_nb.trace.clean import tidy
from archytas_nb.trace.formula import formula
from archytas_nb.trace.style import KEPT, MONO, SHEET
from archytas_nb.trace.table import Table

Html = NewType("Html", str)
"""HTML that this file made. Only such text may be put into a page."""

_TAGS = frozenset(
    {"code", "details", "div", "em", "img", "p", "pre", "span", "strong", "summary"}
    | {"table", "tbody", "td", "th", "thead", "tr"}
)
_VOID = frozenset({"img"})
_ATTRIBUTES = frozenset({"style", "class", "open", "title", "src", "alt"})
_PICTURES = frozenset({"image/png", "image/jpeg", "image/svg+xml", "image/gif", "image/webp"})
_LINKS = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f]+", re.IGNORECASE)
MAX_PICTURE = 4_000_000
"""Characters of base64 of the largest image that a page carries."""


def text(value: str) -> Html:
    """Escape a text for any place between tags."""
    return Html(escape(tidy(value, 1_000_000), quote=True))


def element(tag: str, *children: Html, **attributes: str | bool) -> Html:
    """Build one element.

    Args:
        tag: The element's name.
        children: HTML made by this file.
        attributes: Their values as text, which is escaped; True for one without a value, False for none.

    Raises:
        ValueError: A tag, an attribute or an address that a trace has no use for.
    """
    if tag not in _TAGS:
        raise ValueError(f"no trace holds a <{tag}>; expected one of {sorted(_TAGS)}")
    parts = [tag]
    for name, value in attributes.items():
        if name not in _ATTRIBUTES:
            raise ValueError(
                f"no trace holds the attribute {name!r}; expected one of {sorted(_ATTRIBUTES)}"
            )
        if name == "src" and not str(value).startswith("data:image/"):
            raise ValueError(
                "a trace loads nothing: an image's address must begin with 'data:image/'"
            )
        if value is True:
            parts.append(name)
        elif value is not False:
            parts.append(f'{name}="{escape(str(value), quote=True)}"')
    opening = f"<{' '.join(parts)}>"
    return Html(opening if tag in _VOID else f"{opening}{''.join(children)}</{tag}>")


def join(parts: Sequence[Html]) -> Html:
    """Put pieces one behind the other."""
    return Html("".join(parts))


def stylesheet() -> Html:
    """The style sheet of a trace: one constant text, of which nothing comes from a run."""
    return Html(f"<style>{SHEET}</style>")


def hiding(rule: str, number: int) -> Html:
    """A rule about the static copy of the run with that number, which is one of a process."""
    return Html(f"<style>{rule.format(f'.{KEPT}{number:d}')}</style>")


def picture(media_type: str, data: str, *, style: str = "") -> Html | None:
    """An image that the page carries with it.

    Args:
        media_type: For instance ``"image/png"``.
        data: Base64, or XML where the media type is SVG. As an image, SVG runs no script and loads nothing.
        style: Inline CSS.

    Returns:
        None where it is no image of a known kind, or too large.
    """
    if media_type not in _PICTURES or len(data) > MAX_PICTURE:
        return None
    if media_type == "image/svg+xml":
        encoded = base64.b64encode(data.encode("utf-8", "replace")).decode("ascii")
    else:
        try:
            encoded = base64.b64encode(
                base64.b64decode("".join(data.split()), validate=True)
            ).decode("ascii")
        except (binascii.Error, ValueError):
            return None
    return element(
        "img", src=f"data:{media_type};base64,{encoded}", alt="image made by the tool", style=style
    )


def table(value: Table, *, style: str, cell: str, head: str) -> Html:
    """A table rebuilt from the text of its cells.

    Args:
        value: The cells.
        style: Inline CSS of the table.
        cell: Inline CSS of a cell.
        head: Inline CSS added in header cells.
    """

    def row(cells: tuple[str, ...], tag: str, css: str) -> Html:
        sides = ("right" if value.numeric(column) else "left" for column in range(len(cells)))
        return element(
            "tr",
            *(
                element(tag, text(each), style=f"{css};text-align:{side}")
                for each, side in zip(cells, sides, strict=True)
            ),
        )

    parts = (
        [element("thead", *(row(cells, "th", cell + head) for cells in value.head))]
        if value.head
        else []
    )
    parts.append(element("tbody", *(row(cells, "td", cell) for cells in value.rows)))
    return element("table", *parts, style=style)


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    parser = MarkdownIt(
        "commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 30}
    )
    parser.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
    parser.validateLink = lambda url: _LINKS.fullmatch(url) is not None  # type: ignore[method-assign]
    parser.add_render_rule("link_open", _link_open)
    parser.add_render_rule("heading_open", lambda *_: f"<p {_HEADING}><strong>")
    parser.add_render_rule("heading_close", lambda *_: "</strong></p>\n")
    parser.add_render_rule("fence", _code_block)
    parser.add_render_rule("code_block", _code_block)
    parser.inline.ruler.before("escape", "formula", formula)
    parser.add_render_rule("formula", _formula)
    parser.add_render_rule("th_open", _cell)
    parser.add_render_rule("td_open", _cell)
    return parser


_HEADING = 'style="margin:1em 0 .4em"'
_CODE = (
    f"{MONO};white-space:pre-wrap;overflow-wrap:anywhere;padding:.6em .8em;border-radius:6px;"
    "background:rgba(128,128,128,.1);color:inherit"
)


def _link_open(_renderer: Any, tokens: Any, index: int, *_: Any) -> str:
    # noopener, noreferrer: the page behind a link learns nothing of the notebook.
    address = escape(str(tokens[index].attrGet("href") or ""), quote=True)
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer">'


def _formula(_renderer: Any, tokens: Any, index: int, *_: Any) -> str:
    # A trace keeps MathJax away from everything else.
    return element(
        "span", text(tokens[index].content), **{"class": "tex2jax_process mathjax_process"}
    )


def _cell(_renderer: Any, tokens: Any, index: int, *_: Any) -> str:
    # Said for every cell: a page's own style may set what has no side to the right, as JupyterLab's does.
    said = re.fullmatch(
        r"text-align:(left|center|right)", str(tokens[index].attrGet("style") or "")
    )
    return f'<{tokens[index].tag} style="text-align:{said[1] if said else "left"}">'


def _code_block(_renderer: Any, tokens: Any, index: int, *_: Any) -> str:
    return element("pre", text(tokens[index].content), style=_CODE) + "\n"


def markdown(value: str) -> Html:
    """Render a model's Markdown.

    Args:
        value: CommonMark with tables and formulas; raw HTML in it is shown as text, an image as its link text.

    Returns:
        HTML in which nothing runs and nothing is loaded.
    """
    rendered: str = _markdown().render(tidy(value, 100_000))
    return Html(rendered.strip())
