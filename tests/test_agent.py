"""A conversation: the driver carries out the requests of the loop, and the record stays valid."""

import time
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

import archytas_nb as nb
from archytas_nb.errors import ConfigurationError, ModelError, TaskFailed, ToolError
from archytas_nb.loop.events import Answered, AskModel, Delta, Notice, Started, Verdict
from archytas_nb.testing import ScriptedModel
from tests.scripted import Scripted

stock = {"apples": 3}


def count(fruit: str) -> int:
    """Count the fruit in stock.

    Args:
        fruit: Which one
    """
    return stock[fruit]


def agent(*script: object, protocol: str = "react", **options: object) -> nb.Agent:
    return nb.Agent(
        [count], model=ScriptedModel(*script, protocol=protocol), namespace={}, **options
    )


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_answers_with_a_call_on_live_objects(protocol: str) -> None:
    run = agent(("count", {"fruit": "apples"}), ("final_answer", "Three."), protocol=protocol).run(
        "How many apples?"
    )
    assert (str(run), run.status, run.incomplete) == ("Three.", "answered", False)
    [(call, outcome)] = run.calls
    assert (call.name, outcome.value) == ("count", 3)
    assert run.usage.requests == 2


def test_a_stream_yields_the_same_events_and_returns_the_run() -> None:
    events = []
    stream = agent('{"tool": "final_answer", "tool_input": "Yes."}').stream("Well?")
    while True:
        try:
            events.append(next(stream))
        except StopIteration as stop:
            run = stop.value
            break
    assert run.answer == "Yes."
    assert [event for event in events if not isinstance(event, Delta)] == run.events
    assert any(isinstance(event, Delta) for event in events)
    assert run.events[-1] == Answered("Yes.")


def test_a_failed_endpoint_raises_and_leaves_the_conversation_unchanged() -> None:
    it = agent(ModelError("the server is gone"), ("final_answer", "Hello."))
    with pytest.raises(ModelError, match="gone") as caught:
        it.run("Hello?")
    assert caught.value.run is not None
    assert caught.value.run.status == "failed"
    assert len(it.messages) == 1
    assert it.run("Hello again?").answer == "Hello."


def test_giving_up_raises_the_reason_and_keeps_the_conversation_usable() -> None:
    it = agent(("fail_task", "no such fruit"), ("final_answer", "Sorry."))
    with pytest.raises(TaskFailed, match="no such fruit"):
        it.run("How many pears?")
    assert it.run("Why?").answer == "Sorry."


def test_a_limit_allows_a_last_turn_without_tools_and_marks_the_run_incomplete() -> None:
    it = agent(("count", {"fruit": "apples"}), ("final_answer", "At least three."), max_steps=1)
    run = it.run("How many?")
    assert (run.status, run.incomplete, run.answer, run.reason) == (
        "stopped",
        True,
        "At least three.",
        "max_steps=1",
    )


def test_rejects_an_empty_question_before_asking_the_model() -> None:
    with pytest.raises(ValueError, match="empty"):
        agent().run("  ")


def test_rejects_an_unknown_approval_policy_in_the_constructor() -> None:
    with pytest.raises(
        ValueError, match="approve is 'never'; expected a function, or one of 'ask', 'auto', 'deny'"
    ):
        agent(approve="never")


def test_falls_back_to_the_text_protocol_if_the_endpoint_rejects_tools() -> None:
    class Refusing(ScriptedModel):
        def complete(self, ask: AskModel):
            if ask.tools:
                raise ModelError("no tools here", kind="no_tools")
            return (yield from super().complete(ask))

    model = Refusing(
        '{"tool": "count", "tool_input": "apples"}', '{"tool": "final_answer", "tool_input": "3"}'
    )
    model.protocol = "native"
    run = nb.Agent([count], model=model, namespace={}).run("How many?")
    assert (run.answer, run.protocol) == ("3", "react")
    assert any(isinstance(event, Notice) and event.kind == "protocol" for event in run.events)


def test_redefining_a_tool_during_a_run_does_not_change_the_run() -> None:
    def grow() -> str:
        """Add a tool."""
        box.add(count)
        return "grown"

    box = nb.Toolbox(grow)
    model = ScriptedModel(("grow", None), ("count", "apples"), ("final_answer", "Done."))
    run = nb.Agent(box, model=model, namespace={}).run("Grow!")
    assert [outcome.status for _, outcome in run.calls] == ["done", "error"]


