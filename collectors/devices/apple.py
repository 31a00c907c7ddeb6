"""Apple silicon through zeus-apple-silicon. Never run on the hardware.

Shapes follow zeus-apple-silicon 1.1's AppleEnergyMetrics: integers of mJ counted since the monitor
was made, None for what a chip does not report. The whole chip is one device: processor, GPU,
neural engine and memory, so nothing of the host is added on top.
"""

from __future__ import annotations

from gramwatt.collectors.devices.board import (
    Board,
    LibraryPort,
    Load,
    NotSupported,
    Place,
    ReadFailed,
    decoded,
    offered,
)

PARTS = ("cpu_total_mj", "gpu_mj", "gpu_sram_mj", "ane_mj", "dram_mj")
"""Parts that do not overlap; the clusters and managers are inside cpu_total_mj."""
NEEDED = ("cpu_total_mj", "gpu_mj")


class AppleSilicon(LibraryPort):
    """The chip of this Mac."""

    vendor, title = "Apple", "Apple silicon"
    meter = "apple-ioreport"
    library = "zeus_apple_silicon"
    native = True
    advice, silent = "pip install zeus-apple-silicon", "IOReport does not answer"
    device_class = "module"
    counter_survives = False

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return whether this is a Mac with Apple's chip."""
        return place.platform == "darwin" and place.machine == "arm64"

    def __init__(self, load: Load | None = None, chip: str | None = None) -> None:
        super().__init__(load)
        self._name = chip or _brand() or "Apple silicon"

    def start(self) -> None:
        """Start the monitor."""
        self._monitor = self.lib.AppleEnergyMonitor()
        self._parts: frozenset[str] = frozenset()

    def remarks(self) -> tuple[str, ...]:
        """Return whether the figure is without the memory, as on some releases of macOS, or without
        one of the two processors of an Ultra: each has its own channel, and zeus-apple-silicon 1.1
        keeps the last.
        """
        texts = []
        if "dram_mj" not in (offered(self._read) or ("dram_mj",)):
            texts.append("IOReport gives no energy of this Mac's memory; it is not in the figure.")
        if self._name.endswith("Ultra"):
            text = "zeus-apple-silicon up to 1.1 counts the processor of one die of an Ultra; the "
            texts.append(f"{text}other one's is then not in the figure.")
        return tuple(texts)

    def count(self) -> int:
        """Return 1: a Mac has one chip."""
        return 1

    def board(self, index: int) -> Board:
        """Return the chip by its name, such as Apple M2."""
        return Board(index, "apple-soc", self._name, includes_host=True)

    def energy_mj(self, index: int) -> float:
        """Return the energy of the whole chip since the monitor was made [mJ]: of the parts that
        the first complete answer has.
        """
        parts = self._read()
        if not parts.keys() >= {*NEEDED}:
            raise NotSupported("IOReport gives not both processor and GPU energy of this chip")
        self._parts = self._parts or frozenset(parts)
        if not self._parts <= parts.keys():  # a part less would look like a reset
            raise ReadFailed("IOReport left out a part of the chip")
        return sum(parts[name] for name in self._parts)

    def _read(self) -> dict[str, int]:
        metrics = self._monitor.get_cumulative_energy()
        answers = {name: getattr(metrics, name, None) for name in PARTS}
        return {name: int(value) for name, value in answers.items() if value is not None}


def _brand() -> str | None:
    """Return the chip's marketing name, by sysctl(3); None where it is not known."""
    import ctypes

    buffer = ctypes.create_string_buffer(128)
    size = ctypes.byref(ctypes.c_size_t(len(buffer)))
    try:
        sysctl = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError):
        return None
    failed = sysctl(b"machdep.cpu.brand_string", buffer, size, None, ctypes.c_size_t(0))
    return None if failed else decoded(buffer.value)
