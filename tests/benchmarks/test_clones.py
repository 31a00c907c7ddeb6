"""Copied jobs of the benchmark have the rows that the product's own ingest would have written."""

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from benchmarks import scale
from benchmarks.clones import Clone, copy_jobs, tables
from gramwatt.sci.records.records import encode
from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import rescore
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report
from gramwatt.service.store.migrate import upgrade

START = datetime(2026, 6, 30, 23, tzinfo=UTC)
"""Hours of the job lie in two months."""
SERVERS_CLOCK = ("made_us", "heard_us")
COPY, SENT = "J000000041", "K000000041"


@pytest.fixture
def service(database_url, tmp_path):
    made = Service.open(ServiceConfig(home=tmp_path, database_url=database_url))
    upgrade(made.store)
    yield made
    made.store.close()


def rows_of(service, job_id):
    """Every row of a job by table, without keys and times of the server's clock."""
    found = {}
    with service.store.engine.connect() as connection:
        for table in tables():
            way = table
            wanted = sa.select(table)
            while "job_id" not in way.c:
                (key,) = way.foreign_keys
                wanted = wanted.join(key.column.table, key.parent == key.column)
                way = key.column.table
            wanted = wanted.where(way.c.job_id == job_id).order_by(*table.primary_key)
            keys = (key.parent.name for key in table.foreign_keys)
            left_out = {"id", "job", *SERVERS_CLOCK, *keys}
            found[table.name] = [
                {
                    column: value.replace(SENT, COPY) if isinstance(value, str) else value
                    for column, value in row.items()
                    if column not in left_out
                }
                for row in connection.execute(wanted).mappings()
            ]
    return found


def test_a_copy_has_the_rows_of_a_job_that_was_ingested(service):
    original = scale.ingested(service, 7, START)
    copy_jobs(service.store, iter([Clone(41, COPY, original, 0)]))
    sent = [encode(record).replace(original, SENT).encode() for record in scale.records(7, START)]
    ingest(service, SENT, sent)
    copied, made = rows_of(service, COPY), rows_of(service, SENT)
    assert copied == made
    sizes = [len(copied[name]) for name in ("jobs", "intervals", "counts", "scores")]
    assert sizes == [1, 20, 1, 1]
    assert [row["month"] for row in copied["job_months"]] == ["2026-06", "2026-07"]
    assert copied["month_effects"]


def test_the_product_goes_on_with_copied_jobs(service):
    original = scale.ingested(service, 7, START - timedelta(days=1))
    copy_jobs(service.store, iter([Clone(41 + n, f"J{41 + n:09d}", original, n) for n in range(3)]))
    _, changed = rescore(service, COPY, "test")
    assert not changed
    one = sum(row["energy_j"] for row in rows_of(service, COPY)["intervals"]) / 3.6e6
    totals = month_report(service, "2026-06").totals
    assert totals.jobs == 4
    assert totals.energy_kwh.value == pytest.approx(4 * one, rel=1e-12)
    new = scale.ingested(service, 8, START)  # with a key that no copy has
    assert month_report(service, "2026-06").totals.jobs == 5
    assert rows_of(service, new)["jobs"][0]["revision"] == 1
