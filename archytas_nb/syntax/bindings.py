"""The names that code binds, reads and changes, the place of each, and whose variable it is.

Python's `symtable` does not serve: it refuses the cells of a notebook that await, does not say
where a name is or that ``a += 1`` reads it, and cannot tell two lambdas in one line apart. The
tests hold this reader to what the code does when it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from archytas_nb.syntax.parse import around_lines, parsed

Act: TypeAlias = Literal["read", "bind", "unbind", "change"]
"""What code does with a name: it reads the value, gives it one, takes it away, or assigns or
deletes a part of the value (an attribute or an item)."""

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""The statements that bind a name to a function or a class."""


@dataclass(frozen=True, slots=True)
class Use:
    """A name at one place.

    Attributes:
        name: The name.
        act: The use of the name.
        node: The node that names it.
        is_local: Whether it is a variable of a function, a class or a comprehension; otherwise it
            is one of the namespace that the code runs in, or a builtin.
    """

    name: str
    act: Act
    node: ast.AST
    is_local: bool

    @property
    def line(self) -> int:
        """The line, from 1."""
        return int(getattr(self.node, "lineno", 1))


class Bindings:
    """The names in code.

    What may happen counts as if it happened: the branches of a condition, the body of a function.
    Not seen is what code does by other means than names, such as ``globals()`` and ``import *``.

    Args:
        tree: A module, an expression, or any part of one.

    Attributes:
        uses: All uses of names, in the order in which they are evaluated; the body of a function
            follows where it is defined.
    """

    def __init__(self, tree: ast.AST) -> None:
        self.uses: tuple[Use, ...] = tuple(_uses(tree))

    @classmethod
    def of(cls, text: str) -> Bindings:
        """The names in a text.

        Raises:
            SyntaxError, ValueError, RecursionError, MemoryError: As of `ast.parse`.
        """
        return cls(parsed(text))

    @classmethod
    def of_statements(cls, body: Iterable[ast.stmt]) -> Bindings:
        """The names in statements."""
        return cls(ast.Module([*body], []))

    @classmethod
    def of_begun(cls, lines: Iterable[str]) -> Bindings:
        """The names in the lines of a statement that goes on, such as a loop without its body.

        Lines that cannot become Python by going on have no names.
        """
        text = "\n".join(lines)
        around = around_lines(text)
        return cls.of("" if around is None else text.join(around))

    @cached_property
    def bound_in_order(self) -> tuple[str, ...]:
        """The names that it binds in the namespace that it runs in, in the order of the first."""
        found = (each.name for each in self.uses if each.act == "bind" and not each.is_local)
        return tuple(dict.fromkeys(found))

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that it binds in the namespace that it runs in."""
        return frozenset(self.bound_in_order)

    @cached_property
    def read(self) -> frozenset[str]:
        """The names that it looks up in that namespace, or among the builtins."""
        return frozenset(
            each.name for each in self.uses if each.act == "read" and not each.is_local
        )

    @cached_property
    def changed(self) -> frozenset[str]:
        """The variables of that namespace that it binds or unbinds, or changes a part of."""
        return frozenset(
            each.name for each in self.uses if each.act != "read" and not each.is_local
        )

    @cached_property
    def used(self) -> frozenset[str]:
        """The variables of that namespace, whatever it does with them."""
        return self.read | self.changed

    @cached_property
    def bound_anywhere(self) -> frozenset[str]:
        """The names that it binds, also as variables of functions, classes and comprehensions."""
        return frozenset(each.name for each in self.uses if each.act == "bind")

    @cached_property
    def read_first(self) -> frozenset[str]:
        """The variables of the namespace that it reads before it binds them, if it does."""
        first: dict[str, Act] = {}
        for each in self.uses:
            if not each.is_local:
                first.setdefault(each.name, each.act)
        return frozenset(name for name, act in first.items() if act != "bind")

    @cached_property
    def globals_read(self) -> frozenset[int]:
        """The ids of the nodes that read a name of the namespace, or a builtin."""
        return frozenset(
            id(each.node) for each in self.uses if each.act == "read" and not each.is_local
        )


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────

_Kind: TypeAlias = Literal["module", "function", "class", "comprehension", "parameters"]
"""Of a scope; `parameters` are those of a type, around what is generic in them."""


@dataclass(eq=False, slots=True)
class _Scope:
    """Code whose variables are its own, as in a function."""

    kind: _Kind
    outer: _Scope | None = None
    bound: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    outer_names: set[str] = field(default_factory=set)  # that are declared nonlocal
    certain: set[str] = field(default_factory=set)  # of a class: those that are bound so far

    def inner(self, kind: _Kind) -> _Scope:
        return _Scope(kind, self)

    def class_of(self, name: str) -> _Scope | None:
        """The class that has a name which is read here; None if no class may have it."""
        scope: _Scope | None = self
        if self.kind == "parameters" and name not in self.bound:
            scope = self.outer
        return (
            scope if scope is not None and scope.kind == "class" and name in scope.bound else None
        )

    def around(self, node: ast.AST) -> _Scope:
        """The scope of the types of a function or a class: a separate one if it is generic."""
        return self.inner("parameters") if getattr(node, "type_params", ()) else self

    def of_walrus(self) -> _Scope:
        """The scope in which ``name := value`` binds the name: outside of comprehensions."""
        scope = self
        while scope.kind == "comprehension" and scope.outer is not None:
            scope = scope.outer
        return scope

    def owns(self, name: str) -> bool:
        """Whether a name in it is not one of the module."""
        if self.kind == "module" or name in self.global_names:
            return False
        if name in self.bound and name not in self.outer_names:
            return True
        scope = self.outer
        while scope is not None and scope.kind != "module":
            # The variables of a class are seen in the class alone, and in its types' parameters.
            is_seen = scope.kind != "class" or (self.kind, self.outer) == ("parameters", scope)
            if is_seen and name in scope.global_names:
                return False
            if is_seen and name in scope.bound and name not in scope.outer_names:
                return True
            scope = scope.outer
        return False


@dataclass(frozen=True, slots=True)
class _Raw:
    """A use, before all names of its scope are known."""

    name: str
    act: Act
    node: ast.AST
    scope: _Scope
    is_certain: bool = False  # whether a class has bound the name before, whatever happened

    def use(self) -> Use:
        is_local = self.scope.owns(self.name)
        if self.act == "read" and self.scope.class_of(self.name) is not None:
            is_local = is_local and self.is_certain  # otherwise it may be that of the module
        return Use(self.name, self.act, self.node, is_local)


@dataclass(frozen=True, slots=True)
class _Certain:
    """From here on, a class has bound these names."""

    names: frozenset[str]
    scope: _Scope


_Part: TypeAlias = "tuple[ast.AST | None, _Scope]"
_Step: TypeAlias = "_Part | _Raw | _Certain"


def _uses(tree: ast.AST) -> Iterator[Use]:
    """The uses of names; without recursion, so that no tree is too deep."""
    module = _Scope("module")
    found: list[_Raw] = []
    todo: list[_Step] = [(tree, module)]
    while todo:
        step = todo.pop()
        if isinstance(step, _Certain):
            step.scope.certain |= step.names
        elif isinstance(step, _Raw):
            scope = step.scope
            if step.act == "bind":
                scope.bound.add(step.name)
            elif step.act == "unbind":
                # `del` makes a variable local, too.
                scope.bound.add(step.name)
                scope.certain.discard(step.name)
            owner = scope.class_of(step.name)
            is_certain = owner is not None and step.name in owner.certain
            found.append(_Raw(step.name, step.act, step.node, scope, is_certain))
        elif step[0] is not None:
            todo += reversed([*_steps(step[0], step[1])])
    return (each.use() for each in found)


def _steps(node: ast.AST, scope: _Scope) -> Iterator[_Step]:
    """The parts of a node in the order of evaluation, with what it does to names itself."""
    if isinstance(node, ast.expr):
        return _of_expression(node, scope)
    if isinstance(node, ast.stmt):
        return _of_statement(node, scope)
    return _of_other(node, scope)


def _of_expression(node: ast.expr, scope: _Scope) -> Iterator[_Step]:
    match node:
        case ast.Name(id=name):
            yield _Raw(name, _ACTS[type(node.ctx)], node, scope)
        case ast.Attribute(ctx=context) | ast.Subscript(ctx=context):
            yield from _children(node, scope)
            if not isinstance(context, ast.Load):
                yield from _change(node, scope)
        case ast.NamedExpr(target=target, value=value):
            yield value, scope
            yield target, scope.of_walrus()
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                yield key, scope
                yield value, scope
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _comprehension(node, scope)
        case ast.Lambda(args=arguments, body=body):
            yield from _defaults(arguments, scope)
            inner = scope.inner("function")
            yield from _arguments(arguments, inner)
            yield body, inner
        case _:
            yield from _children(node, scope)


_ACTS: dict[type[ast.expr_context], Act] = {
    ast.Load: "read",
    ast.Store: "bind",
    ast.Del: "unbind",
}


def _of_statement(node: ast.stmt, scope: _Scope) -> Iterator[_Step]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _function(node, scope)
        case ast.ClassDef():
            yield from _class(node, scope)
        case ast.Global(names=names):
            scope.global_names |= {*names}
        case ast.Nonlocal(names=names):
            scope.outer_names |= {*names}
        case _ if type(node).__name__ == "TypeAlias":
            # From Python 3.12 on.
            yield node.name, scope  # type: ignore[attr-defined]
            around = scope.around(node)
            yield from ((each, around) for each in node.type_params)  # type: ignore[attr-defined]
            yield node.value, around  # type: ignore[attr-defined]
        case _:
            yield from _assignment(node, scope)


def _assignment(node: ast.stmt, scope: _Scope) -> Iterator[_Step]:
    """A statement that assigns what it has read, or any other by its parts."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield value, scope
            yield from ((each, scope) for each in targets)
        case ast.AugAssign(target=target, value=value):
            yield from _read_before(target, scope)
            yield value, scope
            yield from _stored(target, scope)
        case ast.AnnAssign(target=ast.Name(id=name), value=None):
            yield node.annotation, scope
            # It makes the name local, and binds nothing.
            scope.bound.add(name)
        case ast.AnnAssign(target=target, annotation=annotation, value=value):
            yield value, scope
            yield annotation, scope
            yield target, scope
        case ast.For(target=target, iter=items) | ast.AsyncFor(target=target, iter=items):
            yield items, scope
            yield target, scope
            yield from ((each, scope) for each in (*node.body, *node.orelse))
        case _:
            yield from _children(node, scope)


