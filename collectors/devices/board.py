"""The interface of all device sources: what a device is, what it reads, and what a vendor fills in.

SourceError
├── SourceAbsent     library, driver or permission is missing; it has the fix
├── NotSupported     this one call is not offered by this device; others may be
│   └── Refused      this user may not make it; one who may not ask for a device's id cannot use it
├── DeviceLost       the device fell off the bus or needs a reset
└── ReadFailed       anything else; the next reading may work
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from msgspec import Struct, field

from gramwatt.collectors.settings.files import text_of
from gramwatt.collectors.settings.identity import safe_id
from gramwatt.sci.figures.errors import GramwattError
from gramwatt.sci.figures.quantity import Kind

Answer = TypeVar("Answer")
Load = Callable[[], Any]
"""Imports a vendor's library; tests pass a fake module."""
Notify = Callable[[str, str], None]
"""Leaves a notice with the job: its code and its text."""


class SourceError(GramwattError):
    """A source did not answer; measuring continues without it."""

    code = "source"


class SourceAbsent(SourceError):
    """The source cannot be used on this machine at all.

    `fix` says what to do, a line for each thing; it is empty where nothing is known. `seen` is True
    where its devices are there for certain.
    """

    code = "source-absent"

    def __init__(self, message: str, fix: str = "", *, seen: bool = False) -> None:
        super().__init__(message)
        self.fix, self.seen = fix, seen

    @property
    def reason(self) -> str:
        """The message and what to do, in one line without a full stop."""
        texts = [self.message, *self.fix.splitlines()]
        return "; ".join(" ".join(text.rstrip(".").split()) for text in texts)


class NotSupported(SourceError):
    """This device does not offer this call."""

    code = "not-supported"


class Refused(NotSupported):
    """The call is not offered to this user."""


class DeviceLost(SourceError):
    """The device no longer answers any call."""

    code = "device-lost"


class ReadFailed(SourceError):
    """One call failed for another reason."""

    code = "read-failed"


