"""Take one piece away of what makes a small model succeed, or have it another way, to see what it is worth.

Law of this file: it patches the product while a task is run, and the product knows nothing of it. A name that the
product has no more is an error, so that a piece cannot be measured after it is gone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from archytas_nb.loop import calls_made, loop, text_protocol
from archytas_nb.loop.events import AskModel, Json
from archytas_nb.loop.model import ModelFacts
from archytas_nb.models.embedded import model as embedded
from archytas_nb.sandbox import prepared
from archytas_nb.small import checks, grammar, strategy
from archytas_nb.tools.tool import Tool
from benchmarks.success.task import KINDS
from benchmarks.success.tasks import selected
from tests.tools.shapebook import bounded

Patch = Callable[[], "AbstractContextManager[Any] | Iterable[AbstractContextManager[Any]]"]

PIECES: dict[str, tuple[str, Patch]] = {}
"""By name: what is different, for people, and what makes it so."""

_EXAMPLES, _RULES, _TOOLS = (
    "\n\nFor example, ",
    "\n- If you know",
    "\n\nThese are your tools:\n\n{tools}",
)


def names_of_tasks() -> tuple[str, ...]:
    """Two tasks of each kind of the choosing half, by their place alone: the second and the fifth."""
    kinds = ([task.name for task in selected("choose", [kind])] for kind in KINDS)
    return tuple(names[place] for names in kinds if names for place in (1, 4))


@contextmanager
def ablated(names: Collection[str]) -> Iterator[None]:
    """Run what is inside without those pieces, or with them another way.

    Raises:
        ValueError: There is no such piece.
    """
    unknown = [name for name in names if name not in PIECES]
    if unknown:
        raise ValueError(f"no piece is named {unknown[0]!r}; there are {', '.join(PIECES)}")
    with ExitStack() as patches:
        for name in names:
            made = PIECES[name][1]()
            for each in [made] if isinstance(made, AbstractContextManager) else made:
                patches.enter_context(each)
        yield


def label_of(without: Collection[str], *, bare: bool = False) -> str:
    """The name of a run without those pieces."""
    pieces = "; ".join(f"{PIECES[name][0]} (`{name}`)" for name in without)
    return pieces or (
        "without constrained decoding and guards (`--bare`)" if bare else "everything"
    )


def _piece(name: str, what: str) -> Callable[[Patch], Patch]:
    def register(made: Patch) -> Patch:
        PIECES[name] = what, made
        return made

    return register


# ── what a reply is bound to ──────────────────────────────────────────────────────────────────────


@_piece("grammar", "without constrained decoding, and so without all that it binds")
def _grammar() -> AbstractContextManager[Any]:
    with_actions = text_protocol.TextProtocol.with_actions

    def free(self: Any, *args: Any) -> AskModel:
        return replace(with_actions(self, *args), schema=None)

    return patch.object(text_protocol.TextProtocol, "with_actions", free)


@_piece("values", "without the legal values of an argument in the grammar")
def _values() -> AbstractContextManager[Any]:
    branch = text_protocol.TextProtocol._branch

    def stripped(schema: Json) -> Json:
        if isinstance(schema, list):
            return [stripped(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        return {key: stripped(value) for key, value in schema.items() if key != "enum"}

    def made(self: Any, name: str, given: Json) -> Json:
        return branch(self, name, stripped(given))

    return patch.object(text_protocol.TextProtocol, "_branch", made)


@_piece(
    "strings",
    "strings of arguments of at most 200 characters, in place of no bound but the reply's",
)
def _strings() -> AbstractContextManager[Any]:
    whole = Tool.input_schema
    return patch.object(Tool, "input_schema", lambda *given: bounded(whole(*given), 200))


@_piece("thought-bound", "without a bound for the thought")
def _unbounded() -> AbstractContextManager[Any]:
    return _thought({"type": "string"})


@_piece("thought", "without a thought, in the prompt and in what was said as well")
def _no_thought() -> Iterable[AbstractContextManager[Any]]:
    said = re.compile(r'"thought": "[^"]*", ')
    text = said.sub("", text_protocol._RULES).replace(", in your thought,", "")
    assert "thought" not in text
    yield _thought(None)
    yield patch.object(text_protocol, "_RULES", text)
    step = text_protocol.TextProtocol.step

    def without(self: Any, given: Any) -> list[Json]:
        """Send the model's text back as it was, also in replies that were rejected."""
        return [
            {**each, "content": said.sub("", each["content"])}
            if isinstance(each["content"], str)
            else each
            for each in step(self, given)
        ]

    yield patch.object(text_protocol.TextProtocol, "step", without)


@_piece("thought-60", "a thought of at most 60 characters in place of 200")
def _short_thought() -> AbstractContextManager[Any]:
    return patch.object(text_protocol, "THOUGHT_LENGTH", 60)


@_piece("thought-500", "a thought of at most 500 characters in place of 200")
def _long_thought() -> AbstractContextManager[Any]:
    return patch.object(text_protocol, "THOUGHT_LENGTH", 500)


def _thought(schema: Json) -> AbstractContextManager[Any]:
    branch = text_protocol.TextProtocol._branch

    def made(self: Any, name: str, given: Json) -> Json:
        whole = branch(self, name, given)
        properties = {**whole["properties"], "thought": schema}
        if schema is None:
            del properties["thought"]
        return {**whole, "properties": properties, "required": list(properties)}

    return patch.object(text_protocol.TextProtocol, "_branch", made)


