"""A miss names the first difference: a question, a tool, an outcome, a setting."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.difference import first_difference, text_difference
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import CassetteMiss
from archytas_nb.loop.events import AskModel, ModelReply, WireCall
from archytas_nb.testing import ScriptedModel
from tests.cassettes.tapes import ask, no_model, request


def price(item: str) -> float:
    """Look up a price.

    Args:
        item: What is bought
    """
    return 2.5


def stock(item: str, shop: str = "main") -> int:
    """Count what is in stock.

    Args:
        item: What is counted
        shop: Where
    """
    return 7


def script(protocol: str) -> list[Any]:
    if protocol == "native":
        both = ModelReply(
            calls=(WireCall("price", '{"item": "tea"}'), WireCall("stock", '{"item": "tea"}'))
        )
        return [both, ("final_answer", "2.5 and 7."), ("final_answer", "Yes.")]
    return [
        ("price", {"item": "tea"}),
        ("stock", {"item": "tea"}),
        ("final_answer", "2.5 and 7."),
        ("final_answer", "Yes."),
    ]


def talk(model: Any, tools: list[Any], questions: tuple[str, ...], **settings: Any) -> None:
    agent = nb.Agent(tools, model, namespace={}, **settings)
    for question in questions:
        agent.run(question)


def other(function: Callable[..., Any], doc: str = "", result: Any = None) -> Callable[..., Any]:
    """The same function with a changed docstring, or another result."""

    def changed(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if result is None else result

    changed.__name__, changed.__annotations__ = function.__name__, function.__annotations__
    changed.__doc__ = doc or function.__doc__
    changed.__wrapped__ = function  # type: ignore[attr-defined]
    return changed


def shelf(item: str) -> str:
    """Find the shelf.

    Args:
        item: What is sought
    """
    return "A"


QUESTIONS = ("What does tea cost, and is there any?", "Is that enough?")


CHANGES: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "question": (
        {"questions": ("What does coffee cost?", QUESTIONS[1])},
        "question",
        "",
        "+ What does coffee cost?",
    ),
    "second question": ({"questions": (QUESTIONS[0], "Is it?")}, "question", "", "+ Is it?"),
    "docstring": (
        {
            "tools": [
                price,
                other(stock, doc=(stock.__doc__ or "").replace("Where", "In which shop")),
            ]
        },
        "tool",
        "stock",
        "In which shop",
    ),
    "last line of a docstring": (
        {"tools": [other(price, doc=(price.__doc__ or "").replace("What is bought", "")), stock]},
        "tool",
        "price",
        "What is bought",
    ),
    "another tool": ({"tools": [price, stock, shelf]}, "tools", "shelf", "'shelf' is offered"),
    "a tool less": ({"tools": [price]}, "tools", "stock", "'stock' is no longer"),
    "another order": ({"tools": [stock, price]}, "tools", "", "'stock', 'price'"),
    "outcome": ({"tools": [price, other(stock, result=8)]}, "outcome", "stock", "    - 7"),
    "first outcome": ({"tools": [other(price, result=2.75), stock]}, "outcome", "price", "+ "),
    "instructions": ({"instructions": "Be brief."}, "instructions", "", "+ Be brief."),
    "length": ({}, "settings", "", "max_reply_tokens=916384, but the limit is 16384 now"),
}


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_names_what_has_changed(tmp_path: Path, protocol: Any) -> None:
    path = tmp_path / "x.jsonl"
    live = ScriptedModel(*script(protocol), protocol=protocol)
    talk(CassetteModel(Cassette(path, "record"), lambda: live), [price, stock], QUESTIONS)
    for change, (changed, cause, tool, said) in CHANGES.items():
        settings = {"tools": [price, stock], "questions": QUESTIONS, **changed}
        if change == "length":
            cut = path.read_text().replace('"max_tokens": ', '"max_tokens": 9')
            path.write_text(cut.replace('"reply": {', '"reply": {"finish": "length", '))
        model = CassetteModel(Cassette(path, "replay"), no_model)
        with pytest.raises(CassetteMiss) as caught:
            talk(model, settings.pop("tools"), settings.pop("questions"), **settings)
        assert (change, caught.value.cause, caught.value.tool) == (change, cause, tool)
        assert said in str(caught.value)


def test_after_a_miss_the_next_question_blames_the_conversation(tmp_path: Path) -> None:
    """Also where the questions have other types, and other variables are described below them."""

    def asked(first: str, then: type | None, model: Any) -> None:
        variables: dict[str, Any] = {"a": [1]}
        agent = nb.Agent([stock], model, namespace=variables, context="changed")
        with contextlib.suppress(CassetteMiss):
            agent.run(first, output_type=None if then else int)
        variables["b"] = 2
        agent.run("Enough?", output_type=then)

    for number, protocol, then in ((0, "react", int), (1, "native", int), (2, "native", None)):
        path = tmp_path / f"{number}.jsonl"
        replies = ("final_answer", 7), ("final_answer", 8)
        live = partial(ScriptedModel, *replies, protocol=protocol)  # type: ignore[arg-type]
        asked("How many?", then, CassetteModel(Cassette(path, "record"), live))
        with pytest.raises(CassetteMiss) as caught:
            asked("How much?", then, CassetteModel(Cassette(path, "replay"), no_model))
        assert (caught.value.cause, caught.value.tool) == ("conversation", "")
        assert "2 messages shorter than the recorded one" in str(caught.value)
        assert "an earlier question failed or was not asked" in str(caught.value)


def test_another_reply_limit_is_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    live = ScriptedModel(*script("react"))
    talk(CassetteModel(Cassette(path, "record"), lambda: live), [price, stock], QUESTIONS)
    path.write_text(path.read_text().replace('"max_tokens": 16384', '"max_tokens": 1024'))
    talk(CassetteModel(Cassette(path, "replay"), no_model), [price, stock], QUESTIONS)
    talk(
        CassetteModel(Cassette(path, "replay"), no_model),
        [price, stock],
        QUESTIONS,
        max_reply_tokens=500,
    )


def test_a_limit_that_is_reached_at_another_step_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    calls = [("stock", {"item": "tea"}), ("stock", {"item": "coffee"})]
    live = ScriptedModel(*calls, ("final_answer", "7 each."))
    talk(
        CassetteModel(Cassette(path, "record"), lambda: live), [stock], ("How many?",), max_steps=2
    )
    with pytest.raises(CassetteMiss) as caught:
        talk(
            CassetteModel(Cassette(path, "replay"), no_model), [stock], ("How many?",), max_steps=1
        )
    assert caught.value.cause == "settings"
    assert "max_steps=1" in str(caught.value)


def test_another_output_type_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    live = ScriptedModel(("final_answer", 7), protocol="react")
    nb.Agent([stock], CassetteModel(Cassette(path, "record"), lambda: live)).run(
        "How many?", output_type=int
    )
    with pytest.raises(CassetteMiss) as caught:
        nb.Agent([stock], CassetteModel(Cassette(path, "replay"), no_model)).run(
            "How many?", output_type=float
        )
    assert caught.value.cause in ("settings", "instructions", "question")
    assert "final_answer" in str(caught.value) or "number" in str(caught.value)


def test_differences_in_model_message_and_length() -> None:
    found = first_difference(request(ask("a"), model="big"), request(ask("a")))
    assert found.cause == "settings"
    assert "'big' now, but 'default'" in found.text

    def asked(call_id: str) -> Any:
        function = {"name": "f", "arguments": "{}"}
        said = {"role": "assistant", "tool_calls": [{"id": call_id, "function": function}]}
        return request(AskModel(1, (said, {"role": "user", "content": "b"})))

    found = first_difference(asked("1"), asked("2"))
    assert (found.cause, found.diff) == ("conversation", "  message 1")
    for earlier in ("a", "c"):  # the beginning is the same, or the end, as after a failed question
        found = first_difference(request(ask(earlier)), request(ask("a", "b", "c")))
        assert found.cause == "conversation"
        assert "2 messages shorter than the recorded one" in found.text


TEXTS = st.text(max_size=30)


SCHEMAS = st.none() | st.recursive(
    TEXTS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2)
)


SPECS = st.lists(
    st.builds(lambda name, text: {"function": {"name": name, "description": text}}, TEXTS, TEXTS),
    max_size=2,
)


REQUESTS = st.builds(
    lambda texts, tools, schema, most, model: request(
        ask(*texts, tools=tuple(tools), schema=schema, max_tokens=most), model=model
    ),
    st.lists(TEXTS | st.just("Outcome of f (done):\n1"), max_size=4),
    SPECS,
    SCHEMAS,
    st.none() | st.integers(1, 9),
    st.sampled_from(["default", "other"]),
)


@given(REQUESTS, REQUESTS)
def test_explains_any_two_requests_that_differ(one: Any, two: Any) -> None:
    """It is in one sentence, and the error is never lost in explaining itself."""
    if one.key != two.key:
        found = first_difference(one, two)
        assert found.text
        assert "\n" not in found.text


def test_a_diff_shows_changed_added_and_removed_lines_and_cuts_long_ones() -> None:
    assert text_difference("a\nb\nc", "a\nB\nc") == (
        1, ", line 2, character 1", "    - b\n    + B"
    )  # fmt: skip
    assert text_difference("a\nc", "a\nb\nc")[2] == "    + b"
    assert text_difference("a\nb\nc", "a\nc")[2] == "    - b"
    before, after = ("x" * 500 + each + "y" * 500 for each in ("one", "two"))
    _, where, lines = text_difference(before, after)
    assert where == ", line 1, character 501"
    old, new = lines.split("\n")
    assert ("xone" in old, "xtwo" in new, max(len(old), len(new)) < 110) == (True, True, True)


@given(st.text(alphabet="ab\n", max_size=60), st.text(alphabet="ab\n", max_size=60))
def test_diffs_are_short(before: str, after: str) -> None:
    lines = text_difference(before, after)[2]
    assert (lines == "") == (before == after)
    assert lines.count("\n") < 12
