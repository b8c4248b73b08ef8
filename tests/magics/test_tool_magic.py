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


def test_only_the_decorated_functions_of_a_cell_become_tools_where_there_are_any(
    kernel: Kernel,
) -> None:
    cell = kernel.run(
        "%%tool\nfrom archytas_nb import tool\n"
        '@tool\ndef chosen() -> int:\n    """One."""\n    return 1\n'
        'def left_out() -> int:\n    """Two."""\n    return 2\n'
    )
    assert cell.status == "ok", cell.error
    assert "chosen" in cell.result
    assert "left_out" not in tools(kernel)


def test_a_failing_cell_fails_and_registers_nothing_and_its_traceback_names_the_line(
    kernel: Kernel,
) -> None:
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
    cell = kernel.run(
        '%%tool\nhere = !echo hello\ndef f() -> int:\n    """One."""\n    return 1\nhere[0]'
    )
    assert cell.status == "ok", cell.error
    assert "hello" in cell.result


def test_a_cell_without_functions_is_refused(kernel: Kernel) -> None:
    cell = kernel.run("%%tool\nx = 1")
    assert cell.status == "error"
    assert "any functions" in cell.printed


def test_a_tool_that_another_cell_defines_replaces_the_earlier_one_and_says_so(
    kernel: Kernel,
) -> None:
    kernel.run(COUNT, cell_id="t1")
    for cell_id, says_so in (("t1", False), ("t2", True), (None, True)):
        cell = kernel.run(COUNT, cell_id=cell_id)
        assert ("replaces the earlier one" in cell.result) == says_so
    kernel.run(COUNT.replace("Count the", "Number of"))
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


def test_flags_reach_the_tool_and_are_refused_where_the_cell_decorates(kernel: Kernel) -> None:
    cell = kernel.run(
        COUNT.replace(
            "%%tool", "%%tool --name how_many --timeout 2.5 --max-chars 90 --repeat --approve"
        )
    )
    assert cell.status == "ok", cell.error
    made = "t = archytas_nb.toolbox['how_many']; (t.timeout, t.max_chars, t.repeat, t.approve)"
    assert kernel.run(f"import archytas_nb; {made}").result == "(2.5, 90, True, True)"
    cell = kernel.run(
        '%%tool --repeat\nfrom archytas_nb import tool\n@tool\ndef g() -> int:\n    """One."""\n    return 1'
    )
    assert cell.status == "error"
    assert "@tool(" in cell.printed
    assert "g" not in kernel.run("list(archytas_nb.toolbox)").result.split("'")


def test_a_flag_that_is_no_number_is_refused_in_plain_words(kernel: Kernel) -> None:
    for flag, expected in (("--timeout soon", "a number"), ("--max-chars 1.5", "a whole number")):
        cell = kernel.run(COUNT.replace("%%tool", f"%%tool {flag}"))
        name, _, value = flag.partition(" ")
        assert f"UsageError: argument {name}: {value!r} is not {expected}\n" in cell.printed


def test_a_cell_without_functions_says_what_to_write(kernel: Kernel) -> None:
    for code in ("double = lambda x: 2 * x", "class Shop:\n    def price(self) -> int: return 1"):
        cell = kernel.run(f"%%tool\n{code}")
        assert "any functions that could be tools: write one with def, or decorate" in cell.printed


def test_a_decorator_that_was_not_imported_is_explained(kernel: Kernel) -> None:
    kernel.run("globals().pop('tool', None)")
    cell = kernel.run(COUNT.replace("%%tool", "%%tool\n@tool"))
    assert "name 'tool' is not defined" in cell.error
    assert "%%tool needs no @tool; for its options: from archytas_nb import tool" in cell.error


def test_a_tool_can_be_disabled_enabled_and_removed(kernel: Kernel) -> None:
    kernel.run(COUNT)
    assert "(disabled) Count" in kernel.run("%tools --disable count").result
    assert "(disabled)" not in kernel.run("%tools --enable count").result
    assert "count " not in kernel.run("%tools --remove count").result
    assert "no tool is named 'count'" in kernel.run("%tools --remove count").printed


def test_a_page_shows_text_schema_and_cost(kernel: Kernel) -> None:
    kernel.run(COUNT)
    page = kernel.run("%tools count").result
    assert page.startswith("count:\n    Count the penguins of one species.")
    assert '"type": "object"' in page
    assert "tokens in each request" in page


