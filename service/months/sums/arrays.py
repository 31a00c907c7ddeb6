"""The parts of many jobs as arrays, read in portions so that memory stays small."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramwatt.sci.base.quantity import Kind
from gramwatt.service.months.sums.figures import Effects, Figures, Floats, Ints, spans
from gramwatt.service.months.sums.part import (
    COUNT,
    EFFECT,
    FIGURE,
    HEAD,
    IDS,
    QUALITY,
    PartRow,
    id_number,
    unpack_texts,
)

_TABLES = (
    ("figures", FIGURE, 4),
    ("effects", EFFECT, 1),
    ("counts", COUNT, 2),
    ("quality", QUALITY, 1),
)
"""Tables in their order, their width, and how many of its first columns are whole numbers."""
_ENDED, _KNOWN, _GRAMS, _DAYS = range(4)


class Numbering:
    """Texts, or pairs of them, by the order in which they were first met."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}

    def of(self, things: Iterable[Any]) -> Ints:
        """Return the numbers of these things."""
        return np.array([self.number.setdefault(one, len(self.number)) for one in things], np.int64)

    @property
    def things(self) -> list[Any]:
        """Return what was met, by number."""
        return list(self.number)


class Ids:
    """The ids of inputs as 64-bit numbers, and those of their annual values (`part.id_number`)."""

    def __init__(self, ids: Ints, annual: Ints) -> None:
        self.ids, self.annual = ids, annual

    def of(self, text: str) -> int:
        """Return the place of an id, added where it is new."""
        number = id_number(text)
        found = np.flatnonzero(self.ids == number)
        if not len(found):
            self.ids, self.annual = (np.append(a, number) for a in (self.ids, self.annual))
            return len(self.ids) - 1
        return int(found[0])


Label = tuple[Kind, *tuple[str, ...]]
"""Kind and sources of figures."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Amounts of jobs: the job's place, the day of a count, what it is by number, and how much."""

    job: NDArray[np.int32]
    day: Ints
    what: NDArray[np.int32]
    amount: Floats


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Parts:
    """The parts of a month's jobs, which are numbered in order of start and id.

    `attributes_of` is the number of each job's texts in `attributes`; `grams` is its whole total, 0
    where it is not `known`. `days` have a part of a job. Of the figures: `job`, `day` (as in
    `part`), `term` and the number of the `label`. `inputs` are the ids that
    effects number. `totals` are sums that were made (`totals.by_job`).
    """

    keys: Ints
    ids: list[str]
    attributes: list[dict[str, Any]]
    attributes_of: Ints
    ended: Ints
    known: Ints
    grams: Floats
    days: list[int]
    job: Ints
    day: Ints
    term: Ints
    label: Ints
    figures: Figures
    moved: Effects
    inputs: Ids
    counts: Rows
    quality: Rows
    labels: list[Label]
    units: list[str]
    keys_of_quality: list[tuple[str, str]]
    totals: dict[Any, Any] = field(default_factory=dict)

    def whole_rows(self, term: int) -> Ints:
        """Return the row of each job's figure of the month in a term; -1 where it is not known."""
        rows = np.flatnonzero((self.term == term) & (self.day <= 0))
        found = np.full(len(self.keys), -1)
        found[self.job[rows]] = rows
        return found


def grouped(
    parts: Parts, of_attributes: Callable[[dict[str, Any]], Hashable | None]
) -> tuple[list[Any], Ints, Ints]:
    """Return the groups in order, and the jobs that are in one with their cells."""
    named = [of_attributes(of_job) for of_job in parts.attributes]
    groups = sorted({name for name in named if name is not None})  # type: ignore[type-var]
    number: dict[Any, int] = {name: n for n, name in enumerate(groups)}
    cell = np.array([number.get(name, -1) for name in named], np.int64)[parts.attributes_of]
    jobs = np.flatnonzero(cell >= 0)
    return groups, jobs, cell[jobs]


def values(parts: Parts, term: int) -> Floats:
    """Return a term of each job in the month; NaN where it is not known."""
    rows = parts.whole_rows(term)
    return np.where(rows >= 0, np.append(parts.figures.value, np.nan)[rows], np.nan)


