"""The parts of many jobs as arrays, read in portions so that memory stays small."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gramwatt.service.rollups.part import (
    COUNT,
    EFFECT,
    FIGURE,
    HEAD,
    INTERPLAY,
    NAMES,
    QUALITY,
    PartRow,
    name_number,
)
from gramwatt.service.rollups.sums import Figures, Floats, Ints, Uncertainties, spans

_WIDTHS = (FIGURE, INTERPLAY, EFFECT, COUNT, QUALITY)
_ENDED, _KNOWN, _GRAMS, _DAYS = 5, 6, 7, 8


class Numbering:
    """Texts, or pairs of them, by the order in which they were first met."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}

    def of(self, things: Iterable[Any]) -> Ints:
        """The numbers of these things."""
        return np.array([self.number.setdefault(one, len(self.number)) for one in things], np.int64)

    @property
    def things(self) -> list[Any]:
        """What was met, by number."""
        return list(self.number)


class Names:
    """The names of inputs as 64-bit numbers, and those of their beginnings (`part.name_number`)."""

    def __init__(self, names: Ints, bases: Ints) -> None:
        self.names, self.bases = names, bases

    def of(self, text: str) -> int:
        """The place of a name, added where it is new."""
        number = name_number(text)
        found = np.flatnonzero(self.names == number)
        if not len(found):
            self.names, self.bases = (np.append(a, number) for a in (self.names, self.bases))
            return len(self.names) - 1
        return int(found[0])


@dataclass(frozen=True, slots=True)
class Rows:
    """Amounts of jobs: the job's place, a day, what is counted by number, and how much."""

    job: Ints
    day: Ints
    what: Ints
    amount: Floats


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a month's jobs, which are numbered in order of start and id.

    `trait` is the number of each job's texts in `traits`; `grams` is its whole total, 0 where it is
    not `known`. `days` have a part of a job. Of the figures: `job`, `day` (0: the month), `term`
    and the number of the `label`. `names` are those of the inputs that uncertainties number.
    """

    keys: list[int]
    traits: list[dict[str, Any]]
    trait: Ints
    ended: Ints
    known: Ints
    grams: Floats
    days: list[int]
    job: Ints
    day: Ints
    term: Ints
    label: Ints
    figures: Figures
    uncertain: Uncertainties
    names: Names
    counts: Rows
    quality: Rows
    labels: list[tuple[str, str]]
    units: list[str]
    keys_of_quality: list[tuple[str, str]]


class _Texts:
    """Texts of parts, parsed once each, with their labels, units and keys numbered for all."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.traits: list[dict[str, Any]] = []
        self.labels, self.units, self.keys = Numbering(), Numbering(), Numbering()
        self._maps: list[tuple[Ints, Ints, Ints]] = []

    def of(self, text: str) -> int:
        """The number of a part's texts."""
        found = self.number.get(text)
        if found is None:
            found = self.number[text] = len(self.traits)
            trait = json.loads(text)
            self.traits.append(trait)
            labels, keys = (map(tuple, trait[name]) for name in ("labels", "quality"))
            maps = self.labels.of(labels), self.units.of(trait["units"]), self.keys.of(keys)
            self._maps.append(maps)
        return found

    def mapped(self, which: int, trait: Ints, local: Ints) -> Ints:
        """Numbers of labels (0), units (1) or keys (2) for all, of those in the parts' texts."""
        sizes = np.array([len(maps[which]) for maps in self._maps], np.int64)
        if not len(local):
            return local
        whole = np.concatenate([maps[which] for maps in self._maps])
        mapped: Ints = whole[(np.cumsum(sizes) - sizes)[trait] + local]
        return mapped


def read_parts(portions: Iterable[Sequence[PartRow]]) -> Parts:
    """The parts of `portions` as arrays."""
    texts = _Texts()
    who: list[tuple[int, str, int, int]] = []
    tables = [[table] for table in _tables([], 0, 0)]
    jobs = uncertain = 0
    for portion in portions:
        who += [(r.started_us, r.job_id, r.job, texts.of(r.texts)) for r in portion]
        read = _tables([row.numbers for row in portion], jobs, uncertain)
        jobs, uncertain = jobs + len(portion), uncertain + len(read[2])
        for table, rows in zip(tables, read, strict=True):
            table.append(rows)
    joined = []
    for table in tables:
        joined.append(np.concatenate(table))
        table.clear()
    order = sorted(range(len(who)), key=who.__getitem__)
    return _arranged([who[n] for n in order], np.argsort(order), texts, joined)


