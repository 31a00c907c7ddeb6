"""Since when a server listens: only that time counts when a job is silent.

While no server listens nothing can arrive, so a job that could not be heard is not lost. Servers
say in one row of the store that they listen; downtime is not silence.
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.config import ServiceConfig
from gramwatt.service.container import Service
from gramwatt.service.store.models import Listening
from gramwatt.service.store.timestamps import span_us
from gramwatt.service.store.upserts import upsert

_ROW = 1
_LISTENING = sa.select(Listening).where(Listening.id == _ROW)
_NOW_US = sa.bindparam("now_us", type_=sa.BigInteger)
_BEAT = (
    sa.update(Listening.__table__)  # type: ignore[arg-type]  # a plain table
    .where(Listening.__table__.c.id == _ROW)
    .values(
        since_us=sa.case(
            (Listening.beat_us < sa.bindparam("broken_us"), _NOW_US), else_=Listening.since_us
        ),
        beat_us=sa.case((Listening.beat_us < _NOW_US, _NOW_US), else_=Listening.beat_us),
    )
)


def beat_period(config: ServiceConfig) -> timedelta:
    """Return how often a server says that it listens: every 10 s, sooner for a short
    `silent_after`.
    """
    return min(timedelta(seconds=10), config.silent_after / 6)


def beat(service: Service) -> None:
    """Record that a server listens now; after two periods without a beat, that it does anew."""
    now_us = service.now_us()
    broken_us = now_us - 2 * span_us(beat_period(service.config))
    with service.store.write() as session:
        times = {"now_us": now_us, "broken_us": broken_us}
        if not session.connection().execute(_BEAT, times).rowcount:
            upsert(session, Listening, [{"id": _ROW, "since_us": now_us, "beat_us": now_us}])


def expect(service: Service) -> None:
    """Count no silence from before now unless a server has already said that it listened."""
    now_us = service.now_us()
    with service.store.write() as session:
        upsert(session, Listening, [{"id": _ROW, "since_us": now_us, "beat_us": now_us}])


def silent_limit_us(service: Service, session: Session) -> int | None:
    """Return a running job last heard at this time or before is silent [us]; None: no job can be.

    Silence is counted up to the last beat, from the start of the present listening at the earliest.
    A store that no server or scheduler ever used has no beats, and all time counts.
    """
    known = session.scalars(_LISTENING).one_or_none()
    now_us, silent_us = service.now_us(), span_us(service.config.silent_after)
    if known is None:
        return now_us - silent_us
    limit_us = min(now_us, known.beat_us) - silent_us
    return limit_us if known.since_us <= limit_us else None
