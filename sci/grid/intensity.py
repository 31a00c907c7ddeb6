"""Grid carbon intensity over time: points, the look-up interface, and the join with energy.

Location-based only (SCI specification v1.1, "Carbon intensity"): there is no field for market-based
instruments. All points of a track have one signal (average or marginal) and one basis (lifecycle or
direct), so that a score never mixes them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, Protocol

from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.quantity import Quantity

Quality = Literal["measured", "hourly", "estimated", "forecast", "profile", "annual", "world"]
"""How a point is known, best first: published or derived from what was generated; imported by the
user; filled in by a model; foreseen; typical for the hour; the mean of a year, or of the world."""
Signal = Literal["average", "marginal"]
"""Average: emissions per kWh of the whole grid; marginal: emissions of one more kWh."""
Basis = Literal["lifecycle", "direct"]
"""Lifecycle: with fuel chains and construction of plants; direct: from the stack only."""


@dataclass(frozen=True, slots=True)
class IntensityPoint:
    """Intensity [gCO2e/kWh] of a zone over [start, end), with its signal, basis and quality."""

    zone: str
    start: datetime
    end: datetime
    intensity: Quantity
    quality: Quality
    signal: Signal = "average"
    basis: Basis = "lifecycle"


class IntensityLookup(Protocol):
    """The source of intensity for the engine; implementations do the input and output."""

    def points(self, zone: str | None, start: datetime, end: datetime) -> Sequence[IntensityPoint]:
        """Points in time order that cover [start, end) without a gap; None means the world."""
        ...


class IntensityTrack:
    """Points of one zone in order, without gap or overlap, of one signal and basis.

    Raises ScoreError for points that are not.
    """

    def __init__(self, points: Sequence[IntensityPoint]) -> None:
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
        self.signal: Signal = points[0].signal
        self.basis: Basis = points[0].basis
        self.points = tuple(points)
        self._starts = [point.start for point in self.points]

    def split(self, start: datetime, end: datetime) -> Iterator[tuple[int, float]]:
        """Yield each point's index that [start, end) overlaps, and the share of the span in it.

        Raises ScoreError when the points do not cover the whole span.
        """
        if start < self.points[0].start or end > self.points[-1].end:
            raise ScoreError("intensity does not cover the whole job", code="intensity-gap")
        index = bisect_right(self._starts, start) - 1
        length = end - start
        while index < len(self.points) and self.points[index].start < end:
            point = self.points[index]
            yield index, (min(end, point.end) - max(start, point.start)) / length
            index += 1


def aligned(
    tracks: Sequence[IntensityTrack], start: datetime, end: datetime
) -> list[IntensityTrack]:
    """The tracks over [start, end), each split at the edges of all of them.

    They then have equally many points with the same edges, and their own intensities.
    """
    edges = sorted({p.start for track in tracks for p in track.points if start < p.start < end})
    return [IntensityTrack(list(_cut(track, [start, *edges, end]))) for track in tracks]


def _cut(track: IntensityTrack, edges: Sequence[datetime]) -> Iterator[IntensityPoint]:
    for point in track.points:
        first, last = bisect_left(edges, point.start), bisect_right(edges, point.end)
        inside = [
            max(edges[0], point.start),
            *(edge for edge in edges[first:last] if point.start < edge < point.end),
            min(edges[-1], point.end),
        ]
        for left, right in zip(inside, inside[1:], strict=False):
            if left < right:
                yield replace(point, start=left, end=right)
