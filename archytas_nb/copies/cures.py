"""Cures of a statement that failed, where only one meaning is possible.

They run in the copy, with the variables of the program, and need no model. A cure is another text
for the statement, with a comment that says what was changed, which the person sees in the code.
Each has an example in `tests/copies/test_cures.py`, which fails without it with the libraries that
are installed: a cure that is no longer needed fails its test.

| the statement | becomes |
|---|---|
| names a column in other case, spaces or signs | the same with the name of the column |
| names a column by the text in its first row | the same with the name of the column |
| takes columns of some rows of a table that only the table has | these rows of the table |
| names a level of the index of a table as a column | the same after ``table.reset_index()`` |
| uses the columns of a table by an unknown name | the same after ``name = table`` |
| reads a file that is not there | ``name = table`` |
| uses a name of one installed library | the same after its import |
| fills with ``method=`` | a call of that method |
| takes a statistic of columns of which some are text | the same with ``numeric_only=True`` |
| fails in a loop over columns of which some are text | the same over those of numbers |
| gives one column to what takes a table | the same with a table of this column |
| uses an array as the table that it was made of | the same after it got these columns |
| gives a table with text to what takes numbers | the same with its columns of numbers |
| calls a function of a library that has it not | the same after its import from another one |
| has a column as an attribute that is a method | the same with the column in brackets |
| has a method where its value is meant | a call of the method |
| takes a position in a column whose labels are others | the same with ``.iloc`` |
| computes with dates that are text | the same after they were read |
| answers in each pass of a loop | the same with all answers after the loop  |
| computes with a column of numbers that are text | the same after they were read as numbers |
| uses a column of dates that are text as dates | the same after they were read as dates |
| uses a number of Python as one of numpy | the same with a number of numpy |
| uses an array as a column | the same with a column of its values |
| takes fewer parts of a result than it has, and these have names | the first ones |
| indexes a table or a column as an array | the same with ``.iloc``, or with its array |
| writes a table of one value into a text | the same with the value |
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from archytas_nb.copies.cure import Cure
from archytas_nb.copies.failures import Failure, columns_of, is_table, plain
from archytas_nb.copies.libraries import import_of, import_of_library
from archytas_nb.copies.silent import uncalled, with_values
from archytas_nb.copies.texts import day_first, numerals_of, reading_of
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed
from archytas_nb.syntax.program import PROGRAM_ANSWER, called

# ── the cures ─────────────────────────────────────────────────────────────────────────────────────


def cure_of(failure: Failure) -> Cure | None:
    """The cure of a statement that failed; None if there is none, or more than one meaning."""
    for each in _CURES:
        cure = each(failure)
        if cure is not None:
            return cure
    return None


def answers_of_loop(statement: ast.stmt) -> Cure | None:
    """A loop that answers in each pass, of which only the first one would count: all are answered.

    An answer inside a condition stays as it is: the loop may search for it.
    """
    tree = parsed(ast.unparse(statement))
    loop = tree.body[0]
    if not isinstance(loop, ast.For) or loop.orelse:
        return None
    for each in loop.body:
        call = each.value if isinstance(each, ast.Expr) else None
        if isinstance(call, ast.Call) and called(call) == PROGRAM_ANSWER and len(call.args) == 1:
            break
        if not isinstance(each, (ast.Assign, ast.AugAssign, ast.Expr, ast.If)):
            return None
    else:
        return None
    is_text = isinstance(call.args[0], ast.JoinedStr)
    call.func = parsed("answers.append", "eval").body
    end = r'"\n".join(answers)' if is_text else "answers"
    return Cure(
        f"answers = []\n{ast.unparse(tree)}\n{PROGRAM_ANSWER}({end})",
        "the loop answers in each pass: all of them are the answer",
    )


def _column(failure: Failure) -> Cure | None:
    """A column in other case, spaces or signs."""
    if not isinstance(failure.error, (KeyError, AttributeError, ValueError)):
        return None
    columns = failure.columns
    meant: dict[str, str] = {}
    attribute = getattr(failure.error, "name", None)
    is_attribute = isinstance(failure.error, AttributeError)
    wanted = [attribute] if is_attribute and attribute else failure.strings
    for each in wanted:
        same = [name for name in columns if plain(name) == plain(each)]
        if not same and repr(each) in str(failure.error):
            same = [name for name, first in failure.headings if plain(first) == plain(each)]
        if each not in columns and len(same) == 1:
            meant[each] = same[0]
    if not meant:
        return None
    source = _renamed(failure.statement, meant, is_attribute=is_attribute)
    words = ", ".join(f"{new!r} for {old!r}" for old, new in meant.items())
    return Cure(source, f"the column is {words}")


def _rows_of_table(failure: Failure) -> Cure | None:
    """Columns that some rows of a table lack, since they were taken from it without them."""
    if not isinstance(failure.error, KeyError):
        return None
    tree = parsed(ast.unparse(failure.statement))
    found: dict[str, str] = {}
    for each in (node for node in ast.walk(tree) if isinstance(node, ast.Subscript)):
        if not isinstance(each.value, ast.Name) or not isinstance(each.ctx, ast.Load):
            continue
        part: Any = failure.variables.get(each.value.id)
        keys = each.slice.elts if isinstance(each.slice, ast.List) else [each.slice]
        names = [key.value for key in keys if isinstance(key, ast.Constant)]
        if len(names) < len(keys) or not is_table(part):
            continue
        if all(map(part.columns.__contains__, names)):
            continue
        tables = [name for name in failure.tables if _has_rows(failure, name, part, names)]
        if len(tables) == 1:
            found[each.value.id] = tables[0]
            each.value = parsed(f"{tables[0]}.loc[{each.value.id}.index]", "eval").body
    if not found:
        return None
    words = ", ".join(f"{part} are those rows of {table}" for part, table in found.items())
    return Cure(ast.unparse(tree), f"{words}, which has the other columns")


def _has_rows(failure: Failure, name: str, part: Any, columns: list[Any]) -> bool:
    """Whether a table has these columns, and all rows of a part with the same values."""
    table: Any = failure.variables.get(name)
    if not all(each in table.columns for each in columns) or not table.index.is_unique:
        return False
    shared = [each for each in part.columns if each in table.columns]
    if not shared or not part.index.isin(table.index).all():
        return False
    return bool(table.loc[part.index, shared].equals(part[shared]))


def _level(failure: Failure) -> Cure | None:
    """A level of an index that is named as a column: the index becomes columns."""
    if not isinstance(failure.error, KeyError):
        return None
    tree = parsed(ast.unparse(failure.statement))
    words = []
    for node in [each for each in ast.walk(tree) if isinstance(each, ast.Subscript)]:
        with suppress(Exception):
            value = failure.value_of(node.value)
            levels = {*value.index.names}
            columns = {*value.columns} if is_table(value) else {value.name}
            texts = (each.value for each in ast.walk(node.slice) if isinstance(each, ast.Constant))
            found = [each for each in texts if each in levels]
            # The others become columns, too, and have to get names of their own.
            if found and None not in levels and not levels & columns:
                words.append(f"{found[0]!r} of {ast.unparse(node.value)}")
                node.value = parsed(f"{ast.unparse(node.value)}.reset_index()", "eval").body
    for call in [each for each in ast.walk(tree) if isinstance(each, ast.Call)]:
        with suppress(Exception):
            owner = call.func.value  # type: ignore[attr-defined]
            value = failure.value_of(owner)
            levels, key = {*value.index.names}, _named(failure.error)
            if is_table(value) and key in levels and not levels & {None, *value.columns}:
                words.append(f"{key!r} of {ast.unparse(owner)}")
                text = f"{ast.unparse(owner)}.reset_index()"
                call.func.value = parsed(text, "eval").body  # type: ignore[attr-defined]
    if not words:
        return None
    listed = ", ".join(dict.fromkeys(words))
    return Cure(ast.unparse(tree), f"{listed} is a level of the index, which becomes columns")


def _named(error: BaseException) -> Any:
    """The name or key that an error has not found."""
    return error.args[0] if error.args else None


def _table(failure: Failure) -> Cure | None:
    """An unknown name that is used as the table: it has its columns, or its methods."""
    error = failure.error
    if not isinstance(error, NameError) or not error.name or isinstance(error, UnboundLocalError):
        return None
    if len(failure.tables) == 1 and _only_first(failure.program, error.name):
        return Cure(
            f"{error.name} = [{failure.tables[0]}]\n{ast.unparse(failure.statement)}",
            f"there is no {error.name}: its only table is {failure.tables[0]}",
        )
    used = _columns_used(failure.program, error.name)
    is_library = import_of_library([error.name]) is not None
    methods = [] if is_library else _attributes_used(failure.program, error.name)
    meant = []
    for name in failure.tables:
        table = failure.variables.get(name)
        known = set(map(plain, columns_of(table))) if is_table(table) else set()
        has_methods = all(hasattr(table, each) or plain(each) in known for each in methods)
        if (used or methods) and has_methods and all(plain(each) in known for each in used):
            meant.append(name)
    if len(meant) != 1:
        return None
    use = "columns are" if used else "methods are"
    return Cure(
        f"{error.name} = {meant[0]}.copy()\n{ast.unparse(failure.statement)}",
        f"there is no {error.name}: its {use} those of {meant[0]}",
    )


def _file(failure: Failure) -> Cure | None:
    """A file that is not there, where a table is."""
    statement = failure.statement
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    # A library that reads a kind of file may be missing, too.
    is_missing = isinstance(failure.error, ImportError) and not any(
        Path(each).exists() for each in failure.strings
    )
    if not is_missing and not isinstance(failure.error, OSError):
        return None
    meant = [each for each in failure.tables if is_table(failure.variables.get(each))]
    if len(meant) > 1:
        texts = {plain(each.rpartition("/")[2].partition(".")[0]) for each in failure.strings}
        meant = [each for each in meant if plain(each) in texts]
    if len(meant) != 1:
        return None
    targets = " = ".join(map(ast.unparse, statement.targets))
    value = meant[0] if targets == meant[0] else f"{meant[0]}.copy()"
    return Cure(f"{targets} = {value}", f"no file is read: {meant[0]} is there")


def _import(failure: Failure) -> Cure | None:
    """A name of a library that was not imported: it is called, or an attribute of it is."""
    error = failure.error
    if not isinstance(error, NameError) or not error.name:
        return None
    for call in (each for each in ast.walk(failure.statement) if isinstance(each, ast.Call)):
        names = _dotted(call.func)
        if names[:1] != [error.name]:
            continue
        # Whose attributes are used is a library, and no function of one.
        line = import_of(error.name) if len(names) == 1 else import_of_library(names)
        if line is not None:
            return Cure(
                f"{line}\n{ast.unparse(failure.statement)}", f"{error.name} was not imported"
            )
    return None


def _sibling(failure: Failure) -> Cure | None:
    """A function that is called as one of a library which has it not, and another one has."""
    error = failure.error
    if not isinstance(error, (AttributeError, NameError)) or not error.name:
        return None
    tree = parsed(ast.unparse(failure.statement))
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        names = _dotted(call.func)
        if len(names) < len(("library", "function")) or error.name not in names:
            continue
        root = failure.variables.get(names[0])
        if not inspect.ismodule(root) and names[0] in failure.variables:
            continue
        line = import_of(names[-1])
        if line is not None:
            call.func = ast.Name(names[-1])
            return Cure(
                f"{line}\n{ast.unparse(tree)}", f"{names[-1]} is not of {'.'.join(names[:-1])}"
            )
    return None


def _dotted(node: ast.expr) -> list[str]:
    """The names of an attribute of an attribute of a name; empty for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _fill_method(failure: Failure) -> Cure | None:
    """``fillna(method="ffill")``, which is a method of its own."""
    if not isinstance(failure.error, TypeError):
        return None
    statement = parsed(ast.unparse(failure.statement)).body[0]
    changed = False
    for call in ast.walk(statement):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        for each in [*call.keywords]:
            is_method = call.func.attr == "fillna" and each.arg == "method"
            if is_method and isinstance(each.value, ast.Constant):
                method = str(each.value.value)
                call.func.attr = {"pad": "ffill", "backfill": "bfill"}.get(method, method)
                call.keywords.remove(each)
                changed = True
    return Cure(ast.unparse(statement), "fillna has no method=") if changed else None


