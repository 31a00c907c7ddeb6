"""Pages of jobs, for the API and the command alike."""

from __future__ import annotations

from gramwatt.service.answers import JobsAnswer
from gramwatt.service.http.paging import cut, decode_cursor
from gramwatt.service.usecases.read import head_of, jobs_after
from gramwatt.service.wiring import Service


def jobs_page(
    service: Service,
    limit: int,
    cursor: str | None,
    *,
    project: str | None = None,
    state: str | None = None,
) -> JobsAnswer:
    """Jobs newest first; raises Problem for a cursor that is not one."""
    position = decode_cursor(cursor, int, int) if cursor else None
    with service.store.read() as session:
        rows = jobs_after(session, position, limit + 1, project=project, state=state)
    shown, following = cut(rows, limit, lambda job: (job.started_us, job.id))
    return {"jobs": [head_of(job) for job in shown], "next_cursor": following}
