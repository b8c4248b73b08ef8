"""From the configuration of a notebook to the model that answers in it, with its cassette where there is one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from archytas_nb.cassettes.recorded import cassette_in_use, recorded
from archytas_nb.kernel.person import confirm
from archytas_nb.models.discover import Confirm, ModelSettings, served_names

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette
    from archytas_nb.session import Model

_ENVIRONMENT = ("OPENAI_API_KEY", "OPENAI_BASE_URL")


class Choice(NamedTuple):
    """All that decides which model answers; where two are equal, the model is the same.

    Attributes:
        name: The value of ``--model``, or None.
        settings: What the configuration says.
        cassette: The cassette in use, or None.
        environment: The values of the variables that have a say.
    """

    name: str | None
    settings: ModelSettings
    cassette: Cassette | None
    environment: tuple[str | None, ...]


def model_choice(config: Any, name: str | None) -> Choice:
    """Read what decides on the model, as it stands now.

    Args:
        config: The traits of `ArchytasNB`.
        name: The value of ``--model``, or None.

    Raises:
        ConfigurationError: The cassette cannot be used.
    """
    settings = ModelSettings(
        config.model or None,
        config.base_url or None,
        str(config.api_key) or None,
        config.timeout,
        config.max_retries,
        config.local_model or None,
        config.discover,
        config.local_safe,
        json.dumps(config.request),
    )
    return Choice(name, settings, cassette_in_use(), tuple(map(os.environ.get, _ENVIRONMENT)))


def held_model(namespace: Mapping[str, Any], name: str | None) -> Model | None:
    """The model that a variable of the notebook holds.

    It answers through the cassette in use, unless it is a `ScriptedModel` or has one of its own.

    Args:
        namespace: The notebook's variables.
        name: The value of ``--model``, or None.

    Returns:
        None where no variable of that name holds a model; the name is then the endpoint's.
    """
    held = namespace.get(name) if name else None
    if isinstance(held, type) or not callable(getattr(held, "complete", None)):
        return None
    model: Model = recorded(held)
    return model


def served(config: Any) -> list[str]:
    """Names of the models that the configured endpoint serves; none where it does not answer."""
    return served_names(model_choice(config, None).settings)


def make_model(choice: Choice, confirm: Confirm = confirm) -> Model:
    """Make the model of a choice, behind a cassette where there is one.

    Args:
        choice: What decides on the model.
        confirm: Asks the user whether a server may be used that nobody named.

    Raises:
        ConfigurationError: There is no such model.
    """
    model: Model = recorded(choice.name, choice.settings, choice.cassette, confirm)
    return model
