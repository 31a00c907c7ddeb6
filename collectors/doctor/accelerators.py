"""Accelerators: which NVML functions answer, what other vendors give, and which a job has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from gramwatt.collectors.common.clock import SystemClock
from gramwatt.collectors.common.files import text_of
from gramwatt.collectors.devices.board import (
    Board,
    DevicePort,
    NotSupported,
    SourceAbsent,
    SourceError,
    present,
    vendors,
)
from gramwatt.collectors.devices.nvml import FAST_FIELDS, Nvml, chosen_calls, deciding
from gramwatt.collectors.doctor.finding import Finding, State, Target, known_kind
from gramwatt.sci.base.quantity import Kind

NVIDIA_PCI = "0x10de"
FUNCTIONS = {
    "energy_mj": "nvmlDeviceGetTotalEnergyConsumption",
    "power_mw": "nvmlDeviceGetPowerUsage",
    "utilisation_percents": "nvmlDeviceGetUtilizationRates",
    "memory_b": "nvmlDeviceGetMemoryInfo",
    "limit_mw": "nvmlDeviceGetEnforcedPowerLimit",
    "temperature_c": "nvmlDeviceGetTemperature",
    "encoder_percent": "nvmlDeviceGetEncoderUtilization",
    "clock_reasons": "nvmlDeviceGetCurrentClocksEventReasons",
    "fields": "nvmlDeviceGetFieldValues",
}
"""NVML's functions by the calls that measuring uses, best source of energy first."""
INSTALL = "install NVIDIA's driver, then `nvidia-smi` must list the GPU"
FLAGS = (
    "start the container with `--gpus all` (Docker) or `--device nvidia.com/gpu=all` (Podman)\n"
    "and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
)
NEVER_RUN = "this source was never run on its hardware"


def nvidia(target: Target) -> list[Finding]:
    """Return NVML, each GPU with each call, and the devices a job here would be billed for."""
    try:
        port = Nvml(target.nvml or chosen_calls(target.environ, SystemClock()))
        port.open()
    except SourceAbsent as error:
        return [_without_driver(target, error.message)]
    try:
        count = port.count()
        if count == 0:
            text = "the driver answers but lists no GPU"
            return [Finding("NVML", "missing", text, FLAGS if target.in_container else INSTALL)]
        found = [_gpu(port, index) for index in range(count)]
        return [_library(port, count), *found, _billed(target, port, count)]
    finally:
        port.close()


def _library(port: Nvml, count: int) -> Finding:
    try:
        driver = f"driver {port.calls.driver()}"
    except SourceError as error:
        driver = f"driver version unknown ({error.code})"
    if port.meter != "nvml":
        text = f"{port.meter} replaces NVML: its figures are not of this hardware"
        return Finding("NVML", "limited", text, "unset GRAMWATT_NVML to measure the real GPUs")
    return Finding("NVML", "ok", f"{driver}, {count} GPU{'s' if count > 1 else ''}")


def _without_driver(target: Target, why: str) -> Finding:
    nodes = (target.root / "dev/nvidiactl").exists()
    if nodes:
        text = f"{why}; the device nodes are here, so the library is not"
        return Finding("NVML", "missing", text, FLAGS if target.in_container else INSTALL)
    if not _has_nvidia_pci(target.root):
        return Finding("NVML", "absent", f"no NVIDIA GPU on this machine's PCI bus ({why})")
    text = f"{why}; there is an NVIDIA GPU on the PCI bus"
    return Finding("NVML", "missing", text, FLAGS if target.in_container else INSTALL)


def _has_nvidia_pci(root: Path) -> bool:
    folder = root / "sys/bus/pci/devices"
    if not folder.exists():
        return True  # not known: the driver's own answer stands
    return any(text_of(path) == NVIDIA_PCI for path in folder.glob("*/vendor"))


