"""Everything that a score is computed from, as texts: so that it can be computed again elsewhere.

The inputs of a score are the job's journal, what people declared afterwards, the intensity of its
zone over its time, the declared hardware life, and the catalog. Annual intensity is a fact of the
catalog and is read from there again; only values over time are taken from the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any

from msgspec import MsgspecError, Struct, field, to_builtins
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import GramwattError, ScoreError
from gramwatt.sci.figures.structs import convert
from gramwatt.sci.grid.intensity import IntensityLookup, IntensityPoint
from gramwatt.sci.grid.zones import AnnualIntensity
from gramwatt.sci.records.corrections import Correction, corrected
from gramwatt.sci.records.merge import merge
from gramwatt.sci.records.records import AnyRecord, decode, encode, format_time
from gramwatt.sci.score.identify import annual_context
from gramwatt.sci.score.score import score

ANNUAL = ("annual", "world")
"""Qualities of points that the catalog gives."""


class InputsError(GramwattError, ValueError):
    """Texts that are not the inputs of a score."""

    code = "bad-inputs"


class IntensityQuery(Struct, frozen=True):
    """Points of intensity that the engine asked for: of a zone (None: the world) over a span."""

    zone: str | None
    start: datetime
    end: datetime
    points: tuple[IntensityPoint, ...]

    def bare(self) -> IntensityQuery:
        """Return this query without the effects of annual values, which are read again."""
        points = (
            replace(point, intensity=point.intensity.bare()) if point.quality in ANNUAL else point
            for point in self.points
        )
        return replace(self, points=tuple(points))


class ScoreInputs(Struct, frozen=True):
    """The inputs of one revision of a job's score; `records` as journaled, not yet corrected.

    `lifetime_years` is the configured EL [years], None for the catalog's, `zone` the time zone
    whose days the job is divided into. `provisional` says that better intensity is expected.
    """

    records: tuple[AnyRecord, ...]
    revision: int
    corrections: tuple[Correction, ...] = ()
    lifetime_years: float | None = None
    intensity: tuple[IntensityQuery, ...] = ()
    zone: tzinfo = UTC
    provisional: bool = False

    def score(self, catalog: Catalog) -> JobDoc:
        """Return the job's document out of these inputs; raises ScoreError."""
        return self.score_with(catalog, RecordedIntensity(self.intensity, AnnualIntensity(catalog)))

    def score_with(self, catalog: Catalog, intensity: IntensityLookup) -> JobDoc:
        """Return the job's document with intensity from a lookup; raises ScoreError."""
        context = annual_context(catalog, self.lifetime_years, self.revision)
        context = replace(
            context, intensity=intensity, zone=self.zone, corrections=self.corrections
        )
        document = score(merge(corrected(self.records, self.corrections)), context)
        document.provisional = document.provisional or self.provisional
        return document

    def journal(self) -> str:
        """Return the records as journal lines."""
        return "".join(f"{encode(record)}\n" for record in self.records)

    def to_doc(self) -> dict[str, Any]:
        """Return what is beside the journal, as JSON-ready data."""
        return {
            "revision": self.revision,
            "lifetime_years": self.lifetime_years,
            "time_zone": str(self.zone),
            "provisional": self.provisional,
            "corrections": to_builtins(self.corrections),
            "intensity": to_builtins([query.bare() for query in self.intensity]),
        }

    @classmethod
    def from_texts(
        cls,
        journal: Iterable[str | bytes],
        doc: Mapping[str, Any],
        time_zone: Callable[[str], tzinfo],
    ) -> ScoreInputs:
        """Return what the lines of `journal` and `to_doc` wrote; raises InputsError for anything
        else.

        `time_zone` gives the zone of a name, which needs data of the system.
        """
        try:
            return cls(
                records=tuple(map(decode, journal)),
                revision=doc["revision"],
                corrections=convert(doc["corrections"], tuple[Correction, ...]),
                lifetime_years=doc["lifetime_years"],
                intensity=convert(doc["intensity"], tuple[IntensityQuery, ...]),
                zone=UTC if doc["time_zone"] == str(UTC) else time_zone(doc["time_zone"]),
                provisional=doc.get("provisional", False) is True,
            )
        except GramwattError as error:
            raise InputsError(error.message) from None
        except (LookupError, TypeError, ValueError, AttributeError, OSError, MsgspecError) as error:
            missing = f"{error} is missing" if type(error) is KeyError else ""
            what = missing or "a value has another form"
            raise InputsError(f"not the inputs of a score: {what}") from None


class Recorder(Struct):
    """A lookup that keeps what it was asked for and what it answered."""

    lookup: IntensityLookup
    asked: list[IntensityQuery] = field(default_factory=list)

    def points(self, zone: str | None, start: datetime, end: datetime) -> Sequence[IntensityPoint]:
        """Return the points of the lookup behind it."""
        points = self.lookup.points(zone, start, end)
        self.asked.append(IntensityQuery(zone, start, end, tuple(points)))
        return points


class RecordedIntensity:
    """A lookup that answers what was answered before; annual values come from the catalog."""

    def __init__(self, asked: Iterable[IntensityQuery], annual: AnnualIntensity) -> None:
        self._asked = {(query.zone, query.start, query.end): query.points for query in asked}
        self._annual = annual

    def points(self, zone: str | None, start: datetime, end: datetime) -> Sequence[IntensityPoint]:
        """Return the points of that zone and span; raises ScoreError for any other."""
        recorded = self._asked.get((zone, start, end))
        if recorded is None:
            where = f"of zone {zone}" if zone else "of the world"
            span = f"{format_time(start)} to {format_time(end)}"
            raise ScoreError(f"the inputs hold no intensity {where} for {span}")
        return [new for point in recorded for new in self._renewed(zone, point)]

    def _renewed(self, zone: str | None, point: IntensityPoint) -> Sequence[IntensityPoint]:
        if point.quality in ANNUAL:
            return self._annual.points(zone, point.start, point.end)
        return [point]
