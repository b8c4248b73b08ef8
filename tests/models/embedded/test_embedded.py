"""The embedded model's own half: what it does when its server crashes, hangs, breaks off or is sent too much."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice
from archytas_nb.loop.model import ModelFacts
from archytas_nb.models.embedded import model as embedded
from archytas_nb.models.embedded import process
from archytas_nb.models.embedded.model import EmbeddedModel
from archytas_nb.models.embedded.process import Engine
from tests.models.fake_machine import FAKE, PATIENCE, weights

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and SIGSTOP")

SMALL = Engine(**{**vars(FAKE), "context": 100})
HELLO = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello there"})


def model_of(machine: Path, word: str = "works", engine: Engine = FAKE) -> EmbeddedModel:
    return EmbeddedModel(str(weights(machine, word)), engine)


def complete(
    model: EmbeddedModel, messages: Any = HELLO, **ask: Any
) -> tuple[list[str], ModelReply]:
    """The notices about retries, and the reply."""
    flow, said = model.complete(AskModel(1, messages, **ask)), []
    while True:
        try:
            event = next(flow)
        except StopIteration as ended:
            return said, ended.value
        if isinstance(event, Notice) and event.kind == "retry":
            said.append(event.text)


def asked(machine: Path, word: str = "works") -> list[dict[str, Any]]:
    path = machine / f"model-{word}.asked"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def words(count: int) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": "word " * count},)


def until(condition: Callable[[], bool]) -> bool:
    waits = iter(range(int(PATIENCE / 0.02)))
    while not condition() and next(waits, None) is not None:
        threading.Event().wait(0.02)
    return condition()


def test_answers_and_reports_progress(machine: Path) -> None:
    flow = model_of(machine).complete(AskModel(1, HELLO, max_tokens=9))
    first = next(flow)
    assert first == Notice("progress", "Loading the local model model-works (0 s)")
    said, reply = complete(model_of(machine))
    assert (said, reply.text) == ([], "I read 4 words.")
    assert (reply.usage.requests, reply.usage.input_tokens) == (
        1,
        0,
    )  # it is not told, so nothing is made up


@pytest.mark.parametrize("word", ["works", "busy"])
def test_reports_prompt_processing_and_waiting_for_another_question(
    machine: Path, word: str
) -> None:
    events = model_of(machine, word).complete(AskModel(1, HELLO, max_tokens=9))
    seen = [each.text for each in events if isinstance(each, Delta) and each.kind == "status"]
    waiting = ["waiting for another question to the local model"] * (word == "busy")
    assert seen == [*waiting, "reading the prompt: 1 of 4 tokens"]


def test_a_request_carries_grammar_stop_and_the_beginning_of_the_reply(machine: Path) -> None:
    model = model_of(machine)
    begun = (*HELLO, {"role": "assistant", "content": "x = 1\n"})
    grammar = 'root ::= "y = 2"'
    ask = {"grammar": grammar, "stop": ("\n", "  #"), "schema": {"type": "object"}}
    complete(model, begun, is_continued=True, **ask)
    complete(model, HELLO, schema={"type": "object"}, temperature=0.8)
    continued, plain = asked(machine)
    assert continued["messages"] == list(begun)
    assert (continued["grammar"], continued["stop"]) == (grammar, ["\n", "  #"])
    assert "response_format" not in continued
    assert continued["temperature"] == 0
    assert "grammar" not in plain
    assert "stop" not in plain
    assert plain["response_format"]["type"] == "json_schema"
    assert plain["temperature"] == 0.8
    assert ModelFacts(model).continues_replies
    assert ModelFacts(model).has_grammars


def test_later_steps_sample_anew(machine: Path) -> None:
    model = model_of(machine)
    for step in (1, 2):
        list(model.complete(AskModel(step, HELLO, temperature=0.8)))
    one, two = asked(machine)
    assert one["seed"] != two["seed"]


def test_a_server_that_crashes_at_its_first_request_is_started_again_in_safe_mode(
    machine: Path,
) -> None:
    notices, reply = complete(model_of(machine, "crashes"))
    [notice] = notices
    assert "crashed (SIGSEGV); restarting in safe mode" in notice
    assert reply.text == "I read 4 words."
    one, two = asked(machine, "crashes")
    assert one["pid"] != two["pid"]


def test_the_next_notebook_starts_in_safe_mode_after_a_crash(
    machine: Path,
) -> None:
    first = model_of(machine, "crashes-unless-safe")
    assert len(complete(first)[0]) == 1
    process.stop()
    second = model_of(machine, "crashes-unless-safe")
    [warning] = complete(second)[0]
    assert "has crashed on this machine (SIGSEGV), so it runs in safe mode" in warning
    assert complete(second)[0] == []
    assert second.crash() == "SIGSEGV"
    second.forget_crash()
    process.stop()
    assert len(complete(model_of(machine, "crashes-unless-safe"))[0]) == 1


@pytest.mark.parametrize("word", ["freezes", "crashes-unless-safe"])
def test_a_hang_or_an_old_crash_is_not_remembered(
    machine: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setattr(embedded, "HUNG_SECONDS", 2.0)
    assert len(complete(model_of(machine, word))[0]) == 1
    if word == "crashes-unless-safe":
        monkeypatch.setattr(embedded, "REMEMBERED_SECONDS", 0)
    assert model_of(machine, word).crash() == ""


def test_the_setting_begins_in_safe_mode(machine: Path) -> None:
    model = model_of(machine, "crashes-unless-safe", Engine(**{**vars(FAKE), "safe": True}))
    assert complete(model)[0] == []


def test_a_server_that_crashes_while_it_loads_is_started_again_in_safe_mode(machine: Path) -> None:
    notices, reply = complete(model_of(machine, "start-crashes-unless-safe"))
    [notice] = notices
    assert "did not start (SIGSEGV); trying again in safe mode" in notice
    assert reply.text == "I read 4 words."


def test_a_server_that_never_starts_is_an_error_with_signal_and_log(
    machine: Path,
) -> None:
    with pytest.raises(ModelError, match="SIGSEGV") as caught:
        complete(model_of(machine, "start-crashes"))
    assert "local-" in str(caught.value)
    assert "%config ArchytasNB.local_model" in str(caught.value)
    assert len(list((machine / "log").glob("*.log"))) == 2


def test_a_crash_in_safe_mode_is_an_error_with_signal_engine_and_log(
    machine: Path,
) -> None:
    with pytest.raises(
        ModelError, match=r"crashed \(SIGSEGV\), even in safe mode \(fake_engine"
    ) as caught:
        complete(model_of(machine, "always-crashes"))
    assert caught.value.kind == "unreachable"
    assert "OPENAI_BASE_URL" in str(caught.value)
    log = Path(re.findall(r"Its log is '(.+?)'", str(caught.value))[0])
    assert "Fatal Python error: Segmentation fault" in log.read_text()
    assert len(asked(machine, "always-crashes")) == 2


def test_a_server_that_hangs_is_killed_and_restarted(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "HUNG_SECONDS", 2.5)
    [notice], reply = complete(model_of(machine, "freezes"))
    assert notice.startswith(
        "the local model model-freezes hung: it sent nothing for 2.5 s; restarting in safe mode"
    )
    assert reply.text == "I read 4 words."
    one, two = asked(machine, "freezes")
    assert one["pid"] != two["pid"]
    assert [child.pid for child in process._children.values() if child.poll() is None] == [
        two["pid"]
    ]  # nothing is left of the first one


def test_a_server_that_is_slow_to_begin_its_reply_is_waited_for(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "HUNG_SECONDS", 3.0)
    notices, reply = complete(model_of(machine, "slow"))
    assert (notices, reply.text) == ([], "I read 4 words.")


def test_an_engine_that_hangs_while_it_loads_is_started_again_in_safe_mode(machine: Path) -> None:
    notices, reply = complete(
        model_of(machine, "hangs-unless-safe", Engine(**{**vars(FAKE), "load_seconds": 6.0}))
    )
    assert len(notices) == 1
    assert reply.text == "I read 4 words."
    assert len([child for child in process._children.values() if child.poll() is None]) == 1


def test_a_conversation_that_is_too_long_is_an_overflow_at_once(machine: Path) -> None:
    model = model_of(machine, engine=SMALL)
    with pytest.raises(ModelError, match="200 tokens") as caught:
        complete(model, words(200))
    assert caught.value.kind == "overflow"
    assert len(asked(machine)) == 1
    assert complete(model, words(20))[1].text == "I read 20 words."


def test_the_context_is_known_before_anything_is_started() -> None:
    assert EmbeddedModel().context_tokens == 8192
    assert EmbeddedModel("/x.gguf", SMALL).context_tokens == 100


def test_images_are_replaced_by_words(machine: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [{"type": "text", "text": "What is this?"}, image]
    complete(model_of(machine), ({"role": "user", "content": content},))
    [sent] = asked(machine)
    assert sent["messages"][0]["content"] == "What is this?\n[an image that this model cannot see]"


def test_loading_ends_at_the_deadline(machine: Path) -> None:
    engine = Engine(**{**vars(FAKE), "load_seconds": 2.0})
    with pytest.raises(
        ModelError, match="It is still loading: ask again, or raise max_seconds"
    ) as caught:
        complete(model_of(machine, "hangs", engine), seconds=0.5)
    assert caught.value.kind == "deadline"


def test_asking_ends_at_the_deadline(machine: Path) -> None:
    model = model_of(machine, "freezes")
    endpoint = process.ensure_server(weights(machine, "freezes"), engine=FAKE)
    with pytest.raises(ModelError, match="did not complete its reply within") as caught:
        complete(model, seconds=1.0)
    assert caught.value.kind == "deadline"
    assert endpoint.alive()
    endpoint.kill()  # it cannot end itself any more
    assert not endpoint.alive()


# ── warmth ────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_started_before_the_first_question(machine: Path) -> None:
    model_of(machine)
    assert not list(machine.glob("archytas-nb"))


def test_a_warm_model_has_processed_the_system_prompt(machine: Path) -> None:
    model = model_of(machine)
    model.warm(HELLO[:1])
    model.warm(HELLO[:1])  # once is enough
    assert until(lambda: len(asked(machine)) == 1)
    assert complete(model)[1].text == "I read 4 words."
    first, second = asked(machine)
    assert first["messages"] == [HELLO[0]]
    assert first["max_tokens"] == 1
    assert first["pid"] == second["pid"]


def test_a_new_system_prompt_is_processed_after_the_current_one(machine: Path) -> None:
    model = model_of(machine)
    for text in ("one tool", "two tools", "three tools"):
        model.warm([{"role": "system", "content": text}])
    assert model._loading is not None
    model._loading.join(PATIENCE)
    read = [request["messages"][0]["content"] for request in asked(machine)]
    assert read[-1] == "three tools"
    assert len(read) <= 2


def test_a_failure_while_warming_up_is_raised_by_the_first_question(
    machine: Path, recwarn: pytest.WarningsRecorder
) -> None:
    model = model_of(machine, "refuses")
    model.warm()
    assert model._loading is not None
    model._loading.join(PATIENCE)
    with pytest.raises(ConfigurationError, match="rejected the weights file"):
        complete(model)
    assert not list(recwarn)
