"""Which devices the job has, by its environment: exactly these are billed, idle or not.

For NVIDIA the first variable that is set decides: CUDA_VISIBLE_DEVICES, then Slurm's and the
container runtime's; other vendors have their own rules. A device that a variable names and the
driver does not list is left out with a notice; a name that is not understood is never billed.
docs/measuring.md has the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gramwatt.collectors.devices.base import MigSlice

CUDA, STEP, ORDINAL = "CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "GPU_DEVICE_ORDINAL"
SLURM_JOB, NVIDIA = "SLURM_JOB_GPUS", "NVIDIA_VISIBLE_DEVICES"
DECIDING = (CUDA, STEP, ORDINAL, SLURM_JOB, NVIDIA)
ROCR, HIP, AMD_CONTAINER = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES"
HABANA, HABANA_MODULES = "HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES"
CORES, CORE_COUNT = "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"
LOGICAL_CORES = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
TPU_NAMES = ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES")
OTHER_VENDORS = (ROCR, HIP, AMD_CONTAINER, HABANA_MODULES, HABANA, CORES, *TPU_NAMES)
"""A rank sends these to the meter of its node, as it does NVIDIA's."""
NONE_WORDS = frozenset({"", "-1", "none", "nodevfiles"})
ALL_WORDS = frozenset({"all", "void"})
"""`void` is what container runtimes set when they pass devices by another mechanism (CDI): the
driver then lists exactly the container's devices."""
SHORTEST_UUID = 4
"""`GPU-` alone would match every board; NVIDIA requires enough digits to be unique."""


class Board(NamedTuple):
    """A device the driver lists; NVIDIA's in PCI bus order."""

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
    """The devices that are billed, and in sentences what could not be matched."""

    billed: tuple[Billed, ...]
    remarks: tuple[str, ...] = ()


def everything(boards: Sequence[Board], remarks: tuple[str, ...] = ()) -> Visible:
    """All of the boards."""
    return Visible(tuple(_whole(board) for board in boards), remarks)


def deciding(environ: Mapping[str, str]) -> str | None:
    """The variable that decides which NVIDIA GPUs the job has; None when none is set."""
    return next((name for name in DECIDING if name in environ), None)


def wants_none(environ: Mapping[str, str]) -> bool:
    """Whether the environment gives the job no NVIDIA GPU at all."""
    name = deciding(environ)
    return name is not None and environ[name].split(",")[0].strip().lower() in NONE_WORDS


