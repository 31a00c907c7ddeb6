"""The same work on other hardware: feasibility, time, energy, carbon, verdict, break-even."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from gramwatt.sci.advice.actions.break_even import break_even
from gramwatt.sci.advice.actions.feasible import fewest_devices
from gramwatt.sci.advice.constraints.availability import availability_notes, rental_notes
from gramwatt.sci.advice.constraints.memory import fit_notes, shortfall
from gramwatt.sci.advice.constraints.support import porting_notes, refusals
from gramwatt.sci.advice.documents import Suggestion, Verdict, verdict_of
from gramwatt.sci.advice.prediction.predict import Prediction, energy_factor, predict
from gramwatt.sci.advice.prediction.ratio_range import Values, ratio_of, unchanged, within
from gramwatt.sci.advice.work import Work, host_beside, te_g
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import G_PER_KG, HOURS_PER_YEAR
from gramwatt.sci.catalog.catalog import Hardware

POWERED_VENDORS = ("NVIDIA", "AMD", "Intel")
"""Vendors whose parts' power follows from their rated power; of the others nothing was found."""
METERED_VENDORS = ("NVIDIA",)
"""Vendors with parts whose board power was measured by class of work."""
UNMETERED = 1.25
"""Further x/÷ factor of energy where no part of the vendor was metered (an estimate)."""
PLACEMENT = Quantity(
    0.5,
    0.0,
    1.0,
    "1",
    "estimated",
    "host power of the target: between that of the present part and the same share of the target's",
)


def compare(work: Work, target: Hardware) -> Suggestion:
    """The suggestion for one part at the present device count."""
    if work.part is not None and target.id == work.part.id:
        return _present(work, target)
    count = fewest_devices(work, target)
    unjudged = Suggestion(
        action="change-hardware",
        target=target.id,
        count=count,
        verdict="unknown",
        basis="none",
        sources=(_cited(target),),
    )
    reasons = refusals(work.request, target, work.offered)
    reasons += shortfall(work.need, target, count)
    if reasons:
        return replace(unjudged, verdict="not-feasible", basis="rule", reasons=reasons)
    notes = [
        *fit_notes(work.need, target, count),
        *porting_notes(work.request, target),
        *availability_notes(work.catalog, target, provider_known=work.request.cloud is not None),
    ]
    if work.part is None:
        return replace(unjudged, reasons=notes)
    if work.misfit:
        text = f"no verdict: the job as asked does not fit {work.count:g} x {work.part.id}"
        return replace(unjudged, reasons=[*notes, text])
    prediction = predict(work.described, work.part, target, work.own)
    if prediction.time is None:
        return replace(unjudged, reasons=[*prediction.reasons, *notes])
    return _judged(work, work.part, target, prediction, prediction.time, notes)


def _present(work: Work, target: Hardware) -> Suggestion:
    same = None if work.misfit else unchanged("the present part over itself")
    return Suggestion(
        action="change-hardware",
        target=target.id,
        count=work.count,
        verdict="not-feasible" if work.misfit else "no-reliable-difference",
        basis="rule" if work.misfit else "direct",
        time_ratio=same,
        energy_ratio=same,
        carbon_ratio=same,
        saved_g=work.saved_g(same),
        operating_point="as now",
        reasons=["this is the present part", *work.misfit],
        sources=(_cited(target),),
    )


def _judged(
    work: Work,
    now: Hardware,
    target: Hardware,
    prediction: Prediction,
    time: Quantity,
    notes: list[str],
) -> Suggestion:
    reasons = [*prediction.reasons, *notes]
    board = prediction.energy or _board_energy(work, now, target, time, reasons)
    energy = _with_host(work, target, time, board) if board else None
    carbon = _carbon(work, now, target, time, energy, reasons) if energy else None
    verdict = verdict_of(carbon)
    reasons.append(_verdict_reason(verdict, carbon))
    if work.request.cloud is not None:
        reasons += rental_notes(work.catalog, work.request.cloud, target, work.count)
    payback = break_even(work, target, energy)
    return Suggestion(
        action="change-hardware",
        target=target.id,
        count=work.count,
        verdict=verdict,
        basis=prediction.basis,
        time_ratio=time,
        energy_ratio=energy,
        carbon_ratio=carbon,
        saved_g=work.saved_g(carbon),
        break_even_hours=payback.hours,
        operating_point=prediction.point,
        reasons=[_ratios_reason(time, energy), *reasons, *payback.reasons],
        sources=(*prediction.sources, _cited(now), _cited(target)),
    )


