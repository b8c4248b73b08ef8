"""One cassette for all who ask: who names it, which mode counts, and what goes past it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes import switch
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import CassetteMiss, ConfigurationError
from archytas_nb.testing import ScriptedModel


class Live:
    """A model that is not scripted: whoever reaches it has gone past the cassette, or records."""

    name = "live"
    protocol = "react"

    def __init__(self, *answers: str) -> None:
        self._script = ScriptedModel(*(("final_answer", each) for each in answers))

    def complete(self, ask: Any) -> Any:
        return self._script.complete(ask)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "_state", switch._State())
    for name in (switch.PATH, switch.MODE, switch.REPORT, switch.RERUN):
        monkeypatch.delenv(name, raising=False)


def test_an_agent_answers_from_the_cassette_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(switch.PATH, str(tmp_path / "x.jsonl"))
    assert nb.Agent([], Live("Yes.")).run("Really?").answer == "Yes."
    monkeypatch.setenv(switch.MODE, "replay")
    assert nb.Agent([], Live()).run("Really?").answer == "Yes."
    with pytest.raises(CassetteMiss):
        nb.Agent([], Live("Live!")).run("Really not?")


def test_in_a_replay_no_model_is_chosen_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(switch.PATH, str(tmp_path / "x.jsonl"))
    nb.Agent([], Live("Yes.")).run("Really?")
    monkeypatch.setenv(switch.MODE, "replay")

    def refuse(model: Any = None, *_: Any) -> Any:
        return (
            pytest.fail("a model was chosen") if model is None or isinstance(model, str) else model
        )

    monkeypatch.setattr(switch, "choose_model", refuse)
    monkeypatch.setenv(switch.RERUN, "pytest --agent-update x.ipynb")
    with pytest.raises(CassetteMiss, match=r"pytest --agent-update x\.ipynb") as caught:
        nb.Agent([], "gpt-4o").run("Really?")
    assert caught.value.cause == "settings"
    monkeypatch.setenv(switch.PATH, str(tmp_path / "missing.jsonl"))
    assert nb.Agent([], ScriptedModel(("final_answer", "Yes."))).run("Really?").answer == "Yes."


def test_scripted_models_and_those_with_a_cassette_of_their_own_go_past_it(tmp_path: Path) -> None:
    cassette = switch.insert_cassette(str(tmp_path / "x.jsonl"))
    scripted = ScriptedModel()
    own = CassetteModel(nb_cassette(tmp_path / "y.jsonl"), Live)
    assert switch.recorded(scripted) is scripted
    assert switch.recorded(own) is own
    assert switch.recorded(Live()).cassette is cassette


def nb_cassette(path: Path) -> Any:
    from archytas_nb.cassettes.cassette import Cassette

    return Cassette(path)


def test_an_inserted_cassette_counts_before_the_configuration_and_that_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name() -> str:
        cassette = switch.cassette_in_use()
        return cassette.path.name if cassette else ""

    monkeypatch.setenv(switch.PATH, str(tmp_path / "environment"))
    assert name() == "environment"
    switch.configure_cassette(str(tmp_path / "configured"))
    assert name() == "configured"
    switch.insert_cassette(str(tmp_path / "inserted"))
    assert name() == "inserted"
    switch.insert_cassette("")
    assert name() == ""


def test_a_mode_in_the_environment_counts_before_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook says auto, and a test run replays it."""
    path = str(tmp_path / "x.jsonl")
    monkeypatch.setenv(switch.MODE, "replay")
    with pytest.raises(ConfigurationError, match="does not exist"):
        switch.insert_cassette(path, "auto")
    monkeypatch.setenv(switch.MODE, "replya")
    with pytest.raises(ConfigurationError, match=r"'replya'; expected one of .*'off'"):
        switch.insert_cassette(path, "auto")
    monkeypatch.setenv(switch.MODE, "off")
    assert switch.insert_cassette(path, "record") is None
    monkeypatch.delenv(switch.MODE)
    assert switch.cassette_in_use() is not None