_OF_TEXT = (TypeError, ValueError, NotImplementedError)
"""What computing with texts raises."""


def _numeric_only(failure: Failure) -> Cure | None:
    """A statistic of all columns of a table, of which some are text: of the numbers only.

    The library has a parameter for it, which was once the default.
    """
    if not isinstance(failure.error, _OF_TEXT):
        return None
    tree = parsed(ast.unparse(failure.statement))
    changed = False
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        if any(each.arg == "numeric_only" for each in call.keywords):
            continue
        with suppress(Exception):
            function = failure.value_of(call.func)
            is_open = "numeric_only" in inspect.signature(function).parameters
            if is_open and _has_text(function.__self__):
                call.keywords.append(ast.keyword("numeric_only", ast.Constant(value=True)))
                changed = True
    if not changed:
        return None
    return Cure(ast.unparse(tree), "some columns are text: numeric_only=True")


def _numeric_columns(failure: Failure) -> Cure | None:
    """A loop over all columns of a table that fails at one of text: over those of numbers."""
    tree = parsed(ast.unparse(failure.statement))
    changed = False
    for loop in ast.walk(tree):
        if not isinstance(loop, (ast.For, ast.comprehension)):
            continue
        over = loop.iter
        if not isinstance(over, ast.Attribute) or over.attr != "columns":
            continue
        with suppress(Exception):
            table = failure.value_of(over.value)
            if hasattr(table, "select_dtypes") and _fails_at_text(failure, loop, table):
                text = f"{ast.unparse(over.value)}.select_dtypes('number').columns"
                loop.iter = parsed(text, "eval").body
                changed = True
    if not changed:
        return None
    return Cure(ast.unparse(tree), "some columns are text: only those of numbers")


