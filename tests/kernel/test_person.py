"""Whether somebody can be asked is known before anything waits."""

import io
import sys
from types import SimpleNamespace

import pytest

from archytas_nb.kernel import approval as module
from archytas_nb.kernel.approval import Keyboard, confirm


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("allowed", [True, False])
def test_in_a_kernel_it_is_the_front_end_that_says_so(
    monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=allowed))
    monkeypatch.setattr(module, "current_shell", lambda: shell)
    monkeypatch.setattr(sys, "stdin", Tty() if not allowed else io.StringIO())
    assert Keyboard().there is allowed


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_elsewhere_it_is_the_terminal(monkeypatch: pytest.MonkeyPatch, shell: object) -> None:
    monkeypatch.setattr(module, "current_shell", lambda: shell)
    closed = io.StringIO()
    closed.close()
    for stdin, there in (
        (Tty(), True),
        (io.StringIO("y\n"), False),
        (None, False),
        (closed, False),
    ):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert Keyboard().there is there


def test_the_question_goes_to_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: f"answer to {prompt}")
    assert Keyboard().ask("Which?") == "answer to Which?"


@pytest.mark.parametrize(
    ("there", "typed", "answer", "asked"),
    [
        (True, ["y"], True, 1),
        (True, [" YES "], True, 1),
        (True, ["n"], False, 1),
        (True, ["", "perhaps", "no"], False, 3),
        (True, ["", "yeah", "nope"], None, 3),
        (True, [EOFError()], None, 1),
        (False, [], None, 0),
    ],
)
def test_yes_or_no_is_asked_where_somebody_is_there(
    monkeypatch: pytest.MonkeyPatch, there: bool, typed: list[object], answer: object, asked: int
) -> None:
    prompts: list[str] = []

    def ask(_keyboard: object, prompt: str) -> object:
        prompts.append(prompt)
        line = typed.pop(0)
        if isinstance(line, Exception):
            raise line
        return line

    monkeypatch.setattr(Keyboard, "there", there)
    monkeypatch.setattr(Keyboard, "ask", ask)
    assert confirm("Use it? ") is answer
    assert len(prompts) == asked
