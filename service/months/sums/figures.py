"""Sums of many figures with their ranges at once: the arithmetic of `sci/base/quantity.py` over
arrays.

That is the same sum for thousands of figures in hundreds of *cells* (a day, a project, a model),
which one figure at a time takes minutes for. A test holds the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramwatt.sci.base.quantity import WIDEST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of inputs on figures: those of number n are `sizes[n]` entries from `firsts[n]`.

    An entry is the number of an input's id and the change of the figure's logarithm with that input
    at its low and at its high end.
    """

    firsts: Ints
    sizes: Ints
    ids: Ints
    low: Floats
    high: Floats

    def entries(self, numbers: Ints) -> tuple[Ints, Ints]:
        """For each entry of the effects of these numbers: its place in them, its row."""
        sizes = self.sizes[numbers]
        return np.repeat(np.arange(len(numbers)), sizes), spans(self.firsts[numbers], sizes)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures in one unit; `moved` is the number of the effects on each one."""

    value: Floats
    low: Floats
    high: Floats
    moved: Ints

    @property
    def relative(self) -> NDArray[np.bool_]:
        """Return whether the range of each is one of its logarithm (as `Quantity` says)."""
        return (self.value > 0) & (self.low >= 0) & (self.high <= WIDEST * self.value)

    def taken(self, rows: NDArray[Any]) -> Figures:
        """Return those of these rows."""
        return Figures(self.value[rows], self.low[rows], self.high[rows], self.moved[rows])


def spans(firsts: Ints, sizes: Ints) -> Ints:
    """Return the numbers of every span of `sizes` from `firsts`, one after the other."""
    ends = np.cumsum(sizes)
    whole = int(ends[-1]) if len(ends) else 0
    return np.repeat(firsts - (ends - sizes), sizes) + np.arange(whole)


def total(cell: Ints, figures: Figures, known: Effects, cells: int) -> tuple[Figures, Effects]:
    """Return the sum of the figures of each cell, as `quantity.total` makes it, and its effects."""
    value, low, high = (
        by(cell, column, cells) for column in (figures.value, figures.low, figures.high)
    )
    ranged = (figures.low != 0) | (figures.high != 0)
    plain = np.bincount(cell[ranged & ~figures.relative], minlength=cells) > 0
    plain |= np.bincount(cell[ranged], minlength=cells) == 0
    part = ranged & ~plain[cell]
    fraction = figures.value[part] / value[cell[part]]
    of_cell, own = _of_sum(cell[part], fraction, figures.moved[part], known, cells)
    below, above = _ends(of_cell, own.low, own.high, cells)
    low = np.where(plain, low, value * np.exp(below))
    high = np.where(plain, high, value * np.exp(above))
    return Figures(value, np.minimum(low, value), np.maximum(high, value), np.arange(cells)), own


def ends(low: Floats, high: Floats) -> tuple[float, float]:
    """Return the ends of the range of independent effects on one figure (`quantity.ends_of`)."""
    below, above = _ends(np.zeros(len(low), np.int64), low, high, 1)
    return float(below[0]), float(above[0])


def _ends(cell: Ints, low: Floats, high: Floats, cells: int) -> tuple[Floats, Floats]:
    certain = low == high
    shift = by(cell[certain], low[certain], cells)
    cell, low, high = cell[~certain], low[~certain], high[~certain]
    below = by(cell, np.minimum(np.minimum(low, high), 0.0) ** 2, cells)
    above = by(cell, np.maximum(np.maximum(low, high), 0.0) ** 2, cells)
    return np.minimum(shift - np.sqrt(below), 0.0), np.maximum(shift + np.sqrt(above), 0.0)


def _of_sum(
    cell: Ints, fraction: Floats, moved: Ints, known: Effects, cells: int
) -> tuple[Ints, Effects]:
    """Return the effects on the sum of each cell, and the cell of each."""
    # Parts of one cell that the same inputs move alike count as one.
    kinds = max(len(known.sizes), 1)
    found, at = numbered(cell * kinds + moved, cells * kinds)
    cell, moved, fraction = found // kinds, found % kinds, by(at, fraction, len(found))
    part, row = known.entries(moved)
    # One number for each input in each cell; the parts that it moves add its effects.
    stride = int(known.ids.max(initial=0)) + 1
    keys, place = numbered(cell[part] * stride + known.ids[row], cells * stride)
    low, high = (
        np.log1p(by(place, fraction[part] * np.expm1(end[row]), len(keys)))
        for end in (known.low, known.high)
    )
    of_cell = keys // stride
    sizes = np.bincount(of_cell, minlength=cells)
    return of_cell, Effects(np.cumsum(sizes) - sizes, sizes, keys % stride, low, high)


def numbered(keys: Ints, most: int) -> tuple[Ints, Ints]:
    """Return the distinct keys, below `most`, in order, and the place of each key among them."""
    if most > 16 * len(keys):
        found, place = np.unique(keys, return_inverse=True)
        return found, place
    met = np.zeros(most, dtype=bool)  # a table of all keys is faster than sorting
    met[keys] = True
    found = np.flatnonzero(met)
    number = np.empty(most, dtype=np.int32)  # memory is taken only where a key was met
    number[found] = np.arange(len(found), dtype=np.int32)
    return found, number[keys].astype(np.int64)


def by(group: Ints, amounts: Any, groups: int) -> Floats:
    """Return the sum of amounts in each group."""
    return np.asarray(np.bincount(group, weights=amounts, minlength=groups), dtype=np.float64)
