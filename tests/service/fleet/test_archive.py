"""A month in open files: what they hold, what is refused, and what comes back from them."""

import json
import random
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa
import typer

from gramwatt.service.cli.fleet import _hours
from gramwatt.service.container import Service
from gramwatt.service.erasure.erasure import erase_person, erase_project
from gramwatt.service.fleet.archive import archive_ended_months, archive_month, verify
from gramwatt.service.fleet.compute import ArchivedMonth, NewFactors
from gramwatt.service.fleet.engines import open_engine
from gramwatt.service.fleet.manifest import manifest_name, require_month
from gramwatt.service.fleet.places import ArchiveError, Folder
from gramwatt.service.fleet.restore import restore_month
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.months.report import month_report
from gramwatt.service.operation.factors import rescore_on_new_factors
from gramwatt.service.operation.retention import delete_old_intervals
from gramwatt.service.store.models import Count, Interval, Job
from tests.journals import H100, Load, Writer, lines, metered

MONTH = "2026-05"
DAY = 86_400


def records(job_id, start, seconds, *, project="blue-whale", zone="DE", step_s=300, **about):
    """A job of two boards at 300 to 350 W, whose energy is in whole mJ as NVML counts it."""
    random_w = random.Random(job_id)
    writer = Writer("w1", "n-1", job_id, t0=start)
    load = [Load(f"GPU-{n}", lambda _: round(300 + 50 * random_w.random(), 3), H100) for n in "12"]
    yield writer.job(project=project, zone=zone, units=("image",), **about)
    yield from metered(writer, load, seconds=seconds, step_s=step_s)
    yield writer.count(1000.0, seconds=seconds - 1)
    yield writer.end(seconds)


def fill(service):
    """Four jobs of May, one of which goes on into June; returns the service."""
    jobs = {
        "job-a": records("job-a", datetime(2026, 5, 3, 7, 30, tzinfo=UTC), 7200),
        "job-b": records("job-b", datetime(2026, 5, 4, 22, tzinfo=UTC), 10_800, zone="FR"),
        "job-c": records(
            "job-c",
            datetime(2026, 5, 9, 1, tzinfo=UTC),
            3600,
            project="humpback",
            tags={"user": "Ada Lovelace", "contract_g_per_kwh": "20", "contract_source": "wind"},
        ),
        "job-d": records("job-d", datetime(2026, 5, 31, 12, tzinfo=UTC), DAY, step_s=3600),
    }
    for job_id, of_job in jobs.items():
        ingest(service, job_id, lines(list(of_job)))
    return service


@pytest.fixture
def filled(light):
    return fill(light)


@pytest.fixture
def place(tmp_path):
    return Folder(tmp_path / "archive")


def stored(service):
    """Every interval and count of the store."""
    with service.store.read() as session:
        found = [session.execute(sa.select(t.__table__)).all() for t in (Interval, Count)]
    return [sorted(map(tuple, rows), key=str) for rows in found]


def kept(service, days=1):
    """The same service with retention."""
    return Service(
        replace(service.config, keep_intervals={"": timedelta(days=days)}), service.store
    )


def close(one, other):
    return abs(one - other) <= 1e-9 * abs(other)


LINES = "SELECT job_id, writer, seq, energy_j FROM {} ORDER BY ALL"


def read(place, sql):
    """What any reader of Parquet finds, by the names of folders alone."""
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        return con.execute(sql.format(f"'{place.path}/intervals/*/*.parquet'")).fetchall()


def test_duckdbs_query_in_the_documents_sums_the_lines(filled, place):
    archive_month(filled, MONTH, place)
    page = (Path(__file__).parents[3] / "docs" / "fleet.md").read_text()
    [query] = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    found = duckdb.sql(query.replace("/srv/archive", str(place.path)).replace("2026-03", MONTH))
    [(joules,)] = read(place, "SELECT sum(energy_j) FROM {}")
    kwh = [kwh for _, kwh in found.fetchall()]
    assert (len(kwh), close(sum(kwh), joules / 3.6e6)) == (2, True)


