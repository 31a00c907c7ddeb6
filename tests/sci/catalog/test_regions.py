"""Cloud regions: their zone, their PUE, and names typed wrong."""

from __future__ import annotations

import pytest

from gramwatt.sci.catalog.catalog import Catalog, load_catalog
from gramwatt.sci.figures.errors import LookupFailed


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def test_every_region_has_a_zone_a_country_and_an_intensity(catalog: Catalog) -> None:
    assert len(catalog.all_regions()) == 165
    for region in catalog.all_regions():
        zone = catalog.zone(region.zone)
        assert zone.zone == region.zone
        assert zone.country == catalog.zone(region.country).country == region.country
        assert zone.intensity.low < zone.intensity.value < zone.intensity.high
        assert not zone.country_fallback


def test_a_region_with_its_published_pue(catalog: Catalog) -> None:
    region = catalog.region("AWS:eu-west-1")
    assert (region.id, region.provider, region.name) == ("aws:eu-west-1", "aws", "eu-west-1")
    assert (region.country, region.zone, region.pue_year) == ("IRL", "IE", 2024)
    assert region.pue is not None
    assert (region.pue.low, region.pue.value, region.pue.high) == (1.06, 1.11, 1.16)


def test_a_design_value_of_pue_reaches_the_highest_measured_one(catalog: Catalog) -> None:
    pue = catalog.region("azure:italynorth").pue
    assert pue is not None
    assert (pue.low, pue.value, pue.high) == (1.07, 1.12, 1.3)


def test_a_region_without_a_published_pue_has_none(catalog: Catalog) -> None:
    assert catalog.region("ovh:fr-gravelines").pue is None


@pytest.mark.parametrize("name", ["eu-west-1", "aws:eu-west-11", "eu-west-1 "])
def test_unknown_regions_raise_with_close_matches(catalog: Catalog, name: str) -> None:
    with pytest.raises(LookupFailed) as caught:
        catalog.region(name)
    assert "aws:eu-west-1" in caught.value.close


def test_aws_and_google_names_that_differ_in_a_hyphen_stay_apart(catalog: Catalog) -> None:
    assert catalog.region("aws:us-east-1").zone == "US-MIDA-PJM"
    assert catalog.region("gcp:us-east1").zone == "US-CAR-SC"
    assert catalog.region("gcp:us-east1").sources == ("gsf-rtc",)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("eu-west1", "aws:eu-west-1"),
        ("us-east1a", "gcp:us-east1"),
        ("aws:us-east-1a", "aws:us-east-1"),
        ("gcp:us-central1-a", "gcp:us-central1"),
        ("azure:west-europe", "azure:westeurope"),
        ("aws:frankfurt", "aws:eu-central-1"),
        ("aws:", "aws:af-south-1"),
    ],
)
def test_regions_typed_wrong_list_what_was_meant_first(
    catalog: Catalog, name: str, first: str
) -> None:
    with pytest.raises(LookupFailed) as caught:
        catalog.region(name)
    assert caught.value.close[0] == first
    if ":" in name:
        provider = name.split(":")[0]
        assert {found.split(":")[0] for found in caught.value.close} == {provider}
