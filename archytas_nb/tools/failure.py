"""What the model reads when a tool raises: the exception and the user's frames. Never raises."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from pathlib import Path

from archytas_nb.tools.clip import clip

_OURS = str(Path(__file__).parent.parent)
_LIBRARIES = tuple(
    {
        path
        for key in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_path(key))
    }
)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def failure_text(error: BaseException, max_chars: int = 8000) -> str:
    """Describe an exception for the model.

    Args:
        error: What the tool raised.
        max_chars: The most characters that the text may have.

    Returns:
        Type and message, then the lines of the user's code that led there, then the causes; no colours, no frames
        of this package or of libraries, no absolute paths.
    """
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(parts) < 5:
        seen.add(id(current))
        parts.append(("caused by " if parts else "") + _one(current))
        current = current.__cause__ or (
            None if current.__suppress_context__ else current.__context__
        )
    return clip("\n".join(parts), max_chars)


def _one(error: BaseException) -> str:
    lines = [f"{type(error).__name__}: {_message(error)}".rstrip(": ")]
    try:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if _is_users(frame.filename)
        ]
    except Exception:  # noqa: BLE001  (a traceback over source that has vanished is no reason to fail)
        frames = []
    for frame in frames[-5:]:
        source = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
        where = (
            ""
            if "ipykernel" in frame.filename or frame.filename.startswith("<")
            else f"{Path(frame.filename).name}, "
        )
        lines.append(
            f"  {where}line {frame.lineno}, in {frame.name}" + (f": {source}" if source else "")
        )
    lines += [
        f"  note: {_ANSI.sub('', note)}"
        for note in getattr(error, "__notes__", ())
        if isinstance(note, str)
    ]
    return "\n".join(lines)


def _message(error: BaseException) -> str:
    try:
        return _ANSI.sub("", str(error))
    except Exception:  # noqa: BLE001  (a user's __str__ may do anything)
        return "(its message cannot be read)"


def _is_users(filename: str) -> bool:
    if filename.startswith((_OURS, "<frozen")):
        return False
    if "site-packages" in filename or "dist-packages" in filename:
        return False
    return not filename.startswith(_LIBRARIES)
