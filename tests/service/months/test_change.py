"""The change of a month is split into effects that add up, in months made for one effect each."""

import math
from datetime import UTC, datetime

import msgspec
import pytest

from gramwatt.sci.month.documents import StatementDoc
from gramwatt.sci.score import boundary
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.report import month_report
from tests.journals import Writer, lines
from tests.service.keyed import add, with_settings

APRIL, MAY = (datetime(2026, month, 10, 8, tzinfo=UTC) for month in (4, 5))
EFFECTS = ("volume_g", "efficiency_g", "grid_g", "hardware_g", "method_g")


def run(service, name, start, **more):
    add(service, name, start=start, **more)


def split(service):
    document = month_report(service, "2026-05")
    found = document.change_parts
    change = document.totals.total_g.value - document.previous.total_g.value
    assert math.fsum(getattr(found, name).value for name in EFFECTS) == pytest.approx(
        change, rel=1e-12
    )
    assert found.change_g.value == pytest.approx(change, rel=1e-12)
    for figure in msgspec.structs.astuple(found):
        assert figure.low <= figure.value <= figure.high
    return document, {name: getattr(found, name).value for name in EFFECTS}


def only(effects, name, value):
    for other, found in effects.items():
        wanted = value if other == name else 0.0
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9 * abs(value)), other


def terms(document, which, *names):
    return [getattr(getattr(document, which), name).value for name in names]


def test_the_trend_has_every_month_with_a_job_of_the_year_before(light):
    months = [(2025, 5), (2025, 6), (2026, 1), (2026, 2), (2026, 3), (2026, 4), (2026, 5)]
    for number, (year, month) in enumerate(months):
        for n in range(number + 1):
            start = datetime(year, month, 10, 8, tzinfo=UTC)
            run(light, f"{year}-{month}-{n}", start)
    rows = [(row.month, row.jobs) for row in month_report(light, "2026-05").trend]
    expected = [(f"{year}-{month:02}", n + 1) for n, (year, month) in enumerate(months)]
    assert rows == expected[1:]


def test_twice_the_same_work_is_volume(light):
    run(light, "one", APRIL)
    for name in ("two", "three"):
        run(light, name, MAY)
    document, effects = split(light)
    # Three minutes at 600 W once, then twice: the change is April's carbon once more.
    (before,) = terms(document, "previous", "total_g")
    only(effects, "volume_g", before)
    assert [effects[name] for name in EFFECTS[1:]] == [0.0] * 4  # and no rest of rounding
    assert document.change_parts.method_g.low == 0.0


def test_twice_the_energy_for_the_same_units_is_efficiency(light):
    run(light, "one", APRIL)
    run(light, "two", MAY, power_w=1200.0)
    document, effects = split(light)
    (before,) = terms(document, "previous", "operational_g")
    # The same board for the same time has the same embodied carbon.
    only(effects, "efficiency_g", before)


def test_another_zone_is_grid(light):
    run(light, "one", APRIL, zone="FR")
    run(light, "two", MAY, zone="DE")
    document, effects = split(light)
    (before,), (after,) = (
        terms(document, name, "operational_g") for name in ("previous", "totals")
    )
    assert after > 3 * before
    only(effects, "grid_g", after - before)


def test_more_time_on_the_board_for_the_same_work_is_hardware(light):
    # Six minutes at 300 W are three at 600 W: as much energy, twice the board's time, R the same.
    for name, start, minutes in (("one", APRIL, 3), ("two", MAY, 6)):
        writer = Writer("w1", "n1", name, t0=start)
        records = [
            writer.job(project="vision", units=("image",), zone="FR"),
            writer.device("GPU-n1", name="NVIDIA H100 80GB HBM3"),
            writer.interval(0, 60 * minutes, 108_000, "GPU-n1"),
            writer.count(30, seconds=60 * minutes),
            writer.end(60 * minutes, exit_code=0),
        ]
        ingest(light, name, lines(records))
    document, effects = split(light)
    (before,), (after,) = (terms(document, name, "embodied_g") for name in ("previous", "totals"))
    assert after == pytest.approx(2 * before)
    only(effects, "hardware_g", after - before)


def test_what_another_method_hides_stands_under_it(light, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(boundary, "ENGINE_VERSION", "0")
        run(light, "one", APRIL)
    run(light, "two", MAY, zone="DE", power_w=900.0)
    document, effects = split(light)
    change = document.change_parts.change_g.value
    only(effects, "method_g", change)  # R is the same: nothing is volume
    assert [row.method_break for row in document.trend] == [False, True]


def test_work_of_one_month_alone_is_volume(light):
    run(light, "one", APRIL, project="vision")
    run(light, "two", MAY, project="speech")
    document, effects = split(light)
    assert effects["volume_g"] == document.change_parts.change_g.value
    assert [effects[name] for name in EFFECTS[1:]] == [0.0] * 4


def test_a_first_month_has_nothing_to_split(light):
    run(light, "one", MAY)
    document = month_report(light, "2026-05")
    assert document.change_parts is None
    assert [row.month for row in document.trend] == ["2026-05"]


def test_the_change_of_an_unknown_month_is_not_known(light):
    """Nothing was read of April's job: its carbon is unknown, and so is every effect."""
    writer = Writer("w1", "n1", "unread", t0=APRIL)
    ingest(light, "unread", lines([writer.job(project="vision", zone="FR"), writer.end(60)]))
    run(light, "one", MAY)
    document = month_report(light, "2026-05")
    assert document.previous.jobs_unknown == 1
    assert document.change_parts is None
    # And of two unknown months there is nothing to split either.
    writer = Writer("w1", "n1", "late", t0=datetime(2026, 3, 10, tzinfo=UTC))
    ingest(light, "late", lines([writer.job(project="vision", zone="FR"), writer.end(60)]))
    assert month_report(light, "2026-04").change_parts is None


def test_who_answers_for_the_report_is_a_setting(light):
    run(light, "one", MAY)
    other = with_settings(light, reports=dict(organisation="Example GmbH", accountable="Dana"))
    assert month_report(other, "2026-05").statement == StatementDoc(
        organisation="Example GmbH", accountable="Dana", contact=None
    )
