"""Conversations: their questions and runs, which question continues which, and what each cost.

A `Conversation` is what an agent has, or what one question of the notebook continues. A `History`
is what the notebook has: its questions are in one list, in the order of their cells; a question
with ``--new``, or the first one after a reset, begins a conversation, which the questions below it
continue. A cell that is run again finds its own place there, whatever was asked elsewhere.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from archytas_nb.errors import ArchytasError, RunInterrupted

if TYPE_CHECKING:
    from archytas_nb.code.rows import PlannedRows
    from archytas_nb.loop.events import Kept, Usage
    from archytas_nb.loop.record import Exchange
    from archytas_nb.namespace import Cell
    from archytas_nb.run import Events, Run

RUNS = 20
"""How many runs can be undone."""
BYTES = 1 << 30
"""How much the copies for that may take together, unless it is one run."""

_log = logging.getLogger("archytas_nb")


class ActiveRun:
    """The unfinished run of an agent."""

    def __init__(self) -> None:
        self.events: Callable[[], Events | None] = lambda: None
        self.is_awaited = False  # by a task: nothing else may request the next event

    @property
    def is_running(self) -> bool:
        """Whether a question is being answered now, so that this is asked from within."""
        earlier = self.events()
        return earlier is not None and inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING

    def end(self) -> None:
        """End an abandoned run, such as that of a stream that is no longer iterated."""
        earlier = self.events()
        if earlier is not None:
            if self.is_awaited or inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING:
                raise RuntimeError(
                    "this agent is already answering a question; ask another agent, or wait"
                )
            earlier.close()


class Conversation:
    """One conversation: what was asked and kept, the runs of it, and the run that goes on.

        question    begins with   what there is of it
        running     `begin`       its run; the record is in no conversation yet
        kept        `keep`        its record, in the place of the one that it replaces, or the last
        forgotten   `forget_last`, `reset`, `load`, or another question in its place

    Attributes:
        exchanges: The records of the questions, in their order.
        active: The run that goes on.
    """

    def __init__(self, exchanges: Sequence[Exchange] = ()) -> None:
        self.exchanges = list(exchanges)
        self.active = ActiveRun()
        self._runs: list[tuple[Exchange, Run[Any]]] = []

    @property
    def runs(self) -> list[Run[Any]]:
        """The runs of the questions that are kept, in the order in which they were asked."""
        return [run for exchange, run in self._runs if self._has(exchange)]

    def begin(self, exchange: Exchange, run: Run[Any]) -> None:
        """Note a question that is asked; what earlier undos have replaced cannot come back now."""
        for _, earlier in self._runs:
            if earlier.watch is not None:
                earlier.watch.forget_replaced()
        self._runs = [each for each in self._runs if self._has(each[0])]
        self._runs.append((exchange, run))

    def keep(self, exchange: Exchange) -> bool:
        """Keep the record of a question, which replaces that of its cell; False if it was kept."""
        if self._has(exchange):
            return False
        from archytas_nb.loop.record import index_of

        index = index_of(self.exchanges, exchange.origin)
        self.exchanges[index : index + 1] = [exchange]
        return True

    def forget_last(self) -> Exchange | None:
        """Remove the last question, and return its record; None if there is none."""
        self.active.end()
        return self.exchanges.pop() if self.exchanges else None

    def load(self, exchanges: Sequence[Exchange]) -> None:
        """Continue with these exchanges in place of all others."""
        self.active.end()
        self.exchanges[:] = exchanges

    def _has(self, exchange: Exchange) -> bool:
        return any(each is exchange for each in self.exchanges)


class Paid(NamedTuple):
    """The cost of one question, also of a failed run."""

    usage: Usage
    seconds: float  # of the model; in a replay those of the recording
    usd: float | None  # None where the price is not known


class Costs(NamedTuple):
    """The cost of the last question, and of those of its conversation and of this kernel."""

    last: Sequence[Paid]
    conversation: Sequence[Paid]
    kernel: Sequence[Paid]


NO_COSTS = Costs((), (), ())
"""The costs of a kernel in which nobody has asked anything."""


@dataclass(eq=False)
class Turn:
    """The place of a question.

    Attributes:
        origin: The source of the question; empty where no cell can ask it again.
        begins: Whether a conversation begins with it, and what began it.
        exchange: None where the question came to nothing, or was forgotten.
        paid: Its cost, each time it was asked.
    """

    origin: str
    begins: Literal["", "new", "reset"] = ""
    exchange: Exchange | None = None
    paid: list[Paid] = field(default_factory=list)


@dataclass(eq=False)
class AskedRun:
    """A question that was asked, or a call by another program.

    Attributes:
        number: Its place in the order of time; no person sees it.
        cell: The number of the cell that asked; of a call, that of the last cell before it.
        part: The number of the question among those of its cell.
        exchange: None where it came to nothing and was not kept.
        origin: The source of the question, as in `Turn`.
        is_call: Whether another program has called.
        is_undone: Whether it was removed by an undo.
        kept: The changes that the undo has kept, because they were changed or used since.
    """

    number: int
    cell: int
    run: Run
    exchange: Exchange | None = None
    origin: str = ""
    part: int = 1
    is_call: bool = False
    is_undone: bool = False
    kept: tuple[Kept, ...] = ()

    @property
    def label(self) -> str:
        """The number by which a person knows it: that of its cell, such as 12, or 12.2."""
        if self.part == 1:
            return str(self.cell)
        return f"{self.cell}.{self.part}"

    @property
    def place(self) -> str:
        """The place where it was asked, in words."""
        if self.is_call:
            return f"a call after cell {self.cell}"
        return f"cell {self.label}"


@dataclass(eq=False)
class Fork:
    """The branches of a question, of which one is in the conversation.

    Attributes:
        turn: The place of the question.
        branches: The branches, in the order in which they were asked.
        at: The index of the one whose variables there are.
    """

    turn: Turn
    branches: list[AskedRun] = field(default_factory=list)
    at: int = 0

    @property
    def current(self) -> AskedRun:
        """The branch that is in the conversation."""
        return self.branches[self.at]

    def add(self, asked: AskedRun) -> None:
        """Add a branch, which is the current one from now on."""
        self.branches.append(asked)
        self.at = len(self.branches) - 1


class Asking(NamedTuple):
    """A question that is being answered.

    Attributes:
        conversation: The conversation that it continues.
        continues: A description of that conversation, where it is not obvious.
        turn: Its place.
        cell: The cell that asks.
        place: How many exchanges are before it.
        earlier: The exchange that it replaces, if any.
    """

    conversation: Conversation
    continues: str
    turn: Turn
    cell: Cell
    place: int
    earlier: Exchange | None


class Removed(NamedTuple):
    """A question that an undo has removed."""

    question: str
    turn: Turn | None
    exchange: Exchange | None
    asked: AskedRun | None  # None where it was loaded from a file


class History:
    """The questions of this notebook and their conversations.

    They outlive every question; each question gets a setup of its own with the settings of that
    moment, so that nothing of one question's options reaches the next.

    Attributes:
        asked: The runs that can be undone, in the order of time.
        past: All runs that may have changed something, in the order of time.
        removed: The questions undone since the last question, the last one last.
        last: The run of the last question; None where nothing was asked, or after a reset.
        on_last: Called when `last` has changed.
        is_running: Whether a question is being answered.
        runs: The runs of the notebook, each cell's last one, in the order of time.
        planned: The last map that was planned; None where a question was asked since.
        fork: The branches of the question that was forked last; None where none was.
    """

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._paid: list[Paid] = []  # of all questions of this kernel
        self._at: Turn | None = None  # the last question; None after a reset
        self.asked: list[AskedRun] = []
        self.past: list[AskedRun] = []
        self.removed: list[Removed] = []
        self._count = 0  # the questions so far
        self.on_last: Callable[[], object] = lambda: None
        self._last: Run | None = None
        self.is_running = False
        self.runs: list[AskedRun] = []
        self.planned: PlannedRows | None = None
        self.fork: Fork | None = None
        self._asked = ("", 0)  # the last execution of a cell that asked, and how often it did

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges of the conversation in which something was asked last."""
        return _exchanges(self._conversation(self._at))

    @property
    def last(self) -> Run | None:
        """The run of the last question."""
        return self._last

    @last.setter
    def last(self, run: Run | None) -> None:
        self._last = run
        self.on_last()

    def reset(self) -> None:
        """Forget the conversation and start a new one."""
        self._forget_removed()
        for turn in self._conversation(self._at):
            turn.exchange = None
        self._at = None
        self.last = None
        self.fork = None
        self.planned = None
        self.asked.clear()

    def load(self, exchanges: Sequence[Exchange]) -> None:
        """Continue with these exchanges in place of the conversation."""
        replaced = self._conversation(self._at)
        self.reset()
        self._turns = [each for each in self._turns if each not in replaced]
        taken = {each.origin for each in self._turns}
        for number, exchange in enumerate(exchanges):
            if exchange.origin in taken:  # its cell has asked in another conversation
                exchange.origin = ""
            turn = Turn(exchange.origin, exchange=exchange)
            if number == 0:
                turn.begins = "reset"
            self._turns.append(turn)
            self._at = turn

    def label_of(self, exchange: Exchange) -> str:
        """The number of the question by which a person knows it; empty if it was loaded."""
        found = (each.label for each in self.runs if each.exchange is exchange)
        return next(found, "")

    def forget_last(self) -> Removed | None:
        """Remove the question that was asked last, and return it; None where there is none."""
        last: AskedRun | None = None
        exchange: Exchange | None = None
        self.last = None
        if self.asked:
            last = self.asked.pop()
            last.is_undone = True
            exchange = last.exchange
            self.runs = [each for each in self.runs if each is not last]
            if self.asked:
                self.last = self.asked[-1].run
        elif self.exchanges:  # it was loaded from a file
            exchange = self.exchanges[-1]
        else:
            return None
        turns = [each for each in self._turns if exchange and each.exchange is exchange]
        for turn in turns:  # its cell still finds its place
            turn.exchange = None
        question = last.run.question if last is not None else self._question(exchange)
        removed = Removed(question, next(iter(turns), None), exchange, last)
        self.removed.append(removed)
        return removed

    @staticmethod
    def _question(exchange: Exchange | None) -> str:
        return "" if exchange is None else exchange.question

    def bring_back(self) -> Removed | None:
        """Bring back the question that was removed last, and return it; None if there is none."""
        if not self.removed:
            return None
        removed = self.removed.pop()
        if removed.turn is not None:
            removed.turn.exchange = removed.exchange
        if removed.asked is not None:
            removed.asked.is_undone = False
            self.asked.append(removed.asked)
            self.last = removed.asked.run
            if not removed.asked.is_call:
                self.runs.append(removed.asked)
                self.runs.sort(key=lambda each: each.number)
        return removed

    def _forget_removed(self) -> None:
        """Give up the redo of what was undone, and free its memory."""
        for each in self.removed:
            if each.asked is not None and each.asked.run.watch is not None:
                each.asked.run.watch.forget_replaced()
        self.removed.clear()

    def paid(self) -> Costs:
        """The cost of each question, including those that were undone or replaced."""
        if self._at is None:
            return Costs([], [], self._paid)
        conversation = [paid for turn in self._conversation(self._at) for paid in turn.paid]
        return Costs(self._at.paid[-1:], conversation, self._paid)

    def origin(self, cell: Cell) -> str:
        """The identity of a cell's next question; empty where no cell is named.

        A notebook's front end names the cell in the request, and a cell that is run again replaces
        its question. In a terminal or with nbclient each question is added.
        """
        if not cell.id:
            return ""
        return f"{cell.id}#{self._number_in(cell)}"

    def _number_in(self, cell: Cell) -> int:
        """The number of the next question among those of this execution of a cell."""
        execution, number = self._asked
        if cell.execution != execution:
            return 1
        return number + 1

    def exchanges_for(self, origin: str, *, new: bool) -> list[Exchange]:
        """The conversation that a question continues, and the exchange that it replaces, if any."""
        past, earlier = self._past(origin, new=new)
        if earlier is None:
            return past
        return [*past, earlier]

    def ask(
        self,
        ask: Callable[[Conversation, str], Run],
        origin: str,
        cell: Cell,
        *,
        new: bool,
    ) -> Run:
        """Ask a question that continues the conversation.

        ``ask`` is called with the conversation that it continues, which then has its record, and
        with what it continues in words, where that is not obvious. No other question may be asked
        meanwhile: see `is_running`.

        Raises what ``ask`` raises; what the run cost is noted in any case.
        """
        asking = self.begin(origin, cell, new=new)
        run: Run | None = None
        try:
            run = ask(asking.conversation, asking.continues)
        except (ArchytasError, RunInterrupted) as error:
            run = getattr(error, "run", None)
            raise
        finally:
            self.end(asking, run)
        return run

    def begin(self, origin: str, cell: Cell, *, new: bool) -> Asking:
        """Begin a question, as `ask` does; `end` must follow."""
        self._forget_removed()
        self._asked = (cell.execution, self._number_in(cell))
        past, earlier = self._past(origin, new=new)
        conversation = Conversation(past if earlier is None else [*past, earlier])
        before = self._at
        turn = self._turn(origin, new=new)
        self._at = turn
        continues = _continued(past, before, turn)
        self.is_running = True
        return Asking(conversation, continues, turn, cell, len(past), earlier)

    def end(self, asking: Asking, run: Run | None) -> None:
        """End a question that was begun; `run` is None where there was none."""
        self.is_running = False
        turn = asking.turn
        # Its record or, if that was not kept, the one that it would have replaced.
        turn.exchange = next(iter(asking.conversation.exchanges[asking.place :]), None)
        if run is not None:
            is_kept = turn.exchange is not None and turn.exchange is not asking.earlier
            self._remember(run, turn, asking.cell, is_kept=is_kept)

    def fork_last(self, ask: Callable[[Conversation], Run], fork: Fork | None, cell: Cell) -> Run:
        """Ask the last question once more, as another branch of it.

        Args:
            ask: Called with the conversation before it, which then has the record of the branch.
            fork: Its branches so far; None before the first one is made.
            cell: The cell that asks.

        Raises what ``ask`` raises.
        """
        turn = self._at
        if turn is None or turn.exchange is None:
            raise RuntimeError("there is no question to fork")
        self._forget_removed()
        earlier = turn.exchange
        place = self._turns.index(turn)
        past = _exchanges(self._turns[self._begin(place) : place])
        conversation = Conversation(past)
        before = next(each for each in reversed(self.past) if each.exchange is earlier)
        self.is_running = True
        run: Run | None = None
        try:
            run = ask(conversation)
        except (ArchytasError, RunInterrupted) as error:
            run = getattr(error, "run", None)
            raise
        finally:
            self.is_running = False
            made = next(iter(conversation.exchanges[len(past) :]), None)
            turn.exchange = made or earlier
            if run is not None and made is not None:
                fork = fork or Fork(turn, [before])
                self._remember(run, turn, cell, is_kept=True)
                fork.add(self.past[-1])
                self._put_branch(before, self.past[-1])
                self.fork = fork
        return run

    def put_branch(self, number: int) -> None:
        """Have a branch of the forked question be in the conversation; its number is from 1."""
        fork = self.fork
        if fork is None:
            raise RuntimeError("no question was forked")
        before = fork.current
        fork.at = number - 1
        fork.turn.exchange = fork.current.exchange
        self._put_branch(before, fork.current)

    def _put_branch(self, left: AskedRun, right: AskedRun) -> None:
        """Have a branch be the one that is undone, shown and written as code."""
        for runs in (self.asked, self.runs):
            others = [each for each in runs if each is not left and each is not right]
            runs[:] = [*others, right]
        self.last = right.run

    def _past(self, origin: str, *, new: bool) -> tuple[list[Exchange], Exchange | None]:
        """The exchanges before a question, and the one that it replaces."""
        turn = self._find(origin)
        if turn is None and new:
            return [], None
        if turn is None:
            return self.exchanges, None
        if new or turn.begins == "reset":
            return [], turn.exchange
        place = self._turns.index(turn)
        return _exchanges(self._turns[self._begin(place - 1) : place]), turn.exchange

    def _turn(self, origin: str, *, new: bool) -> Turn:
        """The place of a question: its cell's, or a new one at the end of the conversation."""
        turn = self._find(origin)
        if turn is not None:
            if new:
                turn.begins = "new"
            elif turn.begins == "new":
                turn.begins = ""
            return turn
        here = self._conversation(self._at)
        turn = Turn(origin)
        if new:
            turn.begins = "new"
        elif self._at is None and self._turns:
            turn.begins = "reset"
        if turn.begins:
            self.asked.clear()
            self.last = None
            if not any(each.origin for each in here):  # no cell goes back to them
                self._turns = [each for each in self._turns if each not in here]
        if here and not turn.begins:
            self._turns.insert(self._turns.index(here[-1]) + 1, turn)
        else:
            self._turns.append(turn)
        return turn

    def _find(self, origin: str) -> Turn | None:
        """The place of a cell's question, where it was asked before."""
        if not origin:
            return None
        return next((each for each in self._turns if each.origin == origin), None)

    def _conversation(self, turn: Turn | None) -> list[Turn]:
        """The conversation that a question belongs to; none where there is no question."""
        if turn is None:
            return []
        place = self._turns.index(turn)
        ends = (n for n in range(place + 1, len(self._turns)) if self._turns[n].begins)
        return self._turns[self._begin(place) : next(ends, None)]

    def _begin(self, place: int) -> int:
        """The place where the conversation of the question at this place begins."""
        return next((n for n in range(place, 0, -1) if self._turns[n].begins), 0)

    def add_map(self, planned: PlannedRows) -> None:
        """Keep a map that was planned, of which there is code; it is not part of a conversation."""
        self.planned = planned

    def add_call(self, run: Run, after: int) -> None:
        """Keep the run of a call by another program, so that its changes can be undone.

        It is not part of a conversation.

        Args:
            run: The run.
            after: The number of the last cell that was run before it.
        """
        if run.watch is not None or _can_be_undone(run):
            self._forget_removed()
            self._count += 1
            self.last = run
            made = AskedRun(self._count, after, run, is_call=True)
            self.asked.append(made)
            self.past.append(made)
            self._discard_old()

    def _remember(self, run: Run, turn: Turn, cell: Cell, *, is_kept: bool) -> None:
        """Note what a run cost, and keep it, so that it can be undone."""
        from archytas_nb.loop.events import ModelReply

        usage = run.usage
        seconds = sum(event.seconds for event in run.events if isinstance(event, ModelReply))
        self._paid.append(Paid(usage, seconds, run.cost))
        turn.paid.append(self._paid[-1])
        _log.info(
            "a run with %s (%s) was %s after %.1f s: %d requests, %d tokens in, %d out",
            run.model,
            run.protocol,
            run.status,
            run.seconds,
            usage.requests,
            usage.input_tokens,
            usage.output_tokens,
        )
        self._count += 1
        self.last = run
        self.planned = None
        exchange = turn.exchange if is_kept else None
        in_cell = (each.part for each in self.past if each.cell == cell.number and not each.is_call)
        part = max(in_cell, default=0) + 1
        made = AskedRun(self._count, cell.number, run, exchange, turn.origin, part)
        self.past.append(made)
        self.runs = [each for each in self.runs if not turn.origin or each.origin != turn.origin]
        self.runs.append(made)
        there = set(map(id, self.exchanges))  # others were replaced by this one
        self.asked = [
            each for each in self.asked if id(each.exchange) in there or _can_be_undone(each.run)
        ]
        if is_kept or _can_be_undone(run):
            self.asked.append(made)
        self._discard_old()

    def _discard_old(self) -> None:
        """Give up the undo of runs that are too old or too large."""
        watches = [each.run.watch for each in reversed(self.asked) if each.run.watch is not None]
        size = 0
        for count, watch in enumerate(watches, 1):
            size += watch.bytes
            if count > RUNS or (size > BYTES and count > 1):
                watch.discard()


def _can_be_undone(run: Run) -> bool:
    """Whether a run changed variables or files, so that undo has something to do."""
    return bool(run.diff) or any(each.before is not None for each in run.effects)


def _continued(past: Sequence[Exchange], before: Turn | None, turn: Turn) -> str:
    """The conversation that a question continues, in words; empty for the question before it."""
    if turn.begins == "reset":
        return "new conversation"
    if not past or (before is not None and past[-1] is before.exchange):
        return ""
    return f"after: {past[-1].question}"


def _exchanges(turns: Sequence[Turn]) -> list[Exchange]:
    return [each.exchange for each in turns if each.exchange is not None]
