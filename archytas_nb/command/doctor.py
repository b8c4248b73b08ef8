"""How things stand: versions, configuration, whether a model answers. It changes nothing and prints no secret.

The configuration is read as a kernel would read it, so the report holds for notebooks too.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

from archytas_nb._version import __version__
from archytas_nb.command.startup import is_enabled, startup_file
from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.loop.events import AskModel, Notice
from archytas_nb.models import weights
from archytas_nb.models.address import shown_url
from archytas_nb.models.discover import ModelSettings, choose_model
from archytas_nb.models.engine import Engine

PACKAGES = (
    "ipython",
    "ipykernel",
    "ipywidgets",
    "openai",
    "pydantic",
    "jupyterlab",
    "notebook",
    "nbval",
)
_HIDDEN = ("api_key", "request")
_HIDES = re.compile("KEY|_REQUEST$")
_SHOWN = 60
_TRIAL = AskModel(
    1,
    ({"role": "user", "content": "Is water wet? Answer yes or no."},),
    schema={
        "type": "object",
        "properties": {"answer": {"enum": ["yes", "no"]}},
        "required": ["answer"],
    },
    max_tokens=64,
    seconds=600.0,
)


def report(profile: str = "default", *, ask: bool = True, try_it: bool = False) -> tuple[str, bool]:
    """Look at everything that a first question needs.

    Args:
        profile: The IPython profile whose configuration counts.
        ask: Whether an endpoint may be asked for its models.
        try_it: Whether the model is asked one short question, which starts the embedded one; nothing else is ever
            sent.

    Returns:
        The report, one line for each thing, and whether a model is there to answer.
    """
    try:
        config, file = _configuration(profile)
        said_config = _shown(config, file)
    except ConfigurationError as error:
        config, said_config = {}, str(error)
    answers, well = _model(config, ask=ask, try_it=try_it)
    lines = {
        "archytas_nb": f"{__version__}, Python {platform.python_version()}, {platform.system()}",
        "packages": ", ".join(_version(name) for name in PACKAGES),
        "configuration": said_config,
        "environment": _environment(),
        "model": answers,
        "embedded": _embedded(config)[0],
        "kernelspec": _kernelspec(),
        "startup": _startup(profile),
    }
    width = max(map(len, lines))
    text = "\n".join(
        f"{name:<{width}}  {_indented(said, width + 2)}" for name, said in lines.items()
    )
    return text, well


def _indented(text: str, width: int) -> str:
    return text.replace("\n", "\n" + " " * width)


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} not installed"


def _configuration(profile: str) -> tuple[dict[str, Any], Path]:
    """What IPython's configuration of this profile says to us."""
    from IPython.paths import get_ipython_dir
    from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

    folder = Path(get_ipython_dir()) / f"profile_{profile}"
    found: dict[str, Any] = {}
    for name in ("ipython_config.py", "ipython_kernel_config.py"):
        try:
            loaded = PyFileConfigLoader(name, path=str(folder)).load_config()
        except ConfigFileNotFound:
            continue
        except Exception as error:  # noqa: BLE001 - it is somebody's program, and may fail in any way
            raise ConfigurationError(
                f"{str(folder / name)!r} fails with {error!r}. Mend it."
            ) from None
        found |= dict(loaded.get("ArchytasNB", {}))
    return found, folder


def _shown(config: dict[str, Any], folder: Path) -> str:
    if not config:
        return f"nothing for ArchytasNB in {str(folder)!r}"
    said = {
        name: "(set, not shown)" if name in _HIDDEN else _safe(value)
        for name, value in config.items()
    }
    return ", ".join(f"ArchytasNB.{name} = {value}" for name, value in said.items())


def _safe(value: object) -> str:
    """A setting without the credentials that an address in it may carry."""
    return repr(shown_url(value)) if isinstance(value, str) and "://" in value else repr(value)


def _environment() -> str:
    names = sorted(
        name
        for name in os.environ
        if name.startswith(("ARCHYTAS_NB_", "OPENAI_")) and os.environ[name].strip()
    )
    said = [f"{name}={'…' if _HIDES.search(name) else _safe(os.environ[name])}" for name in names]
    return ", ".join(said) or "no variable named ARCHYTAS_NB_… or OPENAI_… is set"


