"""Names: made legal, refused, and guessed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.errors import ToolError
from archytas_nb.tools.names import RESERVED, did_you_mean, legal_name, nearest

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@given(
    st.from_regex(r"[a-zA-Z0-9_.-]{1,64}", fullmatch=True).filter(
        lambda name: name.replace(".", "_") not in RESERVED
    )
)
def test_a_name_of_legal_characters_and_dots_becomes_legal(name):
    wire = legal_name(name)
    assert LEGAL.fullmatch(wire)
    assert wire == name.replace(".", "_")


@given(st.text(max_size=70).filter(lambda name: not LEGAL.fullmatch(name.replace(".", "_"))))
def test_any_other_name_is_refused_with_the_way_out(name):
    with pytest.raises(ToolError, match=r"@tool\(name="):
        legal_name(name)


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(ToolError, match="is text, not 3"):
        legal_name(3)


def test_the_nearest_name_is_found_whatever_its_case():
    assert nearest("Color", ["colour", "size"]) == "colour"
    assert nearest("DF", ["df"]) == "df"
    assert nearest("xyz", ["colour"]) is None
    assert nearest("x", []) is None
    assert did_you_mean("colr", ["color"]) == ", did you mean 'color'?"
    assert did_you_mean("q", ["color"]) == ""
