"""The meter's loop beside a meter that fails."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gramwatt.collectors.meter import main
from gramwatt.collectors.meter.main import Loop
from gramwatt.collectors.settings.proc import fields_of
from gramwatt.collectors.track.counts import JobFolder
from tests.collectors.rig import Rig, gpu, states


class Failing:
    """A meter whose every tick raises, and that is closed after `length_s`."""

    role = "command"
    config = SimpleNamespace(metrics=None, server=None)
    timeline = SimpleNamespace(now_ns=time.monotonic_ns)

    def __init__(self, length_s: float) -> None:
        self.ticks = 0
        self.running: list[int] = []
        self.lines: list[str] = []
        self.log = SimpleNamespace(write=self.lines.append)
        self._until = time.monotonic() + length_s

    @property
    def closed(self) -> bool:
        return time.monotonic() > self._until

    def due_ns(self) -> int:
        return 0

    def tick(self) -> None:
        self.ticks += 1
        raise KeyError("tick")


def test_a_tick_that_always_raises_does_not_spin():
    meter: Any = Failing(0.5)
    reading, writing = os.pipe()
    Loop(meter, reading).run()
    os.close(reading)
    os.close(writing)
    assert 1 <= meter.ticks <= 2
    assert len(meter.lines) == meter.ticks


def test_a_tick_that_hangs_in_a_driver_ends_the_meter(monkeypatch):
    monkeypatch.setattr(main, "HANGS_S", 1)
    meter: Any = Failing(60)
    meter.tick = lambda: time.sleep(60)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # as `main` does
        Loop(meter, os.pipe()[0]).run()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGALRM


def test_a_reading_that_always_raises_leaves_the_journal_saved(tmp_path, monkeypatch):
    rig = Rig(tmp_path, gpu())
    meter = rig.start()
    rig.run(35, meter)
    assert meter.devices is not None

    def fail() -> None:
        raise KeyError("tick")

    monkeypatch.setattr(meter.devices, "tick", fail)
    for _ in range(30):  # as the loop would, which rests after each
        rig.clock.sleep(1)
        with pytest.raises(KeyError):
            meter.tick()
    now_ns = meter.timeline.now_ns()
    rig.kill(meter)
    (state,) = states(rig.folder()).values()
    assert now_ns - state["now_ns"] <= 11e9


class Waiting(Failing):
    """A meter for which nothing is due, and that is closed when it is to save."""

    closed = False  # type: ignore[assignment]

    def due_ns(self) -> int:
        return time.monotonic_ns() + 60 * 10**9

    def wake(self) -> None: ...

    def tick(self) -> None: ...

    def save_soon(self) -> None:
        self.closed = True  # type: ignore[misc]


def test_a_waiting_meter_that_is_told_to_end_saves_at_once(tmp_path):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        folder, meter = JobFolder(str(tmp_path)), cast("Any", Waiting(60))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        loop = Loop(meter, folder.listen())
        main.save_when_terminated(meter, folder)
        os.write(writing, b"\n")
        loop.run()
        os._exit(0)
    os.read(reading, 1)
    while fields_of(child)[0] != "S":  # it waits
        time.sleep(0.005)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(reading)
    os.close(writing)


class Sent(Failing):
    """A meter with a server, whose ticks do nothing."""

    config = SimpleNamespace(metrics=None, server="http://127.0.0.1:9")

    def __init__(self, length_s: float) -> None:
        super().__init__(length_s)
        self.journal = SimpleNamespace(seq=1)

    def due_ns(self) -> int:
        return time.monotonic_ns() + 10**9

    def tick(self) -> None:
        self.ticks += 1


def test_a_running_job_is_sent_at_once_and_then_what_is_new(monkeypatch):
    """Its first line within a second; later lines, never beside a sync that has not ended."""
    meter: Any = Sent(1.0)
    reading, writing = os.pipe()
    loop, begun = Loop(meter, reading), time.monotonic()
    at_s: list[float] = []
    monkeypatch.setattr(loop, "sync", lambda: at_s.append(time.monotonic() - begun))
    loop.run()
    os.close(reading)
    os.close(writing)
    assert len(at_s) == 1
    assert 0.3 < at_s[0] < 0.9

    loop._sync_running()
    assert len(at_s) == 1  # nothing is new
    meter.journal.seq = 2
    loop._syncs.append(SimpleNamespace(poll=lambda: None))
    loop._sync_running()
    assert len(at_s) == 1
    loop._syncs[0].poll = lambda: 0
    loop._sync_running()
    assert len(at_s) == 2
