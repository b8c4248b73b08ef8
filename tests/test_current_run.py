"""Tools that reach the run that calls them, and agents as tools of others."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.kernel.person import person_elsewhere
from archytas_nb.loop import events as ev
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace import bundle
from archytas_nb.trace.activity import Activity
from archytas_nb.trace.fold import fold
from archytas_nb.trace.view import RunView
from tests.cassettes.tapes import no_model
from tests.scripted import Scripted

PROTOCOLS = ("native", "react", "program")


def fenced(program: str) -> str:
    return f"```python\n{program}\n```"


def calling(protocol: str, tool: str, *replies: Any, answer: str = "Done.") -> ScriptedModel:
    """A model that calls a tool without arguments, and then answers; `replies` come between."""
    script: list[Any] = [(tool, {}), *replies, ("final_answer", answer)]
    if protocol == "program":
        script = [fenced(f"{tool}()\nanswer({answer!r})"), *replies]
    return ScriptedModel(*script, protocol=protocol)  # type: ignore[arg-type]


def run_of(function: Callable[..., Any], model: ScriptedModel, **options: Any) -> nb.Run:
    return nb.Agent([function], model, namespace={}).run("What is it?", **options)


# ── what a tool learns, and asks ──────────────────────────────────────────────────────────────────


def test_the_model_does_not_see_the_parameter() -> None:
    def look(name: str, run: nb.CurrentRun) -> str:
        """Look.

        Args:
            name: A name
        """
        return name + run.question

    tool = nb.Tool.from_function(look)
    assert list(tool.spec()["function"]["parameters"]["properties"]) == ["name"]
    assert not tool.issues
    assert "run" not in tool.text


def test_a_tool_reads_its_question_step_and_messages() -> None:
    seen: list[Any] = []

    def look(run: nb.CurrentRun) -> None:
        """Look."""
        seen.append((run.question, run.step, [each["role"] for each in run.messages]))
        run.messages[0]["content"] = "spoilt"
        for call in run.messages[-1].get("tool_calls", []):
            call["function"]["name"] = "spoilt"

    model = ScriptedModel(("look", {}), ("look", {}), "Done.", protocol="native")
    tool = nb.Tool.from_function(look, repeat=True)
    nb.Agent([tool], model, namespace={}).run("What is it?")
    assert seen[0] == ("What is it?", 1, ["system", "user"])
    assert seen[1] == ("What is it?", 2, ["system", "user", "assistant", "tool"])
    assert "spoilt" not in str(model.asked[-1].messages)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_tool_asks_the_model_and_what_it_costs_is_counted(protocol: str) -> None:
    found: list[Any] = []

    def classify(run: nb.CurrentRun) -> str:
        """Classify."""
        found.append(run.ask("How many?", int))
        return "done"

    reply = ev.ModelReply("```json\n7\n```", usage=ev.Usage(1, 100, 0, 20))
    run = run_of(classify, calling(protocol, "classify", "many", reply))
    assert found == [7]
    assert run.answer == "Done."
    assert run.usage.output_tokens == 20
    assert len(run.steps) == (1 if protocol == "program" else 2)
    assert "of the type: int" in str(asked_aside(run)[0].messages), "the model is told the type"
    assert "How many?" not in str(run.messages)


def asked_aside(run: nb.Run) -> list[ev.AskModel]:
    """The requests of a run apart from its conversation."""
    return [each for each in run.events if isinstance(each, ev.AskModel) and each.is_side_request]


def view_of(run: nb.Run) -> RunView:
    return fold(run.question, run.events)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_trace_counts_what_a_tool_asks_and_shows_no_reply_of_it(protocol: str) -> None:
    def classify(run: nb.CurrentRun) -> str:
        """Classify."""
        return str(run.ask("How many?"))

    reply = ev.ModelReply("<think>Hm.</think>Seven birds", usage=ev.Usage(1, 100, 0, 20))
    seen: list[ev.Event] = []
    run = run_of(classify, calling(protocol, "classify", reply), observers=[seen.append])
    assert run.calls[0][1].text == "Seven birds"
    view = view_of(run)
    assert all(not step.rejected and not step.failed for step in view.steps)
    assert view.usage.tokens == run.usage.tokens == 120
    assert fold(run.question, seen) == view, "who watches sees the same"
    assert len(view.steps) == len(run.steps)


def test_a_tool_may_ask_in_the_last_step() -> None:
    def classify(run: nb.CurrentRun) -> str:
        """Classify."""
        return str(run.ask("What?"))

    run = run_of(classify, calling("native", "classify", "A bird."), max_steps=1)
    assert run.calls[0][1].text == "A bird."


def test_an_answer_that_is_not_of_the_type_twice_is_an_error_of_the_call() -> None:
    def classify(run: nb.CurrentRun) -> int:
        """Classify."""
        return int(run.ask("How many?", int))

    run = run_of(classify, calling("native", "classify", "many", "very many"))
    [(_, outcome)] = run.calls
    assert outcome.status == "error"
    assert "very many" in outcome.text
    assert "integer" in outcome.text


def test_a_question_of_a_tool_counts_for_the_limits() -> None:
    def classify(run: nb.CurrentRun) -> str:
        """Classify."""
        return run.ask("What?") + run.ask("And?")

    reply = ev.ModelReply("A.", usage=ev.Usage(1, 900, 0, 200))
    run = run_of(classify, calling("native", "classify", reply), max_total_tokens=1000)
    [(_, outcome)] = run.calls
    assert "max_total_tokens=1000" in outcome.text
    assert run.status == "stopped"


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_tool_may_ask_from_a_thread_and_from_a_coroutine(kind: str) -> None:
    def threaded(run: nb.CurrentRun) -> str:
        """Ask."""
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(run.ask("What?")))
        thread.start()
        thread.join()
        return found[0]

    async def awaited(run: nb.CurrentRun) -> str:
        """Ask."""
        return await asyncio.to_thread(run.ask, "What?")

    function: Any = threaded if kind == "thread" else awaited
    run = run_of(function, calling("native", function.__name__, "A bird."))
    assert run.calls[0][1].text == "A bird."


def test_with_values_that_stay_here_a_tool_may_not_ask() -> None:
    def classify(run: nb.CurrentRun) -> str:
        """Classify."""
        return str(run.ask("What is 4711?"))

    model = calling("native", "classify")
    agent = nb.Agent([classify], model, namespace={}, values="none", protocol="native")
    run = agent.run("What is it?")
    assert run.calls[0][1].status == "error"
    assert "4711" not in str([each.messages for each in model.asked])


# ── what a tool tells the person ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_tool_says_is_in_the_trace_at_once_and_not_for_the_model(protocol: str) -> None:
    def look(run: nb.CurrentRun) -> str:
        """Look."""
        run.say("the first half is done")
        run.progress(5, 10)
        seen.append(activity.status(view_of(nb.Run("?"))))
        thread = threading.Thread(target=run.say, args=("and the second",))
        thread.start()
        thread.join()
        return "all of it"

    seen: list[Any] = []
    activity = Activity()

    def watch(event: ev.Event) -> None:
        activity.take(event)
        seen.append(event)

    model = calling(protocol, "look")
    run = run_of(look, model, observers=[watch])
    deltas = [each for each in seen if isinstance(each, ev.Delta) and each.kind != "text"]
    texts = [(each.kind, each.text) for each in deltas]
    assert texts == [
        ("output", "the first half is done\n"), ("progress", "5 of 10"), ("output", "and the second\n"),
    ]  # fmt: skip
    assert [each for each in seen if isinstance(each, str) and "5 of 10" in each]
    assert "half" not in str([each.messages for each in model.asked])
    data, _ = bundle(view_of(run))
    for kind in ("text/plain", "text/markdown", "text/html"):
        assert "the first half is done" in data[kind], kind
        assert "and the second" in data[kind], kind


def test_many_lines_are_bounded_and_progress_is_cheap() -> None:
    def look(run: nb.CurrentRun) -> str:
        """Look."""
        for n in range(10_000):
            run.say(f"line {n} " + "x" * 5000)
            run.progress(n)
        return "done"

    seen: list[ev.Event] = []
    run = run_of(look, calling("native", "look"), observers=[seen.append])
    said = run.calls[0][1].said
    assert len(said) < 250_000
    assert said.startswith("line 0 ")
    assert "\nline 9999 " in said
    assert "9,800 lines left out" in said
    shown = [each for each in seen if isinstance(each, ev.Delta) and each.kind == "progress"]
    assert len(shown) < 5000


def test_progress_of_something_else_than_numbers_is_an_error() -> None:
    def look(run: nb.CurrentRun) -> str:
        """Look."""
        run.progress("half")  # type: ignore[arg-type]
        return "done"

    [(_, outcome)] = run_of(look, calling("native", "look")).calls
    assert outcome.status == "error"
    assert "'half'" in outcome.text


# ── how a tool ends its run ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_tool_ends_the_run_with_an_answer(protocol: str) -> None:
    def end(run: nb.CurrentRun) -> str:
        """End."""
        run.finish([1, 2])
        return "ended"

    model = calling(protocol, "end", answer="Not reached.")
    run = run_of(end, model, output_type=list[int])
    assert run.value == [1, 2]
    assert run.answer == "[1, 2]"
    assert len(model.asked) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_tool_ends_the_run_with_the_reason_why_it_failed(protocol: str) -> None:
    def end(run: nb.CurrentRun) -> None:
        """End."""
        run.fail("the file is empty")

    with pytest.raises(nb.TaskFailed, match="the file is empty"):
        run_of(end, calling(protocol, "end"))


def test_an_answer_of_a_tool_is_checked_like_any_other() -> None:
    def end(run: nb.CurrentRun) -> None:
        """End."""
        run.finish("many")

    model = calling("native", "end", answer="3")
    assert run_of(end, model, output_type=int).value == 3
    assert "many" in str(model.asked[-1].messages[-1])


def test_a_second_end_is_an_error_and_the_first_one_counts() -> None:
    faults: list[str] = []

    def end(run: nb.CurrentRun) -> None:
        """End."""
        run.finish("First.")
        for again in (run.finish, run.fail):
            with pytest.raises(nb.ToolError) as error:
                again("Second.")
            faults.append(str(error.value))

    assert run_of(end, calling("native", "end")).answer == "First."
    assert all("First." in each for each in faults)


def test_an_end_that_a_failing_call_asked_for_does_not_count() -> None:
    def end(run: nb.CurrentRun) -> None:
        """End."""
        run.finish("Early.")
        raise ValueError("too early")

    assert run_of(end, calling("native", "end")).answer == "Done."


def test_a_run_that_is_kept_beyond_its_call_says_so() -> None:
    kept: list[nb.CurrentRun] = []

    def keep(run: nb.CurrentRun) -> None:
        """Keep."""
        kept.append(run)

    run_of(keep, calling("native", "keep"))
    for use in (kept[0].ask, kept[0].finish, kept[0].fail, kept[0].say):
        with pytest.raises(nb.ToolError, match="the call that got this run has ended"):
            use("now")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["thread", "async"])
def test_a_tool_may_end_the_run_from_a_thread_and_from_a_coroutine_once(kind: str) -> None:
    faults: list[str] = []

    def end_once(run: nb.CurrentRun, n: int) -> None:
        try:
            run.finish(f"Answer {n}.")
        except nb.ToolError as error:
            faults.append(str(error))

    def threaded(run: nb.CurrentRun) -> None:
        """End."""
        threads = [threading.Thread(target=end_once, args=(run, n)) for n in range(20)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    async def awaited(run: nb.CurrentRun) -> None:
        """End."""
        await asyncio.gather(*(asyncio.to_thread(end_once, run, n) for n in range(20)))

    function: Any = threaded if kind == "thread" else awaited
    run = run_of(function, calling("native", function.__name__))
    assert run.answer.startswith("Answer ")
    assert len(faults) == 19


def test_a_tool_that_needs_a_run_says_so_without_one() -> None:
    def keep(run: nb.CurrentRun) -> str:
        """Keep."""
        return run.question

    outcome = nb.Tool.from_function(keep).call({})
    assert outcome.status == "error"
    assert "needs the run of an agent" in outcome.text


# ── agents as tools ───────────────────────────────────────────────────────────────────────────────


def shelf(title: str) -> str:
    """Find the shelf of a book.

    Args:
        title: The title
    """
    return f"shelf 7 ({title})"


def librarian(*replies: Any, **options: Any) -> nb.Agent:
    script = replies or (("shelf", {"title": "Emma"}), ("final_answer", "It is on shelf 7."))
    model = ScriptedModel(*script, protocol="native")
    return nb.Agent([shelf], model, namespace={}, **options)


ASKED = ("librarian", {"question": "Where is Emma?"})


@pytest.mark.parametrize("undo", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_agent_answers_another_one(protocol: Any, undo: bool) -> None:
    script: list[Any] = [ASKED, ("final_answer", "Shelf 7.")]
    if protocol == "program":
        script = [fenced('answer(librarian(question="Where is Emma?"))')]
    agent = librarian(undo=undo)
    tool = agent.as_tool("librarian", "Answers questions about books.")
    outer = nb.Agent([tool], ScriptedModel(*script, protocol=protocol), namespace={}, undo=undo)
    run = outer.run("Where is it?")
    [(_, outcome)] = run.calls
    assert outcome.text == "It is on shelf 7."
    assert run.usage.requests == len(script) + 2
    assert agent.exchanges == [], "each call is a conversation of its own"


def test_the_steps_of_the_inner_run_are_nested_in_the_trace() -> None:
    tool = librarian().as_tool("librarian", "Books.")
    seen: list[ev.Event] = []
    outer = nb.Agent([tool], ScriptedModel(ASKED, "Shelf 7.", protocol="native"), namespace={})
    run = outer.run("Where is it?", observers=[seen.append])
    [step] = view_of(run).shown_steps
    [inner] = step.calls[0].runs
    assert [call.name for each in inner.steps for call in each.calls] == ["shelf"]
    data, _ = bundle(view_of(run))
    assert all("shelf(title" in re.sub("<[^>]*>", "", data[kind]) for kind in data)
    printed = [each.text for each in seen if isinstance(each, ev.Delta) and each.kind == "output"]
    assert printed == ['librarian: shelf(title="Emma")\n'], "while it runs"
    assert run.usage.requests == 4
    assert "shelf" in str(run.to_json())


def test_what_an_inner_run_costs_is_counted_at_its_own_price() -> None:
    class Price:
        def __init__(self, per_token: float) -> None:
            self.per_token = per_token

        def cost(self, usage: ev.Usage) -> float:
            return self.per_token * usage.tokens

    def priced(per_token: float, *replies: Any) -> ScriptedModel:
        model = ScriptedModel(*replies, protocol="native")
        model.price = Price(per_token)  # type: ignore[attr-defined]
        return model

    usage = ev.Usage(1, 90, 0, 10)
    call = ev.WireCall("librarian", '{"question": "Where?"}')
    inner = nb.Agent([], priced(0.01, ev.ModelReply("There.", usage=usage)), namespace={})
    model = priced(
        1.0, ev.ModelReply(calls=(call,), usage=usage), ev.ModelReply("There.", usage=usage)
    )
    run = nb.Agent([inner.as_tool("librarian", "Books.")], model, namespace={}).run("Where?")
    assert run.usage.tokens == 300
    assert run.cost == pytest.approx(201.0)


def test_agents_that_share_the_variables_may_ask_each_other_while_changes_are_watched() -> None:
    variables = {"books": ["Emma"]}

    def buy(title: str) -> str:
        """Buy a book.

        Args:
            title: The title
        """
        variables["books"].append(title)
        return "bought"

    model = ScriptedModel(("buy", {"title": "Persuasion"}), "Bought.", protocol="native")
    inner = nb.Agent([buy], model, namespace=variables, undo=True)
    script = ScriptedModel(ASKED, "Done.", protocol="native")
    outer = nb.Agent([inner.as_tool("librarian", "Books.")], script, namespace=variables, undo=True)
    run = outer.run("Buy Persuasion.")
    assert variables["books"] == ["Emma", "Persuasion"]
    assert [each.name for each in run.diff.changes] == ["books"]
    run.undo()
    assert variables["books"] == ["Emma"]


@pytest.mark.parametrize("answer", ["y", "no"])
def test_what_an_inner_run_asks_the_person_is_asked_and_recorded_once(
    tmp_path: Path, answer: str
) -> None:
    def asked(mode: Any, live: Any, person: Scripted) -> tuple[nb.Run, list[str]]:
        model = CassetteModel(Cassette(tmp_path / "x.jsonl", mode), live)
        shelves = nb.Tool.from_function(shelf, approve=True)
        inner = nb.Agent([shelves], model, namespace={})
        forms: list[Any] = []

        def watch(event: ev.Event) -> Any:
            if isinstance(event, ev.Delta) and event.form is not None:
                forms.append(event.form.decision)
                return event.form
            return None

        token = person_elsewhere.set(person)
        try:
            outer = nb.Agent([inner.as_tool("librarian", "Books.")], model, namespace={})
            return outer.run("Where is it?", observers=[watch]), forms
        finally:
            person_elsewhere.reset(token)

    script = (ASKED, ("shelf", {"title": "Emma"}), "It is there.", "It is there.")
    person = Scripted(answer)
    recorded, forms = asked("record", lambda: ScriptedModel(*script, protocol="native"), person)
    assert len(person.prompts) == 1
    assert forms[0] is None, "the outer run shows the call"
    assert forms[-1] is not None, "and the decision"
    before = (tmp_path / "x.jsonl").read_bytes()
    replayed, _ = asked("replay", no_model, Scripted(there=False))
    assert replayed.calls[0][1].text == recorded.calls[0][1].text
    assert (tmp_path / "x.jsonl").read_bytes() == before
    assert Cassette(tmp_path / "x.jsonl", "replay").count == 5


def test_an_inner_run_that_a_limit_ends_says_that_it_is_incomplete() -> None:
    script = (("shelf", {"title": "Emma"}), "Perhaps there.")
    tool = librarian(*script, max_steps=1).as_tool("librarian", "Books.")
    outer = nb.Agent([tool], ScriptedModel(ASKED, "There.", protocol="native"), namespace={})
    [(_, outcome)] = outer.run("Where?").calls
    assert outcome.text == "Perhaps there.\n(This is incomplete: stopped by max_steps=1.)"


def test_a_longer_cycle_of_agents_is_refused() -> None:
    names = "abcd"
    agents = {name: nb.Agent([], namespace={}) for name in names}
    for name, following in zip(names, names[1:] + names[0], strict=True):
        script = (following, {"question": "?"}), f"From {name}."
        agents[name].model = ScriptedModel(*script, protocol="native")
        agents[name].tools.add(agents[following].as_tool(following, "Another one."))
    run = agents["a"].run("Well?")
    assert run.answer == "From a."
    last: Any = agents["d"].model
    assert "cannot ask itself" in last.asked[-1].messages[-1]["content"]


def test_the_reason_of_an_agent_that_gives_up_is_an_error_of_the_call() -> None:
    tool = librarian(("fail_task", {"reason": "no such book"})).as_tool("librarian", "Books.")
    outer = nb.Agent([tool], ScriptedModel(ASKED, "None.", protocol="native"), namespace={})
    [(_, outcome)] = outer.run("Where?").calls
    assert outcome.status == "error"
    assert "no such book" in outcome.text


def test_the_limits_of_the_outer_run_hold_for_the_inner_one() -> None:
    replies = [
        ev.ModelReply(calls=(ev.WireCall("shelf", f'{{"title": "{n}"}}'),), usage=ev.Usage(1, 400))
        for n in range(9)
    ]
    agent = librarian(*replies, "Nothing.")
    tool = agent.as_tool("librarian", "Books.")
    model = ScriptedModel(ASKED, "None.", protocol="native")
    run = nb.Agent([tool], model, namespace={}, max_total_tokens=1000).run("Where?")
    asked = len(agent.model.asked)  # type: ignore[union-attr]
    assert asked < 6
    assert run.status == "stopped"
    assert "max_total_tokens" in run.reason


def test_a_cycle_of_agents_is_refused() -> None:
    one = nb.Agent([], namespace={})
    two = nb.Agent([], namespace={})
    one.model = ScriptedModel(("two", {"question": "?"}), "One.", protocol="native")
    two.model = ScriptedModel(("one", {"question": "?"}), "Two.", protocol="native")
    one.tools.add(two.as_tool("two", "The other one."))
    two.tools.add(one.as_tool("one", "The other one."))
    run = one.run("Well?")
    assert run.answer == "One."
    assert run.calls[0][1].text == "Two."
    refused = two.model.asked[-1].messages[-1]["content"]
    assert "cannot ask itself" in refused


def test_an_agent_that_is_its_own_tool_is_refused() -> None:
    one = nb.Agent([], namespace={})
    one.model = ScriptedModel(("one", {"question": "?"}), "One.", protocol="native")
    one.tools.add(one.as_tool("one", "Itself."))
    assert "cannot ask itself" in one.run("Well?").calls[0][1].text


def test_an_interrupt_of_the_inner_run_interrupts_the_outer_one() -> None:
    tool = librarian(KeyboardInterrupt()).as_tool("librarian", "Books.")
    outer = nb.Agent([tool], ScriptedModel(ASKED, "None.", protocol="native"), namespace={})
    with pytest.raises(nb.RunInterrupted) as stopped:
        outer.run("Where?")
    assert stopped.value.run.status == "interrupted"


# ── recorded and replayed ─────────────────────────────────────────────────────────────────────────


def test_questions_of_tools_and_nested_agents_are_replayed_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    script = (
        ASKED, ("shelf", {"title": "Emma"}), ("final_answer", "It is on shelf 7."),
        ("judge", {}), "yes", ("final_answer", "Shelf 7, certainly."),
    )  # fmt: skip

    def judge(run: nb.CurrentRun) -> str:
        """Judge."""
        return run.ask("Is it certain?") + "!"

    def asked(mode: Any, live: Any) -> nb.Run:
        model = CassetteModel(Cassette(path, mode), live)
        inner = nb.Agent([shelf], model, namespace={})
        tools = [inner.as_tool("librarian", "Books."), judge]
        return nb.Agent(tools, model, namespace={}).run("Where is it?")

    recorded = asked("record", lambda: ScriptedModel(*script, protocol="native"))
    before = path.read_bytes()
    replayed = asked("replay", no_model)
    assert replayed.answer == recorded.answer == "Shelf 7, certainly."
    assert [each.text for _, each in replayed.calls] == [each.text for _, each in recorded.calls]
    assert path.read_bytes() == before


def test_a_question_of_a_tool_that_is_not_recorded_is_the_cause_of_the_miss(tmp_path: Path) -> None:
    prompts = ["Is it certain?", "Is it true?"]

    def judge(run: nb.CurrentRun) -> str:
        """Judge."""
        return str(run.ask(prompts[0]))

    def asked(mode: Any, live: Any) -> nb.Run:
        model = CassetteModel(Cassette(tmp_path / "x.jsonl", mode), live)
        return nb.Agent([judge], model, namespace={}).run("Well?")

    asked("record", lambda: ScriptedModel(("judge", {}), "yes", "Yes.", protocol="native"))
    prompts.pop(0)
    with pytest.raises(nb.CassetteMiss) as missed:
        asked("replay", no_model)
    assert "Is it true?" in str(missed.value) or "Is it certain?" in str(missed.value)
