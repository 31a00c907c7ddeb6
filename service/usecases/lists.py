"""Pages of jobs, for the API and the command alike."""

from __future__ import annotations

import sqlalchemy as sa

from gramwatt.sci.analysis.model_totals import lineage
from gramwatt.sci.base.document import ModelDoc
from gramwatt.service.api.paging import cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.store.models import Job, Score
from gramwatt.service.usecases.answers import JobsAnswer
from gramwatt.service.usecases.read import head_of, jobs_after
from gramwatt.service.usecases.score_job import whole_document


def jobs_page(service: Service, limit: int, cursor: str | None, **only: str | None) -> JobsAnswer:
    """Jobs newest first; raises Problem for a cursor that is not one.

    `only` may hold `project`, `state` and `model_id`. With a model, the answer has the sums over
    all its runs, whatever page, project or state is shown.
    """
    position = decode_cursor(cursor, int, int) if cursor else None
    with service.store.read() as session:
        rows = jobs_after(session, position, limit + 1, only=only)
    shown, following = cut(rows, limit, lambda job: (job.started_us, job.id))
    answer: JobsAnswer = {"jobs": [head_of(job) for job in shown], "next_cursor": following}
    model_id = only.get("model_id")
    if model_id is not None:
        answer["model"] = model_of(service, model_id)
    return answer


def model_of(service: Service, model_id: str) -> ModelDoc:
    """The sums over every run of a model, out of the newest revision of each."""
    with service.store.read() as session:
        runs = session.scalar(
            sa.select(sa.func.count()).select_from(Job).where(Job.model_id == model_id)
        )
        documents = session.scalars(
            sa.select(Score.doc)
            .join(Job, sa.and_(Job.id == Score.job, Job.revision == Score.revision))
            .where(Job.model_id == model_id, Job.state != "running")
        ).all()
    scored = [whole_document(text) for text in documents]
    return lineage(model_id, scored, unscored=(runs or 0) - len(scored))
