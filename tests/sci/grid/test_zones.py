"""Annual intensity of grid zones and countries, by key."""

import math
from datetime import UTC, datetime, timedelta
from statistics import quantiles

import pytest
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.sci.figures.quantity import total
from gramwatt.sci.grid import zones as grid_module
from gramwatt.sci.grid.spreads import OTHER, SpreadRow, usual_over
from gramwatt.sci.grid.zones import (
    ONE_PUBLISHER,
    AnnualIntensity,
    CountryRow,
    ZoneRow,
    Zones,
    at_equal_grid,
)


@pytest.fixture(scope="module")
def zones():
    return Zones()


@pytest.mark.parametrize(
    ("key", "zone", "value", "year", "scope"),
    [
        ("DE", "DE", 342.0, 2025, "consumption"),  # its own row wins over Ember's 342.06
        ("deu", "DE", 342.0, 2025, "consumption"),
        (" FR ", "FR", 31.0, 2025, "consumption"),
        ("US", "US", 414.0, 2025, "consumption"),
        ("ASM", "AS", 647.06, 2023, "production"),  # American Samoa: Ember alone has a value
        ("SE3", "SE-SE3", 20.0, 2025, "consumption"),
        ("california", "US-CAL-CISO", 208.0, 2025, "consumption"),
        ("The Netherlands", "NL", 253.0, 2025, "consumption"),
        ("US-CAL-CISO", "US-CAL-CISO", 208.0, 2025, "consumption"),
        ("GB", "GB", 176.0, 2025, "consumption"),  # its own row wins over Ember's 215.79
        ("GBR", "GB", 176.0, 2025, "consumption"),
        ("NO-NO1", "NO-NO1", 24.0, 2025, "consumption"),
    ],
)
def test_zones_by_every_kind_of_key(zones, key, zone, value, year, scope):
    found = zones.zone(key)
    assert (found.zone, found.intensity.value, found.year) == (zone, value, year)
    assert (found.scope, found.basis, found.signal) == (scope, "lifecycle", "average")
    assert f"{scope}-based" in found.intensity.source
    assert not found.country_fallback


def test_both_iso_codes_of_every_country_mean_the_same(zones):
    countries = [zone for zone in zones.newest() if "-" not in zone.zone]
    assert len(countries) == 217
    for found in countries:
        assert found.country is not None
        assert zones.zone(found.country) == zones.zone(found.zone) == found


def test_the_range_of_an_annual_value_is_that_of_its_zone_and_length_of_time(zones):
    """Germany has hours of its own, the north of Italy is one of the zones without: wider."""
    spreads = {(row.zone, row.hours): row for row in rows(SpreadRow)}
    for key, of_zone in (("DE", "DE"), ("IT-NO", OTHER)):
        found = zones.zone(key)
        for hours in (1, 24, 720):
            mean, row = found.over(hours), spreads[of_zone, hours]
            ends = [found.intensity.value * end for end in (row.low, row.high)]
            assert [mean.low, mean.high] == pytest.approx(ends, rel=0.05)
        widths = [found.over(hours).high - found.over(hours).low for hours in (1, 10, 100, 8760)]
        assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(
    ("zone", "usual"),
    [("JP-TK", (1.02, 0.92)), ("US-CAL-CISO", (0.62, 1.25)), ("CL-SEN", (1.3, 0.7))],
)
def test_a_range_holds_what_is_usual_for_the_hours(zones, zone, usual):
    """18:00 and 3:00 UTC in June: night and noon of Tokyo, Chile's noon is at 16:00 UTC.

    What these hours usually have, from the traces of 2023, over the annual value; the value stays
    the published one. A range by type of grid held 7 % of nightly jobs in Tokyo.
    """
    found = zones.zone(zone)
    for hour in (3, 18):
        mean = found.over(3, datetime(2026, 6, 10, hour, tzinfo=UTC))
        expected = usual_over(zone, 3, datetime(2026, 6, 10, hour, tzinfo=UTC))
        assert expected is not None
        assert mean.value == found.intensity.value
        assert mean.low <= expected * mean.value <= mean.high


