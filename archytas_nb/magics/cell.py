"""Run the cell under ``%%tool`` as if it were a cell of its own.

Tracebacks name the cell and the line that the user sees, ``inspect.getsource`` and ``%debug`` work, IPython
syntax is understood, and a cell that fails fails.
"""

from __future__ import annotations

import ast
from typing import Any

from IPython.core.error import UsageError


def run_cell(shell: Any, source: str) -> ast.Module:
    """Run source in the shell's namespace, and show the value of its last expression.

    Args:
        shell: The IPython shell.
        source: The cell's body, without the line of the magic.

    Returns:
        The syntax tree of what was run.

    Raises:
        UsageError: The cell awaits at top level, which a magic cannot do.
        Exception: Whatever the cell raises.
    """
    __tracebackhide__ = True
    # The first line stands for that of the magic, so that line numbers are those of the cell.
    code = "\n" + shell.transform_cell(source)
    name = shell.compile.cache(code, shell.execution_count, raw_code=code)
    tree: ast.Module = ast.parse(code, name, "exec")
    try:
        flags: int = shell.compile.flags
        *head, last = tree.body or [ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)]
        shows = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
        body = ast.Module(head if shows else [*head, last], type_ignores=[])
        runs = [compile(body, name, "exec", flags=flags, dont_inherit=True)]
        if shows:
            runs.append(compile(ast.Interactive([last]), name, "single", flags=flags, dont_inherit=True))
    except SyntaxError as error:
        if "await" in str(error.msg) or "async" in str(error.msg):
            raise UsageError(f"{error.msg}: put top-level await into a cell without %%tool") from None
        raise
    for each in runs:
        exec(each, shell.user_ns)  # noqa: S102 - running the user's cell is what a kernel is for
    return tree


def public_names(tree: ast.Module, *kinds: type[ast.stmt]) -> list[str]:
    """Names of the public definitions of these kinds at a cell's top level, in order, each once."""
    found = [str(getattr(node, "name", "_")) for node in tree.body if isinstance(node, kinds)]
    return list(dict.fromkeys(name for name in found if not name.startswith("_")))
