"""What a person is shown of a call is complete and cannot be forged; only a clear answer decides."""

import enum
import json
import sys
import unicodedata
from typing import Annotated, Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.kernel.approval import (
    ApprovalDialogue,
    Decision,
    call_text,
    read_answer,
    read_input,
    visible,
)
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.tool import BoundCall, Tool
from tests.kernel.tools import Scripted

# ── the dialogue ───────────────────────────────────────────────────────────────────────────────────


def transfer(to: str, amount: int, note: str = "") -> str:
    return f"{to} got {amount}"


TOOL = Tool.from_function(transfer)

GIVEN = {"to": "Ann", "amount": 5}


def talk(*answers: str | type[BaseException], given: object = GIVEN) -> tuple[Decision, Scripted]:
    person = Scripted(*answers)
    bound = TOOL.bind(given)
    assert isinstance(bound, BoundCall)
    return ApprovalDialogue(person, TOOL, given, bound, {}).decide(), person


def test_yes_runs_the_call_once_and_always_says_so() -> None:
    decision, person = talk("y")
    assert decision.bound is not None
    assert decision.bound.kwargs["amount"] == 5
    assert not decision.always
    assert talk("a")[0].always
    assert 'to = "Ann"' in person.prompts[0]
    assert "amount = 5" in person.prompts[0]


def test_no_takes_an_optional_reason() -> None:
    assert (
        talk("n", "too much")[0].refusal
        == "The user refused this call: too much. Do not send the same call again."
    )
    assert (
        talk("n", "")[0].refusal == "The user refused this call. Do not send the same call again."
    )
    assert (
        talk("n, too much")[0].refusal
        == "The user refused this call: too much. Do not send the same call again."
    )


def test_a_reason_without_no_must_be_confirmed() -> None:
    refused, person = talk("that is too much", "y")
    assert refused.refusal.startswith("The user refused this call: that is too much.")
    assert "'that is too much'" in person.prompts[1]
    assert talk("yes please", "n", "y")[0].bound is not None


def test_an_unknown_word_decides_nothing() -> None:
    decision, person = talk("yep", "", "y")
    assert decision.bound is not None
    assert "'yep' is none of the choices. Nothing was run yet." in person.prompts[1]
    assert "Nothing was run yet." in person.prompts[2]


def test_help_explains_every_choice_and_asks_again() -> None:
    decision, person = talk("?", "s")
    assert decision.stop
    assert decision.bound is None
    for words in (
        "this once",
        "do not ask again for transfer",
        "change its input",
        "reason for the model",
        "whole run",
    ):
        assert words in person.prompts[1]
    assert "Ann" not in person.prompts[1]  # the call stands above, and is not shown again


def test_an_edited_input_is_validated_and_shown_again() -> None:
    decision, person = talk(
        "e", '{"to": "Bob", "amount": "many"}', '{"to": "Bob", "amount": 3}', "y"
    )
    assert decision.bound is not None
    assert decision.bound.kwargs == {"to": "Bob", "amount": 3}
    assert decision.edited == '{"to": "Bob", "amount": 3}'
    assert '{"to": "Ann", "amount": 5}' in person.prompts[1]
    assert "integer" in person.prompts[2]
    assert 'to = "Bob"' in person.prompts[3]


def test_one_argument_is_edited_by_name_and_a_syntax_error_asks_again() -> None:
    decision, person = talk("e", "amount: 4", "amount = 4", "y")
    assert "neither JSON nor a Python value" in person.prompts[2]
    assert decision.edited == '{"to": "Ann", "amount": 4}'


def test_an_empty_edit_leaves_the_call_as_it_was() -> None:
    decision, _ = talk("e", "", "y")
    assert (decision.edited, decision.bound and decision.bound.kwargs["to"]) == ("", "Ann")


def test_an_edited_call_can_still_be_refused() -> None:
    assert talk("e", "amount = 4", "n", "")[0].bound is None


