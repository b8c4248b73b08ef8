"""Guarantees of the page on security, each tried in ways that nobody wrote down.

What a test draws is the situation: types, values, names, texts, settings and the order of events. What it asserts is the
sentence of the page.
"""

from __future__ import annotations

import base64
import enum
import json
import math
import os
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal
from unittest.mock import patch
from urllib.parse import quote

import numpy as np
import pandas as pd
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from IPython.core.error import UsageError

import archytas_nb as nb
from archytas_nb.kernel.approval import MAX_VALUE
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.python import python_tool
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.magics.expand import expand
from archytas_nb.models.refusals import EndpointErrors
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.tool import Tool
from archytas_nb.words import escape
from tests.docs.promises import built_in_tools
from tests.scripted import Scripted

CANARY = "canary-5e1f9a"
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def executed(
    tool: Any, given: Any, *answers: Any, approve: Any = "ask", there: bool = True, **names: Any
) -> tuple[CallOutcome, Scripted]:
    """One call of one tool, with a person who answers in this order."""
    person = Scripted(*answers, there=there)
    box = nb.Toolbox()
    box.add(tool)
    outcomes = KernelExecutor(box, names, approve, person).run([ToolCall("c", tool.name, given)])
    return outcomes[0], person


def tool_of(annotation: Any, seen: list[Any], *, approve: Any = None, **more: Any) -> Tool:
    """A tool with one parameter of this type, which notes what it receives."""

    def take(value):  # type: ignore[no-untyped-def]
        """Take a value."""
        seen.append(value)
        return "ok"

    take.__annotations__ = {"value": annotation, "return": str}
    return Tool.from_function(take, approve=approve, **more)


# ── only your tools run ───────────────────────────────────────────────────────────────────────────


ODD_NAMES = st.one_of(
    NAMES,
    WORDS,
    st.sampled_from(
        ["print", "exit", "eval", "os.system", "trap", "box.trap", "__import__", "trap()"]
    ),
    st.sampled_from(["functions.trap", "trap:0", "default_api.trap", "TRAP", " trap", "{trap}"]),
)


@given(
    st.lists(st.tuples(ODD_NAMES, JSON), min_size=1, max_size=6),
    st.sampled_from(["react", "native"]),
)
def test_no_call_reaches_a_function_that_is_no_tool(
    calls: list[tuple[str, Any]], protocol: Any
) -> None:
    ran: list[str] = []

    def trap(*_: Any, **__: Any) -> None:
        ran.append("trap")

    def allowed(value: object = None) -> str:
        """Do what is allowed."""
        ran.append("allowed")
        return "ok"

    names = {"trap": trap, "box": types.SimpleNamespace(trap=trap), "os": os}
    script = [
        (name, value) for name, value in calls if name not in (*built_in_tools(), "final_answer")
    ]
    model = ScriptedModel(*script, ("fail_task", "no"), *["done"] * 9, protocol=protocol)
    agent = nb.Agent([allowed], model, namespace=names, protocol=protocol, max_steps=12)
    with patch("os.system", trap):
        asked(agent)
    assert set(ran) <= {"allowed"}


def asked(agent: nb.Agent, question: str = "Go!", **options: Any) -> str:
    """All that a question sends, whether it is answered or not."""
    with suppress(nb.ArchytasError):
        agent.run(question, **options)
    return "\n".join(repr(each) for each in agent.model.asked)  # type: ignore[union-attr]


TYPES: dict[Any, Callable[[Any], bool]] = {
    int: lambda value: type(value) is int,
    bool: lambda value: type(value) is bool,
    float: lambda value: type(value) is float,
    str: lambda value: type(value) is str,
    list[int]: lambda value: type(value) is list and all(type(each) is int for each in value),
    dict[str, float]: lambda value: all(type(each) is float for each in value.values()),
    Literal["a", 1]: lambda value: value in ("a", 1) and type(value) in (str, int),
    int | None: lambda value: value is None or type(value) is int,
    tuple[int, str]: lambda value: type(value[0]) is int and type(value[1]) is str,
}


@given(st.sampled_from(list(TYPES)), st.one_of(JSON, st.lists(st.integers()), st.integers()))
def test_a_function_receives_only_what_its_signature_allows(annotation: Any, sent: Any) -> None:
    seen: list[Any] = []
    outcome, _ = executed(tool_of(annotation, seen), {"value": sent})
    assert (outcome.status == "done") is bool(seen)
    assert all(TYPES[annotation](each) for each in seen)


