"""Maps names of other libraries to ours, for error messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Never

from archytas_nb.errors import with_users_frames
from archytas_nb.words import did_you_mean

ARGUMENTS = {
    "write instructions=… in Agent(…)": "instructions system system_prompt system_message prompt",
    "write tools=[…]": "functions function tool toolkit",
    "write model=…": "llm client model_name chat_model",
    "write max_steps=…": "max_iterations max_turns max_iter recursion_limit",
    "write max_reply_tokens=… for one reply, max_total_tokens=… for a run": "max_tokens",
    "write max_reply_tokens=…": "max_completion_tokens max_output_tokens max_new_tokens",
    "write output_type=… in agent.run(…)": "output_type result_type response_model response_format",
    "write progress=… in agent.run(…)": "progress verbose",
    'write model=nb.OpenAIModel("…", temperature=0, …)': "temperature seed api_key base_url",
    "use agent.messages and agent.reset(); an agent keeps its conversation": (
        "messages message_history chat_history history memory"
    ),
    "iterate over agent.stream(…) or agent.astream(…)": "stream streaming callbacks",
}
AGENT = {
    'run("…")': "ask chat invoke query send generate complete run_sync",
    'arun("…")': "ainvoke achat run_async",
    'stream("…")': "run_stream stream_events",
    "messages": "history chat_history memory conversation",
    "reset()": "clear reset_conversation",
    "tool(f)": "add_tool register_tool",
    "map(…)": "batch abatch map_rows",
    "run.usage and run.cost of what agent.run(…) returns": "usage cost tokens",
}
RUN = {
    "answer": "text content result response message output_text final_output",
    "output": "data parsed structured_output",
    "usage": "tokens token_usage input_tokens output_tokens",
    "steps": "trace trajectory",
    "calls": "tool_calls intermediate_steps",
    "messages": "history all_messages new_messages",
    "to_json()": "json dict model_dump model_dump_json to_dict",
}


def hint(name: str, table: Mapping[str, str], known: Iterable[str]) -> str:
    """A suggestion for a name, as the end of a message; empty if there is none."""
    ours = next((ours for ours, names in table.items() if name in names.split()), "")
    return f"; {ours}" if ours else did_you_mean(name, known)


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """The error for an argument that a function does not have."""
    known = [*known]
    meant = hint(name, ARGUMENTS, known) or f"; it has {', '.join(known)}"
    return with_users_frames(TypeError(f"{function} has no argument {name!r}{meant}"))


def unknown_attribute(owner: object, name: str, table: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that an object does not have."""
    known = [each for each in dir(type(owner)) if not each.startswith("_")]
    table = {f"use {ours}": names for ours, names in table.items()}
    meant = "" if name.startswith("_") else hint(name, table, known)
    text = f"{type(owner).__name__!r} object has no attribute {name!r}{meant}"
    return with_users_frames(AttributeError(text))


class AgentModule(ModuleType):
    """The class of the module `archytas_nb.agent`, so that ``nb.agent("…")`` says what to write."""

    def __call__(self, *_: object, **__: object) -> Never:
        """Raise TypeError."""
        raise with_users_frames(TypeError("write nb.Agent(…), or %agent; nb.agent is a module"))
