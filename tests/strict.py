"""The judge of histories: what the strictest servers and chat templates take, and what prompt caches need."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from archytas_nb.models.body import with_replies_between
from tests.servers.strict import complaint


def fault_of(messages: Sequence[Any]) -> str:
    """Why a strict server would refuse these messages; empty where it takes them.

    Beside what `tests.servers.strict` refuses: roles must alternate, as many chat templates demand, the outcomes
    must stand in the order of their calls, and everything must be encodable. A server that does not take a message of
    the user behind a tool's gets a reply between them.
    """
    messages = with_replies_between(messages)
    said = complaint({"model": "m", "messages": list(messages)})
    if said:
        return said
    json.dumps(messages, allow_nan=False, ensure_ascii=False).encode()
    if messages[0]["role"] != "system":
        return "the first message is not the system's"
    turns = [message["role"] for message in messages[1:] if message["role"] != "tool"]
    if turns and turns[0] != "user":
        return "the first turn is not the user's"
    for n, message in enumerate(messages[1:-1], start=1):
        following = messages[n + 1]["role"]
        if message["role"] == following != "tool":
            return f"messages[{n}] and the one after it are both the {following}'s"
        if message["role"] == "tool" and following == "user":
            return f"messages[{n + 1}]: the assistant did not answer to the tool's outcome"
        if message.get("tool_calls"):
            ids = [call["id"] for call in message["tool_calls"]]
            answered = [each["tool_call_id"] for each in messages[n + 1 : n + 1 + len(ids)]]
            if ids != answered:
                return f"messages[{n}]: the calls {ids} are answered as {answered}"
    return ""


def is_prefix(earlier: Sequence[Any], later: Sequence[Any]) -> bool:
    """Whether a server's prompt cache of the earlier request serves the later one."""
    return list(later[: len(earlier)]) == list(earlier)
