"""The files in which other programs list their servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archytas_nb import command
from archytas_nb.errors import ConfigurationError
from archytas_nb.mcp import clients
from tests.live_kernel import Kernel, live_kernel
from tests.mcp.conftest import Served

URL = "http://127.0.0.1:1/mcp"


@pytest.mark.parametrize("client", clients.FILES)
def test_an_entry_is_added_and_removed_and_the_rest_stays(client: str, tmp_path: Path) -> None:
    file = clients.FILES[client]
    path = tmp_path / file.path
    path.parent.mkdir(exist_ok=True)
    others = [{"name": "other"}] if file.is_list else {"other": {"url": "x"}}
    before = {"theme": "dark", file.key: others}
    path.write_text(json.dumps(before))
    path.chmod(0o640)

    clients.write_entry(client, tmp_path, URL, "first")
    clients.write_entry(client, tmp_path, URL, "secret")  # in place of the first
    content = json.loads(path.read_text())
    assert content["theme"] == "dark"
    assert len(content[file.key]) == 2
    assert "first" not in path.read_text()
    assert "Bearer secret" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640  # the owner's wish

    assert not clients.remove_entry(client, tmp_path, "http://127.0.0.1:2/mcp")  # another kernel's
    assert clients.remove_entry(client, tmp_path, URL)
    assert json.loads(path.read_text()) == before


def test_a_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    assert not clients.remove_entry("cursor", tmp_path, URL)
    path = clients.write_entry("cursor", tmp_path, URL, "t")
    assert (path.stat().st_mode & 0o077, path.parent.stat().st_mode & 0o077) == (0, 0)
    assert json.loads(path.read_text())["mcpServers"]["notebook"]["url"] == URL


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text('{"theme": "dark"}')
    (tmp_path / ".mcp.json").symlink_to(kept)
    clients.write_entry("claude", tmp_path, URL, "t")
    assert (tmp_path / ".mcp.json").is_symlink()
    assert {*json.loads(kept.read_text())} == {"theme", "mcpServers"}


@pytest.mark.parametrize("client", clients.FILES)
def test_the_text_to_paste_is_what_would_be_written(client: str, tmp_path: Path) -> None:
    path = clients.write_entry(client, tmp_path, URL, "t")
    assert json.loads(clients.text_of_entry(client, URL, "t")) == json.loads(path.read_text())


COMMENTED = '{\n  // mine\n  "mcpServers": {},\n}\n'
BROKEN = ["{", "[]", '{"mcpServers": 3}', "[" * 100_000, COMMENTED, "{} // mine"]


@pytest.mark.parametrize("content", BROKEN)
def test_a_file_that_cannot_be_read_is_left_alone(content: str, tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"mcp\.json"):
        clients.write_entry("claude", tmp_path, URL, "t")
    assert path.read_text() == content


def serve(kernel: Kernel, options: str = "") -> str:
    """Serve in a kernel that has just started; what is shown."""
    assert kernel.run("%load_ext archytas_nb").status == "ok"
    line = f"%agent_mcp serve {options}"
    cell = kernel.run(line, person=True, answers=["y"], wait=120)
    assert cell.status == "ok", cell.error
    shown: str = cell.displayed[0]["text/plain"]
    return shown


def test_what_is_written_is_removed_with_the_kernel_or_by_the_next_one(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    project = tmp_path / "project"
    project.mkdir()
    names = {
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JPY_SESSION_NAME": str(project / "one.ipynb"),
    }

    def left() -> tuple[int, list[str]]:
        """How many kernels are registered, and what the file of Claude Code lists."""
        files = list(runtime.glob("archytas_nb-served-*"))
        listed = json.loads((project / ".mcp.json").read_text())["mcpServers"]
        return len(files), [*listed]

    with live_kernel(project, **names) as kernel:
        assert str(project) in serve(kernel, "--write claude")
        assert left() == (1, ["notebook"])
        kernel.manager.restart_kernel()  # the kernel is told to end, and ends
        kernel.client.wait_for_ready(timeout=60)
        assert left() == (0, [])

        serve(kernel, "--write claude")
        kernel.manager.restart_kernel(now=True)  # it is killed
        kernel.client.wait_for_ready(timeout=60)
        assert left() == (1, ["notebook"])

        commented = project / ".vscode" / "mcp.json"
        commented.parent.mkdir()
        commented.write_text(COMMENTED)
        shown = serve(kernel, "--write vscode")
        assert left() == (1, [])
        assert commented.read_text() == COMMENTED
        assert "nothing was written" in shown
        entry = json.JSONDecoder().raw_decode(shown[shown.index("\n{") + 1 :])[0]["servers"][
            "notebook"
        ]
        assert entry["url"] in shown
        assert entry["headers"]["Authorization"] == "Bearer TOKEN"
        assert kernel.run("%agent_mcp stop").status == "ok"
        assert left() == (0, [])


def test_the_token_is_printed_in_a_terminal_alone(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = served.value("__import__('os').environ['JUPYTER_RUNTIME_DIR']").strip("'")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", runtime)
    assert command.main(["mcp", "--token"]) == 0
    assert capsys.readouterr().out == f"{served.token}\n"
    assert command.main(["mcp", "--token", "--notebook", "another"]) == 1
