"""Recognises the error messages of servers, and creates the errors to raise for them.

The messages are not standardized: each pattern occurs in a current release of OpenAI, Azure,
Anthropic, Gemini, Mistral, DeepSeek, Groq, OpenRouter, vLLM, llama.cpp, Ollama or LM Studio.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from archytas_nb.errors import ModelError, ModelErrorKind
from archytas_nb.loop.events import AskModel
from archytas_nb.models.completion import ServerError
from archytas_nb.models.secrets import mask_secrets, replaced
from archytas_nb.settings import where_to_set
from archytas_nb.words import nearest, one_line

CONNECT_SECONDS = 10.0
"""Maximum time to connect, for all addresses of the host together."""
MAX_WAIT_SECONDS = 60.0
"""Maximum Retry-After in seconds; if a server asks for more, the request fails at once."""
SEARCHED_CHARS = 1000
"""Number of characters in which patterns are searched; some servers echo the conversation."""
_CLEANED = 20_000
"""Number of characters that may be shown, without secrets; the rest is dropped."""
_MIN_SECRET_PREFIX = 10
"""Minimum length of a secret's prefix that is hidden, too: a text may be cut inside a secret."""
_MIN_SECRET = 16
"""Minimum length of a header or query value that is treated as a secret."""
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

_NO = (
    r"(?:not .{0,20}(?:support|permit|allow|enabl|available)"
    r"|unsupported|unrecogni[sz]ed|unknown|extra|requires? )"
)
_TOOLS = r"\b(?:tools?|tool_choice|tool.?(?:use|call(?:s|ing)?)|functions?.?call(?:s|ing)?)\b"
_REGEXES = {
    "overflow": r"context_length_exceeded|exceed_context_size|\bcontext size has been exceeded"
    r"|prompt(?: is|:)? too long|maximum (?:context|prompt|model|allowed input|input) length"
    r"|(?:exceed|longer|greater|overflow).{0,60}\bcontext\b|\bcontext\b.{0,40}(?:exceed|overflow)"
    r"|reached context length|input tokens? .{0,40}exceed|max_model_len"
    r"|reduce the length of the (?:messages|prompt|input)",
    "no_tools": rf"{_TOOLS}.{{0,60}}{_NO}|{_NO}.{{0,60}}{_TOOLS}|support tool use",
    # If the server rejects the messages, that does not mean that it rejects tools.
    "bad_history": r"tool_call_id|'tool_calls'|role\W{1,3}tool|messages?(?:\[|\.\d)|messages? with",
    # Since gpt-5.4, OpenAI accepts tools only with reasoning_effort="none".
    "no_reasoning_with_tools": rf"\btools?\b.{{0,20}}\breasoning_effort\b.{{0,20}}{_NO}",
    "other_api": r"only (?:supported|available) (?:in|with|by|via|through|on) .{0,20}/?responses\b"
    r"|not (?:a chat model|supported|available).{0,60}/?chat/completions"
    r"|/?chat/completions.{0,20} not (?:supported|available)"
    r"|chatCompletion operation does not work with",
    "no_images": r"image_url is only supported|\bmmproj\b|not a multimodal model"
    r"|(?:unknown variant|unsupported content).{0,20}image_url|content must be a string"
    r"|support images?\b(?! (?:format|type|size|of|with|larger))"
    r"|images?(?: inputs?)? (?:is|are) not (?:supported|enabled)|missing data required for image",
    "no_model": r"\bmodel\b.{0,120}(?:not (?:found|exist|available)|unknown)"
    r"|model_not_found|(?:unknown|invalid) model",
    "filter": r"\bcontent_filter\b|content management policy|ResponsibleAIPolicy",
    "bad_key": r"api.?key (?:is )?(?:not valid|invalid|not found|expired)"
    r"|(?:invalid|incorrect|missing) api.?key",
    "bad_format": r"response_format|json_schema|json_object|grammar",
    "wants_thoughts": r"reasoning_content\b.{0,60}\b(?:missing|required|must be)\b"
    r"|\bmissing\b.{0,60}\breasoning_content\b",
    "wants_signatures": r"missing .{0,20}thought_?signature",
    "bad_thoughts": r"\bthinking\b.{0,40}\bblocks?\b|invalid `?signature",
    "no_system": r"system (?:role|messages?|prompts?) (?:is |are )?not (?:supported|allowed)"
    r"|not support (?:the )?'system'|only user and assistant roles"
    r"|developer instruction is not enabled",
}
_PATTERNS = {name: re.compile(text, re.IGNORECASE | re.DOTALL) for name, text in _REGEXES.items()}
_UNLESS = {"no_tools": "bad_history", "other_api": "no_reasoning_with_tools"}

