"""Months from parts equal months from whole documents, figure for figure."""

import gc
import random
import threading
import weakref
from datetime import timedelta

import msgspec
import pytest
import sqlalchemy as sa

from gramwatt.sci.advice.jobs import for_month
from gramwatt.sci.analysis.documents import MonthDoc
from gramwatt.service.advice.suggest import rows_of_own_jobs
from gramwatt.service.jobs import deletion, scoring
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import rescore
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.months.report import month_report, sum_month
from gramwatt.service.months.stored import whole_days
from gramwatt.service.months.sums import month as rollup
from gramwatt.service.store.documents import read_job
from gramwatt.service.store.models import Job, MonthSum, Score
from tests.journals import T0, Writer, journal, lines
from tests.months import alike, month_document

SUMMED = sorted(
    MonthDoc.__annotations__.keys()
    - {"complete", "jobs_running", "jobs_unscored", "deleted", "excluded", "change_parts"}
    - {"factors", "deletions", "model_units"}
    - {"trend", "budgets", "followed", "statement", "revision", "revised"}
)
PARTS = ("NVIDIA H100 80GB HBM3", "NVIDIA L4", "NVIDIA A100-SXM4-80GB", "Unheard-of 9000")
ZONES = ("DE", "FR", "US-CAL-CISO", None)
H = 3600.0


def random_job(draw, number):
    """The lines of a job of one to three nodes somewhere between 25 April and 5 June."""
    name, shared = f"job-{number:02d}", draw.random() < 0.5
    start = draw.uniform(-6 * 86_400, 35 * 86_400)
    hours = draw.choice([0.1, 1, 5, 30, 80])
    head = {
        "zone": draw.choice(ZONES),
        "pue": draw.choice([None, None, 1.0, 1.2]),
        "project": draw.choice(["vision", "speech", "lab"]),
        "kind": draw.choice(["training", "inference", "other"]),
        "tags": draw.choice([{}, {"user": "ada"}, {"user": "jon", "sweep": "lr"}]),
        "model_id": draw.choice([None, "m-1", "m-2"]),
        "units": draw.choice([(), ("image",), ("token", "image")]),
    }
    found = []
    for node in range(draw.choice([1, 1, 2, 3])):
        writer = Writer(f"w-{node}", f"n-{draw.randrange(4)}-{node}", name)
        writer.t0 = T0 + timedelta(seconds=round(start + 600 * node, 3))
        found.append(writer.job(**head))
        for gpu in range(draw.choice([1, 2])):
            board = f"GPU-{draw.randrange(5)}" if shared else f"GPU-{name}-{node}-{gpu}"
            found += _read(draw, writer, f"{board}-{node}-{gpu}", hours)
        for unit in head["units"]:
            if draw.random() < 0.7:
                at_s = draw.uniform(1, hours * H)
                found.append(writer.count(draw.uniform(1, 1e6), unit, seconds=at_s))
        found.append(writer.end(hours * H, draw.choice(["completed", "completed", "failed"])))
    return name, found


def _read(draw, writer, board, hours):
    kind = draw.choice(["measured", "measured", "integrated", "estimated"])
    found = [writer.device(board, name=draw.choice(PARTS), kind=kind)]
    if draw.random() < 0.1:
        return found  # nothing of it is read: the job's energy is not known
    steps = max(1, round(hours / 3))
    watts, busy = draw.choice([0.0, 120.0, 300.0, 650.0]), draw.choice([None, 0.01, 0.9])
    for n in range(steps):
        span = (n * hours * H / steps, (n + 1) * hours * H / steps)
        joules = watts * (span[1] - span[0])
        found.append(writer.interval(*span, joules, board, kind=kind, utilisation_mean=busy))
    return found


def expected(service, month, project):
    """The month from the newest documents of jobs whose every line is scored."""
    wanted = (
        sa.select(Score.doc, Score.series)
        .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
        .where(Job.state != "running", Job.scored_version == Job.version)
    )
    with service.store.read() as session:
        jobs = [read_job(*texts) for texts in session.execute(wanted)]
    return month_document(
        month,
        jobs,
        jobs,
        project=project,
        days=whole_days(service, month),
        advise=lambda jobs: for_month(jobs, service.catalog, rows_of_own_jobs(service)),
    )


def check(service):
    for month in ("2026-04", "2026-05", "2026-06"):
        for project in (None, "vision", "speech"):
            wanted = expected(service, month, project)
            if not wanted.totals.jobs:
                continue
            found = month_report(service, month, project, names=False)
            for document in (found, wanted):
                document.advice = [
                    row
                    for row in document.advice
                    if row.basis == "examined" and row["action"] != "stop-idle"
                ]
            for name in SUMMED:
                alike(getattr(found, name), getattr(wanted, name), f"{month} {project} {name}")
            check_change(found, wanted)
            check_factors(found)
            left_out = [row["job_id"] for row in wanted.excluded]
            assert left_out == [row["job_id"] for row in found.excluded]


