"""A JupyterLab of its own and somebody who sits before it: a server, a browser, the commands of its menus."""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"
REPOSITORY = Path(__file__).parents[2]
_WIDTH, _HEIGHT = 1000, 1200
_SESSIONS = "**/api/sessions*"
_CONTENT = "jupyterapp.shell.currentWidget.content"
_STILL = """() => {
  let last = performance.now()
  window.longestFreeze = 0
  window.freezeClock = setInterval(() => {
    window.longestFreeze = Math.max(window.longestFreeze, performance.now() - last - 20)
    last = performance.now()
  }, 20)
}"""
_IDLE = """() => {
  const panel = window.jupyterapp.shell.currentWidget
  return panel?.content?.widgets && panel.sessionContext?.session?.kernel?.status === 'idle'
}"""
_WATCH_TEXTS = r"""() => {
  window.shownTexts = []
  window.shownAfter = []
  const began = performance.now()
  const look = () => document.querySelectorAll('.jp-OutputArea-output').forEach(output => {
    const text = output.checkVisibility() ? output.innerText.replace(/\s+/g, ' ') : ''
    if (!text || shownTexts.includes(text)) return
    shownTexts.push(text)
    shownAfter.push(performance.now() - began)
  })
  const changes = {subtree: true, childList: true, characterData: true}
  window.shownWatch = new MutationObserver(look)
  window.shownWatch.observe(document.body, changes)
  look()
}"""
_WATCH_LAYOUT = """index => {
  const area = jupyterapp.shell.currentWidget.content.widgets[index].outputArea.node
  const [width, height] = [innerWidth, innerHeight]
  const shown = (from, to, limit) => Math.max(0, Math.min(to, limit) - Math.max(from, 0)) / limit
  const shift = ({previousRect: one, currentRect: two}) => {
    const [x, y] = ['x', 'y'].map(at => Math.min(one[at], two[at]))
    const seen = shown(x, Math.max(one.right, two.right), width)
      * shown(y, Math.max(one.bottom, two.bottom), height)
    const moved = Math.max(Math.abs(one.x - two.x), Math.abs(one.y - two.y))
    return seen * moved / Math.max(width, height)
  }
  window.layoutSeen = {inside: 0, below: 0, heights: []}
  window.layoutWatch = new PerformanceObserver(list => {
    for (const each of list.getEntries()) for (const source of each.sources) {
      const {node, previousRect, currentRect} = source
      if (!previousRect.width || !currentRect.width) continue
      if (!area.contains(node)) layoutSeen.below += shift(source)
      else if (!node.closest?.('.jp-OutputArea-promptOverlay')) layoutSeen.inside += shift(source)
    }
  })
  layoutWatch.observe({type: 'layout-shift'})
  const look = () => {
    const height = Math.round(area.getBoundingClientRect().height)
    if (height !== layoutSeen.heights.at(-1)) layoutSeen.heights.push(height)
    window.layoutFrame = requestAnimationFrame(look)
  }
  look()
}"""
# The contrast of each text with what is behind it, as WCAG defines it: colours and opacities of all
# elements around it are laid over each other.
_FAINT_TEXTS = r"""selector => {
  const parsed = colour => {
    const numbers = colour.match(/[\d.]+(?:e-?\d+)?/g).map(Number)
    const largest = colour.startsWith('rgb') ? 255 : 1
    return [...numbers.slice(0, 3).map(each => each / largest), numbers[3] ?? 1]
  }
  const over = (top, below) => {
    const alpha = top[3] + below[3] * (1 - top[3])
    const mixed = at => (top[at] * top[3] + below[at] * below[3] * (1 - top[3])) / (alpha || 1)
    return [mixed(0), mixed(1), mixed(2), alpha]
  }
  const luminance = colour => {
    const [red, green, blue] = colour.map(
      each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  const faint = []
  let seen = 0
  for (const root of document.querySelectorAll(selector)) {
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
    while (texts.nextNode()) {
      const text = texts.currentNode.textContent.trim()
      const parent = texts.currentNode.parentElement
      if (!text || parent.tagName === 'STYLE' || !parent.checkVisibility({opacityProperty: true})) continue
      seen++
      let ink = parsed(getComputedStyle(parent).color)
      let ground = [0, 0, 0, 0]
      for (let each = parent; each; each = each.parentElement) {
        const style = getComputedStyle(each)
        const behind = parsed(style.backgroundColor);
        [ink, ground] = [ink, ground].map(colour => over(colour, behind))
          .map(colour => [...colour.slice(0, 3), colour[3] * style.opacity])
      }
      const [dark, light] = [ink, ground].map(colour => luminance(over(colour, [1, 1, 1, 1])))
        .sort((one, other) => one - other)
      const contrast = (light + 0.05) / (dark + 0.05)
      if (!(contrast >= 4.5)) faint.push(`${text.slice(0, 40)} ${contrast.toFixed(2)}`)
    }
  }
  return {seen, faint}
}"""
_WATCH_NOTHING = """() => {
  window.shownWatch?.disconnect()
  window.layoutWatch?.disconnect()
  cancelAnimationFrame(window.layoutFrame)
  clearInterval(window.freezeClock)
}"""
_LEAVE = """async () => {
  const panel = window.jupyterapp.shell.currentWidget
  panel.context.model.dirty = false
  panel.close()
  await panel.context.ready
}"""
_OURS = ("OPENAI_", "ARCHYTAS_NB_")


