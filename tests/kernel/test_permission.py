"""A permission covers the tool that the person read, for those to whom they gave it, and nothing else."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.kernel.approval import Approver
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.permission import NOTEBOOK, Permission, Permissions, Source, state_of
from archytas_nb.loop.events import ToolCall
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.tool import BoundCall, Tool
from tests.scripted import Scripted

# ── a tool, and what it reaches ───────────────────────────────────────────────────────────────────

WORLD = '''
import functools, library, package.inner
LIMIT = 10
rows = []
def helper(n): return deeper(n) + 1
def deeper(n): return n
def unrelated(n): return n
class Base:
    def inherited(self, n): return n
class Client(Base):
    def method(self, n): return n
    @property
    def size(self): return 1
    @staticmethod
    def static(n): return n
client = Client()
handlers = {"a": lambda n: n}
@functools.cache
def cached(n): return n
half = functools.partial(deeper, 2)
def make(captured, setting):
    count = 0
    def change(n: int = 1, by: int = 2) -> int:
        """Change it."""
        nonlocal count
        count += 1
        rows.append(LIMIT)
        inner = lambda m: helper(m)
        return (inner(n) + captured(n) + client.method(n) + library.used(n) + setting + half()
                + handlers["a"](n) + cached(n) + package.inner.deep(n))
    return change
def captured(n): return n
def wraps(f):
    @functools.wraps(f)
    def around(n: int = 1, by: int = 2) -> int:
        return f(n, by)
    return around
def check(n): return LIMIT > 0
change = make(captured, 5)
wrapped = wraps(change)
'''
OTHER = "def other(n): return n * 7"


def world() -> dict[str, Any]:
    """The namespace of a notebook, with two modules of the person's."""
    library = module("library", "def used(n): return n\ndef unused(n): return n\n")
    package = module("package", "")
    package.inner = module("package.inner", "def deep(n): return n\n")  # type: ignore[attr-defined]
    names = {"__name__": "__main__", "library": library, "package": package}
    source = WORLD.replace("import functools, library, package.inner", "import functools")
    exec(source, names)
    return names


def module(name: str, source: str) -> types.ModuleType:
    made = types.ModuleType(name)
    exec(source, made.__dict__)
    return made


def other(names: dict[str, Any]) -> Any:
    """A function that does something else."""
    made: dict[str, Any] = {"__name__": "__main__"}
    exec(OTHER, made)
    return made["other"]


Change = Callable[[dict[str, Any]], Any]


def code_of(name: str) -> Change:
    return lambda w: setattr(eval(name, w), "__code__", other(w).__code__)


def bind(place: str) -> Change:
    def change(w: dict[str, Any]) -> None:
        exec(f"{place} = _new", {**w, "_new": other(w)}, w)

    return change


def run_again(name: str, by: str, into: str) -> Change:
    """Compile the tool again with a text replaced, and put its code in the place of the old one."""

    def change(w: dict[str, Any]) -> None:
        made: dict[str, Any] = {"__name__": "__main__"}
        assert by in WORLD
        source = WORLD.replace("import functools, library, package.inner", "import functools")
        exec(source.replace(by, into), made)
        w[name].__code__ = made[name].__code__

    return change


