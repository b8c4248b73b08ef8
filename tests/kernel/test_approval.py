"""A call runs only where the policy, its tool or the person allows it."""

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from archytas_nb.kernel import approval as module
from archytas_nb.kernel.approval import Approver, Decision, Keyboard, confirm
from archytas_nb.loop.events import ToolCall
from archytas_nb.tools.tool import BoundCall, Tool
from tests.kernel.tools import Scripted

# ── who is asked ───────────────────────────────────────────────────────────────────────────────────


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("allowed", [True, False])
def test_in_a_kernel_the_front_end_says_whether_somebody_is_there(
    monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=allowed))
    monkeypatch.setattr(module, "current_shell", lambda: shell)
    monkeypatch.setattr(sys, "stdin", Tty() if not allowed else io.StringIO())
    assert Keyboard().there is allowed


@pytest.mark.parametrize("shell", [None, SimpleNamespace()])
def test_without_a_kernel_a_person_is_at_the_terminal(
    monkeypatch: pytest.MonkeyPatch, shell: object
) -> None:
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


def test_the_keyboard_asks_by_input(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_confirm_asks_for_yes_or_no_at_most_three_times(
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


# ── the policy ─────────────────────────────────────────────────────────────────────────────────────


def pay(amount: int) -> str:
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
def test_runs_a_tool_that_wants_no_approval_under_every_policy(
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
    assert "denied in this run" in denied.refusal


def test_headless_refuses_at_once_and_says_how_to_allow_the_call() -> None:
    decision, person = decide("ask", "y", there=False)
    assert (decision.bound, person.prompts) == (None, [])
    assert "pay needs approval, and nobody can be asked here" in decision.refusal
    assert "--allow" in decision.refusal


def test_runs_a_tool_on_the_allow_list_headless_and_under_deny() -> None:
    for policy in ("ask", "deny"):
        decision, person = decide(policy, there=False, allow=["pay"])
        assert (decision.bound is not None, person.prompts) == (True, [])


def test_the_tools_own_check_gets_validated_arguments_and_may_say_why() -> None:
    seen = []

    def large(amount: int) -> str:
        seen.append(amount)
        return "more than 3" if amount > 3 else ""

    assert decide("ask", wants=large, amount=2)[1].prompts == []
    decision, person = decide("ask", "y", wants=large)
    assert decision.bound is not None
    assert "(more than 3)" in person.prompts[0]
    assert seen == [2, 5]


def test_a_tools_check_that_raises_means_asking_and_headless_a_refusal() -> None:
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


def test_a_callable_policy_decides_on_every_call_and_gives_the_reason() -> None:
    decision, _ = decide(lambda tool, call: f"{tool.name} of {call.input}", wants=False)
    assert decision.refusal == "pay of 5"
    assert decide(lambda tool, call: "")[0].bound is not None


@pytest.mark.parametrize("answer", [None, True, False, 3])
def test_a_callable_policy_that_returns_no_text_refuses(answer: Any) -> None:
    decision, _ = decide(lambda tool, call: answer)
    assert repr(answer) in decision.refusal


def test_a_callable_policy_that_raises_refuses() -> None:
    def broken(tool: Tool, call: ToolCall) -> str:
        raise ValueError("out of order")

    assert "out of order" in decide(broken)[0].refusal


def test_the_end_of_input_is_a_refusal() -> None:
    assert "nobody answered" in decide("ask")[0].refusal


def test_rejects_an_unknown_policy_and_a_single_name() -> None:
    with pytest.raises(ValueError, match="'maybe'; expected 'ask', 'auto', 'deny'"):
        Approver("maybe", (), Scripted())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"\['pay'\]"):
        Approver(None, "pay", Scripted())
