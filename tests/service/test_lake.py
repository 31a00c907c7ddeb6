"""`gramwatt export parquet` and `gramwatt month --from`: what leaves is the store's, and whole."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import obstore
import pytest
from msgspec import to_builtins

from gramwatt.service import evidence, lake
from gramwatt.service.months.report import month_report
from tests.journals import START
from tests.service.cli.command import gramwatt
from tests.service.keyed import add, store_of
from tests.service.object_store import object_store


@pytest.fixture
def home(tmp_path, home):
    """A home with jobs of 600 W for three minutes: two in May, one across its end, one running."""
    with store_of(home) as service:
        ends = START.replace(month=6, day=1, hour=0, minute=0) - timedelta(minutes=1)
        for name, start in (("a", START), ("b", START + timedelta(days=1)), ("edge", ends)):
            add(service, name, start=start)
        add(service, "running", end_state=None)
    return tmp_path


def rows(query: str) -> list[tuple]:
    return duckdb.sql(query).fetchall()


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_jobs_and_intervals_by_month_are_the_stores(home):
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


def test_running_it_twice_is_the_same_and_a_deleted_job_leaves(home):
    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    once = files(home / "lake")
    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    assert files(home / "lake") == once
    assert gramwatt("rm", "edge", "--yes")[0] == 0
    assert gramwatt("export", "parquet", "--to", "lake")[1] == "1 month written to lake\n"
    months = {name.split("/")[-2] for name in files(home / "lake") if "month=" in name}
    assert months == {"month=2026-05"}
    assert not (home / "lake" / "whole" / "2026-06.json").exists()


def test_one_month_and_what_cannot_be_written(home):
    assert gramwatt("export", "parquet", "--to", "lake", "--month", "2026-06")[0] == 0
    names = [name for name in files(home / "lake") if "month=" in name]
    assert {name.split("/")[-2] for name in names} == {"month=2026-06"}
    assert {name.split("/")[0] for name in names} >= {"intervals", "job_months", "month_effects"}
    code, _, err = gramwatt("export", "parquet", "--to", "lake", "--month", "June")
    assert (code, err) == (
        2,
        "gramwatt: month is 'June', not a month; write YYYY-MM, such as 2026-05\n",
    )
    (home / "file").write_text("")
    code, _, err = gramwatt("export", "parquet", "--to", "file")
    assert (code, err.count("\n")) == (1, 1)


def month_of(*arguments: str) -> dict[str, Any]:
    code, out, err = gramwatt("month", *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


OF_STORE = {*evidence.OF_STORE, "market_based", "trend"}


def differences(stored: dict[str, Any], computed: dict[str, Any]) -> list[Any]:
    for document in (stored, computed):
        for row in document["factors"]:
            row |= evidence.UNPUBLISHED
    both = ({name: of[name] for name in of if name not in OF_STORE} for of in (stored, computed))
    return list(evidence.differences(*both))


def test_the_month_of_a_lake_is_that_of_the_store(home):
    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    for arguments in (["2026-05"], ["2026-06"], ["2026-05", "--project", "vision"]):
        stored = month_of(*arguments)
        found = month_of(*arguments, "--from", "lake")
        assert stored["totals"]["jobs"] > 0
        assert differences(stored, found) == []
    # 3 min of 600 W in May for two jobs, and one minute of the third: 0.07 kWh.
    assert found["totals"]["energy_kwh"]["value"] == pytest.approx(0.07, rel=1e-12)
    code, out, _ = gramwatt("month", "2026-05", "--from", "lake")
    assert (code, out.startswith("May 2026: "), "3 jobs" in out) == (0, True, True)


def test_a_lake_of_either_database_is_the_same_and_whole(service, tmp_path):
    for name in ("a", "b"):
        add(service, name, model_id="org/net")
    assert lake.write(service, str(tmp_path)) == 1
    stored, found = (
        to_builtins(of)
        for of in (month_report(service, "2026-05"), lake.month_from(str(tmp_path), "2026-05"))
    )
    assert found["totals"]["jobs"] == 2
    assert differences(stored, found) == []


def test_a_month_or_project_that_a_lake_has_not(home):
    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    for arguments in (["2026-04"], ["2026-05", "--project", "none"]):
        code, _, err = gramwatt("month", *arguments, "--from", "lake")
        assert (code, err.startswith("gramwatt: no job ")) == (1, True)


def test_an_object_store_is_a_place(home, monkeypatch):
    with object_store() as (objects, address):
        for name, value in {
            "AWS_ENDPOINT": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }.items():
            monkeypatch.setenv(name, value)
        assert gramwatt("export", "parquet", "--to", "s3://bucket/lake")[0] == 0
        once = dict(objects)
        assert gramwatt("export", "parquet", "--to", "s3://bucket/lake")[0] == 0
        assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
        here = {f"lake/{name}": content for name, content in files(home / "lake").items()}
        assert here == objects == once
        found = month_of("2026-05", "--from", "s3://bucket/lake")
    assert differences(month_of("2026-05"), found) == []


def test_an_export_that_was_cut_off_is_not_taken_for_a_month(home, monkeypatch):
    """Killed before any write of a file; another run makes it whole, with nothing twice."""
    assert gramwatt("export", "parquet", "--to", "lake")[0] == 0
    before = month_of("2026-05", "--from", "lake")
    assert gramwatt("rm", "a", "--yes")[0] == 0
    assert gramwatt("export", "parquet", "--to", "whole")[0] == 0
    whole = files(home / "whole")
    after = month_of("2026-05", "--from", "whole")
    usual, outcomes = obstore.put, set()
    for most in itertools.count():
        left = itertools.count()

        def put(*arguments: Any, most: int = most, left: Iterator[int] = left) -> Any:
            if next(left) == most:
                raise KeyboardInterrupt
            return usual(*arguments)

        monkeypatch.setattr(obstore, "put", put)
        cut_off = gramwatt("export", "parquet", "--to", "lake")[0] != 0
        monkeypatch.setattr(obstore, "put", usual)
        code, out, err = gramwatt("month", "2026-05", "--from", "lake", "--json")
        outcomes.add((code, "was cut off; run it again" in err))
        assert code == 1 or json.loads(out) in (before, after)
        if not cut_off:
            break
    assert outcomes == {(0, False), (1, True)}
    assert files(home / "lake") == whole
