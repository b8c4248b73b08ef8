"""`%%tool` and `%tools` in a real kernel."""

from tests.live_kernel import Kernel
from tests.magics.conftest import COUNT


def tools(kernel: Kernel) -> str:
    return kernel.run("import archytas_nb; list(archytas_nb.toolbox)").result


def test_a_cell_of_functions_becomes_tools_and_helpers_do_not(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%tool\n"
        "def _helper(x):\n    return x\n"
        'def twice(x: int) -> int:\n    """Double a number.\n\n    Args:\n        x: It\n    """\n'
        "    return 2 * _helper(x)"
    )
    assert cell.status == "ok", cell.error
    assert "twice" in cell.result
    assert "_helper" not in cell.result
    assert kernel.run("twice(4)").result == "8"


def test_only_the_decorated_functions_of_a_cell_become_tools_where_there_are_any(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%tool\nfrom archytas_nb import tool\n"
        '@tool\ndef chosen() -> int:\n    """One."""\n    return 1\n'
        'def left_out() -> int:\n    """Two."""\n    return 2\n'
    )
    assert cell.status == "ok", cell.error
    assert "chosen" in cell.result
    assert "left_out" not in tools(kernel)


def test_a_failing_cell_fails_and_registers_nothing_and_its_traceback_names_the_line(kernel: Kernel) -> None:
    before = tools(kernel)
    cell = kernel.run(
        '%%tool\nfrom archytas_nb import tool\n@tool\ndef doomed() -> int:\n    """One."""\n    return 1\n1 / 0'
    )
    assert cell.status == "error"
    assert "ZeroDivisionError" in cell.error
    assert "line 7" in cell.error
    assert tools(kernel) == before


def test_a_function_without_docstring_is_refused_with_what_to_write(kernel: Kernel) -> None:
    before = tools(kernel)
    cell = kernel.run("%%tool\ndef bare(x):\n    return x")
    assert cell.status == "error"
    assert cell.error.startswith("ToolError: ")
    assert "'bare'" in cell.error
    assert "archytas_nb/" not in cell.error
    assert tools(kernel) == before


def test_the_source_of_a_tool_can_be_read_back(kernel: Kernel) -> None:
    kernel.run(COUNT)
    source = kernel.run("import inspect; print(inspect.getsource(count))").printed
    assert source.startswith("def count(species: str) -> int:")


def test_a_cell_may_use_the_syntax_of_ipython_and_show_its_last_value(kernel: Kernel) -> None:
    cell = kernel.run('%%tool\nhere = !echo hello\ndef f() -> int:\n    """One."""\n    return 1\nhere[0]')
    assert cell.status == "ok", cell.error
    assert "hello" in cell.result


def test_a_cell_without_functions_is_refused(kernel: Kernel) -> None:
    cell = kernel.run("%%tool\nx = 1")
    assert cell.status == "error"
    assert "no function" in cell.printed


def test_a_cell_run_again_replaces_its_tool_and_says_so(kernel: Kernel) -> None:
    kernel.run(COUNT)
    cell = kernel.run(COUNT.replace("Count the", "Number of"))
    assert "replaces the earlier one" in cell.result
    assert "Number of penguins" in kernel.run("%tools count").result


def test_tools_lists_every_tool_and_an_unknown_name_suggests_the_nearest(kernel: Kernel) -> None:
    kernel.run(COUNT)
    cell = kernel.run("%tools")
    assert "Count the penguins of one species." in cell.result
    assert "<table" in cell.of("execute_result")[0]["data"]["text/html"]
    assert "count" in kernel.run("%tools cuont").printed


def test_a_future_import_in_one_cell_does_not_hide_the_types_of_a_tool(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%tool\nfrom __future__ import annotations\n"
        'def plus(x: int) -> int:\n    """Add one.\n\n    Args:\n        x: It\n    """\n    return x + 1\n'
    )
    assert cell.status == "ok", cell.error
    assert "_input_: (int) It" in kernel.run("%tools plus").result
