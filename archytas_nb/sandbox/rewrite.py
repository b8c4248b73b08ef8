"""Programs in the forms that the sandbox has, with the same lines.

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
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed
from archytas_nb.tools.declaration import PRIVATE

_METHODS = frozenset(name for kind in CONTAINERS for name in dir(kind) if not name.startswith("_"))
_TYPES = frozenset(kind.__name__ for kind in CONTAINERS)
_OF_CLASSES = frozenset({"fromkeys", "fromhex", "maketrans"})  # methods of the type itself
_LAZY = frozenset({"any", "all", "next"})
_VIEWS = frozenset({"keys", "values", "items"})


def rewritten(
    text: str, tree: ast.Module, tools: Collection[str], bound: Collection[str] = ()
) -> str:
    """The program in the forms that the sandbox has, line by line.

    Args:
        text: The program.
        tree: The same, parsed.
        tools: The functions whose calls leave the sandbox.
        bound: The names that were bound before: they are no builtins.
    """
    edits = _Edits(text, Bindings(tree), bound)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            _method(node, edits, is_called=id(node) in called)
        elif isinstance(node, ast.Call):
            _call(node, edits, tools)
        elif isinstance(node, ast.Delete):
            _delete(node, edits)
        elif isinstance(node, ast.Assign):
            _materialize(node.value, edits, is_view_too=False)
        elif isinstance(node, ast.Expr):
            _sort(node, edits)
    changed = edits.applied()
    try:
        parsed(changed)
    except SyntaxError:  # two changes in one place
        return text
    return changed


def _method(node: ast.Attribute, edits: _Edits, *, is_called: bool) -> None:
    """A method as a value, or of a builtin type, becomes a function that calls it."""
    name = node.attr
    if name not in _METHODS or not edits.has(node):
        return
    kind = edits.builtin(node.value)
    if kind in _TYPES:
        if name not in _OF_CLASSES:
            method = f"_sandbox_check({PRIVATE}{kind}, it).{name}(*each)"
            edits.replace(node, f"(lambda it, *each: {method})")
        return
    dot = edits.offset_of(b".", edits.end(node.value), edits.end(node))
    if is_called or dot is None:
        return
    # A field of a record may have the name of a method, so only values of builtin types have one.
    method = f"(lambda *each, **named: it.{name}(*each, **named))"
    has_methods = "_sandbox_has_methods(it)"
    edits.insert(edits.start(node), f"(lambda it: {method} if {has_methods} else it.{name})(")
    edits.cut(dot, dot + 1)
    edits.cut(edits.end(node) - len(name.encode()), edits.end(node), ")")


def _call(node: ast.Call, edits: _Edits, tools: Collection[str]) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name in tools:
        for each in [*node.args, *(each.value for each in node.keywords)]:
            _materialize(each, edits, is_view_too=True)
    is_lazy = edits.builtin(node.func) in _LAZY
    if is_lazy and node.args and isinstance(node.args[0], ast.GeneratorExp):
        generator = node.args[0]
        if name == "next" or _may_call(generator, tools, edits):
            _lazy(node, generator, edits)


def _materialize(node: ast.expr, edits: _Edits, *, is_view_too: bool) -> None:
    """A range or a view of a dict becomes a list: outside of the sandbox, it would be a text."""
    if not isinstance(node, ast.Call) or not edits.has(node):
        return
    is_range = edits.builtin(node.func) == "range"
    is_view = isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS and not node.args
    if is_range or (is_view and is_view_too):
        edits.wrap(node, f"{PRIVATE}list(", ")")


def _may_call(node: ast.AST, tools: Collection[str], edits: _Edits) -> bool:
    """Whether a call of a tool, or of a function that the program may have defined, is inside."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name):
            name = each.func.id
            if name in tools or not edits.builtin(each.func):
                return True
    return False


def _lazy(call: ast.Call, generator: ast.GeneratorExp, edits: _Edits) -> None:
    """``any(f(x) for x in y if z)`` stops at the first: the parts are given as functions."""
    loop = generator.generators[0]
    is_many = isinstance(loop.target, ast.Tuple)
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    is_simple = len(generator.generators) == 1 and len(names) == len(targets)
    scoped = (ast.NamedExpr, ast.Await)
    is_scoped = loop.is_async or any(isinstance(each, scoped) for each in ast.walk(generator))
    if not is_simple or is_scoped or not edits.has(generator) or not edits.has(call):
        return
    places = []
    for part in (generator.elt, loop.iter, *loop.ifs):
        place = edits.outer(part, generator)
        if place is None:
            return
        places.append(place)
    function = f"(lambda {', '.join(names)}: ("
    is_argument = edits.end(generator) == edits.end(call)  # the brackets are those of the call
    opening = "((" if is_argument else "("
    closing = ",))" if is_argument else ",)"
    before = [f"{opening}{is_many}, {function}", ")), ("]
    if loop.ifs:
        before.append(f"), {function}")
        before += [f")), {function}" for _ in loop.ifs[1:]]
    before.append(f"{'))' if loop.ifs else ')'}{closing}")
    edits.insert(edits.start(call), "_sandbox_")
    end = edits.start(generator)
    for (start, after), new in zip(places, before, strict=False):
        edits.cut(end, start, new)
        end = after
    edits.cut(end, edits.end(generator), before[-1])


