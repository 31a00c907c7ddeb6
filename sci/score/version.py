"""The version of the engine, which lists and months name without loading it."""

from __future__ import annotations

from typing import Literal

ENGINE_VERSION = "11"
"""Raised whenever the same inputs would give other numbers; listed in CHANGELOG."""
VERSIONS: tuple[Literal["engine_version", "catalog_version"], ...] = (
    "engine_version",
    "catalog_version",
)
"""Fields of a score's method that a later release changes."""
