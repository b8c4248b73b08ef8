"""Which cassette this process uses, and a model behind it: the switch that notebooks, agents and tests share.

It may read the environment. It imports the cassette only where one is in use, for most processes use none. There
is one `Cassette` for a file and mode, so that an exchange is given out once whoever asks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archytas_nb.models.discover import ModelSettings, choose_model

if TYPE_CHECKING:
    from archytas_nb.models.cassettes.cassette import Cassette

PATH = "ARCHYTAS_NB_CASSETTE"
MODE = "ARCHYTAS_NB_CASSETTE_MODE"
REPORT = "ARCHYTAS_NB_CASSETTE_REPORT"
"""A folder for a small file about what each cassette was used for."""
RERUN = "ARCHYTAS_NB_CASSETTE_RERUN"
"""The command that records what is missing, for messages."""

_open: dict[tuple[str, str], Cassette] = {}
_numbers = itertools.count(1)


class _Inserted:
    """What `insert_cassette` was told last."""

    path: str | None = None
    mode: str = "auto"


def insert_cassette(path: str, mode: str | None = None, volatile: Iterable[str] = ()) -> Cassette | None:
    """Use a cassette from its beginning, for everything that is asked from now on in this process.

    Args:
        path: The file; an empty text for none, whatever the configuration and the environment name.
        mode: ``"auto"``, ``"replay"``, ``"record"`` or ``"off"``; None for ``"auto"``. A mode in the environment
            counts before it.
        volatile: Names of what may differ from run to run; see `Cassette`.

    Returns:
        The cassette; None where none is in use now.

    Raises:
        ConfigurationError: The file is no cassette, or missing in a replay; the earlier one stays in use.
    """
    chosen = os.environ.get(MODE) or mode or "auto"
    if chosen == "off" or not path:
        cassette = None
    else:
        cassette = _opened(path, chosen, volatile)
        _open[_key(path, chosen)] = cassette
    _Inserted.path, _Inserted.mode = path, mode or "auto"
    return cassette


def cassette_in_use(path: str = "", mode: str = "") -> Cassette | None:
    """The cassette that answers, as it stands now.

    Args:
        path: What a configuration names; counts where none was inserted, and before the environment.
        mode: The mode of that configuration.

    Returns:
        The cassette; None where none is in use.

    Raises:
        ConfigurationError: The file is no cassette, or missing in a replay.
    """
    environment = os.environ.get
    if _Inserted.path is not None:
        path, mode = _Inserted.path, _Inserted.mode
    else:
        path = path or environment(PATH) or ""
    chosen = environment(MODE) or mode or "auto"
    if not path or chosen == "off":
        return None
    key = _key(path, chosen)
    if key not in _open:
        _open[key] = _opened(path, chosen, ())
    return _open[key]


def recorded(model: Any = None, settings: ModelSettings | None = None, cassette: Cassette | None = None) -> Any:
    """A model that answers from the cassette in use, or as it is where there is none.

    Args:
        model: A model, a model's name, or None for the one that the environment names; it is made only where it
            is needed, which in a replay is never.
        settings: What a configuration says about models.
        cassette: The cassette; None takes the one in use.

    Returns:
        The model. One that is scripted, or has a cassette already, is returned as it is.

    Raises:
        ConfigurationError: There is no such model, or no such cassette.
    """
    named = model is None or isinstance(model, str)
    model = model if named else choose_model(model)  # which refuses what is no model
    if not named and (getattr(model, "is_scripted", False) or hasattr(model, "cassette")):
        return model
    used = cassette or cassette_in_use()
    if used is None:
        return choose_model(model, settings) if named else model
    from archytas_nb.models.cassettes.model import CassetteModel
    from archytas_nb.models.cassettes.values import DEFAULT

    if settings is not None and settings.api_key:
        used.hide("api_key", settings.api_key)
    if named:
        return CassetteModel(used, lambda: choose_model(model, settings), model or DEFAULT)
    return CassetteModel(used, lambda: model, used.called(model))


def _opened(path: str, mode: Any, volatile: Iterable[str]) -> Cassette:
    from archytas_nb.models.cassettes.cassette import Cassette

    folder = os.environ.get(REPORT)
    report = Path(folder) / f"{os.getpid()}-{next(_numbers)}.json" if folder else None
    return Cassette(path, mode, volatile=volatile, rerun=os.environ.get(RERUN), report=report)


def _key(path: str, mode: str) -> tuple[str, str]:
    return str(Path(path).absolute()), mode
