"""The tool `python`: runs code that a model writes in the user's namespace, as a cell would.

This is not a sandbox: the code has the permissions of the user. Tools that it calls follow their
own approval settings.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from typing import Any, get_args

from archytas_nb.choices import PythonMode
from archytas_nb.functions import origin
from archytas_nb.functions.compiling import compiled
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import LiveNamespace

MODES: tuple[str, ...] = get_args(PythonMode)


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
