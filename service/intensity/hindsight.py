"""What a job would have emitted at other hours or in other zones, from the stored intensity."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

import sqlalchemy as sa

from gramwatt.sci.advice.documents import HindsightDoc
from gramwatt.sci.base.document import JobDoc, figure
from gramwatt.sci.base.errors import LookupFailed, QuantityError
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.journal.records import parse_time
from gramwatt.sci.planning.hindsight import (
    PAST,
    ActualIntensity,
    EnergySpan,
    LoadCurve,
    Waiting,
    best,
    elsewhere,
    saved_within,
    waited,
)
from gramwatt.service.container import Service
from gramwatt.service.intensity.lookup import StoredIntensity
from gramwatt.service.store.job_labels import ZONE
from gramwatt.service.store.models import Job, JobLabel

PAUSED = "paused"
"""The name of the windows of a paused job (`gramwatt run --pause-above`)."""
LONGEST = timedelta(days=31)
"""Jobs that are looked at; a longer one has no better hour."""
ZONES_MOST = 20
SLACK_H = 24
"""How long a job is taken to be able to wait, as suggestions take it [h]."""


def hindsight(service: Service, document: JobDoc) -> HindsightDoc | None:
    """Return what a scored job would have emitted otherwise; None without one zone or a score."""
    parts = parts_of(document)
    zones = document["method"]["zones"]
    operational = figure(document, "operational_g")
    if not parts or len(zones) != 1 or operational is None:
        return None
    start, end = parts[0].start, parts[-1].end
    if end - start > LONGEST:
        return None
    lookup, run = StoredIntensity(service), LoadCurve.of(parts)
    try:
        waiting = _waiting(document)
        until = min(waiting and waiting.deadline or end, end + PAST, service.now())
        here = ActualIntensity.of(lookup.points(zones[0], start - PAST, max(end, until)))
        rest = [
            elsewhere(here, ActualIntensity.of(lookup.points(zone, start, end)), run, operational)
            for zone in _zones(service, document["project"])
            if zone != zones[0]
        ]
        return {
            "zone": zones[0],
            "waited": waited(here, parts, waiting, operational) if waiting else None,
            "best": best(here, run, operational),
            "zones": sorted(rest, key=lambda row: row["ratio"]["value"]),
        }
    except (LookupFailed, QuantityError):  # a zone of another catalog; an intensity of zero
        return None


def saved_by_waiting(service: Service, document: JobDoc) -> Quantity | None:
    """Return what the best start within SLACK_H would have saved a scored job [gCO2e].

    None without one zone, a score, or hours that are known.
    """
    parts, zones = parts_of(document), document["method"]["zones"]
    operational = figure(document, "operational_g")
    if not parts or len(zones) != 1 or operational is None:
        return None
    start, end = parts[0].start, parts[-1].end
    if end - start > LONGEST:
        return None
    until = min(end + timedelta(hours=SLACK_H), service.now())
    try:
        points = StoredIntensity(service).points(zones[0], start, max(end, until))
        here = ActualIntensity.of(points)
        return saved_within(here, LoadCurve.of(parts), operational, SLACK_H)
    except (LookupFailed, QuantityError):  # a zone of another catalog; an intensity of zero
        return None


def parts_of(document: JobDoc) -> list[EnergySpan]:
    """Return the job's energy over time, all devices together."""
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for row in document["series"]:
        sums[row["start"], row["end"]] += row["energy_j"]
    return [
        EnergySpan(parse_time(start), parse_time(end), joules)
        for (start, end), joules in sorted(sums.items())
        if joules > 0
    ]


def _waiting(document: JobDoc) -> Waiting | None:
    """Return what a job's tags and windows say of waiting and pauses; None for a job without."""
    tags, began = document["tags"], parse_time(document["started_at"])
    paused = [row for row in document["windows"] if row["name"] == PAUSED]
    if "waited_s" not in tags and not paused:
        return None
    return Waiting(
        began - timedelta(seconds=_number(tags.get("waited_s"))),
        began,
        _moment(tags.get("deadline")),
        [(parse_time(row["start"]), parse_time(row["end"])) for row in paused],
        sum(row["energy_j"]["value"] for row in paused if row["energy_j"]),
    )


def _number(text: str | None) -> float:
    """Seconds that a tag says; anybody may write tags."""
    try:
        return min(max(0.0, float(text or 0.0)), LONGEST.total_seconds())
    except ValueError:
        return 0.0


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _zones(service: Service, project: str) -> list[str]:
    """Zones in which jobs of the project have run: there it may run."""
    wanted = (
        sa.select(JobLabel.label)
        .join(Job, Job.id == JobLabel.job)
        .where(Job.project == project, JobLabel.label.startswith(f"{ZONE}:", autoescape=True))
        .distinct()
        .limit(ZONES_MOST)
    )
    with service.store.read() as session:
        return sorted(label.partition(":")[2] for label in session.scalars(wanted))
