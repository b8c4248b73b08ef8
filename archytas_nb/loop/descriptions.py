"""The description of the notebook below a question, and the part that a model still knows later.

Each name of the notebook is described once, and again when it has changed. A description in a part
of the conversation that is no longer sent is repeated, below the question that is being asked when
that part is left out. Each description says when it was made, so it stays true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from archytas_nb.loop.record import Context, Described, Exchange
from archytas_nb.loop.tokens import text_tokens
from archytas_nb.words import runs

_EARLIER = "As it was when earlier questions were asked, which are left out:"
_NAMES = 3000  # tokens of the names of variables with one description
_DATE = "Date and versions: "
_LATER = "Imported since: "

_VERSIONS = re.compile(
    rf"^(?:{re.escape(_DATE)}\d{{4}}-\d\d-\d\d, |{re.escape(_LATER)}).*$", re.MULTILINE
)


def without_versions(text: str) -> str:
    """A text without the date and the versions of libraries, which differ between machines."""
    return _VERSIONS.sub("{versions}", text)


def described_in(exchanges: Iterable[Exchange]) -> dict[str, Described]:
    """The descriptions of each name in these questions: the last line, and the last card.

    A card from before a newer line no longer counts.
    """
    known: dict[str, Described] = {}
    for exchange in exchanges:
        if exchange.context is not None and exchange.context.is_offered:
            for name, each in exchange.context.described.items():
                before = known.get(name)
                is_same = before is not None and not each.card and before.mark == each.mark
                known[name] = replace(each, card=before.card) if before and is_same else each
    return known


def written(described: Mapping[str, Described]) -> str:
    """The text for the model about these names, those with cards in the order of the question."""
    return "\n".join([*_of_variables(described), *_of_notebook(described)])


def _of_variables(described: Mapping[str, Described]) -> Iterator[str]:
    """Cards of variables, then the others, together those with one description."""
    lines: dict[str, list[str]] = {}
    tables: dict[str, list[str]] = {}
    for name, each in described.items():
        if each.kind != "variable":
            continue
        if each.card:
            yield each.news or each.card
        elif each.columns:
            tables.setdefault(f"{each.line}: {each.columns}", []).append(name)
        else:
            lines.setdefault(each.line, []).append(name)
    yield from _grouped(tables)
    if lines:
        yield "; ".join(_grouped(lines))


def have_room(names: Iterable[str]) -> bool:
    """Whether a question can name this many variables, in whatever groups."""
    return text_tokens(", ".join(runs([*names]))) <= _NAMES // 2


def _grouped(groups: Mapping[str, list[str]]) -> list[str]:
    """Names with their shared description; of thousands, the older ones are only counted."""
    named = {line: runs(names) for line, names in groups.items()}
    tokens = sum(text_tokens(", ".join(names)) for names in named.values())
    found = []
    for line, names in named.items():
        kept = len(names)
        if tokens > _NAMES:
            kept = max(1, kept * _NAMES // tokens)
        older = f"… {len(names) - kept:,} older ones, " if kept < len(names) else ""
        found.append(f"{older}{', '.join(names[-kept:])}: {line}")
    return found


def _of_notebook(described: Mapping[str, Described]) -> Iterator[str]:
    """The names that are not variables: functions, imports, and names that are gone."""
    functions = [each.line for each in described.values() if each.kind == "function"]
    if functions:
        yield f"Functions of the notebook: {'; '.join(functions)}"
    libraries = [each.line for each in described.values() if each.kind == "library"]
    date = [each.line for each in described.values() if each.kind == "date"]
    if date:
        yield _DATE + ", ".join([*date, *libraries])
    elif libraries:
        yield _LATER + ", ".join(libraries)
    gone = [name for name, each in described.items() if each.kind == "gone"]
    if gone:
        yield f"No longer there: {', '.join(runs(gone))}"


def recalled(context: Context, left_out: Iterable[Exchange], sent: Iterable[Exchange]) -> Context:
    """The context of a question with what only the questions told that are left out.

    Args:
        context: The context of the question that is being asked.
        left_out: The questions that are no longer sent.
        sent: The questions that are still sent, without the one that is being asked.
    """
    before = described_in(sent)
    whole = {
        name: replace(each, news="")
        for name, each in context.described.items()
        if each.news and not (name in before and before[name].card)
    }
    if whole:  # what they add to is left out
        described = {**context.described, **whole}
        context = replace(context, described=described, text=written(described))
    known = {**before, **context.described}
    lost = {name: each for name, each in described_in(left_out).items() if name not in known}
    for name, each in lost.items():
        if each.card and name not in context.mentioned:
            lost[name] = replace(each, card="")
        else:
            lost[name] = replace(each, news="")
    if not lost:
        return context
    again = "\n".join([_EARLIER, *_of_variables(lost), *_of_notebook(lost)])
    text = f"{context.text}\n\n{again}" if context.text else again
    return replace(context, text=text, described={**lost, **context.described})
