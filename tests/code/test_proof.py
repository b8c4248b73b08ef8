"""The proof of a run: its comparisons, its words where it fails, and the acts that it never does."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pydantic
import pytest

import archytas_nb as nb
from archytas_nb.choices import AskBefore
from archytas_nb.effects.ledger import noted_in
from archytas_nb.kernel.person import person_elsewhere
from archytas_nb.testing import ScriptedModel
from tests.code.test_derive import Log, add, asked, body, mean_mass, order, program
from tests.scripted import Scripted


class Point(pydantic.BaseModel):
    x: int
    on: datetime


def test_values_are_compared_as_they_were_when_the_call_returned() -> None:
    items = [1, 2]

    def current() -> list[int]:
        """The list itself."""
        return items

    run = asked([current], ("current", None), ("final_answer", "1 and 2"))
    assert run.verify().holds
    items.append(3)
    proof = run.verify()
    assert "the value of current was [1, 2] and is [1, 2, 3]" in str(proof)
    assert run.check().status == "changed"
    text = 'r = order("Ann")\nr["lines"].pop()\nanswer(len(r["lines"]))'
    assert asked([order], program(text), protocol="program", output_type=int).verify().holds


def test_what_is_left_in_the_variables_is_compared() -> None:
    log = Log(1)
    step = {"size": 1}

    def more(log: Log) -> None:
        """Add to a log."""
        log.values.append(step["size"])

    run = asked([more], ("more", {"log": "log"}), ("final_answer", "done"), variables={"log": log})
    assert run.verify().holds
    step["size"] = 2
    proof = run.verify()
    assert not proof.holds
    assert "the variable 'log'" in str(proof)
    assert log.values == [1, 1]


def test_a_call_that_failed_after_a_change_stays() -> None:
    def store(log: Log, value: int) -> int:
        """Add a value."""
        log.values.append(value)
        if value < 0:
            raise ValueError("a negative value")
        return len(log.values)

    given = [("store", {"log": "log", "value": value}) for value in (-7, 8)]
    run = asked([store], *given, ("final_answer", "2"), variables={"log": Log()})
    assert body(run).splitlines()[:4] == [
        "try:", "    store(log=log, value=-7)", "except ValueError:", "    pass",
    ]  # fmt: skip
    assert run.verify().holds
    variables: dict[str, Any] = {"xs": [1]}
    code = 'text = """a\n  b"""\nxs.append(text)\nxs[9]'
    model = ScriptedModel(("python", {"code": code}), ("final_answer", "done"))
    run = nb.Agent([], model=model, namespace=variables, python="undoable").run("?")
    assert run.verify().holds
    fresh: dict[str, Any] = {"xs": [1]}
    exec(run.code(), fresh)
    assert fresh["xs"] == [1, "a\n  b"]


def test_methods_and_tools_without_a_variable_of_their_own_are_compared() -> None:
    class Shop:
        def price(self, article: str) -> int:
            """The price of an article."""
            return len(article) * 10

    shop = Shop()
    tool = nb.Tool.from_function(shop.price)
    variables = {"shop": shop}
    model = ScriptedModel(("price", {"article": "lamp"}), ("final_answer", "40"))
    run = nb.Agent([tool], model=model, namespace=variables, undo=True).run("How much is a lamp?")
    assert body(run) == 'price_result = shop.price(article="lamp")'
    assert str(run.verify()).startswith("verified: 1 of 1")
    shop.__class__.price = lambda self, article: 7  # type: ignore[method-assign, assignment]
    assert "was 40 and is 7" in str(run.verify())


def test_a_function_or_class_of_a_module_is_imported() -> None:
    from tests.code import test_derive

    model = ScriptedModel(
        ("booked", {"room": {"name": "blue", "opened": "1999-01-31"}, "on": "2024-02-29"}),
        ("final_answer", "booked"),
    )
    tool = nb.Tool.from_function(test_derive.booked)
    run = nb.Agent([tool], model=model, namespace={}, undo=True).run("Book the room")
    assert "from tests.code.test_derive import booked" in run.code()
    assert run.verify().holds
    fresh: dict[str, Any] = {}
    exec(run.code(), fresh)
    assert fresh["booked_result"] == "blue 2024-02-29 LOW 1999"


def test_what_is_awaited_or_read_from_an_iterator_is_so_in_the_code() -> None:
    async def later(number: int) -> int:
        """Later."""
        return number * 3

    def promised(number: int) -> Any:
        """A promise."""
        return later(number)

    def squares(number: int) -> Iterator[int]:
        """Squares."""
        yield from (each * each for each in range(number))

    async def cubes(number: int) -> AsyncIterator[int]:
        """Cubes."""
        for each in range(number):
            yield each**3

    def pairs(number: int) -> Any:
        """Pairs."""
        return zip(range(number), range(number), strict=True)

    tools = [later, promised, squares, cubes, pairs]
    calls = [(each.__name__, {"number": 3}) for each in tools]
    run = asked(tools, *calls, ("final_answer", "done"), question="3?")
    assert str(run.verify()).startswith("verified: 5 of 5")
    text = (
        "a = sum(later(each) for each in [3, 4])\nb = promised(3)\nc = squares(3)\n"
        "d = cubes(3)\ne = pairs(3)\nanswer(a + b + sum(c) + sum(c) + sum(d) + len(e))"
    )
    run = asked(tools, program(text), protocol="program", output_type=int, question="3 and 4?")
    assert run.output == 21 + 9 + 10 + 9 + 3
    assert str(run.verify()).startswith("verified: 7 of 7")


def test_what_only_a_run_can_do_stands_as_a_value_and_no_model_is_asked() -> None:
    inner = ScriptedModel(("final_answer", "It is 42."))
    helper = nb.Agent([], model=inner, namespace={}).as_tool("helper", "Answers questions.")

    def wonder(text: str, run: nb.CurrentRun) -> str:
        """Ask the model."""
        return run.ask(text)

    run = asked([wonder], ("wonder", {"text": "hm?"}), "a thought", ("final_answer", "so"))
    assert body(run) == 'wonder_result = "a thought"'
    model = ScriptedModel(("helper", {"question": "?"}), ("final_answer", "42"))
    run = nb.Agent([helper], model=model, namespace={}).run("?")
    before = len(inner.asked), len(model.asked)
    assert body(run) == 'helper_result = "It is 42."'
    assert not run.verify().holds
    assert run.check().status == "cannot say"
    assert (len(inner.asked), len(model.asked)) == before


def test_a_value_that_cannot_be_compared_is_said() -> None:
    def lock(number: int) -> Any:
        """A lock."""
        return threading.Lock()

    def move(point: Point) -> Point:
        """Move."""
        return point

    run = asked([lock], ("lock", {"number": 30}), ("final_answer", "done"))
    assert not run.verify().holds
    assert "the value of lock" in run.verify().not_compared[0]
    given = {"point": {"x": 1, "on": "2024-02-29T12:00:00+01:00"}}
    run = asked([move], ("move", given), ("final_answer", "done"), variables={"Point": Point})
    assert "TzInfo" not in run.code()
    assert run.verify().holds
    assert str(asked([lock], ("final_answer", "hi")).verify()).startswith("nothing to verify")


@pytest.mark.parametrize("code", ["by_closure()", "[send][0](5)", "clean(5)"])
def test_a_tool_of_no_list_is_not_run_again_whatever_calls_it(code: str) -> None:
    sent: list[int] = []

    def send(number: int) -> int:
        """Send."""
        sent.append(number)
        return number

    def clean(number: int) -> int:
        """Clean."""
        return send(number)

    tool = nb.Tool.from_function(send, approve=True)
    variables: dict[str, Any] = {"send": send, "clean": clean, "by_closure": lambda: send(5)}
    model = ScriptedModel(("python", {"code": code}), ("final_answer", "sent"))
    agent = nb.Agent([clean], model=model, namespace=variables, python="undoable", approve="auto")
    run = agent.run("?")
    assert (sent, tool.approve) == ([5], True)
    assert not run.verify().holds
    run.code()
    assert sent == [5]


def test_a_tool_that_calls_one_with_approval_is_not_run_again() -> None:
    sent: list[int] = []

    def send(number: int) -> int:
        """Send."""
        sent.append(number)
        return number

    def clean(number: int) -> int:
        """Clean."""
        return send(number)

    tool = nb.Tool.from_function(send, approve=True)
    run = asked([clean], ("clean", {"number": 5}), ("final_answer", "sent"))
    assert (sent, tool.approve) == ([5], True)
    assert "PermissionError" in str(run.verify())
    assert sent == [5]


@pytest.mark.parametrize("within", ["python", "call"])
def test_what_needs_approval_is_not_run_again_by_other_ways(within: str) -> None:
    sent: list[int] = []

    def send(number: int) -> int:
        """Send."""
        sent.append(number)
        return number

    tool = nb.Tool.from_function(send, approve=True)
    variables: dict[str, Any] = {"send": send}
    call = ("send", {"number": 5}) if within == "call" else ("python", {"code": "send(5)"})
    model = ScriptedModel(call, ("final_answer", "sent"))
    run = nb.Agent([tool], model=model, namespace=variables, python="undoable", approve="auto").run(
        "?"
    )
    assert sent == [5]
    assert "needs your approval" in run.verify().why
    assert sent == [5]


def test_what_the_code_prints_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(("python", {"code": "print('loud')\n5 + 5"}), ("final_answer", "10"))
    run = nb.Agent([], model=model, namespace={}, python="undoable").run("?")
    capsys.readouterr()
    assert run.verify().holds
    assert "loud" not in capsys.readouterr().out


def test_what_has_changed_since_is_named() -> None:
    log = Log(1)

    def size(log: Log) -> int:
        """The size."""
        return len(log.values) * 100

    run = asked([size], ("size", {"log": "log"}), ("final_answer", "100"), variables={"log": log})
    log.values.append(2)
    assert str(run.verify()).endswith("log changed since")
    run = asked(
        [add], ("add", {"log": "log", "value": 30}), ("final_answer", "?"),
        variables={"log": Log()}, undo=False,
    )  # fmt: skip
    assert run.verify().holds  # nothing was returned, and what it left is not known
    assert mean_mass("Gentoo") == 5076.0


def collect(item: str, into: list[str] = []) -> list[str]:  # noqa: B006 - as users write
    """Collect an item."""
    into.append(item)
    return into


def test_a_default_that_calls_in_plain_python_would_share_is_given() -> None:
    items = [("collect", {"item": each}) for each in ("apple", "pear")]
    run = asked([collect], *items, ("final_answer", "done"))
    assert str(run.verify()) == "verified: 2 of 2 values equal, no model asked"
    assert run.code().count("into=[]") == 2


@pytest.mark.parametrize("asks_before", [(), ("process",)])
def test_what_code_asks_a_person_before_is_not_done_again(
    asks_before: tuple[AskBefore, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    starts = "import subprocess\nsubprocess.run(['sh', '-c', 'echo x >> ../sent'])\nx = 1\nx"
    person = Scripted(*"y" * len(asks_before))
    token = person_elsewhere.set(person)
    sent = tmp_path / "sent"
    try:
        model = ScriptedModel(("python", {"code": starts}), ("final_answer", "sent"))
        agent = nb.Agent(model=model, namespace={"n": 1}, python="undoable", ask_before=asks_before)
        proof = agent.run("?").verify()
    finally:
        person_elsewhere.reset(token)
    assert len(person.prompts) == len(asks_before)
    assert proof.holds is not bool(asks_before)
    assert ("needs your approval" in proof.why) is bool(asks_before)
    assert sent.read_text() == "x\n" * (2 - len(asks_before))


OTHER = "import pathlib, time; time.sleep(0.3); pathlib.Path('own.txt').write_text('of a person')"


@pytest.mark.skipif(sys.platform != "linux", reason="the system must tell which files are open")
@pytest.mark.parametrize("is_other", [False, True])
def test_a_file_that_a_person_edits_while_code_is_proved_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_other: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    writes = (
        "import pathlib, time\nn = pathlib.Path('own.txt').write_text('own')\nwait()\n"
        "with open('long.txt', 'w') as f:\n"
        "    for _ in range(20):\n        f.write('x')\n        f.flush()\n        time.sleep(0.01)\n"
        "n"
    )
    writes_now: list[bool] = [False]

    def wait() -> None:
        if writes_now[0]:
            with noted_in(None):  # the code has not started it
                subprocess.run([sys.executable, "-c", OTHER], check=True)

    model = ScriptedModel(("python", {"code": writes}), ("final_answer", "3"))
    run = nb.Agent(model=model, namespace={"wait": wait}, python="undoable").run("?")
    writes_now[0] = is_other
    proof = run.verify()
    assert proof.holds is not is_other
    left = {each.name: each.read_text() for each in tmp_path.iterdir()}
    own = "of a person" if is_other else "own"
    assert left == {"own.txt": own, "long.txt": "x" * 20}


def test_a_proof_leaves_what_another_program_writes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    writes = "import pathlib\nn = pathlib.Path('own.txt').write_text('own')\nmeanwhile()\nn"
    others: list[bool] = [False]

    def meanwhile() -> None:
        if others[0]:  # without an event of this process
            with noted_in(None):
                (tmp_path / "other.txt").write_text("other")

    model = ScriptedModel(("python", {"code": writes}), ("final_answer", "3"))
    run = nb.Agent(model=model, namespace={"meanwhile": meanwhile}, python="undoable").run("?")
    run.undo()
    others[0] = True
    run.verify()
    assert [each.name for each in tmp_path.iterdir()] == ["other.txt"]
    assert (tmp_path / "other.txt").read_text() == "other"
