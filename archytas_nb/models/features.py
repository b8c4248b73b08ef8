"""The features of a request that an endpoint may refuse: how each is left out, and what is lost.

A request is a base (the model and the messages) and features. `FEATURES` is the table of them, with
those first that endpoints refuse most often. Which of them the words of a refusal speak of only
decides what is tried first: `negotiate.py` finds out by trying what an endpoint refuses.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_args

from archytas_nb.choices import EffortName
from archytas_nb.loop.events import AskModel, Json
from archytas_nb.models import refusal_table, refusals, shapes
from archytas_nb.models.body import (
    ABOUT_TOOLS,
    LENGTH_FIELDS,
    OWN_FIELDS,
    is_out_of_turn,
    reply_tokens,
)
from archytas_nb.models.capabilities import Capabilities, Change
from archytas_nb.models.kept import ITEMS

_USUAL = frozenset({"default", "title", "examples"})
"""Keywords that many schemas have and few endpoints refuse."""
_LISTED = 4
"""Number of images whose digests name a set of them."""
_LOWER = (4096, 1024)
"""Limits of a reply that are tried where an endpoint names none."""

NAMED = 3
"""The score of a feature that a refusal names, or whose value it quotes."""
SPOKEN_OF = 2
"""The score of a feature that the words of a refusal are about."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request, and the form in which it would be sent.

    Attributes:
        fields: The user's own fields, and those of ours that can be left out (without a value).
        lacks: Features that the API does not have.
    """

    ask: AskModel
    fields: Mapping[str, Json]
    stream: bool
    lacks: frozenset[str] = frozenset()

    def limit(self, form: Capabilities) -> int | None:
        """The limit of the reply in tokens that would be sent."""
        if not form.has_limit:
            return None
        for name in LENGTH_FIELDS:
            value = self.fields.get(name)
            if isinstance(value, int):
                return min(value, form.max_reply_tokens or value)
        if self.ask.max_tokens is None:
            return None
        return reply_tokens(self.ask, form)


class Feature(NamedTuple):
    """A row of the table.

    Attributes:
        changes: The changes that are possible for a request in a form; the text is the refusal's.
        hint: A pattern of words about it.
        example: A refusal that the pattern is for.
    """

    name: str
    changes: Callable[[Request, Capabilities, str], Iterator[Change]]
    hint: re.Pattern[str]
    example: str


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def changes_of(request: Request, form: Capabilities, text: str) -> list[Change]:
    """All changes that are possible for a request in a form, in the order of the table."""
    text = text[: refusal_table.SEARCHED_CHARS]
    return [
        change
        for feature in FEATURES
        if feature.name not in request.lacks
        for change in feature.changes(request, form, text)
    ]


def _spoken_of(name: str, text: str) -> float:
    if _ROWS[name].hint.search(text):
        return SPOKEN_OF
    return 0


def _is_named(name: str, text: str) -> bool:
    """Whether a text has a name as a word; short ones and words of prose only in quotes."""
    if "_" in name:
        return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
    return re.search(rf"""["'`‘“]{re.escape(name)}["'`’”]""", text) is not None


def _has_number(number: int, text: str) -> bool:
    return re.search(rf"(?<![\d.]){number}(?!\d)", text.replace(",", "")) is not None


# ── fields ────────────────────────────────────────────────────────────────────────────────────────


def _fields(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    for name in request.fields:
        is_own = request.fields[name] is not None
        is_sent = name not in form.without and name not in LENGTH_FIELDS
        if name in ABOUT_TOOLS and not request.ask.tools:
            is_sent = False
        if name == "stop" and not is_own and (form.responses or not request.ask.stop):
            is_sent = False
        if name in OWN_FIELDS and not is_own and not form.responses:
            is_sent = False
        if not is_sent:
            continue
        score = 0.0
        in_snake_case = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
        names = (name, name.replace("_", "."))
        if any(_is_named(each, text) or _is_named(each, in_snake_case) for each in names):
            score = NAMED
        elif name in _OF_OWN and re.search(_OF_OWN[name], text, re.IGNORECASE):
            score = SPOKEN_OF
        elif re.search(rf"(?<![\w.]){re.escape(name.replace('_', ' '))}(?!\w)", text.lower()):
            score = SPOKEN_OF + (0.5 if len(name) > 3 else 0)
        yield Change(
            "field",
            name,
            lambda form, name=name: replace(form, without=form.without | {name}),  # type: ignore[misc]
            repr(name),
            f"{name!r} is left out",
            score,
            is_rare=is_own,
            is_grouped=name != "store",  # without it, what is sent is stored at the endpoint
        )


_OF_OWN = {
    "include": r"encrypted.{0,10}(?:content|reasoning)",
    "reasoning.summary": r"reasoning.{0,20}summar|summar.{0,20}reasoning",
    "output.images": r"\boutput\b",
}
"""Words about our own fields of the Responses API."""


def _effort(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """Another level of reasoning, of those that a refusal quotes: the nearest one."""
    names = ("reasoning_effort", "effort")
    sent = [request.fields[each] for each in names if each in request.fields]
    given = form.effort(next(iter(sent), None))
    if given not in _LEVELS or form.without.intersection(names):
        return
    at = _LEVELS.index(given)
    refused = {given, *dict(form.efforts)}
    quoted = [each for each in _LEVELS if each not in refused and _is_quoted(each, text)]
    if len(quoted) > 1 or (quoted and _is_quoted(given, text)):
        level = min(quoted, key=lambda each: abs(_LEVELS.index(each) - at))
        yield Change(
            "effort",
            level,
            lambda form: replace(form, efforts=form.efforts | {(given, level)}),
            f"the effort {given!r}",
            f"the effort of reasoning is {level!r}, because {given!r} is refused",
            NAMED + 1,
            is_grouped=False,
        )


_LEVELS = get_args(EffortName)[1:]


def _is_quoted(word: str, text: str) -> bool:
    return re.search(rf"""["'`‘“]{word}["'`’”]""", text) is not None


def _adaptive(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """A budget for thinking, for Anthropic's models that do not choose it themselves."""
    if "effort" in request.fields and not form.without & {"adaptive", "effort"}:
        yield Change(
            "adaptive",
            "",
            lambda form: replace(form, without=form.without | {"adaptive"}),
            "adaptive thinking",
            "",
            NAMED + 0.5 if _spoken_of("adaptive", text) else 0,
            is_rare=True,
        )


def _api(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """The other API: Responses before reasoning is given up, chat completions where it is missing.

    It is only tried where the words speak of it, or where the status says that it is missing.
    """
    is_reasoning = bool(request.ask.tools) and _spoken_of("reasoning", text)
    if form.responses:
        yield Change(
            "api",
            "chat",
            lambda form: replace(form, responses=False, strict=False),
            "the Responses API",
            "chat completions are used, because the endpoint lacks the Responses API",
            NAMED + 2 if re.search(r"chat/?\s?completions?", text, re.IGNORECASE) else 0,
            is_grouped=False,
        )
    elif _spoken_of("api", text) or refusal_table.matches("other_api", text) or is_reasoning:
        yield Change(
            "api",
            "responses",
            lambda form: replace(form, responses=True, strict=True),
            "chat completions",
            "",
            NAMED + 2,
            is_grouped=False,
        )


def _stream_options(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    is_sent = "stream_options" not in form.without and not form.responses
    if request.stream and form.stream and is_sent:
        yield Change(
            "stream_options",
            "",
            lambda form: replace(form, without=form.without | {"stream_options"}),
            "'stream_options'",
            "tokens are not counted, because 'stream_options' is left out",
            NAMED if _is_named("stream_options", text) else _spoken_of("stream_options", text),
        )


def _logprobs(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    if request.ask.alternatives and "logprobs" not in form.without and not form.responses:
        yield Change(
            "logprobs",
            "",
            lambda form: replace(form, without=form.without | {"logprobs"}),
            "'logprobs'",
            "certainty is estimated from several answers, because 'logprobs' is left out",
            NAMED if re.search(r"\b(?:top_)?log_?probs?\b", text) else 0,
            is_rare=True,
        )


def _stream(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    if request.stream and form.stream:
        yield Change(
            "stream",
            "",
            lambda form: replace(form, stream=False),
            "streaming",
            "replies arrive in one piece, not streamed",
            _spoken_of("stream", text),
        )


def _limits(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """Another name for the limit of the reply, a lower one, or none."""
    limit = request.limit(form)
    if limit is None:
        return
    name = form.length_field
    other = LENGTH_FIELDS[1 - LENGTH_FIELDS.index(name)]
    score = _spoken_of("limit", text)
    if re.search(r"max_(?:completion_|output_)?tokens", text) or _has_number(limit, text):
        score = NAMED
    lower = _lower_limit(request, form, text, limit)
    is_too_high = score == NAMED and (_has_number(limit, text) or lower not in (None, *_LOWER))
    if other not in form.without and other not in request.lacks and not form.responses:
        yield Change(
            "limit",
            f"as {other}",
            lambda form: replace(form, length_field=other, without=form.without | {name}),
            repr(name),
            "",
            score - (0.5 if is_too_high else 0),
            is_grouped=False,
        )
    own = limit if any(each in request.fields for each in LENGTH_FIELDS) else None
    if lower is not None:
        yield Change(
            "limit",
            f"of {lower}",
            lambda form: replace(form, max_reply_tokens=lower),
            f"more than {lower:,} tokens",
            f"replies have at most {lower:,} tokens" if own else "",
            score,
            is_grouped="no limit" in request.lacks,
            is_number=True,
        )
    if "no limit" not in request.lacks:
        told = f"the limit of {own:,} tokens for a reply is left out" if own else ""
        yield Change(
            "limit",
            "none",
            lambda form: replace(form, has_limit=False),
            "a limit of the reply",
            told,
            score - 0.5,
        )


def _lower_limit(request: Request, form: Capabilities, text: str, limit: int) -> int | None:
    """A lower limit of the reply: what the text says, or the next one of ours."""
    if fitting := refusals.room_for_reply(text, limit):
        return fitting
    numbers = [int(each) for each in re.findall(r"(?<![\d.])\d{2,9}(?![\d.]*\d)", text)]
    least = min(refusals.MIN_REPLY_TOKENS, limit - 1)
    if said := [each for each in numbers if least <= each < limit]:
        # Of the request and its reply together, half is left to the reply.
        is_total = re.search(r"\binput|\bprompt|\bcontext", text) is not None
        return max(said) // 2 if is_total and max(said) // 2 >= least else max(said)
    lower = [each for each in _LOWER if each < limit]
    is_about_limit = form.length_field in text or _has_number(limit, text)
    if "no limit" in request.lacks or is_about_limit:
        return next(iter(lower), None)
    return None


def _response_format(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    if request.ask.schema is not None and form.schema:
        score = _spoken_of("response_format", text)
        yield Change(
            "response_format",
            "",
            lambda form: replace(form, schema=False),
            "response_format",
            "",
            NAMED if re.search(r"response_format|json_schema|json_object", text) else score,
            value=hashlib.sha256(json.dumps(request.ask.schema).encode()).hexdigest(),
        )


def _reasoning(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """Since gpt-5.4, OpenAI accepts tools in chat completions only without reasoning."""
    if request.ask.tools and form.reasons_with_tools and not form.responses:
        yield Change(
            "reasoning",
            "",
            lambda form: replace(form, reasons_with_tools=False),
            "reasoning",
            "the model does not reason while it has tools, for which reasoning_effort='none' is "
            "sent (protocol='react' keeps the reasoning)",
            NAMED + 1 if _spoken_of("reasoning", text) else 0,
            is_grouped=False,
            adds="reasoning_effort",
        )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _images(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """At most this many images, if the text says so; else without those of this conversation."""
    found = images_in(request.ask, form)
    if not found:
        return
    most = refusals.image_limit(text)
    sent = refusals.count_images(request.ask.messages)
    if form.images is not None:
        sent = min(sent, form.images)
    if most is not None and most < sent:
        few = f"at most {most} images" if most else "no images"
        yield Change(
            "images",
            str(most),
            lambda form: replace(form, images=most),
            "images",
            f"{few} are sent, and a line of text in place of the others",
            NAMED,
            is_rare=True,
        )
        return
    yield Change(
        "images",
        " ".join(sorted(found)[:_LISTED]),
        lambda form: replace(form, unseen=form.unseen | found),
        "images",
        "a line of text is sent in place of the images",
        _spoken_of("images", text),
        is_rare=True,
    )


def images_in(ask: AskModel, form: Capabilities) -> frozenset[str]:
    """The digests of the images that would be sent."""
    if form.images == 0:
        return frozenset()
    found = set()
    for message in ask.messages:
        content = message.get("content")
        for part in content if isinstance(content, (list, tuple)) else ():
            if refusals.is_image(part):
                found.add(refusals.image_digest(part))
    return frozenset(found - form.unseen)


def _returned(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """The parts of its earlier replies that an endpoint wants back, or refuses."""
    if form.thoughts is False and refusal_table.matches("wants_thoughts", text):
        yield Change(
            "thoughts",
            "",
            lambda form: replace(form, thoughts=True),
            "unknown thoughts",
            "",
            NAMED,
            is_grouped=False,
        )
    if form.extras != "required" and refusal_table.matches("wants_signatures", text):
        yield Change(
            "signatures",
            "",
            lambda form: replace(form, extras="required"),
            "unknown signatures",
            "",
            NAMED,
            is_grouped=False,
        )
    if request.ask.provider_metadata and (form.extras != "unwanted" or form.thoughts):
        yield Change(
            "returned",
            "",
            lambda form: replace(form, extras="unwanted", thoughts=False),
            "the model's thoughts",
            "the model's thoughts are not sent back to it",
            NAMED + 1 if _quotes_an_id(request.ask, text) else _spoken_of("returned", text),
        )


def _quotes_an_id(ask: AskModel, text: str) -> bool:
    """Whether a text has the id of an item that goes back."""
    items = [item for aside in ask.provider_metadata.values() for item in aside.get(ITEMS, ())]
    return any(str(each["id"]) in text for each in items if each.get("id"))


def _system(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    roles = [message["role"] for message in request.ask.messages[:2]]
    if form.system and roles == ["system", "user"]:
        yield Change(
            "system",
            "",
            lambda form: replace(form, system=False),
            "a system prompt",
            "",
            _spoken_of("system", text),
        )


def _no_content(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """Replies with calls and no text have ``null`` as content, as OpenAI defines it."""
    if form.null_content and any(each.get("content") is None for each in request.ask.messages):
        yield Change(
            "null",
            "",
            lambda form: replace(form, null_content=False),
            "null as content",
            score=_spoken_of("null", text),
        )


def _turns(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    """The images of a result, and what a person says meanwhile, follow no reply."""
    messages = request.ask.messages
    pairs = zip(messages[1:], messages, strict=False)
    if form.free_turns and not form.responses and any(is_out_of_turn(*pair) for pair in pairs):
        yield Change(
            "turns",
            "",
            lambda form: replace(form, free_turns=False),
            "a message of the user after a result",
            score=_spoken_of("turns", text),
        )


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def _strict(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
    if request.ask.tools and form.strict:
        yield Change(
            "strict",
            "",
            lambda form: replace(form, strict=False),
            "strict tools",
            "",
            _spoken_of("strict", text),
        )


def _tool_changes(
    shape: str, applies: Callable[[Json, frozenset[str]], bool]
) -> Callable[[Request, Capabilities, str], Iterator[Change]]:
    """The changes that give tools another shape; `applies` to a function and its shapes so far."""

    def changes(request: Request, form: Capabilities, text: str) -> Iterator[Change]:
        for index, spec in enumerate(request.ask.tools):
            if "function" not in spec:
                continue
            key = shapes.digest(spec)
            known = frozenset(name for tool, name in form.shapes if tool == key)
            function = spec["function"]
            if shape in known or not applies(function, known):
                continue
            told, words = _loss(shape, function)
            score = _spoken_of(shape, text)
            if _names_tool(function["name"], index, text):
                score = NAMED + score / 10
            elif any(re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text) for each in words):
                score = NAMED
            yield Change(
                shape,
                f"{function['name']} {key}",
                lambda form, key=key: replace(form, shapes=form.shapes | {(key, shape)}),  # type: ignore[misc]
                f"{_LACKS[shape]} of {function['name']!r}",
                told,
                score,
                is_rare=shape != "typed" and not _USUAL.issuperset(words or [shape]),
            )

    return changes


_LACKS = {
    "plain": "parts of the schema",
    "typed": "most of the schema",
    "short": "the long description",
    "ascii": "the names",
}


def _names_tool(name: str, index: int, text: str) -> bool:
    path = rf"(?:tools|functions|function_declarations)(?:\[|\.){index}\b"
    return _is_named(name, text) or re.search(path, text) is not None


def _loss(shape: str, function: Json) -> tuple[str, list[str]]:
    """The loss of a tool in a shape, and the words that a refusal may quote."""
    name = function["name"]
    schema = function.get("parameters") or {}
    if shape == "short":
        size = len(function.get("description") or "")
        return f"the descriptions of the tool {name!r} are cut", [str(size)] if size else []
    if shape == "ascii":
        return f"the tool {name!r} is offered with other names of ASCII letters", []
    after = shapes.plain(schema) if shape == "plain" else shapes.typed(schema)
    found = shapes.lost(schema, after)
    words = {word for each in found.values() for word in each}
    if shape == "typed":
        return f"the tool {name!r} is described by types and names only", []
    of_parameters = [
        f"the parameter {parameter!r} of the tool {name!r} is described without "
        f"{', '.join(map(repr, each))}"
        for parameter, each in found.items()
        if parameter
    ]
    told = " and ".join(of_parameters) or f"the tool {name!r} has a simpler schema"
    return told, sorted(words)


def _is_plainer(function: Json, _known: frozenset[str]) -> bool:
    schema = function.get("parameters") or {}
    return bool(shapes.plain(schema) != schema)


def _is_shorter(function: Json, _known: frozenset[str]) -> bool:
    return bool(shapes.shortened(function) != function)


def _is_odd(function: Json, _known: frozenset[str]) -> bool:
    return shapes.has_odd_names(function)


def _is_more_than_types(function: Json, known: frozenset[str]) -> bool:
    schema = function.get("parameters")
    if not schema or schema == shapes.typed(schema):
        return False
    return "plain" in known or not _is_plainer(function, known)


def _tools(request: Request, _form: Capabilities, text: str) -> Iterator[Change]:
    """All tools; the text protocol offers them without."""
    if request.ask.tools:
        score = _spoken_of("tools", text)
        if not score and re.search(r"(?<![\w.])tools?(?![\w.\[])", text):
            score = 1
        yield Change("tools", "", lambda form: form, "tools", score=score)


_NO = (
    r"(?:not .{0,20}(?:support|permit|allow|enabl|available)"
    r"|unsupported|unrecogni[sz]ed|unknown|extra|requires? |expect|too (?:long|many))"
)
_TOOLS = r"\b(?:tools?|tool_choice|tool.?(?:use|call(?:s|ing)?)|functions?.?call(?:s|ing)?)\b"

FEATURES: tuple[Feature, ...] = (
    Feature(
        "api", _api, _words(r"/responses\b|\bresponses api\b"),
        "This model is only supported in v1/responses and not in v1/chat/completions.",
    ),
    Feature(
        "effort", _effort, _words(r"supported values"),
        "Unsupported value: 'minimal'. Supported values are: 'low', 'medium', and 'high'.",
    ),
    Feature(
        "field", _fields, _words(r"(?!)"),
        "Unsupported parameter: 'temperature' is not supported with this model.",
    ),
    Feature(
        "adaptive", _adaptive, _words(r"adaptive|thinking|output_config|\beffort\b"),
        "adaptive thinking is not supported on this model",
    ),
    Feature(
        "images", _images, _words(r"\bimages?\b|image_url|vision|multimodal|mmproj"),
        "this model does not support image input",
    ),
    Feature(
        "plain", _tool_changes("plain", _is_plainer),
        _words(r"schema|grammar|\bparameters\b|keyword|propert|regex|\bpattern"),
        "failed to parse grammar",
    ),
    Feature(
        "ascii", _tool_changes("ascii", _is_odd), _words(r"\bnames?\b|a-z|ascii|pattern"),
        "Invalid 'tools[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.",
    ),
    Feature(
        "short", _tool_changes("short", _is_shorter), _words(r"description|string too long"),
        "Invalid 'tools[1].function.description': string too long.",
    ),
    Feature(
        "response_format", _response_format,
        _words(r"response_format|json|schema|grammar|structured|guided"),
        "response_format is not supported",
    ),
    Feature(
        "strict", _strict, _words(r"\bstrict|schema|compil|grammar"),
        "Compiled grammar is too large. Reduce the number of strict tools.",
    ),
    Feature(
        "limit", _limits, _words(r"tokens?\b|max_?(?:new_?)?tokens|maxOutputTokens"),
        "Range of max_tokens should be [1, 8192]",
    ),
    Feature(
        "logprobs", _logprobs, _words(r"log_?prob"),
        "'logprobs' is not supported with this model.",
    ),
    Feature(
        "stream_options", _stream_options, _words(r"stream_options|include_usage"),
        "Unrecognized request argument supplied: stream_options",
    ),
    Feature(
        "stream", _stream, _words(r"\bstream(?:ing|ed)?\b"),
        "Your organization must be verified to stream this model.",
    ),
    Feature(
        "returned", _returned, _words(r"reasoning|thinking|thought|signature|extra_content"),
        "Unknown parameter: 'messages[2].reasoning_content'.",
    ),
    Feature(
        "system", _system, _words(r"\bsystem (?:role|message|prompt|instruction)|'system'|developer"
                                  r"|only user and assistant"),
        "System role not supported",
    ),
    Feature(
        "null", _no_content, _words(r"\bcontent\b|\bnull\b|\bnil\b|\bnone\b"),
        "invalid message content type: <nil>",
    ),
    Feature(
        "turns", _turns, _words(r"alternat|\broles?\b|after (?:a |role )?['\"]?tool"),
        "Unexpected role 'user' after role 'tool'",
    ),
    Feature(
        "reasoning", _reasoning, _words(r"\btools?\b.{0,40}\breasoning|reasoning.{0,40}\btools?\b"),
        "Function tools with reasoning_effort are not supported in /v1/chat/completions.",
    ),
    Feature(
        "typed", _tool_changes("typed", _is_more_than_types),
        _words(r"schema|grammar|\bparameters\b|propert|anyOf|\btype\b"),
        "Invalid schema for function 'f': 'anyOf' is not permitted.",
    ),
    Feature(
        "tools", _tools, _words(rf"{_TOOLS}.{{0,60}}{_NO}|{_NO}.{{0,60}}{_TOOLS}|support tool use"),
        "registry.example/library/gemma:latest does not support tools",
    ),
)  # fmt: skip
"""The features of requests; the first rows are tried first if nothing is known."""
_ROWS: dict[str, Any] = {feature.name: feature for feature in FEATURES}
