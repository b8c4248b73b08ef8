"""The meaning of annotations: generated ones, and those that once had no end or no meaning."""

import enum
import functools
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NewType, Optional, TypeVar, Union

import pytest
import typing_extensions as te
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, Json, StrictInt

import archytas_nb as nb
from archytas_nb.errors import ToolError
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.annotation import admits_none, type_text
from archytas_nb.tools.declaration import stubs, type_for_programs
from archytas_nb.tools.meaning import inner_type, layers
from archytas_nb.tools.tool import Tool


def taking(annotation: Any, *default: Any, name: str = "f") -> Any:
    """A function that returns its only argument."""

    def f(x):
        return x

    f.__name__ = name
    f.__annotations__ = {"x": annotation, "return": Any}
    f.__defaults__ = default or None
    f.__doc__ = "Return it.\n\nArgs:\n    x: What."
    return f


def defined(source: str, name: str = "f") -> Any:
    """The definitions of a cell."""
    cell = types.ModuleType("cell_of_a_test")
    sys.modules[cell.__name__] = cell  # where the names in its strings are looked up
    exec(source, cell.__dict__)
    return getattr(cell, name)


# ── generated ─────────────────────────────────────────────────────────────────────────────────────


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Point(BaseModel):
    n: int


OPEN: Any = {"extra_items": int} if hasattr(te, "NoExtraItems") else {}  # typing_extensions 4.13


class Kind(typing.NamedTuple):
    """An annotation, the values that it takes as JSON, and some that it refuses."""

    annotation: Any
    good: st.SearchStrategy[Any]
    bad: tuple[Any, ...]


TREE = te.TypeAliasType("TREE", Union[list["TREE"], int])  # noqa: UP007
WORDS = st.text("abc", max_size=3)
SIMPLE = [
    Kind(int, st.integers(-9, 9), ("x", [1], {"k": 1})),
    Kind(str, WORDS, (1, [1])),
    Kind(bool, st.booleans(), ("x", [True])),
    Kind(Literal["a", 3], st.sampled_from(["a", 3]), ("z", [3])),
    Kind(Color, st.sampled_from(["r", "b"]), ("z", 7)),
    Kind(Point, st.fixed_dictionaries({"n": st.integers(0, 9)}), ({"n": "z"}, {"y": 1}, 3)),
    Kind(TREE, st.recursive(st.integers(0, 9), lambda s: st.lists(s, max_size=2), max_leaves=4), ("z", [["z"]])),
    Kind(TypeVar("T", bound=int), st.integers(0, 9), ("x", [1])),
    Kind(NewType("Id", int), st.integers(0, 9), ("x", [1])),
]  # fmt: skip


def listed(of: Kind) -> Kind:
    bad = (7, *([each] for each in of.bad))
    return Kind(list[of.annotation], st.lists(of.good, max_size=2), bad)


def mapped(of: Kind) -> Kind:
    values = st.dictionaries(st.sampled_from("kl"), of.good, max_size=2)
    return Kind(dict[str, of.annotation], values, (7, *({"k": each} for each in of.bad)))


def typed(of: Kind, qualifier: Any = te.ReadOnly, required: bool = True) -> Kind:
    made = te.TypedDict("D", {"k": qualifier[of.annotation]})  # noqa: UP013
    fields = {"k": of.good}
    values = st.fixed_dictionaries(fields if required else {}, optional={} if required else fields)
    bad = (7, *([{}] if required else []), {"q": 1}, *({"k": each} for each in of.bad))
    return Kind(made, values, bad)


def extended(of: Kind) -> Kind:
    made = te.TypedDict("D", {}, extra_items=of.annotation)  # noqa: UP013
    return Kind(made, mapped(of).good, mapped(of).bad)


