"""A map asks about each row once, gives a frame with typed columns, and goes on where it stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pytest

from archytas_nb import Agent, ConfigurationError, ModelError, OpenAIModel, Tool, cassette_scrub
from archytas_nb.batch import engine, limiter
from archytas_nb.cassettes import match
from archytas_nb.kernel import person
from archytas_nb.models import secrets
from archytas_nb.models.completion import Price
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.toolbox import toolbox
from tests.batch.shop import Shop
from tests.servers.plays import HTML, Events, Hang, Raw, Say, Status
from tests.servers.server import Server


@dataclass
class Label:
    label: Literal["even", "odd"]
    number: int


def rows(count: int, start: int = 0) -> pd.Series:
    return pd.Series([f"row {n}" for n in range(start, start + count)], name="text")


def model(server: Server, **given: Any) -> OpenAIModel:
    return OpenAIModel("tiny-1", base_url=server.url, api_key="none", **given)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def server(shop: Shop) -> Iterator[Server]:
    with Server(then=shop) as server:
        yield server


@pytest.fixture
def agent(server: Server) -> Agent:
    return Agent([], model=model(server))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "map.sqlite"


def test_gives_a_frame_with_the_same_index_and_typed_columns(agent: Agent, shop: Shop) -> None:
    data = rows(20).set_axis([f"r{n % 7}" for n in range(20)])
    out = agent.map(data, "Label it.", output_type=Label, store=None)
    assert list(out.index) == list(data.index)
    assert list(out.columns) == ["label", "number", "status", "error", "tokens", "cost", "seconds"]
    assert list(out["number"]) == list(range(20))
    assert list(out["label"]) == ["even", "odd"] * 10
    assert set(out["status"]) == {"done"}
    assert out["tokens"].sum() == shop.charged
    assert out["cost"].isna().all()
    assert agent.exchanges == []


def test_fills_columns_into_the_prompt_and_asks_equal_rows_once(
    agent: Agent, shop: Shop, server: Server
) -> None:
    data = pd.DataFrame({"text": ["row 1", "row 2", "row 1"], "the n": [1, 2, 1]})
    out = agent.map(data, 'Is {text} number {the n}? {"a": 1}', output_type=Label, store=None)
    assert list(out["number"]) == [1, 2, 1]
    assert shop.paid == {1: 1, 2: 1}
    assert 'Is row 2 number 2? {"a": 1}' in server.chats[1].body["messages"][-1]["content"]


def test_a_repeated_row_costs_nothing_and_every_attempt_counts(server: Server, shop: Shop) -> None:
    shop.fault = lambda row, asked: (
        Say("no number", raw=True, usage=(20, 0, 5)) if row == 2 and not asked else None
    )
    data = pd.Series(["row 1", "row 2", "row 1", "row 2", "row 1"])
    out = Agent([], model=Priced("tiny-1", base_url=server.url, api_key="none")).map(
        data, "Label it.", output_type=Label, store=None
    )
    assert set(out["status"]) == {"done"}
    assert out["tokens"].sum() == shop.charged + 25
    assert out["cost"].sum() == pytest.approx((shop.charged + 25) / 1e6)
    assert list(out["tokens"][2:]) == [0, 0, 0]
    assert list(out["cost"][2:]) == [0, 0, 0]


def test_the_costs_of_a_row_are_those_of_all_calls_of_the_map(
    server: Server, shop: Shop, kept: Path
) -> None:
    failing = Say("no number", raw=True, usage=(20, 0, 5))
    shop.fault = lambda row, asked: failing if row == 2 and asked < 6 else None
    agent = Agent([], model=model(server), max_errors=3)
    first = agent.map(rows(4), "Label it.", output_type=Label, store=str(kept))
    assert first["status"][2] == "failed"
    second = agent.map(rows(4), "Label it.", output_type=Label, store=str(kept))
    third = agent.map(rows(4), "Label it.", output_type=Label, store=str(kept))
    assert list(third["status"]) == ["done"] * 4
    assert second["status"][2] == "done"
    assert 0 < first["tokens"][2] < second["tokens"][2]
    assert second["tokens"].sum() == third["tokens"].sum() == shop.charged + 6 * 25


class Priced(OpenAIModel):
    """A model whose price is known: a USD for a million tokens, read or written."""

    @property
    def price(self) -> Price:
        return Price(1.0, 1.0, 1.0)


def test_a_budget_in_usd_needs_a_price_and_holds(agent: Agent, server: Server, shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="tiny-1"):
        agent.map(rows(9), "Label it.", store=None, budget="1 USD")
    priced = Priced("tiny-1", base_url=server.url, api_key="none")
    out = Agent([], model=priced, max_reply_tokens=300).map(
        rows(90), "Label it.", store=None, budget=0.01
    )
    assert out["cost"].sum() == pytest.approx(shop.charged / 1e6)
    assert 0.005 < out["cost"].sum() <= 0.01
    assert set(out["status"]) == {"done", "open"}
    asked = shop.asked.total()
    none = Agent([], model=priced).map(rows(9), "Label it.", store=None, budget=0)
    assert set(none["status"]) == {"open"}
    assert shop.asked.total() == asked
    fixed = Priced("tiny-1", base_url=server.url, api_key="none", max_tokens=9)
    with pytest.raises(ConfigurationError, match="max_tokens"):
        Agent([], model=fixed).map(rows(9), "Label it.", store=None, budget=1)


class Dearer:
    """Reports a cost of its own, several times that of the price list."""

    def __init__(self, times: float) -> None:
        self.times = times
        self.charged = 0.0
        self._lock = threading.Lock()

    def play(self, exchange: Any) -> None:
        sent, written = 400, 20
        usd = (sent + written) / 1e6 * self.times
        with self._lock:
            self.charged += usd
        body = {
            "id": "c", "object": "chat.completion", "model": "tiny-1",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "even"},
                         "finish_reason": "stop"}],
            "usage": {"prompt_tokens": sent, "completion_tokens": written, "cost": usd},
        }  # fmt: skip
        exchange.send(200, json.dumps(body).encode())


@pytest.mark.parametrize("times", [0.2, 3.0, 20.0])
@pytest.mark.parametrize("workers", [1, 8])
def test_a_budget_in_usd_holds_where_the_endpoint_reports_another_cost_than_the_price_list(
    times: float, workers: int
) -> None:
    endpoint = Dearer(times)
    with Server(then=endpoint) as server:
        priced = Priced("tiny-1", base_url=server.url, api_key="none", stream=False)
        out = Agent([], model=priced, max_reply_tokens=300).map(
            rows(300), "Label it.", store=None, workers=workers, budget="0.1 USD"
        )
    assert {"done", "open"} == set(out["status"])
    assert out["cost"].sum() == pytest.approx(endpoint.charged)
    assert endpoint.charged <= 0.1
    listed = (out["status"] == "done").sum() * 420 / 1e6
    assert max(listed, endpoint.charged) > 0.05


def test_takes_polars_lists_and_dicts(agent: Agent) -> None:
    frame = agent.map(pl.Series(["row 3", "row 4"]), "Label it.", output_type=Label, store=None)
    assert isinstance(frame, pl.DataFrame)
    assert frame["number"].to_list() == [3, 4]
    listed = agent.map([{"text": "row 5"}], "Label {text}.", output_type=Label, store=None)
    assert [(each["label"], each["number"], each["status"]) for each in listed] == [
        ("odd", 5, "done")
    ]
    assert json.loads(agent.map(["row 6"], "Label it.", store=None)[0]["answer"])["number"] == 6
    assert agent.map([], "Label it.", store=None) == []


def test_takes_subclasses_of_frames_and_what_gives_its_items() -> None:
    frame = pd.DataFrame({"text": ["row 1", "row 2"]})
    mine = type("Mine", (pd.DataFrame,), {"_constructor": property(lambda each: type(each))})
    deep = type("Deep", (mine,), {})
    polars = type("Theirs", (pl.DataFrame,), {})
    for data in (frame, mine(frame), deep(frame), polars({"text": frame["text"].to_list()})):
        scripted = ScriptedModel(*[("final_answer", "A")] * 2)
        found = Agent([], model=scripted).map(data, "Label {text}.", store=None, workers=1)
        assert isinstance(found, (pd.DataFrame, pl.DataFrame))
        assert [each.messages[-1]["content"] for each in scripted.asked] == [
            "Label row 1.",
            "Label row 2.",
        ]
    for data in (
        frame["text"].array,
        dict.fromkeys(["row 1", "row 2"]).keys(),
        np.array(["a", "b"]),
    ):
        scripted = ScriptedModel(*[("final_answer", "A")] * 2)
        assert len(Agent([], model=scripted).map(data, "Label it.", store=None)) == 2


@pytest.mark.parametrize(
    ("index", "label"),
    [
        (pd.Index(["Rome"], name="town"), "town: Rome\n"),
        (pd.Index(["Rome"]), "index: Rome\n"),
        (pd.Index([7], name="id"), "id: 7\n"),
        (
            pd.MultiIndex.from_tuples([("Rome", 2024)], names=["town", "year"]),
            "town: Rome\nyear: 2024\n",
        ),
        (pd.MultiIndex.from_tuples([("Rome", 7)]), "level_0: Rome\nlevel_1: 7\n"),
        (pd.MultiIndex.from_tuples([("Rome", 7)], names=["k", "k"]), "k: Rome\nk: 7\n"),
        (pd.MultiIndex.from_tuples([(3, 7)]), "level_0: 3\nlevel_1: 7\n"),
        (pd.PeriodIndex(["2024-01"], freq="M"), "index: 2024-01\n"),
        (pd.IntervalIndex.from_breaks([0, 1]), "index: (0, 1]\n"),
        (pd.CategoricalIndex(["a"], categories=["a", "b"]), "index: a\n"),
        (
            pd.DatetimeIndex(["2024-01-01"], tz="Asia/Kathmandu"),
            "index: 2024-01-01 00:00:00+05:45\n",
        ),
        (pd.Index([7]), ""),  # a place that is left over
        (None, ""),
    ],
)
def test_a_row_below_the_prompt_begins_with_what_its_index_says(index: Any, label: str) -> None:
    frame = pd.DataFrame({"n": [3]}, index=index)
    for data, row in ((frame, "n: 3"), (frame["n"], "3")):
        scripted = ScriptedModel(("final_answer", "A"))
        Agent([], model=scripted).map(data, "Is it much?", store=None)
        assert scripted.asked[0].messages[-1]["content"] == f"Is it much?\n\n{label}{row}"


class Named:
    """A table of no known library, which gives the names of its columns."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __getitem__(self, name: str) -> Any:
        return self._data[name]