_CONTEXT = re.compile(
    r"maximum (?:context|model|prompt|allowed input) length (?:is|of) ?(\d+)"
    r"|maximum context length \((\d+)\)"
    r"|context (?:length|size)(?: (?:is|of))?(?: only)? ?\(?(\d+)|\bn_ctx=(\d+)"
    r"|too long: \d+ tokens? > (\d+) maximum|context limit: \d+ \+ \d+ > (\d+)",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"(\d+) (?:in the messages|input tokens|of text input)|\bn_prompt_tokens=(\d+)"
    r"|context limit: (\d+) \+"
)
_MAX_TOKENS = re.compile(
    r"at most (\d+) (?:completion |output )?tokens|max_tokens: \d+ > (\d+)"
    r"|max[_ ](?:completion_)?tokens`? must be less than or equal to `?(\d+)"
    r"|valid range of max_tokens is \[1, (\d+)\]|can only afford (\d+)|the model limit of (\d+)"
)


def matches(what: str, text: str) -> bool:
    """Whether the beginning of a server's text matches a pattern of `_REGEXES`."""
    text = text[:SEARCHED_CHARS]
    unless = _UNLESS.get(what)
    return bool(_PATTERNS[what].search(text)) and not (unless and _PATTERNS[unless].search(text))


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text[:SEARCHED_CHARS])
    return int(next(filter(None, found.groups()))[:12]) if found else None


def context_tokens(text: str) -> int | None:
    """The context length in the error for a conversation that is too long."""
    return (_number(_CONTEXT, text) if matches("overflow", text) else None) or None


def prompt_tokens(text: str) -> int | None:
    """The number of prompt tokens, if the text contains it."""
    return _number(_PROMPT, text)


def token_limit(text: str, asked: int = 0) -> int | None:
    """The highest allowed `max_tokens`, if the refusal of `asked` tokens contains it."""
    text = text[:SEARCHED_CHARS]
    if found := re.search(r"from 1 \(inclusive\) to (\d{1,12}) \(exclusive\)", text):  # Gemini
        return int(found[1]) - 1
    if found := re.search(r"\bLimit:? (\d{1,12}), Requested:? (\d{1,12})", text):  # with the prompt
        return int(found[1]) - (int(found[2]) - asked)
    return _number(_MAX_TOKENS, text)


def image_limit(text: str) -> int | None:
    """The maximum number of images in a request, or None if the text does not say."""
    if limit := re.search(r"at most (\d{1,9}) image", text[:SEARCHED_CHARS], re.IGNORECASE):
        return int(limit[1])
    return 0 if matches("no_images", text) else None


def refused_field(text: str, names: Iterable[str]) -> str | None:
    """The first of these fields that a server rejects by name, or None."""
    for name in names:
        field = rf"(?<![\w.]){re.escape(name)}(?!\w)"
        pattern = rf"{field}.{{0,60}}(?:{_NO}|deprecated|removed)|{_NO}.{{0,60}}{field}"
        if re.search(pattern, text[:SEARCHED_CHARS], re.IGNORECASE | re.DOTALL):
            return name
    return None


def count_images(messages: Iterable[Mapping[str, Any]]) -> int:
    """The number of images in the messages of a request."""
    contents = [message.get("content") for message in messages]
    return sum(
        is_image(part) for each in contents if isinstance(each, (list, tuple)) for part in each
    )


def is_image(part: Any) -> bool:
    """Whether a part of a message's content is an image."""
    return isinstance(part, dict) and part.get("type") == "image_url"


# ── errors ────────────────────────────────────────────────────────────────────────────────────────


