"""The job of a request with everything resolved: part, place, power, carbon an hour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import msgspec
from msgspec import structs

from gramwatt.sci.advice.constraints.availability import offered_parts, rented_only
from gramwatt.sci.advice.constraints.memory import Need, memory_need, shortfall
from gramwatt.sci.advice.constraints.support import lacks_units
from gramwatt.sci.advice.prediction.bottleneck import Bottleneck, find_bottleneck, impossible_power
from gramwatt.sci.advice.prediction.own_runs import OwnRow, PresentRun, recognised
from gramwatt.sci.advice.prediction.predict import Workload
from gramwatt.sci.advice.prediction.workload import Classified, classify, power_share
from gramwatt.sci.advice.suggest_request import Ownership, SuggestRequest
from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.slices import Slice, find_part
from gramwatt.sci.embodied.te import accelerator_te, host_share_te
from gramwatt.sci.estimate.estimate import EstimateDoc
from gramwatt.sci.estimate.model import DECLARED, HOST_SHARE
from gramwatt.sci.figures.document import JobDoc
from gramwatt.sci.figures.notices import Notice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.figures.units import G_PER_KG, HOURS_PER_YEAR, kwh_from_j, s_from_h
from gramwatt.sci.score.location import Place, in_data_centre, locate

NO_HOST = Quantity.exact(0.0, "1", "derived", "no host beside the device")
WHOLE_HOST = Quantity.exact(1.0, "1", "derived", "a host beside the device")
MODULE_HOST = Quantity(
    0.5,
    0.0,
    1.0,
    "1",
    "estimated",
    "a module with its own processor: between no further host and a whole one beside it",
)


@dataclass(frozen=True, slots=True)
class Emitted:
    """What the present run emits [gCO2e], as its score or its estimate says."""

    operational_g: Quantity
    embodied_g: Quantity
    total_g: Quantity

    @staticmethod
    def of(document: JobDoc | EstimateDoc) -> Emitted | None:
        """Return the terms of a score or an estimate; None if one is unknown or nothing ran."""
        found = document.operational_g, document.embodied_g, document.total_g
        if any(figure is None or figure.low <= 0 for figure in found):
            return None
        return Emitted(*(figure for figure in found if figure))


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job, its part and its place; None where not known.

    `hours` is wall time [h], `need` the memory that it takes, `offered` the parts that its provider
    rents out, `workload` the name of its work in the organisation's `own` rows. `measured` says
    that a meter saw the job run; `emitted` is the carbon of its score, else of its estimate.
    `repeats` is how often such a job runs [1/year], `slice` the MIG slice of the part that it runs
    on.
    """

    request: SuggestRequest
    catalog: Catalog
    part: Hardware | None
    count: float
    hours: float | None
    classified: Classified
    place: Place
    intensity: Quantity
    lifetime: Quantity
    offered: frozenset[str] | None
    own: Sequence[OwnRow]
    workload: str | None
    need: Need | None
    measured: bool
    repeats: Quantity | None = None
    slice: Slice | None = None
    emitted: Emitted | None = None

    @property
    def ownership(self) -> Ownership:
        """Return how the hardware is had: as declared, else rented where a cloud is named."""
        return self.request.ownership or ("rented" if self.rented else "owned")

    @property
    def present(self) -> Hardware:
        """Return the part that the job runs on, where it is known."""
        assert self.part is not None  # other settings are asked of a present run only
        return self.part

    @property
    def present_id(self) -> str | None:
        """Return the part that the job runs on, or its slice."""
        present = self.slice or self.part
        return present.id if present else None

    @property
    def device_hours(self) -> float:
        """Return the hours of all devices together [h], 0 where not known."""
        return (self.hours or 0.0) * self.count

    @property
    def rented(self) -> bool:
        """Tell whether the hardware is a provider's, so that nothing is bought."""
        only_rented = self.part is not None and rented_only(self.part)
        return only_rented or self.request.cloud is not None

    @property
    def notices(self) -> list[Notice]:
        """Return what the place and the provider leave open."""
        provider = self.request.cloud
        if provider is None or self.offered is not None:
            return [*self.place.notices, *self._not_offered()]
        text = f"The catalog lists no instances of {provider}: which parts it has is not checked."
        return [*self.place.notices, Notice("provider-unlisted", text, "provider")]

    def _not_offered(self) -> list[Notice]:
        if self.part is None or self.offered is None or self.part.id in self.offered:
            return []
        rented = [one.id for one in self.catalog.all_instances() if one.hardware == self.part.id]
        where = f"; it is rented as {', '.join(rented[:3])}" if rented else ""
        text = (
            f"The catalog lists no instance of {self.request.cloud} with {self.part.id}{where}: "
            "check provider and hardware."
        )
        return [Notice("provider-lacks-part", text, "provider")]

    @cached_property
    def described(self) -> Workload:
        """Return what of the job decides its time on other parts."""
        return Workload(
            workload_class=self.classified.name,
            framework=self.request.framework,
            precision=self.request.precision,
            batch=self.request.batch_size,
            count=self.count,
            name=self.workload,
        )

    @cached_property
    def bottleneck(self) -> Bottleneck:
        """Return what sets the speed of the job."""
        return find_bottleneck(self.request, self.part)

    @cached_property
    def impossible(self) -> str | None:
        """Return why the mean power cannot be that of the part; None where it can."""
        return impossible_power(self.request.mean_power_w, self.part) if self.part else None

    @cached_property
    def misfit(self) -> list[str]:
        """Return why the present part cannot hold or run the job; empty where it may.

        A measured peak within its memory shows that it does, margin or not; so does a job that ran.
        """
        part, peak = self.part, self.request.peak_memory_gb
        if part is None or self.measured:
            return []
        lacks = lacks_units(self.request, part)
        if lacks:
            return [f"{lacks}: check precision and hardware"]
        if part.memory_gb is None:
            return []
        if peak is None:
            return shortfall(self.need, part, self.count)
        if peak <= part.memory_gb:
            return []
        return [
            f"memory: a peak of {peak:g} GiB a device is more than the {part.memory_gb:g} GiB of "
            f"{part.id}: check peak_memory_gb and hardware"
        ]

    @cached_property
    def host_share(self) -> Quantity:
        """Return host over device power: measured or declared, else usual; 0 for whole systems."""
        if self.part is None:
            return NO_HOST
        declared = self.request.host_power_w
        if declared is None or self.power_w is None:
            return HOST_SHARE.times(host_beside(self.part), "1")
        beside = Quantity.exact(declared / self.count, "W", "declared", f"host power {DECLARED}")
        return beside.over(self.power_w, "1")

    @cached_property
    def power_w(self) -> Quantity | None:
        """Return the mean power of a device [W]: declared, else a usual share of rated power."""
        if self.request.mean_power_w is not None:
            return Quantity.exact(self.request.mean_power_w, "W", "declared", DECLARED)
        if self.part is None or not self.part.tdp_w:
            return None
        share = power_share(self.classified.name)
        return share.scaled(self.part.tdp_w, "W").sourced(
            f"{share.source} x rated power of {self.part.id}"
        )

    @cached_property
    def grid_g_per_wh(self) -> Quantity:
        """Return the operational carbon of IT energy [gCO2e/Wh], PUE included."""
        facility = self.intensity.times(self.place.pue, "gCO2e/kWh")
        return facility.scaled(kwh_from_j(s_from_h(1.0)), "gCO2e/Wh")

    @cached_property
    def operational_g_h(self) -> Quantity | None:
        """Return the operational carbon of a device and its host share, an hour [gCO2e/h]."""
        if self.emitted is not None and self.hours:
            return self.emitted.operational_g.scaled(1 / self.device_hours, "gCO2e/h")
        if self.power_w is None:
            return None
        both = self.power_w + self.power_w.times(self.host_share, "W")
        return both.times(self.grid_g_per_wh, "gCO2e/h")

    @cached_property
    def embodied_g_h(self) -> Quantity | None:
        """Return the embodied carbon of a present device and its host share, an hour [gCO2e/h]."""
        if self.emitted is not None and self.hours:
            return self.emitted.embodied_g.scaled(1 / self.device_hours, "gCO2e/h")
        te = te_g(self.part) if self.part else None
        return te.over(self.lifetime.scaled(HOURS_PER_YEAR, "h"), "gCO2e/h") if te else None

    def lifetime_of(self, part: Hardware) -> Quantity:
        """Return EL of a part [years]: declared for the job, else the catalog's with overlay."""
        return self.lifetime if self.request.lifetime_years else self.catalog.lifetime(part.id)

    def saved_g(self, carbon_ratio: Quantity | None) -> Quantity | None:
        """Return what a ratio saves of the run's carbon [gCO2e]: never more than was emitted.

        None without hours or carbon. The errors of both add as roots of sums of squares.
        """
        if carbon_ratio is None or self.emitted is None:
            return None
        whole, ratio = self.emitted.total_g, carbon_ratio
        left = 1 - ratio.value
        saved = whole.value * left
        below = math.hypot(
            (whole.value - whole.low) * left, whole.value * (ratio.high - ratio.value)
        )
        above = math.hypot(
            (whole.high - whole.value) * left, whole.value * (ratio.value - ratio.low)
        )
        # No end lies beyond the worst combination of both, so that a certain ratio saves for sure.
        worst, best = 1 - ratio.high, 1 - ratio.low
        low = max(saved - below, min(whole.low * worst, whole.high * worst))
        high = min(saved + above, max(whole.low * best, whole.high * best))
        source = f"present carbon of the run ({whole.source}) x (1 - carbon ratio)"
        low, high = min(low, saved), max(high, saved)
        return Quantity(saved, low, high, "gCO2e", carbon_ratio.kind, source)

    def yearly_kg(self, saved_g: Quantity | None) -> Quantity | None:
        """Return what is saved in a year [kgCO2e]; None if it is unknown how often the job runs."""
        if saved_g is None or self.repeats is None:
            return None
        return saved_g.times(self.repeats, "gCO2e").scaled(1 / G_PER_KG, "kgCO2e")


