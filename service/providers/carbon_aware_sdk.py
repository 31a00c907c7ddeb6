"""A Carbon Aware SDK of the Green Software Foundation that the organisation runs itself.

Its answers do not say whether they are marginal or average, so a setting does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from gramwatt.service.config import Account
from gramwatt.service.providers.base import (
    AnswerError,
    Kind,
    Reading,
    Values,
    expect,
    in_steps,
    moment,
    number,
)
from gramwatt.service.providers.http import Http

AHEAD = timedelta(hours=72)


class CarbonAwareSdk:
    """The zones that `locations` names as the SDK does."""

    name, also = "carbon-aware-sdk", True
    licence = "that of the source behind the SDK"
    longest = timedelta(days=7)

    def __init__(self, account: Account, locations: Mapping[str, str], kind: Kind) -> None:
        self._http = Http(account.url)
        self._locations, self._kind = locations, kind

    def kinds(self, zone: str) -> Sequence[Kind]:
        """Return what the setting says."""
        return (self._kind,) if zone in self._locations else ()

    def history(self, zone: str, kind: Kind, start: datetime, end: datetime) -> Values:
        """Ratings in steps as they come."""
        location = self._locations[zone]

        def parse(body: bytes) -> Values:
            rows = []
            for row in json.loads(body) or []:
                expect("location", row["location"], location)
                rows.append(Reading(moment(row["time"]), number(row["rating"]), "hourly"))
            return in_steps(rows, _step_s([row.start for row in rows]), start, end)

        times = {"time": f"{start:%Y-%m-%dT%H:%M:%SZ}", "toTime": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
        return self._http.ask("emissions/bylocation", parse, {"location": location, **times})

    def forecast(self, zone: str, kind: Kind, now: datetime) -> Values | None:
        """Return the newest forecast of the source behind it."""
        location = self._locations[zone]

        def parse(body: bytes) -> Values:
            (made,) = json.loads(body)
            expect("location", made["location"], location)
            rows = [
                Reading(moment(row["timestamp"]), number(row["value"]), "forecast")
                for row in made["forecastData"]
            ]
            return in_steps(rows, _step_s([row.start for row in rows]), now, now + AHEAD)

        return self._http.ask("emissions/forecasts/current", parse, {"location": location})


def _step_s(times: Sequence[datetime]) -> int:
    """Return the step of these times [s], an hour where there is one only; raises AnswerError."""
    ordered = sorted(set(times))
    gaps = [round((after - before).total_seconds()) for before, after in pairwise(ordered)]
    step_s = min(gaps, default=3600)
    if any(gap % step_s for gap in gaps):
        raise AnswerError("its steps differ in length")
    return step_s
