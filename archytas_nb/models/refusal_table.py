"""The meaning of servers' error responses: a table, with an example of each.

The texts of servers are not standardized: the words here only decide what a person is told. The
form that an endpoint accepts is found by trying (`negotiate.py`).
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NamedTuple

from archytas_nb.errors import ModelErrorKind

SEARCHED_CHARS = 1000
"""Number of characters in which patterns are searched; some servers echo the conversation."""

# ── words ─────────────────────────────────────────────────────────────────────────────────────────


class Words(NamedTuple):
    """How servers say one thing.

    Attributes:
        example: A text that a server sent, perhaps without the names in it.
        server: The server, with its version, or with the month for one without versions.
        unless: Words that give these another meaning, or None.
    """

    pattern: re.Pattern[str]
    example: str
    server: str
    unless: re.Pattern[str] | None = None


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.DOTALL)


_NO = (
    r"(?:not .{0,20}(?:support|permit|allow|enabl|available)"
    r"|unsupported|unrecogni[sz]ed|unknown|extra|requires? )"
)

WORDS = {
    "bad_key": Words(
        _pattern(
            r"api.?key (?:is )?(?:not valid|invalid|not found|expired)"
            r"|(?:invalid|incorrect|missing) api.?key"
        ),
        "API key not valid. Please pass a valid API key.",
        "Gemini, 2026-02",
    ),
    # More tokens than allowed per minute: waiting does not help.
    "too_large": Words(
        _pattern(r"\ARequest too large"),
        "Request too large for … in organization … on tokens per min (TPM): Limit 30000, Requested "
        "61337. The input or output tokens must be reduced in order to run successfully.",
        "OpenAI, 2026-02",
    ),
    "overflow": Words(
        _pattern(
            r"context_length_exceeded|exceed_context_size|\bcontext size has been exceeded"
            r"|prompt(?: is|:)? too long"
            r"|maximum (?:context|prompt|model|allowed input|input) length"
            r"|(?:exceed|longer|greater|overflow).{0,60}\bcontext\b"
            r"|\bcontext\b.{0,40}(?:exceed|overflow)"
            r"|reached context length|input tokens? .{0,40}exceed|max_model_len"
            r"|reduce the length of the (?:messages|prompt|input)"
        ),
        "request (5021 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "llama.cpp, in xllamacpp 2026.10",
    ),
    "unpaid": Words(
        _pattern(r"insufficient_quota|exceeded your current quota|credit balance is too low"),
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing "
        "to upgrade or purchase credits.",
        "Anthropic, 2026-06",
    ),
    "filter": Words(
        _pattern(r"\bcontent_filter\b|content management policy|ResponsibleAIPolicy"),
        "The response was filtered due to the prompt triggering Azure OpenAI's content management "
        "policy. Please modify your prompt and retry.",
        "Azure OpenAI, 2026-05",
    ),
    "image": Words(
        _pattern("image"),
        "this model does not support image input (ref: b8bd630e)",
        "Ollama 0.30.10",
    ),
    "no_images": Words(
        _pattern(
            r"image_url is only supported|\bmmproj\b|not a multimodal model"
            r"|(?:unknown variant|unsupported content).{0,20}image_url|content must be a string"
            r"|support images?\b(?! (?:format|type|size|of|with|larger))"
            r"|images?(?: inputs?)? (?:is|are) not (?:supported|enabled)"
            r"|missing data required for image"
        ),
        "image input is not supported - hint: if this is unexpected, you may need to provide the "
        "mmproj",
        "llama.cpp, in xllamacpp 2026.10",
    ),
    "other_api": Words(
        _pattern(
            r"only (?:supported|available) (?:in|with|by|via|through|on) .{0,20}/?responses\b"
            r"|not (?:a chat model|supported|available).{0,60}/?chat/completions"
            r"|/?chat/completions.{0,20} not (?:supported|available)"
            r"|chatCompletion operation does not work with"
        ),
        "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did "
        "you mean to use v1/completions?",
        "OpenAI, 2025-12",
        # Since gpt-5.4, OpenAI accepts tools only with reasoning_effort="none": "Function tools
        # with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions."
        unless=_pattern(rf"\btools?\b.{{0,20}}\breasoning_effort\b.{{0,20}}{_NO}"),
    ),
    "no_model": Words(
        _pattern(
            r"\bmodel\b.{0,120}(?:not (?:found|exist|available)|unknown)"
            r"|model_not_found|(?:unknown|invalid) model"
        ),
        "The model `tiny-1` does not exist",
        "vLLM",
    ),
    "wants_thoughts": Words(
        _pattern(
            r"reasoning_content\b.{0,60}\b(?:missing|required|must be)\b"
            r"|\bmissing\b.{0,60}\breasoning_content\b"
        ),
        "thinking is enabled but reasoning_content is missing in assistant tool call message at "
        "index 13",
        "Kimi, 2026-04",
    ),
    "wants_signatures": Words(
        _pattern(r"missing .{0,20}thought_?signature"),
        "Function call is missing a thought_signature in functionCall parts. This is required for "
        "tools to work correctly",
        "Gemini, 2026-08",
    ),
}


def matches(what: str, text: str) -> bool:
    """Whether the beginning of a server's text has the words of a row of `WORDS`."""
    text = text[:SEARCHED_CHARS]
    words = WORDS[what]
    if not words.pattern.search(text):
        return False
    return words.unless is None or not words.unless.search(text)


# ── cases ─────────────────────────────────────────────────────────────────────────────────────────


