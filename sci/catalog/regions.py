"""Cloud regions: the grid zone of each, the PUE published for it, and its names.

A region is named as PROVIDER:REGION. Taken too are a name without its provider, a zone of a region
(us-east-1a, us-central1-a, projects/7/zones/us-central1-a), its id in AWS (use1-az4), and a place
that one region of the provider has (aws:frankfurt, West Europe). An AWS local zone stands in the
city that it is named after, not in its parent region. A name of several regions is answered with
all of them, and none is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct, field, to_builtins

from gramwatt.sci.catalog.names import HINTS, similar_ids
from gramwatt.sci.figures.csv_data import SOURCE, Cell, Id, Row, Year, between, column
from gramwatt.sci.figures.errors import AmbiguousName, LookupFailed
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.grid.places import plain

PUE_SPREAD = 0.05
"""82 of the 87 changes from one published PUE to the next in regions.csv are at most this."""
LARGE = ("aws", "azure", "gcp")
"""Providers whose regions are meant where a name has no provider and several have it."""
PROVIDER_NAMES = {
    **dict.fromkeys(("amazon", "ec2"), "aws"),
    **dict.fromkeys(("google", "gce", "gke"), "gcp"),
    "microsoft": "azure",
    "oci": "oracle",
    **dict.fromkeys(("lambdalabs", "lambda-labs", "lambda_labs"), "lambda"),
    **dict.fromkeys(("alicloud", "aliyun"), "alibaba"),
    "do": "digitalocean",
    "hcloud": "hetzner",
    "ovhcloud": "ovh",
    "scw": "scaleway",
    "ibmcloud": "ibm",
}
"""Other names of providers."""
ZONE_SUFFIXES = {
    "aws": r"(?<=\d)[a-z]$|(?<=[a-z]{3})-\d$",
    "gcp": r"-(?:ai\d+)?[a-z]$",
    "azure": r"-[1-3]$",
    "oracle": r"-ad-[1-3]$",
    "scaleway": r"-[1-3]$",
    "ibm": r"-[1-3]$",
    "coreweave": r"[a-z]$",
    "alibaba": r"-?[a-z]$",
    "hetzner": r"-dc\d+$",
    "ovh": r"-?\d+(?:-[a-z])?$|-[a-z]$",
}
"""What a zone of a region has behind the region's name, by provider."""
_PATH = (
    r"(?:https?://[^/]+/(?:\w+/)*?)?(?:projects/[^/]+/)?(?:zones|regions|locations)/"
    r"|^(?:\S+\s+)?\S*(?:region|zone|location)\S?\s*[=:]\s*|[\\,;]\s*$|^arn:aws[\w-]*:\w*:|:\w*:[\w/-]*$|\.compute\.internal$"
    r"|^\((?:us|europe|asia pacific|canada|africa|middle east|south america|mexico)\) "
)
"""What stands around a region in paths, labels, resource names and Azure's portal."""
AREAS = re.compile(
    r"eu|europe|us (?:east|west)|asia pacific|canada(?: west)?|south america|africa|middle east"
    r"|israel|china|mexico|(?:aws )?govcloud"
)
"""What AWS writes before the place of a region: "Europe (Frankfurt)"."""
_ZONE_ID = r"([a-z]+\d)(?:-([a-z]{3})\d)?-az\d+"
_WAVELENGTH = r"(.+)-wl\d-([a-z]{3})-wlz-\d"
_BRACKETS = r"(.*?)\s*\(([^()]+)\)"
_BETWEEN = r"(?<=\S)\s+#.*$|[^a-z0-9-]+"
_REGION_LIKE = (
    r"[a-z]{2,}(?:-[a-z]+)+-?\d{1,2}(?:-?[a-z])?"
    r"|(?:east|west|north|south|central|europe|asia)[a-z]+\d?"
)
"""Words of a line that may be a region of Amazon, Google or Azure."""
_DIRECTION = r"gov|north|south|east|west|central"


Pue = Annotated[float, between(1, 5)]
Access = Literal["government", "separate", "local"]


