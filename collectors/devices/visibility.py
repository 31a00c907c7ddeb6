"""Which GPUs the job has: exactly these are billed, idle or not.

The first variable that is set decides: CUDA_VISIBLE_DEVICES, then Slurm's and the container
runtime's. What it names and the driver does not list is left out with a notice; nothing is ever
billed because a name was not understood. docs/measuring.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gramwatt.collectors.devices.base import MigSlice

CUDA, STEP, ORDINAL = "CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "GPU_DEVICE_ORDINAL"
SLURM_JOB, NVIDIA = "SLURM_JOB_GPUS", "NVIDIA_VISIBLE_DEVICES"
DECIDING = (CUDA, STEP, ORDINAL, SLURM_JOB, NVIDIA)
OTHER_VENDORS = (
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "AMD_VISIBLE_DEVICES",
    "HABANA_VISIBLE_MODULES",
    "HABANA_VISIBLE_DEVICES",
    "NEURON_RT_VISIBLE_CORES",
    "TPU_VISIBLE_CHIPS",
    "TPU_VISIBLE_DEVICES",
)
"""Read by `visible_vendors`; a rank hands them on to the meter of its node."""
NONE_WORDS = frozenset({"", "-1", "none", "nodevfiles"})
ALL_WORDS = frozenset({"all", "void"})
"""`void` is what container runtimes set when they hand devices in by another way (CDI): the driver
then lists exactly the container's devices."""
SHORTEST_UUID = 4
"""`GPU-` alone would match every board; NVIDIA asks for enough digits to be unique."""


class Board(NamedTuple):
    """A device the driver lists, in PCI bus order."""

    ordinal: int
    uuid: str
    name: str
    slices: tuple[MigSlice, ...] = ()


class Billed(NamedTuple):
    """A board or MIG slice the job pays for, and its share (0, 1] of the board."""

    board: Board
    device_id: str
    share: float


class Visible(NamedTuple):
    """What is billed, and what could not be matched, in sentences."""

    billed: tuple[Billed, ...]
    remarks: tuple[str, ...]


def deciding(environ: Mapping[str, str]) -> str | None:
    """The variable that says which devices the job has; None when none is set."""
    return next((name for name in DECIDING if name in environ), None)


def wants_none(environ: Mapping[str, str]) -> bool:
    """Whether the environment says that the job has no GPU at all."""
    name = deciding(environ)
    return name is not None and environ[name].split(",")[0].strip().lower() in NONE_WORDS


def relevant(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that `visible` reads, as far as they are set."""
    names = (*DECIDING, "CUDA_DEVICE_ORDER", "SLURM_JOB_ID", *OTHER_VENDORS)
    return {name: environ[name] for name in names if name in environ}


def visible(environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """The devices of the job among `boards`."""
    name = deciding(environ)
    if name is None or environ[name].strip().lower() in ALL_WORDS:
        remarks = _unreserved(environ, boards) if name is None else ()
        return Visible(tuple(_whole(board) for board in boards), remarks)
    if wants_none(environ):
        return Visible((), ())
    entries = [entry.strip() for entry in environ[name].split(",")]
    if name in (STEP, SLURM_JOB, NVIDIA):
        return _by_global_ids(name, entries, boards)
    return _by_cuda_rules(name, entries, boards, environ)


def _by_cuda_rules(
    name: str, entries: list[str], boards: Sequence[Board], environ: Mapping[str, str]
) -> Visible:
    """CUDA's own reading: the list ends at the first entry that is no device."""
    billed: dict[str, Billed] = {}
    remarks = []
    for entry in entries:
        if entry.lower() in NONE_WORDS:
            break
        match = _match(entry, boards)
        if match is None:
            remarks.append(
                f"{name} names {entry!r}, which is not one device here; it is not billed."
            )
            break
        billed[match.device_id] = match
    if _order_unsure(billed, boards, entries, environ):
        remarks.append(
            f"{name} counts different models in CUDA's own order; they are taken in PCI order. "
            "Set CUDA_DEVICE_ORDER=PCI_BUS_ID to be sure."
        )
    return Visible(tuple(billed.values()), tuple(remarks))


def _by_global_ids(name: str, entries: list[str], boards: Sequence[Board]) -> Visible:
    """Ids of the whole node, which a container or cgroup may list again from 0."""
    if len(entries) == len(boards) and all(entry.isdecimal() for entry in entries):
        return Visible(tuple(_whole(board) for board in boards), ())
    billed: dict[str, Billed] = {}
    remarks = []
    for entry in entries:
        match = _match(entry, boards)
        if match is None:
            remarks.append(
                f"{name} names {entry!r}, which is not one device here; it is not billed."
            )
        else:
            billed[match.device_id] = match
    return Visible(tuple(billed.values()), tuple(remarks))


def _match(entry: str, boards: Sequence[Board]) -> Billed | None:
    """The one device an entry means: index, UUID, beginning of a UUID, or MIG id."""
    if entry.isdecimal():
        return _whole(boards[int(entry)]) if int(entry) < len(boards) else None
    if entry.upper().startswith("MIG-"):
        return _match_slice(entry, boards)
    wanted = entry if entry.upper().startswith("GPU-") else f"GPU-{entry}"
    if len(wanted) <= SHORTEST_UUID:
        return None
    found = [board for board in boards if board.uuid.lower().startswith(wanted.lower())]
    return _whole(found[0]) if len(found) == 1 else None


def _match_slice(entry: str, boards: Sequence[Board]) -> Billed | None:
    slices = [(board, part) for board in boards for part in board.slices]
    found = [pair for pair in slices if pair[1].uuid.lower().startswith(entry.lower())]
    if len(found) != 1 or len(entry) <= SHORTEST_UUID:
        return None
    board, part = found[0]
    return Billed(board, part.uuid.replace("/", ":"), part.share)


def _whole(board: Board) -> Billed:
    return Billed(board, board.uuid, 1.0)


def _order_unsure(
    billed: Mapping[str, Billed],
    boards: Sequence[Board],
    entries: list[str],
    environ: Mapping[str, str],
) -> bool:
    mixed = len({board.name for board in boards}) > 1
    by_index = any(entry.isdecimal() for entry in entries)
    sure = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len(billed) == len(boards)
    return mixed and by_index and not sure


def _unreserved(environ: Mapping[str, str], boards: Sequence[Board]) -> tuple[str, ...]:
    if "SLURM_JOB_ID" not in environ or not boards:
        return ()
    return ("Slurm names no GPU of this job; every GPU that the driver lists to it is billed.",)
