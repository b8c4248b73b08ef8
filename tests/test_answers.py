"""The types and conditions of final answers."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from typing import Any, Literal, TypedDict

import hypothesis
import numpy as np
import pydantic
import pytest
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.answers import Answers, condition_text
from archytas_nb.errors import ConditionError, ToolError
from archytas_nb.loop.events import CheckAnswer, ModelReply, Verdict, WireCall
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel

pd = pytest.importorskip("pandas")
Protocol = Literal["react", "native"]
FRAME = pd.DataFrame({"a": [1]})


@dataclasses.dataclass
class Point:
    """A point."""

    x: int
    y: float = 0.0


class Color(enum.Enum):
    """A colour."""

    RED = "red"


class Movie(TypedDict):
    """A film."""

    title: str
    year: int


class Wrapped(pydantic.BaseModel):
    """A model whose only field has the name of the field that wraps answers."""

    answer: int


GOOD: list[tuple[Any, Any, Any]] = [
    (int, 3, 3), (float, 1.5, 1.5), (bool, True, True), (str, "42", "42"), (list[str], ["a"], ["a"]),
    (list[int], [], []), (dict[str, int], {"x": 3}, {"x": 3}), (dict[str, int], {"answer": 3}, {"answer": 3}),
    (Literal["a", "b"], "a", "a"), (Color, "red", Color.RED), (Point, {"x": 1}, Point(1)),
    (list[Point], [{"x": 1}], [Point(1)]), (Movie, {"title": "M", "year": 1}, {"title": "M", "year": 1}),
    (Wrapped, {"answer": 1}, Wrapped(answer=1)), (int | None, None, None), (int | str, 3, 3),
    (tuple[int, int], [1, 2], (1, 2)), (dt.date, "2020-01-01", dt.date(2020, 1, 1)),
    (pd.DataFrame, "df", FRAME), (pd.DataFrame, {"$var": "df"}, FRAME), (Any, {"b": 1}, {"b": 1}),
]  # fmt: skip


def asked(protocol: Protocol, *script: Any, **options: Any) -> Run:
    """Ask an agent without tools."""
    model = ScriptedModel(*script, protocol=protocol)
    return nb.Agent([], model, namespace={"df": FRAME}).run("Well?", **options)


def called(given: Any, *, wrapped: bool) -> ModelReply:
    """A function call with an answer, as models send it."""
    arguments = json.dumps({"answer": given} if wrapped else given)
    return ModelReply("", (WireCall("final_answer", arguments),), finish="tool_calls")


def same(a: Any, b: Any) -> bool:
    return a is b if isinstance(b, pd.DataFrame) else bool(a == b) and type(a) is type(b)


def test_answers_may_have_any_type_of_a_tool_argument() -> None:
    for kind, given, value in GOOD:
        text = given if isinstance(given, str) else json.dumps(given)
        runs = [
            asked("react", ("final_answer", given), output_type=kind),
            asked("react", ("final_answer", {"answer": given}), output_type=kind),
            asked("native", called(given, wrapped=True), output_type=kind),
            asked("native", text, output_type=kind),
            asked("native", f"```json\n{text}\n```", output_type=kind),
        ]
        if isinstance(given, dict):
            runs.append(asked("native", called(given, wrapped=False), output_type=kind))
        for run in runs:
            assert run.status == "answered", [
                event for event in run.events if isinstance(event, Verdict)
            ]
            assert same(run.value, value)


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_an_invalid_answer_is_retried_with_the_reason(protocol: Protocol) -> None:
    agent = nb.Agent(
        [], ScriptedModel(("final_answer", "three"), ("final_answer", 3), protocol=protocol)
    )
    run = agent.run("How many?", output_type=int)
    assert (run.value, run.answer) == (3, "3")
    [first, second] = [event for event in run.events if isinstance(event, Verdict)]
    assert "int" in first.fault
    assert first.wrong_type
    assert second.fault == ""
    told = agent.chosen_model().asked[1].messages[-1]["content"]
    assert told.startswith("Your answer 'three' is not accepted: ")
    assert first.fault in told


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_invalid_answers_count_as_consecutive_errors(protocol: Protocol) -> None:
    script = [("final_answer", "three")] * 4
    model = ScriptedModel(*script, protocol=protocol)
    run = nb.Agent([], model, max_errors=3).run("How many?", output_type=int)
    assert (run.status, run.reason, run.value) == ("stopped", "max_errors=3", None)
    assert len(model.asked) == 4


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_an_answer_at_a_limit_is_the_value_only_if_it_has_the_type(
    protocol: Protocol,
) -> None:
    for last, value in ((7, 7), ("I do not know.", None)):
        model = ScriptedModel(("final_answer", "three"), ("final_answer", last), protocol=protocol)
        run = nb.Agent([], model, max_steps=1).run("How many?", output_type=int)
        assert (run.incomplete, run.value) == (True, value)


@pytest.mark.parametrize("protocol", ["react", "native"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [(Point, 'Point is {"x": int, "y": float (optional)}'), (list[str], "list[str]"),
     (pd.DataFrame, "the name of a variable that holds a DataFrame")],
)  # fmt: skip
def test_the_question_contains_the_required_type(protocol: Protocol, kind: Any, said: str) -> None:
    agent = nb.Agent([], ScriptedModel(protocol=protocol), context="none")
    [_, message] = agent.preview("Where?", output_type=kind).messages
    assert message["content"].startswith("Where?\n\n(")
    assert "final_answer" in message["content"]
    assert said in message["content"]


def test_the_text_protocol_constrains_the_answer_by_its_schema() -> None:
    ask = nb.Agent([], ScriptedModel(), namespace={}).preview("Where?", output_type=list[int])
    [answer] = [
        b for b in ask.schema["oneOf"] if b["properties"]["tool"] == {"const": "final_answer"}
    ]
    [value, name] = answer["properties"]["tool_input"]["oneOf"]
    assert value["items"] == {"type": "integer"}
    assert list(name["properties"]) == ["$var"]


def test_function_calling_has_the_same_tools_with_and_without_a_type() -> None:
    agent = nb.Agent([], ScriptedModel(protocol="native"), context="none")
    typed = agent.preview("Where?", output_type=Point).tools
    assert [tool["function"]["name"] for tool in typed] == ["final_answer", "fail_task"]
    assert agent.preview("Where?").tools == typed


# ── conditions ────────────────────────────────────────────────────────────────────────────────────


def below_ten(n: int) -> str:
    return "" if n < 10 else f"{n} is too many"


def asserting(n: int) -> None:
    assert n < 10, "it must be less than ten"


@pytest.mark.parametrize(
    ("until", "said"),
    [(below_ten, "30 is too many"), (asserting, "it must be less than ten"),
     (lambda n: n < 10, "it does not meet the condition <lambda>"),
     (lambda n: n / (n - 30) and "", "division by zero")],
)  # fmt: skip
@pytest.mark.parametrize("protocol", ["react", "native"])
def test_the_condition_gets_the_typed_value(protocol: Protocol, until: Any, said: str) -> None:
    run = asked(protocol, ("final_answer", 30), ("final_answer", 3), output_type=int, until=until)
    assert run.value == 3
    [first, second] = [event for event in run.events if isinstance(event, Verdict)]
    assert said in first.fault
    assert not first.wrong_type
    assert second.fault == ""


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_without_a_type_the_condition_gets_the_text(protocol: Protocol) -> None:
    seen: list[Any] = []
    run = asked(protocol, ("final_answer", "Three."), until=lambda answer: seen.append(answer))
    assert (seen, run.answer, run.value) == (["Three."], "Three.", None)


def test_checks_nothing_without_type_and_condition() -> None:
    run = asked("react", ("final_answer", "Three."))
    assert not any(isinstance(event, (CheckAnswer, Verdict)) for event in run.events)


def exits_oddly(answer: str) -> None:
    raise GeneratorExit("odd")


@pytest.mark.parametrize(
    ("until", "said"),
    [
        (lambda answer: answer > 100, "TypeError"),
        (lambda answer: answr > 100, "NameError"),  # type: ignore[name-defined]  # noqa: F821
        (lambda answer: answer.size > 100, "AttributeError"),
        (exits_oddly, "GeneratorExit"),
        (lambda answer: 3, "returned 3, of type 'int'"),
        (lambda answer: FRAME["a"] > 0, "of type 'Series'"),
    ],
)
@pytest.mark.parametrize("protocol", ["react", "native"])
def test_a_mistake_in_a_condition_ends_the_question_after_the_first_answer(
    protocol: Protocol, until: Any, said: str
) -> None:
    model = ScriptedModel(("final_answer", "124"), ("final_answer", "4"), protocol=protocol)
    agent = nb.Agent([], model)
    with pytest.raises(ConditionError) as caught:
        agent.run("How many?", until=until)
    assert len(model.asked) == 1
    message, run = str(caught.value), caught.value.run
    assert said in message
    assert "'124', of type 'str'" in message
    assert until.__name__ in message
    assert "output_type=" in message  # the answer was text, which may be the reason
    assert run is not None
    assert (run.status, run.reason) == ("failed", message)
    assert agent.exchanges == []
    assert agent.run("Well?").answer == "4"


def test_the_exception_of_a_condition_is_the_cause_of_the_error() -> None:
    with pytest.raises(ConditionError) as caught:
        asked("react", ("final_answer", 3), output_type=int, until=len)
    assert isinstance(caught.value.__cause__, TypeError)
    assert "3, of type 'int'" in str(caught.value)


def test_a_mistake_in_a_condition_is_told_at_a_limit_too() -> None:
    agent = nb.Agent([], ScriptedModel("{", ("final_answer", "3")), max_steps=1)
    with pytest.raises(ConditionError):
        agent.run("Well?", until=lambda answer: answer > 100)


@hypothesis.given(st.text(min_size=1))
def test_an_exception_about_the_value_rejects_it(wrong: str) -> None:
    """The model is told the error that Python raises when it reads a text."""
    for read in (json.loads, int, {"124": 1}.__getitem__, lambda answer: 1 / (answer == "124")):

        def until(answer: str, read: Any = read) -> bool:
            return bool(read(answer))

        try:
            accepted = until(wrong.strip())
        except (ValueError, LookupError, ArithmeticError):
            accepted = False
        run = asked("react", ("final_answer", wrong), ("final_answer", "124"), until=until)
        assert run.answer == (wrong.strip() if accepted else "124")


def test_a_truth_value_of_numpy_is_the_result_of_a_condition() -> None:
    numpy = pytest.importorskip("numpy")
    answers = ("final_answer", 3), ("final_answer", 124)
    run = asked("react", *answers, output_type=int, until=lambda n: numpy.int64(n) > 100)
    assert run.value == 124


def test_an_interrupt_in_a_condition_ends_only_the_run() -> None:
    def interrupted(answer: str) -> str:
        raise KeyboardInterrupt

    agent = nb.Agent([], ScriptedModel(("final_answer", "3"), ("final_answer", "4")))
    with pytest.raises(nb.RunInterrupted, match="the check of the answer"):
        agent.run("Well?", until=interrupted)
    assert agent.run("Well?").answer == "4"


# ── what cannot be asked for ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["no such type", 3])
def test_rejects_an_unsupported_type_before_asking_the_model(kind: Any) -> None:
    model = ScriptedModel()
    with pytest.raises(ToolError, match=r"output_type .* cannot be the type of an answer"):
        nb.Agent([], model).run("Well?", output_type=kind)
    assert model.asked == []


async def later(answer: str) -> str:
    return ""


@pytest.mark.parametrize("until", ["x", later, lambda: True, lambda answer, limit: True])
def test_rejects_what_is_no_condition_before_asking_the_model(until: Any) -> None:
    model = ScriptedModel()
    with pytest.raises(ValueError, match="expected a function that takes the answer") as error:
        nb.Agent([], model).run("Well?", until=until)
    assert repr(until) in str(error.value)
    assert model.asked == []


def test_what_is_wrong_in_an_answer_names_its_part_for_a_person_and_its_path_for_the_model() -> (
    None
):
    verdict = Answers(dict[str, list[int]], None, {}).check({"stars": [1, "x"]})
    assert verdict.fault.startswith("answer.stars[1]: ")
    assert "$" not in verdict.reason
    assert "`stars[1]`" in verdict.reason


# ── answers by name ───────────────────────────────────────────────────────────────────────────────

PLACES = pd.DataFrame({"place": ["a", "b"], "rate": [0.5, 1.5]})
HELD: dict[str, Any] = {
    "places": PLACES,
    "rates": PLACES.set_index("place")["rate"],
    "cfg": {"n": np.int64(7), "point": {"x": 1}, "many": list(range(5000))},
}
NAMED = [
    (float, "rates['a']", 0.5), (int, "cfg['n']", 7), (list[int], "cfg.many", list(range(5000))),
    (list[float], "rates", [0.5, 1.5]), (dict[str, float], "rates", {"a": 0.5, "b": 1.5}),
    (list[tuple[str, float]], "rates", [("a", 0.5), ("b", 1.5)]),
    (list[tuple[str, float]], "places", [("a", 0.5), ("b", 1.5)]),
    (list[dict[str, Any]], "places", [{"place": "a", "rate": 0.5}, {"place": "b", "rate": 1.5}]),
    (list[str], 'places["place"]', ["a", "b"]), (Point, "cfg['point']", Point(1)),
]  # fmt: skip


@pytest.mark.parametrize("protocol", ["react", "native"])
@pytest.mark.parametrize(("kind", "name", "value"), NAMED)
def test_a_value_of_any_type_may_be_answered_by_name(
    protocol: Protocol, kind: Any, name: str, value: Any
) -> None:
    for given in ({"$var": name}, name):
        model = ScriptedModel(("final_answer", given), protocol=protocol)
        run = nb.Agent([], model, namespace=HELD).run("Which?", output_type=kind)
        assert (run.status, run.value, run.answer) == ("answered", value, name)


def test_a_name_that_is_a_valid_text_is_a_text_unless_it_is_marked() -> None:
    for given, value in (("place", "place"), ({"$var": "word"}, "found"), ({"$var": "x"}, "z")):
        model = ScriptedModel(("final_answer", given), ("final_answer", "z"))
        namespace = {"place": "elsewhere", "word": "found"}
        run = nb.Agent([], model, namespace=namespace).run("Which?", output_type=str)
        assert run.value == value


def test_a_named_value_of_another_type_is_refused_with_the_reason() -> None:
    model = ScriptedModel(("final_answer", {"$var": "cfg"}), ("final_answer", 7))
    run = nb.Agent([], model, namespace=HELD).run("Which?", output_type=int)
    [first, _] = [event for event in run.events if isinstance(event, Verdict)]
    assert first.fault
    assert run.value == 7


# ── what the model is told before it answers ──────────────────────────────────────────────────────


def test_a_condition_is_told_before_the_first_answer() -> None:
    def is_even(n: int) -> bool:
        """The number must be even."""
        return n % 2 == 0

    model = ScriptedModel(("final_answer", 4), protocol="native")
    nb.Agent([], model, namespace={}).run("Which?", output_type=int, until=is_even)
    assert "The number must be even." in model.asked[0].messages[-1]["content"]
    model = ScriptedModel(("final_answer", 12), protocol="native")
    nb.Agent([], model, namespace={}).run("Which?", output_type=int, until=lambda n: n > 10)
    assert "lambda n: n > 10" in model.asked[0].messages[-1]["content"]


def test_a_rejected_reply_is_sent_back_as_it_was_written() -> None:
    reply = called("three", wrapped=True)
    for given, is_call in ((reply, True), ("It is three.", False)):
        model = ScriptedModel(given, called(3, wrapped=True), protocol="native")
        run = nb.Agent([], model, namespace={}).run("How many?", output_type=int)
        assert run.value == 3
        *_, said, told = model.asked[1].messages
        assert said["role"] == "assistant"
        if is_call:
            assert said["tool_calls"][0]["function"]["name"] == "final_answer"
            assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"answer": "three"}
            assert told["tool_call_id"] == said["tool_calls"][0]["id"]
        else:
            assert said["content"] == given
        assert "is not accepted" in told["content"]


def test_the_schema_of_an_answer_is_told_where_words_do_not_say_it() -> None:
    from typing import Annotated

    from pydantic import Field

    agent = nb.Agent([], ScriptedModel(protocol="native"), namespace={})
    bounded = agent.preview("Which?", output_type=Annotated[int, Field(ge=3)]).messages[-1][
        "content"
    ]
    assert '"minimum": 3' in bounded
    assert (
        "JSON schema" not in agent.preview("Which?", output_type=list[int]).messages[-1]["content"]
    )


def test_a_condition_that_is_a_lambda_is_told_without_its_statement() -> None:
    given = {
        "n": 1, "until": lambda share: 0 <= share <= 1, "other": (lambda a, *, b="é": (a >
            2 and b)), "last": lambda x: len(
                x),
    }  # fmt: skip
    texts = [condition_text(each) for each in given.values() if callable(each)]
    assert texts[0] == "lambda share: 0 <= share <= 1"
    assert " ".join(texts[1].split()) == "lambda a, *, b='é': a > 2 and b"
    assert " ".join(texts[2].split()) == "lambda x: len( x)"
    assert condition_text(eval("lambda a: a > 1")) == "<lambda>(answer)"


@pytest.mark.parametrize("python", ["off", "copy"])
def test_a_small_table_that_a_tool_returns_can_be_the_answer(python: Any) -> None:
    """It is shown whole, so that no call needs its name; the answer does."""

    def late() -> pd.DataFrame:
        """The places that are late."""
        return PLACES

    model = ScriptedModel(("late", {}), ("final_answer", "late_1"))
    agent = nb.Agent([late], model, python=python, namespace={})
    assert agent.run("Which are late?", output_type=pd.DataFrame).output is PLACES
