"""What is wrong with a program before anything of it runs, in plain words.

The type checker of the sandbox is stricter than Python, so only those of its diagnostics stop a
program that are certain; a value that is written in the program is checked by the tool itself.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archytas_nb.loop.events import Fault
from archytas_nb.sandbox.rewrite import bound_by, names_bound, rewritten
from archytas_nb.tools.arguments import read_value
from archytas_nb.tools.declaration import ENDINGS, python_name, records
from archytas_nb.tools.parameter import Parameter
from archytas_nb.tools.tool import Tool
from archytas_nb.words import did_you_mean, nearest, shorten, with_article

if TYPE_CHECKING:
    from pydantic_monty import MontyTypingError

FORMAT = "concise"
"""The format of the type checker's diagnostics that `faults_of` reads."""

MODULES = frozenset(
    {
        "asyncio", "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime",
        "decimal", "functools", "hashlib", "itertools", "json", "math", "os", "pathlib", "random",
        "re", "sys", "time", "typing", "unicodedata",
    }
)  # fmt: skip
"""The modules that a program can import."""

_MISSING = frozenset(
    {
        "__import__", "aiter", "anext", "ascii", "breakpoint", "bytearray", "callable",
        "classmethod", "compile", "delattr", "dir", "exit", "globals", "help", "input",
        "issubclass", "memoryview", "open", "quit", "staticmethod", "super", "vars",
    }
)  # fmt: skip
"""The builtins that the sandbox lacks."""

_MAX_WHAT = 300  # characters of the type checker's own words


# ── what the text says ────────────────────────────────────────────────────────────────────────────


def prepared(
    text: str, names: Collection[str], *, is_part: bool = False
) -> tuple[str, tuple[Fault, ...]]:
    """The text to run, with the same lines, and the faults that are seen without its types.

    Args:
        text: The program.
        names: The names of the tools.
        is_part: Whether it is a part of a program, which need not end with an answer.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return text, (_syntax_fault(error, text),)
    functions = frozenset({*names, *ENDINGS})
    said = dict.fromkeys(_faults(tree, functions))
    if not said and not is_part and not _has_result(tree):
        line = text.rstrip("\n").count("\n") + 1
        said[line, "the program ends without a result: end it with answer(…) or show(…)"] = None
    faults = tuple(_fault(line, fault, text) for line, fault in sorted(said))
    if faults:
        return text, faults
    return rewritten(text, tree, functions), ()


def _fault(line: int, what: str, text: str) -> Fault:
    lines = text.split("\n")
    source = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return Fault(line, source, what)


def _syntax_fault(error: BaseException, text: str) -> Fault:
    line = getattr(error, "lineno", None) or 1
    what = getattr(error, "msg", None) or "it is nested too deeply"
    return _fault(line, f"this is not valid Python: {what}", text)


def _has_result(tree: ast.Module) -> bool:
    """Whether a program gives something back: an answer, something shown, or a last value."""
    is_value = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    return is_value or any(_called(node) in {*ENDINGS, "print"} for node in ast.walk(tree))


def _called(node: ast.AST) -> str:
    """The name of the function that is called; empty for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def _faults(tree: ast.Module, functions: frozenset[str]) -> Iterator[tuple[int, str]]:
    bound = frozenset(names_bound(tree))
    used = _used_as_functions(tree, functions)
    checks: tuple[Callable[[ast.AST], str], ...] = (
        _unsupported,
        _import_fault,
        lambda node: _name_fault(node, functions, used),
        lambda node: _lambda_fault(node, functions),
        lambda node: _missing_fault(node, bound),
    )
    for node in ast.walk(tree):
        for check in checks:
            fault = check(node)
            if fault:
                yield getattr(node, "lineno", 1), fault


def _used_as_functions(tree: ast.Module, functions: frozenset[str]) -> frozenset[int]:
    """The names that are called, or given to a function that may call them."""
    used: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            used.add(id(node.func))
            if _called(node) not in functions | {"print", "str", "repr", "len", "sum", "round"}:
                used |= {id(each) for each in node.args}
                used |= {id(each.value) for each in node.keywords}
    return frozenset(used)


