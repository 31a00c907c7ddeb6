"""What the route modules share: the caller and service of the request, models of its inputs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from threading import Condition
from typing import Annotated, Any, TypeVar

import msgspec
import sqlalchemy as sa
from flask import g, request
from msgspec import Meta, Struct
from sqlalchemy.exc import IntegrityError

from gramwatt.sci.records.records import ID_PATTERN
from gramwatt.service.api.access import whole_service
from gramwatt.service.api.problems import CODES, Problem, invalid
from gramwatt.service.common.errors import BusyError, ServiceError
from gramwatt.service.common.requests import Month, exactly
from gramwatt.service.container import Caller, Service
from gramwatt.service.store.columns import span_us, to_text
from gramwatt.service.store.serving import KeptAnswer

ABSENT = "unknown-job", "deleted-job"
"""Problems of a job that is not there."""


class JobPath(Struct, frozen=True, kw_only=True):
    """The job in an address."""

    job_id: Annotated[str, Meta(pattern=exactly(ID_PATTERN.pattern), description="The job's id.")]


class RevisionQuery(Struct, frozen=True, kw_only=True):
    """Which revision of the score; the newest by default."""

    revision: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None,
        Meta(description="An older score revision."),
    ] = None


class MonthPath(Struct, frozen=True, kw_only=True):
    """The month in an address."""

    month: Month


def caller() -> Caller:
    """Return who sent this request, what they may do, and the projects they see.

    Raises Problem on a route that needs no key, where nobody is known.
    """
    asking: Caller | None = g.get("caller")
    if asking is None:
        raise Problem("unauthorised", CODES["unauthorised"][1])
    return asking


def service() -> Service:
    """Return the service as the caller of this request sees it: other projects do not exist."""
    return whole_service().for_caller(caller())


WAITING_MOST, WAITING_OF_KEY_MOST = 3, 2
"""Requests that may wait in a process, and those of one key."""
WAIT_S = 60.0
"""How long a request waits at most [s]."""


class Queue:
    """Lets one request through at a time, in the order in which they came.

    But after one of a key comes another key's, if any waits, so that nobody waits for several.
    """

    def __init__(self) -> None:
        self._names: list[tuple[str, object]] = []  # the first has its turn, the others wait
        self._changed = Condition()

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Wait until those before have ended; raises BusyError where too many wait already."""
        entry = (name, object())
        with self._changed:
            waiting = [waiting_name for waiting_name, _ in self._names[1:]]
            full = len(waiting) >= WAITING_MOST or waiting.count(name) >= WAITING_OF_KEY_MOST
            if self._names and full:
                raise BusyError("reports, plans and comparisons of others come first; ask again")
            self._names.append(entry)
            if not self._changed.wait_for(lambda: self._names[0] is entry, WAIT_S):
                self._names.remove(entry)
                raise BusyError(f"no turn came within {WAIT_S:g} s; ask again")
        try:
            yield
        finally:
            with self._changed:
                self._names.remove(entry)
                other = next((n for n, (key, _) in enumerate(self._names) if key != name), 0)
                self._names[:0] = [self._names.pop(other)] if self._names else []
                self._changed.notify_all()


_queue = Queue()


def heavy() -> AbstractContextManager[None]:
    """Return the caller's turn in the queue of this process; entering it raises BusyError."""
    return _queue.turn(caller().name)


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
        stored = _claim(service, caller, key, request)
    except IntegrityError:  # the first one came in the same moment
        raise _being_answered(key) from None
    if stored is None:
        return _work(service, (caller, key), work)
    if stored.request != request:
        text = f"the idempotency key {key[:40]!r} was sent with another request before"
        raise ServiceError(text, "key-reused")
    if stored.answer is None:
        raise _being_answered(key)
    return json.loads(stored.answer)


def _claim(service: Service, caller: str, key: str, request: str) -> KeptAnswer | None:
    """Return the row of the key; None where there was none, and one without an answer is made."""
    now_us = service.now_us()
    expired = KeptAnswer.made_us <= now_us - span_us(KEPT)
    dead = sa.and_(KeptAnswer.answer.is_(None), KeptAnswer.made_us <= now_us - span_us(GIVEN_UP))
    ahead = KeptAnswer.made_us > now_us + span_us(GIVEN_UP)  # the clock was, and it would stay
    with service.store.write() as session:
        session.execute(sa.delete(KeptAnswer).where(sa.or_(expired, dead, ahead)))
        stored = session.get(KeptAnswer, (caller, key))
        if stored is None:
            session.add(KeptAnswer(caller=caller, key=key, made_us=now_us, request=request))
    return stored


def _work(service: Service, name: tuple[str, str], work: Callable[[], object]) -> object:
    of_caller = (KeptAnswer.caller == name[0], KeptAnswer.key == name[1])
    try:
        answer = work()
    except BaseException:
        with service.store.write() as session:
            session.execute(sa.delete(KeptAnswer).where(*of_caller))
        raise
    with service.store.write() as session:
        session.execute(sa.update(KeptAnswer).where(*of_caller).values(answer=to_text(answer)))
    return answer


def _being_answered(key: str) -> ServiceError:
    text = f"the first request of key {key[:40]!r} is being answered; ask again"
    return ServiceError(text, "conflict")


IDEMPOTENCY_KEY = "Idempotency-Key"
KEY_PATTERN = r"[!-~]{1,255}"
Answer = TypeVar("Answer")


def once(body: msgspec.Struct, work: Callable[[], Answer]) -> Answer:
    """Return what `work` answers, or answered to the first request of this caller with the same
    key.

    Raises Problem for a key that is none, was used for another request, or is being answered.
    """
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is None:
        return work()
    if not re.fullmatch(KEY_PATTERN, key):
        raise invalid(f"header.{IDEMPOTENCY_KEY}", "has 1 to 255 printable ASCII characters")
    request_text = f"{request.method} {request.full_path} ".encode() + msgspec.json.encode(body)
    digest = hashlib.sha256(request_text).hexdigest()
    answer: Any = answered_once(service().for_every_project(), caller().identity, key, digest, work)
    return answer  # type: ignore[no-any-return]
