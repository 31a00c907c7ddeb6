"""Intensity over time, from the imported file to the score, the zone's points and the plan."""

import json
import math
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from gramwatt.service.intensity.csv_import import import_csv
from gramwatt.service.intensity.points import SeriesName, keep
from gramwatt.service.intensity.publishers import IntensityFileError
from gramwatt.service.tasks.rescoring import rescore_due
from gramwatt.service.tasks.table import TASKS
from tests.journals import Writer

T0 = datetime(2026, 3, 29, 0, tzinfo=UTC)
"""The night in which central Europe's clocks go forward."""


def write(path, values, start=T0, minutes=60):
    rows = ["start_utc,g_per_kwh"]
    for index, value in enumerate(values):
        moment = start + timedelta(minutes=minutes) * index
        rows.append(f"{moment:%Y-%m-%dT%H:%MZ},{'' if value is None else value}")
    path.write_text("\n".join(rows) + "\n")
    return path


def imported(service, path, zone, signal="average", basis="lifecycle"):
    return import_csv(service, path, zone, basis, signal)


def report(client, job="job-1"):
    return client.get(f"/v1/jobs/{job}/report").json


def month_total(client):
    return client.get("/v1/reports/monthly/2026-03").json["totals"]["total_g"]["value"]


def job_of(zone, node, energies, *, pue=1.2, t0=T0 + timedelta(minutes=30)):
    """Hourly intervals of one GPU from half past midnight on."""
    meter = Writer("w", node, t0=t0)
    yield meter.job(units=("image",), zone=zone, pue=pue)
    yield meter.device(f"GPU-{node}", meter="nvml-counter")
    for hour, joules in enumerate(energies):
        yield meter.interval(3600 * hour, 3600 * (hour + 1), joules, f"GPU-{node}")
    yield meter.count(10)
    yield meter.end(3600 * len(energies))


def test_each_interval_is_joined_with_the_intensity_of_its_time(client, light, tmp_path):
    """Two zones, hourly and 5-minute points, a gap: O by hand, to 1e-9."""
    imported(light, write(tmp_path / "fr.csv", [50, 60, None, 90]), "FR")
    # Germany in five minutes over its first two hours: 300, 301, 302, ...
    fine = [300 + step for step in range(24)]
    imported(light, write(tmp_path / "de.csv", fine, minutes=5), "DE")
    imported(light, write(tmp_path / "de60.csv", [999, 999, 200, 100]), "DE")
    client.take(list(job_of("FR", "n1", [3.6e6, 3.6e6, 3.6e6])))
    client.take(list(job_of("DE", "n2", [7.2e6, 7.2e6, 7.2e6])))
    document = report(client)

    annual = light.catalog.zone("FR").intensity.value
    # France: 1 kWh over each of 00:30 to 01:30, 01:30 to 02:30, 02:30 to 03:30; no value at 2 h.
    french = (50 + 60) / 2 + (60 + annual) / 2 + (annual + 90) / 2
    # Germany: 2 kWh each. The file that came last counts where both are known.
    german = 2 * ((999 + 999) / 2 + (999 + 200) / 2 + (200 + 100) / 2)
    expected = 1.2 * (french + german)
    assert document["operational_g"]["value"] == pytest.approx(expected, rel=1e-9)
    kwh = 3 + 6
    assert document["data_quality"]["intensity"] == {
        "hourly": pytest.approx((kwh - 1) / kwh),
        "annual": pytest.approx(1 / kwh),
    }


