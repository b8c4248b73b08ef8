"""Event streams of runs as they happen, for the tests of every view."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import pandas as pd

from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Delta,
    Event,
    Failed,
    Fault,
    Interrupted,
    ModelReply,
    NoReply,
    Notice,
    Output,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramReply,
    ProgramWaits,
    ResumeProgram,
    RunCalls,
    RunProgram,
    Shown,
    Started,
    Status,
    Stopped,
    ToolCall,
    Usage,
    Verdict,
)

HELLO = ({"role": "user", "content": "hello"},)


def png(red: int = 46, green: int = 158, blue: int = 91, size: int = 48) -> str:
    """A real PNG of one colour, base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(b"\0" + bytes((red, green, blue)) * size for _ in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )
    return base64.b64encode(data).decode()


def ask(step: int, reply: str = "{…}", *, tokens: int = 20, reasoning: str = "") -> list[Event]:
    """The model is asked and replies."""
    usage = Usage(1, 100, 0, tokens)
    return [
        AskModel(step, HELLO),
        ModelReply(reply, model="sample-1.5b", usage=usage, seconds=0.5, reasoning=reasoning),
    ]


def call(
    step: int,
    name: str,
    given: Any,
    text: str,
    *,
    status: Status = "done",
    thought: str = "",
    value: Any = None,
    outputs: tuple[Output, ...] = (),
    images: tuple[str, ...] = (),
    reasoning: str = "",
    printed: str = "",
) -> list[Event]:
    """One step with one call."""
    asked = ToolCall(f"q01s{step:02}c01", name, given)
    outcome = CallOutcome(
        status,
        text,
        value=value,
        call_id=asked.id,
        outputs=outputs,
        images=images,
        seconds=0.1,
        printed=printed,
    )
    return [
        *ask(step, reasoning=reasoning),
        RunCalls(step, (asked,), thought),
        CallOutcomes((outcome,)),
    ]


def answer(step: int, text: str) -> list[Event]:
    """The last step."""
    return [*ask(step), Answered(text)]


ANSWERED = [
    *call(
        1,
        "count_species",
        {"species": "Gentoo"},
        "124",
        thought="I count the rows of that species.",
    ),
    *answer(2, "There are **124** Gentoo penguins."),
]
RECOVERED = [
    *call(
        1,
        "mean_mass",
        {"species": "Gento", "unit": "g"},
        "1 fault in the input of mean_mass:\n"
        "  - not a species @ $.species: expected one of 'Adelie', 'Chinstrap', 'Gentoo', received 'Gento'",
        status="error",
        thought="The mean mass is asked for.",
    ),
    *call(
        2,
        "mean_mass",
        {"species": "Gentoo", "unit": "g"},
        "5076.02",
        thought="I misspelled the name.",
    ),
    *answer(3, "A Gentoo penguin weighs 5,076 g on average."),
]
REFUSED = [
    *call(
        1,
        "delete_rows",
        {"where": "species == 'Adelie'"},
        "The user refused: keep the data.",
        status="refused",
    ),
    *answer(2, "I left the data as it is."),
]
INTERRUPTED = [
    *call(
        1,
        "simulate",
        {"years": 1000},
        "Interrupted by the user while it ran.",
        status="interrupted",
    ),
    Interrupted("a tool call"),
]
LIMIT = [
    *call(1, "look_up", "the first word", "nothing found"),
    *call(2, "look_up", "the second word", "nothing found"),
    Notice("limit", "the limit max_steps=2 is reached: the model is asked to report what it has"),
    *ask(3, "I found nothing so far."),
    Stopped("max_steps=2", "I found nothing so far."),
]
FAILED = [*ask(1), Failed("There is no table of whales.")]
UNREACHABLE = [
    AskModel(1, HELLO),
    Notice("retry", "http://127.0.0.1:1/v1 did not answer; trying again in 1 s"),
    NoReply("endpoint", "http://127.0.0.1:1/v1 cannot be reached: is the server running?"),
    Failed("http://127.0.0.1:1/v1 cannot be reached: is the server running?", by="endpoint"),
]
REJECTED = [
    *ask(1, "Let me think about it …"),
    *ask(2, '{"tool": "count_species", "tool_input": {"species": "Gentoo",}}'),
    Notice("repair", "a trailing comma was removed"),
    RunCalls(2, (ToolCall("q01s02c01", "count_species", {"species": "Gentoo"}),)),
    CallOutcomes((CallOutcome("done", "124", call_id="q01s02c01"),)),
    *answer(3, "124."),
]
_PAIR = (
    ToolCall("q01s01c01", "count_species", {"species": "Gentoo"}),
    ToolCall("q01s01c02", "count_species", {"species": "Adelie"}),
    ToolCall("q01s01c03", "count_specis", {"species": "Chinstrap"}),
)
PARALLEL = [
    *ask(1, reasoning="Three counts are needed, and they do not depend on each other."),
    RunCalls(1, _PAIR, "Three counts at once."),
    CallOutcomes(
        (
            CallOutcome("done", "124", call_id="q01s01c01"),
            CallOutcome("done", "152", call_id="q01s01c02"),
            CallOutcome(
                "error",
                "no tool is named 'count_specis'; did you mean 'count_species'?",
                call_id="q01s01c03",
            ),
        )
    ),
    *answer(
        2,
        "| species | count |\n|---|---|\n| Gentoo | 124 |\n| Adelie | 152 |\n\nSee `count_species`.",
    ),
]


