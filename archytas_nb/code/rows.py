"""The code of a planned map: its program as a function of the columns, and a loop that calls it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from archytas_nb.code.derive import Block, Code
from archytas_nb.code.function import Function
from archytas_nb.code.literals import Literals, NotWritable, quoted
from archytas_nb.code.names import Imports, Names, function_of, own_name
from archytas_nb.code.programs import CannotTranslate, Translation, plain_statements
from archytas_nb.code.results import Results
from archytas_nb.code.substitution import Substitution
from archytas_nb.code.verify import Difference, Proof
from archytas_nb.syntax import program
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.program import called, given
from archytas_nb.tools.declaration import type_for_programs
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import user_names
from archytas_nb.words import collapse_whitespace

DataKind: TypeAlias = Literal["pandas", "polars", "list"]

_ANNOTATIONS = frozenset({"bool", "int", "float", "str", "None"})


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column of a map: the attribute of `row`, the label in the data, and its type."""

    name: str
    label: Any
    kind: Any


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """A planned map, as its code is derived from it.

    Attributes:
        prompt: The prompt for each row.
        program: The program.
        columns: The columns.
        tools: The tools that the program may call.
        namespace: The variables of the user.
        data: The expression for the data.
        kind: The kind of data.
        has_columns: Whether a row is a mapping; otherwise it is a single value.
        is_whole: Whether the program answered all rows.
        samples: Some rows that the program answered, with their answers.
        is_right: Whether a value is the answer to the sample with this number.
    """

    prompt: str
    program: str
    columns: Sequence[RowColumn]
    tools: Mapping[str, Tool]
    namespace: Mapping[str, Any]
    data: str
    kind: DataKind
    has_columns: bool
    is_whole: bool
    samples: Sequence[tuple[Sequence[Any], Any]]
    is_right: Callable[[Any, int], bool]


@dataclass(slots=True)
class RowsCode:
    """The code of a planned map.

    Attributes:
        planned: The map.
        name: The name of the function.
        columns: The columns that it reads, by the names of its parameters.
        body: Its statements.
        imports: Lines that it needs.
        called: The tools that it calls.
    """

    planned: PlannedRows
    name: str
    columns: dict[str, RowColumn] = field(default_factory=dict)
    body: str = ""
    imports: list[str] = field(default_factory=list)
    called: list[Tool] = field(default_factory=list)

    @property
    def source(self) -> str:
        """The definition of the function."""
        parameters = ", ".join(
            f"{name}{_annotation(each.kind)}" for name, each in self.columns.items()
        )
        text = self.planned.prompt.replace("\\", "\\\\").replace('"""', "'''").strip()
        lines = [f'"""{text}', "", "Args:"]
        for name, each in self.columns.items():
            label = (
                collapse_whitespace(str(each.label), 60).replace("\\", "\\\\").replace('"""', "'''")
            )
            lines.append(f"    {name}: The column {label}")
        lines.append('"""')
        body = textwrap.indent("\n".join([*lines, self.body]), "    ")
        return f"def {self.name}({parameters}):\n{body}"

    @property
    def loop(self) -> str:
        """The statements that call it for each row."""
        planned = self.planned
        each = "row" if planned.has_columns else "value"
        given = ", ".join(f"{name}={self._given(column)}" for name, column in self.columns.items())
        call = f"{self.name}({given})"
        answers = Names([*user_names(planned.namespace), self.name]).take("answers")
        if planned.is_whole:
            return f"{answers} = [{call} for {each} in {self._rows()}]"
        return (
            f"{answers} = []\n"
            f"for {each} in {self._rows()}:\n"
            "    try:\n"
            f"        {answers}.append({call})\n"
            "    except Exception:  # a row that the program does not answer\n"
            f"        {answers}.append(None)"
        )

    def _given(self, column: RowColumn) -> str:
        if not self.planned.has_columns:
            return "value"
        if self.planned.kind == "list":
            return f"row.get({self._label(column)})"
        return f"row[{self._label(column)}]"

    @staticmethod
    def _label(column: RowColumn) -> str:
        return quoted(column.label) if isinstance(column.label, str) else repr(column.label)

    def _rows(self) -> str:
        """The expression for the rows, with None for missing values."""
        planned = self.planned
        data = planned.data
        if not data.isidentifier():
            data = f"({data})"
        if planned.kind == "pandas":
            texts = [type_for_programs(each.kind) for each in self.columns.values()]
            if not all("None" not in text and "Any" not in text for text in texts):
                data = f"{data}.astype(object).where({data}.notna(), None)"
            return f'{data}.to_dict("records")' if planned.has_columns else data
        if planned.kind == "polars" and planned.has_columns:
            return f"{data}.to_dicts()"
        return data

    @property
    def code(self) -> Code:
        """The code as that of a question."""
        blocks = [Block(f"{self.source}\n\n"), Block(self.loop)]
        return Code(self.planned.prompt, blocks, list(self.imports))

    @property
    def function(self) -> Function:
        """The function as that of a question, with a test.

        Raises:
            CannotTranslate: No row has values that can be written as code.
        """
        namespace = self.planned.namespace
        for values, answer in self.planned.samples:
            imports = Imports(namespace, Names([*namespace, self.name]))
            literals = Literals(namespace, imports)
            at = {
                column.name: value
                for column, value in zip(self.planned.columns, values, strict=True)
            }
            try:
                given = ", ".join(
                    f"{name}={literals.text(at[column.name])}"
                    for name, column in self.columns.items()
                )
                expected = literals.text(answer)
            except NotWritable:
                continue
            return Function(
                self.name,
                self.source,
                f"{self.name}({given})",
                answer,
                expected,
                (*self.imports, *imports.lines),
                needs_approval=any(each.may_require_approval for each in self.called),
            )
        raise CannotTranslate("there is no row whose values can be written as code, for its test")

    def proof(self) -> Proof:
        """Call the function for the sample, and compare; tools with side effects are not called."""
        for tool in self.called:
            if not tool.pure or tool.may_require_approval:
                why = f"{tool.name!r} may have side effects; run the code yourself"
                return Proof(why=why, was_run=False)
        names = dict(self.planned.namespace)
        differences = []
        try:
            exec("\n".join([*self.imports, self.source]), names)  # noqa: S102 - over the user's tools
            for number, (values, expected) in enumerate(self.planned.samples):
                columns = [each.name for each in self.planned.columns]
                at = dict(zip(columns, values, strict=True))
                given = {name: at[column.name] for name, column in self.columns.items()}
                found = names[self.name](**given)
                if not self.planned.is_right(found, number):
                    differences.append(Difference(f"row {number + 1}", expected, found))
        except Exception as error:  # noqa: BLE001 - code of the model and tools of the user
            return Proof(
                why=f"it raised {type(error).__name__}: {collapse_whitespace(str(error), 200)}"
            )
        count = len(self.planned.samples)
        return Proof(count - len(differences), count, tuple(differences))


