"""The command `gramwatt`, also as `python -m gramwatt`: puts the parts together, lazily."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gramwatt.collectors.journal.sync import Store

COLLECTOR_COMMANDS = frozenset({"run", "sync", "config", "doctor"})
SERVICE_NEEDS = ("flask", "sqlalchemy")
"""Packages of the service extra by which its presence is known without importing it."""


def main() -> None:
    """Run the command line; exits with its code."""
    from gramwatt import __version__

    if sys.argv[1:2] in (["--version"], ["-V"]):
        print(f"gramwatt {__version__}")
        return
    from gramwatt.collectors.cli.app import build_app

    app = build_app(open_store)
    if sys.argv[1:2] == [] or sys.argv[1] not in COLLECTOR_COMMANDS:
        _add_others(app)
    app()


def open_store() -> Store | None:
    """The embedded store; None where the service extra is not installed."""
    if not has_service():
        return None
    from gramwatt.collectors.journal.sync import Store

    local = importlib.import_module("gramwatt.service.usecases.local_spool")
    return Store(take_in=local.ingest_home, document=local.document)


def has_service() -> bool:
    """Whether the service extra is installed."""
    return all(find_spec(name) is not None for name in SERVICE_NEEDS)


def _add_others(app: Any) -> None:
    # Not for `run` and `sync`: they must start fast, and need neither the catalog's tables on a
    # terminal nor the service.
    importlib.import_module("gramwatt.collectors.cli.catalog").add_catalog(app)
    importlib.import_module("gramwatt.collectors.cli.estimate").add_estimate(app)
    importlib.import_module("gramwatt.collectors.cli.suggest").add_suggest(app)
    if has_service():
        importlib.import_module("gramwatt.service.cli.app").add_commands(app)
        importlib.import_module("gramwatt.service.demo.command").add_demo(app)


if __name__ == "__main__":
    main()
