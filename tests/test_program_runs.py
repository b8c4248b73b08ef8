"""Runs whose model writes programs, with the real sandbox, tools and cassettes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.kernel.approval import CallingProgram
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop import events as ev
from archytas_nb.loop.decision import Decision
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from archytas_nb.trace.text import plain
from tests.scripted import Scripted
from tests.servers.plays import Say
from tests.servers.server import Server


def price(item: str) -> float:
    """The price of an item.

    Args:
        item: Its name
    """
    return {"apple": 2.5, "pear": 3.0}[item]


def block(program: str) -> str:
    return f"```python\n{program}\n```"


def agent(*programs: str, tools: Any = (price,), **options: Any) -> nb.Agent:
    options.setdefault("namespace", {})
    model = ScriptedModel(*map(block, programs), protocol="program")
    return nb.Agent(tools, model=model, protocol="program", **options)


def text(run: nb.Run) -> str:
    return plain(fold(run.question, run.events))


# ── what a person sees ────────────────────────────────────────────────────────────────────────────


def test_each_call_stands_below_its_line() -> None:
    program = 'total = 0\nfor each in ["apple", "pear"]:\n    total += price(each)\nanswer(total)'
    run = agent(program).run("What do both cost?")
    assert text(run) == (
        "What do both cost?\n\n"
        "1. total = 0\n"
        '   for each in ["apple", "pear"]:\n'
        "       total += price(each)\n"
        '     ↳ price(item="apple") → 2.5\n'
        '     ↳ price(item="pear") → 3.0\n'
        "   answer(total)\n\n"
        "5.5"
    )
    assert run.steps[0].program == program
    assert [outcome.value for _, outcome in run.calls] == [2.5, 3.0]


def test_a_line_that_raised_and_a_call_that_is_not_repeated() -> None:
    first = 'cost = price("apple")\ntwice = cost * None\nanswer(twice)'
    run = agent(first, 'cost = price("apple")\nanswer(cost * 2)').run("Twice an apple?")
    shown = text(run)
    assert "   ✗ twice = cost * None\n       TypeError" in shown
    assert 'price(item="apple") → 2.5 (from an earlier call)' in shown
    assert len(run.calls) == 1
    assert run.answer == "5.0"


def test_a_program_that_was_not_run_says_so_at_its_lines() -> None:
    run = agent('a = price("apple")\nanswer(prise("pear"))', 'answer(price("pear"))').run("A pear?")
    shown = text(run)
    assert '   ✗ answer(prise("pear"))' in shown
    assert "✗ nothing was run" in shown
    assert len(run.calls) == 1


def test_the_dry_run_shows_the_functions_and_the_question() -> None:
    from archytas_nb.magics.dry_run import dry_run

    shown = repr(dry_run(agent("answer(1)").prepared("What do both cost?")))
    assert "program" in shown
    assert "def price(item: str) -> float:" in shown
    assert "What do both cost?" in shown


def test_without_context_no_variables_are_mentioned() -> None:
    for context, is_mentioned in (("mentioned", True), ("none", False)):
        asking = agent("answer(1)", context=context)
        asking.run("What do both cost?")
        system = asking.model.asked[0].messages[0]["content"]
        assert ("variables that the question names" in system) is is_mentioned


def test_the_dry_run_of_a_small_model_shows_the_grammar_of_its_first_line() -> None:
    from archytas_nb.magics.dry_run import dry_run

    class Small(ScriptedModel):
        is_small = True
        continues_replies = True
        has_grammars = True

    model = Small(protocol="program")
    asking = nb.Agent([price], model=model, protocol="program", namespace={})
    shown = repr(dry_run(asking.prepared("What does a pear cost?")))
    assert "root ::=" in shown
    assert '"price(" ("item=" exprbound) ")"' in shown, "the only argument of a tool is written"
    assert "```python" in shown


# ── approval ──────────────────────────────────────────────────────────────────────────────────────

PAYING = 'for amount in [1, 2]:\n    pay(amount)\nanswer("paid")'


def pay(amount: int) -> str:
    """Pay.

    Args:
        amount: How much
    """
    return f"paid {amount}"


def paying() -> Toolbox:
    """A tool whose calls a person approves."""
    box = Toolbox()
    box.add(pay, approve=True)
    return box


def asked_about(program: str, line: int, *answers: str) -> tuple[ev.CallOutcome, Scripted]:
    """The outcome of a call that a person is asked about, and the person."""
    person = Scripted(*answers)
    executor = KernelExecutor(paying(), {}, person=person)
    call = ev.ToolCall("c", "pay", {"amount": 1})
    [outcome] = executor.run([call], callers={"c": CallingProgram(program, line)})
    return outcome, person


def test_a_person_sees_the_program_with_the_line_that_waits() -> None:
    outcome, person = asked_about(PAYING, 2, "y")
    assert outcome.decision == Decision("approved")
    shown = person.prompts[0].splitlines()
    assert shown[0] == "The agent wants to run pay:"
    assert shown[2:6] == [
        "Its program waits in line 2:",
        "     1  for amount in [1, 2]:",
        "  →  2      pay(amount)",
        '     3  answer("paid")',
    ]


def test_of_a_long_program_the_lines_around_are_shown_and_all_on_request() -> None:
    program = "\n".join(f"x{n} = {n}" for n in range(1, 41))
    _, person = asked_about(program, 20, "?", "y")
    short, whole = person.prompts
    assert "  → 20  x20 = 20" in short
    assert "x15 = 15" not in short
    assert "? shows all" in short
    assert "x1 = 1\n" in whole
    assert "x40 = 40" in whole


def test_nothing_in_a_program_is_hidden_from_the_person() -> None:
    _, person = asked_about("a = 1\rpay(1)\n# \u202ereversed\u200b", 2, "y")
    assert "  →  2  pay(1)" in person.prompts[0]
    assert "\\u202ereversed\\u200b" in person.prompts[0]


def test_calls_in_a_loop_are_approved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    person = Scripted("y", "n, too much")
    monkeypatch.setattr("archytas_nb.driver.Keyboard", lambda: person)
    asking = agent(PAYING, 'answer("one was paid")', tools=paying())
    run = asking.run("Pay both")
    assert ["  →  2      pay(amount)" in each for each in person.prompts] == [True, True]
    assert [outcome.status for _, outcome in run.calls] == ["done", "refused"]
    shown = text(run)
    assert "↳ pay(amount=1) (approved by you) → paid 1" in shown
    assert "↳ ⊘ pay(amount=2) → refused by you: too much" in shown


# ── what runs of other protocols have too ─────────────────────────────────────────────────────────


def test_a_program_is_replayed_with_equal_events_and_outputs(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    programs = ['a = price("apple")\n1 / 0', 'answer(price("apple") + price("pear"))']

    def ask(mode: Any, live: Any) -> nb.Run:
        model = CassetteModel(Cassette(path, mode), live)
        return nb.Agent([price], model=model, protocol="program", namespace={}).run("Both?")

    with Server(*(Say(block(each), raw=True) for each in programs)) as server:
        recorded = ask("record", lambda: OpenAIModel("tiny-1", base_url=server.url, api_key="none"))
        assert len(server.chats) == 2
    written = path.read_bytes()

    replayed = ask("replay", no_model)
    assert recorded.answer == "5.5"
    assert replayed.events == recorded.events
    assert bundle(fold("Both?", replayed.events)) == bundle(fold("Both?", recorded.events))
    assert path.read_bytes() == written


TEXTS = ["é", "a\nb", "€ 5", "x\u2028y", "</script>", "\x1b[31m"]


def generated(chance: Random) -> list[str]:
    """The programs of one question: some fail or have a fault, the last one answers."""
    items = [chance.choice(["apple", "pear", "fig"]) for _ in range(chance.randint(1, 4))]
    looked_up = (
        f"for n, each in enumerate({items!r}):\n    try:\n        found[n] = price(item=each)\n"
        "    except KeyError as error:\n        found[n] = str(error)"
    )
    lines = [
        looked_up,
        f"found = {{each: price(each) for each in {sorted(set(items) - {'fig'})!r}}}",
        f"first = price({items[0]!r})",
        f"show({items!r}, {chance.random()!r}, None)",
        f"total = sum([price(each) for each in {items!r}]) * {chance.randint(1, 9)}",
        f"print({chance.choice(TEXTS)!r}, {chance.randint(0, 10**20)})",
    ]
    faulty = [f"answer(prise({items[0]!r}))", "answer(1 / 0)", f"price({items[0]!r}, 1)\nanswer(1)"]
    programs = ["\n".join([*chance.sample(lines, chance.randint(1, 4)), "show(1)"])]
    if chance.random() < 0.3:
        programs.append(chance.choice(faulty))
    programs.append(f"price('pear')\nanswer([{chance.randint(0, 99)}, {chance.choice(items)!r}])")
    return programs


@pytest.mark.parametrize("count", [5, pytest.param(1_000, marks=pytest.mark.slow)])
def test_generated_programs_are_replayed_byte_by_byte(tmp_path: Path, count: int) -> None:
    chance = Random(3)
    programs = 0
    while programs < count:
        path = tmp_path / f"{programs}.jsonl"
        texts = generated(chance)
        model = ScriptedModel(*map(block, texts), protocol="program")
        recorded, written = outcome_of(
            CassetteModel(Cassette(path, "record"), partial(same, model))
        )
        programs += len(model.asked)
        assert path.stat().st_size > 0
        before = path.read_bytes()
        replayed, again = outcome_of(CassetteModel(Cassette(path, "replay"), no_model))
        assert again == written
        assert replayed == recorded
        assert path.read_bytes() == before
    print(f"{programs} programs")


def no_model() -> Any:
    raise AssertionError("a replay must not make a model")


def same(model: Any) -> Any:
    return model


def outcome_of(model: Any) -> tuple[Any, bytes]:
    """The events of a run, and all that is shown of it."""
    asking = nb.Agent([price], model=model, protocol="program", namespace={})
    run = asking.run("Which?")
    return run.events, json.dumps(bundle(fold("Which?", run.events))).encode()


def test_the_value_given_to_answer_is_checked_as_it_is() -> None:
    asking = agent('answer("five")', 'answer([price("apple"), price("pear")])')
    run = asking.run("The prices?", output_type=list[float])
    assert run.output == [2.5, 3.0]
    assert len(run.steps) == 2
    assert '"five" was not accepted' in text(run)


def test_a_condition_is_checked_and_the_model_writes_another_program() -> None:
    asking = agent('a = price("apple")\nanswer(a)', "answer(a + 1)")
    run = asking.run("More than 3?", until=lambda answer: float(answer) > 3)
    assert run.answer == "3.5"


def test_what_the_calls_of_a_program_change_is_shown_and_undone() -> None:
    names: dict[str, Any] = {"basket": ["fig"]}

    def add(item: str) -> str:
        """Add an item.

        Args:
            item: Its name
        """
        names["basket"].append(item)
        return "added"

    asking = agent(
        'add("apple")\nadd("pear")\nanswer("done")', tools=[add], namespace=names, undo=True
    )
    run = asking.run("Add both")
    assert names["basket"] == ["fig", "apple", "pear"]
    assert "basket" in str(run.diff)
    assert "Δ basket" in text(run)
    run.undo()
    assert names["basket"] == ["fig"]


def test_rows_of_a_map_write_programs() -> None:
    def reply(ask: ev.AskModel) -> str:
        question = str(ask.messages[-1]["content"])
        item = "apple" if "apple" in question else "pear"
        return block(f'answer(price("{item}"))')

    class Model:
        name = "scripted"
        protocol = "program"
        is_scripted = True

        def complete(self, ask: ev.AskModel) -> Any:
            yield from ()
            return ev.ModelReply(reply(ask))

    asking = nb.Agent([price], model=Model(), protocol="program", namespace={})
    items = [{"item": "apple"}, {"item": "pear"}]
    answers = asking.map(items, "What does {item} cost?", store=None, progress=False)
    assert [row["answer"] for row in answers] == ["2.5", "3.0"]


def test_a_variable_of_a_program_does_not_look_like_yours_being_replaced() -> None:
    program = "penguins = price(item='pear')\nfor bread in [1]:\n    cost = penguins\nanswer(cost)"
    yours = {"penguins": [1], "bread": 2, "answer": 3, "price": price}
    run = agent(program, namespace=yours).run("What does a pear cost?")
    lines = text(run).split("\n")
    assert [line.strip() for line in lines if "your" in line] == [
        "1. penguins = price(item='pear')  # your penguins is unchanged",
        "for bread in [1]:  # your bread is unchanged",
    ]
    assert yours["penguins"] == [1]
    again = agent(program).run("What does a pear cost?")
    assert "your" not in text(again)
