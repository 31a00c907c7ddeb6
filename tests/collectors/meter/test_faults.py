"""Kills and corruption at random: no joule counts twice, and at most 10 s are lost.

120 stories and more on a virtual clock (tests/collectors/story.py), each told from its number, two
of them one after the other in one home, as launches of one Slurm allocation; and 20 jobs of real
processes that are killed for real.
"""

from __future__ import annotations

from random import Random

import pytest

from gramwatt.collectors.settings import proc
from gramwatt.collectors.settings.clock import NS_PER_S
from gramwatt.collectors.spool import writer
from gramwatt.collectors.spool.recovery import close_dead
from gramwatt.sci.figures.errors import RecordError
from gramwatt.sci.records.merge import MergedJob, merge
from gramwatt.sci.records.records import AnyRecord, JobRecord, decode
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.documents import find_job
from gramwatt.service.jobs.ingest import ingest
from gramwatt.service.jobs.journal import journal_of
from gramwatt.service.store.migrate import upgrade
from tests.collectors.rig import energy_j
from tests.collectors.story import RAM_W, Story

STORIES, AT_ONCE = 120, 20
EDGE_J = {True: 5.0, False: 75.0}
"""What the two edges of a reading may be off: 10 ms between polls at 250 W each; for waves between
100 and 700 W half the swing for half an update period of 0.1 s each, and 10 ms more at 600 W."""
UPDATE_J = {True: 25.0, False: 70.0}
"""What a meter that is brought back only to stop may miss: an update period of 0.1 s."""
LIES_J = 2 * 250.0 * 2.5
"""For each of at most two lies of the counter: the second in which it began, the one in which it
ended, and update periods at both."""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    home = tmp_path_factory.mktemp("store")
    url = sqlite_url(home / "gramwatt.db")
    service = Service.open(ServiceConfig(home=home, database_url=url))
    upgrade(service.store)
    yield service
    service.store.close()


@pytest.mark.parametrize(
    "first",
    [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(AT_ONCE, STORIES, AT_ONCE))],
)
def test_no_joule_counts_twice_and_at_most_ten_seconds_are_lost(
    first, tmp_path, monkeypatch, store
):
    deletions, stories = 0, []
    for seed in range(first, first + AT_ONCE):
        story = Story(tmp_path / str(seed // 2), seed, step=seed % 2)
        stories.append(story)
        with monkeypatch.context() as patch:
            patch.setattr(writer, "os", story.disk)
            patch.setattr(proc, "boot_id", lambda story=story: story.boot)
            patch.setattr(proc, "process_start_ns", story.clients.get)
            story.live()
    assert len({story.job_id for story in stories[:2]}) == 2
    for story in stories:
        seed = story.job_id
        assert close_dead(story.spool()), seed
        lines = [*story.delivered, *story.spool().lines()]
        deletions += story.deletions
        job = merge(records(lines))
        assert job.state != "running", seed
        check_energy(story, job)
        check_counts(story, job)
        check_uploads(story, job, lines, store)
    assert deletions > 0


def check_energy(story: Story, job: MergedJob) -> None:
    """Every device between what must be there and what can be there."""
    assert not any(notice.code == "overlap-removed" for notice in job.notices), story.job_id
    booked_j = energies(job)
    edges_j = EDGE_J[story.steady] + UPDATE_J[story.steady] * story.restarts + LIES_J * story.lying
    for board in story.nvml.gpus:
        blind = story.blind_spans(board)
        most_j = sum(board.truth_j(a / NS_PER_S, b / NS_PER_S) for a, b in story.spans(closed=True))
        least_j = sum(board.truth_j(a / NS_PER_S, b / NS_PER_S) for a, b in story.spans())
        least_j -= sum(board.truth_j(a / NS_PER_S, b / NS_PER_S) for a, b in blind)
        seen_j = booked_j[board.uuid]
        assert least_j - edges_j <= seen_j <= most_j + edges_j, (story.job_id, least_j, most_j)
    most_j = sum(RAM_W * (b - a) / NS_PER_S for a, b in story.spans(closed=True))
    least_j = sum(RAM_W * (b - a) / NS_PER_S for a, b in story.spans())
    least_j -= RAM_W * story.asleep_s  # the memory's energy is a model's
    least_j -= sum(RAM_W * (b - a) / NS_PER_S for a, b in story.blind)
    ram = next(d.record.device_id for d in job.devices if d.record.device_class == "ram")
    assert least_j - 1e-3 <= booked_j[ram] <= most_j + 1e-3, (story.job_id, least_j, most_j)


def check_counts(story: Story, job: MergedJob) -> None:
    """No unit of work twice, and none lost, whoever was killed, but of runs that the disk took no
    line of.
    """
    total = sum(count.amount for count in job.counts)
    least = story.sent - sum(story.unseen.values())
    assert least <= total <= story.sent, (story.job_id, total, story.sent)


def check_uploads(story: Story, job: MergedJob, lines: list[bytes], store: Service) -> None:
    """Whatever was sent, after a job line in any order and often, with what came last: the same."""
    draw = Random(story.job_id)
    sent = [line for upload in [*story.uploads, lines, lines[::3]] for line in upload]
    draw.shuffle(sent)
    sent.sort(key=lambda line: not any(isinstance(r, JobRecord) for r in records([line])))
    assert energies(merge(records(sent))) == pytest.approx(energies(job), abs=1e-6), story.job_id
    place = 0
    while place < len(sent):
        size = draw.randrange(1, 200)
        ingest(store, story.job_id, sent[place : place + size], score=False)
        place += size
    with store.store.read() as session:
        kept = merge(journal_of(session, find_job(session, story.job_id)))
    assert energies(kept) == pytest.approx(energies(job), abs=1e-6), story.job_id
    assert sum(c.amount for c in kept.counts) == sum(c.amount for c in job.counts), story.job_id
    assert kept.state == job.state, story.job_id


def records(lines: list[bytes]) -> list[AnyRecord]:
    """The records of lines that are whole."""
    found = []
    for line in lines:
        try:
            found.append(decode(line))
        except RecordError:
            continue
    return found


def energies(job: MergedJob) -> dict[str, float]:
    """Energy of each device [J]."""
    return {device.record.device_id: energy_j(device.intervals) for device in job.devices}
