"""The job of a question with everything resolved: part, place, power, carbon an hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from gramwatt.sci.advice.constraints.availability import rented_only
from gramwatt.sci.advice.constraints.memory import Need, memory_need, shortfall
from gramwatt.sci.advice.constraints.support import offers, one_provider, provider_of
from gramwatt.sci.advice.prediction.calibration import OwnRow, Run, recognised
from gramwatt.sci.advice.prediction.rows import table
from gramwatt.sci.advice.prediction.workload import Classified, classify
from gramwatt.sci.advice.request import SuggestQuestion
from gramwatt.sci.base.notices import Notice
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import HOURS_PER_YEAR, s_from_h
from gramwatt.sci.catalog.catalog import Catalog, Hardware
from gramwatt.sci.catalog.parameters import lifetime_years
from gramwatt.sci.embodied.accelerators import accelerator_te
from gramwatt.sci.embodied.hosts import gpu_host_te_per_accelerator
from gramwatt.sci.estimate.model import DECLARED, HOST_SHARE
from gramwatt.sci.score.location import Place, locate

EXACT_ZERO = Quantity.exact(0.0, "1", "derived", "no host beside the device")
WHOLE_HOST = Quantity.exact(1.0, "1", "derived", "a host beside the device")
MODULE_HOST = Quantity(
    0.5,
    0.0,
    1.0,
    "1",
    "estimated",
    "a module with its own processor: between no further host and a whole one beside it",
)


@dataclass(slots=True)
class Work:
    """One job, its part and its place; figures are None where not known.

    `need` is the memory that it takes, `ran` whether a measured job asks.
    """

    question: SuggestQuestion
    catalog: Catalog
    part: Hardware | None
    count: float
    hours: float | None
    classified: Classified
    place: Place
    intensity: Quantity
    lifetime: Quantity
    offered: frozenset[str] | None = None
    own: Sequence[OwnRow] = ()
    workload: str | None = None
    notices: list[Notice] = field(default_factory=list)
    need: Need | None = None
    ran: bool = False

    @property
    def rented(self) -> bool:
        """Whether the hardware is a provider's, so that nothing is bought."""
        hired = self.part is not None and rented_only(self.part)
        return hired or provider_of(self.question) is not None

    @property
    def host_share(self) -> Quantity:
        """Host power over device power; zero for whole systems."""
        if self.part is None:
            return EXACT_ZERO
        return HOST_SHARE.times(host_beside(self.part), "1")

    def power_w(self) -> Quantity | None:
        """Mean power of a device now [W]: declared, else a usual share of its rated power."""
        if self.question.mean_power_w is not None:
            return Quantity.exact(self.question.mean_power_w, "W", "declared", DECLARED)
        if self.part is None or not self.part.tdp_w:
            return None
        share = power_share(self.classified.name)
        return share.scaled(self.part.tdp_w, "W").sourced(
            f"{share.source} x rated power of {self.part.id}"
        )

    def operational_g_h(self) -> Quantity | None:
        """Operational carbon of a device and its host share, an hour [gCO2e/h]."""
        power = self.power_w()
        if power is None:
            return None
        devices = power.scaled(1e-3, "kW")
        total = devices + devices.times(self.host_share, "kW")
        return total.times(self.intensity, "gCO2e/h").times(self.place.pue, "gCO2e/h")

    def embodied_g_h(self, part: Hardware) -> Quantity | None:
        """Embodied carbon of a device of that part and its host share, an hour [gCO2e/h]."""
        te = te_g(part)
        return te.over(self.lifetime.scaled(HOURS_PER_YEAR, "h"), "gCO2e/h") if te else None

    def carbon_g_h(self) -> Quantity | None:
        """All carbon of the present run, an hour of all its devices [gCO2e/h]."""
        embodied = self.embodied_g_h(self.part) if self.part else None
        operational = self.operational_g_h()
        if operational is None or embodied is None:
            return None
        return (operational + embodied).scaled(self.count)

    def saved_g(self, carbon_ratio: Quantity | None) -> Quantity | None:
        """What a ratio saves over the whole run [gCO2e]; None without hours or carbon."""
        now = self.carbon_g_h()
        if carbon_ratio is None or now is None or self.hours is None:
            return None
        whole = now.scaled(self.hours, "gCO2e")
        parts = [1 - end for end in (carbon_ratio.value, carbon_ratio.low, carbon_ratio.high)]
        ends = [total * part for total in (whole.low, whole.high) for part in parts]
        source = f"present carbon of the run ({whole.source}) x (1 - carbon ratio)"
        middle = whole.value * parts[0]
        return Quantity(middle, min(ends), max(ends), "gCO2e", carbon_ratio.kind, source)


