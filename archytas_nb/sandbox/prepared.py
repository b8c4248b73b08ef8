"""Checks a program, and rewrites it in forms that the sandbox has."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from archytas_nb.loop.events import Fault, ProgramFaults
from archytas_nb.sandbox.check import faults_in, syntax_fault, too_long
from archytas_nb.sandbox.diagnostics import type_faults
from archytas_nb.sandbox.interpreter import Interpreter
from archytas_nb.sandbox.rewrite import rewritten
from archytas_nb.sandbox.source import Source
from archytas_nb.syntax.program import PROGRAM_ENDINGS, Program
from archytas_nb.tools.tool import Tool

MAX_PROGRAM = 100_000
"""Maximum number of characters of a program; checking longer ones would take minutes."""

MAX_PARTS = 10_000
"""Maximum number of nodes of its syntax tree: more than 1,000 short lines."""

Check = Callable[[Program], tuple[Fault, ...]]
"""Finds faults in the program that the sandbox runs."""


def prepare(
    text: str,
    tools: Mapping[str, Tool],
    bound: Collection[str],
    checker: Interpreter,
    *,
    variables: Collection[str] = (),
    typed: Mapping[str, Any] = MappingProxyType({}),
    check: Check | None = None,
    is_part: bool = False,
    has_checkpoints: bool = True,
) -> Source | ProgramFaults:
    """Check a program and rewrite the forms that the sandbox lacks; line numbers stay.

    Args:
        text: The program.
        tools: The tools, by their names in programs.
        bound: The names that are bound in the session in which it will run, also by the prelude.
        checker: Opens the session of the type checker.
        variables: Other names that it can use.
        typed: The types of variables whose type is known.
        check: Finds further faults.
        is_part: Whether it is a part of a program, which does not have to end with an answer.
        has_checkpoints: Whether its session is saved while it runs.
    """
    text = text.encode("utf-8", "replace").decode()  # the sandbox refuses half a character
    fed, faults = fed_text(text, tuple(tools), bound, is_part=is_part)
    program = Program(fed)
    if not faults and check is not None:
        faults = check(program)
    if not faults:
        faults = type_faults(fed, text, tools, (*bound, *variables), checker, typed)
    if faults:
        return ProgramFaults(faults)
    return Source(text, program, tools, has_checkpoints=has_checkpoints)


def fed_text(
    text: str, names: Collection[str], bound: Collection[str] = (), *, is_part: bool = False
) -> tuple[str, tuple[Fault, ...]]:
    """The text to run, with the same lines, and the faults that can be found without types.

    Args:
        text: The program.
        names: The names of the tools.
        bound: The names that were bound before the program.
        is_part: Whether it is a part of a program, which does not have to end with an answer.
    """
    if len(text) > MAX_PROGRAM:
        return text, (too_long(f"{len(text):,} characters", f"{MAX_PROGRAM:,}"),)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    program = Program(text)
    if program.error is not None:
        return text, (syntax_fault(program.error, text),)
    parts = sum(1 for _ in program.nodes(ast.AST))
    if parts > MAX_PARTS:
        return text, (too_long(f"{parts:,} names, values and operations", f"{MAX_PARTS:,}"),)
    functions = frozenset({*names, *PROGRAM_ENDINGS})
    faults = faults_in(program, functions, bound, is_part=is_part)
    if faults:
        return text, faults
    fed = rewritten(program, functions, bound)
    if len(fed) > 2 * MAX_PROGRAM:
        return text, (too_long(f"{len(fed):,} characters in the sandbox", f"{2 * MAX_PROGRAM:,}"),)
    return fed, ()
