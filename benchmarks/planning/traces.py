"""Hourly traces by zone, and where the part begins that plans are judged on."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from gramwatt.sci.planning.hours import DAY_H, Hours, hour_of

COLUMN = "lifecycle_gco2eq_per_kwh"
YEAR_H = 365 * DAY_H
FITTED_H = 243 * DAY_H
"""January to August, of a zone with one year."""


def read(folder: Path) -> dict[str, tuple[Hours, int]]:
    """The hours of each zone from 2023 on, and the position of the first that is judged.

    Raises FileNotFoundError where there is no trace.
    """
    found: dict[str, list[float]] = {}
    for path in sorted(folder.glob("*_202[34]_hourly.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            values = [float(row[COLUMN]) for row in csv.DictReader(file)]
        found.setdefault(path.name.split("_")[0], []).extend(values)
    if not found:
        raise FileNotFoundError(f"no ZONE_2023_hourly.csv in {folder}")
    first = hour_of(datetime(2023, 1, 1, tzinfo=UTC))
    return {
        zone: (Hours(first, np.array(values)), YEAR_H if len(values) > YEAR_H else FITTED_H)
        for zone, values in found.items()
    }
