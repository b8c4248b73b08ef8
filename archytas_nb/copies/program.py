"""Runs a program in a copy, statement by statement, and reports each to the kernel.

It knows nothing of locks and processes: it has a namespace, and a descriptor for each direction.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import inspect
import io
import json
import linecache
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from archytas_nb.copies.channel import ClosedError, Data, Frame, receive, send
from archytas_nb.copies.codec import NotDataError, Writer

MOST_PRINTED = 64 << 20
"""How many characters a program may print before it is ended, whatever of them is kept."""

_MODULE = "__main__"


class TooMuchOutput(BaseException):
    """The program prints without end."""


class CallError(Exception):
    """A function that ran in the kernel raised an exception, which cannot be sent."""


class Bounds(NamedTuple):
    """How much a program may report.

    Attributes:
        printed: Characters of printed text that are kept of a statement.
        text: Characters of the text of a value.
        value: Bytes of a value, and of the arguments of a call.
        figures: The largest number of pictures.
    """

    printed: int
    text: int
    value: int
    figures: int


class _Printed(io.TextIOBase):
    """Text that is kept up to a bound."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[str] = []
        self._kept = 0
        self._written = 0

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() needs a text, not {type(text).__name__}")
        self._written += len(text)
        if self._kept < self._most:
            part = text[: self._most - self._kept]
            self._parts.append(part)
            self._kept += len(part)
        if self._written > MOST_PRINTED:
            raise TooMuchOutput
        return len(text)

    def take(self) -> str:
        text = "".join(self._parts)
        if self._written > self._kept:
            text += f"\n… ({self._written - self._kept} more characters)"
        self._parts, self._kept, self._written = [], 0, 0
        return text


