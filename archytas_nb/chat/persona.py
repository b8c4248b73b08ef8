"""The agent of a notebook as a persona of jupyter-ai, which finds it by its entry point."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, ClassVar

from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults


class NotebookPersona(BaseAcpPersona):  # type: ignore[misc]
    """The agent of a notebook that runs ``%agent_chat on``."""

    # It would appear above the first question; the agent has the notebook itself.
    NOTEBOOK_EDITING_GUIDANCE: ClassVar[str] = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        executable = [sys.executable, "-m", "archytas_nb", "acp"]
        super().__init__(*args, executable=executable, **kwargs)

    @property
    def defaults(self) -> PersonaDefaults:
        """Its name and picture."""
        return PersonaDefaults(
            name="Notebook",
            description="The agent of a notebook, with its tools and variables: %agent_chat on",
            avatar_path=str(Path(__file__).with_name("avatar.svg")),
            system_prompt="",
        )

    async def is_authed(self) -> bool:
        """Whether somebody is logged in: nobody needs to be."""
        return True
