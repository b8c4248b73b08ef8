"""Translates programs of a model to plain Python, in which tools are ordinary functions.

In the sandbox, tools take JSON and the names of variables, ``answer`` ends the program, and its
variables are not those of the user. Here the functions get the values themselves, the answer is
assigned to a variable, and names that the user has are renamed.
"""

from __future__ import annotations

import ast
import datetime as dt
import enum
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archytas_nb.code.literals import Literals, NotWritable
from archytas_nb.code.recorded import RecordedCall, RecordedProgram
from archytas_nb.code.results import Result, Results, numbers_in
from archytas_nb.code.substitution import FUNCTIONS, Substitution
from archytas_nb.loop.events import CallOutcome
from archytas_nb.syntax.bindings import Bindings, Use
from archytas_nb.syntax.program import (
    PROGRAM_ANSWER,
    PROGRAM_GIVE_UP,
    PROGRAM_SHOW,
    Program,
    called,
    calls,
    given,
)
from archytas_nb.tools.arguments import read_value
from archytas_nb.tools.declaration import python_name
from archytas_nb.tools.parameter import Parameter
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import part_of
from archytas_nb.words import truncate_line

_SHOWING = (PROGRAM_SHOW, "print")
_AWAITS = frozenset({"gather"})
_CONTAINERS = (list, tuple, set, frozenset)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)


class CannotTranslate(Exception):
    """A program cannot be written as plain Python; the text is the reason."""


@dataclass(slots=True)
class Translation:
    """The context of a translation.

    Attributes:
        tools: The tools of the run.
        function: Returns the expression for the function of a tool.
        literals: Writes values as source.
        namespace: The variables of the user.
        results: The results so far.
        new_name: Returns a name that is not taken.
        variables: The names in the code of the programs' variables.
        answer_name: Returns the name of the variable for the answer.
        module: Imports a module of the standard library, and returns its name.
    """

    tools: Mapping[str, Tool]
    function: Callable[[Tool], str]
    literals: Literals
    namespace: Mapping[str, Any]
    results: Results
    new_name: Callable[[str], str]
    variables: dict[str, str]
    answer_name: Callable[[], str]
    module: Callable[[str], str]


@dataclass(slots=True)
class PlainProgram:
    """A program as plain Python.

    Attributes:
        source: The statements; empty if none are needed.
        calls: The calls that they make.
        answer: The variable that the answer is assigned to; empty if there is none.
        notes: Comments above the statements.
        answer_notes: Comments on the answer.
        results: The values of the variables that hold the result of one call.
    """

    source: str
    calls: list[RecordedCall] = field(default_factory=list)
    answer: str = ""
    notes: list[str] = field(default_factory=list)
    answer_notes: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)


def awaited_or_listed(tool: Tool, outcome: CallOutcome | None, called: str) -> str:
    """The source for the result of a call, which may be awaited or read from an iterator."""
    inner = inspect.unwrap(tool.function) if inspect.isroutine(tool.function) else tool.function
    how = outcome.unwrapped if outcome is not None else ""
    if inspect.isasyncgenfunction(inner):
        return f"[each async for each in {called}]"
    if tool.is_async or how == "awaited":
        return f"await {called}"
    if inspect.isgeneratorfunction(inner) or how == "listed":
        return f"list({called})"
    return called


def plain_program(program: RecordedProgram, caller: Translation) -> PlainProgram:
    """Translate a program that was run.

    Raises:
        CannotTranslate: It is not possible.
    """
    return _Translation(program, caller).plain()


def plain_statements(text: str, caller: Translation) -> list[ast.stmt]:
    """The statements of a program, in which tools are ordinary functions.

    Raises:
        CannotTranslate: It is not possible.
    """
    return _Translation(RecordedProgram(text), caller).statements()


