"""The Tab key in the line of a magic, through the completer of a real IPython."""

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import archytas_nb as nb
from archytas_nb.models import choose
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Kernel
from tests.servers.server import Server


def count_birds() -> int:
    """Count."""
    return 1


def plot() -> int:
    """Plot."""
    return 1


class Bird:
    """A class of the notebook."""


@pytest.fixture
def busy(shell: InteractiveShell) -> InteractiveShell:
    nb.tool(count_birds)
    nb.tool(plot)
    shell.user_ns.update(penguins=[1], pens=2, Bird=Bird, script=ScriptedModel())
    return shell


def offered(shell: InteractiveShell, line: str) -> list[str]:
    """What completing at the end of a line gives."""
    with provisionalcompleter():
        return [each.text for each in shell.Completer.completions(line, len(line))]


WORDS: list[tuple[str, list[str]]] = [
    ("%agent --mo", ["--model"]),
    ("%agent --max-steps 3 --max-se", ["--max-seconds"]),
    ("%agent --protocol ", ["auto", "react", "native"]),
    ("%agent --protocol=n", ["native"]),
    ("%agent --approve d", ["deny"]),
    ("%agent --tools ", ["count_birds", "plot"]),
    ("%agent --tools c", ["count_birds"]),
    ("%agent --tools count_birds,p", ["plot"]),
    ("%agent --allow=pl", ["plot"]),
    ("%agent --model lo", ["local"]),
    ("%agent --model sc", ["script"]),
    ("%agent --out pe", ["penguins", "pens"]),
    ("%agent --image pen", ["penguins", "pens"]),
    ("%agent --type list[s", ["list[str]"]),
    ("%agent --type Bi", ["Bird"]),
    ("%agent --until an", ["answer"]),
    ("%agent how many {pen", ["penguins", "pens"]),
    ("%agent --new how many {penguins.cou", ["penguins.count"]),
    ("x = %agent --ne", ["--new"]),
    ("    %agent --ne", ["--new"]),
    ("agent --ne", ["--new"]),
    ("%%agent --ne", ["--new"]),
    ("%tools c", ["count_birds"]),
    ("%tools --remove pl", ["plot"]),
    ("%%tool --ti", ["--timeout"]),
    ("%agent_cassette --mode re", ["replay", "record"]),
    ("%agent -m sc", ["script"]),
    ("%agent -t Bi", ["Bird"]),
    ("%agent_history --h", ["--help"]),
]


def test_what_may_stand_at_the_cursor_is_offered_and_nothing_else(busy: InteractiveShell) -> None:
    for line, words in WORDS:
        assert offered(busy, line) == words, line
    words = offered(busy, "%agent --new --")
    assert {"--model", "--tools", "--until", "--dry-run", "--image"} <= set(words)
    for line in ("%agent how many --ne", "%agent --bogus --ne", "%agent", "agents --ne"):
        assert {"--new", "--model"}.isdisjoint(offered(busy, line))


def test_a_variable_called_like_the_magic_is_a_variable(busy: InteractiveShell) -> None:
    busy.user_ns["agent"] = 3
    assert "--new" not in offered(busy, "agent --ne")


def test_an_object_that_refuses_to_say_what_it_has_harms_nothing(busy: InteractiveShell) -> None:
    class Broken:
        def __dir__(self) -> list[str]:
            raise RuntimeError

    busy.user_ns["broken"] = Broken()
    assert offered(busy, "%agent {broken.x") == []


def test_a_kernel_completes_a_line(kernel: Kernel) -> None:
    kernel.run("penguins, pens = [1], 2")

    def asked(code: str) -> tuple[str, list[str]]:
        reply = kernel.client.complete(code, len(code), reply=True, timeout=30)["content"]
        return code[reply["cursor_start"] : reply["cursor_end"]], reply["matches"]

    assert asked("%agent --mo") == ("--mo", ["--model"])
    assert asked("x = %agent --protocol re") == ("re", ["react"])
    assert asked("y = 1\n%agent --max-to") == ("--max-to", ["--max-total-tokens"])


def test_the_models_of_the_endpoint_are_offered_and_an_endpoint_that_is_not_there_harms_nothing(
    busy: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "_LISTING_SECONDS", 10.0)  # a first import takes longer than 0.5 s
    with Server(models=("alpha", "qwen3:8b")) as server:
        busy.run_line_magic("config", f"ArchytasNB.base_url = {server.url!r}")
        assert {"alpha", "qwen3:8b", "local", "script"} <= set(offered(busy, "%agent --model "))
        assert offered(busy, "%agent --model qwen3:") == ["qwen3:8b"]
    busy.run_line_magic("config", "ArchytasNB.base_url = 'http://127.0.0.1:9/v1'")
    assert offered(busy, "%agent --model lo") == ["local"]
