"""Programs in the real sandbox: their calls, their ends, and the variables that stay."""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Collection, Iterator
from typing import Any

import pytest

from archytas_nb.loop.events import CallOutcome, ProgramCall, ProgramEnded, ProgramFaults, Shown
from archytas_nb.sandbox.session import Bounds
from tests.sandbox.programs import TOOLS, Frame, Programs, uncheck


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
        answer="3.0 and 9.0",
        has_answer=True,
        assigned={"a": Shown("3.0", "number"), "b": Shown("9.0", "number")},
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


def test_a_call_in_an_earlier_program_is_not_awaited_because_one_at_its_place_is(
    programs: Programs,
) -> None:
    earlier = "def f(x):\n     return price( x )\n"
    later = "both = [f('b'), await price('q')]\nboth"
    assert earlier.index("price( x )") == later.index("price('q')")
    programs.run(earlier)
    assert programs.run(later).shown == ("[1.5, 1.5]",)


def test_an_object_has_no_attribute_because_a_variable_or_a_function_has_its_name(
    programs: Programs,
) -> None:
    programs.namespace["size"] = 5
    assert programs.run("size").shown == ("5",)
    for name in ("size", "price"):
        ended = programs.run(f"frame = load(7)\nframe.{name}")
        assert ended.error is not None
        assert ended.error.text.startswith("AttributeError")


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
    assert ended.assigned_texts == {"a": "1"}


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


OWN = {
    "def": ("def helper(x):\n    return x + 1", "helper(1)"),
    "async def": ("async def helper():\n    return 2", "await helper()"),
    "a decorated def": (
        "def same(f):\n    return f\n@same\ndef helper():\n    return 2",
        "helper()",
    ),
    "class": ("class helper:\n    value = 2", "helper.value"),
    "import": ("import math as helper", "helper.floor(2.5)"),
    "from": ("from math import floor as helper", "helper(2.5)"),
    "match": ("match [2, 3]:\n    case [helper, *_]:\n        pass", "helper"),
    "match star": ("match [1, 2]:\n    case [1, *helper]:\n        pass", "helper[0]"),
    "match as": ("match 2:\n    case 1 | 2 as helper:\n        pass", "helper"),
    "for": ("for helper in [1, 2]:\n    pass", "helper"),
    "a tuple": ("(helper, other) = 2, 3", "helper"),
    "walrus": ("show((helper := 2))", "helper"),
    "walrus inside": ("show([(helper := each) for each in [1, 2]])", "helper"),
    "augmented": ("helper -= 3", "helper"),
    "in a branch": ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    helper = 2", "helper"),
    "global": ("def set():\n    global helper\n    helper = 2\nset()", "helper"),
    "value": ("helper = 2", "helper"),
}


@pytest.mark.parametrize("form", OWN)
def test_what_a_program_binds_is_its_own_whatever_the_notebook_has(form: str) -> None:
    binds, reads = OWN[form]
    programs = Programs({"helper": 5})
    ended = programs.run(f"show(helper)\n{binds}")
    assert (ended.shown[0], ended.error) == ("5", None)
    assert programs.run(reads).shown == ("2",)
    programs.session.close()


@pytest.mark.parametrize(
    "text", ["[helper for helper in [1]]", "def f(helper):\n    return 1\nf(2)"]
)
def test_a_variable_of_the_notebook_is_read_again_if_a_function_has_one_of_its_name(
    text: str,
) -> None:
    programs = Programs({"helper": 5})
    programs.run(f"show(helper)\n{text}")
    programs.namespace["helper"] = 6
    assert programs.run("helper").shown == ("6",)
    programs.session.close()


