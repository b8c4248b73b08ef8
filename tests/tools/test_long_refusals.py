"""What the model reads of a refused call or of an error is bounded, whatever was sent and raised."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pandas as pd
import pytest
from pydantic import AfterValidator, BaseModel

from archytas_nb.answers import Answers
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox

LONG = "k" * 200_000
NAMESPACE = {f"frame{n}": pd.DataFrame() for n in range(50)}


class Item(BaseModel):
    name: str


def fail(value: int) -> int:
    raise ValueError(LONG)


def tool(annotation: Any) -> Tool:
    def f(x):
        """Return what came.

        Args:
            x: A value.
        """
        return x

    f.__annotations__ = {"x": annotation, "return": object}
    return Tool.from_function(f)


@pytest.mark.parametrize(
    ("annotation", "sent"),
    [
        (list[int], {"x": ["a"] * 10_000}),
        (list[Item], {"x": [{"nam": 1}] * 10_000}),
        (dict[str, int], {"x": {f"{LONG}{n}": "a" for n in range(3)}}),
        (int, {f"key{n}": 1 for n in range(3000)}),
        (int, {LONG: 1}),
        (Item, {"x": {LONG: 1, "name": "a"}}),
        (int, {"x": LONG}),
        (pd.DataFrame, {"x": LONG}),
        (list[pd.DataFrame], {"x": [f"name{n}" for n in range(3000)]}),
        (Literal[tuple(f"choice{n}" for n in range(5000))], {"x": "none"}),
        (Annotated[int, AfterValidator(fail)], {"x": 1}),
    ],
    ids=range(11),
)
def test_a_refusal_is_short_and_counts_what_it_leaves_out(annotation: Any, sent: Any) -> None:
    outcome = tool(annotation).call(sent, dict(NAMESPACE))
    assert outcome.status == "error"
    assert len(outcome.text) < 10_000
    assert len(str(outcome.error)) < 8_000
    assert len(Answers(annotation, None, {}).check(sent).fault) < 8_000


def test_the_faults_that_are_left_out_are_counted() -> None:
    made = tool(list[int])
    text = made.call({"x": ["a"] * 10_000}).text
    assert text.count("expected an integer") == 10
    assert "9,990 more" in text
    assert len(made.check({"x": ["a"] * 10_000})) == 10_000
    assert "more" not in made.call({"x": ["a"] * 10}).text


def test_an_unknown_tool_is_named_in_short() -> None:
    with pytest.raises(KeyError) as caught:
        Toolbox()[LONG]
    assert len(str(caught.value)) < 500


def test_an_error_with_a_long_message_and_long_notes_is_cut() -> None:
    def f() -> None:
        """Fail."""
        error = ValueError(LONG)
        error.add_note(LONG)
        raise error

    assert len(Tool.from_function(f).call(None).text) <= 8000


def test_what_a_condition_finds_wrong_is_cut() -> None:
    assert len(Answers(None, lambda answer: LONG, {}).check("x").fault) <= 2000
