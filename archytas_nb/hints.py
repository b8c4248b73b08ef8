"""Names that other libraries use, and what they are called here, for the messages of errors."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping
from typing import Any

from archytas_nb.tools.names import did_you_mean


def _spelled(table: Mapping[str, str]) -> dict[str, str]:
    return {name: ours for ours, names in table.items() for name in names.split()}


ARGUMENTS = _spelled(
    {
        "write instructions=…": "system system_prompt system_message prompt preamble persona role",
        "write tools=[…]": "functions function tool toolkit plugins skills",
        "write model=…": "llm client model_name model_id chat_model engine",
        "write max_steps=…": "max_iterations max_turns max_iter steps recursion_limit max_rounds",
        "write max_seconds=…": "max_execution_time max_time time_limit",
        "write max_reply_tokens=…": "max_completion_tokens max_output_tokens max_new_tokens",
        "write namespace=…": "globals variables context state deps",
        "write output_type=…": "result_type response_model response_format output_schema schema",
        'it belongs to the model: model=nb.OpenAIModel("…", temperature=0, …)': (
            "temperature top_p seed stop api_key base_url timeout max_retries extra_body"
        ),
        "an agent keeps its conversation itself: agent.messages, agent.reset()": (
            "messages message_history chat_history history memory"
        ),
        "iterate over agent.stream(…) or agent.astream(…)": "stream streaming callbacks",
        "write progress=…": "verbose verbosity_level debug show_progress",
    }
)
AGENT = _spelled(
    {
        'run("…")': "ask chat invoke query prompt send generate complete call run_sync predict",
        'await agent.arun("…")': "ainvoke acall achat run_async aask",
        'stream("…") or astream("…")': "run_stream stream_events chat_async_stream astream_events",
        "messages": "history chat_history memory conversation turns get_turns all_messages",
        "reset()": "clear new forget reset_conversation clear_history",
        "tool(f)": "add_tool register_tool register tool_plain bind_tools",
        "instructions": "system system_prompt prompt_template",
        "limits": "max_steps max_seconds max_errors max_total_tokens",
        "the run that agent.run(…) returns: run.usage, run.cost": "usage cost tokens get_cost",
    }
)
RUN = _spelled(
    {
        "answer": "text content result response message output_text final_output final_answer",
        "output": "data parsed structured_output",
        "usage": "tokens total_tokens token_usage get_token_usage input_tokens output_tokens",
        "calls": "tool_calls tool_results intermediate_steps",
        "messages": "history chat_history all_messages new_messages",
        "to_json()": "json dict model_dump model_dump_json to_dict",
        "cost": "price usd total_cost",
        "seconds": "time elapsed duration",
        "status": "success ok state finish_reason",
        "steps": "trace log logs",
    }
)
MODULE = _spelled(
    {
        "Agent": "agent Chat ChatAgent CodeAgent ToolCallingAgent ReActAgent create_agent run ask",
        "OpenAIModel": "OpenAI ChatOpenAI OpenAIChat OpenAIChatModel LiteLLMModel Model",
        "tool": "function_tool tools register_tool",
    }
)


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """What to raise for an argument that a function does not have."""
    known = [each for each in known if each != "self"]
    where, others = "agent.run(…)", ("output_type", "until", "images", "origin", "observers")
    if "output_type" in known:
        where, others = "Agent(…)", ("instructions", "protocol", "approve", "allow", "namespace")
    ours, *_ = ARGUMENTS.get(name, f"write {name}=").removeprefix("write ").partition("=")
    hint = f": {ARGUMENTS[name]}" if name in ARGUMENTS else did_you_mean(name, known)
    if ours in (*others, "progress", "max_errors", "ask_user") and ours not in known:
        hint = f": write {ours}=… in {where}"
    hint = hint or f"; it has {', '.join(known)}"
    return TypeError(f"{function} has no argument {name!r}{hint}")


def unknown_attribute(owner: Any, name: str, table: Mapping[str, str]) -> AttributeError:
    """What to raise for an attribute that an object does not have."""
    guess = ""
    if not name.startswith("_"):  # what front ends look for is no mistake of a person
        known = [each for each in dir(type(owner)) if not each.startswith("_")]
        ours = table.get(name)
        guess = f"; it is called {ours} here" if ours else did_you_mean(name, known)
    return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{guess}")


def arguments_of(function: Any) -> list[str]:
    """The names of a function's arguments, but for those that take any name."""
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]


class NotTheClass(types.ModuleType):
    """The module of a class whose name differs by one capital letter."""

    def __call__(self, *_: Any, **__: Any) -> None:
        """Say what is meant."""
        name = self.__name__.rpartition(".")[2]
        raise TypeError(f"{self.__name__} is a module; the class is archytas_nb.{name.title()}")
