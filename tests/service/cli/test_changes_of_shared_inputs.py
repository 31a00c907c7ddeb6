"""What two months or two jobs share hides no difference between them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.service.jobs.ingest import ingest
from tests.journals import Writer, lines
from tests.service.cli.command import gramwatt
from tests.service.keyed import store_of

HOUR_J = 3.6e6
"""A kilowatt-hour [J]."""


APRIL = datetime(2026, 4, 10, 8, tzinfo=UTC)
MAY = APRIL + timedelta(days=30)


def ten_hours(name, start, kwh, device="GPU-1"):
    """The records of a job on one device of a site with a declared PUE; one image each second."""
    writer = Writer(job=name, t0=start, name=f"w-{name}")
    records = [
        writer.job(zone="DE", pue=1.2, units=("image",)),
        writer.device(device, name="NVIDIA H100 80GB HBM3"),
    ]
    for hour in range(10):
        records.append(writer.interval(hour * 3600, (hour + 1) * 3600, kwh / 10 * HOUR_J, device))
    return [*records, writer.count(36_000, seconds=35_999), writer.end(36_000, exit_code=0)]


def month_changes(client, before, now, devices=("GPU-1", "GPU-1")):
    client.take(ten_hours("april", APRIL, before, devices[0]))
    client.take(ten_hours("may", MAY, now, devices[1]))
    answer = client.get("/v1/reports/monthly/2026-05.json")
    assert answer.status_code == 200
    return answer.json


def test_a_month_with_a_fiftieth_more_on_the_same_meter_and_grid_is_higher(client):
    """60.5 kWh after 59.4 kWh: 1.0185 times as much, though both are known to 5 % only."""
    document = month_changes(client, 59.4, 60.5)
    energy, operational = (document["changes"][term] for term in ("energy_kwh", "operational_g"))
    for change in (energy, operational):
        assert change["value"] == pytest.approx(60.5 / 59.4)
        assert 1 < change["low"] <= change["value"] <= change["high"]
    now, before = (document[month]["energy_kwh"] for month in ("totals", "previous"))
    assert now["low"] < before["high"]  # the ranges of the months overlap, and decide nothing


def test_the_same_on_another_meter_is_no_reliable_difference(client):
    """Each device's sensor errs by itself: 1.0185 with 5 % in both months holds 1."""
    document = month_changes(client, 59.4, 60.5, ("GPU-1", "GPU-2"))
    energy = document["changes"]["energy_kwh"]
    assert energy["low"] < 1 < energy["value"] < energy["high"]


@pytest.mark.parametrize(
    ("device", "verdict"), [("GPU-1", "higher"), ("GPU-2", "no-reliable-difference")]
)
def test_runs_are_compared_by_what_they_do_not_share(home, device, verdict):
    with store_of(home) as service:
        for n in (1, 2):  # of a single run a side it is not known how far runs lie apart
            ingest(service, f"old-{n}", lines(ten_hours(f"old-{n}", APRIL, 59.4)))
            ingest(service, f"new-{n}", lines(ten_hours(f"new-{n}", MAY, 60.5, device)))
    code, out, err = gramwatt("compare", "old-1,old-2", "new-1,new-2", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["verdict"] == verdict
    # Making does not change, so that the ratio lies between 1 and that of energy.
    assert 1 < found["ratio"]["value"] < 60.5 / 59.4
