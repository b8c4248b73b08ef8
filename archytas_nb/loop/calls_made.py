"""The calls that were made: an equal call takes an earlier outcome, or is made as well.

Two calls are equal if they name the same tool and give it the same input. `earlier` is the outcome
of a call that is not made. Who makes the calls decides when that is:

    CallsOfReplies    replies of a model                  as long as nothing new was found since
    CallsOfPrograms   a program that is written again     in the same order, or each outcome once
    Effects           an agent, after a program for rows  always; others may not be made at all
    SharedCalls       pure tools, for all rows of a map   always, also from several threads
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from archytas_nb.loop.events import ANSWER, CallOutcome, ToolCall


def call_key(call: ToolCall) -> str:
    """A key that only calls of the same tool with the same input share."""
    return f"{call.name}:{json.dumps(call.input, sort_keys=True, ensure_ascii=False, default=repr)}"


def taken(outcome: CallOutcome, call: ToolCall) -> CallOutcome:
    """An earlier outcome for a call that is not made: what was shown of it is not shown again."""
    return replace(outcome, call_id=call.id, seconds=0.0, outputs=(), displays=(), said="", runs=())


# ── calls of replies ──────────────────────────────────────────────────────────────────────────────

_FAILED_AGAIN = (
    "You made this very call before, and it failed in the same way. Unless it says to try again, "
    "do not make it any more: give another input, or use another tool."
)
_AGAIN_LATER = (
    "You made this very call before, and it was not made again. Its outcome was:\n{outcome}\n"
    "If something else is missing, make the call for that. If all that was asked for is done, use "
    f"{ANSWER} now."
)
_AGAIN = (
    "You already made this very call; it was not run again. Its outcome was:\n{outcome}\n"
    "Use this outcome: answer, or make a different call."
)
_AGAIN_SHORT = (
    "You already made this very call, and nothing is new since: it was not run again, and its "
    "outcome is above. Use that: answer, or make a different call."
)
_MADE_BEFORE = "the same call was made before"
_TOOL_DISABLED = (
    "{name} was not run and cannot be used now: you made the same call again and again. "
    "Use what you were told: answer, or use another tool."
)


@dataclass(slots=True)
class _CallRecord:
    """A call's last outcome, the number of new outcomes so far, and how often it was made."""

    outcome: CallOutcome
    new_outcomes: int
    times: int = 1


@dataclass(slots=True)
class CallsOfReplies:
    """The calls that the replies of a run have made.

    Attributes:
        may_repeat: The tools whose outcome may differ between equal calls.
        confirms: Whether the model has to confirm a call that it made before.
        disabled: The tools that cannot be used for now, because calls of them were repeated.
    """

    may_repeat: Collection[str] = ()
    confirms: bool = False
    disabled: set[str] = field(default_factory=set)
    _made: dict[str, _CallRecord] = field(default_factory=dict)
    _new_outcomes: int = 0
    _warned: set[str] = field(default_factory=set)

    def earlier(self, call: ToolCall) -> CallOutcome | None:
        """The outcome of a call that is skipped, or None if it must run.

        A repeated call runs again only if there was a new outcome since, because its own may then
        differ (or must be confirmed). Otherwise it gets the earlier outcome, and the third
        time its tool is disabled until there is a new one. A failed call may be retried.
        """
        if call.name in self.disabled:
            text = _TOOL_DISABLED.format(name=call.name)
            why = "the same call was made again and again"
            return CallOutcome("refused", text, call_id=call.id, for_person=why)
        key = call_key(call)
        last = self._made.get(key)
        if last is None or call.name in self.may_repeat or last.outcome.status == "error":
            return None
        if last.new_outcomes != self._new_outcomes:
            if not self.confirms or key in self._warned:
                return None
            self._warned.add(key)
            text = _AGAIN_LATER.format(outcome=last.outcome.text)
            return CallOutcome("not_run", text, call_id=call.id, for_person=_MADE_BEFORE)
        last.times += 1
        if last.times > 2:
            self.disabled.add(call.name)
        # A small model does not look back.
        text = _AGAIN.format(outcome=last.outcome.text) if self.confirms else _AGAIN_SHORT
        again = last.outcome.with_text(text, last.outcome.for_person or last.outcome.result)
        return taken(again, call)

    def note_news(self) -> None:
        """Note that something is new besides outcomes: an equal call may differ now."""
        self._new_outcomes += 1
        self.disabled.clear()

    def is_duplicate(self, call: ToolCall, others: Collection[str]) -> bool:
        """Whether a call must not run together with an identical one; `others` are keys."""
        return call.name not in self.may_repeat and call_key(call) in others

    def record(self, call: ToolCall, outcome: CallOutcome) -> CallOutcome:
        """Record the outcome of a call; return the outcome that the model reads."""
        if outcome.status == "not_run":  # it was not made, and may be made now
            self.note_news()
            return outcome
        key = call_key(call)
        last = self._made.get(key)
        if last and (last.outcome.status, last.outcome.text) == (outcome.status, outcome.text):
            last.outcome = outcome
            last.new_outcomes = self._new_outcomes
            last.times += 1
            failed = outcome.status == "error"
            if failed:
                return replace(outcome, advice=_FAILED_AGAIN)
            return outcome
        self._new_outcomes += 1
        self._made[key] = _CallRecord(outcome, self._new_outcomes)
        if outcome.status == "done":
            self.disabled.clear()
        return outcome


