"""A notebook shows the user's lines and the message of our exceptions."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from archytas_nb import Agent
from archytas_nb.errors import RunError, with_users_frames
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Kernel, live_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel, without the extension."""
    with live_kernel(Path(tmp_path_factory.mktemp("kernel"))) as kernel:
        yield kernel


@pytest.mark.parametrize("decorator", ["@nb.tool", "@nb.tool(timeout=3)"])
def test_a_decorator_on_an_invalid_function_shows_its_line_and_the_faults_without_our_frames(
    kernel: Kernel, decorator: str
) -> None:
    cell = kernel.run(f"import archytas_nb as nb\n\n{decorator}\ndef f(x):\n    return x")
    assert cell.status == "error"
    assert f"----> 3 {decorator}" in cell.error
    assert "has no annotation" in cell.error
    assert "archytas_nb/" not in cell.error
    assert "hidden" not in cell.error


def test_shows_the_users_frames_in_between(kernel: Kernel) -> None:
    kernel.run("def define(f):\n    return nb.tool(f)")
    cell = kernel.run("define(lambda x: 1)")
    assert "----> 1 define(lambda x: 1)" in cell.error
    assert "----> 2     return nb.tool(f)" in cell.error
    assert "archytas_nb/" not in cell.error


def test_a_failed_run_shows_the_line_that_asked(kernel: Kernel) -> None:
    kernel.run("from archytas_nb.testing import ScriptedModel")
    cell = kernel.run(
        "agent = nb.Agent([], model=ScriptedModel(('fail_task', 'no idea')))\nagent.run('Why?')"
    )
    assert "----> 2 agent.run('Why?')" in cell.error
    assert cell.error.endswith("TaskFailed: no idea")
    assert "archytas_nb/" not in cell.error


def test_debug_still_has_the_whole_traceback(kernel: Kernel) -> None:
    kernel.run("nb.tool(3)")
    kernel.run("import sys; tb = sys.last_traceback\nwhile tb.tb_next: tb = tb.tb_next")
    assert kernel.run("tb.tb_frame.f_globals['__name__']").result.startswith("'archytas_nb.tools.")


def test_a_built_in_error_of_an_agent_shows_the_line_that_asked(kernel: Kernel) -> None:
    kernel.run("agent = nb.Agent([])")
    for code, said in (
        ("agent.run('')", "ValueError: the question is empty"),
        ("list(agent.stream('Why?', images=3))", "ValueError: 3 is not an image"),
        (
            "await agent.arun('Why?', max_step=3)",
            "TypeError: Agent.run() has no argument 'max_step'",
        ),
        ("nb.Agent(max_steps=0)", "ValueError: max_steps"),
        ("agent.map(3, 'Why?')", "ValueError: data is of type 'int'"),
        ("agent.map([], 'Why?', n=1)", "TypeError: Agent.map() has no argument 'n'"),
        ("agent.chat", "AttributeError: 'Agent' object has no attribute 'chat'"),
    ):
        cell = kernel.run(code)
        assert f"----> 1 {code}" in cell.error
        assert said in cell.error
        assert "archytas_nb/" not in cell.error


USERS = """
class Raises:
    name, protocol = "mine", "native"
    def complete(self, ask):
        raise ERROR
        yield
def observer(event):
    raise ERROR
"""
ASKING = {
    "a model": "nb.Agent([], model=Raises()).run('Why?')",
    "a model, awaited": "await nb.Agent([], model=Raises()).arun('Why?')",
    "a model, row by row": "nb.Agent([], model=Raises()).map(['a'], 'Why?', store=None)",
    "an observer": "nb.Agent([], model=ScriptedModel(('final_answer', '5'))).run('Why?', observers=[observer])",
    "a condition": "nb.Agent([], model=ScriptedModel(('final_answer', '5'))).run('Why?', until=observer)",
}


@pytest.mark.parametrize("who", ASKING)
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("RuntimeError('real')", ["RuntimeError: real"]),
        (
            "ExceptionGroup('many', [RuntimeError('real'), OSError('disk')])",
            ["many", "real", "disk"],
        ),
        ("ExceptionGroup('a', [ExceptionGroup('b', [OSError('deep')])])", ["deep"]),
    ],
)
def test_an_error_of_the_users_code_is_an_error_output_without_our_frames(
    kernel: Kernel, who: str, error: str, shown: list[str]
) -> None:
    kernel.run(f"from archytas_nb.testing import ScriptedModel\nERROR = {error}\n{USERS}")
    cell = kernel.run(ASKING[who])
    assert cell.status == "error"
    assert all(word in cell.error for word in shown)  # an error output, and not a text on stderr
    assert "archytas_nb/" not in cell.error


def test_an_error_while_a_group_is_handled_is_an_error_output(kernel: Kernel) -> None:
    kernel.run(
        "class Handles:\n    name, protocol = 'mine', 'native'\n    def complete(self, ask):\n"
        "        try:\n            raise ExceptionGroup('many', [OSError('disk')])\n"
        "        except* OSError:\n            raise KeyError('second')\n        yield"
    )
    cell = kernel.run("nb.Agent([], model=Handles()).run('Why?')")
    assert cell.status == "error"
    assert "second" in cell.error
    assert "archytas_nb/" not in cell.error


def test_the_error_of_a_group_has_the_group_as_its_cause() -> None:
    group = ExceptionGroup("many", [OSError("disk")])
    with pytest.raises(RunError, match="disk") as raised:
        Agent([], model=ScriptedModel(group)).run("Why?")
    assert raised.value.__cause__ is group
    assert raised.value.run.question == "Why?"


def test_an_error_that_a_notebook_shows_like_ours_can_be_pickled() -> None:
    error = with_users_frames(KeyError("real"))
    assert pickle.loads(pickle.dumps(error)).args == ("real",)
