"""The advice how to install an extra: what pip reads in it is what the package was installed from."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement

from archytas_nb import extras

PACKAGE = Path(extras.__file__).parent


def installed(monkeypatch: pytest.MonkeyPatch, origin: Any) -> None:
    """Have the package be installed from somewhere; None for an index."""
    text = None if origin is None else json.dumps(origin)
    needs = ["pydantic>=2", 'mcp<3,>=2.3; extra == "mcp"', "jupyter_core>=5.0; extra == 'mcp'"]
    fake = SimpleNamespace(read_text=lambda name: text, requires=needs)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: fake)


def advised(*names: str) -> str:
    """The packages that pip is to install."""
    found = re.fullmatch(r'pip install "(.+)"', extras.install(*names))
    assert found is not None
    return found[1]


def test_a_checkout_is_installed_from_its_folder(monkeypatch, tmp_path) -> None:
    folder = tmp_path / "a clone"
    folder.mkdir()
    for editable in (True, False):
        installed(monkeypatch, {"url": folder.as_uri(), "dir_info": {"editable": editable}})
        assert advised("mcp") == f"{folder}[mcp]"
    assert advised("local", "weights") == f"{folder}[local,weights]"


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        ({"url": "https://example.org/a.whl", "archive_info": {}}, "https://example.org/a.whl"),
        (
            {"url": "https://example.org/a", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            "git+https://example.org/a@12ab",
        ),
        (
            {
                "url": "ssh://git@example.org/a",
                "vcs_info": {"vcs": "git", "commit_id": "12ab", "requested_revision": "v1"},
                "subdirectory": "lib",
            },
            "git+ssh://git@example.org/a@v1#subdirectory=lib",
        ),
    ],
)
def test_an_address_is_kept(monkeypatch, origin, url) -> None:
    installed(monkeypatch, origin)
    read = Requirement(advised("chat", "mcp"))
    assert (read.name, read.extras, read.url) == ("archytas-nb", {"chat", "mcp"}, url)


def test_a_wheel_is_installed_from_its_file_while_it_is_there(monkeypatch, tmp_path) -> None:
    wheel = tmp_path / "archytas_nb-1-py3-none-any.whl"
    wheel.touch()
    installed(monkeypatch, {"url": wheel.as_uri(), "archive_info": {}})
    assert Requirement(advised("mcp")).url == wheel.as_uri()
    wheel.unlink()
    assert extras.install("mcp") == 'pip install "mcp<3,>=2.3" "jupyter_core>=5.0"'


def test_what_came_from_an_index_is_found_there_again(monkeypatch) -> None:
    for origin in (None, "broken", {"url": None}):
        installed(monkeypatch, origin)
        assert advised("mcp") == "archytas-nb[mcp]"


def test_a_package_that_is_not_installed_is_advised_from_its_folder(monkeypatch) -> None:
    def missing(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert advised("mcp") == f"{PACKAGE.parent}[mcp]"


def test_a_cell_installs_for_its_own_interpreter(monkeypatch) -> None:
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert extras.install("mcp", options="--upgrade").startswith("%pip install --upgrade ")
    shell.kernel = None  # IPython in a terminal
    assert extras.install("mcp").startswith("pip install ")


def test_no_other_module_writes_such_advice_itself() -> None:
    own = re.compile(r"""pip install[^\n]*(archytas|\[[a-z]+\])""")
    found = [file.name for file in PACKAGE.rglob("*.py") if own.search(file.read_text("utf-8"))]
    assert found == []
