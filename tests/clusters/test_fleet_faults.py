"""Killed, or on a full disk, at a step that a seed chooses: nothing is lost, and nothing twice.

240 cases, or GRAMWATT_FAULTS of them. Each forks a process that archives or restores and dies at
the step; then the place and the store are read, and the same work is done again to its end.
"""

import errno
import os
import random
import shutil
import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.container import Service
from gramwatt.service.fleet import parquet, places
from gramwatt.service.fleet.archive import archive_month, store_id, verify
from gramwatt.service.fleet.manifest import leftovers, read_manifest, require_files
from gramwatt.service.fleet.places import ArchiveError, Folder
from gramwatt.service.fleet.restore import restore_month
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.operation.retention import delete_old_intervals
from gramwatt.service.store.archives import ArchivedJob
from gramwatt.service.store.models import Count, Device, Interval, Job
from tests.clusters.company_year import HOUR, NOW, REGION, job, opened
from tests.journals import Writer, lines

MONTH = "2026-05"
CASES = int(os.environ.get("GRAMWATT_FAULTS", "240"))
KILL, FULL = "kill", "full"
FIRST, NEXT, RESTORE = "first", "next", "restore"


def fill(service: Service) -> None:
    start = NOW.replace(year=2026, month=5, day=4)
    ends = NOW.replace(year=2026, month=6, day=1, hour=0) - 1.5 * HOUR
    for n, when in enumerate((start, start + timedelta(days=3), ends)):
        project = ("blue-whale", "humpback")[n % 2]
        records = job(f"job-{n}", when, step_s=1200, project=project, region=REGION)
        ingest(service, f"job-{n}", lines(records))


def late(service: Service) -> None:
    writer = Writer("w9", "n-1", "job-0", t0=NOW.replace(year=2026, month=5, day=4))
    ingest(service, "job-0", lines([writer.interval(13_000, 13_060, 9_000.0, "GPU-0")]))


def kept(service: Service) -> Service:
    later = service.now() + timedelta(days=31)
    config = replace(service.config, keep_intervals={"": timedelta(days=30)}, clock=lambda: later)
    return Service(config, service.store)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The state before each kind of work."""
    found = {}
    for kind in (FIRST, NEXT, RESTORE):
        folder = found[kind] = tmp_path_factory.mktemp(kind)
        service = opened(folder)
        fill(service)
        if kind != FIRST:
            archive_month(service, MONTH, Folder(folder / "archive"))
        if kind == NEXT:
            late(service)
        if kind == RESTORE:
            archive_month(service, "2026-06", Folder(folder / "archive"))
            (folder / "whole").write_text(repr(stored(service)))
            assert delete_old_intervals(kept(service)) == 3
        service.store.close()
    return found


def stored(service: Service) -> list[list[Any]]:
    with service.store.read() as session:
        rows = [session.execute(sa.select(t.__table__)).all() for t in (Interval, Count)]
    return [sorted(map(tuple, of_table), key=str) for of_table in rows]


def by_job(service: Service) -> dict[int, int]:
    """Intervals of the store by the key of their job."""
    wanted = sa.select(Device.job, sa.func.count()).join(Interval, Interval.device == Device.id)
    with service.store.read() as session:
        return {key: number for key, number in session.execute(wanted.group_by(Device.job))}


def noted(service: Service) -> int:
    """Return how many jobs are noted as archived as they are now, as retention asks."""
    same = (ArchivedJob.version == Job.version, ArchivedJob.revision == Job.revision)
    wanted = sa.select(sa.func.count()).join_from(ArchivedJob, Job, ArchivedJob.job == Job.id)
    with service.store.read() as session:
        return session.scalar(wanted.where(ArchivedJob.month == MONTH, *same)) or 0


def work(kind: str, service: Service, place: Folder) -> None:
    if kind == RESTORE:
        restore_month(service, MONTH, place)
    else:
        archive_month(service, MONTH, place)


class Fault:
    """Counts steps, before and after each; at the one that was chosen it kills or fills."""

    def __init__(self, mode: str, at: int) -> None:
        self.mode, self.at, self.count = mode, at, 0

    def step(self) -> None:
        self.count += 1
        if self.count != self.at:
            return
        if self.mode == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def around(self, owner: Any, name: str) -> None:
        plain = getattr(owner, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.step()
            found = plain(*args, **kwargs)
            if self.mode == KILL:
                self.step()
            return found

        setattr(owner, name, wrapped)

    def install(self) -> None:
        for owner, name in (
            *((os, "fsync"), (os, "replace"), (Path, "write_text"), (Path, "mkdir")),
            *((parquet.Tables, "write"), (parquet.Tables, "sums"), (parquet, "file_sums")),
            *((Session, "commit"), (Session, "flush"), (places, "_sync")),
        ):
            self.around(owner, name)


def forked(kind: str, folder: Path, mode: str, at: int) -> tuple[int, int]:
    """Do the work in another process; how it ended, and how many steps it has in all."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 9
        try:
            fault = Fault(mode, at)
            service = opened(folder)
            fault.install()
            try:
                work(kind, service, Folder(folder / "archive"))
                code = 0
            except (ArchiveError, OSError, sa.exc.SQLAlchemyError):
                code = 3
            os.write(writing, str(fault.count).encode())
        finally:
            os._exit(code)
    os.close(writing)
    said = os.read(reading, 20)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), int(said or b"0")