def test_what_hours_usually_differ_by_is_certain_in_a_sum_and_cancels_between_equal_hours(zones):
    """Noon and evening in California: their sum is nearer to the year than either."""
    found = zones.zone("US-CAL-CISO")
    noon, evening = (found.over(1, datetime(2026, 6, 10, h, tzinfo=UTC)) for h in (19, 3))
    assert noon.high / noon.value < 1.1
    assert evening.high / evening.value > 1.3
    whole = total([noon, evening])
    assert noon.low / noon.value < whole.low / whole.value
    assert whole.high / whole.value < evening.high / evening.value
    ratio = evening.over(noon, "1")
    assert ratio.high > 1.4
    same = noon.over(found.over(1, datetime(2026, 6, 10, 19, tzinfo=UTC)), "1")
    assert (same.low, same.high) == (1.0, 1.0)
    first, second = at_equal_grid(noon, evening)
    assert second.over(first, "1").high == pytest.approx(1.0)


def test_hours_of_one_zone_share_what_moves_their_month(zones):
    """The month's error is one; the rest is weather, which jobs of a day share."""
    found = zones.zone("DE")
    days = [found.over(1, datetime(2026, 6, day, 12, tzinfo=UTC)) for day in (1, 2)]
    same = days[0].over(found.over(1, datetime(2026, 6, 1, 12, tzinfo=UTC)), "1")
    assert (same.low, same.high) == (1.0, 1.0)
    ratio = days[0].over(days[1], "1")
    assert ratio.high > 1.2
    month = total([found.over(1, datetime(2026, 6, day, 12, tzinfo=UTC)) for day in range(1, 30)])
    assert month.high - month.low < 29 * 0.8 * (days[0].high - days[0].low)


def test_jobs_of_the_same_hours_of_days_err_together_where_hours_are_not_known(zones):
    """Thirty nights in France are as uncertain as one; jobs around the clock nearly as a month."""
    lookup = AnnualIntensity(load_catalog())

    def high(hours):
        figures = []
        for day, hour in enumerate(hours):
            start = datetime(2026, 5, 1, hour, tzinfo=UTC) + timedelta(days=day)
            [point] = lookup.points("FR", start, start + timedelta(hours=2))
            figures.append(point.intensity)
        whole = total(figures)
        return whole.high / whole.value

    france = zones.zone("FR")
    value = france.intensity.value
    assert high([0] * 30) == pytest.approx(france.over(2).high / value, rel=1e-3)
    assert high([*range(24)]) == pytest.approx(france.over(720).high / value, rel=0.05)


def test_the_newest_value_of_a_zone_counts(zones):
    years = [row for row in rows(ZoneRow) if row.zone == "US-MIDA-PJM"]
    newest = max(years, key=lambda row: row.year)
    assert len(years) > 1
    zone = zones.zone("US-MIDA-PJM")
    assert (zone.year, zone.intensity.value) == (newest.year, newest.g_per_kwh)


def test_a_zone_without_a_value_says_that_its_country_stands_in(zones):
    found = zones.zone("PT-AC")
    assert found.country_fallback
    assert (found.zone, found.intensity.value) == ("PT-AC", zones.zone("PT").intensity.value)
    assert "the country's value for zone PT-AC" in found.intensity.source


def test_a_country_that_no_publisher_has_a_value_of_exists_and_has_the_worlds(zones):
    """Liechtenstein; a file of its hours can be imported under its code."""
    found = zones.zone("LIE")
    assert (found.zone, found.name, found.world_fallback) == ("LI", "Liechtenstein", True)
    assert found.intensity.value == zones.world.intensity.value
    without = [row for row in rows(CountryRow) if zones.zone(row.alpha2).world_fallback]
    assert len(without) == 33
    assert all(row.g_per_kwh is None for row in without)


