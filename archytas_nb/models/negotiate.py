"""Finds a form of a request that the endpoint takes: what it refuses is found by leaving it out.

A refusal is about the request if its status says so (`_ABOUT_REQUEST`), or if the server fails
again and again. Then a `Search` sends the request without some of its features (`features.py`), at
most `MOST_REQUESTS` times; refused requests cost nothing. Its states:

    | state | what was sent                      | after another refusal                           |
    |-------|------------------------------------|-------------------------------------------------|
    | words | the request without what the words | words: if these are the same, with it again     |
    |       | of the refusal speak of            |                                                 |
    | rare  | without all that few requests have | words, all                                      |
    | all   | without all features but tools     | words, text                                     |
    | text  | in the text protocol, with all     | words, all                                      |
    |       | that is not known to be refused    |                                                 |
    | over  | the smallest request               | the run ends with this refusal                  |

Chat completions and the Responses API are two forms of the same request: the other one is tried
where the words speak of it, and where the status says that this one is missing.

The words of a refusal only decide what is tried first. What was left out in a group is given back
with the next requests of the question, part by part, until it is known which of it is refused. The
result is the form of all further requests, and is kept for later processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, NamedTuple, NoReturn, TypeAlias

from archytas_nb.errors import ModelError, ModelErrorKind
from archytas_nb.loop.events import REFUSED, AskModel, Message, ModelReply, Notice, Usage
from archytas_nb.loop.model import ReplyStream
from archytas_nb.loop.reading.reply import read_action
from archytas_nb.loop.tokens import message_tokens
from archytas_nb.models import refusals
from archytas_nb.models.body import continues, reply_tokens
from archytas_nb.models.capabilities import Capabilities, Change, Conversation, InText
from archytas_nb.models.features import NAMED, SPOKEN_OF, Request, changes_of, images_in
from archytas_nb.words import truncate_middle, without_values

MOST_REQUESTS = 6
"""How many further requests a search makes at most."""
_ABOUT_REQUEST = frozenset({400, 404, 413, 415, 422, 501})
_MAYBE_ABOUT_REQUEST = frozenset({500})
"""Statuses with which servers fail, and some refuse: llama.cpp, Ollama and gateways."""
_MISSING = frozenset({404, 405, 501})
"""Statuses of an address that a server does not have."""
_FAILURES = 2
"""This many such failures in a row are taken for a refusal."""
_USUAL_CONTEXT = 8192
"""The context in tokens of a model of which nothing is known."""
_VAIN_SECONDS = 30.0
"""Minimum time between two searches that find nothing: the request may be one of thousands."""
_PASSED = 7
"""Number of kinds of accepted requests that are known again, besides the last."""
_MAX_LISTED = 300
"""Maximum number of characters of the list of features that were left out without success."""
_NO_TOOLS = Change(
    "tools", "", lambda form: replace(form, tools=False), "tools", "the text protocol offers tools"
)

Keep: TypeAlias = Callable[[Capabilities, Sequence[Change], Sequence[Change]], None]
"""Keeps what was learnt: the form before, the changes that it needs, and those that it does not."""


class Found(NamedTuple):
    """The conclusions from a reply about the form of its request.

    Attributes:
        before: The known capabilities, without the changes.
        needed: The changes of the form, which are needed.
        doubted: The ones of them that are perhaps not needed.
        dropped: Earlier changes that are not needed after all.
        is_sure: Whether it is so; otherwise the server may only have failed for a while.
    """

    before: Capabilities
    needed: Sequence[Change] = ()
    doubted: Sequence[Change] = ()
    dropped: Sequence[Change] = ()
    is_sure: bool = True

    def notices(self) -> Iterator[Notice]:
        """The notices for a person about lost and regained features."""
        lost = [change.told for change in self.needed if change.told and change != _NO_TOOLS]
        given_back = [change.told for change in self.dropped if change.told]
        if lost:
            text = f"the endpoint refused the request, so {'; '.join(lost)}"
            if self.doubted:
                text += " (the next requests show which of these changes are necessary)"
            yield Notice("form", text)
        if given_back:
            text = "; ".join(given_back)
            yield Notice(
                "form", f"the endpoint accepts this now, so this no longer applies: {text}"
            )


def adapt_request(
    once: Callable[[Capabilities], ReplyStream],
    ask: AskModel,
    capabilities: Capabilities,
    fields: Mapping[str, Any] | None = None,
    *,
    stream: bool,
    lacks: frozenset[str] = frozenset(),
    is_known: Callable[[], bool] = lambda: True,
    keep: Keep = lambda _before, _needed, _dropped: None,
) -> ReplyStream:
    """Send a request; if the endpoint refuses it, find a form that it takes.

    Args:
        once: Sends the request in one form; raises `ModelError` if it fails.
        ask: The request.
        capabilities: The known capabilities; after a reply, also the learnt ones.
        fields: The user's own fields; those of ours that may be left out have no value.
        stream: Whether a stream is wanted.
        lacks: Features that the API does not have.
        is_known: Whether the endpoint has this model, after a refusal with 404.
        keep: Keeps what was learnt.

    Raises:
        ModelError: It failed otherwise, or nothing that can be left out makes a difference; of the
            kind ``"no_tools"`` if the text protocol is to be tried.
    """
    request = Request(ask, fields or {}, stream, lacks)
    search = Search(capabilities, request, is_known)
    usage = Usage()
    requests = 0
    while True:
        requests += 1
        try:
            reply = yield from once(search.form)
        except ModelError as failed:
            search.after(failed)
            continue
        form = search.form
        _note_reply(reply, ask, form)
        found = search.accepted()
        if found.is_sure and (found.needed or found.dropped):
            keep(found.before, found.needed, found.dropped)
        yield from found.notices()
        if found.is_sure:
            capabilities.take(form)
        usage += reply.usage
        longer = _form_after_reasoning(reply, ask, form)
        if longer is None:
            if requests == 1:
                return reply
            return replace(reply, usage=usage)
        yield Notice(
            "retry", "the reply was truncated during reasoning; asking again with a higher limit"
        )
        search = Search(capabilities, request, is_known)
        search.form = longer


def _form_after_reasoning(
    reply: ModelReply, ask: AskModel, form: Capabilities
) -> Capabilities | None:
    """The form with room for an answer after a reply of only reasoning; None if it is the same."""
    if ask.max_tokens is None or not _reasoning_only(reply):
        return None
    longer = replace(form, thinks=True)
    if reply_tokens(ask, longer) > reply_tokens(ask, form):
        return longer
    return None


def _reasoning_only(reply: ModelReply) -> bool:
    """Whether a truncated reply contains only reasoning."""
    text = reply.text.lstrip()
    is_empty = not text and (reply.reasoning or not reply.text)
    is_thought = is_empty or (text.startswith("<think") and "</think" not in text)
    return reply.finish == "length" and not reply.calls and bool(is_thought)


def _note_reply(reply: ModelReply, ask: AskModel, form: Capabilities) -> None:
    """Note in the form how the model calls tools."""
    if reply.calls:
        # A call in the text may then be an example.
        form.calls = "native"
    elif ask.tools and form.calls == "unknown" and reply.finish != REFUSED:
        functions = [each["function"] for each in ask.tools]
        schemas = {each["name"]: each.get("parameters") for each in functions}
        if read_action(reply.text, schemas, prose_is_answer=True, strict=True).calls:
            form.calls = "in_text"


class Search:
    """The search for a form of one request; see the table above.

    Attributes:
        form: The form of the next request.
    """

    def __init__(
        self, capabilities: Capabilities, request: Request, is_known: Callable[[], bool]
    ) -> None:
        self._capabilities = capabilities
        self._seen = capabilities.seen
        self._request = request
        self._is_known = is_known
        self._before = replace(capabilities)
        self._refusal: ModelError | None = None  # the last one
        self._words = ""  # of the last refusal, without what differs between two of a kind
        self._step: tuple[Change, ...] = ()  # the last one
        self._is_by_words = False  # whether the words spoke of it
        self._taken: list[Change] = []  # what the form is without
        self._needed: list[Change] = []  # of these, those whose refusal was followed by another
        self._tried: set[Change] = set()  # alone, which did not change the words
        self._used = 0  # further requests
        self._is_about_tools = False  # whether tools are refused with and without what was added
        self._is_failure = False  # whether the server failed, without words about a feature
        self._trial: tuple[Change, ...] = ()  # what is given back, to see whether it is needed
        self._resume()
        self.form = self._before.with_changes(self._taken)
        self._begin_trial()

    def _resume(self) -> None:
        """Go on with a search that found no form with tools, unless there are tools again."""
        earlier = self._seen.in_text
        if earlier is None:
            return
        if self._request.ask.tools:
            self._capabilities.tools = self._before.tools = True
            self._seen.in_text = None
            return
        self._before, needed, self._used = earlier
        self._needed = list(needed)
        self._taken = list(needed)

    # ── after a reply ─────────────────────────────────────────────────────────────────────────────

    def accepted(self) -> Found:
        """Note that the form was accepted."""
        seen = self._seen
        before = self._before
        needed = list(self._taken)
        if seen.in_text is not None:
            before = replace(before, tools=True)
            needed.append(_NO_TOOLS)
        seen.in_text = None
        seen.failures = 0
        seen.vain = None
        seen.is_too_long = False
        seen.last = read_on(self._request.ask.messages, seen.last)
        seen.largest = max(seen.largest, seen.last.characters)
        if self._is_failure and self._taken and not seen.unconfirmed:
            seen.unconfirmed = tuple(self._taken)
            return Found(before, needed, is_sure=False)
        seen.unconfirmed = ()
        proven = {*self._needed, *(self._step if len(self._step) == 1 else ())}
        doubted = [each for each in self._taken if each not in proven]
        if doubted:
            half = (len(doubted) + 1) // 2
            seen.doubted = [each for each in (tuple(doubted[:half]), tuple(doubted[half:])) if each]
            seen.refusals_left = MOST_REQUESTS - self._used
            seen.base = before
        self._note_accepted()
        return Found(before, needed, doubted, self._trial)

    def _note_accepted(self) -> None:
        """Note the features of the request that was accepted; nearly all requests have the same."""
        ask, seen = self._request.ask, self._seen
        images = images_in(ask, self.form) if seen.last.has_images else None
        passed = (
            ask.tools, ask.schema, bool(ask.provider_metadata), images, seen.last.has_null,
            self.form.changes,
        )  # fmt: skip
        if passed not in seen.passed:
            seen.passed = [*seen.passed[-_PASSED:], passed]
            seen.accepted |= {each.sent for each in changes_of(self._request, self.form, "")}

    # ── giving back ───────────────────────────────────────────────────────────────────────────────

    def _begin_trial(self) -> None:
        """Give some changes back that may not be needed, with a later request of the question."""
        seen = self._seen
        ask = self._request.ask
        if ask.step == 1 and not ask.is_side_request:
            # Another question begins, which is not to be refused.
            seen.doubted = []
        if not seen.doubted or seen.base is None or ask.is_side_request or seen.refusals_left <= 0:
            return
        self._trial = seen.doubted.pop()
        kept = [each for each in self.form.changes if each not in self._trial]
        found = seen.base.with_changes(kept)
        known = self._capabilities
        self.form = replace(
            found, tools=known.tools, calls=known.calls, thinks=known.thinks,
            context_tokens=known.context_tokens, grammars=known.grammars,
        )  # fmt: skip

    def _end_trial(self) -> None:
        """Record that at least one of the restored features is refused."""
        seen = self._seen
        seen.refusals_left -= 1
        trial, self._trial = self._trial, ()
        if len(trial) > 1:
            half = len(trial) // 2
            seen.doubted += [trial[:half], trial[half:]]
        self.form = replace(self._before)

    # ── after a refusal ───────────────────────────────────────────────────────────────────────────

    def after(self, failed: ModelError) -> None:
        """Choose the next form after a failure.

        Raises:
            ModelError: There is none.
        """
        if failed.kind == "overflow":
            known = refusals.context_tokens(failed.refusal) or self._capabilities.context_tokens
            for each in (self._capabilities, self._before, self.form):
                each.context_tokens = known
        if not self._is_refusal(failed):
            if self._refusal is not None and failed.kind == "bad_reply":
                failed = self._refusal  # it cannot be asked so, and this is why it was
            raise failed from None
        before, self._refusal = self._refusal, failed
        if self._trial:
            self._end_trial()
            return
        if before is not None and self._is_missing(failed):
            failed = self._refusal = before
            if before.status in _MISSING and not self._is_known():
                raise before from None
        step = self._next(failed)
        if not step:
            self._give_up(failed)
        self._used += 1
        self._step = step
        self._taken += [each for each in step if each not in self._taken]
        self.form = self._before.with_changes(self._taken)

    def _is_refusal(self, failed: ModelError) -> bool:
        """Whether a failure is about the request, and other forms of it are to be tried."""
        status = failed.status
        seen = self._seen
        if self._has_changed_api and status in _MISSING:
            return True
        if self._trial or self._used:
            return status in _ABOUT_REQUEST or status in _MAYBE_ABOUT_REQUEST
        if failed.kind == "overflow" or status == 402:
            # 402 means that there is no credit.
            if self._limits(failed.refusal):
                return True
            says_how_long = refusals.context_tokens(failed.refusal) is not None
            if failed.kind != "overflow" or says_how_long or not seen.is_too_long:
                seen.is_too_long = failed.kind == "overflow"
                return False
        if self._other_api(failed):
            return True
        if status in _MAYBE_ABOUT_REQUEST and not self._is_spoken_of(failed.refusal):
            seen.failures += 1
            self._is_failure = True
            return bool(seen.unconfirmed) or seen.failures >= _FAILURES
        if status == 404 and not seen.has_replied:
            # It may also be an unknown path or model.
            return self._is_spoken_of(failed.refusal) or self._is_known()
        return status in _ABOUT_REQUEST or status in _MAYBE_ABOUT_REQUEST

    @property
    def _has_changed_api(self) -> bool:
        """Whether the last step was to use the other API."""
        return [each.feature for each in self._step] == ["api"]

    def _is_missing(self, failed: ModelError) -> bool:
        """Whether the API that was tried last is missing; then it is not tried again."""
        if not self._has_changed_api:
            return False
        if failed.status not in _MISSING and self._is_spoken_of(failed.refusal):
            return False
        self._undo(self._step)
        self._step = ()
        return True

    def _other_api(self, failed: ModelError) -> tuple[Change, ...]:
        """Chat completions, if the status says that the Responses API is missing."""
        if failed.status not in _MISSING or not self.form.responses:
            return ()
        found = self._candidates("")
        return tuple(each for each in found if each.feature == "api" and each not in self._tried)

    def _is_spoken_of(self, text: str) -> bool:
        return any(self._counts(each) for each in self._candidates(text))

    def _limits(self, text: str) -> tuple[Change, ...]:
        """A limit of the reply with which the request fits, as the text says."""
        limit = self._request.limit(self.form)
        if limit is None or refusals.room_for_reply(text, limit) is None:
            return ()
        found = self._candidates(text)
        return tuple(each for each in found if each.key[0] == "limit" and each.is_number)[:1]

    def _candidates(self, text: str) -> list[Change]:
        found = changes_of(self._request, self.form, text)
        return [each for each in found if each not in self._taken]

    def _next(self, failed: ModelError) -> tuple[Change, ...]:
        """The next features to leave out; empty if there are none left.

        Raises:
            ModelError: The text protocol is to be tried, or a shorter conversation.
        """
        text = failed.refusal
        self._judge_last(text)
        candidates = self._candidates(text)
        new = [each for each in candidates if each.sent not in self._seen.accepted]
        spoken = [each for each in candidates if each not in self._tried and self._counts(each)]
        if not spoken and not new and self._is_grown():
            raise self._too_long(failed) from None
        if self._is_about_tools:
            raise self._without_tools(failed) from None
        if other := self._other_api(failed):
            return other
        if self._is_vain(new):
            return ()
        if self._is_failure and not self._used and self._seen.unconfirmed:
            return self._seen.unconfirmed
        if limit := self._limits(text):
            return limit
        has_tools = any(each.feature == "tools" for each in new)
        groups = [each for each in new if each.is_grouped and each.feature != "tools"]
        # One request is kept for all groups together, and two for the text protocol, so that the
        # words of refusals do not use up all of them.
        left = MOST_REQUESTS - self._used - bool(groups) - 2 * has_tools
        if spoken and left > 0:
            step = _most_spoken_of(spoken)
            self._is_by_words = True
        else:
            step = self._group(groups, is_last=left <= 0)
        is_about_tools = any(each.feature == "tools" for each in step)
        may_be_about_tools = not step and has_tools and self._request.ask.has_text_form
        if is_about_tools or may_be_about_tools:
            raise self._without_tools(failed) from None
        return step

    def _group(self, changes: Sequence[Change], *, is_last: bool) -> tuple[Change, ...]:
        """All of these changes that few requests have, if there are any, or all of them."""
        rare = tuple(each for each in changes if each.is_rare)
        if rare and len(rare) < len(changes) and not is_last:
            return rare
        if self._used >= MOST_REQUESTS:
            return ()
        form = self._before.with_changes([*self._taken, *changes])
        further = [  # a schema can be simplified twice
            each
            for each in changes_of(self._request, form, "")
            if each.is_grouped and each.feature != "tools" and each.sent not in self._seen.accepted
        ]
        return (*changes, *further) if changes else ()

    def _judge_last(self, text: str) -> None:
        """The verdict on the last step, from the words of the error after it."""
        words = without_values(text)
        added = [
            each.adds for each in self._step if each.adds and each.adds not in self._request.fields
        ]
        if added and re.search(rf"(?<!\w){added[0]}(?!\w)", text):
            # The endpoint refuses the added field, and has refused the request without it.
            self._undo(self._step)
            self._is_about_tools = True
        elif self._is_by_words and words == self._words:
            self._undo(self._step)
        elif len(self._step) == 1 and words != self._words:
            self._needed += self._step
        self._words = words
        self._step = ()
        self._is_by_words = False

    def _counts(self, change: Change) -> bool:
        """Whether the words speak of a feature enough to leave it out alone."""
        if change.sent in self._seen.accepted:
            # A gateway may ask another server by now.
            return change.score >= NAMED
        return change.score >= SPOKEN_OF

    def _undo(self, step: Sequence[Change]) -> None:
        self._tried.update(step)
        self._taken = [each for each in self._taken if each not in step]
        self.form = self._before.with_changes(self._taken)

    def _is_vain(self, new: Sequence[Change]) -> bool:
        """Whether all of these were left out without success a moment ago."""
        vain = self._seen.vain
        if vain is None or self._used:
            return False
        keys, at = vain
        return monotonic() - at < _VAIN_SECONDS and {each.key for each in new} <= keys

    def _is_grown(self) -> bool:
        """Whether the conversation is larger than any that was accepted, and a long one."""
        seen = self._seen
        if seen.is_too_long:
            return False
        messages = self._request.ask.messages
        if read_on(messages, seen.last).characters <= seen.largest:
            return False
        context = self._capabilities.context_tokens or _USUAL_CONTEXT
        return message_tokens(messages) > context // 4

    def _too_long(self, failed: ModelError) -> ModelError:
        """The refusal of a conversation that may be too long."""
        self._seen.is_too_long = True
        return _as_kind(failed, "overflow", "The conversation may be too long for it.")

    def _without_tools(self, failed: ModelError) -> ModelError:
        """The refusal of a request that is to be made in the text protocol."""
        before = replace(self._before, tools=False)
        self._seen.in_text = InText(before, tuple(self._needed), self._used + 1)
        self._capabilities.tools = False
        if failed.kind == "no_tools":
            return failed
        return _as_kind(failed, "no_tools", "It may refuse tools: use protocol='react'.")

    def _give_up(self, failed: ModelError) -> NoReturn:
        """Raise the error for the smallest request that was refused."""
        seen = self._seen
        new = changes_of(self._request, self._before, "")
        seen.vain = (frozenset(each.key for each in new), monotonic())
        is_in_text = seen.in_text is not None
        if is_in_text:
            seen.in_text = None
            self._capabilities.tools = True
        if self._is_grown():
            raise self._too_long(failed) from None
        tried = list(dict.fromkeys(each.what for each in self._taken))
        if is_in_text:
            tried.append("tools")
        if tried:
            less = truncate_middle(", ".join(tried), _MAX_LISTED)
            failed = failed.with_advice(f"It was refused without these as well: {less}.")
        raise failed from None


def read_on(messages: tuple[Message, ...], before: Conversation) -> Conversation:
    """Read a conversation, and of one that goes on after an earlier one only what is new."""
    if not continues(messages, before.messages):
        before = Conversation()
    new = messages[len(before.messages) :]
    return Conversation(
        messages,
        before.characters + sum(len(each.get("content") or "") for each in new),
        before.has_images or bool(refusals.count_images(new)),
        before.has_null or any(each.get("content") is None for each in new),
    )


def _most_spoken_of(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The change that a refusal names, or all of the feature that it speaks of."""
    best = max(each.score for each in changes)
    first = next(each for each in changes if each.score == best)
    if best >= NAMED:
        return (first,)
    return tuple(each for each in changes if each.feature == first.feature)


def _as_kind(failed: ModelError, kind: ModelErrorKind, advice: str) -> ModelError:
    """The same failure as one of another kind."""
    return ModelError(
        f"{failed} {advice}",
        kind=kind,
        status=failed.status,
        refusal=failed.refusal,
        may_be_paid=failed.may_be_paid,
    )
