"""The benchmark's C library says the same as the synthetic NVML: the truth, by nvidia-ml-py."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gramwatt.collectors.devices.nvml import Nvml
from gramwatt.collectors.settings.clock import NS_PER_S
from tests.collectors.doubles.synthetic import SyntheticNvml
from tests.collectors.doubles.waveforms import waveform
from tests.collectors.virtual_clock import VirtualClock

PIECES = [[0.3, 100.0, 700.0], [0.2, 650.0, 650.0], [0.07, 90.0, 90.0]]
WAVE = {"type": "pieces", "pieces": PIECES}
PERIOD_S = 0.05
COMPILER = shutil.which("gcc") or shutil.which("cc")
BUILD = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import standin, waves
home = Path(sys.argv[2])
pieces = tuple(map(tuple, json.loads(sys.argv[3])))
sensor = waves.Sensor("test", float(sys.argv[4]), "part")
wave = waves.Wave("test", pieces)
print(json.dumps(standin.environment(standin.build(home), wave, sensor, home)))
"""
READ = """
import json, time
from gramwatt.collectors.devices.nvml import Nvml
from gramwatt.collectors.devices.nvml import Pynvml
nvml, found = Pynvml(), []
port = Nvml(nvml)
port.open()
for _ in range(60):
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    counter_mj, power_mw, _ = port.read(0)
    found.append([before, time.clock_gettime(time.CLOCK_BOOTTIME), counter_mj, power_mw])
    time.sleep(0.017)
rising = nvml.ask("energy_mj", 0) >= counter_mj
print(json.dumps([nvml.ask("name", 0), nvml.ask("limit_mw", 0), rising, found]))
"""


def readings_in_c(root: Path, home: Path) -> list[list[float]]:
    folder = str(root / "benchmarks" / "meter_accuracy")
    line = [sys.executable, "-c", BUILD, folder, str(home), json.dumps(PIECES), str(PERIOD_S)]
    environ = json.loads(run(line))
    name, limit_mw, rising, found = json.loads(run([sys.executable, "-c", READ], environ))
    assert (name, limit_mw, rising) == ("Stand-in GPU", 700_000, True)
    return found


def readings_in_python() -> list[list[float]]:
    """For machines without a C compiler: the same numbers through the same probe."""
    clock = VirtualClock()
    board = {"waveform": WAVE, "update_period_s": PERIOD_S, "power": "part"}
    port = Nvml(SyntheticNvml({"gpus": [board]}, clock))
    found = []
    for _ in range(60):
        clock.sleep(0.017)
        at_s = clock.now_ns() / NS_PER_S
        found.append([at_s, at_s, *port.read(0)[:2]])
    return found


def run(command: list[str], environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_counter_and_power_are_those_of_the_wave(root: Path, tmp_path: Path) -> None:
    found = readings_in_c(root, tmp_path) if COMPILER else readings_in_python()
    wave: Any = waveform(WAVE)
    assert len({counter_mj for _, _, counter_mj, _ in found}) >= 15  # a second of 50 ms ticks
    for before_s, after_s, counter_mj, power_mw in found:
        ticks_s = [int(at_s / PERIOD_S + 1e-9) * PERIOD_S for at_s in (before_s, after_s)]
        low_mj, high_mj = (wave.energy_j(tick_s) * 1000 for tick_s in ticks_s)
        assert low_mj - 1 <= counter_mj <= high_mj + 1
        if ticks_s[0] == ticks_s[1]:
            seen_j = wave.energy_j(ticks_s[0]) - wave.energy_j(ticks_s[0] - PERIOD_S / 4)
            assert power_mw == pytest.approx(1000 * seen_j / (PERIOD_S / 4), abs=2)
