"""A sender and what the server makes of its journals: deleted jobs, lines of newer releases."""

import os
import subprocess
import sys

import pytest

from gramwatt.collectors.settings.identity import bound_id, node_id
from gramwatt.collectors.settings.keys import ensure_home_key
from gramwatt.service.access.audit import audit_page
from gramwatt.service.access.keys import create_key
from gramwatt.service.app import create_app
from gramwatt.service.jobs.deletion import delete_job
from gramwatt.service.jobs.documents import job_document
from tests.journals import journal, lines
from tests.patient import PATIENT
from tests.service.keyed import add
from tests.service.listening import listening


@pytest.fixture
def address(light):
    with listening(create_app(service=light)) as found:
        yield found


def spool(home, name, extra=()):
    """The folder of a meter of this node that has ended."""
    node = node_id(False)
    folder = home / "spool" / name / node
    folder.mkdir(parents=True)
    written = [*lines(journal(name, node=node)), *extra]
    (folder / "w1.jsonl").write_bytes(b"\n".join(written) + b"\n")
    return folder


def sync(home, address):
    environ = {**os.environ, "GRAMWATT_HOME": str(home), "GRAMWATT_SERVER": address}
    environ |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    environ["GRAMWATT_API_KEY"] = ensure_home_key(home.parent)  # the home of the service
    line = [sys.executable, "-m", "gramwatt", "sync"]
    return subprocess.run(line, env=environ, capture_output=True, text=True, timeout=60)


def test_sync_drops_the_journal_of_a_deleted_job_and_sends_the_others(light, address, tmp_path):
    home = tmp_path / "sender"
    for name in ("job-1", "job-2"):
        spool(home, name)
    add(light, "job-1", node=node_id(False))
    delete_job(light, "job-1", by="u-1")
    done = sync(home, address)
    assert (done.returncode, done.stdout) == (0, "sent job-2\n"), done.stderr
    assert "'job-1' was deleted on 2026-06-02 12:00 UTC by u-1; what was still" in done.stderr
    assert list((home / "spool").iterdir()) == []


def test_lines_that_only_a_newer_server_reads_stay_spooled_and_the_others_are_stored(
    light, address, tmp_path
):
    home = tmp_path / "sender"
    newer = b'{"v":2,"type":"water","job_id":"job-1","node":"n","writer":"w1","seq":10}'
    folder = spool(home, "job-1", [newer])
    before = {path.name: path.read_bytes() for path in folder.glob("*.jsonl")}
    for _ in range(2):
        done = sync(home, address)
        assert done.returncode == 1
        assert "1 lines refused: the server is older than this meter; the journal stays" in (
            done.stderr
        )
        assert {path.name: path.read_bytes() for path in folder.glob("*.jsonl")} == before
    # 3 minutes at 600 W are 108 kJ.
    energy = job_document(light, "job-1").document.energy_kwh.value
    assert energy == pytest.approx(0.03, rel=1e-12)


def test_many_refused_lines_are_counted_and_their_journal_is_kept(light, address, tmp_path):
    home = tmp_path / "sender"
    bad = b'{"v":1,"type":"count","job_id":"job-1","node":"n","writer":"w1","seq":%d}'
    spool(home, "job-1", [bad % seq for seq in range(10, 260)])
    done = sync(home, address)
    assert done.returncode == 1
    assert "job-1: 250 lines refused: count record lacks" in done.stderr
    assert list((home / "spool").iterdir()) == []
    assert [path.name for path in (home / "rejected").iterdir()] == ["job-1"]


def test_a_job_with_a_key_that_may_only_send_is_sent_without_a_complaint(light, address, tmp_path):
    made = create_key(light, "ci", "ingest", ["vision"]).key
    summary = tmp_path / "summary.json"
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    environ |= {"GRAMWATT_HOME": str(tmp_path / "sender"), "GRAMWATT_SERVER": address}
    environ |= {"GRAMWATT_API_KEY": made, "GRAMWATT_PROJECT": "vision", "GRAMWATT_ZONE": "FR"}

    def run(job_id, *options):
        line = [*PATIENT, "run", *options, "--", "true"]
        job = {**environ, "GRAMWATT_JOB_ID": job_id}
        return subprocess.run(line, env=job, capture_output=True, text=True, timeout=120)

    plain = run("only-sent")
    assert (plain.returncode, len(plain.stderr.splitlines())) == (0, 1), plain.stderr
    assert job_document(light, bound_id("only-sent", "vision")).document.state == "completed"
    assert {row.action for row in audit_page(light, 50, None).entries} == {"key-created"}
    asked = run("asked-for", "--json-summary", str(summary))
    assert (asked.returncode, summary.exists()) == (0, False)
    assert "does not show the score to this key (403); one of scope read may" in asked.stderr
