"""Accelerators: what the meter's own sources answer here, and which devices a job has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gramwatt.collectors.devices.board import (
    Board,
    DevicePort,
    NotSupported,
    SourceAbsent,
    SourceError,
    boards_of,
    counted,
    pci_devices,
    present,
    vendors,
)
from gramwatt.collectors.devices.library import crash_of
from gramwatt.collectors.devices.nvml import (
    CALLS,
    FAST_FIELDS,
    FIXES,
    NO_PERMISSION,
    PROFILE,
    UNKNOWN_ERROR,
    Nvml,
    deciding,
)
from gramwatt.collectors.devices.visibility import SHARED_GPU
from gramwatt.collectors.doctor.finding import Finding, State, Target
from gramwatt.sci.figures.quantity import Kind

NVIDIA_PCI = "0x10de"
ASKED = ("energy_mj", "power_mw", *PROFILE)
"""The calls that measuring uses, best source of energy first."""
FIELDS = "nvmlDeviceGetFieldValues"
INSTALL = "install NVIDIA's driver, then `nvidia-smi` must list the GPU"
FLAGS = (
    "start the container with `--gpus all` (Docker) or `--device nvidia.com/gpu=all` (Podman)\n"
    "and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
)
CRASHED = "install another release of the driver; jobs are measured without these devices meanwhile"
LOST = "the GPU is lost: `nvidia-smi -r` or a reboot brings it back"
NEVER_RUN = "this source was never run on its hardware"
UNKNOWN = "its energy stays unknown"


def nvidia(target: Target) -> list[Finding]:
    """Return NVML, each GPU with each call, and the devices a job here would be billed for."""
    port = target.nvml or Nvml.at(target.place)

    def described(boards: Sequence[Board]) -> list[Finding]:
        if not boards and (refused := port.count()):
            text = f"this user may open none of {refused} GPUs, so a job here has none"
            return [Finding("NVML", "missing", text, FIXES[NO_PERMISSION])]
        if not boards:
            text = "the driver answers but lists no GPU"
            return [Finding("NVML", "missing", text, FLAGS if target.in_container else INSTALL)]
        gpus = [_gpu(target, port, board) for board in boards]
        return [_library(port, len(boards)), *gpus, _billed(target, port, boards)]

    return _examined(port, "NVML", lambda error: _without_driver(target, error), described)


def others(target: Target) -> list[Finding]:
    """Return a finding for each device of each vendor here, and one for all that are not."""
    here = [vendor for vendor in present(target.place) if vendor is not Nvml]
    findings = [item for vendor in here for item in _vendor(target, vendor.at(target.place))]
    names = [vendor.title for vendor in vendors() if vendor not in (*here, Nvml)]
    if names:
        listed = ", ".join(names)
        findings.append(Finding("other vendors", "absent", f"no device here of: {listed}"))
    return findings


def _vendor(target: Target, port: DevicePort) -> list[Finding]:
    def absent(error: SourceAbsent) -> Finding:
        detail = f"found, but it cannot be read: {error.message}; {UNKNOWN}"
        return Finding(port.title, "missing", detail, error.fix or None)

    def described(boards: Sequence[Board]) -> list[Finding]:
        visible = port.visible(target.environ, boards)
        billed = {item.board.ordinal for item in visible.billed}
        devices = [_device(port, board, billed=board.ordinal in billed) for board in boards]
        texts = (*port.remarks(), *visible.remarks)
        return devices + [Finding(port.title, "limited", text.rstrip(".")) for text in texts]

    return _examined(port, port.title, absent, described)


def _examined(
    port: DevicePort,
    what: str,
    absent: Callable[[SourceAbsent], Finding],
    described: Callable[[Sequence[Board]], list[Finding]],
) -> list[Finding]:
    """Return the findings on a vendor's devices, or on why they cannot be listed."""
    if crash := crash_of(port):
        return [Finding(what, "missing", f"{crash}; {UNKNOWN}", CRASHED)]
    try:
        port.open()
        return described(boards_of(port, "unknown"))
    except SourceAbsent as error:
        return [absent(error)]
    except SourceError as error:
        text = f"the driver does not count its devices: {error.message}; {UNKNOWN}"
        return [Finding(what, "missing", text, FIXES[UNKNOWN_ERROR])]
    finally:
        port.close()


def _library(port: Nvml, count: int) -> Finding:
    if port.meter != "nvml":
        text = f"{port.meter} replaces NVML: its figures are not of this hardware"
        return Finding("NVML", "limited", text, "unset GRAMWATT_NVML to measure the real GPUs")
    driver = port.driver()
    text = f"driver {driver}" if driver else "driver version unknown"
    text += f", {count} GPU{'s' if count > 1 else ''}"
    remarks = port.remarks()
    return Finding("NVML", "limited" if remarks else "ok", "; ".join((text, *remarks)))


