"""What the options of a question mean in this notebook: tools, pictures, a type, a condition, a variable.

Each is read before anything is asked, so that what cannot be meant costs nothing. Errors are `UsageError`.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import typing
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from archytas_nb.errors import ToolError
from archytas_nb.magics.lookup import LookupFault, look
from archytas_nb.tools.names import did_you_mean
from archytas_nb.tools.reference import visible

if TYPE_CHECKING:
    from archytas_nb.tools.toolbox import Toolbox

_TYPING = ("Annotated", "Literal", "Optional", "Union")
"""What a type may be made of without an import: nobody imports it for one option."""

_GLOB = frozenset("*?[")


def chosen_tools(patterns: Iterable[str], toolbox: Toolbox, flag: str = "--tools") -> list[str]:
    """The names of the tools that are meant.

    Args:
        patterns: Names or globs.
        toolbox: All tools of the notebook.
        flag: What is said to be wrong where something is.

    Returns:
        Names of enabled tools, in the toolbox's order.

    Raises:
        UsageError: A name or a glob means no tool that is enabled.
    """
    active = toolbox.active()
    meant: set[str] = set()
    for pattern in patterns:
        if _GLOB & set(pattern):
            names = [name for name in active if fnmatchcase(name, pattern)]
        else:
            names = [active[pattern].name] if pattern in active else []
        if not names:
            if pattern in toolbox:
                raise UsageError(
                    f"{flag}: {pattern!r} is disabled; enable it with %tools --enable {pattern}"
                )
            there = ", ".join(active) or "none"
            raise UsageError(
                f"{flag}: no tool is named {pattern!r}{did_you_mean(pattern, active) or ';'} there: {there}"
            )
        meant.update(names)
    return [name for name in active if name in meant]


def picture(source: str, namespace: dict[str, Any]) -> str:
    """What ``--image`` names: a variable, with its attributes and items, or else a file.

    Returns:
        PNG or JPEG in base64.

    Raises:
        UsageError: There is no such variable and no such file, or it is no picture.
    """
    from archytas_nb.tools.pictures import attached

    try:
        value = look(source, namespace)
    except LookupFault as fault:
        value = Path(source).expanduser()
        if not value.is_file():
            raise UsageError(f"--image: {fault}; and there is no file {source!r}") from None
    try:
        return attached(value)
    except (ValueError, OSError) as error:
        raise UsageError(f"--image {source}: {' '.join(str(error).split())}") from None


def answer_type(source: str, namespace: dict[str, Any]) -> Any:
    """What ``--type`` says, evaluated in the notebook.

    Raises:
        UsageError: It is no expression, cannot be evaluated, or no answer can be of that type.
    """
    from archytas_nb.answers import Answers

    code = _compiled(source, "--type")
    words = {name: getattr(typing, name) for name in _TYPING if name in code.co_names}
    try:
        value = eval(code, words | namespace)  # noqa: S307 - an expression of the user's, like a cell
    except Exception as error:  # noqa: BLE001 - and so it may raise anything
        hint = ""
        if isinstance(error, NameError) and error.name:
            hint = did_you_mean(error.name, [*visible(namespace), *dir(builtins)])
        raise UsageError(f"--type {source!r} cannot be evaluated: {_said(error)}{hint}") from None
    if value is None:
        raise UsageError(f"--type {source!r} is None; expected a type, such as int or list[str]")
    try:
        Answers(value, None, namespace)
    except ToolError as error:
        raise UsageError(
            f"--type {source!r} cannot be the type of an answer: {'; '.join(error.faults)}"
        ) from None
    return value


def condition(source: str, namespace: dict[str, Any], *, of_text: bool) -> Callable[[Any], str]:
    """What ``--until`` says, as a function of the answer.

    Args:
        source: An expression over ``answer`` and the notebook's variables.
        namespace: The notebook's variables, as they are when an answer comes.
        of_text: Whether the answer is text; else it is the value of the type that was asked for.

    Returns:
        Given the answer, it says what is wrong with it; an empty text where the expression is true.

    Raises:
        UsageError: It is no expression, or it names a variable that is not there now.
    """
    from archytas_nb.loop.wire import as_text

    tree = _compiled(source, "--until", only_parsed=True)
    known = {"answer", *namespace, *dir(builtins)}
    missing = [name for name in _free_names(tree) if name not in known]
    if missing:
        guess = did_you_mean(missing[0], ["answer", *visible(namespace)])
        raise UsageError(
            f"--until: no variable is named {missing[0]!r}{guess or '.'} (One that a tool will make must have a "
            "first value before.)"
        )
    code = compile(f"lambda answer: (\n{source}\n)", "<until>", "eval", dont_inherit=True)
    holds = eval(code, namespace)  # noqa: S307 - an expression of the user's, like a cell

    def check(answer: Any) -> str:
        try:
            held = bool(holds(as_text(answer) if of_text else answer))
        except Exception as error:  # noqa: BLE001 - a condition that cannot be evaluated is not met
            return f"This must be true of the answer: {source} – checking it raised {_said(error)}"
        return "" if held else f"This must be true of the answer, and is not: {source}"

    return check


def variable(name: str) -> str:
    """Check the name that ``--out`` gives.

    Raises:
        UsageError: It cannot be a variable's name.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"--out: {name!r} cannot be the name of a variable")
    return name


def _compiled(source: str, flag: str, *, only_parsed: bool = False) -> Any:
    try:
        tree = ast.parse(source.strip(), f"<{flag}>", "eval")
        return tree if only_parsed else compile(tree, f"<{flag}>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        said = getattr(error, "msg", error)
        raise UsageError(f"{flag} {source!r} is no Python expression: {said}") from None


def _free_names(tree: ast.AST) -> list[str]:
    """Names that an expression reads and does not bind itself, in a comprehension, a lambda or by ``:=``."""
    bound = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    read = [
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    ]
    return [name for name in dict.fromkeys(read) if name not in bound]


def _said(error: BaseException) -> str:
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return line if len(line) <= 300 else f"{line[:299]}…"
