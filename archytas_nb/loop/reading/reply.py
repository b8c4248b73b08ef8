"""Reads the text of a reply: tool calls, an answer or plain text.

Valid JSON is used as it is. Invalid JSON is repaired only if there is exactly one way to do so, and
must then name a known tool and match its schema. If a reply is ambiguous, nothing runs, and the
model is asked again and told which part could not be read.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from archytas_nb.loop.events import ANSWER, FAIL, REFUSED, VAR, Json, ModelReply
from archytas_nb.loop.reading.calls import (
    Call,
    CallSpan,
    FoundCalls,
    Schemas,
    decode_input,
    find_calls,
    resolve_name,
)
from archytas_nb.loop.reading.lenient import UnreadableError, read_json, replace_surrogates
from archytas_nb.loop.reading.markup import read_markup
from archytas_nb.loop.reading.thoughts import split_thoughts
from archytas_nb.loop.record import AnswerForm
from archytas_nb.words import collapse_whitespace

_ENDS = (ANSWER, FAIL)
_MAX_SHOWN = 300
_FORM = '{"thought": "…", "tool": "…", "tool_input": …}'
_REACT_FORM = f"Reply with one JSON object, and nothing else: {_FORM}"
_NATIVE_FORM = "Make it a function call, or reply with the answer in plain text."
_FEWER_WORDS = "Your reply was cut off for its length. Say it in fewer words."
_TEXT = {"type": "string"}

_TAG = re.compile(
    r"<(?:\w+:)?tool_calls?>|<function=|<function_calls>|<\|python_tag\|>|\[TOOL_CALLS\]"
    r"|<\|channel\|>commentary|<\w+_function_call>"
)
_OTHER_TAG = re.compile(
    r"<parameter=|<invoke name=|<arg_key>|<\|tool_call_?\w*begin|<｜tool▁|<\|tool_call>"
)
"""Tags that are not parsed here, or that belong to the call of an unknown tool."""
_SEPARATOR = re.compile(
    r"(?:```\w*|<[^<>]*>|\b(?:and|then)\b|\b(?:Action|Call)\s*:|[\s,;`\]\[\"'])*+"
)
_SEVERAL_CALLS = re.compile(r"<[^<>]*(?:tool_call|function)[^<>]*>|\[TOOL_CALLS\]")
_INTRODUCTION = re.compile(r"```\w*|<[^<>]*>|\[TOOL_CALLS\]|^\s*Thought:|\bAction:\s*$")
_FENCED = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_STRING = r'"((?:[^"\\]|\\.)*+)("?)'
_THOUGHT = re.compile(r'"thought"\s*:\s*' + _STRING, re.DOTALL)
_TOOL = re.compile(r'"tool"\s*:\s*' + _STRING, re.DOTALL)
_INPUT = re.compile(r'"tool_input"\s*:\s*(.*)', re.DOTALL)
_ANSWER = re.compile(r"(?:\{\s*\"\w+\"\s*:\s*)?" + _STRING, re.DOTALL)
_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")


TruncatedPart: TypeAlias = Literal["", "answer", "reasoning", "other"]
"""The part in which a reply was truncated; empty if it is complete."""


@dataclass(frozen=True, slots=True)
class Action:
    """The action that a reply asks for."""

    thought: str = ""  # the text before the calls
    calls: tuple[tuple[str, Json], ...] = ()  # names and inputs
    answer: Json = None
    failure: str | None = None  # the reason for giving up
    fault: str = ""  # why the reply cannot be used, for the model
    repaired: str = ""  # what had to be repaired to read it, for a person
    unreadable: tuple[tuple[int, str], ...] = ()  # calls that are not run: their indices, and why
    prose: bool = False  # the fault is plain text; a second time it is accepted as the answer
    null: bool = False  # the answer is None, which its type allows
    reasoning: str = ""  # sent separately from the text
    extras: Mapping[int, Json] = field(default_factory=dict)  # extra fields of calls, by index
    program: str = ""  # which makes calls and gives the answer
    truncated: TruncatedPart = ""  # if so, an answer is incomplete and a call unreadable
    is_reasoning: bool = False  # the fault is that there is nothing else

    @property
    def answers(self) -> bool:
        """Whether there is an answer."""
        return self.answer is not None or self.null


def read_action(
    text: str,
    tools: Schemas,
    *,
    prose_is_answer: bool,
    strict: bool = False,
    form: AnswerForm | None = None,
    finish: str = "stop",
) -> Action:
    """Read the action in a text.

    Args:
        text: The reply's text.
        tools: The known tools: name → JSON schema of the input, or None if that is not known.
        prose_is_answer: Whether text without any call is the answer.
        strict: Only a standalone call of a known tool counts; any other text is prose. (With
            function calling, JSON in the text may be the answer.)
        form: The required form of the answer; None for text.
        finish: `ModelReply.finish`: after ``"length"``, plain text is not a complete answer; after
            `REFUSED`, it is none.

    Returns:
        The action; its `fault` is set if the text contains none.
    """
    answer_schema = _TEXT
    if form is not None:
        answer_schema = form.schema
    schemas = {**tools, ANSWER: answer_schema, FAIL: _TEXT}
    found = find_calls(text, schemas)

    ask = _REACT_FORM
    if strict:
        ask = _NATIVE_FORM
    truncated = finish == "length"
    spans = found.spans
    if strict:
        spans = [each for each in spans if _is_whole_call(each, truncated=truncated)]

    try:
        # Some models write calls in markup of their own; a call in JSON takes precedence.
        if not any(each.known for each in spans):
            spans = _markup_span(found, schemas) or spans
        _check_tags(found, spans, strict=strict)
        if spans:
            action = _action_of_calls(found, spans, form)
        elif found.text and prose_is_answer and finish != REFUSED:
            action = _prose_answer(found.text, form, truncated=truncated)
        else:
            action = _without_action(found.text, ask)
    except UnreadableError as error:
        action = _fault(ask, error.why)

    if finish == REFUSED and action.fault:
        return _fault(ask, f"the server refused it ({collapse_whitespace(text)})")
    if truncated and action.fault and not action.truncated:
        action = _truncated_action(action, found, ask)
    return replace(action, reasoning=found.thoughts)


def _without_action(text: str, ask: str) -> Action:
    """The fault of a text with neither a call nor an answer."""
    if not text:
        return Action(fault=f"Your reply was empty. {ask}")
    if "{" in text:
        return _fault(ask, "no tool is named in it")
    fault = f"Your reply was plain text. {ask} Use {ANSWER} to give your answer."
    return Action(thought=text[:500], fault=fault, prose=True)


def _is_whole_call(span: CallSpan, *, truncated: bool) -> bool:
    """Whether a part of a text is a call by itself; truncation may have cut the tool's name off."""
    return span.standalone and (span.known or (truncated and span.why != ""))