def test_the_finer_and_better_values_count_and_gaps_are_said(client, light, tmp_path):
    """The night clocks go forward: measured five minutes, hours between them, then the year."""
    fine = [300.0 + step for step in range(18)]  # 00:00 to 01:30
    fine[9:12] = [math.nan] * 3  # 00:45 to 01:00 is not known
    series = SeriesName("DE", "average", "lifecycle", "publisher")
    keep(light, series, 300, "measured", T0, fine)
    imported(light, write(tmp_path / "de.csv", [500, 600]), "DE")  # 00:00 to 02:00
    imported(light, write(tmp_path / "fr.csv", [50, 60, 70, 80]), "FR")
    client.take(list(job_of("DE", "n1", [3.6e6, 7.2e6])))
    client.take(list(job_of("FR", "n2", [3.6e6, 3.6e6])))
    document = report(client)

    annual = light.catalog.zone("DE").intensity.value
    # 00:30 to 01:30, 1 kWh in twelve parts: 00:30, 00:35, 00:40, three of an hour at 500, then
    # 01:00 to 01:25. 01:30 to 02:30, 2 kWh: half an hour at 600, half an hour of the year's.
    first = (306 + 307 + 308 + 3 * 500 + 312 + 313 + 314 + 315 + 316 + 317) / 12
    second = 2 * (600 + annual) / 2
    french = (50 + 60) / 2 + (60 + 70) / 2
    expected = 1.2 * (first + second + french)
    assert document["operational_g"]["value"] == pytest.approx(expected, rel=1e-9)
    # Of 5 kWh: 9/12 measured, 3/12 + 1 + 2 by the hour, 1 by the year.
    assert document["data_quality"]["intensity"] == {
        "measured": pytest.approx(0.75 / 5),
        "hourly": pytest.approx(3.25 / 5),
        "annual": pytest.approx(1 / 5),
    }
    said = [row for row in document["notices"] if row["code"] == "intensity-annual"]
    assert len(said) == 1


def test_a_job_follows_what_is_imported_later(client, light, clock, tmp_path):
    client.take(list(job_of("FR", "n1", [3.6e6, 3.6e6], pue=1.0)))
    clock.turn(days=3)
    run = TASKS["rescore-intensity"].action
    assert run(light) == 0
    annual = light.catalog.zone("FR").intensity.value
    assert report(client)["operational_g"]["value"] == pytest.approx(2 * annual, rel=1e-9)
    assert month_total(client) == pytest.approx(report(client)["total_g"]["value"], rel=1e-9)

    # Other days, zones and signals touch no score.
    imported(light, write(tmp_path / "fr0.csv", [10] * 24, T0 - timedelta(days=1)), "FR")
    imported(light, write(tmp_path / "de.csv", [10] * 4), "DE")
    imported(light, write(tmp_path / "m.csv", [10] * 4), "FR", signal="marginal")
    assert run(light) == 0

    clock.turn(hours=1)
    imported(light, write(tmp_path / "fr.csv", [50, 60, 70]), "FR")
    assert [run(light), run(light)] == [1, 0]
    # 1 kWh from 00:30 to 01:30, and 1 kWh from 01:30 to 02:30.
    expected = (50 + 60) / 2 + (60 + 70) / 2
    assert report(client)["revision"] == 2
    assert report(client)["operational_g"]["value"] == pytest.approx(expected, rel=1e-9)
    assert month_total(client) == pytest.approx(report(client)["total_g"]["value"], rel=1e-9)
    newest = max(
        client.get("/v1/jobs/job-1/revisions").json["revisions"], key=lambda row: row["revision"]
    )
    assert newest["reason"] == "intensity"
    assert "intensity" in newest["change"]["text"]


def test_rescoring_goes_on_where_its_time_ended(client, light, clock, tmp_path):
    for job in ("job-1", "job-2"):
        client.take([replace(record, job_id=job) for record in job_of("FR", "n1", [3.6e6])])
    clock.turn(hours=1)
    imported(light, write(tmp_path / "fr.csv", [50, 60]), "FR")
    assert rescore_due(light, budget_s=0.0) == 0
    assert rescore_due(light) == 2
    assert [report(client, job)["revision"] for job in ("job-1", "job-2")] == [2, 2]


