"""Sums by statements equal plain arithmetic, on every database, whatever happens to the jobs."""

import math
import os
import random
import sys
import threading
from contextlib import closing
from datetime import timedelta
from subprocess import CalledProcessError

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.month.change import WorkMonth, change_effects
from gramwatt.sci.month.documents import MonthSums
from gramwatt.service.common.errors import BusyError
from gramwatt.service.container import Service
from gramwatt.service.jobs import deletion, scoring
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import rescore
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months import advice, cache, groups, large, sums
from gramwatt.service.months.report import month_report, read_now
from gramwatt.service.months.statements import month_scope
from gramwatt.service.months.sums import sum_month
from gramwatt.service.store.columns import read_job
from gramwatt.service.store.database import Store
from gramwatt.service.store.models import Job, Score
from gramwatt.service.store.months import METHODS, JobMonth, MonthSum
from tests.documents import DAILY, changed, scored, steady_job, unread_job, varied_job, world_job
from tests.journals import T0, FakeGrid, Writer, journal, lines
from tests.months import Tables, alike, month_document
from tests.plain_month import UNFINISHED, PlainMonth, plain
from tests.random_jobs import random_job
from tests.service.conftest import create_database
from tests.service.keyed import add

MONTHS = ("2026-04", "2026-05", "2026-06")
EFFECTS = ("volume_g", "efficiency_g", "grid_g", "hardware_g", "method_g")


@pytest.fixture(scope="module")
def jobs():
    draw = random.Random(39)
    return [scored(random_job(draw, n)[1], DAILY if n % 3 else None) for n in range(60)]


def edges():
    """Months at the edge of what sums are made for, by name."""
    nothing = FakeGrid(0.0, 0.0, first=T0 - timedelta(days=20), step_s=40 * 86_400.0)
    whole = steady_job("whole", project="lab")
    synthetic = changed(varied_job("synthetic"), notices=[Notice("meter-synthetic", "not real")])
    ends = [
        changed(varied_job(f"{end}-{n}", gpus=n), state=end) for end in UNFINISHED for n in (1, 2)
    ]
    return {
        "no job": [],
        "left out": [changed(whole, excluded="a test"), changed(whole, job_id="a", excluded="b")],
        "nothing known": [unread_job(), changed(unread_job(), job_id="other")],
        "nothing used": [steady_job(watts=0), steady_job("other", watts=0, project="speech")],
        "carbon of none": [scored(random_job(random.Random(n), n)[1], nothing) for n in range(6)],
        "of the world": [world_job(), steady_job(zone="FR")],
        "alike": [changed(whole, job_id=name) for name in "dcba"],
        "provisional": [changed(whole, provisional=True), steady_job("final")],
        "in regions": [
            changed(steady_job(f"job-{n}"), region=region)
            for n, region in enumerate(("b-1", "a-1", "b-1", None))
        ],
        "no end": ends,
        "synthetic": [synthetic, *ends[:1]],
        "a grade lacks": [whole, world_job(), varied_job("varied")],
        "at lives": [
            whole,
            changed(
                varied_job("older"),
                method={
                    **to_builtins(varied_job("older").method),
                    "lifetime_years": to_builtins(Quantity(3, 2, 4, "years", "declared", "x")),
                },
            ),
        ],
    }


def test_every_field_is_that_of_plain_loops_over_the_jobs(jobs):
    cases = [(month, month, jobs) for month in MONTHS]
    cases += [(name, "2026-05", of) for name, of in edges().items()]
    for name, month, of in cases:
        found, expected = plain(sum_month(Tables(of), month)), PlainMonth(of, month).document()
        assert expected.keys() == found.keys()
        for field, values in expected.items():
            alike(found[field], values, f"{name}: {field}")


@pytest.fixture(scope="module")
def execute(jobs):
    with closing(Tables(jobs)) as tables:
        yield tables


