"""`gramwatt catalog`: list hardware, CPUs, instances, regions and zones, or look one up."""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from msgspec import Struct, to_builtins
from rich.console import Console
from rich.table import Table

from gramwatt.collectors.cli import options
from gramwatt.collectors.cli.options import AsJson, refuse
from gramwatt.collectors.cli.summary import WIDTH
from gramwatt.collectors.settings.catalogs import user_catalog
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.catalog.names import find_matches
from gramwatt.sci.catalog.overlay import OverlayError
from gramwatt.sci.embodied import forms
from gramwatt.sci.embodied.forms import Instead
from gramwatt.sci.embodied.te import cpu_doc, hardware_doc
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.sci.figures.units import kg_from_g

Doc = Mapping[str, Any]
WHOLE = ("id", "region", "zone", "figure", "embodied kg", "gCO2e/kWh")
"""Columns that are never wrapped, however narrow the terminal."""
Name = Annotated[
    str | None, typer.Argument(help="Id, name or alias, or a group of the list without it.")
]
Every = Annotated[bool, typer.Option("--all", help="All rows.")]


class Kind(Struct, frozen=True):
    """One kind of row: its command, how to list all and to find one, and its table's columns.

    `group` is what the list without a name counts rows by, by their id.
    """

    command: str
    help: str
    rows: Callable[[Catalog], Sequence[Doc]]
    find: Callable[[Catalog, str], tuple[Sequence[Doc], str | None]]
    columns: Mapping[str, Callable[[Doc], str]]
    example: str
    group: Callable[[str], str] = lambda name: re.split("[-:]", name)[0]

    def group_of(self, doc: Doc) -> str:
        """Return the group of a row."""
        return self.group(next(iter(self.columns.values()))(doc))


def _command(kind: Kind) -> Callable[..., None]:
    def command(name: Name = None, every: Every = False, as_json: AsJson = False) -> None:
        if name is None and not (every or as_json):
            show_groups(kind)
        else:
            show(kind, name, as_json)

    return command


def show_groups(kind: Kind) -> None:
    """Print how many rows each group of a kind has, and how to ask for some."""
    try:
        groups = Counter(map(kind.group_of, kind.rows(user_catalog())))
    except OverlayError as error:
        refuse(error.message)
    command, width = f"gramwatt catalog {kind.command}", WIDTH - 2
    cells = [f"{name} {count}" for name, count in groups.most_common()]
    first = groups.most_common(1)[0][0]
    options.show(
        f"{kind.command}, {groups.total()} in {len(groups)} groups:",
        *textwrap.wrap(", ".join(cells), width, initial_indent="  ", subsequent_indent="  "),
        f"One: {command} {kind.example}",
        f"A group: {command} {first}",
        f"All: {command} --all",
    )


def show(kind: Kind, name: str | None, as_json: bool) -> None:
    """Print the rows of a kind, or those that a name means; exit 1 when it means none.

    A name may be a group's.

    For a name of another kind, such as a cloud service, prints what it runs on and the reason.
    """
    matches: Sequence[Doc]
    reason: str | None = None
    try:
        catalog = user_catalog()
        if name is None:
            matches = kind.rows(catalog)
        else:
            matches, reason = _named(kind, catalog, name)
    except OverlayError as error:
        refuse(error.message)
    except LookupFailed as error:
        unknown = kind is HARDWARE and name and error.reason is None
        counted = forms.instead(catalog, name or "") if unknown else None
        _print_failure(kind, error, counted, as_json=as_json)
        raise typer.Exit(1) from None
    matches = to_builtins(list(matches))
    if reason and not as_json:
        options.show(reason, err=True)
    if as_json:
        _print_json({"matches": list(matches)} | ({"reason": reason} if reason else {}))
    elif name is not None and len(matches) == 1:
        _print_rows(("figure", "value"), list(_flat(matches[0])))
    else:
        lines = [[cell(doc) for cell in kind.columns.values()] for doc in matches]
        _print_rows(tuple(kind.columns), lines)


def _named(kind: Kind, catalog: Catalog, name: str) -> tuple[Sequence[Doc], str | None]:
    """Return the rows of the group of that name, else what the name means."""
    if not any(map(str.isdigit, name)):  # as no group has; to look through all takes longer
        rows = [doc for doc in kind.rows(catalog) if kind.group_of(doc).lower() == name.lower()]
        if rows:
            return rows, None
    return kind.find(catalog, name)


def _print_failure(
    kind: Kind, error: LookupFailed, counted: Instead | None, *, as_json: bool
) -> None:
    if as_json:
        document: dict[str, Any] = {"matches": [], "close": list(error.close)}
        document |= {"reason": error.reason} if error.reason else {}
        _print_json(document | ({"instead": to_builtins(counted)} if counted else {}))
        return
    lines = [error.message]
    if counted:
        lines.append(counted.sentence)
    options.show(*lines, f"`gramwatt catalog {kind.command} --all` lists all.", err=True)


