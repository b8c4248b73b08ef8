"""The cells that were run in this session, for the read-only tool `cells`.

Sources, printed texts, results and errors are read from IPython's history, which has the outputs
since IPython 9. Displays of a cell, such as its figures, are noted while the extension is loaded
(`ran.py`). A terminal keeps them in its history.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archytas_nb.cells.failure import Mask, bounded
from archytas_nb.cells.ran import IMAGES, MAX_READ, TEXTS, displayed_in, is_own
from archytas_nb.loop.events import Output
from archytas_nb.namespace import current_shell
from archytas_nb.tools.data import MAX_IMAGES
from archytas_nb.tools.render import Rendered, output_text, render
from archytas_nb.tools.texts import without_addresses
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import LiveNamespace
from archytas_nb.words import truncate_middle

MAX_CELL_CHARS = 4000
"""Characters of a result of the tool."""
_REST = 500  # characters of them for the list of other cells
_PART = 1500  # characters of a source or an output, if several cells are read
_LISTED = 40  # numbers of cells that are named
_UNSEEN = "(What cells printed and drew is not known: that needs IPython 9 or newer.)"

_TITLE = re.compile(r"""\b(?:set_|sup)?title\s*[(=]\s*[rbuf]?(["'])(?P<title>.{1,200}?)\1""")
_FIGURE_SIZE = re.compile(r"<Figure size (\d+)x(\d+)")


@functools.cache
def cells_tool(mask_in: Callable[[LiveNamespace], Mask]) -> Tool:
    """The tool `cells`.

    Args:
        mask_in: Returns what replaces the secrets in texts of a notebook with these variables.
    """

    def described(  # noqa: D417 - the model does not see the namespace
        namespace: LiveNamespace,
        numbers: list[int] = [],  # noqa: B006 - never changed
        containing: str = "",
    ) -> str:
        """Read cells that ran in this notebook: source and output, the newest first.

        Args:
            numbers: Such as 12 for [12]; without, the newest ones
            containing: Only cells with this text
        """
        found: Any = cells(numbers or None, containing, mask=mask_in(namespace))
        return found  # type: ignore[no-any-return]

    return Tool.from_function(described, "cells", repeat=True)


def cells(
    numbers: Sequence[int] | None = None, containing: str = "", *, mask: Mask = str
) -> Rendered | str:
    """The result of the tool `cells`: cells as text, and with their figures if there are any.

    Args:
        numbers: The numbers of the cells; None for all, the newest first.
        containing: Only cells whose source or output contains this text, ignoring case.
        mask: Replaces the secrets in a text.
    """
    shell = current_shell()
    if shell is None:
        raise ValueError("there are no cells: this is not a notebook")
    session = _Session(shell)
    known = _chosen(session.numbers, numbers)
    # A single cell is cut as a whole: after two cuts, the number of characters left out is wrong.
    part = MAX_READ if len(known) == 1 else _PART
    room = MAX_CELL_CHARS - _REST
    read: list[_Cell] = []
    left: list[int] = []
    for number in known:
        if len(left) > _LISTED:
            break
        if left and not containing:
            left.append(number)
            continue
        cell = session.cell(number, mask, part)
        if not cell.contains(containing):
            continue
        if left or (read and len(cell.text) > room):
            left.append(number)
            continue
        read.append(cell)
        room -= len(cell.text) + 2
    return _written(read, left, has_outputs=session.has_outputs)


def _chosen(known: list[int], numbers: Sequence[int] | None) -> list[int]:
    """The numbers of the cells that are asked for, the newest first; raises ValueError."""
    if not numbers:
        return known
    unknown = [each for each in numbers if each not in known]
    if unknown:
        which = f"the cells have the numbers 1 to {known[0]}" if known else "there are none"
        raise ValueError(f"there is no cell with the number {unknown[0]}; {which}")
    return [each for each in known if each in numbers]


def _written(read: list[_Cell], left: list[int], *, has_outputs: bool) -> Rendered | str:
    """The result of the tool: the cells that were read, and the numbers of those that were not."""
    if not read:
        return "There is no such cell."
    parts = [truncate_middle(each.text, MAX_CELL_CHARS - _REST) for each in read]
    if left:
        more = ", …" if len(left) > _LISTED else ""
        listed = ", ".join(map(str, left[:_LISTED]))
        parts.append(f"… More cells: {listed}{more}. Read them with numbers=[…].")
    if not has_outputs:
        parts.append(_UNSEEN)
    text = "\n\n".join(parts)
    images = [image for each in read for image in each.images]
    if not images:
        return text
    return Rendered(text, tuple(dict.fromkeys(images))[:MAX_IMAGES])


@dataclass(frozen=True)
class _Cell:
    text: str
    images: tuple[str, ...]
    whole: str  # in which a text is looked for

    def contains(self, text: str) -> bool:
        return text.casefold() in self.whole.casefold()


class _Session:
    """The cells that the shell has run before this one; nothing of them is changed."""

    def __init__(self, shell: Any) -> None:
        self._manager = shell.history_manager
        self._displayed = displayed_in(shell)
        self._sources: list[str] = self._manager.input_hist_raw
        self.numbers = list(range(len(self._sources) - 2, 0, -1))
        self.has_outputs = hasattr(self._manager, "outputs")

    def cell(self, number: int, mask: Mask, part: int) -> _Cell:
        """A cell as text; ``part`` is how many characters of its source and of an output."""
        source = bounded(self._sources[number].strip("\n"), mask)
        texts = [f"[{number}]\n{truncate_middle(source, part)}"]
        whole = [source]
        images: list[str] = []
        for text, picture in self._outputs(number, source):
            shown = without_addresses(bounded(text, mask)).strip("\n")
            if shown:
                texts.append(f"Output:\n{truncate_middle(shown, part)}")
                whole.append(shown)
            if picture:
                images.append(picture)
        return _Cell("\n".join(texts), tuple(images), "\n".join(whole))

    def _outputs(self, number: int, source: str) -> Iterator[tuple[str, str]]:
        """The outputs of a cell in order, each as text with a picture or none."""
        values = self._manager.output_hist
        if is_own(source):  # the question; of its trace the answer
            answer = getattr(values.get(number), "answer", "")
            if isinstance(answer, str):
                yield answer, ""
            return
        if not self.has_outputs:
            if number in values:
                yield render(values[number], _PART).text, ""
            return
        yield from self._shown(number, source)
        error = getattr(self._manager, "exceptions", {}).get(number)
        if error:
            yield f"{error.get('ename', 'Error')}: {str(error.get('evalue', ''))[:MAX_READ]}", ""

    def _shown(self, number: int, source: str) -> Iterator[tuple[str, str]]:
        """The output of a cell, as IPython's history has it, and as it was noted."""
        found = _TITLE.search(source)
        title = found["title"] if found else ""
        # It is a defaultdict: reading it by index would add to it.
        for each in self._manager.outputs.get(number, ()):
            if "stream" in each.bundle:
                yield _streamed(each.bundle["stream"]), ""
            elif self._displayed is None or each.output_type == "execute_result":
                yield _displayed(each.bundle, title)
        if self._displayed is not None:
            for data in self._displayed.by_cell.get(number, ()):
                yield _displayed(data, title)


def _streamed(pieces: Any) -> str:
    """The text that a cell printed: of a long one both ends, without joining all of it."""
    if not isinstance(pieces, list):
        return str(pieces)[:MAX_READ]
    head: list[str] = []
    size = 0
    at = 0
    while at < len(pieces) and size < MAX_READ:
        head.append(str(pieces[at])[: MAX_READ - size])
        size += len(head[-1])
        at += 1
    tail: list[str] = []
    size = 0
    end = len(pieces)
    while end > at and size < MAX_READ:
        end -= 1
        tail.append(str(pieces[end])[-(MAX_READ - size) :])
        size += len(tail[-1])
    if end > at:
        tail.append("\n… (left out) …\n")
    text = "".join([*head, *reversed(tail)])
    return output_text(Output("stdout", {"text/plain": text}))


def _displayed(data: Mapping[str, Any], title: str) -> tuple[str, str]:
    """A display of a cell as text, and its picture if it is one."""
    for kind in IMAGES:
        picture = data.get(kind)
        if isinstance(picture, bytes):
            picture = base64.b64encode(picture).decode()
        if isinstance(picture, str):
            picture = "".join(picture.split())
            size = _size(str(data.get("text/plain", "")), picture)
            about = "".join((size and f", {size}", title and f", title {title!r}"))
            return f"(a figure{about})", picture
    texts = {kind: str(data[kind])[:MAX_READ] for kind in TEXTS if kind in data}
    return output_text(Output("display", texts)), ""


def _size(text: str, picture: str) -> str:
    """The width and height of a figure in pixels; empty if they are not known."""
    found = _FIGURE_SIZE.search(text)
    if found:
        return f"{found[1]} × {found[2]}"
    try:
        head = base64.b64decode(picture[:64])
        width, height = struct.unpack(">II", head[16:24])
    except (binascii.Error, ValueError, struct.error):
        return ""
    if head[12:16] != b"IHDR":
        return ""
    return f"{width} × {height}"
