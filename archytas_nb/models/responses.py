"""OpenAI's Responses API: the body of a request, and how its replies are read.

Requests are stateless: nothing is stored at the endpoint, and all items of earlier replies, such as
encrypted reasoning, are sent back as they came and in their order.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archytas_nb.loop.events import AskModel, Delta, Json, Message, ModelReply, WireCall
from archytas_nb.models.body import (
    LENGTH_FIELDS,
    has_images,
    is_wanted,
    lowered,
    reply_tokens,
    with_images,
    without_system,
)
from archytas_nb.models.capabilities import Capabilities
from archytas_nb.models.completion import (
    NotACompletion,
    ReplyBuilder,
    ServerError,
    finish_of,
    mapping,
    string,
)
from archytas_nb.models.kept import ITEMS
from archytas_nb.models.usage import Tokens

_INCLUDE = ["reasoning.encrypted_content"]
_LEAST_TOKENS = 16
"""The least limit of a reply that OpenAI accepts."""
_MOST_CHARS = 64
"""The length of a call's id that OpenAI accepts; some endpoints send longer ones."""

# ── the body of a request ─────────────────────────────────────────────────────────────────────────


def body_of(ask: AskModel, form: Capabilities, extra: Mapping[str, Json]) -> dict[str, Json]:
    """The fields of a request except the model; `extra` are the user's, which take precedence.

    Fields of chat completions are given their names in this API.
    """
    extra = {
        name: value
        for name, value in extra.items()
        if name not in form.without and is_wanted(name, value, ask)
    }
    instructions, items = _input(ask, form)
    body: dict[str, Json] = {"input": items}
    if instructions:
        body["instructions"] = instructions
    if "store" not in form.without:
        body["store"] = False
    if "include" not in form.without:
        body["include"] = [*_INCLUDE, *_others(extra.pop("include", None), _INCLUDE)]
    if ask.tools:
        body["tools"] = [_tool(spec, strict=form.strict) for spec in ask.tools]
    if form.has_limit and (limit := _limit(ask, form, extra)) is not None:
        body["max_output_tokens"] = limit
    if reasoning := _reasoning(ask, form, extra):
        body["reasoning"] = reasoning
    if text := _text(ask, form, extra):
        body["text"] = text
    if "tool_choice" in extra:
        extra["tool_choice"] = _tool_choice(extra["tool_choice"])
    return body | extra


def _others(given: Json, known: Sequence[str]) -> list[Json]:
    return [each for each in given if each not in known] if isinstance(given, list) else []


def _limit(ask: AskModel, form: Capabilities, extra: dict[str, Json]) -> Json:
    """The maximum number of tokens of the reply; takes the user's own out of `extra`."""
    given = [extra.pop(name, None) for name in ("max_output_tokens", *LENGTH_FIELDS)]
    own = next((each for each in given if each is not None), None)
    if own is not None:
        return lowered(own, form.max_reply_tokens)
    if ask.max_tokens is None:
        return None
    return max(reply_tokens(ask, form), _LEAST_TOKENS)


def _reasoning(ask: AskModel, form: Capabilities, extra: dict[str, Json]) -> dict[str, Json]:
    """How much the model is to reason, and that a summary of it is wanted."""
    reasoning: dict[str, Json] = {}
    if "reasoning.summary" not in form.without:
        reasoning["summary"] = "auto"
    if (effort := extra.pop("reasoning_effort", None)) is not None:
        reasoning["effort"] = form.effort(effort)
    reasoning |= mapping(extra.pop("reasoning", None))
    if ask.tools and not form.reasons_with_tools:
        reasoning["effort"] = "none"
    return reasoning


def _text(ask: AskModel, form: Capabilities, extra: dict[str, Json]) -> dict[str, Json]:
    """The form of the text of the reply."""
    text: dict[str, Json] = {}
    if (verbosity := extra.pop("verbosity", None)) is not None:
        text["verbosity"] = verbosity
    if format_ := mapping(extra.pop("response_format", None)):
        text["format"] = {"type": format_.get("type"), **mapping(format_.get("json_schema"))}
    text |= mapping(extra.pop("text", None))
    if ask.schema is not None and form.schema:
        text["format"] = {"type": "json_schema", "name": "action", "schema": ask.schema}
        text["format"]["strict"] = form.strict and _is_strict(ask.schema)
    return text


