"""The model that a line of a magic names, and the configured settings of models."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from archytas_nb.magics.settings import Settings

if TYPE_CHECKING:
    from archytas_nb.loop.model import Model
    from archytas_nb.models.choose import ModelSettings


def held_model(namespace: dict[str, Any], name: str | None) -> Model | None:
    """The model in a variable of the notebook, or None where no variable of that name has one."""
    held = namespace.get(name) if name else None
    from archytas_nb.loop.model import is_model

    if not is_model(held):
        return None
    from archytas_nb.cassettes.switch import recorded

    model: Model = recorded(held)
    return model


def model_settings(config: Settings) -> ModelSettings:
    """The configured model settings."""
    from archytas_nb.models.choose import ModelSettings

    values: dict[str, Any] = {
        each.name: getattr(config, each.name) for each in fields(ModelSettings)
    }
    values |= {"api_key": str(config.api_key), "request": json.dumps(config.request)}
    values = {name: None if each == "" else each for name, each in values.items()}
    return ModelSettings(**values)
