"""What the ways of running a job share: a measured change, a change nobody measured, its carbon."""

from __future__ import annotations

from collections.abc import Mapping

from gramwatt.sci.advice.documents import Action, Suggestion, verdict_of
from gramwatt.sci.advice.prediction.evidence import Evidence
from gramwatt.sci.advice.prediction.ratio_range import ratio_of
from gramwatt.sci.advice.prediction.rows import cited
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.quantity import Quantity

Values = Mapping[str, float]


def measured(
    work: Work,
    action: Action,
    figures: tuple[Quantity, Quantity],
    reasons: list[str],
    point: str,
    count: float | None = None,
) -> Suggestion:
    """A suggestion on the present part with known time and energy ratios."""
    time, energy = figures
    carbon = carbon_of(work, time, energy, (count or work.count) / work.count)
    return Suggestion(
        action=action,
        verdict=verdict_of(carbon),
        basis="rule",
        count=count or work.count,
        time_ratio=time,
        energy_ratio=energy,
        carbon_ratio=carbon,
        saved_g=work.saved_g(carbon),
        operating_point=point,
        reasons=reasons,
        sources=(time.source, energy.source),
    )


def carbon_of(work: Work, time: Quantity, energy: Quantity, devices: float) -> Quantity | None:
    """(O e + M t n) / (O + M) with n the ratio of device counts."""
    operational = work.operational_g_h()
    embodied = work.embodied_g_h(work.part) if work.part else None
    if operational is None or embodied is None:
        return None
    inputs = {"time": time, "energy": energy, "O": operational, "M": embodied}

    def formula(at: Values) -> float:
        new = at["O"] * at["energy"] + at["M"] * at["time"] * devices
        return new / (at["O"] + at["M"])

    return ratio_of(formula, inputs, f"{energy.source}; embodied {embodied.source}")


def untold(work: Work, action: Action, reasons: list[str], *sources: str) -> Suggestion:
    """A way that applies, without a figure that could be defended."""
    return Suggestion(
        action=action,
        verdict="unknown",
        basis="rule",
        count=work.count,
        reasons=reasons,
        sources=sources,
    )


def figure(found: Evidence, power: float = 1.0) -> Quantity:
    """Evidence as a ratio, to a power where it is spread over fewer doublings."""
    ends = (found.value**power, found.low**power, found.high**power)
    text = "; ".join(cited(key) for key in found.source.split(";"))
    return Quantity(*ends, "1", "measured", f"{text}: {found.pairs} pairs ({found.key})")