class RegionRow(Row, frozen=True, kw_only=True):
    """Cloud regions with their grid zone and the latest published PUE."""

    files = ("regions.csv",)
    key = ("provider", "name")

    provider: Annotated[Cell, column("Cloud provider")]
    name: Annotated[Cell, column("Region as the provider writes it")] = field(name="region")
    place: Annotated[Cell | None, column("Place")] = None
    country: Annotated[Cell, column("ISO 3166-1 alpha-3", "countries.csv:alpha3")]
    zone: Annotated[Cell, column("Grid zone: Electricity Maps key")]
    zone_source: Annotated[Id, column("Source key of the zone", SOURCE)]
    zone_other: Annotated[Cell | None, column("Zone that another source assigns")] = None
    zone_other_source: Annotated[Id | None, column("Source key of that", SOURCE)] = None
    pue: Annotated[Pue | None, column("Latest published PUE")] = None
    pue_year: Annotated[Year | None, column("Its year")] = None
    pue_basis: Annotated[
        Literal["annual", "design"] | None,
        column("annual: measured over a year; design: of a new site, probably not measured"),
    ] = None
    pue_history: Annotated[dict[str, Pue], column("Published values as year=PUE")] = {}
    pue_source: Annotated[Id | None, column("Source key", SOURCE)] = None
    access: Annotated[
        Access | None,
        column(
            "Who may use it, where not every customer: government; separate: with an account of its"
            " own; local: a city's small site with few kinds of machines"
        ),
    ] = None
    notes: Annotated[Cell | None, column("Disagreements")] = None

    @property
    def id(self) -> str:
        """Return provider:name."""
        return f"{self.provider}:{self.name}"


class FleetRow(Row, frozen=True, kw_only=True):
    """PUE of all data centres of a provider, for its regions that have none of their own.

    Its range holds the PUE of the provider's regions.
    """

    files = ("fleets.csv",)
    key = ("provider",)
    ranges = (("low", "pue", "high"),)

    provider: Annotated[Cell, column("Cloud provider", "regions.csv:provider")]
    pue: Annotated[Pue, column("PUE of its data centres together")]
    low: Annotated[Pue, column("The least that a region may have")]
    high: Annotated[Pue, column("The most")]
    year: Annotated[Year, column("Its year")]
    source: Annotated[Id, column("Source key", SOURCE)]


class Region(Struct, frozen=True, kw_only=True):
    """A cloud region: `id` is provider:name, `country` ISO 3166 alpha-3, `zone` its grid zone.

    `pue` is the newest published value with its range, of the provider's data centres together
    (`pue_basis` "fleet") where the region has none; None where neither is published. `zone_other`
    is the grid zone that another source gives for it; `access` says where not every customer may
    use it.
    """

    id: str
    provider: str
    name: str
    place: str | None
    country: str
    zone: str
    zone_other: str | None
    pue: Quantity | None
    pue_year: int | None
    pue_basis: str | None
    access: Access | None
    sources: tuple[str, ...]
    notes: str | None

    def to_doc(self) -> dict[str, Any]:
        """Return this region as JSON-ready data."""
        doc: dict[str, Any] = to_builtins(self)
        return doc | {"pue": self.pue.bare() if self.pue else None}


def region_of(row: RegionRow, highest: float, fleet: FleetRow | None = None) -> Region:
    """Return a line as a region; `highest` is the provider's highest measured annual PUE."""
    pue, year, basis, source = _pue(row, highest), row.pue_year, row.pue_basis, row.pue_source
    if pue is None and fleet:
        text = f"PUE {fleet.year} of all data centres of {fleet.provider} ({fleet.source})"
        pue = Quantity(fleet.pue, fleet.low, fleet.high, "1", "catalog", text)
        pue = pue.as_input(f"pue:{fleet.provider}")
        year, source = fleet.year, fleet.source
    own = ("provider", "name", "place", "country", "zone", "zone_other", "access", "notes")
    return Region(
        **{name: getattr(row, name) for name in own},
        id=row.id,
        pue=pue,
        pue_year=year,
        pue_basis=basis or ("fleet" if pue else None),
        sources=tuple(dict.fromkeys(filter(None, (row.zone_source, source)))),
    )


def _pue(row: RegionRow, highest: float) -> Quantity | None:
    """Return PUE -+ 0.05; that of a design value reaches the provider's highest measured."""
    value = row.pue
    if value is None:
        return None
    source = f"{row.id} PUE {row.pue_year}, {row.pue_basis} value ({row.pue_source})"
    high = max(value + PUE_SPREAD, highest) if row.pue_basis == "design" else value + PUE_SPREAD
    low, high = round(max(1.0, value - PUE_SPREAD), 3), round(high, 3)
    return Quantity(value, low, high, "1", "catalog", source).as_input(f"pue:{row.id}")