# ── what the model is told at first ───────────────────────────────────────────────────────────────


@_piece("example", "without the two examples in the system prompt")
def _example() -> AbstractContextManager[Any]:
    return _prompt(lambda text: text.partition(_EXAMPLES)[0] + _TOOLS)


@_piece("rules", "without the five rules in the system prompt")
def _rules() -> AbstractContextManager[Any]:
    return _prompt(
        lambda text: text.partition(_RULES)[0] + _EXAMPLES + text.partition(_EXAMPLES)[2]
    )


@_piece("tools-last", "the tools before the rules and the examples, in place of behind them")
def _tools_first() -> AbstractContextManager[Any]:
    return _prompt(lambda text: f"{_TOOLS.lstrip()}\n{text.removesuffix(_TOOLS)}")


def _prompt(change: Callable[[str], str]) -> AbstractContextManager[Any]:
    assert all(each in text_protocol._RULES for each in (_EXAMPLES, _RULES, _TOOLS))
    return patch.object(text_protocol, "_RULES", change(text_protocol._RULES))


@_piece("text", "JSON schema in the system prompt, in place of the tools' text")
def _text() -> AbstractContextManager[Any]:
    made = text_protocol.TextProtocol.__init__

    class AsSchema:
        def __init__(self, tool: Any) -> None:
            self.text = json.dumps(tool.spec()["function"], ensure_ascii=False)
            self.input_schema = tool.input_schema

    def with_schemas(self: Any, tools: Any, *given: Any, **named: Any) -> None:
        made(self, {name: AsSchema(tool) for name, tool in tools.items()}, *given, **named)
        self.tools = tools

    return patch.object(text_protocol.TextProtocol, "__init__", with_schemas)


@_piece("fit", "not asked beforehand whether any tool fits")
def _fit() -> AbstractContextManager[Any]:
    return patch.object(strategy, "MAX_TOOLS", 0)


# ── what it is told and asked on the way ──────────────────────────────────────────────────────────


@_piece("end-check", "no answer is asked about before it counts")
def _end_check() -> AbstractContextManager[Any]:
    return patch.object(checks, "reasons_to_confirm", lambda *_, **__: ())


@_piece("repetition", "the same call is run as often as it is made, and no tool is taken away")
def _repetition() -> Iterable[AbstractContextManager[Any]]:
    yield patch.object(calls_made.CallsOfReplies, "earlier", lambda *_: None)
    yield patch.object(calls_made.CallsOfReplies, "is_duplicate", lambda *_: False)


# ── programs ──────────────────────────────────────────────────────────────────────────────────────


@_piece("lines", "each program whole from the first one on, none line by line")
def _lines() -> AbstractContextManager[Any]:
    return patch.object(ModelFacts, "continues_replies", False)


@_piece("whole", "each program line by line, the one after a failure as well")
def _whole() -> AbstractContextManager[Any]:
    write_lines = strategy.SmallStrategy._write_lines

    def again(self: Any, wire: Any, run: Any) -> Any:
        ending = None
        while ending is None and not run.guards.limit_reached():
            ending = yield from write_lines(self, wire, run)
        return ending

    return patch.object(strategy.SmallStrategy, "_write_lines", again)


@_piece("program-grammar", "no grammar for programs and lines")
def _program_grammar() -> AbstractContextManager[Any]:
    return patch.object(grammar.ProgramGrammar, "_with", lambda *_, **__: "")


@_piece("line-names", "any name in a line that is written by itself")
def _line_names() -> AbstractContextManager[Any]:
    line = grammar.ProgramGrammar.line
    return patch.object(
        grammar.ProgramGrammar, "line", lambda self, *_, **kept: line(self, None, **kept)
    )


@_piece("program-check", "programs are run without being checked before")
def _program_check() -> Iterable[AbstractContextManager[Any]]:
    fed_text = prepared.fed_text
    unchecked = lambda *args, **given: (fed_text(*args, **given)[0], ())  # noqa: E731
    yield patch.object(prepared, "fed_text", unchecked)
    yield patch.object(prepared, "type_faults", lambda *_: ())


@_piece("call-memory", "a program that is written again makes its calls again")
def _call_memory() -> AbstractContextManager[Any]:
    return patch.object(calls_made.CallsOfPrograms, "earlier", lambda *_: None)


@_piece("program-note", "the error of the first program is not told below the question")
def _program_note() -> AbstractContextManager[Any]:
    return patch.object(loop.ReactRun, "note", lambda *_: None)


# ── chance ────────────────────────────────────────────────────────────────────────────────────────


@_piece("chance", "temperature 0 even after the same reply twice in a row")
def _chance() -> AbstractContextManager[Any]:
    return patch.object(embedded, "temperature_for", lambda _: 0)


@_piece("cold-1", "temperature 0.7 in all requests, seed 1")
def _warm_1() -> Iterable[AbstractContextManager[Any]]:
    return _warm(1)


@_piece("cold-2", "temperature 0.7 in all requests, seed 2")
def _warm_2() -> Iterable[AbstractContextManager[Any]]:
    return _warm(2)


def _warm(seed: int) -> Iterable[AbstractContextManager[Any]]:
    made = embedded.OpenAIModel
    yield patch.object(embedded, "temperature_for", lambda _: 0.7)
    yield patch.object(
        embedded, "OpenAIModel", lambda *args, **given: made(*args, **{**given, "seed": seed})
    )
