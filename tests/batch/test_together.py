"""Several rows in one request: whatever a model leaves out, doubles or moves, no row gets the answer of another."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb import Agent, ConfigurationError
from archytas_nb.answers import Answers
from archytas_nb.batch.together import AnswersTogether, common_parts, entries_of
from archytas_nb.loop.events import AskModel, ModelReply, Usage, WireCall
from archytas_nb.loop.tokens import message_tokens, text_tokens

PROMPT = "How long is the word {word}? Only its letters count."
WORDS = ["lamp", "chair", "window", "a", "cupboard", "door", "table", "bed"]
Damage = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def words(number: int) -> pd.DataFrame:
    return pd.DataFrame(
        {"word": [f"{WORDS[each % 8]}{'x' * (each // 8)}" for each in range(number)]}
    )


def as_it_is(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return entries


class Clerk:
    """Answers single rows and lists of rows by a function; `damage` spoils the lists."""

    name = "clerk"
    is_scripted = True
    protocol = "native"

    def __init__(self, answer: Callable[[str], Any], damage: Damage = as_it_is) -> None:
        self._answer = answer
        self._damage = damage
        self._lock = threading.Lock()
        self.sizes: list[int] = []

    def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
        text = str(ask.messages[1]["content"])
        rows = re.findall(r"^\[(\d+[^\]]*)\]\n(.*)$", text, re.MULTILINE)
        answer: Any
        with self._lock:
            self.sizes.append(len(rows) or 1)
            if rows:
                entries = [{"row": name, "answer": self._answer(each)} for name, each in rows]
                answer = self._damage(entries)
            else:
                [word] = re.findall(r"the word (\S+)\?", text)
                answer = self._answer(word)
        arguments = json.dumps({"answer": answer})
        sent = message_tokens(ask.messages) + text_tokens(json.dumps(ask.tools))
        usage = Usage(1, sent, 0, text_tokens(arguments))
        call = WireCall("final_answer", arguments)
        return ModelReply("", (call,), finish="tool_calls", usage=usage)
        yield  # a generator, as models are


def mapped(model: Clerk, frame: pd.DataFrame, **options: Any) -> pd.DataFrame:
    given = {"output_type": int, "store": None, "progress": False, "rows": 20, **options}
    made: pd.DataFrame = Agent([], model=model).map(frame, PROMPT, **given)
    return made


def spoilt(seed: int, share: float) -> Damage:
    """Drops, doubles and moves entries, and answers rows under the numbers of others, at random."""
    chance = random.Random(seed)

    def drop(out: list[dict[str, Any]], one: int, other: int) -> None:
        del out[one]

    def double(out: list[dict[str, Any]], one: int, other: int) -> None:
        out.insert(other, dict(out[one]))

    def contradict(out: list[dict[str, Any]], one: int, other: int) -> None:
        out.insert(other, {**out[one], "answer": out[other]["answer"]})

    def swap(out: list[dict[str, Any]], one: int, other: int) -> None:  # while the numbers go on
        first, second = out[one]["row"], out[other]["row"]
        out[one], out[other] = out[other], out[one]
        out[one]["row"] = re.sub(r"^\d+", re.findall(r"^\d+", first)[0], second)
        out[other]["row"] = re.sub(r"^\d+", re.findall(r"^\d+", second)[0], first)

    def move(out: list[dict[str, Any]], one: int, other: int) -> None:
        out.insert(other, out.pop(one))

    def mistype(out: list[dict[str, Any]], one: int, other: int) -> None:
        out[one]["answer"] = "long"

    def damage(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        out = [dict(each) for each in entries]
        number = sum(chance.random() < share for _ in entries)
        hows = chance.choices([drop, double, contradict, swap, move, mistype], k=number)
        # The last: if only the false one of two answers is left, nothing tells that it is false.
        for how in sorted(hows, key=lambda how: how is contradict):
            if len(out) > 1:
                how(out, *chance.sample(range(len(out)), 2))
        return out

    return damage


@pytest.mark.parametrize("rows", [5, 20, 50])  # as many as make a rare fault probable
def test_a_thousand_rows_and_none_is_wrong(rows: int) -> None:
    frame = words(1000)
    model = Clerk(len, spoilt(rows, 0.1))
    out = mapped(model, frame, rows=rows)
    assert list(out["answer"]) == [len(each) for each in frame["word"]]
    assert set(out["status"]) == {"done"}
    record = out.attrs["rows"]
    assert record["number"] == rows
    assert record["together"] + record["alone"] == 1000
    assert record["together"] > 500
    assert len(model.sizes) < 600


def test_requests_and_tokens_fall_with_the_number_of_rows() -> None:
    costs = []
    for rows in (1, 5, 20, 50):
        model = Clerk(len)
        out = mapped(model, words(200), rows=rows)
        assert list(out["answer"]) == [len(each) for each in words(200)["word"]]
        costs.append((len(model.sizes), int(out["tokens"].sum())))
    requests, tokens = zip(*costs, strict=True)
    assert requests == (200, 10 + 40, 10 + 10, 10 + 4)
    assert tokens[0] > 2 * tokens[1] > 2 * tokens[2] > 2 * tokens[3]


def test_answers_that_differ_lower_the_number_until_they_agree() -> None:
    class Careless(Clerk):
        def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
            many = len(re.findall(r"^\[\d+", str(ask.messages[-1]["content"]), re.MULTILINE))
            self._answer = (lambda word: len(word) + 1) if many > 5 + 2 else len
            return (yield from super().complete(ask))

    model = Careless(len)
    out = mapped(model, words(100), rows=20, workers=1)
    assert list(out["answer"]) == [len(each) for each in words(100)["word"]]
    assert [each["number"] for each in out.attrs["rows"]["compared"]] == [20, 5]
    assert out.attrs["rows"]["number"] == 5


def test_a_model_that_is_never_right_together_asks_singly() -> None:
    model = Clerk(len, lambda entries: [{**each, "answer": 0} for each in entries])
    out = mapped(model, words(60), rows=20)
    assert list(out["answer"]) == [len(each) for each in words(60)["word"]]
    assert out.attrs["rows"]["number"] == 1


def test_lists_that_cannot_be_read_cost_a_request_and_no_row() -> None:
    for damage in (
        lambda _: [],
        lambda _: "none",
        lambda entries: entries * 2,
        lambda _: [1, None, {}],
    ):
        out = mapped(Clerk(len, damage), words(40), rows=10)
        assert list(out["answer"]) == [len(each) for each in words(40)["word"]]


@dataclass
class Word:
    length: int
    size: Literal["short", "long"]


def test_fields_of_a_type_become_columns_and_equal_rows_are_asked_once() -> None:
    def judged(word: str) -> dict[str, Any]:
        return {"length": len(word), "size": "short" if len(word) < 5 else "long"}

    frame = pd.concat([words(50), words(50)], ignore_index=True)
    model = Clerk(judged)
    out = mapped(model, frame, output_type=Word)
    assert list(out["length"]) == [len(each) for each in frame["word"]]
    assert sum(model.sizes) == 50 + 10 + 3 * 2
    assert out["tokens"][50:].sum() == 0


def test_text_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(Clerk):
        def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
            reply = yield from super().complete(ask)
            [call] = reply.calls
            answer = json.loads(call.arguments)["answer"]
            return reply if isinstance(answer, list) else ModelReply(answer, usage=reply.usage)

    out = mapped(Plain(lambda word: f"It has {len(word)}."), words(50), output_type=None)
    assert list(out["answer"]) == [f"It has {len(each)}." for each in words(50)["word"]]
    assert out.attrs["rows"]["number"] == 20


def test_a_model_that_writes_programs_gives_lists_as_json() -> None:
    class Programmer(Clerk):
        protocol = "program"

        def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
            reply = yield from super().complete(ask)
            answer = json.loads(reply.calls[0].arguments)["answer"]
            if not isinstance(answer, list):
                return ModelReply(f"```python\nanswer({answer})\n```", usage=reply.usage)
            names = [each["row"] for each in answer]
            assert names[0] in json.dumps(ask.schema, ensure_ascii=False)
            action = {"thought": "", "tool": "final_answer", "tool_input": answer}
            return ModelReply(json.dumps(action), usage=reply.usage)

    model = Programmer(len)
    out = mapped(model, words(40), rows=10)
    assert list(out["answer"]) == [len(each) for each in words(40)["word"]]
    assert out.attrs["rows"]["number"] == 10
    assert len(model.sizes) == 10 + 4


def test_a_map_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store = str(tmp_path / "map.sqlite")
    frame = words(200)
    first = Clerk(len, spoilt(3, 0.05))
    out = mapped(first, frame, store=store, budget="4000 tokens", workers=1)
    done = int((out["status"] == "done").sum())
    assert 0 < done < 200
    second = Clerk(len)
    again = mapped(second, frame, store=store)
    assert list(again["answer"]) == [len(each) for each in frame["word"]]
    assert sum(second.sizes) <= 200 - done + 20 + 10 * 2
    third = Clerk(len)
    assert list(mapped(third, frame, store=store)["answer"]) == list(again["answer"])
    assert third.sizes == []


def test_a_replay_takes_all_from_the_file_and_misses_what_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Real(Clerk):
        is_scripted = False

    store = str(tmp_path / "map.sqlite")
    model = Real(len, spoilt(4, 0.1))
    out = mapped(model, words(60), store=store)
    asked = len(model.sizes)
    monkeypatch.setenv("ARCHYTAS_NB_CASSETTE_MODE", "replay")
    monkeypatch.setenv("ARCHYTAS_NB_CASSETTE", str(tmp_path / "none.jsonl"))
    again = mapped(model, words(60), store=store)
    pd.testing.assert_frame_equal(again, out)
    with pytest.raises(ConfigurationError, match="rows have no result"):
        mapped(model, words(61), store=store)
    assert len(model.sizes) == asked


def test_what_rows_cost_is_what_was_paid() -> None:
    model = Clerk(len)
    total = 0

    class Counting(Clerk):
        def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
            nonlocal total
            reply = yield from model.complete(ask)
            with self._lock:
                total += reply.usage.tokens
            return reply

    out = mapped(Counting(len), words(333), rows=7)
    assert int(out["tokens"].sum()) == total


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rows": 0}, "rows is 0"), ({"rows": 2.0}, "rows is 2.0"), ({"rows": True}, "rows is True"),
        ({"rows": 1000}, "1 to 200"), ({"plan": True}, "leave out one of them"),
        ({"executor": object()}, "leave out one of them"),
    ],
)  # fmt: skip
def test_a_number_that_cannot_be_used_is_told_before_anything_is_asked(
    options: dict[str, Any], named: str
) -> None:
    model = Clerk(len)
    with pytest.raises(ValueError, match=named):
        mapped(model, words(30), **options)
    assert model.sizes == []


# ── rows that speak for others ────────────────────────────────────────────────────────────────────


class Gullible(Clerk):
    """Judges texts, but does for all rows of a request what one of them says."""

    def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
        ordered = re.findall(r"ALL_(good|bad)", str(ask.messages[1]["content"]))
        self._answer = lambda text: ordered[0] if ordered else mood(text)
        return (yield from super().complete(ask))


def mood(text: str) -> str:
    return "good" if len(text) % 2 else "bad"


@settings(deadline=None)
@given(
    st.sets(st.integers(0, 119), max_size=12), st.sampled_from(["good", "bad"]), st.integers(2, 40)
)
def test_no_row_gets_the_answer_that_another_one_wants_for_all(
    hostile: set[int], wanted: str, number: int
) -> None:
    texts = [f"ALL_{wanted}_{at}" if at in hostile else "x" * (at + 1) for at in range(120)]
    frame = pd.DataFrame({"word": texts})
    model = Gullible(mood)
    out = Agent([], model=model).map(
        frame, "How is the word {word}?", output_type=Literal["good", "bad"], store=None, progress=False,
        rows=number, workers=1, verify=20,
    )  # fmt: skip
    for at, answer in enumerate(out["answer"]):
        assert answer == (wanted if at in hostile else mood(texts[at]))
    record = out.attrs["rows"]
    assert (record.get("distrusted", 0) > 0) <= bool(hostile)
    if not hostile:
        assert len(model.sizes) <= 20 + -(-120 // number)


def test_a_row_cannot_know_the_names_of_others() -> None:
    class Nosy(Clerk):
        def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
            names.append(re.findall(r"^\[(\d+\w+)", str(ask.messages[1]["content"]), re.MULTILINE))
            return (yield from super().complete(ask))

    names: list[list[str]] = []
    for _ in range(2):  # the same rows, in two maps
        mapped(Nosy(len), words(60), workers=1)
    first, second = (
        {each for name in found for each in name} for found in (names[:13], names[13:])
    )
    assert len(first) == len(second) > 60
    assert len(first & second) <= 1


def test_a_map_that_goes_on_asks_with_the_same_names(tmp_path: Path) -> None:
    """A batch of requests is collected much later, also by another kernel."""

    class Gone(Clerk):
        def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
            text = str(ask.messages[1]["content"])
            if "[1" in text:
                sent.append(text)
                raise KeyboardInterrupt
            return (yield from super().complete(ask))

    first = []
    for _ in range(2):
        sent: list[str] = []
        mapped(Gone(len), words(60), workers=1, store=str(tmp_path / "map.sqlite"))
        first.append(sent[0])
    assert first[0] == first[1]


# ── the laws ──────────────────────────────────────────────────────────────────────────────────────


@given(
    st.lists(st.text(st.sampled_from("ab 1[]\n"), max_size=12), min_size=1, max_size=8),
    st.randoms(),
)
def test_an_answer_is_kept_only_for_the_row_that_it_names(
    texts: list[str], chance: random.Random
) -> None:
    entries = entries_of(texts, chance)
    assert len({each.name for each in entries}) == len(entries)
    answers = AnswersTogether(entries, Answers(int, None, {}))
    whole = [{"row": each.name, "answer": at} for at, each in enumerate(entries)]
    assert answers.matched(whole) == dict(enumerate(range(len(entries))))
    spoiled = [dict(each) for each in whole if chance.random() > 0.2]
    spoiled += [dict(chance.choice(whole)) for _ in range(chance.randrange(3))]
    chance.shuffle(spoiled)
    assert all(place == value for place, value in answers.matched(spoiled).items())
    for each in whole:
        each["row"] = each["row"].swapcase() + "?"
    assert answers.matched(whole) == {}


@given(
    st.lists(st.text(max_size=20), min_size=2, max_size=6),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_what_is_common_and_what_is_not_make_the_question(
    middles: list[str], before: str, after: str
) -> None:
    questions = [f"{before} {each} {after}" for each in middles]
    start, end = common_parts(questions)
    for each in questions:
        assert each.startswith(start)
        assert each.endswith(end)
        assert len(start) + len(end) <= len(each)
