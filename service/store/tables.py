"""Every table of the store, whichever module describes it."""

from __future__ import annotations

from gramwatt.service.store import access, intensity, months
from gramwatt.service.store.models import POSTGRESQL, Base

MODULES = (access, intensity, months)
"""Modules with tables beside those of `models`."""
METADATA = Base.metadata
for _table in METADATA.tables.values():
    for _index in _table.indexes:
        for _name, _option in _index.info.get(POSTGRESQL, {}).items():
            _index.dialect_options[POSTGRESQL][_name] = _option
