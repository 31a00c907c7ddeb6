"""The state of the service itself: whether it can answer, what its store holds, and the settings
that hold, each with where it comes from and without secrets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from gramwatt.collectors.settings.config import plain_address, resolve
from gramwatt.sci.figures.formatting import all_digits
from gramwatt.sci.figures.structs import decode
from gramwatt.sci.figures.units import J_PER_KWH
from gramwatt.sci.month.documents import MonthTotals
from gramwatt.service.common.errors import NotReadyError
from gramwatt.service.common.requests import JOB_STATES
from gramwatt.service.config import MIB, ConfigError, from_environment, settings_of
from gramwatt.service.container import Service
from gramwatt.service.metrics import Measure
from gramwatt.service.store.migrate import is_current
from gramwatt.service.store.models import Job, is_pending
from gramwatt.service.store.months import ALL, MonthSum

BOUNDS: tuple[Literal["value", "low", "high"], ...] = ("value", "low", "high")
PROJECTS_MOST = 1000
"""Projects with a metric of their own."""


class _Sums(msgspec.Struct):
    """The fields of a month's sums that metrics show."""

    totals: MonthTotals


def require_ready(service: Service) -> None:
    """Raise NotReadyError unless the database can be reached, has this release's tables
    and takes writes.
    """
    try:
        current = is_current(service.store)
        writable = service.store.takes_writes()
    except SQLAlchemyError:
        raise NotReadyError("the database cannot be reached") from None
    if not current:
        raise NotReadyError("the database is not up to date; run: gramwatt admin db upgrade")
    if not writable:
        raise NotReadyError("the database is read-only")


def store_measures(service: Service) -> list[Measure]:
    """Return what the store says of itself, for metrics; only that it is away when it is."""
    up = Measure("gramwatt_database_up", "Whether the database answers.", (), {(): 1})
    try:
        with service.store.read() as session:
            return [up, *_measures(session, service.now_us(), service.month_now())]
    except SQLAlchemyError:
        return [up._replace(values={(): 0})]


def _measures(session: Session, now_us: int, month: str) -> Iterator[Measure]:
    states = sa.select(Job.state, sa.func.count()).group_by(Job.state)
    counted = {state: number for state, number in session.execute(states)}
    jobs: dict[tuple[str, ...], float] = {
        (state,): float(counted.get(state, 0)) for state in JOB_STATES
    }
    yield Measure("gramwatt_jobs", "Jobs by state.", ("state",), jobs)
    running = Job.state == "running"
    quietest = session.scalar(sa.select(sa.func.min(Job.heard_us)).where(running))
    yield Measure(
        "gramwatt_ingest_lag_seconds",
        "Time since the last line of the running job that has been quiet longest; 0 without any.",
        (),
        {(): 0.0 if quietest is None else max(0, now_us - quietest) / 1e6},
    )
    unscored = sa.select(sa.func.count()).where(is_pending(), ~running)
    yield Measure(
        "gramwatt_scoring_queue_jobs",
        "Ended jobs whose newest lines no score has yet.",
        (),
        {(): float(session.scalar(unscored) or 0)},
    )
    yield Measure(
        "gramwatt_project_month_co2e_grams",
        "CO2e of a project's scored jobs in the present month, as last summed; with its range.",
        ("project", "bound"),
        _projects(session, month),
    )
    yield Measure(
        "gramwatt_project_energy_joules",  # no counter: it falls when a job is deleted or moved
        "Energy of a project's jobs as they are scored now.",
        ("project",),
        _energy(session),
    )


def _energy(session: Session) -> dict[tuple[str, ...], float]:
    """Return the energy of all scored jobs by project [J]; the sum reads an index alone."""
    statement = (
        sa.select(Job.project, sa.func.sum(Job.energy_kwh))
        .where(Job.energy_kwh.is_not(None))
        .group_by(Job.project)
        .order_by(Job.project)
        .limit(PROJECTS_MOST)
    )
    return {
        (project,): float(energy_kwh or 0) * J_PER_KWH
        for project, energy_kwh in session.execute(statement)
    }


def _projects(session: Session, month: str) -> dict[tuple[str, ...], float]:
    """Return the stored sums of the month by project and end of the range; unknown ones are left
    out.
    """
    statement = sa.select(MonthSum.project, MonthSum.document).where(
        MonthSum.month == month, MonthSum.project != ALL, MonthSum.document.is_not(None)
    )
    energies: dict[tuple[str, ...], float] = {}
    for row in session.execute(statement.order_by(MonthSum.project).limit(PROJECTS_MOST)):
        total_g = decode(row.document, _Sums).totals.total_g
        if total_g is not None:
            for bound in BOUNDS:
                energies[row.project, bound] = getattr(total_g, bound)
    return energies


NOT_SET, HIDDEN = "not set", "set, hidden"
NOT_USED = "set, not used"
"""For a variable that has no effect without another, such as a key without its address."""


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A setting: its variable, what it is, its value as text, and where that comes from."""

    name: str
    what: str
    value: str
    origin: str


def effective_settings(
    service: Service, environ: Mapping[str, str] | None = None
) -> list[EffectiveSetting]:
    """Return every setting of the service; of a secret only whether it is set."""
    env = os.environ if environ is None else environ
    files = resolve(environ=env).origins
    try:
        usual = dict(settings_of(from_environment(env)))
    except ConfigError:  # the environment has changed since the start
        usual = {}
    rows = []
    for setting, value in settings_of(service.config):
        name = setting.variable
        text = HIDDEN if setting.secret and value else value_text(name, value)
        if env.get(name):
            origin = "environment"
            text = NOT_USED if text == NOT_SET else text
        elif setting not in usual or usual[setting] != value:
            origin = "argument"
        else:
            origin = files.get(name.removeprefix("GRAMWATT_").lower(), "default")
            text = NOT_SET if setting.secret else text  # another variable set it, as KEY_FILE does
        rows.append(EffectiveSetting(name, setting.text, text, origin))
    return rows


def value_text(variable: str, value: Any) -> str:
    """Return the value as its variable is written, without credentials in an address."""
    if variable == "GRAMWATT_RETENTION_DAYS":
        texts = {name: all_digits(days / timedelta(days=1)) for name, days in value.items()}
        words = (f"{quote(name)}={text}" if name else text for name, text in texts.items())
        return " ".join(words) or NOT_SET
    if not value:  # no setting may be 0
        return NOT_SET
    if variable == "GRAMWATT_DATABASE_URL":
        return sa.make_url(value).set(query={}).render_as_string(hide_password=True)
    if variable == "GRAMWATT_MAX_BODY_MIB":
        return f"{value / MIB:g}"
    if isinstance(value, timedelta):
        units = {"DAYS": timedelta(days=1), "HOURS": timedelta(hours=1)}
        unit = units.get(variable.rpartition("_")[2], timedelta(seconds=1))
        return f"{value / unit:g}"
    if variable == "GRAMWATT_MARKET_FACTORS":
        rows = (f"{zone}={all_digits(of.g_per_kwh)} {of.source}" for zone, of in value.items())
        return "; ".join(rows)
    if isinstance(value, Mapping):
        return "; ".join(_zone_text(zone, names) for zone, names in value.items())
    if isinstance(value, frozenset):
        return " ".join(sorted(value))
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}"
    return plain_address(value) if "://" in str(value) else str(value)


def _zone_text(zone: str, names: str | tuple[str, ...]) -> str:
    text = names if isinstance(names, str) else ",".join(names) or "off"
    return f"{zone}={text}" if zone else text
