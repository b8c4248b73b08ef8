"""A call runs only where the policy, its tool or the person allows it; what is shown is what runs."""

from __future__ import annotations

import enum
import io
import json
import sys
import time
import unicodedata
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.kernel import person as module
from archytas_nb.kernel.approval import CHOICES, bounded_repr, prompt_of, read_answer
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.person import Keyboard, confirm
from archytas_nb.loop.decision import Decision
from archytas_nb.loop.events import ApprovalForm, CallOutcome, Delta, Edit, FormArgument, ToolCall
from archytas_nb.run import notifier
from archytas_nb.tools.tool import Tool
from archytas_nb.words import escape
from tests.scripted import Scripted

# ── who is asked ───────────────────────────────────────────────────────────────────────────────────


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_whether_a_person_is_there_depends_on_the_front_end_or_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = io.StringIO()
    closed.close()
    for shell, stdin, there in (
        (SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=True)), io.StringIO(), True),
        (SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=False)), Tty(), False),
        (SimpleNamespace(), Tty(), True),
        (None, Tty(), True),
        (None, io.StringIO("y\n"), False),
        (None, None, False),
        (None, closed, False),
    ):
        monkeypatch.setattr(module, "current_shell", lambda shell=shell: shell)
        monkeypatch.setattr(sys, "stdin", stdin)
        assert Keyboard().there is there


def test_a_terminal_prints_a_form_once_above_the_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("archytas_nb.kernel.person._input", lambda prompt: f"answer to {prompt}")
    for _ in range(2):
        assert Keyboard().ask("run?", ApprovalForm("f", (), text="THE FORM")) == "answer to run?"
    assert capsys.readouterr().out == "THE FORM\n"
    Keyboard.close("f(): approved")
    assert capsys.readouterr().out == ""


def test_a_form_that_the_trace_shows_is_not_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("archytas_nb.kernel.person._input", lambda prompt: "y")
    assert Keyboard().ask("run?", ApprovalForm("f", (), text="THE FORM", is_shown=True)) == "y"
    assert capsys.readouterr().out == ""


def test_confirm_asks_for_yes_or_no_at_most_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_keyboard: object, _prompt: str, _form: object) -> str:
        line = typed.pop(0)
        if line == "end":
            raise EOFError
        return line

    monkeypatch.setattr(Keyboard, "ask", ask)
    for there, typed, answer in (
        (True, [" YES "], True),
        (True, ["", "perhaps", "no"], False),
        (True, ["", "yeah", "nope"], None),
        (True, ["end"], None),
        (False, [], None),
    ):
        monkeypatch.setattr(Keyboard, "there", there)
        assert confirm("Use it?") is answer
        assert not typed


# ── the policy ─────────────────────────────────────────────────────────────────────────────────────


def pay(amount: int) -> str:
    return f"paid {amount}"


def ask(
    function: Any, given: Any, *answers: Any, person: Any = None, wants: Any = True,
    approve: Any = None, allow: Any = (), there: bool = True, **names: Any,
) -> tuple[CallOutcome, Scripted]:  # fmt: skip
    person = person or Scripted(*answers, there=there)
    box = nb.Toolbox()
    box.add(function, approve=wants)
    executor = KernelExecutor(box, names, approve, person, allow=allow)
    [outcome] = executor.run([ToolCall("c", function.__name__, given)])
    return outcome, person


def test_a_tool_without_approval_runs_under_every_policy() -> None:
    for policy in (None, "ask", "auto", "deny"):
        for wants in (None, False, lambda amount: amount > 100):
            outcome, person = ask(pay, 5, wants=wants, approve=policy)
            assert (outcome.status, person.prompts) == ("done", [])


def test_ask_asks_auto_runs_deny_refuses_and_allowed_tools_run() -> None:
    assert ask(pay, 5, "y", approve="ask")[0].status == "done"
    assert ask(pay, 5, "n")[0].status == "refused"
    unasked, _ = ask(pay, 5, approve="auto")
    assert (unasked.status, unasked.allowed) == ("done", "approve is 'auto'")
    denied, person = ask(pay, 5, approve="deny")
    assert (denied.status, person.prompts) == ("refused", [])
    assert "denied in this run" in denied.text
    headless, person = ask(pay, 5, there=False)
    assert (headless.status, person.prompts) == ("refused", [])
    assert "pay needs approval, and nobody can be asked here" in headless.text
    assert "--allow" in headless.text
    for policy in ("ask", "deny"):
        allowed, _ = ask(pay, 5, approve=policy, there=False, allow=["pay"])
        assert (allowed.status, allowed.allowed) == ("done", "allow names it")


