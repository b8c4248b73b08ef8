"""The grammar of programs: complete, and made from the tools and the names that are bound."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.small.grammar import (
    STATEMENTS_LEFT_OUT,
    ProgramGrammar,
    compared_in,
)

TOOLS: dict[str, Any] = {
    "average": {"properties": {"measure": {"enum": ["length", 'a "b"']}, "of": {}}},
    "now": {"properties": {}},
}
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)+\]')


def rules(grammar: str) -> dict[str, str]:
    """The bodies of the rules by their names; no name has two."""
    pairs = [line.split(" ::= ", 1) for line in grammar.rstrip("\n").split("\n")]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)  # type: ignore[arg-type]


def grammars(tools: dict[str, Any], names: list[str]) -> list[str]:
    made = ProgramGrammar(tools)
    texts = [made.program(), made.line(names), made.remark()]
    texts.append(made.program(is_corrected=True))
    texts += [made.retry(f"x = {tool}(a=1)", names) for tool in [*tools, "other"]]
    if tools:
        texts.append(made.first_call(names, may_answer=False))
        texts.append(made.program(is_corrected=True, calls_first=True))
    for each in (made, *map(made.answering, ANSWERS)):
        texts += [each.program_that_ends("answer"), each.answer(names), each.line(names, names[:1])]
        texts.append(each.program_that_ends("answer", ()))
        if tools:
            texts.append(each.first_call(names, may_answer=True))
    return texts


ANSWERS: list[Any] = [
    {"type": "integer"},
    {"type": ["boolean", "null"]},
    {"type": "array", "items": {"type": "string"}},
    {"enum": ["low", 'a "b"']},
    {"anyOf": [{"type": "object"}, {"const": "none"}]},
    {},
]
names = st.lists(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), max_size=4)
schemas = st.fixed_dictionaries(
    {}, optional={"enum": st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=3)}
)
tools = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
    st.builds(
        lambda properties: {"properties": properties},
        st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), schemas, max_size=3),
    ),
    max_size=4,
)


@given(tools, names)
def test_every_rule_that_is_used_is_defined_whatever_the_tools_are(
    tools: dict[str, Any], names: list[str]
) -> None:
    for grammar in grammars(tools, names):
        defined = rules(grammar)
        assert "root" in defined
        for body in defined.values():
            used = set(
                re.findall(r"[a-z][a-z0-9]*", re.sub(r"\{[0-9,]+\}", "", LITERAL.sub("", body)))
            )
            assert used <= set(defined), used - set(defined)


def test_a_tool_is_called_with_its_parameters_and_legal_values() -> None:
    defined = rules(ProgramGrammar(TOOLS).program())
    call = defined["callfree"]
    assert r'"measure=" ("\"length\"" | "\"a \\\"b\\\"\"" | variablefree)' in call
    assert '"of=" exprfree' in call
    assert '"now()"' in call


@given(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
    | st.builds(
        "{}{}".format, st.sampled_from(STATEMENTS_LEFT_OUT), st.sampled_from(["", "_a", "x"])
    )
    | st.sampled_from([word[:-1] for word in STATEMENTS_LEFT_OUT])
)
def test_a_line_begins_with_any_name_but_those_that_begin_with_a_statement_left_out(
    name: str,
) -> None:
    defined = rules(ProgramGrammar(TOOLS).program())
    text = defined["start"].replace("rest", defined["rest"])
    begins = re.compile(re.sub(r'[" ]', "", text))
    assert bool(begins.fullmatch(name)) == (not name.startswith(STATEMENTS_LEFT_OUT))


def test_where_names_are_any_a_line_begins_with_no_other_one() -> None:
    made = ProgramGrammar(TOOLS)
    for grammar in (made.program(), made.program(calls_first=True)):
        defined = rules(grammar)
        assert defined["subject"] == "start"
        beginnings = [defined["root"], defined["assignment"], defined["change"], defined["action"]]
        for body in beginnings:
            # An identifier stands only behind something else.
            assert not re.search(r"(^|\| |\()(identifier|namefree|targets)", body), body
    assert rules(made.line(["x"]))["subject"] == "namebound"


def test_required_arguments_are_always_written_and_first() -> None:
    properties = {"to": {}, "subject": {}, "urgent": {}}
    tools = {"send": {"properties": properties, "required": ["to", "subject"]}}
    defined = rules(ProgramGrammar(tools).program())
    call = defined["callfree"].partition(" | builtin")[0]
    given = '("to=" exprfree) ", " ("subject=" exprfree) (", " (("urgent=" exprfree)))*'
    assert call == f'"send(" {given} ")"'


def test_the_first_line_is_a_call_with_plain_values_or_an_answer() -> None:
    made = ProgramGrammar({"send": {"properties": {"to": {}}, "required": ["to"]}})
    call = '(start " = ")? ("send(" ("to=" inputbound) ")")'
    assert rules(made.first_call([], may_answer=False))["root"].startswith(f"({call} | last) ")
    first = rules(made.first_call(["x"], may_answer=True))
    known = f'{call} | "answer(" (plaintext | stringbound | filledbound) ")"'
    assert first["root"].startswith(f"({known}) ")
    value = rules(made.first_call(["x"], may_answer=True, may_assign=True))
    assert value["root"].startswith(f'({known} | start " = " inputbound) ')
    assert first["namebound"] == '"x"'


def test_plain_values_follow_the_type_of_the_parameter() -> None:
    types = {"to": {"type": "string"}, "of": {"type": "integer"}, "now": {"type": "boolean"}}
    properties = {**types, "with": {"type": ["string", "null"]}}
    made = ProgramGrammar({"send": {"properties": properties, "required": [*properties]}})
    root = rules(made.first_call([], may_answer=False))["root"]
    assert re.findall(r'"(\w+)=" (\w+)', root) == [
        ("to", "textualbound"), ("of", "amountbound"), ("now", "truthbound"),
        ("with", "inputbound"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "run"),
    [
        ("now()", "now_value_2 = now()"),
        ("average(of=now())", "average_value = average(of=now())"),
        ("x = now()", "x = now()"),
        ("len(now())", "len(now())"),
        ("for x in now():\n    average(of=x)", "for x in now():\n    average(of=x)"),
        ("now(", "now("),
    ],
)
def test_a_call_whose_result_has_no_name_gets_one(statement: str, run: str) -> None:
    assert ProgramGrammar(TOOLS).with_result_named(statement, ["now_value"]) == run


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("x = min(a, b)", ["a", "b"]),
        ("x = max(a, 3, b)", ["a", "b"]),
        ("x = max(rows)", []),
        ("max(a, b)", []),
        ("x = sum(a, b)", []),
        ("x = = 1", []),
    ],
)
def test_what_a_minimum_is_chosen_from(statement: str, names: list[str]) -> None:
    assert compared_in(statement) == names


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("average = average(of=1)", "average_value = average(of=1)"),
        (
            'average = average(of=1)\nanswer(f"average: {average:.1f} of {x.average}")',
            'average_value = average(of=1)\nanswer(f"average: {average_value:.1f} of {x.average}")',
        ),
        ("x = average(of=1)\nf(average=x)", "x = average(of=1)\nf(average=x)"),
        ("average = f(average=3) + now()", "average_value = f(average=3) + now()"),
        ("now, x = 1, now()\nif now == x:", "now_value, x = 1, now()\nif now_value == x:"),
        (
            "    for now in rows:\n        x += now",
            "    for now_value in rows:\n        x += now_value",
        ),
        ("x = [now for now in rows]", "x = [now_value for now_value in rows]"),
        ('x = {"now": now()}', 'x = {"now": now()}'),
        ('now = now()\nx = {"now": now}', 'now_value = now()\nx = {"now": now_value}'),
        ("x = average", "x = average"),
    ],
)
def test_a_result_that_is_named_like_a_tool_gets_another_name(text: str, run: str) -> None:
    assert ProgramGrammar(TOOLS).with_results_renamed(text) == run


@pytest.mark.parametrize(("bound", "name"), [(["x", "y"], '"x" | "y"'), ([], "constant")])
def test_a_line_names_what_is_bound(bound: list[str], name: str) -> None:
    assert rules(ProgramGrammar(TOOLS).line(bound))["namebound"] == name


def answered(schema: Any, grammar: str = "") -> dict[str, str]:
    """The rules of what may be given to ``answer``."""
    made = ProgramGrammar(TOOLS).answering(schema)
    return rules(grammar or made.line(["x"], ["x"]))


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({"type": "integer"}, {"number"}),
        ({"type": "boolean"}, {"constant"}),
        ({"type": "array"}, {"listbound"}),
        ({"type": "object"}, {"tablebound"}),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, {"number", "constant"}),
    ],
)
def test_an_answer_of_a_required_type_is_no_text(schema: Any, plain: set[str]) -> None:
    made = answered(schema)
    assert made["answered"] == "fact"
    literals = {"number", "constant", "listbound", "tablebound"}
    assert literals & set(made["plain"].split(" | ")) == plain


def test_an_answer_with_legal_texts_is_one_of_them() -> None:
    made = answered({"enum": ["low", "high"]})
    assert made["legal"] == r'"\"low\"" | "\"high\""'
    assert "legal" in made["answered"]
    assert "string" not in made["answered"]


def test_an_answer_of_type_text_may_be_any_text() -> None:
    assert "stringbound" in answered({"type": "string"})["answered"]


def as_regex(grammar: str) -> re.Pattern[str]:
    """A grammar whose rules do not name each other in a circle, as a regular expression."""
    defined = rules(grammar)
    token = re.compile(r'("(?:[^"\\]|\\.)*")|(\[(?:[^\]\\]|\\.)*\])|(\{[0-9,]+\})|([a-z]+)| ')

    def expanded(name: str) -> str:
        def regex(found: re.Match[str]) -> str:
            text, characters, bounds, rule = found.groups()
            if rule:
                return f"(?:{expanded(rule)})"
            return re.escape(json.loads(text)) if text else characters or bounds or ""

        return token.sub(regex, defined[name])

    return re.compile(expanded("root"))


@pytest.mark.parametrize(
    ("schema", "allowed", "refused"),
    [
        ({"type": "integer"}, ["43", "-1"], ["x", "4.5", "int(x)", '"43"', ""]),
        ({"type": "number"}, ["43", "-1.5"], ["x", "None", "1 + 1"]),
        ({"type": "boolean"}, ["True", "False"], ["None", "1", "x"]),
        ({"type": "string"}, ['"a {b} c"', '""', r'"a \"b\""'], ["x", "4", 'f"{x}"']),
        ({"type": "string", "enum": ["low", "high"]}, ['"low"'], ['"lower"', "low"]),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, ["3", "None"], ["3.5", "True"]),
        ({"type": "array", "items": {"type": "string"}}, ['["a", "b"]', "[]"], ["[1]", "[x]"]),
        ({"type": "array", "items": {}}, ['["a", 2.5, None]'], ["[x]"]),
        ({"type": "object"}, ['{"a": 1, "b": "c"}', "{}"], ['{"a": x}']),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            ['{"a": 1}'],
            ['{"a": "b"}'],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}},
            ['{"a": 1, "b": None}'],
            ['{"a": 1}', "{}"],
        ),
        ({}, ["1", "None", '"a"', "[1]", "{}"], ["x"]),
    ],
)
def test_an_answer_with_a_literal_is_a_value_of_the_type(
    schema: Any, allowed: list[str], refused: list[str]
) -> None:
    made = as_regex(ProgramGrammar(TOOLS).answering(schema).answer_with_literal())
    for value in (*allowed, *refused):
        program = f"```python\nanswer({value})\n```"
        assert bool(made.fullmatch(program)) == (value in allowed), value


@pytest.mark.parametrize(
    ("statement", "begins"),
    [
        ("x = now()", r'("x = " "now()")'),
        ("now()", '("now()")'),
        ("x = now() + 1", r'("x = now() + 1" | '),
    ],
)
def test_a_call_that_failed_is_made_again_into_the_same_variable(
    statement: str, begins: str
) -> None:
    assert rules(ProgramGrammar(TOOLS).retry(statement, []))["root"].startswith(begins)
