"""A server of no latency: fixed bytes for fixed requests, so that what is measured is the client.

Run as ``python -m benchmarks.speed.server``; it prints its port. The path says what it plays, so that no body
need be read: below ``/steps-50-native-whole/`` it calls a tool 50 times and then answers (``react`` for the text
protocol, ``calling`` for agents whose answer is a call, ``streamed`` for a stream), below ``/tokens-2000/`` it
streams so many tokens. It is a process of its own: to share an interpreter lock with the client would be to
measure the lock.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from typing import Any

_PLAY = re.compile(rb"POST /(steps|tokens)-(\d+)(-react|-native|-calling)?(-streamed|-whole)?/")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def main() -> None:
    """Serve until standard input is closed."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


_done: dict[bytes, int] = {}
"""Steps so far by path: a client may open another connection in the middle of a run."""


def _serve(connection: socket.socket) -> None:
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = connection.recv(1 << 20)
            if not more:
                return
            data += more
        head, data = data.split(b"\r\n\r\n", 1)
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        have = len(data)
        while have < size:
            have += len(connection.recv(1 << 20))
        data = b""
        played = _PLAY.match(head)
        if played is None:
            raise ValueError(f"no play is at {head[:80]!r}")
        if played[1] == b"tokens":
            connection.sendall(_tokens(int(played[2])))
        else:
            done = _done.get(played[0], 0)
            done = _done[played[0]] = done + 1 if done < int(played[2]) else 0
            form, streamed = (played[3] or b"-native")[1:].decode(), played[4] == b"-streamed"
            connection.sendall(_step(done, form, streamed=streamed))


def _step(number: int, form: str, *, streamed: bool) -> bytes:
    """One call of the tool ``add``, or the answer where the number is 0; ``calling`` answers by a call too."""
    given: dict[str, Any] = {"a": number, "b": 1}
    if form == "react":
        tool, tool_input = ("add", given) if number else ("final_answer", "done")
        message: dict[str, Any] = {
            "content": json.dumps({"thought": "", "tool": tool, "tool_input": tool_input})
        }
    elif number or form == "calling":
        name, given = ("add", given) if number else ("final_answer", {"answer": "done"})
        function = {"name": name, "arguments": json.dumps(given)}
        call = {"id": f"c{number}", "type": "function", "index": 0, "function": function}
        message = {"content": None, "tool_calls": [call]}
    else:
        message = {"content": "done"}
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    key = "delta" if streamed else "message"
    choice = {"index": 0, key: {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    head = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    data = {**head, "choices": [choice], "usage": usage}
    return _events([json.dumps(data)]) if streamed else _whole(data)


def _tokens(count: int) -> bytes:
    choice = {"index": 0, "delta": {"content": " token"}, "finish_reason": None}
    data = {
        "id": "x",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "m",
        "choices": [choice],
    }
    last = {**data, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return _events([*[json.dumps(data)] * count, json.dumps(last)])


def _whole(data: object) -> bytes:
    return _response(json.dumps(data).encode(), b"application/json")


def _events(lines: list[str]) -> bytes:
    return _response(
        "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode(), b"text/event-stream"
    )


def _response(body: bytes, kind: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        kind,
        len(body),
        body,
    )


if __name__ == "__main__":
    main()
