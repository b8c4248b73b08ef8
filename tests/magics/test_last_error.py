"""The last error: what a question says of the cell before it, and what `%agent_fix` and `--cell` make of it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.agent import Agent
from archytas_nb.cells import failure
from archytas_nb.errors import ArchytasError
from archytas_nb.loop.wire import CODE_IN_COPY
from archytas_nb.models.secrets import mask_in
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold

CORRECTED = "A letter.\n\n```\nnot this\n```\n\n```python\nx = 1\nprint(x)\n```\n\n```sh\nls\n```"


@pytest.fixture
def told(shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run cells, each as a front end does, and return what the next question says of the last error."""
    monkeypatch.delenv("ARCHYTAS_NB_CONTEXT")
    monkeypatch.setattr(shell, "showtraceback", lambda *_, **__: None)
    monkeypatch.setattr(shell, "showsyntaxerror", lambda *_, **__: None)

    def run(*cells: str) -> str:
        for each in cells:
            shell.run_cell(each, store_history=True)
        found = failure.last_error(mask_in(shell.user_ns))
        return found.text if found is not None else ""

    return run


@pytest.mark.parametrize(
    ("cell", "parts"),
    [
        ("a = 1\n1 / 0\nb = 2", ["```python\na = 1\n1 / 0\nb = 2\n```", "ZeroDivisionError: ", "cell [1], line 2: 1 / 0"]),
        ("def f():\n    raise KeyError('k')\nf()", ["KeyError: 'k'", "line 3: f()", "line 2, in f: raise KeyError('k')"]),
        ("x = = 1", ["SyntaxError: invalid syntax (line 1)"]),
        ("import json\njson.loads('{')", ["json/decoder.py, line "]),
        ("try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError('v') from error", ["ValueError: v\ncaused by ZeroDivisionError"]),
        ("class E(Exception):\n    def __str__(self):\n        raise E()\nraise E()", ["E: (its message cannot be read)"]),
        ("raise ValueError(object())", ["ValueError: <object object>"]),
        ("error = ValueError('v')\nerror.add_note('mind the gap')\nraise error", ["note: mind the gap"]),
    ],
)  # fmt: skip
def test_a_question_after_a_failure_says_what_failed_and_where(
    told: Any, cell: str, parts: list[str]
) -> None:
    text = told(cell)
    assert text.startswith("The cell that ran before this question, [1], failed:\n")
    assert [each for each in parts if each not in text] == []
    assert "ipykernel" not in text
    assert "interactiveshell" not in text


def test_a_later_cell_that_succeeds_ends_it_and_a_question_does_not(told: Any) -> None:
    shell = InteractiveShell.instance()
    shell.user_ns["m"] = ScriptedModel(("final_answer", "Because."), RuntimeError("broken"))
    first = told("1 / 0")
    assert first
    assert told("%agent -m m Why?") == first
    assert told("  # only a remark", "%load_ext archytas_nb") == first
    assert told("%agent -m m And why?") == first  # the question itself fails
    assert told("%tools") == first
    shell.run_cell("x = 1", silent=True)  # as a front end does for its own purposes
    assert told() == first
    assert told("x = 1") == ""
    assert told("raise KeyError('a')", "x = 1") == ""


def test_without_the_extension_it_is_the_last_cell(told: Any) -> None:
    first = told("1 / 0")
    shell = InteractiveShell.instance()
    shell.run_line_magic("unload_ext", "archytas_nb")
    assert told() == first
    assert told("x = 1") == ""
    shell.run_cell("1 / 0", store_history=True)
    shell.run_line_magic("load_ext", "archytas_nb")  # loaded after the failure
    assert "[3], failed" in told()


def failed(source: str, error: BaseException, line: int = 1) -> str:
    """The text of a cell that failed in this line, without the seconds that IPython takes to show it."""
    code = compile("\n" * (line - 1) + "raise error", "<ipython-input-1-test>", "exec")
    try:
        exec(code, {"error": error})
    except BaseException as caught:
        mask = mask_in({})
        shell = InteractiveShell.instance()
        shell.compile._filename_map["<ipython-input-1-test>"] = 1
        return failure.described(failure.Failure(1, source, caught), mask).text
    raise AssertionError


