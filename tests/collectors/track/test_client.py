from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gramwatt.collectors.track import client as client_module
from gramwatt.collectors.track import counts, launch, messages
from gramwatt.collectors.track.client import Client
from gramwatt.collectors.track.counts import JobFolder, find_above, name_of
from tests.collectors.memory import file_of, folders

FAKE = Path(__file__).parents[1] / "fake_meter.py"
Log = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Replace the meter: `fake(mode)` answers a reader of what the meter was told."""
    log = tmp_path / "told.jsonl"
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(messages, "_reported", set())
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))

    def install(mode: str) -> Log:
        if mode != "mute":  # a busy machine needs more than 2 s to start Python
            monkeypatch.setattr(client_module, "CLOSE_TIMEOUT_S", 60.0)

        def spawn(lock: int, folder: str) -> None:
            command = [sys.executable, str(FAKE), folder, str(log), mode]
            started.append(subprocess.Popen(command, stdin=lock))

        monkeypatch.setattr(client_module, "spawn_meter", spawn)
        return lambda: [json.loads(text) for text in log.read_text().splitlines()]

    yield install
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
def _leave_nothing():
    """What a test's process runs from here on is no part of a job that a test has left."""
    yield
    for folder in folders():
        if any(path.name.startswith(f"{os.getpid()}-") for path in folder.iterdir()):
            JobFolder(str(folder)).remove()


def totals(told: list[dict[str, Any]]) -> dict[tuple[str | None, str | None], float]:
    """What all processes had counted at the end."""
    (line,) = (line for line in told if line["cmd"] == "totals")
    return {(unit, phase): total for unit, phase, total in line["totals"]}


def ended(told: list[dict[str, Any]]) -> list[Any]:
    (line,) = (line for line in told if line["cmd"] == "end")
    return list(line["stops"])


def test_the_files_from_start_to_stop(fake, capsys):
    told = fake("")
    client = Client("j", "track", {"unit": "image"})
    assert client.start()
    client.count(64)
    client.count(2, "token", "epoch-1")
    client.send_begin(77)
    assert client.stop("failed", exit_code=3)
    start = next(line for line in told() if line["cmd"] == "start")
    known = {k: start[k] for k in ("job_id", "role", "pid", "args")}
    assert known == {"job_id": "j", "role": "track", "pid": os.getpid(), "args": {"unit": "image"}}
    assert abs(start["at_ns"] - counts.clock_ns()) < 60e9
    assert abs(start["wall_ns"] - time.time_ns()) < 60e9
    assert totals(told()) == {(None, None): 64.0, ("token", "epoch-1"): 2.0}
    (stop,) = ended(told())
    assert (stop["state"], stop["exit_code"], stop["signal"]) == ("failed", 3, None)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "gramwatt: No grid zone was given. [zone-unknown]\n"
    assert client.folder is not None
    assert not Path(client.folder.path).exists(), "nothing stays in memory"


def test_ranks_have_one_meter_and_the_last_one_ends_the_job(fake):
    told = fake("")
    ranks = [Client("j", "track", {}) for _ in range(4)]
    for client in ranks:
        assert client.start()
        client.count(10)
    worker = ranks[0].in_child()
    worker.count(5)
    for client in ranks:
        assert client.stop("completed", lines=True)
    assert [client.closed for client in ranks] == [False, False, False, True]
    assert len([line for line in told() if line["cmd"] == "meter"]) == 1
    assert totals(told()) == {(None, None): 45.0}


def test_a_meter_that_does_not_read_blocks_nobody(fake, capsys):
    fake("mute")
    client = Client("j", "track", {})
    client.start()
    took_s = []
    for number in range(20_000):
        before = time.perf_counter()
        client.count(1, "x" * 60)
        if number % 200 == 0:
            client.send_notice("code", str(number))
        took_s.append(time.perf_counter() - before)
    # A busy machine may stand still in some counts, not in a tenth.
    assert sorted(took_s)[18_000] < 0.01
    before = time.monotonic()
    assert not client.stop("completed")
    assert 1.9 < time.monotonic() - before < 30  # two seconds, and a slow machine
    assert capsys.readouterr().err.count("\n") == 1


