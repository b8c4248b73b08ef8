"""Reports versions, configuration and whether a model answers; changes nothing, prints no secret.

The configuration is read as a kernel reads it, so the report holds for notebooks too.
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
from archytas_nb.command.main import is_enabled, startup_file
from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.loop.events import AskModel, Notice
from archytas_nb.models import weights
from archytas_nb.models.choose import ModelSettings, choose_model
from archytas_nb.models.process import Engine
from archytas_nb.models.secrets import shown_url

PACKAGES = "ipython ipykernel ipywidgets openai pydantic jupyterlab notebook nbval"
_SECRET_SETTINGS = ("api_key", "request")
_SECRET_VARIABLE = re.compile("KEY|_REQUEST$")
_MODEL_SETTINGS = "model base_url api_key timeout max_retries local_model discover local_safe"
_MAX_SHOWN = 60  # characters of a reply
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
    """Check everything that a first question needs.

    Args:
        profile: The IPython profile whose configuration is read.
        ask: Whether an endpoint may be asked for its models.
        try_it: Whether the model is asked one short question, which starts the embedded model.

    Returns:
        The report, one line for each item, and whether a model is ready to answer.
    """
    try:
        config, shown_config = _configuration(profile)
    except ConfigurationError as error:
        config, shown_config = {}, str(error)
    model, is_ready = _model(config, ask=ask, try_it=try_it)
    startup = startup_file(profile)
    lines = {
        "archytas_nb": f"{__version__}, Python {platform.python_version()}, {platform.system()}",
        "packages": ", ".join(map(_version, PACKAGES.split())),
        "configuration": shown_config,
        "environment": _environment(),
        "model": model,
        "embedded": _embedded(config)[0],
        "kernelspec": _kernelspec(),
        "startup": f"{str(startup)!r} loads the extension in every kernel"
        if is_enabled(startup)
        else "not enabled: notebooks load the extension by %load_ext archytas_nb",
    }
    width = max(map(len, lines)) + 2
    indent = "\n" + " " * width
    report = "\n".join(
        f"{name:<{width}}{text}".replace("\n", indent) for name, text in lines.items()
    )
    return report, is_ready


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} not installed"


def _configuration(profile: str) -> tuple[dict[str, Any], str]:
    """The settings of ArchytasNB in an IPython profile's configuration, and a line about them."""
    from IPython.paths import get_ipython_dir
    from traitlets.config.loader import ConfigFileNotFound, PyFileConfigLoader

    folder = Path(get_ipython_dir()) / f"profile_{profile}"
    found: dict[str, Any] = {}
    for name in ("ipython_config.py", "ipython_kernel_config.py"):
        try:
            loaded = PyFileConfigLoader(name, path=str(folder)).load_config()
        except ConfigFileNotFound:
            continue
        except Exception as error:  # noqa: BLE001 - the file is a program and may raise anything
            message = f"{str(folder / name)!r} fails with {error!r}. Fix it."
            raise ConfigurationError(message) from None
        found |= dict(loaded.get("ArchytasNB", {}))
    shown = [
        f"ArchytasNB.{name} = {'(set, not shown)' if name in _SECRET_SETTINGS else _safe(value)}"
        for name, value in found.items()
    ]
    return found, ", ".join(shown) or f"nothing for ArchytasNB in {str(folder)!r}"


def _safe(value: object) -> str:
    """A setting without the credentials that a URL in it may contain."""
    return repr(shown_url(value)) if isinstance(value, str) and "://" in value else repr(value)


def _environment() -> str:
    shown = [
        f"{name}={'…' if _SECRET_VARIABLE.search(name) else _safe(value)}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("ARCHYTAS_NB_", "OPENAI_")) and value.strip()
    ]
    return ", ".join(shown) or "no variable named ARCHYTAS_NB_… or OPENAI_… is set"


def _model(config: dict[str, Any], *, ask: bool, try_it: bool = False) -> tuple[str, bool]:
    """Which model would be asked, and whether it is available."""
    given = {
        name: config[name] for name in _MODEL_SETTINGS.split() if config.get(name) not in (None, "")
    }
    try:
        settings = ModelSettings(**given, request=json.dumps(config.get("request", {})))
        model = choose_model(settings=settings)
    except (ArchytasError, TypeError) as error:  # TypeError: the request is no mapping of fields
        return str(error), False
    base_url = getattr(model, "base_url", None)
    at = "the embedded one" if base_url is None else f"at {shown_url(base_url)!r}"
    if try_it:
        text, is_ready = _tried(model, settings.model or "the default")
        return f"{text}; {at}", is_ready
    if base_url is None:
        state, is_ready = "it cannot be started, see below", _embedded(config)[1]
        if is_ready and (tried := model.tried()):
            seconds, crash = tried
            mode = f", in safe mode after a crash ({crash})" if crash else ""
            state = f"its first reply took {seconds:.1f} s{mode}"
        elif is_ready:
            state = "installed, not tried in this version: python -m archytas_nb doctor --try"
        return f"{model.name!r}, {at} ({state})", is_ready
    if not ask:
        return f"{settings.model or 'the default'!r} {at} (not asked)", True
    from archytas_nb.models.endpoint import close_clients

    try:
        names, wanted = model.served(), model.name
    except ArchytasError as error:
        return str(error), False
    finally:
        close_clients(base_url)
    if wanted not in names:
        few = ", ".join(map(repr, names[:8]))
        return f"{wanted!r} {at} is not served there; it serves {few}. Set ArchytasNB.model.", False
    others = f"{len(names)} models are" if len(names) > 1 else "no other model is"
    return f"{wanted!r} {at} answers; {others} served there", True


def _tried(model: Any, name: str) -> tuple[str, bool]:
    """Ask the model one question; the embedded model starts without safe mode first."""
    from archytas_nb.models.endpoint import close_clients

    began, notes, text = time.monotonic(), [], ""
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
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    line = f"{name!r} answered {shown!r} after {time.monotonic() - began:.1f} s"
    if text.replace(" ", "") not in ('{"answer":"yes"}', '{"answer":"no"}'):
        line += ", which does not follow the schema that was sent"
    return "; ".join([line, *notes]), bool(text)


def _embedded(config: dict[str, Any]) -> tuple[str, bool]:
    """Whether the embedded model could be started; nothing is started, copied or downloaded."""
    setting = config.get("local_model") or os.environ.get("ARCHYTAS_NB_LOCAL_MODEL") or None
    engine = Engine()
    try:
        engine.require()
        weights.check(setting)
    except ConfigurationError as error:
        return str(error), False
    source = "of the extra" if setting is None else repr(setting)
    return f"{_version(engine.module)}, weights {source}", True


def _kernelspec() -> str:
    try:
        from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    except ImportError:  # the report must come whatever is broken
        return "jupyter_client is not installed"
    try:
        folder = KernelSpecManager().get_kernel_spec("archytas_nb").resource_dir
    except NoSuchKernel:
        return (
            "not found, as in an editable install: use %load_ext archytas_nb in any Python kernel"
        )
    return f"'Python 3 (archytas_nb)' in {folder!r}"
