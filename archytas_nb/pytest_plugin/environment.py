"""What a kernel's environment says while a notebook is tested. It knows variables and paths only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from archytas_nb.cassettes.recorded import MODE, PATH, REPORT, RERUN

REFUSING = "http://127.0.0.1:9/no-model-is-asked-in-a-replay/v1"
"""Nothing listens there: whoever asks a model past the cassette is refused at once, and sees why."""

_KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ARCHYTAS_NB_BASE_URL",
    "ARCHYTAS_NB_API_KEY",
    "ARCHYTAS_NB_WARM",
)

CASSETTE_MODES = {"replay": "replay", "update": "auto", "record": "record", "live": "off"}
"""What an option means for a cassette."""


def cassette_beside(notebook: Path) -> Path:
    """Where a notebook's cassette lies."""
    return notebook.parent / "cassettes" / f"{notebook.stem}.jsonl"


class KernelEnvironment:
    """The environment of one notebook: a kernel takes its own from ours when it starts."""

    def __init__(self, notebook: Path, option: str, report: Path, rerun: str) -> None:
        self._before: dict[str, str | None] = {}
        wanted: dict[str, str | None] = {
            MODE: CASSETTE_MODES[option],
            PATH: None,
            REPORT: None,
            RERUN: None,
        }
        if option != "live":
            wanted |= {PATH: str(cassette_beside(notebook)), REPORT: str(report), RERUN: rerun}
        if option == "replay":
            wanted |= {**dict.fromkeys(_KEYS), "OPENAI_BASE_URL": REFUSING}
        self._wanted = wanted

    def enter(self) -> None:
        """Say it; `leave` takes it back."""
        self._before = {name: os.environ.get(name) for name in self._wanted}
        _set(self._wanted)

    def leave(self) -> None:
        """Say again what was said before."""
        _set(self._before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
