"""Archive a month: whole or not at all, read back before anything counts as archived.

Files are made in a staging folder and moved to their names, the manifest last. So a place has the
revision before or the new one, and what an interrupted run left is replaced by the next. What
changes a month later, such as a late line, makes a new revision: new files of the projects that it
touched. Those that they supersede are set aside, never changed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt import __version__
from gramwatt.reports.sections.not_summed import incomplete
from gramwatt.sci.score.method import ENGINE_VERSION
from gramwatt.service.access import audit
from gramwatt.service.common.errors import NoDataError
from gramwatt.service.container import Service
from gramwatt.service.fleet import parquet
from gramwatt.service.fleet.manifest import (
    ArchivedFile,
    Manifest,
    leftovers,
    manifest_name,
    months_in,
    next_revision,
    read_manifest,
    require_files,
    require_month,
    sha256_of,
    whole_files,
)
from gramwatt.service.fleet.places import SUPERSEDED, ArchiveError, Place, open_place
from gramwatt.service.fleet.rows import CLOSE, rows_of
from gramwatt.service.months.report import month_report
from gramwatt.service.store.archives import ArchivedJob, ArchiveKey
from gramwatt.service.store.models import Job, JobMonth
from gramwatt.service.store.timestamps import text_from_us
from gramwatt.service.store.upserts import upsert

_log = logging.getLogger("gramwatt.service")
Each = Callable[[Sequence[int]], Iterable[int]]


class Outcome(NamedTuple):
    """A month as it is archived now, and whether this run wrote a revision."""

    manifest: Manifest
    is_new: bool


class _Member(NamedTuple):
    """A job of a month: what its rows are made of."""

    key: int
    job_id: str
    project: str
    version: int
    revision: int
    gone: bool


def archive_month(
    service: Service, month: str, place: Place, *, by: str = "archive", each: Each = iter
) -> Outcome:
    """Archive a month that is over and complete, or what changed of it since; read it back.

    `each` passes on jobs, to show how far the work is. Raises ArchiveError, and leaves the place
    with the revision before.
    """
    service = service.for_every_project()
    totals = _complete(service, month, place)
    secret = _secret(service)
    store = archive_id(secret)
    with place.working() as folder, parquet.duckdb_errors():
        before = read_manifest(place, month)
        if before is not None:
            require_month(place, month, store)
        known = before.made_of if before else {}
        projects = _members(service, month, secret)
        made_of = {who: _digest(jobs) for who, jobs in projects.items()}
        changed = [who for who in projects if known.get(who) != made_of[who]]
        if before is None or changed or known.keys() != made_of.keys():
            work = _Work(service, month, place, before, folder)
            files = work.files(projects, changed, each)
            made = Manifest(
                store=store,
                month=month,
                revision=0,
                made_at=text_from_us(service.now_us()),
                engine_version=ENGINE_VERSION,
                catalog_version=service.catalog.version,
                gramwatt_version=__version__,
                time_zone=str(service.config.zone),
                made_of=made_of,
                totals=totals,
                files=tuple(files),
            )
            after = next_revision(before, made)
            _commit(place, folder, before, after)
        else:
            after = before
        _set_aside(place, after)
        verify(place, after)
    service.store.transact(lambda session: _note(session, place, after, projects), large=True)
    if before is None or after.revision != before.revision:
        text = f"{month}, revision {after.revision}: {place.address}"
        audit.log(service, "month-archived", text)
    return Outcome(after, before is None or after.revision != before.revision)


def verify(place: Place, manifest: Manifest) -> None:
    """Read every file of a month back: digests, rows and sums; raises ArchiveError."""
    for file, path in whole_files(place, manifest):
        rows, joules = parquet.file_sums(file.table, path)
        if rows != file.rows or abs(joules - file.energy_j) > CLOSE * abs(file.energy_j):
            text = f"{file.name} has {rows} rows and {joules:g} J; the manifest says"
            raise ArchiveError(f"{text} {file.rows} and {file.energy_j:g} J")


def archive_ended_months(service: Service) -> int:
    """Archive the months that are over and complete, and what changed; return how many revisions.

    Nothing without `archive_to`. A month that is not complete yet is left for a later run.
    """
    address = service.config.archive_to
    if address is None:
        return 0
    with service.for_every_project().store.read() as session:
        wanted = sa.select(JobMonth.month).distinct().where(JobMonth.month < service.month_now())
        ended = set(session.scalars(wanted))
    place, number = open_place(address), 0
    try:
        for month in sorted(ended.union(months_in(place))):
            try:
                number += archive_month(service, month, place).is_new
            except ArchiveError as error:
                _log.warning("%s is not archived: %s", month, error.message)
    finally:
        place.close()
    return number


def store_id(service: Service) -> str | None:
    """Return the id under which this store's archives go; None before the first."""
    with service.store.read() as session:
        found = session.get(ArchiveKey, 1)
        return archive_id(found.secret) if found else None


