"""The options of `%agent`, in a real IPython with a scripted model."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import archytas_nb as nb
from archytas_nb.errors import ConditionError, RunError, TaskFailed
from archytas_nb.loop.events import AskModel, ModelReply, Usage
from archytas_nb.models import sent as sent_requests
from archytas_nb.models.completion import Price
from archytas_nb.testing import ScriptedModel
from tests.scripted import Scripted

PNG = b"\x89PNG\r\n\x1a\n"


def count(species: str) -> int:
    """Count the penguins of one species.

    Args:
        species: The species
    """
    return {"Gentoo": 124}.get(species, 0)


def erase(species: str) -> str:
    """Erase a species.

    Args:
        species: The species
    """
    return f"{species} is gone"


@dataclass
class Bird:
    """A bird of the notebook."""

    name: str
    mass: float


def answer(text: Any) -> tuple[str, Any]:
    return ("final_answer", text)


Ask = Callable[..., Any]


def costs_in(ask: Any) -> dict[str, list[str]]:
    """The costs in the notes of the history, by the name of each sum."""
    notes = ask("agent_history").notes
    found = [note.split(": ") for note in notes if "USD" in note]
    return {scope: cost.split(", ") for scope, cost in found}


@pytest.fixture
def ask(shell: InteractiveShell) -> Ask:
    """Runs a line of %agent against a script, and gives back its value or raises what it raises."""
    nb.tool(count)
    nb.tool(erase, approve=True)
    shell.user_ns.update(species="Gentoo", Bird=Bird, pd=pd)

    def ask(line: str, *script: Any, small: bool = False, cell: str | None = None) -> Any:
        model = ScriptedModel(*script)
        model.is_small = small
        ask.model = shell.user_ns["script"] = model
        if line.startswith("agent_"):
            return shell.run_line_magic(line, "")
        line = f"--model script {line}"
        if cell is None:
            return shell.run_line_magic("agent", line)
        return shell.run_cell_magic("agent", line, cell)

    ask.shell = shell
    return ask


def sent(ask: Any, request: int = 0) -> list[dict[str, Any]]:
    return ask.model.asked[request].messages


def test_lookups_in_the_question_and_its_cell_are_sent_as_values(ask: Ask) -> None:
    ask("how many {species}", answer("124"))
    assert sent(ask)[-1]["content"] == "how many Gentoo"
    ask("--new count", answer("124"), cell="{species} and {{species}}\n")
    assert sent(ask)[-1]["content"] == "count\nGentoo and {species}"
    ask("--new --raw how many {species}", answer("124"))
    assert sent(ask)[-1]["content"] == "how many {species}"


def test_a_lookup_that_cannot_be_made_asks_nothing_and_keeps_the_conversation(ask: Ask) -> None:
    ask("hello", answer("Hello."))
    with pytest.raises(UsageError, match="'spceies', did you mean 'species'"):
        ask("--new how many {spceies}")
    assert ask.model.asked == []
    assert "hello" in repr(ask("agent_history"))


def test_out_puts_the_answer_into_a_variable(ask: Ask) -> None:
    ask("--out n how many", answer("124"))
    assert ask.shell.user_ns["n"] == "124"


def test_a_type_gives_a_validated_value_and_a_wrong_answer_is_told_to_the_model(ask: Ask) -> None:
    run = ask("--type int --out n how many", answer("many"), answer(124))
    assert ask.shell.user_ns["n"] == run.value == 124
    assert "int" in sent(ask, 1)[-1]["content"]
    ask("--type list[str] --out names which", answer(["a", "b"]))
    assert ask.shell.user_ns["names"] == ["a", "b"]
    ask("--type Bird --out bird which", answer({"name": "Gentoo", "mass": 5.1}))
    assert ask.shell.user_ns["bird"] == Bird("Gentoo", 5.1)


def test_a_frame_is_handed_over_by_the_name_of_its_variable(ask: Ask) -> None:
    frame = ask.shell.user_ns["birds"] = pd.DataFrame({"a": [1]})
    ask("--type pd.DataFrame --out same which", answer("birds"))
    assert ask.shell.user_ns["same"] is frame
    assert "DataFrame" not in ask.shell.user_ns  # pandas is loaded, and that is enough
    ask("-t DataFrame --out again which", answer("birds"))
    assert ask.shell.user_ns["again"] is frame


def test_an_answer_counts_only_when_the_condition_holds(ask: Ask) -> None:
    run = ask('--type int --until "answer > 100" how many', answer(3), answer(124))
    assert run.value == 124
    assert "answer > 100" in sent(ask, 1)[-1]["content"]


@pytest.mark.parametrize(
    ("options", "kind"),
    [("--until 'answer > 100'", "str"), ("--type DataFrame --until 'answer > 100'", "DataFrame")],
)
def test_a_condition_that_cannot_be_evaluated_ends_the_question_after_the_first_answer(
    ask: Ask, options: str, kind: str
) -> None:
    ask.shell.user_ns["birds"] = pd.DataFrame({"a": [1]})
    with pytest.raises(ConditionError) as caught:
        ask(f"{options} how many", answer("birds"), answer("birds"))
    assert len(ask.model.asked) == 1
    message = str(caught.value)
    assert "--until answer > 100" in message
    assert f"of type {kind!r}" in message
    assert ("--type int" in message) == (kind == "str")


def test_a_condition_that_rejects_a_value_with_an_exception_lets_the_model_retry(ask: Ask) -> None:
    run = ask("--until 'int(answer) > 100' how many", answer("many"), answer("124"))
    assert run.answer == "124"


def test_what_makes_no_sense_is_a_usage_error_and_asks_and_shows_nothing(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in [
        "--until answer> how many",
        "--until answr how many",
        "--type lst how many",
        "--type 3 how many",
        "--out 1x how many",
        "--image gone how many",
        "--tools polt how many",
        "--allow polt how many",
        "--max-steps 0 how many",
        "--max-seconds soon how many",
        "--approve maybe how many",
        "--history how many",
        "--bogus how many",
        "--dry-run",
        "",
    ]:
        with pytest.raises(UsageError) as error:
            ask(line)
        assert "\n" not in str(error.value)
        assert capsys.readouterr() == ("", "")
        assert ask.model.asked == []


def test_a_variable_never_holds_half_an_answer(ask: Ask) -> None:
    ask.shell.user_ns["n"] = "before"
    with pytest.raises(RunError, match="max_steps=1: there is no complete answer for 'n'") as error:
        ask(
            "--max-steps 1 --out n how many", ("count", {"species": "Gentoo"}), answer("at least 3")
        )
    assert ask.shell.user_ns["n"] == "before"
    assert error.value.run.answer == "at least 3"


def test_only_the_chosen_tools_are_offered(ask: Ask) -> None:
    ask("--tools c* hello", answer("Hello."))
    assert "erase" not in sent(ask)[0]["content"]
    assert "count" in sent(ask)[0]["content"]
    ask("hello", answer("Hello."))
    assert "erase" in sent(ask)[0]["content"]


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ("", "refused"),
        ("--approve deny", "refused"),
        ("--approve auto", "done"),
        ("--allow erase", "done"),
    ],
)
def test_approval_follows_the_policy_and_the_list_of_allowed_tools(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, flags: str, status: str
) -> None:
    monkeypatch.setattr(
        "archytas_nb.kernel.person.Keyboard.ask",
        lambda *_: pytest.fail("nobody is there to be asked"),
    )
    run = ask(f"{flags} erase it", ("erase", {"species": "Gentoo"}), answer("Well."))
    assert [outcome.status for _, outcome in run.calls] == [status]


def test_a_run_that_the_person_stops_at_a_call_is_the_value_of_its_cell(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: Scripted("stop"))
    run = ask("--approve ask erase it", ("erase", {"species": "Gentoo"}), answer("Well."))
    assert run.status == "interrupted"
    assert [outcome.status for _, outcome in run.calls] == ["interrupted"]


def test_a_setting_holds_for_all_questions_and_an_option_for_one(ask: Ask) -> None:
    ask.shell.run_line_magic("config", "ArchytasNB.max_steps = 1")
    run = ask("hello", ("count", {"species": "Gentoo"}), answer("Three."))
    assert run.reason == "max_steps=1"
    run = ask("--max-steps 2 hello", ("count", {"species": "Gentoo"}), answer("Three."))
    assert run.reason == ""


def test_a_limit_on_tokens_ends_the_run(ask: Ask) -> None:
    ask.shell.run_line_magic("config", "ArchytasNB.max_total_tokens = 1")
    run = ask("hello", ("count", {"species": "Gentoo"}), answer("Three."))
    assert run.reason == "max_total_tokens=1"


def test_an_option_and_a_setting_bound_a_reply(ask: Ask) -> None:
    def bound(run: Any) -> list[int]:
        return [event.max_tokens for event in run.events if isinstance(event, AskModel)]

    assert bound(ask("hello", answer("Three."))) == [16384]
    ask.shell.run_line_magic("config", "ArchytasNB.max_reply_tokens = 3000")
    assert bound(ask("hello", answer("Three."))) == [3000]
    ask.shell.run_line_magic("config", "ArchytasNB.max_reply_tokens = 5")
    assert bound(ask("hello", answer("Three."))) == [5]


def test_a_small_model_is_not_given_the_tool_to_ask_the_user_unless_told_so(ask: Ask) -> None:
    for setting, small, there in [
        ("auto", False, True),
        ("auto", True, False),
        ("on", True, True),
        ("off", False, False),
    ]:
        ask.shell.run_line_magic("config", f"ArchytasNB.ask_user = {setting!r}")
        ask("hello", answer("Hello."), small=small)
        assert ("ask_user" in sent(ask)[0]["content"]) is there


def test_pictures_go_along_from_options_and_from_the_question(ask: Ask) -> None:
    ask.shell.user_ns["shot"] = PNG
    ask("--image shot --image shot what is it", answer("A bird."))
    images = [part for part in sent(ask)[-1]["content"] if part["type"] == "image_url"]
    assert [image["image_url"]["url"] for image in images] == [
        f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    ] * 2


def test_a_dry_run_shows_all_of_the_request_and_sends_nothing(ask: Ask) -> None:
    ask("hello", answer("Hello."))
    ask.shell.user_ns["shot"] = PNG
    report = ask("--dry-run --type int --image shot how many {species}")
    assert ask.model.asked == []
    text = repr(report)
    for part in (
        "Nothing was sent",
        "scripted",
        "react",
        "max_steps=20",
        "count",
        "how many Gentoo",
        "[image, ",
        "hello",
        "Hello.",
    ):
        assert part in text
    assert report.ask.messages[0]["content"] in text
    assert "Gentoo" in report._repr_html_()
    ask("how many {species}", answer("124"))
    assert list(sent(ask))[:-1] == list(report.ask.messages)[:-1]


def test_a_dry_run_lists_every_tool_that_is_offered_also_those_that_read_variables(
    ask: Ask,
) -> None:
    report = ask("--dry-run --context changed --tools count how many")
    assert dict(report.facts)["tools"].split(", ") == [
        "look",
        "cells",
        "ask_user",
        "python",
        "count",
    ]
    listed = dict(report.facts)["tokens"]
    parts = dict(re.findall(r"(\w+) ([\d,]+)", listed.partition(": ")[2]))
    numbers = {name: int(each.replace(",", "")) for name, each in parts.items()}
    assert list(numbers) == ["system", "tools", "variables", "history", "question"]
    assert sum(numbers.values()) == int(re.findall(r"[\d,]+", listed)[0].replace(",", ""))
    assert min(numbers["system"], numbers["tools"], numbers["question"]) > 0
    report = ask("--dry-run --context none --tools count how many")
    assert dict(report.facts)["tools"].split(", ") == ["ask_user", "count"]


def test_a_dry_run_says_that_a_small_model_is_asked_beforehand(ask: Ask) -> None:
    for small in [True, False]:
        assert ("short requests" in repr(ask("--dry-run how many", small=small))) == small


def test_a_dry_run_of_a_new_conversation_leaves_the_old_one_alone(ask: Ask) -> None:
    ask("hello", answer("Hello."))
    report = ask("--dry-run --new how many")
    assert "hello" not in repr(report)
    assert "hello" in repr(ask("agent_history"))


def test_the_history_shows_each_question_with_its_calls_and_its_end(ask: Ask) -> None:
    assert "no questions have been asked" in repr(ask("agent_history"))
    ask("how many Gentoo", ("count", {"species": "Gentoo"}), answer("There are 124."))
    with pytest.raises(TaskFailed):
        ask("how many dodos", ("fail_task", "They are extinct."))
    table = repr(ask("agent_history"))
    # Both were asked in the cell that no front end has numbered.
    assert [line.split()[0] for line in table.splitlines()[1:3]] == ["0", "0.2"]
    for part in (
        "how many Gentoo",
        "count",
        "There are 124.",
        "The model gave up",
        "They are extinct.",
    ):
        assert part in table


def test_undo_forgets_the_last_exchange_and_reset_all_of_them(ask: Ask) -> None:
    for text in ("one", "two", "three"):
        ask(text, answer(text.upper()))
    assert repr(ask("agent_undo")) == "removed: three"
    ask("four", answer("FOUR"))
    assert [message["content"] for message in sent(ask) if message["role"] == "user"] == [
        "one",
        "two",
        "four",
    ]
    assert repr(ask("--new")) == "removed: 3 questions"
    assert "nothing to undo" in repr(ask("agent_undo"))
    ask("five", answer("FIVE"))
    assert len(sent(ask)) == 2
    assert repr(ask("--new")) == "removed: 1 question"


def test_cost_counts_the_last_question_and_the_conversation_failures_included(ask: Ask) -> None:
    ask("one", ("count", {"species": "Gentoo"}), answer("1"))
    with pytest.raises(TaskFailed):
        ask("two", ("fail_task", "no"))
    costs = costs_in(ask)
    assert costs["last question"][:2] == ["1 request", "unknown tokens in (unknown cached)"]
    assert costs["conversation"][:2] == ["2 questions", "3 requests"]
    assert costs["conversation"][-1] == "USD unknown"
    assert "price of the model is not known" in repr(ask("agent_history"))
    ask("--new")
    assert "no questions have been asked" in repr(ask("agent_history"))
    # A new conversation makes nothing of the earlier ones unpaid.
    assert costs_in(ask) == {"kernel": costs["conversation"]}


def test_quiet_shows_no_trace(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    ask("--quiet hello", answer("Hello."))
    assert capsys.readouterr().out == ""
    ask("hello", answer("Hello."))
    assert "Hello." in capsys.readouterr().out
    ask.shell.run_line_magic("config", "ArchytasNB.quiet = True")
    ask("hello", answer("Hello."))
    assert capsys.readouterr().out == ""
    ask("--no-quiet hello", answer("Hello."))
    assert "Hello." in capsys.readouterr().out


def test_a_tool_that_asks_the_same_conversation_is_told_that_it_cannot(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    def again() -> str:
        """Ask again."""
        ask.shell.run_line_magic("agent", "--model script hello")
        return "asked"

    nb.tool(again)
    run = ask("go", ("again", None), answer("Done."))
    [(_, outcome)] = run.calls
    assert capsys.readouterr().out.count("did not finish") == 0
    assert "a tool cannot ask another" in outcome.text
    assert ask("hello", answer("Hello.")).answer == "Hello."


def test_a_question_in_a_function_sees_the_functions_variables(ask: Ask) -> None:
    line = "--model script is it {name} or {species}"
    ask.shell.run_cell(f"def f(name):\n    return get_ipython().run_line_magic('agent', {line!r})")
    model = ask.shell.user_ns["script"] = ScriptedModel(answer("Yes."))
    assert ask.shell.user_ns["f"]("Adelie").answer == "Yes."
    assert model.asked[0].messages[-1]["content"] == "is it Adelie or Gentoo"


def test_usd_is_shown_where_the_price_is_known(ask: Ask) -> None:
    reply = ModelReply(
        '{"tool": "final_answer", "tool_input": "1"}', usage=Usage(1, 1_000_000, 500_000, 100_000)
    )
    ask("one", reply)
    assert costs_in(ask)["last question"][-1] == "USD unknown"
    model = ask.shell.user_ns["priced"] = ScriptedModel(reply)
    model.price = Price(input=2.0, cached=1.0, output=10.0)
    ask.shell.run_line_magic("agent", "--model priced --new two")
    assert costs_in(ask)["last question"] == [
        "1 request",
        "1,000,000 tokens in (500,000 cached)",
        "100,000 out",
        "0.0 s of the model",
        "USD 2.5000",
    ]
    said = ModelReply('{"tool": "final_answer", "tool_input": "1"}', usage=Usage(1, 9, 0, 4, 0.25))
    ask("--new three", said)
    assert costs_in(ask)["last question"][-1] == "USD 0.2500"
    assert costs_in(ask)["kernel"][-1] == "USD 2.7500+"  # that of the first is not known


def test_a_dry_run_does_not_begin_a_recording_anew(ask: Ask, tmp_path: Path) -> None:
    cassette = tmp_path / "c.jsonl"
    shell = ask.shell
    shell.run_line_magic("config", f"ArchytasNB.cassette = {str(cassette)!r}")
    shell.run_line_magic("config", "ArchytasNB.cassette_mode = 'record'")
    shell.run_line_magic("config", "ArchytasNB.base_url = 'http://127.0.0.1:9/v1'")
    cassette.write_text('{"cassette": 2}\n', "utf-8")
    before = cassette.read_text("utf-8")
    report = shell.run_line_magic("agent", "--model some --dry-run hello")
    assert "hello" in repr(report)
    assert cassette.read_text("utf-8") == before


def test_instructions_of_one_question_are_in_its_system_prompt_only(ask: Ask) -> None:
    ask("--instructions 'Answer in Latin.' how many", answer("124"))
    assert "Answer in Latin." in str(sent(ask)[0]["content"])
    ask("and now", answer("124"))
    assert "Answer in Latin." not in str(sent(ask)[0]["content"])


def test_the_models_that_can_be_named_are_listed_and_nothing_is_asked(ask: Ask) -> None:
    listed = repr(ask("--models", answer("124")))
    assert ask.model.asked == []
    assert re.search(r"^script +in this variable$", listed, re.MULTILINE)
    assert re.search(r"^local +the embedded model$", listed, re.MULTILINE)
    assert "anthropic:" in listed


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--system", "use --instructions."),
        ("--max-turns", "use --max-steps."),
        ("--schema", "use --type."),
        ("--reset", "use --new."),
        ("--undo", "use %agent_undo."),
        ("--code", "use %agent_code."),
        ("--key", "use the setting, %config ArchytasNB.api_key"),
        ("--temperature", 'write model=nb.OpenAIModel("…", temperature=…)'),
        ("--list", "it has --model, --models, "),
    ],
)
def test_the_option_of_another_program_leads_to_ours(ask: Ask, option: str, meant: str) -> None:
    with pytest.raises(UsageError) as raised:
        ask(f"{option} x how many", answer("124"))
    assert f"unknown option {option!r}; {meant}" in str(raised.value)
    assert ask.model.asked == []


def test_nothing_is_summed_where_nothing_was_sent(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_requests, "requests", [])
    shown = repr(ask.shell.run_line_magic("agent_history", "--sent"))
    assert shown.startswith("nothing was sent")
    assert "0 requests" not in shown


@pytest.mark.parametrize(
    ("magic", "meant"),
    [
        ("agent_reset", "use %agent --new."),
        ("agent_sent", "use %agent_history --sent."),
        ("agent_redo", "use %agent_undo --redo."),
        ("agent_run", "use %agent_runs."),
        ("agent_xyz", "%agent alone lists all."),
    ],
)
def test_below_the_error_for_an_unknown_magic_is_what_it_may_mean(
    ask: Ask, capsys: pytest.CaptureFixture[str], magic: str, meant: str
) -> None:
    ask.shell.run_cell(f"%{magic} 3")
    assert capsys.readouterr().out.rstrip().endswith(f"%{magic} is not a magic; {meant}")
    ask.shell.run_cell("%xyz\n1 / 0")
    assert "is not a magic" not in capsys.readouterr().out


def test_a_terminal_says_that_it_waits_for_a_question_in_the_background(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns["script"] = ScriptedModel(("final_answer", "Here."))
    run = shell.run_line_magic("agent", "--background --model script Well?")
    assert run.answer == "Here."
    assert "--background needs a notebook" in capsys.readouterr().out
