"""Every list and task finds its rows by an index, on both databases: no table is read whole."""

import json
from contextlib import contextmanager
from datetime import timedelta

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from gramwatt.service.common.requests import JobList, encode_cursor
from gramwatt.service.container import Caller
from gramwatt.service.intensity.points import SeriesName, keep
from gramwatt.service.intensity.refresh import refresh_intensity
from gramwatt.service.jobs import lists
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.intervals import intervals_page
from gramwatt.service.jobs.lists import list_jobs, revisions_page
from gramwatt.service.jobs.models import totals_of_model
from gramwatt.service.months.periodic import keep_ended_months
from gramwatt.service.months.report import month_report, months_with_data
from gramwatt.service.status import store_measures
from gramwatt.service.suggest import rows_of_own_jobs
from gramwatt.service.tasks.rescoring import rescore_due
from gramwatt.service.tasks.upkeep import (
    close_silent,
    delete_old_intervals,
    refresh_running,
    score_pending,
)
from tests.journals import START, Writer, journal, lines
from tests.service.keyed import add, with_settings
from tests.service.providers.local import settings

LARGE = ("jobs", "scores", "intervals", "devices", "writers", "statements", "counts", "job_months")
"""Tables that grow with the jobs."""


def keeping_a_day(service):
    """The same service, which keeps intervals for a day."""
    return with_settings(service, keep_intervals={"": timedelta(days=1)})


WORK = {
    "list": lambda s: list_jobs(s),
    "list of a project": lambda s: list_jobs(s, JobList(project="vision")),
    "list of a state": lambda s: list_jobs(s, JobList(state="completed")),
    "list of a model": lambda s: list_jobs(s, JobList(model_id="m-1")),
    "list by a text": lambda s: list_jobs(s, JobList(q="job-")),
    "list by energy": lambda s: list_jobs(s, JobList(sort="-energy")),
    "report": lambda s: job_document(s, "job-1"),
    "revisions": lambda s: revisions_page(s, "job-1", 50, encode_cursor(9)),
    "intervals": lambda s: intervals_page(s, "job-1", 50, None),
    "own jobs": rows_of_own_jobs,
    "score-pending": score_pending,
    "refresh-running": refresh_running,
    "close-silent": close_silent,
    "retention": lambda s: delete_old_intervals(keeping_a_day(s)),
    "rescore-intensity": lambda s: (stored(s), rescore_due(s)),
    "refresh-intensity": lambda s: refresh_intensity(asking(s)),
    "months": months_with_data,
    "month": lambda s: month_report(s, "2026-05"),
    "month of a project": lambda s: month_report(s, "2026-05", "vision"),
    "monthly-reports": keep_ended_months,
    "correction": lambda s: correct_job(s, "job-1", {"pue": 1.5}, by="u"),
    "metrics": store_measures,
    "upload": lambda s: ingest(s, "job-1", lines([Writer("w9").count(5)])),
}


def stored(service):
    """Points of the job's time."""
    series = SeriesName("FR", "average", "lifecycle", "imported")
    keep(service, series, 3600, "hourly", START, [50.0] * 3)


def asking(service):
    """The service with a provider at a port where nothing listens."""
    url = "http://127.0.0.1:9"
    return with_settings(service, intensity=settings(url, "electricity-maps"))


@contextmanager
def met(engine):
    """The statements that read or change rows meanwhile, with their parameters."""
    found = []

    def listen(_connection, _cursor, statement, parameters, _context, many):
        first = statement.lstrip().split()[0].upper()
        if first in ("SELECT", "UPDATE", "DELETE") and not many and " FROM pg_" not in statement:
            found.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", listen)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", listen)


def scanned(service, statement, parameters):
    """The large tables that the statement reads whole."""
    with service.store.engine.connect() as connection:
        if service.store.is_sqlite:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [row[3].split() for row in plan]
            return [s[1] for s in steps if s[0] == "SCAN" and s[1] in LARGE and "INDEX" not in s]
        # A small table is read whole even where an index would serve, unless that is forbidden.
        connection.execute(sa.text("SET enable_seqscan = off"))
        plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        (tree,) = plan.scalar_one()
        connection.rollback()
    return list(_seq_scans(tree["Plan"] if isinstance(tree, dict) else json.loads(tree)["Plan"]))


def _seq_scans(node):
    if node["Node Type"] == "Seq Scan" and node["Relation Name"] in LARGE:
        yield node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from _seq_scans(child)


@pytest.fixture
def filled(service):
    add(service, "job-1", model_id="m-1")
    add(service, "running", end_state=None)
    ingest(service, "unscored", lines(journal("unscored")), score=False)
    return service


def test_no_large_table_is_read_whole(filled):
    scans = {}
    for name, work in WORK.items():
        with met(filled.store.engine) as statements:
            work(filled)
        assert statements, name
        for statement in statements:
            if tables := scanned(filled, *statement):
                scans[name, statement[0]] = tables
    assert scans == {}
    # What the test looks for would be found.
    with met(filled.store.engine) as statements, filled.store.read() as session:
        session.execute(sa.text("SELECT count(*) FROM jobs WHERE head LIKE '%x%'"))
    assert [scanned(filled, *statement) for statement in statements] == [["jobs"]]


