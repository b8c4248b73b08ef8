"""A tool as Python: what a model reads of it, and what the type checker of programs reads."""

from __future__ import annotations

import ast
import dataclasses
import datetime as dt
import enum
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from archytas_nb.tools.declaration import (
    declaration,
    python_name,
    records,
    stubs,
)
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import ByName, LiveNamespace

GOLDEN = Path(__file__).parent / "golden"


@dataclasses.dataclass
class Order:
    id: int
    parts: list[Order]
    _hidden: int = 0


class Row(TypedDict):
    price: float
    note: str


class Model(BaseModel):
    x: float
    order: Order | None = None


class Point(NamedTuple):
    x: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def average(
    measure: Literal["bill", "body"], species: str = "all", digits: int | None = None
) -> float:
    """The average of a measure.

    Only of birds that were measured.

    Args:
        measure (str): What is measured.
        species: Of which species;
            all of them by default.

    Returns:
        float: The average in mm.
    """
    return 0.0


def find(when: dt.date | None = None, color: Color = Color.RED, *, number: int) -> Order:
    """Find an order."""
    raise NotImplementedError


def save(order: Order, rows: list[Row], limits: dict[str, float]) -> None:
    """Save orders.

    Args:
        order: What is saved.
    """


def rows() -> list[Row]:
    """All rows."""
    return []


def plot(df: pd.DataFrame, function: Callable[[int], int], text: Annotated[str, ByName]) -> Any:
    """Plot a frame."""


def points(namespace: LiveNamespace, model: Model) -> Iterator[Point]:
    """Points."""
    yield Point(1)


def frame(size: Annotated[int, Field(gt=0, description="How large")]) -> pd.DataFrame | None:
    r"""A frame with "quotes", \backslashes and \"\"\"."""
    return None


def plain(x):  # type: ignore[no-untyped-def]
    return x


plain.__annotations__ = {"x": Any}
TOOLS = [Tool.from_function(f) for f in (average, find, save, rows, plot, points, frame, plain)]


def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def stub(tool: Tool) -> str:
    """The declaration of one tool for the type checker."""
    return stubs([tool]).removeprefix(stubs([]))


def test_what_a_model_and_the_type_checker_read_is_the_golden_text() -> None:
    text = "\n\n".join(map(declaration, TOOLS)) + "\n\n\n# stubs\n" + stubs(TOOLS, ["df"])
    path = GOLDEN / "declarations.txt"
    if os.environ.get("ARCHYTAS_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", TOOLS, ids=lambda each: each.name)
def test_both_texts_are_one_function_of_python(tool: Tool) -> None:
    [function] = parsed(declaration(tool)).body
    assert isinstance(function, ast.FunctionDef)
    *classes, stubbed = parsed(stub(tool)).body
    assert isinstance(stubbed, ast.FunctionDef)
    assert all(isinstance(each, ast.ClassDef) for each in classes)
    assert function.name == stubbed.name == python_name(tool)
    visible = [each.name for each in tool.parameters if not each.injected]
    for each in (function, stubbed):
        assert [arg.arg for arg in [*each.args.args, *each.args.kwonlyargs]] == visible


def test_the_docstring_says_nothing_that_the_signature_says() -> None:
    text = declaration(TOOLS[0])
    assert text.count("What is measured") == 1
    assert "(str)" not in text
    assert text.count("float") == 1
    assert "all of them by default" in text


def test_declarations_are_made_once_and_only_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from archytas_nb.tools import declaration as module

    made: list[Tool] = []
    original = module._declaration
    monkeypatch.setattr(module, "_declaration", lambda tool: made.append(tool) or original(tool))
    tool = Tool.from_function(average)
    assert made == []
    assert declaration(tool) == declaration(tool)
    assert made == [tool]


def test_the_records_are_named_with_their_fields() -> None:
    found = records(TOOLS)
    assert found["Order"].fields == ("id", "parts")
    assert not found["Order"].is_dict
    assert found["Row"].is_dict
    assert found["Row"].fields == ("price", "note")
    assert found["DataFrame"].fields == ("shape", "columns")
    assert found["DataFrame"].is_outside


def test_two_records_of_one_name_are_two_classes() -> None:
    def make(kind: type, name: str) -> Tool:
        def tool() -> Any:
            """A tool."""

        cls = dataclasses.make_dataclass("Same", [("value", kind)])
        tool.__annotations__["return"] = cls
        return Tool.from_function(tool, name)

    tools = [make(int, "one"), make(str, "two")]
    assert set(records(tools)) == {"Same", "Same_2"}
    assert "-> Same_2:" in stubs(tools)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("average", "average"), ("get-price", "get_price"), ("3d", "_3d"), ("class", "class_"),
        ("sum", "sum_"), ("answer", "answer_"), ("show", "show_"), ("print", "print_"), ("-", "_"),
    ],
)  # fmt: skip
def test_a_name_is_one_that_python_accepts_and_that_nothing_else_has(
    name: str, expected: str
) -> None:
    assert python_name(Tool.from_function(average, name)) == expected


