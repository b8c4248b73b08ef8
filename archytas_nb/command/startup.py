"""The opt-in startup file: one file of ours in IPython's own startup folder, written and removed on request.

Nothing that is not ours is ever changed or removed.
"""

from __future__ import annotations

from pathlib import Path

from archytas_nb.errors import ConfigurationError

NAME = "50-archytas_nb.py"
_FIRST = (
    "# Written by `python -m archytas_nb enable`; `python -m archytas_nb disable` removes it.\n"
)
_TEXT = f"""{_FIRST}\
try:
    get_ipython().run_line_magic("load_ext", "archytas_nb")
except ModuleNotFoundError:  # another environment, without the package, uses the same profile
    pass
"""


def startup_file(profile: str = "default") -> Path:
    """Where the startup file of an IPython profile is, or would be."""
    from IPython.paths import get_ipython_dir

    return Path(get_ipython_dir()) / f"profile_{profile}" / "startup" / NAME


def enable(profile: str = "default") -> str:
    """Have every kernel of a profile load the extension.

    Args:
        profile: The IPython profile's name.

    Returns:
        What was done, for a person.

    Raises:
        ConfigurationError: A file of that name is there that is not ours, or it cannot be written.
    """
    path = startup_file(profile)
    if is_enabled(path):
        return f"already enabled: {str(path)!r} loads the extension"
    _check_ours(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_TEXT, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {str(path)!r} ({error}). Make its folder writable."
        ) from None
    return (
        f"enabled: {str(path)!r} loads the extension in every kernel that starts from now on.\n"
        "Undo it with: python -m archytas_nb disable"
    )


def disable(profile: str = "default") -> str:
    """Remove what `enable` wrote.

    Args:
        profile: The IPython profile's name.

    Returns:
        What was done, for a person.

    Raises:
        ConfigurationError: The file was changed by somebody, or it cannot be removed.
    """
    path = startup_file(profile)
    if not path.exists():
        return f"not enabled: there is no {str(path)!r}"
    _check_ours(path)
    try:
        path.unlink()
    except OSError as error:
        raise ConfigurationError(
            f"cannot remove {str(path)!r} ({error}). Remove it by hand."
        ) from None
    return f"disabled: {str(path)!r} is removed. Kernels that run keep the extension until they are restarted."


def is_enabled(path: Path) -> bool:
    """Whether a startup file is there and is ours as we wrote it."""
    try:
        return path.read_text(encoding="utf-8") == _TEXT
    except (OSError, UnicodeDecodeError):
        return False


def _check_ours(path: Path) -> None:
    if path.exists() and not is_enabled(path):
        raise ConfigurationError(
            f"{str(path)!r} is not as `enable` writes it, so it is left alone. Look at it, and remove it by hand."
        )