def _of_other(node: ast.AST, scope: _Scope) -> Iterator[_Step]:
    match node:
        case ast.alias(name=name, asname=other):
            if name != "*":
                yield _Raw(other or name.partition(".")[0], "bind", node, scope)
        case ast.ExceptHandler(type=kind, name=name, body=body):
            yield kind, scope
            if name is not None:
                yield _Raw(name, "bind", node, scope)
            yield from ((each, scope) for each in body)
            if name is not None:
                yield _Raw(name, "unbind", node, scope)
        case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.MatchMapping(rest=name):
            yield from _children(node, scope)
            if name is not None:
                yield _Raw(name, "bind", node, scope)
        case _:
            if type(node).__name__ in ("TypeVar", "TypeVarTuple", "ParamSpec"):
                yield _Raw(node.name, "bind", node, scope)  # type: ignore[attr-defined]
            yield from _children(node, scope)


def _children(node: ast.AST, scope: _Scope) -> Iterator[_Part]:
    return ((each, scope) for each in ast.iter_child_nodes(node))


def _change(node: ast.AST, scope: _Scope) -> Iterator[_Raw]:
    """The change of the variable through which an attribute or an item is reached."""
    root = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if isinstance(root, ast.Name):
        yield _Raw(root.id, "change", node, scope)


