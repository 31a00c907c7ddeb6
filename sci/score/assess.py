"""Assessment of a score: how well its inputs are known, its grade, status and notices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from math import fsum

from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.catalog.overlay import Overlay
from gramwatt.sci.figures.document import InputDoc, QualityDoc
from gramwatt.sci.figures.formatting import duration
from gramwatt.sci.figures.meters import relative_range
from gramwatt.sci.figures.notices import CODES, Notice
from gramwatt.sci.figures.quantity import KINDS, METERED, Quantity
from gramwatt.sci.grid.intensity import IntensityTrack
from gramwatt.sci.grid.plausible import remark
from gramwatt.sci.grid.zones import Supply, ZoneIntensity
from gramwatt.sci.records.merge import MergedJob
from gramwatt.sci.records.records import HOST_CLASSES, IntervalRecord
from gramwatt.sci.records.times import joules_text
from gramwatt.sci.score.functional_unit import ScoredJob
from gramwatt.sci.score.windows import window_notices

PUBLISHED_TIERS = ("A", "B")
FINE_QUALITIES = ("measured", "hourly")
"""Qualities of intensity that came, hourly or finer; others were expected, or are of a year."""
ZONE_QUALITIES = ("measured", "hourly", "estimated", "forecast", "profile", "annual")
GRADE_NEEDS: tuple[tuple[str, tuple[tuple[str, tuple[str, ...], float], ...]], ...] = (
    (
        "A",
        (
            ("energy", ("measured",), 0.9),
            ("intensity", FINE_QUALITIES, 0.9),
            ("embodied", PUBLISHED_TIERS, 0.9),
        ),
    ),
    ("B", (("energy", ("measured",), 0.7), ("intensity", ZONE_QUALITIES, 0.9))),
    ("C", (("energy", METERED, 0.5),)),
)
"""Grades from the best on, and the least share of each block that must be of these kinds."""
STATUSES = ("conforming", "conforming-with-deviations", "not-sci")
"""Best first."""
SUPPLIES: dict[Supply, str] = {
    "grid": "the grid",
    "off-grid": "the own supply, not connected to a grid",
}
RECORD_FAULTS = (
    *("records-outside", "times-contradict", "clock-set-back", "identity-conflict"),
    *("power-impossible", "records-refused"),
)
"""Codes of notices on records that cannot all be true, each a deviation of the score."""
POWER_MARGIN, COUNTER_STEP_S = 1.5, 10.0
"""How far above its limit a board's mean power may be read, overclocked ones too; and for how much
longer [s] the energy of an interval may be, since counters step."""
GAP_SHARE, GAP_S = 0.1, 60.0
"""Time without readings that a score names: more than this share of what was reserved, and [s]."""


class Input(Struct, frozen=True):
    """One input figure of a score, as `InputDoc` has it; `ids` are those that move it."""

    symbol: str
    name: str
    figure: Quantity
    of: str | None = None
    count: int = 1
    ids: tuple[str, ...] = ()

    def to_doc(self) -> InputDoc:
        """Return this input as JSON-ready data."""
        alike = f" ({self.count} alike)" if self.count > 1 else ""
        figure = self.figure.bare()
        return InputDoc(
            what=f"{self.name}{alike}",
            figure=figure,
            name=self.name,
            symbol=self.symbol,
            of=self.of,
            count=self.count,
            ids=list(self.ids),
        )


class Conformance(Struct, frozen=True):
    """Whether a score may be called an SCI, and its faults and deviations."""

    status: str
    deviations: tuple[str, ...]


class Assessment(Struct, frozen=True):
    """What is to be said of a score: its data quality, status, inputs with sources, and notices."""

    quality: QualityDoc
    status: Conformance
    inputs: list[Input]
    notices: list[Notice]


def assess(scored: ScoredJob) -> Assessment:
    """Return the grade and status of a score, its inputs, and everything that leaves a notice."""
    energy, embodied = scored.energy, scored.embodied
    figures = inputs(scored)
    lost = [Notice("job-lost", CODES["job-lost"])] if scored.job.state == "lost" else []
    notices = dict.fromkeys(
        (
            *_place_notices(scored),
            *_energy_notices(scored),
            *scored.unit_notices,
            *window_notices(scored.job),
            *scored.job.notices,
            *embodied.notices,
            *_intensity_notices(scored),
            *overlay_notices(
                ((row.name, row.figure) for row in figures), scored.context.catalog.overlay
            ),
            *lost,
        )
    )
    graded = quality(
        energy.by_kind, energy.by_quality(), embodied.by_tier(), complete=scored.complete
    )
    sentences = dict.fromkeys(CODES[n.code] for n in notices if n.code in RECORD_FAULTS)
    status = conformance(_faults(scored), (*scored.place.deviations, *sentences))
    return Assessment(graded, status, figures, list(notices))


def _faults(scored: ScoredJob) -> list[str]:
    """Return why a score is no SCI: each "shall" of the standard that is not met."""
    unknown = unknown_terms(scored.energy_kwh, scored.embodied_g)
    synthetic = ["readings come from a synthetic meter, not from hardware"]
    faults = [*scored.place.faults, *(scored.place.annual_faults if _of_world(scored) else ())]
    return [*(synthetic if scored.synthetic else []), *faults, *unknown]


def _of_world(scored: ScoredJob) -> bool:
    """Return whether the world's intensity stands in for part of the job."""
    return any(run.known.quality == "world" for track in scored.energy.tracks for run in track.runs)