class Lab:
    """A running server.

    Args:
        home: An empty folder: the notebooks are in ``home/work``, and whatever Jupyter keeps lies beside it.
        environment: Variables of the server, and so of its kernels.
    """

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self._more = dict(environment or {})
        self.work = home / "work"
        self._home = home
        self._token = secrets.token_hex(8)
        self._url = ""

    @contextmanager
    def running(self) -> Iterator[Lab]:
        """Start the server, and stop it by its process id."""
        self.work.mkdir(parents=True)
        self.settings(
            "apputils-extension", "notification", fetchNews="false", checkForUpdates=False
        )
        self.settings("apputils-extension", "themes", theme=LIGHT)
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": 0,
            "IdentityProvider.token": self._token,
            "ServerApp.root_dir": self.work,
            "LabApp.expose_app_in_browser": True,
            "JupyterNotebookApp.expose_app_in_browser": True,
        }
        command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
        command += [f"--{name}={value}" for name, value in options.items()]
        server = self._start(command)
        try:
            yield self
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:  # it waits for a kernel that has gone already
                server.kill()
                server.wait()

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the server; it ends at once if another process takes the port that it has just chosen."""
        log = self._home / "server.log"
        for _ in range(3):
            with log.open("w") as written:
                server = subprocess.Popen(
                    command, env=self._environment(), stdout=written, stderr=written
                )
            if self._answers(server):
                return server
        raise RuntimeError(f"the server ended at once, three times:\n{log.read_text()}")

    def _environment(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        folders = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
        env |= {f"JUPYTER_{name}": str(self._home / name.lower()) for name in folders}
        # The kernels run what is tested, and find the tests' models.
        env["PYTHONPATH"] = os.pathsep.join(
            [str(REPOSITORY), *filter(None, [env.get("PYTHONPATH")])]
        )
        env |= {"HOME": str(self._home), "IPYTHONDIR": str(self._home / "ipython")}
        env |= {"JUPYTERLAB_SETTINGS_DIR": str(self._home / "settings")}
        env |= {"JUPYTERLAB_WORKSPACES_DIR": str(self._home / "workspaces")}
        return env | self._more

    def _answers(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait until the server answers, or has ended; the port that it chose stands in a file of its runtime."""
        facts = self._home / "runtime_dir" / f"jpserver-{server.pid}.json"
        for _ in range(2_000):
            try:
                self._url = f"http://127.0.0.1:{json.loads(facts.read_text())['port']}"
                urllib.request.urlopen(f"{self._url}/api?token={self._token}").close()
            except (OSError, ValueError):  # not written, half written, not listening
                if server.poll() is not None:
                    return False
                time.sleep(0.1)
            else:
                return True
        server.kill()
        raise TimeoutError(f"no server after minutes:\n{(self._home / 'server.log').read_text()}")

    def settings(self, package: str, plugin: str, **values: Any) -> None:
        """Write the settings of one plugin, as its dialog would; pages opened from now on have them."""
        folder = self._home / "settings" / "@jupyterlab" / package
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{plugin}.jupyterlab-settings").write_text(json.dumps(values))

    @property
    def address(self) -> str:
        """Where JupyterLab opens, with nothing in it."""
        return self.address_of("lab")

    def address_of(self, page: str) -> str:
        """Where a page opens, such as ``lab/tree/a.ipynb``, with nothing beside it."""
        return f"{self._url}/{page}?token={self._token}&reset"

    def saved(self, notebook: str) -> dict[str, Any]:
        """The content of the file."""
        data: dict[str, Any] = json.loads((self.work / notebook).read_text(encoding="utf-8"))
        return data


def opened(lab: Lab, browser: Browser) -> Page:
    """A browser page with JupyterLab, in which notebooks are opened one after another."""
    page = browser.new_page()
    page.set_default_timeout(60_000)  # a busy machine is no failure
    page.goto(lab.address)
    page.wait_for_function("window.jupyterapp?.restored.then(() => true)")
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    return page


