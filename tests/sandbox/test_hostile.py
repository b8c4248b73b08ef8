"""Programs that try to break the session itself: each ends, in time, and the next one runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from archytas_nb.loop.events import CallOutcome, ProgramCall, ProgramEnded, ProgramFaults
from archytas_nb.sandbox.session import Bounds
from tests.sandbox.programs import Programs

RESULTS: dict[str, Any] = {
    "none": None, "nan": float("nan"), "inf": float("-inf"), "huge": 10**5_000,
    "text": "x" * 5_000_000, "many": list(range(1_000_000)), "deep": [[[[[[]]]]]],
    "frame": pd.DataFrame({"a": [1]}), "array": np.zeros((3, 4)), "nat": pd.NaT,
    "class": int, "function": len, "half": "\ud800", "nul": "a\0b", "keys": {(1, 2): 3, None: 4},
    "error": ValueError("a value"), "self": None, "bytes": b"\xff\x00", "generator": iter([1]),
}  # fmt: skip
RESULTS["self"] = [1]
RESULTS["self"].append(RESULTS["self"])
for _ in range(3_000):
    RESULTS["deep"] = [RESULTS["deep"]]


class Odd(Exception):
    """An error that raises when it is read."""

    def __str__(self) -> str:
        raise RuntimeError("not to be read")

    __repr__ = __str__


ERRORS: dict[str, BaseException] = {
    "odd": Odd("x"), "recursion": RecursionError("deep"), "memory": MemoryError(),
    "stop": StopIteration(3), "exit": SystemExit("out"), "generator": GeneratorExit(),
    "assertion": AssertionError(), "name": NameError("name 'answer' is not defined"),
    "markup": ValueError("</script>\x1b[31m\u202e{0.__class__}%s" * 50),
    "group": OSError("a", "b", "c"),
}  # fmt: skip

# The value of the answer, for a program that gives one; None for any other ending.
PROGRAMS: dict[str, tuple[str, Any]] = {
    "answered twice": ("answer(1)\nanswer(2)", 1),
    "answered in a loop": ("for n in range(5):\n    answer(n)", 0),
    "answered in a function": ("def f(n):\n    answer(n)\nf(3)\nanswer(4)", 3),
    "answered in a comprehension": ("[answer(n) for n in [7, 8]]", 7),
    "answered in a lambda": ("(lambda: answer(5))()", 5),
    "answered while handling": ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    answer(2)", 2),
    "answered at last": ("try:\n    1 / 0\nfinally:\n    answer(3)", 3),
    "answered in a class": ("class A:\n    answer(4)\nanswer(5)", None),
    "answered in a default": ("def f(n=answer(6)):\n    pass\nanswer(7)", 6),
    "answered in an f-string": ("f'{answer(8)}'\nanswer(9)", 8),
    "answered in a condition": ("if answer(1) or True:\n    answer(2)", 1),
    "answered and given up": ("answer(1)\ngive_up('no')", 1),
    "given up and answered": ("give_up('no')\nanswer(1)", None),
    "answered by a sort": ("sorted([2, 1], key=lambda each: answer(each))", 2),
    "answered by any": ("any(answer(n) for n in [3, 4])", 3),
    "answered with itself": ("answer(answer)", None),
    "answered with a function": ("def f():\n    return 1\nanswer(f())", 1),
    "answered with a list in itself": ("a = [1]\na.append(a)\nanswer(a)", ...),
    "answered never": ("if False:\n    answer(1)", None),
    "answered at once": ("import asyncio\nasync def f():\n    answer(1)\nawait f()", 1),
    "a deep list": ("x = []\nfor n in range(5_000):\n    x = [x]\nanswer(x)", ...),
    "a deep expression": (f"answer({'(' * 150}1{')' * 150})", ...),
    "a long sum": (f"answer({'+'.join(['1'] * 3_000)})", ...),
    "a deep function": ("def f(n):\n    return f(n + 1)\nf(0)", None),
    "a deep lambda": ("f = lambda n: f(n)\nf(1)", None),
    "a function in itself": ("def f():\n    f.x = f\n    return f\nshow(f())", None),
    "a huge number": ("answer(10 ** 4_500)", ...),
    "a huge number as a text": ("answer(str(10 ** 4_500))", ...),
    "a huge power": ("answer(2 ** 2 ** 30)", None),
    "a huge division": ("x = 10 ** 200_000\nanswer(x // 3 > 0)", ...),
    "a float of a huge number": ("answer(float(10 ** 400))", None),
    "a huge format": ("answer(f'{1:>99999999999}')", None),
    "a nested format": ("w = 10 ** 9\nanswer(f'{1:{w}}')", None),
    "a format of a field": ("answer('{0.real}'.format(1))", ...),
    "a percent format": ("answer('%*d' % (10 ** 9, 1))", None),
    "a hash bomb": ("d = {str(n): n for n in range(10 ** 6)}\nanswer(len(d))", ...),
    "names of other letters": ("ｐrice = 3\nanswer(ｐrice)", None),
    "names that look alike": ("рrice = 3\nanswer(рrice)", 3),
    "names with marks": ("e\u0301 = 1\n\u00e9 = 2\nanswer(e\u0301)", 2),
    "names of the sandbox": ("＿sandbox_list = 3\nanswer(1)", None),
    "a name of a thousand letters": (f"{'a' * 1_000} = 1\nanswer({'a' * 1_000})", 1),
    "a thousand names": ("\n".join(f"v{n} = {n}" for n in range(1_000)) + "\nanswer(v999)", 999),
    "a line separator": ("a = 'x\u2028y'\nanswer(a)", "x\u2028y"),
    "a form feed": ("\f\na = 1\n\fanswer(a)", 1),
    "a tab and spaces": ("if True:\n\ta = 1\n        answer(2)", ...),
    "a nul": ("answer('\0')", ...),
    "half of a letter": ("answer('\\ud800')", ...),
    "a backslash at the end": ("answer(1) \\", ...),
    "a comment only": ("# answer(1)", None),
    "nothing": ("", None),
    "a walrus": ("if (n := 3) > 2:\n    answer(n)", 3),
    "a match": ("match [1, 2]:\n    case [a, *b]:\n        answer(b)", [2]),
    "a global": ("def f():\n    global x\n    x = 1\nf()\nanswer(x)", 1),
    "a nonlocal": (
        ("def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    g()\n"
        "    return x\nanswer(f())"),
        2),
    "an error in an error": ("try:\n    1 / 0\nexcept Exception as e:\n    raise ValueError(e) from e", None),
    "an error without end": ("def f():\n    try:\n        f()\n    finally:\n        f()\nf()", None),
    "an exit": ("raise SystemExit('out')", None),
    "an interrupt": ("raise KeyboardInterrupt", None),
    "a swallowed interrupt": ("try:\n    raise KeyboardInterrupt\nexcept BaseException:\n    answer(1)", 1),
    "a stop": ("next(iter([]))", None),
    "an assertion": ("assert False, {'a': [1] * 100_000}", None),
    "a bare raise": ("raise", None),
    "an iterator that never ends": ("import itertools\nlist(itertools.count())", None),
    "a cycle": ("import itertools\nsum(itertools.cycle([1]))", None),
    "a product": ("import itertools\nlist(itertools.product(range(99), repeat=9))", None),
    "a regular expression": ("import re\nanswer(bool(re.match('(a+)+$', 'a' * 40 + 'b')))", ...),
    "a json": ("import json\nanswer(json.loads('[' * 5_000 + ']' * 5_000))", ...),
    "a sleep": ("import time\ntime.sleep(10_000)\nanswer(1)", 1),
    "a class of slots": ("class A:\n    __slots__ = ('a',)\nx = A()\nx.a = 1\nanswer(x.a)", ...),
    "a class that is odd": (
        ("class A:\n    def __eq__(self, other):\n        return 1 / 0\n"
        "answer(A() == A())"),
        ...),
    "a repr that raises": ("class A:\n    def __repr__(self):\n        return 1 / 0\nshow(A())\nanswer(1)", ...),
    "a repr without end": ("class A:\n    def __repr__(self):\n        return repr(self)\na = A()\nshow(a)", None),
    "a gather of nothing": ("import asyncio\nawait asyncio.gather()\nanswer(1)", ...),
    "calls that are not awaited": ("a = [price(item=n) for n in 'abc']\nanswer(a)", [1.5, 1.5, 1.5]),
    "many shows": ("for n in range(500):\n    show('x' * 10_000)", None),
    "a show of nothing": ("show()\nanswer(1)", 1),
    "a print without end": ("print('x' * 10 ** 7, end='')\nanswer(1)", 1),
}  # fmt: skip


@pytest.fixture
def programs() -> Iterator[Programs]:
    made = Programs({"frame": pd.DataFrame({"a": [1]}), "number": 3}, Bounds(seconds=0.5, calls=50))
    made.run("kept = 1")
    yield made
    assert made.run("(kept, number, price(item='ab'))").shown == ("(1, 3, 3.0)",)
    made.next_question()
    assert made.run("kept").shown == ("1",)
    made.session.close()


def _marked(name: str) -> Any:
    marks = () if name.startswith(("answered", "name", "a huge number")) else pytest.mark.slow
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [_marked(each) for each in PROGRAMS])
def test_a_hostile_program_ends_and_the_next_one_runs(programs: Programs, name: str) -> None:
    text, answer = PROGRAMS[name]
    started = time.monotonic()
    reply = programs.reply(text)
    seconds = time.monotonic() - started
    print(f"{name}: {seconds:.2f} s, {str(reply)[:150]}")
    assert isinstance(reply, (ProgramEnded, ProgramFaults))
    if answer is ...:
        return
    if answer is None:
        assert isinstance(reply, ProgramFaults) or not reply.has_answer
    else:
        assert isinstance(reply, ProgramEnded), reply
        assert (reply.has_answer, reply.answer) == (True, answer)


def returned(value: Any) -> Any:
    return lambda _: CallOutcome("done", "a result", value=value)


@pytest.mark.parametrize("name", RESULTS)
def test_a_tool_may_return_anything(programs: Programs, name: str) -> None:
    programs.answered = returned(RESULTS[name])
    try:
        ended = programs.run("x = price(item='a')\nsame = x is x\nshow(x)\ny = [x, x]\nshow(y)")
        assert "same" in ended.assigned or ended.error is not None
        passed: list[ProgramCall] = []
        programs.answered = lambda call: passed.append(call) or returned(1)(call)  # type: ignore[func-returns-value]
        programs.reply("rows(frame=x)\nanswer(x)")
    finally:
        programs.answered = programs.call


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize(
    "text",
    [
        "x = price(item='a')",
        "try:\n    price(item='a')\nexcept Exception as e:\n    show(e, e.args)",
    ],
)
def test_a_tool_may_raise_anything(programs: Programs, name: str, text: str) -> None:
    programs.answered = lambda _: CallOutcome("error", "it failed", error=ERRORS[name])
    try:
        ended = programs.run(text)
        assert ended.error is not None or ended.shown
    finally:
        programs.answered = programs.call
