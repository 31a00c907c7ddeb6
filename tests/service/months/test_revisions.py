"""Revisions of months: who keeps one, once, and that reading keeps none."""

import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from msgspec import to_builtins

from gramwatt.sci.month.revised import CAUSE_TEXTS, CAUSES, change_lines
from gramwatt.sci.score import boundary
from gramwatt.service.intensity.points import SeriesName, keep
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import rescore
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months import pending
from gramwatt.service.months import report as report_room
from gramwatt.service.months import revisions as revisions_room
from gramwatt.service.months.periodic import keep_ended_months
from gramwatt.service.months.report import keep_month, month_text
from gramwatt.service.months.revisions import compare, job_table
from gramwatt.service.store.base import Base
from gramwatt.service.store.models import Job
from gramwatt.service.store.months import MonthlyReport
from gramwatt.service.tasks.table import TASKS
from tests.journals import journal, lines
from tests.service.cli.command import gramwatt
from tests.service.evidence.conftest import at_home
from tests.service.keyed import add, client_of, statements, store_of, with_settings
from tests.tables import month_of_tables, tables_of

MAY = "2026-05"


def job(service, job_id="job-1", month=5, **more):
    start = datetime(2026, month, 10, 8, tzinfo=UTC)
    add(service, job_id, start=start, **more)


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
    client = client_of(light)
    job(light)
    assert client.get("/v1/jobs").status_code == 200  # which makes the client's key
    before = rows(light)
    with statements(light) as sent:
        assert client.get(address).status_code == 200
    # When the caller's key was last used is noted, and sums that had to be made again.
    written = [s for s in sent if re.match(r"\s*(INSERT|UPDATE|DELETE)\b", s)]
    assert [s for s in written if not re.match(r"UPDATE (api_keys|month_sums)\b", s)] == []
    assert rows(light) == before


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
    client = client_of(light)
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


def test_the_task_keeps_every_ended_month_whose_jobs_changed_whatever_its_age(light, clock):
    clock.now = datetime(2027, 6, 2, tzinfo=UTC)
    for month in range(1, 6):
        job(light, f"job-{month}", month)
    keep_ended_months(light)
    assert [revisions(light, f"2026-{month:02}") for month in range(1, 7)] == [[1]] * 5 + [[]]
    announced = keep_ended_months(light)
    assert revisions(light, "2026-01") == [1]
    assert announced == [(f"2026-{month:02}", None) for month in (5, 4, 3)]
    correct_job(light, "job-1", {"pue": 1.5}, by="u")
    assert ("2026-01", None) in keep_ended_months(light)
    # What February says of January is made when it is read: its own jobs are as they were.
    assert [revisions(light, f"2026-{month:02}") for month in range(1, 4)] == [[1, 2], [1], [1]]


def test_a_score_that_leaves_the_figures_makes_no_revision(light):
    job(light)
    keep_ended_months(light)
    rescore(light, "job-1", "test")
    keep_ended_months(light)
    assert revisions(light) == [1]


def test_the_task_waits_until_the_jobs_of_a_month_are_scored(light):
    job(light)
    late = lines(journal("job-2", start=datetime(2026, 5, 11, tzinfo=UTC)))
    ingest(light, "job-2", late, score=False)
    keep_ended_months(light)
    assert revisions(light) == []


def test_a_month_without_a_job_is_a_nil_report_in_every_form(light):
    client = client_of(light)
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
        row = month_of_tables(tables_of(client.get(f"{address}.zip{project}").data))
        assert (row["Jobs"], row["Carbon"]) == ("0", "")
    assert client.get("/v1/reports/monthly/2026-07").json["detail"] == "2026-07 has not begun"
    assert client.get("/v1/reports/monthly/2026-05?project=B").status_code == 404


def test_a_decimal_comma_is_a_setting_of_reports(light):
    job(light)
    comma = with_settings(light, reports={"decimal_mark": ","})
    pages, tables, data = [], [], []
    for service in (light, comma):
        client = client_of(service)
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


def kept_causes(client):
    """Keep the next revision, and return what changed and why, with how many jobs."""
    before = client.get(ADDRESS).json["revision"]
    after = client.post(ADDRESS).json
    assert before is None  # it is not yet kept
    return [(row["change"], row["cause"], row["jobs"]) for row in after["revised"]["changes"]]


