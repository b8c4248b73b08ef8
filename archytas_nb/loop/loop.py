"""The ReAct loop, without input or output: it yields requests, is sent replies and returns an ending.

It may know the values of a run, the record, the guards and a wire form that it is given. It may not know a model,
a kernel, a clock or a screen. A driver answers each request:

    AskModel → ModelReply | NoReply        CheckAnswer → Verdict | NoReply
    RunCalls → CallOutcomes                Notice → nothing

So it can be driven by hand with ``.send``, and recorded replies reproduce an equal stream of events.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from archytas_nb.loop.calling import run_calls
from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CheckAnswer,
    Ending,
    Failed,
    Interrupted,
    ModelReply,
    NoReply,
    Notice,
    Reply,
    Request,
    Stopped,
    Verdict,
)
from archytas_nb.loop.guards import Guards
from archytas_nb.loop.history import Exchange, Step
from archytas_nb.loop.sending import Room, Sending
from archytas_nb.loop.tokens import message_tokens, texts_of
from archytas_nb.loop.verify import KNOWN, EndCheck, Fit, fit, known, unused, verdict
from archytas_nb.loop.wire import (
    ANSWER,
    FAIL,
    Action,
    AskOptions,
    Wire,
    as_text,
    messages_of,
    not_accepted,
)

Flow: TypeAlias = Generator[Request, Reply, Ending]

LAST_SECONDS = 30.0
"""What the last turn may take where the run's time is over."""


def react_loop(
    wire: Wire,
    guards: Guards,
    past: Sequence[Exchange],
    exchange: Exchange,
    *,
    checks: bool = False,
    room: Room | None = None,
) -> Flow:
    """Run one question to its ending.

    Args:
        wire: The wire form to speak.
        guards: Budgets and repetition, fresh for this run.
        past: The exchanges before this one.
        exchange: This one; its steps are filled in while the loop goes on, so that a driver that is
            stopped at any point still holds a record in which each call has its outcome.
        checks: Whether answers are checked before they count.
        room: How much the model can take; None where nothing is known of it.

    Yields:
        Requests for the driver.

    Returns:
        The ending, which is also set on the exchange.
    """
    loop = _Loop(wire, guards, past, exchange, room or Room(), checks=checks)
    ending = yield from loop.flow()
    exchange.ending = ending
    return ending


