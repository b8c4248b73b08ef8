"""Which model answers: what was asked for, else what is configured, else what is found on this machine.

Precedence: argument (flag), settings (``%config``), environment, a model server that already runs here, and last
the embedded model.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from archytas_nb.errors import ConfigurationError
from archytas_nb.models import local_probe
from archytas_nb.models.address import OPENAI_URL
from archytas_nb.models.engine import Engine
from archytas_nb.models.listing import Served, served_at
from archytas_nb.models.local_probe import LocalServer

_log = logging.getLogger("archytas_nb")

Confirm: TypeAlias = Callable[[str], bool | None]
"""Asks the user a question to answer with yes or no; returns None where nobody can be asked."""

_LISTING_SECONDS = 0.5
_LISTED_FOR = 30.0
"""Seconds for which a list of models is good enough for a completion."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What a configuration says about models; None leaves it to the environment.

    Attributes:
        model: The model's name at its endpoint.
        base_url: The endpoint.
        api_key: Its key.
        timeout: Seconds without a byte before a request is given up.
        max_retries: How often a passing failure is tried again.
        local_model: A GGUF path or ``hf:REPO/FILE`` for the embedded model.
        discover: Whether servers on this machine's usual ports are found where nothing is configured.
        local_safe: Whether the embedded model is always run in safe mode.
        request: Further arguments of `OpenAIModel`, the fields of its requests above all; a JSON object.
    """

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    local_model: str | None = None
    discover: bool | None = None
    local_safe: bool | None = None
    request: str = "{}"

    @property
    def endpoint(self) -> tuple[str | None, str | None]:
        """The configured base URL and key, each None where neither the settings nor the environment have one."""
        environment = os.environ.get
        base_url = self.base_url or environment("OPENAI_BASE_URL") or None
        return base_url, self.api_key or environment("OPENAI_API_KEY") or None

    @property
    def gguf(self) -> str | None:
        """The configured weights of the embedded model, or None for its own."""
        return self.local_model or os.environ.get("ARCHYTAS_NB_LOCAL_MODEL") or None

    @property
    def engine(self) -> Engine:
        """How the embedded model is run."""
        if self.local_safe is not None:
            return Engine(safe=self.local_safe)
        return Engine(safe=not _says_no(os.environ.get("ARCHYTAS_NB_LOCAL_SAFE", "no")))

    @property
    def discovers(self) -> bool:
        """Whether servers on this machine are looked for; ARCHYTAS_NB_DISCOVER=0 says no."""
        if self.discover is not None:
            return self.discover
        return not _says_no(os.environ.get("ARCHYTAS_NB_DISCOVER", ""))


def _says_no(text: str) -> bool:
    return text.strip().lower() in ("0", "false", "no", "off")


def choose_model(
    name: Any = None, settings: ModelSettings | None = None, confirm: Confirm | None = None
) -> Any:
    """Choose the model that answers.

    Args:
        name: A model's name, ``"local"`` for the embedded model, or None; a model is returned as it is.
        settings: What the configuration says.
        confirm: Asks whether a server may be used that nobody named; None where nobody can be asked.

    Returns:
        An `OpenAIModel` or an `EmbeddedModel`; nothing is started yet. Where nothing is configured, the servers
        on this machine have been asked for their models, once, in at most 0.3 s.

    Raises:
        ConfigurationError: A model is named that no endpoint could have, or what is given is no model.
    """
    unused = ""
    if name is not None and not isinstance(name, str):
        if not isinstance(name, type) and callable(getattr(name, "complete", None)):
            return name
        expected = "a model's name, an OpenAIModel, or an object with name, protocol and complete"
        raise ConfigurationError(
            f"model is {name!r}, of type {type(name).__name__!r}; expected {expected}"
        )
    settings = settings or ModelSettings()
    name = name or settings.model or os.environ.get("ARCHYTAS_NB_MODEL") or None
    base_url, api_key = settings.endpoint
    if name != "local" and (base_url or api_key):
        from archytas_nb.models.openai_chat import OpenAIModel

        limits = (settings.timeout, settings.max_retries)
        return OpenAIModel(name, base_url, api_key, *limits, **json.loads(settings.request))
    if name != "local" and settings.discovers and not (name is None and settings.gguf):
        found, unused = _found(name, confirm)
        if found is not None:
            from archytas_nb.models.openai_chat import OpenAIModel

            server, model = found
            limits = (settings.timeout, settings.max_retries)
            chosen = OpenAIModel(
                model.name, server.base_url, None, *limits, **json.loads(settings.request)
            )
            chosen.found(server.name, model.context_tokens)
            return chosen
    if name not in (None, "local"):
        raise ConfigurationError(unused or _nowhere(name, settings))
    if unused:
        _warn_once(unused)
    from archytas_nb.models.embedded import EmbeddedModel

    return EmbeddedModel(settings.gguf, settings.engine)


def _found(
    name: str | None, confirm: Confirm | None
) -> tuple[tuple[LocalServer, Served] | None, str]:
    """The named model, or the first one, of a server on this machine that the user allows.

    Returns:
        The server and its model, or None; and what to say of a server that was skipped because
        nobody could be asked about it, or an empty text.
    """
    serving = [
        (server, model)
        for server in local_probe.local_servers()
        for model in server.models
        # Ollama's names end with a tag, which nobody types where it is the usual one.
        if name in (None, model.name, model.name.removesuffix(":latest"))
    ]
    for server, model in serving:
        if local_probe.is_allowed(server):
            return (server, model), ""
    unused = ""
    for server, model in serving:
        if unused or local_probe.is_allowed(server) is False:
            continue
        at = urllib.parse.urlsplit(server.base_url).netloc
        shown = repr(model.name[:80])[
            1:-1
        ]  # the server wrote it: nothing in it may act on a terminal
        answer = confirm(f"Use {server.name} at {at}, model {shown}? [y/n] ") if confirm else None
        if answer is not None:
            local_probe.remember(server, allowed=answer)
        if answer:
            return (server, model), ""
        if answer is None:
            unused = (
                f"{server.name} at {at}, model {shown}, is not used: nobody has named or allowed it. "
                f"To use it, set OPENAI_BASE_URL (or %config ArchytasNB.base_url) to {server.base_url!r}."
            )
    return None, unused


@functools.cache
def _warn_once(text: str) -> None:
    _log.warning("%s The model that comes with archytas_nb answers.", text)


def _nowhere(name: str, settings: ModelSettings) -> str:
    served = [each for each in served_names(settings) if each != "local"]
    here = f" On this machine {', '.join(map(repr, served[:8]))} would answer." if served else ""
    return (
        f"model {name!r} needs an endpoint, and none is named. Set OPENAI_API_KEY or OPENAI_BASE_URL "
        f"(or %config ArchytasNB.base_url), or leave the model out to use the one on this machine.{here}"
    )


def served_names(settings: ModelSettings | None = None) -> list[str]:
    """The names that a model can be asked for by, for completion.

    Never raises, and never takes longer than half a second; a list is asked for again after a while.

    Args:
        settings: What the configuration says.

    Returns:
        The models of the configured endpoint, or of the servers on this machine where none is configured, and
        ``"local"``.
    """
    settings = settings or ModelSettings()
    base_url, api_key = settings.endpoint
    names: list[str] = []
    if base_url or api_key:
        period = int(time.monotonic() / _LISTED_FOR)
        names += _listed((base_url or OPENAI_URL).strip(), (api_key or "").strip(), period)
    elif settings.discovers:
        names += [model.name for server in local_probe.local_servers() for model in server.models]
    return [*dict.fromkeys(names), "local"]


@functools.lru_cache(maxsize=8)
def _listed(base_url: str, api_key: str, period: int) -> tuple[str, ...]:  # noqa: ARG001 - the cache's key
    models = served_at(base_url, api_key, _LISTING_SECONDS) or ()
    return tuple(model.name for model in models if model.chats)