def _as_taken(failure: Failure) -> Cure | None:
    """One column, or text, for a function that takes a table of numbers: one with which it runs."""
    if not isinstance(failure.error, _OF_TEXT):
        return None
    tree = parsed(ast.unparse(failure.statement))
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call) and each.args):
        first = call.args[0]
        with suppress(Exception):
            value = failure.value_of(first)
            if len(getattr(value, "shape", ())) == 1:
                form = "{}.to_frame()" if hasattr(value, "to_frame") else "{}.reshape(-1, 1)"
                why = "a table of one column is meant"
            elif hasattr(value, "select_dtypes") and _has_text(value):
                form = "{}.select_dtypes('number')"
                why = "some columns are text: only those of numbers"
            else:
                continue
            call.args[0] = parsed(form.format(ast.unparse(first)), "eval").body
            failure.value_of(call)
            return Cure(ast.unparse(tree), why)
        call.args[0] = first
    return None


def _array_of_table(failure: Failure) -> Cure | None:
    """An array that is used as the table of which a function has made it, column by column."""
    if not isinstance(failure.error, (AttributeError, IndexError)):
        return None
    read = {use.name for use in Bindings(failure.statement).uses if use.act == "read"}
    for made in (each for each in failure.program.body if isinstance(each, ast.Assign)):
        name = made.targets[0].id if isinstance(made.targets[0], ast.Name) else ""
        table = _table_of_shape(failure, made.value, failure.variables.get(name))
        if name in read and table:
            source = f"{name} = pd.DataFrame({name}, columns={table}.columns, index={table}.index)"
            return Cure(
                f"import pandas as pd\n{source}\n{ast.unparse(failure.statement)}",
                f"{name} is an array: it gets the columns of the table that it was made of",
            )
    return None


