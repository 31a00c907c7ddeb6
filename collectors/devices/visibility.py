"""Lists of devices in environment variables: exactly what they name is billed, idle or not.

A vendor's file says which of its variables decides, and calls these rules with it. A device that a
variable names and the driver does not list is left out with a remark; a name that is not understood
is never billed. docs/measuring.md has the tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gramwatt.collectors.devices.board import Billed, Board, Visible, billed_of
from gramwatt.collectors.settings.proc import GPU_FILES

CUDA, ORDINAL = "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"
"""Read by NVIDIA's runtime and by AMD's."""
ORDER = "CUDA_DEVICE_ORDER"
"""Says how CUDA numbers devices, and names none."""
STEP, SLURM_JOB, SLURM_JOB_ID = "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_JOB_ID"
SCHEDULER = (STEP, SLURM_JOB, SLURM_JOB_ID)
"""Slurm's variables, for every vendor."""
NONE_WORDS = frozenset({"", "-1", "none", "nodevfiles"})
ALL_WORDS = frozenset({"all", "void", "/var/run/nvidia-container-devices"})
"""The last two stand in containers whose devices are passed by another mechanism (CDI, mounted
files): the driver then lists exactly the container's devices."""
NUMBER = re.compile(r"\+?(\d+)[^:]*")
"""What CUDA takes for an index: the digits that an entry begins with, so that `0 1` is 0
(torch.cuda._parse_visible_devices). `0:1` is a slice."""
SHARED_GPU = "GRAMWATT_SHARED_GPU"
"""Says that boards are time-shared by several users."""
LONGEST_RANGE, MOST_NUMBERS = 16, 4096
"""Characters of a range, and numbers that are taken of it."""
SHORTEST_UUID = 4
"""`GPU-` alone would match every board; NVIDIA requires enough digits to be unique."""


def names_none(text: str) -> bool:
    """Return whether a variable's text gives the job no device at all."""
    return text.split(",")[0].strip().lower() in NONE_WORDS


def reserves(variables: Mapping[str, str]) -> bool:
    """Return whether variables name devices, rather than all that there are, or an order."""
    names = variables.keys() - {ORDER, GPU_FILES}
    words = (variables[name].strip().lower() for name in names)
    return any(word not in ALL_WORDS for word in words)


def by_runtime(
    name: str, environ: Mapping[str, str], boards: Sequence[Board], *, once: bool = False
) -> Visible:
    """Return the boards of the variable `name` as CUDA reads it: the list ends at the first entry
    that is not a device.

    `once`: a list that names a device twice names none, as PyTorch has it of CUDA
    (torch.cuda._parse_visible_devices).
    """
    return _listed(name, environ[name], boards, ends_at_unknown=True, once=once)


