"""AMD GPUs through amdsmi. Never run on the hardware.

Shapes follow AMD SMI's Python interface (ROCm 5.7 to 7): amdsmi_get_energy_count gives
`energy_accumulator` (before ROCm 6.2 `power`) in units of `counter_resolution` [uJ];
amdsmi_get_power_info gives whole watts or "N/A". Two facts are taken from other projects' notes:
of a MI250's two dies only the first one reports, for both (Zeus, device/gpu/amd.py), and a board in
compute partitions shows as several functions of one PCI device, which share a sensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.board import (
    ACCELERATOR,
    AMD,
    DISPLAY,
    Board,
    LibraryPort,
    Load,
    NotSupported,
    Place,
    Profile,
    ReadFailed,
    Visible,
    decoded,
    in_processor,
    may_open,
    offered,
    pci_devices,
)
from gramwatt.sci.figures.units import bytes_from_mib, mj_from_uj, mw_from_uw, mw_from_w, w_from_mw

_T = TypeVar("_T")
ADVICE = (
    "install the amdsmi of this machine's ROCm: pip install /opt/rocm/share/amd_smi\n"
    "in a container: --device=/dev/kfd --device=/dev/dri\n"
    "the user must be in the groups render and video\n"
    "a job that does not use it is started with HIP_VISIBLE_DEVICES="
)
NOT_OFFERED = frozenset({2, 3, 10, 49})
"""AMDSMI_STATUS_NOT_SUPPORTED, NOT_YET_IMPLEMENTED, NO_PERM and NO_HSMP_MSG_SUP (amdsmi.h)."""
POWER_KEYS = ("socket_power", "current_socket_power", "average_socket_power")
"""Keys of amdsmi_get_power_info [W], newest first; which of them holds a number depends on part
and release."""
DUAL_DIE = ("mi250", "(mcm)")
"""The second is in its name on HPE's machines: MI200 (MCM) OAM LC MBA HPE C2 (wandb #5449)."""
APU = ("mi300a",)
"""Parts whose socket holds the host's processor too."""
ROCR, HIP, CONTAINER = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES"


