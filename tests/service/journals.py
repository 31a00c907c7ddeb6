"""Journals for the service's tests, with figures that can be checked by head."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gramwatt.sci.journal.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
)

START = datetime(2026, 5, 10, 8, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def journal(
    job_id: str = "job-1",
    *,
    writer: str = "w1",
    node: str = "n1",
    minutes: int = 3,
    power_w: float = 600.0,
    start: datetime = START,
    end_state: str | None = "completed",
    **about: object,
) -> list[AnyRecord]:
    """One GPU at constant power: `minutes` intervals of 60 x power_w joules and 10 images."""
    identity = {"job_id": job_id, "node": node, "writer": writer}
    seq = iter(range(1, 10_000))
    about = {"project": "vision", "name": "resnet", "units": ("image",), "zone": "FR"} | about
    records: list[AnyRecord] = [
        JobRecord(**identity, seq=next(seq), started_at=start, **about),  # type: ignore[arg-type]
        DeviceRecord(
            **identity,
            seq=next(seq),
            device_id=f"GPU-{node}",
            device_class="gpu",
            name="NVIDIA H100 80GB HBM3",
            meter="nvml-counter",
            kind="measured",
            memory_b=80 * 2.0**30,
        ),
    ]
    for minute in range(minutes):
        opens = start + minute * MINUTE
        records.append(
            IntervalRecord(
                **identity,
                seq=next(seq),
                device_id=f"GPU-{node}",
                start=opens,
                end=opens + MINUTE,
                energy_j=60 * power_w,
                kind="measured",
                utilisation_mean=0.5,
            )
        )
        records.append(
            CountRecord(**identity, seq=next(seq), at=opens + MINUTE, unit="image", amount=10)
        )
    if end_state is not None:
        ended = start + minutes * MINUTE
        code = 0 if end_state == "completed" else None
        records.append(
            EndRecord(**identity, seq=next(seq), ended_at=ended, state=end_state, exit_code=code)
        )
    return records


def lines(records: list[AnyRecord]) -> list[bytes]:
    """The journal as lines."""
    return [encode(record).encode() for record in records]


def body(records: list[AnyRecord]) -> bytes:
    """The journal as an upload."""
    return b"\n".join(lines(records)) + b"\n"
