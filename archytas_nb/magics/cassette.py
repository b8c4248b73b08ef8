"""``%agent_cassette``: the file that a notebook's replies are recorded in and replayed from."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from archytas_nb.errors import ArchytasError
from archytas_nb.magics.line import Message, brief, print_help
from archytas_nb.magics.settings import CASSETTE_MODES

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette


def state(cassette: Cassette | None) -> Message:
    """The cassette in use, and its exchanges so far: replayed, recorded, missed and unused."""
    if cassette is None:
        return Message("no cassette is in use")
    tally = cassette.tally
    counts = {
        "replayed": tally.replayed,
        "recorded": tally.recorded,
        "missed": len(tally.missed),
        "unused": cassette.unused,
    }
    parts = [f"{cassette.count} exchanges"]
    parts += [f"{count} {what}" for what, count in counts.items() if count]
    return Message(f"{cassette.path} ({cassette.mode}): {', '.join(parts)}")


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
        help="Remove the exchanges that were not asked for in this kernel.",
    )
    @argument("-h", "--help", action="store_true", help="Show this.")
    @line_magic
    def agent_cassette(self, line: str) -> Message | None:
        """Use a cassette from its beginning; without a path, show the state of the one in use.

        ``%agent_cassette PATH`` replays the replies in PATH and records those that are missing. In
        a test run (``pytest --agent-replay``) the same notebook only replays.
        """
        __tracebackhide__ = True
        parser = self.agent_cassette.parser
        try:
            args = parser.parse_args(shlex.split(line))
        except ValueError as error:
            raise UsageError(f"%agent_cassette {line}: {error}") from None
        if args.help:
            print_help(parser)
            return None
        try:
            return self._use(args)
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
            raise UsageError("name the cassette: %agent_cassette PATH --mode MODE")
        if args.prune:
            cassette = cassette_in_use()
            if cassette is None:
                raise UsageError("no cassette is in use; name one: %agent_cassette PATH")
            cassette.prune()
        elif args.path or args.mode:
            return None
        return state(cassette_in_use())