class _Translation:
    def __init__(self, program: RecordedProgram, caller: Translation) -> None:
        self._program = program
        self._caller = caller
        text = Program(program.text)
        if text.error is not None:
            raise CannotTranslate(f"it is not plain Python: {text.error}")
        self._tree = text.tree
        self._tools = {python_name(tool): tool for tool in caller.tools.values()}
        self._source = _Statements(program.text, self._tree)
        self._calls = list(program.calls)
        self._notes: list[str] = []
        self._named: dict[str, Any] = {}
        self._modules: set[str] = set()  # that are imported before the program
        self._as_python = Substitution(
            {
                ast.Call: self._of_call,
                ast.GeneratorExp: self._of_generator,
                ast.Await: self._of_await,
                ast.Name: self._of_name,
            }
        )
        for made in self._calls:
            self._refuse(made)

    def _refuse(self, made: RecordedCall) -> None:
        """Give calls that only a separate statement can replace a statement of their own.

        Raises:
            CannotTranslate: This is such a call.
        """
        tool = self._caller.tools.get(made.call.name)
        if tool is not None and any(each.injected == "run" for each in tool.parameters):
            raise CannotTranslate(f"{made.call.name!r} is called with the run itself")
        if made.outcome.unwrapped == "cut":
            raise CannotTranslate(f"{made.call.name!r} gave more items than were read")

    def plain(self) -> PlainProgram:
        body = [each for each in self._tree.body if not _is_end(each, PROGRAM_GIVE_UP)]
        if self._program.has_failed:
            body = self._until_failure(body)
        self._rename(body)
        changed: list[ast.stmt] = []
        for statement in body:
            changed += self._statement(statement)
        changed = Substitution(ends={PROGRAM_SHOW: _without_show}).all(changed)
        if _mentions(changed, PROGRAM_SHOW):
            raise CannotTranslate("it uses the return value of show")
        plain = PlainProgram("", calls=[each for each in self._calls if each.is_done])
        if self._program.has_answer:
            plain.answer = self._caller.new_name(self._caller.answer_name())
            changed = _with_answer(changed, plain.answer, self._caller.new_name)
            plain.answer_notes = list(self._made_up(body))
        elif _mentions(changed, PROGRAM_ANSWER):
            raise CannotTranslate("it mentions answer, but gave no answer")
        if _mentions(changed, PROGRAM_GIVE_UP):
            changed = Substitution(ends={PROGRAM_GIVE_UP: _raised}).all(changed)
        plain.source = self._source.text(changed)
        plain.notes = self._notes
        # A name that is bound twice may hold something else than the result of its call.
        uses = Bindings.of_statements(body).uses
        stored = Counter(each.name for each in uses if each.act == "bind" and not each.is_local)
        plain.results = {name: value for name, value in self._named.items() if stored[name] <= 1}
        return plain

    def statements(self) -> list[ast.stmt]:
        return self._as_python.all(self._tree.body)

    # ── programs that failed ──────────────────────────────────────────────────────────────────────

    def _until_failure(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements before the one that failed."""
        ended = self._program.ended
        line = 0
        if ended is not None and ended.error is not None:
            line = ended.error.line
        elif self._calls:
            line = self._calls[-1].line
        failed = next(
            (each for each in body if each.lineno <= line <= (each.end_lineno or each.lineno)), None
        )
        if failed is None or isinstance(failed, FUNCTIONS):
            raise CannotTranslate("it is not known which statement of it failed")
        there = [each for each in self._calls if self._is_in(each, failed)]
        if any(each.is_done or each.has_failed_late for each in there):
            raise CannotTranslate("it failed in a statement after some of its calls were made")
        is_simple = isinstance(failed, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign))
        if not is_simple and Bindings(failed).bound:
            raise CannotTranslate("it failed in a statement with several parts")
        return body[: body.index(failed)]

    @staticmethod
    def _is_in(made: RecordedCall, statement: ast.stmt) -> bool:
        return statement.lineno <= made.line <= (statement.end_lineno or statement.lineno)

    # ── names ─────────────────────────────────────────────────────────────────────────────────────

    def _rename(self, body: Sequence[ast.stmt]) -> None:
        """Rename variables of the program to names that the user does not have."""
        variables = self._caller.variables
        bindings = Bindings.of_statements(body)
        bound = bindings.bound_in_order
        for name in _imported(body) - variables.keys():
            if self._caller.namespace.get(name) in (None, sys.modules.get(name)):
                self._modules.add(name)
                variables[name] = self._caller.module(name)
        for name in bound:
            if name not in variables:
                new = self._caller.new_name(name)
                while new != name and new in bindings.bound_anywhere:  # such as by a function
                    new = self._caller.new_name(name)
                variables[name] = new
        changed = {name: new for name, new in variables.items() if name != new}
        if not changed:
            return
        for name in bound:
            is_read = name in bindings.read_first and name in self._caller.namespace
            if name in changed and is_read:
                raise CannotTranslate(f"it assigns {name!r}, a variable of yours that it has read")
        _renamed(body, bindings.uses, changed)

    # ── statements ────────────────────────────────────────────────────────────────────────────────

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        """A statement of the program as it runs in the kernel; none if it only shows something."""
        if (
            isinstance(statement, ast.Import)
            and {each.name for each in statement.names} <= self._modules
        ):
            return []  # it is among the imports
        made = self._called_alone(statement)
        [changed] = self._as_python.all([statement])
        if isinstance(changed, ast.Expr) and called(changed.value) in _SHOWING:
            return self._shown(changed, made)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and made is not None:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                self._know(target.id, made)
        return [changed]

    def _know(self, name: str, made: RecordedCall) -> None:
        self._named[name] = made.outcome.value
        self._caller.results.add(Result(made.outcome.value, lambda: name, made.outcome.text))

    def _shown(self, statement: ast.Expr, made: RecordedCall | None) -> list[ast.stmt]:
        """A statement that shows something to the model: a call gets a name, the rest goes."""
        if not isinstance(statement.value, ast.Call):
            return [statement]
        arguments = statement.value.args
        acting = [each for each in arguments if _acts(each)]
        has_result = made is not None and made.outcome.value is not None
        if made is not None and has_result and len(arguments) == len(acting) == 1:
            name = self._caller.new_name(f"{made.call.name}_result")
            self._know(name, made)
            assigned = ast.Assign([ast.Name(name, ast.Store())], acting[0])
            return [_placed(assigned, statement)]
        if called(statement.value) != PROGRAM_SHOW:
            return [statement]
        return [_placed(ast.Expr(each), statement) for each in acting]

    def _called_alone(self, statement: ast.stmt) -> RecordedCall | None:
        """The call that a statement makes, if its value is that of the one call."""
        value = getattr(statement, "value", None)
        if isinstance(value, ast.Call) and called(value) in _SHOWING:
            value = value.args[0] if len(value.args) == 1 else None
        if isinstance(value, ast.Await):
            value = value.value
        if called(value) not in self._tools:
            return None
        made = [each for each in self._calls if each.is_done and self._is_in(each, statement)]
        return made[0] if len(made) == 1 else None

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def tool(self, node: ast.AST) -> Tool | None:
        """The tool that an expression names."""
        if isinstance(node, ast.Name):
            return self._tools.get(node.id)
        return None

    def call(self, node: ast.Call, tool: Tool, *, in_function: bool) -> ast.expr:
        """The call of a tool as a call of its function."""
        # A call in the text has no id: its name and its lines tell which calls it made.
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        made = [each for each in self._calls if each.call.name == tool.name and each.line in lines]
        args, keywords = self._arguments(node, tool, made)
        call: ast.expr = ast.Call(_parsed(self._caller.function(tool)), args, keywords)
        outcome = next((each.outcome for each in made if each.is_done), None)
        plain = ast.unparse(call)
        source = awaited_or_listed(tool, outcome, plain)
        if source == plain:
            return call
        if in_function and ("await " in source or "async " in source):
            raise CannotTranslate(f"a function of it calls {tool.name!r}, which is async")
        return _parsed(source)

    def _arguments(
        self, node: ast.Call, tool: Tool, made: Sequence[RecordedCall]
    ) -> tuple[list[ast.expr], list[ast.keyword]]:
        """The arguments of a call for the function, by position and by name.

        Python evaluates arguments as they are written, so their order stays. Those that the tool
        injects come first; then no argument that follows them can be positional.
        """
        args: list[ast.expr] = []
        keywords: list[ast.keyword] = []

        def add(parameter: Parameter, name: str, value: ast.expr, *, is_first: bool) -> None:
            if parameter.positional or is_first:
                args.append(value)
            else:
                keywords.append(ast.keyword(name, value))

        injected = [each for each in tool.parameters if each.injected]
        visible = [each for each in tool.parameters if not each.injected]
        for each in injected:
            add(each, each.name, _parsed("globals()"), is_first=False)
        parameters = {each.name: each for each in visible}
        rest = next((each for each in visible if each.is_rest), None)
        given = {name: (place, value) for name, place, value in _given(node, visible)}
        for name, (place, value) in given.items():
            parameter = parameters.get(name, rest)
            if parameter is not None:
                converted = self._argument(parameter, value, made)
                is_first = place == "positional" and not injected
                add(parameter, name, converted, is_first=is_first)
        return args, keywords

    def _argument(
        self, parameter: Parameter, value: ast.expr, made: Sequence[RecordedCall]
    ) -> ast.expr:
        """An argument for the function, as the validation of the tool converts it."""
        try:
            literal = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return self._converted(parameter, value, made)
        if isinstance(value, ast.Constant) and not parameter.type.by_reference:
            self._note_number(literal, parameter)
            equal = self._caller.results.equal(literal)
            if equal is not None:
                self._notes.append(f"a guess: {truncate_line(repr(literal), 60)} is {equal}")
                return _parsed(equal)
        bound, faults = read_value(parameter.type, literal, self._caller.namespace)
        if parameter.type.by_reference and isinstance(literal, str):
            if literal.isidentifier():
                return _parsed(literal)
            part = None if faults else part_of(literal, self._caller.namespace)
            return value if part is None else _parsed(part.source)
        if faults or (type(bound) is type(literal) and bound == literal):
            return value
        try:
            return _parsed(self._caller.literals.text(bound))
        except NotWritable:
            return value

    def _note_number(self, value: Any, parameter: Parameter) -> None:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or value in (0, 1, -1) or parameter.default == value:
            return
        listed = " ".join([parameter.text, parameter.type.text, *parameter.type.details])
        if any(each == value for each, _ in numbers_in(listed)):
            return
        if not self._caller.results.is_known(value):
            self._notes.append(
                f"{value!r} was chosen by the model, not taken from the question or a result"
            )

    def _converted(
        self, parameter: Parameter, value: ast.expr, made: Sequence[RecordedCall]
    ) -> ast.expr:
        """A computed argument, with the conversion that the tool applied to its values."""
        given = [each for each in made if parameter.name in each.values]
        if parameter.type.by_reference:
            if given and all(isinstance(each.values[parameter.name], str) for each in given):
                return ast.Subscript(_parsed("globals()"), value, ast.Load())
            return value
        conversions = {self._conversion(parameter, each) for each in given}
        if len(conversions) != 1 or conversions == {"{}"}:
            return value
        return _parsed(conversions.pop().format(ast.unparse(value)))

    def _conversion(self, parameter: Parameter, made: RecordedCall) -> str:
        """How an argument of a call was converted: the source, with ``{}`` for the argument."""
        given = made.values[parameter.name]
        sent = made.call.input
        sent = sent.get(parameter.name) if isinstance(sent, dict) else sent
        bound, faults = read_value(parameter.type, sent, self._caller.namespace)
        if faults or type(bound) is type(given):
            return "{}"
        try:
            name = self._caller.literals.class_name(type(bound))
        except NotWritable:
            self._notes.append(
                f"the argument {parameter.name!r} is given as the program computed it"
            )
            return "{}"
        if isinstance(given, str) and isinstance(bound, (dt.date, dt.time)):
            return f"{name}.fromisoformat({{}})"
        if isinstance(bound, enum.Enum):
            is_name = given == bound.name and given != bound.value
            return f"{name}[{{}}]" if is_name else f"{name}({{}})"
        if isinstance(given, dict):
            return f"{name}(**{{}})"
        is_scalar = isinstance(given, (str, int, float)) and not isinstance(bound, dt.timedelta)
        if is_scalar or (isinstance(given, (list, tuple)) and isinstance(bound, _CONTAINERS)):
            return f"{name}({{}})"
        return "{}"

    def is_gather(self, node: ast.AST) -> bool:
        """Whether an expression waits for several calls of tools: here they run one by one."""
        if not isinstance(node, ast.Call) or node.keywords:
            return False
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        return name in _AWAITS and any(each in self._tools for each in names)

    # ── replacing parts of a program ──────────────────────────────────────────────────────────────

    def _of_call(self, node: ast.Call) -> ast.expr | None:
        """A call of a tool becomes one of its function."""
        tool = self.tool(node.func)
        if tool is None:
            return None
        function = node.func
        node.func = ast.Name("", ast.Load())  # it is not a value
        self._as_python.inside(node)
        node.func = function
        return self.call(node, tool, in_function=self._as_python.in_function)

    def _of_generator(self, node: ast.GeneratorExp) -> ast.expr:
        """One that awaits would be an async generator, which few functions take."""
        self._as_python.inside(node)
        if any(isinstance(each, ast.Await) for each in ast.walk(node)):
            return ast.ListComp(node.elt, node.generators)
        return node

    def _of_await(self, node: ast.Await) -> ast.expr:
        """A program may await tools that are plain functions here, or several together."""
        if isinstance(node.value, ast.Call) and self.is_gather(node.value):
            return ast.List([self._as_python.visit(each) for each in node.value.args], ast.Load())
        is_tool = isinstance(node.value, ast.Call) and self.tool(node.value.func)
        self._as_python.inside(node)
        return node.value if is_tool else node

    def _of_name(self, node: ast.Name) -> ast.expr | None:
        """A tool as a value, such as the key of ``max``."""
        tool = self.tool(node)
        if tool is None or not isinstance(node.ctx, ast.Load):
            return None
        if awaited_or_listed(tool, None, "f()") != "f()" or any(
            each.injected for each in tool.parameters
        ):
            raise CannotTranslate(f"it passes {tool.name!r} on as a function")
        return _parsed(self._caller.function(tool))

    # ── the answer ────────────────────────────────────────────────────────────────────────────────

    def _made_up(self, body: Sequence[ast.stmt]) -> Iterator[str]:
        """Notes about numbers in the answer that the program does not compute."""
        answers = calls(ast.Module([*body], []), PROGRAM_ANSWER)
        constants = [each.value for call in answers for each in self._constants(call)]
        texts = [str(each) for each in constants if isinstance(each, (str, int, float))]
        known = self._caller.results
        for made in self._calls:
            known.add_text(made.outcome.text)
        for each in known.unknown_numbers("\n".join(texts)):
            yield f"{each} is not a result: the model worked it out by itself"

    def _constants(self, node: ast.AST) -> Iterator[ast.Constant]:
        """The constants in an expression, without those that are given to tools."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant):
                yield child
            elif not (isinstance(child, ast.Call) and self.tool(child.func)):
                yield from self._constants(child)


def _parsed(source: str) -> ast.expr:
    return ast.parse(source, mode="eval").body


def _given(node: ast.Call, visible: Sequence[Parameter]) -> list[tuple[str, str, ast.expr]]:
    """The arguments of a call: name, how it is given, and value."""
    if any(isinstance(each, ast.Starred) for each in node.args):
        raise CannotTranslate("it calls a tool with a list of arguments")
    found = [
        (parameter.name, "positional", value)
        for parameter, value in zip(visible, node.args, strict=False)
    ]
    for each in node.keywords:
        if each.arg is not None:
            found.append((each.arg, "named", each.value))
        elif isinstance(each.value, ast.Dict):
            for key, value in zip(each.value.keys, each.value.values, strict=True):
                if not isinstance(key, ast.Constant):
                    raise CannotTranslate("it calls a tool with computed names of arguments")
                found.append((str(key.value), "named", value))
        else:
            raise CannotTranslate("it calls a tool with computed names of arguments")
    return found


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def _renamed(body: Sequence[ast.stmt], uses: Iterable[Use], names: Mapping[str, str]) -> None:
    """Rename variables of the module wherever they occur."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Global):
                node.names = [names.get(each, each) for each in node.names]
    for each in uses:
        if not each.is_local and each.name in names:
            _set_name(each.node, names[each.name])


def _set_name(node: ast.AST, name: str) -> None:
    match node:
        case ast.Name():
            node.id = name
        case ast.alias(name=module, asname=None) if "." in module:
            raise CannotTranslate(f"it imports {module!r}, whose first name is a variable of yours")
        case ast.alias():
            node.asname = name
        case ast.MatchMapping():
            node.rest = name
        case ast.Attribute() | ast.Subscript():
            pass  # the name is inside of it
        case _:
            node.name = name  # type: ignore[attr-defined]


def _imported(body: Sequence[ast.stmt]) -> set[str]:
    """The modules that statements import under their own names."""
    return {
        each.name for statement in body if isinstance(statement, ast.Import)
        for each in statement.names if each.asname is None
    }  # fmt: skip


# ── the end of a program ──────────────────────────────────────────────────────────────────────────


def _mentions(body: Sequence[ast.stmt], *names: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id in names
        for statement in body for node in ast.walk(statement)
    )  # fmt: skip


def _is_end(statement: ast.stmt, name: str) -> bool:
    """Whether a statement only ends the program, without a call in its value."""
    is_end = isinstance(statement, ast.Expr) and called(statement.value) == name
    return is_end and sum(isinstance(each, ast.Call) for each in ast.walk(statement)) == 1


def _acts(node: ast.AST) -> bool:
    """Whether an expression contains a call."""
    return any(isinstance(each, (ast.Call, ast.Await)) for each in ast.walk(node))


def _placed(made: ast.stmt, statement: ast.stmt) -> ast.stmt:
    """A new statement in the place of another one."""
    return ast.fix_missing_locations(ast.copy_location(made, statement))


def _without_show(call: ast.Call) -> list[ast.stmt]:
    """Leave out values that are shown to the model, but keep calls of tools in them."""
    acting: list[ast.stmt] = [ast.Expr(each) for each in call.args if _acts(each)]
    return acting or [ast.Pass()]


def _raised(call: ast.Call) -> list[ast.stmt]:
    """``give_up`` ends the program with an error, where it is reached."""
    return [ast.Raise(ast.Call(ast.Name("RuntimeError", ast.Load()), call.args, []))]


def _with_answer(body: list[ast.stmt], name: str, new_name: Callable[[str], str]) -> list[ast.stmt]:
    """The statements with an assignment in place of ``answer``, which ends the program.

    Raises:
        CannotTranslate: `answer` is called in a place where no statement can be.
    """
    try:
        changed = _answered(body, name, in_loop=False)
    except CannotTranslate:
        changed = _raising(body, name, new_name("Answered"), new_name("ended"))
    if _mentions(changed, PROGRAM_ANSWER) and name != PROGRAM_ANSWER:
        raise CannotTranslate("it calls answer inside an expression")
    return changed


def _answered_value(call: ast.Call) -> ast.expr:
    """The value that is passed to ``answer``."""
    values = given(call)
    if len(values) != 1:
        raise CannotTranslate("it calls answer in an unusual form")
    return values[0]


def _answer_of(statement: ast.stmt) -> ast.Call | None:
    """The call of a statement that ends with the answer; None for any other."""
    value = getattr(statement, "value", None)
    is_answer = isinstance(statement, ast.Expr) and called(value) == PROGRAM_ANSWER
    return value if is_answer else None


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Whether statements always end the program."""
    for each in body:
        if _answer_of(each) is not None:
            return True
        if isinstance(each, ast.If) and each.orelse and _ends(each.body) and _ends(each.orelse):
            return True
    return False


def _answered(body: Sequence[ast.stmt], name: str, *, in_loop: bool) -> list[ast.stmt]:
    """Statements in which nothing runs after the answer; in a loop, it is left."""
    for place, statement in enumerate(body):
        before = list(body[:place])
        rest = list(body[place + 1 :])
        answer = _answer_of(statement)
        if answer is not None:
            left: list[ast.stmt] = [ast.Break()] if in_loop else []
            assigned = ast.Assign([ast.Name(name, ast.Store())], _answered_value(answer))
            return [*before, _placed(assigned, statement), *left]
        if not _mentions([statement], PROGRAM_ANSWER):
            continue
        if isinstance(statement, ast.If):
            return [*before, _branched(statement, rest, name, in_loop=in_loop), *(
                _answered(rest, name, in_loop=True) if in_loop else []
            )]  # fmt: skip
        if not isinstance(statement, (ast.For, ast.While)) or in_loop:
            raise CannotTranslate("answer is called inside another statement")
        if statement.orelse or _has_break(statement):
            raise CannotTranslate("answer is called in a loop that ends in several ways")
        statement.body = _answered(statement.body, name, in_loop=True)
        statement.orelse = _answered(rest, name, in_loop=False)
        return [*before, statement]
    return list(body)


def _branched(statement: ast.If, rest: list[ast.stmt], name: str, *, in_loop: bool) -> ast.If:
    """A condition, with the statements after it where the program has not ended."""
    has_rest = bool(rest) and not in_loop
    ends_first = _ends(statement.body)
    ends_second = _ends(statement.orelse)
    body = _answered(statement.body, name, in_loop=in_loop)
    orelse = _answered(statement.orelse, name, in_loop=in_loop)
    if has_rest and not (ends_first and ends_second):
        if ends_first:
            orelse += _answered(rest, name, in_loop=False)
        elif ends_second:
            body += _answered(rest, name, in_loop=False)
        else:
            raise CannotTranslate("it is not certain whether a branch ends the program")
    return ast.copy_location(ast.If(statement.test, body, orelse), statement)


def _has_break(loop: ast.For | ast.While) -> bool:
    """Whether a loop has its own ``break``."""
    todo: list[ast.AST] = [*loop.body]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Break):
            return True
        if not isinstance(node, (*_LOOPS, *FUNCTIONS)):
            todo += ast.iter_child_nodes(node)
    return False


