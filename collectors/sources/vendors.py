"""The vendors whose devices are read, and what their sources share.

How to add a vendor: docs/extending.md. A vendor's library is imported when its
devices are here and its source is opened, so absent ones cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from gramwatt.collectors.common.files import text_of
from gramwatt.collectors.devices.port import DevicePort, Place, SourceAbsent

VENDORS = [
    "amd:AmdSmi",
    "gaudi:Pyhlml",
    "apple:AppleSilicon",
    "jetson:Jetson",
    "neuron:Neuron",
    "tpu:Tpu",
    "nvml:Nvml",
]
"""Module in this folder and its DevicePort. NVIDIA is last: that there is no NVML is worth a notice
only where nothing else is measured."""

Load = Callable[[], Any]
"""Imports a vendor's library; tests pass a fake module."""


def vendors() -> list[type[DevicePort]]:
    """Return the source of every vendor."""
    found = (entry.partition(":") for entry in VENDORS)
    return [getattr(import_module(f"{__package__}.{module}"), name) for module, _, name in found]


def present(place: Place) -> list[type[DevicePort]]:
    """Return the sources of the vendors whose devices this process can see."""
    return [vendor for vendor in vendors() if vendor.present(place)]


def ports(place: Place) -> list[DevicePort]:
    """Return a source for each vendor present, not yet open."""
    return [vendor.at(place) for vendor in present(place)]


def selecting_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide which devices a job has, as far as they are set.

    A rank sends them to the meter of its node.
    """
    names = {name for vendor in vendors() for name in vendor.variables}
    return {name: text for name, text in environ.items() if name in names}


def accelerator_makers(root: Path) -> set[str]:
    """Return the PCI vendor ids behind the kernel's accel class."""
    folder = root / "sys/class/accel"
    found = folder.glob("accel*/device/vendor") if folder.exists() else ()
    return {text for path in found if (text := text_of(path))}


def library(module: str, advice: str) -> Load:
    """Return the import of a vendor's library, which comes with the vendor's drivers and is not a
    dependency of gramwatt. It raises SourceAbsent with `advice` when it cannot be imported.
    """

    def load() -> Any:
        import contextlib
        import io

        try:
            # Some print to standard output, which is the meter's line to its client.
            with contextlib.redirect_stdout(io.StringIO()):
                return import_module(module)
        except Exception as error:  # KeyError and AttributeError too: versions that do not match
            text = f"{module} cannot be imported ({type(error).__name__}: {error}); {advice}"
            raise SourceAbsent(text) from None

    return load


def rated_w(name: str) -> tuple[float, float] | None:
    """Return idle and rated power of a part [W] by the user's catalog; idle 0 where it has none.

    None where it has no rated power of that name: nothing is guessed. An overlay that cannot be
    used is left out here; reading the job's settings reports what is wrong with it.
    """
    from gramwatt.collectors.common.catalogs import read_catalog, user_catalog
    from gramwatt.sci.base.errors import GramwattError
    from gramwatt.sci.catalog.overlay import OverlayError

    try:
        try:
            catalog = user_catalog()
        except OverlayError:
            catalog = read_catalog(None)
        part = catalog.hardware(name)
    except (GramwattError, OSError):
        return None
    if part.tdp_w is None:
        return None
    return (part.idle_w.value if part.idle_w else 0.0), part.tdp_w
