"""The tools that code calls: each asks by its own setting and its own agent, also after the code has ended."""

from __future__ import annotations

import asyncio
import functools
import pickle
import sys
import threading
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest

from archytas_nb.functions import origin
from archytas_nb.kernel.approval import Approver
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.guard import ToolGuard
from archytas_nb.kernel.python import python, python_tool
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from tests.scripted import Scripted

Names = dict[str, Any]


def wipe(table: str) -> str:
    """Wipe a table."""
    wiped.append(table)
    return f"{table} is gone"


wiped: list[str] = []


@pytest.fixture(autouse=True)
def nothing_is_wiped() -> None:
    wiped.clear()


def run(
    code: str, names: Names, *tools: Any, person: Any = None, approve: Any = None, allow: Any = ()
) -> CallOutcome:
    box = Toolbox(*tools)
    box.add(python_tool("unwatched"))
    person = Scripted() if person is None else person
    executor = KernelExecutor(box, names, approve=approve, person=person, allow=allow)
    [outcome] = executor.run([ToolCall("c", "python", {"code": code})])
    return outcome


def careful(function: Callable[..., Any] = wipe, **options: Any) -> Tool:
    return Tool.from_function(function, **{"approve": True, **options})


# ── which tool ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", ["wipe", "look", "other"])
def test_a_function_of_two_tools_asks_if_one_of_them_does(name: str, *, is_first: bool) -> None:
    """Who enters the function cannot be told to have meant one of the tools, whatever name it used."""
    free = Tool.from_function(wipe, name="look")
    tools = [careful(), free] if is_first else [free, careful()]
    names: Names = {"wipe": wipe, "other": wipe}
    refused = run(f"{name}('a')", names, *tools, person=Scripted("n"))
    assert (refused.status, refused.called, wiped) == ("error", (), [])
    assert run(f"{name}('b')", names, *tools, person=Scripted("y")).called == ("wipe",)
    assert wiped == ["b"]
    assert names["wipe"] is wipe
    assert "look" not in names


def test_two_tools_over_one_function_each_with_its_own_check() -> None:
    def small(table: str) -> bool:
        return table != "small"

    tools = [careful(approve=small), careful(name="never", approve=lambda table: "Really?")]
    names: Names = {"wipe": wipe}
    assert run("wipe('small')", names, *tools, person=Scripted("y")).status == "done"
    assert run("wipe('large')", names, *tools, person=Scripted("y", "n")).status == "error"
    assert wiped == ["small"]


def test_a_bound_method_is_guarded_under_its_name() -> None:
    class Shop:
        def wipe(self, table: str) -> str:
            """Wipe."""
            return wipe(table)

    shop = Shop()
    names: Names = {"clear": shop.wipe}
    refused = run("clear('a')", names, careful(shop.wipe), person=Scripted("n"))
    assert (refused.status, wiped) == ("error", [])
    assert names["clear"] == shop.wipe


def test_arguments_that_the_signature_does_not_have_never_run_unasked() -> None:
    """A decorated function may accept more than the function that it wraps."""

    @functools.wraps(wipe)
    def lenient(*args: Any, **kwargs: Any) -> str:
        return wipe("anything")

    outcome = run("lenient('a', force=True)", {"lenient": lenient}, careful(lenient))
    assert outcome.status == "error"
    assert "TypeError" in outcome.text
    assert wiped == []


@pytest.mark.parametrize(
    "code",
    [
        "jobs[0]('x')",
        "list(map(jobs[0], ['x']))",
        "list(map(*[jobs[0], ['x']]))",
        "list(map(jobs.copy().pop(), ['x']))",
        "(lambda f: f('x'))(*jobs)",
        "for job in jobs:\n    job('x')",
        "shop.wipe('x')",
        "list(map(shop.wipe, ['x']))",
    ],
)
def test_a_tool_in_a_variable_of_the_person_asks_too(code: str) -> None:
    """Another name, a list or an object holds the function that a tool calls."""
    names: Names = {"jobs": [wipe], "shop": types.SimpleNamespace(wipe=wipe)}
    refused = run(code, names, careful(), person=Scripted("n"))
    assert (refused.status, wiped) == ("error", [])
    assert run(code, names, careful(), person=Scripted("y")).called == ("wipe",)
    assert wiped == ["x"]
    assert names["jobs"] == [wipe]


