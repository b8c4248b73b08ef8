"""Each piece that can be taken away is one that does something, and it is back afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest

import archytas_nb as nb
from archytas_nb.loop.events import AskModel
from archytas_nb.models.embedded import model as embedded
from archytas_nb.testing import ScriptedModel
from benchmarks.success.ablations import PIECES, ablated, names_of_tasks
from benchmarks.success.task import KINDS, REGISTRY

OF_THE_ENGINE = ("chance", "penalty-1.1", "cold-1", "cold-2")
OF_PROGRAMS = (
    "lines", "whole", "program-grammar", "line-names", "program-check", "call-memory", "program-note"
)  # fmt: skip


class Small(ScriptedModel):
    """A scripted model that is taken for a small one."""

    is_small = True

    def complete(self, ask: AskModel) -> Any:
        """Note what is asked beforehand, too, and leave out the seconds: they differ from run to run."""
        self.heard = [*getattr(self, "heard", ()), replace(ask, seconds=None)]
        return super().complete(ask)


def count(thing: str, unit: Literal["kg", "crate"] = "kg") -> int:
    """Say how much is left.

    Args:
        thing: What
        unit: In what
    """
    stock = {"pears": 4, "apples": 17}
    if thing not in stock:
        raise ValueError(f"no {thing!r}; expected one of {list(stock)}")
    return stock[thing]


def requests() -> list[AskModel]:
    """The requests to a small model that names a thing wrongly, repeats itself and makes up a number."""
    calls = [("count", {"thing": each}) for each in ("pear", "pears", "pears", "apples", "pears")]
    model = Small(
        *calls, *[("final_answer", "1234 pears.")] * 4
    )  # not every one of them is asked for
    nb.Agent([count], model=model, namespace={}).run(
        "Which is more numerous, the pears or the apples?"
    )
    return model.heard


class Writer(Small):
    """A small model that writes programs, the first one line by line."""

    continues_replies = True
    has_grammars = True


def of_programs() -> tuple[list[AskModel], int]:
    """The requests to one that misspells a name and divides by zero, and the calls of the tool."""
    script = [
        "pears = count(thing='pears')",
        "apples = cuont(thing='apples')",
        "```python\npears = count(thing='pears')\npears / 0\n```",
        *["answer('1234 pears.')"] * 3,
    ]
    model = Writer(*script, protocol="program")
    called: list[str] = []

    def counting(thing: str) -> int:
        """Say how much is left.

        Args:
            thing: What
        """
        called.append(thing)
        return count(thing)

    counting.__name__ = "count"
    agent = nb.Agent([counting], model=model, namespace={}, context="none")
    agent.run("How many pears are there?")
    return model.heard, len(called)


def test_taking_a_piece_of_programs_away_changes_what_is_asked_or_called() -> None:
    whole = of_programs()
    for name in OF_PROGRAMS:
        with ablated([name]):
            assert of_programs() != whole, name
        assert of_programs() == whole, name


def test_taking_a_piece_away_changes_what_a_model_is_asked_until_it_is_back() -> None:
    whole = requests()
    for name in PIECES:
        if name in OF_THE_ENGINE or name in OF_PROGRAMS:
            continue
        with ablated([name]):
            assert requests() != whole, name
        assert requests() == whole, name


def everything(asked: list[AskModel]) -> str:
    """All that is sent, as one text."""
    return json.dumps([[request.messages, request.schema] for request in asked], ensure_ascii=False)


@pytest.mark.parametrize(
    ("piece", "gone", "kept"),
    [
        ("grammar", '"oneOf"', "It gave no result"),
        ("values", '"enum"', '{"const": "count"}'),
        ("thought-bound", "maxLength", '"thought": {"type": "string"}'),
        ("thought", "thought", '"tool_input"'),
        ("example", "warmth_of", "These are your tools"),
        ("rules", "- If you know", "warmth_of"),
        ("text", "count:\\n    Say how much", '\\"parameters\\"'),
        ("fit", "You judge whether a tool fits", "You were told nothing that contains 1234"),
        ("end-check", "You were told nothing that contains 1234", "You made this very call before"),
        (
            "repetition",
            "You made this very call before, and it was not made again",
            "You were told nothing that contains 1234",
        ),
    ],
)
def test_a_piece_is_taken_away_alone(piece: str, gone: str, kept: str) -> None:
    whole = everything(requests())
    with ablated([piece]):
        without = everything(requests())
    assert gone in whole
    assert gone not in without
    assert kept in without


def test_chance_is_taken_away_and_given_as_it_is_said() -> None:
    said = {"role": "assistant", "content": "{}"}
    same, new = AskModel(1, (said, said)), AskModel(1, (said,))
    assert (embedded.temperature_for(same), embedded.temperature_for(new)) == (
        embedded.REPEAT_TEMPERATURE,
        0,
    )
    with ablated(["chance"]):
        assert embedded.temperature_for(same) == 0
    for seed in (1, 2):
        with ablated([f"cold-{seed}"]):
            assert embedded.temperature_for(new) == 0.7
            assert embedded.OpenAIModel("m", "http://127.0.0.1:9", seed=7).request["seed"] == seed


def test_pieces_can_be_taken_away_together() -> None:
    with ablated(["grammar", "end-check"]):
        asked = requests()
    assert all(request.schema is None for request in asked)
    assert "You were told nothing" not in str(asked)


def test_an_unknown_piece_is_refused_by_name() -> None:
    with (
        pytest.raises(ValueError, match="no piece is named 'luck'; there are grammar"),
        ablated(["luck"]),
    ):
        pass


def test_pieces_are_measured_on_two_tasks_of_each_kind_of_the_choosing_half() -> None:
    tasks = [REGISTRY[name] for name in names_of_tasks()]
    assert {each.half for each in tasks} == {"choose"}
    assert [each.kind for each in tasks] == [
        kind for kind in KINDS if kind != "code" for _ in range(2)
    ]