WRAPPERS: list[Callable[[Kind], Kind]] = [
    listed,
    mapped,
    typed,
    *([extended] if OPEN else []),
    lambda of: typed(of, te.NotRequired, required=False),
    lambda of: of._replace(annotation=Annotated[of.annotation, "words", Field(description="d")]),
    lambda of: of._replace(annotation=te.TypeAliasType("A", of.annotation)),
    lambda of: of._replace(annotation=NewType("N", of.annotation)),
    lambda of: of._replace(annotation=TypeVar("T", bound=of.annotation)),
    lambda of: of._replace(annotation=Annotated[te.TypeAliasType("A", Annotated[of.annotation, 1]), 2]),
    lambda of: Kind(Optional[of.annotation], of.good | st.none(), of.bad),  # noqa: UP045
    lambda of: Kind(
        te.TypedDict("R", {"v": of.annotation, "next": "Any"}),
        st.fixed_dictionaries({"v": of.good, "next": st.just(1)}),
        (7, {}, *({"v": each, "next": 1} for each in of.bad)),
    ),
]  # fmt: skip


@st.composite
def kinds(draw) -> Kind:
    kind = draw(st.sampled_from(SIMPLE))
    for wrap in draw(st.lists(st.sampled_from(WRAPPERS), max_size=4)):
        kind = wrap(kind)
    return kind


@given(kinds(), st.data())
def test_what_an_annotation_permits_is_taken_and_nothing_else(kind: Kind, data: Any) -> None:
    tool = Tool.from_function(taking(kind.annotation))
    json.dumps(tool.schema())
    json.dumps(tool.schema("simple"))
    good = data.draw(kind.good)
    assert tool.check({"x": good}) == ()
    assert tool.call({"x": good}).status == "done"
    for bad in kind.bad:
        faults = tool.check({"x": bad})
        assert faults, (kind.annotation, bad)
        assert all(each.startswith("x") for each in faults)


@given(kinds())
def test_whatever_walks_through_an_annotation_ends(kind: Kind) -> None:
    annotation = kind.annotation
    assert type_text(annotation)
    assert isinstance(admits_none(annotation), bool)
    assert list(layers(annotation))
    assert inner_type(inner_type(annotation)) == inner_type(annotation)
    assert type_for_programs(annotation)
    assert stubs([Tool.from_function(taking(annotation))])


# ── aliases that contain themselves (the statement is Python 3.12's) ───────────────────────────────


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`type` is a statement of Python 3.12")
@pytest.mark.parametrize(
    ("aliases", "good", "bad"),
    [
        ("type J = dict[str, J] | list[J] | str | int | None", {"a": [1, None, {"b": "c"}]}, None),
        ("type J = list[J] | int", [[1], 2], [["x"]]),
        ("type J = list[K] | int\ntype K = dict[str, J]", [{"a": [{"b": 1}]}], [{"a": "x"}]),
        ("type J = list[K]\ntype K = list[L]\ntype L = list[J] | int", [[1, [[[2]]]]], [["x"]]),
        ("type J = list['J'] | int", [[1]], ["x"]),
        ("type T[X] = list[T[X]] | X\ntype J = T[int]", [[1], 2], ["x"]),
        ("type P[X] = dict[str, X]\ntype J = P[int]", {"a": 1}, {"a": "x"}),
        ("type O[X, Y] = dict[Y, X]\ntype J = O[int, str]", {"a": 1}, {"a": "x"}),
        ("type I[X] = X\ntype J = I[int]", 1, "x"),
        ("from typing import *\ntype J = Annotated[list[J] | int, 'words']", [1], ["x"]),
        (
            "from typing import *\nclass D(TypedDict):\n    j: 'J'\ntype J = list[D] | int",
            [{"j": 1}],
            [{"j": "x"}],
        ),
        (
            "from dataclasses import *\n@dataclass\nclass J:\n    j: 'list[J]'",
            {"j": [{"j": []}]},
            {"j": 1},
        ),
    ],
)
def test_an_alias_that_contains_itself_is_checked(aliases: str, good: Any, bad: Any) -> None:
    for annotation in ("J", "list[J]", "J | None"):
        f = defined(f"{aliases}\ndef f(x: {annotation}) -> object:\n    'F.'\n    return x")
        tool = Tool.from_function(f)
        json.dumps(tool.schema("simple"))
        assert stubs([tool])
        wrap = (lambda value: [value]) if annotation == "list[J]" else (lambda value: value)
        assert tool.check({"x": wrap(good)}) == ()
        if bad is not None:
            assert tool.check({"x": wrap(bad)})


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`type` is a statement of Python 3.12")
@pytest.mark.parametrize(
    "alias",
    [
        "type J = J", "type J = K\ntype K = J", "type J = Missing", "type J = list[Missing]",
        "type J = list[J] | Missing", "type J = J | int", "type J = list[K]\ntype K = K | J", "type J = 1 / 0", "type J[X] = J[list[X]]",
        "import pandas as pd\ntype J = list[J] | pd.DataFrame",
    ],
)  # fmt: skip
def test_an_alias_that_stands_for_nothing_is_refused_with_its_parameter(alias: str) -> None:
    f = defined(f"{alias}\ndef f(x: J) -> int:\n    'F.'\n    return 1")
    with pytest.raises(ToolError, match="'x'"):
        Tool.from_function(f)
    f = defined(f"{alias}\ndef f(x: int) -> J:\n    'F.'\n    return 1")
    assert Tool.from_function(f).call({"x": 1}).value == 1


