"""The part of a conversation that is sent: its messages, and the compaction of a long one.

The record stays complete. A conversation that exceeds the model's context is compacted from the
beginning (`Compaction`), in this order:

1. The outcomes of old calls are truncated.
2. Old exchanges are dropped.
3. The first steps of the current exchange are dropped.
4. The outcomes of its last step are truncated.

A summary by the model may take the place of what is dropped (`summary.py`).

The system prompt, the current question and its last step are always sent. Compaction invalidates
the server's prompt cache, so it is done rarely: of the first three, each time half of what is
possible.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from archytas_nb.loop import summary
from archytas_nb.loop.descriptions import recalled
from archytas_nb.loop.events import AskModel, CallOutcome, Json, Message
from archytas_nb.loop.model import ModelFacts
from archytas_nb.loop.reading.lenient import replace_surrogates
from archytas_nb.loop.record import Compaction, Exchange, StepRecord
from archytas_nb.loop.tokens import json_tokens, message_tokens
from archytas_nb.loop.wire import Wire

CONTEXT_TOKENS = 100_000
"""Assumed context length if it is not known; most hosted models have more."""
_MARGIN = 150
"""Tokens for the chat template and for the text that is added in the last turn."""
_MIN_REPLY = 1024
"""Minimum number of tokens that are reserved for the reply, even if this requires compaction."""
_OLD_LENGTH = 200
"""Length in characters to which the outcomes of old calls are truncated."""
_LENGTHS = (4000, 2000, 1000, 500, _OLD_LENGTH)
"""The same for the outcomes of the last step, tried one after another."""
_TAIL = 100
"""Characters of the end that are kept: it names the variable that holds a long result."""

# ── compaction ────────────────────────────────────────────────────────────────────────────────────


def compacted_view(exchanges: Sequence[Exchange], compaction: Compaction) -> list[Exchange]:
    """The exchanges to send; the record is not changed, because changed exchanges are copies."""
    shown = list(exchanges[compaction.dropped :])
    if compaction.dropped or compaction.dropped_steps:
        shown[0] = _first_shown(shown[0], compaction)
    if compaction.truncated:
        shown = [_with_truncated_outcomes(exchange, compaction) for exchange in shown]
    return shown


def _first_shown(exchange: Exchange, compaction: Compaction) -> Exchange:
    """The first exchange that is sent, with notes of what is left out before and in it."""
    question = exchange.question
    noted = _note_of_summary(compaction)
    if compaction.dropped:
        before = "question and its answer"
        if compaction.dropped != 1:
            before = f"{compaction.dropped} questions and their answers"
        notes = [f"(Left out here: the first {before}.)"]
        if noted and not compaction.dropped_steps:
            notes.append(noted)
        question = "\n\n".join([*notes, question])
    if compaction.dropped_steps:
        dropped = exchange.steps[: compaction.dropped_steps]
        question = f"{question}\n\n(Left out here: {_note_of_steps(dropped)}.)"
        if noted:
            question = f"{question}\n\n{noted}"
        for step in dropped:  # the person's words are part of what is asked
            if step.said:
                question = f"{question}\n\n{step.said}"
    return replace(exchange, question=question, steps=exchange.steps[compaction.dropped_steps :])


def _note_of_summary(compaction: Compaction) -> str:
    """The summary of what is left out, as it is sent; empty if there is none."""
    made = compaction.summary
    if made is None:
        return ""
    what = "what is left out"
    if made.place != compaction.place:
        what = "the beginning of it"
    return f"(Your summary of {what}:\n{made.text})"


def _note_of_steps(steps: Sequence[StepRecord]) -> str:
    """A text for the steps that are left out: how many, and how often each tool was called."""
    what = "the first step"
    if len(steps) != 1:
        what = f"the first {len(steps)} steps"
    times: Counter[str] = Counter()
    for step in steps:
        times.update(call.name for call in step.calls)
    if not times:
        return what
    calls = []
    for name, count in times.items():
        calls.append(name)
        if count > 1:
            calls[-1] += f" {count}×"
    return f"{what}, with calls of {', '.join(calls)}"


def _with_truncated_outcomes(exchange: Exchange, compaction: Compaction) -> Exchange:
    """The exchange with its long outcomes truncated; itself if none of them is to be."""
    if compaction.truncated.keys().isdisjoint(_call_ids(exchange.steps)):
        return exchange
    steps = [_truncate_outcomes(step, compaction) for step in exchange.steps]
    return replace(exchange, steps=steps)


def _truncate_outcomes(step: StepRecord, compaction: Compaction) -> StepRecord:
    outcomes = []
    for outcome in step.outcomes:
        length = compaction.truncated.get(outcome.call_id)
        if length is None:
            outcomes.append(outcome)
        else:
            outcomes.append(_truncate(outcome, length))
    known = compaction.truncated
    lengths = [known[call.id] for call in step.calls if call.id in known]
    report = step.report
    if lengths:
        report = _shortened(report, min(lengths))
    return replace(step, outcomes=tuple(outcomes), report=report)


def _call_ids(steps: Sequence[StepRecord]) -> Iterator[str]:
    for step in steps:
        for call in step.calls:
            yield call.id


def _shortened(text: str, length: int) -> str:
    """A text without its middle, if it is longer than this."""
    note = f"\n… (shortened from {len(text):,} characters) …\n"
    if len(text) <= length + len(note) + _TAIL:
        return text
    return f"{text[:length].rstrip()}{note}{text[-_TAIL:].lstrip()}"


def _truncate(outcome: CallOutcome, length: int) -> CallOutcome:
    """A copy of an outcome without images and without the middle of a long text."""
    text = _shortened(outcome.written(with_images=False), length)
    return replace(outcome.with_text(text), images=())


def compact_further(
    exchanges: Sequence[Exchange],
    compaction: Compaction,
    budget: int,
    size: Callable[[Sequence[Exchange]], int],
) -> Compaction:
    """Compact further, until the messages fit into the budget.

    Args:
        exchanges: The record; the last exchange is the current one.
        compaction: The part that is already dropped, and stays dropped.
        budget: Maximum number of tokens in the messages.
        size: Counts the tokens of the messages of exchanges, including the system prompt.

    Returns:
        The same compaction if it fits; the strongest possible one if none fits.
    """

    def size_of(compaction: Compaction) -> int:
        return size(compacted_view(exchanges, compaction))

    if size_of(compaction) <= budget:
        return compaction
    stages = _Stages(exchanges, compaction)
    strongest = stages.at(stages.count)
    smallest = size_of(strongest)
    if smallest <= budget:
        # Each strength is smaller than the one before, except for the few tokens of a note.
        target = smallest + (budget - smallest) // 2
        strengths = range(stages.count + 1)
        first = bisect.bisect_left(strengths, -target, key=lambda n: -size_of(stages.at(n)))
        tried = map(stages.at, strengths[first:])
        return next((each for each in tried if size_of(each) <= budget), strongest)
    last_step = exchanges[-1].steps[-1:]
    if not last_step:
        return strongest
    for length in _LENGTHS:
        strongest = _truncated(strongest, last_step, length)
        if size_of(strongest) <= budget:
            break
    return strongest


class _Stages:
    """The first three stages as a series of compactions, each stronger than the one before.

    Attributes:
        count: The number of compactions after the given one.
    """

    def __init__(self, exchanges: Sequence[Exchange], compaction: Compaction) -> None:
        self._compaction = compaction
        first, *others = exchanges[compaction.dropped :]
        current = exchanges[-1]
        self._old_steps = first.steps[compaction.dropped_steps :]
        for exchange in others:
            self._old_steps += exchange.steps
        if current.steps:  # its last step is always sent
            del self._old_steps[-1:]
        self._exchanges_to_drop = len(others)
        steps_sent = len(current.steps)
        if not others:
            steps_sent -= compaction.dropped_steps
        self._steps_to_drop = max(steps_sent - 1, 0)
        self.count = len(self._old_steps) + self._exchanges_to_drop + self._steps_to_drop

    def at(self, strength: int) -> Compaction:
        """The compaction after this many changes; 0 is the given one."""
        truncations = min(strength, len(self._old_steps))
        result = _truncated(self._compaction, self._old_steps[:truncations], _OLD_LENGTH)
        strength -= truncations
        exchanges = min(strength, self._exchanges_to_drop)
        if exchanges:
            result = replace(result, dropped=result.dropped + exchanges, dropped_steps=0)
        steps = strength - exchanges
        return replace(result, dropped_steps=result.dropped_steps + steps)


def _truncated(compaction: Compaction, steps: Sequence[StepRecord], length: int) -> Compaction:
    """The compaction with the outcomes of these steps truncated at least to this length."""
    known = compaction.truncated
    lengths = {id_: min(length, known.get(id_, length)) for id_ in _call_ids(steps)}
    return replace(compaction, truncated={**known, **lengths})


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def messages_of(wire: Wire, exchanges: Sequence[Exchange]) -> list[Message]:
    """The conversation as messages that even a strict server accepts."""
    messages = [wire.system]
    for exchange in exchanges:
        messages += _messages(wire, exchange)
    return messages


def _messages(wire: Wire, exchange: Exchange) -> list[Message]:
    messages = [wire.question(exchange)]
    for step in exchange.steps:
        messages += wire.messages(step)
    if exchange.ending is not None:
        messages.append(wire.closing_message(exchange.closing_text))
    valid: list[Message] = replace_surrogates(messages)
    return valid


def _asides(wire: Wire, exchange: Exchange) -> dict[int, Json]:
    """Provider data of the replies of an exchange, by the index of the message."""
    if not (exchange.kept or any(step.kept or step.extras for step in exchange.steps)):
        return {}
    provider_metadata: dict[int, Json] = {}
    at = 1  # after the question
    for step in exchange.steps:
        messages = wire.messages(step)
        if aside := _aside(wire, step, messages):
            provider_metadata[at] = aside
        at += len(messages)
    if exchange.ending is not None and exchange.kept and wire.sends_replies:
        provider_metadata[at] = replace_surrogates(dict(exchange.kept))
    return provider_metadata


def _aside(wire: Wire, step: StepRecord, messages: Sequence[Message]) -> dict[str, Json]:
    """Provider data of the reply of a step, if the first message is that reply."""
    if not (wire.sends_replies and messages and messages[0]["role"] == "assistant"):
        return {}
    aside: dict[str, Json] = replace_surrogates(step.aside)
    return aside


class _Sent(NamedTuple):
    """The part of a conversation that is sent, as `ContextWindow` has it."""

    messages: tuple[Message, ...]
    tokens: int
    provider_metadata: dict[int, Json]


class ContextWindow:
    """The messages of a run, which grow with the record and are compacted if it is too long."""

    messages: list[Message]  # what is sent next
    tokens: int  # their estimated number of tokens
    tool_tokens: int  # estimated tokens of the tools that are sent in a separate field
    provider_metadata: dict[int, Json]  # see `AskModel.provider_metadata`

    def __init__(
        self,
        wire: Wire,
        past: Sequence[Exchange],
        exchange: Exchange,
        facts: ModelFacts,  # of the model; its context may be known only after the first reply
        reply_tokens: int,  # halved if a request was rejected for its length
        *,
        summarises: bool = False,  # whether a summary takes the place of what is dropped
    ) -> None:
        self._facts = facts
        self._summarises = summarises
        self.reply_tokens = reply_tokens
        self._exchange = exchange
        self._exchanges = [*past, exchange]
        self._uncompacted: _Sent | None = None  # what was to be sent before the last compaction
        if not exchange.steps and past and not exchange.hides_earlier_turns:
            exchange.compaction = _last_compaction(past, exchange)
        self.rebuild(wire)

    def rebuild(self, wire: Wire | None = None) -> None:
        """Rebuild the messages from the current record, with another protocol if given."""
        if wire is not None:
            self.use(wire)
        self.messages = [self._wire.system]
        self.tokens = message_tokens(self.messages)
        self.provider_metadata = {}
        for exchange in compacted_view(self._exchanges, self._exchange.compaction):
            messages, tokens, provider_metadata = self._cached_messages(exchange)
            start = len(self.messages)
            self.provider_metadata |= {start + at: aside for at, aside in provider_metadata.items()}
            self.messages += messages
            self.tokens += tokens

    def use(self, wire: Wire) -> None:
        """Go on with a protocol that writes the same messages, such as one with more tools."""
        self._wire = wire
        self._exchange.tool_specs = tuple(wire.tool_specs or ())
        self.tool_tokens = json_tokens(wire.tool_specs)

    def add(self, step: StepRecord) -> None:
        """Add the messages of a step that was added to the exchange."""
        more = replace_surrogates(self._wire.messages(step))
        if aside := _aside(self._wire, step, more):
            self.provider_metadata = {**self.provider_metadata, len(self.messages): aside}
            self.tokens += json_tokens(aside)
        self.messages += more
        self.tokens += message_tokens(more)

    def compact(self, *, after_refusal: bool = False) -> str:
        """Compact the messages if they are too long; return a notice for the user, or "".

        After a rejection, the limits of the messages and the reply are reduced by 1/4 and 1/2.
        """
        sent = self.tokens
        compaction = self._exchange.compaction
        why = "the conversation is too long"
        if after_refusal:
            why = "the conversation is too long for the endpoint"
            self.reply_tokens = max(self.reply_tokens // 2, 1)
            compaction = replace(compaction, max_tokens=max(sent * 3 // 4, 1))
        budget = self._budget(compaction.max_tokens)
        if sent <= budget:
            return ""
        found = compact_further(self._exchanges, compaction, budget, self._size)
        if self._summarises and found.place != compaction.place:
            budget -= _summary_tokens(budget)
            found = compact_further(self._exchanges, compaction, budget, self._size)
        found = self._recall(found, budget)
        self._exchange.compaction = found
        if self._exchange.compaction != compaction:
            self._uncompacted = _Sent(tuple(self.messages), sent, self.provider_metadata)
            self.rebuild()
            return (
                f"{why} (about {sent:,} tokens): its oldest parts are shortened or left out "
                f"(now {self.tokens:,})"
            )
        if not after_refusal:
            return ""
        # No further compaction is possible.
        self._exchange.compaction = replace(compaction, max_tokens=sent)
        return (
            f"{why}, and none of its {sent:,} tokens can be left out: asking again for a shorter "
            "reply"
        )

    def _recall(self, compaction: Compaction, budget: int) -> Compaction:
        """Repeat, below the question, descriptions that only the part had which is left out.

        Returns:
            The compaction; a stronger one where the repeated descriptions need room.
        """
        known = [each.code_place for each in self._exchanges if each.code_place]
        sent = self._exchanges[compaction.dropped :]
        if known and not any(each.code_place for each in sent):
            self._exchange.code_place = known[-1]
        context = self._exchange.context
        if context is None or not context.is_offered:
            return compaction
        while True:
            sent = self._exchanges[compaction.dropped : -1]
            left_out = self._exchanges[: compaction.dropped]
            self._exchange.context = recalled(context, left_out, sent)
            found = compact_further(self._exchanges, compaction, budget, self._size)
            if found.dropped == compaction.dropped:
                return found
            compaction = found

    def summary_requests(self, step: int) -> Iterator[AskModel]:
        """The requests for a summary of what is dropped, until one is given; maybe none.

        The first one extends the conversation as it was sent so far, which is cached, if there is
        room for it.
        """
        request = self._summary_request(step)
        if request is None:
            return
        extended = self._extended_by_summary(request)
        if extended is not None:
            yield extended
        yield request

    def _extended_by_summary(self, request: AskModel) -> AskModel | None:
        """The request for a summary after the conversation; None if there is no room for it."""
        before = self._uncompacted
        compaction = self._exchange.compaction
        if before is None or self._wire.name != "native":  # others need alternating roles
            return None
        asked = {"role": "user", "content": summary.request_for(self._exchanges, compaction.place)}
        context = self._facts.context_tokens or CONTEXT_TOKENS
        tokens = before.tokens + message_tokens([asked]) + (request.max_tokens or 0)
        room = min(context - self.tool_tokens - _MARGIN, compaction.max_tokens or context)
        if tokens > room:
            return None
        return replace(
            request,
            messages=(*before.messages, *replace_surrogates([asked])),
            tools=tuple(self._wire.tool_specs),
            provider_metadata=before.provider_metadata,
        )

    def _summary_request(self, step: int) -> AskModel | None:
        """The request with the text of what is dropped; None if none is wanted or possible."""
        compaction = self._exchange.compaction
        before = compaction.summary
        is_known = before is not None and before.place == compaction.place
        if not self._summarises or is_known or compaction.place == (0, 0):
            return None
        budget = self._budget(compaction.max_tokens)
        lengths = [(each, None) for each in (None, *_LENGTHS)]
        for length, whole in (*lengths, (_OLD_LENGTH, budget)):  # a token has several characters
            text = summary.prompt_for(self._exchanges, before, compaction.place, length, whole)
            messages = replace_surrogates([{"role": "user", "content": text}])
            if message_tokens(messages) <= budget:
                about = "summarising the beginning of the conversation"
                tokens = _summary_tokens(budget)
                return AskModel(step, tuple(messages), max_tokens=tokens, about=about)
        return None

    def summarise(self, text: str) -> None:
        """Let a text take the place of what is dropped."""
        compaction = self._exchange.compaction
        made = summary.summary_of(self._exchanges, compaction.place, text)
        self._exchange.compaction = replace(compaction, summary=made)
        self.rebuild()

    def _budget(self, max_tokens: int | None) -> int:
        """Maximum number of tokens in the messages; ``max_tokens`` is the endpoint's limit."""
        context = self._facts.context_tokens or CONTEXT_TOKENS
        # The conversation is not compacted to make room for a very long reply.
        reply = min(self.reply_tokens, max(context // 4, _MIN_REPLY))
        left = max(context - reply - self.tool_tokens - _MARGIN, context // 4)
        return min(left, max_tokens or left)

    def _size(self, exchanges: Sequence[Exchange]) -> int:
        system = message_tokens([self._wire.system])
        return system + sum(self._cached_messages(exchange)[1] for exchange in exchanges)

    def _cached_messages(self, exchange: Exchange) -> tuple[list[Message], int, dict[int, Json]]:
        """The messages of an exchange, their tokens, and what goes back with them, by index.

        They are cached when the exchange is complete. Thoughts of a model go only to this model.
        """
        is_own = exchange.model == self._exchange.model
        state = exchange.ending, len(exchange.steps), is_own
        cached_state, *parts = exchange.message_cache.get(self._wire.name, (None, [], 0, {}))
        messages, tokens, provider_metadata = parts
        if cached_state != state:
            messages = _messages(self._wire, exchange)
            tokens = message_tokens(messages)
            provider_metadata = _asides(self._wire, exchange) if is_own else {}
            if provider_metadata:
                tokens += json_tokens(list(provider_metadata.values()))
            if exchange.ending is not None:
                exchange.message_cache[self._wire.name] = state, messages, tokens, provider_metadata
        return messages, tokens, provider_metadata


def _summary_tokens(budget: int) -> int:
    """Maximum number of tokens of a summary, for a conversation of at most this many."""
    return min(summary.TOKENS, budget // 4)


def sent_with(past: Sequence[Exchange], model: str) -> Sequence[Exchange]:
    """The exchanges before a question to a model that are sent with it, and not left out."""
    return past[_last_compaction(past, Exchange("", model=model)).dropped :]


def _last_compaction(past: Sequence[Exchange], exchange: Exchange) -> Compaction:
    """The last compaction for the model of an exchange: another may have a longer context."""
    own = [each for each in past if each.model == exchange.model and not each.hides_earlier_turns]
    if not own:
        return Compaction()
    compaction = own[-1].compaction
    if compaction.summary is not None and not summary.is_valid(compaction.summary, past):
        return Compaction(max_tokens=compaction.max_tokens)
    if compaction.dropped >= len(past):  # exchanges may have been removed since then
        return replace(compaction, dropped=len(past), dropped_steps=0)
    return compaction
