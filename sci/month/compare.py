"""Two scores side by side: only when made the same way, and with the term that moved.

The standard compares a baseline by the same methodology, with only the action different (ISO/IEC
21031, SCI specification v1.1, "Comparing"). Effects are split by the logarithmic mean Divisia index
(additive LMDI-I, Ang 2004, Energy Policy 32): they sum to the change and do not depend on an order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

from gramwatt.sci.figures.document import ConversionDoc, JobDoc, SciDoc
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.quantity import Quantity, is_change, per_unit, total
from gramwatt.sci.grid.zones import at_equal_grid

_Term = Literal["energy", "intensity", "pue", "embodied"]
_Factors = Mapping[_Term, float]
TERMS: tuple[_Term, ...] = get_args(_Term)
"""What a score is made of: E per unit of work, I, PUE, and M per unit of work."""
NAMES: dict[_Term, str] = {
    "energy": "energy per unit",
    "intensity": "intensity",
    "pue": "PUE",
    "embodied": "embodied carbon per unit",
}
"""What moved a score, in words."""
OPERATIONAL: tuple[_Term, ...] = ("energy", "intensity", "pue")
SAME = {
    "standard": "the standard",
    "engine_version": "the engine's version",
    "catalog_version": "the catalog's version (embodied carbon may differ)",
    "intensity_signal": "the intensity's signal",
    "intensity_basis": "the intensity's basis",
    "intensity_approach": "the intensity's approach",
}


Compared = Literal["carbon", "equal-intensity"]
AT_EQUAL = " at annual grid intensity"
JOB = "job"
"""The unit of a job that counted none."""
CARBON_UNKNOWN = "whether carbon differs is not known without hourly intensity"


class ComparedDoc(Struct):
    """One side: the job, its R, and C per R."""

    job_id: str
    revision: int
    count: float
    g_per_unit: Quantity


class ScoreChangeDoc(Struct):
    """A change of C/R [gCO2e/unit], the effect of each term on it, the ratio and the verdict.

    `moved` names what changed the score most, per unit of work; None where nothing changed.
    `compares` is `carbon`, or `equal-intensity` where annual values stand for different hours: the
    ratio is then what it would be at one intensity, and `ratio_by_hour` what is known of carbon,
    whose range holds 1.
    """

    unit: str
    compares: Compared
    ratio_by_hour: Quantity | None
    change_g_per_unit: float
    ratio: Quantity
    verdict: str
    effects_g_per_unit: dict[str, float]
    moved: str | None


class ComparisonDoc(ScoreChangeDoc):
    """The change from one job to another."""

    before: ComparedDoc
    after: ComparedDoc


def compare(before: JobDoc, after: JobDoc, unit: str | None = None) -> ComparisonDoc:
    """Compare `after` with `before` in one functional unit, the first of `before` unless given.

    Raises ScoreError (code `not-comparable`) that lists every difference of method, or when a side
    has no score in the unit.
    """
    chosen = unit or before.sci[0].unit
    sides = [side_of(document, chosen) for document in (before, after)]
    require_comparable(before, after)
    first, second = (side.g_per_unit for side in sides)
    ratio, by_hour = ratios(first, second)
    compares, ratio, ratio_by_hour = compared_as(ratio, by_hour)
    effects = effects_of(*sides)
    return ComparisonDoc(
        unit=chosen,
        compares=compares,
        ratio_by_hour=ratio_by_hour,
        before=sides[0].to_doc(),
        after=sides[1].to_doc(),
        change_g_per_unit=second.value - first.value,
        ratio=ratio.bare(),
        verdict=verdict(ratio),
        effects_g_per_unit=effects,
        moved=moved_most(effects),
    )


def require_comparable(before: JobDoc, after: JobDoc) -> None:
    """Raise ScoreError that lists every difference of method."""
    differences = _differences(before, after)
    if differences:
        verb = "differs" if len(differences) == 1 else "differ"
        raise ScoreError(
            f"not comparable: {'; '.join(differences)} {verb}; score both in the same way",
            code="not-comparable",
        )


def ratios(before: Quantity, after: Quantity) -> tuple[Quantity, Quantity]:
    """Return after over before at equal intensity of the hours of a grid, and by the hours."""
    first, second = at_equal_grid(before, after)
    return second.over(first, "1"), after.over(before, "1")


def compared_as(ratio: Quantity, by_hour: Quantity) -> tuple[Compared, Quantity, Quantity | None]:
    """Return what is compared, its ratio, and the ratio by hour where it says less.

    It is carbon, whose range is that by hour, where this says the same or is the ratio's own.
    """
    ends = zip((ratio.low, ratio.high), (by_hour.low, by_hour.high), strict=True)
    alike = all(math.isclose(*pair, rel_tol=1e-4) for pair in ends)
    if alike or verdict(ratio) == verdict(by_hour) != "no-reliable-difference":
        return "carbon", ratio if alike else by_hour, None
    return "equal-intensity", ratio, by_hour.bare()


def verdict(ratio: Quantity) -> str:
    """Return `lower` or `higher` only where the range of after over before leaves out 1.

    What both sides share, such as a meter, a part's embodied carbon or a grid's annual value, has
    cancelled in the ratio.
    """
    if not is_change(ratio.low, ratio.high):
        return "no-reliable-difference"
    return "lower" if ratio.high < 1 else "higher"


def _differences(before: JobDoc, after: JobDoc) -> list[str]:
    one, other = before.method, after.method
    texts = [text for name, text in SAME.items() if getattr(one, name) != getattr(other, name)]
    for name in ("boundary_included", "boundary_excluded"):
        if alone := set(getattr(one, name)) ^ set(getattr(other, name)):
            word = name.removeprefix("boundary_")
            texts.append(f"the boundary ({', '.join(sorted(alone))}: {word} in one alone)")
    if one.lifetime_years.value != other.lifetime_years.value:
        texts.append("the expected lifetime")
    if {_factor(row) for row in one.conversions} != {_factor(r) for r in other.conversions}:
        texts.append("the factors that convert units")
    if is_synthetic(before) != is_synthetic(after):
        texts.append("the meters (one is synthetic)")
    if one.pue.kind != other.pue.kind:
        texts.append("the way PUE is known")
    return list(dict.fromkeys(texts))


def is_synthetic(document: JobDoc) -> bool:
    """Return whether readings of a job come from a synthetic meter."""
    return any(notice.code == "meter-synthetic" for notice in document.notices)


def _factor(row: ConversionDoc) -> tuple[str, str, float]:
    return row.unit, row.to, row.factor


class Side(Struct, frozen=True):
    """One job, or several runs together, with R, C per R and its terms per unit of work."""

    job_id: str
    revision: int
    count: float
    g_per_unit: Quantity
    factors: _Factors

    def to_doc(self) -> ComparedDoc:
        """Return the side as JSON."""
        return ComparedDoc(
            job_id=self.job_id,
            revision=self.revision,
            count=self.count,
            g_per_unit=self.g_per_unit.bare(),
        )


def side_of(document: JobDoc, unit: str) -> Side:
    """Return the document in this unit; raises ScoreError when it has no score in it."""
    row = next((row for row in document.sci if row.unit == unit), None)
    if row is None and unit == JOB:
        row = SciDoc(unit=JOB, count=1.0, g_per_unit=document.total_g)
    if row is None:
        counted = ", ".join(row.unit for row in document.sci)
        raise ScoreError(
            f"job {document.job_id!r} has no {unit!r}; it has {counted}: --unit job compares whole "
            "jobs",
            code="not-comparable",
        )
    if row.g_per_unit is None:
        raise ScoreError(f"job {document.job_id!r} has no score", code="not-comparable")
    energy, embodied = document.energy_kwh, document.embodied_g
    assert energy is not None  # a score has both terms
    assert embodied is not None
    factors: _Factors = {
        "energy": energy.value / row.count,
        "intensity": document.method.intensity_g_per_kwh.value,
        "pue": document.method.pue.value,
        "embodied": embodied.value / row.count,
    }
    score = _score(document, row.count, unit)
    return Side(document.job_id, document.revision, row.count, score, factors)


def together(runs: Sequence[Side]) -> Side:
    """Return several runs as one: sum(C) / sum(R), and the same of its terms."""
    if len(runs) == 1:
        return runs[0]
    count = sum(run.count for run in runs)
    whole = total(run.g_per_unit.scaled(run.count, "gCO2e") for run in runs)
    assert whole is not None  # there are runs

    def mean(*terms: _Term) -> float:
        return sum(math.prod(run.factors[t] for t in terms) * run.count for run in runs) / count

    energy, joined = mean("energy"), mean("energy", "intensity")
    factors: _Factors = {
        "energy": energy,
        "intensity": joined / energy if energy else 0.0,
        "pue": mean(*OPERATIONAL) / joined if joined else 1.0,
        "embodied": mean("embodied"),
    }
    unit = runs[0].g_per_unit.unit.removeprefix("gCO2e/")
    return Side(runs[0].job_id, runs[0].revision, count, per_unit(whole, count, unit), factors)


def _score(document: JobDoc, count: float, unit: str) -> Quantity:
    """Return C per R, with its uncertainty by inputs."""
    operational, embodied = document.operational_g, document.embodied_g
    assert operational is not None  # a score has both terms
    assert embodied is not None
    return per_unit(operational + embodied, count, unit)


def effects_of(before: Side, after: Side) -> dict[str, float]:
    """Return the effect of each term [g/unit]; they sum to the change."""
    operational = _half(before.factors, after.factors, OPERATIONAL)
    return {**operational, **_half(before.factors, after.factors, ("embodied",))}


def _half(before: _Factors, after: _Factors, terms: tuple[_Term, ...]) -> dict[str, float]:
    """Return effects [g/unit] of the terms on their product.

    A term that was or became zero has no logarithm: it explains the whole change.
    """
    one, other = (math.prod(side[t] for t in terms) for side in (before, after))
    effects: dict[str, float] = dict.fromkeys(terms, 0.0)
    zero = next((term for term in terms if min(before[term], after[term]) <= 0), None)
    if zero is not None:
        effects[zero] = other - one
        return effects
    close = math.isclose(one, other, rel_tol=1e-7)  # their difference would be only rounding
    weight = (one + other) / 2 if close else (other - one) / math.log(other / one)
    for term in terms:
        effects[term] = weight * math.log(after[term] / before[term])
    return effects


def moved_most(effects: Mapping[str, float]) -> str | None:
    """Return the term with the largest effect, in words; None where none has one."""
    term = max(NAMES, key=lambda name: abs(effects[name]))
    return NAMES[term] if abs(effects[term]) > 0 else None