def test_an_alias_of_the_backport_is_followed() -> None:
    assert Tool.from_function(taking(TREE)).check({"x": [["y"]]})
    assert "TREE is list[TREE] | int" in Tool.from_function(taking(list[TREE])).text


# ── names that are not defined ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize(
    "head",
    ["x: Missing", "x: list[Missing]", "x: Missing | None = None", "*, x: 'dict[str, Missing]'"],
)
def test_an_undefined_name_is_told_with_its_parameter(future: str, head: str) -> None:
    if not future and sys.version_info < (3, 14):
        head = head.replace("'", "").replace(": ", ": '").replace(" = None", "' = None")
        head += "" if head.endswith("None") else "'"
    f = defined(f"{future}def f({head}) -> int:\n    'F.'\n    return 1")
    with pytest.raises(ToolError) as caught:
        Tool.from_function(f)
    assert [("'x'" in each, "'Missing'" in each) for each in caught.value.faults] == [(True, True)]


def test_each_of_several_undefined_names_is_told() -> None:
    f = defined("def f(a: 'One', b: int, c: 'list[Two]'): 'F.'")
    with pytest.raises(ToolError) as caught:
        Tool.from_function(f)
    assert [("One" in each, "Two" in each) for each in caught.value.faults] == [
        (True, False),
        (False, True),
    ]


def test_a_name_that_nobody_needs_need_not_be_defined() -> None:
    f = defined("def f(x: int) -> 'Missing':\n    'F.'\n    return x")
    tool = Tool.from_function(f)
    assert tool.call({"x": 1}).value == 1
    assert any("'Missing'" in each for each in tool.issues)
    bound = functools.partial(
        defined("def f(x: int, y: 'Missing') -> int:\n    'F.'\n    return x"), y=3
    )
    assert Tool.from_function(bound, "f").call({"x": 1}).value == 1
    approve = defined("def approve(x: 'Missing') -> 'Missing':\n    return x > 1", "approve")
    asked = Tool.from_function(f, approve=approve)
    assert asked.check_approval(asked.bind({"x": 2})).required


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated late since 3.14")
def test_names_are_looked_up_when_the_tool_is_made() -> None:
    late = "def f(x: Late) -> int:\n    'F.'\n    return x\nclass Late(int): pass"
    assert Tool.from_function(defined(late)).call({"x": 1}).value == 1
    source = "def outer():\n    class Late(int): pass\n    def f(x: list[Late]) -> int:\n        'F.'\n        return x\n    return f\nf = outer()"
    assert Tool.from_function(defined(source)).check({"x": ["y"]})
    broken = "def f(x: 1 / 0) -> int:\n    'F.'\n    return x"
    with pytest.raises(ToolError, match="ZeroDivisionError"):
        Tool.from_function(defined(broken))


