"""Samples to energy: steps between two readings, each with whose it is and how it is known.

A difference of an energy counter is `measured` while one job has the board. It is `attributed`
where several share it, and across a gap in the scrapes; `estimated` between two samples that belong
to different jobs, each of which gets the half of the time next to it. Power is `integrated`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from gramwatt.sci.figures.units import j_from_mj
from gramwatt.service.prometheus.client import Series
from gramwatt.service.prometheus.mapping import Work, named

ENERGY, POWER = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_POWER_USAGE"
POD_CPU, NODE_CPU = "kepler_pod_cpu_joules_total", "kepler_node_cpu_joules_total"
ZONES = {"package": "cpu", "dram": "ram"}
"""Kepler's zones that are used, by device class: psys holds both, core is in package."""
GAP = 3.0
"""So many times the usual distance of samples is a gap."""
SLICES = 7
"""Compute slices of a board with MIG."""
_PROFILE = re.compile(r"(?:\d+c\.)?(\d+)g\.")

Parts = tuple[tuple[Work, float], ...]


class Step(NamedTuple):
    """Energy [J] of a device for a job over [start, end) [Unix s]."""

    work: Work
    start_s: float
    end_s: float
    energy_j: float
    kind: str
    part: float = 1.0
    """The job's part (0, 1] of the device."""
    cut: bool = False
    """True where the device changed hands at an unknown moment: the job has from none of the
    energy between the two readings to twice this."""
    gap: bool = False
    """True where readings are missing in between."""


class Reading(NamedTuple):
    """A value of a device at a moment, who has it then, and its labels."""

    at_s: float
    value: float
    parts: Parts


@dataclass(slots=True)
class Track:
    """One device over all chunks: its last reading, and what was odd."""

    labels: Mapping[str, str]
    last: Reading | None = None
    usual_s: float = 0.0
    resets: int = 0
    nobody_j: float = 0.0
    """Energy that no rule gives to a job [J]."""

    def steps(
        self, readings: list[Reading], energy_j: Callable[[Reading, Reading], float], kind: str
    ) -> Iterator[Step]:
        """Yield the steps of these readings, in order of time, after those before."""
        if self.last is not None:
            readings = [self.last, *(one for one in readings if one.at_s > self.last.at_s)]
        if not readings:
            return
        self.last = readings[-1]
        distances = [b.at_s - a.at_s for a, b in pairwise(readings)]
        self.usual_s = median(distances) if distances else self.usual_s
        for before, after in pairwise(readings):
            joules = energy_j(before, after)
            if joules < 0:  # the driver was loaded anew: what was counted in between is not known
                self.resets += 1
                continue
            gap = after.at_s - before.at_s > GAP * self.usual_s
            self.nobody_j += joules
            for step in _divided(before, after, joules, kind, gap=gap):
                self.nobody_j -= step.energy_j
                yield step


def _divided(
    before: Reading, after: Reading, joules: float, kind: str, *, gap: bool
) -> Iterator[Step]:
    middle_s = (before.at_s + after.at_s) / 2
    if before.parts == after.parts:
        for work, part in before.parts:
            label = "attributed" if (part < 1 or gap) and kind == "measured" else kind
            label = "estimated" if gap and kind == "integrated" else label
            yield Step(work, before.at_s, after.at_s, joules * part, label, part, gap=gap)
        return
    for parts, start_s, end_s in (
        (before.parts, before.at_s, middle_s),
        (after.parts, middle_s, after.at_s),
    ):
        for work, part in parts:
            yield Step(work, start_s, end_s, joules * part / 2, "estimated", part, cut=True)


