"""A conversation as a file of JSON: what is kept of it, and how it is read back.

The file holds what the model would be sent again: questions, calls with their outcomes as text,
answers. It holds no Python objects; results that were kept as variables are named, and where there
is no such variable when it is loaded, the model is told so. Secrets are masked.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from archytas_nb.choices import ValuesName
from archytas_nb.errors import ConfigurationError
from archytas_nb.files import OutputFile, is_signed, signed, unsigned
from archytas_nb.loop import events as ev
from archytas_nb.loop.record import (
    AnswerForm,
    Compaction,
    Context,
    Described,
    Exchange,
    LastError,
    StepRecord,
)
from archytas_nb.loop.wire import NO_CODE
from archytas_nb.models.secrets import mask_all
from archytas_nb.tools.saved import STRICT, read_saved, saved_text

VERSION = 3
"""The version of the format. Files of version 1 do not say that this package wrote them, and have
the further data of a call in one field. Up to version 2, variables are described only in the text,
and the specifications of tools are missing."""
MARK = "saved by archytas_nb"
MAX_BYTES = 200_000_000
"""The largest file that is read."""
_MAX_CALLS = 100_000


@STRICT
@dataclass
class SavedCall:
    """A call with its outcome."""

    id: str
    name: str
    input: Any
    status: ev.Status
    text: str
    stored: str = ""
    images: list[str] = field(default_factory=list)
    extra: dict[str, Any] | None = None  # its fields that are not ours
    offers: list[str] = field(default_factory=list)  # the tools that it has found


@STRICT
@dataclass
class SavedRejected:
    """A call with which the model answered or gave up, and which was not accepted."""

    id: str
    name: str
    input: Any
    extra: dict[str, Any] | None = None


@STRICT
@dataclass
class SavedStep:
    """A reply of the model."""

    thought: str = ""
    calls: list[SavedCall] = field(default_factory=list)
    correction: str = ""
    reasoning: str = ""
    program: str = ""
    report: str = ""
    is_left_out: bool = False
    said: str = ""
    kept: dict[str, Any] = field(default_factory=dict)
    written: str = ""
    rejected: SavedRejected | None = None


@STRICT
@dataclass
class SavedEnding:
    """How a question ended."""

    kind: Literal["answered", "failed", "stopped", "interrupted"]
    text: str = ""
    thought: str = ""
    by: ev.FailedBy = "model"
    limit: str = ""
    during: str = ""
    cut: bool = False
    stopped: bool = False


@STRICT
@dataclass
class SavedQuestion:
    """A question with all that the model is sent of it."""

    question: str
    steps: list[SavedStep] = field(default_factory=list)
    ending: SavedEnding | None = None
    images: list[str] = field(default_factory=list)
    form: AnswerForm | None = None
    origin: str = ""
    hint: str = ""
    plan: str = ""
    variables: str = ""
    names: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    described: dict[str, Described] = field(default_factory=dict)
    has_values: bool = False
    variables_are_sent: bool = False
    error: LastError | None = None
    values: ValuesName = "all"
    wants_code: bool = False
    said: str = ""
    model: str = ""
    compaction: Compaction = field(default_factory=Compaction)
    kept: dict[str, Any] = field(default_factory=dict)
    condition: str = ""
    tool_specs: list[dict[str, Any]] = field(default_factory=list)
    switched_off: list[str] = field(default_factory=list)
    tells_no_code: bool = False  # of earlier versions
    code_place: str = ""


@STRICT
@dataclass
class SavedConversation:
    """A conversation."""

    version: int
    questions: list[SavedQuestion]
    written: str | None = None


def save_conversation(
    path: str | os.PathLike[str], exchanges: Sequence[Exchange], *, force: bool = False
) -> None:
    """Write a conversation to a file, which is replaced as a whole if this has written it.

    Args:
        path: The file.
        exchanges: The conversation.
        force: Whether any other file is replaced, too.

    Raises:
        ConfigurationError: The file cannot be written, or is not to be replaced.
    """
    file = _file(path)
    file.check_ours(lambda text: is_signed(text, MARK), force=force)
    questions = [_saved(each) for each in exchanges]
    text = saved_text(SavedConversation(VERSION, questions))
    masked = _masked(json.loads(text)) | {"written": unsigned(MARK)}
    file.write(signed(json.dumps(masked, ensure_ascii=False, indent=1), MARK))


def load_conversation(path: str | os.PathLike[str], known: Collection[str]) -> list[Exchange]:
    """Read a conversation from a file that `save_conversation` wrote.

    Args:
        path: The file.
        known: The names of the variables; results in others are said to be gone.

    Raises:
        ConfigurationError: The file cannot be read, or does not hold a conversation.
    """
    text = _read(path)
    try:
        head = json.loads(text)
        version = head.get("version") if isinstance(head, dict) else None
        if version.__class__ is int and version > VERSION:
            raise ConfigurationError(
                f"{str(path)!r} was saved by a newer version of archytas_nb (format {version}, "
                f"expected {VERSION}): upgrade archytas_nb to load it"
            )
        saved = read_saved(SavedConversation, text)
        if not 1 <= saved.version <= VERSION:
            raise ValueError(f"version: {saved.version!r}; expected {VERSION}")
        if saved.version == 1:
            _update_extras(saved)
        exchanges = [_exchange(each, known) for each in saved.questions]
        _check(exchanges)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigurationError(
            f"{str(path)!r} is not a saved conversation ({reason}); expected a file that "
            "%agent_save or Agent.save wrote"
        ) from None
    return exchanges


def _file(path: str | os.PathLike[str]) -> OutputFile:
    return OutputFile(Path(path).expanduser(), "the conversation", is_private=True)


def _read(path: str | os.PathLike[str]) -> bytes:
    target = _file(path).target()
    try:
        if not target.is_file():
            raise ConfigurationError(f"there is no file {str(path)!r}; save one with %agent_save")
        with target.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    if len(text) > MAX_BYTES:
        raise ConfigurationError(
            f"{str(path)!r} is larger than {MAX_BYTES:,} bytes; expected a saved conversation"
        )
    return text


def _masked(value: Any) -> Any:
    """A JSON value with the secrets in its texts masked; pictures stay as they are."""
    if isinstance(value, str):
        return mask_all(value)
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if isinstance(value, dict):
        return {
            mask_all(key): each if key == "images" else _masked(each) for key, each in value.items()
        }
    return value


# ── to the file ───────────────────────────────────────────────────────────────────────────────────


def _saved(exchange: Exchange) -> SavedQuestion:
    context = exchange.context or Context(is_offered=False)
    return SavedQuestion(
        question=exchange.question,
        steps=[_saved_step(each) for each in exchange.steps],
        ending=_saved_ending(exchange.ending),
        images=list(exchange.images),
        form=exchange.form,
        origin=exchange.origin,
        hint=exchange.hint,
        plan=exchange.plan,
        variables=context.text,
        names=list(context.names),
        columns=list(context.columns),
        described=dict(context.described),
        has_values=context.has_values,
        variables_are_sent=context.is_offered,
        error=exchange.error,
        values=exchange.values,
        wants_code=exchange.wants_code,
        said=exchange.said,
        model=exchange.model,
        # That of a part of the conversation does not hold for all of it.
        compaction=Compaction() if exchange.hides_earlier_turns else exchange.compaction,
        kept=dict(exchange.kept),
        condition=exchange.condition,
        tool_specs=list(exchange.tool_specs),
        switched_off=list(exchange.switched_off),
        code_place=exchange.code_place,
    )


def _saved_step(step: StepRecord) -> SavedStep:
    calls = []
    for call, outcome in step.pairs:
        calls.append(
            SavedCall(
                call.id, call.name, call.input, outcome.status, outcome.text, outcome.stored,
                list(outcome.images), step.extras.get(call.id), list(outcome.offers),
            )
        )  # fmt: skip
    rejected = None
    if (ended := step.rejected) is not None:
        rejected = SavedRejected(ended.id, ended.name, ended.input, step.extras.get(ended.id))
    return SavedStep(
        step.thought, calls, step.correction, step.reasoning, step.program, step.report,
        step.is_left_out, step.said, dict(step.kept), step.written, rejected,
    )  # fmt: skip


def _saved_ending(ending: ev.Ending | None) -> SavedEnding | None:
    match ending:
        case ev.Answered(text=text, thought=thought):
            return SavedEnding("answered", text, thought)
        case ev.Failed(reason=reason, by=by):
            # An endpoint's error may name an address, which is private.
            return SavedEnding("failed", reason if by == "model" else "", by=by)
        case ev.Stopped(limit=limit, text=text, cut=cut):
            return SavedEnding("stopped", text, limit=limit, cut=cut)
        case ev.Interrupted(during=during, text=text, stopped=stopped):
            return SavedEnding("interrupted", text, during=during, stopped=stopped)
    return None


# ── from the file ─────────────────────────────────────────────────────────────────────────────────


def _exchange(saved: SavedQuestion, known: Collection[str]) -> Exchange:
    return Exchange(
        saved.question,
        [_step(each, known) for each in saved.steps],
        _ending(saved.ending),
        images=_pictures(saved.images),
        form=saved.form,
        origin=saved.origin,
        hint=saved.hint,
        plan=saved.plan,
        context=Context(
            saved.variables,
            tuple(saved.names),
            described=saved.described,
            is_offered=saved.variables_are_sent,
            columns=tuple(saved.columns),
            has_values=saved.has_values,
        ),
        error=saved.error,
        values=saved.values,
        wants_code=saved.wants_code,
        said=saved.said,
        model=saved.model,
        compaction=saved.compaction,
        kept=saved.kept,
        condition=saved.condition,
        tool_specs=tuple(saved.tool_specs),
        switched_off=tuple(saved.switched_off),
        code_place=saved.code_place or (NO_CODE if saved.tells_no_code else ""),
    )


def _update_extras(saved: SavedConversation) -> None:
    """Bring the calls of the first format into this one."""
    for question in saved.questions:
        for step in question.steps:
            for call in step.calls:
                if call.extra is not None and "anthropic" not in call.extra:
                    call.extra = {"extra_content": call.extra}


def _pictures(images: Sequence[str]) -> tuple[str, ...]:
    """Pictures in base64; anything else, such as the path of a file, is an error."""
    for each in images:
        head = base64.b64decode(each, validate=True)[:4]
        if not head.startswith((b"\x89PNG", b"\xff\xd8")):
            raise ValueError("images: expected PNG or JPEG in base64")
    return tuple(images)


def _numbers(compaction: Compaction) -> list[int]:
    numbers = [*compaction.place, compaction.max_tokens or 0]
    if compaction.summary is not None:
        numbers += compaction.summary.place
    return [*numbers, *compaction.truncated.values()]


def _step(saved: SavedStep, known: Collection[str]) -> StepRecord:
    calls = []
    outcomes = []
    extras = {}
    for each in saved.calls:
        calls.append(ev.ToolCall(each.id, each.name, each.input))
        text = each.text
        if each.stored and each.stored not in known:
            text += f"\n(The variable {each.stored!r} is no longer there.)"
        images = _pictures(each.images)
        outcome = ev.CallOutcome(each.status, text, call_id=each.id, images=images)
        outcomes.append(replace(outcome, offers=tuple(each.offers)))
        if each.extra is not None:
            extras[each.id] = each.extra
    rejected = None
    if (ended := saved.rejected) is not None:
        rejected = ev.ToolCall(ended.id, ended.name, ended.input)
        if ended.extra is not None:
            extras[ended.id] = ended.extra
    return StepRecord(
        saved.thought, tuple(calls), tuple(outcomes), saved.correction, saved.reasoning, extras,
        saved.program, saved.report, saved.is_left_out, saved.said, saved.kept, saved.written,
        rejected,
    )  # fmt: skip


def _ending(saved: SavedEnding | None) -> ev.Ending:
    if saved is None:
        return ev.Interrupted("the run")
    match saved.kind:
        case "answered":
            return ev.Answered(saved.text, saved.thought)
        case "failed":
            return ev.Failed(saved.text, saved.by)
        case "stopped":
            return ev.Stopped(saved.limit, saved.text, saved.cut)
    return ev.Interrupted(saved.during, saved.text, saved.stopped)


def _check(exchanges: Sequence[Exchange]) -> None:
    """Raise ValueError if what was read cannot be sent: a call twice, or what is not JSON."""
    ids: set[str] = set()
    for number, exchange in enumerate(exchanges):
        if min(_numbers(exchange.compaction)) < 0:
            raise ValueError("compaction: expected numbers of 0 or more")
        if exchange.compaction.dropped > number:
            raise ValueError("compaction: it leaves out more questions than there are")
        steps = exchanges[exchange.compaction.dropped].steps
        if exchange.compaction.dropped_steps > len(steps):
            raise ValueError("compaction: it leaves out more steps than there are")
        json.dumps([exchange.kept, [step.kept for step in exchange.steps]], allow_nan=False)
        for step in exchange.steps:
            for call in step.all_calls:
                if call.id in ids or not call.id.isalnum() or len(ids) > _MAX_CALLS:
                    raise ValueError(
                        f"calls: the id is {call.id!r}; expected letters and digits that no other "
                        "call has"
                    )
                ids.add(call.id)
                json.dumps([call.input, step.extras.get(call.id)], allow_nan=False)
        json.dumps(exchange.tool_specs, allow_nan=False)
        if any(not isinstance(each["function"]["name"], str) for each in exchange.tool_specs):
            raise ValueError("tool_specs: expected specifications with a name")
        if exchange.form is not None:
            json.dumps(exchange.form.schema, allow_nan=False)
