"""With ``python="ask"``, no code runs that nobody has approved, whatever it is; and each is asked about once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.kernel import python as module
from archytas_nb.kernel.approval import MAX_VALUE
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.python import python_tool
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.toolbox import Toolbox
from tests.scripted import Scripted

SNIPPETS = {
    # nothing that a summary of names could tell
    "a number": "1 + 1",
    "a text": "'text'",
    "nothing": "",
    "a space": " ",
    "empty lines": "\n\n\n",
    "a comment": "# only a comment",
    "comments": "# one\n# two\n",
    "pass": "pass",
    "an ellipsis": "...",
    "none": "None",
    "a docstring": '"""A text."""',
    "a semicolon": "1; 2; 3",
    "an empty list": "[]",
    "an assertion": "assert True",
    "an exception": "raise SystemExit",
    "a loop": "while False: pass",
    "a display": "{1: 2}",
    # built-in names only
    "print": "print('x')",
    "a file": "open('made', 'w').write('x')",
    "a file by print": "print('x', file=open('made', 'w'))",
    "__import__": "__import__('pathlib').Path('made').touch()",
    "exec": "exec(\"open('made', 'w')\")",
    "eval": "eval(\"open('made', 'w')\")",
    "compile": "exec(compile(\"open('made', 'w')\", 'x', 'exec'))",
    "getattr": "getattr(__import__('os'), 'mkdir')('made')",
    "globals": "globals().clear()",
    "vars": "vars()['x'] = 1",
    "input": "input('y?')",
    "exit": "exit()",
    "quit": "quit(1)",
    "breakpoint": "breakpoint()",
    "builtins": "__builtins__",
    "subclasses": "().__class__.__base__.__subclasses__()",
    "a generator": "list(open('made', 'w') for _ in [0])",
    "a comprehension": "[open('made', 'w') for _ in range(1)]",
    "a lambda": "(lambda: open('made', 'w'))()",
    "a lambda with a default": "(lambda made=open('made', 'w'): made)()",
    "an f-string": "f\"{open('made', 'w')}\"",
    "a walrus": "(made := open('made', 'w'))",
    "a star": "print(*open('made', 'w+'))",
    "map": "list(map(__import__, ['this']))",
    # names
    "an import": "import os; os.mkdir('made')",
    "an import from": "from os import mkdir as m; m('made')",
    "a star import": "from os import *\nmkdir('made')",
    "a function": "def f():\n    open('made', 'w')\nf()",
    "a class": "class A:\n    open('made', 'w')",
    "a decorator": "@print\ndef f(): pass",
    "a decorator that calls": "@(lambda f: open('made', 'w'))\ndef f(): pass",
    "await": "import asyncio\nawait asyncio.sleep(0)",
    "an async function": "async def f():\n    open('made', 'w')\nawait f()",
    "an async comprehension": "[x async for x in made()]",
    "with": "with open('made', 'w') as f: f.write('x')",
    "try": "try:\n    1 / 0\nfinally:\n    open('made', 'w')",
    "match": "match open('made', 'w'):\n    case _: pass",
    "a deletion": "del rows",
    "a change": "rows.append(1)",
    "a global": "def f():\n    global rows\n    rows = 0\nf()",
    # what is not Python
    "a syntax error": "open('made', 'w') )",
    "a bad indent": "x = 1\n  y = 2",
    "an open bracket": "open(",
    "a magic": "%cd /",
    "a cell magic": "%%bash\ntouch made",
    "a shell command": "!touch made",
    "prose": "I would like to delete the file.",
    "a null byte": "open('made', 'w')\x00",
    "a null byte in a text": "'\x00'",
    "a form feed": "\x0copen('made', 'w')",
    "a carriage return": "open('made', 'w')\r# harmless",
    "invisible characters": "\u200bopen('made', 'w')",
    "reversed text": "'\u202e' and open('made', 'w')",
    "letters that look alike": "\u043epen = 1",
    "deep brackets": "(" * 300 + ")" * 300,
    "deep lists": "[" * 150 + "]" * 150,
    "a deep sum": "0" + "+0" * 20_000,
    "deep attributes": "x" + ".x" * 20_000,
    "deep signs": "-" * 5_000 + "1",
    "a coding line": "# -*- coding: rot13 -*-\ncevag('k')",
    "a future import": "from __future__ import annotations",
    "type hints": "x: open('made', 'w') = 1",
}


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The code that the tool came to run, in an empty folder."""
    codes: list[str] = []
    compiled = module.compiled

    def counted(code: str, *options: Any) -> Any:
        codes.append(code)
        return compiled(code, *options)

    monkeypatch.setattr(module, "compiled", counted)
    monkeypatch.chdir(tmp_path)
    return codes