@pytest.mark.parametrize(
    ("data", "options", "named"),
    [
        ("row 1", {}, "'str'"),
        (["row 1"], {"budget": "3 EUR"}, "'3 EUR'"),
        (["row 1"], {"workers": 0}, "workers"),
        (["row 1"], {"rpm": 0}, "rpm"),
        (["row 1"], {"rpm": "5"}, "rpm is '5'; expected a number"),
        (["row 1"], {"workers": "5"}, "workers is '5'; expected a whole number"),
        (pl.LazyFrame({"text": ["row 1"]}), {}, "'LazyFrame'; expected .*collect"),
        (Named({"text": ["row 1"]}), {}, "'Named'; expected .*a list of them"),
        (pd.DataFrame({"text": ["row 1"]}).groupby("text"), {}, "expected .*a list of them"),
        (pd.DataFrame([["row 1", "b"]], columns=["text", "text"]), {}, "'text'"),
        (pd.DataFrame([["row 1", "b"]], columns=[1, "1"]), {}, "'1'"),
        (pd.DataFrame({"text": ["row 1"]}), {"prompt": "{txt}"}, "'{txt}'"),
        (pd.DataFrame({"text": ["row 1"]}), {"prompt": "{body}"}, "'{body}', .*: 'text'"),
        (["row 1"], {"prompt": " "}, "prompt"),
    ],
)
def test_refuses_arguments_that_cannot_be_used(
    agent: Agent, shop: Shop, data: Any, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        agent.map(data, options.pop("prompt", "Label it."), store=None, **options)
    assert not shop.asked


def test_a_table_of_pyarrow_is_refused_with_the_way(agent: Agent, shop: Shop) -> None:
    pytest.importorskip("pyarrow")
    table = pl.DataFrame({"text": ["row 1"]}).to_arrow()
    with pytest.raises(ValueError, match=r"'Table'; expected .*\.to_pandas\(\)"):
        agent.map(table, "Label it.", store=None)
    assert not shop.asked


def test_a_row_without_an_answer_of_the_type_says_what_was_wrong_with_it() -> None:
    agent = Agent([], model=ScriptedModel(*[("final_answer", "many")] * 6))
    table = agent.map(rows(1), "Count.", output_type=int, store=None)
    assert re.search(r"integer.*many.*max_errors=5", table["error"][0])


def test_a_second_call_asks_nothing_and_a_failed_row_is_tried_again(
    server: Server, shop: Shop, kept: Path
) -> None:
    shop.fault = lambda row, asked: Status(400, "no") if row == 3 and not asked else None
    agent = Agent([], model=model(server))
    first = agent.map(rows(8), "Label it.", output_type=Label, store=str(kept))
    assert list(first["status"]) == ["done"] * 3 + ["failed"] + ["done"] * 4
    assert "no" in first["error"][3]
    second = agent.map(rows(9), "Label it.", output_type=Label, store=str(kept))
    assert list(second["number"]) == list(range(9))
    assert set(shop.paid.values()) == {1}
    assert [path.name for path in kept.parent.iterdir()] == ["map.sqlite"]
    agent.map(rows(1), "Label it again.", output_type=Label, store=str(kept))
    agent.map(rows(1), "Label it.", store=str(kept))
    assert shop.paid[0] == 3


def test_a_row_that_another_kernel_has_asked_about_is_not_asked_again(
    agent: Agent, shop: Shop, kept: Path
) -> None:
    shop.latency = 0.01
    outs: list[Any] = [None, None]

    def ask(at: int) -> None:
        other = Agent([], model=agent._setup.choice.given)
        outs[at] = other.map(
            rows(60), "Label it.", output_type=Label, store=str(kept), workers=4, progress=False
        )

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [list(each["number"]) for each in outs] == [list(range(60))] * 2
    assert shop.paid.total() <= 60 + 2 * 4 * 2


def test_the_first_row_is_asked_alone_and_the_others_together(agent: Agent, shop: Shop) -> None:
    shop.latency = 0.05
    agent.map(rows(1), "Label it.", store=None, workers=8)
    assert shop.most_at_once == 1
    agent.map(rows(16), "Label them.", store=None, workers=8)
    assert 4 <= shop.most_at_once <= 8


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


class Counts:
    """Asks for a tool at each row, and then answers what it gave."""

    def __init__(self, name: str) -> None:
        self.name = name

    def play(self, exchange: Any) -> None:
        last = exchange.body["messages"][-1]
        if last["role"] == "tool":
            Say(last["content"], raw=True).play(exchange)
        else:
            Say(calls=((self.name, {"text": last["content"].split("\n\n")[-1].strip()}),)).play(
                exchange
            )


def where_it_runs(threads: set[Any], *, pure: bool, **options: Any) -> Tool:
    def size(text: str) -> int:
        """Count characters.

        Args:
            text: The text
        """
        threads.add(threading.current_thread())
        return len(text)

    return Tool.from_function(size, pure=pure, **options)


@pytest.mark.parametrize("pure", [False, True])
def test_tools_run_on_the_main_thread_unless_they_are_pure(*, pure: bool) -> None:
    threads: set[Any] = set()
    with Server(then=Counts("size")) as server:
        agent = Agent([where_it_runs(threads, pure=pure)], model=model(server))
        out = agent.map(
            ["a", "bb", "ccc", "dddd"], "Count.", output_type=int, store=None, workers=4
        )
    assert [each["answer"] for each in out] == [1, 2, 3, 4]
    assert (threading.main_thread() in threads) is not pure
    assert len(threads) >= 1


@pytest.mark.parametrize("pure", [False, True])
def test_what_tools_do_to_files_is_told_once_for_all_rows(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, pure: bool
) -> None:
    def note(text: str) -> int:
        """Note a text.

        Args:
            text: The text
        """
        with (tmp_path / "notes.txt").open("a") as file:
            file.write(f"{text}\n")
        return len(text)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    with Server(then=Counts("note")) as server:
        agent = Agent([Tool.from_function(note, pure=pure)], model=model(server))
        out = agent.map(
            pd.Series(["a", "bb", "ccc"]), "Note.", output_type=int, store=str(kept), workers=2
        )
    # Neither the file of the results nor the connections to the endpoint.
    assert out.attrs["effects"] == ["overwritten notes.txt, 9 B"]


def test_approval_is_asked_for_once_before_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(person.Keyboard, "there", True)
    monkeypatch.setattr(
        person.Keyboard, "ask", lambda _, prompt, form=None: asked.append(prompt) or "y"
    )
    with Server(then=Counts("size")) as server:
        tool = where_it_runs(set(), pure=False, approve=True)
        out = Agent([tool], model=model(server)).map(
            ["a", "bb"], "Count.", output_type=int, store=None
        )
    assert [each["answer"] for each in out] == [1, 2]
    [prompt] = asked
    assert "size" in prompt


def test_without_a_person_a_tool_that_wants_approval_is_refused(server: Server, shop: Shop) -> None:
    agent = Agent([where_it_runs(set(), pure=True, approve=True)], model=model(server))
    with pytest.raises(ConfigurationError, match="size"):
        agent.map(["row 1"], "Count.", store=None)
    assert not shop.asked
    Agent([], model=model(server), ask_user=True, python="unwatched").map(
        ["row 1"], "Go.", store=None
    )
    assert [each["function"]["name"] for each in server.chats[0].body["tools"]] == ["fail_task"]
    with pytest.raises(ConfigurationError, match="type"):
        Agent([], model=model(server)).map(
            ["row 1"], "Count.", output_type=pd.DataFrame, store=None
        )


def test_what_tools_keep_does_not_stay_in_the_namespace(server: Server) -> None:
    def many(text: str) -> list[int]:
        """Give many numbers.

        Args:
            text: The text
        """
        return list(range(10_000))

    names: dict[str, Any] = {}
    with Server(then=Counts("many")) as shop:
        Agent([many], model=model(shop), namespace=names).map(["a", "b"], "Go.", store=None)
    assert names == {}


# ── ends ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_interrupt_gives_what_is_done_and_no_request_begins_after_it(
    agent: Agent, shop: Shop, kept: Path
) -> None:
    shop.fault = lambda row, asked: Hang() if row >= 10 and not seen else None
    seen: dict[str, float] = {}

    def interrupt() -> None:
        while len(shop.asked) < 14:
            time.sleep(0.01)
        seen["asked"], seen["at"] = shop.asked.total(), time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    out = agent.map(rows(1000), "Label it.", output_type=Label, store=str(kept), workers=4)
    back = time.monotonic()
    thread.join()
    assert list(out["status"]) == ["done"] * 10 + ["open"] * 990
    assert back - seen["at"] < 5  # and not the five minutes of a request without data
    time.sleep(0.5)
    assert shop.asked.total() == seen["asked"]
    whole = agent.map(rows(30), "Label it.", output_type=Label, store=str(kept))
    assert list(whole["number"]) == list(range(30))
    assert set(shop.paid.values()) == {1}


