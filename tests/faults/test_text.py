"""Text that no request can carry: half a character in it must not break a conversation for ever."""

from __future__ import annotations

import json

from archytas_nb.agent import Agent
from tests.faults.talk import Talk
from tests.servers.plays import Say

HALF = "caf\udce9"
"""What Python makes of a file name in another encoding."""


def named() -> str:
    """Give a name."""
    return HALF


def printed() -> str:
    """Print a name."""
    print(HALF)
    return "done"


def failed() -> str:
    """Miss a file."""
    raise FileNotFoundError(HALF)


def test_half_a_character_in_an_outcome_is_replaced(talk: Talk) -> None:
    for tool in [named, printed, failed]:
        talk.with_(Say(calls=((tool.__name__, {}),)), then=Say("Seen."))
        talk.agent = Agent([tool], talk.agent.chosen_model(), protocol=talk.protocol, namespace={})  # type: ignore[arg-type]
        assert talk.ask().answer == "Seen."
        told = talk.server.chats[-1].messages[-1]["content"]
        assert "caf" in told
        assert json.dumps(told, ensure_ascii=False).encode()
        talk.goes_on()


def test_half_a_character_in_what_a_person_says_is_replaced(talk: Talk) -> None:
    talk.with_(then=Say("Seen."), agent={"instructions": f"Be {HALF}."})
    assert talk.ask(f"Who is {HALF}?").answer == "Seen."
    assert (
        talk.ask("And?", until=lambda answer: HALF if len(talk.server.chats) < 3 else "").answer
        == "Seen."
    )
    talk.goes_on()
