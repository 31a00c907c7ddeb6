"""The service as one object: settings and store, passed to the use cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import TYPE_CHECKING

from gramwatt.collectors.settings.catalogs import read_catalog
from gramwatt.sci.figures.days import month_span
from gramwatt.sci.figures.errors import LookupFailed
from gramwatt.service.config import ConfigError, ServiceConfig
from gramwatt.service.scopes import ADMIN, INCLUDED
from gramwatt.service.store.columns import to_us
from gramwatt.service.store.database import Store

if TYPE_CHECKING:
    from gramwatt.sci.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a key's name or a user, from which address, and what they may do and see.

    `projects` are all that the caller sees and writes; None for every project. `credential` is what
    they showed: the visible part of a key, of a rotated one that of the first, or a session's id;
    empty for a process of this machine. A later key may have the same name and other projects, so
    what is kept for a caller is kept by `identity`.
    """

    name: str
    address: str = "local"
    scope: str = ADMIN
    projects: frozenset[str] | None = None
    credential: str = ""

    @property
    def identity(self) -> str:
        """What tells the caller from every other, also from a later one of the same name."""
        return self.credential or self.name

    def may(self, scope: str) -> bool:
        """Return whether the caller may do what the scope allows; an admin may do everything."""
        return self.scope in (scope, ADMIN) or scope in INCLUDED.get(self.scope, ())


THIS_MACHINE = Caller("gramwatt")
"""The process itself: periodic work, and commands on a store that file permissions protect."""


@dataclass(frozen=True, slots=True)
class Service:
    """What every use case needs: settings, the store as far as the caller sees it, the caller.

    A serving process has `score_later`: it takes the key of a job to score soon. Without it, jobs
    are scored where they end. `stopping` is set when its process was asked to end: who waits for
    something answers at once.
    """

    config: ServiceConfig
    store: Store
    caller: Caller = THIS_MACHINE
    score_later: Callable[[int], None] | None = None
    stopping: Event = field(default_factory=Event)

    def for_caller(self, caller: Caller) -> Service:
        """Return the service as the caller sees it: other projects do not exist."""
        return replace(self, store=self.store.of_projects(caller.projects), caller=caller)

    def for_every_project(self) -> Service:
        """Return the service without the restriction, for a use case that applies it by itself."""
        return replace(self, store=self.store.of_projects(None))

    @classmethod
    def open(cls, config: ServiceConfig) -> Service:
        """Return the service of these settings; it connects when first used.

        Raises OverlayError when the overlay cannot be used, ConfigError for a market-based factor
        of an unknown zone, and StoreFileError for the file of a store.
        """
        if config.overlay is not None:
            read_catalog(config.overlay)
        for zone in config.reports.market_factors:
            try:
                read_catalog(config.overlay).zone(zone)
            except LookupFailed as error:
                raise ConfigError(f"GRAMWATT_MARKET_FACTORS: {error.message}") from None
        store = Store(config.database_url)
        store.require_file()
        return cls(config, store)

    @property
    def catalog(self) -> Catalog:
        """The catalog with the overlay; raises OverlayError."""
        return read_catalog(self.config.overlay)

    def now(self) -> datetime:
        """Return the time by the service's clock, UTC."""
        return self.config.clock()

    def month_now(self) -> str:
        """Return the present month in the organisation's time zone, YYYY-MM."""
        return self.month_of(self.now())

    def month_of(self, moment: datetime) -> str:
        """Return the month of a moment in the organisation's time zone, YYYY-MM."""
        return f"{moment.astimezone(self.config.zone):%Y-%m}"

    def month_span_us(self, month: str) -> tuple[int, int]:
        """Start and end of a month, YYYY-MM, in the organisation's time zone [us since 1970]."""
        start, end = month_span(month, self.config.zone)
        return to_us(start), to_us(end)

    def now_us(self) -> int:
        """Return the time by the service's clock [us since 1970]."""
        return to_us(self.now())
