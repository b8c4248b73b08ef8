"""What IPython asks for completions: made when the extension is loaded, it loads what answers when asked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

_log = logging.getLogger("archytas_nb")


def matcher(shell: Any, owners: Mapping[str, Any]) -> Any:
    """Make a matcher for ``shell.Completer.custom_matchers``.

    Args:
        shell: The IPython shell.
        owners: The name of each magic, and the object that it belongs to.

    Returns:
        The matcher. Where it knows what may stand at the cursor, nothing else is offered there.
    """

    @context_matcher(identifier="archytas_nb", priority=100)
    def match(context: CompletionContext) -> SimpleMatcherResult:
        try:
            from archytas_nb.magics.complete import completed

            lines = context.full_text.split("\n")
            lines[context.cursor_line] = context.text_until_cursor
            word, words = completed(shell, owners, lines[: context.cursor_line + 1])
        except Exception:  # noqa: BLE001 - IPython prints what a matcher raises between the user's keystrokes
            _log.exception("completion failed")
            word, words = "", []
        completions = [SimpleCompletion(text=each, type="magic") for each in words]
        return SimpleMatcherResult(
            completions=completions, suppress=bool(words), ordered=True, matched_fragment=word
        )

    return match