def test_each_revision_has_its_jobs_and_reasons_and_stays(light, clock):
    client = client_of(light)
    TASKS["rescore-factors"].action(light)
    for number in range(5):
        job(light, f"job-{number}", pue=1.25)
    keep_ended_months(light)
    first, totals = jobs_of(client, 1), client.get(ADDRESS).json["totals"]
    assert first == jobs_of(client)
    for term in ("energy_kwh", "operational_g", "embodied_g"):
        assert sum(row[term] for row in first.values()) == pytest.approx(totals[term]["value"])
    assert {row["revision"] for row in first.values()} == {1}

    job(light, "late", pue=1.25)
    job(light, "job-0", writer="w2", node="n2", pue=1.25)
    late = [("added", "late-records", 1), ("changed", "late-records", 1)]
    assert kept_causes(client) == late
    second = jobs_of(client, 2)
    assert sorted(second.keys() - first.keys()) == ["late"]
    assert [name for name in first if first[name] != second[name]] == ["job-0"]
    assert second["job-0"]["energy_kwh"] == pytest.approx(2 * first["job-0"]["energy_kwh"])

    correct_job(light, "job-1", {"pue": 1.5}, by="u")
    correct_job(light, "job-2", {"excluded": True}, by="u", reason="a test")
    delete_job(light, "job-3", by="u", reason="was a test")
    corrected = [
        ("removed", "corrected", 1),
        ("removed", "deleted", 1),
        ("changed", "corrected", 1),
    ]
    assert kept_causes(client) == corrected
    third = jobs_of(client, 3)
    assert sorted(second.keys() - third.keys()) == ["job-2", "job-3"]
    assert third["job-1"]["revision"] == 2
    assert third["job-1"]["operational_g"] == pytest.approx(
        first["job-1"]["operational_g"] * 1.5 / 1.25
    )
    (gone,) = client.get(ADDRESS).json["deletions"]
    grams = second["job-3"]["operational_g"] + second["job-3"]["embodied_g"]
    assert gone["total_g"]["value"] == pytest.approx(grams)

    older = with_settings(light, lifetime_years=8.0)
    TASKS["rescore-factors"].action(older)
    client = client_of(older)
    assert kept_causes(client) == [("changed", "method", 4)]
    # What was kept is as it was, and says so in each form; a deleted job has no name any more.
    assert {row["name"] for row in first.values()} == {"resnet"}
    for row in (first["job-3"], second["job-3"]):
        row |= dict.fromkeys(("name", "kind", "started_at"))
    assert [jobs_of(client, n) for n in (1, 2, 3)] == [first, second, third]
    assert client.get(f"{ADDRESS}/jobs?revision=9").json["code"] == "no-data"
    page = client.get(f"{ADDRESS}.html").text
    assert "4 jobs changed, " in page
    assert "engine, catalog or settings" in page
    # Two tables join over any two revisions, and their differences are those of the totals.
    reports = [client.get(f"{ADDRESS}?revision={n}").json for n in (1, 2, 3, 4)]
    grams = [of["totals"]["total_g"]["value"] for of in reports]
    for number, other in itertools.permutations((1, 2, 3, 4), 2):
        difference = compare(older, MAY, None, number, other)
        changed = sum(row.total_g for row in difference.changes)
        assert changed == pytest.approx(grams[number - 1] - grams[other - 1])
    first_to_third = compare(older, MAY, None, 3, 1)
    assert {row.job_id: (row.change, row.cause) for row in first_to_third.jobs} == {
        "job-0": ("changed", "late-records"),
        "job-1": ("changed", "corrected"),
        "job-2": ("removed", "corrected"),
        "job-3": ("removed", "deleted"),
        "late": ("added", "late-records"),
    }
    assert compare(older, MAY, None, None, 4).jobs == []
    answer = client.get(f"{ADDRESS}/changes?revision=3&against=1").json
    assert answer == to_builtins(first_to_third)


def test_every_cause_has_words():
    assert tuple(CAUSE_TEXTS) == CAUSES


def test_new_factors_and_a_new_method_say_of_what(light, monkeypatch):
    TASKS["rescore-factors"].action(light)
    job(light)
    keep_ended_months(light)
    series = SeriesName("FR", "average", "lifecycle", "imported")
    keep(light, series, 3600, "hourly", datetime(2026, 5, 10, tzinfo=UTC), [99.0] * 24)
    rescore(light, "job-1", "intensity")
    keep_month(light, MAY)
    service = with_settings(light, lifetime_years=8.0)
    for module in (boundary, pending):
        monkeypatch.setattr(module, "ENGINE_VERSION", "99")
    TASKS["rescore-factors"].action(service)
    keep_month(service, MAY)
    factors, engine = (change_lines(compare(service, MAY, None, n, n - 1).changes) for n in (2, 3))
    assert [line.split(": ")[1] for line in (*factors, *engine)] == [
        "factors of FR 2026",
        "method 99",
    ]


