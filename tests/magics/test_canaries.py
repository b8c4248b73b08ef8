"""With ``values="none"`` no value of the user stands in any byte that leaves, whatever is used.

Values are planted in frames, indexes, categories, attributes, reprs, results, exceptions, prints,
figures and files. Conversations are generated over all protocols, two APIs, small models and large
ones, and what can happen in a run; a proxy records every byte that is sent. `LEAKS` are put in by
hand, one at a time: the search must find each of them.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import html
import itertools
import json
import logging
import random
import re
import subprocess
import sys
import time
import urllib.parse
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from unittest.mock import patch

import numpy as np
import pandas as pd
import polars as pl
import pydantic
import pytest
from IPython.core.interactiveshell import InteractiveShell

import archytas_nb as nb
from archytas_nb import Agent, AnthropicModel, ByName, OpenAIModel
from archytas_nb import driver as driver_module
from archytas_nb import prepare as prepare_module
from archytas_nb.cassettes import switch
from archytas_nb.driver import RunHost
from archytas_nb.errors import ArchytasError
from archytas_nb.kernel import disclosure
from archytas_nb.kernel.disclosure import Disclosure
from archytas_nb.loop import events as ev
from archytas_nb.loop.program import ProgramRunner
from archytas_nb.models import remote, sent
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.tools.current import CurrentRun
from archytas_nb.tools.tool import Tool
from tests.servers.anthropic import AnthropicServer
from tests.servers.plays import Drop, Play, Say, Status
from tests.servers.recorder import Recorder
from tests.servers.server import Exchange, Server

ROOT = Path(__file__).parents[2]

# ── what is looked for ────────────────────────────────────────────────────────────────────────────

_SEPARATORS = (",", ".", " ", "_", "'", "-", "\u00a0", "\u202f", "\\u00a0", "\\u202f", "%2C", "\\n")


class Canaries:
    """Values that cannot stand in a text by chance: each has a number of nine digits in it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.numbers: list[int] = []

    def number(self) -> int:
        made = self._random.randrange(10**8, 10**9)
        self.numbers.append(made)
        return made

    def text(self) -> str:
        return f'Zq{self.number()} é"x'

    def word(self) -> str:
        """A text that can be a name."""
        return f"Zq{self.number()}"

    def forms(self) -> Iterator[str]:
        """Every canary in every form in which it might be sent."""
        for number in self.numbers:
            digits = str(number)
            yield digits
            yield digits[::-1]
            groups = re.findall(r"\d{3}", digits)
            for between in _SEPARATORS:
                yield between.join(groups)
                yield between.join(digits)
            yield from (f"{number:e}"[:8], f"{number:x}", f"{number:b}", f"{number:o}")
            yield from (f"{number / 1e6:.2f}", f"{number / 1e3:.1f}", str(round(number, -3)))
            for text in (digits, f"Zq{digits}"):
                yield text.encode().hex()
                yield "".join(f"%{byte:02x}" for byte in text.encode())
                yield "".join(f"\\u{ord(each):04x}" for each in text)
                yield "".join(f"&#{ord(each)};" for each in text)
                yield "\0".join(text)  # utf-16
                for shift in range(3):
                    coded = base64.b64encode(b"\0" * shift + text.encode()).decode()
                    yield coded[4 if shift else 0 : -4]

    def found_in(self, body: bytes) -> list[str]:
        """The forms that stand in what was sent, as it is, or in its JSON, URL or HTML."""
        parts = dict.fromkeys(body.decode("utf-8", "replace").split('{"role"'))  # most are repeated
        plain = "\n".join(parts)
        others = {
            plain.replace("\\n", "").replace('", "', ""),
            html.unescape(urllib.parse.unquote(plain)),
        }
        text = "\n".join([plain, *others])
        # Thousands of forms are looked for; nearly none has a beginning that the text has anywhere.
        size = 6
        pieces = {text[at : at + size] for at in range(len(text))}
        return [form for form in self.forms() if form[:size] in pieces and form in text]


# ── a notebook full of them ───────────────────────────────────────────────────────────────────────


