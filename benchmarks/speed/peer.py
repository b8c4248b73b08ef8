"""A peer, in an environment of its own: ``python peer.py NAME ROOT FEW MANY ROUNDS`` prints its times as JSON.

This file imports nothing of ours, so that the peer's environment needs nothing but the peer.
"""

from __future__ import annotations

import asyncio
import functools
import json
import linecache
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

STEPS = 1_000_000
done: list[int] = []
"""What was added: a peer that does less than it was asked for must not look fast."""

DEFINE = '''
def t{n}(path: str, rows: list[int] | None = None, mode: str = "mean") -> float:
    """Summarise rows of a file.

    Args:
        path: Where the file is.
        rows: Which rows; all by default.
        mode: How.

    Returns:
        The summary.
    """
    return 0.0
'''
"""A function of which a tool is made."""


def processor() -> float:
    """Seconds of the processor that this process and those that it has started have used."""
    import resource  # there is none on Windows

    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": processor}


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    done.append(a)
    return a + b


def pydantic_ai(url: str) -> Callable[[], Any]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none"))
    limits = UsageLimits(request_limit=STEPS)
    return lambda: (
        Agent(model, tools=[add]).run_sync("Add them all up.", usage_limits=limits).output
    )


def openai_agents(url: str) -> Callable[[], Any]:
    import agents
    import openai

    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=url, api_key="none")
    model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
    agent = agents.Agent(name="a", model=model, tools=[agents.function_tool(add)])
    return lambda: agents.Runner.run_sync(agent, "Add them all up.", max_turns=STEPS).final_output


def smolagents(url: str) -> Callable[[], Any]:
    import smolagents as peer

    model = peer.OpenAIServerModel("m", api_base=url, api_key="none")
    tools = [peer.tool(add)]
    return lambda: peer.ToolCallingAgent(tools, model, verbosity_level=-1, max_steps=STEPS).run(
        "Add them all up."
    )


@functools.cache
def _one_loop() -> asyncio.Runner:
    """For a peer whose client does not outlive the loop that it was first used in."""
    return asyncio.Runner()


def archytas(url: str) -> Callable[[], Any]:
    import contextlib
    import io
    import os

    import tiktoken

    os.environ["OPENAI_BASE_URL"] = url
    try:
        tiktoken.get_encoding("o200k_base")
    except Exception:  # its table is downloaded: without a network something must stand for it
        plain = SimpleNamespace(encode=str.split)
        tiktoken.get_encoding = tiktoken.encoding_for_model = lambda *_: plain
    from archytas.models.openai import OpenAIModel
    from archytas.react import ReActAgent
    from archytas.tool_utils import tool

    model = OpenAIModel({"model_name": "gpt-4o", "api_key": "none"})
    made = tool(add)

    def run() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            silent: dict[str, Any] = {"on_react_step": None, "on_tool_call_update": None}
            agent = ReActAgent(model=model, tools=[made], allow_ask_user=False, **silent)
            return _one_loop().run(agent.react_async("Add them all up."))

    return run


PEERS: dict[str, tuple[Callable[[str], Callable[[], Any]], str, str]] = {
    "pydantic-ai": (
        pydantic_ai,
        "from pydantic_ai import Agent; import pydantic_ai.models.openai",
        "from pydantic_ai import Tool; made = Tool(f).tool_def",
    ),
    "openai-agents": (
        openai_agents,
        "import agents",
        "from agents import function_tool; made = function_tool(f).params_json_schema",
    ),
    "smolagents": (
        smolagents,
        "from smolagents import OpenAIServerModel, ToolCallingAgent; import openai",
        "from smolagents import models, tool; made = models.get_tool_json_schema(tool(f))",
    ),
    "archytas": (
        archytas,
        "from archytas.react import ReActAgent; from archytas.models.openai import OpenAIModel",
        "from archytas.tool_utils import tool; made = tool(f)",
    ),
}
"""How each is run, what it imports, and how it makes a tool and its schema of a function ``f``."""


def _median(run: Callable[[], Any], rounds: int, clock: str) -> float:
    now = CLOCKS[clock]
    times = []
    for _ in range(rounds + 1):
        started = now()
        run()
        times.append((now() - started) * 1000)
    return statistics.median(times[1:])


def _start(code: str, rounds: int, clock: str) -> float:
    return _median(lambda: subprocess.run([sys.executable, "-c", code], check=True), rounds, clock)


def _define(code: str, count: int = 50) -> float:
    """Microseconds of the processor to make a tool, warm; the functions have a source, as those of a user."""
    functions = []
    for n in range(count + 1):
        source = DEFINE.format(n=n)
        file = f"<tools {n}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        namespace: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(source, file, "exec"), namespace)
        functions.append(namespace[f"t{n}"])
    made = compile(code, "<make>", "exec")
    exec(made, {"f": functions[-1]})
    started = time.process_time()
    for function in functions[:-1]:
        exec(made, {"f": function})
    return (time.process_time() - started) * 1e6 / count


def main(name: str, root: str, few: str, many: str, rounds: str, clock: str = "wall") -> None:
    """Measure one peer."""
    make, imports, defines = PEERS[name]
    row = {}
    for count, times in (("1", 10 * int(rounds)), (few, int(rounds)), (many, int(rounds))):
        form = "calling" if name == "smolagents" else "native"
        done.clear()
        column = "warm step, ms" if count == "1" else f"{count} steps, ms"
        row[column] = _median(make(f"{root}/steps-{count}-{form}-whole/v1"), times, clock)
        if len(done) != int(count) * (times + 1):
            raise AssertionError(f"{name} took {len(done)} steps in {times + 1} runs of {count}")
    row["define + schema, µs/tool"] = _define(defines)
    row["import, ms"] = _start(imports, int(rounds), clock) - _start("pass", int(rounds), clock)
    print(json.dumps(row))


if __name__ == "__main__":
    main(*sys.argv[1:])
