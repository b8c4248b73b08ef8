"""The page on programs: its figures, and what it says that no other test holds."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import psutil
import pytest

import archytas_nb as nb
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import AskModel, ModelReply, ProgramEnded, WireCall
from archytas_nb.loop.program_protocol import ended_report
from archytas_nb.loop.tokens import json_tokens, message_tokens, text_tokens
from archytas_nb.sandbox.check import MODULES
from archytas_nb.sandbox.prepared import MAX_PROGRAM
from archytas_nb.sandbox.session import Bounds, Session
from archytas_nb.small.lines import MAX_LINES
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import live_kernel
from tests.sandbox.programs import uncheck
from tests.servers.plays import Say
from tests.servers.server import Server

PAGE = Path(__file__).parents[2] / "docs" / "programs.md"


def block(program: str) -> str:
    return f"```python\n{program}\n```"


def asked(
    *programs: str, tools: Sequence[Any], **options: Any
) -> tuple[nb.Agent, nb.Run[Any], ScriptedModel]:
    """A question that is answered by these programs."""
    model = ScriptedModel(*map(block, programs))
    agent = nb.Agent(list(tools), model=model, protocol="program", **options)
    return agent, agent.run("What is it?"), model


def told(model: ScriptedModel) -> str:
    """The last message that the model read."""
    return str(model.asked[-1].messages[-1]["content"])


def half(number: int) -> float:
    """Half of a number.

    Args:
        number: An even number
    """
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number / 2


# ── every call of a program is an ordinary call ───────────────────────────────────────────────────


def test_calls_are_validated_and_in_the_record_and_the_step_has_the_program() -> None:
    program = "a = half(2)\nb = half(number=a + 3)\nanswer([a, b])"
    _, run, _ = asked(program, tools=[half])
    assert run.answer == "[1.0, 2.0]"
    assert [(call.name, call.input) for call, _ in run.calls] == [
        ("half", {"number": 2}),
        ("half", {"number": 4.0}),
    ]
    assert run.steps[0].program == program


# ── variables ─────────────────────────────────────────────────────────────────────────────────────


def test_variables_stay_for_the_conversation_and_are_never_variables_of_the_notebook() -> None:
    names: dict[str, Any] = {"start": 4}
    model = ScriptedModel(
        block("kept = half(number=start)\nstart = 0\nanswer(kept)"),
        block("kept = kept + 1\nanswer(kept)"),
        block("answer(kept)"),
        block("answer(kept)"),
        block("answer('unknown')"),
    )
    agent = nb.Agent([half], model=model, protocol="program", namespace=names)
    assert [agent.run("Half?").answer, agent.run("One more?").answer] == ["2.0", "3.0"]
    agent.forget_last()
    assert agent.run("Again?").answer == "2.0"
    assert names == {"start": 4}
    agent.reset()
    assert agent.run("And now?").answer == "unknown"
    assert "there is no 'kept'" in told(model)


class Table:
    """An object that no text represents."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


def load(rows: int) -> Table:
    """Load a table.

    Args:
        rows: How many rows it has
    """
    return Table(rows)


def size(table: Table) -> int:
    """The number of rows of a table.

    Args:
        table: The table
    """
    return table.rows


def test_an_opaque_object_is_passed_on_and_nothing_of_it_is_read() -> None:
    names: dict[str, Any] = {"mine": Table(5)}
    _, run, _ = asked("answer(type(mine).__name__)", tools=[size], namespace=names)
    assert run.answer == "Table"
    program = "other = load(rows=3)\nsame = other == other\nanswer([size(other), size(mine), same])"
    _, run, _ = asked(program, tools=[load, size], namespace=names)
    assert run.answer == "[3, 5, true]"
    for text in ("mine.rows", "mine[0]", "mine.__dict__", "mine.__class__(1)", "len(mine)"):
        _, run, model = asked(
            f"answer({text})", "answer(0)", tools=[load, size], namespace={"mine": Table(5)}
        )
        assert run.answer == "0", text
        assert len(model.asked) == 2


def test_a_program_reads_the_size_and_the_columns_of_data() -> None:
    names = {
        "frame": pd.DataFrame({"w": [1, 2, 3], "my col": 4}),
        "column": pl.DataFrame({"w": [1, 2]}),
        "array": np.zeros((4, 5)),
        "many": list(range(20_000)),
    }
    program = (
        "answer([frame.shape, len(frame), frame.columns, column.columns, array.shape, len(array),"
        " len(many), len('ab')])"
    )
    _, run, _ = asked(program, tools=[size], namespace=names)
    expected = [[3, 2], 3, ["w", "my col"], ["w"], [4, 5], 4, 20_000, 2]
    assert json.loads(run.answer) == expected
    _, _, model = asked("show(frame)", "answer(0)", tools=[size], namespace=names)
    assert "w,my col\n1,4" in model.asked[1].messages[-1]["content"]


