"""MIG slices and vGPUs: their names, what of a board they have, and which one a job fits.

The profiles of a board are in the catalog. Their names say what a slice has: "3g.40gb" three
slices of the processors and 40 GiB, "1c.3g.40gb" the processors of one of these three with the
memory of all. The name of a vGPU says how much memory it has ("A10-4Q" 4 GB), which stands for its
part of the board. A board's power is not measured by slice.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.printed import bare_part
from gramwatt.sci.figures.errors import AmbiguousName, ScoreError

_NAME = r"(?i)(?P<board>.+?)[\s:_-]+(?:MIG[\s_-]+)?(?P<slice>(?:\dc\.)?[1-7]g\.\d+gb(?:[+.-]\w+)*)"
"""How drivers, labels of Kubernetes and users name a slice: by its board, and what it has of it."""
_PROFILE = r"(?:(?P<own>\d)c\.)?(?P<profile>(?P<processors>\d)g\.(?P<memory>\d+)gb)(?:[+.-]\w+)*"


_VGPU = r"(?i)(?P<board>.+?)-(?P<slice>(?P<memory>\d+)[abcq])"
"""How drivers in virtual machines name a vGPU: by its board, memory [GB] and licence."""
_ALONE = (
    r"(?i)(?:\S*/)?(?:(?:nvidia[\s_-]+)?mig[\s_-]+)?(?P<slice>(?:\dc\.)?[1-7]g\.\d+gb(?:[+.-]\w+)*)"
)
"""A slice whose board is not said, as resources of Kubernetes name it."""
_SHARED = r"-shared$"
"""What labels of Kubernetes add to the name of a device that several containers take turns on."""


class Slice(Struct, frozen=True):
    """A slice by its name, with its share of the board's processors and its memory [GiB]."""

    board: Hardware
    name: str
    share: float
    memory_gib: float

    @property
    def id(self) -> str:
        """Return board and slice, as a request may name them."""
        return _slice_id(self.board.id, self.name)


def split_name(name: str) -> tuple[str, str | None]:
    """Return board and slice of a driver's or a user's "A100-SXM4-80GB MIG 1g.10gb".

    No slice for any other name.
    """
    bare = bare_part(name)
    named = re.fullmatch(_NAME, bare) or re.fullmatch(_VGPU, bare)
    if named is None:
        return name, None
    return named["board"], re.sub(_SHARED, "", named["slice"].lower())


def _slice_id(board: str, piece: str) -> str:
    return f"{board} MIG {piece}" if re.fullmatch(_PROFILE, piece) else f"{board}-{piece}"


def find_part(catalog: Catalog, name: str) -> tuple[Hardware, Slice | None]:
    """Return a board and, if the name has one, its slice.

    Raises LookupFailed, with the names of slices where a slice's board is ambiguous, or ScoreError.
    """
    if alone := re.fullmatch(_ALONE, bare_part(name)):
        return _on_any_board(catalog, name, alone["slice"].lower())
    board, piece = split_name(name)
    try:
        part = catalog.hardware(board)
    except AmbiguousName as error:
        if piece is None:
            raise
        boards = [catalog.hardware(choice) for choice in error.choices]
        fit = [board for board in boards if _has(board, piece)] or boards
        ids = [b.id if _is_whole(b, piece) else _slice_id(b.id, piece) for b in fit]
        raise AmbiguousName("hardware", name, ids) from None
    whole = piece is not None and _is_whole(part, piece)
    return part, slice_of(part, piece) if piece and not whole else None


def _on_any_board(catalog: Catalog, name: str, piece: str) -> tuple[Hardware, Slice]:
    """Return a slice and the board that has it; raises AmbiguousName where several boards do."""
    match = re.fullmatch(_PROFILE, piece)
    boards = [
        board
        for board in catalog.all_hardware()
        if match and match["profile"] in board.mig_profiles
    ]
    if len(boards) == 1:
        return boards[0], slice_of(boards[0], piece)
    if not boards:
        text = f"no board of the catalog has a MIG slice {piece}"
        raise ScoreError(text, code="unknown-slice")
    raise AmbiguousName("hardware", name, [_slice_id(board.id, piece) for board in boards])


def slices_of(part: Hardware) -> list[Slice]:
    """Return the slices of a board, the smallest first; none of a part that cannot be sliced."""
    return [_slice(part, profile) for profile in part.mig_profiles]


def slice_of(part: Hardware, name: str) -> Slice:
    """Return the slice of that name; raises ScoreError where the board has none of it.

    What follows the memory ("+me", "+gfx") says which media engines a slice has, and no more.
    """
    match = re.fullmatch(_PROFILE, name)
    if re.fullmatch(_VGPU, f"{part.id}-{name}") and vgpu_fraction(part, name) < 1:
        return Slice(part, name, vgpu_fraction(part, name), float(name[:-1]))
    if (
        match
        and match["profile"] in part.mig_profiles
        and 1 <= int(match["own"] or match["processors"]) <= int(match["processors"])
    ):
        return _slice(part, name)
    names = ", ".join(part.mig_profiles)
    text = f"{part.id} has no MIG slice {name}; it has {names or 'none'}"
    raise ScoreError(text, code="unknown-slice")


def vgpu_fraction(part: Hardware, name: str) -> float:
    """Return the part of a board's memory that a vGPU of that name ("4q") has; 1 of any other."""
    if not name[:-1].isdigit() or not part.memory_gb:
        return 1.0
    return min(1.0, float(name[:-1]) / part.memory_gb)


def _has(part: Hardware, piece: str) -> bool:
    """Tell whether a board has a slice of that name, or memory for a vGPU of it."""
    is_vgpu = piece[:-1].isdigit() and float(piece[:-1]) <= (part.memory_gb or 0)
    return is_vgpu or piece in part.mig_profiles


def _is_whole(part: Hardware, piece: str) -> bool:
    """Tell whether a vGPU of that name ("48q") has all of the board's memory."""
    return piece[:-1].isdigit() and float(piece[:-1]) == part.memory_gb


def _slice(part: Hardware, name: str) -> Slice:
    match = re.fullmatch(_PROFILE, name)
    assert match  # the catalog's profiles are tested, others were matched
    whole = re.fullmatch(_PROFILE, part.mig_profiles[-1])
    assert whole
    processors = int(match["own"] or match["processors"]) / int(whole["processors"])
    return Slice(part, name, processors, float(match["memory"]))
