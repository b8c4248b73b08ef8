"""Other programs call the tools of a live notebook."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import REQUEST_TIMEOUT, Implementation

from tests.live_kernel import live_kernel
from tests.mcp.conftest import Served


def text(result: Any) -> str:
    return "\n".join(each.text for each in result.content if each.type == "text")


def call(served: Served, name: str, arguments: dict[str, Any] | None = None) -> tuple[str, bool]:
    """The text of a result, and whether it is an error."""

    async def work(client: Client) -> Any:
        return await client.call_tool(name, arguments or {})

    result = served.talk(work)
    return text(result), result.is_error


def test_the_tools_are_listed_with_their_schemas(served: Served) -> None:
    listed = served.talk(lambda client: client.list_tools()).tools
    tools = {each.name: each for each in listed}
    assert {"count", "add_number", "sleep", "clear", "notebook_tools", "notebook_call"} <= {*tools}
    assert tools["count"].input_schema["required"] == ["word"]
    assert tools["count"].input_schema["properties"]["times"]["default"] == 1
    hints = {name: each.annotations for name, each in tools.items()}
    assert hints["clear"].destructive_hint
    assert hints["count"].destructive_hint is False
    assert hints["notebook_call"].destructive_hint
    assert hints["notebook_tools"].read_only_hint


def test_a_call_runs_on_the_main_thread_and_is_validated(served: Served) -> None:
    served.kernel.run("seen.clear()")
    assert call(served, "count", {"word": "abc", "times": 2}) == ("6", False)
    assert served.value("seen") == "[True]"
    said, is_error = call(served, "count", {"wrd": "abc"})
    assert is_error
    assert "did you mean 'word'" in said
    said, is_error = call(served, "cuont", {})
    assert is_error
    assert "did you mean 'count'" in said


def test_a_tool_that_was_defined_later_can_be_called(served: Served) -> None:
    served.kernel.run("@tool\ndef later() -> str:\n    'Late.'\n    return 'late'")
    assert "later:" in call(served, "notebook_tools")[0]
    given = {"name": "later", "arguments": {}}
    assert call(served, "notebook_call", given) == ("late", False)
    assert call(served, "notebook_call", {"arguments": {}})[1]


def test_a_tool_with_the_name_of_a_fixed_one_is_listed_once_and_can_be_called(
    served: Served,
) -> None:
    served.kernel.run("@tool\ndef notebook_tools() -> str:\n    'Mine.'\n    return 'mine'")
    listed = [each.name for each in served.talk(lambda client: client.list_tools()).tools]
    assert len(listed) == len({*listed})
    assert "count:" in call(served, "notebook_tools")[0]
    given = {"name": "notebook_tools", "arguments": None}
    assert call(served, "notebook_call", given) == ("mine", False)
    served.kernel.run("from archytas_nb import toolbox; toolbox.remove('notebook_tools')")


def test_a_call_with_very_many_arguments_is_not_made(served: Served) -> None:
    said, is_error = call(served, "count", {f"a{number}": number for number in range(5_000)})
    assert is_error
    assert "5,000" in said


UNREADABLE = [
    "NaN", "[1, NaN]", '{"a": {"b": -Infinity}}', "1e999", "-1e400", "[" * 100 + "]" * 100,
    '{"a":' * 90 + "1" + "}" * 90, '[{"a":' * 60 + "1" + "}]" * 60, r'"\ud83d"', r'{"\udc00": 1}',
]  # fmt: skip


@pytest.mark.parametrize("name", ["count", "notebook_call"])
def test_arguments_that_are_no_json_are_refused_with_the_reason(served: Served, name: str) -> None:
    """Nobody has interrupted, and the tool is not called."""
    served.kernel.run("seen.clear()")
    begin = (
        '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "%s", "arguments": '
    )
    with httpx2.Client(timeout=60) as http:
        handshake(served, http, "2025-06-18")
        http.headers |= {"content-type": "application/json"}
        for value in UNREADABLE:
            arguments = f'{{"word": "a", "times": {value}}}'
            if name == "notebook_call":
                arguments = f'{{"name": "count", "arguments": {arguments}}}'
            answer = http.post(served.url, content=begin % name + arguments + "}}").text
            assert "interrupted" not in answer
            assert "was not called" in answer or "-32700" in answer, value
        assert http.delete(served.url).status_code == 200
    assert served.value("seen") == "[]"


def test_numbers_and_depths_that_are_json_are_passed_on(served: Served) -> None:
    served.kernel.run(
        "@tool\ndef takes(value: object) -> str:\n    'Take.'\n    return repr(value)"
    )
    for value in ([[[[[[1.5e300]]]]]], {"a": [2**53 + 1, -0.0, "\U0001f600"]}, "[" * 30 + "]" * 30):
        given = {"name": "takes", "arguments": {"value": value}}
        said, is_error = call(served, "notebook_call", given)
        assert not is_error, said


def test_a_result_that_ends_the_process_when_it_is_shown_ends_nothing(served: Served) -> None:
    served.kernel.run(
        "class Exits:\n    def __repr__(self): raise SystemExit(3)\n"
        "@tool\ndef exits() -> object:\n    'Exit.'\n    return Exits()"
    )

    async def work(client: Client) -> Any:
        with pytest.raises(MCPError, match="SystemExit"):
            await client.call_tool("notebook_call", {"name": "exits"})
        return await client.call_tool("count", {"word": "ab"})

    assert text(served.talk(work)) == "2"


def test_the_name_of_a_program_is_shortened_and_made_visible(served: Served) -> None:
    name = "\x1b[31m<b>" + "x" * 10_000
    info = Implementation(name="long", title=name, version="1")
    served.talk(lambda client: client.call_tool("count", {"word": "abcdefg"}), client_info=info)
    shown = served.shown('count(word="abcdefg")')
    assert "\x1b" not in shown
    assert "x" * 100 not in shown
    assert "<b>xxx" in shown


def test_what_a_call_changes_can_be_undone(served: Served) -> None:
    served.kernel.run("%config ArchytasNB.undo = True")
    served.kernel.run("numbers[:] = [1, 2, 3]")
    assert call(served, "add_number", {"number": 4})[1] is False
    assert served.value("numbers") == "[1, 2, 3, 4]"
    assert "numbers" in served.kernel.run("%agent_why").result
    served.kernel.run("%agent_undo")
    assert served.value("numbers") == "[1, 2, 3]"
    served.kernel.run("%config ArchytasNB.undo = None")


def test_what_a_call_does_to_files_can_be_undone(served: Served) -> None:
    served.kernel.run(
        "import pathlib, subprocess\npathlib.Path('raw.csv').write_text('a')\n"
        "@tool\ndef tidy() -> str:\n    'Tidy up.'\n"
        "    pathlib.Path('raw.csv').unlink()\n"
        "    subprocess.run('echo x > out.txt', shell=True)\n    return 'tidy'"
    )
    listed = "[each for each in ('out.txt', 'raw.csv') if pathlib.Path(each).exists()]"
    assert call(served, "notebook_call", {"name": "tidy"}) == ("tidy", False)
    assert served.value(listed) == "['out.txt']"
    undone = served.kernel.run("%agent_undo").result
    assert "restored: raw.csv" in undone
    assert "deleted: out.txt" in undone
    assert served.value(listed) == "['raw.csv']"
    assert served.value("pathlib.Path('raw.csv').read_text()") == "'a'"
    served.kernel.run("%agent_undo --redo")
    assert served.value(listed) == "['out.txt']"
    served.kernel.run("pathlib.Path('out.txt').unlink()")


def test_a_call_waits_for_the_running_cell_and_reports_progress(served: Served) -> None:
    states: list[str] = []

    async def work(client: Client) -> Any:
        async def on_progress(_: float, __: float | None, message: str | None) -> None:
            states.append(message or "")

        return await client.call_tool("count", {"word": "ab"}, progress_callback=on_progress)

    served.kernel.run("from archytas_nb.mcp import server; server.SECONDS_BETWEEN_PROGRESS = 0.1")
    # The cell is running before the call is made: it has written that it runs.
    served.kernel.client.execute("import time; print('runs'); time.sleep(2)")
    while served.kernel.client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass
    assert text(served.talk(work)) == "2"
    assert states[:1] == ["waiting until a cell of the notebook has ended"]
    served.kernel.client.get_shell_msg(timeout=60)


def test_a_call_that_is_cancelled_is_interrupted_and_nothing_else(
    served: Served, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    served.kernel.run(
        f"import pathlib\n@tool\ndef wait() -> str:\n    'Wait.'\n"
        f"    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(3600)\n    return ''"
    )

    async def work(client: Client) -> Any:
        task = asyncio.create_task(client.call_tool("notebook_call", {"name": "wait"}))
        while not begun.exists():
            assert not task.done(), task.result()
            await asyncio.sleep(0.05)
        task.cancel()
        return await client.call_tool("count", {"word": "abcd"})  # it would wait for an hour

    assert text(served.talk(work)) == "4"
    assert served.value("1 + 1") == "2"


def test_nobody_is_there_so_a_tool_that_needs_approval_is_refused(served: Served) -> None:
    served.kernel.run("numbers[:] = [1]")
    said, is_error = call(served, "clear")
    assert is_error
    assert "refused" in said.lower() or "not run" in said.lower()
    assert served.value("numbers") == "[1]"


def test_variables_are_resources_and_secrets_are_not(served: Served) -> None:
    listed = served.talk(lambda client: client.list_resources()).resources
    names = [each.name for each in listed]
    assert names[0] == "variables"
    assert "numbers" in names
    assert "password" not in names
    [template] = served.talk(lambda client: client.list_resource_templates()).resource_templates
    assert template.uri_template.format(name="numbers") in [str(each.uri) for each in listed]

    async def read(client: Client) -> str:
        found = await client.read_resource("notebook://variable/numbers")
        every = await client.read_resource("notebook://variables")
        return str(found.contents[0].text + every.contents[0].text)

    served.kernel.run("numbers[:] = [1, 2, 3]")
    said = served.talk(read)
    assert "1, 2, 3" in said
    assert "hunter2" not in said

    async def read_secret(client: Client) -> None:
        with pytest.raises(MCPError):
            await client.read_resource("notebook://variable/password")

    served.talk(read_secret)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Origin": "http://example.org"}, 403),
        ({"Host": "example.org"}, 421),
    ],
)
def test_requests_of_others_are_rejected(
    served: Served, headers: dict[str, str], status: int
) -> None:
    given = {
        "Authorization": f"Bearer {served.token}",
        "Accept": "application/json, text/event-stream",
        **headers,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert httpx2.post(served.url, headers=given, json=body).status_code == status


def handshake(served: Served, http: httpx2.Client, version: str) -> dict[str, Any]:
    """The server's answer to a program that begins with a version of the protocol."""
    http.headers |= {
        "Authorization": f"Bearer {served.token}",
        "Accept": "application/json, text/event-stream",
    }
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    }
    return asked(served, http, "initialize", params)


