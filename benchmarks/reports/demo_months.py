"""Three months of an invented company's jobs, as journals that meters would have written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gramwatt.sci.records.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
)

MONTHS = (
    datetime(2026, 3, 1, tzinfo=UTC),
    datetime(2026, 4, 1, tzinfo=UTC),
    datetime(2026, 5, 1, tzinfo=UTC),
)
H100, A100, L4 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L4"
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Line:
    """A line of work: its jobs of each month, what they run on, and how fast they count."""

    project: str
    name: str
    kind: str
    unit: str
    owners: tuple[str, ...]
    runs: tuple[int, int, int]
    part: tuple[str, str, str]
    gpus: int
    hours: tuple[float, float]
    watts: float
    rate: tuple[float, float, float]
    """R in an hour of one GPU, by month."""
    zones: tuple[str, str, str] = ("DE", "DE", "DE")
    model: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


LINES = (
    Line("assistant", "llama-8b fine-tune", "fine-tuning", "token", ("mara", "jon"), (6, 8, 9),
         (A100, A100, H100), 8, (9, 22), 330, (1.6e7, 1.7e7, 3.4e7), model="assistant-8b"),
    Line("assistant", "chat batch replies", "inference", "token", ("mara",), (20, 24, 30),
         (A100, A100, A100), 2, (3, 7), 240, (4e6, 4.1e6, 4.2e6), model="assistant-8b"),
    Line("vision", "defect detector", "training", "image", ("lena", "omar"), (10, 12, 10),
         (A100, A100, A100), 4, (4, 12), 310, (4e6, 4.2e6, 4.6e6), ("DE", "DE", "FR"),
         model="defects-v3"),
    Line("vision", "defect detector sweep", "training", "image", ("omar",), (0, 14, 6),
         (A100, A100, A100), 1, (1, 3), 260, (4e6, 4e6, 4e6), model="defects-v3",
         tags={"sweep": "lr-2026", "sweep_runs": "20"}),
    Line("speech", "transcription archive", "inference", "second of audio", ("ines",), (15, 15, 16),
         (L4, L4, L4), 1, (6, 14), 58, (2.6e5, 2.6e5, 2.7e5)),
    Line("research", "notebook", "other", "job", ("kai", "ada"), (8, 6, 9),
         (H100, H100, H100), 1, (5, 11), 118, (0, 0, 0)),
)  # fmt: skip


def jobs(seed: int = 7) -> Iterator[tuple[str, list[AnyRecord]]]:
    """Every job's id and journal, in order of the months."""
    draw = random.Random(seed)
    for month, first in enumerate(MONTHS):
        for line in LINES:
            for run in range(line.runs[month]):
                name = f"{line.project}-{first:%m}-{line.name.split()[0]}-{run:02d}"
                start = first + timedelta(minutes=draw.randrange(26 * 24 * 60))
                yield name, list(_journal(draw, line, month, name, start))


def _journal(
    draw: random.Random, line: Line, month: int, name: str, start: datetime
) -> Iterator[AnyRecord]:
    who: dict[str, Any] = {"job_id": name, "node": f"node-{draw.randrange(6)}", "writer": "w1"}
    seq = iter(range(1, 100_000))
    idle = line.name == "notebook"
    state = draw.choices(["completed", "failed", "killed"], [0.86, 0.09, 0.05])[0]
    hours = max(1, round(draw.uniform(*line.hours) * (1 if state == "completed" else 0.5)))
    tags = {"user": draw.choice(line.owners), **line.tags}
    yield JobRecord(
        **who, seq=next(seq), started_at=start, role="command", project=line.project,
        name=line.name, kind=line.kind, units=(line.unit,) if line.unit != "job" else (),
        zone=line.zones[month], pue=1.25, model_id=line.model, tags=tags,
    )  # fmt: skip
    board = {"device_class": "gpu", "name": line.part[month], "units_total": 8.0}
    for gpu in range(line.gpus):
        yield DeviceRecord(
            **who, seq=next(seq), device_id=f"GPU-{gpu}", meter="nvml", kind="measured", **board
        )
    cpu = {"device_class": "cpu", "name": "Intel Xeon Platinum 8480C", "units": 112}
    yield DeviceRecord(
        **who, seq=next(seq), device_id="cpu-0", meter="codecarbon", kind="estimated", **cpu
    )
    for hour in range(hours):
        opens = start + hour * HOUR
        for gpu in range(line.gpus):
            watts = (
                line.watts * draw.uniform(0.94, 1.06) * (1.55 if line.part[month] == H100 else 1)
            )
            busy = draw.uniform(0.0, 0.03) if idle else draw.uniform(0.8, 0.97)
            yield IntervalRecord(
                **who, seq=next(seq), device_id=f"GPU-{gpu}", start=opens, end=opens + HOUR,
                energy_j=watts * 3600, kind="measured", utilisation_mean=busy,
                memory_peak_b=30e9,
            )  # fmt: skip
        yield IntervalRecord(
            **who, seq=next(seq), device_id="cpu-0", start=opens, end=opens + HOUR,
            energy_j=draw.uniform(150, 210) * 3600, kind="estimated",
        )  # fmt: skip
    end = start + hours * HOUR
    if line.rate[month]:
        amount = line.rate[month] * line.gpus * hours * draw.uniform(0.97, 1.03)
        yield CountRecord(**who, seq=next(seq), at=end, unit=line.unit, amount=amount)
    code = 0 if state == "completed" else 1
    yield EndRecord(**who, seq=next(seq), ended_at=end, state=state, exit_code=code)
