"""Masks secrets in texts: known values in any encoding, and strings that look like secrets.

Known are the values of environment variables, and the keys that models were given. Each secret is
replaced by a name in braces; masking a text twice has no further effect.
"""

from __future__ import annotations

import base64
import json
import os
import re
import urllib.parse
from collections.abc import Callable, Mapping
from functools import lru_cache

from archytas_nb.tools.names import is_secret

_SHAPES = re.compile(
    r"""
    -----BEGIN\ (?P<kind>[A-Z0-9 ]{0,30}PRIVATE\ KEY)-----
        (?: (?:(?!-----).){1,20000}? -----END\ (?P=kind)-----       # complete
          | (?:(?:\\+[rn]|\s)+[A-Za-z0-9+/=]{16,})*                 # or truncated
        )
    | \bsk-(?=(?:[A-Za-z_-]*[0-9]){3})[A-Za-z0-9_-]{16,}            # OpenAI, Anthropic and others
    | \b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}                        # Stripe
    | \b(?:gh[pousr]_|github_pat_|glpat-)[A-Za-z0-9_-]{20,}         # GitHub, GitLab
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                                 # Amazon
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}                              # Slack
    | \bAIza[A-Za-z0-9_-]{35}                                       # Google
    | \bhf_[A-Za-z0-9]{30,}                                         # Hugging Face
    | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*  # JSON web tokens
    """,
    re.VERBOSE | re.DOTALL,
)
_BEARER = re.compile(
    r"\b(Bearer\s+)(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}=*", re.IGNORECASE
)
_BASIC = re.compile(r"\b(Basic\s+)([A-Za-z0-9+/_-]{6,}={0,2})", re.IGNORECASE)
_URL = re.compile(
    r"(\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s/:@\"'<>\\]{0,200}):([^\s/@\"'<>\\]{1,500})@"
)
_ASSIGNED = re.compile(
    r"""
    (?P<before>
        (?<!\w) (?P<name>[A-Za-z_]\w{0,99})
        (?:["']\s*\]? | \s*:\s*[\w.\[\] |]{1,60}?)?                   # of a key, or annotated
        \s*(?:=|:)(?!=)\s*
    )
    (?: [A-Za-z]{0,2}
        (?: \"{3}.*?\"{3} | '{3}.*?'{3}
          | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
"""A text in quotes that is assigned to a name, given to an argument or stored under a key."""
_MIN_BASE64 = 8
"""Minimum number of base64 characters to search for; shorter strings occur by chance."""

_WORKING_DIRECTORY = ("PWD", "OLDPWD")  # a shell's; elsewhere "pwd" is a password
_NO_SECRET = re.compile(r".{0,7}|\D{0,15}|\d*", re.DOTALL)
"""Short values, words and numbers are placeholders such as ``not-needed``, and no secrets."""

_given: dict[str, str] = {}
"""The names of the secrets that this process was given in code, by their values."""


def remember(name: str, value: str) -> None:
    """Mask a value, such as a key that a model was given, from now on."""
    if not _NO_SECRET.fullmatch(value):
        _given.setdefault(value, name)


def remember_fields(fields: Mapping[str, str]) -> None:
    """Mask the values of those headers and query parameters whose names are those of secrets."""
    for name, value in fields.items():
        word = name.replace("-", "_")
        if is_secret(word) or word.lower().endswith("authorization"):
            remember(word.lower(), value.rpartition(" ")[2])  # without "Bearer"


def known_secrets() -> list[tuple[str, str]]:
    """The names and values of the secrets that are known now."""
    found = []
    for name, value in os.environ.items():
        if is_secret(name) and name not in _WORKING_DIRECTORY:
            found.append((name, value))
        elif "://" in value:
            found += [(name, password) for password in passwords_in(value)]
    found = [(name, value) for name, value in found if not _NO_SECRET.fullmatch(value)]
    return found + [(name, value) for value, name in tuple(_given.items())]


def mask_all(text: str) -> str:
    """The text with the secrets masked that are known, and strings that look like secrets."""
    if not text:
        return text
    for name, value in known_secrets():
        text = replaced(text, value, f"{{{name}}}")
    return mask_secrets(text)


def mask_secrets(text: str) -> str:
    """The text with strings that look like secrets masked."""
    text = _SHAPES.sub("{secret}", text)
    text = _BEARER.sub(r"\1{secret}", text)
    text = _BASIC.sub(_without_password, text)
    return _URL.sub(r"\1:{password}@", text)


def mask_in(variables: Mapping[str, object]) -> Callable[[str], str]:
    """A function that masks secrets in code and output of a notebook with these variables.

    Beyond `mask_results`, these are the texts that code assigns to names of secrets.
    """
    mask_known = mask_results(variables)
    return lambda text: _ASSIGNED.sub(_without_literal, mask_known(text))


def mask_results(variables: Mapping[str, object]) -> Callable[[str], str]:
    """A function that masks secrets in what a call returned, printed or raised.

    Beyond `mask_all`, these are the texts of variables that are named like secrets, and of each of
    them the part that is left where a text was cut.
    """

    def mask(text: str) -> str:
        if not text:
            return text
        own = [
            (name, value)
            for name, value in tuple(variables.items())
            if type(value) is str and is_secret(name) and not _NO_SECRET.fullmatch(value)
        ]
        for name, value in own:
            text = replaced(text, value, f"{{{name}}}")
        text = mask_all(text)
        if _CUT.search(text):
            for name, value in (*own, *known_secrets()):
                text = _without_rest(text, value, f"{{{name}}}")
        return text

    return mask


_CUT = re.compile(r"…|\.\.\.")
"""Marks where a text was cut, by this package or by another library."""
_MIN_REST = 6
"""Minimum number of characters of a secret that are recognised next to a cut."""


def _without_rest(text: str, value: str, name: str) -> str:
    """The text without the beginnings of a value before a cut, and the ends of it after one."""
    for each in spellings(value):
        begin, end = each[:_MIN_REST], each[-_MIN_REST:]
        if begin not in text and end not in text:
            continue
        parts: list[str] = []
        done = 0
        for cut in _CUT.finditer(text):
            before = text[done : cut.start()]
            kept = before.rstrip(" \n")
            at = kept.find(begin, max(len(kept) - len(each), 0))
            while at >= 0 and not each.startswith(kept[at:]):
                at = kept.find(begin, at + 1)
            if at >= 0:
                before = f"{kept[:at]}{name}{before[len(kept) :]}"
            parts += before, cut[0]
            behind = text[cut.end() : cut.end() + len(each) + 1].lstrip(" \n")
            at = behind.find(end)
            while at >= 0 and not each.endswith(behind[: at + _MIN_REST]):
                at = behind.find(end, at + 1)
            done = cut.end()
            if at >= 0:
                done += text[done:].index(behind[: at + _MIN_REST])
                parts += text[cut.end() : done], name
                done += at + _MIN_REST
        text = "".join([*parts, text[done:]])
    return text


def _without_literal(found: re.Match[str]) -> str:
    if is_secret(found["name"]):
        return f"{found['before']}{{secret}}"
    return found[0]


def shown_url(url: str) -> str:
    """A URL without user, password and query."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))


def passwords_in(text: str) -> list[str]:
    """The passwords in the URLs of a text, percent-encoded and decoded."""
    written = [found[2] for found in _URL.finditer(text)]
    return list(dict.fromkeys([*written, *map(urllib.parse.unquote, written)]))


@lru_cache(maxsize=256)
def spellings(value: str) -> tuple[str, ...]:
    """The encodings in which a value may appear, longest first: JSON, URL, any offset of base64."""
    found = [
        value,
        value.replace("\n", "\r\n"),
        urllib.parse.quote(value),
        urllib.parse.quote(value, safe=""),
    ]
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        found += [once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]]
    found.append(repr(value)[1:-1])
    raw = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        # Base64 characters that share bits with adjacent bytes are omitted.
        encoded = base64.b64encode(bytes(before) + raw).decode()[
            -(-before * 8 // 6) : (before + len(raw)) * 8 // 6
        ]
        if len(encoded) >= _MIN_BASE64:
            found += [encoded, encoded.replace("+", "-").replace("/", "_")]
    return tuple(sorted(dict.fromkeys(found), key=len, reverse=True))


def replaced(text: str, value: str, name: str) -> str:
    """The text with a value replaced by a name in all of its encodings."""
    for each in spellings(value):
        text = text.replace(each, name)
    escaped = _escaped(value)
    return text if escaped is None else escaped.sub(lambda _: name, text)


@lru_cache(maxsize=256)
def _escaped(value: str) -> re.Pattern[str] | None:
    """A value as it is written in quotes within quotes, at any depth; None if that is the same."""
    if _PLAIN.fullmatch(value):
        return None
    return re.compile("".join(map(_escaped_character, value)))


_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")
"""A text without quotes and backslashes, in ASCII."""


def _escaped_character(character: str) -> str:
    if character == "\\":
        return r"\\+"
    if character in "\"'":
        return rf"\\*{character}{{1,2}}"
    if _PLAIN.fullmatch(character):
        return re.escape(character)
    escapes = {repr(character)[1:-1], json.dumps(character)[1:-1]} - {character}
    return (
        "|".join([rf"(?:{re.escape(character)}", *(r"\\*" + re.escape(each) for each in escapes)])
        + ")"
    )


def _without_password(found: re.Match[str]) -> str:
    encoded = found[2].rstrip("=").replace("+", "-").replace("/", "_")
    try:
        plain = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except ValueError:  # a word of prose
        plain = ""
    if ":" in plain:
        return f"{found[1]}{{secret}}"
    return found[0]
