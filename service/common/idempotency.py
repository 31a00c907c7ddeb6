"""Answers kept by the key of their request, so that a request sent again does nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from gramwatt.service.common.errors import ServiceError
from gramwatt.service.container import Service
from gramwatt.service.store.documents import to_text
from gramwatt.service.store.models import KeptAnswer
from gramwatt.service.store.timestamps import span_us

KEPT = timedelta(days=1)
"""How long an answer is kept, as docs/api.md says."""
GIVEN_UP = timedelta(minutes=2)
"""After this a request without an answer counts as one whose process died."""


def answered_once(
    service: Service, caller: str, key: str, request: str, work: Callable[[], object]
) -> object:
    """Return what `work` answers; for a known key of the caller, what the first one answered.

    `request` identifies what is asked. A failed request is forgotten. Raises ServiceError
    `key-reused` for another request under the same key, `conflict` while the first is at work.
    """
    try:
        known = _claim(service, caller, key, request)
    except IntegrityError:  # the first one came in the same moment
        raise _being_answered(key) from None
    if known is None:
        return _work(service, (caller, key), work)
    if known.request != request:
        text = f"the idempotency key {key[:40]!r} was sent with another request before"
        raise ServiceError(text, "key-reused")
    if known.answer is None:
        raise _being_answered(key)
    return json.loads(known.answer)


def _claim(service: Service, caller: str, key: str, request: str) -> KeptAnswer | None:
    """Return the row of the key; None where there was none, and one without an answer is made."""
    now_us = service.now_us()
    expired = KeptAnswer.made_us <= now_us - span_us(KEPT)
    dead = sa.and_(KeptAnswer.answer.is_(None), KeptAnswer.made_us <= now_us - span_us(GIVEN_UP))
    ahead = KeptAnswer.made_us > now_us + span_us(GIVEN_UP)  # the clock was, and it would stay
    with service.store.write() as session:
        session.execute(sa.delete(KeptAnswer).where(sa.or_(expired, dead, ahead)))
        known = session.get(KeptAnswer, (caller, key))
        if known is None:
            session.add(KeptAnswer(caller=caller, key=key, made_us=now_us, request=request))
    return known


def _work(service: Service, name: tuple[str, str], work: Callable[[], object]) -> object:
    mine = (KeptAnswer.caller == name[0], KeptAnswer.key == name[1])
    try:
        answer = work()
    except BaseException:
        with service.store.write() as session:
            session.execute(sa.delete(KeptAnswer).where(*mine))
        raise
    with service.store.write() as session:
        session.execute(sa.update(KeptAnswer).where(*mine).values(answer=to_text(answer)))
    return answer


def _being_answered(key: str) -> ServiceError:
    text = f"the first request of key {key[:40]!r} is being answered; ask again"
    return ServiceError(text, "conflict")
