"""The engine's streams say at their end what was read, what of it was still known, and what was written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from archytas_nb.models.local_usage import count_usage

END = 0


class Engine:
    """An engine in the small: it writes back what it read until a bound, or until the token that ends a text."""

    def __init__(self) -> None:
        self._input_ids: list[int] = []
        self.closed = 0

    def generate(self, tokens: list[int], reset: bool = True) -> Iterator[int]:
        try:
            self._input_ids = list(tokens)
            for token in [*tokens, END]:
                self._input_ids.append(token)
                yield token
        finally:
            self.closed += 1

    def create_chat_completion(self, prompt: list[int], *, stream: bool = False, bound: int = 100) -> Any:
        if not stream:
            return {"id": "x", "usage": {"prompt_tokens": len(prompt)}}
        return self._stream(prompt, bound)

    def _stream(self, prompt: list[int], bound: int) -> Iterator[dict[str, Any]]:
        finish = "stop"
        for n, token in enumerate(self.generate(prompt), 1):
            if token == END:
                break
            yield {
                "id": "x",
                "model": "m",
                "choices": [{"delta": {"content": str(token)}, "finish_reason": None}],
            }
            if n == bound:
                finish = "length"
                break
        yield self._chunk("", finish)

    def _chunk(self, text: str, finish: str | None) -> dict[str, Any]:
        choice = {"delta": {"content": text}, "finish_reason": finish}
        return {"id": "x", "model": "m", "choices": [choice]}


@pytest.fixture
def engine() -> Any:
    class Counted(Engine):
        pass

    count_usage(Counted)
    return Counted()


def told(read: int, cached: int, written: int) -> dict[str, Any]:
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def test_the_last_chunk_of_a_stream_has_the_usage_and_no_choice(engine: Any) -> None:
    *chunks, last = engine.create_chat_completion([5, 6, 7], stream=True)
    assert chunks == list(Engine().create_chat_completion([5, 6, 7], stream=True))
    assert last == {"id": "x", "model": "m", "choices": [], "usage": told(3, 0, 3)}


def test_what_stands_at_the_beginning_of_the_last_text_was_still_known(engine: Any) -> None:
    list(engine.create_chat_completion([5, 6, 7], stream=True))
    *_, last = engine.create_chat_completion([5, 6, 8, 9], stream=True)
    assert last["usage"] == told(4, 2, 4)


def test_a_reply_that_was_cut_off_has_as_many_tokens_as_its_bound(engine: Any) -> None:
    *_, last = engine.create_chat_completion([5, 6, 7], stream=True, bound=2)
    assert last["usage"] == told(3, 0, 2)


def test_a_stream_that_is_left_ends_the_engines_work(engine: Any) -> None:
    chunks = engine.create_chat_completion([5, 6, 7], stream=True)
    next(chunks)
    chunks.close()
    assert engine.closed == 1


def test_a_whole_reply_stays_as_it_is(engine: Any) -> None:
    assert engine.create_chat_completion([5, 6]) == {"id": "x", "usage": {"prompt_tokens": 2}}
