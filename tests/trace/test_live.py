"""What a run sends over the wire of a real kernel, live and with nobody there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

HERE = Path(__file__).parent
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PREPARE = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from tests.trace.samples import SAMPLES
from archytas_nb.trace.view import TraceView, display_mode

def show(question, events, mode=None):
    view = TraceView(question, mode=mode or display_mode(get_ipython()), model="sample", protocol="react")
    for event in events:
        view.on_event(event)
    return view
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[BlockingKernelClient]:
    manager: KernelManager
    manager, client = start_new_kernel(kernel_name="python3")
    client.session.metadata = {"cellId": "a1"}  # as a notebook's front end names its cell
    try:
        run(client, PREPARE)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(
    client: BlockingKernelClient, code: str, *, allow_stdin: bool = True
) -> list[dict[str, Any]]:
    """Every message on iopub for one cell, but for status and input."""
    messages: list[dict[str, Any]] = []
    reply = client.execute_interactive(
        code, allow_stdin=allow_stdin, store_history=False, timeout=120, output_hook=messages.append
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    return [each for each in messages if each["msg_type"] not in {"status", "execute_input"}]


def of_type(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in messages if each["msg_type"] == kind]


def open_comms(client: BlockingKernelClient) -> dict[str, Any]:
    reply = client.comm_info(reply=True, timeout=30)
    return dict(reply["content"]["comms"])


def test_with_nobody_there_a_run_is_one_display(kernel: BlockingKernelClient) -> None:
    """Headless, a run publishes exactly one display_data, and no widget."""
    messages = run(kernel, "view = show(*SAMPLES['recovered'])", allow_stdin=False)
    assert [each["msg_type"] for each in messages] == ["display_data"]
    data = messages[0]["content"]["data"]
    assert set(data) == {"text/plain", "text/markdown", "text/html"}
    assert messages[0]["content"]["metadata"]["archytas_nb"]["ending"] == "Answered"


def test_a_live_run_ends_as_a_static_display(kernel: BlockingKernelClient) -> None:
    """Live, a static output becomes the bundle, that of the widgets is emptied, and every widget is closed."""
    messages = run(kernel, "view = show(*SAMPLES['recovered'])")
    static, live = of_type(messages, "display_data")
    final, emptied = of_type(messages, "update_display_data")
    for display, update in ((static, final), (live, emptied)):
        assert (
            update["content"]["transient"]["display_id"]
            == display["content"]["transient"]["display_id"]
        )
    assert set(live["content"]["data"]) == {WIDGET_VIEW}
    assert "did not finish" in static["content"]["data"]["text/plain"]
    assert "did not finish" in static["content"]["data"]["text/html"]
    assert set(final["content"]["data"]) == {"text/plain", "text/markdown", "text/html"}
    assert emptied["content"]["data"] == {}
    opened = {each["content"]["comm_id"] for each in of_type(messages, "comm_open")}
    closed = {each["content"]["comm_id"] for each in of_type(messages, "comm_close")}
    assert opened
    assert opened == closed
    assert open_comms(kernel) == {}


def test_live_and_headless_leave_the_same_output(kernel: BlockingKernelClient) -> None:
    """What is saved of a run does not tell whether anybody watched."""
    live = of_type(run(kernel, "view = show(*SAMPLES['rich'])"), "update_display_data")
    headless = of_type(
        run(kernel, "view = show(*SAMPLES['rich'])", allow_stdin=False), "display_data"
    )
    assert live[0]["content"]["data"] == headless[0]["content"]["data"]


def test_a_run_that_is_cut_off_says_so(kernel: BlockingKernelClient) -> None:
    """Where the session fails before an ending, closing the view leaves a static output that says so."""
    code = "view = show('q', SAMPLES['answered'][1][:4]); view.close()"
    update, _ = of_type(run(kernel, code), "update_display_data")
    assert "did not finish" in update["content"]["data"]["text/plain"]
    assert open_comms(kernel) == {}


def test_the_static_output_follows_a_run_that_goes_on(kernel: BlockingKernelClient) -> None:
    """What a kernel that dies in the middle leaves behind: the steps so far, in every static form."""
    code = "view = show('q', SAMPLES['recovered'][1][:5]); import time; time.sleep(4); view.close()"
    messages = run(kernel, code)
    first = of_type(messages, "update_display_data")[0]["content"]["data"]
    assert set(first) == {"text/plain", "text/markdown", "text/html"}
    for form in first.values():
        assert "did not finish" in form
        assert "mean_mass" in form
