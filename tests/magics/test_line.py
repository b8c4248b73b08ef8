"""A line is options first, then the question; nothing of the question is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from archytas_nb.magics.line import arguments, keep_question_marks, split_options

PARSER = MagicArgumentParser("agent", add_help=False)
PARSER.add_argument("--new", action="store_true")
PARSER.add_argument("-m", "--model", metavar="NAME")
PARSER.add_argument("--until", metavar="EXPR")


def split(line: str) -> tuple[list[str], str]:
    return split_options(line, PARSER)


@pytest.mark.parametrize(
    ("line", "options", "text"),
    [
        ("What's up?", [], "What's up?"),
        ("--model qwen3:8b --new  hi  there ", ["--model=qwen3:8b", "--new"], "hi  there"),
        ("-m x -m=y hi", ["--model=x", "--model=y"], "hi"),
        ("--model 'my model' hi", ["--model=my model"], "hi"),
        ('--until="a > 3" > 3?', ["--until=a > 3"], "> 3?"),
        ("--until dict[str, int] hi", ["--until=dict[str, int]"], "hi"),
        ("--until -1<answer hi", ["--until=-1<answer"], "hi"),
        ("--new -- how many --new", ["--new"], "how many --new"),
        ("-5 degrees - a--new b --newer -model", [], "-5 degrees - a--new b --newer -model"),
        ("", [], ""),
    ],
)
def test_leading_options_are_taken_off_the_question(
    line: str, options: list[str], text: str
) -> None:
    assert split(line) == (options, text)


def test_a_line_that_cannot_be_meant_is_refused() -> None:
    for line, said in (
        ("--modle x hi", r"unknown option '--modle', did you mean '--model'\?"),
        ("-x hi", "unknown option '-x'"),
        ("--model", "'--model' requires a value: NAME"),
        ("--new=3 hi", "'--new' does not take a value"),
        ("how many --new", "'--new' must come before the question"),
        ("how many -m x", "'-m' must come before"),
        ("--until len(answer) > 3 how many", "ends at 'len\\(answer\\)', before '>'"),
    ):
        with pytest.raises(UsageError, match=said):
            split(line)


def test_a_line_without_prose_names_what_it_does_not_know() -> None:
    parser = MagicArgumentParser("tool", add_help=False)
    parser.add_argument("--help", action="store_true")
    parser.add_argument("--approve", action="store_true")
    for line, said in (
        ("--aprove", r"unknown option '--aprove', did you mean '--approve'\? See %%tool --help"),
        ("all", "unknown argument 'all'. See"),
    ):
        with pytest.raises(UsageError, match=said):
            arguments(parser, line, "%%")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_left_as_it_is(text: str) -> None:
    assert split(f"--new -- {text}") == (["--new"], text.strip())
    if "-" not in text:
        assert split(text) == ([], text.strip())


def test_a_question_keeps_its_mark_and_help_stays_help() -> None:
    for line, kept in (
        ("%agent what is x?\n", "get_ipython().run_line_magic('agent', 'what is x?')\n"),
        ("  %agent --new why?", "  get_ipython().run_line_magic('agent', '--new why?')\n"),
        ("run = %agent why?\n", "run = get_ipython().run_line_magic('agent', 'why?')\n"),
        ("%agent_map why?", "get_ipython().run_line_magic('agent_map', 'why?')\n"),
        ("%time %agent why?", "%time get_ipython().run_line_magic('agent', 'why?')\n"),
        *((line, line) for line in ("%agent?\n", "%agent ?\n", "%agent x\n", "%timeit f()?\n")),
        ("print('%agent why?')\n", "print('%agent why?')\n"),
    ):
        assert keep_question_marks([line]) == [kept]
    for lines in (["%%agent\n", "%agent why?\n"], ['s = """\n', "%agent why?\n", '"""\n']):
        assert keep_question_marks(lines) == lines
