"""Maps through batch APIs: whatever comes back, and whoever ends, each row has its own answer and is paid once."""

from __future__ import annotations

import _thread
import json
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypedDict
from unittest.mock import Mock

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb import Agent, ConfigurationError, ModelError, OpenAIModel, tool
from archytas_nb.batch import in_batches
from archytas_nb.models import sent
from archytas_nb.models.anthropic import AnthropicModel
from archytas_nb.models.batches import OpenAIBatches
from archytas_nb.models.completion import Price
from tests.batch.shop import Shop
from tests.servers.batches import FATES, Batch, BatchServer, MessageBatchServer, Work
from tests.servers.plays import Drop, Play, Raw, Say, Status
from tests.servers.server import Server

ROOT = Path(__file__).parent.parent.parent
APIS = [(BatchServer, OpenAIModel), (MessageBatchServer, AnthropicModel)]
Result = list[dict[str, Any]]
SCRIPT = """
import sys
from archytas_nb import Agent, OpenAIModel
url, store = sys.argv[1:]
agent = Agent([], model=OpenAIModel("tiny-1", base_url=url, api_key="none"))
out = agent.map([f"row {n}" for n in range(40)], "Label it.", store=store, when="batch", progress=False)
print(sum(each["status"] == "done" for each in out))
"""


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_batches, "FIRST_WAIT", 0.002)


class Label(TypedDict):
    label: str
    number: int


def mapped(server: Server, store: Path | str, number: int = 8, **options: Any) -> Result:
    kind = AnthropicModel if isinstance(server, MessageBatchServer) else OpenAIModel
    model: Any = kind("tiny-1", base_url=server.url, api_key="k", max_retries=0)
    tools = options.pop("tools", [])
    most = options.pop("max_reply_tokens", None)
    agent = Agent(tools, model=model, max_reply_tokens=most)
    given = {
        "output_type": Label,
        "progress": False,
        "when": "batch",
        "store": str(store),
        **options,
    }
    data = [f"row {n}" for n in range(number)]
    made: Result = agent.map(data, "Label it.", **given)
    return made


def states(out: Result) -> list[str]:
    return [each["status"] for each in out]


def has_right_answers(out: Result) -> bool:
    return all(each["number"] == n for n, each in enumerate(out) if each["status"] == "done")


# ── what batches answer ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("api", APIS, ids=["openai", "anthropic"])
@settings(max_examples=15, deadline=None)
@given(
    fates=st.lists(st.lists(st.sampled_from(FATES), max_size=4), min_size=2, max_size=9),
    seed=st.integers(0, 99),
)
def test_whatever_comes_back_in_any_order_a_row_has_its_own_answer_and_is_paid_once(
    api: tuple[Any, Any], fates: list[list[str]], seed: int
) -> None:
    names: dict[str, list[str]] = {}

    def fate(name: str, tried: int) -> str:
        mine = names.setdefault(name, fates[len(names) % len(fates)])
        return mine[tried] if tried < len(mine) else "answered"

    work = Work(fate, seed=seed)
    server_type, _ = api
    with server_type(work, then=Shop()) as server, tempfile.TemporaryDirectory() as folder:
        try:
            out = mapped(server, f"{folder}/map.sqlite", len(fates))
        except ModelError:  # no row was done but those that failed
            assert all(not {"answered", "doubled"} & set(each[:3]) for each in names.values())
            return
        failing = [
            each
            for each in names.values()
            if len(each) >= 3 and not {"answered", "doubled"} & set(each[:3])
        ]
        assert states(out).count("failed") <= len(failing)
        assert "open" not in states(out) or len(failing) >= 5  # the endpoint fails for all
        assert has_right_answers(out)
        assert set(work.charged.values()) <= {1}
        assert not server.complaints


