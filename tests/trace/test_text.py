"""A run as plain text and as Markdown, in a terminal, and tables as lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Event,
    Notice,
    RunCalls,
    ToolCall,
    Verdict,
)
from archytas_nb.trace.fold import fold
from archytas_nb.trace.live import TraceView
from archytas_nb.trace.safe import Table
from archytas_nb.trace.text import ending_lines, escaped, fenced, grid_lines, markdown, plain
from tests.trace.hostile import PAYLOADS, endings, faults_of, hostile_run
from tests.trace.samples import HELLO, SAMPLES, ask, long_run

GOLDEN = {
    "answered": """\
How many Gentoo penguins are there?

   I count the rows of that species.
1. count_species(species="Gentoo") → 124

There are **124** Gentoo penguins.
""",
    "recovered": """\
How heavy is a Gentoo penguin?

   The mean mass is asked for.
1. ✗ mean_mass(species="Gento", unit="g") → error:
     │ 1 fault in the input of mean_mass:
     │   - not a species @ $.species: expected one of 'Adelie', 'Chinstrap', 'Gentoo', received 'Gento'

   I misspelled the name.
2. mean_mass(species="Gentoo", unit="g") → 5076.02

A Gentoo penguin weighs 5,076 g on average.
""",
    "refused": """\
Remove the Adelie penguins

1. ⊘ delete_rows(where="species == 'Adelie'") → refused: The user refused: keep the data.

I left the data as it is.
""",
    "interrupted": """\
Simulate a thousand years

1. ■ simulate(years=1000) → Interrupted by the user while it ran.

■ Interrupted during a tool call
""",
    "limit": """\
Find the word

1. look_up("the first word") → nothing found
2. look_up("the second word") → nothing found

■ Stopped by the limit max_steps=2; the answer is incomplete
I found nothing so far.
""",
    "failed": """\
How many whales are there?

✗ The model gave up
""",
    "unreachable": """\
How many Gentoo penguins are there?

1. ↻ http://127.0.0.1:1/v1 did not answer; trying again in 1 s

✗ The endpoint failed
""",
    "rejected": """\
How many Gentoo penguins are there?

1. ✗ the reply could not be used
2. count_species(species="Gentoo") → 124

124.
""",
    "parallel": """\
Count the penguins of each species

   Three counts at once.
1. count_species(species="Gentoo") → 124
   count_species(species="Adelie") → 152
   ✗ count_specis(species="Chinstrap") → error: no tool is named 'count_specis'; did you mean 'count_species'?

| species | count |
|---|---|
| Gentoo | 124 |
| Adelie | 152 |

See `count_species`.
""",
    "rich": """\
Draw the masses

   A picture says more.
1. plot_masses(by="species") → 2 images
     ┆ drawing 3 groups
     ┆ UserWarning: 2 rows without a mass
     ┆ [image/png]
     ┆ [image/png]

2. head(rows=3) → table
     │    island  mean_mass_g
     │ 0  a               0.0
     │ 1  b               3.5
     │ 2  c               7.0

The three groups differ:

```python
df.groupby('species').mean()
```

1. *Gentoo* is heavier
""",
    "shortened": """\
How long is the log?

   ≡ the conversation was too long, so its beginning was shortened
   ↻ http://127.0.0.1:1/v1 answered 429; trying again in 2 s
1. count_lines(path="app.log") → 150000

150,000 lines.
""",
    "until": """How many penguins are there?

1. count_rows() → 344
2. ✗ 343 was not accepted: it is not the number of rows
3. ✗ "many" was not accepted: expected an integer, received "many"

344
""",
    "typed": """Which islands are there?

1. islands() → ["Biscoe", "Dream"]

["Biscoe", "Dream"]
""",
    "huge": """\
What does the log say?

