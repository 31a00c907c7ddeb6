"""Score a job: a new revision when it has ended, a passing figure while it runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.base.document import DayDoc, JobDoc, JobHead
from gramwatt.sci.base.errors import GramwattError
from gramwatt.sci.base.quantity import QuantityDoc
from gramwatt.sci.journal.records import AnyRecord
from gramwatt.service.container import Service
from gramwatt.service.store.document_upgrade import complete_job
from gramwatt.service.store.models import Day, Job, Provisional, Score
from gramwatt.service.usecases.journal import records_of

_HEAD_FIELDS = tuple(JobHead.__annotations__)
_log = logging.getLogger("gramwatt.service")

OVER_TIME = ("series", "steps")
"""What is long in a document and read only by the job's own report and exports."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A job's records as of one version of it."""

    records: list[AnyRecord]
    version: int
    revision: int


def score_when_closed(service: Service, key: int, reason: str = "ended") -> bool:
    """Score the job if it has ended and its newest lines are not scored; True when it did.

    A job that cannot be scored is logged and left: its lines are safe, and a question for its
    report says why.
    """
    with service.store.read() as session:
        job = session.get_one(Job, key)
        if job.state == "running" or job.scored_version == job.version:
            return False
        job_id = job.job_id
    try:
        score_job(service, key, reason if job.revision == 0 else "late-records")
    except GramwattError as error:
        _log.warning("job %s cannot be scored: %s", job_id, error.message)
        return False
    return True


def score_job(service: Service, key: int, reason: str, *, force: bool = False) -> None:
    """Store a new revision; raises ScoreError when the records make none.

    Scoring runs outside the transaction. If lines arrived or another process scored meanwhile,
    it starts over, or leaves it at that process's revision.
    """
    while True:
        with service.store.read() as session:
            job = session.get_one(Job, key)
            if job.scored_version == job.version and not force:
                return
            seen = _Snapshot(records_of(session, job), job.version, job.revision)
        document = service.scorer.score(seen.records, seen.revision + 1)
        if _keep(service, key, seen, document, reason):
            return


def score_provisionally(service: Service, key: int) -> None:
    """Bring the passing score of a running job up to date, at most as often as is configured."""
    now_us = service.now_us()
    oldest_us = now_us - int(service.config.provisional_every.total_seconds() * 1e6)
    with service.store.read() as session:
        job = session.get_one(Job, key)
        known = session.get(Provisional, key)
        if known and (known.version == job.version or known.made_us > oldest_us):
            return
        records, version, revision = records_of(session, job), job.version, job.revision
    document = service.scorer.score(records, revision + 1)
    with service.store.write() as session:
        job = session.scalars(sa.select(Job).where(Job.id == key).with_for_update()).one()
        if job.state != "running":
            return
        doc, series = split(document)
        session.merge(Provisional(job=key, version=version, made_us=now_us, doc=doc, series=series))
        _show(job, document)


def split(document: JobDoc) -> tuple[str, str]:
    """The document without what changes over time, and that, as JSON."""
    rest = {name: value for name, value in document.items() if name not in OVER_TIME}
    return _text(rest), _text({"series": document["series"], "steps": document["steps"]})


def whole_document(text: str, series: str | None = None) -> JobDoc:
    """The document that `split` took apart; empty over time without the second part."""
    return complete_job({**json.loads(text), **json.loads(series or "{}")})


def _keep(service: Service, key: int, seen: _Snapshot, document: JobDoc, reason: str) -> bool:
    with service.store.write() as session:
        job = session.scalars(sa.select(Job).where(Job.id == key).with_for_update()).one()
        if (job.version, job.revision) != (seen.version, seen.revision):
            return False
        doc, series = split(document)
        session.add(
            Score(
                job=key,
                revision=document["revision"],
                made_us=service.now_us(),
                reason=reason,
                engine_version=document["method"]["engine_version"],
                catalog_version=document["method"]["catalog_version"],
                conformance=document["conformance"],
                doc=doc,
                series=series,
            )
        )
        job.revision, job.scored_version = document["revision"], seen.version
        _show(job, document)
        session.execute(sa.delete(Provisional).where(Provisional.job == key))
        _roll_up(session, key, document["days"])
    return True


def _show(job: Job, document: JobDoc) -> None:
    """Put the head of the document where lists read it."""
    head = {name: value for name, value in document.items() if name in _HEAD_FIELDS}
    job.head = _text(head)
    job.grade = document["data_quality"]["grade"]
    job.notices = len(document["notices"])


def _roll_up(session: Session, key: int, days: Iterable[DayDoc]) -> None:
    session.execute(sa.delete(Day).where(Day.job == key))
    for day in days:
        session.add(
            Day(
                job=key,
                day=day["day"],
                counts=_text(day["counts"]),
                **_ends("energy_kwh", day["energy_kwh"]),
                **_ends("operational_g", day["operational_g"]),
                **_ends("embodied_g", day["embodied_g"]),
            )
        )


def _ends(name: str, figure: QuantityDoc | None) -> dict[str, float | None]:
    if figure is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: figure["value"], f"{name}_low": figure["low"], f"{name}_high": figure["high"]}


def _text(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
