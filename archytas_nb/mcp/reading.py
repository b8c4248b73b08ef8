"""Messages of foreign servers, taken piece by piece before the library reads them.

The library validates a message as a whole: one faulty tool refuses all tools of a server, and one
faulty part of a result loses a result whose call was carried out. So each message is made again of
the pieces that are used here and can be read. A piece that cannot be read is left out, and named:
a tool in `Page.left_out`, a part of a result in its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx2
import mcp_types as types
from mcp_types.methods import validate_server_result

from archytas_nb.untrusted import fault, read
from archytas_nb.words import collapse_whitespace, truncate_line, visible

MAX_MESSAGE = 32_000_000
"""How long a message of a server may be, in bytes."""
_DEEPEST = 150  # levels of a schema or a result; the library reads a little more
_MAX_SHOWN = 100  # characters of a name
_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What newer versions of the protocol require of a result, and older ones ignore."""
_MAX_FIELDS = 10  # lines of an event besides its data
_MAX_FIELD = 1_000  # bytes of each
_LINE_END = re.compile(rb"\r\n|\r|\n")
_HEADER = "x-mcp-header"  # in a schema: an argument that the library also sends as a header

JsonObject = dict[str, Any]


class NotReadError(ValueError):
    """A message, or a piece of it, cannot be used; the message is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Described:
    """A tool as its server describes it.

    Attributes:
        name: Its name.
        description: Its purpose; empty if the server does not say.
        schema: The schema of its arguments.
        only_reads: Whether the server declares that it changes nothing.
        output: The schema of its structured results; None for any.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    only_reads: bool
    output: Mapping[str, Any] | None


@dataclass(slots=True)
class Page:
    """A page of the list of tools.

    Attributes:
        tools: The tools that can be read.
        left_out: The others, by what they are called, with the reason.
    """

    tools: list[Described] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