@pytest.mark.parametrize(
    ("key", "ends"),
    [
        ("FR", (1.0, 44.18 / 33)),  # Ember has 44.18 of 2024, where Electricity Maps has 33
        ("CH", (36.72 / 42, 1.0)),
        ("AS", ONE_PUBLISHER),
        ("XK", (1.0, 1.0)),
        ("AX", ONE_PUBLISHER),
        ("US-CAL-CISO", (1.0, 1.0)),
    ],
)
def test_the_range_of_a_country_reaches_to_the_other_publishers_value_of_the_same_year(
    zones, key, ends
):
    found = zones.zone(key)
    if key == "XK":
        ends = (min(found.publishers[0], 1.0), found.publishers[1])
    assert found.publishers == pytest.approx(ends)
    for hours in (24.0, 8760.0):
        bare = replace(found, publishers=(1.0, 1.0)).over(hours)
        mean, value = found.over(hours), found.intensity.value
        for end, alone, apart in zip(
            (mean.low, mean.high), (bare.low, bare.high), ends, strict=True
        ):
            squares = math.hypot(math.log(alone / value), math.log(apart))
            assert abs(math.log(end / value)) == pytest.approx(squares, rel=1e-6)
        assert mean.low <= value * ends[0] <= value * ends[1] <= mean.high


def test_publishers_differ_as_the_range_of_one_alone_says(zones):
    """Of one year and country: 12 % in the median, at most 35 % in eight of ten."""
    of_year = {(row.zone, row.year): row.g_per_kwh for row in rows(ZoneRow)}
    apart = [
        abs(math.log(of_year[row.alpha2, row.year] / row.g_per_kwh))
        for row in rows(CountryRow)
        if row.g_per_kwh and row.year and (row.alpha2, row.year) in of_year
    ]
    *_, (_, median, _) = [quantiles(apart, n=4)]
    assert len(apart) > 180
    assert math.exp(median) == pytest.approx(1.12, abs=0.01)
    assert math.exp(quantiles(apart, n=10)[7]) == pytest.approx(ONE_PUBLISHER[1], abs=0.02)
    assert ONE_PUBLISHER[0] == pytest.approx(1 / ONE_PUBLISHER[1], abs=0.01)


@pytest.mark.parametrize(
    ("key", "near"), [("US-CAL-CSIO", "US-CAL-CISO"), ("Germny", "DE"), ("DEE", "DE")]
)
def test_unknown_zones_raise_with_close_matches(zones, key, near):
    with pytest.raises(LookupFailed) as caught:
        zones.zone(key)
    assert near in caught.value.close
    assert caught.value.code == "unknown-zone"


@pytest.mark.parametrize("key", ["", " ", "XX", "WORLD"])
def test_no_zone_is_guessed(zones, key):
    with pytest.raises(LookupFailed):
        zones.zone(key)


def test_the_world_spans_the_middle_of_the_countries(zones):
    """10 % of 208 countries below the low end, 10 % above the high one: 21 each."""
    world = zones.world.intensity
    values = [row.g_per_kwh for row in rows(CountryRow) if row.g_per_kwh]
    assert world.value == 472.94
    assert world.low == pytest.approx(98.1)
    assert world.high == pytest.approx(682.158)
    assert sum(value < world.low for value in values) == 21
    assert sum(value > world.high for value in values) == 21


def test_without_the_odbl_file_zones_fall_back_on_their_country(monkeypatch):
    """What sci/catalog/data/odbl/LICENSE.md promises to those who empty that file."""
    monkeypatch.setattr(
        grid_module, "rows", lambda kind: () if "odbl/zones.csv" in kind.files else rows(kind)
    )
    bare = Catalog()
    assert bare.zone("GB").intensity.value == 215.79
    assert bare.zone("US-CAL-CISO").intensity.value == 383.55
    assert bare.zone("US-CAL-CISO").country_fallback
    assert all(bare.zone(region.zone).licence == "CC BY 4.0" for region in bare.all_regions())


@pytest.mark.parametrize(
    ("key", "first"), [("GERMAN", "DE"), ("DE-XX", "DE"), ("XX", "MX"), ("US-CAL", "US-CAL-BANC")]
)
def test_zones_typed_wrong_list_what_may_be_meant(zones, key, first):
    with pytest.raises(LookupFailed) as caught:
        zones.zone(key)
    assert first in caught.value.close
    assert 1 <= len(caught.value.close) <= 5
