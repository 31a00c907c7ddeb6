"""Beside a score: other lives of its hardware, and what the meter itself used."""

import pytest

from gramwatt.sci.figures.meters import meter_energy_j
from tests.documents import cluster_job


def test_embodied_carbon_for_other_lives_of_the_hardware():
    doc = cluster_job()
    rows = {row.lifetime_years: row for row in doc.lifetime_sensitivity}
    made, used = doc.embodied_g.value, doc.operational_g.value
    assert list(rows) == [3, 4, 5, 6]
    # EL is 4 years here, so M at 3 is 4/3 of it, at 6 two thirds.
    for years, factor in ((3, 4 / 3), (4, 1), (5, 4 / 5), (6, 2 / 3)):
        row = rows[years]
        assert row.embodied_g == pytest.approx(made * factor)
        assert row.total_g == pytest.approx(used + made * factor)
        per_token = (used + made * factor) / doc.sci[0].count
        assert row.g_per_unit == {"token": pytest.approx(per_token)}


def test_processor_time_and_memory_over_the_job():
    # 4.2 s x 3.35 W (0.42 to 1.75 times) + 0.5 GiB x 0.19 W x 3600 s (0.47 to 2.06 times)
    # = 14.07 + 342 J; the two err independently, so the range is narrower than the sum of both
    # ranges, 5.9094 + 160.74 J to 24.6225 + 704.52 J, and wider than one of a tenth less.
    own = meter_energy_j(4.2, 2.0**29, 3600)
    assert own.value == pytest.approx(356.07)
    assert 166.6494 < own.low < 1.1 * 166.6494
    assert 0.9 * 729.1425 < own.high < 729.1425
    assert (own.unit, own.kind) == ("J", "estimated")


def test_memory_that_is_not_known_is_left_out_and_time_that_is_not_known_is_no_figure():
    own = meter_energy_j(2.0, None, 100)
    # 2 s x 3.35 W, 0.42 to 1.75 times
    assert (own.low, own.value, own.high) == pytest.approx((2.814, 6.7, 11.725))
    assert meter_energy_j(None, 1e9, 100) is None
