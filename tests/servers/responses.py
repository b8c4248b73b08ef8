"""The Responses API of the false server: what it refuses, and how it sends a message.

It is written from the types of the client's package: the fields of a request and of its items are
read from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openai.types.responses import (
    easy_input_message_param,
    response_create_params,
    response_function_tool_call_param,
    response_input_item_param,
    response_output_message_param,
    response_reasoning_item_param,
)

Json = Any
_FIELDS = (
    response_create_params.ResponseCreateParamsBase.__required_keys__
    | response_create_params.ResponseCreateParamsBase.__optional_keys__
    | {"stream"}
)
_TYPES: dict[str, Any] = {
    "reasoning": response_reasoning_item_param.ResponseReasoningItemParam,
    "function_call": response_function_tool_call_param.ResponseFunctionToolCallParam,
    "function_call_output": response_input_item_param.FunctionCallOutput,
    "message": response_output_message_param.ResponseOutputMessageParam,
    "": easy_input_message_param.EasyInputMessageParam,
}


class Responses:
    """The state of a server's API: the items that it has sent.

    Attributes:
        issued: The items of its replies, in order.
    """

    def __init__(self) -> None:
        self.issued: list[dict[str, Json]] = []
        self._count = 0

    # ── requests ──────────────────────────────────────────────────────────────────────────────────

    def complaint(self, body: Json) -> str:
        """Why this request is refused; empty where it is accepted."""
        for name in body:
            if name not in _FIELDS:
                return f"Unknown parameter: '{name}'."
        if body.get("store") is not False:
            return "'store' is true, and this organization may not store responses."
        items = body.get("input")
        if not items:
            return "One of 'input' or 'previous_response_id' must be provided."
        said = self._items(items) or self._order(items)
        return said or next(filter(None, map(_tool, body.get("tools") or ())), "")

    def _items(self, items: list[dict[str, Json]]) -> str:
        for at, item in enumerate(items):
            kind = item.get("type", "message" if "id" in item else "")
            if kind not in _TYPES:
                return f"Invalid value for 'input[{at}].type': {kind!r}."
            made = _TYPES[kind]
            for name in made.__required_keys__ - item.keys():
                if not (kind == "" and name == "type"):
                    return f"Missing required parameter: 'input[{at}].{name}'."
            for name in item.keys() - made.__required_keys__ - made.__optional_keys__:
                return f"Unknown parameter: 'input[{at}].{name}'."
            if kind == "reasoning" and item not in self.issued:
                return f"Item {item['id']!r} could not be verified: it was changed."
        return ""

    def _order(self, items: list[dict[str, Json]]) -> str:
        open_calls: list[str] = []
        seen: set[str] = set()
        for at, item in enumerate(items):
            kind = item.get("type")
            item_id = str(item.get("id", f"none-{at}"))
            if item_id in seen:
                return f"Duplicate item found with id {item_id}."
            seen.add(item_id)
            if kind == "function_call":
                if item["call_id"] in seen:
                    return f"Duplicate call_id {item['call_id']}."
                seen.add(item["call_id"])
                open_calls.append(item["call_id"])
                before = self._reasoning_before(item_id)
                if before and before not in seen:
                    return (
                        f"Item {item_id!r} of type 'function_call' was provided without its required "
                        f"'reasoning' item: {before!r}."
                    )
            elif kind == "function_call_output":
                if item["call_id"] not in open_calls:
                    return f"No tool call found for function call output with call_id {item['call_id']}."
                open_calls.remove(item["call_id"])
            elif kind == "reasoning":
                after = items[at + 1] if at + 1 < len(items) else {}
                is_of_model = after.get("role") == "assistant" or after.get("type") in (
                    "reasoning", "function_call",
                )  # fmt: skip
                if not is_of_model:
                    return f"Item {item_id!r} of type 'reasoning' was provided without its required following item."
        return f"No tool output found for function call {open_calls[0]}." if open_calls else ""

    def _reasoning_before(self, item_id: str) -> str:
        """The id of the reasoning that came right before an item, if there was any."""
        ids = [each["id"] for each in self.issued]
        if item_id not in ids:
            return ""
        at = ids.index(item_id) - 1
        return ids[at] if at >= 0 and self.issued[at]["type"] == "reasoning" else ""

    # ── replies ───────────────────────────────────────────────────────────────────────────────────

    def items(self, message: dict[str, Json]) -> list[dict[str, Json]]:
        """The items of a message of chat completions; its reasoning comes first."""
        items: list[dict[str, Json]] = []
        if thought := message.get("reasoning_content") or message.get("reasoning"):
            summary = [{"type": "summary_text", "text": thought}]
            items.append({"id": self._id("rs"), "type": "reasoning", "summary": summary})
            items[-1]["encrypted_content"] = f"gAAAA-{items[-1]['id']}-{len(thought)}"
        if text := message.get("content"):
            parts = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
            made = {"id": self._id("msg"), "type": "message", "role": "assistant"}
            items.append({**made, "status": "completed", "content": parts})
        for call in message.get("tool_calls", ()):
            made = {"id": self._id("fc"), "type": "function_call", "status": "completed"}
            call_id = call.get("id", "")
            if (
                call_id.startswith("call_") and call_id != "call_x"
            ):  # not one that is to be repeated
                call_id = f"{call_id}_{self._count}"
            items.append({**made, "call_id": call_id, **call["function"]})
        self.issued += items
        return items

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count:04}"


def response(model: str, items: list[Json], finish: str, usage: Json) -> dict[str, Json]:
    """A response as a whole, by the finish reason that chat completions have."""
    whole: dict[str, Json] = {
        "id": "resp_1", "object": "response", "created_at": 0, "model": model, "output": items,
        "status": "completed", "error": None, "incomplete_details": None,
    }  # fmt: skip
    if finish in ("length", "content_filter"):
        reason = "max_output_tokens" if finish == "length" else finish
        whole |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    if usage:
        sent, cached, output = usage
        whole["usage"] = {
            "input_tokens": sent, "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": output, "output_tokens_details": {"reasoning_tokens": output // 2},
            "total_tokens": sent + output,
        }  # fmt: skip
    return whole


def events(whole: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The events of a streamed response."""
    begun = {**whole, "output": [], "status": "in_progress", "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(whole["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        yield {"type": "response.output_item.added", "output_index": index, "item": _empty(item)}
        yield from _pieces(item, at)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _empty(item: Json) -> Json:
    empty = {"content": [], "summary": [], "arguments": ""}
    begun = {name: empty.get(name, value) for name, value in item.items()}
    return {**begun, "status": "in_progress"}


def _pieces(item: Json, at: Json) -> Iterator[Json]:
    if item["type"] == "function_call":
        yield from _deltas("function_call_arguments", item["arguments"], at)
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **at, **done}
    for index, part in enumerate(item.get("summary", ())):
        where = {**at, "summary_index": index}
        empty = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **where, "part": empty}
        yield from _deltas("reasoning_summary_text", part["text"], where)
        yield {"type": "response.reasoning_summary_text.done", **where, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **where, "part": part}
    for index, part in enumerate(item.get("content", ())):
        where = {**at, "content_index": index}
        yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
        yield from _deltas("output_text", part["text"], where)
        yield {"type": "response.output_text.done", **where, "text": part["text"]}
        yield {"type": "response.content_part.done", **where, "part": part}


