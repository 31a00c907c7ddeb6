"""The age of the catalog's annual data, and the year that every score names."""

import re
from datetime import date

import pytest

from benchmarks import editions
from gramwatt.sci.catalog.catalog import load_catalog
from tests.packages import ROOT


@pytest.mark.parametrize(
    ("published", "today", "age"),
    [
        ("2025-08-03", date(2026, 11, 26), 16),
        ("2025-08-03", date(2027, 4, 3), 20),
        ("2025-08-03", date(2027, 4, 4), 21),
        ("2026-02-04", date(2026, 2, 4), 0),
    ],
)
def test_the_age_of_an_edition_is_in_begun_months(published, today, age):
    assert editions.months(published, today) == age


def test_an_edition_older_than_twenty_months_stops_a_release(monkeypatch, tmp_path, capsys):
    assert editions.main() == 0
    assert "countries.csv" in capsys.readouterr().out
    old = tmp_path / "editions.csv"
    old.write_text("file,source,published,years\ncountries.csv,ember,2020-01-01,2018\n")
    monkeypatch.setattr(editions, "EDITIONS", old)
    assert editions.main() == 1
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert "python -m benchmarks.editions" in workflow


def test_every_annual_intensity_names_its_year():
    catalog = load_catalog()
    for zone in (*catalog.all_zones(), catalog.world()):
        assert re.search(rf"\b{zone.year}\b", zone.intensity.source), zone.zone


@pytest.mark.parametrize(
    "region",
    [
        *("northcentralus", "northeurope", "polandcentral", "southeastasia", "westcentralus"),
        *("westus", "westus3", "swedencentral"),
    ],
)
def test_a_region_that_differs_from_the_foundations_table_says_why(region):
    assert "oundation table" in (load_catalog().region(f"azure:{region}").notes or "")
