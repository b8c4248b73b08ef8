"""A program whose last statement cannot take missing values, without the rows that have them.

Statistics of tables leave missing values out by themselves; the functions of other libraries fail
or give nan. The same rows are left out wherever the statement's data is made of the table, so that
all its parts have the same rows. Whether this was the cause is seen when the program runs again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from archytas_nb.copies.failures import columns_of, is_table
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed


def without_missing(
    kept: Sequence[str], source: str, variables: Mapping[str, Any]
) -> tuple[list[str], str] | None:
    """The statements of a program without the rows with missing values, and why.

    Args:
        kept: The statements that ran.
        source: The one after them, which failed or has no value.
        variables: The variables.

    Returns:
        The statements, the last one as well, and a comment; None if no value is missing, or if the
        data comes from several tables, whose rows may belong together.
    """
    trees = [parsed(each) for each in (*kept, source)]
    found = _Sources(trees, variables)
    found.follow(len(kept), _read(trees[-1]))
    tables = {name: variables[name] for name in found.columns}
    # Rows can belong together only if there are as many of them.
    if len({len(each) for each in tables.values()}) < len(tables):
        return None
    missing: dict[str, list[str]] = {}
    for name, table in tables.items():
        columns = [each for each in found.columns[name] if bool(table[each].isna().any())]
        if columns and hasattr(table, "dropna"):
            missing[name] = columns
    if not missing:
        return None
    names = dict.fromkeys(each for columns in missing.values() for each in columns)
    why = f"rows with missing values in {', '.join(map(repr, names))} are left out"
    statements = [
        _changed(text, trees[place], missing, why) if place in found.places else text
        for place, text in enumerate((*kept, source))
    ]
    return statements, why


class _Sources:
    """The statements in which the data of a statement is made of columns of a table.

    Attributes:
        columns: The columns of each table, by its name.
        places: The places of the statements.
    """

    def __init__(self, trees: Sequence[ast.Module], variables: Mapping[str, Any]) -> None:
        self.columns: dict[str, dict[str, None]] = {}
        self.places: set[int] = set()
        self._trees = trees
        self._variables = variables
        self._seen: set[tuple[int, str]] = set()

    def follow(self, place: int, names: Iterable[str]) -> None:
        """Note where the data of these names, which a statement reads, is made of a table."""
        for name in names:
            value = self._variables.get(name)
            if (place, name) in self._seen or not _is_data(value):
                continue
            self._seen.add((place, name))
            columns = _named(self._trees[place], value)
            if columns:
                self.columns.setdefault(name, {}).update(dict.fromkeys(columns))
                self.places.add(place)
                continue
            for earlier in range(place - 1, -1, -1):
                if name in Bindings(self._trees[earlier]).bound_in_order:
                    self.follow(earlier, _read(self._trees[earlier]))
                    break


def _read(tree: ast.AST) -> list[str]:
    uses = Bindings(tree).uses
    return list(dict.fromkeys(use.name for use in uses if use.act == "read" and not use.is_local))


def _is_data(value: Any) -> bool:
    is_array = getattr(value, "shape", ()) != () and not isinstance(value, type)
    return isinstance(value, (list, tuple)) or is_table(value) or is_array


def _named(tree: ast.AST, value: Any) -> list[str]:
    """The columns of a table that a statement names, but for those by which it chooses rows.

    A condition says itself what it means by a missing value.
    """
    if not is_table(value):
        return []
    columns = set(columns_of(value))
    found = (each.value for each in _without_conditions(tree) if isinstance(each, ast.Constant))
    return [each for each in found if isinstance(each, str) and each in columns]


def _without_conditions(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of code without what is computed in brackets after a value."""
    yield node
    for each in ast.iter_child_nodes(node):
        is_key = isinstance(node, ast.Subscript) and each is node.slice
        for part in _keys(each) if is_key else [each]:
            yield from _without_conditions(part)


def _keys(node: ast.AST) -> list[ast.expr]:
    """The constants among keys in brackets."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    keys = []
    for each in parts:
        if isinstance(each, (ast.Tuple, ast.List)):
            keys += _keys(each)
        elif isinstance(each, ast.Constant):
            keys.append(each)
    return keys


class _Selecting(ast.NodeTransformer):
    """Selects the rows of a table wherever it is read, and not where a part of it is assigned."""

    def __init__(self, name: str, columns: Sequence[str]) -> None:
        self._name = name
        self._rows = f"{name}.dropna(subset={list(columns)!r})"

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_read = node.id == self._name and isinstance(node.ctx, ast.Load)
        return parsed(self._rows, "eval").body if is_read else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return node if isinstance(node.ctx, (ast.Store, ast.Del)) else self._visited(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node if isinstance(node.ctx, (ast.Store, ast.Del)) else self._visited(node)

    def _visited(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        return node


def _changed(text: str, tree: ast.Module, missing: Mapping[str, Sequence[str]], why: str) -> str:
    comments = [each for each in text.splitlines() if each.startswith("#")]
    for name, columns in missing.items():
        tree = _Selecting(name, columns).visit(tree)
    return "\n".join([*comments, f"# {why}", ast.unparse(tree)])
