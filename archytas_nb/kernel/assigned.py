"""The variables that the person's own code assigns, judged by its text.

The value of a variable does not tell who assigned it: a tool may return the same object to the
agent and to the person. The code of the cells, or of the script, does.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from archytas_nb.namespace import Namespace, current_shell
from archytas_nb.syntax.bindings import Bindings

_OUT = re.compile(r"--out[=\s]\s*(\w+)")
"""The option of a magic that assigns a variable."""


def is_assigned_by_user(name: str, namespace: Namespace) -> bool:
    """Whether a variable of the person's own may have this name.

    That is the case if their code assigns it or contains its name as a text. It is also assumed if
    the code is unknown: in a separate namespace, or without a shell and a script.
    """
    sources = _sources(namespace)
    if sources is None:
        return True
    return any(name in source and name in _assigned_in(source) for source in sources)


def _sources(namespace: Namespace) -> list[str] | None:
    """All code that was run in a namespace; None where that is not known."""
    shell = current_shell()
    if shell is not None:
        # The history also has the cell that runs now.
        is_live = namespace is shell.user_ns
        if is_live:
            return list(shell.history_manager.input_hist_parsed)
        return None
    main = vars(sys.modules["__main__"])
    if namespace is not main or sys.flags.interactive:
        return None
    try:
        return [Path(main["__file__"]).read_text("utf-8")]
    except (KeyError, TypeError, OSError, ValueError):  # as in `python -c`
        return None


@lru_cache(maxsize=1024)
def _assigned_in(source: str) -> frozenset[str]:
    """The names that a program assigns, in any scope, and those in its texts."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()  # it has never run
    names = {each.name for each in Bindings(tree).uses if each.act in ("bind", "unbind")}
    for node in ast.walk(tree):
        names.update(_names_in_values(node))
    return frozenset(names)


def _names_in_values(node: ast.AST) -> Iterator[str]:
    """The names that a node assigns by other means than a name."""
    match node:
        case ast.ImportFrom(module=module, names=[ast.alias(name="*")]):
            yield from vars(sys.modules.get(module or "", object))
        case ast.keyword(arg=str(name)):  # globals().update(x=1), dict(x=1)
            yield name
        case ast.Constant(value=str(text)):  # globals()["x"], exec("x = 1"), %agent --out x
            yield text
            yield from _OUT.findall(text)
            yield from _assigned_in(text)