def test_other_readers_find_the_lines_in_the_columns_of_the_journal(service, place):
    fill(service)
    archive_month(service, MONTH, place)
    with service.store.read() as session:
        first = service.month_span_us("2026-06")[0]
        lines_of_may = sa.select(sa.func.count(), sa.func.sum(Interval.energy_j))
        [expected] = session.execute(lines_of_may.where(Interval.start_us < first))
    [found] = read(place, "SELECT count(*), sum(energy_j) FROM {}")
    assert found[0] == expected[0] == 2 * (24 + 36 + 12 + 12)
    assert close(found[1], expected[1])
    [row] = read(
        place,
        'SELECT epoch("start"), epoch("end"), device_id, kind, node, writer, seq FROM {} '
        "WHERE job_id = 'job-a' ORDER BY 1, 3 LIMIT 1",
    )
    start = datetime(2026, 5, 3, 7, 30, tzinfo=UTC).timestamp()
    assert row == (start, start + 300, "GPU-1", "measured", "n-1", "w1", 4)
    types = dict(r[:2] for r in read(place, "DESCRIBE SELECT * FROM {}"))
    assert types["start"] == types["end"] == "TIMESTAMP WITH TIME ZONE"
    assert read(place, "SELECT count(DISTINCT project) FROM {}") == [(2,)]


def test_totals_with_ranges_are_those_of_the_month(filled, place):
    archive_month(filled, MONTH, place)
    found = ArchivedMonth(place, MONTH, open_engine("duckdb")).summed()
    document = month_report(filled, MONTH, None)
    assert found["totals"] == document["totals"]
    assert {row["intervals"] for row in found["projects"]} == {2 * 72, 2 * 12}


def test_the_audit_finds_every_sum_equal_and_a_line_that_no_figure_has(filled, place):
    archive_month(filled, MONTH, place)
    found = ArchivedMonth(place, MONTH, open_engine("duckdb")).audited()
    assert all(check["is_equal"] for check in found["checks"])
    assert found["jobs_differing"] == 0
    # A second node reports the same board over the same time: the score counts it once.
    start = datetime(2026, 5, 3, 7, 30, tzinfo=UTC)
    again = Writer("w2", "n-2", "job-a", t0=start)
    board = "GPU-2f3c9d1e-7f64-4c5b-9b6a-0d4f6b1a2c3d"
    twice = [again.job(project="blue-whale"), again.device(board, **H100)]
    twice += [again.interval(0, 60, 9000.0, board), again.end(7200)]
    other = Writer("w3", "n-3", "job-a", t0=start)
    twice += [other.job(project="blue-whale"), other.device(board, **H100)]
    twice += [other.interval(0, 60, 9000.0, board), other.end(7200)]
    ingest(filled, "job-a", lines(twice))
    archive_month(filled, MONTH, place)
    found = ArchivedMonth(place, MONTH, open_engine("duckdb")).audited()
    [row] = found["jobs"]
    assert row["job_id"] == "job-a"
    assert row["lines_kwh"] - row["scored_kwh"] == pytest.approx(9000.0 / 3.6e6, rel=1e-9)
    assert all(check["is_equal"] for check in found["checks"])


def test_a_restatement_is_what_scoring_all_again_gives(filled, place):
    archive_month(filled, MONTH, place)
    found = ArchivedMonth(place, MONTH, open_engine("duckdb")).restated(
        NewFactors(lifetime_years=5.0)
    )
    before = month_report(filled, MONTH, None)["totals"]
    again = Service(replace(filled.config, lifetime_years=5.0), filled.store)
    rescore_on_new_factors(again)
    after = month_report(again, MONTH, None)["totals"]
    assert found["old_g"] == before["total_g"]
    assert close(found["new_g"]["value"], after["total_g"]["value"])
    change = after["embodied_g"]["value"] - before["embodied_g"]["value"]
    assert close(found["by_cause"]["lifetime"], change)
    assert change < 0
    assert close(sum(row["change_g"] for row in found["projects"]), change)


def test_lines_go_only_once_they_are_archived_and_come_back_as_they_were(service, place, clock):
    fill(service)
    whole, report = stored(service), month_report(service, MONTH, None)
    clock.turn(days=60)
    keeps = Service(replace(kept(service).config, archive_to=str(place.path)), service.store)
    assert delete_old_intervals(keeps) == 0  # nothing is archived
    assert archive_ended_months(keeps) == 2  # May and June
    assert archive_ended_months(keeps) == 0
    assert delete_old_intervals(keeps) == 4
    assert stored(service) == [[], []]
    now = month_report(service, MONTH, None)
    assert (now["totals"], now["by_project"]) == (report["totals"], report["by_project"])
    # The archive of a month whose lines are gone is what it was, also when it is written again.
    revision = archive_month(service, MONTH, place)
    assert (revision.is_new, revision.manifest.revision) == (False, 1)
    found = restore_month(service, MONTH, place)
    assert (found["restored"], found["there_already"]) == (4, 0)
    assert stored(service) == whole
    assert restore_month(service, MONTH, place)["there_already"] == 4
    assert stored(service) == whole
    assert month_report(service, MONTH, None)["totals"] == report["totals"]