def _without_driver(target: Target, error: SourceAbsent) -> Finding:
    nodes = (target.root / "dev/nvidiactl").exists()
    bus = (target.root / "sys/bus/pci/devices").exists()  # else the driver's own answer stands
    if bus and not (nodes or error.seen or pci_devices(target.root, NVIDIA_PCI)):
        text = f"no NVIDIA GPU on this machine's PCI bus ({error.message})"
        return Finding("NVML", "absent", text)
    where = "there is an NVIDIA GPU on the PCI bus"
    if nodes or error.seen:
        where = "the device nodes are here" if nodes else "the driver is here"
    fix = error.fix or (FLAGS if target.in_container else INSTALL)
    return Finding("NVML", "missing", f"{error.message}; {where}", fix)


def _gpu(target: Target, port: Nvml, board: Board) -> Finding:
    failures = _failures(port, board.ordinal)
    kind, source = _energy_source(port, board)
    state: State = "ok"
    if kind is None:
        state = "missing"
    elif failures.keys() - {FIELDS}:
        state = "limited"
    detail = f"{board.name} {board.uuid if board.described else 'of unknown id'}: {source}"
    if failures:
        calls = (f"{name} ({code})" for name, code in failures.items())
        detail += f"; no answer from {', '.join(calls)}"
    if SHARED_GPU in target.environ and _error_code(partial(port.users, board.ordinal)):
        state = "limited" if state == "ok" else state
        detail += f"; {SHARED_GPU} is set, and who uses it is not listed: it cannot be divided"
    fix = LOST if "device-lost" in failures.values() else None
    return Finding(f"GPU {board.ordinal}", state, detail, fix, kind)


def _energy_source(port: DevicePort, board: Board) -> tuple[Kind | None, str]:
    """Return how a device's energy is known, and where it comes from in words, by a reading as the
    meter takes it.
    """
    try:
        counter_mj = port.read(board.ordinal).counter_mj
    except NotSupported as error:
        return None, f"{error.message}; {UNKNOWN}"
    except Exception as error:  # lost, for instance
        return None, f"it does not answer now ({error}); until it does, {UNKNOWN}"
    if board.share < 1 and port.sampled_kind != "derived":
        return "attributed", f"1 of {round(1 / board.share)} devices behind one sensor"
    if counter_mj is not None:
        return "measured", "energy counter"
    if port.sampled_kind == "derived":
        return "derived", "a percentage of the catalog's rated power"
    return port.sampled_kind, "no counter answers: sampled power is integrated"


def _failures(port: Nvml, index: int) -> dict[str, str]:
    """Return the error code by NVML's function, of those that do not answer."""
    codes = {CALLS[call][0]: _error_code(partial(port.ask, call, index)) for call in ASKED}
    codes[FIELDS] = _error_code(partial(port.fields, index, FAST_FIELDS))
    return {name: code for name, code in codes.items() if code}


def _error_code(call: Callable[[], object]) -> str | None:
    try:
        call()
    except SourceError as error:
        return error.code
    except Exception as error:
        return type(error).__name__
    return None


def _billed(target: Target, port: Nvml, boards: Sequence[Board]) -> Finding:
    """Return which GPUs a job started here would be billed for, and the variable that decides."""
    module = any(vendor.device_class == "module" for vendor in present(target.place))
    visible = port.visible(target.environ, boards)
    billed = counted(visible.billed, beside_module=module)
    parts = [
        f"GPU {item.board.ordinal}"
        + ("" if item.device_id == item.board.uuid else f" ({item.device_id})")
        for item in billed
    ]
    name = deciding(target.environ)
    detail = f"{name}={target.environ[name]}" if name else "no variable names any"
    detail += f": a job here has {', '.join(parts) or 'no GPU'} of {len(boards)}"
    kind: Kind | None = "attributed" if any(item.share < 1 for item in billed) else None
    if len(billed) < len(visible.billed):
        detail += "; what the module's sensors hold does not count again"
    if not visible.remarks:
        return Finding("visible GPUs", "ok", detail, None, kind)
    detail += "; " + " ".join(visible.remarks)
    fix = "name the GPUs by UUID, as `nvidia-smi -L` lists them"
    return Finding("visible GPUs", "limited", detail, fix, kind)


def _device(port: DevicePort, board: Board, *, billed: bool) -> Finding:
    what = f"{port.title} {board.ordinal}"
    name = f"{board.name} {board.uuid if board.described else 'of unknown id'}"
    if board.part_of == "processor":
        detail = f"{name}: part of the processor, in whose energy it is where a counter gives that"
        return Finding(what, "ok", detail)
    if not billed:
        return Finding(what, "ok", f"{name}: the environment gives it to no job here")
    kind, source = _energy_source(port, board)
    if kind is None:
        return Finding(what, "missing", f"{name}: {source}")
    scope = "; the host is inside this figure" if board.includes_host else ""
    return Finding(what, "limited", f"{name}: {source}{scope}; {NEVER_RUN}", None, kind)