@pytest.mark.parametrize(
    ("annotation", "argument", "result"),
    [
        (int, "int", "int"),
        (float, "float", "float"),
        (bool, "bool", "bool"),
        (dt.date, "_datetime.date | str", "_datetime.date"),
        (list[int], "_abc.Iterable[int]", "list[int]"),
        (list, "_abc.Iterable[_typing.Any]", "list"),
        (Sequence[float], "_abc.Iterable[float]", "list[float]"),
        (tuple[int, str], "_abc.Iterable[_typing.Any]", "tuple[int, str]"),
        (tuple[int, ...], "_abc.Iterable[int]", "tuple[int, ...]"),
        (set[str], "_abc.Iterable[str]", "set[str]"),
        (dict[str, float], "_abc.Mapping[_typing.Any, float]", "dict[str, float]"),
        (Mapping[str, int], "_abc.Mapping[_typing.Any, int]", "dict[str, int]"),
        (list[Literal["a"]], "_abc.Iterable[_typing.Any]", "list[_typing.Literal['a']]"),
        (int | None, "int | None", "int | None"),
        (int | Any, "_typing.Any", "_typing.Any"),
        (Literal["a", 1, None], "_typing.Literal['a', 1, None]", "_typing.Literal['a', 1, None]"),  # noqa: PYI061
        (Color, "_typing.Literal['red', 'blue']", "_typing.Literal['red', 'blue']"),
        (pd.DataFrame, "_typing.Any", "DataFrame"),
        (Path, "_typing.Any", "_typing.Any"),
        (object, "_typing.Any", "_typing.Any"),
        (Order, "Order | _abc.Mapping[str, _typing.Any]", "Order"),
        (complex, "_typing.Any", "_typing.Any"),
    ],
)
def test_the_type_checker_reads_types_that_refuse_nothing_valid(
    annotation: Any, argument: str, result: str
) -> None:
    def tool(value: Any) -> Any:
        """A tool."""

    tool.__annotations__ = {"value": annotation, "return": annotation}
    [line] = [each for each in stub(Tool.from_function(tool)).split("\n") if "def tool(" in each]
    assert line == f"def tool(value: {argument}) -> {result}: ..."


# ── hostile names, texts and values ───────────────────────────────────────────────────────────────

HOSTILE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            '"""\nimport os', "'''", '\\"""', '"', '\\', 'a"', "\\\n", "x) -> None: ...\nimport os",
            "\u202e\u2066", "\ud800", "{}", "`x`", "\0", "\r\nimport os", '\\"\\"\\"', '""""""',
        ]
    ),
)  # fmt: skip


@given(HOSTILE, HOSTILE.filter(lambda text: text.isascii() or "\ud800" not in text), HOSTILE)
def test_no_text_of_a_tool_leaves_its_place(doc: str, choice: str, default: str) -> None:
    def tool(value: Any, other: str = default) -> Any:
        return value

    tool.__doc__ = doc
    tool.__annotations__ = {"value": Literal[choice], "other": str, "return": Literal[choice]}
    made = Tool.from_function(tool)
    [function] = parsed(declaration(made)).body
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 1
    assert isinstance(function.body[0], ast.Expr)
    [stubbed] = parsed(stub(made)).body
    assert isinstance(stubbed, ast.FunctionDef)
    assert [arg.arg for arg in stubbed.args.args] == ["value", "other"]
    assert declaration(made).isprintable() or "\n" in declaration(made)
    for line in declaration(made).split("\n"):
        assert line.isprintable()


@pytest.mark.parametrize(
    "name", ["x\nimport os", "Order]): ...\nimport os #", "a b", "", "print", "é"]
)
def test_no_name_of_a_class_leaves_its_place(name: str) -> None:
    record = dataclasses.make_dataclass("Record", [("value", int)])
    record.__name__ = name
    record.__qualname__ = name

    def tool(value: Any) -> Any:
        """A tool."""

    tool.__annotations__ = {"value": record, "return": record}
    made = Tool.from_function(tool)
    [function] = parsed(declaration(made)).body
    assert isinstance(function, ast.FunctionDef)
    kinds = [type(each) for each in parsed(stub(made)).body]
    assert kinds == [ast.ClassDef, ast.FunctionDef]


def test_a_default_that_is_no_plain_value_is_not_written() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "x): ...\nimport os"

    def tool(value: Any = Odd(), number: float = float("nan"), text: str = "x" * 999) -> None:  # noqa: B008
        """A tool."""

    made = Tool.from_function(tool)
    assert declaration(made).count("= ...") == 3
    assert "import os" not in declaration(made)


def test_variables_of_the_notebook_are_known_and_none_leaves_its_place() -> None:
    text = stubs([], ["df", "x: int\nimport os", "class", "answer", "é"])
    assert "\ndf: _typing.Any\n" in text
    assert "\né: _typing.Any\n" in text
    assert "import os" not in text
    assert text.count("def answer(") == 1


def test_the_signature_of_every_declaration_is_that_of_the_function() -> None:
    namespace: dict[str, Any] = {"date": dt.date, "Literal": Literal, "Order": Order}
    code = f"from __future__ import annotations\n{declaration(TOOLS[0])}"
    exec(code, namespace)
    written = inspect.signature(namespace["average"])
    assert list(written.parameters) == ["measure", "species", "digits"]
    assert written.parameters["species"].default == "all"
