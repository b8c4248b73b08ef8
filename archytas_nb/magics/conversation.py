"""The conversations of a notebook, and the magics about them.

A conversation is what stands above: a cell that is run again goes back to its own place in its own
conversation and continues what came before it there, whatever was asked elsewhere meanwhile.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from archytas_nb.errors import ArchytasError, RunInterrupted
from archytas_nb.kernel import running_cell
from archytas_nb.magics.line import HELP, arguments, brief
from archytas_nb.magics.settings import Settings
from archytas_nb.magics.thread import Paid, Thread

if TYPE_CHECKING:
    from archytas_nb.agent import Agent
    from archytas_nb.cassettes.cassette import Cassette
    from archytas_nb.loop.history import Exchange
    from archytas_nb.run import Run

CELL = "padding:.2em .8em;vertical-align:top"
# MathJax takes "$5 and $10" for a formula, and TeX can make links: the classes keep it away.
PLAIN: dict[str, str | bool] = {"class": "tex2jax_ignore mathjax_ignore"}

RUNS, BYTES = 20, 1 << 30  # how many runs can be undone, and how much their copies may take

_NOTHING = "no questions have been asked in this conversation"
_UNWATCHED = (
    "what the last question changed was not watched: use --python undoable, or set "
    "%config ArchytasNB.undo = True"
)
_UNNAMED = " "
"""Begins the name of a question that no cell can ask again."""
_log = logging.getLogger("archytas_nb")


class Asked(NamedTuple):
    """A question that was asked, in the order of time."""

    number: int
    execution: int  # the number of the cell that asked
    run: Run
    exchange: Exchange | None  # None where it came to nothing and was not kept


class Message(NamedTuple):
    """One sentence about what was done."""

    text: str

    def __repr__(self) -> str:
        return self.text


@magics_class
class Conversation(Magics):
    """The conversations of this notebook.

    They outlive every question; each question gets an `Agent` of its own with the settings of that
    moment, so that nothing of one question's options reaches the next.
    """

    shell: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.thread = Thread()  # that of the last question
        self._threads = [self.thread]
        self._at = ""  # the name of the last question
        self._numbers = itertools.count(1)
        self.asked: list[Asked] = []  # in the order of time
        self._count = 0  # the questions so far
        self._last: Run | None = None
        self._running = False
        self._asked = ("", 0)  # the last execution of a cell that asked, and how often it did

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges of the conversation in which something was asked last."""
        return self.thread.exchanges

    @no_var_expand
    @magic_arguments()
    @HELP
    @line_magic
    def agent_history(self, line: str) -> Any:
        """Show the questions and answers of this conversation."""
        return arguments(self.agent_history.parser, line) and history(self.exchanges)

    @no_var_expand
    @magic_arguments()
    @HELP
    @line_magic
    def agent_undo(self, line: str) -> Any:
        """Remove the last question and its answer, and undo its changes of variables.

        Changes are undone if they were watched: if the option or setting python is ask or undoable,
        or the setting undo is on. What could not be restored is listed.
        """
        return arguments(self.agent_undo.parser, line) and self._undo()

    @no_var_expand
    @magic_arguments()
    @HELP
    @line_magic
    def agent_diff(self, line: str) -> Any:
        """Show what the last question changed in the variables."""
        from archytas_nb.magics.changes import HEAD, rows

        if not arguments(self.agent_diff.parser, line):
            return None
        if self._last is None:
            return Message(_NOTHING)
        if self._last.watch is None:
            return Message(_UNWATCHED)
        return Table(HEAD, rows(self._last.diff), "the last question changed no variable")

    @no_var_expand
    @magic_arguments()
    @argument("name", help="A variable.")
    @HELP
    @line_magic
    def agent_why(self, line: str) -> Any:
        """Say which questions, and which cells before them, made or changed a variable."""
        from archytas_nb.magics.changes import why

        args = arguments(self.agent_why.parser, line)
        if not args:
            return None
        known = why(args.name, self.asked, self._inputs, self.shell)
        return Message(known or f"nothing is known of how {args.name!r} was changed")

    @no_var_expand
    @magic_arguments()
    @HELP
    @line_magic
    def agent_reset(self, line: str) -> Any:
        """Delete the conversation and start a new one."""
        if not arguments(self.agent_reset.parser, line):
            return None
        number = len(self.exchanges)
        self.reset()
        return Message(f"removed: {number} question{'' if number == 1 else 's'}")

    @no_var_expand
    @magic_arguments()
    @HELP
    @line_magic
    def agent_cost(self, line: str) -> Any:
        """Show what the last question and the conversation cost.

        Requests, tokens, model seconds and, if prices are known, USD. Questions that were undone or
        replaced are included.
        """
        return arguments(self.agent_cost.parser, line) and cost(self.thread.paid)

    @no_var_expand
    @magic_arguments()
    @argument("path", nargs="?", help="The file; {name} is replaced with the value of a variable.")
    @argument(
        "--mode",
        choices=Settings.cassette_mode.values,
        help="auto: replay what is recorded, record what is missing.",
    )
    @argument("--volatile", help="What may differ between runs, such as date,path.")
    @argument(
        "--prune",
        action="store_true",
        help="Remove the exchanges that this kernel has not used.",
    )
    @HELP
    @line_magic
    def agent_cassette(self, line: str) -> Message | None:
        """Use a cassette, from its beginning; without a path, show the state of the current one.

        ``%agent_cassette PATH`` replays the replies in PATH and records those that are missing. In
        a test run (``pytest --agent-replay``), the notebook only replays.
        """
        __tracebackhide__ = True
        args = arguments(self.agent_cassette.parser, line)
        try:
            return args and self._use(args)
        except ArchytasError as error:
            raise brief(error) from None

    def _use(self, args: Any) -> Message | None:
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
            cassette.prune()
        elif args.path or args.mode:
            return None
        return _state(cassette)

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    def reset(self) -> None:
        """Forget the conversation and start a new one."""
        self.thread.turns = dict.fromkeys(self.thread.turns)
        self._begin("reset")

    def exchanges_for(self, origin: str, *, new: bool) -> list[Exchange]:
        """What a question continues, and the exchange that it replaces if any."""
        past, earlier = self._past(origin, new=new)
        return past if earlier is None else [*past, earlier]

    @property
    def _inputs(self) -> list[str]:
        """The cells that were run, by their number."""
        inputs: list[str] = self.shell.history_manager.input_hist_parsed
        return inputs

    def _undo(self) -> Message:
        from archytas_nb.magics.changes import undone

        if self._running:
            raise UsageError("a question is being answered; it can be undone when that has ended")
        last = self.asked.pop() if self.asked else None
        self._last = self.asked[-1].run if self.asked else None
        if last is None:
            return Message(f"nothing to undo: {_NOTHING}")
        for name, exchange in self.thread.turns.items():
            if exchange is last.exchange:  # its cell still finds its place
                self.thread.turns[name] = None
        changes = undone(last)
        return Message(f"removed: {last.run.question}" + (f"\n{changes}" if changes else ""))

    def origin(self) -> str:
        """The identity of this cell's next question; empty where no cell is named.

        A notebook's front end names the cell in the request, and a cell that is run again replaces
        its question. In a terminal or with nbclient each question is added.
        """
        cell, execution = running_cell(self.shell)
        last, number = self._asked
        return f"{cell}#{number + 1 if execution == last else 1}" if cell else ""

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
        last = self.thread.turns.get(self._at)
        self._at = origin or f"{_UNNAMED}{next(self._numbers)}"
        self._go_to(self._at, new=new)
        continues = f"after: {past[-1].question}" if past and past[-1] is not last else ""
        if self.thread.begins == "reset" and self.thread.is_first(self._at):
            continues = "new conversation"
        self._running = True
        run: Run | None = None
        try:
            run = ask(continues)
        except (ArchytasError, RunInterrupted) as error:
            run = getattr(error, "run", None)
            raise
        finally:
            self._running = False
            for exchange in agent.exchanges[len(past) :]:
                self.thread.turns[self._at] = exchange
            if run is not None:
                self._remember(
                    run, [each for each in agent.exchanges[len(past) :] if each is not earlier]
                )
                self._note(run)
        return run

    def _remember(self, run: Run, kept: Sequence[Exchange]) -> None:
        """Keep a run, so that it can be undone."""
        self._count += 1
        self._last = run
        there = set(map(id, self.exchanges))  # others were replaced by this one
        self.asked = [each for each in self.asked if each.run.diff or id(each.exchange) in there]
        if kept or run.diff:
            exchange = kept[0] if kept else None
            self.asked.append(Asked(self._count, len(self._inputs) - 1, run, exchange))
        if run.watch is not None:
            _let_go(self.asked)

    def _past(self, origin: str, *, new: bool) -> tuple[list[Exchange], Exchange | None]:
        """The exchanges before a question, and the one that it replaces."""
        own = self._own(origin)
        if own is None:
            return ([] if new else self.thread.exchanges), None
        if new:
            return [], own.turns[origin]
        number = self._threads.index(own)
        if own.begins == "new" and own.is_first(origin) and number:  # its --new was taken away
            return self._threads[number - 1].exchanges, own.turns[origin]
        return own.before(origin), own.turns[origin]

    def _own(self, origin: str) -> Thread | None:
        """The conversation in which a question of this origin was asked before."""
        return next((each for each in self._threads if origin in each.turns), None)

    def _go_to(self, name: str, *, new: bool) -> None:
        """Make a question's conversation the current one, and give the question its place.

        A cell that has got ``--new`` takes what follows it into another conversation, and one that
        has lost it brings it back.
        """
        own = self._own(name)
        if own is None:
            if new:
                self._begin("new")
            self.thread.turns[name] = None
            return
        number = self._threads.index(own)
        self.thread = own
        if new and own.is_first(name):
            own.begins = "new"
        elif new:
            names = list(own.turns)
            moved = names[names.index(name) :]
            self.thread = Thread("new", {each: own.turns.pop(each) for each in moved})
            self._threads.insert(number + 1, self.thread)
        elif own.begins == "new" and own.is_first(name) and number:
            self.thread = self._threads[number - 1]
            self.thread.turns |= own.turns
            self.thread.paid += own.paid
            self._threads.remove(own)
        self._tidy()

    def _begin(self, begins: Literal["new", "reset"]) -> None:
        self.asked.clear()
        self._last = None
        self.thread = Thread(begins)
        self._threads.append(self.thread)
        self._tidy()

    def _tidy(self) -> None:
        """Drop the conversations to which no cell can go back."""

        def is_kept(thread: Thread) -> bool:
            named = any(not name.startswith(_UNNAMED) for name in thread.turns)
            return named or thread is self.thread

        self._threads = [each for each in self._threads if is_kept(each)]

    def _note(self, run: Run) -> None:
        from archytas_nb.loop.events import ModelReply

        usage = run.usage
        seconds = sum(event.seconds for event in run.events if isinstance(event, ModelReply))
        self.thread.paid.append(Paid(usage, seconds, run.cost))
        _log.info(
            "a run with %s (%s) was %s after %.1f s: %d requests, %d tokens in, %d out",
            *(run.model, run.protocol, run.status, run.seconds),
            *(usage.requests, usage.input_tokens, usage.output_tokens),
        )


