"""The terms of a score as sums can be repeated from: energy by step, and each embodied share.

A step is one intensity point, or several neighbours where a job has more than the document should
carry: their intensity is then weighted by the device's own energy, so E x I stays the same sum.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

from gramwatt.sci.base.document import DeviceStepsDoc, EmbodiedTermDoc, StepsDoc
from gramwatt.sci.grid.intensity import IntensityPoint
from gramwatt.sci.journal.merge import MergedJob
from gramwatt.sci.journal.records import format_time
from gramwatt.sci.score.context import Parts

MAX_STEPS = 744
"""As many as a month has hours."""
MAX_CELLS = 20_000
"""Devices times steps that one document carries at most."""


def steps(parts: Parts) -> StepsDoc:
    """Energy [J] and joined intensity [gCO2e/kWh] of every device by step.

    Over all devices and steps, the sum of energy [kWh] x intensity x PUE is the operational term.
    """
    start, end = _span(parts.job)
    points = [p for p in parts.cells.track.points if p.start < end and p.end > start]
    if not points:
        return {"edges": [], "reserved_s": [], "devices": []}
    first = parts.cells.track.points.index(points[0])
    width = _width(len(points), len(parts.job.devices))
    groups = [points[n : n + width] for n in range(0, len(points), width)]
    edges = [start, *(group[0].start for group in groups[1:]), end]
    sums: dict[tuple[str, int], float] = defaultdict(float)
    weighted: dict[tuple[str, int], float] = defaultdict(float)
    for (device_id, _, index, _), joules in parts.cells.cells.items():
        key = (device_id, (index % len(parts.cells.track.points) - first) // width)
        sums[key] += joules
        weighted[key] += joules * parts.cells.points[index].intensity.value
    plain = [_mean(group) for group in groups]
    return {
        "edges": [format_time(edge) for edge in edges],
        "reserved_s": _reserved(parts.job, edges),
        "devices": [
            _device(device.record.device_id, sums, weighted, plain) for device in parts.job.devices
        ],
    }


def embodied_terms(parts: Parts) -> list[EmbodiedTermDoc]:
    """TE, TiR, EL, RR and ToR of every share of M, by those names."""
    return [
        {
            "device_id": share.device_id,
            "node": share.node,
            "label": share.label,
            "te_g": share.te.te_g.to_doc(),
            "tier": share.te.tier,
            "stages": share.te.stages,
            "time_reserved_s": parts.job.duration_s,
            "lifetime_years": share.life.value,
            "resources_reserved": share.reserved,
            "resources_total": share.total,
            "embodied_g": share.embodied_g.to_doc(),
        }
        for share in parts.embodied.shares
    ]


def _span(job: MergedJob) -> tuple[datetime, datetime]:
    moments = [job.started_at, job.ended_at or job.last_seen, job.last_seen]
    moments += [i.start for device in job.devices for i in device.intervals[:1]]
    return min(moments), max(moments)


def _width(points: int, devices: int) -> int:
    allowed = max(1, min(MAX_STEPS, MAX_CELLS // max(1, devices)))
    return max(1, -(-points // allowed))


def _device(
    device_id: str,
    sums: dict[tuple[str, int], float],
    weighted: dict[tuple[str, int], float],
    plain: list[float],
) -> DeviceStepsDoc:
    energy = [sums.get((device_id, step), 0.0) for step in range(len(plain))]
    return {
        "device_id": device_id,
        "energy_j": energy,
        "intensity_g_per_kwh": [
            weighted[device_id, step] / joules if joules else plain[step]
            for step, joules in enumerate(energy)
        ],
    }


def _mean(group: list[IntensityPoint]) -> float:
    """For a step without energy any intensity will do; this one is the plain mean."""
    return sum(point.intensity.value for point in group) / len(group)


def _reserved(job: MergedJob, edges: list[datetime]) -> list[float]:
    start, end = job.started_at, job.ended_at or job.last_seen
    return [
        max(0.0, (min(end, right) - max(start, left)).total_seconds())
        for left, right in zip(edges, edges[1:], strict=False)
    ]
