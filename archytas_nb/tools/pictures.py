"""A value that is a picture → base64. Knows objects by what they offer; imports no plotting library."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

from archytas_nb.errors import ToolTimeout

_MAX_BYTES = 5_000_000
_PNG, _JPEG = b"\x89PNG", b"\xff\xd8\xff"


def attached(value: Any) -> str:
    """Return what a user wants to show to a model as PNG or JPEG in base64.

    Args:
        value: PNG or JPEG as bytes, base64 text, a data URL or the path of a file; or an object that is
            a picture, such as a figure.

    Raises:
        ValueError: It is none of these, or larger than 5 MB.
        OSError: The file cannot be read.
    """
    data: Any = value
    if isinstance(value, os.PathLike):
        data = Path(value).read_bytes()
    elif isinstance(value, str):
        text = value.partition(",")[2] if value.startswith("data:") else value
        data = _decoded(text)
        if data is None or not data.startswith((_PNG, _JPEG)):
            if not os.path.isfile(value):  # noqa: PTH113 - a Path of any text may raise
                raise ValueError(
                    f"the image {_short(value)} is neither the path of a file nor PNG or JPEG in base64"
                )
            data = Path(value).read_bytes()
    elif not isinstance(value, (bytes, bytearray)):
        drawn = picture(value)
        if drawn is None:
            raise ValueError(
                f"the image is {_short(value)}; expected PNG or JPEG (bytes, base64 or a path) or a figure"
            )
        return drawn
    if not bytes(data[:4]).startswith((_PNG, _JPEG)):
        raise ValueError(
            f"the image {_short(value)} is neither PNG nor JPEG; save it as one of them"
        )
    if len(data) > _MAX_BYTES:
        raise ValueError(
            f"the image has {len(data):,} bytes; at most {_MAX_BYTES:,} are sent: make it smaller"
        )
    return base64.b64encode(data).decode("ascii")


def _short(value: Any) -> str:
    shown = repr(value)
    if "\n" in shown:
        return f"an object of type {type(value).__name__!r}"
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def picture(value: Any) -> str | None:
    """Return the value as a PNG in base64, or None where it is no picture or too large to send."""
    for attempt in (_repr_png, _bundle, _figure):
        try:
            data = attempt(value)
        except (KeyboardInterrupt, ToolTimeout):
            raise
        except BaseException:  # noqa: BLE001, S112  (whatever the object does, another way may work)
            continue
        if isinstance(data, tuple):  # IPython lets _repr_*_ return (data, metadata)
            data = data[0] if data else None
        if isinstance(data, str):
            data = _decoded(data)
        if isinstance(data, (bytes, bytearray)) and data[:4] == _PNG and len(data) <= _MAX_BYTES:
            return base64.b64encode(data).decode("ascii")
    return None


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=False)
    except ValueError:
        return None


def _repr_png(value: Any) -> Any:
    method = getattr(type(value), "_repr_png_", None)
    return method(value) if callable(method) else None


def _bundle(value: Any) -> Any:
    method = getattr(type(value), "_repr_mimebundle_", None)
    if not callable(method):
        return None
    bundle = method(value, include={"image/png"}, exclude=set())
    bundle = bundle[0] if isinstance(bundle, tuple) else bundle
    return bundle.get("image/png") if isinstance(bundle, dict) else None


def _figure(value: Any) -> Any:
    """Draw a matplotlib figure, or the figure of an axes."""
    if not str(type(value).__module__).startswith(("matplotlib", "seaborn")):
        return None
    figure = value if hasattr(value, "savefig") else getattr(value, "figure", None)
    if figure is None or not hasattr(figure, "savefig"):
        return None
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", bbox_inches="tight")
    return buffer.getvalue()