def _delete(node: ast.Delete, edits: _Edits) -> None:
    """``del d[k]`` becomes ``d.pop(k)``; a name is bound to None."""
    [target] = node.targets if len(node.targets) == 1 else [None]
    if target is None or not edits.is_blank(edits.start(node) + 3, edits.start(target)):
        return
    if isinstance(target, ast.Name):
        edits.cut(edits.start(node), edits.start(target))
        edits.insert(edits.end(target), " = None")
    elif isinstance(target, ast.Subscript):
        bracket = edits.offset_of(b"[", edits.end(target.value), edits.start(target.slice))
        if isinstance(target.slice, ast.Slice):
            edits.cut(edits.start(node), edits.start(target))
            edits.insert(edits.end(target), " = []")
        elif bracket is not None:
            edits.cut(edits.start(node), edits.start(target), "_sandbox_delete(")
            edits.cut(bracket, bracket + 1, ", (")
            edits.cut(edits.end(target) - 1, edits.end(target), "))")


def _sort(node: ast.Expr, edits: _Edits) -> None:
    """``x.sort(key=…)`` with a key that may call tools."""
    call = node.value
    if not isinstance(call, ast.Call) or call.args or not call.keywords:
        return
    target = call.func
    if not isinstance(target, ast.Attribute) or target.attr != "sort":
        return
    dot = edits.offset_of(b".", edits.end(target.value), edits.end(target))
    bracket = edits.offset_of(b"(", edits.end(target), edits.start(call.keywords[0]))
    if dot is not None and bracket is not None:
        edits.insert(edits.start(call), "_sandbox_sort(")
        edits.cut(dot, bracket + 1, ", ")


class _Edits:
    """Changes of a text at the places of its nodes, in bytes; the lines stay where they are."""

    def __init__(self, text: str, bindings: Bindings, before: Collection[str]) -> None:
        self._text = text.encode()
        self._globals = bindings.globals_read
        self._bound = bindings.bound | {*before}
        self._starts = [0]
        for line in self._text.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._changes: list[tuple[int, int, int, str]] = []  # start, end, order, new text

    def builtin(self, node: ast.expr) -> str:
        """The name of the builtin that a node is; empty if it is none."""
        if not isinstance(node, ast.Name) or node.id in self._bound:
            return ""
        if id(node) not in self._globals:
            return ""
        return node.id if hasattr(builtins, node.id) else ""

    def start(self, node: ast.AST) -> int:
        """Where a node begins."""
        line: int = node.lineno  # type: ignore[attr-defined]
        column: int = node.col_offset  # type: ignore[attr-defined]
        return self._starts[line - 1] + column

    def end(self, node: ast.AST) -> int:
        """Where a node ends."""
        line: int = node.end_lineno  # type: ignore[attr-defined]
        column: int = node.end_col_offset  # type: ignore[attr-defined]
        return self._starts[line - 1] + column

    def has(self, node: ast.expr) -> bool:
        """Whether the node is where it says: older versions of Python misplace it in f-strings."""
        source = self._text[self.start(node) : self.end(node)]
        try:
            found = parsed(b"(" + source + b"\n)", mode="eval").body
        except (SyntaxError, ValueError):
            return False
        return ast.dump(found) == ast.dump(node)

    def is_blank(self, start: int, end: int) -> bool:
        """Whether there is only space on one line between two places."""
        return start <= end and not self._text[start:end].strip(b" \t")

    def offset_of(self, sign: bytes, start: int, end: int) -> int | None:
        """The place of a sign; None if it is not certain because of a comment."""
        found = self._text.find(sign, start, end)
        if found < 0 or b"#" in self._text[start:found]:
            return None
        return found

    def outer(self, node: ast.expr, around: ast.expr) -> tuple[int, int] | None:
        """The place of a node with the brackets around it, inside of another node."""
        start = self.start(node)
        end = self.end(node)
        first = self.start(around) + 1
        last = self.end(around) - 1
        while True:
            left = start - 1
            while left >= first and self._text[left : left + 1].isspace():
                left -= 1
            right = end
            while right < last and self._text[right : right + 1].isspace():
                right += 1
            is_bracket = self._text[left : left + 1] == b"(" and left >= first
            if not is_bracket or self._text[right : right + 1] != b")" or right >= last:
                break
            start = left
            end = right + 1
        if b"#" in self._text[first:start] or b"#" in self._text[end:last]:
            return None
        return start, end

    def insert(self, place: int, text: str) -> None:
        self._changes.append((place, place, len(self._changes), text))

    def wrap(self, node: ast.AST, before: str, after: str) -> None:
        """Put something around a node; what is inside of it stays inside."""
        self.insert(self.start(node), before)
        # What was wrapped first ends last.
        self._changes.append((self.end(node), self.end(node), -len(self._changes), after))

    def cut(self, start: int, end: int, text: str = "") -> None:
        """Replace a part; its line breaks stay."""
        breaks = self._text[start:end].count(b"\n")
        self._changes.append((start, end, len(self._changes), text + "\n" * breaks))

    def replace(self, node: ast.AST, text: str) -> None:
        self.cut(self.start(node), self.end(node), text)

    def applied(self) -> str:
        """The changed text; without changes that lie inside of others."""
        parts: list[bytes] = []
        done = 0
        for start, end, _, text in sorted(self._changes):
            if start < done:
                continue
            parts += [self._text[done:start], text.encode()]
            done = end
        return b"".join([*parts, self._text[done:]]).decode()
