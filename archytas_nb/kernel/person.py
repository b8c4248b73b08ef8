"""The person at the keyboard: how they are asked, and the tool by which the model asks them."""

from __future__ import annotations

import builtins
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from types import BuiltinFunctionType
from typing import Any, ClassVar, Protocol

from archytas_nb.loop.decision import UnansweredError
from archytas_nb.loop.events import UNSEEN, ApprovalForm, UserQuestion
from archytas_nb.namespace import current_shell, is_console
from archytas_nb.words import escape, keep_both_ends, visible

ASKS = "The agent asks: "
"""How the prompt of a question of the agent begins."""


class Person(Protocol):
    """Someone who answers questions: any object with these two members."""

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str:
        """Show the form, unless it is shown elsewhere, and the prompt; return the typed line.

        Raises:
            EOFError, OSError: There will be no answer; an UnansweredError: there was none in time.
            KeyboardInterrupt: The person interrupted instead of answering.
        """


def is_recorded(person: Person) -> bool:
    """Whether a cassette records the answers of a person; it records each once."""
    return bool(getattr(person, "is_recorded", False))


def recording_of(person: Person) -> object | None:
    """The recording whose reply made the calls that are run now; None if the reply came live."""
    return getattr(person, "recording", None)


def answered_from(person: Person) -> object | None:
    """The recording that gave the last answer; None if a person did."""
    return getattr(person, "answered_from", None)


def seconds_taken(person: Person) -> float | None:
    """How long a person took for the last answer; None for one who does not say."""
    seconds = getattr(person, "seconds", None)
    return None if seconds is None else float(seconds)


class Keyboard:
    """The user of this kernel or terminal, asked for a line.

    A line answers a question that was shown before it was typed. So what is typed ahead is
    discarded, and the line comes from the kernel or the terminal itself: `builtins.input` may be
    anything by now.
    """

    _shown: ClassVar[str] = ""  # the form above the prompt
    _display: ClassVar[Any] = None  # the output that shows it; None in a terminal
    _answered_at: ClassVar[float] = -UNSEEN  # when the last line was typed in a terminal

    @property
    def there(self) -> bool:
        """Whether the front end accepts input; without a kernel, whether there is a terminal."""
        kernel = getattr(current_shell(), "kernel", None)
        if kernel is not None:
            return bool(getattr(kernel, "_allow_stdin", False))
        try:
            return sys.stdin.isatty()
        except (AttributeError, ValueError):  # missing or closed
            return False

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str:
        """Ask for a line, which every front end supports while a cell is running."""
        is_terminal = getattr(current_shell(), "kernel", None) is None
        if is_terminal:
            # Of a line that is typed twice, the second one belongs to the question before.
            _discard_typed(Keyboard._answered_at + UNSEEN - time.monotonic())
        if isinstance(form, ApprovalForm) and not form.is_shown:
            text = form.text_with_preview
            if text != Keyboard._shown:
                self._show(text)
                Keyboard._shown = text
        if is_terminal:
            above, _, last = _wrapped(prompt).rpartition("\n")
            if above:
                print(above)  # noqa: T201
            try:
                return _input(last)
            finally:
                Keyboard._answered_at = time.monotonic()
        takes_enter = isinstance(form, UserQuestion) and bool(form.default)
        return _line_of_front_end(prompt, takes_enter=takes_enter)

    def _show(self, text: str) -> None:
        kernel = getattr(current_shell(), "kernel", None)
        if kernel is None or is_console(kernel):  # where nothing that is shown changes
            print(text)  # noqa: T201
        elif Keyboard._display is not None:
            Keyboard._display.update({"text/plain": text}, raw=True)
        else:
            from IPython.display import display

            data = {"text/plain": text}
            Keyboard._display = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    @staticmethod
    def close(line: str) -> None:
        """Replace the form with one line, if the front end can replace it."""
        if Keyboard._display is not None:
            Keyboard._display.update({"text/plain": line}, raw=True)
        Keyboard._display = None
        Keyboard._shown = ""


_MAX_EARLY = 5  # empty lines that came too early


def _own_input() -> Callable[[str], str]:
    """The `input` of Python, which uses the terminal's editing of lines; never a patched one."""
    found = builtins.input
    if isinstance(found, BuiltinFunctionType) and found.__self__ is builtins:
        return found
    return _read_line


def _wrapped(prompt: str) -> str:
    """A prompt in lines that a terminal does not break inside of words."""
    width = max(shutil.get_terminal_size().columns - 1, 20)
    lines = []
    for line in prompt.split("\n"):
        kept = line.rstrip()
        parts = textwrap.wrap(kept, width, break_long_words=False, break_on_hyphens=False)
        parts = parts if len(kept) > width else [kept]
        parts[-1] += line[len(kept) :]  # separates the typed text from the prompt
        lines += parts
    return "\n".join(lines)


def _read_line(prompt: str) -> str:
    print(prompt, end="", flush=True)  # noqa: T201
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


_input = _own_input()  # when this is imported, as later it may be patched


