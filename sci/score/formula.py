"""The formulas of the standard on plain numbers, each a small function named for what it returns.

The engine works on `Quantity` and gives the same middles; worked examples of the standard, of its
guide and of Impact Framework are checked against these. Whatever has no meaning is refused with
ScoreError: a negative term, a share above one, a life of zero, R of zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from gramwatt.sci.base.errors import ScoreError
from gramwatt.sci.base.units import S_PER_HOUR

WH_PER_KWH = 1_000.0
FLOP_PER_PARAMETER_TOKEN = 6.0
"""Forward and backward pass of dense training, per parameter and token (arXiv:2001.08361, 2.1)."""

Span = tuple[datetime, datetime, float]
"""An amount over [start, end)."""


def energy_kwh(power_w: float, hours: float, count: float = 1.0) -> float:
    """E [kWh] of `count` devices that draw a mean power [W] for `hours` [h]."""
    return _known("power", power_w) * _known("hours", hours) * _known("count", count) / WH_PER_KWH


def operational_g(energy_kwh: float, intensity_g_per_kwh: float, pue: float = 1.0) -> float:
    """O = E x I x PUE [gCO2e]; E is IT energy [kWh], I [gCO2e/kWh] (SCI specification v1.1)."""
    if _known("PUE", pue) < 1:
        raise ScoreError(f"PUE is at least 1, not {pue}", code="bad-pue")
    return _known("E", energy_kwh) * _known("I", intensity_g_per_kwh) * pue


def embodied_g(te_g: float, tir: float, el: float, rr: float = 1.0, tor: float = 1.0) -> float:
    """M = TE x TiR/EL x RR/ToR [gCO2e]; TiR and EL in one unit, RR at most ToR."""
    if _known("EL", el) == 0 or _known("ToR", tor) == 0:
        raise ScoreError("EL and ToR must be above zero", code="bad-share")
    if not 0 < _known("RR", rr) <= tor:
        raise ScoreError(f"RR/ToR must be above 0 and at most 1, not {rr}/{tor}", code="bad-share")
    return _known("TE", te_g) * (_known("TiR", tir) / el) * (rr / tor)


def sci_score(operational_g: float, embodied_g: float, units: float) -> float:
    """SCI = (O + M) / R [gCO2e/unit]; R of zero gives an error, never C and never 0."""
    if _known("R", units) == 0:
        raise ScoreError("R must be above zero", code="bad-functional-unit")
    return (_known("O", operational_g) + _known("M", embodied_g)) / units


def aggregate_sci(parts: Iterable[tuple[float, float]]) -> float:
    """sum(C) / sum(R) [gCO2e/unit] of (C [g], R) pairs: never the mean of the pairs' ratios."""
    pairs = list(parts)
    carbon = math.fsum(_known("C", c) for c, _ in pairs)
    return sci_score(carbon, 0.0, math.fsum(_known("R", r) for _, r in pairs))


def training_device_hours(
    parameters: float, tokens: float, peak_flop_per_s: float, utilisation: float
) -> float:
    """6 x N x D / (peak x utilisation) [h] of one device at its dense peak rate [FLOP/s]."""
    rate = _known("peak", peak_flop_per_s) * _known("utilisation", utilisation)
    if rate == 0:
        raise ScoreError("peak rate and utilisation must be above zero", code="bad-rate")
    operations = FLOP_PER_PARAMETER_TOKEN * _known("N", parameters) * _known("D", tokens)
    return operations / rate / S_PER_HOUR


def interpolated(x: float, curve: Sequence[tuple[float, float]]) -> float:
    """The value at `x` on straight lines between the points (x, y), which rise in x.

    Raises ScoreError outside the curve: nothing is known there.
    """
    _known("x", x)
    for (x0, y0), (x1, y1) in zip(curve, curve[1:], strict=False):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    raise ScoreError(f"{x} lies outside the curve", code="outside-curve")


def on_grid(spans: Iterable[Span], edges: Sequence[datetime]) -> list[float]:
    """Each span's amount shared by time among the steps between `edges`.

    Amounts are conserved: what lies inside the grid is counted once, what lies outside is not.
    """
    sums = [0.0] * (len(edges) - 1)
    for start, end, amount in spans:
        length = (end - start).total_seconds()
        for step, share in _overlaps(start, end, edges):
            sums[step] += amount * share / length
    return sums


def mean_on_grid(spans: Iterable[Span], edges: Sequence[datetime]) -> list[float | None]:
    """Time-weighted mean of a rate, such as intensity, in each step; None where it is not known."""
    weights = [0.0] * (len(edges) - 1)
    sums = [0.0] * (len(edges) - 1)
    for start, end, value in spans:
        for step, seconds in _overlaps(start, end, edges):
            weights[step] += seconds
            sums[step] += value * seconds
    return [s / w if w else None for s, w in zip(sums, weights, strict=True)]


def _overlaps(
    start: datetime, end: datetime, edges: Sequence[datetime]
) -> Iterable[tuple[int, float]]:
    if end <= start:
        raise ScoreError("a span must end after it starts", code="empty-span")
    for step, (left, right) in enumerate(zip(edges, edges[1:], strict=False)):
        seconds = (min(end, right) - max(start, left)).total_seconds()
        if seconds > 0:
            yield step, seconds


def _known(name: str, value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ScoreError(f"{name} is not a finite number: {value!r}", code="not-a-number")
    if value < 0:
        raise ScoreError(f"{name} cannot be negative: {value}", code="negative")
    return value
