"""One server and one browser for all tests in JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.chromium import CHROMIUM, FLAGS
from tests.lab.lab import Desk, Lab, opened
from tests.servers.plays import Hang
from tests.servers.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A headless Chromium, with nothing to remember."""
    pytest.importorskip("jupyterlab")
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: install chromium to run this")
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server whose kernels answer from the cassette of the quickstart, with every notebook written."""
    from tests.lab.stories import write_all

    replay = {"ARCHYTAS_NB_CASSETTE_MODE": "replay"}  # of the cassette that the notebook names
    replay["ARCHYTAS_NB_ASK_WITH"] = "input"  # but in the notebooks about controls
    with (
        Server(then=Hang()) as hanging,
        Lab(tmp_path_factory.mktemp("lab"), replay).running() as lab,
    ):
        write_all(lab.work, hanging.url)
        yield lab


@pytest.fixture(scope="package")
def page(lab: Lab, browser: Browser) -> Iterator[Page]:
    """JupyterLab, which takes longer to load than any notebook."""
    page = opened(lab, browser)
    yield page
    page.close()


@pytest.fixture
def sit(page: Page) -> Iterator[Any]:
    """Open a notebook; what was opened is closed at the end, and its kernel ends."""
    desks: list[Desk] = []

    def open_notebook(name: str, **options: Any) -> Desk:
        desks.append(Desk(page, name, **options))
        return desks[-1]

    yield open_notebook
    for desk in desks:
        desk.close()
    page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
