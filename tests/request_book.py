"""Writes down every request and event of scripted conversations: the proof that a move changed no text.

    python -m tests.request_book write FILE          the book of the code as it is now, as JSON
    python -m tests.request_book compare OLD NEW     what differs between two books, each text once
    python -m tests.request_book against REVISION    the same, with the code of a commit as the old one

Two books of the same code are equal: the scripts are drawn with fixed seeds, and times, addresses and directories are
left out. A book is a tool, not a test: what a text should be is said by the tests of what writes it, and hashes in a
file would only say that some text has changed, with every commit that changes one on purpose.
"""

from __future__ import annotations

import difflib
import io
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import archytas_nb as nb
from archytas_nb.errors import ModelError, RunError, RunInterrupted
from archytas_nb.kernel.person import person_elsewhere
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Usage, WireCall
from archytas_nb.run import to_json

ROOT = Path(__file__).parent.parent
TIMES = frozenset({"seconds", "person_seconds", "waited"})
"""The fields that differ between two runs."""

_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")

# ── what the conversations are about ──────────────────────────────────────────────────────────────


def look(place: str) -> str:
    """Look at something.

    Args:
        place: Where
    """
    if place == "nowhere":
        raise LookupError("nothing is there")
    return f"{len(place)} birds at {place}"


def put(place: str, n: int) -> dict[str, Any]:
    """Put something there.

    Args:
        place: Where
        n: How many
    """
    print(f"putting {n}")
    return {"place": place, "n": n}


def tell(n: int) -> str:
    """Tell a long story.

    Args:
        n: How long
    """
    return " ".join(f"{n}.{word}" for word in range(n))


def end_here(word: str, run: nb.CurrentRun) -> str:
    """End with a word.

    Args:
        word: The last one
    """
    run.say(f"ending with {word}")
    if word == "sorry":
        run.fail("it cannot be done")
    run.finish(word)
    return word


def pay(amount: int) -> str:
    """Pay something.

    Args:
        amount: How much
    """
    return f"paid {amount}"


def stop(now: bool) -> str:
    """Stop the person's work.

    Args:
        now: Whether at once
    """
    raise KeyboardInterrupt


CALLS: tuple[tuple[str, Any], ...] = (
    ("look", {"place": "a"}),
    ("look", {"place": "a"}),
    ("look", {"place": "nowhere"}),
    ("look", {"place": "birds"}),
    ("put", {"place": "a", "n": 2}),
    ("put", {"place": "a"}),
    ("put", {"place": "a", "n": "many"}),
    ("tell", {"n": 900}),
    ("pay", {"amount": 3}),
    ("no thing!", {"x": 1}),
)
RARE_CALLS: tuple[tuple[str, Any], ...] = (
    ("end_here", {"word": "done"}),
    ("end_here", {"word": "sorry"}),
    ("end_here", {"word": "The red room is warmer, with 26 degrees. Its window is open now."}),
    ("stop", {"now": True}),
    ("fail_task", "there is no way"),
)
ANSWERS = (
    "short",
    "There are 3 birds.",
    "7041",
    "[1, 2]",
    "The red room is warmer, with 26 degrees.",
)
DAMAGED = (
    "",
    "<think>hm",
    "<think>so</think>",
    '{"tool": "look", "tool_input": {"place": "her',
    '{"tool": "look", "tool_input": {"place": "say "hi""}}',
    "{'tool': 'look', 'tool_input': {'place': 'a',},}",
    "42",
    "Hello there.",
    '<tool_call>{"name": "look", "arguments": {"place": "a"}}</tool_call>',
    'Sure! look(place="a")',
    "```python\nx = (\n```",
)
PROGRAMS = (
    "x = look(place='a')\nshow(x)",
    "for p in ['a', 'b']:\n    put(place=p, n=1)\nanswer('done')",
    "y = 1 / 0\nanswer(y)",
    "z = look(place='nowhere')",
    "a = put(place='a', n=1)\nb = put(place='b', n=1)\nc = look(place='nowhere')\nanswer(c)",
    "a = put(place='a', n=1)\nb = put(place='c', n=1)\nanswer(b['n'])",
    "answer(f'{len(look(place=chr(97)))} letters')",
    "answer(len(birds))",
    "show(pay(amount=limit))",
    "q = max({'a': 1}, key={'a': 1}.get)\nshow(q)",
    "def twice(n):\n    return tell(n=n) * 2\nshow(twice(400))",
    "give_up('it cannot be done')",
    "end_here(word='done')",
    "answer(7041)",
    "answer('There are 3 birds.')",
    "import os\nanswer(os.getcwd())",
    "a b c",
)
LINES = (
    "red = look(place='a')",
    "red = look(place='a')",
    "place='birds'",
    "twice = min(7, 7)",
    "put(place='a', n=1)",
    "put(place='b', n=many)",
    "blue = look(place='nowhere')",
    "more = len(red) + 1",
    "for p in ['a', 'b']:",
    "    look(place=p)",
    'answer(f"{red}")',
    'answer("There are 7041.")',
    "show(red)",
    "give_up('no')",
    "",
    "```",
)
QUESTIONS = (
    "How many birds are there?",
    "And after that?",
    "What is in birds and limit?",
)