def _tool_choice(choice: Json) -> Json:
    """A tool choice; chat completions have the name of a function in an object."""
    if isinstance(choice, dict) and isinstance(choice.get("function"), dict):
        return {"type": "function", **choice["function"]}
    return choice


def _tool(spec: Json, *, strict: bool) -> Json:
    """A tool in this API's format, where tools are strict unless the request says otherwise."""
    function = spec["function"]
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {
        "type": "function", **function, "parameters": schema,
        "strict": strict and _is_strict(schema),
    }  # fmt: skip


_KEYWORDS = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "$ref", "$defs", "description", "title",
})  # fmt: skip
"""Keywords of schemas that the API enforces; with others, a schema is not strict."""


def _is_strict(schema: Json) -> bool:
    """Whether a schema can be enforced: all properties are required, and there are no others."""
    if not isinstance(schema, dict) or not schema or not schema.keys() <= _KEYWORDS:
        return False
    inner = [*schema.get("anyOf", ()), *schema.get("$defs", {}).values()]
    properties = schema.get("properties", {})
    if schema.get("type") == "object" or properties:
        is_closed = schema.get("additionalProperties") is False
        if not is_closed or set(schema.get("required", ())) != set(properties):
            return False
        inner += properties.values()
    if schema.get("type") == "array":
        inner.append(schema.get("items"))
    return all(map(_is_strict, inner))


def _input(ask: AskModel, form: Capabilities) -> tuple[str, list[Json]]:
    """The instructions, and the items of the conversation."""
    messages = with_images(ask.messages, form.images, form.unseen)
    if not form.system:
        messages = without_system(messages)
    left_out = len(ask.messages) - len(messages)
    items: list[Json] = []
    instructions: list[str] = []
    ids = _Ids()
    for at, message in enumerate(messages):
        # Whether it has the images of the outcomes before it.
        is_shown = at > 0 and messages[at - 1]["role"] == "tool" and has_images(message)
        match message["role"]:
            case "system":
                instructions.append(str(message["content"]))
            case "assistant":
                aside = (
                    ask.provider_metadata.get(at + left_out) if form.extras != "unwanted" else None
                )
                items += _reply(message, aside or {}, ids)
            case "tool":
                call_id = message["tool_call_id"]
                output = {"type": "function_call_output", "call_id": ids.of.get(call_id, call_id)}
                items.append({**output, "output": message["content"]})
            case _ if is_shown and items and "output.images" not in form.without:
                # A message of the user would begin a new turn, for which reasoning is dropped.
                last = items[-1]
                parts = [*_parts(last["output"]), *_parts(message["content"])]
                items[-1] = {**last, "output": parts}
                is_shown = False
            case role:
                items.append({"role": role, "content": _content(message["content"])})
                is_shown = False
    return "\n\n".join(instructions), list(_with_distinct_ids(items))


def _with_distinct_ids(items: Iterable[Json]) -> Iterator[Json]:
    """The items, no two with the same id: some gateways count them in each reply from 1."""
    used: set[str] = set()
    for item in items:
        item_id = string(item.get("id"))
        if item_id in used:
            names = (f"{item_id}_{number}" for number in itertools.count(2))
            item_id = next(each for each in names if each not in used)
        if item_id:
            used.add(item_id)
            item = {**item, "id": item_id}  # noqa: PLW2901
        yield item


def _content(content: Json) -> Json:
    return content if isinstance(content, str) else list(_parts(content))


def _parts(content: Json) -> Iterator[Json]:
    """The parts of a content."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in content or ():
        if part["type"] == "image_url":
            yield {"type": "input_image", "detail": "auto", "image_url": part["image_url"]["url"]}
        else:
            yield {"type": "input_text", "text": part["text"]}


@dataclass(slots=True)
class _Ids:
    """The ids of calls at the endpoint, by ours; no two are the same."""

    of: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def new(self, own: str, at_endpoint: str) -> str:
        """The id of one more call: the endpoint's, unless it is too long or another call has it."""
        is_usable = at_endpoint not in self.used and 0 < len(at_endpoint) <= _MOST_CHARS
        call_id = at_endpoint if is_usable else own
        self.of[own] = call_id
        self.used.add(call_id)
        return call_id


