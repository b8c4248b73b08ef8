"""Judges names: whether a tool may have one, and whether it is the name of a secret."""

from __future__ import annotations

import re
from functools import lru_cache

from archytas_nb.errors import ToolError
from archytas_nb.loop.events import ANSWER, FAIL

RESERVED = frozenset({ANSWER, FAIL})
"""Names of the actions that end a run; tools cannot use them."""

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SECRET = re.compile(
    r"""
    # These name nothing else, wherever they are, and also as the end of a word (PGPASSWORD).
    (?:password|passwd|passphrase|passcode|pwd|secret|credential|apikey)s?(?:_|$)
    | (?:^|_)creds?(?:_|$)
    # Keys and tokens are secrets also in the plural where the word before says so ...
    | (?:^|_)(?:api|access|auth|bearer|refresh|session|private|signing|encryption|master|ssh)
      _?(?:key|token)s?(?:_|$)
    # ... and otherwise as the last word, in the singular: "tokens" and "keys" are mostly data.
    | (?:(?:^|_)(?:key|auth|authorization|jwt)|token|_key_(?:id|base))$
    | _(?:pat|pass|pw|cookies?)$
    """,
    re.VERBOSE,
)
"""Finds a secret in the words of a name, in lower case and joined by underscores."""
_WORD_ENDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WHICH_ONE = re.compile(
    r"_(?:prod|production|dev|development|staging|stage|test|testing|live|sandbox|local|old|new"
    r"|backup|default|main)$"
)
"""A last word that says which of several secrets it is."""
_ABOUT_ONE = re.compile(
    r"^(?:is|has|needs?|requires?|max|min|n|num)_"
    r"|_(?:count|len|length|size|limit|policy|names?|types?|kind|path|file|filename|dir|directory"
    r"|folder|fields?|columns?|expiry|expires|expiration|ttl|age|strength|score|pattern|regex"
    r"|required|enabled|valid|errors?)$"
)
"""What makes a name one of a property of a secret, such as its length, or where it is kept."""


def legal_name(name: str) -> str:
    """The name with dots replaced by underscores; raises ToolError if endpoints reject it."""
    wire = ""
    if isinstance(name, str):
        wire = name.replace(".", "_")
    if _LEGAL.fullmatch(wire) and wire not in RESERVED:
        return wire
    if wire in RESERVED:
        why = f"the name {name!r} is reserved: it ends the run"
    else:
        expected = "expected 1 to 64 of the characters a-z, A-Z, 0-9, _ and -"
        why = f"{name!r} is not a valid tool name: {expected}"
    raise ToolError(f'{why}; choose another with @tool(name="…")')


@lru_cache(maxsize=10_000)
def is_secret(name: str) -> bool:
    """Whether the name of a variable, a setting or an environment variable suggests a secret.

    It is the only definition of that in this package. In case of doubt a name is a secret's: to
    hide a value costs a question, and to show a key may cost the key.
    """
    words = _words(_WORD_ENDS.sub("_", name))
    if _ABOUT_ONE.search(words):
        return False
    # A capital does not always begin a word: both readings of "APIkey" count.
    return any(_SECRET.search(_WHICH_ONE.sub("", each)) for each in (words, _words(name)))


def _words(name: str) -> str:
    """The words of a name in lower case, joined by underscores; numbers are left out."""
    return re.sub(r"[\W\d_]+", "_", name).strip("_").lower()
