"""Rewrites the errors of the sandbox's type checker in plain words.

The checker is stricter than Python, so only diagnostics that are certain stop a program. A value
that is written in the program is checked by the tool itself.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from pydantic_monty import MontyError, MontyTypingError

from archytas_nb.loop.events import Fault
from archytas_nb.sandbox.check import MODULES, fault_at
from archytas_nb.sandbox.interpreter import Interpreter
from archytas_nb.syntax.program import PROGRAM_ENDINGS, Program
from archytas_nb.tools.arguments import read_value
from archytas_nb.tools.declaration import python_name, records, stubs
from archytas_nb.tools.parameter import Parameter
from archytas_nb.tools.tool import Tool
from archytas_nb.words import did_you_mean, nearest, truncate_line, with_article

FORMAT = "concise"
"""The format of the diagnostics that `faults_of` reads."""

_MAX_WHAT = 300  # characters of the type checker's own words
_FIRST = "archytas_first"  # the type checker reads no names with an underscore


def type_faults(
    fed: str,
    text: str,
    tools: Mapping[str, Tool],
    names: Collection[str],
    checker: Interpreter,
    typed: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Fault, ...]:
    """The faults that the type checker is certain of; it reads the program in a separate session.

    In that session the declarations are current, and the program is stopped before its first line.

    Args:
        fed: The program as it was prepared for the sandbox.
        text: The program as the model wrote it.
        tools: The tools, by their names in programs.
        names: The variables that it can name.
        checker: Opens the session.
        typed: The types of the variables whose type is known.
    """
    first = _FIRST
    while first in tools:
        first += "_"
    variables = [name for name in dict.fromkeys((first, *names)) if name not in tools]
    checked = f"{first}()\n{fed}"
    with checker.another(
        type_check=True,
        type_check_stubs=stubs(tools.values(), variables, typed),
        type_check_format=FORMAT,
    ) as session:
        found: tuple[Fault, ...] = ()
        try:
            session.feed_start(checked)
        except MontyTypingError as error:
            found = faults_of(error, checked, tools, names, typed)
        except MontyError:
            # The session in which the program runs reports this error.
            pass
    lines = ["", *text.split("\n")]
    return tuple(Fault(each.line - 1, lines[each.line - 1].strip(), each.text) for each in found)


_WRONG_TYPE = re.compile(r"function `(\w+)` is incorrect: Expected `(.*)`, found `(.*)`$")
_DIAGNOSTIC = re.compile(r"^[^\n:]*:(\d+):(\d+): error\[([\w-]+)\] (.*)$", re.MULTILINE)


def faults_of(
    error: MontyTypingError,
    text: str,
    tools: Mapping[str, Tool],
    names: Collection[str],
    typed: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Fault, ...]:
    """The diagnostics of the type checker that are certain, in plain words.

    Args:
        error: The exception of the type checker, in `FORMAT`.
        text: The program.
        tools: The tools; by any names.
        names: Other names that a program can use: its functions and variables.
        typed: The types of the variables whose type is known.
    """
    by_name = {python_name(each): each for each in tools.values()}
    reader = _Diagnostics(text, by_name, {*names, *typed, *by_name, *PROGRAM_ENDINGS}, typed)
    diagnostics = _DIAGNOSTIC.findall(error.display())
    renamed = {
        (line, _function_in(said))
        for line, _, kind, said in diagnostics
        if kind == "unknown-argument"
    }
    found: dict[Fault, None] = {}
    for line, column, kind, said in diagnostics:
        if kind == "missing-argument" and (line, _function_in(said)) in renamed:
            # The argument was passed under another name.
            continue
        what = reader.plain(int(line), int(column), kind, said)
        if what:
            found[fault_at(int(line), what, text)] = None
    return tuple(sorted(found, key=lambda each: each.line))


class _Diagnostics:
    """Puts diagnostics of the type checker into plain words; empty if one is not certain."""

    def __init__(
        self,
        text: str,
        tools: Mapping[str, Tool],
        names: Collection[str],
        typed: Mapping[str, Any],
    ) -> None:
        self._lines = text.split("\n")
        self._tools = tools
        self._names = frozenset(names)
        self._records = records(tools.values(), typed)
        self._program = Program(text)
        self._bound = self._program.bindings.bound_anywhere

    def plain(self, line: int, column: int, kind: str, said: str) -> str:
        """The fault and the next move."""
        quoted = re.findall(r"`([^`]*)`", said)
        if kind == "unresolved-reference" and quoted:
            return self._unknown_name(quoted[0])
        if kind == "unresolved-attribute" and len(quoted) == 2:
            return self._unknown_attribute(quoted[0], quoted[1], said)
        if kind == "unresolved-import" and len(quoted) == 2:
            return _unknown_member(quoted[0], quoted[1])
        if kind == "not-subscriptable" and quoted:
            return self._subscript(quoted[0])
        if kind == "invalid-assignment" and said.startswith("Cannot assign to read-only property"):
            return f"the field {quoted[0]!r} cannot be set: store the value in a variable"
        is_item = kind == "invalid-assignment" and said.startswith("Cannot assign to a subscript")
        if is_item and quoted and _is_in_record(quoted[-1]):
            return _NOT_CHANGED
        if kind == "invalid-syntax":
            return f"this is not valid Python: {truncate_line(said.replace('`', ''), _MAX_WHAT)}"
        return self._of_call(line, column, kind, quoted, said)

    # ── names ─────────────────────────────────────────────────────────────────────────────────────

    def _unknown_name(self, name: str) -> str:
        if name in self._names:
            return ""
        known = [*self._names, *self._bound]
        guess = did_you_mean(name, [each for each in known if each != name])
        if name in self._bound:
            return f"{name!r} is used before it has a value: assign it first"
        if guess:
            return f"there is no {name!r}{guess}"
        if hasattr(builtins, name):
            return f"there is no {name!r} here: use your functions and plain Python"
        functions = ", ".join([*self._tools, *PROGRAM_ENDINGS])
        return f"there is no {name!r}: assign it first, or use one of {functions}"

    def _unknown_attribute(self, owner: str, name: str, said: str) -> str:
        if said.startswith("Module"):
            return _unknown_member(owner, name)
        if not said.startswith("Object of type") or "|" in owner:
            return ""
        record = self._records.get(owner)
        if record is None and _is_in_record(owner) and name in _CHANGES:
            return _NOT_CHANGED
        if record is None:
            return _unknown_of_builtin(owner, name)
        if record.is_dict:
            key = nearest(name, record.fields) or name
            return f"{owner} is a dict: write [{key!r}], not .{name}"
        if record.is_outside or not record.fields:
            return self._nothing_to_read(owner, record.fields)
        guess = did_you_mean(name, record.fields)
        return f"{owner} has no attribute {name!r}{guess or ':'} it has {_listed(record.fields)}"

    def _subscript(self, owner: str) -> str:
        record = self._records.get(owner)
        if record is None:
            return ""
        if record.is_outside or not record.fields:
            return self._nothing_to_read(owner, record.fields)
        field = record.fields[0]
        return f"the fields of {owner} are attributes: write .{field}, not [{field!r}]"

    def _nothing_to_read(self, owner: str, facts: Sequence[str]) -> str:
        what = with_article(owner)
        give = "give it to one of your functions, or show() it"
        if not facts:
            return f"nothing can be read of {what}: {give}"
        listed = ", ".join(f".{each}" for each in facts)
        return f"only len() and {listed} of {what} can be read: {give}"

    # ── calls of tools ────────────────────────────────────────────────────────────────────────────

    def _of_call(self, line: int, column: int, kind: str, quoted: list[str], said: str) -> str:
        name = _function_in(said)
        if name in PROGRAM_ENDINGS:
            return self._of_ending(name, kind)
        tool = self._tools.get(name)
        if tool is None:
            return self._of_own_function(name, kind, quoted)
        takes = [each for each in tool.parameters if not each.injected]
        if kind == "unknown-argument":
            given = [each.name for each in takes]
            guess = did_you_mean(quoted[0], given)
            return f"{name} has no argument {quoted[0]!r}{guess or ':'} {_takes(takes)}"
        if kind == "missing-argument":
            missing = _listed([each for each in quoted if each != name])
            return f"{name} needs the argument {missing}: {_takes(takes)}"
        if kind == "too-many-positional-arguments":
            return f"{name} was given too many arguments: {_takes(takes)}"
        if kind == "parameter-already-assigned":
            return f"{name} was given the argument {quoted[0]!r} twice: give it once"
        wrong = _WRONG_TYPE.search(said)
        if kind == "invalid-argument-type" and wrong:
            return self._wrong_type(line, column, takes, wrong.groups())
        return ""

    def _of_own_function(self, name: str, kind: str, quoted: list[str]) -> str:
        """The fault in a call of a function that the program defines."""
        if name not in self._bound:
            return ""
        if kind == "unknown-argument":
            return f"{name} has no argument {quoted[0]!r}: see its definition"
        if kind == "missing-argument":
            return f"{name} needs the argument {_listed([x for x in quoted if x != name])}"
        if kind == "too-many-positional-arguments":
            return f"{name} was given too many arguments: see its definition"
        return ""

    def _of_ending(self, name: str, kind: str) -> str:
        if kind == "too-many-positional-arguments":
            return f"{name} takes one value: write a text or a dict with all of them"
        if kind in ("unknown-argument", "parameter-already-assigned"):
            return f"{name} has no arguments with names: write {name}(…) with the value itself"
        return ""

    def _wrong_type(
        self, line: int, column: int, takes: Sequence[Parameter], wrong: Sequence[str]
    ) -> str:
        """The fault of a value; empty if the tool might accept it."""
        name, expected, found = wrong
        parameter = self._parameter_at(line, column, name, takes)
        if parameter is None:
            return ""
        label = f"the argument {parameter.name!r} of {name}"
        values = _values_in(found)
        for value in values:
            _, faults = read_value(parameter.type, value)
            if faults:
                why = truncate_line(faults[0].reason, _MAX_WHAT)
                return f"{label} is {truncate_line(repr(value), 80)}: {why}"
        if values or _may_fit(expected, found):
            return ""
        return f"{label} is {_one(found)}: expected {parameter.type.text}"

    def _parameter_at(
        self, line: int, column: int, name: str, takes: Sequence[Parameter]
    ) -> Parameter | None:
        """The parameter of the argument that begins at a position, in characters."""
        for node in self._program.calls(name):
            for each in node.keywords:
                if self._is_at(each, line, column):
                    return next((one for one in takes if one.name == each.arg), None)
            for argument, parameter in zip(node.args, takes, strict=False):
                if isinstance(argument, ast.Starred):
                    break
                if self._is_at(argument, line, column):
                    return parameter
        return None

    def _is_at(self, node: ast.expr | ast.keyword, line: int, column: int) -> bool:
        if node.lineno != line or line > len(self._lines):
            return False
        return len(self._lines[line - 1].encode()[: node.col_offset].decode()) == column - 1


def _function_in(said: str) -> str:
    found = re.search(r"function `(\w+)`", said)
    return found[1] if found else ""


def _takes(parameters: Sequence[Parameter]) -> str:
    if not parameters:
        return "it takes no arguments"
    names = [f"{each.name} (optional)" if each.optional else each.name for each in parameters]
    return f"it takes {', '.join(names)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _unknown_member(module: str, name: str) -> str:
    fault = f"the module {module} has no {name!r} here"
    known: list[str] = []
    if module in MODULES:
        with suppress(ImportError):
            known = dir(importlib.import_module(module))
    if name in known:
        # Python has it, the sandbox does not.
        return fault
    return f"{fault}{did_you_mean(name, known)}"


_NOT_CHANGED = (
    "this is a copy of what a record contains, and the record would stay as it is: make a list or "
    "dict of your own, such as items = list(record.items), and change that"
)
_CHANGES = frozenset(
    {
        "add", "append", "clear", "difference_update", "discard", "extend", "insert",
        "intersection_update", "pop", "popitem", "remove", "reverse", "setdefault", "sort",
        "symmetric_difference_update", "update",
    }
)  # fmt: skip
"""The methods that change a list, a set or a dict."""


def _is_in_record(owner: str) -> bool:
    """Whether this is the type of a container in a record; nothing else has one of these types."""
    return owner.partition("[")[0] in ("Sequence", "Mapping", "AbstractSet", "Set")


_BUILTIN_TYPES = (str, bytes, int, float, bool, list, tuple, dict, set, frozenset)


def _unknown_of_builtin(owner: str, name: str) -> str:
    kind = _kind_of(owner)
    for each in _BUILTIN_TYPES:
        if each.__name__ == kind:
            if hasattr(each, name):
                # The checker does not know everything that the sandbox has.
                return ""
            guess = did_you_mean(name, [one for one in dir(each) if not one.startswith("_")])
            return f"{with_article(kind)} has no attribute {name!r}{guess}"
    return ""


_LITERAL = re.compile(r"Literal\[(.*)\]", re.DOTALL)


def _values_in(found: str) -> list[Any]:
    """The values of a type that consists only of literals; empty for any other type."""
    literal = _LITERAL.fullmatch(found)
    if literal is None:
        return []
    try:
        values = ast.literal_eval(f"[{literal[1]}]")
    except (SyntaxError, ValueError):
        return []
    return list(values)


def _kind_of(found: str) -> str:
    """The name of a type, without its parameters: ``"list"``, and ``"str"`` for a text."""
    values = _values_in(found)
    if values:
        return type(values[0]).__name__
    return "str" if found == "LiteralString" else found.partition("[")[0]


def _one(found: str) -> str:
    kind = _kind_of(found)
    return kind if kind == "None" else with_article(kind)


_FORMS = {
    "bool": "number", "int": "number", "float": "number", "str": "text", "bytes": "bytes",
    "list": "items", "tuple": "items", "set": "items", "frozenset": "items", "dict": "mapping",
    "None": "none",
}  # fmt: skip
_EXPECTED = {
    "number": ("int", "float", "bool", "Decimal", "timedelta", "Literal"),
    "text": (),  # a text may be a number, a date, or the name of a variable
    "bytes": ("bytes", "str"),
    "items": ("Iterable", "Mapping"),
    "mapping": ("Mapping", "Iterable"),
    "none": ("None",),
}


def _may_fit(expected: str, found: str) -> bool:
    """Whether a value of one type may be accepted for another, judged by their names."""
    form = _FORMS.get(_kind_of(found)) if "|" not in found else None
    if form is None or form == "text":
        return True
    while "[" in expected and expected != (inner := re.sub(r"\[[^\[\]]*\]", "", expected)):
        expected = inner
    return any(re.search(rf"\b{word}\b", expected) for word in ("Any", *_EXPECTED[form]))
