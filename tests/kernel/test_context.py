"""The description of the notebook in a question, and the tools that show variables to a model."""

from __future__ import annotations

import copy
import os
import re
import typing
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.kernel import definitions
from archytas_nb.kernel.context import Reader, context_of
from archytas_nb.kernel.look import look_tools
from archytas_nb.loop.descriptions import described_in, recalled
from archytas_nb.loop.record import CardForm, Context, Exchange
from archytas_nb.loop.tokens import text_tokens
from archytas_nb.testing import ScriptedModel

FRAME = pd.DataFrame(
    {"country": ["Peru", "Chad", "Peru", None], "pop": [1, 2, 3, 4], "gdp": [1.5, None, 2.5, 0.5]}
)
SMALL = CardForm(tokens=300, has_values=False, in_words=True)


def variables(**more: Any) -> dict[str, Any]:
    return {
        "gm": FRAME,
        "fast": pl.DataFrame({"city": ["Lima", "Lima"], "n": [1, None]}),
        "grid": np.arange(12.0).reshape(3, 4),
        "names": ["a", "b", "a"],
        "password": "hunter2-hunter2",
        "pd": pd,
        "_hidden": 1,
        "In": ["secret cell"],
        "helper": lambda: 1,
        **more,
    }


def look(namespace: dict[str, Any], **arguments: Any) -> Any:
    [_, tool] = look_tools()
    return tool.call(arguments, namespace)


def told(found: Context | None) -> dict[str, str]:
    """How each variable is told: by a card, or on a line."""
    assert found is not None
    return {
        name: "card" if each.card else "line"
        for name, each in found.described.items()
        if each.kind == "variable"
    }


def ask(namespace: dict[str, Any], question: str, past: list[Exchange], **more: Any) -> Context:
    """The context of a question, which is added to the conversation."""
    found = context_of("auto", namespace, question, past, **more)
    assert found is not None
    past.append(Exchange(question, context=found))
    return found


def names_in(text: str) -> set[str]:
    """The names of variables in a text, also those that stand in a run of numbered ones."""
    found = set(re.findall(r"\w+", text))
    for stem, first, last in re.findall(r"\b([^\W\d]\w*?)(\d+) … \1(\d+)", text):
        found |= {f"{stem}{number}" for number in range(int(first), int(last) + 1)}
    return found


# ── whole by names, deep by need ──────────────────────────────────────────────────────────────────


def test_what_a_question_names_gets_a_card_and_all_others_a_line() -> None:
    question = "Has `grid` as many rows as gm? (gmx is another, In too.)"
    found = context_of("auto", variables(), question)
    assert told(found) == {"gm": "card", "grid": "card", "fast": "line", "names": "line"}
    assert found is not None
    assert found.text.index("grid: ") < found.text.index("gm: ") < found.text.index("fast: ")
    only = context_of("mentioned", variables(), question)
    assert told(only) == {"gm": "card", "grid": "card"}


def test_a_column_brings_the_card_of_its_table() -> None:
    assert told(context_of("auto", variables(), "Which is the richest country?"))["gm"] == "card"
    assert told(context_of("auto", variables(), "What is it?"))["gm"] == "line"
    found = context_of("auto", variables(g=[1], a={"x": 1}), "A bird of 5100 g, is it a good one?")
    assert set(told(found).values()) == {"line"}


def test_only_the_cards_of_named_variables_hold_values() -> None:
    found = context_of("auto", variables(), "gm?")
    assert found is not None
    assert ": Peru, Chad" in found.text
    assert "Lima" not in found.text
    hidden = context_of("auto", variables(), "gm?", reader=Reader(hidden=()))
    assert hidden is not None
    assert "Peru" not in hidden.text
    assert "missing" not in hidden.text


def test_no_module_secret_annotation_or_object_of_this_package_is_a_variable() -> None:
    annotations = [typing.Literal, typing.Any, typing.Optional, typing.Union, typing.Annotated]
    annotations += [typing.TypeVar("T"), typing.Callable, list[int], int | str, typing.NamedTuple]
    more = {f"annotation_{n}": each for n, each in enumerate(annotations)}
    namespace = variables(model=ScriptedModel(), API_KEY="sk-1", key="a key", nb=nb, **more)
    found = context_of("all", namespace, "password?")
    assert set(told(found)) == {"gm", "fast", "grid", "names"}
    assert found is not None
    assert "hunter2" not in found.text
    assert "archytas" not in found.text
    assert context_of("none", namespace, "gm") is None