def test_a_sandbox_that_is_lost_in_a_call_costs_the_rest_of_the_program() -> None:
    def lose() -> str:
        """End the process of the sandbox."""
        for each in psutil.Process().children(recursive=True):
            if "monty" in each.name() or "monty" in " ".join(each.cmdline()):
                os.kill(each.pid, signal.SIGKILL)
        return "lost"

    _, run, model = asked("a = half(number=4)\nlose()\nanswer(a)", "answer(a)", tools=[half, lose])
    assert run.answer == "2.0"
    assert "a = 2.0" in told(model)


def test_a_variable_of_the_notebook_comes_before_one_of_an_earlier_question() -> None:
    names: dict[str, Any] = {"total": 4}
    model = ScriptedModel(
        block("total = 5\nother = 6\nshow(total)"),
        block("answer([total, other])"),
        block("answer([total, other])"),
        block("answer([total, other])"),
    )
    agent = nb.Agent([half], model=model, protocol="program", namespace=names)
    assert agent.run("In one question?").answer == "[5, 6]"
    assert agent.run("In the next one?").answer == "[4, 6]"
    names["other"] = 7
    assert agent.run("And after an assignment?").answer == "[4, 7]"


def test_an_object_in_an_answer_is_a_text_for_a_person_and_itself_for_a_type() -> None:
    _, run, _ = asked("answer(load(rows=2))", tools=[load])
    assert "Table object" in str(run.answer)
    assert "$var" not in str(run.answer)
    model = ScriptedModel(block("answer(load(rows=2))"), block("answer({'answer': 1})"))
    agent = nb.Agent([load], model=model, protocol="program", namespace={})
    typed = agent.run("Which table?", output_type=Table)
    assert typed.value.rows == 2
    assert agent.run("Which?", output_type=dict[str, int]).value == {"answer": 1}


def test_nothing_that_a_program_makes_or_passes_is_kept_in_the_notebook() -> None:
    names: dict[str, Any] = {"start": 4}

    def numbers() -> list[int]:
        """Many numbers."""
        return list(range(100_000))

    program = "a = load(rows=2)\nb = numbers()\nanswer([size(a), size(table=a), b == b])"
    _, run, _ = asked(program, tools=[load, size, numbers], namespace=names)
    assert run.answer == "[2, 2, true]"
    assert names == {"start": 4}


# ── names and bounds ──────────────────────────────────────────────────────────────────────────────


def test_two_tools_with_one_name_in_a_program_are_refused_before_anything_is_sent() -> None:
    made = nb.Toolbox()
    made.add(half, name="of-two")
    made.add(half, name="of_two")
    model = ScriptedModel("never sent")
    with pytest.raises(ConfigurationError, match="'of-two' and 'of_two'"):
        nb.Agent(made, model=model, protocol="program").run("Half?")
    assert not model.asked
    others = nb.Toolbox()
    for name in ("_sandbox_max", "_sandbox_checkpoint", "archytas_first", "max"):
        others.add(half, name=name)
    program = (
        "a = sandbox_max(2) + sandbox_checkpoint(4) + archytas_first(6) + max_(8)\n"
        "answer(max([a, 1], key=abs))"
    )
    model = ScriptedModel(block(program))
    assert nb.Agent(others, model=model, protocol="program").run("Half?").answer == "10.0"


def test_bounds_are_settings_and_a_program_is_told_which_one_it_reached() -> None:
    for bounds, program, said in (
        ({"calls": 2}, "for n in range(3):\n    half(2 * n)\nanswer(1)", "2 calls"),
        ({"seconds": 0.2}, "half(2)\nwhile True:\n    pass\nanswer(1)", "0.2 seconds"),
        ({"memory": 20_000_000}, "a = 'x' * 10 ** 8\nanswer(1)", "20,000,000 bytes"),
        ({"depth": 20}, "def f(n):\n    return f(n + 1)\nanswer(f(1))", "recursion"),
    ):
        _, run, model = asked(program, "answer(0)", tools=[half], program_bounds=bounds)
        assert run.answer == "0"
        assert said in told(model)
        assert ("raised" in told(model)) == ("depth" in bounds)


