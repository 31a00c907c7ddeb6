"""The whole way of a live intensity: asked for, stored, scored, scored again, final.

The job runs on 5 January 2026 from 10:30 to 12:30 UTC in Germany, 1 kWh in each hour at PUE 1.
"""

import json
from datetime import timedelta

import msgspec
import pytest

from gramwatt.service.intensity.points import SeriesName, keep
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.tasks.table import TASKS
from tests.journals import Writer, lines
from tests.service.keyed import client_of, with_settings
from tests.service.providers.local import HOUR, T0, Local, settings, shaped

NOTHING = json.dumps({"zone": "DE", "data": []}).encode()
START = T0 + timedelta(minutes=30)
refresh, rescore = (TASKS[name].action for name in ("refresh-intensity", "rescore-intensity"))


@pytest.fixture
def local():
    server = Local()
    yield server
    server.close()


def with_chain(service, local, *names, **more):
    return with_settings(service, intensity=settings(local.url, *names, **more))


def answer(local, values, *, start=T0, **more):
    """Electricity Maps answers with these hours, whatever the span."""
    body = shaped("electricity-maps", values, start=start, **more)
    local.answer = lambda path, query, headers: (
        (404, {}, b"") if path.endswith("forecast") else (200, {}, body)
    )


def job(zone="DE", hours=2, t0=START, **more):
    meter = Writer("w", "n1", t0=t0)
    yield meter.job(units=("image",), zone=zone, pue=1.0, **more)
    yield meter.device(meter="nvml-counter")
    for hour in range(hours):
        yield meter.interval(3600 * hour, 3600 * (hour + 1), 3.6e6)
    yield meter.count(10)
    yield meter.end(3600 * hours)


def scored(service, job_id="job-1"):
    client = client_of(service)
    return client.get(f"/v1/jobs/{job_id}/report").json


def revisions(service):
    client = client_of(service)
    return client.get("/v1/jobs/job-1/revisions").json["revisions"]


def month(service):
    client = client_of(service)
    return client.get("/v1/reports/monthly/2026-01").json


def test_from_annual_over_estimated_to_final(service, clock, local):
    """On both databases: what is known at the end, after 1 h, 24 h and 7 days."""
    live = with_chain(service, local, "electricity-maps")
    clock.now = START + 2 * HOUR + timedelta(minutes=1)
    ingest(live, "job-1", lines(job()))
    document = scored(live)
    annual = live.catalog.zone("DE").intensity.value
    assert document["operational_g"]["value"] == pytest.approx(2 * annual, rel=1e-9)
    assert (document["state"], document["provisional"]) == ("completed", True)
    assert document["data_quality"]["intensity"] == {"annual": 1.0}

    answer(local, [300.0, 310.0], estimated=(0, 1))
    assert refresh(live) == 1
    assert rescore(live) == 1
    document = scored(live)
    # Half an hour at 300, an hour at 310, half an hour at the annual value: 12 to 13 h is missing.
    assert document["operational_g"]["value"] == pytest.approx(
        0.5 * 300 + 310 + 0.5 * annual, rel=1e-9
    )
    assert document["data_quality"]["intensity"] == {
        "estimated": pytest.approx(0.75),
        "annual": pytest.approx(0.25),
    }
    assert document["provisional"] is True
    asked = len(local.asked)
    assert (refresh(live), rescore(live), len(local.asked)) == (0, 0, asked)

    clock.now = START + 3 * HOUR
    answer(local, [303.0, 311.0, 320.0], estimated=(2,))
    assert refresh(live) == 2
    assert rescore(live) == 1
    document = scored(live)
    assert document["operational_g"]["value"] == pytest.approx(0.5 * 303 + 311 + 0.5 * 320)
    assert document["provisional"] is True
    before, after = 0.5 * 300 + 310 + 0.5 * annual, 0.5 * 303 + 311 + 0.5 * 320
    text = revisions(live)[0]["change"]["text"]
    # 75 % of the energy was estimated and 25 % annual; now 75 % is measured and 25 % estimated.
    assert text.partition(": ")[2].startswith("DE measured instead of estimated; intensity ")
    embodied = document["embodied_g"]["value"]
    share = (after + embodied) / (before + embodied) - 1
    assert text.startswith(f"{100 * share:+.1f} %: ")

    clock.now = START + 26 * HOUR
    answer(local, [303.0, 311.0, 330.0])
    assert (refresh(live), rescore(live)) == (1, 1)
    document = scored(live)
    assert document["operational_g"]["value"] == pytest.approx(0.5 * 303 + 311 + 0.5 * 330)
    assert document["data_quality"]["intensity"] == {"measured": 1.0}
    assert document["provisional"] is False
    assert month(live)["totals"]["total_g"]["value"] == pytest.approx(
        document["total_g"]["value"], rel=1e-9
    )
    clock.now = START + timedelta(days=8)
    asked = len(local.asked)
    assert (refresh(live), rescore(live)) == (0, 0)
    assert len(local.asked) == asked


