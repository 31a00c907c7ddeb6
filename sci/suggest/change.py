"""A change of a job before it is written: its ratios as logarithms, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gramwatt.sci.estimate.ranking import Log
from gramwatt.sci.figures.quantity import Kind, Quantity
from gramwatt.sci.figures.units import G_PER_KG, W_PER_KW
from gramwatt.sci.suggest.documents import (
    ADVISED,
    BASES,
    Action,
    AnswerDoc,
    Basis,
    EffortDoc,
    verdict_of,
)
from gramwatt.sci.suggest.embodied import carbon_ratio, with_hosts
from gramwatt.sci.suggest.work import Device, Work, saved_g

MOST_ODDS: Mapping[Basis, float] = {
    "own-runs": 0.99,
    "measured": 0.99,
    "data-sheets": 0.95,
    "rule-of-thumb": 0.89,
}
"""Highest probability that is stated, by basis: "sure" only where something was measured or known
of the devices, and more than 19 in 20 only where the change itself was measured."""
BY_MAKING = 0.65
"""Highest probability for other hardware whose electricity is probably no less: its making alone,
which is modelled, advises nothing."""
Condition = Literal["rest", "host", "partly-host", "requests", "waits", "four-bits"]
CONDITIONAL: Mapping[Condition, float] = {
    "rest": 0.65,
    "host": 0.89,
    "partly-host": 0.89,
    "requests": 0.89,
    "waits": 0.89,
    "four-bits": 0.89,
}
"""Highest probability where it rests on what is not known: that others use the rest of a board,
what the host draws, that requests come together, why the devices wait for a part of the time, that
4 bits are accurate enough."""
KINDS: Mapping[Basis, Kind] = {"own-runs": "measured", "measured": "derived"}
EFFORTS: Mapping[Action, EffortDoc] = {
    "power-cap": EffortDoc("low", "one command of an administrator, which can be taken back"),
    "mixed-precision": EffortDoc("low", "a setting of the framework; compare the loss"),
    "batching": EffortDoc("low", "a setting of the server; answers take longer"),
    "fewer-nodes": EffortDoc("low", "a setting of the launcher; the run takes longer"),
    "leave-device": EffortDoc("low", "the job starts on a machine without accelerators"),
    "release-idle": EffortDoc("medium", "reservations have to end when nothing runs"),
    "input-pipeline": EffortDoc("medium", "more workers, a faster format or a cache for the data"),
    "share": EffortDoc("medium", "jobs have to be put together and watched"),
    "slice": EffortDoc("medium", "an administrator divides the board"),
    "quantise": EffortDoc("medium", "weights are converted and the accuracy is tested"),
    "checkpoint": EffortDoc("medium", "the program has to save and resume"),
    "spot": EffortDoc("medium", "the program has to survive interruptions"),
    "region": EffortDoc("medium", "data and deployment move too"),
    "time": EffortDoc("low", "the job starts later"),
}
"""How much work a change is and what has to be done; the levels are judgements. Of hardware it
follows from how that is had."""


class Change(Struct, frozen=True, kw_only=True):
    """One change; see `AnswerDoc`. `odds` overrides what follows of the carbon ratio."""

    action: Action
    id: str
    label: str
    count: float
    target: str | None = None
    device: Device | None = None
    time: Log | None = None
    energy: Log | None = None
    carbon: Log | None = None
    odds: float | None = None
    basis: Basis = "rule-of-thumb"
    effort: EffortDoc | None = None
    break_even_h: Quantity | None = None
    buy: str | None = None
    condition: Condition | None = None
    total_g: Quantity | None = None
    energy_kwh: Quantity | None = None
    time_h: Quantity | None = None
    g_per_million_tokens: Quantity | None = None
    unknown: str | None = None
    reasons: Sequence[str] = ()
    sources: Sequence[str] = ()

    @property
    def probability(self) -> float | None:
        """Return the probability that it emits less, never higher than its basis allows."""
        if self.odds is not None or self.carbon is None:
            return self.odds
        most = MOST_ODDS[self.basis]
        if self.device is not None and self.energy is not None and self.energy.odds < 0.5:
            most = min(most, BY_MAKING)
        if self.condition is not None:
            most = min(most, CONDITIONAL[self.condition])
        return round(min(max(self.carbon.odds, 1 - MOST_ODDS[self.basis]), most), 3)

    def to_doc(self, work: Work) -> AnswerDoc:
        """Return it as a row, with figures of the whole run where those of now are known."""
        odds = self.probability
        time, energy, carbon = (
            log.quantity(
                KINDS.get(self.basis, "estimated"), *(self.sources or (BASES[self.basis],))
            )
            if log is not None
            else None
            for log in (self.time, self.energy, self.carbon)
        )
        now, estimate = work.emitted, self.total_g
        saved = saved_g(now.total_g, carbon) if now and carbon else None
        total = now.total_g.times(carbon, "gCO2e") if now and carbon else estimate
        hours = self.time_h
        present = work.device is not None and not work.misfit
        if time is not None and work.hours and present:
            hours = time.scaled(work.hours, "h")
        used = self.energy_kwh
        if energy is not None and work.hours and present and work.power_w:
            watts = work.power_w.value + work.host_w(work.now)
            used = energy.scaled(watts * work.count * work.hours / W_PER_KW, "kWh")
        yearly = None
        if saved is not None and work.repeats is not None:
            yearly = saved.times(work.repeats, "gCO2e").scaled(1 / G_PER_KG, "kgCO2e")
        return AnswerDoc(
            id=self.id,
            action=self.action,
            label=self.label,
            target=self.target,
            count=int(self.count),
            odds=odds,
            verdict=None if odds is None else verdict_of(odds),
            advised=odds is not None and odds >= ADVISED,
            time_ratio=_bare(time),
            energy_ratio=_bare(energy),
            carbon_ratio=_bare(carbon),
            time_h=_bare(hours),
            energy_kwh=_bare(used),
            carbon_g=_bare(total),
            saved_g=_bare(saved),
            yearly_kg=_bare(yearly),
            g_per_million_tokens=_bare(self.g_per_million_tokens),
            effort=self.effort or EFFORTS.get(self.action),
            break_even_h=_bare(self.break_even_h),
            buy=self.buy,
            basis=self.basis,
            unknown=self.unknown,
            reasons=list(self.reasons),
            sources=list(dict.fromkeys(self.sources)),
        )


def priced(work: Work, change: Change, *, of_devices: bool = False) -> Change:
    """Return another setting of the present devices with its carbon.

    `of_devices` says that hosts are not yet in its energy.
    """
    assert change.time is not None
    assert change.energy is not None
    devices, energy = change.count / work.count, change.energy
    if of_devices:
        energy = with_hosts(work, change.time, energy, devices=devices)
    carbon = carbon_ratio(work, change.time, energy, devices=devices)
    return replace(change, energy=energy, carbon=carbon)


def _bare(figure: Quantity | None) -> Quantity | None:
    return None if figure is None else figure.bare()
