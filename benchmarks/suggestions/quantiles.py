"""Quantiles of measured ratios."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Return the value below which a fraction (0 to 1) of ordered figures lies, interpolated."""
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