class Place(Struct, frozen=True):
    """Where to look for devices: root of the file system, environment, kind of system."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    platform: str = sys.platform
    machine: str = field(default_factory=lambda: os.uname().machine if hasattr(os, "uname") else "")


class MigSlice(NamedTuple):
    """One MIG device of a board: its id, its share (0, 1] of the board's compute slices, and its
    position there, which is not that among those that this process can see.
    """

    uuid: str
    share: float
    position: int = 0


class Board(NamedTuple):
    """A device that the driver lists; NVIDIA's in PCI bus order.

    `share` is the part (0, 1] of its readings that is this device's: below 1 where several share
    one sensor. `includes_host`: its energy holds the host's processor and memory too. `part_of` is
    `processor` or `module` for a part whose energy that one's sensor holds. `mig`: only slices of
    it can be used. `described` is False for a board whose id the driver does not tell now. `minor`
    is the number of its file, as in /dev/nvidia0, which may be another than its ordinal.
    """

    ordinal: int
    uuid: str
    name: str
    slices: tuple[MigSlice, ...] = ()
    memory_b: float | None = None
    share: float = 1.0
    includes_host: bool = False
    part_of: str = ""
    mig: bool = False
    described: bool = True
    minor: int | None = None


class Billed(NamedTuple):
    """A board or MIG slice the job pays for, and its share (0, 1] of the board."""

    board: Board
    device_id: str
    share: float


class Visible(NamedTuple):
    """The devices that are billed, and in sentences what could not be matched."""

    billed: tuple[Billed, ...]
    remarks: tuple[str, ...] = ()

    @classmethod
    def whole(cls, boards: Sequence[Board], remarks: tuple[str, ...] = ()) -> Visible:
        """Return all of the boards, of one in MIG mode the slices that are visible."""
        return cls(tuple(item for board in boards for item in billed_of(board)), remarks)


def billed_of(board: Board) -> list[Billed]:
    """Return what of a board is billed that is not named by a slice: where it is in MIG mode all
    slices that this process can see, if there are any.
    """
    slices = [Billed(board, part.uuid.replace("/", ":"), part.share) for part in board.slices]
    return slices or [Billed(board, board.uuid, 1.0)]


class Values(NamedTuple):
    """Energy counter [mJ], power [mW] and its mean over one second [mW]; None where not offered."""

    counter_mj: float | None
    power_mw: float | None
    mean_mw: float | None = None


class Profile(NamedTuple):
    """How a device runs: use (0 to 1), memory in use [B], and telemetry by the names of
    sci/records/records.py. None and left out where not known.
    """

    utilisation: float | None = None
    memory_b: float | None = None
    telemetry: Mapping[str, float] = {}


class GpuUser(NamedTuple):
    """A process with work on a board, None for what the driver does not report.

    `sm_percent` is its time on the streaming multiprocessors [%], comparable among the processes
    of one answer; `memory_b` what it has allocated [B].
    """

    pid: int
    sm_percent: float | None = None
    memory_b: int | None = None


class DevicePort:
    """A vendor's devices by index; a vendor's file overrides what its library offers.

    `vendor` names it in notices, `title` in lists. `sampled_kind` labels energy that comes from its
    power readings, `counter_survives` says that its counter outlives a meter,
    `variables` are the environment's that select a job's devices. Every method may raise any
    SourceError, also after earlier success.
    """

    vendor = ""
    title = ""
    meter = ""
    library = ""
    """What is imported, as notices name it; empty for a source that reads files only."""
    device_class = "accelerator"
    native = False
    """Whether its library is native code, which may hang or crash who asks it: its first questions
    come from another thread (`library`)."""
    sampled_kind: Kind = "integrated"
    counter_survives = True
    variables: tuple[str, ...] = ()

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether this process can see such devices; no library is loaded for it."""
        return False

    @classmethod
    def at(cls, place: Place) -> DevicePort:
        """Return the source of a machine, not yet open."""
        port = cls()
        port.root = place.root
        return port

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def prepare(self) -> None:
        """Import what of the library is no native code, before a child process tries the rest."""

    def open(self) -> None:
        """Load the library and find the devices; raises SourceAbsent with what to do."""

    def close(self) -> None:
        """Release the library; never raises."""

    def driver(self) -> str | None:
        """Return the driver's version, where windows and jobs can be too short for its counter."""
        return None

    def count(self) -> int:
        """Return the number of devices that this process can see."""
        raise NotImplementedError

    def board(self, index: int) -> Board:
        """Return the description of a device."""
        raise NotImplementedError

    def remarks(self) -> tuple[str, ...]:
        """Return what the user should know of the library, in sentences."""
        return ()

    def energy_mj(self, index: int) -> float:
        """Return the energy counter [mJ]."""
        self._lacks("energy counter")

    def power_mw(self, index: int) -> float:
        """Return the power [mW]."""
        self._lacks("power")

    def read(self, index: int) -> Values:
        """Return counter and power of this moment, each asked by itself.

        Raises the SourceError that says most where there is neither.
        """
        counter_mj, power_mw = answers(
            lambda: self.energy_mj(index),
            lambda: self.power_mw(index),
            none=lambda: self.why_unread(index),
        )
        return Values(counter_mj, power_mw)

    def read_power(self, index: int) -> float:
        """Return the power [mW], its mean over the last second where the driver gives that, without
        the counter, which may be costly to read.
        """
        return plausible(self.power_mw(index))

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """Return the driver's own power samples after `since_us`: (its time [us], power [mW]).

        Empty when there is nothing new. The times are of a clock of the driver's choice.
        """
        return []

    def profile(self, index: int, *, full: bool) -> Profile:
        """Return how the device runs; what changes slowly only where `full`."""
        return Profile()

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Return the processes with work on the device since the last call."""
        self._lacks("list of processes")

    def limit_w(self, index: int) -> float | None:
        """Return the power limit in force [W]; None where it is not known."""
        return None

    def why_unread(self, index: int) -> str:
        """Return why neither energy nor power of the device can be read, and what to do."""
        return "neither counter nor power is readable"

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """Return the devices of the job; all of them where the environment names none."""
        return Visible.whole(boards)

    def wants_none(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment gives the job no device, so that nothing is opened."""
        return False

    def hidden(self, environ: Mapping[str, str]) -> list[str]:
        """Return the names of devices' files that a process of the job may open, and this one not;
        `environ` is what that process has told.
        """
        return []

    def exists(self) -> bool:
        """Return whether the machine has such a device, readable or not."""
        return True

    def is_expected(self) -> bool:
        """Return whether the job should have such a device, so that there is something to mend."""
        return self.exists()

    def _lacks(self, what: str) -> NoReturn:
        raise NotSupported(f"{self.meter} has no {what}")


