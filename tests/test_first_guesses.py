"""First guesses of users of other libraries work, or the error suggests the right name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import archytas_nb as nb
from archytas_nb.errors import RunError
from archytas_nb.loop.events import AskModel, ModelReply, Usage
from archytas_nb.models.completion import Price
from archytas_nb.testing import ScriptedModel


def count(fruit: str) -> int:
    """Count the fruit in stock.

    Args:
        fruit: Which one
    """
    return 3


CALL = ("I look it up.", "count", {"fruit": "apples"})


def scripted(*replies: Any, **options: Any) -> nb.Agent:
    return nb.Agent([count], ScriptedModel(*(replies or (CALL, ("final_answer", 3)))), **options)


def streamed() -> Any:
    async def events() -> list[str]:
        return [type(event).__name__ async for event in scripted().astream("How many?")]

    return asyncio.run(events())[-1]


def own_tool() -> Any:
    agent = nb.Agent([], ScriptedModel(("double", {"n": 2}), ("final_answer", "4")))

    @agent.tool
    def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    return agent("Twice 2?").calls[0][1].value, double(4), list(agent.tools), "double" in nb.toolbox


def optioned_tool() -> Any:
    agent = nb.Agent([count], ScriptedModel())
    agent.tool(name="total", approve=True)(lambda: 3)
    return list(agent.tools), agent.tools["total"].approve


def other_model() -> Any:
    agent = scripted()
    run = agent.run("How many?", model=ScriptedModel(("final_answer", "another")), tools=[])
    return run.answer, agent("And now?").answer, len(agent.exchanges)


def limited(**limits: Any) -> Any:
    agent = scripted(CALL, ("final_answer", "At least 3."), CALL, ("final_answer", "3"))
    run = agent.run("How many?", **limits)
    return run.reason, agent("How many?").incomplete


def model_of(*args: Any, **options: Any) -> Any:
    agent = nb.Agent(*args, **options)
    return agent._setup.choice.given, list(agent.tools)


def ask(value: str = "run") -> nb.Run[Any]:
    agent = scripted()
    return agent.run("How many?", output_type=int) if value == "run" else agent.run("How many?")


GUESSES: dict[str, tuple[Callable[[], Any], Any]] = {
    "agent(…)": (lambda: scripted()("How many?").answer, "3"),
    "await agent.arun(…)": (lambda: asyncio.run(scripted().arun("How many?")).answer, "3"),
    "async for … in agent.astream(…)": (streamed, "Answered"),
    "agent.run(…, max_steps=)": (lambda: limited(max_steps=1), ("max_steps=1", False)),
    "agent.run(…, max_seconds=None)": (lambda: limited(max_seconds=None), ("", False)),
    "agent.run(…, model=, tools=)": (other_model, ("another", "3", 2)),
    'Agent("gpt-5", [f])': (lambda: model_of("gpt-5", [count]), ("gpt-5", ["count", "python"])),
    'Agent("gpt-5")': (lambda: model_of("gpt-5")[0], "gpt-5"),
    'Agent([f], "gpt-5")': (lambda: model_of([count], "gpt-5"), ("gpt-5", ["count", "python"])),
    'Agent(model="gpt-5", tools=[f])': (
        lambda: model_of(model="gpt-5", tools=[count]),
        ("gpt-5", ["count", "python"]),
    ),
    "Toolbox([f])": (lambda: list(nb.Toolbox([count])), ["count"]),
    "Agent([[f]])": (lambda: list(nb.Agent([[count]]).tools), ["count", "python"]),
    "@agent.tool": (own_tool, (4, 8, ["double", "python"], False)),
    "@agent.tool(…)": (optioned_tool, (["count", "total", "python"], True)),
    "run.steps": (
        lambda: [(s.number, s.thought, [c.name for c, _ in s.calls]) for s in ask().steps],
        [(1, "I look it up.", ["count"]), (2, "", [])],
    ),
    "run.messages": (
        lambda: [each["role"] for each in ask().messages],
        ["system", "user", "assistant", "user", "assistant"],
    ),
    "run.output": (lambda: (ask().output, ask("text").output), (3, "3")),
    "run.cost": (lambda: ask().cost, None),
    "json.dumps(run.to_json())": (lambda: json.loads(json.dumps(ask().to_json()))["answer"], "3"),
    "run._repr_html_()": (lambda: "<details" in str(ask()._repr_html_()), True),
    'f"{run:>10}"': (lambda: f"{ask():>10}|", "         3|"),
    "str(run)": (lambda: str(ask()), "3"),
    "repr(agent)": (
        lambda: repr(nb.Agent([count], "gpt-5")),
        "<Agent model='gpt-5' tools=[count, python] 0 questions>",
    ),
}


@pytest.mark.parametrize("guess", GUESSES)
def test_common_first_attempts_work(guess: str) -> None:
    attempt, expected = GUESSES[guess]
    assert attempt() == expected


HINTS: dict[str, tuple[str, str]] = {
    **{
        f"nb.Agent({name}='Be brief.')": ("TypeError", "instructions=")
        for name in ("system_prompt", "system", "prompt", "system_message")
    },
    "nb.Agent(instruction='Be brief.')": ("TypeError", "write instructions=…"),
    "nb.Agent(model='gpt-5', functions=[count])": ("TypeError", "tools="),
    "nb.Agent(llm='gpt-5')": ("TypeError", "model="),
    "nb.Agent(model='gpt-5', temperature=0)": ("TypeError", "OpenAIModel("),
    "nb.Agent(model='gpt-5', api_key='x')": ("TypeError", "OpenAIModel("),
    "nb.Agent(max_iterations=3)": ("TypeError", "max_steps="),
    "nb.Agent(output_type=int)": ("TypeError", "agent.run("),
    "nb.Agent(result_type=int)": ("TypeError", "output_type="),
    "nb.Agent(verbose=True)": ("TypeError", "progress="),
    "nb.Agent(memory=True)": ("TypeError", "agent.messages"),
    "nb.Agent(xyz=1)": ("TypeError", "instructions"),
    "agent.run('How many?', max_turns=3)": ("TypeError", "max_steps="),
    "agent.run('How many?', max_step=3)": ("TypeError", "write max_steps=…"),
    "agent.run('How many?', response_model=int)": ("TypeError", "output_type="),
    "agent.run('How many?', message_history=[])": ("TypeError", "agent.messages"),
    "agent.run('How many?', stream=True)": ("TypeError", "stream"),
    "agent.run('How many?', context='none')": ("TypeError", "write context=… in Agent("),
    "agent.run('How many?', max_steps=0)": ("ValueError", "max_steps"),
    "agent.run('How many?', tools='count')": ("ValueError", "functions"),
    **{
        f"agent.{name}('How many?')": ("AttributeError", "run(question)")
        for name in ("chat", "invoke", "ask", "query", "run_sync", "generate")
    },
    "agent.ainvoke('How many?')": ("AttributeError", "arun"),
    "agent.run_stream('How many?')": ("AttributeError", "stream("),
    "agent.history": ("AttributeError", "messages"),
    "agent.clear()": ("AttributeError", "reset()"),
    "agent.add_tool(count)": ("AttributeError", "tool("),
    "agent.mesages": ("AttributeError", "use messages"),
    "agent.cost": ("AttributeError", "run.cost"),
    **{
        f"run.{name}": ("AttributeError", "answer")
        for name in ("text", "content", "result", "output_text", "response", "anwser")
    },
    "run.data": ("AttributeError", "output"),
    "run.tokens": ("AttributeError", "usage"),
    "run.tool_calls": ("AttributeError", "calls"),
    "run.all_messages()": ("AttributeError", "messages"),
    "run.model_dump()": ("AttributeError", "to_json()"),
    "run.trace": ("AttributeError", "use steps"),
    "agent.batch(['a'], 'How many?')": ("AttributeError", "use map("),
    "nb.agent('How many?')": ("TypeError", "nb.Agent(…), or %agent"),
    "nb.Agent([frame])": ("ToolError", "a DataFrame is data, not a tool"),
    "nb.Agent(frame)": ("ToolError", "'look'"),
    "nb.Agent([frame.a])": ("ToolError", "a Series is data, not a tool"),
    "nb.Toolbox(frame.a.to_numpy())": ("ToolError", "an ndarray is data, not a tool"),
    "nb.tool(frame)": ("ToolError", "a 0  1 cannot be a tool; expected a function"),
    "nb.ChatAgent": ("AttributeError", "use Agent"),
    "nb.Agnt": ("AttributeError", "use Agent"),
    "nb.xyz": ("AttributeError", "it has Agent"),
    "nb.OpenAI('gpt-5')": ("AttributeError", "use OpenAIModel"),
    "nb.Agent(name='helper')": ("TypeError", "the variable"),
    "nb.Agent(api_key='x')": ("TypeError", 'OpenAIModel("…", api_key=…)'),
    "agent.run('How many?', type=int)": ("TypeError", "output_type="),
    "nb.Tool(name='count', func=count)": ("TypeError", "Tool.from_function("),
    "nb.tool('total')(count)": ("ToolError", "@tool(name='total')"),
    "nb.tool(description='Count.')(count)": ("ToolError", "docstring"),
    "agent.tools.append(count)": ("AttributeError", "use add(f)"),
    "nb.Toolbox([count]).register(count)": ("AttributeError", "use add(f)"),
    "run.usage()": ("TypeError", "run.usage"),
    "typed.final_output": ("AttributeError", "use output"),
    "typed.result": ("AttributeError", "use output"),
}


@pytest.mark.parametrize("typed", HINTS)
def test_the_error_for_another_librarys_name_suggests_ours(typed: str) -> None:
    frame = pd.DataFrame({"a": [1]})
    names = {"nb": nb, "count": count, "agent": scripted(), "run": ask("text"), "frame": frame}
    names["typed"] = ask()
    kind, hint = HINTS[typed]
    with pytest.raises((TypeError, AttributeError, ValueError)) as raised:
        eval(typed, names)
    assert type(raised.value).__name__ == kind
    assert hint in str(raised.value)


@pytest.mark.parametrize("name", ["Runner", "function_tool", "ask", "ChatOpenAI", "xyz"])
def test_the_suggestion_survives_an_import_of_the_name(name: str) -> None:
    """Python replaces an AttributeError there with an error of its own."""
    with pytest.raises(AttributeError) as read:
        getattr(nb, name)
    with pytest.raises(ImportError) as imported:
        exec(f"x = 1\nfrom archytas_nb import Agent, {name}")
    assert str(imported.value).partition("; ")[2] == str(read.value).partition("; ")[2] != ""


@pytest.mark.parametrize(
    "written", ["agent.run('How many?')", "agent('How many?', output_type=int)"]
)
def test_a_run_that_is_awaited_is_refused_before_it_costs(written: str) -> None:
    agent = scripted()
    names: dict[str, Any] = {"agent": agent}
    exec(f"async def ask():\n    print(await {written})", names)
    with pytest.raises(TypeError, match=r"await agent\.arun\("):
        asyncio.run(names["ask"]())
    assert agent.exchanges == []
    exec(
        "async def ask():\n    run = agent.run('How many?')\n    await sleep(0)\n    return run",
        names,
    )
    names["sleep"] = asyncio.sleep
    assert asyncio.run(names["ask"]()).answer == "3"


# Each is written as in the library that is named; the suggestion is what the error must contain.
OTHER_LIBRARIES: dict[str, str] = {
    # LangChain and LangGraph
    "nb.Agent(llm='gpt-5')": "model=",
    "nb.Agent(prompt='Be brief.')": "instructions=",
    "nb.Agent(response_format=int)": "output_type=",
    "nb.Agent(checkpointer=None)": "agent.messages",
    "nb.Agent(interrupt_before=['count'])": "approve=",
    "nb.Agent(max_execution_time=9)": "max_seconds=",
    "nb.Agent(return_intermediate_steps=True)": "run.steps",
    "nb.create_react_agent": "use Agent",
    "nb.initialize_agent": "use Agent",
    "nb.AgentExecutor": "use Agent",
    "nb.ChatOpenAI": "use OpenAIModel",
    "nb.ChatAnthropic": "use AnthropicModel",
    "nb.StructuredTool": "use Tool",
    "agent.invoke('Hi')": "run(question)",
    "agent.ainvoke('Hi')": "arun(question)",
    "agent.astream_events('Hi')": "astream(question)",
    "agent.abatch(['Hi'])": "map(data, prompt)",
    "agent.bind_tools([count])": "tool(f)",
    "run.intermediate_steps": "calls",
    "run.structured_response": "output",
    # Pydantic AI
    "nb.Agent(system_prompt='Be brief.')": "instructions=",
    "nb.Agent(result_type=int)": "output_type=",
    "nb.Agent(deps_type=int)": "namespace=",
    "nb.Agent(retries=2)": "max_errors=",
    "nb.Agent(toolsets=[])": "tools=",
    "nb.Agent(model_settings={})": "OpenAIModel(",
    "agent.run('Hi', deps=1)": "namespace=",
    "agent.run('Hi', message_history=[])": "agent.messages",
    "agent.run('Hi', usage_limits=None)": "max_steps=",
    "agent.run_sync('Hi')": "run(question)",
    "agent.run_stream('Hi')": "stream(question)",
    "agent.iter('Hi')": "stream(question)",
    "agent.tool_plain(count)": "tool(f)",
    "agent.system_prompt": "instructions",
    "run.data": "output",
    "run.all_messages()": "messages",
    "nb.OpenAIChatModel": "use OpenAIModel",
    # CrewAI
    "nb.Agent(role='Analyst')": "instructions=",
    "nb.Agent(goal='Count.')": "instructions=",
    "nb.Agent(backstory='You count.')": "instructions=",
    "nb.Agent(max_iter=3)": "max_steps=",
    "nb.Agent(allow_code_execution=True)": "python=",
    "nb.Agent(human_input=True)": "ask_user=",
    "nb.Agent(guardrail=len)": "until=",
    "nb.Agent(verbose=True)": "progress=",
    "agent.kickoff()": "run(question)",
    "agent.kickoff_async()": "arun(question)",
    "agent.kickoff_for_each([])": "map(data, prompt)",
    "run.raw": "answer",
    "run.json_dict": "output",
    "run.token_usage": "usage",
    "nb.Crew": "use Agent",
    # OpenAI Agents
    "nb.Agent(output_guardrails=[])": "until=",
    "agent.run('Hi', max_turns=3)": "max_steps=",
    "agent.run('Hi', session=None)": "agent.messages",
    "agent.run_streamed('Hi')": "stream(question)",
    "nb.Runner": "use Agent",
    "nb.function_tool": "use tool",
    "run.final_output": "answer",
    # smolagents
    "nb.Agent(verbosity_level=2)": "progress=",
    "nb.CodeAgent": "use Agent",
    "nb.ToolCallingAgent": "use Agent",
    "nb.LiteLLMModel": "use OpenAIModel",
    "nb.OpenAIServerModel": "use OpenAIModel",
    "agent.logs": "run.steps",
    "agent.memory": "messages",
    # AutoGen
    "nb.Agent(llm_config={})": "model=",
    "nb.Agent(model_client=None)": "model=",
    "nb.Agent(system_message='Be brief.')": "instructions=",
    "nb.Agent(code_execution_config={})": "python=",
    "nb.Agent(human_input_mode='NEVER')": "ask_user=",
    "nb.AssistantAgent": "use Agent",
    "agent.register_function(count)": "tool(f)",
    # LlamaIndex
    "nb.ReActAgent": "use Agent",
    "nb.FunctionTool": "use Tool",
    "agent.chat('Hi')": "run(question)",
    "agent.achat('Hi')": "arun(question)",
    "agent.stream_chat('Hi')": "stream(question)",
    "agent.query('Hi')": "run(question)",
    "run.response": "answer",
    # the clients of the endpoints
    "nb.OpenAI": "use OpenAIModel",
    "nb.Anthropic": "use AnthropicModel",
    "nb.Agent(client=None)": "model=",
    "nb.Agent(top_p=1)": "OpenAIModel(",
    "nb.Agent(max_completion_tokens=9)": "max_reply_tokens=",
    "agent.run('Hi', timeout=3)": "max_seconds=",
    "run.choices": "answer",
    "run.finish_reason": "status",
    "run.usage_metadata": "usage",
    "run.model_dump()": "to_json()",
    "nb.chat('Hi')": "use nb.Agent(…).run(question)",
}


@pytest.mark.parametrize("typed", OTHER_LIBRARIES)
def test_the_error_for_code_of_another_library_suggests_ours(typed: str) -> None:
    names = {"nb": nb, "count": count, "agent": scripted(), "run": ask("text")}
    with pytest.raises((TypeError, AttributeError)) as raised:
        eval(typed, names)
    assert OTHER_LIBRARIES[typed] in str(raised.value).partition("; ")[2]


@pytest.mark.parametrize(
    "name", ["_repr_png_", "__array__", "_ipython_canary_method_should_not_exist_"]
)
def test_attributes_that_a_front_end_looks_up_raise_a_plain_error(name: str) -> None:
    assert not hasattr(scripted(), name)
    assert not hasattr(ask(), name)


# ── what they promise ─────────────────────────────────────────────────────────────────────────────


def test_overrides_apply_to_one_question_only_and_share_the_conversation() -> None:
    agent = scripted(CALL, CALL, CALL, CALL, ("final_answer", "3"))
    asked = agent.chosen_model().asked  # type: ignore[attr-defined]
    agent.run("How many?", max_steps=1, max_reply_tokens=7, tools=[])
    assert (agent.limits.max_steps, agent.limits.max_reply_tokens) == (20, None)
    assert asked[0].max_tokens == 7
    assert list(agent.tools) == ["count", "python"]
    agent.run("And now?", max_total_tokens=None)
    assert [exchange.question for exchange in agent.exchanges] == ["How many?", "And now?"]


def test_output_of_a_required_type_is_never_text() -> None:
    run = scripted(CALL, ("final_answer", "At least 3.")).run(
        "How many?", output_type=int, max_steps=1
    )
    assert run.answer == "At least 3."
    with pytest.raises(RunError, match="max_steps=1") as raised:
        _ = run.output
    assert raised.value.run is run


@pytest.mark.parametrize(
    ("usage", "price", "cost"),
    [
        (Usage(1, 1000, 0, 100), Price(1.0, 0.5, 10.0), 0.002),
        (Usage(1, 1000, 0, 100, usd=0.5), Price(1.0, 0.5, 10.0), 0.5),
        (Usage(1, 1000, 0, 100), None, None),
        (Usage(1), Price(1.0, 0.5, 10.0), None),
    ],
)
def test_the_cost_of_a_run_is_the_endpoints_or_computed_from_the_price(
    usage: Usage, price: Price | None, cost: float | None
) -> None:
    model = ScriptedModel(ModelReply('{"tool": "final_answer", "tool_input": "3"}', usage=usage))
    model.price = price  # type: ignore[attr-defined]
    assert nb.Agent([], model)("How many?").cost == (None if cost is None else pytest.approx(cost))


def test_the_messages_of_a_run_are_the_last_request_and_the_answer() -> None:
    run = ask("text")
    sent = [event for event in run.events if isinstance(event, AskModel)][-1].messages
    assert run.messages == [*sent, {"role": "assistant", "content": "3"}]


def test_the_error_for_a_question_of_another_type_has_one_line() -> None:
    class Table:
        def __repr__(self) -> str:
            return "a  b\n1  2"

    with pytest.raises(ValueError, match="the question is of type 'Table'; expected text"):
        scripted().run(Table())  # type: ignore[arg-type]
