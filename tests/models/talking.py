"""Asking a server of our own by hand."""

from __future__ import annotations

from typing import Any

from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.remote import RemoteModel
from tests.servers.server import Server

HELLO = ({"role": "user", "content": "hello"},)


def told(server: Server, **settings: Any) -> OpenAIModel:
    """A model that asks this server."""
    return OpenAIModel(settings.pop("model", "tiny-1"), server.url, **settings)


def complete(model: RemoteModel, **ask: Any) -> tuple[list[Delta | Notice], ModelReply]:
    """The events on the way to a reply, and the reply."""
    flow, seen = model.complete(AskModel(1, ask.pop("messages", HELLO), **ask)), []
    while True:
        try:
            seen.append(next(flow))
        except StopIteration as ended:
            return seen, ended.value
