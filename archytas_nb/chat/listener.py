"""Waits in a kernel for questions from a chat, and passes on what happens while they are answered.

It listens on a random port of 127.0.0.1. Each question is a connection, on which both sides write
JSON, one object on a line. The first line is the question, the last one its end:

    to the kernel     {"token", "question"}            the first line
                      {"answer"}                       the option that was chosen; null for none
                      {"cancel"}                       as if the connection ended
    from the kernel   {"waits"}                        a cell is running, the question comes after
                      {"call", "name", "arguments"}    a call begins; `call` is its id
                      {"outcome", "status", "text"}    a call has ended; `outcome` is its id
                      {"ask", "title", "text", "arguments", "options"}
                      {"end", "text"}                  `end` is "answered", "failed", "interrupted"
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from archytas_nb.errors import ArchytasError, RunInterrupted
from archytas_nb.kernel.listener import HOST, Connection, Listener
from archytas_nb.loop import events as ev
from archytas_nb.untrusted import fault, read
from archytas_nb.words import keep_both_ends, visible

KIND = "chat"
"""As what a kernel that waits for a chat is registered."""
MAX_LINE = 1 << 24
"""Maximum number of bytes on a line."""
_MAX_UNKNOWN = 1 << 16  # bytes that are read before the token, and so from anybody
_TOKEN = re.compile(rb'\s*{\s*"token"\s*:\s*"([\w-]*)"')
_MAX_TEXT = 20_000  # characters of one text; the notebook shows the whole
_MAX_ANSWERS = 16  # that wait to be read; a person gives one to a question
_SECONDS_UNTIL_WAITS = 1.0
# seconds after which an interrupt is noticed where the system does not do it immediately
_TICK = 0.5

End = tuple[str, str]
"""How a question ended, and the text of that."""


_KINDS: dict[ev.Answer, str] = {
    "yes": "yes", "this run": "always", "always": "always", "no": "no", "stop": "no",
}  # fmt: skip
"""How a chat draws the choices; it has no field for an edit."""


class AskedNotebook(Protocol):
    """The parts of a notebook that a listener needs."""

    def ask(self, question: str, talk: Talk) -> Future[End]:
        """Ask as soon as no cell is running; until then the future can be cancelled."""

    def interrupt(self, future: Future[Any]) -> None:
        """Interrupt a question that is being answered."""


class Talk:
    """A connection with a chat, for one question. It is also the person who is asked meanwhile."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[str | None] = SimpleQueue()
        self._is_open = True
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""
        return self._is_open

    def send(self, **message: Any) -> None:
        """Send a message; the caller does not wait until it is read."""
        self._lines.put(message)

    def answer(self, option: str | None) -> None:
        """Take the option that the person chose."""
        if self._answers.qsize() < _MAX_ANSWERS:
            self._answers.put(option)

    def hang_up(self) -> None:
        """Stop asking anybody: the chat has gone."""
        self._is_open = False
        self._answers.put(None)

    def close(self) -> None:
        """End the connection when all of it is sent."""
        self._lines.put(None)

    def join(self) -> None:
        """Wait until all of it is sent."""
        self._writer.join()

    def ask(self, prompt: str, form: ev.ApprovalForm | ev.UserQuestion | None = None) -> str:
        """Ask with buttons; return the line that says the same at a keyboard.

        Raises:
            EOFError: The question cannot be asked with buttons, or the chat has gone.
        """
        if isinstance(form, ev.ApprovalForm):
            return self._approved(form, prompt.rpartition("\n")[0])
        if isinstance(form, ev.UserQuestion) and form.choices:
            numbered = enumerate(form.choices, 1)
            options = {str(number): ("yes", choice) for number, choice in numbered}
            return self._chosen(form.text, "", {}, options) or ""
        raise EOFError(f"a chat has no field for an answer to {prompt!r}")

    def _approved(self, form: ev.ApprovalForm, note: str) -> str:
        arguments = {each.name: each.text for each in form.arguments}
        options = {
            each.line: (_KINDS[each.answer], each.label)
            for each in form.choices
            if each.answer in _KINDS
        }
        text = form.text_with_preview
        if note:
            text = f"{note}\n{text}"
        return self._chosen(form.tool, text, arguments, options) or "stop"

    def _chosen(
        self,
        title: str,
        text: str,
        arguments: Mapping[str, str],
        options: Mapping[str, tuple[str, str]],
    ) -> str | None:
        """The option that the person chooses; None if they end the question instead."""
        if not self._is_open:
            raise EOFError("the chat has gone")
        while True:  # what was clicked before this was asked
            try:
                self._answers.get_nowait()
            except Empty:
                break
        listed = [[option, kind, visible(label)] for option, (kind, label) in options.items()]
        self.send(
            ask=True, title=visible(title), text=text, arguments=dict(arguments), options=listed
        )
        while True:
            try:
                answer = self._answers.get(timeout=_TICK)
            except Empty:
                continue
            if not self._is_open:
                raise EOFError("the chat has gone")
            if answer is None or answer in options:
                return answer

    def on_event(self, event: ev.Event) -> None:
        """Report the calls of a run."""
        if isinstance(event, ev.RunCalls):
            for call in event.calls:
                self.send(call=call.id, name=visible(call.name), arguments=call.input)
        elif isinstance(event, ev.CallOutcomes):
            for outcome in event.outcomes:
                text = keep_both_ends(outcome.text, _MAX_TEXT)
                self.send(outcome=outcome.call_id, status=outcome.status, text=text)

    def _write(self) -> None:
        with suppress(OSError):
            while (message := self._lines.get()) is not None:
                self._connection.sendall(json.dumps(message).encode() + b"\n")
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


