"""What a small model is told beside an outcome: what it would have to see by itself, and does not.

Pure text: it knows neither wire forms nor tools.
"""

from __future__ import annotations

from archytas_nb.react.events import ToolCall
from archytas_nb.react.names import meant
from archytas_nb.react.pending import Worked, pending
from archytas_nb.react.ranking import inputs_of, number_of, ranking


def beside_outcome(question: str, worked: Worked) -> str:
    """What stands below the outcome of the last call: what is missing, or else the order of the numbers."""
    name, _, said = worked[-1]
    left = pending(question, worked, name)
    if left and number_of(said) is not None:
        return f"Not looked up with {name} yet: {', '.join(left)}"
    return ranking(worked, name)


def beside_error(call: ToolCall, error: str) -> str:
    """What stands below an error: the name in it that an input may have meant."""
    values = inputs_of(call.input).values()
    names = [name for value in values if (name := meant(value, error))]
    return f"Did you mean {names[0]!r}?" if len(names) == 1 else ""
