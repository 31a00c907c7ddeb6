"""Every table of the store, whichever module describes it."""

from __future__ import annotations

from gramwatt.service.store import (
    access,
    budgets,
    factors,
    intensity,
    months,
    people,
)
from gramwatt.service.store.models import Base

MODULES = (access, budgets, factors, intensity, months, people)
"""Modules with tables beside those of `models`."""
METADATA = Base.metadata
