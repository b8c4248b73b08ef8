"""Names in questions and inputs: those that no call has used, and those that were sent together as one.

Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches

from archytas_nb.loop.events import Json
from archytas_nb.loop.forms import MONTHS

_NAME = re.compile(
    r"""[\"“]([^\"”]+)[\"”]             # what stands in quotes
    | \b[A-Za-z]\w*(?:[._]\w+)+        # lakes.csv, body_mass_g
    | (?<=[\w,;:)]\s)[A-Z][\w-]*       # a capital that does not begin a sentence
    """,
    re.VERBOSE,
)
"""Where a language writes all its nouns with a capital, a doubt too many costs a reply."""


def unused(question: str, used: Iterable[str]) -> list[str]:
    """Find the names of a question that are in none of the given texts.

    Args:
        question: The question.
        used: The inputs of the calls that worked, and what they came to.

    Returns:
        The names as the question writes them, in order, each once. None where none of them was used: then the
        calls were about something else, and the names say nothing.
    """
    names = dict.fromkeys(match[1] or match[0] for match in _NAME.finditer(question))
    text = "\n".join(used).lower()
    missing = [
        name for name in names if name.lower() not in text and not _is_month_in(name.lower(), text)
    ]
    return missing if len(missing) < len(names) else []


def _is_month_in(name: str, text: str) -> bool:
    """Whether a name is that of a month in which a day of the text lies, which is written in digits."""
    if name not in MONTHS:
        return False
    month = f"0?{MONTHS.index(name) + 1}"
    forms = (
        rf"\d{{4}}[-./]{month}",
        rf"\d{{1,2}}[./]{month}[./]\d{{2,4}}",
        rf"{month}/\d{{1,2}}/\d{{4}}",
        rf"{month}[-./]\d{{4}}",
    )
    return re.search(rf"(?<!\d)(?:{'|'.join(forms)})(?!\d)", text) is not None


LONGEST = 1000
"""Characters of a question and of a value that are looked through."""
MOST_NAMES = 200
_QUOTED = [re.compile(rf"(?<!\w){quote}([^'\"\n]{{1,60}}){quote}(?!\w)") for quote in "'\""]


_OFFERS = re.compile(
    r"\b(?:expected|expects?|there (?:is|are)|valid|known|available|allowed|choose|choices?|options?|columns?"
    r"|one of|did you mean|must be|possible|supported)\b",
    re.IGNORECASE,
)
"""What an error says that names what there is; one that names what it refuses is no help."""
_TYPES = {"int", "str", "float", "bool", "list", "dict", "tuple", "set", "none", "nonetype"}


def meant(value: str, error: str, question: str = "", inputs: Collection[str] | Json = ()) -> str:
    """Find the one name in an error's text that was meant by a value that it refuses.

    Args:
        value: The value that was given.
        error: The error's text, in which names stand in quotes.
        question: The question, for a value that it has not.
        inputs: The names of the inputs, which are no values.

    Returns:
        The name that contains the value, is contained in it or nearly is it, or else is the only one of several
        that the question has; empty where there is none, or more than one.
    """
    if not _OFFERS.search(error) or len(value) > LONGEST:
        return ""
    given = value.lower()
    quoted = [name for each in _QUOTED for name in each.findall(error)]
    names = {name for name in quoted if name.lower() not in {given, *_TYPES}}
    if len(names) > MOST_NAMES:
        return ""
    within = {name for name in names if _plain(given) and _plain(name) == _plain(given)}
    within = within or {name for name in names if len(given) > 2 and given in name.lower()}
    within = within or {name for name in names if _has(given.replace("_", " "), name)}
    found = within or set(get_close_matches(value, names, n=2, cutoff=0.75))
    asked = question.lower()
    if not found and len(asked) <= LONGEST and given not in asked:
        fields = inputs if isinstance(inputs, Collection) else ()
        offered = {name for name in names if len(name) > 2 and name not in fields}
        found = {name for name in offered if _has(asked, name)} if len(offered) > 1 else set()
        found = (
            set()
            if any(
                re.search(rf"\bnot (?:in |the |for )?{re.escape(name.lower())}", asked)
                for name in found
            )
            else found
        )
    return found.pop() if len(found) == 1 else ""


def _has(text: str, name: str) -> bool:
    """Whether a text in small letters has a name as words of its own."""
    return re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", text) is not None


def _plain(name: str) -> str:
    return "".join(each for each in name.lower() if each.isalnum())


def words(text: str) -> set[str]:
    """The words of a text that are longer than two letters, without case; of ``snake_case`` each part."""
    return {each for each in re.findall(r"[^\W_]+", text.lower()) if len(each) > 2}


_THING = r"[\w.-]+(?: [\w.-]+)?"
_SEVERAL = re.compile(rf"{_THING}(?:, {_THING})*(?:,? (?:and|or|und|oder|et|ou|y|o|&) |, ){_THING}")


def several(value: str) -> list[str]:
    """Split a text that lists things of one or two words each, as in ``"Rhine, Elbe and Oder"``.

    Returns:
        The things, two or more; none where the text is something else.
    """
    if not _SEVERAL.fullmatch(value.strip()):
        return []
    things = [
        each for each in re.split(r",? (?:and|or|und|oder|et|ou|y|o|&) |, ", value.strip()) if each
    ]
    return [] if {each.lower() for each in things} & {"more", "less", "fewer"} else things
