"""The magics: parse a line, delegate, return a value.

The only room that knows IPython. Loading it must cost next to nothing, so what the magics delegate to is
imported when one is first used.
"""

from __future__ import annotations

from typing import Any


def register(shell: Any) -> None:
    """Add our magics and our input transformer to a shell; a second time changes nothing."""
    from archytas_nb.magics.commands import ArchytasNB
    from archytas_nb.magics.line import keep_question_marks

    if _ours(shell) is not None:
        return
    shell.register_magics(ArchytasNB(shell=shell, parent=shell))
    shell.input_transformers_cleanup.append(keep_question_marks)


def unregister(shell: Any) -> None:
    """Remove everything that `register` added."""
    from archytas_nb.magics.line import keep_question_marks

    ours = _ours(shell)
    if ours is None:
        return
    for kind, names in ours.magics.items():
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
    shell.magics_manager.registry.pop(type(ours).__name__, None)
    # IPython adds a Magics object once when it is made and once when it is registered.
    shell.configurables[:] = [each for each in shell.configurables if each is not ours]
    if keep_question_marks in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.remove(keep_question_marks)


def _ours(shell: Any) -> Any:
    return next((each for each in shell.configurables if type(each).__name__ == "ArchytasNB"), None)
