"""A line is options first, then the question, which is not touched; the Tab key offers what may follow."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic_arguments import MagicArgumentParser

import archytas_nb as nb
from archytas_nb.magics.line import arguments, keep_question_marks, split_options, words_of
from archytas_nb.models import choose
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Kernel
from tests.servers.server import Server

ROOT = Path(__file__).parents[2]
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
        ("--modle x hi", r"unknown option '--modle'; use --model\. "),
        ("--undo", r"unknown option '--undo'; use "),
        ("--key x hi", r"unknown option '--key'; use the setting, %config ArchytasNB\.api_key"),
        ("--xyz hi", r"unknown option '--xyz'; it has --new, --model, --until"),
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
        ("--aprove", r"unknown option '--aprove'; use --approve\. See %%tool --help"),
        ("all", "unknown argument 'all': %%tool takes none"),
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
        ("%time %agent why?", "get_ipython().run_line_magic('time', '%agent why?')\n"),
        (
            "x = %timeit -n1 -r1 %agent --new why?\n",
            "x = get_ipython().run_line_magic('timeit', '-n1 -r1 %agent --new why?')\n",
        ),
        *((line, line) for line in ("%agent?\n", "%agent ?\n", "%agent x\n", "%timeit f()?\n")),
        ("print('%agent why?')\n", "print('%agent why?')\n"),
    ):
        assert keep_question_marks([line]) == [kept]
    for lines in (["%%agent\n", "%agent why?\n"], ['s = """\n', "%agent why?\n", '"""\n']):
        assert keep_question_marks(lines) == lines


@given(st.text(st.sampled_from("ab ?\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), min_size=1))
def test_a_question_is_one_line_whatever_python_takes_for_the_end_of_one(text: str) -> None:
    question = f"why {text} x?"
    kept = keep_question_marks(f"y = 1\n%agent {question}\nz\n".splitlines(keepends=True))
    assert kept[0] == "y = 1\n"
    assert kept[1:] == [f"get_ipython().run_line_magic('agent', {question!r})\n", "z\n"]
    other = f"s = 1 #{text}\n%who {text}\n".splitlines(keepends=True)
    assert keep_question_marks(other) == other


@given(st.lists(st.text(st.sampled_from("a\\ b/:~$\u00e9"), min_size=1), max_size=4))
def test_words_keep_backslashes_and_quotes_keep_spaces(words: list[str]) -> None:
    assert words_of(" ".join(f'"{word}"' for word in words)) == words
    plain = [word.replace(" ", "") for word in words]
    assert words_of("  ".join(plain)) == [word for word in plain if word]


@pytest.mark.parametrize("line", ['"C:\\a', "it's"])
def test_a_quote_that_is_not_closed_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="quotation"):
        words_of(line)


WHY, KEPT_WHY = "%agent why?\n", "get_ipython().run_line_magic('agent', 'why?')\n"
COMPLETE_LINES = (
    r"""
# it's a comment with one triple quote: '\''
x = 1  # and one here: '\''
s = '\"\"\"'
s = "'\''"
s = '\\\'\"\"\"'
s = r"\d" + "\"\"\""
s = '\''a'\'' + '\''b " # '\''
s = "" + '\''  "" '\''
%agent what is '\''
!echo '\'' and it's
x = %env '\''
print('%agent why?')
s = 'broken
f"{d["a"]}"
""".replace(r"'\''", "'" * 3)
    .strip()
    .splitlines()
)


@pytest.mark.parametrize(
    "line", [*COMPLETE_LINES, "s = 'a\\\n# b'", 's = """\n it\'s \\""" #\n"""']
)
def test_a_question_below_any_complete_line_keeps_its_mark(line: str) -> None:
    lines = [*f"{line}\n".splitlines(keepends=True), WHY]
    assert keep_question_marks(lines) == [*lines[:-1], KEPT_WHY]


OPEN_LINES = ['s = """', "s = '''# ", 'f(1, """"a" b', 's = "" """\\"""', "s = 'a\\"]


@pytest.mark.parametrize("line", OPEN_LINES)
def test_a_line_inside_a_string_is_not_a_question(line: str) -> None:
    lines = [f"{line}\n", WHY]
    assert keep_question_marks(lines) == lines


@st.composite
def literals(draw: st.DrawFn) -> str:
    """A line, or several, of Python with one string or a comment."""
    text = draw(st.text(st.sampled_from("ab \"'#\\\n"), max_size=12))
    mark = draw(st.sampled_from(['"', "'", '"""', "'''", "#", "r'"]))
    if mark == "#":
        return f"x = 1 # {text}".replace("\n", " ")
    if mark == "r'":
        return "x = r'" + text.replace("\\", "").replace("'", "").replace("\n", "") + r"\d'"
    text = text.replace("\\", r"\\").replace(mark[0], rf"\{mark[0]}")
    return f"x = {mark}{text if len(mark) == 3 else text.replace(chr(10), '')}{mark}"


@given(st.lists(literals(), max_size=5))
def test_strings_and_comments_do_not_keep_a_later_question_from_being_read(
    parts: list[str],
) -> None:
    program = "".join(f"{part}\n" for part in parts)
    ast.parse(program)
    lines = program.splitlines(keepends=True)
    assert keep_question_marks([*lines, WHY]) == [*lines, KEPT_WHY]


