"""The lines and rows of a benchmark: jobs of eight devices, in uploads of so many intervals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

from gramwatt.sci.records.records import DeviceRecord, IntervalRecord, JobRecord, encode

T0 = datetime(2026, 5, 1, tzinfo=UTC)
STEP = timedelta(seconds=300)
DEVICES = 8
PROFILE = {"memory_busy": 0.41, "power_capped": 0.02, "temperature_c": 63.0}


def uploads(job_id: str, intervals: int, at_once: int) -> list[bytes]:
    """The bodies of a running job: its job and device lines, then its intervals."""
    who = {"job_id": job_id, "node": "n-3f2a9c41d07e", "writer": "w-51c07be2"}
    seq = count(1)
    names = [f"GPU-5f1c2d3e-0000-4000-8000-0000000000{n:02d}" for n in range(DEVICES)]
    head = [JobRecord(**who, seq=next(seq), started_at=T0, zone="FR")]
    devices = [
        DeviceRecord(
            **who,
            seq=next(seq),
            device_id=name,
            device_class="gpu",
            name="NVIDIA H100 80GB HBM3",
            meter="nvml-counter",
            kind="measured",
        )
        for name in names
    ]
    lines = [encode(record) for record in (*head, *devices)]
    bodies = []
    for number in range(intervals):
        start = T0 + STEP * (number // DEVICES)
        record = IntervalRecord(
            **who,
            seq=next(seq),
            device_id=names[number % DEVICES],
            start=start,
            end=start + STEP,
            energy_j=170_000.25 + number % 977,
            kind="measured",
            utilisation_mean=0.5 + number % 50 / 100,
            utilisation_max=1.0,
            memory_peak_b=6.1e10,
            power_max_w=690.5,
            profile=PROFILE,
        )
        lines.append(encode(record))
        if (number + 1) % at_once == 0:
            bodies.append("\n".join(lines).encode() + b"\n")
            lines = []
    if lines:
        bodies.append("\n".join(lines).encode() + b"\n")
    return bodies
