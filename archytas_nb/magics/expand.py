"""The lookups of a line of a magic, whose faults are errors of its usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from IPython.core.error import UsageError

from archytas_nb import template


def expand(text: str, namespace: Mapping[str, Any]) -> template.Expanded:
    """Replace each lookup in a question by its value; raises UsageError if one fails."""
    try:
        return template.expand(text, namespace)
    except template.LookupFault as fault:
        raise UsageError(str(fault)) from None


def check_lookups(text: str, question: str, values: str) -> None:
    """Raise UsageError if lookups put values into a question whose model may not learn them."""
    if values == "all" or question == text.replace("{{", "{").replace("}}", "}"):
        return
    raise UsageError(
        f"values is {values!r}, and a name in braces would be replaced with its value in the "
        "question: write the name of the variable without braces, or add --raw"
    )
