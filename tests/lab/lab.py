"""A JupyterLab of its own and somebody who sits before it: a server, a browser, the commands of its menus."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
REPOSITORY = Path(__file__).parents[2]
_IDLE = """() => {
  const panel = window.jupyterapp?.shell?.currentWidget
  return panel?.content?.widgets && panel.sessionContext?.session?.kernel?.status === 'idle'
}"""
_OURS = ("OPENAI_", "ARCHYTAS_NB_")


class Lab:
    """A running server.

    Args:
        home: An empty folder: the notebooks are in ``home/work``, and whatever Jupyter keeps lies beside it.
    """

    def __init__(self, home: Path) -> None:
        self.work = home / "work"
        self._home = home
        self._token = secrets.token_hex(8)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]

    @contextmanager
    def running(self) -> Iterator[Lab]:
        """Start the server, and stop it by its process id."""
        self.work.mkdir(parents=True)
        self.settings("apputils-extension", "notification", fetchNews="false", checkForUpdates=False)
        self.settings("apputils-extension", "themes", theme=LIGHT)
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self._port,
            "ServerApp.port_retries": 0,
            "IdentityProvider.token": self._token,
            "ServerApp.root_dir": self.work,
            "LabApp.expose_app_in_browser": True,
        }
        command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
        command += [f"--{name}={value}" for name, value in options.items()]
        log = self._home / "server.log"
        with log.open("w") as written:
            server = subprocess.Popen(command, env=self._environment(), stdout=written, stderr=written)
        try:
            self._wait(server, log)
            yield self
        finally:
            server.terminate()
            server.wait(30)

    def _environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        folders = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
        env |= {f"JUPYTER_{name}": str(self._home / name.lower()) for name in folders}
        env["PYTHONPATH"] = str(REPOSITORY)  # the kernels run what is tested, and find the tests' models
        env |= {"HOME": str(self._home), "IPYTHONDIR": str(self._home / "ipython")}
        env |= {"JUPYTERLAB_SETTINGS_DIR": str(self._home / "settings")}
        env |= {"JUPYTERLAB_WORKSPACES_DIR": str(self._home / "workspaces")}
        return env

    def _wait(self, server: subprocess.Popen[bytes], log: Path) -> None:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self._port}/api?token={self._token}").close()
            except OSError:
                assert server.poll() is None, f"the server ended at once:\n{log.read_text()}"
                time.sleep(0.1)
            else:
                return
        raise TimeoutError(f"no server after a minute:\n{log.read_text()}")

    def settings(self, package: str, plugin: str, **values: Any) -> None:
        """Write the settings of one plugin, as its dialog would; pages opened from now on have them."""
        folder = self._home / "settings" / "@jupyterlab" / package
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{plugin}.jupyterlab-settings").write_text(json.dumps(values))

    def address(self, notebook: str) -> str:
        """Where a notebook opens."""
        return f"http://127.0.0.1:{self._port}/lab/tree/{notebook}?token={self._token}&reset"

    def saved(self, notebook: str) -> dict[str, Any]:
        """What is in the file."""
        data: dict[str, Any] = json.loads((self.work / notebook).read_text(encoding="utf-8"))
        return data


class Desk:
    """One browser page with one open notebook."""

    def __init__(
        self, lab: Lab, browser: Browser, notebook: str, *, kernel: bool = True, width: int = 1000
    ) -> None:
        self.notebook = notebook
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.set_default_timeout(60_000)
        self.page.goto(lab.address(notebook))
        if kernel:
            self.page.wait_for_function(_IDLE)
        else:
            self._decline_kernel()
        self.command("application:toggle-left-area")

    def _decline_kernel(self) -> None:
        """Choose "No Kernel" in the dialog that asks for one."""
        dialog = self.page.locator(".jp-Dialog")
        dialog.locator("select").select_option(label="No Kernel")
        dialog.locator(".jp-mod-accept").click()
        dialog.wait_for(state="detached")

    def command(self, name: str, *, wait: bool = True) -> None:
        """Run a command of the menus."""
        run = f"jupyterapp.commands.execute({name!r})"
        self.page.evaluate(run if wait else f"void {run}")

    def run_all(self) -> None:
        """Run all cells, without waiting for them."""
        self.command("notebook:run-all-cells", wait=False)

    def run_cell(self, index: int) -> None:
        """Run one cell, without waiting for it."""
        self.page.evaluate(f"jupyterapp.shell.currentWidget.content.activeCellIndex = {index}")
        self.command("notebook:run-cell", wait=False)

    def interrupt(self) -> None:
        """Kernel ▸ Interrupt."""
        self.command("notebook:interrupt-kernel")

    def wait_until_run(self, index: int) -> None:
        """Wait until a cell has its number, and the kernel nothing to do."""
        cell = f"jupyterapp.shell.currentWidget.content.widgets[{index}]"
        self.page.wait_for_function(f"() => {cell}.model.executionCount && ({_IDLE})()")

    def save(self) -> None:
        """Save, and wait for it."""
        self.command("docmanager:save")

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """The outputs of a cell as the page has them."""
        cell = f"jupyterapp.shell.currentWidget.content.widgets[{index}]"
        found: list[dict[str, Any]] = self.page.evaluate(f"{cell}.model.outputs.toJSON()")
        return found

    def text(self, index: int) -> str:
        """What a person reads below a cell."""
        self.look_at(index)
        area = self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-Cell-outputArea")
        return re.sub(r"\s+", " ", area.inner_text())

    def look_at(self, index: int) -> None:
        """Scroll to a cell."""
        scroll = "content.scrollToItem(i, 'start')"
        self.page.evaluate(f"i => jupyterapp.shell.currentWidget.{scroll}", index)

    def close(self) -> None:
        self.page.close()
