"""A machine with an engine that only pretends: what it does is written in its weights (see `fake_engine`)."""

from __future__ import annotations

from pathlib import Path

from archytas_nb.models.embedded.process import Engine

PATIENCE = 20.0  # seconds until a test that waits for something gives up
FAKE = Engine(module="fake_engine", grace_seconds=0, load_seconds=PATIENCE, threads=3)


def weights(directory: Path, word: str = "works") -> Path:
    path = directory / f"model-{word}.gguf"
    if not path.exists():  # its time of change is a part of its identity
        path.write_text(f"GGUF {word}")
    return path