OFF = st.fixed_dictionaries({
    "context": st.sampled_from(["auto", "mentioned", "all", "none"]),
    "values": st.sampled_from(["all", "scalars", "none", "strict"]),
    "approve": st.sampled_from([None, "auto", "ask"]),
})  # fmt: skip


@given(
    st.sampled_from(["made = 1", "rows.append(1)", "import os", "", "1 + 1", "def f(): pass"]),
    st.sampled_from(["python", "Python", "functions.python", "exec", "code_interpreter"]),
    st.sampled_from(["code", "value", "source", "input"]),
    OFF,
    st.sampled_from(["react", "native"]),
)
def test_no_code_changes_a_variable_unless_it_is_switched_on(
    code: str, name: str, argument: str, options: dict[str, Any], protocol: Any
) -> None:
    names: dict[str, Any] = {"rows": []}
    script: list[Any] = [(name, {argument: code}), (name, code), f"```python\n{code}\n```"]
    model = ScriptedModel(*script, *["done"] * 5, protocol=protocol)
    with patch.dict(os.environ, {"ARCHYTAS_NB_PYTHON": ""}):
        asked(nb.Agent([], model, namespace=names, protocol=protocol, **options))
    assert names == {"rows": []}


# ── a tool receives values, not your variables ────────────────────────────────────────────────────


IN_JSON = [int, float, str, bool, list, dict, list[str], dict[str, Any], Any, object, str | int]
HELD = [CANARY, 7, 1.5, [1, 2], {"a": 1}, True, pd.DataFrame({"a": [1]}), np.arange(3)]


@given(
    st.sampled_from(IN_JSON[:-2] + IN_JSON[-1:]),
    NAMES,
    st.sampled_from(range(len(HELD))),
    st.sampled_from([lambda n: n, lambda n: [n], lambda n: {"value": n}, lambda n: {"a": n}]),
)
def test_a_type_of_json_is_never_read_from_a_variable(
    annotation: Any, name: str, held: int, form: Callable[[str], Any]
) -> None:
    assume(annotation is not object)
    seen: list[Any] = []
    names: dict[str, Any] = {name: HELD[held]}
    executed(tool_of(annotation, seen), {"value": form(name)}, **names)
    assert not any(_holds(each, HELD[held]) for each in seen)


def _holds(value: Any, held: Any) -> bool:
    """Whether a value is another one or has it inside, where that can be told apart."""
    if isinstance(held, bool | int | float):
        return type(value) is type(held) and value == held
    inside: Sequence[Any] = ()
    if isinstance(value, list | tuple | dict):
        inside = [*(value.values() if isinstance(value, dict) else value)]
    return value is held or any(_holds(each, held) for each in inside)


OURS = ("In", "Out", "exit", "quit", "get_ipython", "open", "_", "__", "_1", "_i", "_oh", "_dh")


@given(
    st.one_of(
        st.sampled_from(OURS), NAMES.map("_{}".format), st.sampled_from(["mod", "registered"])
    ),
    st.sampled_from([pd.DataFrame, np.ndarray, object, types.ModuleType, Callable]),
    st.sampled_from([lambda n: n, lambda n: {"$var": n}]),
)
def test_names_that_are_not_the_users_are_never_passed(
    name: str, annotation: Any, form: Callable[[str], Any]
) -> None:
    def registered() -> int:
        """Give one."""
        return 1

    held: Any = {"mod": os, "registered": nb.Tool.from_function(registered)}.get(name)
    if held is None:
        held = {pd.DataFrame: pd.DataFrame({"a": [1]}), np.ndarray: np.arange(2)}.get(
            annotation, os
        )
    seen: list[Any] = []
    executed(tool_of(annotation, seen), {"value": form(name)}, **{name: held})
    assert not any(each is held for each in seen)


@given(
    NAMES, st.sampled_from([str, list[str], dict[str, str]]), st.sampled_from(["react", "native"])
)
def test_a_typed_answer_of_json_is_not_looked_up(name: str, kind: Any, protocol: Any) -> None:
    given = {str: name, list[str]: [name], dict[str, str]: {"a": name}}[kind]
    model = ScriptedModel(("final_answer", given), protocol=protocol)
    agent = nb.Agent([], model, namespace={name: CANARY}, protocol=protocol)
    assert agent.run("Which?", output_type=kind).output == given