def test_a_cassette_that_cannot_be_used_leaves_the_earlier_one_in_use(tmp_path: Path) -> None:
    first = switch.insert_cassette(str(tmp_path / "good"))
    good = switch.insert_cassette(str(tmp_path / "good"))
    assert good is not first
    (tmp_path / "bad").write_text("no cassette")
    with pytest.raises(ConfigurationError, match="bad"):
        switch.insert_cassette(str(tmp_path / "bad"))
    assert switch.cassette_in_use() is good
    live = Live()
    assert switch.recorded(live).cassette is good
    switch.insert_cassette("")
    assert switch.recorded(live) is live


def test_models_that_a_notebook_makes_itself_are_known_by_the_names_that_it_gives_them(
    tmp_path: Path,
) -> None:
    """Not by their order: a cell that makes a model is run again, or another cell is deleted."""
    path = str(tmp_path / "x.jsonl")

    def made(name: str, answer: str) -> Live:
        model = Live(answer)
        model.name = name
        return model

    switch.insert_cassette(path, "record")
    for name in ("a", "b", "b"):
        nb.Agent([], made(name, f"I am {name}.")).run("Who?")
    for names in (["b", "a", "b"], ["b"], ["a"]):
        switch.insert_cassette(path, "replay")
        answers = [nb.Agent([], made(name, "Live!")).run("Who?").answer for name in names]
        assert answers == [f"I am {name}." for name in names]


def test_a_cassette_stays_the_same_file_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()

    def named(way: str) -> None:
        monkeypatch.setattr(switch, "_state", switch._State())
        monkeypatch.chdir(tmp_path)
        if way == "inserted":
            switch.insert_cassette("inserted.jsonl")
        elif way == "configured":
            switch.configure_cassette("configured.jsonl")
        else:
            monkeypatch.setenv(switch.PATH, "environment.jsonl")

    for way in ("inserted", "configured", "environment"):
        named(way)
        assert nb.Agent([], Live("Yes.")).run("Really?").answer == "Yes."
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert nb.Agent([], Live("No.")).run("Or not?").answer == "No."
        assert len((tmp_path / f"{way}.jsonl").read_text().splitlines()) > 5
        monkeypatch.setenv(switch.MODE, "replay")
        assert nb.Agent([], Live()).run("Or not?").answer == "No."
        monkeypatch.delenv(switch.MODE)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_in_a_replay_without_any_cassette_no_model_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(switch.MODE, "replay")
    switch.insert_cassette("", "off")
    with pytest.raises(ConfigurationError, match=r"no cassette is in use"):
        nb.Agent([], Live("Live!")).run("Really?")
    assert nb.Agent([], ScriptedModel(("final_answer", "Yes."))).run("Really?").answer == "Yes."


def test_the_key_of_the_configuration_does_not_enter_the_cassette(tmp_path: Path) -> None:
    from archytas_nb.models.choose import ModelSettings

    cassette = switch.insert_cassette(str(tmp_path / "x.jsonl"))
    assert cassette is not None
    switch.recorded(None, ModelSettings(api_key="sk-live-4242424242"))
    cassette.add_answer("The key?", "sk-live-4242424242")
    assert "4242" not in (tmp_path / "x.jsonl").read_text()


@pytest.mark.parametrize(
    ("is_scripted", "imported"), [(True, set()), (False, {"archytas_nb.cassettes.switch"})]
)
def test_where_no_cassette_is_in_use_none_is_imported(
    is_scripted: bool, imported: set[str]
) -> None:
    code = (
        "import sys, archytas_nb as nb\nfrom archytas_nb.testing import ScriptedModel\n"
        "model = ScriptedModel(('final_answer', 'x'))\n"
        f"type(model).is_scripted = {is_scripted}\n"
        "nb.Agent([], model).run('x')\n"
        "rest = {name for name in sys.modules if name.startswith('archytas_nb.cassettes.')}\n"
        f"assert rest == {imported}, rest"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