def _markup_span(found: FoundCalls, schemas: Schemas) -> list[CallSpan]:
    """A text that is nothing but markup and names a tool, as its calls; else nothing."""
    named = read_markup(found.text, schemas, resolve_name)
    calls = tuple(Call(name, given, repairs=("a call in other markup",)) for name, given in named)
    return [CallSpan(0, len(found.text), calls, known=True)] if calls else []


def _check_tags(found: FoundCalls, spans: Sequence[CallSpan], *, strict: bool) -> None:
    """Raise UnreadableError for the tag of a call that is not parsed, or of an unknown tool."""
    tag = None
    at = 0
    for span in spans:
        tag = tag or _OTHER_TAG.search(found.text, at, span.start)
        at = span.end
    tag = tag or _OTHER_TAG.search(found.text, at)
    if tag is None and strict and not spans:
        tag = _TAG.search(found.text)
    if tag is not None:
        raise UnreadableError(0, f"the call after {tag[0]!r} could not be read")


def _prose_answer(text: str, form: AnswerForm | None, *, truncated: bool) -> Action:
    """Plain text as the answer."""
    if truncated:
        return Action(answer=text, fault=_FEWER_WORDS, truncated="answer")
    if form is None:
        return Action(answer=text)
    answer = _typed_answer(text, form)
    return Action(answer=answer, null=answer is None)


