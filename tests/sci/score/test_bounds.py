"""Each bound at which a score says something else, just below and just above it."""

from functools import partial

import pytest

from tests.documents import journal_of
from tests.documents import scored as scored_by
from tests.journals import H100, FakeGrid, Writer

YEAR_S = 8760 * 3600


def scored(intervals, *, end_s, counts=(), **device):
    """One H100 (700 W) with these intervals (start, end, J)."""
    more = [partial(Writer.count, amount=1, **count) for count in counts]
    records = journal_of(("GPU-1", {**H100, **device}, intervals), end_s=end_s, more=more)
    return scored_by(records, FakeGrid(400))


@pytest.mark.parametrize(
    ("code", "intervals", "end_s", "expected"),
    [
        # More than 1.5 x 700 W over the interval and the 10 s by which a counter may step.
        ("power-impossible", [(0, 100, 115_400)], 100, False),
        ("power-impossible", [(0, 100, 115_600)], 100, True),
        # No interval alone, but all together: 1.5 x 700 W x (200 + 10) s.
        ("power-impossible", [(0, 100, 110_200), (100, 200, 110_200)], 200, False),
        ("power-impossible", [(0, 100, 110_300), (100, 200, 110_300)], 200, True),
        # Without readings for more than a tenth of the time, and more than a minute.
        ("meter-gap", [(0, 1805, 9e5)], 2000, False),
        ("meter-gap", [(0, 1795, 9e5)], 2000, True),
        ("meter-gap", [(0, 241, 1e5)], 300, False),
        ("meter-gap", [(0, 239, 1e5)], 300, True),
        # Reserved for longer than hardware is expected to live, and than it lives at most.
        ("lifetime-exceeded", [(0, 60, 4e4)], 3.99 * YEAR_S, False),
        ("lifetime-exceeded", [(0, 60, 4e4)], 4.01 * YEAR_S, True),
        ("embodied-unknown", [(0, 60, 4e4)], 5.99 * YEAR_S, False),
        ("embodied-unknown", [(0, 60, 4e4)], 6.01 * YEAR_S, True),
    ],
)
def test_a_notice_begins_at_its_bound(code, intervals, end_s, expected):
    notices = scored(intervals, end_s=end_s).notices
    assert (code in {notice.code for notice in notices}) == expected


@pytest.mark.parametrize(
    ("period_s", "length_s", "known"),
    [
        *((None, 0.19, False), (None, 0.2, True), (None, 0.21, True)),
        *((2.0, 3.9, False), (2.0, 4.0, True), (2.0, 4.1, True)),
    ],
)
def test_a_window_is_known_from_twice_the_counters_period_on(period_s, length_s, known):
    window = {"unit": "token", "seconds": 10 + length_s, "phase": "w", "since": Writer().at(10)}
    document = scored([(0, 60, 6e4)], end_s=60, counts=[window], update_period_s=period_s)
    [row] = document.windows
    assert (row.energy_j is not None, row.below_resolution) == (known, not known)
    assert (row.energy_j_per_unit["token"] is not None) is known
    assert ("below-resolution" in {notice.code for notice in document.notices}) is not known


@pytest.mark.parametrize(("cut_s", "kind"), [(0.019, "measured"), (0.021, "estimated")])
def test_an_interval_that_a_window_cuts_by_two_readings_is_still_measured(cut_s, kind):
    window = {"unit": "token", "seconds": 20, "phase": "w", "since": Writer().at(10 + cut_s)}
    document = scored([(10, 20, 6e3)], end_s=60, counts=[window])
    [row] = document.windows
    assert row.energy_j.kind == kind
    assert row.energy_j.value == pytest.approx(6e3 * (10 - cut_s) / 10)