def test_an_interrupt_of_a_tool_on_the_main_thread_ends_the_map() -> None:
    def stop(text: str) -> str:
        """Stop.

        Args:
            text: The text
        """
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        return text

    with Server(then=Counts("stop")) as server:
        out = Agent([stop], model=model(server)).map(
            [f"r{n}" for n in range(50)], "Go.", store=None
        )
    assert {each["status"] for each in out} == {"open"}
    assert len(server.chats) <= 17


@pytest.mark.parametrize("status", [401, 404])
def test_an_endpoint_that_refuses_everything_is_an_error(status: int) -> None:
    with Server(then=Status(status, "no")) as server, pytest.raises(ModelError) as caught:
        Agent([], model=model(server)).map(rows(50), "Label it.", store=None)
    assert caught.value.kind in ("auth", "not_found")
    # What the endpoint serves may still refuse how it is asked: a few forms are tried once.
    assert len(server.chats) <= {401: 1, 404: 7}[status]


@pytest.mark.parametrize(
    "play",
    [
        HTML,
        Raw('{"id": "c", "choices": []}', kind="application/json"),
        Events(('data: {"model": "tiny-1", "choices": []}', "data: [DONE]")),
        Status(500, "no"),
    ],
    ids=["html", "no choices", "no choices in a stream", "500"],
)
def test_an_endpoint_that_never_replies_stops_the_map_and_is_named_at_once(
    agent: Agent, shop: Shop, play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "_FIRST_WAIT", 0.0)
    lines: list[str] = []
    monkeypatch.setattr(engine, "line_writer", lambda: lambda text, **_: lines.append(text))
    monkeypatch.setattr(engine, "_LOOK", 0.0)

    def fault(row: int, _: int) -> Any:
        time.sleep(0.02)  # in which the line is written, on a busy machine too
        return play if row else None

    shop.fault = fault
    out = agent.map(rows(300), "Label it.", output_type=Label, store=None, workers=2)
    counts = out["status"].value_counts()
    assert counts["done"] == 1
    assert 5 <= counts["failed"] <= 7  # one was in progress when the first failed, one at the end
    assert len(shop.asked) <= 9
    begun = [line for line in lines if "1 of 300" in line and "stopped" not in line]
    after = [line for line in begun if "failed" in line]
    assert after
    assert all("the endpoint fails" in line and "s left" not in line for line in after)
    assert out["error"][1] in " ".join(lines[-1].split())
    other = pd.Series([f"row {n} again" for n in range(1, 99)])
    with pytest.raises(ModelError):
        agent.map(other, "Label it.", output_type=Label, store=None)


