"""`%agent_save` and `%agent_load`: a conversation goes on, also in another shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.errors import ConfigurationError
from archytas_nb.testing import ScriptedModel


def test_a_conversation_goes_on_after_loading(shell: InteractiveShell, tmp_path: Path) -> None:
    model = ScriptedModel(*(("final_answer", each) for each in ("One.", "Two.", "Three.", "Four.")))
    shell.user_ns |= {"m": model, "folder": str(tmp_path)}
    shell.run_line_magic("agent", "-m m First?")
    saved: Any = shell.run_line_magic("agent_save", "{folder}/talk.json")
    assert "1 question" in repr(saved)
    shell.run_line_magic("agent", "--new")
    shell.run_line_magic("agent", "-m m Second?")
    assert "First?" not in str(model.asked[-1].messages)
    loaded: Any = shell.run_line_magic("agent_load", "{folder}/talk.json")
    assert "1 question" in repr(loaded)
    shell.run_line_magic("agent", "-m m Third?")
    sent = str(model.asked[-1].messages)
    assert "First?" in sent
    assert "One." in sent
    assert "Second?" not in sent
    assert "2" in repr(shell.run_line_magic("agent_save", "{folder}/talk.json"))
    shell.run_line_magic("unload_ext", "archytas_nb")
    shell.run_line_magic("load_ext", "archytas_nb")
    shell.run_line_magic("agent_load", "{folder}/talk.json")
    shell.run_line_magic("agent", "-m m Fourth?")
    assert "Three." in str(model.asked[-1].messages)


def test_a_file_that_cannot_be_loaded_leaves_the_conversation(
    shell: InteractiveShell, tmp_path: Path
) -> None:
    model = ScriptedModel(("final_answer", "One."), ("final_answer", "Two."))
    shell.user_ns |= {"m": model, "folder": str(tmp_path)}
    (tmp_path / "talk.json").write_text("[]", encoding="utf-8")
    shell.run_line_magic("agent", "-m m First?")
    with pytest.raises(ConfigurationError):
        shell.run_line_magic("agent_load", "{folder}/talk.json")
    shell.run_line_magic("agent", "-m m Second?")
    assert "First?" in str(model.asked[-1].messages)
