"""The month: sums of days, sum(C) / sum(R) by project, and the edge between two months."""

import pytest

from gramwatt.sci.month.month import previous_month
from tests.documents import journal_of, scored
from tests.journals import H100, at
from tests.months import month_document

EDGE_S = -8 * 3600
"""The midnight before 1 May; times count from 08:00 on."""


def job(name, *, project="vision", energy_j=42_000, images=1000, seconds=60, **more):
    counts = [lambda writer: writer.count(images)] if images else []
    head = {"project": project, "units": ("image",), "end_s": seconds, **more}
    return scored(journal_of(h100((0, seconds, energy_j)), job_id=name, more=counts, **head))


def h100(*intervals):
    return "GPU-1", H100, intervals


def test_the_table_divides_sums_not_averages_ratios():
    small, large = job("a", images=10), job("b", images=1990, energy_j=420_000)
    doc = month_document("2026-05", [small, large])
    [row] = doc.projects
    emitted = small.total_g.value + large.total_g.value
    assert (row.project, row.unit, row.jobs, row.count) == ("vision", "image", 2, 2000)
    assert row.g_per_unit.value == pytest.approx(emitted / 2000)
    mean_of_ratios = (small.total_g.value / 10 + large.total_g.value / 1990) / 2
    assert row.g_per_unit.value != pytest.approx(mean_of_ratios, rel=0.5)


def test_totals_are_the_sum_of_the_jobs():
    jobs = [job("a"), job("b", project="speech"), job("c", energy_j=84_000)]
    totals = month_document("2026-05", jobs).totals
    for term in ("energy_kwh", "operational_g", "embodied_g", "total_g"):
        assert getattr(totals, term).value == pytest.approx(
            sum(getattr(j, term).value for j in jobs)
        )
    assert (totals.jobs, totals.jobs_unknown) == (3, 0)


def test_a_job_across_the_edge_is_split_between_its_months():
    board = h100((EDGE_S - 1800, EDGE_S, 1000), (EDGE_S, EDGE_S + 1800, 3000))
    whole = scored(journal_of(board, started_at=at(EDGE_S - 1800), end_s=EDGE_S + 1800))
    april, may = month_document("2026-04", [whole]), month_document("2026-05", [whole], [whole])
    assert april.totals.energy_kwh.value == pytest.approx(1000 / 3.6e6)
    assert may.totals.energy_kwh.value == pytest.approx(3000 / 3.6e6)
    assert may.previous.energy_kwh == april.totals.energy_kwh
    assert [row.count for row in (*april.projects, *may.projects)] == [0.5, 0.5]


def test_a_months_part_of_a_job_is_as_certain_as_its_own_days():
    """An hour by the counter in April (-+ 5 %), an hour estimated in May (-+ 40 %).

    The energy of both is known to -+ 20 %, which says nothing of either month.
    """
    modelled = (EDGE_S, EDGE_S + 3600, 3.6e6, {"kind": "estimated"})
    board = h100((EDGE_S - 3600, EDGE_S, 3.6e6), modelled)
    whole = scored(journal_of(board, started_at=at(EDGE_S - 3600), end_s=EDGE_S + 3600))
    parts = (("2026-04", 0.95, 1.05, "measured"), ("2026-05", 0.6, 1.4, "estimated"))
    for month, low, high, kind in parts:
        document = month_document(month, [whole])
        for row in (document.totals, *document.days):
            energy = row.energy_kwh
            assert energy.value == pytest.approx(1.0)
            assert (energy.low, energy.high) == pytest.approx((low, high), rel=0.02)
            assert energy.kind == kind
        [of_day] = [day for day in whole.days if day.day.startswith(month)]
        for term in ("operational_g", "embodied_g"):
            wanted, found = getattr(of_day, term), getattr(document.totals, term)
            assert found.low == pytest.approx(wanted.low, rel=0.04)
            assert found.high == pytest.approx(wanted.high, rel=0.04)


def test_one_project_only():
    doc = month_document("2026-05", [job("a"), job("b", project="speech")], project="speech")
    assert [row.project for row in doc.projects] == ["speech"]
    assert doc.totals.jobs == 1


def test_an_unknown_job_is_counted_as_unknown():
    doc = month_document("2026-05", [job("a"), scored(journal_of(job_id="x"))])
    assert (doc.totals.jobs, doc.totals.jobs_unknown) == (2, 1)
    assert doc.conformance == {"conforming": 1, "not-sci": 1}


def test_an_empty_month_knows_nothing():
    doc = month_document("2026-05", [])
    assert doc.totals.energy_kwh is None
    assert (doc.projects, doc.previous, doc.method) == ([], None, None)


def test_the_dearest_job_comes_first():
    doc = month_document("2026-05", [job("a"), job("b", energy_j=420_000), job("c", energy_j=9000)])
    assert [row.job_id for row in doc.top_jobs] == ["b", "a", "c"]


def test_the_month_before():
    assert previous_month("2026-01") == "2025-12"
    assert previous_month("2026-11") == "2026-10"