HIDDEN = {"api_key": "k", "_own": 1, "json": json, "Frame": Frame, "get_ipython": 1, "call": print}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_program_may_not_name_is_undefined(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Programs(dict(HIDDEN))
    assert isinstance(programs.reply(name), ProgramFaults)
    uncheck(monkeypatch)
    ended = programs.run(f'try:\n    {name}\nexcept NameError:\n    show("undefined")')
    assert ended.shown == ("'undefined'",)
    programs.session.close()


def test_a_program_that_computes_for_too_long_ends_at_its_last_call() -> None:
    programs = Programs(bounds=Bounds(seconds=0.3))
    ended = programs.run('a = price("ab")\nwhile True:\n    pass')
    assert ended.error is not None
    assert "0.3 seconds" in ended.error.text
    assert ended.assigned_texts == {"a": "3.0"}
    assert programs.run("a").shown == ("3.0",)
    programs.session.close()


def test_a_program_makes_only_so_many_calls() -> None:
    programs = Programs(bounds=Bounds(calls=20))
    ended = programs.run('total = 0\nfor n in range(100):\n    total += price("a")')
    assert len(programs.calls) == 20
    assert ended.error is not None
    assert "20 calls" in ended.error.text
    assert ended.assigned_texts == {"total": "30.0", "n": "20"}
    programs.session.close()


def test_a_closed_session_gives_its_state_again(programs: Programs) -> None:
    programs.run("a = 1")
    state = programs.session.close()
    assert programs.session.close() is state
    with pytest.raises(RuntimeError, match="closed"):
        programs.session.run("a")


def test_objects_are_equal_only_to_themselves(programs: Programs) -> None:
    text = "(a == b, a == a, a is a, a in [b], [b, a].index(a), rows(a))"
    programs.run("a = load(1)\nb = load(1)")
    assert programs.run(text).shown == ("(False, True, True, False, 1, 1)",)
    programs.next_question()
    assert programs.run(text).shown == ("(False, True, True, False, 1, 1)",)
    programs.namespace["c"] = Frame(3)
    programs.run("d = c")
    assert programs.run("(d == c, d == a)").shown == ("(True, False)",)


def test_a_question_that_is_forgotten_takes_its_variables_back() -> None:
    programs = Programs()
    programs.run("a = load(1)\nn = 1")
    state = programs.session.close()
    programs.session = programs.opened(state)
    programs.run("n = 2\nm = 3\na = load(2)")
    programs.session.close()
    programs.session = programs.opened(state)
    assert programs.run("(n, rows(a))").shown == ("(1, 1)",)
    assert isinstance(programs.reply("m"), ProgramFaults)
    programs.session.close()


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("x = price('a')\ny = await price('b')\n(x, y)", [1, 1]),
        ("(await asyncio.gather(price('a'), price('b')))", [2]),
        ("tasks = [price(n) for n in ('a', 'b')]\nawait asyncio.gather(*tasks)", [2]),
        ("tasks = []\ntasks.append(price('a'))\nawait asyncio.gather(*tasks)", [1]),
        ("async def one(n):\n    return await price(n)\nawait asyncio.gather(one('a'), one('b'))", [2]),
        ("async def one(n):\n    return price(n)\nawait asyncio.gather(one('a'), one('b'))", [1, 1]),
        ("[await price(n) for n in ('a', 'b')]", [1, 1]),
        ("a = price('a')\nb = price('b')\nawait asyncio.gather(a, b)", [2]),
        ("async def twice(x):\n    return 2 * x\nawait twice(price('a'))", [1]),
    ],
)  # fmt: skip
def test_what_is_awaited_and_what_is_not_is_read_from_the_program(
    programs: Programs, text: str, waits: list[int]
) -> None:
    ended = programs.run(f"import asyncio\n{text}")
    assert ended.error is None
    assert [len(each.calls) for each in programs.waits] == waits


def test_lines_are_those_of_the_program_whatever_is_before_them(programs: Programs) -> None:
    programs.run(
        "text = 'ä\\u2028'  # ünï\n\n"
        "def one(n):\n    return price(n)\n"
        "both = [\n    price('a'),\n    one('b'),\n]"
    )
    assert [each.line for each in programs.calls] == [6, 4]
    ended = programs.run("x = 1\none('nothing')")
    assert ended.error is not None
    assert ended.error.line == 2


def test_a_part_goes_on_with_the_bounds_of_the_parts_before() -> None:
    programs = Programs(bounds=Bounds(calls=5))
    programs.run("[price('a') for n in range(3)]")
    ended = programs.run("[price('a') for n in range(3)]", is_part=True)
    assert ended.error is not None
    assert len(programs.calls) == 2
    assert programs.run("[price('a') for n in range(5)]").error is None
    programs.session.close()


def test_half_a_character_stops_nothing() -> None:
    programs = Programs({"half": "a\ud800"})
    programs.answered = lambda _: CallOutcome("done", "x", value="b\udfff")
    ended = programs.run("try:\n    price('a')\nexcept ValueError as error:\n    x = 'no'\nx")
    assert ended.shown == ("'no'",)
    assert programs.run("try:\n    half\nexcept NameError:\n    x = 'none'\nx").shown == ("'none'",)
    assert isinstance(programs.reply("'\ud800'"), ProgramEnded)
    programs.answered = lambda _: CallOutcome("error", "x", error=ValueError("c\ud800"))
    ended = programs.run("try:\n    price('a')\nexcept ValueError as error:\n    x = str(error)\nx")
    assert ended.shown == ("'c?'",)
    programs.session.close()


@pytest.mark.parametrize("text", ["answer(10**5000)", "rows(-10**5000)", "answer({10**5000: 1})"])
def test_a_number_of_thousands_of_digits_is_an_error_of_the_program(
    programs: Programs, text: str
) -> None:
    ended = programs.run(text)
    assert ended.error is not None
    assert "too many digits" in ended.error.text
    assert programs.calls == []


def test_names_that_begin_with_an_underscore_are_not_reported(programs: Programs) -> None:
    assert programs.run("_a = 1\nb, (_, c) = 1, (2, 3)\nfor d in [4]: pass").assigned_texts == {
        "b": "1",
        "c": "3",
        "d": "4",
    }