def test_a_meter_that_dies_is_followed_by_one_that_knows_everything(fake):
    told = fake("dies")
    client = Client("j", "track", {})
    client.start()
    assert client.wait_ready(60)
    client.count(5)  # read, and then it dies
    deadline = time.monotonic() + 60
    while client._started < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
        client.poll()
    client.count(7, None, "later")
    assert client.stop("completed")
    starts = [line for line in told() if line["cmd"] == "start"]
    assert len({line["meter"] for line in starts}) == 2
    assert totals(told()) == {(None, None): 5.0, (None, "later"): 7.0}


def test_a_meter_that_is_killed_while_it_closes_the_job_is_followed(fake):
    told = fake("dies")
    client = Client("j", "track", {})
    client.start()
    assert client.wait_ready(60)
    client.count(5)  # read, and then it dies
    assert client.folder is not None
    while client.folder.wake():
        time.sleep(0.01)
    client.folder.close()  # what a meter does first
    assert client.stop("completed")
    assert totals(told()) == {(None, None): 5.0}


def test_meters_that_are_started_again_are_few_and_spaced(tmp_path, monkeypatch):
    launches: list[float] = []
    now = [100.0]
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    monkeypatch.setattr(client_module, "spawn_meter", lambda *_: launches.append(now[0]))
    monkeypatch.setattr(messages, "_reported", set())
    monkeypatch.setattr("gramwatt.collectors.track.client.time.monotonic", lambda: now[0])
    client = Client("j", "track", {})
    client.start()
    for _ in range(2000):
        now[0] += 1.0
        client.poll()
    assert len(launches) == len(client_module.RESTART_WAITS_S)
    gaps = [b - a for a, b in zip(launches, launches[1:], strict=False)]
    assert gaps == [1.0, 5.0, 30.0, 120.0]
    assert client.folder is not None
    client.folder.remove()


def test_memory_that_cannot_be_had_is_reported_and_survived(monkeypatch, capsys):
    monkeypatch.setattr(counts, "FOLDERS", ("/proc/nowhere",))
    monkeypatch.setattr(messages, "_reported", set())
    client = Client("j", "track", {})
    assert not client.start()
    client.count(1)
    client.leave_window("a", 0, {})
    assert not client.stop("completed")
    assert "is not measured" in capsys.readouterr().err


@pytest.mark.parametrize(("blocks", "free_b", "place"), [(9, 4_096, 1), (9, 1 << 20, 0), (0, 0, 0)])
def test_a_job_begins_where_there_is_room_and_is_found_there(
    tmp_path, monkeypatch, blocks, free_b, place
):
    """A tmpfs without a limit says that it has no blocks."""
    places = [tmp_path / "first", tmp_path / "second"]
    for path in places:
        path.mkdir()
    monkeypatch.setattr(counts, "FOLDERS", [str(path) for path in places])
    full = SimpleNamespace(f_blocks=blocks, f_bavail=free_b, f_frsize=1)
    statvfs = os.statvfs
    monkeypatch.setattr(os, "statvfs", lambda p: full if "/first/" in p else statvfs(p))
    entered = JobFolder.enter("j")
    assert entered is not None
    folder, _ = entered
    assert Path(folder.path).parents[1] == places[place]
    file_of(folder, f"{name_of(os.getpid())}-9", {"role": "track"})
    above = find_above(os.getpid())
    assert above is not None
    assert above[0].path == folder.path


def test_a_descriptor_that_became_somebody_elses_is_not_written_to(fake, tmp_path):
    told = fake("")
    client = Client("j", "track", {})
    client.start()
    assert client._totals is not None
    number = client._totals._lines
    assert number is not None
    theirs = tmp_path / "checkpoint.bin"
    descriptor = os.open(theirs, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, number)  # what a daemonising process ends up with
    client.count(1)
    client.stop("completed")
    os.close(descriptor)
    os.write(number, b"weights")  # still open, and still theirs
    os.close(number)
    assert theirs.read_bytes() == b"weights"
    assert totals(told()) == {(None, None): 1.0}


@pytest.mark.parametrize("raises", [False, True])
def test_a_signal_handler_may_count_or_raise_while_a_count_is_running(fake, raises):
    told = fake("")
    client = Client("j", "track", {})
    client.start()
    handled, interrupted = [], 0

    def handle(*_: object) -> None:
        handled.append(1)
        if raises:
            raise KeyboardInterrupt
        client.count(1)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for _ in range(100_000):
            try:
                client.count(1)
            except KeyboardInterrupt:
                interrupted += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:  # between two counts
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    client.count(0.5)
    client.stop("completed")
    assert handled
    total = totals(told())[None, None]
    if raises:  # what it interrupts is counted or not, and what comes after it is
        assert total % 1 == 0.5
        assert total <= 100_000.5
    else:
        assert total == 100_000.5 + len(handled)


