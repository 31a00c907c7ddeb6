"""Form EIA-930 of the US Energy Information Administration: hourly generation by fuel, by key.

Public domain, about a day late. Intensity is derived with our factors: generation within the
balancing authority, imports left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from gramwatt.sci.grid.fuels import STORAGE
from gramwatt.service.providers.base import (
    DERIVED,
    AnswerError,
    Generation,
    Kind,
    Values,
    expect,
    in_steps,
    number,
    readings,
)
from gramwatt.service.providers.http import Provider

HOUR, STEP_S = timedelta(hours=1), 3600
ROWS_MOST = 5000
"""As many as the API gives at once."""
FUELS: Mapping[str, str] = {
    "COL": "coal",
    "NG": "gas",
    "OIL": "oil",
    "NUC": "nuclear",
    "WAT": "hydro",
    "WND": "wind",
    "WNB": "wind",
    "SUN": "solar",
    "SNB": "solar",
    "GEO": "geothermal",
    "OTH": "other",
    "UNK": "other",
    **dict.fromkeys(("PS", "BAT", "UES", "OES"), STORAGE),
}


class Eia(Provider):
    """Balancing authorities of the United States, from 2018 on."""

    name = "eia"
    licence = "public domain"
    address = "https://api.eia.gov"
    longest = timedelta(days=10)

    def kinds(self, zone: str) -> Sequence[Kind]:
        """Derived from generation."""
        return (DERIVED,) if _respondent(zone) else ()

    def history(self, zone: str, kind: Kind, start: datetime, end: datetime) -> Values:
        """Hours; the API names each by its end."""
        respondent = _respondent(zone)
        query = {
            "frequency": "hourly",
            "data[]": "value",
            "facets[respondent][]": respondent,
            "start": f"{start:%Y-%m-%dT%H}",
            "end": f"{end + HOUR:%Y-%m-%dT%H}",
            "length": str(ROWS_MOST),
            "api_key": self._key,
        }

        def parse(body: bytes) -> Values:
            rows = json.loads(body)["response"]
            if int(rows["total"]) > len(rows["data"]):
                raise AnswerError(f"{rows['total']} rows, and {len(rows['data'])} were sent")
            generation = Generation()
            for row in rows["data"]:
                expect("zone", row["respondent"], respondent)
                expect("unit", row["value-units"], "megawatthours")
                amount = number(row["value"])
                if amount is not None:
                    code = row["fueltype"]
                    generation.add(code, FUELS[code], _start(row["period"]), STEP_S, amount)
            return in_steps(readings(generation, kind.basis), STEP_S, start, end)

        return self._http.ask("v2/electricity/rto/fuel-type-data/data/", parse, query)


def _start(period: str) -> datetime:
    return datetime.strptime(period, "%Y-%m-%dT%H").replace(tzinfo=UTC) - HOUR


def _respondent(zone: str) -> str:
    """Return the balancing authority, which is the last part of the zone's key; empty for none."""
    parts = zone.split("-")
    return parts[2] if len(parts) == 3 and parts[0] == "US" and parts[1] != "AK" else ""
