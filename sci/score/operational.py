"""Operational emissions: O = sum over intervals of E_k x I(zone, t_k) x PUE of the node.

ISO/IEC 21031 (SCI specification v1.1), "Operational emissions"; never mean E times mean I. One pass
over the intervals sums energy by meter, kind and cell, so that ranges are worked out once per sum
and not once per interval. A cell is an intensity point, or the part of it in one day.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import cached_property
from itertools import pairwise
from math import fsum, isfinite
from operator import add, mul

from msgspec import Struct

from gramwatt.sci.figures.days import DAY, day_of, midnight
from gramwatt.sci.figures.meters import Sensor, energy, sensors, unread
from gramwatt.sci.figures.quantity import KINDS, Kind, Quantity, join_sources, kind_of_sum, total
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.grid.intensity import IntensityTrack, Provenance, aligned, split
from gramwatt.sci.records.merge import DeviceKey, MergedDevice
from gramwatt.sci.records.records import UNREAD_W, IntervalRecord
from gramwatt.sci.score.identify import IdentifiedJob

Site = tuple[IntensityTrack, Quantity]
"""Intensity and PUE of nodes."""
Sums = Mapping[tuple[str, Kind, int], Sequence[float]]
"""Energy [J] of cells in order, by meter, kind and number of the site."""
_KINDS: Mapping[str, Kind] = {kind: kind for kind in KINDS}
_Emitted = tuple[Provenance, float, float]
"""Energy [J] with intensity of one provenance, and the sum of energy x intensity [J g/kWh]."""


class DeviceEnergy(Struct, frozen=True, dict=True):
    """Energy [J] of one device, read by `meter`: by kind, and by point of its site's track.

    `unread` is what of it is of time in which the device was not read.
    """

    sensor: Sensor
    meter: str
    by_kind: Mapping[Kind, float]
    track: IntensityTrack
    by_point: Sequence[float]
    unread: Quantity | None = None

    @cached_property
    def energy_j(self) -> Quantity | None:
        """Energy [J]; None where nothing was read."""
        return _of_kinds({(self.meter, kind): self.reading(kind) for kind in self.by_kind})

    def reading(self, kind: Kind) -> Quantity:
        """Return the energy of a kind [J]."""
        return reading(self.by_kind[kind], kind, self.meter, self.sensor, self.unread)


class JobEnergy(Struct, frozen=True, dict=True):
    """Energy of a job joined with intensity.

    A *site* is a zone and a PUE. The tracks of all sites have the same edges, those of the cells;
    `days` has the first cell of each day and the one after its last. `tracks` are those of the
    sites before they were cut at the edges of days. `site_of` has the sites of nodes that have one
    of their own; the rest have the first.
    """

    tracks: Sequence[IntensityTrack]
    sites: Sequence[Site]
    devices: Mapping[DeviceKey, DeviceEnergy]
    sums: Sums
    site_of: Mapping[str, int]
    days: Mapping[date, tuple[int, int]]

    @cached_property
    def joule(self) -> Mapping[tuple[str, Kind], Quantity]:
        """1 J as the devices of each meter and kind read it, each as much as it has of the sum."""
        readings: dict[tuple[str, Kind], list[Quantity]] = defaultdict(list)
        for device in self.devices.values():
            for kind, joules in device.by_kind.items():
                if joules > 0:
                    readings[device.meter, kind].append(device.reading(kind))
        sums = {key: total(of_key) for key, of_key in readings.items()}
        return {
            key: figure.scaled(1 / figure.value)
            for key, figure in sums.items()
            if figure and isfinite(1 / figure.value)  # not of a figure below any joule
        }

    def _reading(self, joules: float, meter: str, kind: Kind) -> Quantity:
        joule = self.joule.get((meter, kind))
        return joule.scaled(joules) if joule else energy(joules, kind, meter)

    @cached_property
    def by_kind(self) -> dict[str, float]:
        """Energy [J] by the way it is known."""
        joules_of: dict[str, float] = defaultdict(float)
        for (_, kind, _), joules in self.sums.items():
            joules_of[kind] += sum(joules)
        return dict(joules_of)

    @cached_property
    def by_site(self) -> Sequence[Sequence[float]]:
        """Energy [J] of the cells of each site."""
        rows: list[list[Sequence[float]]] = [[] for _ in self.sites]
        for (_, _, site), joules in self.sums.items():
            rows[site].append(joules)
        return [_added(of_site, len(self.sites[0][0])) for of_site in rows]

    def by_point(self) -> Iterator[tuple[IntensityTrack, Sequence[float]]]:
        """Yield the track of each site as it was looked up, and the energy [J] of its points."""
        for track, (cut, _), joules in zip(self.tracks, self.sites, self.by_site, strict=True):
            yield track, _by_point(joules, track, cut)

    @cached_property
    def track(self) -> IntensityTrack:
        """The track of the first site, which is that of the job as a whole."""
        return self.tracks[0]

    @cached_property
    def days_read(self) -> Sequence[date]:
        """The days in which energy was read, in order."""
        rows = self.sums.values()
        return [
            day for day, (first, end) in self.days.items() if any(any(r[first:end]) for r in rows)
        ]

    def by_quality(self) -> dict[str, float]:
        """Return energy [J] by the quality of the intensity that it was joined with."""
        joules_of: dict[str, float] = defaultdict(float)
        for provenance, joules, _ in self._joined([1.0] * len(self.sites)):
            joules_of[provenance.quality] += joules
        return dict(joules_of)

    def energy_j(self, day: date | None = None) -> Quantity | None:
        """Return energy [J] of the job or of one day; None where nothing was read.

        Its kind is the one that nine tenths of it reach; its range is that of all its parts.
        """
        by_meter: dict[tuple[str, Kind], float] = defaultdict(float)
        for (meter, kind, _), joules in self._sums(day).items():
            by_meter[meter, kind] += sum(joules)
        return _of_kinds({key: self._reading(joules, *key) for key, joules in by_meter.items()})

    def operational_g(self, day: date | None = None) -> Quantity | None:
        """Return O [gCO2e] = sum(E x I x PUE), of the job or of one day; None without energy."""
        first = self.days[day][0] if day is not None and day in self.days else 0
        return self.emitted_g(self._sums(day), first)

    def emitted_g(self, sums: Sums, first: int) -> Quantity | None:
        """Return the same of other energy, in cells from `first` on; None without any."""
        pues = [pue for _, pue in self.sites]
        alike = [pues.index(of_site) for of_site in pues]  # sites of one PUE are one term
        terms: dict[tuple[str, Kind, int], list[_Emitted]] = defaultdict(list)
        for (meter, kind, site), joules in sums.items():
            terms[meter, kind, alike[site]] += _emitted(self.sites[site][0], joules, first)
        emitted = total(
            self._reading(1.0, meter, kind)
            .times(_weighted(rows, 1 / J_PER_KWH, "gCO2e"), "gCO2e")
            .times(pues[number], "gCO2e")
            for (meter, kind, number), rows in terms.items()
        )
        if emitted is None:
            return None
        sources = [
            text
            for (meter, _, _), rows in terms.items()
            for text in (meter, *join_sources(provenance.figure for provenance, _, _ in rows))
        ]
        factors = join_sources(pues[number] for _, _, number in terms)
        return emitted.sourced(*dict.fromkeys([*sources, *factors]))

    @cached_property
    def pue(self) -> Quantity:
        """PUE of the job: the mean of the nodes' weighted by energy; the first without any."""
        by_pue: dict[Quantity, float] = defaultdict(float)
        for (_, pue), joules in zip(self.sites, self.by_site, strict=True):
            by_pue[pue] += sum(joules)
        read = {pue: joules for pue, joules in by_pue.items() if joules}
        whole = sum(read.values())
        if len(read) < 2:
            return next(iter(read), self.sites[0][1])
        mean = total(pue.scaled(joules / whole, "1") for pue, joules in read.items())
        assert mean is not None  # there are two
        return mean.sourced(f"mean of the nodes, weighted by energy: {mean.source}")

    @cached_property
    def mean_intensity(self) -> Quantity:
        """Intensity weighted by the facility's energy, E x PUE [gCO2e/kWh].

        So E x I x PUE is O also where nodes differ in both. The first point's where no energy is
        known.
        """
        several = len({pue for _, pue in self.sites}) > 1
        return self._mean_intensity([pue.value if several else 1.0 for _, pue in self.sites])

    def zone_intensity(self, number: int) -> Quantity:
        """Return the energy-weighted intensity of a zone, by its number among the sites'."""
        tracks = list(dict.fromkeys(track for track, _ in self.sites))[number]
        return self._mean_intensity([float(track is tracks) for track, _ in self.sites])

    def _mean_intensity(self, factors: Sequence[float]) -> Quantity:
        rows = self._joined(factors)
        whole = sum(joules for _, joules, _ in rows)
        if whole <= 0:
            return self.track[0].intensity
        return _weighted(rows, 1 / whole, "gCO2e/kWh")

    def _joined(self, factors: Sequence[float]) -> list[_Emitted]:
        """Return energy of all sites, times a factor for each, with its intensity by provenance."""
        return [
            (provenance, joules * factor, weighted * factor)
            for (track, _), of_site, factor in zip(self.sites, self.by_site, factors, strict=True)
            for provenance, joules, weighted in _emitted(track, of_site)
            if joules * factor > 0
        ]

    def _sums(self, day: date | None) -> Sums:
        """Return energy of the cells of a day, where there is any; of all cells for None."""
        if day is None:
            return self.sums
        first, end = self.days.get(day, (0, 0))
        sums = {key: joules[first:end] for key, joules in self.sums.items()}
        return {key: joules for key, joules in sums.items() if any(joules)}


