"""A notebook shows the user's lines and the message of our exceptions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
        ("agent.map([], 'Why?', n=1)", "TypeError: Agent.map() got an unexpected keyword"),
        ("agent.chat", "AttributeError: 'Agent' object has no attribute 'chat'"),
    ):
        cell = kernel.run(code)
        assert f"----> 1 {code}" in cell.error
        assert said in cell.error
        assert "archytas_nb/" not in cell.error
