"""A plan before a run: what is read as one, who approves it, and what ticks off its steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb import Agent, RunInterrupted, TaskFailed, Tool
from archytas_nb.loop import events as ev
from archytas_nb.loop.plan_first import (
    MAX_STEPS,
    PlanStep,
    Progress,
    plan_in,
    read_plan,
    text_of,
)
from archytas_nb.testing import ScriptedModel
from tests.scripted import Scripted

words = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).map(
    lambda text: " ".join(text.replace("|", "").split())
)


def count_rows(table: str) -> int:
    """Count the rows of a table.

    Args:
        table: Its name
    """
    return len(table)


def total(column: str) -> int:
    """Add up a column.

    Args:
        column: Its name
    """
    return 2 * len(column)


TOOLS = ("count_rows", "total")


def plan(*steps: tuple[str, ...]) -> str:
    """A reply with a plan."""
    names = ("what", "tool", "check")
    return json.dumps({"steps": [dict(zip(names, each, strict=False)) for each in steps]})


TWO = plan(
    ("Count the rows", "count_rows", "above 0"),
    ("Add up the prices", "total"),
    ("Compare them", ""),
)
REPLY = ev.ModelReply(TWO, usage=ev.Usage(requests=1))
CALLS = (
    ("count_rows", {"table": "sales"}),
    ("total", {"column": "price"}),
    ("final_answer", "5 and 10."),
)


def asked(monkeypatch: pytest.MonkeyPatch, person: Scripted, *replies: Any, **options: Any) -> Any:
    """Ask with a plan; returns the run and the model."""
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
    model = ScriptedModel(*replies)
    agent = Agent([count_rows, total], model, namespace={}, context="none", **options)
    run = agent.run("How many sales, and what total?", plan=True, progress=False)
    model.check()
    return run, model


def notices(run: Any, kind: str) -> list[str]:
    return [each.text for each in run.events if isinstance(each, ev.Notice) and each.kind == kind]


# ── a plan as text ────────────────────────────────────────────────────────────────────────────────

steps = st.builds(PlanStep, words.filter(bool), st.sampled_from(["", *TOOLS]), words)


@given(st.lists(steps, min_size=1, max_size=MAX_STEPS))
def test_a_plan_that_is_written_as_text_is_read_as_the_same(made: list[PlanStep]) -> None:
    numbered = text_of([PlanStep(f"1. {each.what}", each.tool, each.check) for each in made])
    expected = [(each.what, each.tool, each.check) for each in made]
    found = read_plan(numbered, TOOLS)
    assert [(each.what, each.tool, each.check) for each in found] == expected


@given(st.lists(st.text("a1.)| \t/") | st.sampled_from(["by 1.5", "1. 2) 3.5", "1."]), max_size=4))
def test_an_approved_plan_is_the_one_of_the_model(whats: list[str]) -> None:
    reply = ev.ModelReply(json.dumps({"steps": [{"what": each, "tool": ""} for each in whats]}))
    try:
        found = plan_in(reply, TOOLS)
    except ValueError:
        return
    assert text_of(read_plan(text_of(found), TOOLS)) == text_of(found)
    for step, what in zip(found, whats, strict=True):
        assert " ".join(what.split()).endswith(step.what)


def test_only_the_number_before_a_step_is_no_part_of_it() -> None:
    found = read_plan("1. Multiply by 1.5\n2) 2.5 % of 10) rows", TOOLS)
    assert [each.what for each in found] == ["Multiply by 1.5", "2.5 % of 10) rows"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no step"),
        ("look | nothing_such", "nothing_such"),
        ("| total", "step 1"),
        ("a | total | b | c", "4 parts"),
        ("\n".join(["x"] * 11), "11 steps"),
    ],
)
def test_a_text_that_is_no_plan_says_where(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        read_plan(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        f"```json\n{TWO}\n```",
        f"Here is my plan:\n{TWO}\nShall I begin?",
        TWO.replace('"', "'"),
        json.dumps({"tool": "final_answer", "tool_input": TWO}),
        f"<think>First I {{count}}.</think>{TWO}",
    ],
)
def test_a_plan_is_read_as_models_write_it(text: str) -> None:
    found = plan_in(ev.ModelReply(text), TOOLS)
    assert [each.tool for each in found] == ["count_rows", "total", ""]


@given(
    st.text()
    | st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["steps", "what", "tool"]), inner)
        ),
    ).map(json.dumps)
)
def test_anything_else_is_a_fault_and_no_error(text: str) -> None:
    try:
        found = plan_in(ev.ModelReply(text), TOOLS)
    except ValueError:
        return
    assert 0 < len(found) <= MAX_STEPS


# ── progress ──────────────────────────────────────────────────────────────────────────────────────


@given(
    st.lists(st.sampled_from(["", *TOOLS]), min_size=1, max_size=6),
    st.lists(st.sampled_from([*TOOLS, "other"]), max_size=8),
)
def test_each_step_is_ticked_off_or_told_once_and_in_order_there_is_no_deviation(
    planned: list[str], called: list[str]
) -> None:
    made = tuple(PlanStep(f"s{n}", tool) for n, tool in enumerate(planned))
    progress = Progress(made)
    told = [each for name in called for each in progress.called(name)]
    told += progress.ended()
    ticked = [each.text for each in told if each.kind == "plan"]
    left = [each.text for each in told if each.kind == "deviation" and "left out" in each.text]
    assert len(ticked) == len(set(ticked))
    assert len(ticked) + len(left) == len(made)
    for name, tool in zip(range(len(made)), planned, strict=True):
        if tool and tool not in called:
            assert any(each.endswith(f"s{name}") for each in left)
    ordered = [each for each in planned if each]
    if called == ordered:
        assert not [each for each in told if each.kind == "deviation"]
    if "other" in called:
        assert any("other" in each.text for each in told if each.kind == "deviation")


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_approved_plan_is_carried_out_and_ticked_off(monkeypatch) -> None:
    person = Scripted("y")
    run, model = asked(monkeypatch, person, REPLY, *CALLS)
    assert run.answer == "5 and 10."
    assert "Count the rows | count_rows | above 0" in person.prompts[0]
    first, *later = model.asked
    assert first.is_side_request
    assert "Do not begin yet" in str(first.messages[-1]["content"])
    for request in later:  # the messages hold the plan, and not the request for it
        assert "1. Count the rows" in str(request.messages)
        assert "Do not begin yet" not in str(request.messages)
    done = notices(run, "plan")[1:]
    assert [each.partition(":")[0] for each in done] == [
        "step 1 of 3 is done", "step 2 of 3 is done", "step 3 of 3 is done",
    ]  # fmt: skip
    assert notices(run, "deviation") == []
    assert run.usage.requests == 4
    assert [call.name for call, _ in run.calls] == list(TOOLS)


def test_an_edited_plan_is_the_one_that_is_carried_out(monkeypatch) -> None:
    edits = [
        'steps = "Count the rows | nothing_such"',
        "y",
        'steps = "Count only | count_rows"',
        "y",
    ]
    person = Scripted(*edits)
    run, model = asked(monkeypatch, person, REPLY, CALLS[0], ("final_answer", "5."))
    assert "nothing_such" in person.prompts[2]  # why it was asked again
    assert "1. Count only – calls count_rows" in str(model.asked[1].messages)
    assert "calls total" not in str(model.asked[1].messages[-1]["content"])
    assert notices(run, "deviation") == []


def test_a_refused_plan_is_written_again_with_the_reason(monkeypatch) -> None:
    one = ev.ModelReply(plan(("Count the rows", "count_rows")))
    person = Scripted("count only, no total", "y")
    run, model = asked(monkeypatch, person, REPLY, one, CALLS[0], ("final_answer", "5."))
    assert "count only, no total" in str(model.asked[1].messages[-1]["content"])
    assert model.asked[1].messages[-2]["content"] == TWO
    assert notices(run, "plan")[0].count("\n") == 1


@pytest.mark.parametrize("answer", ["n", "stop", KeyboardInterrupt])
def test_a_plan_that_is_refused_or_stopped_runs_nothing(monkeypatch, answer: Any) -> None:
    made: list[str] = []
    person = Scripted(answer)
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
    model = ScriptedModel(REPLY)
    tool = Tool.from_function(lambda: made.append("x"), "count_rows")
    agent = Agent([tool, total], model, namespace={}, context="none")
    with pytest.raises(RunInterrupted) as error:
        agent.run("How many?", plan=True, progress=False)
    assert made == []
    assert len(model.asked) == 1
    assert isinstance(error.value.run.ending, ev.Interrupted)
    assert agent.exchanges == []


def test_deviations_are_told(monkeypatch) -> None:
    only = ev.ModelReply(plan(("Count the rows", "count_rows"), ("Count again", "count_rows")))
    run, _ = asked(monkeypatch, Scripted("y"), only, CALLS[1], CALLS[0], ("final_answer", "5."))
    assert notices(run, "deviation") == [
        "not in the plan: a call of total",
        "step 2 was left out: Count again",
    ]


def test_calls_in_the_place_of_a_plan_are_never_run(monkeypatch) -> None:
    call = ev.ModelReply(calls=(ev.WireCall("total", '{"column": "x"}'),))
    person = Scripted("y")
    model = ScriptedModel(
        call, REPLY,
        *(ev.ModelReply(calls=(ev.WireCall(name, json.dumps(given)),)) for name, given in CALLS[:2]),
        "5 and 10.", protocol="native",
    )  # fmt: skip
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
    agent = Agent([count_rows, total], model, namespace={}, context="none")
    run = agent.run("How many sales?", plan=True, progress=False)
    assert [call.name for call, _ in run.calls] == list(TOOLS)
    assert run.answer == "5 and 10."


def test_a_model_that_writes_no_plan_ends_the_run(monkeypatch) -> None:
    with pytest.raises(TaskFailed, match="no plan"):
        asked(monkeypatch, Scripted(), "Sure!", "Sure!", "Sure!")


@pytest.mark.parametrize("options", [{"approve": "auto"}, {"approve": "deny"}, {}])
def test_where_nobody_is_asked_the_plan_is_carried_out(monkeypatch, options) -> None:
    run, _ = asked(monkeypatch, Scripted(there=bool(options)), REPLY, *CALLS, **options)
    assert run.answer == "5 and 10."
    assert len(notices(run, "plan")) == 4


def test_a_policy_of_the_user_decides_about_the_plan(monkeypatch) -> None:
    seen: list[Any] = []

    def policy(tool: Any, call: ev.ToolCall) -> str:
        seen.append(call.input)
        return "too long" if "total" in str(call.input.get("steps", "")) else ""

    one = ev.ModelReply(plan(("Count the rows", "count_rows")))
    run, model = asked(
        monkeypatch, Scripted(), REPLY, one, CALLS[0], ("final_answer", "5."), approve=policy
    )
    assert "too long" in str(model.asked[1].messages[-1]["content"])
    assert run.answer == "5."


def test_with_hidden_values_a_plan_works_as_well(monkeypatch) -> None:
    person = Scripted("y")
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
    model = ScriptedModel(REPLY, *CALLS)
    agent = Agent([count_rows, total], model, "react", namespace={}, values="none", python="off")
    run = agent.run("How many sales?", plan=True, progress=False)
    assert notices(run, "plan")[1].startswith("step 1 of 3")
    assert "1. Count the rows" in str(model.asked[-1].messages)
