"""The version of the package; the build reads it from here without importing anything."""

from __future__ import annotations

__version__ = "0.1.0"
