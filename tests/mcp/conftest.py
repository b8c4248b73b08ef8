"""A kernel that serves its tools, and a client of the official library."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.live_kernel import Kernel, live_kernel

TOOLS = '''
%load_ext archytas_nb
import threading
import time
from archytas_nb import tool

numbers = [1, 2, 3]
password = "hunter2-secret"
seen = []

@tool
def count(word: str, times: int = 1) -> int:
    """Count letters.

    Args:
        word: The word.
        times: How often it stands there.
    """
    seen.append(threading.current_thread() is threading.main_thread())
    return len(word) * times

@tool
def add_number(number: int) -> str:
    """Add a number to the list."""
    numbers.append(number)
    return "added"

@tool
def sleep(seconds: float) -> str:
    """Sleep."""
    seen.append("sleeps")
    time.sleep(seconds)
    return "slept"

@tool(approve=True)
def clear() -> str:
    """Remove all numbers."""
    numbers.clear()
    return "cleared"
'''


@dataclass
class Served:
    """A kernel that serves, and where."""

    kernel: Kernel
    url: str
    token: str

    def talk(self, work: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
        """The result of a client's coroutine."""

        async def talk() -> Any:
            headers = {"Authorization": f"Bearer {self.token}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as http,
                Client(streamable_http_client(self.url, http_client=http), **options) as client,
            ):
                return await work(client)

        return asyncio.run(talk())

    def value(self, expression: str) -> str:
        """The value of an expression in the kernel, as text."""
        return self.kernel.run(expression).result

    def shown(self, text: str) -> str:
        """The output of the cell that serves, as soon as it contains this text."""
        while True:
            message = self.kernel.client.get_iopub_msg(timeout=60)
            if message["msg_type"] == "update_display_data":
                shown: str = message["content"]["data"]["text/plain"]
                if text in shown:
                    return shown


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with live_kernel(folder, JUPYTER_RUNTIME_DIR=str(folder / "runtime")) as kernel:
        cell = kernel.run(TOOLS)
        assert cell.status == "ok", cell.error
        said = kernel.run("%agent_mcp serve", wait=120).displayed[0]["text/plain"]
        url = re.search(r"http://\S+", said)
        assert url
        [file] = (folder / "runtime").glob("archytas_nb-served-*.json")
        token = json.loads(file.read_text())["token"]
        assert token not in said
        yield Served(kernel, url[0], token)


@pytest.fixture(scope="package")
def demo() -> list[str]:
    """The command of a server of the official library."""
    return [sys.executable, str(Path(__file__).with_name("demo.py"))]
