"""Sums of many figures with their ranges at once: `sci/base/propagation.py` over arrays.

`propagation.of_sum` states what is computed and why; this is the same sum for thousands of figures
in hundreds of *cells* (a day, a project, a model), which one figure at a time takes minutes for. A
test holds the two against each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramwatt.sci.base.propagation import (
    END,
    HALF_MEAN,
    MOST_FOLDS,
    MOST_SKEW,
    NARROW,
    NEGLIGIBLE,
    SIMPSON,
    Cumulants,
    Effect,
)
from gramwatt.sci.base.quantity import WIDEST

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_Z = np.array([-z for z, _ in SIMPSON] + [z for z, _ in SIMPSON])
_W = np.array([w for _, w in SIMPSON] * 2)


@dataclass(frozen=True, slots=True)
class Uncertainties:
    """Relative uncertainties by inputs: those of number n have `sizes[n]` entries from `firsts[n]`.

    An entry is the number of an input's name and the change of the figure's logarithm with that
    input at its low and at its high end. `nonlinear` has three cumulants for each.
    """

    firsts: Ints
    sizes: Ints
    names: Ints
    low: Floats
    high: Floats
    nonlinear: Floats

    def entries(self, numbers: Ints) -> tuple[Ints, Ints]:
        """For each entry of the uncertainties of these numbers: its place in them, its row."""
        sizes = self.sizes[numbers]
        return np.repeat(np.arange(len(numbers)), sizes), spans(self.firsts[numbers], sizes)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures in one unit; `uncertain` is the number of each one's uncertainty."""

    value: Floats
    low: Floats
    high: Floats
    uncertain: Ints

    @property
    def relative(self) -> NDArray[np.bool_]:
        """Return whether the uncertainty of each is one of its logarithm (as `Quantity` says)."""
        return (self.value > 0) & (self.low >= 0) & (self.high <= WIDEST * self.value)

    def taken(self, rows: NDArray[Any]) -> Figures:
        """Return those of these rows."""
        return Figures(self.value[rows], self.low[rows], self.high[rows], self.uncertain[rows])


def spans(firsts: Ints, sizes: Ints) -> Ints:
    """Return the numbers of every span of `sizes` from `firsts`, one after the other."""
    ends = np.cumsum(sizes)
    whole = int(ends[-1]) if len(ends) else 0
    return np.repeat(firsts - (ends - sizes), sizes) + np.arange(whole)


def total(
    cell: Ints, figures: Figures, known: Uncertainties, cells: int
) -> tuple[Figures, Uncertainties]:
    """Return the sum of the figures of each cell, as `quantity.total` makes it, and its
    uncertainty.
    """
    if not len(cell):  # as of most states, and of a month without models
        none = np.zeros(cells)
        own = _of_one(cell, figures.uncertain, known, cells)
        return Figures(none, none, none, np.arange(cells)), own
    value, low, high = (
        by(cell, column, cells) for column in (figures.value, figures.low, figures.high)
    )
    ranged = (figures.low != 0) | (figures.high != 0)
    plain = np.bincount(cell[ranged & ~figures.relative], minlength=cells) > 0
    plain |= np.bincount(cell[ranged], minlength=cells) == 0
    part = ranged & ~plain[cell]
    own = _of_sum(
        cell[part], figures.value[part] / value[cell[part]], figures.uncertain[part], known, cells
    )
    for number in np.flatnonzero(~plain):
        both = _ends(own, number)
        low[number] = value[number] * math.exp(both.low)
        high[number] = value[number] * math.exp(both.high)
    summed = Figures(value, np.minimum(low, value), np.maximum(high, value), np.arange(cells))
    return summed, own


def _ends(known: Uncertainties, number: Any) -> Effect:
    """Return the ends of the range of one."""
    first, size = known.firsts[number], known.sizes[number]
    low, high = known.low[first : first + size], known.high[first : first + size]
    return ends(low, high, known.nonlinear[number])


def ends(low: Floats, high: Floats, nonlinear: Floats) -> Effect:
    """Return the ends of the range of effects and what sums add to them, as `Uncertainty.ends`."""
    if len(low) == 1 and not nonlinear.any():
        return Effect(min(low[0], high[0], 0.0), max(low[0], high[0], 0.0))
    known = float(low[low == high].sum())
    mean, variance, third = nonlinear + _cumulants(low, high).sum(axis=0)
    around = Cumulants(float(mean) - known, float(variance), float(third)).ends()
    return Effect(min(around.low + known, 0.0), max(around.high + known, 0.0))


