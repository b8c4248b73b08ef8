"""The request book: two books of the same code are equal, and a changed text is found once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from archytas_nb.loop import text_protocol
from tests import request_book


def few() -> Any:
    """A conversation of the text protocol with a model of each size."""
    kinds = (kind for kind, _ in request_book.kinds() if kind.name == "steps")
    found = (kind for kind in kinds if kind.protocol == "react")
    return [request_book.conversation(kind, 0) for kind in found]


def without_counts(text: str) -> str:
    """A text without the numbers of tokens, which grow with a text."""
    return re.sub(r"[\d,]+", "", text)


def test_a_changed_text_is_found_once_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    old = few()
    assert not request_book.differences(old, few())
    changed = text_protocol._AFTER_ERROR + " Look again."
    monkeypatch.setattr(text_protocol, "_AFTER_ERROR", changed)
    found = request_book.differences(old, few())
    assert found
    for before, after in found:
        assert without_counts(after.replace(" Look again.", "")) == without_counts(before)
    assert "Look again." in request_book.report(found, most=1)
