"""The description of the notebook in a question: all names, and details where they are needed.

    named in the question       a card, unless that very card is in what is sent
    new or changed              one line; for a table also its columns, if there is room
    all others                  nothing: their names are in what is sent

"Sent" means all that the model reads with the question, so a part that a long conversation left out
is new again. Every name is given; many numbered names are written in a short form. Nothing depends
on time, apart from the date.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.choices import ContextName
from archytas_nb.kernel import definitions
from archytas_nb.kernel.cards import Card, card_of
from archytas_nb.kernel.mentions import owners_named, place_of
from archytas_nb.kernel.visible import variables_in
from archytas_nb.loop.descriptions import described_in, written
from archytas_nb.loop.record import CardForm, Context, Described, Exchange
from archytas_nb.loop.tokens import text_tokens
from archytas_nb.namespace import contained
from archytas_nb.tools.headline import MAX_NAME, headline
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.tables import table_of
from archytas_nb.words import runs, truncate_line

_CARDS = 3  # how many cards of full length there is room for; more are shorter
_SHORTEST_CARD = 60  # tokens
_COLUMN_TOKENS = 200  # of the columns of all tables that are new or changed
_MAX_COLUMNS = 8  # columns of a table that are named on its line
MORE = "…"
"""Stands for the columns that are not listed."""
_DATE = "(date)"


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of a context: a model, and the values that it may learn.

    Attributes:
        form: The form of cards.
        has_notebook: Whether it reads about functions, the date and versions.
        sees_all: Whether it reads about variables that the question does not name, if the settings
            leave this open.
        has_tools: Whether it has tools that do not read variables.
        hidden: The columns and variables to leave out unless the question names them, if only
            names, types and shapes may be shown; None if values may be shown.
        mask: Replaces the secrets in a text.
        tools: The functions that it knows as tools.
    """

    form: CardForm = CardForm()  # noqa: RUF009 - it is frozen
    has_notebook: bool = True
    sees_all: bool = True
    has_tools: bool = True
    hidden: Collection[str] | None = None
    mask: Callable[[str], str] = str
    tools: Sequence[Any] = ()


def context_of(
    kind: ContextName,
    namespace: Mapping[str, Any],
    question: str,
    sent: Sequence[Exchange] = (),
    earlier: Exchange | None = None,
    *,
    failed: str = "",
    reader: Reader = Reader(),
) -> Context | None:
    """The description for a question; None if the model must not look at variables.

    Args:
        kind: The kind of variables to describe.
        namespace: The variables.
        question: The question.
        sent: The exchanges before it that are sent with it.
        earlier: The exchange that this one replaces. If its question is the same, the same names
            are described again, whatever later cells have created since.
        failed: The cell that failed before the question: what it names counts as named, too.
        reader: The reader of the description.
    """
    if kind == "none":
        return None
    if kind == "auto" and not reader.sees_all:
        kind = "mentioned"
        is_required = not reader.has_tools or any(
            each.context is not None and each.context.is_offered for each in sent
        )
    else:
        is_required = True
    variables = dict(variables_in(namespace))
    mentioned = _mentioned(variables, f"{question}\n{failed}" if failed else question, reader)
    if not (mentioned or is_required):
        return None
    known = described_in(sent)
    columns: list[str] = []  # that are named
    described = _variables(kind, variables, mentioned, known, reader, columns)
    described |= _cards(variables, mentioned, known, question, reader, columns)
    if kind != "mentioned":
        described |= _definitions(namespace, known, reader)
        described |= _gone(namespace, known)
    if earlier is not None and earlier.context is not None and earlier.question == question:
        told = {*earlier.context.names, *earlier.context.described, *mentioned}
        described = {name: each for name, each in described.items() if name in told}
    described = _masked(described, reader)
    text = written(described)
    names = [name for name, each in described.items() if each.kind == "variable"]
    names = [*mentioned, *(name for name in names if name not in mentioned)]
    has_cards = any(each.card for each in described.values())
    return Context(
        text,
        tuple(names),
        described,
        tuple(mentioned),
        columns=tuple(columns),
        has_values=has_cards and reader.form.has_values and reader.hidden is None,
    )


# ── which ─────────────────────────────────────────────────────────────────────────────────────────


def _mentioned(variables: Mapping[str, Any], question: str, reader: Reader) -> list[str]:
    """The variables that a question names, by their names or by those of columns, in its order."""
    places = {name: place_of(name, question) for name in variables}
    places = {name: place for name, place in places.items() if place >= 0}
    tables: dict[str, Iterable[str]] = {}
    for name, value in variables.items():
        with contained():
            if (table := table_of(value)) is not None:
                tables[name] = list(map(str, table.names))
    by_columns = owners_named(tables, question, set(places), reader.hidden or ())
    for owner, place in list(by_columns):
        if owner not in (reader.hidden or ()):
            places.setdefault(owner, place)
    return sorted(places, key=places.__getitem__)


