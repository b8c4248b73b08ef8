"""The page that shows what the model sees is what the code sends."""

from __future__ import annotations

from tests.docs.seen import PAGE, names, written


def test_the_page_shows_what_is_sent() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(list(names(page))) > 10
    assert page == written(page), "out of date: run `python -m tests.docs.seen`"