def asked(
    served: Served, http: httpx2.Client, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    """The result of a request, in the session that the answer to an earlier one began."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = http.post(served.url, json=body)
    if "mcp-session-id" in answer.headers:
        http.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
    [data] = [line for line in answer.text.splitlines() if line.startswith("data: {")]
    result: dict[str, Any] = json.loads(data.removeprefix("data: "))["result"]
    return result


OLDER = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


@pytest.mark.parametrize("version", OLDER)
def test_each_older_handshake_is_served(served: Served, version: str) -> None:
    with httpx2.Client(timeout=60) as http:
        assert handshake(served, http, version)["protocolVersion"] == version
        if version >= "2025-06-18":  # since then it is sent with each request
            http.headers["mcp-protocol-version"] = version
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert http.post(served.url, json=note).status_code == 202
        tools = asked(served, http, "tools/list", {})["tools"]
        assert "count" in [each["name"] for each in tools]
        given = {"name": "count", "arguments": {"word": "abc"}}
        result = asked(served, http, "tools/call", given)
        assert result["content"] == [{"type": "text", "text": "3"}]
        assert http.delete(served.url).status_code == 200


@pytest.mark.parametrize("version", ["1999-01-01", "2030-01-01", "new"])
def test_a_handshake_of_an_unknown_version_is_answered_with_a_known_one(
    served: Served, version: str
) -> None:
    with httpx2.Client(timeout=60) as http:
        assert handshake(served, http, version)["protocolVersion"] == OLDER[-1]
        assert http.delete(served.url).status_code == 200


def test_a_call_that_the_program_no_longer_waits_for_is_interrupted(served: Served) -> None:
    async def work(client: Client) -> Any:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("sleep", {"seconds": 3600}, read_timeout_seconds=1)
        # It would wait for an hour if the other one was still running.
        return raised.value.code, await client.call_tool("count", {"word": "ab"})

    served.kernel.run("seen.clear()")
    code, result = served.talk(work)
    assert code == REQUEST_TIMEOUT
    assert text(result) == "2"
    assert "Interrupted" in served.shown("sleep(seconds=3600")
    assert served.value("seen") == "['sleeps', True]"


@pytest.mark.parametrize("wait", ["time.sleep(3600)", "await asyncio.sleep(3600)"])
def test_a_tool_has_its_own_timeout(served: Served, wait: str) -> None:
    kind = "async def" if wait.startswith("await") else "def"
    served.kernel.run(
        f"import asyncio\n@tool(timeout=0.5)\n{kind} short() -> str:\n    'Wait.'\n    {wait}"
    )
    said, is_error = call(served, "notebook_call", {"name": "short"})
    assert is_error
    assert "0.5 s" in said
    assert "0.5 s" in served.shown("short(")
    assert call(served, "count", {"word": "ab"}) == ("2", False)
    assert served.value("1 + 1") == "2"


def over_stdio(runtime: str, work: Callable[[Client], Awaitable[Any]]) -> Any:
    """The result of a coroutine of the bridge's client."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "archytas_nb", "mcp"],
        env={**os.environ, "JUPYTER_RUNTIME_DIR": runtime},
    )

    async def talk() -> Any:
        info = Implementation(name="desktop", title="The desktop", version="1")
        async with Client(stdio_client(parameters), client_info=info) as client:
            return await work(client)

    return asyncio.run(talk())