class ChatListener:
    """Waits for questions, from `start` until `stop`.

    Args:
        notebook: The notebook that answers them.

    Attributes:
        token: The secret that a program must send.
        url: The address.

    Raises:
        OSError: No port is free.
    """

    def __init__(self, notebook: AskedNotebook) -> None:
        self._notebook = notebook
        self.token = secrets.token_urlsafe(24)
        self._listener = Listener(self._begin, "archytas_nb chat")
        self.url = f"tcp://{HOST}:{self._listener.port}"

    def start(self) -> None:
        """Begin to listen."""
        self._listener.start()

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._listener.is_open

    def stop(self) -> None:
        """Stop listening and end the connections; called again, it does nothing."""
        self._listener.stop()

    def _begin(self, connection: Connection) -> None:
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            with connection.socket.makefile("rb") as lines:
                first = self._first(lines)
                if first is not None:
                    self._talk(connection, first.get("question"), lines)
        except (OSError, RuntimeError):  # it has gone, or no thread can be started
            pass
        finally:
            connection.close()

    def _first(self, lines: Any) -> dict[str, Any] | None:
        """The first message; None without the token."""
        line = lines.readline(_MAX_UNKNOWN)
        if len(line) == _MAX_UNKNOWN:
            token = _TOKEN.match(line)
            if token is None or not self._is_known(token[1]):
                return None
            line += lines.readline(MAX_LINE)
        first = _read(line)
        token = first.get("token")
        if not isinstance(token, str) or not self._is_known(token.encode("utf-8", "replace")):
            return None
        return first

    def _is_known(self, token: bytes) -> bool:
        return hmac.compare_digest(token, self.token.encode())

    def _talk(self, connection: Connection, question: Any, lines: Any) -> None:
        talk = Talk(connection.socket)
        why = fault(question) if isinstance(question, str) else "it is not text"
        if why is not None:
            talk.send(end="failed", text=f"The question was not asked: {why}.")
            talk.close()
            talk.join()
            return
        connection.begin()
        future = self._notebook.ask(question, talk)

        def say_that_it_waits() -> None:
            if not future.running() and not future.done():
                talk.send(waits=True)

        timer = threading.Timer(_SECONDS_UNTIL_WAITS, say_that_it_waits)
        timer.daemon = True
        timer.start()
        future.add_done_callback(lambda done: _end(talk, done))
        future.add_done_callback(lambda _: connection.done())
        try:
            while line := lines.readline(MAX_LINE):
                message = _read(line)
                if "answer" in message:
                    option = message["answer"]
                    talk.answer(option if isinstance(option, str) else None)
                elif "cancel" in message:
                    break
        finally:
            timer.cancel()
            if not future.cancel() and not future.done():
                talk.hang_up()
                self._notebook.interrupt(future)
            talk.join()


def _read(line: bytes) -> dict[str, Any]:
    """The object on a line; empty if there is none."""
    try:
        message = read(line)
    except ValueError:
        return {}
    if isinstance(message, dict):
        return message
    return {}


def _end(talk: Talk, future: Future[End]) -> None:
    """Send how a question ended, and end the connection."""
    if future.cancelled():
        end, text = "interrupted", ""
    else:
        error = future.exception()
        if error is None:
            end, text = future.result()
        elif isinstance(error, KeyboardInterrupt):  # before the run had begun
            end, text = "interrupted", ""
        else:
            end, text = "failed", f"{type(error).__name__}: {error}"
    talk.send(end=end, text=text)
    talk.close()


def ended(ask: Callable[[], Any]) -> End:
    """How a question ended that this function asks, which returns its run."""
    try:
        run = ask()
    except RunInterrupted as error:
        return "interrupted", str(error)
    except ArchytasError as error:
        return "failed", str(error)
    if run.status == "interrupted":
        return "interrupted", ""
    if run.incomplete:
        return "failed", f"{run.answer}\n\n({run.reason})".strip()
    from archytas_nb.trace.view import unlinked

    return "answered", "\n\n".join(filter(None, [run.answer, unlinked(run.ending)]))
