"""Errors of servers that could not read what their own models wrote."""

from __future__ import annotations

import pytest

from archytas_nb.models.quoted import written_by_model

SENT = '[{"role": "user", "content": "What is {\\"a\\": 1}?"}]'


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("error parsing tool call: raw='{\"a\": 1]', err=invalid character ']'", '{"a": 1]'),
        ("error parsing tool call: raw='I cannot do that', err=invalid character 'I'", "I cannot do that"),
        ("Failed to parse input at pos 23: <tool_call>{\"name\"", '<tool_call>{"name"'),
        ('could not unmarshal "{\'x\': tools are not supported}"', "{'x': tools are not supported}"),
    ],
)  # fmt: skip
def test_the_text_of_the_model_is_found(text: str, written: str) -> None:
    assert written_by_model(text, SENT) == written


@pytest.mark.parametrize(
    "text",
    [
        "Internal Server Error",
        "out of memory",
        "failed to parse grammar",
        "Pattern must start with '^' and end with '$'",
        "could not parse 'What is {\\\"a\\\": 1}?'",
        "unexpected EOF",
        "<html><title>Unexpected error</title></html>",
        'parse error in grammar: "{" space "}" ::= x',
    ],
)
def test_other_failures_quote_no_model(text: str) -> None:
    assert written_by_model(text, SENT) is None
