"""Maps names of other libraries to ours, for error messages."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, ModuleType
from typing import Never

from archytas_nb.errors import with_users_frames
from archytas_nb.words import did_you_mean

ARGUMENTS = {
    "write instructions=… in Agent(…)": (
        "instructions system system_prompt system_message prompt preamble persona role goal "
        "backstory"
    ),
    "write tools=[…]": "functions function tool toolkit toolkits toolset toolsets plugins",
    "write model=…": "llm llm_config client model_name model_id model_client chat_model engine",
    "write max_steps=…": (
        "max_iterations max_turns max_iter max_rounds steps recursion_limit usage_limits"
    ),
    "write max_seconds=…": "max_execution_time max_time time_limit timeout",
    "write max_errors=… in Agent(…)": "max_errors retries max_retries max_retry_limit",
    "write max_reply_tokens=… for one reply, max_total_tokens=… for a run": "max_tokens",
    "write max_reply_tokens=…": "max_completion_tokens max_output_tokens max_new_tokens",
    "write namespace=… in Agent(…)": "namespace globals variables state deps deps_type",
    "write output_type=… in agent.run(…)": (
        "output_type type answer_type result_type response_model response_format response_schema "
        "output_schema output_pydantic schema"
    ),
    "write until=… in agent.run(…)": "until guardrail guardrails output_guardrails validators",
    "write ask_user=… in Agent(…)": "ask_user human_input human_in_the_loop human_input_mode",
    "write approve=… in Agent(…), or @tool(approve=True)": (
        "approve approval require_approval requires_approval interrupt_before"
    ),
    "write python=… in Agent(…)": (
        "python code_execution code_execution_config allow_code_execution code_interpreter"
    ),
    "write progress=… in agent.run(…)": (
        "progress verbose verbosity verbosity_level debug show_progress"
    ),
    'write model=nb.OpenAIModel("…", {name}=…)': (
        "temperature top_p seed stop api_key base_url extra_body model_settings model_kwargs"
    ),
    "use agent.messages and agent.reset(); an agent keeps its conversation": (
        "messages message_history chat_history history memory checkpointer session"
    ),
    "iterate over agent.stream(…) or agent.astream(…)": "stream streaming callbacks",
    "use run.steps of what agent.run(…) returns": "return_intermediate_steps",
    "an agent needs none: the variable that you assign it to is its name": (
        "name title description agent_id agent_name"
    ),
}
TOOL = {
    "the first lines of the function's docstring are its description": (
        "description desc doc docstring description_override"
    ),
    "the annotations of the function are its schema": (
        "schema args_schema parameters parameters_json_schema infer_schema input_schema"
    ),
    "pass the function itself: Tool.from_function(f), @tool": "f func fn function coroutine",
    "write approve=…": "needs_approval requires_approval approval require_approval confirm",
    "write timeout=…": "max_seconds time_limit timeout_seconds",
    "write max_chars=…": "max_result_chars max_output_chars max_length",
    "write name=…": "tool_name name_override title",
}
TOOLBOX = {
    "add(f)": "append insert register add_tool register_tool register_function tool",
    "extend(object)": "update add_tools add_functions",
    "remove(name)": "pop discard delete unregister",
}
AGENT = {
    'run("…")': (
        "ask chat invoke query prompt send generate complete predict call execute kickoff run_sync"
    ),
    'arun("…")': (
        "ainvoke achat acall aask aquery agenerate apredict akickoff kickoff_async run_async"
    ),
    'stream("…")': (
        "iter run_stream run_stream_sync run_streamed stream_events stream_chat stream_response"
    ),
    'astream("…")': "astream_chat astream_events stream_async",
    "messages": "history chat_history message_history all_messages memory conversation",
    "reset()": "clear clear_history forget new new_session reset_conversation reset_memory",
    "instructions": "system system_prompt system_message prompt_template",
    "tool(f)": "add_tool register_tool register_function tool_plain bind_tools",
    "tools": "toolbox toolset toolsets tool_names functions",
    "model": "llm client model_name",
    "limits": "max_steps max_seconds max_errors max_total_tokens max_iterations",
    "map(…)": "batch abatch run_batch run_many map_rows kickoff_for_each",
    "evaluate(…)": "eval benchmark",
    "run.usage and run.cost of what agent.run(…) returns": "usage cost tokens get_cost",
    "run.steps of what agent.run(…) returns": "steps logs trace",
}
RUN = {
    "answer": (
        "text content result response message output_text final_output final_answer raw choices"
    ),
    "output": "data parsed structured_output structured_response pydantic json_dict",
    "usage": (
        "tokens total_tokens token_usage get_token_usage input_tokens output_tokens usage_metadata"
    ),
    "steps": "trace trajectory log logs",
    "calls": "tool_calls tool_results tool_executions intermediate_steps",
    "messages": "history chat_history all_messages new_messages",
    "to_json()": "json dict model_dump model_dump_json to_dict",
    "cost": "usd total_cost",
    "seconds": "time elapsed duration latency",
    "status": "success ok state finish_reason stop_reason",
}
RUN_TYPED = {**RUN, "output": f"{RUN['output']} {RUN['answer']}"}
del RUN_TYPED["answer"]
MODULE = {
    "Agent": (
        "Chat ChatAgent CodeAgent ToolCallingAgent ReActAgent FunctionAgent AssistantAgent "
        "ConversableAgent AgentExecutor AgentRunner Runner Crew create_agent create_react_agent "
        "create_tool_calling_agent initialize_agent agents react"
    ),
    'Agent(…).run("…")': "ask chat query run_sync",
    "OpenAIModel": (
        "OpenAI ChatOpenAI OpenAIChat OpenAIChatModel OpenAIServerModel LiteLLMModel LiteLLM "
        "ChatModel Model LLM llms chat_models"
    ),
    "AnthropicModel": "Anthropic ChatAnthropic Claude",
    "tool": ("function_tool ai_tool register_tool FunctionTool StructuredTool BaseTool tool_utils"),
    "Run": "RunResult AgentRunResult AgentResult",
    "Toolbox": "Toolkit ToolNode FunctionToolset ToolCollection",
}


def hint(name: str, table: Mapping[str, str], known: Iterable[str]) -> str:
    """A suggestion for a name, as the end of a message; empty if there is none."""
    for ours, names in table.items():
        if ours and name in names.split():
            return f"; {ours.replace('{name}', name)}"
    return did_you_mean(name, known)


def unknown_argument(function: str, name: str, known: Iterable[str]) -> TypeError:
    """The error for an argument that a function does not have."""
    known = [*known]
    meant = hint(name, ARGUMENTS, known) or f"; it has {', '.join(known)}"
    return with_users_frames(TypeError(f"{function} has no argument {name!r}{meant}"))


def unknown_attribute(owner: object, name: str, table: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that an object does not have."""
    known = [each for each in dir(type(owner)) if not each.startswith("_")]
    meant = ""
    if not name.startswith("_"):
        meant = hint(name, _to_use(table), known)
    text = f"{type(owner).__name__!r} object has no attribute {name!r}{meant}"
    return with_users_frames(AttributeError(text))


