"""The text of a reply → the action that it means.

What is exact is taken as it is. What is broken is mended only where that has one meaning, and must then name a
known tool and fit its schema. Where two readings remain nothing is run, and the model is told which words were
wrong: running another call than the one that was meant is worse than asking again.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from archytas_nb.loop.calls import Meant, Schemas, opened
from archytas_nb.loop.events import Json
from archytas_nb.loop.exact import UnreadableError, whole
from archytas_nb.loop.history import AnswerForm
from archytas_nb.loop.lenient import read_value
from archytas_nb.loop.partial import Partial, read_partial
from archytas_nb.loop.scan import Found, Scan, scan
from archytas_nb.loop.wire import ANSWER, FAIL, Action, answer_in, only_value

_ADJACENT = re.compile(
    r"[\s,;`\]\[\"']*(?:(?:```\w*|<[^<>]*>|\b(?:and|then)\b|\b(?:Action|Call)\s*:)[\s,;`]*)*"
)
_SEVERAL = re.compile(r"<[^<>]*(?:tool_call|function)[^<>]*>|\[TOOL_CALLS\]")
_UNREAD_TAG = re.compile(
    r"<(?:\w+:)?tool_calls?>|<function=|<function_calls>|<invoke name=|<\|python_tag\|>|\[TOOL_CALLS\]"
    r"|<\|tool_call|<｜tool▁|<\|channel\|>commentary|<\w+_function_call>"
)
_FORM = '{"thought": "…", "tool": "…", "tool_input": …}'
_REACT_FORM = f"Reply with one JSON object, and nothing else: {_FORM}"
_NATIVE_FORM = "Make it a function call, or reply with the answer in plain text."
_FEWER_WORDS = "Your reply was cut off for its length. Say it in fewer words."
_TEXT = {"type": "string"}
_FENCED = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)


def split_think(text: str) -> tuple[str, str]:
    """The text outside ``<think>`` blocks, and that inside; an unclosed block reaches to the end."""
    said = scan(text, {})
    return said.prose, said.thoughts


def read_action(
    text: str,
    tools: Schemas,
    *,
    prose_is_answer: bool,
    strict: bool = False,
    form: AnswerForm | None = None,
    cut: bool = False,
    refused: bool = False,
) -> Action:
    """Read the action that a text means.

    Args:
        text: The reply's text.
        tools: The known tools: name → JSON schema of the input, or None where that is not known.
        prose_is_answer: Whether text without any call is the answer.
        strict: Only a call of a known tool that stands by itself counts; any other text is prose. (In a
            reply of function calling JSON may well be the answer itself.)
        form: How the answer is to be given; None for text.
        cut: Whether the reply was cut off for its length: plain text is then no whole answer of any type.
        refused: Whether the server did not accept the reply: prose is then no answer.

    Returns:
        The action; with `fault` set where the text means none.
    """
    said = scan(text, {**tools, ANSWER: _TEXT if form is None else form.schema, FAIL: _TEXT})
    as_answer = prose_is_answer and not refused
    action = _read(said, prose_is_answer=as_answer, strict=strict, form=form, cut=cut)
    if refused and action.fault:
        return _fault(
            _NATIVE_FORM if strict else _REACT_FORM, f"the server refused it ({_shortened(text)})."
        )
    if cut and action.fault and not action.cut:
        action = _unusable(action, said, _NATIVE_FORM if strict else _REACT_FORM)
    return replace(action, reasoning=said.thoughts)


def _unusable(action: Action, said: Scan, ask: str) -> Action:
    """What there is of a reply that was cut off before anything in it was whole."""
    begun = read_partial(said.text[said.found[-1].start :]) if said.found else Partial()
    if begun.tool == ANSWER and begun.text.strip():
        return Action(begun.thought, answer=begun.text, fault=_FEWER_WORDS, cut="answer")
    if not said.prose:
        fault = f"Your reply was cut off for its length before it said anything. {ask}"
        return replace(action, fault=fault, cut="reasoning" if said.thoughts else "other")
    fault = (
        f"Your reply was cut off for its length, and nothing was run. Send less in one reply. {ask}"
    )
    return replace(action, fault=fault, cut="other")


def _read(
    said: Scan, *, prose_is_answer: bool, strict: bool, form: AnswerForm | None, cut: bool
) -> Action:
    ask = _NATIVE_FORM if strict else _REACT_FORM
    found = [each for each in said.found if _counts(each, strict=strict)]
    calls = [each for each in found if each.calls and any(call.known for call in each.calls)] or [
        each for each in found if each.calls
    ]
    if not calls:
        broken = next((each for each in found if each.why), None)
        if broken is not None:
            return _fault(ask, f"{_quoted(said, broken)} could not be read: {broken.why}.")
        action = _prose(
            said, ask, prose_is_answer=prose_is_answer, strict=strict, form=None if cut else form
        )
        return (
            replace(action, fault=_FEWER_WORDS, cut="answer") if cut and action.answers else action
        )
    first = found[0]
    if first.why:
        return _fault(ask, f"{_quoted(said, first)} could not be read: {first.why}.")
    if first is not calls[0]:
        named = first.calls[0].name
        return _fault(ask, f"{_quoted(said, first)} names {named!r}, and there is no such tool.")
    taken, notes, fault = _taken(said, found)
    if fault:
        return _fault(ask, fault)
    broken_call = next((call for call in taken if call.fault), None)
    if broken_call is not None:
        return _fault(ask, f"{_quoted(said, first)} was not run: {broken_call.fault}.")
    notes += ["an invented outcome was cut off"] * said.cut
    return _action(taken, notes, said.text[: first.start], form)


def read_arguments(text: str, schema: Json = None) -> tuple[Json, str, str]:
    """Read the arguments of a function call, as a server sent them.

    Args:
        text: The arguments: JSON text, or nothing.
        schema: JSON schema of the tool's input, where it is known.

    Returns:
        The input; what had to be mended, in words; and why it cannot be read. The last two are mostly empty.
    """
    bare = str(whole(text)).strip()
    if not bare:
        return None, "", ""
    if bare[0] not in "{[\"'“‘" and not re.match(r"[-\d]|(?:true|false|null)\b", bare):
        return bare, "text in place of JSON", ""
    try:
        reading = read_value(bare)
        rest = bare[reading.end :].strip()
        again = read_value(rest) if rest.startswith("{") else None
    except UnreadableError as error:
        return None, "", f"the arguments are no JSON that can be read: {error.why}"
    twice = again is not None and (again.value, again.end) == (reading.value, len(rest))
    if rest and not twice and rest.strip("}` \n"):
        return None, "", f"the arguments are followed by {rest[:40]!r}"
    mended = [*reading.mended, *(["something after the arguments was left out"] if rest else [])]
    given, more, fault = opened(reading.value, schema)
    return None if fault else given, ", ".join(dict.fromkeys([*mended, *more])), fault


def _counts(found: Found, *, strict: bool) -> bool:
    if not strict:
        return True
    return found.alone and (bool(found.why) or any(call.known for call in found.calls))


def _taken(said: Scan, found: Sequence[Found]) -> tuple[list[Meant], list[str], str]:
    """Which of the calls are run; or why none is.

    Several calls are run where the form says that several are meant. Of loose objects in a row the first is
    run, as one reply is one step; an answer after it counts. Words between two different calls may take the
    first one back, so nothing is run.
    """
    taken = list(found[0].calls)
    notes: list[str] = []
    several = len(taken) > 1
    keys = {call.key for call in taken}
    for earlier, later in itertools.pairwise(found):
        gap = said.text[earlier.end : later.start]
        same = bool(later.calls) and {call.key for call in later.calls} <= keys
        if same:
            notes.append("a call that was written twice")
            continue
        if not _ADJACENT.fullmatch(gap):
            return (
                [],
                [],
                f"it holds two different calls, {_quoted(said, found[0])} and {_quoted(said, later)}.",
            )
        tags = _SEVERAL.search(gap) is not None
        if later.why and (several or tags):
            return [], [], f"{_quoted(said, later)} could not be read: {later.why}."
        several = several or tags
        if several or (later.calls and all(call.name in (ANSWER, FAIL) for call in later.calls)):
            taken += later.calls
            keys.update(call.key for call in later.calls)
        else:
            notes.append("more than one call: only the first was taken")
            break
    return taken, notes, ""


def _action(
    taken: Sequence[Meant], notes: Sequence[str], before: str, form: AnswerForm | None
) -> Action:
    thought = next((call.thought for call in taken if call.thought), "") or _spoken(before)
    repaired = ", ".join(dict.fromkeys([*(each for call in taken for each in call.mended), *notes]))
    calls = tuple((call.name, call.input) for call in taken if call.name not in (ANSWER, FAIL))
    given = [call.input for call in taken if call.name == ANSWER][:1]
    answer = next((answer_in(each, form) for each in given), None)
    null = form is not None and given != [] and answer is None
    failed = [call for call in taken if call.name == FAIL]
    if answer is None and not null and not calls and not failed:
        return Action(thought=thought, fault=f"{ANSWER} needs the answer as its tool_input.")
    if (
        failed and not calls and answer is None and not null
    ):  # what the calls come to may change its mind
        reason = str(only_value(failed[0].input) or "").strip()
        return Action(thought, failure=reason or "no reason given", repaired=repaired)
    return Action(thought, calls, answer, repaired=repaired, null=null)


def _spoken(before: str) -> str:
    """What the model said before its call, without the marks that introduce one."""
    said = re.sub(r"```\w*|<[^<>]*>|\[TOOL_CALLS\]|^\s*Thought:|\bAction:\s*$", "", before).strip(
        " \n\t\"'`["
    )
    return said[:500]


def _prose(
    said: Scan, ask: str, *, prose_is_answer: bool, strict: bool, form: AnswerForm | None
) -> Action:
    prose = said.prose
    if strict and (tag := _UNREAD_TAG.search(prose)):
        return _fault(ask, f"the call after {tag[0]!r} could not be read.")
    if not prose:
        return Action(fault=f"Your reply was empty. {ask}")
    if prose_is_answer:
        answer = prose if form is None else _typed(prose, form)
        return Action(answer=answer, null=answer is None)
    if "{" in prose:
        return _fault(ask, "no tool is named in it.")
    fault = f"Your reply was plain text. {ask} Use {ANSWER} to give your answer."
    return Action(thought=prose[:500], fault=fault, prose=True)


def _typed(prose: str, form: AnswerForm) -> Json:
    """The value that plain text means where an answer is more than text; the text itself where it means none."""
    bare = _FENCED.sub(r"\1", prose).strip()
    if isinstance(form.schema, dict) and form.schema.get("type") == "string" and bare[:1] != '"':
        return bare
    given, _, fault = read_arguments(bare, form.schema)
    return prose if fault else answer_in(given, form)


def _fault(ask: str, what: str) -> Action:
    return Action(fault=f"Your reply was not used, and nothing was run: {what} {ask}")


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 300 else f"{words[:299]}…"


def _quoted(said: Scan, found: Found) -> str:
    words = " ".join(said.text[found.start : found.end].split())
    return f"«{words if len(words) <= 120 else f'{words[:80]} … {words[-30:]}'}»"