def resolve(
    request: SuggestRequest,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    workload: str | None = None,
    *,
    repeats: Quantity | None = None,
    measured: JobDoc | None = None,
) -> Work:
    """Return the job behind a request, with its score if it ran. Raises LookupFailed."""
    name, count = request.hardware, request.count or 1.0
    if request.instance:
        instance = catalog.instance(request.instance)
        name, count = instance.hardware, instance.devices(request.count)
        request = msgspec.structs.replace(request, instance=instance.id)
    part, on_slice = find_part(catalog, name) if name else (None, None)
    if part and on_slice:  # the power of a slice is a share of the board's
        part = structs.replace(part, memory_gb=on_slice.memory_gib)
        request = msgspec.structs.replace(request, mean_power_w=None)
    served = request.cloud is not None or in_data_centre(part)
    place = locate(request.zone, request.full_region, request.pue, catalog, data_centre=served)
    request.check_one_provider()
    grid = catalog.zone(place.zone) if place.zone else catalog.world()
    lifetime = catalog.lifetime(part.id if part else None)
    if request.lifetime_years is not None:
        lifetime = Quantity.exact(request.lifetime_years, "years", "declared", DECLARED)
    declared = None
    if request.runs_per_year:
        declared = Quantity.exact(request.runs_per_year, "1/year", "declared", DECLARED)
    classified = classify(request, part)
    if workload is None and part is not None:
        workload = recognised(own, _run(request, part, classified, count))
    return Work(
        request=request,
        catalog=catalog,
        part=part,
        count=count,
        hours=request.hours,
        classified=classified,
        place=place,
        intensity=grid.intensity,
        lifetime=lifetime,
        offered=offered_parts(catalog, request.cloud),
        own=own,
        workload=workload,
        need=_need(request, part, count, measured=measured is not None),
        measured=measured is not None,
        repeats=declared or repeats,
        slice=on_slice,
        emitted=Emitted.of(measured) if measured else None,
    )


