"""The pytest plugin: notebooks under nbval answer from the cassettes that lie beside them.

With ``--agent-replay`` each notebook ``name.ipynb`` replays ``cassettes/name.jsonl``, and a request that was not
recorded fails its cell. Without the option nothing happens, and nothing of the package is imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_PATH, _MODE = "ARCHYTAS_NB_CASSETTE", "ARCHYTAS_NB_CASSETTE_MODE"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--agent-replay``."""
    group = parser.getgroup("archytas_nb", "notebooks with an agent")
    group.addoption(
        "--agent-replay",
        action="store_true",
        help="run notebooks with the replies recorded in cassettes/NAME.jsonl beside NAME.ipynb",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Name the notebook's cassette before its kernel starts: a kernel takes its environment from ours."""
    if not item.config.getoption("--agent-replay") or item.path.suffix != ".ipynb":
        return
    os.environ[_PATH] = str(cassette_of(item.path))
    os.environ[_MODE] = "replay"


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Take the names back when the notebook is done."""
    if item.path.suffix == ".ipynb" and (nextitem is None or nextitem.path != item.path):
        os.environ.pop(_PATH, None)
        os.environ.pop(_MODE, None)


def cassette_of(notebook: Path) -> Path:
    """Where a notebook's cassette lies."""
    return notebook.parent / "cassettes" / f"{notebook.stem}.jsonl"
