"""Every block of code in the README and in docs/ runs, page by page in a new kernel, or says why it is not run.

A comment before a block says how it is treated; a block without one is run, and must not raise. Indented lines below a
block are its output.

    <!-- replies: ["…", ["tool", {…}]] -->   the model's replies: texts and calls; the last one is repeated
    <!-- not run: why -->
    <!-- tested in tests/… -->               a test runs it in another way
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from archytas_nb.models.published import MODELS
from tests.live_kernel import live_kernel
from tests.servers.plays import Say
from tests.servers.server import Server

ROOT = Path(__file__).parents[2]
GENERATED = {"reference.md", "what-the-model-sees.md"}
"""Pages whose blocks are made, and compared, by `tests.docs.reference` and `tests.docs.seen`."""
PAGES = [
    ROOT / "README.md",
    *sorted(each for each in (ROOT / "docs").rglob("*.md") if each.name not in GENERATED),
]
CODE = {"python", "sh", "bash", "yaml", "toml"}
"""Languages of blocks that do something; others are texts that are shown."""
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^>]*?) -->\n)?^```(?P<language>[\w{}-]*)\n(?P<code>.*?)^```$"
    r"(?P<output>\n(?:\n {4}[^\n]*)+)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    line: int
    language: str
    code: str
    mark: str
    output: str

    @property
    def runs(self) -> bool:
        return not re.match(r"not run: \S|tested in \S", self.mark)

    @property
    def replies(self) -> list[Say]:
        """The model's replies; one text where the comment says nothing else."""
        given = json.loads(self.mark.removeprefix("replies: ")) if self.mark else ["Done."]
        return [Say(each) if isinstance(each, str) else Say(calls=(tuple(each),)) for each in given]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        if found["language"] in CODE:
            line = text.count("\n", 0, found.start()) + 1
            output = textwrap.dedent(found["output"] or "").strip()
            yield Block(line, found["language"], found["code"], found["mark"] or "", output)


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.stem)
def test_a_block_is_python_or_says_why_it_is_not_run(page: Path) -> None:
    for block in blocks(page):
        where = f"{page.name}, line {block.line}"
        assert block.language == "python" or not block.runs, f"{where} needs a mark"
        assert re.match(r"$|replies: |not run: \S|tested in \S", block.mark), f"{where}: unknown"
        for test in re.findall(r"\btests/[\w/]+\.py", block.mark):
            assert (ROOT / test).is_file(), f"{where} names {test!r}, which does not exist"


def test_every_fenced_block_is_found() -> None:
    for page in PAGES:
        fences = re.findall(r"^```(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert [each.language for each in blocks(page)] == [each for each in fences if each in CODE]
    assert sum(len(list(blocks(page))) for page in PAGES) > 80


@pytest.mark.parametrize(
    "page",
    [each for each in PAGES if any(block.runs for block in blocks(each))],
    ids=lambda each: each.stem,
)
def test_the_blocks_of_a_page_run_in_a_new_kernel(page: Path, tmp_path: Path) -> None:
    variables = {"OPENAI_API_KEY": "none", "ARCHYTAS_NB_DISCOVER": "0"}
    models = [each.name for each in MODELS if each.provider == "openai"]
    with (
        Server(models=models) as server,
        live_kernel(tmp_path, OPENAI_BASE_URL=server.url, **variables) as kernel,
    ):
        for block in filter(lambda each: each.runs, blocks(page)):
            *first, last = block.replies
            server.plays[:], server.then = first, last
            cell = kernel.run(block.code)
            where = f"{page.name}, line {block.line}"
            assert cell.status == "ok", f"{where}:\n{cell.error}"
            assert not server.plays, f"{where}: replies are left over"
            shown = "".join(each.get("text/plain", "") for each in cell.displayed)
            assert block.output in cell.printed + cell.result + shown, where
