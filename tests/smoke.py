"""An installed wheel, used as a user does: ``python -m tests.smoke`` in an environment that has nothing but it.

It needs no test runner, so that it can be run where only the package is installed, in its oldest and its newest
dependencies. The gate copies it beside the built wheel; it fails by an assertion.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import archytas_nb
from tests.live_kernel import Cell, Kernel, live_kernel
from tests.servers.plays import Say
from tests.servers.server import Server

TOOL = '''%%tool
def double(n: int) -> int:
    """Double a number.

    Args:
        n: The number

    Returns:
        int: Twice the number
    """
    asked.append(n)
    return 2 * n
'''
SLEEP = '''%%tool
def sleep(seconds: float) -> str:
    """Sleep.

    Args:
        seconds: How long

    Returns:
        str: That it is done
    """
    import time
    time.sleep(seconds)
    asked.append("slept")
    return "done"
'''


def check_install() -> None:
    """It is the installed package, and it is typed."""
    home = Path(archytas_nb.__file__)
    assert "site-packages" in home.parts, f"{home} is not an installed package"
    assert (home.parent / "py.typed").exists()


def check_notebook(protocol: str) -> None:
    """The kernel of the wheel answers a question with a tool, stops when it is interrupted, and goes on."""
    native = protocol == "native"
    first = Say(calls=(("double", {"n": 21}),))
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(first, Say("It is 42.")) as server,
        live_kernel(
            Path(folder), name="archytas_nb", OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none"
        ) as kernel,
    ):
        assert not run(kernel, "asked = []").printed  # loading says nothing
        run(kernel, TOOL)
        cell = run(
            kernel,
            f"%config ArchytasNB.protocol = {protocol!r}\nrun = %agent What is twice 21?\nprint(asked, run.answer)",
        )
        assert cell.printed == "[21] It is 42.\n", cell.messages
        assert len(cell.displayed) == 1, cell.displayed  # nobody is there: one static trace
        assert {"text/plain", "text/markdown", "text/html"} <= set(cell.displayed[0])
        assert "double" in cell.displayed[0]["text/plain"]
        assert not server.complaints, server.complaints
        assert any("tools" in asked.body for asked in server.chats) == native
        run(kernel, SLEEP)
        server.plays.append(Say(calls=(("sleep", {"seconds": 30}),)))
        stopped = kernel.run(
            f"%config ArchytasNB.protocol = {protocol!r}\n%agent Sleep.", interrupt_after=2.0
        )
        assert stopped.status == "error", stopped.messages
        assert "slept" not in run(kernel, "print(asked)").printed
        again = run(
            kernel,
            f"%config ArchytasNB.protocol = {protocol!r}\nrun = %agent Are you there?\nprint(run.status)",
        )
        assert again.printed == "answered\n", again.messages


def run(kernel: Kernel, code: str) -> Cell:
    """Run a cell that must not fail."""
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell


def check_lab() -> None:
    """JupyterLab, where it is installed, offers the kernel of the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            "--ServerApp.port=0",
        ]
        command += [
            "--ServerApp.ip=127.0.0.1",
            "--IdentityProvider.token=t",
            f"--ServerApp.root_dir={folder}",
        ]
        environment = {
            **os.environ,
            "JUPYTER_RUNTIME_DIR": folder,
            "JUPYTER_CONFIG_DIR": folder,
            "HOME": folder,
        }
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as lab:
            try:
                specs = kernelspecs(Path(folder), lab)
            finally:
                lab.terminate()
    assert "archytas_nb" in specs, specs


def kernelspecs(runtime: Path, lab: subprocess.Popen[bytes], seconds: float = 180.0) -> list[str]:
    """The kernels of a server that is starting, as soon as it answers."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and lab.poll() is None:
        for said in runtime.glob("jpserver-*.json"):
            try:
                url = json.loads(said.read_text(encoding="utf-8"))["url"]
                with urllib.request.urlopen(f"{url}api/kernelspecs?token=t", timeout=5) as answer:
                    return list(json.load(answer)["kernelspecs"])
            except (OSError, ValueError):  # it is not listening yet
                pass
        time.sleep(0.2)
    raise AssertionError(
        f"JupyterLab did not answer within {seconds:g} s; its exit status is {lab.poll()}"
    )


if __name__ == "__main__":
    check_install()
    for each in ("react", "native"):
        check_notebook(each)
    if importlib.util.find_spec("jupyterlab") is not None:
        check_lab()
    names = ("ipython", "ipykernel", "ipywidgets", "openai", "pydantic", "jupyterlab")
    found = {
        name: importlib.metadata.version(name)
        for name in names
        if importlib.util.find_spec(name.replace("ipython", "IPython"))
    }
    print("the wheel works with", ", ".join(f"{name} {version}" for name, version in found.items()))
