"""`track(strict=True)` raises on every way in which nothing would be measured."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from gramwatt import track
from gramwatt.collectors.track import session as session_module

WINDOWS = "gramwatt measures on Linux and macOS; on Windows the job goes on unmeasured"
AS_ON_WINDOWS = """
import os, signal, select, socket, sys
sys.platform = "win32"
del socket.MSG_DONTWAIT, select.poll, os.posix_spawn, os.fork, os.register_at_fork, os.uname
import gramwatt
try:
    gramwatt.track(strict=True)
except RuntimeError as error:
    print(f"refused: {error}")
with gramwatt.track() as job:
    print("ran", job.id, job.result)
"""


class NoMeter:
    """A client whose meter never comes."""

    role = job_role = "track"
    folder, see = None, ""

    def __init__(self, job_id: str, _role: str, args: dict[str, Any]) -> None:
        self.job_id, self.args = job_id, args
        self.ready = False

    @staticmethod
    def find() -> None:
        """No process above this one runs a job."""

    def start(self) -> bool:
        return False

    def wait_ready(self) -> bool:
        return self.ready

    def stop(self, *_args: Any) -> bool:
        return False


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in ("GRAMWATT_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "GRAMWATT_OFF"):
        monkeypatch.delenv(name, raising=False)


def test_a_system_that_cannot_measure_is_refused_where_track_is_written():
    line = [sys.executable, "-c", AS_ON_WINDOWS]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    refused, ran = done.stdout.splitlines()
    assert refused.startswith(f"refused: {WINDOWS}")
    assert ran == "ran None None"
    assert done.stderr.startswith(f"gramwatt: {WINDOWS}")


def test_what_goes_wrong_at_the_start_is_raised(monkeypatch):
    class Broken(NoMeter):
        def __init__(self, *_args: Any) -> None:
            raise OSError("no more files")

    monkeypatch.setattr(session_module, "Client", Broken)
    with pytest.raises(RuntimeError, match="could not start .*no more files"), track(strict=True):
        pytest.fail("the block must not run")
    with track() as job:
        assert job.id is None


def test_inside_a_job_without_a_meter_strict_raises_and_the_job_goes_on(monkeypatch):
    monkeypatch.setattr(session_module, "Client", NoMeter)
    with track() as outer:
        with pytest.raises(RuntimeError, match="gramwatt doctor"), track(strict=True):
            pytest.fail("the block must not run")
        assert session_module._current is not None
        assert session_module._current.id == outer.id
    assert session_module._current is None
