"""The join: its short cut for intervals within one point changes nothing, and days add up."""

from datetime import UTC, datetime, timedelta
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.intensity import IntensityTrack, split
from gramwatt.sci.records.merge import MergedDevice
from gramwatt.sci.records.records import UNREAD_W, DeviceRecord, IntervalRecord
from gramwatt.sci.score.operational import join_sites
from gramwatt.sci.score.timeseries import intensity_used
from tests.journals import FakeGrid
from tests.truth import coverage, draws

T0 = datetime(2026, 5, 1, 22, tzinfo=UTC)
PUE = Quantity.exact(1.3, "1", "declared", "test")
WHO = {"job_id": "j", "node": "n", "writer": "w", "seq": 1}


def track(step_s, count):
    values = [50.0 + (n * 53) % 400 for n in range(count)]
    grid = FakeGrid(*values, step_s=step_s, first=T0, error=0.1)
    return IntensityTrack.of(grid.points("DE", T0, T0 + count * grid.step)[:count])


def device(name, lengths, kinds, meter="nvml"):
    moment, intervals = T0, []
    for n, (length, joules) in enumerate(lengths):
        end = moment + timedelta(seconds=length)
        kind = kinds[n % len(kinds)]
        intervals.append(
            IntervalRecord(**WHO, device_id=name, start=moment, end=end, energy_j=joules, kind=kind)
        )
        moment = end
    record = DeviceRecord(
        **WHO, device_id=name, device_class="gpu", name="T", meter=meter, kind="measured"
    )
    return MergedDevice(record, tuple(intervals))


spans = st.lists(st.tuples(st.integers(1, 4000), st.floats(0, 1e6)), min_size=1, max_size=30)


@settings(max_examples=80, deadline=None)
@given(spans, spans, st.sampled_from([300, 900, 3600, 200_000]))
def test_the_join_is_the_sum_over_every_split(first, second, step_s):
    grid = track(step_s, 130_000 // step_s + 1)
    kinds = ("measured", "estimated")
    devices = [device("a", first, kinds), device("b", second, kinds[:1], "other")]
    energy = join_sites(devices, (grid, PUE))
    by_hand = fsum(
        i.energy_j * share / 3.6e6 * grid[index].intensity.value
        for d in devices
        for i in d.intervals
        for index, share in split(grid.edges, i.start, i.end)
    )
    joules = fsum(i.energy_j for d in devices for i in d.intervals)
    assert fsum(energy.by_kind.values()) == pytest.approx(joules, rel=1e-12)
    assert energy.energy_j().value == pytest.approx(joules, rel=1e-12)
    assert energy.operational_g().value == pytest.approx(by_hand * 1.3, rel=1e-12)
    by_day = [energy.operational_g(day) for day in energy.days_read]
    assert fsum(d.value for d in by_day) == pytest.approx(by_hand * 1.3, rel=1e-12)
    assert fsum(energy.energy_j(day).value for day in energy.days_read) == pytest.approx(joules)


def test_a_day_without_energy_is_unknown():
    energy = join_sites([device("a", [(10, 5.0)], ("measured",))], (track(3600, 2), PUE))
    assert energy.energy_j(datetime(2026, 6, 1, tzinfo=UTC).date()) is None


def test_time_that_was_not_read_is_anything_from_nothing_to_the_most_that_was_possible():
    whole = device("a", [(60, 18_000.0), (60, 18_000.0)], ("measured", "estimated"))
    first, second = whole.intervals
    second = replace(second, profile={UNREAD_W: 700.0})
    energy = join_sites([MergedDevice(whole.record, (first, second))], (track(3600, 2), PUE))
    for figure in (energy.energy_j(), energy.devices["n", "a"].energy_j):
        assert figure.value == pytest.approx(36_000)
        assert figure.low < 18_000 * 1.1
        assert figure.high == pytest.approx(18_000 + 60 * 700, rel=0.05)


def test_each_kind_keeps_its_own_spread():
    grid = track(3600, 2)
    both = device("a", [(10, 3.6e6), (10, 3.6e6)], ("measured", "estimated"))
    pue = Quantity.exact(1, "1", "declared", "t")
    emitted = join_sites([both], (grid, pue)).operational_g()
    # 50 g/kWh -+ 10 %; 1 kWh -+ 5 % and 1 kWh -+ 40 %.
    inputs = draws()
    truths = [
        inputs.one(50, 45, 55) * (inputs.one(1, 0.95, 1.05) + inputs.one(1, 0.6, 1.4))
        for _ in range(20_000)
    ]
    assert 0.78 <= coverage(emitted.low, emitted.high, truths) <= 0.82
    assert emitted.kind == "estimated"


def test_a_row_of_intensity_spans_the_points_with_energy_alone():
    """Of four quarters of an hour the first is idle, and the job ends with the third."""
    grid = track(900, 4)
    used = device("a", [(900, 0.0), (900, 1e6), (900, 3e6)], ("measured",))
    (row,) = intensity_used(join_sites([used], (grid, PUE)))
    assert (row.start, row.end) == ("2026-05-01T22:15:00.000000Z", "2026-05-01T22:45:00.000000Z")
    assert (row.points, row.energy_j) == (2, pytest.approx(4e6))
    second, third = (grid[number].intensity.value for number in (1, 2))
    assert row.g_per_kwh == pytest.approx((second + 3 * third) / 4)
