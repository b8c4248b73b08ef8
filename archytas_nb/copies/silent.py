"""Cures of a statement that raises nothing, and does not do as it was meant.

They are looked for before a statement runs. Each has an example in `tests/copies/test_silent.py`.

| the statement | becomes |
|---|---|
| writes a table of one value into a text | the same with the value |
| answers with a text that has fields of variables, without the f | the text with their values |
| changes a selection with ``inplace=True`` | an assignment to the selection |
| assigns what a method with ``inplace=True`` returns | the same without it |
| assigns to a part of a part of a table | an assignment to the part of the table |
| assigns a column from itself in another spelling | the same with the name of the column |
| compares a column with one of its values in another spelling | the same with the value |
| writes whole numbers of a row that are floats there | the same with whole numbers |
| has a method of data where its value is meant | a call of the method |
| orders or adds numbers or dates that are text | the same after they were read |
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from archytas_nb.copies.cure import Cure
from archytas_nb.copies.failures import columns_of, is_table, plain
from archytas_nb.copies.texts import Reading, is_text, reading_of
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed
from archytas_nb.syntax.program import PROGRAM_ANSWER, called, calls

Variables = Mapping[str, Any]

_MAX_ROWS = 1_000_000  # of a column whose values are looked at
_MAX_VALUES = 10_000  # different ones, among which a text is looked for by its spelling


def cure_before(statement: ast.stmt, variables: Variables) -> Cure | None:
    """The cure of a statement that raises nothing and does not do as meant; None if it does."""
    for each in _CURES:
        with suppress(Exception):  # variables may be objects of any kind
            cure = each(parsed(ast.unparse(statement)).body[0], variables)
            if cure is not None:
                return cure
    return None


def never_equal(statement: ast.stmt, variables: Variables) -> list[str]:
    """The comparisons of a column with a text that none of its values is, in words."""
    found = []
    for _, column, _, text in _comparisons(statement, variables):
        found.append(f"no value of {ast.unparse(column)} is {text!r}")
    return list(dict.fromkeys(found))


def unseen(tree: ast.Module, variables: Variables) -> list[str]:
    """Remarks on executed code that did not do as meant, for whoever wrote it.

    Only variables that the code does not change are as they were when it read them.
    """
    changed = Bindings(tree).changed
    found = []
    for statement in tree.body:
        for values, column, _, text in _comparisons(statement, variables):
            if _root(column) not in changed:
                same = [repr(each) for each in values if plain(each) == plain(text)]
                there = f"; there is {', '.join(same)}" if same else ""
                found.append(f"no value of {ast.unparse(column)} is {text!r}{there}")
        with suppress(Exception):
            cure = _chained(parsed(ast.unparse(statement)).body[0], variables)
            if cure is not None:
                found.append(f"{cure.why}: write {cure.source}")
    return list(dict.fromkeys(found))


# ── the cures ─────────────────────────────────────────────────────────────────────────────────────


def with_values(statement: ast.stmt, variables: Variables) -> Cure | None:
    """A text with a table or an array of one value in it: with the value."""
    names = []
    for field in (node for node in ast.walk(statement) if isinstance(node, ast.FormattedValue)):
        if not isinstance(field.value, ast.Name):
            continue
        value = variables.get(field.value.id)
        shape = getattr(value, "shape", ())
        if shape and set(shape) == {1}:
            names.append(field.value.id)
            array = "" if callable(getattr(value, "item", None)) else ".to_numpy()"
            field.value = parsed(f"{field.value.id}{array}.item()", "eval").body
    if not names:
        return None
    listed = ", ".join(dict.fromkeys(names))
    return Cure(
        ast.unparse(statement), f"the text gets the one value of {listed}, without its index"
    )


def _fields(statement: ast.stmt, variables: Variables) -> Cure | None:
    """An answer with fields of variables in a text that is not one with fields."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or called(call) != PROGRAM_ANSWER or len(call.args) != 1:
        return None
    text = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
    if not isinstance(text, str):
        return None
    with suppress(SyntaxError, ValueError):
        meant = parsed(f"f{text!r}", "eval").body
        fields = [each for each in ast.walk(meant) if isinstance(each, ast.FormattedValue)]
        read = set().union(*(Bindings(each.value).read for each in fields))
        read -= set(dir(builtins)) - set(variables)
        if read and read <= set(variables):
            source = ast.unparse(ast.Call(call.func, [meant], []))
            return Cure(source, f"the text gets the values of {', '.join(sorted(read))}")
    return None