def _tables(blobs: Sequence[bytes], jobs: int, uncertain: int) -> list[Any]:
    """Heads, then each table of these parts with the number of the job before its rows.

    Numbers of uncertainties count on from `uncertain`.
    """
    whole = np.frombuffer(b"".join(blobs), dtype=np.float64)
    lengths = np.array([len(blob) // 8 for blob in blobs], np.int64)
    at = np.cumsum(lengths) - lengths
    head = whole[at[:, None] + np.arange(HEAD)]
    sizes = head[:, : len(_WIDTHS)].astype(np.int64)
    job = np.arange(jobs, jobs + len(blobs))
    at = at + HEAD
    found: list[Any] = [head]
    for number, width in enumerate(_WIDTHS):
        rows = whole[spans(at, sizes[:, number] * width)].reshape(-1, width)
        owner = np.repeat(job, sizes[:, number])
        found.append(np.column_stack((owner, rows)))
        at = at + sizes[:, number] * width
    names = whole.view(np.int64)[spans(at, sizes[:, 2] * NAMES)].reshape(-1, NAMES)
    first = np.cumsum(sizes[:, 1]) - sizes[:, 1] + uncertain
    found[1][:, 4] += first[found[1][:, 0].astype(np.int64) - jobs]
    found[3][:, 1] += first[found[3][:, 0].astype(np.int64) - jobs]
    return [*found, names]


def _arranged(
    who: Sequence[tuple[int, str, int, int]], rank: Ints, texts: _Texts, tables: Sequence[Any]
) -> Parts:
    """The tables with the jobs in order; `rank` is the place of each that was read."""
    head, figures, interplay, effects, counts, quality, inputs = tables
    trait = np.array([row[3] for row in who], np.int64)
    in_order = head[np.argsort(rank)]
    whole = {name: _rows(table, rank) for name, table in (("counts", counts), ("quality", quality))}
    job = rank[figures[:, 0].astype(np.int64)]
    label = texts.mapped(0, trait[job], figures[:, 3].astype(np.int64))
    names, first, number = np.unique(inputs[:, 0], return_index=True, return_inverse=True)
    sizes = np.bincount(effects[:, 1].astype(np.int64), minlength=len(interplay))
    return Parts(
        keys=[row[2] for row in who],
        traits=texts.traits,
        trait=trait,
        ended=in_order[:, _ENDED].astype(np.int64),
        known=in_order[:, _KNOWN].astype(np.int64),
        grams=in_order[:, _GRAMS],
        days=[d for d in range(1, 32) if (in_order[:, _DAYS].astype(np.int64) >> d & 1).any()],
        job=job,
        day=figures[:, 1].astype(np.int64),
        term=figures[:, 2].astype(np.int64),
        label=label,
        figures=Figures(
            figures[:, 5].copy(),
            figures[:, 6].copy(),
            figures[:, 7].copy(),
            figures[:, 4].astype(np.int64),
        ),
        uncertain=Uncertainties(
            firsts=np.cumsum(sizes) - sizes,
            sizes=sizes,
            names=number,
            low=effects[:, 2].copy(),
            high=effects[:, 3].copy(),
            interplay=interplay[:, 1:],
        ),
        names=Names(names, inputs[first, 1]),
        counts=_numbered(whole["counts"], texts, trait, 1),
        quality=_numbered(whole["quality"], texts, trait, 2),
        labels=texts.labels.things,
        units=texts.units.things,
        keys_of_quality=texts.keys.things,
    )


def _rows(table: Any, rank: Ints) -> tuple[Ints, Any]:
    return rank[table[:, 0].astype(np.int64)], table


def _numbered(rows: tuple[Ints, Any], texts: _Texts, trait: Ints, which: int) -> Rows:
    job, table = rows
    what = texts.mapped(which, trait[job], table[:, -2].astype(np.int64))
    day = table[:, 1].astype(np.int64) if table.shape[1] > 3 else np.zeros(len(job), np.int64)
    return Rows(job, day, what, table[:, -1])
