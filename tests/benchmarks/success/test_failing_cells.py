"""The ten failing cells measure something: a right cell passes, the failing one again and a silent one do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.testing import ScriptedModel
from benchmarks.success.failing_cells import CELLS, attempt


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "archytas_nb")
    monkeypatch.setattr(shell, "showtraceback", lambda *_, **__: None)
    yield shell
    shell.run_line_magic("unload_ext", "archytas_nb")
    InteractiveShell.clear_instance()


def answered(text: str, *more: str) -> ScriptedModel:
    return ScriptedModel(("final_answer", text), *more)


def test_a_right_cell_passes_and_what_failed_does_not(shell: InteractiveShell) -> None:
    for failing in CELLS:
        explained = " ".join(group[0] for group in failing.cause)
        right = attempt(
            shell, failing, model=answered(f"{explained}\n```python\n{failing.corrected}\n```")
        )
        assert (right.is_explained, right.is_corrected) == (True, True), failing.name
    again = attempt(
        shell, CELLS[0], model=answered(f"Run it again.\n```python\n{CELLS[0].source}\n```")
    )
    assert (again.is_explained, again.is_corrected) == (False, False)
    silent = attempt(shell, CELLS[0], model=answered("I cannot say.", "Nor now."))
    assert not silent.is_corrected