@pytest.mark.parametrize("sort", ["started_at", "ended_at", "duration", "energy", "total"])
def test_a_sorted_list_of_a_project_reads_its_page_and_no_other_jobs(filled, sort):
    """An index has the project and then the order: nothing is sorted, and no row is left out."""
    for direction in ("", "-"):
        with met(filled.store.engine) as statements:
            list_jobs(filled, JobList(project="vision", sort=f"{direction}{sort}"))
        plan = explained(filled, *statements[0])  # of jobs whose figure is known
        column = {"started_at": "started_us", "ended_at": "ended_us", "duration": "duration_s"}
        column |= {"energy": "energy_kwh", "total": "total_g"}
        assert f"ix_jobs_project_{column[sort]}_id" in plan, plan
        assert not any(step in plan for step in ("TEMP B-TREE", "Sort", "Filter")), plan


def test_a_list_of_a_project_and_a_state_reads_its_page_and_no_other_jobs(filled):
    with met(filled.store.engine) as statements:
        list_jobs(filled, JobList(project="vision", state="failed"))
    plan = explained(filled, *statements[0], without=("ix_jobs_by_state",))
    assert "ix_jobs_project_state_started_us_id" in plan, plan
    assert not any(step in plan for step in ("TEMP B-TREE", "Sort", "Filter")), plan


@pytest.mark.parametrize(
    "labels", [{"zone": "FR"}, {"zone": "FR", "user": "ada"}, {"tag": ["a:b", "c:d", "e:f"]}]
)
def test_a_list_of_labels_reads_their_index_in_order(filled, labels):
    with met(filled.store.engine) as statements:
        list_jobs(filled, JobList(**labels))
    (statement,) = [one for one in statements if "ORDER BY" in one[0]]
    plan = explained(filled, *statement)
    assert "ix_job_labels_in_order" in plan, plan
    assert not any(step in plan for step in ("TEMP B-TREE", "Sort", "jobs_")), plan


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({}, "jobs_in_started_us"),
        ({"name": "n"}, "jobs_by_name"),
        ({"sort": "-total"}, "jobs_in_total_g"),
        ({"zone": "FR"}, "job_labels_in_order"),
        ({"zone": "FR", "user": "ada"}, "job_labels_in_order"),
    ],
)
def test_a_list_of_many_projects_reads_the_order_and_each_place_has_its_project(
    filled, monkeypatch, query, index
):
    monkeypatch.setattr(lists, "FEW", -1)  # many have each label
    caller = filled.for_caller(Caller("reader", projects=frozenset("abcdefg")))
    with met(filled.store.engine) as statements:
        list_jobs(caller, JobList(**query))
    statement = next(one for one in statements if "ORDER BY" in one[0])
    plan = explained(filled, *statement)
    assert f"ix_{index}" in plan, plan
    assert not any(step in plan for step in ("TEMP B-TREE", "Sort", "_project")), plan


@pytest.mark.parametrize(
    "query", [{}, {"sort": "-total"}, {"zone": "FR"}, {"sort": "-duration", "zone": "FR"}]
)
def test_a_list_of_a_few_projects_merges_their_orders_as_far_as_its_page(
    filled, monkeypatch, query
):
    monkeypatch.setattr(lists, "FEW", -1)  # many have each label
    caller = filled.for_caller(Caller("reader", projects=frozenset("abc")))
    with met(filled.store.engine) as statements:
        list_jobs(caller, JobList(**query))
    statement = next(one for one in statements if "ORDER BY" in one[0])
    plan = explained(filled, *statement)
    if filled.store.is_sqlite:
        assert ("MERGE (UNION ALL)" in plan, "TEMP B-TREE" in plan) == (True, False), plan
    else:  # each arm ends with the page
        assert plan.count("Limit") == 4, plan


@pytest.mark.parametrize("name", ["score-pending", "months", "metrics"])
def test_pending_jobs_are_read_from_their_index_alone(filled, name):
    """PostgreSQL takes most jobs for pending: it reads them all rather than look up their rows."""
    with met(filled.store.engine) as statements:
        WORK[name](filled)
    (pending,) = [one for one in statements if "!= jobs.version" in one[0]]
    plan = explained(filled, *pending)
    alone = "INDEX" if filled.store.is_sqlite else "Index Only Scan using"
    assert f"{alone} ix_jobs_pending" in plan, plan


def test_whether_sums_of_a_model_hold_is_read_from_an_index_alone(filled):
    with met(filled.store.engine) as statements:
        totals_of_model(filled, "m-1")
    if not filled.store.is_sqlite:  # else no page is known to be visible to all
        outside = filled.store.engine.execution_options(isolation_level="AUTOCOMMIT")
        with outside.connect() as connection:
            connection.exec_driver_sql("VACUUM jobs")
    plan = explained(filled, *statements[0])
    alone = "COVERING INDEX" if filled.store.is_sqlite else "Index Only Scan using"
    assert f"{alone} ix_jobs_of_model" in plan, plan


def explained(service, statement, parameters, without=()):
    """The plan of a statement, were the table too large to be sorted.

    Indexes that cost PostgreSQL the same in a table of three rows are left out: `without`.
    """
    with service.store.engine.connect() as connection:
        if service.store.is_sqlite:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            return "\n".join(row[3] for row in plan)
        for name in without:
            connection.execute(sa.text(f"DROP INDEX {name}"))
        for name in ("seqscan", "sort", "bitmapscan"):
            connection.execute(sa.text(f"SET enable_{name} = off"))
        rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars().all()
        connection.rollback()
    return "\n".join(rows)
