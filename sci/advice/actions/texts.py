"""Suggestions as texts: those that never have a figure, and how much work each change is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gramwatt.sci.advice.constraints.availability import rented_only
from gramwatt.sci.advice.constraints.support import porting_notes
from gramwatt.sci.advice.documents import Action, EffortDoc, Suggestion, verdict_of
from gramwatt.sci.advice.prediction.ratio_range import unchanged
from gramwatt.sci.advice.work import Work
from gramwatt.sci.figures.quantity import Quantity

ON_PROCESSORS = ("sklearn", "scikit-learn", "pandas", "numpy", "scipy", "statsmodels", "nltk")
"""Libraries that compute on processors."""
IN_TURN = ("llama.cpp", "mlx", "ollama")
"""Frameworks for one user, which put layers on several devices that work one after another."""
LONG_JOB_DEVICE_HOURS = 24.0
"""From here on a job is long (rule 56; a choice, not measured)."""
EFFORTS: Mapping[Action, EffortDoc] = {
    "keep": EffortDoc(level="low", reason="nothing changes"),
    "power-cap": EffortDoc(
        level="low", reason="one command of an administrator, which can be taken back"
    ),
    "mixed-precision": EffortDoc(
        level="low", reason="a setting of the framework; compare the loss"
    ),
    "batching": EffortDoc(level="low", reason="a setting of the server; answers take longer"),
    "fewer-nodes": EffortDoc(level="low", reason="a setting of the launcher; the run takes longer"),
    "stop-idle": EffortDoc(level="medium", reason="reservations have to end when nothing runs"),
    "leave-device": EffortDoc(
        level="low", reason="the job starts on a machine without accelerators"
    ),
    "share": EffortDoc(level="medium", reason="jobs have to be put together and watched"),
    "consolidate": EffortDoc(level="medium", reason="jobs have to be put together and watched"),
    "quantise": EffortDoc(
        level="medium", reason="weights are converted and the accuracy is tested"
    ),
    "checkpoint": EffortDoc(level="medium", reason="the program has to save and resume"),
    "spot": EffortDoc(level="medium", reason="the program has to survive interruptions"),
    "shift-region": EffortDoc(level="medium", reason="data and deployment move too"),
}
"""How much work a change is and what has to be done; the levels are judgements."""


@dataclass(frozen=True, slots=True)
class Text:
    """An action that applies under a condition, with what is said of it."""

    action: Action
    applies: Callable[[Work], bool]
    reasons: tuple[str, ...]
    carbon: Quantity | None = None
    sources: tuple[str, ...] = ()


TEXTS = (
    Text(
        "checkpoint",
        lambda work: (
            work.classified.name == "training" and work.device_hours >= LONG_JOB_DEVICE_HOURS
        ),
        (
            "lost work is emitted twice: save checkpoints and resume from them (rule 64)",
            "how often such jobs are interrupted is not known, so no saving is claimed",
        ),
    ),
    Text(
        "spot",
        lambda work: work.classified.name == "training" and work.rented,
        (
            "spot capacity costs less money and no less carbon; no carbon is credited (rule 57)",
            "work lost at an interruption adds carbon: use it with checkpoints only",
        ),
        unchanged("the same hardware draws the same power"),
        ("rule 57", "rule 59"),
    ),
)


def texts(work: Work) -> list[Suggestion]:
    """Return the actions of the table that apply to the job."""
    return [
        by_rule(work, text.action, text.carbon, text.reasons, sources=text.sources, saved_g=None)
        for text in TEXTS
        if text.applies(work)
    ]


def by_rule(
    work: Work, action: Action, carbon: Quantity | None, reasons: Sequence[str], **rest: Any
) -> Suggestion:
    """Return a suggestion that rests on a rule, with the verdict of its carbon ratio."""
    saved = work.saved_g(carbon)
    given = {"count": work.count, "basis": "rule", "saved_g": saved, **rest}
    return Suggestion(
        action=action, verdict=verdict_of(carbon), carbon_ratio=carbon, reasons=reasons, **given
    )


def effort_of(work: Work, one: Suggestion) -> EffortDoc:
    """Return the effort of a suggestion; for other hardware by how it is had and its software."""
    if one.action != "change-hardware":
        return EFFORTS[one.action]
    if one.target == work.present_id and one.count == work.count:
        return EFFORTS["keep"]
    target = one.board
    assert target is not None  # the action changes to it
    if porting_notes(work.request, target, work.part):
        return EffortDoc(level="high", reason="the program has to run on other software")
    if work.ownership == "to-buy":
        return EffortDoc(level="high", reason="hardware is bought and installed")
    if work.rented or rented_only(target) or work.ownership == "rented":
        return EffortDoc(level="low", reason="another instance is started")
    return EffortDoc(level="medium", reason="the job moves to another machine")