def test_a_class_with_decorated_methods_gives_its_methods(kernel: Kernel) -> None:
    cell = kernel.run(
        "%%tool\nfrom archytas_nb import tool\nclass Counter:\n    n = 0\n    @tool\n"
        '    def step(self) -> int:\n        """Count on."""\n        self.n += 1\n        return self.n\n'
    )
    assert cell.status == "ok", cell.error + cell.printed
    assert "tool step" in cell.result


def test_names_are_completed(kernel: Kernel) -> None:
    kernel.run(COUNT)
    code = "get_ipython().complete('co', '%tools co', 9)[1]"
    assert "'count'" in kernel.run(code).result


def test_an_error_names_its_own_cell_and_a_syntax_error_is_short(kernel: Kernel) -> None:
    cell = kernel.run("%%tool\n1 / 0")
    number = cell.reply["execution_count"]
    assert f"Cell In[{number}], line 2" in cell.error
    cell = kernel.run("%%tool\ndef f( -> int:\n    pass")
    assert "SyntaxError" in cell.error
    assert "line 2" in cell.error
    assert "archytas_nb" not in cell.error


def test_a_tool_with_issues_takes_one_line_and_check_lists_all_of_them(kernel: Kernel) -> None:
    cell = kernel.run(
        '%%tool\ndef doubtful(x: int, y: int):\n    """Add.\n\n    Args:\n        x (str): One.\n    """\n'
        "    return x + y\n"
        'def clean(x: int) -> int:\n    """Add one.\n\n    Args:\n        x: One.\n    """\n    return x + 1\n'
    )
    assert cell.status == "ok", cell.error
    assert len(cell.result.split("\n")) == 3
    assert "2 more" in cell.result
    listed = kernel.run("%tools --warnings").result
    assert "doubtful" in listed
    assert "'y'" in listed
    assert "clean" not in listed
    assert "no issues" in kernel.run("%tools clean --warnings").result


CHECKED = '''%%tool --dry-run
x = 5
del y
def count(fruit: str, basket: int):
    """Count the fruit.

    Args:
        fruit: Which one
    """
    return 3
def _of_baskets():
    pass
'''


def test_check_shows_what_the_model_would_read_and_keeps_nothing(kernel: Kernel) -> None:
    kernel.run("x, y = 1, 2")
    before = kernel.run("%tools").result
    cell = kernel.run(CHECKED.replace("count(", "weigh("))
    assert cell.status == "ok", cell.error
    shown = cell.result
    assert "weigh:" in shown
    assert "Which one" in shown
    assert "! the docstring does not describe 'basket'" in shown
    assert "tokens in each request" in shown
    assert "not registered: weigh" in shown
    assert kernel.run("%tools").result == before
    assert kernel.run("x, y, 'weigh' in globals(), '_of_baskets' in globals()").result == (
        "(1, 2, False, False)"
    )


def test_check_leaves_an_earlier_tool_as_it_was(kernel: Kernel) -> None:
    kernel.run(COUNT)
    before = kernel.run("%tools count").result
    checked = kernel.run(CHECKED.replace("del y", ""))
    assert "not registered: count" in checked.result
    assert kernel.run("%tools count").result == before
    assert kernel.run("import archytas_nb as nb; nb.toolbox['count'].function is count").result == (
        "True"
    )


def test_check_of_a_cell_that_fails_keeps_nothing(kernel: Kernel) -> None:
    cell = kernel.run("%%tool --dry-run\nz = 1\n1 / 0")
    assert "ZeroDivisionError" in cell.error
    assert kernel.run("'z' in globals()").result == "False"
    cell = kernel.run("%%tool --dry-run\nz = 1\ndef f(a): ...")
    assert "the argument 'a' has no annotation" in cell.error
    cell = kernel.run("%%tool --dry-run\nz = 1")
    assert (cell.status, cell.result) == ("error", "")
    assert kernel.run("'z' in globals()").result == "False"


def test_check_works_with_decorated_tools_and_options(kernel: Kernel) -> None:
    before = kernel.run("%tools").result
    cell = kernel.run(
        "%%tool --dry-run\nfrom archytas_nb import tool\n@tool(name='total')\n"
        "def f() -> int:\n    'Add up.'\n    return 1\n"
    )
    assert "no issues" in cell.result
    assert "not registered: total" in cell.result
    cell = kernel.run(
        "%%tool --dry-run --name sum_up\ndef f() -> int:\n    'Add up.'\n    return 1"
    )
    assert "not registered: sum_up" in cell.result
    assert kernel.run("%tools").result == before
