"""`gramwatt export parquet`: plain columns by month, the same when it is run twice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.intake.local_spool import open_store
from tests.journals import START, journal, lines
from tests.service.cli.command import gramwatt


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with jobs of 600 W for three minutes: two in May, one across its end, one running."""
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    service = open_store(tmp_path / "home")
    ends = START.replace(month=6, day=1, hour=0, minute=0) - timedelta(minutes=1)
    for name, start in (("a", START), ("b", START + timedelta(days=1)), ("edge", ends)):
        ingest(service, name, lines(journal(name, start=start)))
    ingest(service, "running", lines(journal("running", end_state=None)))
    service.store.close()
    return tmp_path


def rows(query: str) -> list[tuple]:
    return duckdb.sql(query).fetchall()


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_jobs_and_intervals_by_month_are_the_stores(home: Path) -> None:
    code, out, err = gramwatt("export", "parquet", "--to", "lake")
    assert (code, out, err) == (0, "2 months written to lake\n", "")
    jobs = rows(
        "SELECT month, job_id, energy_kwh, total_g > energy_kwh, epoch(started_at), ended_at > "
        "started_at, typeof(started_at) FROM 'lake/jobs/*/*.parquet' ORDER BY job_id"
    )
    # 3 min x 600 W = 108 kJ = 0.03 kWh.
    assert [(row[0], row[1], row[2]) for row in jobs] == [
        ("2026-05", name, pytest.approx(0.03, rel=1e-12)) for name in ("a", "b", "edge")
    ]
    assert jobs[0][3:] == (True, START.timestamp(), True, "TIMESTAMP WITH TIME ZONE")
    energy = "SELECT month, job_id, sum(energy_j) FROM 'lake/intervals/*/*.parquet'"
    found = {row[:2]: row[2] for row in rows(f"{energy} GROUP BY ALL")}
    assert found.pop(("2026-05", "running")) == pytest.approx(108_000)
    assert found.pop(("2026-05", "a")) == found.pop(("2026-05", "b")) == pytest.approx(108_000)
    assert sum(found.values()) == pytest.approx(108_000)
    assert {month for month, _ in found} == {"2026-05", "2026-06"}


def test_running_it_twice_is_the_same_and_a_deleted_job_leaves(home: Path) -> None:
    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    once = files(home / "lake")
    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    assert files(home / "lake") == once
    assert gramwatt("rm", "edge", "--yes")[0] == 0
    assert gramwatt("export", "parquet", "--to", "lake")[1] == "1 month written to lake\n"
    assert sorted(files(home / "lake")) == [
        f"{table}/month=2026-05/part.parquet" for table in ("intervals", "jobs")
    ]


def test_one_month_and_what_cannot_be_written(home: Path) -> None:
    assert gramwatt("export", "parquet", "--to", "lake", "--month", "2026-06")[0] == 0
    assert list(files(home / "lake")) == ["intervals/month=2026-06/part.parquet"]
    code, _, err = gramwatt("export", "parquet", "--to", "lake", "--month", "June")
    assert (code, err) == (2, "gramwatt: 'June' is not a month; write YYYY-MM, such as 2026-05\n")
    (home / "file").write_text("")
    code, _, err = gramwatt("export", "parquet", "--to", "file")
    assert (code, err.count("\n")) == (1, 1)