class Patient:
    """An object that shows values in every way in which it is shown."""

    def __init__(self, canary: str) -> None:
        self.name = canary

    def __repr__(self) -> str:
        return f"<Patient {self.name}>"

    def _repr_html_(self) -> str:
        return f"<b>{self.name}</b>"

    def _ai_repr_(self) -> str:
        return self.name


@dataclasses.dataclass
class Visit:
    """A record."""

    name: str
    size: int


class Size(pydantic.BaseModel):
    """A record of pydantic."""

    size: int


Pair = namedtuple("Pair", "first second")  # noqa: PYI024 - untyped, as in notebooks


class Nobody:
    """A person who gives all kinds of answers, in their own words."""

    there = True

    def __init__(self, choices: random.Random) -> None:
        self._random = choices
        self._asked = 0

    def ask(self, *_: Any) -> str:
        self._asked += 1
        if self._asked > 30:
            return "y"
        answers = (
            "y",
            "n",
            "no: rather tomorrow",
            "key = 'edited'",
            "this run",
            "?",
            "in 2024",
            "stop",
        )
        return self._random.choice(answers)


class World:
    """Variables and tools with canaries, and replies of a model that uses them."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.canaries = Canaries(seed)
        self.random = random.Random(seed)
        self.folder = folder
        make = self.canaries
        patients = pd.DataFrame(
            {"name": [make.text(), make.text()], "age": [make.number(), make.number()]},
            index=pd.Index([make.word(), make.word()]),
        )
        patients["ward"] = pd.Categorical([make.text(), make.text()])
        patients.attrs["source"] = make.text()
        self.namespace: dict[str, Any] = {
            "patients": patients,
            "plan": make.text(),
            "total": make.number(),
            "records": [make.text(), {make.text(): make.number()}],
            "visit": Visit(make.text(), make.number()),
            "patient": Patient(make.text()),
            "kind": type(make.word(), (), {})(),
            "stays": pl.DataFrame({"name": [make.text()], "days": [make.number()]}),
            "codes": np.array([(1, 2)], dtype=[(make.word(), int), ("b", int)]),
        }
        self.tools = self._tools()
        # Each conversation has one thing that is done more often than others.
        self.often = self.random.choice(["changes", "draws", "asks", "erases", "later", "breaks"])

    def value(self) -> Any:
        """A value with a canary, of any type that a tool may return."""
        make = self.canaries
        kinds: list[Callable[[], Any]] = [
            make.text,
            make.number,
            lambda: make.number() + 0.25,
            lambda: Decimal(make.number()),
            lambda: np.int64(make.number()),
            lambda: [make.text(), make.number()] * self.random.choice([1, 3000]),
            lambda: {make.text(): make.number()},
            lambda: {make.number()},
            lambda: (make.text(), None),
            lambda: Pair(make.text(), make.number()),
            lambda: Visit(make.text(), make.number()),
            lambda: Size(size=make.number()),
            lambda: Patient(make.text()),
            lambda: type(make.word(), (), {}),
            lambda: Path(make.word()),
            lambda: ValueError(make.text()),
            lambda: (make.text() for _ in range(3)),
            lambda: make.text().encode(),
            lambda: complex(make.number(), 1),
            lambda: pd.DataFrame({"a": [make.text()], "b": [make.number()]}),
            lambda: pd.DataFrame({make.text(): [1]}),
            lambda: pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([(make.word(), 1)])),
            lambda: pd.Series([make.number()], name=make.text()),
            lambda: pd.Series([make.text()]).astype("category"),
            lambda: pd.Categorical([make.text(), make.text()]),
            lambda: pd.Timestamp(make.number(), unit="s"),
            lambda: pl.Series("s", [make.text()], dtype=pl.Categorical),
            lambda: np.array([make.number(), make.number()]),
            self.figure,
        ]
        return self.random.choice(kinds)()

    def figure(self) -> Any:
        """A figure with a title."""
        from matplotlib.figure import Figure

        figure = Figure((1, 1), dpi=30)
        figure.suptitle(self.canaries.word())
        return figure

    def error(self) -> BaseException:
        make = self.canaries
        kind = self.random.choice(
            [ValueError, KeyError, OSError, type(make.word(), (Exception,), {})]
        )
        error: BaseException = kind(make.text(), make.number())
        error.add_note(make.text())
        error.__cause__ = RuntimeError(make.text())
        if self.random.random() < 0.2:
            error = ExceptionGroup(make.text(), [error])  # type: ignore[list-item]
        return error

    def _tools(self) -> list[Any]:  # noqa: C901 - it is a list of functions
        make = self.canaries

        def find(key: str = "") -> Any:
            """Find something.

            Args:
                key: Where
            """
            return self.value()

        def breaks(key: str = "") -> int:
            """Break."""
            raise self.error()

        def says(key: str = "") -> str:
            """Say something."""
            from IPython.display import HTML, display

            print(make.text(), key)
            print(make.text(), file=sys.stderr)
            logging.getLogger("of_mine").error(make.text())
            display(HTML(make.text()), Patient(make.text()), self.figure())
            return make.text()

        def adds(number: int) -> int:
            """Add one.

            Args:
                number: A number
            """
            return number + 1

        def changes() -> None:
            """Change the notebook."""
            self.namespace["total"] = make.number()
            self.namespace[make.word()] = pd.DataFrame({make.text(): [make.number()]})
            self.namespace["patients"][make.word()] = 1

        def reads(key: str = "") -> str:
            """Read a file."""
            path = self.folder / make.word()
            if self.random.random() < 0.3:
                return path.read_text()
            path.write_text(make.text(), "utf-8")
            return path.read_text("utf-8")

        def of_frame(df: pd.DataFrame) -> int:
            """Count rows."""
            return len(df)

        def named(text: Annotated[str, ByName]) -> str:
            """Take a text by its name."""
            return text

        def checked(key: str) -> int:
            """Find by a key that is checked."""
            return 1

        checked.__annotations__["key"] = Annotated[str, pydantic.AfterValidator(self._checked)]

        def sized(sizes: list[int], kind: Literal["small", "large"] = "small") -> int:
            """Add sizes."""
            return sum(sizes)

        def erases(key: str = "") -> str:
            """Erase something."""
            return make.text()

        def asks(run: CurrentRun) -> str:
            """Ask the model."""
            return str(run.ask(make.text()))

        def closes(run: CurrentRun) -> None:
            """End the run."""
            end = self.random.choice([run.finish, run.fail])
            end(make.text())

        def draws() -> Any:
            """Draw something."""
            return self.figure()

        async def later(key: str = "") -> str:
            """Find something later."""
            print(make.text())
            await asyncio.sleep(0)
            if self.random.random() < 0.3:
                raise self.error()
            return make.text()

        erase = Tool.from_function(erases, approve=lambda key: make.text())
        self.tools_of_programs = [find, breaks, says, adds, changes, reads, of_frame, later]
        return [*self.tools_of_programs, named, checked, sized, erase, asks, closes, draws]

    def _checked(self, key: str) -> str:
        raise self.random.choice([ValueError, AssertionError])(self.canaries.text())

    def policy(self, _: Any, __: Any) -> str:
        """A function that decides on calls, and quotes values."""
        if self.random.random() < 0.2:
            raise self.error()
        return self.random.choice(["", "", "", f"not for {self.canaries.text()}"])

    def condition(self, _: Any) -> Any:
        """A condition for the answer, which quotes values."""
        if self.random.random() < 0.2:
            raise ValueError(self.canaries.text())
        return self.random.choice([True, True, False, self.canaries.text()])

    # ── what the model writes ─────────────────────────────────────────────────────────────────────

    def call(self) -> tuple[str, Any]:
        """A call as a model may make it, right or wrong."""
        if self.random.random() < 0.3:
            return self.often, {}
        kept = [name for name in self.namespace if re.search(r"_\d+$", name)] or ["total"]
        name = self.random.choice([*kept, "plan", "records", "visit", "kind"])
        calls: list[tuple[str, Any]] = [
            ("find", {"key": "x"}),
            ("find", {"key": f"{{{name}}}"}),
            ("breaks", {"key": name}),
            ("breaks", {"key": {"$var": "plan"}}),
            ("says", {}),
            ("adds", {"number": name}),
            ("adds", {"number": {"$var": name}}),
            ("adds", {"number": "nothing"}),
            ("adds", {}),
            ("adds", '{"number": 1'),
            ("changes", {}),
            ("reads", {}),
            ("of_frame", {"df": name}),
            ("of_frame", {"df": f"{{{name}}}"}),
            ("of_frame", {"df": "patient"}),
            ("named", {"text": name}),
            ("checked", {"key": f"{{{name}}}"}),
            ("checked", {"key": "x"}),
            ("sized", {"sizes": f"{{{name}}}", "kind": f"{{{name}}}"}),
            ("sized", {"sizes": ["a"], "kind": "smal", "more": 1}),
            ("erases", {"key": f"{{{name}}}"}),
            ("asks", {}),
            ("closes", {}),
            ("later", {}),
            ("register", {"question": f"What is {{{name}}}?"}),
            ("unknown", {"a": f"{{{name}}}"}),
            ("ask_user", {"question": f"Which year of {{{name}}}?"}),
            ("compare", {"left": name, "op": "==", "right": "total"}),
            ("compare", {"left": name, "op": "<", "right": "total"}),
            ("python", {"code": f"print({name})\n{name}"}),
            ("python", {"code": f"{{{name}}}"}),
            ("python", {"code": "globals()[plan[:5]] = patients\nraise KeyError(records)"}),
        ]
        return self.random.choice(calls)

    def answer(self) -> str:
        # A model cannot write the name of a variable that it did not read.
        names = [*(name for name in self.namespace if not re.search(r"\d{9}", name)), "nobody"]
        return f"It is {{{self.random.choice(names)}}} of {{total:,}} in {{patients}}."

    def program(self) -> str:
        lines = [
            "a = find(key='x')\nshow(a)",
            "print(t, plan)",
            "for each in plan:\n    adds(number=1)\n    show(each)",
            "if n > 5:\n    show('large')",
            "breaks(key=t)",
            "try:\n    breaks(key=plan)\nexcept Exception as error:\n    show(str(error))",
            "changes()",
            "reads()",
            "of_frame(df=patients)",
            "of_frame(df=t)",
            "later()",
            "b = {t: n for each in [1]}\nshow(b)",
            "c = int(plan)",
            "d = records[0] + 1",
            "e = records[99]",
            "f = visit.name + visit.nothing",
            "raise ValueError(plan)",
            "answer(f'{total} and {plan}')",
            "answer(total)",
            "give_up(f'because of {plan}')",
            "def f(:",
            "x = nothing_here",
            "adds(number=t)",
            "adds(nmber=n)",
            "while True:\n    n += 1",
        ]
        chosen = self.random.sample(lines[:-1], self.random.randint(1, 5))
        if self.random.random() < 0.03:
            chosen.append(lines[-1])
        if self.random.random() < 0.3:
            chosen.insert(0, f"{self.often}()")
        begin = "t = says()\nn = adds(number=total)\n"
        return f"```python\n{begin}" + "\n".join(chosen) + "\nshow(n)\n```"

    def plays(self, protocol: str) -> list[Play]:
        """The server's acts in one question: replies and failures."""
        plays: list[Play] = []
        for _ in range(self.random.randint(1, 4)):
            plays.append(self._play(protocol))
            if self.random.random() < 0.15:
                plays.insert(-1, self.random.choice(FAILURES))
        if protocol == "program":
            return [*plays, Say("```python\nanswer(f'{total}: {plan}')\n```", raw=True)]
        return [*plays, Say(self.answer()), Say("It is {total}.")]

    def _play(self, protocol: str) -> Play:
        chance = self.random.random()
        if protocol == "program":
            finish = "length" if chance < 0.1 else ""
            return Say(self.program(), raw=True, finish=finish)
        if chance < 0.1:
            return Say(self.answer(), finish="length")
        if chance < 0.2:
            return Say('{"tool": "find", "tool_input": {key', raw=True)
        calls = tuple(self.call() for _ in range(self.random.choice([1, 1, 2, 3])))
        if chance < 0.3:
            calls = (("later", {}), ("later", {"key": "x"}))
        return Say(calls=calls)