# ── where a default may stand ─────────────────────────────────────────────────────────────────────

Count = te.TypeAliasType("Count", Annotated[int, Field(default=4)])


@pytest.mark.parametrize(
    ("annotation", "default", "value"),
    [
        (Annotated[int, Field(1)], (), 1),
        (Annotated[int, Field(default=1, ge=0)], (), 1),
        (Annotated[int, Field(default=1)], (2,), 2),
        (Annotated[int, Field(default=1)], (Field(ge=0),), 1),
        (Annotated[int, Field(default=1)], (Field(3, ge=0),), 3),
        (Annotated[Annotated[int, Field(default=1)], Field(default=2)], (), 2),
        (Annotated[Annotated[int, Field(default=1)], Field(ge=0)], (), 1),
        (Count, (), 4),
        (Annotated[Count, "words"], (), 4),
        (Annotated[Count, Field(default=5)], (), 5),
        (Annotated[list, Field(default_factory=list)], (), []),
        (list, (Field(default_factory=list),), []),
        (Annotated[int | None, Field(default=None)], (), None),
    ],
)
def test_the_nearest_default_wins(annotation: Any, default: Any, value: Any) -> None:
    tool = Tool.from_function(taking(annotation, *default))
    assert tool.call({}).value == value
    assert tool.schema().get("required", []) == []
    assert tool.schema()["properties"]["x"]["default"] == value


def test_a_factory_makes_a_default_for_each_call() -> None:
    numbers = iter(range(9))
    tool = Tool.from_function(taking(Annotated[int, Field(default_factory=lambda: next(numbers))]))
    first, second = tool.call({}).value, tool.call({}).value
    assert second == first + 1
    with pytest.raises(ToolError, match=r"'x'.*default"):
        Tool.from_function(taking(Annotated[int, Field(default_factory=lambda data: 1)]))


def test_a_mark_in_the_place_of_a_default_is_none() -> None:
    tool = Tool.from_function(taking(int, "__no__default__"))
    assert tool.schema()["required"] == ["x"]
    assert any("__no__default__" in each for each in tool.issues)
    for annotation, fits in ((Color, "r"), (float, 1), (int, None), (str, "text"), (int, object())):
        assert "required" not in Tool.from_function(taking(annotation, fits)).schema()


# ── what the model does not send ──────────────────────────────────────────────────────────────────

Runs = te.TypeAliasType("Runs", nb.CurrentRun | None)


@pytest.mark.parametrize(
    "annotation",
    [
        nb.CurrentRun, nb.CurrentRun | None, Optional[nb.CurrentRun], Annotated[nb.CurrentRun, "words"],  # noqa: UP045
        Annotated[nb.CurrentRun | None, "words"], Annotated[nb.CurrentRun, 1] | None, "nb.CurrentRun | None", Runs,
        NewType("R", nb.CurrentRun), TypeVar("R", bound=nb.CurrentRun),
    ],
)  # fmt: skip
def test_the_run_is_given_wherever_it_stands(annotation: Any) -> None:
    seen = []

    def f(x: int, run=None) -> int:
        """F.

        Args:
            x: X.
        """
        seen.append(run)
        return x

    f.__annotations__ = {"x": int, "run": annotation, "return": int}
    assert list(Tool.from_function(f).schema()["properties"]) == ["x"]
    nb.Agent([f], model=ScriptedModel(("f", {"x": 1}), ("final_answer", "Done."))).run("go")
    assert isinstance(seen[0], nb.CurrentRun)
    assert Tool.from_function(f).call({"x": 1}).value == 1  # without a run: its default
    assert seen[1] is None


# ── typed dicts and keywords ──────────────────────────────────────────────────────────────────────


class Options(te.TypedDict):
    a: int
    b: te.NotRequired[Annotated[int, Field(ge=0)]]


Open: Any = te.TypedDict("Open", {"a": te.ReadOnly[str]}, **OPEN)


