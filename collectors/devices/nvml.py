"""NVIDIA's GPUs through NVML: how a board is read, and which boards a job has by its environment.

The first variable that is set decides: CUDA_VISIBLE_DEVICES, then Slurm's and the container
runtime's. docs/measuring.md has the table.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from gramwatt.collectors.devices import visibility
from gramwatt.collectors.devices.board import (
    Billed,
    Board,
    DeviceLost,
    DevicePort,
    GpuUser,
    MigSlice,
    NotSupported,
    Place,
    Profile,
    ReadFailed,
    Refused,
    SourceAbsent,
    SourceError,
    Values,
    Visible,
    answers,
    decoded,
    offered,
)
from gramwatt.collectors.settings.clock import NS_PER_S, Clock
from gramwatt.collectors.settings.proc import GPU_FILES, openable_gpus
from gramwatt.sci.figures.units import MJ_PER_J, MW_PER_W, w_from_mw

TOTAL_ENERGY_FIELD = 83
"""NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION [mJ] (nvml.h, API version 13)."""
POWER_AVERAGE_FIELD = 185
"""NVML_FI_DEV_POWER_AVERAGE [mW], mean over one second (nvml.h, API version 13)."""
POWER_INSTANT_FIELD = 186
"""NVML_FI_DEV_POWER_INSTANT [mW] (nvml.h, API version 13)."""
FAST_FIELDS = (TOTAL_ENERGY_FIELD, POWER_INSTANT_FIELD, POWER_AVERAGE_FIELD)
MEAN_FIELD = (POWER_AVERAGE_FIELD,)
PROFILE = (
    "utilisation_percents",
    "encoder_percent",
    "temperature_c",
    "clock_reasons",
    "memory_b",
    "limit_mw",
)
"""Calls that say how a board runs: shares of the last period with a kernel running and with memory
in use [%], of the encoder [%], heat [degC], a bit mask, memory used and total [B], limit in force
[mW]. `ask` also takes name, uuid, mig (1 in MIG mode), minor (of /dev/nvidia0), energy_mj and
power_mw, the latter a mean over one second on most parts since Ampere."""


VARIABLE = "GRAMWATT_NVML"
SYNTHETIC = "synthetic"
IDLE_W, BUSY_W, LIMIT_W = 100, 300, 400
PERIOD_S, BUSY_S, PHASE_S = 60.0, 40.0, 20.0
"""Of the synthetic boards: a period, its busy part, the delay of the second board [s]."""
TICK_S = 0.1
"""How often their counter is brought up to date [s]."""
MEMORY_B = 80 * 2**30
NVIDIA = "NVIDIA_VISIBLE_DEVICES"
DECIDING = (visibility.CUDA, visibility.STEP, visibility.ORDINAL, visibility.SLURM_JOB, NVIDIA)
BY_RUNTIME = (visibility.CUDA, visibility.ORDINAL)
MODULE_NAMES = ("gh200",)
"""Parts whose energy counter is the whole module, processor and memory included (Grace-Hopper;
reported for the counter by the Zeus project, pull request 172). GB200's and GB300's is the GPU."""
MODULE_SCOPE = 1
"""NVML_POWER_SCOPE_MODULE: power fields of the whole module, not of the GPU alone (nvml.h)."""
JETSON = re.compile(r"nvgpu|\b(orin|thor|xavier|tegra)\b", re.IGNORECASE)
"""Names that the NVML of JetPack 6 and 7 gives the GPU of the module itself, of which it reads
nothing: the sensors of the module hold it."""
DEVICE_FILES = "dev/nvidia[0-9]*"
"""Those of the GPUs that the kernel's driver has, whether or not NVML can read them; a container
may have any one of them."""
WSL, NIXOS, GKE = "usr/lib/wsl/lib", "run/opengl-driver/lib", "usr/local/nvidia/lib64"
FOLDERS = (WSL, NIXOS, GKE, ".singularity.d/libs")
"""Where the driver's library is put, by Apptainer the last, whether or not the loader is told."""
CLOCK_REASONS = {
    "power_capped": 0x04,
    "thermally_slowed": 0x20 | 0x40,
    "hardware_slowed": 0x08 | 0x80,
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons that mean less speed than requested (nvml.h, API
version 13): SwPowerCap; SwThermalSlowdown and HwThermalSlowdown; HwSlowdown and
HwPowerBrakeSlowdown. Names as in sci/records/records.py."""


class Nvml(DevicePort):
    """The boards that NVML lists. What a board answers to a call is a subclass's: the driver's of
    this machine, or a synthetic one's; every call may raise any SourceError.
    """

    vendor = title = "NVIDIA GPU"
    library = "NVML"
    device_class = "gpu"
    variables = (*DECIDING, visibility.ORDER, visibility.SLURM_JOB_ID, GPU_FILES)

    @classmethod
    def present(cls, place: Place) -> bool:
        """Return True: the driver's own answer says why there is no GPU."""
        return True

    @classmethod
    def at(cls, place: Place) -> Nvml:
        """Return the NVML that the environment chooses, not yet open: this machine's, or a
        synthetic one for demonstrations.

        With another value of the variable it raises SourceAbsent when it is opened; the real NVML
        is never used instead.
        """
        choice = place.environ.get(VARIABLE, "")
        if not choice:
            port = Pynvml()
            port.root = place.root
            return port
        wrong = "" if choice == SYNTHETIC else f"{VARIABLE} is {choice!r}; it takes {SYNTHETIC}"
        return SyntheticNvml(Clock(), wrong)

    def __init__(self) -> None:
        super().__init__()
        self._with_mean: set[int] = set()
        """Boards that give the mean of their power over a second, as a field."""
        self.modules: set[int] = set()
        """Boards whose counter is a module's; its power is a field of its own."""
        self._not_offered: set[tuple[int, str]] = set()

    def ask(self, call: str, index: int) -> Any:
        """Return what a board answers to a call, by the names at `PROFILE`."""
        raise NotImplementedError

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Return several field values in one call, None for each the board does not offer."""
        self._lacks("field values")

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """Return the MIG devices of the board that this process can see; empty without MIG."""
        return ()

    def board(self, index: int) -> Board:
        """Return a board with its MIG slices; only its id must be known."""
        uuid = self.ask("uuid", index)
        name = self._ask_if_offered("name", index) or self.title
        if any(part in name.lower() for part in MODULE_NAMES):
            self._ask_if_offered("energy_mj", index)
            if (index, "energy_mj") not in self._not_offered:  # else it is read as a GPU is
                self.modules.add(index)
        memory_b = self._ask_if_offered("memory_b", index)
        slices = offered(lambda: self.slices(index)) or ()
        return Board(
            ordinal=index,
            uuid=uuid,
            name=name,
            slices=slices,
            memory_b=float(memory_b[1]) if memory_b else None,
            includes_host=index in self.modules,
            part_of="module" if JETSON.search(name) else "",
            mig=bool(slices) or self._ask_if_offered("mig", index) == 1,
            minor=self._ask_if_offered("minor", index),
        )

    def read(self, index: int) -> Values:
        """Return counter and power: as fields where the board offers both, in one call, else what
        is missing of them by a call of its own.
        """
        counter_mj = power_mw = mean_mw = None
        if (index, "fields") not in self._not_offered:
            counter_mj, power_mw, mean_mw = self._fields(index)
        if counter_mj is None or power_mw is None:
            counter_mj, power_mw = answers(
                lambda: self._ask("energy_mj", index) if counter_mj is None else counter_mj,
                lambda: self._power_mw(index) if power_mw is None else power_mw,
                none=lambda: self._unread(index),
            )
        return Values(counter_mj, power_mw, mean_mw)

    def read_power(self, index: int) -> float:
        """Return the power [mW] without the counter, which takes milliseconds on some boards."""
        mean_mw = self.fields(index, MEAN_FIELD)[0] if index in self._with_mean else None
        return self._power_mw(index) if mean_mw is None else mean_mw

    def profile(self, index: int, *, full: bool) -> Profile:
        """Return use and memory, where `full` also heat and what holds the clocks down.

        A call that is not offered is tried once; one that fails costs its own figure only.
        """
        use = self._ask_if_offered("utilisation_percents", index)
        memory_b = self._ask_if_offered("memory_b", index)
        if memory_b and memory_b[0] > memory_b[1]:  # HAMi's library tells 17 TB (HAMi #1181)
            memory_b = None
        telemetry: dict[str, float] = {}
        if full:
            if (temperature_c := self._ask_if_offered("temperature_c", index)) is not None:
                telemetry["temperature_c"] = float(temperature_c)
            if (encoder := self._ask_if_offered("encoder_percent", index)) is not None:
                telemetry["encoder_busy"] = encoder / 100
            if (reasons := self._ask_if_offered("clock_reasons", index)) is not None:
                telemetry |= {
                    name: float(bool(reasons & bit)) for name, bit in CLOCK_REASONS.items()
                }
        if use:
            telemetry["memory_busy"] = use[1] / 100
        return Profile(use[0] / 100 if use else None, memory_b[0] if memory_b else None, telemetry)

    def limit_w(self, index: int) -> float | None:
        """Return the power limit in force [W]."""
        limit_mw = self._ask_if_offered("limit_mw", index)
        return None if limit_mw is None else w_from_mw(limit_mw)

    def visible(self, environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
        """Return the boards and MIG slices of the job, by the first variable that is set."""
        return visible(environ, boards)

    def wants_none(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment gives the job no GPU. A container may have been given one
        although NVIDIA_VISIBLE_DEVICES names none, which is to its runtime and not to CUDA.
        """
        name = deciding(environ)
        is_none = name is not None and visibility.names_none(environ[name])
        return is_none and not (name == NVIDIA and self.exists())

    def hidden(self, environ: Mapping[str, str]) -> list[str]:
        """Return the names of GPUs' files that a process of the job may open, and this one not."""
        own = openable_gpus(str(self.root / "dev")).split(",")
        return [f"nvidia{n}" for n in visibility.split(environ.get(GPU_FILES, "")) if n not in own]

    def exists(self) -> bool:
        """Return whether the kernel's driver has a GPU."""
        return any(self.root.glob(DEVICE_FILES))

    def is_expected(self) -> bool:
        """Return whether the kernel's driver has a GPU, or a variable names one."""
        return self.exists() or bool(os.environ.get(visibility.CUDA))

    def why_unread(self, index: int) -> str:
        """Return why, and what to do where the board is not what the job uses."""
        return (
            "neither counter nor power is readable, as of small cards and of virtual GPUs; if the "
            f"job does not use it, name those that it uses in {visibility.CUDA}"
        )

    def _fields(self, index: int) -> Values:
        """Return counter and power as fields, None for each that the board does not give so."""
        try:
            counter_mj, instant_mw, mean_mw = self.fields(index, FAST_FIELDS)
        except NotSupported:
            self._not_offered.add((index, "fields"))
            return Values(None, None)
        except Exception:  # the calls of their own say why
            return Values(None, None)
        power_mw = mean_mw if instant_mw is None else instant_mw
        if counter_mj is None and power_mw is None and index not in self._with_mean:
            self._not_offered.add((index, "fields"))
        elif mean_mw is not None:
            self._with_mean.add(index)
        return Values(counter_mj, power_mw, mean_mw)

    def _power_mw(self, index: int) -> float:
        if index in self.modules:
            raise NotSupported("the call gives the power of the GPU alone, not of its module")
        power_mw: float = self._ask("power_mw", index)
        return power_mw

    def _unread(self, index: int) -> str:
        """Return why nothing is read; calls that were not offered are tried again, rarely."""
        self._not_offered = {item for item in self._not_offered if item[0] != index}
        return self.why_unread(index)

    def _ask(self, call: str, index: int) -> Any:
        """Return what a board answers; a call that is not offered is made once."""
        if (index, call) in self._not_offered:
            raise NotSupported(f"{call} is not offered")
        try:
            return self.ask(call, index)
        except NotSupported:
            self._not_offered.add((index, call))
            raise

    def _ask_if_offered(self, call: str, index: int) -> Any:
        return offered(partial(self._ask, call, index))


_VALUES = {
    0: struct.Struct("@d"),
    1: struct.Struct("@I"),
    2: struct.Struct("@L"),
    3: struct.Struct("@Q"),
    4: struct.Struct("@q"),
    5: struct.Struct("@i"),
    6: struct.Struct("@H"),
}
"""nvmlValueType_t -> how the member of nvmlValue_t lies in memory (nvml.h, API version 13)."""
_FIELD_VALUE = struct.Struct("@IIqqii8s")
"""nvmlFieldValue_t: fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value."""
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t by nvmlValueType_t, as the binding names them."""


CALLS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "name": ("nvmlDeviceGetName", decoded),
    "uuid": ("nvmlDeviceGetUUID", decoded),
    "mig": ("nvmlDeviceGetMigMode", lambda modes: int(modes[0])),
    "minor": ("nvmlDeviceGetMinorNumber", int),
    "energy_mj": ("nvmlDeviceGetTotalEnergyConsumption", int),
    "power_mw": ("nvmlDeviceGetPowerUsage", int),
    "limit_mw": ("nvmlDeviceGetEnforcedPowerLimit", int),
    "encoder_percent": ("nvmlDeviceGetEncoderUtilization", lambda answer: int(answer[0])),
    "utilisation_percents": (
        "nvmlDeviceGetUtilizationRates",
        lambda rates: (int(rates.gpu), int(rates.memory)),
    ),
    "temperature_c": ("nvmlDeviceGetTemperature", int),
    "clock_reasons": ("nvmlDeviceGetCurrentClocksEventReasons", int),
    "memory_b": ("nvmlDeviceGetMemoryInfo", lambda info: (int(info.used), int(info.total))),
}
"""NVML's function for a call, and what of its answer is taken."""


NO_PERMISSION, LIBRARY_NOT_FOUND, UNKNOWN_ERROR = 4, 12, 999
MEANINGS: Mapping[int, type[SourceError]] = {
    3: NotSupported,
    13: NotSupported,
    NO_PERMISSION: Refused,
    15: DeviceLost,
    16: DeviceLost,
}
"""What an error of a call is (nvmlReturn_t): not supported, function not found, no permission, GPU
lost, reset required. Any other may be gone at the next reading."""
FIXES = {
    NO_PERMISSION: "let the user read /dev/nvidia*",
    9: "load the driver: `sudo modprobe nvidia`",
    LIBRARY_NOT_FOUND: "",
    18: "the driver was updated while it was loaded: restart the machine",
    UNKNOWN_ERROR: "start the container anew, or the machine: it has lost the GPUs' devices",
}
"""What to do by the error that opening gives (nvmlReturn_t): no permission, driver not loaded,
library not found, driver and library of two versions, unknown."""
SEEN = (NO_PERMISSION, 18, UNKNOWN_ERROR)
"""Errors of a driver that is loaded, and so has a GPU."""
USED_BY_ALL = ("nvmlDeviceGetTotalEnergyConsumption", "c_nvmlFieldValue_t")
"""What nvidia-ml-py has had since 2019, and other packages of that module's name lack."""
PID_MOST = 2**22
"""The kernel's largest process id. Some drivers list processes without their ids, as 4294967295 or
0, or with memory in the place of ids (nvitop #75, #76, pynvml #50)."""
BUSY_MOST = 100
"""A use above this [%] is no figure: some drivers fill unused rows with anything."""
MEMORY_MOST_B = 2**60
"""Some bindings give memory that is not known as the largest integer."""


class _FieldCall(NamedTuple):
    """The arguments of nvmlDeviceGetFieldValues for one device, kept from reading to reading."""

    handle: Any
    length: ctypes.c_int
    values: memoryview
    pointer: Any


class Pynvml(Nvml):
    """The NVML of this machine's driver."""

    meter = "nvml"
    native = True

    def __init__(self) -> None:
        super().__init__()
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}
        self._ids: dict[int, str] = {}
        """Ids of the boards that have told theirs: a lost one is looked up again by it."""
        self._field_calls: dict[tuple[int, tuple[int, ...]], _FieldCall] = {}
        self._seen_us: dict[int, int] = {}
        self._memory_version: int | None = None
        """The newer question for memory; None where driver or binding lacks it."""

    def prepare(self) -> None:
        """Import the binding, which is Python."""
        import pynvml  # noqa: F401

    def open(self) -> None:
        """Load libnvidia-ml; raises SourceAbsent with what to do."""
        try:
            import pynvml
        except Exception as error:
            raise SourceAbsent(f"nvidia-ml-py cannot be imported ({error})") from None
        self._nvml = pynvml
        self._memory_version = getattr(pynvml, "nvmlMemory_v2", None)
        try:
            self._start()
        except Exception as error:
            code = getattr(error, "value", None)
            where = "library is not here" if code == LIBRARY_NOT_FOUND else "driver does not answer"
            text = f"the NVIDIA {where}: {error}"
            raise SourceAbsent(text, FIXES.get(code or 0, ""), seen=code in SEEN) from None
        self._handles = {}
        self._field_calls = {}

    def _start(self) -> None:
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            paths = [self.root / folder / "libnvidia-ml.so.1" for folder in FOLDERS]
            there = [path for path in paths if path.exists()]
            if error.value != LIBRARY_NOT_FOUND or not there:
                raise
            ctypes.CDLL(str(there[0]))  # the binding asks for it by its name, and it is loaded now
            self._nvml.nvmlInit()

    def remarks(self) -> tuple[str, ...]:
        """Return a sentence for a binding that is not the one that was tested."""
        nvml = self._nvml
        in_bytes = isinstance(offered(nvml.nvmlSystemGetDriverVersion), bytes)
        if all(hasattr(nvml, name) for name in USED_BY_ALL) and not in_bytes:
            return ()
        text = (
            f"another pynvml ({getattr(nvml, '__file__', 'unknown')}) stands in the way of "
            "nvidia-ml-py 12 or newer: GPUs are read as far as it can; uninstall it, then "
            "`pip install --force-reinstall nvidia-ml-py`."
        )
        return (text,)

    def close(self) -> None:
        """Shut NVML down; never raises."""
        try:
            self._nvml.nvmlShutdown()
        except Exception:  # a failed shutdown changes no figure
            self._handles = {}

    def driver(self) -> str | None:
        """Return the driver's version; None where it does not say."""
        return offered(lambda: decoded(self._call("nvmlSystemGetDriverVersion")))

    def count(self) -> int:
        """Return the number of boards that this process can see."""
        return int(self._call("nvmlDeviceGetCount"))

    def ask(self, call: str, index: int) -> Any:
        """Return what a board answers to a call."""
        try:
            answer = self._answer_of(call, self._handle(index))
        except DeviceLost:  # it may come back under another handle
            self._forget(index)
            raise
        if call == "uuid":
            self._ids[index] = answer
        return answer

    def _answer_of(self, call: str, handle: Any) -> Any:
        name, convert = CALLS[call]
        if call == "temperature_c":
            return convert(self._call(name, handle, self._nvml.NVML_TEMPERATURE_GPU))
        if call == "memory_b" and self._memory_version is not None:
            # An older answer counts what the driver reserves as used: 0.5 GB of an H100.
            try:
                return convert(self._call(name, handle, self._memory_version))
            except NotSupported:
                self._memory_version = None
            except ReadFailed:  # a binding that takes no version
                pass
        try:
            return convert(self._call(name, handle))
        except NotSupported:  # a driver or binding before the renaming
            if call != "clock_reasons":
                raise
            return convert(self._call("nvmlDeviceGetCurrentClocksThrottleReasons", handle))

    def fields(self, index: int, ids: tuple[int, ...]) -> tuple[int | None, ...]:
        """Return field values in one call; None for each whose own return code is not success.

        Once a second for every device, so the library is called with arguments made once: the
        binding's nvmlDeviceGetFieldValues, which makes them anew, takes five times as long.
        """
        call = self._field_calls.get((index, ids)) or self._field_call(index, ids)
        try:
            get = self._nvml.nvmlLib.nvmlDeviceGetFieldValues
        except AttributeError:
            raise NotSupported("this driver has no field values") from None
        if code := get(call.handle, call.length, call.pointer):
            meaning = MEANINGS.get(code, ReadFailed)
            if meaning is DeviceLost:
                self._forget(index)
            raise meaning(str(self._nvml.NVMLError(code)))
        return tuple(
            [
                None if result else int(_VALUES.get(kind, _VALUES[3]).unpack_from(value)[0])
                for _, _, _, _, kind, result, value in _FIELD_VALUE.iter_unpack(call.values)
            ]
        )

    def power_samples(self, index: int, since_us: int) -> list[tuple[int, int]]:
        """Return the driver's power samples after `since_us`: (timestamp [us], power [mW])."""
        nvml, handle = self._nvml, self._handle(index)
        try:
            kind, samples = nvml.nvmlDeviceGetSamples(
                handle, nvml.NVML_TOTAL_POWER_SAMPLES, since_us
            )
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NOT_FOUND:  # nothing since then
                return []
            raise MEANINGS.get(error.value, ReadFailed)(str(error)) from None
        member = _MEMBERS[kind] if kind in _VALUES else "uiVal"
        return [(int(s.timeStamp), int(getattr(s.sampleValue, member))) for s in samples]

    def slices(self, index: int) -> tuple[MigSlice, ...]:
        """Return the MIG devices of the board that this process can see."""
        board = self._handle(index)
        try:
            if not CALLS["mig"][1](self._call("nvmlDeviceGetMigMode", board)):
                return ()
            count = int(self._call("nvmlDeviceGetMaxMigDeviceCount", board))
        except SourceError:
            return ()
        slices = (
            offered(partial(self._slice, board, position, count)) for position in range(count)
        )
        return tuple(item for item in slices if item is not None)

    def users(self, index: int) -> tuple[GpuUser, ...]:
        """Return the processes with work on the board since the last call."""
        board = self._handle(index)
        used: dict[int, float] = {}
        seen_us = self._seen_us.get(index, 0)
        try:
            for sample in self._call("nvmlDeviceGetProcessUtilization", board, seen_us):
                if sample.smUtil <= BUSY_MOST and 0 < sample.pid <= PID_MOST:
                    used[sample.pid] = used.get(sample.pid, 0.0) + sample.smUtil
                    seen_us = max(seen_us, sample.timeStamp)
        except SourceError:  # nothing new, or not reported for this board
            used = {}
        self._seen_us[index] = seen_us
        running = self._call("nvmlDeviceGetComputeRunningProcesses", board)
        if any(not 0 < item.pid <= PID_MOST for item in running):
            raise NotSupported("the driver lists processes without their ids")
        held_b = {int(item.pid): item.usedGpuMemory for item in running}
        pids = sorted({*used, *held_b})
        return tuple(GpuUser(pid, used.get(pid), _memory(held_b.get(pid))) for pid in pids)

    def _slice(self, board: Any, position: int, whole: int) -> MigSlice:
        """Return one slice; raises SourceError for an empty position, or another user's slice."""
        handle = self._call("nvmlDeviceGetMigDeviceHandleByIndex", board, position)
        # Of the compute instance: those of one GPU instance share what that one has.
        part = self._call("nvmlDeviceGetAttributes_v2", handle).computeInstanceSliceCount
        uuid = decoded(self._call("nvmlDeviceGetUUID", handle))
        return MigSlice(uuid, min(1.0, part / whole), position)

    def _field_call(self, index: int, ids: tuple[int, ...]) -> _FieldCall:
        values = (self._nvml.c_nvmlFieldValue_t * len(ids))()
        for value, field in zip(values, ids, strict=True):
            value.fieldId = field
            if index in self.modules and field != TOTAL_ENERGY_FIELD:
                value.scopeId = MODULE_SCOPE
        length, pointer = ctypes.c_int(len(ids)), ctypes.byref(values)
        bytes_ = memoryview(values).cast("B")  # the array itself takes three times as long
        call = _FieldCall(self._handle(index), length, bytes_, pointer)
        self._field_calls[index, ids] = call
        return call

    def _handle(self, index: int) -> Any:
        # Handles live as long as NVML is open; looking them up every time costs a driver call.
        if index not in self._handles:
            self._handles[index] = self._find_handle(index)
        return self._handles[index]

    def _find_handle(self, index: int) -> Any:
        """Return a board's handle; of one that was lost by its id, as others may have moved up."""
        if index not in self._ids:
            return self._call("nvmlDeviceGetHandleByIndex", index)
        try:
            return self._call("nvmlDeviceGetHandleByUUID", self._ids[index])
        except ReadFailed as error:
            raise DeviceLost(error.message) from None

    def _forget(self, index: int) -> None:
        self._handles.pop(index, None)
        self._field_calls = {
            key: call for key, call in self._field_calls.items() if key[0] != index
        }

    def _call(self, call: str, *arguments: Any) -> Any:
        """Call the binding; raises SourceError for what the driver answers, and for what goes wrong
        in the binding itself.
        """
        try:
            return getattr(self._nvml, call)(*arguments)
        except self._nvml.NVMLError as error:
            raise MEANINGS.get(error.value, ReadFailed)(str(error)) from None
        except AttributeError as error:
            raise NotSupported(f"this pynvml has no {call} ({error})") from None
        except Exception as error:  # such as a name that is not UTF-8
            raise ReadFailed(f"{call}: {type(error).__name__}: {error}") from None


