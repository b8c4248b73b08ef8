"""The options of ``%agent``, and what their values mean in this notebook.

Each value is read before anything is asked, so that a bad one costs nothing. The help here is the
only one there is: ``%agent?``, ``%agent --help``, errors and the reference are made of it.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import typing
from argparse import ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, argument_group

from archytas_nb.errors import ToolError
from archytas_nb.magics.expand import LookupFault, look
from archytas_nb.magics.settings import APPROVALS, PROTOCOLS
from archytas_nb.tools.names import did_you_mean, visible

if TYPE_CHECKING:
    from archytas_nb.tools.toolbox import Toolbox

F = TypeVar("F", bound=Callable[..., Any])

REPORTS = ("history", "undo", "reset", "cost")
"""Options that ask nothing."""

_TYPING = ("Annotated", "Literal", "Optional", "Union")
"""Names that a type may use without an import."""


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """Parse a time above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


def _switch(name: str, text: str) -> Any:
    return argument(name, action="store_true", help=text)


def _valued(name: str, metavar: str, text: str, **more: Any) -> Any:
    return argument(name, metavar=metavar, help=text, **more)


def _one_of(name: str, words: tuple[str, ...], text: str) -> Any:
    return argument(name, choices=words, metavar="|".join(words), help=text)


_FLAGS = (
    argument("-h", "--help", action="store_true", help="Show this."),
    argument_group("for this question"),
    _valued(
        "--model", "NAME", "Ask this model, or that of a variable; 'local' is the embedded one."
    ),
    _valued("--tools", "NAME[,NAME]", "Offer these tools only; names or globs such as count_*."),
    _one_of(
        "--protocol",
        PROTOCOLS,
        "How the model is told of the tools: function calling (native) or text (react).",
    ),
    _valued("--max-steps", "N", "Maximum number of model replies.", type=count),
    _valued("--max-seconds", "S", "Maximum number of seconds.", type=seconds),
    _valued(
        "--max-total-tokens",
        "N",
        "Maximum number of tokens, input and output together.",
        type=count,
    ),
    _valued("--max-reply-tokens", "N", "Maximum number of tokens in one model reply.", type=count),
    _one_of(
        "--approve",
        APPROVALS,
        "What happens when a tool wants approval: ask you, run it, or refuse it.",
    ),
    _valued(
        "--allow",
        "NAME[,NAME]",
        "Run these tools without asking, also where nobody can be asked.",
    ),
    _valued(
        "--image",
        "NAME",
        "Show the model a picture: a variable (a figure, a picture, bytes) or a file. May be "
        "repeated.",
        action="append",
        default=[],
    ),
    _switch("--raw", "Send the question as it is written: {name} is not replaced."),
    argument_group("the answer"),
    _valued(
        "--out",
        "NAME",
        "Put the answer, or with --type the value, into this variable; without an answer the cell "
        "fails.",
    ),
    _valued(
        "--type",
        "EXPR",
        "The type that the answer must have, an expression such as int, list[str], a dataclass, a "
        "pydantic model or DataFrame (the model then names the variable that holds it).",
    ),
    _valued(
        "--until",
        "EXPR",
        "Makes the model retry until this expression is true; the answer is called answer.",
    ),
    argument(
        "--quiet",
        action=BooleanOptionalAction,
        default=None,
        help="Show no trace, only the answer.",
    ),
    argument_group("the conversation"),
    _switch("--new", "Begin a new conversation."),
    _switch("--dry-run", "Show what would be sent, and send nothing."),
    _switch("--history", "Show the questions and answers of this conversation."),
    _switch("--undo", "Forget the last question and its answer."),
    _switch("--reset", "Forget the whole conversation."),
    _switch(
        "--cost",
        "Show requests, tokens, seconds of the model and, where prices are known, USD, of the last "
        "question and of all, with those that were undone or replaced.",
    ),
)


def agent_flags(function: F) -> F:
    """Give a magic these options, in this order."""
    for flag in reversed(_FLAGS):
        flag(function)
    return function


def chosen_tools(patterns: Iterable[str], toolbox: Toolbox, flag: str = "--tools") -> list[str]:
    """The names of the tools that are meant.

    Args:
        patterns: Names or globs.
        toolbox: All tools of the notebook.
        flag: The option, for errors.

    Returns:
        Names of enabled tools, in the toolbox's order.

    Raises:
        UsageError: A name or a glob matches no enabled tool.
    """
    active = toolbox.active()
    meant: set[str] = set()
    for pattern in patterns:
        if set("*?[") & set(pattern):
            names = [name for name in active if fnmatchcase(name, pattern)]
        else:
            names = [active[pattern].name] if pattern in active else []
        if not names and pattern in toolbox:
            raise UsageError(
                f"{flag}: {pattern!r} is disabled; enable it with %tools --enable {pattern}"
            )
        if not names:
            guess = did_you_mean(pattern, active) or ";"
            there = ", ".join(active) or "none"
            raise UsageError(f"{flag}: no tool is named {pattern!r}{guess} there: {there}")
        meant.update(names)
    return [name for name in active if name in meant]


def picture(source: str, namespace: dict[str, Any]) -> str:
    """What ``--image`` names: a variable, with its attributes and items, or else a file.

    Returns:
        PNG or JPEG in base64.

    Raises:
        UsageError: There is no such variable and no such file, or it is not a picture.
    """
    from archytas_nb.tools.data import attached

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
        UsageError: It is not an expression, cannot be evaluated, or no answer can be of that type.
    """
    from archytas_nb.answers import Answers

    code = compile(_expression(source, "--type"), "<--type>", "eval", dont_inherit=True)
    words = {name: getattr(typing, name) for name in _TYPING if name in code.co_names}
    try:
        value = eval(code, words | namespace)  # noqa: S307 - an expression of the user's, like a cell
    except Exception as error:  # noqa: BLE001 - and so it may raise anything
        hint = ""
        if isinstance(error, NameError) and error.name:
            hint = did_you_mean(error.name, [*visible(namespace), *dir(builtins)])
        raise UsageError(f"--type {source!r} cannot be evaluated: {_brief(error)}{hint}") from None
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
        A function that says what is wrong with an answer; empty where the expression is true.

    Raises:
        UsageError: It is not an expression, or it uses a variable that does not exist now.
    """
    from archytas_nb.loop.protocol import as_text

    tree = _expression(source, "--until")
    known = {"answer", *namespace, *dir(builtins)}
    missing = [name for name in _free_names(tree) if name not in known]
    if missing:
        guess = did_you_mean(missing[0], ["answer", *visible(namespace)])
        raise UsageError(
            f"--until: no variable is named {missing[0]!r}{guess or '.'} (One that a tool will "
            "make must have a first value before.)"
        )
    code = compile(f"lambda answer: (\n{source}\n)", "<until>", "eval", dont_inherit=True)
    holds = eval(code, namespace)  # noqa: S307 - an expression of the user's, like a cell

    def check(answer: Any) -> str:
        try:
            held = bool(holds(as_text(answer) if of_text else answer))
        except Exception as error:  # noqa: BLE001 - a condition that cannot be evaluated is not met
            return f"This must be true of the answer: {source} – checking it raised {_brief(error)}"
        return "" if held else f"This must be true of the answer, and is not: {source}"

    return check


def variable(name: str) -> str:
    """Check the name that ``--out`` gives; raises UsageError."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"--out: {name!r} cannot be the name of a variable")
    return name


def _expression(source: str, flag: str) -> ast.Expression:
    try:
        return ast.parse(source.strip(), f"<{flag}>", "eval")
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", error)
        raise UsageError(f"{flag} {source!r} is not a Python expression: {reason}") from None


def _free_names(tree: ast.AST) -> list[str]:
    """Names that an expression reads and does not bind itself."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    read = dict.fromkeys(node.id for node in names if isinstance(node.ctx, ast.Load))
    return [name for name in read if name not in bound]


def _brief(error: BaseException) -> str:
    line = " ".join(f"{type(error).__name__}: {error}".split())
    return line if len(line) <= 300 else f"{line[:299]}…"
