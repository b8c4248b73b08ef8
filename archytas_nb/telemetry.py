"""Spans of runs for OpenTelemetry, named by its conventions for generative AI.

This is the only module that imports opentelemetry, and it is itself imported only where the
setting ``telemetry`` is on. A run is a span, and so is each request to a model and each call of a
tool in it; a map is a span around those of its rows. Where they are sent is decided by whoever
configures OpenTelemetry in this process; without that, they go nowhere.

Texts of a person, the model or a tool are in no span, unless the setting is ``"contents"`` and the
model may see all values; then secrets are masked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from archytas_nb import extras
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop import events as ev
from archytas_nb.loop.model import ModelFacts
from archytas_nb.models.published import PROVIDERS
from archytas_nb.models.secrets import mask_results
from archytas_nb.run import Run
from archytas_nb.version import __version__

try:
    from opentelemetry import context, trace
except ImportError:
    raise ConfigurationError(
        "telemetry is on, and opentelemetry is not installed. Install it: "
        f"{extras.install('otel')}, or set telemetry to 'off'"
    ) from None

_NAMES = {"gemini": "gcp.gemini", "mistral": "mistral_ai"}
"""Providers whose names in the conventions are not ours."""
_OTHER = "_OTHER"
"""The convention's name for a thing without a known name, such as a tool that does not exist."""

_AGENT = "archytas_nb"

Attributes: TypeAlias = dict[str, Any]


def _tracer() -> trace.Tracer:
    return trace.get_tracer(_AGENT, __version__)


class RunSpans:
    """Makes the spans of one run from its events; it is an observer.

    Args:
        run: The run.
        facts: Returns what is known of its model, once that is chosen.
        with_contents: Whether spans have texts: the question, messages, arguments and results.
    """

    def __init__(
        self, run: Run[Any], facts: Callable[[], ModelFacts], *, with_contents: bool = False
    ) -> None:
        self._run = run
        self._facts = facts
        self._with_contents = with_contents
        self._before = context.get_current()
        self._inside = self._before
        self._span: trace.Span | None = None  # of the run, from its first event to its end
        self._request: trace.Span | None = None
        self._waiting: list[ev.ToolCall] = []  # calls that have not begun
        self._calls: dict[str, trace.Span] = {}  # those that go on
        self._provider: Attributes = {"gen_ai.provider.name": _OTHER}

    def __call__(self, event: ev.Event) -> None:
        """Begin or end spans as the event says."""
        if self._span is None:
            self._begin()
        match event:
            case ev.Started():
                self._provider = _provider(self._facts())
            case ev.AskModel():
                self._ask(event)
            case ev.ModelReply() | ev.NoReply():
                self._end_request(event)
            case ev.RunCalls():
                self._waiting += event.calls
                self._begin_calls()
            case ev.Delta(kind="ended", outcome=ev.CallOutcome() as outcome):
                # The result of one that runs with others is not known yet.
                if outcome.result != "…":
                    self._end_call(outcome)
            case ev.CallOutcomes():
                for each in event.outcomes:
                    self._end_call(each)
                _attach(self._before)

    def end(self) -> None:
        """End the spans with the run, however it ended; again, it does nothing."""
        span = self._span
        if span is None or not span.is_recording():
            return
        _attach(self._before)
        for each in (*self._calls.values(), *filter(None, [self._request])):
            _end(each, "interrupted")
        run = self._run
        span.set_attributes(self._provider | _tokens(run.usage))
        span.set_attributes(
            {
                "gen_ai.request.model": run.model,
                "archytas_nb.status": run.status,
                "archytas_nb.protocol": run.protocol,
                "archytas_nb.requests": run.usage.requests,
            }
        )
        if run.answer:
            self._tell(span, "gen_ai.output.messages", [_message("assistant", run.answer)])
        error = ""
        if run.status in ("failed", "interrupted"):
            by = run.ending.by if isinstance(run.ending, ev.Failed) else run.status
            error = _error_of(run.error) or by
        _end(span, error)

    def _begin(self) -> None:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": _AGENT,
        }
        self._before = context.get_current()
        self._span = _tracer().start_span(f"invoke_agent {_AGENT}", attributes=attributes)
        self._inside = trace.set_span_in_context(self._span, self._before)
        self._tell(self._span, "gen_ai.input.messages", [_message("user", self._run.question)])

    # ── requests ──────────────────────────────────────────────────────────────────────────────────

    def _ask(self, ask: ev.AskModel) -> None:
        if self._request is not None:  # the run goes on without a reply, with another protocol
            _end(self._request)
        model = self._run.model
        attributes: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.output.type": "text" if ask.schema is None else "json",
            "archytas_nb.step": ask.step,
            **self._provider,
        }
        if ask.max_tokens is not None:
            attributes["gen_ai.request.max_tokens"] = ask.max_tokens
        if ask.temperature is not None:
            attributes["gen_ai.request.temperature"] = ask.temperature
        self._request = _tracer().start_span(
            f"chat {model}", self._inside, kind=trace.SpanKind.CLIENT, attributes=attributes
        )
        messages = [_message(each.get("role", ""), each.get("content")) for each in ask.messages]
        self._tell(self._request, "gen_ai.input.messages", messages)

    def _end_request(self, reply: ev.ModelReply | ev.NoReply) -> None:
        span = self._request
        if span is None:  # a check of an answer that was interrupted has no request
            return
        self._request = None
        if isinstance(reply, ev.NoReply):
            _end(span, _error_of(self._run.error) or reply.kind)
            return
        span.set_attributes(_tokens(reply.usage))
        span.set_attribute("gen_ai.response.finish_reasons", [reply.finish])
        if reply.model:
            span.set_attribute("gen_ai.response.model", reply.model)
        parts: list[Any] = [reply.text]
        parts += [{"name": each.name, "arguments": each.arguments} for each in reply.calls]
        self._tell(span, "gen_ai.output.messages", [_message("assistant", parts)])
        _end(span)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _begin_calls(self) -> None:
        """Begin the next call, or all that run at the same time."""
        count = 1
        while self._is_async(count - 1) and self._is_async(count):
            count += 1
        begun = self._waiting[:count]
        del self._waiting[:count]
        for call in begun:
            self._calls[call.id] = self._begun(call)
        # Spans that a tool makes are below its own, if it is the only one that runs.
        inside = self._inside
        if len(begun) == 1:
            inside = trace.set_span_in_context(self._calls[begun[0].id], self._before)
        _attach(inside)

    def _is_async(self, place: int) -> bool:
        if place >= len(self._waiting):
            return False
        tool = self._run.tools.get(self._waiting[place].name)
        return tool is not None and tool.is_async

    def _begun(self, call: ev.ToolCall) -> trace.Span:
        # The model can write anything as a name.
        name = call.name if call.name in self._run.tools else _OTHER
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.agent.name": _AGENT,
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        span = _tracer().start_span(f"execute_tool {name}", self._inside, attributes=attributes)
        self._tell(span, "gen_ai.tool.call.arguments", call.input)
        return span

    def _end_call(self, outcome: ev.CallOutcome) -> None:
        span = self._calls.pop(outcome.call_id, None)
        if span is None:
            return
        span.set_attribute("archytas_nb.status", outcome.status)
        self._tell(span, "gen_ai.tool.call.result", outcome.text)
        error = ""
        if outcome.status != "done":
            error = _error_of(outcome.error) or outcome.status
        _end(span, error)
        if not self._calls:
            self._begin_calls()

    def _tell(self, span: trace.Span, name: str, value: Any) -> None:
        """Add a text, if spans have texts, without the secrets in it."""
        if not self._with_contents:
            return
        namespace: Mapping[str, object] = self._run.namespace or {}
        mask: Callable[[str], str] = mask_results(namespace)
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        span.set_attribute(name, mask(text))


