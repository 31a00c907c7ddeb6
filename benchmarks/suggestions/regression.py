"""Fit of the time model: log(units/s) of a part as a sum of terms shrunk towards their priors.

    log rate = level of the group + a x log(peak) + b x log(bandwidth)       per workload class
             + part + part in class + part in class and stack + part in class and precision

The last line holds the departures of a part from what its specifications say. Each is a normal
variable around zero with the variance of `VARIANCES`, so that a part measured once moves little.
Group levels and the departures of one workload family on one part are fitted and thrown away: they
keep many rows of one workload from counting as many witnesses. A ratio of two parts needs neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gramwatt.sci.advice.prediction.measurements import Measurement
from gramwatt.sci.advice.prediction.time_model import FITTED_CLASSES, RATES, Specs, Term, departures

SLOPES: Mapping[str, float] = {"peak": 0.35, "bandwidth": 0.50}
"""Prior means of the exponents: a plain fit of the training rows, the largest class."""

VARIANCES: Mapping[str, float] = {
    "peak": 0.2,
    "bandwidth": 0.2,
    "part": 0.01,
    "part-class": 0.01,
    "part-stack": 0.02,
    "part-rate": 0.02,
    "part-family": 0.02,
    "group": 100.0,
}
NOISE = 0.01
"""Variances of the natural logarithm. Eight settings between half and five times these were tried:
the median error stayed within 13 to 14 %, the 90th percentile within 42 to 44 %."""


class Nuisance(NamedTuple):
    """A fitted coefficient that no prediction uses."""

    kind: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """One row ready to fit: logarithms of rate [unit/s], peak [TFLOPS] and bandwidth [GB/s]."""

    row: Measurement
    log_rate: float
    log_peak: float
    log_bandwidth: float

    def factors(self) -> dict[Term | Nuisance, float]:
        """The factor of each coefficient in this row's rate."""
        row = self.row
        touched = departures(row.workload_class, row.stack, RATES[row.precision], row.hardware)
        return {
            Nuisance("group", row.group): 1.0,
            Nuisance("part-family", (row.family, row.stack, row.hardware)): 1.0,
            **dict.fromkeys(touched, 1.0),
            Term("peak", row.workload_class): self.log_peak,
            Term("bandwidth", row.workload_class): self.log_bandwidth,
        }


def observations(rows: Iterable[Measurement], specs: Mapping[str, Specs]) -> list[Observation]:
    """Rows of fitted classes whose group holds at least two parts with known specifications."""
    usable = []
    for row in rows:
        peak = specs[row.hardware].peak(row.precision)
        bandwidth = specs[row.hardware].bandwidth_gbs
        if row.use == "time" and row.workload_class in FITTED_CLASSES and peak and bandwidth:
            logs = (math.log(figure) for figure in (row.units_per_s, peak, bandwidth))
            usable.append(Observation(row, *logs))
    parts: dict[tuple[str, ...], set[str]] = {}
    for observation in usable:
        parts.setdefault(observation.row.group, set()).add(observation.row.hardware)
    return [observation for observation in usable if len(parts[observation.row.group]) > 1]


def fit(rows: Sequence[Observation]) -> dict[Term, float]:
    """The coefficients that predictions need: posterior means of a linear Gaussian model.

    With priors N(m, V) and noise n they are m + V X' (X V X' + n I)^-1 (y - X m), a system of one
    equation a row (Rasmussen and Williams, Gaussian Processes for Machine Learning, section 2.1).
    """
    factors = [row.factors() for row in rows]
    columns = {column: at for at, column in enumerate(dict.fromkeys(c for f in factors for c in f))}
    design = np.zeros((len(rows), len(columns)))
    for line, touched in zip(design, factors, strict=True):
        line[[columns[column] for column in touched]] = list(touched.values())
    priors = np.array([SLOPES.get(column.kind, 0.0) for column in columns])
    weighted = design * [VARIANCES[column.kind] for column in columns]
    covariance = weighted @ design.T + NOISE * np.eye(len(rows))
    residuals = np.array([row.log_rate for row in rows]) - design @ priors
    means = priors + weighted.T @ np.linalg.solve(covariance, residuals)
    return {
        column: float(mean)
        for column, mean in zip(columns, means, strict=True)
        if isinstance(column, Term)
    }
