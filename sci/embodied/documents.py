"""Accelerators and CPUs of the catalog as JSON-ready data, with their embodied carbon."""

from __future__ import annotations

from typing import Any

from gramwatt.sci.catalog.hardware import Cpu, Hardware
from gramwatt.sci.embodied.accelerators import accelerator_te
from gramwatt.sci.embodied.hosts import socket_te
from gramwatt.sci.embodied.te import Embodied


def hardware_doc(part: Hardware) -> dict[str, Any]:
    """An accelerator with its TE [gCO2e]; null where not known."""
    doc = part.to_doc()
    sources = doc.pop("sources")
    return doc | _embodied(accelerator_te(part)) | {"sources": sources}


def cpu_doc(cpu: Cpu) -> dict[str, Any]:
    """A CPU with the TE of one socket [gCO2e]."""
    return cpu.to_doc() | _embodied(socket_te(cpu))


def _embodied(found: Embodied | None) -> dict[str, Any]:
    return {
        "embodied_g": found.te_g.to_doc() if found else None,
        "embodied_tier": found.tier if found else None,
        "embodied_stages": found.stages if found else None,
        "embodied_includes_host": found.includes_host if found else None,
    }
