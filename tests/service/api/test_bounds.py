"""Figures beyond what any device can do: refused by line, and harmless where a store has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace

from gramwatt.sci.records.records import DeviceRecord
from tests.journals import START, Writer

READS = ("", "/report", "/intervals", "/revisions", "/suggestions")
L4 = {"name": "NVIDIA L4", "units_total": 1.0}


def upload(client: FlaskClient, job: str, records: list[Any]) -> dict[str, Any]:
    sent = client.send(job, records)
    assert sent.status_code == 200, sent.text
    assert isinstance(sent.json, dict)
    return sent.json


def hour(job: str, energy_j: float, **device: Any) -> list[Any]:
    """A job of two hours: one of the given energy, one of 180 kJ, which is 50 W."""
    meter = Writer(job=job, t0=START)
    return [
        meter.job(zone="FR", pue=1.0, units=("image",)),
        meter.device("GPU-0", **{**L4, **device}),
        meter.interval(0, 3600, energy_j, "GPU-0"),
        meter.interval(3600, 7200, 180_000, "GPU-0"),
        meter.count(10, seconds=60),
        meter.end(7200),
    ]


@pytest.mark.parametrize("energy_j", [4e306, 74e6])
def test_energy_that_no_gpu_can_draw_is_refused_by_its_line(client, energy_j):
    """20 kW over 3660 s are 73.2 MJ."""
    answer = upload(client, "job-1", hour("job-1", energy_j))
    [refused] = answer["rejected"]
    assert (answer["accepted"], refused["line"], refused["code"]) == (5, 3, "impossible-energy")
    assert "in 3600 s is more than" in refused["message"]
    assert "can draw" in refused["message"]
    document = client.get("/v1/jobs/job-1").json
    assert document["energy_kwh"]["value"] == pytest.approx(0.05)  # 180 kJ


def test_a_wide_margin_is_left_for_every_class(client):
    """20, 50 or 300 kW over an hour and a minute; a tenth of them is the largest device."""
    for device_class, energy_j in [
        ("gpu", 73e6),
        ("cpu", 182e6),
        ("accelerator", 1.09e9),
        ("ram", 73e6),
        ("module", 73e6),
    ]:
        asked = hour("job-1", energy_j, device_class=device_class)
        assert upload(client, "job-1", asked)["rejected"] == []


def test_the_class_is_known_from_an_earlier_upload(client):
    first, described, huge, *rest = hour("job-1", 1e9)
    assert upload(client, "job-1", [first, described])["rejected"] == []
    assert [row["line"] for row in upload(client, "job-1", [huge, *rest])["rejected"]] == [1]


def test_a_device_that_no_line_describes_has_a_generous_bound(client):
    """1 MW over an hour and a minute are 3.66 GJ."""
    for energy_j, refused in ((3.6e9, 0), (3.7e9, 1)):
        job = f"job-{refused}"
        records = [r for r in hour(job, energy_j) if not isinstance(r, DeviceRecord)]
        assert len(upload(client, job, records)["rejected"]) == refused


def test_a_count_has_a_bound_too(client):
    [refused] = upload(client, "job-1", [Writer(t0=START).count(1e31)])["rejected"]
    assert refused["message"] == "field 'amount' is 1e+31, not a count from 0 to 1e30"


def test_a_side_figure_that_cannot_be_is_named_and_the_energy_counts(client):
    first, described, hour_1, *rest = hour("job-1", 180_000)
    lines = [first, described, replace(hour_1, power_max_w=3.7e6), *rest]
    assert upload(client, "job-1", lines)["rejected"] == []
    document = client.get("/v1/jobs/job-1/report").json
    assert document["energy_kwh"]["value"] == pytest.approx(0.1)  # 360 kJ
    [notice] = [one for one in document["notices"] if one["code"] == "figure-impossible"]
    assert notice["message"] == (
        "power_max_w of GPU-0 cannot be 3700000.0; the energy counts without it."
    )


def test_a_store_with_impossible_lines_answers_and_says_what_it_left_out(client):
    """Before its description comes, a device may draw 1 MW; a GPU may not."""
    first, described, huge, *rest = hour("job-1", 1e9)
    for batch in ([first, huge], [described, *rest]):
        assert upload(client, "job-1", batch)["rejected"] == []
    for read in READS:
        answer = client.get(f"/v1/jobs/job-1{read}")
        assert answer.status_code < 500, (read, answer.text)
    document = client.get("/v1/jobs/job-1/report").json
    assert document["energy_kwh"]["value"] == pytest.approx(0.05)  # 180 kJ of the second hour
    [notice] = [one for one in document["notices"] if one["code"] == "records-refused"]
    assert notice["message"].startswith("1 stored line states what no device can do or draw")


def test_a_count_too_small_to_divide_by_makes_no_score_and_no_failure(client):
    """0.05 kWh over 1e-320 images is beyond any number."""
    meter = Writer(job="job-1", t0=START)
    records = [
        meter.job(zone="FR", pue=1.0, units=("image",)),
        meter.device("GPU-0", **L4),
        meter.interval(0, 3600, 180_000, "GPU-0"),
        meter.count(1e-320, seconds=60),
        meter.end(3600),
    ]
    assert upload(client, "job-1", records)["rejected"] == []
    told = client.get("/v1/jobs/job-1")
    assert (told.status_code, told.json["code"]) == (409, "not-scorable")
    assert client.get("/v1/jobs").status_code == 200


def test_a_clock_of_the_year_2000_at_the_start_of_a_job_does_not_spoil_its_month(client):
    """26 years of an L4 would be some tonnes of embodied carbon; it is not known instead."""
    upload(client, "sound", hour("sound", 180_000))
    records = hour("wrong", 180_000)
    records[0] = replace(records[0], started_at=datetime(2000, 1, 1, tzinfo=UTC))
    upload(client, "wrong", records)
    sound, wrong = (client.get(f"/v1/jobs/{name}/report").json for name in ("sound", "wrong"))
    assert wrong["duration_s"] > 26 * 365 * 86400
    assert (wrong["embodied_g"], wrong["total_g"], wrong["conformance"]) == (None, None, "not-sci")
    [said] = [n["message"] for n in wrong["notices"] if n["code"] == "embodied-unknown"]
    assert said.startswith("The job's times are 26 years apart, longer than hardware lives")
    totals = client.get("/v1/reports/monthly/2026-05").json["totals"]
    assert totals["jobs_unknown"] == 1
    assert totals["embodied_g"]["value"] == pytest.approx(sound["embodied_g"]["value"])
    # Twice two hours of 50 W are 0.2 kWh.
    assert totals["energy_kwh"]["value"] == pytest.approx(sound["energy_kwh"]["value"] * 2)
