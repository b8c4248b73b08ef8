"""What something that a tool printed or displayed says in words: for the model, and for who sees no pictures.

Knows the outputs' content by media type; shows and runs nothing.
"""

from __future__ import annotations

import re

from archytas_nb.loop.events import Output
from archytas_nb.tools.clip import clip

LONGEST_MARKUP = 16_000
"""Characters of Markdown, LaTeX and HTML that are read."""

_ESCAPES = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]")
_NAMELESS = re.compile(r"<IPython\.core\.display\.\w+ object>")
_MARKUP = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^<>]*>")


def words_of(output: Output) -> str:
    """The words of an output, as a person sees it; empty where it has none.

    A line that was overwritten, as progress bars do, is read in its last state.
    """
    mime = markup_of(output)
    if mime:
        said = clip(str(output.data[mime]), LONGEST_MARKUP)
        return _MARKUP.sub("", said) if mime == "text/html" else said
    text = _ESCAPES.sub("", str(output.data.get("text/plain", "")).replace("\r\n", "\n"))
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def markup_of(output: Output) -> str:
    """The media type of an output whose plain text is nothing but the name of its class, as Markdown's; or ""."""
    text = str(output.data.get("text/plain", ""))
    if output.kind != "display" or (text and not _NAMELESS.fullmatch(text.strip())):
        return ""
    kinds = ("text/markdown", "text/latex", "text/html")
    return next((mime for mime in kinds if isinstance(output.data.get(mime), str)), "")
