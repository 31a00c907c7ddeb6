"""The change of a month's carbon against the month before, as effects that add up to it.

Carbon of each kind of work (a project and its unit) is R x E/R x O/E + R x M/R. The effects of R
(volume), E/R (efficiency), O/E (grid and PUE) and M/R (hardware) on its change are those of the
logarithmic mean Divisia index (additive LMDI-I, Ang 2004, Energy Policy 32): they leave no rest.
Where the two months are scored by different methods, the effects per unit cannot be separated from
that of the method, and stand under it. Where a zone that both months have got another resolution or
publisher of its intensity, the effect of the grid cannot, and stands there too. Work of one month
alone is volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramwatt.sci.analysis.documents import ChangeDoc
from gramwatt.sci.base.quantity import Quantity, QuantityDoc, weakest
from gramwatt.service.months.sums.arrays import Parts
from gramwatt.service.months.sums.figures import Floats, Ints, by, spans
from gramwatt.service.months.sums.totals import Sums, by_job

EFFECTS = ("volume_g", "efficiency_g", "grid_g", "hardware_g", "method_g")
SOURCE = "split of the change by the logarithmic mean Divisia index (LMDI-I)"
SAME_METHOD = "both months are scored by one method, and with the same sources of intensity"
Work = tuple[str, str]
"""A project and the first unit that its jobs are scored in."""


@dataclass(frozen=True)
class MonthByWork:
    """A month by work: R, E, O and M in columns, its sums, and the methods of its scores.

    `intensities` are zone, resolution and series of what the scores of each work are made with.
    """

    works: Sequence[Work]
    amounts: Floats
    terms: Sequence[Sums]
    methods: Sequence[set[tuple[str, ...]]]
    intensities: Sequence[set[tuple[str, ...]]]


def by_work(parts: Parts) -> MonthByWork:
    """Return what the change of a month needs of its parts."""
    works = sorted({_work(of_job) for of_job in parts.attributes})
    number = {work: n for n, work in enumerate(works)}
    of_attributes = np.array([number[_work(of_job)] for of_job in parts.attributes], np.int64)
    jobs = np.arange(len(parts.keys))
    cell = of_attributes[parts.attributes_of] if len(jobs) else jobs
    totals = by_job(parts, jobs, cell, len(works), with_inputs=True)
    amounts = [
        _counted(parts, of_attributes, works),
        *(np.nan_to_num(t.figures.value) for t in totals.terms),
    ]
    methods: list[set[tuple[str, ...]]] = [set() for _ in works]
    intensities: list[set[tuple[str, ...]]] = [set() for _ in works]
    for n, of_job in zip(of_attributes, parts.attributes, strict=True):
        methods[n].add(tuple(of_job["method"]))
        intensities[n] |= {tuple(row[:3]) for row in of_job["intensity"]}
    return MonthByWork(works, np.column_stack(amounts), totals.terms, methods, intensities)


def other_sources(one: Iterable[Sequence[str]], other: Iterable[Sequence[str]]) -> bool:
    """Return whether a zone that both have has other resolutions or sources of intensity."""
    found: list[dict[str, set[tuple[str, ...]]]] = []
    for rows in (one, other):
        by_zone: dict[str, set[tuple[str, ...]]] = {}
        for zone, *rest in rows:
            by_zone.setdefault(zone, set()).add(tuple(rest))
        found.append(by_zone)
    return any(found[0][zone] != found[1][zone] for zone in found[0].keys() & found[1].keys())


def change_effects(now: MonthByWork, before: MonthByWork) -> ChangeDoc:
    """Return the change and its effects; those of an empty month are all volume."""
    works = sorted({*now.works, *before.works})
    months = before, now
    amounts, methods, used = zip(*(_among(month, works) for month in months), strict=True)
    pairs = list(zip(*methods, strict=True))
    other_grid = np.array([other_sources(*pair) for pair in zip(*used, strict=True)], dtype=bool)
    both = np.array([bool(one and other) for one, other in pairs], dtype=bool)
    other_method = np.array([bool(one ^ other) for one, other in pairs], dtype=bool)
    figures = np.concatenate(amounts, axis=1)
    changed = both & other_method
    flags = both, changed, other_grid
    values = _effects(figures, *flags).sum(axis=0)
    down, up = _spread(months, works, figures, flags)
    kind = weakest(
        label[0] for month in months for term in month.terms for label in term.labels if label
    )

    def doc(number: int, source: str = SOURCE) -> QuantityDoc:
        value = float(values[number])
        low, high = value - float(down[number]), value + float(up[number])
        return Quantity(value, low, high, "gCO2e", kind, source).to_doc()

    effects = {name: doc(n) for n, name in enumerate(EFFECTS)}
    if not (changed | (both & other_grid)).any():
        effects["method_g"] = Quantity.exact(0.0, "gCO2e", "derived", SAME_METHOD).to_doc()
    return ChangeDoc(change_g=doc(len(EFFECTS)), **effects)


def _work(of_job: dict[str, Any]) -> Work:
    return of_job["project"], (of_job["scored"] or ["job"])[0]


def _among(
    month: MonthByWork, works: Sequence[Work]
) -> tuple[Floats, list[set[Any]], list[set[Any]]]:
    """Amounts, methods and intensities of a month by these works, among which are its own."""
    at = {work: n for n, work in enumerate(month.works)}
    amounts = np.vstack((month.amounts, np.zeros(4)))[[at.get(work, -1) for work in works]]
    methods = [month.methods[at[work]] if work in at else set() for work in works]
    used = [month.intensities[at[work]] if work in at else set() for work in works]
    return amounts, methods, used


def _counted(parts: Parts, of_attributes: Ints, works: Sequence[Work]) -> Floats:
    """R of each work, in its own unit."""
    counts = parts.counts
    units = {unit: n for n, unit in enumerate(parts.units)}
    wanted = np.array([units.get(work[1], -1) for work in works], np.int64)
    if not len(counts.job):
        return np.zeros(len(works))
    cell = of_attributes[parts.attributes_of[counts.job]]
    own = counts.what == wanted[cell]
    return by(cell[own], counts.amount[own], len(works))


def _effects(
    figures: Floats, both: NDArray[Any], changed: NDArray[Any], other_grid: NDArray[Any]
) -> Floats:
    """Effects and the whole change [gCO2e] of each row of R, E, O, M before and now."""
    r0, e0, o0, m0, r1, e1, o1, m1 = figures.T
    uncounted = (r0 <= 0) | (r1 <= 0)  # energy then says how much was done
    r0, r1 = np.where(uncounted, e0, r0), np.where(uncounted, e1, r1)
    operational, embodied = o1 - o0, m1 - m0
    weight_o, weight_m = _mean(o0, o1), _mean(m0, m1)
    energy, units = _ratio(e0, e1), _ratio(r0, r1)
    efficiency = weight_o * (energy - units)
    grid = weight_o * (_ratio(o0, o1) - energy)
    hardware = weight_m * (_ratio(m0, m1) - units)
    # Without a logarithm on one side, what became or was zero explains the change.
    grid = np.where((weight_o == 0) & (e0 > 0) & (e1 > 0), operational, grid)
    hardware = np.where((weight_m == 0) & (r0 > 0) & (r1 > 0), embodied, hardware)
    per_unit = np.where(both, [efficiency, grid, hardware], 0.0)
    of_method = np.array([changed, changed | other_grid, changed])
    method = np.where(of_method, per_unit, 0.0).sum(axis=0)
    per_unit = np.where(of_method, 0.0, per_unit)
    whole = operational + embodied
    volume = whole - per_unit.sum(axis=0) - method
    return np.column_stack((volume, *per_unit, method, whole))


def _mean(one: Floats, other: Floats) -> Floats:
    """Return the logarithmic mean of two figures; 0 where one of them is not above zero."""
    known = (one > 0) & (other > 0)
    first, second = np.where(known, one, 1.0), np.where(known, other, 1.0)
    ratio = np.log(second) - np.log(first)  # second / first may be more than a number can hold
    near = np.abs(ratio) < 1e-5
    mean = np.where(near, (first + second) / 2, (second - first) / np.where(near, 1.0, ratio))
    return np.where(known, mean, 0.0)


def _ratio(one: Floats, other: Floats) -> Floats:
    """Return the logarithm of `other` over `one`; 0 where one of them is not above zero."""
    known = (one > 0) & (other > 0)
    return np.log(np.where(known, other, 1.0)) - np.log(np.where(known, one, 1.0))


def _spread(
    months: Sequence[MonthByWork],
    works: Sequence[Work],
    figures: Floats,
    flags: tuple[NDArray[Any], ...],
) -> tuple[Floats, Floats]:
    """Return how far each effect may lie below and above, by what one input after the other
    changes.

    An input that moves several figures moves them together; inputs are independent of each other
    (JCGM 100, 5.1). Hours of one grid are taken as equal, as in the change of the totals.
    """
    cell, name, column, low, high = _inputs(months, works)
    if not len(cell):
        return np.zeros(len(EFFECTS) + 1), np.zeros(len(EFFECTS) + 1)
    names, name = np.unique(name, return_inverse=True)
    rows, row = np.unique(cell * len(names) + name, return_inverse=True)
    cells = rows // len(names)
    both, changed, other_grid = flags
    base = _effects(figures, *flags)[cells]
    moved = []
    for change in (low, high):
        factors = np.zeros((len(rows), figures.shape[1]))
        np.add.at(factors, (row, column), change)
        after = _effects(
            figures[cells] * np.exp(factors), both[cells], changed[cells], other_grid[cells]
        )
        of_name = np.zeros((len(names), base.shape[1]))
        np.add.at(of_name, rows % len(names), after - base)
        moved.append(of_name)
    down = np.minimum(np.minimum(*moved), 0.0)
    up = np.maximum(np.maximum(*moved), 0.0)
    return np.sqrt((down**2).sum(axis=0)), np.sqrt((up**2).sum(axis=0))


def _inputs(
    months: Sequence[MonthByWork], works: Sequence[Work]
) -> tuple[Ints, Ints, Ints, Floats, Floats]:
    """Cell, name, column of `_effects`, and both ends of every input of every figure."""
    rows: list[tuple[Any, ...]] = []
    number = {work: n for n, work in enumerate(works)}
    now, before = (month.terms[0].ids.annual for month in months)
    shared = np.intersect1d(now, before)
    for first, month in enumerate(months):
        ids = month.terms[0].ids
        cells = np.array([number[work] for work in month.works], np.int64)
        hours = (ids.ids != ids.annual) & np.isin(ids.annual, shared)
        for place, sums in enumerate(month.terms):
            known = sums.inputs
            at = spans(known.firsts, known.sizes)
            kept = ~hours[known.ids[at]]
            cell, at = np.repeat(cells, known.sizes)[kept], at[kept]
            column = np.full(len(at), 4 * first + 1 + place)
            rows.append((cell, ids.ids[known.ids[at]], column, known.low[at], known.high[at]))
    return tuple(map(np.concatenate, zip(*rows, strict=True)))  # type: ignore[return-value]
