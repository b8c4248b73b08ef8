"""The questions of `frames_own.py` with scripted models, where only the mechanics count.

    python -m benchmarks.success.frames_scripted [--every N]

The program of each question is the one that computes its label, written as a model would: with
functions for what is done twice. A capable model runs it by ``python`` and copies the result that
it reads into its answer, as text or as a value of a type; a small one answers in its program.
What is wrong then is lost between the program and the answer.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from archytas_nb import Agent
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Usage
from archytas_nb.testing import ScriptedModel
from archytas_nb.undo.fingerprint import fingerprint
from benchmarks.success import frames_own
from benchmarks.success.frames_own import QUESTIONS, Asked, questions

WAYS = ("text", "typed", "follow-up", "small", "small, typed")
"""Capable with text, with a type, with a variable that a question before kept; small with both."""


class Capable:
    """A model that runs a program, and answers with what it reads of its result.

    Args:
        codes: The programs, one for each question.
        is_typed: Whether the answer is the value alone.
    """

    name = "capable"
    protocol = "react"
    is_small = False

    def __init__(self, *codes: str, is_typed: bool = False) -> None:
        self._codes = [*codes]
        self._is_typed = is_typed
        self._is_next = True  # whether the next reply is a program

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        """The call of the program, or the answer."""
        yield from ()
        if not ask.step:
            return ModelReply("yes")
        action: dict[str, Any] = {"tool": "python"}
        if self._is_next:
            action["tool_input"] = {"code": self._codes.pop(0)}
        else:
            _, _, result = str(ask.messages[-1]["content"]).partition("\n")
            action = {
                "tool": "final_answer",
                "tool_input": result if not self._is_typed else _value(result),
            }
        self._is_next = not self._is_next
        return ModelReply(json.dumps({"thought": "", **action}), usage=Usage(requests=1))


class Small(ScriptedModel):
    """A small model whose endpoint continues replies."""

    is_small = True
    continues_replies = True
    has_grammars = True


def programs() -> Mapping[str, str]:
    """The expressions that compute the labels, by question, after the functions that they call."""
    tree = ast.parse(Path(inspect.getfile(frames_own)).read_text(encoding="utf-8"))
    functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    [listed] = [
        each.value for each in tree.body
        if isinstance(each, ast.AnnAssign) and ast.unparse(each.target) == "QUESTIONS"
    ]  # fmt: skip
    assert isinstance(listed, ast.List)
    found = {}
    for row in listed.elts:
        _, name, text, compute = row.elts  # type: ignore[attr-defined]
        body = _Renamed(name.value).visit(compute.body)
        used = [each for each in functions if each in ast.unparse(body)]
        lines = [ast.unparse(_bare(functions[each])) for each in used]
        found[text.value] = "\n".join([*lines, f"found = {ast.unparse(body)}"])
    return found


def _value(text: str) -> Any:
    """The value that a result is as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'")


def _bare(function: ast.FunctionDef) -> ast.FunctionDef:
    """A function without annotations, which name what a notebook has not."""
    function.returns = None
    for each in function.args.args:
        each.annotation = None
    return function


class _Renamed(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self._name) if node.id == "t" else node


def asked_in(way: str, asked: Asked, program: str) -> tuple[bool, str]:
    """Whether the answer to a question is right this way, and the answer."""
    namespace = dict(asked.variables())
    before = {name: fingerprint(each) for name, each in namespace.items()}
    kind: Any = type(_value(asked.label))
    is_typed = way.endswith("typed")
    if way.startswith("small"):
        given = "found" if is_typed else 'f"It is {found}."'
        agent = Agent(
            [], Small(f"{program}\nanswer({given})", protocol="program"), namespace=namespace
        )
    else:
        codes = [f"{program}\nfound"]
        if way == "follow-up":
            codes = [f"{program}\nkeep('found')", "found"]
        agent = Agent([], Capable(*codes, is_typed=is_typed), namespace=namespace)
    try:
        run = agent.run(asked.question, output_type=kind if is_typed else None)
        if way == "follow-up":
            run = agent.run("What was it?")
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"[:300]
    after = {name: fingerprint(namespace[name]) for name in before}
    if after != before:
        return False, "a variable has changed"
    answer = str(run.value) if is_typed else run.answer
    return asked.is_right(answer), answer


def main() -> None:
    """Ask all questions in all ways, and print what is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only every nth question")
    given = parser.parse_args()
    written = programs()
    assert len(written) == len(QUESTIONS)
    listed = [*questions("choose"), *questions("blind")][:: given.every]
    for way in WAYS:
        right = 0
        started = time.monotonic()
        for asked in listed:
            is_right, answer = asked_in(way, asked, written[asked.question])
            right += is_right
            if not is_right:
                print(
                    f"{asked.id} {way}, expected {asked.label!r}: {' '.join(answer.split())[:300]}"
                )
        seconds = (time.monotonic() - started) / len(listed)
        print(f"{way:12} {right}/{len(listed)}, {seconds:.2f} s a question", flush=True)


if __name__ == "__main__":
    main()
