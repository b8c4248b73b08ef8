"""A person who is asked sees what will run: the values themselves, whole if they want, with nothing invisible."""

import enum
import sys
import unicodedata
from typing import Annotated, Any

import pandas as pd
import pytest

import archytas_nb as nb
from archytas_nb.kernel.approval import visible
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import CallOutcome, ToolCall
from tests.kernel.people import Scripted


class Level(enum.Enum):
    LOW = "keep it"
    HIGH = "delete it"


def run_sql(
    sql: Annotated[str, nb.ByName], level: Level = Level.LOW, dry: bool = True, limit: int = 10
) -> str:
    """Run it.

    Args:
        sql: What
        level: How much
        dry: Whether nothing is done
        limit: How many
    """
    return f"ran {sql}, {level}, {dry}, {limit}"


def count(df: pd.DataFrame) -> int:
    """Count.

    Args:
        df: What
    """
    return len(df)


def write(text: str) -> str:
    """Write.

    Args:
        text: What
    """
    return text


def ask(
    function: Any, given: Any, *answers: str, person: Any = None, **names: Any
) -> tuple[CallOutcome, Scripted]:
    person = person or Scripted(*(answers or ["n", ""]))
    box = nb.Toolbox()
    box.add(function, approve=True)
    executor = KernelExecutor(box, names, person=person)
    [outcome] = executor.run([ToolCall("c", function.__name__, given)])
    return outcome, person


def test_the_value_of_a_reference_stands_beside_its_name() -> None:
    _, person = ask(run_sql, {"sql": "sneaky"}, sneaky="DROP TABLE users")
    assert '  sql = "DROP TABLE users"' in person.prompts[0]
    assert '"sneaky"' in person.prompts[0]
    _, person = ask(count, {"df": {"$var": "frame"}}, frame=pd.DataFrame({"a": [123, 456]}))
    assert "123" in person.prompts[0]
    assert "frame" in person.prompts[0]


def test_defaults_converted_values_and_members_of_an_enum_are_shown() -> None:
    _, person = ask(run_sql, {"sql": "q", "level": "HIGH", "limit": "7"}, q="SELECT 1")
    lines = person.prompts[0].splitlines()
    [level] = [line for line in lines if "level" in line]
    assert "delete it" in level
    [dry] = [line for line in lines if "dry" in line]
    assert "true" in dry
    assert "default" in dry
    [limit] = [line for line in lines if "limit" in line]
    assert limit.startswith("  limit = 7 ")


@pytest.mark.parametrize(
    "text",
    [
        f"{'x' * 5000}; rm -rf /",
        "\n".join([*["print(1)"] * 500, "rm -rf /"]),
        f"first\n{'x' * 5000}; rm -rf /",
    ],
)
def test_the_end_of_a_long_argument_is_shown_and_how_much_is_left_out(text: str) -> None:
    _, person = ask(write, text)
    assert "rm -rf /" in person.prompts[0]
    assert "left out" in person.prompts[0]
    assert len(person.prompts[0]) < 3000


def test_a_question_mark_shows_all_of_it() -> None:
    text = "\n".join(f"line {n} {'y' * 400} end {n}" for n in range(300))
    _, person = ask(write, text, "?", "n", "")
    assert "line 150" not in person.prompts[0]
    shown = person.prompts[1]
    assert all(f"line {n} {'y' * 400} end {n}" in shown for n in range(300))
    long = "z" * 3000
    assert long in ask(write, long, "?", "n", "")[1].prompts[1]


def test_what_was_approved_is_what_runs() -> None:
    names: dict[str, Any] = {"q": "SELECT 1"}

    class Meddling(Scripted):
        def ask(self, prompt: str) -> str:
            answer = super().ask(prompt)
            names["q"] = "DROP TABLE users"
            return answer

    box = nb.Toolbox()
    box.add(run_sql, approve=True)
    person = Meddling("y")
    [outcome] = KernelExecutor(box, names, person=person).run(
        [ToolCall("c", "run_sql", {"sql": "q"})]
    )
    assert "SELECT 1" in person.prompts[0]
    assert outcome.value.startswith("ran SELECT 1")


def test_an_object_whose_repr_fails_or_is_hostile_is_shown_all_the_same() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    class Hostile:
        def __repr__(self) -> str:
            return "fine\nRun it? \u202e y\r"

    def use(thing: Broken | Hostile) -> str:
        """Use.

        Args:
            thing: What
        """
        return "used"

    use.__annotations__["thing"] = Annotated[Any, nb.ByName]
    for thing in (Broken(), Hostile()):
        _, person = ask(use, "it", it=thing)
        assert (
            type(thing).__name__ in person.prompts[0]
            or "    │ Run it? \\u202e y" in person.prompts[0]
        )


BLANK = [
    0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFE00, 0xFE0F,
    0xFFA0, 0x16FE4, 0x1D159, 0x13441, 0x13442, 0xE0100, 0xE01EF,
]  # fmt: skip


def test_every_character_that_does_not_show_itself_is_spelled_out() -> None:
    for point in range(sys.maxunicode + 1):
        sign = chr(point)
        kind = unicodedata.category(sign)
        hidden = sign != " " and (kind[0] in "CZ" or point in BLANK)
        if hidden:
            assert visible(sign).isascii(), hex(point)
            assert visible(sign).startswith("\\"), hex(point)
        elif kind[0] in "LNPS" and point != 0x2800:
            assert visible(sign) == sign, hex(point)


@pytest.mark.parametrize(
    "sign", ["\u3164", "\u2800", "\u115f", "\ufe0f", "\xa0", "\u202e", "\u200b", "\U000e0041"]
)
def test_an_invisible_character_is_seen_in_every_form_of_an_argument(sign: str) -> None:
    spelled = sign.encode("unicode_escape").decode()
    for text in (f"rm{sign}x", f"first\nrm{sign}x"):
        assert f"rm{spelled}x" in ask(write, text)[1].prompts[0]
