"""A map that is planned once: the program, its sample, the comparison, the rest asked one by one."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import polars as pl
import pytest

from archytas_nb import Agent, ConfigurationError
from archytas_nb.kernel.person import Keyboard
from tests.batch.planner import Counting, Planner

PROGRAM = "answer(price_of(product=row.product) * row.number)"
PROMPT = "What do {number} pieces of {product} cost?"


def data(count: int, **columns: Any) -> pd.DataFrame:
    products = [f"p{'x' * (number % 7)}" for number in range(count)]
    return pd.DataFrame({"product": products, "number": range(count), **columns})


def cost(question: str) -> str:
    number, product = re.findall(r"What do (\d+) pieces of (\w+) cost", question)[-1]
    return str(float(len(product) * int(number)))


def planned(
    frame: Any, model: Planner, tools: Any = None, prompt: str = PROMPT, **options: Any
) -> Any:
    given = {"output_type": float, "plan": True, "store": None, "progress": False, **options}
    return Agent(Counting().tools() if tools is None else tools, model=model).map(
        frame, prompt, **given
    )


def expected(frame: pd.DataFrame) -> list[float]:
    return [
        float(len(product) * number)
        for product, number in zip(frame["product"], frame["number"], strict=True)
    ]


def test_a_program_answers_all_rows_with_one_request_and_each_equal_call_is_made_once() -> None:
    frame = data(200)
    counting = Counting()
    model = Planner(PROGRAM, single=cost)
    out = planned(frame, model, counting.tools())
    assert list(out["answer"]) == expected(frame)
    assert set(out["by"]) == {"program"}
    assert (len(model.plans), len(model.singles)) == (1, 10)
    assert len(counting.calls) == 7
    plan = out.attrs["plan"]
    assert plan["program"] == PROGRAM
    assert plan["sample"] == {"rows": 20, "answered": 20, "gave_up": 0, "failed": 0}
    agreement = plan["agreement"]
    assert (agreement["agree"], agreement["compared"]) == (10, 10)
    assert 0.7 < agreement["low"] < agreement["high"] <= 1
    assert out.index.equals(frame.index)


def test_the_model_reads_the_columns_with_their_types_and_a_few_rows() -> None:
    frame = data(30, note=["ok", None] * 15)
    model = Planner(PROGRAM, single=cost)
    planned(frame, model)
    [messages] = model.plans
    system, question = messages[0]["content"], messages[1]["content"]
    assert "def price_of(product: str)" in system
    assert "def judge(" in system
    assert "{product} is row.product" in question
    assert "note: str | None" in question
    assert "number: int" in question
    assert question.count("Row(product=") == 5
    assert "type: float" in question


def test_the_draw_is_the_same_for_the_same_rows_and_another_for_other_rows() -> None:
    def drawn(frame: pd.DataFrame) -> tuple[list[int], list[int]]:
        """The positions of the rows that the model is shown, and of those that are compared."""
        model = Planner(PROGRAM, single=cost)
        planned(frame, model)
        start = int(frame["number"].min())
        shown = re.findall(r"number=(\d+)", model.plans[0][1]["content"])
        compared = re.findall(r"What do (\d+) pieces", "\n".join(model.singles))
        return (
            [int(each) - start for each in shown],
            sorted(int(each) - start for each in compared),
        )

    frame = data(100)
    first = drawn(frame)
    assert (len(first[0]), len(first[1])) == (5, 10)
    assert drawn(frame.copy()) == first
    other = drawn(frame.assign(number=frame["number"] + 1000))
    assert other[0] != first[0]
    assert other[1] != first[1]


def test_what_fails_in_the_sample_goes_back_to_the_model_at_most_three_times() -> None:
    frame = data(100)
    model = Planner(
        "answer(price_off(row.product))",
        "answer(1 / (row.number - row.number))",
        "answer(f'{row.product} is much')",
        PROGRAM,
        single=cost,
    )
    out = planned(frame, model)
    assert list(out["answer"]) == expected(frame)
    reports = [messages[-1]["content"] for messages in model.plans[1:]]
    assert "did you mean 'price_of'" in reports[0]
    assert "ZeroDivisionError" in reports[1]
    assert reports[1].count("Row(") == 3
    assert "number" in reports[2]
    never = Planner("answer(1 / (row.number - row.number))")
    out = planned(frame, never, verify=0)
    assert len(never.plans) == 4
    assert set(out["status"]) == {"open"}
    assert not never.singles


def test_rows_that_the_program_does_not_answer_are_asked_one_by_one() -> None:
    frame = data(100)
    program = f"if row.number % 5 == 0:\n    give_up('a multiple')\n{PROGRAM}"
    model = Planner(program, single=cost)
    out = planned(frame, model)
    assert list(out["answer"]) == expected(frame)
    assert list(out["by"] == "agent") == [number % 5 == 0 for number in range(100)]
    assert set(out["status"]) == {"done"}


@pytest.mark.parametrize("auto", [False, True])
def test_too_many_rows_without_an_answer_stop_the_plan_where_nobody_can_be_asked(
    auto: bool,
) -> None:
    program = f"if row.number % 2:\n    give_up('odd')\n{PROGRAM}"
    model = Planner(program, single=cost)
    out = planned(data(100), model, plan="auto" if auto else True, verify=0)
    if auto:
        assert set(out["status"]) == {"done"}
        assert len(model.singles) == 100
    else:
        assert set(out["status"]) == {"open"}
        assert not model.singles
    assert "max_fallback" in out.attrs["plan"]["why"]
    more = planned(data(100), Planner(program, single=cost), max_fallback=0.6, verify=0)
    assert set(more["status"]) == {"done"}


def test_a_plan_that_differs_from_the_agent_is_not_used_unless_nothing_is_compared() -> None:
    frame = data(100)
    model = Planner(PROGRAM, single=lambda question: "1.0")
    out = planned(frame, model)
    plan = out.attrs["plan"]
    assert not plan["used"]
    assert "disagree" in plan["why"]
    assert len(plan["agreement"]["disagreements"]) >= 9
    assert len(model.singles) == 10
    out = planned(frame, Planner(PROGRAM), verify=0)
    assert list(out["answer"]) == expected(frame)


class Answers:
    """A person who gives these answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)
        monkeypatch.setattr(Keyboard, "there", property(lambda _: True))
        monkeypatch.setattr(Keyboard, "ask", lambda _, prompt, form=None: self._answer(prompt))

    def _answer(self, prompt: str) -> str:
        self.asked.append(prompt)
        return self._answers.pop(0)


