"""The documentation site: it is built without a warning, and its examples use what there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from archytas_nb.magics.agent import ArchytasNB
from archytas_nb.magics.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SNIPPETS = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    if page.stem not in ("reference", "what-the-model-sees")
    for number, code in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return folder


def test_every_page_is_built_without_a_warning(site: Path) -> None:
    missing = [
        page.name
        for page in PAGES
        if page.stem != "index"
        and not (site / page.relative_to(ROOT / "docs").with_suffix("") / "index.html").exists()
    ]
    assert missing == []


def test_the_notebooks_are_pages_with_their_traces(site: Path) -> None:
    page = (site / "notebooks" / "01_quickstart" / "index.html").read_text(encoding="utf-8")
    assert "There are 124 Gentoo" in re.sub(r"<[^>]+>", "", page)


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    broken = []
    for page in site.rglob("index.html"):
        for link in re.findall(r'<a [^>]*href="([^":#]+)["#]', page.read_text(encoding="utf-8")):
            there = page.parent / link
            if not (there / "index.html" if there.is_dir() else there).exists():
                broken.append((page.parent.name, link))
    assert broken == []


def test_public_names_are_described(site: Path) -> None:
    page = (site / "api" / "index.html").read_text(encoding="utf-8")
    for name in ("Agent", "Run", "Tool", "Toolbox", "OpenAIModel", "CassetteMiss"):
        assert f'id="archytas_nb.{"errors." if name == "CassetteMiss" else ""}{name}"' in page, name


def test_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in site.rglob("index.html")]
    found = {
        link
        for page in pages
        for link in re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page)
        if "cdnjs" not in link and "jsdelivr" not in link  # of notebooks, for formulas
    }
    assert found == set()


@pytest.mark.parametrize("code", SNIPPETS)
def test_an_example_is_python_for_a_cell(code: str) -> None:
    body = code.partition("\n")[2] if code.startswith("%%") else code
    compile(TransformerManager().transform_cell(body), "<cell>", "exec")
    # IPython hands the whole line to a magic: a comment would be an argument or in the question.
    assert [line for line in code.splitlines() if re.match(r"%.*\s#\s", line)] == []


def options() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            for command in re.findall(r"(%agent [^`]*)", line):
                yield from ((page.stem, each) for each in re.findall(r"(?<!-)(--[a-z-]+)", command))


def test_every_option_of_a_question_exists() -> None:
    known = {each for action in ArchytasNB.agent.parser._actions for each in action.option_strings}
    assert [each for each in options() if each[1] not in known] == []


def test_every_setting_exists() -> None:
    named = {
        name
        for page in PAGES
        for name in re.findall(r"ArchytasNB\.(\w+)", page.read_text(encoding="utf-8"))
    }
    assert named - set(Settings.class_trait_names()) == set()
