"""Which vendors' devices this machine has, by device nodes and sysfs: no library is loaded for it.

Only the source of a vendor found here is imported, so absent libraries cost nothing. How to add a
vendor: docs/contributing.md ("Add a vendor").
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from gramwatt.collectors.common.files import text_of
from gramwatt.collectors.sources.vendor import VendorPort

HABANA_PCI, GOOGLE_PCI = "0x1da3", "0x1ae0"
"""PCI vendor ids: Habana Labs (Linux, habanalabs driver) and Google (tpu-info, device.py)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look for devices: root of the file system, environment, kind of system."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    platform: str = sys.platform
    machine: str = field(default_factory=lambda: os.uname().machine if hasattr(os, "uname") else "")


class Vendor(NamedTuple):
    """One vendor: how its devices are detected, and the source that reads them."""

    name: str
    present: Callable[[Place], bool]
    source: str
    """Module in this folder and its VendorPort, `module:Class`."""
    library: str
    """The library that the source imports, empty for one that reads files only."""

    def port(self, place: Place) -> VendorPort:
        """Import the source; it is not yet open."""
        module, _, name = self.source.partition(":")
        source: type[VendorPort] = getattr(import_module(f"{__package__}.{module}"), name)
        return source.at(place.root)


def present(place: Place | None = None) -> list[Vendor]:
    """The vendors whose devices this process can see."""
    where = place or Place()
    return [vendor for vendor in VENDORS if vendor.present(where)]


def ports(place: Place | None = None) -> list[VendorPort]:
    """A source for each vendor present, not yet open."""
    where = place or Place()
    return [vendor.port(where) for vendor in present(where)]


def _amd(place: Place) -> bool:
    # Without the right to open it the job cannot use the GPUs either.
    return os.access(place.root / "dev/kfd", os.R_OK | os.W_OK)


def _gaudi(place: Place) -> bool:
    old = (place.root / "dev/hl0").exists()
    return old or HABANA_PCI in _accelerators(place.root)


def _apple(place: Place) -> bool:
    return place.platform == "darwin" and place.machine == "arm64"


def _jetson(place: Place) -> bool:
    tegra = "nvidia,tegra" in (text_of(place.root / "proc/device-tree/compatible") or "")
    return tegra and any(
        (place.root / "sys/bus/i2c/drivers" / name).exists() for name in ("ina3221", "ina3221x")
    )


def _neuron(place: Place) -> bool:
    return (place.root / "sys/devices/virtual/neuron_device/neuron0").exists()


def _tpu(place: Place) -> bool:
    if GOOGLE_PCI in _accelerators(place.root):
        return True
    # Newer chips are passed through by vfio, as other devices are too: the PCI vendor decides.
    if not (place.root / "dev/vfio/0").exists() and not any(
        name in place.environ for name in ("TPU_VISIBLE_CHIPS", "TPU_WORKER_ID")
    ):
        return False
    devices = (place.root / "sys/bus/pci/devices").glob("*/vendor")
    return any(text_of(path) == GOOGLE_PCI for path in devices)


def _accelerators(root: Path) -> set[str]:
    """PCI vendors behind the kernel's accel class."""
    if not (root / "sys/class/accel").exists():
        return set()
    found = (root / "sys/class/accel").glob("accel*/device/vendor")
    return {text for path in found if (text := text_of(path))}


VENDORS = (
    Vendor("AMD GPU", _amd, "amd:AmdSmi", "amdsmi"),
    Vendor("Intel Gaudi", _gaudi, "gaudi:Pyhlml", "pyhlml"),
    Vendor("Apple silicon", _apple, "apple:AppleSilicon", "zeus_apple_silicon"),
    Vendor("NVIDIA Jetson", _jetson, "jetson:Jetson", ""),
    Vendor("AWS Neuron", _neuron, "neuron:Neuron", ""),
    Vendor("Google TPU", _tpu, "tpu:Tpu", "tpu_info"),
)
"""Every vendor but NVIDIA, whose GPUs are read through NVML (nvml.py)."""
