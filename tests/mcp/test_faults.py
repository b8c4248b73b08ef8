"""Faults of servers and the machine are told, and cost the person nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from archytas_nb import Agent, Toolbox
from archytas_nb.errors import ConfigurationError
from archytas_nb.mcp.client import ServerConnection
from archytas_nb.prepare import built_in_names
from archytas_nb.settings import SETTINGS, Choice
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Cell, live_kernel
from tests.mcp.conftest import Served
from tests.mcp.fake import Answer, faked, tool
from tests.mcp.test_client import ASK

EVIL = "\x1b]0;OWNED\x07\x1b]8;;http://127.0.0.1/\x07link\x1b[2J\x9b31m\x9d0;t\x9c\x85\u202egnp.exe\x00\x7f"
CONTROLS = re.compile("\x1b[^\\[]|\x07|[\x80-\x9f]|\u202e|\x00|\x7f|\x1b\\[2J")
"""What only a server has sent: colours are IPython's."""


@contextmanager
def connected(answer: Answer, **options: Any) -> Iterator[ServerConnection]:
    with faked(answer) as url:
        connection = ServerConnection("s", url, **options)
        connection.connect()
        try:
            yield connection
        finally:
            connection.close()


def call(connection: ServerConnection, name: str = "s_one", **arguments: Any) -> Any:
    [found] = [each for each in connection.tools if each.name == name]
    return found.call(arguments)


def listing(*tools: Any, called: Any = None) -> Answer:
    def answer(method: str, _: dict[str, Any]) -> Any:
        return {"tools/list": {"tools": [*tools]}, "tools/call": called}.get(method)

    return answer


# ── statuses ──────────────────────────────────────────────────────────────────────────────────────

STATUSES = [400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 418, 422, 429, 451, 500, 501, 502, 503, 504, 599]  # fmt: skip
BODIES: list[tuple[str, bytes]] = [
    ("text/plain", b"no"),
    ("text/html", b"<html><h1>Log in</h1></html>"),
    ("application/json", b'{"error": "expired"}'),
    ("application/json", b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "expired"}}'),
    ("application/json", b""),
    ("text/event-stream", b"data: no\n\n"),
]  # fmt: skip


def test_the_status_of_a_server_is_told_in_connecting_and_in_a_call() -> None:
    refused: dict[str, Any] = {}

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method in refused:
            return refused[method]
        return listing(tool("one"), called={"content": []})(method, params)

    with faked(answer) as url, connected(answer) as connection:
        for number, status in enumerate(STATUSES):
            kind, body = BODIES[number % len(BODIES)]
            refused["tools/call"] = status, {"Content-Type": kind}, body
            said = call(connection)
            assert said.status == "error"
            assert f"HTTP {status}" in said.text
            assert ("expired" in said.text) == (b"expired" in body)
            refused.clear()
            assert call(connection).status == "done"
        for method in ("initialize", "tools/list"):
            for status, (kind, body) in zip((401, 403, 404, 429, 500, 503), BODIES, strict=True):
                refused[method] = status, {"Content-Type": kind}, body
                with pytest.raises(ConfigurationError, match=f"HTTP {status}"):
                    ServerConnection("s", url).connect()
            refused.clear()


def test_a_page_that_fails_and_one_that_comes_again_end_the_list() -> None:
    pages: dict[Any, Any] = {
        None: {"tools": [tool("one")], "nextCursor": ""},
        "": {"tools": [tool("two"), tool("one")], "nextCursor": "3"},
        "3": (500, {}, b"oops"),
    }

    def answer(method: str, params: dict[str, Any]) -> Any:
        return pages[params.get("cursor")] if method == "tools/list" else None

    with connected(answer) as connection:
        assert [each.name for each in connection.tools] == ["s_one", "s_two"]
        assert "500" in connection.left_out["further tools"]
    pages["3"] = {"tools": [tool("three")], "nextCursor": ""}
    with connected(answer) as connection:
        assert [each.name for each in connection.tools] == ["s_one", "s_two", "s_three"]
        assert connection.left_out == {}


def test_more_tools_than_are_used_are_named() -> None:
    with connected(listing(*(tool(f"t{number}") for number in range(600)))) as connection:
        assert len(connection.tools) == 500
        assert "500" in connection.left_out["further tools"]


# ── results and arguments ─────────────────────────────────────────────────────────────────────────

