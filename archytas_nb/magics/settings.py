"""The settings of ``%agent``: what ``%config ArchytasNB`` shows and changes.

A value counts from the next question on. Precedence: the question's flag, ``%config`` (or IPython's configuration
file), the environment variable ``ARCHYTAS_NB_…`` of the same name, the default. Their help is the reference.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from traitlets.config import Configurable

from archytas_nb.magics.traits import (
    PREFIX,
    Count,
    Fields,
    Flag,
    Names,
    Retries,
    Seconds,
    Secret,
    Text,
    WordEnum,
)

PROTOCOLS = ("auto", "react", "native")
APPROVALS = ("ask", "auto", "deny")
CASSETTE_MODES = ("auto", "replay", "record", "off")


class Settings(Configurable):
    """What may be set once for all questions."""

    model = Text(help="The model's name at its endpoint, or 'local' for the embedded model.").tag(
        config=True
    )
    base_url = Text(help="Where the API begins; empty takes OPENAI_BASE_URL.").tag(config=True)
    api_key = Secret(help="The endpoint's key; empty takes OPENAI_API_KEY.").tag(config=True)
    local_model = Text(help="A GGUF path or hf:REPO/FILE for the embedded model.").tag(config=True)
    local_safe = Flag(
        help="Always run the embedded model in safe mode: one thread, no extra buffers, no GPU."
    ).tag(config=True)
    protocol = WordEnum(PROTOCOLS, "auto", help="How tools are spoken of to the model.").tag(
        config=True
    )
    instructions = Text(help="Added to the system prompt.").tag(config=True)
    tools = Names(
        help="Tools that a question may use, names or globs; empty takes all that are enabled."
    ).tag(config=True)
    approve = WordEnum(
        APPROVALS,
        "ask",
        help="What happens when a tool wants approval: ask the person, run it, or refuse it.",
    ).tag(config=True)
    allow = Names(help="Tools that are run without asking, also where nobody can be asked.").tag(
        config=True
    )
    ask_user = WordEnum(
        ("auto", "on", "off"),
        "auto",
        help="Whether the model has a tool to ask you something; auto: not where the model is small.",
    ).tag(config=True)
    max_steps = Count(20, help="Most replies of the model for one question.").tag(config=True)
    max_errors = Count(5, help="Most unusable replies and failing calls in a row.").tag(config=True)
    max_seconds = Seconds(
        600.0, help="Most seconds that one question may take; None for no bound.", allow_none=True
    ).tag(config=True)
    max_total_tokens = Count(
        1_000_000,
        help="Maximum number of tokens, input and output together, for one question; None for no bound.",
        allow_none=True,
    ).tag(config=True)
    max_reply_tokens = Count(
        None,
        help="Maximum number of tokens in one reply of the model; None for 1,024 with a small model and 16,384 "
        "with any other, or less where the endpoint allows less.",
        allow_none=True,
    ).tag(config=True)
    max_tokens = Count(None, help="The old name of max_total_tokens.", allow_none=True).tag(
        config=True
    )
    timeout = Seconds(300.0, help="Seconds without a byte before a request is given up.").tag(
        config=True
    )
    max_retries = Retries(
        3, help="How often a passing failure of the endpoint is tried again."
    ).tag(config=True)
    request = Fields(
        ("model", "base_url", "api_key", "timeout", "max_retries"),
        help="Further fields of every request to the endpoint, such as {'temperature': 0}, and the arguments "
        "'headers' and 'query' of OpenAIModel; JSON in the environment.",
    ).tag(config=True)
    quiet = Flag(help="Show no trace, only the answer.").tag(config=True)
    cassette = Text(help="A file that model replies are recorded in and replayed from.").tag(
        config=True
    )
    cassette_mode = WordEnum(
        CASSETTE_MODES,
        "auto",
        help="What the cassette is used for; off: it is left alone. A mode in the environment, such as that of a "
        "test run, counts before it.",
    ).tag(config=True)
    discover = Flag(
        default_value=True,
        help="Look for a model server on this machine where no endpoint is named; you are asked once before it "
        "is used.",
    ).tag(config=True)
    warm = Flag(
        help="Start the embedded model with the extension, or when this is set, and have it read the tools "
        "before the first question."
    ).tag(config=True)

    def total_tokens(self, args: Any) -> int | None:
        """The maximum of tokens for a question with these options; the old name is taken, with a warning.

        Raises:
            UsageError: Both names are used in the same place.
        """
        new, old = "max_total_tokens", "max_tokens"
        places: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
            ("--max-total-tokens", "--max-tokens", lambda name: getattr(args, name) is not None),
            (new, old, lambda name: name in self.__dict__.get("_given", ())),
            (_variable(new), _variable(old), lambda name: bool(os.environ.get(_variable(name)))),
        )
        for now, before, is_set in places:
            if is_set(old) and is_set(new):
                raise UsageError(
                    f"{before} is the old name of {now}, and both are set: leave {before} out"
                )
            if is_set(old):
                warnings.warn(
                    f"{before} is called {now} now: use the new name", FutureWarning, stacklevel=2
                )
            if is_set(old) or is_set(new):
                name = old if is_set(old) else new
                flag = getattr(args, name)
                return getattr(self, name) if flag is None else flag  # type: ignore[no-any-return]
        return self.max_total_tokens  # type: ignore[no-any-return]


def _variable(name: str) -> str:
    return PREFIX + name.upper()
