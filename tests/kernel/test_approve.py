"""A policy decides what becomes of a call that wants approval; whatever goes wrong means no."""

from typing import Any

import pytest

from archytas_nb.kernel.approval import Approver, Decision
from archytas_nb.loop.events import ToolCall
from archytas_nb.tools.tool import BoundCall, Tool
from tests.kernel.people import Scripted


def pay(amount: int) -> str:
    """Pay.

    Args:
        amount: How much
    """
    return f"paid {amount}"


def decide(
    policy: Any = None,
    *answers: str,
    wants: Any = True,
    amount: int = 5,
    there: bool = True,
    allow: Any = (),
) -> tuple[Decision, Scripted]:
    person = Scripted(*answers, there=there)
    tool = Tool.from_function(pay, approve=wants)
    bound = tool.bind(amount)
    assert isinstance(bound, BoundCall)
    return Approver(policy, allow, person).decide(
        tool, ToolCall("c", "pay", amount), bound, {}
    ), person


@pytest.mark.parametrize("policy", [None, "ask", "auto", "deny"])
def test_a_tool_that_wants_no_approval_is_run_without_asking_under_every_policy(
    policy: Any,
) -> None:
    for wants in (None, False, lambda amount: amount > 100):
        decision, person = decide(policy, wants=wants)
        assert decision.bound is not None
        assert person.prompts == []


def test_ask_asks_auto_runs_and_deny_refuses() -> None:
    assert decide("ask", "y")[0].bound is not None
    assert decide(None, "n", "")[0].bound is None
    auto, person = decide("auto")
    assert (auto.bound is not None, person.prompts) == (True, [])
    denied, person = decide("deny", "y")
    assert (denied.bound, person.prompts) == (None, [])
    assert "denies" in denied.refusal


def test_where_nobody_is_there_nothing_waits_and_the_refusal_says_how_to_allow_it() -> None:
    decision, person = decide("ask", "y", there=False)
    assert (decision.bound, person.prompts) == (None, [])
    assert "pay needs a person's approval, and nobody can be asked here" in decision.refusal
    assert "--approve auto" in decision.refusal
    assert "'pay' in the list of allowed tools" in decision.refusal


def test_a_tool_that_is_allowed_by_name_is_run_headless_too_and_even_where_the_rest_is_denied() -> (
    None
):
    for policy in ("ask", "deny"):
        decision, person = decide(policy, there=False, allow=["pay"])
        assert (decision.bound is not None, person.prompts) == (True, [])


def test_the_tools_own_callable_sees_the_validated_arguments_and_may_say_why() -> None:
    seen = []

    def large(amount: int) -> str:
        seen.append(amount)
        return "more than 3" if amount > 3 else ""

    assert decide("ask", wants=large, amount=2)[1].prompts == []
    decision, person = decide("ask", "y", wants=large)
    assert decision.bound is not None
    assert "(more than 3)" in person.prompts[0]
    assert seen == [2, 5]


def test_a_callable_that_fails_means_asking_and_headless_a_refusal() -> None:
    def broken(amount: int) -> bool:
        raise RuntimeError("no idea")

    _, person = decide("ask", "y", wants=broken)
    assert "RuntimeError('no idea')" in person.prompts[0]
    for policy, there in (("ask", False), ("deny", True)):
        assert decide(policy, "y", wants=broken, there=there)[0].bound is None


def test_always_holds_for_this_tool_in_this_run() -> None:
    person = Scripted("a", "y")
    approver = Approver("ask", (), person)
    tools = [Tool.from_function(pay, name, approve=True) for name in ("pay", "pay", "other")]
    for tool in tools:
        bound = tool.bind(1)
        assert isinstance(bound, BoundCall)
        assert approver.decide(tool, ToolCall("c", tool.name, 1), bound, {}).bound is not None
    assert ["run pay" in prompt for prompt in person.prompts] == [True, False]


def test_a_callable_policy_is_asked_about_every_call_and_refuses_with_its_reason() -> None:
    decision, _ = decide(lambda tool, call: f"{tool.name} of {call.input}", wants=False)
    assert decision.refusal == "pay of 5"
    assert decide(lambda tool, call: "")[0].bound is not None


@pytest.mark.parametrize("answer", [None, True, False, 3])
def test_a_callable_policy_that_answers_anything_else_has_not_agreed(answer: Any) -> None:
    decision, _ = decide(lambda tool, call: answer)
    assert repr(answer) in decision.refusal


def test_a_callable_policy_that_raises_has_not_agreed() -> None:
    def broken(tool: Tool, call: ToolCall) -> str:
        raise ValueError("out of order")

    assert "out of order" in decide(broken)[0].refusal


def test_nobody_who_answers_is_a_refusal() -> None:
    assert "nobody answered" in decide("ask")[0].refusal


def test_an_unknown_policy_and_a_single_name_are_refused_with_what_was_expected() -> None:
    with pytest.raises(ValueError, match="'maybe'; expected 'ask', 'auto', 'deny'"):
        Approver("maybe", (), Scripted())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"\['pay'\]"):
        Approver(None, "pay", Scripted())