def test_two_revisions_are_three_lines_in_the_terminal(tmp_path, monkeypatch):
    at_home(monkeypatch, tmp_path)
    with store_of(tmp_path / "home") as service:
        for name in ("job-1", "job-2", "job-3"):
            job(service, name)
        assert gramwatt("report", "month", MAY, "--format", "json")[0] == 0
        job(service, "late")
        correct_job(service, "job-1", {"pue": 2}, by="u")
        delete_job(service, "job-2", by="u", reason="a test")
    assert gramwatt("report", "month", MAY, "--format", "json")[0] == 0
    code, out, err = gramwatt("month", MAY, "--revision", "2", "--against", "1")
    head, *rest = out.splitlines()
    assert (code, err, head) == (0, "", f"{MAY}, revision 2 against revision 1:")
    assert [line.split(",")[0] for line in rest] == [
        "1 job added",
        "1 job removed",
        "1 job changed",
    ]
    assert [line.split(": ")[1] for line in rest] == ["arrived late", "deleted", "corrections"]
    found = json.loads(gramwatt("month", MAY, "--revision", "2", "--against", "1", "--json")[1])
    assert [row["job_id"] for row in found["jobs"]] == ["job-1", "job-2", "late"]
    code, _, err = gramwatt("month", MAY, "--against", "9")
    assert (code, err) == (1, f"gramwatt: no report of {MAY} was kept as revision 9\n")


def test_killed_while_a_revision_is_kept_it_is_whole_or_not_there(light, monkeypatch):
    job(light)
    usual = revisions_room.upsert

    def killed(*of):
        usual(*of)
        raise KeyboardInterrupt

    monkeypatch.setattr(revisions_room, "upsert", killed)
    with pytest.raises(KeyboardInterrupt):
        keep_month(light, MAY)
    assert (revisions(light), rows(light)["monthly_report_jobs"]) == ([], 0)
    monkeypatch.setattr(revisions_room, "upsert", usual)
    keep_month(light, MAY)
    keep_month(light, MAY)
    assert (revisions(light), rows(light)["monthly_report_jobs"]) == ([1], 1)


def test_a_month_that_changes_while_its_report_is_made_is_kept_as_it_is_then(light, monkeypatch):
    job(light)
    usual, late = report_room.read_now, []

    def slow(*of, **how):
        document = usual(*of, **how)
        if not late:
            late.append(job(light, "late"))
        return document

    monkeypatch.setattr(report_room, "read_now", slow)
    document = json.loads(keep_month(light, MAY))
    assert (document["revision"], document["totals"]["jobs"]) == (1, 2)
    assert rows(light)["monthly_report_jobs"] == 2


def test_a_score_made_again_for_a_reason_of_its_own_is_not_known(light):
    client = client_of(light)
    job(light)
    keep_ended_months(light)
    series = SeriesName("FR", "average", "lifecycle", "imported")
    hours = [99.0] * 24
    keep(light, series, 3600, "hourly", datetime(2026, 5, 10, tzinfo=UTC), hours)
    rescore(light, "job-1", "the hours are there")
    assert kept_causes(client) == [("changed", "not-known", 1)]


def test_a_job_that_moves_to_another_project_is_a_correction_of_both(light):
    light = with_settings(light, reports={"projects": frozenset({"*"})})
    client = client_of(light)
    for name in ("job-1", "job-2"):
        job(light, name)
    job(light, "job-3", project="speech")
    keep_ended_months(light)
    correct_job(light, "job-2", {"project": "speech"}, by="u")
    keep_ended_months(light)
    for project, jobs in (("vision", ["job-1"]), ("speech", ["job-2", "job-3"])):
        found = client.get(ADDRESS, query_string={"project": project}).json
        assert {row["cause"] for row in found["revised"]["changes"]} == {"corrected"}
        assert list(jobs_of(client, 2, project=project)) == jobs
    changes = client.get(ADDRESS).json["revised"]["changes"]
    assert {row["cause"] for row in changes} == {"corrected"}


def test_killed_at_any_statement_of_scoring_a_job_is_in_its_month_as_its_score_says(light):
    job(light)
    more = journal("job-1", start=datetime(2026, 5, 10, 8, tzinfo=UTC), writer="w2", node="n2")
    ingest(light, "job-1", lines(more), score=False)
    left, states = 0, set()

    @sa.event.listens_for(light.store.engine, "before_cursor_execute")
    def die(*_):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    for fatal in itertools.count(1):
        left = fatal
        with suppress(KeyboardInterrupt):
            rescore(light, "job-1", "late-records")
        done, left = left > 0, 0
        (row,) = job_table(light, MAY).jobs
        with light.store.read() as session:
            scored = session.scalar(sa.select(Job.revision))
        effects = rows(light)["month_effects"], rows(light)["month_days"]
        states.add((scored, row.revision, *effects))
        states.add((row.revision, round(row.energy_kwh, 6)))
        if done:
            break
    assert fatal > 10
    assert {state for state in states if len(state) == 2} == {(1, 0.03), (2, 0.06)}
    assert {state[:2] for state in states if len(state) > 2} == {(1, 1), (2, 2)}
    assert len(states) == 4
