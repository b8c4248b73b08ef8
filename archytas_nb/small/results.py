"""Whether a program unpacks a result under names that contradict those of its parts.

A small model writes ``r, relation = stats.pearsonr(…)``, as if the function gave what was asked
for. The parts of such a result have names of their own, here ``statistic`` and ``pvalue``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.program import PROGRAM_ANSWER, Program, calls


@dataclass(frozen=True, slots=True)
class Misnamed:
    """A result that is unpacked under wrong names.

    Attributes:
        ran: The program with the names of the parts, up to where a wrong one is first read; all of
            it where none is.
        name: This name, which has no value then; empty if there is none.
        why: The fault, in words.
    """

    ran: str
    name: str
    why: str


def misnamed(program: str, fields: Mapping[str, Sequence[str]]) -> Misnamed | None:
    """The result that a program unpacks under wrong names; None if there is none.

    A name is wrong that is the name of another part, or that the answer gives as what it is named
    although the part is named otherwise.

    Args:
        program: The program, which calls ``answer``.
        fields: The names of the parts, by the code of the call whose result is unpacked.
    """
    tree = Program(program).tree
    answered = _answered_by_name(tree)
    for place, statement in enumerate(tree.body):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Tuple):
            continue
        names = [each.id for each in statement.targets[0].elts if isinstance(each, ast.Name)]
        parts = fields.get(ast.unparse(statement.value), ())
        if len(names) != len(parts) or len(names) != len(statement.targets[0].elts):
            continue
        new = _named_as(names, parts, answered)
        if new == names:
            continue
        pairs = zip(names, parts, new, strict=True)
        wrong = [(each, part) for each, part, now in pairs if each != now]
        lost = [each for each, _ in wrong if each not in new]
        told, part = next(pair for pair in wrong if not lost or pair[0] in lost)
        why = f"the result is ({', '.join(parts)}): {part} is not {told}"
        begin, end = statement.lineno - 1, statement.end_lineno or statement.lineno
        lines = program.splitlines()
        before, rest = lines[:begin], lines[end:]
        unpacked = f"{', '.join(new)} = {ast.unparse(statement.value)}"
        first, name = _first_read(tree.body[place + 1 :], lost)
        if first is None:
            return Misnamed("\n".join([*before, unpacked, *rest]), "", why)
        rest = lines[end : first.lineno - 1]
        return Misnamed("\n".join([*before, unpacked, *rest]), name, why)
    return None


def _first_read(body: Sequence[ast.stmt], names: Sequence[str]) -> tuple[ast.stmt | None, str]:
    """The first statement that reads one of these names before another value is bound to it."""
    left = list(names)
    for statement in body:
        bindings = Bindings(statement)
        for each in left:
            if each in bindings.read:
                return statement, each
        left = [each for each in left if each not in bindings.bound]
    return None, ""


def _named_as(names: Sequence[str], parts: Sequence[str], answered: set[str]) -> list[str]:
    """The names for the parts: those that fit, and their own names in place of wrong ones."""
    new = list(parts)
    for place, (name, part) in enumerate(zip(names, parts, strict=True)):
        others = [
            at for at, other in enumerate(parts)
            if at != place and _fits(name, other) and not _fits(names[at], other)
        ]  # fmt: skip
        if _fits(name, part):
            new[place] = name
        elif others:
            new[others[0]] = name
        elif not (place and name in answered):
            new[place] = name if new[place] == part else new[place]
    return new


def _fits(name: str, part: str) -> bool:
    """Whether a name may be short for the name of a part, or has it in it."""
    whole = re.sub(r"[\W_\d]+", "", part.lower())
    tokens = re.findall(r"[^\W_\d]+", name.lower())
    joined = "".join(tokens)
    return not joined or whole in joined or any(map(whole.startswith, [*tokens, joined]))


def _answered_by_name(tree: ast.AST) -> set[str]:
    """The variables that a text of the answer gives right after their own names."""
    found = set()
    for call in calls(tree, PROGRAM_ANSWER):
        for text in (each for each in ast.walk(call) if isinstance(each, ast.JoinedStr)):
            before = ""
            for part in text.values:
                if isinstance(part, ast.Constant):
                    before = str(part.value)
                elif isinstance(part, ast.FormattedValue):
                    read = Bindings(part.value).read
                    found |= {each for each in read if re.search(rf"\b{each}\W*$", before)}
                    before = ""
    return {each for each in found if re.search(r"[^\W\d_]{3}", each)}
