"""The last error: what a question says of the cell that ran before it, if that cell failed."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import TypeAlias

from archytas_nb.cells.ran import Failure, last_failure
from archytas_nb.loop.record import LastError
from archytas_nb.namespace import contained, current_shell
from archytas_nb.tools.render import is_users_file, leaves_of, message_of
from archytas_nb.tools.texts import type_name, without_addresses
from archytas_nb.words import collapse_whitespace, keep_both_ends, truncate_line

Mask: TypeAlias = Callable[[str], str]
"""Replaces the secrets in a text."""

_MAX_SOURCE = 1500  # characters of the cell
_MAX_MESSAGE = 1000  # characters of the exception's message
_MAX_LINE = 300  # characters of a line of code
_MAX_FRAMES = 10  # of the user, and as many of libraries
_MAX_CAUSES = 3
_MAX_LEAVES = 10  # errors of a group
_MAX_READ = 100_000  # characters of a text in which secrets are looked for
_MAX_NAME = 200  # characters of the name of a type or a function
_UNREADABLE = "its error cannot be read"
_SECRET_LENGTH = 25_000  # characters of the longest secret that is recognised

_CELL_FILE = re.compile(r"<ipython-input-|[\\/]ipykernel_\d+[\\/]")


# ── as text ───────────────────────────────────────────────────────────────────────────────────────


def last_error(mask: Mask) -> LastError | None:
    """The description of the last error for a question; None if the last cell did not fail.

    Args:
        mask: Replaces the secrets in a text; it is called before anything is shortened.
    """
    failure = last_failure()
    if failure is None:
        return None
    with contained():
        # The exception is of the user's class, whose attributes may raise.
        return described(failure, mask)
    text = f"The cell that ran before this question, [{failure.number}], failed: {_UNREADABLE}."
    return LastError(f"cell {failure.number}", "", text)


def described(failure: Failure, mask: Mask) -> LastError:
    """A cell that failed as text: the lines around the one that failed, the error, its frames."""
    frames = list(_frames(failure))
    lines_here = [frame.line for frame in frames if frame.is_here]
    line = lines_here[-1] if lines_here else 0
    if isinstance(failure.error, SyntaxError):
        line = failure.error.lineno or 0
    source = _around(*_masked_lines(failure.source, line, mask), _MAX_SOURCE)
    parts = [
        f"The cell that ran before this question, [{failure.number}], failed:",
        f"```python\n{source}\n```",
        *_raised(failure.error, mask),
        *_listed(frames, mask),
    ]
    return LastError(f"cell {failure.number}", source, "\n".join(parts))


def bounded(text: str, mask: Mask) -> str:
    """A text with its secrets masked; of a very long one the beginning.

    A secret at the end of what is read may be cut, and would not be recognised.
    """
    if len(text) <= _MAX_READ:
        return mask(text)
    return mask(text[:_MAX_READ])[: _MAX_READ - _SECRET_LENGTH]


def _masked_lines(source: str, line: int, mask: Mask) -> tuple[list[str], int]:
    """The lines of a cell with its secrets masked, and the index of the given one among them.

    Of a very long cell the lines around it; a secret that is cut there is far from it.
    """
    lines = source.split("\n")
    at = min(max(line - 1, 0), len(lines) - 1)
    begin, end = _window(lines, at, _MAX_READ)
    text = bounded("\n".join(lines[begin:end]), mask)
    above = mask("\n".join(lines[begin:at]))  # a secret may have several lines
    masked = text.split("\n")
    index = above.count("\n") + 1 if at > begin else 0
    return [keep_both_ends(each, _MAX_LINE) for each in masked], min(index, len(masked) - 1)


def _around(lines: list[str], at: int, size: int) -> str:
    """The lines around one of them, as many as there is room for."""
    begin, end = _window(lines, at, size)
    shown = lines[begin:end]
    if begin:
        shown.insert(0, "# …")
    if end < len(lines):
        shown.append("# …")
    return "\n".join(shown).strip("\n")


def _window(lines: list[str], at: int, size: int) -> tuple[int, int]:
    """The largest range of lines around one of them with at most this many characters."""
    begin = at
    end = at + 1
    room = size - len(lines[at])
    while True:
        has_grown = False
        if begin and len(lines[begin - 1]) < room:
            begin -= 1
            room -= len(lines[begin]) + 1
            has_grown = True
        if end < len(lines) and len(lines[end]) < room:
            room -= len(lines[end]) + 1
            end += 1
            has_grown = True
        if not has_grown:
            return begin, end


def _raised(error: BaseException, mask: Mask) -> Iterator[str]:
    """The exception and what caused it, a line each; and the notes that were added to it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) <= _MAX_CAUSES:
        before = "caused by " if seen else ""
        seen.add(id(current))
        yield f"{before}{_headline(current, mask)}"
        leaves = leaves_of(current)
        for number, each in enumerate(leaves[:_MAX_LEAVES], 1):
            yield f"  {number} of {len(leaves)}: {_headline(each, mask)}"
        hidden = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or hidden
    notes = getattr(error, "__notes__", ())
    if isinstance(notes, (list, tuple)):
        texts = [each for each in notes[:_MAX_CAUSES] if isinstance(each, str)]
        for note in texts:
            yield f"note: {collapse_whitespace(bounded(note, mask), _MAX_LINE)}"