@given(
    st.one_of(st.sampled_from(OURS), NAMES.map("_{}".format), NAMES.map("{}_password".format)),
    st.sampled_from([str, int, list[str], dict[str, str]]),
    st.sampled_from(["", "[0]", '["a"]', ".a"]),
    st.sampled_from(["react", "native"]),
)
def test_an_answer_by_name_reaches_no_secret_and_nothing_that_is_not_the_users(
    name: str, kind: Any, end: str, protocol: Any
) -> None:
    held = {"": CANARY, "[0]": [CANARY]}.get(end, {"a": CANARY})
    given = {"$var": f"{name}{end}"}
    model = ScriptedModel(*[("final_answer", given)] * 3, ("final_answer", "x"), protocol=protocol)
    agent = nb.Agent([], model, namespace={name: held}, protocol=protocol, max_errors=2)
    run = agent.run("Which?", output_type=kind)
    assert CANARY not in str(run.value)
    assert CANARY not in str([ask.messages for ask in model.asked])


# ── what of your variables is sent ────────────────────────────────────────────────────────────────


@given(
    st.lists(NAMES, min_size=1, max_size=6, unique=True),
    st.sampled_from(["token", "password", "api_key", "secret", "credentials"]),
    st.sampled_from(["auto", "mentioned", "all"]),
)
def test_secrets_private_names_and_the_environment_are_not_described(
    names: list[str], secret: str, context: Any
) -> None:
    assume(is_secret(f"{names[0]}_{secret}"))  # "n_token" is a count
    variables: dict[str, Any] = {each: {"k": index} for index, each in enumerate(names)}
    variables |= {f"{names[0]}_{secret}": CANARY, f"_{names[0]}": CANARY, "environ": os.environ}
    looks = [("look", {"name": each}) for each in list(variables)[-3:]]
    model = ScriptedModel(("variables", None), *looks, ("final_answer", "Done."))
    question = f"What do {', '.join(variables)} hold?"
    with patch.dict(os.environ, {"SOME_SETTING": CANARY}):
        sent = asked(nb.Agent([], model, namespace=variables, context=context), question)
    assert CANARY not in sent


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.sampled_from(["react", "native"]))
def test_without_context_no_variable_is_described_or_read(names: list[str], protocol: Any) -> None:
    assume(not set(names) & {"go"})
    variables: dict[str, Any] = {each: pd.DataFrame({CANARY: [1]}) for each in names}
    calls = [(tool, {"name": each}) for each in names for tool in ("look", "variables", "cells")]
    model = ScriptedModel(*calls[:6], *["done"] * 3, protocol=protocol)
    agent = nb.Agent([], model, namespace=variables, context="none", protocol=protocol)
    sent = asked(agent, f"What is in {names[0]}?")
    assert CANARY not in sent
    assert "DataFrame" not in sent


@given(
    st.one_of(
        st.integers(), st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=40),
    ),
    st.sampled_from(["none", "strict"]),
)  # fmt: skip
def test_a_value_is_filled_into_the_answer_here(value: Any, values: Any) -> None:
    def make() -> object:
        """Make a value."""
        return value

    model = ScriptedModel(("make", {}), ("final_answer", "It is {make_1}."), protocol="native")
    agent = nb.Agent([make], model, values=values, namespace={}, protocol="native")
    answer = agent.run("What is it?").answer
    assert "{make_1}" not in answer
    shown = str(value) if isinstance(value, str) else f"{value:,}"
    if isinstance(value, int) or (isinstance(value, str) and value.isalnum()):
        assert shown.replace(",", "") in answer.replace(",", "")
    if isinstance(value, float):
        assert math.isclose(float(answer[6:-1].replace(",", "")), value, rel_tol=1e-2, abs_tol=1e-2)


# ── you approve what runs ─────────────────────────────────────────────────────────────────────────


_INT64 = st.integers(-(2**63), 2**63 - 1)


class Level(enum.Enum):
    LOW = "low it is"
    HIGH = "high it is"


@given(
    st.lists(
        st.sampled_from([
            (int, st.integers()), (str, st.text(st.characters(categories=("L", "N")), max_size=20)),
            (Level, st.sampled_from(["LOW", "HIGH"])), (bool, st.booleans()),
            (list[int], st.lists(st.integers(), max_size=4)),
        ]),
        min_size=1, max_size=4,
    ),
    st.data(),
)  # fmt: skip
def test_each_argument_is_shown_as_the_function_receives_it(
    parameters: list[tuple[Any, Any]], data: st.DataObject
) -> None:
    received: dict[str, Any] = {}
    names = [f"p{index}" for index in range(len(parameters))]
    source = ", ".join([*names, "left_out=(1, 'default')"])
    space: dict[str, Any] = {"received": received}
    exec(f"def act({source}):\n    received.update(locals())", space)
    act = space["act"]
    act.__annotations__ = {name: kind for name, (kind, _) in zip(names, parameters, strict=True)}
    act.__annotations__["left_out"] = tuple[int, str]
    given = {name: data.draw(draw) for name, (_, draw) in zip(names, parameters, strict=True)}
    outcome, person = executed(Tool.from_function(act, approve=True), given, "y")
    assert outcome.status == "done", outcome.text
    assert set(received) == {*names, "left_out"}
    for name, value in received.items():
        assert f"  {name} = {value!r}" in person.prompts[0]


