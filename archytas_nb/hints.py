"""Suggestions for a name, an argument or a call that does not exist, for error messages.

One search answers for all public classes and functions. Names that exist are read from the classes
and signatures; `WORDS` has what other libraries call them, and `REMARKS` what has no counterpart.
"""

from __future__ import annotations

import dis
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType, FunctionType, ModuleType
from typing import Any, Never, TypeVar

from archytas_nb.errors import with_users_frames
from archytas_nb.words import count, nearest, truncate_line

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

WORDS = {
    # arguments of `Agent`, `Agent.run` and of tools
    "instructions": (
        "system system_message prompt preamble persona role goal backstory prompt_template"
    ),
    "tools": "functions function toolkit toolkits toolset toolsets plugins toolbox tool_names",
    "model": "llm llm_config client model_name model_id engine",
    "max_steps": "max_iterations max_turns max_iter max_rounds recursion_limit usage_limits",
    "max_seconds": "max_execution_time max_time time_limit timeout",
    "max_errors": "retries max_retry_limit",
    "max_reply_tokens": "max_tokens max_completion_tokens max_output_tokens max_new_tokens",
    "max_total_tokens": "max_tokens",
    "namespace": "globals variables state deps deps_type",
    "output_type": (
        "answer_type result_type response_model response_format output_pydantic schema data_model"
    ),
    "until": "guardrail guardrails validators",
    "ask_user": "human_input human_in_the_loop human_input_mode",
    "approve": "require_approval requires_approval needs_approval interrupt_before confirm",
    "python": "code_execution code_execution_config code_interpreter",
    "progress": "verbose verbosity verbosity_level debug",
    "timeout": "max_seconds time_limit timeout_seconds",
    "max_chars": "max_result_chars max_output_chars max_length",
    "name": "name_override title",
    # attributes of an `Agent`
    "run": "ask chat invoke query prompt send generate complete predict call execute kickoff",
    "arun": "ainvoke achat acall aask aquery agenerate apredict akickoff kickoff_async run_async",
    "stream": "iter run_stream_sync run_streamed stream_chat",
    "astream": "astream_chat stream_async",
    "messages": "history memory conversation checkpointer session",
    "reset": "clear clear_history forget new new_session reset_conversation reset_memory",
    "tool": "register_function tool_plain bind_tools tool_utils",
    "limits": "max_steps max_seconds max_errors max_total_tokens max_iterations",
    "map": "batch abatch run_many kickoff_for_each",
    "evaluate": "eval benchmark",
    # attributes of a `Run`
    "answer": "text content result response message final_output raw choices",
    "output": "data parsed structured_response pydantic json_dict",
    "usage": "tokens usage_metadata",
    "steps": "trace trajectory log logs return_intermediate_steps",
    "calls": "tool_results tool_executions intermediate_steps",
    "to_json": "dict model_dump",
    "cost": "usd",
    "seconds": "time elapsed duration latency",
    "status": "success ok state finish_reason stop_reason",
    # methods of a `Toolbox`
    "add": "append insert register tool",
    "extend": "update add_tools add_functions",
    "remove": "pop discard delete unregister",
    # names of the package
    "Agent": "Chat AgentExecutor Runner Crew react",
    "OpenAIModel": "OpenAI OpenAIChat LiteLLMModel Model LLM llms chat_models",
    "AnthropicModel": "Anthropic Claude",
    "Run": "RunResult AgentResult",
    "Toolbox": "Toolkit ToolNode FunctionToolset ToolCollection",
}
"""What other libraries call what exists here, by its name here; where it is, the search finds."""

