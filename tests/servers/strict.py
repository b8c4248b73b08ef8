"""OpenAI's refusals of requests, in its words: the judge of every history that we send."""

from __future__ import annotations

import json
import re
from typing import Any

_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    # With the fields under which servers tell what the model thought: they get them back.
    "assistant": {
        *("role", "content", "name", "refusal", "tool_calls"),
        *("reasoning", "reasoning_content"),
    },
    "tool": {"role", "content", "tool_call_id"},
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def complaint(body: Any) -> str:
    """Why a strict server refuses this request; empty where it takes it."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str) or not body["model"]:
        return "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "[] is too short - 'messages'"
    return _messages(messages) or _tools(body) or _settings(body)


def _messages(messages: list[Any]) -> str:
    waiting: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        if not isinstance(message, dict) or message.get("role") not in _KEYS:
            return f"Invalid value for '{where}.role': {message!r}"
        role = message["role"]
        extra = set(message) - _KEYS[role]
        if extra:
            return f"Unknown parameter: '{where}.{min(extra)}'."
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"{where}: messages with role 'tool' must be a response to a message with 'tool_calls'"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return (
                f"{where}: an assistant message with 'tool_calls' must be followed by messages responding to "
                f"each 'tool_call_id'. These did not have response messages: {', '.join(waiting)}"
            )
        said = _content(message, where)
        if said:
            return said
        if "tool_calls" in message:
            said = _calls(message["tool_calls"], where)
            if said:
                return said
            waiting = [call["id"] for call in message["tool_calls"]]
    return f"'tool_calls' at the end were not answered: {waiting}" if waiting else ""


def _content(message: dict[str, Any], where: str) -> str:
    content = message.get("content")
    if content is None:
        fine = message["role"] == "assistant" and message.get("tool_calls")
        return "" if fine else f"Invalid value for '{where}.content': expected a string, got null."
    if isinstance(content, str):
        is_call = message["role"] == "assistant" and bool(message.get("tool_calls"))
        return (
            "" if is_call or content.strip() else f"{where}.content: text content must be non-empty"
        )
    if not isinstance(content, list) or not content:
        return f"Invalid type for '{where}.content': expected a string or an array of objects"
    kinds = {"text", "image_url"} if message["role"] == "user" else {"text"}
    for part in content:
        if (
            not isinstance(part, dict)
            or part.get("type") not in kinds
            or not part.get(part["type"])
        ):
            return f"Invalid value for '{where}.content': {part!r}"
    return ""


def _calls(calls: Any, where: str) -> str:
    if not isinstance(calls, list) or not calls:
        return f"Invalid '{where}.tool_calls': empty array"
    seen: set[str] = set()
    for call in calls:
        if (
            not isinstance(call, dict)
            or set(call) != {"id", "type", "function"}
            or call["type"] != "function"
        ):
            return f"Invalid '{where}.tool_calls': {call!r}"
        if not isinstance(call["id"], str) or not 0 < len(call["id"]) <= 40 or call["id"] in seen:
            return f"Invalid '{where}.tool_calls[].id': {call['id']!r}"
        seen.add(call["id"])
        function = call["function"]
        if set(function) != {"name", "arguments"} or not _NAME.fullmatch(str(function["name"])):
            return f"Invalid '{where}.tool_calls[].function.name': {function!r}"
        try:
            arguments = json.loads(function["arguments"])
        except (TypeError, ValueError):
            return f"Invalid '{where}.tool_calls[].function.arguments': not JSON"
        if not isinstance(arguments, dict):
            return f"Invalid '{where}.tool_calls[].function.arguments': no object"
    return ""


def _tools(body: dict[str, Any]) -> str:
    if "tools" not in body:
        return (
            "'tool_choice' is only allowed when 'tools' are specified"
            if "tool_choice" in body
            else ""
        )
    tools = body["tools"]
    if not isinstance(tools, list) or not 0 < len(tools) <= 128:
        return "Invalid 'tools': expected an array with 1 to 128 items"
    names = set()
    for at, tool in enumerate(tools):
        function = (
            tool.get("function")
            if isinstance(tool, dict) and tool.get("type") == "function"
            else None
        )
        if not isinstance(function, dict) or not _NAME.fullmatch(str(function.get("name"))):
            return f"Invalid 'tools[{at}].function.name': {tool!r}"
        if function["name"] in names:
            return f"Invalid 'tools[{at}].function.name': {function['name']!r} is there twice"
        names.add(function["name"])
        if function.get("parameters", {"type": "object"}).get("type") != "object":
            return (
                f"Invalid schema for function {function['name']!r}: schema must have type 'object'"
            )
    return ""


def _settings(body: dict[str, Any]) -> str:
    for field in ("max_tokens", "max_completion_tokens"):
        if field in body and (not isinstance(body[field], int) or body[field] < 1):
            return f"Invalid '{field}': expected a positive integer"
    if "stream_options" in body and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    kind = body.get("response_format", {}).get("type", "text")
    if kind not in ("text", "json_object", "json_schema"):
        return f"Invalid value for 'response_format.type': {kind!r}"
    schema = body.get("response_format", {}).get("json_schema", {})
    if kind == "json_schema" and not (
        _NAME.fullmatch(schema.get("name", "")) and "schema" in schema
    ):
        return "Missing required parameter: 'response_format.json_schema'"
    return ""
