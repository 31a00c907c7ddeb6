"""The catalog: what scores know of hardware, instances, regions and grids, and where from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args

from flask import Response
from msgspec import Meta, Struct

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.catalog.files import SourceRow
from gramwatt.sci.embodied.te import cpu_doc, hardware_doc
from gramwatt.sci.figures.csv_data import rows
from gramwatt.sci.figures.formatting import UNKNOWN, number, span_text, value_text
from gramwatt.service.api.access import Access
from gramwatt.service.api.support import service
from gramwatt.service.pages.frame import page, query, route
from gramwatt.service.pages.misquoted import misquoted

Kind = Literal["hardware", "cpus", "instances", "regions", "intensity", "misquoted"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Doc = dict[str, Any]
Cell = tuple[str, str]
"""A text, and what stands below it in small letters."""


class CatalogQuery(Struct, frozen=True, kw_only=True):
    """Which kind of row, and a part of a name."""

    kind: Kind = "hardware"
    search: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """One kind of row: what it is, all its rows, and columns with their cells."""

    title: str
    what: str
    rows: Callable[[Catalog], list[Doc]]
    columns: dict[str, Callable[[Doc], Cell]]
    texts: frozenset[str] = field(default_factory=frozenset)
    """Columns of words; the others are figures."""


@route("/catalog", Access.READ)
def catalog() -> Response:
    """Return the rows of a kind, or the figures that are often printed wrong."""
    chosen = query(CatalogQuery)
    catalog = service().catalog
    titles = {kind: LISTINGS[kind].title for kind in KINDS if kind != "misquoted"}
    values: dict[str, Any] = {"chosen": chosen, "titles": titles, "version": catalog.version}
    if chosen.kind == "misquoted":
        rows = [row for row in misquoted(catalog) if _fits(chosen.search, f"{row.id} {row.name}")]
        return page("misquoted.html", **values, found=rows, sources=_sources())
    listing = LISTINGS[chosen.kind]
    docs = [doc for doc in listing.rows(catalog) if _fits(chosen.search, _words(doc))]
    lines = [[cell(doc) for cell in listing.columns.values()] for doc in docs]
    return page("catalog.html", **values, listing=listing, lines=lines)


def _fits(search: str | None, text: str) -> bool:
    return search is None or all(word in text.lower() for word in search.lower().split())


def _words(doc: Doc) -> str:
    named = [
        str(doc.get(key) or "") for key in ("id", "name", "vendor", "place", "zone", "country")
    ]
    return " ".join((*named, *map(str, doc.get("aliases") or ())))


def _sources() -> dict[str, tuple[str, str]]:
    """Title and address of each source of the catalog, by its key."""
    return {row.name: (row.title, row.url or "") for row in rows(SourceRow)}


def _plain(name: str) -> Callable[[Doc], Cell]:
    return lambda doc: (_text(doc.get(name)), "")


def _text(value: object) -> str:
    if isinstance(value, float):
        return number(value, 4)
    return UNKNOWN if value in (None, "") else str(value)


def _figure(name: str) -> Callable[[Doc], Cell]:
    return lambda doc: (value_text(doc[name]), span_text(doc[name]))


def _named(doc: Doc) -> Cell:
    return str(doc["name"]), str(doc["id"])


def _embodied(doc: Doc) -> Cell:
    tier = doc["embodied_tier"]
    below = f"{span_text(doc['embodied_g'])}, tier {tier}" if tier else ""
    return value_text(doc["embodied_g"]), below


def _peak(doc: Doc) -> Cell:
    rate = doc["bf16_tensor_tflops"] or doc["fp16_tensor_tflops"]
    if rate:
        return number(rate, 4), ""
    plain = doc["fp32_tflops"]
    return (number(plain, 4), "FP32") if plain else (UNKNOWN, "")


def _hardware_of(doc: Doc) -> Cell:
    share, count = doc["share"], doc["count"]
    number_of = f"{count:g}" if count else f"{doc['count_low']:g} to {doc['count_high']:g}"
    return f"{number_of} x {doc['hardware']}", "" if share in (1, None) else f"{share:.2g} of it"


LISTINGS = {
    "hardware": Listing(
        "Accelerators",
        "Per device as the driver lists it; rates are dense peaks, without sparsity.",
        lambda c: [hardware_doc(row) for row in c.all_hardware()],
        {
            "Part": _named,
            "Year": _plain("release_year"),
            "Power limit [W]": _plain("tdp_w"),
            "Idle [W]": _figure("idle_w"),
            "Memory [GB]": _plain("memory_gb"),
            "Bandwidth [GB/s]": _plain("memory_bandwidth_gbs"),
            "16 bit [TFLOPS]": _peak,
            "Embodied": _embodied,
        },
    ),
    "cpus": Listing(
        "Processors",
        "Per socket.",
        lambda c: [cpu_doc(row) for row in c.all_cpus()],
        {
            "Part": _named,
            "Year": _plain("release_year"),
            "Cores": _plain("cores"),
            "Power limit [W]": _plain("tdp_w"),
            "Embodied": _embodied,
        },
    ),
    "instances": Listing(
        "Cloud instances",
        "With their accelerators and host.",
        lambda c: [row.to_doc() for row in c.all_instances()],
        {
            "Instance": _named,
            "Accelerators": _hardware_of,
            "Virtual CPUs": _plain("vcpu"),
            "Memory [GiB]": _plain("host_memory_gib"),
            "Processor": _plain("host_cpu"),
        },
        texts=frozenset({"Accelerators", "Processor"}),
    ),
    "regions": Listing(
        "Cloud regions",
        "With their grid zone and published PUE.",
        lambda c: [row.to_doc() for row in c.all_regions()],
        {
            "Region": lambda doc: (str(doc["id"]), _text(doc["place"])),
            "Grid zone": _plain("zone"),
            "PUE": lambda doc: (value_text(doc["pue"]), span_text(doc["pue"])),
            "Year": _plain("pue_year"),
        },
        texts=frozenset({"Grid zone"}),
    ),
    "intensity": Listing(
        "Grid intensity",
        "Annual values of zones; hours come from what was imported.",
        lambda c: [row.to_doc() for row in c.all_zones()],
        {
            "Zone": lambda doc: (str(doc["zone"]), str(doc["name"])),
            "Intensity": _figure("intensity_g_per_kwh"),
            "Year": _plain("year"),
            "Source": _plain("source"),
        },
        texts=frozenset({"Source"}),
    ),
}