def frame() -> pd.DataFrame:
    """A data frame of three rows."""
    return pd.DataFrame({"island": list("abc"), "mean_mass_g": [0.0, 3.5, 7.0]})


RICH = [
    *call(
        1,
        "plot_masses",
        {"by": "species"},
        "(no output)",
        printed="drawing 3 groups",
        outputs=(
            Output("stdout", {"text/plain": "drawing 3 groups\n"}),
            Output("stderr", {"text/plain": "UserWarning: 2 rows without a mass\n"}),
            Output(
                "display", {"text/plain": "<Figure size 640x480 with 1 Axes>", "image/png": png()}
            ),
        ),
        images=(png(), png(201, 133, 27)),
        thought="A picture says more.",
    ),
    *call(
        2,
        "head",
        {"rows": 3},
        "  island  mean_mass_g\n0 a 0.0\n1 b 3.5\n2 c 7.0",
        value=frame(),
    ),
    *answer(
        3,
        "The three groups differ:\n\n```python\ndf.groupby('species').mean()\n```\n\n1. *Gentoo* is heavier",
    ),
]
HUGE = [
    *call(
        1,
        "read_log",
        {"path": "app.log", "pattern": "x" * 100_000},
        "\n".join(f"line {n} of the log, which is long" for n in range(150_000)),
        outputs=(Output("stdout", {"text/plain": "a line of a text that is printed\n" * 150_000}),),
    ),
    *answer(2, "The log is long."),
]

SHORTENED = [
    Started("sample-1.5b", "native"),
    AskModel(1, HELLO),
    Notice("compaction", "the history was too long: the oldest 4 steps are left out of it"),
    Delta("text", "I will "),
    Notice("retry", "http://127.0.0.1:1/v1 answered 429; trying again in 2 s"),
    *call(1, "count_lines", {"path": "app.log"}, "150000")[1:],
    *answer(2, "150,000 lines."),
]
UNTIL = [
    *call(1, "count_rows", {}, "344"),
    *ask(2),
    CheckAnswer(2, 343),
    Verdict("it is not the number of rows"),
    *ask(3),
    CheckAnswer(3, "many"),
    Verdict(
        'expected an integer, received "many" @ $.answer',
        for_person='expected an integer, received "many"',
    ),
    *ask(4),
    CheckAnswer(4, 344),
    Verdict(value=344),
    Answered("344", "I had left one out."),
]
TYPED = [
    *call(1, "islands", {}, '["Biscoe", "Dream"]'),
    *ask(2),
    CheckAnswer(2, ["Biscoe", "Dream"]),
    Verdict(value=["Biscoe", "Dream"]),
    Answered('["Biscoe", "Dream"]'),
]

Made = tuple[int, str, Any, str] | tuple[int, str, Any, str, Status]
"""A call of a program: its line, the tool, the input, the result, and the status if not done."""