@dataclass(frozen=True)
class Kind:
    """A kind of conversations; what it does not say is drawn.

    Attributes:
        name: What is special about it.
        protocol: The wire protocol.
        is_small: Whether the model is a small one.
        values: What it may learn of values.
        facts: More attributes of the model.
        options: More arguments of the agent.
        asked: More arguments of each question.
        questions: How many questions are asked.
    """

    name: str
    protocol: Any
    is_small: bool = False
    values: Any = "all"
    facts: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    asked: Mapping[str, Any] = field(default_factory=dict)
    questions: int = 2

    def title(self, seed: int) -> str:
        """The name of one of its conversations in the book."""
        size = "small" if self.is_small else "large"
        return f"{self.name} {self.protocol} {size} values={self.values} {seed}"


def _is_big(answer: Any) -> str:
    """A condition of an answer."""
    return "" if len(str(answer)) > 5 else "it is too short"


_ALONE = {"context": "none"}
_TELLING: list[Any] = []
"""Stands for an observer that tells the agent something during the run."""
_LINE_BY_LINE = {"has_grammars": True, "continues_replies": True}
_PROTOCOLS = ("react", "native", "program")


def kinds() -> Iterator[tuple[Kind, int]]:
    """All kinds, each with its number of conversations."""
    for protocol, small in itertools.product(_PROTOCOLS, (False, True)):
        yield Kind("steps", protocol, small, questions=3), 5
        yield Kind("alone", protocol, small, options=_ALONE, questions=3), 4
        yield Kind("hidden", protocol, small, "none"), 2
        yield Kind("scalars", protocol, small, "scalars"), 2
        yield Kind("long", protocol, small, facts={"context_tokens": 2000}, questions=3), 2
        yield Kind("number", protocol, small, asked={"output_type": int}), 2
        yield Kind("condition", protocol, small, asked={"until": _is_big}), 1
        yield Kind("code", protocol, small, asked={"code": True}), 1
        yield (
            Kind("no tools", protocol, small, options=_ALONE, asked={"code": True, "tools": []}),
            2,
        )
        yield Kind("told", protocol, small, asked={"observers": _TELLING}, questions=1), 1
        yield Kind("refusing", protocol, small, options={"approve": "deny"}), 1
        yield Kind("variables", protocol, small, options={"context": "auto"}), 2
        yield Kind("few steps", protocol, small, options={"max_steps": 2}), 2
        yield Kind("tokens", protocol, small, options={"max_total_tokens": 200}), 1
    yield Kind("strict", "program", values="strict"), 2
    yield Kind("python", "native", options={"python": "unwatched"}), 2
    yield Kind("python", "react", is_small=True, options={"python": "undoable"}), 2
    yield (
        Kind("dropped", "native", facts={"context_tokens": 2000}, options={"compaction": "drop"}),
        2,
    )
    yield Kind("falling back", "auto", facts={"protocol": "native", "has_tools": False}), 2
    yield Kind("lines", "program", is_small=True, facts=_LINE_BY_LINE), 6
    yield Kind("lines alone", "program", is_small=True, facts=_LINE_BY_LINE, options=_ALONE), 16
    yield Kind("lines", "program", True, "none", _LINE_BY_LINE), 2
    yield (
        Kind("lines", "program", is_small=True, facts=_LINE_BY_LINE, asked={"output_type": int}),
        4,
    )
    yield Kind("grammar", "program", is_small=True, facts={"has_grammars": True}), 4


