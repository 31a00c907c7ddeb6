"""A job's part of a month: all that the month's document needs of it, as numbers and a few texts.

`texts`, packed JSON, are equal for jobs that are alike, so that reading many opens few of them.
`numbers` is one array of 64-bit floats:

- a head: how many rows of each table follow, how many sets of effects there are, whether the job
  ended in the month, whether its total is known, that total [gCO2e], and the job's days in the
  month as bits of a number;
- figures: day of the month (0: the whole month; below 0: the month's only day), term, label, number
  of its set of effects, value, low, high; terms after E, O and M are components of O and M, of the
  whole month only (`analysis/breakdown.py`);
- effects: set, low, high; counts: day, unit, amount;
- quality: key, share, of the quality of its data and of its breakdown (`analysis/breakdown.py`);
  amounts of emission factors (`analysis/factors.py`);
- for each effect, as 64-bit integers, the input's id, and that of the annual value whose hours' own
  part it is, else the same again (`id_number`).

Labels (kind and sources of a figure), units and keys of quality are numbered in `texts`.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from gramwatt.sci.advice.prediction.own_runs import class_of
from gramwatt.sci.analysis.breakdown import (
    COMPONENTS,
    breakdown,
    components,
    hardware_of,
    intensity_of,
    method_of,
    pue_of,
)
from gramwatt.sci.analysis.compare import is_synthetic
from gramwatt.sci.analysis.factors import factor_amounts
from gramwatt.sci.analysis.model_totals import OTHER, SWEEP
from gramwatt.sci.analysis.month import TERMS, Part, months_of
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import QuantityError
from gramwatt.sci.base.quantity import Quantity, sources_of
from gramwatt.sci.grid.zones import annual_of
from gramwatt.sci.score.sci_for_ai import persona
from gramwatt.service.store.documents import to_text

MOST = 1e100
"""Figures and counts beyond this are no job's: the sum of many would not be finite."""
BLOCKS = ("energy", "intensity", "embodied")
HEAD, FIGURE, EFFECT, COUNT, QUALITY, IDS = 9, 7, 3, 3, 2, 2
"""Numbers in the head, and in a row of each table, in their order."""
TERMS_B = 8 * (HEAD + len(TERMS) * FIGURE)
"""The bytes of a part in which the whole month's terms are."""


PORTION = 2_000
"""Parts read at once."""
SUMMED, EXCLUDED = "summed", "excluded"
"""What becomes of a part: a person may have left the job out."""


@dataclass(frozen=True, slots=True)
class StoredPart:
    """A part as the store keeps it."""

    texts: bytes
    numbers: bytes
    use: str = SUMMED


class PartRow(NamedTuple):
    """A part as the store gives it back, with the job's key, id and start."""

    job: int
    job_id: str
    started_us: int
    texts: bytes
    numbers: bytes


def parts_of(job: JobDoc) -> dict[str, StoredPart]:
    """Return the part of each month (YYYY-MM) that a job has a day in; empty ones of an excluded
    job.

    Raises QuantityError for figures that no sum can hold.
    """
    months = months_of(job)
    if job.excluded is not None:
        return dict.fromkeys(months, StoredPart(b"", b"", EXCLUDED))
    return {month: _Writer(job).written(part) for month, part in months.items()}


def part_until(job: JobDoc, month: str, day: int) -> StoredPart:
    """Return a job's part of the days of a month up to this one."""
    last = f"{month}-{day:02d}"
    days = [one for one in months_of(job)[month].days if one.day <= last]
    return _Writer(job).written(Part(job, days))


def terms_of(numbers: bytes) -> list[float | None]:
    """Return E [kWh], O and M [gCO2e] of a part by its first `TERMS_B` bytes; None if unknown."""
    values = array("d", numbers[:TERMS_B])
    found: list[float | None] = [None] * len(TERMS)
    for row in range(min(int(values[0]), len(TERMS))):
        day, term, _, _, value = values[HEAD + row * FIGURE : HEAD + row * FIGURE + 5]
        if day <= 0 and term < len(TERMS):  # of the whole month, and no component
            found[int(term)] = value
    return found


def days_of(numbers: bytes) -> int:
    """Return the days of a part as bits of a number."""
    (days,) = struct.unpack_from("=d", numbers, 8 * (HEAD - 1))
    return int(days)


def pack_texts(texts: dict[str, Any]) -> bytes:
    """Return the texts of a part as the store keeps them."""
    return zlib.compress(to_text(texts).encode())


def unpack_texts(packed: bytes) -> dict[str, Any]:
    """Return what `pack_texts` packed."""
    texts: dict[str, Any] = json.loads(zlib.decompress(packed))
    return texts


def id_number(id_: str) -> int:
    """Return the id of an input as 64 bits: other ids have others, but for one pair in 10^19."""
    digest = blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@dataclass
class _Numbered:
    """Things by the order in which they were first met."""

    found: dict[Any, int] = field(default_factory=dict)

    def of(self, thing: Any) -> int:
        return self.found.setdefault(thing, len(self.found))


