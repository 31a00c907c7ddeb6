"""The user's catalog: the packaged data and the overlay file on top of them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gramwatt.collectors.settings.config import Config, Problem, resolve
from gramwatt.collectors.settings.files import why

if TYPE_CHECKING:
    from gramwatt.sci.catalog.catalog import Catalog

OVERLAY_FILE = "overlay.toml"
"""The overlay in the home folder, which is used without being configured."""
MAX_OVERLAY_B = 2**20
"""Largest overlay that is read [B]; it is written by hand."""


def overlay_file(config: Config, home: Path | None = None) -> Path | None:
    """Return the overlay file in use: the configured one, else the home's if it exists."""
    if config.overlay is not None:
        return config.overlay
    usual = (home or config.home) / OVERLAY_FILE
    try:
        return usual if usual.is_file() else None
    except OSError:  # a home without the right to read it
        return None


def read_catalog(path: Path | None) -> Catalog:
    """Return the catalog with the overlay in a file; raises OverlayError, which names the file."""
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
        raise OverlayError(f"{path}: the overlay cannot be read: {why(error)}") from None


def user_catalog(config: Config | None = None) -> Catalog:
    """Return the catalog of a configuration, by default this process's; raises OverlayError."""
    return read_catalog(overlay_file(config or resolve()))


def place_problems(config: Config) -> dict[str, str]:
    """Return what is wrong with a configuration's zone, region and overlay file, by its key.

    For example {"zone": "unknown zone 'XX'; ..."}. Empty where the catalog cannot be loaded at all:
    a broken installation must not stop a job.
    """
    path = overlay_file(config)
    if config.zone is None and config.region is None and path is None:
        return {}
    from gramwatt.sci.catalog.overlay import OverlayError
    from gramwatt.sci.figures.errors import LookupFailed

    problems: dict[str, str] = {}
    try:
        try:
            catalog = read_catalog(path)
        except OverlayError as error:
            catalog, problems = read_catalog(None), {"overlay": error.message}
    except Exception:
        return {}
    for key, name, find in (
        ("zone", config.zone, catalog.zone),
        ("region", config.region, catalog.region),
    ):
        try:
            if name is not None:
                find(name)
        except LookupFailed as error:
            problems[key] = error.args[0]
    if config.zone and config.region and not {"zone", "region"} & problems.keys():
        text = _contradiction(catalog, config.zone, config.region)
        problems |= {"region": text} if text else {}
    return problems


def consistent(config: Config) -> Config:
    """Return the configuration without a region that its zone contradicts, and a problem for it."""
    if config.zone is None or config.region is None:
        return config
    text = place_problems(config).get("region")
    if text is None:
        return config
    problems = (*config.problems, Problem("", "region", text))
    return replace(config, region=None, problems=problems)


def _contradiction(catalog: Catalog, zone: str, region: str) -> str | None:
    """Return why a zone and a region cannot both hold; None where they can."""
    grid, cloud = catalog.zone(zone), catalog.region(region)
    country = catalog.zone(cloud.country).zone
    own = {cloud.zone, cloud.zone_other, country}
    by_country_only = cloud.zone == country and grid.country == cloud.country
    if grid.zone in own or by_country_only or grid.supply != "grid":
        return None
    return f"{cloud.id} lies in zone {cloud.zone}, and zone {grid.zone} was given"


@lru_cache(maxsize=4)
def _built(text: str) -> Catalog:
    """Return the catalog of one overlay text, built once while the text stays the same."""
    from gramwatt.sci.catalog.catalog import load_catalog

    return load_catalog().with_overlay(text)
