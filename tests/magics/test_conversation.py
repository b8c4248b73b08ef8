"""The conversation of a notebook: which cell asks, its magics, and what they show."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import archytas_nb as nb
from archytas_nb.conversation import Costs, History, Paid
from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    Failed,
    Interrupted,
    Stopped,
    ToolCall,
    Usage,
)
from archytas_nb.loop.record import Exchange, StepRecord
from archytas_nb.magics.dry_run import DryRun, parts_html
from archytas_nb.magics.sent import request_text, requests_table
from archytas_nb.magics.shown import history
from archytas_nb.models import sent
from archytas_nb.namespace import cell_of
from tests.live_kernel import Kernel
from tests.servers.plays import Say
from tests.servers.server import Server
from tests.trace.hostile import faults_of

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def paid(usage: Usage, usd: float | None = None) -> Paid:
    return Paid(usage, 1.25, usd)


@pytest.mark.parametrize(
    "parent", [None, {}, {"metadata": {}, "header": {"msg_id": "1"}}, {"metadata": None}]
)
def test_where_no_cell_is_named_there_is_no_origin(
    shell: InteractiveShell, parent: dict[str, Any] | None
) -> None:
    asking: Any = shell
    if parent is not None:
        kernel = SimpleNamespace(get_parent=lambda _: parent)
        asking = SimpleNamespace(kernel=kernel, history_manager=shell.history_manager)
    assert History().origin(cell_of(asking)) == ""


def questions(server: Server) -> list[str]:
    messages = server.chats[-1].body["messages"]
    return [message["content"] for message in messages if message["role"] == "user"]


def test_a_cell_that_is_run_again_replaces_its_questions_in_their_place(kernel: Kernel) -> None:
    with Server(then=Say("Fine.")) as server:
        kernel.run(f"%config ArchytasNB.base_url = {server.url!r}")
        kernel.run("%agent --new")
        kernel.run("%agent one\n%agent two", cell_id="a")
        kernel.run("%agent three", cell_id="b")
        assert questions(server) == ["one", "two", "three"]
        kernel.run("%agent uno\n%agent dos", cell_id="a")
        assert questions(server) == ["uno", "dos"]
        kernel.run("%agent four", cell_id="c")
        assert questions(server) == ["uno", "dos", "three", "four"]
        kernel.run("%agent --new")
        for _ in range(2):  # no cell is named: each question is added
            kernel.run("%agent one")
        assert questions(server) == ["one", "one"]


def test_a_history_has_a_row_for_each_exchange_however_it_ended() -> None:
    call = ToolCall("q01s01c01", "count", None)
    step = StepRecord(calls=(call,), outcomes=(CallOutcome("done", "3", call_id=call.id),))
    exchanges = (
        Exchange("How\nmany?", [step], Answered("Three.\n\nReally.")),
        Exchange("Why?", [], Failed("no idea")),
        Exchange("And?", [], Stopped("max_steps=1", "so far")),
        Exchange("So?", [step, step], Interrupted("a tool call")),
    )
    usage = Usage(1, 1_200, 0, 34)
    runs: list[Any] = [
        SimpleNamespace(exchange=each, label=label, run=SimpleNamespace(seconds=75, usage=usage))
        for each, label in zip(exchanges, ("3", "4", "4.2"), strict=False)
    ]
    head, *rows = repr(history(exchanges, runs)).splitlines()
    assert head.split() == ["cell", "question", "tools", "called", "answer", "took", "tokens"]
    assert [row.split()[0] for row in rows] == ["3", "4", "4.2", "So?"]
    assert "How many?" in rows[0]
    assert "Three. Really." in rows[0]
    assert rows[0].split()[-5:] == ["1", "min", "15", "s", "1,234"]
    for row, said in zip(
        rows[1:], ("no idea", "max_steps=1", "Interrupted during a tool"), strict=True
    ):
        assert said in row
    assert "count × 2" in rows[3]


def test_costs_are_summed_and_an_incomplete_sum_is_marked() -> None:
    one, two = Usage(2, 1_000, 600, 50), Usage(1, 500, 0, 10)
    last, both = [paid(two, 0.25)], [paid(one, 0.5), paid(two, 0.25)]
    assert history((), (), Costs(last, both, both)).notes == (
        "last question: 1 request, 500 tokens in (0 cached), 10 out, 1.2 s of the model, USD 0.2500",
        "conversation: 2 questions, 3 requests, 1,500 tokens in (600 cached), 60 out, 2.5 s of the model, USD 0.7500",
    )
    last, both = [paid(Usage(1))], [paid(one, 0.5), paid(Usage(1))]
    first, second, *_ = history((), (), Costs(last, both, both)).notes
    assert first == (
        "last question: 1 request, unknown tokens in (unknown cached), unknown out, "
        "1.2 s of the model, USD unknown"
    )
    assert second.endswith(
        "1,000+ tokens in (600+ cached), 50+ out, 2.5 s of the model, USD 0.5000+"
    )


def test_no_text_in_a_report_becomes_html() -> None:
    exchanges = (Exchange(EVIL, [], Answered(EVIL)),)
    ask = AskModel(1, ({"role": "user", "content": EVIL},), ({"x": EVIL},), {"y": EVIL})
    for report in (history(exchanges, ()), DryRun(ask, (("model", EVIL),))):
        html = report._repr_html_()
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script" in html
    empty = history((), ())
    assert "no questions have been asked" in repr(empty)
    assert "no questions have been asked" in empty._repr_html_()


def test_a_dry_run_shows_every_message_whole_and_only_the_question_unfolded() -> None:
    long = "x" * 100_000
    calls = [{"id": "1", "function": {"name": "count", "arguments": "{}"}}]
    messages = (
        {"role": "system", "content": long},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "1", "content": "3"},
        {"role": "user", "content": "How many?"},
    )
    tools = ({"type": "function", "function": {"name": "count"}},)
    report = DryRun(AskModel(1, messages, tools, {"type": "object"}), (("model", "m"),))
    for text in (repr(report), report._repr_html_()):
        for part in (long, "tool_call_id", "arguments", "function-calling", "JSON schema"):
            assert part in text
    folded, unfolded = report._repr_html_().split("<details open>")
    assert "100,000 characters" in folded
    assert "How many?" in unfolded


def test_a_dry_run_shows_the_body_that_the_endpoint_is_sent(shell: InteractiveShell) -> None:
    shell.user_ns["claude"] = nb.AnthropicModel("claude-x", api_key="sk-ant-0123456789")
    shell.user_ns["gpt"] = nb.OpenAIModel("gpt-x", "http://127.0.0.1:9/v1")
    shown = repr(shell.run_line_magic("agent", "-m claude --dry-run How many?"))
    for part in ('"max_tokens"', '"input_schema"', "── system", "── user", "How many?"):
        assert part in shown
    assert '"stream_options"' in repr(shell.run_line_magic("agent", "-m gpt --dry-run How many?"))


@pytest.mark.parametrize("question", ["Why? " * 100, "a\nb\u2028c" * 50, ""])
def test_each_request_is_one_line_of_the_table(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = SimpleNamespace(
        purpose=sent.Purpose(question, "all"), time=0.0, size=10, address="http://127.0.0.1"
    )
    monkeypatch.setattr(sent, "requests", [one] * 3)
    head, *rows = repr(requests_table()).split("\n")
    assert head.split()[:2] == ["time", "bytes"]
    assert [row.split()[0] for row in rows[:3]] == ["1", "2", "3"]
    assert rows[3].startswith("3 requests")


def test_a_cost_says_when_most_of_a_request_was_said_before() -> None:
    asked = [paid(Usage(1, 900, 0, 10), 0.1)]
    question = {"role": "user", "content": "Why?"}
    earlier = [{"role": "assistant", "content": "word " * 500}] * 2
    long, short = [question, *earlier, question], [question, question]
    for messages, is_said in ((long, True), (short, False)):
        run: Any = SimpleNamespace(events=[AskModel(1, tuple(messages))])
        assert ("--new" in repr(history((), (), Costs(asked, asked, asked), run))) is is_said


def test_a_request_is_its_bytes_as_text_and_its_parts_on_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "count", "arguments": "{}"}}]
    body = {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "Be <b>brief</b>."},
            {"role": "user", "content": "How many?"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "124"},
        ],
    }
    text = json.dumps(body)
    for sent_text, is_drawn in ((text, True), ("no JSON", False)):
        one = SimpleNamespace(
            body=sent_text.encode(), time=0.0, size=10, address="http://127.0.0.1"
        )
        monkeypatch.setattr(sent, "requests", [one])
        shown = request_text("1")
        assert shown == sent_text
        page = shown._repr_html_() or ""
        assert bool(page) is is_drawn
    assert faults_of(request_page(body, text)) == []


def request_page(body: dict[str, Any], text: str) -> str:
    page = parts_html("Request 1", body, text)
    assert "tool: count" in page
    assert "<b>brief" not in page
    return page