def test_a_program_that_is_too_long_is_refused_before_it_is_read() -> None:
    lines = "\n".join(f"a = {n}" for n in range(100_000))
    several = "\n".join(f"a = {n} + 1" for n in range(3_000))
    long = "answer('" + "long" * 10_000 + "')"
    _, run, model = asked(lines, several, long, tools=[half])
    assert "too long" in str(model.asked[1].messages[-1]["content"])
    assert "too long" in told(model)
    assert len(str(run.answer)) == 40_000


# ── how it is chosen ──────────────────────────────────────────────────────────────────────────────


def test_the_option_the_setting_and_the_variable_choose_programs(tmp_path: Path) -> None:
    load = "%load_ext archytas_nb\nimport archytas_nb as nb\n"
    program = Say(block("answer(6 * 7)"))
    with Server(program, program, program) as server:
        variables = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        with live_kernel(tmp_path, **variables) as kernel:
            kernel.run(load)
            assert "42" in str(
                kernel.run("%config ArchytasNB.protocol = 'program'\n%agent How many?").displayed
            )
            kernel.run('%config ArchytasNB.protocol = "program"')
            assert "42" in str(kernel.run("%agent How many?").displayed)
        with live_kernel(tmp_path, ARCHYTAS_NB_PROTOCOL="program", **variables) as kernel:
            kernel.run(load)
            assert "42" in str(kernel.run("%agent How many?").displayed)


HIDDEN = """
import sys

class Hiding:
    "Finds the modules that another one finds, without the sandbox."

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pydantic_monty":
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Hiding, sys.meta_path)
"""
WITHOUT = """
import json
import archytas_nb as nb
from archytas_nb.errors import ConfigurationError
from archytas_nb.testing import ScriptedModel

def half(number: int) -> float:
    "Half of a number."
    return number / 2

answers = []
for protocol in ("react", "native", "auto"):
    kind = "react" if protocol == "auto" else protocol
    model = ScriptedModel(("half", {"number": 4}), ("final_answer", "2"), protocol=kind)
    answers.append(nb.Agent([half], model=model, protocol=protocol).run("Half?").answer)
model = ScriptedModel("never sent")
try:
    nb.Agent([half], model=model, protocol="program").run("Half?")
except ConfigurationError as error:
    answers.append(str(error))
answers.append(len(model.asked))
print(json.dumps(answers))
"""


