"""The code of generated runs gives the same values and the same variables, in all protocols."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel

QUESTION = "What do 1234 and lamp give?"
MADE_UP = 987_001
"""Numbers from here on are neither results nor in the question."""


class Log:
    """An object that a tool changes in place."""

    def __init__(self) -> None:
        self.values: list[int] = []


@dataclass(frozen=True)
class Op:
    """A call: a tool, and the arguments as references to earlier results, or as values."""

    tool: str
    first: Any  # ("result", number), ("question",) or ("made up", number)
    fails: bool = False
    repeats: bool = False


def tools() -> dict[str, Any]:
    def measure(name: str) -> int:
        """Measure something."""
        return 10_000 + sum(map(ord, name)) * 7

    def grow(number: int) -> int:
        """Make a number grow."""
        if number < 0:
            raise ValueError("a negative number")
        return number * 3 + 5_000

    def pair(number: int) -> dict[str, Any]:
        """Two parts of a number."""
        return {"whole": number + 70_000, "parts": [number + 80_000, f"part-{number}"]}

    def note(log: Log, number: int) -> None:
        """Note a number in a log."""
        log.values.append(number)
        if number < 0:
            raise ValueError("a negative number, which is noted")

    return {"measure": measure, "grow": grow, "pair": pair, "note": note}


sources = st.one_of(
    st.tuples(st.just("result"), st.integers(0, 5)),
    st.tuples(st.just("question")),
    st.tuples(st.just("made up"), st.integers(0, 50)),
)
ops = st.lists(
    st.builds(
        Op,
        st.sampled_from(["measure", "grow", "pair", "note"]),
        sources,
        st.sampled_from([False, False, False, True]),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=6,
)


class Script:
    """The replies of a model that makes these calls, and what is expected of the code."""

    def __init__(self, operations: list[Op]) -> None:
        self.calls: list[tuple[str, dict[str, Any], str]] = []  # with the source in a program
        self.values: list[Any] = []  # of the calls that succeed
        self.results: list[tuple[Any, str]] = []  # numbers, and how a program reads them
        self.made_up: list[int] = []
        self.dependent: list[int] = []
        functions = tools()
        log = Log()
        seen: set[str] = set()
        for number, op in enumerate(operations):
            value, source = self._argument(op)
            if op.tool == "measure":
                sent: dict[str, Any] = {"name": "lamp"}
                written = 'measure("lamp")'
            elif op.tool == "note":
                value, source = (-7, "-7") if op.fails else (value, source)
                sent = {"log": "log", "number": value}
                written = f'note("log", {source})'
            else:
                value, source = (-5, "-5") if op.fails and op.tool == "grow" else (value, source)
                sent = {"number": value}
                written = f"{op.tool}(number={source})"
            key = f"{op.tool}{sent}"
            if key in seen:  # the loop makes no call twice that changes nothing
                continue
            seen.add(key)
            is_failure = op.tool != "measure" and sent["number"] < 0
            self.calls.append((op.tool, sent, written))
            if is_failure:
                continue
            actual = dict(sent, log=log) if op.tool == "note" else sent
            returned = functions[op.tool](**actual)
            if op.tool != "measure":
                (self.dependent if source.startswith("v") else []).append(value)
                (self.made_up if value >= MADE_UP and not source.startswith("v") else []).append(
                    value
                )
            self.values.append(returned)
            if isinstance(returned, int):
                self.results.append((returned, f"v{number}"))
            elif returned is not None:
                self.results.append((returned["whole"], f'v{number}["whole"]'))
            self.calls[-1] = (op.tool, sent, f"v{number} = {written}")

    def _argument(self, op: Op) -> tuple[int, str]:
        if op.first[0] == "result" and self.results:
            return self.results[op.first[1] % len(self.results)]
        if op.first[0] == "made up":
            return MADE_UP + op.first[1], str(MADE_UP + op.first[1])
        return 1234, "1234"

    @property
    def last(self) -> int:
        return int(self.results[-1][0]) if self.results else 1234

    def replies(self, protocol: str) -> list[Any]:
        if protocol != "program":
            calls = [(tool, sent) for tool, sent, _ in self.calls]
            return [*calls, ("final_answer", self.last)]
        programs: list[list[str]] = [[]]
        for _tool, sent, written in self.calls:
            programs[-1].append(written)
            if sent.get("number", 0) < 0:
                programs[-1].append("show(1)")
                programs.append([])
        answer = self.results[-1][1] if self.results else "1234"
        programs[-1].append(f"answer({answer})")
        return ["```python\n" + "\n".join(lines) + "\n```" for lines in programs]


def ran(script: Script, protocol: Any) -> tuple[Run[Any], dict[str, Any]]:
    namespace: dict[str, Any] = {**tools(), "log": Log(), "v0": "mine", "grow_result": "mine"}
    model = ScriptedModel(*script.replies(protocol), protocol=protocol)
    agent = nb.Agent(
        [namespace[name] for name in tools()],
        model=model,
        protocol=protocol,
        namespace=namespace,
        undo=True,
        context="none",
        max_errors=20,
    )
    return agent.run(QUESTION, output_type=int), namespace


PROTOCOLS = pytest.mark.parametrize("protocol", ["react", "native", "program"])


@PROTOCOLS
@settings(max_examples=8, derandomize=True)
@given(operations=ops)
def test_the_code_gives_the_same_values_and_variables(protocol: str, operations: list[Op]) -> None:
    law(protocol, operations)


@pytest.mark.slow
@pytest.mark.hypothesis
@PROTOCOLS
@settings(max_examples=300)
@given(operations=ops)
def test_the_code_of_many_runs(protocol: str, operations: list[Op]) -> None:
    law(protocol, operations)


def law(protocol: str, operations: list[Op]) -> None:
    script = Script(operations)
    run, namespace = ran(script, protocol)
    assert run.output == script.last
    after = copy.deepcopy(namespace["log"].values)
    code = run.code()
    proof = run.verify()
    assert proof.holds, f"{proof}\n{code}"
    assert namespace["log"].values == after  # the proof was undone
    assert "-5" not in code  # a call that failed is gone, unless it has changed something
    assert code.count("number=-7") == after.count(-7)

    statements = "\n".join(line for line in code.splitlines() if not line.startswith("#"))
    for value in script.dependent:  # a value of a call is a variable
        assert f"={value}" not in statements
        assert f", {value})" not in statements
    for value in script.made_up:
        assert f"{value} was chosen by the model, not taken from the question or a result" in code

    fresh: dict[str, Any] = {**tools(), "log": Log(), "v0": "mine", "grow_result": "mine"}
    exec(compile(code, "<code>", "exec"), fresh)
    assert fresh["log"].values == after
    assert (fresh["v0"], fresh["grow_result"]) == ("mine", "mine")
    assert fresh["answer"] == script.last
