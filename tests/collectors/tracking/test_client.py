from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.tracking import channel, messages
from gramwatt.collectors.tracking import client as client_module
from gramwatt.collectors.tracking.client import BURST_LINES, LINES_PER_S, Client

FAKE = Path(__file__).parents[1] / "fake_meter.py"
Log = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Log]]:
    """Replace the meter: `fake(mode)` answers a reader of what the meter was told."""
    log = tmp_path / "told.jsonl"
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(messages, "_reported", set())

    def install(mode: str) -> Log:
        if mode not in ("mute", "deaf"):  # a busy machine needs more than 2 s to start Python
            monkeypatch.setattr(client_module, "CLOSE_TIMEOUT_S", 60.0)

        def spawn(channel: int) -> None:
            command = [sys.executable, str(FAKE), str(log), mode]
            started.append(subprocess.Popen(command, stdin=channel, stdout=channel))

        monkeypatch.setattr(channel, "spawn_meter", spawn)
        return lambda: [json.loads(text) for text in log.read_text().splitlines()]

    yield install
    for process in started:
        process.kill()
        process.wait()


def amounts(told: list[dict[str, Any]]) -> dict[tuple[str | None, str | None], float]:
    """The sums by unit and phase of the count lines that meters were sent, each as it was last."""
    last = {line["seq"]: line for line in told if line["cmd"] == "count"}
    sums: dict[tuple[str | None, str | None], float] = {}
    for line in last.values():
        key = line["unit"], line["phase"]
        sums[key] = sums.get(key, 0.0) + line["amount"]
    return sums


def test_the_protocol_from_start_to_stop(
    fake: Callable[[str], Log], capsys: pytest.CaptureFixture[str]
) -> None:
    told = fake("")
    client = Client("j", "track", {"unit": "image"})
    before = time.monotonic_ns()
    assert client.start()
    client.count(64)
    client.count(2, "token", "epoch-1")
    client.send_child(77)
    assert client.stop("failed", exit_code=3)
    start, first, second, child, stop = told()
    assert {k: start[k] for k in ("cmd", "job_id", "role", "parent_pid", "args")} == {
        "cmd": "start",
        "job_id": "j",
        "role": "track",
        "parent_pid": os.getpid(),
        "args": {"unit": "image"},
    }
    assert before - 1e9 < start["mono_ns"] < before
    assert abs(start["wall_ns"] - time.time_ns()) < 60e9
    assert amounts([first, second]) == {(None, None): 64.0, ("token", "epoch-1"): 2.0}
    assert (child["cmd"], child["pid"]) == ("child", 77)
    assert (stop["state"], stop["exit_code"], stop["signal"]) == ("failed", 3, None)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "gramwatt: No grid zone was given. [zone-unknown]\n"


def test_a_flood_of_counts_arrives_whole_in_few_lines(fake: Callable[[str], Log]) -> None:
    told = fake("")
    before = time.monotonic()
    client = Client("j", "track", {})
    client.start()
    for number in range(20_000):
        client.count(1, None, f"epoch-{number % 2}")
    took_s = time.monotonic() - before
    client.stop("completed")
    assert amounts(told()) == {(None, "epoch-0"): 10_000.0, (None, "epoch-1"): 10_000.0}
    # Start, stop, and the totals that stop sends; 20 000 lines where nothing holds them back.
    assert len(told()) <= BURST_LINES + LINES_PER_S * took_s + 10


