"""The tasks, by what they ask of a model. Importing this fills the registry."""

from benchmarks.success.task import REGISTRY, Half, Task
from benchmarks.success.tasks import (
    acting,
    arguments,
    blind_arguments,
    blind_chains,
    blind_compare,
    blind_conditions,
    blind_once,
    blind_single,
    blind_talking,
    blind_trouble,
    chains,
    choosing,
    code,
    comparing,
    conditions,
    contests,
    conversation,
    decisions,
    failures,
    forms,
    limits,
    long_chains,
    lookups,
    more_actions,
    more_lookups,
    one_call,
    ranking,
    setbacks,
    single_calls,
    steps,
    talking,
    three_steps,
    trouble,
    two_steps,
    typed,
    unavailable,
    values,
)

__all__ = [
    "acting",
    "arguments",
    "blind_arguments",
    "blind_chains",
    "blind_compare",
    "blind_conditions",
    "blind_once",
    "blind_single",
    "blind_talking",
    "blind_trouble",
    "chains",
    "choosing",
    "code",
    "comparing",
    "conditions",
    "contests",
    "conversation",
    "decisions",
    "failures",
    "forms",
    "limits",
    "long_chains",
    "lookups",
    "more_actions",
    "more_lookups",
    "one_call",
    "ranking",
    "selected",
    "setbacks",
    "single_calls",
    "steps",
    "talking",
    "three_steps",
    "trouble",
    "two_steps",
    "typed",
    "unavailable",
    "values",
]


def selected(
    half: Half | None = None, kinds: list[str] | None = None, names: list[str] | None = None
) -> list[Task]:
    """The tasks of a half, of some kinds, or of some names.

    Where no half is said: those of both halves, and a blind one only where it is named.
    """
    unknown = [name for name in names or () if name not in REGISTRY]
    if unknown:
        raise ValueError(f"no task is named {unknown[0]!r}; there are {', '.join(REGISTRY)}")
    return [
        each
        for each in REGISTRY.values()
        if (each.half == half if half else each.half != "blind" or each.name in (names or ()))
        and (not kinds or each.kind in kinds)
        and (not names or each.name in names)
    ]