def _name_fault(node: ast.AST, functions: frozenset[str], used: frozenset[int]) -> str:
    """A tool's name that is not called, or that is given to something else."""
    name = bound_by(node)
    if name in functions:
        return f"{name!r} is one of your functions: choose another name"
    if not isinstance(node, ast.Name) or node.id not in functions:
        return ""
    if not isinstance(node.ctx, ast.Load):
        return f"{node.id!r} is one of your functions: store the value under another name"
    if id(node) in used:
        return ""
    return f"{node.id!r} is a function: call it, store the result, and use that variable"


def _lambda_fault(node: ast.AST, functions: frozenset[str]) -> str:
    name = _called(node)
    if name not in functions or not isinstance(node, ast.Call):
        return ""
    given = [*node.args, *(each.value for each in node.keywords)]
    if any(isinstance(each, ast.Lambda) for each in given):
        return f"a function cannot be given to {name}: give it a value"
    return ""


def _missing_fault(node: ast.AST, bound: frozenset[str]) -> str:
    is_name = isinstance(node, ast.Name) and node.id in _MISSING - bound
    if is_name:
        return f"there is no {node.id!r} here: use your functions and plain Python"  # type: ignore[attr-defined]
    return ""


def _unsupported(node: ast.AST) -> str:
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        return "there is no yield here: append to a list and return the list"
    if isinstance(node, ast.ClassDef) and (node.bases or node.keywords):
        return "a class cannot inherit here: write it without a base, or use functions"
    if isinstance(node, ast.ClassDef):
        methods = (ast.FunctionDef, ast.AsyncFunctionDef)
        if any(isinstance(each, methods) and each.decorator_list for each in node.body):
            return "methods cannot have decorators here: write plain methods or functions"
    if isinstance(node, ast.Delete):
        return _delete_fault(node)
    if type(node).__name__ == "TryStar":
        return "there is no except* here: use except"
    return ""


def _delete_fault(node: ast.Delete) -> str:
    if len(node.targets) > 1:
        return "delete one thing in a statement here"
    if isinstance(node.targets[0], ast.Attribute):
        return "an attribute cannot be deleted here: set it to None"
    return ""


def _import_fault(node: ast.AST) -> str:
    modules: list[str] = []
    if isinstance(node, ast.Import):
        modules = [each.name for each in node.names]
    elif isinstance(node, ast.ImportFrom):
        modules = ["." * node.level + (node.module or "")]
        if any(each.name == "*" for each in node.names):
            return "import each name that you need, not *"
    for name in modules:
        if name.partition(".")[0] not in MODULES:
            known = ", ".join(sorted(MODULES - {"asyncio", "os", "sys"}))
            return f"there is no module {name!r} here: use your functions, or one of {known}"
    return ""


# ── what the type checker says ────────────────────────────────────────────────────────────────────

_WRONG_TYPE = re.compile(r"function `(\w+)` is incorrect: Expected `(.*)`, found `(.*)`$")
_DIAGNOSTIC = re.compile(r"^[^\n:]*:(\d+):(\d+): error\[([\w-]+)\] (.*)$", re.MULTILINE)


def faults_of(
    error: MontyTypingError, text: str, tools: Mapping[str, Tool], names: Collection[str]
) -> tuple[Fault, ...]:
    """The certain ones of the type checker's diagnostics, in plain words.

    Args:
        error: What it raised, in `FORMAT`.
        text: The program.
        tools: The tools; by any names.
        names: What a program can name besides: its functions and variables.
    """
    by_name = {python_name(each): each for each in tools.values()}
    reader = _Diagnostics(text, by_name, {*names, *by_name, *ENDINGS})
    diagnostics = _DIAGNOSTIC.findall(error.display())
    renamed = {
        (line, _function_in(said))
        for line, _, kind, said in diagnostics
        if kind == "unknown-argument"
    }
    found: dict[Fault, None] = {}
    for line, column, kind, said in diagnostics:
        if kind == "missing-argument" and (line, _function_in(said)) in renamed:
            continue  # it was given under another name
        what = reader.plain(int(line), int(column), kind, said)
        if what:
            found[_fault(int(line), what, text)] = None
    return tuple(sorted(found, key=lambda each: each.line))


