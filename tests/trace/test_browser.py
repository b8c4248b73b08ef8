"""In a real browser: nothing in a trace runs or loads, and what would run is seen to run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from archytas_nb.trace.html import html
from archytas_nb.trace.steps import fold
from tests.chromium import CHROMIUM, FLAGS, needs_chromium
from tests.trace.hostile import PAYLOADS, places
from tests.trace.samples import long_run

DUMP = [*FLAGS, "--headless=new", "--virtual-time-budget=2000", "--dump-dom"]
# Remote addresses lead nowhere, so that a request is seen but not sent.
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"
REPORT = """
<script>setTimeout(() => {
  const asked = performance.getEntriesByType('resource').map(each => each.name);
  const loaded = asked.filter(name => !name.startsWith('data:'));
  const report = document.createElement('output');
  report.textContent = `ran=${window.pwned} loaded=${loaded.length} height=${document.body.scrollHeight > 100}`;
  document.documentElement.appendChild(report);
}, 500)</script>
"""

pytestmark = needs_chromium


def look(body: str, directory: Path) -> dict[str, str]:
    """Open a page and report what ran and what was asked for."""
    page = directory / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{body}{REPORT}", encoding="utf-8")
    command = [
        str(CHROMIUM),
        *DUMP,
        OFFLINE,
        f"--user-data-dir={directory / 'profile'}",
        page.as_uri(),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    report = re.search(r"<output>(.*?)</output>", dom)
    assert report, f"the page did not come to its end: {dom[-500:]}"
    return dict(each.split("=") for each in report.group(1).split())


def test_no_payload_runs_or_loads(tmp_path: Path) -> None:
    """Every payload in every place, unfolded, on one page: nothing runs, nothing is asked for."""
    body = "".join(page for payload in PAYLOADS for page in places(payload)).replace(
        "<details", "<details open"
    )
    assert look(body, tmp_path) == {"ran": "undefined", "loaded": "0", "height": "true"}


@pytest.mark.parametrize(
    "payload",
    [
        "<script>window.pwned=1</script>",
        "<img src=x onerror=window.pwned=1>",
        "<svg onload=window.pwned=1></svg>",
    ],
)
def test_what_would_run_is_seen_to_run(payload: str, tmp_path: Path) -> None:
    """The positive control: put into the page as it is, a payload runs, and the test sees it."""
    assert look(payload, tmp_path)["ran"] == "1"


def test_what_would_load_is_seen_to_load(tmp_path: Path) -> None:
    """The positive control for requests."""
    assert look('<img src="https://example.org/pixel.png">', tmp_path)["loaded"] == "1"


def test_three_hundred_steps_come_to_an_end(tmp_path: Path) -> None:
    """A page with a long run is laid out."""
    assert look(html(fold("q", long_run(300, 1))), tmp_path)["height"] == "true"