def _table_of_shape(failure: Failure, made: ast.expr, array: Any) -> str:
    """The table in the arguments of calls that has the shape of an array; empty for none."""
    if is_table(array) or len(getattr(array, "shape", ())) != len(("rows", "columns")):
        return ""
    for call in (each for each in ast.walk(made) if isinstance(each, ast.Call)):
        for given in call.args:
            with suppress(Exception):
                table = failure.value_of(given)
                if is_table(table) and hasattr(table, "index") and table.shape == array.shape:
                    return ast.unparse(given)
    return ""


def _numerals(failure: Failure) -> Cure | None:
    """A column of numbers that are text, with which the statement computes: it is read as numbers.

    All of it can be read in one way only. What has no digit, such as a header that is repeated, is
    not a number, and counts as missing.
    """
    if not isinstance(failure.error, _OF_TEXT):
        return None
    nodes = ast.walk(failure.statement)
    named = {*failure.strings, *(each.attr for each in nodes if isinstance(each, ast.Attribute))}
    lines, why = [], []
    read_by = set()
    read = (use.name for use in Bindings(failure.statement).uses if use.act == "read")
    for name in dict.fromkeys(read):
        value: Any = failure.variables.get(name)
        columns = [each for each in columns_of(value) if each in named] if is_table(value) else [""]
        for column in columns:
            found = numerals_of(value[column] if column else value)
            if found is not None:
                place = f"{name}[{column!r}]" if column else name
                lines.append(f"{place} = {found.expression(place)}")
                read_by |= {place, f"{name}.{column}"}
                others = ", ".join(map(repr, found.others[:3]))
                lost = f"; {others} counts as missing" if others else ""
                why.append(f"the numbers of {column or name!r} are text, and are read{lost}")
    if not lines:
        return None
    statement = _Converting(read_by).visit(parsed(ast.unparse(failure.statement)))
    source = "\n".join(["import pandas as pd", *lines, ast.unparse(statement)])
    return Cure(source, ". ".join(dict.fromkeys(why)))


