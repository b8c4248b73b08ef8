"""How a call ended is said in words that the model can act on."""

import sys

import pytest

from archytas_nb.kernel.execute import KernelExecutor, interrupted_late, remember
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.toolbox import Toolbox
from tests.kernel.people import Scripted
from tests.kernel.tools import run_one


def pay(amount: int) -> str:
    """Pay.

    Args:
        amount: How much
    """
    return f"paid {amount}"


def test_the_model_is_told_what_was_really_run_where_the_person_changed_the_input() -> None:
    outcome = run_one(pay, 500, approve=True, person=Scripted("e", "5", "y"))
    assert outcome.value == "paid 5"
    assert outcome.text == (
        "The user changed the input before the call was run. It was run with: 5\npaid 5"
    )


def test_the_person_can_stop_the_run_and_nothing_more_is_run() -> None:
    box = Toolbox()
    box.add(pay, approve=True)
    executor = KernelExecutor(box, {}, person=Scripted("y", "s"))
    outcomes = executor.run([ToolCall(f"c{n}", "pay", n) for n in range(4)])
    assert [each.status for each in outcomes] == ["done", "interrupted", "not_run", "not_run"]
    assert outcomes[1].text == "Not run: the user stopped the run here."


def test_of_async_calls_that_wait_for_approval_none_is_run_when_the_person_stops() -> None:
    ran = []

    async def note(n: int) -> None:
        """Note.

        Args:
            n: A number
        """
        ran.append(n)

    box = Toolbox()
    box.add(note, approve=True)
    executor = KernelExecutor(box, {}, person=Scripted("y", KeyboardInterrupt))
    outcomes = executor.run([ToolCall(f"c{n}", "note", n) for n in range(3)])
    assert [each.status for each in outcomes] == ["not_run", "interrupted", "not_run"]
    assert ran == []


def test_of_async_calls_the_allowed_ones_are_run_and_the_refused_one_keeps_its_place() -> None:
    async def double(n: int) -> int:
        """Double.

        Args:
            n: A number
        """
        return 2 * n

    box = Toolbox()
    box.add(double, approve=True)
    executor = KernelExecutor(box, {}, person=Scripted("y", "n, not that one", "y"))
    calls = [ToolCall(f"c{n}", "double", n) for n in range(3)]
    outcomes = executor.run([*calls, ToolCall("c3", "double", "many"), ToolCall("c4", "nobody", 1)])
    assert [each.status for each in outcomes] == ["done", "refused", "done", "error", "error"]
    assert (outcomes[0].value, outcomes[2].value) == (0, 4)
    assert executor.waited > 0


def test_an_interrupt_that_a_tool_swallowed_leaves_its_result_for_the_model_to_read() -> None:
    late = interrupted_late(CallOutcome("done", "all 3 rows were written", value=3, call_id="c"))
    assert (late.status, late.value, late.call_id) == ("interrupted", None, "c")
    assert "It came to its end all the same: all 3 rows were written" in late.text


def test_the_last_traceback_begins_in_the_tool() -> None:
    def fail() -> None:
        """Fail."""
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
