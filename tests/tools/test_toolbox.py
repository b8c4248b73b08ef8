"""Tools by name, in order, and the decorator that leaves the function as it is."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from archytas_nb.errors import ToolError
from archytas_nb.tools import toolbox as module
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, tool


@pytest.fixture(autouse=True)
def box(monkeypatch):
    fresh = Toolbox()
    monkeypatch.setattr(module, "toolbox", fresh)
    return fresh


def make(name, text="Do it."):
    def f() -> str:
        return text

    f.__name__, f.__doc__ = name, text
    return f


def test_the_four_spellings_register_and_return_the_function_itself(box):
    one, two, three, four = (make(name) for name in ("one", "two", "three", "four"))
    assert tool(one) is one
    assert tool()(two) is two
    assert tool(name="drei")(three) is three

    @tool
    def five() -> None:
        """Do."""

    assert tool(four) is four
    assert list(box) == ["one", "two", "drei", "five", "four"]
    assert five() is None
    assert one() == "Do it."


def test_options_of_the_decorator_reach_the_tool(box):
    tool(approve=True, timeout=2.5, max_chars=100, repeat=True)(make("f"))
    made = box["f"]
    assert (made.approve, made.timeout, made.max_chars, made.repeat) == (True, 2.5, 100, True)


def test_a_decorated_function_keeps_its_options_in_another_toolbox(box):
    @tool(approve=True, timeout=3)
    def f() -> int:
        """Do."""
        return 1

    [kept] = Toolbox(f).values()
    assert (kept.approve, kept.timeout) == (True, 3)


def test_an_unknown_option_is_refused_before_there_is_a_function():
    with pytest.raises(ToolError, match="no option 'timeot'; write timeout=…"):
        tool(timeot=3)


def test_rejects_names_that_endpoints_reject(box):
    for name in ["", "final_answer", "fail_task", "final.answer", "a b", "größe", "x" * 65]:
        with pytest.raises(ToolError):
            tool(name=name)(make("f"))
        assert not box


def test_a_dotted_name_is_made_legal_and_found_by_both_names():
    box = Toolbox()
    added = box.add(make("f"), name="math.factorial")
    assert (added.name, added.source_name) == ("math_factorial", "math.factorial")
    assert box["math.factorial"] is box["math_factorial"] is added
    assert "math.factorial" in box
    assert "math-factorial" not in box


def test_rejects_two_names_that_become_equal():
    box = Toolbox()
    box.add(make("f"), name="a.b")
    with pytest.raises(ToolError, match=r"'a\.b' and 'a_b' both become 'a_b'"):
        box.add(make("f"), name="a_b")


def test_a_new_definition_replaces_the_old_one_in_its_place():
    box = Toolbox(make("a"), make("b"))
    for _ in range(3):
        box.add(make("a", "New."))
    assert list(box) == ["a", "b"]
    assert "New." in box["a"].text


def test_a_run_in_progress_keeps_the_tool_it_started_with():
    box = Toolbox(make("a", "Old."))
    started = box.active()
    box.add(make("a", "New."))
    box.remove("a")
    assert "Old." in started["a"].text


def test_an_unknown_name_suggests_the_nearest_and_lists_all():
    with pytest.raises(KeyError) as caught:
        Toolbox(make("count_rows"), make("other"))["count_row"]
    assert str(caught.value) == (
        "no tool is named 'count_row', did you mean 'count_rows'? registered: count_rows, other"
    )
    with pytest.raises(KeyError, match="registered: none"):
        Toolbox().remove("x")


def test_disabled_tools_are_listed_but_not_offered():
    box = Toolbox(make("a"), make("b"))
    box.disable("a")
    assert list(box) == ["a", "b"]
    assert list(box.active()) == ["b"]
    assert not box.is_enabled("a")
    box.enable("a")
    assert list(box.active()) == ["a", "b"]


def test_a_tool_that_is_removed_and_added_again_is_offered():
    box = Toolbox(make("a"))
    box.disable("a")
    box.remove("a")
    box.add(make("a"))
    assert box.is_enabled("a")


def test_only_returns_a_new_toolbox_in_the_requested_order():
    box = Toolbox(make("a"), make("b"), make("c"))
    assert list(box.only("c", "a")) == ["c", "a"]
    assert len(box) == 3


def test_a_snapshot_restores_tools_order_and_disabled_tools():
    box = Toolbox(make("a"), make("b"))
    box.disable("b")
    before = box.snapshot()
    box.add(make("c"))
    box.remove("a")
    box.enable("b")
    box.restore(before)
    assert (list(box), list(box.active())) == (["a", "b"], ["a"])


def test_a_class_gives_its_decorated_methods():
    class Desk:
        """A desk."""

        @tool(name="look")
        def see(self) -> str:
            """Look."""
            return "seen"

        @tool
        @staticmethod
        def ring() -> str:
            """Ring."""
            return "rung"

        def public(self) -> str:
            return "not decorated, and no tool"

    box = Toolbox(Desk)
    assert list(box) == ["look", "ring"]
    assert [box["look"].call(None).value, box["ring"].call(None).value] == ["seen", "rung"]


def test_a_decorated_class_registers_its_methods_and_stays_a_class(box):
    @tool
    class Desk:
        """A desk."""

        @tool
        def see(self) -> str:
            """Look."""
            return "seen"

    assert isinstance(Desk, type)
    assert list(box) == ["see"]


def test_a_class_or_object_without_decorated_methods_gives_the_public_ones():
    class Desk:
        def __init__(self, colour: str):
            self.colour = colour

        def see(self) -> str:
            """Look."""
            return self.colour

        def _hidden(self) -> None:
            pass

    assert Toolbox(Desk("red"))["see"].call(None).value == "red"
    with pytest.raises(ToolError, match=r"fails without arguments.*Toolbox\(Desk\(…\)\)"):
        Toolbox(Desk)


def test_rejects_an_unbound_method_with_one_fault():
    class Desk:
        def see(self) -> str:
            """Look."""
            return "seen"

    with pytest.raises(ToolError, match="an unbound method"):
        Toolbox().add(Desk.see)


def test_rejects_a_value_that_is_not_a_tool():
    for value in ("count", 3):
        with pytest.raises(ToolError, match=f"{value!r} cannot be a tool; expected a function"):
            Toolbox(value)


def test_a_list_of_which_one_function_is_faulty_adds_none():
    box = Toolbox()
    with pytest.raises(ToolError, match="'a b'"):
        box.extend([make("good"), make("a b")])
    assert not box
    assert [each.name for each in box.extend([make("one"), (make("two"),)])] == ["one", "two"]


def test_a_class_of_which_one_method_is_faulty_adds_none():
    class Desk:
        def a(self) -> str:
            """Fine."""
            return ""

        def b(self, x) -> str:
            """Not fine."""
            return ""

    box = Toolbox()
    with pytest.raises(ToolError, match="no annotation"):
        box.extend(Desk)
    assert not box


def test_a_toolbox_in_a_toolbox_adds_its_enabled_tools():
    inner = Toolbox(make("a"), make("b"))
    inner.disable("a")
    assert list(Toolbox(inner, make("c"))) == ["b", "c"]


def test_a_tool_is_added_unchanged_and_made_again_if_options_are_given():
    box = Toolbox()
    made = Tool.from_function(make("a"))
    assert box.add(made) is made
    again = box.add(made, name="b", repeat=True)
    assert (again.name, again.repeat, again.function) == ("b", True, made.function)


def test_importing_the_toolbox_loads_neither_pydantic_nor_openai():
    heavy = {"pydantic", "openai"}
    code = f"import sys, archytas_nb.tools.toolbox; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ── functions that are changed in place ───────────────────────────────────────────────────────────


def size(width: int, deep: int = 1) -> int:
    """The size.

    Args:
        width: How wide
        deep: How deep
    """
    return width * deep


def other_size(width_mm: float, deep: int = 3) -> float:
    """The size in mm.

    Args:
        width_mm: How wide
        deep: How deep
    """
    return width_mm * deep


IN_PLACE = ("__code__", "__defaults__", "__doc__", "__annotations__")


@pytest.fixture
def size_again() -> Iterator[Any]:
    before = {name: getattr(size, name) for name in IN_PLACE}
    yield size
    for name, each in before.items():
        setattr(size, name, each)


def test_a_function_that_was_changed_in_place_is_read_again(size_again: Any) -> None:
    box = Toolbox(size)
    tool = box["size"]
    box.reread()
    assert box["size"] is tool  # nothing has changed, so what was permitted still holds
    for name in IN_PLACE:
        setattr(size_again, name, getattr(other_size, name))
    box.reread()
    assert box["size"] is not tool
    assert "size in mm" in box["size"].text
    assert box["size"].check({"width": 1}) != ()
    assert box["size"].call({"width_mm": 1.5}).value == 4.5


@pytest.mark.parametrize("name", ["__defaults__", "__doc__", "__annotations__"])
def test_each_thing_that_a_model_reads_is_read_again(name: str, size_again: Any) -> None:
    changed = {
        "__defaults__": (7,),
        "__doc__": "Another text.",
        "__annotations__": {"width": str, "deep": int, "return": int},
    }
    box = Toolbox(size)
    before = box["size"]
    setattr(size_again, name, changed[name])
    box.reread()
    assert not box["size"].is_same_to_a_model(before)


def test_a_class_in_an_annotation_that_was_changed_in_place_is_read_again() -> None:
    @dataclass
    class Box:
        deep: int = 1

    @dataclass
    class Changed:
        height: int = 1

    def area(box: Box) -> int:
        """The area.

        Args:
            box: The box
        """
        return 1

    area.__annotations__ = {"box": Box, "return": int}
    tools = Toolbox(area)
    assert "deep" in tools["area"].text
    for name in ("__annotations__", "__dataclass_fields__", "__init__"):
        setattr(Box, name, vars(Changed)[name])
    tools.reread()
    assert "height" in tools["area"].text


def test_a_function_that_cannot_be_a_tool_any_more_is_named(size_again: Any) -> None:
    box = Toolbox(size)
    size_again.__code__ = (lambda width, *rest: 1).__code__
    with pytest.raises(ToolError, match="'size' was changed and can no longer be used as a tool"):
        box.reread()


def test_annotations_that_were_left_behind_are_read_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `%autoreload` may leave them: the code is new, and the annotations have old names."""
    path = tmp_path / "shapes_here.py"
    path.write_text("def area(w: int) -> int:\n    'Area.'\n    return w\n")
    monkeypatch.syspath_prepend(tmp_path)
    shapes_here = importlib.import_module("shapes_here")
    box = Toolbox(shapes_here.area)
    path.write_text("def area(width: float) -> float:\n    'Area.'\n    return width * 2\n")
    made: dict[str, Any] = {}
    exec(path.read_text(), made)
    shapes_here.area.__code__ = made["area"].__code__
    box.reread()
    assert box["area"].call({"width": 1.5}).value == 3.0
    assert "float" in box["area"].text
    del sys.modules["shapes_here"]


