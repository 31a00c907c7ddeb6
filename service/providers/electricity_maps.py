"""Electricity Maps API v3: consumption-based, lifecycle, hourly.

The zone is always sent and compared with the answer's: without one the API would take the place of
the caller's address.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from gramwatt.sci.figures.document import Quality
from gramwatt.service.providers.base import Kind, Reading, Values, expect, in_steps, moment, number
from gramwatt.service.providers.http import Provider

STEP_S = 3600
PUBLISHED = Kind("average", "lifecycle", "consumption")
RECENT = timedelta(hours=23)
"""Within this every plan gives history; earlier hours need a paid one."""
AHEAD = timedelta(hours=72)


class ElectricityMaps(Provider):
    """All zones of Electricity Maps; estimated hours are marked as such by the API."""

    name = "electricity-maps"
    licence = "by contract with Electricity Maps"
    address = "https://api.electricitymaps.com"
    longest = timedelta(days=10)
    key_header = "auth-token"

    def kinds(self, zone: str) -> Sequence[Kind]:
        """Lifecycle, with imports."""
        return (PUBLISHED,)

    def history(self, zone: str, kind: Kind, start: datetime, end: datetime) -> Values:
        """Hours, of the last day from the list that every plan has."""
        recent = start >= datetime.now(UTC) - RECENT
        span = {} if recent else {"start": _text(start), "end": _text(end)}
        path, name = ("history", "history") if recent else ("past-range", "data")
        return self._http.ask(
            f"v3/carbon-intensity/{path}",
            lambda body: in_steps(_rows(json.loads(body), name, zone, kind), STEP_S, start, end),
            {**_query(zone, kind), **span},
        )

    def forecast(self, zone: str, kind: Kind, now: datetime) -> Values | None:
        """Up to 72 h, as far as the plan goes."""

        def parse(body: bytes) -> Values:
            answer = json.loads(body)
            rows = _rows(answer, "forecast", zone, kind)
            return in_steps(rows, STEP_S, now, now + AHEAD)

        return self._http.ask("v3/carbon-intensity/forecast", parse, _query(zone, kind))


def _query(zone: str, kind: Kind) -> dict[str, str]:
    return {
        "zone": zone,
        "emissionFactorType": kind.basis,
        "temporalGranularity": "hourly",
        "shouldUseFallbackCallerLookup": "false",
    }


def _text(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _rows(answer: Any, name: str, zone: str, kind: Kind) -> Iterator[Reading]:
    expect("zone", answer["zone"], zone)
    for row in answer[name]:
        expect("zone", row.get("zone", zone), zone)
        expect("basis", row.get("emissionFactorType", kind.basis), kind.basis)
        estimated: Quality = "estimated" if row.get("isEstimated") else "measured"
        quality: Quality = "forecast" if name == "forecast" else estimated
        yield Reading(moment(row["datetime"]), number(row["carbonIntensity"]), quality)