T = TypeVar("T")


class Of(te.TypedDict, typing.Generic[T]):
    v: T


def test_keywords_that_a_typed_dict_describes_are_arguments() -> None:
    def f(x: int, **options: te.Unpack[Options]) -> list:
        """F.

        Args:
            x: X.
            a: A.
            **options: Others.
        """
        return [x, options]

    tool = Tool.from_function(f)
    assert list(tool.schema()["properties"]) == ["x", "a", "b"]
    assert tool.schema()["required"] == ["x", "a"]
    assert tool.call({"x": 1, "a": 2}).value == [1, {"a": 2}]
    assert tool.call({"x": 1, "a": 2, "b": 3}).value == [1, {"a": 2, "b": 3}]
    assert tool.call({"x": 1, "a": 2, "b": None}).value == [1, {"a": 2}]
    assert [each.split(": ")[0] for each in tool.check({"x": 1, "b": -1, "c": 1})] == [
        "a",
        "b",
        "c",
    ]
    bound = tool.bind({"x": 1, "a": 2})
    assert tool.arguments(bound) == {"x": 1, "a": 2}


@pytest.mark.skipif(not OPEN, reason="needs typing_extensions 4.13")
def test_keywords_may_be_open_and_generic() -> None:
    def f(**others: te.Unpack[Open]) -> dict:
        """F."""
        return others

    tool = Tool.from_function(f)
    assert tool.call({"a": "x", "k": 1}).value == {"a": "x", "k": 1}
    assert tool.check({"a": "x", "k": "text"})
    assert tool.schema()["additionalProperties"] == {"type": "integer"}
    run = nb.Agent([f], ScriptedModel("answer(f(a='x', k=2))"), protocol="program").run("go")
    assert json.loads(run.answer) == {"a": "x", "k": 2}

    def g(**of: te.Unpack[Of[int]]) -> dict:
        """G."""
        return of

    assert Tool.from_function(g).check({"v": "text"})


def test_keywords_that_cannot_be_parameters_are_refused() -> None:
    bad = te.TypedDict("bad", {"x": int, "class": int})

    def f(x: int, **of: te.Unpack[bad]) -> None:
        """F."""

    def g(**of: te.Unpack[bad]) -> None:
        """G."""

    def h(**of: int) -> None:
        """H."""

    for each, word in ((f, "'x'"), (g, "'class'"), (h, "of")):
        with pytest.raises(ToolError, match=word):
            Tool.from_function(each)


OPEN_OR_CLOSED: list[Any] = []
if OPEN:
    closed: Any = {"closed": True}
    never: Any = {"extra_items": te.Never}
    OPEN_OR_CLOSED += [
        (Open, {"a": "x", "z": 2}, {"a": "x", "z": "y"}),
        (te.TypedDict("C", {"a": te.NotRequired[te.ReadOnly[int]]}, **closed), {}, {"b": 1}),
        (te.TypedDict("N", {"a": int}, **never), {"a": 1}, {"a": 1, "b": 1}),
    ]


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Of[int], {"v": 1}, {"v": "x"}),
        (Of[list[Options]], {"v": [{"a": 1}]}, {"v": [{}]}),
        *OPEN_OR_CLOSED,
        (te.TypedDict("P", {"a": int}, total=False), {}, {"a": "x"}),
        (te.TypedDict("Q", {"a": te.Required[int]}, total=False), {"a": 1}, {}),
        (typing.TypedDict("W", {"a": Annotated[typing.NotRequired[int], Field(ge=1)]}), {}, {"a": 0}),
    ],
)  # fmt: skip
def test_qualifiers_of_a_typed_dict_are_read(annotation: Any, good: Any, bad: Any) -> None:
    tool = Tool.from_function(taking(annotation))
    assert tool.call({"x": good}).value == good
    assert tool.check({"x": bad})