def program(
    step: int,
    text: str,
    *made: Made,
    end: ProgramReply | None = None,
    thought: str = "",
    is_part: bool = False,
    first: int = 1,
) -> list[Event]:
    """A program that is run, its calls one after another, and its end if there is one."""
    events: list[Event] = [RunProgram(step, text, thought, is_part)]
    for number, (line, name, given, result, *status) in enumerate(made, start=first):
        asked = ToolCall(f"q01s{step:02}c{number:02}", name, given)
        outcome = CallOutcome(status[0] if status else "done", result, call_id=asked.id)
        events += [
            ProgramWaits((ProgramCall(name, given, line),)),
            RunCalls(step, (asked,), program=text, lines=(line,)),
            CallOutcomes((outcome,)),
            ResumeProgram(step, (outcome,)),
        ]
    return [*events, end] if end is not None else events


def fenced(text: str) -> str:
    return f"```python\n{text}\n```"


def line(step: int, begun: str, text: str) -> list[Event]:
    """A line that the model adds to a program."""
    messages = (*HELLO, {"role": "assistant", "content": begun})
    return [AskModel(step, messages, is_continued=True), ModelReply(text, usage=Usage(1, 9, 90, 9))]


SPECIES = [("Adelie", 38.8), ("Chinstrap", 48.8), ("Gentoo", 47.5)]
_COMPARE = """\
bills = {}
for each in ["Adelie", "Chinstrap", "Gentoo"]:
    bills[each] = average(measure="bill_length_mm", species=each)
first, second = sorted(bills, key=bills.get, reverse=True)[:2]
show(bills)
answer(f"{first}, by {bills[first] - bills[second]:.1f} mm over {second}.")"""
_AVERAGES: list[Made] = [
    (3, "average", {"measure": "bill_length_mm", "species": name}, str(value))
    for name, value in SPECIES
]
_SHOWN = str(dict(SPECIES))
PROGRAM = [
    Started("sample-1.5b", "program"),
    *ask(1, fenced(_COMPARE)),
    *program(
        1,
        _COMPARE,
        *_AVERAGES,
        end=ProgramEnded((_SHOWN,), "Chinstrap, by 1.3 mm over Gentoo.", has_answer=True),
        thought="I compare the three species.",
    ),
    Answered("Chinstrap, by 1.3 mm over Gentoo.", "I compare the three species."),
]
_WRONG = 'price = look_up(item="apple")\ntotal = price * "two"\nanswer(total)'
_MENDED = 'price = look_up(item="apple")\nprint(price)\nanswer(price * two(1))'
_AGAIN = 'price = look_up(item="apple")\nanswer(price * 2)'
_ERROR = Fault(2, 'total = price * "two"', "TypeError: can't multiply sequence by non-int")
_FAULT = Fault(3, "answer(price * two(1))", "there is no function two")
_PRICE = ToolCall("q01s03c01", "look_up", {"item": "apple"})
FAILED_PROGRAM = [
    Started("sample-1.5b", "program"),
    *ask(1, fenced(_WRONG)),
    *program(1, _WRONG, (1, "look_up", {"item": "apple"}, "2.5"), end=ProgramEnded(error=_ERROR)),
    *ask(2, fenced(_MENDED)),
    *program(2, _MENDED, end=ProgramFaults((_FAULT,))),
    *ask(3, fenced(_AGAIN)),
    RunProgram(3, _AGAIN),
    ProgramWaits((ProgramCall("look_up", {"item": "apple"}, 1),)),
    ResumeProgram(3, (CallOutcome("done", "2.5", call_id=_PRICE.id, repeats="q01s01c01"),)),
    ProgramEnded(answer=5.0, has_answer=True),
    Answered("5.0"),
]
LINES = [
    Started("sample-1.5b", "program"),
    *line(1, "```python\n", 'bills = average(species="Adelie")'),
    *program(
        1,
        'bills = average(species="Adelie")',
        (1, "average", {"species": "Adelie"}, "38.8"),
        end=ProgramEnded(assigned={"bills": Shown("38.8")}),
        is_part=True,
    ),
    *line(1, '```python\nbills = average(species="Adelie")  # 38.8\n', "twice = 2 * bills"),
    *program(
        1, "twice = 2 * bills", end=ProgramEnded(assigned={"twice": Shown("77.6")}), is_part=True
    ),
    *line(1, "…", "if twice > 70:"),
    *line(1, "…", '    note(text="long")'),
    *line(1, "…", 'answer(f"{twice}")'),
    *program(
        1,
        'if twice > 70:\n    note(text="long")',
        (2, "note", {"text": "long"}, "noted"),
        end=ProgramEnded(),
        is_part=True,
        first=2,
    ),
    *line(1, "…", 'answer(f"{twic}")'),
    *program(
        1,
        'answer(f"{twic}")',
        end=ProgramFaults(
            (Fault(1, 'answer(f"{twic}")', "there is no twic, did you mean twice?"),)
        ),
        is_part=True,
    ),
    Notice("repair", "the model goes on with whole programs"),
    *ask(2, fenced("answer(twice)")),
    *program(2, "answer(twice)", end=ProgramEnded(answer=77.6, has_answer=True)),
    Answered("77.6"),
]
_LOOP = "total = 0\nfor n in range(900):\n    total += price(number=n)\nanswer(total)"
LOOP = [
    Started("sample-1.5b", "program"),
    *ask(1, fenced(_LOOP)),
    *program(
        1,
        _LOOP,
        *((3, "price", {"number": n}, str(n)) for n in range(900)),
        end=ProgramEnded(answer=404550, has_answer=True),
    ),
    Answered("404550"),
]
_TOGETHER = "a, b = await asyncio.gather(look(n=1), look(n=2))\nput(a=a)\nput(a=b)"
_BOTH = (ToolCall("q01s01c01", "look", {"n": 1}), ToolCall("q01s01c02", "look", {"n": 2}))
STOPPED_PROGRAM = [
    Started("sample-1.5b", "program"),
    *ask(1, fenced(_TOGETHER)),
    RunProgram(1, _TOGETHER),
    ProgramWaits((ProgramCall("look", {"n": 1}, 1), ProgramCall("look", {"n": 2}, 1))),
    RunCalls(1, _BOTH, program=_TOGETHER, lines=(1, 1)),
    CallOutcomes(tuple(CallOutcome("done", each.id[-1], call_id=each.id) for each in _BOTH)),
    ResumeProgram(1, tuple(CallOutcome("done", each.id[-1], call_id=each.id) for each in _BOTH)),
    *program(1, _TOGETHER, (2, "put", {"a": "1"}, "stopped", "interrupted"))[1:],
    ProgramEnded(interrupted=True),
    Interrupted("a tool call"),
]

