"""Compiles code of a model as IPython compiles a cell, and marks its functions."""

from __future__ import annotations

import ast
import linecache
import re
from types import CodeType

from archytas_nb.functions.origin import Origin, marked
from archytas_nb.namespace import current_shell

_NOT_PYTHON = re.compile(r"\s*(?:[%!?]|[^#\"']*?=\s*[%!]\s*\w)|.*\w\?+\s*$")


def compiled(code: str, started_by: Origin | None = None) -> list[CodeType]:
    """The statements, and the last expression by itself; tracebacks show their lines.

    Args:
        code: The code.
        started_by: The mark for the functions of the code; None for no mark.

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
        return [marked(each, started_by) for each in codes]
    return codes