class _NativeOutput:
    """The output of native code, collected by a file in the scratch folder."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(folder / ".printed", flags, 0o600)
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)
        self._read = 0

    def take(self, most: int) -> str:
        end = os.lseek(self._file, 0, os.SEEK_END)
        data = os.pread(self._file, min(most, end - self._read), self._read)
        with suppress(OSError):
            os.ftruncate(self._file, 0)
        self._read = 0
        return data.decode("utf-8", "replace")


class _Ended(NamedTuple):
    """How a statement ended."""

    value: Any = None
    error: BaseException | None = None


class Program:
    """The place of a copy where programs run, one after the other, on the same namespace."""

    def __init__(
        self,
        namespace: dict[str, Any],
        reading: int,
        writing: int,
        tools: Collection[str],
        bounds: Bounds,
        scratch: Path,
        tried: list[tuple[str, str]],
    ) -> None:
        self._namespace = namespace
        self._reading = reading
        self._writing = writing
        self._tools = frozenset(tools)
        self._bounds = bounds
        self._printed = _Printed(bounds.printed)
        self._native = _NativeOutput(scratch)
        self._tried = tried
        self._shown: list[bytes] = []
        self._count = 0
        for name in tools:
            namespace[name] = self._stub(name)

    def serve(self) -> None:
        """Do what the kernel asks for, until it closes the copy."""
        wanted: dict[str, Callable[..., None]] = {
            "names": self._take_names, "run": self._run, "value": self._value,
        }  # fmt: skip
        with suppress(ClosedError):
            while True:
                frame = receive(self._reading)
                what, *rest = pickle.loads(frame.head, buffers=frame.buffers)  # noqa: S301 - the kernel's own
                if what == "close":
                    return
                wanted[what](*rest)

    def _tell(self, what: str, buffers: Collection[Data] = (), **facts: Any) -> None:
        head = json.dumps({"what": what, **facts}).encode("ascii")
        send(self._writing, Frame(head, tuple(buffers)))

    def _take_names(self) -> None:
        """Take variables of the kernel."""
        frame = receive(self._reading)
        try:
            names = pickle.loads(frame.head, buffers=frame.buffers)  # noqa: S301 - the kernel's own
        except BaseException as error:  # noqa: BLE001 - an object raises anything when it is built
            self._tell("refused", reason=_message(error) or type(error).__name__)
            return
        tools = {name: self._namespace[name] for name in self._tools if name in self._namespace}
        self._namespace.update(names)
        self._namespace.update(tools)
        self._tell("taken")

    def _value(self, name: str) -> None:
        if name not in self._namespace:
            self._tell("refused", reason="the copy has no variable of this name")
            return
        writer = Writer(self._bounds.value)
        try:
            tree = writer.write(self._namespace[name])
        except Exception as error:  # noqa: BLE001 - an object raises anything when it is read
            self._tell("refused", reason=_message(error))
            return
        self._tell("value", writer.buffers, tree=tree)

    def _run(self, source: str, is_part: bool = False) -> None:  # noqa: FBT001, FBT002
        self._count += 1
        filename = f"<copy {self._count}>"
        lines = source.splitlines(keepends=True)
        linecache.cache[filename] = (len(source), None, lines, filename)
        self._shown.clear()
        self._tried.clear()
        try:
            statements = ast.parse(source, filename).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self._tell("program", texts=[source])
            self._tell("failed", printed="", error=self._error(error, filename), bound=[])
            self._tell("done", [], tried=[])
            return
        self._tell("program", texts=[_text_of(lines, each) for each in statements])
        with self._captured():
            for statement in statements:
                if not self._statement(statement, filename):
                    break
            if not is_part:  # otherwise the next part may go on with its figures
                self._draw()
        self._tell("done", self._shown[: self._bounds.figures], tried=self._tried[:1000])

    def _statement(self, statement: ast.stmt, filename: str) -> bool:
        before = dict(self._namespace)
        ended = self._execute(statement, filename)
        bound = [n for n, v in self._namespace.items() if before.get(n, before) is not v]
        bound += [name for name in _changed(statement) if name in self._namespace]
        bound += [name for name in before if name not in self._namespace]
        names = [n for n in dict.fromkeys(bound) if not n.startswith("_")]
        printed = self._take_printed()
        if ended.error is not None:
            sys.last_value = ended.error  # as where a person types: it can be examined
            error = self._error(ended.error, filename)
            self._tell("failed", printed=printed, error=error, bound=names)
            return False
        text, tree, buffers = self._shown_value(ended.value)
        printed += self._take_printed()
        self._tell("ok", buffers, printed=printed, text=text, tree=tree, bound=names)
        return True

    def _execute(self, statement: ast.stmt, filename: str) -> _Ended:
        try:
            if isinstance(statement, ast.Expr):
                code = _compiled(ast.Expression(statement.value), filename, "eval")
                return _Ended(_finished(eval(code, self._namespace)))  # noqa: S307 - it is what a copy is for
            code = _compiled(ast.Module([statement], []), filename, "exec")
            _finished(eval(code, self._namespace))  # noqa: S307 - it is what a copy is for
        except BaseException as error:  # noqa: BLE001 - a program raises anything
            return _Ended(error=error)
        return _Ended()

    def _shown_value(self, value: Any) -> tuple[str | None, Any, list[Data]]:
        """The text of a value and, if it is data, the value."""
        if value is None:
            return None, None, []
        try:
            text = _text(value, self._bounds.text)
        except BaseException as error:  # noqa: BLE001 - its class may do anything
            text = f"<{type(value).__name__} without a text: {_message(error)}>"
        writer = Writer(self._bounds.value)
        try:
            return text, writer.write(value), writer.buffers
        except BaseException:  # noqa: BLE001 - what cannot be read is not data
            return text, ["absent"], []

    def _take_printed(self) -> str:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        native = ""
        with suppress(OSError):
            native = self._native.take(self._bounds.printed)
        return self._printed.take() + native

    def _error(self, error: BaseException, filename: str) -> dict[str, Any]:
        line, number = "", 0
        with suppress(Exception):
            frames = traceback.extract_tb(error.__traceback__)
            own = [each for each in frames if each.filename == filename]
            if own:
                number, line = own[-1].lineno or 0, (own[-1].line or "").strip()
            elif isinstance(error, SyntaxError):
                number, line = error.lineno or 0, (error.text or "").strip()
        if isinstance(error, PermissionError) and not self._tried:
            where = error.filename if isinstance(error.filename, str) else ""
            # Whatever writes was noted when it began.
            self._tried.append(("read" if where else "use", where))
        ended = {TooMuchOutput: "output", SystemExit: "exit"}.get(type(error))
        return {
            "type": type(error).__name__,
            "message": _message(error)[: self._bounds.text],
            "line": line,
            "number": number,
            "ended": ended,
        }

    @contextmanager
    def _captured(self) -> Iterator[None]:
        def no_input(*_: object) -> str:
            raise EOFError("a copy has no keyboard: nobody can answer input()")

        before = builtins.input
        builtins.input = no_input
        sys.stdin = io.StringIO()
        _quiet_figures()
        try:
            with redirect_stdout(self._printed), redirect_stderr(self._printed), self._displays():
                yield
        finally:
            builtins.input = before

    @contextmanager
    def _displays(self) -> Iterator[None]:
        """Print displays that IPython would send to the front end, or keep them as pictures."""
        module = sys.modules.get("IPython.core.interactiveshell")
        shell_class = getattr(module, "InteractiveShell", None)
        publisher = getattr(
            shell_class.instance() if shell_class and shell_class.initialized() else None,
            "display_pub",
            None,
        )
        if publisher is None:
            yield
            return

        def publish(data: Mapping[str, Any], *_: object, **__: object) -> None:
            picture = data.get("image/png")
            if picture is None:
                print(data.get("text/plain", ""))  # noqa: T201 - it is shown
            elif isinstance(picture, bytes):
                self._shown.append(picture)
            else:
                import base64

                self._shown.append(base64.b64decode(picture))

        publisher.publish = publish
        yield

    def _draw(self) -> None:
        """Keep the figures that are open, and close them."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is None:
            return
        try:
            for manager in helpers.Gcf.get_all_fig_managers():
                file = io.BytesIO()
                # As a notebook draws it: labels may be outside of the figure.
                manager.canvas.figure.savefig(file, format="png", bbox_inches="tight")
                self._shown.append(file.getvalue())
            helpers.Gcf.destroy_all()
        except BaseException as error:  # noqa: BLE001 - a figure may fail when it is drawn
            print(f"a figure could not be drawn: {_message(error)}")  # noqa: T201 - it is shown

    def _stub(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            writer = Writer(self._bounds.value)
            try:
                tree = writer.write([list(args), kwargs])
            except NotDataError as error:
                raise TypeError(
                    f"{name}() runs in the kernel; an argument of it: {error}"
                ) from None
            self._tell("call", writer.buffers, name=name, tree=tree)
            frame = receive(self._reading)
            is_result, content = pickle.loads(frame.head, buffers=frame.buffers)  # noqa: S301 - the kernel's own
            if is_result:
                return content
            raise content

        call.__name__ = call.__qualname__ = name
        function = self._namespace.get(name)
        call.__doc__ = getattr(function, "__doc__", None)
        return call


def _compiled(tree: ast.Module | ast.Expression, filename: str, mode: str) -> CodeType:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code: CodeType = compile(tree, filename, mode, flags=flags, dont_inherit=True)
    return code


def _finished(result: Any) -> Any:
    """Wait for a statement with an `await`."""
    if inspect.iscoroutine(result) and result.cr_code.co_filename.startswith("<copy "):
        return asyncio.run(result)
    return result


def _text_of(lines: list[str], statement: ast.stmt) -> str:
    first: int = min([statement.lineno, *_decorated(statement)])
    if first == statement.end_lineno:
        whole = lines[first - 1].encode()[statement.col_offset : statement.end_col_offset]
        return str(whole, "utf-8", "replace")
    return "".join(lines[first - 1 : statement.end_lineno]).rstrip("\n")


def _changed(statement: ast.stmt) -> Iterator[str]:
    """The names of objects of which a statement sets an item or an attribute."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            inner: ast.expr = node
            while isinstance(inner, ast.Subscript | ast.Attribute):
                inner = inner.value
            if isinstance(inner, ast.Name):
                yield inner.id


def _text(value: Any, most: int) -> str:
    text: str = repr(value)
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - its class may do anything
        return ""


def _quiet_figures() -> None:
    """Draw figures into memory: the copy has no screen."""
    os.environ["MPLBACKEND"] = "agg"
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        with suppress(Exception):
            pyplot.switch_backend("agg")
            pyplot.show = lambda *_, **__: None


def _decorated(statement: ast.stmt) -> list[int]:
    """The lines of the decorators of a function or class."""
    return [each.lineno for each in getattr(statement, "decorator_list", ())]
