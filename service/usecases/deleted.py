"""Whether a job was deleted: the record that stays keeps its lines from coming back."""

from __future__ import annotations

from sqlalchemy.orm import Session

from gramwatt.service.store.models import Deletion
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.usecases.errors import DeletedJobError


def require_not_deleted(session: Session, job_id: str) -> None:
    """Raise DeletedJobError for a job that was deleted."""
    record = session.get(Deletion, job_id)
    if record is not None:
        raise DeletedJobError(job_id, text_from_us(record.deleted_us), record.deleted_by)