def _dates(failure: Failure) -> Cure | None:
    """Dates that are text, and that can be read in one way only: the day or the month first."""
    if not isinstance(failure.error, (AttributeError, ValueError)):
        return None
    tree = parsed(ast.unparse(failure.statement))
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call) and each.args):
        with suppress(Exception):
            is_plain = not call.keywords and ast.unparse(call.func).endswith("to_datetime")
            if is_plain and day_first(failure.value_of(call.args[0])):
                call.keywords.append(ast.keyword("dayfirst", ast.Constant(value=True)))
                return Cure(
                    ast.unparse(tree), "the dates have the day first: no other way reads them"
                )
    names = []
    for each in [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]:
        with suppress(Exception):
            way = day_first(failure.value_of(each.value)) if each.attr == "dt" else None
            if way is not None:
                names.append(ast.unparse(each.value))
                option = ", dayfirst=True" if way else ""
                each.value = parsed(f"pd.to_datetime({names[-1]}{option})", "eval").body
    if not names:
        return None
    why = f"the dates of {', '.join(dict.fromkeys(names))} are text, and are read"
    return Cure(f"import pandas as pd\n{ast.unparse(tree)}", why)


def _date_columns(failure: Failure) -> Cure | None:
    """A column of dates that are text, with which the statement computes: it is read."""
    if not isinstance(failure.error, _OF_TEXT):
        return None
    nodes = ast.walk(failure.statement)
    named = {*failure.strings, *(each.attr for each in nodes if isinstance(each, ast.Attribute))}
    readings = {}
    read = (use.name for use in Bindings(failure.statement).uses if use.act == "read")
    for name in dict.fromkeys(read):
        value: Any = failure.variables.get(name)
        columns = [each for each in columns_of(value) if each in named] if is_table(value) else [""]
        for column in columns:
            found = reading_of(value[column] if column else value)
            if found is not None and found.what == "dates":
                readings[f"{name}[{column!r}]" if column else name] = found
    if not readings:
        return None
    lines = [f"{place} = {each.expression(place)}" for place, each in readings.items()]
    source = "\n".join(["import pandas as pd", *lines, ast.unparse(failure.statement)])
    return Cure(source, ". ".join(each.words(place) for place, each in readings.items()))


