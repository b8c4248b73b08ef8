"""The result of a program in a copy, validated, because the copy is not trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from archytas_nb.acts import ACT_KINDS, Act
from archytas_nb.copies.codec import NotDataError, Reader
from archytas_nb.copies.limits import CopyLimits
from archytas_nb.copies.process import EndedBecause, Message, Way

Status = Literal["ok", "failed", "not run"]


@dataclass(frozen=True)
class Failure:
    """The exception of a statement.

    Attributes:
        type: The name of its class.
        message: Its text.
        line: The line of the program that raised it; empty if it is unknown.
        number: The number of this line, from 1; 0 if it is unknown.
    """

    type: str
    message: str
    line: str
    number: int


@dataclass(frozen=True)
class Value:
    """The value of an expression.

    Attributes:
        text: Its text, as the notebook would show it.
        object: A copy of it, if it is data; None otherwise.
        is_data: Whether `object` is it.
    """

    text: str
    object: Any = None
    is_data: bool = False


@dataclass(frozen=True)
class Statement:
    """A statement of a program, and what came of it.

    Attributes:
        source: Its text.
        status: Whether it ran.
        printed: The text that it printed.
        value: Its value, if it is an expression other than None.
        error: Its error, if it failed.
    """

    source: str
    status: Status
    printed: str = ""
    value: Value | None = None
    error: Failure | None = None


@dataclass(frozen=True)
class CopyReport:
    """The result of a program.

    Attributes:
        statements: Its statements, in order; those after one that failed did not run.
        bound: The names that it bound, changed or deleted.
        figures: Pictures that it showed, and figures that were open at its end, as PNG.
        tried: The acts that it was about to do and that were refused.
        way: How the copy got the objects.
        ended: Why the copy ended before the program did; None if it did not.
        seconds: How long it took.
    """

    statements: tuple[Statement, ...]
    bound: tuple[str, ...]
    figures: tuple[bytes, ...]
    tried: tuple[Act, ...]
    way: Way
    ended: EndedBecause | None
    seconds: float


_ENDED: dict[EndedBecause, str] = {
    "time": "the program took too long",
    "memory": "it used too much memory, or too much of its scratch folder",
    "exit": "the program ended the process",
    "crash": "the process crashed",
    "hang": "it neither computed nor waited for something that would come",
    "output": "it printed without end",
}


class DamagedError(Exception):
    """The copy says what no copy says: code in it has written into its pipe."""


def read_call(message: Message) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The function that a program calls in the kernel, and its arguments.

    Raises:
        DamagedError: No copy says this.
    """
    try:
        args, kwargs = Reader(message.buffers).read(message.facts["tree"])
        return str(message.facts["name"]), tuple(args), {str(k): v for k, v in kwargs.items()}
    except Exception as error:  # noqa: BLE001 - it may be anything, made to look like a call
        raise DamagedError(f"{type(error).__name__}: {error}") from None


_PNG = b"\x89PNG\r\n\x1a\n"


class ReportReader:
    """Reads the messages about one program.

    Attributes:
        ended: Why the copy ended before the program did, or the program of itself.
    """

    def __init__(self, limits: CopyLimits) -> None:
        self.ended: EndedBecause | None = None
        self._limits = limits
        self._texts: list[str] = []
        self._statements: list[Statement] = []
        self._bound: dict[str, None] = {}
        self._figures: list[bytes] = []
        self._tried: list[Act] = []

    @property
    def succeeded(self) -> list[str]:
        """The statements that ran without an exception."""
        return [each.source for each in self._statements if each.status == "ok"]

    def report(self, way: Way, seconds: float) -> CopyReport:
        """All that is known."""
        rest = [Statement(text, "not run") for text in self._texts[len(self._statements) :]]
        return CopyReport(
            (*self._statements, *rest),
            tuple(self._bound),
            tuple(self._figures),
            tuple(self._tried),
            way,
            self.ended,
            seconds,
        )

    def finish(self, ended: EndedBecause | None) -> None:
        """Note why the copy ended, in the statement that ran."""
        self.ended = self.ended or ended
        if len(self._statements) < len(self._texts):
            text = self._texts[len(self._statements)]
            why = _ENDED[self.ended or "crash"]
            failure = Failure("CopyEnded", f"the copy ended: {why}", text.partition("\n")[0], 0)
            self._statements.append(Statement(text, "failed", error=failure))

    def take(self, message: Message) -> bool:
        """Add what a message says; True for the last one.

        Raises:
            DamagedError: No copy says this.
        """
        readers: dict[str, Callable[[Message], None]] = {
            "program": self._take_program,
            "ok": self._take_success,
            "failed": self._take_failure,
            "done": self._take_end,
        }
        try:
            readers[message.what](message)
        except Exception as error:  # noqa: BLE001 - it may be anything, made to look like a message
            raise DamagedError(f"{type(error).__name__}: {error}") from None
        return message.what == "done"

    def reason(self, message: Message) -> str:
        """Why the copy could not do something."""
        return str(message.facts.get("reason"))[: self._limits.text]

    def _take_program(self, message: Message) -> None:
        self._texts = [str(each) for each in message.facts["texts"]]

    def _take_success(self, message: Message) -> None:
        self._add("ok", message, value=self._value(message))

    def _take_failure(self, message: Message) -> None:
        error = message.facts["error"]
        failure = Failure(
            str(error["type"])[:1000],
            str(error["message"])[: self._limits.text],
            str(error["line"])[: self._limits.text],
            int(error["number"]),
        )
        if error["ended"] in ("exit", "output"):
            self.ended = error["ended"]
        self._add("failed", message, error=failure)

    def _add(
        self,
        status: Status,
        message: Message,
        value: Value | None = None,
        error: Failure | None = None,
    ) -> None:
        source = self._texts[len(self._statements)]
        # A line says how much was left out.
        printed = str(message.facts["printed"])[: 2 * self._limits.printed + 100]
        self._bound |= dict.fromkeys(str(each) for each in message.facts["bound"])
        self._statements.append(Statement(source, status, printed, value, error))

    def _take_end(self, message: Message) -> None:
        pictures = [bytes(each) for each in message.buffers[: self._limits.figures]]
        self._figures = [each for each in pictures if each.startswith(_PNG)]
        tried = message.facts["tried"][:1000]
        self._tried = [Act(kind, str(t)[:1000]) for kind, t in tried if kind in ACT_KINDS]

    def _value(self, message: Message) -> Value | None:
        text, tree = message.facts["text"], message.facts["tree"]
        if text is None:
            return None
        shown = str(text)[: self._limits.text + 100]
        if tree == ["absent"]:
            return Value(shown)
        try:
            return Value(shown, Reader(message.buffers).read(tree), is_data=True)
        except NotDataError:
            return Value(shown)