def test_an_endpoint_that_fails_later_leaves_a_partial_frame(agent: Agent, shop: Shop) -> None:
    shop.fault = lambda row, asked: Status(401, "no") if row == 5 else None
    out = agent.map(rows(200), "Label it.", store=None, workers=2)
    assert (out["status"][0], out["status"][5], out["status"][199]) == ("done", "failed", "open")


# ── replay ────────────────────────────────────────────────────────────────────────────────────────


def test_a_replay_gives_the_same_frame_without_any_model(
    agent: Agent, shop: Shop, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.fault = lambda row, asked: Status(400, "no") if row == 3 else None
    live = agent.map(rows(6), "Label it.", output_type=Label, store=str(kept))
    stopped = agent.map(
        rows(30, 50), "Label it.", output_type=Label, store=str(kept), budget="3000 tokens"
    )
    assert {"done", "open"} == set(stopped["status"])
    before, asked = kept.read_bytes(), shop.asked.total()
    monkeypatch.setenv("ARCHYTAS_NB_CASSETTE_MODE", "replay")
    nobody = Agent([], model="tiny-1")
    again = nobody.map(rows(6), "Label it.", output_type=Label, store=str(kept))
    pd.testing.assert_frame_equal(live, again)
    same = nobody.map(
        rows(30, 50), "Label it.", output_type=Label, store=str(kept), budget="3000 tokens"
    )
    pd.testing.assert_frame_equal(stopped, same)
    with pytest.raises(ConfigurationError, match="replay"):
        nobody.map(rows(7), "Label it.", output_type=Label, store=str(kept))
    assert kept.read_bytes() == before
    assert shop.asked.total() == asked


def test_a_replay_shows_the_cost_that_was_recorded(
    server: Server, kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    priced = Priced("tiny-1", base_url=server.url, api_key="none")
    Agent([], model=priced).map(rows(3), "Label it.", store=str(kept))
    line = capsys.readouterr().err
    assert re.search(r"3 of 3 rows done · 0\.\d+ USD", line)
    monkeypatch.setenv("ARCHYTAS_NB_CASSETTE_MODE", "replay")
    Agent([], model="tiny-1").map(rows(3), "Label it.", store=str(kept))
    assert capsys.readouterr().err == line


def test_the_last_line_says_why_rows_failed(server: Server, kept: Path, capsys: Any) -> None:
    server.then = Shop(lambda row, _: Status(400, f"no row {row}, please") if row < 2 else None)
    Agent([], model=Priced("tiny-1", base_url=server.url, api_key="none")).map(
        rows(4), "Label it.", store=str(kept), workers=1
    )
    line = capsys.readouterr().err
    assert "2 of 4 rows done · 2 failed" in line
    assert [each in line for each in ("no row 0, please", "no row 1, please")] == [True, True]
    assert "ask about the 2 failed rows once more" in line


def test_secrets_in_answers_are_not_kept(kept: Path) -> None:
    secret = "sk-" + "a1b2c3d4" * 5
    with Server(then=Say(f"the key is {secret}", raw=True)) as server:
        out = Agent([], model=model(server)).map(["row 1"], "Go.", store=str(kept))
    assert secret in out[0]["answer"]
    assert secret.encode() not in kept.read_bytes()


def test_secrets_that_are_known_are_masked_in_the_file_as_in_a_cassette(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_given", {})
    monkeypatch.setenv("WEATHER_TOKEN", "Kq7-zebra-Lm2w")
    monkeypatch.setattr(match, "_functions", {})
    cassette_scrub(without_customers)
    said = "Kq7-zebra-Lm2w, Xw9-otter-Pn4v, customer-7"
    with Server(then=Say(json.dumps({said: [said]}), raw=True)) as server:
        given = OpenAIModel("tiny-1", base_url=server.url, api_key="Xw9-otter-Pn4v")
        out = Agent([], model=given).map(
            ["row 1"], "Go.", output_type=dict[str, list[str]], store=str(kept)
        )
        assert out[0]["answer"] == {said: [said]}
        again = Agent([], model=given).map(
            ["row 1"], "Go.", output_type=dict[str, list[str]], store=str(kept)
        )
    masked = "{WEATHER_TOKEN}, {api_key}, customer-0"
    assert again[0]["answer"] == {masked: [masked]}
    for each in (b"zebra", b"otter", b"customer-7"):
        assert each not in kept.read_bytes()


def test_secrets_in_the_error_of_a_row_are_masked_in_the_file(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_TOKEN", "Kq7-zebra-Lm2w")
    with Server(then=Status(400, "no Kq7-zebra-Lm2w here")) as server:
        out = Agent([], model=model(server)).map(["row 1"], "Go.", store=str(kept))
    assert out[0]["status"] == "failed"
    assert b"zebra" not in kept.read_bytes()


def without_customers(text: str) -> str:
    return re.sub(r"customer-\d+", "customer-0", text)


def test_a_file_of_something_else_is_refused_by_name(agent: Agent, kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_text("no database " * 100)
    with pytest.raises(ConfigurationError, match=r"map\.sqlite"):
        agent.map(rows(1), "Label it.", store=str(kept))
    assert kept.read_text() == "no database " * 100


def test_a_scripted_model_may_answer_a_map() -> None:
    agent = Agent([], model=ScriptedModel(("final_answer", "7")))
    assert agent.map(["x"], "Go.", output_type=int, store=None)[0]["answer"] == 7


# ── the sample ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ("until", {"done", "open"}),
        ("all", {"done"}),
        ("stop", {"done", "open"}),
        (None, {"done", "open"}),
    ],
)
def test_after_a_sample_the_cost_of_all_is_shown_and_asked_about_where_it_is_above_the_budget(
    agent: Agent,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    answer: str | None,
    counts: set[str],
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(person.Keyboard, "there", answer is not None)
    monkeypatch.setattr(
        person.Keyboard, "ask", lambda _, prompt, form=None: asked.append(prompt) or answer
    )
    shop.latency = 0.002
    out = agent.map(rows(100), "Label it.", store=None, workers=2, budget="20,000 tokens")
    shown = capsys.readouterr().err
    assert re.search(
        r"sample of 2\d: [\d,]+ tokens, \d+ s → all 100: [\d,]+ tokens, \d+ s, above the budget",
        shown,
    )
    assert len(asked) == (answer is not None)
    assert set(out["status"]) == counts
    done = (out["status"] == "done").sum()
    assert shop.charged <= 20_000 or answer == "all"
    assert done < 30 if answer == "stop" else done > 30
    agent.map(rows(100), "Label it.", store=None, workers=2)
    assert "above" not in capsys.readouterr().err
    assert len(asked) == (answer is not None)


@pytest.fixture
def notebook_tools() -> Iterator[None]:
    """Tools of the notebook: one that fits rows, and three that do not fit without being named."""
    before = toolbox.snapshot()
    toolbox.restore(({}, set()))

    def price(product: str) -> float:
        """Look up a price.

        Args:
            product: The product
        """
        return 1.0

    def total(data: pd.DataFrame) -> float:
        """Add all numbers.

        Args:
            data: The table
        """
        return 1.0

    def send_mail(text: str) -> str:
        """Send a mail.

        Args:
            text: The text
        """
        return "sent"

    toolbox.add(price)
    toolbox.add(total)
    toolbox.add(send_mail, approve=True)
    yield
    toolbox.restore(before)


@pytest.mark.usefixtures("notebook_tools")
@pytest.mark.parametrize(
    ("prompt", "options", "offered"),
    [
        ("Label it.", {}, {"price"}),
        ("Label it, and use total.", {}, {"price", "total"}),
        ("Label it.", {"allow": ["send_mail"]}, {"price", "send_mail"}),
        ("Label it with totals and send_mails.", {}, {"price"}),
    ],
)
def test_a_row_gets_the_tools_that_fit_or_are_named(
    server: Server, prompt: str, options: Any, offered: set[str]
) -> None:
    Agent(model=model(server), **options).map(rows(2), prompt, output_type=Label, store=None)
    for chat in server.chats:
        names = {each["function"]["name"] for each in chat.body["tools"]}
        assert names - {"final_answer", "fail_task"} == offered


def test_what_all_rows_have_in_common_comes_before_the_row(agent: Agent, server: Server) -> None:
    agent.map(rows(2), "Label it.", output_type=Label, store=None, workers=1)
    first, second = (chat.body["messages"][-1]["content"] for chat in server.chats)
    common, row = first.rsplit("row ", 1)
    assert "final_answer" in common
    assert row == "0"
    assert second == f"{common}row 1"
