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
CALL = Say(calls=(("condition", {"species": "Gentoo"}),))
CODE = "int(penguins.loc[penguins.species == 'Gentoo', 'body_mass_g'].isna().sum())"
LOAD = "%load_ext archytas_nb\n\nfrom palmerpenguins"
ANSWER = (
    "Gentoo penguins have 23.34 g for each millimetre of flipper; one of them has no recorded mass."
)


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


def test_the_first_question_calls_the_function_and_computes_on_the_frame(
    kernel: Kernel, server: Server
) -> None:
    assert snippet(kernel, LOAD) == ""
    snippet(kernel, "%%tool")
    server.plays += [CALL, Say(calls=(("python", {"code": CODE}),)), Say(ANSWER)]
    shown = snippet(kernel, "%agent How well fed")
    assert f"\n    {ANSWER}\n" in README
    assert ANSWER in shown
    results = [
        each["content"] for each in server.chats[-1].body["messages"] if each["role"] == "tool"
    ]
    assert [re.findall(r"23\.34|^1$", each, re.MULTILINE) for each in results] == [["23.34"], ["1"]]
    assert kernel.run("print(condition('Gentoo'))").printed == "23.34\n"


def test_a_change_is_listed_and_undone(kernel: Kernel, server: Server) -> None:
    snippet(kernel, LOAD)
    code = "penguins = penguins.dropna(subset=['body_mass_g'])"
    server.plays += [Say(calls=(("python", {"code": code}),)), Say("Done.")]
    snippet(kernel, "%agent --python")
    assert kernel.run("print(len(penguins))").printed == "342\n"
    snippet(kernel, "%agent_undo")
    assert kernel.run("print(len(penguins))").printed == "344\n"


def test_a_typed_answer_is_put_into_its_variable_and_becomes_code(
    kernel: Kernel, server: Server
) -> None:
    snippet(kernel, LOAD)
    snippet(kernel, "%%tool")
    server.plays += [Say(calls=(("condition", {"species": "Adelie"}),)), Say("19.47")]
    snippet(kernel, "%agent --type float")
    assert kernel.run("print(adelie)").printed == "19.47\n"
    [inserted] = kernel.run("%agent_code").reply["payload"]
    assert "adelie = condition" in inserted["text"]
    assert 'condition(species="Adelie")' in inserted["text"]


def test_plain_python_works_as_shown(kernel: Kernel, server: Server) -> None:
    snippet(kernel, LOAD)
    snippet(kernel, "%%tool")
    server.plays += [CALL, Say("23.34 g for each millimetre.")]
    assert "23.34 g" in snippet(kernel, "import archytas_nb as nb")


def test_every_file_that_the_readme_points_to_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []
