"""The line of a magic: its options, and the question exactly as it was typed.

Questions are prose with apostrophes, braces and question marks, so neither a shell's splitting nor
IPython's own expansion may touch them.
"""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from IPython import get_ipython
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.magic import line_magic, no_var_expand
from IPython.core.magic_arguments import MagicHelpFormatter, argument, magic_arguments

from archytas_nb.errors import ArchytasError, Explained

E = TypeVar("E", bound=BaseException)

HELP = argument("-h", "--help", action="store_true", help="Show this help.")

IN_RESERVE = {"agent_answer"}
"""Magics that are not offered: the extension names them where a person needs them."""

_OPTION = re.compile(r"\s*(--?[a-zA-Z][\w-]*)(=|\s+|$)")
_QUOTED = re.compile(r"(?:\"([^\"]*)\"|'([^']*)')(?=\s|$)")
_QUESTION = re.compile(
    r"^(?P<indent>\s*)(?P<target>[^\s%!?#'\"=][^%!?#'\"=]*=\s*)?"
    r"%(?:(?P<outer>\w+)\s+(?P<options>(?:-[^%]*)?))?"
    r"(?P<inner>%)?(?P<magic>agent|agent_map|agent_fix)\s+(?P<rest>[^\s?].*)$",
    re.DOTALL,
)
_MAGIC_LINE = re.compile(r"\s*(?:[^\s%!?#'\"=][^%!?#'\"=]*=\s*)?[%!?]")
_COMMENT_OR_QUOTE = re.compile(r"#|\"\"\"|'''|\"|'")
_LATE = re.compile(r"(?<!\S)--?[a-zA-Z][\w-]*(?=[\s=]|$)")
_OPERATOR = re.compile(r"\s*([<>=!]=|[<>*/%&|^+])")


def keep_question_marks(lines: list[str]) -> list[str]:
    """Keep IPython from taking ``%agent … ?`` for a request for help, as ``%agent?`` is.

    It is a cleanup transformer: each such line becomes the call that it stands for. So does a line
    inside of which IPython sees the ends of others, as Python does at U+2028 or a form feed.
    """
    if lines and lines[0].lstrip().startswith("%%"):
        return lines
    kept = []
    quote = ""
    for parts in _typed_lines(lines):
        line = "".join(parts)
        is_magic = not quote and _MAGIC_LINE.match(line)  # inside a string, a line is data
        call = _call_of(line.rstrip(), is_whole=len(parts) == 1) if is_magic else None
        if call is None:
            kept += parts
        else:
            kept.append(f"{call}\n")
        if not is_magic:  # the quotes of a magic are prose, or a shell's
            quote = _open_quote(line, quote)
    return kept


def _typed_lines(lines: list[str]) -> Iterator[list[str]]:
    """The lines of a cell as they were typed, each in the parts that Python takes for lines."""
    parts: list[str] = []
    for line in lines:
        parts.append(line)
        if line.endswith(("\n", "\r")):
            yield parts
            parts = []
    if parts:
        yield parts


def _call_of(line: str, *, is_whole: bool) -> str | None:
    """The call of a question that IPython would misread; None for any other line."""
    found = _QUESTION.match(line)
    if found is None or (found["outer"] is None) != (found["inner"] is None):
        return None
    if is_whole and not line.endswith("?"):
        return None
    magic, rest = found["magic"], found["rest"]
    if found["outer"] is not None:  # such as %timeit, which reads its line in the same way
        magic, rest = found["outer"], f"{found['options']}%{magic} {rest}"
    call = f"get_ipython().run_line_magic({magic!r}, {rest!r})"
    return f"{found['indent']}{found['target'] or ''}{call}"


def script_of(cell: str) -> str:
    """A cell as Python, for ``jupyter nbconvert --to script``, where no extension is loaded."""
    manager = TransformerManager()
    manager.cleanup_transforms.append(keep_question_marks)
    return manager.transform_cell(cell)


def _open_quote(line: str, quote: str) -> str:
    """The mark of the string that is open at the end of a line of Python; empty for none.

    Args:
        line: The line.
        quote: The mark of the string that is open at its beginning.
    """
    at = 0
    while True:
        if quote:
            end = re.compile(rf"(?:[^\\]|\\.)*?{quote}", re.DOTALL).match(line, at)
            if end is None:
                is_continued = len(quote) == 3 or line.rstrip("\n").endswith("\\")
                return quote if is_continued else ""
            at = end.end()
        found = _COMMENT_OR_QUOTE.search(line, at)
        if found is None or found[0] == "#":
            return ""
        quote = found[0]
        at = found.end()


class _Printed(MagicHelpFormatter):
    """IPython's help without its marks for documents, such as ``--plan <[auto]>``."""

    _format_action_invocation = HelpFormatter._format_action_invocation  # noqa: SLF001


def print_help(parser: ArgumentParser, sign: str = "%") -> None:
    """Print what ``--help`` prints: IPython's own form is made for documents."""
    parser.formatter_class = _Printed
    # Since Python 3.14, a parser colors its help, which here is read in a page.
    parser.color = False  # type: ignore[attr-defined, unused-ignore]
    help_text = parser.format_help().replace("::\n\n  %", f"usage: {sign}", 1).rstrip()
    if vars(parser).get("prose"):
        usage, rest = help_text.split("\n\n", 1)
        help_text = f"{usage} {parser.prose}\n\n{rest}"  # type: ignore[attr-defined]
    print("\n".join([*vars(parser).get("examples", ()), help_text]))  # noqa: T201


def arguments(parser: ArgumentParser, line: str, sign: str = "%") -> Any:
    """The arguments of a line without prose; None where help was asked for, which is printed."""
    try:
        args, unknown = parser.parse_known_args(words_of(line))
    except ValueError as error:
        raise UsageError(f"{sign}{parser.prog} {line}: {error}") from None
    if args.help:
        return print_help(parser, sign)
    if unknown:
        raise UsageError(_unknown(unknown[0], parser, sign))
    return args


def words_of(line: str) -> list[str]:
    """The words of a line; quotes keep spaces, and a backslash is a character as any other.

    Raises:
        ValueError: A quote is not closed.
    """
    words = shlex.shlex(line, posix=True, punctuation_chars=False)
    words.whitespace_split = True
    words.commenters = words.escape = ""
    return list(words)


def with_options(
    *options: Any, examples: Sequence[str] = (), prose: str = "", are_listed: bool = True
) -> Callable[[Any], Any]:
    """Give a magic these options, after ``--help``, in the order in which help lists them.

    Help begins with the examples. The parser is made by `parser_of` when it is first used, for a
    line or for ``%agent?``. Its usage ends with the prose that follows the options. Options that
    are not listed are those of another magic, which lists them.
    """

    def decorate(function: Any) -> Any:
        function.options = options
        function.are_listed = are_listed
        function.examples = [*examples, ""] if examples else []
        function.prose = prose
        function.getdoc = lambda: parser_of(function).format_help()  # IPython's help asks for it
        return function

    return decorate


def line_magic_with(*options: Any) -> Callable[[Any], Any]:
    """Make a method a line magic with these options and no prose.

    The method gets them parsed, and is not called where help was asked for.
    """

    def decorate(method: Any) -> Any:
        @wraps(method)
        def magic(self: Any, line: str) -> Any:
            __tracebackhide__ = True
            args = arguments(parser_of(magic), line)
            if args is None:
                return None
            try:
                return method(self, args)
            except ArchytasError as error:
                raise without_frames(error) from None

        made = line_magic(magic)
        if options:
            made = with_options(*options)(made)
        return no_var_expand(made)

    return decorate


def parser_of(magic: Any) -> ArgumentParser:
    """The parser of a magic, made once, when it is first used: each takes a millisecond."""
    function = getattr(magic, "__func__", magic)
    if not hasattr(function, "parser"):
        options = getattr(function, "options", ())
        function.summary = summary_of(function)  # IPython replaces the docstring
        for decorator in (*reversed(options), HELP, magic_arguments()):
            decorator(function)
        vars(function.parser)["examples"] = getattr(function, "examples", ())
        vars(function.parser)["prose"] = getattr(function, "prose", "")
        if not getattr(function, "are_listed", True):
            for action in options_of(function.parser).values():
                if action.dest != "help":
                    action.help = SUPPRESS
    parser: ArgumentParser = function.parser
    return parser


def summary_of(magic: Any) -> str:
    """The first line of the help of a magic."""
    function = getattr(magic, "__func__", magic)
    known = getattr(function, "summary", None)
    return known or (inspect.getdoc(function) or "").partition("\n")[0]


def _unknown(word: str, parser: ArgumentParser, sign: str = "%") -> str:
    """The message about a word that a magic does not know."""
    name = word.partition("=")[0]
    if not name.startswith("-"):
        takes = [each.dest for each in parser._actions if not each.option_strings]  # noqa: SLF001
        at_most = f"takes only {', '.join(takes)}" if takes else "takes none"
        return f"unknown argument {name!r}: {sign}{parser.prog} {at_most}; see --help"
    own = [each for each in options_of(parser) if each.startswith("--") and each != "--help"]
    found = _instead_of(name.lstrip("-").replace("-", "_"), own)
    meant = " or ".join(found) or f"it has {', '.join(own)}"
    return f"unknown option {name!r}; {meant}. See {sign}{parser.prog} --help for the options."


def _instead_of(name: str, own: Sequence[str]) -> list[str]:
    """The meanings of an unknown option: an option, a magic, a setting or an argument.

    Args:
        name: The name, with underscores.
        own: The options of the magic; none where a magic is unknown.
    """
    from archytas_nb.hints import WORDS, extended, remark, same_as
    from archytas_nb.settings import SETTINGS

    flags = {_plain(flag): flag for flag in own}
    of_shell = _of_shell()
    settings = {each: f"the setting, %config ArchytasNB.{each} = …" for each in SETTINGS}
    others = {**settings, **of_shell}
    # An option may have one of the names that other libraries have for something.
    groups = [[ours, *theirs.split()] for ours, theirs in WORDS.items()]
    called = [name, *(each for group in groups if name in group for each in group)]
    for means in (same_as, extended):
        options = [flags[each] for word in called for each in means(word, flags)]
        meant = [others[each] for known in (of_shell, settings) for each in means(name, known)]
        found = list(dict.fromkeys([*options[:1], *meant]))
        if found:
            return [f"use {each}" for each in found[: 1 if options else 2]]
    if not own:
        options = [each for word in called for each in same_as(word, of_shell)]
        return [f"use {of_shell[each]}" for each in options[:1]]
    remarked = remark(name, "Agent")
    return [remarked] if remarked else []


def instead_of_magic(name: str) -> str:
    """The possible meaning of a magic ``%agent_NAME`` that does not exist, in a sentence."""
    meant = " or ".join(_instead_of(name, [])) or "%agent alone lists all"
    return f"%agent_{name} is not a magic; {meant}."


def _of_shell() -> dict[str, str]:
    """The magics ``%agent_…`` and the options of all of ours, by their names."""
    shell = get_ipython()
    if shell is None:
        return {}
    known = shell.magics_manager.magics["line"]
    names = [each for each in known if each.startswith("agent_")]
    found: dict[str, str] = {}
    for each in ("agent", *names):
        for flag in options_of(parser_of(known[each])):
            if flag.startswith("--"):
                found.setdefault(_plain(flag), f"%{each} {flag}")
    return {**found, **{each.removeprefix("agent_"): f"%{each}" for each in names}}


def _plain(flag: str) -> str:
    return flag.strip("-").replace("-", "_")


def options_of(parser: ArgumentParser) -> dict[str, Action]:
    """The options of a parser by their names."""
    options: dict[str, Any] = parser._option_string_actions  # noqa: SLF001 - there is no public list
    return options


class Option(NamedTuple):
    """An option at the beginning of a line."""

    name: str
    sign: str  # what follows the name: "=", spaces or nothing
    action: Action | None  # None where the option is unknown
    begin: int  # where its value begins
    value: str
    end: int


def options_in(line: str, parser: ArgumentParser) -> Iterator[Option]:
    """The options that a line begins with; none after an unknown one.

    A value is one word, a text in quotes, or an expression: a space inside brackets does not end
    it. A value that may be left out is one of the option's choices.
    """
    known = options_of(parser)
    found = _OPTION.match(line)
    while found is not None:
        name, sign = found.groups()
        action = known.get(name)
        begin = found.end()
        value = ""
        end = begin
        if action is not None and action.nargs != 0:
            value, end = _value_at(line, begin)
            if action.nargs == "?" and sign != "=" and value not in (action.choices or ()):
                value = ""  # it is left out, and this is the next word
                end = begin
        yield Option(name, sign, action, begin, value, end)
        if action is None:
            return
        found = _OPTION.match(line, end)


def _value_at(line: str, at: int) -> tuple[str, int]:
    quoted = _QUOTED.match(line, at)
    if quoted is not None:
        return quoted[1] or quoted[2] or "", quoted.end()
    depth = 0
    end = at
    while end < len(line) and (depth > 0 or not line[end].isspace()):
        depth += (line[end] in "([{") - (line[end] in ")]}")
        end += 1
    return line[at:end], end


def split_options(line: str, parser: ArgumentParser) -> tuple[list[str], str]:
    """Split a line into its options, for ``parser.parse_args``, and the question as typed.

    After ``--`` the question may hold anything.

    Raises:
        UsageError: An option is unknown, comes after the question has begun or has no value, or
            its value ends where it cannot have been meant to.
    """
    at = 0
    options = []
    for name, sign, action, begin, value, end in options_in(line, parser):
        at = end
        if action is None:
            raise UsageError(
                f"{_unknown(name, parser)} "
                "(If the question itself starts like this, put -- before it.)"
            )
        if action.nargs == 0:
            if sign == "=":
                raise UsageError(f"the option {name!r} does not take a value: write it alone")
            options.append(name)
            continue
        if not value and action.nargs == "?" and sign != "=":
            options.append(name)
            continue
        if not value:
            raise UsageError(
                f"the option {name!r} requires a value: {action.metavar}. {help_of(action)}"
            )
        # `--until answer > 3` would end at `answer`, and ask "> 3".
        goes_on = _OPERATOR.match(line, at)
        if goes_on is not None and action.metavar == "EXPR" and line[begin] not in "\"'":
            raise UsageError(
                f"the value of {name!r} ends at {value!r}, before {goes_on[1]!r}: put "
                "quotes around an expression that contains spaces"
            )
        options.append(f"{action.option_strings[-1]}={value}")
    ended = re.match(r"\s*--(?=\s|$)", line[at:])
    if ended is not None:
        return options, line[at + ended.end() :].strip()
    text = line[at:].strip()
    late = [name for name in _LATE.findall(text) if name in options_of(parser)]
    if late:
        raise UsageError(
            f"{late[0]!r} must come before the question: everything after its first word is part "
            "of it. (If the question really contains this, put -- before it.)"
        )
    return options, text


def help_of(action: Action) -> str:
    """The help of an option, as argparse formats it."""
    return (action.help or "") % vars(action)


def without_frames(error: E, *, is_shown: bool = False) -> E:
    """Have IPython show one of our exceptions as its name and message, without our frames.

    It stays a real exception, which a test runner, a later cell and ``except`` see as what it is;
    a `UsageError` would leave nothing in the notebook but a line on stderr. If the output above it
    explains it (`is_shown`), it is one short line.
    """
    said = str(error)
    explained = getattr(error, "explained", None)
    if is_shown and isinstance(explained, Explained):
        said = f"{explained.title[:1].lower()}{explained.title[1:]} (see above)"
    text = f"\x1b[31m{type(error).__name__}\x1b[39m: {said}"
    lines = [text]
    if isinstance(error, KeyboardInterrupt) and sys.stdout.isatty():
        lines.insert(0, "")  # a terminal has written ^C in this line already
    error._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
    return error
