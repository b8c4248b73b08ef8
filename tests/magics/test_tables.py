"""%agent about a table, with a small model: in a real kernel, in a copy that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live_kernel import Cell, Kernel, live_kernel

BEGIN = """
%load_ext archytas_nb
import pandas as pd
from archytas_nb.testing import ScriptedModel
class Small(ScriptedModel):
    is_small = continues_replies = has_grammars = True
def small(*programs):
    return Small(*programs, protocol="program")
ships = pd.DataFrame({"Depth (m)": [2.0, 4.0, 6.0], "port": ["Kiel", "Husum", "Kiel"]})
"""


def text_of(cell: Cell) -> str:
    """The text that a cell shows of a run."""
    return cell.result + "".join(str(each) for each in cell.displayed)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with live_kernel(tmp_path_factory.mktemp("tables")) as started:
        started.run(BEGIN)
        yield started


def test_a_question_about_a_table_is_computed_and_changes_nothing(kernel: Kernel) -> None:
    kernel.run("model = small(\"ships.pop('port')\\nanswer(ships['depth_m'].mean())\")")
    asked = kernel.run("%agent --model model How deep are the ships on average?")
    assert "4.0" in text_of(asked)
    assert kernel.run("print(list(ships))").printed.strip() == "['Depth (m)', 'port']"


def test_a_table_that_was_computed_is_assigned_under_a_name(kernel: Kernel) -> None:
    kernel.run("model = small(\"answer(ships.groupby('port').mean())\")")
    kernel.run(
        "%agent --model model --type DataFrame --out means Average the depth of ships by port"
    )
    assert kernel.run("print(means.loc['Kiel', 'Depth (m)'])").printed.strip() == "4.0"


def test_the_next_question_goes_on_with_what_was_computed(kernel: Kernel) -> None:
    kernel.run("model = small('deep = ships[ships[\"Depth (m)\"] > 3]\\nanswer(len(deep))',"
               " 'answer(\", \".join(deep.port))')")  # fmt: skip
    asked = kernel.run("%agent --model model How many ships are deeper than 3 m?")
    assert "2" in text_of(asked)
    assert "Husum, Kiel" in text_of(kernel.run("%agent --model model Which?"))
    assert kernel.run("print('deep' in globals())").printed.strip() == "False"
