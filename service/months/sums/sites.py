"""What own and leased sites used in a month, as a whole and by hour: what Scope 2 is made of."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from gramwatt.sci.analysis.factors import KWH, FactorKey
from gramwatt.sci.analysis.scope_2 import Sites
from gramwatt.sci.base.units import S_PER_HOUR
from gramwatt.sci.score.method import CLOUD
from gramwatt.service.months.sums.accounts import Accounts
from gramwatt.service.months.sums.arrays import Parts, grouped
from gramwatt.service.months.sums.figures import Floats, Ints, by
from gramwatt.service.months.sums.totals import by_job


def sites(parts: Parts, accounts: Accounts, *, by_hour: bool) -> Sites:
    """Return energy with overhead and O of the jobs that ran on own and leased sites."""
    _, jobs, cell = grouped(parts, lambda of_job: of_job["boundary"] != CLOUD or None)
    if not len(jobs):
        return Sites(None, None, {})
    totals = by_job(parts, jobs, cell, 1, with_inputs=True)
    energy = accounts.facility(totals, 0, jobs)
    return Sites(energy, totals.operational_g.quantity(0), _hours(parts) if by_hour else {})


def _hours(parts: Parts) -> dict[str, dict[str, float]]:
    """Return energy x PUE [kWh] without a contract, by zone and hour (YYYY-MM-DDTHH, UTC)."""
    pue = np.zeros(len(parts.keys_of_quality))
    zone = np.full(len(parts.keys_of_quality), "", dtype=object)
    for number, (block, text) in enumerate(parts.keys_of_quality):
        if block == f"{KWH} by":
            key = FactorKey.from_text(text)
            if key.place != CLOUD and key.contract_g_per_kwh is None:
                pue[number], zone[number] = key.pue[0], key.zone
    rows, hours = parts.quality, parts.hours
    found = {}
    for name in sorted(set(zone) - {""}):
        mine = zone[rows.what] == name
        kwh = by(
            rows.job[mine].astype(np.int64),
            rows.amount[mine] * pue[rows.what[mine]],
            len(parts.keys),
        )
        numbers, place = np.unique(hours.what.astype(np.int64), return_inverse=True)
        by_hour = by(place, hours.amount * kwh[hours.job], len(numbers))
        found[name] = _named(numbers[by_hour > 0], by_hour[by_hour > 0])
    return found


def _named(hours: Ints, kwh: Floats) -> dict[str, float]:
    moments = (datetime.fromtimestamp(float(hour) * S_PER_HOUR, UTC) for hour in hours)
    return {f"{at:%Y-%m-%dT%H}": float(of) for at, of in zip(moments, kwh, strict=True)}
