"""A line is options first, then prose; nothing of the prose is touched."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

from archytas_nb.magics.line import keep_question_marks, split_options

PARSER = argparse.ArgumentParser("agent", add_help=False)
PARSER.add_argument("--new", action="store_true")
PARSER.add_argument("--model", metavar="NAME")
PARSER.add_argument("--until", metavar="EXPR")
PARSER.add_argument("--kind", choices=["a", "b"])


def split(line: str) -> tuple[list[str], str]:
    return split_options(line, PARSER)


@pytest.mark.parametrize(
    ("line", "options", "text"),
    [
        ("What's up?", [], "What's up?"),
        ("--new What's up?", ["--new"], "What's up?"),
        ("--model qwen3:8b --new  hi  there ", ["--model=qwen3:8b", "--new"], "hi  there"),
        ("--model=x hi --new", ["--model=x"], "hi --new"),
        ("--model 'my model' hi", ["--model=my model"], "hi"),
        ('--until "len(answer) > 3" hi', ["--until=len(answer) > 3"], "hi"),
        ('--until="a > 3" hi', ["--until=a > 3"], "hi"),
        ("--until dict[str, int] hi", ["--until=dict[str, int]"], "hi"),
        ("--until f(')', 1) hi", ["--until=f(')', 1)"], "hi"),
        ("--until (a b", ["--until=(a"], "b"),
        ("--until 'x'in(answer, 2) hi", ["--until='x'in(answer, 2)"], "hi"),
        ("--until -1<answer hi", ["--until=-1<answer"], "hi"),
        ("-- --new is an option", [], "--new is an option"),
        ("--new -- --new", ["--new"], "--new"),
        ("-5 degrees", [], "-5 degrees"),
        ("- a list", [], "- a list"),
        ("--new", ["--new"], ""),
        ("", [], ""),
    ],
)
def test_leading_options_are_taken_off_the_text(line: str, options: list[str], text: str) -> None:
    assert split(line) == (options, text)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--modle x hi", r"unknown option '--modle', did you mean '--model'\?"),
        ("--zzzzz", "unknown option '--zzzzz'"),
        ("-x hi", "unknown option '-x'"),
        ("--model", "'--model' needs a value, NAME"),
        ("--kind ", "needs a value"),
        ("--new=3 hi", "'--new' takes no value"),
    ],
)
def test_what_cannot_be_meant_is_named(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        split(line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("how many --new", "'--new' comes after the question has begun"),
        ("--new how many --model=x?", "'--model' comes after"),
        (
            "--until len(answer) > 3 how many",
            "the value of '--until' ends at 'len\\(answer\\)', before '>'",
        ),
        ("--until answer == 3 how many", "put an expression with spaces into quotes"),
    ],
)
def test_an_option_that_would_silently_be_prose_is_refused(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        split_options(line, PARSER, prose=True)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-- how many --new", "how many --new"),
        ("a--new b --newer --x -model", "a--new b --newer --x -model"),
        ('--until "answer > 3" > 3?', "> 3?"),
        ("--model m > 3?", "> 3?"),
        ("--until answer>3 how many", "how many"),
    ],
)
def test_prose_that_only_looks_like_options_is_prose(line: str, text: str) -> None:
    assert split_options(line, PARSER, prose=True)[1] == text


@given(
    st.text(st.characters(exclude_categories=["Cs"])).filter(
        lambda text: not text.lstrip().startswith("-")
    )
)
def test_any_text_that_begins_with_no_dash_is_left_as_it_is(text: str) -> None:
    assert split(text) == ([], text.strip())


@given(st.text())
def test_any_text_behind_two_dashes_is_left_as_it_is(text: str) -> None:
    assert split(f"--new -- {text}") == (["--new"], text.strip())


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("%agent what is x?\n", "get_ipython().run_line_magic('agent', 'what is x?')\n"),
        ("  %agent --new why?", "  get_ipython().run_line_magic('agent', '--new why?')\n"),
        ("run = %agent why?\n", "run = get_ipython().run_line_magic('agent', 'why?')\n"),
        ("%time %agent why?", "%time get_ipython().run_line_magic('agent', 'why?')\n"),
        ("%agent?\n", "%agent?\n"),
        ("%agent ?\n", "%agent ?\n"),
        ("%agent what is x\n", "%agent what is x\n"),
        ("print('%agent why?')\n", "print('%agent why?')\n"),
        ("%timeit f()?\n", "%timeit f()?\n"),
    ],
)
def test_a_question_keeps_its_mark_and_help_stays_help(line: str, kept: str) -> None:
    assert keep_question_marks([line]) == [kept]


def test_a_cell_magic_and_a_string_are_left_alone() -> None:
    assert keep_question_marks(["%%agent\n", "%agent why?\n"]) == ["%%agent\n", "%agent why?\n"]
    lines = ['s = """\n', "%agent why?\n", '"""\n']
    assert keep_question_marks(lines) == lines