class Reader:
    """Reads the messages of one connection.

    Attributes:
        page: The tools that the last answer to a request for tools has listed.
    """

    def __init__(self) -> None:
        self.page = Page()

    def message(self, text: bytes) -> JsonObject | None:
        """A message for the library; None for one that is not used, as all notifications are.

        Raises:
            NotReadError: It is not a message of the protocol.
        """
        try:
            found = read(text)
        except ValueError as error:
            raise NotReadError(f"it is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise NotReadError(f"it is {_kind(found)}, expected a JSON object")
        if "result" in found or "error" in found:
            made: JsonObject = {"jsonrpc": "2.0", "id": found.get("id")}
            if "error" in found:
                made["error"] = _error(found["error"])
            else:
                made["result"] = self._result(found["result"])
            return made
        if "method" not in found:
            raise NotReadError("it has neither a method, nor a result or an error")
        if "id" not in found or fault(found) is not None:
            return None
        return found

    def answer(self, text: bytes, request: Any, status: int = 200, headers: Any = None) -> bytes:
        """The answer to a request over HTTP, for the library; an error says what is wrong with it.

        Args:
            text: The body.
            request: The id of the request.
            status: The status of the answer.
            headers: Its headers, if the status is one of an error.
        """
        made: JsonObject | None = None
        why = ""
        try:
            made = self.message(text)
        except NotReadError as error:
            why = str(error)
        if status >= 400:
            made = {"jsonrpc": "2.0", "error": _of_status(status, headers or {}, text, made)}
        elif made is None:
            made = _failed(f"its answer cannot be read: {why or 'it is a notification'}")
        made["id"] = request
        return json.dumps(made).encode()

    def _result(self, result: Any) -> Any:
        """A result with what is used of it."""
        if not isinstance(result, dict):
            raise NotReadError(f"its result is {_kind(result)}, expected an object")
        if "protocolVersion" in result:
            made = {
                "protocolVersion": result["protocolVersion"],
                "serverInfo": {"name": "server", "version": ""},
                "capabilities": {"tools": {}},
            }
        elif "supportedVersions" in result:
            versions = result["supportedVersions"]
            made = {"supportedVersions": versions, "capabilities": {"tools": {}}, **_COMPLETE}
        elif "tools" in result:
            made = self._tools(result)
        elif "content" in result or "structuredContent" in result:
            made = _outcome(result)
        else:
            made = result
        if (why := fault(made, _DEEPEST)) is not None:
            raise NotReadError(why)
        return made

    def _tools(self, result: JsonObject) -> JsonObject:
        listed = result["tools"]
        if not isinstance(listed, list):
            raise NotReadError(f"its list of tools is {_kind(listed)}")
        self.page = Page()
        stubs = []
        for number, each in enumerate(listed, 1):
            try:
                tool = _described(each)
                stub = _stub(tool)
            except NotReadError as error:
                self.page.left_out[_called(each, number)] = str(error)
            else:
                self.page.tools.append(tool)
                stubs.append(stub)
        made = {"tools": stubs, **_COMPLETE}
        cursor = result.get("nextCursor")
        if isinstance(cursor, str) and fault(cursor) is None:
            made["nextCursor"] = cursor
        elif cursor is not None:
            self.page.left_out["further tools"] = f"the address of their page is {_kind(cursor)}"
        return made


def _kind(value: Any) -> str:
    """The kind of a JSON value, for a person."""
    for kind, what in _KINDS.items():
        if isinstance(value, kind):
            return what
    return "null"


_KINDS: dict[type, str] = {
    bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list",
    dict: "an object",
}  # fmt: skip


def _called(tool: Any, number: int) -> str:
    """The name of a tool that cannot be read."""
    name = tool.get("name") if isinstance(tool, dict) else None
    if isinstance(name, str) and name:
        return visible(truncate_line(name, _MAX_SHOWN))
    return f"tool {number:,} of the list"


def _described(tool: Any) -> Described:
    """A tool, of which only what is used must be right.

    Raises:
        NotReadError: It cannot be used.
    """
    if not isinstance(tool, dict):
        raise NotReadError(f"it is {_kind(tool)}, expected an object")
    name = _used(tool, "name", str)
    if not name:
        raise NotReadError("it has no name")
    schema = _used(tool, "inputSchema", dict)
    if schema is None:
        raise NotReadError("it has no inputSchema, the schema of its arguments")
    title = _used(tool, "title", str)
    description = _used(tool, "description", str) or title or ""
    hints = _used(tool, "annotations", dict) or {}
    only_reads = _used(hints, "readOnlyHint", bool) or False
    output = _used(tool, "outputSchema", dict)
    for each in (name, description, schema, output):
        if (why := fault(each, _DEEPEST)) is not None:
            raise NotReadError(why)
    return Described(name, visible(description), schema, only_reads, output)


def _used(holder: JsonObject, key: str, kind: type) -> Any:
    """The value of a key; None for none."""
    value = holder.get(key)
    if value is not None and not isinstance(value, kind):
        expected = _KINDS[kind]
        raise NotReadError(f"its {key} is {_kind(value)}, expected {expected}")
    return value


def _stub(tool: Described) -> JsonObject:
    """A tool as the library sees it, which uses its name and the arguments that become headers."""
    stub = {"name": tool.name, "inputSchema": {"type": "object"}}
    if _HEADER not in json.dumps(tool.schema):
        return stub
    stub["inputSchema"] = dict(tool.schema)
    try:
        page = {"tools": [stub], **_COMPLETE}
        validate_server_result("tools/list", types.LATEST_PROTOCOL_VERSION, page)
    except ValueError as error:
        # pydantic's errors are such.
        raise NotReadError(
            f"its schema is not valid: {collapse_whitespace(str(error), 200)}"
        ) from None
    return stub


def _outcome(result: JsonObject) -> JsonObject:
    """The result of a call; a part that cannot be read is replaced with the reason.

    Raises:
        NotReadError: There are parts, and none can be read.
    """
    given = result.get("content")
    parts = given if isinstance(given, list) else [] if given is None else [given]
    content: list[JsonObject] = []
    faults: list[str] = []
    for each in parts:
        try:
            content.append(_part(each))
        except NotReadError as error:
            faults.append(str(error))
            content.append(_text(f"(a part of the result cannot be read: {error})"))
    made: JsonObject = {
        "content": content,
        "isError": result.get("isError") not in (None, False),
        **_COMPLETE,
    }
    structured = result.get("structuredContent")
    if structured is not None and (why := fault(structured, _DEEPEST)) is not None:
        faults.append(why)
        content.append(_text(f"(the structured content cannot be read: {why})"))
    elif isinstance(structured, dict):
        made["structuredContent"] = structured
    elif structured is not None:
        # Only newer versions of the protocol permit it.
        made["structuredContent"] = {"result": structured}
    if len(faults) == len(content) > 0 and "structuredContent" not in made:
        raise NotReadError(f"no part of its result can be read: {faults[0]}")
    return made


def _part(part: Any) -> JsonObject:
    """A part of the content of a result: a text, a picture, or a text that says what it is.

    Raises:
        NotReadError: It cannot be read.
    """
    if isinstance(part, str):
        part = _text(part)
    if not isinstance(part, dict):
        raise NotReadError(f"it is {_kind(part)}, expected an object")
    kind = _used(part, "type", str)
    if kind is None:
        raise NotReadError("it has no type")
    made = _readable(kind, part)
    if (why := fault(made)) is not None:
        raise NotReadError(why)
    return made


def _readable(kind: str, part: JsonObject) -> JsonObject:
    if kind == "text":
        text = _used(part, "text", str)
        if text is None:
            raise NotReadError("it has no text")
        return _text(text)
    mime = _used(part, "mimeType", str) or ""
    if kind == "image":
        return {"type": "image", "data": _used(part, "data", str) or "", "mimeType": mime}
    uri = _used(part, "uri", str) or mime
    if kind == "resource":
        resource = _used(part, "resource", dict) or {}
        text = _used(resource, "text", str)
        if text is not None:
            return _text(text)
        uri = _used(resource, "uri", str) or uri
    return _text(f"({kind}: {uri})")


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _failed(message: str, code: int = types.PARSE_ERROR) -> JsonObject:
    return {"jsonrpc": "2.0", "error": {"code": code, "message": message}}


def _error(error: Any) -> JsonObject:
    """A server's report of a failure, of which the code and the data matter to the library."""
    code: Any = None
    message: Any = error
    made: JsonObject = {}
    if isinstance(error, dict):
        code = error.get("code")
        message = error.get("message")
        data = error.get("data")
        if data is not None and fault(data) is None:
            made["data"] = data
    is_code = isinstance(code, int) and not isinstance(code, bool) and abs(code) < 1 << 53
    if not is_code or code == types.CONNECTION_CLOSED:
        # The library says it so itself.
        code = types.INTERNAL_ERROR
    if not isinstance(message, str):
        message = json.dumps(message) if message is not None else "the server gives no reason"
    return {**made, "code": code, "message": visible(message)}


def _of_status(
    status: int, headers: Mapping[str, str], text: bytes, answer: JsonObject | None
) -> JsonObject:
    """The error that a status of HTTP is, with what the server says of it."""
    error: JsonObject = {"code": types.INTERNAL_ERROR, "message": ""}
    if answer is not None and "error" in answer:
        error = answer["error"]
    elif "html" not in headers.get("content-type", ""):
        error["message"] = visible(text[:1_000].decode("utf-8", "replace"))
    words = f"HTTP {status} {_phrase(status)}".rstrip()
    after = headers.get("retry-after", "")
    if after.isdigit():
        words += f" (retry after {after[:9]} s)"
    reason = collapse_whitespace(error["message"], 300)
    return {**error, "message": f"{words}: {reason}" if reason else words}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


# ── over HTTP ─────────────────────────────────────────────────────────────────────────────────────


async def take(response: Any, reader: Reader) -> None:
    """Have the library read an answer over HTTP as a reader makes it, up to a length."""
    # Compressed is not what was asked for: it could be of any length.
    response.headers.pop("content-encoding", None)
    kind = response.headers.get("content-type", "").lower()
    request = await _request_of(response)
    if kind.startswith("text/event-stream") and response.status_code < 400:
        response.stream = _Events(response.stream, reader, request)
    elif request is not None and (response.status_code >= 400 or _is_json(kind)):
        response.headers["content-type"] = "application/json"
        status = response.status_code
        headers = {**response.headers, "content-type": kind}
        response.stream = _Answer(response.stream, reader, request, status, headers)
    else:
        response.stream = _Bounded(response.stream)


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0].strip() in ("application/json", "")


