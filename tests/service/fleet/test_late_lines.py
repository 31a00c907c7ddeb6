"""Late lines and corrections of archived jobs whose lines retention has dropped, over HTTP."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import duckdb
import pytest
import sqlalchemy as sa

from gramwatt.service.app import create_app
from gramwatt.service.fleet import restore
from gramwatt.service.fleet.archive import archive_ended_months
from gramwatt.service.fleet.manifest import require_month
from gramwatt.service.fleet.places import Folder
from gramwatt.service.fleet.restore import with_archive
from gramwatt.service.months.report import month_report
from gramwatt.service.operation.retention import delete_old_intervals
from gramwatt.service.store.models import Interval, Job, Score
from tests.journals import H100, Writer, body
from tests.service.fleet.test_archive import MONTH, fill

NDJSON = "application/x-ndjson"


@pytest.fixture
def place(tmp_path):
    return Folder(tmp_path / "archive")


@pytest.fixture
def dropped(service, place, clock):
    """A service as a server opens it, whose four jobs are archived and have no lines."""
    fill(service)
    clock.turn(days=60)
    kept = {"keep_intervals": {"": timedelta(days=1)}, "archive_to": str(place.path)}
    made = with_archive(replace(service, config=replace(service.config, **kept)))
    assert archive_ended_months(made) == 2
    assert delete_old_intervals(made) == 4
    return made


def send_late(client):
    """Send a minute of 18 kJ of the job of May and June, an hour before its others."""
    late = Writer("w9", "n-1", "job-d", t0=datetime(2026, 5, 31, 11, tzinfo=UTC))
    said = [late.job(project="blue-whale"), late.device("GPU-1", **H100)]
    said += [late.interval(0, 60, 18_000.0, "GPU-1"), late.end(60)]
    return client.post("/v1/jobs/job-d/records", data=body(said), content_type=NDJSON)


def gone(service):
    """Ids of jobs without lines."""
    wanted = sa.select(Job.job_id).where(Job.intervals_deleted_us.is_not(None))
    with service.store.read() as session:
        return sorted(session.scalars(wanted))


def archived(place):
    """Rows and joules of the archived lines, as any reader of Parquet finds them."""
    with duckdb.connect() as con:
        names = f"'{place.path}/intervals/*/*.parquet'"
        return con.execute(f"SELECT count(*), sum(energy_j) FROM {names}").fetchall()[0]


def files(place):
    """The content of every file of the project of job-d, which is the only one in June."""
    [june] = require_month(place, "2026-06").of("jobs")
    found = place.path.rglob(f"{june.project}-r*.parquet")
    return {str(path.relative_to(place.path)): path.read_bytes() for path in found}


def test_a_late_line_brings_the_others_back_and_the_next_revision_has_it(dropped, place):
    client = create_app(service=dropped).test_client()
    before = month_report(dropped, MONTH, None)["totals"]["energy_kwh"]["value"]
    (rows, joules), as_they_were = archived(place), files(place)
    answer = send_late(client)
    assert (answer.status_code, answer.json["accepted"]) == (200, 4)
    assert gone(dropped) == ["job-a", "job-b", "job-c"]
    now = month_report(dropped, MONTH, None)["totals"]["energy_kwh"]["value"]
    assert now - before == pytest.approx(0.005, abs=1e-12)
    assert send_late(client).json["accepted"] == 0
    with dropped.store.read() as session:
        reasons = sa.select(Score.reason).join(Job).where(Job.job_id == "job-d")
        assert sorted(session.scalars(reasons)) == ["ended", "late-records"]
        mine = sa.select(sa.func.count()).select_from(Interval)
        assert session.scalar(mine) == 2 * 24 + 1
    assert files(place) == as_they_were
    assert archive_ended_months(dropped) == 2
    assert archived(place) == (rows + 1, pytest.approx(joules + 18_000, rel=1e-9))
    aside = {f"superseded/{name}": content for name, content in as_they_were.items()}
    assert aside.items() <= files(place).items()
    assert require_month(place, MONTH).totals == month_report(dropped, MONTH, None)["totals"]


def test_a_correction_brings_the_lines_back_and_is_in_the_next_revision(dropped, place):
    client = create_app(service=dropped).test_client()
    tag = client.get("/v1/jobs/job-b").headers["ETag"]
    answer = client.patch("/v1/jobs/job-b", json={"zone": "DE"}, headers={"If-Match": tag})
    assert answer.status_code == 200
    assert gone(dropped) == ["job-a", "job-c", "job-d"]
    assert archive_ended_months(dropped) == 1
    assert require_month(place, MONTH).totals == month_report(dropped, MONTH, None)["totals"]


@pytest.mark.parametrize("service", ["sqlite"], indirect=True)
def test_an_archive_that_cannot_be_read_is_the_refusal_as_without_one(dropped, place, caplog):
    client = create_app(service=dropped).test_client()
    hidden = place.path.with_name("hidden")
    place.path.rename(hidden)
    for _ in range(2):
        answer = send_late(client)
        assert (answer.status_code, answer.json["code"]) == (409, "intervals-deleted")
    assert "2026-05 is not in" in caplog.text
    assert gone(dropped) == ["job-a", "job-b", "job-c", "job-d"]
    hidden.rename(place.path)
    with restore._one:
        answer = send_late(client)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert send_late(client).json["accepted"] == 4
