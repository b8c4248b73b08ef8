"""Each cure has an example that fails without it, with the libraries that are installed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.copies import libraries
from archytas_nb.copies.cure import Cure
from archytas_nb.copies.cures import cure_of
from archytas_nb.copies.examine import examined
from archytas_nb.copies.failures import Failure, plain
from archytas_nb.copies.hints import hints
from archytas_nb.copies.silent import cure_before


def ships() -> dict[str, Any]:
    """The variables of a notebook."""
    ports = pd.MultiIndex.from_tuples(
        [("Kiel", 2023), ("Kiel", 2024), ("Husum", 2023)], names=["port", "year"]
    )
    return {
        "pd": pd,
        "voyages": pd.DataFrame({"days": [3, 4, 5]}, index=ports),
        "fleet": pd.DataFrame(
            {
                "Ship Name": ["Ida", "Uwe", "Ole", "Ada"],
                "Draught (m)": [2.0, None, 4.0, 6.0],
                "port": ["Kiel", "Husum", "Kiel", "kiel"],
                "cargo": ["1.000,50 €", "2.000 €", None, None],
                "berth": ["berth", "5", "4", None],
                "built": ["1998-03-01", "2001-12-24", None, "1987-05-05"],
                "docked": ["02.01.2024", "17.02.2024", "03.02.2024", "24.12.2023"],
                "either": ["02.01.2024", "03.02.2024", "03.02.2024", "04.12.2023"],
            }
        ),
        "crews": pd.DataFrame({"Crews": ["Ship", "Ida", "Uwe"], "Unnamed: 1": ["Hands", "3", "4"]}),
    }


@dataclass(frozen=True)
class Example:
    """A statement that fails, and what it gives when it is cured."""

    name: str
    statement: str
    value: Callable[[dict[str, Any]], Any]
    expected: Any
    program: str = ""


EXAMPLES = [
    Example("case", "found = fleet['Port'].nunique()", lambda it: it["found"], 3),
    Example("signs", "found = fleet['draught_m'].max()", lambda it: it["found"], 6.0),
    Example("attribute", "found = fleet.ship_name.iloc[0]", lambda it: it["found"], "Ida"),
    Example(
        "list", "found = list(fleet[['ship name', 'PORT']])", lambda it: it["found"],
        ["Ship Name", "port"],
    ),
    Example(
        "by", "found = fleet.groupby('Port')['draught m'].sum()['Kiel']",
        lambda it: it["found"], 6.0,
    ),
    Example(
        "sorted", "found = fleet.sort_values('draught').iloc[-1, 0]" .replace("draught", "draught (m)"),
        lambda it: it["found"], "Uwe",
    ),
    Example(
        "dropped", "found = len(fleet.dropna(subset=['draught (M)']))", lambda it: it["found"], 3
    ),
    Example(
        "table", "found = data['port'].iloc[0]", lambda it: it["found"], "Kiel",
        "found = data['port'].iloc[0]\nmore = data['Ship Name']",
    ),
    Example(
        "file", "ships = pd.read_csv('ships-of-the-north.csv')", lambda it: len(it["ships"]), 4
    ),
    Example(
        "array", "import numpy as np\nz = np.array([-2.0, 1.0, -5.0, 0.0])\nfound = len(fleet[z.abs() > 1])",
        lambda it: it["found"], 2,
    ),
    Example(
        "parts", "from scipy import stats\ntest, p = stats.chi2_contingency([[9, 1], [1, 9]])",
        lambda it: bool(it["p"] < 0.01), True,
    ),
    Example("import", "found = Timedelta('36h').days", lambda it: it["found"], 1),
    Example("module", "found = statistics.median([1, 2, 9])", lambda it: it["found"], 2),
    Example("alias", "found = float(np.median([1, 2, 9]))", lambda it: it["found"], 2.0),
    Example(
        "fill", "found = fleet['Draught (m)'].fillna(method='ffill').sum()",
        lambda it: it["found"], 14.0,
    ),
    Example(
        "numbers", "found = fleet.mean()['Draught (m)']", lambda it: it["found"], 4.0
    ),
    Example(
        "loop", "found = {each: fleet[each].abs().max() for each in fleet.columns}",
        lambda it: it["found"], {"Draught (m)": 6.0},
    ),
    Example(
        "any error",
        "found = []\nfor each in fleet.columns:\n"
        "    if fleet[each].dtype.kind == 'O':\n        raise RuntimeError(each)\n"
        "    found.append(each)",
        lambda it: it["found"], ["Draught (m)"],
    ),
    Example(
        "groups", "found = fleet.groupby('port').median().loc['Husum'].isna().sum()",
        lambda it: it["found"], 1,
    ),
    Example(
        "one column",
        "from sklearn.preprocessing import MinMaxScaler\n"
        "scaler = MinMaxScaler()\nfound = scaler.fit_transform(fleet['Draught (m)'].dropna()).shape",
        lambda it: it["found"], (3, 1),
    ),
    Example(
        "scaled",
        "import numpy as np\nscaled = np.asarray(fleet[['Draught (m)']])\nfound = scaled['Draught (m)'].max()",
        lambda it: it["found"], 6.0,
        "scaled = np.asarray(fleet[['Draught (m)']])\nfound = scaled['Draught (m)'].max()",
    ),
    Example(
        "text in a table",
        "from sklearn.preprocessing import StandardScaler\n"
        "found = StandardScaler().fit_transform(fleet.iloc[:, :3].dropna()).shape",
        lambda it: it["found"], (3, 1),
    ),
    Example(
        "numbers as text", "found = fleet['cargo'].mean()", lambda it: it["found"], 1500.25
    ),
    Example(
        "compared with text", "found = len(fleet[fleet['cargo'] > 1000.0])",
        lambda it: it["found"], 2,
    ),
    Example(
        "half converted", "fleet['net'] = fleet['cargo'].str.replace(' €', '').astype(float)",
        lambda it: it["fleet"]["net"].sum(), 3000.5,
    ),
    Example(
        "header in a column",
        "found = fleet[fleet['berth'].notna()].astype({'berth': int})['berth'].sum()",
        lambda it: it["found"], 9,
    ),
    Example(
        "level", "found = voyages[voyages['port'] == 'Kiel']['days'].sum()",
        lambda it: it["found"], 7,
    ),
    Example(
        "levels", "found = len(voyages[['port', 'year']].drop_duplicates())",
        lambda it: it["found"], 3,
    ),
    Example(
        "dates", "found = fleet['built'].dt.year.max()", lambda it: it["found"], 2001
    ),
    Example(
        "day first", "found = pd.to_datetime(fleet['docked']).dt.month.tolist()",
        lambda it: it["found"], [1, 2, 2, 12],
    ),
    Example(
        "day first in text", "found = fleet['docked'].dt.month.tolist()",
        lambda it: it["found"], [1, 2, 2, 12],
    ),
    Example(
        "first row", "found = crews['Hands'].iloc[1:].astype(int).sum()", lambda it: it["found"], 7
    ),
    Example(
        "a column that the rows lack",
        "deep = fleet[['Draught (m)']].iloc[[1, 3]]\n"
        "found = sorted(deep[['Draught (m)', 'port']]['port'])",
        lambda it: it["found"], ["Husum", "kiel"],
    ),
    Example(
        "rounded", "found = (len(fleet) / 3).round(2)", lambda it: float(it["found"]), 1.33
    ),
    Example(
        "rounded twice", "found = [(4 / 3).round(1), fleet['Draught (m)'].sum().round(1)]",
        lambda it: [float(each) for each in it["found"]], [1.3, 12.0],
    ),
    Example("as a type", "found = int((7 / 2).astype(int))", lambda it: it["found"], 3),
    Example("positions", "found = fleet[:, 0][0]", lambda it: it["found"], "Ida"),
    Example("labels", "found = fleet[:, 'port'].nunique()", lambda it: it["found"], 3),
    Example(
        "one more dimension", "found = fleet['Draught (m)'][:, None].shape",
        lambda it: it["found"], (4, 1),
    ),
    Example(
        "one value", "deep = fleet[fleet['port'] == 'Husum'].index\nfound = f'{deep:.1f}'",
        lambda it: it["found"], "1.0",
    ),
    Example("methods", "found = data.dropna().shape", lambda it: it["found"], (1, 8)),
    Example(
        "engine", "table = pd.read_parquet('nowhere.parquet')", lambda it: len(it["table"]), 4
    ),
    Example(
        "package", "found = float(scipy.stats.zscore([1, 2, 3])[1])", lambda it: it["found"], 0.0
    ),
    Example("sibling", "found = float(pd.percentile([1, 2, 9], 50))", lambda it: it["found"], 2.0),
    Example(
        "hidden", "fleet['size'] = 2\nfound = fleet.size.mean()", lambda it: it["found"], 2.0
    ),
    Example(
        "hidden method", "fleet['rank'] = 2\nfound = fleet.rank.mean()", lambda it: it["found"], 2.0
    ),
    Example(
        "not called", "found = int(fleet['Draught (m)'].sum)", lambda it: it["found"], 12
    ),
    Example("from the end", "found = fleet['port'][-1]", lambda it: it["found"], "kiel"),
    Example(
        "position", "found = int(fleet['port'].value_counts()[0])", lambda it: it["found"], 2
    ),
    Example(
        "days between", "found = (fleet['built'].max() - fleet['built'].min()).days",
        lambda it: it["found"], 5347,
    ),
    Example(
        "level of a column",
        "found = fleet.groupby('port')['Draught (m)'].sum()['port'].tolist()",
        lambda it: it["found"], ["Husum", "Kiel", "kiel"],
    ),
    Example(
        "back", "found = fleet['Draught (m)'].fillna(method='backfill').sum()",
        lambda it: it["found"], 16.0,
    ),
]  # fmt: skip


def failure_of(statement: str, variables: dict[str, Any], program: str = "") -> Failure:
    """How a statement fails; AssertionError if it does not."""
    try:
        exec(statement, variables)
    except Exception as error:
        tree = ast.parse(program or statement)
        return Failure(error, ast.parse(statement).body[-1], tree, variables, ("fleet",))
    raise AssertionError(f"{statement!r} needs no cure any more")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.name)
def test_a_cure_is_needed_and_gives_the_value_that_was_meant(example: Example) -> None:
    for library in ("scipy", "sklearn"):
        if library in example.statement:
            pytest.importorskip(library)
    variables = ships()
    cure = cure_of(failure_of(example.statement, variables, example.program))
    assert cure is not None
    exec(cure.source, variables)
    assert example.value(variables) == example.expected
    assert cure.why in cure.commented


def test_of_libraries_that_nobody_imported_only_the_one_that_defines_a_name_is_imported() -> None:
    pytest.importorskip("sklearn")
    assert libraries._defines("sklearn", "LinearRegression")
    assert not libraries._defines("sklearn", "Linear")
    assert libraries.import_of("LinearRegression") == (
        "from sklearn.linear_model import LinearRegression"
    )


def test_a_selection_that_is_changed_in_place_is_assigned() -> None:
    statement = "fleet['Draught (m)'].fillna(0, inplace=True)"
    variables = ships()
    with pytest.warns(Warning):  # noqa: PT030 - the class exists from pandas 3 on
        exec(statement, variables)
    assert variables["fleet"]["Draught (m)"].isna().sum() == 1, "it needs no cure any more"
    cure = cure_before(ast.parse(statement).body[0], variables)
    assert cure is not None
    exec(cure.source, variables)
    assert list(variables["fleet"]["Draught (m)"]) == [2.0, 0.0, 4.0, 6.0]


def number_of_rows(chosen: str, variables: dict[str, Any]) -> int:
    """The number of rows that a condition chooses, as the cure has it, if there is one."""
    source = f"found = len(fleet[{chosen}])"
    cure = cure_before(ast.parse(source).body[0], variables)
    exec(source if cure is None else cure.source, variables)
    return int(variables["found"])


@pytest.mark.parametrize("form", ["fleet['port'] == {0!r}", "{0!r} == fleet.port",
                                  "fleet['port'].isin([{0!r}])",
                                  "~(fleet['port'].str.strip() != {0!r})"])  # fmt: skip
@given(ports=st.lists(st.sampled_from("abc"), min_size=1), data=st.data())
def test_a_value_is_found_by_any_spelling_that_only_one_has(
    form: str, ports: list[str], data: Any
) -> None:
    spelt = st.sampled_from(["{}-nord", "{}_NORD", "{} Nord", "{}nord"])
    names = {each: data.draw(spelt).format(each) for each in ports}
    variables: dict[str, Any] = {"fleet": pd.DataFrame({"port": [names[each] for each in ports]})}
    meant = data.draw(st.sampled_from([*ports, "d"]))
    written = data.draw(spelt).format(meant)
    assert number_of_rows(form.format(written), variables) == ports.count(meant)


def test_a_value_that_two_are_or_one_is_exactly_stays() -> None:
    variables = {"fleet": pd.DataFrame({"port": ["kiel", "Kiel", "Ulm"], "deck": [1, 2, 2]})}
    assert number_of_rows("fleet['port'] == 'KIEL'", variables) == 0
    assert number_of_rows("fleet['port'] == 'Kiel'", variables) == 1
    assert number_of_rows("fleet['port'] == 'Bonn'", variables) == 0
    assert number_of_rows("fleet['deck'] == '2'", variables) == 2


@pytest.mark.parametrize("row", ["fleet.loc[1]", "fleet.iloc[0]", "fleet.loc[fleet['a'].idxmax()]"])
@given(
    whole=st.lists(st.integers(-9, 2030), min_size=2, max_size=5),
    part=st.lists(st.floats(-9, 9), min_size=5, max_size=5),
)
def test_the_whole_numbers_of_a_row_are_whole_in_a_text(
    row: str, whole: list[int], part: list[float]
) -> None:
    table = pd.DataFrame({"year": whole, "a": part[: len(whole)]})
    variables: dict[str, Any] = {"fleet": table, "answer": str}
    exec(f"best = {row}", variables)
    place = {"fleet.loc[1]": 1, "fleet.iloc[0]": 0}.get(row, int(table["a"].argmax()))
    for value in ("best['year']", f"{row}['year']"):
        statement = f"text = f\"{{{value}}}; {{best['a']:.1f}}\""
        cure = cure_before(ast.parse(statement).body[0], variables)
        assert cure is not None
        exec(cure.source, variables)
        assert variables["text"] == f"{whole[place]}; {part[place]:.1f}"
        assert cure_before(ast.parse(cure.source).body[0], variables) is None


@pytest.mark.parametrize(
    "statement",
    [
        "fleet.dropna(inplace=True)",
        "layer.relu(x, inplace=True)",
        "fleet['port'].fillna('Kiel')",
        "fleet['port'] = fleet['port'].fillna('Kiel')",
    ],
)
def test_what_has_its_effect_is_left_alone(statement: str) -> None:
    assert cure_before(ast.parse(statement).body[0], {**ships(), "layer": object()}) is None


@pytest.mark.parametrize(
    "statement",
    [
        "found = fleet['prot']",  # misspelled, which may mean another column
        "found = fleet[fleet['port'] == 'Ship name']['none']",  # a value is no column
        "found = numbers_of_ships['x']",
        "found = fleet['port'].meen()",
        "found = 1 / 0",
        "found = int('x')",
        "found = fleet['either'].dt.month",  # the day or the month may be first
        "found = fleet['Ship Name'].dt.month",
    ],
)
def test_what_may_mean_several_things_has_no_cure(statement: str) -> None:
    assert cure_of(failure_of(statement, ships())) is None


def test_a_name_with_two_meanings_has_no_cure() -> None:
    variables = ships()
    variables["fleet"]["PORT"] = 1
    assert cure_of(failure_of("found = fleet['Port']", variables)) is None
    variables = ships()
    variables["other"] = variables["fleet"].copy()
    failure = failure_of("found = data['port']", variables)
    two = Failure(failure.error, failure.statement, failure.program, variables, ("fleet", "other"))
    assert cure_of(two) is None


letters = st.text(st.characters(categories=("Lu", "Ll", "Nd", "Zs", "Pd", "Pc")), max_size=12)


@given(st.lists(letters, min_size=1, max_size=5, unique=True), st.data())
def test_a_column_is_found_by_any_spelling_that_only_one_has(
    columns: list[str], data: st.DataObject
) -> None:
    table = pd.DataFrame({each: [number] for number, each in enumerate(columns)})
    meant = data.draw(st.sampled_from(columns))
    wrong = data.draw(st.sampled_from([meant.swapcase(), f" {meant}", meant.replace(" ", "_")]))
    if wrong in columns:
        return
    variables: dict[str, Any] = {"fleet": table}
    cure = cure_of(failure_of(f"found = fleet[{wrong!r}]", variables))
    same = [each for each in columns if plain(each) == plain(wrong)]
    if len(same) != 1:
        assert cure is None
    else:
        assert cure is not None
        exec(cure.source, variables)
        assert list(variables["found"]) == list(table[same[0]])


def test_what_the_copy_gives_back_is_data() -> None:
    failure = failure_of("found = fleet['Port']", ships())
    given = ("found = fleet['Port']", "", ("fleet",), failure.variables, failure.error)
    cure, found = examined(*given)
    assert cure == ("found = fleet['port']", "the column is 'port' for 'Port'")
    assert found == []


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("found = fleet['Draugth']", "'Draught (m)'"),
        ("found = fleet['port'].valeu_counts()", "value_counts"),
        ("found = flete['port'].size", "fleet"),
        ("found = fleet['port'].round(2).sum() + fleet['port'] * 1.5", "'Kiel'"),
        ("found = pd.to_datetime(fleet['port'], foramt='%Y')", "format"),
    ],
)
def test_hints_are_looked_up(statement: str, hint: str) -> None:
    assert any(hint in each for each in hints(failure_of(statement, ships())))


def test_the_text_around_a_field_is_not_taken_for_a_column() -> None:
    failure = failure_of("found = f\"draught={fleet['draugth (m)'].max()}\"", ships())
    assert [each for each in hints(failure) if "there is no column" in each] == [
        "there is no column 'draugth (m)'; there is 'Draught (m)'"
    ]


def test_hints_say_what_the_variables_are() -> None:
    variables = ships()
    variables["kiel"] = variables["fleet"][variables["fleet"]["port"] == "KIEL"]["Draught (m)"]
    found = hints(failure_of("found = kiel.iloc[0]", variables))
    assert "kiel: Series of float64, 0 values: " in found


def test_an_object_that_raises_gives_no_hint() -> None:
    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise ValueError(name)

    variables = {**ships(), "odd": Odd()}
    failure = failure_of("found = odd.x + fleet", variables)
    given = ("found = odd.x + fleet", "", ("fleet",), variables, failure.error)
    assert examined(*given)[0] is None
    assert isinstance(np.float64(1), float)
    assert Cure("x", "y").commented == "# y\nx"