# ── the person's variables ─────────────────────────────────────────────────────────────────────────


def test_variables_that_are_none_are_kept() -> None:
    names: Names = {"rows": None, "__spec__": None, "wipe": wipe, 3: None}  # type: ignore[dict-item]
    for tools in ([], [careful()], [wipe]):
        before = dict(names)
        assert run("x = None\ndel x", names, *tools).status == "done"
        del names["__builtins__"]
        assert names == before
        assert list(names) == list(before)


def test_only_the_names_that_were_added_for_the_call_are_taken_out() -> None:
    names: Names = {}
    run("kept = look\nlook = None", names, Tool.from_function(wipe, name="look"))
    assert names["look"] is None
    assert names["kept"] is wipe


def test_functions_in_containers_are_the_persons_own_again() -> None:
    names: Names = {"wipe": wipe, "old": [1, 2], "Mine": type("Mine", (list,), {})}
    code = """
from collections import *
old.append(wipe)
nested = {"a": [{"b": deque([wipe, 1])}], wipe: wipe, "c": 3}
both = (1, (wipe, [wipe]))
some = {wipe, 1}
ordered = OrderedDict(a=wipe, b=1)
default = defaultdict(list, a=[wipe])
mine = Mine([wipe])
itself = [wipe]
itself.append(itself)
"""
    assert run(code, names, careful()).status == "done"
    assert names["old"] == [1, 2, wipe]
    assert names["old"][2] is wipe
    assert names["nested"] == {"a": [{"b": deque([wipe, 1])}], wipe: wipe, "c": 3}
    assert list(names["nested"]) == ["a", wipe, "c"]
    assert names["both"] == (1, (wipe, [wipe]))
    assert names["some"] == {wipe, 1}
    assert names["ordered"] == OrderedDict(a=wipe, b=1)
    assert names["default"] == defaultdict(list, a=[wipe])
    assert list(names["mine"]) == [wipe]
    assert names["itself"][0] is wipe
    assert names["wipe"] is wipe


def test_containers_that_raise_anything_do_not_end_the_run() -> None:
    class Panic(BaseException):
        pass

    class Shy(dict[str, Any]):
        def __getattribute__(self, name: str) -> Any:
            raise Panic

    class Key:
        is_broken = False

        def __hash__(self) -> int:
            if self.is_broken:
                raise Panic
            return 1

    names: Names = {"wipe": wipe, "shy": Shy(), "key": Key(), "after": []}
    code = "shy['f'] = wipe\nbad = {key: wipe}\nkey.is_broken = True\nafter.append(wipe)"
    assert run(code, names, careful()).status == "done"
    assert dict.get(names["shy"], "f") is wipe
    assert names["after"] == [wipe]
    assert names["wipe"] is wipe


def test_containers_without_a_tool_are_not_touched() -> None:
    names: Names = {"wipe": wipe, "rows": (1, [2]), "deep": []}
    for _ in range(3_000):
        names["deep"] = [names["deep"]]
    rows = names["rows"]
    run("f = [wipe]", names, careful())
    assert names["rows"] is rows
    assert names["f"][0] is wipe


def test_functions_are_found_among_many_containers() -> None:
    names: Names = {"wipe": wipe, "many": [[n] for n in range(150_000)], "near": []}
    run("near.append({'a': wipe})\nmany[-1].append(wipe)", names, careful())
    assert names["near"][0]["a"] is wipe
    assert names["many"][-1][1] is wipe


# ── after the code has ended ───────────────────────────────────────────────────────────────────────

