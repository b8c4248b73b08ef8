"""Error objects in the forms of the servers that there are."""

from __future__ import annotations

from typing import Any

import pytest

from archytas_nb.models.refusal import status_of, told_by

ERRORS: list[tuple[Any, str, str, int]] = [
    ({"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"},
     "too long", "context_length_exceeded invalid_request_error", 400),
    ({"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_prompt_tokens": 14, "n_ctx": 8},
     "too long", "400 exceed_context_size_error n_prompt_tokens=14 n_ctx=8", 400),
    ({"object": "error", "message": "no", "type": "Bad", "code": "422"}, "no", "422 Bad", 422),
    ({"message": "Provider returned error", "code": 502, "metadata": {"raw": '{"error": "no eyes"}'}},
     'Provider returned error: no eyes', '502 {"error": "no eyes"}', 502),
    ({"message": "Provider returned error", "code": 429, "metadata": {"raw": "busy upstream"}},
     "Provider returned error: busy upstream", "429 busy upstream", 429),
    ({"message": "too much", "code": 429, "metadata": {"raw": "busy"}}, "too much", "429 busy", 429),
    ([{"error": {"code": 400, "message": "no such key", "status": "INVALID"}}], "no such key", "400", 500),
    ({"detail": "Not Found"}, "Not Found", "", 500),
    ({"detail": [{"loc": ["body", "x"], "msg": "Field required"}, {"loc": ["body", "y"], "msg": "Too long"}]},
     "Field required at body.x; Too long at body.y", "", 500),
    ({"detail": [1, None]}, "", "", 500),
    ("no memory", "no memory", "", 500),
    ({"message": None}, "", "", 500),
    ({"message": "no", "metadata": "x"}, "no", "", 500),
    (None, "", "", 500),
    ([1], "", "", 500),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "codes", "status"), ERRORS)
def test_message_codes_and_status_are_read(
    error: Any, message: str, codes: str, status: int
) -> None:
    assert told_by(error) == (message, codes)
    assert status_of(error) == status
