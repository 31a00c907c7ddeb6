"""A month in progress is compared with as many whole days of the month before."""

from datetime import UTC, datetime

import pytest

from gramwatt.reports import month as report
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report
from tests.blocks import cells, plain, table, words
from tests.journals import Writer, lines
from tests.service.keyed import client_of

TERMS = ("energy_kwh", "operational_g", "embodied_g", "total_g")


def run(service, name, month, day, kwh=1.0, *, hours=1, hour=8):
    writer = Writer("w1", "n1", name, t0=datetime(2026, month, day, hour, tzinfo=UTC))
    seconds = 3600 * hours
    records = [
        writer.job(project="vision", units=("image",), zone="DE", pue=1.0),
        writer.device("GPU-1", name="NVIDIA H100 80GB HBM3"),
        *(
            writer.interval(at, at + 3600, kwh / hours * 3.6e6, "GPU-1")
            for at in range(0, seconds, 3600)
        ),
        writer.count(100, seconds=seconds),
        writer.end(seconds, exit_code=0),
    ]
    ingest(service, name, lines(records))


def value(totals, term="energy_kwh"):
    return getattr(totals, term).value


def test_twenty_two_days_are_compared_with_twenty_two_days(light, clock):
    """1 kWh a day in both months: on the 23rd that is no change, not 29 % less."""
    run(light, "april", 4, 1, 30.0, hours=30 * 24, hour=0)
    run(light, "may", 5, 1, 23.0, hours=23 * 24, hour=0)
    clock.now = datetime(2026, 5, 23, 12, tzinfo=UTC)
    document = month_report(light, "2026-05")
    assert document.compared_days == 22
    assert value(document.totals) == pytest.approx(23)
    assert value(document.compared) == pytest.approx(22)
    assert value(document.previous) == pytest.approx(22)
    assert document.changes["total_g"].value == pytest.approx(1.0)
    assert document.change_parts.change_g.value == pytest.approx(0.0, abs=1e-6)
    built = report.build(document)
    assert ", no reliable difference from April 2026, days 1 to 22." in words(built)
    columns = [column.title for column in table(built, "Terms of both months").columns]
    assert columns[1:3] == ["This month, days 1 to 22", "Before, days 1 to 22"]
    page = light_page(light)
    assert "Days 1 to 22 against those of April 2026" in page
    # Over, it is compared as a whole.
    clock.now = datetime(2026, 6, 2, 12, tzinfo=UTC)
    document = month_report(light, "2026-05")
    assert (document.compared_days, document.compared) == (None, None)
    assert value(document.previous) == pytest.approx(30)


def light_page(service):

    return plain(client_of(service).get("/?month=2026-05").text)


def test_a_job_beyond_the_compared_days_counts_with_those_before(light, clock):
    """Ten hours from 20:00 on the 2nd are four hours of the first two days."""
    run(light, "april", 4, 2, 10.0, hours=10, hour=20)
    run(light, "may", 5, 1, 4.0)
    clock.now = datetime(2026, 5, 3, 12, tzinfo=UTC)
    document = month_report(light, "2026-05")
    assert value(document.previous) == pytest.approx(4.0)
    assert document.previous.jobs_ended == 0
    rows = table(report.build(document), "Terms of both months").rows
    assert cells(rows[3])[3] == "no reliable difference"


def test_a_month_without_a_job_in_the_compared_days_is_compared_with_nothing(light, clock):
    run(light, "april", 4, 2)
    run(light, "may", 5, 9)
    clock.now = datetime(2026, 5, 9, 12, tzinfo=UTC)
    document = month_report(light, "2026-05")
    assert (document.compared, document.change_parts) == (None, None)
    said = words(report.build(document))
    assert "No job of this month ran on days 1 to 8, which are what would be compared." in said
    assert "from nothing" not in said


def test_on_the_first_day_nothing_is_compared(light, clock):
    run(light, "april", 4, 2)
    run(light, "may", 5, 1, hour=1)
    clock.now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    document = month_report(light, "2026-05")
    assert (document.compared_days, document.previous) == (0, None)
    assert "No day of this month is over yet" in words(report.build(document))
