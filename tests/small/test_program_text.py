"""A program is found in a reply, however the model wrote it."""

from __future__ import annotations

import ast
import html
import textwrap
from string import ascii_letters

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.small.program_text import program_in, requoted

PROGRAM = "n = 1\nif n < 2:\n    n += 1\nanswer(n)"


@pytest.mark.parametrize(
    "reply",
    [
        PROGRAM,
        f"{PROGRAM}\n",
        f"{PROGRAM}\n```\nThis computes it.",
        f"```python\n{PROGRAM}\n```",
        f"```py\n{PROGRAM}\n```",
        f"```\n{PROGRAM}",
        "\n\n" + textwrap.indent(PROGRAM, "    "),
        f"Here is the program:\n```python\n{PROGRAM}\n```\nDone.",
        f"It isn't hard:\n``` python\n{PROGRAM}\n```\nExplanation\n```\n1 / 0\n```",
        html.escape(PROGRAM),
    ],
)
def test_a_program_is_found(reply: str) -> None:
    assert ast.dump(ast.parse(program_in(reply))) == ast.dump(ast.parse(PROGRAM))


@pytest.mark.parametrize("reply", ["n = (1\nanswer(n)", "n = (\n```\nExplanation", "", "```"])
def test_what_is_no_program_stays_as_it_is(reply: str) -> None:
    assert program_in(reply) == reply.split("\n```", maxsplit=1)[0].replace("```", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('f"{df["a"]} m"', "f'{df[" + '"a"' + "]} m'"),
        ("f'{df['a']:.2f}' + f'{x}'", 'f"{df[' + "'a'" + ']:.2f}" + f"{x}"'),
        ("f\"it's {df['a']}\"", "f\"it's {df['a']}\""),
        ('f"it\'s {df["a"]}"', 'f"""it\'s {df["a"]}"""'),
        ('f"{x} " + \'a"\'', 'f"{x} " + \'a"\''),
        ("x = 1", "x = 1"),
    ],
)
def test_quotes_of_f_strings_are_others(text: str, expected: str) -> None:
    assert requoted(text) == expected


@given(st.lists(st.text(ascii_letters + " =%", max_size=5), min_size=1, max_size=4), st.data())
def test_an_f_string_means_the_same_with_other_quotes(
    texts: list[str], data: st.DataObject
) -> None:
    quote, inner = data.draw(st.sampled_from([("'", '"'), ('"', "'"), ('"', '"'), ("'", "'")]))
    names = {each: number for number, each in enumerate(texts)}
    fields = "".join(f"{each}{{d[{inner}{each}{inner}]}}" for each in texts)
    expected = "".join(f"{each}{names[each]}" for each in texts)
    assert eval(requoted(f"f{quote}{fields}{quote}"), {"d": names}) == expected