FAILURES = (
    Status(500),
    Status(429, headers={"Retry-After": "0"}),
    Drop(),
    Status(400, "maximum context length is 4000 tokens", code="context_length_exceeded"),
)


# ── a server, and a proxy before it ───────────────────────────────────────────────────────────────

SMALL = "tiny-1.5b"
LARGE = "tiny-1"


def _fits(exchange: Exchange) -> bool:
    """Reply to the question whether a tool fits; False for any other request."""
    body = json.dumps(exchange.body)
    if "You judge" not in body:
        return False
    Say(("yes", "no")[len(body) % 2], raw=True).play(exchange)
    return True


class Judging(Server):
    """Also answers what a small model is asked before its first step."""

    def answer(self, exchange: Exchange) -> None:
        if not _fits(exchange):
            super().answer(exchange)


@dataclasses.dataclass
class Wire:
    """A server with its proxy."""

    server: Server
    recorder: Recorder
    kind: type[Any]

    def model(self, name: str) -> Any:
        return self.kind(name, self.recorder.url, "k")


@contextmanager
def wired() -> Iterator[dict[str, Wire]]:
    """The two servers, each behind a proxy that keeps what is sent."""
    names = (LARGE, SMALL)
    with (
        Judging(models=names) as openai,
        AnthropicServer(models=names) as anthropic,
        Recorder(openai.url) as before,
        Recorder(anthropic.url) as other,
    ):
        yield {
            "openai": Wire(openai, before, OpenAIModel),
            "anthropic": Wire(anthropic, other, AnthropicModel),
        }
    remote.close_clients()


