"""What the Tab key offers in the line of a magic: options, values, tools, models, variables."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

_log = logging.getLogger("archytas_nb")

_HEAD = re.compile(
    r"(?:[^%'\"#]*=\s*(?=%)|\s*)(?P<sign>%(?P<cell>%)?|)"
    r"(?P<magic>agent_cassette|agent|tools|tool)\b"
)
_IN_BRACES = re.compile(r"(?<!\{)\{\s*(?P<word>[A-Za-z_]\w*(?:\.\w*)?)?$")
_TYPES = ("bool", "dict[str, float]", "float", "int", "list[int]", "list[str]", "str")


class _Place(NamedTuple):
    """Where the cursor is.

    Attributes:
        option: The option whose value is written; ``"-"`` for an option's name, ``"{"`` for a
            lookup in the text, ``""`` for the text.
        word: What is written already of the word at the cursor.
        used: The options before it, and the names before it in a list with commas.
    """

    option: str
    word: str = ""
    used: tuple[str, ...] = ()


def matcher(shell: Any, owners: Mapping[str, Any]) -> Any:
    """Make a matcher for ``shell.Completer.custom_matchers``.

    Args:
        shell: The IPython shell.
        owners: The name of each magic, and the object that it belongs to.

    Returns:
        The matcher. Where it knows what the cursor may be at, nothing else is offered there.
    """

    @context_matcher(identifier="archytas_nb", priority=100)
    def match(context: CompletionContext) -> SimpleMatcherResult:
        try:
            lines = context.full_text.split("\n")
            lines[context.cursor_line] = context.text_until_cursor
            word, words = completed(shell, owners, lines[: context.cursor_line + 1])
        except Exception:  # noqa: BLE001 - IPython would print it between the user's keystrokes
            _log.exception("completion failed")
            word, words = "", []
        completions = [SimpleCompletion(text=each, type="magic") for each in words]
        return SimpleMatcherResult(
            completions=completions, suppress=bool(words), ordered=True, matched_fragment=word
        )

    return match


def completed(shell: Any, owners: Mapping[str, Any], lines: Sequence[str]) -> tuple[str, list[str]]:
    """The word at the cursor as far as it is written, and what it may become.

    Args:
        shell: The IPython shell.
        owners: The name of each magic, and the object that it belongs to.
        lines: The cell's lines up to the cursor.
    """
    line = lines[-1]
    first = next((_HEAD.match(each) for each in lines[:-1] if each.strip()), None)
    if first is not None and first["cell"]:
        name, place = first["magic"], _in_text(line)
        if name != "agent":
            return "", []
    else:
        head = _HEAD.match(line)
        if head is None or head.end() == len(line):
            return "", []
        name = head["magic"]
        if not head["sign"] and not (shell.automagic and name not in shell.user_ns):
            return "", []
        place = _place(line[head.end() :], getattr(owners[name], name).parser)
    start = place.word.lower()
    words = _words(owners[name], name, place)
    return place.word, [
        word for word in words if word.lower().startswith(start) and word not in place.used
    ]


def _place(text: str, parser: Any) -> _Place:
    """What is being written at the end of the text."""
    from archytas_nb.magics.line import OPTION, options_of, past_space, value_at

    at = 0
    used: list[str] = []
    while (found := OPTION.match(text, at)) is not None:
        name, equals = found[1], bool(found[2])
        if found.end() == len(text) and not equals:
            return _Place("-", name, tuple(used))
        action = options_of(parser).get(name)
        if action is None:  # it is an error already
            return _Place("")
        at = found.end()
        if action.default != []:  # else it may be repeated
            used += action.option_strings
        if action.nargs == 0:
            continue
        value, at = value_at(text, at if equals else past_space(text, at))
        if at >= len(text):
            *before, word = value.split(",") if str(action.metavar).endswith("[,NAME]") else [value]
            return _Place(name, word, tuple(before))
    rest = text[at:].lstrip()
    if rest in ("-", "--") or (not rest and text[-1:].isspace()):
        return _Place("-", rest, tuple(used))
    return _in_text(rest)


def _in_text(text: str) -> _Place:
    braces = _IN_BRACES.search(text)
    return _Place("{", braces["word"] or "") if braces else _Place("", re.split(r"\s", text)[-1])


def _words(magics: Any, name: str, place: _Place) -> list[str]:
    from archytas_nb.magics.line import options_of

    options = options_of(getattr(magics, name).parser)
    if place.option == "-":
        return [flag for flag in options if flag.startswith("--")]
    action = options.get(place.option)
    if action is not None and action.choices:
        return [str(each) for each in action.choices]
    owner, dot, _ = place.word.partition(".")
    if place.option == "{" and dot:
        try:  # names alone, none of them is read
            names = dir(magics.shell.user_ns[owner])
        except Exception:  # noqa: BLE001 - there is none, or it refuses
            return []
        return [f"{owner}.{name}" for name in names if not name.startswith("_")]
    words = _VALUES.get(name, {}).get(place.option)
    return [] if words is None else list(words(magics))


def _variables(magics: Any) -> list[str]:
    from archytas_nb.tools.names import visible

    return visible(magics.shell.user_ns)


def _types(magics: Any) -> list[str]:
    names = magics.shell.user_ns
    return [*_TYPES, *(name for name in _variables(magics) if isinstance(names[name], type))]


def _tools(_: Any) -> list[str]:
    module = sys.modules.get("archytas_nb.tools.toolbox")  # none where nothing has made a tool yet
    return list(module.toolbox) if module is not None else []


def _models(magics: Any) -> list[str]:
    from archytas_nb.magics.agent import held_model, served_models

    names = magics.shell.user_ns
    held = [name for name in _variables(magics) if held_model(names, name)]
    return list(dict.fromkeys(["local", *held, *served_models(magics)]))


_VALUES: Mapping[str, Mapping[str, Callable[[Any], Iterable[str]]]] = {
    "agent": {
        "--model": _models,
        "--tools": _tools,
        "--allow": _tools,
        "--image": _variables,
        "--out": _variables,
        "--type": _types,
        "--until": lambda magics: ["answer", *_variables(magics)],
        "{": _variables,
    },
    "tools": {"--remove": _tools, "--disable": _tools, "--enable": _tools, "": _tools},
}
"""By magic and place, what may be written there."""