class EndpointErrors:
    """Creates the errors of one endpoint; each contains its URL and advice.

    They never contain `key`, the password of `user`, or a value in `others` (headers and queries)
    that is long enough to be a secret. `names` are the variables of the key and the URL.
    """

    def __init__(
        self,
        at: str,
        key: str = "",
        user: tuple[str, str] | None = None,
        others: Iterable[str] = (),
        names: tuple[str, str] = ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    ) -> None:
        self.key_name, self._url_name = names
        self.prefix = ""  # the prefix of the model name, if it selected the endpoint
        self._at, self._url = f"the endpoint {at!r}", at
        basic = base64.b64encode(":".join(user).encode()).decode() if user else ""
        secrets = [key, basic, user[1] if user else ""]
        secrets += [each for each in others if len(each) >= _MIN_SECRET]
        self._secrets = [each for each in secrets if each]

    def clean(self, text: str) -> str:
        """The beginning of a server's text, without secrets."""
        text = text[:_CLEANED]
        for secret in self._secrets:
            text = replaced(text, secret, "…")
            for length in range(len(secret) - 1, _MIN_SECRET_PREFIX - 1, -1):
                text = text.replace(secret[:length], "…")
        return mask_secrets(text)

    def of_client(
        self, error: Exception, timeout: float, model: str, ask: AskModel | None
    ) -> ModelError:
        """The error for an exception of the client or of a hook of its connection.

        `timeout` is in seconds without data; `ask` is None for a request for the list of models.
        """
        cause = error.__cause__ or error
        for each in (error, cause):  # some client versions wrap the exceptions of hooks
            if isinstance(each, ModelError):
                return each
            if isinstance(each, ServerError):
                return self.of_server(each, model, ask)
        kind = type(cause).__name__
        why = self.clean(f"{kind}: {cause}")
        if "Timeout" in kind:
            return self.timed_out(timeout, "connect" if "Connect" in kind else "first byte")
        if "APIConnectionError" not in {each.__name__ for each in type(error).__mro__}:
            text = f"the request to {self._url!r} failed: {one_line(why)}."
            return ModelError(f"{text} Check the server's log.", kind="server")
        return (self.unreachable if "Connect" in kind else self.dropped)(why)

    def of_server(self, error: ServerError, model: str, ask: AskModel | None = None) -> ModelError:
        """The error for a server's response to a request to a model; `ask` as in `of_client`."""
        if error.to:  # a conversation is sent only to the configured address
            advice = (
                f"If that is the base URL of the API, set {self._url_name}, or base_url=, to it."
            )
            to = self.clean(error.to)
            text = f"{self._at} redirects to {to!r}; nothing was sent there. {advice}"
            return ModelError(text, kind="refused", status=error.status)
        codes, text = self.clean(error.codes), self.clean(error.message)
        raw = f"{text[: SEARCHED_CHARS - len(codes) - 1]} {codes}"
        reason = one_line(_page_title(text)) or "no reason given"
        reason += "" if reason.endswith((".", "!", "?", "…")) else "."
        if error.wait is not None and error.wait > MAX_WAIT_SECONDS:
            most = f"longer than the maximum of {MAX_WAIT_SECONDS:.0f} s"
            reason += f" It asked to wait {error.wait:.0f} s, {most}."
        kind, what, advice, passing = _case(error.status, raw, ask)
        what = what.format(at=self._at, model=f"model {model!r}")
        advice = advice.replace("{key}", self.key_name)
        full = f"{what} (HTTP {error.status}): {reason} {advice}".rstrip()
        return ModelError(
            full, kind=kind, status=error.status, passing=passing, wait=error.wait, refusal=raw
        )

    def unreachable(self, why: str) -> ModelError:
        """No connection could be established."""
        advice = f"Start it, or set {self._url_name} to the address of your model server."
        if is_untrusted := "certificate" in why.lower():
            advice = "Its certificate is not trusted: set SSL_CERT_FILE, or check the host name."
        elif self.prefix:
            advice = (
                f"Start it. If it has another address, set {self._url_name} to that address, and "
                f"use the model's name without '{self.prefix}:'."
            )
        text = f"no server answers at {self._url!r} ({one_line(why)}). {advice}"
        return ModelError(text, kind="unreachable", passing=not is_untrusted)

    def timed_out(self, seconds: float, during: str) -> ModelError:
        """No data for `seconds`, `during` ``"connect"``, ``"first byte"`` or ``"reply"``."""
        if during == "connect":
            text = f"could not connect to {self._url!r} within {min(CONNECT_SECONDS, seconds):g} s."
            text = f"{text} Check the address and the network."
            return ModelError(text, kind="timeout", passing=True)
        what = f"sent nothing for {seconds:g} s"
        if during == "reply":
            what = f"stopped sending for {seconds:g} s in the middle of its reply"
        advice = f"It may be busy or too slow: ask again, or raise {where_to_set('timeout')}."
        return ModelError(f"{self._at} {what}. {advice}", kind="timeout", may_be_paid=True)

    def out_of_time(self, seconds: float | None, last: str = "") -> ModelError:
        """The deadline of the request passed, possibly after a failure that would be retried."""
        left = f"the {seconds or 0:.3g} s that were left{f' after {last}' if last else ''}"
        text = f"{self._at} did not complete its reply within {left}."
        advice = "Raise max_seconds, or ask a simpler question."
        return ModelError(f"{text} {advice}", kind="deadline", may_be_paid=True)

    def dropped(self, why: str) -> ModelError:
        """The connection was closed before the reply was complete."""
        advice = "Ask again, or check the server's log."
        text = f"{self._at} disconnected before its reply was complete ({one_line(why)}). {advice}"
        return ModelError(text, kind="unreachable", passing=True, may_be_paid=True)

    def unusable(self, what: str, kind: ModelErrorKind = "server", advice: str = "") -> ModelError:
        """A response with status 200 cannot be used as a reply."""
        advice = advice or "Check the log of the server or proxy."
        text = f"{self._at} {self.clean(what)}. {advice}"
        return ModelError(text, kind=kind, status=200, may_be_paid=True)

    def not_an_api(self, body: str) -> ModelError:
        """A response with status 200 is not a chat completion."""
        page = body.lstrip()[:1] == "<"
        what = "a web page" if page else "something that is not a chat completion"
        text = f"{self._at} responded with {what}: {one_line(_page_title(body), 120)!r}."
        return ModelError(text, kind="bad_reply", status=200)