@pytest.fixture(scope="module")
def wires() -> Iterator[dict[str, Wire]]:
    with wired() as made:
        yield made


@pytest.fixture(autouse=True)
def at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits between two tries, programs that never end are stopped soon, and no call looks at the checkout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(logging.getLogger("of_mine"), "propagate", False)


# ── conversations ─────────────────────────────────────────────────────────────────────────────────


def _agent(world: World, values: str, **more: Any) -> Agent:
    choose = world.random.choice
    tools = world.tools
    other = Agent([], OpenAIModel(LARGE, "http://127.0.0.1:9", "k"), namespace=world.namespace)
    tools = [*tools, other.as_tool("register", "Answers questions.")]
    options: dict[str, Any] = {
        "python": choose(["off", "unwatched", "undoable", "ask"]),
        "approve": choose(["auto", "ask", "deny", world.policy]),
        "ask_user": choose([True, False]),
        "max_steps": choose([3, 8]),
        "max_errors": choose([2, 5]),
        "program_bounds": {"seconds": 0.2},
        "max_seconds": 60,
        **more,
    }
    return Agent(tools, values=values, namespace=world.namespace, context="all", **options)  # type: ignore[arg-type]


def _asked_before(world: World, wire: Wire) -> Agent:
    """An agent whose first question was asked without the setting, with a result that was sent.

    Names of columns that were made by it would be there before the questions with the setting.
    """
    tools = [each for each in world.tools_of_programs if each.__name__ in ("says", "breaks")]
    wire.server.plays = [Say(calls=(("says", {}), ("breaks", {}))), Say("Done.")]
    agent = Agent(tools, wire.model(LARGE), "native", namespace=world.namespace, max_steps=5)
    agent.run("Say it.", progress=False)
    return agent


