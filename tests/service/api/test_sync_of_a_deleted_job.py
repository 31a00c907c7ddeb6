"""A sender whose job was deleted on the server: it drops what it has spooled, and says so."""

import os
import subprocess
import sys
import threading

import pytest
from werkzeug.serving import make_server

from gramwatt.collectors.common.identity import node_id
from gramwatt.service.app import create_app
from gramwatt.service.usecases.deletion import delete_job
from gramwatt.service.usecases.ingest import ingest
from tests.journals import journal, lines


@pytest.fixture
def address(light):
    server = make_server("127.0.0.1", 0, create_app(service=light), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}"
    server.shutdown()
    thread.join()


def test_sync_drops_the_journal_of_a_deleted_job_and_sends_the_others(light, address, tmp_path):
    home, node = tmp_path / "sender", node_id(False)
    for name in ("job-1", "job-2"):
        folder = home / "spool" / name / node
        folder.mkdir(parents=True)
        (folder / "w1.jsonl").write_bytes(b"\n".join(lines(journal(name, node=node))) + b"\n")
    ingest(light, "job-1", lines(journal(node=node)))
    delete_job(light, "job-1", by="u-1")
    environ = {**os.environ, "GRAMWATT_HOME": str(home), "GRAMWATT_SERVER": address}
    environ |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    line = [sys.executable, "-m", "gramwatt", "sync"]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "sent job-2\n"), done.stderr
    assert "'job-1' was deleted on 2026-06-02 12:00 UTC by u-1; what was still" in done.stderr
    assert list((home / "spool").iterdir()) == []
