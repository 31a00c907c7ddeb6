"""Cloud regions: their zone, their PUE, and names typed wrong."""

import csv
from pathlib import Path

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.catalog.regions import FleetRow, RegionRow
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def test_every_region_has_a_zone_a_country_and_an_intensity(catalog):
    assert len(catalog.all_regions()) == 404
    for region in catalog.all_regions():
        zone = catalog.zone(region.zone)
        assert zone.zone == region.zone
        assert zone.country == catalog.zone(region.country).country == region.country
        assert zone.intensity.low < zone.intensity.value < zone.intensity.high
        assert not zone.country_fallback


def test_a_region_with_its_published_pue(catalog):
    region = catalog.region("AWS:eu-west-1")
    assert (region.id, region.provider, region.name) == ("aws:eu-west-1", "aws", "eu-west-1")
    assert (region.country, region.zone, region.pue_year) == ("IRL", "IE", 2024)
    assert (region.pue.low, region.pue.value, region.pue.high) == (1.06, 1.11, 1.16)


def test_a_design_value_of_pue_reaches_the_highest_measured_one(catalog):
    pue = catalog.region("azure:italynorth").pue
    assert (pue.low, pue.value, pue.high) == (1.07, 1.12, 1.3)


def test_a_region_without_a_published_pue_has_its_providers_or_none(catalog):
    """The range of a provider's holds what is published of its regions, and 0.05 beyond."""
    region = catalog.region("aws:mx-central-1")
    assert (region.pue.value, region.pue_year, region.pue_basis) == (1.14, 2025, "fleet")
    assert "aws-sustainability" in region.sources
    assert catalog.region("hetzner:fsn1").pue is None
    for fleet in rows(FleetRow):
        own = [row.pue for row in rows(RegionRow) if row.provider == fleet.provider and row.pue]
        assert all(fleet.low <= max(1.0, pue - 0.05) < pue + 0.05 <= fleet.high for pue in own)


def test_a_local_zone_stands_in_its_city_and_not_in_its_parent_region(catalog):
    assert catalog.region("us-west-2-lax-1a").zone == "US-CAL-LDWP"
    assert catalog.region("us-east-1-wl1-bos-wlz-1").zone == "US-NE-ISNE"
    with pytest.raises(LookupFailed):
        catalog.region("us-east-1-xyz-1a")


def test_names_of_several_regions_are_answered_with_all_of_them(catalog):
    with pytest.raises(AmbiguousName) as caught:
        catalog.region("Frankfurt")
    assert {"aws:eu-central-1", "oracle:eu-frankfurt-1"} <= {*caught.value.choices}
    with pytest.raises(AmbiguousName) as caught:
        catalog.region("eu-west1")  # Nebius', and nearly that of AWS
    assert {*caught.value.choices} == {"aws:eu-west-1", "nebius:eu-west1"}


@pytest.mark.parametrize("name", ["aws:eu-west-11", "aws:eu-west-x"])
def test_unknown_regions_raise_with_close_matches(catalog, name):
    with pytest.raises(LookupFailed) as caught:
        catalog.region(name)
    assert "aws:eu-west-1" in caught.value.close


def test_aws_and_google_names_that_differ_in_a_hyphen_stay_apart(catalog):
    assert catalog.region("aws:us-east-1").zone == "US-MIDA-PJM"
    assert catalog.region("gcp:us-east1").zone == "US-CAR-SC"
    assert catalog.region("gcp:us-east1").sources == ("gsf-rtc",)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("us-east1a", "gcp:us-east1"),
        ("azure:west-europ", "azure:westeurope"),
        ("aws:", "aws:af-south-1"),
    ],
)
def test_regions_typed_wrong_list_what_was_meant_first(catalog, name, first):
    with pytest.raises(LookupFailed) as caught:
        catalog.region(name)
    assert caught.value.close[0] == first
    if ":" in name:
        provider = name.split(":")[0]
        assert {found.split(":")[0] for found in caught.value.close} == {provider}


def test_places_as_people_and_tools_write_them(catalog):
    """A list made without looking at the data; an empty meaning is a name that must not be taken.

    95 % are right, and none is taken for another place.
    """
    wrong = []
    path = Path(__file__).with_name("typed_places.csv")
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    for line in lines:
        try:
            typed, zone = line["typed"], line["kind"] == "zone"
            meant = catalog.zone(typed).zone if zone else catalog.region(typed).id
        except LookupFailed:
            meant = ""
        if meant != line["meant"]:
            wrong.append((typed, meant))
    assert len(lines) >= 100
    assert len(wrong) <= 0.05 * len(lines)
    assert [pair for pair in wrong if pair[1]] == []


def test_words_of_a_region_are_turned_for_azure_alone(catalog):
    for name, region in (
        ("EuropeWest", "azure:westeurope"),
        ("azure:EuropeWest", "azure:westeurope"),
        ("azure:uswest2", "azure:westus2"),
        ("uswest2", "aws:us-west-2"),
    ):
        assert catalog.region(name).id == region
    for name in ("aws:EuropeWest", "gcp:EuropeWest"):
        with pytest.raises(LookupFailed):
            catalog.region(name)
