"""The promises of the pages: `promises.toml`, the tests that hold each, and what is generated from it.

``python -m tests.docs.promises`` writes the generated parts of the pages again:

    <!-- promises: GROUP -->   the title and the promises of a group, up to the next empty line
    <!-- list: NAME -->        a list of what the code decides, up to the next empty line

A name in such a list comes from the code; the words beside it come from the file. A name without
words and words without a name are errors, so a page cannot forget one.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from archytas_nb import skills
from archytas_nb.batch.program import judge_tool
from archytas_nb.cassettes.match import PATTERNS
from archytas_nb.cells.reader import cells_tool
from archytas_nb.choices import EffortName
from archytas_nb.copies.lock import LevelKind
from archytas_nb.errors import MissCause
from archytas_nb.kernel.approval import _OTHER_WORDS, CHOICES, read_answer
from archytas_nb.kernel.disclosure import compare_tool
from archytas_nb.kernel.look import look_tools
from archytas_nb.kernel.python import python_tool
from archytas_nb.loop.record import DataKind
from archytas_nb.prepare import ask_user_tool
from archytas_nb.tools import search

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).parent / "promises.toml"
_GROUP = re.compile(r"(?P<mark><!-- promises: (?P<name>[\w-]+) -->\n).*?(?=\n\n)", re.DOTALL)
_LIST = re.compile(r"(?P<mark><!-- list: (?P<name>[\w-]+) -->\n).*?(?=\n\n|\Z)", re.DOTALL)
_WIDTH = 120  # characters of a line of a page


@dataclass(frozen=True, slots=True)
class Promise:
    """A sentence of a page, and the tests that hold it.

    Attributes:
        id: Its name, unique in the file.
        page: The page that has the sentence, from the root of the repository.
        sentence: The sentence, or the part of one, in the words of the page.
        tests: The tests, as ``FILE::FUNCTION``.
        group: The generated paragraph that the sentence belongs to; None if it was written by hand.
        random: The tests among them that try to break it in generated ways.
    """

    id: str
    page: str
    sentence: str
    tests: tuple[str, ...]
    group: str | None = None
    random: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `promises.toml`.

    Attributes:
        promises: All promises in the order of the file.
        titles: The first words of each generated paragraph.
        words: The words beside the names of each list.
        leads: The line above a list, where the page itself may have none.
    """

    promises: tuple[Promise, ...]
    titles: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]]
    leads: Mapping[str, str]


def manifest() -> Manifest:
    """Read the file."""
    read: dict[str, Any] = tomllib.loads(FILE.read_text(encoding="utf-8"))
    promises = []
    for row in read["promise"]:
        for place, known in PLACES.items():
            row["sentence"] = row["sentence"].replace(place, known())
        tests = {name: tuple(row.get(name, ())) for name in ("tests", "random")}
        tests["tests"] = (*tests["random"], *tests["tests"])
        promises.append(Promise(**{**row, **tests}))
    return Manifest(tuple(promises), read["titles"], read["words"], read["leads"])


# ── what the code decides ─────────────────────────────────────────────────────────────────────────


def built_in_tools() -> tuple[str, ...]:
    """The names of the tools that the package offers by itself."""
    tools = (ask_user_tool(), *look_tools(), cells_tool(str), compare_tool(), python_tool("ask"))
    return (*(each.name for each in tools), skills.TOOL, search.TOOL, judge_tool().name)


def kinds_of_data() -> tuple[str, ...]:
    """The kinds of data of a notebook that a request can hold."""
    return get_args(DataKind)


def levels_of_copies() -> tuple[str, ...]:
    """How a copy of the kernel is held, by system."""
    return get_args(LevelKind)


def extras() -> tuple[str, ...]:
    """The extras of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(project["optional-dependencies"])


def causes() -> tuple[str, ...]:
    """The causes of a miss in a cassette."""
    return get_args(MissCause)


def running_answers() -> str:
    """The replies of a person that run a call, as code in a list."""
    typed = (*(each.line for each in CHOICES), *_OTHER_WORDS)
    return listed(each for each in typed if read_answer(each)[0] in RUNNING)


def listed(names: Iterable[str]) -> str:
    """Names as code in a sentence."""
    *first, last = (f"`{each}`" for each in names)
    return f"{', '.join(first)} and {last}"


PLACES: Mapping[str, Callable[[], str]] = {
    "{answers}": running_answers,
    "{efforts}": lambda: listed(each for each in get_args(EffortName) if each != "auto"),
    "{volatile}": lambda: listed(sorted(PATTERNS)),
}
"""What a sentence leaves open, and the code that knows it."""

RUNNING = ("yes", "this run", "always")
LISTS: Mapping[str, Callable[[], tuple[str, ...]]] = {
    "tools": built_in_tools,
    "data": kinds_of_data,
    "copies": levels_of_copies,
    "causes": causes,
    "extras": extras,
}
"""The lists, and the code that knows their names."""


# ── the pages ─────────────────────────────────────────────────────────────────────────────────────


def plain(text: str) -> str:
    """A text of a page in one line, without marks of Markdown and targets of links."""
    return " ".join(re.sub(r"\]\([^)]*\)|\*\*|\[", "", text).split())


def written(page: str, known: Manifest) -> str:
    """The text of a page with its generated parts as they should be.

    Raises:
        KeyError: A part has no title, or a name of a list has no words.
    """

    def paragraph(found: re.Match[str]) -> str:
        name = found["name"]
        sentences = [each.sentence for each in known.promises if each.group == name]
        bullets = (wrapped([f"- {each}"], "  ") for each in sentences)
        return found["mark"] + "\n".join((f"**{known.titles[name]}**", *bullets))

    def bullets(found: re.Match[str]) -> str:
        name = found["name"]
        words = known.words[name]
        lines = [f"- {_quoted(name, each)}: {words[each]}" for each in LISTS[name]()]
        leads = [known.leads[name]] if name in known.leads else []
        return found["mark"] + "\n".join(wrapped([line], "  ") for line in (*leads, *lines))

    return _LIST.sub(bullets, _GROUP.sub(paragraph, page))


def _quoted(name: str, each: str) -> str:
    return f"`{each}`" if name in ("tools", "extras", "causes") else each


def wrapped(sentences: Iterable[str], indent: str = "") -> str:
    """Sentences as one paragraph; the second line and those after it begin with ``indent``."""
    return textwrap.fill(
        " ".join(sentences),
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def pages(known: Manifest) -> Iterable[Path]:
    """The pages with promises or generated parts."""
    names = {each.page for each in known.promises} | {"docs/faq.md", "docs/how-to/install.md"}
    return (ROOT / each for each in sorted(names))


if __name__ == "__main__":
    read = manifest()
    for path in pages(read):
        path.write_text(written(path.read_text(encoding="utf-8"), read), encoding="utf-8")