def test_refuses_after_too_many_unclear_answers() -> None:
    assert "no clear answer" in talk(*["hm"] * 100)[0].refusal


@pytest.mark.parametrize("stop", [KeyboardInterrupt, EOFError])
@pytest.mark.parametrize("before", [[], ["n"], ["e"], ["some reason here"]])
def test_an_interrupt_and_the_end_of_input_are_raised_at_every_prompt(
    stop: type[BaseException], before: list[str]
) -> None:
    with pytest.raises(stop):
        talk(*before, stop)


# ── what an answer means, and how a call is shown ──────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "answer", "text"),
    [
        ("y", "yes", ""), (" Yes. ", "yes", ""), ("YES!", "yes", ""),
        ("a", "always", ""), ("e", "edit", ""), ("s", "stop", ""), ("?", "help", ""), ("help", "help", ""),
        ("n", "no", ""), ("no", "no", ""),
        ("n, the table is in use", "no", "the table is in use"), ("No: wrong year", "no", "wrong year"),
        ("", "unclear", ""), ("yep", "unclear", "yep"), ("x", "unclear", "x"), ("nothing", "unclear", "nothing"),
        ("no problem, go ahead", "reason", "no problem, go ahead"), ("yes please", "reason", "yes please"),
        ("take the other table", "reason", "take the other table"),
    ],
)  # fmt: skip
def test_reads_answers(line: str, answer: str, text: str) -> None:
    assert read_answer(line) == (answer, text)


@given(st.text())
def test_no_other_text_is_read_as_an_approval(line: str) -> None:
    if line.strip().casefold().rstrip(".!") not in ("y", "yes", "a", "always"):
        assert read_answer(line)[0] not in ("yes", "always")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_reads_json_and_python_literals(value: object) -> None:
    assert read_input(json.dumps(value), None, ["n"]) == value
    assert read_input(repr(value), None, ["n"]) == value


def test_reads_a_change_of_one_argument() -> None:
    before = {"table": "orders", "limit": 5}
    names = ["table", "limit", "where"]
    assert read_input("limit = 7", before, names) == {"table": "orders", "limit": 7}
    assert read_input('where="id == 3"', before, names) == {**before, "where": "id == 3"}
    assert before == {"table": "orders", "limit": 5}


@pytest.mark.parametrize(
    "text", ["hello", "{", "[1, 2", "limit = ", "{1, 2}", "nan", "f(3)", "other = 3", "a == 1"]
)
def test_rejects_an_input_that_is_no_value(text: str) -> None:
    with pytest.raises(ValueError, match="neither JSON nor a Python value"):
        read_input(text, {}, ["limit"])


def shown(name: str, **values: object) -> str:
    return call_text(name, values, values)


def test_shows_one_argument_a_line_and_text_of_several_lines_as_a_block() -> None:
    sql = "SELECT *\nFROM orders\nWHERE id < 3"
    assert shown("query", sql=sql, limit=5, tags=["a", "b"]).splitlines() == [
        "The agent wants to run query:",
        "  sql:",
        "    │ SELECT *",
        "    │ FROM orders",
        "    │ WHERE id < 3",
        "  limit = 5",
        '  tags = ["a", "b"]',
    ]
    assert shown("count", species="Gentoo").splitlines()[1] == '  species = "Gentoo"'
    assert shown("now") == "The agent wants to run now (no arguments)."


def test_shows_what_the_model_sent_beside_a_converted_value() -> None:
    values = {"a": 5, "b": "x", "c": None, "d": 1.0}
    assert call_text("f", values, {"a": "5", "b": "x"}).splitlines()[1:] == [
        '  a = 5  (sent as "5")',
        '  b = "x"',
        "  c = null",
        "  d = 1.0  (the default)",
    ]
    assert call_text("f", {"a": 5}, "5").endswith('  a = 5  (sent as "5")')