HIDDEN = st.characters(categories=("Cf", "Cc", "Zl", "Zp", "Co"), exclude_characters="\n\t\r")


@given(st.lists(st.one_of(HIDDEN, st.sampled_from("ab \n")), min_size=1, max_size=30).map("".join))
def test_no_invisible_character_is_shown_as_itself(text: str) -> None:
    _, person = executed(tool_of(str, [], approve=True), {"value": text}, "n")
    [prompt] = person.prompts
    for sign in set(text) - set("ab \n"):
        assert sign not in prompt
        assert escape(sign) in prompt or escape(sign).encode().decode("unicode_escape") == sign


@given(_INT64, _INT64, st.sampled_from(["rebind", "delete", "append"]))
def test_the_value_that_was_shown_is_the_one_that_is_used(one: int, other: int, what: str) -> None:
    assume(one != other)
    seen: list[Any] = []
    names: dict[str, Any] = {"held": pd.Series([one])}
    shown: list[str] = []

    class Person(Scripted):
        def ask(self, prompt: str, form: Any = None) -> str:
            if not shown:  # while the first question waits
                if what == "rebind":
                    names["held"] = pd.Series([other])
                elif what == "delete":
                    del names["held"]
                else:
                    names["held"].iloc[0] = other
            shown.append(form.text)
            return super().ask(prompt, form)

    box = nb.Toolbox()
    box.add(tool_of(pd.Series, seen, approve=True))
    person = Person("y", "y", "n")
    KernelExecutor(box, names, "ask", person).run([ToolCall("c", "take", {"value": "held"})])
    person.answers.clear()
    for each in seen:
        assert str(each.iloc[0]) in shown[-1]
    if what == "rebind":
        assert [each.iloc[0] for each in seen] == [one]


@given(
    st.integers(), st.one_of(JSON, st.sampled_from(["open", "1 + 1", "__import__('os')", "f()"]))
)
def test_an_edit_is_shown_again_before_it_runs_and_a_wrong_one_changes_nothing(
    sent: int, edit: Any
) -> None:
    seen: list[Any] = []
    line = edit if isinstance(edit, str) else repr(edit)
    assume("\n" not in line and "\r" not in line)
    _, person = executed(
        tool_of(int, seen, approve=True), {"value": sent}, f"value = {line}", "y", "n"
    )
    used = 3 - len(person.answers)
    person.answers.clear()
    assert used >= 2  # an edit alone runs nothing
    for each in seen:
        assert f"value = {each!r}" in person.prompts[-1]
    if type(edit) is not int:
        # 1.0 is a whole number, too.
        same = (sent, edit) if type(edit) is float else (sent,)
        assert all(each in same or str(each) == line.strip("'\"") for each in seen)


@given(st.sampled_from(["ask", "deny"]), st.sampled_from([True, "check"]), st.integers())
def test_where_nobody_can_be_asked_nothing_runs(policy: Any, wants: Any, sent: int) -> None:
    seen: list[Any] = []
    approve = True if wants is True else (lambda value: True)
    tool = tool_of(int, seen, approve=approve)
    outcome, person = executed(tool, {"value": sent}, approve=policy, there=False)
    assert outcome.status == "refused"
    assert not seen
    assert not person.prompts


# ── braces, code ──────────────────────────────────────────────────────────────────────────────────


