"""Names that libraries define, for code that uses one without its import."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ALIASES = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "pl": "import polars as pl",
    "plt": "import matplotlib.pyplot as plt",
    "sns": "import seaborn as sns",
    "sm": "import statsmodels.api as sm",
    "stats": "from scipy import stats",
}
"""Names by which whole libraries are known, and how they are imported."""

_SECONDS = 5.0
"""Seconds of the processor in which a name is looked for in libraries."""


def import_of(name: str) -> str | None:
    """How a name is imported; None if no library has it, or several have."""
    if name in ALIASES:
        module = ALIASES[name].split()[1]
        return ALIASES[name] if _is_installed(module.partition(".")[0]) else None
    if _is_installed(name):
        return f"import {name}"
    usual = _usual_owners(name)
    owners = usual or library_owners(name)
    return f"from {owners[0]} import {name}" if len(owners) == 1 else None


def import_of_library(names: Sequence[str]) -> str | None:
    """How the library is imported of which these are the names, one in the other; None for none.

    Its packages are imported, too, as far as they are named.
    """
    if names[0] in ALIASES:
        return import_of(names[0])
    found = [names[0]] if _is_installed(names[0]) else []
    if not found:
        return None
    for each in names[1:-1]:
        with suppress(ImportError, ValueError):
            if importlib.util.find_spec(".".join([*found, each])) is None:
                break
            found.append(each)
    return f"import {'.'.join(found)}"


def _usual_owners(name: str) -> list[str]:
    """The libraries known by short names that have a function of this name."""
    modules = [line.split()[1] for line in ALIASES.values() if line.startswith("import")]
    modules.append("scipy.stats")
    found: dict[int, str] = {}
    for each in modules:
        if _is_installed(each.partition(".")[0]) and each in sys.modules:
            value = getattr(sys.modules[each], name, None)
            if callable(value):
                found.setdefault(id(value), each)
    return list(found.values())


def library_owners(name: str) -> list[str]:
    """The modules that define a name, by the one that is nearest to its library's root.

    Looked at are the libraries that compute with numpy, and their packages.
    """
    ends = time.process_time() + _SECONDS  # a busy machine finds the same as a quiet one
    found: dict[int, str] = {}
    for module in _modules(name):
        if time.process_time() > ends:
            break
        value = getattr(module, name, None)
        is_own = str(getattr(value, "__module__", "")).partition(".")[0]
        if is_own and is_own == module.__name__.partition(".")[0]:
            known = found.get(id(value))
            if known is None or known.count(".") > module.__name__.count("."):
                found[id(value)] = module.__name__
    return list(dict.fromkeys(found.values()))


def _modules(name: str) -> Iterator[Any]:
    """The libraries and their packages; of those that nobody imported, the ones that define it."""
    for root in _libraries():
        if root not in sys.modules and not _defines(root, name):
            continue
        with suppress(Exception):
            package = importlib.import_module(root)
            yield package
            for each in pkgutil.iter_modules(getattr(package, "__path__", ())):
                if each.ispkg and not each.name.startswith("_") and each.name != "tests":
                    with suppress(Exception):
                        yield importlib.import_module(f"{root}.{each.name}")


def _libraries() -> Collection[str]:
    """The installed libraries that need numpy, those that are imported already first."""
    needing = set()
    for each in importlib.metadata.distributions():
        always = (one for one in each.requires or () if "extra ==" not in one)
        if "numpy" in (re.split(r"[^\w-]", one)[0].lower() for one in always):
            needing.add(each.metadata["Name"])
    packages = importlib.metadata.packages_distributions()
    roots = [root for root, owners in packages.items() if needing.intersection(owners)]
    named = [root for root in roots if not root.startswith("_") and _is_installed(root)]
    return sorted(named, key=lambda root: root not in sys.modules)


def _defines(root: str, name: str) -> bool:
    """Whether a file of a library defines a class or a function of this name."""
    defined = re.compile(rf"^(?:class|def) {re.escape(name)}\b".encode(), re.MULTILINE)
    with suppress(ImportError, ValueError, OSError):
        spec = importlib.util.find_spec(root)
        for folder in (spec and spec.submodule_search_locations) or ():
            files = Path(folder).rglob("*.py")
            if any(
                defined.search(each.read_bytes()) for each in files if "tests" not in each.parts
            ):
                return True
    return False


def _is_installed(name: str) -> bool:
    with suppress(ImportError, ValueError, AttributeError):
        return name.isidentifier() and importlib.util.find_spec(name) is not None
    return False
