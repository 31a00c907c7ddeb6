"""The fitted time model: how long the same work takes on another part, as a ratio."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from gramwatt.sci.advice.prediction.measurements import table
from gramwatt.sci.advice.prediction.specs import RATES, Specs
from gramwatt.sci.advice.request import WorkloadClass

FITTED_CLASSES = frozenset(("training", "batch-inference", "decode", "prefill", "recsys"))
"""Small jobs do not follow specifications; LLM serving follows its software (direct rows only)."""
ASSUMED_PRECISION = "fp16"
"""What a job of unknown precision is taken to run at; its range is that of unknown precision."""


class Term(NamedTuple):
    """A coefficient, as a line of `fit.csv` names it: its kind and what it belongs to.

    `within` is the software stack or the peak rate of a departure that holds for these only.
    """

    kind: str
    workload_class: str = ""
    within: str = ""
    part: str = ""


def departures(name: str, stack: str | None, rate: str | None, part: str) -> list[Term]:
    """Departures of a part from its specifications, those of an unknown stack or rate left out."""
    terms = [Term("part", "", "", part), Term("part-class", name, "", part)]
    if stack is not None:
        terms.append(Term("part-stack", name, stack, part))
    if rate is not None:
        terms.append(Term("part-rate", name, rate, part))
    return terms


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of the work: its class, software stack and precision; None where unknown."""

    workload_class: WorkloadClass
    stack: str | None
    precision: str | None

    @property
    def known(self) -> str:
        """Which range applies: "full", "precision" without the stack, "plain" without either."""
        if self.precision is None:
            return "plain"
        return "full" if self.stack else "precision"

    def crosses(self, now: Specs, target: Specs) -> bool:
        """Whether single precision moves between a part with TF32 units and one without.

        How much TF32 brings depends on the kind of model more than on the part.
        """
        single = self.precision is not None and RATES[self.precision] == "single"
        return single and now.has_tf32 != target.has_tf32


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Coefficients by term."""

    terms: Mapping[Term, float]

    def log_time_ratio(self, setting: Setting, now: Specs, target: Specs) -> float | None:
        """ln(time on target / time now) for the same work; None where a figure is missing."""
        rate_now, rate_target = self._log_rate(setting, now), self._log_rate(setting, target)
        if rate_now is None or rate_target is None:
            return None
        return rate_now - rate_target

    def _log_rate(self, setting: Setting, part: Specs) -> float | None:
        """ln(rate) of a part but for the level of the work, which a ratio does not need."""
        name, precision = setting.workload_class, setting.precision
        peak = part.peak(precision or ASSUMED_PRECISION)
        slope = self.terms.get(Term("peak", name))
        if not peak or not part.bandwidth_gbs or slope is None:
            return None
        level = slope * math.log(peak)
        level += self.terms[Term("bandwidth", name)] * math.log(part.bandwidth_gbs)
        rate = RATES[precision] if precision else None
        stack = setting.stack if setting.known == "full" else None
        return level + sum(
            self.terms.get(term, 0.0) for term in departures(name, stack, rate, part.id)
        )


@cache
def shipped_model() -> TimeModel:
    """The model of `fit.csv`, which benchmarks/suggestions makes from `measurements.csv`."""
    columns = ("term", "class", "within", "part")
    return TimeModel(
        {
            Term(*(row.text(column) for column in columns)): row.known("value")
            for row in table("fit.csv")
        }
    )
