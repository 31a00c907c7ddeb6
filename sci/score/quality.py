"""Data quality of a score: shares by kind of data, the grade, the conformance status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gramwatt.sci.base.document import QualityDoc
from gramwatt.sci.base.quantity import METERED

PUBLISHED_TIERS = ("A", "B")
FINE_QUALITIES = ("measured", "hourly")
"""Qualities of intensity that came, hourly or finer; others were expected, or are of a year."""
ZONE_QUALITIES = ("measured", "hourly", "estimated", "forecast", "profile", "annual")
STATUSES = ("conforming", "conforming-with-deviations", "not-sci")
"""Best first."""


def shares(amounts: Mapping[str, float]) -> dict[str, float]:
    """Each amount as a share of the whole (0 to 1); empty when the whole is zero."""
    whole = sum(amounts.values())
    return {key: amount / whole for key, amount in amounts.items()} if whole > 0 else {}


def quality(
    energy: Mapping[str, float],
    intensity: Mapping[str, float],
    embodied: Mapping[str, float],
    *,
    complete: bool = True,
) -> QualityDoc:
    """The data-quality block out of energy [J] by kind and by intensity quality, and M [g] by tier.

    `complete` is false when a term of the score is unknown, which makes the grade D.
    """
    by_kind, by_quality, by_tier = shares(energy), shares(intensity), shares(embodied)
    return {
        "grade": grade(by_kind, by_quality, by_tier) if complete else "D",
        "energy": by_kind,
        "intensity": by_quality,
        "embodied": by_tier,
    }


def grade(
    energy: Mapping[str, float], intensity: Mapping[str, float], embodied: Mapping[str, float]
) -> str:
    """The grade, A to D, out of shares (docs/methodology.md).

    A: 90 % of energy measured, 90 % of it with hourly or finer intensity, embodied carbon from
    published studies. B: 70 % measured and at least annual intensity of the zone. C: every term
    known, at least half of the energy read from a meter. D: mostly modelled, or a term unknown.
    """
    if not (energy and intensity and embodied):
        return "D"
    measured = energy.get("measured", 0.0)
    of_zone = _sum(intensity, ZONE_QUALITIES)
    published = _sum(embodied, PUBLISHED_TIERS)
    if measured >= 0.9 and _sum(intensity, FINE_QUALITIES) >= 0.9 and published >= 0.9:
        return "A"
    if measured >= 0.7 and of_zone >= 1 - 1e-9:
        return "B"
    return "C" if _sum(energy, METERED) >= 0.5 else "D"


@dataclass(frozen=True, slots=True)
class Conformance:
    """Whether a score may be called an SCI, and its faults and deviations."""

    status: str
    deviations: tuple[str, ...]


def conformance(faults: Sequence[str], deviations: Sequence[str]) -> Conformance:
    """`not-sci` with any fault (a "shall" not met), else by the deviations ("should" not met)."""
    if faults:
        return Conformance("not-sci", (*faults, *deviations))
    if deviations:
        return Conformance("conforming-with-deviations", tuple(deviations))
    return Conformance("conforming", ())


def worst_status(statuses: Iterable[str]) -> str:
    """The least conforming status of several; raises ValueError for none."""
    return max(statuses, key=STATUSES.index)


def _sum(amounts: Mapping[str, float], keys: Sequence[str]) -> float:
    return sum(amounts.get(key, 0.0) for key in keys)
