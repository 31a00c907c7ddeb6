"""Real meter processes, killed for real. A synthetic 300 W GPU tells what should be there."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.journal.recovery import close_dead
from gramwatt.collectors.journal.spool import SpoolFolder
from gramwatt.sci.journal.merge import MergedJob, merge
from gramwatt.sci.journal.records import CountRecord, EndRecord, decode
from tests.collectors.doubles.processes import with_gpus
from tests.collectors.rig import by_type, energy_j

POWER_W = 300.0
# A client that only holds the channel open, until somebody kills it.
HOLDER = "import sys, time; print('up', flush=True); time.sleep(60)"


class Client:
    """The other end of a meter's channel."""

    def __init__(self, home: Path, spec: Path, **more: Any) -> None:
        ours, theirs = socket.socketpair()
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("GRAMWATT_", "SLURM_"))}
        environ |= {
            "GRAMWATT_HOME": str(home),
            **with_gpus(spec, environ),
            "GRAMWATT_HOST_SOURCE": "model",
            # Nobody is there: else the store of this home takes the journal that the test reads.
            "GRAMWATT_SERVER": "http://127.0.0.1:9",
            "TMPDIR": str(spec.parent),
        }
        command = [sys.executable, "-P", "-m", "gramwatt.collectors.meter.main"]
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.DEVNULL,
            env=environ,
            start_new_session=True,
            pass_fds=more.pop("pass_fds", ()),
        )
        theirs.close()
        self._socket = ours
        self._stream = ours.makefile("rb")
        start = {"cmd": "start", "job_id": "job", "role": "command", "parent_pid": os.getpid()}
        start["client"] = more.pop("client", os.urandom(6).hex())
        marks = {"mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}
        self.start_line = {**start, **marks, "args": {"unit": "image"}, **more}
        self.send(**self.start_line)
        self.ready = self.receive()
        self.ready_s = time.monotonic() - self.began

    def send(self, **message: Any) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def count(self, amount: float) -> None:
        self.send(cmd="count", seq=1, closed=1, amount=amount, at_ns=time.time_ns())

    def receive(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._stream.readline())
        return found

    def stop(self, state: str = "completed") -> None:
        self.send(cmd="stop", state=state, exit_code=0, mono_ns=time.monotonic_ns())
        while self.receive()["reply"] != "closed":
            pass
        self.process.wait(30)

    def hang_up(self) -> None:
        self._stream.close()
        self._socket.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"gpus": [{"waveform": {"type": "constant", "power_w": POWER_W}}]}))
    return path


Connect = Callable[..., Client]


@pytest.fixture
def connect(home: Path, spec: Path) -> Iterator[Connect]:
    """Starts meters, and ends what a failed test has left."""
    clients: list[Client] = []

    def start(**more: Any) -> Client:
        clients.append(Client(more.pop("home", home), spec, **more))
        return clients[-1]

    yield start
    for client in clients:
        client.hang_up()
        client.kill()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def folder(home: Path) -> SpoolFolder:
    return SpoolFolder(next((home / "spool" / "job").iterdir()))


def merged(home: Path) -> MergedJob:
    return merge(decode(line) for line in folder(home).lines())


def gpu_energy_j(home: Path) -> float:
    return sum(
        energy_j(d.intervals) for d in merged(home).devices if d.record.device_class == "gpu"
    )


def wait_until_dead(home: Path) -> None:
    deadline = time.monotonic() + 30
    while folder(home).is_live() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_from_start_to_stop(connect: Connect, home: Path) -> None:
    client = connect(verbose=True, args={"unit": "image", "pue": 9})
    assert client.ready["reply"] == "ready"
    assert any(text.startswith("argument-ignored: ") for text in client.ready["notices"])
    client.count(8)
    time.sleep(1.5)
    client.stop()
    job = merged(home)
    assert gpu_energy_j(home) == pytest.approx(POWER_W * job.duration_s, abs=POWER_W * 0.2)
    assert (job.state, job.exit_code) == ("completed", 0)
    assert [(count.unit, count.amount) for count in job.counts] == [("image", 8)]
    assert client.process.returncode == 0