def test_threads_count_at_the_same_time(fake):
    told = fake("")
    client = Client("j", "track", {})
    client.start()

    def count() -> None:
        for _ in range(20_000):
            client.count(1, "image")

    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=count) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch_s)
    client.stop("completed")
    assert totals(told()) == {("image", None): 160_000.0}


def test_what_has_no_room_loses_its_phase_and_then_is_left_out(fake, monkeypatch, capsys):
    monkeypatch.setattr(counts, "NUMBERS", 16)
    monkeypatch.setattr(counts, "PHASED_MOST", 10)
    told = fake("")
    client = Client("j", "track", {})
    client.start()
    for _ in range(2):
        for number in range(20):
            client.count(1, None, f"step-{number}")
        for number in range(10):
            client.count(1, f"unit-{number}")
    client.stop("completed")
    by_phase = {(None, f"step-{number}"): 2.0 for number in range(10)}
    by_unit = {(f"unit-{number}", None): 2.0 for number in range(4)}
    assert totals(told()) == {**by_phase, (None, None): 20.0, **by_unit}
    assert capsys.readouterr().err.count("has no room") == 1


def test_more_threads_than_a_file_has_numbers_count_whole(fake, monkeypatch):
    monkeypatch.setattr(counts, "NUMBERS", 16)
    monkeypatch.setattr(counts, "PHASED_MOST", 10)
    monkeypatch.setattr(counts, "get_ident", iter(range(1_000)).__next__)  # as gevent's greenlets
    told = fake("")
    client = Client("j", "track", {})
    client.start()
    for number in range(40):
        client.count(1, "request", "epoch-0" if number % 2 else None)
    client.stop("completed")
    assert totals(told()) == {("request", None): 20.0, ("request", "epoch-0"): 20.0}


def test_a_meter_starts_where_the_functions_of_os_wait_for_what_has_ended(monkeypatch, tmp_path):
    """gevent's own ones wait for a signal that has come before."""

    def wait_for_ever(*_args: Any, **_options: Any) -> None:
        raise AssertionError("the user's program hangs")

    for name in ("posix_spawn", "posix_spawnp", "waitpid"):
        monkeypatch.setattr(os, name, wait_for_ever)
    monkeypatch.setattr(launch, "module_command", lambda _: ["/bin/sh", "-c", 'echo > "$0"'])
    os.mkfifo(said := tmp_path / "said")
    with open(os.devnull) as lock:
        launch.spawn_meter(lock.fileno(), str(said))
    assert said.read_text() == "\n"


@pytest.mark.parametrize(("folder", "path"), [("/app/lib", "/app/lib"), ("/v/site-packages", None)])
def test_the_meter_finds_the_package_where_the_script_does(monkeypatch, folder, path):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(launch, "__file__", f"{folder}/gramwatt/collectors/track/launch.py")
    assert launch.package_environ().get("PYTHONPATH") == path


@pytest.mark.parametrize("changed", [{"frozen": True}, {"executable": "/usr/bin/uwsgi"}])
def test_a_program_that_has_python_in_it_is_not_run_again_as_its_meter(
    tmp_path, monkeypatch, capsys, changed
):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    monkeypatch.setattr(messages, "_reported", set())
    for name, value in changed.items():
        monkeypatch.setattr(sys, name, value, raising=False)
    client = Client("j", "track", {})
    assert not client.start()
    client.count(1)
    assert client.folder is not None
    client.folder.remove()
    assert "start it by `gramwatt run`" in capsys.readouterr().err


def test_the_client_needs_the_light_part_of_the_standard_library_only():
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


def test_settings_of_a_megabyte_arrive_whole(fake):
    told = fake("")
    tags = {
        f"{number:02}" + "k" * 510: "\N{EARTH GLOBE EUROPE-AFRICA}" * 512 for number in range(64)
    }
    client = Client("j", "track", {"tags": tags})
    client.start()
    assert client.stop("completed")
    start = next(line for line in told() if line["cmd"] == "start")
    assert start["args"]["tags"] == tags