def _deltas(name: str, text: str, where: Json) -> Iterator[Json]:
    for at in range(0, len(text), 5):
        yield {"type": f"response.{name}.delta", **where, "delta": text[at : at + 5]}


def messages(body: Json) -> list[Json]:
    """The conversation of a request as messages of chat completions."""
    found: list[Json] = []
    if "instructions" in body:
        found.append({"role": "system", "content": body["instructions"]})
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            found.append({"role": item["role"], "content": _content(item["content"])})
        elif kind == "function_call":
            if found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": None})
            function = {name: item[name] for name in ("name", "arguments")}
            call = {"id": item["call_id"], "type": "function", "function": function}
            found[-1].setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            output = {"role": "tool", "tool_call_id": item["call_id"]}
            found.append({**output, "content": _content(item["output"])})
    return found


def chat_form(body: Json) -> dict[str, Json]:
    """A request with the fields of chat completions."""
    others = {
        "input", "instructions", "tools", "max_output_tokens", "reasoning", "text", "store",
        "include",
    }  # fmt: skip
    found = {name: value for name, value in body.items() if name not in others}
    found["messages"] = messages(body)
    if "tools" in body:
        found["tools"] = [
            {"type": "function", "function": {k: v for k, v in each.items() if k != "type"}}
            for each in body["tools"]
        ]
    if "max_output_tokens" in body:
        found["max_completion_tokens"] = body["max_output_tokens"]
    if "effort" in body.get("reasoning", {}):
        found["reasoning_effort"] = body["reasoning"]["effort"]
    if "format" in body.get("text", {}):
        found["response_format"] = body["text"]["format"]
    return found


def _content(content: Json) -> Json:
    if isinstance(content, str):
        return content
    if all(part["type"] == "output_text" for part in content):
        return "".join(part["text"] for part in content)
    return [
        {"type": "image_url", "image_url": {"url": part["image_url"]}}
        if part["type"] == "input_image"
        else {"type": "text", "text": part["text"]}
        for part in content
    ]


def _tool(tool: Json) -> str:
    if tool.get("type") != "function" or "strict" not in tool or "parameters" not in tool:
        return f"Missing required parameter of the tool {tool.get('name')!r}."
    if tool["strict"] and not _is_closed(tool["parameters"]):
        return f"Invalid schema for function {tool['name']!r}: 'additionalProperties' is required to be false."
    return ""


def _is_closed(schema: Json) -> bool:
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        is_whole = set(schema.get("required", ())) == set(properties)
        if schema.get("additionalProperties") is not False or not is_whole:
            return False
    return all(map(_is_closed, [*properties.values(), schema.get("items")]))
