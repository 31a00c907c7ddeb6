"""The data files of the catalog: the class of each, which says what its columns hold."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import field

from gramwatt.sci.catalog.embodied_facts import ModelInputs, Study
from gramwatt.sci.catalog.hardware import Cpu, CpuFamily, HardwareRow
from gramwatt.sci.catalog.instances import Instance, NameRule
from gramwatt.sci.catalog.names import Service
from gramwatt.sci.catalog.parameters import Parameter
from gramwatt.sci.catalog.regions import FleetRow, RegionRow
from gramwatt.sci.figures.csv_data import SOURCE, Cell, Id, Row, Year, column
from gramwatt.sci.grid.fuels import FuelRow
from gramwatt.sci.grid.local_time import ZoneTimeRow
from gramwatt.sci.grid.places import PlaceRow
from gramwatt.sci.grid.spreads import HoursRow, ShiftRow, SpreadRow
from gramwatt.sci.grid.zones import CountryRow, WorldRow, ZoneKeyRow, ZoneRow


class Alias(Row, frozen=True, kw_only=True):
    """Other names of parts, as drivers and people write them.

    A name has one id, unless it is a shared one.
    """

    files = ("aliases.csv",)
    key = ("what", "alias", "id")

    what: Annotated[
        Literal["hardware", "hardware-literal", "hardware-shared", "instance", "cpu", "region"],
        column(
            "The file of the id. literal: matches only letter by letter; shared: the name of"
            " several parts, refused as ambiguous"
        ),
    ]
    alias: Annotated[Cell, column("The name")]
    id: Annotated[Cell, column("Its id")]


class PciId(Row, frozen=True, kw_only=True):
    """PCI ids of parts, for systems whose lspci has no name for them.

    Several parts where one id is of several.
    """

    files = ("pci_ids.csv",)
    key = ("hardware",)

    hardware: Annotated[tuple[Id, ...], column("Parts", "hardware.csv:id")]
    ids: Annotated[tuple[Cell, ...], column("PCI ids of them, vendor:device")]
    source: Annotated[Id, column("Source key", SOURCE)]


class Group(Row, frozen=True, kw_only=True):
    """Names of several families together, or other names of one.

    The answer to them is the list of members.
    """

    files = ("instance_groups.csv",)
    key = ("name",)

    name: Annotated[Cell, column("Name as people write it")]
    families: Annotated[tuple[Cell, ...], column("Families", "instances.csv:family")]


class Edition(Row, frozen=True, kw_only=True):
    """When the sources of the data that age were published.

    `python -m benchmarks.editions` checks their age.
    """

    files = ("editions.csv",)
    key = ("file",)

    file: Annotated[Cell, column("File with the figures")]
    edition_of: Annotated[Id, column("Source key", SOURCE)]
    published: Annotated[Cell, column("Day on which this edition was published, YYYY-MM-DD")]
    years: Annotated[Cell, column("Years that its figures are of")]


class SourceRow(Row, frozen=True, kw_only=True):
    """Where figures come from."""

    files = ("sources.csv",)
    key = ("name",)

    name: Annotated[Id, column("Key that other files use")] = field(name="key")
    title: Annotated[Cell, column("Title")]
    url: Annotated[Cell | None, column("Address")] = None
    licence: Annotated[
        Cell, column("Licence of the source, or that none is stated and only facts are restated")
    ]
    year: Annotated[Year | None, column("Year of publication or reading")] = None
    evidence: Annotated[Cell, column("primary or secondary, and how far the document was read")]


class Version(Row, frozen=True, kw_only=True):
    """Version of the data: the date of the last change, and the digest of all other files here."""

    files = ("version.csv",)
    key = ("version",)

    version: Annotated[Cell, column("YYYY.MM.DD, with .2 and so on for further changes on one day")]
    sha256: Annotated[Cell, column("Digest; the tests print the right one")]


FILES: tuple[type[Row], ...] = (
    HardwareRow,
    Cpu,
    CpuFamily,
    Instance,
    NameRule,
    Group,
    Service,
    Alias,
    PciId,
    Study,
    ModelInputs,
    Parameter,
    CountryRow,
    WorldRow,
    ZoneRow,
    SpreadRow,
    HoursRow,
    ShiftRow,
    ZoneKeyRow,
    ZoneTimeRow,
    PlaceRow,
    FuelRow,
    RegionRow,
    FleetRow,
    Edition,
    SourceRow,
    Version,
)
"""The class of every data file."""
