"""Which cassette this process uses, and a model behind it: the switch that notebooks, agents and tests share.

It may read the environment. It imports the cassette only where one is in use, for most processes use none. There
is one `Cassette` for a file and mode, so that an exchange is given out once whoever asks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archytas_nb.errors import ConfigurationError
from archytas_nb.models.discover import Confirm, ModelSettings, choose_model

if TYPE_CHECKING:
    from archytas_nb.cassettes.cassette import Cassette

PATH = "ARCHYTAS_NB_CASSETTE"
MODE = "ARCHYTAS_NB_CASSETTE_MODE"
REPORT = "ARCHYTAS_NB_CASSETTE_REPORT"
"""A folder for a small file about what each cassette was used for."""
RERUN = "ARCHYTAS_NB_CASSETTE_RERUN"
"""The command that records what is missing, for messages."""


@dataclass(slots=True)
class _State:
    """Which cassettes this process has, and what it was told about them.

    Attributes:
        open: One cassette for a file and mode.
        inserted: What `insert_cassette` was told last, or None: the file, and the mode.
        configured: What `configure_cassette` was told last.
        seen: The file that the environment named, where it was when it was first looked at.
    """

    open: dict[tuple[Path, str], Cassette] = field(default_factory=dict)
    inserted: tuple[Path | None, str] | None = None
    configured: tuple[Path | None, str] = (None, "")
    seen: dict[str, Path] = field(default_factory=dict)


_state = _State()
_numbers = itertools.count(1)


def insert_cassette(
    path: str, mode: str | None = None, volatile: Iterable[str] = ()
) -> Cassette | None:
    """Use a cassette from its beginning, for everything that is asked from now on in this process.

    Args:
        path: The file, where it is seen from the working folder of now; an empty text for none, whatever the
            configuration and the environment name.
        mode: ``"auto"``, ``"replay"``, ``"record"`` or ``"off"``; None for ``"auto"``. A mode in the environment
            counts before it.
        volatile: Names of what may differ from run to run; see `Cassette`.

    Returns:
        The cassette; None where none is in use now.

    Raises:
        ConfigurationError: The file is no cassette, or missing in a replay; the earlier one stays in use.
    """
    chosen = os.environ.get(MODE) or mode or "auto"
    cassette = None
    if path and chosen != "off":
        cassette = _opened(path, chosen, volatile)
        _state.open[cassette.where, chosen] = cassette
    _state.inserted = _file(path), mode or "auto"
    return cassette


def configure_cassette(path: str, mode: str = "") -> None:
    """Say what a configuration names: it counts where no cassette was inserted, and before the environment.

    Args:
        path: The file; an empty text for none.
        mode: Its mode; an empty text for what the environment says, or ``"auto"``.
    """
    _state.configured = _file(path), mode


def cassette_in_use() -> Cassette | None:
    """The cassette that answers, as it stands now; None where none is in use.

    Raises:
        ConfigurationError: The file is no cassette, or missing in a replay.
    """
    if _state.inserted is not None:
        path, mode = _state.inserted
    else:
        path, mode = _state.configured
        named = os.environ.get(PATH)
        if path is None and named:
            path = _state.seen.setdefault(named, Path(named).expanduser().absolute())
    chosen = os.environ.get(MODE) or mode or "auto"
    if path is None or chosen == "off":
        return None
    if (path, chosen) not in _state.open:
        here = Path.cwd()
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        _state.open[path, chosen] = _opened(shown, chosen, ())
    return _state.open[path, chosen]


def answers_itself(model: Any) -> bool:
    """Whether no cassette stands before a model: it is scripted, or has one already."""
    return bool(getattr(model, "is_scripted", False)) or hasattr(model, "cassette")


def recorded(
    model: Any = None,
    settings: ModelSettings | None = None,
    cassette: Cassette | None = None,
    confirm: Confirm | None = None,
) -> Any:
    """A model that answers from the cassette in use, or as it is where there is none.

    Args:
        model: A model, a model's name, or None for the one that the environment names; it is made only where it
            is needed, which in a replay is never.
        settings: What a configuration says about models.
        cassette: The cassette; None takes the one in use.
        confirm: Asks the user whether a server may be used that nobody named; see `choose_model`.

    Returns:
        The model. One that is scripted, or has a cassette already, is returned as it is.

    Raises:
        ConfigurationError: There is no such model, or no such cassette.
    """
    named = model is None or isinstance(model, str)
    model = model if named else choose_model(model)  # which refuses what is no model
    if answers_itself(model):
        return model
    used = cassette or cassette_in_use()
    if used is None and os.environ.get(MODE) == "replay":
        raise ConfigurationError(
            f"this is a replay ({MODE}=replay), which never asks a model, and no cassette is in use. Name one: "
            "%agent_cassette PATH"
        )
    if used is None:
        return choose_model(model, settings, confirm) if named else model
    from archytas_nb.cassettes.model import CassetteModel
    from archytas_nb.cassettes.values import DEFAULT

    if settings is not None and settings.api_key:
        used.hide("api_key", settings.api_key)
    if named:
        return CassetteModel(used, lambda: choose_model(model, settings, confirm), model or DEFAULT)
    return CassetteModel(used, lambda: model, called(model))


def called(model: Any) -> str:
    """What a notebook calls a model that it made itself: the name that it gave it.

    The endpoint is not asked for one, as it would not be there in a replay.
    """
    given = model.given_name if hasattr(model, "given_name") else getattr(model, "name", None)
    if given:
        return str(given)
    from archytas_nb.cassettes.values import DEFAULT

    return DEFAULT


def _opened(path: str | Path, mode: Any, volatile: Iterable[str]) -> Cassette:
    from archytas_nb.cassettes.cassette import Cassette

    folder = os.environ.get(REPORT)
    report = Path(folder) / f"{os.getpid()}-{next(_numbers)}.json" if folder else None
    return Cassette(path, mode, volatile=volatile, rerun=os.environ.get(RERUN), report=report)


def _file(path: str) -> Path | None:
    """A file that stays the same one when the working folder changes."""
    return Path(path).expanduser().absolute() if path else None