_INTEGER = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.parametrize(
    ("result", "status", "text"),
    [
        ({"content": [{"type": "text", "text": "plain"}]}, "done", "plain"),
        ({"structuredContent": {"x": 3}}, "done", '{"x": 3}'),
        ({"content": [{"type": "text", "text": "why"}], "isError": True, "structuredContent": {}}, "error", "why"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text"}]}, "done", "cannot be read"),
        ({"content": [{"type": "text"}]}, "error", "no text"),
        ({"content": [], "structuredContent": {"x": "no"}}, "error", "integer"),
        ({"content": [{"type": "video", "uri": "u:v"}]}, "done", "(video: u:v)"),
        ({"content": "plain"}, "done", "plain"),
    ],
)  # fmt: skip
def test_of_a_result_what_can_be_read_is_there(result: Any, status: str, text: str) -> None:
    with connected(listing(tool("one", outputSchema=_INTEGER), called=result)) as connection:
        outcome = call(connection)
        assert outcome.status == status
        assert text.replace(" ", "") in outcome.text.replace(" ", "")


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), "\ud83d", {"\udc00": 1}, object(), {1}]
)
def test_arguments_without_a_json_form_are_not_sent(value: Any) -> None:
    received: list[Any] = []

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "tools/call":
            received.append(params)
        return listing(tool("one", inputSchema={"type": "object"}), called={"content": []})(
            method, params
        )

    with connected(answer) as connection:
        for given in (value, [value], {"a": [value]}):
            outcome = call(connection, value=given)
            assert outcome.status == "error"
        assert received == []
        assert call(connection, value=[1.5, None, "\U0001f600"]).status == "done"
        assert connection.is_open


# ── texts that a terminal would obey ──────────────────────────────────────────────────────────────


def everything(cell: Cell) -> str:
    shown = [str(data) for each in cell.of("display_data") for data in each["data"].values()]
    lines = [line for each in cell.of("error") for line in each["traceback"]]
    return "\n".join([cell.result, cell.printed, *shown, *lines])


def evil_tools() -> list[Any]:
    argument = {"type": "string", "title": EVIL, "description": f"An argument. {EVIL}"}
    inner = {"type": "object", "properties": {"b": argument}}
    properties = {
        "a": argument,
        f"c{EVIL}": {"enum": [EVIL]},
        "d": inner,
        "e": {"anyOf": [argument]},
    }
    return [
        tool("look", description=f"Looks. {EVIL}", inputSchema={"type": "object", "properties": properties}),
        tool(f"named {EVIL}"), tool(f"named {EVIL}", description="Again."), tool(f"left {EVIL}", inputSchema=3),
        tool("fails"), {"name": "x" * 300 + EVIL, "inputSchema": {}},
    ]  # fmt: skip


def test_no_control_character_of_a_server_is_shown(served: Served) -> None:
    kernel = served.kernel
    kernel.run(ASK)
    failed = {"content": [{"type": "text", "text": f"failed {EVIL}"}], "isError": True}
    with faked(listing(*evil_tools(), called=failed)) as url:
        cells = [kernel.run(f"%agent_mcp add {url} --name evil")]
        assert "Looks." in kernel.run("%tools").result
        kernel.run("from archytas_nb import toolbox")
        lines = ("%agent_mcp", "%tools", "%tools evil_look", "%tools --warnings")
        cells += map(kernel.run, lines)
        cells.append(
            kernel.run("toolbox['evil_fails'].function.__doc__, toolbox['evil_look'].text")
        )
        cells.append(kernel.run("print(toolbox['evil_look'].text)"))
        cells.append(kernel.run("import asyncio\nawait toolbox['evil_fails'].function()"))
        assert "failed" in cells[-1].error
        cells.append(kernel.run('ask(("evil_fails", {}))'))
        cells.append(kernel.run("%agent_mcp remove evil"))
    for status in (200, 401, 500):

        def refusing(*_: Any, status: int = status) -> Any:
            return status, {"Content-Type": "text/plain"}, f"no {EVIL}".encode()

        with faked(refusing) as url:
            cells.append(kernel.run(f"%agent_mcp add {url} --name evil"))
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": f"no {EVIL}"}}
    code = f"import sys; sys.stderr.write({EVIL!r}); sys.exit(3)"
    with faked(lambda *_: {"tools": error, "protocolVersion": EVIL}) as url:
        cells.append(kernel.run(f"%agent_mcp add {url} --name evil"))
    cells.append(kernel.run(f"%agent_mcp add evil -- {shlex.join(['python', '-c', code])}"))
    for cell in cells:
        shown = everything(cell)
        found = CONTROLS.search(shown)
        assert found is None, shown[max(0, found.start() - 200) : found.end() + 100]


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def offered(**settings: Any) -> set[str]:
    """The names that a question without tools of the user's offers."""
    model = ScriptedModel(("final_answer", "done"), protocol="native")
    agent = Agent(Toolbox(), model=model, protocol="native", **settings)
    agent.run("What is x? Which cells ran?", progress=False)
    return {each["function"]["name"] for each in model.asked[0].tools}


