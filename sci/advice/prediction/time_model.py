"""The fitted time model: how long the same work takes on another part, as a ratio."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from gramwatt.sci.advice.prediction.measurements import table
from gramwatt.sci.advice.prediction.specs import POSSIBLE, RATES, Specs
from gramwatt.sci.advice.request import WorkloadClass

FITTED_CLASSES = frozenset(("training", "batch-inference", "decode", "prefill", "recsys"))
"""Small jobs do not follow specifications; LLM serving follows its software (direct rows only)."""
APART = math.log(1.25)
"""Distance of the ratios at two possible rates from which on it matters which one runs."""


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

    @property
    def rates(self) -> tuple[str, ...]:
        """The peak rates at which the work may run."""
        if self.precision in POSSIBLE:
            return POSSIBLE[self.precision]
        return (RATES[self.precision or ""],)

    def crosses(self, now: Specs, target: Specs) -> bool:
        """Whether the rates of the work move between a part with matrix units and one without.

        How much TF32 brings depends on the kind of model more than on the part, and at an unknown
        precision so does half precision.
        """
        if self.precision is None:
            return apart([_log_peaks(rate, now, target) for rate in self.rates])
        return RATES[self.precision] == "single" and now.has_tf32 != target.has_tf32


def apart(logs: Sequence[float]) -> bool:
    """Whether logarithms lie so far apart that it matters which one holds."""
    return max(logs) - min(logs) > APART


def _log_peaks(rate: str, now: Specs, target: Specs) -> float:
    peaks = now.rate(rate), target.rate(rate)
    return math.log(peaks[0] / peaks[1]) if peaks[0] and peaks[1] else 0.0


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Coefficients by term."""

    terms: Mapping[Term, float]

    def log_time_ratios(self, setting: Setting, now: Specs, target: Specs) -> list[float]:
        """ln(time on target / time now) at each rate that the work may run at."""
        found = []
        for rate in setting.rates:
            logs = [self._log_rate(setting, rate, part) for part in (now, target)]
            if logs[0] is not None and logs[1] is not None:
                found.append(logs[0] - logs[1])
        return found

    def _log_rate(self, setting: Setting, rate: str, part: Specs) -> float | None:
        """ln(rate) of a part but for the level of the work, which a ratio does not need."""
        name, peak = setting.workload_class, part.rate(rate)
        slope = self.terms.get(Term("peak", name))
        if not peak or not part.bandwidth_gbs or slope is None:
            return None
        level = slope * math.log(peak)
        level += self.terms[Term("bandwidth", name)] * math.log(part.bandwidth_gbs)
        known = None if setting.precision is None else rate
        stack = setting.stack if setting.known == "full" else None
        return level + sum(
            self.terms.get(term, 0.0) for term in departures(name, stack, known, part.id)
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
