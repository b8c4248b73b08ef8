"""Removes what the embedded model left on this machine, and says what lies where."""

from __future__ import annotations

from pathlib import Path

from archytas_nb.models import process, weights


def clean(*, only_show: bool = False) -> tuple[str, bool]:
    """Remove the assembled weights, the engine's logs and what was noted of its crashes.

    What pip or the user has put there stays; the report has the command that removes pip's part.

    Args:
        only_show: Report the same without removing anything.

    Returns:
        The report, one line for each thing, and whether everything went well.
    """
    assembled = weights.find()
    pieces = weights.pieces()
    found = {
        "weights, assembled from the extra's pieces": sorted(
            weights.cache_dir().glob(f"{weights.EMBEDDED.name}*")
        ),
        "logs of the engine": sorted(process.log_dir().glob("local-*.log*")),
        "notes of what was tried": sorted(process.run_dir().glob("*.tried.json")),
    }
    lines, well = [], True
    for what, files in found.items():
        if not files:
            continue
        size, left = sum(file.stat().st_size for file in files), []
        for file in [] if only_show else files:
            try:
                file.unlink()
            except OSError as error:
                left.append(f"{file.name!r} could not be removed ({error})")
        well = well and not left
        became = "would be removed" if only_show else "; ".join(left) or "removed"
        lines.append(f"{what}: {str(files[0].parent)!r}, {_shown(size)}, {became}")
    if pieces:
        lines += _of_pip(pieces, is_needed=assembled is None or not only_show)
    return "\n".join(lines) or "nothing of the embedded model lies on this machine", well


def _of_pip(pieces: list[Path], *, is_needed: bool) -> list[str]:
    size, site = sum(path.stat().st_size for path in pieces), str(pieces[0].parents[2])
    line = f"pieces of the weights extra: {site!r}, {_shown(size)}, installed by pip"
    if is_needed:
        return [
            f"{line}; they are assembled at the next question. To remove them, and the model with them:",
            _pip(),
        ]
    return [
        f"{line}; as long as the weights are assembled they are not needed. To remove them:",
        _pip(),
    ]


def _pip() -> str:
    return f"  python -m pip uninstall -y {' '.join(name for name, _ in weights.EMBEDDED.parts)}"


def _shown(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 10_000_000 else f"{size / 1e3:.0f} kB"