def test_after_seven_days_a_score_is_final_whatever_is_known(light, clock, local):
    live = with_chain(light, local, "electricity-maps")
    clock.now = START + 2 * HOUR
    ingest(live, "job-1", lines(job()))
    local.answer = lambda *_: (200, {}, NOTHING)
    for age in (HOUR, 24 * HOUR, timedelta(days=6)):
        clock.now = START + 2 * HOUR + age
        refresh(live)
        rescore(live)
        assert scored(live)["provisional"] is True
    assert [row["revision"] for row in revisions(live)] == [1]
    clock.now = START + 2 * HOUR + timedelta(days=7)
    refresh(live)
    rescore(live)
    assert scored(live)["provisional"] is False
    newest = revisions(live)[0]
    assert newest["revision"] == 2
    assert newest["change"]["text"] == "total unchanged: status provisional -> final"
    assert rescore(live) == 0


def test_without_a_provider_nothing_is_asked_and_scores_are_final(light, clock, local):
    ingest(light, "job-1", lines(job()))
    assert refresh(light) == 0
    assert scored(light)["provisional"] is False
    # Nor where the chain has nothing that scores use: Energinet is direct.
    live = with_chain(light, local, "energinet")
    meter = [msgspec.structs.replace(record, job_id="job-2") for record in job("DK-DK1")]
    ingest(live, "job-2", lines(meter))
    assert scored(live, "job-2")["provisional"] is False


def test_a_job_that_comes_in_late_is_asked_about_once(light, clock, local):
    """Half a year after its end, as from the spool of a machine that was away."""
    live = with_chain(light, local, "electricity-maps")
    ingest(live, "job-1", lines(job()))
    assert scored(live)["provisional"] is True
    answer(local, [300.0, 310.0, 320.0])
    assert refresh(live) == 1
    assert rescore(live) == 1
    assert scored(live)["operational_g"]["value"] == pytest.approx(150 + 310 + 160)
    assert scored(live)["provisional"] is False
    (asked,) = [query for path, query, _ in local.asked if path.endswith("past-range")]
    assert (asked["start"], asked["end"]) == ("2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z")


def test_the_chain_decides_and_the_next_one_fills_what_the_first_leaves_out(light, clock, local):
    clock.now = START + 3 * HOUR
    live = with_chain(light, local, "entsoe", "electricity-maps")
    entsoe, maps = shaped("entsoe", [200.0]), shaped("electricity-maps", [300.0, 310.0, 320.0])

    def both(path, query, headers):
        return (200, {}, entsoe) if path == "/api" else (200, {}, maps)

    local.answer = both
    ingest(live, "job-1", lines(job()))
    refresh(live)
    rescore(live)
    # 10 h by ENTSO-E, which comes first, then Electricity Maps: 200/2 + 310 + 320/2.
    assert scored(live)["operational_g"]["value"] == pytest.approx(100 + 310 + 160)
    turned = with_chain(light, local, "electricity-maps", "entsoe")
    client = client_of(turned)
    points = client.get("/v1/intensity/DE?from=2026-01-05T10:00Z&to=2026-01-05T11:00Z").json
    assert [p["intensity_g_per_kwh"]["value"] for p in points["points"]] == [300.0]


