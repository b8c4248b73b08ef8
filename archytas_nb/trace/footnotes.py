"""Reads footnotes in Markdown: ``[^1]`` in a text, and ``[^1]: …`` in a paragraph of its own."""

from __future__ import annotations

import re
from typing import Any

_NOTE = re.compile(r"\[\^([^\s\[\]^]{1,40})\]:[ \t]*(.*)")
_MARK = re.compile(r"\[\^([^\s\[\]^]{1,40})\](?!:)")


def read_footnotes(parser: Any) -> None:
    """Give a parser the rules; its tokens are ``footnote_open`` … ``_close``, and ``footnote``."""
    parser.block.ruler.before("reference", "footnote", _note, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("link", "footnote", _mark)


def _note(state: Any, begin: int, end: int, silent: bool) -> bool:  # noqa: FBT001 (markdown-it calls a rule so)
    """Read a footnote, and the lines up to an empty one or to the next footnote."""
    if state.is_code_block(begin):
        return False
    found = _NOTE.fullmatch(_line(state, begin))
    if found is None:
        return False
    if silent:
        return True
    label, first = found.groups()
    lines = [first]
    after = begin + 1
    while after < end and not state.isEmpty(after) and not _NOTE.fullmatch(_line(state, after)):
        lines.append(_line(state, after))
        after += 1
    state.line = after
    state.env.setdefault("footnotes", set()).add(label)
    state.push("footnote_open", "p", 1).content = label
    text = state.push("inline", "", 0)
    text.content = "\n".join(lines).strip()
    text.children = []
    state.push("footnote_close", "p", -1)
    return True


def _line(state: Any, line: int) -> str:
    return str(state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]])


def _mark(state: Any, silent: bool) -> bool:  # noqa: FBT001
    """Read the mark of a footnote that there is; any other text in brackets stays unchanged."""
    found = _MARK.match(state.src, state.pos)
    if found is None or found[1] not in state.env.get("footnotes", ()):
        return False
    if not silent:
        state.push("footnote", "sup", 0).content = found[1]
    state.pos = found.end()
    return True
