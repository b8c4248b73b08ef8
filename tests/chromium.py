"""The browser of this machine, for tests of what a person sees."""

from __future__ import annotations

import shutil

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine: install chromium to run this"
)
