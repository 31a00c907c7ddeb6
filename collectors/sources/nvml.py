"""NVIDIA's GPUs through NVML: how a board is read, and which boards a job has by its environment.

The first variable that is set decides: CUDA_VISIBLE_DEVICES, then Slurm's and the container
runtime's. docs/measuring.md has the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from gramwatt.collectors.common.clock import Clock, SystemClock
from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.port import (
    Board,
    DevicePort,
    GpuUser,
    NotSupported,
    Place,
    Profile,
    Values,
    Visible,
    offered,
)
from gramwatt.collectors.sources.nvml_calls import (
    FAST_FIELDS,
    POWER_AVERAGE_FIELD,
    POWER_INSTANT_FIELD,
    NvmlCalls,
)
from gramwatt.sci.base.units import w_from_mw

VARIABLE = "GRAMWATT_NVML"
NVIDIA, ORDER = "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
DECIDING = (
    visibility.CUDA,
    visibility.STEP,
    visibility.ORDINAL,
    visibility.SLURM_JOB,
    NVIDIA,
)
BY_RUNTIME = (visibility.CUDA, visibility.ORDINAL)
MODULE_NAMES = ("gh200",)
"""Parts whose energy counter is the whole module, processor and memory included (Grace-Hopper;
reported for the counter by the Zeus project, pull request 172)."""
DEVICE_NODE = Path("/dev/nvidia0")
"""Exists where the kernel's driver has a GPU, whether or not NVML can read it."""
CLOCK_REASONS = {
    "power_capped": 0x04,
    "thermally_slowed": 0x20 | 0x40,
    "hardware_slowed": 0x08 | 0x80,
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons that mean less speed than requested (nvml.h, API
version 13): SwPowerCap; SwThermalSlowdown and HwThermalSlowdown; HwSlowdown and
HwPowerBrakeSlowdown. Names as in sci/journal/telemetry.py."""


class Nvml(DevicePort):
    """The boards that NVML lists, of this machine or synthetic ones."""

    vendor = title = "NVIDIA GPU"
    library = "NVML"
    device_class = "gpu"
    variables = (*DECIDING, ORDER, visibility.SLURM_JOB_ID)

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return True: the driver's own answer says why there is no GPU."""
        return True

    @classmethod
    def at(cls, place: Place) -> Self:
        """Return the NVML that the environment chooses."""
        return cls(chosen_calls(place.environ, SystemClock()))

    def __init__(self, calls: NvmlCalls) -> None:
        self.calls = calls
        self.meter = calls.meter
        self._reads: dict[int, Callable[[], Values]] = {}
        self._by_fields: set[int] = set()
        self._not_offered: set[tuple[int, str]] = set()

    def open(self) -> None:
        """Start NVML; raises SourceAbsent with what to do."""
        self.calls.open()

    def close(self) -> None:
        """Shut NVML down; never raises."""
        self.calls.close()

    def driver(self) -> str | None:
        """Return the driver's version; None where it does not say."""
        try:
            return self.calls.driver()
        except Exception:  # a description that is missing costs nothing else
            return None

    def count(self) -> int:
        """Return the number of boards that this process can see."""
        return self.calls.count()

    def board(self, index: int) -> Board:
        """Return a board with its MIG slices."""
        name = self.calls.ask("name", index)
        memory_b = self._ask_if_offered("memory_b", index)
        return Board(
            ordinal=index,
            uuid=self.calls.ask("uuid", index),
            name=name,
            slices=self.calls.slices(index),
            memory_b=float(memory_b[1]) if memory_b else None,
            includes_host=any(part in name.lower() for part in MODULE_NAMES),
        )

    def read(self, index: int) -> Values:
        """Return counter and power by the cheapest calls that the board offers, chosen once."""
        if index not in self._reads:
            self._reads[index] = self._choose_read(index)
        return self._reads[index]()

    def read_power(self, index: int) -> Values:
        """Return the power without the counter, which takes milliseconds on some boards."""
        if index not in self._by_fields:
            return Values(None, self.calls.ask("power_mw", index))
        instant_mw, mean_mw = self.calls.fields(index, (POWER_INSTANT_FIELD, POWER_AVERAGE_FIELD))
        return Values(None, mean_mw if instant_mw is None else instant_mw, mean_mw)

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """Return the driver's power samples after `since_us`: (its time [us], power [mW])."""
        return self.calls.power_samples(index, since_us)

    def profile(self, index: int, *, full: bool) -> Profile:
        """Return use and memory, where `full` also heat and what holds the clocks down.

        A call that is not offered is tried once; one that fails costs its own figure only.
        """
        use = self._ask_if_offered("utilisation_percents", index)
        memory_b = self._ask_if_offered("memory_b", index)
        found: dict[str, float] = {}
        if full:
            if (temperature_c := self._ask_if_offered("temperature_c", index)) is not None:
                found["temperature_c"] = float(temperature_c)
            if (encoder := self._ask_if_offered("encoder_percent", index)) is not None:
                found["encoder_busy"] = encoder / 100
            if (reasons := self._ask_if_offered("clock_reasons", index)) is not None:
                found |= {name: float(bool(reasons & bit)) for name, bit in CLOCK_REASONS.items()}
        if use:
            found["memory_busy"] = use[1] / 100
        return Profile(use[0] / 100 if use else None, memory_b[0] if memory_b else None, found)

    def limit_w(self, index: int) -> float | None:
        """Return the power limit in force [W]."""
        limit_mw = self._ask_if_offered("limit_mw", index)
        return None if limit_mw is None else w_from_mw(limit_mw)

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Return the processes with work on the board since the last call."""
        return self.calls.users(index)

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """Return the boards and MIG slices of the job, by the first variable that is set."""
        return visible(environ, boards)

    def wants_none(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment gives the job no GPU."""
        return wants_none(environ)

    def exists(self) -> bool:
        """Return whether the kernel's driver has a GPU."""
        return DEVICE_NODE.exists()

    def absence_text(self, why: str) -> str:
        """Return the sentence for a machine whose GPUs cannot be read."""
        expected = self.exists() or os.environ.get(visibility.CUDA)
        fix = "; `gramwatt doctor` shows what to do" if expected else ""
        return f"no GPU is measured: {why}{fix}."

    def remark_text(self, remark: str) -> str:
        """Return the remark: its variable is NVIDIA's own."""
        return remark

    def _choose_read(self, index: int) -> Callable[[], Values]:
        """Return how a board is read; a call that fails for a passing reason is kept.

        Raises NotSupported where it gives neither counter nor power.
        """
        calls = self.calls

        def by_fields() -> Values:
            counter_mj, instant_mw, mean_mw = calls.fields(index, FAST_FIELDS)
            return Values(counter_mj, mean_mw if instant_mw is None else instant_mw, mean_mw)

        def by_calls() -> Values:
            return Values(
                offered(lambda: calls.ask("energy_mj", index)) if has_counter else None,
                offered(lambda: calls.ask("power_mw", index)) if has_power else None,
            )

        try:
            found = by_fields()
        except Exception:  # a field interface that is not there
            found = Values(None, None)
        if found.counter_mj is not None and found.power_mw is not None:
            self._by_fields.add(index)
            return by_fields
        has_counter, has_power = (self._offers(call, index) for call in ("energy_mj", "power_mw"))
        if not has_counter and not has_power:
            raise NotSupported(self.why_unread(index))
        return by_calls

    def _offers(self, call: str, index: int) -> bool:
        try:
            self.calls.ask(call, index)
        except NotSupported:
            return False
        except Exception:
            return True
        return True

    def _ask_if_offered(self, call: str, index: int) -> Any:
        if (index, call) in self._not_offered:
            return None
        try:
            return self.calls.ask(call, index)
        except NotSupported:
            self._not_offered.add((index, call))
        except Exception:  # the energy goes on without it
            return None
        return None


def deciding(environ: Mapping[str, str]) -> str | None:
    """Return the variable that decides which GPUs the job has; None when none is set."""
    return next((name for name in DECIDING if name in environ), None)


def wants_none(environ: Mapping[str, str]) -> bool:
    """Return whether the environment gives the job no NVIDIA GPU at all."""
    name = deciding(environ)
    return name is not None and visibility.names_none(environ[name])


def visible(environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """Return the GPUs of the job among `boards`."""
    name = deciding(environ)
    if name is None:
        return visibility.by_scheduler(environ, boards)
    if name not in BY_RUNTIME:
        return visibility.by_node(name, environ, boards)
    found = visibility.by_runtime(name, environ, boards)
    mixed = len({board.name for board in boards}) > 1
    by_index = any(entry.isdecimal() for entry in visibility.split(environ[name]))
    sure = environ.get(ORDER) == "PCI_BUS_ID" or len(found.billed) == len(boards)
    if not (mixed and by_index) or sure:
        return found
    text = (
        f"{name} counts different models in CUDA's own order; they are taken in PCI order. "
        f"Set {ORDER}=PCI_BUS_ID to be sure."
    )
    return found._replace(remarks=(*found.remarks, text))


def chosen_calls(environ: Mapping[str, str], clock: Clock) -> NvmlCalls:
    """Return the NVML to read, not yet open: this machine's, or a synthetic one for demonstrations.

    With another value of the variable it raises SourceAbsent when it is opened; the real NVML is
    never used instead.
    """
    if not (choice := environ.get(VARIABLE, "")):
        from gramwatt.collectors.sources.nvml_calls import Pynvml

        return Pynvml()
    from gramwatt.collectors.sources.synthetic import CHOICE, SyntheticNvml

    known = choice == CHOICE
    return SyntheticNvml(clock, "" if known else f"{VARIABLE} is {choice!r}; it takes {CHOICE}")
