"""The code of a run as a function: literals of the question become parameters."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.code.derive import Answer, Block, Code, indented
from archytas_nb.code.literals import Literals, NotWritable, quoted
from archytas_nb.code.names import Imports, Names
from archytas_nb.code.recorded import Recorded
from archytas_nb.code.results import Results
from archytas_nb.code.substitution import Substitution
from archytas_nb.errors import ConfigurationError
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.tools.arguments import read_value
from archytas_nb.tools.parameter import Parameter
from archytas_nb.tools.schema import choices_of
from archytas_nb.tools.variables import user_names
from archytas_nb.words import collapse_whitespace

_SIMPLE = ("bool", "float", "int", "str")
_MIN_TEXT = 3  # characters of a text that is looked for in other texts


@dataclass(frozen=True, slots=True)
class _Argument:
    """A parameter of the function: its parameters of tools, and its value in the run."""

    name: str
    of: Parameter
    value: Any  # as the model sent it
    source: str  # the value that the code passes to the tool

    @property
    def kind(self) -> str:
        """Its type, as an annotation."""
        if self.of.type.text in _SIMPLE:
            return self.of.type.text
        made = ast.parse(self.source, mode="eval").body
        if isinstance(made, ast.Call):
            # As in datetime.date(2024, 2, 29).
            return ast.unparse(made.func)
        if isinstance(made, ast.Subscript):
            # As in Color["RED"].
            return ast.unparse(made.value)
        choices = choices_of(self.of.type.schema)
        if choices and all(type(each) in (str, int, bool) for each in choices):
            return f"Literal[{', '.join(map(_source, choices))}]"
        return type(self.value).__name__

    @property
    def given(self) -> str:
        """The parameter with its recorded value."""
        return f"{self.name}={self.source}"


@dataclass(frozen=True, slots=True)
class Function:
    """The code of a run as a function.

    Attributes:
        name: Its name.
        source: Its definition.
        call: Its call with the values of the run.
        value: The value that it returned in the run.
        expected: The source of this value.
        imports: Lines that it needs.
        is_async: Whether it is an async function.
        needs_approval: Whether a tool that it calls may require approval.
    """

    name: str
    source: str
    call: str
    value: Any
    expected: str
    imports: tuple[str, ...] = ()
    is_async: bool = False
    needs_approval: bool = False

    @property
    def test(self) -> str:
        """A test function, which calls it with the values of the run."""
        call = f"asyncio.run({self.call})" if self.is_async else self.call
        expected = self.expected
        if 'float("nan")' in expected:
            # NaN equals nothing.
            call = f"repr({call})"
            expected = f"repr({expected})"
        return f"def test_{self.name}():\n    assert {call} == {expected}"

    @property
    def cell(self) -> str:
        """A cell that makes it a tool, with its proof."""
        imports = ["from archytas_nb import tool", *self.imports]
        if self.is_async:
            imports.append("import asyncio")
        decorator = "@tool(approve=True)" if self.needs_approval else "@tool"
        top = "\n".join(dict.fromkeys(imports))
        return f"%%tool\n{top}\n\n\n{decorator}\n{self.source}\n\n\n{self.test}"

    def proof(self, code: Code) -> Code:
        """The function and its call as code, to be verified in place of the code of the run."""
        returned = f"{self.name}_value"
        call = f"await {self.call}" if self.is_async else self.call
        return replace(
            code,
            imports=[*self.imports],
            blocks=[Block(self.source), Block(f"{returned} = {call}")],
            names=[*code.names, self.name, returned],
            answer=Answer(code.answer.text, returned, self.value, has_value=True),
        )


def as_function(code: Code, recorded: Recorded, name: str) -> Function:
    """The code of a run as a function of this name.

    Raises:
        ConfigurationError: The run has no value that a function could return.
    """
    tree = ast.parse("\n".join(block.source for block in code.blocks))
    arguments = list(_arguments(code, recorded, tree))
    tree.body = [each for each in tree.body if not _is_assertion(each, code.answer.name)]
    returned, value = _returned(code, tree)
    # A literal can occur only in a removed assertion: its parameter would have no use.
    tree.body = _Parameters(code, arguments).in_place_of_literals(tree.body)
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    arguments = [each for each in arguments if each.name in used]
    expected = _expected(value, recorded)
    body = [*_global_names(tree, recorded), ast.unparse(tree), f"return {returned}"]
    is_async = any(
        isinstance(each, ast.Await) or getattr(each, "is_async", False) for each in ast.walk(tree)
    )
    kind = type(value).__name__
    arrow = f" -> {kind}" if kind in (*_SIMPLE, "list", "dict") else ""
    signature = ", ".join(f"{each.name}: {each.kind} = {each.source}" for each in arguments)
    define = "async def" if is_async else "def"
    docstring = textwrap.indent(_docstring(recorded, arguments), "    ")
    inside = indented("\n".join(filter(None, [_proof(arguments, expected), *body])))
    imports = list(code.imports)
    if any(each.kind.startswith("Literal[") for each in arguments):
        imports.append("from typing import Literal")
    return Function(
        name,
        f"{define} {name}({signature}){arrow}:\n{docstring}\n{inside}",
        f"{name}({', '.join(each.given for each in arguments)})",
        value,
        expected,
        tuple(imports),
        is_async=is_async,
        needs_approval=any(recorded.tools[each].may_require_approval for each in _called(code)),
    )


def _called(code: Code) -> set[str]:
    """The tools that the code of a run calls, also those that its own code calls."""
    names = {made.call.name for made in (*code.calls, *code.verbatim)}
    return names.union(*(made.outcome.called for made in code.verbatim))


def _arguments(code: Code, recorded: Recorded, tree: ast.Module) -> Iterator[_Argument]:
    """The literals of the calls that are in the question, each once."""
    question = Results(recorded.question)
    names = Names(each.id for each in ast.walk(tree) if isinstance(each, ast.Name))
    imports = Imports(recorded.namespace, Names(recorded.namespace))
    literals = Literals(recorded.namespace, imports)
    found: list[tuple[str, Any]] = []
    for made in code.calls:
        for parameter in recorded.tools[made.call.name].parameters:
            given = made.call.input
            if isinstance(given, dict):
                given = given.get(parameter.name)
            is_literal = isinstance(given, (str, int, float)) and not isinstance(given, bool)
            if parameter.injected or parameter.type.by_reference or not is_literal:
                continue
            is_once = question.count(given) == 1  # so that one literal becomes one parameter
            is_known = any(
                type(value) is type(given) and value == given and (is_once or of == parameter.name)
                for of, value in found
            )
            bound, faults = read_value(parameter.type, given, recorded.namespace)
            if question.is_given(given) and not is_known and not faults:
                found.append((parameter.name, given))
                with suppress(NotWritable):
                    source = literals.text(bound)
                    yield _Argument(names.take(parameter.name), parameter, given, source)


class _Parameters:
    """The parameters of the function, which stand for literals of the code."""

    def __init__(self, code: Code, arguments: list[_Argument]) -> None:
        self._functions = set(code.tools)
        self._arguments = arguments
        self._sources = {
            each.name: ast.dump(ast.parse(each.source, mode="eval").body) for each in arguments
        }
        self._kinds = {
            expression: [each for each in tool.parameters if not each.injected]
            for expression, tool in code.tools.items()
        }

        self._substitution = Substitution(
            {ast.Call: self._of_call, ast.JoinedStr: self._of_text, ast.Constant: self._of_constant}
        )

    def in_place_of_literals(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements with parameters in place of literals."""
        return self._substitution.all(body)

    def _of_call(self, node: ast.Call) -> None:
        """The arguments of a tool are found by the name of the parameter."""
        function = ast.unparse(node.func)
        if function in self._functions:
            for each in node.keywords:
                each.value = self._named(each.value, each.arg or "")
            kinds = self._kinds[function]
            node.args = [
                self._named(value, kind.name) for value, kind in zip(node.args, kinds, strict=False)
            ]

    def _named(self, value: ast.expr, name: str) -> ast.expr:
        """The parameter for an argument of a tool: one of that name, or else of that value."""
        equal = [each for each in self._arguments if self._sources[each.name] == ast.dump(value)]
        same = [each for each in equal if each.of.name == name]
        for each in (*same, *equal):
            return ast.Name(each.name, ast.Load())
        return value

    def _of_text(self, node: ast.JoinedStr) -> ast.expr:
        """A text with values: where it names an argument, it has the value of the parameter."""
        parts: list[ast.expr] = []
        for each in node.values:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                parts += self._text(each.value)
            else:
                parts.append(self._substitution.inside(each))
        node.values = parts
        return node

    def _text(self, text: str) -> Iterator[ast.expr]:
        words = {
            each.value: each.name for each in self._arguments
            if isinstance(each.value, str) and len(each.value) >= _MIN_TEXT
        }  # fmt: skip
        if not words:
            yield ast.Constant(text)
            return
        for part in re.split(rf"(?<!\w)({'|'.join(map(re.escape, words))})(?!\w)", text):
            if part in words:
                yield ast.FormattedValue(ast.Name(words[part], ast.Load()), -1)
            elif part:
                yield ast.Constant(part)

    def _of_constant(self, node: ast.Constant) -> ast.expr | None:
        """A text elsewhere, such as in a list over which a loop goes."""
        if isinstance(node.value, str):
            for each in self._arguments:
                if node.value == each.value:
                    return ast.Name(each.name, ast.Load())
        return None


