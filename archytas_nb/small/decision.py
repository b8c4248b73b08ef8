"""The first decision of a small model: whether what is there fits the question at all.

A small model that has a table or a tool uses it, whatever is asked. So it decides first, in one
request of one token: the question can be answered with what is there, or it cannot, or there is no
question. How probable each of these is, and not the most probable one alone, decides: a question is
only refused where the model is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from archytas_nb.loop.events import Answered, AskModel, Ending, Failed, ModelReply, Requests
from archytas_nb.loop.odds import WHOLE, odds_of
from archytas_nb.loop.reading.thoughts import split_thoughts
from archytas_nb.loop.strategy import RunningLoop
from archytas_nb.loop.wire import ToolCard
from archytas_nb.small.checks import MAX_QUESTION, MAX_TOOLS

FITS, LACKS, TALK = "yes", "no", "talk"
"""What the model replies."""

SURE_OF_TALK = 0.5
"""From which probability on a message is taken for one that asks for nothing."""
LEAST_FIT = {"data": 0.42, "tools": 0.24}
"""Below which probability that it fits, a question is refused.

Six tenths of the lowest one of the questions that can be answered in one half of the messages of
`benchmarks.success.refusals`; the other half judges them.
"""
_TALK = "Reply in one short sentence, in the language of the message. You cannot do anything else."
_TALK_TOKENS = 60
_OPTIONS = {"enum": [FITS, LACKS, TALK]}
_ALTERNATIVES = 20
_GRAMMAR = f'root ::= "{FITS}" | "{LACKS}" | "{TALK}"'
_RULES = (
    "You decide whether the message of a user can be answered by computing with the data, or by "
    "calling the functions, that are listed.\n"
    f"Reply {FITS} if the listed data or functions have what is asked for.\n"
    f"Reply {LACKS} if what is asked for is in none of them.\n"
    f"Reply {TALK} if the message is a greeting or thanks and asks for nothing."
)


def first_decision(
    loop: RunningLoop, knows: Callable[[], Requests[bool]]
) -> Requests[Ending | None]:
    """Decide about a question: None if the run goes on, else how it has ended.

    It is only asked for where it can be told: of the first question of a conversation, by a model
    whose endpoint has grammars, where there are data or tools of the user. A question that the
    model can answer by heart needs none of them.

    Args:
        loop: The run.
        knows: Asks whether the model knows the answer by heart.
    """
    exchange = loop.exchange
    context = exchange.context
    described = "" if context is None else context.text
    built_in = () if context is None else context.tools
    tools = {name: each for name, each in loop.wire.tools.items() if name not in built_in}
    may_ask = loop.facts.has_grammars and not loop.past and not exchange.steps
    is_plain = not exchange.images and exchange.error is None and not exchange.wants_code
    is_short = len(exchange.question) <= MAX_QUESTION and len(tools) <= MAX_TOOLS
    if not (may_ask and is_plain and is_short and (described or tools)):
        return None
    if loop.guards.limit_reached():  # which also starts the clock
        return None
    reply = yield from loop.ask_aside(decision_request(exchange.question, described, tools))
    shares = shares_in(reply)
    if shares and shares[TALK] >= SURE_OF_TALK:
        answered = yield from loop.ask_aside(talk_request(exchange.question))
        text = split_thoughts(answered.text)[0].strip()
        return Answered(text) if text else None
    is_refused = bool(shares) and shares[FITS] < LEAST_FIT["tools" if tools else "data"]
    if is_refused and not (yield from knows()):
        names = [*(() if context is None else context.names), *tools]
        listed = ", ".join(names)
        return Failed(
            f"neither the data nor the tools seem to have what the question asks for ({listed}). "
            "If one of them does, say in the question which, and what to compute"
        )
    return None


def talk_request(message: str) -> AskModel:
    """The request for a reply to a message that asks for nothing."""
    messages = (
        {"role": "system", "content": _TALK},
        {"role": "user", "content": message},
    )
    return AskModel(0, messages, max_tokens=_TALK_TOKENS)


def decision_request(question: str, described: str, tools: Mapping[str, ToolCard]) -> AskModel:
    """The request that asks for the decision.

    Args:
        question: The message of the user.
        described: The description of the variables; empty for none.
        tools: The tools.
    """
    parts = []
    if described:
        parts.append(f"Data:\n{described}")
    if tools:
        listed = "\n".join(in_a_line(tool) for tool in tools.values())
        parts.append(f"Functions:\n{listed}")
    parts.append(f"Message: {question}\nReply {FITS}, {LACKS} or {TALK}.")
    messages = (
        {"role": "system", "content": _RULES},
        {"role": "user", "content": "\n\n".join(parts)},
    )
    return AskModel(0, messages, grammar=_GRAMMAR, max_tokens=3, alternatives=_ALTERNATIVES)


def in_a_line(tool: ToolCard) -> str:
    """A tool as it is listed for a decision: its name, its inputs and what it does."""
    function = tool.spec()["function"]
    inputs = ", ".join(function["parameters"].get("properties", {}))
    summary = str(function.get("description", "")).strip().partition("\n")[0]
    return f"{tool.name}({inputs}): {summary}"


def shares_in(reply: ModelReply) -> Mapping[str, float]:
    """How probable each decision is; empty if the endpoint does not tell it."""
    return odds_of(_OPTIONS, reply.text.strip(), reply.tokens).get(WHOLE, {})
