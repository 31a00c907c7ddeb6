"""Groups of a month's jobs: what is added over them, and what each input changes by that.

The jobs come grouped by all their traits; a row of a table adds up some of those groups, and its
range has the rules of `sci/figures/quantity.py`: an input changes the sum by what it changes in
the parts, and inputs are independent. Inputs that only one job has add up by their squares.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from gramwatt.sci.figures.quantity import (
    KINDS,
    Effect,
    Kind,
    Quantity,
    bare,
    join_sources,
    kind_of_sum,
    of_effects,
    of_sources,
    weakest,
)
from gramwatt.sci.month.columns import JOB_TERMS, QUALITIES, TERMS, TIERS, TRAITS
from gramwatt.sci.month.documents import MonthTotals
from gramwatt.service.months import statements
from gramwatt.service.months.statements import ADDED, Select

Cell = dict[str, Any]
"""The jobs that have all traits alike: those traits, and how many jobs (`statements.CELLS`)."""
Key = tuple[str, ...]
EFFECT_TERMS = (*TERMS, "total_g")
METHOD = ("engine_version", "catalog_version", "intensity_signal", "intensity_basis")
"""What compared scores must share."""
BLOCKS: dict[str, dict[str, str]] = {
    "energy": dict(zip(statements.ENERGY_BY_KIND, KINDS, strict=True)),
    "intensity": dict(zip(statements.INTENSITY_BY_QUALITY, QUALITIES, strict=True)),
    "embodied": dict(zip(statements.EMBODIED_BY_TIER, TIERS, strict=True)),
}
"""The columns of each block of data quality, with what their energy or carbon is known by."""
ENERGY_KINDS: dict[str, Kind] = dict(zip(statements.ENERGY_BY_KIND, KINDS, strict=True))
PORTION = 8_000
"""Effects of inputs that are summed at once."""
_NUMBERS = {name: number for number, name in enumerate(ADDED)}


class Methods:
    """By what the scores of a scope are made, with the texts of each method."""

    def __init__(self, select: Select) -> None:
        names = (
            *("method", *METHOD, "time_zone", "supply", "operational_kind", "embodied_kind"),
            *("pue_kind", "lifetime_kind", "lifetime_source"),
            *("lifetime_years", "lifetime_years_low", "lifetime_years_high"),
        )
        rows = (dict(zip(names, row, strict=True)) for row in select(statements.METHODS))
        self.rows = {row["method"]: row for row in rows}
        self._kinds: dict[tuple[tuple[int, ...], str], Kind] = {}
        self._labels: dict[tuple[tuple[int, ...], str], list[str]] = {}
        self._texts: dict[tuple[int, str], list[str]] = defaultdict(list)
        for method, what, text in select(statements.METHOD_TEXTS):
            self._texts[method, what].append(text)

    def texts(self, methods: Iterable[int], what: str) -> list[str]:
        """Return the distinct texts of these methods."""
        return sorted({text for method in methods for text in self._texts[method, what]})

    def label(self, methods: tuple[int, ...], what: str) -> list[str]:
        """Return the texts of `texts`. They are kept, since many groups have the same methods."""
        if (methods, what) not in self._labels:
            self._labels[methods, what] = self.texts(methods, what)
        return self._labels[methods, what]

    def values(self, name: str) -> list[str]:
        """Return the distinct values of a column, but empty ones."""
        return sorted({row[name] for row in self.rows.values()} - {""})

    def kind(self, methods: tuple[int, ...], name: str) -> Kind:
        """Return the weakest kind of a figure by these methods."""
        if (methods, name) not in self._kinds:
            kinds = {self.rows[method][name] for method in methods} - {""}
            self._kinds[methods, name] = weakest(kinds)
        return self._kinds[methods, name]


class Group:
    """A row of a table: sums over its cells, and what moves them.

    `methods` has, by term, the methods of the scores with a figure for that term. `squares` has
    three numbers for each term of `EFFECT_TERMS`: the shift of its logarithm by certain changes,
    the sum of squares of changes below it, and the sum of squares of changes above it. In groups
    that keep inputs, `effects` has the changes by input.
    """

    def __init__(self, month: str, methods: Methods) -> None:
        self._month, self._methods = month, methods
        self.numbers: Sequence[float] = [0.0] * len(ADDED)
        self.cells: list[Cell] = []
        self.methods: dict[str, list[int]] = {term: [] for term in TERMS}
        self.squares = np.zeros((len(EFFECT_TERMS), 3))
        self.effects: dict[str, dict[str, Effect]] = {term: {} for term in EFFECT_TERMS}
        self._figures: dict[str, Quantity | None] = {}

    def __getitem__(self, name: str) -> float:
        """Return a sum over the cells, by its name in `statements.ADDED`."""
        return self.numbers[_NUMBERS[name]]

    def inputs(self, term: str) -> dict[str, Effect]:
        """Return what moves a sum; one input for all where the group does not keep them."""
        effects, value = dict(self.effects[term]), self.value(term)
        shift, below, above = map(float, self.squares[EFFECT_TERMS.index(term)])
        if shift:
            effects["shift"] = shift, shift
        if below or above:
            effects["inputs"] = -math.sqrt(below), math.sqrt(above)
        for part in ("operational_g", "embodied_g") if term == "total_g" else (term,):
            low, high = (math.sqrt(self[f"{part}_own_{end}"]) for end in ("low", "high"))
            if low or high:
                # The own inputs of a job's energy are those of its carbon, but for the hardware.
                name = f"own:{self._month}" + (":embodied" if part == "embodied_g" else "")
                effects[name] = math.log1p(-low / value), math.log1p(high / value)
        return effects

    def value(self, term: str) -> float:
        """Return the sum of a term, where it is known."""
        return self["operational_g"] + self["embodied_g"] if term == "total_g" else self[term]

    def figure(self, term: str) -> Quantity | None:
        """Return a term of `EFFECT_TERMS` over the jobs; None where none is known."""
        if term not in self._figures:
            self._figures[term] = self._figure(term)
        return self._figures[term]

    def _figure(self, term: str) -> Quantity | None:
        if term == "total_g":
            operational, embodied = self.figure("operational_g"), self.figure("embodied_g")
            if not (operational and embodied):
                return None
            value = operational.value + embodied.value
            if self["operational_g_plain"] or self["embodied_g_plain"] or value <= 0:
                return operational + embodied
            both = operational, embodied
            kind, sources = weakest(of.kind for of in both), join_sources(both)
            return of_effects(value, self.inputs(term), operational.unit, kind, *sources)
        if not self[f"{term}_known"]:
            return None
        value, unit = self[term], TERMS[term]
        kind, sources = self._label(term)
        if self[f"{term}_plain"] or not (self[f"{term}_low"] or self[f"{term}_high"]):
            low, high = self[f"{term}_low"], self[f"{term}_high"]
            return of_sources(value, min(low, value), max(high, value), unit, kind, sources)
        return of_effects(value, self.inputs(term), unit, kind, *sources)

    def bare(self, term: str) -> Quantity | None:
        """Return a term as documents publish it."""
        return bare(self.figure(term))

    def condensed(self, term: str, rest: str) -> Quantity | None:
        """Return a term with the effects of its inputs, the small ones as one by the id `rest`."""
        figure = self.figure(term)
        return figure.condensed(rest) if figure else None

    def _label(self, term: str) -> tuple[Kind, list[str]]:
        name, methods = term.partition("_")[0], tuple(self.methods[term])
        if name in ("operational", "embodied"):
            kind = self._methods.kind(methods, f"{name}_kind")
            return kind, self._methods.label(methods, name)
        by_kind = {kind: self[column] for column, kind in ENERGY_KINDS.items()}
        amount = sum(by_kind.values())
        kind, sources = kind_of_sum(by_kind) if amount > 0 else "declared", ["energy"]
        if name == "facility":
            kind = weakest((kind, self._methods.kind(methods, "pue_kind")))
            sources = ["energy", "pue"]
        return kind, [text for what in sources for text in self._methods.label(methods, what)]

    def terms(self) -> dict[str, Any]:
        """Return E, O, M and their total, as the tables have them."""
        return {term: self.bare(term) for term in (*JOB_TERMS, "total_g")}

    def totals(self) -> MonthTotals:
        """Return the sums with the number of jobs."""
        jobs, ended, unknown = (int(self[n]) for n in ("jobs", "jobs_ended", "jobs_unknown"))
        terms = self.terms()
        return MonthTotals(**terms, jobs=jobs, jobs_ended=ended, jobs_unknown=unknown)

    def amounts(self, block: str) -> dict[str, float]:
        """Return the amounts of a block of data quality, that are not zero."""
        return {name: self[column] for column, name in BLOCKS[block].items() if self[column]}


class Groups:
    """The groups of each table, by its name and the row's key.

    `rows_of_cell` says in which rows of tables the jobs of a cell count. The groups of the tables
    in `keeps` keep the effects of inputs.
    """

    def __init__(
        self,
        month: str,
        select: Select,
        methods: Methods,
        rows_of_cell: Callable[[Cell], Iterable[tuple[str, Key]]],
        keeps: Collection[str] = (),
    ) -> None:
        self._groups: dict[str, dict[Key, Group]] = defaultdict(dict)
        self._empty, self._all = Group(month, methods), list[Group]()
        self._keeping = set[int]()
        self.cells, numbers = _cells(select)
        number: dict[tuple[str, Key], int] = {}
        flat, sizes = array("q"), array("q")
        for cell in self.cells:
            rows = list(rows_of_cell(cell))
            for table, key in rows:
                if (table, key) not in number:
                    number[table, key] = len(self._all)
                    self._all.append(self._groups[table].setdefault(key, Group(month, methods)))
                    if table in keeps:
                        self._keeping.add(number[table, key])
                place = number[table, key]
                self._all[place].cells.append(cell)
                flat.append(place)
            sizes.append(len(rows))
        if self.cells:
            self._places = np.frombuffer(flat, dtype=np.int64)
            self._sizes = np.frombuffer(sizes, dtype=np.int64)
            self._starts = np.cumsum(self._sizes) - self._sizes
            self._add(numbers)
            self._move(select)

    def table(self, name: str) -> dict[Key, Group]:
        """Return the groups of a table in the order of their keys."""
        return dict(sorted(self._groups[name].items()))

    def one(self, name: str, key: Key = ()) -> Group:
        """Return a group; an empty one where no job is in it."""
        return self._groups[name].get(key, self._empty)

    def _add(self, numbers: Any) -> None:
        """Add up the numbers of the cells of each group."""
        of_cell = np.repeat(np.arange(len(self.cells)), self._sizes)
        sums = _sums(self._places, (of[of_cell] for of in numbers.T), len(self._all))
        for group, of_group in zip(self._all, sums.tolist(), strict=True):
            group.numbers = of_group
        values = sums[:, [_NUMBERS[term] for term in TERMS]]
        self._values = np.column_stack((values, values[:, 2] + values[:, 3]))
        methods = list(dict.fromkeys(cell["method"] for cell in self.cells))
        number = {method: n for n, method in enumerate(methods)}
        pairs = self._places * len(methods)
        pairs += np.array([number[cell["method"]] for cell in self.cells])[of_cell]
        for term in TERMS:
            is_known = numbers[of_cell, _NUMBERS[f"{term}_known"]] > 0
            for pair in np.unique(pairs[is_known]).tolist():
                place, method = divmod(pair, len(methods))
                self._all[place].methods[term].append(methods[method])

    def _move(self, select: Select) -> None:
        """Take in what each input changes, portion by portion in the order of inputs."""
        cell_of = {cell["traits"]: place for place, cell in enumerate(self.cells)}
        squares = np.zeros((len(self._all), len(EFFECT_TERMS), 3))
        for rows in _portions(select(statements.EFFECTS)):
            rows = [row for row in rows if row[1] in cell_of]  # others are scored meanwhile
            if not rows:
                continue
            of_input, traits, *columns = zip(*rows, strict=True)
            names = list(dict.fromkeys(of_input))
            number = {name: n for n, name in enumerate(names)}
            cells = np.array([cell_of[of] for of in traits])
            inputs = np.array([number[name] for name in of_input])
            changes = np.array(columns, dtype=float)
            # Each row counts in all groups of its cell: numbers of rows, and of groups.
            sizes = self._sizes[cells]
            of_row = np.repeat(np.arange(len(rows)), sizes)
            first = np.repeat(self._starts[cells] - np.cumsum(sizes) + sizes, sizes)
            groups = self._places[first + np.arange(len(first))]
            pairs, place = np.unique(inputs[of_row] * len(self._all) + groups, return_inverse=True)
            summed = _sums(place, (of[of_row] for of in changes), len(pairs))
            # The total is O and M, the last two of the terms.
            summed = np.column_stack((summed, summed[:, 4:6] + summed[:, 6:8]))
            self._take(names, pairs, summed.reshape(len(pairs), len(EFFECT_TERMS), 2), squares)
        for group, of_group in zip(self._all, squares, strict=True):
            group.squares = of_group

    def _take(self, names: Sequence[str], pairs: Any, changes: Any, squares: Any) -> None:
        """Add the effects of inputs to the squares of groups, or to what they keep.

        `pairs` are numbers of inputs times the number of groups, and of groups.
        """
        groups = pairs % len(self._all)
        values = self._values[groups][:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            effects = np.where(values > 0, np.log1p(changes / values), 0.0)
        keeps = np.isin(groups, list(self._keeping))
        for n in np.flatnonzero(keeps):
            kept, name = self._all[groups[n]].effects, names[pairs[n] // len(self._all)]
            for term, (low, high) in zip(EFFECT_TERMS, effects[n].tolist(), strict=True):
                if low or high:
                    kept[term][name] = low, high
        groups, low, high = groups[~keeps], effects[~keeps, :, 0], effects[~keeps, :, 1]
        certain = low == high
        below, above = np.minimum(low, high).clip(max=0.0), np.maximum(low, high).clip(min=0.0)
        parts = np.where(certain, low, 0.0), *(np.where(certain, 0, x**2) for x in (below, above))
        for place, part in enumerate(parts):
            squares[:, :, place] += _sums(groups, part.T, len(squares))


def _sums(places: Any, columns: Iterable[Any], size: int) -> Any:
    """Return the sums of each column's values that have the same place, a row a place."""
    return np.column_stack([np.bincount(places, column, size) for column in columns])


def _portions(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Yield rows in portions, each with all rows of its inputs."""
    portion: list[Sequence[Any]] = []
    for _, of_input in groupby(rows, key=itemgetter(0)):
        portion += of_input
        if len(portion) >= PORTION:
            yield portion
            portion = []
    if portion:
        yield portion


def _cells(select: Select) -> tuple[list[Cell], Any]:
    """Return the jobs of a scope by all their traits, and an array of what is added over them."""
    cells, numbers = list[Cell](), array("d")
    counts = {name: 1 + len(TRAITS) + _NUMBERS[name] for name in ("jobs", "jobs_unknown")}
    for row in select(statements.CELLS):
        cell = dict(zip(("traits", *TRAITS), row, strict=False))
        cells.append(cell | {name: int(row[place]) for name, place in counts.items()})
        numbers.extend(row[1 + len(TRAITS) :])
    return cells, np.frombuffer(numbers, dtype=float).reshape(-1, len(ADDED))
