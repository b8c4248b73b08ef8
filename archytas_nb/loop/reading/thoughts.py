"""Separates what a model thought from what it replied, if its server sends both as one text.

A thought is a block in front of the reply, between a tag or a special token and its counterpart.
Blocks of HTML, elements with attributes or with elements in them, and texts of which nothing else
would remain are the reply itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from archytas_nb.loop.reading.lenient import replace_surrogates

_ABOUT_THINKING = r"\w*(?:think|thought|reason)\w*"
_OPENING = re.compile(
    r"\s*(?:(?P<tag><(?P<element>[A-Za-z_][\w.:-]*)>)"
    r"|(?P<token><\|[^<>\n]{1,40}?\|?>|\[[A-Z][A-Z_]{2,30}\]|◁[^◁▷\n]{1,30}▷))"
)
_UNOPENED_END = re.compile(r"</(?:\w+:)?think(?:ing)?>|\[/THINK\]|◁/think▷")
_IS_THINKING = re.compile(rf"(?i)\W*(?:\w+:)?{_ABOUT_THINKING}\W*\Z")
_HARMONY = re.compile(
    r"\s*<\|channel\|>analysis<\|message\|>(.*?)"
    r"(?:<\|end\|>(?:<\|start\|>assistant)?|(?=<\|channel\|>)|\Z)"
    r"|\A\s*analysis(?=\S)(.*?)assistant(?:final|(?=commentary to=))",
    re.DOTALL,
)
"""The channels of gpt-oss, also if its server dropped the special tokens."""
_FINAL = re.compile(r"\A\s*<\|channel\|>final<\|message\|>|<\|return\|>\s*\Z")
_QUOTE = re.compile(r'(?<!\\)"')
_TAG_INSIDE = re.compile(r"<[/|｜]?[A-Za-z|｜]")
_MOST = 100
HAS_NONE = re.compile(r"\{(?:[^<◁\[\ud800-\udfff]|\[(?!/))*+\Z")
"""A text that begins with a brace and has no beginning of a tag: all of it is the reply."""
HTML_ELEMENTS = frozenset({
    "a", "abbr", "address", "article", "aside", "audio", "b", "blockquote", "body", "br",
    "button", "canvas", "caption", "center", "cite", "code", "col", "colgroup", "data", "dd",
    "del", "details", "dfn", "dialog", "div", "dl", "dt", "em", "embed", "fieldset",
    "figcaption", "figure", "font", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
    "head", "header", "hr", "html", "i", "iframe", "img", "input", "ins", "kbd", "label",
    "legend", "li", "link", "main", "map", "mark", "math", "menu", "meta", "nav", "ol",
    "optgroup", "option", "p", "picture", "pre", "progress", "q", "s", "samp", "script",
    "section", "select", "small", "span", "strong", "style", "sub", "summary", "sup", "svg",
    "table", "tbody", "td", "template", "textarea", "tfoot", "th", "thead", "time", "title",
    "tr", "u", "ul", "var", "video",
})  # fmt: skip
_OF_THE_REPLY = frozenset({"answer", "final", "output", "response", "result", "solution"})
"""Elements in which models put the reply itself."""


def split_thoughts(text: str) -> tuple[str, str]:
    """Split a text into its content and the thoughts before it."""
    text = str(replace_surrogates(text))
    at = 0
    thoughts: list[str] = []
    while len(thoughts) < _MOST and (block := _block(text, at)):
        thought, at = block
        thoughts.append(thought)

    # Some servers omit the opening tag. In a string, the closing tag is just text.
    for end in _UNOPENED_END.finditer(text, at):
        before = text[at : end.start()]
        is_in_string = len(_QUOTE.findall(before)) % 2
        if len(thoughts) > _MOST or is_in_string:
            break
        thoughts.append(before)
        at = end.end()

    body = _FINAL.sub("", text[at:])
    return body.strip(), "\n".join(filter(None, map(str.strip, thoughts)))


def _block(text: str, at: int) -> tuple[str, int] | None:
    """The thought that begins at an index, and where it ends; None if there is none."""
    if harmony := _HARMONY.match(text, at):
        return harmony[1] or harmony[2] or "", harmony.end()
    opening = _OPENING.match(text, at)
    if opening is None or (opening["element"] or "").casefold() in HTML_ELEMENTS | _OF_THE_REPLY:
        return None
    mark = opening["tag"] or opening["token"]
    is_thinking = _IS_THINKING.match(mark) is not None
    for counterpart in _counterparts(mark):
        end = text.find(counterpart, opening.end())
        if end == -1:
            continue
        thought = text[opening.end() : end]
        rest = text[end + len(counterpart) :].lstrip()
        if is_thinking or (rest and rest[0] != mark[0] and not _TAG_INSIDE.search(thought)):
            return thought, end + len(counterpart)
    if is_thinking:  # it is cut off
        return text[opening.end() :], len(text)
    return None


def _counterparts(mark: str) -> Iterator[str]:
    """The closing marks of a block, by its opening mark."""
    brackets = re.match(r"[^\w]+", mark)
    inner = mark.strip("<>|[]◁▷")
    if brackets is None or not inner:
        return
    begin, end = mark.split(inner, 1)
    yield f"{begin}/{inner}{end}"
    if begin == "<|" and end == ">":
        yield f"<{inner}|>"
    for one, other in (("begin", "end"), ("start", "end"), ("open", "close")):
        for old, new in ((one, other), (one.upper(), other.upper())):
            if old in inner:
                yield mark.replace(old, new)
