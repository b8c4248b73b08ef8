"""A server that is started here and talks over its stdin and stdout, one JSON message on a line.

A line that is not a message is the answer to a call if it contains an id; then the call fails with
the reason. Everything else that is not a message goes into the log.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, BinaryIO

import anyio
import mcp_types as types
import psutil  # type: ignore[import-untyped]
from mcp.shared.message import SessionMessage

from archytas_nb.mcp.reading import MAX_MESSAGE, NotReadError, Reader
from archytas_nb.words import collapse_whitespace

_SHOWN = 200  # bytes of each end of a line, in which its id is looked for
_MAX_LOG = 1_000_000  # bytes of the log after which no line of stdout goes into it
_SECONDS_TO_END = 2.0
_ID = re.compile(rb'"id"\s*:\s*(\d+|"[ !#-[\]-~]*")')


@asynccontextmanager
async def started(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: BinaryIO,
    reader: Reader,
    on_end: Callable[[int | None], None],
) -> AsyncIterator[tuple[Any, Any]]:
    """Start a server, and stop it and what it has started at the end.

    Args:
        command: The command.
        environment: Its variables.
        log: The file for its stderr.
        reader: Reads its messages.
        on_end: Called with the exit status when it ends by itself; None if that is not known.

    Yields:
        The streams of messages from it and to it.

    Raises:
        OSError: It cannot be started.
    """
    program, *arguments = command
    found = shutil.which(program, path=environment.get("PATH")) or program
    process = await asyncio.create_subprocess_exec(
        found,
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        stderr=log,
        env=environment,
        limit=MAX_MESSAGE,
        # An interrupt of the kernel is sent to all processes of its group.
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    received, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    ended = anyio.Event()

    async def receive() -> None:
        async with received:
            await _receive(process.stdout, received, log, reader)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _SECONDS_TO_END)
            on_end(process.returncode)
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(_send, process.stdin, to_send, received)
        try:
            yield read, write
        finally:
            read.close()
            write.close()
            with anyio.CancelScope(shield=True):
                await _stop(process)
                with anyio.move_on_after(_SECONDS_TO_END):
                    # Its stdout ends with it.
                    await ended.wait()
            tasks.cancel_scope.cancel()
            received.close()
            to_send.close()


async def _receive(stdout: Any, received: Any, log: BinaryIO, reader: Reader) -> None:
    """Pass on the messages of a server until its stdout ends."""
    while True:
        try:
            line, is_whole = await _line(stdout)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        try:
            message = _message(line, reader) if is_whole else _too_long(line)
        except NotReadError:
            if log.tell() < _MAX_LOG:
                log.write(line[:_SHOWN].rstrip(b"\n") + b"\n")
                log.flush()
            continue
        if message is None:
            continue
        try:
            await received.send(SessionMessage(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            while await stdout.read(1 << 16):
                # The server can then write what it has, and end.
                pass
            return


async def _line(stdout: Any) -> tuple[bytes, bool]:
    """The next line, or both ends of one that is too long, and whether it is the whole.

    Raises:
        IncompleteReadError: There is none.
    """
    begin = b""
    end = b""
    while True:
        try:
            rest: bytes = await stdout.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            part = await stdout.readexactly(error.consumed)
            begin = begin or part[:_SHOWN]
            end = part[-_SHOWN:]
        else:
            if not begin:
                return rest, True
            return begin + (end + rest)[-_SHOWN:], False


def _message(line: bytes, reader: Reader) -> Any:
    """The message on a line, or an error for the call that it answers; None for one not used.

    Raises:
        NotReadError: It is neither.
    """
    try:
        made = reader.message(line)
        return made and types.jsonrpc_message_adapter.validate_python(made, by_name=False)
    except NotReadError as error:
        why = f"its answer cannot be read: {error}"
    except ValueError as error:
        # pydantic's errors are such.
        why = f"its answer is not a message of the protocol: {fault_of(error)}"
    return _failed(line, why)


def _too_long(line: bytes) -> Any:
    """The error for the call that a line answers that is too long; raises NotReadError."""
    return _failed(line, f"its answer is longer than {MAX_MESSAGE:,} bytes")


def _failed(line: bytes, why: str) -> Any:
    """The error for the call that a line answers.

    Raises:
        NotReadError: It answers none.
    """
    begin = line[:_SHOWN]
    found = _ID.search(begin) or next(_ID.finditer(line[-_SHOWN:]), None)
    if found is None or b'"method"' in begin:
        raise NotReadError(why)
    failed = types.ErrorData(code=types.PARSE_ERROR, message=why)
    return types.JSONRPCError(jsonrpc="2.0", id=json.loads(found[1]), error=failed)


def fault_of(error: Any) -> str:
    """The first fault of an answer that is not valid, as ``place: what``."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    fault = next((each for each in faults if "JSONRPCResponse" in each["loc"]), faults[0])
    return collapse_whitespace(
        f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}".removeprefix(": "), 300
    )


async def _send(stdin: Any, to_send: Any, received: Any) -> None:
    """Write messages to a server until it no longer reads them."""
    try:
        async for each in to_send:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            stdin.write(text.encode() + b"\n")
            await stdin.drain()
    except (OSError, RuntimeError):
        # Nobody then waits for an answer.
        received.close()


async def _stop(process: Process) -> None:
    """End a server: its stdin ends, then it gets SIGTERM, then SIGKILL."""
    children = _children(process.pid)
    if process.stdin is not None:
        process.stdin.close()
    for end in (None, psutil.Process.terminate, psutil.Process.kill):
        if end is not None:
            for each in children:
                with suppress(psutil.Error):
                    end(each)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _SECONDS_TO_END)
            if not any(each.is_running() for each in children):
                return


def _children(pid: int) -> list[Any]:
    """A process and all that it has started."""
    try:
        process = psutil.Process(pid)
        return [*process.children(recursive=True), process]
    except psutil.Error:
        return []
