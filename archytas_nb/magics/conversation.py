"""The conversations of a notebook, and the magics about them.

The questions stand in one list, in the order of their cells; a question with ``--new``, or the
first one after a reset, begins a conversation, which the questions below it continue. A cell that
is run again finds its own place there, whatever was asked elsewhere meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from IPython.core.error import UsageError
from IPython.core.magic import Magics, magics_class
from IPython.core.magic_arguments import argument

from archytas_nb.errors import ArchytasError, RunInterrupted
from archytas_nb.kernel import running_cell
from archytas_nb.magics.line import line_magic_with
from archytas_nb.magics.settings import Settings
from archytas_nb.magics.shown import (
    Paid,
    cassette_state,
    changes,
    cost,
    history,
    never_used,
    undone,
    why,
)
from archytas_nb.magics.tables import NOTHING, Message

if TYPE_CHECKING:
    from archytas_nb.agent import Agent
    from archytas_nb.cassettes.cassette import Cassette
    from archytas_nb.loop.record import Exchange
    from archytas_nb.run import Run

RUNS, BYTES = 20, 1 << 30  # how many runs can be undone, and how much their copies may take

_UNWATCHED = (
    "what the last question changed was not watched: use --python undoable, or set "
    "%config ArchytasNB.undo = True"
)
_log = logging.getLogger("archytas_nb")


@dataclass(eq=False)
class Turn:
    """The place of a question.

    Attributes:
        origin: What asks; empty where no cell can ask it again.
        begins: Whether a conversation begins with it, and what began it.
        exchange: None where the question came to nothing, or was forgotten.
        paid: What it cost, each time it was asked.
    """

    origin: str
    begins: Literal["", "new", "reset"] = ""
    exchange: Exchange | None = None
    paid: list[Paid] = field(default_factory=list)


class Asked(NamedTuple):
    """A question that was asked, in the order of time."""

    number: int
    execution: int  # the number of the cell that asked
    run: Run
    exchange: Exchange | None  # None where it came to nothing and was not kept


@magics_class
class Conversation(Magics):
    """The conversations of this notebook.

    They outlive every question; each question gets an `Agent` of its own with the settings of that
    moment, so that nothing of one question's options reaches the next.
    """

    shell: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._turns: list[Turn] = []
        self._at: Turn | None = None  # the last question; None after a reset
        self.asked: list[Asked] = []  # in the order of time
        self._count = 0  # the questions so far
        self._last: Run | None = None
        self._running = False
        self._asked = ("", 0)  # the last execution of a cell that asked, and how often it did

    @line_magic_with()
    def agent_history(self, _: Any) -> Any:
        """Show the questions and answers of this conversation."""
        return history(self.exchanges)

    @line_magic_with()
    def agent_undo(self, _: Any) -> Any:
        """Remove the last question and its answer, and undo its changes of variables.

        Changes are undone if they were watched: if the option or setting python is ask or undoable,
        or the setting undo is on. What could not be restored is listed.
        """
        if self._running:
            raise UsageError("a question is being answered; it can be undone when that has ended")
        last = self.asked.pop() if self.asked else None
        self._last = self.asked[-1].run if self.asked else None
        if last is None:
            return Message(f"nothing to undo: {NOTHING}")
        for turn in self._turns:
            if turn.exchange is last.exchange:  # its cell still finds its place
                turn.exchange = None
        back = undone(last)
        return Message(f"removed: {last.run.question}" + (f"\n{back}" if back else ""))

    @line_magic_with()
    def agent_diff(self, _: Any) -> Any:
        """Show what the last question changed in the variables."""
        if self._last is None or self._last.watch is None:
            return Message(NOTHING if self._last is None else _UNWATCHED)
        return changes(self._last.diff)

    @line_magic_with(argument("name", help="A variable."))
    def agent_why(self, args: Any) -> Any:
        """Say which questions, and which cells before them, made or changed a variable."""
        from archytas_nb.tools.variables import user_names
        from archytas_nb.words import did_you_mean

        known = why(args.name, self.asked, self._inputs, self.shell)
        if not known and args.name not in self.shell.user_ns:
            guess = did_you_mean(args.name, user_names(self.shell.user_ns))
            raise UsageError(f"no variable is named {args.name!r}{guess}")
        return Message(known or f"there is no record of what changed {args.name!r}")

    @line_magic_with()
    def agent_reset(self, _: Any) -> Any:
        """Delete the conversation and start a new one."""
        number = len(self.exchanges)
        self.reset()
        return Message(f"removed: {number} question{'' if number == 1 else 's'}")

    @line_magic_with()
    def agent_cost(self, _: Any) -> Any:
        """Show what the last question and the conversation cost.

        Requests, tokens, model seconds and, if prices are known, USD. Questions that were undone or
        replaced are included.
        """
        last = [] if self._at is None else self._at.paid[-1:]
        return cost(last, [paid for turn in self._conversation(self._at) for paid in turn.paid])

    @line_magic_with(
        argument(
            "path", nargs="?", help="The file; {name} is replaced with the value of a variable."
        ),
        argument(
            "--mode",
            type=Settings.cassette_mode.read,
            choices=Settings.cassette_mode.values,
            help="auto: replay what is recorded, record what is missing.",
        ),
        argument("--volatile", help="What may differ between runs, such as date,path."),
        argument(
            "--prune",
            action="store_true",
            help="Remove the exchanges that this kernel has not used; you are asked first.",
        ),
    )
    def agent_cassette(self, args: Any) -> Any:
        """Use a cassette, from its beginning; without a path, show the state of the current one.

        ``%agent_cassette PATH`` replays the replies in PATH and records those that are missing. In
        a test run (``pytest --agent-replay``), the notebook only replays.
        """
        from archytas_nb.cassettes.switch import cassette_in_use, insert_cassette
        from archytas_nb.magics.expand import expand

        if args.path:
            path = expand(args.path, self.shell.user_ns).text
            insert_cassette(path, args.mode, [args.volatile] if args.volatile else ())
        elif args.mode == "off":
            insert_cassette("", "off")
        elif args.mode or args.volatile:
            raise UsageError("specify the cassette: %agent_cassette PATH --mode MODE")
        cassette = cassette_in_use()
        if args.prune:
            if cassette is None:
                raise UsageError("no cassette is in use; set one with %agent_cassette PATH")
            if not _may_prune(cassette):
                return Message("nothing was removed")
            cassette.prune()
        elif args.path or args.mode:
            return None
        return cassette_state(cassette)

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges of the conversation in which something was asked last."""
        return _exchanges(self._conversation(self._at))

    def reset(self) -> None:
        """Forget the conversation and start a new one."""
        for turn in self._conversation(self._at):
            turn.exchange = None
        self._at, self._last = None, None
        self.asked.clear()

    def origin(self) -> str:
        """The identity of this cell's next question; empty where no cell is named.

        A notebook's front end names the cell in the request, and a cell that is run again replaces
        its question. In a terminal or with nbclient each question is added.
        """
        cell, execution = running_cell(self.shell)
        last, number = self._asked
        return f"{cell}#{number + 1 if execution == last else 1}" if cell else ""

    def exchanges_for(self, origin: str, *, new: bool) -> list[Exchange]:
        """What a question continues, and the exchange that it replaces if any."""
        past, earlier = self._past(origin, new=new)
        return past if earlier is None else [*past, earlier]

    def ask(self, agent: Agent, ask: Callable[[str], Run], origin: str, *, new: bool) -> Run:
        """Have an agent that was made for this question continue the conversation.

        ``ask`` is called with what the question continues, where that is not obvious.

        Raises UsageError where a question of it is being answered, and what `Agent.run` raises;
        what the run cost is noted all the same.
        """
        if self._running:
            raise UsageError(
                "this conversation is already answering a question; a tool cannot ask another"
            )
        _, execution = running_cell(self.shell)
        self._asked = execution, self._asked[1] * (execution == self._asked[0]) + 1
        past, earlier = self._past(origin, new=new)
        agent.exchanges = self.exchanges_for(origin, new=new)
        last = None if self._at is None else self._at.exchange
        turn = self._at = self._turn(origin, new=new)
        continues = f"after: {past[-1].question}" if past and past[-1] is not last else ""
        continues = "new conversation" if turn.begins == "reset" else continues
        self._running = True
        run: Run | None = None
        try:
            run = ask(continues)
        except (ArchytasError, RunInterrupted) as error:
            run = getattr(error, "run", None)
            raise
        finally:
            self._running = False
            kept = agent.exchanges[len(past) :]
            turn.exchange = kept[0] if kept else None
            if run is not None:
                self._remember(run, turn, is_kept=bool(kept) and kept[0] is not earlier)
        return run

    def _past(self, origin: str, *, new: bool) -> tuple[list[Exchange], Exchange | None]:
        """The exchanges before a question, and the one that it replaces."""
        turn = self._find(origin)
        if turn is None:
            return [] if new else self.exchanges, None
        if new or turn.begins == "reset":
            return [], turn.exchange
        place = self._turns.index(turn)
        return _exchanges(self._turns[self._begin(place - 1) : place]), turn.exchange

    def _turn(self, origin: str, *, new: bool) -> Turn:
        """The place of a question: its cell's, or a new one at the end of the conversation."""
        turn = self._find(origin)
        if turn is not None:
            if new or turn.begins == "new":
                turn.begins = "new" if new else ""
            return turn
        here = self._conversation(self._at)
        is_reset = self._at is None and bool(self._turns)
        turn = Turn(origin, "new" if new else "reset" if is_reset else "")
        if turn.begins:
            self.asked.clear()
            self._last = None
            if not any(each.origin for each in here):  # no cell goes back to them
                self._turns = [each for each in self._turns if each not in here]
        self._turns.insert(
            self._turns.index(here[-1]) + 1 if here and not turn.begins else len(self._turns), turn
        )
        return turn

    def _find(self, origin: str) -> Turn | None:
        """The place of a cell's question, where it was asked before."""
        return next((each for each in self._turns if origin and each.origin == origin), None)

    def _conversation(self, turn: Turn | None) -> list[Turn]:
        """The conversation that a question belongs to; none where there is no question."""
        if turn is None:
            return []
        place = self._turns.index(turn)
        ends = (n for n in range(place + 1, len(self._turns)) if self._turns[n].begins)
        return self._turns[self._begin(place) : next(ends, None)]

    def _begin(self, place: int) -> int:
        """Where the conversation of the question at this place begins."""
        return next((n for n in range(place, 0, -1) if self._turns[n].begins), 0)

    @property
    def _inputs(self) -> list[str]:
        """The cells that were run, by their number."""
        inputs: list[str] = self.shell.history_manager.input_hist_parsed
        return inputs

    def _remember(self, run: Run, turn: Turn, *, is_kept: bool) -> None:
        """Note what a run cost, and keep it, so that it can be undone."""
        from archytas_nb.loop.events import ModelReply

        usage = run.usage
        seconds = sum(event.seconds for event in run.events if isinstance(event, ModelReply))
        turn.paid.append(Paid(usage, seconds, run.cost))
        _log.info(
            "a run with %s (%s) was %s after %.1f s: %d requests, %d tokens in, %d out",
            *(run.model, run.protocol, run.status, run.seconds),
            *(usage.requests, usage.input_tokens, usage.output_tokens),
        )
        self._count += 1
        self._last = run
        there = set(map(id, self.exchanges))  # others were replaced by this one
        self.asked = [each for each in self.asked if id(each.exchange) in there or each.run.diff]
        if is_kept or run.diff:
            exchange = turn.exchange if is_kept else None
            self.asked.append(Asked(self._count, len(self._inputs) - 1, run, exchange))
        watches = [each.run.watch for each in reversed(self.asked) if each.run.watch is not None]
        size = 0
        for count, watch in enumerate(watches, 1):  # older runs cannot be undone any more
            size += watch.bytes
            if count > RUNS or (size > BYTES and count > 1):
                watch.discard()


def _may_prune(cassette: Cassette) -> bool:
    """Say what would be removed from a cassette, and ask whether it may be; yes if nobody can."""
    from archytas_nb.cassettes.switch import note_uses
    from archytas_nb.kernel.person import Keyboard, confirm

    note_uses(cassette)
    found = never_used(cassette)
    if not found or cassette.mode == "replay":  # for which there is an error
        return True
    if Keyboard().there:
        return confirm(f"{found}\nRemove from the cassette? [y/n] ") is True
    print(f"removed from the cassette:\n{found}")  # noqa: T201 - for the person who reads it later
    return True


def _exchanges(turns: Sequence[Turn]) -> list[Exchange]:
    return [each.exchange for each in turns if each.exchange is not None]