def _print_json(document: Doc) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def _print_rows(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal, and tab-separated lines, which are never cut, in a pipe."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        typer.echo("\n".join("\t".join(line) for line in (header, *lines)))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in header:
        table.add_column(column, no_wrap=column in WHOLE, overflow="fold")
    for line in lines:
        table.add_row(*line)
    console.print(table)


def _flat(doc: Doc) -> Sequence[tuple[str, str]]:
    """Return each figure of one row with its text; nested documents become one line a field."""
    pairs: list[tuple[str, str]] = []
    for field, value in doc.items():
        if isinstance(value, dict) and "low" not in value:
            pairs += [(f"{field}.{inner}", text) for inner, text in _flat(value)]
        else:
            pairs.append((field, _text(value)))
            if isinstance(value, dict):
                pairs.append((f"{field}.source", str(value["source"])))
    return pairs


def _text(value: Any) -> str:
    """Return a figure, list or word for a terminal; 'not known' for None."""
    if value is None:
        return "not known"
    if isinstance(value, dict):
        if value["unit"] == "gCO2e":
            return f"{_range(value, kg_from_g)} kgCO2e"
        unit = "" if value["unit"] == "1" else f" {value['unit']}"
        return f"{_range(value)}{unit}"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return f"{value:,.4g}" if isinstance(value, float) and value < 1000 else _whole(value)


def _whole(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _range(figure: Doc, scale: Callable[[float], float] = float) -> str:
    value, low, high = (scale(figure[end]) for end in ("value", "low", "high"))
    return f"{_number(value)} ({_number(low)} to {_number(high)})"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _found_by(
    find: Callable[[Catalog, str], Doc],
) -> Callable[..., tuple[Sequence[Doc], str | None]]:
    """Return the look-up of a kind whose names `find` resolves to one document."""
    return lambda catalog, name: find_matches(partial(find, catalog), name)


def _hardware(catalog: Catalog, name: str) -> tuple[Sequence[Doc], str | None]:
    parts, reason = forms.matches(catalog, name)
    return [hardware_doc(part) for part in parts], reason


def _get(field: str) -> Callable[[Doc], str]:
    return lambda doc: "-" if doc[field] is None else _text(doc[field])


def _embodied_kg(doc: Doc) -> str:
    return _range(doc["embodied_g"], kg_from_g) if doc["embodied_g"] else "-"


def _tensor(doc: Doc) -> str:
    best = doc["fp16_tensor_tflops"] or doc["bf16_tensor_tflops"]
    return "-" if best is None else _text(best)


def _pue(doc: Doc) -> str:
    return "-" if doc["pue"] is None else f"{doc['pue']['value']:g}"


def _devices(doc: Doc) -> str:
    chosen = f"{doc['count_low']} to {doc['count_high']}"
    return chosen if doc["count"] is None else str(doc["count"])


def _price(doc: Doc) -> str:
    dollars = doc["price_usd_per_hour"]
    return "-" if dollars is None else f"{dollars:.2f} ({doc['price_date']})"


def _zone_doc(catalog: Catalog, name: str) -> Doc:
    world = name.strip().lower() == "world"
    return (catalog.world() if world else catalog.zone(name)).to_doc()


def _region_doc(catalog: Catalog, name: str) -> Doc:
    region = catalog.region(name)
    intensity = catalog.zone(region.zone).intensity.bare()
    return region.to_doc() | {"intensity_g_per_kwh": intensity}


HARDWARE = Kind(
    "hardware",
    "Accelerators, per device as the driver lists them.",
    lambda catalog: [hardware_doc(part) for part in catalog.all_hardware()],
    _hardware,
    {
        "id": _get("id"),
        "memory GB": _get("memory_gb"),
        "TDP W": _get("tdp_w"),
        "FP16 TFLOPS": _tensor,
        "embodied kg": _embodied_kg,
        "tier": _get("embodied_tier"),
    },
    "H100",
)
CPUS = Kind(
    "cpus",
    "CPUs, per socket.",
    lambda catalog: [cpu_doc(cpu) for cpu in catalog.all_cpus()],
    _found_by(lambda catalog, name: cpu_doc(catalog.cpu(name))),
    {
        "id": _get("id"),
        "cores": _get("cores"),
        "threads": _get("threads"),
        "TDP W": _get("tdp_w"),
        "embodied kg": _embodied_kg,
        "tier": _get("embodied_tier"),
    },
    "EPYC-9654",
)
INSTANCES = Kind(
    "instances",
    "Cloud instances as PROVIDER:NAME, or the members of a family.",
    lambda catalog: [row.to_doc() for row in catalog.all_instances()],
    _found_by(lambda catalog, name: catalog.instance(name).to_doc()),
    {
        "id": _get("id"),
        "hardware": _get("hardware"),
        "devices": _devices,
        "share": _get("share"),
        "vCPU": _get("vcpu"),
        "memory GiB": _get("host_memory_gib"),
        "USD/h": _price,
    },
    "aws:p5.48xlarge",
)
REGIONS = Kind(
    "regions",
    "Cloud regions as PROVIDER:REGION, with grid zone and PUE.",
    lambda catalog: [_region_doc(catalog, region.id) for region in catalog.all_regions()],
    _found_by(_region_doc),
    {
        "region": _get("id"),
        "place": _get("place"),
        "zone": _get("zone"),
        "PUE": _pue,
        "gCO2e/kWh": lambda doc: _range(doc["intensity_g_per_kwh"]),
    },
    "aws:eu-west-1",
)
ZONES = Kind(
    "zones",
    "Grid zones by ISO 3166 code or Electricity Maps name, with annual intensity.",
    lambda catalog: [zone.to_doc() for zone in (*catalog.all_zones(), catalog.world())],
    _found_by(_zone_doc),
    {
        "zone": _get("zone"),
        "name": _get("name"),
        "gCO2e/kWh": lambda doc: _range(doc["intensity_g_per_kwh"]),
        "year": _get("year"),
        "scope": _get("scope"),
        "licence": _get("licence"),
    },
    "US-CAL-CISO",
    lambda zone: f"{zone.partition('-')[0]}-" if "-" in zone else "countries",
)
app = typer.Typer(no_args_is_help=True, help="Look up hardware, CPUs, instances, regions, zones.")
for _kind in (HARDWARE, CPUS, INSTANCES, REGIONS, ZONES):
    app.command(_kind.command, help=_kind.help)(_command(_kind))
