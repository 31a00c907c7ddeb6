"""The factor table of a month: its rows multiply, sum to the month, and name who published them."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.service.container import Caller
from gramwatt.service.intensity.csv_import import Origin, import_csv
from tests.service.keyed import add, client_of, with_settings
from tests.tables import tables_of

START = datetime(2026, 5, 4, 8, tzinfo=UTC)
KWH = 600 * 3 / 60 / 1000
"""A job of 3 minutes at 600 W."""


def job(service, number, hours=0.0, **about):
    start = START + timedelta(days=number, hours=hours)
    add(service, f"job-{number}", start=start, **about)


def months(service, month="2026-05"):
    return client_of(service).get(f"/v1/reports/monthly/{month}").json


def test_rows_by_zone_and_pue_multiply_and_sum_to_the_month(light, tmp_path):
    job(light, 1, zone="FR", pue=1.25)
    job(light, 2, zone="FR", pue=1.25)
    job(light, 3, zone="FR", pue=1.5)
    job(light, 4, zone=None, region="aws:eu-central-1", pue=1.1)
    file = tmp_path / "de.csv"
    rows = [f"{START + timedelta(days=5, minutes=n * 60):%Y-%m-%dT%H:%MZ},120" for n in range(6)]
    file.write_text("start_utc,g_per_kwh\n" + "\n".join(rows))
    origin = Origin("Netz GmbH", "CC0-1.0", "https://netz.example/de")
    ada = light.for_caller(Caller("ada"))
    import_csv(ada, file, "DE", "lifecycle", "average", origin=origin)
    job(light, 5, hours=1, zone="DE", pue=1.0)
    found = months(light)
    table = {(row["zone"], row["pue"]["value"], row["quality"]): row for row in found["factors"]}
    assert sorted(table) == [
        ("DE", 1.0, "hourly"),
        ("DE", 1.1, "annual"),
        ("FR", 1.25, "annual"),
        ("FR", 1.5, "annual"),
    ]
    for row in found["factors"]:
        energy, pue, factor, grams = (
            row[name]["value"]
            for name in ("energy_kwh", "pue", "factor_g_per_kwh", "operational_g")
        )
        assert energy * pue * factor == pytest.approx(grams, rel=1e-12)
    for term in ("energy_kwh", "operational_g"):
        summed = sum(row[term]["value"] for row in found["factors"])
        assert summed == pytest.approx(found["totals"][term]["value"], rel=1e-12)
    french = table["FR", 1.25, "annual"]
    assert (french["jobs"], french["energy_kwh"]["value"]) == (2, pytest.approx(2 * KWH))
    assert (french["publisher"], french["licence"]) == ("Electricity Maps", "ODbL-1.0")
    assert french["series"] == "em-yearly"
    assert french["edition"].startswith("Electricity Maps yearly averages")
    assert french["link"] == "https://portal.electricitymaps.com/datasets"
    assert table["FR", 1.5, "annual"]["jobs"] == 1
    imported = table["DE", 1.0, "hourly"]
    assert imported["factor_g_per_kwh"]["value"] == pytest.approx(120)
    assert imported["operational_g"]["value"] == pytest.approx(120 * KWH)
    assert (imported["publisher"], imported["licence"]) == ("Netz GmbH", "CC0-1.0")
    (known,) = imported["files"]
    assert known == {
        "name": "de.csv",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "publisher": "Netz GmbH",
        "licence": "CC0-1.0",
        "link": "https://netz.example/de",
        "imported_by": "ada",
        "imported_at": "2026-06-02T12:00:00.000000Z",
    }
    client = client_of(light)
    page = client.get("/v1/reports/monthly/2026-05.html").text
    for text in ("Emission factors", "Netz GmbH", known["sha256"][:12], "Ember"):
        assert text in page
    assert client.get("/v1/reports/monthly/2026-05.pdf").data.startswith(b"%PDF-")
    rows = tables_of(client.get("/v1/reports/monthly/2026-05.zip").data)["factors"]
    assert ("FR", "1.25") in {(row["Zone"], row["PUE, ratio"]) for row in rows}
    for row in rows:
        kwh, pue, factor, kg = (
            float(row[name])
            for name in (
                *("Energy, kWh", "PUE, ratio"),
                *("Factor, kg CO2e per kWh", "Operational, kg CO2e"),
            )
        )
        assert kwh * pue * factor == pytest.approx(kg)


def test_a_value_of_the_overlay_names_its_source(light, tmp_path):
    overlay = tmp_path / "overlay.toml"
    overlay.write_text('[zones.LAB]\nsource = "our meters"\ng_per_kwh = 100\nyear = 2025\n')
    own = with_settings(light, overlay=overlay)
    job(own, 1, zone="LAB")
    (row,) = months(own)["factors"]
    about = [row[name] for name in ("series", "publisher", "licence")]
    assert about == ["overlay: our meters", "overlay: our meters", "of the user's own"]


def test_a_job_over_the_edge_of_a_month_is_in_the_factors_of_both(light):
    edge = datetime(2026, 5, 31, 23, 58, tzinfo=UTC)
    add(light, "job-1", start=edge, minutes=4, pue=1.5)
    for month in ("2026-05", "2026-06"):
        found = months(light, month)
        (row,) = found["factors"]
        assert row["energy_kwh"]["value"] == pytest.approx(600 * 2 / 60 / 1000)
        assert row["operational_g"]["value"] == pytest.approx(
            found["totals"]["operational_g"]["value"], rel=1e-12
        )


def test_a_factor_names_the_files_with_a_day_in_the_month_or_beside_it(light, tmp_path):
    """Months are those of a time zone, days of files are those of UTC."""
    days = ("2026-04-29", "2026-04-30", "2026-05-05", "2026-06-01", "2026-06-02")
    for day in days:
        file = tmp_path / f"{day}.csv"
        hours = (f"{day}T{hour:02d}:00Z,120" for hour in range(24))
        file.write_text("\n".join(("start_utc,g_per_kwh", *hours)))
        import_csv(light, file, "DE", "lifecycle", "average")
    job(light, 1, zone="DE")
    (row,) = months(light)["factors"]
    assert row["quality"] == "hourly"
    named = sorted(file["name"] for file in row["files"])
    assert named == [f"{day}.csv" for day in days[1:4]]
