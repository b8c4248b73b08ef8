"""A notebook of one process: cells that ask a scripted model, and what the magics show."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.testing import ScriptedModel


class Notebook:
    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.next: list[str] = []
        shell.set_next_input = lambda text, replace=False: self.next.append(text)  # type: ignore[method-assign]

    def run(self, source: str) -> Any:
        """Run a cell; raises what it raises."""
        result = self.shell.run_cell(source, store_history=True)
        result.raise_error()
        return result.result

    def ask(self, options: str, *replies: Any, protocol: Any = "react") -> ScriptedModel:
        """Ask a question with these replies; returns the model, which keeps the requests."""
        model = ScriptedModel(*replies, protocol=protocol)
        self.shell.user_ns["scripted"] = model
        self.run(f"%config ArchytasNB.protocol = {protocol!r}\n%agent -m scripted {options}")
        return model