class LibraryPort(DevicePort):
    """A vendor whose devices a Python library reads: it is imported, and started, when opened."""

    advice = ""
    """What to do where it cannot be used."""
    silent = ""
    """What does not answer where it cannot be started."""

    def __init__(self, load: Load | None = None, root: Path = Path("/")) -> None:
        """`load` gives a fake library."""
        super().__init__(root)
        self.native = self.native and load is None
        self.lib: Any = None
        self._load = load or library(self.library, self.advice)

    def open(self) -> None:
        """Start the library and find the devices; raises SourceAbsent."""
        self.lib = self._load()
        try:
            with redirect_stdout(StringIO()):  # habana-pyhlml prints what it cannot load
                self.start()
        except Exception as error:
            raise SourceAbsent(f"{self.silent} ({error})", self.advice) from None

    def start(self) -> None:
        """Start the library, now loaded, and find the devices; may raise anything."""


def offered(call: Callable[[], Answer]) -> Answer | None:
    """Return what a call answers; None where it answers nothing: it costs its own figure only."""
    try:
        return call()
    except Exception:  # a vendor's library may raise anything
        return None


def plausible(figure: float) -> float:
    """Return a figure of a driver's; raises ReadFailed for one that no counter or sensor has."""
    if not 0 <= figure < math.inf:
        raise ReadFailed(f"it answers {figure}")
    return figure


def answers(*calls: Callable[[], float | None], none: Callable[[], str]) -> list[float | None]:
    """Return what each call answers, None for each that fails in whatever way.

    Where all fail it raises DeviceLost if any is that, else ReadFailed if any may answer later,
    else NotSupported with the text of `none`.
    """
    values: list[float | None] = []
    errors: list[Exception] = []
    for call in calls:
        try:
            value = call()
            values.append(None if value is None else plausible(value))
        except Exception as error:
            values.append(None)
            errors.append(error)
    if any(value is not None for value in values):
        return values
    for failure in errors:
        if isinstance(failure, DeviceLost):
            raise failure
    for failure in errors:
        if isinstance(failure, NotSupported):
            continue
        if isinstance(failure, SourceError):
            raise failure
        raise ReadFailed(str(failure) or type(failure).__name__)
    raise NotSupported(none())


def counted(billed: Sequence[Billed], *, beside_module: bool) -> list[Billed]:
    """Return the devices whose energy no other sensor holds: not graphics inside a processor, and
    no part of a module where the module's own sensors are read.
    """
    holders = ("processor", "module") if beside_module else ("processor",)
    return [item for item in billed if item.board.part_of not in holders]


def figure_in(path: Path) -> float:
    """Return the number in a file of the system; raises ReadFailed."""
    try:
        return float(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ReadFailed(f"{path.name}: {error}") from None


def decoded(answer: Any) -> str:
    """Return a text of a library's, which some releases give as bytes."""
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)


def boards_of(port: DevicePort, node: str) -> list[Board]:
    """Return every device that a port's driver counts and this user may open, by its ordinal.

    One whose id cannot be read, for whatever reason, has an id of `node` and its ordinal instead;
    one with the id of another has its ordinal behind it.
    """
    boards: list[Board] = []
    for index in range(port.count()):
        try:
            board = port.board(index)
            uuid = safe_id(board.uuid)
            if any(other.uuid == uuid for other in boards):
                uuid = safe_id(f"{uuid}-{index}")
            boards.append(board._replace(uuid=uuid))
        except Refused:  # as the cgroup of a scheduler does it; CUDA does not number it either
            continue
        except Exception:
            uuid = safe_id(f"{node}-{port.meter}-{index}")
            boards.append(Board(index, uuid, port.title, described=False))
    return boards


DISPLAY, ACCELERATOR = "0x03", "0x12"
"""PCI base classes: display controllers and processing accelerators."""
AMD, AMD_PROCESSORS, INTEL = "0x1002", "0x1022", "0x8086"
"""PCI vendor ids (pci.ids); AMD's processors have one of their own."""
INTEL_GRAPHICS = "0000:00:02.0"
"""Where graphics inside a processor of Intel are, always (igt-gpu-tools, nvtop)."""
VENDORS = [
    "amd:AmdSmi",
    "gaudi:Pyhlml",
    "apple:AppleSilicon",
    "jetson:Jetson",
    "neuron:Neuron",
    "tpu:Tpu",
    "intel:IntelGpu",
    "unread:Unread",
    "nvml:Nvml",
]
"""Module in this folder and its DevicePort. NVIDIA is last: that there is no NVML is worth a notice
only where nothing else is measured."""


