"""What servers say when they do not reply, and the errors that are raised for it.

There is no standard for the texts: each pattern was seen in OpenAI, Azure, vLLM, SGLang, llama.cpp,
llama-cpp-python, Ollama, LM Studio, TGI, Mistral, Groq, xAI, DeepSeek, OpenRouter, Gemini or
Anthropic.
"""

from __future__ import annotations

import base64
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from archytas_nb.errors import ModelError, ModelErrorKind
from archytas_nb.loop.events import AskModel
from archytas_nb.models.completion import ServerError
from archytas_nb.models.secrets import replaced, without_shapes

CONNECT_SECONDS = 10.0
"""How long a connection may take to be made, over all addresses of its host."""
LONGEST_WAIT = 60.0
"""Seconds; where a server asks for more with Retry-After, the request fails at once."""
LOOKED_AT = 1000
"""Characters of a text that are judged; some servers send the whole conversation back."""
_CLEANED = 20_000
"""Characters of a text that are searched for secrets and may be shown; the rest is dropped."""
_SECRET_PART = 10
"""A beginning of a secret that is at least so long is not shown either: a text may be cut in it."""
_SECRET_LENGTH = 16
"""Minimum length of a header's or a query's value that is taken for a secret."""
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


# ── what a text says ──────────────────────────────────────────────────────────────────────────────

_NO = (
    r"(?:not .{0,20}(?:support|permit|allow|enabl|available|implement)|"
    r"unsupported|unrecogni[sz]ed|unknown|extra|requires? )"
)
_MORE = (
    r"(?:exceed|overflow|longer|greater|larger|surpass|beyond|too (?:long|large|big|many)"
    r"|reached|not enough)"
)
_ITEMS = r"(?:images?|image_url|vision|multi.?modal)"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL)


_SAYS = {
    "overflow": _any(
        r"(?:context_(?:length|window)|exceed_context_size|prompt_too_long)\w*"
        r"(?:exceeded|error|too_long)",
        r"prompt_too_long",
        r"maximum context",
        r"maximum (?:allowed )?(?:prompt|input|sequence|model) length",
        rf"{_MORE}.{{0,60}}\bcontext\b",
        rf"\bcontext\b.{{0,60}}{_MORE}",
        r"\b(?:prompt|input|conversation|messages) (?:is |are )?too (?:long|large)",
        r"\b(?:input|prompt|requested?) tokens? .{0,40}exceed",
        r"\b(?:input|prompt|request)\b.{0,40}exceeds? .{0,20}"
        r"(?:max\w* (?:number of tokens|length)|token limit)",
        r"exceeds? .{0,20}max_(?:model_len|seq_len|input_len|num_tokens|position)",
        r"exceeded model token limit",
        r"too many tokens",
        r"`?\binputs`? (?:tokens|must have less than)",
        r"range of input length",
        r"reduce the length of the (?:messages|prompt|input)",
        r"\bmessages\W.{0,40}string too long",
    ),
    "rate": _any(r"rate.?limit|throttl|per (?:second|minute|hour|day)\b|too many requests|quota"),
    "no_tools": _any(
        r"\b(?:tools?|tool_choice|tool.?(?:use|call(?:s|ing)?)|functions?(?:.?call(?:s|ing)?)?)\b"
        rf".{{0,60}}{_NO}",
        rf"{_NO}.{{0,60}}\b(?:tools?|tool_choice|tool.?(?:use|calling)|function.?call(?:s|ing)?)\b",
        r"support tool use",
    ),
    # A conversation that the server finds wrong says nothing about tools.
    "bad_history": _any(r"tool_call_id|'tool_calls'|role\W{1,3}tool|messages?\[|messages? with"),
    # OpenAI from gpt-5.4 on takes tools only with reasoning_effort="none".
    "no_reasoning_with_tools": _any(rf"\btools?\b.{{0,20}}\breasoning_effort\b.{{0,20}}{_NO}"),
    "other_api": _any(
        r"only (?:be )?(?:supported|available|used) (?:in|with|by|via|through|on)"
        r" .{0,20}/?responses\b",
        r"not (?:a chat model|supported|available|allowed).{0,60}/?chat/completions",
        r"/?chat/completions.{0,20} not (?:supported|available|allowed)",
        r"chatCompletion operation does not work with",
    ),
    "no_images": _any(
        r"only supported by certain models",
        r"unsupported content(?: part)?(?:\[\])?\W{0,2}type",
        r"unknown variant .?image_url",
        r"\bcontent\b.{0,60}(?:must be|should be|expected|valid) (?:a |of type )?str",
        r"input should be 'text'",
        r"cannot unmarshal array into .{0,60}content",
        r"not a (?:multi.?modal|vision)",
        r"\bmmproj\b",
        r"(?:not|n't|cannot|no endpoints found that) (?:support|accept|handle) "
        rf"{_ITEMS}\b(?! (?:format|type|size|of|with|larger))",
        rf"\b(?:vision|multi.?modal)\b.{{0,40}}{_NO}",
        r"missing data required for image",
    ),
    "image": _any(
        rf"\bimages?(?:_url| inputs?| content)?\b.{{0,40}}{_NO}", rf"{_NO}.{{0,40}}\bimages?\b"
    ),
    # One image is refused, and another one may be taken.
    "bad_image": _any(
        r"\bimages?\b.{0,40}(?:format|type|size|large|small|decod|corrupt|invalid|dimension"
        r"|pixel|base64|mime)",
        r"(?:format|type|size|decod|corrupt|invalid|download|fetch|base64|mime).{0,40}\bimages?\b",
    ),
    "no_model": _any(
        r"\bmodel\b.{0,120}(?:not (?:found|exist|available)|does not exist|unknown)",
        r"(?:model_not_found|unknown model|invalid model)",
    ),
    "filter": _any(
        r"\bcontent_filter\b|content management policy|ResponsibleAIPolicy|content policy violation"
    ),
    "bad_key": _any(
        r"api.?key (?:is )?(?:not valid|invalid|not found|expired)",
        r"(?:invalid|incorrect|missing) api.?key",
    ),
    "bad_format": _any(r"response_format|json_schema|json_object|grammar|guided"),
    "wants_thoughts": _any(
        r"reasoning_content\b.{0,60}\b(?:missing|required|must be)\b",
        r"\b(?:missing|requires?|required|expect(?:s|ed)?)\b.{0,60}\breasoning_content\b",
    ),
    "wants_signatures": _any(r"missing .{0,20}thought_?signature"),
    "no_system": _any(
        r"system (?:role|messages?|prompts?|instructions?) (?:is |are )?not "
        r"(?:supported|allowed|enabled)",
        r"not support (?:the )?(?:'system'|\"system\""
        r"|system (?:role|messages?|prompts?|instructions?))",
        r"only user and assistant roles",
        r"developer instruction is not enabled",
    ),
}
_UNLESS = {"overflow": "rate", "no_tools": "bad_history", "other_api": "no_reasoning_with_tools"}
_CONTEXT = _any(
    r"maximum (?:context|model|prompt|sequence|allowed input) length (?:is|of) ?(?:only )?(\d+)",
    r"maximum context length \((\d+)\)",
    r"context (?:length|size|window)(?: (?:is|of))?(?: only)? ?\(?(\d+)",
    r"\bn_ctx[\"']?[=:] ?(\d+)",
    r"too long: \d+ tokens? > (\d+) maximum",
    r"context limit: \d+ \+ \d+ > (\d+)",
    r"model token limit: (\d+)",
    r"max_new_tokens`? must be <= (\d+)",
)
_PROMPT = _any(
    r"(\d+) (?:in the messages|in your prompt|input tokens|of text input|`?inputs`? tokens)",
    r"\bn_prompt_tokens[\"']?[=:] ?(\d+)",
)
_MOST = _any(
    r"at most (\d+) (?:completion |output )?tokens",
    r"max[_ ](?:completion_)?tokens`? must be less than or equal to `?(\d+)",
    r"valid range of max_tokens is \[1, (\d+)\]",
    r"max_tokens: \d+ > (\d+)",
    r"exceeds the model limit of (\d+)",
    r"can only afford (\d+)",
)


def says(what: str, text: str) -> bool:
    """Whether a server's text says one of the things in `_SAYS`, judged by its beginning."""
    text = text[:LOOKED_AT]
    unless = _UNLESS.get(what)
    return bool(_SAYS[what].search(text)) and not (unless and _SAYS[unless].search(text))


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text[:LOOKED_AT])
    return int(next(group for group in found.groups() if group)) if found else None


def context_tokens(text: str) -> int | None:
    """How many tokens a conversation may have, where a text says that it has too many."""
    return (_number(_CONTEXT, text) if says("overflow", text) else None) or None


def prompt_tokens(text: str) -> int | None:
    """How many tokens the prompt had, where a text says so."""
    return _number(_PROMPT, text)


def most_tokens(text: str, asked: int = 0) -> int | None:
    """The highest `max_tokens` that is taken, where the refusal of `asked` names it."""
    text = text[:LOOKED_AT]
    if found := re.search(r"from 1 \(inclusive\) to (\d+) \(exclusive\)", text):
        return int(found[1]) - 1
    if found := re.search(r"\bLimit:? (\d+), Requested:? (\d+)", text):  # the prompt included
        return int(found[1]) - (int(found[2]) - asked)
    return _number(_MOST, text)


def most_images(text: str) -> int | None:
    """How many images are taken in a request that had some; None where the text does not say."""
    text = text[:LOOKED_AT]
    if limit := re.search(r"at most (\d+) image", text, re.IGNORECASE):
        return int(limit[1])
    one = says("image", text) and not says("bad_image", text)
    return 0 if says("no_images", text) or one else None


def refused_field(text: str, names: Iterable[str]) -> str | None:
    """The first of these fields that a server says it does not take; None where it names none."""
    for name in names:
        field = rf"(?<![\w.]){re.escape(name)}(?!\w)"
        if _any(rf"{field}.{{0,60}}{_NO}|{_NO}.{{0,60}}{field}").search(text[:LOOKED_AT]):
            return name
    return None


# ── errors ────────────────────────────────────────────────────────────────────────────────────────


class RequestError(Exception):
    """A failed request, before it is decided whether it is tried again.

    Attributes:
        error: What is raised when it is not.
        passing: Whether it may pass by itself.
        wait: Seconds that the server asks to wait, or None.
        refusal: The server's text with its codes; not to be shown.
    """

    def __init__(
        self,
        kind: ModelErrorKind,
        text: str,
        status: int | None = None,
        *,
        passing: bool = False,
        wait: float | None = None,
        refusal: str = "",
    ) -> None:
        super().__init__(text)
        self.error = ModelError(text, kind=kind, status=status)
        self.passing, self.wait, self.refusal = passing, wait, refusal


class EndpointErrors:
    """Makes the errors of one endpoint; each names its URL and what to do next.

    Args:
        at: The endpoint's URL, as it may be shown.
        key: Its API key, which is never shown.
        user: The name and password in its URL, of which the password is never shown.
        others: Values of headers and queries; those that are long enough are never shown.
    """

    def __init__(
        self,
        at: str,
        key: str = "",
        user: tuple[str, str] | None = None,
        others: Iterable[str] = (),
    ) -> None:
        self._at = f"the endpoint {at!r}"
        self._url = at
        basic = base64.b64encode(":".join(user).encode()).decode() if user else ""
        secrets = [key, basic, user[1] if user else ""]
        secrets += [each for each in others if len(each) >= _SECRET_LENGTH]
        self._secrets = [each for each in secrets if each]

    def clean(self, text: str) -> str:
        """The beginning of a server's text, without secrets."""
        text = text[:_CLEANED]
        for secret in self._secrets:
            text = replaced(text, secret, "…")
            for length in range(len(secret) - 1, _SECRET_PART - 1, -1):
                text = text.replace(secret[:length], "…")
        return without_shapes(text)

    def of_client(
        self, error: Exception, timeout: float, model: str, ask: AskModel | None
    ) -> RequestError:
        """The error behind an ``openai.OpenAIError``, or what the hooks of `Connection` raise.

        `timeout` is in seconds without data; `ask` is None where the list of models was asked for.
        """
        cause = error.__cause__ or error
        for each in (error, cause):  # some versions of the client wrap what a hook raises
            if isinstance(each, RequestError):
                return each
            if isinstance(each, ServerError):
                return self.of_server(each, model, ask)
        kinds = {each.__name__ for each in type(error).__mro__}
        connecting = "Connect" in type(cause).__name__
        if "APITimeoutError" in kinds:
            return self.timed_out(timeout, "connect" if connecting else "first byte")
        why = self.clean(f"{type(cause).__name__}: {cause}")
        if "APIConnectionError" in kinds:
            return (self.unreachable if connecting else self.dropped)(why)
        move = "Look at the server's log."
        return RequestError(
            "server", f"the request to {self._url!r} failed: {shortened(why)}. {move}"
        )

    def of_server(
        self, error: ServerError, model: str, ask: AskModel | None = None
    ) -> RequestError:
        """The error behind a server's error in a request for a model; `ask` as for `of_client`."""
        if error.to:  # a conversation goes only to where the user sends it
            move = "If that is where the API begins, set OPENAI_BASE_URL (or base_url) to it."
            text = f"{self._at} redirects to {error.to!r}, and nothing was sent there. {move}"
            return RequestError("refused", text, error.status)
        codes, text = self.clean(error.codes), self.clean(error.message)
        raw = f"{text[: LOOKED_AT - len(codes) - 1]} {codes}"
        reason = shortened(_without_page(text)) or "no reason given"
        reason += "" if reason.endswith((".", "!", "?", "…")) else "."
        if error.wait is not None and error.wait > LONGEST_WAIT:
            most = f"longer than the maximum of {LONGEST_WAIT:.0f} s"
            reason += f" It asks to wait {error.wait:.0f} s, {most}."
        case = _limits(error.status, raw) or _refused_part(error.status, raw, ask)
        kind, what, move, passing = case or _other_case(error.status, raw)
        what = what.format(at=self._at, model=f"model {model!r}")
        full = f"{what} (HTTP {error.status}): {reason} {move}".rstrip()
        return RequestError(kind, full, error.status, passing=passing, wait=error.wait, refusal=raw)

    def unreachable(self, why: str) -> RequestError:
        """No connection was made."""
        certificate = "certificate" in why.lower()
        move = (
            "Its certificate is not trusted here: set SSL_CERT_FILE, or use the right host."
            if certificate
            else "Start it, or set OPENAI_BASE_URL (or %config ArchytasNB.base_url) to where your "
            "model is served."
        )
        text = f"no server answers at {self._url!r} ({shortened(why)}). {move}"
        return RequestError("unreachable", text, passing=not certificate)

    def timed_out(self, seconds: float, during: str) -> RequestError:
        """Nothing came for seconds, during ``"connect"``, ``"first byte"`` or ``"reply"``."""
        if during == "connect":
            seconds = min(CONNECT_SECONDS, seconds)
            text = f"no connection to {self._url!r} came about within {seconds:g} s."
            return RequestError(
                "timeout", f"{text} Check the address and the network.", passing=True
            )
        what = f"sent nothing for {seconds:g} s"
        if during == "reply":
            what = f"fell silent for {seconds:g} s in the middle of its reply"
        move = "It may be busy or too slow: ask again, or raise %config ArchytasNB.timeout."
        return RequestError("timeout", f"{self._at} {what}. {move}")

    def out_of_time(self, seconds: float | None, last: str = "") -> RequestError:
        """The request's time is over, after a failure that was to be tried again."""
        after = f" after {last}" if last else ""
        text = (
            f"{self._at} gave no whole reply within the {seconds or 0:.3g} s that were left{after}."
        )
        return RequestError("deadline", f"{text} Raise max_seconds, or ask for less.")

    def dropped(self, why: str) -> RequestError:
        """The connection broke before the reply was whole."""
        move = "Ask again, or look at the server's log."
        text = f"{self._at} broke off before its reply was whole ({shortened(why)}). {move}"
        return RequestError("unreachable", text, passing=True)

    def not_an_api(self, body: str) -> RequestError:
        """Something answered with status 200, but not with a chat completion."""
        page = body.lstrip()[:1] == "<"
        what = "a web page" if page else "something that is not a chat completion"
        text = f"{self._at} answered with {what}: {shortened(_without_page(body), 120)!r}."
        return RequestError("bad_reply", text, 200)

    def too_long(self, most: int) -> RequestError:
        """The reply has more than so many bytes."""
        text = f"{self._at} sent more than {most:,} bytes for one reply, and it was given up."
        return RequestError("server", f"{text} Look at the server's log.", 200)

    def bad_encoding(self, encoding: str) -> RequestError:
        """The reply is compressed in a way that was not asked for."""
        name = shortened(encoding, 40)
        text = f"{self._at} compressed its reply as {name!r}, which was not asked for."
        return RequestError(
            "server", f"{text} Look at the settings of the server, or of a proxy.", 200
        )

    def withheld(self) -> RequestError:
        """A content filter of the endpoint removed the reply, or the rest of it."""
        move = "Put the question differently, or use another model."
        text = f"the content filter of {self._at} withheld the reply, or a part of it. {move}"
        return RequestError("refused", text, 200)


