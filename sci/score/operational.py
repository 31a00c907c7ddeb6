"""Operational emissions: O = sum over intervals of E_k x I(zone, t_k), times PUE once.

SCI specification v1.1, "Operational emissions"; never mean E times mean I. The sum is kept in cells
of (device, kind of energy, intensity point), so that ranges are worked out once per cell and a job
of many intervals costs one pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from gramwatt.sci.base import uncertainty
from gramwatt.sci.base.quantity import KINDS, Kind, Quantity, prevailing, total
from gramwatt.sci.base.units import J_PER_KWH
from gramwatt.sci.grid.intensity import IntensityPoint, IntensityTrack
from gramwatt.sci.journal.merge import MergedDevice

Cell = tuple[str, Kind, int, date]
_KINDS: dict[str, Kind] = {kind: kind for kind in KINDS}


@dataclass(slots=True)
class EnergyCells:
    """Joules by (device, kind, intensity point, UTC day) of a job, and the devices' meters.

    `points` are those of `track`, followed by those of nodes in other zones: equally many for each
    zone, with the same edges, so that a point's number modulo that of `track` is its time.
    """

    track: IntensityTrack
    points: tuple[IntensityPoint, ...] = ()
    cells: dict[Cell, float] = field(default_factory=lambda: defaultdict(float))
    meters: dict[str, str] = field(default_factory=dict)
    _days: dict[date, list[tuple[Cell, float]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        devices: Iterable[MergedDevice],
        track: IntensityTrack,
        by_node: Mapping[str, IntensityTrack] | None = None,
    ) -> EnergyCells:
        """Join every interval of `devices` with the intensity points of `track`.

        `by_node` has the tracks of nodes in zones of their own, aligned with `track`.
        """
        others = {id(other): other for other in (by_node or {}).values() if other is not track}
        tracks = [track, *others.values()]
        offsets = {id(one): n * len(track.points) for n, one in enumerate(tracks)}
        joined = cls(track, tuple(point for one in tracks for point in one.points))
        for device in devices:
            joined.meters[device.record.device_id] = device.record.meter
            own = (by_node or {}).get(device.record.node, track)
            joined._add(device, own, offsets[id(own)])
        for cell, joules in joined.cells.items():
            joined._days.setdefault(cell[3], []).append((cell, joules))
        return joined

    def _add(self, device: MergedDevice, track: IntensityTrack, offset: int) -> None:
        """Intervals come in time order, so most lie within the same point as the one before."""
        points, cells, device_id = track.points, self.cells, device.record.device_id
        at, left, right = 0, points[0].start, points[0].end
        for interval in device.intervals:
            start, end = interval.start, interval.end
            kind, day = _KINDS[interval.kind], start.date()
            if left <= start and end <= right:
                cells[device_id, kind, offset + at, day] += interval.energy_j
                continue
            for at, share in track.split(start, end):
                cells[device_id, kind, offset + at, day] += interval.energy_j * share
            left, right = points[at].start, points[at].end

    def _of_day(self, day: date | None) -> Iterable[tuple[Cell, float]]:
        return self.cells.items() if day is None else self._days.get(day, ())

    def energy_j(self, *, device: str | None = None, day: date | None = None) -> Quantity | None:
        """Energy [J] of one device or day, or of the whole job; None where nothing was read.

        Its kind is the one that nine tenths of it reach; its range is that of all its parts.
        """
        sums: dict[tuple[str, Kind], float] = defaultdict(float)
        for (device_id, kind, _, _), joules in self._of_day(day):
            if device in (None, device_id):
                sums[device_id, kind] += joules
        summed = total(
            uncertainty.energy(joules, kind, self.meters[device_id])
            for (device_id, kind), joules in sums.items()
        )
        if summed is None:
            return None
        by_kind: dict[Kind, float] = defaultdict(float)
        for (_, kind), joules in sums.items():
            by_kind[kind] += joules
        return summed.sourced(summed.source, prevailing(by_kind))

    def operational_g(self, pue: Quantity, *, day: date | None = None) -> Quantity | None:
        """O [gCO2e] = sum(E x I) x PUE; None where no energy is known."""
        sums: dict[tuple[str, Kind, int], float] = defaultdict(float)
        for (device_id, kind, index, _), joules in self._of_day(day):
            sums[self.meters[device_id], kind, index] += joules
        emitted = total(
            uncertainty.energy(joules, kind, meter)
            .scaled(1 / J_PER_KWH, "kWh")
            .times(self.points[index].intensity, "gCO2e")
            for (meter, kind, index), joules in sums.items()
        )
        return emitted.times(pue, "gCO2e") if emitted else None

    def by_kind(self, device: str | None = None) -> dict[str, float]:
        """Joules by kind, of one device or of the job."""
        sums: dict[str, float] = defaultdict(float)
        for (device_id, kind, _, _), joules in self.cells.items():
            if device in (None, device_id):
                sums[kind] += joules
        return dict(sums)

    def by_quality(self) -> dict[str, float]:
        """Joules by the quality of the intensity they were joined with."""
        sums: dict[str, float] = defaultdict(float)
        for (_, _, index, _), joules in self.cells.items():
            sums[self.points[index].quality] += joules
        return dict(sums)

    def days(self) -> list[date]:
        """The UTC days with energy, in order."""
        return sorted({day for _, _, _, day in self.cells})

    def mean_intensity(self, zone: int | None = None) -> Quantity:
        """Energy-weighted intensity [gCO2e/kWh]; the plain first point where no energy is known.

        `zone` numbers one of several zones, in the order of their points; None means all.
        """
        weights: dict[int, float] = defaultdict(float)
        for (_, _, index, _), joules in self.cells.items():
            if zone in (None, index // len(self.track.points)):
                weights[index] += joules
        whole = sum(weights.values())
        if whole <= 0:
            return self.track.points[0].intensity
        mean = total(
            self.points[index].intensity.scaled(joules / whole) for index, joules in weights.items()
        )
        assert mean is not None  # weights is not empty when its sum is positive
        return mean