class _Texts:
    """Texts of parts, parsed once each, with their labels, units and keys numbered for all."""

    def __init__(self) -> None:
        self.number: dict[bytes, int] = {}
        self.attributes: list[dict[str, Any]] = []
        self.labels, self.units, self.keys = Numbering(), Numbering(), Numbering()
        self._maps: list[tuple[Ints, Ints, Ints]] = []

    def of(self, packed: Sequence[bytes]) -> Iterator[int]:
        """Return the number of each part's texts."""
        for new in [one for one in dict.fromkeys(packed) if one not in self.number]:
            self.number[new] = len(self.attributes)
            of_job = unpack_texts(new)
            self.attributes.append(of_job)
            labels, keys = (map(tuple, of_job[name]) for name in ("labels", "quality"))
            maps = self.labels.of(labels), self.units.of(of_job["units"]), self.keys.of(keys)
            self._maps.append(maps)
        return map(self.number.__getitem__, packed)

    def mapped(
        self, which: int, attributes_of: Ints, local: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Numbers of labels (0), units (1) or keys (2) for all, of those in the parts' texts."""
        sizes = np.array([len(maps[which]) for maps in self._maps], np.int64)
        if not len(local):
            return np.zeros(0, np.int32)
        whole = np.concatenate([maps[which] for maps in self._maps]).astype(np.int32)
        mapped: NDArray[np.int32] = whole[
            (np.cumsum(sizes) - sizes).astype(np.int32)[attributes_of] + local
        ]
        return mapped


@dataclass(frozen=True, slots=True)
class _Who:
    """Start, id, key and number of the texts of each job, as they were read."""

    starts_us: array[int]
    ids: list[str]
    keys: array[int]
    attributes_of: array[int]

    def add(self, portion: Sequence[PartRow], texts: _Texts) -> list[bytes]:
        """Add the jobs of a portion; their numbers."""
        keys, ids, starts_us, packed, numbers = zip(*portion, strict=True)
        self.keys.extend(keys)
        self.ids.extend(ids)
        self.starts_us.extend(starts_us)
        self.attributes_of.extend(texts.of(packed))
        return list(numbers)

    def order(self) -> Ints:
        """Return the jobs in order of start and id."""
        starts_us = np.array(self.starts_us, np.int64)
        order = np.argsort(starts_us, kind="stable")
        ordered = starts_us[order]
        # Few jobs start in the same microsecond: only theirs are compared by id.
        for start_us in np.unique(ordered[1:][np.diff(ordered) == 0]):
            first, end = np.searchsorted(ordered, [start_us, start_us + 1])
            order[first:end] = sorted(order[first:end], key=self.ids.__getitem__)
        return order


def read_parts(portions: Iterable[Sequence[PartRow]]) -> Parts:
    """Return the parts of `portions` as arrays."""
    texts = _Texts()
    who = _Who(array("q"), [], array("q"), array("q"))
    empty = _tables([], 0, 0, 0)
    # Buffers grow in place; many small arrays, joined in the end, would take twice the memory.
    buffers = {name: bytearray() for name in empty}
    moved = ids = 0
    for portion in portions:
        if not portion:
            continue
        jobs = len(who.keys)
        read = _tables(who.add(portion, texts), jobs, moved, ids)
        moved += len(read["sizes"])
        ids += len(read["ids"])
        for name, rows in read.items():
            buffers[name] += rows.tobytes()
    joined = {
        name: np.frombuffer(buffers.pop(name), like.dtype).reshape(-1, *like.shape[1:])
        for name, like in empty.items()
    }
    return _arranged(who, who.order(), texts, joined)


def _tables(blobs: Sequence[bytes], jobs: int, moved: int, ids: int) -> dict[str, Any]:
    """Return the tables of these parts, their whole numbers apart and as narrow as they may be.

    The first whole number of a row is its job's, from `jobs` on; those of sets of effects count
    on from `moved`, those of the ids of inputs from `ids`.
    """
    whole = np.frombuffer(b"".join(blobs), dtype=np.float64)
    lengths = np.fromiter(map(len, blobs), np.int64) // 8
    at = np.cumsum(lengths) - lengths
    head = whole[at[:, None] + np.arange(HEAD)]
    *sizes, sets = head[:, : len(_TABLES) + 1].astype(np.int64).T
    first = np.cumsum(sets) - sets + moved
    found: dict[str, Any] = {"head": head[:, len(_TABLES) + 1 :].copy()}
    at = at + HEAD
    for count, (name, width, integers) in zip(sizes, _TABLES, strict=True):
        rows = whole[spans(at, count * width)].reshape(-1, width)
        job = np.repeat(np.arange(len(blobs)), count)
        keys = np.column_stack((job + jobs, rows[:, :integers])).astype(np.int32)
        if name in ("figures", "effects"):
            keys[:, -1] += first[job].astype(np.int32)
        found[name], found[f"{name} of"] = rows[:, integers:].copy(), keys
        at = at + count * width
    of = found.pop("effects of")[:, -1] - moved
    inputs = whole.view(np.int64)[spans(at, sizes[1] * IDS)].reshape(-1, IDS)
    own = np.bincount(of, minlength=int(sets.sum()))
    found["mark"] = _marks(of, inputs[:, 0], found["effects"], len(own))
    kept, place = _distinct(found["mark"])
    found["figures of"][:, -1] = place[found["figures of"][:, -1] - moved] + moved
    at = spans((np.cumsum(own) - own)[kept], own[kept])
    found["effects"], inputs = found["effects"][at], inputs[at]
    found["mark"] = found["mark"][kept]
    found["sizes"] = own[kept].astype(np.int32)
    _, met, place = np.unique(inputs[:, 0], return_index=True, return_inverse=True)
    found["ids"], found["ids of"] = inputs[met], (place + ids).astype(np.int32)
    return found


def _marks(of: Ints, ids: Ints, effects: Floats, sets: int) -> Ints:
    """Return a number for each set of effects, out of its ids and effects.

    `of` are the sets that the entries belong to. Others have other numbers, but for one pair in
    10^19, as of ids.
    """
    entry = ids.view(np.uint64).copy()
    for column in effects.T:
        entry = _mixed(entry, column)
    found = np.zeros(sets, dtype=np.uint64)
    np.add.at(found, of, entry)
    return found.view(np.int64)


def _mixed(numbers: NDArray[np.uint64], column: Floats) -> NDArray[np.uint64]:
    """Return these numbers with those of a column mixed in (the finaliser of SplitMix64)."""
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15) + np.ascontiguousarray(column).view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _distinct(marks: Ints) -> tuple[Ints, Ints]:
    """Return the first of each of these numbers, and of each number its place among those."""
    _, first, place = np.unique(marks, return_index=True, return_inverse=True)
    return first, place


