"""A month whose jobs wait to be scored again is a mixture: not complete, not kept, not sent."""

import json
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from gramwatt.service.months.report import month_report, year_report
from gramwatt.service.months.sums import sum_scope
from gramwatt.service.store.alerts import OutboxMessage
from gramwatt.service.store.months import MonthlyReport, MonthSum
from gramwatt.service.tasks import rescoring
from gramwatt.service.tasks.table import TASKS
from tests.service.keyed import add, client_of, with_settings

MAY, JOBS = "2026-05", 12
START = datetime(2026, 5, 3, 8, tzinfo=UTC)


def told(service, tmp_path, **settings):
    """The same store with other settings, and a folder for reports."""
    return with_settings(service, reports={"folder": tmp_path / "reports"}, **settings)


def work(service, *names):
    for name in names:
        TASKS[name].action(service)


def state(service):
    """Of the month's report: complete, revision, total and how many jobs wait."""
    answer = client_of(service).get(f"/v1/reports/monthly/{MAY}").json
    waiting = answer["jobs_to_rescore"]
    return answer["complete"], answer["revision"], answer["totals"]["total_g"]["value"], waiting


def kept(service):
    """Totals of the kept revisions, and the revisions that were put into the outbox."""
    with service.store.read() as session:
        docs = session.scalars(sa.select(MonthlyReport.doc).order_by(MonthlyReport.revision)).all()
        sent = [
            json.loads(doc)["revision"] for doc in session.scalars(sa.select(OutboxMessage.doc))
        ]
    return [json.loads(doc)["totals"]["total_g"]["value"] for doc in docs], sent


@pytest.mark.long
def test_jobs_scored_again_one_after_another_make_two_revisions_and_no_mixture(
    service, tmp_path, monkeypatch
):
    before = told(service, tmp_path)
    for n in range(JOBS):
        start = START + timedelta(days=n)
        add(before, f"job-{n}", start=start)
    work(before, "rescore-factors", "monthly-reports")
    assert state(before)[:2] == (True, 1)
    after = told(service, tmp_path, lifetime_years=8.0)
    # The restarted server has scored nothing again yet.
    assert state(after)[0::3] == (False, JOBS)
    score, seen = rescoring.score_job, []

    def watched(service, key, reason, *, force):
        score(service, key, reason, force=force)
        work(service, "monthly-reports")
        seen.append(state(service))

    monkeypatch.setattr(rescoring, "score_job", watched)
    monkeypatch.setattr(rescoring, "KEPT_EVERY", 5)
    rescoring.rescore_on_new_factors(after)
    assert len(seen) == JOBS
    assert {(complete, revision) for complete, revision, _, _ in seen} == {(False, None)}
    assert [waiting for *_, waiting in seen] == [12] * 5 + [7] * 5 + [2] * 2
    assert len({total for _, _, total, _ in seen}) == JOBS
    work(after, "monthly-reports", "monthly-reports")
    assert state(after)[:2] == (True, 2)
    totals, sent = kept(after)
    assert (len(totals), sent) == (2, [1, 2])
    assert totals == [month_report(after, MAY, revision=n).totals.total_g.value for n in (1, 2)]
    assert totals[1] < totals[0]


def test_jobs_whose_intensity_has_arrived_wait_too(light, tmp_path):
    light = told(light, tmp_path)
    add(light, "job-1", start=START, zone="FR")
    work(light, "rescore-factors", "monthly-reports")
    with light.store.write() as session:  # as `rescore-intensity` does when points arrive
        session.execute(sa.text("UPDATE jobs SET rescore_us = 1"))
    assert state(light)[0::3] == (False, 1)
    page = client_of(light).get(f"/v1/reports/monthly/{MAY}.html").text
    assert "1 job of it or its trend waits to be scored again" in page
    work(light, "rescore-intensity", "monthly-reports")
    assert state(light)[:2] == (True, 1)


def test_a_year_sums_each_month_once_while_jobs_change_and_none_while_they_wait(
    light, tmp_path, monkeypatch
):
    light, months, summed = told(light, tmp_path), (2, 3, 4, 5), []
    for month in months:
        start = datetime(2026, month, 3, 8, tzinfo=UTC)
        add(light, f"job-{month}", start=start)

    def changed():
        with light.store.write() as session:
            session.execute(sa.update(MonthSum).values(changes=MonthSum.changes + 1))

    def counted(rows, month, *scope):
        summed.append(month)
        changed()  # as by a job that is scored meanwhile
        return sum_scope(rows, month, *scope)

    monkeypatch.setattr("gramwatt.service.months.sums.sum_scope", counted)
    assert year_report(light, "2026").jobs_ended == len(months)
    assert summed == [f"2026-{month:02}" for month in reversed(months)]
    work(light, "rescore-factors")
    with light.store.write() as session:
        session.execute(sa.text("UPDATE jobs SET rescore_us = 1"))
    changed()
    summed.clear()
    document = year_report(light, "2026")
    assert (document.complete, document.jobs_ended, summed) == (False, len(months), [])