def join(identified: IdentifiedJob) -> JobEnergy:
    """Join every interval of a job with the intensity and PUE of its node's place.

    Raises ScoreError for intensity of another signal or basis than the context's, and where it does
    not cover the job.
    """
    job, place, context = identified.job, identified.place, identified.context
    read = [device.intervals for device in job.devices if device.intervals]
    start = min((intervals[0].start for intervals in read), default=job.started_at)
    end = max((intervals[-1].end for intervals in read), default=job.last_seen)
    zones = place.zones or (None,)
    tracks = [IntensityTrack.of(context.intensity.points(zone, start, end)) for zone in zones]
    for track in tracks:
        track.require(context.signal, context.basis)
    if len(tracks) > 1 and start < end:
        tracks = aligned(tracks, start, end)
    of_zone = dict(zip(zones, tracks, strict=True))
    zone_of, pue_of = dict(place.nodes), dict(place.pues)
    by_node = {
        node.name: (of_zone[zone_of.get(node.name, zones[0])], pue_of.get(node.name, place.pue))
        for node in job.nodes
        if node.name in zone_of or node.name in pue_of
    }
    return join_sites(job.devices, (tracks[0], place.pue), by_node, context.zone)


def join_sites(
    devices: Iterable[MergedDevice],
    whole: Site,
    by_node: Mapping[str, Site] | None = None,
    zone: tzinfo = UTC,
) -> JobEnergy:
    """Join every interval of `devices` with the intensity points of a site, by days of `zone`.

    `by_node` has the sites of the nodes where they differ, with tracks aligned with that of
    `whole`. Raises ScoreError where the points do not cover an interval.
    """
    distinct = list(dict.fromkeys([whole, *(by_node or {}).values()]))
    numbers = {site: number for number, site in enumerate(distinct)}
    days = _days(whole[0], zone)
    cut = {of_site: of_site.cut(days) for of_site, _ in distinct}
    sites = [(cut[of_site], pue) for of_site, pue in distinct]
    devices, read = list(devices), dict[DeviceKey, DeviceEnergy]()
    sensor_of = sensors_of(devices)
    sums: dict[tuple[str, Kind, int], list[float]] = {}
    for device in devices:
        meter, site = device.record.meter, (by_node or {}).get(device.record.node, whole)
        cells = by_cell(device.intervals, cut[site[0]].edges)
        for kind, joules in cells.items():
            key = meter, kind, numbers[site]
            sums[key] = list(map(add, sums[key], joules)) if key in sums else joules
        by_kind = {kind: sum(joules) for kind, joules in cells.items()}
        by_point = _by_point(_added(cells.values(), len(cut[site[0]])), site[0], cut[site[0]])
        sensor = sensor_of[device.record.name]
        unread = unread_of(device.intervals, meter, device.identity)
        read[device.key] = DeviceEnergy(sensor, meter, by_kind, site[0], by_point, unread)
    edges = sites[0][0].edges
    starts = [*(bisect_left(edges, day) for day in days), len(edges) - 1]
    spans = {day_of(edges[first], zone): (first, end) for first, end in pairwise([0, *starts])}
    site_of = {node: numbers[site] for node, site in (by_node or {}).items()}
    tracks = [of_site for of_site, _ in distinct]
    return JobEnergy(tracks, sites, read, sums, site_of, spans)


