"""A function as a tool: its description for the model, validation of its input, and its calls.

The function itself is unchanged and receives only validated arguments. Every call results in a
`CallOutcome`. Output is not captured here; the kernel captures it around `BoundCall.run`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import marshal
import operator
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import FunctionType, GenericAlias, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from archytas_nb.choices import AskBefore
from archytas_nb.errors import ToolError
from archytas_nb.hints import hinted
from archytas_nb.loop.events import ROOM, CallOutcome, InputFault, Json
from archytas_nb.tools.current import current_run
from archytas_nb.tools.data import is_data
from archytas_nb.tools.meaning import signature_of
from archytas_nb.tools.registry import ToolLike, register
from archytas_nb.tools.render import (
    MAX_RESULT_CHARS,
    Drained,
    drain,
    failure_text,
    is_lazy,
    is_users_file,
    render,
)
from archytas_nb.tools.variables import keep, name_of
from archytas_nb.words import did_you_mean, truncate_middle

if TYPE_CHECKING:
    from archytas_nb.tools.parameter import Parameter

# pydantic is loaded when the first tool is defined: loading the extension must be fast.

Level = Literal["full", "simple"]

OPTIONS = ("approve", "timeout", "max_chars", "repeat", "pure")
"""The options of a tool other than its name."""

_CANCEL_SECONDS = 2.0  # time for a cancelled coroutine to clean up


@dataclass(frozen=True, slots=True)
class ApprovalCheck:
    """Whether a call requires approval, and the reason that the person reads.

    Attributes:
        required: Whether it does.
        reason: The text of the tool's own check, which is always shown, even if it is empty; None
            without one.
        note: Why the tool requires approval at all, for the person; it is about no single call, so
            that a permission covers others.
    """

    required: bool
    reason: str | None = None
    note: str = ""


Approval: TypeAlias = bool | Callable[..., bool | str | ApprovalCheck] | None
"""Whether a call requires approval; a callable may return the reason for the person."""


@dataclass(frozen=True, slots=True, eq=False)
class BoundCall:
    """A call with validated arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        """Call the function; return its result, or an awaitable for an async function.

        A generator is read here, up to a limit: its exceptions and output belong to the call.
        """
        value = self.function(*self.args, **self.kwargs)
        if inspect.isasyncgen(value):
            return _drain_async(value)
        if is_lazy(value):
            return drain(value)
        return value


def definition_of(function: Callable[..., Any]) -> tuple[object, ...] | None:
    """The parts that determine a function's description, if each can only be replaced.

    None where a part may also change in place, as a class of the user does, or a mutable default:
    then only reading the function again shows whether its description is still true.
    """
    if type(function) is not FunctionType or function.__dict__:
        return None
    try:
        annotations = function.__annotations__
    except Exception:  # noqa: BLE001 - since Python 3.14 it is evaluated when it is read
        return None
    by_name = function.__kwdefaults__ or {}
    defaults = (*(function.__defaults__ or ()), *by_name.values())
    meant = [_meant(each, function.__globals__) for each in annotations.values()]
    if not (
        all(_is_one_of(_CONSTANTS, type(each)) for each in defaults) and all(map(_is_fixed, meant))
    ):
        return None
    return (function.__code__, function.__doc__, *annotations, *meant, *by_name, *defaults)


_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))
_FIXED = (*_CONSTANTS, object, list, tuple, dict, set, frozenset)


def _meant(annotation: object, names: Mapping[str, Any]) -> object:
    """The meaning of an annotation; one in quotes stays a text unless it is a name."""
    if not isinstance(annotation, str):
        return annotation
    return names.get(annotation, getattr(builtins, annotation, annotation))


def _is_fixed(annotation: Any) -> bool:
    """Whether an annotation is made only of types that never change."""
    if isinstance(annotation, (GenericAlias, UnionType)):
        origin = getattr(annotation, "__origin__", object)
        return _is_one_of(_FIXED, origin) and all(map(_is_fixed, annotation.__args__))
    return annotation is None or _is_one_of(_FIXED, annotation)


def _is_one_of(types: Sequence[type], cls: object) -> bool:
    """Whether a class is among some; those of the user may have no hash, and any equality."""
    return any(cls is each for each in types)


