"""Days and months of the organisation's time zone, and scores that follow changed factors."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from gramwatt.service.config import ConfigError, from_environment
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.months.cache import keep_sums, kept_months
from gramwatt.service.months.report import months_with_data
from gramwatt.service.tasks import rescoring
from gramwatt.service.tasks.rescoring import rescore_on_new_factors
from gramwatt.service.tasks.table import TASKS
from tests.journals import journal, lines
from tests.service.keyed import add, client_of, with_settings

EVENING = datetime(2026, 4, 30, 20, tzinfo=UTC)
KWH = 600 * 240 / 60 / 1000
"""A job of 240 minutes at 600 W."""


def month(service, name):
    answer = client_of(service).get(f"/v1/reports/monthly/{name}").json
    energy = answer["totals"]["energy_kwh"] if "totals" in answer else None
    return energy["value"] if energy else None


def measure(service, job_id="job-1", **about):
    """A job from 20:00 to 24:00 UTC, which is 22:00 to 02:00 in Berlin."""
    add(service, job_id, minutes=240, start=EVENING, **about)


def test_a_job_over_the_local_end_of_a_month_is_divided_there(light):
    berlin = with_settings(light, zone=ZoneInfo("Europe/Berlin"))
    measure(berlin)
    client = client_of(berlin)
    report = client.get("/v1/jobs/job-1/report").json
    rows = [(row["day"], row["energy_kwh"]["value"], row["counts"]) for row in report["days"]]
    half = pytest.approx(KWH / 2)
    assert rows == [
        ("2026-04-30", half, {"image": pytest.approx(1200)}),
        ("2026-05-01", half, {"image": pytest.approx(1200)}),
    ]
    whole = report["operational_g"]["value"]
    assert sum(row["operational_g"]["value"] for row in report["days"]) == pytest.approx(whole)
    assert report["method"]["time_zone"] == "Europe/Berlin"
    assert [month(berlin, "2026-04"), month(berlin, "2026-05")] == [half, half]


def test_a_deleted_job_is_of_the_month_in_which_it_started(light):
    """To the microsecond, at the end of May in Berlin."""
    berlin = with_settings(light, zone=ZoneInfo("Europe/Berlin"))
    midnight = datetime(2026, 5, 31, 22, tzinfo=UTC)
    for name, start in (("may", midnight - timedelta(microseconds=1)), ("june", midnight)):
        add(berlin, name, start=start)
        delete_job(berlin, name, by="ada")
    client = client_of(berlin)
    for answer, month_ in (("may", "2026-05"), ("june", "2026-06")):
        document = client.get(f"/v1/reports/monthly/{month_}.json").json
        assert [row["job_id"] for row in document["deletions"]] == [answer]


def test_another_time_zone_moves_the_days_of_known_jobs_and_says_so(light):
    measure(light)
    assert [month(light, "2026-04"), month(light, "2026-05")] == [pytest.approx(KWH), None]
    berlin = with_settings(light, zone=ZoneInfo("Europe/Berlin"))
    run = TASKS["rescore-factors"].action
    assert [run(berlin), run(berlin)] == [1, 0]
    half = pytest.approx(KWH / 2)
    assert [month(berlin, "2026-04"), month(berlin, "2026-05")] == [half, half]
    client = client_of(berlin)
    newest, first = client.get("/v1/jobs/job-1/revisions").json["revisions"]
    assert (newest["reason"], newest["energy_kwh"]) == ("factors", first["energy_kwh"])
    assert newest["change"]["text"] == "total unchanged: days of UTC -> Europe/Berlin"
    assert run(light) == 1
    assert [month(light, "2026-04"), month(light, "2026-05")] == [pytest.approx(KWH), None]


def test_a_running_job_and_a_budget_are_in_the_month_it_is_there(light, clock):
    berlin = with_settings(light, zone=ZoneInfo("Europe/Berlin"))
    records = journal(minutes=240, start=EVENING, end_state=None)
    ingest(berlin, "job-1", lines(records))
    clock.now = datetime(2026, 4, 30, 22, 30, tzinfo=UTC)  # 00:30 in Berlin
    assert months_with_data(berlin) == ["2026-05", "2026-04"]
    assert months_with_data(light) == ["2026-04"]
    client = client_of(berlin)
    running = [
        client.get(f"/v1/reports/monthly/{name}").json["jobs_running"]["energy_kwh"]["value"]
        for name in ("2026-04", "2026-05")
    ]
    assert running == [pytest.approx(KWH / 2)] * 2
    client.post("/v1/budgets", json={"project": "vision", "limit_kg": 1})
    (budget,) = client.get("/v1/budgets").json["budgets"]
    assert budget["for_month"] == "2026-05"


def test_the_setting(light):
    answer = from_environment({"GRAMWATT_TIMEZONE": "Europe/Berlin"}).zone
    assert answer == ZoneInfo("Europe/Berlin")
    assert from_environment({}).zone is UTC
    for wrong in ("Europe/Atlantis", "../etc/passwd", "+02:00"):
        with pytest.raises(ConfigError, match="GRAMWATT_TIMEZONE"):
            from_environment({"GRAMWATT_TIMEZONE": wrong})


def test_scores_follow_the_catalog_where_that_changes_them(light, tmp_path):
    measure(light, zone="FR")
    measure(light, "job-2", zone="DE")
    run = TASKS["rescore-factors"].action
    assert [run(light), run(light)] == [2, 0]  # a store of an earlier release, as it were
    overlay = tmp_path / "overlay.toml"
    overlay.write_text('[zones.FR]\nsource = "our meters"\ng_per_kwh = 100\nyear = 2025\n')
    changed = with_settings(light, overlay=overlay)
    assert rescore_on_new_factors(changed, budget_s=0.0) == 0
    assert [rescore_on_new_factors(changed), rescore_on_new_factors(changed)] == [2, 0]
    client = client_of(changed)
    newest, first = client.get("/v1/jobs/job-1/revisions").json["revisions"]
    assert (newest["revision"], newest["reason"], first["reason"]) == (2, "factors", "ended")
    assert "catalog" in newest["change"]["text"]
    assert "intensity" in newest["change"]["text"]
    assert newest["total_g"]["value"] > first["total_g"]["value"]
    # Nothing of Germany has changed but the version of the catalog.
    assert [
        row["revision"] for row in client.get("/v1/jobs/job-2/revisions").json["revisions"]
    ] == [1]
    again = client.post("/v1/jobs/job-2/rescore", json={"reason": "look"}).json
    assert (again["changed"], again["revision"]) == (False, 1)


def test_a_score_that_changes_nothing_leaves_the_sums_of_its_month(light):
    measure(light)
    run = TASKS["rescore-factors"].action
    keep_sums(light, "2026-04")
    assert month(light, "2026-04") == pytest.approx(KWH)
    assert run(light) == 1
    assert kept_months(light, ["2026-04"], None)["2026-04"].holds


def test_rescoring_goes_on_where_a_crash_left_it(light, monkeypatch):
    for number in range(5):
        measure(light, f"job-{number}")
    monkeypatch.setattr(rescoring, "KEPT_EVERY", 2)
    score, scored = rescoring.score_job, []

    def until_the_fourth(light, key, reason, *, force):
        if len(scored) == 3:
            raise KeyboardInterrupt
        scored.append(key)
        score(light, key, reason, force=force)

    monkeypatch.setattr(rescoring, "score_job", until_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        rescore_on_new_factors(light)
    monkeypatch.setattr(rescoring, "score_job", score)
    assert [rescore_on_new_factors(light), rescore_on_new_factors(light)] == [3, 0]
