"""Derives the code of a run: function calls in place of the requests of the model.

Failed and repeated calls are left out. A result gets a name, and a literal that equals an earlier
result becomes that name. A comment marks values that the model chose by itself.
"""

from __future__ import annotations

import ast
import contextlib
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from archytas_nb.code.literals import Literals, NotWritable
from archytas_nb.code.names import Imports, Names, function_of, own_name
from archytas_nb.code.programs import CannotTranslate, Translation, awaited_or_listed, plain_program
from archytas_nb.code.recorded import Recorded, RecordedCall, RecordedProgram, Reply, replies
from archytas_nb.code.results import Result, Results, digits_of, numbers_in
from archytas_nb.kernel.copied import without_keeping
from archytas_nb.kernel.look import look_tools
from archytas_nb.kernel.person import ask_user
from archytas_nb.loop import events as ev
from archytas_nb.loop.calls_made import call_key
from archytas_nb.tools import arguments
from archytas_nb.tools.parameter import Parameter
from archytas_nb.tools.paths import NoPartError
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import name_of, part_of, reference_name
from archytas_nb.words import collapse_whitespace, truncate_line

WIDTH = 100
# names only, so that the modules are not loaded
_OTHERS = ("archytas_nb.skills", "archytas_nb.tools.search")
_TEXTS = {*(tool.function.__module__ for tool in look_tools()), *_OTHERS}
"""The modules of tools with which a model reads; their results are only texts for the model."""


@dataclass(slots=True)
class Block:
    """Some statements of the code.

    Attributes:
        source: The statements.
        notes: Comments above them.
        is_verbatim: Whether the model wrote them for the kernel.
        value: The value of the last expression of such code, in the run.
        has_value: Whether that is known.
        name: The variable that it is assigned to; empty if it is not.
        call_id: The call that ran such code.
        is_assertion: Whether it asserts that the code computes the answer of the run.
    """

    source: str
    notes: list[str] = field(default_factory=list)
    is_verbatim: bool = False
    value: Any = None
    has_value: bool = False
    name: str = ""
    call_id: str = ""
    is_assertion: bool = False

    @property
    def text(self) -> str:
        """The statements with the comments."""
        return "\n".join(filter(None, [*(comment(each) for each in self.notes), self.source]))


