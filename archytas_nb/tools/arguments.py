"""From what the model sent as ``tool_input`` to the arguments of one call, or to faults. Calls nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archytas_nb.tools import repairs
from archytas_nb.tools.faults import Fault, received
from archytas_nb.tools.names import did_you_mean
from archytas_nb.tools.parameters import Parameter

Values = dict[str, Any]
Result = tuple[Values, tuple[Fault, ...]]

_NOTHING = ("", "{}", "null", "None", "none")


def read(
    parameters: Sequence[Parameter], tool_input: Any, namespace: Mapping[str, Any] | None
) -> Result:
    """Read the input of a tool.

    Args:
        parameters: The arguments that the model sets (not the injected ones).
        tool_input: Decoded JSON, as the model sent it.
        namespace: Where references are looked up.

    Returns:
        Typed values by argument name (those left out are absent) and no faults, or no values and all faults.
    """
    if not parameters:
        return _none(tool_input)
    if len(parameters) == 1:
        return _one(parameters[0], tool_input, namespace)
    return _fields(parameters, tool_input, namespace)


def _none(tool_input: Any) -> Result:
    if tool_input is None or tool_input in ({}, []):
        return {}, ()
    if isinstance(tool_input, str) and tool_input.strip() in _NOTHING:
        return {}, ()
    if isinstance(tool_input, dict):
        return {}, tuple(
            Fault(f"unknown argument {key!r}: this tool takes none, send null", (str(key),))
            for key in tool_input
        )
    return {}, (Fault(f"this tool takes no arguments, send null; received {received(tool_input)}"),)


def _one(parameter: Parameter, tool_input: Any, namespace: Mapping[str, Any] | None) -> Result:
    """Read the input of a tool with one argument: bare, or under the argument's name."""
    if isinstance(tool_input, str) and not parameter.simple:
        opened = _opened(tool_input)
        tool_input = (
            opened if isinstance(opened, dict) and set(opened) == {parameter.name} else tool_input
        )
    wrapped = isinstance(tool_input, dict) and set(tool_input) == {parameter.name}
    if wrapped or (tool_input is None and not parameter.takes_null):
        values, faults = _fields((parameter,), tool_input, namespace)
        if not faults or not wrapped:
            return values, faults
        bare, bare_faults = parameter.carrier.read(
            tool_input, namespace
        )  # a dict may happen to have this key
        return ({}, faults) if bare_faults else ({parameter.name: bare}, ())
    if tool_input == {} and isinstance(tool_input, dict) and parameter.optional:
        return {}, ()
    bare, bare_faults = parameter.carrier.read(tool_input, namespace)
    if not bare_faults:
        return {parameter.name: bare}, ()
    if isinstance(tool_input, dict) and (
        parameter.name in tool_input or not _is_structured(parameter)
    ):
        return _fields((parameter,), tool_input, namespace)
    if parameter.simple:
        return {}, bare_faults
    return {}, tuple(fault.under(parameter.name) for fault in bare_faults)


def _is_structured(parameter: Parameter) -> bool:
    kind = parameter.carrier.schema
    return kind.get("type") == "object" or "$ref" in kind or "anyOf" in kind


def _fields(
    parameters: Sequence[Parameter], tool_input: Any, namespace: Mapping[str, Any] | None
) -> Result:
    names = [each.name for each in parameters]
    if isinstance(tool_input, str):
        tool_input = _opened(tool_input)
    if tool_input is None or (isinstance(tool_input, str) and tool_input.strip() in _NOTHING):
        tool_input = {}
    if not isinstance(tool_input, dict):
        wanted = ", ".join(f'"{name}"' for name in names)
        return {}, (
            Fault(f"expected an object with the fields {wanted}; received {received(tool_input)}"),
        )
    values: Values = {}
    faults: list[Fault] = []
    for each in parameters:
        sent = tool_input.get(each.name)
        if sent is None and each.optional and not (each.takes_null and each.name in tool_input):
            continue
        if each.name not in tool_input:
            faults.append(Fault(f"missing, expected {each.carrier.text}", (each.name,)))
        elif sent is None and not each.takes_null:
            faults.append(
                Fault(f"null is no value here, expected {each.carrier.text}", (each.name,))
            )
        else:
            values[each.name], found = each.carrier.read(sent, namespace)
            faults += [fault.under(each.name) for fault in found]
    for key in tool_input:
        if key not in names:
            guess = did_you_mean(
                str(key), [name for name in names if name not in tool_input] or names
            )
            known = ", ".join(f'"{name}"' for name in names)
            faults.append(
                Fault(f"unknown argument {key!r}{guess or ','} expected {known}", (str(key),))
            )
    return ({}, tuple(faults)) if faults else (values, ())


def _opened(text: str) -> Any:
    """Decode an input that was sent as JSON inside a string; leave other text alone."""
    opened = repairs.decoded(text)
    return opened if isinstance(opened, dict) else text
