"""The code of a run as a function: literals that stand in the question become parameters."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from archytas_nb.code.derive import Code
from archytas_nb.code.literals import Literals, NotWritable, quoted
from archytas_nb.code.names import Imports, Names
from archytas_nb.code.recorded import Recorded
from archytas_nb.code.results import Results
from archytas_nb.errors import ConfigurationError
from archytas_nb.tools.parameter import Parameter
from archytas_nb.tools.variables import user_names
from archytas_nb.words import one_line

_SIMPLE = ("bool", "float", "int", "str")


@dataclass(frozen=True, slots=True)
class _Argument:
    """A parameter of the function: of which parameter of a tool, and its value in the run."""

    name: str
    of: Parameter
    value: Any

    @property
    def kind(self) -> str:
        """Its type, as an annotation."""
        if self.of.type.text in _SIMPLE:
            return self.of.type.text
        return type(self.value).__name__

    @property
    def given(self) -> str:
        """The parameter with its recorded value."""
        return f"{self.name}={_source(self.value)}"


@dataclass(frozen=True, slots=True)
class Function:
    """The code of a run as a function.

    Attributes:
        name: Its name.
        source: Its definition.
        test: A test function, which calls it with the values of the run.
        imports: Lines that both need.
    """

    name: str
    source: str
    test: str
    imports: tuple[str, ...] = ()

    @property
    def cell(self) -> str:
        """A cell that makes it a tool, with its proof beside it."""
        imports = "\n".join(["from archytas_nb import tool", *self.imports])
        return f"%%tool\n{imports}\n\n\n@tool\n{self.source}\n\n\n{self.test}"


def as_function(code: Code, recorded: Recorded, name: str) -> Function:
    """The code of a run as a function of this name.

    Raises:
        ConfigurationError: The run has no value that a function could return.
    """
    arguments = list(_arguments(code, recorded))
    tree = ast.parse("\n".join(block.source for block in code.blocks))
    tree.body = [each for each in tree.body if not _is_assertion(each, code.answer.name)]
    tree = ast.fix_missing_locations(_Parametrized(code, arguments).visit(tree))
    returned, value = _returned(code)
    expected = _expected(value, recorded)
    body = [*_global_names(tree, recorded), *ast.unparse(tree).splitlines(), f"return {returned}"]
    is_async = any(isinstance(each, ast.Await) for each in ast.walk(tree))
    kind = type(value).__name__
    arrow = f" -> {kind}" if kind in (*_SIMPLE, "list", "dict") else ""
    signature = ", ".join(f"{each.name}: {each.kind} = {_source(each.value)}" for each in arguments)
    define = "async def" if is_async else "def"
    source = "\n".join(
        [
            f"{define} {name}({signature}){arrow}:",
            textwrap.indent(_docstring(recorded, arguments), "    "),
            f"    {_proof(arguments, expected)}",
            *(f"    {line}".rstrip() for line in body),
        ]
    )
    call = f"{name}({', '.join(each.given for each in arguments)})"
    imports = list(code.imports)
    if is_async:
        call = f"asyncio.run({call})"
        imports.append("import asyncio")
    test = f"def test_{name}():\n    assert {call} == {expected}"
    return Function(name, source, test, tuple(imports))


def _arguments(code: Code, recorded: Recorded) -> Iterator[_Argument]:
    """The literals of the calls that stand in the question, each once."""
    question = Results(recorded.question)
    names = Names([*code.names, *code.tools, *user_names(recorded.namespace)])
    found: list[tuple[str, Any]] = []
    for made in code.calls:
        for parameter in recorded.tools[made.call.name].parameters:
            given = made.call.input
            if isinstance(given, dict):
                given = given.get(parameter.name)
            is_literal = isinstance(given, (str, int, float)) and not isinstance(given, bool)
            if parameter.injected or parameter.type.by_reference or not is_literal:
                continue
            if question.is_given(given) and (parameter.name, given) not in found:
                found.append((parameter.name, given))
                yield _Argument(names.take(parameter.name), parameter, given)


class _Parametrized(ast.NodeTransformer):
    """Writes parameters in place of literals."""

    def __init__(self, code: Code, arguments: list[_Argument]) -> None:
        self._functions = set(code.tools)
        self._arguments = arguments
        self._kinds = {
            expression: [each for each in tool.parameters if not each.injected]
            for expression, tool in code.tools.items()
        }

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The arguments of a tool are found by the name of the parameter."""
        function = ast.unparse(node.func)
        if function in self._functions:
            for each in node.keywords:
                each.value = self._named(each.value, each.arg or "")
            kinds = self._kinds[function]
            node.args = [
                self._named(value, kind.name) for value, kind in zip(node.args, kinds, strict=False)
            ]
        return self.generic_visit(node)

    def _named(self, value: ast.expr, name: str) -> ast.expr:
        for each in self._arguments:
            is_equal = isinstance(value, ast.Constant) and value.value == each.value
            if is_equal and each.of.name == name:
                return ast.Name(each.name, ast.Load())
        return value

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """The text of an f-string is not an argument."""
        for each in node.values:
            if isinstance(each, ast.FormattedValue):
                self.generic_visit(each)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """A text elsewhere, such as in a list over which a loop goes."""
        if isinstance(node.value, str):
            for each in self._arguments:
                if node.value == each.value:
                    return ast.Name(each.name, ast.Load())
        return node


def _returned(code: Code) -> tuple[str, Any]:
    """The expression that the function returns, and its value in the run."""
    if code.answer.name:
        return code.answer.name, code.answer.value
    if len(code.results) == 1:
        [(name, value)] = code.results.items()
        return name, value
    if not code.results:
        raise ConfigurationError(
            "the run has no value that a function could return: ask a question that calls tools"
        )
    names = ", ".join(f'"{name}": {name}' for name in code.results)
    return f"{{{names}}}", dict(code.results)


def _expected(value: Any, recorded: Recorded) -> str:
    imports = Imports(recorded.namespace, Names(recorded.namespace))
    try:
        return Literals(recorded.namespace, imports).text(value)
    except NotWritable as why:
        raise ConfigurationError(f"the function cannot be proved: {why}") from None


def _proof(arguments: list[_Argument], expected: str) -> str:
    """A comment, which no model reads: the docstring of a tool is sent, and this is a value."""
    given = ", ".join(each.given for each in arguments) or "these data"
    return f"# Proved for {one_line(f'{given}: {expected}', 200)}"


def _docstring(recorded: Recorded, arguments: list[_Argument]) -> str:
    question = recorded.question.replace("\\", "\\\\").replace('"""', "'''").strip()
    lines = [f'"""{question}']
    if arguments:
        lines += ["", "Args:"]
        for each in arguments:
            text = " ".join(each.of.text.split()) or f"as for the tool: {each.of.name}"
            lines.append(f"    {each.name}: {text}")
    return "\n".join([*lines, '"""'])


def _global_names(tree: ast.Module, recorded: Recorded) -> list[str]:
    """The statement for variables of the user that the code assigns."""
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    names = sorted(stored & set(user_names(recorded.namespace)) - {recorded.out})
    return [f"global {', '.join(names)}"] if names else []


def _is_assertion(statement: ast.stmt, name: str) -> bool:
    is_assert = isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare)
    return is_assert and ast.unparse(statement.test.left) == name  # type: ignore[attr-defined]


def _source(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else repr(value)