def conversation(seed: int, wires: dict[str, Wire], folder: Path, values: str = "none") -> World:
    """Ask three questions with all kinds of options; what was sent is in the recorders."""
    world = World(seed, folder)
    choose = world.random.choice
    agent = _agent(world, values)
    if world.random.random() < 0.2:
        agent.exchanges[:] = _asked_before(world, wires["openai"]).exchanges
    for each in wires.values():
        each.recorder.forget()
    for known in (disclosure.names_made_in_runs, disclosure.results):  # as in a new kernel
        known.clear()
    capabilities_of.cache_clear()
    cassette = folder / f"{seed}.jsonl"
    if world.random.random() < 0.2:
        switch.insert_cassette(str(cassette), "auto")
    try:
        for question in ("How many patients?", "And in total?", "Who is it?"):
            protocol = choose(["native", "react", "program"])
            wire = wires[choose(["openai", "openai", "anthropic"])]
            agent.protocol = protocol
            _ask(agent, world, wire, question, protocol)
            if world.random.random() < 0.2:
                agent.save(folder / "saved.json")
                agent = _agent(world, values, protocol=protocol)
                agent.load(folder / "saved.json")
    finally:
        switch.insert_cassette("")
    return world


def _ask(agent: Agent, world: World, wire: Wire, question: str, protocol: str) -> None:
    choose = world.random.choice
    is_told: list[bool] = []

    def tell(event: Any) -> None:
        """The person says something while the agent works."""
        if isinstance(event, ev.CallOutcomes) and not is_told:
            is_told.append(True)
            agent.tell("Hurry up.")

    options: dict[str, Any] = {
        "model": wire.model(choose([LARGE, LARGE, SMALL])),
        "output_type": choose([None, None, None, int]),
        "until": choose([None, None, world.condition]),
        "observers": choose([(), (), (tell,)]),
    }
    if options["until"] is None:
        del options["until"]
    wire.server.plays = world.plays(protocol)
    person = Nobody(world.random)
    run = None
    with patch.object(driver_module, "Keyboard", lambda: person):
        try:
            run = agent.run(question, progress=False, **options)
        except (ArchytasError, KeyboardInterrupt) as error:
            run = getattr(error, "run", None)
    if run is not None and run.watch is not None and world.random.random() < 0.3:
        with suppress(RuntimeError):
            run.undo()
            agent.forget_last()