def test_a_provider_that_fails_is_passed_over(light, clock, local):
    clock.now = START + 3 * HOUR
    live = with_chain(light, local, "entsoe", "electricity-maps")
    maps = shaped("electricity-maps", [300.0, 310.0, 320.0])
    local.answer = lambda path, *_: (500, {}, b"") if path == "/api" else (200, {}, maps)
    ingest(live, "job-1", lines(job()))
    refresh(live)
    rescore(live)
    assert scored(live)["operational_g"]["value"] == pytest.approx(150 + 310 + 160)


def test_direct_series_are_kept_and_never_scored(light, clock, local):
    clock.now = START + 2 * HOUR
    live = with_chain(light, local, "energinet")
    local.answer = lambda *_: (200, {}, shaped("energinet", [500.0] * 36, start=START))
    ingest(live, "job-1", lines(job("DK-DK1")))
    assert refresh(live) == 2  # a day of the series, and of its forecast
    assert rescore(live) == 0
    annual = live.catalog.zone("DK-DK1").intensity.value
    assert scored(live)["operational_g"]["value"] == pytest.approx(2 * annual, rel=1e-9)
    assert {path for path, _, _ in local.asked} == {"/dataset/CO2Emis", "/dataset/CO2EmisProg"}


def test_zones_of_the_setting_are_kept_up_to_date_without_a_job(light, clock, local):
    live = with_chain(light, local, "electricity-maps", zones=("DE",))
    clock.now = T0 + timedelta(minutes=10)
    answer(local, [280.0, 290.0], start=T0 - 2 * HOUR)
    assert refresh(live) == 1
    assert refresh(live) == 0
    clock.now += HOUR
    answer(local, [280.0, 290.0, 295.0], start=T0 - 2 * HOUR)
    assert refresh(live) == 1


def test_a_forecast_that_was_asked_for_makes_the_plan(light, clock, local):
    """From 10:00 on 300, at 15:00 and 16:00 100: the whole range of the saving is above nothing."""
    live = with_chain(light, local, "electricity-maps", zones=("DE",))
    clock.now = T0
    past = shaped("electricity-maps", [280.0, 290.0], start=T0 - 2 * HOUR)
    coming = [300.0] * 5 + [100.0] * 2 + [300.0] * 20
    ahead = shaped("electricity-maps", coming, field="forecast")
    local.answer = lambda path, query, headers: (
        (200, {}, ahead if path.endswith("forecast") else past)
    )
    refresh(live)
    client = client_of(live)
    plan = client.post("/v1/plans", json={"hours": 2, "zone": "DE"}).json
    assert plan["plan"] == [
        {"zone": "DE", "start": "2026-01-05T15:00:00Z", "end": "2026-01-05T17:00:00Z"}
    ]
    assert plan["now_intensity_g_per_kwh"]["value"] == pytest.approx(300.0)
    assert plan["intensity_g_per_kwh"]["value"] == pytest.approx(100.0)
    source = "forecast of electricity-maps for DE, fetched 2026-01-05T10:00Z"
    assert plan["intensity_g_per_kwh"]["source"] == source


def test_an_unknown_zone_of_the_setting_stops_nothing(light, clock, local, caplog):
    live = with_chain(light, local, "electricity-maps", zones=("XX", "DE"))
    clock.now = T0 + timedelta(minutes=10)
    answer(local, [280.0], start=T0 - HOUR)
    assert refresh(live) == 1
    assert "'XX' is not asked for" in caplog.text


def test_points_that_commit_late_are_not_missed(service, clock, monkeypatch):
    """Stored by a transaction that began before another's, and was seen after it."""
    ingest(service, "job-1", lines(job("FR")))
    series = SeriesName("FR", "average", "lifecycle", "imported")
    late = clock.now - timedelta(minutes=10)
    keep(service, SeriesName("DE", "average", "lifecycle", "imported"), 3600, "hourly", T0, [1.0])
    assert rescore(service) == 0
    clock.now, now = late, clock.now
    keep(service, series, 3600, "hourly", T0, [50.0, 60.0, 70.0])
    clock.now = now
    assert rescore(service) == 1
    assert scored(service)["operational_g"]["value"] == pytest.approx(25 + 60 + 35)
    assert rescore(service) == 0


