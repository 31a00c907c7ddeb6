"""Operational emissions: O = sum over intervals of E_k x I(zone, t_k) x PUE of the node.

ISO/IEC 21031 (SCI specification v1.1), "Operational emissions"; never mean E times mean I. One pass
over the intervals sums energy by meter, kind, intensity point and UTC day, so that ranges are
worked out once per sum and not once per interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import cached_property
from itertools import chain

from gramwatt.sci.base import uncertainty
from gramwatt.sci.base.days import DAY, by_day, day_of, midnight
from gramwatt.sci.base.quantity import (
    KINDS,
    Kind,
    Quantity,
    join_sources,
    prevailing,
    total,
    weighted,
)
from gramwatt.sci.base.uncertainty import Sensors
from gramwatt.sci.base.units import J_PER_KWH
from gramwatt.sci.grid.intensity import IntensityPoint, IntensityTrack
from gramwatt.sci.journal.merge import DeviceKey, MergedDevice
from gramwatt.sci.journal.records import IntervalRecord

Site = tuple[IntensityTrack, Quantity | None]
"""Intensity and PUE of nodes; the PUE is None for all where one holds for the job."""
Sums = Mapping[tuple[str, Kind, int], float]
_KINDS: Mapping[str, Kind] = {kind: kind for kind in KINDS}


@dataclass(frozen=True)
class DeviceEnergy:
    """Energy [J] of one device, read by `meter`: by kind, and by intensity point."""

    device_id: str
    meter: str
    by_kind: Mapping[Kind, float]
    by_point: Mapping[int, float]

    @cached_property
    def energy_j(self) -> Quantity | None:
        """Energy [J]; None where nothing was read."""
        sums = {(self.meter, kind): joules for kind, joules in self.by_kind.items()}
        alone = Sensors(self.device_id, 1.0)
        return _energy_j(sums, dict.fromkeys(sums, alone))


@dataclass(frozen=True)
class JobEnergy:
    """Energy of a job joined with intensity.

    A *site* is a zone and a PUE. `sums` [J] are by meter, kind and number of the point, `of_day`
    those of each day. `points` are those of each site in turn: equally many for each, with the
    same edges, so that a point's number divided by the number of points of `track` gives its site
    and, as remainder, its time.
    """

    track: IntensityTrack
    sites: Sequence[Site]
    points: Sequence[IntensityPoint]
    devices: Mapping[DeviceKey, DeviceEnergy]
    sums: Sums
    of_day: Mapping[date, Sums]

    @cached_property
    def sensors(self) -> Mapping[tuple[str, Kind], Sensors]:
        """The devices of each meter and kind."""
        found: dict[tuple[str, Kind], dict[str, float]] = defaultdict(dict)
        for device in self.devices.values():
            for kind, joules in device.by_kind.items():
                found[device.meter, kind][device.device_id] = joules
        return {key: Sensors.of(joules) for key, joules in found.items()}

    @cached_property
    def by_kind(self) -> dict[str, float]:
        """Energy [J] by the way it is known."""
        found: dict[str, float] = defaultdict(float)
        for (_, kind, _), joules in self.sums.items():
            found[kind] += joules
        return dict(found)

    @cached_property
    def by_point(self) -> dict[int, float]:
        """Energy [J] by intensity point."""
        found: dict[int, float] = defaultdict(float)
        for (_, _, index), joules in self.sums.items():
            found[index] += joules
        return dict(found)

    def by_quality(self) -> dict[str, float]:
        """Energy [J] by the quality of the intensity that it was joined with."""
        found: dict[str, float] = defaultdict(float)
        for index, joules in self.by_point.items():
            found[self.points[index].quality] += joules
        return dict(found)

    def energy_j(self, day: date | None = None) -> Quantity | None:
        """Energy [J] of the job or of one day; None where nothing was read.

        Its kind is the one that nine tenths of it reach; its range is that of all its parts.
        """
        by_meter: dict[tuple[str, Kind], float] = defaultdict(float)
        for (meter, kind, _), joules in self._sums(day).items():
            by_meter[meter, kind] += joules
        return _energy_j(by_meter, self.sensors)

    def operational_g(self, pue: Quantity, day: date | None = None) -> Quantity | None:
        """O [gCO2e] = sum(E x I x PUE), of the job or of one day; None where no energy is known.

        `pue` holds for all where no site has one of its own.
        """
        sums = self._sums(day)
        pues = [of_site or pue for _, of_site in self.sites]
        first = [pues.index(of_site) for of_site in pues]  # sites of one PUE are one term
        terms: dict[tuple[str, Kind, int], list[tuple[float, Quantity]]] = defaultdict(list)
        for (meter, kind, index), joules in sums.items():
            term = joules / J_PER_KWH, self.points[index].intensity
            terms[meter, kind, first[self._site(index)]].append(term)
        emitted = total(
            uncertainty.energy(1.0, kind, meter, self.sensors.get((meter, kind)))
            .times(_weighted(of_meter, "gCO2e"), "gCO2e")
            .times(pues[number], "gCO2e")
            for (meter, kind, number), of_meter in terms.items()
        )
        if emitted is None:
            return None
        sources = ((meter, self.points[index].intensity.source) for meter, _, index in sums)
        factors = (pues[number].source for _, _, number in terms)
        return emitted.sourced(join_sources(chain(chain.from_iterable(sources), factors)))

    def pue(self, otherwise: Quantity) -> Quantity:
        """PUE of the job: the mean of the nodes' weighted by energy.

        It is `otherwise` where no site has one of its own, or no energy is known.
        """
        if len(self.sites) == 1:
            return self.sites[0][1] or otherwise
        joules: dict[Quantity, float] = defaultdict(float)
        for index, of_point in self.by_point.items():
            joules[self.sites[self._site(index)][1] or otherwise] += of_point
        whole = sum(joules.values())
        if len(joules) < 2 or whole <= 0:
            return next(iter(joules), otherwise)
        mean = _weighted([(part / whole, of_site) for of_site, part in joules.items()], "1")
        return mean.sourced(f"mean of the nodes, weighted by energy: {mean.source}")

    @cached_property
    def mean_intensity(self) -> Quantity:
        """Intensity weighted by the facility's energy, E x PUE [gCO2e/kWh].

        So E x I x PUE is O also where nodes differ in both. The first point's where no energy is
        known.
        """
        factors = [pue.value if pue else 1.0 for _, pue in self.sites]
        return self._mean_intensity(
            {index: joules * factors[self._site(index)] for index, joules in self.by_point.items()}
        )

    def zone_intensity(self, number: int) -> Quantity:
        """Energy-weighted intensity of one of several zones, by its number among the sites'."""
        asked = list(dict.fromkeys(track for track, _ in self.sites))[number]
        there = {
            index: joules
            for index, joules in self.by_point.items()
            if self.sites[self._site(index)][0] is asked
        }
        return self._mean_intensity(there)

    def _mean_intensity(self, weights: Mapping[int, float]) -> Quantity:
        whole = sum(weights.values())
        if whole <= 0:
            return self.track.points[0].intensity
        return _weighted(
            [(joules / whole, self.points[index].intensity) for index, joules in weights.items()],
            "gCO2e/kWh",
        )

    def _site(self, index: int) -> int:
        return index // len(self.track.points)

    def _sums(self, day: date | None) -> Sums:
        return self.sums if day is None else self.of_day.get(day, {})