def _reply(message: Message, aside: Mapping[str, Json], ids: _Ids) -> Iterator[Json]:
    """The items of a reply: as they came, unless they do not say what the message says."""
    text = string(message.get("content")).strip()
    calls = list(message.get("tool_calls", ()))
    places = [each.get(ITEMS) for each in aside.get("tool_calls", ())]
    by_place = dict(zip(places, calls, strict=False))
    kept = [_without_nulls(each) for each in aside.get(ITEMS, ())]
    is_said = _joined(map(_said, kept)).strip() == text
    plain = [] if is_said or not text else [{"role": "assistant", "content": message["content"]}]
    for place, item in enumerate(kept):
        match item.get("type"):
            case "message":
                if is_said:
                    yield item
            case "function_call":
                yield from plain
                plain = []
                if (call := by_place.get(place)) is not None:  # others were not run
                    calls.remove(call)
                    yield _call(call, item, ids)
            case _:
                yield item
    yield from plain
    for call in calls:
        yield _call(call, {}, ids)


def _without_nulls(item: Mapping[str, Json]) -> dict[str, Json]:
    """An item without its empty fields: some gateways add them, and refuse them in a request."""
    return {name: value for name, value in item.items() if value is not None}


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))


def _said(item: Json) -> str:
    """The text of a message of the model, also of one that is a refusal."""
    if item.get("type") != "message":
        return ""
    parts = [each for each in item.get("content") or () if isinstance(each, dict)]
    return "".join(string(each.get("text")) or string(each.get("refusal")) for each in parts)


def _call(call: Json, item: Mapping[str, Json], ids: _Ids) -> Json:
    """A call, with its id at the endpoint if no other call has the same."""
    function = call["function"]
    call_id = ids.new(call["id"], string(item.get("call_id")))
    arguments = function["arguments"]
    if _is_same(arguments, item.get("arguments")):
        arguments = item["arguments"]
    named = {"call_id": call_id, "name": function["name"], "arguments": arguments}
    return {"type": "function_call", **item, **named}


def _is_same(arguments: str, others: Json) -> bool:
    try:
        return bool(json.loads(arguments) == json.loads(others))
    except (TypeError, ValueError, RecursionError):
        return False


# ── a reply ───────────────────────────────────────────────────────────────────────────────────────

_ENDS = ("completed", "incomplete", "failed", "cancelled", "canceled")
"""The statuses of a response that has ended."""
_OF_REQUEST = re.compile(r"invalid|unsupported|not_found|image|context_length|policy|quota")
"""Parts of the codes of errors that are the request's fault.

After any other error the same request is sent again, not one with less in it.
"""


@dataclass(slots=True)
class _Item:
    """An item of a reply in progress."""

    value: dict[str, Any]
    is_done: bool = False
    pieces: dict[str, list[str]] = field(default_factory=dict)  # of its texts, by kind

    def add(self, kind: str, piece: str) -> None:
        self.pieces.setdefault(kind, []).append(piece)

    @property
    def text(self) -> str:
        """The text of a message."""
        return (self.is_done and _said(self.value)) or "".join(self.pieces.get("text", ()))

    @property
    def reasoning(self) -> str:
        """The reasoning, or a summary of it."""
        if "reasoning" in self.pieces:
            return "".join(self.pieces["reasoning"])
        if self.value.get("type") != "reasoning":
            return ""
        for name, separator in (("summary", "\n\n"), ("content", "")):
            parts = [mapping(each) for each in self.value.get(name) or ()]
            if text := separator.join(string(each.get("text")) for each in parts):
                return text
        return ""

    @property
    def arguments(self) -> str:
        """The arguments of a call; some servers send an object."""
        whole = self.value.get("arguments")
        if self.is_done and isinstance(whole, dict):
            return json.dumps(whole, ensure_ascii=False)
        streamed = "".join(self.pieces.get("arguments", ()))
        return string(whole) if self.is_done and whole else streamed or string(whole)