_OF_AGENT = {
    "an agent needs none: the variable that you assign it to is its name": (
        "name title description agent_id agent_name"
    ),
    "iterate over agent.stream(…) or agent.astream(…)": "stream streaming callbacks",
    'write model=nb.OpenAIModel("…", {name}=…)': ("temperature top_p seed stop api_key base_url"),
    'write each of its fields, as in model=nb.OpenAIModel("…", temperature=0)': (
        "model_settings model_kwargs extra_body"
    ),
}
_OF_TOOL = {
    "the first lines of the function's docstring are its description": (
        "description desc doc docstring description_override"
    ),
    "the annotations of the function are its schema": (
        "schema args_schema parameters parameters_json_schema infer_schema input_schema"
    ),
    "pass the function itself: Tool.from_function(f), @tool": "f func fn function coroutine",
}
REMARKS: dict[str, dict[str, str]] = {
    "Agent": _OF_AGENT,
    "Tool": _OF_TOOL,
    "tool": _OF_TOOL,
}
"""What to do in place of an argument that has no counterpart, by the class or function asked."""

_VARIABLES = {"Agent": "agent", "Run": "run", "Toolbox": "toolbox", "Tool": "tool"}
"""What objects of these classes are called in messages, and the classes that are searched."""

_CLOSE = 0.75  # the similarity of a misspelled word; what is less similar is another word
_VERY_CLOSE = 0.9  # the similarity of a name whose words are not separated as they should be


# ── the search ────────────────────────────────────────────────────────────────────────────────────


def same_as(name: str, known: Iterable[str]) -> list[str]:
    """Which of the known names a name is: in another library, misspelled, or the end of it."""
    known = [*known]
    found = [each for each in known if _is_name_of(name, each)]
    found = found or [each for each in known if _is_misspelled(name, each)]
    words = _words(name)
    return found or [each for each in known if words and _words(each)[-len(words) :] == words]


def _is_name_of(name: str, known: str) -> bool:
    """Whether a name is the known one, or what another library calls it."""
    return name == known or name in WORDS.get(known, "").split()


def _is_misspelled(name: str, known: str) -> bool:
    """Whether each word is misspelled: names with other words of similar letters are others."""
    words, others = _words(name), _words(known)
    if abs(len(name) - len(known)) > 1:
        return False
    if len(words) != len(others):
        return nearest(name, [known], _VERY_CLOSE) is not None
    pairs = zip(words, others, strict=True)
    return all(nearest(word, [other], _CLOSE) is not None for word, other in pairs)


def _ends_with(name: str, known: str) -> bool:
    return bool(extended(name, [known]))


def extended(name: str, known: Iterable[str], owner: Any = None) -> list[str]:
    """The known names with which, or with other names for which, this one ends.

    Where there are none, the methods of the owner with which it begins: ``total_tokens`` means
    ``tokens``, and ``run_once`` means ``run``.
    """
    known = [*known]
    words = _words(name)
    found = _longest(known, lambda size: words[-size:])
    if found or owner is None:
        return found
    methods = [each for each in known if _is_method(owner, each)]
    return _longest(methods, lambda size: words[:size])


def _longest(known: Iterable[str], part: Callable[[int], Sequence[str]]) -> list[str]:
    """The known names whose words are a part of a name, and those with the most of them."""
    found: dict[str, int] = {}
    for each in known:
        for other in (each, *WORDS.get(each, "").split()):
            own = _words(other)
            if part(len(own)) == own:
                found[each] = max(len(own), found.get(each, 0))
    most = max(found.values(), default=0)
    return [each for each, size in found.items() if size == most]


def _words(name: str) -> list[str]:
    """The words of a name, which end at ``_`` and begin with capitals."""
    return [each.lower() for each in re.findall(r"[A-Z]*[a-z0-9]+|[A-Z]+", name)]


def attributes(owner: Any) -> list[str]:
    """The public names of a class or a module."""
    names = [*(getattr(owner, "__all__", None) or dir(owner))]
    names += getattr(owner, "__dataclass_fields__", ())
    return [each for each in dict.fromkeys(names) if not each.startswith("_")]


def arguments(function: Callable[..., Any]) -> list[str]:
    """The names that a call can give; those of ``**options`` are not known."""
    return [each.name for each in _parameters(function) if each.kind not in _VARIABLE]


_VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function that a caller gives."""
    found = [*inspect.signature(function).parameters.values()]
    return [each for each in found if each.name not in ("self", "cls")]


def _elsewhere(
    name: str, owner: str, means: Callable[[str, str], bool], *, as_argument: bool
) -> str:
    """The meaning of a name in another class or function; empty if it has none."""
    order = sorted(_VARIABLES, key=lambda each: each != owner)
    others = [each for each in order if as_argument or each != owner]
    in_classes = [_of_class(each, name, means) for each in others]
    in_calls = [_of_calls(each, name, means) for each in order]
    found = [*in_calls, *in_classes] if as_argument else [*in_classes, *in_calls]
    return next(filter(None, found), "")


def _of_class(name_of_class: str, name: str, means: Callable[[str, str], bool]) -> str:
    cls = _public(name_of_class)
    own = {*vars(cls), *getattr(cls, "__dataclass_fields__", ())}
    found = [each for each in attributes(cls) if each in own and means(name, each)]
    if not found:
        return ""
    shown = " or ".join(f"{_VARIABLES[name_of_class]}.{form(cls, each)}" for each in found[:2])
    told = "; agent.run(question) returns the run" if cls.__name__ == "Run" else ""
    return f"use {shown}{told}"


def _of_calls(name_of_class: str, name: str, means: Callable[[str, str], bool]) -> str:
    for shown, function in _calls(_public(name_of_class)):
        for each in arguments(function):
            if means(name, each):
                return f"write {each}=… in {shown}(…)"
    return ""


def _calls(cls: type) -> Iterator[tuple[str, Any]]:
    """The constructor and the public methods of a class, and how they are written."""
    if not _maker(cls):
        yield cls.__name__, cls
    for name, member in vars(cls).items():
        if not name.startswith("_") and inspect.isroutine(member):
            shown = f"{_VARIABLES[cls.__name__]}.{name}"
            yield "@tool" if name.startswith("from_") else shown, getattr(cls, name)


def _public(name: str) -> type:
    cls: type = getattr(importlib.import_module(__package__), name)
    return cls


def _is_method(owner: Any, name: str) -> bool:
    member = inspect.getattr_static(owner, name, None)
    return inspect.isroutine(member) or isinstance(member, (classmethod, staticmethod))


def form(owner: Any, name: str) -> str:
    """How a public name is written: ``answer``, ``reset()``, ``run(question)``."""
    if not _is_method(owner, name):
        return name
    parameters = _parameters(getattr(owner, name))
    by_place = [each for each in parameters if each.kind not in (*_VARIABLE, each.KEYWORD_ONLY)]
    needed = [each for each in by_place if each.default is each.empty] or by_place[:1]
    return f"{name}({', '.join(each.name for each in needed)})"


# ── the messages ──────────────────────────────────────────────────────────────────────────────────


def _all(known: Iterable[str]) -> str:
    return f"it has {', '.join(known)}"


def remark(name: str, owner: str) -> str:
    """The advice about a name that has no counterpart; empty if there is none."""
    for text, names in REMARKS.get(owner, {}).items():
        if name in names.split():
            return text.replace("{name}", name)
    return ""


def argument_hint(name: str, known: Iterable[str], owner: str) -> str:
    """The text to write in place of an argument, as the end of a message."""
    known = [*known]
    if remarked := remark(name, owner):
        return f"; {remarked}"

    def written(found: Sequence[str]) -> str:
        shown = " or ".join(f"{each}=…" for each in found[:3])
        return shown and f"write {shown}"

    found = (
        written(same_as(name, known))
        or _elsewhere(name, owner, _is_name_of, as_argument=True)
        or written(extended(name, known))
        or _elsewhere(name, owner, _ends_with, as_argument=True)
    )
    return f"; {found or _all(known)}"


def unknown_argument(
    function: str, name: str, known: Iterable[str], owner: str = "Agent"
) -> TypeError:
    """The error for an argument that a function does not have."""
    text = f"{function} has no argument {name!r}{argument_hint(name, known, owner)}"
    return with_users_frames(TypeError(text))


def unknown_attribute(owner: Any, name: str) -> AttributeError:
    """The error for an attribute that an object does not have."""
    cls = type(owner)
    text = f"{cls.__name__!r} object has no attribute {name!r}"
    if name.startswith("_") or _is_ours(_callers_frame()):
        return AttributeError(text)  # a look whether there is one, which must be fast
    return with_users_frames(AttributeError(text + _attribute_hint(owner, name)))


def refuse_assignment(owner: Any, name: str) -> None:
    """Raise AttributeError where code of the user assigns an attribute that nothing reads."""
    is_known = name.startswith("_") or name in vars(owner)
    if not is_known and not _is_ours(sys._getframe(2)):  # noqa: SLF001 - as above
        text = f"{type(owner).__name__!r} object has no attribute {name!r}"
        raise with_users_frames(AttributeError(text + _attribute_hint(owner, name)))


def _attribute_hint(owner: Any, name: str) -> str:
    cls = type(owner)
    known = attributes(cls)
    if getattr(owner, "_is_typed", False) and name in WORDS["answer"].split():
        return "; use output"  # the value, which other libraries call the answer
    is_called = _loads_method(_callers_frame())
    home = next((each.__name__ for each in cls.__mro__ if each.__name__ in _VARIABLES), "")

    def written(found: Sequence[str]) -> str:
        found = [each for each in found if _is_method(cls, each) == is_called] or found
        shown = " or ".join(form(cls, each) for each in found[:3])
        return shown and f"use {shown}"

    found = (
        written(same_as(name, known))
        or remark(name, home)
        or _elsewhere(name, home, _is_name_of, as_argument=False)
        or written(extended(name, known, cls))
        or _elsewhere(name, home, _ends_with, as_argument=False)
    )
    return f"; {found or _all(known)}"


def _of_agent(names: Sequence[str]) -> list[str]:
    return [f"nb.Agent(…).{form(_public('Agent'), each)}" for each in names[:1]]


def unknown_name(module: str, name: str, known: Iterable[str]) -> AttributeError | ImportError:
    """The error for a name that the package, whose ``__getattr__`` calls this, does not have.

    In ``from archytas_nb import …``, Python replaces an AttributeError with an error of its own,
    without the suggestion; so there it is an ImportError.
    """
    frame = _callers_frame()
    # An import of a module of the package first looks whether it is there, which must be fast.
    is_look = frame.f_globals.get("__name__") == importlib.__name__ + "._bootstrap"
    if name.startswith("__") or is_look or _is_ours(frame):
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    known = [each for each in known if not each.startswith("_")]
    agent = _public("Agent")
    found = same_as(name, known)
    own = attributes(agent)
    found = found or _of_agent([each for each in own if _is_name_of(name, each)])
    found = found or extended(name, known) or _of_agent(extended(name, own, agent))
    found = [each for each in found if name.endswith(each)] or found  # ``tool``, and not ``Tool``
    hint = f"use {' or '.join(found[:3])}" if found else _all(known)
    if _instruction(frame) == "IMPORT_FROM":
        return ImportError(f"cannot import name {name!r} from {module!r}; {hint}", name=name)
    return AttributeError(f"module {module!r} has no attribute {name!r}; {hint}")


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def hinted(cls: C) -> C:
    """Make the errors for names, arguments and calls that a class does not have say what is meant.

    A decorator of public classes: their constructor, public methods and properties, and their
    unknown attributes.
    """
    for name, member in [*vars(cls).items()]:
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        shown = cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
        if isinstance(member, FunctionType):
            setattr(cls, name, _explained(member, f"{shown}()", cls))
        elif isinstance(member, (classmethod, staticmethod)):
            kind = type(member)
            setattr(cls, name, kind(_explained(member.__func__, f"{shown}()", cls)))
        elif isinstance(member, property) and member.fget is not None:
            getter = _not_called(member.fget, f"{shown}")
            setattr(cls, name, property(getter, member.fset, member.fdel, member.__doc__))
    if not hasattr(cls, "__getattr__"):
        cls.__getattr__ = _refuse_attribute  # type: ignore[attr-defined]
    return cls


def hinted_function(function: F) -> F:
    """Make the error for a call of a public function that cannot be made say what is meant."""
    return _explained(function, f"{function.__name__}()", None)  # type: ignore[return-value]


def _refuse_attribute(self: object, name: str) -> Never:
    raise unknown_attribute(self, name)


def _explained(function: Callable[..., Any], shown: str, cls: type | None) -> Callable[..., Any]:
    """The function, with errors of ours for calls whose arguments it cannot take."""

    def is_of_call(error: TypeError) -> bool:
        # An error from inside of the function has its frame, too.
        traceback = error.__traceback__
        rest = None if traceback is None else traceback.tb_next
        while (
            rest is not None
            and rest.tb_frame.f_code.co_filename == with_users_frames.__code__.co_filename
        ):
            rest = rest.tb_next  # of `users_frames`
        return rest is None

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wait(*args: Any, **given: Any) -> Any:
            try:
                coroutine = function(*args, **given)
            except TypeError as error:
                raise _wrong_call(function, shown, cls, args, given, error) from None
            return await coroutine

        return wait

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except KeyboardInterrupt as stopped:
            # Who presses Ctrl-C reads what was stopped, not which line of the package it met.
            raise stopped.with_traceback(None) from None
        except TypeError as error:
            if not is_of_call(error):
                raise
            raise _wrong_call(function, shown, cls, args, given, error) from None

    return call


def _wrong_call(
    function: Callable[..., Any],
    shown: str,
    cls: type | None,
    args: tuple[Any, ...],
    given: Mapping[str, Any],
    error: TypeError,
) -> TypeError:
    """The error for a call that a function cannot take, with the next right form."""
    parameters = _parameters(function)
    if len([*inspect.signature(function).parameters]) > len(parameters):
        args = args[1:]  # without the object or the class
    by_place = [
        each.name for each in parameters if each.kind not in (*_VARIABLE, each.KEYWORD_ONLY)
    ]
    known = [each.name for each in parameters if each.kind not in _VARIABLE]
    placed = by_place[: len(args)]
    needed = [each.name for each in parameters if each.default is each.empty]
    missing = [each for each in known if each in needed and each not in (*given, *placed)]
    unknown = [each for each in given if each not in known]
    name = cls.__name__ if cls is not None else shown.removesuffix("()")
    written = shown.removesuffix("()").replace(f"{name}.", f"{_VARIABLES.get(name, name)}.")
    maker = _maker(cls) if shown == f"{name}()" else ""
    if unknown and not maker and len(missing) != 1:
        return unknown_argument(shown, unknown[0], known, name)
    if unknown:
        text = f"{shown} has no argument {unknown[0]!r}; write {maker or f'{missing[0]}=…'}"
    elif len(args) > len(by_place):
        surplus = truncate_line(repr(args[len(by_place)]), 60)
        text = f"{shown} takes {count(len(by_place), 'argument')} without a name, and not {surplus}"
        if len(known) > len(by_place):
            named = ", ".join(f"{each}=…" for each in known if each not in by_place)
            text += f"; give it by its name: {named}"
    elif missing and maker:
        text = f"{shown} needs more than you have: {', '.join(missing)}; write {maker}"
    elif missing:
        text = (
            f"{shown} needs {', '.join(map(repr, missing))}; write {written}({', '.join(needed)})"
        )
    else:
        text = str(error)
    return with_users_frames(TypeError(text))


def _maker(cls: type | None) -> str:
    """The call that makes an object of a class which nobody calls; empty if there is none."""
    for name, member in vars(cls).items() if cls is not None else ():
        if name.startswith("from_") and isinstance(member, classmethod):
            return f"{getattr(cls, '__name__', '')}.{form(cls, name)}"
    return ""


def _not_called(getter: Callable[[Any], Any], shown: str) -> Callable[[Any], Any]:
    """The getter of a property that refuses ``run.messages()``: other libraries have a method."""

    @functools.wraps(getter)
    def get(self: Any) -> Any:
        value = getter(self)
        frame = sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads files
        if not _is_ours(frame) and not callable(value) and _loads_method(frame):
            name = shown.rpartition(".")[2]
            written = f"{_VARIABLES.get(type(self).__name__, 'it')}.{name}"
            text = f"{shown!r} is a value, not a method: write {written}, without ()"
            raise with_users_frames(TypeError(text))
        return value

    return get


def refuse_await(written: str) -> None:
    """Raise TypeError if ``await`` is before the call of the method that calls this.

    Python itself would say so only after the call.

    Args:
        written: What to write instead.
    """
    if _next_instruction(_callers_frame()) == "GET_AWAITABLE":
        raise with_users_frames(
            TypeError(f"this call waits by itself; with await, write {written}")
        )


OPERATORS = {
    name
    for kind in (int, float, str, list, dict)
    for name in (*vars(kind), "__lt__", "__le__", "__gt__", "__ge__")
    if name.startswith("__")
    and callable(getattr(kind, name))
    # Ordering is not among what an object has: it answers that it cannot be ordered.
    and (name not in dir(object) or name in ("__lt__", "__le__", "__gt__", "__ge__"))
} - {"__bool__", "__getnewargs__", "__getformat__", "__class_getitem__"}
"""The special methods that a number, a text, a list or a dict has and an object has not."""


def no_operator(name: str) -> Callable[..., Never]:
    """A special method of a run: what the person wants to use is the value of its answer."""

    def method(self: object, *_: object) -> Never:
        text = (
            f"{type(self).__name__!r} object has no {name!r}: it is the record of a question; use "
            "its output for the value of the answer, or its answer for the text"
        )
        raise with_users_frames(TypeError(text))

    return method


class CalledModule(ModuleType):
    """The class of modules that have the name of a method, such as `archytas_nb.run`.

    So ``nb.run("…")`` says what to write.
    """

    def __call__(self, *_: object, **__: object) -> Never:
        """Raise TypeError."""
        name = self.__name__.rpartition(".")[2]
        agent, run = _public("Agent"), _public("Run")
        written = "nb.Agent(…), or %agent"
        if hasattr(agent, name):
            written = f"nb.Agent(…).{form(agent, name)}"
        elif hasattr(run, name):
            written = f"run.{form(run, name)}; a Run is what agent.run(question) returns"
        raise with_users_frames(TypeError(f"nb.{name} is a module; write {written}"))


# ── frames ────────────────────────────────────────────────────────────────────────────────────────


def _is_ours(frame: FrameType) -> bool:
    """Whether code of this package runs in a frame."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == __package__


def _callers_frame() -> FrameType:
    """The frame that called the function that called the function of this module."""
    here = sys._getframe(3)  # noqa: SLF001 - inspect.stack() reads files
    while here.f_code.co_filename == __file__ and here.f_back is not None:  # of a hinted method
        here = here.f_back
    return here


def _instruction(frame: FrameType) -> str:
    """The name of the instruction that a frame is at."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


def _loads_method(frame: FrameType) -> bool:
    """Whether a frame reads an attribute in order to call it."""
    at, code = frame.f_lasti, frame.f_code.co_code
    name = dis.opname[code[at]]
    # Since Python 3.12, a bit of the attribute's instruction says so.
    is_method = name == "LOAD_ATTR" and sys.version_info >= (3, 12) and code[at + 1] & 1
    return name == "LOAD_METHOD" or bool(is_method)


def _next_instruction(frame: FrameType) -> str:
    """The name of the instruction after the call that a frame is at; empty if there is none."""
    # An instruction has two bytes; the interpreter keeps room of its own between two of them.
    following = frame.f_code.co_code[frame.f_lasti + 2 :: 2]
    return next((dis.opname[each] for each in following if dis.opname[each] != "CACHE"), "")
