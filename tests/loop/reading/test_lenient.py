"""JSON as models write it is repaired only if it is unambiguous."""

from __future__ import annotations

from typing import Any

import pytest

from archytas_nb.loop.reading.lenient import UnreadableError, read_json
from tests.loop.cards import over


@over(
    "text, value",
    [
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": true "b": null "c": 1.5}', {"a": True, "b": None, "c": 1.5}),
        ('{"a": "x" "b": "y"}', {"a": "x", "b": "y"}),
        ('{"a": "x, y" "b": 2}', {"a": "x, y", "b": 2}),
        ('{"a": {"c": 1} "b": [1, 2] "d": 3}', {"a": {"c": 1}, "b": [1, 2], "d": 3}),
        ('{"a": "x""b": "y"}', {"a": "x", "b": "y"}),
        ("{'a': 1 'b': 'it is'}", {"a": 1, "b": "it is"}),
        ('{"a": 1  , "b": 2 "c": 3}', {"a": 1, "b": 2, "c": 3}),
    ],
)
def test_repairs_a_missing_comma_before_a_key(text: str, value: Any) -> None:
    reading = read_json(text)
    assert reading.value == value
    assert "a missing comma" in reading.repairs


@over(
    "text",
    [
        '{"a": ["x" "y"]}',
        '{"a": [1 2]}',
        '{"a": "x" "y"}',
        '{"a": 1 2}',
        '{"a" 1 "b": 2}',
    ],
)
def test_rejects_a_missing_comma_between_values(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_json(text)


@over(
    "inside, is_read",
    [
        ('say "hi" to them', True),
        ('"hi" to <a href="x">them</a>', True),
        ('call print("a", "b") now', True),
        ('"" is empty', True),
        ('"{x}" and "y"', True),
        ('a 5" pipe', False),
        ('he wrote ("b": 2) here', False),
        ('say "x" "b": "y" and go', False),
        ('say "yes", "no": 3', False),
        ('x" b: "y', False),
        ('x", "b" "y', False),
        ('""" x', False),
    ],
)
def test_reads_unescaped_quotes_where_they_have_one_meaning(inside: str, is_read: bool) -> None:
    if is_read:
        assert read_json(f'{{"a": "{inside}"}}').value == {"a": inside}
        return
    with pytest.raises(UnreadableError):
        read_json(f'{{"a": "{inside}"}}')


@over(
    "text, value",
    [
        ('{"a": "{"b": 3, "c": "x, y"}"}', {"a": '{"b": 3, "c": "x, y"}'}),
        ('{"a": "{ "b": {"c": [1, "d"]}}"}', {"a": '{ "b": {"c": [1, "d"]}}'}),
        ('{"a": "{"b": 1}", "c": 2}', {"a": '{"b": 1}', "c": 2}),
        ('["{", ":", "}",]', ["{", ":", "}"]),
    ],
)
def test_reads_a_quoted_object_with_unescaped_quotes_as_one_string(text: str, value: Any) -> None:
    assert read_json(text).value == value


@over(
    "inside",
    [
        '{"a": 1} and more',
        '{"a": 1',
        '{"a": "C:\\new"}',
        '{"a": 1, "a": 2}',
        '{"a": 1}, {"b": 2}',
        '{"a": x}',
    ],
)
def test_rejects_an_ambiguous_quoted_object(inside: str) -> None:
    with pytest.raises(UnreadableError):
        read_json(f'{{"x": "{inside}"}}')


@over("quotes", ["‘’", "“”"])
def test_reads_straight_quotes_in_curly_ones(quotes: str) -> None:
    opening, closing = quotes
    text = "city = 'Rome' or \"x\";"
    made = f'{{"a": {opening}{text}{closing}, "b": 1}}'
    assert read_json(made).value == {"a": text, "b": 1}


@over(
    "inside",
    [
        r"C:\Users\me", r"C:\users\me", r"D:\Xdata\Work", r"C:\Users\me\audio", r"\xyz", r"(\w+) \1", r"\N",
        r"a\,b", r"C:\videos\U", r"\Uniform", r"\d{3}\.\d", r"100\%",
    ],
)  # fmt: skip
def test_reads_an_unescaped_backslash_literally(inside: str) -> None:
    reading = read_json(f'{{"a": "{inside}"}}')
    assert reading.value == {"a": inside}
    assert reading.repairs


@over(
    "inside",
    [
        r"\x41", r"\U0001F600", r"\N{BULLET}", r"\0", r"\033[31m", r"\a", r"ring \a now", r"\v", r"\u00e",
        r"C:\Users\new", r"C:\Users\temp", r"C:\Users\u00e9", r"\d\n", r"\\host\share", "C:\\Users\\\n",
    ],
)  # fmt: skip
def test_rejects_an_ambiguous_backslash(inside: str) -> None:
    with pytest.raises(UnreadableError):
        read_json(f'{{"a": "{inside} \\d"}}')


@over(
    "text, value",
    [
        ('{"a": """\nx = "y"\nprint(x, "z")\n""", "b": 1}', '\nx = "y"\nprint(x, "z")\n'),
        ("{'a': '''one\ntwo''', 'b': 1}", "one\ntwo"),
        ('{"a": """say "hi"\n""" "b": 1}', 'say "hi"\n'),
    ],
)
def test_reads_triple_quotes_around_several_lines(text: str, value: str) -> None:
    reading = read_json(text)
    assert reading.value == {"a": value, "b": 1}
    assert "triple quotes" in reading.repairs


@over(
    "text",
    [
        '{"a": """x"""}',
        '{"a": """ x"""}',
        '{"a": """\nsay "hi""""}',
        '{"a": """\nx""" y"""}',
        '{"a": """ x",\n "b": """}',
        '{"a": """\nx',
    ],
)
def test_rejects_ambiguous_triple_quotes(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_json(text)


@over(
    "text, value",
    [
        ("{'a': 'it's fine'}", {"a": "it's fine"}),
        ("{'a': 'the dogs' o'clock'}", None),
        (r'{"a": "it\'s fine", b: 2}', {"a": "it's fine", "b": 2}),
        ('["x"y""]', ['x"y"']),
        ('["x"y "]', None),
        ('[""x"y, "]', ['"x"y, ']),
        ("[,]", None),
        ('{"a": [,]}', None),
    ],
)
def test_reads_apostrophes_and_marks_where_they_have_one_meaning(text: str, value: Any) -> None:
    if value is not None:
        assert read_json(text).value == value
        return
    with pytest.raises(UnreadableError):
        read_json(text)


@over(
    "text, is_read",
    [
        ('{"a": "x"', True),
        ('{"a": "x"\nObservation: 3', True),
        ('{"a": "x"</tool_call>', True),
        ('["x"', False),
        ('{"a": ["x"', False),
        ('{"a": {"b": "x"', False),
        ('{"a": "x"</tool_call> "b"', False),
        ('{"a": "x" and more', False),
    ],
)
def test_only_the_last_brace_of_a_whole_object_may_be_missing(text: str, is_read: bool) -> None:
    if is_read:
        assert read_json(text, allow_unclosed=True).value == {"a": "x"}
        return
    with pytest.raises(UnreadableError):
        read_json(text, allow_unclosed=True)


def test_a_value_that_is_nested_too_deeply_is_rejected_whether_it_is_valid_or_not() -> None:
    for text in ("[" * 200, "[" * 200 + "]" * 200, '{"a":' * 200, "[1, " * 200 + "],]" * 200):
        with pytest.raises(UnreadableError, match="nested too deeply"):
            read_json(text)
