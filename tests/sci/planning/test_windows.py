"""Windows and slots against trying everything."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.sci.planning.windows import Grid, Overhead, Profile, best_slots, best_window, cost

intensities = st.lists(st.integers(10, 900), min_size=6, max_size=10)


def hourly(values):
    return Grid(np.arange(len(values) + 1, dtype=float), np.array(values, dtype=float))


def constant(hours):
    return Profile(np.array([0.0, hours]), np.array([1.0]))


def emitted(values, start, hours):
    """Intensity over [start, start + hours), summed in steps of a minute."""
    return sum(values[int((start * 60 + minute + 0.5) // 60)] for minute in range(hours * 60)) / 60


@given(intensities, st.integers(1, 3), st.sampled_from([0.0, 0.25, 0.5]))
def test_no_start_is_better_than_the_chosen(values, hours, earliest):
    chosen = best_window(hourly(values), constant(hours), earliest, len(values))
    minutes = range(round(earliest * 60), (len(values) - hours) * 60 + 1)
    best = min(emitted(values, minute / 60, hours) for minute in minutes)
    assert cost(
        hourly(values), constant(hours), [(chosen, chosen + hours)], earliest
    ) * hours == pytest.approx(best)


def test_a_window_may_begin_within_a_step():
    grid = Grid(np.array([0.0, 0.75, 1.25, 2.0]), np.array([100.0, 10.0, 200.0]))
    # The cheap half hour is held whole and the rest is on the cheaper side, before it.
    assert best_window(grid, constant(1.0), 0.0, 2.0) == pytest.approx(0.25)


def test_a_job_that_ends_hard_is_put_before_the_dirty_hour():
    profile = Profile(np.array([0.0, 1.0, 2.0]), np.array([0.2, 1.8]))
    # Constant power would take hours 0 and 1 (mean 150); by energy, hours 1 and 2 have
    # (0.2 x 200 + 1.8 x 110) / 2 = 119, hours 0 and 1 (0.2 x 100 + 1.8 x 200) / 2 = 190.
    grid = hourly([100, 200, 110])
    assert best_window(grid, profile, 0.0, 3.0) == 1.0
    assert cost(grid, profile, [(1.0, 3.0)], 0.0) == pytest.approx(119)


def test_the_hour_of_most_power_is_put_into_the_clean_hour():
    """Neither its start nor its end meets an edge of the grid."""
    profile = Profile(np.array([0.0, 0.7, 1.7, 2.4]), np.array([0.1, 2.26, 0.1]))
    grid = hourly([500, 500, 500, 500, 500, 50, 500, 500, 500])
    assert best_window(grid, profile, 0.0, 9.0) == pytest.approx(4.3)


@settings(deadline=None)
@given(
    intensities, st.integers(1, 4), st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.5, 2.0])
)
def test_slots_are_the_best_of_all(values, hours, idle, restart_h):
    overhead = Overhead(idle, restart_h)
    slots = best_slots(hourly(values), hours, 0.0, len(values), overhead)
    assert sum(end - start for start, end in slots) == pytest.approx(hours)
    assert all(before[1] < after[0] for before, after in pairwise(slots))

    def spent(taken):
        work = sum(values[hour] for hour in taken)
        waiting = sum(values[hour] for hour in range(taken[-1]) if hour not in taken)
        restarts = sum(values[b] for a, b in pairwise(taken) if b != a + 1)
        return work + idle * waiting + restart_h * restarts

    best = min(spent(taken) for taken in combinations(range(len(values)), hours))
    found = cost(hourly(values), constant(hours), slots, 0.0, overhead) * hours
    assert found == pytest.approx(best)


def test_planners_with_seeds_take_different_windows_that_are_as_good():
    values = [500, 100, 101, 100, 101, 100, 500, 140]
    starts = {best_window(hourly(values), constant(1), 0, 8, seed=f"job-{i}") for i in range(99)}
    assert starts >= {1.0, 2.0, 3.0, 4.0, 5.0}
    assert all(1 <= start <= 5 for start in starts)
    seeded = [best_window(hourly(values), constant(1), 0, 8, seed="a") for _ in range(3)]
    assert len(set(seeded)) == 1


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        best_window(hourly([1, 2, 3]), constant(2.5), 1.0, 3.0)
    with pytest.raises(ValueError, match="does not fit"):
        best_slots(hourly([1, 2, 3]), 2.5, 1.0, 3.0)
