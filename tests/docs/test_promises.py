"""Every promise of a page names the tests that hold it, and what the code decides is generated into the pages."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel
from tests.docs.promises import LISTS, ROOT, Promise, manifest, pages, plain, written

MANIFEST = manifest()
PAGES = tuple(pages(MANIFEST))
WITH_GUARANTEES = ("docs/how-to/your-data.md", "docs/programs.md")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def guarantees(page: str) -> list[str]:
    """The paragraphs, bullets and rows of a page that promise something."""
    text = (ROOT / page).read_text("utf-8")
    text = text.partition("## Not guaranteed")[0]
    found = re.findall(r"^(?:- )?\*\*.+?(?=\n\n|\n- |\Z)", text, re.MULTILINE | re.DOTALL)
    return [plain(each) for each in found if "This is not a sandbox" not in each[:30]]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_generated_parts_of_a_page_are_up_to_date(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text == written(text, MANIFEST), "out of date: run `python -m tests.docs.promises`"


def test_each_promise_has_a_name_of_its_own() -> None:
    names = Counter(each.id for each in MANIFEST.promises)
    assert names.most_common(1)[0][1] == 1


@pytest.mark.parametrize("promise", MANIFEST.promises, ids=lambda each: each.id)
def test_each_promise_is_on_its_page_and_its_tests_exist(promise: Promise) -> None:
    assert plain(promise.sentence) in plain((ROOT / promise.page).read_text("utf-8"))
    assert promise.tests
    for test in promise.tests:
        file, _, name = test.partition("::")
        source = (ROOT / file).read_text("utf-8")
        assert re.search(rf"^(?:async )?def {name}\(", source, re.MULTILINE), test


def test_every_sentence_under_guarantees_is_generated_from_a_promise() -> None:
    """A sentence that was written by hand there would be a promise without a test."""
    page = (ROOT / "docs/security.md").read_text("utf-8")
    part = page.partition("## Guarantees")[2].partition("## Not guaranteed")[0]
    blocks = [each for each in re.sub(r"(?s)```.*?```", "", part).split("\n\n") if each.strip()]
    by_hand = [each for each in blocks if not each.lstrip().startswith("<!-- ")]
    assert not by_hand
    groups = set(re.findall(r"<!-- promises: ([\w-]+) -->", part))
    assert groups == set(MANIFEST.titles) == {each.group for each in MANIFEST.promises} - {None}


@pytest.mark.parametrize("page", WITH_GUARANTEES)
def test_each_guarantee_has_a_promise_with_a_test(page: str) -> None:
    promises = [plain(each.sentence) for each in MANIFEST.promises if each.page == page]
    found = guarantees(page)
    assert len(found) > 5
    for each in found:
        assert any(promise in each for promise in promises), f"no test is named for: {each}"


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_words_for_all_that_the_code_knows_and_for_nothing_else(name: str) -> None:
    assert set(MANIFEST.words[name]) == set(LISTS[name]())
    marked = [path for path in PAGES if f"<!-- list: {name} -->" in path.read_text("utf-8")]
    assert marked


def run(*script: Any, **options: Any) -> tuple[nb.Run[Any], dict[str, Any]]:
    """A question about one list, whose model calls tools by script."""
    names: dict[str, Any] = {"rows": [1, 2]}
    model = ScriptedModel(*script, ("final_answer", "Done."))
    agent = nb.Agent(namespace=names, model=model, **options)
    run = agent.run("What is in rows?")
    names["sent"] = str(model.asked)
    return run, names


def test_without_context_nothing_of_the_variables_is_sent_or_can_be_read() -> None:
    for name in ("variables", "look"):
        answered, names = run((name, None), tools=[], context="none")
        [(_, outcome)] = answered.calls
        assert outcome.status == "error"
        assert "list" not in outcome.text
        assert "rows: list" not in names["sent"]
    assert "rows: list" in run(tools=[], context="mentioned")[1]["sent"]


def test_undo_lists_a_program_that_it_cannot_undo(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"

    def write() -> str:
        """Write a file."""
        code = f"open({str(path)!r}, 'w').write('written')"
        subprocess.run([sys.executable, "-c", code], check=True)
        rows.append(3)
        return "ok"

    rows = [1]
    answered, _ = run(("write", None), tools=[write], undo=True)
    [left] = answered.undo()
    assert left.name.startswith(sys.executable)
    assert path.read_text() == "written"


def test_an_object_that_no_variable_leads_to_is_not_watched() -> None:
    hidden = threading.local()
    hidden.rows = [1]

    def change() -> str:
        """Change it."""
        hidden.rows.append(2)
        return "ok"

    answered, _ = run(("change", None), tools=[change], undo=True)
    assert not answered.diff
    answered.undo()
    assert hidden.rows == [1, 2]


def test_a_change_of_a_thread_after_its_call_is_not_in_the_diff() -> None:
    go, done = threading.Event(), threading.Event()
    names: dict[str, Any] = {"rows": [1]}

    def later() -> str:
        """Start a thread."""

        def change() -> None:
            go.wait(30)
            names["rows"].append(2)
            done.set()

        threading.Thread(target=change, daemon=True).start()
        return "ok"

    model = ScriptedModel(("later", None), ("final_answer", "Done."))
    answered = nb.Agent([later], model=model, namespace=names, undo=True).run("Go!")
    go.set()
    assert done.wait(30)
    assert not answered.diff.changes
    assert names["rows"] == [1, 2]
