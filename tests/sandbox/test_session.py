"""Programs in the real sandbox: their calls, their ends, and the variables that stay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from archytas_nb.loop.events import CallOutcome, ProgramCall, ProgramEnded, ProgramFaults
from archytas_nb.sandbox.session import Bounds
from tests.sandbox.programs import Frame, Programs


@pytest.fixture
def programs() -> Iterator[Programs]:
    made = Programs()
    yield made
    made.session.close()


def test_a_program_stops_at_each_call_and_goes_on_with_its_value(programs: Programs) -> None:
    ended = programs.run('a = price("ab")\nb = price("abc", amount=2)\nanswer(f"{a} and {b}")')
    assert programs.calls == [
        ProgramCall("price", {"item": "ab"}, 1),
        ProgramCall("price", {"item": "abc", "amount": 2}, 2),
    ]
    assert ended == ProgramEnded(
        answer="3.0 and 9.0", has_answer=True, assigned={"a": "3.0", "b": "9.0"}
    )


def test_printed_and_shown_values_and_the_last_one_are_shown_in_order(programs: Programs) -> None:
    ended = programs.run('print("one")\nshow([1, 2], "two")\nprint(3, 4)\n"last"')
    assert ended.shown == ("one", "[1, 2]", "'two'", "3 4", "'last'")


def test_ten_calls_that_are_awaited_together_are_asked_for_at_once(programs: Programs) -> None:
    ended = programs.run(
        "import asyncio\n"
        'first = price("a")\n'
        'them = await asyncio.gather(*[price("a" * n) for n in range(10)])\n'
        'last = price("abcd")\n'
        "(first, them, last)"
    )
    assert [len(each.calls) for each in programs.waits] == [1, 10, 1]
    assert ended.shown == (f"(1.5, {[n * 1.5 for n in range(10)]}, 6.0)",)


def test_an_error_of_a_tool_is_raised_where_it_is_called(programs: Programs) -> None:
    ended = programs.run(
        'try:\n    price("nothing")\nexcept ValueError as error:\n    show(str(error))\nprice("own")'
    )
    assert ended.shown == ("\"no item is named 'nothing'\"",)
    assert ended.error is not None
    assert (ended.error.line, ended.error.source) == (5, 'price("own")')
    assert ended.error.text == "RuntimeError: OwnError: an error of a library"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('price("a", **{"count": 2})', "count"),
        ('price(**{"amount": 2})', "item"),
        ('price(*["a", 1, 2])', "3"),
    ],
)
def test_arguments_that_do_not_fit_raise_a_type_error_without_a_call(
    programs: Programs, text: str, name: str
) -> None:
    ended = programs.run(f"try:\n    {text}\nexcept TypeError as error:\n    show(str(error))")
    assert programs.calls == []
    assert name in ended.shown[0]


def test_variables_stay_over_programs_and_questions(programs: Programs) -> None:
    programs.run('a = price("ab")\ndef twice(x):\n    return 2 * x')
    assert programs.run("twice(a)").shown == ("6.0",)
    programs.next_question()
    assert programs.run("twice(a)").shown == ("6.0",)


def test_an_object_without_a_form_in_json_is_passed_on_by_a_name(programs: Programs) -> None:
    ended = programs.run("frame = load(7)\nn = rows(frame)\nn")
    assert ended.shown == ("7",)
    name = programs.calls[1].input["frame"]["$var"]
    assert isinstance(programs.namespace[name], Frame)
    programs.next_question()
    assert programs.run("rows(frame)").shown == ("7",)
    assert programs.calls[0].input == {"frame": {"$var": name}}


def test_nothing_after_the_answer_counts_whatever_is_caught(programs: Programs) -> None:
    ended = programs.run(
        "before = 1\n"
        "for n in range(3):\n"
        "    try:\n"
        "        answer(n)\n"
        "    except BaseException:\n"
        '        price("a")\n'
    )
    assert (ended.answer, ended.has_answer, ended.error) == (0, True, None)
    assert programs.calls == []
    assert programs.run("before").shown == ("1",)


def test_a_program_that_gives_up_says_why(programs: Programs) -> None:
    ended = programs.run('give_up("there is no tool for it")\nanswer(1)')
    assert ended.gave_up == "there is no tool for it"
    assert not ended.has_answer


@pytest.mark.parametrize("status", ["refused", "not_run", "interrupted"])
def test_a_call_that_is_not_made_ends_the_program(programs: Programs, status: Any) -> None:
    programs.answered = lambda _: CallOutcome(status, "The user refused this call.")
    ended = programs.run('a = 1\ntry:\n    price("a")\nexcept BaseException:\n    price("b")')
    assert len(programs.calls) == 1
    assert ended.error is not None
    assert (ended.error.line, ended.error.text) == (3, "The user refused this call.")
    assert ended.interrupted == (status == "interrupted")
    assert ended.assigned == {"a": "1"}


def test_numbers_are_rounded_as_in_python(programs: Programs) -> None:
    text = "(round(2.675, 2), round(2.5), round(-0.5), round(1234, -2), round(1.005, 2))"
    assert programs.run(text).shown == (str(eval(text)),)


def test_variables_of_the_notebook_are_read_anew_by_each_program() -> None:
    programs = Programs({"xs": [1, 2], "frame": Frame(3)})
    assert programs.run("xs.append(9)\n(xs, rows(frame))").shown == ("([1, 2, 9], 3)",)
    assert programs.run("len(xs)", is_part=True).shown == ("3",)
    assert programs.namespace["xs"] == [1, 2]
    programs.namespace["xs"] = [4]
    assert programs.run("xs").shown == ("[4]",)
    programs.next_question()
    del programs.namespace["xs"]
    assert isinstance(programs.reply("xs"), ProgramFaults)
    programs.session.close()


HIDDEN = {"api_key": "k", "_own": 1, "json": json, "Frame": Frame, "get_ipython": 1, "call": print}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_program_may_not_name_is_undefined(name: str) -> None:
    programs = Programs(dict(HIDDEN))
    assert isinstance(programs.reply(name), ProgramFaults)
    ended = programs.run(f'try:\n    eval("{name}")\nexcept NameError:\n    show("undefined")')
    assert ended.shown == ("'undefined'",)
    programs.session.close()


def test_a_program_that_computes_for_too_long_ends_at_its_last_call() -> None:
    programs = Programs(bounds=Bounds(seconds=0.3))
    ended = programs.run('a = price("ab")\nwhile True:\n    pass')
    assert ended.error is not None
    assert "0.3 seconds" in ended.error.text
    assert ended.assigned == {"a": "3.0"}
    assert programs.run("a").shown == ("3.0",)
    programs.session.close()


def test_a_program_makes_only_so_many_calls() -> None:
    programs = Programs(bounds=Bounds(calls=20))
    ended = programs.run('total = 0\nfor n in range(100):\n    total += price("a")')
    assert len(programs.calls) == 20
    assert ended.error is not None
    assert "20 calls" in ended.error.text
    assert ended.assigned == {"total": "30.0", "n": "20"}
    programs.session.close()


def test_a_closed_session_gives_its_state_again(programs: Programs) -> None:
    programs.run("a = 1")
    state = programs.session.close()
    assert programs.session.close() is state
    with pytest.raises(RuntimeError, match="closed"):
        programs.session.run("a")
