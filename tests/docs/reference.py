"""``docs/reference.md``: the magics, their options and the settings, as the code itself describes them.

``python -m tests.docs.reference`` writes the page again, and the two tables of ``docs/command-line.md``, which follow
``<!-- commands -->`` and ``<!-- command options -->``.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archytas_nb import template
from archytas_nb.command import COMMANDS, parser_of_commands
from archytas_nb.magics.agent import ArchytasNB
from archytas_nb.magics.chat import ChatMagics
from archytas_nb.magics.conversation import ConversationMagics
from archytas_nb.magics.line import help_of, parser_of
from archytas_nb.magics.mcp import McpMagics
from archytas_nb.magics.settings import SettingTraits
from archytas_nb.magics.tool import ToolMagics
from archytas_nb.settings import SETTINGS, Choice

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference.md"
COMMAND_LINE = PAGE.with_name("command-line.md")
CLASSES = (ArchytasNB, ToolMagics, ConversationMagics, McpMagics, ChatMagics)


def magics() -> dict[str, Any]:
    """All magics, by how they are written."""
    found = {}
    for cls in CLASSES:
        line, cell = cls.magics["line"], cls.magics["cell"]
        for name in dict.fromkeys((*line, *cell)):
            written = [f"`%{name}`"] * (name in line) + [f"`%%{name}`"] * (name in cell)
            found[", ".join(written)] = getattr(cls, name)
    return found


def page() -> str:
    """The whole page."""
    parts = [
        "# Magics, options and settings",
        "This page is generated from the help texts that `%agent?`, `%agent --help` and `%config ArchytasNB` show.",
    ]
    for title, magic in magics().items():
        parts += [f"## {title}", *_magic(magic)]
        if magic is ArchytasNB.agent:
            parts += ["### `{…}` in a question", inspect.cleandoc(_fenced(template.__doc__ or ""))]
    parts += [
        "## Settings: `%config ArchytasNB`",
        _prose(inspect.getmodule(SettingTraits).__doc__ or ""),
    ]
    parts.append("\n".join(_settings()))
    return "\n\n".join(parts) + "\n"


def _magic(magic: Any) -> Iterator[str]:
    parser: argparse.ArgumentParser = parser_of(magic)
    yield _prose(parser.description or "")
    for group in parser._action_groups:
        options = [_option(each) for each in group._group_actions if is_shown(each)]
        if options:
            if group.title not in ("options", "positional arguments"):
                yield f"### {(group.title or '').capitalize()}"
            yield "\n".join(options)


def is_shown(action: argparse.Action) -> bool:
    """Whether the help of the magic lists this option; `%agent_fix` refers to `%agent` for its options."""
    return action.help != argparse.SUPPRESS


def _option(action: argparse.Action) -> str:
    names = [name for name in action.option_strings if name != "-h"] or [action.dest.upper()]
    value = "" if action.nargs == 0 or not action.option_strings else f" {_value(action)}"
    return f"- `{', '.join(names)}{value}`: {help_of(action)}"


def _value(action: argparse.Action) -> str:
    value = str(
        action.metavar
        or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
    )
    return f"[{value}]" if action.nargs == "?" and action.option_strings else value


def _settings() -> Iterator[str]:
    for name, setting in sorted(SETTINGS.items()):
        words = ""
        if isinstance(setting.kind, Choice):
            words = f" One of {', '.join(f'`{each}`' for each in setting.kind.names)}."
        read = ", ".join(f"`{variable}`" for variable in setting.variables)
        where = " For the magics only, not for `Agent`." if setting.scope == "notebook" else ""
        yield (f"- `{name}` (default `{setting.default!r}`; {read}): {setting.text}{words}{where}")


def _prose(text: str) -> str:
    paragraphs = inspect.cleandoc(text).replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _fenced(text: str) -> str:
    """A docstring's prose, with its indented part as a block of code."""
    parts = []
    for each in inspect.cleandoc(text).split("\n\n"):
        indented = all(line.startswith("    ") for line in each.splitlines())
        parts.append(f"```text\n{inspect.cleandoc(each)}\n```" if indented else _prose(each))
    return "\n\n".join(parts)


def commands() -> str:
    """The table of the commands of ``python -m archytas_nb``."""
    rows = [f"| `{name}` | {text} |" for name, text in COMMANDS.items()]
    return "\n".join(["| command | |", "|---|---|", *rows])


def command_options() -> str:
    """The table of their options, each with the commands that have it."""
    [choice] = [each for each in parser_of_commands()._actions if each.dest == "command"]
    assert isinstance(choice.choices, dict)
    having: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for name, parser in choice.choices.items():
        for action in parser._actions:
            value = "" if action.nargs == 0 else f" {_value(action)}"
            option = f"{action.option_strings[-1]}{value}"
            having.setdefault(option, []).append(name)
            texts[option] = help_of(action)
    rows = []
    for option, names in sorted(having.items(), key=lambda each: len(each[1]) == len(COMMANDS)):
        of = ", ".join(f"`{name}`" for name in names)
        if len(names) == len(COMMANDS):
            of = "all"
        rows.append(f"| `{option}` | {of} | {texts[option]} |")
    return "\n".join(["| option | of | |", "|---|---|---|", *rows])


def command_line(text: str) -> str:
    """The page of the command line with its generated parts."""
    for mark, table in (("commands", commands()), ("command options", command_options())):
        pattern = rf"(<!-- {mark} -->\n).*?(?=\n\n)"
        text = re.sub(pattern, lambda found, table=table: found[1] + table, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    COMMAND_LINE.write_text(command_line(COMMAND_LINE.read_text("utf-8")), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
