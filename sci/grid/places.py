"""Names of places as people type them: countries, states, cities and short names of grids.

A name is exact once case, accents, punctuation and a leading "the" do not count. "Portland, Maine"
and "SE3, Sweden" name a place within another. A country or a state comes before a city of the same
name; a name of several grids is answered with all of them, and none is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Annotated, Literal
from unicodedata import normalize

from gramwatt.sci.figures.csv_data import Cell, Row, Source, column

TOO_GENERAL = frozenset({"east", "peninsula", "main islands", "south island"})
"""Names of zones that say nothing without their country."""
LEAST_LETTERS = 3
"""Of the last part of a zone key that stands alone ("SE3"); shorter ones are codes of countries."""
WITH_STATES = ("CA", "AU")
"""Countries of which a state alone is often named ("London, ON"), and is a zone of that key."""
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ı": "i", "æ": "ae", "ß": "ss", "œ": "oe", "'": "", "’": ""}
)
"""Letters that have no accent to leave out."""
_WORD = re.compile(r"[a-z0-9]+")
_KIND_OF_AREA = re.compile(
    r"^(?:state|province|county|city|region) of | (?:state|province|county|prefecture|region)$"
)
"""What geolocation by address puts around an area: "Stockholm County"."""


class PlaceRow(Row, frozen=True, kw_only=True):
    """Names of places by the grid zone or country they lie in.

    A place that several grids serve is a name of each of them.
    """

    files = ("places.csv",)
    key = ("zone", "kind")

    zone: Annotated[Cell, column("Zone key, or ISO 3166-1 alpha-2 of a country")]
    kind: Annotated[
        Literal["area", "city"],
        column("area: countries, states, grids; city: where no area has the name"),
    ]
    names: Annotated[tuple[Cell, ...], column("Names, the largest place first")]
    source: Source


def plain(name: str) -> str:
    """Return the words of a name in small ASCII letters, without accents and a leading "the".

    A name in another script has its own letters.
    """
    letters = normalize("NFKD", name.casefold().translate(_LETTERS)).encode("ascii", "ignore")
    words = _WORD.findall(letters.decode()) or normalize("NFKC", name.casefold()).split()
    return " ".join(words[1:] if len(words) > 1 and words[0] == "the" else words)


_LABEL = re.compile(
    r"^\W*(?:[\w.]+\s+)?[\w-]*(?:location|region|country|zone|place|city|state|datacent[er]+|code)\w*"
    r"\W*[=:]\s*",
    re.IGNORECASE,
)


def bare_place(text: str) -> str:
    """Return a place without the label, quotes and punctuation around it: location = "Wien",."""
    bare = re.sub("[\"'`*]", "", text).strip()
    bare = _LABEL.sub("", bare)
    return re.sub(r"\s+[-–]\s+", ", ", bare.strip(" ,;\\").rstrip(")") if "(" not in bare else bare)


def _spellings(name: str) -> list[str]:
    """Return the plain name, and that without the kind of area where the name says one."""
    return list(dict.fromkeys((plain(name), _KIND_OF_AREA.sub("", plain(name)))))


class PlaceNames:
    """Zones by the names of the places in them."""

    def __init__(self, areas: Iterable[tuple[str, str]], rows: Iterable[PlaceRow]) -> None:
        """Index (name, zone) pairs of areas, and the rows of the data file."""
        self._areas: dict[str, dict[str, None]] = {}
        self._cities: dict[str, dict[str, None]] = {}
        self._all = (self._areas, self._cities)
        for name, zone in areas:
            if plain(name) not in TOO_GENERAL:
                self._areas.setdefault(plain(name), {})[zone] = None
        for row in rows:
            names = self._areas if row.kind == "area" else self._cities
            for name in row.names:
                names.setdefault(plain(name), {})[row.zone] = None

    def zones(self, text: str) -> Sequence[str]:
        """Return the zones that a name may mean: one, several, or none of an unknown name."""
        name, comma, rest = text.partition(",")
        if comma and plain(rest):
            code = rest.strip().upper()
            states = (code, *(f"{country}-{code}" for country in WITH_STATES))
            outer = [zone for key in (rest, f"US-{code}") for zone in self.zones(key)]
            inner = self.within(name, (*outer, *states))
            return inner or [zone for zone in dict.fromkeys(outer) if not self._has_parts(zone)]
        words = name.strip().rsplit(" ", 1)
        if len(words) == 2 and re.fullmatch(r"[A-Z]{2}", words[1]) and not self._known(name):
            return self.zones(f"{words[0]}, {words[1]}")  # "Ashburn VA"
        for spelled in _spellings(name):
            if zones := (
                self._areas.get(spelled)
                or self._cities.get(spelled)
                or self._cities.get(f"{spelled} city")
            ):
                return tuple(zones)
        return ()

    def _has_parts(self, zone: str) -> bool:
        named = (inner for names in self._all for zones in names.values() for inner in zones)
        return any(inner.startswith(f"{zone}-") for inner in named)

    def _known(self, name: str) -> bool:
        return any(plain(name) in names for names in self._all)

    def within(self, name: str, outer: Iterable[str]) -> Sequence[str]:
        """Return the zones that a name may mean within others: a state, or a whole country.

        The last part of a zone's key is a name of it there: "SE3" in SE.
        """
        keys = tuple(outer)
        for part, names in product(_spellings(name), self._all):
            names_there = names.get(part, {})
            inner = [zone for zone in names_there if any(_lies_in(zone, key) for key in keys)]
            if inner:
                return inner
        return ()

    def close(self) -> dict[str, str]:
        """Return the zone of every name of an area of one zone, for hints."""
        return {name: next(iter(zones)) for name, zones in self._areas.items() if len(zones) == 1}


def short_key(zone: str) -> str | None:
    """Return the last part of a zone's key where it is a name of its own: SE3 of SE-SE3."""
    last = zone.rpartition("-")[2]
    is_key = "-" in zone and len(last) >= LEAST_LETTERS and any(map(str.isdigit, last))
    return last if is_key else None


def _lies_in(zone: str, outer: str) -> bool:
    return zone == outer or zone.startswith(f"{outer}-")
