"""Whatever is switched on, a question offers no built-in tool that the page on security does not name."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel
from tests.docs.promises import built_in_tools

OPTIONS: dict[str, tuple[Any, ...]] = {
    "python": ("off", "ask", "undoable", "unwatched"),
    "context": ("auto", "mentioned", "all", "none"),
    "values": ("all", "scalars", "none", "strict"),
    "ask_user": (True, False),
    "protocol": ("react", "native", "program"),
}


def offered(**settings: Any) -> set[str]:
    """The names of the tools in the request of a question."""
    protocol = settings.pop("protocol")
    model = ScriptedModel(("final_answer", "Done."), protocol=protocol)
    agent = nb.Agent([], model=model, protocol=protocol, **settings)
    agent.run("What did cell [2] print, and what is in rows?")
    [request, *_] = model.asked
    return set(agent.tools) | {each["function"]["name"] for each in request.tools or ()}


def test_a_question_offers_no_tool_that_the_page_does_not_name(shell: InteractiveShell) -> None:
    shell.user_ns["rows"] = [1, 2]
    seen: set[str] = set()
    for values in itertools.product(*OPTIONS.values()):
        seen |= offered(**dict(zip(OPTIONS, values, strict=True)))
    assert seen - {"final_answer", "fail_task"} <= set(built_in_tools())
    assert {"variables", "look", "python", "ask_user", "compare"} <= seen


def test_skills_and_many_tools_add_what_the_page_names(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counting").mkdir()
    front = "---\nname: counting\ndescription: Counts.\n---\nCount."
    (tmp_path / "counting/SKILL.md").write_text(front, encoding="utf-8")
    for protocol in OPTIONS["protocol"]:
        model = ScriptedModel(("final_answer", "Done."), protocol=protocol)
        agent = nb.Agent(many(30), model, protocol=protocol, skills=[str(tmp_path)])
        agent.run("What is in rows?")
        [request] = model.asked
        text = str((request.messages, request.tools))
        assert all(name in text for name in ("skill", "find_tools"))
    assert {"skill", "find_tools"} <= set(built_in_tools())


def many(number: int) -> nb.Toolbox:
    """Tools of the user."""

    def made(place: int) -> Any:
        def measure(depth: float) -> float:
            """Measure something."""
            return depth

        measure.__name__ = f"measure_{place}"
        return measure

    return nb.Toolbox(*map(made, range(number)))
