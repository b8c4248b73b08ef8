"""Toolboxes, which hold tools by name, and the decorator that adds to the default toolbox."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

from archytas_nb.errors import ToolError
from archytas_nb.hints import argument_hint, hinted, hinted_function
from archytas_nb.tools.data import is_data
from archytas_nb.tools.registry import ToolLike
from archytas_nb.tools.tool import OPTIONS, Approval, Tool
from archytas_nb.words import did_you_mean, truncate_line, with_article

F = TypeVar("F", bound=Callable[..., Any])

_MAX_NAMED = 50  # tools that the message about an unknown one names

_METHODS: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""Options of decorated methods; they become tools when their class or object is added."""


@hinted
class Toolbox(ToolLike, Mapping[str, Tool]):
    """An ordered mapping of names to tools.

    Args:
        *tools: Functions, tools, classes or objects with decorated methods, or other toolboxes;
            or lists of them.

    Raises:
        ToolError: A function cannot be a tool, or two names are equal after replacing dots.
    """

    def __init__(self, *tools: Any) -> None:
        self._tools: dict[str, Tool] = {}
        self._disabled: set[str] = set()
        for each in tools:
            self.extend(each)

    def __getitem__(self, name: str) -> Tool:
        """Return the tool with that name or original name."""
        return self._tools[self._key(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self._tools)})"

    def __contains__(self, name: object) -> bool:
        wire = str(name).replace(".", "_")
        return wire in self._tools and name in (wire, self._tools[wire].source_name)

    def _key(self, name: Any) -> str:
        if name in self:
            return str(name).replace(".", "_")
        guess = did_you_mean(str(name), self._tools)
        names = [*self._tools]
        registered = ", ".join(names[:_MAX_NAMED]) or "none"
        if len(names) > _MAX_NAMED:
            registered += f" and {len(names) - _MAX_NAMED:,} more"
        raise UnknownToolError(
            f"no tool is named {str(name)[:100]!r}{guess or ';'} registered: {registered}", guess
        )

    def add(self, f: Any, **options: Any) -> Tool:
        """Add a function or a tool and return the tool; a tool of the same name is replaced.

        Args:
            f: A function or a `Tool`.
            **options: As in `Tool.from_function`.

        Raises:
            ToolError: The function cannot be a tool, or two names are equal after replacing dots.
        """
        tool = None
        if isinstance(f, Tool):
            tool = f
        elif self is not toolbox:
            tool = _decorated(f)
        if options or tool is None:
            tool = Tool.from_function(getattr(f, "function", f), **options)
        before = self._tools.get(tool.name)
        if before is not None and before.source_name != tool.source_name:
            raise ToolError(
                f"the names {before.source_name!r} and {tool.source_name!r} both become"
                f' {tool.name!r}; choose another with @tool(name="…")'
            )
        self._tools[tool.name] = tool
        return tool

    def extend(self, source: Any) -> list[Tool]:
        """Add all tools of a source.

        Args:
            source: A function, a tool, a toolbox or a list of them; or an object, or a class that
                can be instantiated without arguments, whose decorated methods become tools (all
                public methods if none is decorated).

        Returns:
            The tools, in order.
        """
        if type(source) in (list, tuple):
            return self.extend(Toolbox(*source))  # all of them, or none where one is faulty
        if isinstance(source, Toolbox):
            return [self.add(each) for each in source.active().values()]
        if isinstance(source, Tool) or (callable(source) and not isinstance(source, type)):
            return [self.add(source)]
        tools = [Tool.from_function(method, **options) for method, options in methods(source)]
        return [self.add(tool) for tool in tools]

    def remove(self, name: str) -> Tool:
        """Remove a tool and return it."""
        key = self._key(name)
        self._disabled.discard(key)
        return self._tools.pop(key)

    def only(self, *names: str) -> Toolbox:
        """Return a new toolbox with these tools, in this order."""
        return Toolbox(*(self[name] for name in names))

    def disable(self, *names: str) -> None:
        """Keep the tools in the toolbox, but do not offer them to the model."""
        self._disabled.update([self._key(name) for name in names])

    def enable(self, *names: str) -> None:
        """Offer the tools again."""
        self._disabled.difference_update([self._key(name) for name in names])

    def is_enabled(self, name: str) -> bool:
        """Whether the tool is offered to the model."""
        return self._key(name) not in self._disabled

    def active(self) -> Toolbox:
        """Return a new toolbox with the enabled tools; later changes do not affect it."""
        active = Toolbox()
        enabled = (item for item in self._tools.items() if item[0] not in self._disabled)
        active._tools = dict(enabled)
        return active

    def refresh(self, namespace: Mapping[str, Any]) -> None:
        """Replace each tool whose function a notebook has defined again, outside of ``%%tool``.

        Raises:
            ToolError: The new function cannot be a tool.
        """
        for tool in tuple(self._tools.values()):
            old = tool.function
            new = namespace.get(getattr(old, "__qualname__", ""))
            is_own = [inspect.isfunction(f) and f.__module__ == "__main__" for f in (old, new)]
            if new is old or not all(is_own):
                continue
            options = {key: getattr(tool, key) for key in OPTIONS}
            try:
                self.add(new, name=tool.source_name, **options)
            except ToolError as error:
                raise ToolError(
                    f"the function of the tool {tool.name!r} was redefined and can no longer be "
                    "used as a tool. Fix it, or remove the tool: %tools --remove "
                    f"{tool.name}.\n{error}"
                ) from error

    def reread(self) -> None:
        """Replace each tool whose function was changed in place, so that its description is true.

        Raises:
            ToolError: A function can no longer be a tool.
        """
        for name, tool in tuple(self._tools.items()):
            try:
                self._tools[name] = tool.now()
            except ToolError as error:
                raise ToolError(
                    f"the function of the tool {tool.name!r} was changed and can no longer be used "
                    f"as a tool. Fix it, or remove the tool: %tools --remove {tool.name}.\n{error}"
                ) from error

    def snapshot(self) -> tuple[dict[str, Tool], set[str]]:
        """Return the current state, for `restore`."""
        return dict(self._tools), set(self._disabled)

    def restore(self, snapshot: tuple[dict[str, Tool], set[str]]) -> None:
        """Restore an earlier state, for example after a cell failed halfway."""
        self._tools = dict(snapshot[0])
        self._disabled = set(snapshot[1])