class ResponseBuilder(ReplyBuilder):
    """A reply while it is received."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[_Item] = []
        self._by_index: dict[int, _Item] = {}
        self._tokens = Tokens()
        self._parts: set[tuple[int, Any]] = set()  # of summaries, that have begun

    def add(self, part: Any, text: str) -> list[Delta]:
        """Add an event of a stream, or a complete response; return the pieces to display."""
        if not isinstance(part, dict):
            raise NotACompletion(text)
        kind = string(part.get("type"))
        if part.get("error") or kind == "error" or part.get("object") == "error":
            raise _error_of(part.get("error") or part, text)
        if not kind and "output" in part:
            return self._whole(part, text)
        if not kind:
            raise NotACompletion(text)
        self.has_begun = True
        name = kind.removeprefix("response.")
        if name.endswith(".delta"):
            return self._grow(name.removesuffix(".delta"), part)
        return self._event(name, part, text)

    # ── events ────────────────────────────────────────────────────────────────────────────────────

    def _event(self, name: str, part: dict[str, Any], text: str) -> list[Delta]:
        """Read an event that is not a piece of a text."""
        match name:
            case "output_item.added":
                self.has_choice = True
                self._begin(part)
            case "output_item.done":
                self.has_choice = True
                return self._finish_item(part)
            case "function_call_arguments.done":
                item = self._item(part)
                if item is not None and isinstance(part.get("arguments"), str):
                    item.pieces["arguments"] = [part["arguments"]]
            case "created" | "in_progress" | "queued":
                self.model = self.model or string(mapping(part.get("response")).get("model"))
            case _:
                response = {"status": name, **mapping(part.get("response"))}
                if response["status"] in _ENDS:  # whatever the event is called
                    return self._whole(response, text)
        return []

    def _begin(self, part: dict[str, Any]) -> _Item:
        """Begin an item; with the same number as a complete one, it is another."""
        index = part.get("output_index")
        item = self._by_index.get(index) if isinstance(index, int) else None
        if item is None or item.is_done:
            item = _Item(mapping(part.get("item")))
            self._items.append(item)
        if isinstance(index, int):
            self._by_index[index] = item
        return item

    def _item(self, part: dict[str, Any]) -> _Item | None:
        """The item that an event is about: by its number, its id, or the last one."""
        index = part.get("output_index")
        if isinstance(index, int) and index in self._by_index:
            return self._by_index[index]
        item_id = part.get("item_id")
        for item in self._items:
            if item_id and item.value.get("id") == item_id:
                return item
        return self._items[-1] if self._items and not isinstance(index, int) else None

    def _finish_item(self, part: dict[str, Any]) -> list[Delta]:
        value = mapping(part.get("item"))
        item = self._item({**part, "item_id": value.get("id")})
        is_another = item is not None and item.value.get("type") != value.get("type")
        if item is None or is_another or item.is_done:
            if (
                item is not None
                and item.is_done
                and {**item.value, "id": ""} == {**value, "id": ""}
            ):
                return []  # sent twice
            item = self._begin(part)
        item.value = value
        item.is_done = True
        return [] if item.pieces else self._shown(item)

    def _grow(self, name: str, part: dict[str, Any]) -> list[Delta]:
        piece = string(part.get("delta"))
        kind = _KINDS.get(name)
        if kind is None or not piece:
            return []
        self.has_choice = True
        item = self._item(part)
        if item is None:
            item = self._begin({"item": {"type": _TYPES[kind]}, **part})
        if name == "reasoning_summary_text":
            number = id(item), part.get("summary_index")
            if number not in self._parts and item.pieces.get(kind):
                piece = f"\n\n{piece}"
            self._parts.add(number)
        is_first = kind == "text" and kind not in item.pieces
        item.add(kind, piece)
        if kind == "arguments":
            return []
        if is_first and any(each.text for each in self._items if each is not item):
            piece = f"\n\n{piece}"
        return [Delta("text" if kind == "text" else "reasoning", piece)]

    @staticmethod
    def _shown(item: _Item) -> list[Delta]:
        pieces = [Delta("reasoning", item.reasoning), Delta("text", item.text)]
        return [each for each in pieces if each.text]

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _whole(self, response: dict[str, Any], text: str) -> list[Delta]:
        """Read a response as a whole: its end, its usage, and items that were not streamed."""
        self.has_begun = True
        self.model = string(response.get("model")) or self.model
        self._tokens = self._tokens.updated(Tokens.in_object(response.get("usage")))
        status = string(response.get("status")) or "completed"
        if status == "failed":
            raise _error_of(response.get("error") or {}, text)
        if status not in ("completed", "incomplete"):
            raise EOFError(f"the server aborted the reply: its status is {status!r}")
        output = response.get("output")
        deltas: list[Delta] = []
        if isinstance(output, list):
            self.has_choice = True
            deltas = self._add_missing([each for each in output if isinstance(each, dict)])
        has_calls = any(each.value.get("type") == "function_call" for each in self._items)
        self.finish = "tool_calls" if has_calls else "stop"
        if status == "incomplete":
            reason = string(mapping(response.get("incomplete_details")).get("reason"))
            self.finish = finish_of(reason or "length")
            if self.finish not in ("length", "content_filter"):
                self.finish = ""
                raise EOFError(f"the server aborted the reply: it is incomplete ({reason!r})")
        self.is_over = True
        return deltas

    def _add_missing(self, output: list[dict[str, Any]]) -> list[Delta]:
        """Add the items of the whole reply that did not come before, or not completely."""
        deltas: list[Delta] = []
        streamed = [*self._items]
        for value in output:
            item = next((each for each in streamed if _is_of(each.value, value)), None)
            if item is not None:
                streamed.remove(item)
                if not item.is_done:
                    item.value = value
                    item.is_done = True
                continue
            item = _Item(value, is_done=True)
            self._items.append(item)
            deltas += self._shown(item)
        return deltas

    def build(self) -> ModelReply:
        """The reply; its items are kept with it, to be sent back."""
        whole = [each for each in self._items if each.is_done or self.finish]
        if len(whole) < len(self._items):
            raise EOFError("the stream ended in the middle of the reply")
        items = [each for each in whole if not _is_empty(each)]
        calls = [
            WireCall(string(each.value.get("name")), each.arguments, {ITEMS: place})
            for place, each in enumerate(items)
            if each.value.get("type") == "function_call"
        ]
        finish = self.finish or ("tool_calls" if calls else "stop")
        # The filter may have removed a part of a call.
        if finish == "content_filter":
            calls = []
        values = [each.value for each in items if each.is_done]
        # Text and calls can be written again. Other items, such as thoughts, must go back whole.
        is_kept = len(values) == len(items) and any(map(_has_others, values))
        if not is_kept:
            calls = [WireCall(each.name, each.arguments) for each in calls]
        return ModelReply(
            text=_joined(each.text for each in items),
            calls=tuple(calls),
            reasoning=_joined(each.reasoning for each in items),
            finish=finish,
            kept={ITEMS: values} if is_kept else {},
            model=self.model,
            usage=self._tokens.usage,
            api="Responses API",
        )


_KINDS = {
    "output_text": "text",
    "refusal": "text",
    "reasoning_summary_text": "reasoning",
    "reasoning_text": "reasoning",
    "function_call_arguments": "arguments",
}
_TYPES = {"text": "message", "reasoning": "reasoning", "arguments": "function_call"}


def _is_of(streamed: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether two items are the same; gateways give one of them another id, or none."""
    if streamed.get("type") != whole.get("type"):
        return False
    for name in ("call_id", "id"):
        if streamed.get(name) and streamed.get(name) == whole.get(name):
            return True
    return streamed.get("type") != "function_call" or streamed.get("name") == whole.get("name")


def _is_empty(item: _Item) -> bool:
    """Whether an item is a message without a text, which endpoints reject."""
    return item.value.get("type") == "message" and not item.text


def _has_others(item: dict[str, Any]) -> bool:
    """Whether an item has anything that a message and its calls do not have."""
    return item.get("type") not in ("message", "function_call") or bool(item.get("phase"))


def _error_of(error: Any, text: str) -> ServerError:
    """An error in a stream or in a response, whose code is a word."""
    found = ServerError.from_object(error or {"message": "the response failed"}, text)
    code = " ".join(string(mapping(error).get(name)) for name in ("code", "type"))
    if "rate_limit" in code:
        found.status = 429
    elif found.status == 500 and _OF_REQUEST.search(code):
        found.status = 400
    return found
