"""What runs in the child process beside its server: counting what a reply costs.

llama_cpp.server says in a whole reply how many tokens it read and wrote, in a stream nothing, and nowhere how
many it still had in its cache. All of it is known where the tokens are made.

Law of this file: as `local_server` it is run by path, and imports nothing of ours and nothing but the standard
library. The engine's class is given to it.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator, Sequence
from itertools import takewhile
from typing import Any


def count_usage(engine: Any) -> None:
    """Make every stream of an engine say its usage at its end, as OpenAI's do.

    Whole replies stay as they are: the server drops from them what it does not know.

    Args:
        engine: ``llama_cpp.Llama``, whose methods ``generate`` and ``create_chat_completion`` are wrapped.
    """
    engine.generate = _counting(engine.generate)
    engine.create_chat_completion = _telling(engine.create_chat_completion)


def _counting(generate: Any) -> Any:
    @functools.wraps(generate)
    def counted(self: Any, tokens: Sequence[int], *args: Any, **settings: Any) -> Generator[int, Any, None]:
        prompt = list(tokens)
        same = takewhile(lambda pair: pair[0] == pair[1], zip(self._input_ids, prompt, strict=False))
        self.tokens_read, self.tokens_cached, self.tokens_written = len(prompt), sum(1 for _ in same), 0
        made, said = generate(self, prompt, *args, **settings), None
        try:
            while True:
                try:
                    token = made.send(said)
                except StopIteration:
                    return
                self.tokens_written += 1
                said = yield token
        finally:
            made.close()

    return counted


def _telling(create: Any) -> Any:
    @functools.wraps(create)
    def told(self: Any, *args: Any, **settings: Any) -> Any:
        self.tokens_read = self.tokens_cached = self.tokens_written = 0
        reply = create(self, *args, **settings)
        return reply if isinstance(reply, dict) else _with_usage(self, reply)

    return told


def _with_usage(engine: Any, chunks: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The chunks, and one more without a choice, as OpenAI sends it where ``include_usage`` is asked for."""
    last: dict[str, Any] = {}
    for last in chunks:
        yield last
    if not last:
        return
    # The engine counts the token that ends a text as little in a whole reply.
    ended = any(choice.get("finish_reason") != "length" for choice in last.get("choices", ()))
    read, written = engine.tokens_read, max(engine.tokens_written - ended, 0)
    usage: dict[str, Any] = {"prompt_tokens": read, "completion_tokens": written}
    usage["total_tokens"] = read + written
    usage["prompt_tokens_details"] = {"cached_tokens": engine.tokens_cached}
    yield {**last, "choices": [], "usage": usage}