class Boards:
    """The boards of dcgm-exporter, one for each UUID however many rows it has."""

    def __init__(self, work: Callable[[Mapping[str, str]], Work | None]) -> None:
        self.tracks: dict[str, Track] = {}
        self.counted: set[str] = set()
        """Boards with an energy counter."""
        self._work = work

    def energy(self, series: list[Series]) -> Iterator[tuple[str, Step]]:
        """Yield steps of the energy counter [mJ] by board."""
        for uuid, readings in self._readings(series).items():
            self.counted.add(uuid)
            steps = self.tracks[uuid].steps(
                readings, lambda a, b: j_from_mj(b.value - a.value), "measured"
            )
            yield from ((uuid, step) for step in steps)

    def power(self, series: list[Series]) -> Iterator[tuple[str, Step]]:
        """Yield steps of power [W] by board, of those that have no counter."""
        for uuid, readings in self._readings(series).items():
            if uuid in self.counted:
                continue
            steps = self.tracks[uuid].steps(
                readings, lambda a, b: (a.value + b.value) / 2 * (b.at_s - a.at_s), "integrated"
            )
            yield from ((uuid, step) for step in steps)

    def _readings(self, series: list[Series]) -> dict[str, list[Reading]]:
        """Return one reading for each board and moment; slices and tenants repeat the board's."""
        rows: dict[str, dict[float, list[tuple[dict[str, str], float]]]]
        rows = defaultdict(lambda: defaultdict(list))
        for one in series:
            labels = named(one.labels)
            if not (uuid := labels.get("UUID")):
                continue
            self.tracks.setdefault(uuid, Track(labels))
            for at_s, value in one.samples:
                rows[uuid][at_s].append((labels, value))
        return {
            uuid: [
                Reading(at_s, moments[at_s][0][1], self._parts([row for row, _ in moments[at_s]]))
                for at_s in sorted(moments)
            ]
            for uuid, moments in rows.items()
        }

    def _parts(self, rows: list[dict[str, str]]) -> Parts:
        """Return who has which part of a board: slices by their profile, tenants equally."""
        slices = {row["GPU_I_ID"] for row in rows if row.get("GPU_I_ID")}
        found: dict[Work, float] = defaultdict(float)
        whose = [(row, self._work(row)) for row in rows]
        if slices:
            for number in slices:
                mine = [(row, work) for row, work in whose if row.get("GPU_I_ID") == number]
                part = _slice_part(mine[0][0], len(slices))
                works = dict.fromkeys(work for _, work in mine)
                for work in works:
                    if work:
                        found[work] += part / len(works)
        else:
            works = dict.fromkeys(work for _, work in whose)
            if len(works) > 1:  # the exporter has a row without a pod beside the others'
                works.pop(None, None)
            for work in works:
                if work:
                    found[work] = 1 / len(works)
        return tuple(sorted(found.items(), key=lambda item: item[0].job_id))


def _slice_part(row: Mapping[str, str], slices: int) -> float:
    match = _PROFILE.match(row.get("GPU_I_PROFILE", ""))
    return min(1.0, int(match[1]) / SLICES) if match else 1 / slices


class Pods:
    """Kepler's processor and memory energy of pods, which it attributes itself."""

    def __init__(self, work: Callable[[Mapping[str, str]], Work | None]) -> None:
        self.tracks: dict[tuple[str, ...], Track] = {}
        self._work = work

    def energy(self, series: list[Series]) -> Iterator[tuple[tuple[str, str], Step, Track]]:
        """Yield steps by host and device class; a pod's counter begins with the pod."""
        for one in series:
            labels = named(one.labels)
            device_class = ZONES.get(labels.get("zone", ""))
            work = self._work(labels)
            if device_class is None or work is None:
                continue
            key = work.job_id, labels.get("pod_uid", ""), labels["host"], device_class
            track = self.tracks.setdefault(key, Track(labels))
            parts: Parts = ((work, 1.0),)
            readings = [Reading(at_s, value, parts) for at_s, value in one.samples]
            steps = track.steps(readings, lambda a, b: b.value - a.value, "attributed")
            yield from (((labels["host"], device_class), step, track) for step in steps)
