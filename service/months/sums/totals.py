"""Sums of E, O, M and their total over cells: a month, a day, a project, a model, a state."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, cast

import numpy as np

from gramwatt.sci.base.document import doc
from gramwatt.sci.base.propagation import Uncertainty
from gramwatt.sci.base.quantity import Kind, Quantity, QuantityDoc, join_sources, weakest
from gramwatt.service.months.sums.arrays import Names, Parts
from gramwatt.service.months.sums.figures import (
    Figures,
    Floats,
    Ints,
    Uncertainties,
    by,
    ends,
    numbered,
    total,
)

UNITS = ("kWh", "gCO2e", "gCO2e")
"""Units of the terms, in the order of `TERMS`."""
_ENERGY, _OPERATIONAL, _EMBODIED = range(3)


@dataclass(frozen=True, slots=True)
class Sums:
    """One term summed by cell, with kind and source of each sum; None where nothing is known.

    `uncertain` is None once nothing asks for it any more: it is long where jobs have own inputs.
    """

    unit: str
    figures: Figures
    uncertain: Uncertainties | None
    labels: Sequence[tuple[Kind, str] | None]
    names: Names

    @property
    def inputs(self) -> Uncertainties:
        """What moves the sums; raises ValueError where that was let go."""
        if self.uncertain is None:
            raise ValueError("ask for sums with their inputs")
        return self.uncertain

    def quantity(self, cell: int) -> Quantity | None:
        """Return the sum of a cell; None where nothing is known."""
        label = self.labels[cell]
        if label is None:
            return None
        value, low, high = (
            float(column[cell])
            for column in (self.figures.value, self.figures.low, self.figures.high)
        )
        return Quantity(value, low, high, self.unit, *label)

    def doc(self, cell: int) -> QuantityDoc | None:
        """Return the sum of a cell as JSON-ready data."""
        return doc(self.quantity(cell))


class Totals:
    """E, O and M by cell, and C = O + M; each is summed when it is first asked for.

    Without `with_inputs`, what moves a sum is let go when no other of these sums needs it.
    """

    def __init__(self, term: Callable[[int], Sums], *, with_inputs: bool = False) -> None:
        self._term, self.with_inputs = term, with_inputs

    @property
    def terms(self) -> tuple[Sums, Sums, Sums]:
        """E, O and M."""
        return self.energy_kwh, self.operational_g, self.embodied_g

    @cached_property
    def energy_kwh(self) -> Sums:
        """E [kWh]."""
        return self._let_go(self._term(_ENERGY))

    @cached_property
    def operational_g(self) -> Sums:
        """O [gCO2e]."""
        return self._term(_OPERATIONAL)

    @cached_property
    def embodied_g(self) -> Sums:
        """M [gCO2e]."""
        return self._term(_EMBODIED)

    @cached_property
    def total_g(self) -> Sums:
        """C = O + M [gCO2e] of cells where both are known."""
        both = (self.operational_g, self.embodied_g)
        cells = len(both[0].labels)
        known = [all(one.labels[n] is not None for one in both) for n in range(cells)]
        cell = np.flatnonzero(np.array(known, dtype=bool))
        figures, uncertain = _stacked([(one.figures.taken(cell), one.inputs) for one in both])
        summed, own = total(np.concatenate((cell, cell)), figures, uncertain, cells)
        labels = [
            _joined(one.labels[n] for one in both) if known[n] else None for n in range(cells)
        ]
        self.operational_g, self.embodied_g = map(self._let_go, both)
        return self._let_go(Sums("gCO2e", summed, own, labels, both[0].names))

    def _let_go(self, sums: Sums) -> Sums:
        return sums if self.with_inputs else replace(sums, uncertain=None)


def by_job(parts: Parts, job: Ints, cell: Ints, cells: int, *, with_inputs: bool = False) -> Totals:
    """Return the sums of jobs' parts of the month; `job` and `cell` pair jobs with their cells.

    `with_inputs` is for sums whose `Sums.inputs` will be asked for. Several tables of a month often
    divide its jobs alike, such as by project and by owner: the sums of one division are made once.
    """
    mark = blake2b(np.concatenate((job, cell)).tobytes(), digest_size=16).digest()
    known = parts.totals.get((mark, cells))
    if known is not None and known.with_inputs >= with_inputs:
        return cast(Totals, known)
    # What the parts hold does not hold them: a month's arrays go with the last who needs them.
    of_month: Parts = weakref.proxy(parts)

    def term(number: int) -> Sums:
        rows = of_month.whole_rows(number)[job]
        known = rows >= 0
        return _summed(of_month, number, rows[known], cell[known], cells)

    made = parts.totals[mark, cells] = Totals(term, with_inputs=with_inputs)
    return made


def by_day(parts: Parts) -> Totals:
    """Return the sums of jobs' parts of each day of the month, by its number."""

    def term(number: int) -> Sums:
        rows = np.flatnonzero((parts.term == number) & (parts.day != 0))
        return _summed(parts, number, rows, np.abs(parts.day[rows]), 32)

    return Totals(term)


