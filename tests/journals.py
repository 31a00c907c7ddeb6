"""Journals and a grid for tests: records as meters write them, easy to check by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.intensity import IntensityPoint
from gramwatt.sci.records.records import (
    AnyRecord,
    CountRecord,
    DeviceRecord,
    EndRecord,
    IntervalRecord,
    JobRecord,
    encode,
)

T0 = datetime(2026, 5, 1, 8, tzinfo=UTC)
START = datetime(2026, 5, 10, 8, tzinfo=UTC)
"""When the jobs of `journal` start."""
MINUTE = timedelta(minutes=1)
H100 = {"name": "NVIDIA H100 80GB HBM3", "units_total": 8.0}
"""A board of a host with eight of them."""


def at(seconds: float) -> datetime:
    """The moment `seconds` after T0."""
    return T0 + timedelta(seconds=seconds)


class Writer:
    """Makes records as one meter would: one id, a rising sequence, times in seconds after `t0`."""

    def __init__(
        self,
        name: str = "w1",
        node: str = "n-1",
        job: str = "job-1",
        *,
        t0: datetime = T0,
        first_seq: int = 1,
    ) -> None:
        self.who: dict[str, Any] = {"job_id": job, "node": node, "writer": name}
        self.t0 = t0
        self._seq = count(first_seq)

    def at(self, seconds: float) -> datetime:
        """The moment `seconds` after the writer's `t0`."""
        return self.t0 + timedelta(seconds=seconds)

    def _next(self) -> dict[str, Any]:
        return {**self.who, "seq": next(self._seq)}

    def job(self, **more: Any) -> JobRecord:
        return JobRecord(**self._next(), **{"started_at": self.t0, "role": "track", **more})

    def device(self, device_id: str = "GPU-1", **more: Any) -> DeviceRecord:
        given = {"device_class": "gpu", "name": "T", "meter": "nvml", "kind": "measured", **more}
        return DeviceRecord(**self._next(), device_id=device_id, **given)

    def interval(
        self, start: float, end: float, energy_j: float, device_id: str = "GPU-1", **more: Any
    ) -> IntervalRecord:
        return IntervalRecord(
            **self._next(),
            device_id=device_id,
            start=self.at(start),
            end=self.at(end),
            energy_j=energy_j,
            **{"kind": "measured", **more},
        )

    def count(
        self, amount: float, unit: str = "image", seconds: float = 1, **more: Any
    ) -> CountRecord:
        return CountRecord(**self._next(), at=self.at(seconds), unit=unit, amount=amount, **more)

    def end(self, seconds: float, state: str = "completed", **more: Any) -> EndRecord:
        return EndRecord(**self._next(), ended_at=self.at(seconds), state=state, **more)


@dataclass(frozen=True)
class Load:
    """A device and its mean power [W], by the seconds since the job started."""

    device_id: str
    power_w: Callable[[float], float]
    device: Mapping[str, Any]
    """Fields of the device's record."""
    kind: str = "measured"
    sample: Callable[[float], Mapping[str, Any]] = field(default=lambda since_s: {})
    """More fields of each interval's record, by the seconds since the job started."""


def metered(
    writer: Writer, loads: Sequence[Load], *, seconds: float, step_s: float, start: float = 0.0
) -> Iterator[AnyRecord]:
    """The device records and, step by step, the interval records of `loads`."""
    for load in loads:
        yield writer.device(load.device_id, **{"kind": load.kind, **load.device})
    moment = start
    while moment < start + seconds:
        end = min(moment + step_s, start + seconds)
        for load in loads:
            since_s = moment - start
            energy_j = load.power_w(since_s) * (end - moment)
            more = {"kind": load.kind, **load.sample(since_s)}
            yield writer.interval(moment, end, energy_j, load.device_id, **more)
        moment = end


def journal(
    job_id: str = "job-1",
    *,
    writer: str = "w1",
    node: str = "n1",
    minutes: int = 3,
    power_w: float = 600.0,
    start: datetime = START,
    end_state: str | None = "completed",
    **about: Any,
) -> list[AnyRecord]:
    """One GPU at constant power: `minutes` intervals of 60 x power_w joules and 10 images."""
    meter = Writer(writer, node, job_id, t0=start)
    about = {"project": "vision", "name": "resnet", "units": ("image",), "zone": "FR"} | about
    gpu = {"name": H100["name"], "meter": "nvml-counter", "memory_b": 80 * 2.0**30}
    records: list[AnyRecord] = [
        meter.job(**{"role": "command", **about}),
        meter.device(f"GPU-{node}", **gpu),
    ]
    for minute in range(minutes):
        opens, closes = 60 * minute, 60 * (minute + 1)
        records.append(
            meter.interval(opens, closes, 60 * power_w, f"GPU-{node}", utilisation_mean=0.5)
        )
        records.append(meter.count(10, seconds=closes))
    if end_state is not None:
        code = 0 if end_state == "completed" else None
        records.append(meter.end(60 * minutes, end_state, exit_code=code))
    return records


def lines(records: Sequence[AnyRecord]) -> list[bytes]:
    """The journal as lines."""
    return [encode(record).encode() for record in records]


def body(records: Sequence[AnyRecord]) -> bytes:
    """The journal as an upload."""
    return b"\n".join(lines(records)) + b"\n"


def figure(value: float, low: float, high: float, unit: str = "gCO2e") -> dict[str, Any]:
    """A measured figure, as JSON documents have it."""
    return {"value": value, "low": low, "high": high, "unit": unit, "kind": "measured"} | {
        "source": "x"
    }


class FakeGrid:
    """A grid that goes through `values` [gCO2e/kWh] again and again, each for `step_s`.

    The first value holds from `first` on; `error` is the relative error of each; `more` are other
    fields of the points, such as their signal and basis.
    """

    def __init__(
        self,
        *values: float,
        step_s: float = 3600.0,
        first: datetime = T0,
        quality: str = "hourly",
        error: float = 0.0,
        **more: Any,
    ) -> None:
        self.values, self.first, self.step = values, first, timedelta(seconds=step_s)
        self.error, self.more = error, {"quality": quality, **more}

    def points(self, zone: str | None, start: datetime, end: datetime) -> list[IntensityPoint]:
        """The points from `start` to `end`, both included."""
        found = []
        n = (start - self.first) // self.step
        while not found or found[-1].end <= end:
            left = self.first + n * self.step
            value = self.values[n % len(self.values)]
            figure = Quantity.around(value, self.error, "gCO2e/kWh", "measured", "test grid 2026")
            found.append(
                IntensityPoint(zone or "world", left, left + self.step, figure, **self.more)
            )
            n += 1
        return found
