"""Running jobs: read while their meters write, without a trace in the final score."""

import fcntl
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gramwatt.collectors.settings.identity import node_id
from gramwatt.collectors.spool.intervals import Ledger, Schedule
from gramwatt.collectors.spool.writer import Journal
from gramwatt.sci.records.records import DeviceRecord, EndRecord, IntervalRecord, JobRecord
from gramwatt.service.common.errors import UnknownJobError
from gramwatt.service.config import ServiceConfig, sqlite_url
from gramwatt.service.container import Service
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import job_document
from gramwatt.service.jobs.local_spool import ingest_local_spool, read_open_journals
from gramwatt.service.store.migrate import upgrade
from gramwatt.service.tasks.scheduler import Scheduler
from tests.journals import MINUTE, START, Writer, journal, lines
from tests.service.keyed import client_of
from tests.service.processes import eventually

NODE = node_id(False)


@contextmanager
def running(home, job_id="job-1", *, open_s=30, **about):
    """A spool folder as a living meter has it: 2 minutes of 600 W final, and `open_s` s open."""
    records = journal(job_id, node=NODE, minutes=2, end_state=None, **about)
    folder = home / "spool" / job_id / NODE
    folder.mkdir(parents=True)
    path = folder / "w1.jsonl"
    path.write_bytes(b"\n".join(lines(records)) + b"\n" + b'{"torn')
    write_open(path, job_id, open_s)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield path


def write_open(path, job_id="job-1", open_s=30):
    opened = Writer("w1-open", NODE, job_id, t0=START)
    state = b'{"state":{"leader":true}}\n'
    interval = opened.interval(120, 120 + open_s, 600.0 * open_s, f"GPU-{NODE}")
    path.with_suffix(".open").write_bytes(state + lines([interval])[0] + b"\n")


def energy_wh(service):
    return job_document(service, "job-1").document.energy_kwh.value * 1000