def code_of_rows(planned: PlannedRows, name: str = "answer_row") -> RowsCode:
    """The code of a planned map, whose function has this name.

    Raises:
        CannotTranslate: The program cannot be written as plain Python.
    """
    name = Names(user_names(planned.namespace)).take(name)
    code = RowsCode(planned, name)
    names = Names(planned.namespace)
    imports = Imports(planned.namespace, names)

    def function(tool: Tool) -> str:
        code.called.append(tool)
        found = function_of(tool, planned.namespace) or imports.member(tool.function)
        functions.add((found or own_name(tool)).partition(".")[0])
        return found or own_name(tool)

    functions = set[str]()
    translation = Translation(
        tools=planned.tools,
        function=function,
        literals=Literals(planned.namespace, imports),
        namespace=planned.namespace,
        results=Results(planned.prompt),
        new_name=names.take,
        variables={},
        answer_name=lambda: "answer",
        module=imports.module,
    )
    body = plain_statements(planned.program, translation)
    bound = Bindings.of_statements(body).bound
    both = functions & bound
    if both:
        raise CannotTranslate(f"it assigns {min(both)!r}, the name of a function that it calls")
    parameters = Names([*bound, *functions, *_names_in(body)])
    reads = _Columns(planned.columns, parameters)
    body = Substitution({ast.Expr: _ended}, enters_functions=False).all(body)
    body = Substitution({ast.Attribute: reads.read}).all(body)
    body = [each for each in body if not isinstance(each, ast.Pass)]
    tree = ast.Module(body, [])
    left = _names_in(body)
    if "judge" in left:
        raise CannotTranslate("it asks a model about texts (judge)")
    if "row" in left:
        raise CannotTranslate("it uses row as a whole")
    if left & {program.PROGRAM_ANSWER, program.PROGRAM_GIVE_UP}:
        raise CannotTranslate("it calls answer or give_up within another expression")
    if any(isinstance(each, ast.Await) for each in ast.walk(tree)):
        raise CannotTranslate("it calls an async function")
    code.body = ast.unparse(tree)
    code.columns = {new: each for each, new in reads.found.values()}
    code.imports = list(imports.lines)
    return code


def _names_in(body: Sequence[ast.AST]) -> set[str]:
    return {node.id for each in body for node in ast.walk(each) if isinstance(node, ast.Name)}


def _annotation(kind: Any) -> str:
    text = type_for_programs(kind)
    if set(text.split(" | ")) <= _ANNOTATIONS:
        return f": {text}"
    return ""


class _Columns:
    """The attributes of `row` become parameters."""

    def __init__(self, columns: Sequence[RowColumn], names: Names) -> None:
        self._columns = {each.name: each for each in columns}
        self._names = names
        self.found: dict[str, tuple[RowColumn, str]] = {}

    def read(self, node: ast.Attribute) -> ast.expr | None:
        """The parameter for a column; None for any other attribute."""
        is_row = isinstance(node.value, ast.Name) and node.value.id == "row"
        if not is_row or node.attr not in self._columns:
            return None
        if node.attr not in self.found:
            column = self._columns[node.attr]
            self.found[node.attr] = column, self._names.take(node.attr)
        return ast.Name(self.found[node.attr][1], node.ctx)


def _ended(node: ast.Expr) -> ast.stmt:
    """Calls that end the program end the function; values that it shows are left out."""
    value = node.value
    if isinstance(value, ast.IfExp):
        then = _ended(ast.Expr(value.body))
        other = _ended(ast.Expr(value.orelse))
        return ast.If(value.test, [then], [other])
    if not isinstance(value, ast.Call):
        return node
    values = given(value)
    match called(value):
        case program.PROGRAM_ANSWER if len(values) == 1:
            return ast.Return(values[0])
        case program.PROGRAM_GIVE_UP if len(values) <= 1:
            return ast.Raise(ast.Call(ast.Name("ValueError", ast.Load()), values, []))
        case program.PROGRAM_SHOW:
            acting = [
                each for each in values if any(isinstance(n, ast.Call) for n in ast.walk(each))
            ]
            return ast.Expr(ast.Tuple(acting, ast.Load())) if acting else ast.Pass()
    return node
