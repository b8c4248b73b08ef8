r"""``{expr}`` in a question becomes the value, as the model would read it from a tool.

    {name}  {name.attr}  {df[:3]}  {df[df.year > 2008]}  {price:.2f}  {name!r}     looked up and written
    {{  }}                                                                         one brace
    {"a": 1}  {a: 1}  {1, 2}  {see below}  { return x; }  \frac{n}{2}  e^{n}        left alone

What Python reads as a dict, as a set of several things or of constants, or not at all, is text, and so is what
stands behind a command of TeX: JSON, code and formulas can be pasted. Everything else is a lookup, and one that
cannot be made is an error before anything is asked: a misspelled name is never sent to a model in silence. A
lookup calls nothing and reads nothing private (``_name``, ``In``) and no module, so that a question that was
pasted runs nothing; powers and huge repetitions are left to a cell. ``{MY_PASSWORD}`` is still your variable: put
``--raw`` before a text that you do not know.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from IPython.core.error import UsageError

from archytas_nb.magics.lookup import LookupFault, is_lookup, look, names_in, parsed

_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?0?\d*[_,]?(?:\.\d+)?[bcdeEfFgGnosxX%]?")
_WIDE = re.compile(r"\d{5}")
_STRFTIME = re.compile(r".*%[A-Za-z]")
_CONVERSION: dict[str, Callable[[Any], str]] = {"!r": repr, "!s": str, "!a": ascii}
_LONGEST_STRING_AWARE = 2000


@dataclass(frozen=True, slots=True)
class Expanded:
    """A question as it is sent.

    Attributes:
        text: The question with its values.
        images: The pictures among the values, PNG in base64; the text names each in its place.
    """

    text: str
    images: tuple[str, ...] = ()


class _Lookup(NamedTuple):
    source: str
    conversion: str = ""
    spec: str = ""


def expand(text: str, namespace: Mapping[str, Any], max_chars: int = 8000) -> Expanded:
    """Replace each lookup in a question by its value.

    Args:
        text: The question as it was typed.
        namespace: The notebook's variables.
        max_chars: The most characters that one value may have.

    Returns:
        The question as it is sent.

    Raises:
        UsageError: A lookup cannot be made; all of them are named.
    """
    partner = _pairs(text)
    out: list[str] = []
    images: list[str] = []
    faults: list[str] = []
    closers: set[int] = set()  # the ends of braces that are text: they are no half of an escape
    formulas: set[int] = set()  # those among them that are TeX's
    at = 0
    while (found := _BRACE.search(text, at)) is not None:
        start = found.start()
        out.append(text[at:start])
        at = start + 1
        if text[start] == "}":
            out.append("}")
            if start not in closers and text[at : at + 1] == "}":
                at += 1
        elif text[at : at + 1] == "{":
            out.append("{")
            at += 1
        elif _is_tex(text, start, formulas) and start in partner:
            out.append("{")
            closers.add(partner[start])
            formulas.add(partner[start])
        else:
            end, what = _group(text, start, partner, namespace)
            if isinstance(what, _Lookup):
                try:
                    out.append(_written(what, namespace, max_chars, images))
                except LookupFault as fault:
                    faults.append(f"{fault} ({_shown(text[start : end + 1])})")
                at = end + 1
            elif what == "whole":
                out.append(text[start : end + 1])
                at = end + 1
            else:
                out.append("{")
                closers.add(end)
    out.append(text[at:])
    if faults:
        raise UsageError(
            f"{'; '.join(dict.fromkeys(faults))}. In a question {{name}} stands for the value of a variable; "
            "write {{name}} for the braces themselves, or --raw before a question that is to be sent as it is."
        )
    return Expanded("".join(out), tuple(images))


_BRACE = re.compile(r"[{}]")
_TEX = re.compile(r"(?:\\[A-Za-z]{2,}\*?(?:\[[^][{}]*\])?[_^]?|\^)\Z")
"""What a group of TeX stands behind: a command, of more letters than ``\\n`` has, or the sign of an exponent."""


def _is_tex(text: str, start: int, ends: set[int]) -> bool:
    """Whether a brace opens a group of TeX: behind a command, an exponent's sign, or another such group."""
    before = start - 2 if text[start - 1 : start] in ("_", "^") else start - 1
    return before in ends or _TEX.search(text, max(0, start - 80), start) is not None


def _pairs(text: str) -> dict[int, int]:
    """Where each opening brace is closed, counting braces alone."""
    pairs, open_ = {}, []
    for found in _BRACE.finditer(text):
        if found[0] == "{":
            open_.append(found.start())
        elif open_:
            pairs[open_.pop()] = found.start()
    return pairs


