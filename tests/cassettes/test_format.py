"""What is written is read back, whatever was said; what is broken is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.cassettes.file import CassetteFile
from archytas_nb.cassettes.format import read, written
from archytas_nb.cassettes.values import Asked, Entry, Exchanged, Header, Request, Speaker
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import ModelReply, Usage, WireCall
from tests.cassettes.tapes import ask, exchanged, request

TEXTS = st.text(max_size=20) | st.sampled_from(
    ["\u2028\x85\n", "\ud800", "", "{}", "\x00", "é\\\"'"]
)
REPLIES = st.builds(
    ModelReply,
    TEXTS,
    st.lists(st.builds(WireCall, TEXTS, TEXTS), max_size=2).map(tuple),
    TEXTS,
    st.sampled_from(["stop", "length", "tool_calls"]),
    TEXTS,
    st.builds(Usage, *[st.integers(0, 999)] * 4),
    st.floats(0, 9),
)
REQUESTS = st.builds(
    lambda texts, step, tools, schema, most: request(
        ask(*texts, step=step, tools=tuple(tools), schema=schema, max_tokens=most)
    ),
    st.lists(TEXTS, min_size=1, max_size=4),
    st.integers(1, 9),
    st.lists(st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2),
    st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
    st.none() | st.integers(1, 9),
)
ENTRIES = st.lists(
    st.builds(Exchanged, REQUESTS, REPLIES)
    | st.builds(Exchanged, REQUESTS, st.none(), st.just("overflow"), st.just({"context_tokens": 9}))
    | st.builds(Asked, TEXTS, TEXTS),
    max_size=4,
)
HEADER = Header({"default": Speaker("m", {"protocol": "native", "is_small": True})}, ["date"])


def text_of(entries: list[Entry]) -> str:
    return "".join(f"{line}\n" for line in written(HEADER, entries))


@given(ENTRIES)
def test_what_is_written_is_read_back(entries: list[Entry]) -> None:
    assert read("x", text_of(entries)) == (HEADER, entries, "")


@given(ENTRIES, st.data())
def test_a_file_that_was_cut_off_anywhere_keeps_the_exchanges_before(
    entries: list[Entry], data: st.DataObject
) -> None:
    text = text_of(entries)
    first = text.index("\n") + 1
    cut = text[: data.draw(st.integers(first, len(text)))]
    header, kept, _ = read("x", cut)
    assert header == HEADER
    assert kept == entries[: len(kept)]
    assert len(kept) >= sum(
        cut.startswith(text_of(entries[:n])) for n in range(1, len(entries) + 1)
    )


@given(ENTRIES)
def test_a_text_is_kept_once(entries: list[Entry]) -> None:
    lines = list(written(HEADER, entries))
    parts = [line for line in lines if line.startswith('{"ref"')]
    assert len(parts) == len(set(parts))


def test_a_file_is_utf_8_even_where_a_model_wrote_half_a_character(tmp_path: Path) -> None:
    file = CassetteFile(tmp_path / "x.jsonl")
    file.write(HEADER, [exchanged("ü", reply="\ud83d ü")])
    assert "ü" in (tmp_path / "x.jsonl").read_bytes().decode("utf-8")
    assert file.read()[1] == [exchanged("ü", reply="\ud83d ü")]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2 of the cassette 'x' is broken"),
        (
            '{"exchange": "1", "step": 1, "messages": ["no"], "reply": {}}',
            "no line before it has the ref 'no'",
        ),
        ('{"exchange": "1", "step": 1, "messages": []}', "'reply'"),
        (
            '{"exchange": "1", "step": 1, "messages": [], "reply": {"txt": ""}}',
            "unexpected keyword argument 'txt'",
        ),
        ('{"ref": "1", "note": "?"}', "expected one of"),
        ("[]", "broken"),
    ],
)
def test_a_broken_line_in_the_middle_is_named_with_what_is_wrong(line: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match="restore it, or record it again") as caught:
        read("x", f'{{"cassette": 2}}\n{line}\n\n')
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '<<<<<<< HEAD\n{"cassette": 2}\n=======\n',
        '{"cassette": 2}\n<<<<<<< HEAD\n',
        '{"cassette": 2}\n=======',
    ],
)
def test_both_sides_of_a_merge_are_called_that_with_the_way_out(text: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"both sides of a merge \(line \d is .*keep one side"
    ):
        read("x", text)


def test_other_versions_are_refused_with_the_next_move() -> None:
    with pytest.raises(ConfigurationError, match="version 1; expected version 2: record it again"):
        read("x", '{"cassette": 1, "model": "m"}\n')
    with pytest.raises(
        ConfigurationError, match="version 3; expected version 2: update archytas_nb"
    ):
        read("x", '{"cassette": 3}\n')


def test_a_header_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="protocol is 'smoke'; expected 'react' or 'native'"
    ):
        read("x", '{"cassette": 2, "models": {"default": {"name": "m", "protocol": "smoke"}}}\n')


def test_a_request_is_known_by_what_the_model_reads() -> None:
    """Every word, tool, schema and model counts; the step, the time that is left and the bound do not."""
    base = request(ask("a", tools=({"t": 1},), schema={"s": 1}, max_tokens=5))
    assert (
        base.key
        == request(
            ask("a", step=9, tools=({"t": 1},), schema={"s": 1}, max_tokens=5, seconds=3)
        ).key
    )
    assert base.key == request(ask("a", tools=({"t": 1},), schema={"s": 1}, max_tokens=6)).key
    others: list[Request] = [
        request(ask("b", tools=({"t": 1},), schema={"s": 1}, max_tokens=5)),
        request(ask("a", tools=({"t": 2},), schema={"s": 1}, max_tokens=5)),
        request(ask("a", tools=({"t": 1},), schema={"s": 2}, max_tokens=5)),
        request(ask("a", tools=({"t": 1},), schema={"s": 1}, max_tokens=5), model="other"),
    ]
    assert len({each.key for each in [base, *others]}) == 5