class Desk:
    """One open notebook, alone in the page."""

    def __init__(self, page: Page, notebook: str, *, kernel: bool = True) -> None:
        self.notebook = notebook
        self.page = page
        self.console: list[str] = []
        self.is_open = True
        page.on("pageerror", self._note)
        page.set_viewport_size({"width": _WIDTH, "height": _HEIGHT})
        if not kernel:
            page.route(_SESSIONS, self._refuse_kernel)
        self.command("docmanager:open", path=notebook)
        if kernel:
            page.wait_for_function(_IDLE)
        else:  # the page says that none was started, and asks for another
            page.locator(".jp-Dialog .jp-mod-accept").click()
            page.locator(".jp-Dialog .jp-mod-reject").click()
            page.locator(".jp-Dialog").wait_for(state="detached")

    def _note(self, error: Exception) -> None:
        self.console.append(str(error))

    def _refuse_kernel(self, route: Route) -> None:
        """Let the page find the sessions that run, and start none."""
        if route.request.method == "POST":
            route.fulfill(status=503, json={"message": "there is no kernel today", "traceback": ""})
        else:
            route.continue_()

    def command(self, name: str, *, wait: bool = True, **given: str) -> None:
        """Run a command of the menus."""
        run = f"jupyterapp.commands.execute({name!r}, {json.dumps(given)})"
        self.page.evaluate(f"async () => {{ {'await' if wait else 'void'} {run} }}")

    def run_all(self) -> None:
        """Run all cells, without waiting for them."""
        self.command("notebook:run-all-cells", wait=False)

    def run_cell(self, index: int) -> None:
        """Run one cell, without waiting for it."""
        self.page.evaluate(f"{_CONTENT}.activeCellIndex = {index}")
        self.command("notebook:run-cell", wait=False)

    def type_into(self, index: int, text: str) -> None:
        """Write at the end of a cell, key by key."""
        self.page.evaluate(f"{_CONTENT}.activeCellIndex = {index}; {_CONTENT}.mode = 'edit'")
        self.page.keyboard.press("Control+End")
        self.page.keyboard.type(text)

    def source(self, index: int) -> str:
        """The source of a cell."""
        return str(self.page.evaluate(f"{_CONTENT}.widgets[{index}].model.sharedModel.source"))

    def interrupt(self) -> None:
        """Kernel ▸ Interrupt."""
        self.command("notebook:interrupt-kernel")

    def restart_kernel(self) -> None:
        """Kernel ▸ Restart, without being asked whether; wait until it has begun anew."""
        kernel = "jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        self.page.evaluate(f"{kernel}.restart()")
        self.page.wait_for_function(_IDLE)

    def wait_for_static_copy(self, index: int, text: str) -> None:
        """Wait until a text stands in an output of a cell that needs no kernel."""
        outputs = f"{_CONTENT}.widgets[{index}].model.outputs.toJSON()"
        has = "each => String(each.data?.['text/plain']).includes(text)"
        self.page.wait_for_function(f"text => {outputs}.some({has})", arg=text)

    def answer(self, line: str) -> None:
        """Type a line into the box that asks for one."""
        box = self.page.locator("input.jp-Stdin-input").first
        box.fill(line)
        element = box.element_handle()
        box.press("Enter")
        self.page.wait_for_function("box => !box.isConnected", arg=element)  # there may be another

    @property
    def last(self) -> int:
        """The last cell of code."""
        kinds: list[str] = self.page.evaluate(f"{_CONTENT}.widgets.map(each => each.model.type)")
        return max(at for at, kind in enumerate(kinds) if kind == "code")

    @property
    def has_kernel(self) -> bool:
        """Whether the notebook is connected to one."""
        session = "jupyterapp.shell.currentWidget.sessionContext.session"
        return bool(self.page.evaluate(f"Boolean({session}?.kernel)"))

    def has_run(self, index: int) -> bool:
        """Whether a cell has its number, and the kernel nothing to do."""
        numbered = f"{_CONTENT}.widgets[{index}].model.executionCount"
        return bool(self.page.evaluate(f"Boolean({numbered} && ({_IDLE})())"))

    def wait_until_run(self, index: int) -> None:
        """Wait until a cell has its number, and the kernel nothing to do."""
        numbered = f"{_CONTENT}.widgets[{index}].model.executionCount"
        self.page.wait_for_function(f"() => {numbered} && ({_IDLE})()")

    def wait_for_text(self, text: str) -> None:
        """Wait until a text stands in an output."""
        outputs = self.page.locator(".jp-OutputArea-output:visible")
        try:
            outputs.filter(has_text=text).first.wait_for()
        except Exception as error:
            raise AssertionError(f"{text!r} is in none of {outputs.all_inner_texts()!r}") from error

    def wait_for_copy(self, text: str) -> None:
        """Wait until the static copy of a run with this text is seen; it waits for its widgets."""
        self.page.locator(".anb-trace:visible").filter(has_text=text).first.wait_for()

    def watch_texts(self) -> None:
        """From now on, note every text that stands in an output, for however short a time."""
        self.page.evaluate(_WATCH_TEXTS)

    @property
    def shown_texts(self) -> list[str]:
        """The texts that stood in an output since they are watched."""
        texts: list[str] = self.page.evaluate("shownTexts")
        return texts

    def wait_until_shown(self, text: str) -> int:
        """Wait until a text stands in an output, or has stood there since the texts are watched.

        Returns:
            Its place in the order in which the texts were shown.
        """
        place = "text => 1 + shownTexts.findIndex(each => each.includes(text))"
        try:
            return int(self.page.wait_for_function(place, arg=text).json_value())
        except Exception as error:
            raise AssertionError(f"{text!r} was in none of {self.shown_texts!r}") from error

    def seconds_between(self, first: str, last: str) -> tuple[float, list[float]]:
        """When a text was first seen, and how long each text after it was, until the last.

        Returns:
            Seconds since the texts are watched, and seconds between two that were seen.
        """
        texts = self.shown_texts
        after = [each / 1000 for each in self.page.evaluate("shownAfter")]
        begins = next(at for at, text in enumerate(texts) if first in text)
        ends = next(at for at, text in enumerate(texts) if last in text)
        seen = after[begins : ends + 1]
        return seen[0], [two - one for one, two in itertools.pairwise(seen)]

    def save(self) -> None:
        """Save, and wait for it."""
        self.command("docmanager:save")

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """The outputs of a cell as the page has them."""
        found: list[dict[str, Any]] = self.page.evaluate(
            f"{_CONTENT}.widgets[{index}].model.outputs.toJSON()"
        )
        return found

    def text(self, index: int) -> str:
        """The text below a cell."""
        self.look_at(index)
        area = self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".jp-Cell-outputArea")
        return re.sub(r"\s+", " ", area.inner_text())

    def unfold(self) -> None:
        """Open whatever is folded."""
        self.page.evaluate(
            "document.querySelectorAll('.anb-trace details').forEach(e => e.open = true)"
        )

    def watch_for_freezes(self) -> None:
        """From now on, note how long the page stands still."""
        self.page.evaluate(_STILL)

    @property
    def longest_freeze(self) -> float:
        """Seconds that the page stood still at most, since it is watched."""
        return float(self.page.evaluate("window.longestFreeze")) / 1000

    def watch_layout(self, index: int) -> None:
        """From now on, note how far what is seen in and below an output moves, and its height."""
        self.page.evaluate(_WATCH_LAYOUT, index)

    @property
    def layout(self) -> tuple[float, float, list[int]]:
        """The layout shift in the output, that of what is below, and the heights in pixels.

        A shift is what browsers define: the part of the page that moves, times how far it moves.
        """
        seen: dict[str, Any] = self.page.evaluate("layoutSeen")
        return seen["inside"], seen["below"], seen["heights"]

    def faint_texts(self, selector: str) -> list[str]:
        """The texts whose contrast with what is behind them is below 4.5, each with its contrast."""
        found: dict[str, Any] = self.page.evaluate(_FAINT_TEXTS, selector)
        assert found["seen"], f"no text in {selector!r}"
        faint: list[str] = found["faint"]
        return faint

    def change_theme(self, theme: str) -> None:
        """Settings ▸ Theme."""
        self.command("apputils:change-theme", theme=theme)
        self.page.locator(f"body[data-jp-theme-name='{theme}']").wait_for(state="attached")
        # JupyterLab covers the page while it changes: a picture would be of that.
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    def resize(self, width: int) -> None:
        """Make the window as wide."""
        self.page.set_viewport_size({"width": width, "height": _HEIGHT})

    def look_at(self, index: int) -> None:
        """Scroll to a cell."""
        self.page.evaluate(f"{_CONTENT}.scrollToItem({index}, 'start')")

    def picture(self, name: str, index: int | None = None, *, dark: bool = False) -> None:
        """Take a picture, of a cell where one is named, otherwise of the page; also in dark colours.

        They are for people, so they are taken only if ARCHYTAS_NB_PICTURES names a folder, for example docs/images.
        """
        folder = os.environ.get("ARCHYTAS_NB_PICTURES")
        if not folder:
            return
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder, f"{name}.png")
        if index is None:
            self.page.screenshot(path=path)
        else:
            self.look_at(index)
            self.page.locator(".jp-Notebook .jp-Cell").nth(index).screenshot(path=path)
        if dark:
            self.change_theme(DARK)
            self.picture(f"{name}-dark", index)
            self.change_theme(LIGHT)

    def close(self) -> None:
        """Close the notebook, and leave its kernel running; closing again does nothing."""
        if not self.is_open:
            return
        self.is_open = False
        self.page.evaluate(_WATCH_NOTHING)
        self.page.evaluate(_LEAVE)
        self.page.unroute(_SESSIONS)
        self.page.remove_listener("pageerror", self._note)
