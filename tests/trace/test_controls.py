"""Decisions with controls give the same line, record and replay as typed ones."""

from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread, current_thread, main_thread
from types import SimpleNamespace
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import RunInterrupted
from archytas_nb.loop.decision import Decision
from archytas_nb.loop.events import (
    Answered,
    Failed,
    Interrupted,
    Notice,
    Started,
    Stopped,
    UserQuestion,
)
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.tool import Tool
from archytas_nb.trace import bundle, controls, forms, front_end
from archytas_nb.trace.fold import fold
from archytas_nb.trace.header import StopButton
from tests.front_end import find, widgets
from tests.front_end import front_end as acting
from tests.scripted import Scripted

EDIT = [
    ["Edit", ("above", "9"), "Run with 1 change"],
    ["Edit", ("above", "many"), "Run", ("above", "2"), "Back", "Run with 1 change"],
]
REASON = "Why? The agent reads this."
AGAIN = "Run means"
DECISIONS: dict[str, tuple[list[list[Any]], list[str]]] = {
    "run": ([["Run"], ["Run"]], ["y", "y"]),
    "this run": ([[(AGAIN, "this run"), "Run"]], ["this run"]),
    "refuse": ([["Refuse…", "Refuse"], ["Run"]], ["n", "y"]),
    "reason": (
        [["Refuse…", (REASON, "it is in use"), "Refuse"], ["Refuse…", "Back", "Stop"]],
        ["n: it is in use", "stop"],
    ),
    "edit with reason": (
        [[("above", "9"), "Refuse…", "Refuse"], ["Run"]],
        ["n", "y"],
    ),
    "edit": (EDIT, ["above = 9", "y", "above = 2", "y"]),
    "stop": ([["Stop"]], ["stop"]),
    "stop later": ([["Run"], ["Stop"]], ["y", "stop"]),
}
"""What is pressed in each form, and the lines that a person types to say the same."""


def _delete_rows(above: int) -> str:
    """Delete rows.

    Args:
        above: Rows with a greater number are deleted
    """
    return f"kept {above}"


delete_rows = Tool.from_function(_delete_rows, name="delete_rows", approve=True)


def ask(path: Path, person: Any, monkeypatch: pytest.MonkeyPatch, mode: Any = "record") -> Run:
    """Ask with a cassette; the person answers in place of the keyboard."""
    from archytas_nb import driver

    script = ScriptedModel(
        ("delete_rows", {"above": 4}), ("delete_rows", {"above": 3}), ("final_answer", "Done.")
    )
    monkeypatch.setattr(driver, "Keyboard", lambda: person)
    cassette = Cassette(path, mode)
    agent = nb.Agent([delete_rows], CassetteModel(cassette, lambda: script))
    try:
        return agent.run("Delete rows", progress=False)
    except RunInterrupted as error:
        return error.run  # type: ignore[return-value]


def story(run: Run) -> list[str]:
    """The decisions and events."""
    told = [f"{outcome.status} {outcome.decision}: {outcome.text}" for _, outcome in run.calls]
    return [run.status, *told]