def host_beside(part: Hardware) -> Quantity:
    """Return the share of a usual host beside the part: none where its figures hold the host."""
    if part.is_system:
        return NO_HOST
    if part.device_class in ("gpu", "accelerator"):
        return WHOLE_HOST
    alone = accelerator_te(part)
    whole = alone is None or alone.includes_host
    return NO_HOST if whole else MODULE_HOST


@lru_cache(maxsize=1024)
def te_g(part: Hardware) -> Quantity | None:
    """Return the embodied carbon of a device with its host share [gCO2e]; None if unknown."""
    alone = accelerator_te(part)
    if alone is None:
        return None
    host = host_share_te(part)
    return alone.te_g + host.te_g if host and not alone.includes_host else alone.te_g


def _need(
    request: SuggestRequest, part: Hardware | None, count: float, *, measured: bool
) -> Need | None:
    """Return the memory needed; None for an estimate that a measured run has refuted."""
    need = memory_need(request)
    if part is None or request.peak_memory_gb is not None or not measured:
        return need
    return None if shortfall(need, part, count) else need


def _run(
    request: SuggestRequest, part: Hardware, classified: Classified, count: float
) -> PresentRun:
    """Return the present run as own measurements would show it; without hours no rate is known."""
    seconds = s_from_h(request.hours or 0.0) * count
    rates = {unit: amount / seconds for unit, amount in request.units.items() if seconds}
    return PresentRun(part.id, classified.name, rates)