OPERATORS = {
    name
    for kind in (int, float, str, list, dict)
    for name in (*vars(kind), "__lt__", "__le__", "__gt__", "__ge__")
    if name.startswith("__")
    and callable(getattr(kind, name))
    # Ordering is not among what an object has: it answers that it cannot be ordered.
    and (name not in dir(object) or name in ("__lt__", "__le__", "__gt__", "__ge__"))
} - {"__bool__", "__getnewargs__", "__getformat__", "__class_getitem__"}
"""The special methods that a number, a text, a list or a dict has and an object has not."""


def no_operator(name: str) -> Callable[..., Never]:
    """A special method of a run: what the person wants to use is the value of its answer."""

    def method(self: object, *_: object) -> Never:
        text = (
            f"{type(self).__name__!r} object has no {name!r}: it is the record of a question; use "
            "its output for the value of the answer, or its answer for the text"
        )
        raise with_users_frames(TypeError(text))

    return method


def unknown_name(module: str, name: str, known: Iterable[str]) -> AttributeError | ImportError:
    """The error for a name that the package, whose ``__getattr__`` calls this, does not have.

    In ``from archytas_nb import …``, Python replaces an AttributeError with an error of its own,
    without the suggestion; so there it is an ImportError.
    """
    known = [*known]
    meant = hint(name, _to_use(MODULE), known) or f"; it has {', '.join(known)}"
    if _instruction(_callers_frame()) == "IMPORT_FROM":
        return ImportError(f"cannot import name {name!r} from {module!r}{meant}", name=name)
    return AttributeError(f"module {module!r} has no attribute {name!r}{meant}")


def refuse_await(written: str) -> None:
    """Raise TypeError if ``await`` is before the call of the method that calls this.

    Python itself would say so only after the call.

    Args:
        written: What to write instead.
    """
    if _next_instruction(_callers_frame()) == "GET_AWAITABLE":
        raise with_users_frames(
            TypeError(f"this call waits by itself; with await, write {written}")
        )


def _callers_frame() -> FrameType:
    """The frame that called the function that called the function of this module."""
    return sys._getframe(3)  # noqa: SLF001 - inspect.stack() reads files


def _instruction(frame: FrameType) -> str:
    """The name of the instruction that a frame is at."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


def _next_instruction(frame: FrameType) -> str:
    """The name of the instruction after the call that a frame is at; empty if there is none."""
    # An instruction has two bytes; the interpreter keeps room of its own between two of them.
    following = frame.f_code.co_code[frame.f_lasti + 2 :: 2]
    return next((dis.opname[each] for each in following if dis.opname[each] != "CACHE"), "")


def _to_use(table: Mapping[str, str]) -> dict[str, str]:
    return {f"use {ours}": names for ours, names in table.items()}


class AgentModule(ModuleType):
    """The class of the module `archytas_nb.agent`, so that ``nb.agent("…")`` says what to write."""

    def __call__(self, *_: object, **__: object) -> Never:
        """Raise TypeError."""
        raise with_users_frames(TypeError("write nb.Agent(…), or %agent; nb.agent is a module"))
