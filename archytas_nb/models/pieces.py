"""Assembles the function calls of a reply from the pieces of a stream, however they are numbered.

A piece belongs to the call at its index, or with its id if that differs; without an index to the
call with its id, and without both to the last one. It begins the next call if the id or the index
is new, or if it names a function when the arguments of its call are complete.

Gateways that give each piece a new id or index are recognized at the end: arguments that are
complete only together are those of one call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from archytas_nb.loop.events import Json, WireCall
from archytas_nb.loop.reading.lenient import MAX_DEPTH
from archytas_nb.models.kept import joined

_OF_A_CALL = frozenset({"id", "index", "type", "function", "name", "arguments"})
_MARKS = re.compile(r'\\.|\\|["{}\[\]]', re.DOTALL)
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


@dataclass(slots=True)
class _Call:
    """A call that is being received."""

    id: str
    index: int | str | None
    name: str = ""
    pieces: list[str] = field(default_factory=list)  # of the arguments; none is empty
    others: list[Json] = field(default_factory=list)  # its fields that are not ours
    _read: int = 0  # how many pieces `is_complete` has followed, and to which state
    depth: int = 0
    _in_text: bool = False
    _is_escaped: bool = False
    _has_value: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether all brackets and quotes of its arguments are closed."""
        new = self.pieces[self._read :]
        if new:
            self._read = len(self.pieces)
            self._follow("".join(new))
        return self._has_value and self.depth <= 0 and not self._in_text

    def _follow(self, text: str) -> None:
        """Follow the brackets and quotes in more of the arguments."""
        start = int(self._is_escaped)
        self._is_escaped = False
        for mark in _MARKS.finditer(text, start):
            match mark[0]:
                case '"':
                    self._in_text = not self._in_text
                    self._has_value = True
                case "\\":
                    # The character that it escapes is not there yet.
                    self._is_escaped = True
                case "{" | "[" if not self._in_text:
                    self.depth += 1
                    self._has_value = True
                case "}" | "]" if not self._in_text:
                    self.depth -= 1

    @property
    def is_cut(self) -> bool:
        """Whether it has arguments that are not complete."""
        return bool(self.pieces) and not self.is_complete

    def may_take(self, arguments: str, call_id: str) -> bool:
        """Whether a piece with a name still belongs to it, although its arguments are complete.

        It does if it has the id of the call, or the same arguments again after they came in pieces.
        """
        has_id = call_id != "" and call_id == self.id
        values = _values(arguments)
        if len(values) != 1 or not (has_id or len(self.pieces) > 1):
            return has_id
        own = _values("".join(self.pieces))
        return own == values or (has_id and own == [{}])

    def add_name(self, name: str) -> None:
        """Add a name, or a piece of it; once there are arguments, it can only be a repetition."""
        if name.startswith(self.name) and not self.pieces:
            # The first piece, or all of the name up to here.
            self.name = name
        elif not self.pieces or not self.name:
            self.name += name

    def completed_by(self, following: Iterable[_Call]) -> int:
        """How many of the calls after it are the rest of its arguments."""
        if not self.is_cut:
            return 0
        whole = replace(self, pieces=list(self.pieces))
        rests = 0
        for number, call in enumerate(following, start=1):
            if not call.pieces or call.name not in ("", self.name) or whole.depth > MAX_DEPTH:
                break
            whole.pieces += call.pieces
            if whole.is_complete:
                return number
            if rests == number - 1 and not call.pieces[0].lstrip().startswith("{"):
                rests = number
        return rests

    def is_echo_of(self, before: _Call) -> bool:
        """Whether it is only the name of the call before it, repeated after the arguments."""
        has_own_id = self.id not in ("", before.id)
        has_arguments = any(map(str.strip, self.pieces))
        return (
            not (has_arguments or has_own_id) and bool(before.pieces) and self.name == before.name
        )