LATER = {
    "a lambda": "later(lambda: wipe('x'))",
    "a function": "def f():\n    wipe('x')\nlater(f)",
    "a function of the function": "def f():\n    def g():\n        return wipe\n    g()('x')\nlater(f)",
    "another name": "other = wipe\nlater(lambda: other('x'))",
    "the argument of another function": "later(lambda: list(map(wipe, ['x'])))",
    "a default": "def f(w=wipe):\n    w('x')\nlater(f)",
    "a closure": "def f(w):\n    return lambda: w('x')\nlater(f(wipe))",
    "a list": "jobs = [wipe]\nlater(lambda: jobs[0]('x'))",
    "a loop over a list": "jobs = [wipe]\ndef f():\n    for job in jobs:\n        job('x')\nlater(f)",
    "a dict": "jobs = {'a': wipe}\nlater(lambda: jobs['a']('x'))",
    "a method": "class A:\n    def f(self):\n        wipe('x')\nlater(A().f)",
    "an attribute": "class A:\n    f = staticmethod(wipe)\nlater(lambda: A.f('x'))",
    "a generator": "g = (wipe(each) for each in ['x'])\nlater(lambda: list(g))",
    "a generator function": "def f():\n    yield wipe('x')\nlater(lambda: list(f()))",
    "a comprehension": "later(lambda: [wipe(each) for each in ['x']])",
    "a decorator": "def f():\n    @wipe\n    def g(): pass\nlater(f)",
    "a conditional": "later(lambda: (wipe if 1 else print)('x'))",
    "an f-string": "later(lambda: f\"{wipe('x')}\")",
    "a match": "def f():\n    match 1:\n        case 1 if wipe('x'): pass\nlater(f)",
    "an assignment": "def f():\n    w: 'type' = wipe\n    w('x')\nlater(f)",
    "a name of the tool": "later(lambda: clear('x'))",
    "an item that is passed on": "jobs = {'a': wipe}\nlater(lambda: list(map(jobs['a'], ['x'])))",
    "an item that a call returns": "jobs = {'a': wipe}\nlater(lambda: list(map(jobs.get('a'), ['x'])))",
    "an attribute that is passed on": "class A:\n    f = staticmethod(wipe)\nlater(lambda: list(map(A.f, ['x'])))",
    "a global that is passed on": "later(lambda: list(map(globals()['wipe'], ['x'])))",
    "a job that is unpacked": "jobs = [(wipe, ['x'])]\nlater(lambda: list(map(*jobs[0])))",
    "an item in a list": "jobs = [wipe]\nlater(lambda: [f('x') for f in [jobs[0]]])",
    "an item in a closure": "jobs = [wipe]\nlater((lambda f: lambda: list(map(f, ['x'])))(jobs[0]))",
    "a partial of an item": "import functools\njobs = [wipe]\nlater(lambda: functools.partial(jobs[0])('x'))",
    "what is awaited": "async def f():\n    return jobs[0]\nasync def g():\n    return (await f())('x')\n"
    "jobs = [wipe]\nimport asyncio\nlater(lambda: asyncio.run(g()))",
}


@pytest.mark.parametrize("code", LATER.values(), ids=LATER.keys())
def test_a_tool_that_code_calls_after_its_end_does_not_run_unasked(code: str) -> None:
    """The code hands a function to somebody who calls it later, as a timer, a thread or a task does."""
    kept: list[Callable[..., Any]] = []

    def later(function: Callable[..., Any]) -> None:
        kept.append(function)

    clear = functools.partial(wipe)
    functools.update_wrapper(clear, wipe)
    names: Names = {"wipe": wipe, "later": later}
    person = Scripted()
    tools = [careful(), careful(clear, name="clear")]
    names["clear"] = clear
    assert run(code, names, *tools, person=person).status == "done"
    assert names["wipe"] is wipe
    [function] = kept
    with pytest.raises(PermissionError, match="needs approval"):
        function()
    assert (wiped, person.prompts) == ([], [])
    for options in ({"approve": "auto"}, {"allow": ["wipe", "clear"]}):
        kept.clear()
        assert run(code, names, *tools, **options).status == "done"
        kept[0]()
        assert len(wiped) == 1
        wiped.clear()


def test_timers_threads_and_tasks_are_refused_by_the_agent_of_the_code() -> None:
    failures: list[str] = []
    ended = threading.Event()
    names: Names = {"wipe": wipe, "failures": failures, "ended": ended}
    code = """
import asyncio, threading

def attempt():
    ended.wait(10)
    try:
        wipe("x")
    except PermissionError as error:
        failures.append(str(error))

async def task():
    attempt()

timer = threading.Timer(0.01, attempt)
thread = threading.Thread(target=attempt)
timer.start()
thread.start()
future = asyncio.ensure_future(task(), loop=loop)
loop.call_later(0.01, attempt)
"""
    loop = asyncio.new_event_loop()
    names["loop"] = loop
    try:
        assert run(code, names, careful()).status == "done"
        ended.set()
        names["timer"].join(10)
        names["thread"].join(10)
        loop.run_until_complete(names["future"])
        loop.run_until_complete(asyncio.sleep(0.05))
    finally:
        loop.close()
    assert len(failures) == 4
    assert wiped == []


