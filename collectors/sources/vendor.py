"""Base class of the sources of vendors other than NVIDIA: a port that offers nothing.

A vendor's file overrides what its library has. Readings stay in the port's units, mJ and mW. None
of these sources has been run on its hardware; each names the document that its shapes follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

from gramwatt.collectors.devices.base import MigSlice, NotSupported, SourceAbsent
from gramwatt.collectors.devices.visibility import Board, Visible, everything

Load = Callable[[], Any]
"""Imports a vendor's library; tests pass a fake module."""


class VendorPort:
    """A vendor's devices; every call raises NotSupported until a subclass offers it.

    `sampled_kind` labels energy that comes from its power readings, `includes_host`: its
    energy holds the host's processor and memory, `counter_survives` that its counter goes on when
    the meter is started anew.
    """

    vendor = ""
    meter = ""
    device_class = "accelerator"
    sampled_kind = "integrated"
    includes_host = False
    counter_survives = True

    @classmethod
    def at(cls, root: Path) -> Self:
        """The source of a machine whose file system begins at `root`."""
        return cls()

    def open(self) -> None:
        """Load the library and find the devices; raises SourceAbsent with what to do."""
        raise SourceAbsent(f"{self.vendor} has no source here")

    def close(self) -> None:
        """Release the library; never raises."""

    def driver(self) -> str:
        """The driver's version."""
        self._lacks("a driver version")

    def count(self) -> int:
        """Devices found by `open`."""
        return 0

    def name(self, index: int) -> str:
        """Device name as the driver reports it."""
        self._lacks("a name")

    def uuid(self, index: int) -> str:
        """A stable id of the device."""
        self._lacks("an id")

    def energy_mj(self, index: int) -> int:
        """Energy counter [mJ]."""
        self._lacks("an energy counter")

    def power_mw(self, index: int) -> int:
        """Power [mW]."""
        self._lacks("power")

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Field values, which only NVML has."""
        self._lacks("field values")

    def utilisation_percent(self, index: int) -> int:
        """Share of the last period in use [%]."""
        self._lacks("utilisation")

    def utilisation_percents(self, index: int) -> tuple[int, int | None]:
        """Utilisation, and None for the memory controller's, which no source here reads yet."""
        return self.utilisation_percent(index), None

    def encoder_percent(self, index: int) -> int:
        """Utilisation of the video encoder [%]."""
        self._lacks("an encoder")

    def temperature_c(self, index: int) -> int:
        """Temperature [degC]."""
        self._lacks("a temperature")

    def clock_reasons(self, index: int) -> int:
        """Reasons for the clocks, which only NVML has."""
        self._lacks("reasons for its clocks")

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """A sample buffer, which only NVML has."""
        self._lacks("a sample buffer")

    def memory_b(self, index: int) -> tuple[int, int]:
        """Device memory used and total [B]."""
        self._lacks("memory use")

    def limit_mw(self, index: int) -> int:
        """Power limit in force [mW]."""
        self._lacks("a power limit")

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """Parts of a device, which only MIG has."""
        return ()

    def share(self, index: int) -> float:
        """The part (0, 1] of its readings that is this device's: below 1 where several share one
        sensor.
        """
        return 1.0

    def why_unread(self, index: int) -> str:
        """Why neither energy nor power of the device can be read, and what to do."""
        return "neither counter nor power is readable"

    def reserved(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """The devices of the job; all of them where the environment names none."""
        return everything(boards)

    def _lacks(self, what: str) -> NoReturn:
        raise NotSupported(f"{self.meter} has no {what}")


def library(module: str, advice: str) -> Load:
    """How a vendor's library is imported, by name: it comes with the vendor's drivers and is not a
    dependency of gramwatt. Raises SourceAbsent with `advice` when it cannot be.
    """

    def load() -> Any:
        import contextlib
        import io

        try:
            # Some print to standard output, which is the meter's line to its client.
            with contextlib.redirect_stdout(io.StringIO()):
                return import_module(module)
        except Exception as error:  # KeyError and AttributeError too: versions that do not match
            text = f"{module} cannot be imported ({type(error).__name__}: {error}); {advice}"
            raise SourceAbsent(text) from None

    return load


def rated_w(name: str) -> tuple[float, float] | None:
    """Idle and rated power of a part [W] as the user's catalog has them; idle 0 where it has none.

    None where it has no rated power of that name: nothing is guessed. An overlay that cannot be
    used is left out here; reading the job's settings reports what is wrong with it.
    """
    from gramwatt.collectors.common.catalogs import read_catalog, user_catalog
    from gramwatt.sci.base.errors import GramwattError
    from gramwatt.sci.catalog.overlay import OverlayError

    try:
        try:
            catalog = user_catalog()
        except OverlayError:
            catalog = read_catalog(None)
        part = catalog.hardware(name)
    except (GramwattError, OSError):
        return None
    if part.tdp_w is None:
        return None
    return (part.idle_w.value if part.idle_w else 0.0), part.tdp_w
