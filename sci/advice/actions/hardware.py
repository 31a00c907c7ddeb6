"""The same work on another part or MIG slice: feasibility, time, energy, carbon, verdict.

Of slices there is no verdict: what one saves depends on what runs on the rest of its board.
"""

from __future__ import annotations

import math
from dataclasses import replace

from msgspec import structs

from gramwatt.sci.advice.actions.host_power import linked, wall_energy, with_host
from gramwatt.sci.advice.actions.ownership import judge
from gramwatt.sci.advice.actions.present import fewest_devices
from gramwatt.sci.advice.constraints.availability import availability_notes, rental_notes
from gramwatt.sci.advice.constraints.memory import fit_notes, shortfall
from gramwatt.sci.advice.constraints.support import porting_notes, precision_notes, refusals
from gramwatt.sci.advice.documents import Suggestion, Verdict
from gramwatt.sci.advice.prediction.bottleneck import same_rate
from gramwatt.sci.advice.prediction.measurements import evidence
from gramwatt.sci.advice.prediction.predict import (
    metered_vendors,
    power_exponent,
    power_factor,
    predict,
    steady_factor,
)
from gramwatt.sci.advice.prediction.ratio_range import (
    Prediction,
    Values,
    factor_range,
    ratio_of,
    unchanged,
)
from gramwatt.sci.advice.prediction.workload import (
    SMALL_POWER_SHARE,
    mean_power_share,
    speed_class,
)
from gramwatt.sci.advice.work import Work
from gramwatt.sci.catalog.catalog import Hardware
from gramwatt.sci.catalog.slices import Slice
from gramwatt.sci.figures.quantity import Quantity
from gramwatt.sci.score.location import in_data_centre

POWERED_VENDORS = ("NVIDIA", "AMD", "Intel")
"""Vendors whose parts' power follows from their rated power; of the others nothing was found."""
UNMETERED = 1.25
"""Further x/÷ factor of energy where no part of the vendor was metered (an estimate)."""
UNMEASURED_KINDS = ("other", "data-prep")
"""Kinds of jobs that may be anything."""
USUALLY_LOW = ("recsys", "small")
"""Classes that were measured at little power."""
ON_SLICES = ("batch-inference", "recsys")
"""Classes that were measured on slices (MLPerf Inference, full load)."""


def compare(work: Work, target: Hardware | Slice) -> Suggestion:
    """Return the suggestion for one part at the present device count, or for one slice."""
    if work.part is not None and target.id == work.present_id:
        return _present(work, target)
    board, part = _boards(target)
    count = work.count if isinstance(target, Slice) else fewest_devices(work, part)
    unjudged = Suggestion(
        action="change-hardware",
        target=target.id,
        on=target,
        count=count,
        verdict="unknown",
        basis="none",
        sources=(_cited(board),),
    )
    reasons = refusals(work.request, board, work.offered) + shortfall(work.need, part, count)
    if reasons:
        return replace(unjudged, verdict="not-feasible", basis="rule", reasons=reasons)
    fits = fit_notes(work.need, part, count)
    if isinstance(target, Slice):
        return _to_slice(work, target, replace(unjudged, reasons=fits))
    notes = [
        *fits,
        *porting_notes(work.request, target, work.part),
        *precision_notes(work.request, target),
        *availability_notes(work.catalog, target, provider_known=work.request.cloud is not None),
    ]
    return _compared(work, target, replace(unjudged, reasons=notes), notes)


def _boards(target: Hardware | Slice) -> tuple[Hardware, Hardware]:
    """Return the board of a target, and what of it the job may use."""
    if not isinstance(target, Slice):
        return target, target
    own = structs.replace(target.board, id=target.id, memory_gb=target.memory_gib)
    return target.board, own


