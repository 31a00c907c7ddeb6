"""The job of a request with everything resolved: part, place, power, carbon an hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gramwatt.sci.advice.constraints.availability import offered_parts, rented_only
from gramwatt.sci.advice.constraints.memory import Need, memory_need, shortfall
from gramwatt.sci.advice.prediction.calibration import OwnRow, Run, recognised
from gramwatt.sci.advice.prediction.predict import Workload
from gramwatt.sci.advice.prediction.workload import Classified, classify, power_share
from gramwatt.sci.advice.request import SuggestRequest
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import HOURS_PER_YEAR, s_from_h
from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.parameters import lifetime_years
from gramwatt.sci.embodied.accelerators import accelerator_te
from gramwatt.sci.embodied.hosts import host_share_te
from gramwatt.sci.estimate.model import DECLARED, HOST_SHARE
from gramwatt.sci.score.location import Place, locate

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


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job, its part and its place; None where not known.

    `hours` is wall time [h], `need` the memory that it takes, `offered` the parts that its provider
    rents out, `workload` the name of its work in the organisation's `own` rows. `measured` says
    that a meter saw the job run.
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

    @property
    def device_hours(self) -> float:
        """Hours of all devices together [h], 0 where not known."""
        return (self.hours or 0.0) * self.count

    @property
    def rented(self) -> bool:
        """Whether the hardware is a provider's, so that nothing is bought."""
        only_rented = self.part is not None and rented_only(self.part)
        return only_rented or self.request.cloud is not None

    @property
    def notices(self) -> list[Notice]:
        """What the place and the provider leave open."""
        provider = self.request.cloud
        if provider is None or self.offered is not None:
            return list(self.place.notices)
        text = f"The catalog lists no instances of {provider}: which parts it has is not checked."
        return [*self.place.notices, Notice("provider-unlisted", text, "provider")]

    @cached_property
    def described(self) -> Workload:
        """What of the job decides its time on other parts."""
        return Workload(
            workload_class=self.classified.name,
            framework=self.request.framework,
            precision=self.request.precision,
            batch=self.request.batch_size,
            count=self.count,
            name=self.workload,
        )

    @cached_property
    def misfit(self) -> list[str]:
        """Why the present part cannot hold the job, with the arithmetic; empty where it may.

        A measured peak within its memory shows that it does, margin or not; so does a job that ran.
        """
        part, peak = self.part, self.request.peak_memory_gb
        if part is None or part.memory_gb is None or self.measured:
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
        """Host power over device power; zero for whole systems."""
        return HOST_SHARE.times(host_beside(self.part), "1") if self.part else NO_HOST

    @cached_property
    def power_w(self) -> Quantity | None:
        """Mean power of a device now [W]: declared, else a usual share of its rated power."""
        if self.request.mean_power_w is not None:
            return Quantity.exact(self.request.mean_power_w, "W", "declared", DECLARED)
        if self.part is None or not self.part.tdp_w:
            return None
        share = power_share(self.classified.name)
        return share.scaled(self.part.tdp_w, "W").sourced(
            f"{share.source} x rated power of {self.part.id}"
        )

    @cached_property
    def operational_g_h(self) -> Quantity | None:
        """Operational carbon of a device and its host share, an hour [gCO2e/h]."""
        if self.power_w is None:
            return None
        device = self.power_w.scaled(1e-3, "kW")
        both = device + device.times(self.host_share, "kW")
        return both.times(self.intensity, "gCO2e/h").times(self.place.pue, "gCO2e/h")

    @cached_property
    def embodied_g_h(self) -> Quantity | None:
        """Embodied carbon of a device of the present part and its host share, an hour [gCO2e/h]."""
        te = te_g(self.part) if self.part else None
        return te.over(self.lifetime.scaled(HOURS_PER_YEAR, "h"), "gCO2e/h") if te else None

    @cached_property
    def run_g(self) -> Quantity | None:
        """All carbon of the present run [gCO2e]; None without hours, power or embodied carbon."""
        operational, embodied = self.operational_g_h, self.embodied_g_h
        if operational is None or embodied is None or self.hours is None:
            return None
        return (operational + embodied).scaled(self.count).scaled(self.hours, "gCO2e")

    def saved_g(self, carbon_ratio: Quantity | None) -> Quantity | None:
        """What a ratio saves over the whole run [gCO2e]; None without hours or carbon."""
        whole = self.run_g
        if carbon_ratio is None or whole is None:
            return None
        shares = [1 - end for end in (carbon_ratio.low, carbon_ratio.high)]
        ends = [total * share for total in (whole.low, whole.high) for share in shares]
        middle = whole.value * (1 - carbon_ratio.value)
        source = f"present carbon of the run ({whole.source}) x (1 - carbon ratio)"
        return Quantity(middle, min(ends), max(ends), "gCO2e", carbon_ratio.kind, source)


def resolve(
    request: SuggestRequest,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    workload: str | None = None,
    *,
    measured: bool = False,
) -> Work:
    """The job behind a request; raises LookupFailed for unknown names."""
    name, count = request.hardware, request.count or 1.0
    if request.instance:
        instance = catalog.instance(request.instance)
        name, count = instance.hardware, instance.devices(request.count)
        request = replace(request, instance=instance.id)
    part = catalog.hardware(name) if name else None
    if request.zone:
        catalog.zone(request.zone)
    if request.full_region:
        catalog.region(request.full_region)
    request.check_one_provider()
    place = locate(request.zone, request.full_region, None, catalog)
    grid = catalog.zone(place.zone) if place.zone else catalog.world()
    lifetime = lifetime_years()
    if request.lifetime_years is not None:
        lifetime = Quantity.exact(request.lifetime_years, "years", "declared", DECLARED)
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
        need=_need(request, part, count, measured=measured),
        measured=measured,
    )


def host_beside(part: Hardware) -> Quantity:
    """Share of a usual host that stands beside the part: none where its figures hold the host."""
    if part.device_class in ("gpu", "accelerator"):
        return WHOLE_HOST
    alone = accelerator_te(part)
    whole = alone is None or alone.includes_host
    return NO_HOST if whole else MODULE_HOST


def te_g(part: Hardware) -> Quantity | None:
    """Embodied carbon of a device with its host share [gCO2e]; None where the catalog has none."""
    alone = accelerator_te(part)
    if alone is None:
        return None
    host = host_share_te(part)
    return alone.te_g + host.te_g if host and not alone.includes_host else alone.te_g


def _need(
    request: SuggestRequest, part: Hardware | None, count: float, *, measured: bool
) -> Need | None:
    """The memory needed; None for an estimate that a measured run has refuted."""
    need = memory_need(request)
    if part is None or request.peak_memory_gb is not None or not measured:
        return need
    return None if shortfall(need, part, count) else need


def _run(request: SuggestRequest, part: Hardware, classified: Classified, count: float) -> Run:
    """The present run as its own measurements would show it; without hours no rate is known."""
    seconds = s_from_h(request.hours or 0.0) * count
    rates = {unit: amount / seconds for unit, amount in request.units.items() if seconds}
    return Run(part.id, classified.name, rates)
