"""A real ipykernel to run cells in, as a front end does."""

from __future__ import annotations

import os
import queue
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.provisioning import unix_kernels
from tests.scripted import Scripted

NO_ENDPOINT = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ARCHYTAS_NB_CASSETTE",
    "ARCHYTAS_NB_CASSETTE_MODE",
)


@dataclass
class Cell:
    """The messages of one executed cell."""

    status: str = ""
    messages: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    reply: dict[str, Any] = field(default_factory=dict)
    prompts: list[str] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message["content"] for message in self.messages if message["msg_type"] == kind]

    @property
    def result(self) -> str:
        """The cell's value as text; empty where it shows none."""
        return "".join(content["data"]["text/plain"] for content in self.of("execute_result"))

    @property
    def displayed(self) -> list[dict[str, Any]]:
        return [content["data"] for content in self.of("display_data")]

    @property
    def printed(self) -> str:
        return "".join(content["text"] for content in self.of("stream"))

    @property
    def error(self) -> str:
        """The traceback of a failed cell as text, without colours."""
        lines = [line for content in self.of("error") for line in content["traceback"]]
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines))


class Kernel:
    """A kernel and its client."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client

    def run(
        self,
        code: str,
        *,
        person: bool = False,
        answers: Iterable[str] = (),
        interrupt_after: float | None = None,
        interrupt_when: Callable[[Cell], bool] | None = None,
        wait: float = 60.0,
        cell_id: str | None = None,
    ) -> Cell:
        """Run a cell.

        Args:
            code: The cell.
            person: Whether the kernel may ask questions, as in a notebook with somebody before it.
            answers: What is typed at each prompt, in order; a prompt without one stays open.
            interrupt_after: Seconds until the kernel is interrupted.
            interrupt_when: Asked now and then; the kernel is interrupted once when it says so.
            wait: Seconds to wait for the end at most.
            cell_id: What a notebook's front end calls the cell; None where there is no notebook.
        """
        started = time.monotonic()
        self.client.session.metadata = {} if cell_id is None else {"cellId": cell_id}
        request = self.client.execute(code, allow_stdin=person, stop_on_error=False)
        cell = Cell()
        typed = Scripted(*answers)
        idle = False
        while not (idle and cell.status):
            if interrupt_after is not None and time.monotonic() - started >= interrupt_after:
                self.manager.interrupt_kernel()
                interrupt_after = None
            if interrupt_when is not None and interrupt_when(cell):
                self.manager.interrupt_kernel()
                interrupt_when = None
            if person:
                self._answer(cell, typed)
            if time.monotonic() - started > wait:
                raise TimeoutError(
                    f"the cell did not end within {wait} s: {code!r}; so far {cell.messages!r}"
                )
            try:
                message = self.client.get_iopub_msg(timeout=0.05)
            except queue.Empty:
                message = None
            if message and message["parent_header"].get("msg_id") == request:
                cell.messages.append(message)
                idle |= (
                    message["msg_type"] == "status"
                    and message["content"]["execution_state"] == "idle"
                )
            if idle and not cell.status:
                reply = self.client.get_shell_msg(timeout=wait)
                if reply["parent_header"].get("msg_id") == request:
                    cell.reply = reply["content"]
                    cell.status = cell.reply["status"]
        cell.seconds = time.monotonic() - started
        return cell

    def _answer(self, cell: Cell, typed: Scripted) -> None:
        try:
            asked = self.client.get_stdin_msg(timeout=0)
        except queue.Empty:
            return
        prompt = asked["content"]["prompt"]
        cell.prompts.append(prompt)
        with suppress(EOFError):
            self.client.input(typed.ask(prompt))


@contextmanager
def live_kernel(folder: Path, *, name: str = "python3", **environment: str) -> Iterator[Kernel]:
    """Start a stock kernel in a folder, with a clean home and no endpoint but what is named."""
    unix_kernels.use()  # where no conftest has done so: the wheel's test, a benchmark
    env = {key: value for key, value in os.environ.items() if key not in NO_ENDPOINT}
    env |= {"IPYTHONDIR": str(folder / "ipython"), **environment}
    manager = KernelManager(kernel_name=name)
    manager.start_kernel(env=env, cwd=str(folder))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
