"""The profile of a small model."""

from __future__ import annotations

from archytas_nb.loop.profile import ModelProfile
from archytas_nb.loop.record import CardForm
from archytas_nb.small.copy_protocol import CopyProtocol
from archytas_nb.small.protocol import SmallPlanProtocol, SmallProgramProtocol
from archytas_nb.small.strategy import SmallStrategy

REPLY_TOKENS = 1024
"""About a page of text. A small model that writes more is usually repeating itself."""

THINKING_TOKENS = 8192
"""For a small model whose last reply contained only reasoning."""

RESULT_CHARS = 1500
"""A small model loses the question after a long result."""

SMALL = ModelProfile(
    result_chars=RESULT_CHARS,
    reply_tokens=REPLY_TOKENS,
    thinking_tokens=THINKING_TOKENS,
    runs_python=False,
    asks_user=False,
    summarises=False,
    sees_all=False,
    card=CardForm(tokens=300, has_values=False, in_words=True),
    tells_notebook=False,
    is_asked_first=True,
    confirms_repeats=True,
    programs=SmallProgramProtocol,
    plans=SmallPlanProtocol,
    copies=CopyProtocol,
    strategy=SmallStrategy,
)
"""What differs for it; the facts of the model itself are added."""
