"""When the intensity of a job's time is known better, and when its score is final.

A score with values that are not final is made again 1 h, 24 h and 7 days after the job's end, if a
provider of its zone publishes what scores use; then it is final, whatever is known.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.records.records import parse_time
from gramwatt.service.container import Service
from gramwatt.service.intensity.points import FINAL
from gramwatt.service.store.timestamps import to_us

STAGES = timedelta(0), timedelta(hours=1), timedelta(hours=24), timedelta(days=7)
"""After a job's end, the ages at which providers are asked about its time."""
LATE = timedelta(minutes=15)
"""How long a job that comes in after all of them waits for the answers."""


def when_better_known(service: Service, document: JobDoc, *, first: bool) -> int | None:
    """Return when the score of an ended job is to be made again [us]; None for a final one.

    `first` is true for the first score of a job, which may come in long after its end.
    """
    ended = document.ended_at
    shares = document.data_quality.intensity
    if ended is None or not set(shares) - set(FINAL):
        return None
    settings = service.config.intensity
    if not any(settings.chains.values()):
        return None
    from gramwatt.service.providers.chain import is_live  # loads an HTTP client

    zones = (service.catalog.zone(zone).zone for zone in document.method.zones)
    if not any(is_live(settings, zone) for zone in zones):
        return None
    now, end = service.now(), parse_time(ended)
    later = next_stage(end, now)
    if later is None and first:
        later = now + LATE
    return None if later is None else to_us(later)


def next_stage(end: datetime, now: datetime) -> datetime | None:
    """Return the next age after `now` at which providers are asked; None after the last."""
    return next((end + age for age in STAGES if end + age > now), None)


def last_stage(end: datetime, now: datetime) -> datetime | None:
    """Return the last age up to `now` at which providers are asked; None before the end."""
    return next((end + age for age in reversed(STAGES) if end + age <= now), None)
