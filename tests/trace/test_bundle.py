"""A run in every form at once."""

from __future__ import annotations

from dataclasses import replace

from archytas_nb import __version__
from archytas_nb.loop.events import CallOutcomes
from archytas_nb.trace.bundle import bundle
from archytas_nb.trace.steps import fold
from tests.trace.samples import SAMPLES


def test_three_forms_and_the_facts() -> None:
    """Text, Markdown and HTML, and what differs from run to run in the metadata."""
    data, metadata = bundle(fold(*SAMPLES["answered"], protocol="react"))
    assert list(data) == ["text/plain", "text/markdown", "text/html"]
    assert metadata == {
        "archytas_nb": {
            "version": __version__,
            "model": "sample-1.5b",
            "protocol": "react",
            "steps": 2,
            "ending": "Answered",
            "seconds": 1.0,
            "usage": {"requests": 2, "input_tokens": 200, "cached_tokens": 0, "output_tokens": 40},
        }
    }


def test_the_seconds_of_a_run_are_not_in_its_data() -> None:
    """Two runs that went the same way at different speeds have equal data."""
    view = fold(*SAMPLES["rich"])
    assert bundle(replace(view, seconds=1))[0] == bundle(replace(view, seconds=99))[0]


def test_what_is_saved_does_not_depend_on_the_clock_of_the_tools() -> None:
    """A replay has the model's recorded seconds, so its notebook is saved byte by byte as it was."""
    question, events = SAMPLES["rich"]
    slow = [
        replace(event, outcomes=tuple(replace(each, seconds=50.0) for each in event.outcomes))
        if isinstance(event, CallOutcomes)
        else event
        for event in events
    ]
    assert bundle(fold(question, slow)) == bundle(fold(question, events))
