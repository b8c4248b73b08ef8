"""The text that the model reads, byte for byte."""

from archytas_nb.tools.tool import Tool

EXPECTED = """\
myTool:
    Simple description of what myTool does

    More detailed description of the tool. This can be multiple lines.
    Explain more what the tool does, and what it is used for.
    Do not use python syntax in the description (since the LLM doesn't call functions that way).

    _input_: a json object with the following fields:
    {
        "a": # (int) Description of a
        "b": # (str) Description of b
        "c": # (bool) Description of c
        "d": # (dict, optional) Description of d. Defaults to {}.
    }
    _output_: (dict) Description of the return value"""


def myTool(a: int, b: str, c: bool, d: dict = None) -> dict:  # noqa: RUF013
    """
    Simple description of what myTool does

    More detailed description of the tool. This can be multiple lines.
    Explain more what the tool does, and what it is used for.
    Do not use python syntax in the description (since the LLM doesn't call functions that way).

    Args:
        a (int): Description of a
        b (str): Description of b
        c (bool): Description of c
        d (dict): Description of d. Defaults to {}.

    Returns:
        dict: Description of the return value
    """
    return {"a": a, "b": b, "c": c, "d": d}


def test_the_reference_example_reads_byte_for_byte():
    assert Tool.from_function(myTool).text == EXPECTED


def test_a_docstring_without_summary_leaves_its_lines_out():
    def f(a: int, b: int) -> int:
        """
        Args:
            a: first
            b: second
        """
        return a + b

    assert Tool.from_function(f).text == (
        "f:\n"
        "    _input_: a json object with the following fields:\n"
        "    {\n"
        '        "a": # (int) first\n'
        '        "b": # (int) second\n'
        "    }\n"
        "    _output_: (int)"
    )


def test_no_argument_and_no_result_are_none():
    def ping() -> None:
        """Say that you are there."""

    assert (
        Tool.from_function(ping).text
        == "ping:\n    Say that you are there.\n\n    _input_: None\n    _output_: None"
    )


def test_one_simple_argument_is_described_without_an_object():
    def ask(q: str = "x") -> str:
        """Ask.

        Args:
            q: What to ask.
        """
        return q

    assert (
        "    _input_: (str, optional) What to ask.\n    _output_: (str)"
        in Tool.from_function(ask).text
    )


def test_a_description_of_several_lines_is_indented_under_its_field():
    def f(a: int, b: str) -> str:
        """Do it.

        Args:
            a: first line
                second line

                after a blank line
            b: other

        Returns:
            One line
            and another
        """
        return b * a

    text = Tool.from_function(f).text
    assert (
        '        "a": # (int) first line\n            second line\n\n            after a blank line\n'
        in text
    )
    assert text.endswith("    _output_: (str) One line\n        and another")
    assert all(line == line.rstrip() for line in text.split("\n"))
