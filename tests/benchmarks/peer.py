"""A peer, in an environment of its own: ``python peer.py NAME ROOT FEW MANY ROUNDS`` prints its times as JSON.

This file imports nothing of ours, so that the peer's environment needs nothing but the peer.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

STEPS = 1_000_000
done: list[int] = []
"""What was added: a peer that does less than it was asked for must not look fast."""


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
    return lambda: Agent(model, tools=[add]).run_sync("Add them all up.", usage_limits=limits).output


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


PEERS: dict[str, tuple[Callable[[str], Callable[[], Any]], str]] = {
    "pydantic-ai": (pydantic_ai, "from pydantic_ai import Agent; import pydantic_ai.models.openai"),
    "openai-agents": (openai_agents, "import agents"),
    "smolagents": (smolagents, "from smolagents import OpenAIServerModel, ToolCallingAgent; import openai"),
}


def _median(run: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds + 1):
        started = time.perf_counter()
        run()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times[1:])


def _start(code: str, rounds: int) -> float:
    return _median(lambda: subprocess.run([sys.executable, "-c", code], check=True), rounds)


def main(name: str, root: str, few: str, many: str, rounds: str) -> None:
    """Measure one peer."""
    make, imports = PEERS[name]
    row = {}
    for count in (few, many):
        form = "calling" if name == "smolagents" else "native"
        done.clear()
        row[f"{count} steps, ms"] = _median(make(f"{root}/steps-{count}-{form}-whole/v1"), int(rounds))
        if len(done) != int(count) * (int(rounds) + 1):
            raise AssertionError(f"{name} took {len(done)} steps in {int(rounds) + 1} runs of {count}")
    row["import, ms"] = _start(imports, int(rounds)) - _start("pass", int(rounds))
    print(json.dumps(row))


if __name__ == "__main__":
    main(*sys.argv[1:])
