"""The list of models, and the sums over all runs of one, from the rows they have in months."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.sci.figures.structs import decoder
from gramwatt.sci.month.columns import JOB_TERMS
from gramwatt.sci.month.documents import ModelDoc, TermsDoc
from gramwatt.sci.month.model_totals import (
    OTHER,
    Method,
    RunHead,
    Summing,
    totals_of_runs,
)
from gramwatt.sci.score.sci_for_ai import persona
from gramwatt.service.common.requests import cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.months import statements
from gramwatt.service.months.rows import from_session
from gramwatt.service.months.statements import selecting
from gramwatt.service.store.columns import text_from_us
from gramwatt.service.store.models import Job

RUNS_AT_ONCE = 2_000
"""The sums of at most so many runs are made while a page of jobs waits: half a second."""
KEPT_MOST = 256
"""Models whose sums a process keeps."""
_HEARD = 1_000_000_007
"""Times of arrival are added modulo this prime: sums of whole ones would not fit a column."""
_head = decoder(RunHead)
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
            cached = _kept.get(which)
        if cached is None or cached[0] != state:
            if not wait and state[0] > RUNS_AT_ONCE:
                return None
            cached = state, _summed(service, session, model_id, unscored=state[0] - state[1])
    with _lock:
        _kept[which] = cached
        _kept.move_to_end(which)
        if len(_kept) > KEPT_MOST:
            _kept.popitem(last=False)
    return cached[1]


def _state(session: Session, model_id: str) -> tuple[int, ...]:
    """Runs and scored runs of a model, and numbers that differ once any scored run does."""
    scored = _is_scored()
    columns = (Job.id, Job.version, Job.scored_version, Job.revision)
    sums = [sa.func.sum(column).filter(scored) for column in (*columns, Job.heard_us % _HEARD)]
    statement = sa.select(sa.func.count(), sa.func.count().filter(scored), *sums)
    return tuple(session.execute(statement.where(Job.model_id == model_id)).one())


def _is_scored() -> sa.ColumnElement[bool]:
    return sa.and_(Job.state != "running", Job.revision > 0)


def _summed(service: Service, session: Session, model_id: str, *, unscored: int) -> ModelDoc:
    from gramwatt.service.months.groups import Groups, Methods  # lists without a model need none

    scored = sa.select(Job.head).where(Job.model_id == model_id, _is_scored())
    heads = [_head.decode(text) for text in session.scalars(scored)]
    values: dict[str, Any] = {"model": model_id}
    scope = "(month, job) IN (SELECT month, job FROM job_months WHERE model_id = :model)"
    if service.store.projects is not None:
        names = {f"project_{n}": name for n, name in enumerate(sorted(service.store.projects))}
        scope += f" AND project IN ({', '.join(f':{name}' for name in names)})"
        values |= names
    with service.for_every_project().store.read() as whole:
        select = selecting(from_session(whole), scope, values)
        methods = Methods(select)
        groups = Groups(f"model:{model_id}", select, methods, _rows_of_cell)
        of_job = {job_id: of for job_id, of in select(statements.METHOD_OF_JOB)}

    def method(run: RunHead) -> Method:
        row = methods.rows[of_job[run.job_id]]
        return row["intensity_signal"], row["intensity_basis"]

    def terms(runs: Sequence[RunHead]) -> TermsDoc:
        kinds = {run.kind for run in runs}
        if not runs:
            return TermsDoc(None, None, None, None)
        of_persona = ("persona", (persona(min(kinds)) or OTHER,))
        table, key = of_persona if len(kinds) > 1 else ("kind", tuple(kinds))
        group = groups.one(table, key)
        return TermsDoc(*(group.figure(term) for term in (*JOB_TERMS, "total_g")))

    return totals_of_runs(model_id, heads, Summing(terms, method), unscored=unscored)


def _rows_of_cell(cell: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield where runs count in the sums of a model, but those with a term that is not known."""
    if not cell["jobs_unknown"]:
        yield "persona", (cell["persona"],)
        yield "kind", (cell["kind"],)


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """One model: its id, its jobs, and when the newest started (RFC 3339)."""

    model_id: str
    jobs: int
    last_started_at: str


def models_page(
    service: Service, limit: int, cursor: str | None
) -> tuple[list[ModelSummary], str | None]:
    """Models by id, and the cursor of the next page; raises CursorError."""
    after = decode_cursor(cursor, str)[0] if cursor else ""
    statement = (
        sa.select(Job.model_id, sa.func.count(), sa.func.max(Job.started_us))
        .where(Job.model_id > after)
        .group_by(Job.model_id)
        .order_by(Job.model_id)
        .limit(limit + 1)
    )
    with service.store.read() as session:
        rows = session.execute(statement).all()
    shown, following = cut(rows, limit, lambda row: (row.model_id,))
    return [ModelSummary(name or "", jobs, text_from_us(us)) for name, jobs, us in shown], following
