"""NVIDIA GPUs: what NVML answers, call by call, and which devices the job would be billed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.base import FAST_FIELDS, NvmlPort, SourceAbsent, SourceError
from gramwatt.collectors.doctor.finding import Finding, State, Surroundings
from gramwatt.collectors.gpu.reader import best_read
from gramwatt.collectors.meter.source_choice import nvml_port
from gramwatt.sci.base.quantity import Kind

NVIDIA_PCI = "0x10de"
CALLS = (
    *("energy_mj", "power_mw", "utilisation_percents", "memory_b", "limit_mw"),
    *("temperature_c", "encoder_percent", "clock_reasons"),
)
"""The calls of a GPU that measuring uses, best source of energy first."""
NAMES = {
    "fields": "nvmlDeviceGetFieldValues",
    "energy_mj": "nvmlDeviceGetTotalEnergyConsumption",
    "power_mw": "nvmlDeviceGetPowerUsage",
    "utilisation_percents": "nvmlDeviceGetUtilizationRates",
    "memory_b": "nvmlDeviceGetMemoryInfo",
    "limit_mw": "nvmlDeviceGetEnforcedPowerLimit",
    "temperature_c": "nvmlDeviceGetTemperature",
    "encoder_percent": "nvmlDeviceGetEncoderUtilization",
    "clock_reasons": "nvmlDeviceGetCurrentClocksEventReasons",
}
INSTALL = "install NVIDIA's driver, then `nvidia-smi` must list the GPU"
FLAGS = (
    "start the container with `--gpus all` (Docker) or `--device nvidia.com/gpu=all` (Podman)\n"
    "and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
)


def nvidia(around: Surroundings) -> list[Finding]:
    """NVML, each GPU with each call, and the devices a job here would be billed."""
    try:
        port = around.port or _default_port(around)
        port.open()
    except SourceAbsent as error:
        return [_without_driver(around, error.message)]
    try:
        count = port.count()
        if count == 0:
            text = "the driver answers but lists no GPU"
            return [Finding("NVML", "missing", text, FLAGS if around.in_container else INSTALL)]
        found = [_gpu(port, index) for index in range(count)]
        return [_library(port, count), *found, _billed(around, port, count)]
    finally:
        port.close()


def _default_port(around: Surroundings) -> NvmlPort:
    from gramwatt.collectors.common.clock import SystemClock

    return nvml_port(around.environ, SystemClock())


def _library(port: NvmlPort, count: int) -> Finding:
    try:
        driver = f"driver {port.driver()}"
    except SourceError as error:
        driver = f"driver version unknown ({error.code})"
    if port.meter != "nvml":
        text = f"{port.meter} stands in for it: nothing it says is of this hardware"
        return Finding("NVML", "limited", text, "unset GRAMWATT_NVML to measure the real GPUs")
    return Finding("NVML", "ok", f"{driver}, {count} GPU{'s' if count > 1 else ''}")


def _without_driver(around: Surroundings, why: str) -> Finding:
    nodes = (around.root / "dev/nvidiactl").exists()
    if nodes:
        text = f"{why}; the device nodes are here, so the library is not"
        return Finding("NVML", "missing", text, FLAGS if around.in_container else INSTALL)
    if not _has_nvidia_pci(around.root):
        return Finding("NVML", "absent", f"no NVIDIA GPU on this machine's PCI bus ({why})")
    text = f"{why}; there is an NVIDIA GPU on the PCI bus"
    return Finding("NVML", "missing", text, FLAGS if around.in_container else INSTALL)


def _has_nvidia_pci(root: Path) -> bool:
    folder = root / "sys/bus/pci/devices"
    if not folder.exists():
        return True  # cannot be told: the driver's own answer stands
    for path in folder.glob("*/vendor"):
        try:
            if path.read_text(encoding="ascii").strip() == NVIDIA_PCI:
                return True
        except OSError:
            continue
    return False


def _gpu(port: NvmlPort, index: int) -> Finding:
    silent = {call: code for call in CALLS if (code := _refusal(getattr(port, call), index))}
    if best_fields := _refusal(lambda i: port.fields(i, FAST_FIELDS), index):
        silent["fields"] = best_fields
    kind: Kind | None = None
    source = "neither energy nor power can be read; its energy stays unknown"
    if best_read(port, index) is not None:
        counted = "energy_mj" not in silent or _field_counter(port, index)
        kind = "measured" if counted else "integrated"
        source = (
            "energy counter"
            if counted
            else "no counter (parts before Volta, virtual GPUs): sampled power is integrated"
        )
    name = f"{_said(port.name, index)} {_said(port.uuid, index)}"
    calls = ", ".join(f"{NAMES[call]} ({code})" for call, code in silent.items())
    state: State = "missing" if kind is None else "ok"
    if kind and set(silent) - {"fields"}:
        state = "limited"
    detail = f"{name}: {source}" + (f"; no answer from {calls}" if calls else "")
    lost = "device-lost" in silent.values()
    fix = "the GPU is lost: `nvidia-smi -r` or a reboot brings it back" if lost else None
    return Finding(f"GPU {index}", state, detail, fix, kind)


def _field_counter(port: NvmlPort, index: int) -> bool:
    try:
        return port.fields(index, FAST_FIELDS)[0] is not None
    except Exception:
        return False


def _refusal(call: Callable[[int], object], index: int) -> str | None:
    try:
        call(index)
    except SourceError as error:
        return error.code
    except Exception as error:
        return type(error).__name__
    return None


def _said(call: Callable[[int], str], index: int) -> str:
    try:
        return call(index)
    except Exception:
        return "unknown"


def _billed(around: Surroundings, port: NvmlPort, count: int) -> Finding:
    """Which GPUs a job started here would pay for, and what says so."""
    boards = [
        visibility.Board(i, _said(port.uuid, i), _said(port.name, i), port.slices(i))
        for i in range(count)
    ]
    found = visibility.visible(around.environ, boards)
    name = visibility.deciding(around.environ)
    reason = f"{name}={around.environ[name]}" if name else "no variable names any"
    parts = [
        f"GPU {item.board.ordinal}"
        + ("" if item.device_id == item.board.uuid else f" ({item.device_id})")
        for item in found.billed
    ]
    detail = f"{reason}: a job here has {', '.join(parts) or 'no GPU'} of {count}"
    attributed: Kind | None = "attributed" if any(i.share < 1 for i in found.billed) else None
    if not found.remarks:
        return Finding("visible GPUs", "ok", detail, None, attributed)
    detail += "; " + " ".join(found.remarks)
    fix = "name the GPUs by UUID, as `nvidia-smi -L` lists them"
    return Finding("visible GPUs", "limited", detail, fix, attributed)
