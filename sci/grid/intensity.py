"""Grid carbon intensity over time: points, the look-up interface, and tracks of points.

Location-based only (SCI specification v1.1, "Carbon intensity"): there is no field for market-based
instruments. All points of a track have one signal (average or marginal) and one basis (lifecycle or
direct), so that a score never mixes them.

A month has thousands of points. So a track holds their edges and values as lists, and what
neighbours have in common once; a point is made when it is asked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from operator import mul, sub
from typing import Literal, NamedTuple, Protocol, overload

from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.figures.document import Quality
from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.figures.quantity import Quantity

Signal = Literal["average", "marginal"]
"""Average: emissions per kWh of the whole grid; marginal: emissions of one more kWh."""
Basis = Literal["lifecycle", "direct"]
"""Lifecycle: with fuel chains and construction of plants; direct: from the stack only."""


class IntensityPoint(Struct, frozen=True):
    """Intensity [gCO2e/kWh] of a zone over [start, end), with its signal, basis and quality.

    `series` is a name for how it was made, by whom and of what: all editions of it have one.
    """

    zone: str
    start: datetime
    end: datetime
    intensity: Quantity
    quality: Quality
    signal: Signal = "average"
    basis: Basis = "lifecycle"
    series: str = ""


class IntensityLookup(Protocol):
    """The source of intensity for the engine; implementations do the input and output."""

    def points(self, zone: str | None, start: datetime, end: datetime) -> Sequence[IntensityPoint]:
        """Return points in order that cover [start, end) without a gap; None is the world."""
        ...


class Provenance(Struct, frozen=True, eq=False):
    """What some points have in common: zone, quality, series, and a figure of which theirs are
    multiples.

    So they have one source and one relative range, and share one error.
    """

    zone: str
    quality: Quality
    figure: Quantity
    series: str = ""

    def scaled(self, weighted: float, weights: float, unit: str) -> Quantity:
        """Return the sum of weight x intensity in `unit`, from that sum and that of the weights."""
        figure = self.figure
        return figure.scaled(weighted / figure.value if figure.value else weights, unit)

    def at(self, value: float) -> Quantity:
        """Return the figure of a point with this value."""
        figure = self.figure
        if value == figure.value:
            return figure
        ratio = value / figure.value
        return replace(figure, value=value, low=figure.low * ratio, high=figure.high * ratio)


SAME = 1e-9
"""Ends of ranges that differ by less, relative to the value, are the same."""


class Run(NamedTuple):
    """The points from `first` up to `end`, without it, which have one provenance."""

    first: int
    end: int
    known: Provenance


class IntensityTrack(Sequence[IntensityPoint]):
    """Points in order, without gap or overlap, of one signal and basis.

    Point n has `values[n]` [gCO2e/kWh] from `edges[n]` to `edges[n + 1]`; each lies in one of
    `runs`, in order.
    """

    def __init__(
        self,
        edges: Sequence[datetime],
        values: Sequence[float],
        runs: Sequence[Run],
        signal: Signal = "average",
        basis: Basis = "lifecycle",
    ) -> None:
        self.edges, self.values, self.runs = edges, values, runs
        self.signal: Signal = signal
        self.basis: Basis = basis

    @classmethod
    def of(cls, points: Sequence[IntensityPoint]) -> IntensityTrack:
        """Return the track of points; raises ScoreError for none, a gap, an overlap or a mixture.

        A track is returned as it is.
        """
        if isinstance(points, IntensityTrack):
            return points
        if not points:
            raise ScoreError("no intensity for this span", code="no-intensity")
        for before, after in zip(points, points[1:], strict=False):
            if before.end != after.start:
                raise ScoreError(
                    f"intensity has a gap or overlap at {before.end}", code="intensity-gap"
                )
        if len({(point.signal, point.basis) for point in points}) > 1:
            raise ScoreError(
                "average and marginal, or lifecycle and direct, cannot share a score",
                code="mixed-intensity",
            )
        edges = [*(point.start for point in points), points[-1].end]
        values = [point.intensity.value for point in points]
        return cls(edges, values, list(_runs(points)), points[0].signal, points[0].basis)

    def require(self, signal: Signal, basis: Basis) -> None:
        """Raise ScoreError where the points have another signal or basis."""
        if (self.signal, self.basis) != (signal, basis):
            raise ScoreError(
                f"the score is asked for in {signal}, {basis} intensity, "
                f"and the data are {self.signal}, {self.basis}",
                code="mixed-intensity",
            )

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> IntensityPoint: ...
    @overload
    def __getitem__(self, index: slice) -> list[IntensityPoint]: ...
    def __getitem__(self, index: int | slice) -> IntensityPoint | list[IntensityPoint]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        run = self.runs[bisect_right(self.runs, number, key=lambda run: run.first) - 1]
        return self._point(number, run.known)

    def __iter__(self) -> Iterator[IntensityPoint]:
        for first, end, provenance in self.runs:
            for number in range(first, end):
                yield self._point(number, provenance)

    def _point(self, number: int, known: Provenance) -> IntensityPoint:
        start, end = self.edges[number], self.edges[number + 1]
        figure = known.at(self.values[number])
        about = known.quality, self.signal, self.basis, known.series
        return IntensityPoint(known.zone, start, end, figure, *about)

    def runs_within(self, first: int, end: int) -> Iterator[Run]:
        """Yield the runs of the points from `first` up to `end`, those at its ends cut."""
        number = bisect_right(self.runs, first, key=lambda run: run.first) - 1
        while number < len(self.runs) and self.runs[number].first < end:
            run = self.runs[number]
            yield Run(max(run.first, first), min(run.end, end), run.known)
            number += 1

    def mean(self, start: datetime, end: datetime) -> float:
        """Return the mean over [start, end) by time [gCO2e/kWh]; raises ScoreError as `split`."""
        first, last = bisect_left(self.edges, start), bisect_right(self.edges, end) - 1
        if first + 1 >= last:
            return sum(self.values[index] * share for index, share in split(self.edges, start, end))
        inner: float = sum(map(mul, self.values[first:last], self._lengths_s[first:last]))
        ends = (start, self.edges[first]), (self.edges[last], end)
        outer = sum(
            self.mean(left, right) * (right - left).total_seconds()
            for left, right in ends
            if left < right
        )
        return (inner + outer) / (end - start).total_seconds()

    @cached_property
    def _lengths_s(self) -> list[float]:
        return [length.total_seconds() for length in map(sub, self.edges[1:], self.edges)]

    def cut(self, moments: Iterable[datetime]) -> IntensityTrack:
        """Return the same with its points cut at moments, in order; itself where all are edges."""
        edges: list[datetime] = []
        values: list[float] = []
        starts: list[int] = []
        at = 0
        for moment in moments:
            place = bisect_left(self.edges, moment)
            if not 0 < place < len(self.edges) or self.edges[place] == moment:
                continue
            edges += [*self.edges[at:place], moment]
            values += [*self.values[at:place], self.values[place - 1]]
            starts.append(place)
            at = place
        if not starts:
            return self
        edges += self.edges[at:]
        values += self.values[at:]

        def moved(number: int) -> int:
            return number + bisect_right(starts, number)

        runs = [Run(moved(run.first), moved(run.end), run.known) for run in self.runs]
        return IntensityTrack(edges, values, runs, self.signal, self.basis)

    def between(self, start: datetime, end: datetime) -> IntensityTrack:
        """Return the points within [start, end), which are edges of this track."""
        first, last = bisect_left(self.edges, start), bisect_left(self.edges, end)
        runs = [
            Run(left - first, right - first, provenance)
            for left, right, provenance in self.runs_within(first, last)
        ]
        edges, values = self.edges[first : last + 1], self.values[first:last]
        return IntensityTrack(edges, values, runs, self.signal, self.basis)


def split(edges: Sequence[datetime], start: datetime, end: datetime) -> Iterator[tuple[int, float]]:
    """Yield the number of each cell between edges that [start, end) meets, and its share of it.

    Raises ScoreError when the edges do not cover the whole span.
    """
    if start < edges[0] or end > edges[-1]:
        raise ScoreError("intensity does not cover the whole job", code="intensity-gap")
    index, length = bisect_right(edges, start) - 1, end - start
    while edges[index] < end:
        left, right = max(start, edges[index]), min(end, edges[index + 1])
        yield index, (right - left) / length
        index += 1


def aligned(
    tracks: Sequence[IntensityTrack], start: datetime, end: datetime
) -> list[IntensityTrack]:
    """Return the tracks over [start, end), each split at the edges of all of them.

    They then have equally many points with the same edges, and their own intensities.
    """
    moments = {moment for track in tracks for moment in track.edges if start < moment < end}
    edges = sorted({*moments, start, end})
    return [track.cut(edges).between(start, end) for track in tracks]


def _runs(points: Sequence[IntensityPoint]) -> Iterator[Run]:
    """Yield points that follow each other and are alike but for their value, as runs.

    Figures of one source with the same relative range, as points of a series have, err together.
    """
    alike: dict[tuple[object, ...], Provenance] = {}
    first, current = 0, _provenance(points[0], alike)
    for number, point in enumerate(points):
        following = _provenance(point, alike)
        if following is not current:
            yield Run(first, number, current)
            first, current = number, following
    yield Run(first, len(points), current)


def _provenance(point: IntensityPoint, alike: dict[tuple[object, ...], Provenance]) -> Provenance:
    figure = point.intensity
    value, low, high = figure.value, figure.low, figure.high
    if not low > 0:
        key: tuple[object, ...] = (point.zone, point.quality, figure, id(figure))
        return alike.setdefault(key, Provenance(point.zone, point.quality, figure, point.series))
    moved = tuple(figure.effects.items()) if figure.effects is not None else None
    key = point.zone, point.quality, point.series, figure.kind, figure.source, moved
    provenance = alike.setdefault(key, Provenance(point.zone, point.quality, figure, point.series))
    ratio = value / provenance.figure.value
    if (
        abs(low - ratio * provenance.figure.low) + abs(high - ratio * provenance.figure.high)
        > SAME * value
    ):
        key = (*key, round(low / value, 9), round(high / value, 9))
        provenance = alike.setdefault(
            key, Provenance(point.zone, point.quality, figure, point.series)
        )
    return provenance
