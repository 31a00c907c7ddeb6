"""Intel Gaudi through habana-pyhlml. Never run on the hardware.

Shapes follow habana-pyhlml 1.12 to 1.24 (main.py and hlml_types.py): the counter is in mJ since the
driver was loaded, power and limit in mW, errors carry HLML's code as `value`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from ctypes import c_void_p
from typing import Any

from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.board import (
    Billed,
    Board,
    DeviceLost,
    LibraryPort,
    NotSupported,
    Place,
    Profile,
    ReadFailed,
    Visible,
    accelerator_makers,
    decoded,
    may_open,
    offered,
)
from gramwatt.sci.figures.units import w_from_mw

ADVICE = (
    "install the habana-pyhlml of this machine's driver release, and in a container use the "
    "habana runtime with HABANA_VISIBLE_DEVICES=all"
)
UNSUPPORTED, LOST = 3, (15, 11)
"""HLML_ERROR_NOT_SUPPORTED, and HLML_ERROR_AIP_IS_LOST of habana-pyhlml and of the first pyhlml."""
PCI_ID = "0x1da3"
"""PCI vendor id of Habana Labs (Linux, habanalabs driver)."""
DEVICES, MODULES = "HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES"


class Pyhlml(LibraryPort):
    """The Gaudi processors of this machine."""

    vendor = title = "Intel Gaudi"
    meter = "hlml"
    library = "pyhlml"
    native = True
    advice, silent = ADVICE, "the Gaudi driver does not answer"
    variables = (MODULES, DEVICES, *visibility.SCHEDULER)

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether a job may open a device: by the node of older drivers, or of newer ones,
        which other makers have too.
        """
        return may_open(place.root, "hl[0-9]*") or (
            PCI_ID in accelerator_makers(place.root) and may_open(place.root, "accel/accel[0-9]*")
        )

    def start(self) -> None:
        """Start HLML and list its devices."""
        self.lib.hlmlInit()
        self._count = int(self.lib.hlmlDeviceGetCount())
        if not self._count:
            raise ReadFailed("it lists no device")
        self._handles: dict[int, Any] = {}
        self._ids: dict[int, str] = {}
        """Ids of devices that have told theirs: a lost one is looked up again by it."""

    def close(self) -> None:
        """Shut HLML down; never raises."""
        with suppress(Exception):
            self.lib.hlmlShutdown()

    def count(self) -> int:
        """Return the number of devices found."""
        return self._count

    def board(self, index: int) -> Board:
        """Return a board, such as HL-225."""
        uuid = self._ids[index] = decoded(self._ask("hlmlDeviceGetUUID", index))
        name = offered(lambda: decoded(self._ask("hlmlDeviceGetName", index))) or self.title
        memory_b = offered(lambda: self._ask("hlmlDeviceGetMemoryInfo", index).total)
        return Board(index, uuid, name, memory_b=memory_b)

    def energy_mj(self, index: int) -> float:
        """Return the energy since the driver was loaded [mJ]."""
        return int(self._ask("hlmlDeviceGetTotalEnergyConsumption", index))

    def power_mw(self, index: int) -> float:
        """Return the power [mW]."""
        return int(self._ask("hlmlDeviceGetPowerUsage", index))

    def profile(self, index: int, *, full: bool) -> Profile:
        """Return use and memory in use."""
        rates = offered(lambda: self._ask("hlmlDeviceGetUtilizationRates", index))
        used_b = offered(lambda: int(self._ask("hlmlDeviceGetMemoryInfo", index).used))
        busy = None if rates is None else int(getattr(rates, "aip", rates)) / 100
        return Profile(busy, used_b)

    def limit_w(self, index: int) -> float | None:
        """Return the default power limit [W]; HLML reports no other."""
        return w_from_mw(int(self._ask("hlmlDeviceGetPowerManagementDefaultLimit", index)))

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """Return the devices of the job, by HABANA_VISIBLE_MODULES and HABANA_VISIBLE_DEVICES."""
        modules: dict[str, int] = {}
        for board in boards:
            with suppress(Exception):
                modules[board.uuid] = int(self._ask("hlmlDeviceGetModuleID", board.ordinal))
        return visible(environ, boards, modules)

    def _ask(self, call: str, index: int) -> Any:
        try:
            if index not in self._handles:
                self._handles[index] = self._handle(index)
            return getattr(self.lib, call)(self._handles[index])
        except AttributeError as error:  # a release without this function
            raise NotSupported(f"{call}: {error}") from None
        except Exception as error:
            code = getattr(error, "value", None)
            if code in LOST:
                self._handles.pop(index, None)
                raise DeviceLost(f"{call}: {error}") from None
            meaning = NotSupported if code == UNSUPPORTED else ReadFailed
            raise meaning(f"{call}: {error}") from None

    def _handle(self, index: int) -> Any:
        """Return a device's handle; of one that was lost by its id, as others may have moved up."""
        if index in self._ids:
            handle = self.lib.hlmlDeviceGetHandleByUUID(self._ids[index])
        else:
            handle = self.lib.hlmlDeviceGetHandleByIndex(index)
        # Releases up to 1.16 have one object for all devices, which each look-up overwrites.
        return c_void_p(handle.value) if isinstance(handle, c_void_p) else handle


def visible(
    environ: Mapping[str, str], boards: Sequence[Board], modules: Mapping[str, int]
) -> Visible:
    """Return the devices of the job: HABANA_VISIBLE_MODULES by module id; HABANA_VISIBLE_DEVICES by
    the node's index, which a container lists again from 0. `modules` are the ids by UUID.
    """
    if MODULES not in environ or environ[MODULES].strip().lower() == "all":
        if DEVICES not in environ:
            return visibility.by_scheduler(environ, boards)
        return visibility.by_node(DEVICES, environ, boards)
    here = {str(modules[board.uuid]): board for board in boards if board.uuid in modules}
    entries = dict.fromkeys(visibility.split(environ[MODULES]))
    billed = [Billed(here[entry], here[entry].uuid, 1.0) for entry in entries if entry in here]
    absent = [entry for entry in entries if entry not in here]
    texts = (f"{MODULES} names {entry!r}, which is not a module here." for entry in absent)
    return Visible(tuple(billed), tuple(texts))