# ── who takes part ────────────────────────────────────────────────────────────────────────────────


class Model:
    """A model whose replies are drawn.

    Attributes:
        asked: All requests, in order.
    """

    name = "book"
    is_scripted = True
    context_tokens: int | None = None
    has_tools = True

    def __init__(
        self, title: str, protocol: Any, *, is_small: bool, facts: Mapping[str, Any]
    ) -> None:
        self.protocol = protocol
        self.is_small = is_small
        for name, fact in facts.items():
            setattr(self, name, fact)
        self._random = Random(title)
        self.asked: list[AskModel] = []

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        """The next reply, which is drawn; or an error."""
        self.asked.append(ask)
        draw = self._random
        usage = Usage(1, 50, 0, 10)
        if not ask.step:
            return ModelReply(draw.choice(["yes", "yes", "no"]), usage=usage)
        if ask.about:
            return ModelReply("They looked at birds. table_1 has them.", usage=usage)
        if ask.tools and not self.has_tools:
            raise ModelError("no tools here", kind="no_tools")
        if ask.is_continued:
            return ModelReply(draw.choice(LINES), usage=usage)
        yield Delta("text", "so ")
        return self._next(ask, draw, usage)

    def _next(self, ask: AskModel, draw: Random, usage: Usage) -> ModelReply:
        """The reply of a step."""
        kind = draw.random()
        if kind < 0.02:
            raise ModelError("the server failed", kind="server")
        if kind < 0.04:
            raise ModelError("too long", kind="overflow")
        if kind < 0.045:
            raise ModelError("too late", kind="deadline")
        if kind < 0.055:
            raise KeyboardInterrupt
        if kind < 0.17:
            finish = draw.choice(["stop", "stop", "length", "tool_use_failed"])
            return ModelReply(draw.choice(DAMAGED), usage=usage, finish=finish)
        reasoning = draw.choice(["", "", "It is about birds."])
        if self.protocol == "program":
            text = f"So.\n```python\n{draw.choice(PROGRAMS)}\n```"
            return ModelReply(text, reasoning=reasoning, usage=usage)
        return self._acts(self._calls(kind, draw), reasoning, usage, is_native=bool(ask.tools))

    @staticmethod
    def _calls(kind: float, draw: Random) -> list[tuple[str, Any]]:
        if kind > 0.8:
            return [("final_answer", draw.choice(ANSWERS))]
        if kind > 0.75:
            return [draw.choice(RARE_CALLS)]
        return [draw.choice(CALLS) for _ in range(draw.choice([1, 1, 1, 2, 3]))]

    @staticmethod
    def _acts(
        calls: Sequence[tuple[str, Any]], reasoning: str, usage: Usage, *, is_native: bool
    ) -> ModelReply:
        if is_native:
            wrapped = {"final_answer": "answer", "fail_task": "reason"}
            sent = (
                (name, {wrapped[name]: given} if name in wrapped else given)
                for name, given in calls
            )
            wire = tuple(WireCall(name, json.dumps(given)) for name, given in sent)
            return ModelReply("So.", wire, reasoning, usage=usage)
        acts = [{"thought": "So.", "tool": name, "tool_input": given} for name, given in calls]
        text = json.dumps(acts[0] if len(acts) == 1 else acts)
        return ModelReply(text, reasoning=reasoning, usage=usage)


