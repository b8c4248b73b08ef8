"""`%agent_cassette`: one line makes a notebook a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.cassettes import switch
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.file import RecordedReply
from archytas_nb.errors import ConfigurationError
from archytas_nb.kernel import person
from archytas_nb.loop.events import ModelReply
from tests.cassettes.tapes import ask
from tests.live_kernel import Kernel, live_kernel
from tests.scripted import Scripted
from tests.servers.plays import Say
from tests.servers.server import Server


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "_state", switch._State())


def use(shell: InteractiveShell, line: str) -> Any:
    return shell.run_line_magic("agent_cassette", line)


def test_a_notebook_records_and_replays_without_the_server(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    with Server(Say("I am here.")) as server:
        kernel.run(f"%config ArchytasNB.base_url = {server.url!r}")
        assert kernel.run(f"%agent_cassette {path}").status == "ok"
        recorded_cell = kernel.run("%agent --new Who is there?")
    assert "I am here." in recorded_cell.displayed[0]["text/plain"]
    kernel.run(f"%agent_cassette {path} --mode replay")
    cell = kernel.run("%agent --new Who is there?")
    assert cell.displayed == recorded_cell.displayed
    miss = kernel.run("%agent --new Who was there?")
    assert "CassetteMiss" in miss.error
    assert f"%agent_cassette {path} --mode auto" in miss.error
    state = kernel.run("%agent_cassette").result
    assert state == f"{path} (replay): 1 exchange, 1 replayed, 1 missed"
    assert (
        kernel.run("%agent_cassette --mode off\n%agent_cassette").result == "no cassette is in use"
    )


def test_an_agent_of_plain_python_answers_from_it_too(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    with Server(Say("I am here."), Say("And here.")) as server:
        kernel.run(
            f"import archytas_nb as nb\nmodel = nb.OpenAIModel('tiny-1', {server.url!r}, 'sk-1')"
        )
        kernel.run(f"%agent_cassette {path}")
        assert kernel.run("nb.Agent([], model).run('Who?').answer").result == "'I am here.'"
        assert kernel.run("%agent --new --model model Who?").status == "ok"
    kernel.run(f"%agent_cassette {path} --mode replay")
    assert kernel.run("nb.Agent([], model).run('Who?').answer").result == "'I am here.'"
    assert server.url not in path.read_text()
    kernel.run("%agent_cassette --mode off")


def test_a_cell_with_an_agent_of_plain_python_is_given_again_what_it_was_given(
    kernel: Kernel, tmp_path: Path
) -> None:
    asks = "[nb.Agent([], model).run(each).answer for each in ('Who?', 'Who?', 'And you?')]"
    with Server(Say("One."), Say("Two."), Say("Three.")) as server:
        kernel.run(
            f"import archytas_nb as nb\nmodel = nb.OpenAIModel('tiny-1', {server.url!r}, 'sk-1')"
        )
        kernel.run(f"%agent_cassette {tmp_path / 'talk.jsonl'}")
        for _ in range(3):
            assert kernel.run(asks, cell_id="cell").result == "['One.', 'Two.', 'Three.']"
        assert len(server.chats) == 3
    kernel.run("%agent_cassette --mode off")


def test_a_cassette_of_the_configuration_counts_for_every_agent_of_the_kernel(
    tmp_path: Path,
) -> None:
    path = tmp_path / "talk.jsonl"
    asks = "nb.Agent([], model).run('Who?').answer"
    with (
        Server(Say("I am here."), Say("And here."), Say("Here too.")) as server,
        live_kernel(tmp_path) as kernel,
    ):
        kernel.run("%load_ext archytas_nb\nimport archytas_nb as nb")
        kernel.run(f"model = nb.OpenAIModel('tiny-1', {server.url!r}, 'sk-1')")
        kernel.run(f"%config ArchytasNB.cassette = {str(path)!r}")
        kernel.run(f"%config ArchytasNB.base_url = {server.url!r}")
        assert kernel.run(asks).result == "'I am here.'"
        kernel.run("%agent --new --model model Who is it?")
        kernel.run("%agent --new Who else?")
        kernel.run("%config ArchytasNB.cassette_mode = 'replay'")
        assert kernel.run(asks).result == "'I am here.'"
        assert (
            "And here."
            in kernel.run("%agent --new --model model Who is it?").displayed[0]["text/plain"]
        )
        assert "Here too." in kernel.run("%agent --new Who else?").displayed[0]["text/plain"]
        assert (
            kernel.run("%agent_cassette").result == "talk.jsonl (replay): 3 exchanges, 3 replayed"
        )
        assert len(server.chats) == 3
        kernel.run("%config ArchytasNB.cassette = ''")
        assert kernel.run("%agent_cassette").result == "no cassette is in use"


def test_without_a_path_it_shows_what_became_of_the_one_in_use(
    shell: InteractiveShell, tmp_path: Path
) -> None:
    assert repr(use(shell, "")) == "no cassette is in use"
    assert use(shell, f"{tmp_path / 'x.jsonl'}") is None
    assert repr(use(shell, "")) == f"{tmp_path / 'x.jsonl'} (auto): 0 exchanges"


def test_a_path_may_have_spaces_and_variables(shell: InteractiveShell, tmp_path: Path) -> None:
    shell.user_ns["species"] = "Gentoo"
    use(shell, f'"{tmp_path}/my {{species}}.jsonl" --mode record --volatile date,path')
    cassette = switch.cassette_in_use()
    assert cassette is not None
    assert (cassette.path.name, cassette.mode) == ("my Gentoo.jsonl", "record")


def test_what_was_not_asked_for_can_be_dropped(shell: InteractiveShell, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    before = Cassette(path)
    for each in "abc":
        before.add(ask(each), ModelReply(each))
    use(shell, str(path))
    cassette = switch.cassette_in_use()
    assert cassette is not None
    cassette.find(ask("b"))
    assert repr(use(shell, "--prune")).partition(": ")[2] == "1 exchange, 1 replayed"
    assert Cassette(path, "replay").find(ask("b")) is not None


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A cassette with three exchanges."""
    before = Cassette(tmp_path / "x.jsonl")
    for each in "abc":
        before.add(ask(each), ModelReply(each))
    return before.path


