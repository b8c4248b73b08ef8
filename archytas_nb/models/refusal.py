"""Error objects as servers send them, with a status or in the place of a reply.

Pure. What the words in them mean is `wording`'s to judge.
"""

from __future__ import annotations

import json
from typing import Any

from archytas_nb.loop.events import REFUSED, ModelReply, Usage

_NOTHING_SAID = "Provider returned error"
"""OpenRouter's message, whatever the provider had said."""

_CODES = 500
"""Characters of an error object's codes that are kept."""


class ErrorInReply(ValueError):
    """The server sent an error object where a completion was due; the message is what it said.

    Attributes:
        status: The HTTP status that the error object names, or 500 where it names none.
        codes: What else it says, for judging only.
        reply: As `refused_generation` reads it.
    """

    def __init__(
        self, message: str, status: int = 500, codes: str = "", reply: ModelReply | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.codes = codes
        self.reply = reply


def refused_generation(error: Any) -> ModelReply | None:
    """The reply that a server generated and did not accept, as Groq does; None for any other error object."""
    while isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]
    if not isinstance(error, dict):
        return None
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and metadata.get(
        "raw"
    ):  # OpenRouter hands on what the provider said
        try:
            return refused_generation(json.loads(str(metadata["raw"])))
        except ValueError:
            return None
    generated = error.get("failed_generation")
    text = generated if isinstance(generated, str) else ""
    if not text and error.get("code") != REFUSED:
        return None
    return ModelReply(
        text or str(error.get("message") or ""), finish=REFUSED, usage=Usage(requests=1)
    )


def told_by(error: Any) -> tuple[str, str]:
    """What an error object says, and its codes.

    Args:
        error: The object, as OpenAI, vLLM, llama.cpp, OpenRouter, Gemini or FastAPI make it, or a bare message.

    Returns:
        The message for a person, empty where there is none; and everything else that helps to judge it: names of
        the kind of error, sizes, and what a provider behind the endpoint had said.
    """
    if isinstance(error, list) and len(error) == 1:
        error = error[0]
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else ""), ""
    if isinstance(error.get("error"), (dict, str)):
        return told_by(error["error"])
    metadata = error.get("metadata")
    raw = str(metadata.get("raw") or "") if isinstance(metadata, dict) else ""
    codes = [str(error[key]) for key in ("code", "type") if error.get(key)]
    codes += [f"{key}={error[key]}" for key in ("n_prompt_tokens", "n_ctx") if error.get(key)]
    said = str(error.get("message") or "") or _detail(error.get("detail"))
    if said == _NOTHING_SAID and raw:
        said = f"{said}: {_inner(raw)}"
    return said, " ".join([*codes, raw]).strip()[:_CODES]


def _inner(raw: str) -> str:
    """What a provider said, mostly with an error object of its own."""
    try:
        return told_by(json.loads(raw))[0] or raw
    except (ValueError, RecursionError):
        return raw


def _detail(detail: Any) -> str:
    """What FastAPI says: a text, or what is wrong in which place."""
    if isinstance(detail, str):
        return detail
    faults = [each for each in detail if isinstance(each, dict)] if isinstance(detail, list) else []
    return "; ".join(
        f"{each.get('msg')} at {'.'.join(map(str, each.get('loc') or ()))}" for each in faults
    )


def status_of(error: Any) -> int:
    """The HTTP status that an error object stands for, where it comes without one; 500 where it does not say."""
    if not isinstance(error, dict):
        return 500
    code = error.get("code")
    if isinstance(code, str) and code.isdecimal():
        code = int(code)
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return 400 if str(error.get("type")).startswith(("invalid_request", "exceed_context")) else 500