class _Diagnostics:
    """Puts diagnostics of the type checker into plain words; empty for what is not certain."""

    def __init__(self, text: str, tools: Mapping[str, Tool], names: Collection[str]) -> None:
        self._lines = text.split("\n")
        self._tools = tools
        self._names = frozenset(names)
        self._records = records(tools.values())
        try:
            self._tree: ast.Module | None = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._tree = None
        self._bound = frozenset(names_bound(self._tree) if self._tree else ())

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
        if kind == "invalid-syntax":
            return f"this is not valid Python: {shorten(said.replace('`', ''), _MAX_WHAT)}"
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
        functions = ", ".join([*self._tools, *ENDINGS])
        return f"there is no {name!r}: assign it first, or use one of {functions}"

    def _unknown_attribute(self, owner: str, name: str, said: str) -> str:
        if said.startswith("Module"):
            return _unknown_member(owner, name)
        if not said.startswith("Object of type") or "|" in owner:
            return ""
        record = self._records.get(owner)
        if record is None:
            return _unknown_of_builtin(owner, name)
        if record.is_dict:
            key = nearest(name, record.fields) or name
            return f"{owner} is a dict: write [{key!r}], not .{name}"
        if not record.fields:
            return self._nothing_to_read(owner)
        guess = did_you_mean(name, record.fields)
        return f"{owner} has no attribute {name!r}{guess or ':'} it has {_listed(record.fields)}"

    def _subscript(self, owner: str) -> str:
        record = self._records.get(owner)
        if record is None:
            return ""
        if not record.fields:
            return self._nothing_to_read(owner)
        field = record.fields[0]
        return f"the fields of {owner} are attributes: write .{field}, not [{field!r}]"

    def _nothing_to_read(self, owner: str) -> str:
        return f"nothing can be read of {with_article(owner)}: give it to one of your functions"

    # ── calls of tools ────────────────────────────────────────────────────────────────────────────

    def _of_call(self, line: int, column: int, kind: str, quoted: list[str], said: str) -> str:
        name = _function_in(said)
        if name in ENDINGS:
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
        """What is wrong with a call of a function that the program defines."""
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
        """What is wrong with a value; empty if the tool might accept it."""
        name, expected, found = wrong
        parameter = self._parameter_at(line, column, name, takes)
        if parameter is None:
            return ""
        label = f"the argument {parameter.name!r} of {name}"
        values = _values_in(found)
        for value in values:
            _, faults = read_value(parameter.type, value)
            if faults:
                return (
                    f"{label} is {shorten(repr(value), 80)}: {shorten(faults[0].reason, _MAX_WHAT)}"
                )
        if values or _may_fit(expected, found):
            return ""
        return f"{label} is {_one(found)}: expected {parameter.type.text}"

    def _parameter_at(
        self, line: int, column: int, name: str, takes: Sequence[Parameter]
    ) -> Parameter | None:
        """The parameter of the argument that begins at a place, in characters."""
        if self._tree is None:
            return None
        for node in ast.walk(self._tree):
            if _called(node) != name or not isinstance(node, ast.Call):
                continue
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
    try:
        known = dir(importlib.import_module(module)) if module in MODULES else []
    except ImportError:
        known = []
    guess = "" if name in known else did_you_mean(name, known)  # Python has it, the sandbox has not
    return f"the module {module} has no {name!r} here{guess}"


_BUILTIN_TYPES = (str, bytes, int, float, bool, list, tuple, dict, set, frozenset)


def _unknown_of_builtin(owner: str, name: str) -> str:
    kind = _kind_of(owner)
    for each in _BUILTIN_TYPES:
        if each.__name__ == kind:
            if hasattr(each, name):  # the checker does not know all that the sandbox has
                return ""
            guess = did_you_mean(name, [one for one in dir(each) if not one.startswith("_")])
            return f"{with_article(kind)} has no attribute {name!r}{guess}"
    return ""


_LITERAL = re.compile(r"Literal\[(.*)\]", re.DOTALL)


def _values_in(found: str) -> list[Any]:
    """The values of a type that is nothing but literals; empty for any other type."""
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
    """Whether a value of one type may be accepted for another, as far as their names say."""
    form = _FORMS.get(_kind_of(found)) if "|" not in found else None
    if form is None or form == "text":
        return True
    while "[" in expected and expected != (inner := re.sub(r"\[[^\[\]]*\]", "", expected)):
        expected = inner
    return any(re.search(rf"\b{word}\b", expected) for word in ("Any", *_EXPECTED[form]))
