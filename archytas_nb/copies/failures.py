"""A statement that failed in a copy, with what is there to cure or to explain it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archytas_nb.syntax.bindings import Bindings


@dataclass(frozen=True, slots=True)
class Failure:
    """A statement that failed in a copy.

    Attributes:
        error: The error that it raised.
        statement: The statement.
        program: The whole program.
        variables: The variables of the copy.
        tables: The names of the notebook's tables that the question is about.
    """

    error: BaseException
    statement: ast.stmt
    program: ast.Module
    variables: Mapping[str, Any]
    tables: tuple[str, ...]

    @property
    def strings(self) -> list[str]:
        """The texts in the statement, without those that something is compared with.

        The parts around the fields of a text are left out as well, since they are not names.
        """
        compared = {
            id(part)
            for each in ast.walk(self.statement)
            if isinstance(each, ast.Compare)
            for side in (each.left, *each.comparators)
            for part in ([side] if isinstance(side, ast.Constant) else ast.iter_child_nodes(side))
            if isinstance(side, (ast.Constant, ast.List, ast.Tuple, ast.Set))
        }
        written = {
            id(part)
            for each in ast.walk(self.statement)
            if isinstance(each, ast.JoinedStr)
            for part in each.values
        }
        found = (each for each in ast.walk(self.statement) if isinstance(each, ast.Constant))
        texts = [each.value for each in found if id(each) not in compared | written]
        return [each for each in texts if isinstance(each, str)]

    @property
    def columns(self) -> list[str]:
        """The columns of the tables that the statement names, else of those in question."""
        found = (column for table in self._tables for column in columns_of(table))
        return list(dict.fromkeys(found))

    @property
    def headings(self) -> list[tuple[str, str]]:
        """The texts in the first row of these tables, each with the name of its column."""
        found = []
        for table in self._tables:
            for column in columns_of(table) if hasattr(table, "iloc") and len(table) else ():
                first = table[column].iloc[0]
                found += [(column, first)] if isinstance(first, str) else []
        return list(dict.fromkeys(found))

    @property
    def _tables(self) -> list[Any]:
        named = dict.fromkeys(use.name for use in Bindings(self.statement).uses)
        tables = [self.variables[name] for name in named if is_table(self.variables.get(name))]
        return tables or [self.variables[name] for name in self.tables if name in self.variables]

    def value_of(self, node: ast.expr) -> Any:
        """The value of an expression of the statement, evaluated once more in the copy."""
        tree = ast.fix_missing_locations(ast.Expression(node))
        return eval(compile(tree, "<examined>", "eval"), dict(self.variables))  # noqa: S307


def is_table(value: Any) -> bool:
    """Whether a value has columns by name, as a frame of any library."""
    return not isinstance(value, type) and hasattr(value, "columns") and hasattr(value, "dtypes")


def columns_of(table: Any) -> list[str]:
    """The names of the columns that are texts."""
    return [each for each in table.columns if isinstance(each, str)]


def plain(name: str) -> str:
    """A name without case, spaces and signs; the name itself if nothing is left."""
    return re.sub(r"[\W_]+", "", name).lower() or name