def test_points_that_arrive_while_a_score_is_made_are_not_lost(service, clock, monkeypatch):
    """The score has read its points; then others arrive, and are noted before it is stored."""
    from gramwatt.service.jobs import scoring as module

    made, arrived = module.score_records, []
    series = SeriesName("FR", "average", "lifecycle", "imported")

    def score_records(*args, **more):
        document = made(*args, **more)
        if not arrived:
            arrived.append(keep(service, series, 3600, "hourly", T0, [50.0, 60.0, 70.0]))
            rescore(service)
        return document

    monkeypatch.setattr(module, "score_records", score_records)
    ingest(service, "job-1", lines(job("FR")))
    annual = service.catalog.zone("FR").intensity.value
    assert scored(service)["operational_g"]["value"] == pytest.approx(2 * annual, rel=1e-9)
    assert rescore(service) == 1
    assert scored(service)["operational_g"]["value"] == pytest.approx(25 + 60 + 35)


def test_jobs_under_another_code_of_the_zone_follow_too(light):
    ingest(light, "job-1", lines(job("fra")))
    series = SeriesName("FR", "average", "lifecycle", "imported")
    keep(light, series, 3600, "hourly", T0, [50.0, 60.0, 70.0])
    assert rescore(light) == 1
    assert scored(light)["operational_g"]["value"] == pytest.approx(25 + 60 + 35)


def test_points_are_the_same_on_both_databases(service):
    series = SeriesName("FR", "average", "lifecycle", "uk", "production", "CC-BY-4.0")
    keep(service, series, 3600, "measured", T0, [0.1 + 0.2, 60.0])
    client = client_of(service)
    found = client.get("/v1/intensity/FR?from=2026-01-05T10:00Z&to=2026-01-05T12:00Z").json
    values = [p["intensity_g_per_kwh"]["value"] for p in found["points"]]
    assert values == [0.1 + 0.2, 60.0]
    assert "uk" in json.dumps(found)


def test_what_was_used_for_each_hour_is_listed(light, clock, local):
    clock.now = START + 3 * HOUR
    live = with_chain(light, local, "entsoe", "electricity-maps")
    answers = {"/api": shaped("entsoe", [200.0])}
    maps = shaped("electricity-maps", [300.0, 310.0], estimated=(1,))
    local.answer = lambda path, *_: (200, {}, answers.get(path, maps))
    ingest(live, "job-1", lines(job()))
    refresh(live)
    rescore(live)
    annual = live.catalog.zone("DE").intensity.value
    rows = scored(live)["intensity"]
    shown = [(row["start"][11:16], row["end"][11:16], row["quality"]) for row in rows]
    assert shown == [
        ("10:30", "11:00", "measured"),
        ("11:00", "12:00", "estimated"),
        ("12:00", "12:30", "annual"),
    ]
    # 1 kWh an hour.
    assert [row["energy_j"] for row in rows] == pytest.approx([1.8e6, 3.6e6, 1.8e6])
    assert [row["g_per_kwh"] for row in rows] == pytest.approx([200, 310, annual])
    assert rows[0]["source"].startswith(
        "entsoe values of DE, average, lifecycle, production-based, from generation by fuel, "
        "imports left out (ENTSO-E's terms"
    )
    assert rows[1]["source"] == (
        "electricity-maps values of DE, average, lifecycle, consumption-based "
        "(by contract with Electricity Maps)"
    )
    from gramwatt.service.cli.explain import explain
    from gramwatt.service.jobs.documents import job_document

    text = explain(job_document(live, "job-1").document, "intensity_g_per_kwh").text
    assert "DE  2026-01-05 11:00 to 2026-01-05 12:00 UTC  estimated  310 g/kWh  1 kWh" in text