@pytest.mark.parametrize("month", MONTHS)
def test_tables_add_up_to_the_totals(execute, month):
    sums = sum_month(execute, month)
    parts = {
        "energy_kwh": [
            sums.ledger,
            sums.chargeback,
            sums.by_project,
            sums.work,
            sums.days,
            sums.factors,
        ],
        "total_g": [sums.ledger, sums.chargeback, sums.by_project, sums.work],
        "operational_g": [sums.days, sums.factors],
        "embodied_g": [sums.days],
    }
    for term, tables in parts.items():
        whole = getattr(sums.totals, term)
        for rows in tables:
            figures = [getattr(row, term) for row in rows]
            added = math.fsum(figure.value for figure in figures if figure)
            if rows is sums.factors and term == "energy_kwh":
                assert added <= whole.value * (1 + 1e-9)  # O of a job may be unknown
            elif term != "total_g" or all(figures):
                assert added == pytest.approx(whole.value, rel=1e-9)
    for row in sums.factors:
        kwh, pue, factor, grams = (
            getattr(row, name).value
            for name in ("energy_kwh", "pue", "factor_g_per_kwh", "operational_g")
        )
        assert kwh * pue * factor == pytest.approx(grams)
    assert sum(sums.conformance.values()) == sums.totals.jobs


def test_effects_that_are_read_in_portions_are_those_of_one(execute, monkeypatch):
    whole = sum_month(execute, "2026-05")
    monkeypatch.setattr(groups, "PORTION", 1)
    alike(sum_month(execute, "2026-05"), whole)


@pytest.mark.parametrize("url", ["duckdb", "postgresql"])
def test_databases_agree_to_the_last_field(request, jobs, url):
    jobs = jobs[:25]
    if url == "postgresql":
        url = create_database(request.getfixturevalue("postgres_server"))
    with closing(Tables(jobs, url)) as other:
        for scope in zip(MONTHS, (None, "vision", None), strict=True):
            alike(sum_month(other, *scope), sum_month(Tables(jobs), *scope))


@pytest.mark.parametrize("days", [None, 28])
def test_the_change_is_made_of_its_effects(jobs, days):
    document = month_document("2026-05", jobs, jobs, days=days)
    parts, now = document.change_parts, document.compared if days else document.totals
    change = now.total_g.value - document.previous.total_g.value
    assert parts.change_g.value == pytest.approx(change, rel=1e-9)
    added = math.fsum(getattr(parts, name).value for name in EFFECTS)
    assert added == pytest.approx(change, rel=1e-9)


amounts = st.floats(0.0, 1e9, allow_subnormal=False) | st.just(0.0)
flags = st.sampled_from([frozenset(), frozenset([("1",)]), frozenset([("2",)])])
grids = st.sampled_from([frozenset([("DE", "annual", "a")]), frozenset([("DE", "hourly", "b")])])
works = st.builds(
    lambda amounts, methods, intensities: WorkMonth(
        amounts,
        ({"meter": (-0.1, 0.1)}, {"grid": (-0.2, 0.3)}, {}),
        ("measured",),
        methods,
        intensities,
    ),
    st.tuples(*[amounts] * 4),
    flags,
    grids,
)
months = st.dictionaries(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), works, min_size=1)


@settings(max_examples=80)
@given(months, months)
def test_effects_add_up_whatever_the_months_hold(before, now):
    parts = change_effects(now, before)
    figures = [getattr(parts, name) for name in EFFECTS]
    assert all(math.isfinite(getattr(figure, end)) for figure in figures for end in ("low", "high"))
    grams = [[sum(work.amounts[2:]) for work in of.values()] for of in (now, before)]
    scale = 1e-9 * (1 + sum(map(sum, grams)))
    change = sum(grams[0]) - sum(grams[1])
    assert sum(figure.value for figure in figures) == pytest.approx(change, abs=scale)
    assert parts.change_g.value == pytest.approx(change, abs=scale)


def check(service):
    """The store's sums are those of rows made anew of the newest documents."""
    newest = sa.and_(Job.id == Score.job, Job.revision == Score.revision)
    wanted = sa.select(Score.doc, Score.series).join(Job, newest).where(Job.state != "running")
    with service.store.read() as session:
        jobs = [read_job(*texts) for texts in session.execute(wanted)]
    anew = Tables(jobs)
    for month in MONTHS:
        for project in (None, "vision", "speech"):
            of_month = cache.month_sums(service, [month], project, MonthSums)
            expected = sum_month(anew, month, project)
            if month not in of_month:
                assert not expected.totals.jobs
                continue
            sums = of_month[month]
            for name in set(MonthSums.__struct_fields__) - {
                "factors",
                "advice",
                "suggestions",
                "examined_jobs",
            }:
                alike(getattr(sums, name), getattr(expected, name), f"{month} {project} {name}")


