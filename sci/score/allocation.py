"""Embodied emissions of a job: M = TE x TiR/EL x RR/ToR for each device and each host.

ISO/IEC 21031 (SCI specification v1.1), "Embodied emissions". TiR is the time the hardware was
reserved for the job, EL its expected life, RR/ToR the share of it that was reserved. A host's share
goes with the accelerators reserved in it; a host without accelerators is reserved as seen by the
job. A node that ended before the others was reserved for its own time only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property

from msgspec import Struct

from gramwatt.sci.figures.document import EmbodiedTermDoc
from gramwatt.sci.figures.notices import CODES, Notice
from gramwatt.sci.figures.quantity import Quantity, total
from gramwatt.sci.figures.units import S_PER_YEAR
from gramwatt.sci.records.elsewhere import Charged, charged, charged_s
from gramwatt.sci.records.records import ACCELERATORS
from gramwatt.sci.score.identify import Component, IdentifiedJob

BEYOND_LIFE = 1.5
"""Of EL, how long no hardware is reserved for one job: 6 years where 4 are expected, which is the
high end of EL's range. A clock that was set wrong makes such a job."""


class Share(Struct, frozen=True):
    """Embodied carbon of one device or host charged to the job; `reserved_s` is TiR [s].

    TiR is the length of `times`, which leave out what counts in other jobs.
    """

    of: Component
    times: tuple[Charged, ...]
    reserved_s: float
    embodied_g: Quantity

    def to_doc(self) -> EmbodiedTermDoc:
        """Return TE, TiR, EL, RR and ToR by those names, as JSON-ready data."""
        of = self.of
        return EmbodiedTermDoc(
            device_id=of.device_id,
            node=of.node,
            label=of.label,
            te_g=of.te.te_g.bare(),
            tier=of.te.tier,
            stages=of.te.stages,
            time_reserved_s=self.reserved_s,
            lifetime_years=of.life.value,
            resources_reserved=of.reserved,
            resources_total=of.total,
            embodied_g=self.embodied_g.bare(),
        )


class EmbodiedShares(Struct, frozen=True, dict=True):
    """All shares of a job, with the notices on its hardware and on them."""

    shares: tuple[Share, ...]
    notices: tuple[Notice, ...]

    @cached_property
    def embodied_g(self) -> Quantity | None:
        """M of the job [gCO2e]; None when no hardware is known."""
        return total(share.embodied_g for share in self.shares)

    @cached_property
    def by_time(self) -> Mapping[tuple[Charged, ...], Quantity]:
        """M [gCO2e] by the time for which it is charged."""
        figures: dict[tuple[Charged, ...], list[Quantity]] = defaultdict(list)
        for share in self.shares:
            figures[share.times].append(share.embodied_g)
        sums = {times: total(of_times) for times, of_times in figures.items()}
        return {times: figure for times, figure in sums.items() if figure}

    def within(self, start: datetime, end: datetime) -> Quantity | None:
        """Return M of [start, end): of each share the part of its time that lies there [gCO2e]."""
        return total(
            figure.scaled(charged_s(times, start, end) / (charged_s(times) or 1.0))
            for times, figure in self.by_time.items()
        )

    def by_tier(self) -> dict[str, float]:
        """Return grams by data tier: A first party, B independent study, C and D modelled."""
        tiers: dict[str, float] = defaultdict(float)
        for share in self.shares:
            tiers[share.of.te.tier] += share.embodied_g.value
        return dict(tiers)


def embodied_share_g(te_g: Quantity, reserved_s: float, life: Quantity, share: float) -> Quantity:
    """Return M = TE x TiR/EL x RR/ToR [gCO2e].

    `te_g` [gCO2e], `reserved_s` TiR [s], `life` EL [years], `share` RR/ToR in (0, 1].
    """
    time_share = Quantity.exact(reserved_s / S_PER_YEAR, "years", "measured", "time reserved")
    return te_g.scaled(share).times(time_share.over(life, "1"), "gCO2e")


def allocate(identified: IdentifiedJob) -> EmbodiedShares:
    """Return M of every accelerator and host of the job, for the time its nodes were reserved."""
    job, life_s = identified.job, identified.life.value * S_PER_YEAR
    if not job.devices:
        return _unknown("No device of the job is known, so neither is its embodied carbon.")
    longest_s = max(job.reserved_s([node.name]) for node in job.nodes)
    if longest_s > BEYOND_LIFE * life_s:
        return _unknown(
            f"The job's times are {longest_s / S_PER_YEAR:.0f} years apart, longer than hardware "
            "lives, so a clock was wrong, and its embodied carbon is not known. Delete the job, or "
            "declare its hardware's lifetime."
        )
    notices = identified.notices
    if longest_s > life_s:
        exceeded = Notice("lifetime-exceeded", CODES["lifetime-exceeded"], "embodied_g")
        notices = (*notices, exceeded)
    shares = []
    for component in identified.components:
        if not job.reserved_s(component.nodes) and job.ended_at:
            text = f"By its times {component.label} was reserved for no time, so M is not known."
            return _unknown(text)
        times = _times(identified, component)
        time_s, te_g = charged_s(times), component.te.te_g
        embodied_g = embodied_share_g(te_g, time_s, component.life, component.fraction)
        shares.append(Share(component, times, time_s, embodied_g))
    return EmbodiedShares(tuple(shares), notices)


def _times(identified: IdentifiedJob, of: Component) -> tuple[Charged, ...]:
    """Return the reserved time of a component that counts in this job.

    A host counts as long as the longest of its accelerators, or else of its other devices.
    """
    job = identified.job
    spans = job.reserved(of.nodes)
    if job.head.reporter is None:
        return charged(spans, ())
    own = [device.record for device in job.devices if device.key == of.key]
    if not own:
        there = [device.record for device in job.devices if set(device.nodes) & set(of.nodes)]
        own = [record for record in there if record.device_class in ACCELERATORS] or there
    pieces = [charged(spans, record.elsewhere) for record in own]
    return max(pieces, key=charged_s, default=charged(spans, ()))


def _unknown(text: str) -> EmbodiedShares:
    """Return no embodied carbon, and a notice that says why."""
    return EmbodiedShares((), (Notice("embodied-unknown", text, "embodied_g"),))