def _raising(body: Sequence[ast.stmt], name: str, exception: str, ended: str) -> list[ast.stmt]:
    """The program in a ``try``, which an exception with the answer leaves."""

    def raised(call: ast.Call) -> list[ast.stmt]:
        value = _answered_value(call)
        return [ast.Raise(ast.Call(ast.Name(exception, ast.Load()), [value], []))]

    inside = Substitution(ends={PROGRAM_ANSWER: raised}).all(body)
    frame = ast.parse(
        f"class {exception}(BaseException):\n    pass\n"
        f"try:\n    pass\nexcept {exception} as {ended}:\n    {name} = {ended}.args[0]"
    )
    for each in frame.body:
        if isinstance(each, ast.Try):
            each.body = inside
    return [ast.fix_missing_locations(each) for each in frame.body]


# ── the text ──────────────────────────────────────────────────────────────────────────────────────


class _Statements:
    """The text of a program: statements that stay as they are keep theirs, with its comments."""

    def __init__(self, text: str, tree: ast.Module) -> None:
        self._lines = text.split("\n")
        self._above: dict[tuple[int, int], list[str]] = {}
        self._as_written: dict[tuple[int, int], tuple[str, str]] = {}
        spans = [_lines_of(each) for each in tree.body]
        end = 0
        for each, (first, last) in zip(tree.body, spans, strict=True):
            key = (each.lineno, each.col_offset)
            between = self._lines[end : first - 1]
            self._above[key] = [line for line in between if line.lstrip().startswith("#")]
            end = last
            others = sum(first <= b and a <= last for a, b in spans) - 1
            if not others:
                lines = "\n".join(self._lines[first - 1 : last])
                self._as_written[key] = (ast.dump(each), lines)

    def text(self, body: Sequence[ast.stmt]) -> str:
        """The statements as text."""
        parts: list[str] = []
        for each in body:
            key = (getattr(each, "lineno", 0), getattr(each, "col_offset", 0))
            parts += self._above.pop(key, [])
            dump, lines = self._as_written.get(key, ("", ""))
            parts.append(lines if dump == ast.dump(each) else ast.unparse(each))
        return "\n".join(parts)


def _lines_of(statement: ast.stmt) -> tuple[int, int]:
    """The first line of a statement, with its decorators, and its last."""
    decorators = [each.lineno for each in getattr(statement, "decorator_list", [])]
    return min([statement.lineno, *decorators]), statement.end_lineno or statement.lineno
