"""The numbers of an answer have the origin that they really have."""

from __future__ import annotations

import itertools
import re

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archytas_nb import Agent
from archytas_nb.provenance import Source, link, nowhere, program_source
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.render import render
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from archytas_nb.trace.html import answer_html

MASSES = pd.DataFrame(
    {"species": ["Adelie", "Chinstrap", "Gentoo"], "mass_g": [3700.66, 3733.09, 5092.44]}
)


def source(call: str, value: object, step: int = 1) -> Source:
    return Source(call, render(value).text, value, step)


def origins(answer: str, *sources: Source, given: tuple[str, ...] = ()) -> dict[str, str]:
    return {each.text: each.origin for each in link(answer, sources, given)}


@given(
    value=st.floats(-1e9, 1e9).filter(lambda x: abs(x) > 1e-3),
    digits=st.integers(0, 4),
    locale=st.sampled_from([",.", ".,"]),
)
def test_a_result_is_found_in_the_digits_that_the_answer_gives(
    value: float, digits: int, locale: str
) -> None:
    shown = f"{value:,.{digits}f}".translate(str.maketrans(",.", locale))
    [span] = link(f"The mean is {shown}.", [source("mean()", value)])
    assert (span.origin, span.call) == ("result", "mean()")


@given(st.floats(100, 1e6), st.floats(1.02, 9.0))
def test_a_number_that_no_result_has_comes_from_nowhere(value: float, factor: float) -> None:
    wrong = f"{value * factor:.6g}"
    assume("e" not in wrong)  # such as 1e+06, which many numbers round to
    assert nowhere(link(f"The mean is {wrong}.", [source("mean()", value)])) == (wrong,)


def test_a_number_is_found_with_its_row_and_column() -> None:
    [gentoo, number] = link('"Gentoo" weigh 5,092 g.', [source("mean_by()", MASSES)])
    assert gentoo.origin == number.origin == "result"
    assert number.place == "Gentoo, mass_g"
    assert number.call == "mean_by()"


@pytest.mark.parametrize(
    ("answer", "number", "origin"),
    [
        ("They weigh 5.1 kg.", "5.1", "result"),
        ("Gentoo are 1391.8 g heavier.", "1391.8", "derived"),
        ("Gentoo are 37.6 % heavier.", "37.6 %", "derived"),
        ("That is 40.65 % of all.", "40.65 %", "derived"),
        ("There are 3 species.", "3", "result"),
        ("Gentoo weigh 5,192 g.", "5,192", "nowhere"),
        ("They differ by 8.8 mm.", "8.8", "nowhere"),  # no ratio of 0.0088 has a unit
        ("Of those above 4321 g.", "4321", "question"),
    ],
)
def test_origins(answer: str, number: str, origin: str) -> None:
    found = origins(answer, source("mean_by()", MASSES), given=("Which weigh more than 4321 g?",))
    assert found == {number: origin}


@pytest.mark.parametrize(
    "answer",
    [
        "1. first\n2. second",
        "```python\nx = 987\n```",
        "Use `head(987)`.",
        "See https://example.org/987 and [this](https://example.org/654).",
        "It says so.[^9]",
    ],
)
def test_code_addresses_and_marks_are_no_statements(answer: str) -> None:
    assert link(answer, [source("mean_by()", MASSES)]) == ()


@given(st.text(max_size=200), st.lists(st.one_of(st.text(max_size=40), st.floats(), st.integers())))
def test_spans_are_parts_of_the_answer_in_order(answer: str, values: list[object]) -> None:
    spans = link(answer, [source(f"call{n}()", each) for n, each in enumerate(values)])
    assert all(answer[each.start : each.end] == each.text for each in spans)
    assert all(one.end <= other.start for one, other in itertools.pairwise(spans))


