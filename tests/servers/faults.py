"""Everything that a server may do wrong, each as a play, all saying one text where servers say something."""

from __future__ import annotations

import json
from typing import Any

from tests.servers.plays import Drop, Events, Hang, Ping, Raw, Say, Status

JSON = "application/json"


def page(said: str) -> str:
    """A web page."""
    return f"<html><head><title>{said}</title></head><body><h1>{said}</h1></body></html>"


def faults(said: str) -> dict[str, Any]:
    """The faults by name.

    Args:
        said: What the server says, wherever it says something.
    """
    error = json.dumps({"error": {"message": said, "code": 400}})
    return {
        "401": Status(401, f"Incorrect API key provided: {said}.", code=said),
        "403": Status(403, f"{said} may not do this"),
        "400": Status(400, f"Bearer {said}: bad request", code=said),
        "404": Status(404, f"no model for {said}", code="model_not_found"),
        "422": Status(422, f"response_format for {said}"),
        "429": Status(429, f"slow down, {said}", headers={"Retry-After": "0"}),
        "no credit": Status(429, f"quota of {said} exceeded", code="insufficient_quota"),
        "500": Status(500, f"{said} broke it"),
        "overflow": Status(
            400, f"{said}: maximum context length is 10 tokens", code="context_length_exceeded"
        ),
        "a page": Raw(page(said)),
        "a page with an error": Raw(page(said), 502),
        "text": Raw(f"Authorization: Bearer {said}", 500, "text/plain"),
        "an empty body": Raw("", 200, JSON),
        "no completion": Raw(json.dumps({"authorization": said}), 200, JSON),
        "no choices": Raw(json.dumps({"choices": []}), 200, JSON),
        "no JSON": Raw(f'{{"Bearer {said}', 200, JSON),
        "an error in place of a reply": Raw(error, 200, JSON),
        "an error in a stream": Events((f"data: {error}",)),
        "nonsense in a stream": Events((f"data: {{{said}", f"data: {said}")),
        "a stream of nothing": Events(("data: [DONE]",)),
        "a dropped connection": Drop(),
        "a reply cut off": Say("Three, I think.", cut=2),
        "silence": Hang(),
        "a ping": Ping(),
        "an empty reply": Say(),
        "a blank reply": Say(" \n ", raw=True),
        "a thought and no more": Say("<think>Hm.</think>", raw=True),
        "reasoning and no more": Say("", raw=True, extra={"reasoning_content": "Hm."}),
        "a refusal": Say("", raw=True, extra={"refusal": f"I cannot do that, {said}."}),
        "a filtered reply": Say("", raw=True, finish="content_filter"),
        "a reply with no tokens left": Say("", raw=True, finish="length"),
        "a blank answer": Say(calls=(("final_answer", {"answer": " "}),)),
        "giving up": Say(calls=(("fail_task", {"reason": ""}),)),
        "null": Say("null", raw=True),
        "braces": Say("{}", raw=True),
        "a call of nothing": Say(calls=(("", {}),)),
        "broken arguments": Say(calls=(("add", '{"a": 1, "b'),)),
        "no arguments": Say(calls=(("add", {}),)),
    }


def patience(name: str) -> float:
    """How many seconds to wait for a server that plays this.

    Little only where it says nothing: on a busy machine any other reply may take longer.
    """
    return 0.2 if name in ("silence", "a ping") else 20.0
