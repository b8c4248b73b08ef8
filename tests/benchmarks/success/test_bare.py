"""The run to compare with has none of the help: no schema, no question beforehand, no hint and no doubt."""

from __future__ import annotations

from typing import Any

from archytas_nb.loop import text_protocol
from archytas_nb.testing import ScriptedModel
from benchmarks.success.bare import BareAgent, Unconstrained


class Small(ScriptedModel):
    """A scripted model that is taken for a small one."""

    is_small = True


def count(thing: str) -> int:
    """Count what is in stock.

    Args:
        thing: What
    """
    if thing == "plums":
        raise ValueError(
            "no 'plums'; expected one of ['pears', 'apples']. Connection busy: try again!"
        )
    return {"pears": 4, "apples": 17}[thing]


def asked(*replies: Any) -> list[Any]:
    with Small(*replies) as model:
        BareAgent([count], model=Unconstrained(model), namespace={}).run(
            "Are there more pears or apples?"
        )
    return list(model.asked)


def test_a_small_model_is_asked_told_and_bound_to_nothing() -> None:
    calls = [("count", each) for each in ("pears", "pears", "apples", "plums", "plums")]
    requests = asked(*calls, ("final_answer", "1234 pears."))
    assert len(requests) == len(calls) + 1, (
        "nothing is asked beforehand, and the answer is believed"
    )
    assert all(request.schema is None for request in requests)
    told = [message["content"] for message in requests[-1].messages if message["role"] == "user"][
        1:
    ]
    assert told[:3] == [f"Outcome of count (done):\n{each}" for each in (4, 4, 17)]
    error = "no 'plums'; expected one of ['pears', 'apples']. Connection busy: try again!"
    assert told[3].startswith(f"Outcome of count (error):\nValueError: {error}")
    assert told[3].endswith(text_protocol._AFTER_ERROR), (
        "one sentence, the same below every error, is part of the wire form"
    )
    assert told[3] == told[4], "that it failed before is not said"
    assert not any("Call again, with" in text or "very call" in text for text in told)