def _memory(held_b: int | None) -> int | None:
    return None if held_b is None or held_b > MEMORY_MOST_B else held_b


class SyntheticNvml(Nvml):
    """Two boards that are not there, for a demonstration: each swings between idle and busy power.

    What is measured of them has the notice `meter-synthetic`, and its score is `not-sci`. With a
    `wrong` choice there is none.
    """

    meter = "nvml-synthetic"

    def __init__(self, clock: Clock, wrong: str = "") -> None:
        """`wrong` says why it cannot be opened."""
        super().__init__()
        self._clock, self._wrong = clock, wrong

    def open(self) -> None:
        """Raise SourceAbsent for a wrong choice."""
        if self._wrong:
            raise SourceAbsent(self._wrong)

    def driver(self) -> str:
        """Return a version."""
        return SYNTHETIC

    def count(self) -> int:
        """Return the number of boards."""
        return 2

    def ask(self, call: str, index: int) -> Any:
        """Return what a board answers to a call now."""
        at_s = self._clock.now_ns() / NS_PER_S - index * PHASE_S
        rounds, past_s = divmod(at_s // TICK_S * TICK_S, PERIOD_S)
        busy = past_s < BUSY_S
        busy_s = rounds * BUSY_S + min(past_s, BUSY_S)
        energy_j = IDLE_W * (rounds * PERIOD_S + past_s) + (BUSY_W - IDLE_W) * busy_s
        answers = {
            "name": "Synthetic GPU",
            "uuid": f"GPU-00000000-0000-4000-8000-{index:012d}",
            "energy_mj": round(energy_j * MJ_PER_J),
            "power_mw": round((BUSY_W if busy else IDLE_W) * MW_PER_W),
            "limit_mw": round(LIMIT_W * MW_PER_W),
            "utilisation_percents": (100, 40) if busy else (0, 0),
            "memory_b": (MEMORY_B // 2, MEMORY_B),
        }
        if call not in answers:
            self._lacks(call)
        return answers[call]


def deciding(environ: Mapping[str, str]) -> str | None:
    """Return the variable that decides which GPUs the job has; None when none is set."""
    return next((name for name in DECIDING if name in environ), None)


def visible(environ: Mapping[str, str], boards: Sequence[Board]) -> Visible:
    """Return the GPUs and MIG slices of the job among `boards`."""
    name = deciding(environ)
    choice = environ.get(name or "", "")
    if name is None:
        result = visibility.by_scheduler(environ, boards)
    elif name == NVIDIA and visibility.names_none(choice):
        result = Visible.whole(boards)
    elif name not in BY_RUNTIME:
        result = visibility.by_node(name, environ, boards)
    else:  # CUDA numbers boards in MIG mode behind the others
        numbered = boards if ":" in choice else sorted(boards, key=lambda board: board.mig)
        result = visibility.by_runtime(name, environ, numbered, once=True)
    remarks = [*result.remarks, *_slice_remarks(result.billed, choice)]
    billed = {item.board.ordinal for item in result.billed}
    if name == NVIDIA and 0 < len(billed) < len(boards):
        remarks.append(
            f"{NVIDIA} names {len(billed)} of the {len(boards)} GPUs here, which CUDA can all use "
            f"as it does not read it. Those are billed; name others in {visibility.CUDA}."
        )
    mixed = len({board.name for board in boards} - {Nvml.title}) > 1
    by_index = any(entry.isdecimal() for entry in visibility.split(choice))
    sure = environ.get(visibility.ORDER) == "PCI_BUS_ID" or len(result.billed) == len(boards)
    if name in BY_RUNTIME and mixed and by_index and not sure:
        remarks.append(
            f"{name} counts different models in CUDA's own order; they are taken in PCI order. "
            f"Set {visibility.ORDER}=PCI_BUS_ID to be sure."
        )
    return result._replace(remarks=tuple(remarks))


def _slice_remarks(billed: Sequence[Billed], variable: str) -> list[str]:
    """Return a sentence for each board in MIG mode of which `variable` names no slice."""
    if "mig-" in variable.lower() or ":" in variable:
        return []
    boards = {item.board.ordinal: item.board for item in billed if item.board.mig}
    texts = []
    for ordinal, board in boards.items():
        if not board.slices:
            texts.append(
                f"GPU {ordinal} is in MIG mode and shows none of its slices here: it is billed "
                "whole, and a process can use one slice of it."
            )
        elif len(board.slices) > 1:
            texts.append(
                f"GPU {ordinal} is in MIG mode and no variable names a slice: all "
                f"{len(board.slices)} slices that are visible are billed; name those of the job in "
                f"{visibility.CUDA}."
            )
    return texts
