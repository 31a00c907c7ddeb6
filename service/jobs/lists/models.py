"""The list of models: how many jobs each has, and when the newest of them started."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from gramwatt.service.common.cursors import cut, decode_cursor
from gramwatt.service.container import Service
from gramwatt.service.store.models import Job
from gramwatt.service.store.timestamps import text_from_us


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
    wanted = (
        sa.select(Job.model_id, sa.func.count(), sa.func.max(Job.started_us))
        .where(Job.model_id > after)
        .group_by(Job.model_id)
        .order_by(Job.model_id)
        .limit(limit + 1)
    )
    with service.store.read() as session:
        rows = session.execute(wanted).all()
    shown, following = cut(rows, limit, lambda row: (row.model_id,))
    return [ModelSummary(name or "", jobs, text_from_us(us)) for name, jobs, us in shown], following
