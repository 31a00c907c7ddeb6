"""Whether a job was deleted: the record that stays keeps its lines from coming back."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.common.errors import DeletedJobError, UnknownJobError
from gramwatt.service.store.models import Deletion
from gramwatt.service.store.timestamps import text_from_us

_DELETION = sa.select(Deletion).where(Deletion.job_id == sa.bindparam("job_id"))
"""Made once: the first upload of every job asks it."""


def require_not_deleted(
    session: Session, job_id: str, projects: frozenset[str] | None = None
) -> None:
    """Raise DeletedJobError for a job that was deleted.

    With `projects`, UnknownJobError for one that was deleted from another project.
    """
    record = session.scalars(_DELETION, {"job_id": job_id}).one_or_none()
    if record is None:
        return
    if projects is not None and record.project not in projects:
        raise UnknownJobError(job_id, [])
    raise DeletedJobError(job_id, text_from_us(record.deleted_us), record.deleted_by)
