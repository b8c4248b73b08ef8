"""What runs in the child process beside its server: the next token of a reply that is bound to a grammar, soon.

llama.cpp holds every word that the model knows (150,000 for ours) against the grammar before it takes the
likeliest of those that are left, which takes half as long again as the model itself. But the likeliest of all is
nearly always legal. So it is looked at alone first, and all of them only where it is not. At temperature 0 the
token is the same.

Law of this file: as `local_server` it is run by path, and imports nothing of ours and nothing but the standard
library. The engine's modules are given to it, and where they are not as expected nothing is changed.
"""

from __future__ import annotations

import ctypes
import functools
from collections import deque
from collections.abc import Callable
from typing import Any

_CHAIN = ["add_penalties", "add_grammar", "add_greedy"]
"""How the engine chooses a token at temperature 0 in a grammar; of any other way nothing is known here."""

_REFUSED = -float("inf")


def likeliest_first(library: Any, sampler: Any, numpy: Any) -> None:
    """Make an engine look at the likeliest token alone before it looks at all.

    Args:
        library: ``llama_cpp``, with the functions of the C library.
        sampler: Its class of samplers, whose methods are wrapped.
        numpy: The module that it has loaded.
    """
    needed = ("llama_get_logits_ith", "llama_sampler_apply", "llama_sampler_accept", "llama_sampler_chain_get")
    if not all(hasattr(library, name) for name in needed) or not all(hasattr(sampler, name) for name in _CHAIN):
        return
    for name in [name for name in dir(sampler) if name.startswith("add_")]:
        setattr(sampler, name, _noting(name, getattr(sampler, name)))
    for name in ("accept", "reset", "clone"):
        if hasattr(sampler, name):
            setattr(sampler, name, _giving_up(getattr(sampler, name)))
    sample = sampler.sample

    @functools.wraps(sample)
    def sampled(self: Any, ctx: Any, idx: int = -1) -> int:
        if not hasattr(self, "_first"):
            self._first = _first_of(self, library, numpy)
        if self._first is None:
            return int(sample(self, ctx, idx))
        try:
            token = self._first.token(ctx, idx)
        except Exception:  # noqa: BLE001 - whatever it is, the engine has a way of its own
            self._first = None
            return int(sample(self, ctx, idx))
        if token is None:
            token = int(sample(self, ctx, idx))
        else:
            library.llama_sampler_accept(self.sampler, token)
        self._first.said.append(token)
        return int(token)

    sampler.sample = sampled


class _Likeliest:
    """Finds the likeliest token of one reply, and whether the grammar takes it.

    Attributes:
        said: The last tokens of the reply, as many as count for the penalty.
    """

    def __init__(self, library: Any, numpy: Any, grammar: Any, words: int, penalty: float, counted: int) -> None:
        self._library = library
        self._numpy = numpy
        self._grammar = grammar
        self._words = words
        self._penalty = penalty
        self.said: deque[int] = deque(maxlen=counted)

    def token(self, ctx: Any, idx: int) -> int | None:
        """The likeliest token; None where it is not legal."""
        pointer = self._library.llama_get_logits_ith(ctx.ctx, idx)
        logits = self._numpy.ctypeslib.as_array(pointer, shape=(self._words,))
        said = list(set(self.said)) if self._penalty != 1 else []
        before = logits[said]  # a copy
        logits[said] = self._numpy.where(before <= 0, before * self._penalty, before / self._penalty)
        token = int(logits.argmax())
        one = self._library.llama_token_data(id=token, logit=float(logits[token]), p=0.0)
        logits[said] = before
        all_of_it = self._library.llama_token_data_array(data=ctypes.pointer(one), size=1, selected=-1)
        self._library.llama_sampler_apply(self._grammar, ctypes.byref(all_of_it))
        return None if all_of_it.data[0].logit == _REFUSED else token


def _first_of(sampler: Any, library: Any, numpy: Any) -> _Likeliest | None:
    """What finds the likeliest token of this sampler; None where it chooses in another way."""
    parts = getattr(sampler, "_parts", [])
    if [name for name, _, _ in parts] != _CHAIN:
        return None
    (_, _, penalties), (_, (model, *_), _), _ = parts
    if any(penalties.get(name, 0) for name in ("penalty_freq", "penalty_present")):
        return None
    grammar = library.llama_sampler_chain_get(sampler.sampler, 1)
    penalty, counted = penalties.get("penalty_repeat", 1.0), penalties.get("penalty_last_n", 64)
    return _Likeliest(library, numpy, grammar, model.n_vocab(), penalty, counted) if counted > 0 else None


def _noting(name: str, add: Callable[..., None]) -> Callable[..., None]:
    """A method that adds a part to a sampler, and notes which."""

    @functools.wraps(add)
    def noted(self: Any, *args: Any, **settings: Any) -> None:
        add(self, *args, **settings)
        self._parts = [*getattr(self, "_parts", ()), (name, args, settings)]

    return noted


def _giving_up(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that changes what a sampler remembers, behind our back."""

    @functools.wraps(method)
    def called(self: Any, *args: Any, **settings: Any) -> Any:
        self._first = None
        return method(self, *args, **settings)

    return called
