"""Long replies over real HTTP: they come whole, and one that is cut off for its length is marked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.loop.events import Notice
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.trace.fold import fold
from archytas_nb.trace.text import plain
from tests.faults.talk import KEY, Talk
from tests.servers.plays import Say, Status
from tests.servers.server import Server

if TYPE_CHECKING:
    from archytas_nb.run import Run
    from tests.servers.server import Exchange

LONG = "word" * 5000
"""5,000 tokens where a token is four characters."""
CODE = "".join(f"x{n:03} = {n:03} * 'a\"b'\n" for n in range(320))
SMALL = "tiny-1b"


def put_file(name: str, text: str) -> str:
    """Write the text of a program into a file.

    Args:
        name: The file.
        text: What is written.
    """
    return f"{name}: {len(text)} characters"


@dataclass(frozen=True)
class Bounded(Say):
    """A reply of a server that stops at the bound of the request; four characters are a token.

    Attributes:
        most: The server's own bound.
        counts: Whether it reports its tokens.
    """

    most: int = 1_000_000
    counts: bool = True

    def play(self, exchange: Exchange) -> None:
        body = exchange.body
        message = self.message(native=exchange.native)
        bound = min(body.get("max_tokens") or self.most, self.most)
        left = bound * 4
        said: dict[str, Any] = {}
        for key in ("reasoning_content", "content"):
            if text := message.get(key):
                said[key], left = text[:left], left - len(text)
                left = max(left, 0)
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments, left = (
                function["arguments"][:left],
                max(left - len(function["arguments"]), 0),
            )
            kept = {**call, "function": {**function, "arguments": arguments}}
            said.setdefault("tool_calls", []).append(kept)
        spent = bound if not left else bound - left // 4
        usage = (100, 60, spent) if self.counts else None
        text = said.pop("content", "")
        Say(text, raw=True, extra=said, finish="" if left else "length", usage=usage).play(exchange)


def with_files(
    talk: Talk, *plays: Any, name: str = "tiny-1", agent: Any = None, **server: Any
) -> Talk:
    """A conversation with a tool that takes long text; it fits, where a small model is asked."""
    talk.server.close()
    if name == SMALL:
        plays = (Say("yes", raw=True, usage=(100, 60, 0)), *plays)
    talk.server = Server(*plays, models=(name,), **server)
    model = OpenAIModel(name, talk.server.url, KEY, 20.0, stream=talk.stream)
    talk.agent = Agent([put_file], model, protocol=talk.protocol, namespace={}, **(agent or {}))
    return talk


def bounds(talk: Talk) -> list[int]:
    return [most for asked in talk.server.chats if (most := asked.body["max_tokens"]) > 3]


def trace(run: Run) -> str:
    return plain(fold(run.question, run.events))


def notices(run: Run) -> str:
    return "\n".join(event.text for event in run.events if isinstance(event, Notice))


def spent(run: Run) -> int:
    return run.usage.output_tokens


# ── what is long comes whole ──────────────────────────────────────────────────────────────────────


def test_an_answer_of_5000_tokens_comes_whole(talk: Talk) -> None:
    run = with_files(talk, then=Bounded(LONG)).ask("Tell me everything.")
    assert (run.status, run.answer, len(talk.server.chats)) == ("answered", LONG, 1)
    talk.goes_on()


def test_a_tool_argument_of_6_kb_of_code_comes_whole(talk: Talk) -> None:
    assert len(CODE) > 6000
    call = Bounded(calls=(("put_file", {"name": "a.py", "text": CODE}),))
    run = with_files(talk, call, then=Bounded("Written.")).ask("Write the program.")
    assert [outcome.text for _, outcome in run.calls] == [f"a.py: {len(CODE)} characters"]
    assert (run.answer, len(talk.server.chats)) == ("Written.", 2)
    talk.goes_on()


def test_a_small_model_is_given_1024_tokens_a_reply(talk: Talk) -> None:
    question = "Write the text of a program into the file a.py."
    call = Bounded(calls=(("put_file", {"name": "a.py", "text": "1"}),))
    run = with_files(talk, call, then=Bounded("The file is written."), name=SMALL).ask(question)
    assert run.status == "answered"
    assert set(bounds(talk)) == {1024}


@pytest.mark.parametrize("name", ["tiny-1", SMALL])
def test_max_reply_tokens_counts_for_every_model(talk: Talk, name: str) -> None:
    question = "Write the text of a program into the file a.py."
    with_files(
        talk, then=Bounded("The file is written."), name=name, agent={"max_reply_tokens": 3000}
    )
    talk.ask(question)
    assert set(bounds(talk)) - {3} == {3000}


# ── an endpoint that takes no such bound ──────────────────────────────────────────────────────────


def test_an_endpoint_with_less_room_is_asked_for_less(talk: Talk) -> None:
    for status, said, then in [
        (
            400,
            "max_tokens is too large: 16384. This model supports at most 8192 completion tokens",
            8192,
        ),
        (
            400,
            "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for tiny-1",
            8192,
        ),
        (
            400,
            "too many tokens: max tokens must be less than or equal to 4096, the maximum output",
            4096,
        ),
        (
            400,
            "a maxOutputTokens of 16384 but the range is from 1 (inclusive) to 8193 (exclusive)",
            8192,
        ),
        (400, "the maximum tokens you requested exceeds the model limit of 4096", 4096),
        (400, "Value 16384 for max_tokens is not in the allowed range", 4096),
        (
            402,
            "more credits, or fewer max_tokens. You requested up to 16384 tokens, but can only afford 2931",
            2931,
        ),
        (
            413,
            "Request too large for `tiny-1` on tokens per minute (TPM): Limit 6000, Requested 16884",
            5500,
        ),
        (
            422,
            "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 100 `inputs` tokens and 16384",
            4096,
        ),
        (
            400,
            "maximum context length is 8192 tokens. However, you requested 16500 tokens (116 in the messages",
            4096,
        ),
    ]:
        run = with_files(talk, Status(status, said), then=Bounded("Three.")).ask()
        assert (run.answer, bounds(talk)) == ("Three.", [16384, then])
        talk.goes_on()
        assert bounds(talk)[2:] == [then], "what it takes is remembered"


# ── a reply that is cut is marked ─────────────────────────────────────────────────────────────────


def test_an_answer_that_is_cut_is_kept_and_marked(talk: Talk) -> None:
    run = with_files(talk, then=Bounded(LONG), agent={"max_reply_tokens": 500}).ask(
        "Tell me everything."
    )
    assert (run.status, run.incomplete, len(talk.server.chats)) == ("stopped", True, 1)
    assert run.reason == "reply cut at 500 tokens; raise max_reply_tokens for a longer one"
    assert run.answer == LONG[: len(run.answer)]
    assert len(run.answer) > 1900
    assert "■ Incomplete answer: reply cut at 500 tokens; raise max_reply_tokens" in trace(run)
    talk.goes_on()


@pytest.mark.parametrize("counts", [True, False])
def test_an_endpoint_that_cuts_by_itself_is_named(talk: Talk, counts: bool) -> None:
    run = with_files(talk, then=Bounded(LONG, most=2000, counts=counts)).ask("Tell me everything.")
    assert run.incomplete
    if counts:
        assert run.reason == "reply cut at 2000 tokens, fewer than max_reply_tokens=16384"
    assert LONG.startswith(run.answer)


def test_a_typed_answer_that_is_cut_is_never_taken_for_whole(talk: Talk) -> None:
    for form in [int, list[str]]:
        text = "1" * 4000 if form is int else json.dumps(["word"] * 1000)
        if talk.protocol == "react":
            text = f'{{"thought": "", "tool": "final_answer", "tool_input": {text}}}'
        with_files(talk, then=Bounded(text, raw=True), agent={"max_reply_tokens": 100})
        run = talk.ask("Which?", output_type=form)
        assert (run.incomplete, run.value, len(talk.server.chats)) == (True, None, 1)
        assert "cut at 100 tokens" in run.reason
        talk.goes_on()


def test_a_typed_answer_that_is_cut_in_its_call_is_never_taken_for_whole(talk: Talk) -> None:
    call = Bounded(calls=(("final_answer", '{"answer": ' + "1" * 4000 + "}"),))
    run = with_files(talk, then=call, agent={"max_reply_tokens": 100}).ask(
        "Which?", output_type=int
    )
    assert (run.incomplete, run.value, len(talk.server.chats)) == (True, None, 1)
    assert "111" in run.answer


def test_a_call_that_is_cut_is_asked_for_once_more_and_then_the_run_ends(talk: Talk) -> None:
    call = Bounded(calls=(("put_file", {"name": "a.py", "text": CODE}),))
    run = with_files(talk, then=call, agent={"max_reply_tokens": 300}).ask("Write the program.")
    assert (run.status, len(talk.server.chats), run.calls) == ("stopped", 2, [])
    assert run.reason == "reply cut at 300 tokens; raise max_reply_tokens for a longer one"
    assert "cut off for its length" in json.dumps(talk.server.chats[1].messages[-1])
    assert notices(run)
    assert "■ No answer: reply cut at 300 tokens" in trace(run)
    assert spent(run) == 600
    talk.goes_on()


def test_a_call_that_is_made_shorter_after_a_cut_is_run(talk: Talk) -> None:
    cut = Bounded(calls=(("put_file", {"name": "a.py", "text": CODE}),))
    short = Bounded(calls=(("put_file", {"name": "a.py", "text": "x = 1"}),))
    with_files(
        talk, cut, short, cut, short, then=Bounded("Written."), agent={"max_reply_tokens": 300}
    )
    run = talk.ask("Write the program.")
    assert (run.status, run.answer) == ("answered", "Written.")
    assert {outcome.status for _, outcome in run.calls} == {"done"}
    talk.goes_on()


def test_a_small_model_is_asked_once_for_fewer_words(talk: Talk) -> None:
    question = "Write the text of a program into the file a.py."
    run = with_files(talk, then=Bounded(LONG), name=SMALL).ask(question)
    assert (run.status, spent(run)) == ("stopped", 2048)
    assert run.reason == "reply cut at 1024 tokens; raise max_reply_tokens for a longer one"
    assert LONG.startswith(run.answer)
    assert len(run.answer) > 3900
    assert "the reply was cut at 1024 tokens: the model is asked for a shorter one" in notices(run)


def test_calls_beside_one_that_is_cut_are_run(talk: Talk) -> None:
    if talk.protocol == "react":
        return  # one call a reply
    calls = (
        ("put_file", {"name": "a.py", "text": "x = 1"}),
        ("put_file", {"name": "b.py", "text": CODE}),
    )
    run = with_files(talk, then=Bounded(calls=calls), agent={"max_reply_tokens": 300}).ask(
        "Write both programs."
    )
    assert [call.input["name"] for call, _ in run.calls] == ["a.py"]
    assert (run.status, len(talk.server.chats)) == ("stopped", 2)
    talk.goes_on()


def test_a_call_with_half_its_arguments_is_not_run(talk: Talk) -> None:
    for arguments in ["", "12", '{"name": "a.py"', "a.py"]:
        if talk.protocol == "react":
            return
        function = {"name": "put_file", "arguments": arguments}
        call = Say(
            raw=True,
            finish="length",
            extra={"tool_calls": [{"id": "c", "type": "function", "function": function}]},
        )
        run = with_files(talk, call, then=Say("Written.")).ask("Write the program.")
        assert (run.answer, run.calls, len(talk.server.chats)) == ("Written.", [], 2)
        assert "cut off for its length" in json.dumps(talk.server.chats[1].messages[-1])


def test_the_last_turn_is_marked_where_it_is_cut(talk: Talk) -> None:
    call = Bounded(calls=(("put_file", {"name": "a.py", "text": "x = 1"}),))
    with_files(talk, call, then=Bounded(LONG), agent={"max_reply_tokens": 300, "max_steps": 1})
    run = talk.ask("Write the program.", output_type=str)
    assert run.incomplete
    assert run.reason == "max_steps=1; the last reply was cut at 300 tokens"
    assert run.answer
    assert LONG.startswith(run.answer)
    assert run.value is None
    talk.goes_on()


# ── a model that thinks until its reply is cut ────────────────────────────────────────────────────


def test_a_model_that_only_thinks_is_stopped_after_one_reply(talk: Talk) -> None:
    thinking = Bounded("", raw=True, extra={"reasoning_content": "hm, " * 60_000})
    run = with_files(talk, then=thinking).ask("Why?")
    assert (run.status, run.answer, len(talk.server.chats)) == ("stopped", "", 1)
    assert run.reason.startswith(
        "reply cut at 16384 tokens, all of them reasoning; raise max_reply_tokens"
    )
    assert spent(run) == 16384
    talk.goes_on()


@pytest.mark.parametrize("thoughts", ["field", "tag"])
def test_a_small_model_that_only_thinks_is_given_more_room_once(talk: Talk, thoughts: str) -> None:
    text = "hm, " * 60_000
    extra = {"reasoning_content": text} if thoughts == "field" else {}
    thinking = Bounded("" if extra else f"<think>{text}", raw=True, extra=extra)
    run = with_files(talk, then=thinking, name=SMALL).ask(
        "Write the text of a program into the file a.py."
    )
    assert (run.status, run.answer) == ("stopped", "")
    assert bounds(talk) == [1024, 8192]
    assert spent(run) == 1024 + 8192
    assert "reply cut at 8192 tokens, all of them reasoning" in run.reason


def test_a_bound_of_the_users_counts_for_what_is_thought_too(talk: Talk) -> None:
    thinking = Bounded("", raw=True, extra={"reasoning_content": "hm, " * 60_000})
    question = "Write the text of a program into the file a.py."
    run = with_files(talk, then=thinking, name=SMALL, agent={"max_reply_tokens": 2000}).ask(
        question
    )
    assert run.status == "stopped"
    assert bounds(talk) == [2000]
    assert spent(run) == 2000
