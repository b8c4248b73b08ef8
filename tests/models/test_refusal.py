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
     "Provider returned error", '502 {"error": "no eyes"}', 502),
    ("no memory", "no memory", "", 500),
    ({"message": None}, "", "", 500),
    ({"message": "no", "metadata": "x"}, "no", "", 500),
    (None, "", "", 500),
    ([1], "", "", 500),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "codes", "status"), ERRORS)
def test_message_codes_and_status_are_read(error: Any, message: str, codes: str, status: int) -> None:
    assert told_by(error) == (message, codes)
    assert status_of(error) == status
