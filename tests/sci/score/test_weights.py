"""Means that the job document states are weighted by time, and rates are amounts over time."""

from functools import partial

import pytest

from tests.documents import journal_of
from tests.documents import scored as scored_by
from tests.journals import H100, Writer


def scored(*rows, units=("token",)):
    """A job of one H100 with an interval of each (start, end, joules, utilisation)."""
    read = [(*row, {"utilisation_mean": utilisation}) for *row, utilisation in rows]
    return scored_by(journal_of(("GPU-1", H100, read), end_s=rows[-1][1], units=units))


@pytest.mark.parametrize(
    ("rows", "mean"),
    [
        ([(0, 100, 5e4, 0.5)], 0.5),
        ([(0, 100, 5e4, 0.2), (100, 400, 15e4, 0.6)], (100 * 0.2 + 300 * 0.6) / 400),
        ([(0, 100, 5e4, None), (100, 400, 15e4, 0.6)], 0.6),
        ([(0, 100, 5e4, None)], None),
    ],
)
def test_the_mean_utilisation_is_weighted_by_the_time_that_reports_one(rows, mean):
    device = next(row for row in scored(*rows).devices if row.device_class == "gpu")
    assert device.mean_utilisation == (mean if mean is None else pytest.approx(mean))


def test_a_unit_that_was_declared_and_counted_as_nothing_is_remarked():
    counts = [partial(Writer.count, amount=n, unit=of) for of, n in (("image", 5), ("token", 0))]
    board = ("GPU-1", H100, [(0, 60, 3e4)])
    document = scored_by(journal_of(board, more=counts, units=("token", "image")))
    remarks = [row.message for row in document.notices if row.code == "unit-not-counted"]
    assert len(remarks) == 1
    assert "'token'" in remarks[0]