def test_the_tools_own_check_gets_validated_arguments_and_may_say_why() -> None:
    def large(amount: int) -> str | bool:
        return "more than 3" if amount > 3 else False

    assert ask(pay, "2", wants=large)[1].prompts == []
    assert "(more than 3)" in ask(pay, "5", "y", wants=large)[1].prompts[0]

    def broken(amount: int) -> bool:
        raise RuntimeError("no idea")

    assert "RuntimeError('no idea')" in ask(pay, 5, "y", wants=broken)[1].prompts[0]
    assert ask(pay, 5, wants=broken, there=False)[0].status == "refused"
    assert ask(pay, 5, wants=broken, approve="deny")[0].status == "refused"

    def empty(amount: int) -> str:
        return ""

    assert len(ask(pay, 5, "y", wants=empty)[1].prompts) == 1
    assert ask(pay, 5, wants=empty, there=False)[0].status == "refused"
    assert ask(pay, 5, wants=empty, approve="deny")[0].status == "refused"


def test_a_callable_policy_decides_on_every_call_and_refuses_where_it_fails() -> None:
    def broken(tool: Tool, call: ToolCall) -> str:
        raise ValueError("out of order")

    refused, _ = ask(pay, 5, wants=False, approve=lambda tool, call: f"{tool.name} of {call.input}")
    assert (refused.status, refused.text) == ("refused", "pay of 5")
    assert ask(pay, 5, approve=lambda tool, call: "")[0].status == "done"
    assert "out of order" in ask(pay, 5, approve=broken)[0].text
    for answer in (None, True, False, 3):
        outcome, _ = ask(pay, 5, approve=lambda tool, call, answer=answer: answer)
        assert outcome.status == "refused"
        assert repr(answer) in outcome.text


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, type("Panic", (BaseException,), {})])
def test_whatever_a_policy_or_a_check_raises_the_run_goes_on_without_the_call(kind: type) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise kind("out of order")

    refused, _ = ask(pay, 5, approve=broken)
    assert (refused.status, "out of order" in refused.text) == ("refused", True)
    outcome, person = ask(pay, 5, "n", wants=broken)
    assert (outcome.status, "out of order" in person.prompts[0]) == ("refused", True)
    assert ask(pay, 5, wants=broken, there=False)[0].status == "refused"


def test_a_text_that_says_that_it_is_false_or_none_is_a_reason_all_the_same() -> None:
    class Reason(str):
        __slots__ = ()

        def __bool__(self) -> bool:
            return False

    class Liar:
        @property
        def __class__(self) -> Any:
            return str

        def __repr__(self) -> str:
            raise RuntimeError

    refused, _ = ask(pay, 5, approve=lambda tool, call: Reason("Too much."))
    assert (refused.status, refused.text) == ("refused", "Too much.")
    refused, _ = ask(pay, 5, approve=lambda tool, call: Liar())
    assert (refused.status, "Liar" in refused.text) == ("refused", True)


def test_always_applies_to_later_runs_until_the_tool_is_redefined() -> None:
    box = nb.Toolbox()
    box.add(pay, approve=True)
    box.add(pay, name="other", approve=True)

    def run(name: str, *answers: str, **options: Any) -> tuple[str, int]:
        person = Scripted(*answers, there=bool(answers))
        [outcome] = KernelExecutor(box, {}, person=person, **options).run([ToolCall("c", name, 1)])
        return outcome.status, len(person.prompts)

    assert run("pay", "a") == ("done", 1)
    assert run("pay") == ("done", 0)
    assert run("pay", approve="deny") == ("refused", 0)
    assert run("pay", approve=lambda tool, call: "not now") == ("refused", 0)
    assert run("other", "n") == ("refused", 1)
    box.add(pay, approve=True)
    assert run("pay", "n") == ("refused", 1)


# ── the dialogue ───────────────────────────────────────────────────────────────────────────────────


def transfer(to: str, amount: int = 1, note: str = "") -> str:
    return f"{to} got {amount}{note}"