def test_the_sources_of_a_run_are_its_calls() -> None:
    def mean_mass(species: str) -> float:
        """The mean.

        Args:
            species: Which species
        """
        return 5092.4372

    model = ScriptedModel(
        ("mean_mass", {"species": "Gentoo"}),
        ("final_answer", "Gentoo weigh 5,092.4 g, and 18.3 mm is their bill."),
    )
    run = Agent([mean_mass], model=model).run("How heavy are they?")
    linked, missing = run.sources
    assert (linked.text, linked.origin) == ("5,092.4", "result")
    assert linked.call == 'mean_mass("species": "Gentoo")'
    assert (missing.text, missing.origin) == ("18.3", "nowhere")


def masses() -> pd.DataFrame:
    """The masses of the species."""
    return MASSES


def test_a_person_sees_where_numbers_come_from() -> None:
    """In the notebook a title and a dotted line, everywhere a line with what is in no result."""
    answer = "| species | mass |\n|---|---|\n| Gentoo | **5,092.4** |\n\nTheir bill is 18.3 mm."
    run = Agent([masses], model=ScriptedModel(("masses", {}), ("final_answer", answer))).run("?")
    data, _ = bundle(fold(run.question, run.events))
    assert re.search(
        '<span title="masses\\(\\), step 1: Gentoo, mass_g">5,092.4</span>', data["text/html"]
    )
    assert re.search(
        '<span title="in no result" style="[^"]*dotted[^"]*">18.3</span>', data["text/html"]
    )
    for text in data.values():
        assert "18.3: in no result" in text
        assert "5,092.4: in no result" not in text


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("In 2 of 3 cases.", ()),
        ("They are 0.35 times as heavy.", ("0.35",)),
        ("There are 17 of them.", ("17",)),
        ("It grew by 2 %.", ()),
    ],
)
def test_a_number_that_many_numbers_round_to_claims_nothing(
    answer: str, missing: tuple[str, ...]
) -> None:
    assert nowhere(link(answer, [Source("call()", "987.65")])) == missing


def test_without_results_nothing_is_marked() -> None:
    run = Agent([], model=ScriptedModel(("final_answer", "It is 42."))).run("?")
    data, _ = bundle(fold(run.question, run.events))
    assert run.sources == ()
    assert not any("in no result" in each for each in data.values())


@given(st.text(max_size=80), st.text(max_size=80), st.lists(st.integers(0, 99_999), max_size=5))
def test_marks_change_no_text(before: str, after: str, numbers: list[int]) -> None:
    answer = f"{before} {' '.join(map(str, numbers))} {after}"
    spans = link(answer, [Source("call()", "7")])
    marked = answer_html(answer, spans)
    assert re.sub(r"</?span[^>]*>", "", marked) == re.sub(r"</?span[^>]*>", "", answer_html(answer))


@pytest.mark.parametrize(
    ("program", "answer", "origins"),
    [
        ('answer(f"{len(df)} rows")', "406 rows", ["result"]),
        ("answer(5092.5)", "5092.5", ["nowhere"]),
        ("mass = 5092.5\nanswer(mass)", "5092.5", ["nowhere"]),
        ("mass = round(5092.47, 1)\nanswer(mass)", "5092.5", ["nowhere"]),
        ('answer(f"{df.a.mean()} g, not 17 g")', "5092.5 g, not 17 g", ["result", "nowhere"]),
        ("answer(mean('Gentoo'))", "5092.5", ["result"]),
        ("answer(df.head(5).a.mean())", "5092.5", ["result"]),
    ],
)
def test_numbers_that_a_program_writes_itself_are_no_result(
    program: str, answer: str, origins: list[str]
) -> None:
    found = link(answer, [program_source(program, [], answer)])
    assert [each.origin for each in found] == origins


def test_a_number_of_a_program_has_its_expression_as_its_place() -> None:
    program = 'n = (df.a > 20).sum()\nanswer(f"{n} of {len(df)} rows")'
    found = link("51 of 1461 rows", [program_source(program, [], "51 of 1461 rows")])
    assert [each.place for each in found] == ["n", "len(df)"]
