"""The tasks measure something: a script that solves one passes its check, one that only claims to does not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from archytas_nb.testing import ScriptedModel
from benchmarks.success.checks import numbers
from benchmarks.success.report import as_json, compared, table
from benchmarks.success.runner import Settings, attempt
from benchmarks.success.task import KINDS, REGISTRY, Scene, Task
from benchmarks.success.tasks import selected
from benchmarks.success.tasks.blind_checks import spoken

TASKS = list(REGISTRY.values())
HALVED = [kind for kind in KINDS if kind != "code"]
"""Code is reported only: nothing is tuned for it."""
over_kinds = pytest.mark.parametrize("kind", KINDS)


def of(kind: str) -> list[Task]:
    """The tasks of a kind."""
    return [task for task in TASKS if task.kind == kind]


def scripted(task: Task, scripts: Any, protocol: str = "react") -> Any:
    return attempt(
        task, ScriptedModel(*[reply for script in scripts for reply in script], protocol=protocol)
    )


@over_kinds
@pytest.mark.parametrize("protocol", ["react", "native"])
def test_every_task_is_solved_by_its_oracle_in_both_wire_forms(kind: str, protocol: str) -> None:
    results = {task.name: scripted(task, task.build().oracle, protocol) for task in of(kind)}
    assert {name: result.fault for name, result in results.items() if not result.solved} == {}


@over_kinds
def test_no_task_is_solved_by_claiming_to_have_solved_it(kind: str) -> None:
    solved = []
    for task in of(kind):
        scene = task.build()
        claims = [[("final_answer", scene.liar)] * 2 for _ in scene.questions]
        # The second copy is for a claim that is doubted.
        model = ScriptedModel(*[reply for claim in claims for reply in claim][: 2 * len(claims)])
        solved += [task.name] * attempt(task, model).solved
    assert solved == []


@pytest.mark.parametrize("claim", ["It is done, and all went well.", "It is as high as it gets."])
@over_kinds
def test_no_task_is_solved_by_a_claim_without_numbers(kind: str, claim: str) -> None:
    solved = []
    for task in of(kind):
        scene = task.build()
        if scene.output_type is None:
            model = ScriptedModel(*[("final_answer", claim)] * len(scene.questions))
            solved += [task.name] * attempt(task, model).solved
    assert solved == []


@over_kinds
def test_no_task_is_solved_by_calling_each_tool_wrongly(kind: str) -> None:
    solved = []
    for task in of(kind):
        scene = task.build()
        wrong = [(tool.__name__, {"nonsense": 1}) for tool in scene.tools]
        script = [*wrong, *[("final_answer", scene.liar)] * 2]
        solved += [task.name] * attempt(task, ScriptedModel(*script * len(scene.questions))).solved
    assert solved == []


@over_kinds
def test_a_scene_is_fresh_each_time_it_is_built(kind: str) -> None:
    for task in of(kind):
        assert scripted(task, task.build().oracle).solved, task.name
        assert scripted(task, task.build().oracle).solved, task.name


def test_the_kinds_are_those_of_all_tasks() -> None:
    assert sum(len(of(kind)) for kind in KINDS) == len(TASKS)


def test_an_action_that_is_done_twice_does_not_solve_a_task_that_wants_it_once() -> None:
    once = [each for each in TASKS if each.kind == "exactly once"]
    for task in once:
        [script] = task.build().oracle
        twice = [call for call in script if call[0] != "final_answer"] * 2 + [script[-1]]
        result = attempt(task, ScriptedModel(*twice), Settings(bare=True))
        assert not result.solved, task.name


def test_the_guard_keeps_a_repeated_action_from_being_done_twice() -> None:
    task = REGISTRY["one_transfer"]
    [script] = task.build().oracle
    assert scripted(task, [[script[0], *script]]).solved


def test_there_are_enough_tasks_and_every_kind_is_halved() -> None:
    assert len(selected()) == 176 + 20
    counts = Counter((each.kind, each.half) for each in REGISTRY.values())
    for kind in HALVED:
        assert counts[kind, "choose"] == counts[kind, "report"] >= 2, kind
    assert [each.half for each in selected(kinds=["code"])] == ["report"] * 20


def test_the_blind_half_has_every_kind_and_many_languages() -> None:
    blind = selected("blind")
    counts = Counter(each.kind for each in blind)
    for kind in HALVED:
        assert counts[kind] >= 4, kind
    languages = Counter(each.name[:3] for each in blind)
    assert all(languages[each] >= 5 for each in ("de_", "fr_", "es_", "zh_", "ja_")), languages
    assert len(blind) >= 60


def test_the_blind_half_is_run_only_where_it_is_named() -> None:
    assert {each.half for each in selected()} == {"choose", "report"}
    assert {each.half for each in selected(kinds=["compare"])} == {"choose", "report"}
    assert [each.half for each in selected(names=["most_urgent_ticket"])] == ["blind"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Es sind 1.234,5 Liter.", 1234.5),
        ("Il y a 1 234 places.", 1234),
        ("一共48箱。", 48),
        ("全部で４８個です。", 48),
        ("Der Druck beträgt 2,4 bar.", 2.4),
    ],
)
def test_a_number_counts_in_the_spelling_of_its_language(text: str, expected: float) -> None:
    assert expected in spoken(text)


def test_a_fault_of_the_reporting_half_tells_nothing_that_one_could_tune_by() -> None:
    task = REGISTRY["pages_of_a_book"]
    result = attempt(task, ScriptedModel(*[("final_answer", "About 400 pages.")] * 2))
    assert (result.solved, result.fault, result.transcript) == (False, "not solved", [])


def test_a_task_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no_such"):
        selected(names=["no_such"])


def test_numbers_are_found_however_they_are_written() -> None:
    assert numbers("1,234 and −5.5, three of B12") == [1234, -5.5, 3]


def test_results_become_a_table_and_json_that_say_what_changed() -> None:
    task = REGISTRY["stock_of_pears"]
    good = scripted(task, task.build().oracle)
    bad = attempt(task, ScriptedModel(*[("final_answer", "Some.")] * 2))
    assert "| one call | 1/2 | 1.5 | 0.5 |" in table([good, bad])
    assert '"solved": 1' in as_json([good, bad], {"model": "m"})
    assert "transcript" not in as_json([good], {})
    assert "gained 1: stock_of_pears" in compared([bad.to_json()], [good])
    assert "lost 1: stock_of_pears" in compared([good.to_json()], [bad])


def test_a_scene_says_what_it_asks() -> None:
    for task in REGISTRY.values():
        scene = task.build()
        assert isinstance(scene, Scene)
        assert len(scene.oracle) == len(scene.questions), task.name