@dataclass
class Place:
    name: str


def _with_type(text: Any) -> Callable[..., str]:
    def visit(place: str, often: int = 1, *, loud: bool = False) -> str:
        """Visit a place.

        Args:
            place: Where
            often: How often
            loud: Whether with noise
        """
        return f"{place} {often} {loud}"

    visit.__annotations__["place"] = text
    return visit


def _other_code(function: Any) -> None:
    def visit(place: str, times: int = 1, *, loud: bool = False) -> str:
        """Visit it."""
        return f"{place} {times} {loud}"

    function.__code__ = visit.__code__
    function.__doc__ = visit.__doc__
    function.__annotations__["times"] = function.__annotations__.pop("often")


CHANGES: dict[str, Callable[[Any], object]] = {
    "code": _other_code,
    "doc": lambda f: setattr(f, "__doc__", "Another one."),
    "default": lambda f: setattr(f, "__defaults__", (2,)),
    "default by name": lambda f: f.__kwdefaults__.update(loud=True),
    "annotation": lambda f: f.__annotations__.update(often=float),
}


@pytest.mark.parametrize("kind", ["str", str, list[str], Place, Place | None, Literal["a"]])
@pytest.mark.parametrize("change", [*CHANGES, "a field of the class"])
def test_a_tool_is_read_again_whatever_of_its_function_was_replaced(
    kind: Any, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = _with_type(kind)
    box = Toolbox(function)
    box.reread()
    before = box["visit"]
    box.reread()
    assert box["visit"] is before
    if change in CHANGES:
        CHANGES[change](function)
    else:
        monkeypatch.setitem(Place.__annotations__, "name", int)
        monkeypatch.setattr(Place.__dataclass_fields__["name"], "type", int)
    box.reread()
    assert box["visit"].text == Tool.from_function(function, "visit").text
    assert box["visit"].schema() == Tool.from_function(function, "visit").schema()


def test_a_function_of_plain_types_is_not_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Toolbox(_with_type("str"))
    box.reread()
    monkeypatch.setattr(Tool, "from_function", None)
    box.reread()