class _Loop:
    """One question on its way to an ending."""

    def __init__(
        self,
        wire: Wire,
        guards: Guards,
        past: Sequence[Exchange],
        exchange: Exchange,
        room: Room,
        *,
        checks: bool,
    ) -> None:
        self.wire = wire
        self.guards = guards
        self.past = past
        self.exchange = exchange
        self.checks = checks
        self.fitting = Fit()
        self.end_check = EndCheck()
        self.sending = Sending(
            wire, past, exchange, room, guards.limits.reply_tokens(small=guards.small)
        )
        self.thinking_tokens = guards.limits.thinking_tokens(small=guards.small)
        self.cuts = 0  # replies in a row that were cut off for their length

    def flow(self) -> Flow:
        """Step by step, until there is an ending."""
        if isinstance(unfit := (yield from self._fit()), NoReply):
            return (yield from self._no_reply(unfit))
        in_prose = False  # whether the last reply was plain text where an action was expected
        while not (limit := self.guards.limit_reached()):
            reply = yield from self._asked()
            if isinstance(reply, NoReply):
                return (yield from self._no_reply(reply))
            self.guards.steps += 1
            action = self._read(reply, prose_is_answer=in_prose)
            if action.repaired:
                yield Notice("repair", action.repaired)
            in_prose = action.prose and not action.cut
            self.cuts = self.cuts + 1 if action.cut else 0
            ending = yield from self._cut(action, reply) if action.cut else self._acted(action)
            if ending is not None:
                return ending
        return (yield from self._last_turn(limit))

    def _fit(self) -> Generator[Request, Reply, NoReply | None]:
        """Ask a small model whether some tool fits, and tell it with the question where none does."""
        if not self.guards.small or self.past or self.exchange.steps:
            return None
        self.guards.limit_reached()  # the clock runs from here on
        judging = fit(self.exchange.question, self.wire.tools, self.guards.seconds_left())
        try:
            request = next(judging)
            while True:
                said = yield from self._judged_by(request)
                if isinstance(said, NoReply):
                    return said
                request = judging.send(said)
        except StopIteration as over:
            self.fitting = over.value
        if self.fitting.remark:
            self.exchange.remark = self.fitting.remark
            self.sending.remake()
            yield Notice(
                "repair", f"no tool seems to fit; the model is told: {self.exchange.remark}"
            )
        return None

    def _judged_by(self, request: AskModel) -> Generator[Request, Reply, str | NoReply]:
        """Ask for a yes or no about the question."""
        reply = yield request
        if isinstance(reply, NoReply):
            return reply
        return verdict(self._counted(reply, message_tokens(request.messages)).text)

    def _unfit(self) -> list[str]:
        """What is not offered for the first reply: a remark alone does not keep a small model from calling."""
        if not self.exchange.remark or self.guards.steps:
            return []
        return [*self.wire.tools, FAIL if self.exchange.remark == KNOWN else ANSWER]

    def _asked(self, last: str = "") -> Generator[Request, Reply, Reply]:
        """Ask the model; where its context is too small, once more with less."""
        if said := self.sending.fit():
            yield Notice("compaction", said)
        reply = yield self._request(last)
        if isinstance(reply, NoReply) and reply.kind == "overflow":
            yield Notice("compaction", self.sending.fit_harder())
            reply = yield self._request(last)
        return reply

    def _request(self, last: str) -> AskModel:
        away = () if last else (*self.guards.taken_away, *self._unfit())
        seconds = self.guards.seconds_left()
        if last and seconds is not None:
            seconds = max(seconds, LAST_SECONDS)
        sending = self.sending
        options = AskOptions(
            sending.reply_tokens,
            away,
            last,
            self.exchange.form,
            seconds,
            sending.asides,
        )
        request = self.wire.ask(self.guards.steps + 1, sending.messages, options)
        return replace(request, thinking_tokens=self.thinking_tokens)

    def _read(self, reply: Reply, *, prose_is_answer: bool) -> Action:
        reply = self._counted(reply, self.sending.tokens + self.sending.beside)
        return self.wire.read(reply, prose_is_answer=prose_is_answer, form=self.exchange.form)

    def _counted(self, reply: Reply, sent: int) -> ModelReply:
        if not isinstance(reply, ModelReply):
            raise TypeError(
                f"the loop asked the model and was sent {reply!r}; expected ModelReply or NoReply"
            )
        self.guards.spend(reply, sent)
        return reply

    def _acted(self, action: Action) -> Generator[Request, Reply, Ending | None]:
        """Do what a reply says; None where the run goes on."""
        doubt = yield from self._doubt(action)
        if isinstance(doubt, NoReply):
            return (yield from self._no_reply(doubt))
        if doubt:
            yield Notice("repair", f"the model is asked once before its end counts: {doubt}")
            self._add(_corrected(action, doubt))
            return None
        if action.fault:
            self.guards.note_fault()
            self._add(_corrected(action, action.fault))
            return None
        step = yield from run_calls(self.guards, action, (len(self.past) + 1, self.guards.steps))
        if step.calls:
            self._add(step)
        if any(outcome.status == "interrupted" for outcome in step.outcomes):
            return Interrupted("a tool")
        if action.answers:
            return (yield from self._judged(action))
        return None if action.failure is None else Failed(action.failure)

    def _cut(self, action: Action, reply: Reply) -> Generator[Request, Reply, Ending | None]:
        """Go on after a reply that was cut off for its length; None where it is asked for once more.

        An answer is kept as far as it came. A call may be made again with less in it, once, and a small model may
        answer in fewer words. A model that has reasoned until it was cut would only do so again.
        """
        at, move = self._cut_at(reply)
        text = as_text(action.answer) if action.answers else action.thought if action.prose else ""
        if action.cut == "reasoning":
            return Stopped(f"reply {at}, all of them reasoning{move}", cut=True)
        stopped = Stopped(f"reply {at}{move}", text, cut=True)
        is_over = self.cuts > 1 or (action.answers and not self.guards.small)
        if is_over and not action.calls:
            return stopped
        if not is_over and not action.unread:  # of a call that is not run there is a notice anyway
            yield Notice("repair", f"the reply was {at}: the model is asked once more, for less")
        retried = replace(action, thought=action.thought or text[:500], answer=None, null=False)
        ending = yield from self._acted(retried)
        return stopped if ending is None and is_over else ending

    def _judged(self, action: Action) -> Generator[Request, Reply, Ending | None]:
        """Have an answer checked; None where another one is asked for."""
        if self.checks:
            verdict = yield CheckAnswer(self.guards.steps, action.answer)
            if isinstance(verdict, NoReply):
                return Interrupted("the check of the answer")
            if not isinstance(verdict, Verdict):
                raise TypeError(
                    f"the loop asked for an answer to be checked and was sent {verdict!r}; expected Verdict"
                )
            if verdict.fault:
                self.guards.note_fault()
                self._add(_corrected(action, not_accepted(action.answer, verdict.fault)))
                return None
        return Answered(as_text(action.answer), action.thought)

    def _last_turn(self, limit: str) -> Flow:
        """Let the model say, without tools, what it has: a limit must not throw away what was found."""
        yield Notice(
            "limit", f"the limit {limit} is reached: the model is asked to say what it has"
        )
        reply = yield from self._asked(limit)
        if isinstance(reply, NoReply):
            return (
                (yield from self._no_reply(reply))
                if reply.kind == "interrupted"
                else Stopped(limit)
            )
        action = self._read(reply, prose_is_answer=True)
        if action.cut:
            limit = f"{limit}; the last reply was {self._cut_at(reply)[0]}"
        if not action.answers:
            return Stopped(limit, as_text(action.failure or action.thought))
        # An answer that is accepted is the run's value; a fault changes nothing any more.
        if self.checks and not action.cut:
            verdict = yield CheckAnswer(self.guards.steps, action.answer)
            if isinstance(verdict, NoReply):
                return Interrupted("the check of the answer")
        return Stopped(limit, as_text(action.answer))

    def _cut_at(self, reply: Reply) -> tuple[str, str]:
        """At how many tokens a reply was cut, and the next move; where the server counts none, at our limit."""
        asked = self.sending.reply_tokens
        most = max(asked, self.thinking_tokens or 0)
        tokens = min((isinstance(reply, ModelReply) and reply.usage.output_tokens) or asked, most)
        move = "; raise max_reply_tokens for a longer one"
        if tokens not in (asked, most):
            move = f", fewer than max_reply_tokens={asked}: the endpoint allows no more, or its context is full"
        return f"cut at {tokens} tokens", move

    def _no_reply(self, reply: NoReply) -> Flow:
        if reply.kind == "interrupted":
            return Interrupted("a request to the model")
        if reply.kind == "deadline":
            limit = f"max_seconds={self.guards.limits.max_seconds or 0:g}"
            yield Notice("limit", f"the limit {limit} is reached while the model is asked")
            # Half a JSON object says nothing to a person, half a text does.
            return Stopped(limit, reply.text if self.wire.name == "native" else "")
        if reply.kind == "overflow":
            return Failed(_too_long(reply.text, self.sending.tokens), by="endpoint")
        return Failed(reply.text, by="endpoint")

    def _add(self, step: Step) -> None:
        self.exchange.steps.append(step)
        self.sending.add(step)

    def _doubt(self, action: Action) -> Generator[Request, Reply, str | NoReply]:
        """What a small model is told once instead of ending; calls beside an end are run first."""
        if (
            not self.guards.small
            or action.calls
            or not (action.answers or action.failure is not None)
        ):
            return ""
        if self.exchange.remark and not self.exchange.steps:
            return ""  # it is what it was told to do
        if action.answers and self.fitting.tool and not self.exchange.steps:
            tool, self.fitting = self.fitting.tool, Fit()
            said = yield from self._judged_by(
                known(self.exchange.question, self.guards.seconds_left())
            )
            if isinstance(said, NoReply) or said != "yes":
                return said if isinstance(said, NoReply) else unused(tool)
        answer = as_text(action.answer) if action.answers else None
        return self.end_check.correction(answer, self._told, just_failed=self.guards.just_failed)

    def _told(self) -> Iterator[str]:
        """All that the model was told, also what is not sent any more; the example of the prompt is not meant."""
        yield from (tool.text for tool in self.wire.tools.values())
        for message in messages_of(self.wire, [*self.past, self.exchange]):
            if message["role"] in ("user", "tool"):
                yield from texts_of(message)


def _corrected(action: Action, correction: str) -> Step:
    return Step(action.thought, correction=correction, reasoning=action.reasoning)


def _too_long(said: str, tokens: int) -> str:
    move = (
        "Begin anew with agent.reset(), ask for less at once, or use a model with a longer context."
    )
    return (
        f"the conversation is too long for the model even where only what is needed is sent, about {tokens:,} "
        f"tokens: {said}{'' if 'agent.reset()' in said else f' {move}'}"
    )
