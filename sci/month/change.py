"""The change of a month's carbon against the month before, as effects that add up to it.

Carbon of each kind of work (a project and its unit) is R x E/R x O/E + R x M/R. The effects of R
(volume), E/R (efficiency), O/E (grid and PUE) and M/R (hardware) on its change are those of the
logarithmic mean Divisia index (additive LMDI-I, Ang 2004, Energy Policy 32): they leave no rest.
Where the two months are scored by different methods, the effects per unit cannot be separated from
the method's, and stand under it. Where a zone that both months have got another resolution or
publisher of its intensity, the effect of the grid cannot, and stands there too. Work of one month
alone is volume.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gramwatt.sci.figures.quantity import Effect, Kind, Quantity, weakest
from gramwatt.sci.grid.zones import annual_of
from gramwatt.sci.month.documents import ChangeDoc, WorkSums

EFFECTS = ("volume_g", "efficiency_g", "grid_g", "hardware_g", "method_g")
SOURCE = "split of the change by the logarithmic mean Divisia index (LMDI-I)"
SAME_METHOD = "both months are scored by one method, and with the same sources of intensity"
Work = tuple[str, str]
"""A project and the first unit that its jobs are scored in."""
Amounts = tuple[float, float, float, float]
"""R, E [kWh], O and M [gCO2e]."""
NOTHING: Amounts = (0.0, 0.0, 0.0, 0.0)


class WorkMonth(Struct, frozen=True):
    """A kind of work in a month, or in its first days: amounts, effects of inputs and methods."""

    amounts: Amounts
    inputs: Sequence[Mapping[str, Effect]]
    kinds: Sequence[Kind]
    methods: frozenset[tuple[str, ...]]
    intensities: frozenset[tuple[str, ...]]


NO_WORK = WorkMonth(NOTHING, ({}, {}, {}), (), frozenset(), frozenset())


def by_work(sums: Iterable[WorkSums], until: str | None = None) -> dict[Work, WorkMonth]:
    """Return the works of a month; `until` its day of this name, of the works that began by then.

    Some days of a work are as uncertain as all of them.
    """
    works: dict[Work, WorkMonth] = {}
    for row in sums:
        figures = (row.energy_kwh, row.operational_g, row.embodied_g)
        values = [figure.value if figure else 0.0 for figure in figures]
        amounts = (row.amount, *values)
        if until is not None:
            days = [day for day in row.days if day.day <= until]
            if not days:
                continue
            columns = ("amount", "energy_kwh", "operational_g", "embodied_g")
            amounts = tuple(sum(getattr(day, name) for day in days) for name in columns)
        works[row.project, row.unit] = WorkMonth(
            amounts,  # type: ignore[arg-type]  # there are four
            [figure.inputs if figure and figure.relative else {} for figure in figures],
            [figure.kind for figure in figures if figure],
            frozenset(map(tuple, row.methods)),
            frozenset(map(tuple, row.intensities)),
        )
    return works


def other_sources(one: Iterable[Sequence[str]], other: Iterable[Sequence[str]]) -> bool:
    """Return whether a zone that both have has other resolutions or sources of intensity."""
    by_zone: list[dict[str, set[tuple[str, ...]]]] = []
    for rows in (one, other):
        zones: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for zone, *rest in rows:
            zones[zone].add(tuple(rest))
        by_zone.append(zones)
    first, second = by_zone
    return any(first[zone] != second[zone] for zone in first.keys() & second.keys())


def change_effects(now: Mapping[Work, WorkMonth], before: Mapping[Work, WorkMonth]) -> ChangeDoc:
    """Return the change [gCO2e] and its effects; those of an empty month are all volume."""
    pairs = [_Pair(before.get(w, NO_WORK), now.get(w, NO_WORK)) for w in sorted({*now, *before})]
    values = [math.fsum(column) for column in zip(*(pair.effects() for pair in pairs), strict=True)]
    down, up = _spread(pairs)
    kind = weakest(kind for of in (now, before) for work in of.values() for kind in work.kinds)

    def figure(number: int) -> Quantity:
        value = values[number]
        ends = value - down[number], value + up[number]
        return Quantity(value, *ends, "gCO2e", kind, SOURCE)

    effects = {name: figure(number) for number, name in enumerate(EFFECTS)}
    if not any(pair.other_method or (pair.both and pair.other_grid) for pair in pairs):
        effects["method_g"] = Quantity.exact(0.0, "gCO2e", "derived", SAME_METHOD)
    return ChangeDoc(change_g=figure(len(EFFECTS)), **effects)


class _Pair:
    """A kind of work in both months, and what can be told apart of its change."""

    def __init__(self, before: WorkMonth, now: WorkMonth) -> None:
        self.months = before, now
        self._figures = (*before.amounts, *now.amounts)
        self.both = bool(before.methods and now.methods)
        self.other_method = self.both and before.methods != now.methods
        self.other_grid = other_sources(before.intensities, now.intensities)

    def effects(self, factors: Mapping[int, float] | None = None) -> list[float]:
        """Return the effects and the whole change [gCO2e].

        `factors` multiply R, E, O, M before and now by their place.
        """
        moved = list(self._figures)
        for place, by in (factors or {}).items():
            moved[place] *= by
        r0, e0, o0, m0, r1, e1, o1, m1 = moved
        if r0 <= 0 or r1 <= 0:  # energy then says how much was done
            r0, r1 = e0, e1
        whole = o1 - o0 + m1 - m0
        if not self.both:
            return [whole, 0.0, 0.0, 0.0, 0.0, whole]
        weight_o, weight_m = _mean(o0, o1), _mean(m0, m1)
        energy, units = _ratio(e0, e1), _ratio(r0, r1)
        efficiency = weight_o * _apart(energy, units)
        grid = weight_o * _apart(_ratio(o0, o1), energy)
        hardware = weight_m * _apart(_ratio(m0, m1), units)
        # Without a logarithm on one side, what became or was zero explains the change.
        if weight_o == 0 and e0 > 0 and e1 > 0:
            grid = o1 - o0
        if weight_m == 0 and r0 > 0 and r1 > 0:
            hardware = m1 - m0
        method = 0.0
        if self.other_method:
            method, efficiency, grid, hardware = efficiency + grid + hardware, 0.0, 0.0, 0.0
        elif self.other_grid:
            method, grid = grid, 0.0
        volume = whole - efficiency - grid - hardware - method
        return [volume, efficiency, grid, hardware, method, whole]


def _apart(one: float, other: float) -> float:
    """Return the difference of two logarithms; 0 where only rounding tells them apart."""
    return 0.0 if math.isclose(one, other, abs_tol=1e-12) else one - other


def _mean(one: float, other: float) -> float:
    """Return the logarithmic mean of two figures; 0 where one of them is not above zero."""
    if one <= 0 or other <= 0:
        return 0.0
    ratio = _ratio(one, other)
    return (one + other) / 2 if abs(ratio) < 1e-5 else (other - one) / ratio


def _ratio(one: float, other: float) -> float:
    """Return the logarithm of `other` over `one`; 0 where one of them is not above zero."""
    return math.log(other) - math.log(one) if one > 0 and other > 0 else 0.0


def _spread(pairs: Sequence[_Pair]) -> tuple[list[float], list[float]]:
    """Return how far each effect may lie below and above, by what one input after the other
    changes.

    An input that moves several figures moves them together; inputs are independent of each other
    (JCGM 100, 5.1). Hours of one grid are taken as equal, as in the change of the totals.
    """
    grids = [
        {annual_of(id_) for pair in pairs for inputs in pair.months[side].inputs for id_ in inputs}
        for side in (0, 1)
    ]
    shared = grids[0] & grids[1]
    changes: dict[str, dict[_Pair, dict[int, Effect]]] = defaultdict(lambda: defaultdict(dict))
    for pair in pairs:
        for side, month in enumerate(pair.months):
            for column, inputs in enumerate(month.inputs, 1):
                for id_, effect in inputs.items():
                    if annual_of(id_) == id_ or annual_of(id_) not in shared:
                        changes[id_][pair][4 * side + column] = effect
    number = len(EFFECTS) + 1
    below, above = [0.0] * number, [0.0] * number
    base = {pair: pair.effects() for pair in pairs}
    for of_input in changes.values():
        moved = [[0.0] * number, [0.0] * number]
        for pair, places in of_input.items():
            for end in (0, 1):
                factors = {place: math.exp(effect[end]) for place, effect in places.items()}
                after = zip(pair.effects(factors), base[pair], strict=True)
                moved[end] = [m + a - b for m, (a, b) in zip(moved[end], after, strict=True)]
        for n, ends in enumerate(zip(*moved, strict=True)):
            below[n] += min(*ends, 0.0) ** 2
            above[n] += max(*ends, 0.0) ** 2
    return [math.sqrt(sum_) for sum_ in below], [math.sqrt(sum_) for sum_ in above]