def _read_before(target: ast.expr, scope: _Scope) -> Iterator[_Step]:
    """The names that ``target += value`` reads first."""
    if isinstance(target, ast.Name):
        yield _Raw(target.id, "read", target, scope)
    else:
        yield from _children(target, scope)


def _stored(target: ast.expr, scope: _Scope) -> Iterator[_Raw]:
    """The last effect of ``target += value``: a new value for a name, or a changed object."""
    if isinstance(target, ast.Name):
        yield _Raw(target.id, "bind", target, scope)
    else:
        yield from _change(target, scope)


def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: _Scope
) -> Iterator[_Step]:
    """A comprehension; its first iterable is evaluated outside of it."""
    inner = scope.inner("comprehension")
    for place, each in enumerate(node.generators):
        yield each.iter, inner if place else scope
        yield each.target, inner
        yield from ((test, inner) for test in each.ifs)
    if isinstance(node, ast.DictComp):
        yield node.key, inner
        yield node.value, inner
    else:
        yield node.elt, inner


def _defaults(arguments: ast.arguments, scope: _Scope) -> Iterator[_Part]:
    return ((each, scope) for each in (*arguments.defaults, *arguments.kw_defaults))


def _all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [*listed, *(each for each in (arguments.vararg, arguments.kwarg) if each is not None)]


def _arguments(arguments: ast.arguments, scope: _Scope) -> Iterator[_Step]:
    for each in _all_arguments(arguments):
        yield _Raw(each.arg, "bind", each, scope)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, scope: _Scope) -> Iterator[_Step]:
    yield from ((each, scope) for each in node.decorator_list)
    yield from _defaults(node.args, scope)
    around = scope.around(node)
    yield from ((each, around) for each in getattr(node, "type_params", ()))
    yield from ((each.annotation, around) for each in _all_arguments(node.args))
    yield node.returns, around
    yield _Raw(node.name, "bind", node, scope)
    inner = around.inner("function")
    yield from _arguments(node.args, inner)
    yield from ((each, inner) for each in node.body)


def _class(node: ast.ClassDef, scope: _Scope) -> Iterator[_Step]:
    yield from ((each, scope) for each in node.decorator_list)
    around = scope.around(node)
    yield from ((each, around) for each in getattr(node, "type_params", ()))
    yield from ((each, around) for each in (*node.bases, *node.keywords))
    inner = around.inner("class")
    for each in node.body:
        yield each, inner
        yield _Certain(frozenset(bound_by(each)), inner)
    yield _Raw(node.name, "bind", node, scope)


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement binds whenever it succeeds: no part of it is conditional."""
    if isinstance(statement, DEFINITIONS):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from ((each.asname or each.name).partition(".")[0] for each in statement.names)
    elif isinstance(statement, ast.Assign):
        yield from (
            each.id
            for target in statement.targets
            for each in ast.walk(target)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        )