def _group(
    text: str, start: int, partner: Mapping[int, int], namespace: Mapping[str, Any]
) -> tuple[int, _Lookup | str]:
    """What begins with this brace: its end, and a lookup, ``"whole"`` for what is text to its end, or ``""``."""
    ends = [partner[start]] if start in partner else []
    other = _end_past_strings(text, start)
    if other is not None and other not in ends:
        ends.append(other)
    for end in ends:
        what = _meaning(text[start + 1 : end], namespace)
        if what:
            return end, what
    return (ends[0] if ends else -1), ""


def _end_past_strings(text: str, start: int) -> int | None:
    """Where the brace is closed, not counting braces in strings such as ``{d["}"]}``."""
    depth, quote = 0, ""
    at = start
    while at < min(len(text), start + _LONGEST_STRING_AWARE):
        sign = text[at]
        if quote:
            if sign == "\\":
                at += 1
            elif sign == quote:
                quote = ""
        elif sign in "\"'":
            quote = sign
        elif sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return None


def _meaning(body: str, namespace: Mapping[str, Any]) -> _Lookup | str:
    """Read what stands between two braces."""
    if not body.strip():
        return "whole"
    if _is_json(body):
        return "whole"
    tree = parsed("{" + body + "}")
    if isinstance(tree, ast.Dict):
        return "whole"
    if isinstance(tree, ast.Set):
        [first, *more] = tree.elts
        if more or isinstance(first, ast.Starred) or not names_in(first):
            return "whole"
    if "\n" in body:  # a block of code: what a person looks up stands on one line
        return ""
    return _formatted(body, namespace) if tree is None else _Lookup(body.strip())


def _formatted(body: str, namespace: Mapping[str, Any]) -> _Lookup | str:
    """Read a lookup with a conversion or a format, as in an f-string.

    ``{color:red;}`` is text as long as there is no variable of that name: then it is a format that does not work.
    """
    colons = (found.start() for found in re.finditer(":", body[:_LONGEST_STRING_AWARE]))
    for end in [*colons, len(body)]:
        source, spec = body[:end], body[end + 1 :]
        conversion = source[-2:] if source[-2:] in _CONVERSION else ""
        source = source.removesuffix(conversion) if conversion else source
        if not conversion and end == len(body):
            return ""
        tree = parsed(source)
        if tree is None:
            continue
        if not is_lookup(tree):
            if (
                names_in(tree) and _SPEC.fullmatch(spec) and (spec or conversion)
            ):  # which the lookup will refuse
                return _Lookup(source.strip(), conversion, spec)
            continue
        is_format = _SPEC.fullmatch(spec) or _STRFTIME.match(spec) or _all_known(tree, namespace)
        if end == len(body) or (is_format and not spec.startswith(" ")):
            return _Lookup(source.strip(), conversion, spec)
    return ""


def _all_known(tree: ast.expr, namespace: Mapping[str, Any]) -> bool:
    return all(name in namespace for name in names_in(tree))


def _is_json(body: str) -> bool:
    try:
        return isinstance(json.loads("{" + body + "}"), dict)
    except (ValueError, RecursionError):
        return False


def _written(
    lookup: _Lookup, namespace: Mapping[str, Any], max_chars: int, images: list[str]
) -> str:
    """A lookup's value as the model reads it.

    Raises:
        LookupFault: There is no value, or it cannot be written so.
    """
    from archytas_nb.tools.clip import clip
    from archytas_nb.tools.result import is_lazy, render

    value = look(lookup.source, namespace)
    if lookup.conversion or lookup.spec:
        if _WIDE.search(lookup.spec):
            raise LookupFault(
                f"{lookup.source!r} cannot be written so: the format {lookup.spec!r} is too wide"
            )
        try:
            shown = _CONVERSION[lookup.conversion](value) if lookup.conversion else value
            return clip(format(shown, lookup.spec), max_chars)
        except Exception as error:  # the value is the user's and may raise anything
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise LookupFault(f"{lookup.source!r} cannot be written so: {said[:300]}") from error
    if is_lazy(value):
        raise LookupFault(
            f"{lookup.source!r} is a {type(value).__name__}, which reading would use up: make it a list"
        )
    if value is None or (isinstance(value, str) and not value):
        return str(value)  # a tool that returns nothing is told of in other words
    rendered = render(value, max_chars)
    images.extend(rendered.images)
    return rendered.text


def _shown(source: str) -> str:
    line = " ".join(source.split())
    return line if len(line) <= 80 else f"{line[:79]}…"
