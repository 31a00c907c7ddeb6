"""Sums of E, O, M and their total over cells: a month, a day, a project, a model, a state."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, cast

import numpy as np

from gramwatt.sci.analysis.breakdown import COMPONENTS
from gramwatt.sci.analysis.month import TERMS
from gramwatt.sci.base.document import doc
from gramwatt.sci.base.quantity import (
    KINDS,
    SEPARATOR,
    Kind,
    Quantity,
    QuantityDoc,
    kind_of_sum,
    of_sources,
    weakest,
)
from gramwatt.service.months.sums.arrays import Ids, Label, Parts
from gramwatt.service.months.sums.figures import (
    Effects,
    Figures,
    Floats,
    Ints,
    by,
    ends,
    numbered,
    total,
)
from gramwatt.service.months.sums.part import id_number

ENERGY_UNIT, CARBON_UNIT = "kWh", "gCO2e"
"""Units of E, and of O, M and their components."""
_ENERGY, _OPERATIONAL, _EMBODIED = range(3)
CANCELS = 1e-12
"""Effects below this are what rounding leaves of those that cancel."""


@dataclass(frozen=True, slots=True)
class Sums:
    """One term summed by cell, with kind and sources of each sum; None where nothing is known.

    `moved` is None once nothing asks for it any more: it is long where jobs have own inputs.
    """

    unit: str
    figures: Figures
    moved: Effects | None
    labels: Sequence[Label | None]
    ids: Ids

    @property
    def inputs(self) -> Effects:
        """Return what moves the sums; raises ValueError where that was let go."""
        if self.moved is None:
            raise ValueError("ask for sums with their inputs")
        return self.moved

    def quantity(self, cell: int) -> Quantity | None:
        """Return the sum of a cell; None where nothing is known."""
        label = self.labels[cell]
        if label is None:
            return None
        value, low, high = (
            float(column[cell])
            for column in (self.figures.value, self.figures.low, self.figures.high)
        )
        kind, *sources = label
        return of_sources(value, low, high, self.unit, kind, sources)

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
        figures, moved = _stacked([(one.figures.taken(cell), one.inputs) for one in both])
        summed, own = total(np.concatenate((cell, cell)), figures, moved, cells)
        labels = [
            _joined(one.labels[n] for one in both) if known[n] else None for n in range(cells)
        ]
        self.operational_g, self.embodied_g = map(self._let_go, both)
        return self._let_go(Sums("gCO2e", summed, own, labels, both[0].ids))

    def _let_go(self, sums: Sums) -> Sums:
        return sums if self.with_inputs else replace(sums, moved=None)


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


def component_sums(parts: Parts) -> dict[tuple[str, str], Quantity]:
    """Return the components of O and M over all jobs, each with its own range."""
    found: dict[tuple[str, str], Quantity] = {}
    for number, key in enumerate(COMPONENTS, len(TERMS)):
        rows = parts.whole_rows(number)
        rows = rows[rows >= 0]
        summed = _summed(parts, number, rows, np.zeros_like(rows), 1).quantity(0)
        if summed is not None:
            found[key] = summed
    return found


def factor(
    product: Sums, by: Sums, cell: int, ids: Collection[str] = (), *, only: bool = False
) -> Quantity | None:
    """Return a sum over another one of the same jobs, without what moves both.

    The inputs of these ids count as exact; with `only` all others do.
    """
    above, below = product.quantity(cell), by.quantity(cell)
    if above is None or below is None or not below.value > 0:
        return None
    unit = f"{above.unit}/{below.unit}"
    value = above.value / below.value
    if not (above.relative and below.relative):
        return Quantity.exact(value, unit, above.kind, *above.sources)
    moved, low, high = _difference(_inputs(product, cell), _inputs(by, cell))
    chosen = np.isin(moved, [id_number(id_) for id_ in ids]) == only
    edges = _edges(value, low[chosen], high[chosen])
    return of_sources(value, *edges, unit, above.kind, above.sources)


def change(after: Sums, before: Sums, cells: tuple[int, int] = (0, 0)) -> Quantity | None:
    """Return a term of a month over that of the one before, each of its cell; None for none or
    zero.

    Hours of one grid are taken as equal, as `grid.zones.at_equal_grid` does, and what both share
    cancels, as in `Quantity.over`.
    """
    above, below = after.quantity(cells[0]), before.quantity(cells[1])
    if above is None or below is None or not below.low > 0:
        return None
    if not (above.relative and below.relative):
        return above.over(below, "1")
    inputs = [_inputs(sums, cell) for sums, cell in zip((after, before), cells, strict=True)]
    shared = np.intersect1d(inputs[0].annual, inputs[1].annual)
    _, low, high = _difference(*(of_month.without_hours(shared) for of_month in inputs))
    kind, *sources = _joined([after.labels[cells[0]], before.labels[cells[1]]])
    value = above.value / below.value
    return of_sources(value, *_edges(value, low, high), "1", kind, sources)


def _edges(value: float, low: Floats, high: Floats) -> tuple[float, float]:
    """Return the range of a figure with these effects; what cancels but for rounding moves none."""
    kept = np.maximum(np.abs(low), np.abs(high)) > CANCELS
    below, above = ends(low[kept], high[kept])
    return min(value * math.exp(below), value), max(value * math.exp(above), value)


class _Inputs(NamedTuple):
    """What moves one figure: ids of inputs, those of their annual values, and effects."""

    ids: Ints
    annual: Ints
    low: Floats
    high: Floats

    def without_hours(self, shared: Ints) -> _Inputs:
        """Return the same without the hours of grids whose annual value is among `shared`."""
        kept = ~((self.ids != self.annual) & np.isin(self.annual, shared))
        return _Inputs(*(column[kept] for column in self))


def _inputs(sums: Sums, cell: int) -> _Inputs:
    moved, ids = sums.inputs, sums.ids
    first = moved.firsts[cell]
    rows = slice(first, first + moved.sizes[cell])
    place = moved.ids[rows]
    return _Inputs(ids.ids[place], ids.annual[place], moved.low[rows], moved.high[rows])


def _difference(above: _Inputs, below: _Inputs) -> tuple[Ints, Floats, Floats]:
    """Return the ids of the inputs of either figure, and their effects on one over the other."""
    ids, place = np.unique(np.concatenate((above.ids, below.ids)), return_inverse=True)
    low, high = (
        by(place, np.concatenate((end, -other)), len(ids))
        for end, other in ((above.low, below.low), (above.high, below.high))
    )
    return ids, low, high


def _summed(parts: Parts, term: int, rows: Ints, cell: Ints, cells: int) -> Sums:
    figures, moved = total(cell, parts.figures.taken(rows), parts.moved, cells)
    labels = _labels(parts, parts.label[rows], parts.job[rows], cell, cells)
    if term == _ENERGY:
        kinds = _kinds_of_energy(parts, rows, cell, cells)
        labels = [
            (kind, *label[1:]) if label and kind else label
            for kind, label in zip(kinds, labels, strict=True)
        ]
    unit = ENERGY_UNIT if term == _ENERGY else CARBON_UNIT
    sums = Sums(unit, figures, moved, labels, parts.inputs)
    return _with_plain(sums)


def _with_plain(sums: Sums) -> Sums:
    """Sums made of their ends alone count as one input known by their sources, as any figure."""
    figures, own = sums.figures, sums.inputs
    plain = np.flatnonzero(figures.relative & (own.sizes == 0) & (figures.low < figures.high))
    if not len(plain):
        return sums
    rows = []
    for cell in map(int, plain):
        _, *sources = sums.labels[cell] or ("", "")
        value, low, high = (c[cell] for c in (figures.value, figures.low, figures.high))
        source = SEPARATOR.join(sources)
        (effect,) = Quantity(value, low, high, sums.unit, "derived", source).inputs.values()
        rows.append((sums.ids.of(source), *effect))
    added = np.array(rows)
    firsts, sizes = own.firsts.copy(), own.sizes.copy()
    firsts[plain], sizes[plain] = len(own.ids) + np.arange(len(plain)), 1
    columns = (own.ids, own.low, own.high)
    number, below, above = (np.append(c, added[:, n]) for n, c in enumerate(columns))
    whole = Effects(firsts, sizes, number.astype(np.int64), below, above)
    return replace(sums, moved=whole)


def _stacked(both: Sequence[tuple[Figures, Effects]]) -> tuple[Figures, Effects]:
    """Two columns of figures as one, with their effects numbered on."""
    (one, known), (other, more) = both
    pairs = [(one.value, other.value), (one.low, other.low), (one.high, other.high)]
    numbers = (one.moved, other.moved + len(known.sizes))
    value, low, high = map(np.concatenate, pairs)
    figures = Figures(value, low, high, np.concatenate(numbers))
    fields = ("sizes", "ids", "low", "high")
    joined = {n: np.concatenate((getattr(known, n), getattr(more, n))) for n in fields}
    firsts = np.concatenate((known.firsts, more.firsts + len(known.ids)))
    return figures, Effects(firsts=firsts, **joined)


def _kinds_of_energy(parts: Parts, rows: Ints, cell: Ints, cells: int) -> list[Kind | None]:
    """Return the weakest kind that nine tenths of the energy of each cell reach.

    A job's energy is of the kinds of its data quality; a part of a job that is of another kind than
    the whole, such as its measured first day, is of its own.
    """
    shares = np.zeros((len(KINDS), len(parts.keys)))
    for number, (block, kind) in enumerate(parts.keys_of_quality):
        if block == "energy":
            mine = parts.quality.what == number
            shares[KINDS.index(kind), parts.quality.job[mine]] = parts.quality.amount[mine]
    reached = np.cumsum(shares, axis=0)
    of_job = np.argmax(reached >= 0.9 * reached[-1], axis=0)
    of_label = np.array([KINDS.index(kind) for kind, *_ in parts.labels], np.int64)
    own, job, energy = of_label[parts.label[rows]], parts.job[rows], parts.figures.value[rows]
    alike = of_job[job] == own
    by_kind = [
        by(cell, energy * np.where(alike, shares[number, job], own == number), cells)
        for number in range(len(KINDS))
    ]
    amounts = [dict(zip(KINDS, of_cell, strict=True)) for of_cell in zip(*by_kind, strict=True)]
    return [kind_of_sum(known) if sum(known.values()) > 0 else None for known in amounts]


def _labels(parts: Parts, label: Ints, job: Ints, cell: Ints, cells: int) -> list[Label | None]:
    """Return the weakest kind of each cell, and its sources in the order of the jobs."""
    if not len(cell):
        return [None] * cells
    stride = len(parts.labels)
    found, place = numbered(cell * stride + label, cells * stride)
    first = np.full(len(found), len(parts.keys))
    np.minimum.at(first, place, job)
    met: list[list[Label]] = [[] for _ in range(cells)]
    for key in found[np.lexsort((first, found // stride))]:
        met[key // stride].append(parts.labels[key % stride])
    return [_joined(of_cell) if of_cell else None for of_cell in met]


def _joined(labels: Iterable[Label | None]) -> Label:
    known = [label for label in labels if label is not None]
    sources = dict.fromkeys(source for _, *of_label in known for source in of_label)
    return weakest(kind for kind, *_ in known), *sources