def _in_place(statement: ast.stmt, variables: Variables) -> Cure | None:
    """A method that changes a copy of a column in place, or whose result is assigned."""
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    kept = [each for each in call.keywords if each.arg != "inplace"]
    if len(kept) == len(call.keywords):
        return None
    selection = call.func.value
    if isinstance(statement, ast.Assign):
        if not _is_data(value_of(selection, variables)):
            return None
        call.keywords = kept
        return Cure(ast.unparse(statement), "a method with inplace=True returns nothing")
    if not isinstance(statement, ast.Expr) or not isinstance(
        selection, (ast.Subscript, ast.Attribute)
    ):
        return None
    if not is_table(variables.get(_root(selection))):
        return None
    new = ast.Call(call.func, call.args, kept)
    return Cure(
        f"{ast.unparse(selection)} = {ast.unparse(new)}",
        "inplace=True on a selection changes only a copy of it",
    )


def _chained(statement: ast.stmt, variables: Variables) -> Cure | None:
    """An assignment to a part of a part of a table, which is a copy."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign):
        targets = [statement.target]
    if len(targets) != 1 or not isinstance(targets[0], ast.Subscript):
        return None
    place = _one_place(targets[0], variables)
    if place is None:
        return None
    new = ast.unparse(statement).replace(ast.unparse(targets[0]), place, 1)
    return Cure(new, "an assignment to a part of a part changes only a copy of it")


def _one_place(target: ast.Subscript, variables: Variables) -> str | None:
    """The part of a table that is named in two steps, named in one; None if it is another case."""
    inner: ast.expr = target.value
    indexer = ""
    if isinstance(inner, ast.Attribute) and inner.attr in ("loc", "iloc"):
        indexer = inner.attr
        inner = inner.value
    if isinstance(inner, ast.Attribute) and _is_column(inner, variables):
        inner = ast.Subscript(inner.value, ast.Constant(inner.attr))
    if not isinstance(inner, ast.Subscript) or isinstance(target.slice, ast.Slice):
        return None
    table: ast.expr = inner.value
    by_label = False
    if isinstance(table, ast.Attribute) and table.attr == "loc":
        table, by_label = table.value, True
    if not hasattr(value_of(table, variables), "iloc") or isinstance(inner.slice, ast.Tuple):
        return None
    whole, first, second = map(ast.unparse, (table, inner.slice, target.slice))
    key = value_of(inner.slice, variables)
    is_mask = getattr(getattr(key, "dtype", None), "kind", "") == "b"
    if (is_mask or by_label) and indexer != "iloc":
        if isinstance(target.slice, ast.Tuple):  # all rows of the part, and its columns
            rows, *columns = map(ast.unparse, target.slice.elts)
            return f"{whole}.loc[{first}, {columns[0]}]" if rows == ":" else None
        return f"{whole}.loc[{first}, {second}]"
    is_column = isinstance(key, str) and key in value_of(table, variables).columns
    if not is_column or isinstance(target.slice, ast.Tuple):
        return None
    if indexer == "iloc":
        return f"{whole}.iloc[{second}, {whole}.columns.get_loc({first})]"
    return f"{whole}.loc[{second}, {first}]"


def _is_column(node: ast.Attribute, variables: Variables) -> bool:
    """Whether an attribute of a table is a column of it."""
    table = value_of(node.value, variables)
    return is_table(table) and node.attr in columns_of(table)


def _same_column(statement: ast.stmt, variables: Variables) -> Cure | None:
    """A column that is assigned from itself in another spelling."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
        return None
    table, name = value_of(target.value, variables), target.slice.value
    if not isinstance(name, str) or not is_table(table) or name in columns_of(table):
        return None
    same = [each for each in columns_of(table) if plain(each) == plain(name)]
    texts = [each.value for each in ast.walk(statement.value) if isinstance(each, ast.Constant)]
    if len(same) != 1 or not any(
        isinstance(each, str) and plain(each) == plain(name) for each in texts
    ):
        return None
    target.slice = ast.Constant(same[0])
    return Cure(ast.unparse(statement), f"the column is {same[0]!r} for {name!r}")


def _values(statement: ast.stmt, variables: Variables) -> Cure | None:
    """A text with which a column is compared, and that is one of its values in other spelling."""
    words = []
    for values, _, node, text in _comparisons(statement, variables):
        same = [each for each in values if plain(str(each)) == plain(text)]
        if len(same) == 1 and isinstance(same[0], (str, int, float)):
            words.append(f"the value is {same[0]!r} for {text!r}")
            node.value = same[0]
    if not words:
        return None
    return Cure(ast.unparse(statement), "; ".join(dict.fromkeys(words)))


