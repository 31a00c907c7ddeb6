"""What a month is compared with: the month before, whose parts are read with its own."""

import json
import random

import pytest
import sqlalchemy as sa

from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.months import summed
from gramwatt.service.months.report import month_text
from gramwatt.service.months.sums.part import SUMMED
from gramwatt.service.store.models import JobMonth, MonthlyReport, MonthSum
from tests.journals import lines
from tests.service.months.test_month_sums import random_job

MAY, JUNE = "2026-05", "2026-06"


@pytest.fixture
def months(light, clock):
    """Jobs in April, May and June, some across midnight between two of them, in July."""
    clock.turn(days=90)
    draw = random.Random(7)
    for number in range(24):
        name, records = random_job(draw, number)
        ingest(light, name, lines(records))
    return light


@pytest.fixture
def read(monkeypatch):
    """The months whose parts are read, as it goes on."""
    found, read_rows = [], summed.read_rows

    def reading(session, month, *more):
        found.append(month)
        return read_rows(session, month, *more)

    monkeypatch.setattr(summed, "read_rows", reading)
    return found


def forget(service, *tables, month=None):
    """Forget the reports, and what else is kept of the month, or of all."""
    with service.store.write() as session:
        for table in (MonthlyReport, *tables):
            gone = sa.delete(table)
            session.execute(gone.where(table.month == month) if month else gone)


def test_a_change_in_the_month_before_changes_what_is_compared_with(months, read):
    before = json.loads(month_text(months, JUNE))
    with months.store.read() as session:
        of_may = sa.select(JobMonth.job_id).where(JobMonth.month == MAY, JobMonth.use == SUMMED)
        name = session.scalars(of_may.order_by(JobMonth.job)).first()
    correct_job(months, name, {"excluded": True}, by="ada", reason="a test")
    read.clear()
    found = json.loads(month_text(months, JUNE))
    assert MAY in read
    assert found["previous"]["jobs"] == before["previous"]["jobs"] - 1
    forget(months, MonthSum)
    anew = json.loads(month_text(months, JUNE))
    compared = ("totals", "previous", "changes", "change_parts")
    assert [found[name] for name in compared] == [anew[name] for name in compared]