def test_a_next_run_of_the_id_has_a_folder_that_the_meter_before_does_not_touch(fake):
    fake("late")
    first, second = Client("j", "track", {}), Client("j", "track", {})
    first.start()
    assert first.wait_ready(60)
    assert first.stop("completed", lines=True)
    before = str(first.folder and first.folder.path)
    assert os.path.isdir(before), "its meter still makes the lines"
    second.start()
    assert second.folder is not None
    assert second.folder.path != before
    deadline = time.monotonic() + 60
    while os.path.isdir(before) and time.monotonic() < deadline:
        second.poll()
        time.sleep(0.01)
    assert not os.path.isdir(before)
    assert not second.closed
    assert second.stop("completed")


def test_lines_that_were_read_stay_when_the_meter_deletes_the_folder_meanwhile(fake, monkeypatch):
    fake("late")
    client = Client("j", "track", {})
    client.start()
    client.patience_s = 60.0
    looks: list[None] = []

    def discard(folder: JobFolder) -> bool:  # the meter does it at the same moment
        folder.remove()
        looks.append(None)
        return len(looks) > 1

    monkeypatch.setattr(JobFolder, "discard", discard)
    assert client.stop("completed", lines=True)
    assert client.end_lines() == ["the figures"]


@pytest.mark.parametrize("took_s", [1.0, 61.0])
def test_a_job_of_more_than_a_minute_waits_longer_for_its_figures(fake, took_s):
    fake("late")
    client = Client("j", "track", {})
    client.start()
    assert client.wait_ready(60)
    client._start_mark["at_ns"] = counts.clock_ns() - round(took_s * 1e9)
    assert client.stop("completed", lines=True)
    (line,) = client.end_lines()
    assert (line == "the figures") == (took_s > 60)


def test_what_a_killed_job_and_meter_have_left_is_not_joined(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    before, is_new = JobFolder.enter("j") or (None, False)
    assert before is not None
    assert is_new
    file_of(before, "4194000-5-1", {"job_id": "j", "role": "track", "pid": 4194000})
    after, is_new = JobFolder.enter("j") or (None, False)
    assert after is not None
    assert is_new
    assert before.closed
    assert not after.closed
    for folder in (before, after):
        folder.remove()
    assert before.path not in map(str, folders())


OLD = counts.UNMETERED_S + 60


@pytest.mark.parametrize(
    ("files", "age_s", "stays"),
    [
        ([counts.CLOSED], OLD, False),
        ([counts.CLOSED], counts.KEPT_S / 2, True),  # somebody may wait for its end
        ([counts.LOCK], OLD, False),
        ([counts.LOCK], counts.KEPT_S, True),  # its meter may be just starting
        ([counts.METER], OLD, True),  # a journal knows it
        (["alive"], OLD, True),
        ([counts.CLOSED, {"closed": True}], OLD, False),
        ([counts.CLOSED, {"pid": 1}], OLD, True),  # its meter died before it had journaled the end
        ([counts.CLOSED, {"closed": True, "unwritten": "No space left"}], OLD, True),
    ],
)
def test_a_folder_that_nobody_needs_is_removed(tmp_path, monkeypatch, files, age_s, stays):
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    folder, _ = JobFolder.enter("j") or (None, False)
    assert folder is not None
    name = f"{counts.name_of(os.getpid())}-77" if "alive" in files else "4194000-5-1"
    file_of(folder, name, {"job_id": "j", "role": "track", "pid": 4194000})
    for file in files:
        folder.say(file) if isinstance(file, dict) else folder.take(file)
    then = time.time() - age_s
    for path in (*Path(folder.path).iterdir(), Path(folder.path)):
        os.utime(path, (then, then))
    counts.remove_left_over()
    assert os.path.isdir(folder.path) == stays
    folder.remove()


def test_where_files_cannot_be_locked_one_process_starts_the_meter(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setenv("GRAMWATT_HOME", str(tmp_path))
    folder, _ = JobFolder.enter("j") or (None, False)
    assert folder is not None
    first = folder.lock()
    assert first is not None
    assert folder.lock() is None, "the meter is just starting"
    reader = folder.listen()
    os.utime(folder.at(counts.STARTING), (0, 0))
    assert folder.lock() is None, "the meter lives"
    os.close(reader)
    again = folder.lock()
    assert again is not None, "the meter has died"
    for descriptor in (first, again):
        os.close(descriptor)
    folder.remove()
