"""What the actions share: a change with known ratios, one without any, and its carbon."""

from __future__ import annotations

from gramwatt.sci.advice.actions.host_power import with_host
from gramwatt.sci.advice.actions.ownership import kept
from gramwatt.sci.advice.documents import Action, Suggestion, verdict_of
from gramwatt.sci.advice.prediction.ratio_range import Values, ratio_of
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.quantity import Quantity


def with_ratios(
    work: Work,
    action: Action,
    *,
    time: Quantity,
    energy: Quantity,
    reasons: list[str],
    point: str,
    count: float | None = None,
    board: bool = False,
) -> Suggestion:
    """A suggestion on the present part with known time and energy ratios.

    `board` says that the energy is that of the devices alone, and the host's follows from the time.
    """
    devices = work.count if count is None else count
    if board and work.part is not None:
        share = devices / work.count
        energy = with_host(work, work.part, time, energy, moves=False, devices=share)
    carbon = _carbon_ratio(work, time, energy, devices / work.count)
    return Suggestion(
        action=action,
        verdict=verdict_of(carbon),
        basis="rule",
        count=devices,
        time_ratio=time,
        energy_ratio=energy,
        carbon_ratio=carbon,
        saved_g=work.saved_g(carbon),
        operating_point=point,
        reasons=reasons,
        sources=(time.source, energy.source),
    )


def without_ratios(work: Work, action: Action, reasons: list[str], *sources: str) -> Suggestion:
    """An action that applies, without a figure that could be defended."""
    return Suggestion(
        action=action,
        verdict="unknown",
        basis="rule",
        count=work.count,
        reasons=reasons,
        sources=sources,
    )


def _carbon_ratio(work: Work, time: Quantity, energy: Quantity, devices: float) -> Quantity | None:
    """(O e + M t n) / (O + M) with n the ratio of device counts; M stays for owned devices."""
    operational, embodied = work.operational_g_h, work.embodied_g_h
    if operational is None or embodied is None:
        return None
    if work.ownership != "rented":
        return kept(work, energy)
    inputs = {"time": time, "energy": energy, "O": operational, "M": embodied}

    def formula(at: Values) -> float:
        new = at["O"] * at["energy"] + at["M"] * at["time"] * devices
        return new / (at["O"] + at["M"])

    return ratio_of(formula, inputs, f"{energy.source}; embodied {embodied.source}")
