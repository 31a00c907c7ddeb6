"""Budgets, and what became of suggestions, beside a month's own sums."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.document import followed
from gramwatt.sci.month.documents import AdviceRow, WorkRow
from gramwatt.service.budgets import set_budget, standing
from gramwatt.service.common.requests import NewBudget
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report
from gramwatt.service.months.sums import sum_month
from gramwatt.service.tasks.upkeep import refresh_running
from tests.journals import Writer, lines
from tests.service.keyed import add

MAY = datetime(2026, 5, 10, 8, tzinfo=UTC)


def status_of(service):
    (row,) = month_report(service, "2026-05").budgets
    return row.status, row.spent_share


def test_a_budget_is_judged_by_the_range_of_what_was_spent(light):
    add(light, "job-1", start=MAY)
    total_g = month_report(light, "2026-05").totals.total_g
    kg = {end: getattr(total_g, end) / 1000 for end in ("value", "low", "high")}
    limits = {
        ("within", False): kg["value"] * 3,
        ("threshold-reached", True): kg["value"] * 1.01,
        ("spent", True): kg["value"],
        ("spent", False): kg["low"] * 0.99,
    }
    for (wanted, is_open), limit_kg in limits.items():
        set_budget(light, NewBudget(project="vision", limit_kg=limit_kg), by="u")
        assert status_of(light) == (wanted, pytest.approx(kg["value"] / limit_kg))
        (row,) = month_report(light, "2026-05").budgets
        assert row.range_holds_limit is is_open
        # The API and the first page say the same.
        said = standing(light, "vision", "2026-05").budget
        assert [getattr(said, name) for name in ("status", "spent_kg", "spent_share")] == [
            getattr(row, name) for name in ("status", "spent_kg", "spent_share")
        ]


def test_a_running_job_is_in_the_budget_of_report_and_api(light, clock):
    clock.now = datetime(2026, 5, 20, tzinfo=UTC)
    add(light, "job-1", start=MAY)
    add(light, "on", start=MAY, power_w=900.0, end_state=None)
    refresh_running(light)
    set_budget(light, NewBudget(project="vision", limit_kg=1.0), by="u")
    (row,) = month_report(light, "2026-05").budgets
    said = standing(light, "vision", "2026-05").budget
    assert (said.jobs_running, said.status) == (1, row.status)
    assert said.spent_kg == row.spent_kg


def test_a_months_own_budget_goes_before_that_of_every_month(light):
    add(light, "job-1", start=MAY)
    set_budget(light, NewBudget(project="vision", limit_kg=1e-6), by="u")
    set_budget(light, NewBudget(project="vision", limit_kg=1e6, month="2026-05"), by="u")
    assert status_of(light)[0] == "within"
    set_budget(light, NewBudget(project="speech", limit_kg=1.0), by="u")
    rows = month_report(light, "2026-05").budgets
    assert [(row.project, row.spent_share) for row in rows][0] == ("speech", 0.0)


def test_what_owners_of_a_project_share_counts_once_in_its_range(light):
    for name, owner in (("job-1", "ada"), ("job-2", "bo"), ("job-3", "cy")):
        add(light, name, start=MAY, tags={"user": owner})
    add(light, "other", start=MAY, project="speech")
    set_budget(light, NewBudget(project="vision", limit_kg=1.0), by="u")
    whole, own = month_report(light, "2026-05"), month_report(light, "2026-05", "vision")
    total_g = own.totals.total_g
    (row,) = (row for row in whole.by_project if row.project == "vision")
    assert (row.jobs, row.total_g) == (3, total_g)
    (budget,) = whole.budgets
    ends = [getattr(budget.spent_kg, end) for end in ("value", "low", "high")]
    assert ends == pytest.approx([getattr(total_g, end) / 1000 for end in ("value", "low", "high")])
    # Three equal jobs of one grid: their sum is as uncertain as each, not less by sqrt(3).
    charged = [row.total_g for row in whole.chargeback if row.project == "vision"]
    each = charged[0].high / charged[0].value
    assert total_g.high / total_g.value == pytest.approx(each, rel=0.02)


def test_what_is_not_known_is_not_within_a_budget(light):
    add(light, "job-1", start=MAY)
    writer = Writer("w1", "n1", "unread", t0=MAY)
    ingest(light, "unread", lines([writer.job(project="vision", zone="FR"), writer.end(60)]))
    set_budget(light, NewBudget(project="vision", limit_kg=1e6), by="u")
    assert status_of(light)[0] == "unknown"


def sums_of(jobs):
    """Sums of a month with these jobs by hardware."""
    sums = sum_month(lambda *_: (), "2026-05")
    nothing = {"energy_kwh": None, "total_g": None}
    work = [WorkRow(name, "training", n, regions={}, **nothing) for name, n in jobs.items()]
    return replace(sums, work=work)


def advised(action, target):
    """Advice on a part of which nothing but the action matters."""
    saved_g = Quantity.exact(1.0, "gCO2e", "estimated", "x")
    return AdviceRow(
        hardware="old",
        work="training",
        action=action,
        target=target,
        jobs=1,
        jobs_of_work=1,
        saved_g=saved_g,
        carbon_ratio=None,
        confidence="low",
        reason="",
        examples=[],
        named=[],
        basis="examined",
    )


@pytest.mark.parametrize(
    ("before", "now", "outcome"),
    [
        ({"old": 5}, {"new": 4}, "followed"),
        ({"old": 5}, {"old": 2, "new": 3}, "partly"),
        ({"old": 5, "new": 5}, {"old": 5, "new": 5}, "not-followed"),
        ({"old": 5}, {"old": 6}, "not-followed"),
        ({"old": 5}, {"other": 6}, "no-such-work"),
    ],
)
def test_what_became_of_a_swap_is_told_by_the_jobs(before, now, outcome):
    advice = advised("change-hardware", "new")
    (row,) = followed([advice], sums_of(before), sums_of(now))
    assert row.outcome == outcome
    assert (row.jobs_before, row.jobs_now) == (before.get("old", 0), now.get("old", 0))
    assert (row.target_before, row.target_now) == (before.get("new", 0), now.get("new", 0))


def test_what_leaves_no_trace_in_the_jobs_is_not_guessed():
    advice = advised("power-cap", None)
    (row,) = followed([advice], sums_of({"old": 5}), sums_of({"old": 5}))
    assert row.outcome is None
