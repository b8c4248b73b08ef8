"""Signatures: resolved annotations, types in words, faults of a definition, the text of a tool."""

from __future__ import annotations

import collections.abc
import enum
import math
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NewType, Optional, Union

import numpy as np
import pandas as pd
import pytest
from pydantic import Field

from archytas_nb.errors import ToolError
from archytas_nb.tools.annotation import admits_none, is_simple, type_text
from archytas_nb.tools.tool import Tool


def cell(source: str, namespace: dict) -> None:
    exec(compile(source, "<cell>", "exec"), namespace)


F = '''
def f(p: "Point") -> float:
    """Do.

    Args:
        p: Where.
    """
    return p.x
'''


def test_a_type_of_another_cell_is_found_and_a_new_tool_uses_its_redefinition():
    ns: dict = {}
    cell("from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int", ns)
    cell(F, ns)
    old = Tool.from_function(ns["f"])
    assert old.call({"p": {"x": 1}}).value == 1
    cell("@dataclass\nclass Point:\n    x: int\n    y: int", ns)
    new = Tool.from_function(ns["f"])
    assert new.check({"p": {"x": 1}}) == ("p.y: missing, a value is required here",)
    assert old.check({"p": {"x": 1}}) == ()


def test_a_cell_with_postponed_annotations_works():
    ns: dict = {}
    cell(
        f"from __future__ import annotations\n{F.replace(chr(34) + 'Point' + chr(34), 'list[int]', 1)}",
        ns,
    )
    assert Tool.from_function(ns["f"]).schema()["properties"]["p"]["items"] == {"type": "integer"}


def test_two_types_of_one_name_are_kept_apart():
    def make(field: str):
        return dataclass(type("Row", (), {"__annotations__": {field: int}}))

    one, other = make("a"), make("b")

    def f(x, y) -> str:
        """Do.

        Args:
            x: One.
            y: Other.
        """
        return f"{x} {y}"

    f.__annotations__ |= {"x": list[one], "y": list[other]}
    tool = Tool.from_function(f)
    assert set(tool.schema()["$defs"]) == {"Row", "Row_2"}
    assert tool.check({"x": [{"a": 1}], "y": [{"b": 1}]}) == ()
    assert tool.schema("simple")["properties"]["y"]["items"]["properties"] == {
        "b": {"type": "integer"}
    }


class Color(enum.Enum):
    RED = "r"
    BLUE = 2


class Odd(enum.Enum):
    A = object()


UserId = NewType("UserId", int)


