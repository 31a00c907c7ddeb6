"""The embedded store: ingests the journals that closed meters left in this machine's spool.

Several processes may do this at once. Ingesting is idempotent, and a folder is deleted only when it
is closed and nothing in it is new. What needs the database or the engine is imported where it is
used: with nothing spooled, `gramwatt sync` ends without both.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gramwatt.collectors.spool import spool
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.collectors.spool.spool import SpoolFolder
from gramwatt.service.jobs.intake.open_journals import (
    live_folders,
    read_journal,
    read_open_journals,
)

if TYPE_CHECKING:
    from gramwatt.service.common.answers import IngestAnswer
    from gramwatt.service.container import Service


def open_store(home: Path) -> Service:
    """Return the service over the store of `home`, with its tables created or upgraded.

    Journals that are in the temporary home are those of the home that is set, and of its store.
    """
    from gramwatt.service.config import from_environment
    from gramwatt.service.container import Service
    from gramwatt.service.store.migrate import upgrade

    if home == spool.temporary_home():
        config = replace(from_environment(), home=home)
    else:
        config = from_environment(home=home)
    service = Service.open(config)
    upgrade(service.store)
    return service


def has_journals(home: Path, job_id: str | None = None) -> bool:
    """Tell whether there is anything to ingest: a job's closed spools, or all with open ones."""
    return bool(_closed(home, job_id) or (job_id is None and live_folders(home)))


def ingest_local_spool(service: Service, *, fresh: bool = False) -> None:
    """Bring the store up to this machine's spool: dead, closed and running jobs.

    With `fresh` running jobs are scored anew however young their last score is.
    """
    for folder in spool.folders(service.config.home):
        if folder.server() is None and folder.unclosed():
            close_dead(folder)  # a sync sets what cannot be read aside, and reports it
    if has_journals(service.config.home):
        ingest_spool(service)
        read_open_journals(service, fresh=fresh)


def ingest_spool(service: Service, job_id: str | None = None) -> list[str]:
    """Ingest and score the closed spools of an open service; returns the ids of the jobs scored."""
    from gramwatt.service.jobs.scoring import score_when_closed

    home = service.config.home
    names: dict[int, str] = {}
    for folder in _closed(home, job_id):
        if (key := _ingest_folder(service, home, folder)) is not None:
            names[key] = folder.job_id
    for name in dict.fromkeys(names.values()):
        _ingest_open(service, home, name)
    return [name for key, name in names.items() if score_when_closed(service, key)]


def _closed(home: Path, job_id: str | None) -> list[SpoolFolder]:
    """Return the folders whose every writer is dead and ended.

    A journal that was measured for a server is not the local store's: `gramwatt sync` sends it.
    """
    closed = [f for f in spool.folders(home, job_id) if not f.is_live() and not f.unclosed()]
    return [folder for folder in closed if folder.server() is None]


def _ingest_folder(service: Service, home: Path, folder: SpoolFolder) -> int | None:
    """Ingest a folder, and delete it once it is closed and nothing in it is new.

    Returns the key of its job where that can be scored: its lines are stored, and no meter writes
    on here.
    """
    from gramwatt.service.common.errors import DeletedJobError, ServiceError
    from gramwatt.service.jobs.intake.ingest import ingest_unscored

    answers: list[tuple[IngestAnswer, int | None]] = []
    try:
        with spool.sent(
            folder, lambda lines: answers.append(ingest_unscored(service, folder.job_id, lines))
        ) as can_go:
            refused = [answer for answer, _ in answers if answer.rejected]
            if can_go and refused:
                _reject(home, folder, refused[-1])
            elif can_go:
                spool.discard(home, folder)
    except DeletedJobError as error:
        if folder.is_closed():
            spool.discard(home, folder)
            _report(f"{error}; what its meter had still spooled is dropped")
        return None
    except ServiceError as error:  # such as an id that is taken
        _report(f"{error}; its journal stays spooled")
        return None
    except OSError as error:
        _report(f"job {folder.job_id} is stored, but its journal stays spooled: {error}")
    keys = [key for _, key in answers if key is not None]
    return keys[-1] if keys and not folder.is_live() else None


def _ingest_open(service: Service, home: Path, job_id: str) -> None:
    """Ingest what other nodes of a job have journaled so far, since it runs until they end too."""
    from gramwatt.service.common.errors import ServiceError
    from gramwatt.service.jobs.intake.ingest import ingest_unscored

    for folder in spool.folders(home, job_id):
        if folder.server() is not None:
            continue
        with suppress(ServiceError):  # or its meter has written nothing yet
            if folder.is_live():
                read_journal(service, folder)
            else:
                ingest_unscored(service, folder.job_id, folder.lines())


def _reject(home: Path, folder: SpoolFolder, answer: IngestAnswer) -> None:
    """Keep a folder with lines that the store refuses, and report it once."""
    try:
        target = spool.reject(home, folder)
    except FileNotFoundError:  # another process is keeping it
        return
    first = answer.rejected[0]
    _report(
        f"{answer.rejected_count} journal lines of job {folder.job_id} were refused "
        f"(first: {first.code}, {first.message}); they are kept in {target}"
    )


def _report(text: str) -> None:
    with suppress(OSError):  # stderr is closed
        print(f"gramwatt: {text}", file=sys.stderr)
