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
    from archytas_nb.loop.model import is_model

    if not name or not is_model(namespace.get(name)):
        return None
    from archytas_nb.cassettes.switch import recorded

    model: Model = recorded(namespace[name])
    return model


def model_settings(config: Settings) -> ModelSettings:
    """The configured model settings."""
    from archytas_nb.models.choose import ModelSettings

    values: dict[str, Any] = {}
    for each in fields(ModelSettings):
        value = getattr(config, each.name)
        if each.name == "api_key":
            value = str(value)
        elif each.name == "request":
            value = json.dumps(value)
        values[each.name] = None if value == "" else value
    return ModelSettings(**values)