def _compared(work: Work, target: Hardware, unjudged: Suggestion, notes: list[str]) -> Suggestion:
    """Return the suggestion for a part that can take the job."""
    if work.part is None:
        return unjudged
    if work.misfit:
        text = f"no verdict: the job as asked does not fit {work.count:g} x {work.part.id}"
        return replace(unjudged, reasons=[*notes, text])
    if work.slice:
        return _from_slice(work, work.slice, target, unjudged)
    refusal = _no_ratio(work)
    if refusal:
        return replace(unjudged, reasons=[refusal, *notes])
    prediction = predict(work.described, work.part, target, work.own)
    from_own_runs = prediction.basis == "direct" and work.classified.name != "llm-serving"
    if (work.bottleneck.waits or work.classified.name == "small") and not from_own_runs:
        return _kept_pace(work, work.part, target, unjudged, notes)
    if prediction.time is None:
        return replace(unjudged, reasons=[*prediction.reasons, *notes])
    if _is_guess(work, work.part, target, prediction):
        text = (
            f"no verdict: decoding on a card of a desk and on {target.id} was not measured in the "
            "same software; give framework and precision"
        )
        unjudged = replace(unjudged, time_ratio=prediction.time, basis=prediction.basis)
        return replace(unjudged, reasons=[text, *prediction.reasons, *notes])
    return _judged(work, work.part, target, prediction, notes, keeps_pace=from_own_runs)


def _is_guess(work: Work, now: Hardware, target: Hardware, prediction: Prediction) -> bool:
    """Tell whether decoding moves between desk and data centre on the model of a class alone."""
    apart = in_data_centre(now) != in_data_centre(target)
    return work.classified.name == "decode" and apart and prediction.basis == "class-model"


def _no_ratio(work: Work) -> str | None:
    """Return why no measurement of models speaks for this job; None where some may."""
    request = work.request
    if work.impossible:
        return f"no verdict: {work.impossible}; check mean_power_w (of one device) and hardware"
    if request.precision == "fp64":
        return (
            "no measurement of FP64 work on several parts was found, and time ratios of models do "
            "not hold for it"
        )
    if request.kind in UNMEASURED_KINDS and request.workload_class is None:
        return (
            f"kind {request.kind} may be any work: time ratios of models do not hold for it. Give "
            "workload_class where it is one of these classes"
        )
    return None


def _present(work: Work, target: Hardware | Slice) -> Suggestion:
    what = "slice" if isinstance(target, Slice) else "part"
    same = None if work.misfit else unchanged(f"the present {what} over itself")
    return Suggestion(
        action="change-hardware",
        target=target.id,
        on=target,
        count=work.count,
        verdict="not-feasible" if work.misfit else "no-reliable-difference",
        basis="rule" if work.misfit else "direct",
        time_ratio=same,
        energy_ratio=same,
        carbon_ratio=same,
        saved_g=work.saved_g(same),
        operating_point="as now",
        reasons=[f"this is the present {what}", *work.misfit],
        sources=(_cited(_boards(target)[0]),),
    )


def _kept_pace(
    work: Work, now: Hardware, target: Hardware, unjudged: Suggestion, notes: list[str]
) -> Suggestion:
    """Return the target at the rate that something else than the devices sets."""
    speed = replace(work.described, workload_class=speed_class(work.request, work.classified.name))
    full = predict(speed, now, target, work.own)
    if full.time is None:
        return replace(unjudged, reasons=[*full.reasons, *notes])
    power = work.power_w
    same = power and same_rate(power.value, work.request.utilisation, now, target, full.time)
    if not same:
        return replace(unjudged, reasons=["power at the same rate is not known", *notes])
    why = work.bottleneck.reason if work.bottleneck.waits else work.classified.reason
    enough = same.needed.value <= 1
    reason = (
        f"{why}, so the devices do not set the pace: compared at the same rate, of which the work "
        f"takes {same.needed.value:.0%} ({same.needed.low:.0%} to {same.needed.high:.0%}) of the "
        f"target's time{'' if enough else ': too slow to keep up'}"
    )
    prediction = replace(
        full,
        time=same.time,
        energy=same.energy,
        basis="class-model",
        point="same rate, the host does the same work",
        reasons=(reason,),
    )
    return _judged(work, now, target, prediction, notes, keeps_pace=True)


