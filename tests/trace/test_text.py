"""A run as plain text, to the letter."""

from __future__ import annotations

import pytest

from archytas_nb.trace.steps import fold
from archytas_nb.trace.text import plain
from tests.trace.samples import SAMPLES, long_run

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

■ Interrupted during a tool
""",
    "limit": """\
Find the word

1. look_up("the first word") → nothing found
2. look_up("the second word") → nothing found

■ Stopped by the limit max_steps=2; incomplete answer
I found nothing so far.
""",
    "failed": """\
How many whales are there?

✗ The model gave up
There is no table of whales.
""",
    "unreachable": """\
How many Gentoo penguins are there?

1. ↻ retry: http://127.0.0.1:1/v1 did not answer; trying again in 1 s

✗ The endpoint failed
http://127.0.0.1:1/v1 cannot be reached: is the server running?
""",
    "rejected": """\
How many Gentoo penguins are there?

1. ✗ reply that could not be used: Let me think about it …

   ✎ repair: a trailing comma was removed
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
1. plot_masses(by="species") → 2 pictures
     ┆ drawing 3 groups
     ┆ UserWarning: 2 rows without a mass
     ┆ [image/png]
     ┆ [image/png]

2. head(rows=3) → a table
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
    "edited": """\
Remove the Adelie penguins

1. delete_rows(where="species == 'Adelie'") → 12 rows
     ✎ the user changed the input: where="year == 2007"
     ┆ deleting

Only the year 2007 is gone.
""",
    "shortened": """\
How long is the log?

   ≡ compaction: the history was too long: the oldest 4 steps are left out of it
   ↻ retry: http://127.0.0.1:1/v1 answered 429; trying again in 2 s
1. count_lines(path="app.log") → 150000

150,000 lines.
""",
    "until": """How many penguins are there?

1. count_rows() → 344
2. ✗ answer: 343 was not accepted: it is not the number of rows
3. ✗ answer: "many" was not accepted: expected an integer, received "many" @ $.answer
4. I had left one out.

344
""",
    "typed": """Which islands are there?

1. islands() → ["Biscoe", "Dream"]

["Biscoe", "Dream"]
""",
    "huge": """\
What does the log say?

1. read_log(path="app.log", pattern="xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…) →
     │ line 0 of the log, which is long
     │ line 1 of the log, which is long
     │ line 2 of the log, which is long
     │ line 3 of the log, which is long
     │ line 4 of the log, which is long
     │ line 5 of the log, which is long
     │ line 6 of the log, which is long
     │ line 7 of the log, which is long
     │ … 5,568,889 characters left out …
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ a line of a text that is printed
     ┆ … 4,930,000 characters left out …

The log is long.
""",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_kind_of_run_reads_so(name: str) -> None:
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


def test_a_run_that_was_cut_off_says_so() -> None:
    """A run without an ending is not mistaken for one that ended."""
    assert plain(fold("q", SAMPLES["answered"][1][:3])).endswith("■ The run did not finish")
