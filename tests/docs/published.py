"""Parts of the pages from `archytas_nb/models/published.py`: the table of defaults, and names.

``python -m tests.docs.published`` writes the generated part of `docs/endpoints.md` again: what follows
``<!-- published: defaults -->``, up to the next empty line.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

from archytas_nb.models.published import MODELS, PROVIDERS, Published, is_same

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "endpoints.md"
_MARK = re.compile(r"(?P<mark><!-- published: defaults -->\n).*?(?=\n\n)", re.DOTALL)


def table() -> str:
    """The prefixes, keys and addresses, and the models that answer if none is named."""
    lines = [
        "| prefix | key | address | default models, the first choice first |",
        "|---|---|---|---|",
    ]
    for prefix, provider in PROVIDERS.items():
        key = f"`{provider.key_name}`" if provider.key_name else "none"
        names = ", ".join(f"`{name}`" for name in provider.defaults) or "the first that it lists"
        lines.append(f"| `{prefix}:` | {key} | `{provider.base_url}` | {names} |")
    return "\n".join(lines)


def written(text: str) -> str:
    """The page with its generated part."""
    return _MARK.sub(lambda found: found["mark"] + table(), text)


# ── the names on a page ───────────────────────────────────────────────────────────────────────────


class Name(NamedTuple):
    """A model's name on a page; the prefix is None if the page does not say which endpoint has it."""

    line: int
    prefix: str | None
    name: str


def _of_clients() -> set[str]:
    """The names of models that the clients of providers know."""
    # Here, because each process of a run imports this module and one of them runs its tests.
    from anthropic.types import Model
    from openai.types import ChatModel

    return {*get_args(ChatModel), *(name for each in get_args(Model) for name in get_args(each))}


@functools.cache
def _ids() -> set[str]:
    """Those names, and the names of the package with prices, if it is installed."""
    ids = _of_clients()
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        pass
    else:
        ids |= {model.id for provider in get_snapshot().providers for model in provider.models}
    return {each for each in ids if re.search(r"[a-z]\W?\d|-latest", each)}


def _families() -> set[str]:
    """The words that names begin with: ``gpt``, ``claude``."""
    found = (
        re.match(r"[a-z]{3,}", each.rpartition("/")[2].lower())
        for each in _of_clients() | {x.name for x in MODELS}
    )
    return {each[0] for each in found if each}


@functools.cache
def _anywhere() -> re.Pattern[str]:
    """Matches a name by its form."""
    family = "|".join(sorted(_families(), key=len, reverse=True))
    return re.compile(
        rf"(?<![\w./-])(?:[\w-]+/)?(?:{family})(?:[-.][a-z]+)*[-.]?(?:\d[\w.:-]*|(?<=-)latest\b)",
        re.IGNORECASE,
    )


_TOKEN = re.compile(r"(?<![\w./:-])[a-z][\w./:-]*[a-z0-9]", re.IGNORECASE)
_PREFIXED = re.compile(rf"(?<![\w./:-])({'|'.join(PROVIDERS)}):([\w./:-]*\w)")
_SETTING = re.compile(
    r"(?:--models?[ =]|\bmodels?\s*=\s*\[?\s*[\"']|ARCHYTAS_NB_MODEL=|\b(?:Agent|\w+Model)\(\s*[\"'])([\w./:-]*\w)"
)
_IS_NAME = re.compile(r"[\d/-]")
"""What a name without a prefix has; other words in its place are variables and our own."""
_LIST = re.compile(r"\bmodels\s*=\s*\[([^\]]*)\]")


def names_in(text: str) -> Iterator[Name]:
    """The names of models in a text: in commands and settings, with a prefix, and anywhere by their form."""
    found = dict[tuple[int, str], str | None]()
    for number, line in enumerate(text.splitlines(), 1):
        for each in _PREFIXED.finditer(line):
            found[number, each[2]] = each[1]
        rest = _PREFIXED.sub("", line)
        listed = (
            x for each in _LIST.finditer(rest) for x in re.findall(r"[\"']([^\"']+)[\"']", each[1])
        )
        tokens = (each[0] for each in _TOKEN.finditer(rest))
        for name in (
            *(each[1] for each in _SETTING.finditer(rest)), *listed,
            *(each[0] for each in _anywhere().finditer(rest)), *(each for each in tokens if each in _ids()),
        ):  # fmt: skip
            found.setdefault((number, name.rstrip(".:-")), None)
    for (number, name), prefix in found.items():
        is_placeholder = name.rpartition(":")[2].isupper()
        if not is_placeholder and (prefix or _IS_NAME.search(name)):
            yield Name(number, prefix, name)


def known(name: str, prefix: str | None = None) -> list[Published]:
    """The published facts about a name on a page."""
    plain = re.sub(r"[.-]gguf$", "", name.lower())
    file = plain.rpartition("/")[2]
    found = []
    for each in MODELS:
        ours = each.name.lower()
        if (
            each.provider == "local"
        ):  # a file has a longer name, and a page may name only the family
            is_it = file.startswith(ours) or ours.startswith(f"{file}-")
        else:
            is_it = is_same(plain, ours) or is_same(ours, plain)
        if is_it and prefix in (None, each.provider):
            found.append(each)
    return found


def sources() -> dict[str, str]:
    """The texts that people read, and the code: each file with its text; of notebooks, what was written."""
    texts = {}
    patterns = (
        "*.md", "docs/**/*.md", "archytas_nb/**/*.py", "notebooks/*.ipynb", "benchmarks/**/*.md", "benchmarks/success/*.py",
        "pyproject.toml",
    )  # fmt: skip
    for path in sorted(each for pattern in patterns for each in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        if name in _APART:
            continue
        text = path.read_text("utf-8")
        if path.suffix == ".ipynb":
            cells: list[dict[str, Any]] = json.loads(text)["cells"]
            text = "\n".join("".join(cell["source"]) for cell in cells)
        texts[name] = text
    return texts


_APART = {
    "archytas_nb/models/published.py",  # the facts themselves
    "CHANGELOG.md",  # what was true
}

if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