def _comparisons(
    statement: ast.stmt, variables: Variables
) -> Iterator[tuple[list[Any], ast.expr, ast.Constant, str]]:
    """The texts that a column is compared with and lacks: its values, the column, the text."""
    for node in ast.walk(statement):
        column: ast.expr | None = None
        texts: Sequence[ast.expr] = ()
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            sides = [node.left, *node.comparators[:1]]
            texts = [each for each in sides if isinstance(each, ast.Constant)]
            column = next((each for each in sides if each not in texts), None)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "isin"
            and node.args
        ):
            column = node.func.value
            texts = list(getattr(node.args[0], "elts", ()))
        if column is None or not texts:
            continue
        with suppress(Exception):
            data = value_of(column, variables)
            for each in texts:
                text = each.value if isinstance(each, ast.Constant) else None
                if not isinstance(each, ast.Constant) or not isinstance(text, str):
                    continue
                if bool((data == text).any()):  # looking for all values takes far longer
                    continue
                found: Any = data.dropna().unique() if len(data) <= _MAX_ROWS else ()
                if 0 < len(found) <= _MAX_VALUES:
                    yield found.tolist(), column, each, text


def _whole_numbers(statement: ast.stmt, variables: Variables) -> Cure | None:
    """Whole numbers of a row, which have become floats there: they are whole numbers again.

    A row of a table has one type; with a float in it, 2018 is 2018.0.
    """
    made = _MakingWhole(variables)
    new = made.visit(statement)
    if not made.found:
        return None
    listed = ", ".join(map(repr, dict.fromkeys(made.found)))
    return Cure(ast.unparse(new), f"{listed} is a whole number, and a float only in a row")


class _MakingWhole(ast.NodeTransformer):
    def __init__(self, variables: Variables) -> None:
        self._variables = variables
        self.found: list[str] = []

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Leave the object of a method call as it is."""
        if isinstance(node.value, ast.Subscript):
            self.generic_visit(node.value)
        else:
            self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A number that the program makes whole itself needs no cure."""
        if not (isinstance(node.func, ast.Name) and node.func.id == "int"):
            self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(node.ctx, ast.Load) or not isinstance(key, str):
            return node
        with suppress(Exception):
            row = value_of(node.value, self._variables)
            if _is_row(row, key, self._variables) and float(row[key]).is_integer():
                self.found.append(key)
                return ast.Call(ast.Name("int", ast.Load()), [node], [])
        return node


def _is_row(row: Any, key: str, variables: Variables) -> bool:
    """Whether a series of floats has the columns of a table, in which this one is whole."""
    if is_table(row) or row.dtype.kind != "f":
        return False
    labels = [*row.index]
    for each in variables.values():
        if is_table(each) and [*each.columns] == labels and each[key].dtype.kind in "iu":
            return True
    return False


def uncalled(statement: ast.stmt, variables: Variables) -> Cure | None:
    """A method of data that needs no arguments, and that is not called."""
    called = {id(each.func) for each in ast.walk(statement) if isinstance(each, ast.Call)}
    owners = {id(each.value) for each in ast.walk(statement) if isinstance(each, ast.Attribute)}
    names = []
    for node in ast.walk(statement):
        if not isinstance(node, ast.Attribute) or id(node) in called | owners:
            continue
        with suppress(Exception):
            method = value_of(node, variables)
            parameters = inspect.signature(method).parameters.values()
            needed = [
                each for each in parameters
                if each.default is each.empty and each.kind < each.VAR_POSITIONAL
            ]  # fmt: skip
            if inspect.ismethod(method) and _is_data(method.__self__) and not needed:
                names.append(node.attr)
    if not names:
        return None
    tree = _Calling(names, called | owners).visit(statement)
    listed = ", ".join(dict.fromkeys(names))
    return Cure(ast.unparse(tree), f"the value of {listed} is meant: it is called")


class _Calling(ast.NodeTransformer):
    """Calls these attributes where they are neither called nor looked into."""

    def __init__(self, names: list[str], others: set[int]) -> None:
        self._names = names
        self._others = others

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        is_meant = node.attr in self._names and id(node) not in self._others
        self.generic_visit(node)
        return ast.Call(node, [], []) if is_meant else node


