"""Revisions of months: who keeps one, once, and that reading keeps none."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from gramwatt.reports.month import REASONS as WORDS
from gramwatt.service.app import create_app
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import SeriesName, keep
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import rescore
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.months.periodic import keep_ended_months
from gramwatt.service.months.report import keep_month, month_text
from gramwatt.service.months.revisions import REASONS
from gramwatt.service.store.models import Base, MonthlyReport
from gramwatt.service.tasks.table import TASKS
from tests.journals import journal, lines
from tests.tables import tables_of

MAY = "2026-05"


def job(service, job_id="job-1", month=5, **more):
    start = datetime(2026, month, 10, 8, tzinfo=UTC)
    ingest(service, job_id, lines(journal(job_id, start=start, **more)))


def revisions(service, month=MAY):
    wanted = sa.select(MonthlyReport.revision).where(MonthlyReport.month == month)
    with service.store.read() as session:
        return list(session.scalars(wanted.order_by(MonthlyReport.revision)))


def rows(service):
    with service.store.read() as session:
        return {
            table.name: session.scalar(sa.select(sa.func.count()).select_from(table))
            for table in Base.metadata.sorted_tables
        }


@pytest.mark.parametrize(
    "address",
    [
        f"/v1/reports/monthly/{MAY}",
        f"/v1/reports/monthly/{MAY}.html",
        f"/v1/reports/monthly/{MAY}?project=vision",
        "/v1/badges/vision.svg",
        f"/?month={MAY}",
        f"/months/{MAY}",
        "/v1/budgets",
    ],
)
def test_reading_a_month_writes_nothing_but_its_sums(light, address):
    client = create_app(service=light).test_client()
    job(light)
    assert client.get("/v1/jobs").status_code == 200  # which makes the client's key
    written = []

    @sa.event.listens_for(light.store.engine, "before_cursor_execute")
    def note(_connection, _cursor, statement, *_):
        # When the caller's key was last used is noted.
        changes = statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))
        if changes and not re.match(r"UPDATE (api_keys|month_sums)\b", statement):
            written.append(statement)

    before = rows(light)
    assert client.get(address).status_code == 200
    assert (rows(light), written) == (before, [])


def test_readers_at_once_keep_nothing_and_keepers_at_once_keep_one(service):
    job(service)
    with ThreadPoolExecutor(4) as threads:
        read = list(threads.map(lambda _: month_text(service, MAY), range(4)))
    assert revisions(service) == []
    assert {json.loads(text)["revision"] for text in read} == {None}
    with ThreadPoolExecutor(4) as threads:
        kept = set(threads.map(lambda _: keep_month(service, MAY), range(4)))
    assert (revisions(service), len(kept)) == ([1], 1)
    assert month_text(service, MAY) == next(iter(kept))


def test_post_keeps_what_get_then_answers(light):
    client = create_app(service=light).test_client()
    address = f"/v1/reports/monthly/{MAY}"
    job(light)
    read = client.get(address).json
    kept = client.post(address)
    issued = {"revision": 1, "issued_at": kept.json["issued_at"]}
    assert (kept.status_code, kept.json) == (200, {**read, **issued})
    assert client.post(address).json == client.get(address).json == kept.json
    assert client.post("/v1/reports/monthly/2026-06").json["revision"] is None
    assert client.post("/v1/reports/monthly/2026-07").json["code"] == "no-data"
    job(light, "now", 6)
    assert client.post("/v1/reports/monthly/2026-06").json["revision"] is None
    assert revisions(light, "2026-06") == []


def test_the_task_keeps_every_ended_month_whose_jobs_changed_whatever_its_age(service, clock):
    clock.now = datetime(2027, 6, 2, tzinfo=UTC)
    for month in range(1, 6):
        job(service, f"job-{month}", month)
    keep_ended_months(service)
    assert [revisions(service, f"2026-{month:02}") for month in range(1, 7)] == [[1]] * 5 + [[]]
    announced = keep_ended_months(service)
    assert revisions(service, "2026-01") == [1]
    assert announced == [(f"2026-{month:02}", None) for month in (5, 4, 3)]
    correct_job(service, "job-1", {"pue": 1.5}, by="u")
    assert ("2026-01", None) in keep_ended_months(service)
    # February is compared with January: what it says of January has changed too.
    assert [revisions(service, f"2026-{month:02}") for month in range(1, 4)] == [
        [1, 2],
        [1, 2],
        [1],
    ]


def test_a_score_that_leaves_the_figures_makes_no_revision(service):
    job(service)
    keep_ended_months(service)
    rescore(service, "job-1", "test")
    keep_ended_months(service)
    assert revisions(service) == [1]


def test_the_task_waits_until_the_jobs_of_a_month_are_scored(service):
    job(service)
    late = lines(journal("job-2", start=datetime(2026, 5, 11, tzinfo=UTC)))
    ingest(service, "job-2", late, score=False)
    keep_ended_months(service)
    assert revisions(service) == []


def test_a_month_without_a_job_is_a_nil_report_in_every_form(light):
    client = create_app(service=light).test_client()
    job(light, project="A")
    for month, project, says in (
        ("2026-03", "", "no job was recorded in March 2026."),
        ("2026-04", "?project=A", "no job of project A was recorded in April 2026."),
        ("2026-06", "", "no job was recorded in June 2026 so far."),
    ):
        address = f"/v1/reports/monthly/{month}"
        found = client.get(f"{address}.json{project}").json
        assert (found["totals"]["jobs"], found["totals"]["total_g"]) == (0, None)
        assert says in client.get(f"{address}.html{project}").text
        assert says in client.get(f"/months/{month}{project}", headers={"Accept": "text/html"}).text
        assert client.get(f"{address}.pdf{project}").data.startswith(b"%PDF")
        (row,) = tables_of(client.get(f"{address}.zip{project}").data)["month"]
        assert (row["Jobs"], row["Carbon, kg CO2e"]) == ("0", "")
    assert client.get("/v1/reports/monthly/2026-07").json["detail"] == "2026-07 has not begun"
    assert client.get("/v1/reports/monthly/2026-05?project=B").status_code == 404


def test_a_decimal_comma_is_a_setting_of_reports(light):
    job(light)
    settings = replace(light.config.reports, decimal_mark=",")
    comma = replace(light, config=replace(light.config, reports=settings))
    pages, tables, data = [], [], []
    for service in (light, comma):
        client = create_app(service=service).test_client()
        address = f"/v1/reports/monthly/{MAY}"
        pages.append(client.get(f"{address}.html").text)
        tables.append(client.get(f"{address}.zip").data)
        data.append(client.get(f"{address}.json").data)
    assert (data[0], tables[0]) == (data[1], tables[1])
    assert "30.0\u202fWh" in pages[0]
    assert ("30.0\u202fWh" in pages[1], "30,0\u202fWh" in pages[1]) == (False, True)


ADDRESS = f"/v1/reports/monthly/{MAY}"


def jobs_of(client, revision=None, **of):
    """The jobs of a report by id, without its project."""
    of |= {} if revision is None else {"revision": revision}
    found = client.get(f"{ADDRESS}/jobs", query_string=of)
    assert (found.status_code, found.json["revision"]) == (200, revision)
    return {row.pop("job_id"): row for row in found.json["jobs"] if row.pop("project")}


def kept_reasons(client):
    """Keep the next revision, and return the reasons for it."""
    before = client.get(ADDRESS).json["revision"]
    after = client.post(ADDRESS).json
    assert before is None  # it is not yet kept
    return after["revised"]["reasons"]


def test_each_revision_has_its_jobs_and_reasons_and_stays(service, clock):
    client = create_app(service=service).test_client()
    TASKS["rescore-factors"].action(service)
    for number in range(5):
        job(service, f"job-{number}", pue=1.25)
    keep_ended_months(service)
    first, totals = jobs_of(client, 1), client.get(ADDRESS).json["totals"]
    assert first == jobs_of(client)
    for term in ("energy_kwh", "operational_g", "embodied_g"):
        assert sum(row[term] for row in first.values()) == pytest.approx(totals[term]["value"])
    assert {row["revision"] for row in first.values()} == {1}

    job(service, "late", pue=1.25)
    job(service, "job-0", writer="w2", node="n2", pue=1.25)
    assert kept_reasons(client) == ["late-records"]
    second = jobs_of(client, 2)
    assert sorted(second.keys() - first.keys()) == ["late"]
    assert [name for name in first if first[name] != second[name]] == ["job-0"]
    assert second["job-0"]["energy_kwh"] == pytest.approx(2 * first["job-0"]["energy_kwh"])

    correct_job(service, "job-1", {"pue": 1.5}, by="u")
    correct_job(service, "job-2", {"excluded": True}, by="u", reason="a test")
    delete_job(service, "job-3", by="u", reason="was a test")
    assert kept_reasons(client) == ["corrected", "deleted"]
    third = jobs_of(client, 3)
    assert sorted(second.keys() - third.keys()) == ["job-2", "job-3"]
    assert third["job-1"]["revision"] == 2
    assert third["job-1"]["operational_g"] == pytest.approx(
        first["job-1"]["operational_g"] * 1.5 / 1.25
    )
    (gone,) = client.get(ADDRESS).json["deletions"]
    grams = second["job-3"]["operational_g"] + second["job-3"]["embodied_g"]
    assert gone["total_g"]["value"] == pytest.approx(grams)

    older = Service(replace(service.config, lifetime_years=8.0), service.store)
    TASKS["rescore-factors"].action(older)
    client = create_app(service=older).test_client()
    assert kept_reasons(client) == ["method"]
    # What was kept is as it was, and says so in each form.
    assert [jobs_of(client, n) for n in (1, 2, 3)] == [first, second, third]
    assert client.get(f"{ADDRESS}/jobs?revision=9").json["code"] == "no-data"
    page = client.get(f"{ADDRESS}.html").text
    assert "What changed: engine, catalog or settings." in page


def test_every_reason_has_words_in_the_report():
    assert tuple(WORDS) == REASONS


def test_a_score_made_again_for_a_reason_of_its_own_is_not_known(service):
    client = create_app(service=service).test_client()
    job(service)
    keep_ended_months(service)
    series = SeriesName("FR", "average", "lifecycle", "imported")
    hours = [99.0] * 24
    keep(service, series, 3600, "hourly", datetime(2026, 5, 10, tzinfo=UTC), hours)
    rescore(service, "job-1", "the hours are there")
    assert kept_reasons(client) == ["not-known"]


def test_a_job_that_moves_to_another_project_is_a_correction_of_both(service):
    reports = replace(service.config.reports, projects=frozenset({"*"}))
    service = Service(replace(service.config, reports=reports), service.store)
    client = create_app(service=service).test_client()
    for name in ("job-1", "job-2"):
        job(service, name)
    job(service, "job-3", project="speech")
    keep_ended_months(service)
    correct_job(service, "job-2", {"project": "speech"}, by="u")
    keep_ended_months(service)
    for project, jobs in (("vision", ["job-1"]), ("speech", ["job-2", "job-3"])):
        found = client.get(ADDRESS, query_string={"project": project}).json
        assert found["revised"]["reasons"] == ["corrected"]
        assert list(jobs_of(client, 2, project=project)) == jobs
    assert client.get(ADDRESS).json["revised"]["reasons"] == ["corrected"]
