"""Changes of a text at its nodes: only they change, and each line keeps its number."""

from __future__ import annotations

import ast
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.syntax.edits import Edits
from tests.syntax.test_bindings import is_python, programs

space = st.sampled_from([" ", "\n", "  # why (\n  ", "\n\n"])
sums = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: (
        st.builds("({3}{0}{3}+{4}{1}{4}{2})".format, inner, inner, st.just(""), space, space)
        | st.builds("({1}{0})".format, inner, space)
        | st.builds("f({0}{1})[{1}0]".format, inner, space)
    ),
    max_leaves=8,
)


def lines_of_numbers(text: str) -> list[tuple[int, int]]:
    found = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Constant)]
    return sorted((each.lineno, int(each.value)) for each in found)  # type: ignore[arg-type]


@given(sums)
def test_nodes_inside_of_what_is_replaced_keep_their_text_and_their_lines(text: str) -> None:
    text = f"x = {text}"
    edits = Edits(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp):
            edits.replace(node, "add(", node.left, ", ", node.right, ")")
        elif isinstance(node, ast.Subscript):
            edits.replace(node, "first(", node.value, ")")
    changed = edits.applied()
    assert "+" not in changed.replace("# why", "")
    assert changed.count("\n") == text.count("\n")
    numbers = [each for each in lines_of_numbers(text) if each[1]]
    assert [each for each in lines_of_numbers(changed) if each[1]] == numbers
    names = {"f": lambda x: [x], "add": operator.add, "first": operator.itemgetter(0)}
    expected: dict[str, int] = {}
    found: dict[str, int] = {}
    exec(text, dict(names), expected)
    exec(changed, dict(names), found)
    assert found == expected


@given(programs.filter(is_python))
def test_brackets_around_each_expression_change_nothing(text: str) -> None:
    tree = ast.parse(text)
    patterns = [each for each in ast.walk(tree) if isinstance(each, ast.pattern)]
    left = {id(inner) for each in patterns for inner in ast.walk(each)}
    left |= {id(each.slice) for each in ast.walk(tree) if isinstance(each, ast.Subscript)}
    others = (ast.Starred, ast.JoinedStr, ast.FormattedValue)
    edits = Edits(text)
    count = 0
    for node in ast.walk(tree):
        is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        is_value = isinstance(node, ast.expr) and not isinstance(node, others) and is_read
        if isinstance(node, ast.expr) and is_value and id(node) not in left:
            count += edits.replace(node, "(", node, ")")
    changed = edits.applied()
    assert ast.dump(ast.parse(changed)) == ast.dump(tree)
    assert changed.count("(") == text.count("(") + count


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("é = f'é {d.get}'", "é = f'é {f(d)}'"),
        ("x = (\n  d  # why\n).get", "x = f(\nd\n)"),
        ("x = d.get.get", "x = f(f(d))"),
        ("x = d.put", "x = d.put"),
        ("x = '''a\nb''', d.get", "x = '''a\nb''', f(d)"),
    ],
)
def test_a_node_is_replaced_wherever_it_stands(text: str, changed: str) -> None:
    edits = Edits(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr == "get":
            assert edits.replace(node, "f(", node.value, ")")
    assert edits.applied() == changed


def test_what_is_behind_a_statement_stays_behind_it() -> None:
    text = "if a: f(); g()  # why\nh()"
    edits = Edits(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr):
            edits.replace(node, node, "; x()")
    assert edits.applied() == "if a: f(); x(); g(); x()  # why\nh(); x()"


def test_the_second_replacement_of_a_node_is_left_out() -> None:
    node = next(each for each in ast.walk(ast.parse("a + b")) if isinstance(each, ast.Name))
    edits = Edits("a + b")
    assert edits.replace(node, "one")
    assert not edits.replace(node, "two")
    assert edits.applied() == "one + b"
