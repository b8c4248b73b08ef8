"""The form of an answer that a question shows, with ``{…}`` where a value belongs.

``Answer with: total={…} € in {…}`` is such a form. A small model may write its values in another
one, such as that of its example, although it gives as many of them, in the same order.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TypeAlias

from archytas_nb.syntax.program import PROGRAM_ANSWER, Program, called

HOLE = "{…}"
"""Where a value belongs."""


def form_of(question: str) -> tuple[str, ...]:
    """The texts before, between and after the places of the values; empty if none is shown.

    Before the first and after the last one, as far as the next space: nobody says where the form
    begins and ends.
    """
    lines = [each for each in question.splitlines() if HOLE in each]
    if not lines:
        return ()
    before, *between, after = lines[-1].split(HOLE)
    first = re.search(r"\S*$", before)
    last = re.match(r"\S*", after)
    return (first[0] if first else "", *between, last[0] if last else "")


def in_form(program: str, form: Sequence[str]) -> str:
    """A program whose answer has another form, with this one; the program itself otherwise.

    Only a text with as many values as the form is changed. They belong there in the order of their
    labels, if these are those of the form, and otherwise in their own order.
    """
    if not form:
        return program
    tree = Program(program).tree
    for statement in tree.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if called(call) != PROGRAM_ANSWER or len(call.args) != 1:  # type: ignore[union-attr]
            continue
        values = _ordered(_values(call.args[0]), form)  # type: ignore[union-attr]
        if len(values) != len(form) - 1 or _has_form(call.args[0], form):  # type: ignore[union-attr]
            return program
        parts: list[ast.expr] = [ast.Constant(form[0])]
        for (_, value), text in zip(values, form[1:], strict=True):
            parts += [value, ast.Constant(text)]
        new = ast.unparse(ast.Call(ast.Name(PROGRAM_ANSWER), [ast.JoinedStr(parts)], []))
        lines = program.splitlines()
        begin, end = statement.lineno - 1, statement.end_lineno or statement.lineno
        return "\n".join([*lines[:begin], new, *lines[end:]])
    return program


def lacks_form(answer: str, form: Sequence[str]) -> bool:
    """Whether a text has not the texts of the form in their order, but for spaces."""
    rest = _squeezed(answer)
    for text in map(_squeezed, form):
        _, found, rest = rest.partition(text) if text else ("", "-", rest)
        if not found:
            return True
    return False


def begun_in(form: Sequence[str]) -> str:
    """The beginning of the statement that answers in this form."""
    is_plain = form and not set(form[0]) & set('"{}\\')
    return f'{PROGRAM_ANSWER}(f"{form[0]}{{' if is_plain else f"{PROGRAM_ANSWER}("


_Labelled: TypeAlias = tuple[str, ast.FormattedValue]
"""A value of an answer, after its label, which may be empty."""


def _values(answer: ast.expr) -> list[_Labelled]:
    """The values in an answer: the fields of a text, or the parts of a tuple, a list or a dict."""
    found: list[_Labelled] = []
    if isinstance(answer, ast.JoinedStr):
        before = ""
        for each in answer.values:
            if isinstance(each, ast.FormattedValue):
                found.append((_label(before), each))
            before = str(each.value) if isinstance(each, ast.Constant) else ""
    elif isinstance(answer, (ast.Tuple, ast.List)):
        found = [("", ast.FormattedValue(each, -1)) for each in answer.elts]
    elif isinstance(answer, ast.Dict):
        for key, value in zip(answer.keys, answer.values, strict=True):
            name = key.value if isinstance(key, ast.Constant) else ""
            found.append((_label(str(name)), ast.FormattedValue(value, -1)))
    return found


def _ordered(values: list[_Labelled], form: Sequence[str]) -> list[_Labelled]:
    """Values in the order of the form; none if only some of their labels are in it elsewhere."""
    wanted = [_label(each) for each in form[:-1]]
    labels = [label for label, _ in values]
    if len(set(labels)) == len(labels) and set(labels) == set(wanted):
        return sorted(values, key=lambda each: wanted.index(each[0]))
    if len(labels) != len(wanted):
        return []
    pairs = zip(labels, wanted, strict=True)
    is_elsewhere = any(label and label != own and label in wanted for label, own in pairs)
    return [] if is_elsewhere else values


def _label(text: str) -> str:
    """The last word of a text."""
    words = re.findall(r"\w+", text.lower())
    return str(words[-1]) if words else ""


def _has_form(answer: ast.expr, form: Sequence[str]) -> bool:
    """Whether a text has the texts of the form around its values, but for spaces."""
    if not isinstance(answer, ast.JoinedStr):
        return False
    texts = [""]
    for each in answer.values:
        if isinstance(each, ast.Constant):
            texts[-1] += str(each.value)
        else:
            texts.append("")
    parts = [(_squeezed(text), _squeezed(wanted)) for text, wanted in zip(texts, form, strict=True)]
    (first, wanted_first), *_ = parts
    *_, (last, wanted_last) = parts
    ends = first.endswith(wanted_first) and last.startswith(wanted_last)
    return ends and all(wanted in text for text, wanted in parts[1:-1])


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)