def _judged(
    work: Work,
    now: Hardware,
    target: Hardware,
    prediction: Prediction,
    notes: list[str],
    *,
    keeps_pace: bool,
) -> Suggestion:
    """Return a prediction's verdict; `keeps_pace` where its time is that of the job's own pace."""
    assert prediction.time is not None
    reasons = [*prediction.reasons, *notes]
    time = prediction.time
    if not keeps_pace:
        time = linked(work, target, _widen_at_low_power(work, target, time, reasons), reasons)
    board = prediction.energy or _board_energy(work, now, target, time, reasons)
    energy = with_host(work, target, time, board, moves=not keeps_pace) if board else None
    if not keeps_pace:
        energy = wall_energy(work, target, time) or energy
    judgement = judge(work, target, time, energy, work.count)
    reasons += judgement.reasons
    reasons.append(_verdict_reason(judgement.verdict, judgement.carbon, energy))
    if work.request.cloud is not None:
        reasons += rental_notes(work.catalog, work.request.cloud, target, work.count)
    return Suggestion(
        action="change-hardware",
        target=target.id,
        on=target,
        count=work.count,
        verdict=judgement.verdict,
        by_ownership=judgement.by_ownership,
        board_energy=board,
        basis=prediction.basis,
        time_ratio=time,
        energy_ratio=energy,
        carbon_ratio=judgement.carbon,
        saved_g=work.saved_g(judgement.carbon),
        break_even_hours=judgement.break_even.hours,
        operating_point=prediction.point,
        reasons=[_ratios_reason(time, energy), *reasons, *judgement.break_even.reasons],
        sources=(*prediction.sources, _cited(now), _cited(target)),
    )


def _widen_at_low_power(
    work: Work, target: Hardware, time: Quantity, reasons: list[str]
) -> Quantity:
    """Return the time ratio, with 1 in its range where it is in doubt that time follows the parts.

    That is so at little power for the class, and where the target idles at more than the present
    part draws: then a part that would have to be fed faster may wait instead.
    """
    power, share = work.request.mean_power_w, mean_power_share(work.request, work.part)
    if power is None or share is None or work.bottleneck.declared:
        return time
    idles_higher = target.idle is not None and target.idle.value > power
    if idles_higher and target.idle:
        reasons.append(
            f"{target.id} idles at {target.idle.value:g} W, more than the whole mean power now: "
            "nothing is promised unless the job keeps it busy"
        )
    elif share >= SMALL_POWER_SHARE or work.classified.name in USUALLY_LOW:
        return time
    else:
        reasons.append(
            f"mean power is {share:.0%} of rated power: how far time follows the parts is in "
            "doubt. Say pace (throughput, requests, input or host)"
        )
    low, high = min(time.low, 1 / steady_factor()), max(time.high, steady_factor())
    return time.between(low, high)


def _board_energy(
    work: Work, now: Hardware, target: Hardware, time: Quantity, reasons: list[str]
) -> Quantity | None:
    """Return the energy ratio of the devices, by their rated powers and the same share of them.

    `reasons` gets what makes it uncertain, or why it is None.
    """
    unknown = [part.id for part in (now, target) if part.vendor not in POWERED_VENDORS]
    unknown += [part.id for part in (now, target) if part.tdp_w is None]
    if unknown or not now.tdp_w or not target.tdp_w:
        names = ", ".join(dict.fromkeys(unknown))
        reasons.append(f"no published measurement of the power of {names} under load was found")
        return None
    factor = power_factor(work.classified.name, now, target)
    if any(part.vendor not in metered_vendors() for part in (now, target)):
        factor *= UNMETERED
        reasons.append("no part of one vendor was metered under load: its range is wider")
    power = math.pow(target.tdp_w / now.tdp_w, power_exponent(work.classified.name))
    if target.idle and work.power_w:  # a part draws at least its idle power
        power = max(power, target.idle.low / work.power_w.value)
    source = (
        f"time ratio x power ratio {power:.2f} by rated powers, 80 % "
        f"within x/÷ {factor:.2f} on measured board power"
    )
    inputs = {"time": time, "power": factor_range(power, factor, source)}
    return ratio_of(lambda at: at["time"] * at["power"], inputs, source)


