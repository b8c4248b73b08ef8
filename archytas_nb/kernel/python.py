"""The tool `python`: runs code that a model writes in the user's namespace, as a cell would.

This is not a sandbox: the code has the permissions of the user. Tools that it calls follow their
own approval settings.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import re
import symtable
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any, get_args

from archytas_nb.choices import PythonMode
from archytas_nb.kernel import origin
from archytas_nb.kernel.shell import current_shell
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import LiveNamespace

MODES: tuple[str, ...] = get_args(PythonMode)

_NOT_PYTHON = re.compile(r"\s*(?:[%!?]|[^#\"']*?=\s*[%!]\s*\w)|.*\w\?+\s*$")


def python(code: str, variables: LiveNamespace) -> Any:  # noqa: D417
    """Run Python code in the user's notebook and return the value of its last expression.

    It works on the variables of the notebook, and what it defines stays there. The other tools can be called as
    functions.

    Args:
        code: The code: plain Python, no magics.
    """  # noqa: E501 - the model reads the line as it is
    if not isinstance(variables, dict):
        raise TypeError(f"code runs in a dict of variables; this namespace is {type(variables)!r}")
    codes = compiled(code, origin.current.get())
    if not any(each.co_flags & inspect.CO_COROUTINE for each in codes):
        return [eval(each, variables) for each in codes][-1]  # noqa: S307 - what this tool is for

    async def awaited() -> Any:
        for each in codes:
            value = eval(each, variables)  # noqa: S307
            if each.co_flags & inspect.CO_COROUTINE:
                value = await value
        return value

    return awaited()


def compiled(code: str, started_by: origin.Origin | None = None) -> list[CodeType]:
    """The statements, and the last expression by itself; tracebacks show their lines.

    Args:
        code: The code.
        started_by: What the functions of the code are marked with; None for no mark.

    Raises:
        SyntaxError: It is not Python; a magic or a shell command is named.
    """
    import hashlib

    name = f"<python {hashlib.sha256(code.encode()).hexdigest()[:8]}>"
    lines = code.splitlines(keepends=True)
    flags = getattr(getattr(current_shell(), "compile", None), "flags", 0)  # a cell's __future__
    flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        tree = compile(code, name, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        linecache.cache[name] = len(code), None, lines, name
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body.pop()
        codes = [compile(tree, name, "exec", flags, dont_inherit=True)]
        if isinstance(last, ast.Expr):
            body = ast.Expression(last.value)
            codes.append(compile(body, name, "eval", flags, dont_inherit=True))
    except SyntaxError as error:
        line = ""
        if error.lineno and lines:
            line = lines[error.lineno - 1].strip()
        if _NOT_PYTHON.match(line):
            raise SyntaxError(
                f"line {error.lineno} is refused: {line!r}. Magics, shell commands and ? are "
                "IPython's; only Python is run here."
            ) from None
        if error.text:
            error.add_note(f"line {error.lineno}: {error.text.strip()}")
        raise
    if started_by is not None:
        return [origin.marked(each, started_by) for each in codes]
    return codes


@functools.cache
def python_tool(mode: PythonMode) -> Tool:
    """The tool; made once for a mode, so that an approval for the whole notebook holds."""
    approve = names_used if mode == "ask" else None
    return Tool.from_function(python, approve=approve, repeat=True, runs_code=True)


def names_used(code: str) -> str:
    """The names that code reads and changes, for the person who is asked."""
    try:
        found = list(mentions(code))
    except (SyntaxError, ValueError):
        return "it is not valid Python and will not run"
    except (RecursionError, MemoryError):
        return "it is nested too deeply to tell which names it uses"
    read = {name for name, _, changed in found if not changed} - set(dir(builtins))
    parts = [("reads", read), ("assigns to", {name for name, _, changed in found if changed})]
    return "; ".join(f"{what} {', '.join(sorted(names))}" for what, names in parts if names)


def mentions(code: str) -> list[tuple[str, int, bool]]:
    """The variables that code names, the line, and whether they or a part of them change there.

    Arguments and other names that are local to a function or a comprehension are left out.

    Raises:
        SyntaxError, ValueError: It is not Python.
        RecursionError, MemoryError: It is nested too deeply.
    """
    tree = ast.parse(code)
    try:
        tables = [symtable.symtable(code, "<code>", "exec")]
    except SyntaxError:  # a name is bound in two ways, or there is an await outside of a function
        tables = []
    mentioned = _Mentions(tables)
    mentioned.visit(tree)
    return mentioned.found


class _Mentions(ast.NodeVisitor):
    """Finds the names that are variables of the namespace where they stand.

    Two scopes that begin on the same line (two lambdas) cannot be told apart. A name is left out
    only if it is local in all scopes that may be meant.
    """

    def __init__(self, tables: Sequence[symtable.SymbolTable]) -> None:
        self.found: list[tuple[str, int, bool]] = []
        self._tables = tables  # those that the scope may be; none if nothing is known
        self._bound: frozenset[str] = frozenset()  # by a comprehension, or a type parameter

    def _add(self, name: str, line: int, *, changed: bool) -> None:
        if name in self._bound:
            return
        is_variable = any(_is_variable(name, each, changed=changed) for each in self._tables)
        if is_variable or not self._tables:
            self.found.append((name, line, changed))

    def _visit_all(self, parts: Sequence[ast.AST | None]) -> None:
        for each in parts:
            if each is not None:
                self.visit(each)

    def _visit_inside(self, name: str, line: int, parts: Sequence[ast.AST | None]) -> None:
        outside = self._tables
        self._tables = []
        for table in outside:
            for child in _children(table):
                if child.get_name().strip("<>") == name and child.get_lineno() == line:
                    self._tables.append(child)
        self._visit_all(parts)
        self._tables = outside

    def _visit_binding(self, names: Iterable[str], parts: Sequence[ast.AST | None]) -> None:
        outside = self._bound
        self._bound = outside.union(names)
        self._visit_all(parts)
        self._bound = outside

    def visit(self, node: ast.AST) -> None:
        """Visit a node; what is evaluated outside of a new scope first."""
        parameters = [each.name for each in getattr(node, "type_params", [])]
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._add(node.name, node.lineno, changed=True)
                self._visit_all(node.decorator_list)
                self._visit_binding(parameters, [node.args, node.returns])
                self._visit_inside(node.name, node.lineno, node.body)
            case ast.ClassDef():
                self._add(node.name, node.lineno, changed=True)
                self._visit_all(node.decorator_list)
                self._visit_binding(parameters, [*node.bases, *node.keywords])
                self._visit_inside(node.name, node.lineno, node.body)
            case ast.Lambda():
                self.visit(node.args)
                self._visit_inside("lambda", node.lineno, [node.body])
            case ast.GeneratorExp() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                self.visit(node.generators[0].iter)
                self._visit_binding(_names_bound(node.generators), _inner_parts(node))
            case _:
                self._visit_name(node)
                self.generic_visit(node)

    def _visit_name(self, node: ast.AST) -> None:
        match node:
            case ast.Name() | ast.Attribute() | ast.Subscript():
                root: ast.AST = node
                while isinstance(root, (ast.Attribute, ast.Subscript)):
                    root = root.value
                if isinstance(root, ast.Name):
                    is_changed = not isinstance(node.ctx, ast.Load)
                    self._add(root.id, node.lineno, changed=is_changed)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    bound = alias.asname or alias.name
                    self._add(bound.partition(".")[0], node.lineno, changed=True)
            case ast.ExceptHandler(name=str(name)):
                self._add(name, node.lineno, changed=True)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                self._add(name, node.lineno, changed=True)
            case ast.MatchMapping(rest=str(name)):
                self._add(name, node.lineno, changed=True)


_COMPREHENSIONS = {"genexpr", "listcomp", "setcomp", "dictcomp"}
"""The names of their scopes."""


def _names_bound(generators: Sequence[ast.comprehension]) -> list[str]:
    """The names that a comprehension binds."""
    stored: list[ast.Name] = []
    for each in generators:
        names = [node for node in ast.walk(each.target) if isinstance(node, ast.Name)]
        stored += [name for name in names if isinstance(name.ctx, ast.Store)]
    return [name.id for name in stored]


def _inner_parts(
    node: ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp,
) -> list[ast.AST]:
    """The parts of a comprehension that belong to its own scope: all but its first iterable."""
    first, *others = node.generators
    parts = [first.target, *first.ifs, *others]
    if isinstance(node, ast.DictComp):
        return [*parts, node.key, node.value]
    return [*parts, node.elt]


def _children(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """The functions and classes in a scope.

    What stands between them (type parameters, and comprehensions in some versions of Python) is
    passed over.
    """
    for each in table.get_children():
        is_comprehension = each.get_name().strip("<>") in _COMPREHENSIONS
        if each.get_type() in ("function", "class") and not is_comprehension:
            yield each
        else:
            yield from _children(each)


def _is_variable(name: str, table: symtable.SymbolTable, *, changed: bool) -> bool:
    """Whether a name in a scope is a variable of the namespace, as far as can be told."""
    if table.get_type() == "module":
        return True
    try:
        symbol = table.lookup(name)
    except KeyError:
        return True
    if table.get_type() == "class" and not changed:  # it may be read before the class has it
        return not symbol.is_free()
    return symbol.is_global()
