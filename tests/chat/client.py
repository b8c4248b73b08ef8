"""A chat: a client of the official library, which starts the bridge and writes down what it is told."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import acp
from acp import schema


class Chat:
    """A client that answers questions as it was told.

    Args:
        choose: Which option of a question is chosen, by its title and the options' names; None ends the turn.
    """

    def __init__(self, choose: Callable[[str, list[str]], str | None] | None = None) -> None:
        self._choose = choose
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, list[str]]] = []
        self.is_asked = asyncio.Event()
        self.has_text = asyncio.Event()
        self.agent: Any = None
        self.session = ""

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        assert session_id == self.session
        self.updates.append(update)
        if isinstance(update, schema.AgentMessageChunk):
            self.has_text.set()

    async def request_permission(
        self, options: list[Any], session_id: str, tool_call: Any, **_: Any
    ) -> schema.RequestPermissionResponse:
        assert session_id == self.session
        self.asked.append((tool_call, [each.name for each in options]))
        self.is_asked.set()
        if self._choose is None:
            await asyncio.Event().wait()
        chosen = self._choose(tool_call.title, [each.name for each in options])
        outcome: Any = schema.DeniedOutcome(outcome="cancelled")
        for each in options:
            if each.name == chosen:
                outcome = schema.AllowedOutcome(outcome="selected", option_id=each.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def ask(self, question: str, *attached: Path) -> str:
        """Why the turn ended."""
        self.updates.clear()
        self.has_text.clear()
        prompt: list[Any] = [acp.text_block(question)]
        prompt += [acp.resource_link_block(each.name, each.as_uri()) for each in attached]
        response = await self.agent.prompt(prompt=prompt, session_id=self.session)
        if response.stop_reason == "end_turn":  # notifications are handled in tasks of their own
            await self.has_text.wait()
        return str(response.stop_reason)

    @property
    def text(self) -> str:
        """The answer of the last turn."""
        chunks = [each for each in self.updates if isinstance(each, schema.AgentMessageChunk)]
        return "".join(each.content.text for each in chunks)

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        """The title, the end and the text of each call of the last turn."""
        titles = {
            each.tool_call_id: each.title
            for each in self.updates
            if isinstance(each, schema.ToolCallStart)
        }
        return [
            (titles[each.tool_call_id], str(each.status), str(each.raw_output))
            for each in self.updates
            if isinstance(each, schema.ToolCallProgress) and each.tool_call_id in titles
        ]


def talk(runtime: Path, work: Callable[[Chat], Awaitable[None]], **options: Any) -> None:
    """Start the bridge, begin a chat and do something with it."""

    async def run() -> None:
        chat = Chat(**options)
        environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(runtime)}
        command = [sys.executable, "-m", "archytas_nb", "acp"]
        client: Any = chat
        async with acp.spawn_agent_process(client, *command, env=environment) as (agent, _):
            begun = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            assert begun.protocol_version == 1
            assert begun.agent_capabilities.load_session
            chat.agent = agent
            session = await agent.new_session(cwd=str(runtime), mcp_servers=[])
            chat.session = session.session_id
            await work(chat)

    asyncio.run(asyncio.wait_for(run(), 120))
