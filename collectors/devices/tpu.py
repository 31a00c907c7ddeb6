"""Google TPUs: duty cycle from libtpu through tpu-info. Never run on the hardware.

Shapes follow tpu-info 0.14 (tpu_info.device, get_local_chips and get_chips; tpu_info.metrics,
get_chip_usage). No interface gives watts. Where the catalog has idle and rated power, power is
taken to run from one to the other with the duty cycle; else the energy stays unknown. The
figures come from a server inside the job, so a job without libtpu's metrics server shows none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from time import monotonic
from typing import Any

from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.board import (
    Board,
    LibraryPort,
    Load,
    NotSupported,
    Place,
    Profile,
    ReadFailed,
    Visible,
    accelerator_makers,
    library,
    may_open,
    offered,
    pci_devices,
    rated_w,
)
from gramwatt.sci.figures.units import mw_from_w

ADVICE = (
    "pip install tpu-info (Python 3.11 where libtpu wants it)\n"
    "give the container its /dev/accel* or vfio"
)
FRESH_S = 30.0
"""A duty cycle older than this is not used."""
FIRST_S = 0.5
"""How long the job's server is waited for once, when the chips are found: it knows their memory."""
PCI_ID = "0x1ae0"
"""PCI vendor id of Google (tpu-info, device.py)."""
CHIPS, DEVICES = "TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"


class Tpu(LibraryPort):
    """The TPU chips of this machine."""

    vendor = title = "Google TPU"
    meter = "tpu-info"
    library = "tpu_info"
    advice, silent = ADVICE, "tpu-info finds no chip"
    sampled_kind = "derived"
    variables = (CHIPS, DEVICES)

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether a job may open a chip. Newer ones are passed through by vfio, as other
        devices are too: there the PCI vendor decides.
        """
        root, older = place.root, "accel[0-9]*"
        if PCI_ID in accelerator_makers(root) and may_open(root, older, f"accel/{older}"):
            return True
        return may_open(root, older, "vfio/[0-9]*") and bool(pci_devices(root, PCI_ID))

    def __init__(
        self,
        load: Load | None = None,
        metrics: Load | None = None,
        rated: Callable[[str], tuple[float, float] | None] = rated_w,
        in_background: bool = True,
    ) -> None:
        super().__init__(load or library(f"{self.library}.device", ADVICE))
        self._load_metrics = metrics or library(f"{self.library}.metrics", ADVICE)
        self._rated = rated
        self._in_background = in_background
        self._usage_of: Callable[[Any], Sequence[Any]] | None = None
        self._chip: Any = None
        self._count = 0
        self._power_w: tuple[float, float] | None = None
        self._seen: tuple[float, dict[int, tuple[float, int, int]]] | None = None
        self._asking: Thread | None = None

    def start(self) -> None:
        """Find the chips, by their PCI addresses where tpu-info tells those (0.14): a TPU7x has two
        functions there, which `get_local_chips` counts one by one.
        """
        self._chip, functions = self.lib.get_local_chips()
        self._count = offered(lambda: len(self.lib.get_chips())) or functions
        if self._chip is None or self._count == 0:
            raise ReadFailed("the PCI bus shows none")
        self._power_w = self._rated(self._name)
        metrics = self._load_metrics()
        self._usage_of = metrics.get_chip_usage
        if "7x" in self._name:  # it tells a duty cycle of each device (tpu-info, cli_helper.py)
            self._usage_of = getattr(metrics, "get_chip_usage_new", self._usage_of)
        self._ask()
        if self._asking:
            self._asking.join(FIRST_S)

    def count(self) -> int:
        """Return the number of chips of this machine."""
        return self._count

    def board(self, index: int) -> Board:
        """Return a chip by the name that the catalog knows, such as TPU v4, and by its position,
        because chips have no id.
        """
        usage = offered(lambda: self._usage(index))
        return Board(index, f"tpu-{index}", self._name, memory_b=usage[2] if usage else None)

    def power_mw(self, index: int) -> float:
        """Return idle to rated power by duty cycle [mW], the catalog's figures."""
        if self._power_w is None:
            raise NotSupported(self.why_unread(index))
        idle_w, rated_w = self._power_w
        duty = self._usage(index)[0] / 100
        if not 0 <= duty <= 1:
            raise ReadFailed(f"libtpu reports a duty cycle of {100 * duty} %")
        return round(mw_from_w(idle_w + duty * (rated_w - idle_w)))

    def profile(self, index: int, *, full: bool) -> Profile:
        """Return the duty cycle and memory in use."""
        duty_percent, used_b, _ = self._usage(index)
        return Profile(round(duty_percent) / 100, used_b)

    def why_unread(self, index: int) -> str:
        """Return why: no watts are published."""
        return (
            "libtpu gives a duty cycle and no power, and the catalog lacks idle or rated power of "
            f"{self._name}, which an overlay can have"
        )

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """Return the chips of the job, by TPU_VISIBLE_CHIPS or TPU_VISIBLE_DEVICES."""
        name = next((name for name in (CHIPS, DEVICES) if name in environ), None)
        if name is None:
            return Visible.whole(boards)
        return visibility.by_runtime(name, environ, boards)

    @property
    def _name(self) -> str:
        return str(self._chip).removesuffix(" chip")

    def _usage(self, index: int) -> tuple[float, int, int]:
        """Return duty cycle [%], memory used and total [B]; raises ReadFailed when not known."""
        self._ask()
        if self._seen is None or monotonic() - self._seen[0] > FRESH_S:
            raise ReadFailed("libtpu's metrics server does not answer; it lives inside the job")
        if index not in self._seen[1]:
            raise ReadFailed("libtpu does not list this chip")
        return self._seen[1][index]

    def _ask(self) -> None:
        """Query the job's server, which may be slow: the meter does not wait."""
        if not self._in_background:
            self._take()
        elif self._asking is None or not self._asking.is_alive():
            self._asking = Thread(target=self._take, daemon=True)
            self._asking.start()

    def _take(self) -> None:
        try:
            if self._usage_of:
                self._seen = (monotonic(), self._by_chip(self._usage_of(self._chip)))
        except Exception:  # no workload yet, or gone, or rows of another release
            return

    def _by_chip(self, rows: Sequence[Any]) -> dict[int, tuple[float, int, int]]:
        per_chip = max(1, len(rows) // max(1, self._count))
        chips: dict[int, tuple[float, int, int]] = {}
        for place, row in enumerate(rows):
            duty, used, total = chips.get(place // per_chip, (0.0, 0, 0))
            chips[place // per_chip] = (
                duty + float(row.duty_cycle_pct) / per_chip,  # a TPU7x has one for each device
                used + int(row.memory_usage),
                total + int(row.total_memory),
            )
        return chips
