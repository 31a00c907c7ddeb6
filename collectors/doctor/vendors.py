"""Vendors other than NVIDIA: which are here, whether their library loads, what devices give."""

from __future__ import annotations

from gramwatt.collectors.devices.port import DevicePort, NotSupported, SourceError
from gramwatt.collectors.doctor.finding import Finding, Target, known_kind
from gramwatt.collectors.sources.nvml import Nvml
from gramwatt.collectors.sources.vendors import present, vendors

NEVER_RUN = "this source was never run on its hardware"


def others(target: Target) -> list[Finding]:
    """A finding for each device of each vendor here, and one for all that are not."""
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
