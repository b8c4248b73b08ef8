"""The command line: parse, delegate, print. The only file of the package that prints by itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from archytas_nb._version import __version__
from archytas_nb.errors import ArchytasError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments; None takes those of the process.

    Returns:
        The exit status: 0 where all is well, 1 where something has to be done first.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        if args.command == "doctor":
            from archytas_nb.command.doctor import report

            text, well = report(args.profile, ask=not args.offline, try_it=args.try_it)
        elif args.command == "clean":
            from archytas_nb.command.clean import clean

            text, well = clean(only_show=args.dry_run)
        else:
            from archytas_nb.command import startup

            text, well = (
                (startup.enable if args.command == "enable" else startup.disable)(args.profile),
                True,
            )
    except ArchytasError as error:
        text, well = str(error), False
    print(text)  # noqa: T201 - what was asked for
    return 0 if well else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m archytas_nb", description="Tools and an agent in your notebooks."
    )
    parser.add_argument("--version", action="version", version=f"archytas_nb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    said = {
        "enable": "load the extension whenever IPython or a Python kernel starts, without %%load_ext",
        "disable": "undo enable",
        "doctor": "report versions, configuration, and whether a model answers; prints no secret",
        "clean": "remove the embedded model's assembled weights and logs; what pip installed stays",
    }
    for name, text in said.items():
        command = commands.add_parser(name, help=text, description=text.replace("%%", "%"))
        if name == "clean":
            command.add_argument("--dry-run", action="store_true", help="only show what lies where")
            continue
        command.add_argument(
            "--profile", default="default", help="the IPython profile (default: 'default')"
        )
        if name == "doctor":
            asking = command.add_mutually_exclusive_group()
            asking.add_argument(
                "--offline", action="store_true", help="do not ask the endpoint anything"
            )
            asking.add_argument(
                "--try",
                action="store_true",
                dest="try_it",
                help="ask the model one question with a bound answer, and report how long it took",
            )
    return parser
