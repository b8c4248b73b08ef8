"""Model replies as they were given, kept beside a notebook: recorded once, replayed without a model.

A cassette is JSON Lines: a header, then one exchange a line. An exchange is found by the fingerprint of its
request (messages, tools, schema, length) and given out once, in order. A request that was not recorded is an
error, never a guess. Keys, headers and base URLs are not part of a request, so they are never kept.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from archytas_nb.errors import CassetteMiss, ConfigurationError
from archytas_nb.react.events import AskModel, Delta, Json, Message, ModelReply, Notice, from_json, to_json

VERSION = 1
Mode = Literal["auto", "replay", "record"]


class Cassette:
    """The exchanges of one file.

    Args:
        path: The file; it need not exist where it is recorded.
        mode: ``"replay"`` only replays; ``"record"`` asks the model for everything and starts the file anew;
            ``"auto"`` replays what is there and records what is missing.

    Raises:
        ConfigurationError: The file is no cassette, of another version, or missing in a replay.
    """

    def __init__(self, path: str | os.PathLike[str], mode: Mode = "auto") -> None:
        if mode not in ("auto", "replay", "record"):
            raise ConfigurationError(f"cassette mode is {mode!r}; expected 'auto', 'replay' or 'record'")
        self.path = Path(path)
        self.mode: Mode = mode
        self._left: list[Json] = []
        self.header: dict[str, Json] = {"cassette": VERSION}
        if mode != "record" and self.path.exists():
            self._load()
        elif mode == "replay":
            raise ConfigurationError(f"the cassette {str(self.path)!r} does not exist; record it first")
        else:
            self._write([self.header], "w")

    def find(self, ask: AskModel) -> ModelReply | None:
        """Take the recorded reply to a request out; None where there is none left."""
        key = fingerprint(ask)
        for at, exchange in enumerate(self._left):
            if exchange["fingerprint"] == key:
                del self._left[at]
                reply: ModelReply = from_json(exchange["reply"])
                return reply
        return None

    def add(self, ask: AskModel, reply: ModelReply) -> None:
        """Append an exchange to the file."""
        kept = to_json(replace(reply, seconds=round(reply.seconds, 3)))
        self._write(
            [{"fingerprint": fingerprint(ask), "step": ask.step, "asked": _last(ask), "reply": kept}], "a"
        )

    def miss(self, ask: AskModel) -> CassetteMiss:
        """The error for a request that was not recorded: it shows where the nearest recorded one differs."""
        nearest = next((e for e in self._left if e["step"] == ask.step), self._left[0] if self._left else None)
        recorded = (
            "no exchange is left" if nearest is None else f"the next recorded one ends with {nearest['asked']!r}"
        )
        return CassetteMiss(
            f"the cassette {str(self.path)!r} holds no reply to this request (step {ask.step}, ending with "
            f"{_last(ask)!r}; {recorded}). A prompt, a tool or a result has changed: record it again with "
            "ARCHYTAS_NB_CASSETTE_MODE=record.",
            kind="not_found",
        )

    @property
    def unused(self) -> int:
        """How many recorded exchanges were not asked for yet."""
        return len(self._left)

    def _load(self) -> None:
        try:
            lines = [json.loads(line) for line in self.path.read_text("utf-8").splitlines() if line.strip()]
            self.header, *self._left = lines
            version = self.header["cassette"]
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(f"{str(self.path)!r} is not a cassette: {error}") from error
        if version != VERSION:
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} is of version {version!r}; expected {VERSION}"
            )

    def _write(self, lines: list[Json], how: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open(how, encoding="utf-8", newline="\n") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


class CassetteModel:
    """A model whose replies come from a cassette, or go into one.

    Args:
        cassette: The cassette.
        live: Makes the real model where a reply is not recorded; never called in a replay.
    """

    def __init__(self, cassette: Cassette, live: Any) -> None:
        self._cassette = cassette
        self._make_live = live
        self._live: Any = None

    @property
    def name(self) -> str:
        """The recorded model's name, or the live one's while recording."""
        if self._replays:
            return str(self._cassette.header.get("model", "recorded"))
        return str(self._real().name)

    @property
    def protocol(self) -> Literal["react", "native"]:
        """The wire form that was recorded, or the live model's while recording."""
        recorded = self._cassette.header.get("protocol")
        if recorded in ("react", "native"):
            return "native" if recorded == "native" else "react"
        protocol: Literal["react", "native"] = self._real().protocol
        return protocol

    @property
    def is_small(self) -> bool:
        """Whether the recorded, or the live, model's answers are held against the outcomes."""
        if self._replays:
            return bool(self._cassette.header.get("is_small"))
        return getattr(self._real(), "is_small", False)

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """The recorded reply, or the live model's where recording is allowed.

        Raises:
            CassetteMiss: A replay was asked for something that was not recorded.
        """
        recorded = self._cassette.find(ask)
        if recorded is not None:
            return recorded
        if self._cassette.mode == "replay":
            raise self._cassette.miss(ask)
        reply: ModelReply = yield from self._real().complete(ask)
        self._cassette.add(ask, reply)
        return reply

    @property
    def _replays(self) -> bool:
        return "model" in self._cassette.header

    def _real(self) -> Any:
        if self._cassette.mode == "replay":
            raise ConfigurationError(f"the cassette {str(self._cassette.path)!r} names no model; record it again")
        if self._live is None:
            self._live = self._make_live()
            if not self._replays:
                self._cassette.header |= {"model": self._live.name, "protocol": self._live.protocol}
                if getattr(self._live, "is_small", False):
                    self._cassette.header["is_small"] = True
                self._cassette._write([self._cassette.header], "w")  # noqa: SLF001 - one file, two halves
        return self._live


def fingerprint(ask: AskModel) -> str:
    """What makes two requests the same: everything that the model reads, and nothing else."""
    read = {"messages": ask.messages, "tools": ask.tools, "schema": ask.schema, "max_tokens": ask.max_tokens}
    text = json.dumps(read, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _last(ask: AskModel) -> str:
    message: Message = ask.messages[-1]
    return str(message.get("content"))[-200:]
