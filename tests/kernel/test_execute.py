"""One call comes to one outcome, whatever the tool does."""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.kernel.execute import KernelExecutor, PausingPerson, interrupted_late, remember
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.loop.limits import Clock
from archytas_nb.tools.toolbox import Toolbox
from tests.kernel.tools import run_one
from tests.scripted import Scripted


def say(text: str) -> None:
    print(text)
    print("careful", file=sys.stderr)


def fail(why: str) -> str:
    raise RuntimeError(why)


async def later(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


def run(*calls: tuple[str, object], approve: object = None) -> tuple[CallOutcome, ...]:
    made = [ToolCall(f"q01s01c{n:02}", name, given) for n, (name, given) in enumerate(calls, 1)]
    executor = KernelExecutor(Toolbox(say, fail, later, *SLOW), {}, approve)
    outcomes = executor.run(made)
    assert [call.id for call in made] == [outcome.call_id for outcome in outcomes]
    return outcomes


def sleep() -> str:
    time.sleep(30)
    return "slept"


cancelled = threading.Event()


async def sleep_async() -> str:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        cancelled.set()
        raise
    return "slept"


def swallow() -> str:
    try:
        time.sleep(30)
    except KeyboardInterrupt:
        return "went on"
    return "slept"


SLOW = (sleep, sleep_async, swallow)


@pytest.fixture
def interrupt_soon() -> Iterator[None]:
    """An interrupt of this process, as Ctrl-C sends it, after 0.3 s."""
    # To this thread by name: a signal to another one would not wake what sleeps here.
    timer = threading.Timer(0.3, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])
    timer.start()
    yield
    timer.join()


def test_printed_output_reaches_the_model_in_order(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [outcome] = run(("say", "hello"))
    assert [(output.kind, output.data["text/plain"]) for output in outcome.outputs] == [
        ("stdout", "hello\n"),
        ("stderr", "careful\n"),
    ]
    assert "hello" in outcome.text
    assert capsys.readouterr().out == ""


def test_a_tool_that_raises_is_an_error_and_the_next_call_runs() -> None:
    bad, good = run(("fail", "because"), ("later", 1))
    assert (bad.status, good.status, good.value) == ("error", "done", 2)
    assert "RuntimeError" in bad.text
    assert "because" in bad.text
    assert isinstance(bad.error, RuntimeError)


def test_an_unknown_tool_and_bad_input_are_errors() -> None:
    unknown, bad = run(("sya", "x"), ("later", "many"))
    assert (unknown.status, bad.status) == ("error", "error")
    assert "'say'" in unknown.text
    assert "integer" in bad.text


def test_a_refused_call_is_not_run_and_the_model_reads_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [outcome] = run(("say", "x"), approve=lambda tool, call: f"{tool.name} is not allowed")
    assert (outcome.status, outcome.text, outcome.outputs) == ("refused", "say is not allowed", ())


@pytest.mark.usefixtures("interrupt_soon")
@pytest.mark.parametrize("name", ["sleep", "sleep_async", "swallow"])
def test_an_interrupt_stops_a_tool_and_later_calls_are_not_run(name: str) -> None:
    started = time.monotonic()
    first, second = run((name, None), ("say", "x"))
    assert time.monotonic() - started < 20
    assert (first.status, second.status) == ("interrupted", "not_run")
    assert name != "sleep_async" or cancelled.is_set()


def test_awaits_an_awaitable_that_a_plain_function_returns() -> None:
    def promise(n: int) -> object:
        return later(n)

    assert run_one(promise, 1).value == 2


def test_result_and_output_together_are_limited_to_max_chars() -> None:
    def talk() -> str:
        print("p" * 10_000)
        return "r" * 9_000

    for most in (100, 500, 8000):
        assert len(run_one(talk, max_chars=most).text) <= most + 200
    text = run_one(lambda_of("z" * 5_000_000)).text
    assert any(f"{n:,} characters left out" in text for n in range(4_991_000, 4_994_000))


def lambda_of(value: object) -> object:
    def give() -> object:
        return value

    return give


def twice(n: int) -> int:
    print(f"twice {n}")
    return 2 * n


async def twice_async(n: int) -> int:
    await asyncio.sleep(0.001 * (n % 3))
    print(f"twice {n}")
    return 2 * n


async def fail_async(n: int) -> int:
    await asyncio.sleep(0)
    raise RuntimeError(f"not {n}")


KINDS = {
    "twice": "done", "twice_async": "done", "asked": "done", "refused": "refused", "asked_async": "done",
    "refused_async": "refused", "fail": "error", "fail_async": "error", "nobody": "error",
}  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(sorted(KINDS)), max_size=8), st.none() | st.integers(0, 9))
def test_each_call_has_its_own_outcome_in_order(names: list[str], stop_at: int | None) -> None:
    box = Toolbox(twice, twice_async, fail, fail_async)
    for name in ("asked", "refused"):
        box.add(twice, name=name, approve=True)
        box.add(twice_async, name=f"{name}_async", approve=True)
    asked = [name for name in names if name.startswith(("asked", "refused"))]
    answers = ["y" if name.startswith("asked") else "n, no" for name in asked]
    if stop_at is not None and stop_at < len(answers):
        answers = [*answers[:stop_at], "stop"]
    person = Scripted(*answers)
    calls = [
        ToolCall(f"c{n}", name, {"why": "x"} if name == "fail" else n)
        for n, name in enumerate(names)
    ]
    outcomes = KernelExecutor(box, {}, person=person).run(calls)
    assert [each.call_id for each in outcomes] == [call.id for call in calls]
    stopped = next((n for n, each in enumerate(outcomes) if each.status == "interrupted"), None)
    for n, (name, outcome) in enumerate(zip(names, outcomes, strict=True)):
        if stopped is None or (n < stopped and outcome.status != "not_run"):
            assert outcome.status == KINDS[name]
        elif n < stopped:  # it stood ready with the one at which the person stopped
            assert "async" in name
        elif n > stopped:
            assert outcome.status == "not_run"
        if outcome.status == "done":
            assert outcome.value == 2 * n
            assert [each.data["text/plain"] for each in outcome.outputs] == [f"twice {n}\n"]
    assert (stopped is not None) == ("stop" in answers)


