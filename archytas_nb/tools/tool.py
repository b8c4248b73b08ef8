"""A function becomes a frozen `Tool`: what a model reads of it, and the one way to call it.

The function itself is left as it was. Nothing reaches it unvalidated, and whatever it does, a call ends in a
`CallOutcome`. Output is not captured here; the kernel room does that around `BoundCall.run`.
"""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import MethodType
from typing import TYPE_CHECKING, Any, Literal

from archytas_nb.errors import ToolError
from archytas_nb.loop.events import CallOutcome, Json
from archytas_nb.tools import approval
from archytas_nb.tools.approval import Approval
from archytas_nb.tools.bound import BoundCall, awaited

if TYPE_CHECKING:
    from archytas_nb.tools.parameters import Parameter

__all__ = ["MAX_CHARS", "BoundCall", "Level", "Tool"]

Level = Literal["full", "simple", "strict"]

MAX_CHARS = 8000
"""How much of a result the model reads, where the tool does not say otherwise."""


@dataclass(frozen=True, eq=False, repr=False)
class Tool:
    """A function as a model sees and calls it. Made by `Tool.from_function`; compares by identity.

    Attributes:
        name: Legal on the wire: ``^[a-zA-Z0-9_-]{1,64}$``.
        source_name: The name before it was made legal, such as ``"math.factorial"``.
        text: What the model reads in the text protocol.
        description: What the model reads beside the schema in function calling.
        issues: What differs between docstring and signature without harm.
        function: The function itself, untouched.
        approve: Whether a person must agree before a call: True, False (or None), or a callable that is given the
            validated arguments by name and says so.
        timeout: Seconds that a call may take, or None.
        max_chars: How much of a result the model reads, or None for the default.
        repeat: Whether the same call may run again where it gave the same outcome before.
        is_async: Whether a call gives an awaitable.
    """

    name: str
    source_name: str
    text: str
    description: str
    issues: tuple[str, ...]
    function: Callable[..., Any]
    approve: Approval
    timeout: float | None
    max_chars: int | None
    repeat: bool
    is_async: bool
    parameters: tuple[Parameter, ...]
    _schemas: dict[Any, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _TOOLS.add(self)

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
    ) -> Tool:
        """Make a tool of a callable.

        Args:
            f: A function with annotations and a docstring, a bound method, a partial, a callable object.
            name: The tool's name; by default the function's own. Dots become underscores.
            approve: Whether a person must agree before a call: True, False, or a callable that is given those of
                the validated arguments that it names; what it says may be the words that the person is shown.
            timeout: Seconds that a call may take; None for no limit.
            max_chars: How many characters of a result the model reads.
            repeat: Whether the same call may run again where it gave the same outcome before.

        Returns:
            The tool.

        Raises:
            ToolError: The function cannot be a tool; every fault is named, with what to change.
        """
        from archytas_nb.tools import build

        built = build.build(f, name)
        for option, value in (("timeout", timeout), ("max_chars", max_chars)):
            if value is not None and (isinstance(value, bool) or not value > 0):
                raise ToolError(
                    f"{option} is {value!r} for the tool {built.name!r}; expected a positive number or None"
                )
        approval.check(
            approve, built.name, [each.name for each in built.parameters if not each.injected]
        )
        return cls(
            name=built.name, source_name=built.source_name, text=built.text, description=built.description,
            issues=built.issues, function=f, approve=approve, timeout=timeout, max_chars=max_chars, repeat=repeat,
            is_async=built.is_async, parameters=built.parameters,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Tool({self.name}: {', '.join(each.name for each in self._sent) or 'no arguments'})"

    # ── what the model reads ──────────────────────────────────────────────────────────────────────

    @property
    def tokens(self) -> int:
        """About how many tokens the text costs in each request; four characters are counted as one."""
        return -(-len(self.text) // 4)

    def schema(self, level: Level = "full") -> dict[str, Json]:
        """Return the JSON schema of the arguments, always an object.

        Args:
            level: ``"full"``; ``"simple"`` without references, ``anyOf`` and lists of types, for small engines;
                ``"strict"`` for OpenAI's structured outputs.

        Returns:
            A copy that the caller may change.
        """
        from archytas_nb.tools import levels

        copy: dict[str, Json] = levels.copied(self._schema(level))
        return copy

    def spec(self, level: Level = "full") -> dict[str, Json]:
        """Return the specification for function calling: name, description and parameters."""
        function: dict[str, Json] = {
            "name": self.name,
            "description": self.description,
            "parameters": self.schema(level),
        }
        if level == "strict":
            function["strict"] = True
        return {"type": "function", "function": function}

    def input_schema(
        self, level: Level = "simple", *, max_length: int | None = None
    ) -> dict[str, Json]:
        """Return the JSON schema of ``tool_input`` as the text protocol words it.

        Args:
            level: As in `schema`.
            max_length: The most characters of each string in it; None leaves strings unbounded.

        Returns:
            A schema for null, for the bare value of the only simple argument, or for the object.
        """
        from archytas_nb.tools import levels

        key = ("input", level, max_length)
        if key not in self._schemas:
            self._schemas[key] = levels.bounded(
                levels.input_schema(self._sent, self._schema(level)), max_length
            )
        copy: dict[str, Json] = levels.copied(self._schemas[key])
        return copy

    def _schema(self, level: Level) -> dict[str, Json]:
        if level not in self._schemas:
            from archytas_nb.tools import levels

            if level not in {"full", "simple", "strict"}:
                raise ValueError(
                    f"no schema level is named {level!r}; expected 'full', 'simple' or 'strict'"
                )
            full = self._schemas.get("full") or levels.full(self._sent)
            self._schemas["full"] = full
            if level != "full":
                self._schemas[level] = (
                    levels.simple(full) if level == "simple" else levels.strict(full)
                )
        found: dict[str, Json] = self._schemas[level]
        return found

    @property
    def _sent(self) -> tuple[Parameter, ...]:
        return tuple(each for each in self.parameters if not each.injected)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def check(
        self, tool_input: Json, namespace: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Return what is wrong with an input, each fault as ``reason @ $.path``; empty where it is acceptable."""
        from archytas_nb.tools import arguments

        return tuple(str(fault) for fault in arguments.read(self._sent, tool_input, namespace)[1])

    def bind(
        self, tool_input: Json, namespace: Mapping[str, Any] | None = None
    ) -> BoundCall | CallOutcome:
        """Validate an input.

        Args:
            tool_input: Decoded JSON, as the model sent it.
            namespace: The variables that arguments by reference may name.

        Returns:
            A call that is ready to run, or an outcome with the status ``"error"`` that says every fault.
        """
        from archytas_nb.tools import arguments
        from archytas_nb.tools.clip import clip
        from archytas_nb.tools.faults import listed

        values, faults = arguments.read(self._sent, tool_input, namespace)
        if faults:
            error = ToolError(
                f"{self.name} was not called: its tool_input is wrong.", listed(faults)
            )
            expected = clip(self._expected(), MAX_CHARS // 4)
            return CallOutcome("error", f"{error}\nExpected tool_input: {expected}", error=error)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for each in self.parameters:
            if each.injected:
                value = namespace if namespace is not None else {}
            elif each.name in values:
                value = values[each.name]
            elif each.positional or each.explicit:
                value = each.fresh_default()
            else:
                continue
            if each.positional:
                args.append(value)
            else:
                kwargs[each.name] = value
        return BoundCall(self.function, tuple(args), kwargs)

    def wants_approval(self, bound: BoundCall) -> bool | str:
        """Whether a person must agree to this call, or the words to ask with; raises what `approve` raises."""
        if not callable(self.approve):
            return bool(self.approve)
        said = approval.ask(self.approve, self.parameters, bound)
        return said if isinstance(said, str) else bool(said)

    def call(
        self, tool_input: Json = None, namespace: MutableMapping[str, Any] | None = None
    ) -> CallOutcome:
        """Validate, call, render.

        Args:
            tool_input: Decoded JSON, as the model sent it.
            namespace: The live variables: for arguments by reference, and to keep large results in.

        Returns:
            What became of it. Nothing is raised but KeyboardInterrupt.
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
        except BaseException as error:  # noqa: BLE001  (SystemExit too: a tool must not end the kernel)
            return self.failure(error, seconds=time.perf_counter() - started)
        return self.outcome(value, namespace, seconds=time.perf_counter() - started)

    def outcome(
        self, value: Any, namespace: MutableMapping[str, Any] | None = None, *, seconds: float = 0.0
    ) -> CallOutcome:
        """Render what a call returned; what is not small is kept in the namespace, under a name for the model."""
        from archytas_nb.tools import result
        from archytas_nb.tools.reference import keep

        limit = self.max_chars or MAX_CHARS
        returned = value
        shown = result.render(returned, limit)
        if isinstance(value, result.Drained):
            value = value.items
        # Without these words a model that sees no images calls the tool again.
        text = f"{shown.text} It is drawn, and the user sees it." if shown.images else shown.text
        if namespace is not None and not shown.images and not (shown.complete and shown.plain):
            try:
                handle = keep(value, namespace, self.source_name)
            except Exception:  # noqa: BLE001  (a namespace that refuses to store costs the handle, not the result)
                handle = ""
            if handle:
                note = f'\n(kept as the variable {handle}: send "{handle}" to pass it on)'
                # Rendered anew, not cut again: a second cut would swallow the first one's count.
                text = result.render(returned, max(limit - len(note), 1)).text + note
        return CallOutcome("done", text, value=value, images=shown.images, seconds=seconds)

    def failure(self, error: BaseException, *, seconds: float = 0.0) -> CallOutcome:
        """Render what a call raised: type, message and the user's frames."""
        from archytas_nb.tools.failure import failure_text

        return CallOutcome(
            "error", failure_text(error, self.max_chars or MAX_CHARS), error=error, seconds=seconds
        )

    def _expected(self) -> str:
        sent = self._sent
        if not sent:
            return "null"
        if len(sent) == 1 and sent[0].simple:
            return f"{sent[0].line().worded('')}"
        fields = ", ".join(
            f'"{p.name}": ({p.carrier.text}{", optional" * p.optional})' for p in sent
        )
        details = dict.fromkeys(line for p in sent for line in p.carrier.details)
        return "\n".join([f"{{{fields}}}", *details])


_TOOLS: weakref.WeakSet[Tool] = weakref.WeakSet()


def is_tool(value: Any) -> bool:
    """Whether it is a tool, a toolbox, or a function that is a tool: whoever has it could call it unasked."""
    from archytas_nb.tools.toolbox import Toolbox

    if issubclass(type(value), (Tool, Toolbox)):
        return True
    functions = [each.function for each in _TOOLS] if callable(value) else []
    is_method = type(value) is MethodType  # it is made anew each time it is looked up
    return any(
        value is each or (is_method and type(each) is MethodType and value == each)
        for each in functions
    )
