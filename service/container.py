"""The service as one object: settings and store, passed to the use cases."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from gramwatt.collectors.common.catalogs import read_catalog
from gramwatt.service.config import ServiceConfig
from gramwatt.service.store.database import Store
from gramwatt.service.store.timestamps import to_us

if TYPE_CHECKING:
    from gramwatt.sci.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Service:
    """What every use case needs."""

    config: ServiceConfig
    store: Store

    @classmethod
    def open(cls, config: ServiceConfig) -> Service:
        """The service of these settings; it connects when first used.

        Raises OverlayError when the overlay cannot be used.
        """
        if config.overlay is not None:
            read_catalog(config.overlay)
        return cls(config, Store(config.database_url))

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