def _are_identical(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


@hinted
@dataclass(frozen=True, eq=False, repr=False)
class Tool(ToolLike):
    """A function that a model can call. Created by `Tool.from_function`; compares by identity.

    Attributes:
        name: The name that the model sees: ``^[a-zA-Z0-9_-]{1,64}$``.
        source_name: The original name, such as ``"math.factorial"``.
        text: The description of the tool in the text protocol.
        description: The description of the tool in function calling, next to its schema.
        issues: Warnings about a docstring that is incomplete or differs from the signature.
        outdated: The difference between the function and its file; empty if there is none.
        is_async: Whether a call returns an awaitable.
        parameters: The arguments, in order.
        function: The function itself, unchanged.
        approve, timeout, max_chars, repeat, pure, runs_code: As in `from_function`.
        act: The act that code of a model is about to do, if a call represents one; no model has
            such a tool, and a person can permit or refuse its calls, but not change them.
    """

    name: str
    source_name: str
    text: str
    description: str
    issues: tuple[str, ...]
    is_async: bool
    parameters: tuple[Parameter, ...]
    function: Callable[..., Any]
    approve: Approval
    timeout: float | None
    max_chars: int | None
    repeat: bool
    pure: bool = False
    runs_code: bool = False
    outdated: tuple[str, ...] = ()
    act: AskBefore | None = None

    def __post_init__(self) -> None:
        register(self)

    @classmethod
    def from_function(
        cls,
        f: Callable[..., Any],
        name: str | None = None,
        *,
        approve: Approval = None,
        timeout: float | None = None,
        max_chars: int | None = None,
        repeat: bool = False,
        pure: bool = False,
        runs_code: bool = False,
    ) -> Tool:
        """Turn a callable into a tool.

        Args:
            f: A function with annotations and a docstring, a bound method, a partial, or a callable
                object.
            name: The tool's name; by default, the function's name. Dots become underscores.
            approve: Whether a call requires approval: True, False, or a function whose parameters
                are a subset of the tool's and that receives their validated values. If it returns a
                string, approval is required, even if the string is empty, and the string is shown
                in the prompt. False or None means that none is required; anything else, that it is.
            timeout: Maximum number of seconds for one call; None for no limit.
            max_chars: Maximum number of characters of a result that the model reads.
            repeat: Whether the same call may run again after it had the same outcome.
            pure: Whether it has no side effects and may run in parallel: `Agent.map` calls it in
                its worker threads, and other tools in the main thread.
            runs_code: Whether it runs code in the user's namespace. A person who approves such a
                call is shown all of it, and code that is too long to be shown is refused.

        Raises:
            ToolError: The function cannot be a tool; the message lists all reasons and fixes.
        """
        from archytas_nb.tools.signature import define

        spec = define(f, name, "" if runs_code else approval_note(approve))
        label = f"of the tool {spec['name']!r}"
        for option, value in (("timeout", timeout), ("max_chars", max_chars)):
            if value is not None and (isinstance(value, bool) or not value > 0):
                expected = "expected a positive number or None"
                raise ToolError(f"{option} {label} is {value!r}; {expected}")
        names = [each.name for each in spec["parameters"] if not each.injected]
        fault = _approval_fault(approve, names)
        if fault:
            raise ToolError(f"approve {label} {fault}")
        return cls(
            **spec, approve=approve, timeout=timeout, max_chars=max_chars, repeat=repeat, pure=pure,
            runs_code=runs_code,
        )  # fmt: skip

    def now(self) -> Tool:
        """The tool as its function is now, which `%autoreload` or an assignment may have changed.

        Returns:
            This tool if the model would read the same of it, else another one.

        Raises:
            ToolError: The function can no longer be a tool.
        """
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        if code is None or not is_users_file(code.co_filename):
            return self
        definition = definition_of(self.function)
        if definition is not None and _are_identical(definition, self._definitions):
            return self
        options = {name: getattr(self, name) for name in (*OPTIONS, "runs_code")}
        tool = Tool.from_function(self.function, self.source_name, **options)
        if tool.is_same_to_a_model(self):
            tool = self
        tool._definitions[:] = definition or ()
        return tool

    def is_same_to_a_model(self, other: Tool) -> bool:
        """Whether a model reads the same of another tool, and its calls are made alike."""

        def read(tool: Tool) -> tuple[Any, ...]:
            injected = [(each.name, each.injected, each.positional) for each in tool.parameters]
            return tool.text, tool.description, tool.schema(), tool.is_async, injected

        pairs = zip(self.parameters, other.parameters, strict=False)
        return read(self) == read(other) and all(
            _is_same_default(one.default, another.default) for one, another in pairs
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function and the options; unpickling creates the tool again."""
        from archytas_nb.tools.signature import type_hints

        function = self.function
        names = (*OPTIONS, "runs_code")
        options = {name: getattr(self, name) for name in names}
        annotations = {}
        if inspect.isfunction(function):
            annotations = type_hints(function)
        return _rebuild, (function, self.source_name, options, annotations)

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self._visible)
        return f"Tool({self.name}: {names or 'no arguments'})"

    @property
    def _visible(self) -> tuple[Parameter, ...]:
        return tuple(each for each in self.parameters if not each.injected)

    @functools.cached_property
    def _definitions(self) -> list[object]:
        """The result of `definition_of` when the function was last read; empty before."""
        return []

    @functools.cached_property
    def _schemas(self) -> dict[str, bytes]:
        """The schemas that were asked for, by their level, as `marshal` writes them."""
        return {}

    def _copy(self, level: str, make: Callable[[], Json]) -> dict[str, Json]:
        """A copy of a schema that is made once; nothing copies faster than `marshal`."""
        if level not in self._schemas:
            self._schemas[level] = marshal.dumps(make())
        copy: dict[str, Json] = marshal.loads(self._schemas[level])  # noqa: S302 - our own bytes
        return copy

    # ── descriptions for the model ────────────────────────────────────────────────────────────────

    @property
    def tokens(self) -> int:
        """Estimated tokens of the text in each request, at four characters per token."""
        return -(-len(self.text) // 4)

    def schema(self, level: Level = "full") -> dict[str, Json]:
        """Return the JSON schema of the arguments, always an object.

        Args:
            level: ``"full"``, or ``"simple"`` without references, ``anyOf`` and lists of types,
                for small engines.

        Returns:
            A copy that the caller may change.
        """
        from archytas_nb.tools import parameter, schema

        if level not in ("full", "simple"):
            raise ValueError(f"no schema level is named {level!r}; expected 'full' or 'simple'")
        if level == "full":
            return self._copy(level, lambda: parameter.full_schema(self._visible))
        return self._copy(level, lambda: schema.simple(self.schema()))

    def spec(self, level: Level = "full") -> dict[str, Json]:
        """Return the specification for function calling: name, description and parameters."""
        function = {"name": self.name, "description": self.description}
        return {"type": "function", "function": {**function, "parameters": self.schema(level)}}

    def input_schema(self, level: Level = "simple") -> dict[str, Json]:
        """Return the schema of ``tool_input``: null, the only simple argument, or the object."""
        from archytas_nb.tools import parameter

        return self._copy(
            f"input, {level}", lambda: parameter.input_schema(self._visible, self.schema(level))
        )

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def check(
        self, tool_input: Json, namespace: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Return the errors in an input, each as ``path: reason``; empty if it is valid."""
        from archytas_nb.tools import arguments

        return tuple(
            str(fault) for fault in arguments.read(self._visible, tool_input, namespace)[1]
        )

    def bind(
        self, tool_input: Json, namespace: Mapping[str, Any] | None = None
    ) -> BoundCall | CallOutcome:
        """Validate an input.

        Args:
            tool_input: Decoded JSON, as the model sent it.
            namespace: The variables that arguments by reference may name.

        Returns:
            A call that is ready to run, or an outcome with the status ``"error"`` and every fault.
        """
        from archytas_nb.tools import arguments
        from archytas_nb.tools.parameter import OMITTED

        values, faults = arguments.read(self._visible, tool_input, namespace)
        if faults:
            why = f"{self.name} was not called: its input is wrong."
            error = ToolError(why, arguments.fault_lines(faults))
            error.arguments = tuple(faults)
            expected = truncate_middle(self._expected(), MAX_RESULT_CHARS // 4)
            return CallOutcome(
                "error",
                f"{error}\nExpected input: {expected}",
                error=error,
                input_fault=InputFault(expected, any(each.is_quoted for each in faults)),
                for_person=arguments.for_person(faults),
            )
        for each in self.parameters:
            if each.injected == "run":
                try:
                    values[each.name] = current_run(self.name)
                except ToolError as error:
                    if not each.optional:
                        return CallOutcome("error", str(error), error=error)
                    values[each.name] = each.default
            elif each.injected:
                values[each.name] = {} if namespace is None else namespace
            elif each.name not in values and each.default is not OMITTED:
                values[each.name] = each.fresh_default()
        args = tuple(values.pop(each.name) for each in self.parameters if each.positional)
        return BoundCall(self.function, args, values)

    def faults(self, tool_input: Json, namespace: Mapping[str, Any]) -> list[str]:
        """The faults of an input, a line for each; empty if it can be bound."""
        from archytas_nb.tools import arguments

        _, faults = arguments.read(self._visible, tool_input, namespace)
        return [each.reason for each in faults]

    def arguments(self, bound: BoundCall) -> dict[str, Any]:
        """The values that the function will receive, by name, including defaults."""
        from archytas_nb.tools.parameter import OMITTED

        positional = [each.name for each in self.parameters if each.positional]
        given = {**dict(zip(positional, bound.args, strict=False)), **bound.kwargs}
        values = {}
        for each in self._visible:
            if each.name in given:
                values[each.name] = given.pop(each.name)
            elif each.default is not OMITTED:
                values[each.name] = each.fresh_default()
        injected = {each.name for each in self.parameters if each.injected}
        return values | {name: each for name, each in given.items() if name not in injected}

    @property
    def may_require_approval(self) -> bool:
        """Whether some call may require approval."""
        return callable(self.approve) or bool(self.approve)

    def check_approval(self, bound: BoundCall) -> ApprovalCheck:
        """Whether this call requires approval; what the function `approve` raises is raised."""
        if not callable(self.approve):
            return ApprovalCheck(bool(self.approve))
        given = self.arguments(bound)
        accepted = signature_of(self.approve).parameters
        if not any(each.kind is each.VAR_KEYWORD for each in accepted.values()):
            given = {name: given[name] for name in accepted if name in given}
        answer = self.approve(**given)
        if isinstance(answer, ApprovalCheck):
            return answer
        if issubclass(type(answer), str):
            return ApprovalCheck(required=True, reason=str.__str__(answer))
        if inspect.iscoroutine(answer):
            answer.close()  # it would warn that nobody awaited it
        return ApprovalCheck(not _is_clear_no(answer))

    def call(
        self, tool_input: Json = None, namespace: MutableMapping[str, Any] | None = None
    ) -> CallOutcome:
        """Validate the input, call the function and render its result.

        Args:
            tool_input: Decoded JSON, as the model sent it.
            namespace: The live variables, for arguments by reference and for storing large results.

        Returns:
            The outcome. Nothing is raised except KeyboardInterrupt.
        """
        bound = self.bind(tool_input, namespace)
        if isinstance(bound, CallOutcome):
            return bound
        started = time.perf_counter()
        try:
            value = bound.run()
            if inspect.isawaitable(value):
                value = awaited(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (a tool must not end the kernel)
            return self.failure(error, seconds=time.perf_counter() - started)
        return self.outcome(value, namespace, seconds=time.perf_counter() - started)

    def outcome(
        self,
        value: Any,
        namespace: MutableMapping[str, Any] | None = None,
        *,
        seconds: float = 0.0,
        room: int = ROOM,
        is_taken: bool = True,
    ) -> CallOutcome:
        """Render the result of a call; it is kept in the namespace if it may be needed again.

        So it is if it is not shown whole, and if it is data that other tools take by its name:
        code of a model names what it needs itself.

        Args:
            value: The value that the function returned.
            namespace: Where it is kept if it has no name yet; None to keep nothing.
            seconds: How long the call took.
            room: Characters up to which data is shown whole, unless the tool has its own limit.
            is_taken: Whether a tool takes values by the names of variables.
        """
        limit = self.max_chars or MAX_RESULT_CHARS
        room = self.max_chars or room
        shown = render(value, limit, room)
        kept = value
        unwrapped: Literal["", "listed", "cut"] = ""
        if isinstance(value, Drained):
            kept = value.items
            unwrapped = "listed" if value.complete else "cut"
        hint = ""
        stored = ""
        needs_name = is_taken and not self.runs_code and is_data(kept)
        if namespace is not None and (needs_name or not shown.whole):
            with contextlib.suppress(Exception):  # if the namespace is read-only, there is no name
                name = name_of(kept, namespace)
                if not name:
                    name = stored = keep(kept, namespace, self.source_name)
                    hint = f"\n(kept as the variable {name})"
                elif not self.runs_code:  # which has named it so itself
                    hint = f"\n(it is the variable {name})"
                # Rendered again, because truncating twice would lose the first count of characters.
                shown = render(value, max(limit - len(hint), 1), room)
        return CallOutcome(
            "done",
            shown.text,
            value=kept,
            images=shown.images,
            seconds=seconds,
            stored=stored,
            hint=hint,
            unwrapped=unwrapped,
        )

    def failure(self, error: BaseException, *, seconds: float = 0.0) -> CallOutcome:
        """Render the exception of a call: type, message and the user's frames."""
        text = failure_text(error, self.max_chars or MAX_RESULT_CHARS)
        return CallOutcome("error", text, error=error, seconds=seconds)

    def _expected(self) -> str:
        sent = self._visible
        if not sent:
            return "null"
        if len(sent) == 1 and sent[0].simple:
            return sent[0].line("")
        fields = ", ".join(f"{p.key}: ({p.type.text}{', optional' * p.optional})" for p in sent)
        details = dict.fromkeys(line for p in sent for line in p.type.details)
        return "\n".join([f"{{{fields}}}", *details])


def _rebuild(
    function: Any, name: str, options: dict[str, Any], annotations: dict[str, Any]
) -> Tool:
    # Names in annotations that are strings cannot be resolved after unpickling.
    if any(isinstance(each, str) for each in getattr(function, "__annotations__", {}).values()):
        function.__annotations__ = annotations
    return Tool.from_function(function, name, **options)


def _is_same_default(one: Any, other: Any) -> bool:
    """Whether two defaults are the same; one that a factory makes is another object each time."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # noqa: BLE001 - an array has no truth value, and a class may raise anything
        return type(one) is type(other)


# ── approval ──────────────────────────────────────────────────────────────────────────────────────


def approval_note(approve: Approval) -> str:
    """The note for a model about a tool's approval; the model should not ask as well."""
    if callable(approve):
        return "The user may be asked to approve a call."
    return "The user approves each call." if approve else ""


def _approval_fault(approve: Any, names: list[str]) -> str:
    """Why ``approve`` cannot be called with the tool's arguments; empty if it can."""
    if approve is None or isinstance(approve, bool):
        return ""
    expected = "expected True, False or a function defined with def"
    if not callable(approve) or _is_lazy_function(approve):
        return f"is {approve!r}; {expected}"
    try:
        parameters = signature_of(approve).parameters.values()
    except (TypeError, ValueError):
        return f"is {approve!r}, whose parameters Python cannot read; {expected}"
    gets_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    bound = approve.keywords if isinstance(approve, functools.partial) else {}
    for each in parameters:
        starred = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if starred and gets_all:
            continue
        if starred or each.kind is each.POSITIONAL_ONLY:
            return f"takes {each} by position; it is called with the tool's arguments by name"
        if each.name not in (*names, *bound):
            guess = did_you_mean(each.name, names)
            return f"has a parameter {each.name!r}, which is not an argument of the tool{guess}"
    return ""


def _is_lazy_function(f: Any) -> bool:
    """Whether a call returns something that must be awaited or iterated, and says nothing."""
    functions = (f, getattr(f, "func", None), vars(type(f)).get("__call__"))
    checks = (
        inspect.iscoroutinefunction,
        inspect.isgeneratorfunction,
        inspect.isasyncgenfunction,
    )
    return any(check(inspect.unwrap(each)) for each in functions if each for check in checks)


def _is_clear_no(answer: Any) -> bool:
    """Whether a check says that no approval is needed: anything else asks."""
    if answer is None or answer is False:
        return True
    is_numpy = type(answer).__module__ == "numpy" and type(answer).__name__ in ("bool", "bool_")
    return is_numpy and not answer


# ── awaiting ──────────────────────────────────────────────────────────────────────────────────────


async def _drain_async(items: AsyncGenerator[Any, Any]) -> Drained:
    read = Drained([])
    async with contextlib.aclosing(items):
        async for each in items:
            if not read.add(each):
                break
    return read


def awaited(awaitable: Any) -> Any:
    """Await in another thread, because every cell runs inside an event loop.

    On an interrupt, the coroutine is cancelled and has time to clean up.
    """
    import asyncio  # slow to load, and few tools are async
    from concurrent.futures import wait

    async def main() -> tuple[Any, BaseException | None]:
        try:
            return await awaitable, None
        except BaseException as error:  # noqa: BLE001  (SystemExit would end the loop)
            return None, error

    async def stop() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        loop.stop()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        running = asyncio.run_coroutine_threadsafe(main(), loop)
        while not running.done():
            wait([running], timeout=0.2)  # without a timeout, it cannot be interrupted on Windows
        value, error = running.result()
        if error is not None:
            raise error
        return value
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop)
        thread.join(_CANCEL_SECONDS)
        if not thread.is_alive():
            loop.close()
