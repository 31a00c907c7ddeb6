"""The service as one object: settings, store and engine, handed to the use cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from gramwatt.collectors.common.catalogs import read_catalog
from gramwatt.sci.base.document import JobDoc
from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Catalog
from gramwatt.sci.catalog.overlay import OverlayError
from gramwatt.sci.journal.records import AnyRecord
from gramwatt.service.config import ServiceConfig
from gramwatt.service.store.database import Store
from gramwatt.service.store.timestamps import to_us


class Scorer(Protocol):
    """What turns a job's records into its document."""

    def score(self, records: Iterable[AnyRecord], revision: int) -> JobDoc:
        """The document of a job; raises ScoreError when its records make no score."""
        ...


@dataclass(frozen=True, slots=True)
class EngineScorer:
    """The engine with the catalog and its annual intensity.

    `lifetime_years` is the declared life of the hardware [years], None for the catalog's; `overlay`
    the file of the user's own catalog entries.
    """

    lifetime_years: float | None = None
    overlay: Path | None = None

    def score(self, records: Iterable[AnyRecord], revision: int) -> JobDoc:
        """Merge and score; raises ScoreError when the records or the overlay make no score."""
        from gramwatt.sci.grid.zones import AnnualIntensity
        from gramwatt.sci.journal.merge import merge
        from gramwatt.sci.score.score import ScoreContext, score

        try:
            catalog = read_catalog(self.overlay)
        except OverlayError as error:
            raise ScoreError(error.message, code=error.code) from None
        context = ScoreContext(catalog, AnnualIntensity(catalog), revision=revision)
        if self.lifetime_years is not None:
            context = replace(context, lifetime=_declared_years(self.lifetime_years))
        return score(merge(records), context)


def _declared_years(years: float) -> Quantity:
    return Quantity.exact(years, "years", "declared", "hardware life declared in the configuration")


@dataclass(frozen=True, slots=True)
class Service:
    """What every use case needs."""

    config: ServiceConfig
    store: Store
    scorer: Scorer

    @classmethod
    def open(cls, config: ServiceConfig) -> Service:
        """The service of these settings; it connects when first used.

        Raises OverlayError when the overlay cannot be used.
        """
        if config.overlay is not None:
            read_catalog(config.overlay)
        scorer = EngineScorer(config.lifetime_years, config.overlay)
        return cls(config, Store(config.database_url), scorer)

    @property
    def catalog(self) -> Catalog:
        """The catalog with the overlay; raises OverlayError."""
        return read_catalog(self.config.overlay)

    def now(self) -> datetime:
        """The time by the service's clock, UTC."""
        return self.config.clock()

    def now_us(self) -> int:
        """The time by the service's clock [us since 1970]."""
        return to_us(self.now())