def run(code: str, person: Scripted, approve: Any = None) -> CallOutcome:
    executor = KernelExecutor(
        Toolbox(python_tool("ask")), {"rows": [1]}, approve=approve, person=person
    )
    [outcome] = executor.run([ToolCall("c", "python", {"code": code})])
    return outcome


def test_there_are_at_least_sixty_different_pieces_of_code() -> None:
    assert len(set(SNIPPETS.values())) == len(SNIPPETS) >= 60


@pytest.mark.parametrize("code", SNIPPETS.values(), ids=SNIPPETS.keys())
def test_no_code_runs_that_was_not_approved(code: str, ran: list[str], tmp_path: Path) -> None:
    refused: list[CallOutcome] = []
    for answer in ("n", "not this", "stop", KeyboardInterrupt, EOFError):
        person = Scripted(answer)
        refused.append(run(code, person))
        assert len(person.prompts) == 1
    for approve in ("deny", lambda tool, call: "Never."):
        person = Scripted()
        refused.append(run(code, person, approve))
        assert person.prompts == []
    nobody = Scripted(there=False)
    refused.append(run(code, nobody))
    assert nobody.prompts == []
    statuses = [each.status for each in refused]
    assert statuses == ["refused"] * 2 + ["interrupted"] * 2 + ["refused"] * 4
    assert ran == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", SNIPPETS.values(), ids=SNIPPETS.keys())
def test_all_of_the_code_is_shown(code: str) -> None:
    person = Scripted("n")
    run(code, person)
    assert "left out" not in person.prompts[0]
    assert "shortened" not in person.prompts[0]


@pytest.mark.parametrize("code", ["x = '\ud800'", "\udcff"], ids=["in a text", "alone"])
def test_code_with_half_of_a_surrogate_pair_never_runs(code: str, ran: list[str]) -> None:
    for approve, person in (
        (None, Scripted("n")),
        ("deny", Scripted()),
        (None, Scripted(there=False)),
    ):
        assert run(code, person, approve).status == "refused"
    assert ran == []


def test_an_agent_asks_about_code_that_names_nothing(ran: list[str]) -> None:
    for options, person in (
        ({}, Scripted("n")),
        ({"approve": "deny"}, Scripted()),
        ({}, Scripted(there=False)),
        ({"approve": lambda tool, call: "No."}, Scripted()),
    ):
        model = ScriptedModel(("python", {"code": "1 + 1"}), ("final_answer", "ok"))
        model.person = lambda real, person=person: person  # type: ignore[attr-defined]
        asked = Agent([], model, namespace={}, python="ask", **options).run("go")  # type: ignore[arg-type]
        assert [outcome.status for _, outcome in asked.calls] == ["refused"]
    assert ran == []


def test_approved_code_runs_once(ran: list[str]) -> None:
    person = Scripted("y")
    assert run("1 + 1", person).value == 2
    assert ran == ["1 + 1"]


# ── code that cannot be shown whole ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "code",
    [
        "x = 1\n" * (MAX_VALUE // 6 + 1),
        f"'{'x' * MAX_VALUE}'",
        "# " + "\u3164" * (MAX_VALUE // 6 + 1),  # each is shown as \\u3164
        "if 1:\n" + "\t" * (MAX_VALUE // 4 + 1) + "pass",  # each is shown as four spaces
    ],
    ids=["many lines", "a long line", "escaped characters", "tabs"],
)  # fmt: skip
def test_code_that_is_too_long_to_be_shown_is_refused_with_the_reason(
    code: str, ran: list[str]
) -> None:
    person = Scripted()
    outcome = run(code, person)
    assert outcome.status == "refused"
    assert "100,000" in outcome.text
    assert person.prompts == []
    person = Scripted("code = " + repr(code), "n")
    assert run("1", person).status == "refused"
    assert "100,000" in person.prompts[1]
    assert "code = '1'" in person.prompts[1]  # still the code of before
    assert ran == []


def test_the_longest_code_that_can_be_shown_is_shown_whole(ran: list[str]) -> None:
    code = "\n".join(["x = 1"] * (MAX_VALUE // 6))
    person = Scripted("y")
    assert run(code, person).status == "done"
    assert person.prompts[0].count("x = 1") == code.count("x = 1")
    assert ran == [code]