SAMPLES: dict[str, tuple[str, list[Event]]] = {
    "answered": ("How many Gentoo penguins are there?", ANSWERED),
    "recovered": ("How heavy is a Gentoo penguin?", RECOVERED),
    "refused": ("Remove the Adelie penguins", REFUSED),
    "interrupted": ("Simulate a thousand years", INTERRUPTED),
    "limit": ("Find the word", LIMIT),
    "failed": ("How many whales are there?", FAILED),
    "unreachable": ("How many Gentoo penguins are there?", UNREACHABLE),
    "rejected": ("How many Gentoo penguins are there?", REJECTED),
    "parallel": ("Count the penguins of each species", PARALLEL),
    "rich": ("Draw the masses", RICH),
    "shortened": ("How long is the log?", SHORTENED),
    "until": ("How many penguins are there?", UNTIL),
    "typed": ("Which islands are there?", TYPED),
    "huge": ("What does the log say?", HUGE),
    "program": ("Which species has the longest bill, and by how much?", PROGRAM),
    "failed program": ("What do two apples cost?", FAILED_PROGRAM),
    "lines": ("How much is twice the bill?", LINES),
    "loop": ("What do all cost?", LOOP),
    "stopped program": ("Put both", STOPPED_PROGRAM),
}


def long_run(steps: int = 100, deltas: int = 200) -> list[Event]:
    """A run of many steps, each streamed token by token."""
    events: list[Event] = []
    for step in range(1, steps + 1):
        events.append(AskModel(step, HELLO))
        events += [Delta("text", f"tok{n:03} ") for n in range(deltas)]
        asked = ToolCall(f"q01s{step:02}c01", "measure", {"n": step})
        reply = ModelReply(
            "".join(f"tok{n:03} " for n in range(deltas)), usage=Usage(1, 1000, 0, deltas)
        )
        outcome = CallOutcome("done" if step % 17 else "error", f"value {step}", call_id=asked.id)
        events += [
            reply,
            RunCalls(step, (asked,), f"Measurement {step} is next."),
            CallOutcomes((outcome,)),
        ]
    return [*events, *answer(steps + 1, "All is measured.")]
