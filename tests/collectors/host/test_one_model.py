"""The same work has the same power however long the job is, and whatever codecarbon says."""

from __future__ import annotations

import pytest

from gramwatt.collectors.host import model
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.host.codecarbon_bench import Bench


@pytest.mark.parametrize("seconds", [3.0, 8.0, 12.0, 60.0, 600.0])
def test_no_length_changes_the_power(seconds, monkeypatch):
    """8 threads at 40 % and 64 GiB, beside a codecarbon that reads no counter."""
    bench = Bench()

    def load() -> model.Load:
        total = 8 * bench.clock.now_ns() / NS_PER_S
        return model.Load(0.4 * total, total)

    monkeypatch.setattr(model, "read_load", load)
    bench = Bench()
    for age_s in range(1, round(seconds)):
        bench.to_age(age_s)
        if age_s == 5:
            bench.process.say(absent="codecarbon reads no counter here")
        if age_s % 10 == 0:
            bench.meter.settle()
    bench.stop(seconds)
    # 8 x (0.63 + 0.4 x (3.35 - 0.63)) W; 64 GiB x 0.19 W
    assert bench.total_j("cpu", "estimated") / seconds == pytest.approx(13.744)
    assert bench.total_j("ram", "estimated") / seconds == pytest.approx(12.16)
    assert (bench.span_s("cpu"), bench.span_s("ram")) == (seconds, seconds)
    assert [meter for meter, _ in bench.sources()] == ["gramwatt-cpu-model", "gramwatt-ram-model"]