def test_the_bridge_serves_the_same_tools_over_stdio(served: Served, tmp_path: Path) -> None:
    runtime = served.kernel.run("import os; os.environ['JUPYTER_RUNTIME_DIR']").result.strip("'")
    begun = tmp_path / "begun"
    served.kernel.run(
        f"import pathlib\n@tool\ndef wait() -> str:\n    'Wait.'\n"
        f"    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(3600)\n    return ''"
    )

    async def work(client: Client) -> Any:
        with pytest.raises(MCPError, match="no resource"):
            await client.read_resource("notebook://variable/password")
        listed = await client.list_tools()
        found = await client.read_resource("notebook://variable/numbers")
        task = asyncio.create_task(client.call_tool("wait", {}))
        while not begun.exists():
            assert not task.done(), task.result()
            await asyncio.sleep(0.05)
        task.cancel()
        result = await client.call_tool("count", {"word": "abc"})
        return [each.name for each in listed.tools], str(found), text(result)

    names, found, said = over_stdio(runtime, work)
    assert {"count", "notebook_call"} <= {*names}
    assert "numbers" in found
    assert said == "3"


def test_the_bridge_may_be_started_before_a_notebook_is_served(tmp_path: Path) -> None:
    async def work(client: Client) -> Any:
        listed = await client.list_tools()
        result = await client.call_tool("notebook_tools", {})
        return [each.name for each in listed.tools], result

    names, result = over_stdio(str(tmp_path), work)
    assert names == ["notebook_tools", "notebook_call"]
    assert result.is_error
    assert "%agent_mcp serve" in text(result)


