"""A map that was planned is code: a function of the columns, and a loop that gives its answers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb import Agent, Tool
from archytas_nb.code import rows
from tests.batch.planner import Planner
from tests.code.notebook import Notebook

CALLS: list[str] = []


def price_of(product: str) -> float:
    """Get the price of a product.

    Args:
        product: The product
    """
    CALLS.append(product)
    if product == "gone":
        raise LookupError("no such product")
    return float(len(product))


PROMPT = 'What do {unit number} of {product} cost, "all in all"?'
PROGRAM = """\
product = row.product
if row.product is None:
    give_up("no product")
show(row.class_)
for number in [1, 2]:
    if number == 2:
        answer(price_of(product=product.strip()) * row.unit_number)"""
FRAME = pd.DataFrame(
    {"product": ["p", "pp", None, "gone"] * 10, "unit number": range(40), "class": 1.5}
)


def planned(
    data: Any, program: str, prompt: str = PROMPT, pure: bool = True, **options: Any
) -> Any:
    """The frame of a map, and what its code is derived from."""
    from archytas_nb.batch.map import mapped

    found: list[rows.PlannedRows] = []
    names = {"price_of": price_of, "data": data}
    tools = [Tool.from_function(price_of, pure=pure)]
    agent = Agent(tools, model=Planner(program), namespace=names, context="none")
    given = {"output_type": float, "store": None, "verify": 0, "max_fallback": 1.0, **options}
    out = mapped(agent._setup.for_rows(), data, prompt, plan=True, on_planned=found.append, **given)
    return out, found[0]


def answers(code: rows.RowsCode) -> list[Any]:
    names = dict(code.planned.namespace)
    exec(code.code.text, names)
    return names["answers"]  # type: ignore[no-any-return]


def by_program(out: Any) -> list[Any]:
    rows_of = out if isinstance(out, list) else out.to_dict("records")
    return [each["answer"] if each["by"] == "program" else None for each in rows_of]


def test_the_loop_gives_what_the_program_gave_and_none_for_other_rows() -> None:
    out, found = planned(FRAME, PROGRAM)
    code = rows.code_of_rows(found)
    assert answers(code) == by_program(out)
    assert list(code.columns) == ["product_2", "unit_number"]
    assert str(code.proof()) == "verified: 20 of 20 values equal, no model asked"
    assert out.attrs["plan"]["code"] == code.code.text


@pytest.mark.parametrize(
    "data",
    [
        FRAME[["product"]].dropna().replace("gone", "p"),
        pl.DataFrame({"product": ["p", "pp"] * 20}),
        [{"product": "p"}, {"product": "pp"}] * 20,
        pd.Series(["p", "pp"] * 20, name="product"),
    ],
)
def test_any_data_have_a_loop_of_their_own(data: Any) -> None:
    program = "answer(price_of(row.product) + 1)"
    out, found = planned(data, program, "What does it cost?")
    out = out.to_dicts() if isinstance(out, pl.DataFrame) else out
    code = rows.code_of_rows(found)
    assert "try" not in code.loop
    assert answers(code) == by_program(out)


@pytest.mark.parametrize(
    "program",
    [
        "answer(1.0 if judge(f'Is it? {row.product}', 'bool') else 2.0)",
        "def total():\n    answer(1.0)\ntotal()\nanswer(row.unit_number)",
        "one = row\nanswer(one.unit_number)",
        "price_of = price_of(product='p')\nanswer(price_of * row.unit_number)",
        "[answer(each) for each in [row.unit_number]]",
    ],
)
def test_a_program_that_is_no_plain_function_says_so(program: str) -> None:
    _, found = planned(FRAME, "answer(row.unit_number)")
    with pytest.raises(rows.CannotTranslate):
        rows.code_of_rows(replace(found, program=program))


def test_the_loop_goes_over_the_variable_of_the_data() -> None:
    program = "answer(price_of(row.product) + 1)"
    names = {"price_of": price_of, "parcels": FRAME.iloc[:2]}
    agent = Agent([price_of], model=Planner(program), namespace=names, context="none")
    out = agent.map(
        names["parcels"], "A {product}?", output_type=float, plan=True, store=None, verify=0
    )
    exec(out.attrs["plan"]["code"], names)
    assert names["answers"] == list(out["answer"]) == [2.0, 3.0]


def test_a_tool_with_side_effects_is_not_called_for_the_proof() -> None:
    _, found = planned(FRAME.iloc[:2], "answer(price_of(product=row.product))", pure=False)
    CALLS.clear()
    proof = rows.code_of_rows(found).proof()
    assert not proof.holds
    assert not CALLS


def test_a_wrong_function_is_not_proved() -> None:
    _, found = planned(FRAME, PROGRAM)
    wrong = replace(found, program=PROGRAM.replace("* row", "+ row"))
    assert not rows.code_of_rows(wrong).proof().holds


# ── in a notebook ─────────────────────────────────────────────────────────────────────────────────


CELL = '''\
import pandas as pd
from archytas_nb import tool

MASSES = {"Gentoo": 5076.0, "Adelie": 3700.5}
birds = pd.DataFrame({"species": ["Gentoo", "Adelie"] * 10, "share": range(20)})

@tool(pure=True)
def mean_mass(species: str) -> float:
    """The mean mass.

    Args:
        species: Its name
    """
    return MASSES[species]'''


@pytest.fixture
def book(shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Notebook:
    monkeypatch.chdir(tmp_path)
    notebook = Notebook(shell)
    notebook.run(CELL)
    shell.user_ns["scripted"] = Planner("answer(mean_mass(species=row.species) * row.share)")
    notebook.run(
        "%agent_map --on birds --out eaten --type float --plan --verify 0 -m scripted"
        " How much do {share} {species} weigh?"
    )
    return notebook


def test_the_code_of_a_map_goes_into_the_next_cell_and_runs_there(book: Notebook) -> None:
    assert str(book.run("%agent_code")) == "verified: 20 of 20 values equal, no model asked"
    [code] = book.next
    book.run(code)
    names = book.shell.user_ns
    assert names["answers"] == list(names["eaten"]["answer"])


def test_the_code_of_a_map_is_a_file_that_runs_by_itself(book: Notebook, tmp_path: Path) -> None:
    book.run("%agent_code weights.py")
    source = (tmp_path / "weights.py").read_text()
    check = f"{source}\nassert answers[:3] == [0.0, 3700.5, 10152.0], answers"
    subprocess.run([sys.executable, "-c", check], check=True, cwd=tmp_path)


def test_the_program_of_a_map_becomes_a_tool_with_a_test(book: Notebook) -> None:
    from archytas_nb.tools.toolbox import toolbox

    book.run("%agent_code --as weight")
    [cell] = book.next
    book.run(cell)
    book.run("test_weight()")
    assert [each.name for each in toolbox["weight"].parameters] == ["species", "share"]
    with pytest.raises(UsageError, match="already"):
        book.run("%agent_code --as weight")


def test_a_question_after_the_map_has_its_own_code(book: Notebook) -> None:
    book.ask("--type float How much?", ("mean_mass", {"species": "Adelie"}), ("final_answer", 1.0))
    book.run("%agent_code")
    assert "answer_row" not in book.next[-1]