def test_fine_points_are_cut_at_the_ends_of_an_interval(client, light, tmp_path):
    values = [100 + step for step in range(12)]
    imported(light, write(tmp_path / "de.csv", values, minutes=5), "DE")
    meter = Writer("w", "n1", t0=T0)
    # 1 kWh from 00:02 to 00:12: 3 minutes at 100, 5 at 101 and 2 at 102.
    client.take(
        [
            meter.job(units=("image",), zone="DE", pue=1.0),
            meter.device(meter="nvml-counter"),
            meter.interval(120, 720, 3.6e6),
            meter.count(10),
            meter.end(720),
        ]
    )
    mean = (3 * 100 + 5 * 101 + 2 * 102) / 10
    assert report(client)["operational_g"]["value"] == pytest.approx(mean, rel=1e-9)


def test_the_better_quality_counts_then_the_later(light, clock, client):
    name = SeriesName("DE", "average", "lifecycle", "test")
    for quality, value in (("measured", 200.0), ("hourly", 300.0), ("forecast", 400.0)):
        keep(light, name, 3600, quality, T0, [value, math.nan if quality == "measured" else value])
        clock.turn(hours=1)
    keep(light, name, 3600, "hourly", T0, [310.0, 320.0])
    answer = client.get("/v1/intensity/DE?from=2026-03-29T00:00Z&to=2026-03-29T03:00Z").json
    shown = [(p["quality"], p["intensity_g_per_kwh"]["value"]) for p in answer["points"]]
    annual = light.catalog.zone("DE").intensity.value
    assert shown == [("measured", 200.0), ("hourly", 320.0), ("annual", annual)]


def test_marginal_and_direct_values_are_never_used_for_a_score(client, light, tmp_path):
    imported(light, write(tmp_path / "m.csv", [10.0] * 4), "FR", signal="marginal")
    imported(light, write(tmp_path / "d.csv", [1.0] * 4), "FR", basis="direct")
    client.take(list(job_of("FR", "n1", [3.6e6], pue=1.0)))
    document = report(client)
    annual = light.catalog.zone("FR").intensity.value
    assert document["operational_g"]["value"] == pytest.approx(annual, rel=1e-9)


def test_a_zone_with_direct_values_only_says_that_nothing_uses_them(client, light, tmp_path):
    imported(light, write(tmp_path / "d.csv", [100, None, 120]), "GB", basis="direct")
    imported(light, write(tmp_path / "m.csv", [700, 710]), "GB", signal="marginal")
    span = "from=2026-03-29T00:00Z&to=2026-03-29T03:00Z"
    answer = client.get(f"/v1/intensity/GB?{span}").json
    annual = light.catalog.zone("GB").intensity.value
    shown = [(p["quality"], p["intensity_g_per_kwh"]["value"]) for p in answer["points"]]
    assert shown == [("annual", annual)]
    assert (answer["signal"], answer["basis"]) == ("average", "lifecycle")
    assert answer["stored"] == [
        {"signal": "average", "basis": "direct", "provider": "imported", "used": False},
        {"signal": "marginal", "basis": "lifecycle", "provider": "imported", "used": False},
    ]
    (notice,) = answer["notices"]
    assert notice["code"] == "intensity-unused"
    assert "average direct and marginal lifecycle values, which no score" in notice["message"]
    assert notice["message"].endswith("The annual value stands in.")

    direct = client.get(f"/v1/intensity/GB?{span}&basis=direct").json
    assert [(p["start"], p["intensity_g_per_kwh"]["value"]) for p in direct["points"]] == [
        ("2026-03-29T00:00:00Z", 100.0),
        ("2026-03-29T02:00:00Z", 120.0),
    ]
    assert (direct["basis"], direct["forecast"]) == ("direct", [])
    assert [row["code"] for row in direct["notices"]] == ["intensity-unused"]
    neither = client.get(f"/v1/intensity/GB?{span}&basis=direct&signal=marginal")
    assert (neither.status_code, neither.json["points"]) == (200, [])
    assert client.get(f"/v1/intensity/GB?{span}&basis=stack").status_code == 422
    for page in (f"/intensity/GB?{span}", f"/intensity/GB?{span}&basis=direct&signal=marginal"):
        shown = client.get(page)
        assert shown.status_code == 200, page
        assert "which no score or plan uses" in shown.text or "is stored" in shown.text

    # Values that scores use leave nothing to say.
    imported(light, write(tmp_path / "l.csv", [150, 160, 170]), "GB")
    answer = client.get(f"/v1/intensity/GB?{span}").json
    assert answer["notices"] == []
    assert [row["used"] for row in answer["stored"]] == [False, True, False]


