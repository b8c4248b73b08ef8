"""With ``values="none"``, no value reaches a model or a program over MCP."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp.conftest import Served
from tests.servers.plays import Say
from tests.servers.recorder import Recorder
from tests.servers.server import Server

TOOLS = '''
from archytas_nb import Agent, OpenAIModel
%config ArchytasNB.values = "none"
plan = {"Zq918273645": [918273645]}

@tool
def reads() -> str:
    """Read something."""
    print(plan)
    return str(plan)

@tool
def breaks() -> int:
    """Break."""
    raise KeyError(plan)

@tool
def names() -> None:
    """Name a variable after a value."""
    globals()["Zq918273645"] = 1
'''
PROGRAMS = (
    "x = demo_find(kind='x', where=plan)\nshow(x)",
    "demo_find(kind=x)",
    "answer(f'It is {x}.')",
)
CALLS = (
    ("demo_find", {"kind": "x", "where": "{plan}"}),
    ("demo_find", {"kind": "{demo_find_1}"}),
    ("demo_add", {"a": "{demo_find_1}"}),
    ("demo_variable", {"name": "demo_find_1"}),
    ("demo_die", {}),
)


@pytest.fixture
def hiding(served: Served) -> Any:
    cell = served.kernel.run(TOOLS)
    assert cell.status == "ok", cell.error
    yield served
    served.kernel.run("%config ArchytasNB.values = 'all'\ndel plan, reads, breaks, names")


@pytest.mark.parametrize("protocol", ["native", "program"])
def test_a_model_reads_no_value_that_a_server_returns(
    protocol: str, hiding: Served, demo: list[str]
) -> None:
    kernel = hiding.kernel
    added = kernel.run(f"%agent_mcp add demo -- {shlex.join(demo)}", wait=120)
    assert added.status == "ok", added.error
    replies = [*(Say(calls=(each,)) for each in CALLS), Say("It is {demo_find_1}.")]
    if protocol == "program":
        replies = [Say(f"```python\n{each}\n```", raw=True) for each in PROGRAMS]
    with Server(*replies) as server, Recorder(server.url) as recorder:
        asked = kernel.run(
            f"run = Agent(model=OpenAIModel('tiny-1', {recorder.url!r}, 'k'), context='all', "
            f"protocol={protocol!r}, max_errors=9).run('What is it?', progress=False)\nrun.answer"
        )
        sent = recorder.sent
    kernel.run("%agent_mcp remove demo")
    assert "918273645" in asked.result, asked.error
    assert b"demo_find" in sent
    assert b"918273645" not in sent


def test_a_program_that_calls_from_outside_reads_no_value(hiding: Served) -> None:
    read: list[str] = []

    async def work(client: Client) -> None:
        for name in ("reads", "breaks", "names", "nothing"):
            call = {"name": name, "arguments": {}}
            read.append(str(await client.call_tool("notebook_call", call)))
        words = ("reads_1", "{reads_1}", "{plan}")
        read.extend([str(await client.call_tool("count", {"word": word})) for word in words])
        read.append(str(await client.call_tool("add_number", {"number": "{plan}"})))
        read.append(str(await client.call_tool("notebook_tools", {})))
        read.append(str(await client.list_tools()))
        listed = await client.list_resources()
        read.append(str(listed))
        read.extend([str(await client.read_resource(each.uri)) for each in listed.resources])
        with pytest.raises(MCPError) as error:
            await client.read_resource("notebook://variable/Zq918273645")
        said = str(error.value).replace("notebook://variable/Zq918273645", "")
        read.append(said.replace("'Zq918273645'", ""))

    hiding.talk(work)
    assert hiding.value("reads_1") == repr(str({"Zq918273645": [918273645]}))
    assert any("reads_1" in each for each in read)
    assert [each for each in read if "918273645" in each] == []
