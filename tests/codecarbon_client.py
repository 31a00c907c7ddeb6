"""A program that runs codecarbon's own client, unmodified; tests start it as a process.

Arguments: kind of tracker (`offline` or `online`), address of the API, seconds to run, number of
GPUs. The GPUs are two functions of time behind NVML's names, each at POWER_W. Prints what the
client itself says of the whole run, as JSON.
"""

import dataclasses
import json
import os
import sys
import tempfile
import time
from types import SimpleNamespace

POWER_W = 300
NAME = "NVIDIA H100 80GB HBM3"


def install_gpus(number):
    """Put boards at constant power behind NVML's functions, before codecarbon looks for them."""
    import pynvml

    folder = tempfile.mkdtemp()
    os.symlink("/bin/true", f"{folder}/nvidia-smi")  # codecarbon asks whether the program is there
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"

    started = time.monotonic()
    memory = SimpleNamespace(total=85_899_345_920, free=85_899_345_920, used=0)
    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: number,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _: NAME,
        "nvmlDeviceGetUUID": lambda index: f"GPU-{index:08d}-0000-4000-8000-000000000000",
        "nvmlDeviceGetTotalEnergyConsumption": lambda _: int(
            (time.monotonic() - started) * POWER_W * 1000
        ),
        "nvmlDeviceGetPowerUsage": lambda _: POWER_W * 1000,
        "nvmlDeviceGetEnforcedPowerLimit": lambda _: 700_000,
        "nvmlDeviceGetMemoryInfo": lambda _: memory,
        "nvmlDeviceGetTemperature": lambda *_: 50,
        "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=90, memory=10),
        "nvmlDeviceGetComputeMode": lambda _: 0,
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [],
        "nvmlDeviceGetGraphicsRunningProcesses": lambda _: [],
    }
    for name, answer in answers.items():
        setattr(pynvml, name, answer)


def main():
    kind, endpoint, seconds, gpus = sys.argv[1:]
    if int(gpus):
        install_gpus(int(gpus))
    from codecarbon import EmissionsTracker, OfflineEmissionsTracker

    settings = {
        "save_to_api": True,
        "save_to_file": False,
        "api_endpoint": endpoint,
        "experiment_id": "vision",
        "measure_power_secs": 1,
        "api_call_interval": 2,
        "log_level": "error",
    }
    if kind == "online":
        tracker = EmissionsTracker(**settings)
    else:
        tracker = OfflineEmissionsTracker(country_iso_code="FRA", **settings)
    tracker.start()
    time.sleep(float(seconds))
    tracker.stop()
    print(json.dumps(dataclasses.asdict(tracker.final_emissions_data)))


if __name__ == "__main__":
    main()