1. read_log(path="app.log", pattern="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…) →
     │ line 0 of the log, which is long
     │ line 1 of the log, which is long
     │ line 2 of the log, which is long
     │ line 3 of the log, which is long
     │ line 4 of the log, which is long
     │ line 5 of the log, which is long
     │ line 6 of the log, which is long
     │ line 7 of the log, which is long
     │ … 5,568,924 characters left out …
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ … 4,930,035 characters left out …

The log is long.
""",
    "program": """\
Which species has the longest bill, and by how much?

   I compare the three species.
1. bills = {}
   for each in ["Adelie", "Chinstrap", "Gentoo"]:
       bills[each] = average(measure="bill_length_mm", species=each)
     ↳ average(measure="bill_length_mm", species="Adelie") → 38.8
     ↳ average(measure="bill_length_mm", species="Chinstrap") → 48.8
     ↳ average(measure="bill_length_mm", species="Gentoo") → 47.5
   first, second = sorted(bills, key=bills.get, reverse=True)[:2]
   show(bills)
   answer(f"{first}, by {bills[first] - bills[second]:.1f} mm over {second}.")
   ┆ {'Adelie': 38.8, 'Chinstrap': 48.8, 'Gentoo': 47.5}

Chinstrap, by 1.3 mm over Gentoo.
""",
    "failed program": """\
What do two apples cost?

1. price = look_up(item="apple")
     ↳ look_up(item="apple") → 2.5
   ✗ total = price * "two"
       TypeError: can't multiply sequence by non-int
   answer(total)

2. price = look_up(item="apple")
   print(price)
   ✗ answer(price * two(1))
       there is no function two
   ✗ nothing was run

3. price = look_up(item="apple")
     ↳ look_up(item="apple") → 2.5 (from an earlier call)
   answer(price * 2)

5.0
""",
    "lines": """\
How much is twice the bill?

1. bills = average(species="Adelie")
     ↳ average(species="Adelie") → 38.8
   twice = 2 * bills  # 77.6
   if twice > 70:
       note(text="long")
     ↳ note(text="long") → noted
   ✗ answer(f"{twic}")
       there is no twic, did you mean twice?

2. answer(twice)

77.6
""",
    "loop": """\
What do all cost?

1. total = 0
   for n in range(900):
       total += price(number=n)
     ↳ price(number=0) → 0
     ↳ price(number=1) → 1
     ↳ price(number=2) → 2
     ↳ … 895 more calls …
     ↳ price(number=898) → 898
     ↳ price(number=899) → 899
   answer(total)

404550
""",
    "stopped program": """\
Put both

1. a, b = await asyncio.gather(look(n=1), look(n=2))
     ↳ look(n=1) → 1
     ↳ look(n=2) → 2
   ■ put(a=a)
     ↳ ■ put(a="1") → interrupted: stopped
   put(a=b)

■ Interrupted during a tool call
""",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_text_of_each_kind_of_run(name: str) -> None:
    """The question, one line a call, errors marked, the answer last."""
    question, events = SAMPLES[name]
    assert plain(fold(question, events)) + "\n" == GOLDEN[name]


def test_a_long_run_fits_on_a_screen() -> None:
    """Of a hundred steps the middle ones are counted, not written."""
    text = plain(fold("q", long_run(100, 1)))
    assert "… 80 more steps …" in text
    assert len(text.splitlines()) < 80
    assert text.endswith("All is measured.")


def test_steps_without_thoughts_make_a_list() -> None:
    """Steps of one line follow each other without gaps."""
    text = plain(fold(*SAMPLES["limit"]))
    assert 'nothing found\n2. look_up("the second word")' in text


def test_the_text_of_an_unfinished_run_says_so() -> None:
    """A run without an ending is not mistaken for one that ended."""
    assert plain(fold("q", SAMPLES["answered"][1][:3])).endswith(
        "■ The run had not finished when this was saved"
    )


Told = Callable[..., list[str]]

ONE, TWIN, OTHER = (
    ToolCall(f"q01s01c0{n}", name, {"n": 1}) for n, name in enumerate(("f", "f", "g"), 1)
)


def outcome(call: ToolCall, text: str) -> CallOutcome:
    return CallOutcome("done", text, call_id=call.id)


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Shows events, and gives back the lines that they have printed."""
    view = TraceView("q", "terminal")

    def show(*events: Event) -> list[str]:
        for event in events:
            view.on_event(event)
        return capsys.readouterr().out.splitlines()

    return show


def test_the_thought_is_printed_before_the_call_is_run(told: Told) -> None:
    """Who is asked whether it may run, and who waits for it, knows what it is for."""
    assert told(*ask(1), RunCalls(1, (ONE,), "I count.")) == ["   I count."]
    assert told(CallOutcomes((outcome(ONE, "1"),))) == ["1. f(n=1) → 1"]
    assert told(*ask(2), Answered("1.")) == ["", "1."]


def test_the_calls_and_notes_behind_the_first_outcomes_of_a_step_are_printed_too(
    told: Told,
) -> None:
    told(*ask(1), RunCalls(1, (ONE, OTHER), "I count."))
    first = told(CallOutcomes((outcome(ONE, "1"), outcome(OTHER, "2"))))
    assert first == ["1. f(n=1) → 1", "   g(n=1) → 2"]
    assert told(
        RunCalls(1, (TWIN,)), Notice("repeat", "f was not run: it is the same call again")
    ) == ["   ↺ f was not run: it is the same call again"]
    assert told(CallOutcomes((outcome(TWIN, "3"),))) == ["   f(n=1) → 3"]
    [refused] = told(CheckAnswer(1, "many"), Verdict("expected an integer"))
    assert refused == '   ✗ "many" was not accepted: expected an integer'


def test_a_wait_is_printed_immediately_and_once(told: Told) -> None:
    retry = Notice("retry", "busy. Trying again (1 of 3)", seconds=1.5)
    assert told(AskModel(1, HELLO), retry) == ["   … busy. Trying again (1 of 3) in 1.5 s"]
    assert told(*ask(1)[1:], RunCalls(1, (ONE,))) == []
    assert told(CallOutcomes((outcome(ONE, "1"),))) == ["1. f(n=1) → 1"]


def test_an_immediate_answer_is_all_that_is_printed(told: Told) -> None:
    assert told(*ask(1), Answered("Hello.")) == ["Hello."]


OPEN = MarkdownIt("commonmark", {"html": True}).enable("table")


def test_a_run_as_markdown() -> None:
    """The question in bold, the steps as in the plain text, the answer as the model wrote it."""
    run = fold(*SAMPLES["rich"])
    question, steps = plain(run).split("\n\nThe three groups")[0].split("\n\n", 1)
    answer = ending_lines(run)
    assert markdown(run) == f"**{question}**\n\n```text\n{steps}\n```\n\n{answer}"


def test_markdown_that_allows_html_runs_and_loads_nothing() -> None:
    for payload in PAYLOADS:
        for ending in endings(payload):
            page = OPEN.render(markdown(fold(payload, [*hostile_run(payload), *ending])))
            assert faults_of(page) == [], payload


def test_a_harmless_answer_stays_markdown() -> None:
    """Comparisons, links to the web and tables are not fenced."""
    text = "a < b, [docs](https://example.org), **bold**\n\n| a |\n|---|\n| 1 |"
    assert markdown(fold("q", [Answered(text)])).endswith(text)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=60))
