"""Who is measured: the baselines, which do no more than they must, and this package beside them.

Each contender has the same task: ask, run ``add``, send the outcome back, until there is an answer.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
from collections.abc import Callable
from typing import Any

TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
QUESTION = {"role": "user", "content": "Add them all up."}
HTTP = "httpx2" if importlib.util.find_spec("httpx2") else "httpx"


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


_OPEN = contextlib.ExitStack()


def close() -> None:
    """Close the connections of all contenders; the next ones make others."""
    _OPEN.close()
    _http.cache_clear()
    _openai.cache_clear()


@functools.cache
def _http() -> Any:
    module = importlib.import_module(HTTP)
    return _OPEN.enter_context(module.Client(timeout=60, trust_env=False))


@functools.cache
def _openai(url: str) -> Any:
    import openai

    http = openai.DefaultHttpxClient(trust_env=False)
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, http_client=http)
    return _OPEN.enter_context(client)


def http_loop(url: str) -> int:
    """The lowest baseline: a bare HTTP client."""
    messages: list[Any] = [QUESTION]
    for step in range(1_000_000):
        reply = _http().post(
            f"{url}/chat/completions", json={"model": "m", "messages": messages, "tools": [TOOL]}
        )
        message = reply.json()["choices"][0]["message"]
        if not message.get("tool_calls"):
            return step
        messages += [message, _outcome(message["tool_calls"][0])]
    raise AssertionError


def openai_extra_body(url: str) -> int:
    """The openai client, with the history in ``extra_body``."""
    messages: list[Any] = [QUESTION]
    create = _openai(url).chat.completions.create
    for step in range(1_000_000):
        reply = create(model="m", messages=[], extra_body={"messages": messages, "tools": [TOOL]})
        message = reply.choices[0].message.to_dict()
        if not message.get("tool_calls"):
            return step
        messages += [message, _outcome(message["tool_calls"][0])]
    raise AssertionError


def openai_plain(url: str) -> int:
    """The openai client as it is mostly used."""
    messages: list[Any] = [QUESTION]
    create = _openai(url).chat.completions.create
    for step in range(1_000_000):
        message = create(model="m", messages=messages, tools=[TOOL]).choices[0].message
        if not message.tool_calls:
            return step
        dumped = message.to_dict()
        messages += [dumped, _outcome(dumped["tool_calls"][0])]
    raise AssertionError


def _outcome(call: dict[str, Any]) -> dict[str, str]:
    value = add(**json.loads(call["function"]["arguments"]))
    return {"role": "tool", "tool_call_id": call["id"], "content": str(value)}


def http_stream(url: str) -> int:
    body = {"model": "m", "messages": [QUESTION], "stream": True}
    with _http().stream("POST", f"{url}/chat/completions", json=body) as response:
        return _tokens(response.iter_lines())


def openai_extra_body_stream(url: str) -> int:
    create = _openai(url).chat.completions.with_streaming_response.create
    with create(
        model="m", messages=[], stream=True, extra_body={"messages": [QUESTION]}
    ) as response:
        return _tokens(response.iter_lines())


def openai_plain_stream(url: str) -> int:
    chunks = _openai(url).chat.completions.create(model="m", messages=[QUESTION], stream=True)
    return sum(1 for chunk in chunks if chunk.choices[0].delta.content)


def _tokens(lines: Any) -> int:
    count = 0
    for line in lines:
        if line.startswith("data: {"):
            count += bool(json.loads(line[6:])["choices"][0]["delta"].get("content"))
    return count


def ours(url: str, *, protocol: Any = "native", stream: bool = False) -> int:
    """This package, through ``Agent.run``."""
    run = _agent(url, protocol, stream=stream).run("Add them all up.")
    assert run.answer == "done", run
    return len(run.calls)


def ours_stream(url: str) -> int:
    """This package, every piece of the reply handed out by ``Agent.stream``."""
    from archytas_nb.loop.events import Delta

    events = _agent(url, "native", stream=True).stream("Tell.")
    return sum(isinstance(event, Delta) for event in events)


def _agent(url: str, protocol: Any, *, stream: bool) -> Any:
    from archytas_nb import Agent, OpenAIModel

    model = OpenAIModel("m", url, "none", stream=stream)
    return Agent([add], model, protocol, max_steps=1_000_000, namespace={}, context="none")


OURS = "archytas_nb"
BASELINE = "baseline: openai client, history in extra_body"
STEPS: dict[str, tuple[Callable[[str], int], str]] = {
    f"baseline: {HTTP} loop": (http_loop, "native-whole"),
    BASELINE: (openai_extra_body, "native-whole"),
    "openai client, plain": (openai_plain, "native-whole"),
    OURS: (functools.partial(ours, stream=True), "native-streamed"),
    f"{OURS}, not streamed": (ours, "native-whole"),
    f"{OURS}, react": (functools.partial(ours, protocol="react", stream=True), "react-streamed"),
    f"{OURS}, react, not streamed": (functools.partial(ours, protocol="react"), "react-whole"),
}
"""Who takes steps, and the form that the server answers in; ours are streamed unless said otherwise."""

STREAMS: dict[str, Callable[[str], int]] = {
    f"baseline: {HTTP} loop": http_stream,
    BASELINE: openai_extra_body_stream,
    "openai client, plain": openai_plain_stream,
    OURS: ours_stream,
}
IMPORTS = {
    f"baseline: {HTTP} loop": f"import {HTTP}",
    BASELINE: "import openai; openai.OpenAI",
    "openai client, plain": "import openai; openai.OpenAI",
    OURS: "from archytas_nb import Agent, OpenAIModel, tool; import openai, pydantic; openai.OpenAI",
}