@pytest.mark.parametrize(("seed", "count"), [(0, 3), pytest.param(1, 12, marks=pytest.mark.long)])
def test_sums_follow_whatever_happens_to_jobs(light, seed, count):
    draw = random.Random(seed)
    jobs = dict(random_job(draw, number) for number in range(count))
    names = list(jobs)
    for name, records in jobs.items():
        ingest(light, name, lines(records))
    add(light, "running", end_state=None)
    ingest(light, "unscored", lines(journal("unscored")), score=False)
    check(light)
    correct_job(light, names[0], {"zone": "FR", "project": "speech"}, by="u")
    correct_job(light, names[1], {"excluded": True}, by="u", reason="a test")
    delete_job(light, names[2], by="u")
    check(light)
    rescore(light, names[0], "test")
    correct_job(light, names[1], {"excluded": False, "pue": 1.5}, by="u")
    late = Writer("late", job=names[0], t0=jobs[names[0]][0].started_at)
    ingest(light, names[0], lines([late.device("GPU-late"), late.interval(0, 600, 60_000)]))
    check(light)


def test_sums_are_made_again_only_when_a_job_changed(light, monkeypatch):
    add(light)
    first = month_report(light, "2026-05")
    with monkeypatch.context() as patched:
        patched.setattr(cache, "_made", lambda *_: pytest.fail("the month was summed again"))
        assert month_report(light, "2026-05") == first
    # 3 minutes at 600 W are 0.03 kWh, at 1 200 W 0.06 kWh.
    assert first.totals.energy_kwh.value == pytest.approx(0.03)
    add(light, "job-2", power_w=1200.0)
    assert month_report(light, "2026-05").totals.energy_kwh.value == pytest.approx(0.09)
    # Later lines without a score leave what was scored, and say so.
    writer = Writer("late", "n1", "job-2", t0=journal("job-2")[0].started_at)
    ingest(light, "job-2", lines([writer.interval(0, 60, 60.0, "GPU-x")]), score=False)
    document = month_report(light, "2026-05")
    assert document.totals.energy_kwh.value == pytest.approx(0.09)
    assert (document.jobs_to_rescore, document.jobs_unscored.jobs) == (1, 0)
    assert not document.complete


def test_a_method_stays_as_long_as_a_job_is_scored_by_it(light):
    for name in ("job-1", "job-2"):
        add(light, name)
    tables = METHODS.values()
    counts = []
    for name in ("job-1", "job-2", None):
        with light.store.read() as session:
            every = [sa.select(sa.func.count()).select_from(table) for table in tables]
            counts.append([session.scalar(count) for count in every])
        if name:
            delete_job(light, name, by="u")
    assert counts[0] == counts[1]
    assert counts[1][0] == 1
    assert counts[2] == [0, 0]


def test_a_score_that_leaves_the_figures_leaves_the_sums(light):
    add(light)
    month_report(light, "2026-05")
    rescore(light, "job-1", "test")
    assert all(row.holds for row in cache.kept_months(light, ["2026-05"], None).values())


def test_a_job_that_runs_again_leaves_the_sums(light):
    add(light)
    add(light, "job-2")
    again = Writer("again", "n2", "job-2", t0=journal("job-2")[0].started_at)
    ingest(light, "job-2", lines([again.job()]))
    document = month_report(light, "2026-05")
    assert (document.totals.jobs, document.jobs_running.jobs) == (1, 1)


def test_a_month_that_changes_while_it_is_summed_is_summed_again(service, monkeypatch):
    add(service)
    summed = sums.sum_scope

    def meanwhile(*arguments):
        monkeypatch.undo()
        add(service, "job-2")
        return summed(*arguments)

    monkeypatch.setattr(sums, "sum_scope", meanwhile)
    month_report(service, "2026-05")  # of one job or of two, as the database has it
    assert month_report(service, "2026-05").totals.jobs == 2


def test_a_large_month_is_summed_by_a_process_of_its_own_and_says_the_same(service, monkeypatch):
    for number in range(3):
        add(service, f"job-{number}")
    scopes = [
        large.MonthScope("2026-05", project, *month_scope("2026-05", project))
        for project in (None, "vision")
    ]
    here = [large.scope_sums(service, scope) for scope in scopes]
    assert here[0][0] == 3
    monkeypatch.setattr(large, "JOBS_SMALL", 2)
    monkeypatch.setattr(sums, "sum_scope", lambda *_: pytest.fail("summed in this process"))
    assert [large.scope_sums(service, scope) for scope in scopes] == here
    assert month_report(service, "2026-05").totals.jobs == 3


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", BusyError),
        (f"raise SystemExit({os.EX_TEMPFAIL})", BusyError),
        ("raise TypeError", CalledProcessError),
    ],
    ids=["killed", "without a database", "faulty"],
)
def test_a_month_whose_process_ends_is_not_kept(light, monkeypatch, ends, error):
    add(light)
    run = large.subprocess.run
    with monkeypatch.context() as patched:
        patched.setattr(large, "JOBS_SMALL", 0)
        patched.setattr(
            large.subprocess, "run", lambda _, **more: run([sys.executable, "-c", ends], **more)
        )
        with pytest.raises(error):
            month_report(light, "2026-05")
    assert month_report(light, "2026-05").totals.jobs == 1


