"""Parses the command line, and runs its short commands: enable, disable and clean."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from archytas_nb._version import __version__
from archytas_nb.errors import ArchytasError, ConfigurationError

STARTUP_FILE = "50-archytas_nb.py"
STARTUP_TEXT = """\
# Written by `python -m archytas_nb enable`; `python -m archytas_nb disable` removes it.
try:
    get_ipython().run_line_magic("load_ext", "archytas_nb")
except ModuleNotFoundError:  # another environment, without the package, uses the same profile
    pass
"""
COMMANDS = {
    "enable": "load the extension whenever IPython or a Python kernel starts",
    "disable": "undo enable",
    "doctor": "report versions, configuration, and whether a model answers; prints no secret",
    "clean": "remove the embedded model's assembled weights and logs; what pip installed stays",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 1 where something must be done first."""
    parser = argparse.ArgumentParser(
        "python -m archytas_nb", description="Tools and an agent in your notebooks."
    )
    parser.add_argument("--version", action="version", version=f"archytas_nb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    added = {}
    for name, text in COMMANDS.items():
        added[name] = commands.add_parser(name, help=text, description=text)
        if name != "clean":
            added[name].add_argument(
                "--profile", default="default", help="the IPython profile (default: %(default)s)"
            )
    added["clean"].add_argument("--dry-run", action="store_true", help="only show what would go")
    group = added["doctor"].add_mutually_exclusive_group()
    group.add_argument("--offline", action="store_true", help="do not contact the endpoint")
    group.add_argument(
        "--try", action="store_true", dest="try_it",
        help="ask the model one short question, and report how long the reply took",
    )  # fmt: skip
    args = parser.parse_args(argv)
    try:
        text, succeeded = _run(args)
    except ArchytasError as error:
        text, succeeded = str(error), False
    print(text)  # noqa: T201 - the command's output
    return 0 if succeeded else 1


def _run(args: argparse.Namespace) -> tuple[str, bool]:
    if args.command == "doctor":
        from archytas_nb.command.doctor import report

        return report(args.profile, ask=not args.offline, try_it=args.try_it)
    if args.command == "clean":
        return clean(only_show=args.dry_run)
    return (enable if args.command == "enable" else disable)(args.profile), True


def startup_file(profile: str = "default") -> Path:
    """The path of the startup file of an IPython profile, whether it exists or not."""
    from IPython.paths import get_ipython_dir

    return Path(get_ipython_dir()) / f"profile_{profile}" / "startup" / STARTUP_FILE


def is_enabled(path: Path) -> bool:
    """Whether a startup file exists and is exactly what `enable` writes."""
    try:
        return path.read_text(encoding="utf-8") == STARTUP_TEXT
    except (OSError, UnicodeDecodeError):
        return False


def enable(profile: str = "default") -> str:
    """Write the startup file that loads the extension, and return a message for the user."""
    path = startup_file(profile)
    if is_enabled(path):
        return f"already enabled: {str(path)!r} loads the extension"
    _check_unchanged(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STARTUP_TEXT, encoding="utf-8")
    except OSError as error:
        message = f"cannot write {str(path)!r} ({error}). Make its folder writable."
        raise ConfigurationError(message) from None
    return (
        f"enabled: {str(path)!r} loads the extension in every kernel that starts from now on.\n"
        "Undo it with: python -m archytas_nb disable"
    )


def disable(profile: str = "default") -> str:
    """Remove the file that `enable` wrote, and return a message for the user."""
    path = startup_file(profile)
    if not path.exists():
        return f"not enabled: there is no {str(path)!r}"
    _check_unchanged(path)
    try:
        path.unlink()
    except OSError as error:
        message = f"cannot remove {str(path)!r} ({error}). Remove it by hand."
        raise ConfigurationError(message) from None
    return (
        f"disabled: {str(path)!r} is removed. Running kernels keep the extension until a restart."
    )


def _check_unchanged(path: Path) -> None:
    if path.exists() and not is_enabled(path):
        raise ConfigurationError(
            f"{str(path)!r} is not as `enable` writes it, so it is not touched. "
            "Look at it, and remove it by hand."
        )


def clean(*, only_show: bool = False) -> tuple[str, bool]:
    """Remove the embedded model's weights, logs and notes, or only report what would go."""
    from archytas_nb.models import choose, process, weights

    found = {
        "weights, assembled from the extra's pieces": weights.cache_dir().glob(
            f"{weights.EMBEDDED.name}*"
        ),
        "logs of the engine": process.log_dir().glob("local-*.log*"),
        "notes about the first run": process.run_dir().glob("*.tried.json"),
        "model servers that you allowed": filter(Path.exists, [choose.permissions_file()]),
    }
    lines, failed = [], []
    for kind, files in found.items():
        for file in sorted(files):
            line = f"{kind}: {str(file)!r}, {_size(file)}, "
            try:
                if not only_show:
                    file.unlink()
                lines.append(line + ("would be removed" if only_show else "removed"))
            except OSError as error:
                failed.append(f"{line}could not be removed ({error})")
    pieces = weights.pieces()
    if pieces:
        packages = " ".join(name for name, _ in weights.EMBEDDED.parts)
        lines.append(
            f"pieces of the weights extra: {str(pieces[0].parents[2])!r}, {_size(*pieces)}, stay: "
            "the next question assembles them again. To remove them, and the model with them:\n"
            f"  python -m pip uninstall -y {packages}"
        )
    lines += failed
    return "\n".join(lines) or "the embedded model has left no files on this machine", not failed


def _size(*files: Path) -> str:
    size = sum(file.stat().st_size for file in files)
    return f"{size / 1e9:.2f} GB" if size >= 10_000_000 else f"{size / 1e3:.0f} kB"
