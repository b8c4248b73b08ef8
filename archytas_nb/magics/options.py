"""The options of ``%agent``, and how their values are read and validated.

Values are validated before the model is asked, so that a mistake costs nothing. ``%agent?``,
``%agent --help`` and docs/reference.md are all generated from the help texts here.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import sys
import typing
from argparse import SUPPRESS, BooleanOptionalAction
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, argument_group
from traitlets import Bool

from archytas_nb.batch import STORE
from archytas_nb.errors import ConfigurationError, ToolError
from archytas_nb.magics.settings import SettingTraits, amount, integer, number, share
from archytas_nb.words import did_you_mean

if TYPE_CHECKING:
    from archytas_nb.tools.toolbox import Toolbox


def _overrides(name: str, metavar: str = "") -> Any:
    """An option that overrides the setting of the same name for one question."""
    trait: Any = SettingTraits.class_traits()[name.strip("-").replace("-", "_")]
    words = getattr(trait, "values", None)
    text = trait.help.replace("%", "%%")  # argparse formats it
    if isinstance(trait, Bool):
        return argument(name, action=BooleanOptionalAction, default=SUPPRESS, help=text)

    shown = metavar or "|".join(words or ())
    return argument(
        name, type=trait.read, metavar=shown, choices=words, default=SUPPRESS, help=text
    )


def _switch(name: str, text: str) -> Any:
    return argument(name, action="store_true", help=text)


def _value(metavar: str, text: str, *names: str, **more: Any) -> Any:
    return argument(*names, metavar=metavar, help=text, **more)


AGENT_FLAGS = (
    argument_group("for this question"),
    _value(
        "NAME",
        "Use this model, or the model in this variable; 'local' is the embedded model.",
        "-m",
        "--model",
    ),
    _switch("--models", "List the models that --model can name; nothing is asked."),
    _overrides("--instructions", "TEXT"),
    *(_overrides("--tools", "NAME[,NAME]"), _overrides("--max-tools", "N")),
    _overrides("--skills", "PLACE[,PLACE]"),
    *(_overrides("--max-steps", "N"), _overrides("--max-seconds", "S")),
    *(_overrides("--effort"), _overrides("--context"), _overrides("--values")),
    *(_overrides("--approve"), _overrides("--allow", "NAME[,NAME]"), _overrides("--python")),
    _overrides("--ask-before", "KIND[,KIND]"),
    _value(
        "NAME",
        "Attach an image: a variable (a figure, an image, bytes) or a file. Can be given more than "
        "once.",
        "--image",
        action="append",
        default=[],
    ),
    _switch(
        "--plan",
        "Have the model write a plan of at most ten steps, which you edit or approve before "
        "anything runs. The trace ticks the steps off and reports calls that differ from the plan.",
    ),
    _switch(
        "--background",
        "Give the cell back immediately: the run continues between other cells; see %%agent_runs. "
        "Without a notebook in which somebody looks on, the cell waits for it.",
    ),
    _switch("--raw", "Send the question as written; do not replace {name}."),
    argument_group("the answer"),
    _value(
        "NAME",
        "Assign the answer, or with --type its value, to this variable; if there is no answer, the "
        "cell fails.",
        "--out",
    ),
    _value(
        "EXPR",
        "The required type of the answer: an expression such as int, list[str], a dataclass, a "
        "pydantic model or DataFrame (the model then names a variable that contains it).",
        *("-t", "--type"),
    ),
    _value(
        "EXPR",
        "Make the model retry until this expression is true; it can use the variable answer, which "
        "is text unless --type is given. AssertionError, ValueError, LookupError and "
        "ArithmeticError mean that it is not true; any other exception ends the question.",
        "--until",
    ),
    _switch(
        "--cell",
        "Put the last block of Python code of the answer into a new cell below; it is not run.",
    ),
    _overrides("--quiet"),
    argument_group("the conversation"),
    _switch("--new", "Start a new conversation; without a question, delete this one."),
    _switch("--dry-run", "Show what would be sent, without sending it."),
)


FORK_FLAGS = (
    _value(
        "NAME", "Use this model for the branch, or the model in this variable.", "-m", "--model"
    ),
    _value("BRANCH", "Go to this branch of the last question.", "--to", type=integer),
)


MAP_FLAGS = (
    _value("EXPR", "The rows: a column, a data frame or a list.", "--on", required=True),
    _value("EXPR", "The required type of each answer; its fields become columns.", "-t", "--type"),
    _value("NAME", "Assign the resulting data frame to this variable.", "--out"),
    _value("NAME", "Use this model, or the model in this variable.", "-m", "--model"),
    _value(
        "N",
        "Maximum number of rows that the map asks about at the same time (8).",
        "--workers",
        type=integer,
        default=8,
    ),
    _value("COST", "Maximum cost: 3 (USD) or '500000 tokens'; by default unlimited.", "--budget"),
    _value("N", "Maximum requests per minute; by default unlimited.", "--rpm", type=number),
    _value(
        "PATH", f"The file in which the map stores results ({STORE}).", "--store", default=STORE
    ),
    argument(
        "--retry",
        action="store_true",
        help="Run rows with the status unknown again, without asking you: in another process that "
        "was lost, a tool that is not pure may have run for them.",
    ),
    *(_overrides("--tools", "NAME[,NAME]"), _overrides("--values"), _overrides("--max-steps", "N")),
    argument(
        "--plan",
        nargs="?",
        choices=("auto",),
        metavar="auto",
        const=True,
        default=False,
        help="Have the model write one program for all rows, and try it on a sample. The map asks "
        "the model about the other rows one by one. With --plan auto, it plans only if the prompt "
        "names a column and there are tools, and asks row by row if it cannot use the plan.",
    ),
    _value(
        "N",
        "Maximum number of rows in one request (1). With more, the map first asks about some rows "
        "one by one, to compare; if an answer differs, it asks about fewer together.",
        "--rows",
        type=integer,
        default=1,
    ),
    argument(
        "--when",
        choices=("now", "batch"),
        metavar="now|batch",
        default="now",
        help="When to send the rows. batch: through the batch API of the endpoint, at half the "
        "price; the answers come within a day. An interrupt cancels the batch; if the kernel ends, "
        "run the cell again.",
    ),
    _value(
        "N",
        "Number of rows that the map also asks about one by one, to compare, with --plan or "
        "--rows (10).",
        "--verify",
        type=amount,
        default=10,
    ),
    _value(
        "SHARE",
        "With --plan: the largest share of rows that the map asks about one by one without asking "
        "you first (0.2).",
        "--max-fallback",
        type=share,
        default=0.2,
    ),
)


def _evaluated(
    source: str, flag: str, namespace: dict[str, Any], read: Callable[[Any], Any], *known: str
) -> Any:
    """The value of an expression of the notebook, if ``read`` takes it; raises UsageError."""
    from archytas_nb.template import error_line
    from archytas_nb.tools.variables import user_names

    code = compile(_expression(source, flag), f"<{flag}>", "eval", dont_inherit=True)
    try:
        value = eval(code, namespace)  # noqa: S307 - an expression of the user's, like a cell
        read(value)
    except ToolError as error:
        raise UsageError(
            f"{flag} {source!r} cannot be the type of an answer: {'; '.join(error.faults)}"
        ) from None
    except Exception as error:  # noqa: BLE001 - and so it may raise anything
        hint = ""
        if isinstance(error, NameError):
            hint = did_you_mean(error.name or "", [*user_names(namespace), *known])
        raise UsageError(
            f"{flag} {source!r} cannot be evaluated: {error_line(error)}{hint}"
        ) from None
    return value


def rows_of(source: str, namespace: dict[str, Any]) -> Any:
    """The value of ``--on``, evaluated in the notebook; raises UsageError."""
    return _evaluated(source, "--on", namespace, lambda _: None, *dir(builtins))


def chosen_tools(patterns: Iterable[str], toolbox: Toolbox, flag: str = "--tools") -> list[str]:
    """`prepare.chosen_tools`; raises UsageError if a name or a glob matches no enabled tool."""
    from archytas_nb import prepare

    try:
        return prepare.chosen_tools(patterns, toolbox, flag)
    except ConfigurationError as error:
        raise UsageError(str(error)) from None


def picture(source: str, namespace: dict[str, Any]) -> str:
    """The image that ``--image`` names, as PNG or JPEG in base64: a variable or a file.

    Raises:
        UsageError: There is no such variable and no such file, or it is not an image.
    """
    from archytas_nb.template import LookupFault, look
    from archytas_nb.tools.data import encode_image

    try:
        value = look(source, namespace)
    except LookupFault as fault:
        value = Path(source).expanduser()
        if not value.is_file():
            raise UsageError(f"--image: there is no file {source!r}, and {fault}") from None
    try:
        return encode_image(value)
    except (ValueError, OSError) as error:
        raise UsageError(f"--image {source}: {' '.join(str(error).split())}") from None


def answer_type(source: str, namespace: dict[str, Any]) -> Any:
    """The type that ``--type`` names, evaluated in the notebook.

    Raises:
        UsageError: It is not an expression, cannot be evaluated, or is not a supported type.
    """
    from archytas_nb.answers import Answers

    words = {name: getattr(typing, name) for name in ("Annotated", "Literal", "Optional", "Union")}
    for library in ("polars", "pandas"):  # where it is loaded, its types need no import
        loaded = sys.modules.get(library)
        names = [name for name in ("Series", "DataFrame") if hasattr(loaded, name)]
        words |= {name: getattr(loaded, name) for name in names}

    def read(value: Any) -> None:
        if value is None:
            raise TypeError("expected a type, such as int or list[str]")
        Answers(value, None, namespace)

    types = ("bool", "dict", "float", "int", "list", "set", "str", "tuple")
    return _evaluated(source, "--type", words | namespace, read, *types)


def condition(source: str, namespace: dict[str, Any], *, of_text: bool) -> Callable[[Any], str]:
    """The condition of ``--until``, as a function that returns what is wrong with an answer.

    ``of_text``: whether the answer is text, not a value of the requested type.

    Raises:
        UsageError: It is not an expression, or it uses a variable that does not exist now.
    """
    from archytas_nb.answers import REJECTING
    from archytas_nb.loop.reading.reply import as_text
    from archytas_nb.syntax.bindings import Bindings
    from archytas_nb.template import error_line

    tree = _expression(source, "--until")
    known = {"answer", *namespace, *dir(builtins)}
    for name in sorted(Bindings(tree).read_first - known):
        from archytas_nb.tools.variables import user_names

        guess = did_you_mean(name, ["answer", *user_names(namespace)])
        raise UsageError(f"--until: no variable is named {name!r}{guess}")
    code = compile(f"lambda answer: (\n{source}\n)", "<until>", "eval", dont_inherit=True)
    holds = eval(code, namespace)  # noqa: S307 - an expression of the user's, like a cell

    def check(answer: Any) -> str:
        if of_text:
            answer = as_text(answer)
        try:
            value = holds(answer)
        except REJECTING as error:
            why = error_line(error)
            return f"This must be true of the answer: {source} – checking it raised {why}"
        if _is_true(value):
            return ""
        return f"This must be true of the answer, and is not: {source}"

    check.__name__ = f"--until {source}"  # for error messages
    check.__doc__ = f"this must be true of the answer: {source}"
    return check


def _is_true(value: Any) -> bool:
    """Whether the value of a condition is true; raises TypeError if that cannot be said of it."""
    try:
        return bool(value)
    except ValueError as error:  # of a data frame or an array: the answer is not what is wrong
        raise TypeError(str(error)) from None


def variable(name: str) -> str:
    """Check the name that ``--out`` gives; raises UsageError."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(
            f"--out: {name!r} is not a valid variable name; expected letters, digits and _, such "
            "as mean_mass"
        )
    return name


def _expression(source: str, flag: str) -> ast.Expression:
    try:
        return ast.parse(source.strip(), f"<{flag}>", "eval")
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", error)
        raise UsageError(f"{flag} {source!r} is not a Python expression: {reason}") from None
