"""A disk that is full from some step on: nothing is lost, and the next run makes it whole.

`tests/clusters/test_fleet_faults.py` kills processes at hundreds of steps as well.
"""

import errno
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from gramwatt.service.container import Service
from gramwatt.service.fleet.archive import archive_month, verify
from gramwatt.service.fleet.manifest import leftovers, read_manifest
from gramwatt.service.fleet.places import ArchiveError, Folder
from gramwatt.service.fleet.restore import restore_month
from gramwatt.service.jobs.intake.ingest import ingest
from gramwatt.service.operation.retention import delete_old_intervals
from gramwatt.service.store.models import Interval
from tests.clusters.company_year import job, opened
from tests.journals import lines

MONTH = "2026-05"
STEPS = 18
"""Five files and the manifest are each written through, moved, and their folder written through."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A store with a job of two boards."""
    made = opened(tmp_path_factory.mktemp("store"))
    ingest(made, "job-0", lines(job("job-0", datetime(2026, 5, 4, tzinfo=UTC), step_s=1200)))
    yield made
    made.store.close()


@pytest.fixture
def place(tmp_path):
    return Folder(tmp_path / "archive")


def full_from(patch, step, *targets):
    """Let calls fail as on a full disk from this one on."""
    steps = count(1)

    def failing(plain):
        def call(*args, **kwargs):
            if next(steps) >= step:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return plain(*args, **kwargs)

        return call

    for owner, name in targets:
        patch.setattr(owner, name, failing(getattr(owner, name)))
    return steps


def stored(service):
    with service.store.read() as session:
        return sorted(map(tuple, session.execute(sa.select(Interval.__table__))))


@pytest.mark.parametrize("step", [1, 3, 17, 18, 19])
def test_an_archive_is_whole_or_absent_whatever_step_the_disk_is_full_at(
    step, service, place, monkeypatch
):
    with monkeypatch.context() as patch:
        steps = full_from(patch, step, (os, "fsync"), (os, "replace"))
        if step <= STEPS:
            with pytest.raises(ArchiveError, match=os.strerror(errno.ENOSPC)):
                archive_month(service, MONTH, place)
        else:
            archive_month(service, MONTH, place)
            assert next(steps) == STEPS + 1
    before = read_manifest(place, MONTH)
    assert (before is not None) == (step >= STEPS)
    after = archive_month(service, MONTH, place).manifest
    verify(place, after)
    assert (after.revision, after.rows("intervals")) == (1, len(stored(service)))
    assert leftovers(place, after) == []


@pytest.mark.parametrize("step", [1, 3])
def test_a_restore_that_the_disk_ends_leaves_each_job_whole_or_without_lines(
    step, service, place, monkeypatch
):
    whole = stored(service)
    archive_month(service, MONTH, place)
    later = service.now() + timedelta(days=31)
    keeps = {"keep_intervals": {"": timedelta(days=30)}, "clock": lambda: later}
    assert delete_old_intervals(Service(replace(service.config, **keeps), service.store)) == 1
    with monkeypatch.context() as patch:
        full_from(patch, step, (Session, "flush"), (Session, "commit"))
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            restore_month(service, MONTH, place)
    assert stored(service) in ([], whole)
    restore_month(service, MONTH, place)
    assert stored(service) == whole
