"""By no way of calling does code of a model run a tool unasked, and by none is the person asked for a call of their own."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import inspect
import math
import multiprocessing
import multiprocessing.pool
import signal
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import archytas_nb
from archytas_nb.functions.door import Door, code_of, open_again, shut
from archytas_nb.kernel import guard
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.python import python_tool
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from tests.kernel.ways import PLACES, RAISING, SETUP, Way, pairs
from tests.scripted import Scripted

Names = dict[str, Any]

OFFERS = ("offered", "switched off", "of another agent")


class Person:
    """Gives one answer to every question, and counts them."""

    there = True

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked = 0

    def ask(self, *_: Any) -> str:
        self.asked += 1
        return self.answer


@pytest.fixture(scope="module")
def pools() -> Iterator[Names]:
    """Pools of the person, whose threads run before any code of a model does."""
    with (
        concurrent.futures.ThreadPoolExecutor(1) as pool,
        multiprocessing.pool.ThreadPool(1) as old,
    ):
        pool.submit(len, "").result()
        old.map(len, [""])
        yield {"pool": pool, "old_pool": old}


def namespace(pools: Names) -> Names:
    names: Names = {"__name__": "a_notebook", "ran": [], **pools}
    exec(compile(SETUP + RAISING, "a cell", "exec"), names)
    return names


def run(way: Way, names: Names, offer: str, person: Person, **options: Any) -> CallOutcome:
    """Run the code as that of a model whose agent has the tool, or has it not."""
    drop = Tool.from_function(names["drop"], approve=True)
    box = Toolbox(drop) if offer == "offered" else Toolbox(Tool.from_function(len_of))
    other = Toolbox(drop)
    if offer == "switched off":
        other.disable("drop")
    box.add(python_tool("unwatched"))
    executor = KernelExecutor(box, names, person=person, **options)
    [outcome] = executor.run([ToolCall("c", "python", {"code": way.code})])
    assert len(other) == 1  # it is there all the time
    return outcome


def len_of(text: str) -> int:
    """How long a text is.

    Args:
        text: The text.
    """
    return len(text)


def tried(way: Way, offer: str, pools: Names) -> list[str]:
    """The fault of a way; raises the error of the person's own call."""
    faults = []
    names = namespace(pools)
    ran = names["ran"]
    exec(compile(way.code, "a cell", "exec"), names)
    if not ran:
        return ["the person's own call does not run it"]
    names = namespace(pools)
    ran = names["ran"]
    person = Person("n")
    refused = run(way, names, offer, person)
    if ran:
        faults.append("it ran although it was refused")
    if not person.asked:
        faults.append("nobody was asked")
    if "PermissionError" not in refused.text:
        faults.append(f"the code was not told: {refused.text}")
    person = Person("y")
    run(way, names, offer, person)
    if not ran or not person.asked:
        faults.append("it did not run, or nobody was asked, although the answer was yes")
    ran.clear()
    person = Person("n")
    run(way, names, offer, person, approve="auto")
    if not ran or person.asked:
        faults.append("it did not run, or somebody was asked, although all is allowed")
    ran.clear()
    exec(compile(way.code, "a cell", "exec"), names)
    if not ran or person.asked:
        faults.append("afterwards, the person's own call does not run it, or is asked about")
    return faults


def faults_of(ways: list[Way], pools: Names) -> dict[str, Any]:
    faults: dict[str, Any] = {}
    for number, way in enumerate(ways):
        offer = OFFERS[number % len(OFFERS)]
        try:
            found = tried(way, offer, pools)
        except Exception as error:
            found = [repr(error)]
        if found:
            faults[f"{way}, {offer}"] = found
    return faults