CHANGES: dict[str, Change] = {
    "its code": run_again("change", "+ setting", "- setting"),
    "a constant in its code": run_again("change", "count += 1", "count += 2"),
    "the code inside it": run_again("change", "lambda m: helper(m)", "lambda m: helper(m + 1)"),
    "its defaults": lambda w: setattr(w["change"], "__defaults__", (1, 3)),
    "a helper's code": code_of("helper"),
    "a helper of a helper": code_of("deeper"),
    "a helper is another one": bind("helper"),
    "a helper is gone": lambda w: w.pop("helper"),
    "a name of Python is taken": lambda w: w.update(append=other(w)),
    "a function of a module": lambda w: setattr(w["library"], "used", other(w)),
    "the code of a function of a module": code_of("library.used"),
    "a function of a module in a package": lambda w: setattr(w["package"].inner, "deep", other(w)),
    "another module": lambda w: w.update(library=module("library", "def used(n): return 7 * n")),
    "a method": lambda w: setattr(w["Client"], "method", other(w)),
    "a method of a base": lambda w: setattr(w["Base"], "inherited", other(w)),
    "a static method": code_of("Client.static"),
    "a property": lambda w: setattr(w["Client"], "size", property(other(w))),
    "a function in an object": lambda w: setattr(w["client"], "method", other(w)),
    "a function in a dict": lambda w: w["handlers"].update(a=other(w)),
    "what is cached": code_of("cached.__wrapped__"),
    "a partial": lambda w: w.update(half=functools.partial(w["deeper"], 3)),
    "a captured function": lambda w: setattr(cell(w, "captured"), "cell_contents", other(w)),
    "the code of a captured function": code_of("captured"),
    "a captured setting": lambda w: setattr(cell(w, "setting"), "cell_contents", 6),
    "its check": code_of("check"),
}
SAME: dict[str, Change] = {
    "nothing": lambda w: None,
    "a function that it does not mention": code_of("unrelated"),
    "another function of the module": lambda w: setattr(w["library"], "unused", other(w)),
    "a value": lambda w: w.update(LIMIT=20),
    "a list": lambda w: w["rows"].append(1),
    "a counter of its own": lambda w: setattr(cell(w, "count"), "cell_contents", 99),
    "its code on another line": run_again("change", "LIMIT = 10", "\n\n\nLIMIT = 10"),
    "an object of the same class": lambda w: w.update(client=w["Client"]()),
}
assert len(CHANGES) > 20


def cell(w: dict[str, Any], name: str) -> Any:
    change = w["change"]
    return change.__closure__[change.__code__.co_freevars.index(name)]


# ── the law ───────────────────────────────────────────────────────────────────────────────────────

SOURCES = [
    NOTEBOOK,
    Source("chat"),
    Source("program"),
    Source("recording", "one"),
    Source("recording", "two"),
]


class Person(Scripted):
    """One whose answers, and the replies that make the calls, come from a source."""

    def __init__(self, source: Source, *answers: Any) -> None:
        super().__init__(*answers)
        self.recording = self.answered_from = source.of

    @property
    def asked(self) -> int:
        return len(self.prompts)


def decided(tool: Tool, source: Source, person: Person, approver: Approver | None = None) -> bool:
    """Whether a call may run."""
    approver = approver or approver_for(source, person)
    bound = tool.bind({"n": 1})
    assert isinstance(bound, BoundCall)
    return approver.decide(tool, ToolCall("", tool.name, {"n": 1}), bound, {}).bound is not None


def approver_for(source: Source, person: Person) -> Approver:
    asks = NOTEBOOK if source.kind == "recording" else source
    return Approver("ask", (), person, source=asks)


def covers(given_by: Source, made_by: Source) -> bool:
    """The table at the beginning of the module."""
    if "program" in (given_by.kind, made_by.kind):
        return False
    return given_by == made_by or (given_by == NOTEBOOK and made_by.kind == "recording")


KINDS = st.sampled_from(["always", "this run"])


@given(
    st.sampled_from([*CHANGES, *SAME]),
    KINDS,
    st.sampled_from(SOURCES),
    st.sampled_from(SOURCES),
    st.sampled_from(["change", "wrapped", "method", "partial"]),
    st.sampled_from([True, "check"]),
)
def test_nobody_is_asked_exactly_where_the_permission_covers(
    change: str, kind: str, giver: Source, caller: Source, form: str, wants: Any
) -> None:
    names = world()
    if wants == "check":
        wants = names["check"]
    tool = Tool.from_function(function_of(form, names), "change", approve=wants)
    answer = {"always": "a"}.get(kind, kind)
    person = Person(giver, answer, "n")
    first = approver_for(giver, person)
    ran = decided(tool, giver, person, first)
    assert ran is (giver.kind != "program")  # about whose calls only that one is decided
    assert person.asked == 1 + (giver.kind == "program")
    person.answers.clear()

    {**CHANGES, **SAME}[change](names)
    later = Person(caller, "n")
    approver = None
    if kind == "this run":
        # A run has one person; some of its replies are replayed, and the others come live.
        first._person = later
        approver = first
        if {giver.kind, caller.kind} - {"notebook", "recording"}:
            caller = giver
            later.recording = later.answered_from = giver.of
    is_same = change in SAME or (change == "its check" and wants is True)
    is_covered = is_same and covers(giver, caller)
    assert decided(tool, caller, later, approver) is is_covered
    assert later.asked == (not is_covered)
    if not is_covered and covers(giver, caller):
        assert "You are asked again, because" in later.prompts[0]
    later.answers.clear()


