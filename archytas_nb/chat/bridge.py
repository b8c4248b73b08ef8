"""The agent of a notebook for programs that chat with agents, over stdin and stdout.

``python -m archytas_nb acp`` speaks the Agent Client Protocol, and passes each question on to the
kernel of the notebook that the chat is about.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import acp
from acp import schema

from archytas_nb.chat.listener import KIND, MAX_LINE
from archytas_nb.kernel.registered import Registered, registered
from archytas_nb.version import __version__
from archytas_nb.words import truncate_line

_WAITS = "*A cell of the notebook is running; your question starts when it has ended.*\n\n"
_NONE = (
    "No notebook is open to this chat. Run `%load_ext archytas_nb` and `%agent_chat on` in one, "
    "and ask again."
)


class _UnavailableError(Exception):
    """There is no notebook to ask; the message is for the person."""


@dataclass(eq=False)
class _Session:
    """A chat.

    Attributes:
        kernel: The kernel that it talks to; None before its first question.
        cancelled: Set if the person ends the question that is being answered.
    """

    kernel: Registered | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)


class Bridge:
    """The agent, as the protocol has it."""

    def __init__(self) -> None:
        self._client: Any = None
        self._sessions: dict[str, _Session] = {}

    def on_connect(self, conn: Any) -> None:
        """Take the connection with the program."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        """Say what the agent can do."""
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_capabilities=schema.AgentCapabilities(load_session=True),
            agent_info=schema.Implementation(
                name="archytas_nb", title="Notebook", version=__version__
            ),
        )

    async def new_session(self, **_: Any) -> schema.NewSessionResponse:
        """Begin a chat."""
        session = uuid.uuid4().hex
        self._sessions[session] = _Session()
        return schema.NewSessionResponse(session_id=session)

    async def load_session(self, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """Continue a chat of before; the conversation itself is in the kernel."""
        self._sessions.setdefault(session_id, _Session())
        return schema.LoadSessionResponse()

    async def authenticate(self, **_: Any) -> schema.AuthenticateResponse:
        """Nothing is needed."""
        return schema.AuthenticateResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the question that is being answered."""
        if session_id in self._sessions:
            self._sessions[session_id].cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        """Ask a question, and report what happens until it is answered."""
        session = self._sessions.get(session_id)
        if session is None:
            raise acp.RequestError.invalid_params({"sessionId": f"no session {session_id!r}"})
        session.cancelled.clear()
        question, notebooks = _read(prompt)
        turn = _Turn(self._client, session_id, session.cancelled)
        try:
            session.kernel = await self._kernel(session, notebooks, turn)
            return schema.PromptResponse(stop_reason=await turn.asked(session.kernel, question))
        except _UnavailableError as error:
            await turn.say(str(error))
        return schema.PromptResponse(stop_reason=turn.stop_reason)

    async def _kernel(self, session: _Session, notebooks: list[str], turn: _Turn) -> Registered:
        """The kernel of a chat: of a notebook that is attached, the one of before, or a choice.

        Raises:
            _UnavailableError: There is none, or none was chosen.
        """
        every = registered(KIND)
        found = every
        if notebooks:
            found = [each for each in every if _names(each.notebook, notebooks)]
            if not found:
                names = ", ".join(f"`{each}`" for each in notebooks)
                raise _UnavailableError(f"{names} is not open: run `%agent_chat on` in it.")
        elif session.kernel in every:
            return session.kernel
        elif session.kernel is not None:
            name = session.kernel.notebook
            found = [each for each in every if each.notebook == name]
            if not found:
                raise _UnavailableError(
                    f"`{name}` does not answer: its kernel was restarted or has ended. Run "
                    "`%agent_chat on` in it and ask again. To talk about another notebook, attach "
                    "it to the question."
                )
        if not found:
            raise _UnavailableError(_NONE)
        if len(found) == 1:
            return found[0]
        return await turn.chosen(found)


def _read(prompt: list[Any]) -> tuple[str, list[str]]:
    """The question of a prompt, and the notebooks that are attached to it."""
    texts = []
    notebooks = []
    for block in prompt:
        if isinstance(block, schema.TextContentBlock):
            texts.append(block.text)
        elif isinstance(block, schema.ResourceContentBlock):
            path = _path(block.uri)
            if path.endswith(".ipynb"):
                notebooks.append(path)
            else:
                texts.append(f"Attached: {path}")
        elif isinstance(block, schema.EmbeddedResourceContentBlock):
            text = getattr(block.resource, "text", "")
            texts.append(f"Attached: {_path(str(block.resource.uri))}\n{text}")
    # The mention by which the person chose this agent.
    question = "\n\n".join(texts).strip().removeprefix("@Notebook").strip()
    return question, notebooks


