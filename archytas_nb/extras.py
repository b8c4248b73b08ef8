"""How an extra of the package is installed: by the same way as the package itself."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

_NAME = "archytas-nb"


def install(*extras: str, options: str = "") -> str:
    """The command that installs extras, as a person can run it where this runs.

    Args:
        extras: Their names, such as ``"mcp"``.
        options: Options of ``pip install``.

    Returns:
        A line: ``%pip install …`` in a kernel, which is for its interpreter, ``pip install …`` in
        another program.
    """
    pip = "%pip" if _is_kernel() else "pip"
    what = " ".join(f'"{each}"' for each in _what(",".join(extras)))
    return " ".join(part for part in (pip, "install", options, what) if part)


def _what(extras: str) -> list[str]:
    """The arguments for pip, so that the extras belong to the installed version."""
    try:
        distribution = importlib.metadata.distribution(_NAME)
    except importlib.metadata.PackageNotFoundError:  # a checkout on the path
        return [f"{Path(__file__).resolve().parent.parent}[{extras}]"]
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "null")
    except ValueError:
        origin = None
    if not isinstance(origin, dict) or not isinstance(origin.get("url"), str):
        return [f"{_NAME}[{extras}]"]  # pip found it by its name, and finds it again
    url = origin["url"]
    if urlsplit(url).scheme != "file":
        return [f"{_NAME}[{extras}] @ {_address(url, origin)}"]
    file = Path(url2pathname(unquote(urlsplit(url).path)))
    if file.is_dir():
        return [f"{file}[{extras}]"]
    if file.exists():
        return [f"{_NAME}[{extras}] @ {url}"]
    return _requirements(distribution, extras.split(","))


def _address(url: str, origin: dict[str, Any]) -> str:
    """The address of a package that was installed from one, as pip takes it."""
    source = origin.get("vcs_info")
    if isinstance(source, dict):
        revision = source.get("requested_revision") or source.get("commit_id")
        url = f"{source.get('vcs')}+{url}{f'@{revision}' if revision else ''}"
    if origin.get("subdirectory"):
        url += f"#subdirectory={origin['subdirectory']}"
    return url


def _requirements(distribution: importlib.metadata.Distribution, extras: list[str]) -> list[str]:
    """The packages of the extras, for an installation whose source is gone."""
    found = []
    for each in distribution.requires or ():
        needed, _, marker = each.partition(";")
        if any(f"extra == {quote}{name}{quote}" in marker for name in extras for quote in "'\""):
            found.append(needed.strip())
    return found


def _is_kernel() -> bool:
    """Whether this is a process in whose cells ``%pip`` can be used."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return getattr(get_ipython and get_ipython(), "kernel", None) is not None