def sent_of(wires: dict[str, Wire], folder: Path) -> bytes:
    """Every byte that was sent, and what was written into cassettes."""
    cassettes = b"".join(each.read_bytes() for each in folder.glob("*.jsonl"))
    return b"".join(each.recorder.sent for each in wires.values()) + cassettes


def _clear(folder: Path) -> None:
    for each in folder.iterdir():
        each.unlink()


def _leaks(seed: int, wires: dict[str, Wire], folder: Path, values: str = "none") -> list[str]:
    """The forms of values that a conversation sends."""
    _clear(folder)
    world = conversation(seed, wires, folder, values)
    body = sent_of(wires, folder)
    pictures = [each for each in ("data:image", "image/png") if each.encode() in body]
    return [*world.canaries.found_in(body), *pictures]


_SEEDS = 15  # of a batch


@pytest.mark.parametrize("values", ["none", "strict"])
@pytest.mark.parametrize("batch", range(2))
def test_no_byte_that_is_sent_holds_a_value(
    values: str, batch: int, wires: dict[str, Wire], tmp_path: Path
) -> None:
    for seed in range(batch * _SEEDS, (batch + 1) * _SEEDS):
        assert _leaks(seed, wires, tmp_path, values) == [], seed
    assert len(wires["openai"].server.chats) > 3 * _SEEDS
    assert wires["openai"].server.complaints == []
    assert wires["anthropic"].server.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("values", ["none", "strict"])
def test_no_byte_of_hundreds_of_conversations_holds_a_value(
    values: str, wires: dict[str, Wire], tmp_path: Path
) -> None:
    for seed in range(1000, 1400):
        assert _leaks(seed, wires, tmp_path, values) == [], seed


CLOCKS: dict[str, Callable[[float, int], float]] = {
    "stands still": lambda begun, _: begun,
    "steps": lambda begun, calls: begun + 0.01 * (calls // 7),
    "goes back": lambda begun, calls: begun - 0.001 * calls,
}


@contextmanager
def clocks(kind: str) -> Iterator[None]:
    """All clocks of Python go in this way."""
    go = CLOCKS[kind]
    with ExitStack() as patches:
        for name in ("perf_counter", "monotonic", "time"):
            calls = itertools.count()
            begun = getattr(time, name)()

            def now(begun: float = begun, calls: Iterator[int] = calls) -> float:
                return go(begun, next(calls))

            patches.enter_context(patch.object(time, name, now))
            in_ns = lambda now=now: int(now() * 1e9)  # noqa: E731
            patches.enter_context(patch.object(time, f"{name}_ns", in_ns))
        yield


@pytest.mark.parametrize("clock", CLOCKS)
def test_no_clock_decides_what_is_sent(clock: str, wires: dict[str, Wire], tmp_path: Path) -> None:
    asked = len(wires["openai"].server.chats)
    with clocks(clock):
        for seed in range(2000, 2002):
            assert _leaks(seed, wires, tmp_path) == [], seed
    assert len(wires["openai"].server.chats) - asked > 3


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("values", ["none", "strict"])
def test_no_clock_decides_what_is_sent_in_many_conversations(
    clock: str, values: str, wires: dict[str, Wire], tmp_path: Path
) -> None:
    with clocks(clock):
        for seed in range(3000, 3060):
            assert _leaks(seed, wires, tmp_path, values) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS)