def function_of(form: str, names: dict[str, Any]) -> Any:
    if form == "method":
        exec(
            "class Holder:\n"
            "    def run(self, n: int = 1) -> int:\n"
            '        """Change it."""\n'
            "        return change(n)\n",
            names,
        )
        return names["Holder"]().run
    if form == "partial":
        return functools.partial(names["change"], by=3)
    return names[form]


def test_the_question_says_what_has_changed() -> None:
    names = world()
    tool = Tool.from_function(names["change"], approve=True)
    person = Person(NOTEBOOK, "a", "n", "n", "n")
    assert decided(tool, NOTEBOOK, person)
    CHANGES["a helper's code"](names)
    decided(tool, NOTEBOOK, person)
    assert "the function 'helper'" in person.prompts[-1]
    decided(Tool.from_function(names["change"], approve=True), NOTEBOOK, person)
    assert "the function 'helper'" in person.prompts[-1]
    again = Tool.from_function(world()["change"], approve=True)
    decided(again, NOTEBOOK, person)
    assert "it was defined again" in person.prompts[-1]


def test_a_question_that_the_check_asks_names_no_change() -> None:
    reasons: list[Any] = [True, "a reason", ""]
    names = world()
    tool = Tool.from_function(names["change"], approve=lambda: reasons[0])
    person = Person(NOTEBOOK, "a", "y", "y")
    assert decided(tool, NOTEBOOK, person)
    for asked in (1, 2):
        reasons.pop(0)
        assert decided(tool, NOTEBOOK, person)
        assert person.asked == 1 + asked
        assert "asked again" not in person.prompts[-1]
    CHANGES["a helper's code"](names)
    person.answers.append("y")
    assert decided(tool, NOTEBOOK, person)
    assert "asked again" in person.prompts[-1]


def test_permissions_of_a_map_are_copied_to_another_process_by_name() -> None:
    import pickle

    given_before = Permissions()
    given_before.give(Permission(NOTEBOOK, state_of(Tool.from_function(world()["change"]))))
    copied = pickle.loads(pickle.dumps(given_before))
    assert copied.covers((NOTEBOOK,), state_of(Tool.from_function(world()["change"])))
    assert not copied.covers((NOTEBOOK,), state_of(Tool.from_function(copy)))


def test_a_permission_for_a_changed_tool_takes_back_that_for_the_earlier_one() -> None:
    def first(where: str, name: str = "a") -> str:
        """Copy a table."""
        return where + name

    tool = Tool.from_function(first)
    permitted = Permissions()
    permitted.give(Permission(NOTEBOOK, state_of(tool)))
    first.__defaults__ = ("b",)
    assert not permitted.covers((NOTEBOOK,), state_of(tool))
    permitted.give(Permission(NOTEBOOK, state_of(tool)))
    assert permitted.covers((NOTEBOOK,), state_of(tool))
    first.__defaults__ = ("a",)
    assert not permitted.covers((NOTEBOOK,), state_of(tool))


# ── texts of a check ──────────────────────────────────────────────────────────────────────────────


def copy(where: str) -> str:
    """Copy a table.

    Args:
        where: Where to
    """
    return f"copied to {where}"


def why(where: str) -> bool | str:
    return "" if where == "empty" else f"it is {where}" if where == "prod" else True


CALLS = st.lists(st.sampled_from(["test", "prod", "empty", "dev"]), min_size=1, max_size=5)