class CallPieces:
    """The calls of a reply in progress."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int | str | None, _Call] = {}

    def add_all(self, items: list[dict[str, Any]], *, is_whole: bool) -> None:
        """Add the pieces of a chunk, or the calls of a reply that is whole."""
        for item in items:
            function = item.get("function")
            if not isinstance(function, dict):
                function = item
            name = _string(function.get("name"))
            call_id = _string(item.get("id"))
            index = item.get("index")
            if not isinstance(index, (int, str)):
                index = None
            arguments = _text(function.get("arguments"))
            call = None
            if not is_whole:
                call = self._owner(call_id, index, name, arguments)
            if call is None:
                call = _Call(call_id, index)
                self._calls.append(call)
                self._by_index[index] = call
            if call_id:
                call.id = call.id or call_id
                self._by_id[call_id] = call
            if name:
                call.add_name(name)
            if arguments:
                call.pieces.append(arguments)
            if others := _others(item, function):
                call.others.append(others)

    def _owner(
        self, call_id: str, index: int | str | None, name: str, arguments: str
    ) -> _Call | None:
        """The call that a piece belongs to; None if it begins one."""
        call = self._by_index.get(index)
        if call is not None and index is not None and not (call_id or name):
            # As with nearly all pieces.
            return call
        last = self._calls[-1] if self._calls else None
        if index is None:
            call = last
        if call_id and (call is None or call_id != call.id):
            known = self._by_id.get(call_id)
            is_elsewhere = known is not None and index not in (known.index, None)
            if known is not None and not (is_elsewhere and name):
                call = known
            elif call is not None and (known is not None or call.id or call.is_complete):
                call = None
        elif call is None and last is not None and not name and not last.is_complete:
            call = last
        if call is None or not name or not call.is_complete:
            return call
        return call if call.may_take(arguments, call_id) else None

    def calls(self) -> tuple[WireCall, ...]:
        """The calls, in the order in which they began."""
        whole: list[_Call] = []
        at = 0
        while at < len(self._calls):
            call = self._calls[at]
            at += 1
            if whole and call.is_echo_of(whole[-1]):
                continue
            for _ in range(call.completed_by(islice(self._calls, at, None))):
                call.pieces += self._calls[at].pieces
                call.others += self._calls[at].others
                at += 1
            whole.append(call)
        return tuple(
            WireCall(call.name, _arguments(call.pieces), joined(call.others) or None)
            for call in whole
        )


def _others(item: Mapping[str, Any], function: Mapping[str, Any]) -> dict[str, Json]:
    """The fields of a call that are not ours, in their places."""
    others = {}
    for name in item:
        if name not in _OF_A_CALL and item[name] is not None:
            others[name] = item[name]
    if function is item:
        return others
    inner = {}
    for name in function:
        if name not in _OF_A_CALL:
            inner[name] = function[name]
    if inner:
        others["function"] = inner
    return others


def _arguments(pieces: list[str]) -> str:
    """The arguments of a call; some servers send all of them again, or ``{}`` before them."""
    text = "".join(pieces)
    values = _values(text)
    if len(values) == 1 or not pieces:
        return text
    if len(values) > 1:
        given = [each for each in values if each != {}] or [{}]
        if all(each == given[0] for each in given):
            return json.dumps(given[0], ensure_ascii=False)
    last = "".join(pieces[-1].split())
    before = ["".join(each.split()) for each in ("".join(pieces[:-1]), *pieces[:-1])]
    is_whole = last.startswith(before[0]) or all(map(last.startswith, before[1:]))
    if len(pieces) > 1 and is_whole and len(_values(pieces[-1])) == 1:
        return pieces[-1]
    return text


def _values(text: str) -> list[Json]:
    """The JSON values that a text consists of; none if it does not."""
    found: list[Json] = []
    at = len(text) - len(text.lstrip())
    while at < len(text):
        try:
            value, end = _scan(text, at)
        except (StopIteration, ValueError, RecursionError):
            return []
        found.append(value)
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found


def _text(arguments: Json) -> str:
    """Arguments as text; some servers send an object."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments)


def _string(value: Json) -> str:
    return value if isinstance(value, str) else ""
