"""The catalog as a user has it: the packaged data with the overlay file over them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gramwatt.collectors.common.config import Config
    from gramwatt.sci.catalog.catalog import Catalog

OVERLAY_FILE = "overlay.toml"
"""The overlay in the home folder, which counts without being configured."""
MAX_OVERLAY_B = 2**20
"""Largest overlay that is read [B]; it is written by hand."""


def overlay_file(config: Config, home: Path | None = None) -> Path | None:
    """The overlay that holds: the configured one, else overlay.toml in the home if it exists."""
    if config.overlay is not None:
        return config.overlay
    usual = (home or config.home) / OVERLAY_FILE
    try:
        return usual if usual.is_file() else None
    except OSError:  # a home that may not be looked into
        return None


def read_catalog(path: Path | None) -> Catalog:
    """The catalog with the overlay in a file; raises OverlayError, which names the file."""
    from gramwatt.sci.catalog.catalog import load_catalog

    if path is None:
        return load_catalog()
    from gramwatt.sci.catalog.overlay import OverlayError

    try:
        if path.stat().st_size > MAX_OVERLAY_B:
            raise OverlayError(f"{path}: larger than {MAX_OVERLAY_B} bytes")
        return _built(path.read_text("utf-8"))
    except OverlayError as error:
        raise OverlayError(f"{path}: {error.message}") from None
    except (OSError, ValueError) as error:
        raise OverlayError(f"{path}: the overlay cannot be read: {error}") from None


def user_catalog(config: Config | None = None) -> Catalog:
    """The catalog of a configuration, by default that of this process; raises OverlayError."""
    from gramwatt.collectors.common.config import resolve

    return read_catalog(overlay_file(config or resolve()))


@lru_cache(maxsize=4)
def _built(text: str) -> Catalog:
    """The catalog of one overlay text, built once while the text stays the same."""
    from gramwatt.sci.catalog.catalog import load_catalog

    return load_catalog().with_overlay(text)
