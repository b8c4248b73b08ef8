"""Runs programs in sessions, as a run does, with three tools."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest

from archytas_nb.loop.events import (
    CallOutcome,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramWaits,
)
from archytas_nb.sandbox import prepared
from archytas_nb.sandbox.session import Bounds, Session, State
from archytas_nb.tools.tool import Tool

Reply = ProgramFaults | ProgramWaits | ProgramEnded


class Frame:
    """An object that JSON cannot represent."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class OwnError(Exception):
    """An error that the sandbox does not know."""


def price(item: str, amount: int = 1) -> float:
    """The price of an item.

    Args:
        item: Its name
        amount: How many
    """
    if item == "nothing":
        raise ValueError("no item is named 'nothing'")
    if item == "own":
        raise OwnError("an error of a library")
    return len(item) * 1.5 * amount


def load(rows: int) -> Frame:
    """Load a frame.

    Args:
        rows: How many rows
    """
    return Frame(rows)


def rows(frame: Frame) -> int:
    """Count the rows of a frame.

    Args:
        frame: The frame
    """
    return frame.rows


TOOLS = {each.__name__: Tool.from_function(each) for each in (price, load, rows)}


def ended(text: str) -> str:
    """A program that ends with a value, or with `show`, as it must."""
    has_value = isinstance(ast.parse(text).body[-1], ast.Expr)
    return text if has_value else f"{text}\nshow()"


def uncheck(patch: pytest.MonkeyPatch) -> None:
    """Run programs without the check before they run: the sandbox has to hold by itself."""
    patch.setattr(prepared, "fed_text", lambda text, *_, **__: (text, ()))
    patch.setattr(prepared, "type_faults", lambda *_, **__: ())


class Programs:
    """Sessions of one conversation.

    Attributes:
        tools: Those of the next session.
        calls: Those of the last program.
        waits: What the last program waited for, each time.
        answered: Makes a call.
    """

    def __init__(
        self, namespace: dict[str, Any] | None = None, bounds: Bounds | None = None
    ) -> None:
        self.namespace = {} if namespace is None else namespace
        self.bounds = bounds
        self.tools = TOOLS
        self.calls: list[ProgramCall] = []
        self.waits: list[ProgramWaits] = []
        self.answered: Callable[[ProgramCall], CallOutcome] = self.call
        self.session = self.opened(None)

    def opened(self, state: State | None) -> Session:
        """A session of a state."""
        return Session(self.tools, self.namespace, state, self.bounds)

    def next_question(self) -> None:
        """Close the session, and open one of its state."""
        self.session = self.opened(self.session.close())

    def call(self, call: ProgramCall) -> CallOutcome:
        """Make a call with the tool itself."""
        return TOOLS[call.name].call({**call.input, **call.objects}, self.namespace)

    def reply(self, text: str, *, is_part: bool = False) -> Reply:
        """Run a program to its end, or to its faults."""
        self.calls = []
        self.waits = []
        reply: Reply = self.session.run(text, is_part)
        while isinstance(reply, ProgramWaits):
            self.waits.append(reply)
            self.calls += reply.calls
            reply = self.session.resume([self.answered(each) for each in reply.calls])
        return reply

    def run(self, text: str, *, is_part: bool = False) -> ProgramEnded:
        """Run a program without faults to its end."""
        reply = self.reply(ended(text), is_part=is_part)
        assert isinstance(reply, ProgramEnded), reply
        return reply