def test_the_bridge_refuses_what_cannot_be_passed_on(served: Served) -> None:
    """The library would pass on another text in place of bytes that are no UTF-8."""
    runtime = served.kernel.run("import os; os.environ['JUPYTER_RUNTIME_DIR']").result.strip("'")
    served.kernel.run("seen.clear()")
    call = b'{"jsonrpc": "2.0", "id": %d, "method": "tools/call", "params": {"name": "count", "arguments": {"word": %s}}}'
    params = b'{"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}'
    words = (b'"a\xff"', rb'"\ud83d"', b"NaN", b"[" * 5_000 + b"]" * 5_000, b'"abc"')
    lines = [
        b'{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": ' + params + b"}",
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}', b"no json",
        *(call % (number, word) for number, word in enumerate(words, 1)),
    ]  # fmt: skip
    command = [sys.executable, "-m", "archytas_nb", "mcp"]
    env = {**os.environ, "JUPYTER_RUNTIME_DIR": runtime}
    answers = {}
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env) as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        bridge.stdin.write(b"\n".join(lines) + b"\n")
        bridge.stdin.flush()
        while len(answers) <= len(words):
            answer = json.loads(bridge.stdout.readline())
            answers[answer.get("id")] = answer
        bridge.stdin.close()
    assert answers.pop(5)["result"]["content"][0]["text"] == "3"
    assert "protocolVersion" in answers.pop(0)["result"]
    for answer in answers.values():
        assert "not passed on" in answer["error"]["message"]
    assert served.value("seen") == "[True]"


