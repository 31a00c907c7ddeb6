"""The scheduled backup: one file a day in a folder, of which the newest are kept."""

from __future__ import annotations

import re

from gramwatt.service.access import audit
from gramwatt.service.container import Service
from gramwatt.service.store import transfer

NAME = re.compile(r"gramwatt-\d{8}T\d{6}Z\.db")
"""Files that this task made, and may delete; no other file of the folder is touched."""


def back_up(service: Service) -> None:
    """Write a backup into `backup_dir`, if one is set, and delete all but the newest `backup_keep`.

    Raises OSError or TransferError, also for PostgreSQL; then no older backup is deleted.
    """
    folder = service.config.backup_dir
    if folder is None:
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"gramwatt-{service.now():%Y%m%dT%H%M%SZ}.db"
    transfer.backup(service.store, path)
    audit.log(service, "backup", str(path))
    made = sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))
    for path in made[: -service.config.backup_keep]:
        path.unlink()
