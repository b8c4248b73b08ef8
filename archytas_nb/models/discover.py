"""Which model answers: what was asked for, else what is configured, else the one on this machine.

Precedence: argument (flag), settings (``%config``), environment, default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from archytas_nb.errors import ConfigurationError


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
    """

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    local_model: str | None = None


def choose_model(name: str | None = None, settings: ModelSettings | None = None) -> Any:
    """Choose the model that answers.

    Args:
        name: A model's name, ``"local"`` for the embedded model, or None.
        settings: What the configuration says.

    Returns:
        An `OpenAIModel` or an `EmbeddedModel`; nothing is started or asked yet.

    Raises:
        ConfigurationError: A model is named, but no endpoint that could have it.
    """
    settings = settings or ModelSettings()
    environment = os.environ.get
    name = name or settings.model or environment("ARCHYTAS_NB_MODEL") or None
    base_url = settings.base_url or environment("OPENAI_BASE_URL") or None
    api_key = settings.api_key or environment("OPENAI_API_KEY") or None
    if name != "local" and (base_url or api_key):
        from archytas_nb.models.openai_chat import OpenAIModel

        return OpenAIModel(name, base_url, api_key, settings.timeout, settings.max_retries)
    if name not in (None, "local"):
        raise ConfigurationError(
            f"model {name!r} needs an endpoint, and none is named. Set OPENAI_API_KEY or OPENAI_BASE_URL "
            "(or %config ArchytasNB.base_url), or leave the model out to use the one on this machine."
        )
    from archytas_nb.models.embedded import EmbeddedModel

    return EmbeddedModel(settings.local_model or environment("ARCHYTAS_NB_LOCAL_MODEL") or None)
