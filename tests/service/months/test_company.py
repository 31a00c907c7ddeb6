"""Four months of a company over HTTP: every figure against numbers that share no code."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from gramwatt.sci.month.documents import MarketFactor
from gramwatt.service.container import Service
from gramwatt.service.tasks.table import TASKS
from tests.company import HOUR, MONTHS, PROJECTS, ZONE, Carbon, Company, Job, node_lines
from tests.service.keyed import KeyedClient, client_of, with_settings
from tests.tables import month_of_tables, tables_of

JOBS = 40
"""Jobs of a month."""
EXACT = 1e-9
TERMS = {
    "energy_kwh": "kwh",
    "operational_g": "operational",
    "embodied_g": "embodied",
    "total_g": "total",
}


def near(value: float) -> Any:
    return pytest.approx(value, rel=EXACT, abs=1e-9)


def run(service: Service, *names: str) -> None:
    for name in names:
        TASKS[name].action(service)


def send(client: KeyedClient, job: Job, lines: list[dict[str, Any]] | None = None) -> None:
    answer = client.send(job.job_id, job.body(lines))
    assert answer.status_code == 200, answer.text
    assert not answer.json["rejected"], answer.json


def same(row: dict[str, Any], carbon: Carbon, what: str) -> None:
    """The four terms of a row, each inside its range."""
    for term, name in TERMS.items():
        figure = row[term]
        assert figure["value"] == near(getattr(carbon, name)), (what, term)
        assert figure["low"] <= figure["value"] <= figure["high"], (what, term)


def check_month(client: KeyedClient, company: Company, month: str) -> None:
    """Every table of a month's document, and its CSV."""
    result = client.month(month)
    jobs, whole = company.of(month), company.total(month)
    same(result["totals"], whole, month)
    assert result["totals"]["jobs"] == len(jobs)
    assert result["totals"]["jobs_ended"] == sum(job.last_month == month for job in jobs)
    assert {row["project"] for row in result["by_project"]} == {job.project for job in jobs}
    for row in result["by_project"]:
        of = company.total(month, project=row["project"])
        same(row, of, f"{month} {row['project']}")
    for row in result["projects"]:
        of = company.total(month, project=row["project"])
        count = sum(job.counts()[month] for job in company.counted(project=row["project"]))
        assert row["count"] == near(count)
        assert row["g_per_unit"]["value"] == near(of.total / count)
    for row in result["chargeback"]:
        of = company.total(month, project=row["project"], owner=row["owner"])
        same(row, of, f"{month} {row['project']} {row['owner']}")
    assert sum(row["jobs"] for row in result["chargeback"]) == len(jobs)
    for row in result["ledger"]:
        of = company.total(month, state=row["outcome"])
        assert row["total_g"]["value"] == near(of.total), row["outcome"]
    by_day = company.carbon(month)
    for row in result["days"]:
        of = by_day.pop(row["day"])
        for term in ("energy_kwh", "operational_g", "embodied_g"):
            assert row[term]["value"] == near(getattr(of, TERMS[term])), row["day"]
    assert not any(carbon.total for carbon in by_day.values())
    check_factors(result, company, month)
    [memo] = result["market_based"]
    of = company.total(month, zone="DE")
    assert memo["energy_kwh"]["value"] == near(of.facility)
    assert memo["market_g"]["value"] == near(of.facility * FACTOR.g_per_kwh)
    assert result["boundary"]["full_g"]["value"] == near(whole.total)
    assert result["boundary"]["full_kwh"]["value"] == near(whole.facility)
    assert sum(row["g"]["value"] for row in result["components"]) == near(whole.total)
    method = result["method"]
    assert method["pue"]["value"] == near(whole.facility / whole.kwh)
    assert method["intensity_g_per_kwh"]["value"] == near(whole.operational / whole.facility)
    row = month_of_tables(tables_of(client.get(f"/v1/reports/monthly/{month}.zip").data))
    assert float(row["Carbon"]) * 1000 == near(result["totals"]["total_g"]["value"])


def check_factors(result: dict[str, Any], company: Company, month: str) -> None:
    table = company.factors(month)
    for row in result["factors"]:
        quality = "hourly" if row["quality"] == "hourly" else "annual"
        key = (row["zone"], row["pue"]["value"], quality)
        of = table.pop(key)
        assert row["energy_kwh"]["value"] == near(of.kwh), key
        assert row["operational_g"]["value"] == near(of.operational), key
        assert row["factor_g_per_kwh"]["value"] == near(of.operational / of.facility), key
    assert not table


def check_change(client: KeyedClient, company: Company, month: str, before: str) -> None:
    result = client.month(month)
    new, old = company.total(month), company.total(before)
    same(result["previous"], old, f"before {month}")
    assert [row["month"] for row in result["trend"]] == [m for m in MONTHS if m <= month]
    for row in result["trend"]:
        same(row, company.total(row["month"]), f"trend of {month}")
    ratio = result["changes"]["total_g"]
    assert ratio["value"] == near(new.total / old.total)
    parts = {name: figure["value"] for name, figure in result["change_parts"].items()}
    change = parts.pop("change_g")
    assert change == near(new.total - old.total)
    assert sum(parts.values()) == near(change)
    for row in result["project_changes"]:
        of = [company.total(m, project=row["project"]) for m in (month, before)]
        figures = [row[name]["value"] for name in ("total_g", "previous_g")]
        assert figures == [near(carbon.total) for carbon in of]


def check_year(client: KeyedClient, company: Company) -> None:
    year = client.get("/v1/reports/yearly/2026").json
    months = {row["month"]: row for row in year["months"]}
    whole = Carbon()
    for month in MONTHS:
        of = company.total(month)
        whole += of
        assert months[month]["total_g"]["value"] == near(of.total)
    whole += company.total("2026-05")  # jobs over the edge of April
    assert year["totals"]["total_g"]["value"] == near(whole.total)


