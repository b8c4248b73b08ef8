"""The tool `python`: runs code that a model writes in the user's namespace, as a cell would.

This is not a sandbox: the code has the permissions of the user. Tools that it calls follow their
own approval settings.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import re
from types import CodeType
from typing import Any, get_args

from archytas_nb.choices import PythonMode
from archytas_nb.kernel import origin
from archytas_nb.namespace import current_shell
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import LiveNamespace

MODES: tuple[str, ...] = get_args(PythonMode)

_NOT_PYTHON = re.compile(r"\s*(?:[%!?]|[^#\"']*?=\s*[%!]\s*\w)|.*\w\?+\s*$")


def python(code: str, variables: LiveNamespace) -> Any:  # noqa: D417
    """Run Python: returns the value of the last expression and what is printed; the user sees figures. The other tools are functions in it. The question says where it runs and what stays. Check what a conversion or a helper returned, such as missing values, before you use it.

    Args:
        code: Plain Python, no magics.
    """  # noqa: E501 - the model reads the line as it is
    if not isinstance(variables, dict):
        raise TypeError(f"code runs in a dict of variables; this namespace is {type(variables)!r}")
    codes = compiled(code, origin.current.get())
    if not any(each.co_flags & inspect.CO_COROUTINE for each in codes):
        return [eval(each, variables) for each in codes][-1]  # noqa: S307 - what this tool is for

    async def awaited() -> Any:
        for each in codes:
            value = eval(each, variables)  # noqa: S307
            if each.co_flags & inspect.CO_COROUTINE:
                value = await value
        return value

    return awaited()


def compiled(code: str, started_by: origin.Origin | None = None) -> list[CodeType]:
    """The statements, and the last expression by itself; tracebacks show their lines.

    Args:
        code: The code.
        started_by: What the functions of the code are marked with; None for no mark.

    Raises:
        SyntaxError: It is not Python; a magic or a shell command is named.
    """
    import hashlib

    name = f"<python {hashlib.sha256(code.encode()).hexdigest()[:8]}>"
    lines = code.splitlines(keepends=True)
    flags = getattr(getattr(current_shell(), "compile", None), "flags", 0)  # a cell's __future__
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        linecache.cache[name] = len(code), None, lines, name
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body.pop()
        codes = [compile(tree, name, "exec", flags, dont_inherit=True)]
        if isinstance(last, ast.Expr):
            body = ast.Expression(last.value)
            codes.append(compile(body, name, "eval", flags, dont_inherit=True))
    except SyntaxError as error:
        line = ""
        if error.lineno and lines:
            line = lines[error.lineno - 1].strip()
        if _NOT_PYTHON.match(line):
            raise SyntaxError(
                f"line {error.lineno} is refused: {line!r}. Magics, shell commands and ? are "
                "IPython's; only Python is run here."
            ) from None
        if error.text:
            error.add_note(f"line {error.lineno}: {error.text.strip()}")
        raise
    if started_by is not None:
        return [origin.marked(each, started_by) for each in codes]
    return codes


@functools.cache
def python_tool(mode: PythonMode) -> Tool:
    """The tool that runs code in the kernel.

    It is made once for a mode, so that an approval for the whole notebook holds.
    """
    approve = names_used if mode == "ask" else None
    return Tool.from_function(python, approve=approve, repeat=True, runs_code=True)


def names_used(code: str) -> str:
    """The names that code reads and changes, for the person who is asked."""
    try:
        found = Bindings.of(code)
    except (SyntaxError, ValueError):
        return "it is not valid Python and will not run"
    except (RecursionError, MemoryError):
        return "it is nested too deeply to tell which names it uses"
    parts = [("reads", found.read - {*dir(builtins)}), ("assigns to", found.changed)]
    return "; ".join(f"{what} {', '.join(sorted(names))}" for what, names in parts if names)