def test_every_name_that_a_question_offers_is_one_of_ours() -> None:
    names = ("values", "context", "python")
    kinds = [SETTINGS[each].kind for each in names]
    found: set[str] = set()
    for chosen in product(*(each.names for each in kinds if isinstance(each, Choice))):
        found |= offered(**dict(zip(names, chosen, strict=True)), ask_user=True)
    assert {"ask_user", "python", "look", "variables", "compare"} <= found
    assert found <= built_in_names()


IN_A_KERNEL = """
from archytas_nb import Agent, Toolbox
from archytas_nb.prepare import built_in_names
from archytas_nb.testing import ScriptedModel
model = ScriptedModel(("final_answer", "done"), protocol="native")
_ = Agent(Toolbox(), model=model).run("Which cells ran?", progress=False)
names = {each["function"]["name"] for each in model.asked[0].tools}
"cells" in names, names - built_in_names()
"""


def test_a_tool_of_a_server_cannot_have_a_name_that_exists(served: Served) -> None:
    kernel = served.kernel
    assert kernel.run(IN_A_KERNEL).result == "(True, set())"
    kernel.run("@tool(name='own-thing')\ndef own() -> str:\n    'Mine.'\n    return 'mine'")
    splits = [
        name.split("_", 1)
        for name in [*built_in_names(), "own_thing", "notebook_tools"]
        if "_" in name
    ]
    splits = [pair for pair in splits if all(pair)]
    assert ["ask", "user"] in splits
    assert ["final", "answer"] in splits
    for server, name in splits:
        with faked(listing(tool(name), tool("fine"))) as url:
            added = kernel.run(f"%agent_mcp add {url} --name {server}").result
            tools = kernel.run("from archytas_nb import toolbox; list(toolbox)").result
            kernel.run(f"%agent_mcp remove {server}")
        assert f"'{server}_fine'" in tools
        if (server, name) != ("notebook", "tools"):  # which is no tool of a question
            assert f"left out: {name}" in added
            assert f"'{server}_{name}'" not in tools
    kernel.run("toolbox.remove('own-thing')")


# ── the machine ───────────────────────────────────────────────────────────────────────────────────


def test_where_a_kernel_cannot_be_registered_it_does_not_listen(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    with live_kernel(tmp_path, JUPYTER_RUNTIME_DIR=str(runtime)) as kernel:

        def run(code: str) -> Cell:
            return kernel.run(code, wait=120)

        run("%load_ext archytas_nb\nimport os, resource, psutil")
        run("from archytas_nb.testing import ScriptedModel\nscript = ScriptedModel()")
        listening = (
            "len([c for c in psutil.Process().net_connections('inet') if c.status == 'LISTEN'])"
        )
        before = run(listening).result
        home = run("os.getcwd()").result
        limit = "resource.setrlimit(resource.RLIMIT_FSIZE, ({}, resource.RLIM_INFINITY))"
        faults: list[Callable[[], Any]] = [
            lambda: run("import signal; _ = signal.signal(signal.SIGXFSZ, signal.SIG_IGN); " + limit.format(0)),
            lambda: run("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')"),
            lambda: run(f"os.environ['JUPYTER_RUNTIME_DIR'] = {str(tmp_path / 'a file' / 'runtime')!r}"),
            lambda: run(f"os.environ['JUPYTER_RUNTIME_DIR'] = {str(tmp_path / ('x' * 300))!r}"),
        ]  # fmt: skip
        (tmp_path / "a file").touch()
        for fault in faults:
            fault()
            for begin, state, nothing in (
                ("%agent_mcp serve", "%agent_mcp", "nothing is served"),
                ("%agent_chat on --model script", "%agent_chat", "no chat can connect"),
            ):
                for _ in range(2):  # the second says the same as the first
                    cell = run(begin)
                    assert cell.status == "error"
                    assert len(cell.error.splitlines()) <= 5, cell.error
                assert nothing in run(state).result
            assert run(listening).result == before
            run(f"os.chdir({home}); os.environ['JUPYTER_RUNTIME_DIR'] = {str(runtime)!r}")
            run(limit.format("resource.RLIM_INFINITY"))
        assert run("%agent_mcp serve").status == "ok"
        assert run("%agent_chat on --model script").status == "ok"
        run("%agent_mcp stop\n%agent_chat off")
    assert list(runtime.iterdir()) == []
