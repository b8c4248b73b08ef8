"""A notebook uses the tools of servers."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.mcp.conftest import Served

ASK = """
from archytas_nb import Agent
from archytas_nb.testing import ScriptedModel
def ask(*calls, **options):
    model = ScriptedModel(*calls, ("final_answer", "done"), protocol="native")
    run = Agent(model=model, **options).run("go", progress=False)
    return [(outcome.status, outcome.result[:80]) for _, outcome in run.calls]
"""


def test_a_server_is_added_used_and_removed(served: Served, demo: list[str]) -> None:
    kernel = served.kernel
    kernel.run(ASK)
    added = kernel.run(f"%agent_mcp add demo -- {shlex.join(demo)}", wait=120)
    assert added.status == "ok", added.error
    assert "7 tools" in added.result

    outcomes = kernel.run(
        'ask(("demo_add", {"a": 1}), ("demo_add", {"a": "x"}), ("demo_find", {"kind": "z"}), '
        '("demo_find", {"kind": "x", "where": {"k": [1]}}), ("demo_change", {}))'
    ).result
    assert "('done', '3')" in outcomes
    assert "x {'k': [1]}" in outcomes
    assert outcomes.count("'error'") == 2
    assert outcomes.count("'refused'") == 1  # it is not declared to read only, and nobody is there

    # A notebook's own tool and one of the server in one run, and in one program.
    both = kernel.run('ask(("demo_add", {"a": 1}), ("count", {"word": "abc"}))').result
    assert both.count("'done'") == 2
    program = """
model = ScriptedModel("```python\\nanswer(demo_add(a=count(word='abc'), b=4))\\n```", protocol="program")
Agent(model=model).run("go", progress=False).answer
"""
    assert kernel.run(program).result == "'7'"

    large = kernel.run('ask(("demo_page", {"size": 3_000_000}))').result
    assert "'<img src=x" in large
    cell = """print("begins"); ask(("demo_hang", {}))"""
    stopped = kernel.run(cell, interrupt_when=lambda so_far: "begins" in so_far.printed)
    assert "RunInterrupted" in stopped.error or "KeyboardInterrupt" in stopped.error
    assert "'done', '3'" in kernel.run('ask(("demo_add", {"a": 1}))').result

    died = kernel.run('ask(("demo_die", {}), ("demo_add", {"a": 1}))').result
    assert died.count("'error'") == 2
    assert "ended" in kernel.run("%agent_mcp").result
    assert "7 tools" in kernel.run("%agent_mcp remove demo").result
    assert "demo_add" not in kernel.run("%tools").result


def test_servers_that_cannot_be_used_say_why(served: Served) -> None:
    kernel = served.kernel

    def said(line: str) -> str:
        cell = kernel.run(f"%agent_mcp {line}")
        assert cell.status == "error"
        return cell.error + cell.printed

    missing = said("add bad -- no-such-command-here")
    assert "no-such-command-here" in missing
    code = "import sys; print('told why', file=sys.stderr); sys.exit(2)"
    command = shlex.join(["python", "-c", code])
    assert "told why" in said(f"add bad -- {command}")
    assert "web" in said("add http://127.0.0.1:9/mcp --name web")
    for line in ("add", "add x y -- z", "add http://127.0.0.1:9", "remove demo", "add a-b -- z"):
        assert "UsageError" in said(line)


@contextmanager
def over_http(demo: list[str], port: int) -> Iterator[str]:
    """Start the server at a port, 0 for a free one; its address. In the end it is killed."""
    command = [*demo, "--http", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def test_a_server_at_an_address_may_be_restarted(served: Served, demo: list[str]) -> None:
    kernel = served.kernel
    kernel.run(ASK)
    with over_http(demo, 0) as address:
        added = kernel.run(f"%agent_mcp add {address} --name web")
        assert added.status == "ok", added.error + added.printed
        assert "('done', '3')" in kernel.run('ask(("web_add", {"a": 1}))').result
    gone = kernel.run('ask(("web_add", {"a": 1}), ("web_add", {"a": 2}))').result
    assert gone.count("'error'") == 2
    assert "ended" in kernel.run("%agent_mcp").result
    with over_http(demo, urlsplit(address).port or 0):
        assert "('done', '4')" in kernel.run('ask(("web_add", {"a": 2}))').result
        assert "ended" not in kernel.run("%agent_mcp").result
    assert kernel.run("%agent_mcp remove web").status == "ok"
    assert "web_add" not in kernel.run("%tools").result


def test_the_environment_of_a_command_and_names_that_are_taken(
    served: Served, demo: list[str]
) -> None:
    kernel = served.kernel
    kernel.run(ASK)
    kernel.run("import os; os.environ['DEMO_KEY'] = 'k1'; os.environ['OTHER_KEY'] = 'k2'; mine = 3")
    kernel.run("@tool\ndef own_add() -> int:\n    'Mine.'\n    return 7")
    command = shlex.join(demo)
    added = kernel.run(f"%agent_mcp add own --env DEMO_KEY --env MORE={{mine}} -- {command}")
    assert "left out: add" in added.result
    names = ("DEMO_KEY", "OTHER_KEY", "MORE")
    calls = ", ".join(f'("own_variable", {{"name": "{name}"}})' for name in names)
    outcomes = kernel.run(f'ask({calls}, ("own_add", {{}}))').result
    assert eval(outcomes) == [("done", each) for each in ("k1", "none", "3", "7")]
    assert "6 tools" in kernel.run("%agent_mcp remove own").result
    assert "own_add" in kernel.run("%tools").result
    assert "NO_SUCH" in kernel.run(f"%agent_mcp add own --env NO_SUCH -- {command}").printed


@pytest.mark.parametrize("way", ["stdio", "http"])
def test_what_a_server_on_this_machine_does_to_files_is_told_and_undone(
    served: Served, demo: list[str], way: str, tmp_path: Path
) -> None:
    kernel = served.kernel
    kernel.run(ASK)
    kernel.run(f"import os; before = os.getcwd(); os.chdir({str(tmp_path)!r})")
    raw = tmp_path / "raw.csv"
    raw.write_text("a")
    with over_http(demo, 0) if way == "http" else nullcontext() as address:
        target = f"{address} --name demo --allow change"
        if not address:
            target = f"demo --allow change -- {shlex.join(demo)}"
        # A server at an address has a folder of its own: it is told the whole path.
        added = kernel.run(f"%agent_mcp add {target}", wait=120)
        assert added.status == "ok", added.error + added.printed
        kernel.run(f"folder = {str(tmp_path)!r} + os.sep")
        calls = (
            '("demo_change", {"path": folder + "new.txt", "text": "x"}), '
            '("demo_change", {"path": folder + "raw.csv", "text": "lost"}), '
            '("demo_change", {"path": folder + "raw.csv"})'
        )
        made = kernel.run(
            f'model = ScriptedModel({calls}, ("final_answer", "done"), protocol="native")\n'
            'made = Agent(model=model, approve="deny").run("go", progress=False)\n'
            "[(each.kind, each.shown) for each in made.effects]"
        )
        expected = [("new", "new.txt"), ("overwritten", "raw.csv"), ("deleted", "raw.csv")]
        assert eval(made.result) == expected, made.error
        kernel.run("made.undo()")
        assert [each.name for each in tmp_path.iterdir()] == ["raw.csv"]
        assert raw.read_text() == "a"
        kernel.run("%agent_mcp remove demo")
    kernel.run("os.chdir(before)")