class Trap:
    """Notes whatever is called on it."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self._private = CANARY

    def method(self) -> str:
        self.called.append("method")
        return CANARY


PARTS = st.sampled_from([
    ".method()", ".method", "._private", ".__class__", ".__dict__", '["x"]', "[0]", ".called",
    "[-1]", ".environ", ".path", ".f_globals", ".__globals__", ".gi_frame", " + 1", " == 1", " & box",
])  # fmt: skip
STARTS = st.sampled_from(["trap", "box", "box.trap", "os", "gen", "_hidden", "fn", "items", "np"])


@given(
    STARTS, st.lists(PARTS, max_size=4).map("".join), st.sampled_from(["{%s}", "{%s!r}", "{%s:>9}"])
)
def test_braces_call_nothing_and_read_nothing_private(start: str, path: str, form: str) -> None:
    trap = Trap()
    names: dict[str, Any] = {
        "trap": trap, "box": types.SimpleNamespace(trap=trap, module=os), "os": os, "np": np,
        "gen": (each for each in [CANARY]), "_hidden": CANARY, "items": [trap, os], "fn": trap.method,
    }  # fmt: skip
    with patch.dict(os.environ, {"CANARY_KEY": CANARY}):
        try:
            filled = str(expand(form % (start + path), names))
        except UsageError as error:
            filled = str(error)
    assert not trap.called
    assert CANARY not in filled


LINES = st.lists(
    st.one_of(
        st.sampled_from(["made = 1", "rows.append(1)", "1 / 0", "# a comment", "", "pass"]),
        st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=60).map("# {}".format),
        st.integers(1, 400).map(lambda n: "x = 1  # " + "y" * n),
    ),
    max_size=30,
).map("\n".join)


@given(LINES, st.sampled_from(["n", "nothing that is a yes", "q"]))
@settings(max_examples=50)
def test_code_is_shown_whole_and_does_not_run_unless_it_is_approved(code: str, answer: str) -> None:
    names: dict[str, Any] = {"rows": []}
    person = Scripted(answer)
    box = nb.Toolbox()
    box.add(python_tool("ask"))
    executor = KernelExecutor(box, names, "ask", person)
    [outcome] = executor.run([ToolCall("c", "python", {"code": code})])
    person.answers.clear()
    assert names == {"rows": []}
    assert outcome.status != "done"
    assert len(code) < MAX_VALUE
    for line in code.splitlines():
        for part in line.split():
            assert escape(part) in person.prompts[0]


@given(st.lists(st.integers(0, 10**90), min_size=60, max_size=90))
@settings(max_examples=20)
def test_a_long_value_is_shown_with_its_end_and_on_demand_whole(numbers: list[int]) -> None:
    text = "\n".join([*(f"{each:=>60}" for each in numbers), "THE END"])
    _, person = executed(tool_of(str, [], approve=True), {"value": text}, "?", "n")
    short, whole = person.prompts
    assert "THE END" in short
    assert "left out" in short
    assert all(line in whole for line in text.split("\n"))


@given(
    st.lists(st.sampled_from([int, float, str]), min_size=1, max_size=5),
    st.sampled_from(["auto", "mentioned", "all"]),
    st.integers(1, 50),
)
def test_a_question_describes_the_columns_that_it_names_and_sends_no_value_of_them(
    kinds: list[type], context: Any, rows: int
) -> None:
    columns = {
        f"of_{name}": [kind(918_273)] * rows for name, kind in zip("abcde", kinds, strict=False)
    }
    names = {"frame": pd.DataFrame(columns), "other": pd.DataFrame({"n": [645_128] * rows})}
    model = ScriptedModel(("final_answer", "Done."))
    options: dict[str, Any] = {"context": context, "protocol": "native"}
    agent = nb.Agent([], model, namespace=names, values="none", **options)
    sent = asked(agent, "What is in frame?")
    assert all(each in sent for each in columns)
    assert "918273" not in sent
    assert "918_273" not in sent
    # With all values, those of other variables are not sent unless the model looks.
    model = ScriptedModel(("final_answer", "Done."))
    sent = asked(nb.Agent([], model, namespace=names, **options), "What is in frame?")
    assert all(each in sent for each in columns)
    assert "645128" not in sent
    assert "645_128" not in sent


# ── keys are kept out of recordings and errors ────────────────────────────────────────────────────


KEYS = st.text(
    "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=16, max_size=60
)


@given(
    KEYS,
    st.sampled_from([
        lambda k: k, lambda k: f"Bearer {k}", lambda k: json.dumps({"a": [k]}), quote,
        lambda k: base64.b64encode(k.encode()).decode(), lambda k: f"user:{k}@host", lambda k: k * 2,
    ]),
    WORDS,
)  # fmt: skip
def test_a_key_that_a_server_sends_back_is_in_no_error(
    key: str, spelled: Callable[[str], str], around: str
) -> None:
    errors = EndpointErrors("http://host/", key, None)
    for text in (f"{around}{spelled(key)}{around}", f"{around} {spelled(key)}"):
        assert key not in errors.clean(text)
        assert spelled(key) not in errors.clean(text)