def test_a_meter_that_does_not_read_blocks_nobody(
    fake: Callable[[str], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("deaf")
    monkeypatch.setattr(client_module, "BURST_LINES", 1e9)
    monkeypatch.setattr(client_module, "LINES_PER_S", 1e9)
    client = Client("j", "track", {})
    client.start()
    took_s = []
    for _ in range(20_000):
        before = time.perf_counter()
        client.count(1, "x" * 60)
        took_s.append(time.perf_counter() - before)
    # The channel is full early on; a busy machine may stand still in some counts, not in a tenth.
    assert sorted(took_s)[18_000] < 0.01
    before = time.monotonic()
    assert not client.stop("completed")
    assert time.monotonic() - before < 30  # the meter would read on after 60 s


def test_a_meter_that_dies_is_brought_back_with_the_same_start(
    fake: Callable[[str], Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = fake("dies")
    client = Client("j", "track", {})
    client.start()
    assert client.wait_ready(60)
    client.count(5)  # read, and then it dies
    deadline = time.monotonic() + 60
    while not client._restarts and time.monotonic() < deadline:
        time.sleep(0.01)
        client.poll()
    client.count(7, None, "later")
    assert client.stop("completed")
    starts = [line for line in told() if line["cmd"] == "start"]
    assert [line.get("restart") for line in starts] == [None, 1]
    assert starts[0]["mono_ns"] == starts[1]["mono_ns"]
    assert starts[0]["meter"] != starts[1]["meter"]
    assert amounts(told()) == {(None, None): 5.0, (None, "later"): 7.0}
    assert told()[-1]["cmd"] == "stop"


def test_restarts_are_few_and_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[float] = []
    now = [100.0]

    def spawn(_channel: int) -> None:
        launches.append(now[0])

    monkeypatch.setattr(channel, "spawn_meter", spawn)
    monkeypatch.setattr(messages, "_reported", set())
    monkeypatch.setattr("gramwatt.collectors.tracking.client.time.monotonic", lambda: now[0])
    client = Client("j", "track", {})
    client.start()
    for _ in range(2000):
        now[0] += 1.0
        client.poll()
    assert len(launches) == 1 + len(client_module.RESTART_WAITS_S)
    gaps = [b - a for a, b in zip(launches[1:], launches[2:], strict=False)]
    assert gaps == [1.0, 5.0, 30.0, 120.0]
    client.abandon()


def test_a_meter_switched_off_by_configuration_is_left_alone(
    fake: Callable[[str], Log], capsys: pytest.CaptureFixture[str]
) -> None:
    told = fake("off")
    client = Client("j", "track", {})
    client.start()
    deadline = time.monotonic() + 60
    while not client.closed and time.monotonic() < deadline:
        client.poll()
    client.count(1)
    assert client.stop("completed")
    assert [line["cmd"] for line in told()] == ["start"]
    assert capsys.readouterr().err == ""


def test_a_silent_meter_costs_two_seconds_and_one_line(
    fake: Callable[[str], Log], capsys: pytest.CaptureFixture[str]
) -> None:
    fake("mute")
    client = Client("j", "track", {})
    client.start()
    before = time.monotonic()
    assert not client.stop("completed")
    assert 1.9 < time.monotonic() - before < 30  # two seconds, and a slow machine
    assert capsys.readouterr().err.count("\n") == 1


def test_a_launch_that_fails_is_said_and_survived(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_channel: int) -> None:
        raise PermissionError("no more processes")

    monkeypatch.setattr(channel, "spawn_meter", refuse)
    monkeypatch.setattr(messages, "_reported", set())
    client = Client("j", "track", {})
    assert not client.start()
    client.count(1)
    assert not client.stop("completed")
    assert "no more processes" in capsys.readouterr().err


def test_a_descriptor_that_became_somebody_elses_is_not_written_to(
    fake: Callable[[str], Log], tmp_path: Path
) -> None:
    fake("")
    client = Client("j", "track", {})
    client.start()
    assert client._channel._socket is not None
    number = client._channel._socket.fileno()
    theirs = tmp_path / "checkpoint.bin"
    descriptor = os.open(theirs, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, number)  # what a daemonising process ends up with
    client.count(1)
    client.stop("completed")
    os.close(descriptor)
    os.write(number, b"weights")  # still open, and still theirs
    os.close(number)
    assert theirs.read_bytes() == b"weights"


def test_a_dead_meter_never_raises_sigpipe(fake: Callable[[str], Log]) -> None:
    fake("dies")
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        client = Client("j", "track", {})
        client.start()
        for _ in range(50):
            client.count(1)
            time.sleep(0.002)
        client.stop("completed")
    finally:
        signal.signal(signal.SIGPIPE, before)


def test_a_signal_handler_may_count_while_a_count_is_running(fake: Callable[[str], Log]) -> None:
    told = fake("")
    client = Client("j", "track", {})
    client.start()
    before = signal.signal(signal.SIGALRM, lambda *_: client.count(1, "alarm"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        seen = 0
        for _ in range(50_000):
            client.count(1, "loop")
            seen += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    client.stop("completed")
    assert amounts(told())["loop", None] == seen == 50_000


def test_the_client_needs_the_light_part_of_the_standard_library_only() -> None:
    heavy = "dataclasses inspect typing asyncio tomllib tempfile hashlib logging datetime uuid"
    code = (
        "import sys; before = set(sys.modules)\n"
        "from gramwatt import track\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        f"heavy = set({heavy.split()!r}) & new\n"
        "foreign = {n for n in new if n not in sys.stdlib_module_names} - {'gramwatt'}\n"
        "print(sorted(heavy), sorted(foreign))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.sub(r"\s+", "", done.stdout) == "[][]"


@pytest.mark.parametrize("letters", ["x", "\N{EARTH GLOBE EUROPE-AFRICA}"])
def test_a_start_line_of_a_megabyte_arrives_whole(fake: Callable[[str], Log], letters: str) -> None:
    told = fake("")
    tags = {f"{number:02}" + letters * 510: letters * 512 for number in range(64)}
    client = Client("j", "track", {"tags": tags})
    client.start()
    client.count(3)
    assert client.wait_ready(60)
    client.count(4)
    assert client.stop("completed")
    start, *rest = told()
    assert start["args"]["tags"] == tags
    assert amounts(rest) == {(None, None): 7}


@pytest.mark.parametrize("took_s", [1.0, 61.0])
def test_a_job_of_more_than_a_minute_waits_longer_for_its_figures(
    fake: Callable[[str], Log], took_s: float
) -> None:
    fake("late")
    client = Client("j", "track", {})
    client.start()
    assert client.wait_ready(60)
    client._start_mark["mono_ns"] = time.monotonic_ns() - round(took_s * 1e9)
    assert client.stop("completed", lines=True)
    (line,) = client.end_lines()
    assert (line == "the figures") == (took_s > 60)


def test_processes_of_one_job_whose_figures_are_late_say_so_once(
    fake: Callable[[str], Log], tmp_path: Path
) -> None:
    fake("late")
    told = []
    for _ in range(2):
        client = Client("j", "track", {})
        client.start()
        assert client.wait_ready(60)
        client.home = str(tmp_path)
        assert client.stop("completed", lines=True)
        told += client.end_lines()
    assert told == ["j has ended; its figures are not ready yet: see `gramwatt job j`"]


def test_a_full_disk_is_said_though_the_line_about_the_job_is_late(
    fake: Callable[[str], Log],
) -> None:
    fake("full")
    client = Client("j", "track", {})
    client.start()
    assert client.wait_ready(60)
    assert client.stop("completed", lines=True)
    (line,) = client.end_lines()
    assert line.startswith("the disk does not take the journal (No space left): ")
