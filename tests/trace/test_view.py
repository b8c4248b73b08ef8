"""Where a run is shown, and that showing it never disturbs it."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from archytas_nb.loop.events import Answered, Failed, Interrupted, Notice
from archytas_nb.trace import view as view_module
from archytas_nb.trace.steps import fold
from archytas_nb.trace.text import ending_lines, plain
from archytas_nb.trace.view import TraceView, display_mode
from tests.trace.samples import SAMPLES


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """Everything that is displayed, as (data, metadata)."""
    import IPython.display

    seen: list[tuple[Any, Any]] = []
    monkeypatch.setattr(
        IPython.display, "display", lambda data, raw, metadata: seen.append((data, metadata))
    )
    return seen


def kernel_before_a_person(metadata: dict[str, str]) -> SimpleNamespace:
    return SimpleNamespace(_allow_stdin=True, get_parent=lambda channel: {"metadata": metadata})


@pytest.mark.parametrize(
    ("shell", "mode"),
    [
        (SimpleNamespace(), "terminal"),
        (SimpleNamespace(kernel=None), "terminal"),
        (SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=False)), "static"),
        (SimpleNamespace(kernel=kernel_before_a_person({"cellId": "a1"})), "live"),
        (SimpleNamespace(kernel=kernel_before_a_person({})), "static"),
        (None, "quiet"),
    ],
)
def test_the_mode_follows_the_shell(shell: Any, mode: str) -> None:
    """No shell, no kernel, nobody to ask, somebody there."""
    assert display_mode(shell) == mode


def test_an_unknown_mode_is_refused() -> None:
    """The four modes are all there are."""
    with pytest.raises(ValueError, match="'loud'"):
        TraceView("q", mode="loud")  # type: ignore[arg-type]


def test_static_is_one_display_at_the_end(displayed: list[Any]) -> None:
    """Nothing is displayed before the ending, and one bundle with it, however often it is closed."""
    question, events = SAMPLES["answered"]
    with TraceView(question, mode="static") as view:
        for event in events[:-1]:
            view.on_event(event)
        assert displayed == []
        view.on_event(events[-1])
        view.close()
    ((data, metadata),) = displayed
    assert data["text/plain"] == plain(fold(question, events))
    assert metadata["archytas_nb"]["usage"]["requests"] == 2


def test_an_ending_may_come_with_the_close(displayed: list[Any]) -> None:
    """A session that tells the ending only when it closes the view loses nothing."""
    view = TraceView("q", mode="static")
    view.close(Interrupted("a tool"))
    view.close(Answered("late"))
    ((data, _),) = displayed
    assert data["text/plain"] == "q\n\n■ Interrupted during a tool"


def test_quiet_is_quiet(displayed: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Quiet shows nothing, and still folds."""
    question, events = SAMPLES["answered"]
    view = TraceView(question, mode="quiet")
    for event in events:
        view.on_event(event)
    assert displayed == []
    assert capsys.readouterr().out == ""
    assert view.view == fold(question, events)


def test_drawing_never_raises_into_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A display that fails is logged; the run goes on."""

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("no display")

    monkeypatch.setattr(view_module, "bundle", broken)
    with caplog.at_level(logging.ERROR, logger="archytas_nb"):
        TraceView("q", mode="static").on_event(Answered("a"))
    assert "the trace could not be finished" in caplog.text
    assert "no display" in caplog.text


def test_an_interrupt_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's interrupt while a view draws is the run's business, not the view's."""

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    view = TraceView("q", mode="quiet")
    monkeypatch.setattr(view_module, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        view.on_event(Answered("a"))


@pytest.mark.parametrize(
    "name", [name for name in SAMPLES if name not in {"unreachable", "shortened"}]
)
def test_a_terminal_prints_the_lines_of_the_text(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is printed step by step has the lines of the plain text, but for the question and what is an error."""
    question, events = SAMPLES[name]
    view = TraceView(question, mode="terminal")
    for event in events:
        view.on_event(event)
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    run = fold(question, events)
    expected = plain(run)
    if isinstance(run.ending, (Failed, Interrupted)):
        expected = expected.removesuffix(ending_lines(run))
    assert printed == [line for line in expected.splitlines()[1:] if line.strip()]


def test_a_terminal_prints_each_step_as_soon_as_it_is_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A step's outcome is printed when it is there, and a retry's wait at once."""
    _, events = SAMPLES["recovered"]
    view = TraceView("q", mode="terminal")
    for event in events[:4]:
        view.on_event(event)
    assert 'mean_mass(species="Gento", unit="g") → error' in capsys.readouterr().out
    view.on_event(Notice("retry", "waiting 1 s"))
    assert capsys.readouterr().out == "   … waiting 1 s\n"
