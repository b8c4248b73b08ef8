"""The probability of an option is that of the tokens that decide for it, whatever the tokens are."""

from __future__ import annotations

import copy
import itertools
import json
import math
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from archytas_nb import Agent, Tool
from archytas_nb.loop.events import ModelReply, Notice, Token
from archytas_nb.loop.odds import agreement, chosen_odds, odds_of, options_in
from archytas_nb.testing import ScriptedModel

SHARES = st.floats(0.001, 1.0)


def written(text: str, cuts: list[int]) -> list[str]:
    """A text as tokens."""
    places = [0, *sorted({each % (len(text) + 1) for each in cuts} - {0, len(text)}), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places)]


@st.composite
def replies(draw: st.DrawFn) -> tuple[list[str], dict[str, float], str, list[Token]]:
    """Options with probabilities, the one that was chosen, and the reply of such a model.

    The model writes an option from its own beginning to its end, each cut into tokens in one way:
    so the probability of a token is that of all options that have it there.
    """
    options = draw(st.lists(st.text("abc", min_size=1, max_size=6), min_size=2, unique=True))
    weights = [draw(SHARES) for _ in options]
    odds = {each: w / sum(weights) for each, w in zip(options, weights, strict=True)}
    cuts = draw(st.lists(st.integers(0, 20)))
    before = draw(st.sampled_from(['{"answer": ', "answer(", ""]))
    texts = {each: [before, *written(f'"{each}"', cuts)] for each in options}
    chosen = draw(st.sampled_from(options))
    tokens = []
    alive = list(options)
    for at, text in enumerate(texts[chosen]):
        found: dict[str, float] = {}
        for each in alive:
            other = texts[each][at] if at < len(texts[each]) else ""
            found[other] = found.get(other, 0.0) + odds[each]
        total = sum(found.values())
        tokens.append(Token(text, tuple((t, w / total * 0.9) for t, w in found.items() if t)))
        alive = [e for e in alive if at < len(texts[e]) and texts[e][at] == text]
    return options, odds, chosen, [each for each in tokens if each.text]


@given(replies())
def test_odds_are_those_of_the_model(case: Any) -> None:
    options, odds, chosen, tokens = case
    # Only where tokens are no beginnings of others is it known which option they decide for.
    seen = [text for each in tokens for text, _ in each.alternatives]
    assume(not any(a != b and b.startswith(a) for a in seen for b in seen))
    found = odds_of({"enum": options}, chosen, tokens)["answer"]
    assert found.keys() == odds.keys()
    assert found[chosen] == pytest.approx(odds[chosen], abs=1e-6)


@given(replies())
def test_odds_are_probabilities(case: Any) -> None:
    options, _, chosen, tokens = case
    found = odds_of({"enum": options}, chosen, tokens)["answer"]
    assert math.fsum(found.values()) == pytest.approx(1)
    assert all(0 <= each <= 1 for each in found.values())


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ({"enum": ["a", "b"]}, {"answer": ("a", "b")}),
        ({"type": "boolean"}, {"answer": (True, False)}),
        ({"type": "integer", "minimum": 1, "exclusiveMaximum": 4}, {"answer": (1, 2, 3)}),
        ({"anyOf": [{"const": "a"}, {"type": "null"}]}, {"answer": ("a", None)}),
        ({"properties": {"x": {"type": "boolean"}, "y": {"type": "string"}}}, {"x": (True, False)}),
        ({"type": "integer"}, {}),
        ({"type": "integer", "minimum": 0, "maximum": 10**9}, {}),
        ({"type": "string"}, {}),
        ({"const": "a"}, {}),
        (None, {}),
    ],
)
def test_options_are_read_from_the_schema(schema: Any, options: Any) -> None:
    assert options_in(schema) == options


def test_a_number_ends_where_no_digit_follows() -> None:
    tokens = [
        Token("answer("),
        Token("1", (("1", 0.6), ("2", 0.2), ("7", 0.2))),
        Token(")", ((")", 0.5), ("0", 0.25), ("2", 0.25))),
    ]
    schema = {"type": "integer", "minimum": 1, "maximum": 12}
    found = odds_of(schema, 1, tokens)["answer"]
    assert {name: share for name, share in found.items() if share} == pytest.approx(
        {"1": 0.3, "2": 0.2, "7": 0.2, "10": 0.15, "12": 0.15}
    )


def test_each_field_has_its_own_odds() -> None:
    texts = ['{"spam": ', "true", ', "mood": "', "good", '"}']
    odds = {"true": (("true", 0.7), ("false", 0.3)), "good": (("good", 0.2), ("bad", 0.05))}
    tokens = [Token(each, odds.get(each, ((each, 1.0),))) for each in texts]
    schema = {"properties": {"spam": {"type": "boolean"}, "mood": {"enum": ["good", "bad"]}}}
    answer = json.loads("".join(texts))
    found = odds_of(schema, answer, tokens)
    assert chosen_odds(schema, answer, found) == pytest.approx({"spam": 0.7, "mood": 0.8})


