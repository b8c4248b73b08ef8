"""The tool `cells`: sources, outputs and figures of the cells that were run, in a real kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.cells import reader as cells
from archytas_nb.kernel.look import offers_cells_tool
from archytas_nb.models.secrets import mask_in
from tests.live_kernel import Kernel, live_kernel


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel in which cells printed, displayed, drew, failed and asked."""
    with live_kernel(Path(tmp_path_factory.mktemp("cells"))) as kernel:
        for each in (
            "%load_ext archytas_nb",
            (
                "from archytas_nb.testing import ScriptedModel\n"
                "m = ScriptedModel(('final_answer', 'Forty-two.'), ('cells', {}), ('cells', {'numbers': [3]}),"
                " ('cells', {'containing': 'GENTOO'}), ('cells', {'numbers': [99]}), ('final_answer', 'ok'))"
            ),
            "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.title('Masses')\nprint('drawn')",
            "from IPython.display import Markdown, display\ndisplay(Markdown('**bold**'))",
            "password = 'canary-1'\nprint('Gentoo canary-2-of-a-token')\n'a result'",
            "gentoo['canary-2-of-a-token']",
            "import os\nos.environ['SERVICE_TOKEN'] = 'canary-2-of-a-token'\nprint('x' * 100_000)",
            "%agent -m m What is it?",
            "%agent -m m What was it?",
        ):
            kernel.run(each)
        yield kernel


def outcomes(kernel: Kernel) -> list[Any]:
    text = kernel.run(
        "[[outcome.text, len(outcome.images)] for _, outcome in _9.calls]"
    ).result  # _9: the run of the second question
    value: list[Any] = eval(text)
    return value


def test_cells_are_read_with_their_outputs_figures_and_errors(notebook: Kernel) -> None:
    newest, drawn, found, unknown = outcomes(notebook)
    text, pictures = newest
    assert text.startswith("[8]\n%agent -m m What is it?\nOutput:\nForty-two.\n\n[7]\n")
    assert len(text) <= cells.MAX_CELL_CHARS
    assert "characters left out" in text
    assert "canary" not in text
    assert "{SERVICE_TOKEN}" in text
    assert pictures == 0 or "a figure" in text

    text, pictures = drawn
    assert text.startswith("[3]\n%matplotlib inline\n")
    assert "Output:\ndrawn" in text
    assert "(a figure, 640 × 480, title 'Masses')" in text
    assert pictures == 1

    text, pictures = found
    assert text.index("[6]\ngentoo[") < text.index("[5]\npassword = {secret}")
    assert "NameError: name 'gentoo' is not defined" in text
    assert "Output:\nGentoo {SERVICE_TOKEN}" in text
    assert "Output:\n'a result'" in text
    assert "canary" not in text
    assert (
        unknown[0]
        == "ValueError: there is no cell with the number 99; the cells have the numbers 1 to 8"
    )


def test_what_a_cell_displays_belongs_to_it(notebook: Kernel) -> None:
    text = notebook.run(
        "from archytas_nb.cells import reader\nprint(reader.cells([4]))", wait=30
    ).printed
    assert text == (
        "[4]\nfrom IPython.display import Markdown, display\ndisplay(Markdown('**bold**'))\n"
        "Output:\n**bold**\n"
    )


@pytest.mark.parametrize("size", [100, 3_900, 5_000, 15_000])
def test_of_one_cell_it_says_how_many_characters_are_left_out(notebook: Kernel, size: int) -> None:
    notebook.run(f"print('w' * {size})")
    text = notebook.run(
        "from archytas_nb.cells import reader\nprint(reader.cells([len(In) - 2]))", wait=30
    ).printed
    output = text.partition("Output:\n")[2]
    left_out = re.search(r"… ([\d,]+) characters left out …", output)
    left = int(left_out[1].replace(",", "")) if left_out else 0
    assert output.count("w") + left == size
    assert (left > 0) is (size > cells.MAX_CELL_CHARS - 500)


def test_reading_changes_nothing(notebook: Kernel) -> None:
    text = notebook.run(
        "before = dict(get_ipython().history_manager.outputs)\n"
        "a = reader.cells(); b = reader.cells(containing='e'); c = reader.cells()\n"
        "print(a == c, before.keys() == get_ipython().history_manager.outputs.keys())"
    ).printed
    assert text == "True True\n"


def test_ten_thousand_cells_and_a_hundred_megabytes_are_bounded(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = shell.history_manager
    monkeypatch.setattr(
        manager, "input_hist_raw", ["", *(f"x = {n}" for n in range(10_000)), "now"]
    )

    printed = [SimpleNamespace(output_type="out_stream", bundle={"stream": ["y" * 1000] * 100_000})]
    monkeypatch.setattr(manager, "outputs", {10_000: printed, 9_998: printed}, raising=False)
    mask = mask_in({})
    for text in (
        cells.cells(mask=mask),
        cells.cells(containing="x = 1", mask=mask),
        cells.cells([10_000], mask=mask),
        cells.cells(containing="nowhere", mask=mask),
    ):
        assert len(text) <= cells.MAX_CELL_CHARS
    assert cells.cells([1], mask=mask) == "[1]\nx = 0"
    assert "numbers=[…]" in str(cells.cells(mask=mask))


def test_an_older_ipython_has_sources_and_values_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = SimpleNamespace(
        input_hist_raw=["", "print(1)\n[1, 2]", "now"], output_hist={1: [1, 2]}
    )
    monkeypatch.setattr(cells, "current_shell", lambda: SimpleNamespace(history_manager=manager))
    text = str(cells.cells())
    assert text.startswith("[1]\nprint(1)\n[1, 2]\nOutput:\n[1, 2]\n")
    assert "needs IPython 9" in text


@pytest.mark.parametrize(
    ("question", "offered"),
    [
        ("What does [3] do?", True),
        ("Erkläre In[3].", True),
        ("What did cell 3 print?", True),
        ("What is _3?", True),
        ("How many penguins are there?", False),
        ("What is values[0]?", True),
    ],
)
def test_a_small_model_has_it_only_for_a_question_that_names_a_cell(
    shell: InteractiveShell, question: str, offered: bool
) -> None:
    shell.run_cell("x = 1", store_history=True)
    shell.run_cell("%agent_history", store_history=True)
    assert offers_cells_tool(question, small=True) == offered
    assert offers_cells_tool(question, small=False)


def test_whether_it_is_offered_does_not_depend_on_the_cells_that_ran(
    shell: InteractiveShell,
) -> None:
    """A runner may run cells without history, and its requests are those of the recording."""
    questions = ("What is [3]?", "What is it?")
    before = [offers_cells_tool(each, small=small) for each in questions for small in (True, False)]
    assert before == [True, True, False, True]
    shell.run_cell("1 + 1", store_history=True)
    shell.run_cell("2 + 2", store_history=True)
    after = [offers_cells_tool(each, small=small) for each in questions for small in (True, False)]
    assert after == before
