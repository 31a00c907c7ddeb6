"""A job document as flat figures for experiment trackers. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FIGURES = ("energy_kwh", "operational_g", "embodied_g", "total_g")
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


def flat(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of a document by name, each with `_low` and `_high`, if known.

    `co2e_g_per_UNIT` and `count_UNIT` for each functional unit; energy and carbon of each window,
    of several with one name the last; `conforming` is 1 for a score that
    is an SCI, with or without listed deviations, else 0.
    """
    figures: dict[str, float] = {}
    for name in FIGURES:
        _add(figures, name, document.get(name))
    for item in document.get("sci") or ():
        unit = "".join(char if char in _SAFE else "_" for char in str(item["unit"]))
        figures[f"gramwatt/count_{unit}"] = float(item["count"])
        _add(figures, f"co2e_g_per_{unit}", item.get("g_per_unit"))
    for window in document.get("windows") or ():
        name = "".join(char if char in _SAFE or char == "/" else "_" for char in window["name"])
        for figure in ("energy_kwh", "total_g"):
            _add(figures, f"window/{name}/{figure}", window.get(figure))
    if document.get("duration_s") is not None:
        figures["gramwatt/duration_s"] = float(document["duration_s"])
    if document.get("conformance"):
        figures["gramwatt/conforming"] = float(document["conformance"] != "not-sci")
    return figures


def _add(figures: dict[str, float], name: str, figure: Mapping[str, float] | None) -> None:
    if figure is not None:
        for end, suffix in (("value", ""), ("low", "_low"), ("high", "_high")):
            figures[f"gramwatt/{name}{suffix}"] = float(figure[end])