def test_a_function_that_decides_does_so_after_the_end_as_well() -> None:
    decided: list[Any] = []

    def decide(tool: Tool, call: ToolCall) -> str:
        decided.append(call.input)
        is_code = tool.name == "python"
        return "" if is_code or call.input == {"table": "a"} else "Only a."

    names: Names = {"wipe": wipe}
    run("def f(table):\n    return wipe(table)", names, Tool.from_function(wipe), approve=decide)
    assert names["f"]("a") == "a is gone"
    with pytest.raises(PermissionError, match="Only a"):
        names["f"]("b")
    assert decided[1:] == [{"table": "a"}, {"table": "b"}]


def test_a_function_that_code_defined_asks_again_when_later_code_calls_it() -> None:
    names: Names = {"wipe": wipe}
    run("def f():\n    return wipe('x')", names, careful())
    assert run("f()", names, careful(), person=Scripted("y")).value == "x is gone"
    assert run("f()", names, careful(), person=Scripted("n")).status == "error"
    assert wiped == ["x"]
    wipe("y")  # the person's own call is nobody's business
    assert names["wipe"]("z") == "z is gone"


def test_in_another_process_the_tools_are_refused() -> None:
    guard = pickle.loads(pickle.dumps(ToolGuard([careful()])))
    with origin.started_by(guard), pytest.raises(PermissionError):
        guard.decided([careful()], ("x",), {}, lambda: wipe("x"))
    assert wiped == []


# ── two agents ─────────────────────────────────────────────────────────────────────────────────────


def test_two_agents_in_threads_each_ask_their_own_person() -> None:
    """The first one's code ends while the second one's runs, and the other way around."""
    for first_ends in (True, False):
        wiped.clear()
        inside, release = threading.Barrier(2), {1: threading.Event(), 2: threading.Event()}
        names: Names = {"wipe": wipe, "inside": inside, "release": release}
        persons = {1: Scripted("n, I am one"), 2: Scripted("n, I am two")}
        outcomes: dict[int, CallOutcome] = {}

        def work(
            number: int, names: Names = names, persons: Any = persons, outcomes: Any = outcomes
        ) -> None:
            code = f"inside.wait(10)\nrelease[{number}].wait(10)\nwipe('x')"
            outcomes[number] = run(code, names, careful(), person=persons[number])

        threads = {n: threading.Thread(target=work, args=(n,)) for n in (1, 2)}
        for thread in threads.values():
            thread.start()
        for number in (1, 2) if first_ends else (2, 1):
            release[number].set()
            threads[number].join(10)
        for number, word in ((1, "I am one"), (2, "I am two")):
            assert outcomes[number].status == "error"
            assert word in outcomes[number].text
            assert len(persons[number].prompts) == 1
        assert wiped == []
        assert names["wipe"] is wipe


def test_an_agent_whose_code_ends_leaves_the_guard_of_another_one_on() -> None:
    names: Names = {"wipe": wipe, "jobs": []}

    def call_it() -> str:
        """Run the code of another agent while this one's runs."""
        return run("jobs.append(wipe)\n1", names, careful()).text

    code = "inner()\nreached = jobs[0] is not None\njobs[0]('x')"
    outcome = run(
        code, names, careful(), Tool.from_function(call_it, name="inner"), person=Scripted("n")
    )
    assert outcome.status == "error"
    assert (wiped, names["reached"]) == ([], True)
    assert names["wipe"] is wipe
    assert names["jobs"] == [wipe]


# ── what a mark does to code ──────────────────────────────────────────────────────────────────────

