"""Turn the functions of a notebook into tools, and ask an agent to use them on live objects.

In a notebook::

    %load_ext archytas_nb

then ``%%tool`` above a cell of functions, and ``%agent your question``. In Python: `tool`, `Agent`,
`Run`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from archytas_nb.version import __version__

if TYPE_CHECKING:
    from archytas_nb.agent import Agent
    from archytas_nb.cassettes.match import cassette_scrub
    from archytas_nb.errors import (
        ArchytasError,
        CassetteMiss,
        ConfigurationError,
        ModelError,
        RunInterrupted,
        TaskFailed,
        ToolError,
    )
    from archytas_nb.loop.events import CallOutcome
    from archytas_nb.models.anthropic import AnthropicModel
    from archytas_nb.models.endpoint import OpenAIModel
    from archytas_nb.run import Run
    from archytas_nb.tools.current import CurrentRun
    from archytas_nb.tools.tool import Tool
    from archytas_nb.tools.toolbox import Toolbox, tool, toolbox
    from archytas_nb.tools.variables import ByName
    from archytas_nb.undo.transaction import transaction

_NAMES = {
    "agent": "Agent",
    "cassettes.match": "cassette_scrub",
    "errors": "ArchytasError CassetteMiss ConfigurationError ModelError RunInterrupted TaskFailed",
    "undo.transaction": "transaction",
    "loop.events": "CallOutcome",
    "models.anthropic": "AnthropicModel",
    "models.endpoint": "OpenAIModel",
    "run": "Run",
    "tools.current": "CurrentRun",
    "tools.tool": "Tool ToolError",
    "tools.toolbox": "Toolbox tool toolbox",
    "tools.variables": "ByName",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Agent",
    "AnthropicModel",
    "ArchytasError",
    "ByName",
    "CallOutcome",
    "CassetteMiss",
    "ConfigurationError",
    "CurrentRun",
    "ModelError",
    "OpenAIModel",
    "Run",
    "RunInterrupted",
    "TaskFailed",
    "Tool",
    "ToolError",
    "Toolbox",
    "__version__",
    "cassette_scrub",
    "load_ipython_extension",
    "tool",
    "toolbox",
    "transaction",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: loading the extension must be fast."""
    if name not in _HOMES:
        from archytas_nb.hints import unknown_name

        raise unknown_name(__name__, name, __all__)
    value = getattr(importlib.import_module(f"archytas_nb.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Add the magics, for ``%load_ext archytas_nb``; prints and writes nothing."""
    from archytas_nb.magics import register

    register(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove everything of ours from the shell, for ``%unload_ext archytas_nb``."""
    from archytas_nb.magics import unregister

    unregister(shell)
