"""Every table of the store, whichever module describes it."""

from __future__ import annotations

from gramwatt.service.store import (
    access,
    budgets,
    factors,
    intensity,
)
from gramwatt.service.store.models import Base

MODULES = (access, budgets, factors, intensity)
"""Modules with tables beside those of `models`."""
METADATA = Base.metadata