def test_a_month_gets_a_revision_when_its_jobs_are_scored_with_better_values(
    client, light, clock, tmp_path
):
    """Two nodes in two zones, from 23:00 on the last of May to 01:00: 1 kWh each in each hour."""
    edge = datetime(2026, 5, 31, 23, tzinfo=UTC)
    records = [
        *job_of("DE", "n1", [3.6e6, 3.6e6], pue=1.0, t0=edge),
        *(
            replace(record, writer="w2")
            for record in job_of("FR", "n2", [3.6e6, 3.6e6], pue=1.0, t0=edge)
        ),
    ]
    client.take(records)

    def may():
        found = client.post("/v1/reports/monthly/2026-05").json
        return found, found["totals"]["operational_g"]["value"]

    before, grams = may()
    german, french = (light.catalog.zone(zone).intensity.value for zone in ("DE", "FR"))
    assert grams == pytest.approx(german + french, rel=1e-9)
    assert (before["complete"], before["revision"], before["revised"]) == (True, 1, None)

    clock.turn(hours=1)
    imported(light, write(tmp_path / "de.csv", [300, 200], start=edge), "DE")
    imported(light, write(tmp_path / "fr.csv", [50, 40], start=edge), "FR")
    assert TASKS["rescore-intensity"].action(light) == 1
    after, grams = may()
    assert grams == pytest.approx(300 + 50, rel=1e-9)
    june = client.get("/v1/reports/monthly/2026-06").json
    assert june["totals"]["operational_g"]["value"] == pytest.approx(200 + 40, rel=1e-9)
    assert after["revision"] == 2
    revised = after["revised"]
    assert (revised["revision"], revised["total_g"]) == (1, before["totals"]["total_g"])
    assert [(row["change"], row["cause"], row["detail"]) for row in revised["changes"]] == [
        ("changed", "intensity", "DE, FR 2026")
    ]
    # M of the month is the same; O is what was imported instead of the year's.
    embodied = before["totals"]["total_g"]["value"] - german - french
    share = (350 + embodied) / (german + french + embodied) - 1
    page = client.get("/v1/reports/monthly/2026-05.html").text
    assert "This report replaces revision 1, which had 1 job " in page
    assert f"Total: {100 * share:+.1f} %." in page.replace("&#43;", "+")
    text = client.get("/v1/jobs/job-1/revisions").json["revisions"][0]["change"]["text"]
    assert "DE, FR hourly instead of annual" in text
    # Read again it stays; the first stays as it was.
    assert may() == (after, grams)
    assert client.get("/v1/reports/monthly/2026-05?revision=1").json == before


def test_a_job_without_a_reading_has_the_zones_intensity_and_no_energy(client, light, tmp_path):
    """It begins on the hour and was last heard of then: a span of no length."""
    imported(light, write(tmp_path / "fr.csv", [50, 60]), "FR")
    meter = Writer("w", "n1", t0=T0)
    client.take([meter.job(units=("image",), zone="FR"), meter.device(), meter.end(0)])
    document = report(client)
    assert (document["energy_kwh"], document["operational_g"]) == (None, None)
    assert document["zone"] == "FR"


