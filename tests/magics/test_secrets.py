"""A key is not shown by anything that a line of the notebook may ask for."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.models import endpoint
from tests.servers.plays import Say, Status
from tests.servers.server import Server

KEY = "sk-canary-7f3a9c51d2e8"


def test_a_key_of_the_configuration_is_not_shown(
    shell: InteractiveShell, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Server(Say("Fine."), Status(401, f"no such key: {KEY}")) as server:
        for line in (
            f"%config ArchytasNB.base_url = {server.url!r}",
            f"%config ArchytasNB.api_key = {KEY!r}",
            "%config ArchytasNB",
            "%config ArchytasNB.api_key",
            "%agent Well?",
            "%agent --dry-run Well?",
            "%agent_history",
            "%agent_history",
            "%agent And now?",
            "%tb",
            "get_ipython().magics_manager.registry['ArchytasNB'], get_ipython().configurables",
        ):
            shell.run_cell(line)
        printed = "".join(capfd.readouterr())
        endpoint.close_clients(server.url)
    assert "Fine." in printed
    assert "✗ The key was rejected" in printed
    assert "no such key: … (HTTP 401)" in printed
    assert printed.count("the key was rejected (see above)") == 2, "the cell and %tb"
    assert [line for line in printed.splitlines() if KEY in line] == []