def _discard_typed(early: float) -> None:
    """Forget what was typed in a terminal, and what will be in this many seconds."""
    if sys.platform == "win32":
        import msvcrt

        time.sleep(max(0.0, early))
        while msvcrt.kbhit():
            msvcrt.getwch()
        return
    import termios

    with suppress(AttributeError, OSError, ValueError, termios.error):  # not a real terminal
        terminal = sys.stdin.fileno()
        termios.tcgetattr(terminal)
        time.sleep(max(0.0, early))
        termios.tcflush(terminal, termios.TCIFLUSH)


def _line_of_front_end(prompt: str, *, takes_enter: bool) -> str:
    """Ask through the kernel, which discards replies to earlier questions.

    Args:
        prompt: The question.
        takes_enter: Whether an empty line is an answer. A box for a line takes the keyboard in some
            front ends, so an Enter that comes immediately was meant for something else.

    Raises:
        EOFError: There will be no answer.
    """
    kernel = current_shell().kernel
    for _ in range(_MAX_EARLY):
        shown = time.monotonic()
        line = str(kernel.raw_input(prompt))
        if line or not takes_enter or time.monotonic() - shown >= UNSEEN:
            return line
    raise EOFError


def confirm(question: str, person: Person | None = None) -> bool | None:
    """Ask for yes or no; None if there is no answer after three tries.

    Args:
        question: A question of the notebook, not of the model.
        person: Who is asked; None for the keyboard.
    """
    person = person or Keyboard()
    form = UserQuestion(question, ("yes", "no"), is_of_model=False)
    try:
        for _ in range(3 if person.there else 0):
            answer = person.ask(f"{question} [y/n] ", form).strip().lower()
            if answer in ("y", "yes", "n", "no"):
                return answer.startswith("y")
            form = replace(form, fault="Answer yes or no.")
    except (EOFError, OSError):
        pass
    return None


class NobodyThereError(Exception):
    """A tool asked a question that nobody can answer."""


current_person: ContextVar[Person | None] = ContextVar("archytas_nb_person", default=None)
"""The person that the running tool asks; None for the keyboard."""

person_elsewhere: ContextVar[Person | None] = ContextVar(
    "archytas_nb_person_elsewhere", default=None
)
"""Who is asked during a question that comes from elsewhere, such as a chat; None for the user of
this kernel."""

_GO_ON = "Go on with what is known, or say in the final answer what must be decided first."


def ask_user(
    question: str,
    choices: list[str] = [],  # noqa: B006 - never changed
    default: str = "",
) -> str:
    """Ask the user for a wish or a decision, which no other tool can find out.

    Args:
        question: One or two sentences
        choices: The answers to choose from, if there are some
        default: A likely answer
    """
    person = current_person.get() or Keyboard()
    if not question.strip():
        raise ValueError("the question is empty; expected text to ask the user")
    if not person.there:
        raise NobodyThereError(
            f"Nobody can be asked here: the notebook runs without a person. {_GO_ON}"
        )
    try:
        return _answer(person, UserQuestion(question, tuple(choices), default.strip()))
    except (EOFError, OSError) as error:
        why = "no answer can come: the input has ended"
        if isinstance(error, UnansweredError):
            why = str(error)
        raise NobodyThereError(f"The user was asked, and {why}. {_GO_ON}") from None


def _answer(person: Person, asked: UserQuestion) -> str:
    """One of the choices, by its number or its words, the default, or the user's own words."""
    choices = asked.choices
    listed = "".join(f"  {n}. {escape(choice)}\n" for n, choice in enumerate(choices, 1))
    how = "> "
    if choices:
        how = "Answer with a number or in your own words: "
    if asked.default:
        how = f"Press Enter for {escape(keep_both_ends(asked.default, 80))}, or answer: "
    question = f"{ASKS}{quoted(asked.text)}\n{listed}"
    prompt = f"{question}{how}"
    for is_second in (False, True):
        typed = person.ask(prompt, asked).strip() or asked.default
        for choice in choices:  # before the numbers: a choice may itself look like one
            if typed and choice.strip().casefold() == typed.casefold():
                return choice
        is_number = bool(choices) and typed.isdecimal()
        if is_number and 1 <= int(typed) <= len(choices):
            return choices[int(typed) - 1]
        if typed and (is_second or not is_number):
            return typed
        fault = "The answer was empty."
        if typed:
            fault = f"{escape(typed)} is not one of the numbers."
        # The question again: a notebook hides the lines before the one that is asked.
        prompt = f"{fault}\n{question}Type an answer, or press Enter to skip: "
        asked = replace(asked, fault=fault)
    return "(The user gave no answer.)"


# ── texts of a model: none may imitate a line of the prompt or hide anything ──────────────────────

_WIDTH = 200  # maximum number of characters of a text that is shown on the line of the prompt
_BLOCK = 1500  # maximum number of characters of a block, unless it is shown whole


def block(text: str, *, whole: bool = False) -> list[str]:
    """Lines of code, SQL or prose, marked so that none can imitate a line of the prompt."""
    if not whole:
        text = keep_both_ends(text, _BLOCK)
    return [f"    │ {row}" for row in visible(text).split("\n")]


def quoted(text: str) -> str:
    """The model's text in a prompt: on the same line if it fits, otherwise below and marked."""
    if len(text) > _WIDTH or len(text.splitlines()) > 1:
        return "\n".join(["", *block(text)])
    return escape(text)