def by_node(name: str, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """Return the boards of the variable `name` by the node's ids, which a container or cgroup may
    list again from 0.

    Slurm's are the numbers of the devices' files, where the driver tells them; of a CDI name, such
    as nvidia.com/gpu=0, the end counts. Where nothing of a list is here, all that the driver lists
    is billed: the job can have no more.
    """
    entries = [entry.rpartition("=")[2] for entry in split(environ[name])]
    if len(set(entries)) == len(boards) and all(entry.isdecimal() for entry in entries):
        return Visible.whole(boards)
    files = name in SCHEDULER and all(board.minor is not None for board in boards)
    result = _listed(name, ",".join(entries), boards, ends_at_unknown=False, files=files)
    if result.billed or not result.remarks:
        return result
    text = f"{name} names {environ[name]!r}, which no device here has; all of them are billed."
    return Visible.whole(boards, (text,))


def by_scheduler(environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """Return the boards that Slurm gives, where no variable of the vendor's own is set; without
    Slurm all of them.
    """
    name = next((name for name in (STEP, SLURM_JOB) if name in environ), None)
    if name is not None:
        return by_node(name, environ, boards)
    if SLURM_JOB_ID not in environ or not boards:
        return Visible.whole(boards)
    text = "Slurm names no GPU of this job; every GPU that the driver lists to it is billed."
    return Visible.whole(boards, (text,))


def split(text: str) -> list[str]:
    """Return the entries of a list, without empty ones."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def spelled(text: str) -> list[str]:
    """Return the entries of a list whose ranges, such as `0-3`, are spelled out."""
    entries = []
    for entry in split(text):
        first, _, last = entry.partition("-")
        if first.isdecimal() and last.isdecimal() and len(entry) < LONGEST_RANGE:
            numbers = range(int(first), min(int(last), int(first) + MOST_NUMBERS) + 1)
            entries += [str(number) for number in numbers]
        else:
            entries.append(entry)
    return entries


def _listed(
    name: str,
    text: str,
    boards: Sequence[Board],
    *,
    ends_at_unknown: bool,
    once: bool = False,
    files: bool = False,
) -> Visible:
    if text.strip().lower() in ALL_WORDS:
        return Visible.whole(boards)
    if names_none(text):
        return Visible(())
    billed: dict[str, Billed] = {}
    remarks = []
    for entry in (entry.strip() for entry in text.split(",")):
        if once and (number := NUMBER.fullmatch(entry)):
            entry = number[1]
        if ends_at_unknown and entry.lower() in NONE_WORDS:
            break
        matches = _match(entry, boards, files=files)
        if not matches and (board := _undescribed(entry, boards, billed)):
            matches = [Billed(board, board.uuid, 1.0)]
            remarks.append(
                f"{name} names {entry!r}, which may be device {board.ordinal}, whose "
                f"{'slices' if board.mig else 'id'} cannot be read; it is taken for that."
            )
        if once and any(match.device_id in billed for match in matches):
            return Visible((), (f"{name} names a device twice; CUDA then gives the job none.",))
        billed |= {match.device_id: match for match in matches}
        if not matches:
            remarks.append(
                f"{name} names {entry!r}, which is not one device here; it is not billed."
            )
            if ends_at_unknown:
                break
    return Visible(tuple(billed.values()), tuple(remarks))


def _match(entry: str, boards: Sequence[Board], *, files: bool = False) -> list[Billed]:
    """Return what an entry means, if that is one device: index, UUID, beginning of a UUID, MIG id,
    or the index of a board and of a slice on it, such as `0:1`.
    """
    matches = _matches(entry, boards, files=files)
    return matches[0] if len(matches) == 1 else []


def _matches(entry: str, boards: Sequence[Board], *, files: bool) -> list[list[Billed]]:
    if entry.isdecimal():
        by_file = [board for board in boards if board.minor == int(entry)]
        return [billed_of(b) for b in (by_file if files else boards[int(entry) : int(entry) + 1])]
    if entry.upper().startswith("MIG-"):
        if len(entry) <= SHORTEST_UUID:
            return []
        slices = (item for board in boards if board.slices for item in billed_of(board))
        return [[item] for item in slices if _begins(item.device_id, entry.replace("/", ":"))]
    index, colon, place = entry.partition(":")
    if colon and index.isdecimal() and place.isdecimal():
        of_board = boards[int(index) : int(index) + 1]
        pairs = [pair for b in of_board for pair in zip(b.slices, billed_of(b), strict=False)]
        return [[item] for part, item in pairs if part.position == int(place)]
    whole = [board for board in boards if board.uuid.lower() == entry.lower()]
    if not whole:  # only NVIDIA's and AMD's begin with GPU-
        start = entry if entry.upper().startswith("GPU-") else f"GPU-{entry}"
        whole = [b for b in boards if _begins(b.uuid, start) and len(start) > SHORTEST_UUID]
    return [billed_of(board) for board in whole]


def _begins(uuid: str, start: str) -> bool:
    return uuid.lower().startswith(start.lower())


def _undescribed(entry: str, boards: Sequence[Board], billed: Mapping[str, Billed]) -> Board | None:
    """Return the first board that an id may be of, since the driver does not tell its own; of a
    slice one in MIG mode that shows none.
    """
    if entry.isdecimal() or ":" in entry:
        return None
    is_slice = entry.upper().startswith("MIG-")
    hidden = [b for b in boards if (b.mig and not b.slices if is_slice else not b.described)]
    return next((board for board in hidden if board.uuid not in billed), None)
