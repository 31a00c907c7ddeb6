"""MIG slices: which one a job fits, and what a present one means.

A slice has so many sevenths of the processors and eighths of the memory of its board (NVIDIA,
Multi-Instance GPU User Guide). The board's power is not measured by slice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gramwatt.sci.catalog.catalog import Hardware

NAME = re.compile(r"(?P<board>.+?)[\s:]+(?:MIG\s+)?(?P<slice>[1-7]g\.\d+gb)", re.IGNORECASE)
EIGHTHS: Mapping[int, int] = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
"""Eighths of the memory by sevenths of the processors."""
BOARDS = ("nvidia-a100-", "nvidia-h100-", "nvidia-h200-", "nvidia-b200")
"""Parts of seven slices."""


def split_name(name: str) -> tuple[str, str | None]:
    """Board and slice of a name such as "A100-SXM4-80GB MIG 1g.10gb"; no slice in other names."""
    found = NAME.fullmatch(name.strip())
    return (found["board"], found["slice"].lower()) if found else (name, None)


def fitting_slice(part: Hardware, memory_gib: float, busy: float) -> str | None:
    """The smallest slice that holds a job by memory and busy share; None for boards without any."""
    if not part.id.startswith(BOARDS) or not part.memory_gb:
        return None
    for sevenths, eighths in EIGHTHS.items():
        has = part.memory_gb * eighths / 8
        if memory_gib <= has and busy <= sevenths / 7 and sevenths < 7:
            return f"{sevenths}g.{has:.0f}gb"
    return None


def no_ratio(board: str, name: str) -> str:
    """Why a job on a slice is not compared."""
    return (
        f"no verdict: {name} is a slice of {board}, whose power other slices draw too, and no "
        "measurement compares slices. For the whole board give its id, and the power, memory and "
        "busy share of all that runs on it"
    )
