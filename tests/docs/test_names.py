"""Pages, notebooks and texts for people name only magics, options, settings and values that exist."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError

from archytas_nb.magics.line import parser_of
from archytas_nb.magics.settings import SettingTraits
from archytas_nb.settings import SETTINGS
from tests.docs.reference import magics

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KNOWN = {
    name: magic for written, magic in magics().items() for name in re.findall(r"%(\w+)", written)
}
_MAGIC = re.compile(r"(?<![\w%])%{1,2}(?P<name>agent\w*|tools?)\b(?P<rest>[^`\n]*)")
_VALUE = re.compile(
    r"(?P<option>(?<![\w-])--?[a-z][a-z-]*)(?:[ =](?P<value>[a-z_]+)(?![\w.,(\[-]))?"
)
_SETTING = re.compile(r"ArchytasNB\.(?P<name>\w+)(?: = (?P<value>[^`\n#]+))?")
_ARGUMENT = re.compile(r"\bAgent\((?P<arguments>[^`\n]*?)\)")


def texts() -> Iterator[tuple[str, str]]:
    """Each page, and the sources of each notebook, with a name."""
    for page in PAGES:
        yield page.stem, page.read_text(encoding="utf-8")
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        yield notebook.stem, "\n".join("".join(cell["source"]) for cell in cells)


TEXTS = dict(texts())


def wrong_magics(text: str) -> list[str]:
    """The magics, options and choices of a text that do not exist."""
    wrong = []
    for found in _MAGIC.finditer(text):
        magic = KNOWN.get(found["name"])
        if magic is None:
            wrong.append(f"%{found['name']}")
            continue
        options = {
            name: action for action in parser_of(magic)._actions for name in action.option_strings
        }
        for given in _VALUE.finditer(found["rest"].partition(" -- ")[0]):
            action = options.get(given["option"])
            if action is None:
                wrong.append(f"%{found['name']} {given['option']}")
            elif action.choices and given["value"] and given["value"] not in action.choices:
                wrong.append(f"%{found['name']} {given[0]}")
    return wrong


def wrong_settings(text: str) -> list[str]:
    """The settings of a text, and the values that it gives them, that do not exist."""
    wrong = []
    for found in _SETTING.finditer(text):
        name, value = found["name"], found["value"]
        if name not in SETTINGS:
            wrong.append(name)
        elif value is not None and not _is_accepted(name, value.rstrip(" ,.;:)")):
            wrong.append(found[0])
    wrong += [
        name
        for name in re.findall(r"\bARCHYTAS_NB_([A-Z_]+)\b", text)
        # A page may show how a mistake is reported.
        if name.lower() not in SETTINGS and f"'ARCHYTAS_NB_{name}' is not" not in text
    ]
    for found in _ARGUMENT.finditer(text):
        for name, value in re.findall(r'(\w+)="([^"…]*)"', found["arguments"]):
            if name in SETTINGS and not _is_accepted(name, repr(value)):
                wrong.append(f"Agent({name}={value!r})")
    return wrong


def _is_accepted(name: str, written: str) -> bool:
    try:
        value: Any = ast.literal_eval(written)
    except (SyntaxError, ValueError):
        # Three dots stand for a value of the reader, and a name for a variable.
        return True
    try:
        setattr(SettingTraits(), name, value)
    except TraitError:
        return False
    return True


@pytest.mark.parametrize("page", TEXTS)
def test_a_page_names_only_magics_options_and_choices_that_exist(page: str) -> None:
    assert wrong_magics(TEXTS[page]) == []


@pytest.mark.parametrize("page", TEXTS)
def test_a_page_names_only_settings_and_values_that_exist(page: str) -> None:
    assert wrong_settings(TEXTS[page]) == []


@pytest.mark.parametrize(
    "text",
    [
        "`%agent_sends`",
        "`%agent --typ int How many?`",
        "`%agent --python sandbox How many?`",
        "%%agent_map --one rows",
    ],
)
def test_a_magic_that_does_not_exist_is_found(text: str) -> None:
    assert len(wrong_magics(text)) == 1
    assert wrong_magics("`%agent --python undoable -t int How many?` `%%tool --name x`") == []


@pytest.mark.parametrize(
    "text",
    [
        "%config ArchytasNB.modle = 'x'",
        'ArchytasNB.python = "sandbox"',
        "ArchytasNB.max_steps = 'many'",
        "export ARCHYTAS_NB_MODLE=x",
        'nb.Agent([f], values="no")',
    ],
)
def test_a_setting_that_does_not_exist_is_found(text: str) -> None:
    assert len(wrong_settings(text)) == 1
    assert wrong_settings('`%config ArchytasNB.python = "undoable"` ARCHYTAS_NB_MODEL=x') == []
