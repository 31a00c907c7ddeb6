"""Which projects and people were erased: digests of their names, by which they are known again."""

from __future__ import annotations

import hashlib

from sqlalchemy.orm import Session

from gramwatt.service.common.errors import DeletedProjectError
from gramwatt.service.store.access import Erasure
from gramwatt.service.store.timestamps import text_from_us

PROJECT, PERSON = "project", "person"
"""Kinds of erasures."""
DELETED_PROJECT = "deleted project"
"""What stands for the project in rows that stay when it is deleted."""


def digest_of(name: str) -> str:
    """Return what is kept of an erased name: its SHA-256 in hexadecimal digits."""
    return hashlib.sha256(name.encode()).hexdigest()


def require_not_erased(session: Session, project: str) -> None:
    """Raise DeletedProjectError for a project that was deleted: its name stays without jobs."""
    row = session.get(Erasure, (PROJECT, digest_of(project)))
    if row is not None:
        raise DeletedProjectError(project, text_from_us(row.erased_us), row.erased_by)
