"""Annotations resolve wherever their types live: other cells, closures, the function that defines the tool."""

from __future__ import annotations

from dataclasses import dataclass

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


def test_a_type_of_another_cell_is_found_and_its_redefinition_counts_for_a_new_tool():
    ns: dict = {}
    cell("from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int", ns)
    cell(F, ns)
    old = Tool.from_function(ns["f"])
    assert old.call({"p": {"x": 1}}).value == 1
    cell("@dataclass\nclass Point:\n    x: int\n    y: int", ns)
    new = Tool.from_function(ns["f"])
    assert new.check({"p": {"x": 1}}) == ("missing, a value is required here @ $.p.y",)
    assert old.check({"p": {"x": 1}}) == ()


def test_a_cell_with_postponed_annotations_works():
    ns: dict = {}
    cell(
        f"from __future__ import annotations\n{F.replace(chr(34) + 'Point' + chr(34), 'list[int]', 1)}",
        ns,
    )
    assert Tool.from_function(ns["f"]).schema()["properties"]["p"]["items"] == {"type": "integer"}


def test_a_type_that_is_local_to_the_defining_function_is_found():
    @dataclass
    class Local:
        x: int

    def f(p: Local) -> int:
        """Do.

        Args:
            p: Where.
        """
        return p.x

    assert Tool.from_function(f).call({"p": {"x": 3}}).value == 3


def test_a_type_in_a_closure_is_found():
    def outer():
        @dataclass
        class Local:
            x: int

        def f(p: Local) -> str:
            """Do.

            Args:
                p: Where.
            """
            return Local.__name__

        return f

    assert Tool.from_function(outer()).call({"p": {"x": 3}}).value == "Local"


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