def test_it_holds_no_descriptor_of_the_job_open(connect: Connect) -> None:
    reader, writer = os.pipe()
    client = connect(pass_fds=(writer,))
    os.close(writer)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # at once, though the meter lives
    client.stop()
    os.close(reader)


def test_a_client_that_hangs_up_is_a_killed_job(connect: Connect, home: Path) -> None:
    client = connect()
    time.sleep(0.5)
    client.hang_up()
    client.process.wait(30)
    ends = by_type([decode(line) for line in folder(home).lines()], EndRecord)
    assert [end.state for end in ends] == ["killed"]


def test_a_killed_job_is_noticed_though_its_channel_stays_open(
    connect: Connect, home: Path, holder: subprocess.Popen[bytes]
) -> None:
    client = connect(parent_pid=holder.pid)
    time.sleep(0.5)
    holder.kill()
    client.process.wait(30)
    assert merged(home).state == "killed"
    assert gpu_energy_j(home) == pytest.approx(POWER_W * merged(home).duration_s, abs=POWER_W * 0.2)


def test_killing_the_meter_loses_nothing(connect: Connect, home: Path) -> None:
    first = connect()
    time.sleep(0.7)
    first.kill()
    time.sleep(0.7)
    line = {key: first.start_line[key] for key in ("client", "mono_ns", "wall_ns")}
    second = connect(restart=1, **line)
    time.sleep(0.7)
    second.stop()
    job = merged(home)
    assert job.duration_s >= 2.1
    assert gpu_energy_j(home) == pytest.approx(POWER_W * job.duration_s, abs=POWER_W * 0.2)
    assert (job.state, len(folder(home).writers())) == ("completed", 2)
    assert not any(notice.code == "overlap-removed" for notice in job.notices)


def test_killing_both_loses_at_most_ten_seconds_and_is_closed_later(
    connect: Connect, home: Path, holder: subprocess.Popen[bytes]
) -> None:
    began = time.monotonic()
    client = connect(parent_pid=holder.pid)
    client.count(3)
    time.sleep(2.0)
    client.kill()
    lived_s = time.monotonic() - began
    client.hang_up()
    wait_until_dead(home)
    assert not close_dead(folder(home))  # the client lives, and may start another meter
    holder.kill()
    holder.wait()
    assert close_dead(folder(home))
    assert merged(home).state == "lost"
    assert POWER_W * (lived_s - 10) <= gpu_energy_j(home) <= POWER_W * lived_s


def test_sigterm_makes_it_journal_at_once_and_go_on(connect: Connect, home: Path) -> None:
    client = connect()
    client.count(3)
    client.process.send_signal(signal.SIGTERM)
    client.process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + 30
    while not by_type(map(decode, folder(home).lines()), CountRecord):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    client.stop()
    assert merged(home).state == "completed"


def test_two_ranks_are_one_leader_and_one_relay(connect: Connect, home: Path) -> None:
    ranks = [connect(role="track") for _ in range(2)]
    for client in ranks:
        client.count(5)
    time.sleep(1.0)
    for client in ranks:
        client.stop()
    job = merged(home)
    assert gpu_energy_j(home) == pytest.approx(POWER_W * job.duration_s, abs=POWER_W * 0.2)
    assert sum(count.amount for count in job.counts) == 10
    assert (len(folder(home).writers()), job.state) == (2, "completed")


def test_a_home_in_the_way_costs_the_job_nothing(connect: Connect, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    client = connect(home=blocked / "home")
    assert any("cannot be written" in text for text in client.ready["notices"])
    client.stop()
    assert client.process.returncode == 0


def test_garbage_on_the_channel_is_ignored(connect: Connect, home: Path) -> None:
    client = connect()
    client._socket.sendall(b"\xff\xfe garbage\n[1,2]\n" + b"{" * 5000 + b"\n")
    client.send(cmd="unknown")
    client.count(1)
    client.stop()
    assert sum(count.amount for count in merged(home).counts) == 1