NAME = st.one_of(
    st.integers(0, 60).map("v{}".format),
    st.sampled_from(["df", "x", "raw", "model", "cfg", "table_of_all", "Ünïcode", "a1b2"]),
)
VALUE = st.sampled_from(
    [1, 2.5, "text", [1, 2], [1, 2, 3], {"a": 1}, {"b": 1}, (), FRAME, FRAME.head(2), FRAME.T,
     FRAME.rename(columns={"pop": "people"}), pd.Series([1, 2], name="s"), np.zeros(3)]
)  # fmt: skip


@given(
    st.dictionaries(NAME, VALUE, max_size=12),
    st.lists(
        st.tuples(
            st.dictionaries(NAME, VALUE, max_size=3),
            st.lists(NAME, max_size=3),
            st.lists(NAME, max_size=3),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=5,
    ),
)
@settings(max_examples=60, deadline=None)
def test_each_variable_is_in_what_is_sent_and_a_card_exactly_if_it_is_not(
    namespace: dict[str, Any], turns: list[tuple[dict[str, Any], list[str], list[str], int]]
) -> None:
    past: list[Exchange] = []
    for changed, removed, asked, left_out in turns:
        namespace = {**namespace, **changed}
        for name in removed:
            namespace.pop(name, None)
        del past[:left_out]
        sent_before = "\n".join(each.context.text for each in past if each.context)
        question = f"What about {', '.join(f'`{each}`' for each in asked)}?"
        found = ask(namespace, question, past)
        sent = f"{sent_before}\n{found.text}"
        named = names_in(sent)
        assert set(namespace) <= named
        for name in set(asked) & set(namespace):
            fresh = context_of("mentioned", namespace, f"`{name}`")
            assert fresh is not None
            card = fresh.described[name].card
            assert card in sent
            known = described_in(past[:-1]).get(name)
            assert (name in found.described) is (known is None or known.card != card)
        for name, each in found.described.items():
            assert (each.kind == "gone") is (name not in namespace and name != "(date)")


def test_a_variable_is_told_again_when_it_is_not_the_same() -> None:
    namespace = variables(sizes=[1], table=FRAME.copy())
    past: list[Exchange] = []
    ask(namespace, "One?", past)
    assert ask(namespace, "Two?", past).text == ""
    namespace |= {"new": 1, "grid": np.arange(3), "table": FRAME.rename(columns={"pop": "n"})}
    namespace["sizes"].append(2)
    del namespace["fast"]
    found = ask(namespace, "Three?", past)
    assert set(told(found)) == {"grid", "new", "sizes", "table"}
    assert "No longer there: fast" in found.text
    assert ask(namespace, "Four?", past).text == ""


def test_a_card_is_sent_again_only_if_it_is_another_or_was_left_out() -> None:
    frame = FRAME.copy()
    past: list[Exchange] = []
    assert told(ask({"gm": frame}, "gm?", past)) == {"gm": "card"}
    assert ask({"gm": frame}, "And gm now?", past).text == ""
    frame.loc[0, "gdp"] = 99.0
    assert "99.0" in ask({"gm": frame}, "And gm now?", past).text
    assert told(context_of("auto", {"gm": frame}, "gm?", past[1:2])) == {"gm": "card"}


def test_a_card_does_not_depend_on_what_else_a_question_names() -> None:
    wide = pd.DataFrame({f"of_{n}_columns": [1.5, None, n] for n in range(50)})
    namespace = {f"table_of_{word}": wide.rename(columns=str.upper) for word in "abcdefgh"}
    names = " ".join(namespace)
    past: list[Exchange] = []
    assert set(told(ask(namespace, "table_of_a?", past)).items()) >= {("table_of_a", "card")}
    found = ask(namespace, names, past)
    assert set(told(found)) == namespace.keys() - {"table_of_a"}
    assert len(found.text) < 10_000
    assert ask(namespace, names, past).text == ""
    assert ask(namespace, "table_of_a?", past).text == ""


def test_a_question_that_is_asked_again_describes_the_same_variables() -> None:
    namespace = variables()
    found = context_of("all", namespace, "And now?")
    earlier = Exchange("And now?", context=found)
    del namespace["fast"]
    namespace |= {"later": 1, "grid": np.arange(5.0)}
    again = context_of("changed", namespace, "And now?", (), earlier)
    assert set(told(again)) == {"gm", "grid", "names"}
    assert again is not None
    assert "grid: ndarray 5 float64" in again.text
    assert "later" in told(context_of("changed", namespace, "And later?", (), earlier))


def test_a_small_model_is_told_only_of_mentioned_variables() -> None:
    def auto(question: str, past: Any = (), *, has_tools: bool = True) -> Context | None:
        reader = Reader(SMALL, has_notebook=False, sees_all=False, has_tools=has_tools)
        return context_of("auto", variables(), question, past, reader=reader)

    assert auto("How many?") is None
    found = auto("How many rows has gm?")
    assert told(found) == {"gm": "card"}
    assert found is not None
    lines = found.text.splitlines()
    assert lines[0] == "gm: DataFrame of 4 rows × 3 columns: country, pop, gdp"
    assert lines[1:] == [
        "  country: str, 1 missing, 2 different values",
        "  pop: int64",
        "  gdp: float64, 1 missing",
    ]
    assert auto("How many?", has_tools=False) == Context("")
    followed = auto("And columns?", [Exchange("How many rows has gm?", context=found)])
    assert followed == Context("")


@given(st.integers(0, 300), st.integers(0, 500), st.sampled_from(["v{}", "of_{}_kind", "x{}y"]))
@settings(max_examples=20, deadline=None)
def test_many_variables_are_all_named_in_few_lines(many: int, columns: int, name: str) -> None:
    wide = pd.DataFrame(np.zeros((1, columns)), columns=[f"column_{n}" for n in range(columns)])
    namespace = {"wide": wide, **{name.format(n): n for n in range(many)}}
    found = context_of("auto", namespace, "wide?")
    assert found is not None
    assert len(found.text) <= 1500
    assert "more variables" not in found.text
    shown = re.findall(r"(\w+) … (\w+): int", found.text)
    if many > 3:
        assert (name.format(0), name.format(many - 1)) in shown


def test_of_thousands_of_names_without_a_pattern_the_newest_are_told() -> None:
    random = Random(0)
    names = ["".join(random.choices("abcdefghij", k=9)) for _ in range(5000)]
    found = context_of("auto", dict.fromkeys([*names[:500], "last_one"], 1), "?")
    assert found is not None
    assert set(names[:500]) <= names_in(found.text)
    found = context_of("auto", dict.fromkeys([*names, "last_one"], 1), "?")
    assert found is not None
    assert text_tokens(found.text) < 4000
    assert "last_one: int" in found.text


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    @property
    def shape(self) -> Any:
        raise RuntimeError("no")


def test_an_object_whose_methods_raise_is_described_by_its_type() -> None:
    found = context_of("mentioned", {"rude": Rude()}, "rude")
    assert found is not None
    assert found.text == "rude: Rude"


def test_a_secret_in_a_name_or_a_value_is_masked() -> None:
    def mask(text: str) -> str:
        return text.replace("hunter2", "{secret}")

    namespace = {
        "cfg": {"hunter2": 1},
        "df": pd.DataFrame({"hunter2": ["hunter2"] * 2}),
        "t": "hunter2",
    }
    found = context_of("auto", namespace, "cfg, df and `t`?", reader=Reader(mask=mask))
    assert found is not None
    assert "hunter2" not in found.text
    assert "hunter2" not in repr(found.described)
    past = [Exchange("?", context=found)]
    again = context_of("auto", namespace, "cfg, df and `t`?", past, reader=Reader(mask=mask))
    assert again is not None
    assert again.text == ""


# ── functions, libraries, the date ────────────────────────────────────────────────────────────────


def clean(
    df: Any, column: str, *rows: int, z: float = 3.0, key: str = "s3cret", **more: Any
) -> None:
    """Clean it."""


class Loader:
    def __init__(self, path: str, limit: int | None = None) -> None:
        pass


def test_functions_and_libraries_are_told_once_and_new_ones_when_they_come() -> None:
    namespace: dict[str, Any] = {"clean": clean, "Loader": Loader, "np": np, "pd": pd, "re": re}
    past: list[Exchange] = []
    text = ask(namespace, "One?", past).text
    assert "clean(df, column, *rows, z=3.0, key=…, **more)" in text
    assert "Loader(path, limit=None)" in text
    assert f"numpy {np.__version__} (np)" in text
    assert f"pandas {pd.__version__} (pd)" in text
    assert f"Date and versions: {definitions.today()}" in text
    assert "s3cret" not in text
    assert ask(namespace, "Two?", past).text == ""
    namespace |= {"pl": pl, "clean": lambda df: df}
    text = ask(namespace, "Three?", past).text
    assert f"Imported since: polars {pl.__version__} (pl)" in text
    assert "clean(df)" in text
    assert "numpy" not in text
    assert "Date" not in text


def test_a_tool_is_no_function_of_the_notebook_and_defaults_are_values() -> None:
    found = context_of("auto", {"clean": clean, "L": Loader}, "?", reader=Reader(tools=[clean]))
    assert found is not None
    assert "clean" not in found.text
    hidden = context_of("auto", {"clean": clean}, "?", reader=Reader(hidden=()))
    assert hidden is not None
    assert "z=…" in hidden.text
    names = context_of("auto", {"Peru": clean}, "?", reader=Reader(hidden={"Peru"}))
    assert names is not None
    assert "Peru" not in names.text


def test_a_small_model_is_told_neither_date_nor_functions() -> None:
    found = context_of(
        "all", {"clean": clean, "np": np, "n": 1}, "?", reader=Reader(has_notebook=False)
    )
    assert found is not None
    assert found.text == "n: int"


# ── the tools that look ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["head", "describe", "columns", "values"])
@pytest.mark.parametrize("name", ["gm", "fast", "grid", "names"])
def test_looking_changes_nothing(name: str, what: str) -> None:
    namespace = variables()
    before = copy.deepcopy({each: namespace[each] for each in ("gm", "fast", "grid", "names")})
    look(namespace, name=name, what=what)
    assert namespace["gm"].equals(before["gm"])
    assert namespace["fast"].equals(before["fast"])
    assert (namespace["grid"] == before["grid"]).all()
    assert namespace["names"] == before["names"]
    assert list(namespace) == list(variables())


def test_counts_the_values_of_a_column() -> None:
    for name, text in (
        ("gm.country", "gm['country']: 2 different values: Peru 2×, Chad 1×, (missing) 1×"),
        ("fast.city", "fast['city']: 1 different value: Lima 2×"),
        ("names", "names: 2 different values: a 2×, b 1×"),
    ):
        assert look(variables(), name=name, what="values").text == text


def test_a_description_begins_with_the_shape_and_has_a_line_for_each_column() -> None:
    first, *lines = look(variables(), name="gm", what="describe").text.splitlines()
    assert first == "gm: DataFrame 4 × 3"
    assert lines[0].endswith(", 1 missing; 2 different values: Peru 2×, Chad 1×")
    assert lines[1].startswith(
        "  pop: int64, 0 missing; min 1, max 4, mean 2.5, quartiles 1.75, 2.5, 3.25; 4 diff"
    )
    [line] = look(variables(), name="grid", what="describe").text.splitlines()[1:]
    assert line.startswith("min 0.0, max 11.0, mean 5.5")


def test_a_column_name_alone_refers_to_the_only_frame_that_has_it() -> None:
    alone = look(variables(), name="country").text
    for name in ("gm.country", "gm['country']", 'gm["country"]'):
        assert look(variables(), name=name).text == alone
    assert "Peru 2×" in alone
    twice = variables(copy=FRAME.copy())
    assert look(twice, name="country").status == "error"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "gmm"}, "'gm'"),
        ({"name": "gm.contry"}, "'country'"),
        ({"name": "gm", "what": "values"}, "country, pop, gdp"),
        ({"name": "names.a"}, "3 items"),
        ({"name": "_hidden"}, "'_'"),
        ({"name": "In"}, "IPython"),
        ({"name": "pd"}, "module"),
        ({"name": "password"}, "secret"),
    ],
)
def test_an_invalid_name_is_an_error_that_lists_valid_ones(
    arguments: dict[str, str], says: str
) -> None:
    found = look(variables(), **arguments)
    assert found.status == "error"
    assert says in found.text
    assert "hunter2" not in found.text
    assert "secret cell" not in found.text


