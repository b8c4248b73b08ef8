"""Values stay here: with ``values="none"`` no value of the user stands in any request.

Canaries are planted in frames, variables, results, exceptions, prints and answers; then
conversations are generated over all kinds of steps, and every byte of every request is searched for
them, in several encodings. `LEAKS` shows that the search finds what it looks for.
"""

from __future__ import annotations

import base64
import json
import random
import re
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb import Agent
from archytas_nb import asking as asking_module
from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.kernel.disclosure import Disclosure
from archytas_nb.loop import events as ev
from archytas_nb.loop.program import ProgramRunner
from archytas_nb.models import sent
from archytas_nb.testing import ScriptedModel, ScriptError
from tests.scripted import Scripted
from tests.servers.plays import Say
from tests.servers.server import Server

MODES = ("none", "strict")


# ── canaries ──────────────────────────────────────────────────────────────────────────────────────


class Canaries:
    """Values that cannot stand in a text by chance."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.texts: list[str] = []
        self.numbers: list[int] = []

    def text(self) -> str:
        made = f'Zq{self._random.randrange(10**9)} é"x'
        self.texts.append(made)
        return made

    def number(self) -> int:
        made = self._random.randrange(10**8, 10**9)
        self.numbers.append(made)
        return made

    def value(self) -> Any:
        """A value with a canary, of any type that a tool may return."""
        text = self.text
        number = self.number
        kinds: list[Callable[[], Any]] = [
            text,
            number,
            lambda: number() + 0.25,
            lambda: [text(), number()],
            lambda: {text(): number()},
            lambda: {number()},
            lambda: (text(), None),
            lambda: pd.DataFrame({"a": [text()], "b": [number()]}),
            lambda: pd.DataFrame({text(): [1]}),
            lambda: pd.Series([number()], name=text()),
            lambda: pd.Categorical([text(), text()]),
            lambda: pd.Timestamp(number(), unit="s"),
            lambda: text().encode(),
            lambda: complex(number(), 1),
        ]
        return self._random.choice(kinds)()

    def forms(self) -> Iterator[bytes]:
        """Every canary in every encoding in which it might be sent."""
        for text in self.texts:
            core = text.split()[0]  # which no encoding of a text below splits
            yield core.encode()
            yield urllib.parse.quote(core).encode()
            for shift in range(3):
                coded = base64.b64encode(b"\0" * shift + core.encode())
                yield coded[4 if shift else 0 : -4]
            yield core.encode("utf-16-le")
            yield core.encode().hex().encode()
        for number in self.numbers:
            digits = str(number)
            yield digits.encode()
            grouped = re.findall(r"\d{3}", digits)
            for between in (",", ".", " ", "_", "'", "\u202f", "\\u202f"):
                yield between.join(grouped).encode()
            yield f"{number:e}"[:8].encode()
            yield f"{number:x}".encode()

    def found_in(self, body: bytes) -> list[bytes]:
        return [form for form in self.forms() if form in body]


def bodies(model: ScriptedModel) -> bytes:
    """All that a model was sent."""
    asked = [
        [list(each.messages), list(each.tools), each.grammar, dict(each.asides)]
        for each in model.asked
    ]
    plain = json.dumps(asked, default=repr)
    return f"{plain}\n{json.dumps(asked, default=repr, ensure_ascii=False)}".encode()


# ── conversations ─────────────────────────────────────────────────────────────────────────────────


class World:
    """A notebook with canaries everywhere, its tools, and scripts of a model that uses them."""

    def __init__(self, seed: int) -> None:
        self.canaries = Canaries(seed)
        self.random = random.Random(seed)
        make = self.canaries
        self.namespace: dict[str, Any] = {
            "patients": pd.DataFrame({"name": [make.text()], "age": [make.number()]}),
            "plan": make.text(),
            "total": make.number(),
            "records": [make.text(), {make.text(): make.number()}],
        }

        def find(key: str = "") -> Any:
            """Find something.

            Args:
                key: Where
            """
            return make.value()

        def breaks(key: str = "") -> int:
            """Break."""
            raise ValueError(f"{key} {make.text()} {make.number()}")

        def says(key: str = "") -> str:
            """Say something."""
            print(make.text(), key)
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
            self.namespace["made"] = pd.DataFrame({make.text(): [make.number()]})

        self.tools = [find, breaks, says, adds, changes]

    def call(self) -> tuple[str, dict[str, Any]]:
        """A call as a model may make it, right or wrong."""
        kept = [name for name in self.namespace if re.search(r"_\d+$", name)] or ["total"]
        name = self.random.choice(kept)
        calls: list[tuple[str, dict[str, Any]]] = [
            ("find", {"key": "x"}),
            ("find", {"key": f"{{{name}}}"}),
            ("breaks", {"key": name}),
            ("breaks", {"key": {"$var": "plan"}}),  # type: ignore[dict-item]
            ("says", {}),
            ("adds", {"number": name}),
            ("adds", {"number": {"$var": "total"}}),
            ("adds", {"number": "nothing"}),
            ("adds", {}),
            ("changes", {}),
            ("unknown", {"a": 1}),
            ("compare", {"left": name, "op": "==", "right": "total"}),
            ("compare", {"left": "plan", "op": "<", "right": "total"}),
            ("python", {"code": f"print({name})\n{name}"}),
            ("python", {"code": "patients['more'] = records[0]\nraise KeyError(records)"}),
        ]
        return self.random.choice(calls)

    def answer(self) -> str:
        names = [*self.namespace, "nobody"]
        return f"It is {{{self.random.choice(names)}}} of {{total:,}} in {{patients}}."

    def program(self) -> str:
        lines = [
            "a = find(key='x')\nshow(a)",
            "print(t, plan)",
            "if n > 5:\n    show('large')",
            "breaks(key=t)",
            "try:\n    breaks(key=plan)\nexcept Exception as error:\n    show(str(error))",
            "changes()",
            "b = {t: n for each in [1]}\nshow(b)",
            "c = int(plan)",
            "d = records[0] + 1",
            "e = records[99]",
            "answer(f'{total} and {plan}')",
            "answer(total)",
            "give_up(f'because of {plan}')",
        ]
        faulty = ["def f(:", "x = nothing_here"]
        chosen = self.random.sample(lines, self.random.randint(1, 6))
        if self.random.random() < 0.1:
            chosen.append(self.random.choice(faulty))
        begin = "t = says()\nn = adds(number=total)\n"
        return f"```python\n{begin}" + "\n".join(chosen) + "\nshow(n)\n```"

    def script(self, protocol: str) -> list[Any]:
        if protocol == "program":
            programs = [self.program() for _ in range(self.random.randint(1, 4))]
            return [*programs, "```python\nanswer(f'{total}: {plan}')\n```"]
        calls: list[Any] = [self.call() for _ in range(self.random.randint(1, 5))]
        return [*calls, ("final_answer", self.answer()), ("final_answer", "It is {total}.")]


def conversation(seed: int, values: str = "none") -> tuple[World, bytes]:
    """A generated conversation of three questions: its world, and all that was sent."""
    world = World(seed)
    body = b""
    agent = Agent(
        world.tools,
        values=values,  # type: ignore[arg-type]
        namespace=world.namespace,
        context="all",
        python=world.random.choice(["off", "auto"]),
        max_steps=8,
        approve="auto",
    )
    for question in ("How many patients?", "And in total?", "Who is it?"):
        protocol = world.random.choice(["native", "react", "program"])
        agent.protocol = protocol  # type: ignore[assignment]
        # A script that is used up fails the run, as an endpoint may.
        model = ScriptedModel(*world.script(protocol), protocol=protocol)  # type: ignore[arg-type]
        output_type = world.random.choice([None, None, int])
        with suppress(ArchytasError, ScriptError):
            agent.run(question, model=model, output_type=output_type)
        body += bodies(model)
    return world, body


@pytest.mark.parametrize("values", MODES)
@pytest.mark.parametrize("batch", range(4))
def test_no_request_holds_a_value(values: str, batch: int) -> None:
    for seed in range(batch * 25, batch * 25 + 25):
        world, body = conversation(seed, values)
        assert not world.canaries.found_in(body), seed


@pytest.mark.slow
@pytest.mark.parametrize("values", MODES)
def test_no_request_of_a_thousand_conversations_holds_a_value(values: str) -> None:
    for seed in range(1000, 2000):
        world, body = conversation(seed, values)
        assert not world.canaries.found_in(body), seed


def test_without_the_setting_values_are_sent() -> None:
    """The search would find them."""
    found = 0
    for seed in range(10):
        world, body = conversation(seed, "all")
        found += bool(world.canaries.found_in(body))
    assert found >= 5


# ── leaks put in by hand ──────────────────────────────────────────────────────────────────────────


def _untouched(_: Disclosure, outcome: ev.CallOutcome) -> ev.CallOutcome:
    return outcome


def _with_message(_: Disclosure, outcome: ev.CallOutcome) -> str:
    return outcome.result


def _shown(_: Disclosure, text: str) -> str:
    return text


def _ended_as_is(_: Disclosure, end: ev.ProgramEnded) -> ev.ProgramEnded:
    return end


def _answer_kept(self: Any, ending: ev.Ending, disclosure: Disclosure) -> ev.Ending:
    if isinstance(ending, (ev.Answered, ev.Stopped)):
        return replace(ending, text=disclosure.filled(ending.text))
    return ending


_told = Disclosure.told


def _told_faults(self: Disclosure, reply: ev.Reply) -> ev.Reply:
    return reply if isinstance(reply, ev.Verdict) else _told(self, reply)


def _with_open_tool(self: Any) -> Disclosure:
    return Disclosure("none", self.variables, ("find", "says"))


LEAKS: dict[str, Callable[[], Any]] = {
    "results": lambda: patch.object(Disclosure, "_outcome", _untouched),
    "messages of exceptions": lambda: patch.object(Disclosure, "_error", _with_message),
    "what a program shows": lambda: patch.object(Disclosure, "_shown", _shown),
    "how a program ends": lambda: patch.object(Disclosure, "_ended", _ended_as_is),
    "arguments of a program's calls": lambda: patch.object(
        ProgramRunner, "_call_text", lambda _, call: repr(call.input)
    ),
    "the answer in the next question": lambda: patch.object(
        asking_module.Driver, "_filled", _answer_kept
    ),
    "what is wrong with an answer": lambda: patch.object(Disclosure, "told", _told_faults),
    "columns that were made": lambda: patch.object(Disclosure, "end", lambda _: None),
    "a tool that is taken for one of ours": lambda: patch.object(
        asking_module.RunSetup, "disclosure", _with_open_tool
    ),
    "earlier questions without the setting": lambda: patch.object(
        asking_module, "STRICTNESS", dict.fromkeys(asking_module.STRICTNESS, 0)
    ),
}


def _touching(leak: str) -> bool:
    """Whether the search finds a leak in one of the conversations that may have it."""
    for seed in range(60):
        world, body = conversation(seed)
        if world.canaries.found_in(body):
            return True
        if _special(leak, seed):
            return True
    return False


def _special(leak: str, seed: int) -> bool:
    """Conversations about one feature, for leaks that random ones seldom touch."""
    world = World(seed)
    if leak == "what is wrong with an answer":
        program = "```python\nanswer(f'{total}: {plan}')\n```"
        model = ScriptedModel(program, "```python\nanswer(3)\n```", protocol="program")
        agent = Agent(world.tools, values="none", namespace=world.namespace, context="all")
        with suppress(ArchytasError):
            agent.run("How many?", model=model, output_type=int)
    elif leak == "columns that were made":
        model = ScriptedModel(("changes", {}), "Done.", "Done.", protocol="native")
        agent = Agent(
            world.tools, model, values="none", namespace=world.namespace, protocol="native"
        )
        agent.run("Change it.")
        agent.run("What is in made?")
    elif leak == "earlier questions without the setting":
        model = ScriptedModel(("says", {}), "Done.", "Done.", protocol="native")
        agent = Agent(world.tools, model, namespace=world.namespace, protocol="native")
        agent.run("Say it.")
        asked = len(model.asked)
        strict = agent.__class__(
            world.tools, model, values="none", namespace=world.namespace, protocol="native"
        )
        strict.exchanges.extend(agent.exchanges)
        strict.run("What was it?")
        del model.asked[:asked]
    else:
        return False
    return bool(world.canaries.found_in(bodies(model)))


@pytest.mark.parametrize("leak", LEAKS)
def test_the_search_finds_a_leak(leak: str) -> None:
    assert not _special(leak, 0)
    with LEAKS[leak]():
        assert _touching(leak)


# ── the answer, and what is refused ───────────────────────────────────────────────────────────────


def count_rows() -> int:
    """Count the rows."""
    return 4711


@pytest.mark.parametrize("protocol", ["native", "react"])
def test_the_user_reads_the_values_and_the_model_its_template(protocol: Any) -> None:
    namespace: dict[str, Any] = {}
    template = "There are {count_rows_1:,} rows, not {braces here}."
    model = ScriptedModel(
        ("count_rows", {}), ("final_answer", template), ("final_answer", "Yes."), protocol=protocol
    )
    agent = Agent([count_rows], model, values="none", namespace=namespace, protocol=protocol)
    run = agent.run("How many rows?")
    assert run.answer == "There are 4,711 rows, not {braces here}."
    assert namespace == {"count_rows_1": 4711}
    agent.run("Sure?")
    assert template in bodies(model).decode()


def test_a_name_that_is_no_variable_is_named_again() -> None:
    model = ScriptedModel(
        ("count_rows", {}), "There are {rows}.", "There are {count_rows_1}.", protocol="native"
    )
    agent = Agent([count_rows], model, values="none", namespace={}, protocol="native")
    assert agent.run("How many rows?").answer == "There are 4711."
    assert "no variable is named 'rows'" in bodies(model).decode()


def test_scalars_may_be_told_and_texts_not() -> None:
    canaries = Canaries(1)
    canary = canaries.text()

    def name() -> str:
        """Name it."""
        return canary

    model = ScriptedModel(
        ("count_rows", {}), ("name", {}), "It is {name_1}, 4711.", protocol="native"
    )
    agent = Agent([count_rows, name], model, values="scalars", namespace={}, protocol="native")
    assert agent.run("Which?").answer == f"It is {canary}, 4711."
    body = bodies(model)
    assert b"4711" in body
    assert not canaries.found_in(body)


def test_a_comparison_tells_true_or_false_and_is_counted() -> None:
    model = ScriptedModel(
        ("count_rows", {}),
        ("compare", {"left": "count_rows_1", "op": ">", "right": "25"}),
        "More than 25.",
        protocol="native",
    )
    agent = Agent([count_rows], model, values="none", namespace={}, protocol="native")
    run = agent.run("More than 25?")
    assert run.steps[1].calls[0][1].text == "true"
    names = [
        each.name for each in Agent([count_rows], values="strict", namespace={}).tools.values()
    ]
    assert "compare" not in names


def test_what_the_user_is_asked_may_be_told() -> None:
    model = ScriptedModel(("ask_user", {"question": "Which year?"}), "In 2024.", protocol="native")
    agent = Agent([], model, values="none", namespace={}, protocol="native", ask_user=True)
    with patch.object(asking_module, "Keyboard", lambda: Scripted("2024")):
        agent.run("When?")
    assert b"2024" in bodies(model)


def test_pictures_typed_answers_and_maps_are_refused_with_the_reason() -> None:
    model = ScriptedModel("Done.", protocol="native")
    agent = Agent([count_rows], model, values="none", namespace={}, protocol="native")
    picture = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    for options in ({"images": picture}, {"output_type": int}):
        with pytest.raises(ConfigurationError, match="values is 'none'"):
            agent.run("What is it?", **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="values is 'none'"):
        agent.map(["a"], "What is {}?")
    assert model.asked == []


def test_a_lookup_in_a_question_is_refused(shell: InteractiveShell) -> None:
    shell.user_ns["plan"] = "Zq77"
    shell.user_ns["model"] = ScriptedModel("```python\nanswer('Done.')\n```")
    with pytest.raises(UsageError, match="without braces"):
        shell.run_line_magic("agent", "--values none --model model What is {plan}?")
    assert shell.user_ns["model"].asked == []
    shell.run_line_magic("agent", "--values none --raw --model model What is {plan}?")
    assert len(shell.user_ns["model"].asked) == 1


# ── what was sent ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _nothing_sent() -> Iterator[None]:
    before = list(sent.requests)
    sent.requests.clear()
    try:
        yield
    finally:
        sent.requests.clear()
        sent.requests.extend(before)


def test_the_list_of_what_was_sent_equals_what_arrived(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, also of requests that failed and were sent again."""
    reply = Say(calls=(("count_rows", {}),))
    with Server(reply, Say("There are {count_rows_1}.")) as server, _nothing_sent():
        monkeypatch.setenv("ARCHYTAS_NB_BASE_URL", server.url)
        monkeypatch.setenv("ARCHYTAS_NB_API_KEY", "k")
        agent = Agent([count_rows], "tiny-1", values="none", namespace={}, protocol="native")
        run = agent.run("How many rows?")
        assert run.answer == "There are 4711."
        arrived = [each.raw for each in server.asked]
        assert [each.body for each in sent.requests] == arrived
        assert not any(b"4711" in body for body in arrived)
        purposes = {each.purpose.values for each in sent.requests if each.purpose is not None}
        assert purposes == {"none"}
        shell.run_line_magic("load_ext", "archytas_nb")
        table = str(shell.run_line_magic("agent_sent", ""))
        assert "How many rows?" in table
        number = len(sent.requests)
        shown = str(shell.run_line_magic("agent_sent", str(number)))
        assert json.loads(shown) == json.loads(arrived[-1])
