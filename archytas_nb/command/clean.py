"""Removes what the embedded model left on this machine, and says what lies where."""

from __future__ import annotations

import shutil
from pathlib import Path

from archytas_nb.models import process, weights


def clean(*, only_show: bool = False) -> tuple[str, bool]:
    """Remove the assembled weights and the logs of the embedded model.

    What pip has installed stays; the report has the command that removes it.

    Args:
        only_show: Report the same without removing anything.

    Returns:
        The report, one line for each thing, and whether everything went well.
    """
    places = {
        "weights, made of the extra's pieces": weights.cache_dir(),
        "logs of the engine": process.log_dir(),
    }
    lines, well = [], True
    for what, path in places.items():
        size = _size(path)
        if not path.exists():
            continue
        if only_show:
            said = "would be removed"
        else:
            shutil.rmtree(path, ignore_errors=True)
            said = "removed" if not path.exists() else "could not be removed: is it in use?"
            well = well and not path.exists()
        lines.append(f"{what}: {str(path)!r}, {_shown(size)}, {said}")
    if pieces := weights.pieces():
        names = " ".join(name for name, _ in weights.EMBEDDED.parts)
        size = sum(path.stat().st_size for path in pieces)
        lines.append(
            f"pieces of the weights extra: {str(pieces[0].parents[2])!r}, {_shown(size)}, installed by pip. "
            "Once the weights are assembled the model runs without them, too; to remove them:\n"
            f"  python -m pip uninstall -y {names}"
        )
    return "\n".join(lines) or "nothing of the embedded model lies on this machine", well


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def _shown(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 10_000_000 else f"{size / 1e3:.0f} kB"