def unknown_terms(energy: Quantity | None, embodied: Quantity | None) -> list[str]:
    """Return which terms of a score are not known."""
    named = {"energy": energy, "embodied carbon": embodied}
    return [f"{name} is not known" for name, figure in named.items() if figure is None]


def _place_notices(scored: ScoredJob) -> list[Notice]:
    notices = list(scored.place.notices)
    if scored.synthetic and all(n.code != "meter-synthetic" for n in scored.job.notices):
        notices.append(Notice("meter-synthetic", CODES["meter-synthetic"], "energy_kwh"))
    return notices


def _energy_notices(scored: ScoredJob) -> list[Notice]:
    unread = [device.record for device in scored.job.devices if not device.intervals]
    notices = [
        Notice(
            "energy-unmeasured",
            f"No energy of {record.name} ({record.device_class}) was read.",
            f"devices.{record.device_id}.energy_j",
        )
        for record in unread
    ]
    notices += _gap_notices(scored.job)
    notices += _power_notices(scored)
    by_kind = scored.energy.by_kind
    if not by_kind and not unread:
        notices.append(Notice("energy-unmeasured", CODES["energy-unmeasured"], "energy_kwh"))
    estimated = by_kind.get("estimated", 0.0)
    if estimated and not _is_virtual(scored.job):
        share = estimated / sum(by_kind.values())
        which = "the energy that is known" if unread else "the energy"
        text = f"{share:.0%} of {which} is estimated by a model, not read from a meter."
        text += " The job's energy is not known as a whole." if unread else ""
        notices.append(Notice("energy-estimated", text, "energy_kwh"))
    return notices


def _power_notices(scored: ScoredJob) -> list[Notice]:
    """Return a notice for each accelerator with more energy than its board can draw."""
    notices = []
    for device in scored.job.devices:
        record, limit_w = device.record, scored.identified.limits_w.get(device.key)
        if limit_w is None:
            continue
        most_w, intervals = POWER_MARGIN * limit_w, device.intervals
        beyond = [
            interval
            for interval in intervals
            if interval.energy_j > most_w * (_length_s(interval) + COUNTER_STEP_S)
        ]
        if not beyond and intervals:
            span_s = (intervals[-1].end - intervals[0].start).total_seconds()
            energy_j = fsum(interval.energy_j for interval in intervals)
            beyond = list(intervals) if energy_j > most_w * (span_s + COUNTER_STEP_S) else []
        if beyond:
            energy_j = fsum(interval.energy_j for interval in beyond)
            length_s = fsum(map(_length_s, beyond))
            text = (
                f"{joules_text(energy_j)} of {record.name} ({record.device_id}) were read in "
                f"{duration(length_s)}, {energy_j / length_s:.0f} W, and its board draws at most "
                f"{limit_w:g} W. They count as they were read; check the meter."
            )
            notices.append(Notice("power-impossible", text, f"devices.{record.device_id}.energy_j"))
    return notices


def _length_s(interval: IntervalRecord) -> float:
    return (interval.end - interval.start).total_seconds()


def _is_virtual(job: MergedJob) -> bool:
    """Return whether all devices are those of virtual machines, which have no meter to make read.

    How the energy is known stands beside it all the same.
    """
    virtual = {device.record.node for device in job.devices if device.record.virtual}
    hosts = all(device.record.device_class in HOST_CLASSES for device in job.devices)
    read = all(device.intervals for device in job.devices)
    return hosts and read and virtual == {device.record.node for device in job.devices}