# ── what the model reads of the end of a call ──────────────────────────────────────────────────────


def pay(amount: int) -> str:
    return f"paid {amount}"


def test_the_model_reads_which_input_was_run_after_an_edit() -> None:
    outcome = run_one(pay, 500, approve=True, person=Scripted("amount = 5", "y"))
    assert outcome.value == "paid 5"
    assert outcome.text == (
        'The user changed the input before the call was run. It was run with: {"amount": 5}\npaid 5'
    )


def test_a_person_can_stop_the_run() -> None:
    box = Toolbox()
    box.add(pay, approve=True)
    executor = KernelExecutor(box, {}, person=Scripted("y", "stop"))
    outcomes = executor.run([ToolCall(f"c{n}", "pay", n) for n in range(4)])
    assert [each.status for each in outcomes] == ["done", "interrupted", "not_run", "not_run"]
    assert outcomes[1].text == "Not run: the user stopped the run here."


def test_no_async_call_runs_when_a_person_stops_during_approval() -> None:
    ran = []

    async def note(n: int) -> None:
        ran.append(n)

    box = Toolbox()
    box.add(note, approve=True)
    executor = KernelExecutor(box, {}, person=Scripted("y", KeyboardInterrupt))
    outcomes = executor.run([ToolCall(f"c{n}", "note", n) for n in range(3)])
    assert [each.status for each in outcomes] == ["not_run", "interrupted", "not_run"]
    assert ran == []


def test_allowed_async_calls_run_and_a_refused_one_keeps_its_place() -> None:
    async def double(n: int) -> int:
        return 2 * n

    box = Toolbox()
    box.add(double, approve=True)
    executor = KernelExecutor(box, {}, person=Scripted("y", "n, not that one", "y"))
    calls = [ToolCall(f"c{n}", "double", n) for n in range(3)]
    outcomes = executor.run([*calls, ToolCall("c3", "double", "many"), ToolCall("c4", "nobody", 1)])
    assert [each.status for each in outcomes] == ["done", "refused", "done", "error", "error"]
    assert (outcomes[0].value, outcomes[2].value) == (0, 4)
    assert executor.clock() < time.monotonic()


def test_the_model_reads_the_result_of_a_tool_that_swallowed_an_interrupt() -> None:
    late = interrupted_late(CallOutcome("done", "all 3 rows were written", value=3, call_id="c"))
    assert (late.status, late.value, late.call_id) == ("interrupted", None, "c")
    assert "It ended normally: all 3 rows were written" in late.text


def test_the_last_traceback_begins_in_the_tool() -> None:
    def fail() -> None:
        raise RuntimeError("here")

    outcome = run_one(fail)
    assert sys.last_value is outcome.error
    assert sys.last_traceback is not None
    assert sys.last_traceback.tb_frame.f_code.co_name == "fail"
    if sys.version_info >= (3, 12):
        assert sys.last_exc is outcome.error


def test_an_error_without_a_line_of_the_users_keeps_its_traceback() -> None:
    with pytest.raises(ValueError, match="empty") as caught:
        CallOutcome("done", "")
    remember(caught.value)
    assert sys.last_traceback is not None


# ── asking a person ────────────────────────────────────────────────────────────────────────────────


def test_on_question_gets_each_prompt_and_its_end() -> None:
    prompts: list[str] = []
    scripted = Scripted("y", KeyboardInterrupt)
    person = PausingPerson(scripted, Clock(), lambda text, _=None: prompts.append(text))
    assert person.ask("Run it?") == "y"
    with pytest.raises(KeyboardInterrupt):
        person.ask("And this?")
    assert prompts == ["Run it?", "", "And this?", ""]


def test_what_is_advice_for_the_model_is_not_shown_to_a_person() -> None:
    from archytas_nb.kernel.person import Keyboard
    from archytas_nb.tools.toolbox import Toolbox

    def erase() -> str:
        """Erase."""
        return "gone"

    tools = Toolbox()
    tools.add(erase, approve=True)
    executor = KernelExecutor(tools, {}, "deny", Keyboard())
    unknown, denied = executor.run([ToolCall("1", "eras", {}), ToolCall("2", "erase", {})])
    assert "registered" in unknown.text
    assert "registered" not in unknown.for_person
    assert "erase" in unknown.for_person
    assert denied.text != denied.for_person
    assert denied.for_person.startswith("Refused")


def test_each_of_several_calls_is_told_as_soon_as_it_ends() -> None:
    """In turn with its outcome, concurrently without the result; the last one of all is not."""

    async def wait(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    def fail() -> None:
        raise ValueError("no")

    told: list[tuple[str, str, str]] = []
    box = Toolbox(wait, fail)
    executor = KernelExecutor(
        box, {}, on_ended=lambda each: told.append((each.call_id, each.status, each.result))
    )
    inputs = {"a": {}, "b": {"seconds": 0.2}, "c": {"seconds": 0.01}}
    calls = [ToolCall(id, "wait" if given else "fail", given) for id, given in inputs.items()]
    outcomes = executor.run(calls)
    assert [each.status for each in outcomes] == ["error", "done", "done"]
    assert told == [("a", "error", outcomes[0].result), ("c", "done", "…"), ("b", "done", "…")]
    told.clear()
    executor.run(calls[:1])
    assert told == []