def _returned(code: Code, tree: ast.Module) -> tuple[str, Any]:
    """The expression that the function returns, and its value in the run.

    It is the answer where the code computes it, or else the result of the calls; of Python code the
    last expression, which is taken out of the statements.
    """
    if code.answer.name:
        return code.answer.name, code.answer.value
    if len(code.results) == 1:
        [(name, value)] = code.results.items()
        return name, value
    if code.results:
        names = ", ".join(f'"{name}": {name}' for name in code.results)
        return f"{{{names}}}", dict(code.results)
    last = code.blocks[-1] if code.blocks else None
    if last is not None and last.value is not None and isinstance(tree.body[-1], ast.Expr):
        return ast.unparse(tree.body.pop()), last.value
    raise ConfigurationError(
        "the run has no value that a function could return: ask a question whose calls return one"
    )


def _expected(value: Any, recorded: Recorded) -> str:
    imports = Imports(recorded.namespace, Names(recorded.namespace))
    try:
        return Literals(recorded.namespace, imports).text(value)
    except NotWritable as why:
        raise ConfigurationError(f"the function cannot be proved: {why}") from None


def _proof(arguments: list[_Argument], expected: str) -> str:
    """A comment, because it contains a value: a model would read a docstring."""
    given = ", ".join(each.given for each in arguments) or "these data"
    return f"# In the run, for {collapse_whitespace(f'{given}: {expected}', 200)}"


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
    names = sorted(Bindings(tree).bound & set(user_names(recorded.namespace)) - {recorded.out})
    return [f"global {', '.join(names)}"] if names else []


def _is_assertion(statement: ast.stmt, name: str) -> bool:
    is_assert = isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Compare)
    return is_assert and ast.unparse(statement.test.left) == name  # type: ignore[attr-defined]


def _source(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else repr(value)
