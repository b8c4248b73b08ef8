"""A sandbox for tests of the loop: Python itself, in a thread that stops at each call of a tool."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

from archytas_nb.loop.events import (
    CallOutcome,
    Fault,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramReply,
    ProgramWaits,
    Shown,
)


class _EndError(BaseException):
    """The program has answered, or is stopped."""


class PythonSandbox:
    """Runs programs over tools that take keyword arguments; a syntax error is a fault."""

    def __init__(self, tools: Sequence[str]) -> None:
        self._out = queue.SimpleQueue[ProgramReply]()
        self._in = queue.SimpleQueue[Sequence[CallOutcome]]()
        self._end: dict[str, Any] = {}
        self.variables: dict[str, Any] = {name: self._function(name) for name in tools}
        self.variables |= {
            "answer": self._answer,
            "give_up": self._give_up,
            "show": lambda *values: self._end["shown"].extend(map(repr, values)),
        }

    def run(self, text: str, *, is_part: bool = False, may_lack: bool = False) -> ProgramReply:
        try:
            code = compile(text, "<program>", "exec")
        except SyntaxError as error:
            line = error.lineno or 1
            return ProgramFaults((Fault(line, text.splitlines()[line - 1], error.msg),))
        self._end = {"shown": []}
        threading.Thread(target=self._run, args=(code, text), daemon=True).start()
        return self._out.get()

    def resume(self, outcomes: Sequence[CallOutcome]) -> ProgramReply:
        self._in.put(outcomes)
        return self._out.get()

    def stop(self) -> ProgramEnded:
        return ProgramEnded(interrupted=True)

    def close(self) -> Any:
        return None

    def _run(self, code: Any, text: str) -> None:
        before = dict(self.variables)
        try:
            exec(code, self.variables)
        except _EndError:
            pass
        except Exception as error:
            traceback = error.__traceback__
            while traceback is not None and traceback.tb_next is not None:
                if traceback.tb_frame.f_code.co_filename == "<program>":
                    break
                traceback = traceback.tb_next
            line = 1 if traceback is None else traceback.tb_lineno
            source = text.splitlines()[line - 1]
            self._end["error"] = Fault(line, source, f"{type(error).__name__}: {error}")
        assigned = {
            name: Shown(repr(value), "none" if value is None else "other")
            for name, value in self.variables.items()
            if name != "__builtins__" and (name not in before or before[name] is not value)
        }
        shown = tuple(self._end.pop("shown"))
        self._out.put(ProgramEnded(shown=shown, assigned=assigned, **self._end))

    def _function(self, name: str) -> Any:
        def call(**given: Any) -> Any:
            self._out.put(ProgramWaits((ProgramCall(name, given, 1),)))
            [outcome] = self._in.get()
            if outcome.status == "done":
                return outcome.value
            if outcome.status == "error":
                raise ValueError(outcome.text)
            self._end["interrupted"] = outcome.status == "interrupted"
            raise _EndError

        return call

    def _answer(self, value: Any) -> None:
        self._end |= {"answer": value, "has_answer": True}
        raise _EndError

    def _give_up(self, reason: str) -> None:
        self._end["gave_up"] = reason
        raise _EndError
