"""The sums over all runs of a model, from what their months keep of each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, cast

import msgspec
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.analysis.documents import ModelDoc
from gramwatt.sci.analysis.model_totals import RunHead, Summing, totals_of_runs
from gramwatt.service.container import Service
from gramwatt.service.months.sums.part import PORTION, SUMMED, PartRow
from gramwatt.service.store.models import Job, JobMonth

RUNS_AT_ONCE = 2_000
"""The sums of at most so many runs are made while a page of jobs waits: a tenth of a second."""
KEPT_MOST = 256
"""Models whose sums a process keeps."""
_HEARD = 1_000_000_007
"""Times of arrival are added modulo this prime: sums of whole ones would not fit a column."""
_head = msgspec.json.Decoder(RunHead)
_kept: OrderedDict[Any, tuple[Any, ModelDoc]] = OrderedDict()
_lock = Lock()


def totals_of_model(service: Service, model_id: str, *, wait: bool = True) -> ModelDoc | None:
    """Return the sums over every run of a model, from the newest revision of each.

    The process keeps them until a run is added, removed, scored or changed. Without `wait`, None
    where they are still to be made and that takes long.
    """
    store = service.store
    with store.read() as session:
        # Who sees other projects has other sums.
        which = (store.engine, store.projects, model_id)
        state = _state(session, model_id)
        with _lock:
            known = _kept.get(which)
        if known is None or known[0] != state:
            if not wait and state[0] > RUNS_AT_ONCE:
                return None
            known = state, _summed(session, model_id, unscored=state[0] - state[1])
    with _lock:
        _kept[which] = known
        _kept.move_to_end(which)
        if len(_kept) > KEPT_MOST:
            _kept.popitem(last=False)
    return known[1]


def _state(session: Session, model_id: str) -> tuple[int, ...]:
    """Runs and scored runs of a model, and numbers that differ once any scored run does."""
    scored = _is_scored()
    columns = (Job.id, Job.version, Job.scored_version, Job.revision)
    sums = [sa.func.sum(one).filter(scored) for one in (*columns, Job.heard_us % _HEARD)]
    wanted = sa.select(sa.func.count(), sa.func.count().filter(scored), *sums)
    return tuple(session.execute(wanted.where(Job.model_id == model_id)).one())


def _is_scored() -> sa.ColumnElement[bool]:
    return sa.and_(Job.state != "running", Job.revision > 0)


def _summed(session: Session, model_id: str, *, unscored: int) -> ModelDoc:
    # Lists without a model, also those of a command, start without numpy.
    from gramwatt.service.months.sums.model import RunSums

    scored = sa.and_(Job.model_id == model_id, _is_scored())
    found = session.execute(sa.select(Job.id, Job.head).where(scored))
    heads = {key: _head.decode(text) for key, text in found}
    sums = RunSums(_parts(session, scored))
    summing = Summing(sums.terms, sums.method)
    return totals_of_runs(model_id, heads.values(), summing, unscored=unscored)


def _parts(session: Session, scored: sa.ColumnElement[bool]) -> Iterator[Sequence[PartRow]]:
    """Read the parts of the runs that are summed, in portions."""
    columns = (JobMonth.job, JobMonth.job_id, JobMonth.started_us, JobMonth.texts, JobMonth.numbers)
    kept = sa.select(*columns).join(Job, Job.id == JobMonth.job)
    for portion in session.execute(kept.where(scored, JobMonth.use == SUMMED)).partitions(PORTION):
        yield cast("Sequence[PartRow]", portion)
