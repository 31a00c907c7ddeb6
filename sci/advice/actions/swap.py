"""The same work on other hardware: feasibility, time, energy, carbon, verdict, break-even."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gramwatt.sci.advice.constraints.availability import had, whole_machines
from gramwatt.sci.advice.constraints.break_even import break_even
from gramwatt.sci.advice.constraints.memory_fit import fewest, memory_of
from gramwatt.sci.advice.constraints.present import lacking
from gramwatt.sci.advice.constraints.support import price_of, provider_of, refusals, remarks
from gramwatt.sci.advice.documents import Suggestion, verdict_of
from gramwatt.sci.advice.prediction.predict import Asked, Prediction, energy_factor, predict
from gramwatt.sci.advice.prediction.ratio_range import one, ratio_of, within
from gramwatt.sci.advice.work import Work, host_beside, te_g
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.base.units import G_PER_KG, HOURS_PER_YEAR
from gramwatt.sci.catalog.catalog import Hardware

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
    count = fewest(work, target)
    short, fits = memory_of(work, target, count)
    reasons = [*refusals(work.question, target, work.offered), *short]
    if reasons:
        return Suggestion(
            action="change-hardware",
            target=target.id,
            count=count,
            verdict="not-feasible",
            basis="rule",
            reasons=reasons,
            sources=(_catalog(target),),
        )
    notes = [
        *fits,
        *remarks(work.question, target),
        *had(work.catalog, target, placed=provider_of(work.question) is not None),
    ]
    if work.part is None:
        return _unjudged(count, target, notes)
    if lacking(work):
        text = f"no verdict: the job as asked does not fit {work.count:g} x {work.part.id}"
        return _unjudged(count, target, [*notes, text])
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
    short = lacking(work)
    same = None if short else one(PRESENT)
    return Suggestion(
        action="change-hardware",
        target=target.id,
        count=work.count,
        verdict="not-feasible" if short else "no-reliable-difference",
        basis="rule" if short else "direct",
        time_ratio=same,
        energy_ratio=same,
        carbon_ratio=same,
        saved_g=work.saved_g(same),
        operating_point="as now",
        reasons=["this is the present part", *short],
        sources=(_catalog(target),),
    )


def _judged(work: Work, target: Hardware, found: Prediction, notes: list[str]) -> Suggestion:
    now = work.part
    assert now is not None
    if found.time is None:
        return _unjudged(work.count, target, [*found.reasons, *notes])
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
        break_even_hours=break_even(work, target, energy, reasons),
        operating_point=found.point,
        reasons=reasons,
        sources=(*found.sources, _catalog(now), _catalog(target)),
    )


def _unjudged(count: float, target: Hardware, reasons: list[str]) -> Suggestion:
    return Suggestion(
        action="change-hardware",
        target=target.id,
        count=count,
        verdict="unknown",
        basis="none",
        reasons=reasons,
        sources=(_catalog(target),),
    )


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
        "hours": work.lifetime.scaled(HOURS_PER_YEAR, "h"),
    }

    def formula(at: Mapping[str, float]) -> float:
        new = at["operational"] * at["energy"] + at["target"] / at["hours"] * at["time"]
        return new / (at["operational"] + at["now"] / at["hours"])

    reasons.append(_making(inputs))
    grid = work.intensity
    source = f"operational and embodied at {grid.value:.0f} gCO2e/kWh ({grid.source})"
    return ratio_of(formula, inputs, source)


def _making(inputs: Mapping[str, Quantity]) -> str:
    """Embodied carbon beside the electricity, in words."""
    hours, electricity = inputs["hours"].value, inputs["operational"].value
    whole = [inputs[name].value for name in ("now", "target")]
    now, then = (f"{made / G_PER_KG:.0f} kg" for made in whole)
    rates = " and ".join(f"{made / hours:.3g}" for made in whole)
    return (
        f"making counts too: {now} CO2e a device with its share of a host now, {then} then. Over a "
        f"life of {hours / HOURS_PER_YEAR:g} years that is {rates} g an hour, beside "
        f"{electricity:.3g} g an hour for electricity now"
    )


def _prices(work: Work, target: Hardware) -> list[str]:
    provider = provider_of(work.question)
    if provider is None:
        return []
    price = price_of(work.catalog, provider, target.id)
    whole = whole_machines(work.catalog, provider, target, work.count)
    return [text for text in (price, whole) if text]


def _figures(time: Quantity, energy: Quantity | None) -> str:
    """The ratios in words, first of the reasons."""
    text = f"{time.value:.2g} times as long ({time.low:.2g} to {time.high:.2g})"
    if energy is None:
        return text
    return f"{text}, {energy.value:.2g} times the energy ({energy.low:.2g} to {energy.high:.2g})"


def _end(ratio: float) -> str:
    """An end of a range, never rounded to 1 when it is not."""
    text = f"{ratio:.2f}"
    return f"{ratio:.4g}" if text == "1.00" and ratio != 1 else text


def _says(verdict: str, carbon: Quantity | None) -> str:
    if carbon is None:
        return "without an energy or embodied figure there is no carbon verdict"
    ends = f"{_end(carbon.low)} to {_end(carbon.high)}"
    return {
        "lower": f"the whole 80 % range of the carbon ratio, {ends}, lies below 1",
        "higher": f"the whole 80 % range of the carbon ratio, {ends}, lies above 1",
    }.get(
        verdict, f"the 80 % range of the carbon ratio, {ends}, holds 1: no saving can be promised"
    )


def _catalog(part: Hardware) -> str:
    return f"catalog {part.id} ({', '.join(part.sources.all)})"