def test_the_last_long_results_of_calls_are_kept_and_names_keep_their_meaning(
    served: Served,
) -> None:
    served.kernel.run("@tool\ndef long() -> str:\n    'Long.'\n    return 'long ' * 100_000")

    async def work(client: Client) -> list[str]:
        calls = [await client.call_tool("notebook_call", {"name": "long"}) for _ in range(25)]
        return [re.findall(r"long_\d+", text(each))[0] for each in calls]

    names = served.talk(work)
    assert len({*names}) == 25
    there = served.kernel.run("[name for name in globals() if name.startswith('long_')]").result
    assert eval(there) == names[-20:]


@pytest.mark.slow
def test_a_thousand_calls_leave_nothing_behind(served: Served) -> None:
    async def work(client: Client) -> None:
        for _ in range(1_000):
            await client.call_tool("count", {"word": "abc"})

    count = "(threading.active_count(), len(__import__('os').listdir('/proc/self/fd')))"
    served.talk(lambda client: client.call_tool("count", {"word": "abc"}))
    before = eval(served.value(count))
    served.talk(work)
    after = eval(served.value(count))
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 5


LISTENING = """
import psutil
def listening():
    every = psutil.Process().net_connections("inet")
    return {each.laddr for each in every if each.status == "LISTEN"}
"""


def test_nothing_listens_unless_asked(tmp_path: Path) -> None:
    with live_kernel(tmp_path, JUPYTER_RUNTIME_DIR=str(tmp_path / "runtime")) as kernel:

        def value(expression: str) -> str:
            return kernel.run(expression).result

        def run(*lines: str) -> None:
            for line in lines:
                cell = kernel.run(line, wait=120)
                assert cell.status == "ok", cell.error

        run(LISTENING, "before = listening()", "%load_ext archytas_nb")
        run("from archytas_nb.testing import ScriptedModel")
        run("script = ScriptedModel(('final_answer', 'Yes.'), protocol='native')")
        run("%agent --model script Is it?", "%agent_mcp", "%agent_chat")
        assert value("listening() == before") == "True"
        for begin, end in (
            ("%agent_mcp serve", "%agent_mcp stop"),
            ("%agent_chat on --model script", "%agent_chat off"),
        ):
            run(begin)
            assert value("[each.ip for each in listening() - before]") == "['127.0.0.1']"
            run(end)
            assert value("listening() == before") == "True"
        assert value("import os; os.listdir(os.environ['JUPYTER_RUNTIME_DIR'])") == "[]"


def test_a_notebook_that_is_served_is_not_served_again_or_added_to_itself(served: Served) -> None:
    assert "already" in served.kernel.run("%agent_mcp serve").printed
    header = f'--header "Authorization: Bearer {served.token}"'
    assert (
        "this notebook"
        in served.kernel.run(f"%agent_mcp add {served.url} --name me {header}").printed
    )
    state = served.kernel.run("%agent_mcp").result
    assert "served" in state
    assert "me_count" not in state


def test_values_stay_in_the_notebook_if_it_says_so(served: Served) -> None:
    """A result is the name of a variable, which another call takes."""
    served.kernel.run("%config ArchytasNB.values = 'none'\nnumbers[:] = [1]\nplan = 'Zq77'")
    try:
        said, is_error = call(served, "count", {"word": "abc", "times": 1501})
        assert not is_error
        assert "4503" not in said
        assert served.value("count_1") == "4503"
        assert call(served, "add_number", {"number": "count_1"})[1] is False
        assert served.value("numbers") == "[1, 4503]"

        async def read(client: Client) -> str:
            listed = await client.list_resources()
            contents = [await client.read_resource(each.uri) for each in listed.resources]
            return str(contents)

        described = served.talk(read)
        assert "plan" in described
        assert "Zq77" not in described
        assert "4503" not in described
    finally:
        served.kernel.run("%config ArchytasNB.values = 'all'\ndel plan, count_1")
