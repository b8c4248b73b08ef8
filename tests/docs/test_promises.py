"""Every promise of the pages on security, on your data and on programs names the tests that hold it."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel

ROOT = Path(__file__).parents[2]
WITH_GUARANTEES = ("docs/security.md", "docs/how-to/your-data.md", "docs/programs.md")
PAGES = (*WITH_GUARANTEES, "docs/how-to/values.md")
_ROW = re.compile(r"^\| (?P<promise>.+) \| (?P<tests>`tests/.+`) \|$", re.MULTILINE)


def plain(text: str) -> str:
    """A text of a page in one line, without marks of Markdown and targets of links."""
    return " ".join(re.sub(r"\]\([^)]*\)|\*\*|\[", "", text).split())


def rows(page: str) -> list[tuple[str, list[str]]]:
    """The promises of a page, each with the names of its tests."""
    table = (Path(__file__).parent / "promises.md").read_text("utf-8")
    [part] = [each for each in table.split("\n## ") if each.startswith(page)]
    found = [(row["promise"], re.findall("`([^`]+)`", row["tests"])) for row in _ROW.finditer(part)]
    assert len(found) == part.count("\n| ") - 1, "a row has another form than the others"
    return found


def guarantees(page: str) -> list[str]:
    """The paragraphs, bullets and rows of a page that promise something."""
    text = (ROOT / page).read_text("utf-8")
    text = text.partition("## Not guaranteed")[0]
    found = re.findall(r"^(?:- )?\*\*.+?(?=\n\n|\n- |\Z)", text, re.MULTILINE | re.DOTALL)
    return [plain(each) for each in found if "This is not a sandbox" not in each[:30]]


@pytest.mark.parametrize("page", PAGES)
def test_each_promise_is_on_its_page_and_its_tests_exist(page: str) -> None:
    said = plain((ROOT / page).read_text("utf-8"))
    assert rows(page)
    for promise, tests in rows(page):
        assert plain(promise) in said, f"{page} does not say: {promise}"
        for test in tests:
            file, _, name = test.partition("::")
            source = (ROOT / file).read_text("utf-8")
            assert re.search(rf"^(?:async )?def {name}\(", source, re.MULTILINE), test


@pytest.mark.parametrize("page", WITH_GUARANTEES)
def test_each_guarantee_has_a_promise_with_a_test(page: str) -> None:
    promises = [plain(promise) for promise, _ in rows(page)]
    found = guarantees(page)
    assert len(found) > 5
    for each in found:
        assert any(promise in each for promise in promises), f"no test is named for: {each}"


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


def test_undo_leaves_files_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"

    def write() -> str:
        """Write a file."""
        path.write_text("written")
        rows.append(3)
        return "ok"

    rows = [1]
    answered, _ = run(("write", None), tools=[write], undo=True)
    assert not answered.undo()
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