def find(text: str, origin: str = "") -> RecordedReply | None:
    cassette = switch.cassette_in_use()
    assert cassette is not None
    return cassette.find(ask(text), origin=origin)


def questions(path: Path) -> list[str]:
    return [each.reply.text for each in Cassette(path).tape.entries if each.reply]  # type: ignore[union-attr]


def test_what_was_used_before_the_same_path_was_set_again_is_not_dropped(
    shell: InteractiveShell, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(shell, str(recorded))
    find("b", "cell 1")
    use(shell, f"{recorded} --mode replay")
    find("c", "cell 2")
    use(shell, f"{recorded} --mode auto --prune")
    assert questions(recorded) == ["b", "c"]
    assert capsys.readouterr().out == "removed from the cassette:\n  a\n"
    use(shell, f"{recorded} --prune")
    assert questions(recorded) == ["b", "c"]


def test_what_a_cell_used_before_it_was_changed_is_dropped(
    shell: InteractiveShell, recorded: Path
) -> None:
    use(shell, str(recorded))
    cassette = switch.cassette_in_use()
    assert cassette is not None
    cassette.start_question("cell", "1")
    find("a", "cell")
    use(shell, str(recorded))
    cassette = switch.cassette_in_use()
    assert cassette is not None
    cassette.start_question("cell", "2")
    find("b", "cell")
    use(shell, "--prune")
    assert questions(recorded) == ["b"]


@pytest.mark.parametrize(("answer", "left"), [("n", ["a", "b", "c"]), ("y", ["b"])])
def test_a_person_who_is_there_sees_what_would_be_dropped_and_decides(
    shell: InteractiveShell,
    recorded: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    left: list[str],
) -> None:
    scripted = Scripted(answer)
    monkeypatch.setattr(person, "Keyboard", lambda: scripted)
    use(shell, str(recorded))
    find("b")
    said = repr(use(shell, "--prune"))
    assert questions(recorded) == left
    [prompt] = scripted.prompts
    assert prompt.startswith("  a\n  c\n")
    assert ("nothing was removed" in said) == (answer == "n")


def test_nothing_is_removed_if_this_kernel_has_used_all(
    shell: InteractiveShell, recorded: Path
) -> None:
    use(shell, str(recorded))
    for question in "abc":
        find(question)
    use(shell, str(recorded))
    assert "this kernel has used every recording" in repr(use(shell, "--prune"))
    assert questions(recorded) == ["a", "b", "c"]


def test_a_line_that_makes_no_sense_is_refused_in_one_line(shell: InteractiveShell) -> None:
    for line, said in [
        ("--mode auto", "specify the cassette"),
        ("--prune", "no cassette is in use"),
        ("x.jsonl --mode rply", "'rply' is unknown, did you mean 'replay'. expected one of auto"),
        ("x.jsonl y.jsonl", "unknown argument"),
        ('"x.jsonl', "No closing quotation"),
    ]:
        with pytest.raises(UsageError, match=said):
            use(shell, line)


def test_a_file_that_cannot_be_used_is_named_and_what_is_in_use_stays(
    shell: InteractiveShell, tmp_path: Path
) -> None:
    use(shell, f"{tmp_path}/good.jsonl")
    (tmp_path / "bad.jsonl").write_text("no")
    with pytest.raises(ConfigurationError, match="is not a cassette"):
        use(shell, f"{tmp_path}/bad.jsonl")
    assert repr(use(shell, "")).startswith(f"{tmp_path}/good.jsonl (")


def test_it_explains_itself(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    use(shell, "--help")
    said = capsys.readouterr().out
    assert all(each in said for each in ("--mode", "--prune", "--volatile", "replays it"))
