"""Requests and agents for the tests of cassettes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.file import RecordedReply
from archytas_nb.cassettes.match import Matcher, Request
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.loop.events import AskModel, ModelReply
from archytas_nb.testing import ScriptedModel

SYSTEM = "You answer questions."


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One
        b: The other
    """
    return a + b


SCRIPT = (("add", {"a": 1, "b": 2}), ("final_answer", "It is 3."))
QUESTION = "What is 1 + 2?"


def ask(*texts: str, step: int = 1, **fields: Any) -> AskModel:
    """A request: the system prompt, then user and assistant in turn."""
    roles = ("user", "assistant")
    said = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    return AskModel(step, ({"role": "system", "content": SYSTEM}, *said), **fields)


def request(asked: AskModel, *volatile: str, model: str = "default") -> Request:
    return Matcher(volatile).request(asked, model)


def exchanged(*texts: str, reply: str = "yes", **fields: Any) -> RecordedReply:
    return RecordedReply(request(ask(*texts, **fields)), ModelReply(reply))


def no_model() -> Any:
    raise AssertionError("a replay must not make a model")


def agent(
    path: Path,
    mode: Any,
    live: Callable[[], Any] = no_model,
    tools: Any = (add,),
    **keywords: Any,
) -> nb.Agent:
    """An agent whose model is behind a cassette."""
    return nb.Agent(
        tools, model=CassetteModel(Cassette(path, mode), live), namespace={}, **keywords
    )


def record(
    path: Path, protocol: Any = "react", question: str = QUESTION, mode: str = "record"
) -> nb.Run:
    return agent(path, mode, lambda: ScriptedModel(*SCRIPT, protocol=protocol)).run(question)


def replay(path: Path, question: str = QUESTION) -> nb.Run:
    return agent(path, "replay").run(question)
