"""Many tools: the model reads of those that fit, finds the others, and each request extends the one before."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.agent import Agent
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.tokens import json_tokens, message_tokens
from archytas_nb.magics.dry_run import dry_run
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.search import FOUND, best
from archytas_nb.tools.toolbox import Toolbox
from tests.test_append_only import extends

TOPICS = [
    "invoice", "weather", "flight", "recipe", "patient", "galaxy", "protein", "traffic", "auction", "concert",
    "library", "volcano", "currency", "election", "satellite", "garden", "museum", "insurance", "podcast", "bridge",
]  # fmt: skip
ACTIONS = ["count", "delete", "rename", "merge", "export"]


def function(topic: str, action: str) -> Callable[..., str]:
    def made(key: str) -> str:
        return f"{action} {topic} {key}"

    made.__name__ = f"{action}_{topic}"
    made.__doc__ = f"{action.capitalize()} one {topic}.\n\nArgs:\n    key: Which {topic}"
    return made


@functools.cache
def tools() -> Toolbox:
    return Toolbox(*(function(topic, action) for topic in TOPICS for action in ACTIONS))


def sent(model: ScriptedModel, at: int) -> str:
    request = model.asked[at]
    return json.dumps([*request.messages, *(request.tools or ())], ensure_ascii=False)


def named(text: str) -> set[str]:
    return {name for name in tools() if name in text}


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_what_fits_is_described_and_what_is_found_stays(protocol: Any) -> None:
    model = ScriptedModel(
        ("count_volcano", {"key": "a"}), ("find_tools", {"what": "delete an invoice"}),
        ("delete_invoice", {"key": "b"}), ("final_answer", "Done."),
        ("delete_invoice", {"key": "c"}), ("final_answer", "Again."), protocol=protocol,
    )  # fmt: skip
    agent = Agent(tools(), model, namespace={})
    run = agent.run("Count the volcano, and then do what the letter says.")
    assert [call.name for call, _ in run.calls] == ["count_volcano", "find_tools", "delete_invoice"]
    assert [outcome.status for _, outcome in run.calls] == ["done"] * 3
    assert "count_volcano" in sent(model, 0)
    assert len(named(sent(model, 0))) == FOUND
    assert "delete_invoice" not in sent(model, 1)
    assert "delete_invoice" in sent(model, 2)
    agent.run("And once more for c.")
    assert "delete_invoice" in sent(model, 4)
    for before, after in zip(model.asked, model.asked[1:], strict=False):
        assert extends(before, after)


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_only_what_is_described_or_found_may_be_written(protocol: Any) -> None:
    model = ScriptedModel(
        ("find_tools", {"what": "delete an invoice"}), ("final_answer", "Done."), protocol=protocol
    )
    Agent(tools(), model, namespace={}).run("Count the volcano.")
    for at, are_there in enumerate((False, True)):
        request = model.asked[at]
        allowed = json.dumps(request.tools if protocol == "native" else request.schema)
        assert ("delete_invoice" in allowed) is are_there
        assert "count_volcano" in allowed
        assert "delete_podcast" not in allowed


def test_a_program_reads_the_declarations_of_what_it_finds_and_may_call_all() -> None:
    model = ScriptedModel(
        "show(await find_tools(what='delete an invoice'))", "answer(await delete_invoice(key='b'))",
        protocol="program",
    )  # fmt: skip
    run = Agent(tools(), model, namespace={}).run("Do what the letter says about a volcano.")
    assert run.answer == "delete invoice b"
    assert "delete_invoice" not in sent(model, 0)
    assert "delete_invoice(key: str)" in sent(model, 1).replace("\\", "")


def test_a_small_model_gets_what_fits_and_no_search() -> None:
    class Small(ScriptedModel):
        is_small = True

    model = Small(
        "yes", ("delete_invoice", {"key": "b"}), ("final_answer", "Done: delete invoice b")
    )
    run = Agent(tools(), model, namespace={}).run("Delete the invoice b.")
    assert run.answer == "Done: delete invoice b"
    assert {*run.tools} >= {"delete_invoice"}
    assert len(named(sent(model, 1))) <= FOUND
    assert "find_tools" not in sent(model, 1)


def test_few_tools_and_none_as_the_setting_describe_all() -> None:
    for given_tools, setting in ((Toolbox(*[*tools().values()][:20]), 20), (tools(), None)):
        model = ScriptedModel(("final_answer", "Done."), protocol="native")
        Agent(given_tools, model, namespace={}, max_tools=setting).run("Count the volcano.")
        assert "find_tools" not in sent(model, 0)
        assert len(named(sent(model, 0))) == len(given_tools)


def test_a_hundred_tools_cost_a_tenth() -> None:
    costs = []
    for setting in (None, 20):
        model = ScriptedModel(("final_answer", "Done."), protocol="native")
        Agent(tools(), model, namespace={}, max_tools=setting).run("Count the volcano.")
        [request] = model.asked
        costs.append(message_tokens(request.messages) + json_tokens(request.tools))
    assert costs[1] * 5 < costs[0]


def test_a_tool_of_the_user_with_the_name_is_told() -> None:
    def find_tools(what: str) -> str:
        """Mine."""
        return what

    with pytest.raises(ConfigurationError, match="max_tools=None"):
        Agent(Toolbox(tools(), find_tools), ScriptedModel("x")).run("Why?")


def test_nothing_that_fits_is_said_and_an_unknown_tool_names_no_hundred() -> None:
    model = ScriptedModel(
        ("find_tools", {"what": "zzz"}), ("count_zzz", {}), ("final_answer", "Nothing."),
        protocol="native",
    )  # fmt: skip
    run = Agent(tools(), model, namespace={}).run("Count the volcano.")
    assert "other words" in run.calls[0][1].text
    assert len(run.calls[1][1].text) < 2000


@given(
    st.sampled_from(TOPICS),
    st.sampled_from(ACTIONS),
    st.sampled_from(["{a}s of a {t}", "{t}: {a}", "{a}s the {t}s"]),
)
def test_words_find_a_tool_whatever_their_endings(topic: str, action: str, form: str) -> None:
    assert best(tools(), form.format(t=topic, a=action))[0] == f"{action}_{topic}"


@given(st.text(max_size=200), st.integers(1, 8))
def test_a_search_finds_names_of_tools_each_once(what: str, most: int) -> None:
    found = best(tools(), what, most)
    assert len(found) == len({*found} & {*tools()}) <= most


def test_languages_without_spaces_and_names_of_several_words() -> None:
    def getHTTPWeather() -> str:
        """天気予報を調べる。"""
        return ""

    box = Toolbox(tools(), getHTTPWeather)
    assert best(box, "明日の天気予報は?")[0] == "getHTTPWeather"
    assert "getHTTPWeather" in best(box, "weather over http")


def test_what_a_search_returns_is_no_code_of_the_run() -> None:
    model = ScriptedModel(
        ("find_tools", {"what": "delete an invoice"}), ("delete_invoice", {"key": "b"}),
        ("final_answer", "delete invoice b"), protocol="native",
    )  # fmt: skip
    run = Agent(tools(), model, namespace={}).run("Do what the letter says.")
    assert "find_tools" not in run.code()
    assert "delete_invoice" in run.code()


def test_values_that_stay_do_not_hide_what_a_search_finds() -> None:
    model = ScriptedModel(
        ("find_tools", {"what": "delete an invoice"}), ("final_answer", "Done."), protocol="native"
    )
    Agent(tools(), model, namespace={}, values="none", protocol="native").run("A volcano.")
    assert "delete_invoice" in sent(model, 1)


def test_a_dry_run_tells_what_is_described_and_how_many_there_are_to_find() -> None:
    agent = Agent(tools(), ScriptedModel("x", protocol="native"), namespace={})
    shown = dict(dry_run(agent.prepared("Count the volcano.")).facts)["tools"]
    assert "count_volcano" in shown
    assert "delete_invoice" not in shown
    assert "and 95 to find" in shown


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_what_was_found_stays_in_a_saved_conversation(protocol: Any, tmp_path: Path) -> None:
    model = ScriptedModel(
        ("find_tools", {"what": "delete an invoice"}), ("final_answer", "Done."),
        ("delete_invoice", {"key": "c"}), ("final_answer", "Again."), protocol=protocol,
    )  # fmt: skip
    agent = Agent(tools(), model, namespace={})
    agent.run("Do what the letter says.")
    agent.save(tmp_path / "talk.json")
    other = Agent(tools(), model, namespace={})
    other.load(tmp_path / "talk.json")
    other.run("And once more.")
    request = model.asked[2]
    assert "delete_invoice" in json.dumps(request.tools if protocol == "native" else request.schema)
    assert extends(model.asked[1], request)
