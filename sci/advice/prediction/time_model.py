"""The fitted time model: how long the same work takes on another part, as a ratio."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from gramwatt.sci.advice.prediction.regression import Term, model_terms
from gramwatt.sci.advice.prediction.rows import WorkloadClass, table
from gramwatt.sci.advice.prediction.specs import RATES, Specs

ASSUMED_PRECISION = "fp16"
"""What a job of unknown precision is taken to run at; its range is that of unknown precision."""


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
    """Coefficients by term, as `gramwatt.sci.advice.prediction.regression` makes them."""

    terms: Mapping[Term, float]

    def log_time_ratio(self, setting: Setting, now: Specs, target: Specs) -> float | None:
        """ln(time on target / time now) for the same work; None where a figure is missing."""
        ends = [self._log_rate(setting, part) for part in (now, target)]
        if ends[0] is None or ends[1] is None:
            return None
        return ends[0] - ends[1]

    def measured(self, name: str, part: str) -> bool:
        """Whether the table holds measurements of that part in that class of work."""
        return ("part-class", name, part) in self.terms

    def _log_rate(self, setting: Setting, part: Specs) -> float | None:
        name, precision = setting.workload_class, setting.precision
        peak = part.peak(precision or ASSUMED_PRECISION)
        if not peak or not part.bandwidth_gbs or ("peak", name) not in self.terms:
            return None
        rate = RATES[precision] if precision else None
        stack = setting.stack if setting.known == "full" else None
        level = self.terms["peak", name] * math.log(peak)
        level += self.terms["bandwidth", name] * math.log(part.bandwidth_gbs)
        departures = model_terms(name, stack, rate, part.id)
        return level + sum(self.terms.get(term, 0.0) for term, _ in departures)


@cache
def shipped_model() -> TimeModel:
    """The model of `fit.csv`, which scripts/fit_throughput.py makes from `measurements.csv`."""
    terms: dict[Term, float] = {}
    for row in table("fit.csv"):
        cells = (row.text("term"), row.text("class"), row.text("within"), row.text("part"))
        terms[tuple(cell for cell in cells if cell)] = row.known("value")
    return TimeModel(terms)
