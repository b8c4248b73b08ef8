"""The profile of a model: a small one is offered less, and replies in fewer tokens."""

from __future__ import annotations

from archytas_nb.loop.limits import Limits
from archytas_nb.loop.profile import LARGE
from archytas_nb.prepare import profile_of
from archytas_nb.small.profile import SMALL
from archytas_nb.testing import ScriptedModel


def test_a_small_model_has_fewer_tokens_unless_a_limit_is_set() -> None:
    limits = Limits()
    assert (limits.reply_tokens(SMALL.reply_tokens), limits.reply_tokens(LARGE.reply_tokens)) == (
        1024,
        16384,
    )
    assert (
        limits.thinking_tokens(SMALL.thinking_tokens),
        limits.thinking_tokens(LARGE.thinking_tokens),
    ) == (8192, None)
    limits = Limits(max_reply_tokens=500)
    assert (limits.reply_tokens(SMALL.reply_tokens), limits.reply_tokens(LARGE.reply_tokens)) == (
        500,
        500,
    )
    assert limits.thinking_tokens(SMALL.thinking_tokens) is None


def test_a_profile_is_that_of_its_model_and_keeps_what_is_known_of_it() -> None:
    class Small(ScriptedModel):
        is_small = True
        context_tokens = 4000

    small = profile_of(Small())
    assert small.strategy is SMALL.strategy
    assert (small.facts.context_tokens, small.runs_python, small.summarises) == (4000, False, False)
    large = profile_of(ScriptedModel())
    assert large.strategy is LARGE.strategy
    assert profile_of(None).strategy is LARGE.strategy
    assert not large.is_asked_first
