"""Two scores side by side: only when made the same way, and with the term that moved.

The standard wants a baseline compared by identical methodology, with only the action different
(SCI specification v1.1, "Comparing"). Effects are split by the logarithmic mean Divisia index
(additive LMDI-I, Ang 2004, Energy Policy 32): they sum to the change and do not depend on an order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

from gramwatt.sci.base.document import ConversionDoc, JobDoc, SciDoc
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.quantity import Quantity, QuantityDoc

TERMS = ("energy", "intensity", "pue", "embodied", "units")
"""What a score is made of: E, I, PUE, M and R."""
SAME = {
    "standard": "the standard",
    "engine_version": "the engine's version",
    "catalog_version": "the catalog's version (embodied carbon may differ)",
    "intensity_signal": "the intensity's signal",
    "intensity_basis": "the intensity's basis",
    "intensity_approach": "the intensity's approach",
}


class ComparedDoc(TypedDict):
    """One side: the job, its R, and C per R."""

    job_id: str
    revision: int
    count: float
    g_per_unit: QuantityDoc


class ComparisonDoc(TypedDict):
    """The change [gCO2e/unit] from `before` to `after`, the effect of each term on it, the verdict.

    `moved` names what changed the score most, per unit of work; None where nothing changed.
    """

    unit: str
    before: ComparedDoc
    after: ComparedDoc
    change_g_per_unit: float
    ratio: QuantityDoc
    verdict: str
    effects_g_per_unit: dict[str, float]
    moved: str | None


def compare(before: JobDoc, after: JobDoc, unit: str | None = None) -> ComparisonDoc:
    """`after` against `before` in one functional unit, the first of `before` unless given.

    Raises ScoreError (code `not-comparable`) that lists every difference of method, or when a side
    has no score in the unit.
    """
    chosen = unit or before["sci"][0]["unit"]
    rows = [_row(document, chosen) for document in (before, after)]
    differences = _differences(before, after)
    if differences:
        raise ScoreError(
            f"not comparable: {'; '.join(differences)} differ; score both in the same way",
            code="not-comparable",
        )
    first, second = (Quantity.from_doc(_known(row)) for row in rows)
    effects = _effects(_factors(before, rows[0]), _factors(after, rows[1]))
    return {
        "unit": chosen,
        "before": _side(before, rows[0]),
        "after": _side(after, rows[1]),
        "change_g_per_unit": second.value - first.value,
        "ratio": second.over(first, "1").to_doc(),
        "verdict": verdict(first, second),
        "effects_g_per_unit": {term: effects[term] for term in TERMS},
        "moved": _moved(effects),
    }


def verdict(before: Quantity, after: Quantity) -> str:
    """`lower` or `higher` only where the ranges do not meet, else `no-reliable-difference`."""
    if after.high < before.low:
        return "lower"
    return "higher" if after.low > before.high else "no-reliable-difference"


def _differences(before: JobDoc, after: JobDoc) -> list[str]:
    one, other = before["method"], after["method"]
    fields: Mapping[str, object] = one
    theirs: Mapping[str, object] = other
    found = [text for name, text in SAME.items() if fields[name] != theirs[name]]
    for name in ("boundary_included", "boundary_excluded"):
        if set(one[name]) != set(other[name]):
            found.append("the boundary")
    if one["lifetime_years"]["value"] != other["lifetime_years"]["value"]:
        found.append("the expected lifetime")
    if {_factor(row) for row in one["conversions"]} != {_factor(r) for r in other["conversions"]}:
        found.append("the factors that convert units")
    if _synthetic(before) != _synthetic(after):
        found.append("the meters (one is synthetic)")
    if one["pue"]["kind"] != other["pue"]["kind"]:
        found.append("the way PUE is known")
    return list(dict.fromkeys(found))


def _synthetic(document: JobDoc) -> bool:
    return any(notice["code"] == "meter-synthetic" for notice in document["notices"])


def _factor(row: ConversionDoc) -> tuple[str, str, float]:
    return row["unit"], row["to"], row["factor"]


def _row(document: JobDoc, unit: str) -> SciDoc:
    row = next((row for row in document["sci"] if row["unit"] == unit), None)
    if row is None:
        counted = ", ".join(row["unit"] for row in document["sci"])
        raise ScoreError(
            f"job {document['job_id']!r} has no {unit!r}; it has {counted}", code="not-comparable"
        )
    if row["g_per_unit"] is None:
        raise ScoreError(f"job {document['job_id']!r} has no score", code="not-comparable")
    return row


def _known(row: SciDoc) -> QuantityDoc:
    figure = row["g_per_unit"]
    assert figure is not None  # _row refuses it
    return figure


def _side(document: JobDoc, row: SciDoc) -> ComparedDoc:
    return {
        "job_id": document["job_id"],
        "revision": document["revision"],
        "count": row["count"],
        "g_per_unit": _known(row),
    }


class _Factors(TypedDict):
    energy: float
    intensity: float
    pue: float
    embodied: float
    units: float


def _factors(document: JobDoc, row: SciDoc) -> _Factors:
    energy, embodied = document["energy_kwh"], document["embodied_g"]
    assert energy is not None  # a score has both terms
    assert embodied is not None
    return {
        "energy": energy["value"],
        "intensity": document["method"]["intensity_g_per_kwh"]["value"],
        "pue": document["method"]["pue"]["value"],
        "embodied": embodied["value"],
        "units": row["count"],
    }


def _effects(before: _Factors, after: _Factors) -> dict[str, float]:
    """Effect of each term [g/unit], and of R on each half, which sum to the change."""
    one, other = (f["energy"] * f["intensity"] * f["pue"] / f["units"] for f in (before, after))
    weight = _log_mean(one, other)
    effects = {
        "energy": weight * _log_ratio(before["energy"], after["energy"]),
        "intensity": weight * _log_ratio(before["intensity"], after["intensity"]),
        "pue": weight * _log_ratio(before["pue"], after["pue"]),
        "units_operational": -weight * _log_ratio(before["units"], after["units"]),
    }
    made, makes = (f["embodied"] / f["units"] for f in (before, after))
    weight = _log_mean(made, makes)
    effects["embodied"] = weight * _log_ratio(before["embodied"], after["embodied"])
    effects["units_embodied"] = -weight * _log_ratio(before["units"], after["units"])
    _where_zero(effects, "energy", other - one, before["energy"] * after["energy"])
    _where_zero(effects, "intensity", other - one, before["intensity"] * after["intensity"])
    _where_zero(effects, "embodied", makes - made, before["embodied"] * after["embodied"])
    effects["units"] = effects["units_operational"] + effects["units_embodied"]
    return effects


def _where_zero(effects: dict[str, float], term: str, change: float, product: float) -> None:
    """A term that was or became zero explains its half's whole change: it has no logarithm."""
    whole = {"embodied": ("embodied", "units_embodied")}.get(
        term, ("energy", "intensity", "pue", "units_operational")
    )
    if product == 0 and not any(effects[name] for name in whole):
        effects[term] = change


def _log_mean(one: float, other: float) -> float:
    if one <= 0 or other <= 0:
        return 0.0
    return one if one == other else (other - one) / math.log(other / one)


def _log_ratio(one: float, other: float) -> float:
    return math.log(other / one) if one > 0 and other > 0 else 0.0


def _moved(effects: Mapping[str, float]) -> str | None:
    """More work takes more energy, so R is netted with energy and hardware."""
    per_unit = {
        "energy per unit": effects["energy"] + effects["units_operational"],
        "intensity": effects["intensity"],
        "PUE": effects["pue"],
        "embodied carbon per unit": effects["embodied"] + effects["units_embodied"],
    }
    name = max(per_unit, key=lambda term: abs(per_unit[term]))
    whole = max(map(abs, effects.values()))
    return name if abs(per_unit[name]) > 1e-12 * whole else None