GIVEN = {"to": "Ann", "amount": 5}
REFUSED = "The user refused this call{}. Do not send the same call again."


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (["y"], "Ann got 5"), ([" Y "], "Ann got 5"), (["YES"], "Ann got 5"), (["always"], "Ann got 5"),
        (["n"], REFUSED.format("")), (["No"], REFUSED.format("")),
        (["n, too much."], REFUSED.format(": too much")),
        (["limit it to 3 rows"], REFUSED.format(": limit it to 3 rows")),
        (["not that table"], REFUSED.format(": not that table")),
        (["", "", "", "y"], "Ann got 5"), (["yep", "ok", "y"], "Ann got 5"),
        (["yes please", "n"], REFUSED.format("")), (["u", "n"], REFUSED.format("")),
        (["", "", "", ""], "Refused: transfer needs approval, and the reply was not a yes."),
        (["y!"] * 4, "Refused: transfer needs approval, and the reply was not a yes."),
        (["stop"], "Not run: the user stopped the run here."),
        ([KeyboardInterrupt], "Not run: the user interrupted here."),
    ],
)  # fmt: skip
def test_each_answer_leads_to_its_decision(typed: list[Any], text: str) -> None:
    outcome, _ = ask(transfer, GIVEN, *typed)
    assert outcome.text == text
    assert (outcome.status == "done") is text.startswith("Ann")


def test_the_end_of_the_input_refuses() -> None:
    for before in ([], [""], ["amount = 3"], ["?"]):
        assert "nobody answered" in ask(transfer, GIVEN, *before)[0].text


@given(st.text() | st.from_regex(r"\A\s*[yYaA]\w{0,6}[ .!?=,]?\w*"))
def test_no_other_line_is_read_as_an_approval(line: str) -> None:
    answer, _ = read_answer(line)
    is_clear = line.strip().lower() in ("y", "yes", "run", "this run", "a", "always")
    assert (answer in ("yes", "this run", "always")) == is_clear


@given(st.sampled_from("rRtTsSdDkKcCiIxX"), st.sampled_from(["", " ", ".", "!", "?", ","]))
def test_a_letter_that_is_not_offered_is_no_answer(letter: str, end: str) -> None:
    outcome, _ = ask(transfer, GIVEN, letter + end, "n")
    assert outcome.text == REFUSED.format("")


def test_each_choice_is_offered_in_the_prompt_and_read_as_it_is_typed() -> None:
    _, person = ask(transfer, GIVEN, "n")
    for each in CHOICES:
        assert f"[{each.line}] {each.label}" in person.prompts[0]
        assert read_answer(each.line)[0] == each.answer


def test_an_edited_argument_is_shown_with_both_values() -> None:
    outcome, person = ask(transfer, GIVEN, "amount = 3", "note='!'", "y")
    edited = "The user changed the input before the call was run. It was run with: "
    assert outcome.text == f'{edited}{{"to": "Ann", "amount": 3, "note": "!"}}\nAnn got 3!'
    assert person.prompts[1].splitlines()[1:4] == [
        "  to = 'Ann'",
        "  amount = 3  (edited, was 5)",
        "  note = ''  (default)",
    ]
    assert "  note = '!'  (edited, was '')" in person.prompts[2]
    back, _ = ask(transfer, GIVEN, "amount = 3", "amount = 5", "y")
    assert back.text == "Ann got 5"
    coded, person = ask(transfer, '{"to": "Ann", "amount": 5}', "amount = 3", "y")
    assert coded.value == "Ann got 3"
    assert ask(transfer, GIVEN, "amount = 3", "n")[0].status == "refused"
    lines = ask(transfer, {"to": "Ann\nB"}, "to = 'Zoe\\nC'", "n")[1].prompts[1].splitlines()
    assert lines[1:7] == [
        "  to:  (edited)", "    │ Zoe", "    │ C", "    before:", "    │ Ann", "    │ B",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("limit = null", None),
        ("limit = None", None),
        ("limit = true", True),
        ("limit = false", False),
        ("limit = True", True),
        ('limit = {"a": [null, true]}', {"a": [None, True]}),
        ("limit = {'a': [None, True]}", {"a": [None, True]}),
        (r'limit = "\u00e9"', "é"),
        ("limit = (1, 2)", [1, 2]),
        ("limit = 1e2", 100.0),
    ],
)
def test_an_argument_is_edited_with_a_python_or_a_json_literal(typed: str, value: Any) -> None:
    def search(limit: Any = 10) -> str:
        """Search.

        Args:
            limit: Any value.
        """
        return json.dumps(limit)

    assert ask(search, {"limit": 5}, typed, "y")[0].value == json.dumps(value)


