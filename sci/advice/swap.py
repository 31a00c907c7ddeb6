"""The same work on other hardware: feasibility, time, energy, carbon, verdict, break-even."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gramwatt.sci.advice.documents import Suggestion, verdict_of
from gramwatt.sci.advice.memory import Need, memory_need
from gramwatt.sci.advice.predict import Asked, Prediction, energy_factor, predict
from gramwatt.sci.advice.spread import one, ratio_of, within
from gramwatt.sci.advice.support import price_of, provider_of, refusals, remarks
from gramwatt.sci.advice.work import Work, host_beside, te_g
from gramwatt.sci.catalog import Hardware
from gramwatt.sci.errors import QuantityError
from gramwatt.sci.quantity import Quantity

POWERED_VENDORS = ("NVIDIA", "AMD", "Intel")
"""Vendors whose parts' power follows from their rated power; of the others nothing was found."""
METERED_VENDORS = ("NVIDIA",)
"""Vendors with parts whose board power was measured by class of work."""
UNMETERED = 1.25
"""Further x/÷ factor of energy where no part of the vendor was metered (survey, an estimate)."""
PLACEMENT = Quantity(
    0.5,
    0.0,
    1.0,
    "1",
    "estimated",
    "host power of the target: between that of the present part and the same share of the target's",
)
PRESENT = "the present part over itself"


def compared(work: Work, target: Hardware) -> Suggestion:
    """The suggestion for one part at the present device count."""
    if work.part is not None and target.id == work.part.id:
        return _present(work, target)
    need = memory_need(work.question)
    reasons = [*refusals(work.question, target, work.offered), *_memory(need, target, work.count)]
    if reasons:
        return Suggestion(
            action="change-hardware",
            target=target.id,
            count=work.count,
            verdict="not-feasible",
            basis="rule",
            reasons=reasons,
            sources=(_catalog(target),),
        )
    notes = [*_fits(need, target, work.count), *remarks(work.question, target)]
    if work.part is None:
        return _unjudged(work, target, [*notes, "no present hardware to compare with"])
    asked = asked_of(work)
    return _judged(work, target, predict(asked, work.part, target, work.own), notes)


def asked_of(work: Work) -> Asked:
    """What of the job decides its time elsewhere."""
    question = work.question
    return Asked(
        work.classified.name,
        question.framework,
        question.precision,
        question.batch_size,
        work.count,
        work.workload,
    )


def _present(work: Work, target: Hardware) -> Suggestion:
    same = one(PRESENT)
    need = memory_need(work.question)
    return Suggestion(
        action="change-hardware",
        target=target.id,
        count=work.count,
        verdict="no-reliable-difference",
        basis="direct",
        time_ratio=same,
        energy_ratio=same,
        carbon_ratio=same,
        saved_g=work.saved_g(same),
        operating_point="as now",
        reasons=["this is the present part", *_memory(need, target, work.count)],
        sources=(_catalog(target),),
    )


def _judged(work: Work, target: Hardware, found: Prediction, notes: list[str]) -> Suggestion:
    now = work.part
    assert now is not None
    if found.time is None:
        return _unjudged(work, target, [*found.reasons, *notes])
    reasons = [*found.reasons, *notes]
    board = found.energy or _board_energy(work, now, target, found.time, reasons)
    energy = _with_host(work, target, found.time, board) if board else None
    carbon = _carbon(work, target, found.time, energy, reasons) if energy else None
    verdict = verdict_of(carbon)
    reasons += [_says(verdict, carbon), *_prices(work, target)]
    reasons.insert(0, _figures(found.time, energy))
    return Suggestion(
        action="change-hardware",
        target=target.id,
        count=work.count,
        verdict=verdict,
        basis=found.basis,
        time_ratio=found.time,
        energy_ratio=energy,
        carbon_ratio=carbon,
        saved_g=work.saved_g(carbon),
        break_even_hours=_break_even(work, target, energy, reasons),
        operating_point=found.point,
        reasons=reasons,
        sources=(*found.sources, _catalog(now), _catalog(target)),
    )


def _unjudged(work: Work, target: Hardware, reasons: list[str]) -> Suggestion:
    return Suggestion(
        action="change-hardware",
        target=target.id,
        count=work.count,
        verdict="unknown",
        basis="none",
        reasons=reasons,
        sources=(_catalog(target),),
    )


def _memory(need: Need | None, target: Hardware, count: float) -> list[str]:
    """The arithmetic of a refusal, empty where the memory suffices or nothing is known."""
    if need is None or target.memory_gb is None or need.fits(target.memory_gb, count):
        return []
    has = f"{count:g} x {target.memory_gb:g} GiB of {target.id}"
    text = f"memory: {need.arithmetic}, more than {has}"
    if need.each_gib is None:
        text += f"; {need.devices(target.memory_gb)} of them would hold it"
    return [text]


def _fits(need: Need | None, target: Hardware, count: float) -> list[str]:
    if need is None:
        return ["whether the job fits its memory is not known: give peak_memory_gb"]
    if target.memory_gb is None:
        return [f"the memory of {target.id} is not in the catalog"]
    return [f"memory: {need.arithmetic}, within {count:g} x {target.memory_gb:g} GiB"]