class Person:
    """A person whose answers are drawn."""

    there = True

    def __init__(self, title: str) -> None:
        self._random = Random(f"person {title}")

    def ask(self, prompt: str, form: Any = None) -> str:
        """The next answer."""
        answers = ["y", "y", "a", "n", "n too much", "amount = 4", "hm", "stop"]
        return self._random.choice(answers)


# ── the book ──────────────────────────────────────────────────────────────────────────────────────


def book() -> dict[str, Any]:
    """All conversations by their titles: their requests and events, as JSON."""
    told: dict[str, Any] = {}
    for kind, count in kinds():
        for seed in range(count):
            told[kind.title(seed)] = conversation(kind, seed)
    told |= maps()
    return told


def conversation(kind: Kind, seed: int) -> dict[str, Any]:
    """The requests and events of one conversation."""
    title = kind.title(seed)
    model = Model(title, kind.protocol, is_small=kind.is_small, facts=kind.facts)
    tools = nb.Toolbox(look, put, tell, end_here, stop)
    tools.add(pay, approve=True)
    options = {"max_steps": 7, "context": "all", **kind.options}
    namespace: dict[str, Any] = {"birds": ["tit", "owl", "jay"], "limit": 5}
    agent = nb.Agent(
        tools, model, kind.protocol, namespace=namespace, values=kind.values, **options
    )
    token = person_elsewhere.set(Person(title))
    try:
        events = [_events_of(agent, question, kind) for question in QUESTIONS[: kind.questions]]
    finally:
        person_elsewhere.reset(token)
    return {"requests": plain(model.asked), "events": events, "variables": plain(sorted(namespace))}


def _events_of(agent: nb.Agent, question: str, kind: Kind) -> Any:
    """The events of a run, without the requests, which are listed apart."""
    asked = dict(kind.asked)
    if asked.get("observers") is _TELLING:
        asked["observers"] = [_teller(agent)]
    try:
        run = agent.run(question, progress=False, **asked)
    except (RunError, RunInterrupted) as error:
        run = error.run
    except nb.ConfigurationError as error:
        return plain(str(error))
    return ["AskModel" if isinstance(each, AskModel) else plain(each) for each in run.events]


def _teller(agent: nb.Agent) -> Callable[[Any], None]:
    """An observer that tells the agent something when the first calls have been made."""
    texts = ["Only at a.", "And be short."]

    def tell_it(event: Any) -> None:
        if type(event).__name__ in ("CallOutcomes", "ProgramEnded") and texts:
            agent.tell(texts.pop())

    return tell_it


PLAN = "answer(f'{len(look(place=row.place))} letters')"
_PLANS: Mapping[str, Sequence[str]] = {
    "good": [PLAN],
    "faulty": ["answer(lok(place=row.place))", "answer(1 / 0)", PLAN],
    "partial": [f"if row.n % 7 == 0:\n    give_up('seven')\n{PLAN}"],
    "hopeless": ["answer(1 / 0)"],
}


def maps() -> dict[str, Any]:
    """Maps and planned maps: their requests, and what the rows have."""
    told = {}
    for is_small, protocol in itertools.product((False, True), ("native", "react")):
        model = Model(f"map {protocol}", protocol, is_small=is_small, facts={})
        told[f"map {protocol} {is_small}"] = _mapped(model, [{"place": "a"}, {"place": "b"}] * 4)
    for (name, programs), is_small, values in itertools.product(
        _PLANS.items(), (False, True), ("all", "none")
    ):
        planner = Planner(programs, is_small=is_small)
        rows = [{"place": "ab"[n % 2] * (1 + n % 3), "n": n} for n in range(24)]
        told[f"plan {name} {is_small} values={values}"] = _mapped(
            planner, rows, plan=True, values=values
        )
    return told


