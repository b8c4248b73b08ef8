"""What Tab offers in the line of a magic."""

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

from archytas_nb.magics.line import options_in, options_of, parser_of
from archytas_nb.magics.models import held_model, model_settings
from archytas_nb.tools.variables import user_names

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
        word, words, line = "", list[str](), context.text_until_cursor
        head = _HEAD.match(line)
        name = "" if head is None or head.end() == len(line) else head["magic"]
        is_magic = head is not None and (
            head["sign"] or (shell.automagic and name not in shell.user_ns)
        )
        if head is not None and is_magic and name in owners:
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
    if rest in ("-", "--") or (not rest and text[-1:].isspace()):
        return "-", rest
    braces = _IN_BRACES.search(rest)
    return ("{", braces["word"] or "") if braces else ("", re.split(r"\s", rest)[-1])


def _words(magics: Any, name: str, parser: Any, option: str, word: str) -> list[str]:
    """What may stand in a place of the line."""
    options, names = options_of(parser), magics.shell.user_ns
    if option == "-":
        return [flag for flag in options if flag.startswith("--")]
    if option in options and options[option].choices:
        return [str(each) for each in options[option].choices or ()]
    if option in ("--tools", "--allow") or name == "tools":
        module = sys.modules.get("archytas_nb.tools.toolbox")  # none where no tool was made yet
        return [] if module is None else list(module.toolbox)
    if option == "{" and "." in word:
        owner = word.partition(".")[0]
        members = dir(names[owner]) if owner in names else ()  # names alone, none of them is read
        return [f"{owner}.{each}" for each in members if not each.startswith("_")]
    match option if name in ("agent", "agent_map") else "":
        case "--image" | "--out" | "--on" | "{":
            return user_names(names)
        case "--until":
            return ["answer", *user_names(names)]
        case "--type":
            return [*_TYPES, *(each for each in user_names(names) if isinstance(names[each], type))]
        case "--model":
            from archytas_nb.models.choose import served_names

            held = [each for each in user_names(names) if held_model(names, each)]
            return list(dict.fromkeys(["local", *held, *served_names(model_settings(magics))]))
    return []