def test_escaped_text_has_no_markup(text: str) -> None:
    """An escaped text is read back as one paragraph of itself."""
    rendered = OPEN.render(f"x {escaped(text)}")
    inside = re.fullmatch(r"<p>(.*)</p>\n", rendered, re.DOTALL)
    assert inside
    assert "<" not in inside.group(1)


@given(st.text("`ab \n", max_size=30))
def test_no_text_ends_its_fence(text: str) -> None:
    """A fenced text is one code block, whatever backticks are in it."""
    kinds = [token.type for token in OPEN.parse(fenced(text))]
    assert kinds == ["fence"]


CELLS = st.lists(st.text(st.characters(codec="ascii"), max_size=40), min_size=1, max_size=12).map(
    tuple
)
TABLES = st.builds(
    Table,
    CELLS | st.just(()),
    st.lists(CELLS, min_size=1, max_size=9).map(tuple),
    st.integers(0, 3),
)


def test_columns_are_aligned_and_numbers_are_right_aligned() -> None:
    """Header above body, two spaces between columns."""
    table = Table(("", "island", "mass"), (("0", "Biscoe", "5076.0"), ("1", "Dream", "3.5")))
    assert grid_lines(table, 10) == [
        "   island    mass",
        "0  Biscoe  5076.0",
        "1  Dream      3.5",
    ]


def test_omitted_rows_are_counted_and_omitted_columns_are_marked() -> None:
    """Rows are counted, those that the table has left out before included; columns are marked."""
    table = Table((), tuple((str(n), "x" * 20, "y" * 20) for n in range(5)), left_out=40)
    assert grid_lines(table, 2, width=30) == [
        f"0  {'x' * 20}  …",
        f"1  {'x' * 20}  …",
        "… 43 more rows",
    ]


@given(TABLES, st.integers(1, 10), st.integers(30, 120))
def test_no_table_is_too_wide_or_too_long(table: Table, rows: int, width: int) -> None:
    """Whatever the cells, the lines are as many and as long as was allowed."""
    lines = grid_lines(table, rows, width=width)
    assert len(lines) <= rows + 2
    assert max(map(len, lines)) <= width


def test_what_was_undone_says_so_before_its_answer() -> None:
    question, events = SAMPLES["answered"]
    view = replace(fold(question, events), undone=("Undone at 14:02", "restored: penguins"))
    for shown in (plain(view), markdown(view)):
        assert shown.index("Undone at 14:02") < shown.index("restored: penguins")
        assert shown.index("restored: penguins") < shown.index("Gentoo", len(question) + 10)
    assert "Undone" not in plain(fold(question, events)) + markdown(fold(question, events))