def test_nbconvert_writes_questions_with_their_marks_into_a_script(tmp_path: Path) -> None:
    cells = ["%agent How many?", "rows = [1]\nrun = %agent --new {rows}?", "rows?", "%%agent\nWhy?"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    book.metadata["language_info"] = {"name": "python", "nbconvert_exporter": "python"}
    nbformat.write(book, tmp_path / "x.ipynb")
    subprocess.run(
        [sys.executable, "-m", "jupyter", "nbconvert", "--to", "script", str(tmp_path / "x.ipynb")],
        env={**os.environ, "JUPYTER_CONFIG_PATH": str(ROOT / "jupyter-config")},
        check=True, capture_output=True, timeout=100,
    )  # fmt: skip
    script = next(tmp_path.glob("x.*py")).read_text("utf-8")
    assert "get_ipython().run_line_magic('agent', 'How many?')" in script
    assert "run = get_ipython().run_line_magic('agent', '--new {rows}?')" in script
    assert "get_ipython().run_cell_magic('agent', '', 'Why?\\n')" in script
    assert "get_ipython().run_line_magic('pinfo', 'rows')" in script


# ── completion, through the completer of a real IPython ───────────────────────────────────────────


def count_birds() -> int:
    """Count."""
    return 1


def plot() -> int:
    """Plot."""
    return 1


class Bird:
    """A class of the notebook."""


@pytest.fixture
def busy(shell: InteractiveShell) -> InteractiveShell:
    nb.tool(count_birds)
    nb.tool(plot)
    shell.user_ns.update(penguins=[1], pens=2, Bird=Bird, script=ScriptedModel())
    return shell


def offered(shell: InteractiveShell, line: str) -> list[str]:
    """The completions at the end of a line."""
    with provisionalcompleter():
        return [each.text for each in shell.Completer.completions(line, len(line))]


WORDS: list[tuple[str, list[str]]] = [
    ("%agent --mo", ["--model", "--models"]),
    ("%agent --max-steps 3 --max-se", ["--max-seconds"]),
    ("%agent --approve ", ["ask", "auto", "deny"]),
    ("%agent --approve=d", ["deny"]),
    ("%agent --approve d", ["deny"]),
    ("%agent --tools ", ["count_birds", "plot"]),
    ("%agent --tools c", ["count_birds"]),
    ("%agent --tools count_birds,p", ["plot"]),
    ("%agent --allow=pl", ["plot"]),
    ("%agent --model lo", ["local"]),
    ("%agent --model sc", ["script"]),
    ("%agent --out pe", ["penguins", "pens"]),
    ("%agent --image pen", ["penguins", "pens"]),
    ("%agent --type list[s", ["list[str]"]),
    ("%agent --type Bi", ["Bird"]),
    ("%agent --until an", ["answer"]),
    ("%agent how many {pen", ["penguins", "pens"]),
    ("%agent --new how many {penguins.cou", ["penguins.count"]),
    ("x = %agent --ne", ["--new"]),
    ("    %agent --ne", ["--new"]),
    ("agent --ne", ["--new"]),
    ("%%agent --ne", ["--new"]),
    ("%tools c", ["count_birds"]),
    ("%tools --remove pl", ["plot"]),
    ("%%tool --ti", ["--timeout"]),
    ("%agent_cassette --mode re", ["replay", "record"]),
    ("%agent -m sc", ["script"]),
    ("%agent -t Bi", ["Bird"]),
    ("%agent_history --h", ["--help"]),
]


def test_what_may_stand_at_the_cursor_is_offered_and_nothing_else(busy: InteractiveShell) -> None:
    for line, words in WORDS:
        assert offered(busy, line) == words, line
    words = offered(busy, "%agent --new --")
    assert {"--model", "--tools", "--until", "--dry-run", "--image"} <= set(words)
    for line in ("%agent how many --ne", "%agent --bogus --ne", "%agent", "agents --ne"):
        assert {"--new", "--model"}.isdisjoint(offered(busy, line))


def test_a_variable_called_like_the_magic_is_a_variable(busy: InteractiveShell) -> None:
    busy.user_ns["agent"] = 3
    assert "--new" not in offered(busy, "agent --ne")


def test_an_object_that_refuses_to_say_what_it_has_harms_nothing(busy: InteractiveShell) -> None:
    class Broken:
        def __dir__(self) -> list[str]:
            raise RuntimeError

    busy.user_ns["broken"] = Broken()
    assert offered(busy, "%agent {broken.x") == []


def test_a_kernel_completes_a_line(kernel: Kernel) -> None:
    kernel.run("penguins, pens = [1], 2")

    def asked(code: str) -> tuple[str, list[str]]:
        reply = kernel.client.complete(code, len(code), reply=True, timeout=30)["content"]
        return code[reply["cursor_start"] : reply["cursor_end"]], reply["matches"]

    assert asked("%agent --mo") == ("--mo", ["--model", "--models"])
    assert asked("x = %agent --approve de") == ("de", ["deny"])
    assert asked("y = 1\n%agent --max-too") == ("--max-too", ["--max-tools"])
    word, offered = asked("%agent --max-s")
    assert (word, sorted(offered)) == ("--max-s", ["--max-seconds", "--max-steps"])


def test_the_models_of_the_endpoint_are_offered_and_an_endpoint_that_is_not_there_harms_nothing(
    busy: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "_LISTING_SECONDS", 10.0)  # a first import takes longer than 0.5 s
    with Server(models=("alpha", "qwen3:8b")) as server:
        busy.run_line_magic("config", f"ArchytasNB.base_url = {server.url!r}")
        assert {"alpha", "qwen3:8b", "local", "script"} <= set(offered(busy, "%agent --model "))
        assert offered(busy, "%agent --model qwen3:") == ["qwen3:8b"]
    busy.run_line_magic("config", "ArchytasNB.base_url = 'http://127.0.0.1:9/v1'")
    assert offered(busy, "%agent --model lo") == ["local"]
