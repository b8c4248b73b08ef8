"""The place of a copy in a test that runs thousands of programs: they run where the test does."""

from __future__ import annotations

import ast
import io
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from copy import deepcopy
from typing import Any

from archytas_nb.copies.place import CopyReport, Failure, Statement, Value
from archytas_nb.copies.program import _compiled
from archytas_nb.copies.report import Status


class DirectCopy:
    """A copy of variables without a process; it has what `CopySession` uses of a `Copy`."""

    def __init__(
        self,
        namespace: Mapping[str, Any],
        *,
        call: Callable[[str, tuple[Any, ...], dict[str, Any]], Any],
        tools: tuple[str, ...],
        **_: Any,
    ) -> None:
        self._names: dict[str, Any] = deepcopy(dict(namespace))
        self._names["__name__"] = "__main__"
        for name in tools:
            self._names[name] = lambda *args, _name=name, **given: call(_name, args, given)

    def close(self) -> None:
        """There is nothing to end."""

    def run(self, source: str, *, keep: bool = True, is_part: bool = False) -> CopyReport:
        """Run statements until one fails."""
        found = []
        for each in ast.parse(source).body:
            found.append(self._statement(each, ast.unparse(each)))
            if found[-1].status == "failed":
                break
        return CopyReport(tuple(found), (), (), (), "fork", None, 0.0)

    def _statement(self, statement: ast.stmt, source: str) -> Statement:
        printed = io.StringIO()
        value = None
        status: Status = "ok"
        failure = None
        try:
            with redirect_stdout(printed):
                if isinstance(statement, ast.Expr):
                    code = _compiled(ast.Expression(statement.value), "<copy 0>", "eval")
                    found = eval(code, self._names)
                    value = None if found is None else Value(repr(found), found, is_data=True)
                else:
                    exec(_compiled(ast.Module([statement], []), "<copy 0>", "exec"), self._names)
        except Exception as error:
            sys.last_value = error
            status = "failed"
            failure = Failure(type(error).__name__, str(error), "", 0)
        return Statement(source, status, printed.getvalue(), value, failure)