def test_shortens_long_values_in_the_middle() -> None:
    text = shown("f", a=list(range(5000)), b="x" * 70_000, c="line\n" * 900)
    assert "28,590 characters left out" in text
    assert "69,702 characters left out" in text
    assert "861 lines left out" in text
    assert "4999]" in text
    assert len(text) < 2000


@given(st.text() | st.dictionaries(st.text(), st.text(), max_size=3), st.text(min_size=1))
def test_no_text_of_the_model_can_forge_a_line_of_the_prompt(value: object, name: str) -> None:
    first, *lines = call_text(name, {"code": value}, {"code": value}).split("\n")
    assert first.startswith("The agent wants to run ")
    assert all(line.startswith(("  code", "    │ ", "    … ")) for line in lines)
    assert not any(
        unicodedata.category(each) in {"Cc", "Cf"} for line in (first, *lines) for each in line
    )


# ── what is shown is what runs ─────────────────────────────────────────────────────────────────────


class Level(enum.Enum):
    LOW = "keep it"
    HIGH = "delete it"


def run_sql(
    sql: Annotated[str, nb.ByName], level: Level = Level.LOW, dry: bool = True, limit: int = 10
) -> str:
    return f"ran {sql}, {level}, {dry}, {limit}"


def count(df: pd.DataFrame) -> int:
    return len(df)


def write(text: str) -> str:
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


def test_shows_the_value_of_a_reference_beside_its_name() -> None:
    _, person = ask(run_sql, {"sql": "sneaky"}, sneaky="DROP TABLE users")
    assert '  sql = "DROP TABLE users"' in person.prompts[0]
    assert '"sneaky"' in person.prompts[0]
    _, person = ask(count, {"df": {"$var": "frame"}}, frame=pd.DataFrame({"a": [123, 456]}))
    assert "123" in person.prompts[0]
    assert "frame" in person.prompts[0]


def test_shows_defaults_converted_values_and_enum_members() -> None:
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
def test_shows_the_end_of_a_long_argument_and_how_much_is_left_out(text: str) -> None:
    _, person = ask(write, text)
    assert "rm -rf /" in person.prompts[0]
    assert "left out" in person.prompts[0]
    assert len(person.prompts[0]) < 3000


def test_help_shows_long_arguments_whole() -> None:
    text = "\n".join(f"line {n} {'y' * 400} end {n}" for n in range(300))
    _, person = ask(write, text, "?", "n", "")
    assert "line 150" not in person.prompts[0]
    shown = person.prompts[1]
    assert all(f"line {n} {'y' * 400} end {n}" in shown for n in range(300))
    long = "z" * 3000
    assert long in ask(write, long, "?", "n", "")[1].prompts[1]


def test_runs_what_was_approved_though_the_variable_changed() -> None:
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


def test_shows_an_object_whose_repr_fails_or_forges() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    class Hostile:
        def __repr__(self) -> str:
            return "fine\nRun it? \u202e y\r"

    def use(thing: Broken | Hostile) -> str:
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


def test_spells_out_every_invisible_character() -> None:
    for point in range(sys.maxunicode + 1):
        sign = chr(point)
        kind = unicodedata.category(sign)
        hidden = sign != " " and (kind[0] in "CZ" or point in BLANK)
        if hidden:
            assert visible(sign).isascii(), hex(point)
            assert visible(sign).startswith("\\"), hex(point)
        elif kind[0] in "LNPS" and point != 0x2800:
            assert visible(sign) == sign, hex(point)


@pytest.mark.parametrize("sign", ["\u3164", "\xa0", "\u202e", "\U000e0041"])
def test_an_invisible_character_is_seen_in_every_form_of_an_argument(sign: str) -> None:
    spelled = sign.encode("unicode_escape").decode()
    for text in (f"rm{sign}x", f"first\nrm{sign}x"):
        assert f"rm{spelled}x" in ask(write, text)[1].prompts[0]
