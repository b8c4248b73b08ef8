"""What can go wrong with an endpoint, said in words that name the URL and the next move.

No library is imported: the one file that speaks openai hands in statuses and texts.
"""

from __future__ import annotations

import re

from archytas_nb.errors import ModelError

RETRIED_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_OVERFLOW = re.compile(
    r"context.{0,20}(length|window|size)|maximum context|exceeds? .{0,30}(context|tokens)|too many tokens|"
    r"prompt is too long|context_length_exceeded",
    re.IGNORECASE,
)
_TOOLS = re.compile(r"\btools?\b|tool_choice|function.?call", re.IGNORECASE)


def for_status(
    status: int, said: str, base_url: str, model: str, *, asked_with_tools: bool = False
) -> ModelError:
    """The error for an HTTP status.

    Args:
        status: The HTTP status code.
        said: What the server said about it; shortened here.
        base_url: The endpoint.
        model: The model's name in the request.
        asked_with_tools: Whether the request had function-calling tools.

    Returns:
        The error to raise.
    """
    said = shortened(said)
    at = f"the endpoint {base_url!r}"
    if _OVERFLOW.search(said):
        return ModelError(
            f"the conversation is too long for model {model!r} at {at}: {said}", kind="overflow", status=status
        )
    if status in (401, 403):
        text = (
            f"{at} rejected the API key (HTTP {status}): {said}. Set OPENAI_API_KEY to a key for this endpoint."
        )
        return ModelError(text, kind="auth", status=status)
    if status == 404:
        text = (
            f"{at} does not know the path or the model {model!r} (HTTP 404): {said}. "
            f"Check the model's name, and that the base URL ends where the API begins (mostly with '/v1')."
        )
        return ModelError(text, kind="not_found", status=status)
    if status == 429:
        text = (
            f"{at} refuses further requests for now (HTTP 429): {said}. Wait, or use another model or endpoint."
        )
        return ModelError(text, kind="rate_limit", status=status)
    if status >= 500:
        text = f"{at} failed (HTTP {status}): {said}. Ask again in a while, or look at the server's log."
        return ModelError(text, kind="server", status=status)
    text = f"{at} refused the request for model {model!r} (HTTP {status}): {said}."
    if asked_with_tools and _TOOLS.search(said):
        return ModelError(text, kind="no_tools", status=status)
    return ModelError(text, kind="refused", status=status)


def unreachable(base_url: str, why: str) -> ModelError:
    """No connection came about."""
    return ModelError(
        f"no server answers at {base_url!r} ({shortened(why)}). Start it, or set OPENAI_BASE_URL "
        "(or %config ArchytasNB.base_url) to where your model is served.",
        kind="unreachable",
    )


def timed_out(base_url: str, seconds: float) -> ModelError:
    """The server accepted the request and said nothing for too long."""
    return ModelError(
        f"the endpoint {base_url!r} sent nothing for {seconds:g} s. "
        "It may be busy or too slow: ask again, or raise %config ArchytasNB.timeout.",
        kind="timeout",
    )


def dropped(base_url: str, why: str) -> ModelError:
    """The connection broke in the middle of a reply."""
    text = f"the endpoint {base_url!r} broke off in the middle of its reply ({shortened(why)}). Ask again."
    return ModelError(text, kind="unreachable")


def not_an_api(base_url: str, said: str) -> ModelError:
    """Something answered with status 200, but not a chat completion."""
    hint = "" if base_url.rstrip("/").endswith("/v1") else f" Is it {base_url.rstrip('/') + '/v1'!r}?"
    what = "a web page" if said.lstrip()[:1] == "<" else "something that is not a chat completion"
    text = f"the endpoint {base_url!r} answered with {what}: {shortened(said, 120)!r}. Check the base URL.{hint}"
    return ModelError(text, kind="bad_reply", status=200)


def shortened(text: str, most: int = 300) -> str:
    """One line of at most that many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