def _variables(
    kind: ContextName,
    variables: Mapping[str, Any],
    mentioned: Collection[str],
    known: Mapping[str, Described],
    reader: Reader,
    columns: list[str],
) -> dict[str, Described]:
    """The variables that get a line: all, or those that are new or have changed."""
    if kind == "mentioned":
        return {}
    found = {}
    room = _COLUMN_TOKENS
    for name, value in reversed([*variables.items()]):  # the newest are described best
        if name in mentioned or name in (reader.hidden or ()):
            continue
        line = headline(value, hidden=reader.hidden)
        mark = _mark(line, value)
        before = known.get(name)
        if kind != "all" and before is not None and before.mark == mark:
            continue
        names = listed_columns(value, reader.hidden) if room > 0 else []
        listed = ", ".join(names)
        room -= text_tokens(listed) if listed else 0
        if room < 0:
            names, listed = [], ""
        columns += [f"{name}.{each}" for each in names if each != MORE]
        found[name] = Described("variable", line, listed, mark=mark)
    return dict(reversed([*found.items()]))


def _mark(line: str, value: Any) -> str:
    """A text that differs if the line or the names of the columns differ."""
    names: Iterable[str] = ()
    with contained():
        if (table := table_of(value)) is not None:
            names = map(str, table.names)
    text = "\n".join([line, *names])
    return f"{zlib.crc32(text.encode('utf-8', 'replace')):x}"


def listed_columns(value: Any, hidden: Collection[str] | None = None) -> list[str]:
    """The names of the first columns of a table, as they are listed; empty for anything else."""
    with contained():
        if (table := table_of(value)) is None:
            return []
        pairs = zip(map(str, table.names), table.labels, strict=True)
        names = [
            f"column_{place}" if hidden is not None and name in hidden else label
            for place, (name, label) in enumerate(pairs, 1)
        ]
        shown = [truncate_line(each, MAX_NAME) for each in runs(names)]
        return [*shown[:_MAX_COLUMNS], *[MORE][: len(shown) - _MAX_COLUMNS]]
    return []


def _cards(
    variables: Mapping[str, Any],
    mentioned: Sequence[str],
    known: Mapping[str, Described],
    question: str,
    reader: Reader,
    columns: list[str],
) -> dict[str, Described]:
    """The cards that are not in what is sent; to the columns, those are added that they name."""

    def made(name: str, form: CardForm) -> Card:
        return card_of(name, variables[name], question, reader.hidden, form, reader.mask)

    def is_known(name: str, card: Card) -> bool:
        return name in known and known[name].card == reader.mask(card.text)

    cards = {name: made(name, reader.form) for name in mentioned}
    cards = {name: each for name, each in cards.items() if not is_known(name, each)}
    if len(cards) > _CARDS:
        tokens = max(reader.form.tokens * _CARDS // len(cards), _SHORTEST_CARD)
        cards = {name: made(name, replace(reader.form, tokens=tokens)) for name in cards}
        cards = {name: each for name, each in cards.items() if not is_known(name, each)}
    found = {}
    for name, card in cards.items():
        line = headline(variables[name], hidden=reader.hidden)
        mark = _mark(line, variables[name])
        before = known[name].card if reader.sees_all and name in known else ""
        news = _news(before, reader.mask(card.text))
        found[name] = Described("variable", line, card=card.text, mark=mark, news=news)
        columns += [f"{name}.{each}" for each in card.columns]
    return found


def _news(before: str, card: str) -> str:
    """The new lines of a card, if the model knows the others; empty to send the whole card."""
    known = before.split("\n")
    head, *lines = card.split("\n")
    new = [line for line in lines if line not in known]
    labels = {line.partition(": ")[0] for line in lines}
    is_there = {line.partition(": ")[0] for line in known[1:]} <= labels
    if not (before and new and is_there) or 2 * sum(map(len, new)) > sum(map(len, lines)):
        return ""
    return "\n".join([f"{head}; the rest is as it was described before", *new])


def _definitions(
    namespace: Mapping[str, Any], known: Mapping[str, Described], reader: Reader
) -> dict[str, Described]:
    """The functions, the libraries and the date that the model does not know yet."""
    if not reader.has_notebook:
        return {}
    has_values = reader.hidden is None
    hidden = reader.hidden or ()
    functions = definitions.functions_in(namespace, reader.tools, has_values=has_values)
    now = {
        name: Described("function", line, mark=line)
        for name, line in functions.items()
        if name not in hidden
    }
    for name, line in definitions.libraries_in(namespace).items():
        now[f"import {name}"] = Described("library", line, mark=line)
    if _DATE not in known:
        now[_DATE] = Described("date", definitions.today())
    return {
        name: each
        for name, each in now.items()
        if name not in known or known[name].mark != each.mark
    }


def _gone(namespace: Mapping[str, Any], known: Mapping[str, Described]) -> dict[str, Described]:
    """The described names that no longer exist."""
    return {
        name: Described("gone")
        for name, each in known.items()
        if each.kind in ("variable", "function") and name not in namespace and not is_secret(name)
    }


def _masked(described: dict[str, Described], reader: Reader) -> dict[str, Described]:
    """The description without secrets; usually there is none, which is quick to find out."""
    lines = [f"{each.line}\n{each.columns}\n{each.card}" for each in described.values()]
    text = "\n".join(lines)
    if reader.mask(text) == text:
        return described
    return {
        name: replace(
            each,
            line=reader.mask(each.line),
            columns=reader.mask(each.columns),
            card=reader.mask(each.card),
            news=reader.mask(each.news),
        )
        for name, each in described.items()
    }
