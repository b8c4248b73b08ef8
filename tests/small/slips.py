"""Random tables, programs that answer questions about them, and the slips of small models.

A case is a program whose answer is computed, with one or two slips in it.
"""

from __future__ import annotations

import ast
import io
import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from archytas_nb.copies.failures import plain

# ── tables ────────────────────────────────────────────────────────────────────────────────────────

_TABLES = ("ships", "orders", "df_2024", "Messwerte", "hikes")
_WORDS = {
    "number": ("Draught", "Länge", "net weight", "Σ mass", "size", "items", "Année"),
    "other": ("Beam", "Größe", "gross weight", "count", "speed", "height"),
    "kind": ("port", "Home Harbour", "Kategorie", "type", "Región"),
    "amount": ("Price", "Total Amount", "Betrag", "fee"),
    "date": ("built", "Order Date", "Datum", "day of arrival"),
}
_UNITS = ("", "", " (m)", "_kg", " [%]", ".1", " in cm", "-net")
_KINDS = (
    ("Kiel", "Husum", "Emden"),
    ("easy", "hard", "very hard"),
    ("North East", "South", "West"),
)


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table.

    Attributes:
        number: Numbers.
        other: Numbers, some missing.
        kind: A few texts, perhaps as a category.
        amount: Amounts of money that are text.
        date: Dates, perhaps as text.
        is_date: Whether the dates are no text.
        value: One of the texts of the kinds.
    """

    number: str
    other: str
    kind: str
    amount: str
    date: str
    is_date: bool
    value: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.number, self.other, self.kind, self.amount, self.date)


def _name(chance: random.Random, what: str) -> str:
    unit = chance.choice(_UNITS) if what in ("number", "other", "amount") else ""
    name = chance.choice(_WORDS[what]) + unit
    return chance.choice([name, name, name.upper(), name.title(), name.replace(" ", "_")])


def table(chance: random.Random) -> tuple[pd.DataFrame, Columns]:
    """A table of some ten rows, with odd names and odd values."""
    while True:
        names = {each: _name(chance, each) for each in _WORDS}
        if len({plain(each) for each in names.values()}) == len(names):
            break
    size = chance.randint(9, 14)
    kinds = list(chance.choice(_KINDS))
    numbers = [chance.randint(1, 900) / 4 for _ in range(size)]
    others = [chance.randint(1, 900) / 8 for _ in range(size)]
    for place in chance.sample(range(size), 2):
        others[place] = float("nan")
    amounts = [chance.randint(10, 400_000) / 100 for _ in range(size)]
    written = [f"{each:,.2f}" for each in amounts]
    if chance.random() < 0.5:
        written = [each.translate(str.maketrans(",.", ".,")) + " €" for each in written]
    else:
        written = [f"${each}" for each in written]
    days = pd.Series(pd.to_datetime("2023-01-20") + pd.to_timedelta(
        [chance.randint(0, 700) for _ in range(size - 1)] + [5], unit="D"
    ))  # fmt: skip
    form = chance.choice(["", "%Y-%m-%d", "%d.%m.%Y"])
    frame = pd.DataFrame(
        {
            names["number"]: numbers,
            names["kind"]: (kinds * size)[:size],
            names["amount"]: written,
            names["other"]: others,
            names["date"]: days.dt.strftime(form) if form else days,
        }
    )
    if chance.random() < 0.3:
        frame[names["kind"]] = frame[names["kind"]].astype("category")
    if chance.random() < 0.3:
        frame.index = pd.Index(chance.sample(range(100, 200), size))
    value = chance.choice(kinds)
    return frame, Columns(**names, is_date=not form, value=value)


# ── right programs ────────────────────────────────────────────────────────────────────────────────


def _read(t: str, c: Columns) -> str:
    """The statement that reads the amounts."""
    return (
        f"amounts = {t}[{c.amount!r}].str.replace('[€$ ]', '', regex=True)\n"
        "is_german = amounts.str[-3].eq(',').all()\n"
        "amounts = amounts.str.replace('.' if is_german else ',', '').str.replace(',', '.')"
        ".astype(float)"
    )


def _days(t: str, c: Columns) -> str:
    """The dates, read."""
    column = f"{t}[{c.date!r}]"
    return (
        column
        if c.is_date
        else f"pd.to_datetime({column}, dayfirst=not {column}.str[4].eq('-').all())"
    )


PROGRAMS: dict[str, Callable[[str, Columns], str]] = {
    "mean": lambda t, c: f"found = {t}[{c.number!r}].mean()\nanswer(f'{{found:.3f}}')",
    "count": lambda t, c: f"part = {t}[{t}[{c.kind!r}] == {c.value!r}]\nanswer(len(part))",
    "count inline": lambda t, c: f"answer(int(({t}[{c.kind!r}] == {c.value!r}).sum()))",
    "largest group": lambda t, c: (
        f"means = {t}.groupby({c.kind!r}, observed=True)[{c.number!r}].mean()\n"
        "answer(str(means.idxmax()))"
    ),
    "groups": lambda t, c: (
        f"sums = {t}.groupby({c.kind!r}, observed=True)[{c.number!r}].sum().sort_index()\n"
        "answer(', '.join(f'{key}: {each:.2f}' for key, each in sums.items()))"
    ),
    "means of all": lambda t, c: (
        f"means = {t}.mean(numeric_only=True)\nfound = means[{c.number!r}]\nanswer(f'{{found:.3f}}')"
    ),
    "means of groups": lambda t, c: (
        f"means = {t}.groupby({c.kind!r}, observed=True).mean(numeric_only=True)\n"
        f"found = means[{c.number!r}].max()\nanswer(f'{{found:.3f}}')"
    ),
    "missing": lambda t, c: f"found = {t}[{c.other!r}].isna().sum()\nanswer(int(found))",
    "filled": lambda t, c: f"found = {t}[{c.other!r}].ffill().bfill().sum()\nanswer(f'{{found:.3f}}')",
    "filled with the mean": lambda t, c: (
        f"{t}[{c.other!r}] = {t}[{c.other!r}].fillna({t}[{c.other!r}].mean())\n"
        f"found = {t}[{c.other!r}].std()\nanswer(f'{{found:.3f}}')"
    ),
    "dropped": lambda t, c: f"{t} = {t}.dropna()\nanswer(len({t}))",
    "replaced": lambda t, c: (
        f"{t}.loc[{t}[{c.number!r}] > 100, {c.number!r}] = 100\n"
        f"found = {t}[{c.number!r}].mean()\nanswer(f'{{found:.3f}}')"
    ),
    "first": lambda t, c: (
        f"ordered = {t}.sort_values({c.number!r}, ascending=False)\n"
        f"answer(str(ordered.iloc[0][{c.kind!r}]))"
    ),
    "last value": lambda t, c: f"found = {t}[{c.number!r}].iloc[-1]\nanswer(f'{{found:.3f}}')",
    "most common": lambda t, c: f"counts = {t}[{c.kind!r}].value_counts()\nanswer(int(counts.iloc[0]))",
    "row of the largest": lambda t, c: (
        f"place = {t}[{c.other!r}].idxmax()\nanswer(str({t}.loc[place, {c.kind!r}]))"
    ),
    "correlation": lambda t, c: (
        f"whole = {t}.dropna(subset=[{c.number!r}, {c.other!r}])\n"
        f"r, p = stats.pearsonr(whole[{c.number!r}], whole[{c.other!r}])\nanswer(f'r={{r:.3f}}')"
    ),
    "quantile": lambda t, c: (
        f"found = np.percentile({t}[{c.number!r}], 75)\nanswer(f'{{found:.3f}}')"
    ),
    "skewness": lambda t, c: f"found = stats.skew({t}[{c.number!r}])\nanswer(f'{{found:.3f}}')",
    "largest amount": lambda t, c: f"{_read(t, c)}\nfound = amounts.max()\nanswer(f'{{found:.2f}}')",
    "total amount": lambda t, c: f"{_read(t, c)}\nfound = amounts.sum()\nanswer(f'{{found:.2f}}')",
    "largest amount of a kind": lambda t, c: (
        f"{_read(t, c)}\nfound = amounts[{t}[{c.kind!r}] == {c.value!r}].max()\nanswer(f'{{found:.2f}}')"
    ),
    "largest total of a kind": lambda t, c: (
        f"{_read(t, c)}\nfound = amounts.groupby({t}[{c.kind!r}], observed=True).sum().max()\n"
        "answer(f'{found:.2f}')"
    ),
    "mean amount": lambda t, c: f"{_read(t, c)}\nfound = amounts.mean()\nanswer(f'{{found:.2f}}')",
    "dear ones": lambda t, c: f"{_read(t, c)}\nfound = (amounts > 1000).sum()\nanswer(int(found))",
    "kind of the dearest": lambda t, c: (
        f"{_read(t, c)}\nplace = amounts.idxmax()\nanswer(str({t}.loc[place, {c.kind!r}]))"
    ),
    "year": lambda t, c: f"found = ({_days(t, c)}.dt.year == 2023).sum()\nanswer(int(found))",
    "latest": lambda t, c: f"found = {_days(t, c)}.max()\nanswer(found.strftime('%Y-%m-%d'))",
    "span": lambda t, c: f"days = {_days(t, c)}\nanswer((days.max() - days.min()).days)",
    "months": lambda t, c: (
        f"{t}['month'] = {_days(t, c)}.dt.month\n"
        f"found = {t}.groupby('month')[{c.number!r}].sum().max()\nanswer(f'{{found:.3f}}')"
    ),
    "pivot": lambda t, c: (
        f"means = {t}.pivot_table(index={c.kind!r}, values={c.number!r}, aggfunc='mean', observed=True)\n"
        f"found = means[{c.number!r}].min()\nanswer(f'{{found:.3f}}')"
    ),
    "share": lambda t, c: (
        f"part = {t}[{t}[{c.kind!r}] == {c.value!r}]\n"
        f"share = len(part) / len({t}) * 100\nanswer(f'{{share:.2f}} %')"
    ),
    "levels": lambda t, c: (
        f"deep = {t}.groupby([{c.kind!r}, {_days(t, c)}.dt.year], observed=True)[{c.number!r}].sum()\n"
        f"found = deep.xs({c.value!r}, level={c.kind!r}).max()\nanswer(f'{{found:.3f}}')"
    ),
    "scaled": lambda t, c: (
        f"part = {t}[[{c.number!r}]]\nscaled = (part - part.min()) / (part.max() - part.min())\n"
        f"found = scaled[{c.number!r}].median()\nanswer(f'{{found:.3f}}')"
    ),
    "outliers": lambda t, c: (
        f"z = np.abs(stats.zscore({t}[{c.number!r}]))\nfound = {t}[z < 1]\nanswer(len(found))"
    ),
    "slope": lambda t, c: (
        f"whole = {t}.dropna(subset=[{c.other!r}])\n"
        f"slope = np.polyfit(whole[{c.number!r}], whole[{c.other!r}], 1)[0]\nanswer(f'{{slope:.4f}}')"
    ),
}  # fmt: skip
"""Programs over a table with its name and its columns, which answer without any help."""

# ── slips ─────────────────────────────────────────────────────────────────────────────────────────

Slip = Callable[[str, str, Columns, random.Random], Iterator[str]]
"""Gives programs with the slip, from a program, the name of its table and the columns."""


def _respelled(name: str) -> list[str]:
    bare = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    found = [
        name.lower(), name.upper(), name.title(), name.replace(" ", "_"), name.replace("_", " "),
        re.sub(r"[^\w ]", "", name), re.sub(r"\W+", "_", name).strip("_").lower(), f"{name} ",
        re.sub(r"[\W_]+", "", name.title()), bare, name.split("(", maxsplit=1)[0].strip(), f"{name}s",
        name.split(" ", maxsplit=1)[0], re.sub(r"[_ .\-]?(kg|net|1|in cm)$", "", name),
    ]  # fmt: skip
    return [each for each in dict.fromkeys(found) if each and each != name]


def column(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """A column in another spelling, everywhere or once."""
    for name in c.all:
        if repr(name) in program:
            wrong = repr(chance.choice(_respelled(name)))
            times = chance.choice([1, -1])
            yield program.replace(repr(name), wrong, times)


def value(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """A value in another spelling."""
    if f"== {c.value!r}" in program:
        wrong = chance.choice(
            [c.value.lower(), c.value.upper(), c.value.replace(" ", "_"), c.value + " "]
        )
        if wrong != c.value:
            yield program.replace(f"== {c.value!r}", f"== {wrong!r}")


def attribute(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """A column as an attribute."""
    for name in c.all:
        if f"{table}[{name!r}]" in program:
            written = re.sub(r"\W+", "_", name).strip("_")
            if written.isidentifier():
                yield program.replace(f"{table}[{name!r}]", f"{table}.{written}")


def frame(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """Another name for the table."""
    yield re.sub(rf"\b{table}\b", chance.choice(["df", "data", "table", "dataset"]), program)


def file(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """The table is read from a file."""
    name = chance.choice(["df", "data", table])
    reads = chance.choice([
        f"pd.read_csv('{table}.csv')", "pd.read_csv('data.csv')", f"pd.read_csv('/data/{table.lower()}.csv', sep=';')",
        f"pd.read_excel('{table}.xlsx')", f"pd.read_parquet('{table}.parquet')", f"pd.read_json(open('{table}.json'))",
    ])  # fmt: skip
    yield f"import pandas as pd\n{name} = {reads}\n" + re.sub(rf"\b{table}\b", name, program)


def library(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """A function without its library, or of another one."""
    swaps = {
        "np.percentile(": ["percentile(", "stats.percentile(", "pd.percentile("],
        "stats.pearsonr(": [
            "pearsonr(",
            "scipy.stats.pearsonr(",
            "np.pearsonr(",
            "scipy.pearsonr(",
        ],
        "stats.skew(": ["skew(", "np.skew(", "pd.skew("],
        "stats.zscore(": ["zscore(", "np.zscore("],
        "np.polyfit(": ["polyfit(", "stats.polyfit(", "numpy.polyfit("],
        "np.abs(": ["numpy.abs(", "math.fabs(", "stats.abs("],
        "pd.to_datetime(": ["to_datetime(", "pandas.to_datetime(", "datetime.to_datetime("],
    }
    for right, wrong in swaps.items():
        if right in program:
            yield program.replace(right, chance.choice(wrong))


def dropped(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """Methods and arguments that pandas no longer has."""
    swaps = {
        ".ffill().bfill()": [
            ".fillna(method='ffill').fillna(method='bfill')",
            ".fillna(method='pad').bfill()",
        ],
        "numeric_only=True": [""],
        ".items()": [".iteritems()"],
        ".iloc[0][": [".ix[0]["],
    }
    for right, wrong in swaps.items():
        if right in program:
            yield program.replace(right, chance.choice(wrong))


def position(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """Positions without ``iloc``."""
    if ".iloc[-1]" in program:
        yield program.replace(".iloc[-1]", "[-1]")
    if "counts.iloc[0]" in program:
        yield program.replace("counts.iloc[0]", "counts[0]")
    if ".iloc[0][" in program:
        yield program.replace(
            f"ordered.iloc[0][{c.kind!r}]", f"ordered[:, {c.kind!r}][0:1].iloc[0]"
        )


def conversion(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """Texts where numbers or dates are needed."""
    if "amounts = " in program:
        rest = program[program.rindex("astype(float)") + len("astype(float)") :]
        yield re.sub(r"\bamounts\b", f"{table}[{c.amount!r}]".replace("\\", r"\\"), rest).strip()
        yield f"amounts = {table}[{c.amount!r}].astype(float){rest}"
        yield f"amounts = pd.to_numeric({table}[{c.amount!r}]){rest}"
        yield f"amounts = {table}[{c.amount!r}].str.replace(' €', '').str.replace('$', '').astype(float){rest}"
    if "pd.to_datetime" in program:
        bare = program.replace(_days(table, c), f"{table}[{c.date!r}]")
        yield bare
        yield program.replace(_days(table, c), f"pd.to_datetime({table}[{c.date!r}])")
        yield program.replace(
            _days(table, c), f"pd.to_datetime({table}[{c.date!r}], format='%Y-%m-%d')"
        )


def missing(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """Missing values that nobody left out."""
    found = re.sub(rf"whole = {table}\.dropna\(.*\)\n", "", program)
    if found != program:
        yield found.replace("whole[", f"{table}[")


def in_place(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """``inplace`` where it has no effect, or where nothing comes back."""
    column = f"{table}[{c.other!r}]"
    if f"{column} = {column}.fillna(" in program:
        first, rest = program.split("\n", 1)
        filled = first.split(" = ", 1)[1]
        yield f"{filled[:-1]}, inplace=True)\n{rest}"
        yield f"{first[:-1]}, inplace=True)\n{rest}"
    if f"{table} = {table}.dropna()" in program:
        yield program.replace(".dropna()", ".dropna(inplace=True)")
    if "ordered = " in program:
        yield program.replace("ascending=False)", "ascending=False, inplace=True)")


def chained(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """An assignment to a part of a part."""
    where = f"{table}[{c.number!r}] > 100"
    if f"{table}.loc[{where}, {c.number!r}] = 100" in program:
        old = f"{table}.loc[{where}, {c.number!r}] = 100"
        yield program.replace(old, f"{table}[{where}][{c.number!r}] = 100")
        yield program.replace(old, f"{table}[{c.number!r}][{where}] = 100")


def not_given(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """The answer is printed, or the last expression, or comes from a function that nobody calls."""
    yield program.replace("answer(", "print(")
    lines = program.splitlines()
    given = lines[-1].removeprefix("answer(").removesuffix(")")
    yield "\n".join([*lines[:-1], given])
    inner = "\n".join(f"    {each}" for each in program.splitlines())
    yield f"def main():\n{inner}"
    yield f"def main():\n{inner}\n\nif __name__ == '__main__':\n    main()"
    inner = "\n".join(f"    {each}" for each in [*lines[:-1], f"return {given}"])
    yield f"def solve():\n{inner}\n\nanswer(solve())"


def uncalled(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """A method that nobody calls."""
    for each in (".mean()", ".sum()", ".max()", ".idxmax()", ".std()"):
        if f"{each}\n" in program or f"{each})" in program:
            yield program.replace(each, each[:-2])


def index(program: str, table: str, c: Columns, chance: random.Random) -> Iterator[str]:
    """The index of a table of groups, named as a column."""
    if "means = " in program:
        yield program.replace(
            "str(means.idxmax())",
            f"str(means.reset_index().sort_values({c.number!r})[{c.kind!r}].iloc[-1])",
        )
        yield program.replace(
            "str(means.idxmax())", f"str(means.sort_values()[{c.kind!r}].iloc[-1])"
        )
    if "sums = " in program:
        line = program.splitlines()[0]
        yield (
            f"{line}.to_frame()\nanswer(', '.join(f'{{a}}: {{b:.2f}}' for a, b in "
            f"zip(sums[{c.kind!r}], sums[{c.number!r}])))"
        )


SLIPS: dict[str, Slip] = {
    each.__name__: each
    for each in (
        column, value, attribute, frame, file, library, dropped, position, conversion, missing, in_place,
        chained, not_given, uncalled, index,
    )
}  # fmt: skip


# ── cases ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    """A program with slips.

    Attributes:
        kind: The name of the right program.
        slips: The names of the slips.
        tables: The tables, by name.
        right: The right program.
        program: The one with slips.
        expected: The right answer.
    """

    kind: str
    slips: tuple[str, ...]
    tables: Mapping[str, pd.DataFrame]
    right: str
    program: str
    expected: str


def case(chance: random.Random, slip: str = "") -> Case:
    """A program with one or two slips.

    Args:
        chance: What draws it.
        slip: The name of the first slip; empty for any.
    """
    first = slip or chance.choice(list(SLIPS))
    second = chance.choice([*SLIPS, *[""] * len(SLIPS)])
    while True:
        data, columns = table(chance)
        name = chance.choice(_TABLES)
        kind = chance.choice(list(PROGRAMS))
        right = program = PROGRAMS[kind](name, columns)
        made = []
        for each in dict.fromkeys([first, second]):
            found = list(SLIPS[each](program, name, columns, chance)) if each else []
            if found:
                program = chance.choice(found)
                made.append(each)
        if first in made and program != right:
            tables = {name: data}
            return Case(kind, tuple(made), tables, right, program, answer_of(right, tables))


def answer_of(program: str, tables: Mapping[str, Any]) -> str:
    """What a program answers where everything is imported."""
    given: list[Any] = []
    names = {"pd": pd, "np": np, "stats": stats, "answer": given.append, **deepcopy(dict(tables))}
    with redirect_stdout(io.StringIO()):
        exec(compile(ast.parse(program), "<right>", "exec"), names)
    return str(given[0])


def is_same(found: str, expected: str) -> bool:
    """Whether an answer says the same: the same texts, and numbers as far as they are written."""
    numbers = r"-?\d+\.?\d*(?:e-?\d+)?"
    if found.strip() == expected.strip():
        return True
    one, other = re.findall(numbers, found), re.findall(numbers, expected)
    if len(one) != len(other) or not one:
        return False
    words = [re.sub(r"\W+", "", re.sub(numbers, "", each)) for each in (found, expected)]
    close = all(abs(float(a) - float(b)) < 0.0051 for a, b in zip(one, other, strict=True))
    return close and (words[0] == words[1] or len(one) == 1)