def _model(config: dict[str, Any], *, ask: bool, try_it: bool = False) -> tuple[str, bool]:
    """Which model a question would go to, and whether it is there."""
    known = (
        "model",
        "base_url",
        "api_key",
        "timeout",
        "max_retries",
        "local_model",
        "discover",
        "local_safe",
    )
    given = {name: config[name] for name in known if config.get(name) not in (None, "")}
    try:
        settings = ModelSettings(**given, request=json.dumps(config.get("request", {})))
        model = choose_model(settings=settings)
    except (ArchytasError, TypeError) as error:  # a request that names no fields
        return str(error), False
    base_url = getattr(model, "base_url", None)
    at = "the embedded one" if base_url is None else f"at {shown_url(base_url)!r}"
    if try_it:
        said, well = _tried(model, settings.model)
        return f"{said}; {at}", well
    if base_url is None:
        _, well = _embedded(config)
        return (
            f"{model.name!r}, {at} ({_state(model) if well else 'it cannot be started, see below'})",
            well,
        )
    if not ask:
        return f"{settings.model or 'the default'!r} {at} (not asked)", True
    from archytas_nb.models.openai_chat import close_clients

    try:
        names, wanted = model.served(), model.name
    except ArchytasError as error:
        return str(error), False
    finally:
        close_clients(base_url)
    if wanted not in names:
        few = ", ".join(map(repr, names[:8]))
        return f"{wanted!r} {at} is not served there; it serves {few}. Set ArchytasNB.model.", False
    served = f"{len(names)} models are" if len(names) > 1 else "no other model is"
    return f"{wanted!r} {at} answers; {served} served there", True


def _state(model: Any) -> str:
    """What is known of the embedded model without starting it."""
    tried = model.tried()
    if tried is None:
        return "installed, not tried on this machine in this version: python -m archytas_nb doctor --try"
    mode = f", in safe mode after a crash ({tried.crash})" if tried.crash else ""
    return f"its first reply took {tried.seconds:.1f} s{mode}"


def _tried(model: Any, given: str | None) -> tuple[str, bool]:
    """Ask the model one question; the embedded one first without safe mode."""
    from archytas_nb.models.openai_chat import close_clients

    began, notes, name = time.monotonic(), [], given or "the default"
    try:
        name = model.name
        if forget := getattr(model, "forget_tried", None):
            forget()
        asking = model.complete(_TRIAL)
        while True:
            event = next(asking)
            if isinstance(event, Notice):
                if event.kind == "retry":
                    notes.append(event.text)
                if sys.stderr.isatty():
                    sys.stderr.write(f"\r\x1b[K{event.text}")
    except StopIteration as end:
        text = " ".join(end.value.text.split())
    except ArchytasError as error:
        return "\n".join([f"{name!r} gives no answer: {error}", *notes]), False
    finally:
        close_clients()
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")
    seconds = time.monotonic() - began
    is_bound = any(text.replace(" ", "") == f'{{"answer":"{word}"}}' for word in ("yes", "no"))
    aside = "" if is_bound else ", which is not bound to the schema that was sent"
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return "; ".join([f"{name!r} answered {shown!r} after {seconds:.1f} s{aside}", *notes]), bool(
        text
    )


def _embedded(config: dict[str, Any]) -> tuple[str, bool]:
    """Whether the model on this machine could be started; nothing is started, copied or fetched."""
    setting = config.get("local_model") or os.environ.get("ARCHYTAS_NB_LOCAL_MODEL") or None
    try:
        Engine().require()
        weights.check(setting)
    except ConfigurationError as error:
        return str(error), False
    engine = _version(Engine().module)
    return f"{engine}, weights {'of the extra' if setting is None else repr(setting)}", True


def _kernelspec() -> str:
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError:  # ipykernel needs it, but this report must come whatever is broken
        return "jupyter_client is not installed"
    try:
        where = KernelSpecManager().get_kernel_spec("archytas_nb").resource_dir
    except NoSuchKernel:
        return "not found: an editable install has none; `%load_ext archytas_nb` works in any Python kernel"
    return f"'Python 3 (archytas_nb)' in {where!r}"


def _startup(profile: str) -> str:
    path = startup_file(profile)
    if is_enabled(path):
        return f"{str(path)!r} loads the extension in every kernel"
    return "not enabled: notebooks load the extension by %load_ext archytas_nb"
