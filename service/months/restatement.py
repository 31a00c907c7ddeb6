"""The bridge from a kept report of a month to the present one, out of the scores of its jobs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.documents import MonthTotals
from gramwatt.sci.analysis.restatement import Bridge, Grams, Why, grams_in, why
from gramwatt.sci.analysis.trail import RestatementDoc
from gramwatt.sci.base.document import JobDoc
from gramwatt.service.container import Service
from gramwatt.service.months.register_row import register_row
from gramwatt.service.months.revisions import Kept
from gramwatt.service.store.models import Deletion, Job, JobMonth, Score
from gramwatt.service.store.timestamps import from_us

KEYS_AT_ONCE = 200
Ledger = Mapping[int, int]
"""The score revision of each job of a month that its sums hold, or that was excluded, by key."""


def ledger_of(session: Session, month: str, project: str | None) -> dict[int, int]:
    """Return the newest score of each job of a month, the jobs with the most carbon first."""
    wanted = sa.select(Job.id, Job.revision).join(JobMonth, JobMonth.job == Job.id)
    wanted = wanted.where(JobMonth.month == month)
    if project is not None:
        wanted = wanted.where(JobMonth.project == project)
    grams = sa.func.coalesce(Job.total_g, -1.0).desc()
    return {key: revision for key, revision in session.execute(wanted.order_by(grams, Job.id))}


def pack_ledger(ledger: Ledger) -> bytes:
    """Return a ledger as the store keeps it."""
    return zlib.compress(json.dumps(list(ledger.items())).encode())


def unpack_ledger(packed: bytes) -> dict[int, int]:
    """Return what `pack_ledger` packed."""
    return dict(json.loads(zlib.decompress(packed))) if packed else {}


def restatement(
    service: Service,
    session: Session,
    month: str,
    project: str | None,
    base: Kept,
    now: Ledger,
    totals: MonthTotals,
) -> RestatementDoc:
    """Return what changed a month from a kept report to its present totals, by cause."""
    old_g = msgspec.json.decode(base.doc)["totals"]["total_g"]
    new_g, before = totals["total_g"], unpack_ledger(base.jobs)
    values = [figure["value"] if figure else 0.0 for figure in (old_g, new_g)]
    bridge = Bridge()
    keys = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    for first in range(0, len(keys), KEYS_AT_ONCE):
        portion = keys[first : first + KEYS_AT_ONCE]
        for job_id, steps in _chains(session, portion, before, now):
            _add(service, bridge, job_id, steps, month, project)
        _add_deleted(service, session, bridge, portion, before, month, project)
    change = values[1] - values[0]
    return {
        "from_revision": base.revision,
        "old_g": old_g,
        "new_g": new_g,
        "change_g": change,
        "change_share": change / values[0] if values[0] else None,
        "steps": bridge.steps(change),
    }


_Scored = tuple[JobDoc | None, str, int]
"""A score, why and when [us] it was made; None before the first."""


def _chains(
    session: Session, keys: Sequence[int], before: Ledger, now: Ledger
) -> Iterator[tuple[str, list[_Scored]]]:
    """Yield the scores of each job from the one of the kept report on."""
    columns = (Score.job, Job.job_id, Score.revision, Score.reason, Score.made_us, Score.doc)
    wanted = sa.select(*columns).join(Job, Job.id == Score.job).where(Score.job.in_(keys))
    found: dict[int, tuple[str, list[_Scored]]] = {}
    for key, job_id, revision, reason, made_us, doc in session.execute(
        wanted.order_by(Score.job, Score.revision)
    ):
        first, last = before.get(key, 0), now.get(key)
        if revision < first or (last is not None and revision > last):
            continue
        _, chain = found.setdefault(key, (job_id, [] if first else [(None, "", 0)]))
        chain.append((msgspec.json.decode(doc), reason, made_us))
    yield from found.values()


def _add(
    service: Service,
    bridge: Bridge,
    job_id: str,
    chain: Sequence[_Scored],
    month: str,
    project: str | None,
) -> None:
    job, known = chain[0][0], Grams()
    if job is not None:
        known = grams_in(job, month, project)
    for after, reason, made_us in chain[1:]:
        assert after is not None  # only the first of a chain may be none
        grams = grams_in(after, month, project)
        bridge.add(why(job, after, reason), job_id, grams.less(known), _day(service, made_us))
        job, known = after, grams


def grams_of_months(documents: Mapping[int, JobDoc]) -> str:
    """Return what stays of a deleted job, as JSON: its carbon, and its row of the register, by
    score revision and month.
    """
    found: dict[int, dict[str, Any]] = {}
    for revision, job in documents.items():
        months = {day["day"][:7] for day in job["days"]}
        grams = {month: grams_in(job, month) for month in sorted(months)}
        rows = {month: register_row(job, month) for month in sorted(months)}
        found[revision] = {"project": job["project"], "grams": grams, "rows": rows}
    return json.dumps(found)


def _add_deleted(
    service: Service,
    session: Session,
    bridge: Bridge,
    keys: Sequence[int],
    before: Ledger,
    month: str,
    project: str | None,
) -> None:
    for row in session.scalars(sa.select(Deletion).where(Deletion.job.in_(keys))):
        kept = json.loads(row.scores).get(str(before.get(row.job or 0)))
        if kept is None or project not in (None, kept["project"]):
            continue
        known, day = Grams(*kept["grams"].get(month, ())), _day(service, row.deleted_us)
        of = Why("deleted", "deleted", row.reason, row.deleted_by, day)
        bridge.add(of, row.job_id, Grams().less(known), day)


def _day(service: Service, moment_us: int) -> str:
    """Return the day of a moment in the organisation's time zone."""
    return f"{from_us(moment_us).astimezone(service.config.zone):%Y-%m-%d}"
