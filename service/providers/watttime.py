"""WattTime API v3: marginal and average emissions of US and other grids, by subscription.

Both are direct, so no score uses them: they are kept apart, and shown beside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache

from gramwatt.sci.base.csv_data import rows
from gramwatt.sci.base.units import g_per_kwh_from_lb_per_mwh
from gramwatt.sci.grid.intensity import Quality
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

SIGNALS = {"marginal": "co2_moer", "average": "co2_aoer"}
UNITS = "lbs_co2_per_mwh"


class WattTime:
    """The regions of an account; `names` are those of zones that the catalog does not map."""

    name, also = "watttime", True
    licence = "by contract with WattTime"
    longest = timedelta(days=30)

    def __init__(self, account: Account, names: Mapping[str, str]) -> None:
        self._http = Http(account.url or "https://api.watttime.org")
        self._login, self._names = (account.user, account.key), names
        self._token = ""

    def kinds(self, zone: str) -> Sequence[Kind]:
        """Marginal, and average."""
        if self._region(zone) is None:
            return ()
        return Kind("marginal", "direct", "production"), Kind("average", "direct", "production")

    def history(self, zone: str, kind: Kind, start: datetime, end: datetime) -> Values:
        """Values in steps of 5 minutes."""
        return self._ask("historical", zone, kind, (start, end), "measured")

    def forecast(self, zone: str, kind: Kind, now: datetime) -> Values | None:
        """Return the next 24 h."""
        return self._ask("forecast", zone, kind, (now, now + timedelta(hours=24)), "forecast")

    def _region(self, zone: str) -> str | None:
        return self._names.get(zone) or _regions().get(zone)

    def _ask(
        self, path: str, zone: str, kind: Kind, span: tuple[datetime, datetime], quality: Quality
    ) -> Values:
        region, signal = self._region(zone) or "", SIGNALS[kind.signal]
        query = {"region": region, "signal_type": signal}
        if quality == "forecast":
            query["horizon_hours"] = "24"
        else:
            start, end = (f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in span)
            query |= {"start": start, "end": end}

        def parse(body: bytes) -> Values:
            answer = json.loads(body)
            meta = answer["meta"]
            expect("region", meta["region"], region)
            expect("signal", meta["signal_type"], signal)
            expect("unit", meta["units"], UNITS)
            readings = [
                Reading(moment(row["point_time"]), _g_per_kwh(row["value"]), quality)
                for row in answer["data"]
            ]
            return in_steps(readings, int(meta["data_point_period_seconds"]), *span)

        return self._http.ask(f"v3/{path}", parse, query, self._bearer())

    def _bearer(self) -> dict[str, str]:
        """Return one login for each use of this object; its token lasts 30 minutes."""
        if not self._token:
            self._token = self._http.ask("login", _token, auth=self._login)
        return {"Authorization": f"Bearer {self._token}"}


def _token(body: bytes) -> str:
    token = json.loads(body)["token"]
    if not isinstance(token, str) or not token:
        raise AnswerError("the answer to the login has no token")
    return token


def _g_per_kwh(value: object) -> float | None:
    pounds = number(value)
    return None if pounds is None else g_per_kwh_from_lb_per_mwh(pounds)


@cache
def _regions() -> Mapping[str, str]:
    """WattTime's region of each zone for which the catalog's cloud regions agree on one."""
    found: dict[str, set[str]] = {}
    for row in rows("regions.csv"):
        if name := row.optional("watttime_region"):
            found.setdefault(row.text("zone"), set()).add(name)
    return {zone: names.pop() for zone, names in found.items() if len(names) == 1}