class Refusal(NamedTuple):
    """The content of a server's error response, and its request.

    Attributes:
        raw: The beginning of the server's text, with its codes.
        wait: Seconds that it asks to wait, or None.
        has_image: Whether the request has an image.
    """

    status: int
    raw: str
    wait: float | None = None
    has_image: bool = False


class Sign(NamedTuple):
    """The signs of an error response; None where anything matches.

    Attributes:
        words: A key of `WORDS`.
        waits: Whether the server says how long to wait.
    """

    statuses: Container[int] | None = None
    words: str | None = None
    waits: bool | None = None
    has_image: bool | None = None

    def is_in(self, refusal: Refusal) -> bool:
        """Whether an error response has all of this."""
        if self.statuses is not None and refusal.status not in self.statuses:
            return False
        if self.waits is not None and self.waits != (refusal.wait is not None):
            return False
        if self.has_image is not None and self.has_image != refusal.has_image:
            return False
        return self.words is None or matches(self.words, refusal.raw)


class Case(NamedTuple):
    """The meaning of an error response with one of the signs, and the text of its error.

    Attributes:
        what: The failure; ``{at}`` is the endpoint, ``{model}`` the model.
        advice: The next move; ``{key}`` is the variable with the API key.
        passing: Whether it is temporary: the request is then retried.
        wait: Seconds before the retry, if the server names none.
        retries: The maximum number of retries, or None for the usual one.
        title: The failure, in a few words.
        do: The next move where magics are typed; empty for the advice.
        command: The line to type then.
    """

    signs: tuple[Sign, ...]
    kind: ModelErrorKind
    what: str
    advice: str
    passing: bool = False
    wait: float | None = None
    retries: int | None = None
    title: str = "The request was refused"
    do: str = ""
    command: str = ""


_REFUSED = "{at} refused the request for {model}"
_REMOVE_QUESTION = (
    "If further questions are refused too, remove the last one with agent.forget_last() or "
    "%agent_undo."
)
_LOOK = "Try again later, or check the server's log."

# The first case that applies counts, so specific cases precede general ones:
# - a wrong key before everything else, as nothing else can be known then;
# - what waiting does not help (too long, unpaid) before what it helps, as all three may have 429;
# - the texts of a refusal before its statuses, as servers use 400, 404 and 500 for anything.
CASES = (
    Case(
        (Sign({401, 403}), Sign({400}, "bad_key")),
        kind="auth",
        what="{at} rejected the API key",
        advice="Set {key} to a key for this endpoint.",
        title="The key was rejected",
        do="Set another key, then run the cell again:",
        command='%config ArchytasNB.api_key = "…"',
    ),
    Case(
        (
            Sign({413}),
            Sign(words="too_large"),
            Sign({*range(1000)} - {429}, "overflow"),
        ),
        kind="overflow",
        what="the conversation is too long for {model} at {at}",
        advice="Start over with agent.reset(), or use a model with a longer context.",
        title="The conversation is too long for the model",
        do="Use a model with a longer context, or start over with a new conversation:",
        command="%agent --new",
    ),
    Case(
        (Sign({402}, waits=False), Sign({400, 429}, "unpaid", waits=False)),
        kind="rate_limit",
        what="{at} is refusing requests",
        advice="Check the account's credit and its limits, or use another endpoint.",
        passing=True,
        # Limits may sound like an account without credit.
        wait=3.0,
        retries=1,
        title="No credit left, or a limit of the account",
    ),
    Case(
        (Sign({402}, waits=True), Sign({429})),
        kind="rate_limit",
        what="{at} is temporarily refusing requests",
        advice="Wait, or use another model or endpoint.",
        passing=True,
        title="Too many requests",
        do="Wait, then run the cell again, or use another model or endpoint.",
    ),
    Case(
        (Sign(words="filter"),),
        kind="refused",
        what=_REFUSED,
        advice=f"Rephrase the question. {_REMOVE_QUESTION}",
        title="The content filter withheld the answer",
        do="Rephrase the question. If further questions are refused, too, remove the last one:",
        command="%agent_undo",
    ),
    Case(
        (Sign(words="image", has_image=True),),
        kind="refused",
        what=_REFUSED,
        advice="Omit the image, use a smaller PNG or JPEG, or use another model. "
        f"{_REMOVE_QUESTION}",
        title="The image was refused",
        do="Omit the image, use a smaller PNG or JPEG, or another model. To remove the question:",
        command="%agent_undo",
    ),
    Case(
        (Sign(words="other_api"),),
        kind="refused",
        what="{at} does not serve {model} through chat completions",
        advice="Its Responses API was not found or api is 'chat': use another model of this "
        "endpoint, or api='auto'.",
    ),
    Case(
        (Sign({404, 405}), Sign({400}, "no_model")),
        kind="not_found",
        what="{at} does not know this path or {model}",
        advice="",
        title="The model, or the path of the address, was not found",
        do="Name a model that this endpoint serves, then run the cell again:",
        command='%config ArchytasNB.model = "…"',
    ),
    Case(
        (Sign({408, 409, 425, 500, 502, 503, 504, 529}),),
        kind="server",
        what="{at} failed",
        advice=_LOOK,
        title="The server failed",
        passing=True,
    ),
    Case(
        (Sign(range(500, 1000)),),
        kind="server",
        what="{at} failed",
        advice=_LOOK,
        title="The server failed",
    ),
    Case(
        (Sign(),),
        kind="refused",
        what=_REFUSED,
        advice="Change the settings or the model, or check the server's log.",
    ),
)


def case_of(refusal: Refusal) -> Case:
    """The first case with a sign that an error response has."""
    return next(case for case in CASES if any(sign.is_in(refusal) for sign in case.signs))
