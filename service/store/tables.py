"""Every table of the store, whichever module describes it."""

from __future__ import annotations

from gramwatt.service.store import (
    access,
    alerts,
    intensity,
    journal,
    models,
    months,
    people,
    serving,
)
from gramwatt.service.store.base import POSTGRESQL, Base

MODULES = (
    *(access, alerts, intensity, journal, models, months, people),
    serving,
)
"""Modules with tables."""
METADATA = Base.metadata
for _table in METADATA.tables.values():
    for _index in _table.indexes:
        for _name, _option in _index.info.get(POSTGRESQL, {}).items():
            _index.dialect_options[POSTGRESQL][_name] = _option