def change(after: Sums, before: Sums) -> Quantity | None:
    """Return a term of a month over that of the one before, both of one cell; None for none or
    zero.

    Hours of one grid are taken as equal, as `grid.zones.at_equal_grid` does, and what both share
    cancels, as in `Uncertainty.times`.
    """
    above, below = after.quantity(0), before.quantity(0)
    if above is None or below is None or not below.low > 0:
        return None
    if not (above.relative and below.relative):
        return above.over(below, "1")
    inputs = [_inputs(sums) for sums in (after, before)]
    shared = np.intersect1d(inputs[0].bases, inputs[1].bases)
    low, high, nonlinear = _quotient(*(one.without_hours(shared) for one in inputs))
    kind, source = _joined([after.labels[0], before.labels[0]])
    value, both = above.value / below.value, ends(low, high, nonlinear)
    edges = (value * math.exp(both.low), value * math.exp(both.high))
    return Quantity(value, min(edges[0], value), max(edges[1], value), "1", kind, source)


class _Inputs(NamedTuple):
    """What moves one figure: names, their beginnings, effects, and what sums add to them."""

    names: Ints
    bases: Ints
    low: Floats
    high: Floats
    nonlinear: Floats

    def without_hours(self, shared: Ints) -> _Inputs:
        """Return the same without the hours of grids whose annual value is among `shared`."""
        kept = ~((self.names != self.bases) & np.isin(self.bases, shared))
        columns = (self.names[kept], self.bases[kept], self.low[kept], self.high[kept])
        return _Inputs(*columns, self.nonlinear)


def _inputs(sums: Sums) -> _Inputs:
    uncertain, names = sums.inputs, sums.names
    rows = slice(uncertain.firsts[0], uncertain.firsts[0] + uncertain.sizes[0])
    place = uncertain.names[rows]
    columns = names.names[place], names.bases[place], uncertain.low[rows], uncertain.high[rows]
    return _Inputs(*columns, uncertain.nonlinear[0])


def _quotient(above: _Inputs, below: _Inputs) -> tuple[Floats, Floats, Floats]:
    """Effects on one figure over another, and what sums add (`Uncertainty.times`, sign -1)."""
    if not len(below.names):
        return above.low, above.high, above.nonlinear
    names, place = np.unique(np.concatenate((above.names, below.names)), return_inverse=True)
    low, high = (
        by(place, np.concatenate((one, -other)), len(names))
        for one, other in ((above.low, below.low), (above.high, below.high))
    )
    kept = np.maximum(np.abs(low), np.abs(high)) > 1e-12
    if len(names) < len(place):
        return low[kept], high[kept], np.zeros(3)
    signs = np.array([-1.0, 1.0, -1.0])
    return low[kept], high[kept], above.nonlinear + signs * below.nonlinear


def _summed(parts: Parts, term: int, rows: Ints, cell: Ints, cells: int) -> Sums:
    figures, uncertain = total(cell, parts.figures.taken(rows), parts.uncertain, cells)
    labels = _labels(parts, parts.label[rows], parts.job[rows], cell, cells)
    sums = Sums(UNITS[term], figures, uncertain, labels, parts.names)
    return _with_plain(sums)


def _with_plain(sums: Sums) -> Sums:
    """Sums made of their ends alone count as one input named by their sources, as any figure."""
    figures, own = sums.figures, sums.inputs
    plain = np.flatnonzero(figures.relative & (own.sizes == 0) & (figures.low < figures.high))
    if not len(plain):
        return sums
    rows = []
    for cell in map(int, plain):
        _, source = sums.labels[cell] or ("", "")
        value, low, high = (c[cell] for c in (figures.value, figures.low, figures.high))
        (effect,) = Uncertainty.of_input(source, value, low, high).effects.values()
        rows.append((sums.names.of(source), *effect))
    added = np.array(rows)
    firsts, sizes = own.firsts.copy(), own.sizes.copy()
    firsts[plain], sizes[plain] = len(own.names) + np.arange(len(plain)), 1
    columns = (own.names, own.low, own.high)
    number, below, above = (np.append(c, added[:, n]) for n, c in enumerate(columns))
    whole = Uncertainties(firsts, sizes, number.astype(np.int64), below, above, own.nonlinear)
    return replace(sums, uncertain=whole)


def _stacked(both: Sequence[tuple[Figures, Uncertainties]]) -> tuple[Figures, Uncertainties]:
    """Two columns of figures as one, with their uncertainties numbered on."""
    (one, known), (other, more) = both
    pairs = [(one.value, other.value), (one.low, other.low), (one.high, other.high)]
    numbers = (one.uncertain, other.uncertain + len(known.sizes))
    value, low, high = map(np.concatenate, pairs)
    figures = Figures(value, low, high, np.concatenate(numbers))
    fields = ("sizes", "names", "low", "high", "nonlinear")
    joined = {n: np.concatenate((getattr(known, n), getattr(more, n))) for n in fields}
    firsts = np.concatenate((known.firsts, more.firsts + len(known.names)))
    return figures, Uncertainties(firsts=firsts, **joined)


def _labels(
    parts: Parts, label: Ints, job: Ints, cell: Ints, cells: int
) -> list[tuple[Kind, str] | None]:
    """Return the weakest kind of each cell, and its sources in the order of the jobs."""
    if not len(cell):
        return [None] * cells
    stride = len(parts.labels)
    found, place = numbered(cell * stride + label, cells * stride)
    first = np.full(len(found), len(parts.keys))
    np.minimum.at(first, place, job)
    met: list[list[tuple[Kind, str]]] = [[] for _ in range(cells)]
    for key in found[np.lexsort((first, found // stride))]:
        met[key // stride].append(parts.labels[key % stride])
    return [_joined(of_cell) if of_cell else None for of_cell in met]


def _joined(labels: Iterable[tuple[Kind, str] | None]) -> tuple[Kind, str]:
    known = [label for label in labels if label is not None]
    return weakest(kind for kind, _ in known), join_sources(source for _, source in known)
