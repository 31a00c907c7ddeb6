"""Vendors other than NVIDIA: which are here, whether their library loads, what devices give."""

from __future__ import annotations

from gramwatt.collectors.devices.base import SourceError
from gramwatt.collectors.doctor.finding import Finding, Target, known_kind
from gramwatt.collectors.gpu.reader import best_read
from gramwatt.collectors.sources.vendor import VendorPort
from gramwatt.collectors.sources.vendors import VENDORS, Vendor, present

NEVER_RUN = "this source was never run on its hardware"


def others(target: Target) -> list[Finding]:
    """A finding for each device of each vendor here, and one for all that are not."""
    here = present(target.place)
    found = [item for vendor in here for item in _vendor(vendor, target)]
    names = [vendor.name for vendor in VENDORS if vendor not in here]
    if names:
        listed = ", ".join(names)
        found.append(Finding("other vendors", "absent", f"no device here of: {listed}"))
    return found


def _vendor(vendor: Vendor, target: Target) -> list[Finding]:
    port = vendor.port(target.place)
    try:
        port.open()
    except SourceError as error:
        why, _, advice = error.message.partition("; ")
        detail = f"found, but it cannot be read: {why}; its energy stays unknown"
        return [Finding(vendor.name, "missing", detail, advice or None)]
    try:
        return [_device(vendor, port, index) for index in range(port.count())]
    finally:
        port.close()


def _device(vendor: Vendor, port: VendorPort, index: int) -> Finding:
    what = f"{vendor.name} {index}"
    name = f"{port.name(index)} {port.uuid(index)}"
    if best_read(port, index) is None:
        return Finding(what, "missing", f"{name}: {port.why_unread(index)}")
    kind = port.sampled_kind
    try:
        port.energy_mj(index)
        kind = "measured"
    except SourceError:
        pass
    shared = port.share(index) < 1
    kind = "attributed" if shared and kind != "derived" else kind
    source = {
        "measured": "energy counter",
        "attributed": f"1 of {round(1 / port.share(index))} devices behind one sensor",
        "integrated": "no counter: sampled power is integrated",
        "derived": "a percentage of the catalog's rated power",
    }[kind]
    scope = "; the host is inside this figure" if port.includes_host else ""
    detail = f"{name}: {source}{scope}; {NEVER_RUN}"
    return Finding(what, "limited", detail, None, known_kind(kind))
