"""Annual intensity of grid zones and countries, by key."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from gramwatt.sci.base.csv_data import rows
from gramwatt.sci.base.errors import LookupFailed
from gramwatt.sci.base.quantity import total
from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.grid import zones as grid_module
from gramwatt.sci.grid.zones import AnnualIntensity, Zones


@pytest.fixture(scope="module")
def zones() -> Zones:
    return Zones()


@pytest.mark.parametrize(
    ("key", "zone", "value", "year", "scope"),
    [
        ("DE", "DE", 342.06, 2024, "production"),
        ("deu", "DE", 342.06, 2024, "production"),
        (" FR ", "FR", 44.18, 2024, "production"),
        ("US", "US", 383.55, 2024, "production"),
        ("US-CAL-CISO", "US-CAL-CISO", 208.0, 2025, "consumption"),
        ("GB", "GB", 176.0, 2025, "consumption"),  # its own row wins over Ember's 215.79
        ("GBR", "GB", 176.0, 2025, "consumption"),
        ("NO-NO1", "NO-NO1", 24.0, 2025, "consumption"),
    ],
)
def test_zones_by_every_kind_of_key(
    zones: Zones, key: str, zone: str, value: float, year: int, scope: str
) -> None:
    found = zones.zone(key)
    assert (found.zone, found.intensity.value, found.year) == (zone, value, year)
    assert (found.scope, found.basis, found.signal) == (scope, "lifecycle", "average")
    assert f"{scope}-based" in found.intensity.source
    assert not found.country_fallback


def test_both_iso_codes_of_every_country_mean_the_same(zones: Zones) -> None:
    countries = [zone for zone in zones.newest() if "-" not in zone.zone]
    assert len(countries) == 92
    for found in countries:
        assert found.country is not None
        assert zones.zone(found.country) == zones.zone(found.zone) == found


def test_the_range_of_an_annual_value_is_that_of_its_grid_and_length_of_time(
    zones: Zones,
) -> None:
    """Germany, 342.06, wind and solar: a day 0.682 to 1.333, a month 0.810 to 1.231."""
    germany = zones.zone("DE")
    ends = [germany.intensity.low, germany.intensity.high]
    assert ends == pytest.approx([342.06 * 0.681, 342.06 * 1.333], rel=2e-3)
    month = germany.over(720)
    assert [month.low, month.high] == pytest.approx([342.06 * 0.810, 342.06 * 1.231], rel=2e-3)
    widths = [germany.over(hours).high - germany.over(hours).low for hours in (1, 10, 100, 8760)]
    assert widths == sorted(widths, reverse=True)


def test_hours_of_one_zone_share_what_moves_their_month(zones: Zones) -> None:
    """The month's error is one; the rest is each job's own, and equal spans have the same."""
    one, other = (zones.zone("DE").over(1, when) for when in ("Monday 8:00", "Monday 9:00"))
    same = one.over(zones.zone("DE").over(1, "Monday 8:00"), "1")
    assert (same.low, same.high) == (1.0, 1.0)
    ratio = one.over(other, "1")
    assert one.high / one.value < ratio.high < (one.high / one.value) * (one.value / one.low)


def test_jobs_of_the_same_hours_of_days_err_together(zones: Zones) -> None:
    """Thirty nights are as uncertain as one; jobs around the clock nearly as their month."""
    lookup = AnnualIntensity(load_catalog())

    def high(hours: Iterable[int]) -> float:
        figures = []
        for day, hour in enumerate(hours):
            start = datetime(2026, 5, 1, hour, tzinfo=UTC) + timedelta(days=day)
            [point] = lookup.points("DE", start, start + timedelta(hours=2))
            figures.append(point.intensity)
        whole = total(figures)
        assert whole is not None
        return whole.high / whole.value

    germany = zones.zone("DE")
    assert high([0] * 30) == pytest.approx(germany.over(2).high / 342.06, rel=1e-3)
    assert high([*range(24)]) == pytest.approx(germany.over(720).high / 342.06, rel=0.03)


def test_the_newest_value_of_a_zone_counts(zones: Zones) -> None:
    found = [row for row in rows("odbl/zones.csv") if row.text("zone") == "US-MIDA-PJM"]
    newest = max(found, key=lambda row: row.known("year"))
    assert len(found) > 1
    zone = zones.zone("US-MIDA-PJM")
    assert (zone.year, zone.intensity.value) == (newest.known("year"), newest.known("g_per_kwh"))


def test_a_zone_without_a_value_says_that_its_country_stands_in(zones: Zones) -> None:
    found = zones.zone("US-HI")
    assert found.country_fallback
    assert (found.zone, found.intensity.value) == ("US-HI", zones.zone("US").intensity.value)
    assert "the country's value for zone US-HI" in found.intensity.source


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("US-CAL-CSIO", "US-CAL-CISO"),
        ("US-CAL-CSIO", "US"),
        ("Germany", "DE"),
        ("UK", "GB"),
        ("DEE", "DE"),
    ],
)
def test_unknown_zones_raise_with_close_matches(zones: Zones, key: str, near: str) -> None:
    with pytest.raises(LookupFailed) as caught:
        zones.zone(key)
    assert near in caught.value.close
    assert caught.value.code == "unknown-zone"


@pytest.mark.parametrize("key", ["", " ", "XX", "WORLD"])
def test_no_zone_is_guessed(zones: Zones, key: str) -> None:
    with pytest.raises(LookupFailed):
        zones.zone(key)


def test_the_world_spans_the_middle_of_the_countries(zones: Zones) -> None:
    """10 % of 92 countries below the low end, 10 % above the high one: 10 each."""
    world = zones.world.intensity
    values = [row.intensity.value for row in zones.newest() if row.scope == "production"]
    assert world.value == 472.94
    assert world.low == pytest.approx(85.996)
    assert world.high == pytest.approx(682.386)
    assert sum(value < world.low for value in values) >= 8


def test_without_the_odbl_file_zones_fall_back_on_their_country(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What sci/catalog/data/odbl/LICENSE.md promises to those who empty that file."""
    monkeypatch.setattr(
        grid_module, "rows", lambda name: () if name.startswith("odbl/") else rows(name)
    )
    bare = Catalog()
    assert bare.zone("GB").intensity.value == 215.79
    assert bare.zone("US-CAL-CISO").intensity.value == 383.55
    assert bare.zone("US-CAL-CISO").country_fallback
    assert all(bare.zone(region.zone).licence == "CC BY 4.0" for region in bare.all_regions())


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("Germany", "DE"),
        ("GERMAN", "DE"),
        ("DE-XX", "DE"),
        ("France ", "FR"),
        ("XX", "MX"),
        ("US-CAL", "US-CAL-CISO"),
        ("UK", "GB"),
    ],
)
def test_zones_typed_wrong_list_what_may_be_meant(zones: Zones, key: str, first: str) -> None:
    with pytest.raises(LookupFailed) as caught:
        zones.zone(key)
    assert first in caught.value.close
    assert 1 <= len(caught.value.close) <= 5
