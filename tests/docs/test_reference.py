"""The reference is what the code says of itself."""

from __future__ import annotations

import argparse

from archytas_nb.magics.line import help_of, parser_of
from archytas_nb.magics.settings import SettingTraits
from tests.docs.reference import COMMAND_LINE, PAGE, command_line, is_shown, magics, page


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "out of date: run `python -m tests.docs.reference`"
    )


def test_the_tables_of_the_command_line_are_up_to_date() -> None:
    text = COMMAND_LINE.read_text(encoding="utf-8")
    assert text == command_line(text), "out of date: run `python -m tests.docs.reference`"
    assert text.count("\n| `") > 10


def test_every_option_and_every_setting_stands_in_it() -> None:
    text = page()
    for magic in magics().values():
        for action in filter(is_shown, parser_of(magic)._actions):
            assert all(f"{name}" in text for name in action.option_strings if name.startswith("--"))
            assert help_of(action)
            assert help_of(action) in text
    assert argparse.SUPPRESS not in text
    for name in SettingTraits.class_own_traits(config=True):
        assert f"`{name}`" in text
