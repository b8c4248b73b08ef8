"""At temperature 0 the engine writes the same with and without the short way, and the short way is taken."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from archytas_nb.models.local_sampling import likeliest_first
from tests.test_embedded import missing

WORDS = 5


class OneToken(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float))


class Tokens(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.POINTER(OneToken)),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    )


class Library:
    """The C library in the small: five words, some of which the grammar takes."""

    llama_token_data, llama_token_data_array = OneToken, Tokens

    def __init__(self, *legal: int) -> None:
        self.legal = legal
        self.accepted: list[int] = []
        self.logits = (ctypes.c_float * WORDS)(0.5, 2.0, -1.0, 4.0, 3.0)

    def llama_get_logits_ith(self, ctx: Any, idx: int) -> Any:
        return ctypes.cast(self.logits, ctypes.POINTER(ctypes.c_float))

    def llama_sampler_chain_get(self, chain: Any, place: int) -> str:
        return f"{chain} {place}"

    def llama_sampler_apply(self, grammar: str, tokens: Any) -> None:
        assert grammar == "chain 1"
        if tokens._obj.data[0].id not in self.legal:
            tokens._obj.data[0].logit = -float("inf")

    def llama_sampler_accept(self, chain: str, token: int) -> None:
        self.accepted.append(token)


class Model:
    def n_vocab(self) -> int:
        return WORDS


def sampler_of(library: Any) -> Any:
    """A fresh class of samplers, with the short way."""

    class Sampler:
        sampler = "chain"
        asked = 0

        def add_penalties(self, **_: Any) -> None: ...
        def add_grammar(self, model: Any, grammar: Any) -> None: ...
        def add_greedy(self) -> None: ...
        def add_dist(self, seed: int) -> None: ...
        def reset(self) -> None: ...

        def sample(self, ctx: Any, idx: int = -1) -> int:
            self.asked += 1
            return 0

    likeliest_first(library, Sampler, np)
    return Sampler


class Context:
    ctx = "context"


def greedy(library: Any, penalty: float = 1.0, **more: float) -> Any:
    sampler = sampler_of(library)()
    sampler.add_penalties(n_vocab=WORDS, penalty_last_n=2, penalty_repeat=penalty, **more)
    sampler.add_grammar(Model(), "root ::= …")
    sampler.add_greedy()
    return sampler


def test_the_likeliest_token_is_taken_where_it_is_legal() -> None:
    library = Library(0, 3)
    sampler = greedy(library)
    assert [sampler.sample(Context()) for _ in range(2)] == [3, 3]
    assert (sampler.asked, library.accepted) == (0, [3, 3])


def test_where_it_is_not_legal_the_engine_looks_at_all() -> None:
    library = Library(0)
    sampler = greedy(library)
    assert (sampler.sample(Context()), sampler.asked, library.accepted) == (0, 1, [])


def test_what_was_said_counts_less_as_long_as_the_penalty_says() -> None:
    library = Library(*range(WORDS))
    sampler = greedy(library, 1.9)
    before = list(library.logits)
    # Two tokens back: 4.0 becomes 2.1 and 3.0 becomes 1.6 as long as they were said.
    assert [sampler.sample(Context()) for _ in range(5)] == [3, 4, 3, 3, 4]
    assert list(library.logits) == before


@pytest.mark.parametrize("more", [{"penalty_freq": 0.1}, {"penalty_present": 0.1}, {"penalty_last_n": 0}])
def test_other_penalties_are_left_to_the_engine(more: dict[str, float]) -> None:
    library = Library(3)
    sampler = sampler_of(library)()
    sampler.add_penalties(**{"n_vocab": WORDS, "penalty_last_n": 2, "penalty_repeat": 1.0, **more})
    sampler.add_grammar(Model(), "")
    sampler.add_greedy()
    assert (sampler.sample(Context()), sampler.asked) == (0, 1)


def test_another_way_to_choose_is_left_to_the_engine() -> None:
    sampler = sampler_of(Library(3))()
    sampler.add_penalties(n_vocab=WORDS, penalty_last_n=2, penalty_repeat=1.0)
    sampler.add_grammar(Model(), "")
    sampler.add_dist(7)
    assert (sampler.sample(Context()), sampler.asked) == (0, 1)


def test_a_sampler_that_is_made_to_forget_is_left_to_the_engine() -> None:
    sampler = greedy(Library(3))
    assert sampler.sample(Context()) == 3
    sampler.reset()
    assert (sampler.sample(Context()), sampler.asked) == (0, 1)


def test_a_fault_of_the_short_way_costs_nothing_but_the_way() -> None:
    library = Library(3)
    sampler = greedy(library)
    library.llama_sampler_apply = None  # type: ignore[assignment, method-assign]
    assert [sampler.sample(Context()) for _ in range(2)] == [0, 0]
    assert sampler.asked == 2


def test_an_engine_without_these_functions_stays_as_it_is() -> None:
    class Sampler:
        def sample(self, ctx: Any, idx: int = -1) -> int:
            return 5

    sample = Sampler.sample
    likeliest_first(object(), Sampler, np)
    assert Sampler.sample is sample


SCRIPT = """
import json, sys
import llama_cpp
from llama_cpp import _internals
from archytas_nb.models import local_sampling, weights

engine = llama_cpp.Llama(str(weights.locate(None, weights.silent)), n_ctx=1024, n_threads=1, verbose=False)
string = {"type": "string", "maxLength": 60}
action = {
    "type": "object",
    "properties": {"thought": string, "tool": {"const": "count"}, "tool_input": {"enum": ["apples", "pears"]}},
    "required": ["thought", "tool", "tool_input"],
}
asked = [
    (action, "How many pears are there? Think, then call a tool.", 1.1),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 8}, "The first squares, as JSON.", 1.0),
    ({"type": "object", "properties": {"Straße": string}, "required": ["Straße"]}, "Eine Straße in Köln?", 1.3),
]
passed = [0, 0]

def said():
    return [
        engine.create_chat_completion(
            [{"role": "user", "content": text}], temperature=0, repeat_penalty=penalty, max_tokens=40,
            response_format={"type": "json_object", "schema": schema},
        )["choices"][0]["message"]["content"]
        for schema, text, penalty in asked
    ]

before = said()
token = local_sampling._Likeliest.token
def counted(self, ctx, idx):
    found = token(self, ctx, idx)
    passed[found is None] += 1
    return found
local_sampling._Likeliest.token = counted
local_sampling.likeliest_first(llama_cpp, _internals.LlamaSampler, sys.modules["numpy"])
print(json.dumps({"before": before, "after": said(), "passed": passed}))
"""


@pytest.mark.local_model
@pytest.mark.skipif(missing() != "", reason=missing() or "everything is installed")
def test_the_real_engine_writes_the_same_by_the_short_way() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=600)
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["after"] == said["before"]
    short, long = said["passed"]
    assert short > long > 0, said