class AmdSmi(LibraryPort):
    """AMD GPUs in HIP's order, as far as the library reports it."""

    vendor, title = "AMD", "AMD GPU"
    meter = library = "amdsmi"
    native = True
    advice, silent = ADVICE, "AMD's driver does not answer"
    device_class = "gpu"
    variables = (
        *(ROCR, HIP, CONTAINER, visibility.CUDA, visibility.ORDINAL),
        *visibility.SCHEDULER,
    )

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether a job can use an AMD GPU of its own: the driver's node may be opened, and
        the PCI bus, where it is visible, has more than graphics inside a processor. In WSL the node
        is of every maker (librocdxg), so ROCm must be installed.
        """
        if not may_open(place.root, "kfd"):
            return may_open(place.root, "dxg") and (place.root / "opt/rocm").exists()
        if not any((place.root / "sys/bus/pci/devices").glob("*")):
            return True
        parts = pci_devices(place.root, AMD, DISPLAY, ACCELERATOR)
        return not all(in_processor(place.root, part.name) for part in parts)

    def __init__(self, load: Load | None = None, root: Path = Path("/")) -> None:
        super().__init__(load, root)
        self._handles: list[Any] = []
        self._sensors: list[tuple[Any, float]] = []
        self.ordered = False

    def start(self) -> None:
        """Start amdsmi and list its GPUs that a job may use."""
        flags = getattr(self.lib, "AmdSmiInitFlags", None)
        self.lib.amdsmi_init(*([flags.INIT_AMD_GPUS] if flags else []))
        listed = list(self.lib.amdsmi_get_processor_handles())
        if not listed:
            raise ReadFailed("amdsmi lists no GPU")
        order = [place for place in self._hip_order(listed) if self._may_use(listed[place])]
        sensors = self._find_sensors(listed)
        self._handles = [listed[place] for place in order]
        self._sensors = [sensors[place] for place in order]

    def close(self) -> None:
        """Shut amdsmi down; never raises."""
        with suppress(Exception):
            self.lib.amdsmi_shut_down()

    def count(self) -> int:
        """Return the number of GPUs listed; a MI250 board is two."""
        return len(self._handles)

    def board(self, index: int) -> Board:
        """Return a GPU by its market name, with HIP's UUID where the library reports it, else
        amdsmi's, else the PCI address.

        Its share is 1 over the number of devices behind one sensor: a half for a die of a MI250.
        """
        handle = self._handles[index]
        name = self._name(handle)
        return Board(
            ordinal=index,
            uuid=self._id(handle),
            name=name,
            memory_b=self._memory_b(index, "vram_total"),
            share=self._sensors[index][1],
            includes_host=any(apu in name.lower() for apu in APU),
            part_of="processor" if in_processor(self.root, self._address(handle)) else "",
        )

    def energy_mj(self, index: int) -> float:
        """Return the energy counter [mJ] of the sensor that the device reports through."""
        count = self._ask(lambda: self.lib.amdsmi_get_energy_count(self._sensors[index][0]))
        ticks = _number(count.get("energy_accumulator", count.get("power")))
        resolution_uj = _number(count.get("counter_resolution"))
        if not ticks or not resolution_uj:
            raise NotSupported("amdsmi gives no energy counter of this device")
        return round(mj_from_uj(ticks * resolution_uj))

    def power_mw(self, index: int) -> float:
        """Return the power [mW] of the sensor that the device reports through."""
        return self._power_mw(self._sensors[index][0])

    def _power_mw(self, handle: Any) -> float:
        info = self._ask(lambda: self.lib.amdsmi_get_power_info(handle))
        figures = [_number(info.get(key)) for key in POWER_KEYS]
        power_w = next((value for value in figures if value), None)
        if power_w is None:  # "N/A", or the 0 of a die that does not report
            raise NotSupported("amdsmi gives no power of this device")
        return round(mw_from_w(power_w))

    def profile(self, index: int, *, full: bool) -> Profile:
        """Return the share of the last period with the graphics engine busy, and memory in use."""
        activity = offered(lambda: self.lib.amdsmi_get_gpu_activity(self._handles[index]))
        busy = _number((activity or {}).get("gfx_activity"))
        use = None if busy is None else busy / 100
        return Profile(use, self._memory_b(index, "vram_used"))

    def limit_w(self, index: int) -> float | None:
        """Return the power limit [W] of the sensor's whole board."""
        info = self._ask(lambda: self.lib.amdsmi_get_power_cap_info(self._sensors[index][0]))
        limit_uw = _number(info.get("power_cap"))
        return None if limit_uw is None else w_from_mw(mw_from_uw(limit_uw))

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """Return the GPUs of the job, by ROCR_VISIBLE_DEVICES and its like."""
        return visible(environ, boards, ordered=self.ordered)

    def wants_none(self, environ: Mapping[str, str]) -> bool:
        """Return whether ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES gives the job no GPU."""
        return any(visibility.names_none(environ[name]) for name in (ROCR, HIP) if name in environ)

    def why_unread(self, index: int) -> str:
        """Return why nothing is read: a guest reads nothing, a second die is read by its first."""
        if self._is_dual(self._handles[index]):
            return (
                "amdsmi gives the power of this board at its first die, which this process cannot "
                "see; let the job have both"
            )
        return "amdsmi gives neither counter nor power, as on many guests; ask the host"

    def _find_sensors(self, listed: list[Any]) -> list[tuple[Any, float]]:
        """Return for each device listed the handle to read, and its share of the reading."""
        sensors: list[tuple[Any, float]] = [(handle, 1.0) for handle in listed]
        duals = [position for position, handle in enumerate(listed) if self._is_dual(handle)]
        primary: Any = None  # the die before, which reports for both
        for position in duals:
            handle = listed[position]
            reports = offered(partial(self._power_mw, handle)) is not None
            sensors[position] = (handle if reports or primary is None else primary, 0.5)
            primary = handle if reports else None
        boards: dict[str, list[int]] = {}
        for position in set(range(len(listed))) - set(duals):
            address = self._address(listed[position])
            boards.setdefault(address.rpartition(".")[0] or str(position), []).append(position)
        for positions in boards.values():
            for position in positions:
                sensors[position] = (listed[min(positions)], 1 / len(positions))
        return sensors

    def _may_use(self, handle: Any) -> bool:
        """Return whether a job may open a GPU's render node; True where no node is known.

        In a container amdsmi lists the GPUs of the whole machine (ROCm-docker #49). A compute
        partition has a node of its own, which its board's PCI folder lacks (amdsmi #100).
        """
        info = offered(lambda: self.lib.amdsmi_get_gpu_enumeration_info(handle)) or {}
        if minor := _number(info.get("drm_render")):
            return may_open(self.root, f"dri/renderD{minor:.0f}")
        folder = self.root / "sys/bus/pci/devices" / self._address(handle) / "drm"
        nodes = [f"dri/{node.name}" for node in folder.glob("renderD*")]
        return not nodes or may_open(self.root, *nodes)

    def _hip_order(self, listed: list[Any]) -> list[int]:
        """Return positions in HIP's order: by its own index (ROCm 6.4), else by KFD node (6.3)."""
        for call, key in (
            ("amdsmi_get_gpu_enumeration_info", "hip_id"),
            ("amdsmi_get_gpu_kfd_info", "node_id"),
        ):
            with suppress(Exception):
                keys = [int(getattr(self.lib, call)(handle)[key]) for handle in listed]
                if len(set(keys)) == len(keys):
                    self.ordered = True
                    return sorted(range(len(listed)), key=keys.__getitem__)
        return list(range(len(listed)))

    def _id(self, handle: Any) -> str:
        return _first_text(
            lambda: self.lib.amdsmi_get_gpu_enumeration_info(handle)["hip_uuid"],
            lambda: self.lib.amdsmi_get_gpu_device_uuid(handle),
            lambda: f"amd-{self.lib.amdsmi_get_gpu_device_bdf(handle)}",
        )

    def _is_dual(self, handle: Any) -> bool:
        return any(part in self._name(handle).lower() for part in DUAL_DIE)

    def _name(self, handle: Any) -> str:
        return _first_text(
            lambda: self.lib.amdsmi_get_gpu_asic_info(handle)["market_name"],
            lambda: self.lib.amdsmi_get_gpu_board_info(handle)["product_name"],
            lambda: self.title,
        )

    def _address(self, handle: Any) -> str:
        return offered(lambda: str(self.lib.amdsmi_get_gpu_device_bdf(handle))) or ""

    def _ask(self, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except Exception as error:
            code = getattr(error, "get_error_code", lambda: None)()
            meaning = NotSupported if code in NOT_OFFERED else ReadFailed
            raise meaning(f"amdsmi: {error}") from None

    def _memory_b(self, index: int, key: str) -> float | None:
        usage = offered(lambda: self.lib.amdsmi_get_gpu_vram_usage(self._handles[index])) or {}
        memory_mib = _number(usage.get(key))
        return None if memory_mib is None else bytes_from_mib(memory_mib)


def visible(environ: Mapping[str, str], boards: Sequence[Board], *, ordered: bool) -> Visible:
    """Return the GPUs of the job: ROCR_VISIBLE_DEVICES first (index or UUID); HIP_VISIBLE_DEVICES,
    else CUDA_VISIBLE_DEVICES or GPU_DEVICE_ORDINAL, counts within what that left (ROCm's
    documentation of GPU isolation). `ordered`: the boards are in HIP's order.
    """
    first = visibility.by_runtime(ROCR, environ, boards) if ROCR in environ else None
    remaining = [item.board for item in first.billed] if first else boards
    remarks = list(first.remarks) if first else []
    second = next((n for n in (HIP, visibility.CUDA, visibility.ORDINAL) if n in environ), None)
    if second is not None:
        result = visibility.by_runtime(second, environ, remaining)
        if first and environ[second] == environ[ROCR] and result.billed != first.billed:
            result = first  # a scheduler that sets both means the same devices
            remarks.append(f"{second} repeats {ROCR}, whose devices are billed.")
    elif first:
        result = first
    elif CONTAINER in environ:
        # Ranges and `0x` with the unique id are written there too (ROCm's container toolkit).
        entries = [entry.removeprefix("0x") for entry in visibility.spelled(environ[CONTAINER])]
        result = visibility.by_node(CONTAINER, {CONTAINER: ",".join(entries)}, boards)
    else:
        result = visibility.by_scheduler(environ, boards)
    remarks += [text for text in result.remarks if text not in remarks]
    names = (environ.get(n, "") for n in (ROCR, HIP, visibility.CUDA, visibility.ORDINAL))
    by_index = any(entry.isdecimal() for text in names for entry in visibility.split(text))
    if by_index and not ordered and len(result.billed) < len(boards):
        remarks.append("this amdsmi does not report HIP's order; indices are taken in its own.")
    return Visible(result.billed, tuple(remarks))


def _first_text(*calls: Callable[[], object]) -> str:
    """Return the first text that amdsmi has; raises ReadFailed without any."""
    texts = (decoded(answer) for call in calls if (answer := offered(call)))
    text = next((text for text in texts if text != "N/A"), None)
    if text is None:
        raise ReadFailed("amdsmi lists a GPU without an id")
    return text


def _number(value: Any) -> float | None:
    """Return a figure of amdsmi's; None for its "N/A" and for the largest integers it fills in."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value in (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF) else float(value)
