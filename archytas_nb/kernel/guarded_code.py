"""Rewrites code of a model so that every function that it comes by is passed through a guard.

For example, with a guard `g`:

    before                            after
    ────────────────────────────────  ─────────────────────────────────────────────────────────────
    wipe('orders')                    g @ (g @ wipe)('orders')
    for each in steps: each(*rows)    for each in g @ steps: g @ (g @ each)(*(g >> (g @ rows)))
    total = prices.sum() + tax        total = (g @ prices.sum)() + tax

``g @ value`` is the value itself; if a tool calls it, it is a function that asks for approval
first. ``g >> values`` does the same with each of several values (`ToolGuard` in `guard.py`).

What is rewritten:

    name                          g @ name
    attribute, item               g @ value.attribute, g @ value[key]: the value is not called
    call                          g @ function(…): what it returns may be a function
    *values of a call             *(g >> values): they are passed on without a name
    await                         g @ await value
    operands, as of + - not ==    as they are: they are neither called nor passed on
    annotation, pattern           as they are: they are not evaluated, or have rules of their own

Operators are used because the guard is a constant of the compiled code: code cannot look it up,
rebind or delete it, as it could with the name of a function. A constant cannot be called without a
SyntaxWarning of Python. The lines of the code stay the same for tracebacks.
"""

from __future__ import annotations

import ast
import uuid
from types import CodeType
from typing import Any, TypeGuard

_PLACEHOLDER = f"<guard {uuid.uuid4().hex}>"
"""A text that stands for the guard, because `compile` accepts only constants of Python itself."""


def guarded_tree(tree: ast.Module) -> ast.Module:
    """The code with its values passed through a guard; the guard itself is still missing."""
    changed: ast.Module = ast.fix_missing_locations(_Rewriting().visit(tree))
    return changed


def with_guard(code: CodeType, guard: object) -> CodeType:
    """Compiled code of a `guarded_tree`, with the guard."""

    def replaced(constant: Any) -> Any:
        if isinstance(constant, CodeType):  # of a function, a class or a comprehension
            return with_guard(constant, guard)
        if type(constant) is str and constant == _PLACEHOLDER:
            return guard
        return constant

    return code.replace(co_consts=tuple(map(replaced, code.co_consts)))


class _Rewriting(ast.NodeTransformer):
    """Rewrites a tree; each method handles a line of the table above."""

    # ── what is guarded ───────────────────────────────────────────────────────────────────────────

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return _guarded_if_read(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        node.value = self._unguarded(node.value)
        return _guarded_if_read(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.value = self._unguarded(node.value)
        node.slice = self.visit(node.slice)
        return _guarded_if_read(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        for each in node.args:
            if isinstance(each, ast.Starred):
                each.value = _operation(ast.RShift(), each.value)
        return _guarded(node)

    def visit_Await(self, node: ast.Await) -> ast.expr:
        self.generic_visit(node)
        return _guarded(node)

    # ── operands ──────────────────────────────────────────────────────────────────────────────────

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        node.operand = self._unguarded(node.operand)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        node.left = self._unguarded(node.left)
        node.right = self._unguarded(node.right)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        node.left = self._unguarded(node.left)
        node.comparators = [self._unguarded(each) for each in node.comparators]
        return node

    def _unguarded(self, node: ast.expr) -> ast.expr:
        """The rewritten expression whose own value is not guarded, only what is inside it."""
        changed: ast.expr = self.visit(node)
        if _is_guarded(changed):
            return changed.right
        return changed

    # ── what stays as it is ───────────────────────────────────────────────────────────────────────

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        """All but the annotation of what it returns, and its type parameters."""
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.args = self.visit(node.args)
        node.body = [self.visit(each) for each in node.body]
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:  # a parameter with its annotation
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        node.target = self.visit(node.target)
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        node.body = [self.visit(each) for each in node.body]
        return node


def _guarded(node: ast.expr) -> ast.expr:
    return _operation(ast.MatMult(), node)


def _guarded_if_read(node: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    """A name or a part that is read; one that is assigned or deleted stays as it is."""
    if isinstance(node.ctx, ast.Load):
        return _guarded(node)
    return node


def _operation(operator: ast.operator, node: ast.expr) -> ast.BinOp:
    """The expression as the right operand of the guard."""
    guard = ast.copy_location(ast.Constant(_PLACEHOLDER), node)
    return ast.copy_location(ast.BinOp(guard, operator, node), node)


def _is_guarded(node: ast.expr) -> TypeGuard[ast.BinOp]:
    """Whether an expression is an operation of the guard."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.left, ast.Constant):
        return False
    return bool(node.left.value == _PLACEHOLDER)