def _days(track: IntensityTrack, zone: tzinfo) -> list[datetime]:
    """Return the midnights within a track, in order."""
    midnights = [midnight(day_of(track.edges[0], zone) + DAY, zone)]
    while midnights[-1] < track.edges[-1]:
        midnights.append(midnight(day_of(midnights[-1], zone) + DAY, zone))
    return midnights[:-1]


def by_cell(
    intervals: Iterable[IntervalRecord], edges: Sequence[datetime]
) -> dict[Kind, list[float]]:
    """Return joules of each cell between edges, by kind; an interval across cells is cut by time.

    Raises ScoreError for one that the edges do not cover.
    """
    cells: dict[str, list[float]] = defaultdict(lambda: [0.0] * (len(edges) - 1))
    for interval in intervals:
        amounts = cells[interval.kind]
        for number, share in split(edges, interval.start, interval.end):
            amounts[number] += interval.energy_j * share
    return {_KINDS[kind]: amounts for kind, amounts in cells.items()}


def _added(rows: Iterable[Sequence[float]], count: int) -> Sequence[float]:
    """Return the sum of rows of `count` numbers, number by number."""
    summed: Sequence[float] | None = None
    for row in rows:
        summed = row if summed is None else list(map(add, summed, row))
    return [0.0] * count if summed is None else summed