def test_a_late_line_makes_a_new_revision_and_no_file_changes(filled, place, clock):
    archive_month(filled, MONTH, place)
    old = {name: place.local(name).read_bytes() for name in place.names()}
    ingest(
        filled,
        "job-c",
        lines([Writer("w1", "n-1", "job-c", first_seq=900).interval(0, 60, 1000.0, "GPU-1")]),
    )
    late = Writer("w9", "n-1", "job-c", t0=datetime(2026, 5, 9, 1, tzinfo=UTC))
    ingest(filled, "job-c", lines([late.interval(3600, 3660, 18_000.0, "GPU-1")]))
    outcome = archive_month(filled, MONTH, place)
    assert (outcome.is_new, outcome.manifest.revision) == (True, 2)
    search = outcome.manifest.of("intervals")
    assert sorted(file.name.rpartition("-")[2] for file in search) == ["r1.parquet", "r2.parquet"]
    for name, content in old.items():
        now = place.local(name) or place.path / "superseded" / name
        if name != manifest_name(MONTH):
            assert now.read_bytes() == content
    # By names of folders alone no row counts twice.
    [found] = read(place, "SELECT count(*) FROM {}")
    assert found[0] == outcome.manifest.rows("intervals")
    totals = ArchivedMonth(place, MONTH, open_engine("duckdb")).totals()
    assert totals == month_report(filled, MONTH, None)["totals"]


def test_a_revision_keeps_lines_that_the_store_has_no_more(filled, place, clock):
    archive_month(filled, MONTH, place)
    before = read(place, LINES)
    clock.turn(days=30)
    assert delete_old_intervals(kept(filled)) == 4
    correct_job(filled, "job-c", {"name": "renamed"}, by="a")
    outcome = archive_month(filled, MONTH, place)
    assert outcome.manifest.revision == 2
    assert read(place, LINES) == before
    assert restore_month(filled, MONTH, place, job_id="job-c")["restored"] == 1


def test_every_line_is_in_a_month_of_its_job_and_only_the_set_place_counts(
    filled, place, tmp_path, clock
):
    writer = Writer("w1", "n-1", "edge", t0=datetime(2026, 5, 31, 23, tzinfo=UTC))
    load = [Load("GPU-1", lambda _: 300.0, H100)]
    edge = [writer.job(project="q", zone="DE", units=("image",))]
    edge += [*metered(writer, load, seconds=3600, step_s=300), writer.count(1000.0, seconds=3600)]
    ingest(filled, "edge", lines([*edge, writer.end(3600)]))  # counted as June begins
    whole = stored(filled)
    clock.turn(days=60)
    keeps = Service(replace(kept(filled).config, archive_to=str(place.path)), filled.store)
    for month in (MONTH, "2026-06"):
        archive_month(keeps, month, Folder(tmp_path / "tried"))
    assert delete_old_intervals(keeps) == 0
    archive_ended_months(keeps)
    assert delete_old_intervals(keeps) == 5
    assert restore_month(filled, MONTH, place)["restored"] == 5
    assert stored(filled) == whole


def test_a_job_is_restored_whole_or_stays_as_it_is(filled, place, clock):
    before = month_report(filled, MONTH, None)["totals"]
    archive_month(filled, MONTH, place)
    clock.turn(days=60)
    assert delete_old_intervals(kept(filled)) == 4
    found = restore_month(filled, MONTH, place, job_id="job-d")  # of June as well
    assert (found["restored"], found["not_whole"]) == (0, ["job-d"])
    archive_month(filled, "2026-06", place)  # when its lines of June were gone
    found = restore_month(filled, MONTH, place)
    assert (found["restored"], found["not_whole"]) == (3, ["job-d"])
    assert month_report(filled, MONTH, None)["totals"] == before


def test_hours_of_a_restatement_are_utc_and_numbers(tmp_path, capsys):
    path = tmp_path / "hours.csv"
    for row in ("DE,2026-03-01T00,300", "DE,2026-03-01T00Z,nan", "DE,2026-03-01T00Z,-1"):
        path.write_text(f"zone,hour,g_per_kwh\n{row}\n")
        with pytest.raises(typer.Exit):
            _hours(path)
        assert row in capsys.readouterr().err
    path.write_text("zone,hour,g_per_kwh\nDE,1970-01-01T02Z,300\n")
    assert _hours(path) == {("DE", 2): 300.0}