def test_an_answer_that_is_not_of_the_type_is_corrected_in_the_next_batch(tmp_path: Path) -> None:
    class Wrong(Shop):
        def reply(self, body: Any) -> Say:
            said = super().reply(body)
            is_first = sum(each["role"] == "assistant" for each in body["messages"]) == 0
            return Say('{"label": 1}', raw=True, usage=(5, 0, 5)) if is_first else said

    work = Work()
    with BatchServer(work, then=Wrong()) as server:
        out = mapped(server, tmp_path / "map.sqlite")
    assert states(out) == ["done"] * 8
    assert has_right_answers(out)
    assert [len(each.lines) for each in work.batches.values()] == [7, 7]


def test_a_row_that_calls_a_pure_tool_takes_one_batch_for_each_reply(tmp_path: Path) -> None:
    calls: list[int] = []

    @tool(pure=True)
    def size(number: int) -> int:
        """Look up a size.

        Args:
            number: The number of the row
        """
        calls.append(number)
        return number * 10

    class Asks:
        def play(self, exchange: Any) -> None:
            text = json.dumps(exchange.body["messages"])
            number = int(text.rpartition("row ")[2].partition('"')[0].strip("\\n"))
            told = [each for each in exchange.body["messages"] if each["role"] == "tool"]
            if told:
                said = Say(json.dumps({"label": "x", "number": number}), raw=True)
            else:
                said = Say(calls=[("size", {"number": number})])
            said.play(exchange)

    work = Work()
    with BatchServer(work, then=Asks(), strict=False) as server:
        out = mapped(server, tmp_path / "map.sqlite", 4, tools=[size])
    assert states(out) == ["done"] * 4
    assert has_right_answers(out)
    assert len(work.batches) == 2
    assert set(calls) == {0, 1, 2, 3}


@pytest.mark.parametrize("rows", [9, 20])
def test_a_batch_that_is_too_large_is_divided(tmp_path: Path, rows: int) -> None:
    work = Work(most=3)
    with BatchServer(work, then=Shop()) as server:
        out = mapped(server, tmp_path / "map.sqlite", rows)
    assert states(out) == ["done"] * rows
    assert has_right_answers(out)
    accepted = [each for each in work.batches.values() if each.state != "failed"]
    assert max(len(each.lines) for each in accepted) <= 3
    assert set(work.charged.values()) == {1}


def test_a_file_that_is_not_found_at_once_is_looked_for_again(tmp_path: Path) -> None:
    work = Work()

    def not_yet(batch: Batch) -> Play:
        work.after = lambda batch: None
        del work.batches[batch.id]
        return Status(400, "Cannot find file file_1, or the project does not have access to it.")

    work.after = not_yet
    with BatchServer(work, then=Shop()) as server:
        out = mapped(server, tmp_path / "map.sqlite")
        uploads = [each for each in server.chats if each.path.endswith("/files")]
    assert states(out) == ["done"] * 8
    assert len(uploads) == 1
    assert [len(each.lines) for each in work.batches.values()] == [7]


def test_lines_that_are_at_fault_fail_and_the_others_are_answered(tmp_path: Path) -> None:
    work = Work(faulty=lambda body: "row 5" in json.dumps(body))
    with BatchServer(work, then=Shop()) as server:
        out = mapped(server, tmp_path / "map.sqlite")
    assert states(out) == ["done"] * 5 + ["failed"] + ["done"] * 2
    assert "Invalid request" in out[5]["error"]


def test_a_batch_that_is_always_too_large_ends_the_map_with_its_reason(tmp_path: Path) -> None:
    with BatchServer(Work(most=0), then=Shop()) as server:
        out = mapped(server, tmp_path / "map.sqlite")
    assert states(out).count("done") == 1  # which was asked about at once
    assert any("Enqueued token limit" in each["error"] for each in out)


def test_several_rows_in_a_request_are_sent_in_batches_too(tmp_path: Path) -> None:
    class Clerk:
        def play(self, exchange: Any) -> None:
            text = exchange.body["messages"][-1]["content"]
            rows = re.findall(r"^\[(\d+[^\]]*)\]\n(\d+)$", text, re.MULTILINE)
            answers: Any = [{"row": name, "answer": int(number)} for name, number in rows]
            if not rows:
                answers = int(re.findall(r"\d+", text)[-1])
            Say(json.dumps(answers), raw=True, usage=(9, 0, 9)).play(exchange)

    work = Work()
    with BatchServer(work, then=Clerk(), strict=False) as server:
        options: dict[str, Any] = {"output_type": int, "rows": 5, "verify": 5}
        out = mapped(server, tmp_path / "map.sqlite", 20, **options)
    assert [each["answer"] for each in out] == list(range(20))
    assert max(len(each.lines) for each in work.batches.values()) <= 5


