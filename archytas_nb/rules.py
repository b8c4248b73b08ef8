"""Instructions in a file, such as the rules of a project: ``instructions="@AGENTS.md"``.

A file is read only if it is named, so that a repository cannot write into prompts by itself, and
it must be where it seems to be: a symbolic link that leads elsewhere is not followed.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import NamedTuple

from archytas_nb.errors import ConfigurationError
from archytas_nb.models.secrets import mask_all

MAX_RULES_CHARS = 20_000
"""Characters of a file that are sent; the rest is left out, with a warning."""
_MAX_READ = 4 * MAX_RULES_CHARS + 4  # bytes


class Instructions(NamedTuple):
    """The text that is added to the system prompt, and the file that contains it, or None."""

    text: str
    file: str = ""


def read_instructions(given: str) -> Instructions:
    """The instructions of a question: the given text, or after ``@`` the text of a file.

    Args:
        given: The text, or ``@`` and a path, relative to the working directory of the kernel,
            which is the notebook's.

    Raises:
        ConfigurationError: There is no such file, it cannot be read, or it is a symbolic link that
            leads to another directory.
    """
    path = given.strip()
    if not path.startswith("@") or "\n" in path:
        return Instructions(given)
    name = path[1:].strip()
    file = _file(name)
    try:
        with file.open("rb") as opened:
            raw = opened.read(_MAX_READ)
    except OSError as error:
        raise _error(name, f"cannot be read: {error.strerror}") from None
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    if len(text) > MAX_RULES_CHARS:
        message = (
            f"the model reads only the first {MAX_RULES_CHARS:,} characters of {name!r} as "
            "instructions: make the file shorter"
        )
        warnings.warn(message, stacklevel=2)
    # Masked before it is cut: half a secret would not be recognised.
    return Instructions(mask_all(text)[:MAX_RULES_CHARS], name)


def _file(name: str) -> Path:
    """The file, if it is where its path says."""
    try:
        path = Path(name).expanduser()
        if path.is_absolute():
            folder = path.parent.resolve()
        else:
            folder = Path(os.path.normpath(Path.cwd().resolve() / path.parent))
        file = (folder / path.name).resolve()
        is_file = file.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise _error(name, f"cannot be used: {error}") from None
    if not file.is_relative_to(folder):
        raise _error(name, f"is a symbolic link to another folder, to {str(file)!r}")
    if not name or not is_file:
        raise _error(name, "does not exist")
    return file


def _error(name: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the file {name!r} with the instructions {why}; expected after '@' the path of a text "
        f"file, relative to {str(Path.cwd())!r}"
    )
