"""What a verified pack still asks to be believed: its inputs, in an auditor's words.

A pack shows that figures follow from inputs. Whether the inputs are true it cannot show.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.base.formatting import jobs_text
from gramwatt.sci.base.units import J_PER_KWH
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.score.location import DATA_CENTRE_PUE

FAR = 2.0
"""Intensity is far from the catalog's where it is more than this times it, or less than that part
(a choice)."""
NAMED_MOST = 5
"""Values of each input that are named."""


@dataclass
class _Claim:
    """Jobs and energy [kWh] that a value was declared for."""

    jobs: int = 0
    kwh: float = 0.0
    grams: float = 0.0
    sources: dict[str, None] = field(default_factory=dict)

    def add(self, kwh: float, *sources: str) -> None:
        self.jobs, self.kwh = self.jobs + 1, self.kwh + kwh
        self.sources |= dict.fromkeys(sources)

    def size(self) -> str:
        """Return of how much it is said."""
        return f"{jobs_text(self.jobs)} ({self.kwh:.3g} kWh)"


def beliefs(documents: Iterable[JobDoc], overlay: bytes | None) -> Iterator[str]:
    """Yield a sentence for each kind of input that the scores of a pack stand on."""
    claims = _Claims(load_catalog())
    for job in documents:
        claims.add(job)
    yield from claims.sentences()
    if overlay is not None:
        yield f"The issuer's own entries replace or add to the catalog: {_entries(overlay)}."


class _Claims:
    """What jobs are scored by that neither the catalog nor a computation shows."""

    def __init__(self, packaged: Catalog) -> None:
        self._packaged = packaged
        self._journals, self._lives = _Claim(), _Claim()
        self._pues = defaultdict[float, _Claim](_Claim)
        self._grids, self._corrected = (defaultdict[str, _Claim](_Claim) for _ in range(2))

    def add(self, job: JobDoc) -> None:
        """Add the claims of a job."""
        energy, method = job["energy_kwh"], job["method"]
        kwh = energy["value"] if energy else 0.0
        self._journals.add(kwh)
        if method["pue"]["kind"] == "declared":
            self._pues[method["pue"]["value"]].add(kwh)
        if method["lifetime_years"]["kind"] == "declared":
            self._lives.add(kwh)
        for row in job["corrections"]:
            self._corrected[row["field"]].add(kwh)
        self._add_grids(job)

    def _add_grids(self, job: JobDoc) -> None:
        """Add what intensity of each zone is not the catalog's."""
        found: dict[str, _Claim] = defaultdict(_Claim)
        for used in job["intensity"]:
            annual = _annual(self._packaged, used["zone"])
            if annual is None or used["source"] != annual[1]:
                claim, kwh = found[used["zone"]], used["energy_j"] / J_PER_KWH
                claim.kwh, claim.grams = claim.kwh + kwh, claim.grams + kwh * used["g_per_kwh"]
                claim.sources[used["source"]] = None
        for zone, claim in found.items():
            self._grids[zone].add(claim.kwh, *claim.sources)
            self._grids[zone].grams += claim.grams

    def sentences(self) -> Iterator[str]:
        """Yield what was added, a sentence for each kind."""
        yield (
            f"The journals of {self._journals.size()} are taken as the meters wrote them, and as "
            "all that ran: a job that was never measured leaves no trace here."
        )
        pues = ((_pue(value), claim) for value, claim in sorted(self._pues.items()))
        yield from _each("PUE that was declared", pues)
        grids = (_grid(self._packaged, *row) for row in sorted(self._grids.items()))
        yield from _each("Grid intensity that was imported or asked of a provider", grids)
        for name, claim in self._corrected.items():
            yield f"After the jobs had run, {name} was declared anew for {claim.size()}."
        if self._lives.jobs:
            yield f"How long hardware lasts was declared for {self._lives.size()}."


def _each(what: str, rows: Iterable[tuple[str, _Claim]]) -> Iterator[str]:
    found = [f"{value} for {claim.size()}" for value, claim in rows]
    if found:
        left = len(found) - NAMED_MOST
        more = f"; and {left} more" if left > 0 else ""
        yield f"{what}: {'; '.join(found[:NAMED_MOST])}{more}."


def _pue(value: float) -> str:
    if DATA_CENTRE_PUE.low <= value <= DATA_CENTRE_PUE.high:
        return f"{value:g}"
    usual = f"{DATA_CENTRE_PUE.low:g} to {DATA_CENTRE_PUE.high:g}"
    return f"{value:g}, which is far from the usual {usual} of data centres,"


def _grid(packaged: Catalog, zone: str, claim: _Claim) -> tuple[str, _Claim]:
    mean, annual = claim.grams / claim.kwh if claim.kwh else 0.0, _annual(packaged, zone)
    said = f"{mean:.4g} g/kWh in the mean in {zone} ({_some(claim.sources)})"
    if annual is None:
        return f"{said}, a zone that the catalog has no value of,", claim
    far = not annual[0] / FAR <= mean <= annual[0] * FAR
    beside = "which is far from" if far else "beside"
    return f"{said}, {beside} the catalog's annual {annual[0]:.4g} g/kWh,", claim


def _annual(packaged: Catalog, zone: str) -> tuple[float, str] | None:
    """Return the packaged annual intensity of a zone and its source; None for an unknown zone."""
    try:
        figure = packaged.zone(zone).intensity if zone else packaged.world().intensity
    except LookupFailed:
        return None
    return figure.value, figure.source


def _entries(overlay: bytes) -> str:
    entries: Mapping[str, Mapping[str, Any]] = tomllib.loads(overlay.decode())
    return "; ".join(f"{section}: {_some(rows)}" for section, rows in entries.items())


def _some(names: Iterable[str]) -> str:
    found = list(names)
    left = len(found) - NAMED_MOST
    return ", ".join(found[:NAMED_MOST]) + (f" and {left} more" if left > 0 else "")
