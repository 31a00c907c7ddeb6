"""`gramwatt sync`: close dead jobs, then send journals to the server or score them locally."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gramwatt.collectors.common import server_key
from gramwatt.collectors.common.config import Config, plain_address
from gramwatt.collectors.common.http import new_session
from gramwatt.collectors.common.local_store import LocalStore
from gramwatt.collectors.common.progress import busy, each
from gramwatt.collectors.journal import spool
from gramwatt.collectors.journal.recovery import close_dead
from gramwatt.sci.base.errors import RecordError

if TYPE_CHECKING:
    from requests import Session

    from gramwatt.collectors.journal.uploader import Sent

NEIGHBOURS = 50
"""Other jobs' folders that the sync of one job looks at, newest first: it must not take long."""

GRACE_S = 1.0
"""How old the journal of a job is before it leaves the spool behind it [s]: its line is made from
it. A younger one belongs to a job whose own scoring waits in line."""


@dataclass(slots=True)
class SyncResult:
    """What one sync did, by job id; `problems` and `remarks` are sentences for people.

    Any problem means exit code 1.
    """

    closed: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    scored: list[str] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    document: Mapping[str, Any] | None = None


def sync(
    config: Config,
    store: LocalStore | None,
    job_id: str | None = None,
    summary: bool = True,
    *,
    shown: bool = False,
) -> SyncResult:
    """Close dead folders, then upload or score them: those of one job, or of all.

    Without `summary` no server is asked for the job's document. With `shown` a
    terminal shows how far it is. Raises OSError when no home can be used.
    """
    done = SyncResult()
    homes = spool.journal_homes(config.home)
    spooled = [folder for home in homes for folder in spool.folders(home, job_id)]
    chosen = [folder for folder in spooled if _close(folder, done)]
    if job_id:
        done.closed += _close_neighbours(homes, job_id)
    addressed = _by_server(config, chosen, done)
    for server, theirs in addressed.items():
        _send(
            config,
            homes[0],
            server,
            each(theirs, "sending") if shown else theirs,
            done,
            job_id if summary else None,
        )
    if config.server is not None or (job_id and addressed):
        return done
    if store is not None:
        with busy("ingesting journals") if shown else nullcontext():
            for home in homes:
                done.scored += store.ingest(home, job_id)
        local = (folder for folder in chosen if folder.server() is None)
        done.running = sorted({folder.job_id for folder in local if folder.is_live()})
        documents = (store.document(home, job_id) for home in homes) if job_id else ()
        done.document = next((document for document in documents if document), None)
    else:
        done.document = _unstored(chosen, config) if job_id else None
        done.waiting = sorted({folder.job_id for folder in chosen if folder.server() is None})
    return done


def _unstored(folders: list[spool.SpoolFolder], config: Config) -> dict[str, Any] | None:
    """Return the document of a job that stays spooled; None while it runs or makes no score."""
    if not folders or any(folder.is_live() for folder in folders):
        return None
    from gramwatt.collectors.journal.ending import job_document

    document = job_document(folders, config)
    return None if document is None else dict(document)