def read_arguments(text: str, schema: Json = None) -> tuple[Json, str, str]:
    """Read the arguments of a function call from the server.

    Args:
        text: The arguments as JSON, or nothing.
        schema: JSON schema of the tool's input, if it is known.

    Returns:
        The input; a description of the repairs; and why it cannot be read. The texts may be empty.
    """
    stripped = str(replace_surrogates(text)).strip()
    if not stripped:
        return None, "", ""
    if stripped[0] not in "{[\"'“‘" and not re.match(r"[-\d]|(?:true|false|null)\b", stripped):
        return stripped, "text instead of JSON", ""
    try:
        reading = read_json(stripped)
        rest = stripped[reading.end :].strip()
        if not _may_be_ignored(rest, reading.value):
            return None, "", f"the arguments are followed by {rest[:40]!r}"
        tool_input, more = decode_input(reading.value, schema)
    except UnreadableError as error:
        return None, "", f"the arguments are no JSON that can be read: {error.why}"
    repairs = [*reading.repairs]
    if rest:
        repairs.append("text after the arguments was ignored")
    repairs += more
    return tool_input, ", ".join(dict.fromkeys(repairs)), ""


def _may_be_ignored(rest: str, value: Json) -> bool:
    """Whether a text after arguments is only closing marks, or the same arguments again."""
    if rest.startswith("{"):
        again = read_json(rest)
        if (again.value, again.end) == (value, len(rest)):
            return True
    return not rest.strip("}` \n")


def _action_of_calls(
    found: FoundCalls, spans: Sequence[CallSpan], form: AnswerForm | None
) -> Action:
    """The action of a text that contains something that may be a call."""
    _check_first(found, spans)
    calls, notes = _calls_to_run(found, spans)
    thought = _thought_of(calls, found.text[: spans[0].start])
    repaired = _repairs_of(calls, notes, found)

    others = tuple((call.name, call.input) for call in calls if call.name not in _ENDS)
    answers = [call.input for call in calls if call.name == ANSWER]
    answer = None
    if answers:
        answer = read_answer(answers[0], form)
    null = form is not None and bool(answers) and answer is None
    if others or null or answer is not None:  # the outcomes of the calls may avert a failure
        return Action(thought, others, answer, repaired=repaired, null=null)

    failed = next((call for call in calls if call.name == FAIL), None)
    if failed is None:
        return Action(thought=thought, fault=f"{ANSWER} needs the answer as its tool_input.")
    reason = str(only_value(failed.input) or "").strip()
    return Action(thought, failure=reason or "no reason given", repaired=repaired)


def _check_first(found: FoundCalls, spans: Sequence[CallSpan]) -> None:
    """Raise UnreadableError if the first part cannot be read, or names no tool."""
    first = spans[0]
    if first.why:
        raise UnreadableError(0, f"{_excerpt(found, first)} could not be read: {first.why}")
    if first.known:
        return
    # A call of an unknown tool gets its error as an outcome, unless it may be misread.
    if first.calls[0].repairs or any(each.known for each in spans):
        why = f"{_excerpt(found, first)} names {first.calls[0].name!r}, and there is no such tool"
        raise UnreadableError(0, why)


def _thought_of(calls: Sequence[Call], before: str) -> str:
    """The thought of a call; if none has one, the text before the first call."""
    thought = next((call.thought for call in calls if call.thought), "")
    if thought:
        return thought
    return _INTRODUCTION.sub("", before).strip(" \n\t\"'`[")[:500]


