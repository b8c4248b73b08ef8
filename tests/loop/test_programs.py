"""Programs in the loop: their calls, their ends, and what the model is told."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.calls_made import CallsOfReplies
from archytas_nb.loop.conversation import compacted_view, messages_of
from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Ending,
    Failed,
    Interrupted,
    ModelReply,
    NoReply,
    Notice,
    ResumeProgram,
    RunCalls,
    RunProgram,
    Stopped,
    ToolCall,
    Verdict,
)
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.model import ModelFacts
from archytas_nb.loop.profile import LARGE
from archytas_nb.loop.record import AnswerForm, Compaction, Context, Exchange, LastError
from archytas_nb.small.checks import no_tool_hint
from archytas_nb.small.grammar import ProgramGrammar
from archytas_nb.small.lines import REMARK
from archytas_nb.small.profile import SMALL
from archytas_nb.small.protocol import SmallProgramProtocol
from tests.loop.cards import TOOLS
from tests.loop.sandbox import PythonSandbox

FUNCTIONS = {name: f"def {name}(a=None, b=None): ..." for name in TOOLS}


class Facts:
    """A model that continues replies."""

    continues_replies = True
    has_grammars = True


@dataclass
class Drive:
    """One question, driven by hand: replies by script, results by a function of the call."""

    replies: list[str | ModelReply | NoReply]
    result: Callable[[ToolCall], Any] = lambda call: 3
    small: bool = False
    fits: str = "yes"  # whether a tool fits
    knows: str = "no"  # whether the answer is known
    model: Any = None
    limits: Limits = field(default_factory=Limits)
    may_repeat: tuple[str, ...] = ()
    verdicts: list[str | Verdict] = field(default_factory=list)
    asked: list[AskModel] = field(default_factory=list)
    ran: list[ToolCall] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    exchange: Exchange = field(default_factory=lambda: Exchange("Well?"))
    past: tuple[Exchange, ...] = ()

    def run(self) -> Ending:
        profile = replace(SMALL if self.small else LARGE, facts=ModelFacts(self.model))
        guards = Guards(
            self.limits, lambda: 0.0, CallsOfReplies(self.may_repeat, profile.confirms_repeats)
        )
        self.wire = profile.programs(TOOLS, FUNCTIONS)
        sandbox = PythonSandbox(list(TOOLS))
        checks = bool(self.verdicts)
        flow = react_loop(
            self.wire, guards, self.past, self.exchange, checks=checks, profile=profile
        )
        replies: Iterator[str | ModelReply | NoReply] = iter(self.replies)
        verdicts = iter(self.verdicts)
        reply: Any = None
        while True:
            try:
                request = flow.send(reply)
            except StopIteration as ended:
                ending: Ending = ended.value
                return ending
            reply = None
            if isinstance(request, AskModel) and not request.step:
                is_about_tool = "Tool:" in request.messages[-1]["content"]
                reply = ModelReply(self.fits if is_about_tool else self.knows)
            elif isinstance(request, AskModel):
                self.asked.append(request)
                given = next(replies)
                reply = ModelReply(given) if isinstance(given, str) else given
            elif isinstance(request, RunProgram):
                reply = sandbox.run(request.text, is_part=request.is_part)
            elif isinstance(request, ResumeProgram):
                reply = sandbox.resume(request.outcomes)
            elif isinstance(request, RunCalls):
                self.ran += request.calls
                self.lines += request.lines
                reply = CallOutcomes(tuple(map(self.outcome, request.calls)))
            elif isinstance(request, CheckAnswer):
                verdict = next(verdicts)
                reply = Verdict(verdict) if isinstance(verdict, str) else verdict
            else:
                self.notices.append(request)

    def outcome(self, call: ToolCall) -> CallOutcome:
        value = self.result(call)
        if isinstance(value, CallOutcome):
            return CallOutcome(value.status, value.result, call_id=call.id)
        if isinstance(value, Exception):
            return CallOutcome("error", str(value), error=value, call_id=call.id)
        return CallOutcome("done", repr(value), value=value, call_id=call.id)

    @property
    def told(self) -> str:
        """The last message to the model."""
        return str(self.asked[-1].messages[-1]["content"])


def grammar_of(drive: Drive) -> ProgramGrammar:
    """The grammar of the programs of a small model."""
    assert isinstance(drive.wire, SmallProgramProtocol)
    return drive.wire.grammar


def block(program: str) -> str:
    return f"```python\n{program}\n```"


def test_a_program_makes_calls_and_answers_with_what_they_returned() -> None:
    drive = Drive(
        [block('x = look(a=1)\ny = look(a=2)\nanswer(f"{x + y} in all")')],
        result=lambda call: call.input["a"] * 10,
    )
    assert drive.run() == Answered("30 in all")
    assert [call.input for call in drive.ran] == [{"a": 1}, {"a": 2}]
    [step] = drive.exchange.steps
    assert step.program.startswith("x = look(a=1)")
    assert [outcome.value for outcome in step.outcomes] == [10, 20]
    assert len(drive.asked) == 1


def test_the_answer_is_the_value_that_is_checked() -> None:
    drive = Drive([block("answer([1, 2])"), block("answer([1])")], verdicts=["too many", ""])
    assert drive.run() == Answered("[1]")
    assert "too many" in drive.told


def test_a_program_with_a_fault_runs_nothing_and_the_model_reads_the_line() -> None:
    drive = Drive([block("look(a=1)\nx = = 2"), block('answer("ok")')])
    assert drive.run() == Answered("ok")
    assert drive.ran == []
    assert "Nothing was run." in drive.told
    assert "`x = = 2`" in drive.told


def test_a_faulty_program_that_is_written_twice_leaves_the_conversation() -> None:
    faulty = block("x = = 2")
    drive = Drive([faulty, faulty, block('answer("ok")')])
    assert drive.run() == Answered("ok")
    last = drive.asked[-1]
    assert [message["role"] for message in last.messages] == ["system", "user"]
    assert "x = = 2" in drive.told
    assert last.temperature is not None
    assert [step.is_left_out for step in drive.exchange.steps[:2]] == [True, True]


def test_after_an_error_the_model_reads_what_was_done_and_calls_are_not_made_twice() -> None:
    first = block("x = put(a=1)\ny = look(a=2)\nz = x / 0")
    again = block("x = put(a=1)\ny = look(a=2)\nanswer(x + y)")
    drive = Drive([first, again])
    assert drive.run() == Answered("6")
    assert len(drive.ran) == 2
    told = str(drive.asked[-1].messages[-1]["content"])
    assert "Line 3 `z = x / 0` raised ZeroDivisionError" in told
    assert "put(a=1) → 3" in told
    second = drive.exchange.steps[1]
    assert [outcome.repeats for outcome in second.outcomes] == [
        call.id for call in drive.exchange.steps[0].calls
    ]


def test_a_tool_that_may_repeat_a_call_is_called_again() -> None:
    first = block("x = look(a=1)\n1 / 0")
    drive = Drive([first, block("x = look(a=1)\nanswer(x)")], may_repeat=("look",))
    drive.run()
    assert len(drive.ran) == 2


def test_after_a_tool_that_may_repeat_the_other_calls_are_not_made_twice() -> None:
    program = "x = look(a=1)\ny = put(a=2)"
    drive = Drive(
        [block(f"{program}\n1 / 0"), block(f"{program}\nanswer(y)")], may_repeat=("look",)
    )
    assert drive.run() == Answered("3")
    assert [call.name for call in drive.ran] == ["look", "put", "look"]


@given(st.lists(st.sampled_from(["look(a=1)", "put(a=1)", "look(a=2)"]), max_size=8))
def test_a_program_that_is_written_again_gets_the_same_results(calls: list[str]) -> None:
    """The result of a call may depend on the calls before it, as of a counter."""
    count = iter(range(1000))
    values = f"values = [{', '.join(calls)}]"
    drive = Drive(
        [block(f"{values}\nshow(values)\n1 / 0"), block(f"{values}\nanswer(values)")],
        result=lambda call: next(count),
    )
    ending = drive.run()
    assert isinstance(ending, Answered)
    first, second = drive.exchange.steps
    assert [each.value for each in second.outcomes] == [each.value for each in first.outcomes]
    assert ending.text == str(list(range(len(calls))))


def counting(*programs: str, small: bool = False) -> Drive:
    """Programs over a store: `put` adds, `look` tells how much there is."""
    stock = [0]

    def result(call: ToolCall) -> int:
        if call.name == "put":
            stock[0] += call.input["a"]
        return stock[0]

    return Drive([block(each) for each in programs], result, small=small)


@pytest.mark.parametrize(
    ("programs", "answer"),
    [
        (("b = look()\nput(a=5)\nc = look()\n1 / 0", "c = look()\nanswer(c)"), "5"),
        (("x = look()\nshow(x)", "put(a=7)\nanswer(look())"), "7"),
        (("x = put(a=5)\nshow(x)", "x = put(a=5)\nshow(x)", "answer(look())"), "10"),
        (("for _ in range(3):\n    put(a=5)\nanswer(look())",), "15"),
        (("put(a=1)\n1 / 0", "put(a=1)\nput(a=1)\nanswer(look())"), "2"),
    ],
)
def test_a_call_that_is_meant_is_made(programs: tuple[str, ...], answer: str) -> None:
    assert counting(*programs).run() == Answered(answer)


def test_a_small_model_that_writes_all_again_repeats_no_call_after_a_fault_either() -> None:
    drive = counting(
        "stored = put(a=5)\n1 / 0", "x = = 2", "s = put(a=5)\nanswer(look())", small=True
    )
    assert drive.run() == Answered("5")


def test_a_call_after_another_one_is_made_again_in_the_same_program() -> None:
    count = iter(range(10))
    drive = Drive(
        [block("a = look(a=1)\nput(a=1)\nb = look(a=1)\nanswer(b - a)")],
        result=lambda call: next(count),
    )
    assert drive.run() == Answered("2")


def test_a_program_without_an_answer_is_told_what_it_showed() -> None:
    drive = Drive([block("x = look(a=1)\nshow(x, 5)"), block("answer(x)")])
    assert drive.run() == Answered("3")
    assert "shown: 5" in drive.told


def test_giving_up_is_the_model_s_failure() -> None:
    assert Drive([block('give_up("no tool does it")')]).run() == Failed("no tool does it")


def test_an_interrupted_call_ends_the_run_and_keeps_what_was_done() -> None:
    outcomes = iter([3, CallOutcome("interrupted", "stopped")])
    drive = Drive([block("look(a=1)\nput(a=1)\nanswer(1)")], result=lambda call: next(outcomes))
    assert drive.run() == Interrupted("a tool call")
    [step] = drive.exchange.steps
    assert [outcome.status for outcome in step.outcomes] == ["done", "interrupted"]
    # With the next question, the model reads what was done.
    assert "was not run" in step.report
    assert "look(a=1) → 3" in step.report
    assert "put" not in step.report


def test_the_ids_of_hundreds_of_calls_differ() -> None:
    drive = Drive([block("answer(sum(look(a=n) for n in range(900)))")])
    assert drive.run() == Answered("2700")
    assert len({call.id for call in drive.ran}) == 900


def test_the_report_about_hundreds_of_calls_is_short() -> None:
    drive = Drive([block("xs = [look(a=n) for n in range(900)]"), block("answer(len(xs))")])
    drive.run()
    assert len(drive.told) < 7000
    assert "more calls" in drive.told


def test_text_around_the_block_is_the_thought() -> None:
    drive = Drive([f"I look first.\n{block('answer(look(a=1))')}\nThat is all."])
    assert drive.run() == Answered("3", "I look first.")


def test_a_program_without_a_block_is_read() -> None:
    assert Drive(["answer(look(a=1))"]).run() == Answered("3")


def test_plain_text_is_the_answer_when_it_comes_twice() -> None:
    assert Drive(["It is 3.", "It is 3."]).run() == Answered("It is 3.")


def test_a_program_that_was_cut_off_is_not_run() -> None:
    cut = ModelReply("```python\nlook(a=1)\nanswer('It is", finish="length")
    drive = Drive([cut, block("answer(3)")])
    assert drive.run() == Answered("3")
    assert drive.ran == []
    assert "too long" in drive.told


def test_in_the_last_turn_an_answer_is_kept_and_no_call_is_made() -> None:
    drive = Drive(
        [block("x = look(a=1)\nshow(x)"), block("y = 2\nanswer(x + y)")], limits=Limits(max_steps=1)
    )
    assert drive.run() == Stopped("max_steps=1", "5")
    late = Drive([block("x = look(a=1)"), block("answer(put(a=2))")], limits=Limits(max_steps=1))
    assert isinstance(late.run(), Stopped)
    assert [call.name for call in late.ran] == ["look"]


def test_an_answer_that_repeats_the_example_is_refused() -> None:
    example = "The blue room is warmer, with 21 degrees. Its window stays closed."
    drive = Drive([block(f"answer({example!r})"), block('answer("3 orders")')])
    assert drive.run() == Answered("3 orders")
    assert [(each.kind, "repeats" in each.text) for each in drive.notices] == [("check", True)]
    about_rooms = Drive(
        [block(f"answer({example!r})")],
        exchange=Exchange("Which room is warmer in degrees? Open or closed window stays with it."),
    )
    assert about_rooms.run() == Answered(example)


def test_a_conversation_is_sent_again_as_the_model_wrote_it() -> None:
    first = Drive([block("x = look(a=1)"), block("answer(x)")])
    first.run()
    messages = messages_of(first.wire, [first.exchange])
    roles = [message["role"] for message in messages]
    assert roles == ["system", "user", "assistant", "user", "assistant"]


def test_the_report_of_an_old_program_is_shortened_with_its_calls() -> None:
    drive = Drive([block("show(look(a=1))"), block("show(look(a=2))"), block("answer(1)")])
    drive.result = lambda call: "x" * 5000
    drive.run()
    calls = [call.id for call in drive.exchange.steps[0].calls]
    compaction = Compaction(truncated=dict.fromkeys(calls, 200))
    [shown] = compacted_view([drive.exchange], compaction)
    assert len(shown.steps[0].report) < 400
    assert shown.steps[1].report == drive.exchange.steps[1].report


# ── line by line ──────────────────────────────────────────────────────────────────────────────────


def by_lines(*lines: str, **options: Any) -> Drive:
    return Drive(list(lines), small=True, model=Facts(), **options)


def test_each_line_runs_before_the_next_one_is_written() -> None:
    drive = by_lines("x = look(a=1)", "put(a=x)", 'answer(f"{x}")')
    assert drive.run() == Answered("3")
    assert drive.asked[1].messages[-1] == {
        "role": "assistant",
        "content": "```python\nx = look(a=1)  # 3\n",
    }
    assert drive.told == "```python\nx = look(a=1)  # 3\nput_value = put(a=x)  # 3\n"
    assert all(ask.is_continued and ask.stop and ask.grammar for ask in drive.asked)
    [step] = drive.exchange.steps
    assert step.program == 'x = look(a=1)\nput_value = put(a=x)\nanswer(f"{x}")'
    assert drive.lines == [1, 2]


def test_a_block_runs_when_it_ends() -> None:
    drive = by_lines("x = look(a=1)", "if x > 2:", "    y = put(a=x)", "answer(y)", "answer(y + 1)")
    assert drive.run() == Answered("4")
    assert "if x > 2:\n    y = put(a=x)\n# 3\n" in drive.told


def test_after_a_fault_the_model_writes_whole_programs() -> None:
    drive = by_lines("x = put(a=1)", "x = = 2", block("x = put(a=1)\nanswer(x)"))
    assert drive.run() == Answered("3")
    assert len(drive.ran) == 1, "the equal call is not made twice"
    assert "put(a=1) → 3" in drive.told
    assert [message["role"] for message in drive.asked[-1].messages] == ["system", "user"]
    assert not drive.asked[-1].is_continued
    first, second = drive.exchange.steps
    assert first.is_left_out
    assert not second.is_left_out


def test_an_end_without_an_answer_asks_for_one() -> None:
    drive = by_lines("x = look(a=1)", "```", "answer(x)")
    assert drive.run() == Answered("3")
    assert drive.asked[-1].grammar == grammar_of(drive).answer(["x"], ["x"])


def test_an_answer_names_a_result_if_there_is_one() -> None:
    drive = by_lines("a = 1", "x = look(a=a)", "y = x + a", "put(a=y)", "answer(y)", knows="yes")
    assert drive.run() == Answered("4")
    before, _, *after = (ask.grammar for ask in drive.asked)
    assert "told ::=" not in before
    assert [re.findall("result ::= (.*)", each) for each in after] == [
        ['"x"'], ['"x" | "y"'], ['"x" | "y"'],
    ]  # fmt: skip


def test_a_call_that_returns_nothing_is_no_result() -> None:
    drive = by_lines("x = look(a=1)", 'answer("done")', result=lambda _: None)
    assert drive.run() == Answered("done")
    assert "told ::=" not in drive.asked[-1].grammar


def test_after_a_failure_the_program_begins_with_what_is_changed() -> None:
    drive = by_lines("look()", "x = = 2", block("x = put(a=1)"), block("answer(x)"))
    assert drive.run() == Answered("3")
    _, _, second, third = (ask.grammar for ask in drive.asked)
    assert second == grammar_of(drive).program(is_corrected=True)
    assert third == grammar_of(drive).program()


def test_an_error_is_read_behind_its_line_and_the_call_is_made_again() -> None:
    results = iter([CallOutcome("error", "no such day"), CallOutcome("error", "no hour"), 4])
    drive = by_lines(
        "look(a=1)", "the day", "look(a=2)", "the hour", "x = look(a=3)", "answer(x)",
        result=lambda _: next(results),
    )  # fmt: skip
    assert drive.run() == Answered("4")
    _, remark, again, _, _, last = drive.asked
    assert remark.messages[-1]["content"].endswith(f"# ValueError: no such day\n{REMARK}")
    assert remark.grammar == grammar_of(drive).remark()
    assert again.messages[-1]["content"].endswith(f"{REMARK}the day\n")
    assert again.grammar == grammar_of(drive).retry("look_value = look(a=1)", [])
    assert last.messages[-1]["content"].endswith("x = look(a=3)  # 4\n")


def test_the_third_error_ends_the_writing_by_lines() -> None:
    error = CallOutcome("error", "ValueError: no")
    drive = by_lines(
        "look(a=1)", "x", "look(a=2)", "x", "look(a=1)", block('give_up("no")'),
        block('give_up("no")'), result=lambda _: error,
    )  # fmt: skip
    assert drive.run() == Failed("no")
    assert len(drive.ran) == 3
    assert not drive.asked[-1].is_continued


def test_a_program_begins_with_a_call_while_none_was_successful() -> None:
    error = CallOutcome("error", "ValueError: no")
    drive = by_lines(
        "look(a=1)", "x", "look(a=2)", "x", "look(a=3)", block('give_up("no")'),
        block('give_up("no")'), result=lambda _: error,
    )  # fmt: skip
    drive.run()
    program = grammar_of(drive).program(is_corrected=True, calls_first=True)
    assert drive.asked[5].grammar == program


def test_a_small_model_is_warmer_after_an_error_that_it_knows() -> None:
    error = CallOutcome("error", "ValueError: no")
    drive = by_lines(
        "look(a=1)", "x", "look(a=1)", "x", "look(a=1)", block("x = look(a=1)\nanswer(x)"),
        block("answer(5)"), block("answer(5)"), result=lambda _: error,
    )  # fmt: skip
    assert drive.run() == Answered("5")
    program, after, _ = drive.asked[5:]
    assert program.temperature is None
    assert after.temperature == 0.8
    assert [message["role"] for message in after.messages] == ["system", "user"]


def test_a_call_with_a_fault_is_written_again() -> None:
    drive = by_lines("x = look(a=1, a=2)", "one", "x = look(a=1)", "answer(x)")
    assert drive.run() == Answered("3")
    assert drive.asked[2].grammar == grammar_of(drive).retry("x = look(a=1, a=2)", [])
    assert len(drive.ran) == 1


def test_the_smallest_value_is_shown_with_the_call_that_it_is_from() -> None:
    drive = by_lines(
        "x = look(a=1)", "y = look(a=2)", "least = min(x, y)", "answer(least)",
        result=lambda call: call.input["a"] * 10,
    )  # fmt: skip
    assert drive.run() == Answered("10")
    assert drive.told.endswith("least = min(x, y)  # 10: x = look(a=1)\n")


def test_a_tool_that_fits_is_called_before_there_is_an_answer() -> None:
    drive = by_lines("answer(7)", "x = look(a=1)", "answer(x)")
    assert drive.run() == Answered("3")
    first, second, last = (ask.grammar for ask in drive.asked)
    assert first == grammar_of(drive).first_call([], may_answer=True, may_assign=True)
    assert second == grammar_of(drive).first_call([], may_answer=False)
    assert last == grammar_of(drive).line(["x"], ["x"])
    assert "7" not in drive.told


def test_an_answer_that_the_model_knows_needs_no_call() -> None:
    drive = by_lines('answer("merci")', knows="yes")
    assert drive.run() == Answered("merci")
    assert not drive.ran


@pytest.mark.parametrize(("knows", "made"), [("yes", 0), ("no", 1)])
def test_a_value_that_is_written_before_a_call_counts_if_the_model_knows_the_answer(
    knows: str, made: int
) -> None:
    lines = ["total = 4 + 8", "answer(total)"]
    if made:
        lines[1:] = ["total = look(a=1)", "answer(total)"]
    drive = by_lines(*lines, knows=knows, result=lambda _: 12, exchange=Exchange("4 and 8?"))
    assert drive.run() == Answered("12")
    assert len(drive.ran) == made
    assert len(drive.exchange.steps[0].program.splitlines()) == 2


def test_a_value_with_a_number_that_nothing_told_is_not_taken() -> None:
    drive = by_lines("rain = 10.5", "rain = look(a=1)", "answer(rain)", knows="yes")
    assert drive.run() == Answered("3")
    assert "10.5" not in drive.told
    grammar = grammar_of(drive).first_call([], may_answer=True)
    assert drive.asked[1].grammar == grammar


def test_a_small_model_that_answers_from_memory_after_a_failed_call_is_asked_again() -> None:
    drive = by_lines(
        "look(a=1)", "x", "look(a=1)", "x", "look(a=1)", block("answer(7)"), block("answer(7)"),
        result=lambda _: CallOutcome("error", "ValueError: no"),
    )  # fmt: skip
    assert drive.run() == Answered("7")
    assert "Your last call failed" in drive.told
    assert [each.kind for each in drive.notices].count("check") == 1


def test_a_number_in_the_text_of_an_answer_that_nothing_told_is_asked_about() -> None:
    drive = by_lines("x = look(a=1)", 'answer(f"{x} of 4711")', block('answer(f"{x}")'))
    assert drive.run() == Answered("3")
    assert "4711" in drive.told


def test_the_calls_of_a_rejected_answer_are_not_made_again() -> None:
    program = block("answer(put(a=5))")
    drive = Drive([program, program, program], verdicts=["no number", "no number", ""])
    assert drive.run() == Answered("3")
    assert len(drive.ran) == 1


WRONG_TYPE = Verdict("expected an integer", wrong_type=True)


def typed(*lines: str, **options: Any) -> Drive:
    form = AnswerForm("an integer", {"type": "integer"}, {})
    return by_lines(*lines, exchange=Exchange("Well?", form=form), **options)


def test_after_an_answer_of_a_wrong_type_only_its_value_can_be_written() -> None:
    drive = typed(
        "x = look(a=1)", "answer(x)", block("answer(43)"), verdicts=[WRONG_TYPE, ""],
        result=lambda _: "There are 43 pears.",
    )  # fmt: skip
    assert drive.run() == Answered("43")
    grammar = grammar_of(drive).answering({"type": "integer"})
    assert drive.asked[-1].grammar == grammar.answer_with_literal()
    assert "There are 43 pears." in drive.told
    assert "expected an integer" in drive.told
    assert len(drive.ran) == 1


def test_a_value_that_is_refused_as_well_lets_the_model_write_programs_again() -> None:
    drive = typed(
        "x = look(a=1)", "answer(x)", block("answer(0)"), block("y = look(a=2)\nanswer(y)"),
        verdicts=[WRONG_TYPE, WRONG_TYPE, ""],
    )  # fmt: skip
    assert drive.run() == Answered("3")
    grammar = grammar_of(drive).answering({"type": "integer"})
    assert drive.asked[-2].grammar == grammar.answer_with_literal()
    assert drive.asked[-1].grammar == grammar.program(is_corrected=True)


def test_where_a_tool_fits_a_program_may_still_name_variables_but_not_read_them_by_tools() -> None:
    drive = Drive([block("answer(look(a=1))")], small=True)
    drive.exchange.context = Context(
        "birds: list", ("birds",), tools=("other",), preferred_tools=("look",)
    )
    assert drive.run() == Answered("3")
    system, question = (str(each["content"]) for each in drive.asked[0].messages)
    assert "birds: list" in question
    assert "def other(" not in system
    assert "def look(" in system


def test_a_literal_is_asked_for_once_whatever_the_program_does_then() -> None:
    drive = typed(
        "x = look(a=1)", "answer(x)", block("y = 1 / 0"), block("answer(x)"),
        verdicts=[WRONG_TYPE, ""],
    )  # fmt: skip
    assert drive.run() == Answered("3")
    grammar = grammar_of(drive).answering({"type": "integer"})
    assert drive.asked[-2].grammar == grammar.answer_with_literal()
    assert drive.asked[-1].grammar == grammar.program(is_corrected=True)


@pytest.mark.parametrize(
    ("verdict", "hides"), [(Verdict("it is too small"), False), (WRONG_TYPE, True)]
)
def test_an_answer_that_lacks_more_than_its_type_is_computed_again(
    verdict: Verdict, hides: bool
) -> None:
    drive = typed("x = look(a=1)", "answer(x)", block("answer(x + 1)"), verdicts=[verdict, ""])
    drive.exchange.values = "none" if hides else "all"
    assert drive.run() == Answered("4")
    grammar = grammar_of(drive).answering({"type": "integer"})
    assert drive.asked[-1].grammar == grammar.program(is_corrected=True)


def test_the_last_turn_may_use_what_was_found() -> None:
    limits = Limits(max_errors=1)
    program = block("x = put(a=5)\nanswer(1 / 0 if x == 4 else x)")
    drive = Drive([block("x = put(a=5)\n1 / 0"), program], limits=limits)
    assert drive.run() == Stopped("max_errors=1", "3")
    assert len(drive.ran) == 1


def test_an_answer_that_repeats_the_last_instruction_is_none() -> None:
    told = "The run must end now: its limit max_errors=1 is reached"
    drive = Drive([block("1 / 0"), block(f"answer({told!r})")], limits=Limits(max_errors=1))
    assert drive.run() == Stopped("max_errors=1")


def test_a_small_model_repeats_no_call_in_whatever_order_it_writes_again() -> None:
    drive = counting(
        "put(a=5)\n1 / 0", "x = look()\n1 / 0", "put(a=5)\nanswer(look() + 1)", small=True
    )
    assert drive.run() == Answered("6")
    assert [call.name for call in drive.ran] == ["put", "look"]


def test_a_small_model_that_has_no_tool_that_fits_gives_up() -> None:
    drive = by_lines(block('give_up("no tool")'), fits="no")
    assert drive.run() == Failed("no tool")
    [ask] = drive.asked
    assert ask.grammar == grammar_of(drive).program_that_ends("give_up", ())
    assert drive.told.endswith(no_tool_hint(drive.wire))
    assert not ask.is_continued


def test_an_interrupt_between_two_lines_keeps_what_was_done() -> None:
    drive = Drive(["x = look(a=1)", NoReply("interrupted")], small=True, model=Facts())
    assert isinstance(drive.run(), Interrupted)
    [step] = drive.exchange.steps
    assert [outcome.status for outcome in step.outcomes] == ["done"]


def failed_cell() -> Exchange:
    """A question about a cell that failed, whose answer is to end with code, without tools."""
    return Exchange(
        "Why?",
        wants_code=True,
        context=Context(tools=tuple(TOOLS), is_offered=False),
        error=LastError("cell 1", "y = 1 / 0", "The cell failed: ZeroDivisionError"),
    )


def test_a_small_model_without_tools_answers_in_prose_that_ends_with_code() -> None:
    answer = "It divides by `0`.\n```python\ny = 1 / 2\n```"
    drive = Drive([answer], small=True, model=Facts(), exchange=failed_cell())
    assert drive.run() == Answered(answer)
    [ask] = drive.asked
    assert ask.grammar.startswith("root ::= piece")
    system, question = (str(each["content"]) for each in ask.messages)
    assert "look(" not in system
    assert "ZeroDivisionError" in question
    assert question.endswith("begins with ```python.")


def test_code_that_is_missing_is_asked_for_once_with_the_cell_that_failed() -> None:
    replies = ["It divides by 0.", "```python\ny = 1 / 2\n```"]
    drive = Drive(replies, small=True, model=Facts(), exchange=failed_cell())
    assert drive.run() == Answered("It divides by 0.\n\n```python\ny = 1 / 2\n```")
    assert drive.asked[-1].grammar.startswith('root ::= "```python')
    assert "```python\ny = 1 / 0\n```" in drive.told
    drive = Drive(["It divides by 0.", "No."], small=True, model=Facts(), exchange=failed_cell())
    assert drive.run() == Answered("It divides by 0.")


def test_with_tools_a_small_model_writes_its_program_and_then_the_code() -> None:
    exchange = Exchange("Well?", wants_code=True)
    replies = ["answer(look(a=1))", "```python\nx = 1\n```"]
    drive = Drive([block(replies[0]), replies[1]], small=True, exchange=exchange)
    assert drive.run() == Answered("3\n\n```python\nx = 1\n```")
    assert "begins with ```python" not in str(drive.asked[0].messages[-1])
