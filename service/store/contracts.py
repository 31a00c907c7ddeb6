"""The ledger of contracts: instruments and residual mixes, as they were imported."""

from __future__ import annotations

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.orm import Mapped

from gramwatt.service.store.models import AutoKey, Base, Figure, Label, Timestamp, Word


class LedgerEntry(Base):
    """An instrument, or the residual mix that an issuer publishes for a zone; never changed.

    `vintage` is YYYY, YYYY-MM or YYYY-MM-DDTHH, `year` its year. `reference` is the cancellation id
    of an instrument, and the zone of a residual mix, whose `volume_kwh` is 0.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        UniqueConstraint("kind", "issuer", "reference", "vintage"),
        Index(None, "year", "id"),
    )

    id: Mapped[AutoKey]
    kind: Mapped[Word]
    zone: Mapped[Word]
    vintage: Mapped[Word]
    year: Mapped[int]
    issuer: Mapped[Label]
    reference: Mapped[Label]
    volume_kwh: Mapped[Figure]
    factor_g_per_kwh: Mapped[Figure]
    imported_us: Mapped[Timestamp]
    imported_by: Mapped[Label]
