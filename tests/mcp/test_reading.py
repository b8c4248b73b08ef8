"""Messages of a server are taken piece by piece: good ones remain, the rest is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import validate_server_result
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from archytas_nb.mcp import reading
from archytas_nb.mcp.reading import NotReadError, Reader, take
from archytas_nb.untrusted import fault

WEIRD: list[Any] = [None, True, 0, 1.5, "text", [], ["a"], {}, {"a": 1}, float("nan"), "\ud83d"]
"""What may stand where something else is expected."""
FIELDS = ["name", "description", "title", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "execution"]  # fmt: skip
ANYTHING = st.sampled_from(WEIRD)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "Works.", "inputSchema": {"type": "object"}, **more}


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A tool in which some fields are something else, or that is none."""
    if draw(st.booleans()):
        return draw(ANYTHING)
    made = tool("mutated")
    for name in draw(st.lists(st.sampled_from(FIELDS), min_size=1)):
        made[name] = draw(ANYTHING)
        if draw(st.booleans()):
            del made[name]
    return made


def message(**content: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **content}).encode()


def valid(method: str, made: Any) -> None:
    """A message for the library is valid in each version of the protocol."""
    assert fault(made, 200) is None
    types.jsonrpc_message_adapter.validate_python(made, by_name=False)
    for version in KNOWN_PROTOCOL_VERSIONS:
        try:
            validate_server_result(method, version, made["result"])
        except KeyError:  # it has no such method
            assert method in ("initialize", "server/discover")


@given(st.lists(mutated(), max_size=5), st.randoms(use_true_random=False), ANYTHING, ANYTHING)
def test_the_good_tools_are_there_whatever_the_others_are(
    others: list[Any], random: Any, meta: Any, cursor: Any
) -> None:
    good = [tool(f"good_{number}") for number in range(3)]
    listed = [*good, *others]
    random.shuffle(listed)
    reader = Reader()
    text = message(result={"tools": listed, "_meta": meta, "nextCursor": cursor, "extra": 1})
    made = reader.message(text)
    assert made is not None
    valid("tools/list", made)
    names = [each.name for each in reader.page.tools]
    assert {each["name"] for each in good} <= {*names}
    assert [each["name"] for each in made["result"]["tools"]] == names
    assert all(reader.page.left_out.values())
    for each in others:
        name = each.get("name") if isinstance(each, dict) else None
        is_there = isinstance(name, str) and (name in names or name in reader.page.left_out)
        assert is_there or any(key.startswith("tool ") for key in reader.page.left_out)


def test_a_tool_that_is_nested_deeper_than_the_library_reads_is_left_out() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(reading._DEEPEST):
        deep = {"type": "object", "properties": {"a": deep}}
    reader = Reader()
    made = reader.message(message(result={"tools": [tool("deep", inputSchema=deep), tool("good")]}))
    assert made is not None
    assert [each["name"] for each in made["result"]["tools"]] == ["good"]
    assert reader.page.left_out.keys() == {"deep"}


@given(st.lists(st.dictionaries(st.sampled_from(["type", "text", "data", "mimeType", "uri", "resource"]), ANYTHING) | ANYTHING, max_size=4), ANYTHING, ANYTHING)  # fmt: skip
def test_the_good_parts_of_a_result_are_there_whatever_the_others_are(
    others: list[Any], structured: Any, is_error: Any
) -> None:
    content = [*others, {"type": "text", "text": "good"}]
    result = {"content": content, "structuredContent": structured, "isError": is_error, "_meta": 5}
    made = Reader().message(message(result=result))
    assert made is not None
    valid("tools/call", made)
    assert made["result"]["content"][len(others)]["text"] == "good"
    assert made["result"]["isError"] == (is_error not in (None, False))


@pytest.mark.parametrize("extra", WEIRD)
def test_of_the_handshake_only_the_version_is_used(extra: Any) -> None:
    more = {"capabilities": extra, "serverInfo": extra, "instructions": extra, "_meta": extra}
    for method, own in (
        ("initialize", {"protocolVersion": "2025-06-18"}),
        ("server/discover", {"supportedVersions": ["2026-07-28"]}),
    ):
        made = Reader().message(message(result={**more, **own}))
        assert made is not None
        valid(method, made)


@given(ANYTHING, ANYTHING, ANYTHING)
def test_any_error_is_one_that_the_library_reads(code: Any, words: Any, data: Any) -> None:
    for error in ({"code": code, "message": words, "data": data}, words):
        try:
            made = Reader().message(message(error=error))
        except NotReadError:
            continue
        assert made is not None
        assert fault(made) is None
        types.jsonrpc_message_adapter.validate_python(made, by_name=False)


def test_the_code_for_the_end_of_a_connection_is_the_librarys_own() -> None:
    made = Reader().message(message(error={"code": types.CONNECTION_CLOSED, "message": "no key"}))
    assert made is not None
    assert made["error"] == {"code": types.INTERNAL_ERROR, "message": "no key"}


