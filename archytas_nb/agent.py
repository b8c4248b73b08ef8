"""An agent: one conversation of a model that uses tools on live objects."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import time
import warnings
import weakref
from collections import ChainMap
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from archytas_nb.answers import Answers, Until
from archytas_nb.batch.methods import AsksMany
from archytas_nb.driver import (
    Driver,
    Events,
    Executor,
    Model,
    Observer,
    Spoken,
    ended,
    kept,
    observed,
    recorded,
    watched,
)
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.kernel import Namespace, current_shell, live_namespace, running_cell
from archytas_nb.kernel.approval import Approve
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.person import Keyboard, Person, confirm
from archytas_nb.kernel.python import MODES, PythonMode, python_tool
from archytas_nb.kernel.watch import Watch
from archytas_nb.loop import events as ev
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.history import ContextWindow, Exchange, WireProtocol, messages_of, place_of
from archytas_nb.loop.limits import MAX_SECONDS, MAX_TOTAL_TOKENS, Guards, Limits
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.text_protocol import TextProtocol
from archytas_nb.run import Run
from archytas_nb.tools.data import attached
from archytas_nb.tools.names import keep
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, toolbox

__all__ = ["Agent", "Model", "Observer", "ProtocolName"]

ProtocolName: TypeAlias = Literal["auto", "react", "native"]
_NOT_GIVEN: Any = object()


class Agent(AsksMany):
    """A conversation with a model that uses tools on live objects.

    Args:
        tools: Functions, Tools or a Toolbox; None uses the default toolbox.
        model: A name, an `OpenAIModel`, or any `Model`; None uses the one configured in the
            environment, or the embedded model.
        protocol: ``"react"``, ``"native"``, or ``"auto"`` to use what the model supports.
        instructions: Added to the system prompt.
        max_steps: Maximum number of model replies in one run.
        max_errors: Maximum number of consecutive unusable replies and failed calls.
        max_seconds: Maximum number of seconds of a run, not counting the time that you take to
            answer; None for no limit.
        max_total_tokens: Maximum number of input and output tokens of a run; None for no limit.
        namespace: Where variables are looked up and large results are kept; None takes the live
            one.
        approve: What happens where a tool wants approval: ``"ask"`` the person, ``"auto"`` runs
            it, ``"deny"`` refuses it; or a function that decides on every call. None asks.
        ask_user: Whether the model has a tool for asking you questions.
        allow: Names of tools that run without approval.
        max_reply_tokens: Maximum number of tokens in one reply; None for 1,024 (small models) or
            16,384 (others).
        python: Whether the model has a tool that runs code in the namespace: ``"off"``, ``"ask"``
            (after approval), ``"undoable"`` (at once; what it changes is shown and can be undone),
            or ``"auto"`` (at once). This is not a sandbox.
        undo: Whether changes of the variables by any tool are watched, for `Run.diff` and
            `Run.undo`; None for yes where ``python`` is ``"ask"`` or ``"undoable"``.
        max_tokens: The old name of `max_total_tokens`, which it overrides.

    Raises:
        ValueError: An argument is invalid.
    """

    def __init__(
        self,
        tools: Toolbox | Iterable[Tool | Callable[..., Any]] | None = None,
        model: str | Model | None = None,
        protocol: ProtocolName = "auto",
        instructions: str | None = None,
        max_steps: int = 20,
        max_errors: int = 5,
        max_seconds: float | None = MAX_SECONDS,
        max_total_tokens: int | None = MAX_TOTAL_TOKENS,
        namespace: Namespace | None = None,
        approve: Approve | None = None,
        *,
        ask_user: bool = False,
        allow: Collection[str] = (),
        max_reply_tokens: int | None = None,
        python: PythonMode = "off",
        undo: bool | None = None,
        max_tokens: int | None = _NOT_GIVEN,
    ) -> None:
        if protocol not in ("auto", "react", "native"):
            raise _wrong("protocol", protocol, "'auto', 'react' or 'native'")
        if python not in MODES:
            raise _wrong("python", python, "'off', 'ask', 'undoable' or 'auto'")
        if instructions is not None and not isinstance(instructions, str):
            raise _wrong("instructions", instructions, "text")
        if namespace is not None and not isinstance(namespace, MutableMapping):
            raise _wrong("namespace", namespace, "a dict of variables")
        if max_tokens is not _NOT_GIVEN:
            # Unlike a DeprecationWarning, a FutureWarning is shown from any module of the user's.
            warnings.warn(
                f"max_tokens={max_tokens!r} is deprecated; use max_total_tokens, which limits all "
                "tokens of a run (max_reply_tokens limits one reply)",
                FutureWarning,
                stacklevel=2,
            )
            max_total_tokens = max_tokens
        self._tools = _toolbox(tools)
        self._model: str | Model | None = model
        self._answering: tuple[object, Model] | None = None
        self.protocol: ProtocolName = protocol
        self.instructions = instructions or ""
        self.limits = Limits(max_steps, max_errors, max_seconds, max_total_tokens, max_reply_tokens)
        self._namespace = namespace
        self._approve = approve
        self._asks_user = ask_user
        self._python = python
        self._undo = python in ("ask", "undoable") if undo is None else undo
        self._allow = _names("allow", allow)
        self.exchanges: list[Exchange] = []
        self._running: Callable[[], Generator[ev.Event, None, None] | None] = lambda: None

    @property
    def tools(self) -> Toolbox:
        """The tools that the next question may use."""
        tools = (toolbox if self._tools is None else self._tools).active()
        if self._asks_user:
            tools.add(_ask_user())
        if self._python != "off" and "python" not in tools:
            tools.add(python_tool(self._python))
        return tools

    @property
    def model(self) -> Model:
        """The model, chosen at first use; the cassette in use, if any, stands before it."""
        from archytas_nb.cassettes.switch import answers_itself, cassette_in_use, recorded

        cassette = None if answers_itself(self._model) else cassette_in_use()
        if self._answering is None or self._answering[0] is not cassette:
            self._answering = cassette, recorded(self._model, cassette=cassette, confirm=confirm)
        return self._answering[1]

    @model.setter
    def model(self, model: str | Model | None) -> None:
        if model is not self._model:
            for each in self.exchanges:  # what was too long for one model need not be for another
                each.cut = replace(each.cut, room=None)
        self._model, self._answering = model, None

    @property
    def messages(self) -> list[ev.Message]:
        """The history in wire form, always one that a strict server accepts."""
        return messages_of(self._wire(self._protocol(), self.tools), self.exchanges)

    def reset(self) -> None:
        """Start a new conversation with the same tools, model and settings."""
        self._end_earlier()
        self.exchanges.clear()

    def undo(self) -> str | None:
        """Forget the last exchange; return its question, or None where there is none."""
        self._end_earlier()
        return self.exchanges.pop().question if self.exchanges else None

    def run(
        self,
        question: str,
        *,
        output_type: Any = None,
        until: Until | None = None,
        images: Any = (),
        origin: str = "",
        observers: Sequence[Observer] = (),
    ) -> Run:
        """Ask a question and wait for the end.

        Args:
            question: The question.
            output_type: What the answer must be, any type that an argument of a tool may have; it
                is then ``run.value``. None takes text.
            until: A condition: it gets the answer (the typed value where there is a type) and
                returns what is wrong with it, which the model is told, or an empty text. What it
                raises is wrong with it too.
            images: Shown with the question, one or several: PNG or JPEG (base64, bytes or a path),
                or objects that are pictures.
            origin: What asks, such as a cell: this question replaces the exchange of an earlier
                one of the same origin, in its place, and continues what came before it.
            observers: Called with every event, and with what running tools print.

        Returns:
            The run; `incomplete` where a limit ended it.

        Raises:
            ModelError: The endpoint failed; the conversation goes on without this question.
            TaskFailed: The model gave up.
            RunInterrupted: A person interrupted.
            ToolError: No answer can be of the type.
            ValueError: The question is empty, an image cannot be read, or `until` is no function.
        """
        run = Run(question)
        asked = self._read(question, output_type, until, images, origin)
        try:
            with closing(self._events(run, asked, observers)) as events:
                for _ in events:
                    pass
        except KeyboardInterrupt:
            raise run.interrupt() from None
        return run.checked()

    def stream(
        self,
        question: str,
        *,
        output_type: Any = None,
        until: Until | None = None,
        images: Any = (),
        origin: str = "",
        observers: Sequence[Observer] = (),
    ) -> Generator[ev.Event, None, Run]:
        """Ask a question and see every event as it happens; the arguments are those of `run`.

        What running tools print goes to the observers only: a generator cannot yield while a tool
        runs.

        Yields:
            The events of the run, with the pieces of streamed replies; the ending is the last.

        Returns:
            The run, as `run` does; raises what `run` raises, after the ending.
        """
        run = Run(question)
        asked = self._read(question, output_type, until, images, origin)
        try:
            yield from self._events(run, asked, observers)
        except KeyboardInterrupt:
            raise run.interrupt() from None
        return run.checked()

    def preview(self, question: str, **asked: Any) -> ev.AskModel:
        """The first request of a run with these arguments of `run`; nothing is asked or kept."""
        exchange, _ = self._read(question, **asked)
        origin = exchange.origin
        tools = self.tools
        wire = self._wire(self._protocol(), tools)
        window = _window(self.model, ChainMap({}, self._variables()))  # it makes no variables
        guards = self._guards(self.model, tools, time.monotonic)
        flow = react_loop(wire, guards, self._past(origin), exchange, window=window)
        request = next(flow)
        while not (isinstance(request, ev.AskModel) and request.step):
            # What a small model is asked beforehand is taken to be answered with yes.
            request = flow.send(ev.ModelReply("yes") if isinstance(request, ev.AskModel) else None)
        return request

    # ── inside ────────────────────────────────────────────────────────────────────────────────────

    def _read(
        self,
        question: str,
        output_type: Any = None,
        until: Until | None = None,
        images: Any = (),
        origin: str = "",
    ) -> tuple[Exchange, Answers]:
        """Check everything about a question first, so that bad input costs nothing."""
        if not isinstance(question, str):
            raise _wrong("the question", question, "text to ask the model")
        if not question.strip():
            raise ValueError("the question is empty; expected text to ask the model")
        answers = Answers(output_type, until, self._variables())
        is_one = isinstance(images, (str, bytes)) or not hasattr(images, "__iter__")
        pictures = tuple(attached(each) for each in ([images] if is_one else images))
        exchange = Exchange(question, images=pictures, form=answers.form, origin=origin)
        return exchange, answers

    def _events(
        self, run: Run, asked: tuple[Exchange, Answers], observers: Sequence[Observer]
    ) -> Events:
        """Everything that happens in a run; its record is kept however it ends."""
        self._end_earlier()
        exchange, answers = asked
        events = recorded(run, exchange, lambda: self._begin(run, exchange, answers, observers))
        for _ in range(2):  # an interrupt may come while it is kept
            events = kept(events, lambda: self._keep(exchange))
        self._running = weakref.ref(events)
        return observed(run, events, observers)

    def _end_earlier(self) -> None:
        """End a run that was left unfinished, as by a stream that nobody iterates any more."""
        earlier = self._running()
        if earlier is not None:
            if inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING:
                raise RuntimeError(
                    "this agent is answering a question already; ask another agent, or wait"
                )
            earlier.close()

    def _keep(self, exchange: Exchange) -> None:
        """Put an exchange into its place, where it is worth keeping; once is enough."""
        if exchange.is_worth_keeping and all(each is not exchange for each in self.exchanges):
            place = place_of(self.exchanges, exchange.origin)
            self.exchanges[place : place + 1] = [exchange]

    def _begin(
        self, run: Run, exchange: Exchange, answers: Answers, observers: Sequence[Observer]
    ) -> Events:
        """The events of a run, after its model was found; the ending alone where there is none."""
        tools, variables = self.tools, self._variables()
        try:
            model = self.model
            spoken = model.protocol if self.protocol == "auto" else self.protocol
            run.model, run.protocol = model.name, spoken
        except (ModelError, ConfigurationError) as error:
            run.error = error
            missing = isinstance(error, ConfigurationError)
            return ended(exchange, ev.Failed(str(error), by="setup" if missing else "endpoint"))
        except KeyboardInterrupt:
            return ended(exchange, ev.Interrupted("a request to the model"))
        begins = getattr(model, "begins", None)
        if begins is not None:  # a recording gives a cell that is run again what it gave before
            begins(*_asked_by(exchange.origin))
        between = getattr(model, "person", None)  # so that a person's answers are recorded too
        person: Person = Keyboard() if between is None else between(Keyboard())
        run.watch = Watch(variables) if self._undo else None
        executor = self._executor(tools, variables, person, observers, run.watch)
        # A person's time to answer does not count against the run.
        guards = self._guards(model, tools, executor.clock)
        driver = Driver(
            run, exchange, self._past(exchange.origin), model, executor, guards,
            lambda protocol: self._wire(protocol, tools), _window(model, variables),
            answers.check if answers.are_checked else None, may_fall_back=self.protocol == "auto",
        )  # fmt: skip
        return driver.events(spoken)

    def _executor(
        self,
        tools: Toolbox,
        variables: Namespace,
        person: Person,
        observers: Sequence[Observer],
        watch: Watch | None,
    ) -> Executor:
        """What runs the calls of one run."""
        return KernelExecutor(
            tools, variables, self._approve, person,
            watched(observers, "output"), watched(observers, "person"),
            allow=self._allow, watch=watch,
        )  # fmt: skip

    def _settings(self) -> dict[str, Any]:
        """The arguments that make such an agent, without its conversation."""
        return {
            "tools": list(self.tools.values()),
            "model": self._model,
            "protocol": self.protocol,
            "instructions": self.instructions,
            **dataclasses.asdict(self.limits),
            "namespace": self._variables(),
            "approve": self._approve,
            "allow": self._allow,
        }

    def _variables(self) -> Namespace:
        return live_namespace() if self._namespace is None else self._namespace

    def _protocol(self) -> Spoken:
        return self.model.protocol if self.protocol == "auto" else self.protocol

    def _wire(self, protocol: Spoken, tools: Toolbox) -> WireProtocol:
        return (FunctionCalling if protocol == "native" else TextProtocol)(tools, self.instructions)

    def _guards(self, model: Model, tools: Toolbox, clock: Callable[[], float]) -> Guards:
        may_repeat = {name for name, tool in tools.items() if tool.repeat}
        return Guards(self.limits, clock, may_repeat, getattr(model, "is_small", False))

    def _past(self, origin: str) -> tuple[Exchange, ...]:
        return tuple(self.exchanges[: place_of(self.exchanges, origin)])


def _window(model: Model, namespace: Namespace) -> ContextWindow:
    """How much the model can take, and where values go that there is no room for."""

    def name_of(call: ev.ToolCall, outcome: ev.CallOutcome) -> str:
        try:
            return "" if outcome.value is None else keep(outcome.value, namespace, call.name)
        except Exception:  # noqa: BLE001 - a namespace that refuses to store costs the name only
            return ""

    return ContextWindow(model, name_of)


def _asked_by(origin: str) -> tuple[str, str]:
    """Who asks, and which run of theirs it is where they may ask more than once in it.

    An agent in Python gives no origin: the running cell stands for it. Both may be empty.
    """
    if origin:
        return origin, ""
    cell, execution = running_cell(current_shell())
    return (f"{cell} in Python", execution) if cell else ("", "")


def _toolbox(tools: Any) -> Toolbox | None:
    if tools is None or isinstance(tools, Toolbox):
        return tools
    if isinstance(tools, Tool) or callable(tools):
        return Toolbox(tools)
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
        raise _wrong("tools", tools, "functions, Tools or a Toolbox")
    return Toolbox(*tools)


def _names(argument: str, value: Any) -> frozenset[str]:
    """Names, one or several."""
    is_one = isinstance(value, str) or not isinstance(value, Iterable)
    names: list[Any] = [value] if is_one else list(value)
    if not all(isinstance(each, str) for each in names):
        raise _wrong(argument, value, "names of tools")
    return frozenset(names)


def _wrong(name: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{name} is {value!r}; expected {expected}")


@functools.cache
def _ask_user() -> Tool:
    from archytas_nb.kernel.person import ask_user

    return Tool.from_function(ask_user, repeat=True)
