"""pydantic's errors, told to a model: one fault for each place. Works on error lists as data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from archytas_nb.tools.faults import Fault, Path, received
from archytas_nb.tools.names import did_you_mean
from archytas_nb.tools.repairs import enums, locate
from archytas_nb.tools.typetext import enum_choices

_MISSING = "missing, a value is required here"
_PLAIN = {
    "missing": _MISSING,
    "int_type": "expected an integer",
    "int_parsing": "expected an integer",
    "int_from_float": "expected an integer",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "none_required": "expected null",
}
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")


def explained(errors: Sequence[Any], value: Any, core_schema: Any = None) -> list[Fault]:
    """Turn pydantic's errors into faults.

    Args:
        errors: ``ValidationError.errors()``.
        value: What was validated.
        core_schema: What it was validated with: it knows the enums whose members go by their names.

    Returns:
        One fault for each place of the value; the branches of a union share one sentence.
    """
    grouped: dict[Path, dict[str, None]] = {}
    inputs: dict[Path, Any] = {}
    for error in errors:
        path = locate(error["loc"], value)
        if error["type"] == "missing" and error["loc"]:
            path = (*path, error["loc"][-1])
        grouped.setdefault(path, {})[_reason(error, core_schema)] = None
        inputs[path] = error["input"]
    return [_fault(path, list(reasons), inputs[path]) for path, reasons in grouped.items()]


def _fault(path: Path, reasons: list[str], sent: Any) -> Fault:
    if _MISSING in reasons:
        return Fault(_MISSING, path)
    return Fault(f"{', or '.join(reasons)}; received {received(sent)}", path)


def _reason(error: Any, core_schema: Any) -> str:
    kind, message = error["type"], str(error["msg"])
    if kind == "enum":
        for cls in enums(core_schema):
            if _listed([each.value for each in cls]) in message:
                message = f"Input should be {_listed(enum_choices(cls))}"
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "value_error":  # raised by a validator, ours or the user's: its own words
        return message.removeprefix("Value error, ")
    reason = message.replace("Input should be", "expected")
    reason = reason[:1].lower() + reason[1:]
    if kind in {"enum", "literal_error"} and isinstance(error["input"], str):
        reason += did_you_mean(error["input"], _QUOTED.findall(message))
    return reason


def _listed(choices: Sequence[Any]) -> str:
    """Write choices as pydantic does: ``'a', 'b' or 'c'``."""
    *first, last = map(repr, choices)
    return f"{', '.join(first)} or {last}" if first else last