def test_neither_the_environment_nor_one_shot_iterators_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOMETHING", "hunter2-hunter2")
    lines = (str(n) for n in range(3))
    namespace = {"env": os.environ, "deep": {"a": [os.environ.items()]}, "lines": lines}
    text = context_of("auto", namespace, "env, deep and lines?")
    assert text is not None
    assert "hunter2" not in text.text
    for name in namespace:
        for what in ("head", "describe", "values"):
            found = look(namespace, name=name, what=what)
            assert found.status == "error", (name, what)
            assert "hunter2" not in found.text
    assert list(lines) == ["0", "1", "2"]


def test_results_for_a_small_model_end_with_the_question() -> None:
    question = "What columns has gm, and how many countries?"
    for tool, again in zip(look_tools(), look_tools(question), strict=True):
        arguments = {"name": "gm"} if tool.name == "look" else None
        plain = tool.call(arguments, variables()).text
        assert again.text == tool.text
        text = again.call(arguments, variables()).text
        assert text.startswith(f"{plain}\n\nThe question was: {question}\n")
    assert look_tools("x" * 10_000) == look_tools()


@given(st.integers(0, 400), st.booleans())
@settings(max_examples=20, deadline=None)
def test_variables_lists_them_all_page_by_page_the_newest_first(many: int, alike: bool) -> None:
    [tool, _] = look_tools()
    namespace: dict[str, Any] = {
        f"frame_{n}": pd.DataFrame({f"of_{n}" if not alike else "x": [1]}) for n in range(many)
    }
    namespace["last"] = 1
    first = tool.call({}, namespace).text
    assert first.startswith("last: int")
    number = int((re.search(r"\(page 1 of (\d+)\)", first) or ["", "1"])[1])
    text = "\n".join(tool.call({"page": n + 1}, namespace).text for n in range(number))
    assert set(namespace) <= names_in(text)
    assert len(first) < 5000
    beyond = tool.call({"page": number + 1}, namespace)
    assert beyond.status == "error"
    assert tool.call({}, {}).text == "The notebook has no variables."


