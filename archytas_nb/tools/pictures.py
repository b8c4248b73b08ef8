"""A value that is a picture → PNG, base64. Knows objects by what they offer; imports no plotting library."""

from __future__ import annotations

import base64
import io
from typing import Any

_MAX_BYTES = 5_000_000
_PNG = b"\x89PNG"


def picture(value: Any) -> str | None:
    """Return the value as a PNG in base64, or None where it is no picture or too large to send."""
    for attempt in (_repr_png, _bundle, _figure):
        try:
            data = attempt(value)
        except KeyboardInterrupt:
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
