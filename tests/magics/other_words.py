"""The conversations with canaries, where the package has other words: ``python -m tests.magics.other_words``.

Each text of the package with more than one word is made of random words before the package is imported, each time
other ones. So whatever decides what a model learns by what a text says decides at random.
"""

from __future__ import annotations

import ast
import logging
import random
import re
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

KEPT = (
    "archytas_nb.models",  # the words of servers, which it looks for
    "archytas_nb.magics",
    "archytas_nb.small.checks",  # the server of the tests knows its questions
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_WORD_OR_FIELD = re.compile(r"\{[^{}]*\}|[^\W\d_]{2,}")
_CODE = re.compile(
    r"\w+ = |^(?:def|class|import|from|async|try|for|while|if|raise|return)\b|\w\(", re.MULTILINE
)
_DOCSTRING = re.compile(r"Args:|^\s*\w+: ", re.MULTILINE)  # which is read as one


class OtherWords(ast.NodeTransformer):
    """Replaces the words of texts, without docstrings, patterns, annotations and code."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(name)
        self.number = 0

    def _other(self, text: str) -> str:
        if _CODE.search(text) or _DOCSTRING.search(text) or "\\" in text or "  " in text.strip():
            return text
        self.number += 1
        return _WORD_OR_FIELD.sub(
            lambda found: found[0] if found[0][0] == "{" else self._word(len(found[0])), text
        )

    def _word(self, length: int) -> str:
        return "".join(self._random.choices("bdfghklmnprstvw", k=length))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and len(_WORD.findall(node.value)) > 1 and " " in node.value:
            return ast.copy_location(ast.Constant(self._other(node.value)), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        values: list[ast.expr] = []
        for each in node.values:
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and " " in each.value:
                values.append(ast.copy_location(ast.Constant(self._other(each.value)), each))
            elif isinstance(each, ast.FormattedValue):
                values.append(
                    ast.copy_location(
                        ast.FormattedValue(
                            self.visit(each.value), each.conversion, each.format_spec
                        ),
                        each,
                    )
                )
            else:
                values.append(each)
        return ast.copy_location(ast.JoinedStr(values), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if isinstance(function, ast.Attribute) and getattr(function.value, "id", "") in (
            "re",
            "ast",
        ):
            return node
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return (
            node
            if getattr(node.value, "id", "") in ("Literal", "Annotated")
            else self.generic_visit(node)
        )

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)


replaced: dict[str, int] = {}
_compiled = SourceFileLoader.source_to_code


def _source_to_code(self: Any, data: Any, path: Any, *args: Any, **more: Any) -> CodeType:
    name = self.name
    if not name.startswith("archytas_nb") or name.startswith(KEPT) or not isinstance(data, bytes):
        return _compiled(self, data, path, *args, **more)
    words = OtherWords(name)
    tree = ast.fix_missing_locations(words.visit(ast.parse(data)))
    replaced[name] = words.number
    return compile(tree, path, "exec", dont_inherit=True)


def main(seeds: int, leaks: list[str]) -> int:
    """Have the conversations; the exit status."""
    sys.dont_write_bytecode = True
    sys.pycache_prefix = tempfile.mkdtemp()  # what is compiled already has its own words
    SourceFileLoader.source_to_code = _source_to_code  # type: ignore[method-assign]
    from tests.magics import test_canaries as canaries

    canaries.remote.FIRST_WAIT_SECONDS = 0.0
    logging.getLogger("of_mine").propagate = False
    wrong = []
    with canaries.wired() as wires, tempfile.TemporaryDirectory() as folder:
        for values in ("none", "strict"):
            for seed in range(seeds):
                found = canaries._leaks(seed, wires, Path(folder), values)
                if found:
                    wrong.append(f"{values}, {seed}: {found[:3]}")
        asked = len(wires["openai"].server.chats)
        for leak in leaks:
            with canaries.LEAKS[leak]():
                if not any(canaries._leaks(seed, wires, Path(folder)) for seed in range(30)):
                    wrong.append(f"the leak {leak!r} is not found")
    texts = sum(replaced.values())
    print(
        f"{texts} texts in {len(replaced)} modules have other words; {asked} requests; {len(leaks)} leaks; wrong: {wrong}"
    )
    return 1 if wrong or texts < 500 or asked < 3 * seeds else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