@pytest.mark.parametrize("wish", [["change", "with tax"], ["Twice, with tax"]])
def test_a_person_decides_changes_the_plan_and_is_not_asked_again(
    wish: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frame = data(60)
    store = str(tmp_path / "map.sqlite")
    person = Answers(monkeypatch, *wish, "run")
    twice = PROGRAM.replace(")", ") * 2", 1)
    model = Planner(PROGRAM, twice, single=cost)
    out = planned(frame, model, store=store)
    assert list(out["answer"]) == [2 * each for each in expected(frame)]
    assert "with tax" in model.plans[1][-1]["content"]
    assert len(person.asked) == len(wish) + 1
    again = planned(frame, Planner(), store=store)
    pd.testing.assert_frame_equal(out, again)
    assert len(person.asked) == len(wish) + 1


def test_a_person_sees_the_whole_plan_in_a_narrow_terminal_and_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    Answers(monkeypatch, "stop")
    planned(data(60), Planner(f"# \x1b[2K hidden\n{PROGRAM}", single=lambda _: "1.0"))
    shown = capsys.readouterr().err
    assert "Tried on 20 rows: 20 answered.\n" in shown
    assert "differ in 10 of 10 rows" in shown
    assert "Row(product=" not in shown
    assert "All 60: about 60 tool calls, 0 requests" in shown
    table = [line for line in shown.splitlines() if re.match(r"  (?! +│)", line)]
    assert len(table) == 11
    assert all(len(line) < 40 for line in table)
    assert "\x1b[2K hidden" not in shown
    assert all(line.startswith("    │ ") for line in shown.splitlines() if "price_of(" in line)


@pytest.mark.parametrize(
    ("answer", "status", "singles"), [("rows", "done", 60), ("stop", "open", 10)]
)
def test_a_person_can_ask_row_by_row_or_stop(
    monkeypatch: pytest.MonkeyPatch, answer: str, status: str, singles: int
) -> None:
    Answers(monkeypatch, answer)
    model = Planner(PROGRAM, single=cost)
    out = planned(data(60), model)
    assert status in set(out["status"])
    assert len(model.singles) == singles


def test_rows_in_which_the_agent_differs_are_marked_and_keep_both_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The person sees which, and may use the program; equal rows share the answer of the agent."""
    person = Answers(monkeypatch, "run")
    frame = pd.concat([data(60), data(60)], ignore_index=True)
    store = str(tmp_path / "map.sqlite")

    def single(question: str) -> str:
        answer = float(cost(question))
        return str(answer * 1.1 if answer > 100 else answer)

    out = planned(frame, Planner(PROGRAM, single=single), store=store)
    assert "[run]" in person.asked[0]
    compared = out[out["agent"].notna()]
    assert len(compared) == 20
    assert list(out["answer"]) == expected(frame)
    for _, row in out.iterrows():
        is_different = pd.notna(row["agent"]) and not math.isclose(row["agent"], row["answer"])
        assert row["status"] == ("differs" if is_different else "done")
        assert row["by"] == "program"
    assert 0 < (out["status"] == "differs").sum() < 20
    listed = out.attrs["plan"]["agreement"]["disagreements"]
    assert {each["number"] for each in listed} <= set(out.index[out["status"] == "differs"])
    pd.testing.assert_frame_equal(out, planned(frame, Planner(), store=store))


@dataclass
class Ticket:
    kind: Literal["complaint", "praise"]
    words: int


def test_equal_judgements_are_made_once_and_typed(tmp_path: Path) -> None:
    texts = [f"text {number % 3}" for number in range(60)]
    frame = pd.DataFrame({"text": texts, "number": range(60)})
    program = (
        'kind = judge(f"JUDGE {row.text}", Literal["complaint", "praise"])\n'
        "answer({'kind': kind, 'words': len(row.text.split())})"
    )
    model = Planner(program, judged=lambda question: '"praise"')
    store = str(tmp_path / "map.sqlite")
    options = {"output_type": Ticket, "verify": 0, "store": store}
    out = planned(frame, model, prompt="Classify {text}.", **options)
    assert list(out["kind"]) == ["praise"] * 60
    assert list(out["words"]) == [2] * 60
    assert len(model.judgements) == 3
    assert out["tokens"].sum() == 3 * 110
    assert planned(frame, Planner(), prompt="Classify {text}.", **options).equals(out)


@pytest.mark.parametrize(
    "condition",
    ['row.text == "The soup was cold on day 3."', '"good" in row.text', 'row.text != "awful"'],
)
def test_a_free_text_is_judged_and_not_searched_for_made_up_words(condition: str) -> None:
    texts = [f"The soup was cold on day {number}." for number in range(40)]
    frame = pd.DataFrame({"text": texts, "meal": ["lunch", "dinner"] * 20})
    prompt = "Does {text} speak of cold soup?"
    judged = 'answer(judge(f"JUDGE {row.text}", "bool"))'
    model = Planner(f"answer({condition})", judged, judged=lambda question: "true")
    out = planned(frame, model, prompt=prompt, output_type=bool, verify=0)
    assert list(out["answer"]) == [True] * 40
    assert len(model.plans) == 2
    assert "Free text: row.text." in model.plans[0][-1]["content"]
    assert f"Line 1 `answer({condition})`: row.text is another text" in str(model.plans[1])
    for fine in ('"soup" in row.text', '"@" in row.text', 'row.meal == "brunch"'):
        model = Planner(f"answer({fine} or len(row.text) > 9)")
        planned(frame, model, prompt=prompt, output_type=bool, verify=0)
        assert len(model.plans) == 1, fine


def test_a_program_is_not_about_one_of_the_rows() -> None:
    frame = data(40).assign(order=[f"order-{number}" for number in range(40)])
    special = PROGRAM.replace(")", " if row.order == 'order-7' else row.product)", 1)
    model = Planner(special, PROGRAM)
    out = planned(frame, model, verify=0)
    assert list(out["answer"]) == expected(frame)
    assert "row.order is another text in each row" in str(model.plans[1])
    model = Planner(special)  # here the person has named it
    planned(frame, model, prompt=f"{PROMPT} That of order-7 is the same.", verify=0)
    assert len(model.plans) == 1


def test_a_small_model_reads_no_free_text_that_it_would_copy_and_what_it_repeats_is_left_out() -> (
    None
):
    texts = [f"The soup was cold on day {number}." for number in range(40)]
    frame = pd.DataFrame({"text": texts, "meal": ["lunch", "dinner"] * 20})
    model = Planner('answer(row.text == "made up")')
    model.is_small = True  # type: ignore[attr-defined]
    out = planned(frame, model, prompt="Is {text} true?", output_type=bool, verify=0)
    assert set(out["status"]) == {"open"}
    first, again, third = (each[1:] for each in model.plans[:3])
    assert "Row(text=…, meal='lunch')" in first[0]["content"]
    assert "cold on day" not in str(first)
    assert "made up" in again[1]["content"]
    assert "made up" not in third[1]["content"]


ODD = pd.DataFrame(
    {
        "class": ["a", None, "b"] * 7,
        "row": [1, "x", 2.5] * 7,
        "answer": [None] * 21,
        "name": ["n"] * 21,
        "unit price": [1.5, float("nan"), 2.0] * 7,
        ("deep", "er"): pd.to_datetime(["2020-01-01", None, "2021-01-01"] * 7),
    },
    index=pd.MultiIndex.from_product([["i", "j", "k"], range(7)]),
)
READS = """\
if row.class_ is None:
    answer("none")
price = row.unit_price or 0
year = row.deep_er.year if row.deep_er is not None else 0
answer(f"{row.class_} {row.row} {row.answer} {price} {year}")"""


def test_columns_of_any_name_and_missing_values_can_be_read() -> None:
    model = Planner(READS)
    out = planned(ODD, model, output_type=str, verify=0, prompt="Describe {class}.")
    assert out.index.equals(ODD.index)
    assert list(out["answer"])[:3] == ["a 1 None 1.5 2020", "none", "b 2.5 None 2.0 2021"]
    question = model.plans[0][1]["content"]
    assert "class_: str | None" in question
    assert "the column 'unit price'" in question


@pytest.mark.parametrize(
    "make",
    [
        lambda each: pl.DataFrame(each.to_dict("list")),
        lambda each: each.to_dict("records"),
    ],
)
def test_other_data_is_planned_too(make: Any) -> None:
    frame = data(40)
    out = planned(make(frame), Planner(PROGRAM, single=cost))
    if isinstance(out, pl.DataFrame):
        out = out.to_dicts()
    assert [each["answer"] for each in out] == expected(frame)
    assert {each["by"] for each in out} == {"program"}


def test_a_column_alone_is_row_dot_its_name() -> None:
    series = pd.Series([f"t{number}" for number in range(20)], name="text")
    out = planned(series, Planner("answer(len(row.text))"), prompt="How long?", verify=0)
    assert list(out["answer"]) == [len(each) for each in series]
    out = planned(list(series), Planner("answer(len(row.value))"), prompt="How long?", verify=0)
    assert [each["answer"] for each in out] == [len(each) for each in series]


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_any_rows_are_asked_one_by_one(count: int) -> None:
    model = Planner(PROGRAM, single=cost)
    out = planned(data(count), model)
    assert list(out["status"]) == ["done"] * count
    assert (len(model.plans), len(model.singles)) == (0, count)
    assert list(out["by"]) == ["agent"] * count


def test_auto_plans_only_where_the_prompt_has_columns_and_there_are_tools() -> None:
    frame = data(30)
    for model, tools, prompt, plans in [
        (Planner(PROGRAM, single=cost), None, PROMPT, 1),
        (Planner(PROGRAM), [], PROMPT, 0),
        (Planner(PROGRAM), None, "What does it cost?", 0),
    ]:
        planned(frame, model, tools, prompt, plan="auto")
        assert len(model.plans) == plans


@pytest.mark.parametrize(
    "wrong",
    [{"plan": "yes"}, {"plan": 1.5}, {"verify": -1}, {"verify": True}, {"max_fallback": 2}],
)
def test_an_option_that_is_none_is_refused_before_anything_is_asked(wrong: Any) -> None:
    model = Planner(PROGRAM)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        planned(data(3), model, **wrong)
    assert not model.requests


def test_a_replay_takes_program_and_rows_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = data(50)
    store = str(tmp_path / "map.sqlite")
    program = f"if row.number % 10 == 0:\n    give_up('a multiple')\n{PROGRAM}"
    model = Planner(program, single=cost)
    out = planned(frame, model, store=store)
    monkeypatch.setattr(Planner, "is_scripted", False)
    monkeypatch.setenv("ARCHYTAS_NB_CASSETTE_MODE", "replay")
    again = planned(frame, Planner(), store=store)
    pd.testing.assert_frame_equal(out, again)
    assert again.attrs == out.attrs
    with pytest.raises(ConfigurationError, match="50 rows"):
        planned(data(50, more=range(50)), Planner(), store=store, prompt=f"{PROMPT} {{more}}")