def listing(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_running_job_shows_over_http_with_its_energy_so_far(light, client):
    with running(light.config.home):
        before = listing(light.config.home / "spool")
        scheduler = Scheduler(light)
        scheduler.run("ingest-spool")
        (job,) = client.get("/v1/jobs").json["jobs"]
        assert (job["state"], job["provisional"]) == ("running", True)
        # 2 minutes final and 30 s open, at 600 W: 90 000 J.
        assert job["energy_kwh"]["value"] == pytest.approx(90_000 / 3.6e6)
        assert job["duration_s"] == 150
        assert listing(light.config.home / "spool") == before
        scheduler.stop()


def test_what_is_open_counts_once_when_it_is_final(light, clock):
    with running(light.config.home) as path:
        ingest_local_spool(light)
        assert energy_wh(light) == pytest.approx(25.0)
        last = Writer("w1", NODE, t0=START, first_seq=7)
        # The meter cut what was open at 25 s after all: the store must not remember 30 s.
        more = [
            last.interval(120, 145, 25 * 600.0, f"GPU-{NODE}"),
            last.interval(145, 180, 35 * 600.0, f"GPU-{NODE}"),
        ]
        with path.open("r+b") as stream:
            stream.seek(path.read_bytes().rindex(b'{"torn'))
            stream.write(b"\n".join(lines([*more, last.end(180, exit_code=0)])) + b"\n")
        path.with_suffix(".open").write_bytes(b'{"state":{}}\n')
    ingest_local_spool(light)
    found = job_document(light, "job-1").document
    # 3 minutes at 600 W.
    assert found.energy_kwh.value == pytest.approx(0.03, rel=1e-12)
    assert (found.state, found.revision, found.provisional) == ("completed", 1, False)
    assert "overlap-removed" not in {notice.code for notice in found.notices}
    assert not (light.config.home / "spool" / "job-1").exists()


def test_a_power_cut_doubles_no_count_that_the_store_has(light):
    """The line that the disk lost is still in the meter's state, under the client's number."""
    with running(light.config.home) as path:
        size_b = path.read_bytes().rindex(b'{"torn')
        written = Writer("c1-count", NODE, t0=START)
        os.truncate(path, size_b)
        with path.open("ab") as stream:
            stream.write(lines([written.count(12)])[0] + b"\n")
        at_ns = int(START.timestamp()) * 10**9
        state = {"client": "c1", "counts": [["c1-count", 1, "image", None, 12.0, at_ns]]}
        path.with_suffix(".open").write_text(json.dumps({"state": state}) + "\n")
        ingest_local_spool(light)
    os.truncate(path, size_b)
    os.utime(path, (0, 0))
    ingest_local_spool(light)
    found = job_document(light, "job-1").document
    assert found.state == "lost"
    assert {row.unit: row.count for row in found.sci} == {"image": 32.0}  # 20 + 12


def test_a_provisional_score_is_as_fresh_as_asked_for(light, clock):
    with running(light.config.home) as path:
        ingest_local_spool(light)
        write_open(path, open_s=60)
        clock.turn(seconds=10)
        ingest_local_spool(light)
        assert energy_wh(light) == pytest.approx(25.0)
        ingest_local_spool(light, fresh=True)
        assert energy_wh(light) == pytest.approx(30.0)


def test_each_final_line_is_read_once(light, monkeypatch):
    from gramwatt.service.jobs import ingest

    seen = []
    real = ingest.ingest_unscored

    def count(service, job_id, sent, **more):
        sent = list(sent)
        seen.append(len(sent))
        return real(service, job_id, sent, **more)

    monkeypatch.setattr(ingest, "ingest_unscored", count)
    with running(light.config.home):
        for _ in range(3):
            read_open_journals(light)
    assert seen == [6, 0, 0]  # job, device, two intervals and two counts; then nothing


def test_a_dead_job_that_nobody_closed_is_shown_as_lost(light):
    with running(light.config.home):
        ingest_local_spool(light)
    ingest_local_spool(light)
    found = job_document(light, "job-1").document
    assert (found.state, found.provisional) == ("lost", False)
    # What was open when the meter died is the last that is known.
    assert found.energy_kwh.value * 1000 == pytest.approx(25.0)


def test_a_deleted_job_stays_deleted_while_its_meter_goes_on(light, capfd):
    with running(light.config.home) as path:
        ingest_local_spool(light)
        delete_job(light, "job-1", by="u-1")
        ingest_local_spool(light)
        assert path.exists()
    ingest_local_spool(light)
    assert not (light.config.home / "spool" / "job-1").exists()
    assert not (light.config.home / "taken").exists()
    with pytest.raises(UnknownJobError, match=r"job-2"):
        job_document(light, "job-2")
    said = capfd.readouterr().err
    assert said.count("was deleted on 2026-06-02 12:00 UTC by u-1") == 1


def test_a_meter_that_has_written_nothing_yet_is_no_job(light):
    folder = light.config.home / "spool" / "job-1" / NODE
    folder.mkdir(parents=True)
    (folder / "w1.jsonl").touch()
    ingest_local_spool(light)
    assert client_of(light).get("/v1/jobs").json["jobs"] == []


def test_a_journal_for_a_server_is_left_to_it(light):
    from gramwatt.collectors.spool.spool import remember_server

    with running(light.config.home) as path:
        remember_server(path.parent, "https://carbon.example")
        ingest_local_spool(light)
    assert client_of(light).get("/v1/jobs").json["jobs"] == []


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.integers(1, 40),  # seconds until the next reading of the meter
            st.sampled_from(["read", "save", "cut", "nothing"]),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_reading_at_any_moment_leaves_no_trace(tmp_path_factory, steps):
    """A real journal with readings in between scores as one that was never read."""
    documents = [scored(tmp_path_factory.mktemp("home"), steps, reads=reads) for reads in (1, 0)]
    read, unread = documents
    assert read.energy_kwh == unread.energy_kwh
    for name in ("series", "steps", "devices", "duration_s", "revision", "notices", "state"):
        assert getattr(read, name) == getattr(unread, name), name
    # 600 W all the time.
    assert read.energy_kwh.value * 3.6e6 == pytest.approx(
        600 * sum(seconds for seconds, _ in steps)
    )


def scored(home, steps, *, reads):
    """The final document of a job at 600 W whose meter is read, saves or cuts at these steps."""
    service = Service.open(
        ServiceConfig(
            home=home,
            database_url=sqlite_url(home / "gramwatt.db"),
            clock=lambda: START + 99 * MINUTE,
        )
    )
    upgrade(service.store)
    start_ns = int(START.timestamp()) * 10**9
    base = {"job_id": "job-1", "node": NODE, "writer": "w1"}
    writer = Journal(home / "spool" / "job-1" / NODE, base, lambda text: None)
    writer.put(JobRecord, started_at=START, zone="FR", project="p", name="n")
    device = {"device_class": "gpu", "name": "NVIDIA H100 80GB HBM3", "meter": "nvml-counter"}
    writer.put(DeviceRecord, device_id="GPU-1", kind="measured", **device)
    ledger = Ledger(
        "GPU-1",
        Schedule(start_ns),
        lambda name, interval: writer.put(IntervalRecord, **interval.fields(name)),
    )

    def save():
        grows = [(IntervalRecord, ledger.open.fields("GPU-1"))] if ledger.open else []
        writer.write_open({}, grows)
        writer.flush()

    save()
    now_ns = start_ns
    for seconds, act in steps:
        until_ns = now_ns + seconds * 10**9
        ledger.add(now_ns, until_ns, 600.0 * seconds, "measured")
        now_ns = until_ns
        if act == "save":
            save()
        elif act == "cut":
            ledger.close()
        elif act == "read" and reads:
            ingest_local_spool(service, fresh=True)
    ledger.close()
    ended = START + (now_ns - start_ns) // 1000 * timedelta(microseconds=1)
    writer.put(EndRecord, ended_at=ended, state="completed", exit_code=0)
    save()
    writer.close()
    ingest_local_spool(service)
    document = job_document(service, "job-1").document
    service.store.close()
    return document


@pytest.mark.long
def test_the_command_lists_a_job_while_it_runs(tmp_path):
    """The real meter, the real command: the job is there with its energy before it ends."""
    environ = {**os.environ, "GRAMWATT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    environ |= {"XDG_CONFIG_HOME": str(tmp_path), "GRAMWATT_HOST_SOURCE": "model"}
    environ |= {"GRAMWATT_JOB_ID": "live-1", "GRAMWATT_ZONE": "DE"}
    gramwatt = [sys.executable, "-m", "gramwatt"]

    def jobs():
        line = [*gramwatt, "jobs", "--json"]
        done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["jobs"]

    child = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    line = [*gramwatt, "run", "--", *child]
    quiet = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environ, "text": True}
    with subprocess.Popen(line, **quiet) as process:
        deadline = time.monotonic() + 180  # it takes 10 s, and longer on a loaded machine
        while not ((found := jobs()) and found[0]["energy_kwh"]):
            assert time.monotonic() < deadline, found
            time.sleep(1)
        assert (found[0]["state"], found[0]["provisional"]) == ("running", True)
        synced = subprocess.run([*gramwatt, "sync"], env=environ, capture_output=True, text=True)
        assert synced.stdout == "running live-1\n"
        process.communicate("", timeout=60)
    # Another process may be taking its journal in, and scoring it.
    ended = eventually(lambda: next((one for one in jobs() if one["revision"]), None), 60)
    assert (ended["state"], ended["revision"], ended["provisional"]) == ("completed", 1, False)
    assert ended["energy_kwh"]["value"] >= found[0]["energy_kwh"]["value"]