def _of_sum(
    cell: Ints, share: Floats, uncertain: Ints, known: Uncertainties, cells: int
) -> Uncertainties:
    """`propagation.of_sum` of the parts of each cell."""
    kept = share > NEGLIGIBLE
    if np.bincount(cell[kept], minlength=cells).max(initial=0) <= 1:
        return _of_one(cell[kept], uncertain[kept], known, cells)
    # Parts of one cell that have one uncertainty move together: they count as one.
    kinds = len(known.sizes)
    found, at = numbered(cell[kept] * kinds + uncertain[kept], cells * kinds)
    cell, uncertain = found // kinds, found % kinds
    share, counted = by(at, share[kept], len(found)), np.bincount(at, minlength=len(found))
    parts = by(cell, counted, cells)
    part, row = known.entries(uncertain)
    # One number for each name in each cell; the parts that have it add their effects.
    stride = int(known.names.max(initial=0)) + 1
    keys, place = numbered(cell[part] * stride + known.names[row], cells * stride)
    weight = share[part]
    change = [by(place, weight * np.expm1(e[row]), len(keys)) for e in _pair(known)]
    of_cell, having = keys // stride, by(place, counted[part], len(keys))
    whole = by(cell, share, cells)
    low, high = (np.log1p(ends / whole[of_cell]) for ends in change)
    effects = _cumulants(low, high)

    own = having[place] < parts[cell[part]]
    lone = np.bincount(part[own], minlength=len(cell)) == 0
    shared = own & (having[place] > 1)
    group = _groups(cell, lone, part[shared], place[shared], len(keys))
    groups = int(group.max(initial=-1)) + 1
    in_group = np.full(len(keys), -1)
    in_group[place[own]] = group[part[own]]
    mine = in_group >= 0
    weights = by(group, share, groups)
    inner = [np.log1p(ends[mine] / weights[in_group[mine]]) for ends in change]
    nonlinear = known.nonlinear[uncertain]
    cumulants = _by3(group, nonlinear * share[:, None], groups) / weights[:, None]
    cumulants = cumulants + _by3(in_group[mine], _cumulants(*inner), groups)
    at = np.zeros(groups, dtype=np.int64)
    at[group] = cell

    wide = _width(cumulants) > NARROW
    single = mine & wide[in_group] if groups else mine
    joint = _nonlinear(at, weights, cumulants, cells)
    joint -= _by3(of_cell[single], effects[single], cells)
    alone = parts[cell] == 1
    joint[cell[alone]] = nonlinear[alone]
    sizes = np.bincount(of_cell, minlength=cells)
    return Uncertainties(np.cumsum(sizes) - sizes, sizes, keys % stride, low, high, joint)


def _of_one(cell: Ints, uncertain: Ints, known: Uncertainties, cells: int) -> Uncertainties:
    """Return the uncertainties of cells that have one part each, or none: that of the part."""
    number = np.full(cells, -1)
    number[cell] = uncertain
    filled = number >= 0
    sizes, nonlinear = np.zeros(cells, np.int64), np.zeros((cells, 3))
    sizes[filled] = known.sizes[number[filled]]
    nonlinear[filled] = known.nonlinear[number[filled]]
    _, row = known.entries(number[filled])
    effects = (known.names[row], known.low[row], known.high[row])
    return Uncertainties(np.cumsum(sizes) - sizes, sizes, *effects, nonlinear)


def _pair(known: Uncertainties) -> tuple[Floats, Floats]:
    return known.low, known.high


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


def _groups(cell: Ints, lone: NDArray[np.bool_], part: Ints, place: Ints, names: int) -> Ints:
    """Return the number of the group of each part: parts that share a name, directly or through
    others.

    `part` and `place` are the parts and the names of entries that others may share. The `lone`
    parts of a cell, without a name of their own, are one group.
    """
    label = np.arange(len(cell))
    first = np.full(int(cell.max(initial=-1)) + 1, len(cell))
    np.minimum.at(first, cell[lone], np.flatnonzero(lone))
    label[lone] = first[cell[lone]]
    while True:
        of_name = np.full(names, len(cell))
        np.minimum.at(of_name, place, label[part])
        found = label.copy()
        np.minimum.at(found, part, of_name[place])
        # What a part took its number from has moved on as well.
        np.minimum.at(found, label, found)
        found = found[found]
        if np.array_equal(found, label):
            break
        label = found
    return numbered(label, len(cell))[1]


