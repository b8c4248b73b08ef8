"""Rewrites programs in forms that the sandbox has; line numbers stay.

The sandbox lacks methods as values (``max(d, key=d.get)``), methods of builtin types
(``str.upper``), ``del``, iterators of generator expressions, and calls of tools inside of its own
functions (``sorted(names, key=lambda each: size(each))``). The prelude replaces the functions;
the rest is rewritten.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection

from archytas_nb.sandbox.prelude import CONTAINERS
from archytas_nb.syntax.edits import Edits
from archytas_nb.syntax.program import Program, called, given
from archytas_nb.tools.declaration import PRIVATE

_METHODS = frozenset(name for kind in CONTAINERS for name in dir(kind) if not name.startswith("_"))
_TYPES = frozenset(kind.__name__ for kind in CONTAINERS)
_OF_CLASSES = frozenset({"fromkeys", "fromhex", "maketrans"})  # methods of the type itself
_LAZY = frozenset({"any", "all", "next"})
_VIEWS = frozenset({"keys", "values", "items"})


def rewritten(program: Program, tools: Collection[str], bound: Collection[str] = ()) -> str:
    """The program in forms that the sandbox has, line by line.

    Args:
        program: The program.
        tools: The functions whose calls leave the sandbox.
        bound: The names that were bound before: they are not builtins.
    """
    try:
        changed = _Rewriting(program, tools, bound).text()
    except RecursionError:
        # It is nested too deeply.
        return program.text
    return changed if Program(changed).error is None else program.text


class _Rewriting:
    """The changes of one program."""

    def __init__(self, program: Program, tools: Collection[str], bound: Collection[str]) -> None:
        self._program = program
        self._tools = tools
        self._edits = Edits(program.text)
        self._bound = program.bindings.bound.union(bound)
        self._globals = program.bindings.globals_read

    def text(self) -> str:
        """The program with its changes."""
        functions = {id(node.func) for node in self._program.nodes(ast.Call)}
        for node in self._program.nodes(ast.AST):
            match node:
                case ast.Attribute(ctx=ast.Load()):
                    self._method(node, is_called=id(node) in functions)
                case ast.Call():
                    self._call(node)
                case ast.Delete(targets=[target]):
                    self._delete(node, target)
                case ast.Assign(value=value):
                    self._materialize(value, is_view_too=False)
                case ast.Expr(value=ast.Call() as call):
                    self._sort(call)
        return self._edits.applied()

    def _builtin(self, node: ast.expr) -> str:
        """The name of the builtin that a node refers to; empty if it is not a builtin."""
        if not isinstance(node, ast.Name) or node.id in self._bound:
            return ""
        return node.id if id(node) in self._globals and hasattr(builtins, node.id) else ""

    def _method(self, node: ast.Attribute, *, is_called: bool) -> None:
        """A method as a value, or of a builtin type, becomes a function that calls it."""
        name = node.attr
        if name not in _METHODS:
            return
        kind = self._builtin(node.value)
        if kind in _TYPES:
            if name not in _OF_CLASSES:
                method = f"_sandbox_check({PRIVATE}{kind}, it).{name}(*each)"
                self._edits.replace(node, f"(lambda it, *each: {method})")
            return
        if is_called:
            return
        # A field of a record may have the name of a method: only values of builtin types have one.
        method = f"(lambda *each, **named: it.{name}(*each, **named))"
        has_methods = "_sandbox_has_methods(it)"
        function = f"(lambda it: {method} if {has_methods} else it.{name})"
        self._edits.replace(node, f"{function}(", node.value, ")")

    def _call(self, node: ast.Call) -> None:
        name = called(node)
        if name in self._tools:
            for each in given(node):
                self._materialize(each, is_view_too=True)
        is_lazy = self._builtin(node.func) in _LAZY and not node.keywords
        if is_lazy and node.args and isinstance(node.args[0], ast.GeneratorExp):
            generator = node.args[0]
            if name == "next" or self._may_call(generator):
                self._lazy(node, name, generator)

    def _materialize(self, node: ast.expr, *, is_view_too: bool) -> None:
        """A range or a view of a dict becomes a list: outside of the sandbox it would be a text."""
        if not isinstance(node, ast.Call):
            return
        is_range = self._builtin(node.func) == "range"
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS
        if is_range or (is_view_too and is_method and not node.args):
            self._edits.replace(node, f"{PRIVATE}list(", node, ")")

    def _may_call(self, node: ast.AST) -> bool:
        """Whether a call of a tool, or of a function that the program may have, is inside."""
        calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
        named = [each for each in calls if isinstance(each, ast.Name)]
        return any(each.id in self._tools or not self._builtin(each) for each in named)

    def _lazy(self, call: ast.Call, name: str, generator: ast.GeneratorExp) -> None:
        """``any(f(x) for x in y if z)`` stops at the first: its parts are passed as functions."""
        loop = generator.generators[0]
        is_many = isinstance(loop.target, ast.Tuple)
        targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        names = [each.id for each in targets if isinstance(each, ast.Name)]
        is_simple = len(generator.generators) == 1 and len(names) == len(targets)
        scoped = (ast.NamedExpr, ast.Await)
        is_scoped = loop.is_async or any(isinstance(each, scoped) for each in ast.walk(generator))
        if not is_simple or is_scoped or any(isinstance(each, ast.Starred) for each in call.args):
            return
        function = f"(lambda {', '.join(names)}: ("
        parts: list[str | ast.AST] = [f"_sandbox_{name}(({is_many}, {function}", generator.elt]
        parts += [")), (", loop.iter, ")"]
        for test in loop.ifs:
            parts += [f", {function}", test, "))"]
        parts.append(",)")
        for each in call.args[1:]:
            parts += [", (", each, ")"]
        self._edits.replace(call, *parts, ")")

    def _delete(self, node: ast.Delete, target: ast.expr) -> None:
        """``del d[k]`` becomes ``d.pop(k)``; a name is bound to None."""
        if isinstance(target, ast.Name):
            self._edits.replace(node, "(", target, ") = None")
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
            self._edits.replace(node, "(", target, ") = []")
        elif isinstance(target, ast.Subscript):
            parts = ("_sandbox_delete(", target.value, ", (", target.slice, "))")
            self._edits.replace(node, *parts)

    def _sort(self, call: ast.Call) -> None:
        """``x.sort(key=…)`` with a key that may call tools."""
        target = call.func
        is_sort = isinstance(target, ast.Attribute) and target.attr == "sort"
        if not is_sort or call.args or not call.keywords or not isinstance(target, ast.Attribute):
            return
        parts: list[str | ast.AST] = ["_sandbox_sort(", target.value]
        for each in call.keywords:
            parts += [", ", each]
        self._edits.replace(call, *parts, ")")
