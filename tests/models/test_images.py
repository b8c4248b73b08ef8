"""Images for endpoints that take none, or only some."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.models.images import UNSEEN, images_in, seen

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
PART = st.one_of(
    st.just(IMAGE), st.text(max_size=5).map(lambda text: {"type": "text", "text": text})
)
CONTENT = st.one_of(st.none(), st.text(max_size=5), st.lists(PART, min_size=1, max_size=4))
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": CONTENT})
)


@given(MESSAGES, st.integers(0, 5))
def test_no_more_images_are_left_than_are_taken_and_the_last_ones_stay(
    messages: list[Any], most: int
) -> None:
    before = copy.deepcopy(messages)
    result = seen(messages, most)
    assert messages == before  # what was recorded is not changed
    assert images_in(result) == min(most, images_in(messages))
    assert [message["role"] for message in result] == [message["role"] for message in messages]
    if images_in(messages) > most > 0:
        last = [n for n, message in enumerate(messages) if images_in([message])][-1]
        assert images_in([result[last]]) > 0


@given(MESSAGES)
def test_what_takes_no_images_gets_plain_text_with_a_line_for_each(messages: list[Any]) -> None:
    result = seen(messages, 0)
    assert all(
        message["content"] is None or isinstance(message["content"], str) for message in result
    )
    assert sum(str(message["content"]).count(UNSEEN) for message in result) == images_in(messages)


@given(MESSAGES)
def test_where_there_is_room_for_all_nothing_changes(messages: list[Any]) -> None:
    assert list(seen(messages, max(1, images_in(messages)))) == messages


def test_the_text_beside_an_image_stays_in_its_place() -> None:
    content = [{"type": "text", "text": "before"}, IMAGE, {"type": "text", "text": "after"}]
    [message] = seen([{"role": "user", "content": content}], 0)
    assert message["content"] == f"before\n{UNSEEN}\nafter"
