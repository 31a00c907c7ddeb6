"""Which devices of other vendors the job has, in the style of `visible`.

Nothing is billed because a name was not understood; what was not matched is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gramwatt.collectors.devices.visibility import (
    CUDA,
    NVIDIA,
    ORDINAL,
    SLURM_JOB,
    STEP,
    Billed,
    Board,
    Visible,
    visible,
)

ROCR, HIP, AMD_CONTAINER = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES"
HABANA, HABANA_MODULES = "HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES"
CORES, CORE_COUNT = "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"
LOGICAL = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
TPU_NAMES = ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES")


def amd(environ: Mapping[str, str], boards: Sequence[Board], *, ordered: bool) -> Visible:
    """AMD's reading: ROCR_VISIBLE_DEVICES first (index or UUID); HIP_VISIBLE_DEVICES, else
    CUDA_VISIBLE_DEVICES or GPU_DEVICE_ORDINAL, counts within what that left (ROCm's documentation
    of GPU isolation). `ordered` says that the boards are in HIP's order.
    """
    found = _by(ROCR, CUDA, environ, boards) if ROCR in environ else None
    left = [item.board for item in found.billed] if found else list(boards)
    remarks = list(found.remarks) if found else []
    second = next((name for name in (HIP, CUDA, ORDINAL) if name in environ), None)
    if second is None:
        inner = found or _by_reservation(environ, boards)
    else:
        inner = _by(second, CUDA, environ, left)
        if found and environ[second] == environ[ROCR] and inner.billed != found.billed:
            inner = found  # a scheduler that sets both means the same devices
            remarks.append(f"{second} repeats {ROCR}, whose devices are billed.")
    remarks += [text for text in inner.remarks if text not in remarks]
    names = (environ.get(name, "") for name in (ROCR, HIP, CUDA, ORDINAL))
    by_index = any(part.strip().isdecimal() for text in names for part in text.split(","))
    if by_index and not ordered and len(inner.billed) < len(boards):
        remarks.append("this amdsmi does not tell HIP's order; indices are taken in its own.")
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
        return _by(HABANA, NVIDIA, environ, boards)
    billed, remarks = [], []
    for entry in _entries(environ[HABANA_MODULES]):
        match = [board for board in boards if str(modules.get(board.uuid)) == entry]
        billed += [Billed(board, board.uuid, 1.0) for board in match]
        if not match:
            remarks.append(f"{HABANA_MODULES} names {entry!r}, which is no module here.")
    return Visible(tuple(billed), tuple(remarks))


def neuron(environ: Mapping[str, str], boards: Sequence[Board], cores: int | None) -> Visible:
    """NEURON_RT_VISIBLE_CORES, such as `0-3,8`, numbers the cores through all devices.

    `cores` are a device's physical cores; a device is billed by the share of them that is the
    job's. Without the variable the whole instance is.
    """
    whole = Visible(tuple(Billed(board, board.uuid, 1.0) for board in boards), ())
    if CORES not in environ:
        if CORE_COUNT in environ and len(boards) > 1:
            text = f"{CORE_COUNT} does not say which cores; every device here is billed."
            return Visible(whole.billed, (text,))
        return whole
    logical = next((environ[name] for name in LOGICAL if environ.get(name, "").isdecimal()), "1")
    per_device = cores // max(1, int(logical)) if cores else 0
    if per_device == 0:
        return Visible(whole.billed, (f"{CORES} cannot be matched; every device is billed.",))
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
        return Visible(tuple(Billed(board, board.uuid, 1.0) for board in boards), ())
    return _by(name, CUDA, environ, boards)


def _by_reservation(environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """The scheduler's and the container's word, where the runtime's own variable is not set."""
    if AMD_CONTAINER in environ:
        return _by(AMD_CONTAINER, NVIDIA, environ, boards)
    names = (STEP, SLURM_JOB, "SLURM_JOB_ID")
    return visible({name: environ[name] for name in names if name in environ}, boards)


def _by(name: str, like: str, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """The boards that `name` gives, read by the rules of NVIDIA's variable `like`."""
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    found = visible({like: environ[name], **order}, boards)
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
