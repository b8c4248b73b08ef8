"""What can go wrong with an endpoint, said in words that name the URL and the next move.

No library is imported and nothing is asked: the one file that speaks openai hands in statuses and texts. What a
text is a case of is `wording`'s to judge.
"""

from __future__ import annotations

import datetime as dt
import difflib
import email.utils
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archytas_nb.errors import ModelError, ModelErrorKind
from archytas_nb.models import wording

LONGEST_WAIT = 60.0
"""Seconds; a server may ask for more with Retry-After, and is then not waited for."""

_FORGET = (
    "If further questions are refused too, forget the last one with agent.undo() or %agent --undo."
)
"""What a tool has shown stays in the conversation, and may be why each request is refused."""

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed request, before it is decided whether it is tried again.

    Attributes:
        error: What is raised when nothing helps.
        passing: Whether it may pass by itself.
        wait: Seconds that the server asks to wait, or None where it does not say.
        said: What the server said, with the codes that it gave; not to be shown.
    """

    error: ModelError
    passing: bool = False
    wait: float | None = None
    said: str = ""


def for_status(
    status: int,
    said: str,
    base_url: str,
    model: str,
    *,
    asked_with_tools: bool = False,
    asked_with_images: bool = False,
    codes: str = "",
    wait: float | None = None,
) -> Fault:
    """The fault behind an HTTP status.

    Args:
        status: The HTTP status code.
        said: What the server said about it; shortened here.
        base_url: The endpoint, as it may be shown.
        model: The model's name in the request.
        asked_with_tools: Whether the request had function-calling tools.
        asked_with_images: Whether the request had images.
        codes: What else the server's error object says, for judging only.
        wait: Seconds that the server asks to wait, or None.
    """
    raw = f"{said[: wording.LOOKED_AT - len(codes) - 1]} {codes}"
    said = shortened(_without_page(said)) or "no reason given"
    at = f"the endpoint {base_url!r}"

    def fault(kind: ModelErrorKind, text: str, *, passing: bool = False) -> Fault:
        return Fault(ModelError(text, kind=kind, status=status), passing, wait, raw)

    if status in (401, 403) or (status == 400 and wording.rejects_key(raw)):
        move = "Set OPENAI_API_KEY (or %config ArchytasNB.api_key) to a key for this endpoint."
        return fault("auth", f"{at} rejected the API key (HTTP {status}): {_sentence(said)} {move}")
    # "Request too large" is said with 429 by those who bound the tokens of a minute: waiting does not shorten it.
    if (
        status == 413
        or raw.startswith("Request too large")
        or (status != 429 and wording.is_overflow(raw))
    ):
        move = "Begin anew with agent.reset(), or use a model with a longer context."
        text = (
            f"the conversation is too long for model {model!r} at {at} (HTTP {status}): "
            f"{_sentence(said)} {move}"
        )
        return fault("overflow", text)
    if status in (402, 429):
        return _limited(status, said, raw, at, wait)
    refused = f"{at} refused the request for model {model!r} (HTTP {status}): {_sentence(said)}"
    if part := _refused_part(raw, tools=asked_with_tools, images=asked_with_images):
        kind, move = part
        return fault(kind, f"{refused} {move}")
    if wording.needs_other_api(raw):
        move = "Only chat completions are used here: name another model of this endpoint."
        text = f"{at} does not serve model {model!r} by chat completions (HTTP {status}): {_sentence(said)}"
        return fault("refused", f"{text} {move}")
    if status in (404, 405) or (status == 400 and wording.knows_no_model(raw)):
        text = (
            f"{at} does not know the path or the model {model!r} (HTTP {status}): {_sentence(said)}"
        )
        return fault("not_found", text)
    if status >= 500 and not wording.is_about_form(raw):
        move = "Ask again in a while, or look at the server's log."
        text = f"{at} failed (HTTP {status}): {_sentence(said)}{_asked(wait)} {move}"
        return fault("server", text, passing=status in _RETRIED)
    if status in _RETRIED and status < 500:
        return fault("server", f"{refused}{_asked(wait)} Ask again in a while.", passing=True)
    move = "Change the request's settings or the model, or look at the server's log."
    return fault("refused", f"{refused} {move}")


def _refused_part(raw: str, *, tools: bool, images: bool) -> tuple[ModelErrorKind, str] | None:
    """Which sort of failure it is where a part of the request is refused, and the next move; else None."""
    if wording.is_filtered(raw):
        return "refused", f"Put the question differently. {_FORGET}"
    if images and wording.is_about_this_image(raw):
        return "refused", f"Leave the image out, or show a smaller PNG or JPEG. {_FORGET}"
    if images and wording.most_images(raw) is not None:
        return "refused", "Use a model that takes images, or leave them out."
    if tools and wording.takes_no_tools(raw):
        return "no_tools", "It takes no tools: use protocol='react' with this model."
    return None


def _limited(status: int, said: str, raw: str, at: str, wait: float | None) -> Fault:
    """The server takes no more requests, for now or until it is paid."""
    used_up = status == 402 or "insufficient_quota" in raw or "exceeded your current quota" in raw
    for_now = "" if used_up else " for now"
    move = (
        "Waiting does not help: see to the account's credit, or use another model or endpoint."
        if used_up
        else "Wait, or use another model or endpoint."
    )
    text = f"{at} refuses further requests{for_now} (HTTP {status}): {_sentence(said)}{_asked(wait)} {move}"
    return Fault(ModelError(text, kind="rate_limit", status=status), not used_up, wait, raw)


def unreachable(base_url: str, why: str) -> Fault:
    """No connection came about."""
    certificate = "certificate" in why.lower()
    move = (
        "Its certificate is not trusted here: set SSL_CERT_FILE, or use the right host."
        if certificate
        else "Start it, or set OPENAI_BASE_URL (or %config ArchytasNB.base_url) to where your model is served."
    )
    text = f"no server answers at {base_url!r} ({shortened(why)}). {move}"
    return Fault(ModelError(text, kind="unreachable"), passing=not certificate)


def timed_out(base_url: str, seconds: float, *, during: str) -> Fault:
    """The server said nothing for too long. It is asked once more only by the person: each try costs that long.

    Args:
        base_url: The endpoint, as it may be shown.
        seconds: How long it was silent.
        during: ``"connect"``, ``"first byte"`` or ``"reply"``.
    """
    what = {
        "connect": f"no connection to {base_url!r} came about within {seconds:g} s",
        "first byte": f"the endpoint {base_url!r} sent nothing for {seconds:g} s",
        "reply": f"the endpoint {base_url!r} fell silent for {seconds:g} s in the middle of its reply",
    }[during]
    move = (
        "Check the address and the network."
        if during == "connect"
        else "It may be busy or too slow: ask again, or raise %config ArchytasNB.timeout."
    )
    return Fault(ModelError(f"{what}. {move}", kind="timeout"), passing=during == "connect")


def out_of_time(base_url: str, seconds: float | None, last: str = "") -> Fault:
    """The time that the request had is over. The whole run's time is, so nothing is tried again.

    Args:
        base_url: The endpoint, as it may be shown.
        seconds: How much time it had.
        last: What had gone wrong before, where it was to be tried again.
    """
    after = f" after {last}" if last else ""
    text = f"the endpoint {base_url!r} gave no whole reply within the {seconds or 0:.3g} s that were left{after}."
    return Fault(ModelError(f"{text} Raise max_seconds, or ask for less.", kind="deadline"))


def dropped(base_url: str, why: str) -> Fault:
    """The connection broke before the reply was whole."""
    text = (
        f"the endpoint {base_url!r} broke off before its reply was whole ({shortened(why)}). "
        "Ask again, or look at the server's log."
    )
    return Fault(ModelError(text, kind="unreachable"), passing=True)


def not_an_api(base_url: str, said: str) -> Fault:
    """Something answered with status 200, but not with a chat completion."""
    page = said.lstrip()[:1] == "<"
    what = "a web page" if page else "something that is not a chat completion"
    said = shortened(_without_page(said), 120)
    text = f"the endpoint {base_url!r} answered with {what}: {said!r}."
    return Fault(ModelError(text, kind="bad_reply", status=200))


def redirected(base_url: str, to: str, status: int) -> Fault:
    """The endpoint is elsewhere. No redirect is followed: a conversation goes only to where the user sends it.

    Args:
        base_url: The endpoint, as it may be shown.
        to: Where it redirects to, as it may be shown.
        status: The HTTP status.
    """
    text = (
        f"the endpoint {base_url!r} redirects to {to!r}, and nothing was sent there. If that is where the API "
        "begins, set OPENAI_BASE_URL (or base_url) to it."
    )
    return Fault(ModelError(text, kind="refused", status=status))


def too_long(base_url: str, most: int) -> Fault:
    """The reply does not end, or its server sends something else."""
    text = f"the endpoint {base_url!r} sent more than {most:,} bytes for one reply, and it was given up."
    return Fault(ModelError(f"{text} Look at the server's log.", kind="server", status=200))


def withheld(base_url: str) -> Fault:
    """A content filter of the endpoint took away the reply, or the rest of it."""
    text = (
        f"the content filter of the endpoint {base_url!r} withheld the reply, or a part of it. "
        "Put the question differently, or use another model."
    )
    return Fault(ModelError(text, kind="refused", status=200))


def told_more(error: ModelError, more: str) -> ModelError:
    """The same error with a further sentence."""
    return ModelError(f"{error} {more}", kind=error.kind, status=error.status)


def serves(names: Sequence[str], wanted: str) -> str:
    """Which models an endpoint has, the one that was probably meant first."""
    if not names:
        return "It serves no model at all: load one first."
    if wanted in names:
        return f"It does list {wanted!r}: check that the base URL is the right one."
    lower = {name.lower(): name for name in reversed(names)}
    near = [
        lower[each] for each in difflib.get_close_matches(wanted.lower(), lower, n=1, cutoff=0.5)
    ]
    near = near or [name for name in names if wanted.lower() in name.lower()][:1]
    shown = [*near, *(name for name in names if name not in near)][:12]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    meant = f" Did you mean {near[0]!r}?" if near else ""
    return f"It serves {', '.join(map(repr, shown))}{more}.{meant}"


def retry_after(headers: Mapping[str, str], now: dt.datetime) -> float | None:
    """Seconds that a server asks to wait, from its headers.

    Args:
        headers: The response's headers, found without regard to case.
        now: The present time, with a time zone.

    Returns:
        Seconds, at least 0; None where the server does not say or makes no sense.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * unit
    try:
        at = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=dt.UTC)
    return max(0.0, (at - now).total_seconds())


def shortened(text: str, most: int = 300) -> str:
    """One line of at most that many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _asked(wait: float | None) -> str:
    if wait is None or wait <= LONGEST_WAIT:
        return ""
    return f" It asks to wait {wait:.0f} s, which is longer than the {LONGEST_WAIT:.0f} s that are waited for."


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _without_page(text: str) -> str:
    """The title of a web page, where the text is one."""
    if text.lstrip()[:1] != "<":
        return text
    title = _TITLE.search(text)
    return title.group(1) if title else re.sub(r"<[^>]*>", " ", text)
