"""Pages, messages, docstrings and comments use none of the words that CONTRIBUTING.md replaces."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [
    ROOT / "README.md",
    CONTRIBUTING,
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
MODULES = sorted((ROOT / "archytas_nb").rglob("*.py"))
_CODE = re.compile(r"^( *)```.*?^\1```|(`+)(?!`).+?(?<!`)\2(?!`)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Word:
    """A row of the table.

    Attributes:
        wrong: The regular expression of the word.
        write: What to write in its place.
        right: The regular expression of the uses that are right; None if there are none.
    """

    wrong: str
    write: str
    right: str | None

    def uses(self, prose: str) -> list[str]:
        """The uses of a text, each with some words around it."""
        right = [] if self.right is None else [*_compiled(self.right).finditer(prose)]
        return [
            prose[max(0, use.start() - 40) : use.end() + 40]
            for use in _compiled(self.wrong).finditer(prose)
            if not any(one.start() <= use.start() and use.end() <= one.end() for one in right)
        ]


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)


def words() -> Iterator[Word]:
    """The rows of the table of CONTRIBUTING.md, so that people and this test read the same."""
    section = CONTRIBUTING.read_text(encoding="utf-8").partition("\n## Words\n")[2]
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) == 5 and cells[1].startswith("`"):
            _, wrong, write, right, _ = cells
            yield Word(wrong.strip("`"), write, right.strip("`") or None)


def prose_of_page(text: str) -> str:
    """A page without code, on one line."""
    return " ".join(_CODE.sub("…", text).split())


def prose_of_module(source: str) -> str:
    """The strings and comments of a module, without code in backticks."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) for part in _parts(node)}
    texts = [
        "".join(each.value if _is_text(each) else "…" for each in _parts(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
    ]
    texts += [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and _is_text(node) and id(node) not in parts
    ]
    # One comment often continues on the next line.
    texts.append(
        " ".join(
            token.string.lstrip("#: ")
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        )
    )
    # A text without a space is a name or a key.
    return " … ".join(prose_of_page(text) for text in texts if " " in text.strip())


def _parts(node: ast.AST) -> list[ast.expr]:
    return node.values if isinstance(node, ast.JoinedStr) else []


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


WORDS = list(words())
PROSE = {
    **{str(page.relative_to(ROOT)): prose_of_page(page.read_text("utf-8")) for page in PAGES},
    **{str(file.relative_to(ROOT)): prose_of_module(file.read_text("utf-8")) for file in MODULES},
}


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.wrong)
def test_a_word_of_the_table_is_not_used(word: Word) -> None:
    found = [f"{name}: {use}" for name, prose in PROSE.items() for use in word.uses(prose)]
    assert found == [], f"write {word.write} in place of {word.wrong!r}"


@given(st.data())
def test_a_word_is_found_wherever_a_line_breaks(data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(WORDS))
    use = data.draw(st.from_regex(re.compile(word.wrong, re.ASCII), fullmatch=True))
    broken = data.draw(st.sampled_from(["\n# ", "\n    # "]))
    comment = f"# It {use}, here.".replace(" ", broken)[len(broken) - 1 :]
    sources = [
        f"x = 1\n{comment}",
        f'def f():\n    """Say it.\n\n    It {use.replace(" ", chr(10))} here.\n    """',
        f"raise ValueError(f'it {{x}} {use} {{y}}')",
        f"raise ValueError('it '\n'{use} there')",
    ]
    assert all(word.uses(prose_of_module(source)) for source in sources)
    assert word.uses(prose_of_page(f"It\n{use}\nthere."))
    # Code may have any names.
    assert not word.uses(prose_of_page(f"It is `{use}`.\n```\n{use}\n```\n"))


@given(st.data())
def test_a_right_use_is_not_refused(data: st.DataObject) -> None:
    word = data.draw(st.sampled_from([word for word in WORDS if word.right]))
    use = data.draw(st.from_regex(re.compile(word.right or "", re.ASCII), fullmatch=True))
    assert _compiled(word.wrong).search(use), f"{use!r} needs no exception"
    assert not word.uses(prose_of_page(f"It\n{use}\nthere."))


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.wrong)
def test_the_words_to_write_are_not_in_the_table_themselves(word: Word) -> None:
    assert word.write
    assert not any(each.uses(word.write) for each in WORDS)
