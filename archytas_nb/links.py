"""Follows the symbolic links of a path, unless another user may have planted one of them.

Where several users write into a directory, one of them could make a link that leads what the
others write into a file of their own.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from archytas_nb.errors import ConfigurationError

_MAX_LINKS = 40
"""How many links of one path are followed, as by the kernel of an operating system."""


def trusted_target(path: Path, what: str) -> Path:
    """The file behind the links of a path; ``what`` says for messages what the file is.

    Raises:
        ConfigurationError: One of the links is another user's.
        OSError, RuntimeError: The links lead in a circle.
    """
    planted = planted_link(path)
    if planted is not None:
        raise ConfigurationError(
            f"{what} {str(path)!r} is not used: {str(planted)!r} is a symbolic link of another "
            "user. Remove it, or use a file in a directory of your own"
        )
    return path.resolve()


def planted_link(path: Path) -> Path | None:
    """The first link on a path that another user may have planted; None where there is none.

    A link is trusted if it belongs to this user, to root, or to the owner of its directory, who
    could replace the whole directory. Windows has no such owners.
    """
    if not hasattr(os, "geteuid"):
        return None
    path = path.absolute()
    here = Path(path.anchor)
    parts = list(reversed(path.parts[1:]))
    followed = 0
    while parts and followed < _MAX_LINKS:
        part = parts.pop()
        if part == os.pardir:
            here = here.parent
            continue
        each = here / part
        try:
            found = each.lstat()
        except OSError:  # it does not exist
            return None
        if not stat.S_ISLNK(found.st_mode):
            here = each
            continue
        trusted_owners = (os.geteuid(), 0, here.stat().st_uid)
        if found.st_uid not in trusted_owners:
            return each
        followed += 1
        target = each.readlink()
        if target.is_absolute():
            here = Path(target.anchor)
            parts += reversed(target.parts[1:])
        else:
            parts += reversed(target.parts)
    return None