FACTOR = MarketFactor(350.0, "statement of the supplier")


@pytest.fixture
def light(light):
    """A service with the company's days."""
    return with_settings(light, zone=ZONE, reports={"market_factors": {"DE": FACTOR}})


@pytest.fixture
def company():
    return Company()


@pytest.fixture
def client(light, clock, company):
    """The company's months, sent and reported."""
    clock.now = datetime(2026, 5, 2, 6, tzinfo=UTC)
    client = client_of(light)
    run(light, "rescore-factors")  # so that nothing waits for it later
    answer = client.post("/v1/intensity", json=company.grid.body("DE", "operator"))
    assert answer.status_code == 200, answer.text
    for month in MONTHS:
        for number in range(JOBS):
            send(client, company.add(month, number))
    left_out = company.jobs["2026-02-004"]
    body = {"excluded": True, "reason": "a test of the cluster"}
    assert client.patch(f"/v1/jobs/{left_out.job_id}", json=body).status_code == 200
    left_out.excluded = True
    run(light, "score-pending", "monthly-reports")
    for month in MONTHS:
        check_month(client, company, month)
        assert client.month(month)["revision"] == 1
    clock.turn(days=1)
    return client


class Since:
    """What changed reported months: each act in the month that it hits."""

    def __init__(self, service: Service, client: KeyedClient, company: Company) -> None:
        self.service, self.client, self.company = service, client, company

    def corrected(self) -> None:
        for job_id in ("2026-01-011", "2026-01-012"):
            self._declare(job_id, pue=1.45)
            self.company.jobs[job_id].pue = 1.45
        self._declare("2026-01-013", zone="SE")
        self.company.jobs["2026-01-013"].moved_to = "SE"

    def _declare(self, job_id: str, **fields: Any) -> None:
        body = {**fields, "reason": "the hall was looked up"}
        assert self.client.patch(f"/v1/jobs/{job_id}", json=body).status_code == 200

    def late_records(self) -> None:
        send(self.client, self.company.add("2026-02", JOBS))
        job = self.company.jobs["2026-02-020"]
        started = datetime.fromisoformat(job.head["started_at"])
        of_line = ("v", "job_id", "node", "writer", "seq", "type", "started_at")
        head = {name: value for name, value in job.head.items() if name not in of_line}
        hours = round((job.ended - started) / HOUR)
        lines = node_lines(self.company.draw, job.job_id, "n-2", started, hours, **head)
        send(self.client, job, lines)
        job.lines += lines

    def intensity(self) -> None:
        first = datetime(2026, 3, 2, tzinfo=UTC)
        hours = {first + n * HOUR: 20.0 + n % 24 for n in range(12 * 24)}
        self.company.grid.hours["FR"] = hours
        body = self.company.grid.body("FR", "operator")
        assert self.client.post("/v1/intensity", json=body).status_code == 200

    def deleted(self) -> None:
        answer = self.client.delete("/v1/jobs/2026-04-030?reason=was+run+twice")
        assert answer.status_code in (200, 204), answer.text
        del self.company.jobs["2026-04-030"]


def table(client: KeyedClient, month: str, revision: int | None = None) -> dict[str, Any]:
    """The jobs of a report by their ids."""
    of = {} if revision is None else {"revision": revision}
    answer = client.get(f"/v1/reports/monthly/{month}/jobs", query_string=of)
    return {row["job_id"]: row for row in answer.json["jobs"]}


def total(row: dict[str, Any]) -> float:
    return float(row["operational_g"] + row["embodied_g"])


CAUSES = ("corrected", "late_records", "intensity", "deleted")


@pytest.mark.long
def test_four_months_of_a_company_agree_with_an_independent_calculation(
    light, clock, client, company
):
    for before, month in pairwise(MONTHS):
        check_change(client, company, month, before)
    one = client.month("2026-01", project=PROJECTS[1])
    same(one["totals"], company.total("2026-01", project=PROJECTS[1]), PROJECTS[1])
    check_year(client, company)

    since, reported = Since(light, client, company), {m: company.total(m).total for m in MONTHS}
    for cause in CAUSES:
        getattr(since, cause)()
    clock.turn(hours=2)
    run(light, "score-pending", "rescore-intensity", "monthly-reports")
    changed = {}
    for month, cause in zip(MONTHS, CAUSES, strict=True):
        check_month(client, company, month)
        revised = client.month(month)["revised"]
        assert (revised["revision"], revised["total_g"]["value"]) == (1, near(reported[month]))
        assert {row["cause"] for row in revised["changes"]} == {cause.replace("_", "-")}
        # The first report stays, with its jobs: the deleted one too.
        old = client.month(month, revision=1)["totals"]["total_g"]["value"]
        assert old == near(reported[month])
        first, now = (table(client, month, revision) for revision in (1, 2))
        assert sum(map(total, first.values())) == near(reported[month])
        assert sum(map(total, now.values())) == near(company.total(month).total)
        assert now == table(client, month)
        changed[month] = [job_id for job_id in now if first.get(job_id) != now[job_id]]
    assert changed["2026-01"] == ["2026-01-011", "2026-01-012", "2026-01-013"]
    assert changed["2026-02"] == ["2026-02-020", f"2026-02-{JOBS:03d}"]
    assert changed["2026-04"] == []
    check_year(client, company)
    [gone] = client.month("2026-04")["deletions"]
    assert (gone["job_id"], gone["reason"]) == ("2026-04-030", "was run twice")
    assert gone["total_g"]["value"] == near(reported["2026-04"] - company.total("2026-04").total)
