"""A conversation with a server that goes wrong, and everything that can be asked of it afterwards."""

from __future__ import annotations

import json
import signal
import traceback
from dataclasses import dataclass, field
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.errors import ModelError, RunError, RunInterrupted
from archytas_nb.loop.events import Event, Notice
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.remote import RemoteModel
from archytas_nb.run import Run, to_json
from tests.servers.anthropic import AnthropicServer
from tests.servers.plays import Say
from tests.servers.server import Server
from tests.servers.strict import complaint

KEY = "sk-do-not-show-0123456789"
ADD = Say(calls=(("add", {"a": 1, "b": 2}),), thought="Adding.")


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b


def boom() -> int:
    """Fail."""
    raise RuntimeError("the disk is full")


def press_interrupt() -> str:
    """Do what Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)
    return "not reached"


@dataclass
class Talk:
    """One conversation with a server of our own, and everything that was seen of it."""

    protocol: str
    stream: bool
    caplog: pytest.LogCaptureFixture
    api: str = "openai"
    server: Server = field(default_factory=Server)
    agent: Any = None
    events: list[Event] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def with_(
        self,
        *plays: Any,
        timeout: float = 20.0,
        agent: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        **server: Any,
    ) -> Talk:
        self.server.close()
        if self.api == "responses":
            server = {"apis": ("responses",), **server}
        self.server = self.servers(*plays, **server)
        answers = self.model(timeout, **(model or {}))
        settings: Any = {"protocol": self.protocol, "namespace": {}, **(agent or {})}
        self.agent = Agent([add, boom, press_interrupt], answers, **settings)
        return self

    @property
    def servers(self) -> type[Server]:
        return AnthropicServer if self.api == "anthropic" else Server

    def model(self, timeout: float = 20.0, **settings: Any) -> RemoteModel:
        """A model that asks the server."""
        settings = {"stream": self.stream, **settings}
        if self.api != "anthropic":
            if self.api == "responses":
                settings["api"] = "responses"
            return OpenAIModel("tiny-1", self.server.url, KEY, timeout, **settings)
        from archytas_nb.models.anthropic import AnthropicModel

        return AnthropicModel("tiny-1", self.server.url, KEY, timeout, **settings)

    def ask(self, question: str = "What is 1 + 2?", **given: Any) -> Run:
        try:
            run: Run = self.agent.run(question, observers=[self.events.append], **given)
        except (RunError, RunInterrupted) as error:
            self.errors.append(error)
            return error.run or Run(question)
        return run

    def fails(self, kind: str, question: str = "What is 1 + 2?") -> str:
        """Ask, expect this kind of failure, and return its message."""
        with pytest.raises(ModelError) as caught:
            self.agent.run(question, observers=[self.events.append])
        self.errors.append(caught.value)
        assert caught.value.kind == kind, str(caught.value)
        assert caught.value.run is not None
        assert caught.value.run.status == "failed"
        return str(caught.value)

    def goes_on(self) -> None:
        """The next question is answered over a valid history, and nothing has leaked."""
        self.server.plays.clear()
        self.server.then = Say("All is well.")
        run = self.ask("And now?")
        assert run.status == "answered", run.reason
        assert run.answer == "All is well."
        assert self.server.complaints == []
        assert complaint({"model": "tiny-1", "messages": self.agent.messages}) == ""
        self.kept_secret()

    def kept_secret(self) -> None:
        shown = [
            repr(self.agent.chosen_model()),
            self.caplog.text,
            repr(self.events),
            json.dumps(to_json(self.events)),
        ]
        for error in self.errors:
            shown += [str(error), repr(error), repr(error.run), *traceback.format_exception(error)]  # type: ignore[attr-defined]
        assert KEY not in "\n".join(shown)

    @property
    def retries(self) -> list[str]:
        return [
            event.with_wait
            for event in self.events
            if isinstance(event, Notice) and event.kind == "retry"
        ]