def test_the_text_of_a_type():
    for annotation, text in [
        (str, "str"),
        (None, "None"),
        (Any, "Any"),
        (list, "list"),
        (list[str], "list[str]"),
        (typing.List[int], "list[int]"),  # noqa: UP006
        (typing.List, "list"),  # noqa: UP006
        (dict[str, list[int]], "dict[str, list[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (int | str, "int | str"),
        (Optional[int], "int | None"),  # noqa: UP045
        (Union[str, None, int], "str | None | int"),  # noqa: UP007
        (Literal["a", "b"], "Literal['a', 'b']"),
        (Literal[Color.RED, 1], "Literal['r', 1]"),
        (Color, "Literal['r', 2]"),
        (Odd, "Literal['A']"),
        (Annotated[int, "x"], "int"),
        (UserId, "int"),
        (pd.DataFrame, "DataFrame"),
        (np.ndarray, "ndarray"),
        (collections.abc.Callable[[int], str], "Callable"),
        (collections.abc.Sequence[int], "Sequence[int]"),
        (typing.TypeVar("T"), "Any"),
        (typing.TypeVar("T", bound=int), "int"),
        (typing.TypeVar("T", int, str), "int | str"),
    ]:
        assert type_text(annotation) == text


def test_only_the_four_scalars_are_simple():
    assert all(is_simple(each) for each in (str, int, float, bool, Annotated[str, "x"], UserId))
    assert not any(
        is_simple(each) for each in (list, dict, str | None, Literal["a"], Color, Any, None)
    )


def test_null_is_a_value_of_some_types():
    assert all(admits_none(each) for each in (None, int | None, Any, object, Literal[1, None]))  # noqa: PYI061
    assert not any(admits_none(each) for each in (int, str | int, Literal[1], list[None]))


def faults(f, name=None) -> tuple[str, ...]:
    with pytest.raises(ToolError) as caught:
        Tool.from_function(f, name)
    assert isinstance(caught.value, ValueError)
    assert all(fault in str(caught.value) for fault in caught.value.faults)
    return caught.value.faults


def test_all_faults_are_reported_at_once():
    def f(a, *rest, b: int):
        """Do.

        Args:
            a (int): One.
            c: Three.
        """

    assert faults(f, "final_answer") == (
        "the name 'final_answer' is reserved: it ends the run; choose another with @tool(name=\"…\")",
        "the argument 'a' has no annotation: write a: int",
        (
            "*rest cannot be described to a model: list the arguments by name"
            " (functools.wraps keeps the signature of a decorated function)"
        ),
        (
            "the docstring describes 'c', which is not an argument: remove it, or add it to the signature"
            " (arguments: a, rest, b; described: a, c)"
        ),
    )


def test_a_misnamed_argument_suggests_the_nearest_name():
    def f(colour: str) -> None:
        """Paint.

        Args:
            color: Which.
        """

    (fault,) = faults(f)
    assert fault == (
        "the docstring describes 'color', which is not an argument: did you mean 'colour'?"
        " (arguments: colour; described: color)"
    )


def test_a_missing_docstring_is_an_issue():
    def f(a: int) -> None: ...

    made = Tool.from_function(f)
    assert made.issues == ("it has no docstring: add one that says what the function does",)
    assert made.text == "f:\n    _input_: (int)\n    _output_: None"


def test_arguments_that_are_not_described_are_an_issue():
    def add(a: int, b: int, c: int = 0) -> int:
        """Add numbers.

        Args:
            c: A third one.
        """
        return a + b + c

    made = Tool.from_function(add)
    (issue,) = made.issues
    assert "'a', 'b'" in issue
    assert made.call({"a": 1, "b": 2}).value == 3


def test_rejects_keyword_varargs():
    def f(**options: int) -> None:
        """Do."""

    assert faults(f)[0].startswith("**options cannot be described")


def test_rejects_a_lambda():
    assert "'<lambda>' is not a valid tool name" in faults(lambda: None)[0]


def test_an_annotation_that_is_not_defined_is_named():
    def f(a: Missing) -> None:  # noqa: F821
        """Do.

        Args:
            a: One.
        """

    assert faults(f) == (
        (
            "the annotation of 'a' cannot be used: 'Missing' is not defined:"
            " define or import it before the function"
        ),
    )


def test_the_error_names_an_annotation_that_is_not_a_type():
    def f(a: 3) -> None:
        """Do.

        Args:
            a: One.
        """

    f.__annotations__["a"] = 3
    assert any("'a'" in fault or "annotation" in fault for fault in faults(f))


def test_a_bound_that_pydantic_cannot_build_is_named():
    def f(a: Annotated[str, Field(pattern="(")]) -> None:
        """Do.

        Args:
            a: One.
        """

    (fault,) = faults(f)
    assert fault.startswith("the annotation of 'a' cannot be used:")
    assert "unclosed group" in fault


def test_rejects_what_cannot_be_called():
    for thing in [3, "text", None, object()]:
        with pytest.raises(ToolError, match="cannot be a tool; expected a function"):
            Tool.from_function(thing)


def test_a_builtin_function_takes_any_value_and_has_an_issue():
    made = Tool.from_function(math.sqrt)
    assert made.call({"x": 9}).value == made.call(9).value == 3.0
    assert made.call({"x": "nine"}).status == "error"
    assert any("'x' has no annotation" in issue for issue in made.issues)
    assert "square root" in made.text


def test_a_function_without_annotations_is_refused():
    def f(x):
        """Do."""

    assert any("'x' has no annotation" in fault for fault in faults(f))


def test_harmless_differences_between_docstring_and_signature_are_issues():
    def f(a: int, b: str = "x") -> int:
        """Do.

        Args:
            a (str): One. Defaults to 3.
            b: Two.

        Returns:
            str: Something.
        """
        return a

    assert Tool.from_function(f).issues == (
        "the docstring calls 'a' optional, but it has no default, so it is required",
        "the docstring gives 'a' the type 'str', but its annotation is 'int': the model sees 'int'",
        (
            "the docstring gives the result the type 'str', but its annotation is 'int':"
            " the model sees 'int'"
        ),
    )
    assert Tool.from_function(f).schema()["required"] == ["a"]


def test_a_missing_return_annotation_is_an_issue():
    def f():
        """Do."""

    made = Tool.from_function(f)
    assert made.text.endswith("_output_: (Any)")
    assert made.issues == ("it has no return annotation: the model sees (Any)",)


def test_other_spellings_of_the_same_type_are_not_an_issue():
    for written, meant in [
        ("string", str),
        ("integer", int),
        ("boolean", bool),
        ("dictionary", dict),
        ("list of str", list[str]),
        ("Optional[int]", "int | None"),
        ("List[int]", list[int]),
        ("int or None", "int | None"),
        ("number", float),
        ("number", int),
    ]:

        def f(a) -> None: ...

        f.__annotations__["a"] = meant
        f.__doc__ = f"Do.\n\nArgs:\n    a ({written}): One.\n"
        assert Tool.from_function(f).issues == ()


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


def test_a_missing_argument_and_result_are_written_as_none():
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


def test_a_list_that_should_be_a_type_is_named_with_what_to_write():
    def total(numbers: [int]) -> float:
        """Add."""
        return sum(numbers)

    with pytest.raises(ToolError, match=r"\[<class 'int'>\] is a list, not a type: write list\["):
        Tool.from_function(total)


def test_a_function_of_a_library_is_to_be_called_in_one_of_ones_own():
    with pytest.raises(ToolError) as raised:
        Tool.from_function(pd.read_csv)
    own = "call it in a function that you write"
    head = f"'read_csv' cannot be a tool (it belongs to {pd.read_csv.__module__}: {own}):"
    assert str(raised.value).splitlines()[0] == head
