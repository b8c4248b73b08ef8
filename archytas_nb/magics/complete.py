"""What the Tab key offers in the line of a magic: options, values, tools, models, variables."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from archytas_nb.magics.line import options_in, options_of

_log = logging.getLogger("archytas_nb")

_HEAD = re.compile(r"(?:[^%'\"#]*=\s*(?=%)|\s*)(?P<sign>%%?|)(?P<magic>[a-z_]+)\b")
_IN_BRACES = re.compile(r"(?<!\{)\{\s*(?P<word>[A-Za-z_]\w*(?:\.\w*)?)?$")
_TYPES = ("bool", "dict[str, float]", "float", "int", "list[int]", "list[str]", "str")


def matcher(shell: Any, owners: Mapping[str, Any]) -> Any:
    """Make a matcher for ``shell.Completer.custom_matchers``.

    Where it knows what the cursor may be at, nothing else is offered there. ``owners`` are the
    objects that the magics belong to, by name.
    """

    @context_matcher(identifier="archytas_nb", priority=100)
    def match(context: CompletionContext) -> SimpleMatcherResult:
        try:
            word, words = _completed(shell, owners, context.text_until_cursor)
        except Exception:  # noqa: BLE001 - IPython would print it between the user's keystrokes
            _log.exception("completion failed")
            word, words = "", []
        completions = [SimpleCompletion(text=each, type="magic") for each in words]
        return SimpleMatcherResult(
            completions=completions, suppress=bool(words), ordered=True, matched_fragment=word
        )

    return match


def _completed(shell: Any, owners: Mapping[str, Any], line: str) -> tuple[str, list[str]]:
    """The word at the cursor as far as it is written, and what it may become."""
    head = _HEAD.match(line)
    if head is None or head.end() == len(line) or head["magic"] not in owners:
        return "", []
    name = head["magic"]
    if not head["sign"] and not (shell.automagic and name not in shell.user_ns):
        return "", []
    option, word = _place(line[head.end() :], getattr(owners[name], name).parser)
    words = _words(owners[name], name, option, word)
    return word, [each for each in words if each.lower().startswith(word.lower())]


def _place(text: str, parser: Any) -> tuple[str, str]:
    """What is written at the end of a line, and the word as far as it is there.

    The first is the option whose value it is, ``"-"`` for an option's name, ``"{"`` for a lookup
    in the question and ``""`` for the question.
    """
    at = 0
    for name, sign, action, begin, value, end in options_in(text, parser):
        if end == len(text) and not sign:
            return "-", name
        if action is None:  # it is an error already
            return "", ""
        if action.nargs != 0 and end == len(text):
            is_list = "," in str(action.metavar)
            return action.option_strings[-1], value.rpartition(",")[2] if is_list else value
        at = begin if action.nargs == 0 else end
    rest = text[at:].lstrip()
    is_option = rest in ("-", "--") or (not rest and text[-1:].isspace())
    return ("-", rest) if is_option else _in_text(rest)


def _in_text(text: str) -> tuple[str, str]:
    braces = _IN_BRACES.search(text)
    return ("{", braces["word"] or "") if braces else ("", re.split(r"\s", text)[-1])


def _words(magics: Any, name: str, option: str, word: str) -> list[str]:
    options = options_of(getattr(magics, name).parser)
    if option == "-":
        return [flag for flag in options if flag.startswith("--")]
    if option in options and options[option].choices:
        return [str(each) for each in options[option].choices or ()]
    owner, dot, _ = word.partition(".")
    if option == "{" and dot:
        try:  # names alone, none of them is read
            names = dir(magics.shell.user_ns[owner])
        except Exception:  # noqa: BLE001 - there is none, or it refuses
            return []
        return [f"{owner}.{each}" for each in names if not each.startswith("_")]
    words = _VALUES.get(name, {}).get(option)
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
        "--model": _models, "--tools": _tools, "--allow": _tools, "--image": _variables,
        "--out": _variables, "--type": _types, "{": _variables,
        "--until": lambda magics: ["answer", *_variables(magics)],
    },
    "agent_map": {
        "--model": _models, "--on": _variables, "--out": _variables, "--type": _types,
    },
    "tools": {"--remove": _tools, "--disable": _tools, "--enable": _tools, "": _tools},
}  # fmt: skip
"""By magic and place, what may be written there."""