def _gap_notices(job: MergedJob) -> list[Notice]:
    """Return a notice of devices whose readings leave out much of the time they were reserved for.

    Of a running job more may come; host parts of a node whose module has them are no gap.
    """
    if job.ended_at is None:
        return []
    modules = {device.record.node for device in job.devices if device.record.includes_host}
    gaps = []
    for device in job.devices:
        record = device.record
        if not device.intervals or (record.device_class in HOST_CLASSES and record.node in modules):
            continue
        reserved_s = job.reserved_s(device.nodes)
        read_s = sum(((i.end - i.start) for i in device.intervals), timedelta()).total_seconds()
        if reserved_s - read_s > max(GAP_SHARE * reserved_s, GAP_S):
            gaps.append((read_s / reserved_s, record, read_s, reserved_s))
    if not gaps:
        return []
    _, record, read_s, reserved_s = min(gaps, key=lambda gap: gap[0])
    text = (
        f"Readings of {record.name} ({record.device_class}) cover {duration(read_s)} of the "
        f"{duration(reserved_s)} that it was reserved for; the energy of the rest is missing."
    )
    if more := len(gaps) - 1:
        text += f" The same applies to {more} more device{'s' if more > 1 else ''}."
    return [Notice("meter-gap", text, f"devices.{record.device_id}.energy_j")]


def _intensity_notices(scored: ScoredJob) -> list[Notice]:
    provenances = [run.known for track in scored.energy.tracks for run in track.runs]
    annual = [row.figure.source for row in provenances if row.quality == "annual"]
    tracks = scored.energy.tracks
    far = [notice for track in tracks for notice in _unlikely(track, scored.place.annual)]
    if not annual:
        return [*far, *(scored.place.annual_notices if _of_world(scored) else ())]
    names = {row.intensity.source: f"{row.name}, {row.year}" for row in scored.place.annual}
    texts = (
        f"Annual mean intensity ({names.get(source, source)}); `gramwatt import intensity` takes "
        "that of the hours."
        for source in dict.fromkeys(annual)
    )
    notices_of = [Notice("intensity-annual", text, "operational_g") for text in texts]
    return [*far, *notices_of, *scored.place.annual_notices]


def _unlikely(track: IntensityTrack, zones: Iterable[ZoneIntensity]) -> list[Notice]:
    """Return a notice of intensity that no grid has, or that its zone has at no such hours."""
    annual = None
    start, end = track.edges[0], track.edges[-1]
    if start < end and any(run.known.quality not in ("annual", "world") for run in track.runs):
        zone, hours = track.runs[0].known.zone, max((end - start) / timedelta(hours=1), 1.0)
        for row in (row for row in zones if row.zone == zone and not row.world_fallback):
            usual = row.over(hours, start)
            if not usual.low <= track.mean(start, end) <= usual.high:
                annual = row.intensity.value
    return remark(track.values, "operational_g", track.basis, annual)


def inputs(scored: ScoredJob) -> list[Input]:
    """Return every input figure of the score, in the order of the formula; equal ones once."""
    ids: dict[Input, list[str]] = defaultdict(list)
    counts: Counter[Input] = Counter()
    for row in _inputs(scored):
        alike = replace(row, figure=row.figure.bare())
        ids[alike] += row.figure.inputs
        counts[alike] += 1
    return [replace(row, count=n, ids=tuple(dict.fromkeys(ids[row]))) for row, n in counts.items()]


