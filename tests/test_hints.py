"""Whatever public names, arguments and calls do not exist, the error names it and the next form."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb import hints
from archytas_nb.loop.events import Usage
from archytas_nb.testing import ScriptedModel

API = (Path(__file__).parent.parent / "docs" / "api.md").read_text("utf-8")


def public(kind: str) -> list[Any]:
    """The objects of the page about the Python API."""
    found = []
    for path in re.findall(rf"^\.\. auto{kind}:: (\S+)$", API, re.MULTILINE):
        module, _, name = path.rpartition(".")
        found.append(getattr(importlib.import_module(module), name))
    return found


CLASSES = [
    each
    for each in public("class")
    if each is not nb.ByName
    and not issubclass(each, BaseException)
    and not getattr(each, "_is_protocol", False)
]


def bare(cls: type) -> Any:
    """An object whose constructor was not called."""
    if cls is nb.Agent:
        return nb.Agent([], ScriptedModel())
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [None] * len(cls._fields))  # type: ignore[attr-defined]
    return object.__new__(cls)


def callables() -> Iterator[tuple[str, Any]]:
    """The public functions, constructors and methods; models take any field of requests."""
    for function in public("function"):
        yield function.__name__, function
    for cls in CLASSES:
        if not issubclass(cls, (tuple, nb.OpenAIModel, nb.AnthropicModel)):
            yield cls.__name__, cls
        for name, member in vars(cls).items():
            if not name.startswith("_") and inspect.isroutine(member):
                yield f"{cls.__name__}.{name}", getattr(bare(cls), name)


CALLABLES = dict(callables())
WORDS = sorted({word for words in hints.WORDS.values() for word in words.split()})
NAMES = st.one_of(
    st.sampled_from(WORDS), st.from_regex(r"[a-z]{1,8}(_[a-z]{1,8}){0,2}", fullmatch=True)
)


def outcome(function: Any, /, *args: Any, **given: Any) -> Any:
    """The result of a call, also of one that begins only later."""
    found = function(*args, **given)
    if inspect.isgenerator(found):
        return next(found)
    return asyncio.run(found) if inspect.iscoroutine(found) else found


@pytest.mark.parametrize("shown", CALLABLES)
@settings(max_examples=8)
@given(name=NAMES, is_whole=st.booleans())
def test_an_unknown_argument_is_named_with_the_next_right_form(
    shown: str, name: str, is_whole: bool
) -> None:
    function = CALLABLES[shown]
    parameters = inspect.signature(function).parameters.values()
    if keyword.iskeyword(name) or name in {each.name for each in parameters}:
        return
    if "options" in inspect.signature(function).parameters and name in (
        *inspect.signature(nb.Tool.from_function).parameters,
    ):
        return
    needed = [each for each in parameters if each.default is each.empty and each.kind < 2]
    args = [None] * len(needed) if is_whole else []
    with pytest.raises((TypeError, nb.ToolError)) as raised:
        outcome(function, *args, **{name: 1})
    assert re.search(
        rf"has no (argument|option) {name!r}; "
        r"(write|use|it has|an agent|iterate|the first|the annotations|pass)",
        str(raised.value),
    )


@pytest.mark.parametrize("shown", CALLABLES)
def test_a_missing_or_additional_argument_is_named(shown: str) -> None:
    function = CALLABLES[shown]
    parameters = inspect.signature(function).parameters.values()
    is_open = any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters)
    by_place = [each for each in parameters if each.kind < 2]
    needed = [each.name for each in parameters if each.default is each.empty and each.kind != 4]
    if needed and not is_open:
        with pytest.raises(TypeError, match=r"needs .*write") as raised:
            outcome(function)
        assert needed[0] in str(raised.value)
    if not is_open:
        with pytest.raises(TypeError, match="without a name, and not 'surplus'"):
            outcome(function, *[None] * len(by_place), "surplus")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=8)
@given(name=NAMES)
def test_an_unknown_attribute_is_named_with_the_next_right_form(cls: type, name: str) -> None:
    if hasattr(cls, name) or name in getattr(cls, "__dataclass_fields__", ()) or name == "host":
        return
    if name in ("run", "asked", "protocol"):  # set by the constructors
        return
    with pytest.raises(AttributeError) as raised:
        getattr(bare(cls), name)
    expected = rf"{cls.__name__!r} object has no attribute {name!r}; (use|write|it has) (.+)"
    found = re.fullmatch(expected, str(raised.value))
    assert found is not None
    if found[1] == "use":
        names_that_exist(found[2], cls)


def names_that_exist(suggested: str, cls: type) -> None:
    """Fail unless each suggested name exists."""
    owners = {"agent": nb.Agent, "run": nb.Run, "toolbox": nb.Toolbox, "tool": nb.Tool}
    for each in suggested.partition(";")[0].split(" or "):
        path = each.partition("(")[0]
        variable, _, name = path.rpartition(".")
        owner = owners.get(variable, cls)
        assert name in hints.attributes(owner)


@pytest.mark.parametrize("ours", hints.WORDS)
def test_each_name_that_is_suggested_exists_and_has_words_of_others_only(ours: str) -> None:
    known = {*hints.attributes(nb)}
    for cls in (nb.Agent, nb.Run, nb.Toolbox):
        known |= {*hints.attributes(cls), *inspect.signature(cls).parameters}
    for function in (nb.Agent.run, nb.Tool.from_function):
        known |= {*inspect.signature(function).parameters}
    assert ours in known
    words = hints.WORDS[ours].split()
    assert ours not in words
    assert len(words) == len(set(words))


@pytest.mark.parametrize("ours", hints.WORDS)
def test_no_word_is_listed_that_the_rules_find(ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = hints.WORDS[ours].split()
    owners = [(hints.attributes(each), each) for each in (nb.Agent, nb.Run, nb.Toolbox)]
    calls = [hints.arguments(each) for each in (nb.Agent, nb.Agent.run, nb.Tool.from_function)]
    places = [*owners, *((each, None) for each in calls), (nb.__all__, None)]
    for word in words:
        others = " ".join(each for each in words if each != word)
        monkeypatch.setitem(hints.WORDS, ours, others)
        found = [
            ours in (hints.same_as(word, known) or hints.extended(word, known, owner))
            for known, owner in places
            if ours in known and word not in known
        ]
        assert not found or not all(found), word


@pytest.mark.parametrize("ours", hints.WORDS)
def test_the_word_of_another_library_leads_to_ours(ours: str) -> None:
    for word in hints.WORDS[ours].split():
        for owner in (nb.Agent, nb.Run, nb.Toolbox):
            known = hints.attributes(owner)
            if ours in known and word not in known:
                # What is called is a method; otherwise a value is meant first.
                written = f"owner.{word}" + (
                    "()" if inspect.isroutine(getattr(owner, ours, None)) else ""
                )
                with pytest.raises(AttributeError, match=rf"use .*\b{ours}\b"):
                    eval(written, {"owner": bare(owner)})
        known = hints.arguments(nb.Agent)
        if ours in known and word not in known:
            with pytest.raises(TypeError, match=rf"\b{ours}=…|needs none"):
                nb.Agent(**{word: 1})


def answered() -> nb.Run[Any]:
    return nb.Agent([], ScriptedModel(("final_answer", "4"))).run("How many?")


@pytest.mark.parametrize(
    "name",
    [name for name, each in vars(nb.Run).items() if isinstance(each, property) and name[0] != "_"],
)
def test_a_value_that_is_called_is_refused_with_what_to_write(name: str) -> None:
    run = answered()
    with pytest.raises(TypeError, match=rf"write run\.{name}, without \(\)"):
        exec(f"run.{name}()", {"run": run})
    exec(f"value = run.{name}; f = repr(run.{name}); print(run.{name})", {"run": run})


def test_a_value_whose_method_is_called_is_not_refused() -> None:
    run = answered()
    assert run.answer.upper() == "4"
    assert run.messages.copy()
    assert run.usage.__add__(Usage(1)).requests == 2


@pytest.mark.parametrize("name", ["temperature", "instruction", "max_steps", "xyz"])
def test_an_attribute_that_nothing_reads_cannot_be_assigned(name: str) -> None:
    agent = nb.Agent([], ScriptedModel())
    with pytest.raises(AttributeError, match=rf"{name!r}; (use|it has|write)"):
        setattr(agent, name, 1)

    class Mine(nb.Agent):
        pass

    mine: Any = Mine([])
    mine.xyz = 1
    agent.instructions = "Be brief."
    assert (mine.xyz, agent.instructions) == (1, "Be brief.")


@pytest.mark.parametrize("name", ["key", "model_id", "retries", "url"])
def test_a_wrong_name_of_an_argument_of_a_model_is_never_sent(name: str) -> None:
    for model in (nb.OpenAIModel, nb.AnthropicModel):
        with pytest.raises(TypeError, match=rf"no argument {name!r}; write"):
            model("some-model", base_url="http://localhost:1", **{name: "secret"})
    nb.OpenAIModel("some", base_url="http://localhost:1", top_k=3, user="me", store=True, seed=1)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in dir(nb)
        if inspect.ismodule(getattr(nb, name)) and name in ("agent", "run", "code", "undo")
    ],
)
def test_a_module_with_the_name_of_a_method_says_what_to_write(name: str) -> None:
    with pytest.raises(TypeError, match=rf"nb\.{name} is a module; write "):
        getattr(nb, name)("How many?")


def test_an_error_of_the_function_itself_is_left_as_it_is() -> None:
    def fails() -> int:
        """Fail."""
        raise TypeError("missing 1 required positional argument: 'x'")

    @hints.hinted
    class Thing:
        def method(self) -> int:
            """Call something in a wrong way."""
            return len(1, 2)  # type: ignore[arg-type, call-arg]

    with pytest.raises(TypeError, match=r"len\(\) takes exactly one argument"):
        Thing().method()
    with pytest.raises(TypeError, match="missing 1 required"):
        hints.hinted_function(fails)()


def test_the_import_of_a_module_of_the_package_searches_no_hint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def searched(name: str) -> type:
        raise AssertionError(name)

    monkeypatch.setattr(hints, "_public", searched)
    monkeypatch.delitem(sys.modules, "archytas_nb.version")
    monkeypatch.delattr(nb, "version", raising=False)
    exec("from archytas_nb import version")