class _Converting(ast.NodeTransformer):
    """Leaves out what converts the texts of a column to numbers: they are numbers already."""

    def __init__(self, places: Collection[str]) -> None:
        self._places = places

    def visit_Call(self, node: ast.Call) -> ast.expr:
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr == "astype":
            root: ast.expr = function.value
            is_text = False
            while ast.unparse(root) not in self._places:
                if isinstance(root, ast.Call):
                    root = root.func
                elif isinstance(root, ast.Attribute):
                    is_text = is_text or root.attr == "str"
                    root = root.value
                else:
                    break
            else:
                return root if is_text else node
        self.generic_visit(node)
        return node


def _positions(failure: Failure) -> Cure | None:
    """A table or a column of pandas that is indexed by positions in several dimensions."""
    tree = parsed(ast.unparse(failure.statement))
    changed = False
    for each in (node for node in ast.walk(tree) if isinstance(node, ast.Subscript)):
        if not isinstance(each.slice, ast.Tuple) or isinstance(each.ctx, ast.Del):
            continue
        if not any(isinstance(part, ast.Slice) for part in each.slice.elts):
            continue  # a tuple may be the name of a column
        with suppress(Exception):
            value = failure.value_of(each.value)
            if not hasattr(value, "iloc"):
                continue
            texts = (isinstance(getattr(part, "value", 0), str) for part in each.slice.elts)
            way = ("loc" if any(texts) else "iloc") if is_table(value) else "to_numpy()"
            each.value = parsed(f"{ast.unparse(each.value)}.{way}", "eval").body
            changed = True
    if not changed:
        return None
    return Cure(ast.unparse(tree), "a table is no array: its positions are in iloc")


def _numpy_number(failure: Failure) -> Cure | None:
    """A number of Python with a method that numbers of numpy have, such as ``round``."""
    error = failure.error
    if not isinstance(error, AttributeError) or type(error.obj) not in (bool, int, float):
        return None
    numpy: Any = sys.modules.get("numpy")
    tree = parsed(ast.unparse(failure.statement))
    changed = False
    for each in (node for node in ast.walk(tree) if isinstance(node, ast.Attribute)):
        if each.attr != error.name or not hasattr(numpy.asarray(error.obj)[()], each.attr):
            continue
        with suppress(Exception):
            if type(failure.value_of(each.value)) is type(error.obj):
                text = f"np.asarray({ast.unparse(each.value)})[()].{each.attr}"
                each.value = parsed(text, "eval").body.value
                changed = True
    if not changed:
        return None
    why = f"{error.name} is a method of the numbers of numpy"
    return Cure(f"import numpy as np\n{ast.unparse(tree)}", why)