def _path(uri: str) -> str:
    """The path of an address of a file; any other address unchanged."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return unquote(parts.path)
    return uri


def _names(notebook: str, paths: list[str]) -> bool:
    """Whether one of the paths is that of a notebook; a relative one may be its end."""
    mine = Path(notebook)
    for each in map(Path, paths):
        parts = each.parts
        if each == mine or (not each.is_absolute() and mine.parts[-len(parts) :] == parts):
            return True
    return False


class _Turn:
    """One question of a chat, which reports to it."""

    def __init__(self, client: Any, session: str, cancelled: asyncio.Event) -> None:
        self._client = client
        self._session = session
        self._cancelled = cancelled
        self._name = uuid.uuid4().hex[:8]  # ids of calls must be unique in a chat
        self._questions = 0

    @property
    def stop_reason(self) -> Any:
        """Why the question ended, where the kernel did not say."""
        if self._cancelled.is_set():
            return "cancelled"
        return "end_turn"

    async def say(self, text: str) -> None:
        """Add a text to the answer."""
        await self._update(acp.update_agent_message_text(text))

    async def _update(self, update: Any) -> None:
        await self._client.session_update(session_id=self._session, update=update)

    async def chosen(self, kernels: list[Registered]) -> Registered:
        """The kernel that the person chooses.

        Raises:
            _UnavailableError: They chose none.
        """
        options = []
        for number, each in enumerate(kernels):
            label = each.notebook
            if sum(other.notebook == label for other in kernels) > 1:
                label = f"{label} (process {each.pid})"
            options.append([str(number), "yes", label])
        options.append(["none", "no", "None of them"])
        answer = await self._permission("Which notebook is this chat about?", "", {}, options)
        if answer is None or answer == "none":
            raise _UnavailableError("No notebook was chosen, so nothing was asked.")
        return kernels[int(answer)]

    async def asked(self, kernel: Registered, question: str) -> Any:
        """Ask a kernel, and return why the question ended, in the words of the protocol."""
        address = urlsplit(kernel.url)
        try:
            reader, writer = await asyncio.open_connection(
                address.hostname, address.port, limit=MAX_LINE
            )
        except OSError:
            raise _UnavailableError(
                f"The kernel of `{kernel.notebook}` does not answer. If it was restarted, run "
                "`%agent_chat on` in it again."
            ) from None
        cancelling = asyncio.create_task(self._cancel(writer))
        try:
            _write(writer, token=kernel.token, question=question)
            while line := await reader.readline():
                message = json.loads(line)
                if "end" in message:
                    return await self._ended(message["end"], message["text"])
                await self._take(message, writer)
        except OSError:
            pass
        finally:
            cancelling.cancel()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        raise _UnavailableError(
            f"`{kernel.notebook}` did not finish: its kernel was restarted or has ended, or "
            "`%agent_chat off` was run. Run `%agent_chat on` in it, and ask again."
        )

    async def _cancel(self, writer: asyncio.StreamWriter) -> None:
        await self._cancelled.wait()
        _write(writer, cancel=True)

    async def _ended(self, end: str, text: str) -> Any:
        if end == "interrupted":
            if not self._cancelled.is_set():
                await self.say(text or "The question was interrupted.")
            return "cancelled"
        if text:
            await self.say(text)
        return "end_turn"

    async def _take(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Pass on what a kernel reports."""
        if "waits" in message:
            await self.say(_WAITS)
        elif "call" in message:
            arguments = message["arguments"]
            shown = json.dumps(arguments, ensure_ascii=False)
            await self._update(
                acp.start_tool_call(
                    f"{self._name}-{message['call']}",
                    truncate_line(f"{message['name']} {shown}", 100),
                    kind="other",
                    status="in_progress",
                    raw_input=arguments,
                )
            )
        elif "outcome" in message:
            status = "completed" if message["status"] == "done" else "failed"
            await self._update(
                acp.update_tool_call(
                    f"{self._name}-{message['outcome']}",
                    status=status,  # type: ignore[arg-type]
                    content=[acp.tool_content(acp.text_block(message["text"]))],
                    raw_output=message["text"],
                )
            )
        elif "ask" in message:
            answer = await self._permission(
                message["title"], message["text"], message["arguments"], message["options"]
            )
            _write(writer, answer=answer)

    async def _permission(
        self, title: str, text: str, arguments: dict[str, str], options: list[list[str]]
    ) -> str | None:
        """The option that the person chooses; None if they end the question."""
        kinds: dict[str, Any] = {"yes": "allow_once", "always": "allow_always", "no": "reject_once"}
        self._questions += 1
        call_id = f"{self._name}-ask-{self._questions}"
        content: list[Any] = []
        if text:
            content.append(acp.tool_content(acp.text_block(text)))
        call = schema.ToolCallUpdate(
            tool_call_id=call_id,
            title=title,
            kind="other",
            status="pending",
            content=content,
            raw_input=arguments or None,
        )
        offered = [
            schema.PermissionOption(option_id=option, kind=kinds[kind], name=label)
            for option, kind, label in options
        ]
        asking = asyncio.ensure_future(
            self._client.request_permission(
                session_id=self._session, tool_call=call, options=offered
            )
        )
        ending = asyncio.ensure_future(self._cancelled.wait())
        await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        answer = None
        if asking.done():
            answer = getattr(asking.result().outcome, "option_id", None)
        else:
            asking.cancel()
        named = {option: kind for option, kind, _ in options}
        is_run = named.get(answer or "", "no") != "no"
        status = "completed" if is_run else "failed"
        await self._update(acp.update_tool_call(call_id, status=status))  # type: ignore[arg-type]
        return answer


def _write(writer: asyncio.StreamWriter, **message: Any) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


def main() -> None:
    """Serve until stdin ends."""
    agent: Any = Bridge()
    asyncio.run(acp.run_agent(agent))
