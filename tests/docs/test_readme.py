"""The README's snippets do what the text around them says; `test_blocks` runs all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_kernel import Kernel, live_kernel
from tests.servers.plays import Say
from tests.servers.server import Server

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CALL = Say(calls=(("count_species", {"species": "Gentoo"}),))
LOAD = "%load_ext archytas_nb\n\nfrom palmerpenguins"
ANSWER = "There are 124 Gentoo penguins."


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def kernel(tmp_path: Path, server: Server) -> Iterator[Kernel]:
    with live_kernel(tmp_path, OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none") as kernel:
        kernel.run("from palmerpenguins import load_penguins\npenguins = load_penguins()")
        yield kernel


def snippet(kernel: Kernel, beginning: str) -> str:
    """Run the snippet that begins so; what it printed or gave as its value."""
    [code] = [each for each in SNIPPETS if each.startswith(beginning)]
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell.printed + cell.result + "".join(each["text/plain"] for each in cell.displayed)


def test_the_shortest_example_does_what_it_shows(kernel: Kernel, server: Server) -> None:
    assert snippet(kernel, LOAD) == ""
    snippet(kernel, "%%tool")
    server.plays += [CALL, Say(ANSWER)]
    shown = snippet(kernel, "%agent How many")
    assert "124" in shown
    assert f"\n    {ANSWER}\n" in README
    assert ANSWER in shown
    assert kernel.run("print(count_species('Gentoo'))").printed == "124\n"


def test_a_typed_answer_is_put_into_its_variable(kernel: Kernel, server: Server) -> None:
    snippet(kernel, LOAD)
    snippet(kernel, "%%tool")
    server.plays += [CALL, Say("124")]
    snippet(kernel, "%agent --type int")
    assert kernel.run("print(gentoos, gentoos + 1)").printed == "124 125\n"


def test_code_on_the_users_data_is_shown_and_undone(kernel: Kernel, server: Server) -> None:
    snippet(kernel, LOAD)
    code = "penguins = penguins.dropna(subset=['body_mass_g'])"
    server.plays += [Say(calls=(("python", {"code": code}),)), Say("Done.")]
    assert "rows: 344 → 342" in snippet(kernel, "%agent --python")
    assert "restored: penguins" in kernel.run("%agent_undo").result
    assert kernel.run("print(len(penguins))").printed == "344\n"


def test_a_cassette_that_is_named_is_filled_and_needs_no_model_afterwards(tmp_path: Path) -> None:
    for plays in ([CALL, Say(ANSWER)], []):
        with Server(*plays) as server, live_kernel(tmp_path, OPENAI_BASE_URL=server.url) as kernel:
            kernel.run("from palmerpenguins import load_penguins\npenguins = load_penguins()")
            for beginning in (LOAD, "%%tool", "%agent_cassette"):
                snippet(kernel, beginning)
            assert ANSWER in snippet(kernel, "%agent How many")
            assert len(server.chats) == len(plays)
    assert (tmp_path / "cassettes" / "my_notebook.jsonl").exists()


def test_plain_python_works_as_shown(kernel: Kernel, server: Server) -> None:
    snippet(kernel, LOAD)
    snippet(kernel, "%%tool")
    server.plays += [CALL, Say(ANSWER)]
    assert ANSWER in snippet(kernel, "import archytas_nb as nb")
    server.then = Say(ANSWER)
    assert "Answered" in snippet(kernel, "import asyncio")


def test_field_notes_become_columns(kernel: Kernel, server: Server) -> None:
    snippet(kernel, LOAD)
    snippet(kernel, "from dataclasses")
    server.then = Say('{"topic": "blood sample", "is_data_missing": true}')
    snippet(kernel, "%%agent_map")
    assert len(server.chats) == 10  # one for each different note, as the page says
    table = snippet(kernel, "raw.join(notes)")
    assert re.search(r"Gentoo penguin .*blood sample +\d+ +\d+", table)


def test_every_file_that_the_readme_points_to_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []
