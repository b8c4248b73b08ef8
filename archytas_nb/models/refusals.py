"""Creates the errors to raise for the error responses of servers, and reads the numbers in them.

The table in `refusal_table.py` decides what a response means.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

from archytas_nb.errors import Explained, ModelError, ModelErrorKind
from archytas_nb.loop.events import AskModel
from archytas_nb.models.completion import ServerError
from archytas_nb.models.providers import is_local
from archytas_nb.models.refusal_table import SEARCHED_CHARS, Refusal, case_of, matches
from archytas_nb.models.secrets import mask_secrets, replaced
from archytas_nb.models.waits import MAX_WAIT_SECONDS
from archytas_nb.settings import where_to_set
from archytas_nb.words import collapse_whitespace, nearest

_NETWORK = "Check the network, too, and the variables HTTPS_PROXY, ALL_PROXY and NO_PROXY."

CONNECT_SECONDS = 10.0
"""Maximum time to connect, for all addresses of the host together."""
MIN_REPLY_TOKENS = 256
"""Minimum number of reply tokens for which a request makes sense."""
_CLEANED = 20_000
"""Number of characters that may be shown, without secrets; the rest is dropped."""
_MIN_SECRET_PREFIX = 10
"""Minimum length of a secret's prefix that is hidden, too: a text may be cut inside a secret."""
_MIN_SECRET = 16
"""Minimum length of a header or query value that is treated as a secret."""
_MIN_KEY = 4
"""Minimum length of a key that is hidden: any text contains a shorter one."""
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


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text[:SEARCHED_CHARS])
    if found is None:
        return None
    digits = next(filter(None, found.groups()))
    return int(digits[:12])


def context_tokens(text: str) -> int | None:
    """The context length in the error for a conversation that is too long."""
    if not matches("overflow", text):
        return None
    # 0 means that the server does not know it.
    return _number(_CONTEXT, text) or None


def prompt_tokens(text: str) -> int | None:
    """The number of prompt tokens, if the text contains it."""
    return _number(_PROMPT, text)


def token_limit(text: str, asked: int = 0) -> int | None:
    """The highest allowed `max_tokens`, if the refusal of `asked` tokens contains it."""
    text = text[:SEARCHED_CHARS]
    if found := re.search(r"from 1 \(inclusive\) to (\d{1,12}) \(exclusive\)", text):
        # As Gemini says it.
        return int(found[1]) - 1
    if found := re.search(r"\bLimit:? (\d{1,12}), Requested:? (\d{1,12})", text):
        # The limit is for the prompt and the reply together.
        return int(found[1]) - (int(found[2]) - asked)
    return _number(_MAX_TOKENS, text)


def image_limit(text: str) -> int | None:
    """The maximum number of images in a request, or None if the text does not say."""
    if limit := re.search(r"at most (\d{1,9}) image", text[:SEARCHED_CHARS], re.IGNORECASE):
        return int(limit[1])
    if matches("no_images", text):
        return 0
    return None


def room_for_reply(text: str, asked: int) -> int | None:
    """The limit of a reply with which a request fits, as a text says; `asked` tokens do not."""
    context = context_tokens(text)
    prompt = prompt_tokens(text)
    if context and prompt:
        # Only the reply does not fit. Half of the context leaves room for some more steps before
        # the same error occurs again.
        lower = min(context - prompt, max(MIN_REPLY_TOKENS, context // 2))
        return lower if MIN_REPLY_TOKENS <= lower < asked else None
    limit = token_limit(text, asked)
    if limit and min(MIN_REPLY_TOKENS, asked - 1) <= limit < asked:
        return limit
    return None


def count_images(messages: Iterable[Mapping[str, Any]]) -> int:
    """The number of images in the messages of a request."""
    count = 0
    for message in messages:
        content = message.get("content")
        if isinstance(content, (list, tuple)):
            count += sum(map(is_image, content))
    return count


def is_image(part: Any) -> bool:
    """Whether a part of a message's content is an image."""
    return isinstance(part, dict) and part.get("type") == "image_url"


def image_digest(part: Any) -> str:
    """Identifies an image in a message."""
    url = str((part.get("image_url") or {}).get("url"))
    return hashlib.sha256(url.encode("utf-8", "replace")).hexdigest()[:16]


# ── errors ────────────────────────────────────────────────────────────────────────────────────────


def is_of_transport(error: Exception) -> bool:
    """Whether an exception comes from the library that sends requests, in either of its names."""
    return type(error).__module__.split(".")[0].rstrip("2") in ("httpx", "httpcore")


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
        self._at = f"the endpoint {at!r}"
        self._url = at
        secrets = [key]
        if user:
            basic = base64.b64encode(":".join(user).encode()).decode()
            secrets += [basic, user[1]]
        secrets += [each for each in others if len(each) >= _MIN_SECRET]
        self._secrets = [each for each in secrets if len(each) >= _MIN_KEY]

    @property
    def _host(self) -> str:
        return urlsplit(self._url).netloc.rpartition("@")[2] or self._url

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
        for each in (error, cause):
            # Some client versions wrap the exceptions of hooks.
            if isinstance(each, ModelError):
                return each
            if isinstance(each, ServerError):
                return self.of_server(each, model, ask)
        kind = type(cause).__name__
        why = self.clean(f"{kind}: {cause}")
        if "Timeout" in kind:
            during = "connect" if "Connect" in kind else "first byte"
            return self.timed_out(timeout, during)
        is_of_client = "APIConnectionError" in {each.__name__ for each in type(error).__mro__}
        if not (is_of_client or is_of_transport(error)):
            text = f"the request to {self._url!r} failed: {collapse_whitespace(why)}."
            return ModelError(f"{text} Check the server's log.", kind="server")
        if "Connect" in kind:
            return self.unreachable(why)
        return self.dropped(why)

    def of_server(self, error: ServerError, model: str, ask: AskModel | None = None) -> ModelError:
        """The error for a server's response to a request to a model; `ask` as in `of_client`."""
        if error.to:
            # A conversation is sent only to the configured address.
            advice = (
                f"If that is the base URL of the API, set {self._url_name}, or base_url=, to it."
            )
            to = self.clean(error.to)
            what = f"redirects to {to!r}; nothing was sent there"
            found = self._explained(
                "The address is not that of the API",
                f"{what}.",
                "If that is the base URL of the API, set it, then run the cell again:",
                f'%config ArchytasNB.base_url = "{_as_text_of_code(to)}"',
                error.status,
            )
            text = f"{self._at} {what}. {advice}"
            return ModelError(text, kind="refused", status=error.status, explained=found)
        text = self.clean(error.message)
        # Matched before secrets are hidden: a key such as "token" occurs in the words of a server.
        raw = f"{error.message[: SEARCHED_CHARS - len(error.codes) - 1]} {error.codes}"
        reason = collapse_whitespace(_page_title(text)) or "no reason given"
        if not reason.endswith((".", "!", "?", "…")):
            reason += "."
        if error.wait is not None and error.wait > MAX_WAIT_SECONDS:
            most = f"longer than the maximum of {MAX_WAIT_SECONDS:.0f} s"
            reason += f" It asked to wait {error.wait:.0f} s, {most}."
        has_image = ask is not None and count_images(ask.messages) > 0
        case = case_of(Refusal(error.status, raw, error.wait, has_image))
        what = case.what.format(at=self._at, model=f"model {model!r}")
        advice = case.advice.replace("{key}", self.key_name)
        return ModelError(
            f"{what} (HTTP {error.status}): {reason} {advice}".rstrip(),
            kind=case.kind,
            status=error.status,
            passing=case.passing,
            wait=case.wait if error.wait is None else error.wait,
            retries=case.retries,
            refusal=raw,
            explained=self._explained(
                case.title, reason, case.do or advice, case.command, error.status
            ),
        )

    def _explained(
        self, title: str, said: str, advice: str, command: str = "", status: int | None = None
    ) -> Explained:
        """An error in parts, for who types magics."""
        return Explained(title, self._host, said, status, advice, command)

    def unreachable(self, why: str) -> ModelError:
        """No connection could be established."""
        advice = f"Start it, or set {self._url_name} to the address of your model server."
        is_untrusted = "certificate" in why.lower()
        if is_untrusted:
            advice = "Its certificate is not trusted: set SSL_CERT_FILE, or check the host name."
        elif not is_local(self._url):
            advice = f"Check that it runs, and its address. {_NETWORK}"
        elif self.prefix:
            advice = (
                f"Start it. If it has another address, set {self._url_name} to that address, and "
                f"use the model's name without '{self.prefix}:'."
            )
        text = f"no server answers at {self._url!r} ({collapse_whitespace(why)}). {advice}"
        found = self._explained(
            f"No server answers at {self._host}",
            collapse_whitespace(why),
            "Start it, or set the address of your model server, then run the cell again:",
            '%config ArchytasNB.base_url = "…"',
        )
        if is_untrusted:
            found = replace(
                found,
                title="The certificate of the server is not trusted",
                advice=advice,
                command="",
            )
        return ModelError(text, kind="unreachable", passing=not is_untrusted, explained=found)

    def timed_out(self, seconds: float, during: str) -> ModelError:
        """No data for `seconds`, `during` ``"connect"``, ``"first byte"`` or ``"reply"``."""
        if during == "connect":
            text = f"could not connect to {self._url!r} within {min(CONNECT_SECONDS, seconds):g} s."
            text = f"{text} Check the address. {_NETWORK}"
            found = self._explained(
                "No connection to the server",
                f"no connection within {min(CONNECT_SECONDS, seconds):g} s",
                f"Check the address. {_NETWORK}",
                '%config ArchytasNB.base_url = "…"',
            )
            return ModelError(text, kind="timeout", passing=True, explained=found)
        what = f"sent nothing for {seconds:g} s"
        if during == "reply":
            what = f"stopped sending for {seconds:g} s in the middle of its reply"
        advice = f"It may be busy or too slow: ask again, or raise {where_to_set('timeout')}."
        found = self._explained(
            "The server sent nothing for too long",
            f"{what}.",
            "It may be busy or too slow: run the cell again, or wait longer:",
            f"%config ArchytasNB.timeout = {max(2 * seconds, 60):g}",
        )
        return ModelError(
            f"{self._at} {what}. {advice}", kind="timeout", may_be_paid=True, explained=found
        )

    def out_of_time(self, seconds: float | None, last: str = "") -> ModelError:
        """The deadline of the request passed, possibly after a failure that would be retried."""
        left = f"the {seconds or 0:.3g} s that were left"
        if last:
            left += f" after {last}"
        text = f"{self._at} did not complete its reply within {left}."
        advice = "Raise max_seconds, or ask a simpler question."
        return ModelError(f"{text} {advice}", kind="deadline", may_be_paid=True)

    def dropped(self, why: str) -> ModelError:
        """The connection was closed before the reply was complete."""
        advice = "Ask again, or check the server's log."
        cause = collapse_whitespace(why)
        text = f"{self._at} disconnected before its reply was complete ({cause}). {advice}"
        found = self._explained("The reply ended before it was complete", cause, advice)
        return ModelError(text, kind="unreachable", passing=True, may_be_paid=True, explained=found)

    def unusable(self, what: str, kind: ModelErrorKind = "server", advice: str = "") -> ModelError:
        """A response with status 200 cannot be used as a reply."""
        advice = advice or "Check the log of the server or proxy."
        text = f"{self._at} {self.clean(what)}. {advice}"
        found = self._explained("The reply cannot be used", f"{self.clean(what)}.", advice)
        return ModelError(text, kind=kind, status=200, may_be_paid=True, explained=found)

    def not_an_api(self, body: str, *, passing: bool = False) -> ModelError:
        """A response with status 200 is not a chat completion; `passing` if others were."""
        page = body.lstrip()[:1] == "<"
        what = "something that is not a chat completion"
        if page:
            what = "a web page"
        text = f"{self._at} responded with {what}: {collapse_whitespace(_page_title(body), 120)!r}."
        if passing:
            text += " Try again later, or check the log of the server or proxy."
        found = self._explained(
            "The server sent no reply of a model",
            text.removeprefix(f"{self._at} "),
            "" if passing else "Check the address of the API, then run the cell again:",
            "" if passing else '%config ArchytasNB.base_url = "…"',
        )
        return ModelError(text, kind="bad_reply", status=200, passing=passing, explained=found)


def _as_text_of_code(url: str) -> str:
    """A URL of a server in a command to copy: IPython evaluates what is in braces or after $."""
    return quote(url, safe=":/?#[]@!&()*+,;=%~")


def models_hint(names: Sequence[str], wanted: str) -> str:
    """A sentence that lists the models of an endpoint, starting with the most similar name."""
    if not names:
        return "It serves no models: load one first."
    near = _most_similar(names, wanted)
    shown = [name for name in names if name != near]
    if near:
        shown.insert(0, near)
    del shown[12:]
    text = f"It serves {', '.join(map(repr, shown))}"
    if len(names) > len(shown):
        text += f" and {len(names) - len(shown)} more"
    if near and near != wanted:
        return f"{text}. Did you mean {near!r}?"
    return f"{text}."


def _most_similar(names: Sequence[str], wanted: str) -> str | None:
    """The first name that contains the wanted one, else one that is spelled like it, or None."""
    if not wanted:
        return nearest(wanted, names)
    for name in names:
        if wanted.lower() in name.lower():
            return name
    return nearest(wanted, names)


def _page_title(text: str) -> str:
    """The title if the text is a web page; any other text unchanged."""
    if text.lstrip()[:1] != "<":
        return text
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    if title:
        return title.group(1)
    return re.sub(r"<[^>]*>", " ", text)
