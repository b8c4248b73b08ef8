"""The code of a run, and its proof."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from typing_extensions import TypedDict, Unpack

import archytas_nb as nb
from archytas_nb import driver
from archytas_nb.loop.events import ModelReply
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from tests.scripted import Scripted

MASSES = {"Gentoo": 5076.0, "Adelie": 3700.5, "Chinstrap": 3733.25}


def mean_mass(species: str) -> float:
    """The mean mass of a species."""
    return MASSES[species]


def order(customer: str) -> dict[str, Any]:
    """The last order of a customer."""
    return {"id": 4711, "lines": [{"sku": "XK-12", "count": 3}], "by": customer}


def ship(order_id: int, sku: str, weight: float = 1.0) -> str:
    """Ship an article of an order."""
    if sku == "none":
        raise ValueError("there is no such article")
    return f"{sku} of {order_id} at {weight}"


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Room:
    name: str
    opened: date


def booked(room: Room, on: date, level: Level = Level.LOW) -> str:
    """Book a room."""
    return f"{room.name} {on} {level.name} {room.opened.year}"


class Log:
    def __init__(self, *values: int) -> None:
        self.values = list(values)


def add(log: Log, value: int) -> None:
    """Add a value to a log."""
    log.values.append(value)


class Parts(TypedDict, extra_items=float):  # type: ignore[call-arg]
    pass


def label(text: str, **parts: Unpack[Parts]) -> str:
    """Label parts."""
    return f"{text} {parts}"


def program(text: str) -> str:
    return f"```python\n{text}\n```"


def asked(
    tools: Any, *replies: Any, protocol: str = "react", question: str = "?", variables: Any = None,
    undo: bool = True, **options: Any,
) -> Run[Any]:  # fmt: skip
    names = {each.__name__: each for each in tools} | {"Room": Room, "Level": Level}
    namespace = names | (variables or {})
    model = ScriptedModel(*replies, protocol=protocol)  # type: ignore[arg-type]
    agent = nb.Agent(tools, model=model, protocol=protocol, namespace=namespace, undo=undo)  # type: ignore[arg-type]
    return agent.run(question, **options)


def body(run: Run[Any]) -> str:
    """The code without comments."""
    return "\n".join(line for line in run.code().splitlines() if not line.startswith("#"))


def proved(run: Run[Any], count: int) -> None:
    proof = run.verify()
    assert proof.holds, str(proof)
    assert (proof.equal, proof.values) == (count, count)


GENTOO = ("mean_mass", {"species": "Gentoo"})
ADELIE = ("mean_mass", {"species": "Adelie"})


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_calls_become_statements_with_names(protocol: str) -> None:
    run = asked([mean_mass], GENTOO, ADELIE, ("final_answer", "5076 and 3700.5"), protocol=protocol)
    assert body(run) == (
        'gentoo = mean_mass(species="Gentoo")\nadelie = mean_mass(species="Adelie")'
    )
    assert str(run.verify()) == "verified: 2 of 2 values equal, no model asked"


def test_a_typed_answer_that_the_model_worked_out_is_a_formula_and_a_guess() -> None:
    run = asked([mean_mass], GENTOO, ADELIE, ("final_answer", 1375.5), output_type=float)
    assert body(run).splitlines()[-2:] == ["answer = gentoo - adelie", "assert answer == 1375.5"]
    assert "# a guess: the model worked out 1375.5 by itself" in run.code()
    proved(run, 3)


def test_a_number_that_is_no_result_is_marked() -> None:
    run = asked([mean_mass], GENTOO, ("final_answer", "5076 g, in 2019, of 8 birds"), question="8?")
    assert "# 2019 is not a result: the model worked it out by itself" in run.code()
    assert "# 8 is" not in run.code()
    assert "# 5076" not in run.code()


def test_a_number_that_a_call_got_is_marked_once() -> None:
    shipped = ("ship", {"order_id": 55, "sku": "XK-12"})
    run = asked([ship], shipped, ("final_answer", "Order 55 is on its way, of 77"))
    assert "55 is not" not in run.code()
    assert "# 55 was chosen by the model, not taken from the question or a result" in run.code()
    assert "# 77 is not a result" in run.code()


def test_a_typed_number_that_is_no_result_is_marked() -> None:
    run = asked([mean_mass], GENTOO, ("final_answer", 17.25), output_type=float)
    assert "17.25 is not a result" in run.code()
    assert "assert" not in run.code()


def test_failed_calls_go_and_dependent_values_are_variables() -> None:
    run = asked(
        [order, ship],
        ("order", {"customer": "Ann"}),
        ("ship", {"order_id": 4711, "sku": "none"}),
        ("ship", {"order_id": "4711", "sku": "XK-12", "weight": 7.5}),
        ("final_answer", "done"),
        question="Ship the order of Ann",
    )
    assert "none" not in run.code()
    assert 'order_id=order_result["id"]' in run.code()
    assert 'sku=order_result["lines"][0]["sku"]' in run.code()
    assert "# a guess: 4711 is" in run.code()
    assert "# 7.5 was chosen by the model, not taken from the question or a result" in run.code()
    proved(run, 2)


@pytest.mark.parametrize("protocol", ["react", "native", "program"])
def test_the_code_holds_what_a_person_had_run(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "Keyboard", lambda: Scripted("order_id=99", "y"))
    given = {"order_id": 4711, "sku": "XK-12"}
    replies: list[Any] = [("ship", given), ("final_answer", "done")]
    if protocol == "program":
        replies = [program("shipped = ship(4711, sku='XK-12')\nanswer(shipped)")]
    tool = nb.Tool.from_function(ship, approve=True)
    model = ScriptedModel(*replies, protocol=protocol)  # type: ignore[arg-type]
    agent = nb.Agent([tool], model=model, protocol=protocol, namespace={"ship": ship})  # type: ignore[arg-type]
    run = agent.run("Ship XK-12 of order 4711")
    assert body(run) == 'ship_result = ship(order_id=99, sku="XK-12")'
    assert "4711)" not in run.code()


def test_a_value_of_the_question_stays_a_literal() -> None:
    run = asked(
        [order, ship],
        ("order", {"customer": "Ann"}),
        ("ship", {"order_id": 4711, "sku": "XK-12"}),
        ("final_answer", "done"),
        question="Ship XK-12 of order 4711",
    )
    assert body(run).splitlines()[1] == 'ship_result = ship(order_id=4711, sku="XK-12")'


def test_arguments_are_what_the_function_received() -> None:
    given = {"room": {"name": "blue", "opened": "1999-01-31"}, "on": "2024-02-29", "level": "high"}
    run = asked([booked], ("booked", given), ("final_answer", "booked"))
    assert 'Room(name="blue", opened=datetime.date(1999, 1, 31))' in run.code()
    assert 'level=Level["HIGH"]' in run.code()
    assert run.code().splitlines()[1] == "import datetime"
    proved(run, 1)


def test_no_name_of_the_user_is_taken() -> None:
    variables = {"gentoo": 1, "mean_mass_result": 2}
    run = asked([mean_mass], GENTOO, ("final_answer", "5076"), variables=variables)
    assert body(run) == 'mean_mass_result_2 = mean_mass(species="Gentoo")'
    run.verify()
    assert run.namespace is not None
    assert {name: run.namespace[name] for name in variables} == variables


def test_references_stay_names_and_the_state_before_is_restored_for_the_proof() -> None:
    def total(log: Log) -> int:
        """The sum of a log."""
        return sum(log.values)

    log = Log(1, 2)
    run = asked(
        [add, total], ("add", {"log": "log", "value": 30}), ("total", {"log": {"$var": "log"}}),
        ("final_answer", "33"), variables={"log": log}, question="Add 30 to log",
    )  # fmt: skip
    assert body(run) == "add(log=log, value=30)\ntotal_result = total(log=log)"
    proved(run, 3)  # two values of calls, and what is left in log
    assert log.values == [1, 2, 30]
    run.undo()
    assert log.values == [1, 2]


def test_code_of_the_model_is_copied_and_its_value_named_where_it_is_used() -> None:
    variables = {"masses": [1.5, 2.25]}
    model = ScriptedModel(
        ("python", {"code": "# both\ntotal = sum(masses)\ntotal * 2"}),
        ("python", {"code": "masses.append(total)\nlen(masses)"}),
        ("final_answer", 7.5),
    )
    agent = nb.Agent([], model=model, namespace=variables, python="undoable")
    run = agent.run("?", output_type=float)
    assert body(run) == (
        "total = sum(masses)\nresult = total * 2\nmasses.append(total)\nlen(masses)\n"
        "answer = result\nassert answer == 7.5"
    )
    proved(run, 5)  # two values of the code, two variables, the answer
    assert variables["masses"] == [1.5, 2.25, 3.75]


def test_a_repeated_call_is_made_once() -> None:
    run = asked([mean_mass], GENTOO, GENTOO, ADELIE, GENTOO, ("final_answer", "5076"))
    assert body(run).count("Gentoo") == 1
    proved(run, 2)


def test_several_calls_in_a_reply() -> None:
    calls = [GENTOO, ADELIE]
    replies = ModelReply(calls=tuple(_wire(*each) for each in calls), finish="tool_calls")
    run = asked([mean_mass], replies, ("final_answer", "5076"), protocol="native")
    assert len(body(run).splitlines()) == 2
    proved(run, 2)


def _wire(name: str, given: Any) -> Any:
    import json

    from archytas_nb.loop.events import WireCall

    return WireCall(name, json.dumps(given))


# ── programs ──────────────────────────────────────────────────────────────────────────────────────

WHICH = """\
# each species by itself
bills = {each: mean_mass(species=each) for each in ["Gentoo", "Adelie"]}
show(bills)
first, second = sorted(bills, key=bills.get, reverse=True)[:2]
if bills[first] > 4000:
    answer(f"{first}, by {bills[first] - bills[second]:.1f} g")
