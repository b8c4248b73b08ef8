"""Servers on 127.0.0.1 with the batch APIs of OpenAI and Anthropic, which go wrong on demand, over real HTTP."""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.servers.anthropic import AnthropicExchange, AnthropicServer
from tests.servers.plays import Play, Status
from tests.servers.server import Exchange, Server

FATES = ("answered", "missing", "doubled", "failed", "unreadable", "expired")
"""What may become of a row in a batch; `failed` is an error that may pass."""
Fate = Callable[[str, int], str]
"""What becomes of a request, given its name and how often it was in a batch before."""


def answered(name: str, tried: int) -> str:
    return "answered"


@dataclass
class Batch:
    """A batch at the server."""

    id: str
    lines: list[tuple[str, Any]]
    files: tuple[str, ...] = ()
    metadata: Any = None
    looks: int = 0
    state: str = "running"
    results: list[tuple[str, str, Any]] = field(default_factory=list)
    """The name of each request, its fate, and the body of its reply."""


class _Captured(Exchange):
    """A request of a batch: its reply is kept and not sent."""

    def __init__(self, server: Server, body: Any, path: str) -> None:
        self.asked = type("Line", (), {"messages": body["messages"], "path": path, "body": body})()
        self.body = body
        self.responses = None
        self.status = 0
        self.reply = b""

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.status, self.reply = status, body


class _CapturedByAnthropic(_Captured, AnthropicExchange):
    """A request of a Message Batch."""


