"""MIG slices: their names, what of a board they have, and which one a job fits.

A slice has so many sevenths of the processors and eighths of the memory of its board, on an A30
quarters of both (NVIDIA, Multi-Instance GPU User Guide). A board's power is not measured by slice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gramwatt.sci.base.errors import AmbiguousName, ScoreError
from gramwatt.sci.catalog.catalog import Catalog, Hardware

_NAME = re.compile(
    r"(?P<board>.+?)[\s:]+(?:MIG\s+)?(?P<slice>(?:\dc\.)?[1-7]g\.\d+gb(?:\+\w+)?)", re.IGNORECASE
)
"""How drivers and users name a slice: by its board, and what it has of that."""
EIGHTHS: Mapping[int, float] = {1: 1 / 8, 2: 2 / 8, 3: 4 / 8, 4: 4 / 8, 7: 1.0}
"""Share of the memory by sevenths of the processors."""
QUARTERS: Mapping[int, float] = {1: 1 / 4, 2: 2 / 4, 4: 1.0}
"""The same on an A30, by quarters."""
SHARES: Mapping[int | None, Mapping[int, float]] = {7: EIGHTHS, 4: QUARTERS}
"""Shares of the memory by the number of slices of a board."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice by its name, with its share of the board's processors and its memory [GiB]."""

    board: Hardware
    name: str
    share: float
    memory_gib: float

    @property
    def id(self) -> str:
        """Return board and slice, as a request may name them."""
        return f"{self.board.id} MIG {self.name}"


def split_name(name: str) -> tuple[str, str | None]:
    """Return board and slice of a driver's or a user's "A100-SXM4-80GB MIG 1g.10gb".

    No slice for any other name.
    """
    found = _NAME.fullmatch(name.strip())
    return (found["board"], found["slice"].lower()) if found else (name, None)


def find_part(catalog: Catalog, name: str) -> tuple[Hardware, Slice | None]:
    """Return a board and, if the name has one, its slice.

    Raises LookupFailed, with the names of slices where a slice's board is ambiguous, or ScoreError.
    """
    board, piece = split_name(name)
    try:
        part = catalog.hardware(board)
    except AmbiguousName as error:
        if piece is None:
            raise
        boards = [catalog.hardware(choice) for choice in error.choices]
        fit = [one for one in boards if piece in {each.name for each in slices_of(one)}] or boards
        raise AmbiguousName("hardware", name, [f"{one.id} MIG {piece}" for one in fit]) from None
    return part, slice_of(part, piece) if piece else None


def slices_of(part: Hardware) -> list[Slice]:
    """Return the slices of a board, the smallest first; none of a part that cannot be sliced."""
    whole, memory = part.mig_slices, part.memory_gb
    if not memory or not whole:
        return []
    return [
        Slice(part, f"{count}g.{memory * share:.0f}gb", count / whole, memory * share)
        for count, share in SHARES[whole].items()
    ]


def slice_of(part: Hardware, name: str) -> Slice:
    """Return the slice of that name; raises ScoreError where the board has none of it.

    Names round the memory (an H100 of 94 GB has 1g.12gb), so the processors' share decides.
    """
    known = slices_of(part)
    for one in known:
        if one.name.split("g.")[0] == name.split("g.")[0]:
            return one
    names = ", ".join(one.name for one in known)
    text = f"{part.id} has no MIG slice {name}; it has {names or 'none'}"
    raise ScoreError(text, code="unknown-slice")


def fitting_slice(part: Hardware, memory_gib: float, busy: float) -> str | None:
    """Return the smallest slice that holds a job by memory and busy share; None without any."""
    for one in slices_of(part):
        if memory_gib <= one.memory_gib and busy <= one.share < 1:
            return one.name
    return None