def test_the_process_of_a_month_says_that_the_database_is_away(light, tmp_path, capfd):
    place = tmp_path / "none" / "store.db"
    away = Service(light.config, Store(f"sqlite:///{place}"))
    scope = large.MonthScope("2026-05", None, *month_scope("2026-05"))
    with pytest.raises(BusyError, match="ask again"):
        large._summed_apart(away.store, scope)
    assert "the sums of 2026-05: " in capfd.readouterr().err


def test_what_is_added_to_sums_is_made_again_where_a_job_is_scored_meanwhile(light):
    add(light)
    before = cache.month_sums(light, ["2026-05"], None, MonthSums)["2026-05"]
    add(light, "job-2")
    assert [row.jobs for row in cache.month_advice(light, before).factors] == [1]
    now = cache.month_sums(light, ["2026-05"], None, MonthSums)["2026-05"]
    assert [row.jobs for row in cache.month_advice(light, now).factors] == [2]
    add(light, "job-3")
    newest = cache.month_sums(light, ["2026-05"], None, MonthSums)["2026-05"]
    for sums_, jobs in ((now, 2), (newest, 3)):  # what is added to sums of before is not kept
        assert [row.jobs for row in cache.month_advice(light, sums_).factors] == [jobs]


def test_suggestions_are_made_again_only_when_a_job_changed(light, monkeypatch):
    add(light)
    advised, months = advice.advised, []

    def counted(*arguments):
        months.append(arguments[-1].month)
        return advised(*arguments)

    monkeypatch.setattr(advice, "advised", counted)
    for _ in range(3):
        month_report(light, "2026-05")
    assert months == ["2026-05"]
    add(light, "job-2")
    for _ in range(3):
        month_report(light, "2026-05")
    assert months == ["2026-05"] * 2


def test_a_change_in_the_month_before_changes_what_is_compared_with(light):
    for month in (4, 5):
        for name in ("a", "b"):
            start = journal("x")[0].started_at.replace(month=month)
            add(light, f"{name}-{month}", start=start)
    assert month_report(light, "2026-05").previous.jobs == 2
    correct_job(light, "a-4", {"excluded": True}, by="ada", reason="a test")
    document = month_report(light, "2026-05")
    assert document.previous.jobs == 1
    assert document.changes["total_g"].value == pytest.approx(2.0)


def test_sums_of_another_release_are_made_again(light):
    add(light)
    first = read_now(light, "2026-05")
    with light.store.write() as session:
        session.execute(sa.update(MonthSum).values(document='{"month": "2026-05"}'))
    assert read_now(light, "2026-05") == first


@pytest.mark.parametrize(
    ("module", "name"), [(scoring, "keep_rows"), (deletion, "erase_rows")], ids=["first", "last"]
)
def test_a_job_scored_while_the_only_other_is_deleted_keeps_its_month(
    service, monkeypatch, module, name
):
    """Whichever comes first waits with its changes made and not committed."""
    add(service)
    changed, goes_on = threading.Event(), threading.Event()
    change = getattr(module, name)

    def changed_and_waiting(*arguments, **more):
        change(*arguments, **more)
        changed.set()
        assert goes_on.wait(60)

    monkeypatch.setattr(module, name, changed_and_waiting)
    score = threading.Thread(target=ingest, args=(service, "job-2", lines(journal("job-2"))))
    delete = threading.Thread(target=delete_job, args=(service, "job-1"), kwargs={"by": "ada"})
    both = [score, delete] if module is scoring else [delete, score]
    both[0].start()
    assert changed.wait(60)
    both[1].start()
    both[1].join(0.5)
    goes_on.set()
    for thread in both:
        thread.join()
    assert month_report(service, "2026-05").totals.jobs == 1
    with service.store.read() as session:
        assert session.scalars(sa.select(JobMonth.job_id)).all() == ["job-2"]
