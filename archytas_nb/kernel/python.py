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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType
from typing import Any, Literal, TypeAlias, get_args

from archytas_nb.kernel import Namespace, current_shell
from archytas_nb.kernel.approval import Approver
from archytas_nb.loop.events import ToolCall
from archytas_nb.tools.tool import BoundCall, Tool

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
    codes = compiled(code)
    if not any(each.co_flags & inspect.CO_COROUTINE for each in codes):
        return [eval(each, variables) for each in codes][-1]  # noqa: S307 - what this tool is for

    async def awaited() -> Any:
        for each in codes:
            value = eval(each, variables)  # noqa: S307
            value = await value if each.co_flags & inspect.CO_COROUTINE else value
        return value

    return awaited()


def compiled(code: str) -> list[CodeType]:
    """The statements, and the last expression by itself; tracebacks show their lines.

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
    return codes


@functools.cache
def python_tool(mode: PythonMode) -> Tool:
    """The tool; made once for a mode, so that an approval for the whole notebook holds."""
    from archytas_nb.tools import signature  # loads pydantic

    python.__annotations__["variables"] = signature.Namespace
    approve = names_used if mode == "ask" else None
    return Tool.from_function(python, approve=approve, repeat=True)


def names_used(code: str) -> str:
    """The names that code reads and changes, for the person who is asked."""
    try:
        found = list(mentions(code))
    except (SyntaxError, ValueError):
        return "it is not valid Python and will not run"
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


# ── tools that the code calls ─────────────────────────────────────────────────────────────────────


@contextmanager
def guard_tools(
    tools: Mapping[str, Tool], approver: Approver, variables: Namespace, called: list[str]
) -> Iterator[None]:
    """In the block, tools that code calls by any name in the namespace need their approval.

    Tools without a name there get their own for the block. Each call is added to ``called``.
    """
    is_open = True

    def guarded(tool: Tool) -> Callable[..., Any]:
        @functools.wraps(tool.function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_open:  # the code stored the function
                return tool.function(*args, **kwargs)
            bound = _approved(tool, args, kwargs, approver, variables)
            called.append(tool.name)
            return bound.function(*bound.args, **bound.kwargs)

        return call

    others = [each for each in tools.values() if each.function is not python]
    calls = {id(each.function): guarded(each) for each in others}
    functions = {id(calls[id(each.function)]): each.function for each in others}
    replaced = {n: calls[id(x)] for n, x in list(variables.items()) if id(x) in calls}
    unnamed = [each for each in others if calls[id(each.function)] not in replaced.values()]
    added = {x.name: calls[id(x.function)] for x in unnamed if x.name not in variables}
    try:
        variables.update(replaced | added)
        yield
    finally:
        is_open = False
        for name, value in list(variables.items()):
            if added.get(name) is value:
                del variables[name]
            elif id(value) in functions:
                variables[name] = functions[id(value)]


def _approved(
    tool: Tool, args: Any, kwargs: Any, approver: Approver, variables: Namespace
) -> BoundCall:
    """The call, after approval; raises PermissionError if it was refused."""
    try:
        arguments = dict(inspect.signature(tool.function).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # Python raises it when it is called
        return BoundCall(tool.function, args, kwargs)
    values = {each.name: variables for each in tool.parameters if each.injected} | arguments
    positional = [each.name for each in tool.parameters if each.positional]
    bound = BoundCall(
        tool.function,
        tuple(values.pop(name) for name in positional if name in values),
        values,
    )
    call = ToolCall("", tool.name, {k: v for k, v in arguments.items() if v is not variables})
    decision = approver.decide(tool, call, bound, variables)
    if decision.stop:
        raise KeyboardInterrupt
    if decision.bound is None:
        raise PermissionError(decision.refusal)
    return decision.bound
