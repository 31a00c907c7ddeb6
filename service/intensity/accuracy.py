"""How the issued forecasts of a zone compare with what came: the providers' and ours."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypedDict

import sqlalchemy as sa

from gramwatt.sci.base.document import doc
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.grid.intensity import Basis, Signal
from gramwatt.sci.planning.issued import Accuracy, accuracy, is_worse
from gramwatt.sci.planning.outlook import outlook
from gramwatt.service.container import Service
from gramwatt.service.intensity.forecasts import (
    RECORD,
    IssuedDay,
    forecast_archive,
    issued_days,
)
from gramwatt.service.intensity.hours import hours_of
from gramwatt.service.intensity.plans import zone_data
from gramwatt.service.intensity.points import FINAL, OWN
from gramwatt.service.store.intensity import IntensitySeries
from gramwatt.service.store.timestamps import from_us


class ProviderRecord(TypedDict):
    """How one provider's forecasts of the next 24 h compare with what came.

    The figures are shares, the mean over `moments` forecasts with the range of eight in ten of
    them; null where none can be judged yet. `worse` says that plans by them proved worse than by
    ours, so that they are not used.
    """

    provider: str
    signal: str
    basis: str
    issued: str
    moments: int
    error: QuantityDoc | None
    bias: QuantityDoc | None
    rank: QuantityDoc | None
    regret: QuantityDoc | None
    coverage: QuantityDoc | None
    worse: bool


class ForecastsAnswer(TypedDict):
    """Issued forecasts of a zone compared with what came, over [start, end).

    `used` is the provider whose forecast plans use now, `gramwatt` for our own; null where only
    the annual value is known.
    """

    zone: str
    start: str
    end: str
    used: str | None
    forecasts: list[ProviderRecord]


def compare_forecasts(service: Service, zone: str, now: datetime) -> ForecastsAnswer:
    """Compare what was forecast with what came, by provider; raises LookupFailed."""
    annual = service.catalog.zone(zone)
    rows: list[ProviderRecord] = []
    for signal, basis in _kinds(service, annual.zone):
        truth = hours_of(service, annual.zone, now, signal, basis, FINAL)
        by_provider = issued_days(service, [annual.zone], signal, basis, now)[annual.zone]
        past = {name: forecast_archive(days, now) for name, days in by_provider.items()}
        for name, days in by_provider.items():
            found, worse = None, False
            if truth is not None:
                found = accuracy(past[name], truth, f"{name} for {annual.zone}")
                worse = name != OWN and OWN in past and is_worse(past[name], past[OWN], truth)
            rows.append(_record(name, (signal, basis), days, found, worse=worse))
    return {
        "zone": annual.zone,
        "start": f"{now - RECORD:%Y-%m-%dT%H:%M:%SZ}",
        "end": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "used": _used(service, zone, now),
        "forecasts": rows,
    }


def _used(service: Service, zone: str, now: datetime) -> str | None:
    data = zone_data(service, zone, now)
    found = outlook(data, now, now + timedelta(hours=1), 1.0)
    if found.issued is not None and data.issued is not None:
        return data.issued.provider
    return None if found.method == "annual" else OWN


def _record(
    name: str,
    kind: tuple[Signal, Basis],
    days: Sequence[IssuedDay],
    found: Accuracy | None,
    *,
    worse: bool,
) -> ProviderRecord:
    return {
        "provider": name,
        "signal": kind[0],
        "basis": kind[1],
        "issued": f"{from_us(days[-1].known_us):%Y-%m-%dT%H:%M:%SZ}",
        "moments": found.moments if found else 0,
        "error": doc(found.error if found else None),
        "bias": doc(found.bias if found else None),
        "rank": doc(found.rank if found else None),
        "regret": doc(found.regret if found else None),
        "coverage": doc(found.coverage if found else None),
        "worse": worse,
    }


def _kinds(service: Service, zone: str) -> list[tuple[Signal, Basis]]:
    """Signal and basis of the series of a zone, those of scores first."""
    wanted = (
        sa.select(IntensitySeries.signal, IntensitySeries.basis)
        .where(IntensitySeries.zone == zone)
        .distinct()
    )
    with service.store.read() as session:
        rows = session.execute(wanted).all()
    found: list[tuple[Signal, Basis]] = [(row[0], row[1]) for row in rows]  # type: ignore[misc]
    return sorted(found, key=lambda kind: (kind[0] != "average", kind[1] != "lifecycle"))
