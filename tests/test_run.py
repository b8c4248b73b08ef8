"""A run as a value: how it is displayed, printed and hidden."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.errors import CassetteMiss, ModelError
from archytas_nb.loop.events import Answered, Failed
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Kernel, live_kernel
from tests.trace.samples import SAMPLES

EVIL = "<script>alert(1)</script> ![x](http://example.com/x.png) **bold**"


def count(fruit: str) -> int:
    """Count the fruit in stock.

    Args:
        fruit: Which one
    """
    return 3


def run(*script: Any, **options: Any) -> Run:
    return nb.Agent([count], model=ScriptedModel(*script), namespace={}, **options).run(
        "How many apples?"
    )


def bundle(value: Run) -> dict[str, str]:
    data, _ = value._repr_mimebundle_()
    return data


def test_a_run_shows_its_answer_and_the_folded_steps() -> None:
    data = bundle(run(("count", {"fruit": "apples"}), ("final_answer", "There are **3**.")))
    assert data["text/plain"] == "There are **3**."
    assert data["text/markdown"] == "There are **3**."
    html = data["text/html"]
    answer = html.index('</details></div></details><div class="anb-answer"')
    assert (
        html.index("<details><summary")  # one folded line, the answer below it
        < html.index(">1 call · scripted</span></summary>")
        < html.index("<strong>count</strong>")
        < answer
    )
    assert re.search(r'<strong><span title="count[^"]*, step 1">3</span></strong>', html[answer:])


def test_escapes_the_models_text_when_it_is_displayed() -> None:
    html = bundle(run(("final_answer", EVIL)))["text/html"]
    assert "<script" not in html
    assert "<img" not in html
    assert "<strong>bold</strong>" in html


def test_a_run_as_json_contains_its_ending_and_events_without_live_objects() -> None:
    data = json.loads(
        json.dumps(run(("count", {"fruit": "apples"}), ("final_answer", "3")).to_json())
    )
    assert (data["question"], data["status"], data["answer"]) == (
        "How many apples?",
        "answered",
        "3",
    )
    assert data["usage"]["requests"] == 2
    [outcomes] = [event for event in data["events"] if event["event"] == "CallOutcomes"]
    assert outcomes["outcomes"][0]["text"] == "3"
    assert not {"value", "error"} & set(outcomes["outcomes"][0])


def test_an_incomplete_run_is_marked() -> None:
    value = run(("count", {"fruit": "apples"}), ("final_answer", "At least 3."), max_steps=1)
    data = bundle(value)
    assert "max_steps=1" in data["text/html"]
    assert data["text/plain"] == "At least 3."


def test_seconds_and_tokens_are_metadata_so_equal_runs_display_equally() -> None:
    one, two = (run(("final_answer", "Three.")) for _ in range(2))
    assert bundle(one) == bundle(two)
    _, metadata = two._repr_mimebundle_()
    assert {"seconds", "model"} <= set(metadata["archytas_nb"])
    assert metadata["archytas_nb"]["usage"]["requests"] == 1


def test_shows_only_the_requested_parts() -> None:
    value = run(("count", {"fruit": "apples"}), ("final_answer", "Three."))
    value.show("answer")
    assert "<details" not in bundle(value)["text/html"]
    value.show("nothing")
    assert value._ipython_display_() is None
    value.show("all")
    with pytest.raises(NotImplementedError):
        value._ipython_display_()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with live_kernel(Path(tmp_path_factory.mktemp("kernel"))) as kernel:
        kernel.run("%load_ext archytas_nb\nfrom archytas_nb.testing import ScriptedModel")
        yield kernel


def asked(kernel: Kernel, code: str) -> Any:
    kernel.run("s = ScriptedModel(('final_answer', 'Three.'))")
    return kernel.run(code.replace("%agent", "%agent --model s"))


def test_the_answer_is_shown_once_by_its_cell_and_again_when_the_run_is_evaluated(
    kernel: Kernel,
) -> None:
    cell = asked(kernel, "%agent How many?")
    assert (len(cell.displayed), cell.result, cell.printed) == (1, "", "")
    cell = kernel.run("_")
    assert (cell.displayed, cell.result) == ([], "Three.")
    assert "text/html" in cell.of("execute_result")[0]["data"]


def test_an_assigned_run_is_a_value_like_any_other(kernel: Kernel) -> None:
    cell = asked(kernel, "x = %agent How many?")
    assert (len(cell.displayed), cell.result) == (1, "")
    assert kernel.run("print(x)").printed == "Three.\n"
    assert kernel.run("x").result == "Three."
    assert kernel.run(
        "(x.answer, x.value, x.calls, x.usage.requests, len(x.events))"
    ).result.startswith("('Three.',")


def test_a_semicolon_hides_the_value_but_not_the_trace(kernel: Kernel) -> None:
    for line in ("%agent How many?;", "%agent How many;", "%agent --quiet How many;"):
        cell = asked(kernel, line)
        assert cell.status == "ok", cell.printed
        assert (len(cell.displayed), cell.result) == (0 if "quiet" in line else 1, "")


def test_a_quiet_question_shows_its_answer_as_the_value_of_the_cell(kernel: Kernel) -> None:
    cell = asked(kernel, "%agent --quiet How many?")
    assert (cell.displayed, cell.result) == ([], "Three.")
    assert "<details" not in cell.of("execute_result")[0]["data"]["text/html"]
    assert asked(kernel, "x = %agent --quiet How many?").messages
    assert kernel.run("x").result == "Three."


def test_a_failed_run_names_the_cause() -> None:
    """A reply that is missing in a cassette is not a failure of an endpoint."""
    for error, by in ((CassetteMiss("not recorded"), "cassette"), (ModelError("503"), "endpoint")):
        with pytest.raises(ModelError) as raised:
            nb.Agent([], ScriptedModel(error), namespace={}).run("Well?")
        assert raised.value.run is not None
        assert raised.value.run.ending == Failed(str(error), by=by)  # type: ignore[arg-type]


def test_a_step_of_a_run_has_its_program() -> None:
    """The parts of one that was written line by line, together; the calls that were made."""
    lines = Run("q", events=SAMPLES["lines"][1])
    first, second = lines.steps
    assert first.program.splitlines()[:2] == [
        'bills = average(species="Adelie")',
        "twice = 2 * bills",
    ]
    assert second.program == "answer(twice)"
    assert [call.name for call, _ in first.calls] == ["average", "note"]
    compared = Run("q", events=SAMPLES["program"][1])
    assert compared.steps[0].thought == "I compare the three species."
    assert len(compared.calls) == 3
    assert "ProgramEnded" in json.dumps(compared.to_json())


@pytest.mark.parametrize(
    "use",
    [
        lambda run: run + 1,
        lambda run: 1 + run,
        lambda run: run < 3,
        lambda run: -run,
        int,
        float,
        len,
        list,
        round,
        lambda run: run["answer"],
        lambda run: "x" in run,
        lambda run: [1, 2][run],
    ],
)
def test_an_operator_on_a_run_names_its_output(use: Callable[[Run], object]) -> None:
    run = Run("How many?", ending=Answered("5"))
    with pytest.raises(TypeError, match="output"):
        use(run)


def test_a_run_is_true_equal_to_itself_and_text_in_a_template() -> None:
    run = Run("How many?", ending=Answered("5"))
    assert run
    assert run == run
    assert f"{run}" == "5"