class Planner(Model):
    """A model that writes programs for all rows, and answers single rows."""

    def __init__(self, programs: Sequence[str], *, is_small: bool) -> None:
        super().__init__("planner", "native", is_small=is_small, facts={})
        self._programs = list(programs)

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        """The next program, or the answer to a row."""
        yield from ()
        self.asked.append(ask)
        usage = Usage(1, 50, 0, 10)
        if not ask.step:
            return ModelReply("no", usage=usage)
        if "once for each row" in str(ask.messages[0]):
            program = self._programs.pop(0) if len(self._programs) > 1 else self._programs[0]
            return ModelReply(f"```python\n{program}\n```", usage=usage)
        [place] = re.findall(r"How long is (\w+)", str(ask.messages))[:1] or ["a"]
        return ModelReply(f"{len(look(place))} letters", usage=usage)


def _mapped(
    model: Model, rows: list[dict[str, Any]], *, values: Any = "all", **options: Any
) -> Any:
    pure = nb.Toolbox()
    pure.add(look, pure=True)
    agent = nb.Agent(pure, model, namespace={}, values=values)
    given = {"workers": 1, "store": None, "progress": False, "verify": 3, **options}
    found: Any
    try:
        found = agent.map(rows, "How long is {place}?", **given)
    except (RunError, nb.ConfigurationError) as error:
        found = str(error)
    return {"requests": plain(model.asked), "rows": plain(found)}


def plain(value: Any) -> Any:
    """A value as JSON, without what differs between two runs."""
    value = to_json(value)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items() if key not in TIMES}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (bool, int, float, type(None))):
        return value
    text = value if isinstance(value, str) else repr(value)
    text = text.replace(tempfile.gettempdir(), "<temporary>").replace(str(ROOT), "<root>")
    return _ADDRESS.sub("<address>", text)


# ── two books ─────────────────────────────────────────────────────────────────────────────────────

Difference = tuple[str, str]


def differences(old: Any, new: Any) -> Counter[Difference]:
    """The texts that differ, as they were and as they are, with the number of their places."""
    found: Counter[Difference] = Counter()
    _collect(old, new, found.update)
    return found


def _collect(old: Any, new: Any, add: Callable[[list[Difference]], None]) -> None:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            _collect(old.get(key), new.get(key), add)
    elif isinstance(old, list) and isinstance(new, list):
        for before, after in itertools.zip_longest(old, new):
            _collect(before, after, add)
    else:
        add([(_text(old), _text(new))])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1)


def report(found: Counter[Difference], most: int = 20) -> str:
    """Differences for people: each as the lines that differ, the first ones if there are many."""
    parts = []
    for (old, new), places in found.most_common(most):
        lines = difflib.unified_diff(old.split("\n"), new.split("\n"), n=1, lineterm="")
        parts.append("\n".join([f"in {places} places:", *itertools.islice(lines, 2, 60)]))
    if len(found) > most:
        parts.append(f"and {len(found) - most} more texts")
    return "\n\n".join(parts) if parts else "the books are equal"


def write(path: Path) -> None:
    """Write the book of the code as it is now."""
    told = book()
    text = json.dumps(told, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    print(f"{path}: {len(told)} conversations, {len(text):,} characters", file=sys.stderr)


def against(revision: str) -> Counter[Difference]:
    """How the book differs from that of the code of a commit, with the scripts of this file."""
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)
        git = ["git", "archive", revision, "archytas_nb"]
        archive = subprocess.run(git, cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(there, filter="data")
        (there / "tests").mkdir()
        (there / "tests" / "__init__.py").touch()
        (there / "tests" / Path(__file__).name).write_bytes(Path(__file__).read_bytes())
        command = [sys.executable, "-m", "tests.request_book", "write", "old.json"]
        path = {**os.environ, "PYTHONPATH": str(there)}
        subprocess.run(command, cwd=there, check=True, env=path)
        old = json.loads((there / "old.json").read_text(encoding="utf-8"))
    return differences(old, json.loads(json.dumps(book())))


def main(arguments: Sequence[str]) -> int:
    """The command line; returns 1 if two books differ."""
    match arguments:
        case ["write", path]:
            write(Path(path))
            return 0
        case ["compare", old, new]:
            books = [json.loads(Path(each).read_text(encoding="utf-8")) for each in (old, new)]
            found = differences(*books)
        case ["against", revision]:
            found = against(revision)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    print(report(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
