"""Energi Data Service of Energinet: Denmark in 5 minutes, and its prognosis; no key.

Direct intensity only, so no score uses it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from gramwatt.sci.figures.document import Quality
from gramwatt.service.providers.base import Kind, Reading, Values, expect, in_steps, moment, number
from gramwatt.service.providers.http import Provider

STEP_S = 300
PUBLISHED = Kind("average", "direct", "consumption")
AREAS = {"DK-DK1": "DK1", "DK-DK2": "DK2"}
LOCAL_MOST = timedelta(hours=2)
"""Copenhagen's clocks are at most this far ahead of UTC, and the API takes their times."""
AHEAD = timedelta(hours=24)


class Energinet(Provider):
    """Western and eastern Denmark."""

    name = "energinet"
    licence = "CC-BY-4.0"
    address = "https://api.energidataservice.dk"
    longest = timedelta(days=7)

    def kinds(self, zone: str) -> Sequence[Kind]:
        """Published, with imports."""
        return (PUBLISHED,) if zone in AREAS else ()

    def history(self, zone: str, kind: Kind, start: datetime, end: datetime) -> Values:
        """Steps of 5 minutes."""
        return self._ask("CO2Emis", zone, start, end, "measured")

    def forecast(self, zone: str, kind: Kind, now: datetime) -> Values | None:
        """As far as the prognosis goes, at most a day."""
        return self._ask("CO2EmisProg", zone, now, now + AHEAD, "forecast")

    def _ask(
        self, dataset: str, zone: str, start: datetime, end: datetime, quality: Quality
    ) -> Values:
        area = AREAS[zone]

        def parse(body: bytes) -> Values:
            rows = []
            for row in json.loads(body)["records"]:
                expect("zone", row["PriceArea"], area)
                at, value = moment(row["Minutes5UTC"]), number(row["CO2Emission"])
                rows.append(Reading(at, value, quality))
            return in_steps(rows, STEP_S, start, end)

        # Local times without a zone: a night in autumn has an hour twice, so more is asked for.
        query = {
            "start": f"{start:%Y-%m-%dT%H:%M}",
            "end": f"{end + LOCAL_MOST:%Y-%m-%dT%H:%M}",
            "filter": json.dumps({"PriceArea": [area]}),
            "limit": "0",
        }
        return self._http.ask(f"dataset/{dataset}", parse, query)
