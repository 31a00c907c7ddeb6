"""The self-audit of a score: its own figures against each other, as the GSF form's checks do.

Calculations agree within 1 %; ranges are those that form takes for plausible. A check whose figure
is unknown fails: nothing is passed for want of a number.
"""

from __future__ import annotations

import math
from typing import TypedDict

from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.base.units import kwh_from_j

CALCULATION_LIMIT = 0.01
PUE_RANGE = (1.0, 3.0)
LIFETIME_YEARS_RANGE = (2.0, 7.0)
INTENSITY_RANGE = (0.0, 2000.0)
"""[gCO2e/kWh]"""


class AuditDoc(TypedDict):
    """One check: what was compared, both figures, the limit, and whether it held.

    Of what is `calculated`, `expected` is what it must give and the limit is relative; for a range
    `expected` is None and the limit names the range.
    """

    check: str
    calculated: bool
    expected: float | None
    found: float | None
    limit: str
    passed: bool


def self_audit(document: JobDoc) -> list[AuditDoc]:
    """Return every check of the form on one job document."""
    return [*_calculations(document), *_ranges(document), _dates(document)]


def _calculations(document: JobDoc) -> list[AuditDoc]:
    method = document["method"]
    pue, intensity = method["pue"]["value"], method["intensity_g_per_kwh"]["value"]
    energy, operational = _value(document["energy_kwh"]), _value(document["operational_g"])
    embodied, carbon = _value(document["embodied_g"]), _value(document["total_g"])
    rows = [
        _equal("O = E x I x PUE", energy * intensity * pue, operational),
        _equal("C = O + M", operational + embodied, carbon),
        _equal("sum of component energies = E", _component_energy_kwh(document), energy),
        _equal("sum of component M = M", _component_embodied_g(document), embodied),
    ]
    for row in document["sci"]:
        score = _value(row["g_per_unit"])
        rows.append(_equal(f"SCI = C / R per {row['unit']}", carbon / row["count"], score))
    return rows


def _ranges(document: JobDoc) -> list[AuditDoc]:
    method = document["method"]
    shares = [t["resources_reserved"] / t["resources_total"] for t in document["embodied_terms"]]
    lives = [term["lifetime_years"] for term in document["embodied_terms"]]
    units = [row["count"] for row in document["sci"]]
    intensity = method["intensity_g_per_kwh"]["value"]
    return [
        _within("PUE", method["pue"]["value"], *PUE_RANGE),
        _within("shortest EL in years", min(lives, default=math.nan), *LIFETIME_YEARS_RANGE),
        _within("longest EL in years", max(lives, default=math.nan), *LIFETIME_YEARS_RANGE),
        _within("I in gCO2e/kWh", intensity, *INTENSITY_RANGE, above=True),
        _within("smallest RR/ToR", min(shares, default=math.nan), 0.0, 1.0, above=True),
        _within("largest RR/ToR", max(shares, default=math.nan), 0.0, 1.0, above=True),
        _within("smallest R", min(units, default=math.nan), 0.0, math.inf, above=True),
    ]


def _dates(document: JobDoc) -> AuditDoc:
    started, ended = document["started_at"], document["ended_at"]
    passed = ended is not None and started <= ended
    return {
        "check": "the period has ended and ends after it starts",
        "calculated": False,
        "expected": None,
        "found": document["duration_s"],
        "limit": "start <= end",
        "passed": passed,
    }


def _component_energy_kwh(document: JobDoc) -> float:
    known = [d["energy_j"]["value"] for d in document["devices"] if d["energy_j"] is not None]
    return kwh_from_j(math.fsum(known)) if known else math.nan


def _component_embodied_g(document: JobDoc) -> float:
    terms = document["embodied_terms"]
    return math.fsum(term["embodied_g"]["value"] for term in terms) if terms else math.nan


def _equal(check: str, expected: float, found: float) -> AuditDoc:
    gap = abs(found - expected)
    passed = gap <= CALCULATION_LIMIT * abs(expected)  # false for an unknown figure
    return {
        "check": check,
        "calculated": True,
        "expected": _known(expected),
        "found": _known(found),
        "limit": f"{CALCULATION_LIMIT:.0%}",
        "passed": passed,
    }


def _within(check: str, found: float, low: float, high: float, *, above: bool = False) -> AuditDoc:
    passed = (low < found if above else low <= found) and found <= high
    upper = "" if math.isinf(high) else f", at most {high:g}"
    return {
        "check": check,
        "calculated": False,
        "expected": None,
        "found": _known(found),
        "limit": f"{'above' if above else 'at least'} {low:g}{upper}",
        "passed": passed,
    }


def _value(figure: QuantityDoc | None) -> float:
    return figure["value"] if figure else math.nan


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
