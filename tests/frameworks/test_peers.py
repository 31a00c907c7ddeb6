"""Zeus and codecarbon read the same synthetic NVML as our meter, and get the same joules."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from gramwatt.sci.figures.units import J_PER_KWH
from tests.collectors.rig import Rig, energy_j, gpu

PERIOD_S, PEAK_W, SECONDS = 0.1, 700.0, 61.3
LOADS: dict[str, dict[str, Any]] = {
    "steady": {"type": "constant", "power_w": 412.0},
    "steps": {"type": "square", "low_w": 90, "high_w": PEAK_W, "period_s": 7.0, "duty": 0.3},
    "fast": {"type": "square", "low_w": 100, "high_w": 500, "period_s": 0.23, "duty": 0.5},
}
"""Loads of a board; the second board of the machine has another."""
OTHER: dict[str, Any] = {"type": "constant", "power_w": 75.0}


def library(rig: Rig) -> dict[str, Callable[..., Any]]:
    """The functions of nvidia-ml-py that both programs call, answered by the synthetic NVML."""
    ask, nothing = rig.nvml.ask, lambda *_: None
    return {
        **dict.fromkeys(("nvmlInit", "nvmlShutdown"), nothing),
        "nvmlDeviceGetCount": rig.nvml.count,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda index: ask("name", index),
        "nvmlDeviceGetUUID": lambda index: ask("uuid", index),
        "nvmlDeviceGetArchitecture": lambda _: pynvml.NVML_DEVICE_ARCH_HOPPER,
        "nvmlDeviceGetTotalEnergyConsumption": lambda index: ask("energy_mj", index),
        "nvmlDeviceGetPowerUsage": lambda index: ask("power_mw", index),
        "nvmlDeviceGetEnforcedPowerLimit": lambda index: ask("limit_mw", index),
        "nvmlDeviceGetTemperature": lambda *_: 60,
        "nvmlDeviceGetComputeMode": lambda _: 0,
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [],
        "nvmlDeviceGetGraphicsRunningProcesses": lambda _: [],
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=2**36, used=2**35, free=2**35),
        "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=100, memory=40),
    }


@pytest.mark.parametrize("load", LOADS)
def test_joules_agree_within_an_update_of_the_counter(load, tmp_path, monkeypatch):
    boards = [gpu(wave, update_period_s=PERIOD_S) for wave in (LOADS[load], OTHER)]
    rig = Rig(tmp_path / "home", *boards)
    for name, function in library(rig).items():
        monkeypatch.setattr(pynvml, name, function)
    # Both look for a driver when they are imported.
    from codecarbon.core.gpu import AllGPUDevices
    from codecarbon.core.units import Time
    from zeus.monitor import ZeusMonitor

    codecarbon = AllGPUDevices()
    zeus = ZeusMonitor(gpu_indices=[0, 1])
    rig.clock.advance_ns(37_000_000)  # between two updates
    start_ns = rig.now()
    meter = rig.start()
    codecarbon.start()
    zeus.begin_window("job", sync_execution=False)
    rig.run(SECONDS, meter)
    window = zeus.end_window("job", sync_execution=False)
    deltas = codecarbon.get_delta(Time.from_seconds(SECONDS))
    end_ns = rig.clock.now_ns()
    rig.stop(meter)

    ours_j = [energy_j(rig.gpu_intervals(place)) for place in (0, 1)]
    for place, most_w in enumerate((PEAK_W, OTHER["power_w"])):
        for other_j in (window.gpu_energy[place], rig.truth_j(start_ns, end_ns, place)):
            assert ours_j[place] == pytest.approx(other_j, abs=most_w * PERIOD_S)
    theirs_j = sum(of["delta_energy_consumption"].kWh for of in deltas) * J_PER_KWH
    assert sum(ours_j) == pytest.approx(theirs_j, abs=(PEAK_W + OTHER["power_w"]) * PERIOD_S)
