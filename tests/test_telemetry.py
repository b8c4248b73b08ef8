"""The spans of runs and maps, as a real collector in memory gets them."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import opentelemetry.semconv._incubating.attributes.gen_ai_attributes as conventions
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import (
    error_attributes,
    server_attributes,
)

import archytas_nb as nb
from archytas_nb import Agent, Tool
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import ModelReply, Usage, WireCall
from archytas_nb.testing import ScriptedModel
from tests.servers.plays import Status
from tests.servers.server import Server

PACKAGE = Path(nb.__file__).parent
_EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def collector() -> None:
    """OpenTelemetry has one provider a process."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(_EXPORTER))
    trace.set_tracer_provider(provider)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[ReadableSpan]]]:
    """The spans exported since the beginning of a test."""
    monkeypatch.setenv("ARCHYTAS_NB_TELEMETRY", "on")
    _EXPORTER.clear()
    yield lambda: list(_EXPORTER.get_finished_spans())
    assert trace.get_current_span() is trace.INVALID_SPAN  # nothing is left open


def tree(found: list[ReadableSpan]) -> dict[str, str]:
    """Each span's name with that of its parent."""
    names = {each.context.span_id: each.name for each in found if each.context}
    return {each.name: names[each.parent.span_id] if each.parent else "" for each in found}


def named(found: list[ReadableSpan], name: str) -> ReadableSpan:
    [span] = [each for each in found if each.name == name]
    return span


def double(number: int) -> int:
    """Double a number.

    Args:
        number: The number
    """
    if number < 0:
        raise ValueError(f"{number} is negative")
    with trace.get_tracer("user").start_as_current_span(f"query {number}"):
        return 2 * number


RUN = "invoke_agent archytas_nb"


def test_a_run_has_spans_for_itself_its_requests_and_its_calls(spans) -> None:
    calls = (WireCall("double", '{"number": 21}'), WireCall("double", '{"number": 4}'))
    model = ScriptedModel(
        ModelReply(calls=calls, finish="tool_calls", model="m-1", usage=Usage(1, 20, 5, 7)),
        ("final_answer", "It is 42."),
        protocol="native",
    )
    Agent([double], model, namespace={}, context="none").run("What is 21 doubled?")
    found = spans()
    assert [each.name for each in found].count("execute_tool double") == 2
    assert tree(found) == {
        RUN: "",
        "chat scripted": RUN,
        "execute_tool double": RUN,
        "query 21": "execute_tool double",
        "query 4": "execute_tool double",
    }
    parents = {each.parent.span_id for each in found if each.name.startswith("query")}
    assert len(parents) == 2  # each is below the call that made it
    first = next(each for each in found if each.name == "chat scripted")
    assert first.kind is trace.SpanKind.CLIENT
    assert first.attributes["gen_ai.usage.input_tokens"] == 20
    assert first.attributes["gen_ai.usage.cache_read.input_tokens"] == 5
    assert first.attributes["gen_ai.usage.output_tokens"] == 7
    assert first.attributes["gen_ai.response.model"] == "m-1"
    assert first.attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    run = named(found, RUN)
    assert run.attributes["archytas_nb.status"] == "answered"
    assert run.attributes["gen_ai.request.model"] == "scripted"
    ends = [(each.start_time, each.end_time) for each in found if "execute" in each.name]
    assert ends[0][1] <= ends[1][0]  # one call after another
    for each in found:
        if each.parent is not None:
            assert run.start_time <= each.start_time <= each.end_time <= run.end_time


def test_every_attribute_is_one_of_the_conventions_or_has_our_name() -> None:
    known = {
        each
        for module in (conventions, error_attributes, server_attributes)
        for name, each in vars(module).items()
        if name.isupper() and isinstance(each, str)
    }
    used = set(
        re.findall(
            r'"((?:gen_ai|archytas_nb|error|server)\.[\w.]+)"',
            (PACKAGE / "telemetry.py").read_text(encoding="utf-8"),
        )
    )
    assert len(used) > 20
    assert {each for each in used if not each.startswith("archytas_nb.")} <= known
    operations = {each.value for each in conventions.GenAiOperationNameValues}
    assert {"chat", "execute_tool", "invoke_agent", "invoke_workflow"} <= operations


def test_the_server_and_its_error_are_told(spans) -> None:
    with Server(Status(401)) as server:
        agent = Agent([], nb.OpenAIModel("gpt-x", base_url=server.url, api_key="k"), namespace={})
        with pytest.raises(ModelError):
            agent.run("What is 21 doubled?")
    found = spans()
    request = named(found, "chat gpt-x")
    assert request.attributes["server.address"] == "127.0.0.1"
    assert request.status.status_code is trace.StatusCode.ERROR
    assert request.attributes["error.type"] == "ModelError"
    run = named(found, RUN)
    assert run.status.status_code is trace.StatusCode.ERROR
    assert run.status.description is None


def test_failed_calls_and_tools_that_do_not_exist(spans) -> None:
    model = ScriptedModel(
        ("double", {"number": -1}), ("No such 123456789", {}), ("final_answer", "No.")
    )
    Agent([double], model, namespace={}, context="none").run("What is -1 doubled?")
    found = spans()
    assert named(found, "execute_tool double").attributes["error.type"] == "ValueError"
    other = named(found, "execute_tool _OTHER")
    assert other.status.status_code is trace.StatusCode.ERROR