class Work:
    """The common parts of both servers.

    Attributes:
        fate: What becomes of each request.
        looks: How often a batch is looked at before it ends.
        most: A batch with more requests is refused as a whole.
        batches: Those that were sent.
        charged: How often each request was answered.
        after: Called with each batch that was accepted, before the client is told.
    """

    def __init__(
        self,
        fate: Fate = answered,
        looks: int = 1,
        most: int = 10**6,
        faulty: Callable[[Any], bool] = lambda body: False,
        seed: int = 0,
    ) -> None:
        self.fate, self.looks, self.most, self.faulty = fate, looks, most, faulty
        self.batches: dict[str, Batch] = {}
        self.charged: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.after: Callable[[Batch], Play | None] = lambda batch: None
        self.lock = threading.RLock()
        self._chance = random.Random(seed)

    def accept(self, lines: list[tuple[str, Any]], metadata: Any = None) -> Batch:
        batch = Batch(f"batch_{len(self.batches) + 1}", lines, metadata=metadata)
        self.batches[batch.id] = batch
        return batch

    def look(self, batch: Batch, reply: Callable[[Any], tuple[int, Any]]) -> None:
        """Go on by a step."""
        batch.looks += 1
        if batch.state == "running" and batch.looks > self.looks:
            self.finish(batch, reply)
        elif batch.state == "cancelling":
            half = batch.lines[: len(batch.lines) // 2]
            self.finish(batch, reply, {name for name, _ in half}, "cancelled")

    def finish(
        self,
        batch: Batch,
        reply: Callable[[Any], tuple[int, Any]],
        only: set[str] | None = None,
        state: str = "ended",
    ) -> None:
        for name, body in batch.lines:
            fate = self.fate(name, self.tried[name])
            if only is not None and name not in only:
                fate = "canceled"
            else:
                self.tried[name] += 1
            status, content = 0, None
            if fate in ("answered", "doubled"):
                status, content = reply(body)
                self.charged[name] += 1
            if fate != "missing":
                batch.results += [(name, fate, (status, content))] * (1 + (fate == "doubled"))
        self._chance.shuffle(batch.results)
        batch.state = state


class BatchServer(Server):
    """OpenAI's files and batches, besides chat completions."""

    def __init__(self, work: Work | None = None, **settings: Any) -> None:
        self.work = work or Work()
        self.files: dict[str, bytes] = {}
        self.deleted: list[str] = []
        super().__init__(**settings)

    def answer(self, exchange: Exchange) -> None:
        path = exchange.asked.path.removeprefix(self.path)
        with self.work.lock:
            if path == "/files":
                self._store(exchange)
            elif path == "/batches":
                self._accept(exchange)
            elif found := re.fullmatch(r"/batches/(\w+)/cancel", path):
                batch = self.work.batches[found[1]]
                if batch.state == "running":
                    batch.state = "cancelling"
                self._send(exchange, self._told(batch))
            else:
                found = None
        if not (path in ("/files", "/batches") or found):
            super().answer(exchange)

    def list_models(self, exchange: Exchange) -> None:
        path = exchange.asked.path.removeprefix(self.path)
        with self.work.lock:
            if exchange.asked.method == "DELETE":
                name = path.rpartition("/")[2]
                self.deleted.append(name)
                self.files.pop(name, None)
                self._send(exchange, {"id": name, "deleted": True})
            elif path.startswith("/batches?") or path == "/batches":
                told = [self._told(each) for each in reversed(self.work.batches.values())]
                self._send(exchange, {"object": "list", "data": told})
            elif found := re.fullmatch(r"/batches/(\w+)", path):
                if found[1] not in self.work.batches:
                    Status(404, f"No batch found with id '{found[1]}'.").play(exchange)
                    return
                batch = self.work.batches[found[1]]
                self.work.look(batch, self._reply)
                self._write_results(batch)
                self._send(exchange, self._told(batch))
            elif found := re.fullmatch(r"/files/([\w.]+)/content", path):
                if found[1] in self.files:
                    exchange.send(200, self.files[found[1]])
                else:
                    Status(404, f"No such File object: {found[1]}").play(exchange)
            else:
                super().list_models(exchange)

    @staticmethod
    def _send(exchange: Exchange, body: Any) -> None:
        exchange.send(200, json.dumps(body).encode())

    def _store(self, exchange: Exchange) -> None:
        raw = exchange.asked.raw
        boundary = raw.partition(b"\r\n")[0]
        parts = raw.split(boundary)
        [content] = [
            each.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
            for each in parts
            if b"filename=" in each
        ]
        assert any(b'name="purpose"' in each and b"batch" in each for each in parts)
        name = f"file_{len(self.files) + len(self.deleted) + 1}"
        self.files[name] = content
        self._send(exchange, {"id": name, "object": "file", "purpose": "batch"})

    def _accept(self, exchange: Exchange) -> None:
        body = exchange.body
        assert body["completion_window"] == "24h"
        lines = [json.loads(each) for each in self.files[body["input_file_id"]].splitlines()]
        assert {each["url"] for each in lines} == {body["endpoint"]}
        names = [each["custom_id"] for each in lines]
        assert len(set(names)) == len(names)
        assert all(len(each) <= 64 for each in names)
        assert not any(each["body"].get("stream") for each in lines)
        batch = self.work.accept(
            [(each["custom_id"], each["body"]) for each in lines], body["metadata"]
        )
        batch.files = (body["input_file_id"], "", "")
        if len(lines) > self.work.most or any(self.work.faulty(each["body"]) for each in lines):
            batch.state = "failed"
        play = self.work.after(batch)
        if play is not None:
            play.play(exchange)
            return
        self._send(exchange, self._told(batch))

    def _reply(self, body: Any) -> tuple[int, Any]:
        captured = _Captured(self, body, f"{self.path}/chat/completions")
        super().answer(captured)
        return captured.status, json.loads(captured.reply)

    def _write_results(self, batch: Batch) -> None:
        if batch.state in ("running", "cancelling", "failed") or batch.files[1] or batch.files[2]:
            return
        good, bad = [], []
        for name, fate, (status, content) in batch.results:
            line: dict[str, Any] = {"id": f"batch_req_{name[:5]}", "custom_id": name, "error": None}
            if content is not None:
                response = {"status_code": status, "request_id": "r", "body": content}
                good.append({**line, "response": response})
            elif fate == "failed":
                error = {"error": {"message": "The server had an error.", "type": "server_error"}}
                bad.append({**line, "response": {"status_code": 500, "body": error}})
            elif fate == "unreadable":
                bad.append({**line, "response": {"status_code": 0, "request_id": "", "body": {}}})
            elif fate == "expired":
                said = "This request could not be executed before the completion window expired."
                error = {"code": "batch_expired", "message": said}
                bad.append({**line, "response": None, "error": error})
        files = [batch.files[0], "", ""]
        for place, lines in ((1, good), (2, bad)):
            if lines:
                files[place] = f"{batch.id}_{place}"
                self.files[files[place]] = "\n".join(map(json.dumps, lines)).encode()
        batch.files = tuple(files)

    def _told(self, batch: Batch) -> Any:
        has_expired = any(fate == "expired" for _, fate, _ in batch.results)
        status = {"running": "in_progress", "ended": "expired" if has_expired else "completed"}
        errors = None
        if batch.state == "failed":
            lines = [n for n, (_, body) in enumerate(batch.lines, 1) if self.work.faulty(body)]
            data: list[dict[str, Any]] = [
                {"code": "invalid", "line": n, "message": "Invalid request", "param": None}
                for n in lines
            ]
            said = "Enqueued token limit reached for tiny-1. Limit: 90,000 enqueued tokens."
            full = {"code": "token_limit_exceeded", "line": None, "message": said, "param": None}
            errors = {"object": "list", "data": data or [full]}
        return {
            "id": batch.id,
            "object": "batch",
            "status": status.get(batch.state, batch.state),
            "input_file_id": batch.files[0],
            "output_file_id": batch.files[1] or None,
            "error_file_id": batch.files[2] or None,
            "errors": errors,
            "metadata": batch.metadata,
            "request_counts": {
                "total": len(batch.lines),
                "completed": len(batch.results),
                "failed": 0,
            },
        }


class MessageBatchServer(AnthropicServer):
    """Anthropic's Message Batches, besides messages."""

    def __init__(self, work: Work | None = None, **settings: Any) -> None:
        self.work = work or Work()
        self.deleted: list[str] = []
        super().__init__(**settings)

    def answer(self, exchange: Exchange) -> None:
        path = exchange.asked.path.removeprefix(f"{self.path}/messages")
        if path == "/batches":
            requests = exchange.body["requests"]
            names = [each["custom_id"] for each in requests]
            assert len(set(names)) == len(names)
            assert all(re.fullmatch(r"[\w-]{1,64}", each) for each in names)
            with self.work.lock:
                batch = self.work.accept([(each["custom_id"], each["params"]) for each in requests])
                if play := self.work.after(batch):
                    play.play(exchange)
                    return
                self._send(exchange, self._told(batch))
        elif found := re.fullmatch(r"/batches/(\w+)/cancel", path):
            with self.work.lock:
                self.work.batches[found[1]].state = "cancelling"
                self._send(exchange, self._told(self.work.batches[found[1]]))
        else:
            super().answer(exchange)

    def _play(self, play: Play, exchange: Exchange) -> None:
        if hasattr(play, "reply"):
            play = play.reply(exchange.body)
        super()._play(play, exchange)

    def list_models(self, exchange: Exchange) -> None:
        path = exchange.asked.path.removeprefix(f"{self.path}/messages")
        with self.work.lock:
            if exchange.asked.method == "DELETE":
                self.deleted.append(path.rpartition("/")[2])
                self._send(exchange, {"id": self.deleted[-1], "type": "message_batch_deleted"})
            elif path.startswith("/batches?"):
                told = [self._told(each) for each in self.work.batches.values()]
                self._send(exchange, {"data": told, "has_more": False})
            elif found := re.fullmatch(r"/batches/(\w+)/results", path):
                lines = map(self._line, self.work.batches[found[1]].results)
                exchange.send(200, "\n".join(map(json.dumps, lines)).encode())
            elif found := re.fullmatch(r"/batches/(\w+)", path):
                batch = self.work.batches[found[1]]
                self.work.look(batch, self._reply)
                self._send(exchange, self._told(batch))
            else:
                super().list_models(exchange)

    @staticmethod
    def _send(exchange: Exchange, body: Any) -> None:
        exchange.send(200, json.dumps(body).encode())

    def _reply(self, body: Any) -> tuple[int, Any]:
        captured = _CapturedByAnthropic(self, body, f"{self.path}/messages")
        captured.asked.headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        super().answer(captured)
        return captured.status, json.loads(captured.reply)

    @staticmethod
    def _line(result: tuple[str, str, Any]) -> Any:
        name, fate, (_, content) = result
        if content is not None:
            return {"custom_id": name, "result": {"type": "succeeded", "message": content}}
        if fate in ("failed", "unreadable"):
            error = {"type": "overloaded_error", "message": "Overloaded"}
            whole = {"type": "error", "error": error}
            return {"custom_id": name, "result": {"type": "errored", "error": whole}}
        return {"custom_id": name, "result": {"type": fate}}

    def _told(self, batch: Batch) -> Any:
        is_running = batch.state in ("running", "cancelling")
        status = {"running": "in_progress", "cancelling": "canceling"}.get(batch.state, "ended")
        fates = Counter(fate for _, fate, _ in batch.results)
        number = len(batch.lines)
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": status,
            "results_url": None
            if is_running
            else f"{self.root}/v1/messages/batches/{batch.id}/results",
            "request_counts": {
                "processing": number if is_running else 0,
                "succeeded": 0 if is_running else number - fates["canceled"] - fates["expired"],
                "errored": 0,
                "canceled": fates["canceled"],
                "expired": fates["expired"],
            },
        }