def _ratios_reason(time: Quantity, energy: Quantity | None) -> str:
    """Return the ratios in words, first of the reasons."""
    text = f"{time.value:.2g} times as long ({time.low:.2g} to {time.high:.2g})"
    if energy is None:
        return text
    return f"{text}, {energy.value:.2g} times the energy ({energy.low:.2g} to {energy.high:.2g})"


def _verdict_reason(verdict: Verdict, carbon: Quantity | None, energy: Quantity | None) -> str:
    if energy is None:
        return "without an energy figure there is no carbon verdict"
    if carbon is None:
        return "without carbon of the present run, or its hours, there is no verdict"
    ends = f"{_end(carbon.low)} to {_end(carbon.high)}"
    if verdict == "no-reliable-difference":
        return f"the 80 % range of the carbon ratio, {ends}: no saving can be promised"
    side = "below" if verdict == "lower" else "above"
    return f"the whole 80 % range of the carbon ratio, {ends}, lies {side} 1"


def _end(ratio: float) -> str:
    """Return an end of a range, never rounded to 1 when it is not."""
    text = f"{ratio:.2f}"
    return f"{ratio:.4g}" if text == "1.00" and ratio != 1 else text


def _cited(part: Hardware) -> str:
    return f"catalog {part.id} ({', '.join(part.sources)})"


def _to_slice(work: Work, target: Slice, fitting: Suggestion) -> Suggestion:
    """Return a slice as target, which holds the job: its time where that was measured."""
    if work.part is None or work.misfit:
        return fitting
    reasons = [
        _no_verdict(target),
        *fitting.reasons,
        _keeps_up(work, target),
        "its share of idle power and embodied carbon is small only with other jobs on the board: "
        "see share",
    ]
    time = _slice_time(work, target.board, target)
    return _timed(replace(fitting, reasons=[text for text in reasons if text]), time)


def _from_slice(work: Work, now: Slice, target: Hardware, unjudged: Suggestion) -> Suggestion:
    """Return a whole part, for a job that runs on a slice: its time."""
    text = _no_verdict(now)
    if target.id == now.board.id:
        text = f"this is the board of the present slice. {text}"
    hint = (
        "For the whole board give its id, with power, memory and busy share of all that runs on it"
    )
    time = _slice_time(work, target, None)
    return _timed(replace(unjudged, reasons=[f"{text}. {hint}", *unjudged.reasons]), time)


def _no_verdict(one: Slice) -> str:
    return (
        f"no verdict: {one.name} is a slice of {one.board.id}, whose power other slices draw too, "
        "and no measurement tells it by slice"
    )


def _timed(judged: Suggestion, time: Quantity | None) -> Suggestion:
    if time is None:
        return judged
    return replace(judged, time_ratio=time, basis="class-model", operating_point="full load")


def _slice_time(work: Work, board: Hardware, target: Slice | None) -> Quantity | None:
    """Return the time ratio to a board or a slice of it; None where slices were not measured."""
    now = work.part
    if now is None or work.classified.name not in ON_SLICES or work.bottleneck.waits:
        return None
    if work.request.precision == "fp64":
        return None  # of which no models were measured
    inputs: dict[str, Quantity] = {"board": unchanged("the same board")}
    if board.id != now.id:
        whole = predict(work.described, now, board, work.own).time
        if whole is None:
            return None
        inputs["board"] = whole
    for name, piece in (("now", work.slice), ("then", target)):
        if piece is not None:
            found = evidence(f"slice:{piece.board.id}:{piece.name}", "time")
            if found is None:
                return None
            inputs[name] = found.ratio()

    def formula(at: Values) -> float:
        return at["board"] * at.get("then", 1.0) / at.get("now", 1.0)

    return ratio_of(formula, inputs)


def _keeps_up(work: Work, target: Slice) -> str:
    """Return whether the slice is enough for the present busy share of the same board."""
    busy, now = work.request.utilisation, work.part
    if busy is None or now is None or work.slice or now.id != target.board.id:
        return ""
    enough = "enough for" if busy <= target.share else "less than"
    return f"it has {target.share:.0%} of the processors: {enough} the busy share of {busy:.0%}"
