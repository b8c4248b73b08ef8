"""Finds faults in a program from its text alone, before any of it runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator

from archytas_nb.loop.events import Fault
from archytas_nb.syntax.bindings import Use
from archytas_nb.syntax.program import PROGRAM_ENDINGS, Program, called, given
from archytas_nb.tools.declaration import PRIVATE

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

_RUN_TEXTS = frozenset({"eval", "exec"})
"""The builtins that run unchecked code, which could bind the sandbox's own names."""


def faults_in(
    program: Program, functions: frozenset[str], before: Collection[str], *, is_part: bool
) -> tuple[Fault, ...]:
    """The faults that can be found without knowing types, by line.

    Args:
        program: The program.
        functions: The names of the tools and of the functions that end a program.
        before: The names that were bound before it.
        is_part: Whether it is a part of a program, which does not have to end with an answer.
    """
    found = dict.fromkeys(_faults(program, functions, before))
    if not found and not is_part and not _has_result(program):
        found[
            program.last_line, "the program ends without a result: end it with answer(…) or show(…)"
        ] = None
    return tuple(fault_at(line, fault, program.text) for line, fault in sorted(found))


def too_long(size: str, most: str) -> Fault:
    """The fault of a program that is too long to be checked."""
    what = f"the program is too long: it has {size}, and may have {most}"
    return Fault(1, "", f"{what}. Write its first part, and go on in the next program")


def fault_at(line: int, what: str, text: str) -> Fault:
    """A fault in a line of a program."""
    lines = text.split("\n")
    source = ""
    if 0 < line <= len(lines):
        source = lines[line - 1].strip()
    return Fault(line, source, what)


def syntax_fault(error: BaseException, text: str) -> Fault:
    """The fault of a text that is not Python."""
    line = getattr(error, "lineno", None) or 1
    what = getattr(error, "msg", None) or "it is nested too deeply"
    return fault_at(line, f"this is not valid Python: {what}", text)


def _has_result(program: Program) -> bool:
    """Whether a program has a result: an answer, something shown, or a last value."""
    body = program.tree.body
    has_value = bool(body) and isinstance(body[-1], ast.Expr)
    return has_value or any(program.calls(*PROGRAM_ENDINGS, "print"))


def _faults(
    program: Program, functions: frozenset[str], before: Collection[str]
) -> Iterator[tuple[int, str]]:
    bound = program.bindings.bound.union(before)
    used = _used_as_functions(program, functions)
    of_nodes: tuple[Callable[[ast.AST], str], ...] = (
        _unsupported,
        _import_fault,
        lambda node: _lambda_fault(node, functions),
    )
    of_names: tuple[Callable[[Use], str], ...] = (
        _private_fault,
        lambda use: _name_fault(use, functions, used),
        lambda use: _missing_fault(use, bound),
    )
    for node in program.nodes(ast.AST):
        for check in of_nodes:
            fault = check(node)
            if fault:
                yield getattr(node, "lineno", 1), fault
    for use in program.bindings.uses:
        for check_name in of_names:
            fault = check_name(use)
            if fault:
                yield use.line, fault


def _used_as_functions(program: Program, functions: frozenset[str]) -> frozenset[int]:
    """The names that are called, or passed to a function that may call them."""
    used: set[int] = set()
    for node in program.nodes(ast.Call):
        used.add(id(node.func))
        if called(node) not in functions | {"print", "str", "repr", "len", "sum", "round"}:
            used |= {id(each) for each in given(node)}
    return frozenset(used)


def _private_fault(use: Use) -> str:
    """A name that is reserved for the sandbox."""
    if use.act in ("bind", "unbind") and use.name.startswith(PRIVATE):
        return f"names that begin with {PRIVATE!r} are taken: choose another one than {use.name!r}"
    return ""


def _name_fault(use: Use, functions: frozenset[str], used: frozenset[int]) -> str:
    """A tool's name that is used without a call, or that is assigned to something else."""
    name = use.name
    if name not in functions or use.act == "change" or isinstance(use.node, ast.arg):
        return ""
    if use.act == "read":
        if use.is_local or id(use.node) in used:
            return ""
        return f"{name!r} is a function: call it, store the result, and use that variable"
    if isinstance(use.node, ast.Name):
        return f"{name!r} is one of your functions: call it, and give its result another name"
    return f"{name!r} is one of your functions: choose another name"


def _lambda_fault(node: ast.AST, functions: frozenset[str]) -> str:
    name = called(node)
    if name not in functions or not isinstance(node, ast.Call):
        return ""
    if any(isinstance(each, ast.Lambda) for each in given(node)):
        return f"a function cannot be given to {name}: give it a value"
    return ""


def _missing_fault(use: Use, bound: frozenset[str]) -> str:
    if use.is_local or use.name in bound:
        return ""
    if use.name in _MISSING:
        return f"there is no {use.name!r} here: use your functions and plain Python"
    if use.name in _RUN_TEXTS:
        return f"{use.name!r} cannot be used here: write the code itself in the program"
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