@dataclass(slots=True)
class Answer:
    """The answer of a run.

    Attributes:
        text: The text of the model.
        name: The variable that the code assigns it to; empty if it assigns none.
        value: The value of a required type, or of the program; the text otherwise.
        has_value: Whether the code computes the value.
        notes: Comments on it.
    """

    text: str
    name: str = ""
    value: Any = None
    has_value: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Code:
    """The code of a run.

    Attributes:
        question: The question.
        blocks: The statements, in order.
        imports: Lines that precede them.
        answer: The answer.
        calls: The calls of the code that return, in order, without those of verbatim code.
        verbatim: The calls that ran verbatim code, and the calls of the code that raise.
        tools: The tools that it calls, by the expression for their function.
        names: The variables that it assigns besides those of verbatim code.
        results: The values of the variables that hold the result of one call.
    """

    question: str
    blocks: list[Block] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    answer: Answer = field(default_factory=lambda: Answer(""))
    calls: list[RecordedCall] = field(default_factory=list)
    verbatim: list[RecordedCall] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The code as one text: the question, the statements, and the answer."""
        return "\n".join(filter(None, [comment(self.question), self.body, *self.closing]))

    @property
    def body(self) -> str:
        """The statements."""
        return "\n".join([*self.imports, *(each.text for each in self.blocks if each.text)])

    @property
    def shows_output(self) -> bool:
        """Whether its calls print or display something."""
        has_shown = any(made.outcome.outputs for made in (*self.calls, *self.verbatim))
        return has_shown or "print(" in self.body

    @property
    def closing(self) -> list[str]:
        """The lines about the answer."""
        answer = self.answer
        lines = [comment(each) for each in answer.notes]
        if answer.text:
            lines.insert(0, comment(f"answer: {answer.text}"))
        return lines


def comment(text: str) -> str:
    """A text as lines of a comment."""
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        lines += textwrap.wrap(line, WIDTH - 2, break_long_words=False) or [""]
    return "\n".join(f"# {line}".rstrip() for line in lines)


def derive(recorded: Recorded) -> Code:
    """The code of a run.

    Programs become plain Python; where one of them cannot, the code has its calls instead.
    """
    try:
        return _Derivation(recorded).code()
    except CannotTranslate as why:
        return _Derivation(recorded, not_plain=str(why)).code()


class _Derivation:
    def __init__(self, recorded: Recorded, not_plain: str = "") -> None:
        self._recorded = recorded
        self._not_plain = not_plain  # why programs are written as their calls
        self._namespace = recorded.namespace
        self._replies = replies(recorded.events)
        all_calls = [each for reply in self._replies for each in _all_calls(reply)]
        self._own = {each.outcome.stored for each in all_calls if each.outcome.stored}
        if recorded.out:
            self._own.add(recorded.out)
        taken = {*map(str, self._namespace)} - self._own
        for tool in recorded.tools.values():
            found = function_of(tool, self._namespace) or own_name(tool)
            taken.add(found.partition(".")[0])
        for each in all_calls:
            if self._is_python(each):
                taken |= _words(_code_of(each))
        self._names = Names(taken)
        self._imports = Imports(self._namespace, self._names)
        self._literals = Literals(self._namespace, self._imports)
        self._results = Results(recorded.question)
        self._code = Code(recorded.question)
        if not_plain:
            self._code.answer.notes.append(f"only the calls of the program: {not_plain}")
        self._renamed: dict[str, str] = {}  # stored results whose name is taken now
        self._seen: dict[str, RecordedCall] = {}  # the last call of each kind
        self._made: list[RecordedCall] = []  # all calls that were done, in order
        self._repeated = {each.outcome.repeats for each in all_calls} - {""}
        self._variables: dict[str, str] = {}  # of the programs, whose names are taken
        self._has_answer = False

    def code(self) -> Code:
        for reply in self._replies:
            for made in reply.calls:
                self._call(made)
            for number, program in enumerate(reply.programs):
                is_last = number == len(reply.programs) - 1
                self._program(program, is_last=is_last and reply is self._replies[-1])
        self._answer()
        self._code.imports = self._imports.lines
        self._code.names += self._imports.names
        return self._code

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _is_python(self, made: RecordedCall) -> bool:
        tool = self._recorded.tools.get(made.call.name)
        return tool is not None and tool.runs_code

    def _call(self, made: RecordedCall) -> None:
        """Add a call outside of a program."""
        tool = self._recorded.tools.get(made.call.name)
        if tool is None or made.outcome.repeats:
            return
        if made.has_failed_late:
            self._failed(made, tool)
        elif not made.is_done:
            self._note_lost(made)
        elif tool.function.__module__ in _TEXTS:
            self._results.add_text(made.outcome.text)
        elif not self._is_repeated(made, tool):
            self._seen[call_key(made.call)] = made
            self._done(made, tool)

    def _done(self, made: RecordedCall, tool: Tool) -> None:
        """Add a call that has returned."""
        if tool.runs_code:
            self._verbatim(made)
        elif tool.function is ask_user:
            self._person(made)
        elif any(each.injected == "run" for each in tool.parameters):
            self._kept(made, f"{tool.name} uses the run that calls it, and returned this")
        else:
            self._statement(made, tool)

    def _failed(self, made: RecordedCall, tool: Tool) -> None:
        """Add a call that raised when it had changed variables."""
        notes = [f"it raised this in the run, too, after it had changed {_changed(made)}"]
        if tool.runs_code:
            called = _code_of(made).strip("\n")
        else:
            called = self._call_text(made, tool, notes)
        try:
            caught = self._literals.class_name(type(made.outcome.error))
        except NotWritable:
            caught = "Exception"
        source = f"try:\n{indented(called)}\nexcept {caught}:\n    pass"
        self._code.blocks.append(Block(source, notes, is_verbatim=True))
        self._code.verbatim.append(made)
        self._results.add_text(made.outcome.text)

    def _note_lost(self, made: RecordedCall) -> None:
        """Add a comment on the changes of a stopped call."""
        if made.outcome.diff:
            what = f"{made.call.name} was stopped after it had changed {_changed(made)}"
            self._code.blocks.append(Block("", [f"{what}: the code leaves that out"]))

    def _is_repeated(self, made: RecordedCall, tool: Tool) -> bool:
        """Whether an equal call returned this before, and this one certainly changed nothing."""
        before = self._seen.get(call_key(made.call))
        if before is None or tool.repeat or made.outcome.diff or made.outcome.outputs:
            return False
        has_no_effect = tool.pure or self._recorded.is_watched
        has_value = made.outcome.value is not None
        return has_no_effect and has_value and before.outcome.text == made.outcome.text

    def _verbatim(self, made: RecordedCall) -> None:
        """Add code of the model, unchanged."""
        source = _code_of(made).strip("\n")
        outcome = made.outcome
        block = Block(source, is_verbatim=True, value=outcome.value, has_value=True)
        block.call_id = outcome.call_id
        self._code.blocks.append(block)
        self._code.verbatim.append(made)
        self._results.add_text(outcome.text)
        split = _last_expression(source)
        if split is None or outcome.value is None:
            return
        before, last = split
        name = ""

        def expression() -> str:
            nonlocal name
            if last.isidentifier():
                return last
            if not name:
                name = self._new(outcome.stored or "result")
                block.source = f"{before}{name} = {last}"
                block.name = name
            return name

        if outcome.stored:
            expression()
        self._results.add(Result(outcome.value, expression, outcome.text))

    def _person(self, made: RecordedCall) -> None:
        """An answer of a person becomes a literal, so that nobody is asked again."""
        asked = made.call.input
        if isinstance(asked, dict):
            asked = next(iter(asked.values()), "")
        self._kept(made, f"you were asked: {collapse_whitespace(str(asked), 200)}", "said")

    def _kept(self, made: RecordedCall, note: str, stem: str = "") -> None:
        """A value that the code cannot compute becomes a literal."""
        value = made.outcome.value
        try:
            source = self._literals.text(value)
        except NotWritable as why:
            self._results.add_text(made.outcome.text)
            self._code.blocks.append(Block("", [f"{note}; {why}"]))
            return
        name = self._new(stem) if stem else self._result_name(made)
        self._code.blocks.append(Block(f"{name} = {source}", [note]))
        self._results.add(Result(value, lambda: name, made.outcome.text))

    def _statement(self, made: RecordedCall, tool: Tool) -> None:
        outcome = made.outcome
        notes: list[str] = []
        called = self._call_text(made, tool, notes)
        name = ""
        if outcome.value is not None:
            name = self._result_name(made)
            called = _assigned(name, called)
            self._code.results[name] = outcome.value
            self._results.add(Result(outcome.value, lambda: name, outcome.text))
        else:
            self._results.add_text(outcome.text)
        self._code.blocks.append(Block(called, notes))
        self._code.calls.append(made)

    def _call_text(self, made: RecordedCall, tool: Tool, notes: list[str]) -> str:
        function = self._function(tool)
        positional: list[str] = []
        named: list[str] = []
        for parameter, text in self._arguments(made, tool, notes):
            if parameter.positional:
                positional.append(text)
            else:
                named.append(f"{parameter.name}={text}")
        called = awaited_or_listed(tool, made.outcome, called_text(function, [*positional, *named]))
        if made.outcome.unwrapped == "cut":
            islice = f"{self._imports.module('itertools')}.islice"
            return f"list({islice}({called}, {len(made.outcome.value)}))"
        return called

    def _function(self, tool: Tool) -> str:
        function = function_of(tool, self._namespace) or self._imports.member(tool.function)
        function = function or own_name(tool)
        self._code.tools[function] = tool
        return function

    def _arguments(
        self, made: RecordedCall, tool: Tool, notes: list[str]
    ) -> Iterator[tuple[Parameter, str]]:
        visible = [each for each in tool.parameters if not each.injected]
        seen = _Seen(self._namespace)
        values, faults = arguments.read(visible, made.call.input, seen)
        if faults:  # a variable is gone, or another one now
            values = _as_sent(visible, made.call.input)
        values |= made.objects
        given = [each.name in values or _is_shared(each) for each in tool.parameters]
        last = max((n for n, is_given in enumerate(given) if is_given), default=-1)
        for number, each in enumerate(tool.parameters):
            if each.injected:
                yield each, "globals()"
            elif each.is_rest:
                named = {parameter.name for parameter in visible}
                for name in (name for name in values if name not in named):
                    other = replace(each, name=name, is_rest=False)
                    sent = _sent(made.call.input, other)
                    yield other, self._argument(other, values[name], sent, seen, notes)
            elif each.name in values:
                value = values[each.name]
                sent = made.objects.get(each.name, _sent(made.call.input, each))
                yield each, self._argument(each, value, sent, seen, notes)
            elif _is_shared(each) or (each.positional and number < last):
                yield each, self._literals.text(each.fresh_default())

    def _argument(
        self, parameter: Parameter, value: Any, sent: Any, seen: _Seen, notes: list[str]
    ) -> str:
        """One argument as source."""
        if value is sent and not _is_scalar(value):  # an object that JSON cannot represent
            named = self._results.same_object(value) or name_of(value, self._namespace)
            if named:
                return named
        if parameter.type.by_reference:
            named = self._reference(value, sent, seen)
            if named:
                return named

        def substitute(each: Any) -> str | None:
            if parameter.type.by_reference and id(each) in seen.found:
                return self._name_in_code(seen.found[id(each)], each)
            found = self._results.equal(each)
            if found is not None:
                notes.append(f"a guess: {_shown(each)} is {found}")
            elif _is_number(each) and not self._is_usual(each, parameter):
                why = "was chosen by the model, not taken from the question or a result"
                notes.append(f"{_shown(each)} {why}")
            return found

        try:
            return self._literals.text(value, substitute)
        except NotWritable as why:
            notes.append(f"the argument {parameter.name!r} is given as it was sent: {why}")
            return repr(sent)

    def _is_usual(self, number: Any, parameter: Parameter) -> bool:
        """Whether a number is one of the question, of the results, or of the tool."""
        if number in (0, 1, -1) or (parameter.optional and parameter.default == number):
            return True
        listed = " ".join([parameter.text, parameter.type.text, *parameter.type.details])
        if any(each == number for each, _ in numbers_in(listed)):
            return True
        return self._results.is_known(number)

    def _reference(self, value: Any, sent: Any, seen: _Seen) -> str:
        """The name of the variable that an argument refers to; empty if it refers to none."""
        name = reference_name(sent)
        if name is None and isinstance(sent, str):
            name = sent.strip()
        if name is None:
            return ""
        with contextlib.suppress(NoPartError):
            part = part_of(name, self._namespace)
            if part is not None and part.root != name and part.value is not None:
                root = self._name_in_code(part.root, self._namespace[part.root])
                return f"{root}{part.source.removeprefix(part.root)}"
        if name.isidentifier() and (id(value) in seen.found or isinstance(value, (str, dict))):
            return self._name_in_code(name, value)
        return ""

    def _name_in_code(self, name: str, value: Any) -> str:
        """The expression for a variable that a call named; a variable of the run may be renamed."""
        if name in self._renamed:
            return self._renamed[name]
        if name in self._own:
            return name
        found = self._results.same_object(value)
        if found is not None and not name_of(value, self._namespace):
            return found
        return name

    def _result_name(self, made: RecordedCall) -> str:
        """A name for the result of a call, made from the text argument that distinguishes it."""
        outcome = made.outcome
        if outcome.stored:
            name = self._new(outcome.stored)
            if name != outcome.stored:
                self._renamed[outcome.stored] = name
            return name
        # Of several calls of a tool, a text that only this one got tells it apart: `gentoo`.
        others = [each for each in self._all_calls() if each.call.name == made.call.name]
        stem = re.sub(r"\W+", "_", made.call.name).strip("_").lower()
        given = made.call.input
        if isinstance(given, dict) and len(others) > 1:
            words = [each for each in given.values() if isinstance(each, str)]
            different = [each for each in words if not all(
                isinstance(other.call.input, dict) and each in other.call.input.values()
                for other in others
            )]  # fmt: skip
            slug = re.sub(r"\W+", "_", different[0]).strip("_").lower() if different else ""
            if slug and len(slug) <= 30:
                return self._new(slug if not slug[0].isdigit() else f"{stem}_{slug}")
        return self._new(f"{stem}_result")

    def _all_calls(self) -> list[RecordedCall]:
        return [each for reply in self._replies for each in _all_calls(reply) if each.is_done]

    def _new(self, stem: str) -> str:
        name = self._names.take(stem)
        self._code.names.append(name)
        return name

    # ── programs ──────────────────────────────────────────────────────────────────────────────────

    def _program(self, program: RecordedProgram, *, is_last: bool) -> None:
        """Add a program as plain Python, or only its calls.

        Raises:
            CannotTranslate: It cannot be written so.
        """
        if self._not_plain:
            for made in program.calls:
                self._call(made)
            return
        if any(each.outcome.edit is not None for each in program.calls):
            raise CannotTranslate("a person changed the arguments of one of them")
        done = [each for each in program.calls if each.is_done]
        is_written_again = any(each.call.id in self._repeated for each in done)
        # The program that corrects this one makes the same calls: only the others are added here.
        if program.has_failed and is_written_again:
            for made in done:
                if made.call.id not in self._repeated:
                    self._call(made)
            return
        caller = Translation(
            tools=self._recorded.tools,
            function=self._function,
            literals=self._literals,
            namespace=self._namespace,
            results=self._results,
            new_name=self._new,
            variables=self._variables,
            answer_name=lambda: self._recorded.out or "answer",
            module=self._imports.module,
        )
        plain = plain_program(program, caller)
        if plain.source:
            self._code.blocks.append(Block(plain.source, plain.notes))
        self._code.calls += plain.calls
        self._code.results |= plain.results
        for made in done:
            self._results.add_text(made.outcome.text)
        if program.has_answer and plain.answer and is_last and program.ended is not None:
            self._has_answer = True
            self._code.answer.name = plain.answer
            self._code.answer.value = program.ended.answer
            self._code.answer.has_value = True
            self._code.answer.notes += plain.answer_notes

    # ── the answer ────────────────────────────────────────────────────────────────────────────────

    def _answer(self) -> None:
        recorded = self._recorded
        answer = self._code.answer
        answer.text = recorded.answer
        match recorded.ending:
            case ev.Answered():
                pass
            case ev.Failed(reason=reason):
                answer.notes.append(f"there was no answer: {collapse_whitespace(reason, 300)}")
                return
            case _:
                answer.notes.append("there was no answer: the run was stopped")
                return
        if self._has_answer:
            if recorded.is_typed:
                answer.value = recorded.value
                self._assert()
            return
        if recorded.is_typed:
            self._typed()
        else:
            sent = [made.call.input for made in self._code.calls]
            unknown = self._results.unknown_numbers(answer.text, sent)
            for each in unknown:
                answer.notes.append(f"{each} is not a result: the model worked it out by itself")

    def _typed(self) -> None:
        """Assign an answer of a required type, and assert it where the code computes it."""
        value = self._recorded.value
        answer = self._code.answer
        notes: list[str] = []
        expression = self._expression_of(value, notes)
        if expression is None:
            return
        out = self._recorded.out or "answer"
        answer.name = out if expression == out else self._new(out)
        answer.value = value
        answer.has_value = True
        if expression != answer.name:
            self._code.blocks.append(Block(_assigned(answer.name, expression), notes))
        try:
            is_literal = expression == self._literals.text(value)
        except NotWritable:
            return
        if not is_literal:
            self._assert()

    def _expression_of(self, value: Any, notes: list[str]) -> str | None:
        """The source of an answer, in terms of the results that it consists of."""
        named = self._results.same_object(value) if not _is_number(value) else None
        named = named or (name_of(value, self._namespace) if not _is_scalar(value) else "")
        if named:
            return named

        def substitute(each: Any) -> str | None:
            found = self._results.equal(each)
            if found is not None:
                notes.append(f"a guess: {_shown(each)} is {found}")
            elif _is_number(each) and not self._results.is_known(each):
                found = self._results.formula(each, digits_of(repr(each)))
                if found is not None:
                    notes.append(f"a guess: the model worked out {_shown(each)} by itself")
                elif each not in (0, 1, -1):
                    notes.append(
                        f"{_shown(each)} is not a result: the model worked it out by itself"
                    )
            return found

        try:
            return self._literals.text(value, substitute)
        except NotWritable as why:
            self._code.answer.notes.append(f"the answer has no code: {why}")
            return None

    def _assert(self) -> None:
        answer = self._code.answer
        try:
            expected = self._literals.text(answer.value)
        except NotWritable:
            return
        if len(expected) <= WIDTH * 3 and not _has_nan(answer.value):
            source = f"assert {answer.name} == {expected}"
            self._code.blocks.append(Block(source, is_assertion=True))


# ── reading calls ─────────────────────────────────────────────────────────────────────────────────


class _Seen(dict[str, Any]):
    """The variables, recording the names that lookups of references use."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        super().__init__(namespace)
        self.found: dict[int, str] = {}

    def get(self, name: str, default: Any = None) -> Any:
        value = super().get(name, default)
        if name in self:
            self.found[id(value)] = name
        return value


