"""The join of energy with intensity over time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gramwatt.sci.figures.errors import ScoreError
from gramwatt.sci.grid.intensity import IntensityTrack, split
from tests.journals import FakeGrid

T0 = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def points(*values, signal="average"):
    grid = FakeGrid(*values, first=T0, signal=signal)
    return grid.points("DE", T0, T0 + len(values) * HOUR)[: len(values)]


def test_a_span_is_shared_by_time():
    track = IntensityTrack.of(points(100, 200, 300))
    start = T0 + timedelta(minutes=45)
    shares = dict(split(track.edges, start, start + HOUR))
    assert shares == {0: pytest.approx(0.25), 1: pytest.approx(0.75)}


@given(st.integers(0, 179), st.integers(1, 180))
def test_shares_sum_to_the_span(offset, length):
    track = IntensityTrack.of(points(100, 200, 300, 400, 500, 600))
    start = T0 + timedelta(minutes=offset)
    parts = list(split(track.edges, start, start + timedelta(minutes=length)))
    assert sum(share for _, share in parts) == pytest.approx(1)
    assert all(share > 0 for _, share in parts)


def test_a_gap_is_refused():
    whole = points(100, 200, 300)
    with pytest.raises(ScoreError, match="gap or overlap"):
        IntensityTrack.of([whole[0], whole[2]])


def test_energy_outside_the_points_is_refused():
    track = IntensityTrack.of(points(100))
    with pytest.raises(ScoreError, match="does not cover"):
        list(split(track.edges, T0, T0 + 2 * HOUR))


def test_average_and_marginal_never_share_a_score():
    mixed = points(100, 200)
    mixed[1] = points(100, 200, signal="marginal")[1]
    with pytest.raises(ScoreError, match="cannot share"):
        IntensityTrack.of(mixed)


def test_no_points_is_an_error():
    with pytest.raises(ScoreError):
        IntensityTrack.of([])