def project_names(service: Service) -> dict[str, str]:
    """Return the names of projects by their ids in archives, as the store knows them now."""
    with service.store.read() as session:
        key = session.get(ArchiveKey, 1)
        names = session.scalars(sa.select(JobMonth.project).distinct())
        return {project_id(key.secret, name): name for name in names} if key else {}


def archive_id(secret: str) -> str:
    """Return the id of the store with this secret."""
    return _hashed(secret, "store", "")


def project_id(secret: str, name: str) -> str:
    """Return the id that stands for a project; nobody without the secret can try names on it."""
    return f"p-{_hashed(secret, 'project', name)[:20]}"


def _hashed(secret: str, kind: str, name: str) -> str:
    return hmac.new(bytes.fromhex(secret), f"{kind}\0{name}".encode(), "sha256").hexdigest()


def _secret(service: Service) -> str:
    def keep(session: Session) -> str:
        upsert(session, ArchiveKey, [{"id": 1, "secret": secrets.token_hex(32)}])
        return session.get_one(ArchiveKey, 1).secret

    return service.store.transact(keep)


def _complete(service: Service, month: str, place: Place) -> Any:
    """Return the totals of a month; raises ArchiveError for one that is not over and complete."""
    try:
        document = month_report(service, month, None)
    except NoDataError as error:
        text = str(error)
        if month in months_in(place):  # every job was deleted
            name = manifest_name(month)
            text += f"; delete {name} in {place.address}, and its files of {month}"
        raise ArchiveError(text) from None
    if why := incomplete(document):
        raise ArchiveError(f"{month} is not complete, so it is not archived. {' '.join(why)}")
    return document["totals"]


def _members(service: Service, month: str, secret: str) -> dict[str, list[_Member]]:
    """Return the jobs of a month by the id of their project."""
    wanted = (
        sa.select(Job.id, Job.job_id, Job.project, Job.version, Job.revision)
        .add_columns(Job.intervals_deleted_us)
        .join(JobMonth, JobMonth.job == Job.id)
        .where(JobMonth.month == month)
        .order_by(Job.project, Job.id)
    )
    found: dict[str, list[_Member]] = {}
    with service.store.read() as session:
        for key, job_id, project, version, revision, deleted_us in session.execute(wanted):
            member = _Member(key, job_id, project, version, revision, deleted_us is not None)
            found.setdefault(project_id(secret, member.project), []).append(member)
    return found


def _digest(jobs: Sequence[_Member]) -> str:
    """Return a digest of what the rows of a project are made of."""
    rows = [(job.key, job.job_id, job.version, job.revision) for job in jobs]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