def _headline(error: BaseException, mask: Mask) -> str:
    """The type and the message of an exception."""
    message = message_of(error)
    if isinstance(error, SyntaxError):
        # Its text ends with the name of a temporary file.
        message = f"{error.msg} (line {error.lineno})"
    message = without_addresses(bounded(message, mask))
    if len(message) > _MAX_MESSAGE:
        message = keep_both_ends(message, _MAX_MESSAGE)
    return f"{truncate_line(mask(type_name(error)[:_MAX_READ]), _MAX_NAME)}: {message}".rstrip(": ")


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame of a traceback: where it is, and the line if it is the user's."""

    place: str
    function: str
    line: int
    code: str
    is_users: bool
    is_here: bool  # in the cell that failed


def _frames(failure: Failure) -> Iterator[_Frame]:
    """The frames from the cell on, without those of IPython around it."""
    shell = current_shell()
    # A cell's file is temporary; its number is the same in each run of a notebook.
    numbers = getattr(getattr(shell, "compile", None), "_filename_map", {})
    has_begun = False
    tb = failure.error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        number = numbers.get(code.co_filename)
        is_cell = number is not None or _CELL_FILE.search(code.co_filename) is not None
        has_begun = has_begun or is_cell
        is_users = is_cell or is_users_file(code.co_filename)
        if has_begun:
            yield _Frame(
                _place(code, number, is_cell=is_cell, is_users=is_users),
                code.co_name,
                tb.tb_lineno,
                _line_of(code.co_filename, tb.tb_lineno) if is_users else "",
                is_users,
                number == failure.number,
            )
        tb = tb.tb_next


def _place(code: CodeType, number: int | None, *, is_cell: bool, is_users: bool) -> str:
    """The place of a frame: a cell, a file of the user by its name, or a module of a library."""
    if is_cell:
        return f"cell [{number}]" if number is not None else "a cell"
    path = Path(code.co_filename)
    if is_users or code.co_filename.startswith("<"):
        return path.name
    parts = path.parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            return "/".join(parts[parts.index(folder) + 1 :])
    with contained():
        return path.relative_to(Path(os.__file__).parent).as_posix()
    return path.name


def _line_of(filename: str, line: int) -> str:
    with contained():
        return linecache.getline(filename, line).strip()
    return ""


def _listed(frames: list[_Frame], mask: Mask) -> Iterator[str]:
    """The frames, a line each, at most ten of the user's and ten of libraries."""
    kept = {*_some([n for n, each in enumerate(frames) if each.is_users])}
    kept |= {*_some([n for n, each in enumerate(frames) if not each.is_users])}
    left_out = 0
    for number, frame in enumerate(frames):
        if number not in kept:
            left_out += 1
            continue
        if left_out:
            yield f"  … {left_out} frames"
            left_out = 0
        code = (
            f": {collapse_whitespace(mask(frame.code[:_MAX_READ]), _MAX_LINE)}"
            if frame.code
            else ""
        )
        function = "" if frame.function == "<module>" else f", in {frame.function}"
        function = truncate_line(mask(function[:_MAX_READ]), _MAX_NAME)
        place = truncate_line(mask(frame.place[:_MAX_READ]), _MAX_NAME)
        yield f"  {place}, line {frame.line}{function}{code}"


def _some(numbers: list[int]) -> list[int]:
    """At most ten of them, from both ends."""
    if len(numbers) <= _MAX_FRAMES:
        return numbers
    half = _MAX_FRAMES // 2
    return numbers[:half] + numbers[-half:]
