"""The job of a request with everything resolved: device, place, pace, power, carbon an hour."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache

from msgspec import Struct, field, structs
from msgspec.structs import replace

from gramwatt.sci.catalog.catalog import Catalog, Hardware, Instance
from gramwatt.sci.catalog.instances import counted
from gramwatt.sci.catalog.slices import Slice, find_part, slice_of, split_name
from gramwatt.sci.embodied.forms import forms, part_te
from gramwatt.sci.embodied.te import accelerator_te, host_share_te
from gramwatt.sci.estimate.estimate import VARIANTS, EstimateDoc
from gramwatt.sci.estimate.model import DECLARED
from gramwatt.sci.estimate.ranking import is_tuned
from gramwatt.sci.figures.checks import Amount
from gramwatt.sci.figures.csv_data import Cell, Row, rows
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.errors import AmbiguousName
from gramwatt.sci.figures.formatting import percent
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import HOURS_PER_YEAR, kwh_from_j, s_from_h
from gramwatt.sci.score.location import Place, in_data_centre, locate
from gramwatt.sci.suggest.evidence import OwnRow, PresentRun, recognised
from gramwatt.sci.suggest.facts import (
    Need,
    lacks_units,
    memory_need,
    offered_parts,
    smaller_need,
)
from gramwatt.sci.suggest.request import PaceName, SuggestRequest, WorkloadClass

SMALL_POWER = 0.35
"""Mean over rated power below which a job is small: it does not follow specifications."""
SMALL_BUSY = 0.5
"""Busy fraction below which a job of low power is small rather than waiting for memory."""
LLM_PARAMETERS = 1e9
"""Models from this size on are taken for language models when they infer."""
REINFORCEMENT = (
    *("stable-baselines3", "sb3", "rllib", "cleanrl", "torchrl", "sample-factory", "isaac-lab"),
    *("rl-games", "skrl"),
)
REINFORCED_POWER = 0.5
"""Frameworks of reinforcement learning, whose environments a processor steps, and mean over rated
power from which on such a job keeps its device busy all the same."""
SIMULATION = (
    *("openmm", "gromacs", "lammps", "amber", "namd", "hoomd", "cp2k", "vasp", "openfoam"),
    *("quantum-espresso", "nekrs", "ansys", "rosetta"),
)
TREES = ("xgboost", "lightgbm", "catboost")
"""Programs of simulation and of boosted trees, which make no use of matrix units."""
NEAR_RATED = 0.9
"""Mean over rated power from which on a device is busy, whatever its busy fraction says."""
FULL_POWER = 0.7
"""Usual mean over rated power of well-used devices: the median of measured runs (power.csv)."""
IDLE_POWER = Quantity(
    0.1, 0.04, 0.16, "1", "derived", "idle over rated power of the catalog's GPUs, where none is"
)
POWER_OF_CLASS = {
    "training": "training",
    "llm-serving": "llm-serving",
    "interactive": "llm-serving",
    "recsys": "recsys",
    "small": "recsys",
}
"""Whose power share a class takes; classes without metered rows that of all, small jobs that of
recommender training, which runs at as small a fraction of rated power."""
HOST_W, HOST_RATED_W, HOST_SIZE = 195.0, 700.0, 0.25
"""Host power a device beside a part of that rated power [W], and the exponent of rated power: wall
power of MLPerf systems less rated power of their devices (8 x H100: 7.16 kW less 5.6 kW; 26 to
195 W beside a 72 W card, 93 to 175 W beside 450 W)."""
MODULE_HOST = 0.5
"""Fraction of a usual host beside a module with its own processor (an estimate)."""
NAMED_OTHERS = 4
"""Most names that stand beside the one that an ambiguous name is taken for."""
UNKNOWN_KINDS = ("other", "data-prep")
"""Kinds of jobs that may be anything."""
STRICT = ("vllm",)
"""Frameworks that refuse a precision for which the device has no units (vLLM's documents)."""
REFUSALS = {
    "interactive": (
        "Hardware is not ranked for answers within a time limit: the latency follows the software "
        "and the links between devices, and data sheets miss it by 4 times. Measure two candidates "
        "under your load; without a limit give workload_class llm-serving."
    ),
    "fp64": (
        "Hardware is not ranked for FP64 work: no measurement of it on several devices was found, "
        "and most cards do FP64 at a 64th of their rate. Compare FP64 peak rates first."
    ),
    "simulation": (
        "Hardware is not ranked for simulation: it makes no use of matrix units, and no "
        "measurement of its energy on several devices was found. Compare published rates, such as "
        "ns/day, over rated power."
    ),
    "trees": (
        "Hardware is not ranked for boosted trees: they make no use of matrix units, and no "
        "measurement of their energy on several devices was found. Time them on processors too: "
        "small tables are faster there."
    ),
    "kind": (
        "Hardware is not ranked for work that could be anything: say kind (training, fine-tuning "
        "or inference) or workload_class."
    ),
}


class Device(Struct, frozen=True):
    """A device, or a slice of one: `part` has its own figures, `board` those of the whole."""

    part: Hardware
    board: Hardware
    piece: Slice | None = None

    @staticmethod
    def of(part: Hardware, piece: Slice | None = None) -> Device:
        """Return a device; a slice has its share of the board's rates, power and making."""
        if piece is None:
            return Device(part, part)
        fields = ("tdp_w", "idle_w", "idle_low_w", "idle_high_w", "memory_bandwidth_gbs")
        rates = ("fp32_tflops", "tf32_tflops", "fp16_tensor_tflops", "bf16_tensor_tflops")
        figures = {
            name: value * piece.share
            for name in (*fields, *rates, "fp8_tflops", "int8_tops")
            if (value := getattr(part, name)) is not None
        }
        whole = structs.replace(
            part,
            id=piece.id,
            name=f"{part.name} MIG {piece.name}",
            memory_gb=piece.memory_gib,
            **figures,
        )
        return Device(whole, part, piece)

    @property
    def fraction(self) -> float:
        """Return the fraction of the board."""
        return self.piece.share if self.piece else 1.0

    @property
    def host(self) -> float:
        """Return the fraction of a usual host beside it: none where its figures hold the host."""
        part = self.board
        if part.is_system:
            return 0.0
        if part.device_class in ("gpu", "accelerator"):
            return self.fraction
        alone = accelerator_te(part)
        return 0.0 if alone is None or alone.includes_host else MODULE_HOST

    @property
    def idle(self) -> Quantity | None:
        """Return the idle power [W] of the catalog, else a usual fraction of the rated power."""
        if self.part.idle:
            return self.part.idle
        return IDLE_POWER.scaled(self.part.tdp_w, "W") if self.part.tdp_w else None


@lru_cache(maxsize=1024)
def _te_g(catalog: Catalog, part: Hardware) -> Quantity:
    alone, host = part_te(catalog, part), host_share_te(part)
    return alone.te_g + host.te_g if host and not alone.includes_host else alone.te_g


class Classified(Struct, frozen=True):
    """The class of work, None where unknown, and how it is known."""

    name: WorkloadClass | None
    reason: str


class Pace(Struct, frozen=True):
    """What sets the speed, and how that is known; `declared` says that the request names it."""

    name: PaceName
    reason: str
    declared: bool = False

    @property
    def waits(self) -> bool:
        """Tell whether the devices wait for something else."""
        return self.name != "throughput"


class Emitted(Struct, frozen=True):
    """What the present run emits [gCO2e], as its score or its estimate says."""

    operational_g: Quantity
    embodied_g: Quantity
    total_g: Quantity

    @staticmethod
    def of(document: JobDoc | EstimateDoc | None) -> Emitted | None:
        """Return the terms of a score or an estimate; None if one is unknown or nothing ran."""
        if document is None:
            return None
        terms = document.operational_g, document.embodied_g, document.total_g
        if any(figure is None or figure.low <= 0 for figure in terms):
            return None
        return Emitted(*(figure for figure in terms if figure))


class Work(Struct, frozen=True, kw_only=True, dict=True):
    """One job, its device and its place; None where not known.

    `hours` is wall time [h], `need` the memory that it takes, `offered` the parts that its provider
    rents out, `workload` the name of its work in the organisation's `own` rows. `measured` says
    that a meter saw the job run; `repeats` is how often such a job runs [1/year].
    """

    request: SuggestRequest
    catalog: Catalog
    device: Device | None
    count: float
    hours: float | None
    classified: Classified
    place: Place
    intensity: Quantity
    offered: frozenset[str] | None
    own: Sequence[OwnRow]
    workload: str | None
    need: Need | None
    measured: bool
    repeats: Quantity | None = None
    emitted: Emitted | None = None
    remark: Notice | None = None

    @property
    def now(self) -> Device:
        """Return the present device, where the caller knows that there is one."""
        assert self.device is not None
        return self.device

    @property
    def label(self) -> str:
        """Return the present devices for people."""
        return f"{self.count:g} x {self.now.part.label}"

    def on(self, device: Device, count: float) -> Work:
        """Return the same work as if it ran on other devices there, unmeasured."""
        pue = self.place.pue.value
        request = structs.replace(
            self.request, mean_power_w=None, host_power_w=None, pue=pue, ownership="rented"
        )
        return replace(self, request=request, device=device, count=count, emitted=None, hours=None)

    @cached_property
    def own_parts(self) -> frozenset[str]:
        """Return the parts that own runs were on."""
        return frozenset(row.hardware for row in self.own)

    @cached_property
    def refusal(self) -> str | None:
        """Return why hardware is not ranked; None where it is."""
        request, name = self.request, self.classified.name
        if name == "interactive":
            return REFUSALS["interactive"]
        if request.precision == "fp64":
            return REFUSALS["fp64"]
        if not request.workload_class and (without := _without_matrices(request)):
            return REFUSALS[without]
        says = request.workload_class or request.trains or request.model_parameters
        if request.kind in UNKNOWN_KINDS and not says:
            return REFUSALS["kind"]
        if self.impossible:
            check = "the notices of the job" if self.measured else "mean_power_w and hardware"
            return f"Hardware is not ranked: {self.impossible}. Check {check}."
        return None

    @property
    def steps_environments(self) -> bool:
        """Tell whether a host paces reinforcement learning here."""
        return _steps_environments(self.request, self.device)

    @cached_property
    def pace(self) -> Pace:
        """Return the declared pace, else what power, use and memory use of the device say."""
        request = self.request
        if request.pace:
            return Pace(request.pace, f"pace {request.pace} declared", declared=True)
        if self.steps_environments and not request.workload_class:
            return Pace("host", f"{request.framework} waits for its environments")
        reason = self._waiting()
        if reason is None and self.classified.name == "small":
            reason = self.classified.reason
        if reason is None:
            return Pace("throughput", "nothing shows that the devices wait")
        if request.kind in ("inference", "evaluation"):
            return Pace("requests", reason)
        return Pace("input" if request.trains else "host", reason)

    def _waiting(self) -> str | None:
        """Return what shows that the devices wait; None where nothing does."""
        busy = self.request.utilisation
        if busy is None or busy >= SMALL_BUSY or (self.power_share or 0.0) >= NEAR_RATED:
            return None
        return f"the devices are busy {percent(busy)} of the time"

    @property
    def power_share(self) -> float | None:
        """Return the declared mean power over rated power; None where one is not known."""
        return _power_share(self.request, self.device)

    @cached_property
    def impossible(self) -> str | None:
        """Return why the mean power cannot be that of the device; None where it can.

        A meter that reads less than the catalog's idle power is believed: boards differ.
        """
        power, device = self.request.mean_power_w, self.device
        if power is None or device is None:
            return None
        part = device.part
        if part.tdp_w and power > 1.1 * part.tdp_w:
            text = f"{power:.3g} W is above the rated power of {part.id}, {part.tdp_w:g} W"
            several = f" (the driver lists a board as {part.devices_per_board} devices)"
            return text + several if part.devices_per_board > 1 else text
        if part.idle and not self.measured and power < 0.9 * part.idle.low:
            return f"{power:.3g} W is below the idle power of {part.id}, {part.idle.value:g} W"
        return None

    @cached_property
    def misfit(self) -> str | None:
        """Return why the present devices cannot run or hold the job; None where they may.

        A measured peak within the memory shows that they do, margin or not; so does a job that ran.
        """
        if self.device is None or self.measured:
            return None
        if self._refused:
            precision = (self.request.precision or "").upper()
            return f"does not run: {self.request.framework} refuses {precision} on {self.label}"
        if not self.device.part.memory_gb:
            return None
        memory, peak = self.device.part.memory_gb, self.request.peak_memory_gb
        has = f"{self.label} ({memory:g} GiB each)"
        if peak is not None:
            text = f"does not fit: a peak of {peak:g} GiB a device is more than {has}"
            return f"{text}: check peak_memory_gb and hardware" if peak > memory else None
        need = self.need
        if need is None or need.fits(memory, self.count) or need.streams(self.now.part):
            return None
        return f"does not fit: it needs {need.total_gib:.1f} GiB, more than {has} hold"

    @property
    def remedy(self) -> str | None:
        """Return the cheapest way to run on the present devices what they cannot run as it is."""
        if self._refused:
            return self._refused[2]
        smaller = smaller_need(self.request, self.now.part, self.count)
        return (
            f"{smaller[0]} on what you have ({smaller[2].total_gib:.1f} GiB)" if smaller else None
        )

    @property
    def _refused(self) -> tuple[str, str, str | None] | None:
        """Return what the present device lacks, where the framework refuses to run without it."""
        strict = self.request.library in STRICT
        return lacks_units(self.request, self.now.part) if strict else None

    @cached_property
    def power_w(self) -> Quantity | None:
        """Return the mean power of a device [W]: declared, else a usual share of rated power."""
        if self.request.mean_power_w is not None:
            return Quantity.exact(self.request.mean_power_w, "W", "declared", DECLARED)
        if self.device is None or not self.device.part.tdp_w:
            return None
        share, part = self.usual_share, self.device.part
        return share.scaled(part.tdp_w or 0.0, "W").sourced(
            f"{share.source} x rated power of {part.id}"
        )

    @property
    def usual_share(self) -> Quantity:
        """Return the usual mean over rated power of such work.

        Recommenders in software tuned to the device fill it: 8 H100 train at 870 W a device from
        the wall (MLPerf Training).
        """
        name, tuned = self.classified.name, is_tuned(self.request.library, self.request.precision)
        return power_share(None if name == "recsys" and tuned else name)

    def host_w(self, device: Device) -> float:
        """Return host power beside a device [W]: the declared one by size, else a usual one."""
        rated = device.part.tdp_w or HOST_RATED_W
        declared = self.request.host_power_w
        if declared is None or self.device is None:
            boards = 1 / min(device.board.devices_per_board, self.count)
            rated /= boards
            return HOST_W * device.host * boards * math.pow(rated / HOST_RATED_W, HOST_SIZE)
        size = rated / (self.device.part.tdp_w or rated)
        return declared / self.count * math.pow(size, HOST_SIZE) if device.host else 0.0

    @cached_property
    def grid_g_per_wh(self) -> Quantity:
        """Return the operational carbon of IT energy [gCO2e/Wh], PUE included."""
        facility = self.intensity.times(self.place.pue, "gCO2e/kWh")
        return facility.scaled(kwh_from_j(s_from_h(1.0)), "gCO2e/Wh")

    @cached_property
    def operational_g_h(self) -> Quantity | None:
        """Return the electricity of a device and its part of a host [gCO2e/h]."""
        if self.emitted is not None and self.hours:
            return self.emitted.operational_g.scaled(1 / (self.hours * self.count), "gCO2e/h")
        if self.power_w is None or self.device is None or self.power_w.value <= 0:
            return None
        beside = Quantity.exact(self.host_w(self.device), "W", "estimated", "usual host power")
        return (self.power_w + beside).times(self.grid_g_per_wh, "gCO2e/h")

    @cached_property
    def embodied_g_h(self) -> Quantity | None:
        """Return the making of a present device and its part of a host [gCO2e/h]."""
        if self.emitted is not None and self.hours:
            return self.emitted.embodied_g.scaled(1 / (self.hours * self.count), "gCO2e/h")
        return self.making_g_h(self.device) if self.device else None

    def te_g(self, device: Device) -> Quantity:
        """Return the making of a device with its part of a host [gCO2e]."""
        return _te_g(self.catalog, device.board).scaled(device.fraction)

    def making_g_h(self, device: Device) -> Quantity:
        """Return the making of a device over the hours of its life [gCO2e/h]."""
        return self.te_g(device).over(self.life(device).scaled(HOURS_PER_YEAR, "h"), "gCO2e/h")

    def life(self, device: Device) -> Quantity:
        """Return EL of a device [years]: declared for the job, else the catalog's with overlay."""
        if self.request.lifetime_years is not None:
            return Quantity.exact(self.request.lifetime_years, "years", "declared", DECLARED)
        return self.catalog.lifetime(device.board.id)


def resolve(
    request: SuggestRequest,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    workload: str | None = None,
    *,
    repeats: Quantity | None = None,
    measured: JobDoc | None = None,
) -> Work:
    """Return the job behind a request, with its score if it ran.

    Raises LookupFailed for unknown names, ScoreError for fields that contradict each other.
    """
    if request.hardware:
        board, number = counted(request.hardware, request.count)
        request = structs.replace(request, hardware=board, count=number)
    name, count, remark = request.hardware, request.count or 1.0, None
    if request.instance:
        instance, remark = _machine(catalog, request.instance, request.count)
        name, count = instance.hardware, instance.devices(request.count)
        request = structs.replace(request, instance=instance.id)
    device, ambiguous = _device(catalog, name) if name else (None, None)
    remark = remark or ambiguous
    if device and device.piece:  # the driver reads the power of the whole board
        request = structs.replace(request, mean_power_w=None)
    request.check_one_provider()
    served = request.cloud is not None or device is None or in_data_centre(device.board)
    if request.constraint != "none":
        served = False
    place = locate(request.zone, request.full_region, request.pue, catalog, data_centre=served)
    if place.region:  # its provider's offers count, though its name alone was given
        request = structs.replace(request, region=place.region.id)
    grid = catalog.zone(place.zone) if place.zone else catalog.world()
    if request.runs_per_year:
        repeats = Quantity.exact(request.runs_per_year, "1/year", "declared", DECLARED)
    classified = classify(request, device)
    if workload is None and device is not None:
        seconds = s_from_h(request.hours or 0.0) * count
        rates = {unit: amount / seconds for unit, amount in request.units.items() if seconds}
        workload = recognised(own, PresentRun(device.board.id, classified.name, rates))
    need = memory_need(request)
    refuted = measured is not None and request.peak_memory_gb is None and device is not None
    if refuted and need and device and device.part.memory_gb:
        need = need if need.fits(device.part.memory_gb, count) else None
    return Work(
        request=request,
        catalog=catalog,
        device=device,
        count=count,
        hours=request.hours,
        classified=classified,
        place=place,
        intensity=grid.intensity,
        offered=offered_parts(catalog, request.cloud, place.region.name if place.region else None),
        own=own,
        workload=workload,
        need=need,
        measured=measured is not None,
        repeats=repeats,
        emitted=Emitted.of(measured),
        remark=remark,
    )


def _machine(catalog: Catalog, name: str, count: float | None) -> tuple[Instance, Notice | None]:
    """Return the instance of a name; of a family the first with so many devices, with a notice."""
    try:
        return catalog.instance(name), None
    except AmbiguousName as error:
        if len(error.choices) > VARIANTS:
            raise
        several = [catalog.instance(choice) for choice in error.choices]
        chosen = next((row for row in several if row.count == count), several[0])
        return chosen, _taken(name, chosen.id, error.choices, "instance")


def _taken(name: str, taken: str, choices: Sequence[str], field: str) -> Notice:
    others = [choice for choice in choices if choice != taken]
    if len(others) > NAMED_OTHERS:
        others[NAMED_OTHERS - 1 :] = [f"{len(others) - NAMED_OTHERS + 1} more"]
    text = f"{name!r} is taken as {taken}; it may also be {' or '.join(others)}."
    return Notice("hardware-ambiguous", text, field)


def _device(catalog: Catalog, name: str) -> tuple[Device, Notice | None]:
    """Return the device of a name; the commonest of several that it may mean, with a notice."""
    try:
        return Device.of(*find_part(catalog, name)), None
    except AmbiguousName as error:
        board, piece = split_name(name)
        several = forms(catalog, board)
        chosen = several.parts[0]
        if piece and piece not in chosen.mig_profiles:
            chosen = find_part(catalog, error.choices[0])[0]
        taken = f"{chosen.id} MIG {piece}" if piece else chosen.id
        notice = _taken(name, taken, error.choices, "hardware")
        return Device.of(chosen, slice_of(chosen, piece) if piece else None), notice


def classify(request: SuggestRequest, device: Device | None) -> Classified:
    """Return the class of the job: declared, small by its power, or by its kind and batch.

    The thresholds are estimates: no public table pairs utilisation with throughput elsewhere.
    """
    if request.workload_class:
        return Classified(request.workload_class, "class declared")
    if _steps_environments(request, device):
        text = f"a processor steps the environments of {request.framework}: reinforcement learning"
        return Classified("small", text)
    if without := _without_matrices(request):
        return Classified(None, f"{request.framework}: {without}")
    share, busy = _power_share(request, device), request.utilisation
    little = share is not None and share < SMALL_POWER and (busy or 0.0) < SMALL_BUSY
    if little and not request.pace:
        text = f"mean power is {percent(share or 0.0)} of rated power"
        return Classified("small", text + (f", busy {percent(busy)} of the time" if busy else ""))
    if request.trains:
        return Classified("training", f"kind {request.kind or 'training'}")
    if request.kind not in ("inference", "evaluation") and not request.model_parameters:
        if busy is not None and busy < SMALL_BUSY:
            return Classified("small", f"busy {percent(busy)} of the time")
        return Classified(None, "neither kind nor workload_class is known")
    batch, size = request.batch_size, request.model_parameters or 0.0
    if size >= LLM_PARAMETERS and request.answers_in_tokens:
        if batch is not None and batch <= 1:
            return Classified("decode", "inference of a large model, one sequence")
        return Classified("llm-serving", "inference of a large model, several sequences")
    if size and batch == 1:
        return Classified("small", "inference of a small model, batch 1")
    return Classified("batch-inference", "inference")


def _power_share(request: SuggestRequest, device: Device | None) -> float | None:
    if request.mean_power_w is None or device is None or not device.part.tdp_w:
        return None
    return request.mean_power_w / device.part.tdp_w


def _without_matrices(request: SuggestRequest) -> str | None:
    """Return the kind of work that uses no matrix units, by its program; None for any other."""
    programs = {"simulation": SIMULATION, "trees": TREES}
    return next((kind for kind, names in programs.items() if request.library in names), None)


def _steps_environments(request: SuggestRequest, device: Device | None) -> bool:
    """Tell whether a host paces reinforcement learning here, by framework and power."""
    share = _power_share(request, device)
    named = request.library in REINFORCEMENT
    return named and not request.pace and (share is None or share < REINFORCED_POWER)


class PowerRow(Row, frozen=True, kw_only=True):
    """Mean over rated board power of the measured runs of a class."""

    package = "gramwatt.sci.suggest"
    files = ("power.csv",)
    key = ("workload_class",)
    ranges = (("low", "value", "high"),)

    workload_class: Cell = field(name="class")
    low: Amount
    value: Amount
    high: Amount
    rows: int


@cache
def _power_shares() -> Mapping[str, Quantity]:
    source = "mean over rated board power of {0.rows} measured runs ({0.workload_class})"
    return {
        row.workload_class: Quantity(
            row.value, row.low, row.high, "1", "derived", source.format(row)
        )
        for row in rows(PowerRow)
    }


def power_share(name: WorkloadClass | None) -> Quantity:
    """Return the mean over rated board power by class, 80 % of the measured runs."""
    return _power_shares()[POWER_OF_CLASS.get(name or "", "other")]


def saved_g(total: Quantity, ratio: Quantity) -> Quantity:
    """Return what a ratio saves of a run's carbon [gCO2e]: never more than was emitted.

    The errors of both add as roots of sums of squares; no end lies beyond the worst of both.
    """
    rest, saved = 1 - ratio.value, total.value * (1 - ratio.value)
    below = math.hypot((total.value - total.low) * rest, total.value * (ratio.high - ratio.value))
    above = math.hypot((total.high - total.value) * rest, total.value * (ratio.value - ratio.low))
    worst, best = 1 - ratio.high, 1 - ratio.low
    ends = (
        max(saved - below, min(total.low * worst, total.high * worst)),
        min(saved + above, max(total.low * best, total.high * best)),
    )
    source = f"present carbon of the run ({total.source}) x (1 - carbon ratio)"
    low, high = min(ends[0], saved), max(ends[1], saved)
    return Quantity(saved, low, high, "gCO2e", ratio.kind, source)
