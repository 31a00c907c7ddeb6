"""Intensity of one series, added up first: the same as adding its points one by one."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.sci.figures.quantity import Quantity, total
from gramwatt.sci.grid.intensity import IntensityPoint, IntensityTrack
from gramwatt.sci.records.merge import MergedDevice
from gramwatt.sci.records.records import DeviceRecord, IntervalRecord
from gramwatt.sci.score.operational import join_sites

T0 = datetime(2026, 5, 1, 22, tzinfo=UTC)
HOUR = timedelta(hours=1)
WHO = {"job_id": "j", "node": "n", "writer": "w", "seq": 1, "device_id": "a"}
POINTS = st.lists(
    st.tuples(
        st.floats(1e-3, 1e3),  # energy
        st.floats(1e-2, 1e3),  # value
        st.sampled_from([0.0, 0.1, 0.3]),  # relative range
        st.sampled_from(["of DE", "of FR"]),
        st.sampled_from(["measured", "declared"]),
    ),
    min_size=1,
    max_size=12,
)


def mean(rows):
    """The mean intensity that the engine joins hours of energy and figure with."""
    points = [
        IntensityPoint("DE", T0 + n * HOUR, T0 + (n + 1) * HOUR, figure, "hourly")
        for n, (_, figure) in enumerate(rows)
    ]
    read = tuple(
        IntervalRecord(**WHO, start=p.start, end=p.end, energy_j=joules, kind="measured")
        for p, (joules, _) in zip(points, rows, strict=True)
    )
    record = DeviceRecord(**WHO, device_class="gpu", name="T", meter="m", kind="measured")
    site = IntensityTrack.of(points), Quantity.exact(1, "1", "declared", "t")
    return join_sites([MergedDevice(record, read)], site).mean_intensity


@settings(max_examples=60)
@given(POINTS)
def test_figures_that_err_together_may_be_added_first(rows):
    figures = [
        (joules, Quantity.around(value, spread, "gCO2e/kWh", kind, source))
        for joules, value, spread, source, kind in rows
    ]
    whole = sum(joules for joules, _ in figures)
    one_by_one = total([figure.scaled(joules / whole) for joules, figure in figures])
    found = mean(figures)
    for end in ("value", "low", "high"):
        assert getattr(found, end) == pytest.approx(getattr(one_by_one, end), rel=1e-6)
    assert (found.unit, found.kind) == ("gCO2e/kWh", one_by_one.kind)
    assert set(found.source.split("; ")) == set(one_by_one.source.split("; "))
    by_hand = sum(joules * value for joules, value, *_ in rows) / whole
    assert found.value == pytest.approx(by_hand, rel=1e-12)


def test_a_series_of_one_source_keeps_its_relative_range():
    """Hours of one method at 10 %: (2 x 100 + 3 x 300) / 5 is 220, from 198 to 242."""
    hours = [(2.0, 100.0), (3.0, 300.0)]
    found = mean([(j, Quantity.around(v, 0.1, "gCO2e/kWh", "declared", "DE")) for j, v in hours])
    assert (found.value, found.low, found.high) == pytest.approx((220.0, 198.0, 242.0), rel=1e-12)


def test_an_hour_without_emissions_adds_none():
    """1 J at 0 and 1 J at 100 -+ 10 % are 50 on average, from 45 to 55."""
    found = mean(
        [
            (1.0, Quantity.exact(0.0, "gCO2e/kWh", "declared", "own")),
            (1.0, Quantity.around(100.0, 0.1, "gCO2e/kWh", "declared", "DE")),
        ]
    )
    assert (found.value, found.low, found.high) == pytest.approx((50.0, 45.0, 55.0), rel=1e-12)
