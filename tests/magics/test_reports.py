"""Reports about a conversation: readable as text, harmless as HTML."""

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
from archytas_nb.loop.history import Exchange, Step
from archytas_nb.magics.conversation import Paid
from archytas_nb.magics.reports import DryRun, cost, history

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def paid(usage: Usage, usd: float | None = None) -> Paid:
    return Paid("q", "m", usage, 1.25, usd)


def test_a_history_has_a_row_for_each_exchange_however_it_ended() -> None:
    call = ToolCall("q01s01c01", "count", None)
    step = Step(calls=(call,), outcomes=(CallOutcome("done", "3", call_id=call.id),))
    exchanges = (
        Exchange("How\nmany?", [step], Answered("Three.\n\nReally.")),
        Exchange("Why?", [], Failed("no idea")),
        Exchange("And?", [], Stopped("max_steps=1", "so far")),
        Exchange("So?", [step, step], Interrupted("a tool")),
    )
    head, *rows = repr(history(exchanges)).splitlines()
    assert head.split() == ["question", "tools", "called", "answer"]
    assert rows[0].split("  ")[0] == "1"
    assert "How many?" in rows[0]
    assert rows[0].endswith("Three. Really.")
    for row, said in zip(
        rows[1:], ("no idea", "max_steps=1", "Interrupted during a tool"), strict=True
    ):
        assert said in row
    assert "count, count" in rows[3]


def test_costs_are_summed_and_what_is_not_known_is_not_made_up() -> None:
    one, two = Usage(2, 1_000, 600, 50), Usage(1, 500, 0, 10)
    last, whole = repr(cost((paid(one, 0.5), paid(two, 0.25)))).splitlines()[1:]
    assert last.split()[2:] == ["1", "1", "500", "0", "10", "1.2", "0.2500"]
    assert whole.split()[1:] == ["2", "3", "1,500", "600", "60", "2.5", "0.7500"]
    assert repr(cost((paid(one, 0.5), paid(two)))).splitlines()[2].split()[-1] == "0.5000+"
    assert repr(cost((paid(one),))).splitlines()[1].split()[-1] == "unknown"
    uncounted = repr(cost((paid(one, 0.5), paid(Usage(1))))).splitlines()
    assert uncounted[1].split()[4:] == ["unknown", "unknown", "unknown", "1.2", "unknown"]
    assert uncounted[2].split()[3:] == ["1,000+", "600+", "50+", "2.5", "0.5000+"]


def test_nothing_in_a_report_is_html_of_its_own() -> None:
    exchanges = (Exchange(EVIL, [], Answered(EVIL)),)
    ask = AskModel(1, ({"role": "user", "content": EVIL},), ({"x": EVIL},), {"y": EVIL})
    for report in (history(exchanges), DryRun(ask, (("model", EVIL),))):
        html = report._repr_html_()
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script" in html


def test_a_dry_run_shows_every_message_the_tools_and_the_schema_whole() -> None:
    long = "x" * 100_000
    calls = [{"id": "1", "function": {"name": "count", "arguments": "{}"}}]
    ask = AskModel(
        1,
        (
            {"role": "system", "content": long},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "1", "content": "3"},
        ),
        ({"type": "function", "function": {"name": "count"}},),
        {"type": "object"},
    )
    for text in (
        repr(DryRun(ask, (("model", "m"),))),
        DryRun(ask, (("model", "m"),))._repr_html_(),
    ):
        assert long in text
        for part in ("tool_call_id", "arguments", "function-calling", "JSON schema"):
            assert part in text


def test_of_a_long_request_only_the_question_is_unfolded() -> None:
    messages = (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How many?"},
    )
    html = DryRun(AskModel(1, messages), (("model", "m"),))._repr_html_()
    folded, unfolded = html.split("<details open>")
    assert "Be brief." in folded
    assert "9 characters" in folded
    assert "How many?" in unfolded


def test_empty_reports_say_so() -> None:
    for report in (history(()), cost(())):
        assert "nothing was asked yet" in repr(report)
        assert "nothing was asked yet" in report._repr_html_()
