"""When a pack was issued, and which one came before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gramwatt.service.container import Service
from gramwatt.service.months.sums.keeping import ALL
from gramwatt.service.store.packs import IssuedPack
from gramwatt.service.store.timestamps import text_from_us


@dataclass(frozen=True, slots=True)
class Issue:
    """A pack among those of its job, model or month; a known one is as it was issued first."""

    kind: str
    name: str
    project: str
    content: str
    before: str | None
    issued_us: int
    known: bool

    def doc(self) -> dict[str, Any]:
        """Return what the pack says of it."""
        return {"issued_at": text_from_us(self.issued_us), "pack_before": self.before}

    def keep(self, service: Service, sha256: str) -> None:
        """Note a new pack with the SHA-256 of its file."""
        if self.known:
            return
        row = IssuedPack(kind=self.kind, name=self.name, project=self.project)
        row.content, row.sha256 = self.content, sha256
        row.before, row.issued_us = self.before, self.issued_us
        with service.for_every_project().store.write() as session:
            session.add(row)


def issue(service: Service, kind: str, name: str, project: str | None, content: str) -> Issue:
    """Return the issue of a pack with this content: that of before, else one that follows."""
    of = (kind, name, project or ALL)
    wanted = sa.select(IssuedPack).where(
        IssuedPack.kind == of[0], IssuedPack.name == of[1], IssuedPack.project == of[2]
    )
    with service.for_every_project().store.read() as session:
        rows = session.scalars(wanted.order_by(IssuedPack.id.desc())).all()
        for row in rows:
            if row.content == content:
                return Issue(*of, content, row.before, row.issued_us, known=True)
        before = rows[0].sha256 if rows else None
    return Issue(*of, content, before, service.now_us(), known=False)