def score_behind(config: Config, store: LocalStore) -> None:
    """Score the closed spools of this machine behind a job that has ended.

    One process does it at a time, and a second waits: it finds what ended meanwhile, so that any
    further one has nothing to do. Raises OSError when no home can be used.
    """
    homes = spool.journal_homes(config.home)
    home = homes[-1]
    next_in_line = spool.acquire(home / "sync-next.lock")
    if next_in_line is None:
        return
    at_work = os.open(home / "sync.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(at_work, fcntl.LOCK_EX)
    os.close(next_in_line)  # the next one may find what this one has looked past
    time.sleep(GRACE_S)
    for home in homes:
        for folder in spool.folders(home)[-NEIGHBOURS:]:
            if folder.server() is None and folder.unclosed():
                close_dead(folder)
        ended = [f.job_id for f in spool.folders(home) if time.time() - f.changed_at() >= GRACE_S]
        for job_id in dict.fromkeys(ended):
            store.ingest(home, job_id)
    os.close(at_work)


def _by_server(
    config: Config, chosen: list[spool.SpoolFolder], done: SyncResult
) -> dict[str, list[spool.SpoolFolder]]:
    """Group folders by their server: the environment's, their own, else the configured one."""
    from_environment = config.origins.get("server", "").startswith("environment")
    configured = plain_address(config.server) if config.server else None
    found: dict[str, list[spool.SpoolFolder]] = {config.server: []} if config.server else {}
    elsewhere: dict[tuple[str, str], list[str]] = {}
    for folder in chosen:
        own = folder.server()
        foreign = own is not None and own != configured
        server = own if foreign and not from_environment else config.server
        if server is not None:
            found.setdefault(server, []).append(folder)
        if foreign and own and server:
            elsewhere.setdefault((own, plain_address(server)), []).append(folder.job_id)
    for (own, server), jobs in elsewhere.items():
        target = "there" if server == own else f"to {server}, which GRAMWATT_SERVER names"
        shown = ", ".join(sorted(set(jobs))[:5])
        done.remarks.append(f"spooled for {own}, and sent {target}: {shown}")
    return found


def _close(folder: spool.SpoolFolder, done: SyncResult) -> bool:
    """Close a folder if it is dead and open; False when nothing in it can be read, and it is kept
    elsewhere, so that it is reported once and no other journal waits for it.
    """
    try:
        if folder.unclosed() and close_dead(folder, strict=True):
            done.closed.append(folder.job_id)
    except RecordError as error:
        kept = spool.reject(folder.home, folder)
        done.problems.append(f"{error.message}; it is kept in {kept}")
        return False
    return True


def _close_neighbours(homes: Sequence[Path], job_id: str) -> list[str]:
    """Close the newest dead jobs of this node but this one; their ids."""
    others = [f for home in homes for f in spool.folders(home) if f.job_id != job_id]
    newest = others[-NEIGHBOURS:]
    return [folder.job_id for folder in newest if folder.unclosed() and close_dead(folder)]


def _send(
    config: Config,
    home: Path,
    server: str,
    chosen: Iterable[spool.SpoolFolder],
    done: SyncResult,
    job_id: str | None,
) -> None:
    from gramwatt.collectors.journal import (
        uploader,  # not before it is needed: requests takes 0.1 s
    )

    key = server_key.key_for(config, home, server)
    with new_session(key) as session:
        for folder in chosen:
            try:
                _send_folder(folder, server, session, done)
            except uploader.ServerAway as error:
                text = "the journal stays spooled and `gramwatt sync` sends it"
                done.problems.append(f"{error}; {text}")
                return
            except uploader.JobDeleted as error:
                done.remarks.append(f"{error}; what was still spooled of it is dropped")
                if folder.is_closed():
                    spool.discard(folder.home, folder)
            except uploader.ServerRefused as error:
                done.problems.append(f"{error}; the journal stays spooled")
                job_id = None  # it has no score there
        if job_id:
            try:
                done.document = uploader.fetch_document(job_id, server, session)
            except uploader.ServerRefused as error:
                done.problems.append(str(error))


def _send_folder(
    folder: spool.SpoolFolder, server: str, session: Session, done: SyncResult
) -> None:
    """Send a folder's lines; a closed one is deleted, or kept elsewhere with what was refused."""
    from gramwatt.collectors.journal.uploader import upload

    results: list[Sent] = []

    def send(lines: Iterator[bytes]) -> None:
        results.append(upload(folder.path, folder.job_id, lines, server, session))

    with spool.sent(folder, send) as can_go:
        if can_go and not any(sent.too_new for sent in results):
            if any(sent.rejected for sent in results):
                spool.reject(folder.home, folder)
            else:
                spool.discard(folder.home, folder)
    done.sent.append(folder.job_id)
    done.problems += _refusals(folder.job_id, results)


def _refusals(job_id: str, results: list[Sent]) -> list[str]:
    """Return what to report of the lines that were refused; empty when none was."""
    refused = [line for sent in results for line in sent.rejected]
    if not refused:
        return []
    text = f"{job_id}: {sum(sent.refused for sent in results)} lines refused: "
    if any(sent.too_new for sent in results):
        return [f"{text}the server is older than this meter; the journal stays spooled"]
    return [text + str(refused[0].get("message", "no reason given"))]