# ── cards that changed, and hints of columns ──────────────────────────────────────────────────────

CHANGES = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["number", "text", "drop", "keep"])),
    min_size=1,
    max_size=3,
)


@given(st.lists(CHANGES, max_size=4), st.booleans())
@settings(max_examples=40)
def test_who_knows_a_card_and_reads_the_news_knows_the_new_card(
    turns: list[list[tuple[str, str]]], is_small: bool
) -> None:
    """The lines of a card, each replaced by the one that is told of the same column."""
    data = pd.DataFrame({name: range(n, n + 9) for n, name in enumerate("abcdef")})
    reader = Reader(SMALL, sees_all=False) if is_small else Reader()
    past: list[Exchange] = []
    known: dict[str, str] = {}
    for number, changes in enumerate([[], *turns]):
        for name, change in changes:
            if change == "drop":
                data = data.drop(columns=name, errors="ignore")
            elif change != "keep":
                values = [f"{change} {number} {n}" for n in range(9)]
                data = data.assign(**{name: values if change == "text" else range(9, 18)})
        found = ask({"data": data}, "What is in data?", past, reader=reader)
        card = context_of("auto", {"data": data}, "What is in data?", [], reader=reader)
        assert card is not None
        [head, *lines] = found.described["data"].card.split("\n") if found.described else [""]
        if found.described and (news := found.described["data"].news):
            assert not is_small
            assert news in found.text
            assert "\n".join([head, *lines]) not in found.text
            told_lines = news.split("\n")[1:]
        else:
            known = known if not found.described else {}
            told_lines = lines
        known |= {line.partition(": ")[0]: line for line in told_lines}
        wanted = [line for line in card.text.split("\n") if line.startswith("  ")]
        assert set(known.values()) == set(wanted)


