"""``%agent_cassette``: the file that a notebook's replies are recorded in and replayed from."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from archytas_nb.errors import ArchytasError
from archytas_nb.magics.brief import brief
from archytas_nb.magics.line import help_text
from archytas_nb.magics.settings import CASSETTE_MODES

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette


@dataclass(frozen=True, slots=True)
class CassetteState:
    """What a cassette is used for, and what became of it so far.

    Attributes:
        path: The file as it was named; empty where no cassette is in use.
        mode: What it is used for.
        exchanges: How many there are.
        replayed: How many were given out.
        recorded: How many were added.
        missed: How many requests were not found.
        unused: How many nobody has asked for yet.
    """

    path: str = ""
    mode: str = "off"
    exchanges: int = 0
    replayed: int = 0
    recorded: int = 0
    missed: int = 0
    unused: int = 0

    def __repr__(self) -> str:
        if not self.path:
            return "no cassette is in use"
        counts = {"replayed": self.replayed, "recorded": self.recorded, "missed": self.missed}
        said = [f"{count} {what}" for what, count in counts.items() if count]
        said += [f"{self.unused} unused"] if self.unused else []
        return f"{self.path} ({self.mode}): {self.exchanges} exchanges{''.join(f', {each}' for each in said)}"


@magics_class
class CassetteMagics(Magics):
    """Recording and replaying."""

    shell: Any

    @no_var_expand
    @magic_arguments()
    @argument("path", nargs="?", help="The file; {name} in it stands for a variable's value.")
    @argument(
        "--mode",
        choices=CASSETTE_MODES,
        help="auto: replay what is recorded, record what is missing.",
    )
    @argument("--volatile", help="What may differ from run to run: names such as date,path.")
    @argument(
        "--prune",
        action="store_true",
        help="Drop the exchanges that were not asked for in this kernel.",
    )
    @argument("-h", "--help", action="store_true", help="Show this.")
    @line_magic
    def agent_cassette(self, line: str) -> CassetteState | None:
        """Use a cassette from its beginning; without a path, show what became of the one in use.

        ``%agent_cassette PATH`` replays the replies that PATH holds and records those that are missing. In a test
        run (``pytest --agent-replay``) the same notebook only replays.
        """
        __tracebackhide__ = True
        parser = self.agent_cassette.parser
        try:
            args = parser.parse_args(shlex.split(line))
        except ValueError as error:
            raise UsageError(f"%agent_cassette {line}: {error}") from None
        if args.help:
            print(help_text(parser))  # noqa: T201 - what was asked for
            return None
        try:
            return self._done(args)
        except ArchytasError as error:
            raise brief(error) from None

    def _done(self, args: Any) -> CassetteState | None:
        from archytas_nb.cassettes.recorded import cassette_in_use, insert_cassette
        from archytas_nb.magics.expand import expand

        if args.path:
            path = expand(args.path, self.shell.user_ns).text
            insert_cassette(path, args.mode, [args.volatile] if args.volatile else ())
        elif args.mode == "off":
            insert_cassette("", "off")
        elif args.mode or args.volatile:
            raise UsageError("name the cassette: %agent_cassette PATH --mode MODE")
        if args.prune:
            return self._pruned()
        return None if args.path or args.mode else state(cassette_in_use())

    def _pruned(self) -> CassetteState:
        from archytas_nb.cassettes.recorded import cassette_in_use

        cassette = cassette_in_use()
        if cassette is None:
            raise UsageError("no cassette is in use; name one: %agent_cassette PATH")
        cassette.prune()
        return state(cassette)


def state(cassette: Cassette | None) -> CassetteState:
    """What became of a cassette so far."""
    if cassette is None:
        return CassetteState()
    tally = cassette.tally
    return CassetteState(
        str(cassette.path),
        cassette.mode,
        cassette.count,
        tally.replayed,
        tally.recorded,
        len(tally.missed),
        cassette.unused,
    )