def relevant(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide which devices a job has, as far as they are set."""
    names = (*DECIDING, "CUDA_DEVICE_ORDER", "SLURM_JOB_ID", *OTHER_VENDORS)
    return {name: environ[name] for name in names if name in environ}


def visible(environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """The NVIDIA GPUs of the job among `boards`."""
    name = deciding(environ)
    if name is None or environ[name].strip().lower() in ALL_WORDS:
        return everything(boards, _unreserved(environ, boards) if name is None else ())
    if wants_none(environ):
        return Visible(())
    entries = [entry.strip() for entry in environ[name].split(",")]
    if name in (STEP, SLURM_JOB, NVIDIA):
        return _by_global_ids(name, entries, boards)
    return _by_cuda_rules(name, entries, boards, environ)


def amd(environ: Mapping[str, str], boards: Sequence[Board], *, ordered: bool) -> Visible:
    """AMD's reading: ROCR_VISIBLE_DEVICES first (index or UUID); HIP_VISIBLE_DEVICES, else
    CUDA_VISIBLE_DEVICES or GPU_DEVICE_ORDINAL, counts within what that left (ROCm's documentation
    of GPU isolation). `ordered`: the boards are in HIP's order.
    """
    found = _as(CUDA, ROCR, environ, boards) if ROCR in environ else None
    left = [item.board for item in found.billed] if found else list(boards)
    remarks = list(found.remarks) if found else []
    second = next((name for name in (HIP, CUDA, ORDINAL) if name in environ), None)
    if second is None:
        inner = found or _by_reservation(environ, boards)
    else:
        inner = _as(CUDA, second, environ, left)
        if found and environ[second] == environ[ROCR] and inner.billed != found.billed:
            inner = found  # a scheduler that sets both means the same devices
            remarks.append(f"{second} repeats {ROCR}, whose devices are billed.")
    remarks += [text for text in inner.remarks if text not in remarks]
    names = (environ.get(name, "") for name in (ROCR, HIP, CUDA, ORDINAL))
    by_index = any(part.strip().isdecimal() for text in names for part in text.split(","))
    if by_index and not ordered and len(inner.billed) < len(boards):
        remarks.append("this amdsmi does not report HIP's order; indices are taken in its own.")
    return Visible(inner.billed, tuple(remarks))


def gaudi(
    environ: Mapping[str, str], boards: Sequence[Board], modules: Mapping[str, int]
) -> Visible:
    """HABANA_VISIBLE_MODULES by module id; HABANA_VISIBLE_DEVICES by the node's index, which a
    container lists again from 0. `modules` are the ids by UUID.
    """
    if HABANA_MODULES not in environ or environ[HABANA_MODULES].strip().lower() == "all":
        if HABANA not in environ:
            return _by_reservation(environ, boards)
        return _as(NVIDIA, HABANA, environ, boards)
    billed, remarks = [], []
    for entry in _entries(environ[HABANA_MODULES]):
        match = [board for board in boards if str(modules.get(board.uuid)) == entry]
        billed += [_whole(board) for board in match]
        if not match:
            remarks.append(f"{HABANA_MODULES} names {entry!r}, which is no module here.")
    return Visible(tuple(billed), tuple(remarks))


def neuron(environ: Mapping[str, str], boards: Sequence[Board], cores: int | None) -> Visible:
    """NEURON_RT_VISIBLE_CORES, such as `0-3,8`, numbers the cores through all devices.

    `cores` are a device's physical cores; a device is billed by the share of them that is the
    job's. Without the variable the whole instance is.
    """
    if CORES not in environ:
        if CORE_COUNT in environ and len(boards) > 1:
            text = f"{CORE_COUNT} does not say which cores; every device here is billed."
            return everything(boards, (text,))
        return everything(boards)
    sizes = [environ[name] for name in LOGICAL_CORES if environ.get(name, "").isdecimal()]
    per_device = cores // max(1, int(sizes[0] if sizes else 1)) if cores else 0
    if per_device == 0:
        return everything(boards, (f"{CORES} cannot be matched; every device is billed.",))
    wanted, remarks = _ranges(environ[CORES])
    billed = []
    for place, board in enumerate(boards):
        mine = range(place * per_device, (place + 1) * per_device)
        part = len(wanted.intersection(mine))
        wanted.difference_update(mine)
        if part:
            billed.append(Billed(board, board.uuid, part / per_device))
    if wanted:
        remarks.append(f"{CORES} names cores that are not here; they are not billed.")
    return Visible(tuple(billed), tuple(remarks))


def tpu(environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """TPU_VISIBLE_CHIPS or TPU_VISIBLE_DEVICES, by index."""
    name = next((name for name in TPU_NAMES if name in environ), None)
    if name is None:
        return everything(boards)
    return _as(CUDA, name, environ, boards)


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
            remarks.append(_unmatched(name, entry))
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
        return everything(boards)
    billed: dict[str, Billed] = {}
    remarks = []
    for entry in entries:
        match = _match(entry, boards)
        if match is None:
            remarks.append(_unmatched(name, entry))
        else:
            billed[match.device_id] = match
    return Visible(tuple(billed.values()), tuple(remarks))


def _unmatched(name: str, entry: str) -> str:
    return f"{name} names {entry!r}, which is not one device here; it is not billed."


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
    found = [
        Billed(board, part.uuid.replace("/", ":"), part.share)
        for board in boards
        for part in board.slices
        if part.uuid.lower().startswith(entry.lower())
    ]
    return found[0] if len(found) == 1 and len(entry) > SHORTEST_UUID else None


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


def _by_reservation(environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """By the scheduler's and the container's variables, where the runtime's own is not set."""
    if AMD_CONTAINER in environ:
        return _as(NVIDIA, AMD_CONTAINER, environ, boards)
    names = (STEP, SLURM_JOB, "SLURM_JOB_ID")
    return visible({name: environ[name] for name in names if name in environ}, boards)


def _as(like: str, name: str, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """The boards that the variable `name` gives, by the rules of NVIDIA's variable `like`."""
    found = visible({like: environ[name], "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, boards)
    return Visible(found.billed, tuple(text.replace(like, name) for text in found.remarks))


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _ranges(text: str) -> tuple[set[int], list[str]]:
    """The numbers of `0-3,8`, and what is no number in it."""
    found: set[int] = set()
    remarks = []
    for entry in _entries(text):
        first, _, last = entry.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and len(entry) < 16:
            found.update(range(int(first), min(int(last or first), int(first) + 4096) + 1))
        else:
            remarks.append(f"{CORES} names {entry!r}, which is no core.")
    return found, remarks