def test_hours_of_a_country_that_no_publisher_has_a_value_of_make_a_score(client, light, tmp_path):
    """Liechtenstein: the world's value stands in and is no SCI, until its own hours are there."""
    client.take(list(job_of("Liechtenstein", "n1", [3.6e6], pue=1.0)))
    before = report(client)
    assert (before["zone"], before["conformance"]) == ("LI", "not-sci")
    assert "LI is Liechtenstein; the catalog has no value of it" in json.dumps(before["notices"])
    assert before["data_quality"]["intensity"] == {"world": 1.0}
    imported(light, write(tmp_path / "li.csv", [40, 50, 60]), "LI")
    assert TASKS["rescore-intensity"].action(light) == 1
    after = report(client)
    assert after["operational_g"]["value"] == pytest.approx(45, rel=1e-9)
    assert after["conformance"] == "conforming"


@pytest.mark.parametrize(("grams", "said"), [(60, True), (340, False), (2100, True)])
def test_a_score_says_where_its_intensity_is_far_from_the_year_of_the_zone(
    client, light, tmp_path, grams, said
):
    """Poland has 565: a sixth of it for three hours is said, and counts."""
    imported(light, write(tmp_path / "pl.csv", [grams] * 4), "PL")
    client.take(list(job_of("PL", "n1", [3.6e6] * 3, pue=1.0)))
    document = report(client)
    assert document["operational_g"]["value"] == pytest.approx(3 * grams, rel=1e-9)
    notices = [row for row in document["notices"] if row["code"] == "input-implausible"]
    assert [row["field"] for row in notices] == ["operational_g"] * said


def test_importing_again_changes_nothing(light, tmp_path):
    path = write(tmp_path / "de.csv", list(range(100, 148)))
    first = imported(light, path, "de")
    assert (first.zone, first.points, first.days, first.days_new) == ("DE", 48, 2, 2)
    assert imported(light, path, "DE").days_new == 0


def test_a_file_that_cannot_be_used_is_refused_by_its_line(light, tmp_path):
    for lines, said in [
        ("start,g_per_kwh\n", "line 1: the columns are start_utc,g_per_kwh"),
        ("start_utc,g_per_kwh\n29.3.2026,1\n", "line 2: '29.3.2026' is not a time"),
        (
            "start_utc,g_per_kwh\n2026-03-29T00:00Z,1\n2026-03-29T01:00Z,2\n2026-03-29T03:00Z,3\n",
            "line 4: starts at 2026-03-29T03:00:00Z, and 2026-03-29T02:00:00Z is due",
        ),
        (
            "start_utc,g_per_kwh\n2026-03-29T00:00Z,1\n2026-03-29T01:00Z,2\n2026-03-29T01:00Z,3\n",
            "line 4",
        ),
        ("start_utc,g_per_kwh\n2026-03-29T00:00Z,1\n2026-03-29T02:00Z,2\n", "line 3: a step of"),
        ("start_utc,g_per_kwh\n2026-03-29T00:01Z,1\n2026-03-29T01:01Z,2\n", "line 2: 00:01:00"),
        ("start_utc,g_per_kwh\n2026-03-29T00:00Z,-1\n2026-03-29T01:00Z,2\n", "line 2: '-1'"),
        ("start_utc,g_per_kwh\n2026-03-29T00:00Z,nan\n2026-03-29T01:00Z,2\n", "line 2: 'nan'"),
        ("start_utc,g_per_kwh\n2026-03-29T00:00Z,1,9\n", "line 2: 3 columns"),
        ("start_utc,g_per_kwh\n2026-03-29T00:00Z,1\n", "fewer than two rows"),
        ("", "line 1"),
    ]:
        path = tmp_path / "x.csv"
        path.write_text(lines)
        with pytest.raises(IntensityFileError) as refused:
            imported(light, path, "DE")
        assert str(refused.value).startswith(said)


def sunny(days):
    """A grid at 400 that falls to 200 around noon every day."""
    for hour in range(days * 24):
        yield round(400 - 200 * max(0.0, math.sin((hour % 24 - 6) / 12 * math.pi)), 3)