@pytest.mark.parametrize(
    "text", [b"", b"no json", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"\xff\xfe", message(result=3)]
)
def test_what_is_no_message_is_told_with_a_reason(text: bytes) -> None:
    with pytest.raises(NotReadError):
        Reader().message(text)
    answer = json.loads(Reader().answer(text, 7))
    assert answer["id"] == 7
    assert "cannot be read" in answer["error"]["message"]


@given(st.integers(400, 599), st.binary(max_size=50) | st.sampled_from([message(error={"code": 1, "message": "why"}), b"<html>", b'{"error": "expired"}']))  # fmt: skip
def test_every_status_is_told(status: int, body: bytes) -> None:
    headers = {"content-type": "text/plain", "retry-after": "17"}
    answer = json.loads(Reader().answer(body, "id", status, headers))
    types.jsonrpc_message_adapter.validate_python(answer, by_name=False)
    assert str(status) in answer["error"]["message"]
    assert "17 s" in answer["error"]["message"]
    assert "\x1b" not in answer["error"]["message"]
    if b"why" in body:
        assert answer["error"]["code"] == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "object"}]},
        {"type": "object", "properties": {"a": {"type": "string"}, "required": ["a"]}},
        {"type": "object", "required": "a"},
        {"type": ["object"], "properties": {"a": True}},
        {"type": "object", "properties": {"a": {"x-mcp-header": "Region", "type": "string"}}},
    ],
)
def test_schemas_that_the_library_refuses_are_read(schema: dict[str, Any]) -> None:
    reader = Reader()
    made = reader.message(message(result={"tools": [tool("one", inputSchema=schema)]}))
    assert made is not None
    valid("tools/list", made)
    assert reader.page.tools[0].schema == schema


# ── streams ───────────────────────────────────────────────────────────────────────────────────────


class Request:
    def __init__(self, request: Any) -> None:
        self.body = json.dumps({"id": request, "method": "x"}).encode() if request else b""

    async def aread(self) -> bytes:
        return self.body


class Response:
    """An answer in parts."""

    def __init__(self, parts: list[bytes], kind: str, request: Any, status: int = 200) -> None:
        self.headers = {"content-type": kind}
        self.status_code = status
        self.request = Request(request)
        self.stream: Any = self._parts(parts)

    async def _parts(self, parts: list[bytes]) -> AsyncIterator[bytes]:
        for each in parts:
            yield each


def taken(parts: list[bytes], kind: str = "text/event-stream", request: Any = 3) -> bytes:
    async def run() -> bytes:
        response = Response(parts, kind, request)
        await take(response, Reader())
        return b"".join([each async for each in response.stream])

    return asyncio.run(run())


def events(text: bytes) -> list[Any]:
    lines = [line.removeprefix(b"data: ") for line in text.split(b"\n") if line.startswith(b"data")]
    return [json.loads(line) for line in lines if line]


RESULT = {"content": [{"type": "text", "text": "one"}]}
STREAM = [
    b": a comment", b"event: message", b"id: 5", b'data: {"jsonrpc": "2.0", "method": "notifications/progress"}', b"",
    b"data: " + message(method="ping"), b"", b"data:", b"", b"event: message", b'data: {"jsonrpc": "2.0",',
    b'data:"id": "other", "result": ' + json.dumps(RESULT).encode(), b"data: }", b"", b"",
]  # fmt: skip


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_the_same_wherever_a_stream_is_cut(end: bytes) -> None:
    text = end.join(STREAM)
    bytewise = [text[at : at + 1] for at in range(len(text))]
    for parts in [bytewise, *([text[:at], text[at:]] for at in range(len(text)))]:
        ping, result = events(taken(parts))
        assert ping["method"] == "ping"
        assert result["id"] == 3
        assert result["result"]["content"] == RESULT["content"]


def test_an_event_that_cannot_be_read_answers_the_request() -> None:
    for data in (b"{", b"\xff", b"[1]", b"data: " * 3):
        [answer] = events(taken([b"data: " + data + b"\n\n"]))
        assert answer["id"] == 3
        assert "cannot be read" in answer["error"]["message"]
    assert events(taken([b"data: {\n\n"], request=None)) == []


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("text", [b"x" * 900, b"data: x\n" * 200])
def test_a_body_is_read_up_to_a_length(
    kind: str, text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_MESSAGE", 500)
    parts = [text[at : at + 100] for at in range(0, len(text), 100)]
    answer = taken(parts, kind)
    [made] = events(answer) if kind.startswith("text") else [json.loads(answer)]
    assert "longer than" in made["error"]["message"]


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", ""])
def test_the_answer_over_http_answers_its_request_whatever_its_id_is(kind: str) -> None:
    for sent in (1, "1", None, [], "other"):
        body = json.dumps({"jsonrpc": "2.0", "id": sent, "result": RESULT}).encode()
        assert json.loads(taken([body], kind))["id"] == 3