async def _request_of(response: Any) -> Any:
    """The id of the request that is answered; None if it was none of the protocol."""
    try:
        sent = json.loads(await response.request.aread())
    except (ValueError, httpx2.StreamError):
        return None
    return sent.get("id") if isinstance(sent, dict) else None


class _Stream(httpx2.AsyncByteStream):
    """A body that another is made of."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Bounded(_Stream):
    """A body of which nothing is used, up to a length."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._stream:
            size += len(part)
            if size > MAX_MESSAGE:
                return
            yield part


class _Answer(_Stream):
    """The answer to a request: one message."""

    def __init__(
        self, stream: Any, reader: Reader, request: Any, status: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(stream)
        self._reader = reader
        self._request = request
        self._status = status
        self._headers = headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for part in self._stream:
            body += part
            if len(body) > MAX_MESSAGE:
                yield too_long(self._request)
                return
        yield self._reader.answer(bytes(body), self._request, self._status, self._headers)


def too_long(request: Any) -> bytes:
    """The answer to a request in place of one that is too long."""
    message = f"its answer is longer than {MAX_MESSAGE:,} bytes"
    return json.dumps({**_failed(message), "id": request}).encode()


class _Events(_Stream):
    """A stream of events, each with one message on as many lines as the server likes."""

    def __init__(self, stream: Any, reader: Reader, request: Any) -> None:
        super().__init__(stream)
        self._reader = reader
        self._request = request
        self._others: list[bytes] = []  # lines of an event that are not data
        self._data: list[bytes] = []
        self._size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        line = bytearray()
        is_after_return = False  # whose line feed belongs to it
        async for part in self._stream:
            new = part[1:] if is_after_return and part.startswith(b"\n") else part
            is_after_return = part.endswith(b"\r")
            begun, *lines = _LINE_END.split(new)
            line += begun
            for each in lines:
                yield self._line(bytes(line))
                line = bytearray(each)
            if self._size + len(line) > MAX_MESSAGE:
                if self._request is not None:
                    yield b"\n\ndata: " + too_long(self._request) + b"\n\n"
                return

    def _line(self, line: bytes) -> bytes:
        """The messages that the library reads after a line."""
        name, _, value = line.partition(b":")
        if line and name != b"data":
            self._others.append(line[:_MAX_FIELD])
            del self._others[_MAX_FIELDS:]
        elif line:
            self._data.append(value.removeprefix(b" "))
            self._size += len(value) + 1
        else:
            return self._event()
        return b""

    def _event(self) -> bytes:
        lines = self._others
        if self._data:
            lines.append(b"data: " + self._message(b"\n".join(self._data)))
        self._others = []
        self._data = []
        self._size = 0
        return b"\n".join([*lines, b"", b""])

    def _message(self, data: bytes) -> bytes:
        """The message of an event; empty for one that is not used."""
        if not data:
            # It only says where the stream can be continued.
            return b""
        made: JsonObject | None
        try:
            made = self._reader.message(data)
        except NotReadError as error:
            made = None if self._request is None else _failed(f"its answer cannot be read: {error}")
        if made is None:
            return b""
        if "method" not in made and self._request is not None:
            made["id"] = self._request
        return json.dumps(made).encode()
