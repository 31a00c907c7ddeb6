"""Lists of devices in environment variables: exactly what they name is billed, idle or not.

A vendor's file says which of its variables decides, and calls these rules with it. A device that a
variable names and the driver does not list is left out with a remark; a name that is not understood
is never billed. docs/measuring.md has the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gramwatt.collectors.devices.board import Billed, Board, Visible

CUDA, ORDINAL = "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"
"""Read by NVIDIA's runtime and by AMD's."""
STEP, SLURM_JOB, SLURM_JOB_ID = "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_JOB_ID"
SCHEDULER = (STEP, SLURM_JOB, SLURM_JOB_ID)
"""Slurm's variables, for every vendor."""
NONE_WORDS = frozenset({"", "-1", "none", "nodevfiles"})
ALL_WORDS = frozenset({"all", "void"})
"""`void` is what container runtimes set when they pass devices by another mechanism (CDI): the
driver then lists exactly the container's devices."""
SHORTEST_UUID = 4
"""`GPU-` alone would match every board; NVIDIA requires enough digits to be unique."""


def names_none(text: str) -> bool:
    """Return whether a variable's text gives the job no device at all."""
    return text.split(",")[0].strip().lower() in NONE_WORDS


def by_runtime(name: str, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """Return the boards of the variable `name` as CUDA reads it: the list ends at the first entry
    that is no device.
    """
    return _listed(name, environ[name], boards, ends_at_unknown=True)


def by_node(name: str, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """Return the boards of the variable `name` by the node's ids, which a container or cgroup may
    list again from 0.
    """
    entries = split(environ[name])
    if len(entries) == len(boards) and all(entry.isdecimal() for entry in entries):
        return Visible.whole(boards)
    return _listed(name, environ[name], boards, ends_at_unknown=False)


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


def _listed(name: str, text: str, boards: Sequence[Board], *, ends_at_unknown: bool) -> Visible:
    if text.strip().lower() in ALL_WORDS:
        return Visible.whole(boards)
    if names_none(text):
        return Visible(())
    billed: dict[str, Billed] = {}
    remarks = []
    for entry in (entry.strip() for entry in text.split(",")):
        if ends_at_unknown and entry.lower() in NONE_WORDS:
            break
        match = _match(entry, boards)
        if match is not None:
            billed[match.device_id] = match
            continue
        remarks.append(f"{name} names {entry!r}, which is not one device here; it is not billed.")
        if ends_at_unknown:
            break
    return Visible(tuple(billed.values()), tuple(remarks))


def _match(entry: str, boards: Sequence[Board]) -> Billed | None:
    """Return the one device an entry means: index, UUID, beginning of a UUID, or MIG id."""
    if entry.isdecimal():
        return _only(boards[int(entry) : int(entry) + 1])
    if entry.upper().startswith("MIG-"):
        return _match_slice(entry, boards)
    whole = [board for board in boards if board.uuid.lower() == entry.lower()]
    if whole:  # only NVIDIA's and AMD's begin with GPU-
        return _only(whole)
    wanted = entry if entry.upper().startswith("GPU-") else f"GPU-{entry}"
    if len(wanted) <= SHORTEST_UUID:
        return None
    return _only([board for board in boards if board.uuid.lower().startswith(wanted.lower())])


def _match_slice(entry: str, boards: Sequence[Board]) -> Billed | None:
    found = [
        Billed(board, part.uuid.replace("/", ":"), part.share)
        for board in boards
        for part in board.slices
        if part.uuid.lower().startswith(entry.lower())
    ]
    return found[0] if len(found) == 1 and len(entry) > SHORTEST_UUID else None


def _only(found: Sequence[Board]) -> Billed | None:
    return Billed(found[0], found[0].uuid, 1.0) if len(found) == 1 else None