@given(CALLS, st.sampled_from(["a", "this run"]))
def test_a_text_of_the_check_is_always_shown(places: list[str], answer: str) -> None:
    box = nb.Toolbox()
    box.add(copy, approve=why)
    person = Scripted(answer, *["y"] * 9)
    executor = KernelExecutor(box, {}, person=person)
    for place in places:
        executor.run([ToolCall("c", "copy", {"where": place})])
    with_text = [each for each in places if each in ("prod", "empty")]
    # Where the first call has a text, its answer permits the calls without one.
    assert len(person.prompts) == len(with_text) + (places[0] not in ("prod", "empty"))
    person.answers.clear()


class Live(ScriptedModel):
    is_scripted = False


@pytest.mark.parametrize(
    ("answers", "ran"), [(["yes", "n"], ["test"]), (["yes", "y"], ["test", "prod"])]
)
def test_the_yes_before_a_map_covers_no_call_with_a_text(
    answers: list[str], ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from archytas_nb.kernel.person import Keyboard

    made: list[str] = []
    prompts: list[str] = []

    def copied(where: str) -> str:
        """Copy a table.

        Args:
            where: Where to
        """
        made.append(where)
        return "copied"

    def ask(_: Keyboard, prompt: str, form: Any = None) -> str:
        prompts.append(getattr(form, "why", ""))
        return answers[len(prompts) - 1]

    monkeypatch.setattr(Keyboard, "there", True)
    monkeypatch.setattr(Keyboard, "ask", ask)
    box = nb.Toolbox()
    box.add(copied, approve=why)
    model = Live(
        ("copied", {"where": "test"}), ("final_answer", "a"),
        ("copied", {"where": "prod"}), ("final_answer", "b"),
    )  # fmt: skip
    nb.Agent(box, model=model, context="none").map(
        ["one", "two"], "Copy.", store=None, progress=False, workers=1
    )
    assert made == ran
    assert prompts[1:] == ["it is prod"]


# ── what is asked about is what runs ──────────────────────────────────────────────────────────────


class Meanwhile(Scripted):
    """While this person is asked for the first time, something happens."""

    def __init__(self, happens: Callable[[], Any], *answers: str) -> None:
        super().__init__(*answers)
        self._happens = happens

    def ask(self, prompt: str, form: Any = None) -> str:
        if not self.prompts:
            self._happens()
        return super().ask(prompt, form)


class Rows:
    """Holds rows; it is passed by its name."""

    def __init__(self, value: Any) -> None:
        self.value = value


def total(rows: Rows) -> str:
    """Sum rows.

    Args:
        rows: The rows
    """
    return f"sum {sum(rows.value)}"


def mutable() -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    import numpy as np
    import pandas as pd

    yield "list", [1, 2, 3], lambda v: v.append(4)
    yield "a number deep in a list", [1] * 1000, lambda v: v.__setitem__(500, 2)
    yield "set", {1, 2}, lambda v: v.add(9)
    yield "dict", {1: 2}, lambda v: v.update({5: 6})
    yield "array", np.zeros(100_000), lambda v: v.__setitem__(50_000, 1)
    yield "series", pd.Series(range(100_000)), lambda v: v.__setitem__(50_000, 1)
    yield "bytearray", bytearray(10), lambda v: v.__setitem__(3, 1)


@pytest.mark.parametrize("case", [*mutable()], ids=lambda case: case[0])
def test_a_value_that_changes_while_it_is_shown_is_shown_again(case: Any) -> None:
    _, value, change = case
    box = nb.Toolbox()
    box.add(total, approve=True)
    person = Meanwhile(lambda: change(value), "y", "n")
    [outcome] = KernelExecutor(box, {"value": Rows(value)}, person=person).run(
        [ToolCall("c", "total", {"rows": "value"})]
    )
    assert outcome.status == "refused"
    assert "rows changed since it was shown" in person.prompts[1]


@pytest.mark.parametrize(
    "change", ["its code", "its defaults", "a helper is another one", "a method"]
)
def test_code_that_changes_while_it_is_shown_is_shown_again(change: str) -> None:
    names = world()
    box = nb.Toolbox()
    box.add(names["change"], approve=True)
    person = Meanwhile(lambda: CHANGES[change](names), "y", "n")
    [outcome] = KernelExecutor(box, {}, person=person).run([ToolCall("c", "change", {"n": 1})])
    assert (outcome.status, names["rows"]) == ("refused", [])
    assert "since it was shown" in person.prompts[1]


def test_a_call_that_changes_while_another_one_is_asked_about_is_not_run() -> None:
    """Two async calls of one reply are approved one after the other, and run together."""
    ran: list[int] = []
    value = [1]

    async def use(rows: Rows, n: int) -> str:
        """Use rows.

        Args:
            rows: The rows
            n: Which call
        """
        ran.append(n)
        return "used"

    box = nb.Toolbox()
    box.add(use, approve=True)

    class Second(Scripted):
        def ask(self, prompt: str, form: Any = None) -> str:
            if self.prompts:
                value.append(2)
            return super().ask(prompt, form)

    person = Second("y", "n")
    outcomes = KernelExecutor(box, {"value": Rows(value)}, person=person).run(
        [ToolCall(f"c{n}", "use", {"rows": "value", "n": n}) for n in (1, 2)]
    )
    assert [each.status for each in outcomes] == ["refused", "refused"]
    assert "rows changed after the call was approved" in outcomes[0].text
    assert ran == []


# ── agents that are tools ─────────────────────────────────────────────────────────────────────────

POLICIES: list[Any] = [
    "ask",
    "auto",
    "deny",
    lambda tool, call: "",
    lambda tool, call: "not this one",
]


@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_the_strictest_of_all_settings_counts(
    first: int, second: int, third: int, says_yes: bool
) -> None:
    ran: list[int] = []

    def drop(n: int) -> str:
        """Drop.

        Args:
            n: Which
        """
        ran.append(n)
        return "dropped"

    box = nb.Toolbox()
    box.add(drop, approve=True)
    person = Scripted("y" if says_yes else "n")

    def agent(tools: Any, policy: int, *calls: Any) -> nb.Agent:
        model = ScriptedModel(*calls, ("final_answer", "Done."))
        return nb.Agent(tools, model, namespace={}, approve=POLICIES[policy])

    inner = agent(box, third, ("drop", {"n": 1}))
    middle = agent(
        nb.Toolbox(inner.as_tool("inner", "I.", approve=False)), second, ("inner", "Go.")
    )
    outer = agent(
        nb.Toolbox(middle.as_tool("middle", "M.", approve=False)), first, ("middle", "Go.")
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("archytas_nb.driver.Keyboard", lambda: person)
        outer.run("Go.")
    policies = {first, second, third}
    is_refused = bool({2, 4} & policies)
    asks = not is_refused and 0 in policies
    assert len(person.prompts) == asks
    assert len(ran) == (not is_refused and (says_yes or not asks))
    person.answers.clear()


# ── calls of other programs ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", ["its call", "a call of an agent that it calls"])
def test_a_permission_covers_no_call_of_another_program(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archytas_nb.mcp.calls import run_call

    ran: list[str] = []

    def drop(table: str) -> str:
        """Drop a table.

        Args:
            table: The table
        """
        ran.append(table)
        return "dropped"

    box = nb.Toolbox()
    box.add(drop, approve=True)
    person = Scripted("a", "a", "n", "n")
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)

    def agent(table: str) -> nb.Agent:
        model = ScriptedModel(("drop", {"table": table}), ("final_answer", "Done."))
        return nb.Agent(box, model=model, namespace={})

    agent("mine").run("Drop it.")
    agent("mine too").run("Drop it.")
    assert (ran, len(person.prompts)) == (["mine", "mine too"], 1)
    if way == "its call":
        outcome, _ = run_call(nb.Agent(box, namespace={}), "Else", "drop", {"table": "theirs"})
    else:
        inner = agent("theirs").as_tool("cleaner", "Cleans.", approve=False)
        outer = nb.Agent(nb.Toolbox(inner), namespace={})
        outcome, _ = run_call(outer, "Else", "cleaner", {"question": "Clean."})
    assert ran == ["mine", "mine too"]
    assert all("do not ask again" not in each for each in person.prompts[1:])
    assert len(person.prompts) == 3  # the second answer, "a", was not offered
    assert outcome.status == ("refused" if way == "its call" else "done")
    person.answers.clear()