@pytest.fixture(scope="module")
def steps(bases: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[Any, int]:
    """How many steps each kind of work has."""
    found = {}
    for kind in bases:
        for mode in (KILL, FULL):
            folder = tmp_path_factory.mktemp("count") / "case"
            shutil.copytree(bases[kind], folder)
            code, found[kind, mode] = forked(kind, folder, mode, -1)
            assert (code, found[kind, mode] > 10) == (0, True)
    return found


@pytest.mark.parametrize("seed", range(CASES))
def test_nothing_is_lost_and_nothing_twice(seed, bases, steps, tmp_path):
    chosen = random.Random(seed)
    kind, mode = (FIRST, NEXT, RESTORE)[seed % 3], (KILL, FULL)[seed // 3 % 2]
    folder, at = tmp_path / "case", chosen.randint(1, steps[kind, mode])
    shutil.copytree(bases[kind], folder)
    code, _ = forked(kind, folder, mode, at)
    assert code == (-signal.SIGKILL if mode == KILL else 3) or (mode, code) == (FULL, 0)
    service, place = opened(folder), Folder(folder / "archive")
    before = stored(service)
    manifest = read_manifest(place, MONTH)
    if manifest is not None:
        verify(place, manifest)
        assert manifest.store == store_id(service)
    if kind == RESTORE:  # each job has all of its lines or none
        assert set(by_job(service).values()) <= {20}
    else:
        assert manifest is None or manifest.revision in ((1,) if kind == FIRST else (1, 2))
        is_made = manifest is not None and manifest.revision == (1 if kind == FIRST else 2)
        known = 0 if kind == FIRST else 2  # a late line made the third another
        assert noted(service) in ((known, 3) if is_made else (known,))
    work(kind, service, place)
    after = read_manifest(place, MONTH)
    verify(place, after)
    assert leftovers(place, after) == []
    assert after.revision == (2 if kind == NEXT else 1)
    if kind == RESTORE:
        assert repr(stored(service)) == (folder / "whole").read_text()
    else:
        assert stored(service) == before
        first = service.month_span_us("2026-06")[0]
        sums = sa.select(sa.func.count(), sa.func.sum(Interval.energy_j))
        with service.store.read() as session:
            rows, joules = session.execute(sums.where(Interval.start_us < first)).one()
        files = [
            parquet.file_sums("intervals", p) for p in require_files(place, after)["intervals"]
        ]
        assert sum(n for n, _ in files) == rows
        assert sum(j for _, j in files) == pytest.approx(joules, rel=1e-9)
        named = sorted((folder / "archive" / "intervals" / MONTH).iterdir())
        assert len(named) == len(files)  # by folder alone nothing counts twice
    service.store.close()
