"""A function that cannot be a tool is told everything that is wrong with it, with the line to change."""

from __future__ import annotations

import math

import pytest

from archytas_nb.errors import ToolError
from archytas_nb.tools.tool import Tool


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
        "the name 'final_answer' is reserved: it ends a run; choose another with @tool(name=\"…\")",
        (
            "*rest cannot be described to a model: name each argument"
            " (a wrapper keeps its function's signature with functools.wraps)"
        ),
        "the argument 'a' has no annotation: write a: int",
        (
            "the docstring describes 'c', which is not an argument: remove it, or add it to the signature"
            " (the signature has {'a', 'b'}, the docstring describes {'a', 'c'})"
        ),
        (
            "the docstring does not describe 'b': add the line 'b: <what it is>' to Args"
            " (the signature has {'a', 'b'}, the docstring describes {'a', 'c'})"
        ),
    )


def test_a_name_that_differs_is_answered_with_the_nearest_one():
    def f(colour: str) -> None:
        """Paint.

        Args:
            color: Which.
        """

    (fault,) = faults(f)
    assert fault == (
        "the docstring describes 'color', which is not an argument: did you mean 'colour'?"
        " (the signature has {'colour'}, the docstring describes {'color'})"
    )


def test_a_missing_docstring_is_an_issue():
    def f(a: int) -> None: ...

    made = Tool.from_function(f)
    assert made.issues == ('it has no docstring: add one that says what it does, """Like this."""',)
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


def test_keyword_packs_are_refused():
    def f(**options: int) -> None:
        """Do."""

    assert faults(f)[0].startswith("**options cannot be described")


def test_a_lambda_is_refused_in_words():
    assert "a lambda has no name" in faults(lambda: None)[0]


def test_an_annotation_that_is_not_defined_is_named():
    def f(a: Missing) -> None:  # noqa: F821
        """Do.

        Args:
            a: One.
        """

    assert faults(f) == (
        "the annotation 'Missing' is not defined: define or import it before the function",
    )


def test_an_annotation_that_is_no_type_is_named():
    def f(a: 3) -> None:
        """Do.

        Args:
            a: One.
        """

    f.__annotations__["a"] = 3
    assert any("'a'" in fault or "annotation" in fault for fault in faults(f))


@pytest.mark.parametrize("thing", [3, "text", None, object()])
def test_what_cannot_be_called_is_refused(thing):
    with pytest.raises(ToolError, match="cannot be called"):
        Tool.from_function(thing)


def test_a_builtin_function_takes_any_value_and_says_so():
    made = Tool.from_function(math.sqrt)
    assert made.call({"x": 9}).value == made.call(9).value == 3.0
    assert made.call({"x": "nine"}).status == "error"
    assert any("'x' has no annotation" in issue for issue in made.issues)
    assert "square root" in made.text


def test_a_function_without_annotations_is_refused():
    def f(x):
        """Do."""

    assert any("'x' has no annotation" in fault for fault in faults(f))


def test_docstring_and_signature_that_differ_without_harm_are_issues():
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
        "the docstring calls 'a' optional, but it has no default in the signature: it is required",
        "the docstring gives 'a' the type 'str', the signature 'int': the signature counts",
        "the docstring says that it returns 'str', the signature 'int': the signature counts",
    )
    assert Tool.from_function(f).schema()["required"] == ["a"]


def test_a_missing_return_annotation_is_an_issue():
    def f():
        """Do."""

    made = Tool.from_function(f)
    assert made.text.endswith("_output_: (Any)")
    assert made.issues == ("the return annotation is missing: the model reads (Any)",)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("string", str), ("integer", int), ("boolean", bool), ("dictionary", dict), ("list of str", list[str]),
     ("Optional[int]", "int | None"), ("List[int]", list[int]), ("int or None", "int | None"), ("number", float),
     ("number", int)],
)  # fmt: skip
def test_other_spellings_of_the_same_type_are_no_issue(written, meant):
    def f(a) -> None: ...

    f.__annotations__["a"] = meant
    f.__doc__ = f"Do.\n\nArgs:\n    a ({written}): One.\n"
    assert Tool.from_function(f).issues == ()
