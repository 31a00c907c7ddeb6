"""How much work a suggestion is, by what has to be done; the levels are judgements."""

from __future__ import annotations

from collections.abc import Mapping

from gramwatt.sci.advice.constraints.availability import rented_only
from gramwatt.sci.advice.constraints.slices import split_name
from gramwatt.sci.advice.constraints.support import porting_notes
from gramwatt.sci.advice.documents import Action, Effort, Suggestion
from gramwatt.sci.advice.work import Work

EFFORTS: Mapping[Action, Effort] = {
    "keep": Effort("low", "nothing changes"),
    "power-cap": Effort("low", "one command of an administrator, which can be taken back"),
    "mixed-precision": Effort("low", "a setting of the framework; compare the loss"),
    "batching": Effort("low", "a setting of the server; answers take longer"),
    "fewer-nodes": Effort("low", "a setting of the launcher; the run takes longer"),
    "shift-time": Effort("low", "the run starts later"),
    "stop-idle": Effort("medium", "reservations have to end when nothing runs"),
    "share": Effort("medium", "jobs have to be put together and watched"),
    "consolidate": Effort("medium", "jobs have to be put together and watched"),
    "quantise": Effort("medium", "weights are converted and the accuracy is tested"),
    "checkpoint": Effort("medium", "the program has to save and resume"),
    "spot": Effort("medium", "the program has to survive interruptions"),
    "shift-region": Effort("medium", "data and deployment move too"),
}


def effort_of(work: Work, one: Suggestion) -> Effort:
    """The effort of a suggestion; that of other hardware by how it is had and by its software."""
    if one.action != "change-hardware":
        return EFFORTS[one.action]
    if one.target == work.present_id and one.count == work.count:
        return EFFORTS["keep"]
    target = work.catalog.hardware(split_name(one.target or "")[0])
    if porting_notes(work.request, target):
        return Effort("high", "the program has to run on other software")
    if work.ownership == "to-buy":
        return Effort("high", "hardware is bought and installed")
    if work.rented or rented_only(target) or work.ownership == "rented":
        return Effort("low", "another instance is started")
    return Effort("medium", "the job moves to another machine")
