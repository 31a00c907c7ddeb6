"""Records that contradict each other, through HTTP: nothing is zero, and nothing is silent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace

from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import readable
from gramwatt.service.jobs.ingest import export_journals
from tests.journals import START, Writer
from tests.service.api.test_bounds import upload

L4 = {"name": "NVIDIA L4", "units_total": 1.0}
KWH = 360_000.0
"""0.1 kWh [J]."""


def job(*lines: Any, end: float | None = 300, **device: Any) -> list[Any]:
    """Five minutes of an L4 with 18 kJ, which is 60 W, and further lines."""
    meter = Writer(job="job-1", t0=START)
    records = [
        meter.job(zone="FR", pue=1.0, units=("image",)),
        meter.device("GPU-0", **{**L4, **device}),
        meter.interval(0, 300, 18_000, "GPU-0"),
        meter.count(10, seconds=60),
    ]
    records += [line(meter) for line in lines]
    return [*records, meter.end(end)] if end is not None else records


def report(client: FlaskClient) -> dict[str, Any]:
    answer = client.get("/v1/jobs/job-1/report")
    assert answer.status_code == 200, answer.text
    assert isinstance(answer.json, dict)
    return answer.json


def said(document: dict[str, Any], code: str) -> str:
    """The only notice of the code; the score says that it deviates."""
    [notice] = [one for one in document["notices"] if one["code"] == code]
    assert document["conformance"] != "conforming"
    return str(notice["message"])


def test_a_plain_job_conforms(client):
    upload(client, "job-1", job())
    document = report(client)
    assert (document["conformance"], document["deviations"]) == ("conforming", [])
    assert document["energy_kwh"]["value"] == pytest.approx(0.005)


def test_an_end_before_the_start_leaves_the_time_that_was_read(client):
    upload(client, "job-1", job(end=-60))
    document = report(client)
    assert document["duration_s"] == 300
    assert {term["time_reserved_s"] for term in document["embodied_terms"]} == {300}
    assert document["embodied_g"]["value"] > 0
    assert "1 min 0 s before" in said(document, "times-contradict")


def test_an_end_before_the_start_of_a_job_without_readings_makes_m_unknown(client):
    meter = Writer(job="job-1", t0=START)
    upload(client, "job-1", [meter.job(zone="FR", pue=1.0), meter.device("G"), meter.end(-60)])
    document = report(client)
    assert (document["embodied_g"], document["conformance"]) == (None, "not-sci")


@pytest.mark.parametrize(
    "start",
    [-7200, 300 + 7200, -40 * 86_400],
    ids=["two hours before", "two hours after", "forty days before"],
)
def test_readings_outside_the_jobs_time_are_left_out_with_their_amount(client, start):
    stray = [lambda meter: meter.interval(start, start + 3600, 0.3e6, "GPU-0")]
    upload(client, "job-1", job(*stray))
    document = report(client)
    assert document["energy_kwh"]["value"] == pytest.approx(0.005)
    assert {term["time_reserved_s"] for term in document["embodied_terms"]} == {300}
    assert [row["day"] for row in document["days"]] == ["2026-05-10"]
    assert "300000 J (0.0833 kWh) in 1 interval" in said(document, "records-outside")
    assert client.get("/v1/reports/monthly/2026-03").json["totals"]["jobs"] == 0


def test_counts_outside_the_jobs_time_are_left_out_with_their_amount(client):
    upload(client, "job-1", job(lambda meter: meter.count(90, seconds=7500)))
    document = report(client)
    assert document["sci"][0]["count"] == 10
    assert "90 image on node n-1" in said(document, "records-outside")


def test_a_meter_that_is_late_counts_and_m_is_for_the_time_of_its_energy(client):
    upload(client, "job-1", job(lambda meter: meter.interval(300, 540, 14_400, "GPU-0")))
    document = report(client)
    assert document["energy_kwh"]["value"] == pytest.approx(0.009)
    assert {term["time_reserved_s"] for term in document["embodied_terms"]} == {540}
    assert document["conformance"] == "conforming"


def test_a_job_whose_end_is_not_known_has_all_that_was_read(client):
    late = [lambda meter: meter.interval(7200, 7500, 18_000, "GPU-0")]
    upload(client, "job-1", job(*late, end=None))
    document = client.get("/v1/jobs/job-1").json
    assert document["state"] == "running"
    assert document["energy_kwh"]["value"] == pytest.approx(0.01)
    assert document["duration_s"] == 7500


@pytest.mark.parametrize("shift", [0, 3], ids=["the same start", "three seconds on"])
def test_a_clock_that_was_set_back_says_what_is_lost(client, shift):
    meter = Writer(job="job-1", t0=START)
    records = [
        meter.job(zone="FR", pue=1.0, units=("image",)),
        meter.device("GPU-0", **L4),
        meter.interval(0, 7200, KWH, "GPU-0"),
        meter.interval(shift, 7200, KWH, "GPU-0"),
        meter.end(7200),
    ]
    upload(client, "job-1", records)
    document = report(client)
    assert document["energy_kwh"]["value"] == pytest.approx(0.1)
    assert "360000 J (0.1 kWh)" in said(document, "clock-set-back")


@pytest.mark.parametrize("later", ["another upload", "another writer", "the same upload"])
def test_an_interval_with_two_values_names_both(client, later):
    first = job()
    other = replace(first[2], energy_j=15_000.0)
    if later == "another writer":
        other = replace(other, writer="w2", seq=1)
    uploads = [[*first, other]] if later == "the same upload" else [first, [other]]
    for records in uploads:
        upload(client, "job-1", records)
    told = said(report(client), "identity-conflict")
    assert "15000 J" in told
    assert "18000 J" in told
    revision = report(client)["revision"]
    upload(client, "job-1", [other])
    assert report(client)["revision"] == revision


def test_a_number_that_was_used_twice_loses_nothing_silently(client):
    """Line 3 of the writer was another interval, and its line 4 the same count again."""
    upload(client, "job-1", job())
    meter = Writer(job="job-1", t0=START, first_seq=3)
    upload(client, "job-1", [meter.interval(100, 200, 9_000, "GPU-0"), meter.count(10, seconds=60)])
    document = report(client)
    assert document["energy_kwh"]["value"] == pytest.approx(0.005)
    assert "9000 J (0.0025 kWh)" in said(document, "clock-set-back")


def test_an_interval_that_grew_contradicts_nothing(client):
    grown = Writer("w1-open", job="job-1", t0=START)
    upload(client, "job-1", [*job()[:1], grown.interval(0, 100, 6_000, "GPU-0")])
    upload(client, "job-1", [grown.interval(0, 200, 12_000, "GPU-0")])
    for _ in range(2):
        upload(client, "job-1", job())
    document = report(client)
    assert document["conformance"] == "conforming"
    assert document["energy_kwh"]["value"] == pytest.approx(0.005)


def test_more_than_a_board_can_draw_counts_with_its_amount(client):
    """An L4 draws 72 W: an hour of it is 259.2 kJ, and 3.6 MJ are 1000 W."""
    hour = [lambda meter: meter.interval(300, 3900, 3.6e6, "GPU-0")]
    upload(client, "job-1", job(*hour, end=3900))
    document = report(client)
    assert document["energy_kwh"]["value"] == pytest.approx(1.005)
    told = said(document, "power-impossible")
    assert "3600000 J (1 kWh) of NVIDIA L4 (GPU-0)" in told
    assert "1000 W" in told
    assert "at most 72 W" in told


def test_an_end_that_came_twice_says_so(client):
    first = job()
    upload(client, "job-1", first)
    upload(client, "job-1", [replace(first[-1], ended_at=START + timedelta(seconds=900))])
    assert "ended_at differ" in said(report(client), "identity-conflict")


def test_a_journal_that_is_exported_has_its_contradictions(client, light, tmp_path):
    first = job()
    upload(client, "job-1", first)
    upload(client, "job-1", [replace(first[2], energy_j=15_000.0)])
    assert export_journals(light, tmp_path).written == ["job-1"]
    exported = (tmp_path / "job-1.jsonl").read_bytes().splitlines()
    [notice] = merge(readable(exported)).notices
    assert notice.code == "identity-conflict"
    assert notice.message in [one["message"] for one in report(client)["notices"]]
