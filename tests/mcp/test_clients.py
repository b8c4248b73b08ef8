"""The files in which other programs list their servers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archytas_nb.errors import ConfigurationError
from archytas_nb.mcp import clients

URL = "http://127.0.0.1:1/mcp"


@pytest.mark.parametrize("client", clients.FILES)
def test_an_entry_is_added_and_removed_and_the_rest_stays(client: str, tmp_path: Path) -> None:
    file = clients.FILES[client]
    path = tmp_path / file.path
    path.parent.mkdir(exist_ok=True)
    others = [{"name": "other"}] if file.is_list else {"other": {"url": "x"}}
    before = {"theme": "dark", file.key: others}
    path.write_text(json.dumps(before))

    clients.write_entry(client, tmp_path, URL, "first")
    clients.write_entry(client, tmp_path, URL, "secret")  # in place of the first
    content = json.loads(path.read_text())
    assert content["theme"] == "dark"
    assert len(content[file.key]) == 2
    assert "first" not in path.read_text()
    assert "Bearer secret" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0

    assert not clients.remove_entry(client, tmp_path, "http://127.0.0.1:2/mcp")  # another kernel's
    assert clients.remove_entry(client, tmp_path, URL)
    assert json.loads(path.read_text()) == before


def test_a_file_is_made_where_there_is_none(tmp_path: Path) -> None:
    assert not clients.remove_entry("cursor", tmp_path, URL)
    path = clients.write_entry("cursor", tmp_path, URL, "t")
    assert json.loads(path.read_text())["mcpServers"]["notebook"]["url"] == URL


@pytest.mark.parametrize("content", ["{", "[]", '{"mcpServers": 3}', "[" * 100_000])
def test_a_file_that_cannot_be_read_is_left_alone(content: str, tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"mcp\.json"):
        clients.write_entry("claude", tmp_path, URL, "t")
    assert path.read_text() == content