@pytest.mark.parametrize("how", ["hidden", "blocked"])
def test_without_the_sandbox_all_else_works_and_the_error_says_what_to_do(how: str) -> None:
    """Where no wheel exists, the package is installed without it."""
    hide = HIDDEN if how == "hidden" else "import sys\nsys.modules['pydantic_monty'] = None\n"
    done = subprocess.run(
        [sys.executable, "-c", hide + WITHOUT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *answers, error, requests = json.loads(done.stdout)
    print(error)
    assert answers == ["2", "2", "2"]
    assert "pip install pydantic-monty" in error
    assert "protocol='react'" in error
    assert requests == 0


# ── fifty lookups ─────────────────────────────────────────────────────────────────────────────────

CITIES = [f"City {number:02}" for number in range(50)]
HOTTEST = "City 36 is the hottest of them, with 30.0 degrees."


def temperature(city: str) -> float:
    """The temperature of a city now, in degrees Celsius.

    Args:
        city: Its name
    """
    number = int(city.removeprefix("City "))
    return 30.0 - abs(number - 36) / 2


def tokens_of(model: ScriptedModel, replies: Sequence[ModelReply]) -> tuple[int, int]:
    """The estimated tokens of all requests, and of all replies."""

    def sent(ask: AskModel) -> int:
        return message_tokens(ask.messages) + json_tokens(list(ask.tools))

    def written(reply: ModelReply) -> int:
        calls = sum(text_tokens(f"{each.name} {each.arguments}") for each in reply.calls)
        return text_tokens(reply.text) + calls

    return sum(map(sent, model.asked)), sum(map(written, replies))


def lookup(city: str) -> WireCall:
    return WireCall("temperature", json.dumps({"city": city}))


FIFTY: dict[str, tuple[Any, list[ModelReply]]] = {
    "one program": (
        "program",
        [
            ModelReply(
                block(
                    "found = {each: temperature(city=each) for each in cities}\n"
                    "hottest = max(found, key=found.get)\n"
                    'answer(f"{hottest} is the hottest of them, with {found[hottest]} degrees.")'
                )
            )
        ],
    ),
    "`native`, all calls in one reply": (
        "native",
        [
            ModelReply("", tuple(map(lookup, CITIES)), finish="tool_calls"),
            ModelReply(HOTTEST),
        ],
    ),
    "`native`, one call a reply": (
        "native",
        [
            *(ModelReply("", (lookup(each),), finish="tool_calls") for each in CITIES),
            ModelReply(HOTTEST),
        ],
    ),
}  # fmt: skip


def test_fifty_lookups_are_one_request_and_the_page_has_the_figures() -> None:
    question = "Which of the cities is the hottest now?"
    rows: dict[str, tuple[int, int, int]] = {}
    for name, (protocol, replies) in FIFTY.items():
        model = ScriptedModel(*replies, protocol=protocol)
        agent = nb.Agent(
            [temperature],
            model=model,
            protocol=protocol,
            namespace={"cities": CITIES},
            max_steps=60,
        )
        run = agent.run(f"{question} They are {', '.join(CITIES)}.")
        assert run.answer == HOTTEST
        assert [call.input for call, _ in run.calls] == [{"city": each} for each in CITIES]
        sent, written = tokens_of(model, replies)
        rows[name] = (len(model.asked), sent, written)
        print(f"| {name} | {len(model.asked)} | {sent:,} | {written:,} |")
    program, at_once, one_by_one = rows.values()
    assert [each[0] for each in rows.values()] == [1, 2, 51]
    assert sum(program) < sum(at_once) / 2
    assert sum(program) < sum(one_by_one) / 50
    page = PAGE.read_text(encoding="utf-8")
    for name, (requests, *tokens) in rows.items():
        [row] = re.findall(rf"^\| {name} \| (.+) \|$", page, re.MULTILINE)
        shown = [int(each.replace(",", "")) for each in row.split(" | ")]
        assert shown[0] == requests
        assert shown[1:] == [pytest.approx(each, rel=0.1) for each in tokens], name


# ── what the model is told, and what is kept from it ──────────────────────────────────────────────


def test_without_context_a_program_reads_no_variable_and_gives_names_to_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for option, answer in (("none", "0"), ("mentioned", "3")):
        _, run, model = asked(
            "answer(plan)",
            *["answer(0)"] * (option == "none"),
            tools=[size],
            namespace={"plan": 3},
            context=option,
        )
        assert run.answer == answer
        assert len(model.asked) == (2 if option == "none" else 1)
    caught = 'try:\n    answer(plan)\nexcept NameError:\n    answer("undefined")'
    with monkeypatch.context() as patch:
        uncheck(patch)
        _, run, _ = asked(caught, tools=[size], namespace={"plan": 3}, context="none")
    assert run.answer == "undefined"
    names = {"mine": Table(5)}
    _, run, _ = asked('answer(size("mine"))', tools=[size], namespace=names, context="none")
    assert run.answer == "5"


def test_a_program_that_is_stopped_before_its_first_call_is_told_no_line() -> None:
    ended = Session({}, {}, bounds=Bounds(seconds=0.3)).run("while True:\n    pass\nshow(1)")
    assert isinstance(ended, ProgramEnded)
    report = ended_report(ended, [])
    assert "0.3 seconds" in report
    assert "Line" not in report


def test_the_modules_that_the_rules_name_can_be_imported() -> None:
    _, _, model = asked("answer(1)", tools=[half])
    rules = str(model.asked[0].messages[0]["content"])
    [named] = re.findall(r"plain Python with ([\w, ]+); no files", rules)
    modules = re.findall(r"\w+", named.replace(" and ", ", "))
    assert len(modules) > 2
    _, run, _ = asked(f"import {', '.join(modules)}\nanswer('imported')", tools=[half])
    assert run.answer == "imported"


# ── facts that the page names ─────────────────────────────────────────────────────────────────────


def test_the_page_names_the_modules_of_the_sandbox() -> None:
    page = PAGE.read_text(encoding="utf-8")
    [named] = re.findall(r"with these modules: (.+?)\.$", page, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", named)) == MODULES


def test_the_page_names_the_bounds_of_a_program() -> None:
    page = PAGE.read_text(encoding="utf-8")
    bounds = Bounds()
    [named] = re.findall(
        r"^\*\*A program has bounds\.\*\* (.+?)\n\n", page, re.MULTILINE | re.DOTALL
    )
    for figure in (
        f"{bounds.calls:,} calls",
        f"{bounds.seconds:g} seconds",
        f"{bounds.memory // 1_000_000} MB",
        f"{bounds.depth} nested calls",
        f"{MAX_PROGRAM:,} characters",
    ):
        assert figure in named
    assert f"At most {MAX_LINES} lines" in page
