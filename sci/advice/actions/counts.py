"""Fewer larger devices for the work of several: as an entry of its own, beside the same count."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from gramwatt.sci.advice.actions.host_power import with_host
from gramwatt.sci.advice.actions.ownership import judge
from gramwatt.sci.advice.constraints.memory import fit_notes
from gramwatt.sci.advice.documents import Suggestion
from gramwatt.sci.advice.prediction.ratio_range import ratio_of
from gramwatt.sci.advice.work import Work
from gramwatt.sci.base.quantity import Quantity
from gramwatt.sci.catalog.catalog import Hardware

SHOWN = 3
"""Entries for other counts."""
SCALING = Quantity(
    0.95,
    0.8,
    1.0,
    "1",
    "estimated",
    "share of the speed of single devices that several reach together; one waits for none",
)
IN_TURN = ("llama.cpp", "mlx")
"""Frameworks that put layers on several devices, which then work one after another."""


def other_counts(work: Work, compared: Iterable[Suggestion]) -> list[Suggestion]:
    """The parts of which fewer do the same work, best first; each with its count."""
    if work.count < 2 or work.pace.waits or work.classified.name in ("small", "llm-serving"):
        return []
    found = [_fewer(work, one) for one in compared if one.board_energy and one.target]
    known = [one for one in found if one is not None and one.verdict in LISTED]
    known.sort(key=lambda one: one.carbon_ratio.value if one.carbon_ratio else 1.0)
    return known[:SHOWN]


LISTED = ("lower", "no-reliable-difference")
"""Verdicts that are worth an entry of their own."""


def _fewer(work: Work, one: Suggestion) -> Suggestion | None:
    """The same part in the number that does the work in about the same time."""
    part, time, board = work.catalog.hardware(one.target or ""), one.time_ratio, one.board_energy
    if time is None or board is None or not part.memory_gb or work.need is None:
        return None
    turns = _in_turn(work)
    count = 1.0 if turns else max(1.0, float(math.ceil(work.count * time.value)))
    if work.need.each_gib is None:
        count = max(count, float(work.need.devices(part.memory_gb)))
    if count >= work.count or not work.need.fits(part.memory_gb, count):
        return None
    return _judged(work, part, one, time, board, count, turns=turns)


def _judged(
    work: Work,
    part: Hardware,
    one: Suggestion,
    time: Quantity,
    board: Quantity,
    count: float,
    *,
    turns: bool,
) -> Suggestion:
    share = count / work.count
    speed = 1.0 if turns else 1 / share
    inputs = {"time": time, "scaling": SCALING}
    longer = ratio_of(lambda at: at["time"] * speed * (at["scaling"] if not turns else 1.0), inputs)
    boards = ratio_of(
        lambda at: at["board"] * speed * share * (at["scaling"] if not turns else 1.0),
        {"board": board, "scaling": SCALING},
    )
    energy = with_host(work, part, longer, boards, devices=share)
    judgement = judge(work, part, longer, energy, count)
    how = (
        "several devices work one after another here, and one does it alone"
        if turns
        else f"{count:g} do the work of {work.count:g}, with more accumulated steps or batches"
    )
    return replace(
        one,
        count=count,
        verdict=judgement.verdict,
        by_ownership=judgement.by_ownership,
        time_ratio=longer,
        energy_ratio=energy,
        carbon_ratio=judgement.carbon,
        saved_g=work.saved_g(judgement.carbon),
        break_even_hours=judgement.break_even.hours,
        operating_point=f"{count:g} instead of {work.count:g} devices",
        reasons=[how, *fit_notes(work.need, part, count), *judgement.reasons],
    )


def _in_turn(work: Work) -> bool:
    """Whether several devices serve one sequence after another."""
    split = (work.request.framework or "").lower() in IN_TURN
    return split and work.classified.name == "decode"