@pytest.mark.parametrize(
    ("typed", "note"),
    [
        ("amount = NaN", "NaN is neither a Python literal nor JSON"),
        ("amount = 1e999", "1e999 is neither a Python literal nor JSON"),
        ("amount = [1, null, None]", "is neither a Python literal nor JSON"),
        ("amount = many", "many is neither a Python literal nor JSON"),
        ("amount =", "is neither a Python literal nor JSON"),
        ("amount = {1, 2}", "is neither a Python literal nor JSON"),
        ("amount = f(3)", "is neither a Python literal nor JSON"),
        ("amount = 'many'", "transfer does not accept this"),
        ("amout = 3", "transfer has no argument 'amout'; it has to, amount, note."),
    ],
)
def test_a_wrong_edit_changes_nothing_and_says_why(typed: str, note: str) -> None:
    outcome, person = ask(transfer, GIVEN, typed, "y")
    assert note in person.prompts[1]
    assert outcome.text == "Ann got 5"


def test_one_line_remains_of_the_dialogue(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(Keyboard, "close", lambda line: lines.append(line))
    for typed in (["y"], ["amount = 10", "a"], ["wrong\u202e\nperson"], ["stop"], [""] * 4, []):
        ask(transfer, GIVEN, *typed)
    ask(transfer, {"to": "x" * 500}, KeyboardInterrupt)
    call = "transfer(to='Ann', amount=5)"
    assert lines[:-1] == [
        f"{call}: approved by you",
        "transfer(to='Ann', amount=10): approved by you, always, edited amount 5 → 10",
        f"{call}: refused by you: wrong\\u202e\\nperson",
        f"{call}: the run was stopped",
        f"{call}: not run: there was no yes",
        f"{call}: not run: there was no yes",
    ]
    assert lines[-1].endswith("not run")
    assert all("\n" not in line and len(line) < 300 for line in lines)


# ── what is shown ──────────────────────────────────────────────────────────────────────────────────


class Level(enum.Enum):
    LOW = "keep it"
    HIGH = "delete it"


def run_sql(
    sql: Annotated[str, nb.ByName], level: Level = Level.LOW, dry: bool = True, limit: int = 10
) -> str:
    return f"ran {sql}, {level}, {dry}, {limit}"


def count(df: pd.DataFrame) -> int:
    return len(df)


def write(text: str) -> str:
    return text


def use(thing: Annotated[Any, nb.ByName]) -> str:
    return "used"


def test_shows_defaults_converted_values_references_and_enum_members() -> None:
    _, person = ask(
        run_sql, {"sql": "sneaky", "level": "HIGH", "limit": "7"}, "n", sneaky="DROP TABLE users"
    )
    assert person.prompts[0].splitlines() == [
        "The agent wants to run run_sql:",
        "  sql = 'DROP TABLE users'  (sent as 'sneaky')",
        "  level = <Level.HIGH: 'delete it'>  (sent as 'HIGH')",
        "  dry = True  (default)",
        "  limit = 7  (sent as '7')",
        prompt_of(ApprovalForm("run_sql", (), choices=CHOICES)),
    ]
    assert "limit = 5  (sent as '5')" in ask(pay, "5", "n")[1].prompts[0].replace("amount", "limit")
    frame = pd.DataFrame({"a": [123, 456]})
    _, person = ask(count, {"df": {"$var": "frame"}}, "n", frame=frame)
    assert "  df:  (sent as {'$var': 'frame'})\n    │ DataFrame of shape 2 × 1" in person.prompts[0]
    assert "    │ 123" in person.prompts[0]


def test_text_of_several_lines_is_a_marked_block() -> None:
    _, person = ask(write, "SELECT *\nFROM orders", "n")
    assert person.prompts[0].splitlines()[1:4] == ["  text:", "    │ SELECT *", "    │ FROM orders"]


@pytest.mark.parametrize(
    "text",
    [
        f"{'x' * 5000}; rm -rf /",
        "\n".join([*["print(1)"] * 500, "rm -rf /"]),
        f"first\n{'x' * 5000}; rm -rf /",
    ],
)
def test_the_end_of_a_long_argument_is_shown_and_a_question_mark_shows_all(text: str) -> None:
    _, person = ask(write, text, "?", "n")
    short, whole = person.prompts
    assert "rm -rf /" in short
    assert "left out" in short
    assert "(shortened; ? shows all)" in short
    assert len(short) < 3000
    assert "left out" not in whole
    assert all(line in whole for line in text.split("\n"))


def test_a_question_mark_shows_the_middle_of_arrays_and_frames() -> None:
    frame = pd.DataFrame({"n": range(300), "text": "x" * 80})
    whole = ask(use, "it", "?", "n", it=frame)[1].prompts[1]
    assert "│ 150," + "x" * 80 in whole
    assert ", 1234, " in ask(use, "it", "?", "n", it=np.arange(3000))[1].prompts[1]


def test_a_value_of_100_mb_is_shown_at_once_with_both_ends() -> None:
    laughs: list[Any] = [0]
    for _ in range(60):
        laughs = [laughs] * 10
    endless: list[Any] = []
    endless += [endless, endless]
    started = time.process_time()  # on a busy machine too
    for value, ends in (
        ("é" * 100_000_000 + "!", ("'éé", "éé!'")),
        (b"x" * 100_000_000, ("b'xx", "xx'")),
        (["x" * 1000] * 100_000 + [1], ("['xx", ", 1]")),
        ({str(n): n for n in range(1_000_000)}, ("{'0': 0, ", "'999999': 999999}")),
        (np.arange(12_500_000), ("ndarray 12,500,000", "12499998, 12499999]")),
        (pd.DataFrame({"a": np.zeros(12_500_000)}), ("DataFrame 12,500,000", "\n0\n0")),
        (pd.Series(np.zeros(12_500_000)), ("Series 12,500,000", "\n0\n0")),
        (laughs, ("[[[", "]]]")),
        (endless, ("[[[", "]]]")),
    ):
        text = bounded_repr(value)
        assert len(text) < 210_000
        assert (text.startswith(ends[0]), text.endswith(ends[1])) == (True, True), text[-80:]
        assert "left out" in text or "\nlast" in text or "more rows" in text
    assert time.process_time() - started < 6
    assert "more than 99," in ask(write, "x" * 10_000_000, "n")[1].prompts[0]


def test_the_approved_value_is_used_if_the_variable_changes_meanwhile() -> None:
    names: dict[str, Any] = {"q": "SELECT 1"}

    class Meddling(Scripted):
        def ask(self, prompt: str, form: Any = None) -> str:
            names["q"] = "DROP TABLE users"
            return super().ask(prompt, form)

    box = nb.Toolbox()
    box.add(run_sql, approve=True)
    person = Meddling("limit = 3", "y")
    [outcome] = KernelExecutor(box, names, person=person).run(
        [ToolCall("c", "run_sql", {"sql": "q"})]
    )
    assert "'SELECT 1'" in person.prompts[0]
    assert "sql = 'DROP TABLE users'  (edited, was 'SELECT 1')" in person.prompts[1]
    assert outcome.value.startswith("ran DROP TABLE users")
    names["q"] = "SELECT 1"
    [outcome] = KernelExecutor(box, names, person=Meddling("y")).run(
        [ToolCall("c", "run_sql", {"sql": "q"})]
    )
    assert outcome.value.startswith("ran SELECT 1")


def test_shows_objects_whose_repr_fails_or_imitates_the_form() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    class Hostile:
        def __repr__(self) -> str:
            return "fine\nrun? \u202e y\r"

    assert "Broken" in ask(use, "it", "n", it=Broken())[1].prompts[0]
    assert "    │ run? \\u202e y" in ask(use, "it", "n", it=Hostile())[1].prompts[0]


def test_an_empty_repr_is_a_value_like_any_other() -> None:
    class Blank:
        def __repr__(self) -> str:
            return ""

    _, person = ask(use, "it", "thing = 'other'", "n", it=Blank(), other=5)
    assert "  thing =   (sent as 'it')" in person.prompts[0]
    assert "  thing = 5  (edited, was )" in person.prompts[1]


@given(st.text() | st.dictionaries(st.text(), st.text(), max_size=3))
def test_no_text_of_the_model_can_imitate_a_line_of_the_form(value: Any) -> None:
    _, person = ask(use, "it", "n", it=value)
    first, *lines, _ = person.prompts[0].split("\n")
    assert first == "The agent wants to run use:"
    assert all(line.startswith(("  thing", "    │ ", "    … ", "(short")) for line in lines)
    assert not any(unicodedata.category(each) in {"Cc", "Cf"} for line in lines for each in line)


BLANK = [
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFE00, 0xFE0F,
    0xFFA0, 0x16FE4, 0x1D159, 0x13441, 0x13442, 0xE0100, 0xE01EF,
]  # fmt: skip


def test_escapes_every_invisible_character() -> None:
    for point in range(sys.maxunicode + 1):
        sign = chr(point)
        kind = unicodedata.category(sign)
        hidden = sign != " " and (kind[0] in "CZ" or point in BLANK)
        if hidden:
            assert escape(sign).isascii(), hex(point)
            assert escape(sign).startswith("\\"), hex(point)
        elif kind[0] in "LNPS" and point != 0x2800:
            assert escape(sign) == sign, hex(point)
    for sign in ("\u3164", "\xa0", "\u202e", "\U000e0041"):
        spelled = sign.encode("unicode_escape").decode()
        for text in (f"rm{sign}x", f"first\nrm{sign}x"):
            assert f"rm{spelled}x" in ask(write, text, "n")[1].prompts[0]


# ── what the trace is told ─────────────────────────────────────────────────────────────────────────


class Watcher(Scripted):
    """A person, and what an observer and they themselves were shown."""

    def __init__(self, *answers: Any, draws: Any = True) -> None:
        super().__init__(*answers)
        self.draws, self.seen, self.shown = draws, [], []  # type: ignore[var-annotated]

    def observe(self, text: str, form: Any = None) -> Any:
        self.seen.append((bool(text), form and form.decision))
        return self.draws

    def ask(self, prompt: str, form: Any = None) -> str:
        self.shown.append(form.is_shown)
        return super().ask(prompt, form)


def test_the_decision_is_sent_to_observers_and_stored_in_the_outcome() -> None:
    for lines, status, decision, is_edited in (
        (["y"], "done", Decision("approved"), False),
        (["a"], "done", Decision("approved", "notebook"), False),
        (["amount = 10", "y"], "done", Decision("approved"), True),
        (["n"], "refused", Decision("refused"), False),
        (["at most 3, please"], "refused", Decision("refused", reason="at most 3, please"), False),
        (
            ["amount = 10", "n, too \u202e much"],
            "refused",
            Decision("refused", reason="too \\u202e much"),
            True,
        ),
        (["amount = 10", "amount = 5", "y"], "done", Decision("approved"), False),
        (["", "", "", ""], "refused", Decision("unanswered"), False),
        (["stop"], "interrupted", Decision("stopped"), False),
        ([], "refused", Decision("unanswered"), False),
    ):
        person = Watcher(*lines)
        box = nb.Toolbox()
        box.add(pay, approve=True)
        executor = KernelExecutor(box, {}, person=person, on_question=person.observe)
        [outcome] = executor.run([ToolCall("c", "pay", {"amount": 5})])
        assert (outcome.status, outcome.decision) == (status, decision)
        edit = Edit({"amount": 10}, (FormArgument("amount", "10", before="5"),))
        assert outcome.edit == (edit if is_edited else None)

        asked: list[Any] = [(True, None), (False, None)] * max(len(lines), 1)
        assert person.seen == asked + [(False, decision)] * bool(decision)


def test_only_an_observer_that_draws_the_form_keeps_it_from_being_printed() -> None:
    """A form that is shown nowhere would be a call that a person approves unseen."""

    def broken(*_: Any) -> Any:
        raise OSError

    for answers, shown in (
        ([lambda event: event.form], True),
        ([lambda event: None, lambda event: event.form, lambda event: None], True),
        ([lambda event: True], False),
        ([lambda event: event], False),
        ([broken], False),
        ([], False),
    ):
        person = Watcher("y")
        box = nb.Toolbox()
        box.add(pay, approve=True)
        show = notifier(answers)

        def asked(text: str, form: Any = None, show: Any = show) -> bool:
            return bool(show(Delta("person", text, form)))

        KernelExecutor(box, {}, person=person, on_question=asked).run(
            [ToolCall("c", "pay", {"amount": 5})]
        )
        assert person.shown == [shown]