def test_what_was_erased_or_deleted_is_not_in_the_files_and_does_not_come_back(
    filled, place, clock
):
    archive_month(filled, MONTH, place)
    texts = b"".join(path.read_bytes() for path in place.path.rglob("*") if path.is_file())
    with duckdb.connect() as con:
        for path in place.path.rglob("*.parquet"):
            texts += repr(con.execute(f"SELECT * FROM '{path}'").fetchall()).encode()
    for name in (b"Ada Lovelace", b"blue-whale", b"humpback"):
        assert name not in texts
    clock.turn(days=30)
    archive_month(filled, "2026-06", place)
    delete_old_intervals(kept(filled))
    erase_person(filled, "Ada Lovelace", by="admin")
    erase_project(filled, "humpback", by="admin")
    delete_job(filled, "job-b", by="admin")
    found = restore_month(filled, MONTH, place)
    assert (found["restored"], found["deleted_or_erased"]) == (2, 2)
    with filled.store.read() as session:
        heads = " ".join(session.scalars(sa.select(Job.head)))
    assert "Ada" not in heads
    outcome = archive_month(filled, MONTH, place)
    assert outcome.manifest.revision == 2
    assert read(place, "SELECT DISTINCT job_id FROM {} ORDER BY 1")[0] == ("job-a",)


def test_refusals_say_what_is_wrong_and_change_nothing(filled, place, tmp_path, clock):
    with pytest.raises(ArchiveError, match="not complete.*not over"):
        archive_month(filled, "2026-06", place)
    with pytest.raises(ArchiveError, match="no job"):
        archive_month(filled, "2026-04", place)
    with pytest.raises(ArchiveError, match="2026-05 is not in .*, which has no month"):
        require_month(place, MONTH)
    manifest = archive_month(filled, MONTH, place).manifest
    with pytest.raises(ArchiveError, match="has 2026-05"):
        require_month(place, "2026-04")
    with pytest.raises(ArchiveError, match="another organisation"):
        require_month(place, MONTH, "0" * 64)
    renamed = place.path / manifest_name("2026-04")
    renamed.write_text((place.path / manifest_name(MONTH)).read_text())
    with pytest.raises(ArchiveError, match="not the manifest of 2026-04"):
        require_month(place, "2026-04")
    renamed.unlink()
    other = place.path / "notes" / MONTH / "mine.parquet"
    other.parent.mkdir(parents=True)
    other.write_text("of somebody else")
    path = place.path / manifest.files[0].name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    with pytest.raises(ArchiveError, match="was changed or damaged"):
        verify(place, manifest)
    path.unlink()
    with pytest.raises(ArchiveError, match="is missing"):
        restore_month(filled, MONTH, place)
    path.write_bytes(content)
    verify(place, manifest)
    named = place.path / manifest_name(MONTH)
    document = json.loads(named.read_text())
    named.write_text(json.dumps({**document, "schema": 2}))
    with pytest.raises(ArchiveError, match="upgrade gramwatt"):
        require_month(place, MONTH)
    named.write_text(json.dumps({**document, "revision": 7}))
    with pytest.raises(ArchiveError, match="changed after it was written"):
        require_month(place, MONTH)
    named.unlink()  # as an upload leaves it that broke off before its last file
    with pytest.raises(ArchiveError, match="not finished"):
        require_month(place, MONTH)
    assert archive_month(filled, MONTH, place).manifest.revision == 1
    assert other.read_text() == "of somebody else"
    verify(place, require_month(place, MONTH))


def test_a_damaged_file_is_made_again_while_the_store_has_the_lines(filled, place, tmp_path, clock):
    manifest = archive_month(filled, MONTH, place).manifest
    damaged, before = place.path / manifest.of("intervals")[0].name, read(place, LINES)
    damaged.write_bytes(b"")
    with pytest.raises(ArchiveError, match=rf"damaged.*move (\S+) elsewhere and archive {MONTH}"):
        archive_month(filled, MONTH, place)
    named = place.path / manifest_name(MONTH)
    named.rename(tmp_path / "elsewhere.json")
    verify(place, archive_month(filled, MONTH, place).manifest)
    assert read(place, LINES) == before
    clock.turn(days=60)
    delete_old_intervals(kept(filled))
    damaged.write_bytes(b"")
    named.rename(tmp_path / "elsewhere.json")
    with pytest.raises(ArchiveError, match="are in another archive only"):
        archive_month(filled, MONTH, place)
    assert damaged.read_bytes() == b""


def test_a_month_whose_jobs_were_all_deleted_is_named_until_it_is_gone(filled, place, caplog):
    archive_month(filled, MONTH, place)
    for job_id in ("job-a", "job-b", "job-c", "job-d"):
        delete_job(filled, job_id, by="admin")
    setting = replace(filled.config, archive_to=str(place.path))
    assert archive_ended_months(replace(filled, config=setting)) == 0
    assert f"delete {manifest_name(MONTH)} in {place.path}, and its files of {MONTH}" in caplog.text