def _gpu(port: Nvml, index: int) -> Finding:
    failures = _failures(port, index)
    kind, source = _energy_source(port, index, failures)
    state: State = "ok"
    if kind is None:
        state = "missing"
    elif set(failures) - {"fields"}:
        state = "limited"
    detail = f"{_answer(port, 'name', index)} {_answer(port, 'uuid', index)}: {source}"
    if failures:
        calls = (f"{FUNCTIONS[call]} ({code})" for call, code in failures.items())
        detail += f"; no answer from {', '.join(calls)}"
    lost = "device-lost" in failures.values()
    fix = "the GPU is lost: `nvidia-smi -r` or a reboot brings it back" if lost else None
    return Finding(f"GPU {index}", state, detail, fix, kind)


def _energy_source(port: Nvml, index: int, failures: Mapping[str, str]) -> tuple[Kind | None, str]:
    """Return how the GPU's energy is known, and where it comes from in words."""
    try:
        has_counter = port.read(index).counter_mj is not None
    except NotSupported:
        return None, "neither energy nor power can be read; its energy stays unknown"
    except Exception:  # lost, for instance: what it offers is not known now
        has_counter = False
    if has_counter or "energy_mj" not in failures:
        return "measured", "energy counter"
    text = "no counter (parts before Volta, virtual GPUs): sampled power is integrated"
    return "integrated", text


def _failures(port: Nvml, index: int) -> dict[str, str]:
    """Return the error code by call, of the calls that do not answer."""
    calls: dict[str, Callable[[], object]] = {
        call: partial(port.calls.ask, call, index) for call in FUNCTIONS
    }
    calls["fields"] = partial(port.calls.fields, index, FAST_FIELDS)
    codes = {call: _error_code(action) for call, action in calls.items()}
    return {call: code for call, code in codes.items() if code}


def _error_code(call: Callable[[], object]) -> str | None:
    try:
        call()
    except SourceError as error:
        return error.code
    except Exception as error:
        return type(error).__name__
    return None


def _answer(port: Nvml, call: str, index: int) -> str:
    try:
        return str(port.calls.ask(call, index))
    except Exception:
        return "unknown"


def _billed(target: Target, port: Nvml, count: int) -> Finding:
    """Return which GPUs a job started here would be billed for, and the variable that decides."""
    boards = [
        Board(i, _answer(port, "uuid", i), _answer(port, "name", i), port.calls.slices(i))
        for i in range(count)
    ]
    found = port.visible(target.environ, boards)
    name = deciding(target.environ)
    reason = f"{name}={target.environ[name]}" if name else "no variable names any"
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


def others(target: Target) -> list[Finding]:
    """Return a finding for each device of each vendor here, and one for all that are not."""
    here = [vendor for vendor in present(target.place) if vendor is not Nvml]
    found = [item for vendor in here for item in _vendor(vendor.at(target.place))]
    names = [vendor.title for vendor in vendors() if vendor not in (*here, Nvml)]
    if names:
        listed = ", ".join(names)
        found.append(Finding("other vendors", "absent", f"no device here of: {listed}"))
    return found


def _vendor(port: DevicePort) -> list[Finding]:
    try:
        port.open()
    except SourceError as error:
        why, _, advice = error.message.partition("; ")
        detail = f"found, but it cannot be read: {why}; its energy stays unknown"
        return [Finding(port.title, "missing", detail, advice or None)]
    try:
        return [_device(port, index) for index in range(port.count())]
    finally:
        port.close()


def _device(port: DevicePort, index: int) -> Finding:
    what, board = f"{port.title} {index}", port.board(index)
    name = f"{board.name} {board.uuid}"
    kind = port.sampled_kind
    try:
        if port.read(index).counter_mj is not None:
            kind = "measured"
    except NotSupported as error:
        return Finding(what, "missing", f"{name}: {error.message}")
    except SourceError:  # a passing reason
        pass
    kind = "attributed" if board.share < 1 and kind != "derived" else kind
    source = {
        "measured": "energy counter",
        "attributed": f"1 of {round(1 / board.share)} devices behind one sensor",
        "integrated": "no counter: sampled power is integrated",
        "derived": "a percentage of the catalog's rated power",
    }[kind]
    scope = "; the host is inside this figure" if board.includes_host else ""
    detail = f"{name}: {source}{scope}; {NEVER_RUN}"
    return Finding(what, "limited", detail, None, known_kind(kind))
