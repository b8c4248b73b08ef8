"""Where an endpoint is and how one is let in: a base URL and a key, checked before anything is sent.

Pure. A key is never shown, not even in part; a URL is shown without the secrets that it may hold.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping

from archytas_nb.errors import ConfigurationError

OPENAI_URL = "https://api.openai.com/v1"


_AZURE = re.compile(r"\.azure\.(?:com|us|cn)")


def usable_url(url: str) -> str:
    """A base URL as it is sent to; a path copied down to ``/chat/completions`` is cut where the API begins.

    Raises:
        ConfigurationError: It has no scheme or no host.
    """
    parts = urllib.parse.urlsplit(url.strip())
    path = parts.path.removesuffix("/").removesuffix("/chat/completions")
    url = urllib.parse.urlunsplit(parts._replace(path=path, fragment=""))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        expected = "http:// or https://, a host, and mostly '/v1' at the end"
        raise ConfigurationError(f"base_url is {shown_url(url)!r}; expected {expected}")
    return url


def usable_key(key: str, base_url: str) -> str:
    """A key that fits into a header; may be empty for an endpoint that needs none.

    Raises:
        ConfigurationError: The key cannot be one, or the endpoint needs one and there is none.
    """
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        text = "the API key holds characters that no key has. Copy it anew into OPENAI_API_KEY."
        raise ConfigurationError(text)
    if not key and base_url.startswith(OPENAI_URL):
        raise ConfigurationError(
            f"no API key for {base_url!r}. Set OPENAI_API_KEY, or OPENAI_BASE_URL for another endpoint."
        )
    return key


def shown_url(url: str) -> str:
    """A URL without user, password and query."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))


def without_user(url: str) -> tuple[str, tuple[str, str] | None]:
    """A URL without user and password, and these: the client's log shows every URL that it asks."""
    parts = urllib.parse.urlsplit(url)
    if "@" not in parts.netloc:
        return url, None
    user = (urllib.parse.unquote(parts.username or ""), urllib.parse.unquote(parts.password or ""))
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), user


def without_query(url: str) -> tuple[str, dict[str, str]]:
    """A URL without its query, and this: paths are appended to the one, and the other goes behind them."""
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    return urllib.parse.urlunsplit(parts._replace(query="")), query


def key_header(url: str, key: str) -> dict[str, str]:
    """The header in which an endpoint expects its key: Azure a key of its own in another one, but not a token."""
    if _AZURE.search(urllib.parse.urlsplit(url).hostname or "") and key.count(".") != 2:
        return {"api-key": key}
    return {"Authorization": f"Bearer {key}"}


def usable_fields(name: str, fields: Mapping[str, str] | None) -> dict[str, str]:
    """Headers, or the fields of a query, as they are given; a value may be secret and is not shown.

    Raises:
        ConfigurationError: A name or a value is no text that fits on the line of a header.
    """
    for key, value in (fields or {}).items():
        for text in (key, value):
            if not (isinstance(text, str) and text.isascii() and text.isprintable()):
                expected = (
                    "expected names and values of printable ASCII, such as {'X-Team': 'data'}"
                )
                raise ConfigurationError(f"{name} holds {key!r}, which cannot be sent; {expected}")
    return dict(fields or {})


def is_local(url: str) -> bool:
    """Whether a URL names this machine."""
    return urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