def resolve(
    question: SuggestQuestion,
    catalog: Catalog,
    own: Sequence[OwnRow] = (),
    workload: str | None = None,
    *,
    ran: bool = False,
) -> Work:
    """The job behind a question; raises LookupFailed for unknown names."""
    name, count = question.hardware, question.count
    if question.instance:
        instance = catalog.instance(question.instance)
        name, count = instance.hardware, instance.devices(count)
        question = replace(question, instance=instance.id)
    part = catalog.hardware(name) if name else None
    if question.zone:
        catalog.zone(question.zone)
    region = full_region(question)
    if region:
        catalog.region(region)
    one_provider(question)
    place = locate(question.zone, region, None, catalog)
    grid = catalog.zone(place.zone) if place.zone else catalog.world()
    life = lifetime_years()
    if question.lifetime_years is not None:
        life = Quantity.exact(question.lifetime_years, "years", "declared", DECLARED)
    notices = [*place.notices, *_unlisted(question, catalog)]
    classified = classify(question, part)
    if workload is None and part is not None:
        workload = recognised(own, _run(question, part, classified, count or 1.0))
    return Work(
        question=question,
        catalog=catalog,
        part=part,
        count=count or 1.0,
        hours=question.hours,
        classified=classified,
        place=place,
        intensity=grid.intensity,
        lifetime=life,
        offered=offers(catalog, provider_of(question)),
        own=own,
        workload=workload,
        notices=notices,
        need=_need(question, part, count or 1.0, ran=ran),
        ran=ran,
    )


def _need(
    question: SuggestQuestion, part: Hardware | None, count: float, *, ran: bool
) -> Need | None:
    """The memory needed; an estimate that a measured run has refuted tells nothing."""
    need = memory_need(question)
    refuted = ran and question.peak_memory_gb is None and part is not None
    return None if refuted and part and shortfall(need, part, count) else need


def _run(question: SuggestQuestion, part: Hardware, classified: Classified, count: float) -> Run:
    """The present run as its own measurements would show it; without hours no rate is known."""
    seconds = s_from_h(question.hours or 0.0) * count
    rates = {unit: amount / seconds for unit, amount in question.units.items() if seconds}
    return Run(part.id, classified.name, rates)


def _unlisted(question: SuggestQuestion, catalog: Catalog) -> list[Notice]:
    """A remark where the catalog cannot tell what the provider has."""
    provider = provider_of(question)
    if provider is None or offers(catalog, provider) is not None:
        return []
    text = f"The catalog lists no instances of {provider}: which parts it has is not checked."
    return [Notice("provider-unlisted", text, "provider")]


def full_region(question: SuggestQuestion) -> str | None:
    """The region as PROVIDER:REGION."""
    if not question.region or ":" in question.region:
        return question.region
    return f"{provider_of(question)}:{question.region}"


def host_beside(part: Hardware) -> Quantity:
    """Share of a usual host that stands beside the part: none where its figures hold the host."""
    if part.device_class in ("gpu", "accelerator"):
        return WHOLE_HOST
    alone = accelerator_te(part)
    whole = alone is None or alone.includes_host
    return EXACT_ZERO if whole else MODULE_HOST


def te_g(part: Hardware) -> Quantity | None:
    """Embodied carbon of a device with its host share [gCO2e]; None where the catalog has none."""
    alone = accelerator_te(part)
    if alone is None:
        return None
    beside = host_beside(part)
    if not beside.value or alone.includes_host:
        return alone.te_g
    return alone.te_g + gpu_host_te_per_accelerator().te_g.times(beside, "gCO2e")


def power_share(name: str | None) -> Quantity:
    """Mean over rated board power by class, 80 % of the measured runs."""
    key = name if name in _power_shares() else "recsys" if name == "small" else "other"
    return _power_shares()[key or "other"]


@cache
def _power_shares() -> Mapping[str, Quantity]:
    found = {}
    for row in table("power.csv"):
        name, runs = row.text("class"), row.text("rows")
        ends = (row.known("value"), row.known("low"), row.known("high"))
        source = f"mean over rated board power of {runs} measured runs ({name})"
        found[name] = Quantity(*ends, "1", "derived", source)
    return found
