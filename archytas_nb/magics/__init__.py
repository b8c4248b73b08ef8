"""The magics: parse a line, delegate, return a value.

Loading the extension must be fast, so the modules of a magic are imported on first use.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

_SILENT = logging.NullHandler()
"""Without it, Python prints our warnings below the cell if logging is not configured."""
_UNKNOWN_MAGIC = re.compile(r"magic function `%+agent_(\w+)` not found")


def register(shell: Any) -> None:
    """Add our magics, completion and input transformer to a shell; safe to repeat."""
    from IPython.core.error import UsageError
    from traitlets import TraitError

    from archytas_nb.magics.agent import ArchytasNB
    from archytas_nb.magics.chat import ChatMagics
    from archytas_nb.magics.completion import matcher
    from archytas_nb.magics.conversation import ConversationMagics
    from archytas_nb.magics.line import keep_question_marks
    from archytas_nb.magics.mcp import McpMagics
    from archytas_nb.magics.tool import ToolMagics

    if _ours(shell):
        return
    try:
        made = {"shell": shell, "parent": shell}
        agent = ArchytasNB(**made)
        conversation = ConversationMagics(**made)
        mcp = McpMagics(**made)
        chat = ChatMagics(**made)
        ours = [ToolMagics(**made), conversation, agent, mcp, chat]
    except TraitError as error:  # in IPython's configuration file
        shell.configurables[:] = [each for each in shell.configurables if each not in _ours(shell)]
        raise UsageError(f"IPython's configuration of ArchytasNB: {error}") from None
    agent.history = conversation.history
    agent.after = conversation.after
    mcp.magics_of_agent = agent
    chat.magics_of_agent = agent
    for magics in ours:
        shell.register_magics(magics)
    logging.getLogger("archytas_nb").addHandler(_SILENT)
    shell.input_transformers_cleanup.append(keep_question_marks)
    owners = {name: each for each in ours for kind in each.magics.values() for name in kind}
    shell.Completer.custom_matchers.append(matcher(shell, owners))
    try:
        agent.loaded()
    except UsageError:
        unregister(shell)
        raise
    shell.events.register("post_run_cell", _note_unknown_magic)
    _note_misread_question(shell, keep_question_marks)


def _note_unknown_magic(result: Any) -> None:
    """Say below IPython's error what an unknown magic with a name like ours may mean."""
    from IPython.core.error import UsageError

    error = result.error_in_exec
    # Other errors may have texts that cannot be made.
    found = _UNKNOWN_MAGIC.search(str(error)) if isinstance(error, UsageError) else None
    if found is not None:
        from archytas_nb.magics.line import instead_of_magic

        print(instead_of_magic(found[1]))  # noqa: T201


def _note_misread_question(shell: Any, keeps: Callable[[list[str]], list[str]]) -> None:
    """Say so if the cell that loads the extension has a question that IPython took for help."""
    sources = shell.history_manager.input_hist_raw
    lines = sources[-1].splitlines(keepends=True) if sources else []
    if keeps(lines) != lines:
        print(  # noqa: T201
            "The question in this cell is not asked: IPython read the whole cell before it loaded "
            "archytas_nb. Run the cell again."
        )


def unregister(shell: Any) -> None:
    """Remove everything that `register` added."""
    from archytas_nb.magics.line import keep_question_marks

    if _note_unknown_magic in shell.events.callbacks["post_run_cell"]:
        shell.events.unregister("post_run_cell", _note_unknown_magic)
    ours = _ours(shell)
    for each in ours:
        getattr(each, "unload", lambda: None)()
        for kind, names in each.magics.items():
            for name in names:
                shell.magics_manager.magics[kind].pop(name, None)
        shell.magics_manager.registry.pop(type(each).__name__, None)
    # IPython adds a Magics object once when it is made and once when it is registered.
    shell.configurables[:] = [each for each in shell.configurables if each not in ours]
    logging.getLogger("archytas_nb").removeHandler(_SILENT)
    if keep_question_marks in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(keep_question_marks)
    matchers = shell.Completer.custom_matchers
    matchers[:] = [
        each for each in matchers if not getattr(each, "__module__", "").startswith(f"{__name__}.")
    ]


def _ours(shell: Any) -> list[Any]:
    return [
        each for each in shell.configurables if type(each).__module__.startswith(f"{__name__}.")
    ]
