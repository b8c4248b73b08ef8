"""The options of ``%agent``: what may stand before a question, and what each means.

The help here is the only one there is: ``%agent?``, ``%agent --help``, errors and the reference are made of it.
"""

from __future__ import annotations

from argparse import ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable
from typing import Any, TypeVar

from IPython.core.magic_arguments import argument, argument_group

from archytas_nb.magics.settings import APPROVALS, PROTOCOLS

F = TypeVar("F", bound=Callable[..., Any])

REPORTS = ("history", "undo", "reset", "cost")
"""Options that ask nothing."""


def count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """Read a time above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


_FLAGS = (
    argument("-h", "--help", action="store_true", help="Show this."),
    argument_group("for this question"),
    argument(
        "--model",
        metavar="NAME",
        help="Ask this model, or that of a variable; 'local' is the embedded one.",
    ),
    argument(
        "--tools",
        metavar="NAME[,NAME]",
        help="Offer these tools only; names or globs such as count_*.",
    ),
    argument(
        "--protocol",
        choices=PROTOCOLS,
        metavar="|".join(PROTOCOLS),
        help="How tools are spoken of to the model.",
    ),
    argument("--max-steps", type=count, metavar="N", help="Most replies of the model."),
    argument("--max-seconds", type=seconds, metavar="S", help="Most seconds that it may take."),
    argument(
        "--max-total-tokens",
        type=count,
        metavar="N",
        help="Maximum number of tokens, input and output together.",
    ),
    argument(
        "--max-reply-tokens",
        type=count,
        metavar="N",
        help="Maximum number of tokens in one reply of the model.",
    ),
    argument("--max-tokens", type=count, metavar="N", help="The old name of --max-total-tokens."),
    argument(
        "--approve",
        choices=APPROVALS,
        metavar="|".join(APPROVALS),
        help="What happens when a tool wants approval: ask you, run it, or refuse it.",
    ),
    argument(
        "--allow",
        metavar="NAME[,NAME]",
        help="Run these tools without asking, also where nobody can be asked.",
    ),
    argument(
        "--image",
        metavar="NAME",
        action="append",
        default=[],
        help="Show the model a picture: a variable (a figure, a picture, bytes) or a file. May be repeated.",
    ),
    argument(
        "--raw",
        action="store_true",
        help="Send the question as it is written: {name} is not replaced.",
    ),
    argument_group("the answer"),
    argument(
        "--out",
        metavar="NAME",
        help="Put the answer, or with --type the value, into this variable; without one the cell fails.",
    ),
    argument(
        "--type",
        metavar="EXPR",
        help="The type that the answer must have, an expression such as int, list[str], a dataclass, a pydantic "
        "model or DataFrame (the model then names the variable that holds it).",
    ),
    argument(
        "--until",
        metavar="EXPR",
        help="An expression that must be true of the answer before it counts; the answer is called answer.",
    ),
    argument(
        "--quiet",
        action=BooleanOptionalAction,
        default=None,
        help="Show no trace, only the answer.",
    ),
    argument_group("the conversation"),
    argument("--new", action="store_true", help="Begin a new conversation."),
    argument("--dry-run", action="store_true", help="Show what would be sent, and send nothing."),
    argument(
        "--history",
        action="store_true",
        help="Show the questions and answers of this conversation.",
    ),
    argument("--undo", action="store_true", help="Forget the last question and its answer."),
    argument("--reset", action="store_true", help="Forget the whole conversation."),
    argument(
        "--cost",
        action="store_true",
        help="Show requests, tokens, seconds of the model and, where prices are known, USD, of the last "
        "question and of all; what was undone or replaced was paid all the same.",
    ),
)


def agent_flags(function: F) -> F:
    """Give a magic these options, in this order."""
    for flag in reversed(_FLAGS):
        flag(function)
    return function