def without_times(cassette: Path) -> str:
    """The record, without how long the person took."""
    return re.sub(r', "seconds": \d+\.0(?=})', "", cassette.read_text())


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_is_recorded_and_replayed_alike_however_it_was_made(
    decision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    presses, lines = DECISIONS[decision]
    typed = ask(tmp_path / "typed", Scripted(*lines), monkeypatch)
    with acting(monkeypatch, *presses), monkeypatch.context() as patched:
        pressed = ask(tmp_path / "pressed", Scripted(), patched)
    assert story(pressed) == story(typed)
    recorded = without_times(tmp_path / "pressed")
    for each in (tmp_path / "typed", tmp_path / "pressed"):
        assert without_times(each) == recorded
        replayed = ask(each, Scripted(there=False), monkeypatch, "replay")
        assert story(replayed) == story(typed)


class Slow(Scripted):
    """A person who thinks for a second."""

    def ask(self, prompt: str, form: Any = None) -> str:
        time.sleep(1.1)
        return super().ask(prompt, form)


def test_the_trace_shows_who_decided_and_when_and_a_replay_shows_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ask(tmp_path / "slow", Slow("n: in use", "this run"), monkeypatch)
    replayed = ask(tmp_path / "slow", Scripted(there=False), monkeypatch, "replay")
    for each in (run, replayed):
        shown = bundle(fold("Delete rows", each.events))[0]
        assert "refused by you after 1 s: in use" in shown["text/plain"]
        assert "(approved by you after 1 s, also later in this run)" in shown["text/plain"]
        assert "approved by you after 1 s" in shown["text/html"]


def test_a_tool_that_was_approved_for_this_run_is_asked_about_in_the_next_one() -> None:
    from archytas_nb.kernel.approval import Approver
    from archytas_nb.loop.events import ToolCall
    from archytas_nb.tools.tool import BoundCall

    person = Scripted("this run", "y")
    bound = delete_rows.bind({"above": 1}, {})
    assert isinstance(bound, BoundCall)
    for _ in range(2):
        approver = Approver("ask", (), person)
        for _ in range(3):
            approver.decide(delete_rows, ToolCall("delete_rows", {"above": 1}), bound, {})
            if person.answers == []:
                break
    assert len(person.prompts) == 2


@pytest.mark.parametrize(
    ("subshells", "setting", "way"),
    [
        (["a"], "auto", "controls"),
        (["a"], "controls", "controls"),
        (["a"], "input", "input"),
        (None, "auto", "input"),
        (None, "controls", "input"),
    ],
)
def test_controls_are_used_only_where_a_subshell_exists(
    subshells: list[str] | None, setting: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = SimpleNamespace(
        _allow_stdin=True, get_parent=lambda _: {"metadata": {"cellId": "one"}}
    )
    if subshells is not None:
        manager = SimpleNamespace(list_subshell=lambda: subshells)
        kernel.shell_channel_thread = SimpleNamespace(manager=manager)
    monkeypatch.setenv("ARCHYTAS_NB_ASK_WITH", setting)
    monkeypatch.setattr(front_end, "current_kernel", lambda: kernel)
    monkeypatch.setattr(front_end, "_SECONDS_TO_CONNECT", 0.0)
    monkeypatch.setattr(front_end, "display", lambda _: SimpleNamespace(update=lambda *_, **__: 0))
    assert front_end.way() == way
    console = SimpleNamespace(**{**vars(kernel), "get_parent": lambda _: {}})
    monkeypatch.setattr(front_end, "current_kernel", lambda: console)
    assert front_end.way() == "input"


@pytest.mark.parametrize(
    ("choices", "default", "act", "answer"),
    [
        (["red", "blue"], "", ["blue"], "blue"),
        (["red", "Red "], "", ["Red "], "Red "),
        (["1", "2"], "", ["2"], "2"),
        ([*"abcdefgh"], "", [("Answers", 6), "Choose"], "g"),
        (["red"], "", ["Answer", ("Or answer in your own words", "green"), "Answer"], "green"),
        ([], "", [("Your answer", "42"), "Answer"], "42"),
        (["red", "blue"], "blue", ["Answer"], "blue"),
        ([], "42", [("Your answer; Enter takes '42'", "43"), "Answer"], "43"),
        ([], "42", ["Answer"], "42"),
    ],
)
def test_a_question_of_the_model_is_answered_with_a_button_a_list_or_a_field(
    choices: list[str],
    default: str,
    act: list[Any],
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from archytas_nb.kernel.person import _answer

    with acting(monkeypatch, act):
        asked = UserQuestion("Which?", tuple(choices), default)
        assert _answer(controls.Controls(Scripted()), asked) == answer


def test_an_argument_that_does_not_fit_cannot_be_run_and_html_stays_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault stands below the field; what a model wrote is no element of the page."""
    from archytas_nb.loop.events import ApprovalForm, FormField

    evil = "<img src=x onerror=alert(1)>"
    field = FormField("above", evil, {"type": "string"})
    form = ApprovalForm("delete_rows", (), why=evil, fields=(field,), check=lambda _: evil)
    sheet = forms.ApprovalSheet(form, note=evil)
    find(sheet.box, "Edit").click()
    pages = [each.value for each in widgets(sheet.box) if type(each).__name__ == "HTML"]
    assert sheet._take("typed", {"": "", "above": "new"}) is None
    assert sheet._take("run", {"": "", "above": "new"}) is None
    assert find(sheet.box, "Run").disabled
    pages += [each.value for each in widgets(sheet.box) if "HTML" in type(each).__name__]
    assert any("&lt;img" in page for page in pages)
    assert not any("<img" in page for page in pages)


def test_a_call_that_a_change_has_made_another_one_is_asked_about_again_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All changes are made, and nothing is run that was not seen."""
    ran: list[tuple[int, int]] = []

    def why(above: int) -> str:
        return f"It keeps {above + 1} rows."

    @nb.tool(approve=why)
    def keep(above: int, below: int) -> str:
        """Keep rows.

        Args:
            above: The last
            below: The first
        """
        ran.append((above, below))
        return "kept"

    from archytas_nb import driver

    monkeypatch.setattr(driver, "Keyboard", Scripted)
    script = ScriptedModel(("keep", {"above": 4, "below": 0}), ("final_answer", "Done."))
    changed = ["Edit", ("above", "2"), ("below", "1"), "Run with 2 changes"]
    with acting(monkeypatch, changed, ["Run"]) as shown:
        nb.Agent([keep], script).run("Keep rows", progress=False)
    assert ran == [(2, 1)]
    first, second = (
        " ".join(each.value for each in widgets(box) if "HTML" in type(each).__name__)
        for box in shown.shown
    )
    assert "reason for asking" not in first
    assert "Not run yet" in second
    assert "reason for asking" in second


def test_what_is_pressed_before_a_form_can_have_been_read_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor what is pressed just after another part of the form has come to the place of the first."""
    from archytas_nb.loop.events import ApprovalForm, FormField

    field = FormField("above", 4, {"type": "integer"})
    sheet = forms.ApprovalSheet(ApprovalForm("keep", (), fields=(field,), check=lambda _: ""))
    monkeypatch.setattr(forms, "UNSEEN", 0.5)
    views: list[str] = []

    def press(title: str) -> None:
        find(sheet.box, title).click()
        time.sleep(0.2)
        views.append(sheet._view)

    def act() -> None:
        for title in ("Run", "Stop", "Edit", "Run"):  # with 0.2 s between them
            press(title)
        time.sleep(0.5)
        for title in ("Back", "Run", "Edit", "Run"):
            press(title)
        find(sheet.box, "above").value = "7"
        time.sleep(0.6)
        press("Run with 1 change")

    other = Thread(target=act)
    other.start()
    assert sheet.wait() == ["above = 7", "y"]
    other.join()
    assert views == ["card", "card", "edit", "edit", "card", "card", "edit", "edit", "edit"]
    sheet.close()


def test_a_form_closes_every_widget_that_it_has_made() -> None:
    import ipywidgets

    before = set(ipywidgets.Widget.get_manager_state()["state"])
    forms.QuestionSheet(UserQuestion("Which?", tuple("abcdefgh"))).close()
    assert set(ipywidgets.Widget.get_manager_state()["state"]) <= before


def test_each_field_that_does_not_fit_shows_its_own_fault() -> None:
    from archytas_nb.loop.events import ApprovalForm, FormField

    def check(changes: dict[str, Any]) -> str:
        return next((f"{name} is wrong" for name, value in changes.items() if value == "bad"), "")

    fields = tuple(FormField(name, "good", {"type": "string"}) for name in ("above", "below"))
    sheet = forms.ApprovalSheet(ApprovalForm("delete_rows", (), fields=fields, check=check))
    find(sheet.box, "Edit").click()
    changes, faults = sheet._changes({"above": "bad", "below": "bad"})
    assert faults == {"above": "above is wrong", "below": "below is wrong"}
    assert changes == {}
    assert sheet._changes({"above": "bad", "below": "fine"}) == (
        {"below": "fine"},
        {"above": "above is wrong"},
    )


@pytest.mark.parametrize("delay", [0.0, 0.002, 0.01, None])
def test_a_stop_interrupts_once_and_never_what_comes_after_the_run(delay: float | None) -> None:
    """It is pressed three times during the run, about at its end, or afterwards (None)."""
    for _ in range(10):
        button = StopButton()
        presses = Thread(target=lambda press=button.widget.click: [press() for _ in range(3)])
        interrupts = 0
        try:
            if delay is not None:
                presses.start()
                time.sleep(delay)
        except KeyboardInterrupt:
            interrupts += 1
        button.close()
        if delay is None:
            presses.start()
        presses.join()
        time.sleep(0.001)  # where a late interrupt would be raised
        assert interrupts <= button.was_pressed
        assert not (delay is None and button.was_pressed)


def test_a_run_says_that_its_button_has_ended_it_and_the_next_one_does_not() -> None:
    def interrupt() -> str:
        """Interrupt, as the menu of the kernel does."""
        raise KeyboardInterrupt

    agent: nb.Agent

    def press() -> str:
        """Press the button that ends the run."""
        StopButton(agent.inbox.stop).widget.click()
        time.sleep(5)
        return "went on"

    agent = nb.Agent([press, interrupt], ScriptedModel(("press", {}), ("interrupt", {})))
    seen: list[Any] = []
    for is_stopped in (True, False):
        with pytest.raises(RunInterrupted) as raised:
            agent.run("Do it", observers=[seen.append], progress=False)
        assert isinstance(raised.value.run, Run)
        ending = raised.value.run.ending
        assert isinstance(ending, Interrupted)
        assert ending.stopped is is_stopped
        assert seen[-1] == ending
        assert agent.exchanges[-1].ending == ending


@pytest.mark.parametrize("mode", ["replay", "auto"])
def test_a_call_that_waits_too_long_is_not_run_and_nobody_has_refused_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("ARCHYTAS_NB_ASK_TIMEOUT", "1")
    with acting(monkeypatch, [], ["Run"]), monkeypatch.context() as patched:
        run = ask(tmp_path / "late", Scripted(), patched)
    [(_, late), (_, second)] = run.calls
    assert (late.status, second.status) == ("refused", "done")
    assert "nobody answered within 1 s" in late.text
    assert "refused this call" not in late.text
    assert late.decision == Decision("unanswered")
    assert late.decision.seconds == 1
    assert second.decision == Decision("approved")
    replayed = ask(tmp_path / "late", Scripted(there=False), monkeypatch, mode)
    assert story(replayed) == story(run)
    assert [each.decision for _, each in replayed.calls] == [late.decision, second.decision]


def test_a_recording_in_which_a_late_call_is_a_refusal_is_replayed_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = Scripted("n: nobody answered within 1 s", "y")
    run = ask(tmp_path / "earlier", earlier, monkeypatch)
    replayed = ask(tmp_path / "earlier", Scripted(there=False), monkeypatch, "replay")
    assert story(replayed) == story(run)
    assert replayed.calls[0][1].decision == Decision("refused", reason="nobody answered within 1 s")


def test_a_question_that_waits_too_long_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHYTAS_NB_ASK_TIMEOUT", "1")
    with acting(monkeypatch), pytest.raises(EOFError, match="within 1 s"):
        controls.Controls(Scripted()).ask("The agent asks: Which?", UserQuestion("Which?", ()))


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("run {}", "done", "kept 4"),
        ("refuse it is in use", "refused", "it is in use"),
        ("refuse {} it is in use", "refused", "it is in use"),
        ("stop", "interrupted", ""),
        ("stop {}", "interrupted", ""),
    ],
)
def test_a_call_is_decided_from_another_thread(
    line: str, status: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from IPython.core.error import UsageError

    shell = console()
    with pytest.raises(UsageError, match="no call waits"):
        shell.run_line_magic("agent_answer", "refuse")

    def answer() -> None:
        while (form := controls.waiting()) is None:
            time.sleep(0.01)
        shell.run_line_magic("agent_answer", line.format(form.name))

    other = Thread(target=answer)
    other.start()
    acts: list[list[Any]] = [[]]
    if status != "interrupted":
        acts.append(["Run"])
    with acting(monkeypatch, *acts), monkeypatch.context() as patched:
        run = ask(tmp_path / "elsewhere", Scripted(), patched)
    other.join()
    [(_, outcome), *_] = run.calls
    assert outcome.status == status
    assert text in outcome.text


def test_an_answer_from_elsewhere_names_the_call_that_waits_or_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question has a name of its own: that of the first does not answer the second."""
    from IPython.core.error import UsageError

    shell = console()
    refused: list[str] = []
    names: list[str] = []

    def answer(*lines: str) -> None:
        while (form := controls.waiting()) is None or form.name in names:
            time.sleep(0.01)
        names.append(form.name)
        for each in lines:
            line = each.format(*names, now=form.name)
            try:
                shell.run_line_magic("agent_answer", line)
            except UsageError as error:
                refused.append(str(error))

    def act() -> None:
        answer("run", "run drop_rows", "run delete_rows#zzzz", "run {now}")
        answer("run", "run {0}", "run delete_rows", "stop {0}", "refuse {0} no", "run {now}")

    other = Thread(target=act)
    other.start()
    with acting(monkeypatch, [], []), monkeypatch.context() as patched:
        run = ask(tmp_path / "named", Scripted(), patched)
    other.join()
    assert [outcome.status for _, outcome in run.calls] == ["done", "done"]
    assert len(set(names)) == 2
    assert len(refused) == 3 + 5
    for error, name in zip(refused, [names[0]] * 3 + [names[1]] * 5, strict=True):
        assert f"%agent_answer run {name}" in error  # what waits, and how to answer it
        assert "above = " in error


def console() -> Any:
    """A shell with the magics, in which a person answers."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "archytas_nb")
    return shell


class Hands:
    """A person who acts on a run at random, on threads of their own: forms, texts and the button that ends it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.told: list[str] = []  # texts that were accepted
        self._threads: list[Thread] = []

    def display(self, box: Any) -> Any:
        """Act on a form that is shown."""
        acts = (["Run"], ["Refuse"], ["Stop"], ["Edit", ("above", "2"), "Run"], ["Run", "Refuse"])
        self._start(self._press, box, self._random.choice(acts))
        return SimpleNamespace(update=lambda *_, **__: None)

    def begin(self, agent: nb.Agent, stop: StopButton, number: int) -> None:
        """Tell the agent something and end the run, each or none of it, at a random moment."""
        for text in self._random.choice(((), ("a",), ("a", "b"))):
            self._start(self._tell, agent, f"{text}{number}.", self._random.random() / 100)
        if self._random.random() < 0.4:
            self._start(self._stop, stop, self._random.random() / 100)

    def finish(self) -> None:
        for each in self._threads:
            each.join()

    def _start(self, *call: Any) -> None:
        self._threads.append(Thread(target=call[0], args=call[1:]))
        self._threads[-1].start()

    @staticmethod
    def _press(box: Any, act: list[Any]) -> None:
        for press in act:
            if isinstance(press, tuple):
                find(box, press[0]).value = press[1]
            else:
                find(box, press).click()

    def _tell(self, agent: nb.Agent, text: str, seconds: float) -> None:
        time.sleep(seconds)
        with suppress(RuntimeError):
            agent.tell(text)
            self.told.append(text)

    @staticmethod
    def _stop(stop: StopButton, seconds: float) -> None:
        time.sleep(seconds)
        stop.widget.click()


# What is interrupted while it is made cannot be closed, of which a widget complains.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("runs", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_whenever_a_run_is_stopped_or_told_something_each_thing_has_one_outcome(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One ending, one outcome for each call, one place for each text; threads of a person write no run."""
    from archytas_nb.loop.record import Exchange

    writers = set()
    for kind in (Run, Exchange):

        def note(each: Any, name: str, value: Any, write: Any = kind.__setattr__) -> None:
            writers.add(current_thread())
            write(each, name, value)

        monkeypatch.setattr(kind, "__setattr__", note)
    monkeypatch.setattr(front_end, "way", lambda: "controls")
    monkeypatch.setattr(forms, "_SETTLES", 0.0)
    monkeypatch.setattr(forms, "UNSEEN", -1000.0)
    random = Random(30)
    statuses = Counter(hands_on(random, number, monkeypatch) for number in range(runs))
    print(statuses)
    assert writers == {main_thread()}
    assert set(statuses) == {"answered", "interrupted"}


def hands_on(random: Random, number: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """One such run; returns its status."""
    made: list[int] = []

    def delete(above: int) -> str:
        """Delete rows.

        Args:
            above: Rows with a greater number are deleted
        """
        made.append(above)
        time.sleep(random.random() / 500)
        return f"kept {above}"

    calls = [("delete", {"above": above}) for above in (9, 8)]
    script = ScriptedModel(*calls, ("final_answer", "Done."))
    agent = nb.Agent([Tool.from_function(delete, approve=True)], script)
    hands = Hands(random)
    monkeypatch.setattr(front_end, "display", hands.display)
    stop = StopButton(agent.inbox.stop)
    endings = []

    def on_event(event: Any) -> None:
        if isinstance(event, (Answered, Failed, Stopped, Interrupted)):
            endings.append(event)
            stop.close()
        elif isinstance(event, Started):
            hands.begin(agent, stop, number)

    monkeypatch.setattr("archytas_nb.driver.Keyboard", Scripted)
    try:
        run = agent.run("Delete rows", observers=[on_event], progress=False)
    except RunInterrupted as error:
        run = error.run  # type: ignore[assignment]
    stop.close()
    hands.finish()
    assert run.ending is not None
    assert endings in ([run.ending], [])  # an interrupt may come instead of it
    ids = [call.id for call, _ in run.calls]
    assert len(set(ids)) == len(ids)
    outcomes = Counter(outcome.status for _, outcome in run.calls)
    assert outcomes["done"] <= len(made) <= outcomes["done"] + outcomes["interrupted"]
    notices = [each for each in run.events if isinstance(each, Notice)]
    placed = [each.text for each in notices if each.kind == "late"]
    placed += [step.said for each in agent.exchanges for step in each.steps]
    placed += agent.inbox.late  # where an interrupt kept the run from saying so
    for text in hands.told:
        assert "\n".join(placed).count(text) == 1, (text, placed, run.status)
    return run.status


@pytest.mark.parametrize("is_call", [True, False])
def test_a_press_that_is_not_possible_ends_the_test_with_its_reason(
    is_call: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_one() -> None:
        with acting(monkeypatch, ["Sing"]):
            if is_call:
                ask(tmp_path / "none", Scripted(), monkeypatch)
            else:
                question = UserQuestion("Which?", ())
                controls.Controls(Scripted()).ask("The agent asks: Which?", question)

    monkeypatch.setattr("tests.front_end.SECONDS_TO_APPEAR", 0.1)
    with pytest.raises(AssertionError, match="no control 'Sing'"):
        ask_one()
