"""A model server that labels rows and keeps account: the other side of every map in these tests."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.servers.plays import Play, Say
from tests.servers.server import Exchange

ROW = re.compile(r"row (\d+)")


def row_of(body: Any) -> int:
    [*_, number] = ROW.findall(json.dumps(body["messages"]))
    return int(number)


class Shop:
    """Answers ``{"label": "even" or "odd", "number": n}`` to the row n, and counts what it charges.

    Args:
        fault: Given the row and how often it was asked before; what goes wrong, or None.
        latency: Seconds before each reply.
        written: Tokens of each reply; one that is longer than allowed is cut off.
    """

    def __init__(
        self,
        fault: Callable[[int, int], Play | None] = lambda row, asked: None,
        latency: float = 0.0,
        written: Callable[[int], int] = lambda row: 10,
    ) -> None:
        self.fault, self.latency, self.written = fault, latency, written
        self.asked: Counter[int] = Counter()
        self.paid: Counter[int] = Counter()
        self.charged = 0
        self.most_at_once = self._now = 0
        self._lock = threading.Lock()

    def play(self, exchange: Exchange) -> None:
        row = row_of(exchange.body)
        with self._lock:
            fault = self.fault(row, self.asked[row])
            self.asked[row] += 1
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            if fault is not None:
                fault.play(exchange)
                return
            time.sleep(self.latency)
            self._answer(row, exchange)
        finally:
            with self._lock:
                self._now -= 1

    def _answer(self, row: int, exchange: Exchange) -> None:
        self.reply(exchange.body).play(exchange)

    def reply(self, body: Any) -> Say:
        """The reply to a request, which is paid for."""
        row = row_of(body)
        sent = len(json.dumps(body["messages"], ensure_ascii=False).encode())
        wanted, most = self.written(row), body.get("max_tokens", 10**9)
        written = min(wanted, most)
        with self._lock:
            self.paid[row] += 1
            self.charged += sent + written
        text = json.dumps({"label": "odd" if row % 2 else "even", "number": row})
        finish = "length" if wanted > most else "stop"
        return Say(text, raw=True, finish=finish, usage=(sent, 0, written))