def _inputs(scored: ScoredJob) -> Iterator[Input]:
    for device in scored.job.devices:
        energy = scored.energy.devices[device.key]
        meter = device.record.meter
        if energy.energy_j is not None:
            ranges = [relative_range(kind, meter) for kind in KINDS if kind in energy.by_kind]
            evidence = "; ".join(quantity.source for quantity in ranges)
            source = f"{energy.energy_j.source} (range: {evidence})"
            name, figure = device.record.name, energy.energy_j.sourced(source)
            yield Input("E", f"energy of {name}", figure, name)
    supplied = SUPPLIES[scored.place.supply]
    yield Input("I", f"carbon intensity of {supplied}", scored.energy.mean_intensity)
    if scored.place.nodes and scored.energy.sums:
        for number, zone in enumerate(scored.place.zones):
            there = ", ".join(node for node, own in scored.place.nodes if own == zone)
            figure = scored.energy.zone_intensity(number)
            of = f"zone {zone} ({there})"
            yield Input("I", f"carbon intensity of {of}", figure, of)
    yield Input("PUE", "PUE", scored.energy.pue)
    nodes: dict[Quantity, list[str]] = defaultdict(list)
    for node, pue in scored.place.pues:
        nodes[pue].append(node)
    for pue, names in nodes.items():
        of = ", ".join(names)
        yield Input("PUE", f"PUE of {of}", pue, of)
    for share in scored.embodied.shares:
        of = share.of.label
        yield Input("TE", f"TE, embodied carbon of {of}", share.of.te.te_g, of)
        resource = Quantity.exact(
            share.of.fraction,
            "1",
            share.of.share_kind,
            "share reserved: reserved over total",
        )
        yield Input("RR/ToR", f"RR/ToR, share of {of}", resource, of)
    yield Input("EL", "EL, expected lifetime", scored.identified.life)
    for share in scored.embodied.shares:
        if share.of.life != scored.identified.life:
            of = share.of.label
            yield Input("EL", f"EL, expected lifetime of {of}", share.of.life, of)
    yield from _times_reserved(scored.job)


def _times_reserved(job: MergedJob) -> Iterator[Input]:
    """Yield TiR [s], with the nodes it holds for where they differ."""
    nodes: dict[float, list[str]] = defaultdict(list)
    for node in job.nodes:
        nodes[job.reserved_s([node.name])].append(node.name)
    for time_s, there in nodes.items():
        of = ", ".join(there) if len(nodes) > 1 else None
        figure = Quantity.exact(time_s, "s", "measured", "time reserved: start to end on the node")
        yield Input("TiR", f"TiR, time reserved{f' on {of}' if of else ''}", figure, of)


def overlay_notices(
    inputs: Iterable[tuple[str, Quantity]], overlay: Overlay | None
) -> list[Notice]:
    """Return a notice for every input (its name and figure) out of the user's overlay."""
    cited = overlay.cited if overlay else {}
    return [
        Notice("overlay-used", f"From the overlay: {what} ({cited[source]}).")
        for what, figure in inputs
        for source in figure.sources
        if source in cited
    ]


def shares(amounts: Mapping[str, float]) -> dict[str, float]:
    """Return each amount as a share of the whole (0 to 1); empty when the whole is zero."""
    whole = sum(amounts.values())
    return {key: amount / whole for key, amount in amounts.items()} if whole > 0 else {}


def quality(
    energy: Mapping[str, float],
    intensity: Mapping[str, float],
    embodied: Mapping[str, float],
    *,
    complete: bool = True,
) -> QualityDoc:
    """Return data quality out of energy [J] by kind and by intensity quality, and M [g] by tier.

    `complete` is false when a term of the score is unknown, which makes the grade D.
    """
    by_kind, by_quality, by_tier = shares(energy), shares(intensity), shares(embodied)
    return QualityDoc(
        grade=grade(by_kind, by_quality, by_tier) if complete else "D",
        energy=by_kind,
        intensity=by_quality,
        embodied=by_tier,
    )


def grade(
    energy: Mapping[str, float], intensity: Mapping[str, float], embodied: Mapping[str, float]
) -> str:
    """Return the grade, A to D, out of shares (docs/methodology.md).

    A: 90 % of energy measured, 90 % of it with hourly or finer intensity, embodied carbon from
    published studies. B: 70 % measured, 90 % with at least annual intensity of the zone. C: every
    term known, at least half of the energy read from a meter. D: mostly modelled, or a term is not
    known.
    """
    if not (energy and intensity and embodied):
        return "D"
    shares = {"energy": energy, "intensity": intensity, "embodied": embodied}
    for name, needs in GRADE_NEEDS:
        if all(sum_of(shares[block], kinds) >= least for block, kinds, least in needs):
            return name
    return "D"


def conformance(faults: Sequence[str], deviations: Sequence[str]) -> Conformance:
    """Return `not-sci` with any fault ("shall" not met), else by the deviations ("should")."""
    if faults:
        return Conformance("not-sci", (*faults, *deviations))
    if deviations:
        return Conformance("conforming-with-deviations", tuple(deviations))
    return Conformance("conforming", ())


def worst_status(statuses: Iterable[str]) -> str:
    """Return the least conforming status of several; raises ValueError for none."""
    return max(statuses, key=STATUSES.index)


def sum_of(amounts: Mapping[str, float], keys: Sequence[str]) -> float:
    """Return the sum of the amounts of these keys."""
    return sum(amounts.get(key, 0.0) for key in keys)