def test_a_program_may_replace_a_builtin(programs: Programs) -> None:
    assert programs.run("max = price('a')").assigned_texts == {"max": "1.5"}


_IN_PROGRAMS = """\
d = {'x': 1, 'y': 2}
a = [max(d, key=d.get), sorted([2, 1], key=lambda each: price('a', each)), round(2.675, 2)]
a += [any(price(each) > 1 for each in 'ab'), list(map(str.upper, 'ab'))]
del a[0]
price(item='b')
"""


def _without(text: str, names: Collection[str]) -> str:
    """The lines of a program that do not read one of the names themselves."""
    lines = []
    for line in text.splitlines():
        read = {each.id for each in ast.walk(ast.parse(line)) if isinstance(each, ast.Name)}
        if not read & set(names):
            lines.append(line)
    return "\n".join(lines)


_READ = {each.id for each in ast.walk(ast.parse(_IN_PROGRAMS)) if isinstance(each, ast.Name)}
_BUILTINS = [each for each in dir(builtins) if not each.startswith("_")]
_BUILTINS = [each for each in _BUILTINS if each not in ("None", "True", "False")]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param([each for each in _BUILTINS if each not in _READ], id="all others"),
        pytest.param(_BUILTINS, id="all"),
        *(pytest.param([each], id=each, marks=pytest.mark.slow) for each in _BUILTINS),
    ],
)
def test_no_name_that_a_program_binds_is_read_by_the_session_itself(
    programs: Programs, names: list[str]
) -> None:
    programs.namespace["table"] = [1]
    text = _without(f"text = 'long' * 100\ntable\n{_IN_PROGRAMS}", names)
    expected = programs.reply(text)
    programs.next_question()
    ended = programs.run("\n".join(f"{each} = 5" for each in names))
    assert (ended.lost, ended.error) == ("", None)
    assert set(ended.assigned_texts.values()) == {"5"}
    assert programs.reply(text) == expected
    programs.next_question()
    assert programs.reply(text) == expected
    assert programs.run(names[0]).shown == ("5",)


def test_an_answer_of_an_earlier_program_is_no_variable(programs: Programs) -> None:
    reply = programs.reply("match {'a': 1}:\n    case {**answer}:\n        show(1)")
    assert isinstance(reply, ProgramFaults)
    assert "'answer' is one of your functions" in reply.faults[0].text


def test_a_tool_that_came_later_is_called_whatever_was_assigned_before() -> None:
    programs = Programs()
    programs.tools = {"rows": TOOLS["rows"]}
    programs.session = programs.opened(None)
    assert programs.run("price = 3").assigned_texts == {"price": "3"}
    programs.tools = TOOLS
    programs.next_question()
    assert programs.run("price('ab')").shown == ("3.0",)


@pytest.mark.parametrize(
    "text",
    [
        "while True:\n    try:\n        answer(7)\n    except:\n        pass",
        "while True:\n    try:\n        answer(7)\n    finally:\n        continue",
        "def f():\n    try:\n        answer(7)\n    except BaseException:\n        f()\nf()",
        "try:\n    answer(7)\nexcept BaseException:\n    while True:\n        pass",
    ],
)
def test_a_program_that_does_not_end_after_its_answer_is_ended(text: str) -> None:
    programs = Programs(bounds=Bounds(seconds=0.3))
    programs.run("before = 1")
    ended = programs.run(text)
    assert (ended.answer, ended.error) == (7, None)
    assert programs.run("before").shown == ("1",)
    programs.session.close()


def test_what_a_program_prints_is_bounded(programs: Programs) -> None:
    ended = programs.run("for n in range(2_000):\n    print(n, 'x' * 1000)")
    assert len(ended.shown) <= 100
    assert max(map(len, ended.shown)) <= 500
    assert ended.shown[0].startswith("0 xxx")
    assert sum(map(len, ended.shown)) <= 20_000


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_is_not_in_the_text_of_the_program_has_no_line() -> None:
    programs = Programs()
    programs.run("\ndef f(x):\n    return price(x)\nf('a')")
    assert [each.line for each in programs.calls] == [3]
    programs.run("price('a')\nf('a')\nprice('b')")
    assert [each.line for each in programs.calls] == [1, 0, 3]
    programs.run("\nlist(map(price, ['a', 'b']))")
    assert [each.line for each in programs.calls] == [0, 0]
    programs.run("\nlist(map(lambda each: price(each), ['a']))")
    assert [each.line for each in programs.calls] == [2]
    programs.session.close()


def test_a_tool_in_a_method_that_python_calls_is_named_with_the_next_move() -> None:
    programs = Programs()
    text = "class A:\n    def __str__(self):\n        return str(price('a'))\nshow(str(A()))"
    ended = programs.run(text)
    assert ended.error is not None
    assert ended.error.line == 3
    assert "__str__" in ended.error.text
    assert "price" in ended.error.text
    assert "suspend" not in ended.error.text
    programs.session.close()
