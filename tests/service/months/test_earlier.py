"""What a month is compared with is kept: the parts of the month before are not read again."""

import json
import random

import pytest
import sqlalchemy as sa

from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.months import summed
from gramwatt.service.months.report import month_sums, month_text
from gramwatt.service.months.sums.part import SUMMED
from gramwatt.service.store.models import JobMonth, MonthBasis, MonthlyReport, MonthSum
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


def months_kept(service):
    with service.store.read() as session:
        return sorted(session.scalars(sa.select(MonthBasis.month).distinct()))


def test_a_month_made_anew_reads_its_own_parts_alone_and_says_the_same(months, read):
    first = month_text(months, JUNE)
    # April twice: for the trend, and to be compared with; May leaves what June is compared with.
    assert sorted(read) == ["2026-04", "2026-04", MAY, JUNE]
    read.clear()
    forget(months, MonthSum, month=JUNE)
    assert month_text(months, JUNE) == first
    assert read == [JUNE]


def test_sums_of_the_present_month_read_the_month_before_once(months, read):
    for _ in range(3):
        forget(months, MonthSum, month=JUNE)
        month_sums(months, JUNE, "vision")
    assert read == [MAY, JUNE, JUNE, JUNE]


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
    forget(months, MonthSum, MonthBasis)
    anew = json.loads(month_text(months, JUNE))
    compared = ("totals", "previous", "changes", "change_parts")
    assert [found[name] for name in compared] == [anew[name] for name in compared]


def test_what_another_build_kept_is_made_anew(months):
    first = month_text(months, JUNE)
    with months.store.write() as session:
        session.execute(sa.update(MonthBasis).values(sums=b"\x93\x01"))
    forget(months, MonthSum)
    assert month_text(months, JUNE) == first
    with months.store.read() as session:
        kept = session.scalars(sa.select(MonthBasis.sums).where(MonthBasis.month == MAY)).one()
    assert len(kept) > 100


def test_nothing_is_kept_of_a_month_without_jobs(months):
    month_text(months, JUNE)
    assert months_kept(months) == ["2026-04", MAY]
    for number in range(24):
        delete_job(months, f"job-{number:02d}", by="ada")
    assert months_kept(months) == []
