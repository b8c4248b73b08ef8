"""How long an endpoint asks to wait: one reading of the headers and the body of its response."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

MAX_WAIT_SECONDS = 60.0
"""Maximum wait before a request is tried again; if a server asks for more, it fails immediately."""
_UNITS = {
    "ms": 0.001, "msec": 0.001, "msecs": 0.001, "millisecond": 0.001, "milliseconds": 0.001,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0,
}  # fmt: skip
_UNIT = "|".join(sorted(_UNITS, key=len, reverse=True))
_PART = rf"(\d{{1,9}}(?:\.\d{{1,12}})?)\s*({_UNIT})(?![a-z])"
_PARTS = re.compile(_PART, re.IGNORECASE)
_DURATION = re.compile(rf"\s*(?:{_PART}\s*,?\s*)+", re.IGNORECASE)
_IN_TEXT = re.compile(rf"\b(?:in|after)\s*:?\s+((?:{_PART}\s*)+)", re.IGNORECASE)
"""A duration after "in" or "after", as in "try again in 1m2.5s"."""
_NUMBER = re.compile(r"\d{1,13}(?:\.\d{1,12})?")
_NAMED = re.compile(r"(?:retry|reset|wait)", re.IGNORECASE)
"""A field of a body that holds a time to wait."""
_EPOCH = 1e9
"""A larger number is a moment: seconds since 1970, or milliseconds if it is larger still."""
_SEARCHED = 20_000
_DEPTH = 8


def wait_told(headers: Mapping[str, str], body: Any, text: str) -> float | None:
    """The longest wait in seconds that a response tells, or None.

    In prose, a time above `MAX_WAIT_SECONDS` may also be the period of a limit ("100 requests in 1
    day"), so it counts only where the response has no shorter one.

    Args:
        headers: The headers of the response, with names in lower case.
        body: Its parsed body; None if it is not JSON.
        text: Its body as text.
    """
    fields = [*_in_headers(headers), *_in_fields(body)]
    prose = [_seconds(match[1]) for match in _IN_TEXT.finditer(text[:_SEARCHED])]
    prose = [each for each in prose if each <= MAX_WAIT_SECONDS] or prose
    return max((each for each in [*fields, *prose] if each is not None), default=None)


def _in_headers(headers: Mapping[str, str]) -> Iterator[float | None]:
    yield _value("retry-after-ms", headers.get("retry-after-ms", ""))
    if "retry-after-ms" not in headers:
        # It is the more exact one of the two.
        yield _value("retry-after", headers.get("retry-after", ""))
    yield from _used_up({str(name).lower(): str(value) for name, value in headers.items()})


def _used_up(fields: Mapping[str, str]) -> Iterator[float | None]:
    """The resets of the limits of which nothing is left, as in ``x-ratelimit-reset-tokens``."""
    for name, value in fields.items():
        if "ratelimit-reset" in name:
            left = fields.get(name.replace("ratelimit-reset", "ratelimit-remaining"), "")
            if left.strip() in ("0", "0.0"):
                yield _value(name, value)


def _in_fields(value: Any, depth: int = _DEPTH) -> Iterator[float | None]:
    """The waits in the fields of a body, such as ``retryDelay`` and ``retry_after_ms``."""
    if not depth:
        return
    if isinstance(value, dict):
        yield from _used_up({str(name).lower(): str(each) for name, each in value.items()})
        for name, each in value.items():
            if isinstance(each, (dict, list)):
                yield from _in_fields(each, depth - 1)
            elif _NAMED.search(str(name)) and "ratelimit" not in str(name).lower():
                yield _value(str(name), each)
    elif isinstance(value, list):
        for each in value[:100]:
            yield from _in_fields(each, depth - 1)


def _value(name: str, value: Any) -> float | None:
    """The seconds of a field: a number in the unit of its name, a duration, a date or a moment."""
    if isinstance(value, bool):
        return None
    text = str(value).strip()
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number > _EPOCH:
            moment = number if number < _EPOCH * 100 else number / 1000
            return max(0.0, moment - time.time())
        is_ms = re.search(r"(?:[_-]ms|Ms|millis(?:econds)?)$", name) is not None
        return number * 0.001 if is_ms else number
    if _DURATION.fullmatch(text):
        return _seconds(text)
    return _until(text)


def _seconds(text: str) -> float:
    """The seconds of a duration such as ``"1m2.5s"``."""
    parts: Iterable[tuple[str, str]] = _PARTS.findall(text)
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def _until(text: str) -> float | None:
    """The seconds until an HTTP date."""
    if not re.search(r"\d\d:\d\d", text):
        return None
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