def test_qualifiers_in_annotations_that_are_strings_are_read() -> None:
    source = "from __future__ import annotations\nfrom typing import *\nclass D(TypedDict):\n    a: NotRequired[int]\n    b: int"
    tool = Tool.from_function(taking(defined(source, "D")))
    assert tool.check({"x": {"b": 1}}) == ()
    assert tool.check({"x": {"a": 1}})


# ── signatures ────────────────────────────────────────────────────────────────────────────────────


def original(a: int) -> str:
    """F.

    Args:
        a: A.
    """
    return repr(a)


def signed(annotation: Any) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [inspect.Parameter("a", kind, annotation=annotation)], return_annotation=str
    )


def wrapped(*, sign: Any = None, of: Any = original, later: bool = False) -> Any:
    @functools.wraps(of)
    def w(*args, **kwargs):
        return of(*args, **kwargs)

    if sign is not None:
        w.__signature__ = signed(sign)
    if not later:
        return w
    return wrapped(of=w)


class Callable_:
    """F."""

    __name__ = "f"
    __signature__ = signed(str)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return repr(kwargs["a"] if kwargs else args[0])


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (wrapped(), 1), (wrapped(sign=str), "x"), (wrapped(sign="str"), "x"), (wrapped(sign=str, later=True), "x"),
        (wrapped(of=wrapped(sign=str)), "x"), (wrapped(sign=int, of=wrapped(sign=str)), 1), (Callable_(), "x"),
        (functools.partial(wrapped(sign=str)), "x"),
    ],
)  # fmt: skip
def test_a_signature_of_its_own_comes_first(function: Any, takes: Any) -> None:
    tool = Tool.from_function(function, "f")
    assert tool.call({"a": takes}).value == repr(takes)
    assert tool.check({"a": [1]})
    assert tool.schema()["properties"]["a"]["type"] == ("string" if takes == "x" else "integer")


def test_a_context_manager_is_no_tool() -> None:
    import contextlib

    for decorate in (contextlib.contextmanager, contextlib.asynccontextmanager):

        def f():
            """F."""
            yield 1

        with pytest.raises(ToolError, match="context manager"):
            Tool.from_function(decorate(f))

    @functools.wraps(f)
    def listed():
        return f()

    assert Tool.from_function(listed).call(None).value == [1]


# ── fields by other names, strict types, JSON in text ─────────────────────────────────────────────


class Chosen(BaseModel):
    x: int = Field(validation_alias=AliasChoices("one", "two", AliasPath("three", 0)))


class Either(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    x: int = Field(alias="one")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    x: int
    c: Color = Color.RED


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (Chosen, {"one": 5}, {"three": [5]}),
        (Chosen, {"two": 5}, {"x": 5}),
        (Either, {"one": 5}, {"two": 5}),
        (Either, {"x": 5}, {"x": "y"}),
        (list[Either], [{"x": 5}], [{"y": 5}]),
        (Strict, {"x": 5, "c": "b"}, {"x": "5"}),
        (StrictInt, 3, "3"),
        (Annotated[int, Field(strict=True)], 3, "3"),
        (list[StrictInt], [3], ["3"]),
        (int, "3", "x"),
        (Json[list[int]], [1, 2], ["x"]),
        (Json[list[int]], "[1, 2]", "[1, x]"),
        (Json[dict[str, int]], {"a": 1}, {"a": "x"}),
    ],
)
def test_a_value_is_taken_as_pydantic_takes_it(annotation: Any, good: Any, bad: Any) -> None:
    tool = Tool.from_function(taking(annotation))
    assert tool.check({"x": good}) == ()
    assert tool.check({"x": bad})
    assert "x-" not in str(tool.schema())


def test_a_field_that_only_a_path_reads_is_refused_with_the_reason() -> None:
    pathed = type("Pathed", (BaseModel,), {
        "__annotations__": {"x": int}, "x": Field(validation_alias=AliasPath("a", 0)),
    })  # fmt: skip
    for annotation in (pathed, list[pathed], pathed | None):
        with pytest.raises(ToolError, match="AliasPath"):
            Tool.from_function(taking(annotation))