answer("none")"""


def test_a_program_becomes_plain_python() -> None:
    run = asked([mean_mass], program(WHICH), protocol="program", variables={"first": 1})
    assert run.code().splitlines()[1:] == [
        "# each species by itself",
        'bills = {each: mean_mass(species=each) for each in ["Gentoo", "Adelie"]}',
        "first_2, second = sorted(bills, key=bills.get, reverse=True)[:2]",
        "if bills[first_2] > 4000:",
        "    answer = f'{first_2}, by {bills[first_2] - bills[second]:.1f} g'",
        "else:",
        "    answer = 'none'",
        "# answer: Gentoo, by 1375.5 g",
    ]
    proved(run, 3)


def test_the_answer_in_a_loop_leaves_it() -> None:
    text = """\
for each in ["Gentoo", "Adelie", "Chinstrap"]:
    mass = mean_mass(each)
    if mass < 4000:
        answer(mass)
answer(0)"""
    run = asked([mean_mass], program(text), protocol="program", output_type=float)
    assert "break" in run.code()
    proved(run, 3)


def test_the_answer_in_a_function_or_a_try_leaves_the_program() -> None:
    text = """\
def tell(name):
    try:
        answer(mean_mass(name))
    except KeyError:
        return None

tell("Emperor")
tell("Adelie")
tell("Gentoo")"""
    run = asked([mean_mass], program(text), protocol="program", output_type=float)
    assert run.output == 3700.5
    assert "Answered" in run.code()
    proof = run.verify()
    assert proof.holds, str(proof)


def test_a_program_that_is_written_again_stands_once() -> None:
    again = 'gentoo = mean_mass("Gentoo")\n'
    run = asked(
        [mean_mass],
        program(f'{again}emperor = mean_mass("Emperor")\nshow(emperor)'),
        program(f'{again}adelie = mean_mass("Adelie")\nanswer(gentoo - adelie)'),
        protocol="program",
        output_type=float,
    )
    assert body(run).count("Gentoo") == 1
    assert "Emperor" not in run.code()
    proved(run, 3)


def test_what_a_failed_program_has_done_stays() -> None:
    run = asked(
        [mean_mass],
        program('x = mean_mass("Gentoo")\ny = mean_mass("Emperor")\nshow(y)'),
        program('y = mean_mass("Adelie")\nanswer(x - y)'),
        protocol="program",
        output_type=float,
    )
    assert body(run) == (
        'x = mean_mass("Gentoo")\ny = mean_mass("Adelie")\nanswer = x - y\nassert answer == 1375.5'
    )
    proved(run, 3)


def test_names_and_texts_become_what_the_function_takes() -> None:
    def size(log: Log, on: date) -> int:
        """Size."""
        return len(log.values) * on.year

    text = 'which = "numbers"\nn = size("numbers", on="2020-02-29") + size(which, "2021-02-28")\nanswer(n)'
    run = asked(
        [size], program(text), protocol="program", variables={"numbers": Log(1, 2)},
        output_type=int,
    )  # fmt: skip
    assert run.output == 2 * 4041
    assert "size(numbers, on=datetime.date(2020, 2, 29))" in run.code()
    proved(run, 3)


# ── what cannot be proved ─────────────────────────────────────────────────────────────────────────


def test_a_value_that_differs_is_named() -> None:
    counted: list[int] = []

    def count() -> int:
        """Count."""
        counted.append(1)
        return len(counted) + 40

    run = asked([count], ("count", None), ("final_answer", "41"), undo=False)
    proof = run.verify()
    assert not proof.holds
    assert (proof.differences[0].before, proof.differences[0].now) == (41, 42)


def test_a_tool_that_asks_for_approval_is_not_called_again() -> None:
    called: list[int] = []

    def send(number: int) -> int:
        """Send."""
        called.append(number)
        return number

    model = ScriptedModel(("send", {"number": 20}), ("final_answer", "sent"))
    tool = nb.Tool.from_function(send, approve=True)
    run = nb.Agent([tool], model=model, approve="auto", namespace={}).run("Send 20")
    assert "send(number=20)" in run.code()
    assert "approval" in run.verify().why
    assert called == [20]


def test_code_that_raises_is_undone() -> None:
    run = asked([mean_mass], GENTOO, ("final_answer", "5076"))
    assert run.namespace is not None
    run.namespace["mean_mass"] = lambda species: 1 / 0
    before = dict(run.namespace)
    assert "ZeroDivisionError" in run.verify().why
    assert run.namespace == before


def test_a_run_that_goes_on_has_no_code() -> None:
    with pytest.raises(RuntimeError, match="not ended"):
        Run("?").code()


def test_arguments_of_a_program_are_computed_in_the_order_in_which_they_are_written() -> None:
    text = (
        'said = label(big=mean_mass(species="Gentoo"), text=str(mean_mass(species="Adelie")))\n'
        "answer(said)"
    )
    run = asked([mean_mass, label], program(text), protocol="program")
    assert body(run).splitlines()[0] == text.splitlines()[0]
    proved(run, 4)
