"""What the Tab key offers in the line of a magic: options, their values, tools, models, variables.

It asks the magic's own parser what may stand at the cursor, and knows lines of text alone: see `matcher` for how
IPython comes here. Only a question for models imports what is not loaded already.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from archytas_nb.magics.line import OPTION, value_at
from archytas_nb.tools.reference import visible

_HEAD = re.compile(
    r"(?:[^%'\"#]*=\s*(?=%)|\s*)(?P<sign>%(?P<cell>%)?|)(?P<magic>agent_cassette|agent|tools|tool)\b"
)
_IN_BRACES = re.compile(r"(?<!\{)\{\s*(?P<word>[A-Za-z_]\w*(?:\.\w*)?)?$")
_TYPES = ("bool", "dict[str, float]", "float", "int", "list[int]", "list[str]", "str")

Words = Callable[[Any], Iterable[str]]
"""What may stand in a place, given the magics object."""


class _Place(NamedTuple):
    """Where the cursor is.

    Attributes:
        option: The option whose value is written; ``"-"`` for the name of an option; ``""`` for the text.
        word: What is written already of the word at the cursor.
        used: The options before it, and the names before it in a list with commas.
    """

    option: str
    word: str
    used: tuple[str, ...]


def completed(shell: Any, owners: Mapping[str, Any], lines: Sequence[str]) -> tuple[str, list[str]]:
    """Find out what may stand at the cursor.

    Args:
        shell: The IPython shell.
        owners: The name of each magic, and the object that it belongs to.
        lines: The cell's lines up to the cursor.

    Returns:
        The word at the cursor as far as it is written, and what it may become.
    """
    line = lines[-1]
    head = _HEAD.match(line)
    first = next((_HEAD.match(each) for each in lines[:-1] if each.strip()), None)
    if first is not None and first["cell"]:
        name, place = first["magic"], _in_text(line)
        if name != "agent":
            return "", []
    elif (
        head is not None
        and head.end() < len(line)
        and (head["sign"] or _is_automagic(shell, head["magic"]))
    ):
        name = head["magic"]
        place = _place(line[head.end() :], getattr(owners[name], name).parser)
    else:
        return "", []
    written = place.word.lower()
    words = _words(owners[name], name, place)
    return place.word, [
        word for word in words if word.lower().startswith(written) and word not in place.used
    ]


def _is_automagic(shell: Any, name: str) -> bool:
    """Whether a magic's name may stand without its sign."""
    return bool(shell.automagic) and name not in shell.user_ns


def _words(magics: Any, name: str, place: _Place) -> list[str]:
    values, options = _VALUES.get(name, {}), _options(getattr(magics, name).parser)
    if place.option == "-":
        return [flag for flag in options if flag.startswith("--")]
    action = options.get(place.option)
    if action is not None and action.choices:
        return [str(each) for each in action.choices]
    owner, dot, _ = place.word.partition(".")
    if place.option == "{" and dot:
        return _attributes(magics, owner)
    words = values.get(place.option)
    return [] if words is None else list(words(magics))


def _attributes(magics: Any, owner: str) -> list[str]:
    """What may follow ``{df.``; the object is asked for names alone, none of them is read."""
    try:
        names = dir(magics.shell.user_ns[owner])
    except Exception:  # noqa: BLE001 - there is none, or it refuses to say
        return []
    return [f"{owner}.{name}" for name in names if not name.startswith("_")]


def _options(parser: Any) -> dict[str, Any]:
    options: dict[str, Any] = parser._option_string_actions  # noqa: SLF001 - argparse has no public list of them
    return options


def _place(text: str, parser: Any) -> _Place:
    """Find out what is being written at the end of the text."""
    known = _options(parser)
    at = 0
    used: list[str] = []
    while (found := OPTION.match(text, at)) is not None:
        name, equals = found[1], bool(found[2])
        if found.end() == len(text) and not equals:
            return _Place("-", name, tuple(used))
        action = known.get(name)
        if action is None:  # it is an error already
            return _Place("", "", ())
        at = found.end()
        if action.default != []:  # else it may be repeated
            used += action.option_strings
        if action.nargs == 0:
            continue
        begin = at if equals else at + len(text[at:]) - len(text[at:].lstrip())
        value, at = value_at(text, begin)
        if at >= len(text):
            *before, word = value.split(",") if str(action.metavar).endswith("[,NAME]") else [value]
            return _Place(name, word, tuple(before))
    rest = text[at:].lstrip()
    if rest in ("-", "--") or (not rest and text[-1:].isspace()):
        return _Place("-", rest, tuple(used))
    return _in_text(rest)


def _in_text(text: str) -> _Place:
    braces = _IN_BRACES.search(text)
    return (
        _Place("{", braces["word"] or "", ())
        if braces
        else _Place("", re.split(r"\s", text)[-1], ())
    )


def variables(magics: Any) -> list[str]:
    """The notebook's variables."""
    return visible(magics.shell.user_ns)


def types(magics: Any) -> list[str]:
    """Types that an answer may have: the usual ones, and the notebook's classes."""
    classes = [name for name in variables(magics) if isinstance(magics.shell.user_ns[name], type)]
    return [*_TYPES, *classes]


def tool_names(_: Any) -> list[str]:
    """The tools of the notebook; none where nothing has made a tool yet."""
    module = sys.modules.get("archytas_nb.tools.toolbox")
    return list(module.toolbox) if module is not None else []


def models(magics: Any) -> list[str]:
    """The embedded model, variables that hold a model, and what the endpoint serves."""
    from archytas_nb.magics.models import held_model, served

    names = magics.shell.user_ns
    held = [name for name in variables(magics) if held_model(names, name)]
    return list(dict.fromkeys(["local", *held, *served(magics)]))


_VALUES: Mapping[str, Mapping[str, Words]] = {
    "agent": {
        "--model": models,
        "--tools": tool_names,
        "--allow": tool_names,
        "--image": variables,
        "--out": variables,
        "--type": types,
        "--until": lambda magics: ["answer", *variables(magics)],
        "{": variables,
    },
    "tools": {
        "--remove": tool_names,
        "--disable": tool_names,
        "--enable": tool_names,
        "": tool_names,
    },
}
"""By magic, what may stand behind an option; under ``""`` what may stand in the text, under ``"{"`` in braces."""