def join(
    devices: Iterable[MergedDevice],
    track: IntensityTrack,
    by_node: Mapping[str, Site] | None = None,
    zone: tzinfo = UTC,
) -> JobEnergy:
    """Every interval of `devices` joined with the intensity points of `track`, by days of `zone`.

    `by_node` has the sites of the nodes where they differ, with tracks aligned with `track`. Raises
    ScoreError where the points do not cover an interval.
    """
    whole: Site = (track, None)
    sites = list(dict.fromkeys([whole, *(by_node or {}).values()]))
    numbers = {site: number for number, site in enumerate(sites)}
    points = tuple(point for site, _ in sites for point in site.points)
    energy: dict[DeviceKey, DeviceEnergy] = {}
    sums: dict[tuple[str, Kind, int], float] = defaultdict(float)
    of_day: dict[date, dict[tuple[str, Kind, int], float]] = {}
    for device in devices:
        meter, site = device.record.meter, (by_node or {}).get(device.record.node, whole)
        offset = numbers[site] * len(track.points)
        by_kind: dict[Kind, float] = defaultdict(float)
        by_point: dict[int, float] = defaultdict(float)
        for (name, index, day), joules in _cells(device.intervals, site[0], zone).items():
            kind, point = _KINDS[name], offset + index
            by_kind[kind] += joules
            by_point[point] += joules
            key = meter, kind, point
            sums[key] += joules
            if day not in of_day:
                of_day[day] = defaultdict(float)
            of_day[day][key] += joules
        energy[device.key] = DeviceEnergy(device.identity, meter, by_kind, by_point)
    return JobEnergy(track, sites, points, energy, sums, of_day)


def _cells(
    intervals: Iterable[IntervalRecord], track: IntensityTrack, zone: tzinfo
) -> dict[tuple[str, int, date], float]:
    """Joules by kind, number of the point and day; an interval across them is cut by time.

    Intervals come in time order, so most lie within the same point and day as the one before.
    """
    cells: dict[tuple[str, int, date], float] = defaultdict(float)
    left = right = day_end = datetime.min.replace(tzinfo=UTC)
    point, day = 0, left.date()
    points = track.points
    for interval in intervals:
        start, end = interval.start, interval.end
        if right <= start < end <= day_end and end <= (after := points[point + 1]).end:
            point, left, right = point + 1, after.start, min(after.end, day_end)
        if left <= start and end <= right:
            cells[interval.kind, point, day] += interval.energy_j
            continue
        for part_start, part_end in by_day(start, end, zone):
            day, of_interval = day_of(part_start, zone), (part_end - part_start) / (end - start)
            for point, share in track.split(part_start, part_end):
                cells[interval.kind, point, day] += interval.energy_j * of_interval * share
        left = max(track.points[point].start, midnight(day, zone))
        day_end = midnight(day + DAY, zone)
        right = min(track.points[point].end, day_end)
        if point + 1 == len(points):
            day_end = right  # no point follows
    return cells


def _weighted(terms: Sequence[tuple[float, Quantity]], unit: str) -> Quantity:
    """sum(weight x figure) in `unit` for exact weights of at least 0."""
    found = weighted(terms, unit)
    assert found is not None  # no caller has no terms
    return found


def _energy_j(
    sums: Mapping[tuple[str, Kind], float], sensors: Mapping[tuple[str, Kind], Sensors]
) -> Quantity | None:
    """Energy [J] out of joules by meter and kind, and the devices that they are of."""
    figure = total(
        uncertainty.energy(joules, kind, meter, sensors.get((meter, kind)))
        for (meter, kind), joules in sums.items()
    )
    if figure is None:
        return None
    by_kind: dict[Kind, float] = defaultdict(float)
    for (_, kind), joules in sums.items():
        by_kind[kind] += joules
    return figure.sourced(figure.source, prevailing(by_kind))
