"""Error objects as servers send them, with a status or in the place of a reply.

Pure. What the words in them mean is `wording`'s to judge.
"""

from __future__ import annotations

from typing import Any

_CODES = 500
"""Characters of an error object's codes that are kept."""


class ErrorInReply(ValueError):
    """The server sent an error object where a completion was due; the message is what it said.

    Attributes:
        status: The HTTP status that the error object names, or 500 where it names none.
        codes: What else it says, for judging only.
    """

    def __init__(self, message: str, status: int = 500, codes: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.codes = codes


def told_by(error: Any) -> tuple[str, str]:
    """What an error object says, and its codes.

    Args:
        error: The object, as OpenAI, vLLM, llama.cpp or OpenRouter make it, or a bare message.

    Returns:
        The message for a person, empty where there is none; and everything else that helps to judge it: names of
        the kind of error, sizes, and what a provider behind the endpoint had said.
    """
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else ""), ""
    metadata = error.get("metadata")
    codes = [str(error[key]) for key in ("code", "type") if error.get(key)]
    codes += [f"{key}={error[key]}" for key in ("n_prompt_tokens", "n_ctx") if error.get(key)]
    codes += [str(metadata.get("raw") or "")] if isinstance(metadata, dict) else []
    return str(error.get("message") or ""), " ".join(codes).strip()[:_CODES]


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