def _as_column(failure: Failure) -> Cure | None:
    """An array of one dimension with a method that only columns have, such as ``abs``.

    The column gets the index of the only table that has as many rows.
    """
    error = failure.error
    pandas: Any = sys.modules.get("pandas")
    if not isinstance(error, AttributeError) or not hasattr(pandas, "Series"):
        return None
    array: Any = error.obj
    if getattr(array, "ndim", 0) != 1 or hasattr(array, "index"):
        return None
    if error.name is None or not hasattr(pandas.Series, error.name):
        return None
    values = failure.variables.items()
    tables = [name for name, each in values if is_table(each) and len(each) == len(array)]
    index = f", index={tables[0]}.index" if len(tables) == 1 else ""
    tree = parsed(ast.unparse(failure.statement))
    changed = False
    for each in (node for node in ast.walk(tree) if isinstance(node, ast.Attribute)):
        with suppress(Exception):
            if each.attr == error.name and _is_like(failure.value_of(each.value), array):
                each.value = parsed(f"pd.Series({ast.unparse(each.value)}{index})", "eval").body
                changed = True
    if not changed:
        return None
    why = f"{error.name} is a method of columns, and this is an array"
    return Cure(f"import pandas as pd\n{ast.unparse(tree)}", why)


def _is_like(value: Any, array: Any) -> bool:
    return type(value) is type(array) and value.shape == array.shape


def _first_parts(failure: Failure) -> Cure | None:
    """A result with named parts, of which a statement takes fewer: it takes the first ones."""
    statement = failure.statement
    if not isinstance(failure.error, ValueError) or not isinstance(statement, ast.Assign):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Tuple) or any(map(_is_starred, target.elts)):
        return None
    with suppress(Exception):
        result = failure.value_of(statement.value)
        fields = getattr(result, "_fields", ())
        if isinstance(result, tuple) and len(fields) == len(result) > len(target.elts):
            source = f"{ast.unparse(statement)}[:{len(target.elts)}]"
            return Cure(source, f"the result is ({', '.join(fields)}): its first parts are taken")
    return None


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _one_value(failure: Failure) -> Cure | None:
    return with_values(parsed(ast.unparse(failure.statement)).body[0], failure.variables)


def _uncalled(failure: Failure) -> Cure | None:
    return uncalled(parsed(ast.unparse(failure.statement)).body[0], failure.variables)


def _position(failure: Failure) -> Cure | None:
    """A number in brackets that a column lacks as a label: the position is meant."""
    if not isinstance(failure.error, KeyError):
        return None
    tree = parsed(ast.unparse(failure.statement))
    changed = False
    for node in [each for each in ast.walk(tree) if isinstance(each, ast.Subscript)]:
        with suppress(Exception):
            value, key = failure.value_of(node.value), failure.value_of(node.slice)
            is_column = hasattr(value, "iloc") and not is_table(value)
            if is_column and isinstance(key, int) and -len(value) <= key < len(value):
                # Of numbers as labels, only what is counted from the end can be no label.
                is_labelled = value.index.dtype.kind in "iuf" and key >= 0
                if not is_labelled and key not in value.index:
                    node.value = parsed(f"{ast.unparse(node.value)}.iloc", "eval").body
                    changed = True
    if not changed:
        return None
    return Cure(ast.unparse(tree), "a position is meant, which is in iloc")


def _hidden_column(failure: Failure) -> Cure | None:
    """A column that is written as an attribute, where the table has a method of this name."""
    if not isinstance(failure.error, (AttributeError, TypeError)):
        return None
    tree = parsed(ast.unparse(failure.statement))
    called = {id(each.func) for each in ast.walk(tree) if isinstance(each, ast.Call)}
    meant = {}
    for node in [each for each in ast.walk(tree) if isinstance(each, ast.Attribute)]:
        with suppress(Exception):
            table = failure.value_of(node.value) if id(node) not in called else None
            if is_table(table) and node.attr in columns_of(table):
                meant[node.attr] = node.attr
    if not meant:
        return None
    changed = _Renaming(meant, is_attribute=True, called=called).visit(tree)
    source = ast.unparse(changed)
    if source == ast.unparse(failure.statement):
        return None
    return Cure(source, f"the column {', '.join(map(repr, meant))} is meant, not the method")


