"""Names of devices and instances as tools print them, each with what it must mean."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gramwatt.sci.catalog.catalog import load_catalog
from gramwatt.sci.catalog.slices import find_part
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed

CATALOG = load_catalog()


def names(file: str) -> list[dict[str, str]]:
    with (Path(__file__).parent / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


DEVICES, INSTANCES = names("printed_devices.csv"), names("printed_instances.csv")


def test_the_lists_have_sixty_names_each() -> None:
    assert len({row["name"] for row in DEVICES}) >= 60
    assert len({row["name"] for row in INSTANCES}) >= 60


@pytest.mark.parametrize("row", DEVICES, ids=lambda row: row["name"])
def test_a_device_is_its_part_or_the_choices_and_never_another(row: dict[str, str]) -> None:
    """An empty meaning is a name that the catalog does not have: it must stay unknown."""
    try:
        part, on_slice = find_part(CATALOG, row["name"])
        means = on_slice.id if on_slice else part.id
    except AmbiguousName as error:
        means = ";".join(error.choices)
    except LookupFailed:
        means = ""
    assert means == row["means"]


@pytest.mark.parametrize("row", INSTANCES, ids=lambda row: row["name"])
def test_an_instance_has_its_devices_and_never_anothers(row: dict[str, str]) -> None:
    try:
        instance = CATALOG.instance(row["name"])
    except LookupFailed:
        assert row["instance"] == ""
        return
    devices = (instance.count or 0) * instance.share
    assert (instance.id, instance.hardware) == (row["instance"], row["hardware"])
    assert devices == pytest.approx(float(row["devices"]))
