"""What clocks show where a zone's grid is: people plan by them, and everything else is UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gramwatt.sci.figures.csv_data import Cell, Row, Source, column, rows


class ZoneTimeRow(Row, frozen=True, kw_only=True):
    """The time zone of a grid zone; zones whose key begins with it have it too."""

    files = ("zone_times.csv",)
    key = ("zone",)

    zone: Annotated[Cell, column("Zone key, the beginning of some, or ISO 3166-1 alpha-2")]
    timezone: Annotated[Cell, column("Name in the IANA Time Zone Database")]
    source: Source


def timezone_of(zone: str) -> ZoneInfo | None:
    """Return the time zone of a grid zone; None where it spans several, or the system has none."""
    parts = zone.split("-")
    beginnings = ("-".join(parts[:count]) for count in range(len(parts), 0, -1))
    name = next((_names()[key] for key in beginnings if key in _names()), None)
    try:
        return ZoneInfo(name) if name else None
    except ZoneInfoNotFoundError:
        return None


def city_of(timezone: ZoneInfo) -> str:
    """Return the city that a time zone is named after: Los Angeles."""
    return timezone.key.rsplit("/", 1)[-1].replace("_", " ")


def local_text(moment: datetime, zone: str) -> str:
    """Return a moment on the clocks of a zone: `10:00 in Los Angeles`; empty if not known."""
    timezone = timezone_of(zone)
    return f"{moment.astimezone(timezone):%H:%M} in {city_of(timezone)}" if timezone else ""


@cache
def _names() -> Mapping[str, str]:
    return {row.zone: row.timezone for row in rows(ZoneTimeRow)}