class _Work:
    """The files of a new revision, staged in a folder."""

    def __init__(
        self, service: Service, month: str, place: Place, before: Manifest | None, folder: Path
    ) -> None:
        self._service, self._month, self._before, self._folder = service, month, before, folder
        self._old = require_files(place, before) if before else {}

    def files(
        self, projects: dict[str, list[_Member]], changed: Sequence[str], each: Each
    ) -> list[ArchivedFile]:
        """Return the files of the revision."""
        kept = [
            file
            for file in (self._before.files if self._before else ())
            if file.project in projects and file.project not in changed
        ]
        tables = parquet.Tables(self._folder)
        try:
            for who in changed:
                tables.clear()
                self._fill(tables, who, projects[who], each)
                kept += [self._written(tables, table, who) for table in parquet.TABLES]
        finally:
            tables.close()
        return kept

    def _fill(self, tables: parquet.Tables, who: str, jobs: Sequence[_Member], each: Each) -> None:
        """Add the rows of a project's jobs, those of deleted lines out of the revision before."""
        archived, deleted = self._archived(jobs), []
        for key in each([job.key for job in jobs]):
            rows, gone = rows_of(self._service, who, key, self._month, archived.get(key, 0))
            if gone and key in archived:
                rows = {"jobs": rows["jobs"]}
                deleted.append(key)
            for table, of_table in rows.items():
                tables.add(table, of_table)
        for table in ("intervals", "counts", "energy", "embodied"):
            tables.add_files(table, self._old.get(table, []), deleted, who)

    def _archived(self, jobs: Sequence[_Member]) -> dict[int, int]:
        """Return `stored_b` of those of the jobs whose lines the revision before has.

        Raises ArchiveError for lines that only another archive has.
        """
        ids = {(job.key, job.job_id) for job in jobs}
        rows = parquet.read_columns("jobs", self._old.get("jobs", ()), "job, job_id, stored_b")
        found = {key: size_b for key, job_id, size_b in rows if (key, job_id) in ids and size_b}
        noted = sa.select(ArchivedJob.job).where(ArchivedJob.month == self._month)
        with self._service.store.read() as session:
            elsewhere = {*session.scalars(noted)} - found.keys()
        for job in (job for job in jobs if job.gone and job.key in elsewhere):
            text = f"the lines of job {job.job_id} are in another archive only"
            raise ArchiveError(f"{text}; name that one, or restore it first")
        return found

    def _written(self, tables: parquet.Tables, table: str, who: str) -> ArchivedFile:
        """Write a file into the folder, and read it back."""
        number = self._before.revision + 1 if self._before else 1
        name = f"{table}/{self._month}/{who}-r{number}.parquet"
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        tables.write(table, path)
        expected, found = tables.sums(table), parquet.file_sums(table, path)
        if found[0] != expected[0] or abs(found[1] - expected[1]) > CLOSE * abs(expected[1]):
            raise ArchiveError(f"{name} reads back as {found}, and {expected} was written")
        size_b, digest = path.stat().st_size, sha256_of(path)
        return ArchivedFile(name, table, who, found[0], size_b, found[1], digest)


def _commit(place: Place, folder: Path, before: Manifest | None, after: Manifest) -> None:
    """Move the new files to their names, then the manifest that counts."""
    known = {file.name for file in before.files} if before else set()
    for file in after.files:
        if file.name not in known:
            place.put(folder / file.name, file.name)
    if before is not None:
        old = folder / "before.json"
        old.write_text(before.to_text())
        place.put(old, f"{SUPERSEDED}/{manifest_name(before.month, before.revision)}")
    staged = folder / "manifest.json"
    staged.write_text(after.to_text())
    place.put(staged, manifest_name(after.month))


def _set_aside(place: Place, manifest: Manifest) -> None:
    """Set aside the month's files that its manifest does not have."""
    for name in leftovers(place, manifest):
        place.retire(name)


def _note(
    session: Session, place: Place, manifest: Manifest, projects: dict[str, list[_Member]]
) -> None:
    """Note which jobs are archived, as they were; those whose lines went before are not."""
    jobs = [job for of_project in projects.values() for job in of_project]
    there = {*session.scalars(sa.select(JobMonth.job).where(JobMonth.month == manifest.month))}
    noted = sa.select(ArchivedJob.job).where(ArchivedJob.month == manifest.month)
    known = {*session.scalars(noted)}
    rows = [
        {
            "month": manifest.month,
            "job": job.key,
            "version": job.version,
            "revision": job.revision,
            "place": place.address,
        }
        for job in jobs
        if job.key in there and (not job.gone or job.key in known)
    ]
    upsert(session, ArchivedJob, rows, replace=True)