def _uncalled_value(statement: ast.stmt, variables: Variables) -> Cure | None:
    """The same where the method itself is assigned or answered, and so no error comes of it."""
    is_assigned = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Attribute)
    if is_assigned or any(True for _ in calls(statement, PROGRAM_ANSWER)):
        return uncalled(statement, variables)
    return None


_ORDERING = ("max", "min", "sum", "cumsum", "cummax", "cummin", "sort_values", "rank", "between",
             "idxmax", "idxmin", "nlargest", "nsmallest")  # fmt: skip
"""The methods for which it matters whether numbers are numbers, and that texts have as well."""


def _ordered(statement: ast.stmt, variables: Variables) -> Cure | None:
    """Numbers or dates that are text, and that are put in order or added as texts."""
    readings: dict[str, Reading] = {}
    for call in (each for each in ast.walk(statement) if isinstance(each, ast.Call)):
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _ORDERING:
            continue
        with suppress(Exception):
            for place in _ordered_places(call, call.func, variables):
                found = reading_of(value_of(parsed(place, "eval").body, variables))
                if found is not None and (call.func.attr == "sum" or found.changes_order):
                    readings[place] = found
    for node in (each for each in ast.walk(statement) if isinstance(each, ast.Compare)):
        is_ordering = isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        column = next((each for each in (node.left, *node.comparators) if _is_place(each)), None)
        with suppress(Exception):
            if is_ordering and column is not None:
                found = reading_of(value_of(column, variables))
                if found is not None and found.changes_order and found.what == "dates":
                    readings[ast.unparse(column)] = found
    if not readings:
        return None
    lines = [f"{place} = {each.expression(place)}" for place, each in readings.items()]
    words = [each.words(place) for place, each in readings.items()]
    source = "\n".join(["import pandas as pd", *lines, ast.unparse(statement)])
    return Cure(source, ". ".join(dict.fromkeys(words)))


def _ordered_places(call: ast.Call, function: ast.Attribute, variables: Variables) -> Iterator[str]:
    """The columns of variables that a call puts in order, as Python."""
    owner = function.value
    value = value_of(owner, variables)
    root = _root(owner)
    whole = variables.get(root)
    if is_table(value):
        named = {each.value for each in ast.walk(call) if isinstance(each, ast.Constant)}
        columns = [each for each in columns_of(value) if each in named]
    else:  # a column, rows of one, or one in groups
        column = getattr(value, "obj", value)
        columns = [column.name] if is_text(column) else []
    if is_table(whole):
        yield from (f"{root}[{each!r}]" for each in columns if each in columns_of(whole))
    elif _is_place(owner) and hasattr(value, "iloc"):
        yield ast.unparse(owner)


def _is_place(node: ast.expr) -> bool:
    """Whether it is a variable, or a column of one by its name: something that can be assigned."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant)
    return isinstance(node, ast.Name)


_CURES: tuple[Callable[[ast.stmt, Variables], Cure | None], ...] = (
    _fields,
    with_values,
    _in_place,
    _chained,
    _same_column,
    _whole_numbers,
    _values,
    _uncalled_value,
    _ordered,
)


# ── the values of expressions ─────────────────────────────────────────────────────────────────────


def value_of(node: ast.expr, variables: Variables) -> Any:
    """The value of an expression of variables, their parts, and methods of tables.

    Raises:
        ValueError: It calls something else, which may have effects.
    """
    called = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    for call in called:
        root: ast.expr = call.func
        while isinstance(root, (ast.Subscript, ast.Attribute, ast.Call)):
            root = root.func if isinstance(root, ast.Call) else root.value
        if not isinstance(root, ast.Name) or not hasattr(variables.get(root.id), "dtypes"):
            raise ValueError(ast.unparse(call))
    read = {use.name for use in Bindings(node).uses}
    own = {name: variables[name] for name in read if name in variables}
    if called:
        # A method may take a column out of the table that it is of, such as pop.
        own = {
            name: each.copy(deep=False) if is_table(each) else each for name, each in own.items()
        }
    tree = ast.fix_missing_locations(ast.Expression(node))
    return eval(compile(tree, "<examined>", "eval"), own)  # noqa: S307


def _is_data(value: Any) -> bool:
    """Whether a value is a table, a column, an array, or a table in groups."""
    if isinstance(value, type):
        return False
    is_group = hasattr(value, "groups") and hasattr(value, "obj")
    return is_table(value) or hasattr(value, "dtype") or is_group


def _root(node: ast.expr) -> str:
    """The variable of which an expression takes parts, also by methods; empty for none."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
