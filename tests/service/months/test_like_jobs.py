"""Alike jobs count as one where ranges are summed; older months of a trend are summed in part."""

import json
from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa

from gramwatt.sci.base.quantity import of_effects
from gramwatt.sci.base.quantity import total as one_by_one
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.months.report import keep_month, month_report
from gramwatt.service.months.stored import stored_months
from gramwatt.service.months.sums.figures import Effects, Figures, total
from gramwatt.service.store.models import MonthlyReport, MonthSum
from tests.journals import T0, Writer, lines
from tests.service.months.test_month_sums import check


def job_of(name, start, zone="FR", watts=300.0):
    """A job of one hour on one board."""
    writer = Writer(job=name)
    writer.t0 = T0 + start
    head = writer.job(zone=zone, project="vision", units=("image",))
    read = writer.interval(0, 3600, 3600 * watts, "GPU-1")
    return [
        head,
        writer.device("GPU-1"),
        read,
        writer.count(100, "image", seconds=3500),
        writer.end(3600),
    ]


def test_months_of_jobs_that_are_alike_equal_those_from_documents(light):
    """Three of one hour and grid, two of another grid, one alone, and each kind in two months."""
    for month, shift in enumerate((timedelta(0), timedelta(days=31))):
        for n, (zone, days) in enumerate(
            [("FR", 0), ("FR", 0), ("FR", 0), ("DE", 0), ("DE", 0), ("FR", 3), (None, 3)]
        ):
            name = f"job-{month}-{n}"
            start = shift + timedelta(days=days)
            ingest(light, name, lines(job_of(name, start, zone, 300.0 + 50 * month)))
    check(light)


def test_a_sum_of_like_and_unlike_figures_has_the_range_that_one_by_one_addition_gives():
    """Inputs 0 and 1 are shared, 2 and 3 are of one figure; figures 0, 1 and 4 are alike."""
    effects = [
        {0: (-0.1, 0.2), 1: (-0.3, 0.3)},
        {0: (-0.1, 0.2), 2: (-0.5, 0.4), 4: (0.1, 0.1)},
        {1: (-0.3, 0.3), 3: (0.2, -0.2)},
    ]
    kinds = [0, 0, 1, 2, 0]
    values = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    known = Effects(
        firsts=np.array([0, 2, 5]),
        sizes=np.array([2, 3, 2]),
        ids=np.array([id_ for of in effects for id_ in of]),
        low=np.array([low for of in effects for low, _ in of.values()]),
        high=np.array([high for of in effects for _, high in of.values()]),
    )
    figures = Figures(values, 0.9 * values, 1.1 * values, np.array(kinds))
    found, _ = total(np.zeros(5, dtype=np.int64), figures, known, 1)
    named = [{str(id_): ends for id_, ends in of.items()} for of in effects]
    whole = one_by_one(
        of_effects(value, named[kind], "g", "catalog", "x")
        for value, kind in zip(values, kinds, strict=True)
    )
    assert found.value[0] == whole.value == 15.0
    assert (found.low[0], found.high[0]) == pytest.approx((whole.low, whole.high), rel=1e-12)


@pytest.fixture
def months(light, clock):
    """Jobs in March, April and May, in June."""
    clock.turn(days=60)
    for n, days in enumerate((-61, -30, 0)):
        ingest(light, f"job-{n}", lines(job_of(f"job-{n}", timedelta(days=days))))
    return light


def test_an_older_month_of_a_trend_is_summed_whole_when_it_is_asked_for(months):
    first = month_report(months, "2026-03")
    with months.store.write() as session:
        session.execute(sa.delete(MonthSum))
        session.execute(sa.delete(MonthlyReport))
    trend = json.loads(keep_month(months, "2026-05"))["trend"]
    # 1 h at 300 W is 0.3 kWh.
    assert [row["energy_kwh"]["value"] for row in trend] == pytest.approx([0.3, 0.3, 0.3])
    kept = stored_months(months, ["2026-03", "2026-04", "2026-05"], None)
    assert {month: kept[month].holds for month in sorted(kept)} == {
        "2026-03": True,
        "2026-04": True,
        "2026-05": True,
    }
    assert month_report(months, "2026-03") == first


def test_a_figure_that_differs_by_rounding_is_no_revision(months):
    first = json.loads(keep_month(months, "2026-05"))

    def kept(change):
        """The report as if its energy had been reported as `change` times what it is."""
        with months.store.write() as session:
            row = session.scalars(sa.select(MonthlyReport)).one()
            document = json.loads(row.doc)
            document["totals"]["energy_kwh"]["high"] *= change
            row.doc = json.dumps(document)
        return json.loads(keep_month(months, "2026-05"))

    rounded = kept(1 + 4e-15)
    assert rounded["revision"] == first["revision"] == 1
    assert rounded["totals"]["energy_kwh"]["high"] > first["totals"]["energy_kwh"]["high"]
    assert kept(1 + 1e-9)["revision"] == 2