def check_factors(found):
    """Each row multiplies, and the rows sum to E and O."""
    rows = [
        [
            getattr(row, name)["value"]
            for name in ("energy_kwh", "pue", "factor_g_per_kwh", "operational_g")
        ]
        for row in found.factors
    ]
    assert [kwh * pue * factor for kwh, pue, factor, _ in rows] == pytest.approx(
        [grams for *_, grams in rows]
    )
    for place, term in ((0, "energy_kwh"), (3, "operational_g")):
        known = getattr(found.totals, term)
        whole = known["value"] if known else 0.0
        assert sum(row[place] for row in rows) == pytest.approx(whole, rel=1e-9)


def check_change(found, wanted):
    """The effects are those of plain arithmetic, and add up to the change of the total."""
    parts = found.change_parts
    now = "totals" if found.compared_days is None else "compared"
    totals = [of and of.total_g for of in (found.previous, getattr(found, now))]
    assert (parts is None) is (None in totals)
    if parts is None:
        return
    values = {name: figure["value"] for name, figure in msgspec.structs.asdict(parts).items()}
    change = totals[1]["value"] - totals[0]["value"]
    scale = max(abs(figure["value"]) for figure in totals)
    assert values["change_g"] == pytest.approx(change, abs=1e-9 * scale)
    assert sum(values.values()) == pytest.approx(2 * change, abs=1e-9 * scale)
    for name, figure in msgspec.structs.asdict(wanted.change_parts).items():
        assert values[name] == pytest.approx(figure["value"], abs=1e-8 * scale), name


@pytest.mark.parametrize(("seed", "count"), [(0, 3), pytest.param(1, 12, marks=pytest.mark.long)])
def test_random_months_equal_those_from_documents(light, seed, count):
    draw = random.Random(seed)
    jobs = dict(random_job(draw, number) for number in range(count))
    names = list(jobs)
    for name, records in jobs.items():
        ingest(light, name, lines(records))
    ingest(light, "running", lines(journal("running", end_state=None)))
    ingest(light, "unscored", lines(journal("unscored")), score=False)
    check(light)
    # What people change afterwards, lines that come late, and what is scored again.
    correct_job(light, names[0], {"zone": "FR", "project": "speech"}, by="u")
    correct_job(light, names[1], {"excluded": True}, by="u", reason="a test")
    delete_job(light, names[2], by="u")
    check(light)
    rescore(light, names[0], "test")
    correct_job(light, names[1], {"excluded": False, "pue": 1.5}, by="u")
    late = Writer("late", job=names[0], t0=jobs[names[0]][0].started_at)
    ingest(light, names[0], lines([late.device("GPU-late"), late.interval(0, 600, 60_000)]))
    check(light)
    with light.store.write() as session:  # compared with what is kept of the month before
        session.execute(sa.delete(MonthSum))
    check(light)


def test_sums_are_made_anew_only_when_a_part_changed(service, monkeypatch):
    ingest(service, "job-1", lines(journal()))
    sum_month(service, "2026-05")
    first = month_report(service, "2026-05")
    made = []
    monkeypatch.setattr(
        "gramwatt.service.months.stored.summed",
        lambda *given: made.append(given) or pytest.fail("the parts were read again"),
    )
    assert month_report(service, "2026-05") == first
    monkeypatch.undo()
    # 3 minutes at 600 W are 0.03 kWh, at 1 200 W 0.06 kWh.
    assert first.totals.energy_kwh["value"] == pytest.approx(0.03)
    ingest(service, "job-2", lines(journal("job-2", power_w=1200.0)))
    assert month_report(service, "2026-05").totals.energy_kwh["value"] == pytest.approx(0.09)
    # Lines without a score leave the job out at once: its old figures are not the month's.
    writer = Writer("late", "n1", "job-2", t0=journal("job-2")[0].started_at)
    ingest(service, "job-2", lines([writer.interval(0, 60, 60.0, "GPU-x")]), score=False)
    found = month_report(service, "2026-05")
    assert found.totals.energy_kwh["value"] == pytest.approx(0.03)
    assert found.jobs_unscored.jobs == 1


def test_the_parts_of_a_month_are_let_go_before_those_of_the_next_are_read(light, monkeypatch):
    """By themselves: the collector of cycles may come only when memory holds many months."""
    for number, days in enumerate((-70, -40, 0)):
        start = T0 + timedelta(days=days)
        ingest(light, f"job-{number}", lines(journal(f"job-{number}", start=start)))
    read, known = rollup.read_parts, []

    def reading(portions):
        assert [parts for parts in known if parts() is not None] == []
        found = read(portions)
        known.append(weakref.ref(found))
        return found

    monkeypatch.setattr(rollup, "read_parts", reading)
    gc.disable()
    try:
        month_report(light, "2026-05")
    finally:
        gc.enable()
    assert len(known) == 5  # those of the months without jobs before two of them are empty


@pytest.mark.parametrize(
    ("module", "name"), [(scoring, "keep_parts"), (deletion, "forget_parts")], ids=["first", "last"]
)
def test_a_job_scored_while_the_only_other_is_deleted_keeps_its_month(
    service, monkeypatch, module, name
):
    """Whichever comes first waits with its changes made and not committed."""
    ingest(service, "job-1", lines(journal("job-1")))
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
