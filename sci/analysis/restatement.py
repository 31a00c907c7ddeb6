"""Why a month's carbon differs from what was reported: the bridge from an old total to a new one.

Every score of a job is kept with why it was made. So the change of a month is the sum of the steps
from score to score of each job, and each step has one cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from gramwatt.sci.analysis.trail import RestatementStep
from gramwatt.sci.base.document import CorrectionDoc, JobDoc
from gramwatt.sci.base.quantity import Quantity

Cause = Literal[
    "late-records", "corrected", "intensity", "catalog", "engine", "settings", "deleted"
]
CAUSES: tuple[Cause, ...] = get_args(Cause)
"""What a step is due to, in the order of the bridge."""
BY_PEOPLE = ("corrected", "deleted")
REASONS_MOST = 5
"""Versions and settings that a step names."""
SOURCE = "difference of two scores; its ends are the differences of theirs, as they share errors"


class Grams(NamedTuple):
    """Carbon of a job in a month [gCO2e]: value and ends of its range."""

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def less(self, other: Grams) -> Grams:
        """Return the change from `other` to this."""
        return Grams(*(a - b for a, b in zip(self, other, strict=True)))


def grams_in(job: JobDoc, month: str, project: str | None = None) -> Grams:
    """Return what a job adds to the sums of a month (YYYY-MM), of all projects or of one."""
    if job["excluded"] is not None or project not in (None, job["project"]):
        return Grams()
    days = [day for day in job["days"] if day["day"].startswith(month)]
    terms = [day[term] for day in days for term in ("operational_g", "embodied_g")]
    known = [figure for figure in terms if figure is not None]
    value, low, high = (
        math.fsum(figure[end] for figure in known) for end in ("value", "low", "high")
    )
    whole = job["total_g"]
    if whole is not None and len(days) == len(job["days"]):
        low, high = whole["low"], whole["high"]
    return Grams(value, min(low, value), max(high, value))


class Why(NamedTuple):
    """What a step from one score to the next is due to: person and day where one declared it."""

    cause: Cause
    what: str
    reason: str | None = None
    person: str | None = None
    day: str | None = None


def why(before: JobDoc | None, after: JobDoc, made_for: str) -> Why:
    """Return what the step to a score is due to; `made_for` is why the score was made.

    A step has one cause, also where versions changed with it: they are named then.
    """
    if before is None:
        return Why("late-records", "a job that came later")
    changes = _versions(before, after)
    declared = after["corrections"][len(before["corrections"]) :]
    if declared:
        last = declared[-1]
        what = "; ".join([*map(_declared, declared), *changes.values()])
        return Why("corrected", what, last["reason"], last["by"], last["at"][:10])
    texts = "; ".join(changes.values())
    if made_for == "late-records":
        return Why("late-records", "; ".join(filter(None, ["lines that came later", texts])))
    if made_for == "intensity" or not changes:
        return Why("intensity", "; ".join(filter(None, ["intensity known better", texts])))
    return Why(
        next(cause for cause in ("settings", "engine", "catalog") if cause in changes), texts
    )


def _versions(before: JobDoc, after: JobDoc) -> dict[Cause, str]:
    """Return what two scores were made with that differs, in words, by cause."""
    old, new = before["method"], after["method"]
    found: dict[Cause, list[str]] = {"settings": [], "engine": [], "catalog": []}
    lives = [side["lifetime_years"]["value"] for side in (old, new)]
    if lives[0] != lives[1]:
        found["settings"].append(f"lifetime {lives[0]:g} -> {lives[1]:g} years")
    zones = [side.get("time_zone", "UTC") for side in (old, new)]
    if zones[0] != zones[1]:
        found["settings"].append(f"days of {zones[0]} -> {zones[1]}")
    for cause, versions in (
        ("engine", (old["engine_version"], new["engine_version"])),
        ("catalog", (old["catalog_version"], new["catalog_version"])),
    ):
        if versions[0] != versions[1]:
            found[cause].append(f"{cause} {versions[0]} -> {versions[1]}")  # type: ignore[index]
    return {cause: "; ".join(texts) for cause, texts in found.items() if texts}


def _declared(row: CorrectionDoc) -> str:
    return f"{row['field']} {_shown(row['old'])} -> {_shown(row['value'])}"


def _shown(value: Any) -> str:
    if value is None:
        return "undeclared"
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)


@dataclass
class Bridge:
    """The steps of a restatement, added job by job."""

    _steps: dict[tuple[Any, ...], _Step] = field(default_factory=dict)

    def add(self, of: Why, job_id: str, change: Grams, day: str) -> None:
        """Add a job's change for a cause; what people did stands by person, reason and day."""
        alone = of[2:] if of.cause in BY_PEOPLE else ()
        step = self._steps.setdefault((of.cause, *alone), _Step(of))
        step.jobs[job_id] = None
        step.changes.append(change)
        step.whats[of.what] = None
        step.day = max(step.day, of.day or day)

    def steps(self, change_g: float) -> list[RestatementStep]:
        """Return the steps in the order of `CAUSES`; they sum to the change [gCO2e] exactly.

        What rounding leaves, up to a billionth of the largest step, is in that step. Steps that
        change no gram are left out.
        """
        steps = [step for step in self._ordered() if any(map(any, step.changes))]
        values = [math.fsum(change.value for change in step.changes) for step in steps]
        rest = change_g - math.fsum(values)
        if steps:
            largest = max(range(len(steps)), key=lambda n: abs(values[n]))
            if abs(rest) <= 1e-9 * abs(values[largest]):
                values[largest] += rest
        return [step.doc(value) for step, value in zip(steps, values, strict=True)]

    def _ordered(self) -> Iterable[_Step]:
        return sorted(self._steps.values(), key=lambda s: (CAUSES.index(s.of.cause), s.day))


@dataclass
class _Step:
    of: Why
    jobs: dict[str, None] = field(default_factory=dict)
    changes: list[Grams] = field(default_factory=list)
    whats: dict[str, None] = field(default_factory=dict)
    day: str = ""

    def doc(self, value: float) -> RestatementStep:
        low, high = (math.fsum(getattr(c, end) for c in self.changes) for end in ("low", "high"))
        ends = min(low, high, value), max(low, high, value)
        whats = list(self.whats)
        more = [f"{len(whats) - REASONS_MOST} more"] if len(whats) > REASONS_MOST else []
        return {
            "cause": self.of.cause,
            "what": "; ".join([*whats[:REASONS_MOST], *more]),
            "change_g": Quantity(value, *ends, "gCO2e", "derived", SOURCE).to_doc(),
            "jobs": sorted(self.jobs),
            "reason": self.of.reason,
            "person": self.of.person,
            "day": self.day,
        }
