"""Run the cell under ``%%tool`` as if it were a cell of its own.

Tracebacks name the cell and the line that the user sees, ``inspect.getsource`` and ``%debug`` work, IPython
syntax is understood, and a cell that fails fails.
"""

from __future__ import annotations

import ast
import traceback
from typing import Any

from IPython.core.error import UsageError

from archytas_nb.errors import ToolError


def run_cell(shell: Any, source: str) -> ast.Module:
    """Run source in the shell's namespace, and show the value of its last expression.

    Args:
        shell: The IPython shell.
        source: The cell's body, without the line of the magic.

    Returns:
        The syntax tree of what was run.

    Raises:
        ToolError: The cell is no Python.
        UsageError: The cell awaits at top level, which a magic cannot do.
        Exception: Whatever the cell raises.
    """
    __tracebackhide__ = True
    # The first line stands for that of the magic, so that line numbers are those of the cell.
    code = "\n" + shell.transform_cell(source)
    name = shell.compile.cache(code, _number(shell), raw_code=code)
    try:
        tree: ast.Module = ast.parse(code, name, "exec")
        flags: int = shell.compile.flags
        *head, last = tree.body or [
            ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)
        ]
        shows = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
        body = ast.Module(head if shows else [*head, last], type_ignores=[])
        runs = [compile(body, name, "exec", flags=flags, dont_inherit=True)]
        if shows:
            runs.append(
                compile(ast.Interactive([last]), name, "single", flags=flags, dont_inherit=True)
            )
    except SyntaxError as error:
        if "await" in str(error.msg) or "async" in str(error.msg):
            raise UsageError(
                f"{error.msg}: put top-level await into a cell without %%tool"
            ) from None
        # IPython draws a SyntaxError with every frame of ours, whatever the exception wishes.
        error.filename = "this cell"
        raise ToolError(
            "the cell is no Python:\n" + "".join(traceback.format_exception_only(error))
        ) from None
    for each in runs:
        exec(each, shell.user_ns)  # noqa: S102 - running the user's cell is what a kernel is for
    return tree


def _number(shell: Any) -> int:
    """The number of the running cell; the shell's own counter may be ahead of it."""
    cells: list[str] = shell.history_manager.input_hist_raw
    number: int = shell.execution_count
    return len(cells) - 1 if cells and cells[-1].lstrip().startswith("%%") else number


def public_names(tree: ast.Module, *kinds: type[ast.stmt]) -> list[str]:
    """Names of the public definitions of these kinds at a cell's top level, in order, each once."""
    found = [str(getattr(node, "name", "_")) for node in tree.body if isinstance(node, kinds)]
    return list(dict.fromkeys(name for name in found if not name.startswith("_")))
