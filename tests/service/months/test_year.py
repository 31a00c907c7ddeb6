"""The report of a year: the sums of its months, and what it is held against."""

from datetime import UTC, datetime

import pytest

from gramwatt.reports.model import Table
from gramwatt.reports.year import build
from gramwatt.service.budgets import set_budget
from gramwatt.service.common.requests import NewBudget
from gramwatt.service.config import ConfigError, from_environment
from gramwatt.service.jobs.corrections import correct_job
from gramwatt.service.months.periodic import keep_ended_months
from gramwatt.service.months.report import year_report
from tests.service.keyed import add, client_of, with_settings

YEAR = "/v1/reports/yearly/2026"


@pytest.fixture
def service(light, clock):
    clock.now = datetime(2027, 1, 2, tzinfo=UTC)
    for name, year, month, about in (
        ("old", 2025, 6, {"power_w": 300.0}),
        ("a", 2026, 2, {"model_id": "m-1"}),
        ("b", 2026, 2, {"project": "speech", "units": ("token",)}),
        ("c", 2026, 3, {"model_id": "m-1", "power_w": 900.0}),
    ):
        start = datetime(year, month, 10, 8, tzinfo=UTC)
        add(light, name, start=start, **about)
    targets = {"base_year": 2025, "targets": ((2026, 1.0), (2030, 0.5))}
    return with_settings(light, reports=targets)


def carbon(client, name):
    return client.get(f"/v1/jobs/{name}/report").json["total_g"]["value"]


def test_a_year_sums_its_months_and_is_held_against_base_year_and_target(service):
    client = client_of(service)
    set_budget(service, NewBudget(project="vision", limit_kg=1.0), by="ada")
    keep_ended_months(service)
    correct_job(service, "c", {"pue": 1.5}, by="ada", reason="hall 2")
    keep_ended_months(service)
    document = client.get(YEAR).json
    grams = {name: carbon(client, name) for name in ("old", "a", "b", "c")}
    whole = grams["a"] + grams["b"] + grams["c"]
    assert document["totals"]["total_g"]["value"] == pytest.approx(whole, rel=1e-12)
    assert [row["month"] for row in document["months"]] == [f"2026-{n:02}" for n in range(1, 13)]
    rows = {row["month"][5:]: row for row in document["months"]}
    assert rows["02"]["total_g"]["value"] == pytest.approx(grams["a"] + grams["b"])
    assert (rows["01"]["jobs"], rows["01"]["total_g"]) == (0, None)
    assert (rows["03"]["revision"], document["complete"], document["jobs_ended"]) == (2, True, 3)
    base = document["base_year"]
    assert (base["year"], base["total_g"]["value"]) == ("2025", pytest.approx(grams["old"]))
    assert base["change_share"] == pytest.approx(whole / grams["old"] - 1)
    (target,) = document["targets"]
    assert (target["year"], target["met"]) == ("2026", True)
    assert target["share"] == pytest.approx(whole / 1000)
    projects = {(row["project"], row["unit"]): row for row in document["projects"]}
    assert projects["vision", "image"]["count"] == 60
    per_unit = (grams["a"] + grams["c"]) / 60
    assert projects["vision", "image"]["g_per_unit"]["value"] == pytest.approx(per_unit)
    (model,) = document["models"]
    assert (model["model_id"], model["jobs"]) == ("m-1", 2)
    assert model["g_per_unit"]["value"] == pytest.approx(per_unit)
    own = client.get(f"{YEAR}?project=speech").json
    assert own["totals"]["total_g"]["value"] == pytest.approx(grams["b"])
    by_project = {row["project"]: row["total_g"]["value"] for row in document["by_project"]}
    assert by_project == {
        "vision": pytest.approx(grams["a"] + grams["c"]),
        "speech": pytest.approx(grams["b"]),
    }
    assert sum(document["energy_kinds"].values()) == pytest.approx(1.0)
    (budget,) = document["budgets"]  # of two months
    assert (budget["limit_kg"], budget["status"]) == (2.0, "within")
    assert budget["spent_kg"]["value"] == pytest.approx((grams["a"] + grams["c"]) / 1000)
    page = client.get(f"{YEAR}.html").text
    for text in ("Months with jobs", "in 2025", "Target of 2026", "within budget", "m-1"):
        assert text in page
    assert client.get(f"{YEAR}.pdf").data.startswith(b"%PDF-")
    for query, detail in (
        ("2024", "no job in 2024"),
        ("2025?project=speech", "no job of project 'speech' in 2025"),
    ):
        answer = client.get(f"/v1/reports/yearly/{query}").json
        assert (answer["code"], answer["detail"]) == ("no-data", detail)
    assert client.get("/v1/reports/yearly/2025").json["base_year"] is None  # it is one itself
    assert client.get("/v1/reports/yearly/24").status_code == 422


def test_sums_of_months_that_are_mostly_metered_are_not_called_estimated(service):
    blocks = build(year_report(service, "2026")).blocks
    table = next(b for b in blocks if isinstance(b, Table) and b.caption == "Months with jobs")
    energy, electricity, hardware, total = (cell.estimated for cell in table.rows[0][2:6])
    assert hardware
    assert (energy, electricity, total) == (False, False, False)


def test_a_running_year_is_not_complete_and_its_target_open(service, clock):
    clock.now = datetime(2026, 4, 2, tzinfo=UTC)
    document = client_of(service).get(YEAR).json
    assert (document["complete"], document["targets"][0]["met"]) == (False, None)


def test_the_settings():
    env = {"GRAMWATT_BASE_YEAR": "2024", "GRAMWATT_TARGETS": "2030=8000 2027=12000"}
    document = from_environment(env).reports
    assert (document.base_year, document.targets) == (2024, ((2027, 12000.0), (2030, 8000.0)))
    for wrong in ("2027", "27=1", "2027=x"):
        with pytest.raises(ConfigError, match="GRAMWATT_TARGETS"):
            from_environment({"GRAMWATT_TARGETS": wrong})
