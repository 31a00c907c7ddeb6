"""The service as one object: settings, store and engine, handed to the use cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from gramwatt.sci.document import JobDoc
from gramwatt.sci.quantity import Quantity
from gramwatt.sci.records import AnyRecord
from gramwatt.service.config import ServiceConfig
from gramwatt.service.db import Store
from gramwatt.service.stamps import to_us


class Scorer(Protocol):
    """What turns a job's records into its document."""

    def score(self, records: Iterable[AnyRecord], revision: int) -> JobDoc:
        """The document of a job; raises ScoreError when its records make no score."""
        ...


@dataclass(frozen=True, slots=True)
class EngineScorer:
    """The engine with the packaged catalog and its annual intensity.

    `lifetime_years` is the declared life of the hardware [years], None for the catalog's.
    """

    lifetime_years: float | None = None

    def score(self, records: Iterable[AnyRecord], revision: int) -> JobDoc:
        """Merge and score; raises ScoreError when the records make no score."""
        from gramwatt.sci.annual import AnnualIntensity
        from gramwatt.sci.catalog import load_catalog
        from gramwatt.sci.merge import merge
        from gramwatt.sci.score import ScoreContext, score

        catalog = load_catalog()
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
        """The service of these settings; it connects when first used."""
        return cls(config, Store(config.database_url), EngineScorer(config.lifetime_years))

    def now(self) -> datetime:
        """The time by the service's clock, UTC."""
        return self.config.clock()

    def now_us(self) -> int:
        """The time by the service's clock [us since 1970]."""
        return to_us(self.now())