PROGRAMS = [
    "class A:\n    def f(self): return 1\nclass B(A):\n    def f(self): return super().f() + 1\nB().f()",
    "class A:\n    x = 2\n    def f(self): return __class__.x\nA().f()",
    "def f(n): return 1 if n < 2 else n * f(n - 1)\nf(10)",
    "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n    return g(), g()\nf()",
    "def f():\n    global n\n    n = 5\n    n += len([1])\n    del n\n    return 'n' in globals()\nf()",
    "def f(x):\n    match x:\n        case {'a': [int(y), *_]} if y > 0: return y\n        case str(): return len(x)\nf({'a': [3]}), f('ab')",
    "from __future__ import annotations\ndef f(x: int) -> undefined:\n    y: other = x\n    return y\nf(1), f.__annotations__",
    "def f(): return [a * b for a in range(3) for b in range(a) if a]\nf()",
    "def f(a, *b, c=1, **d): return a, b, c, d\n(lambda *x, **y: f(*x, **y))(1, 2, c=3, d=4)",
    "def f():\n    try:\n        raise KeyError(1)\n    except (KeyError, ValueError) as e:\n        return type(e).__name__, e.args\nf()",
    "def f(x): return f'{x!r:>{len(x) + 3}}'\nf('a')",
    "class P:\n    def __matmul__(self, o): return o * 2\ndef f(p): return p @ 3\nf(P())",
    "def f():\n    return locals(), sorted(vars())\nf()",
    "def f():\n    a = b, *c = 1, 2, 3\n    d = {}\n    d['x'] = (y := 4)\n    return a, b, c, d, y\nf()",
    "async def f():\n    return [x async for x in g()]\nasync def g():\n    yield 1\nawait f()",
    "def deco(x):\n    return lambda f: lambda *a: f(*a) + x\n@deco(len('abc'))\ndef f(a=max(1, 2)): return a\nf(4)",
    "import contextlib\n@contextlib.contextmanager\ndef c():\n    yield 5\ndef f():\n    with c() as x, c() as y:\n        return x + y\nf()",
    "sorted([3, 1], key=lambda x: -abs(x))",
    "def f():\n    '''Doc.'''\n    return f.__doc__, f.__name__\nf()",
    "def f(): return (lambda: (yield))().__class__.__name__\nf()",
    "def f():\n    import os.path as p\n    from math import pi\n    return p.basename('a/b'), pi > 3\nf()",
    "x = [1, 2]\ndef f():\n    x[0], x[1] = x[1], x[0]\n    x.append(9)\n    return x\nf()",
    "def f(): raise ValueError('no')\nf()",
    "def f():\n    assert [], 'empty'\nf()",
    "type('A', (), {'f': lambda s: s.__class__.__name__})().f()",
    "def f(*a): return a\ndef g():\n    yield 1\n    raise TypeError('no')\nf(*g())",
    "def f(*a): return a\nf(*5)",
    "def f(*a): return a\nf(*'ab', *[1], *range(2), *(x for x in [3]), *{}, **{})",
    "class A:\n    x = [1, 2]\n    y = {}\nA.x[0] += 1\nA.y['a'] = A.x[-1:]\ndel A.x[0]\nA.x, A.y",
    "class A:\n    def __getattr__(self, name): raise AttributeError(name)\nhasattr(A(), 'x'), getattr(A(), 'y', 3)",
    "try:\n    raise OSError\nexcept __builtins__['OSError'] as e:\n    repr(e)",
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_marked_code_does_what_it_does_without_a_mark(code: str) -> None:
    def ended(guard: ToolGuard | None) -> Any:
        token = origin.current.set(guard)
        try:
            value = python(code, {"__name__": "__main__"})
            return repr(asyncio.run(value) if asyncio.iscoroutine(value) else value)
        except Exception as error:
            lines = []
            traceback = error.__traceback__
            while traceback is not None:
                lines.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
                traceback = traceback.tb_next
            return repr(error), lines[1:]
        finally:
            origin.current.reset(token)

    assert ended(ToolGuard([careful()], Approver("ask", (), Scripted()))) == ended(None)


def test_a_guard_is_forgotten_when_nothing_refers_to_it() -> None:
    import gc
    import weakref

    names: Names = {"wipe": wipe}
    run("def f():\n    return wipe", names, careful())
    guard = names["f"].__code__.co_consts[-1]
    assert isinstance(guard, ToolGuard)
    kept = weakref.ref(guard)
    del guard, names["f"]
    sys.last_value = None
    gc.collect()
    assert kept() is None
