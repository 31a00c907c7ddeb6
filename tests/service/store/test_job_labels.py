"""Columns and labels that lists use: filled for a store of an earlier release, read by an index."""

import json

import pytest
import sqlalchemy as sa

from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.lists import list_jobs
from gramwatt.service.jobs.lists.filters import SORTS
from gramwatt.service.store import migrate
from gramwatt.service.store.database import Store
from gramwatt.service.store.timestamps import to_us
from tests.journals import START, journal, lines

HEAD = {
    "job_id": "old",
    "name": "resnet",
    "kind": "inference",
    "ended_at": "2026-05-10T09:00:00.000000Z",
    "duration_s": 3600.0,
    "zone": None,
    "energy_kwh": {"value": 2.0},
    "total_g": None,
    "tags": {"team": "vision"},
}
DOCUMENT = {"devices": [{"hardware": "nvidia-l4"}, {"hardware": None}], "method": {"zones": ["DE"]}}
VERSIONS = {"reason": "ended", "engine_version": "2", "catalog_version": "1"}


def test_jobs_of_an_earlier_release_are_found(database_url, clock, tmp_path):
    from alembic import command

    store = Store(database_url)
    if store.path is not None:
        store.path.parent.mkdir()
    row = {"id": 1, "job_id": "old", "project": "vision", "state": "completed", "revision": 1}
    row |= {"started_us": to_us(START), "heard_us": 0, "version": 1, "scored_version": 1}
    row |= {"head": json.dumps(HEAD), "notices": 0}
    score = {"job": 1, "revision": 1, "made_us": 0, "conformance": "not-sci", "series": "{}"}
    score |= VERSIONS | {"doc": json.dumps(DOCUMENT)}
    with store.migrating() as connection:
        command.upgrade(migrate._config(connection), "0006")
        tables = sa.MetaData()
        tables.reflect(connection)
        connection.execute(tables.tables["jobs"].insert(), [row])
        connection.execute(tables.tables["scores"].insert(), [score])
    assert migrate.upgrade(store) is True
    assert migrate.differences(store) == []
    service = Service(ServiceConfig(home=tmp_path, database_url=database_url, clock=clock), store)
    for only in (
        {"tags": ("team:vision",)},
        {"hardware": "nvidia-l4"},
        {"zone": "DE"},
        {"name": "resnet", "kind": "inference"},
        {"sort": "-total"},
    ):
        found, _ = list_jobs(service, 50, None, **only)
        assert [job.head["job_id"] for job in found] == ["old"], only
    assert list_jobs(service, 50, None, tags=("team:text",))[0] == []
    with store.read() as session:
        stored = session.execute(
            sa.text("SELECT ended_us, duration_s, energy_kwh, total_g FROM jobs")
        ).one()
    assert tuple(stored) == (to_us(START) + 3_600_000_000, 3600.0, 2.0, None)
    store.close()


@pytest.mark.parametrize("sort", SORTS)
def test_no_order_sorts_the_whole_table(light, sort):
    ingest(light, "job-1", lines(journal()))
    plans = []

    def explain(connection, _cursor, statement, parameters, *_):
        if "ORDER BY" in statement and not statement.startswith("EXPLAIN"):
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append("\n".join(row.detail for row in plan))

    sa.event.listen(light.store.engine, "before_cursor_execute", explain)
    list_jobs(light, 50, None, sort=sort)
    assert plans
    for plan in plans:
        assert "USING INDEX ix_jobs_" in plan
        assert "TEMP B-TREE" not in plan