def _fails_at_text(failure: Failure, loop: ast.For | ast.comprehension, table: Any) -> bool:
    """Whether the column at which a loop has failed is text.

    Libraries raise all kinds of errors then. The variable of a comprehension no longer exists.
    """
    if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name):
        return bool(table[failure.variables[loop.target.id]].dtype.kind not in "biufc")
    return isinstance(failure.error, _OF_TEXT) and _has_text(table)


def _has_text(table: Any) -> bool:
    """Whether a table, or a table in groups, has columns that are not numbers."""
    table = getattr(table, "obj", table)
    return is_table(table) and any(each.kind not in "biufc" for each in table.dtypes)


_CURES: tuple[Callable[[Failure], Cure | None], ...] = (
    _column,
    _rows_of_table,
    _level,
    _table,
    _file,
    _import,
    _sibling,
    _hidden_column,
    _fill_method,
    _dates,
    _positions,
    _position,
    _one_value,
    _numpy_number,
    _as_column,
    _first_parts,
    _uncalled,
    _numerals,
    _date_columns,
    _numeric_only,
    _numeric_columns,
    _as_taken,
    _array_of_table,
)


class _Renaming(ast.NodeTransformer):
    def __init__(
        self, meant: Mapping[str, str], *, is_attribute: bool, called: Collection[int] = ()
    ) -> None:
        self._meant = meant
        self._is_attribute = is_attribute
        self._called = called

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not self._is_attribute and isinstance(node.value, str) and node.value in self._meant:
            return ast.copy_location(ast.Constant(self._meant[node.value]), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """The right side of a comparison is a value, not the name of a column."""
        node.left = self.visit(node.left)
        node.comparators = [
            each if isinstance(each, ast.Constant) else self.visit(each)
            for each in node.comparators
        ]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if self._is_attribute and node.attr in self._meant and id(node) not in self._called:
            key = ast.Constant(self._meant[node.attr])
            return ast.copy_location(ast.Subscript(node.value, key, node.ctx), node)
        return node


def _renamed(statement: ast.stmt, meant: Mapping[str, str], *, is_attribute: bool) -> str:
    tree = parsed(ast.unparse(statement))
    return ast.unparse(_Renaming(meant, is_attribute=is_attribute).visit(tree))


def _columns_used(program: ast.Module, name: str) -> list[str]:
    """The texts in brackets after a name, without those that the program has assigned before."""
    read: dict[str, None] = {}
    assigned: set[str] = set()
    for statement in program.body:
        nodes = [each for each in ast.walk(statement) if isinstance(each, ast.Subscript)]
        new = set()
        for node in nodes:
            if not isinstance(node.value, ast.Name) or node.value.id != name:
                continue
            keys = node.slice.elts if isinstance(node.slice, ast.List) else [node.slice]
            texts = (each.value for each in keys if isinstance(each, ast.Constant))
            found = {each for each in texts if isinstance(each, str)}
            if isinstance(node.ctx, ast.Load):
                read |= dict.fromkeys(found - assigned)
            else:
                new |= found
        assigned |= new
    return [*read]


def _only_first(program: ast.AST, name: str) -> bool:
    """Whether the first item is all that is used of a name."""
    items = [
        each.value for each in ast.walk(program)
        if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant)
        and each.slice.value == 0 and not isinstance(each.slice.value, bool)
    ]  # fmt: skip
    uses = [each for each in ast.walk(program) if isinstance(each, ast.Name) and each.id == name]
    return bool(uses) and all(each in items for each in uses)


def _attributes_used(program: ast.AST, name: str) -> list[str]:
    """The attributes of a name."""
    nodes = (each for each in ast.walk(program) if isinstance(each, ast.Attribute))
    return [
        each.attr for each in nodes if isinstance(each.value, ast.Name) and each.value.id == name
    ]