def _repairs_of(calls: Sequence[Call], notes: Sequence[str], found: FoundCalls) -> str:
    """The repairs that were needed to read the calls."""
    repairs: list[str] = []
    for call in calls:
        repairs += call.repairs
    repairs += notes
    if found.had_invented_outcome:
        repairs.append("an invented outcome was removed")
    return ", ".join(dict.fromkeys(repairs))


def _calls_to_run(found: FoundCalls, spans: Sequence[CallSpan]) -> tuple[list[Call], list[str]]:
    """The calls to run, and notes for the person.

    Several calls are run if their format allows several. Otherwise only the first of a series of
    objects is run, because a reply is one step; an answer after it counts. Text between two
    different calls may revoke the first one, so nothing is run.
    """
    calls = list(spans[0].calls)
    notes: list[str] = []
    if len(spans) == 1:
        return calls, notes

    several = len(calls) > 1
    keys = {call.key for call in calls}
    for earlier, later in itertools.pairwise(spans):
        if later.calls and {call.key for call in later.calls} <= keys:
            notes.append("a duplicate call")
            continue
        gap = found.text[earlier.end : later.start]
        if not _SEPARATOR.fullmatch(gap):
            two = f"{_excerpt(found, spans[0])} and {_excerpt(found, later)}"
            raise UnreadableError(0, f"it holds two different calls, {two}")
        several = several or _SEVERAL_CALLS.search(gap) is not None
        if later.why and several:
            raise UnreadableError(0, f"{_excerpt(found, later)} could not be read: {later.why}")
        is_ending = not later.why and all(call.name in _ENDS for call in later.calls)
        if not several and not is_ending:
            notes.append("more than one call: only the first was run")
            break
        calls += later.calls
        keys.update(call.key for call in later.calls)
    return calls, notes


def _typed_answer(prose: str, form: AnswerForm) -> Json:
    """Plain text as a value of the answer's type; if that fails, the text itself."""
    stripped = _FENCED.sub(r"\1", prose).strip()
    is_text = isinstance(form.schema, dict) and form.schema.get("type") == "string"
    if is_text and not stripped.startswith('"'):
        return stripped
    tool_input, _, fault = read_arguments(stripped, form.schema)
    if fault:
        return prose
    return read_answer(tool_input, form)


def _truncated_action(action: Action, found: FoundCalls, ask: str) -> Action:
    """The action of a reply that was truncated before any part of it was complete."""
    if found.spans:
        partial = read_partial(found.text[found.spans[-1].start :])
        if partial.tool == ANSWER and partial.text.strip():
            return Action(
                partial.thought, answer=partial.text, fault=_FEWER_WORDS, truncated="answer"
            )

    if not found.text:
        fault = f"Your reply was cut off for its length before it said anything. {ask}"
        part: TruncatedPart = "other"
        if found.thoughts:
            part = "reasoning"
        return replace(action, fault=fault, truncated=part)

    fault = (
        f"Your reply was cut off for its length, and nothing was run. Send less in one reply. {ask}"
    )
    return replace(action, fault=fault, truncated="other")


def _fault(ask: str, what: str) -> Action:
    return Action(fault=f"Your reply was not used, and nothing was run: {what}. {ask}")


def _excerpt(found: FoundCalls, span: CallSpan) -> str:
    excerpt = " ".join(found.text[span.start : span.end].split())
    if len(excerpt) > 120:
        excerpt = f"{excerpt[:80]} … {excerpt[-30:]}"
    return f"«{excerpt}»"


# ── answers ───────────────────────────────────────────────────────────────────────────────────────


def only_value(tool_input: Json) -> Json:
    """The value of an object with a single field, because models wrap plain text in one."""
    if isinstance(tool_input, dict) and len(tool_input) == 1:
        return next(iter(tool_input.values()))
    return tool_input


