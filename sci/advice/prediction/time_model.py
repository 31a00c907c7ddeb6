"""The fitted time model: how long the same work takes on another part, as a ratio.

Every figure of a part (`Specs`) is the catalog's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from msgspec import field

from gramwatt.sci.advice.prediction.measurements import DataRow
from gramwatt.sci.advice.suggest_request import WorkloadClass
from gramwatt.sci.catalog.hardware import Hardware
from gramwatt.sci.figures.csv_data import Cell, rows

RATES: Mapping[str, str] = {
    **dict.fromkeys(("fp16", "bf16", "mixed", "q4", "int4"), "half"),
    **dict.fromkeys(("fp8", "int8", "fp4"), "eighth"),
    **dict.fromkeys(("tf32", "fp32", "unstated"), "single"),
    "fp32-cores": "plain",
}
"""Which peak rate a precision runs at. Four-bit weights compute in half precision; FP4 results are
few and count with the 8-bit rate. FP32 of measurements counts with TF32 where the part has it, as
in the containers that they ran in; so do rows that do not state it (the Zeus trace)."""
POSSIBLE: Mapping[str | None, tuple[str, ...]] = {
    None: ("half", "single", "plain"),
    "fp32": ("single", "plain"),
}
"""Rates that a request may run at where its precision does not say which: FP32 runs on TF32 units
only where the framework switches them on, as vendors' containers do and PyTorch by default does for
convolutions, not for matrix products (PyTorch, CUDA semantics, TensorFloat-32)."""
TENSOR_ONLY = 4.0
"""Half over single peak rate above which the single rate is that of plain cores: TF32 is half."""
FITTED_CLASSES = frozenset(("training", "batch-inference", "decode", "prefill", "recsys"))
"""Small jobs do not follow specifications; LLM serving follows its software (direct rows only)."""
APART = math.log(1.25)
"""Distance of the ratios at two possible rates from which on it matters which one runs."""


@dataclass(frozen=True, slots=True)
class Specs:
    """Peak dense rates [TFLOPS], bandwidth [GB/s] and rated power [W]; None where not known."""

    id: str
    half: float | None
    eighth: float | None
    single: float | None
    bandwidth_gbs: float | None
    tdp_w: float | None
    plain: float | None = None
    """FP32 on plain cores, which is `single` on parts without TF32."""

    @property
    def has_tf32(self) -> bool:
        """Tell whether single precision runs on the matrix engine: at half the rate of 16 bits."""
        return bool(self.half and self.single and self.half / self.single < TENSOR_ONLY)

    def peak(self, precision: str) -> float | None:
        """Return the peak rate [TFLOPS] of a precision, the next wider one where it lacks."""
        return self.rate(RATES[precision])

    def rate(self, name: str) -> float | None:
        """Return a peak rate [TFLOPS] by its name in `RATES`, the next wider one where it lacks."""
        order = {
            "half": (self.half, self.single),
            "eighth": (self.eighth, self.half, self.single),
            "single": (self.single, self.half),
            "plain": (self.plain, self.single, self.half),
        }
        return next((rate for rate in order[name] if rate), None)


def specs_of(part: Hardware) -> Specs:
    """Return the figures of a catalog part."""
    return Specs(
        part.id,
        part.fp16_tensor_tflops or part.bf16_tensor_tflops,
        max(part.fp8_tflops or 0.0, part.int8_tops or 0.0) or None,
        part.tf32_tflops or part.fp32_tflops,
        part.memory_bandwidth_gbs,
        part.tdp_w,
        part.fp32_tflops,
    )


class Term(NamedTuple):
    """A coefficient, as a line of `fit.csv` names it: its kind and what it belongs to.

    `within` is the software stack or the peak rate of a departure that holds for these only.
    """

    kind: str
    workload_class: str = ""
    within: str = ""
    part: str = ""


def departures(name: str, stack: str | None, rate: str | None, part: str) -> list[Term]:
    """Return a part's departures from its specifications, but for an unknown stack or rate."""
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
        """Return which range applies: "full", "precision" (no stack), "plain" (neither)."""
        if self.precision is None:
            return "plain"
        return "full" if self.stack else "precision"

    @property
    def rates(self) -> tuple[str, ...]:
        """Return the peak rates at which the work may run."""
        if self.precision in POSSIBLE:
            return POSSIBLE[self.precision]
        return (RATES[self.precision or ""],)

    def crosses(self, now: Specs, target: Specs) -> bool:
        """Tell whether the rates of the work move between a part with matrix units and one without.

        How much TF32 brings depends on the kind of model more than on the part, and at an unknown
        precision so does half precision.
        """
        if self.precision is None:
            return apart([_log_peaks(rate, now, target) for rate in self.rates])
        return RATES[self.precision] == "single" and now.has_tf32 != target.has_tf32


def apart(logs: Sequence[float]) -> bool:
    """Tell whether logarithms lie so far apart that it matters which one holds."""
    return max(logs) - min(logs) > APART


def _log_peaks(rate: str, now: Specs, target: Specs) -> float:
    peaks = now.rate(rate), target.rate(rate)
    return math.log(peaks[0] / peaks[1]) if peaks[0] and peaks[1] else 0.0


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Coefficients by term."""

    terms: Mapping[Term, float]

    def log_time_ratios(self, setting: Setting, now: Specs, target: Specs) -> list[float]:
        """Return ln(time on target / time now) at each rate that the work may run at."""
        found = []
        for rate in setting.rates:
            logs = [self._log_rate(setting, rate, part) for part in (now, target)]
            if logs[0] is not None and logs[1] is not None:
                found.append(logs[0] - logs[1])
        return found

    def _log_rate(self, setting: Setting, rate: str, part: Specs) -> float | None:
        """Return ln(rate) of a part but for the level of the work, which a ratio does not need."""
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


class Fit(DataRow, frozen=True, kw_only=True):
    """A coefficient of the fit."""

    files = ("fit.csv",)
    key = ("term", "workload_class", "within", "part")

    term: Cell
    workload_class: str = field(name="class", default="")
    within: str = ""
    part: str = ""
    value: float


@cache
def shipped_model() -> TimeModel:
    """Return the model of `fit.csv`, which benchmarks/suggestions makes from `measurements.csv`."""
    return TimeModel(
        {Term(row.term, row.workload_class, row.within, row.part): row.value for row in rows(Fit)}
    )