# ── who ends ──────────────────────────────────────────────────────────────────────────────────────────────────────


def start(server: Server, store: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, server.url, str(store)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.mark.parametrize("moment", ["before it knows the batch", "while it waits"])
def test_a_later_kernel_goes_on_with_the_batch_of_one_that_was_killed(
    tmp_path: Path, moment: str
) -> None:
    work = Work(looks=10**6)
    processes: list[subprocess.Popen[str]] = []

    def kill(batch: Batch) -> Play | None:
        work.after = lambda batch: None
        processes[0].kill()
        return None

    if moment == "before it knows the batch":
        work.after = kill
    with BatchServer(work, then=Shop()) as server:
        store = tmp_path / "map.sqlite"
        processes.append(start(server, store))
        if moment == "while it waits":
            while not any(each.looks > 2 for each in work.batches.values()):
                assert processes[0].poll() is None
            processes[0].kill()
        processes[0].communicate()
        work.looks = 1
        done, _ = start(server, store).communicate(timeout=120)
        assert done.strip() == "40"
        assert len(work.batches) == 1
        assert len(work.charged) == 39
        assert set(work.charged.values()) == {1}
        assert len(server.chats) == 3  # a row at once, a file and a batch
        assert not server.files


def test_two_kernels_at_the_same_time_send_each_row_once(tmp_path: Path) -> None:
    work = Work(looks=4)
    with BatchServer(work, then=Shop()) as server:
        store = tmp_path / "map.sqlite"
        processes = [start(server, store) for _ in range(2)]
        done = [each.communicate(timeout=120)[0].strip() for each in processes]
        at_once = [each for each in server.chats if each.path.endswith("/completions")]
    assert done == ["40", "40"]
    assert set(work.charged.values()) == {1}
    assert len(work.charged) + len(at_once) == 40


def leave(server: Server, store: Path) -> None:
    """Send the rows of a map in a batch, and end without a look at it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenAIBatches, "look", Mock(side_effect=RuntimeError))
        with pytest.raises(RuntimeError):
            mapped(server, store)


def interrupted(work: Work, server: Server, store: Path) -> Result:
    """The results of a map that is interrupted while its batch runs."""
    looked = work.look
    has_come = False

    def look(batch: Batch, reply: Any) -> None:
        nonlocal has_come
        looked(batch, reply)
        if not has_come:
            has_come = True
            _thread.interrupt_main()

    work.look = look  # type: ignore[method-assign]
    try:
        return mapped(server, store)
    finally:
        work.look = looked  # type: ignore[method-assign]


@pytest.mark.parametrize("api", APIS, ids=["openai", "anthropic"])
@pytest.mark.parametrize("when", ["now", "batch"])
def test_an_interrupt_cancels_and_what_was_answered_is_kept(
    tmp_path: Path, api: tuple[Any, Any], when: str
) -> None:
    work = Work(looks=10**6)
    server_type, _ = api
    with server_type(work, then=Shop()) as server:
        store = tmp_path / "map.sqlite"
        out = interrupted(work, server, store)
        assert [each.state for each in work.batches.values()] == ["cancelled"]
        assert sorted(states(out)) == ["done"] * 4 + ["open"] * 4  # one was asked about at once
        work.looks = 0
        out = mapped(server, store, when=when)
        assert states(out) == ["done"] * 8
        assert has_right_answers(out)
        assert set(work.charged.values()) == {1}
        assert len(work.batches) == (2 if when == "batch" else 1)


@pytest.mark.parametrize("at", range(1, 10))
def test_an_interrupt_at_any_request_loses_no_row_and_pays_none_twice(
    tmp_path: Path, at: int
) -> None:
    work = Work(looks=2)
    store = tmp_path / "map.sqlite"
    with BatchServer(work, then=Shop()) as server:
        answer, told = server.answer, server.list_models

        def interrupt(go_on: Any, exchange: Any) -> None:
            is_it = len(server.asked) == at
            go_on(exchange)
            if is_it:
                _thread.interrupt_main()

        server.answer = partial(interrupt, answer)  # type: ignore[method-assign]
        server.list_models = partial(interrupt, told)  # type: ignore[method-assign]
        with suppress(KeyboardInterrupt):  # it came after the last row
            mapped(server, store)
        server.answer, server.list_models = answer, told  # type: ignore[method-assign]
        out = mapped(server, store)
    assert states(out) == ["done"] * 8
    assert has_right_answers(out)
    assert set(work.charged.values()) <= {1}


def test_a_model_without_a_batch_api_answers_what_a_batch_has_left(tmp_path: Path) -> None:
    work = Work(looks=10**6)
    with BatchServer(work, then=Shop()) as server:
        model = OpenAIModel(None, base_url=server.url, api_key="k")
        store = str(tmp_path / "map.sqlite")
        work.after = lambda batch: Status(401, "Incorrect API key provided")
        data = [f"row {n}" for n in range(4)]
        options: dict[str, Any] = {"store": store, "progress": False}
        out = Agent([], model=model).map(data, "Label it.", when="batch", **options)
        assert states(out) == ["done"] + ["open"] * 3
    with Server(then=Shop()) as other:
        model = OpenAIModel(None, base_url=other.url, api_key="k")
        out = Agent([], model=model).map(data, "Label it.", **options)
    assert states(out) == ["done"] * 4


def test_rows_that_wait_in_a_batch_are_not_sent_at_once_as_well(tmp_path: Path) -> None:
    work = Work(looks=10**6)
    store = tmp_path / "map.sqlite"
    with BatchServer(work, then=Shop()) as server:
        leave(server, store)
        asked = len(server.chats)
        with pytest.raises(ConfigurationError, match=r"batch_1.*when='batch'"):
            mapped(server, store, when="now")
        assert len(server.chats) == asked
        work.looks = 0
        work.look(work.batches["batch_1"], server._reply)
        out = mapped(server, store, when="now")
        assert states(out) == ["done"] * 8
        assert len(server.chats) == asked


@pytest.mark.parametrize("api", APIS, ids=["openai", "anthropic"])
def test_a_batch_is_not_sent_twice_if_nobody_tells_that_it_arrived(
    tmp_path: Path, api: tuple[Any, Any]
) -> None:
    work = Work()
    server_type, _ = api

    def drop(batch: Batch) -> Play:
        work.after = lambda batch: None
        return Drop()

    work.after = drop
    with server_type(work, then=Shop()) as server:
        out = mapped(server, tmp_path / "map.sqlite")
        assert len(work.batches) == 1
        if server_type is BatchServer:
            assert states(out) == ["done"] * 8
        else:
            assert states(out) == ["done"] + ["open"] * 7


def test_a_batch_that_is_gone_is_sent_again(tmp_path: Path) -> None:
    work = Work(looks=10**6)
    store = tmp_path / "map.sqlite"
    with BatchServer(work, then=Shop()) as server:
        leave(server, store)
        work.batches["batch_0"] = work.batches.pop("batch_1")
        work.looks = 0
        out = mapped(server, store)
        assert states(out) == ["done"] * 8
        assert list(work.batches) == ["batch_0", "batch_2"]


# ── what cannot be sent so, and what it costs ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "elsewhere",
    [
        None,
        Status(405, "Method Not Allowed"),
        Status(501, "no"),
        Raw('{"error": "Unexpected endpoint"}', 200, "application/json"),
    ],
)
def test_an_endpoint_without_a_batch_api_refuses_before_a_row_is_sent(
    tmp_path: Path, elsewhere: Play | None
) -> None:
    with Server(then=Shop(), elsewhere=elsewhere) as server:
        with pytest.raises(ConfigurationError, match=r"no batch API.*when='batch'"):
            mapped(server, tmp_path / "map.sqlite")
        assert not server.chats


def test_a_wrong_key_is_not_taken_for_a_missing_api(tmp_path: Path) -> None:
    with (
        Server(then=Shop(), elsewhere=Status(401, "Incorrect API key provided")) as server,
        pytest.raises(ModelError, match="key"),
    ):
        mapped(server, tmp_path / "map.sqlite")


def test_a_model_without_an_endpoint_a_tool_with_side_effects_and_no_file_are_refused(
    tmp_path: Path,
) -> None:
    @tool
    def order(number: int) -> str:
        """Order something.

        Args:
            number: How many
        """
        raise AssertionError

    with BatchServer(then=Shop()) as server:
        with pytest.raises(ConfigurationError, match=r"'order'.*pure"):
            mapped(server, tmp_path / "map.sqlite", tools=[order])
        with pytest.raises(ConfigurationError, match="store"):
            Agent([], model=OpenAIModel("tiny-1", server.url)).map(
                ["a"], "b", when="batch", store=None
            )
        with pytest.raises(ValueError, match="'later'"):
            mapped(server, tmp_path / "map.sqlite", when="later")
        with pytest.raises(ValueError, match="plan="):
            mapped(server, tmp_path / "map.sqlite", plan=True)
        assert not server.asked


def test_rows_cost_half_the_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenAIModel, "price", Price(1.0, 1.0, 1.0))
    with BatchServer(then=Shop()) as server:
        out = mapped(server, tmp_path / "map.sqlite")
    at_once, *later = [each["cost"] / each["tokens"] for each in out]
    assert at_once == pytest.approx(1e-6)
    assert later == pytest.approx([0.5e-6] * 7)


@settings(max_examples=10, deadline=None)
@given(budget=st.integers(1000, 40_000), written=st.integers(1, 300))
def test_a_budget_is_kept_and_the_same_call_goes_on_with_more(budget: int, written: int) -> None:
    shop = Shop(written=lambda row: written)
    with BatchServer(then=shop) as server, tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/map.sqlite"
        options: dict[str, Any] = {"output_type": None, "max_reply_tokens": 300}
        out = mapped(server, store, budget=f"{budget} tokens", **options)
        assert shop.charged <= budget
        assert set(states(out)) <= {"done", "open"}
        charged = shop.charged
        out = mapped(server, store, budget="1000000 tokens", **options)
        assert states(out) == ["done"] * 8
        assert set(server.work.charged.values()) <= {1}
        assert shop.charged >= charged


def test_equal_rows_are_sent_once_and_a_rerun_sends_nothing(tmp_path: Path) -> None:
    work = Work()
    store = str(tmp_path / "map.sqlite")
    with BatchServer(work, then=Shop()) as server:
        model = OpenAIModel("tiny-1", base_url=server.url, api_key="k")
        agent = Agent([], model=model)
        texts = pd.Series(["row 1", "row 2", "row 2", "row 3"] * 3)
        options: dict[str, Any] = {"store": store, "progress": False, "when": "batch"}
        out = agent.map(texts, "Label it.", **options)
        asked = len(server.asked)
        again = agent.map(texts, "Label it.", **options)
        assert list(out["status"]) == ["done"] * 12
        assert list(again["answer"]) == list(out["answer"])
        assert len(server.asked) == asked
        assert [len(each.lines) for each in work.batches.values()] == [2]


def test_the_list_of_what_was_sent_has_the_rows_of_a_batch(tmp_path: Path) -> None:
    before = len(list(sent.requests))
    with BatchServer(then=Shop()) as server:
        mapped(server, tmp_path / "map.sqlite", output_type=None)
    listed = list(sent.requests)[before:]
    [upload] = [each for each in listed if each.address.endswith("/files")]
    assert upload.purpose is not None
    assert upload.purpose.question.startswith("7 rows in a batch: Label it.")
    assert all(f"row {n}".encode() in (upload.body or b"") for n in range(1, 8))
