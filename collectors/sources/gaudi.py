"""Intel Gaudi through habana-pyhlml. Never run on the hardware.

Shapes follow pyhlml's own docstrings (HabanaAI/pyhlml, main.py and hlml_types.py): the counter is
in mJ since the driver was loaded, power and limit in mW, errors carry HLML's code as `value`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from gramwatt.collectors.devices.base import DeviceLost, NotSupported, ReadFailed, SourceAbsent
from gramwatt.collectors.devices.visibility import Board, Visible, gaudi
from gramwatt.collectors.sources.vendor import Load, VendorPort, library

_T = TypeVar("_T")
ADVICE = (
    "install the habana-pyhlml of this machine's driver release, and in a container use the "
    "habana runtime with HABANA_VISIBLE_DEVICES=all"
)
UNSUPPORTED, LOST = 3, 11
"""HLML_ERROR_NOT_SUPPORTED and HLML_ERROR_AIP_IS_LOST (hlml_types.py)."""


class Pyhlml(VendorPort):
    """The Gaudi processors of this machine."""

    vendor = "Intel Gaudi"
    meter = "hlml"

    def __init__(self, load: Load | None = None) -> None:
        self._load = load or library("pyhlml", ADVICE)
        self._hlml: Any = None
        self._handles: list[Any] = []

    def open(self) -> None:
        """Start HLML and list its devices; raises SourceAbsent."""
        self._hlml = self._load()
        try:
            self._hlml.hlmlInit()
            count = int(self._hlml.hlmlDeviceGetCount())
            self._handles = [self._hlml.hlmlDeviceGetHandleByIndex(i) for i in range(count)]
        except Exception as error:
            raise SourceAbsent(f"the Gaudi driver does not answer ({error}); {ADVICE}") from None

    def close(self) -> None:
        """Shut HLML down; never raises."""
        with suppress(Exception):
            self._hlml.hlmlShutdown()

    def count(self) -> int:
        """Devices found."""
        return len(self._handles)

    def name(self, index: int) -> str:
        """Board name, such as HL-225."""
        return _text(self._ask("hlmlDeviceGetName", index))

    def uuid(self, index: int) -> str:
        """The device's UUID."""
        return _text(self._ask("hlmlDeviceGetUUID", index))

    def energy_mj(self, index: int) -> int:
        """Energy since the driver was loaded [mJ]."""
        return int(self._ask("hlmlDeviceGetTotalEnergyConsumption", index))

    def power_mw(self, index: int) -> int:
        """Power [mW]."""
        return int(self._ask("hlmlDeviceGetPowerUsage", index))

    def utilisation_percent(self, index: int) -> int:
        """Utilisation [%]."""
        found = self._ask("hlmlDeviceGetUtilizationRates", index)
        return int(getattr(found, "aip", found))

    def memory_b(self, index: int) -> tuple[int, int]:
        """Memory used and total [B]."""
        found = self._ask("hlmlDeviceGetMemoryInfo", index)
        return int(found.used), int(found.total)

    def limit_mw(self, index: int) -> int:
        """Default power limit [mW]; HLML reports no other."""
        found = self._ask("hlmlDeviceGetPowerManagementDefaultLimit", index)
        return int(getattr(found, "value", found))

    def reserved(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """By HABANA_VISIBLE_MODULES and HABANA_VISIBLE_DEVICES."""
        modules: dict[str, int] = {}
        for board in boards:
            with suppress(Exception):
                module = self._ask("hlmlDeviceGetModuleID", board.ordinal)
                modules[board.uuid] = int(module)
        return gaudi(environ, boards, modules)

    def _ask(self, call: str, index: int) -> Any:
        try:
            return getattr(self._hlml, call)(self._handles[index])
        except Exception as error:
            raise self._meaning(error)(f"{call}: {error}") from None

    @staticmethod
    def _meaning(error: Exception) -> Callable[[str], Exception]:
        if isinstance(error, AttributeError):  # a release without this function
            return NotSupported
        code = getattr(error, "value", None)
        return {UNSUPPORTED: NotSupported, LOST: DeviceLost}.get(code or -1, ReadFailed)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
