"""A small model writes programs over the objects of the notebook, which run in a copy."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any, TypedDict

import pandas as pd
import pytest

from archytas_nb import Agent
from archytas_nb.errors import TaskFailed
from archytas_nb.loop import events as ev
from archytas_nb.run import Run
from archytas_nb.small.in_copy import PYTHON_LINES
from archytas_nb.testing import ScriptedModel
from archytas_nb.trace.fold import fold
from archytas_nb.trace.html import html
from archytas_nb.trace.text import plain
from archytas_nb.trace.view import doubt

SHIPS = {
    "Ship": ["Ida", "Uwe", "Ole", "Ada"],
    "Draught (m)": [2.0, None, 4.0, 6.0],
    "port": ["Kiel", "Husum", "Kiel", "Emden"],
}


class Small(ScriptedModel):
    """A small model whose endpoint continues replies."""

    is_small = True
    continues_replies = True
    has_grammars = True

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies, protocol="program")


def variables() -> dict[str, Any]:
    return {"ships": pd.DataFrame(SHIPS), "limit": 3}


def answered(*replies: Any, question: str = "How deep is a ship on average?", **given: Any) -> Run:
    """A run with these replies, of which each is used."""
    namespace = given.pop("namespace", None) or variables()
    with Small(*replies) as model:
        return Agent(given.pop("tools", []), model, namespace=namespace).run(question, **given)


def test_a_question_about_a_table_is_answered_by_a_program_over_it() -> None:
    with Small("answer(f\"{ships['Draught (m)'].mean():.1f} m\")") as model:
        run = Agent([], model, namespace=variables()).run("How deep is a ship on average?")
    assert (run.answer, run.status) == ("4.0 m", "answered")
    assert isinstance(run.ending, ev.Answered)
    assert run.ending.repairs == 0
    [asked] = model.asked
    *_, question, begun = asked.messages
    assert "'Draught (m)': float64, 1 missing, 2.0 to 6.0" in question["content"]
    assert (begun["role"], begun["content"], asked.is_continued) == (
        "assistant", "```python\n", True,
    )  # fmt: skip


def test_what_ran_stays_and_the_model_goes_on_behind_the_fault() -> None:
    with Small(
        "deep = ships[ships['Draught (m)'] > 3]\nnames = deep['Sihp'].tolist()\nanswer(names)",
        "answer(', '.join(deep['Ship']))",
    ) as model:
        run = Agent([], model, namespace=variables()).run("Which ships are deep?")
    assert run.answer == "Ole, Ada"
    assert isinstance(run.ending, ev.Answered)
    assert run.ending.repairs == 1
    begun = model.asked[1].messages[-1]["content"]
    assert "deep = ships[ships['Draught (m)'] > 3]\n# This failed: names" in begun
    assert "# there is no column 'Sihp'; there is 'Ship'" in begun
    assert (model.asked[0].temperature, model.asked[1].temperature) == (0.0, 0.7)


def test_the_last_program_is_a_new_one_with_the_fault_told() -> None:
    with Small(
        "deep = 1\nanswer(ships.depht)", "answer(ships.dpeth)", "answer(len(ships))"
    ) as model:
        run = Agent([], model, namespace=variables()).run("How many ships are there?")
    assert run.answer == "4"
    *_, question, begun = model.asked[2].messages
    assert begun["content"] == "```python\n"
    assert "dpeth" in question["content"]


def test_a_run_whose_programs_all_fail_has_no_answer() -> None:
    with Small("answer(1/0)", "answer(1/0)", "answer(1/0)") as model:
        agent = Agent([], model, namespace=variables())
        with pytest.raises(TaskFailed, match="ZeroDivisionError"):
            agent.run("How many ships are there?")


COMPUTES = "depth = ships['Draught (m)'].max()\n"


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        (COMPUTES + "answer(f'{depht} m')", "6.0"),
        (COMPUTES + "answer(f'{depth:d} m')", "6.0"),
        (COMPUTES + "port = 'Kiel'\nanswer(f'{port:.1f}: {depth}')", '{"port": "Kiel", "depth": 6.0}'),
        ("depths = ships.groupby('port')['Draught (m)'].max().dropna()\nanswer(depths + 'm')",
         '{"Emden": 6.0, "Kiel": 4.0}'),
    ],
)  # fmt: skip
def test_what_was_computed_is_given_with_a_doubt_if_only_the_answer_failed(
    program: str, answer: str
) -> None:
    run = answered(program, program, program)
    assert (run.answer, run.repairs) == (answer, 3)
    assert "none of them answered" in doubt(run.ending)


def test_what_was_computed_has_the_type_that_was_asked_for() -> None:
    program = COMPUTES + "answer(f'{depth} m')"
    assert answered(program, program, program, output_type=float).value == 6.0
    agent = Agent([], Small(program, program, program), namespace=variables())
    with pytest.raises(TaskFailed):
        agent.run("How deep is a ship?", output_type=list[int])


@pytest.mark.parametrize(
    "program",
    [
        "port = ships['port'].max()\ndepths = ships['Depth']\nanswer(depths)",  # only a part
        "least = len(ships)\ndeep = ships.dropna()\nanswer(deep['Depth'])",
        "depths = [10.5, 20.25]\ndepth = sum(depths)\nanswer(depht)",  # from nowhere
        "depth = ships[ships['port'] == 'Bonn']['Draught (m)'].max()\nanswer(depth)",
        "answer(ships)\nanswer(",
    ],
)
def test_what_is_no_value_of_the_question_is_not_given(program: str) -> None:
    agent = Agent([], Small(program, program, program), namespace=variables())
    with pytest.raises(TaskFailed):
        agent.run("How deep is a ship?")


def test_what_was_computed_before_the_time_was_over_is_the_text_of_the_run() -> None:
    model = Small(COMPUTES + "answer(f'{depht} m')", "while True:\n    pass")
    run = Agent([], model, namespace=variables(), max_seconds=3).run("How deep is a ship?")
    assert (run.answer, run.status, run.reason) == ("6.0", "stopped", "max_seconds=3")


def test_a_missing_number_is_a_fault() -> None:
    run = answered(
        "depth = float(ships[ships['port'] == 'Bonn']['Draught (m)'].mean())\nanswer(depth)",
        "answer(float(ships[ships['port'] == 'Kiel']['Draught (m)'].mean()))",
    )
    assert run.answer == "3.0"
    [fault] = [each.error for each in run.events if isinstance(each, ev.ProgramEnded) if each.error]
    assert "nan" in fault.text


FEW = "many = len(ships)\nfew = ships.head(1)['Draught (m)'].std()\ndepth = ships['Draught (m)'].max()\n"


def test_a_missing_number_on_which_the_answer_does_not_rest_is_none() -> None:
    run = answered(FEW + "answer(f'{depth:.1f} m')")
    assert (run.answer, run.repairs) == ("6.0 m", 0)


@pytest.mark.parametrize("rest", ["answer(f'{depth}, {few}')", "is_few = few < 2\nanswer(f'{is_few}')",
                                  "found = [depth]\nfound.append(few > 1)\nanswer(found)"])  # fmt: skip
def test_a_missing_number_on_which_the_answer_rests_is_a_fault(rest: str) -> None:
    with Small(FEW + rest, "few = len(ships)\nanswer(few)") as model:
        run = Agent([], model, namespace=variables()).run("How deep is a ship?")
    assert (run.answer, run.repairs) == ("4", 1)
    # What came after the missing number is not what ran.
    begun = model.asked[1].messages[-1]["content"]
    assert begun.startswith("```python\nmany = len(ships)\n# This failed: few = ")


def test_an_answer_that_lacks_a_part_is_given_in_doubt_where_no_program_gives_another() -> None:
    run = answered(FEW + "answer(f'{depth} m, {few}')", "answer(1/0)")
    assert (run.answer, run.repairs, run.status) == ("6.0 m, nan", 2, "answered")
    assert "few is nan" in doubt(run.ending)
    run = answered(FEW + "answer(few)", "answer(1/0)", "answer(1/0)")
    assert "nan" not in run.answer
    assert "none of them answered" in doubt(run.ending)


PARTS = "depth = ships['Draught (m)'].max()\nodd = ships['none'].max()\nanswer({})"


def test_a_part_that_fails_is_missing_where_no_program_gives_it() -> None:
    run = answered(PARTS.format("f'{depth}; {odd:.1f}'"), "answer(1/0)", "answer(1/0)")
    assert (run.answer, run.repairs, run.status) == ("6.0; nan", 3, "answered")
    assert "left out: odd = ships['none'].max() (KeyError)" in doubt(run.ending)
    assert "odd = float('nan')" in run.code()
    for rest in ("f'{odd:.1f}'", "f'{odd + depth}'", "[odd, depth][2]"):
        with pytest.raises(TaskFailed):
            answered(PARTS.format(rest), "1/0", "1/0")
    with pytest.raises(TaskFailed):
        answered("odd = ships.none\ndepth = 6.5\nanswer(f'{depth}')", "1/0", "1/0")


CORRELATION = "r, related = stats.pearsonr(ships.index, ships['Draught (m)'].fillna(1))\n"
BY_NAME = "answer(f'r={r:.2f}; related={related}')"


def test_a_part_of_a_result_that_has_another_name_is_computed_under_this_one() -> None:
    pytest.importorskip("scipy")
    with Small(CORRELATION + BY_NAME, "'yes' if pvalue < 0.05 else 'no'\n" + BY_NAME) as model:
        run = Agent([], model, namespace=variables()).run("Are draught and place related?")
    assert (run.answer, run.repairs) == ("r=0.87; related=no", 0)
    begun = model.asked[1].messages[-1]["content"]
    assert "r, pvalue = stats.pearsonr(" in begun
    assert begun.endswith("pvalue is not related\n\nrelated = ")


def test_a_result_under_another_name_is_answered_in_doubt_where_no_program_gives_another() -> None:
    pytest.importorskip("scipy")
    run = answered(CORRELATION + BY_NAME, "1/0", "answer(1/0)")
    assert run.answer.startswith("r=0.87; related=0.1")
    assert "pvalue is not related" in doubt(run.ending)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("most={most:.1f} m, {len(ships)}", "most=6.0 m, 4"),
        ("most={most:.1f} m", "most=6.0 m"),
        ("{most} of {ships.size}", "6.0 of 12"),
        ("{nothing}: {most}", "{nothing}: {most}"),
        ("{'a': 1}", "{'a': 1}"),
        ("{} of {most", "{} of {most"),
    ],
)
def test_fields_of_variables_in_an_answer_get_their_values(text: str, answer: str) -> None:
    run = answered(f"most = ships['Draught (m)'].max()\nanswer({text!r})")
    assert run.answer == answer


FORM = "How deep are ships?\nAnswer with: most={…} m; number={…}"


def test_an_answer_without_the_form_of_the_question_is_asked_for_in_it() -> None:
    with Small(
        "number = len(ships)\nanswer(ships)", "ships['Draught (m)'].max()} m; number={number}\")"
    ) as model:
        run = Agent([], model, namespace=variables()).run(FORM)
    assert (run.answer, run.repairs) == ("most=6.0 m; number=4", 0)
    assert model.asked[1].messages[-1]["content"].endswith('\nanswer(f"most={')
    run = answered("answer(len(ships))", '1/0}")', "1/0", question=FORM)
    assert run.answer == "4"
    assert "has not the form most={…} m; number={…}" in doubt(run.ending)


def test_a_tool_is_not_called_after_a_missing_number() -> None:
    calls = []

    def note(text: str) -> str:
        """Note a text."""
        calls.append(text)
        return text

    answered(FEW + "note('first')\nanswer(few)", "note('second')\nanswer(len(ships))", tools=[note])
    assert calls == ["second"]


def test_numbers_that_come_from_nowhere_are_no_answer() -> None:
    run = answered(
        "depths = [10.5, 20.25]\nanswer(sum(depths) / 2)",
        "answer(ships['Draught (m)'].max())",
    )
    assert run.answer == "6.0"
    assert run.ending == ev.Answered("6.0", repairs=1)


def test_invented_data_under_the_name_of_a_variable_is_no_answer() -> None:
    run = answered(
        "ships = pd.DataFrame({'Draught (m)': [10.5, 20.25]})\n"
        "ships['half'] = ships['Draught (m)'] / 2\nanswer(ships['half'].sum())",
        "answer(ships['Draught (m)'].max())",
    )
    assert (run.answer, run.repairs) == ("6.0", 1)


def test_a_list_that_a_loop_fills_from_data_comes_from_data() -> None:
    run = answered(
        "deep = []\nfor each in ships['Draught (m)'].dropna():\n"
        "    if each > 3.5:\n        deep.append(each)\nanswer(sum(deep) / len(deep))"
    )
    assert (run.answer, run.repairs) == ("5.0", 0)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ("f'{port}: {deep:.1f}'", "Emden: 6.0\nKiel: 4.0"),
        ("port", '["Emden", "Kiel"]'),
    ],
)
def test_a_loop_that_answers_in_each_pass_answers_with_all(given: str, answer: str) -> None:
    run = answered(
        "for port, rows in ships.groupby('port'):\n"
        f"    deep = rows['Draught (m)'].max()\n    answer({given})",
        namespace={"ships": pd.DataFrame(SHIPS).dropna()},
    )
    assert run.answer == answer


def test_a_loop_that_looks_for_one_answer_ends_with_it() -> None:
    run = answered(
        "for ship, deep in zip(ships['Ship'], ships['Draught (m)']):\n"
        "    if deep > 3:\n        answer(ship)"
    )
    assert run.answer == "Ole"


@pytest.mark.parametrize("value", ["float('inf')", "f'ratio=-inf'", "f'mean: {float(\"nan\")}'"])
def test_a_number_that_is_none_is_no_answer(value: str) -> None:
    run = answered(f"least = float('inf')\nanswer({value})", "answer(len(ships))")
    assert (run.answer, run.repairs) == ("4", 1)


@pytest.mark.parametrize("before", ["    ", " ", "\n  ", "\t"])
def test_a_program_may_begin_with_an_indentation(before: str) -> None:
    whole = "\n".join(
        f"{before[-4:].strip(chr(10))}{each}" for each in ("n = len(ships)", "answer(n)")
    )
    for each in (whole, f"{before}n = len(ships)\nanswer(n)"):
        assert answered(each).repairs == 0


def test_a_program_without_an_answer_is_continued_with_it() -> None:
    with Small("depth = ships['Draught (m)'].max()", "depth)") as model:
        run = Agent([], model, namespace=variables()).run("How deep is the deepest ship?")
    assert run.answer == "6.0"
    assert model.asked[1].messages[-1]["content"].endswith("answer(")


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("depth = ships['Draught (m)'].max()\nprint(depth)", "6.0"),
        ("n = len(ships)\nprint(f'ships: {n}')\nprint('deepest:', ships['Draught (m)'].max())",
         "ships: 4\ndeepest: 6.0"),
    ],
)  # fmt: skip
def test_what_a_program_prints_at_its_end_is_its_answer(program: str, answer: str) -> None:
    run = answered(program)
    assert (run.answer, run.repairs) == (answer, 0)


@pytest.mark.parametrize(
    "program",
    [
        "print(ships.head())",
        "print(len(ships))\ndeep = ships.dropna()\nprint(len(deep))",
        "for each in ships['Ship']:\n    print(each)",
    ],
)
def test_a_program_that_looks_at_data_is_asked_for_its_answer(program: str) -> None:
    assert answered(program, "len(ships))").answer == "4"


def test_numbers_from_nowhere_are_no_answer_if_they_are_printed() -> None:
    run = answered("print(10.5 + 20.25)", "answer(len(ships))")
    assert (run.answer, run.repairs) == ("4", 1)


def test_a_program_that_was_cut_off_goes_on() -> None:
    cut = ev.ModelReply("depth = ships['Draught (m)'].max()\nmore = ships['Dra", finish="length")
    run = answered(cut, "answer(depth)")
    assert run.answer == "6.0"


def test_lines_of_a_program_begin_as_those_of_python_do_but_for_the_rest_of_one() -> None:
    with Small("depth = 4", "depth)") as model:
        run = Agent([], model, namespace=variables()).run("How many ships? 4")
    assert run.answer == "4"
    assert [each.grammar for each in model.asked] == [PYTHON_LINES, ""]


@pytest.mark.parametrize("name", ["inspect", "textwrap", "ast"])
def test_the_grammar_of_programs_takes_python_as_it_is_written(name: str) -> None:
    source = inspect.getsource(importlib.import_module(name))
    first = re.compile(r"""[A-Za-z_#()\[\]{}'"]|[ \t]+[^@ \t\n]""")
    assert first.pattern.split("|")[0] in PYTHON_LINES
    lines = [each for each in source.splitlines() if each.strip() and each.strip()[0] != "@"]
    others = [each for each in lines if not first.match(each)]
    assert len(others) < len(lines) / 500, others
    assert not any(map(first.match, ["@mean[3]", "    @mean[3]", "-> 3", "1. Group", "> x", "* x"]))


def test_data_that_is_not_fit_is_made_again() -> None:
    with Small(
        "import math\nlimit = 3\ndepths = ships['port']\n"
        "whole = [int(each) for each in depths]\nanswer(sum(whole))",
        "depths = ships['Draught (m)'].dropna()\n"
        "whole = [int(each) for each in depths]\nanswer(sum(whole))",
    ) as model:
        run = Agent([], model, namespace=variables()).run("Sum the draughts of the ships")
    assert run.answer == "12"
    begun = model.asked[1].messages[-1]["content"]
    assert begun.startswith("```python\nimport math\nlimit = 3\n# This failed: whole = ")
    assert "depths: Series of str, 4 values: 0: 'Kiel'" in begun
    assert "depths = ships" not in begun


def test_rows_whose_values_are_missing_are_left_out_where_nothing_else_runs() -> None:
    run = answered(
        "import numpy\ndepths = ships['Draught (m)']\n"
        'answer(f"{numpy.percentile(depths, 50):.1f}")'
    )
    assert (run.answer, run.repairs) == ("4.0", 0)
    said = "# rows with missing values in 'Draught (m)' are left out\n"
    assert f"import numpy\n{said}depths = ships.dropna(" in run.steps[-1].program
    assert said[2:-1] in doubt(run.ending)
    assert doubt(run.ending) in plain(fold(run.question, run.events))


def test_an_answer_from_no_rows_says_so() -> None:
    program = "late = ships[ships['port'] == 'Bonn']\nanswer(len({}))"
    run = answered(program.format("late"))
    doubts = ("no value of ships['port'] is 'Bonn'", "late has no rows")
    assert (run.answer, run.ending) == ("0", ev.Answered("0", "", 0, doubts))
    assert "late has no rows" in doubt(run.ending)
    assert "no rows" not in doubt(answered(program.format("ships").replace("Bonn", "Kiel")).ending)


def test_a_program_that_calls_a_tool_does_not_run_again() -> None:
    calls = []

    def note(text: str) -> str:
        """Note a text."""
        calls.append(text)
        return text

    run = answered(
        "note('go')\ndepth = int(ships['Draught (m)'].iloc[1])\nanswer(depth)",
        "answer(int(ships['Draught (m)'].max()))",
        tools=[note],
    )
    assert (run.answer, run.repairs, calls) == ("6", 1, ["go"])


def test_a_cure_is_said_in_the_code_that_the_person_sees() -> None:
    run = answered("answer(float(data['draught_m'].max()))")
    assert run.answer == "6.0"
    [step] = run.steps
    assert "# there is no data: its columns are those of ships\n" in step.program
    assert "# the column is 'Draught (m)' for 'draught_m'\n" in step.program
    shown = plain(fold(run.question, run.events))
    assert "data = ships.copy()" in shown


def test_answers_of_a_type_are_the_values_themselves() -> None:
    class Found(TypedDict):
        name: str
        depth: float

    run = answered(
        "deepest = ships.loc[ships['Draught (m)'].idxmax()]\n"
        "answer({'name': deepest['Ship'], 'depth': deepest['Draught (m)']})",
        output_type=Found,
    )
    assert run.value == {"name": "Ada", "depth": 6.0}


def test_an_answer_of_the_wrong_type_is_corrected_behind_what_ran() -> None:
    run = answered(
        "depth = ships['Draught (m)'].max()\nanswer(f'{depth} m')",
        "answer(depth)",
        output_type=float,
    )
    assert run.value == 6.0


def test_a_table_can_be_the_answer() -> None:
    run = answered(
        "answer(ships.dropna().reset_index(drop=True))",
        question="ships without the missing ones",
        output_type=pd.DataFrame,
    )
    assert list(run.value["Ship"]) == ["Ida", "Ole", "Ada"]


def test_tools_are_functions_of_the_program() -> None:
    asked: list[str] = []

    def tide(port: str) -> float:
        """The height of the tide in a port, in metres."""
        asked.append(port)
        return {"Kiel": 0.1, "Husum": 3.5, "Emden": 3.2}[port]

    run = answered(
        "deep = ships.dropna()\n"
        "heights = {each: tide(each) for each in deep['port'].unique()}\n"
        "answer(max(heights, key=heights.get))",
        question="Which port of the deepest ships has the highest tide?",
        tools=[tide],
    )
    assert run.answer == "Emden"
    assert asked == ["Kiel", "Emden"]
    assert [call.name for call, _ in run.calls] == ["tide", "tide"]


def test_a_tool_that_fails_fails_in_the_program() -> None:
    def tide(port: str) -> float:
        """The height of the tide."""
        raise ValueError(f"no tide in {port}")

    run = answered(
        "try:\n    height = tide(port='Kiel')\nexcept ValueError as error:\n"
        "    height = 0\nanswer(float(ships['Draught (m)'].max()) + height)",
        question="How deep is the port of the ships?",
        tools=[tide],
    )
    assert run.answer == "6.0"


def test_a_question_that_names_no_table_is_asked_as_before() -> None:
    def tide(port: str) -> float:
        """The height of the tide."""
        return 0.1

    with Small("answer(f\"{tide(port='Kiel')} metres\")") as model:
        run = Agent([tide], model, namespace=variables()).run("How high is the tide in Kiel?")
    assert run.answer == "0.1 metres"
    assert "ships" not in str(model.asked[0].messages)


def test_a_later_question_uses_what_the_program_before_it_made() -> None:
    namespace = variables()
    with Small(
        "deep = ships[ships['Draught (m)'] > 3]\nanswer(len(deep))",
        "answer(', '.join(deep['Ship']))",
    ) as model:
        agent = Agent([], model, namespace=namespace)
        assert agent.run("How many ships are deeper than 3 m?").answer == "2"
        assert agent.run("Which?").answer == "Ole, Ada"
    assert "deep = ships[ships['Draught (m)'] > 3]" in str(model.asked[1].messages)
    assert set(namespace) == {"ships", "limit"}


def test_a_question_may_be_about_several_tables() -> None:
    namespace = {**variables(), "tides": pd.DataFrame({"port": ["Kiel", "Emden"], "high": [0, 3]})}
    with Small("answer(int(ships.merge(tides, on='port')['high'].sum()))") as model:
        run = Agent([], model, namespace=namespace).run("Sum the tides of all ships")
    assert run.answer == "3"
    assert "tides: DataFrame 2 × 2" in str(model.asked[0].messages)


def test_values_that_must_stay_are_not_sent() -> None:
    model = Small("answer(4)")
    agent = Agent([], model, namespace=variables(), values="none")
    assert agent.run("How many ships?").answer == "4"
    assert "Husum" not in str(model.asked)
    assert "2.0 to 6.0" not in str(model.asked)


def test_a_program_that_takes_too_long_is_stopped() -> None:
    model = Small("while True:\n    pass", "answer(4)", "answer(4)")
    agent = Agent([], model, namespace=variables(), max_seconds=3)
    run = agent.run("How many ships?")
    assert run.status == "stopped"


def test_nothing_is_written_into_the_notebook() -> None:
    namespace = variables()
    before = namespace["ships"].copy()
    run = answered(
        "ships['depth'] = ships.pop('Draught (m)')\nships.drop(0, inplace=True)\nlimit = 9\n"
        "del ships['port']\nanswer(len(ships))",
        namespace=namespace,
    )
    assert run.answer == "3"
    pd.testing.assert_frame_equal(namespace["ships"], before)
    assert namespace == {"ships": namespace["ships"], "limit": 3}


def test_a_figure_is_shown_below_the_answer() -> None:
    run = answered(
        "import matplotlib.pyplot as plt\nplt.plot(ships['Draught (m)'])\nplt.title('Depths')\n"
        "answer('The depths of the ships.')",
        question="Plot the depths of the ships",
    )
    [end] = [each for each in run.events if isinstance(each, ev.ProgramEnded)]
    assert len(end.figures) == 1
    view = fold(run.question, run.events)
    assert view.figures == end.figures
    assert "[1 figure]" in plain(view)
    assert f"data:image/png;base64,{end.figures[0][:40]}" in html(view)
