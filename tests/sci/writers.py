"""Journal writers for tests: each has its own id and a rising sequence, as a meter has."""

from datetime import UTC, datetime, timedelta
from itertools import count

from gramwatt.sci.journal.records import (
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
)

T0 = datetime(2026, 5, 1, 8, tzinfo=UTC)


def at(seconds):
    """The moment `seconds` after T0."""
    return T0 + timedelta(seconds=seconds)


class Writer:
    """Writes records as one meter would."""

    def __init__(self, name="w1", node="n-1", job="job-1"):
        self.who = {"job_id": job, "node": node, "writer": name}
        self._seq = count(1)

    def _next(self):
        return {**self.who, "seq": next(self._seq)}

    def job(self, role="track", **more):
        return JobRecord(**self._next(), started_at=more.pop("started_at", T0), role=role, **more)

    def device(self, device_id="GPU-1", **more):
        given = {"device_class": "gpu", "name": "T", "meter": "nvml", "kind": "measured", **more}
        return DeviceRecord(**self._next(), device_id=device_id, **given)

    def interval(self, start, end, energy_j, device_id="GPU-1", kind="measured", **more):
        return IntervalRecord(
            **self._next(),
            device_id=device_id,
            start=at(start),
            end=at(end),
            energy_j=energy_j,
            kind=kind,
            **more,
        )

    def count(self, amount, unit="image", seconds=1):
        return CountRecord(**self._next(), at=at(seconds), unit=unit, amount=amount)

    def end(self, seconds, state="completed", **more):
        return EndRecord(**self._next(), ended_at=at(seconds), state=state, **more)
