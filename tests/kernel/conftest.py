"""The working folder of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.fixture(autouse=True)
def the_working_folder_is_empty(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """No test reads the checkout by a relative path, or writes into it.

    A call with code compares its working folder with what it was: in the checkout, that is a thousand files.
    """
    monkeypatch.chdir(empty_folder)
    yield
    assert not [*empty_folder.iterdir()], "the test has written into the working folder"
