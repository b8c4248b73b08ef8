"""A question passes few files of the package, and changes seldom between them."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from tests.road import measured, report

MAX_FILES, MAX_CHANGES = 57, 800
"""What is reached today; lower them with every file that a question need not pass."""


def test_a_question_with_one_tool_call_passes_few_files(shell: InteractiveShell) -> None:
    road = measured(shell)
    print(report(road))
    assert len(road.files) <= MAX_FILES, report(road)
    assert road.changes <= MAX_CHANGES, report(road)