def test_a_plan_over_http_waits_for_noon(client, light, tmp_path):
    start = datetime(2026, 1, 1, tzinfo=UTC)
    imported(light, write(tmp_path / "es.csv", list(sunny(200)), start=start), "ES")
    request = {"hours": 2, "zone": "ES", "now": "2026-07-10T18:00:00Z"}
    answer = client.post("/v1/plans", json=request)
    assert answer.status_code == 200
    plan = answer.json
    assert plan["plan"] == [
        {"zone": "ES", "start": "2026-07-11T11:00:00Z", "end": "2026-07-11T13:00:00Z"}
    ]
    assert plan["method"] == "forecast"
    assert plan["advice"] == "wait"
    # 11:00 to 13:00 has 400 - 200 x (sin 75 deg + 1) / 2, by the hours' values.
    noon = 400 - 200 * (math.sin(5 / 12 * math.pi) + 1) / 2
    assert plan["intensity_g_per_kwh"]["value"] == pytest.approx(noon, rel=0.02)
    assert plan["saving_ratio"]["value"] == pytest.approx(1 - noon / 400, abs=0.02)
    assert client.post("/v1/plans", json=request).json == plan


def test_the_coming_hours_of_a_zone_are_forecast(client, light, clock, tmp_path):
    start = clock.now.replace(hour=0) - timedelta(days=200)
    values = list(sunny(200)) + list(sunny(1))[:12]
    imported(light, write(tmp_path / "es.csv", values, start=start), "ES")
    clock.now += timedelta(minutes=30)
    span = "from=2026-06-02T10:00Z&to=2026-06-03T12:00Z"
    answer = client.get(f"/v1/intensity/ES?{span}").json
    assert [point["quality"] for point in answer["points"]] == ["hourly", "hourly", "annual"]
    expected = answer["forecast"]
    assert {point["quality"] for point in expected} == {"forecast"}
    # From now to the end of the span without a gap: half an hour, then whole ones.
    assert (expected[0]["start"], expected[0]["end"]) == (
        "2026-06-02T12:30:00Z",
        "2026-06-02T13:00:00Z",
    )
    assert expected[-1]["end"] == "2026-06-03T12:00:00Z"
    assert [a["end"] for a in expected[:-1]] == [b["start"] for b in expected[1:]]
    for point in expected:
        hour = datetime.fromisoformat(point["start"]).hour
        figure = point["intensity_g_per_kwh"]
        assert figure["value"] == pytest.approx(list(sunny(1))[hour], rel=0.03)
        assert figure["low"] <= figure["value"] <= figure["high"]
    # Without a history there are the usual hours; where only the annual value is known, nothing.
    assert answer["forecast_method"] == "forecast"
    answer = client.get(f"/v1/intensity/DE?{span}").json
    usual = answer["forecast"]
    assert answer["forecast_method"] == "usual-hours"
    assert {point["quality"] for point in usual} == {"profile"}
    assert usual[-1]["end"] == "2026-06-03T12:00:00Z"
    answer = client.get(f"/v1/intensity/TW?{span}").json
    assert (answer["forecast"], answer["forecast_method"]) == ([], None)


def test_a_plan_that_cannot_be_made_is_refused(client):
    for request_ in [
        {"hours": 2},
        {"zone": "DE"},
        {"hours": 2, "zone": "XX"},
        {"hours": 2, "zone": "DE", "deadline": "soon"},
        {"hours": -1, "zone": "DE"},
        {"hours": 2, "zone": "DE", "colour": 1},
        {"hours": 2, "zone": "DE", "now": "9999-12-31T23:00Z"},
        {"hours": 2, "zone": "DE", "earliest": "1999-12-31T23:00Z"},
    ]:
        answer = client.post("/v1/plans", json=request_)
        assert answer.status_code == 422
        assert answer.content_type == "application/problem+json"