def _arranged(who: _Who, order: Ints, texts: _Texts, tables: dict[str, Any]) -> Parts:
    """Return the tables with the jobs in this order of those that were read."""
    rank = np.argsort(order)
    attributes_of = np.array(who.attributes_of, np.int64)[order]
    head = tables.pop("head")[order]
    inputs = tables.pop("ids")
    ids, first, number = np.unique(inputs[:, 0], return_index=True, return_inverse=True)
    sizes = tables.pop("sizes").astype(np.int64)
    effects, figures, keys = (tables.pop(name) for name in ("effects", "figures", "figures of"))
    job = rank[keys[:, 0]]
    kept, moved = _distinct(tables.pop("mark"))
    at = spans((np.cumsum(sizes) - sizes)[kept], sizes[kept])
    sizes = sizes[kept]
    flags = head[:, [_ENDED, _KNOWN, _DAYS]].astype(np.int64)
    return Parts(
        keys=np.array(who.keys, np.int64)[order],
        ids=[who.ids[n] for n in order.tolist()],
        attributes=texts.attributes,
        attributes_of=attributes_of,
        ended=flags[:, 0],
        known=flags[:, 1],
        grams=head[:, _GRAMS],
        days=[day for day in range(1, 32) if (flags[:, 2] >> day & 1).any()],
        job=job,
        day=keys[:, 1],
        term=keys[:, 2],
        label=texts.mapped(0, attributes_of[job], keys[:, 3]).astype(np.int64),
        figures=Figures(figures[:, 0], figures[:, 1], figures[:, 2], moved[keys[:, 4]]),
        moved=Effects(
            firsts=np.cumsum(sizes) - sizes,
            sizes=sizes,
            ids=number.astype(np.int32)[tables.pop("ids of")[at]],
            low=effects[at, 0],
            high=effects[at, 1],
        ),
        inputs=Ids(ids, inputs[first, 1]),
        counts=_numbered(tables, "counts", rank, texts, attributes_of),
        quality=_numbered(tables, "quality", rank, texts, attributes_of),
        labels=texts.labels.things,
        units=texts.units.things,
        keys_of_quality=texts.keys.things,
    )


def _numbered(
    tables: dict[str, Any], name: str, rank: Ints, texts: _Texts, attributes_of: Ints
) -> Rows:
    """Counts by day and unit, or shares by key of quality."""
    keys, which = tables[f"{name} of"], 1 if name == "counts" else 2
    job = rank[keys[:, 0]].astype(np.int32)
    what = texts.mapped(which, attributes_of[job], keys[:, -1])
    day = keys[:, 1].astype(np.int64) if name == "counts" else np.zeros(0, np.int64)
    return Rows(job, day, what, tables[name][:, 0])