def _nonlinear(at: Ints, share: Floats, cumulants: Floats, cells: int) -> Floats:
    """Return cumulants of each cell's sum of wide groups, `at` their cells; else 0."""
    width = _width(cumulants)
    rows = np.flatnonzero(width > NARROW)
    rows = rows[np.lexsort((-(share * width)[rows], at[rows]))]
    rank = np.arange(len(rows)) - np.searchsorted(at[rows], at[rows])
    large = [rows[rank == n] for n in range(min(int(rank.max(initial=-1)) + 1, MOST_FOLDS))]
    folds = [(at[row], share[row], cumulants[row]) for row in large]
    small = rows[rank >= MOST_FOLDS]
    if len(small):
        folds.append(_many(at[small], share[small], cumulants[small], cells))
    left = np.maximum(1 - by(at[rows], share[rows], cells), 0.0)
    summed = np.zeros((cells, 3))
    for cell, part, own in folds:
        summed[cell] = _added(left[cell], summed[cell], part, own)
        left[cell] += part
    return summed


def _many(at: Ints, share: Floats, cumulants: Floats, cells: int) -> tuple[Ints, Floats, Floats]:
    """Return cells, and of each the share and cumulants of its many small groups as one."""
    logs, weights = _nodes(cumulants)
    x = np.exp(logs)
    first = (weights * x).sum(axis=1)
    spread = (weights * (x - first[:, None]) ** 2).sum(axis=1)
    whole = by(at, share, cells)
    cell = np.flatnonzero(np.bincount(at, minlength=cells))
    mean = by(at, share / whole[at] * first, cells)[cell]
    relative = by(at, (share / whole[at]) ** 2 * spread, cells)[cell] / mean**2
    zero = np.zeros(len(cell))
    return cell, whole[cell], np.column_stack((np.log(mean) - relative / 2, relative, zero))


def _added(share: Floats, one: Floats, other_share: Floats, other: Floats) -> Floats:
    """Cumulants of the logarithm of a sum of two independent parts, relative to its value."""
    whole = (share + other_share)[:, None]
    left, left_weights = _nodes(one)
    right, right_weights = _nodes(other)
    left = share[:, None] / whole * np.exp(left)
    right = other_share[:, None] / whole * np.exp(right)
    logs = np.log(left[:, :, None] + right[:, None, :])
    weights = left_weights[:, :, None] * right_weights[:, None, :]
    first, second, third = ((weights * logs**n).sum(axis=(1, 2)) for n in (1, 2, 3))
    return np.column_stack(
        (first, second - first * first, third - 3 * first * second + 2 * first**3)
    )


def _nodes(cumulants: Floats) -> tuple[Floats, Floats]:
    """Values and weights that integrate over split normal distributions with these cumulants."""
    mean, variance, third = cumulants.T
    deviation = np.sqrt(np.maximum(variance, 0.0))
    exact = deviation < 1e-12
    safe = np.where(exact, 1.0, deviation)
    skew = np.clip(third / safe**3, -MOST_SKEW, MOST_SKEW) / HALF_MEAN
    gap, cubic = skew.copy(), 6 / math.pi - 2
    for _ in range(6):
        gap -= (gap + cubic * gap**3 - skew) / (1 + 3 * cubic * gap * gap)
    product = np.maximum(1 - (1 - 2 / math.pi) * gap * gap, 0.0)
    both = np.sqrt(gap * gap + 4 * product)
    mode = np.where(exact, mean, mean - HALF_MEAN * gap * deviation)
    below = np.where(exact, 0.0, (both - gap) / 2 * deviation)
    above = np.where(exact, 0.0, (both + gap) / 2 * deviation)
    half = len(SIMPSON)
    scale = np.repeat(np.column_stack((below, above)), half, axis=1)
    weights = np.where((below + above == 0)[:, None], 1.0, scale * _W)
    return mode[:, None] + scale * _Z, weights / weights.sum(axis=1, keepdims=True)


def _cumulants(low: Floats, high: Floats) -> Floats:
    """Three cumulants of each effect, as `Effect.cumulants` gives them."""
    down = np.maximum(np.maximum(-low, -high), 0.0) / END
    up = np.maximum(np.maximum(low, high), 0.0) / END
    gap, product = up - down, up * down
    found = np.column_stack(
        (
            HALF_MEAN * gap,
            (1 - 2 / math.pi) * gap * gap + product,
            HALF_MEAN * gap * ((4 / math.pi - 1) * gap * gap + product),
        )
    )
    known = low == high
    found[known] = 0.0
    found[known, 0] = low[known]
    return found


def _by3(group: Ints, rows: Floats, groups: int) -> Floats:
    """Return the sums of rows of three numbers by group."""
    return np.column_stack([by(group, column, groups) for column in rows.T])


def by(group: Ints, amounts: Any, groups: int) -> Floats:
    """Return the sum of amounts in each group."""
    return np.asarray(np.bincount(group, weights=amounts, minlength=groups), dtype=np.float64)


def _width(cumulants: Floats) -> Floats:
    width: Floats = np.sqrt(np.maximum(cumulants[:, 1], 0.0)) + np.abs(cumulants[:, 0])
    return width
