"""The list of ``%agent --models``: the models that ``--model`` can name."""

from __future__ import annotations

from typing import Any

from archytas_nb.magics.overview import Overview
from archytas_nb.magics.settings import model_settings

_NOTES = (
    'One question: %agent --model NAME. All questions: %config ArchytasNB.model = "NAME".',
    "A prefix before the name chooses the provider: {prefixes}",
)


def names_of_models(magics: Any) -> dict[str, str]:
    """The names that ``--model`` takes now, each with where the model is; nothing is asked.

    The names of providers end with a colon.
    """
    from archytas_nb.loop.model import is_model
    from archytas_nb.models.choose import served_names
    from archytas_nb.tools.variables import user_names

    variables = magics.shell.user_ns
    held = [each for each in user_names(variables) if is_model(variables[each])]
    names = {"local": "the embedded model", **dict.fromkeys(held, "in this variable")}
    for each in served_names(model_settings(magics)):
        names.setdefault(each, "served by an endpoint")
    return names


def models_to_name(magics: Any) -> Overview:
    """The list that ``%agent --models`` shows."""
    names = names_of_models(magics)
    prefixes = " ".join(each for each in names if each.endswith(":"))
    rows = tuple(row for row in names.items() if not row[0].endswith(":"))
    notes = tuple(each.format(prefixes=prefixes) for each in _NOTES)
    return Overview(("model", "where it is"), rows, notes=notes)