def _let_go(asked: Sequence[Asked]) -> None:
    """Free what undoes older runs, so that what is kept stays within its bounds."""
    watches = [each.run.watch for each in reversed(asked) if each.run.watch is not None]
    size = 0
    for count, watch in enumerate(watches, 1):
        size += watch.bytes
        if count > RUNS or (size > BYTES and count > 1):
            watch.let_go()


# ── what the magics show ──────────────────────────────────────────────────────────────────────────


class Table(NamedTuple):
    """Rows below a head, as text and as HTML; ``empty`` where there are none."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = _NOTHING

    def __repr__(self) -> str:
        from archytas_nb.trace.safe import Table as Cells
        from archytas_nb.trace.text import grid_lines

        if not self.rows:
            return self.empty
        cells = Cells(self.head, self.rows)
        return "\n".join(grid_lines(cells, len(self.rows), width=10_000, cell=1_000))

    def _repr_html_(self) -> str:
        from archytas_nb.trace import safe

        if not self.rows:
            return str(safe.element("p", safe.text(self.empty)))
        drawn = safe.table(safe.Table(self.head, self.rows), style="", cell=CELL, head="")
        return str(safe.element("div", drawn, **PLAIN))


def history(exchanges: Sequence[Exchange]) -> Table:
    """The exchanges of a conversation, in order."""
    from archytas_nb.trace.safe import one_line
    from archytas_nb.trace.view import ending_text, ending_title

    rows = []
    for number, exchange in enumerate(exchanges, start=1):
        called = ", ".join(call.name for step in exchange.steps for call in step.calls)
        ending = ": ".join(
            filter(None, (ending_title(exchange.ending), ending_text(exchange.ending)))
        )
        shown = one_line(exchange.question, 60), one_line(called, 60), one_line(ending, 80)
        rows.append((str(number), *shown))
    return Table(("", "question", "tools called", "answer"), tuple(rows))


def cost(paid: Sequence[Paid]) -> Table:
    """What the last question and the conversation cost; ``+`` marks an incomplete sum."""
    head = ("", "questions", "requests", "tokens in", "cached", "tokens out")
    rows = [("last question", paid[-1:]), ("conversation", paid)] if paid else []
    return Table((*head, "model seconds", "USD"), tuple(_cost_row(*row) for row in rows))


def _cost_row(label: str, paid: Sequence[Paid]) -> tuple[str, ...]:
    asked = [each for each in paid if each.usage.requests]
    usages = [each.usage for each in asked]
    counted = [each for each in usages if each.input_tokens or each.output_tokens]
    known = [each.usd for each in asked if each.usd is not None]

    def summed(values: Sequence[float], form: str) -> str:
        if not values and asked:
            return "unknown"
        return f"{sum(values):{form}}{'+' if len(values) < len(asked) else ''}"

    return (
        *(label, str(len(paid)), f"{sum(each.requests for each in usages):,}"),
        summed([each.input_tokens for each in counted], ","),
        summed([each.cached_tokens for each in counted], ","),
        summed([each.output_tokens for each in counted], ","),
        *(f"{sum(each.seconds for each in paid):.1f}", summed(known, ".4f")),
    )


def _state(cassette: Cassette | None) -> Message:
    """The cassette in use, and its exchanges so far: replayed, recorded, missed and unused."""
    if cassette is None:
        return Message("no cassette is in use")
    tally = cassette.tally
    counts = (tally.replayed, tally.recorded, len(tally.missed), cassette.unused)
    named = zip(counts, ("replayed", "recorded", "missed", "unused"), strict=True)
    parts = [f"{cassette.count} exchanges", *(f"{n} {what}" for n, what in named if n)]
    return Message(f"{cassette.path} ({cassette.mode}): {', '.join(parts)}")
