"""From the configuration of a notebook to the model that answers in it, with its cassette where there is one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from archytas_nb.models.cassette import Cassette, CassetteModel
from archytas_nb.models.discover import ModelSettings, choose_model

if TYPE_CHECKING:
    from archytas_nb.session import Model


def make_model(config: Any, name: str | None) -> Model:
    """Make the model that a flag, the configuration or the environment names.

    Args:
        config: The traits of `ArchytasNB`.
        name: The value of ``--model``, or None.

    Returns:
        The model, behind a cassette where one is configured.
    """
    settings = ModelSettings(
        config.model or None,
        config.base_url or None,
        config.api_key or None,
        config.timeout,
        config.max_retries,
        config.local_model or None,
    )
    path = config.cassette or os.environ.get("ARCHYTAS_NB_CASSETTE")
    if not path:
        model: Model = choose_model(name, settings)
        return model
    mode: Any = os.environ.get("ARCHYTAS_NB_CASSETTE_MODE") or config.cassette_mode
    return CassetteModel(Cassette(path, mode), lambda: choose_model(name, settings))
