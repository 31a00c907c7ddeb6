"""Columns and labels that lists use are read by an index."""

from typing import get_args

import pytest
import sqlalchemy as sa

from gramwatt.service.common.requests import JobList, Sort
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.jobs.lists import list_jobs
from tests.journals import journal, lines


@pytest.mark.parametrize("sort", get_args(Sort))
def test_no_order_sorts_the_whole_table(light, sort):
    ingest(light, "job-1", lines(journal()))
    plans = []

    def explain(connection, _cursor, statement, parameters, *_):
        if "ORDER BY" in statement and not statement.startswith("EXPLAIN"):
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append("\n".join(row.detail for row in plan))

    sa.event.listen(light.store.engine, "before_cursor_execute", explain)
    list_jobs(light, JobList(sort=sort))
    assert plans
    for plan in plans:
        assert "USING COVERING INDEX ix_jobs_" in plan
        assert "TEMP B-TREE" not in plan