def test_the_search_finds_each_leak_with_any_clock(
    clock: str, wires: dict[str, Wire], tmp_path: Path
) -> None:
    for leak, put_in in LEAKS.items():
        with clocks(clock), put_in():
            assert any(_leaks(seed, wires, tmp_path) for seed in range(2 * _SEEDS)), leak


def other_words(seeds: int, *leaks: str) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.magics.other_words", str(seeds), *leaks]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_no_text_of_ours_decides_what_is_sent() -> None:
    other_words(1)


@pytest.mark.slow
def test_no_text_of_ours_decides_what_is_sent_in_many_conversations() -> None:
    """And each leak that is put in is found with other words, too."""
    other_words(60, *LEAKS)


def test_without_the_setting_values_are_sent(wires: dict[str, Wire], tmp_path: Path) -> None:
    """The search would find them."""
    found = [bool(_leaks(seed, wires, tmp_path, "all")) for seed in range(8)]
    assert sum(found) >= 6


# ── leaks put in by hand ──────────────────────────────────────────────────────────────────────────


_outcome = Disclosure._outcome
_told = Disclosure.redact


def _with_images(self: Disclosure, outcome: ev.CallOutcome) -> ev.CallOutcome:
    return replace(_outcome(self, outcome), images=outcome.images)


def _with_edit(self: Disclosure, outcome: ev.CallOutcome) -> ev.CallOutcome:
    return replace(_outcome(self, outcome), printed=outcome.printed)


def _answer_kept(self: Any, ending: ev.Ending, shows: Disclosure) -> ev.Ending:
    if isinstance(ending, (ev.Answered, ev.Stopped)):
        return replace(ending, text=shows.filled(ending.text))
    return ending


def _with_faults(self: Disclosure, reply: ev.Reply) -> ev.Reply:
    return reply if isinstance(reply, ev.Verdict) else _told(self, reply)


def _with_open_tool(self: Any) -> Disclosure:
    return Disclosure("none", self.variables, ("find", "says"))


def _replaced(owner: Any, name: str, by: Any) -> Callable[[], Any]:
    return lambda: patch.object(owner, name, by)