def test_an_abandoned_and_an_interrupted_run_end_their_spans(spans) -> None:
    def stop() -> None:
        """Stop."""
        raise KeyboardInterrupt

    agent = Agent([stop], ScriptedModel(("stop", {}), "x"), namespace={}, context="none")
    with pytest.raises(KeyboardInterrupt):
        agent.run("Stop!")
    assert named(spans(), "execute_tool stop").attributes["error.type"] == "interrupted"
    assert named(spans(), RUN).attributes["archytas_nb.status"] == "interrupted"
    _EXPORTER.clear()
    stream = Agent([], ScriptedModel("x"), namespace={}, context="none").stream("Hello?")
    next(stream)
    next(stream)
    stream.close()
    assert RUN in tree(spans())


def test_an_agent_that_is_a_tool_is_below_its_call(spans) -> None:
    inner = Agent([double], ScriptedModel(("double", {"number": 2}), ("final_answer", "4")))
    outer = Agent(
        [inner.as_tool("helper", "Doubles.")],
        ScriptedModel(("helper", {"question": "2 doubled?"}), ("final_answer", "4")),
        namespace={},
        context="none",
    )
    outer.run("What is 2 doubled?")
    found = spans()
    runs = [each for each in found if each.name == RUN]
    helper = named(found, "execute_tool helper")
    assert [each.parent.span_id for each in runs if each.parent] == [helper.context.span_id]


def test_async_tools_that_run_together_overlap(spans) -> None:
    async def fetch(number: int) -> int:
        """Fetch.

        Args:
            number: The number
        """
        return number

    calls = (WireCall("fetch", '{"number": 1}'), WireCall("fetch", '{"number": 2}'))
    model = ScriptedModel(ModelReply(calls=calls), ("final_answer", "x"), protocol="native")
    Agent([fetch], model, namespace={}, context="none").run("Fetch both!")
    one, two = [each for each in spans() if each.name == "execute_tool fetch"]
    assert max(one.start_time, two.start_time) <= min(one.end_time, two.end_time)


class Answers(ScriptedModel):
    """A model that answers any number of rows, in any thread."""

    def complete(self, ask: Any) -> Any:
        yield from ()
        return ModelReply('{"action": "final_answer", "action_input": "x"}')


def test_the_rows_of_a_map_are_below_it(spans) -> None:
    Agent([], Answers(), namespace={}).map(["a", "b", "c"], "Repeat", store=None, progress=False)
    found = spans()
    above = named(found, "invoke_workflow archytas_nb.map")
    assert above.attributes["archytas_nb.rows"] == 3
    runs = [each for each in found if each.name == RUN]
    assert len(runs) == 3
    assert {each.parent.span_id for each in runs} == {above.context.span_id}


SECRET = "sk-proj-0123456789abcdefghijklmnop"


def texts(found: list[ReadableSpan]) -> str:
    """All that left the process."""
    return "\n".join(each.to_json() for each in found)


def canary() -> str:
    return str(random.Random(7).randrange(10**8, 10**9))


def ask_with_canaries(**options: Any) -> None:
    number = int(canary())

    def reveal(key: str) -> str:
        """Reveal.

        Args:
            key: A key
        """
        if key == "fail":
            raise LookupError(f"{number}")
        return f"{number} {SECRET}"

    model = ScriptedModel(
        (f"I think {number}", "reveal", {"key": f"k{number}"}),
        ("reveal", {"key": "fail"}),
        (f"no {number}", {}),
        ("final_answer", f"It is {number}."),
    )
    tools = [Tool.from_function(reveal)]
    Agent(tools, model, "react", namespace={"n": number}, python="off", **options).run(
        f"What is {number}?"
    )


@pytest.mark.parametrize("values", ["all", "none"])
def test_without_contents_no_text_is_told(spans, values: str) -> None:
    ask_with_canaries(values=values)
    assert len(spans()) > 6
    assert canary() not in texts(spans())


def test_contents_are_told_where_they_are_wanted_without_secrets(spans, monkeypatch) -> None:
    monkeypatch.setenv("ARCHYTAS_NB_TELEMETRY", "contents")
    ask_with_canaries()
    told = texts(spans())
    assert told.count(canary()) > 5
    assert SECRET not in told
    run = named(spans(), RUN)
    assert canary() in run.attributes["gen_ai.input.messages"]
    assert canary() in run.attributes["gen_ai.output.messages"]


@pytest.mark.parametrize("values", ["scalars", "none", "strict"])
def test_hidden_values_stay_here_even_if_contents_are_wanted(spans, monkeypatch, values) -> None:
    monkeypatch.setenv("ARCHYTAS_NB_TELEMETRY", "contents")
    ask_with_canaries(values=values)
    assert len(spans()) > 6
    assert canary() not in texts(spans())


def test_nothing_is_imported_or_made_without_the_setting(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from archytas_nb import Agent\n"
        "from archytas_nb.testing import ScriptedModel\n"
        "Agent([], ScriptedModel(('final_answer', 'x'))).run('Hello?', progress=False)\n"
        "assert 'archytas_nb.telemetry' not in sys.modules\n"
        "assert not [each for each in sys.modules if each.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=120)


def test_a_missing_library_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "os.environ['ARCHYTAS_NB_TELEMETRY'] = 'on'\n"
        "from archytas_nb import Agent, ConfigurationError\n"
        "from archytas_nb.testing import ScriptedModel\n"
        "model = ScriptedModel('x')\n"
        "try:\n"
        "    Agent([], model, namespace={}).run('Hello?', progress=False)\n"
        "except ConfigurationError as error:\n"
        "    assert 'otel' in str(error)\n"
        "    assert not model.asked\n"
        "else:\n"
        "    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=120)