@given(st.lists(st.sampled_from(["a", "b", "c", "no option"]), max_size=9))
def test_agreement_is_the_share_of_equal_answers(others: list[str]) -> None:
    votes = ["a", *(each for each in others if each != "no option")]
    found = agreement({"enum": ["a", "b", "c"]}, "a", others)["answer"]
    assert found == pytest.approx({each: votes.count(each) / len(votes) for each in "abc"})


Mood = Literal["good", "bad"]


def told(answer: str, share: float) -> ModelReply:
    """A reply of a model whose endpoint tells alternatives."""
    other = "bad" if answer == "good" else "good"
    pair = ((answer, share), (other, 1 - share))
    begin = '{"thought": "", "tool": "final_answer", "tool_input": "'
    tokens = (Token(begin), Token(answer, pair), Token('"}'))
    return ModelReply("".join(each.text for each in tokens), tokens=tokens)


def test_a_run_leaves_out_what_is_unsure() -> None:
    model = ScriptedModel(told("good", 0.7), told("good", 0.7))
    agent = Agent([], model)
    sure = agent.run("?", output_type=Mood, unsure=0.6)
    unsure = agent.run("?", output_type=Mood, unsure=0.8)
    assert (sure.status, sure.output) == ("answered", "good")
    assert (unsure.status, unsure.output, unsure.answer) == ("unsure", None, "good")
    assert unsure.confidence == pytest.approx(0.7)
    assert len(model.asked) == 2


def test_where_nothing_is_told_the_model_is_asked_again() -> None:
    model = ScriptedModel(("final_answer", "good"), '"good"', '"bad"', "good", "nonsense")
    run = Agent([], model).run("?", output_type=Mood, unsure=0)
    assert run.odds == {"answer": {"good": 0.75, "bad": 0.25}}
    assert run.usage.requests == 5


def test_without_it_nothing_more_is_asked_or_told() -> None:
    model = ScriptedModel(told("good", 0.7))
    run = Agent([], model).run("?", output_type=Mood)
    assert (run.confidence, run.odds, model.asked[0].alternatives) == (None, {}, 0)


def test_another_model_answers_what_is_unsure() -> None:
    large = ScriptedModel(("final_answer", "bad"))
    agent = Agent([], ScriptedModel(told("good", 0.7)))
    run = agent.run("?", output_type=Mood, unsure=0.9, then=large)
    assert (run.output, len(agent.exchanges)) == ("bad", 1)


@pytest.mark.parametrize(
    ("kind", "unsure"), [(str, 0.5), (int, 0.5), (None, 0.5), (Mood, 2), (Mood, "high")]
)
def test_a_wrong_threshold_or_type_costs_nothing(kind: Any, unsure: Any) -> None:
    model = ScriptedModel()
    with pytest.raises(ValueError, match="unsure"):
        Agent([], model).run("?", output_type=kind, unsure=unsure)
    assert model.asked == []


STEPS = st.lists(st.sampled_from(["append", "pop", "rebind", "new", "inside"]), max_size=6)


@settings(deadline=None)
@given(STEPS)
def test_the_other_model_starts_from_the_state_before_the_first(steps: list[str]) -> None:
    names: dict[str, Any] = {"rows": [1, 2, [3]], "n": 0}
    before = copy.deepcopy(names)
    seen: list[dict[str, Any]] = []

    def change(how: str) -> str:
        """Change a variable."""
        match how:
            case "append":
                names["rows"].append(4)
            case "pop":
                names["rows"][:1] = []
            case "rebind":
                names["n"] += 1
            case "new":
                names["made"] = 1
            case "inside":
                names["rows"][-1] = ["inside"]
        return f"{how} {len(names['rows'])}"

    def look() -> str:
        """Look at the variables."""
        seen.append(copy.deepcopy(names))
        return "seen"

    first = ScriptedModel(*[("change", {"how": each}) for each in steps], told("good", 0.6))
    other = ScriptedModel(("look", {}), ("final_answer", "bad"))
    tools = [Tool.from_function(change, repeat=True), look]
    agent = Agent(tools, first, namespace=names, context="none", max_steps=20)
    run = agent.run("?", output_type=Mood, unsure=0.9, then=other)
    assert run.output == "bad"
    assert seen == [before]
    assert len(agent.exchanges) == 1
    assert "Another model" not in str(other.asked[-1].messages)


def test_the_other_model_is_told_what_could_not_be_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sent: list[str] = []
    path = Path("note.txt")

    def send() -> str:
        """Send a mail, and note it in a file."""
        sent.append("mail")
        path.write_text("sent")
        return "sent"

    def ask(undo: bool | None) -> tuple[Any, str]:
        first = ScriptedModel(("send", {}), told("good", 0.6))
        other = ScriptedModel(("final_answer", "bad"))
        more: dict[str, Any] = {} if undo is None else {"undo": undo}
        agent = Agent([send], first, namespace={}, context="none", **more)
        run = agent.run("?", output_type=Mood, unsure=0.9, then=other)
        return run, str(other.asked[-1].messages)

    _, read = ask(None)
    assert not path.exists()
    assert "Another model" not in read
    run, read = ask(False)
    assert "could not be undone: the changes of this question" in read
    assert any(isinstance(each, Notice) and each.kind == "told" for each in run.events)
