"""chatlas, in an environment of its own: ``python peer_map.py`` reads lines ``URL ROWS WORKERS`` and prints seconds.

This file imports nothing of ours, so that the peer's environment needs nothing but the peer.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import chatlas
from pydantic import BaseModel


class Label(BaseModel):
    label: str
    number: int


async def main() -> None:
    for line in sys.stdin:
        url, rows, workers = line.split()
        texts: list[Any] = [f"Label it.\n\nrow {n} {time.monotonic()}" for n in range(int(rows))]
        chat = chatlas.ChatOpenAICompletions(model="tiny-1", base_url=url, api_key="k")
        started = time.perf_counter()
        asking = chatlas.parallel_chat_structured(
            chat, texts, Label, max_active=int(workers), rpm=10**9, on_error="stop"
        )
        try:
            found = await asyncio.wait_for(asking, 60)
        except TimeoutError:  # now and then it waits for ever
            print("took inf", flush=True)
            continue
        seconds = time.perf_counter() - started
        assert len(found) == int(rows)
        assert all(each.data.number == 2 for each in found)
        print("took", seconds, flush=True)  # below its own progress


asyncio.run(main())
