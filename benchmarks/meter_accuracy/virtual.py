"""Our meter on a virtual clock: many phases of every wave, against the exact integral."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

from waves import PUBLISHED, SENSORS, Sensor, Wave, random_waves

from gramwatt.collectors.host.machine import Machine
from gramwatt.collectors.host.rapl import NO_COUNTERS
from gramwatt.collectors.meter.device_manager import Dependencies
from gramwatt.collectors.meter.job_meter import JobMeter
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.settings.config import Config
from gramwatt.collectors.spool.counts import Processes
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.collectors.track.counts import JobFolder
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import decode
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.memory import file_of
from tests.collectors.virtual_clock import VirtualClock

LIMITS = {10.0: 0.01, 60.0: 0.002}
"""Window [s] and the largest error allowed, from the first reading on."""
LATE_S = 0.003
"""The meter wakes up to this much late, and hears of the end up to this much late."""
MACHINE = Machine("virtual", 8.0, 8.0, 2.0**36, 2.0**36)


class Case(NamedTuple):
    """One wave on one board, windows of one length, so many phases."""

    wave: Wave
    sensor: Sensor
    window_s: float
    phases: int


class Result(NamedTuple):
    """What came of a case: the worst and the median error, both without sign, and the worst [J]."""

    case: Case
    worst: float
    median: float
    worst_j: float

    @property
    def kept(self) -> bool:
        """Return whether the limit for this window is kept."""
        return self.worst <= LIMITS[self.case.window_s]


def cases(phases: int) -> list[Case]:
    """Every wave on the Hopper-like board, the published ones on their own; then other boards."""
    waves = [wave for wave, _ in PUBLISHED] + random_waves()
    boards = [(wave, sensor) for sensor in SENSORS for wave in waves]
    return [Case(wave, sensor, length, phases) for length in LIMITS for wave, sensor in boards]


def run(phases: int, workers: int) -> list[Result]:
    """All cases."""
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(measure, cases(phases), chunksize=4))


def measure(case: Case) -> Result:
    """One case: every phase a job of its own, of a length that no period divides."""
    draw = Random(f"{case.wave.name} {case.sensor.name} {case.window_s}")
    errors = [one_window(case, draw) for _ in range(case.phases)]
    shares = [abs(error_j) / truth_j for error_j, truth_j in errors]
    return Result(
        case, max(shares), statistics.median(shares), max(abs(error_j) for error_j, _ in errors)
    )


def one_window(case: Case, draw: Random) -> tuple[float, float]:
    """One job at a random phase: (error [J], truth [J])."""
    clock = VirtualClock(boot_s=1000.0 + draw.uniform(0, 100))
    board = {"waveform": case.wave.spec, "power": case.sensor.power}
    spec = {"gpus": [{**board, "update_period_s": case.sensor.update_period_s}]}
    nvml = SyntheticNvml(spec, clock)
    home = Path(tempfile.mkdtemp(prefix="accuracy-"))
    around = Dependencies(
        environ={},
        clock=clock,
        random=draw,
        boot="boot",
        machine=lambda: MACHINE,
        counters=lambda: NO_COUNTERS,
        ports=lambda _: [nvml],
    )
    first = {"job_id": "job", "role": "track", "pid": 1, "visible": {}}
    first |= {"at_ns": clock.now_ns(), "wall_ns": clock.wall_ns()}
    folder = JobFolder(str(home / "memory"))
    try:
        os.makedirs(folder.path)
        file_of(folder, "1-0-1", first)
        processes = Processes(folder, around.process_start_ns)
        processes.enter()
        meter = JobMeter(around, Config(home=home), processes)
        start_s = clock.now_ns() / NS_PER_S
        meter.start()
        _live(meter, clock, case.window_s * draw.uniform(1.0, 1.05), draw)
        end_s = clock.now_ns() / NS_PER_S
        stop = {"state": "completed", "at_ns": clock.now_ns()}
        clock.sleep(draw.uniform(0, LATE_S))
        meter.close(stop)
        meter.release()
        spooled = SpoolFolder(meter.journal.folder)
        measured_j = gpu_energy_j(spooled.lines(), nvml.gpus[0].uuid)
    finally:
        shutil.rmtree(home)
    truth_j = nvml.gpus[0].truth_j(start_s, end_s)
    return measured_j - truth_j, truth_j


def gpu_energy_j(lines: Iterable[bytes], uuid: str) -> float:
    """Return what a journal says of one GPU, merged as the service does [J]."""
    job = merge(decode(line) for line in lines)
    return sum(i.energy_j for d in job.devices if d.record.device_id == uuid for i in d.intervals)


def _live(meter: JobMeter, clock: VirtualClock, duration_s: float, draw: Random) -> None:
    end_ns = clock.now_ns() + round(duration_s * NS_PER_S)
    while True:
        late_ns = round(draw.uniform(0, LATE_S) * NS_PER_S)
        wait_ns = max(meter.due_ns() - meter.timeline.now_ns(), 1000) + late_ns
        if clock.now_ns() + wait_ns >= end_ns:
            clock.advance_ns(end_ns - clock.now_ns())
            return
        clock.advance_ns(wait_ns)
        meter.tick()