class _Writer:
    """Writes one part: tables of numbers, and the texts that they refer to."""

    def __init__(self, job: JobDoc) -> None:
        self._job = job
        self._labels, self._keys = _Numbered(), _Numbered()
        self._units = _Numbered({row.unit: n for n, row in enumerate(job.sci)})
        self._moved: dict[Any, int] = {}
        self._figures: list[float] = []
        self._effects: list[float] = []
        self._ids = array("q")

    def written(self, part: Part) -> StoredPart:
        """Return the part as texts and numbers; raises QuantityError for those beyond `MOST`."""
        only = len(part.days) == 1
        self._add_figures(-int(part.days[0].day[8:]) if only else 0, part)
        counts: list[float] = []
        for day in part.days:
            number = int(day.day[8:])
            if not only:
                self._add_figures(number, Part(self._job, [day]))
            for unit, amount in day.counts.items():
                counts += [number, self._units.of(unit), amount]
        self._add_components(part)
        quality: list[float] = []
        shares_of: dict[str, Mapping[str, float]] = {
            block: getattr(self._job.data_quality, block) for block in BLOCKS
        }
        zone = ZoneInfo(self._job.method.time_zone)
        factors = factor_amounts(part, zone)
        shares_of |= {f"{name} by": shares for name, shares in factors.items()}
        # The quality of a job's data and the breakdown of its terms have keys of their own.
        shares_of |= {f"{name} by": shares for name, shares in breakdown(self._job).items()}
        for block, shares in shares_of.items():
            for key, share in shares.items():
                quality += [self._keys.of((block, key)), share]
        whole = self._job.total_g
        sizes = (
            len(self._figures) // FIGURE,
            len(self._effects) // EFFECT,
            len(counts) // COUNT,
            len(quality) // QUALITY,
            len(self._moved),
        )
        days = sum(1 << int(day.day[8:]) for day in part.days)
        head = (*sizes, part.ended, whole is not None, whole["value"] if whole else 0.0, days)
        tables = (head, self._figures, self._effects, counts, quality)
        numbers = array("d", [float(number) for table in tables for number in table])
        _require_finite([*head, *self._figures, *counts, *quality])
        return StoredPart(pack_texts(self._texts()), numbers.tobytes() + self._ids.tobytes())

    def _add_figures(self, day: int, part: Part) -> None:
        for number, term in enumerate(TERMS):
            figure = getattr(part.sums, term)
            if figure is not None:
                self._add_figure(day, number, figure)

    def _add_components(self, part: Part) -> None:
        """Add the components of O and M, as much of each as of the term lies in the month."""
        sums = {"operational": part.sums.operational_g, "embodied": part.sums.embodied_g}
        for key, figure in components(self._job).items():
            whole, of_month = getattr(self._job, f"{key[0]}_g"), sums[key[0]]
            if whole is not None and of_month is not None and whole["value"] > 0:
                number = len(TERMS) + COMPONENTS.index(key)
                self._add_figure(0, number, figure.scaled(of_month.value / whole["value"]))

    def _add_figure(self, day: int, term: int, figure: Quantity) -> None:
        self._figures += [
            *(day, term, self._labels.of((figure.kind, *figure.sources))),
            *(self._effects_of(figure), figure.value, figure.low, figure.high),
        ]

    def _effects_of(self, figure: Quantity) -> int:
        """Return the number of the effects on a figure, written at first sight."""
        effects = figure.inputs if figure.relative else {}
        key = tuple(effects.items())
        if key not in self._moved:
            number = self._moved[key] = len(self._moved)
            for id_, effect in effects.items():
                self._effects += [number, *effect]
                self._ids.extend((id_number(id_), id_number(annual_of(id_))))
        return self._moved[key]

    def _texts(self) -> dict[str, Any]:
        job = self._job
        return {
            "project": job.project,
            "state": job.state,
            "model_id": job.model_id,
            "persona": persona(job.kind) or OTHER,
            "conformance": job.conformance,
            "synthetic": is_synthetic(job),
            "kind": job.kind,
            "owner": job.tags.get("user", ""),
            "hardware": hardware_of(job),
            "work": class_of(job) or job.kind,
            "sweep": SWEEP in job.tags,
            "provisional": job.provisional,
            "method": method_of(job),
            "supply": job.method.supply,
            "time_zone": job.method.time_zone,
            "excludes": job.method.boundary_excluded,
            "life": job.method.lifetime_years,
            "pue": pue_of(job),
            "intensity": intensity_of(job),
            "zones": job.method.zones,
            "region": job.region,
            "scored": [row.unit for row in job.sci],
            "units": list(self._units.found),
            "labels": list(self._labels.found),
            "quality": list(self._keys.found),
            "notices": sorted({(n.code, n.message) for n in job.notices}),
            "sources": sorted({one for row in job.method.inputs for one in sources_of(row.figure)}),
        }


def _require_finite(numbers: Sequence[float]) -> None:
    for number in numbers:
        if not math.isfinite(number) or abs(number) > MOST:
            raise QuantityError(f"a figure of {number:g} is beyond what months can add")