def _by_point(
    joules: Sequence[float], track: IntensityTrack, cut: IntensityTrack
) -> Sequence[float]:
    """Return joules by the track's points, out of those of its cells where it was cut."""
    if track is cut:
        return joules
    places = [bisect_left(cut.edges, edge) for edge in track.edges]
    return [sum(joules[first:end]) for first, end in pairwise(places)]


def _emitted(track: IntensityTrack, joules: Sequence[float], first: int = 0) -> list[_Emitted]:
    """Return energy in cells from `first` on with their intensity, by provenance.

    What was read may be zero: it then has the first provenance.
    """
    amounts_of: dict[Provenance, tuple[float, float]] = {}
    for start, end, provenance in track.runs_within(first, first + len(joules)):
        of_run = joules[start - first : end - first]
        energy, weighted = amounts_of.get(provenance, (0.0, 0.0))
        if any(of_run):
            weighted += fsum(map(mul, of_run, track.values[start:end]))
            amounts_of[provenance] = energy + fsum(of_run), weighted
    rows = [(provenance, *amounts) for provenance, amounts in amounts_of.items()]
    return rows or [(next(track.runs_within(first, first + 1)).known, 0.0, 0.0)]


def _weighted(rows: Iterable[_Emitted], factor: float, unit: str) -> Quantity:
    """Return the sum of energy x intensity x factor in `unit`."""
    joined: dict[Provenance, tuple[float, float]] = {}
    for provenance, joules, weighted in rows:
        before = joined.get(provenance, (0.0, 0.0))
        joined[provenance] = before[0] + joules, before[1] + weighted
    weighted_sum = total(
        provenance.scaled(weighted * factor, joules * factor, unit)
        for provenance, (joules, weighted) in joined.items()
    )
    assert weighted_sum is not None  # no caller has no rows
    return weighted_sum


def sensors_of(devices: Iterable[MergedDevice]) -> dict[str, Sensor]:
    """Return whose energy is read, by the name of the devices of a job."""
    rows = list(devices)
    named = ((device.record.name, device.identity) for device in rows)
    return sensors(rows[0].record.job_id, named) if rows else {}


def reading(
    joules: float, kind: Kind, meter: str, sensor: Sensor, unread: Quantity | None
) -> Quantity:
    """Return energy [J] of a kind, of which `unread` is of time in which nothing was read."""
    if unread is None or kind != "estimated":
        return energy(joules, kind, meter, sensor)
    return energy(max(0.0, joules - unread.value), kind, meter, sensor) + unread


def unread_of(intervals: Iterable[IntervalRecord], meter: str, device: str) -> Quantity | None:
    """Return the energy of intervals in which the device was not read; None without any."""
    spans = [interval for interval in intervals if UNREAD_W in interval.profile]
    if not spans:
        return None
    most_j = fsum(interval.profile[UNREAD_W] * interval.length_s for interval in spans)
    return unread(fsum(interval.energy_j for interval in spans), most_j, meter, device)


def _of_kinds(readings: Mapping[tuple[str, Kind], Quantity]) -> Quantity | None:
    """Return the sum of readings by meter and kind, of the kind that nine tenths of it reach."""
    figure = total(readings.values())
    if figure is None:
        return None
    by_kind: dict[Kind, float] = defaultdict(float)
    for (_, kind), reading in readings.items():
        by_kind[kind] += reading.value
    return figure.of_kind(kind_of_sum(by_kind))