@contextmanager
def map_span(rows: int) -> Iterator[None]:
    """The span of a map, around those of its rows.

    Args:
        rows: How many rows it has.
    """
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": f"{_AGENT}.map",
        "archytas_nb.rows": rows,
    }
    span = _tracer().start_span(f"invoke_workflow {_AGENT}.map", attributes=attributes)
    before = context.get_current()
    _attach(trace.set_span_in_context(span, before))
    error = ""
    try:
        yield
    except BaseException as raised:
        error = _error_of(raised)
        raise
    finally:
        _attach(before)
        _end(span, error)


def _attach(found: context.Context) -> None:
    """Have spans that other code makes be below the span of a context."""
    # Not detached by a token: the events of a run may come in several threads.
    context.attach(found)


def _provider(facts: ModelFacts) -> Attributes:
    """The provider of a model, judged by its address, and the address."""
    parts = urlsplit(facts.base_url)
    known = {urlsplit(each.base_url).netloc: name for name, each in PROVIDERS.items()}
    name = known.get(parts.netloc) or facts.server.lower() or _OTHER
    found: Attributes = {"gen_ai.provider.name": _NAMES.get(name, name)}
    if parts.hostname:
        found["server.address"] = parts.hostname
    if parts.port:
        found["server.port"] = parts.port
    return found


def _tokens(usage: ev.Usage) -> Attributes:
    if not usage.tokens:  # the server does not report them
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
    }


def _message(role: str, content: Any) -> Any:
    parts = content if isinstance(content, list) else [content]
    return {"role": role, "parts": [_part(each) for each in parts if each]}


def _part(content: Any) -> Any:
    if isinstance(content, str):
        return {"type": "text", "content": content}
    if isinstance(content, dict) and "name" in content:
        return {"type": "tool_call", **content}
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        return {"type": "text", "content": content["text"]}
    # Pictures are large.
    return {"type": "blob"}


def _error_of(error: BaseException | None) -> str:
    """The class of an error; its text may hold values."""
    return "" if error is None else type(error).__qualname__


def _end(span: trace.Span, error: str = "") -> None:
    if error:
        span.set_attribute("error.type", error)
        span.set_status(trace.StatusCode.ERROR)
    span.end()
