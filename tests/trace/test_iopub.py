"""What a long run costs on the wire between a kernel and a notebook, counted frame by frame."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.live_kernel import Kernel, live_kernel

PIECES = 200
PREPARE = f"""
%load_ext archytas_nb
import json, time
from archytas_nb.loop.events import Delta, ModelReply

class Stream:
    '''Replies of two hundred pieces each, and a tool call or the answer in each.'''
    name, protocol = "stream", "react"

    def __init__(self, steps, pause):
        self.steps, self.pause, self.step = steps, pause, 0

    def complete(self, ask):
        self.step += 1
        last = self.step > self.steps
        thought = " ".join(f"token{{n}}" for n in range({PIECES}))
        tool, given = ("final_answer", "All is measured.") if last else ("measure", {{"n": self.step}})
        text = json.dumps({{"thought": thought, "tool": tool, "tool_input": given}})
        size = len(text) // {PIECES} + 1
        for at in range(0, len(text), size):
            yield Delta("text", text[at:at + size])
            time.sleep(self.pause) if self.pause else None
        return ModelReply(text)
"""
TOOL = '''%%tool
def measure(n: int) -> int:
    """Measure.

    Args:
        n: What to measure
    """
    return n * n'''


@dataclass
class Traffic:
    """What one cell sent.

    Attributes:
        size: Bytes of all frames, as they came over the socket.
        times: When each message was made, in seconds.
        kinds: The type of each message.
        shown: Text of what is displayed at the end.
    """

    size: int = 0
    times: list[float] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    shown: str = ""

    @property
    def busiest_second(self) -> int:
        """The most messages in any window of one second."""
        times, first, most = sorted(self.times), 0, 0
        for last, each in enumerate(times):
            while each - times[first] >= 1:
                first += 1
            most = max(most, last - first + 1)
        return most


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with live_kernel(Path(tmp_path_factory.mktemp("kernel"))) as kernel:
        for cell in (PREPARE, TOOL):
            done = kernel.run(cell)
            assert done.status == "ok", done.error
        yield kernel


def traffic(kernel: Kernel, cell: str) -> Traffic:
    """Run a cell as a notebook before a person does, and count what comes over the socket."""
    client: Any = kernel.client
    client.session.metadata = {"cellId": "a1"}  # as a notebook's front end names its cell
    asked, counted = client.execute(cell, allow_stdin=True), Traffic()
    ends = time.monotonic() + 240
    while time.monotonic() < ends:
        if not client.iopub_channel.socket.poll(1000):
            continue
        frames = client.iopub_channel.socket.recv_multipart()
        message = client.session.deserialize(client.session.feed_identities(frames)[1])
        if message["parent_header"].get("msg_id") != asked:
            continue
        counted.size += sum(map(len, frames))
        counted.times.append(message["header"]["date"].timestamp())
        counted.kinds.append(message["msg_type"])
        content = message["content"]
        counted.shown = content.get("data", {}).get("text/plain", counted.shown)
        if content.get("execution_state") == "idle":
            assert client.get_shell_msg(timeout=30)["content"]["status"] == "ok"
            return counted
    raise TimeoutError(f"the cell did not end; so far {len(counted.kinds)} messages")


TWO_THOUSAND_A_SECOND = 0.0005
"""A pause after each piece, in seconds."""


@pytest.mark.parametrize(
    ("steps", "pause"),
    [
        (100, 0),
        (20, TWO_THOUSAND_A_SECOND),
        pytest.param(100, TWO_THOUSAND_A_SECOND, marks=pytest.mark.slow),
    ],
)
def test_many_streamed_steps_stay_far_below_what_a_front_end_can_take(
    kernel: Kernel, steps: int, pause: float
) -> None:
    """For a hundred steps less than 8 MB in all, and less than 500 messages in any second."""
    kernel.run(f"model = Stream({steps}, {pause})")
    counted = traffic(
        kernel,
        "%agent --model model --max-steps 200 --max-total-tokens 100000000 Measure a hundred times",
    )
    print(
        f"{counted.size:,} bytes, {len(counted.kinds):,} messages, {counted.busiest_second} in the busiest second"
    )
    assert "All is measured." in counted.shown
    assert counted.kinds.count("comm_msg") > 20  # it was shown live
    assert counted.kinds.count("comm_open") == counted.kinds.count("comm_close")
    assert counted.size < 80_000 * steps
    assert counted.busiest_second < 500