def test_intensity_of_an_unknown_zone_or_a_wrong_span(client):
    assert client.get("/v1/intensity/DF").status_code == 404
    wrong = client.get("/v1/intensity/DE?from=2026-03-29T00:00Z&to=2026-03-28T00:00Z")
    assert wrong.status_code == 422
    assert json.loads(wrong.data)["code"] == "invalid"
    assert wrong.json["errors"][0]["where"] == "query.to"


def test_a_page_shows_a_zone_over_time_with_the_window_of_a_plan(client, light, clock, tmp_path):
    start = clock.now.replace(hour=0) - timedelta(days=200)
    imported(light, write(tmp_path / "es.csv", list(sunny(200)), start=start), "ES")
    page = client.get("/intensity/ES?hours=2")
    assert page.status_code == 200
    assert "script-src 'self';" in page.headers["Content-Security-Policy"]
    assert '<nav aria-label="Main">' in page.text
    text = page.text
    assert "<svg" in text or "data:image/svg" in text
    assert "Grid intensity of ES" in text
    # From midday three days before: 60 known hours, 12 that are not, and four days to come.
    assert text.count(">hourly</td>") == 60
    assert text.count(">annual value</td>") == 1
    assert text.count(">forecast</td>") == 96
    plan = client.post("/v1/plans", json={"hours": 2, "zone": "ES"}).json
    assert plan["summary"].partition(":")[0] in text
    assert client.get("/intensity/DF").status_code == 404
    assert client.get("/intensity/ES?hours=0").status_code == 422


def test_a_plan_like_an_earlier_run_has_its_length_and_power(client, light, clock, tmp_path):
    """A run of 1 kWh in its first hour and 3 kWh in its second: 1000 W, then 3000 W."""
    start = clock.now.replace(hour=0) - timedelta(days=200)
    imported(light, write(tmp_path / "es.csv", list(sunny(201)), start=start), "ES")
    client.take(list(job_of("ES", "n1", [3.6e6, 3 * 3.6e6])))
    like = client.post("/v1/plans", json={"like": "job-1", "zone": "ES"})
    assert like.status_code == 200
    given = {"hours": 2, "zone": "ES", "power_profile_w": [1000.0, 3000.0]}
    plan = client.post("/v1/plans", json=given).json
    assert like.json["plan"] == plan["plan"]
    for name in ("intensity_g_per_kwh", "now_intensity_g_per_kwh"):
        assert like.json[name]["value"] == pytest.approx(plan[name]["value"], rel=1e-9)
    even = client.post("/v1/plans", json={"hours": 2, "zone": "ES"}).json
    assert even["now_intensity_g_per_kwh"]["value"] != plan["now_intensity_g_per_kwh"]["value"]
    unknown = client.post("/v1/plans", json={"like": "job-2", "zone": "ES"})
    assert (unknown.status_code, unknown.json["detail"]) == (
        422,
        "like: unknown job 'job-2'; close ids: job-1",
    )
    both = client.post("/v1/plans", json={"like": "job-1", "zone": "ES", "power_w": 9})
    assert (both.status_code, both.json["detail"]) == (422, "give like or power_w, not both")


def test_what_was_expected_has_a_wider_range_than_what_came(client, light):
    """An hour as published within 10 %, a forecast hour within 22 %, a usual one within 27 %."""
    series = SeriesName("DE", "average", "lifecycle", "publisher")
    for hour, quality in enumerate(("hourly", "forecast", "profile")):
        keep(light, series, 3600, quality, T0 + timedelta(hours=hour), [200.0])
    span = "from=2026-03-29T00:00Z&to=2026-03-29T03:00Z"
    points = client.get(f"/v1/intensity/DE?{span}").json["points"]
    figures = [point["intensity_g_per_kwh"] for point in points]
    assert [(f["low"], f["high"]) for f in figures] == [
        pytest.approx(ends) for ends in ((180, 220), (156, 244), (146, 254))
    ]
    assert len({f["source"] for f in figures}) == 3