def test_texts_of_any_length_are_bounded_and_the_line_is_among_them(
    shell: InteractiveShell,
) -> None:
    many = "\n".join(f"value_{n} = {n}" for n in range(10_000))
    text = failed(f"{many}\nfails() # here\n{many}", ValueError("v"), line=10_001)
    assert len(text) < 3000
    assert "\nvalue_9999 = 9999\nfails() # here\nvalue_0 = 0\n" in text
    assert len(failed("x", ValueError("x" * 100_000_000))) < 3000
    assert len(failed("x" * 1_000_000, ValueError("v"))) < 3000
    assert len(failed("x\n" * 1_000_000, ValueError("v"), line=500_000)) < 3000
    chain = error = ValueError("0")
    for n in range(9):
        error.__cause__ = ValueError(str(n) * 5000)
        error = error.__cause__
    error.__cause__ = chain
    assert len(failed("x", chain)) < 6000

    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        else:
            raise ValueError("deep")

    with pytest.raises(ValueError, match="deep") as caught:
        deep(500)
    text = failed("x", caught.value)
    assert "frames\n" in text
    assert len(text) < 3000
    key = "-----BEGIN PRIVATE KEY-----\n" + "QUJD\n" * 50 + "-----END PRIVATE KEY-----"
    text = failed(f'key = """{key}"""\nfails() # here', ValueError("v"), line=53)
    assert "QUJD" not in text
    assert "fails() # here" in text


def test_names_of_any_length_are_bounded(told: Any) -> None:
    text = told(
        "class E(Exception): pass\nE.__name__ = E.__qualname__ = 'E' * 1_000_000\n"
        "exec('def ' + 'f' * 100_000 + '(): raise E(5)\\n' + 'f' * 100_000 + '()')"
    )
    assert "E…: 5" in text
    assert len(text) < 3000


def test_an_exception_whose_attributes_raise_does_not_keep_anybody_from_asking(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hostile(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise MemoryError(name)

    monkeypatch.setattr(
        failure, "last_failure", lambda: failure.Failure(1, "raise Hostile()", Hostile())
    )
    text = told()
    assert text == "The cell that ran before this question, [1], failed: its error cannot be read."


def test_secrets_are_masked_in_the_source_the_message_and_the_frames(
    told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "canary-1-of-the-environment")
    shell = InteractiveShell.instance()
    shell.user_ns["db_password"] = "canary-2 of a variable"
    text = told(
        "import os\nsettings = {'api_key': 'canary-3'}\npassword = f'canary-4'\n"
        "def connect(secret, url):\n    raise ValueError(os.environ['SERVICE_TOKEN'] + db_password)\n"
        "connect(secret='canary-5', url='http://u:canary6@host/')"
    )
    assert "canary" not in text
    assert "{SERVICE_TOKEN}{db_password}" in text


def test_two_runs_of_a_notebook_say_the_same(told: Any) -> None:
    cells = ["def f(x):\n    return x.y", "f(object())"]
    first = told(*cells)
    told("%reset -f")
    second = told(*cells)
    assert re.sub(r"\[\d+\]", "[n]", first) == re.sub(r"\[\d+\]", "[n]", second)


def question(**more: Any) -> str:
    model = ScriptedModel(("final_answer", "yes"))
    Agent([], model, **more).run("Why?")
    return str(model.asked[0].messages[-1]["content"])


def test_an_agent_in_python_is_told_too_unless_it_may_not(told: Any) -> None:
    assert question(context="mentioned") == f"Why?\n\n{CODE_IN_COPY}"
    text = told("values = [1]\n1 / 0")
    assert question(context="none") == "Why?"
    assert text not in question(namespace={})  # other variables: another place
    asked = question(context="mentioned")
    assert asked.endswith(f"\n\n{text}\n\n{CODE_IN_COPY}")
    assert "values: list[1 int]" in asked  # the failed cell names it


def test_a_small_model_has_no_tools_to_read_variables_beside_an_error(told: Any) -> None:
    class Small(ScriptedModel):
        is_small = True

    def tools(model: Any) -> set[str]:
        return {*Agent([], model).prepared("Why? Look at values.").tools}

    told("values = [1]")
    assert "look" in tools(Small())
    told("values[7]")
    assert "look" not in tools(Small())
    assert "look" in tools(ScriptedModel())


def test_an_error_is_told_once_in_a_conversation(told: Any) -> None:
    text = told("1 / 0")
    model = ScriptedModel(*[("final_answer", f"{n}") for n in range(4)])
    agent = Agent([], model, context="mentioned")
    agent.run("Why?")
    agent.run("And now?")
    assert "\n".join(str(each["content"]) for each in model.asked[1].messages).count(text) == 1
    other = told("[][1]")
    agent.run("And this?")
    assert other in str(model.asked[2].messages[-1]["content"])
    agent.reset()
    agent.run("Something else?")
    assert other not in str(model.asked[3].messages[-1]["content"])


def test_an_error_is_told_with_the_question_that_follows_it_or_names_it(told: Any) -> None:
    text = told("1 / 0")
    model = ScriptedModel(RuntimeError("broken"), *[("final_answer", f"{n}") for n in range(5)])

    def ask(question: str, origin: str = "") -> str:
        with suppress(RuntimeError, ArchytasError):
            Agent([], model, context="mentioned").run(question, origin=origin)
        return str(model.asked[-1].messages[-1]["content"])

    assert text in ask("Why?")  # which the model does not answer
    assert text in ask("Why?")
    assert text not in ask("How many rows has it?")
    assert text in ask("Why did cell [1] fail?")
    agent = Agent([], model, context="mentioned")
    told("[][1]")
    for _ in range(2):  # the same cell asks again
        agent.run("Why?", origin="a cell")
        assert "IndexError" in str(model.asked[-1].messages[-1]["content"])


def test_the_trace_names_the_error(told: Any) -> None:
    told("1 / 0")
    run = Agent([], ScriptedModel(("final_answer", "yes"))).run("Why?")
    view = fold(run.question, run.events)
    shown, _ = bundle(view)
    assert all("with the error of cell 1" in shown[kind] for kind in shown)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch, shell: InteractiveShell) -> list[tuple[str, bool]]:
    """The cells that are put below."""
    cells: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        shell, "set_next_input", lambda text, replace=False: cells.append((text, replace))
    )
    return cells