def test_a_sample_of_the_ways_asks_and_only_for_code_of_a_model(pools: Names) -> None:
    sample = pairs()[:: max(len(pairs()) // 220, 1)]
    assert len(sample) >= 200
    assert faults_of(sample, pools) == {}


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_all_ways_ask_and_only_for_code_of_a_model(place: str, pools: Names) -> None:
    assert faults_of([each for each in pairs() if each.place == place], pools) == {}


# ── calls that nobody can see coming ───────────────────────────────────────────────────────────────


def late(code: str, pools: Names, **options: Any) -> tuple[Names, Person, CallOutcome]:
    """Run code of a model that leaves something behind."""
    names = namespace(pools)
    names["go"] = threading.Event()
    person = Person("y")
    drop = Tool.from_function(names["drop"], approve=True)
    box = Toolbox(drop)
    box.add(python_tool("unwatched"))
    executor = KernelExecutor(box, names, person=person, **options)
    [outcome] = executor.run([ToolCall("c", "python", {"code": code})])
    return names, person, outcome


LEFT = {
    "a thread that has the function": "t = threading.Thread(target=lambda f: (go.wait(), f('x')), args=(drop,))\nt.start()",
    "a timer": "t = threading.Timer(0.05, drop, ['x'])\nt.start()",
    "a timer of the person's function": "t = threading.Timer(0.05, own, ['x'])\nt.start()",
    "work for a pool": "t = pool.submit(lambda: (go.wait(), drop('x')))",
    "the function itself for a pool": "pool.submit(go.wait)\nt = pool.submit(drop, 'x')",
    "a generator": "g = (drop(each) for each in ['x'])",
    "a finalizer": "class C: pass\no = C()\nweakref.finalize(o, lambda: drop('x'))",
    "a destructor": "class C:\n    def __del__(self): drop('x')\no = C()",
    "a property": "class C:\n    @property\n    def p(self): return drop('x')",
    "a function that calls the person's": "def g(): return own('x')",
    "a decorator": "def twice(f): return lambda *a: (f(*a), f(*a))",
}
LATER = {
    "a generator": "next(g)",
    "a finalizer": "del o",
    "a destructor": "del o",
    "a property": "C().p",
    "a function that calls the person's": "g()",
    "a decorator": "twice(drop)('x')",
}


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_code_has_left_behind_runs_nothing_unasked(left: str, pools: Names) -> None:
    names, person, outcome = late(LEFT[left], pools)
    assert outcome.status == "done", outcome.text
    names["go"].set()
    if left in LATER:
        with contextlib.suppress(PermissionError):
            exec(compile(LATER[left], "a cell", "exec"), names)
    else:
        with contextlib.suppress(PermissionError):
            names["t"].result(10) if hasattr(names["t"], "result") else names["t"].join(10)
    assert (names["ran"], person.asked) == ([], 0)
    exec(compile("drop('mine')\nlist(map(own, ['too']))", "a cell", "exec"), names)
    assert (names["ran"], person.asked) == (["mine", "too"], 0)


OF_THE_PERSON = {
    "a loop": "def loop():\n    while not go.wait(0.01):\n        drop('mine')\nt = threading.Thread(target=loop)\nt.start()",
    "a function": "t = threading.Thread(target=drop, args=('mine',))\nthreading.Timer(0.05, t.start).start()",
    "a timer": "t = threading.Timer(0.1, drop, ['mine'])\nt.start()",
    "a timer of a partial": "t = threading.Timer(0.1, functools.partial(drop, 'mine'))\nt.start()",
    "a library": "def loop():\n    while not go.wait(0.01):\n        df['a'].map(drop)\nt = threading.Thread(target=loop)\nt.start()",
}


@pytest.mark.parametrize("thread", OF_THE_PERSON)
def test_threads_of_the_person_are_never_asked_about(thread: str, pools: Names) -> None:
    names = namespace(pools)
    names["go"] = threading.Event()
    person = Person("n")
    drop = Tool.from_function(names["drop"], approve=True)
    box = Toolbox(drop)
    box.add(python_tool("unwatched"))
    executor = KernelExecutor(box, names, person=person)
    exec(compile(OF_THE_PERSON[thread], "a cell", "exec"), names)
    code = "import time\nwhile not ran:\n    time.sleep(0.01)\ncount = len(ran)"
    [outcome] = executor.run([ToolCall("c", "python", {"code": code})], 20)
    names["go"].set()
    names["t"].join(10)
    assert (outcome.status, person.asked) == ("done", 0)
    assert names["count"]


WORKERS = {
    "the function": "q.put((drop, 'x'))\nq.join()",
    "the person's function": "q.put((own, 'x'))\nq.join()",
    "a partial": "q.put((functools.partial(drop), 'x'))\nq.join()",
}


@pytest.mark.parametrize("work", WORKERS)
def test_a_thread_that_does_what_it_is_given_is_asked_about(work: str, pools: Names) -> None:
    names, _, _ = late("pass", pools)
    setup = """
q = queue.Queue()
def worker():
    while True:
        f, table = q.get()
        try:
            f(table)
        except PermissionError:
            pass
        q.task_done()
threading.Thread(target=worker, daemon=True).start()
"""
    exec(compile(setup, "a cell", "exec"), names)
    person = Person("n")
    box = Toolbox(Tool.from_function(names["drop"], approve=True))
    box.add(python_tool("unwatched"))
    KernelExecutor(box, names, person=person).run(
        [ToolCall("c", "python", {"code": WORKERS[work]})]
    )
    assert (names["ran"], person.asked) == ([], 1)


def test_an_agent_that_code_makes_allows_itself_nothing(pools: Names) -> None:
    code = "nb.Agent([drop], approve='auto', model=model).run('Do it.')"
    for call in (("drop", {"table": "x"}), ("python", {"code": "drop('x')"})):
        names = namespace(pools)
        names["nb"] = archytas_nb
        names["model"] = ScriptedModel(call, ("final_answer", "Done."))
        person = Person("n")
        box = Toolbox(Tool.from_function(names["drop"], approve=True))
        box.add(python_tool("unwatched"))
        text = code.replace("model=", "python='unwatched', model=")
        KernelExecutor(box, names, person=person).run([ToolCall("c", "python", {"code": text})])
        assert (names["ran"], person.asked) == ([], 1)


# ── what a shut door does not change ───────────────────────────────────────────────────────────────


def test_a_function_whose_door_is_shut_looks_as_it_did(pools: Names) -> None:
    names = namespace(pools)
    drop = names["drop"]
    before = (inspect.signature(drop), drop.__doc__, drop.__defaults__, drop.__code__.co_filename)
    lines = drop.__code__.co_firstlineno
    Tool.from_function(drop, approve=True)
    names.update(inspect=inspect)
    code = (
        "seen = inspect.signature(drop), drop.__doc__, drop.__defaults__, drop.__code__.co_filename"
    )
    late_code = f"{code}\nline = drop.__code__.co_firstlineno\nshut = drop.__code__"
    box = Toolbox(Tool.from_function(drop, approve=True))
    box.add(python_tool("unwatched"))
    [outcome] = KernelExecutor(box, names).run([ToolCall("c", "python", {"code": late_code})])
    assert outcome.status == "done", outcome.text
    assert names["seen"] == before
    assert names["line"] == lines
    assert names["shut"] is not drop.__code__


@pytest.mark.parametrize(
    "source",
    [
        "def f(a, /, b=2, *c, d, e=5, **g): return a, b, c, d, e, g",
        "def f(*, a): return a",
        "def f(): return 1",
        "def f(a, b): return __class__",
        "async def f(a): return a",
        "def f(a):\n    yield a",
        "async def f(a):\n    yield a",
    ],
)
def test_a_stub_has_the_parameters_and_the_kind_of_the_function(source: str) -> None:
    names: Names = {}
    exec(f"def make(__class__):\n{textwrap.indent(source, '    ')}\n    return f", names)
    f = names["make"](int)
    kinds = (
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
        inspect.signature,
    )
    before = [each(f) for each in kinds]
    given = []

    def enter(at: Door, args: tuple[Any, ...], kwargs: Names) -> Any:
        given.append((args, kwargs))
        return at.body(*args, **kwargs)

    own = f.__code__
    shut(f, enter)
    assert [each(f) for each in kinds] == before
    assert f.__code__ is not own
    assert code_of(f) is own
    named = {
        each.name: 7 for each in before[3].parameters.values() if each.kind is each.KEYWORD_ONLY
    }
    positional = [1 for each in before[3].parameters.values() if each.kind in (0, 1)]
    result = f(*positional, **named)
    assert len(given) == 1
    if inspect.iscoroutine(result):
        result.close()
    open_again(f)
    assert f.__code__ is own


def test_errors_have_no_frames_of_a_door() -> None:
    def fail(number: int) -> None:
        raise ValueError(number)

    def refuse(at: Door, *_: Any) -> Any:
        raise PermissionError(at.body.__name__)

    for enter in (lambda at, args, kwargs: at.body(*args, **kwargs), refuse):
        shut(fail, enter)
        with pytest.raises((ValueError, PermissionError)) as caught:
            fail(1)
        open_again(fail)
        names = [each.frame.code.name for each in caught.traceback]
        assert set(names) <= {"test_errors_have_no_frames_of_a_door", "fail", "<lambda>", "refuse"}
        assert names.count("fail") <= 1


# ── kinds of tools ─────────────────────────────────────────────────────────────────────────────────

KINDS_SETUP = '''
import functools, math
class Shop:
    def wipe(self, table: str) -> str:
        """Wipe."""
        ran.append(table)
        return table
    @classmethod
    def of_class(cls, table: str) -> str:
        """Wipe."""
        ran.append(table)
        return table
    __call__ = wipe
    other = wipe
shop = Shop()
async def later(table: str) -> str:
    """Wipe."""
    ran.append(table)
    return table
def each(table: str):
    """Wipe."""
    ran.append(table)
    yield table
async def each_later(table: str):
    """Wipe."""
    ran.append(table)
    yield table
def retried(f):
    @functools.wraps(f)
    def again(*args, **kwargs):
        return f(*args, **kwargs)
    return again
@retried
def decorated(table: str) -> str:
    """Wipe."""
    ran.append(table)
    return table
@functools.lru_cache
def cached(table: str) -> str:
    """Wipe."""
    ran.append(table)
    return table
def base(mode: str, table: str, /, *, size: int = 1) -> str:
    """Wipe."""
    ran.append(table)
    return table
part = functools.partial(base, "all", size=2)
def recursive(table: str, n: int = 2) -> str:
    """Wipe."""
    ran.append(table)
    return recursive(table, n - 1) if n else table
'''

KINDS = {
    "bound method": ("shop.wipe", "shop.wipe('x')"),
    "function of a method": ("shop.wipe", "Shop.wipe(shop, table='x')"),
    "class method": ("Shop.of_class", "Shop.of_class('x')"),
    "class method of a subclass": ("Shop.of_class", "type('S', (Shop,), {}).of_class('x')"),
    "object": ("shop", "shop('x')"),
    "method of an object": ("shop", "shop.__call__(table='x')"),
    "coroutine": ("later", "await later('x')"),
    "task": ("later", "import asyncio\nawait asyncio.gather(later('x'))"),
    "generator": ("each", "list(each('x'))"),
    "asynchronous generator": ("each_later", "[i async for i in each_later('x')]"),
    "decorated": ("decorated", "decorated('x')"),
    "inside a decorator": ("decorated", "decorated.__wrapped__('x')"),
    "cached": ("cached", "cached('x')"),
    "inside a cache": ("cached", "cached.__wrapped__('x')"),
    "partial": ("part", "part('x')"),
    "partial with another argument": ("part", "part('x', size=3)"),
    "recursion": ("recursive", "recursive('x')"),
}


def of_kind(kind: str, answer: str) -> tuple[Names, Person, CallOutcome]:
    names: Names = {"ran": []}
    exec(KINDS_SETUP, names)
    function, code = KINDS[kind]
    box = Toolbox(Tool.from_function(eval(function, names), name="wipe", approve=True))
    box.add(python_tool("unwatched"))
    person = Person(answer)
    executor = KernelExecutor(box, names, person=person)
    [outcome] = executor.run([ToolCall("c", "python", {"code": code})])
    return names, person, outcome


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tool_asks_once(kind: str) -> None:
    names, person, outcome = of_kind(kind, "n")
    assert (names["ran"], person.asked, outcome.called) == ([], 1, ())
    assert "PermissionError" in outcome.text
    names, person, outcome = of_kind(kind, "y")
    assert (set(names["ran"]), person.asked, outcome.called) == ({"x"}, 1, ("wipe",))


@pytest.mark.parametrize(
    "code", ["Shop().wipe('x')", "import copy\ncopy.copy(shop).wipe('x')", "Shop.wipe(None, 'x')"]
)
def test_a_method_of_the_users_class_asks_for_each_object(code: str) -> None:
    names: Names = {"ran": []}
    exec(compile(KINDS_SETUP, "a cell", "exec"), names)
    box = Toolbox(Tool.from_function(names["shop"].wipe, approve=True))
    box.add(python_tool("unwatched"))
    person = Person("n")
    executor = KernelExecutor(box, names, person=person)
    executor.run([ToolCall("c", "python", {"code": code})])
    assert (names["ran"], person.asked) == ([], 1)


TAKEN = {
    "an argument": ("apply(drop)", "def apply(f: object):\n    return f('x')"),
    "an argument for a library": (
        "apply(drop)",
        "def apply(f: object):\n    return list(map(f, ['x']))",
    ),
    "an argument in a partial": (
        "apply(functools.partial(drop))",
        "def apply(f: object):\n    return f('x')",
    ),
    "a list": (
        "calls.append(drop)\napply()",
        "calls = []\ndef apply():\n    for f in calls: f('x')",
    ),
    "a variable": (
        "helper = drop\napply()",
        "def helper(t): return t\ndef apply():\n    return helper('x')",
    ),
    "an attribute": ("ops.act = drop\napply(ops)", "def apply(o: object):\n    return o.act('x')"),
}
"""Code of a model, and a tool without approval that calls what the code gave it."""


@pytest.mark.parametrize("what", TAKEN)
def test_a_tool_does_not_call_for_the_code_what_needs_approval(what: str, pools: Names) -> None:
    code, cell = TAKEN[what]
    names = namespace(pools)
    exec(compile(cell, "a cell", "exec"), names)
    box = Toolbox(
        Tool.from_function(names["drop"], approve=True), Tool.from_function(names["apply"])
    )
    box.add(python_tool("unwatched"))
    person = Person("n")
    KernelExecutor(box, names, person=person).run([ToolCall("c", "python", {"code": code})])
    assert (names["ran"], person.asked) == ([], 1)


OWN = {
    "a name": "def clean():\n    drop('x')",
    "a library": "def clean():\n    list(map(drop, ['x']))",
    "a partial": "clean_up = functools.partial(drop, 'x')\ndef clean():\n    clean_up()",
    "a closure": "def made():\n    f = drop\n    def clean(): f('x')\n    return clean\nclean = made()",
    "an attribute": "def clean():\n    ops.f('x')",
    "a pool": "def clean():\n    pool.submit(drop, 'x').result()",
}


@pytest.mark.parametrize("what", OWN)
def test_a_tool_calls_its_own_functions_also_for_code(what: str, pools: Names) -> None:
    names = namespace(pools)
    exec(compile(OWN[what], "a cell", "exec"), names)
    box = Toolbox(
        Tool.from_function(names["drop"], approve=True), Tool.from_function(names["clean"])
    )
    box.add(python_tool("unwatched"))
    person = Person("n")
    executor = KernelExecutor(box, names, person=person)
    [outcome] = executor.run([ToolCall("c", "python", {"code": "clean()"})])
    assert (names["ran"], person.asked) == (["x"], 0), outcome.text


def test_a_tool_that_code_makes_asks() -> None:
    source = "import archytas_nb\nran = []\n@archytas_nb.tool(approve=True)\ndef wipe() -> None:\n    ran.append(1)"
    person = Person("n")
    box = Toolbox(python_tool("unwatched"))
    names: Names = {"source": source, "space": {}}
    executor = KernelExecutor(box, names, person=person)
    executor.run([ToolCall("c", "python", {"code": "exec(source, space)\nspace['wipe']()"})])
    assert (names["space"]["ran"], person.asked) == ([], 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_in_an_empty_context_belongs_to_the_code(pools: Names) -> None:
    code = "import contextvars\nt = threading.Thread(target=contextvars.Context().run, args=(drop,))\nt.start()\nt.join()"
    names = namespace(pools)
    person = Person("n")
    box = Toolbox(Tool.from_function(names["drop"], approve=True))
    box.add(python_tool("unwatched"))
    KernelExecutor(box, names, person=person).run([ToolCall("c", "python", {"code": code})])
    assert (names["ran"], person.asked) == ([], 1)


CALLED_BACK = {
    "a finalizer": ("weakref.finalize(go, drop)", "del go"),
    "a weak reference": ("w = weakref.ref(go, drop)", "go = None"),
    "a representation": ("class C: pass\nc = C()\nC.__repr__ = drop", "repr(c)"),
    "a format": ("pd.set_option('display.float_format', drop)", "str(pd.Series([1.5]))"),
    "a default": ("d = collections.defaultdict(drop)", "d[1]"),
    "an iterator": ("i = map(drop, ['x'])", "next(i)"),
    "a stack": ("s = contextlib.ExitStack()\n_ = s.callback(drop)", "s.close()"),
    "a signal": (
        "signal.signal(signal.SIGUSR1, lambda *_, f=drop: f('x'))", "signal.raise_signal(signal.SIGUSR1)",
    ),
}  # fmt: skip
"""What code of a model leaves behind, and a cell of the person that does not mention the tool."""


@pytest.mark.parametrize("what", CALLED_BACK)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_callback_is_no_call_of_the_person(
    what: str, pools: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, cell = CALLED_BACK[what]
    before = signal.getsignal(signal.SIGUSR1)
    try:
        names, person, outcome = late(code, pools)
        assert outcome.status == "done", outcome.text
        monkeypatch.setattr(guard, "live_namespace", lambda: names)
        with contextlib.suppress(PermissionError):
            exec(compile(cell, "a cell", "exec"), names)
    finally:
        signal.signal(signal.SIGUSR1, before)
        pd.reset_option("display.float_format")
    assert (names["ran"], person.asked) == ([], 0)
    exec(compile("drop('mine')\nlist(map(fs[0], ['too']))", "a cell", "exec"), names)
    assert (names["ran"], person.asked) == (["mine", "too"], 0)


def test_an_edited_argument_reaches_a_method_a_partial_and_a_decorated_function() -> None:
    for kind in ("bound method", "partial", "decorated", "coroutine"):
        names: Names = {"ran": []}
        exec(KINDS_SETUP, names)
        function, code = KINDS[kind]
        box = Toolbox(Tool.from_function(eval(function, names), name="wipe", approve=True))
        box.add(python_tool("unwatched"))
        executor = KernelExecutor(box, names, person=Scripted("table = 'y'", "y"))
        [outcome] = executor.run([ToolCall("c", "python", {"code": code})])
        assert (names["ran"], outcome.value) == (["y"], "y")


def test_a_function_in_c_asks_by_its_names() -> None:
    def factorial(of: str) -> CallOutcome:
        box = Toolbox(Tool.from_function(math.factorial, approve=True))
        box.add(python_tool("unwatched"))
        names: Names = {"math": math, "fact": math.factorial}
        executor = KernelExecutor(box, names, person=Person("n"))
        [outcome] = executor.run([ToolCall("c", "python", {"code": of})])
        assert names["fact"] is math.factorial is function
        return outcome

    function = math.factorial
    for code in ("math.factorial(5)", "fact(5)", "list(map(fact, [5]))", "factorial(5)"):
        assert "PermissionError" in factorial(code).text


def test_a_tool_that_was_defined_again_still_asks(pools: Names) -> None:
    """A list of the person holds the function that the name had before."""
    names = namespace(pools)
    box = Toolbox(python_tool("unwatched"))
    Tool.from_function(names["drop"], approve=True)
    gc.collect()
    person = Person("n")
    executor = KernelExecutor(box, names, person=person)
    executor.run([ToolCall("c", "python", {"code": "fs[0]('x')"})])
    assert (names["ran"], person.asked) == ([], 1)


def write(path: str) -> str:
    """Write a file.

    Args:
        path: Where.
    """
    Path(path).touch()
    return path


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_processes_of_the_code_run_nothing_unasked(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    box = Toolbox(Tool.from_function(write, approve=True))
    box.add(python_tool("unwatched"))
    path = str(tmp_path / "written")
    with concurrent.futures.ProcessPoolExecutor(1, fork) as pool:
        pool.submit(len, "").result()
        names = {"write": write, "fork": fork, "pool": pool, "path": path}
        for code in (
            "p = fork.Process(target=write, args=(path,))\np.start()\np.join()",
            "with fork.Pool(1) as own: own.map(write, [path])",
            "pool.submit(write, path).result()",
        ):
            person = Person("n")
            executor = KernelExecutor(box, names, person=person)
            executor.run([ToolCall("c", "python", {"code": code})])
            assert (Path(path).exists(), person.asked) == (False, 0)
        assert pool.submit(write, path).result() == path
    assert Path(path).exists()


def test_a_callback_that_the_person_schedules_is_their_own(pools: Names) -> None:
    names, person, _ = late("alias = drop", pools)
    cell = (
        "loop = asyncio.new_event_loop()\nloop.call_soon(drop, 'mine')\nloop.call_soon(loop.stop)"
    )
    exec(compile(cell, "a cell", "exec"), names)
    names["loop"].run_forever()
    names["loop"].close()
    assert (names["ran"], person.asked) == (["mine"], 0)