@pytest.mark.parametrize(
    "options",
    [
        {"max_steps": 0},
        {"max_errors": -1},
        {"max_seconds": 0},
        {"max_total_tokens": True},
        {"protocol": "x"},
    ],
)
def test_rejects_an_invalid_setting_by_name(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        nb.Agent([count], model=ScriptedModel(), **options)


def test_the_first_event_names_the_model_and_the_protocol() -> None:
    run = agent(("final_answer", "Yes."), protocol="native").run("Well?")
    assert run.events[0] == Started("scripted", "native")


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_retries_an_answer_of_the_wrong_type(
    protocol: str,
) -> None:
    it = agent(("final_answer", "three"), ("final_answer", 3), protocol=protocol)
    run = it.run("How many?", output_type=int)
    assert (run.value, run.answer) == (3, "3")
    assert [event.fault == "" for event in run.events if isinstance(event, Verdict)] == [
        False,
        True,
    ]


def test_an_answer_must_meet_the_condition() -> None:
    it = agent(("final_answer", 30), ("final_answer", 3))
    run = it.run("How many?", output_type=int, until=lambda n: "" if n < 10 else f"{n} is too many")
    assert run.value == 3
    assert "30 is too many" in str(it.exchanges[0].steps[0].correction)


def test_a_question_of_the_same_origin_replaces_the_earlier_one() -> None:
    model = ScriptedModel(*[("final_answer", str(n)) for n in range(4)])
    it = nb.Agent([count], model=model, namespace={})
    for question, origin in (("A?", "a"), ("B?", "b"), ("C?", "c"), ("B!", "b")):
        it.run(question, origin=origin)
    assert [exchange.question for exchange in it.exchanges] == ["A?", "B!", "C?"]
    users = [m["content"] for m in model.asked[-1].messages if m["role"] == "user"]
    assert [each.partition("\n")[0] for each in users] == ["A?", "B!"]


def test_undo_removes_the_last_exchange_and_returns_its_question() -> None:
    it = agent(("final_answer", "1"), ("final_answer", "2"))
    it.run("One?")
    it.run("Two?")
    assert (it.forget_last(), it.forget_last(), it.forget_last()) == ("Two?", "One?", None)


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_a_preview_equals_the_first_request(protocol: str) -> None:
    it = agent(("final_answer", "1"), ("final_answer", "2"), protocol=protocol)
    it.run("One?")
    ask = it.preview("Two?", output_type=int)
    it.run("Two?", output_type=int)
    assert ask == it.model.asked[-1]


@pytest.mark.parametrize("question", [None, 3, b"bytes", ["a list"]])
def test_rejects_a_question_that_is_not_text_before_asking_the_model(question: Any) -> None:
    with (
        ScriptedModel() as model,
        pytest.raises(ValueError, match="expected text to ask the model"),
    ):
        nb.Agent([], model, namespace={}).run(question)
    assert model.asked == []


def endless(_: object) -> str:
    while True:
        pass


class Endless:
    def __repr__(self) -> str:
        return endless(self)


def test_endless_user_code_is_stopped_at_the_end_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def show(thing: Endless) -> str:
        """Show a thing.

        Args:
            thing: The thing
        """
        return "shown"

    def halve(x: Annotated[int, AfterValidator(endless)]) -> int:
        """Halve a number.

        Args:
            x: The number
        """
        return x

    monkeypatch.setattr("archytas_nb.driver.Keyboard", Scripted)
    answer = ("final_answer", "two")
    plays: list[tuple[list[Any], list[Any], dict[str, Any]]] = [
        ([], [answer], {"until": endless}),
        ([], [answer], {"output_type": Annotated[str, AfterValidator(endless)]}),
        ([halve], [("halve", {"x": 1})], {}),
        ([nb.Tool.from_function(show, approve=True)], [("show", {"thing": "thing"})], {}),
    ]
    for tools, replies, asked in plays:
        model = ScriptedModel(*replies, *[answer] * 3)
        agent = nb.Agent(tools, model, max_seconds=1.0, namespace={"thing": Endless()})
        began = time.monotonic()
        run = agent.run("Well?", **asked)
        assert time.monotonic() - began < 10, asked
        assert run.incomplete, asked
        assert run.reason.startswith("max_seconds"), asked


def named(name: str) -> Any:
    """A tool of one's own that has a name."""

    def f(text: str) -> str:
        """Do something.

        Args:
            text: A text
        """
        return f"own {text}"

    f.__name__ = f.__qualname__ = name
    return f


def test_a_tool_that_is_added_to_the_tools_of_an_agent_is_called() -> None:
    it = agent(("own_tool", "a"), ("other", "b"), ("final_answer", "Done."))
    tools = it.tools
    assert tools.add(named("own_tool")).name == "own_tool"
    tools.extend([named("other")])
    assert {"own_tool", "other"} <= {*tools} == {*it.tools}
    run = it.run("Call them.")
    assert [outcome.value for _, outcome in run.calls] == ["own a", "own b"]
    for change in (
        lambda: tools.remove("own_tool"), lambda: tools.disable("own_tool"),
        lambda: tools.enable("own_tool"), lambda: tools.refresh({}),
    ):  # fmt: skip
        with pytest.raises(ToolError, match=r"agent\.tools\.add"):
            change()
    assert "own_tool" in it.tools


@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("ask_user", {"ask_user": True}, {"ask_user": False}),
        *(
            ("python", {"python": mode}, {"python": "off"})
            for mode in ("ask", "undoable", "unwatched")
        ),
    ],
)
def test_the_name_of_a_built_in_tool_is_taken_only_while_it_is_switched_on(
    name: str, on: dict[str, Any], off: dict[str, Any]
) -> None:
    script = ((name, "x"), ("final_answer", "Done."))
    [(_, outcome)] = (
        nb.Agent([named(name)], model=ScriptedModel(*script), namespace={}, **off).run("Go!").calls
    )
    assert outcome.value == "own x"
    model = ScriptedModel()
    it = nb.Agent([named(name)], model=model, namespace={}, **on)
    with pytest.raises(ConfigurationError, match=rf"name of the built-in tool '{name}'"):
        it.run("Go!")
    assert (model.asked, it.exchanges) == ([], [])
    own = nb.Agent([], model=ScriptedModel(), namespace={}, **on)
    own.tool(named(name))
    with pytest.raises(ConfigurationError, match="give yours another name"):
        _ = own.tools
    assert "[?]" in repr(own)