class UnknownToolError(KeyError):
    """No tool has that name; the message lists the registered ones.

    Attributes:
        guess: Which one may be meant, to be put after a sentence; empty if none is similar.
    """

    def __init__(self, message: str, guess: str = "") -> None:
        super().__init__(message)
        self.guess = guess

    def __str__(self) -> str:
        return str(self.args[0])


def methods(source: Any) -> list[tuple[Callable[..., Any], dict[str, Any]]]:
    """The bound methods of a class or an object that become tools, with their options."""
    cls = source if isinstance(source, type) else type(source)
    if isinstance(source, type):
        try:
            source = source()
        except Exception as error:
            raise ToolError(
                f"{cls.__name__}() fails without arguments ({error}):"
                f" pass an object, Toolbox({cls.__name__}(…))"
            ) from error
    found = _functions(cls)
    chosen = [name for name, function in found.items() if function in _METHODS]
    if not chosen and is_data(source):
        what = with_article(cls.__name__)
        raise ToolError(
            f"{what} is data, not a tool: the agent finds your variables by itself. Mention it in "
            "the question ({name} in %agent), or let the model use its tool 'look'"
        )
    chosen = chosen or [name for name in found if not name.startswith("_")]
    if not chosen:
        expected = "expected a function, a tool, or an object with public methods"
        raise ToolError(f"{truncate_line(repr(source), 60)} cannot be a tool; {expected}")
    return [(getattr(source, name), _METHODS.get(found[name], {})) for name in chosen]


def has_decorated_methods(cls: type) -> bool:
    """Whether the class has decorated methods."""
    return any(function in _METHODS for function in _functions(cls).values())


def _functions(cls: type) -> dict[str, Any]:
    names = [name for each in reversed(cls.__mro__) if each is not object for name in vars(each)]
    found = {name: _function(inspect.getattr_static(cls, name)) for name in names}
    return {name: each for name, each in found.items() if inspect.isfunction(each)}


def _function(raw: Any) -> Any:
    """The function of a static or class method."""
    return getattr(raw, "__func__", raw)


def _decorated(f: Any) -> Tool | None:
    """The tool that ``@tool`` created: a function keeps its options in every toolbox."""
    return next((each for each in toolbox.values() if each.function is f), None)


toolbox = Toolbox()
"""The default toolbox: ``@tool`` and ``%%tool`` add to it, ``%agent`` uses it."""


@overload
def tool(f: F, /) -> F: ...
@overload
def tool(
    f: None = None,
    /,
    *,
    name: str | None = None,
    approve: Approval = None,
    timeout: float | None = None,
    max_chars: int | None = None,
    repeat: bool = False,
    pure: bool = False,
) -> Callable[[F], F]: ...
@hinted_function
def tool(f: Any = None, /, **options: Any) -> Any:
    """Add a function to the default toolbox as a tool, and return it unchanged.

    Use ``@tool``, ``@tool()``, ``@tool(name="x")`` or ``tool(f)``. On a class, its decorated
    methods become tools; a decorated method becomes a tool when its class or object is added.

    Args:
        f: The function; omitted if options are passed.
        **options: As in `Tool.from_function`.

    Raises:
        ToolError: The function cannot be a tool, or there is no such option.
    """
    return decorate(toolbox, f, options)


def decorate(box: Toolbox, f: Any, options: dict[str, Any]) -> Any:
    """Add a function to a toolbox as ``@tool`` does; raises ToolError."""
    from archytas_nb.tools.signature import is_in_class  # loads pydantic

    for option in options.keys() - {"name", *OPTIONS}:
        meant = argument_hint(option, ("name", *OPTIONS), "tool")
        raise ToolError(f"tool() has no option {option!r}{meant}")
    if isinstance(f, str):
        raise ToolError(f"{f!r} is not a function; to name a tool, write @tool(name={f!r})")
    if f is None:
        return lambda each: decorate(box, each, options)
    function = _function(f)
    if inspect.isfunction(function) and is_in_class(function):
        _METHODS[function] = options  # its object does not exist yet
    elif isinstance(f, type) and options:
        raise ToolError(f"give the options to the methods of {f.__name__!r}, not to the class")
    elif isinstance(f, type):
        box.extend(f)
    else:
        box.add(f, **options)
    return f