# ── calls of programs ─────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class CallsOfPrograms:
    """The calls of a program that failed, so that one that is written again does not repeat them.

    The calls of the program after it take the results of the failed one's, in order, as long as
    they are equal and were successful. From the first one that is not, all are made. So an order is
    not placed twice, and nothing is read that is older than the last change.

    A model writes what is left, as it is told, unless its program begins with the same statement.
    One that does not keep the order (`in_order`), as a small one, writes the whole program again,
    or parts of it: it takes each result once, wherever it was found.
    """

    may_repeat: Collection[str] = ()
    in_order: bool = True
    _earlier: deque[tuple[str, CallOutcome]] = field(default_factory=deque)
    _made: list[tuple[str, CallOutcome]] = field(default_factory=list)  # by this program
    _first: str = ""  # the first line of the program

    def begin(self, program: str, *, after_failure: bool) -> None:
        """Another program begins; `after_failure` tells whether the last one failed."""
        first = program.strip().partition("\n")[0]
        is_again = after_failure and (not self.in_order or first == self._first)
        known = [*self._made, *self._earlier]
        self._earlier = deque(known if is_again else ())
        self._made = []
        self._first = first

    def earlier(self, call: ToolCall) -> CallOutcome | None:
        """The outcome of an equal call that a call takes; None if it is to be made."""
        if not self._earlier:
            return None
        asked = call_key(call)
        if not self.in_order:
            self._bring_forward(asked)
        key, outcome = self._earlier[0]
        if key != asked or outcome.status != "done":
            if self.in_order:
                self._earlier.clear()
            return None
        self._earlier.popleft()
        if call.name in self.may_repeat:  # it is made again, those after it need not be
            return None
        self._made.append((key, outcome))
        return outcome

    def _bring_forward(self, key: str) -> None:
        """Put the first successful call with a key before the others."""
        for each in self._earlier:
            if each[0] == key and each[1].status == "done":
                self._earlier.remove(each)
                self._earlier.appendleft(each)
                return

    def add(self, call: ToolCall, outcome: CallOutcome) -> None:
        """Keep the outcome of a call that was made."""
        self._made.append((call_key(call), outcome))


# ── calls for rows ────────────────────────────────────────────────────────────────────────────────

_NOT_NOW = "Not run: this row was already done, and is only checked."
_MAX_SHARED = 100_000  # outcomes of calls with plain values
_MAX_OBJECTS = 100  # outcomes of calls that return something else
_PLAIN = (type(None), bool, int, float, str)
_MAX_PLAIN = 1000  # characters of a text that counts as plain


@dataclass(slots=True)
class Effects:
    """The calls with side effects that a program has made for a row; an agent does not repeat them.

    Attributes:
        made: Their outcomes, by their keys.
        is_closed: Whether no other call with side effects is made.
        refused: The name of a tool that was therefore not called; empty if there was none.
    """

    made: Mapping[str, CallOutcome]
    is_closed: bool = False
    refused: str = ""

    def earlier(self, call: ToolCall) -> CallOutcome | None:
        """The outcome of a call that is not made; None if it is to be made."""
        earlier = self.made.get(call_key(call))
        if earlier is not None:
            return taken(earlier, call)
        if not self.is_closed:
            return None
        self.refused = call.name
        return CallOutcome("refused", _NOT_NOW, call_id=call.id)


class SharedCalls:
    """The outcomes of calls without side effects, each of which is made once for all rows.

    Of those with plain values the last 100,000 are kept, of others the last 100.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plain = OrderedDict[str, CallOutcome]()
        self._objects = OrderedDict[str, CallOutcome]()
        self._running: dict[str, threading.Event] = {}

    def outcome(self, key: str, make: Callable[[], CallOutcome]) -> CallOutcome:
        """The outcome of a call; where an equal one is being made, it waits for that."""
        while True:
            with self._lock:
                known = self._known(key)
                running = self._running.get(key)
                if known is None and running is None:
                    self._running[key] = threading.Event()
            if known is not None:
                return known
            if running is None:
                return self._made(key, make)
            running.wait()

    def _known(self, key: str) -> CallOutcome | None:
        for kept in (self._plain, self._objects):
            if key in kept:
                kept.move_to_end(key)
                return kept[key]
        return None

    def _made(self, key: str, make: Callable[[], CallOutcome]) -> CallOutcome:
        outcome: CallOutcome | None = None
        try:
            outcome = make()
        finally:
            with self._lock:
                if outcome is not None and outcome.status == "done":
                    self._keep(key, outcome)
                self._running.pop(key).set()
        return outcome

    def _keep(self, key: str, outcome: CallOutcome) -> None:
        value = outcome.value
        is_plain = isinstance(value, _PLAIN) and len(str(value)) <= _MAX_PLAIN
        kept, most = (self._plain, _MAX_SHARED) if is_plain else (self._objects, _MAX_OBJECTS)
        # A program reads the value alone.
        kept[key] = CallOutcome("done", "done", value=value)
        while len(kept) > most:
            kept.popitem(last=False)