class RegionNames:
    """The regions by what people and tools call them."""

    def __init__(self, regions: Mapping[str, Region], aliases: Mapping[str, str]) -> None:
        """Index regions by id; `aliases` are other ids of them."""
        self._regions = regions
        self._ids = {**{row_id: row_id for row_id in regions}, **aliases}
        providers = dict.fromkeys((*LARGE, *(region.provider for region in regions.values())))
        self._providers = tuple(providers)
        self._by_code: dict[str, str] = {}
        for region in regions.values():
            if region.provider == "aws":
                self._by_code.setdefault(_code(region.name), region.name)

    def find(self, name: str, *, places: bool = True) -> str:
        """Return the id of a region; `places` are names of it too.

        Raises AmbiguousName with the regions that a name may mean, or LookupFailed.
        """
        text = re.sub("[\"'`]", "", name.strip().lower())
        text = re.sub(r"^--?[\w-]+[ =]+|\s+--.*$", "", text)
        text = re.sub(_PATH, "", text).strip()
        bracketed = re.fullmatch(_BRACKETS, text)
        if bracketed and (of := PROVIDER_NAMES.get(bracketed[2], bracketed[2])) in self._providers:
            text = f"{of}:{bracketed[1]}"
        ids = list(dict.fromkeys(self._named(text)))
        if not ids and places:
            ids = self._at(text)
        ids = ids or self._in_phrase(name.strip().lower())
        if len(ids) == 1:
            return ids[0]
        if ids:
            raise AmbiguousName("region", name, ids[:HINTS])
        raise LookupFailed("region", name, close_regions(name, self._regions))

    def _named(self, text: str) -> Iterator[str]:
        """Yield the regions of a name, with or without its provider: the most exact alone."""
        provider, own = self._split(text)
        spelled = (
            *(own, own.replace(" ", ""), own.replace(" ", "-"), own.replace("_", "-")),
            *(re.sub(_BRACKETS, part, own) for part in (r"\1", r"\2")),
        )
        turned = () if " " in own else (self._turned,)  # "US East" is AWS's too
        for forms in (self._whole, self._zones, *turned, self._short):
            for spelling in dict.fromkeys(spelled):
                ids = list(forms(provider, spelling))
                if ids:
                    yield from ids if provider else self._meant(spelling, ids)
                    return

    def _in_phrase(self, text: str) -> list[str]:
        """Return the regions that a line has the names of: a command, a setting, an address."""
        words = [word for word in re.split(_BETWEEN, text) if re.fullmatch(_REGION_LIKE, word)]
        if len(words) == 1 and words[0] == text:
            return []
        named = [
            self._meant(word, ids)
            for word in words
            if (ids := list(self._whole(None, word)) or list(self._zones(None, word)))
        ]
        return list(dict.fromkeys(row_id for ids in named for row_id in ids))

    def _meant(self, own: str, ids: list[str]) -> list[str]:
        """Return the region of a large provider where several have a name, and one written alike.

        "eu-west1" is Nebius', and nearly that of AWS: both are returned.
        """
        large = [row_id for row_id in ids if row_id.partition(":")[0] in LARGE]
        if large or len(ids) > 1:
            return large[:1] or ids
        bare = own.replace("-", "")
        provider = ids[0].partition(":")[0]
        alike = (f"{other}:{name}" for other in LARGE for name in self._alike(other, bare))
        return ids if provider in LARGE else [*ids, *alike]

    def _alike(self, provider: str, bare: str) -> Iterator[str]:
        for region in self._regions.values():
            if region.provider == provider and region.name.replace("-", "") == bare:
                yield region.name

    def _whole(self, provider: str | None, own: str) -> Iterator[str]:
        for of in (provider,) if provider else self._providers:
            if f"{of}:{own}" in self._ids:
                yield self._ids[f"{of}:{own}"]

    def _zones(self, provider: str | None, own: str) -> Iterator[str]:
        """Yield the regions that a zone of this name lies in."""
        for of in (provider,) if provider else self._providers:
            for outer in self._outer(of, own):
                if f"{of}:{outer}" in self._ids:
                    yield self._ids[f"{of}:{outer}"]
                    break

    def _turned(self, provider: str | None, own: str) -> Iterator[str]:
        """Yield Azure's region of a name with its words in another order: EuropeWest.

        Without its provider none of a name that is nearly another's: "uswest2" is us-west-2 too.
        """
        others = (name for of in LARGE for name in self._alike(of, own.replace(" ", "")))
        if provider == "azure" or (provider is None and not any(others)):
            for region in self._regions.values():
                if region.provider == "azure" and _turned(region.name) == _turned(own):
                    yield region.id

    def _short(self, provider: str | None, own: str) -> Iterator[str]:
        """Yield AWS's region of a short code: use1, and of a name without hyphens: useast1."""
        if provider in (None, "aws"):
            code = self._by_code.get(own)
            yield from (
                f"aws:{name}"
                for name in ([code] if code else self._alike("aws", own.replace("-", "")))
            )

    def _outer(self, provider: str, own: str) -> Iterator[str]:
        if provider == "aws":
            if by_id := re.fullmatch(_ZONE_ID, own):
                region, city = self._by_code.get(by_id[1], ""), by_id[2]
                yield f"{region}-{city}" if city else region
            if carrier := re.fullmatch(_WAVELENGTH, own):
                yield f"{carrier[1]}-{carrier[2]}"
        suffix = ZONE_SUFFIXES.get(provider)
        while suffix and (match := re.search(suffix, own)):
            own = own[: match.start()]
            yield own

    def _at(self, text: str) -> list[str]:
        """Return the regions of a place: of the provider, or of the one that writes names so."""
        provider, own = self._split(text)
        bracketed = re.fullmatch(_BRACKETS, own)
        places = (plain(own), plain(bracketed[2])) if bracketed else (plain(own),)
        at = [
            region
            for region in self._regions.values()
            if places[-1]
            and plain(region.place or "") in places
            and region.provider == (provider or region.provider)
        ]
        if bracketed and not provider:
            writes = ("aws",) if AREAS.fullmatch(bracketed[1].strip()) else ("oracle",)
            at = [row for row in at if row.provider in writes and row.access != "government"] or [
                row for row in at if row.provider == "oracle" and row.access != "government"
            ]
        return [region.id for region in at]

    def _split(self, text: str) -> tuple[str | None, str]:
        """Return the provider of a name, None where it names none, and the rest.

        It stands before a colon, a slash or a space.
        """
        first, _, rest = text.replace("/", " ").partition(" ")
        named = PROVIDER_NAMES.get(first, first)
        if rest and named in self._providers and ":" not in text:
            return named, rest.strip()
        if "/" in text:
            text = text.rpartition("/")[2]
        provider, colon, own = text.partition(":")
        provider = PROVIDER_NAMES.get(provider, provider)
        if colon and provider not in self._providers and own.endswith(("-1", "-2", "-3")):
            provider = "oracle"  # Oracle puts a tenancy's letters before an availability domain
        return (provider, own) if colon else (None, text)


def _turned(name: str) -> tuple[list[str], str]:
    """Return the directions in a name, sorted, and what else it has."""
    return sorted(re.findall(_DIRECTION, name)), re.sub(_DIRECTION, "", name)


def _code(name: str) -> str:
    """Return AWS's short code of a region, as ids of zones have it: use1 of us-east-1."""
    area, *middle, number = name.split("-")
    return area + "".join(part[0] for part in re.findall(_DIRECTION, "".join(middle))) + number


def close_regions(name: str, regions: Mapping[str, Region]) -> list[str]:
    """Return ids of regions with a similar name, best first, of the provider in it or else of all.

    Names and ids are compared, then places ("Frankfurt").
    """
    typed = name.strip().lower()
    provider, _, own = typed.rpartition(":")
    searched = [r for r in regions.values() if r.provider == provider] or list(regions.values())
    ids = {key: region.id for region in searched for key in (region.name, region.id)}
    close = [r.id for r in searched if not own or r.name == own]
    close += [r.id for r in searched if len(own) > 3 and own in (r.place or "").lower()]
    close += [*similar_ids(typed, ids), *similar_ids(own, ids)]
    return list(dict.fromkeys(close))[:HINTS]
