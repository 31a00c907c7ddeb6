"""A service that runs: on the pages, by day, and in months and budgets."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from flask.testing import FlaskClient

from gramwatt.service.budgets import set_budget
from gramwatt.service.cli.terminal import job_lines
from gramwatt.service.common.requests import NewBudget
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report
from gramwatt.service.tasks.upkeep import refresh_running
from tests.journals import lines
from tests.sci.score.test_service import BUSY_W, IDLE_W, journal

EVENING = datetime(2026, 4, 30, 23, 50, tzinfo=UTC)
"""Ten minutes of April, twenty of May."""
TAGS = {"serving": "vllm"}


@pytest.fixture
def serving(light, clock):
    clock.now = datetime(2026, 5, 1, 0, 21, tzinfo=UTC)
    minutes = "iiwwwwwwww" + "wwwwwwwwww" + "iiiiiiiiii"
    records = journal(minutes, start=EVENING, runs=True, project="chat", name="llama", tags=TAGS)
    ingest(light, "job-1", lines(list(records)))
    refresh_running(light)
    return light


def shown(client: FlaskClient, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    text = re.sub(r"<[^>]+>", " ", answer.text.replace("\u202f", " ").replace("\xa0", " "))
    return re.sub(r"\s+", " ", text)


def test_the_list_and_the_page_show_a_service_that_is_up(serving, client):
    assert re.search(r"llama chat · \S+ running service .* up 30 min", shown(client, "/jobs"))
    page = shown(client, "/jobs/job-1")
    assert "Service, running since" in page
    assert "The service was running when this was made" in page
    assert "took" not in page.partition("Summary")[0]
    assert "Prefill (prompt tokens computed)" in page
    assert "2026-05-01, so far 100 5 000" in page
    assert "2026-04-30 80 4 000" in page


def test_the_job_on_a_terminal_says_what_the_energy_was_for(serving):
    document = job_document(serving, "job-1").document
    # 200 Wh in all; 2 s of prefill and 20 s of decode in each minute of work.
    assert [line for line in job_lines(document) if line.startswith("For ")] == [
        "For prefill          14.6 Wh (13.9 to 15.4), 1.6 g CO2e (1.0 to 2.4)",
        "For decode           150 Wh (140 to 150), 16 g CO2e (10 to 24)",
        "For idle             39 Wh (20 to 50), 4.3 g CO2e (1.9 to 7.0)",
    ]


def test_days_of_a_running_service_close(serving):
    service = job_document(serving, "job-1").document.service
    assert service is not None
    assert [(row.day, row.closed) for row in service.days] == [
        ("2026-04-30", True),
        ("2026-05-01", False),
    ]


def test_months_name_a_running_service_and_budgets_count_its_days(serving):
    april_j, may_j = 60 * (2 * IDLE_W + 8 * BUSY_W), 60 * (10 * BUSY_W + 10 * IDLE_W)
    set_budget(serving, NewBudget(project="chat", limit_kg=1.0), by="u")
    grams = {
        day.day[:7]: sum(getattr(day, term).value for term in ("operational_g", "embodied_g"))  # type: ignore[literal-required]
        for day in job_document(serving, "job-1").document.days
    }
    for month, joules in (("2026-04", april_j), ("2026-05", may_j)):
        found = month_report(serving, month)
        running = found.jobs_running
        assert [row.job_id for row in running.named] == ["job-1"]
        assert running.energy_kwh is not None
        assert running.energy_kwh.value == pytest.approx(joules / 3.6e6)
        assert (found.complete, found.totals.jobs) == (False, 0)
        (budget,) = month_report(serving, month).budgets
        assert budget.spent_kg is not None
        assert budget.spent_kg.value == pytest.approx(grams[month] / 1e3)