def _board_energy(
    work: Work, now: Hardware, target: Hardware, time: Quantity, reasons: list[str]
) -> Quantity | None:
    """Energy ratio of the devices alone, by their rated powers and the same share of them."""
    unknown = [part for part in (now, target) if part.vendor not in POWERED_VENDORS]
    unknown += [part for part in (now, target) if part.tdp_w is None]
    if unknown or not now.tdp_w or not target.tdp_w:
        names = ", ".join(dict.fromkeys(part.id for part in unknown))
        reasons.append(f"no published measurement of the power of {names} under load was found")
        return None
    factor = energy_factor(work.classified.name)
    if any(part.vendor not in METERED_VENDORS for part in (now, target)):
        factor *= UNMETERED
        reasons.append("no part of one vendor was metered under load: its range is wider")
    # The energy can never be known better than the time it rests on.
    factor = max(factor, time.high / time.value)
    power = max(target.tdp_w / now.tdp_w, _idle(work, target))
    source = (
        f"time ratio x rated powers {target.tdp_w:g}/{now.tdp_w:g} W at the same share; 80 % "
        f"within x/÷ {factor:.2f} on measured board energy"
    )
    return within(time.value * power, factor, source)


def _idle(work: Work, target: Hardware) -> float:
    """The floor of that ratio: a part never draws less than when idle."""
    power = work.power_w()
    return target.idle_w.low / power.value if target.idle_w and power else 0.0


def _with_host(work: Work, target: Hardware, time: Quantity, board: Quantity) -> Quantity:
    """Energy ratio of all IT equipment: t (P' + H') / (P + H).

    H is the host's share s of P; H' lies between s P, a host that stays, and s P', one that shrinks
    with the part. A 72 W card in the same server is not a tenth of a 700 W one.
    """
    power_ratio = board.value / time.value

    def formula(at: Mapping[str, float]) -> float:
        beside = at["beside"] * at["host"] * at["time"] * math.pow(power_ratio, at["placement"])
        return (at["board"] + beside) / (1 + at["host"])

    inputs = {"board": board, "time": time, "host": work.host_share, "placement": PLACEMENT}
    inputs["beside"] = host_beside(target)
    source = f"{board.source}; host power {work.host_share.source}"
    return ratio_of(formula, inputs, source)


def _carbon(
    work: Work, target: Hardware, time: Quantity, energy: Quantity, reasons: list[str]
) -> Quantity | None:
    """(O e + M' t) / (O + M), operational and embodied at the job's own intensity."""
    assert work.part is not None
    operational, te_now, te_target = work.operational_g_h(), te_g(work.part), te_g(target)
    if operational is None or te_now is None or te_target is None:
        lacks = [part.id for part in (work.part, target) if te_g(part) is None]
        reasons.append(
            f"embodied carbon of {', '.join(lacks)} is not in the catalog"
            if lacks
            else "the power of the present part is not known: give mean_power_w"
        )
        return None
    inputs = {
        "time": time,
        "energy": energy,
        "operational": operational,
        "now": te_now,
        "target": te_target,
        "hours": work.lifetime.scaled(8760.0, "h"),
    }

    def formula(at: Mapping[str, float]) -> float:
        new = at["operational"] * at["energy"] + at["target"] / at["hours"] * at["time"]
        return new / (at["operational"] + at["now"] / at["hours"])

    share = 1 - 1 / (1 + te_target.value / inputs["hours"].value / operational.value)
    reasons.append(
        f"embodied carbon counts: {te_now.value / 1000:.0f} kg a device with its host share now, "
        f"{te_target.value / 1000:.0f} kg then, {share:.0%} of the present operational rate and it"
    )
    grid = work.intensity
    source = f"operational and embodied at {grid.value:.0f} gCO2e/kWh ({grid.source})"
    return ratio_of(formula, inputs, source)


def _prices(work: Work, target: Hardware) -> list[str]:
    provider = provider_of(work.question)
    price = price_of(work.catalog, provider, target.id) if provider else None
    return [price] if price else []


def _figures(time: Quantity, energy: Quantity | None) -> str:
    """The ratios in words, first of the reasons."""
    text = f"{time.value:.2g} times as long ({time.low:.2g} to {time.high:.2g})"
    if energy is None:
        return text
    return f"{text}, {energy.value:.2g} times the energy ({energy.low:.2g} to {energy.high:.2g})"


def _says(verdict: str, carbon: Quantity | None) -> str:
    if carbon is None:
        return "without an energy or embodied figure there is no carbon verdict"
    ends = f"{carbon.low:.2f} to {carbon.high:.2f}"
    return {
        "lower": f"the whole 80 % range of the carbon ratio, {ends}, lies below 1",
        "higher": f"the whole 80 % range of the carbon ratio, {ends}, lies above 1",
    }.get(
        verdict, f"the 80 % range of the carbon ratio, {ends}, holds 1: no saving can be promised"
    )


def _break_even(
    work: Work, target: Hardware, energy: Quantity | None, reasons: list[str]
) -> Quantity | None:
    """Hours of the present job after which a bought part has saved its own embodied carbon [h]."""
    if work.rented:
        reasons.append("rented: nothing is bought, so there is no break-even")
        return None
    operational, made = work.operational_g_h(), target.embodied
    if energy is None or operational is None or made is None or energy.value >= 1:
        return None
    if energy.high >= 1:
        reasons.append(
            "a bought part may never save its embodied carbon: the range holds no saving"
        )
        return None
    saving = operational.times(_saving(energy), "gCO2e/h")
    try:
        hours = made.te_g.over(saving, "h")
    except QuantityError:
        return None
    if math.isfinite(hours.high):
        reasons.append(
            f"bought new, it pays its embodied carbon back in {hours.value:.0f} h of use"
        )
    return hours.sourced(f"embodied carbon of {target.id} over operational carbon saved an hour")


def _saving(energy: Quantity) -> Quantity:
    ends = (1 - energy.value, 1 - energy.high, 1 - energy.low)
    return Quantity(*ends, "1", energy.kind, energy.source)


def _catalog(part: Hardware) -> str:
    return f"catalog {part.id} ({', '.join(part.sources.all)})"