_REFUSED = "{at} refused the request for {model}"
_REMOVE_QUESTION = (
    "If further questions are refused too, remove the last one with agent.undo() or %agent_undo."
)


def _case(status: int, raw: str, ask: AskModel | None) -> tuple[ModelErrorKind, str, str, bool]:
    """The kind of an error, what happened, what to do next, and whether it is temporary."""
    # "Request too large" with 429: more tokens than allowed per minute, so waiting does not help.
    too_large = status == 413 or raw.startswith("Request too large")
    is_used_up = "insufficient_quota" in raw or "exceeded your current quota" in raw
    is_unpaid = status == 400 and "credit balance is too low" in raw  # Anthropic's message
    has_images = ask is not None and count_images(ask.messages) and "image" in raw.lower()
    is_form = matches("bad_format", raw) or matches("no_system", raw)
    cases: list[tuple[Any, ModelErrorKind, str, str, bool]] = [
        (status in (401, 403) or (status == 400 and matches("bad_key", raw)),
         "auth", "{at} rejected the API key",
         "Set {key} to a key for this endpoint.", False),
        (too_large or (status != 429 and matches("overflow", raw)),
         "overflow", "the conversation is too long for {model} at {at}",
         "Start over with agent.reset(), or use a model with a longer context.", False),
        (status == 402 or is_unpaid or (status == 429 and is_used_up),
         "rate_limit", "{at} is refusing requests",
         "Waiting does not help: check the account's credit, or use another endpoint.", False),
        (status == 429, "rate_limit", "{at} is temporarily refusing requests",
         "Wait, or use another model or endpoint.", True),
        (matches("filter", raw), "refused", _REFUSED,
         f"Rephrase the question. {_REMOVE_QUESTION}", False),
        (has_images, "refused", _REFUSED,
         f"Omit the image, use a smaller PNG or JPEG, or use another model. {_REMOVE_QUESTION}",
         False),
        (ask is not None and ask.tools and matches("no_tools", raw), "no_tools", _REFUSED,
         "It does not support tools: use protocol='react' with this model.", False),
        (matches("other_api", raw), "refused",
         "{at} does not serve {model} through chat completions",
         "Only chat completions are supported: use another model of this endpoint.", False),
        (status in (404, 405) or (status == 400 and matches("no_model", raw)),
         "not_found", "{at} does not know this path or {model}", "", False),
        ((status >= 500 or status in _RETRIED) and not is_form, "server", "{at} failed",
         "Try again later, or check the server's log.", status in _RETRIED),
        (True, "refused", _REFUSED,
         "Change the settings or the model, or check the server's log.", False),
    ]  # fmt: skip
    return next(case[1:] for case in cases if case[0])


def models_hint(names: Sequence[str], wanted: str) -> str:
    """A sentence that lists the models of an endpoint, starting with the most similar name."""
    if not names:
        return "It serves no models: load one first."
    near = [name for name in names if wanted and wanted.lower() in name.lower()][:1]
    if not near and (similar := nearest(wanted, names)):
        near = [similar]
    shown = [*near, *(name for name in names if name not in near)][:12]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    hint = f" Did you mean {near[0]!r}?" if near and near[0] != wanted else ""
    return f"It serves {', '.join(map(repr, shown))}{more}.{hint}"


def _page_title(text: str) -> str:
    """The title if the text is a web page; any other text unchanged."""
    if text.lstrip()[:1] != "<":
        return text
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    return title.group(1) if title else re.sub(r"<[^>]*>", " ", text)
