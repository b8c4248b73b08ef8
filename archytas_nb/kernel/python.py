"""The tool `python`: runs code that a model writes in the user's namespace, as a cell would.

This is not a sandbox: the code has the permissions of the user. Tools that it calls follow their
own approval settings.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import inspect
import linecache
import re
from collections.abc import Iterator
from types import CodeType
from typing import Any, Literal, TypeAlias, get_args

from archytas_nb.kernel import current_shell
from archytas_nb.kernel.guard import ToolGuard, current_guard, guarded_tree, with_guard
from archytas_nb.tools.tool import Tool

PythonMode: TypeAlias = Literal["off", "ask", "undoable", "auto"]
"""Whether a model may run code: not at all, after approval, with undo, or without."""

MODES: tuple[str, ...] = get_args(PythonMode)

_NOT_PYTHON = re.compile(r"\s*(?:[%!?]|[^#\"']*?=\s*[%!]\s*\w)|.*\w\?+\s*$")


def python(code: str, variables: Any) -> Any:  # noqa: D417
    """Run Python code in the user's notebook and return the value of its last expression.

    It works on the variables of the notebook, and what it defines stays there. The other tools can be called as
    functions.

    Args:
        code: The code: plain Python, no magics.
    """  # noqa: E501 - the model reads the line as it is
    if not isinstance(variables, dict):
        raise TypeError(f"code runs in a dict of variables; this namespace is {type(variables)!r}")
    codes = compiled(code, current_guard.get())
    if not any(each.co_flags & inspect.CO_COROUTINE for each in codes):
        return [eval(each, variables) for each in codes][-1]  # noqa: S307 - what this tool is for

    async def awaited() -> Any:
        for each in codes:
            value = eval(each, variables)  # noqa: S307
            value = await value if each.co_flags & inspect.CO_COROUTINE else value
        return value

    return awaited()


def compiled(code: str, guard: ToolGuard | None = None) -> list[CodeType]:
    """The statements, and the last expression by itself; tracebacks show their lines.

    Args:
        code: The code.
        guard: Guards the tools that functions of the code call, also after the code has ended.

    Raises:
        SyntaxError: It is not Python; a magic or a shell command is named.
    """
    name = f"<python {hashlib.sha256(code.encode()).hexdigest()[:8]}>"
    lines = code.splitlines(keepends=True)
    flags = getattr(getattr(current_shell(), "compile", None), "flags", 0)  # a cell's __future__
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        linecache.cache[name] = len(code), None, lines, name
        is_guarded = guard is not None and guard.may_refuse
        tree = guarded_tree(tree) if is_guarded else tree
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        codes = [compile(tree, name, "exec", flags, dont_inherit=True)]
        if isinstance(last, ast.Expr):
            body = ast.Expression(last.value)
            codes.append(compile(body, name, "eval", flags, dont_inherit=True))
    except SyntaxError as error:
        line = lines[error.lineno - 1].strip() if error.lineno and lines else ""
        if _NOT_PYTHON.match(line):
            raise SyntaxError(
                f"line {error.lineno} is refused: {line!r}. Magics, shell commands and ? are "
                "IPython's; only Python is run here."
            ) from None
        if error.text:
            error.add_note(f"line {error.lineno}: {error.text.strip()}")
        raise
    return [with_guard(each, guard) for each in codes] if guard is not None else codes


@functools.cache
def python_tool(mode: PythonMode) -> Tool:
    """The tool; made once for a mode, so that an approval for the whole notebook holds."""
    from archytas_nb.tools import signature  # loads pydantic

    python.__annotations__["variables"] = signature.Namespace
    approve = names_used if mode == "ask" else None
    return Tool.from_function(python, approve=approve, repeat=True, runs_code=True)


def names_used(code: str) -> str:
    """The names that code reads and changes, for the person who is asked."""
    try:
        found = list(mentions(code))
    except (SyntaxError, ValueError):
        return "it is not valid Python and will not run"
    except (RecursionError, MemoryError):
        return "it is nested too deeply to tell which names it uses"
    read = {name for name, _, changed in found if not changed} - set(dir(builtins))
    parts = [("reads", read), ("assigns to", {name for name, _, changed in found if changed})]
    return "; ".join(f"{what} {', '.join(sorted(names))}" for what, names in parts if names)


def mentions(code: str) -> Iterator[tuple[str, int, bool]]:
    """Each name in code, its line, and whether it or a part of it is assigned or deleted there.

    Raises:
        SyntaxError, ValueError: It is not Python.
    """
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias)):
            bound = getattr(node, "asname", None) or node.name
            yield bound.partition(".")[0], node.lineno, True
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            root: ast.AST = node
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if isinstance(root, ast.Name):
                yield root.id, node.lineno, not isinstance(node.ctx, ast.Load)