LEAKS: dict[str, Callable[[], Any]] = {
    "results": _replaced(Disclosure, "_outcome", lambda _, outcome: outcome),
    "pictures": _replaced(Disclosure, "_outcome", _with_images),
    "prints": _replaced(Disclosure, "_outcome", _with_edit),
    "messages of exceptions": _replaced(Disclosure, "_error", lambda _, outcome: outcome.result),
    "reasons of a policy": _replaced(Disclosure, "_may_quote", lambda *_: False),
    "what a program shows": _replaced(Disclosure, "_shown", lambda _, text, *__: text),
    "how a program ends": _replaced(Disclosure, "_ended", lambda _, end: end),
    "arguments of a program's calls": _replaced(
        ProgramRunner, "_call_text", lambda _, call: repr(call.input)
    ),
    "the answer in the next question": _replaced(driver_module.Driver, "_filled", _answer_kept),
    "what is wrong with an answer": _replaced(Disclosure, "redact", _with_faults),
    "columns that were made": _replaced(Disclosure, "end", lambda _: None),
    "a tool that is taken for one of ours": _replaced(
        prepare_module.Prepared, "disclosure", _with_open_tool
    ),
    "what a tool asks the model": _replaced(RunHost, "values", "all"),
    "earlier questions without the setting": _replaced(
        prepare_module, "STRICTNESS", dict.fromkeys(prepare_module.STRICTNESS, 0)
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_the_search_finds_a_leak(leak: str, wires: dict[str, Wire], tmp_path: Path) -> None:
    """In one of the conversations in which it finds nothing otherwise."""
    with LEAKS[leak]():
        assert any(_leaks(seed, wires, tmp_path) for seed in range(2 * _SEEDS))


# ── cells ─────────────────────────────────────────────────────────────────────────────────────────

_FAILING = (
    "raise ValueError(plan)",
    "patients[plan]",
    "assert not plan, plan",
    "int(plan)",
    "records[0] +",
    "raise RuntimeError(plan) from KeyError(total)",
)
_QUESTIONS = (
    "%agent --values none --model model Why did it fail?",
    "%agent --values none --model model --until condition Why did it fail?",
    "%agent --values none --model model --python unwatched What is in patients?",
    "%%agent --values none --model model\nWhat is\nin patients?",
    "%agent --values none --model model What is {plan}?",
    "%agent --values none --model model --image picture What is it?",
    "%agent --values none --model model --dry-run What is in patients?",
    "%agent --values none --model model --raw What is {plan}?",
    "%agent --values none --model model --new --type int How many?",
    "%agent_fix --values none --model model keep the names",
    "%agent_map --values none --model model --on notes What is {}?",
    "%agent_undo",
    "%agent_save saved.json",
    "%agent_load saved.json",
    "%agent_history --sent",
    "print(plan, total)\npatients",
)


def _in_cells(seed: int, shell: InteractiveShell, wire: Wire, folder: Path) -> list[str]:
    """The values that are sent by questions in cells, and by what stands around them."""
    world = World(seed, folder)
    choose = world.random.choice
    notes = [world.canaries.text()]
    wire.recorder.forget()
    shell.user_ns.update(
        world.namespace, model=wire.model(LARGE), condition=world.condition, notes=notes,
        picture=np.zeros((2, 2)),
    )  # fmt: skip
    world.namespace = shell.user_ns
    for each in world.tools:
        nb.toolbox.add(each)
    person = Nobody(world.random)
    with patch.object(driver_module, "Keyboard", lambda: person):
        for _ in range(6):
            if world.random.random() < 0.6:
                shell.run_cell(choose(_FAILING))
            wire.server.plays = world.plays(choose(["native", "program"]))
            shell.run_cell(choose(_QUESTIONS))
    shell.run_cell("%agent --new")
    assert b"ValueError" in wire.recorder.sent or b"patients" in wire.recorder.sent
    return world.canaries.found_in(wire.recorder.sent)


@pytest.mark.parametrize("protocol", ["native", "react", "program"])
def test_no_byte_that_is_sent_by_cells_holds_a_value(
    protocol: str,
    shell: InteractiveShell,
    wires: dict[str, Wire],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARCHYTAS_NB_CONTEXT", "all")
    monkeypatch.setenv("ARCHYTAS_NB_PROTOCOL", protocol)
    for seed in range(6):
        assert _in_cells(seed, shell, wires["openai"], tmp_path) == [], seed


# ── the list of what was sent ─────────────────────────────────────────────────────────────────────


def test_the_list_equals_what_a_proxy_saw(
    wires: dict[str, Wire], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, as with a proxy for addresses elsewhere, also where requests fail."""
    wire = wires["openai"]
    proxied = dataclasses.replace(wire, kind=lambda name, _, key: OpenAIModel(name, url, key))
    url = "http://model.example/v1"
    monkeypatch.setenv("HTTP_PROXY", wire.recorder.proxy)
    monkeypatch.setattr(sent, "requests", sent.Requests())
    world = World(7, tmp_path)
    agent = _agent(world, "none", max_steps=8)
    wire.recorder.forget()
    for question in ("How many?", "And in total?", "Who?"):
        for protocol in ("native", "react", "program"):
            agent.protocol = protocol  # type: ignore[assignment]
            _ask(agent, world, proxied, question, protocol)
    listed = [each.body for each in sent.requests]
    saw = wire.recorder.requests
    assert len(listed) > 15
    assert sorted(listed) == sorted(body for _, body in saw)
    assert {each.address for each in sent.requests} == {f"{url}/chat/completions"}
    assert {each.purpose.values for each in sent.requests if each.purpose} == {"none"}
    # Besides the body, a request has these headers, which say nothing of the notebook.
    heads = {line.partition(b":")[0].lower() for head, _ in saw for line in head.splitlines()[1:]}
    known = (b"x-stainless-", b"accept", b"content-", b"user-agent", b"host", b"connection")
    assert [each for each in heads if not each.startswith(known)] == [b"authorization"]
    remote.close_clients(url)