_Case: TypeAlias = tuple[ModelErrorKind, str, str, bool]
"""The kind of error, what happened, what to do next, and whether it may pass by itself."""

_REFUSED = "{at} refused the request for {model}"
_FORGET = (
    "If further questions are refused too, forget the last one with agent.undo() or %agent --undo."
)


def _limits(status: int, raw: str) -> _Case | None:
    """A matter of the key, of the conversation's length, or of the account; else None."""
    if status in (401, 403) or (status == 400 and says("bad_key", raw)):
        move = "Set OPENAI_API_KEY (or %config ArchytasNB.api_key) to a key for this endpoint."
        return "auth", "{at} rejected the API key", move, False
    # "Request too large" with 429: more than the tokens of a minute, so waiting does not help.
    too_large = status == 413 or raw.startswith("Request too large")
    if too_large or (status != 429 and says("overflow", raw)):
        move = "Begin anew with agent.reset(), or use a model with a longer context."
        return "overflow", "the conversation is too long for {model} at {at}", move, False
    used_up = "insufficient_quota" in raw or "exceeded your current quota" in raw
    if status == 402 or (status == 429 and used_up):
        move = "Waiting does not help: see to the account's credit, or use another endpoint."
        return "rate_limit", "{at} refuses further requests", move, False
    if status == 429:
        move = "Wait, or use another model or endpoint."
        return "rate_limit", "{at} refuses further requests for now", move, True
    return None


def _refused_part(status: int, raw: str, ask: AskModel | None) -> _Case | None:
    """A matter of what the request holds, or of the model's name; else None."""
    images = ask is not None and images_in(ask.messages)
    if says("filter", raw):
        return "refused", _REFUSED, f"Put the question differently. {_FORGET}", False
    if images and most_images(raw) is not None:
        return "refused", _REFUSED, "Use a model that takes images, or leave them out.", False
    if images and says("bad_image", raw):
        move = f"Leave the image out, or show a smaller PNG or JPEG. {_FORGET}"
        return "refused", _REFUSED, move, False
    if ask is not None and ask.tools and says("no_tools", raw):
        move = "It takes no tools: use protocol='react' with this model."
        return "no_tools", _REFUSED, move, False
    if says("other_api", raw):
        move = "Only chat completions are used here: name another model of this endpoint."
        return "refused", "{at} does not serve {model} by chat completions", move, False
    if status in (404, 405) or (status == 400 and says("no_model", raw)):
        return "not_found", "{at} does not know the path or the {model}", "", False
    return None


def _other_case(status: int, raw: str) -> _Case:
    passing = status in _RETRIED
    if status >= 500 and not says("bad_format", raw) and not says("no_system", raw):
        move = "Ask again in a while, or look at the server's log."
        return "server", "{at} failed", move, passing
    if passing and status < 500:
        return "server", _REFUSED, "Ask again in a while.", True
    move = "Change the request's settings or the model, or look at the server's log."
    return "refused", _REFUSED, move, False


def images_in(messages: Iterable[Mapping[str, Any]]) -> int:
    """How many images messages in wire form hold."""
    contents = [message.get("content") for message in messages]
    return sum(
        is_image(part) for each in contents if isinstance(each, (list, tuple)) for part in each
    )


def is_image(part: Any) -> bool:
    """Whether a part of a message's content is an image."""
    return isinstance(part, dict) and part.get("type") == "image_url"


def with_hint(error: ModelError, hint: str) -> ModelError:
    """The same error with a further sentence."""
    return ModelError(f"{error} {hint}", kind=error.kind, status=error.status)


def serves(names: Sequence[str], wanted: str) -> str:
    """Which models an endpoint has, the one that was probably meant first."""
    if not names:
        return "It serves no model at all: load one first."
    lower = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(wanted.lower(), lower, n=1, cutoff=0.5)
    close = close or [name for name in lower if wanted.lower() in name][-1:]
    near = [lower[each] for each in close]
    shown = [*near, *(name for name in names if name not in near)][:12]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    meant = f" Did you mean {near[0]!r}?" if near and near[0] != wanted else ""
    return f"It serves {', '.join(map(repr, shown))}{more}.{meant}"


def shortened(text: str, most: int = 300) -> str:
    """One line of at most that many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _without_page(text: str) -> str:
    """The title of a web page, where the text is one."""
    if text.lstrip()[:1] != "<":
        return text
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    return title.group(1) if title else re.sub(r"<[^>]*>", " ", text)