def called_text(function: str, given: list[str]) -> str:
    """The call of a function; as many lines as it needs."""
    text = f"{function}({', '.join(given)})"
    if len(text) > WIDTH - 20 and given:
        lines = "".join(f"    {each},\n" for each in given)
        text = f"{function}(\n{lines})"
    return text


def indented(source: str) -> str:
    """Source as the body of a statement; the lines inside of texts stay as they are."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.JoinedStr, ast.Constant)):  # which may have several lines
            inside |= set(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    return "\n".join(
        f"    {line}" if line and number not in inside else line
        for number, line in enumerate(source.split("\n"), 1)
    )


def _changed(made: RecordedCall) -> str:
    """The variables that a call has changed."""
    changes = made.outcome.diff.changes if made.outcome.diff else ()
    return ", ".join(dict.fromkeys(each.name for each in changes))


def _all_calls(reply: Reply) -> list[RecordedCall]:
    return [*reply.calls, *(each for program in reply.programs for each in program.calls)]


def _code_of(made: RecordedCall) -> str:
    """The code that a call of `python` ran; values that it kept are in the notebook already."""
    given = made.call.input
    if isinstance(given, dict):
        given = given.get("code", "")
    return without_keeping(str(given)) if made.outcome.place else str(given)


def _words(source: str) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", source))


def _last_expression(source: str) -> tuple[str, str] | None:
    """The statements before the last expression, and the expression; None if there is none."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    if not body or not isinstance(body[-1], ast.Expr):
        return None
    last = ast.get_source_segment(source, body[-1])
    if last is None or not source.rstrip().endswith(last):
        return None
    return source.rstrip()[: -len(last)], last


def _as_sent(parameters: list[Parameter], given: Any) -> dict[str, Any]:
    """The arguments as the model sent them."""
    if isinstance(given, dict) and given.keys() <= {each.name for each in parameters}:
        return dict(given)
    if len(parameters) == 1 and given is not None:
        return {parameters[0].name: given}
    return {}


def _sent(given: Any, parameter: Parameter) -> Any:
    """The text that the model sent for one argument."""
    if isinstance(given, dict) and parameter.name in given:
        return given[parameter.name]
    return given


def _assigned(name: str, expression: str) -> str:
    return f"{name} = {expression}"


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, bytes))


def _is_shared(parameter: Parameter) -> bool:
    """Whether calls in plain Python share a default that the calls of a run did not share."""
    return parameter.fresh_default() is not parameter.default


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _has_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124


def _shown(value: Any) -> str:
    return truncate_line(repr(value), 60)
