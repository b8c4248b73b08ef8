"""``%agent_map`` asks about each row of an expression's value and puts the frame into a variable."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb import ConfigurationError
from tests.batch.shop import Shop
from tests.batch.test_map import Label
from tests.batch.test_together import PROMPT, Clerk, words
from tests.servers.server import Server


@pytest.fixture
def shop(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    shop = Shop()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    shell.user_ns |= {
        "df": pd.DataFrame({"text": ["row 1", "row 2"]}, index=["a", "b"]),
        "Label": Label,
    }
    with Server(then=shop) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield shop


def run(shell: InteractiveShell, line: str) -> Any:
    return shell.run_line_magic("agent_map", line)


def test_puts_the_frame_into_a_variable_and_replays_without_a_model(
    shell: InteractiveShell, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = '--on df["text"] --type Label --out labels --workers 2 --budget "90000 tokens" Label it.'
    assert run(shell, line) is None
    labels = shell.user_ns["labels"]
    assert list(labels.index) == ["a", "b"]
    assert list(labels["number"]) == [1, 2]
    assert Path("cassettes/map.sqlite").exists()
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("ARCHYTAS_NB_CASSETTE_MODE", "replay")
    run(shell, line)
    pd.testing.assert_frame_equal(shell.user_ns["labels"], labels)
    monkeypatch.setenv("ARCHYTAS_NB_CASSETTE", "cassettes/none.jsonl")
    run(shell, line)
    with pytest.raises(ConfigurationError):
        run(shell, "--on df Label {text} anew.")
    assert shop.paid.total() == 2


def test_an_empty_prompt_is_refused_and_an_interrupt_shows_no_frames_of_ours(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="the prompt is empty"):
        run(shell, "--on [1]")

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("archytas_nb.batch.map.mapped", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        run(shell, "--on [1] Label it.")
    assert hasattr(raised.value, "_render_traceback_")


def test_a_cell_with_columns_in_the_prompt_gives_the_frame(
    shell: InteractiveShell, shop: Shop
) -> None:
    frame = shell.run_cell_magic("agent_map", "--on df --store other.sqlite", "Label\n{text}.")
    assert list(frame["status"]) == ["done", "done"]
    assert Path("other.sqlite").exists()


@pytest.mark.parametrize("line", ["Label it.", "--on dff Label it.", "--on df --type 3x Label it."])
def test_what_cannot_be_read_is_refused(shell: InteractiveShell, shop: Shop, line: str) -> None:
    with pytest.raises(UsageError):
        run(shell, line)
    assert not shop.asked


def test_the_advice_for_a_tool_that_requires_approval_lets_the_map_run(
    shell: InteractiveShell, shop: Shop
) -> None:
    lines = ["def size(text: str) -> int:", "    'Count.'", "    return len(text)"]
    shell.run_cell_magic("tool", "--approve", "\n".join(lines))
    for pattern in (r"%(config) (ArchytasNB\.allow = \[.*?\])", r"%(tools) (--disable \w+)"):
        line = f"--on df['text'] --type Label --store {len(pattern)}.sqlite Label it, with size."
        with pytest.raises(ConfigurationError) as refused:
            run(shell, line)
        assert shop.paid.total() == 0
        [advised] = re.findall(pattern, str(refused.value))
        shell.run_line_magic(*advised)
        assert list(run(shell, line)["number"]) == [1, 2]
        shell.run_line_magic("config", "ArchytasNB.allow = []")
        shop.paid.clear()


def test_a_plan_is_made_always_or_where_it_can_be_used(
    shell: InteractiveShell, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def mapped(setup: Any, data: Any, prompt: str, **options: Any) -> None:
        asked.append((options["plan"], prompt))

    monkeypatch.setattr("archytas_nb.batch.map.mapped", mapped)
    for line in (
        "--on df Label it.",
        "--on df --plan Label it.",
        "--plan --on df Label it.",
        "--on df --plan auto Label it.",
        "--plan=auto --on df Label it.",
        "--on df --plan automatic labels",
        "--on df --plan -- auto labels",
    ):
        run(shell, line)
    assert asked == [
        (False, "Label it."),
        (True, "Label it."),
        (True, "Label it."),
        ("auto", "Label it."),
        ("auto", "Label it."),
        (True, "automatic labels"),
        (True, "auto labels"),
    ]
    with pytest.raises(UsageError):
        run(shell, "--on df --plan=never Label it.")


def test_several_rows_a_request_are_an_option(shell: InteractiveShell, tmp_path: Path) -> None:
    shell.user_ns |= {"frame": words(40), "clerk": Clerk(len)}
    line = f"--on frame --type int --rows 10 --verify 4 -m clerk --store {tmp_path}/map.sqlite --out out {PROMPT}"
    run(shell, line)
    assert list(shell.user_ns["out"]["answer"]) == [len(each) for each in words(40)["word"]]
    assert sorted(shell.user_ns["clerk"].sizes) == [1] * 4 + [12] * 4
    with pytest.raises(UsageError, match="rows"):
        run(shell, f"--on frame --rows many {PROMPT}")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("df What is {a} about?", "--on df What is {a} about?"),
        ("What is {a} about?", "--on df What is this about?"),
        ("", "--on df What is this about?"),
    ],
)
def test_a_map_without_rows_is_refused_with_where_they_go(
    shell: InteractiveShell, line: str, meant: str
) -> None:
    shell.user_ns["df"] = pd.DataFrame({"a": ["x"]})
    with pytest.raises(UsageError) as raised:
        shell.run_line_magic("agent_map", line)
    assert str(raised.value).endswith(f"%agent_map {meant}")


def test_options_of_a_question_apply_to_the_rows_of_one_map(
    shell: InteractiveShell, shop: Shop
) -> None:
    with pytest.raises(ConfigurationError, match=r"values is 'none'.*--plan"):
        run(shell, "--on df.text --values none Label it.")
    with pytest.raises(UsageError, match="no tool is named 'nope'"):
        run(shell, "--on df.text --tools nope Label it.")
    assert shop.paid.total() == 0
    run(shell, "--on df.text --max-steps 3 --type Label --store none.sqlite Label it.")
    assert shop.paid.total() == 2
