"""Code of the model connects, starts, deletes and writes outside only after the person was asked."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from archytas_nb import Agent
from archytas_nb.choices import AskBefore
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.python import python_tool
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from tests.effects.test_ledger import tree, untimed
from tests.scripted import Scripted

# What code leaves open.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SETUP = """
import asyncio, ftplib, http.client, multiprocessing, os, pathlib, shutil, signal, smtplib, socket, sys
import subprocess, threading, urllib.request, webbrowser
from concurrent.futures import ThreadPoolExecutor
port = int(pathlib.Path("port").read_text())
"""

DELETES = {
    "os.remove": "os.remove('raw.csv')",
    "os.unlink": "os.unlink('raw.csv')",
    "Path.unlink": "pathlib.Path('raw.csv').unlink()",
    "missing_ok": "pathlib.Path('raw.csv').unlink(missing_ok=True)",
    "os.rmdir": "os.rmdir('empty')",
    "Path.rmdir": "pathlib.Path('empty').rmdir()",
    "removedirs": "os.removedirs('empty')",
    "rmtree": "shutil.rmtree('data')",
    "by a descriptor": "os.remove('a.txt', dir_fd=os.open('data', os.O_RDONLY))",
    "in a loop": "for each in list(os.scandir('data')):\n    os.remove(each)",
    "in a function": "def f():\n    os.remove('raw.csv')\nf()",
    "in a thread": "t = threading.Thread(target=os.remove, args=('raw.csv',))\nt.start(); t.join()",
    "in a pool": "with ThreadPoolExecutor(1) as p:\n    p.submit(os.remove, 'raw.csv').result()",
    "in a task": "async def f():\n    os.remove('raw.csv')\nawait asyncio.create_task(f())",
    "to_thread": "await asyncio.to_thread(os.remove, 'raw.csv')",
    "a link": "os.remove('link')",
}
STARTS = {
    "subprocess.run": "subprocess.run(['touch', 'made'])",
    "Popen": "subprocess.Popen(['touch', 'made']).wait()",
    "a shell": "subprocess.run('touch made', shell=True)",
    "check_output": "subprocess.check_output(['touch', 'made'])",
    "os.system": "os.system('touch made')",
    "os.popen": "os.popen('touch made').read()",
    "posix_spawn": "os.waitpid(os.posix_spawn('/usr/bin/touch', ['touch', 'made'], os.environ), 0)",
    "os.spawnlp": "os.spawnlp(os.P_WAIT, 'touch', 'touch', 'made')",
    "fork": "pid = os.fork()\nif pid == 0:\n    os._exit(0)",
    "multiprocessing": "p = multiprocessing.get_context('spawn').Process(target=print)\np.start()",
    "asyncio": "p = await asyncio.create_subprocess_exec('touch', 'made')\nawait p.wait()",
    "a signal": "os.kill(os.getppid(), 0)",
    "in a thread": "t = threading.Thread(target=os.system, args=('touch made',))\nt.start(); t.join()",
}
CONNECTS = {
    "socket": "s = socket.socket()\ns.connect(('127.0.0.1', port))",
    "connect_ex": "s = socket.socket()\ns.connect_ex(('127.0.0.1', port))",
    "create_connection": "socket.create_connection(('127.0.0.1', port))",
    "a name": "socket.create_connection(('localhost', port))",
    "a lookup": "socket.getaddrinfo('localhost', port)",
    "sendto": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'', ('127.0.0.1', port))",
    "http.client": "http.client.HTTPConnection('127.0.0.1', port).connect()",
    "urllib": "urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=1)",
    "ftplib": "ftplib.FTP().connect('127.0.0.1', port, 1)",
    "smtplib": "smtplib.SMTP('127.0.0.1', port, timeout=1)",
    "asyncio": "r, w = await asyncio.open_connection('127.0.0.1', port)\nw.close()",
    "in a thread": "t = threading.Thread(target=socket.create_connection, args=(('127.0.0.1', port),))\n"
    "t.start(); t.join()",
    "a server": "socket.create_server(('127.0.0.1', 0))",
}
OUTSIDE = {
    "write": "open(outside + '/new', 'w')",
    "overwrite": "pathlib.Path(outside, 'there').write_text('x')",
    "mkdir": "os.mkdir(outside + '/folder')",
    "rename": "os.rename('raw.csv', outside + '/raw.csv')",
    "copy": "shutil.copy('raw.csv', outside)",
    "copytree": "shutil.copytree('data', outside + '/data')",
    "move": "shutil.move('raw.csv', outside)",
    "symlink": "os.symlink('raw.csv', outside + '/link')",
    "through a link": "open('out/new', 'w')",
}
WAYS: list[tuple[AskBefore, str]] = [
    *(("delete", each) for each in DELETES.values()),
    *(("process", each) for each in STARTS.values()),
    *(("network", each) for each in CONNECTS.values()),
    *(("outside", each) for each in OUTSIDE.values()),
]


class World:
    """A folder with files, another one outside of it, and a server that counts its connections."""

    def __init__(self, path: Path) -> None:
        self.folder = path / "work"
        self.outside = path / "outside"
        self.outside.mkdir()
        (self.outside / "there").write_text("there")
        (self.folder / "data").mkdir(parents=True)
        (self.folder / "empty").mkdir()
        for name in ("raw.csv", "data/a.txt", "data/b.txt"):
            (self.folder / name).write_text(name)
        (self.folder / "link").symlink_to("raw.csv")
        (self.folder / "out").symlink_to(self.outside)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(0)
        (self.folder / "port").write_text(str(self.server.getsockname()[1]))

    @property
    def state(self) -> Any:
        try:
            self.server.accept()[0].close()
            has_connected = True
        except BlockingIOError:
            has_connected = False
        return untimed(tree(self.folder)), untimed(tree(self.outside)), has_connected


@pytest.fixture
def world(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    # Not where temporary files are expected.
    monkeypatch.setattr("archytas_nb.effects.ledger._temporary", lambda: ())
    found = World(tmp_path_factory.mktemp("world"))
    monkeypatch.chdir(found.folder)
    yield found
    found.server.close()
    gc.collect()  # here, where what it warns of is ignored


def ran(code: str, person: Scripted, *kinds: AskBefore, **options: Any) -> CallOutcome:
    tools = Toolbox(python_tool("undoable"), *options.pop("tools", ()))
    executor = KernelExecutor(
        tools, {"outside": str(Path("out").resolve())}, person=person, ask_before=kinds, **options
    )
    [outcome] = executor.run([ToolCall("c", "python", {"code": SETUP + code})])
    return outcome


def test_there_are_thirty_ways() -> None:
    assert len(set(WAYS)) == len(WAYS) >= 30


@pytest.mark.parametrize(("kind", "code"), WAYS)
def test_it_is_asked_about_before_it_happens(kind: AskBefore, code: str, world: World) -> None:
    before = world.state
    person = Scripted("n")
    # What a thread raises, no caller gets.
    outcome = ran(f"try:\n    threading.excepthook = lambda *_: None\n{_indented(code)}\n"
                  "except OSError as error:\n    refused = str(error)\nfinally:\n"
                  "    threading.excepthook = threading.__excepthook__", person, kind)  # fmt: skip
    assert outcome.status == "done", outcome.text
    [prompt] = person.prompts
    assert "NAME = VALUE" not in prompt
    assert "Its program waits" in prompt
    assert world.state == before


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.split("\n"))


@pytest.mark.parametrize(
    ("kind", "code", "shown"),
    [
        ("delete", "os.remove('raw.csv')", "path = 'raw.csv'"),
        ("delete", "shutil.rmtree('data')", "path = 'data'"),
        ("process", "subprocess.run(['touch', 'made'])", "command = 'touch made'"),
        ("process", "os.popen('touch made').close()", "command = '/bin/sh -c touch made'"),
        ("network", "socket.create_connection(('localhost', port))", "address = 'localhost:"),
        ("network", CONNECTS["http.client"], "address = '127.0.0.1:"),
        (
            "network",
            "http.client.HTTPConnection('127.0.0.1', port).request('GET', '/')",
            "address = '127.0.0.1:",
        ),
        (
            "network",
            "urllib.request.urlopen(f'http://localhost:{port}/', timeout=0.01)",
            "http://loc",
        ),
        ("outside", "shutil.copytree('data', outside + '/data')", "outside/data'"),
    ],
)
def test_an_act_is_asked_about_once_and_then_happens(
    kind: AskBefore, code: str, shown: str, world: World
) -> None:
    before = world.state
    answers = ["y"] if kind != "outside" else ["this run"]
    person = Scripted(*answers)
    ran(code, person, kind)
    [prompt] = person.prompts
    assert shown in prompt
    assert world.state != before


def test_another_address_with_the_port_of_a_permitted_host_is_asked_about(world: World) -> None:
    person = Scripted("y", "n")
    outcome = ran(
        "socket.create_connection(('localhost', port)).close()\n"
        "s = socket.socket()\ns.connect(('127.0.0.2', port))",
        person, "network",
    )  # fmt: skip
    assert isinstance(outcome.error, PermissionError)
    assert ["localhost:" in each for each in person.prompts] == [True, False]
    assert "127.0.0.2:" in person.prompts[1]


def test_a_redirect_to_another_host_is_asked_about(world: World) -> None:
    place = f"http://127.0.0.1:{world.server.getsockname()[1]}/"

    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", place)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Redirect) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        person = Scripted("y", "n")
        code = f"urllib.request.urlopen('http://localhost:{server.server_port}/', timeout=5)"
        outcome = ran(code, person, "network")
        server.shutdown()
        thread.join()
    assert outcome.status == "error"
    assert [place in each for each in person.prompts] == [False, True]
    assert not world.state[-1]


def test_a_refusal_reaches_the_code_as_a_permission_error(world: World) -> None:
    outcome = ran("os.remove('raw.csv')", Scripted("n: it is the only copy"), "delete")
    assert isinstance(outcome.error, PermissionError)
    assert "it is the only copy" in str(outcome.error)
    assert (world.folder / "raw.csv").exists()


@pytest.mark.parametrize("policy", ["ask", "auto"])
def test_where_nobody_is_there_it_is_refused(policy: str, world: World) -> None:
    outcome = ran("os.remove('raw.csv')", Scripted(there=False), "delete", approve=policy)
    assert isinstance(outcome.error, PermissionError)
    assert (world.folder / "raw.csv").exists()


def test_deny_refuses_without_a_question(world: World) -> None:
    outcome = ran("os.remove('raw.csv')", Scripted(), "delete", approve="deny")
    assert isinstance(outcome.error, PermissionError)
    assert (world.folder / "raw.csv").exists()


def test_a_function_that_decides_sees_the_act(world: World) -> None:
    seen = []

    def decide(tool: Tool, call: ToolCall) -> str:
        seen.append((tool.name, call.input))
        return "Not raw.csv." if call.input == {"path": "raw.csv"} else ""

    code = "os.remove('data/a.txt')\nos.remove('raw.csv')"
    outcome = ran(code, Scripted(), "delete", approve=decide)
    assert seen[1:] == [("delete", {"path": "data/a.txt"}), ("delete", {"path": "raw.csv"})]
    assert "Not raw.csv." in str(outcome.error)
    assert not (world.folder / "data/a.txt").exists()


def test_a_permission_for_the_run_covers_the_kind_and_no_other(world: World) -> None:
    person = Scripted("this run", "n")
    outcome = ran(
        "for each in list(os.scandir('data')):\n    os.remove(each)\nos.system('touch made')",
        person, "delete", "process",
    )  # fmt: skip
    assert isinstance(outcome.error, PermissionError)
    assert len(person.prompts) == 2
    assert not any((world.folder / "data").iterdir())
    assert not (world.folder / "made").exists()


def test_stop_ends_the_run(world: World) -> None:
    outcome = ran("os.remove('raw.csv')", Scripted("stop"), "delete")
    assert outcome.status == "interrupted"
    assert (world.folder / "raw.csv").exists()


def test_only_the_kinds_that_are_named_are_asked_about(world: World) -> None:
    everything = "\n".join([DELETES["os.remove"], STARTS["os.system"], CONNECTS["socket"]])
    assert ran(everything, Scripted()).status == "done"
    assert ran("os.system('touch made')", Scripted(), "delete", "network").status == "done"
    assert (world.folder / "made").exists()


@pytest.mark.parametrize(
    "code",
    [
        "open('new', 'w').close()\nos.remove('new')",
        "import tempfile\nwith tempfile.TemporaryDirectory(dir='.') as name: open(name + '/x', 'w')",
        "open('raw.csv', 'w').close()",
        "os.replace('raw.csv', 'data/a.txt')",
        "shutil.move('raw.csv', 'data')",
        "open('raw.csv').read()",
        "pathlib.Path(outside, 'there').read_text()",
    ],
)
def test_reading_and_what_it_made_itself_need_no_question(code: str, world: World) -> None:
    outcome = ran(code, Scripted(), "delete", "network", "process", "outside")
    assert outcome.status == "done", outcome.text


def test_to_overwrite_what_cannot_be_kept_is_to_delete_it(world: World) -> None:
    person = Scripted("n")
    outcome = ran("open('raw.csv', 'w')", person, "delete", file_bounds={"file": 3})
    assert isinstance(outcome.error, PermissionError)
    assert (world.folder / "raw.csv").read_text() == "raw.csv"


def test_a_folder_that_is_named_is_not_outside(world: World) -> None:
    outcome = ran("open(outside + '/new', 'w')", Scripted(), "outside", folders=[world.outside])
    assert outcome.status == "done", outcome.text


def test_a_tool_has_an_approval_of_its_own(world: World) -> None:
    def remove(name: str) -> str:
        """Remove a file.

        Args:
            name: The file
        """
        (world.folder / name).unlink()
        return "removed"

    tool = Tool.from_function(remove, approve=True)
    person = Scripted("y")
    outcome = ran("remove('raw.csv')", person, "delete", tools=[tool])
    assert outcome.status == "done", outcome.text
    assert len(person.prompts) == 1
    assert not (world.folder / "raw.csv").exists()


def test_what_the_person_does_meanwhile_is_not_asked_about(world: World) -> None:
    def removed_by_person(*_: Any) -> str:
        thread = threading.Thread(target=(world.folder / "data/a.txt").unlink)
        thread.start()
        thread.join()
        return "y"

    person = Scripted()
    person.ask = removed_by_person  # type: ignore[method-assign]
    assert ran("os.remove('raw.csv')", person, "delete").status == "done"
    assert not (world.folder / "data/a.txt").exists()


def test_code_in_another_process_is_refused(world: World) -> None:
    code = """
pid = os.fork()
if pid == 0:
    try:
        os.remove('raw.csv')
        os._exit(0)
    except PermissionError:
        os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert "7" in ran(code, Scripted(), "delete").text
    assert (world.folder / "raw.csv").exists()


def test_it_is_a_setting_of_a_question() -> None:
    with pytest.raises(ValueError, match="ask_before"):
        Agent(ask_before=["files"])  # type: ignore[list-item]
    Agent(ask_before=["delete"])