def vendors() -> list[type[DevicePort]]:
    """Return the source of every vendor."""
    entries = (entry.partition(":") for entry in VENDORS)
    return [getattr(import_module(f"{__package__}.{module}"), name) for module, _, name in entries]


def present(place: Place) -> list[type[DevicePort]]:
    """Return the sources of the vendors whose devices this process can see."""
    return [vendor for vendor in vendors() if vendor.present(place)]


def ports(place: Place) -> list[DevicePort]:
    """Return a source for each vendor present, not yet open."""
    return [vendor.at(place) for vendor in present(place)]


def selecting_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide which devices a job has, as far as they are set.

    A rank sends them to the meter of its node.
    """
    names = {name for vendor in vendors() for name in vendor.variables}
    return {name: text for name, text in environ.items() if name in names}


def accelerator_makers(root: Path) -> set[str]:
    """Return the PCI vendor ids behind the kernel's accel class."""
    folder = root / "sys/class/accel"
    paths = folder.glob("accel*/device/vendor") if folder.exists() else ()
    return {text for path in paths if (text := text_of(path))}


def may_open(root: Path, *nodes: str) -> bool:
    """Return whether this process may use a file in /dev that matches one of `nodes`.

    What a container sees in /sys is the whole machine's, and not what its jobs can use.
    """
    paths = (path for node in nodes for path in (root / "dev").glob(node))
    return any(os.access(path, os.R_OK | os.W_OK) for path in paths)


def pci_devices(root: Path, maker: str, *classes: str) -> list[Path]:
    """Return the folders of a maker's PCI devices, of these base classes where any is named."""
    paths = (root / "sys/bus/pci/devices").glob("*/vendor")
    folders = [path.parent for path in paths if text_of(path) == maker]
    return [f for f in folders if not classes or (text_of(f / "class") or "")[:4] in classes]


def may_render(root: Path, card: Path) -> bool:
    """Return whether this process may open a render node of the PCI device in a folder of sysfs."""
    return may_open(root, *(f"dri/{node.name}" for node in card.glob("drm/renderD*")))


def in_processor(root: Path, address: str) -> bool:
    """Return whether graphics at a PCI address are part of a processor: Intel's by their place; of
    AMD the device has functions of the processor's own, such as its security processor and USB.
    """
    folder, device = root / "sys/bus/pci/devices", address.rpartition(".")[0]
    if not device or (text_of(folder / address / "class") or "")[:4] != DISPLAY:
        return False
    makers = {text_of(path) for path in folder.glob(f"{device}.*/vendor")}
    return AMD_PROCESSORS in makers or (INTEL in makers and address == INTEL_GRAPHICS)


def graphics_in_processor(root: Path) -> bool:
    """Return whether a job may use graphics that are part of the processor."""
    cards = [*pci_devices(root, AMD, DISPLAY), *pci_devices(root, INTEL, DISPLAY)]
    return any(in_processor(root, card.name) and may_render(root, card) for card in cards)


def library(module: str, advice: str) -> Load:
    """Return the import of a vendor's library, which comes with the vendor's drivers and is not a
    dependency of gramwatt. It raises SourceAbsent with `advice` when it cannot be imported.
    """

    def load() -> Any:
        try:
            with redirect_stdout(StringIO()):  # amdsmi prints that too
                return import_module(module)
        except Exception as error:  # KeyError and AttributeError too: versions that do not match
            text = f"{module} cannot be imported ({type(error).__name__}: {error})"
            raise SourceAbsent(text, advice) from None

    return load


def rated_w(name: str) -> tuple[float, float] | None:
    """Return idle and rated power of a part [W] by the user's catalog.

    None where it has not both of that name: nothing is guessed. An overlay that cannot be used is
    left out here; reading the job's settings reports what is wrong with it.
    """
    from gramwatt.collectors.settings.catalogs import read_catalog, user_catalog
    from gramwatt.sci.catalog.overlay import OverlayError

    try:
        try:
            catalog = user_catalog()
        except OverlayError:
            catalog = read_catalog(None)
        part = catalog.hardware(name)
    except (GramwattError, OSError):
        return None
    return (part.idle.value, part.tdp_w) if part.idle and part.tdp_w else None
