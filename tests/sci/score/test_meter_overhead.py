"""What measuring itself used, by hand."""

import pytest

from gramwatt.sci.score.meter_overhead import meter_energy_j


def test_processor_time_and_memory_over_the_job():
    # 4.2 s x 3.5 W + 0.5 GiB x 0.392 W x 3600 s = 14.7 + 705.6 J, +-40 %
    own = meter_energy_j(4.2, 2.0**29, 3600)
    assert own.value == pytest.approx(720.3)
    assert (own.low, own.high) == (pytest.approx(432.18), pytest.approx(1008.42))
    assert (own.unit, own.kind) == ("J", "estimated")


def test_memory_that_is_not_known_is_left_out_and_time_that_is_not_known_is_no_figure():
    assert meter_energy_j(2.0, None, 100).value == pytest.approx(7.0)
    assert meter_energy_j(None, 1e9, 100) is None