def test_what_a_changed_card_adds_to_is_told_whole_where_it_is_left_out() -> None:
    data = pd.DataFrame({name: range(9) for name in "abcdef"})
    past: list[Exchange] = []
    ask({"data": data}, "What is in data?", past)
    found = ask({"data": data.assign(g="x")}, "And in data now?", past)
    assert "  g: " in found.text
    assert "  a, b" not in found.text
    again = recalled(found, past[:1], [])
    assert found.described["data"].card in again.text
    assert again.text.count("  g: ") == 1
    assert recalled(found, [], past[:1]) == found


def test_a_word_of_a_column_names_its_table_unless_something_is_named() -> None:
    birds = pd.DataFrame({"Body Mass (g)": [5000], "Sex": ["F"]})
    others = {f"t{n}": pd.DataFrame({"total count": [n]}) for n in range(3)}
    namespace = {"birds": birds, "limit": 3, **others}

    def named(question: str) -> tuple[str, ...]:
        found = context_of("auto", namespace, question)
        assert found is not None
        return found.mentioned

    assert named("What is the mean body mass?") == ("birds",)
    assert named("Is the body mass above limit?") == ("limit",)
    assert named("What is the count?") == ()  # too many have it
    assert named("What is (g)?") == ()


def test_a_function_is_told_with_the_first_line_of_its_docstring() -> None:
    def clean(names: list[str], strip: bool = True) -> list[str]:
        """Make names equal.

        They may have spaces.
        """
        return names

    namespace = {"clean": clean}
    assert definitions.functions_in(namespace) == {
        "clean": "clean(names, strip=True) – Make names equal."
    }
    assert definitions.functions_in(namespace, has_values=False) == {
        "clean": "clean(names, strip=…)"
    }
