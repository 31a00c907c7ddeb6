"""The real codecarbon: its counter is the energy, and where it reads none it is of no use."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gramwatt.collectors.host import codecarbon, rapl
from gramwatt.collectors.host.devices import HostDevices
from gramwatt.collectors.settings.clock import Clock
from tests.collectors.host.bench import HostBench
from tests.collectors.host.codecarbon_bench import PACKAGE

WATTS = 100.0
OURS = """
import sys
from pathlib import Path
sys.modules["pynvml"] = None
from codecarbon.core import cpu
from codecarbon.external.hardware import CPU
from gramwatt.collectors.host import codecarbon, rapl
from gramwatt.collectors.host.devices import HostDevices
root = sys.argv[1]
cpu.is_rapl_available.__defaults__ = (root,)
CPU.__init__.__defaults__ = tuple(
    root if isinstance(text, str) and text.endswith("intel-rapl/subsystem") else text
    for text in CPU.__init__.__defaults__
)
codecarbon.find_counters = lambda: rapl.find_counters(Path(root))
codecarbon.main(0.5)
"""
"""Our process with the real package, whose RAPL tree is a folder of the test."""


@pytest.fixture
def powercap(tmp_path):
    """A RAPL tree with one package that draws 100 W."""
    root, ended, start_s = tmp_path / "powercap", threading.Event(), time.monotonic()
    zone = root / "intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("262143328850\n")

    def count() -> None:
        written = tmp_path / "energy_uj"
        while not ended.is_set():
            value = 10**9 + round(WATTS * (time.monotonic() - start_s) * 1e6)
            written.write_text(f"{value}\n")
            written.replace(zone / "energy_uj")
            time.sleep(0.005)

    thread = threading.Thread(target=count)
    thread.start()
    while not (zone / "energy_uj").exists():
        time.sleep(0.01)
    yield root
    ended.set()
    thread.join()


def until(host: HostDevices, found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.2)
        host.tick()
        host.settle()


def begin(bench: HostBench, root: Path, counters: rapl.Counters) -> HostDevices:
    command = [sys.executable, "-c", OURS, str(root)]
    return bench.begin(
        counters,
        lambda: codecarbon.PipedProcess(command, os.environ, str(root.parent)),
        GRAMWATT_HOST_SOURCE="codecarbon",
    )


def counted(bench: HostBench) -> tuple[float, float]:
    """Return energy [J] and length [s] of what the counter has given."""
    found = [i for name, i in bench.recorded if name == "cpu" and i.kind != "estimated"]
    energy_j = sum(i.energy_j for i in found)
    return energy_j, sum(i.end_ns - i.start_ns for i in found) / 1e9


@pytest.mark.long
def test_where_it_reads_a_counter_that_is_the_energy(powercap, monkeypatch):
    monkeypatch.setattr(codecarbon, "START_AFTER_NS", 0)
    monkeypatch.setattr(codecarbon, "NICENESS", 0)  # no later than tests beside it
    bench = HostBench(clock=Clock())
    host = begin(bench, powercap, rapl.Counters((PACKAGE,), {}))
    until(host, lambda: bench.sources()[0][1] == "measured")
    until(host, lambda: counted(bench)[0] > 200)  # attributed while others are busy beside it
    host.stop(bench.timeline.now_ns())
    energy_j, span_s = counted(bench)
    assert energy_j / span_s == pytest.approx(WATTS, rel=0.2)
    cpu, ram = ({d["device_class"]: d for d in bench.devices}[name] for name in ("cpu", "ram"))
    assert cpu["meter"].partition("+")[0] == "codecarbon-rapl"
    assert ram["meter"] == "gramwatt-ram-model"
