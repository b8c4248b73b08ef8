"""Trees that are made in several threads at the same time."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor

import pytest

from archytas_nb.syntax import parse as module
from archytas_nb.syntax.parse import parsed

TEXT = "\n".join(f"a{n} = [(b, {n} + c.d(e)) for b in {{1: (2, [3])}} if b]" for n in range(40))


def test_trees_that_are_made_at_the_same_time_are_those_of_their_texts() -> None:
    with ThreadPoolExecutor(8) as threads:
        trees = list(threads.map(parsed, [TEXT] * 100))
    assert {ast.dump(each) for each in trees} == {ast.dump(ast.parse(TEXT))}


def test_a_tree_is_made_again_when_another_thread_was_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parse = ast.parse
    failures = [SystemError("AST constructor recursion depth mismatch")] * 3

    def disturbed(text: str, mode: str) -> ast.AST:
        if failures:
            raise failures.pop()
        return parse(text, mode=mode)

    monkeypatch.setattr(module.ast, "parse", disturbed)
    assert ast.unparse(parsed("a=1")) == "a = 1"
    assert not failures


def test_a_text_that_is_not_python_is_an_error_of_its_own() -> None:
    with pytest.raises(SyntaxError):
        parsed("a =")