def _board_energy(
    work: Work, now: Hardware, target: Hardware, time: Quantity, reasons: list[str]
) -> Quantity | None:
    """Energy ratio of the devices alone, by their rated powers and the same share of them.

    `reasons` gets what makes it uncertain, or why it is None.
    """
    unknown = [part.id for part in (now, target) if part.vendor not in POWERED_VENDORS]
    unknown += [part.id for part in (now, target) if part.tdp_w is None]
    if unknown or not now.tdp_w or not target.tdp_w:
        names = ", ".join(dict.fromkeys(unknown))
        reasons.append(f"no published measurement of the power of {names} under load was found")
        return None
    factor = energy_factor(work.classified.name)
    if any(part.vendor not in METERED_VENDORS for part in (now, target)):
        factor *= UNMETERED
        reasons.append("no part of one vendor was metered under load: its range is wider")
    # The energy can never be known better than the time it rests on.
    factor = max(factor, time.high / time.value)
    power = target.tdp_w / now.tdp_w
    if target.idle_w and work.power_w:  # a part never draws less than when idle
        power = max(power, target.idle_w.low / work.power_w.value)
    source = (
        f"time ratio x rated powers {target.tdp_w:g}/{now.tdp_w:g} W at the same share; 80 % "
        f"within x/÷ {factor:.2f} on measured board energy"
    )
    return within(time.value * power, factor, source)


def _with_host(work: Work, target: Hardware, time: Quantity, board: Quantity) -> Quantity:
    """Energy ratio of all IT equipment: t (P' + H') / (P + H).

    H is the host's share s of P; H' lies between s P, a host that stays, and s P', one that shrinks
    with the part. A 72 W card in the same server is not a tenth of a 700 W one.
    """
    power_ratio = board.value / time.value

    def formula(at: Values) -> float:
        beside = at["beside"] * at["host"] * at["time"] * math.pow(power_ratio, at["placement"])
        return (at["board"] + beside) / (1 + at["host"])

    inputs = {
        "board": board,
        "time": time,
        "host": work.host_share,
        "placement": PLACEMENT,
        "beside": host_beside(target),
    }
    return ratio_of(formula, inputs, f"{board.source}; host power {work.host_share.source}")


def _carbon(
    work: Work,
    now: Hardware,
    target: Hardware,
    time: Quantity,
    energy: Quantity,
    reasons: list[str],
) -> Quantity | None:
    """(O e + M' t) / (O + M), operational and embodied at the job's own intensity.

    `reasons` gets what the making of the parts counts for, or why it is None.
    """
    operational, te_now, te_target = work.operational_g_h, te_g(now), te_g(target)
    if operational is None or te_now is None or te_target is None:
        lacks = [part.id for part, te in ((now, te_now), (target, te_target)) if te is None]
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
        "hours": work.lifetime.scaled(HOURS_PER_YEAR, "h"),
    }

    def formula(at: Values) -> float:
        new = at["operational"] * at["energy"] + at["target"] / at["hours"] * at["time"]
        return new / (at["operational"] + at["now"] / at["hours"])

    reasons.append(_embodied_reason(inputs))
    grid = work.intensity
    source = f"operational and embodied at {grid.value:.0f} gCO2e/kWh ({grid.source})"
    return ratio_of(formula, inputs, source)


def _embodied_reason(inputs: Mapping[str, Quantity]) -> str:
    """Embodied carbon beside the electricity, in words."""
    hours, electricity = inputs["hours"].value, inputs["operational"].value
    te = [inputs[name].value for name in ("now", "target")]
    now, then = (f"{grams / G_PER_KG:.0f} kg" for grams in te)
    rates = " and ".join(f"{grams / hours:.3g}" for grams in te)
    return (
        f"making counts too: {now} CO2e a device with its share of a host now, {then} then. Over a "
        f"life of {hours / HOURS_PER_YEAR:g} years that is {rates} g an hour, beside "
        f"{electricity:.3g} g an hour for electricity now"
    )


def _ratios_reason(time: Quantity, energy: Quantity | None) -> str:
    """The ratios in words, first of the reasons."""
    text = f"{time.value:.2g} times as long ({time.low:.2g} to {time.high:.2g})"
    if energy is None:
        return text
    return f"{text}, {energy.value:.2g} times the energy ({energy.low:.2g} to {energy.high:.2g})"


def _verdict_reason(verdict: Verdict, carbon: Quantity | None) -> str:
    if carbon is None:
        return "without an energy or embodied figure there is no carbon verdict"
    ends = f"{_end(carbon.low)} to {_end(carbon.high)}"
    if verdict == "no-reliable-difference":
        return f"the 80 % range of the carbon ratio, {ends}, holds 1: no saving can be promised"
    side = "below" if verdict == "lower" else "above"
    return f"the whole 80 % range of the carbon ratio, {ends}, lies {side} 1"


def _end(ratio: float) -> str:
    """An end of a range, never rounded to 1 when it is not."""
    text = f"{ratio:.2f}"
    return f"{ratio:.4g}" if text == "1.00" and ratio != 1 else text


def _cited(part: Hardware) -> str:
    return f"catalog {part.id} ({', '.join(part.sources.all)})"
