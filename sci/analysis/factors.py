"""Which emission factors a job's part of a month was multiplied by: E x PUE x factor = O.

A row is a zone, a PUE, and one source of intensity.
"""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, tzinfo
from typing import NamedTuple

from gramwatt.sci.analysis.month import Part
from gramwatt.sci.base.days import DAY, midnight
from gramwatt.sci.base.document import IntensityUsedDoc, JobDoc
from gramwatt.sci.base.units import J_PER_KWH

KWH, GRAMS, LOW, HIGH = "factor kwh", "factor g", "factor low", "factor high"
"""Blocks of amounts by row: energy [kWh], O [gCO2e], and O at both ends of the factor's range."""


class FactorKey(NamedTuple):
    """What jobs of one row have in common."""

    zone: str
    pue: tuple[float, float, float]
    pue_kind: str
    pue_source: str
    quality: str
    source: str

    def to_text(self) -> str:
        """Return the key as a text."""
        return json.dumps(self, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> FactorKey:
        """Return what `to_text` wrote."""
        zone, pue, *rest = json.loads(text)
        return cls(zone, tuple(pue), *rest)


def factor_amounts(part: Part, zone: tzinfo) -> dict[str, dict[str, float]]:
    """Return the amounts of each row by block; they sum to E and O of the part.

    `zone` is that of the job's days. Empty where O is not known. Of a job that crosses the edge of
    a month with several sources, spans across the edge are divided by time.
    """
    job, energy, grams = part.job, part.sums.energy_kwh, part.sums.operational_g
    if energy is None or grams is None or energy.value <= 0:
        return {}
    used = [(row, row.energy_j / J_PER_KWH * _share(part, row, zone)) for row in job.intensity]
    used = [(row, kwh) for row, kwh in used if kwh > 0] or [(_mean(job), energy.value)]
    whole_kwh = sum(kwh for _, kwh in used)
    whole_g = sum(kwh * row.g_per_kwh for row, kwh in used)
    low, high = _range(job)
    found: dict[str, dict[str, float]] = {block: {} for block in (KWH, GRAMS, LOW, HIGH)}
    for row, kwh in used:
        key = _key(job, row).to_text()
        of_row = grams.value * kwh * row.g_per_kwh / whole_g if whole_g > 0 else 0.0
        amounts = (energy.value * kwh / whole_kwh, of_row, of_row * low, of_row * high)
        for block, amount in zip((KWH, GRAMS, LOW, HIGH), amounts, strict=True):
            found[block][key] = found[block].get(key, 0.0) + amount
    return found


def _key(job: JobDoc, row: IntensityUsedDoc) -> FactorKey:
    pue = job.method.pue
    return FactorKey(
        zone=row.zone,
        pue=(pue["value"], pue["low"], pue["high"]),
        pue_kind=pue["kind"],
        pue_source=pue["source"],
        quality=row.quality,
        source=row.source,
    )


def _mean(job: JobDoc) -> IntensityUsedDoc:
    """Return the job's mean intensity as a row, where its energy was joined with none."""
    mean = job.method.intensity_g_per_kwh
    return IntensityUsedDoc(
        zone=job.zone or "",
        start=job.started_at,
        end=job.ended_at or job.started_at,
        quality="",
        points=0,
        energy_j=0.0,
        g_per_kwh=mean["value"],
        series="",
        source=mean["source"],
    )


def _share(part: Part, row: IntensityUsedDoc, zone: tzinfo) -> float:
    """Return the share of a span that lies in the days of the part, by time."""
    if len(part.days) == len(part.job.days):
        return 1.0
    start, end = (datetime.fromisoformat(getattr(row, name)) for name in ("start", "end"))
    opens, closes = _span(part, zone)
    if start == end:
        return float(opens <= start < closes)
    return max(min(end, closes) - max(start, opens), timedelta()) / (end - start)


def _span(part: Part, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return start and end of the days of the part."""
    first, last = (date.fromisoformat(part.days[n].day) for n in (0, -1))
    return midnight(first, zone), midnight(last + DAY, zone)


def _range(job: JobDoc) -> tuple[float, float]:
    """Return the ends of the range of the job's intensity, over its value."""
    figure = job.method.intensity_g_per_kwh
    if figure["value"] <= 0:
        return 1.0, 1.0
    return figure["low"] / figure["value"], figure["high"] / figure["value"]
