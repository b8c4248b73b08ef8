"""Completion with Tab in the line of a magic."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from archytas_nb.magics.line import IN_RESERVE, options_in, options_of, parser_of

_log = logging.getLogger("archytas_nb")

_HEAD = re.compile(r"(?:[^%'\"#]*=\s*(?=%)|\s*)(?P<sign>%%?|)(?P<magic>[a-z_]+)\b")
_NAME = re.compile(r"(?:[^%'\"#]*=\s*(?=%)|\s*)(?P<written>%%?agent_?)$")
_IN_BRACES = re.compile(r"(?<!\{)\{\s*(?P<word>[A-Za-z_]\w*(?:\.\w*)?)?$")
_TYPES = ("bool", "dict[str, float]", "float", "int", "list[int]", "list[str]", "str")


def matcher(shell: Any, owners: Mapping[str, Any]) -> Any:
    """Make a matcher for ``shell.Completer.custom_matchers``.

    Where it knows what the cursor may be at, nothing else is offered there. ``owners`` are the
    objects that the magics belong to, by name.
    """

    def is_ours(head: re.Match[str]) -> bool:
        """Whether a line begins with one of the magics, and goes on after its name."""
        name = head["magic"]
        if name not in owners or head.end() == len(head.string):
            return False
        return bool(head["sign"]) or (shell.automagic and name not in shell.user_ns)

    @context_matcher(identifier="archytas_nb", priority=100)
    def match(context: CompletionContext) -> SimpleMatcherResult:
        line = context.text_until_cursor
        word = ""
        words: list[str] = []
        head = _HEAD.match(line)
        name_of_magic = _NAME.match(line)
        if name_of_magic is not None:  # IPython's own list has those in reserve, too
            word = name_of_magic["written"]
            sign = word[: word.count("%")]
            kind = "cell" if sign == "%%" else "line"
            names = (each for owner in set(owners.values()) for each in owner.magics[kind])
            words = sorted(f"{sign}{each}" for each in {*names} - IN_RESERVE)
        elif head is not None and is_ours(head):
            name = head["magic"]
            try:
                parser = parser_of(getattr(owners[name], name))
                option, word = _place(line[head.end() :], parser)
                words = _words(owners[name], name, parser, option, word)
            except Exception:  # noqa: BLE001 - IPython would print it between the user's keystrokes
                _log.exception("completion failed")
        found = [each for each in words if each.lower().startswith(word.lower())]
        completions = [SimpleCompletion(text=each, type="magic") for each in found]
        return SimpleMatcherResult(
            completions=completions, suppress=bool(found), ordered=True, matched_fragment=word
        )

    return match


def _place(text: str, parser: Any) -> tuple[str, str]:
    """The context at the end of a line, and the beginning of the word.

    The first is the option whose value it is, ``"-"`` for an option's name, ``"{"`` for a lookup
    in the question and ``""`` for the question.
    """
    at = 0
    for name, sign, action, begin, value, end in options_in(text, parser):
        if end == len(text) and not sign:
            return "-", name
        if action is None:  # it is an error already
            return "", ""
        takes_value = action.nargs != 0
        if takes_value and end == len(text):
            is_list = "," in str(action.metavar)
            word = value.rpartition(",")[2] if is_list else value
            return action.option_strings[-1], word
        at = end if takes_value else begin
    rest = text[at:].lstrip()
    if rest in ("-", "--") or (not rest and text[-1:].isspace()):
        return "-", rest
    braces = _IN_BRACES.search(rest)
    if braces is not None:
        return "{", braces["word"] or ""
    return "", re.split(r"\s", rest)[-1]


def _words(magics: Any, name: str, parser: Any, option: str, word: str) -> list[str]:
    """The candidates for a place of the line."""
    options = options_of(parser)
    names = magics.shell.user_ns
    if option == "-":
        return [flag for flag in options if flag.startswith("--")]
    if option in options and options[option].choices:
        return [str(each) for each in options[option].choices or ()]
    if option in ("--tools", "--allow") or name == "tools":
        module = sys.modules.get("archytas_nb.tools.toolbox")
        if module is None:  # no tool was made yet
            return []
        return list(module.toolbox)
    if option == "{" and "." in word:
        return _members(word.partition(".")[0], names)
    if name in ("agent", "agent_map"):
        return _values(magics, option)
    return []


def _values(magics: Any, option: str) -> list[str]:
    """The values of an option of a question; the variables of the notebook in a lookup."""
    from archytas_nb.tools.variables import user_names

    names = magics.shell.user_ns
    match option:
        case "--image" | "--out" | "--on" | "{":
            return user_names(names)
        case "--until":
            return ["answer", *user_names(names)]
        case "--type":
            classes = [each for each in user_names(names) if isinstance(names[each], type)]
            return [*_TYPES, *classes]
        case "--model":
            from archytas_nb.magics.models import names_of_models

            return list(names_of_models(magics))
    return []


def _members(owner: str, names: Mapping[str, Any]) -> list[str]:
    """The public attributes of a variable; none of them is read."""
    if owner not in names:
        return []
    return [f"{owner}.{each}" for each in dir(names[owner]) if not each.startswith("_")]