def test_the_corrected_cell_is_put_below_and_not_run(
    told: Any, added: list[tuple[str, bool]], capsys: pytest.CaptureFixture[str]
) -> None:
    told("x = 0\n1 / x")
    shell = InteractiveShell.instance()
    replies = [("final_answer", CORRECTED)] * 2
    model = shell.user_ns["m"] = ScriptedModel(*replies, ("final_answer", "No idea."), "Still not.")
    shell.run_line_magic("agent_fix", "-m m and keep x")
    asked = str(model.asked[0].messages[-1]["content"])
    assert asked.startswith("Why did cell [1] fail?")
    assert "and keep x\n\n" in asked
    assert "line 2: 1 / x\n\n" in asked
    assert asked.endswith("one block of code that begins with ```python.")
    assert added == [("x = 1\nprint(x)", False)]
    assert shell.user_ns["x"] == 0
    shell.run_line_magic("agent", "-m m --cell Write it.")
    assert len(added) == 2
    capsys.readouterr()
    shell.run_line_magic("agent", "-m m --cell Write it.")
    assert len(added) == 2
    assert "no cell was added" in capsys.readouterr().out
    assert len(model.asked) == 4


def test_a_model_that_leaves_the_code_out_is_asked_for_it_once_more(
    told: Any, added: list[tuple[str, bool]]
) -> None:
    told("x = 0\n1 / x")
    shell = InteractiveShell.instance()
    answer = ("final_answer", "x is zero.")
    model = shell.user_ns["m"] = ScriptedModel(answer, "Here it is:\n```python\nx = 1\n```\nBye.")
    run = shell.run_line_magic("agent_fix", "-m m")
    assert added == [("x = 1", False)]
    assert run.answer == "x is zero.\n\n```python\nx = 1\n```"
    assert run.question.startswith("Why did cell [1] fail?")
    assert "```python" not in run.question
    again = [str(each["content"]) for each in model.asked[1].messages]
    assert "line 2: 1 / x" in again[1]
    assert again[2] == "x is zero."
    assert not model.asked[1].tools
    # What follows continues the whole answer.
    shell.user_ns["m"] = model = ScriptedModel(("final_answer", "Yes."))
    shell.run_line_magic("agent", "-m m Are you sure?")
    assert "```python\\nx = 1" in str(model.asked[0].messages[-2]["content"])


def test_code_is_asked_for_again_only_while_the_run_may_go_on(
    told: Any, added: list[tuple[str, bool]]
) -> None:
    told("1 / 0")
    shell = InteractiveShell.instance()
    shell.user_ns["m"] = model = ScriptedModel(("final_answer", "It is zero."))
    run = shell.run_line_magic("agent_fix", "-m m --max-steps 1")
    assert run.answer == "It is zero."
    assert len(model.asked) == 1
    assert added == []


def test_there_is_nothing_to_correct_where_nothing_failed_or_may_be_seen(
    told: Any, added: list[tuple[str, bool]]
) -> None:
    shell = InteractiveShell.instance()
    told("x = 1")
    with pytest.raises(UsageError, match="did not fail"):
        shell.run_line_magic("agent_fix", "")
    told("1 / 0")
    with pytest.raises(UsageError, match="context is 'none'"):
        shell.run_line_magic("agent_fix", "--context none")
    assert added == []


def test_half_an_answer_is_no_cell(told: Any, added: list[tuple[str, bool]]) -> None:
    told("1 / 0")
    shell = InteractiveShell.instance()
    shell.user_ns["m"] = ScriptedModel(
        ("python_", {}), ("final_answer", "```python\nx = 1\n```"), protocol="native"
    )
    shell.run_line_magic("agent_fix", "-m m --max-steps 1")
    assert added == []