def read_answer(tool_input: Json, form: AnswerForm | None) -> Json:
    """The answer in the input of `ANSWER`; None if there is none.

    Text is found in any field; an object with a single field may be the answer itself. An answer
    with a type may be empty.
    """
    inner = only_value(tool_input)
    is_named = isinstance(tool_input, dict) and set(tool_input) == {"answer"}
    is_text = isinstance(inner, str) and form is None
    answer = tool_input
    if is_named or is_text:
        answer = inner

    if form is None and _is_blank(answer):
        return None
    return answer


def _is_blank(answer: Json) -> bool:
    if isinstance(answer, str):
        return not answer.strip()
    return answer in (None, {}, [])


def as_text(answer: Json) -> str:
    """An answer as text: a string as it is, a variable by its name, anything else as JSON."""
    if isinstance(answer, dict) and answer.keys() == {VAR}:
        answer = str(answer[VAR])
    if isinstance(answer, str):
        return answer.strip()
    return json.dumps(answer, ensure_ascii=False)


def rejection_text(answer: Json, fault: str) -> str:
    """The message to the model about an answer that is not accepted."""
    shown = as_text(answer)
    if len(shown) > _MAX_SHOWN:
        shown = f"{shown[:_MAX_SHOWN]}…"
    again = "Give the answer again, in the form that the question asks for."
    return f"Your answer {shown!r} is not accepted: {fault}\n{again}"


def prose_of(reply: ModelReply) -> str:
    """The text of a reply that is not an action, without the thoughts in it."""
    return split_thoughts(reply.text)[0]


def with_reasoning(action: Action, reply: ModelReply) -> Action:
    """The action with the reply's reasoning, which may be all that a truncated reply contains."""
    reasoning = reply.reasoning.strip()
    if reasoning:
        action = replace(action, reasoning=reasoning)
    said_nothing = not reply.text or (reasoning and not reply.text.strip())
    if action.truncated == "other" and said_nothing and not reply.calls:
        action = replace(action, truncated="reasoning")
    elif action.fault and reasoning and not reply.text.strip() and not reply.calls:
        fault = action.fault.replace("was empty", "had only reasoning, and nothing after it")
        action = replace(action, fault=fault, is_reasoning=True)
    return action


# ── incomplete replies ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Partial:
    """The readable part of an incomplete reply; `text` is the answer, the input or plain text."""

    thought: str = ""
    tool: str = ""
    text: str = ""


def read_partial(text: str) -> Partial:
    """Read the beginning of a reply that is still being streamed, or was truncated."""
    body = re.sub(r"\A```(?:json)?\s*", "", text.lstrip())
    if not body.startswith("{"):
        return Partial(text=text)
    thought = ""
    if found := _THOUGHT.search(body):
        thought = _decode_string(found[1])
    name = ""
    tool = _TOOL.search(body)
    if tool and tool[2]:  # a name without its closing quote is incomplete
        name = _decode_string(tool[1])
    shown = ""
    if tool_input := _INPUT.search(body):
        shown = tool_input[1]

    if name in _ENDS:
        if answer := _ANSWER.match(shown):
            shown = _decode_string(answer[1])
    elif shown.rstrip().endswith("}}"):
        shown = shown.rstrip().removesuffix("}")
    return Partial(thought, name, shown)


def written(text: str) -> str:
    """The readable part of an incomplete reply: its thought, then the call or the answer."""
    partial = read_partial(text)
    shown = partial.text
    if partial.tool not in ("", *_ENDS):
        shown = f"{partial.tool} {partial.text}"
    return "\n\n".join(part for part in (partial.thought.strip(), shown.strip()) if part)


def _decode_string(inside: str) -> str:
    """Decode the inside of a JSON string that may be truncated within an escape sequence."""
    inside = _HALF_ESCAPE.sub(r"\1", inside)
    try:
        return re.sub(r"[\ud800-\udbff]\Z", "", str(json.loads(f'"{inside}"', strict=False)))
    except ValueError:
        return inside.replace("\\n", "\n").replace('\\"', '"')
