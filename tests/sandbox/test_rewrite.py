"""Python that the sandbox lacks is rewritten without a change of values, calls or lines."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_monty import Monty, MontyError

from archytas_nb.sandbox.prepared import fed_text
from archytas_nb.sandbox.rewrite import rewritten
from archytas_nb.syntax.program import Program
from tests.sandbox.direct import TOOLS, drive, in_python, pool
from tests.sandbox.forms import FORMS, ended_in_form, in_form

__all__ = ["pool"]

PROGRAMS = [
    "a = max({'x': 1, 'y': 3}, key={'x': 1, 'y': 3}.get)",
    "d = {'x': 1, 'y': 3}\na = sorted(d, key=d.get, reverse=True)",
    "d = {'x': 1}\na = f'{max(d, key=d.get)}'",
    "a = list(map(str.upper, ['a', 'b']))",
    "a = sorted(['b', 'A'], key=str.lower)",
    "s = 'x'\nf = s.upper\na = f()",
    "f = '{} {x}'.format\na = f(1, x=2)",
    "a = ('a' +\n  'b').upper()",
    "a = [each.split for each in ['a b']][0]()",
    "a = (lambda: [1, 1].count)()(1)",
    "e = 'é'; a = max([e, 'éé'], key=e.count)",
    "a = [1, 2, 3]\ndel a[0]",
    "a = [1, 2, 3]\nif True: del a[-1]\nb = 1",
    "a = {(1, 2): 3}\ndel a[1, 2]",
    "a = [1, 2, 3]\ndel a[0:2]",
    "d = {'x': [5, 6]}\ndel d['x'][0]\na = d",
    "a = 5\ndel a[0]",
    "a = {}\ndel a['x']",
    "a = any(number(x) > 1 for x in [1, 2, 3])",
    "a = any((number(x) > 1) for x in ([1, 2, 3]))",
    "a = all(number(x) and number(y) for x, y in [(1, 2), (0, 3), (4, 5)])",
    "a = all(number(x) for x in [5, 1, 0, 2] if x < 5 if number(x) < 3)",
    "a = next(x for x in [1, 2, 3] if number(x) > 1)",
    "a = next((x for x in [1, 2, 3] if x > 7), None)",
    "a = next((\n  (x) * (x)\n  for x in\n  [1, 2, 3]\n  if (x > 1)\n), None)\nb = 1",
    "a = next(x for x in [])",
    "a = next(iter([1]))",
    "a = any(max({x: 1}, key={x: 1}.get) and number(x) for x in [0, 1])",
    "a = [3, 1, 2]\na.sort(key=lambda each: half(-each))",
    "a = {'x': [3, 1]}\na['x'].sort(reverse=True)",
    "a = 1\na.sort(reverse=True)",
    "a = sorted([1, 2, 3], key=lambda each: -number(each))",
    "a = max([1, 2, 3], key=number)",
    "a = min([], key=number, default='none')",
    "a = max([], key=number)",
    "a = max(1, -5, key=lambda each: number(each * each))",
    "a = min([[2, 'first'], [2, 'second']], key=lambda each: number(each[0]))",
    "a = max([2, 'x'])",
    "a = list(map(number, [1, 2])); b = list(filter(number, [0, 7, 1]))",
    "a = round(2.675, 2); b = round(2.5); c = round(1234, -2); d = round(-1.005, 2)",
    "a = sorted([('b', 1), ('a', 1), ('c', 0)], key=lambda each: each[1], reverse=True)",
    "a = sum(number(x) for x in range(3)); b = [x for x in range(9) if number(x) > 3]",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", PROGRAMS)
def test_a_rewritten_program_does_what_it_does_in_python(text: str, form: str) -> None:
    fed, faults = fed_text(text, TOOLS, is_part=True)
    assert faults == ()
    assert fed.count("\n") == text.count("\n")
    values, calls, error = in_python(text, "abcd")
    if error:  # it does not get to its answer
        values = dict.fromkeys("abcd", "None")
    assert in_form(form, text, "abcd") == (values, calls, error)


@pytest.mark.parametrize("form", FORMS)
def test_a_deleted_variable_is_none(form: str) -> None:
    assert in_form(form, "a = 1\ndel a\nb = 2", "ab")[0] == {"a": "None", "b": "2"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("text(range(3))", ["text([0, 1, 2])"]),
        ("a = range(3)\ntext(value=a)", ["text([0, 1, 2])"]),
        ("text({'x': 1}.keys())", ["text(['x'])"]),
        ("text({'x': 1}.items())", ["text([['x', 1]])"]),
    ],
)
def test_a_range_or_a_view_reaches_a_tool_as_a_list(text: str, calls: list[str], form: str) -> None:
    assert in_form(form, text, ())[1] == calls


@pytest.mark.parametrize(
    "text",
    [
        "x = 'max(d, key=d.get)'",
        "x = {'get': 1}['get']",
        "'a'.upper()",
        "import math\nx = list(map(math.sqrt, [4]))",
        "def f(str):\n    return str",
        "x = dict.fromkeys([1])",
        "# del x\nx = 1",
    ],
)
def test_what_needs_no_change_is_not_changed(text: str) -> None:
    assert rewritten(Program(text), TOOLS) == text


@pytest.mark.parametrize("form", FORMS)
def test_a_field_of_a_record_with_the_name_of_a_method_is_read(form: str) -> None:
    values, _, error = in_form(
        form, "a = row.count + 1\nb = [row.index, [row.index.upper][0]()]", "ab"
    )
    assert (values, error) == ({"a": "3", "b": "['y', 'Y']"}, "")


@pytest.mark.parametrize("form", FORMS)
def test_calls_that_are_awaited_together_are_made(form: str) -> None:
    text = (
        "import asyncio\na = await asyncio.gather(number('ab'), number('abc'))\nb = await half(4)"
    )
    values, calls, error = in_form(form, text, "ab")
    assert (values, error) == ({"a": "[2, 3]", "b": "2.0"}, "")
    assert calls == ["number('ab')", "number('abc')", "half(4)"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "try:\n    answer(1)\nexcept BaseException:\n    answer(2)\nanswer(3)",
        "def f():\n    return [answer(each) for each in [1, 2]]\nf()",
    ],
)
def test_the_first_answer_counts_whatever_the_program_catches(text: str, form: str) -> None:
    assert ended_in_form(form, f"row.name\n{text}").answer == 1


@pytest.mark.parametrize("form", FORMS)
def test_an_error_says_its_line_and_what_was_raised(form: str) -> None:
    error = ended_in_form(form, "row.name\nb = half('x')\nanswer(b)").error
    assert error is not None
    assert (error.line, error.source) == (2, "b = half('x')")
    assert (error.text, error.raised) == ("ValueError: not a number", "ValueError")


@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_a_function_of_the_sandbox_has_no_line(form: str) -> None:
    error = ended_in_form(form, "row.name\nanswer(list(map(half, ['x'])))").error
    assert error is not None
    assert error.line == 2  # of the call of `map`, which is in the program


# ── what the sandbox lacks ────────────────────────────────────────────────────────────────────────

GAPS = {
    "methods as values": "'a'.upper",
    "methods of builtin types": "str.upper('a')",
    "del of an item": "x = [1]\ndel x[0]",
    "del of a name": "x = 1\ndel x",
    "generators": "def f():\n    yield 1",
    "generator expressions as iterators": "next(x for x in [1])",
    "tools as keys": "sorted([1], key=number)",
    "tools in keys": "max([1], key=lambda each: number(each))",
    "tools in map": "list(map(number, [1]))",
    "inheritance": "class A(Exception):\n    pass",
    "decorators of methods": "class A:\n    @property\n    def x(self):\n        return 1",
    "except*": "try:\n    1 / 0\nexcept* ZeroDivisionError:\n    pass",
    "int.bit_length": "(5).bit_length()",
    "str.translate": "'a'.translate({97: 'b'})",
    "str.format_map": "'{a}'.format_map({'a': 1})",
    "bytes of a list": "bytes([1])",
    "functions in re.sub": "import re\nre.sub('a', lambda found: 'b', 'a')",
    "statistics": "import statistics",
    "operator": "import operator",
    "string": "import string",
    "enum": "import enum",
    "fractions": "import fractions",
    "heapq": "import heapq",
    "textwrap": "import textwrap",
    "calendar": "import calendar",
    "open": "open('x')",
    "callable": "callable(1)",
    "issubclass": "issubclass(int, object)",
    "vars": "vars(1)",
    "staticmethod": "staticmethod",
    "bytearray": "bytearray(b'a')",
}  # fmt: skip


@pytest.mark.parametrize("gap", GAPS)
def test_the_sandbox_still_lacks_what_is_rewritten_or_reported(pool: Monty, gap: str) -> None:
    """If this fails after an upgrade, the sandbox has it now: remove the replacement."""
    with pool.checkout() as session, pytest.raises(MontyError):
        drive(session.feed_start(GAPS[gap]), [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round(2.675, 2)", 2.68),
        ("(x for x in [1])", [1]),
        ("range(3)", "range(0, 3)"),
        ("{1: 2}.keys()", "dict_keys([1])"),
        ("[].sort", AttributeError),
    ],
)
def test_the_sandbox_still_differs(pool: Monty, text: str, value: Any) -> None:
    """If this fails after an upgrade, the sandbox is as Python now: remove the replacement."""
    with pool.checkout() as session:
        if isinstance(value, type):
            with pytest.raises(MontyError):
                session.feed_run(text)
        else:
            assert session.feed_run(text) == value
