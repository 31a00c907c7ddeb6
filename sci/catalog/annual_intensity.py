"""The intensity that needs no key and no network: annual means out of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.grid.intensity import IntensityPoint, Quality


class AnnualIntensity:
    """Answers with one point: the zone's annual mean, or the world's where no zone is known."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def points(self, zone: str | None, start: datetime, end: datetime) -> Sequence[IntensityPoint]:
        """One point [gCO2e/kWh] over [start, end); raises LookupFailed for an unknown zone."""
        row = self._catalog.zone(zone) if zone else self._catalog.world()
        quality: Quality = "annual" if zone else "world"
        point = IntensityPoint(row.zone, start, end, row.intensity, quality, row.signal, row.basis)
        return (point,)
